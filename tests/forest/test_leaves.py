"""Leaf tables against naive.py; symmetric to the bit, and the same whoever else is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import ArtifactError
from distforest.forest.forest import Forest
from distforest.forest.leaves import ClassCounts, Means
from distforest.forest.members import LeafDistances, Members, group, leaves_per_tree
from distforest.forest.node_sums import class_counts_of
from distforest.sources.truth import TruthKind
from tests import samples
from tests.forest.sealed.damage import changed
from tests.messages import naming
from tests.reference import naive
from tests.tries import tries

pytestmark = pytest.mark.kernels

CASES = sorted(samples.CASES)
TAUGHT = [case for case in CASES if case not in samples.UNTAUGHT_CASES]
FACTORS = {"targets": 0.5, "rbf_targets": 0.5, "landmark_targets": 0.5, "binned_targets": 0.5, "embedding": 1.0}


def trees_of(forest: Forest) -> list[naive.Grown]:
    """Each tree as the reference reads it."""
    table, found = forest.table, []
    for tree in range(forest.n_trees):
        nodes = slice(table.tree_start[tree], table.tree_start[tree + 1])
        own = {name: getattr(table, name)[nodes] for name in ("left", "right")}
        found.append(naive.Grown(forest.in_bag[tree].tolist(), forest.leaves[tree].tolist(), own))
    return found


def z_of(case: str) -> np.ndarray:
    """The distances that a case is judged by."""
    data = samples.data_of(case)
    if data.truth.kind == TruthKind.LABELS:
        return (data.truth.values[:, None] != data.truth.values).astype(np.float64)
    if data.truth.kind == TruthKind.DISTANCES:
        return data.truth.values
    apart = data.truth.values[:, None] - data.truth.values
    return FACTORS[case] * (apart**2).sum(axis=2)


def nodes_of_tree(forest: Forest, tree: int, inner: bool = True) -> np.ndarray:
    """The nodes of a tree, or its leaves."""
    is_leaf = forest.table.is_leaf[forest.table.tree_start[tree] : forest.table.tree_start[tree + 1]]
    return np.arange(len(is_leaf)) if inner else np.flatnonzero(is_leaf)


def says_of_inner(forest: Forest) -> bool:
    return isinstance(forest.leaf_table, (ClassCounts, Means))


# --- what the tables hold ---------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [case for case in CASES if samples.truth_of(case).kind == TruthKind.LABELS])
def test_class_counts_are_those_of_the_rows_that_reached_a_node(case: str, forest_of: Callable[[str], Forest]) -> None:
    forest, begin = forest_of(case), 0
    assert isinstance(forest.leaf_table, ClassCounts)
    counts, truth = forest.leaf_table.class_counts, samples.data_of(case).truth.values.tolist()
    assert counts.dtype == np.int32
    for tree in trees_of(forest):
        assert tree.table is not None
        expected = naive.class_counts(tree.table, tree.leaves, truth, tree.weights, 3)
        assert counts[begin : begin + len(expected)].tolist() == expected.tolist()
        begin += len(expected)
    assert begin == len(counts)


@pytest.mark.parametrize("case", sorted(FACTORS))
def test_means_and_spreads_are_those_of_the_rows_that_reached_a_node(
    case: str, forest_of: Callable[[str], Forest]
) -> None:
    forest, begin = forest_of(case), 0
    table, Y = forest.leaf_table, samples.data_of(case).truth.values
    assert isinstance(table, Means)
    assert table.factor == FACTORS[case]
    for tree in trees_of(forest):
        assert tree.table is not None
        mean, squares = naive.means(tree.table, tree.leaves, Y.tolist(), tree.weights)
        own = slice(begin, begin + len(mean))
        np.testing.assert_allclose(table.means[own], mean, rtol=1e-12)
        np.testing.assert_allclose(table.spreads[own], squares - (mean**2).sum(axis=1), rtol=1e-9, atol=1e-10)
        begin += len(mean)
    assert begin == len(table.means) == len(table.spreads)


def test_spreads_far_from_the_origin_do_not_cancel() -> None:
    data = samples.data_of("targets")
    far = samples.retaught(data, np.round(data.truth.values * 8) / 8 + 2.0**40)
    near = samples.retaught(data, np.round(data.truth.values * 8) / 8)
    a, b = (samples.problem_of("targets", own).grow(np.arange(3)) for own in (far, near))
    assert a["columns"].tolist() == b["columns"].tolist()
    np.testing.assert_allclose(a["spreads"], b["spreads"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(a["means"] - 2.0**40, b["means"], atol=2e-4)


@pytest.mark.slow
@settings(max_examples=tries(40))
@given(
    apart=st.sampled_from([0.0, 1.0, 1e6, 1e9, 1e12]),
    shift=st.sampled_from([0.0, 1.7e9]),
    q=st.integers(1, 2),
    seed=st.integers(0, 2**32 - 1),
)
def test_spreads_inside_groups_do_not_cancel_however_far_the_groups_are_apart(
    apart: float, shift: float, q: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    data = samples.data_of("targets" if q == 1 else "embedding")
    group = rng.integers(0, 3, len(data.truth.values))[:, None]
    Y = shift + apart * group + rng.normal(size=(len(group), q))
    X = np.concatenate([group.astype(np.float32), data.matrix[:, 1:]], axis=1)
    problem = samples.problem_of("targets" if q == 1 else "embedding", samples.retaught(replace(data, matrix=X), Y))
    forest = problem.forest([problem.grow(np.arange(2))])
    begin = 0
    for tree in trees_of(forest):
        assert tree.table is not None
        expected = naive.spreads(tree.table, tree.leaves, Y.tolist(), tree.weights)
        own = slice(begin, begin + len(expected))
        np.testing.assert_allclose(forest.leaf_table.spreads[own], expected, rtol=1e-5, atol=1e-15 * apart)
        begin += len(expected)


# --- distances --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", TAUGHT)
def test_distances_of_nodes_are_the_reference(case: str, forest_of: Callable[[str], Forest]) -> None:
    forest, z = forest_of(case), z_of(case)
    for tree, grown in enumerate(trees_of(forest)[:2]):
        nodes = nodes_of_tree(forest, tree, says_of_inner(forest))[::3]
        found = forest.leaf_table.between(tree, nodes, nodes)
        expected = [
            [naive.leaf_distance(z, grown.weights, grown.leaves, a, b, grown.table) for b in nodes.tolist()]
            for a in nodes.tolist()
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


@settings(max_examples=tries(40))
@given(st.sampled_from(CASES), st.data())
def test_distances_are_symmetric_to_the_bit_and_the_same_whoever_else_is_asked(
    forest_of: Callable[[str], Forest], case: str, data: st.DataObject
) -> None:
    forest = forest_of(case)
    tree = data.draw(st.integers(0, forest.n_trees - 1))
    nodes = nodes_of_tree(forest, tree, says_of_inner(forest))
    one = st.lists(st.sampled_from(nodes.tolist()), min_size=1, max_size=6)
    left, right = np.array(data.draw(one)), np.array(data.draw(one))
    whole = forest.leaf_table.between(tree, nodes, nodes)
    found = forest.leaf_table.between(tree, left, right)
    assert whole.tobytes() == whole.T.copy().tobytes()
    place = {node: number for number, node in enumerate(nodes.tolist())}
    rows, columns = [place[node] for node in left.tolist()], [place[node] for node in right.tolist()]
    assert found.tobytes() == whole[np.ix_(rows, columns)].tobytes()
    pairs = forest.leaf_table.pairs(tree, np.repeat(left, len(right)), np.tile(right, len(left)))
    assert pairs.tobytes() == found.tobytes()
    assert (found >= 0).all()


def test_the_triangles_are_the_distances_of_the_members(forest_of: Callable[[str], Forest]) -> None:
    forest = forest_of("distances")
    assert isinstance(forest.leaf_table, LeafDistances)
    members = Members(forest.table, forest.leaves, forest.in_bag, samples.data_of("distances").truth.values)
    members.check()
    for tree in range(forest.n_trees):
        leaves = nodes_of_tree(forest, tree, inner=False)
        same = members.between(tree, leaves, leaves)
        assert forest.leaf_table.between(tree, leaves, leaves).tobytes() == same.tobytes()


def test_labels_told_as_distances_leave_the_same_distances(forest_of: Callable[[str], Forest]) -> None:
    forest, codes = forest_of("labels"), samples.labels()
    z = (codes[:, None] != codes).astype(np.float32)
    members = Members(forest.table, forest.leaves, forest.in_bag, z)
    for tree in range(forest.n_trees):
        leaves = nodes_of_tree(forest, tree, inner=False)
        np.testing.assert_allclose(
            members.between(tree, leaves, leaves), forest.leaf_table.between(tree, leaves, leaves), atol=1e-12
        )


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e9, 1e20]), st.sampled_from([0.0, -1e7]))
def test_means_over_members_hold_small_distances_beside_a_large_one(
    forest_of: Callable[[str], Forest], seed: int, largest: float, offset: float
) -> None:
    forest, rng = forest_of("members"), np.random.default_rng(seed)
    n = forest.leaves.shape[1]
    z = rng.random((n, n)).astype(np.float32)
    z = np.maximum(z, z.T)
    z[0], z[:, 0] = z[0] + np.float32(largest), z[:, 0] + np.float32(largest)
    members, grown = Members(forest.table, forest.leaves, forest.in_bag, z, offset), trees_of(forest)[0]
    leaves = nodes_of_tree(forest, 0, inner=False)
    expected = [[naive.leaf_distance(z, grown.weights, grown.leaves, a, b) + offset for b in leaves] for a in leaves]
    np.testing.assert_allclose(members.between(0, leaves, leaves), expected, rtol=1e-12)


def test_members_of_an_older_forest_are_read_in_its_fixed_point(forest_of: Callable[[str], Forest]) -> None:
    forest, z, scale = forest_of("members"), samples.distances(), 8.0
    rounded = np.rint(z * scale) / scale
    assert (rounded != z).any()
    for tree in range(forest.n_trees):
        leaves = nodes_of_tree(forest, tree, inner=False)
        older = Members(forest.table, forest.leaves, forest.in_bag, z, scale=scale)
        same = Members(forest.table, forest.leaves, forest.in_bag, rounded.astype(np.float32))
        found = older.between(tree, leaves, leaves)
        assert found.tobytes() == same.between(tree, leaves, leaves).tobytes()
        assert older.pairs(tree, leaves, leaves).tobytes() == found.diagonal().tobytes()


# --- parts ------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=12))
def test_rows_are_grouped_by_leaf_in_their_order(places: list[tuple[int, int]]) -> None:
    leaves, in_bag = np.array(places, np.int32).T[0].copy(), np.array(places, np.uint8).T[1].copy()
    found = group(leaves, in_bag, 5)
    for node in range(5):
        own = slice(found.start[node], found.start[node + 1])
        expected = [(row, w) for row, (leaf, w) in enumerate(places) if leaf == node and w]
        assert list(zip(found.rows[own].tolist(), found.weights[own].tolist(), strict=True)) == expected
    assert found.start[-1] == (in_bag > 0).sum()


@pytest.mark.parametrize("case", ["missing", "oblique"])
def test_counts_go_up_to_the_root(case: str, forest_of: Callable[[str], Forest]) -> None:
    forest = forest_of(case)
    labels = (samples.features()[:, 0] * 4).astype(np.int32) % 3
    counts = class_counts_of(forest.table, forest.leaves, forest.in_bag, labels, 3)
    begin = 0
    for tree in trees_of(forest):
        assert tree.table is not None
        for node in range(len(tree.table["left"])):
            rows = naive.reached(tree.table, tree.leaves, node)
            expected = [sum(tree.weights[row] for row in rows if labels[row] == c) for c in range(3)]
            assert counts[begin + node].tolist() == expected
        begin += len(tree.table["left"])


@pytest.mark.parametrize("case", ["labels", "distances"])
def test_leaves_are_counted_per_tree(case: str, forest_of: Callable[[str], Forest]) -> None:
    table = forest_of(case).table
    counts = [len(nodes_of_tree(forest_of(case), tree, inner=False)) for tree in range(table.n_trees)]
    assert leaves_per_tree(table).tolist() == counts


# --- refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "name", "change"),
    [
        ("labels", "class_counts", lambda a: changed(a, (3, 0), -1)),
        ("labels", "class_counts", lambda a: changed(a, 3, 0)),
        ("labels", "class_counts", lambda a: changed(a, (3, 1), a[3, 1] + 1)),
        ("labels", "class_counts", lambda a: changed(a, (0, 0), 2**31 - 1)),
        ("labels", "class_counts", lambda a: a[:-1]),
        ("labels", "class_counts", lambda a: a.ravel()),
        ("labels", "class_counts", lambda a: a.astype(np.int64)),
        ("targets", "means", lambda a: changed(a, 2, np.nan)),
        ("targets", "means", lambda a: changed(a, 2, np.inf)),
        ("targets", "means", lambda a: a[:, 0]),
        ("targets", "means", lambda a: a[1:]),
        ("targets", "spreads", lambda a: changed(a, 4, -1e-9)),
        ("targets", "spreads", lambda a: changed(a, 4, np.nan)),
        ("targets", "spreads", lambda a: a[:, None]),
        ("members", "distances", lambda a: changed(a, (35, 2), np.nan)),
        ("members", "distances", lambda a: changed(a, (1, 2), np.inf)),
        ("members", "distances", lambda a: a[:, :-1]),
        ("members", "distances", lambda a: a[:-1]),
        ("members", "distances", lambda a: a.astype(np.float64)),
        ("distances", "leaf_distances", lambda a: changed(a, 1, np.nan)),
        ("distances", "leaf_distances", lambda a: a[:-1]),
        ("distances", "leaf_distances", lambda a: np.append(a, 0.0)),
        ("distances", "leaf_distances", lambda a: a[:, None]),
    ],
)
def test_a_leaf_table_that_does_not_fit_is_refused_by_name(
    case: str, name: str, change: Callable[[np.ndarray], np.ndarray], forest_of: Callable[[str], Forest]
) -> None:
    table: Any = forest_of(case).leaf_table
    table.check()
    with pytest.raises(ArtifactError, match=rf"^{name}\b"):
        replace(table, **{name: change(getattr(table, name))}).check()


def test_a_leaf_without_members_is_refused(forest_of: Callable[[str], Forest]) -> None:
    table: Any = forest_of("members").leaf_table
    leaf = int(table.leaves[1][np.flatnonzero(table.in_bag[1])[0]])
    emptied = np.where((table.leaves == leaf) & (np.arange(len(table.leaves)) == 1)[:, None], 0, table.in_bag)
    with pytest.raises(ArtifactError, match=naming("leaves[1]:", f"leaf {leaf} ")):
        replace(table, in_bag=emptied.astype(np.uint8)).check()
