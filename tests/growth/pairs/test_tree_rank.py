"""Ranking trees against the paper's formulas: cells, ranks, areas; and what holds whatever parts their cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_curve

from distforest.errors import InputError
from distforest.forest.frontier import Frontier
from distforest.forest.pairs.pair_leaves import DEEPEST_CELL
from distforest.forest.pairs.pair_scores import walked
from distforest.forest.pairs.pair_walks import Walks
from distforest.growth.methods import METHODS, problem
from distforest.growth.pairs.linear_cells import LinearCells
from distforest.growth.pairs.pair_methods import pair_columns
from distforest.growth.pairs.pair_problem import PairProblem
from distforest.growth.pairs.ranking_trees import CellTree, LeafRank
from distforest.growth.parameters import complete
from distforest.growth.problem import Data
from distforest.sources.point_pairs import PairColumns, PointPairs
from distforest.sources.truth import Truth, TruthKind
from tests.messages import naming
from tests.ranking_trees import REGIONS, Asked, Trees, block, planted
from tests.reference import naive_trees_of_pairs as ref
from tests.tries import tries

pytestmark = pytest.mark.kernels

N_PAIRS = 70 if numba.config.DISABLE_JIT else 150
EXAMPLES = tries(80)


asked_for = st.builds(
    Asked,
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 6),
    st.sampled_from([None, 0.0, 0.25, 0.5, 1.0]),
    st.booleans(),
)
sizes_of_trees = st.lists(st.integers(1, 14), min_size=1, max_size=3)


@pytest.mark.slow
@settings(max_examples=EXAMPLES)
@given(
    seed=st.integers(0, 2**32),
    sizes=sizes_of_trees,
    asked=asked_for,
    grid=st.sampled_from([0, 1, 2, 4]),  # anywhere, or with many ties
    share=st.sampled_from([0.5, 0.1, 0.9, 0.0, 1.0]),
    blocks=st.sampled_from([(), (("dot", 2),), (("same", 2), ("dot", 2))]),
)
def test_whole_trees_are_those_of_the_formulas(
    seed: int, sizes: list[int], asked: Asked, grid: int, share: float, blocks: Any
) -> None:
    trees = planted(seed, sizes, asked, grid, share, blocks)
    n = len(trees.pairs.points)
    every = np.stack(np.triu_indices(n), axis=1).astype(np.int32)
    new = trees.pairs.of_pairs(np.ascontiguousarray(every[:, 0]), np.ascontiguousarray(every[:, 1]))
    for tree in range(trees.n_trees):
        sample = trees.sample(tree)
        expected = asked.expected(sample)
        leaves = ref.leaves_of(expected)
        found = trees.ranks.leaves_in_order(tree)
        assert trees.ranks.class_counts[found].tolist() == [list(leaf["counts"]) for leaf in leaves]
        deepest = [float(1 - Fraction(leaf["k"], 2 ** leaf["depth"])) for leaf in leaves]
        assert trees.ranks.scores[found].tolist() == deepest
        cells = trees.cells(tree)
        assert [np.flatnonzero(cells == i).tolist() for i in range(len(leaves))] == [sorted(c["rows"]) for c in leaves]
        expected_ranks = [float(ref.normalised_rank(expected, leaf)) for leaf in leaves]
        assert trees.ranks.parts[found].tolist() == pytest.approx(expected_ranks, rel=1e-15)
        places = {(leaf["depth"], leaf["k"]): i for i, leaf in enumerate(leaves)}
        ends = [ref.cell_of(expected, row) for row in block(new)]
        assert trees.cells(tree, new).tolist() == [places[cell["depth"], cell["k"]] for cell in ends]


@pytest.mark.slow
@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**32), size=st.integers(4, 30), asked=asked_for, grid=st.sampled_from([0, 2]))
def test_the_area_under_a_tree_is_its_gains_and_that_of_its_scores(
    seed: int, size: int, asked: Asked, grid: int
) -> None:
    trees = planted(seed, [size], asked, grid)
    pairs, codes, weights = trees.own(0)
    if len(set(codes.tolist())) < 2:
        assert len(trees.table.left) == 1
        return
    sample = trees.sample(0)
    expected, curve = asked.expected(sample), trees.curve(0)
    knots = ref.knots(expected)
    scores = np.repeat(trees.ranks.parts[walked(Walks(trees.table), 0, pairs)], weights)
    fpr, tpr, _ = roc_curve(np.repeat(codes == 0, weights), scores, drop_intermediate=False)
    assert (curve.fpr.tolist(), curve.tpr.tolist()) == (fpr.tolist(), tpr.tolist())
    by_trapezia = float(np.sum(np.diff(curve.fpr) * (curve.tpr[1:] + curve.tpr[:-1])) / 2)
    for area in (ref.area(knots), ref.area_by_gains(expected), ref.area_by_pairs(trees.cells(0) * -1, codes, weights)):
        assert curve.auc == pytest.approx(float(area), abs=1e-12)
        assert by_trapezia == pytest.approx(float(area), abs=1e-12)
    assert np.array(knots, float) == pytest.approx(np.stack([curve.fpr, curve.tpr], axis=1), abs=1e-15)


@pytest.mark.parametrize(("square", "seed"), [(False, 0), (True, 1)])
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_a_full_tree_has_a_rank_for_each_of_its_cells(depth: int, square: bool, seed: int) -> None:
    trees = planted(seed, [500], Asked(depth, 1, 2, square=square), shape=(60, 4))
    found = trees.ranks.leaves_in_order(0)
    assert trees.ranks.scores[found].tolist() == [1 - k / 2**depth for k in range(2**depth)]
    assert trees.ranks.parts[found].tolist() == [1 - k / 2**depth for k in range(2**depth)]
    assert len(np.unique(trees.ranks.parts[walked(Walks(trees.table), 0, trees.pairs)])) == 2**depth


@settings(max_examples=EXAMPLES // 2)
@given(seed=st.integers(0, 2**32), sizes=st.lists(st.integers(1, 60), min_size=1, max_size=4), asked=asked_for)
def test_children_come_after_their_parents_and_every_node_is_reached(seed: int, sizes: list[int], asked: Asked) -> None:
    table = planted(seed, sizes, asked).table
    for tree in range(len(sizes)):
        nodes = slice(*table.tree_start[tree : tree + 2])
        left, right, is_leaf = table.left[nodes], table.right[nodes], table.is_leaf[nodes]
        inner = np.flatnonzero(~is_leaf)
        assert (left[inner] > inner).all()
        assert (right[inner] > inner).all()
        assert (left[inner] != right[inner]).all()
        assert (right[is_leaf] == -1).all()
        assert set(range(1, len(left))) == {*left[inner].tolist(), *right[inner].tolist()}
        assert (table.width[nodes] == ~is_leaf).all()


@dataclass(frozen=True)
class Watched:
    """A LeafRank that keeps what it is asked to part."""

    own: LeafRank
    seen: list[tuple[Frontier, np.ndarray]] = field(default_factory=list)

    def part(
        self, cells: Frontier, names: np.ndarray, pairs: PointPairs, codes: np.ndarray, counts: np.ndarray
    ) -> CellTree:
        self.seen.append((cells, counts))
        return self.own.part(cells, names, pairs, codes, counts)


@pytest.mark.parametrize("kind", ["diagonal", "square", "linear"])
def test_pairs_are_routed_to_the_cells_in_which_they_grew(kind: str) -> None:
    asked = Asked(4, 2, 2, square=kind == "square")
    trees = planted(5, [70, 3, 40], asked, shape=(12, 3))
    watched = Watched(LinearCells(2) if kind == "linear" else asked.leafrank(trees.pairs))
    trees = Trees.grown(trees.pairs, trees.codes, trees.weights, trees.starts, asked, watched)
    n_cells = 0
    for cells, counts in watched.seen:
        at = trees.table.tree_start[cells.tree] + cells.node
        assert trees.ranks.class_counts[at].tolist() == counts.tolist()
        assert (trees.ranks.scores[at] > 0).all()
        n_cells += len(at)
    n_leaves = int(trees.table.is_leaf.sum())
    is_cell = trees.ranks.scores > 0
    assert is_cell.sum() == n_leaves + (n_leaves - 3)  # of three binary trees
    assert n_cells >= n_leaves - 3  # a cell that could not be parted was asked for too
    for tree in range(3):
        curve = trees.curve(tree)
        slopes = np.diff(curve.tpr) * np.diff(curve.fpr, prepend=1)[:-1]
        assert len(slopes) == len(trees.ranks.leaves_in_order(tree))
        assert curve.auc >= 0.5


def test_a_left_child_is_never_less_alike_than_its_parent() -> None:
    trees = planted(7, [120], Asked(5, 2), shape=(12, 3))
    counts = trees.ranks.class_counts.astype(float)
    by_score: dict[float, list[int]] = {}
    for node in np.flatnonzero(trees.ranks.scores > 0):
        by_score.setdefault(trees.ranks.scores[node], []).append(node)
    falls = 0
    for nodes in by_score.values():  # a cell, its left child, the left child of that: all have one score
        for cell, left in pairwise(nodes):
            assert counts[left].sum() < counts[cell].sum()
            assert counts[left, 0] * counts[cell, 1] > counts[left, 1] * counts[cell, 0]
            falls += 1
    assert falls == trees.table.is_leaf.sum() - 1


def chain(n: int, depth: int) -> Trees:
    """Pairs whose classes alternate along a line: each cut takes one of them off, so that the tree is deep."""
    X = np.arange(n + 1, dtype=np.float32)[:, None]
    pairs = PointPairs.from_points(
        PairColumns("difference", 1), X, np.stack([np.zeros(n, int), np.arange(1, n + 1)], axis=1)
    )
    codes = (np.arange(n) % 2).astype(np.uint8)
    return Trees.grown(pairs, codes, np.ones(n, np.int32), np.array([0, n]), Asked(depth, 1))


@pytest.mark.parametrize("depth", [1, 30, DEEPEST_CELL])
def test_the_deepest_cells_keep_their_ranks(depth: int) -> None:
    trees = chain(DEEPEST_CELL + 5, depth)
    found = trees.ranks.leaves_in_order(0)
    assert len(found) == depth + 1
    scores = trees.ranks.scores[found]
    assert len(np.unique(scores)) == depth + 1
    assert scores[scores < 1].min() >= 2.0**-DEEPEST_CELL
    exact = Asked(depth, 1).expected(trees.sample(0))
    leaves = ref.leaves_of(exact)
    assert [Fraction(s) for s in scores.tolist()] == [1 - Fraction(c["k"], 2 ** c["depth"]) for c in leaves]


@pytest.mark.parametrize(("asked", "n"), [(Asked(optimise_fpr=0.0), 1), (Asked(min_leaf=1000), 1), (Asked(1), 2)])
def test_trees_that_stop_early(asked: Asked, n: int) -> None:
    trees = planted(1, [80], asked)
    assert len(trees.ranks.leaves_in_order(0)) == n
    if n == 1:
        assert trees.table.tree_size.tolist() == [1]
        assert trees.curve(0).auc == 0.5


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_rate_bends_the_left_of_the_curve_alone(seed: int) -> None:
    """Cells that begin before it are parted as ever, others are not."""
    whole, some = (planted(seed, [90], Asked(5, 2, 1, fpr)) for fpr in (None, 0.25))
    every = planted(seed, [90], Asked(5, 2, 1, 1.0))
    assert every.ranks.scores.tolist() == whole.ranks.scores.tolist()
    full, bent = whole.curve(0), some.curve(0)
    assert len(bent.fpr) < len(full.fpr)
    early = full.fpr < 0.25
    assert bent.fpr[: early.sum()].tolist() == full.fpr[early].tolist()
    assert bent.tpr[: early.sum()].tolist() == full.tpr[early].tolist()
    counts = some.ranks.class_counts[some.ranks.leaves_in_order(0)]
    starts = np.cumsum(counts[:, 1]) - counts[:, 1]
    late = starts >= 0.25 * counts[:, 1].sum()
    assert 0 < late.sum() <= 5  # at most one at each depth: what lies right of a cell that is parted
    leaves = ref.leaves_of(some.asked.expected(some.sample(0)))
    assert counts.tolist() == [list(leaf["counts"]) for leaf in leaves]


@pytest.mark.parametrize("square", [False, True])
def test_constant_columns_part_nothing(square: bool) -> None:
    pairs = PointPairs.from_points(
        PairColumns(REGIONS["square" if square else "diagonal"], 2), np.ones((5, 2)), [[0, 1]] * 9
    )
    codes = (np.arange(9) % 2).astype(np.uint8)
    trees = Trees.grown(pairs, codes, np.ones(9, np.int32), np.array([0, 9]), Asked(square=square))
    assert trees.table.tree_size.tolist() == [1]
    assert trees.ranks.class_counts.tolist() == [[5, 4]]


def test_pairs_of_one_place_stay_together() -> None:
    """Duplicates of both classes: a cell of two such pairs cannot be parted."""
    X = np.array([[0.0], [1.0], [3.0]])
    pairs = PointPairs.from_points(PairColumns("difference", 1), X, [[0, 1], [1, 0], [0, 1], [0, 2], [2, 0], [0, 2]])
    codes = np.array([0, 0, 1, 1, 1, 0], np.uint8)
    trees = Trees.grown(pairs, codes, np.ones(6, np.int32), np.array([0, 6]), Asked(9, 3))
    assert trees.cells(0).tolist() == [0, 0, 0, 1, 1, 1]
    assert trees.ranks.class_counts[trees.ranks.leaves_in_order(0)].tolist() == [[2, 1], [1, 2]]


def test_a_leaf_as_mixed_as_its_cell_goes_right() -> None:
    """Its Lambda is 0: nothing gained on the left. The small tree ends in leaves of 3 + 0, 1 + 1 and 0 + 3 pairs."""
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    pairs = PointPairs.from_points(PairColumns("difference", 1), X, [[0, 1]] * 3 + [[0, 2]] * 2 + [[0, 3]] * 3)
    codes = np.array([0, 0, 0, 0, 1, 1, 1, 1], np.uint8)
    trees = Trees.grown(pairs, codes, np.ones(8, np.int32), np.array([0, 8]), Asked(1, 2))
    assert trees.cells(0).tolist() == [0, 0, 0, 1, 1, 1, 1, 1]
    assert trees.ranks.class_counts[trees.ranks.leaves_in_order(0)].tolist() == [[3, 0], [1, 4]]


def bound(X: np.ndarray, y: np.ndarray, **params: Any) -> PairProblem:
    """TreeRank bound to labelled points."""
    method = METHODS["treerank"]
    given = complete(method.parameters, {"n_estimators": 5, "max_bins": None, **params})
    points = X.astype(np.float32)
    rows = pair_columns(given, X.shape[1])
    found = problem(
        method, Data(rows, points, Truth(TruthKind.LABELS, y.astype(np.int32), sorted(set(y.tolist())))), given, 3
    )
    assert isinstance(found, PairProblem)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"region": "square", "sampling": "balanced"},
        {"leafrank": "linear", "max_samples": 0.6},
        {"sampling": "all", "max_samples": 12, "max_features": 1},
        {"optimise_fpr": 0.3, "n_pairs": 50},
    ],
)
def test_trees_do_not_depend_on_those_that_grow_with_them(params: dict[str, Any]) -> None:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 3
    X[:, 0] += y
    some = bound(X, y, **{"n_pairs": N_PAIRS, "max_depth": 4, "leafrank_depth": 2, "min_samples_leaf": 2, **params})
    together = some.forest([some.grow(np.arange(5))])
    one_by_one = some.forest([some.grow(np.array([tree])) for tree in range(5)])
    two_parts = some.forest([some.grow(np.array([0, 1, 2])), some.grow(np.array([3, 4]))])
    assert together.digest == one_by_one.digest == two_parts.digest
    together.check()
    sizes = together.table.tree_size.tolist()
    assert min(sizes) > 3
    trees = [together.table.threshold[slice(*together.table.tree_start[t : t + 2])].tobytes() for t in range(5)]
    assert len(set(trees)) > 1


def test_all_pairs_of_few_points() -> None:
    rng = np.random.default_rng(0)
    labels = np.array([0, 0, 1, 1, 1])
    forest = (
        own := bound(rng.normal(size=(5, 2)), labels, sampling="all", max_samples=1.0, min_samples_leaf=1)
    ).forest([own.grow(np.arange(5))])
    assert forest.leaf_table.arrays()["class_counts"][forest.table.tree_start[:-1]].tolist() == [[4, 6]] * 5


@pytest.mark.parametrize(("labels", "found"), [([0] * 6, "6 points"), (range(6), "6 of one")])
def test_labels_without_a_pair_of_one_kind_are_refused(labels: Sequence[int], found: str) -> None:
    with pytest.raises(InputError, match=naming("classes", found)):
        bound(np.eye(6), np.array(labels))
