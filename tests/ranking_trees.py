"""Ranking trees over a few pairs, and the same for the reference: what the tests of TreeRank share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from distforest.evaluation.roc import ROC
from distforest.forest.frontier import Frontier
from distforest.forest.node_table import NodeTable
from distforest.forest.pairs.pair_leaves import Ranks
from distforest.forest.pairs.pair_scores import tallied, walked
from distforest.forest.pairs.pair_walks import Walks
from distforest.growth.cuts.search import Limits
from distforest.growth.cuts.two_classes import TwoClasses
from distforest.growth.grower import Growth
from distforest.growth.pairs.pair_search import PairSearch
from distforest.growth.pairs.ranking_trees import LeafRank, Ranking, SmallTrees
from distforest.growth.pairs.square_search import square_candidates
from distforest.sources.point_pairs import PairColumns, PointPairs
from distforest.sources.source import Projections, offsets
from tests.reference import naive_trees_of_pairs as ref

NOTHING = TwoClasses(np.empty(0, np.uint8), np.empty((0, 2)))
REGIONS = {"diagonal": "difference_mean", "square": "max_min"}


@dataclass(frozen=True)
class InOrder:
    """Some columns in the order of their numbers, so that ties fall as in the reference."""

    columns: np.ndarray
    attempts: int = 1

    @property
    def width(self) -> int:
        return len(self.columns)

    def __call__(self, frontier: Frontier, keys: np.ndarray, attempt: int) -> Projections:
        n = frontier.n_nodes * self.width
        columns = np.tile(self.columns, frontier.n_nodes)
        return Projections(self.width, np.arange(n + 1, dtype=np.int64), columns, np.ones(n))


@dataclass(frozen=True)
class Asked:
    """How ranking trees are to grow."""

    depth: int = 3
    leafrank_depth: int = 2
    min_leaf: int = 1
    optimise_fpr: float | None = None
    square: bool = False

    def leafrank(self, pairs: PointPairs) -> LeafRank:
        """Small trees cut at any value."""
        candidates = square_candidates(pairs.columns) if self.square else np.arange(pairs.shape[1], dtype=np.int32)
        search = PairSearch.for_squares(None, pairs) if self.square else PairSearch(None)
        limits = Limits(2, self.min_leaf, self.leafrank_depth)
        return SmallTrees(Growth(pairs, InOrder(candidates), NOTHING, limits, 0, search), self.square)

    def expected(self, sample: ref.Sample) -> ref.Tree:
        """The reference's tree."""
        fpr = None if self.optimise_fpr is None else Fraction(self.optimise_fpr)
        small = ref.Limits(self.leafrank_depth, self.min_leaf)
        return ref.treerank(sample, ref.Ranking(self.depth, small, fpr))


@dataclass(frozen=True)
class Trees:
    """Pairs of some trees, numbered through, and the trees grown over them."""

    pairs: PointPairs
    codes: np.ndarray
    weights: np.ndarray
    starts: np.ndarray
    ranks: Ranks
    asked: Asked

    @classmethod
    def grown(
        cls,
        pairs: PointPairs,
        codes: np.ndarray,
        weights: np.ndarray,
        starts: np.ndarray,
        asked: Asked,
        leafrank: LeafRank | None = None,
    ) -> Trees:
        n = len(starts) - 1
        roots = Frontier(np.arange(n), np.zeros(n, np.int32), starts, np.arange(len(codes), dtype=np.int32), weights)
        limits = Limits(2, 1, asked.depth)
        ranking = Ranking(leafrank or asked.leafrank(pairs), limits, asked.optimise_fpr, 0)
        table, further = ranking.grow(np.arange(n), pairs, codes, roots)
        counts = np.empty((len(table.left), 2), np.int32)
        for tree in range(n):
            own, nodes = slice(*starts[tree : tree + 2]), slice(*table.tree_start[tree : tree + 2])
            some = pairs.of_pairs(pairs.left[own], pairs.right[own])
            counts[nodes] = tallied(table, tree, some, codes[own], weights[own])
        return cls(pairs, codes, weights, starts, Ranks(table, counts, further["scores"], "mean"), asked)

    @property
    def table(self) -> NodeTable:
        return self.ranks.table

    @property
    def n_trees(self) -> int:
        return len(self.starts) - 1

    def own(self, tree: int) -> tuple[PointPairs, np.ndarray, np.ndarray]:
        """Pairs, codes and weights of a tree."""
        own = slice(*self.starts[tree : tree + 2])
        pairs = self.pairs.of_pairs(self.pairs.left[own], self.pairs.right[own])
        return pairs, self.codes[own], self.weights[own]

    def sample(self, tree: int) -> ref.Sample:
        """A tree's pairs for the reference."""
        pairs, codes, weights = self.own(tree)
        squares = pairs.columns.n_features if pairs.columns.family == "max_min" else 0
        return ref.Sample(block(pairs), codes.tolist(), weights.tolist(), squares)

    def cells(self, tree: int, pairs: PointPairs | None = None) -> np.ndarray:
        """The place of the leaf in which each pair ends among the leaves, 0 for the best; the tree's own pairs."""
        ends = walked(Walks(self.table), tree, pairs or self.own(tree)[0])
        place = {leaf: i for i, leaf in enumerate(self.ranks.leaves_in_order(tree).tolist())}
        return np.array([place[end] for end in ends.tolist()])

    def curve(self, tree: int) -> ROC:
        """The tree's curve, a knot for each leaf."""
        counts = self.ranks.class_counts[self.ranks.leaves_in_order(tree)]
        return ROC.of_counts(counts[:, 0], counts[:, 1])


def block(pairs: PointPairs) -> np.ndarray:
    """All columns of all pairs."""
    n, width = pairs.shape
    return pairs.block(np.arange(n, dtype=np.int32), np.arange(width, dtype=np.int32))


def planted(
    seed: int,
    sizes: Sequence[int],
    asked: Asked,
    grid: int = 0,
    share: float = 0.5,
    blocks: Any = (),
    shape: tuple[int, int] = (12, 2),
) -> Trees:
    """Trees over random pairs of a few points, whose first coordinate has something to say."""
    rng = np.random.default_rng(seed)
    (n, p), m = shape, sum(sizes)
    size = (n, p + 2 * len(blocks))
    X = (rng.integers(-grid, grid, size) / 2 if grid else rng.normal(size=size)).astype(np.float32)
    pairs = PointPairs.from_points(PairColumns(REGIONS["square" if asked.square else "diagonal"], p, blocks), X, [])
    pairs = pairs.of_pairs(*(rng.integers(0, n, m).astype(np.int32) for _ in range(2)))
    far = np.abs(X[pairs.left, 0] - X[pairs.right, 0]) > 1
    codes = np.where(rng.random(m) < 0.7, far, rng.random(m) < share).astype(np.uint8)
    if share in (0.0, 1.0):
        codes[:] = share
    weights = rng.integers(1, 4, m).astype(np.int32)
    return Trees.grown(pairs, codes, weights, offsets(np.array(sizes)), asked)
