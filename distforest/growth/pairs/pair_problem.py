"""A problem whose rows are pairs of points: each tree has its own pairs, of which the forest keeps only counts.

The pairs of the trees that grow together have consecutive numbers::

    tree      0          1          2
    rows    [ 0 .. 99 | 100 .. 199 | 200 .. 299 ]      row r is a pair of points, its columns are computed when read

Neither the leaves nor the columns of pairs are kept. A forest holds the points, how often each tree drew each of them,
and the counts of its nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from distforest.forest.forest import Forest, Meaning, arrays_of_points
from distforest.forest.frontier import Frontier
from distforest.forest.node_table import NodeTable
from distforest.forest.pairs.held_out import Taught
from distforest.forest.pairs.pair_scores import tallied
from distforest.growth.cuts.two_classes import PLAIN, CostedImpurity, TwoClasses
from distforest.growth.grower import Growth
from distforest.growth.pairs.sampling import PairSampling
from distforest.growth.pairs.sparse_search import growth_over
from distforest.growth.problem import Contents, Data, put_together
from distforest.sources.point_pairs import PointPairs
from distforest.sources.source import Int32s, Ints, offsets
from distforest.sources.sparse_pairs import SparsePairs
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from distforest.growth.grower import LevelWatch

SPARSE_POINTS = {"objects": "point_values", "object_starts": "point_starts", "object_columns": "point_columns"}
"""The arrays in which a forest keeps sparse points, each with the name of the staged input that holds it."""


class PairGrowth(Protocol):
    """How trees grow over pairs."""

    def grow(
        self, trees: Ints, pairs: PointPairs | SparsePairs, codes: NDArray[np.uint8], roots: Frontier
    ) -> tuple[NodeTable, dict[str, np.ndarray]]:
        """Grow trees over the pairs of their roots; also return further arrays with an entry for each node.

        ``class_counts``, the weight of each class in each node, is among them where the growth has counted it.
        """

    def watched(self, watch: LevelWatch) -> PairGrowth:
        """Return a copy that calls ``watch`` for every level."""


@dataclass(frozen=True)
class Classifiers:
    """Trees that separate must-link from cannot-link pairs (RFD, section 2.3)."""

    growth: Growth
    impurity: CostedImpurity = PLAIN

    def grow(
        self, trees: Ints, pairs: PointPairs | SparsePairs, codes: NDArray[np.uint8], roots: Frontier
    ) -> tuple[NodeTable, dict[str, np.ndarray]]:
        """Grow the trees; also return the weight of each class in each node, which is counted level by level."""
        criterion = TwoClasses(codes, np.ones((len(trees), 2)), impurity=self.impurity)
        growth, levels = growth_over(self.growth, pairs, criterion), list[tuple[Ints, Ints]]()
        table = growth.grow_from(trees, roots, lambda level: levels.append((level.tree, criterion.counts(level))))
        by_level = np.concatenate([counts for _, counts in levels])
        order = np.argsort(np.concatenate([tree for tree, _ in levels]), kind="stable")  # as of the table
        return table, {"class_counts": by_level[order]}

    def watched(self, watch: LevelWatch) -> Classifiers:
        """Return a copy that calls ``watch`` for every level."""
        return replace(self, growth=replace(self.growth, watch=watch))


def pairs_taught_by(data: Data) -> Taught:
    """Return what data over pairs teach, for a calibration."""
    pairs = data.pairs if data.truth.kind == TruthKind.LINKS else None
    of_pairs = None if data.pair_weights is None else data.pair_weights.integers
    return Taught(data.truth.values, pairs, data.sample_weight, of_pairs)


@dataclass(frozen=True)
class PairProblem:
    """Points, which pairs each tree learns from, and how trees grow over them."""

    # meaning, data, n_trees: as of `Problem`
    meaning: Meaning
    data: Data
    n_trees: int
    points: PointPairs | SparsePairs  # the points and the columns of a pair; there are no pairs yet
    sampling: PairSampling  # which pairs each tree learns from
    growth: PairGrowth  # how a tree grows

    @property
    def n_rows(self) -> int:
        """Number of pairs of a tree, about."""
        return self.sampling.n_rows

    @property
    def width(self) -> int:
        """Number of candidates of a node whose values are in memory at once."""
        return 1

    def grow(self, trees: Ints) -> dict[str, np.ndarray]:
        """Grow the trees numbered ``trees``; return the arrays of a forest of these trees, by name."""
        samples = [self.sampling.sample(self.meaning.seed, tree) for tree in trees.tolist()]
        left, right = (np.concatenate([sample.pairs[:, side] for sample in samples]) for side in range(2))
        pairs, in_bag = self.points.of_pairs(left, right), np.stack([sample.in_bag for sample in samples])
        codes = np.concatenate([sample.codes for sample in samples])
        weights = np.concatenate([sample.weights for sample in samples])
        starts, n = offsets(np.array([len(sample.codes) for sample in samples])), len(trees)
        del samples  # as large as the arrays made of them
        roots = Frontier(np.arange(n), np.zeros(n, np.int32), starts, np.arange(starts[-1], dtype=np.int32), weights)
        table, further = self.growth.grow(trees, pairs, codes, roots)
        counts = np.empty((len(table.left), 2), np.int32)
        if "class_counts" in further:
            counts[:] = further.pop("class_counts")
        else:
            tally_trees(table, pairs, codes, roots, counts)
        table = replace(table, n_rows=counts.sum(axis=1, dtype=np.int64))
        return {**table.arrays(), "in_bag": in_bag, "class_counts": counts, **further}

    def watched(self, watch: LevelWatch) -> PairProblem:
        """Return a copy of the problem that calls ``watch`` for every level."""
        return replace(self, growth=self.growth.watched(watch))

    def contents(self, parts: Sequence[Mapping[str, int]]) -> Contents:
        """Describe the contents of a forest of some parts: the arrays of the parts, and the points."""
        weights = {} if self.data.sample_weights is None else {"sample_weight": "sample_weight"}
        points = SPARSE_POINTS if isinstance(self.points, SparsePairs) else {"objects": "matrix"}
        return Contents(self.meaning, list(parts[0]), {**points, **weights})

    def forest(self, parts: Sequence[dict[str, np.ndarray]]) -> Forest:
        """Join parts, each as `grow` returns it, into a forest, in the order of their trees; empties the parts."""
        arrays = put_together(parts, list(parts[0])) | arrays_of_points(self.points.points)
        if self.data.sample_weight is not None:
            arrays["sample_weight"] = self.data.sample_weight
        return Forest.from_arrays(self.meaning, arrays)


def tally_trees(
    table: NodeTable, pairs: PointPairs | SparsePairs, codes: NDArray[np.uint8], roots: Frontier, counts: Int32s
) -> None:
    """counts[node, s] = weight of class s in a node, as the pairs of each tree's root walk down; shape (N, 2)."""
    for tree in range(roots.n_nodes):
        rows, nodes = slice(*roots.starts[tree : tree + 2]), slice(*table.tree_start[tree : tree + 2])
        of_tree = pairs.of_pairs(pairs.left[rows], pairs.right[rows])
        counts[nodes] = tallied(table, tree, of_tree, codes[rows], roots.weights[rows])
