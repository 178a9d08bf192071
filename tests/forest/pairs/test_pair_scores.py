"""What a forest over pairs says of a pair is what its trees say, one by one; of (x, x') and of (x', x) alike."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import ArtifactError, InputError
from distforest.forest.forest import Forest
from distforest.forest.pairs import pair_neighbors, pair_scores, pair_walks
from distforest.forest.pairs.pair_leaves import VOTINGS, Votes
from distforest.forest.pairs.pair_walks import Walks
from distforest.growth.methods import METHODS, problem
from distforest.growth.parameters import complete
from distforest.growth.problem import Data
from distforest.sources.point_pairs import FAMILIES, PairColumns, PointPairs
from distforest.sources.truth import Truth, TruthKind
from tests import samples
from tests.growth.test_rfd import as_tree
from tests.messages import naming
from tests.reference import naive_trees_of_pairs as ref
from tests.tries import tries

pytestmark = pytest.mark.kernels

HALF = ref.Fraction(1, 2)
N, P = 24, 3


@cache
def forest_of_family(family: str, voting: str = "majority", seed: int = 0, **params: Any) -> Forest:
    """A forest of five trees over pairs of 24 points; the extremes are read as well as differences."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, P)).astype(np.float32)
    X[:, 1] = X[:, 1].round()
    X[N // 2] = X[0]
    codes = np.digitize(X[:, 0] + 0.3 * rng.normal(size=N), [-0.5, 0.5]).astype(np.int32)
    given_ = {"n_estimators": 5, "n_constraints": 40, "min_samples_leaf": 2, "voting": voting, **params}
    data = Data(PairColumns(family, P), X, Truth(TruthKind.LABELS, codes, [0, 1, 2]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes are small
        bound = problem(METHODS["rfd"], data, complete(METHODS["rfd"].parameters, given_), seed)
    return samples.forest_from(bound)


def queries(n: int = 7, seed: int = 9) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, P)).astype(np.float32)


def expected_distance(forest: Forest, x: np.ndarray, x2: np.ndarray) -> float:
    """By the reference, from the trees' own nodes."""
    row = ref.pair_columns(x, x2, forest.meaning.rows.family)
    trees = [as_tree(forest, tree) for tree in range(forest.n_trees)]
    return float(ref.distance(trees, row, forest.meaning.leaf.voting, HALF))


@pytest.mark.parametrize("voting", VOTINGS)
@pytest.mark.parametrize("family", FAMILIES)
def test_distances_are_those_of_the_formulas(family: str, voting: str) -> None:
    forest, X, Y = forest_of_family(family, voting), queries(), queries(6, 10)
    found = pair_scores.distance(forest, X, Y)
    assert (found.shape, found.dtype) == ((7, 6), np.float64)
    expected = [[expected_distance(forest, x, y) for y in Y] for x in X]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    assert len(np.unique(found)) > 3
    if voting == "majority":
        assert np.isin(np.round(found * 10), np.arange(11)).all()  # votes of 0, 1/2 and 1 by five trees


@pytest.mark.parametrize("voting", VOTINGS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_distance_is_the_same_in_either_order_bit_for_bit(family: str, voting: str) -> None:
    forest, X, Y = forest_of_family(family, voting, max_bins=8), queries(30), queries(20, 10)
    there, back = pair_scores.distance(forest, X, Y), pair_scores.distance(forest, Y, X)
    assert there.tobytes() == np.ascontiguousarray(back.T).tobytes()
    own = pair_scores.distance(forest, forest.points, forest.points)
    assert own.tobytes() == np.ascontiguousarray(own.T).tobytes()
    assert own.min() >= 0.0
    assert own.max() <= 1.0


@settings(max_examples=tries(20))
@given(
    st.sampled_from(FAMILIES),
    st.lists(st.lists(st.sampled_from([0.0, -0.0, 1.5, -1e-45, 1e38, -1e38]), min_size=P, max_size=P), min_size=2),
)
def test_points_of_any_size_end_in_a_leaf_in_either_order(family: str, rows: list[list[float]]) -> None:
    forest, X = forest_of_family(family), np.array(rows, np.float32)
    numbers = np.arange(len(X), dtype=np.int32)
    pairs = PointPairs(pair_scores.columns_of(forest), X, X[::-1].copy(), numbers, numbers)
    turned = replace(pairs, points=pairs.others, others=pairs.points)
    for tree in range(forest.n_trees):
        ends = pair_scores.walked(Walks(forest.table), tree, pairs)
        assert forest.table.is_leaf[ends].all()
        assert ends.tolist() == pair_scores.walked(Walks(forest.table), tree, turned).tolist()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("block", [1, 5, 1 << 14])
def test_blocks_and_threads_change_nothing(block: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    forest, X, Y = forest_of_family("difference_mean", "mean"), queries(), queries(6, 10)
    expected = [pair_scores.distance(forest, X, Y), *pair_neighbors.kneighbors(forest, X, 5, None)]
    monkeypatch.setattr(pair_scores, "PAIRS_PER_TURN", block)
    monkeypatch.setattr(pair_walks, "block_rows", lambda n_columns: block)
    found = [pair_scores.distance(forest, X, Y, threads), *pair_neighbors.kneighbors(forest, X, 5, None, threads)]
    for own, other in zip(found, expected, strict=True):
        assert own.tobytes() == other.tobytes()
    place = np.indices((7, 6)).reshape(2, -1).astype(np.int32)
    pairs = PointPairs(pair_scores.columns_of(forest), X, Y, place[0].copy(), place[1].copy())
    assert pair_scores.pair_distance(forest, pairs, threads).tobytes() == expected[0].tobytes()


def test_nothing_asked_is_nothing_answered() -> None:
    forest, none = forest_of_family("difference_mean"), np.empty((0, P), np.float32)
    for threads in (1, 2):
        assert pair_scores.distance(forest, none, queries(), threads).shape == (0, 7)
        assert pair_scores.distance(forest, queries(), none, threads).shape == (7, 0)
    answer, count = pair_scores.out_of_bag(forest, pair_scores.training_pairs(forest, np.empty((0, 2), np.int32)))
    assert (answer.shape, count.shape) == ((0,), (0,))


@pytest.mark.parametrize("n_neighbors", [1, 4, N - 1])
def test_neighbours_are_the_nearest_of_all(n_neighbors: int) -> None:
    forest = forest_of_family("difference_mean")
    for points, own in ((queries(), None), (forest.points, np.arange(N)), (forest.points[3:7], np.arange(3, 7))):
        apart = pair_scores.distance(forest, points, forest.points)
        if own is not None:
            apart[np.arange(len(own)), own] = np.inf
        order = np.argsort(apart, axis=1, kind="stable")[:, :n_neighbors]
        distances, indices = pair_neighbors.kneighbors(forest, points, n_neighbors, own)
        assert indices.tolist() == order.tolist()
        assert distances.tolist() == np.take_along_axis(apart, order, axis=1).tolist()


@settings(max_examples=tries(40), deadline=None)
@given(
    st.sampled_from(["majority", "mean"]),
    st.sampled_from([5, 12, 40]),
    st.integers(1, 5),
    st.booleans(),
    st.integers(0, 99),
)
def test_points_that_left_were_none_of_the_nearest(voting: str, trees: int, k: int, is_own: bool, seed: int) -> None:
    """With many equal distances too, as votes of few trees and points that are there twice have them."""
    forest = forest_of_family("difference_mean", voting, seed % 3, n_estimators=trees)
    assert pair_neighbors.can_leave(forest)
    points = forest.points if is_own else queries(5, seed).round()
    apart = pair_scores.distance(forest, points, forest.points)
    if is_own:
        np.fill_diagonal(apart, np.inf)
    order = np.argsort(apart, axis=1, kind="stable")[:, :k]
    distances, indices = pair_neighbors.kneighbors(forest, points, k, np.arange(N) if is_own else None)
    assert indices.tolist() == order.tolist()
    assert distances.tobytes() == np.take_along_axis(apart, order, axis=1).tobytes()


@pytest.mark.parametrize(("n_neighbors", "own", "most"), [(0, None, N), (N + 1, None, N), (N, np.arange(7), N - 1)])
def test_neighbours_that_there_are_not_are_refused(n_neighbors: int, own: np.ndarray | None, most: int) -> None:
    with pytest.raises(InputError, match=naming("n_neighbors", f"1..{most} ")):
        pair_neighbors.kneighbors(forest_of_family("difference_mean"), queries(), n_neighbors, own)


@pytest.mark.parametrize("voting", VOTINGS)
@pytest.mark.parametrize("max_samples", [None, 0.4])
def test_a_pair_out_of_bag_is_judged_by_trees_that_drew_neither_point(voting: str, max_samples: float | None) -> None:
    forest = forest_of_family("difference_mean", voting, max_samples=max_samples, n_estimators=9)
    pairs = np.array([[i, j] for i in range(N) for j in range(i)], np.int32)[::7]
    answer, count = pair_scores.out_of_bag(forest, pair_scores.training_pairs(forest, pairs))
    trees = [as_tree(forest, tree) for tree in range(9)]
    drawn = [set(np.flatnonzero(own).tolist()) for own in forest.in_bag]
    table = ref.pair_table(forest.points, pairs, "difference_mean")
    for k, (pair, row) in enumerate(zip(pairs.tolist(), table, strict=True)):
        assert count[k] == sum(not (own & set(pair)) for own in drawn)
        expected = ref.out_of_bag_distance(trees, drawn, tuple(pair), row, voting, HALF)
        assert np.isnan(answer[k]) if expected is None else answer[k] == pytest.approx(float(expected), abs=1e-14)
    assert np.isnan(answer).any() or max_samples
    assert not np.isnan(answer).all()


def test_tallies_count_the_pairs_that_come_by() -> None:
    forest = forest_of_family("difference_mean")
    pairs = pair_scores.training_pairs(forest, np.array([[0, 1], [2, 3], [0, 12], [5, 9]], np.int32))
    codes, weights = np.array([0, 1, 1, 0], np.uint8), np.array([2, 1, 7, 0], np.int32)
    for tree in range(forest.n_trees):
        counts = pair_scores.tallied(forest.table, tree, pairs, codes, weights)
        assert counts[0].tolist() == [2, 8]
        ends = pair_scores.walked(Walks(forest.table), tree, pairs) - forest.table.tree_start[tree]
        leaf = forest.table.left[forest.table.tree_start[tree] :][: len(counts)] < 0
        assert counts[leaf].sum(axis=0).tolist() == [2, 8]
        for code in (0, 1):
            own = np.bincount(ends[codes == code], weights[codes == code], len(counts))
            assert counts[leaf, code].tolist() == own[leaf].tolist()


def test_oblique_nodes_of_a_file_are_walked_by_their_sums() -> None:
    """No method here grows them, but a table may hold them."""
    forest = forest_of_family("difference", max_depth=1, n_estimators=1)
    table = replace(
        forest.table,
        width=np.array([2, 0, 0], np.int32),
        columns=np.array([0, 2], np.int32),
        weights=np.array([1.0, -2.0]),
        threshold=np.array([0.25, 0.0, 0.0]),
    )
    table.check(P)
    X = queries(20)
    pairs = PointPairs.from_points(PairColumns("difference", P), X, [[k, 19 - k] for k in range(20)])
    apart = np.abs(X - X[::-1])
    expected = np.where(apart[:, 0] - 2.0 * apart[:, 2].astype(np.float64) <= 0.25, 1, 2)
    assert pair_scores.walked(Walks(table), 0, pairs).tolist() == expected.tolist()


# --- votes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("voting", "parts", "wholes"),
    [
        ("majority", [0.5, 0.0, 1.0], None),
        ("mean", [0.5, 0.25, 1.0], None),
        ("evidence", [4.0, 1.0, 3.0], [8, 4, 3]),
    ],
)
def test_votes_by_hand(voting: str, parts: list[float], wholes: list[float] | None) -> None:
    forest = forest_of_family("difference", max_depth=1, n_estimators=1)
    votes = Votes(
        replace(forest.table, n_rows=np.array([8, 4, 3])), np.array([[4, 4], [3, 1], [0, 3]], np.int32), voting
    )
    votes.check()
    assert votes.parts.tolist() == parts
    assert (None if votes.wholes is None else votes.wholes.tolist()) == wholes  # None: a vote of each tree
    assert (votes.median, votes.dissimilar) == (False, True)
    with pytest.raises(ArtifactError, match=naming("class_counts[1]:", "n_rows")):
        replace(votes, class_counts=np.array([[4, 4], [3, 2], [0, 3]], np.int32)).check()


# --- what is refused --------------------------------------------------------------------------------------


def test_forests_of_rows_have_no_pairs_and_forests_of_pairs_no_nodes(forest_of: Callable[[str], Forest]) -> None:
    rows, pairs = forest_of("labels"), forest_of("votes")
    assert (pair_scores.is_over_pairs(rows), pair_scores.is_over_pairs(pairs)) == (False, True)
    with pytest.raises(InputError, match=naming("pairs", "features")):
        pair_scores.columns_of(rows)
    with pytest.raises(InputError, match=naming("pairs", "features")):
        _ = rows.points
    with pytest.raises(InputError, match=naming("votes", "TreeRank")):
        pair_scores.ranks_of(pairs)
    with pytest.raises(InputError, match=naming("pairs", "distances", "nodes")):
        pairs.source(samples.features())
    with pytest.raises(InputError, match=naming("pairs", "nodes", "neighbours")):
        _ = pairs.training_nodes
