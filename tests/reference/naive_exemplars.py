"""Nodes of SimForest that are parted by one object of each class, in nested nodes and exact gains: no table, no chains.

A node has its exemplars and as many children. Ground: Lucas et al., Proximity Forest, 2019, and the methods page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tests.reference.naive import Cut, number, stream, unit
from tests.reference.naive_landmarks import pool_of
from tests.reference.naive_simforest import ATTEMPTS, MEASURE, Rules, Sample, best_cut, mass_and_sum, measure_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from tests.reference.naive import Integers, Matrix, Vector

MOST = 32  # how many exemplars a candidate has at most


class Parting(NamedTuple):
    """The exemplars of a node that are kept, the rows that go to each of them, and the gain with its magnitude."""

    exemplars: tuple[int, ...]
    sides: list[list[int]]
    gain: Fraction
    magnitude: Fraction


@dataclass
class NestedNode:
    """A node: `rows` are the in-bag rows that reached it, `masses` their weight by class, `own` is its number."""

    rows: list[int]
    depth: int
    n_rows: int
    masses: list[int]
    own: int = 0
    exemplars: tuple[int, ...] = ()
    children: list[NestedNode] = field(default_factory=list)
    gain: float = 0.0

    def all(self) -> Iterator[NestedNode]:
        """Yield the node and all below it."""
        yield self
        for child in self.children:
            yield from child.all()


def exemplars_of(sample: Sample, rows: Sequence[int], key: int, attempt: int, k: int) -> list[int]:
    """Return the first object of each class of `rows` in the order of candidate k, those of the least numbers first.

    The order is by unit(order, object), with the order's stream drawn from the node's stream, or the tree's if kept.
    With landmarks only those of the class in the node stand in it, or all of the class.
    """
    chooses = sample.order if sample.rules.pairing == "kept" else key
    order = number(chooses, attempt * sample.rules.width + k)
    found = []
    for c in sorted({int(sample.y[row]) for row in rows}):
        pool = pool_of(sample, rows, c) if sample.rules.landmarks else rows
        found.append(min((row for row in pool if sample.y[row] == c), key=lambda row: unit(order, row)))
    return sorted(found, key=lambda row: unit(order, row))[:MOST]


def measure_of(sample: Sample, key: int, attempt: int, k: int) -> int:
    """Return the measure of candidate k, drawn from the node's stream, or the tree's if kept; 0 of one."""
    if not sample.rules.measures:
        return 0
    chooses = sample.order if sample.rules.pairing == "kept" else key
    u = unit(chooses, MEASURE + attempt * sample.rules.width + k)
    return measure_at(u, [weight for weight, _ in sample.rules.measures])


def candidate_columns(sample: Sample, rows: Sequence[int], key: int, attempt: int, k: int) -> tuple[int, ...]:
    """Return the columns of M that candidate k reads: its exemplars by its measure."""
    first = measure_of(sample, key, attempt, k) * len(sample.y)
    return tuple(first + own for own in exemplars_of(sample, rows, key, attempt, k))


def nearest(similarity: Sequence[float]) -> int | None:
    """Return the place of the largest number, the first of equals; None if one is unobserved."""
    if any(math.isnan(own) for own in similarity):
        return None
    return max(range(len(similarity)), key=lambda place: (similarity[place], -place))


def sides_of(sample: Sample, rows: Sequence[int], columns: Sequence[int]) -> list[list[int]]:
    """Return the rows that go to each column; a row that lacks one of them goes nowhere."""
    sides: list[list[int]] = [[] for _ in columns]
    for row in rows:
        place = nearest([sample.entry(row, column) for column in columns])
        if place is not None:
            sides[place].append(row)
    return sides


def part(sample: Sample, rows: Sequence[int], columns: Sequence[int]) -> Parting | None:
    """Part rows by the columns to which enough of them go; None if fewer than two are left. A gain of 0 is enough."""
    if len(columns) < 2:
        return None
    least = sample.rules.min_samples_leaf
    enough = [sample.weight(side) >= least for side in sides_of(sample, rows, columns)]
    kept = tuple(column for column, is_kept in zip(columns, enough, strict=True) if is_kept)
    if len(kept) < 2:
        return None
    sides = sides_of(sample, rows, kept)
    seen = [row for side in sides for row in side]
    (m, total), *own = (mass_and_sum(sample, group) for group in (seen, *sides))
    inside = sum((total_c / m_c for m_c, total_c in own), Fraction(0))
    return Parting(kept, sides, total / m - inside, total / m + inside)


def best_parting(sample: Sample, rows: Sequence[int], key: int) -> Parting | None:
    """Return the parting of the largest gain of the first attempt that has one, the first of equals."""
    for attempt in range(ATTEMPTS):
        found = {}
        for k in range(sample.rules.width):
            columns = candidate_columns(sample, rows, key, attempt, k)
            parting = part(sample, rows, columns)
            if parting is not None:
                found[k] = parting
        cut = best_cut([Cut(k, 0.0, own.gain, own.magnitude) for k, own in found.items()])
        if cut is not None:
            return found[cut.candidate]._replace(gain=cut.gain)
    return None


def grow_nested(M: Matrix, y: Vector, w: Integers, seed: int, tree: int, rules: Rules) -> NestedNode:
    """Return the root of one tree over the rows with w > 0; row k of M reads object k."""
    return _grown(Sample(M, y, w, rules, order=stream(seed, tree, -2)), seed, tree)


def pairs_read(M: Matrix, y: Vector, w: Integers, seed: int, tree: int, rules: Rules) -> set[tuple[int, int]]:
    """Return the (row, column) that growing a tree reads: all rows of a node, all exemplars of its candidates."""
    sample = Sample(M, y, w, rules, order=stream(seed, tree, -2))
    _grown(sample, seed, tree)
    return sample.asked


def _grown(sample: Sample, seed: int, tree: int) -> NestedNode:
    """Return the root of a tree.

    A node draws from the stream of its number. Numbers go level by level: the nodes of a level, then k (k - 1) / 2 - 1
    for each of them that is parted by k exemplars, which no row and no draw ever sees.
    """
    root = _nested(sample, [row for row in range(len(sample.w)) if sample.w[row] > 0], 0)
    level, first = [root], 0
    while level:
        for own, node in enumerate(level):
            node.own = first + own
            _part_node(sample, node, stream(seed, tree, node.own))
        first += len(level) + sum(math.comb(len(node.exemplars), 2) - 1 for node in level if node.exemplars)
        level = [child for node in level for child in node.children]
    return root


def _part_node(sample: Sample, node: NestedNode, key: int) -> None:
    """Part a node if it may be parted, and if there is a parting."""
    rules = sample.rules
    is_pure = len({int(sample.y[row]) for row in node.rows}) == 1
    if is_pure or node.n_rows < rules.min_samples_split or node.depth == rules.max_depth:
        return
    found = best_parting(sample, node.rows, key)
    if found is not None:
        node.exemplars, node.gain = found.exemplars, float(found.gain)
        node.children = [_nested(sample, side, node.depth + 1) for side in found.sides]


def _nested(sample: Sample, rows: list[int], depth: int) -> NestedNode:
    """Return an open node."""
    n_classes = len(sample.rules.class_weight) or int(max(sample.y)) + 1
    masses = [sample.weight([row for row in rows if sample.y[row] == c]) for c in range(n_classes)]
    return NestedNode(rows, depth, sample.weight(rows), masses)


def end_of(root: NestedNode, x: Vector) -> NestedNode:
    """Return the node in which a row ends: to the nearest exemplar until it lacks a similarity, or to a leaf."""
    node = root
    while node.children:
        place = nearest([float(x[column]) for column in node.exemplars])
        if place is None:
            break
        node = node.children[place]
    return node


def shares_of(roots: Sequence[NestedNode], X: Matrix, class_weight: Sequence[int]) -> NDArray[np.float64]:
    """Return the class shares of rows, shape (m, K): the mean over the trees of c_k m_k / sum where a row ends."""
    answers = []
    for x in X:
        said = []
        for root in roots:
            masses = [c * m for c, m in zip(class_weight, end_of(root, x).masses, strict=True)]
            said.append([mass / sum(masses) for mass in masses])
        answers.append([sum(column) / len(roots) for column in zip(*said, strict=True)])
    return np.array(answers)
