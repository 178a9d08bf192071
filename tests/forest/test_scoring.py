"""Scores against naive.py; the same bits for every block, order and company of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.forest import held_nodes, leaves, scoring
from distforest.forest.forest import Forest
from distforest.forest.leaves import ClassCounts
from distforest.forest.path_lengths import PathLengths
from distforest.forest.proximities import proximity
from tests import samples
from tests.forest.test_leaves import FACTORS, TAUGHT, trees_of, z_of
from tests.messages import naming
from tests.reference import naive
from tests.tries import tries

pytestmark = pytest.mark.kernels

CASES = sorted(samples.CASES)
FREE = settings(max_examples=tries(40))
ForestOf = Callable[[str], Forest]


def nodes_of(forest: Forest, case: str, n_rows: int = 9) -> np.ndarray:
    """Where new rows end."""
    return scoring.apply(forest, forest.source(samples.queries(case, n_rows)))


def uses_proximity(forest: Forest) -> Forest:
    """The same trees, whose leaves say nothing but which rows lie in them."""
    return replace(forest, leaf_table=PathLengths(forest.table))


# --- against the reference --------------------------------------------------------------------------------


@pytest.mark.parametrize("case", TAUGHT)
def test_distances_are_means_over_the_trees_of_distances_of_leaves(case: str, forest_of: ForestOf) -> None:
    forest, z = forest_of(case), z_of(case)
    nodes, training, grown = nodes_of(forest, case, 4), forest.leaves[:, :5], trees_of(forest)
    found = scoring.distance(forest, nodes, training)
    expected = [[naive.forest_distance(z, grown, a.tolist(), b.tolist()) for b in training.T] for a in nodes.T]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    left, right = [0, 3, 3, 1], [4, 0, 0, 2]
    pairs = scoring.pair_distance(forest, nodes[:, left], training[:, right])
    assert pairs.tobytes() == found[left, right].tobytes()


def test_distances_need_nodes_of_one_forest(forest_of: ForestOf) -> None:
    two, three = np.zeros((2, 4), np.int32), np.zeros((3, 4), np.int32)
    for forest in (forest_of("labels"), uses_proximity(forest_of("labels"))):
        with pytest.raises(InputError, match=naming("forest", 2, "3 trees")):
            scoring.distance(forest, two, three)


@pytest.mark.parametrize("case", TAUGHT)
def test_out_of_bag_distances_rest_on_the_trees_that_drew_neither_row(case: str, forest_of: ForestOf) -> None:
    forest, z, grown = forest_of(case), z_of(case), trees_of(forest_of(case))
    left, right = np.triu_indices(12)
    found, count = scoring.out_of_bag_distance(forest, left, right)
    expected = [naive.oob_distance(z, grown, i, j) for i, j in zip(left.tolist(), right.tolist(), strict=True)]
    np.testing.assert_allclose(found, [value for value, _ in expected], rtol=1e-6, atol=1e-9)
    assert count.tolist() == [trees for _, trees in expected]
    assert np.isnan(found[left == right]).all()
    if case != "cosine":  # which draws every row for every tree
        assert (count > 0).any()
    mirrored, _ = scoring.out_of_bag_distance(forest, right, left)
    assert mirrored.tobytes() == found.tobytes()


@pytest.mark.parametrize("case", [case for case in TAUGHT if case not in {"distances", "members"}])
def test_predictions_are_means_over_the_trees(case: str, forest_of: ForestOf) -> None:
    forest, data = forest_of(case), samples.data_of(case)
    nodes, grown = nodes_of(forest, case), trees_of(forest)
    says = data.truth.values if case in FACTORS else np.eye(3)[data.truth.values]
    by_tree = np.empty((forest.n_trees, data.n_rows, says.shape[1]))  # what the node of each training row says
    new = np.empty((forest.n_trees, nodes.shape[1], says.shape[1]))
    for tree, own in enumerate(grown):
        assert own.table is not None
        means, _ = naive.means(own.table, own.leaves, says.tolist(), own.weights)
        by_tree[tree], new[tree] = means[own.leaves], means[nodes[tree]]
    np.testing.assert_allclose(scoring.predict(forest, nodes), new.mean(axis=0), rtol=1e-12, atol=1e-12)
    estimate, count = scoring.out_of_bag(forest)
    out = forest.in_bag == 0
    assert count.tolist() == out.sum(axis=0).tolist()
    for row in range(data.n_rows):
        expected = by_tree[out[:, row], row].mean(axis=0) if count[row] else np.full(says.shape[1], np.nan)
        np.testing.assert_allclose(estimate[row], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", ["distances", "members"])
def test_a_forest_of_distances_predicts_nothing_else(case: str, forest_of: ForestOf) -> None:
    with pytest.raises(InputError, match=naming("distances", "`distance`")):
        scoring.predict(forest_of(case), forest_of(case).leaves)
    with pytest.raises(InputError, match=naming("distances", "`distance`")):
        scoring.out_of_bag(forest_of(case))


@pytest.mark.parametrize("case", ["labels", "oblique", "missing"])
def test_importances_share_out_the_gains(case: str, forest_of: ForestOf) -> None:
    forest = forest_of(case)
    expected = np.zeros(forest.n_columns)
    for node in range(len(forest.table.left)):
        for entry in range(*forest.table.offset[node : node + 2]):
            expected[forest.table.columns[entry]] += forest.table.gain[node]
    np.testing.assert_allclose(scoring.feature_importances(forest), expected / expected.sum(), rtol=1e-12)


def test_importances_of_an_untaught_forest_are_sizes_of_nodes(forest_of: ForestOf) -> None:
    forest = forest_of("urerf")
    expected = np.zeros(forest.n_columns)
    for node in range(len(forest.table.left)):
        for entry in range(*forest.table.offset[node : node + 2]):
            expected[forest.table.columns[entry]] += forest.table.n_rows[node]
    assert expected[4] == 0  # a feature without a weight is never drawn
    np.testing.assert_allclose(scoring.feature_importances(forest), expected / expected.sum(), rtol=1e-12)


@pytest.mark.parametrize("case", samples.UNTAUGHT_CASES)
def test_an_untaught_forest_predicts_nothing(case: str, forest_of: ForestOf) -> None:
    with pytest.raises(InputError, match=naming("ground truth", "`distance`", "`proximity`")):
        scoring.predict(forest_of(case), forest_of(case).leaves)


def test_importances_of_a_forest_of_roots_are_zero() -> None:
    data = samples.with_matrix(samples.data_of("labels"), np.ones((samples.N_ROWS, samples.N_COLUMNS), np.float32))
    found = scoring.feature_importances(samples.forest_from(samples.problem_of("labels", data)))
    assert found.tolist() == [0.0] * samples.N_COLUMNS


# --- neighbours -------------------------------------------------------------------------------------------


@FREE
@given(st.sampled_from(CASES), st.integers(1, 36), st.booleans(), st.sampled_from([1, 5, 1024]))
def test_neighbours_are_the_nearest_rows_and_among_equal_ones_the_first(
    forest_of: ForestOf, case: str, n_neighbors: int, self_rows: bool, block: int
) -> None:
    forest = forest_of(case)
    n_neighbors = min(n_neighbors, 35 if self_rows else 36)
    left = forest.leaves if self_rows else nodes_of(forest, case)
    whole = scoring.distance(forest, left, forest.leaves)
    if self_rows:
        np.fill_diagonal(whole, np.inf)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring, "ROWS_OF_DISTANCES", block)
        distances, indices = scoring.kneighbors(forest, left, forest.leaves, n_neighbors, self_rows)
    order = np.argsort(whole, axis=1, kind="stable")[:, :n_neighbors]
    assert indices.tolist() == order.tolist()
    assert distances.tobytes() == np.take_along_axis(whole, order, axis=1).tobytes()


@pytest.mark.parametrize("listed", [0, 64])
@pytest.mark.parametrize("at_once", [1, 1 << 20])
@pytest.mark.parametrize("case", [*TAUGHT, "costs of labels"])
def test_a_few_rows_have_the_bits_of_many(
    case: str, at_once: int, listed: int, forest_of: ForestOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    forest = forest_of(case.removeprefix("costs of "))
    if case != (own := case.removeprefix("costs of ")):
        assert isinstance(forest.leaf_table, ClassCounts)
        costs = np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 0.3], [3.0, 0.3, 0.0]], np.float32)
        forest = replace(forest, leaf_table=replace(forest.leaf_table, costs=costs))
    nodes, others = nodes_of(forest, own), forest.leaves[:, ::3]
    monkeypatch.setattr(held_nodes, "NODES_AT_ONCE", at_once)
    monkeypatch.setattr(scoring, "NODES_AT_ONCE", at_once)
    monkeypatch.setattr(held_nodes.HeldNodes.from_nodes.__func__, "__defaults__", (listed,))
    answers = []
    for few in (0, 100):
        monkeypatch.setattr(scoring, "ROWS_ONE_BY_ONE", few)
        whole, some = scoring.distance(forest, nodes, forest.leaves), scoring.distance(forest, nodes, others)
        pairs = scoring.pair_distance(forest, nodes, others[:, :9])
        answers.append([whole, some, pairs, *scoring.kneighbors(forest, nodes, forest.leaves, 7, False)])
    for many, few_ones in zip(*answers, strict=True):
        assert many.tobytes() == few_ones.tobytes()


@pytest.mark.parametrize("case", ["targets", "embedding"])
def test_what_training_rows_have_side_by_side_has_the_bits_of_their_leaves(
    case: str, forest_of: ForestOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, found = nodes_of(forest_of(case), case), []
    for most, is_laid in [(leaves.LAID_NUMBERS, True), (0, False)]:
        monkeypatch.setattr(leaves, "LAID_NUMBERS", most)
        forest = replace(forest_of(case))
        assert (forest.laid_means is not None) == is_laid
        found.append(scoring.distance(forest, nodes[:, :1], forest.leaves).tobytes())
    assert found[0] == found[1]


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, np.nan]), min_size=1, max_size=40), st.integers(1, 40), st.data())
def test_the_least_of_a_row_are_kept_in_any_blocks(near: list[float], n_kept: int, data: st.DataObject) -> None:
    left_out = data.draw(st.integers(-1, len(near) - 1))
    n_kept = min(n_kept, len(near) - (left_out >= 0))
    if n_kept == 0:
        return
    block = data.draw(st.integers(1, 40))
    distances, indices = np.full((1, n_kept), np.nan), np.full((1, n_kept), len(near))
    for first in range(0, len(near), block):
        columns = np.array([near[first : first + block]])
        held_nodes.keep_least(columns, first, np.array([left_out]), distances, indices)
    held_nodes.nearest_first(distances, indices)
    order = [j for j in np.argsort(near, kind="stable").tolist() if j != left_out][:n_kept]
    assert indices[0].tolist() == order
    np.testing.assert_array_equal(distances[0], np.array(near)[order])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("self_rows", [True, False])
def test_where_rows_are_apart_if_they_share_no_leaf_distances_are_1_minus_proximities(
    case: str, self_rows: bool, forest_of: ForestOf
) -> None:
    forest = uses_proximity(forest_of(case))
    left = forest.leaves if self_rows else nodes_of(forest, case)
    whole = scoring.distance(forest, left, forest.leaves)
    assert whole.tobytes() == (1.0 - proximity(left, forest.leaves)).tobytes()
    rows, columns = np.indices(whole.shape).reshape(2, -1)
    pairs = scoring.pair_distance(forest, left[:, rows], forest.leaves[:, columns])
    assert pairs.tobytes() == whole.tobytes()
    if self_rows:
        np.fill_diagonal(whole, np.inf)
    distances, indices = scoring.kneighbors(forest, left, forest.leaves, 35, self_rows)
    order = np.argsort(whole, axis=1, kind="stable")[:, :35]
    assert indices.tolist() == order.tolist()
    assert distances.tobytes() == np.take_along_axis(whole, order, axis=1).tobytes()


@pytest.mark.parametrize(("n_neighbors", "self_rows"), [(0, False), (37, False), (36, True), (-1, True)])
def test_more_neighbours_than_rows_are_refused(n_neighbors: int, self_rows: bool, forest_of: ForestOf) -> None:
    for forest in (forest_of("labels"), uses_proximity(forest_of("labels"))):
        with pytest.raises(InputError, match=naming("n_neighbors", f"1..{36 - self_rows} ", "36 rows", n_neighbors)):
            scoring.kneighbors(forest, forest.leaves, forest.leaves, n_neighbors, self_rows)


def test_pairs_come_in_twos(forest_of: ForestOf) -> None:
    forest = forest_of("labels")
    with pytest.raises(InputError, match=naming("left", "right", 3, 2)):
        scoring.pair_distance(forest, forest.leaves[:, :3], forest.leaves[:, :2])


# --- the same bits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_distances_are_symmetric_to_the_bit(case: str, forest_of: ForestOf) -> None:
    forest = forest_of(case)
    own = scoring.distance(forest, forest.leaves, forest.leaves)
    assert own.tobytes() == own.T.copy().tobytes()
    nodes = nodes_of(forest, case)
    found, mirrored = (scoring.distance(forest, *sides) for sides in ((nodes, forest.leaves), (forest.leaves, nodes)))
    assert found.tobytes() == mirrored.T.copy().tobytes()


@pytest.mark.parametrize("block", [1, 7, 36])
@pytest.mark.parametrize("case", CASES)
def test_blocks_change_nothing(case: str, block: int, forest_of: ForestOf, monkeypatch: pytest.MonkeyPatch) -> None:
    forest = forest_of(case)
    nodes = nodes_of(forest, case)
    whole = scoring.distance(forest, nodes, forest.leaves)
    monkeypatch.setattr(scoring, "ROWS_OF_DISTANCES", block)
    assert scoring.distance(forest, nodes, forest.leaves).tobytes() == whole.tobytes()


@FREE
@given(st.sampled_from(CASES), st.data())
def test_a_score_does_not_depend_on_the_other_rows(forest_of: ForestOf, case: str, data: st.DataObject) -> None:
    forest, queries = forest_of(case), samples.queries(case)
    nodes = nodes_of(forest, case)
    whole = scoring.distance(forest, nodes, forest.leaves)
    rows = data.draw(st.lists(st.integers(0, 8), min_size=1, max_size=9))
    columns = data.draw(st.lists(st.integers(0, 35), min_size=1, max_size=9))
    some = scoring.apply(forest, forest.source(queries[rows]))
    assert some.tolist() == nodes[:, rows].tolist()
    assert scoring.distance(forest, some, forest.leaves[:, columns]).tobytes() == whole[np.ix_(rows, columns)].tobytes()
    if case in TAUGHT and case not in {"distances", "members"}:
        assert scoring.predict(forest, some).tobytes() == scoring.predict(forest, nodes)[rows].tobytes()


@pytest.mark.parametrize("case", CASES)
def test_training_rows_asked_again_lie_where_they_lay(case: str, forest_of: ForestOf) -> None:
    forest, matrix = forest_of(case), samples.data_of(case).matrix
    assert scoring.apply(forest, forest.source(matrix)).tolist() == forest.leaves.tolist()


@pytest.mark.parametrize("case", CASES)
def test_nothing_asked_is_nothing_answered(case: str, forest_of: ForestOf) -> None:
    forest = forest_of(case)
    nodes = forest.leaves
    assert scoring.distance(forest, nodes[:, :0], nodes).shape == (0, 36)
    assert scoring.distance(forest, nodes, nodes[:, :0]).shape == (36, 0)
    assert scoring.pair_distance(forest, nodes[:, :0], nodes[:, :0]).shape == (0,)


@pytest.mark.kernels
def test_the_first_of_the_largest_shares_is_chosen() -> None:
    shares = np.random.default_rng(0).integers(0, 3, (50, 4)) / 2.0
    assert scoring.largest_share(shares).tolist() == shares.argmax(axis=1).tolist()
    assert scoring.largest_share(shares[:, :1]).tolist() == [0] * 50
