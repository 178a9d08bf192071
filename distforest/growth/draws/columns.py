"""Draws: the projections that an open node tries. They depend on the node's random stream alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from distforest.forest.frontier import Frontier
from distforest.growth.draws.column_weights import ColumnWeights, column_at
from distforest.growth.rng import Keys, below, mix, unit
from distforest.jit import kernel
from distforest.sources.source import Floats, Int32s, Ints, Projections, offsets

COLUMN_TRIES = 32
"""How often in a row a candidate may draw a column that it has, until it draws no more."""


class Draw(Protocol):
    """Candidate projections of open nodes; a node without a cut draws again, ``attempts`` times in all."""

    @property
    def width(self) -> int:
        """Candidates of a node in one attempt."""

    @property
    def attempts(self) -> int:
        """How often a node may draw."""

    def __call__(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """The candidates of each node of ``frontier``, from ``keys``, the nodes' streams, shape (n_nodes,).

        A width of 0 says that no node can draw any more.
        """


class Terms(NamedTuple):
    """Room for the columns of candidates and their weights, which a draw fills candidate by candidate.

    Attributes
    ----------
    size
        Number of columns of each candidate, shape (n_candidates,).
    columns, weights
        Columns and their weights, shape (most,): room for those of all candidates.
    """

    size: Ints
    columns: Int32s
    weights: Floats

    @classmethod
    def room(cls, n_candidates: int, most: int) -> Terms:
        """Room for ``most`` columns of so many candidates."""
        return cls(np.empty(n_candidates, np.int64), np.empty(most, np.int32), np.empty(most))

    def projections(self, width: int, filled: int) -> Projections:
        """The candidates, ``width`` for each node, of which ``filled`` columns are drawn in all."""
        return Projections(width, offsets(self.size), self.columns[:filled], self.weights[:filled])


@dataclass(frozen=True)
class Axis:
    """Single columns, ``width`` at a time along a random order of all ``n_columns``, until they are used up."""

    n_columns: int
    width: int

    @property
    def attempts(self) -> int:
        """The number of attempts in which a node tries every column."""
        return -(-self.n_columns // self.width)

    def __call__(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """Entries attempt * width, ... of each node's order of the columns."""
        first = attempt * self.width
        return self._entries(frontier, keys, first, min(self.width, self.n_columns - first))

    def rest(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """The candidates of this attempt and of all later ones, in their order."""
        first = attempt * self.width
        return self._entries(frontier, keys, first, self.n_columns - first)

    def _entries(self, frontier: Frontier, keys: Keys, first: int, width: int) -> Projections:
        """So many entries of each node's order of the columns, from the one numbered ``first`` on."""
        columns = np.empty((frontier.n_nodes, width), np.int32)
        axis_columns(keys, self.n_columns, first, columns)
        n = frontier.n_nodes * width
        return Projections(width, np.arange(n + 1, dtype=np.int64), columns.reshape(-1), np.ones(n))


@dataclass(frozen=True)
class Among:
    """Single columns among some ``columns``, shape (n,): those at the places that ``places`` draws."""

    places: Axis
    columns: Int32s

    @property
    def width(self) -> int:
        """That of the places."""
        return self.places.width

    @property
    def attempts(self) -> int:
        """That of the places."""
        return self.places.attempts

    def __call__(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """The columns at the places of each node."""
        drawn = self.places(frontier, keys, attempt)
        return drawn._replace(columns=self.columns[drawn.columns])


@kernel
def axis_columns(keys: Keys, n_columns: int, first: int, columns: Int32s) -> None:
    """Entries first, first + 1, ... of a Fisher-Yates shuffle of 0..n_columns-1, one shuffle for each key."""
    order = np.arange(n_columns)
    swapped = np.empty(n_columns, np.int64)
    last = first + columns.shape[1]
    for f in range(keys.shape[0]):
        for t in range(last):
            swapped[t] = t + below(keys[f], t, n_columns - t)
            order[t], order[swapped[t]] = order[swapped[t]], order[t]
        for t in range(first, last):
            columns[f, t - first] = order[t]
        for t in range(last - 1, -1, -1):  # undo the swaps, so that a node takes ``last`` steps and not ``n_columns``
            order[t], order[swapped[t]] = order[swapped[t]], order[t]


@dataclass(frozen=True)
class Oblique:
    """Sparse sums of columns (SMERF, section 2; Tomita et al., SPORF).

    Each of the ``width`` candidates reads one column, and ``width * (combinations - 1)`` further columns (rounded)
    are dealt out among them at random; the columns of one candidate differ. A column's coefficient is +1 or -1; or it
    is normal, with a standard deviation of ``scales`` of the column, shape (n_columns,), since collinear columns would
    cancel exactly with signs alone.
    """

    columns: ColumnWeights
    width: int
    combinations: float
    scales: Floats | None = None
    attempts: int = 3

    def __call__(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """``width`` candidates for each node."""
        total = self.width + round(self.width * (self.combinations - 1.0))
        terms = Terms.room(frontier.n_nodes * self.width, frontier.n_nodes * total)
        scales = np.empty(0) if self.scales is None else self.scales
        filled = oblique_terms(keys, attempt, self.columns.cumulative, scales, self.width, terms)
        return terms.projections(self.width, filled)


@kernel
def oblique_terms(keys: Keys, attempt: int, cumulative: Floats, scales: Floats, width: int, terms: Terms) -> int:
    """Fill ``terms`` with the distinct columns of each candidate and their coefficients; returns how many in all.

    The number of columns of a candidate is drawn first. A candidate that draws only columns it has `COLUMN_TRIES` times
    in a row keeps those it has: the others may have a weight of 0.
    """
    size, columns, weights = terms
    extra = columns.shape[0] // keys.shape[0] - width if keys.shape[0] else 0
    filled = 0
    for f in range(keys.shape[0]):
        key = mix(keys[f] + np.uint64(attempt))
        drawn = 0
        n_columns = size[f * width : (f + 1) * width]
        n_columns[:] = 1
        for _ in range(extra):
            n_columns[below(key, drawn, width)] += 1
            drawn += 1
        for k in range(width):
            begin, tries = filled, 0
            while filled < begin + n_columns[k] and tries < COLUMN_TRIES:
                column = column_at(cumulative, unit(key, drawn))
                if column in columns[begin:filled]:
                    tries += 1
                else:
                    columns[filled] = column
                    weights[filled] = coefficient(key, drawn + 1, column, scales)
                    filled, tries = filled + 1, 0
                drawn += 3
            n_columns[k] = filled - begin
    return filled


@kernel
def coefficient(key: np.uint64, draw: int, column: int, scales: Floats) -> float:
    """+1 or -1; or, normal, scales[column] sqrt(-2 log(1 - u)) cos(2 pi v) (Box, Muller, 1958), u and v two draws."""
    u = unit(key, draw)
    if scales.shape[0] == 0:
        return 1.0 if u < 0.5 else -1.0
    return scales[column] * math.sqrt(-2.0 * math.log(1.0 - u)) * math.cos(2.0 * math.pi * unit(key, draw + 1))
