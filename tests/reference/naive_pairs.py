"""Slow reference of `distforest.sources.lazy.pairs`: dictionaries for a hash table, one coordinate at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distforest.sources.source import Projections

Pair = tuple[int, int]


@dataclass
class NaivePairs:
    """What is known of pairs, and how many more may be paid for (None: any number)."""

    row_object: list[int]
    column_object: list[int]
    symmetric: bool
    self_known: bool
    left: int | None = None
    known: dict[Pair, float] = field(default_factory=dict)
    paid: dict[Pair, float] = field(default_factory=dict)

    def pair(self, row: int, column: int) -> Pair | None:
        """The pair at a coordinate; None where it is known to be 0."""
        a, b = self.row_object[row], self.column_object[column]
        if self.self_known and a == b:
            return None
        return (min(a, b), max(a, b)) if self.symmetric else (a, b)

    def admit(self, rows: list[int], starts: list[int], projections: Projections) -> tuple[list[bool], list[Pair]]:
        """Which candidates are refused, and the pairs that are charged, first candidates of all nodes first."""
        width, charged = projections.width, []
        refused = [False] * (len(projections.offset) - 1)
        for k in range(width):
            for node in range(len(starts) - 1):
                candidate = node * width + k
                own: list[Pair] = []
                for e in range(projections.offset[candidate], projections.offset[candidate + 1]):
                    for r in range(starts[node], starts[node + 1]):
                        pair = self.pair(rows[r], int(projections.columns[e]))
                        if pair is not None and pair not in self.known and pair not in charged + own:
                            own.append(pair)
                if self.left is not None and len(own) > self.left:
                    refused[candidate] = True
                    continue
                charged += own
                if self.left is not None:
                    self.left -= len(own)
        for pair in charged:
            if pair in self.paid:
                self.known[pair] = self.paid[pair]
        return refused, charged

    def project(
        self, rows: list[int], starts: list[int], projections: Projections, refused: list[bool]
    ) -> list[list[float]]:
        """Sum of weight times value in the order of a candidate's columns; NaN for one that is refused."""
        values = [[math.nan] * len(rows) for _ in range(projections.width)]
        for node in range(len(starts) - 1):
            for k in range(projections.width):
                candidate = node * projections.width + k
                for r in range(starts[node], starts[node + 1]):
                    if not refused[candidate]:
                        total = 0.0
                        for e in range(projections.offset[candidate], projections.offset[candidate + 1]):
                            pair = self.pair(rows[r], int(projections.columns[e]))
                            total += float(projections.weights[e]) * (0.0 if pair is None else self.known[pair])
                        values[k][r] = total
        return values
