"""Trees of RFD are those of the formulas, and those that the same growth finds in a table of the pairs' columns."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.tree import DecisionTreeClassifier

from distforest.errors import InputError
from distforest.forest.forest import Forest
from distforest.forest.frontier import Frontier
from distforest.forest.node_table import NodeTable
from distforest.growth import grower
from distforest.growth.cuts.search import Limits, project_and_cut
from distforest.growth.cuts.two_classes import TwoClasses
from distforest.growth.draws.column_draws import Axis, axis_columns
from distforest.growth.grower import Growth
from distforest.growth.methods import METHODS, problem
from distforest.growth.pairs.pair_problem import PairProblem, tally_trees
from distforest.growth.pairs.pair_search import CUT_AT_ANY_VALUE
from distforest.growth.parameters import complete
from distforest.growth.problem import Data
from distforest.sources.arrays import ArraySource
from distforest.sources.point_pairs import PairColumns
from distforest.sources.sparse_features import SparseFeatures
from distforest.sources.truth import Truth, TruthKind
from tests import samples
from tests.messages import naming
from tests.reference import naive_trees_of_pairs as ref
from tests.tries import tries

pytestmark = pytest.mark.kernels

NODE_ARRAYS = ("left", "right", "threshold", "width", "n_rows", "gain", "columns", "weights", "tree_size")


def bound_to(data: Data, seed: int = 7, **params: Any) -> PairProblem:
    """RFD bound to data; nothing is said of classes that are too small."""
    given_ = {"n_estimators": 3, "n_constraints": 10, "min_samples_leaf": 1, **params}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = problem(METHODS["rfd"], data, complete(METHODS["rfd"].parameters, given_), seed)
    assert isinstance(found, PairProblem)
    return found


def data_of(X: np.ndarray, labels: np.ndarray, position: bool = True) -> Data:
    rows = PairColumns("difference_mean" if position else "difference", X.shape[1])
    return Data(rows, X.astype(np.float32), Truth(TruthKind.LABELS, labels.astype(np.int32), [0, 1, 2]))


def linked(X: np.ndarray, pairs: Any, codes: Any) -> Data:
    rows = PairColumns("difference_mean", X.shape[1])
    return Data(
        rows, X.astype(np.float32), Truth(TruthKind.LINKS, np.array(codes, np.uint8)), pairs=np.array(pairs, np.int32)
    )


def points(n: int = 30, p: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three classes that follow from a column without ties."""
    X = np.random.default_rng(seed).normal(size=(n, p)).astype(np.float32)
    return X, np.digitize(X[:, 0], [-0.5, 0.5])


def grown(bound: PairProblem) -> Forest:
    return bound.forest([bound.grow(np.arange(bound.n_trees))])


def as_tree(forest: Forest, tree: int, node: int = 0) -> ref.Tree:
    """A tree of a forest as the reference has it."""
    table, k = forest.table, int(forest.table.tree_start[tree]) + node
    counts = tuple(forest.leaf_table.arrays()["class_counts"][k].tolist())
    found: ref.Tree = {"counts": counts, "squares": 0}
    if table.left[k] < 0:
        return found
    own = {"column": int(table.columns[table.offset[k]]), "threshold": float(table.threshold[k])}
    sides = {"left": as_tree(forest, tree, int(table.left[k])), "right": as_tree(forest, tree, int(table.right[k]))}
    return found | own | {"gain": float(table.gain[k])} | sides


def assert_same(found: ref.Tree, expected: ref.Tree) -> None:
    assert found["counts"] == tuple(expected["counts"])
    assert ("left" in found) == ("left" in expected)
    if "left" in expected:
        assert (found["column"], found["threshold"]) == (expected["column"], expected["threshold"])
        assert found["gain"] == pytest.approx(float(expected["gain"]), rel=1e-9)
        for side in ("left", "right"):
            assert_same(found[side], expected[side])


# --- the formulas -----------------------------------------------------------------------------------------


@settings(max_examples=tries(25))
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(2, 12), st.sampled_from([None, 1, 3]), st.booleans())
def test_trees_of_one_column_are_those_of_the_formulas(
    seed: int, min_leaf: int, min_split: int, depth: int | None, position: bool
) -> None:
    """One column of many ties, all that a node can try: the tree has no choice."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, (12, 1)).astype(np.float32)
    labels = (X[:, 0] + rng.normal(size=12) > 2.5).astype(int)
    if len(set(labels.tolist())) < 2:
        labels[:6] = 1 - labels[0]
    limits = {"min_samples_leaf": min_leaf, "min_samples_split": min_split, "max_depth": depth}
    bound = bound_to(data_of(X, labels, position=False), seed, max_bins=None, **limits)
    forest, naive = grown(bound), ref.Limits(depth, min_leaf, min_split)
    for tree in range(3):
        own = bound.sampling.sample(seed, tree)
        sample = ref.Sample(ref.pair_table(X, own.pairs, "difference"), own.codes, own.weights)
        assert_same(as_tree(forest, tree), ref.grow_tree(sample, limits=naive))


def assert_grown(forest: Forest, tree: int, sample: ref.Sample, width: int, min_leaf: int) -> None:
    """A node of both kinds is cut by the best of ``width`` columns of its own order; by the next ones if none cuts."""
    seed, n_columns = forest.meaning.seed, sample.values.shape[1]
    start, table = int(forest.table.tree_start[tree]), forest.table
    nodes = [(0, np.arange(len(sample.codes)))]
    for node, rows in nodes:
        order = np.empty((1, n_columns), np.int32)
        axis_columns(samples.keys_of(seed, [tree], [node]), n_columns, 0, order)
        own = (sample.values[rows], sample.codes[rows], sample.weights[rows])  # type: ignore[call-overload]
        cut, tried = ref.NO_CUT, order[0]
        for first in range(0, n_columns if len(set(own[1].tolist())) > 1 else 0, width):
            tried = order[0, first : first + width]
            cut = ref.best_cut(own[0][:, tried], own[1], own[2], (1, 1), min_leaf)
            if cut.column >= 0:
                break
        k = start + node
        assert (table.left[k] >= 0) == (cut.column >= 0)
        if cut.column >= 0:
            assert (table.columns[table.offset[k]], table.threshold[k]) == (tried[cut.column], cut.threshold)
            assert table.gain[k] == pytest.approx(float(cut.gain), rel=1e-9)
            left = own[0][:, tried[cut.column]] <= cut.threshold
            nodes += [(int(table.left[k]), rows[left]), (int(table.right[k]), rows[~left])]
    assert len(nodes) == table.tree_size[tree]


@pytest.mark.parametrize("resample", ["points", "pairs"])
@pytest.mark.parametrize("width", [1, 2, 6])
def test_trees_that_choose_columns_are_those_of_the_formulas(width: int, resample: str) -> None:
    X, labels = points(seed=width)
    X[:, 1] = X[:, 1].round()  # ties
    params = {"max_features": width, "min_samples_leaf": 2, "max_bins": None, "resample": resample}
    bound = bound_to(data_of(X, labels), 5, n_constraints=15, **params)
    forest = grown(bound)
    assert len(forest.table.left) > 20
    for tree in range(3):
        own = bound.sampling.sample(5, tree)
        table = ref.pair_table(X, own.pairs, "difference_mean")
        assert_grown(forest, tree, ref.Sample(table, own.codes, own.weights), width, 2)


# --- the table of the columns -----------------------------------------------------------------------------


def from_table(bound: PairProblem, limits: Limits, width: int) -> tuple[NodeTable, list[Any]]:
    """The trees that the same growth finds in the pairs' columns, written out as a matrix."""
    samples_ = [bound.sampling.sample(bound.meaning.seed, tree) for tree in range(bound.n_trees)]
    pairs = np.concatenate([own.pairs for own in samples_])
    codes, weights = (np.concatenate([getattr(own, name) for own in samples_]) for name in ("codes", "weights"))
    source = bound.points.of_pairs(*np.ascontiguousarray(pairs.T))
    n, n_columns = source.shape
    block = source.block(np.arange(n, dtype=np.int32), np.arange(n_columns, dtype=np.int32))
    table = ArraySource.from_values(block.astype(np.float32))
    np.testing.assert_array_equal(table.values, block)  # every value is a float32
    criterion = TwoClasses(codes, np.ones((bound.n_trees, 2)))
    starts = np.concatenate([[0], np.cumsum([len(own.codes) for own in samples_])]).astype(np.int64)
    trees = np.arange(bound.n_trees)
    roots = Frontier(trees, np.zeros(len(trees), np.int32), starts, np.arange(n, dtype=np.int32), weights)
    growth = Growth(table, Axis(n_columns, width), criterion, limits, bound.meaning.seed, project_and_cut)
    return growth.grow_from(trees, roots, lambda _: None), samples_


@pytest.mark.parametrize("resample", ["points", "pairs"])
@pytest.mark.parametrize("width", [1, 2, 6])
@pytest.mark.parametrize("position", [True, False])
def test_a_table_of_the_columns_has_the_same_trees_bit_for_bit(position: bool, width: int, resample: str) -> None:
    X, labels = points(40)
    X[:, 1] = X[:, 1].round()  # ties
    X[20] = X[3]
    params = {"max_features": width, "min_samples_leaf": 2, "max_bins": None, "resample": resample, "max_depth": 9}
    bound = bound_to(data_of(X, labels, position), n_constraints=60, **params)
    expected, _ = from_table(bound, Limits(2, 2, 9), min(width, bound.points.shape[1]))
    arrays = bound.grow(np.arange(3))
    assert len(arrays["left"]) > 60
    for name in NODE_ARRAYS:
        assert arrays[name].tobytes() == expected.arrays()[name].tobytes(), name


def test_by_entropy_trees_are_those_of_scikit_learn() -> None:
    X, labels = points(60)
    params = {"criterion": "entropy", "max_features": 1.0, "max_bins": None, "max_depth": 3, "n_estimators": 1}
    bound = bound_to(data_of(X, labels), n_constraints=300, **params)
    sample = bound.sampling.sample(bound.meaning.seed, 0)
    pairs = bound.points.of_pairs(*np.ascontiguousarray(sample.pairs.T))
    table = pairs.block(np.arange(pairs.shape[0], dtype=np.int32), np.arange(pairs.shape[1], dtype=np.int32))
    peer = DecisionTreeClassifier(criterion="entropy", max_depth=3).fit(table, sample.codes, sample.weights).tree_
    arrays = bound.grow(np.arange(1))
    own = arrays["class_counts"][arrays["left"] < 0].astype(np.float64)
    shares = own / own.sum(axis=1, keepdims=True)
    bits = -(own * np.log2(np.where(shares > 0, shares, 1.0))).sum()
    expected = (peer.weighted_n_node_samples * peer.impurity)[peer.children_left < 0].sum()
    np.testing.assert_allclose(bits, expected, rtol=1e-9)


@pytest.mark.parametrize("width", [1, 3])
def test_small_samples_know_of_no_bins(width: int) -> None:
    """A tree of at most `CUT_AT_ANY_VALUE` pairs is the same with bins and without."""
    X, labels = points(12)
    one, other = (
        bound_to(
            data_of(X, labels), n_constraints=CUT_AT_ANY_VALUE // 6, max_features=width, max_bins=bins, resample="pairs"
        )
        for bins in (256, None)
    )
    assert samples.bits(_without_params(one)) == samples.bits(_without_params(other))


def _without_params(bound: PairProblem) -> dict[str, np.ndarray]:
    arrays = bound.grow(np.arange(3))
    assert arrays["n_rows"].max() <= CUT_AT_ANY_VALUE
    return arrays


@pytest.mark.parametrize("max_bins", [2, 16, 256])
def test_through_bins_a_tree_is_cut_nearly_as_well(max_bins: int) -> None:
    X, labels = points(40)
    params = {"n_constraints": 150, "max_features": None, "max_depth": 1, "n_estimators": 1, "bootstrap": False}
    gains = [
        bound_to(data_of(X, labels), max_bins=bins, **params).grow(np.arange(1))["gain"] for bins in (max_bins, None)
    ]
    assert len(gains[0]) == 3
    assert {2: 0.5, 16: 0.9, 256: 0.98}[max_bins] * gains[1][0] <= gains[0][0] <= gains[1][0] * (1 + 1e-9)


# --- what a forest holds ----------------------------------------------------------------------------------


@settings(max_examples=tries(12))
@given(st.integers(0, 2**32), st.sampled_from(["points", "pairs"]), st.sampled_from([None, 2, 256]), st.booleans())
def test_counts_are_of_the_pairs_that_come_by(seed: int, resample: str, max_bins: int | None, replace: bool) -> None:
    X, labels = points(20, 2, seed)
    if len(set(labels.tolist())) < 2:
        return
    params = {"resample": resample, "max_bins": max_bins, "bootstrap": replace, "max_samples": 0.8}
    bound = bound_to(data_of(X, labels), seed, n_constraints=40, **params)
    forest = grown(bound)
    forest.check()
    counts = forest.leaf_table.arrays()["class_counts"]
    for tree in range(3):
        own = bound.sampling.sample(seed, tree)
        found = as_tree(forest, tree)
        assert forest.in_bag[tree].tolist() == own.in_bag.tolist()
        assert found["counts"] == tuple(np.bincount(own.codes, own.weights, 2).astype(int).tolist())
        table = ref.pair_table(X, own.pairs, "difference_mean")
        by_leaf: dict[int, list[int]] = {}
        for row, code, weight in zip(table, own.codes, own.weights, strict=True):
            by_leaf.setdefault(id(leaf := ref.leaf_of(found, row)), [0, 0, leaf["counts"]])[code] += weight
        assert all((n0, n1) == expected for n0, n1, expected in by_leaf.values())
        assert len(by_leaf) == len(ref.leaves_of(found))
    inner = np.flatnonzero(forest.table.left >= 0)
    start = np.repeat(forest.table.tree_start[:-1], forest.table.tree_size)[inner]
    sides = (counts[start + side[inner]] for side in (forest.table.left, forest.table.right))
    assert (sum(sides) == counts[inner]).all()
    assert (forest.table.n_rows == counts.sum(axis=1)).all()


@pytest.mark.parametrize("kind", ["numbers", "holes", "categories", "sparse"])
@pytest.mark.parametrize("max_bins", [None, 4, 256])
def test_counts_of_the_growth_are_those_of_the_walk(kind: str, max_bins: int | None) -> None:
    """A query walks as the pairs did that were counted, also where values lie at thresholds."""
    X, labels = points(60, 4)
    rng = np.random.default_rng(3)
    X[:, 1:3] = rng.integers(0, 3, (60, 2))
    if kind in ("holes", "categories"):
        X[rng.random(X.shape) < 0.3] = np.nan
    data = data_of(X, labels)
    if kind == "categories":
        rows = PairColumns("difference_mean", 4, (), (0, 3, 3, 0))
        data = Data(rows, X, Truth(TruthKind.LABELS, labels.astype(np.int32), [0, 1, 2]))
    if kind == "sparse":
        X[rng.random(X.shape) < 0.5] = 0.0
        stored = csr_matrix(X)
        matrix = SparseFeatures.from_arrays(stored.indptr, stored.indices, stored.data, X.shape)
        data = Data(data.rows, matrix, Truth(TruthKind.LABELS, data.truth.values, [0, 1, 2]))
    bound = bound_to(data, max_bins=None if kind == "sparse" else max_bins, n_constraints=40)
    arrays, trees = bound.grow(np.arange(3)), [bound.sampling.sample(7, tree) for tree in range(3)]
    left, right = (np.concatenate([own.pairs[:, side] for own in trees]) for side in range(2))
    weights, codes = (np.concatenate([getattr(own, name) for own in trees]) for name in ("weights", "codes"))
    starts = np.cumsum([0, *(len(own.codes) for own in trees)])
    roots = Frontier(np.arange(3), np.zeros(3, np.int32), starts, np.arange(starts[-1], dtype=np.int32), weights)
    names = NodeTable.__dataclass_fields__
    table = NodeTable(**{name: array for name, array in arrays.items() if name in names})
    counts = np.empty((len(table.left), 2), np.int32)
    tally_trees(table, bound.points.of_pairs(left, right), codes, roots, counts)
    assert len(counts) > 60
    assert counts.tolist() == arrays["class_counts"].tolist()


def test_trees_do_not_know_of_each_other() -> None:
    X, labels = points()
    bound = bound_to(data_of(X, labels), n_estimators=5, n_constraints=50)
    whole = bound.grow(np.arange(5))
    parts = [bound.grow(np.array([tree])) for tree in range(5)]
    together = {name: np.concatenate([part[name] for part in parts]) for name in whole}
    assert samples.bits(together) == samples.bits(whole)
    assert bound.forest(parts).digest == bound.forest([whole]).digest


@pytest.mark.parametrize("share", [0.0, 0.4])
@pytest.mark.parametrize("max_bins", [None, 8])
def test_it_does_not_matter_how_many_attempts_are_drawn_at_once(
    max_bins: int | None, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, labels = points(40, 5)
    X[np.random.default_rng(1).random(X.shape) < share] = np.nan
    params = {"n_constraints": 60, "max_features": 2, "max_bins": max_bins, "min_samples_leaf": 4}
    found = []
    for cells in (0, 30, grower.DRAWN_AT_ONCE):
        monkeypatch.setattr(grower, "DRAWN_AT_ONCE", cells)
        found.append(samples.bits(bound_to(data_of(X, labels), **params).grow(np.arange(3))))
    assert found[0] == found[1] == found[2]


def test_repeated_and_turned_pairs_weigh_as_often_as_they_are_given() -> None:
    X, _ = points(8)
    once, twice = [[0, 1], [2, 3], [4, 5], [6, 7]], [[0, 1], [1, 0], [2, 3], [4, 5], [5, 4], [6, 7]]
    codes = [0, 1, 0, 1]
    params = {"bootstrap": False, "n_estimators": 1, "max_features": None, "max_bins": None}
    first = grown(bound_to(linked(X, once, codes), **params)).leaf_table.arrays()["class_counts"]
    second = grown(bound_to(linked(X, twice, [0, 0, 1, 0, 0, 1]), **params)).leaf_table.arrays()["class_counts"]
    assert (first[0].tolist(), second[0].tolist()) == ([2, 2], [4, 2])


def test_contradicting_pairs_end_in_one_leaf_with_half_a_vote() -> None:
    X, _ = points(4)
    forest = grown(bound_to(linked(X, [[0, 1], [1, 0]], [0, 1]), bootstrap=False, n_estimators=1))
    assert forest.leaf_table.arrays()["class_counts"].tolist() == [[1, 1]]
    assert forest.leaf_table.parts.tolist() == [0.5]  # type: ignore[union-attr]


def test_constant_points_and_duplicates_make_trees_of_one_node() -> None:
    for X in (np.ones((6, 2), np.float32), np.repeat(np.float32([[1, 5]]), 6, axis=0)):
        forest = grown(bound_to(data_of(X, np.arange(6) % 2), max_bins=None))
        assert forest.table.tree_size.tolist() == [1, 1, 1]


# --- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pairs", "codes", "named"),
    [
        ([[0, 1], [1, 2]], [0, 0], ("only similar",)),
        ([[0, 1], [1, 2]], [1, 1], ("only dissimilar",)),
        (np.empty((0, 2)), [], ("none",)),
        ([[0, 1], [1, 2]], [0, 1, 0], ("2 pairs", "3 classes")),
        ([[0, 1], [1, 30]], [0, 1], ("0..29", "30 in pair 1")),
        ([[0, 1], [1, 1]], [0, 1], ("point 1", "pair 1")),
    ],
)
def test_pairs_that_cannot_be_used_are_refused(pairs: Any, codes: list[int], named: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        bound_to(linked(points()[0], pairs, codes))


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"max_samples": 31}, ("max_samples=31", "points", 30)),
        ({"max_samples": 61, "resample": "pairs"}, ("max_samples=61", "pairs", 60)),
        ({"oob_score": True, "resample": "pairs"}, ("oob_score", "resample='points'")),
    ],
)
def test_samples_that_there_are_not_are_refused(params: dict[str, Any], named: tuple[Any, ...]) -> None:
    X, _ = points()
    labels = np.arange(30) % 3
    with pytest.raises(InputError, match=naming(*named)):
        bound_to(data_of(X, labels), **params)


def test_features_too_large_for_float32_sums_are_refused() -> None:
    X, labels = points()
    X[2, 1] = 3e38
    with pytest.raises(InputError, match=naming("features", "3e+38")):
        bound_to(data_of(X, labels))
