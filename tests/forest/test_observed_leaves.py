"""Distances of leaves where some are unobserved, against naive_observed.py; what stands in, and who is silent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import ArtifactError
from distforest.forest import scoring
from distforest.forest.held_nodes import HeldNodes, OfOneRow
from distforest.forest.leaves import LeafTable
from distforest.forest.members import Members
from distforest.forest.node_table import NodeTable
from distforest.forest.observed_leaves import (
    ObservedLeafDistances,
    ObservedMembers,
    check_unobserved,
    silent_trees,
)
from tests.messages import naming
from tests.reference import naive_observed
from tests.tries import tries

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = pytest.mark.kernels


def table_of(children: list[tuple[int, int]]) -> NodeTable:
    """One tree with these children of its nodes, (-1, -1) for a leaf, split on column 0."""
    left, right = np.array(children, np.int32).T
    is_leaf, n = left < 0, len(children)
    nothing = np.zeros(n)
    return NodeTable(
        tree_size=np.array([n]),
        left=left,
        right=right,
        threshold=nothing,
        width=(~is_leaf).astype(np.int32),
        columns=np.zeros((~is_leaf).sum(), np.int32),
        weights=np.ones((~is_leaf).sum()),
        gain=nothing,
        n_rows=np.ones(n, np.int64),
    )


#      0
#    1   2
#   3 4  5 6
DEEP = table_of([(1, 2), (3, 4), (5, 6), (-1, -1), (-1, -1), (-1, -1), (-1, -1)])
PARENT = [-1, 0, 0, 1, 1, 2, 2]
LEAVES = [3, 4, 5, 6]
ROOT = table_of([(-1, -1)])


class Tree:
    """A tree with rows in its leaves, some of whose distances are unobserved."""

    def __init__(self, n: int, seed: int, share: float) -> None:
        rng = np.random.default_rng(seed)
        z = rng.integers(0, 64, (n, n)).astype(np.float32)
        holes = np.triu(rng.random((n, n)) < share, 1)
        self.z = np.where(holes | holes.T, np.float32(np.nan), np.maximum(z, z.T))
        self.leaves = np.append(LEAVES, rng.choice(LEAVES, n - 4)).astype(np.int32)
        self.weights = np.append([1, 2, 1, 1], rng.integers(0, 4, n - 4))
        self.members = observed(self.z, self.leaves, self.weights)
        own = {leaf: [i for i in range(n) if self.leaves[i] == leaf and self.weights[i]] for leaf in LEAVES}
        inner = {1: own[3] + own[4], 2: own[5] + own[6], 0: own[3] + own[4] + own[5] + own[6]}
        self.rows = [(own | inner)[node] for node in range(7)]

    def expected(self, one: int, other: int) -> float:
        found = naive_observed.node_distance(self.z, self.rows, PARENT, self.weights, one, other)
        return float("nan") if found is None else float(found)

    def is_observed(self, one: int, other: int) -> bool:
        pairs = [(i, j) for i in self.rows[one] for j in self.rows[other] if i != j]
        return any(not np.isnan(self.z[pair]) for pair in pairs) or (one == other and len(self.rows[one]) == 1)


def observed(z: NDArray[Any], leaves: Any, weights: Any, table: NodeTable = DEEP, **others: Any) -> ObservedMembers:
    in_bag = np.array([weights], np.uint8)
    members = ObservedMembers(table, np.array([leaves], np.int32), in_bag, z, **others)
    return replace(members, unobserved=np.array([members.count(0)]))


def distances_of_row(table: LeafTable, end: int, nodes: NDArray[np.int64]) -> NDArray[np.float64]:
    """The distances of one node of a table's only tree to some, as `from_row` writes them."""
    apart = np.full(nodes.max() + 1, np.nan)
    row = OfOneRow(np.array([0]), np.array([end], np.int32), np.array([0]))
    table.from_row(row, HeldNodes(np.array([0, len(nodes)]), nodes.astype(np.int32)), apart)
    return apart[nodes]


TREES = st.builds(Tree, st.integers(4, 12), st.integers(0, 9999), st.sampled_from([0.0, 0.3, 0.7, 0.95]))


@settings(max_examples=tries(60))
@given(TREES)
def test_distances_of_leaves_are_those_of_the_formula(tree: Tree) -> None:
    expected = [[tree.expected(a, b) for b in LEAVES] for a in LEAVES]
    between = tree.members.between(0, np.array(LEAVES), np.array(LEAVES))
    np.testing.assert_allclose(between, expected, rtol=1e-12)
    assert between.tobytes() == between.T.copy().tobytes()
    left, right = np.array([3, 6, 5]), np.array([4, 6, 3])  # the same whoever else is asked
    one_by_one = [between[LEAVES.index(a), LEAVES.index(b)] for a, b in zip(left, right, strict=True)]
    np.testing.assert_array_equal(tree.members.pairs(0, left, right), one_by_one)
    np.testing.assert_array_equal(distances_of_row(tree.members, LEAVES[1], np.array(LEAVES)), between[1])


@settings(max_examples=tries(60))
@given(TREES)
def test_pairs_of_leaves_that_nobody_observed_are_counted(tree: Tree) -> None:
    expected = sum(not tree.is_observed(a, b) for a in LEAVES for b in LEAVES if a <= b)
    assert tree.members.unobserved is not None
    assert tree.members.unobserved.tolist() == [expected]
    assert not tree.members.silent.any()
    tree.members.check()


@settings(max_examples=tries(30))
@given(st.integers(4, 12), st.integers(0, 9999))
def test_with_everything_observed_they_are_those_of_members(n: int, seed: int) -> None:
    tree = Tree(n, seed, 0.0)
    plain = Members(DEEP, tree.members.leaves, tree.members.in_bag, tree.z)
    nodes = np.array(LEAVES)
    np.testing.assert_allclose(tree.members.between(0, nodes, nodes), plain.between(0, nodes, nodes), rtol=1e-12)


def test_the_deeper_node_gives_way_to_its_parent_until_a_pair_is_observed() -> None:
    """Rows 0 to 3 lie alone in leaves 3 to 6; for (3, 6) nobody observed (0, 3), so nodes 3 and 2 speak: (0, 2)."""
    z = np.array([[0, 1, 5, 9], [1, 0, 7, 8], [5, 7, 0, 2], [9, 8, 2, 0]], np.float32)
    z[0, 3] = z[3, 0] = np.nan
    three, six = np.array([3]), np.array([6])
    assert observed(z, LEAVES, [1] * 4).pairs(0, three, six).tolist() == [5.0]
    z[0, 2] = z[2, 0] = np.nan  # nor (0, 2): then node 3 gives way, and (0, 1) x (2, 3) speak
    assert observed(z, LEAVES, [1] * 4).pairs(0, three, six).tolist() == [7.5]
    z[1, 2:] = z[2:, 1] = np.nan  # nor any of those: the root, with (0, 1) and (2, 3)
    assert observed(z, LEAVES, [1] * 4).pairs(0, six, three).tolist() == [1.5]
    assert observed(z, LEAVES, [1, 1, 1, 3], offset=4.0).pairs(0, six, three).tolist() == [(1 + 3 * 2) / 4 + 4]


def test_a_leaf_and_itself_have_the_pairs_of_a_row_with_itself_by_their_share() -> None:
    z = np.array([[0, np.nan, 4], [np.nan, 0, 8], [4, 8, 0]], np.float32)
    leaves = [3, 3, 5]
    members = ObservedMembers(DEEP, np.array([leaves], np.int32), np.ones((1, 3), np.uint8), z)
    leaf = np.array([3])
    assert members.pairs(0, leaf, leaf).tolist() == [
        3.0
    ]  # rows 0 and 1 at 6, the mean of (0, 2) and (1, 2) in the root
    assert members.lineage(0).stop.tolist() == [3, 2, 3, 2, 2, 3, 3]


def test_a_tree_without_an_observed_pair_is_silent() -> None:
    z = np.array([[0, np.nan], [np.nan, 0]], np.float32)
    members, root = observed(z, [0, 0], [1, 1], ROOT), np.array([0])
    assert members.silent.tolist() == [True]
    assert np.isnan(members.pairs(0, root, root)).all()
    alone = observed(z, [0, 0], [2, 0], ROOT)
    assert alone.silent.tolist() == [False]
    assert alone.pairs(0, root, root).tolist() == [0.0]
    triangles = ObservedLeafDistances(ROOT, np.array([np.nan]), unobserved=np.array([1]))
    triangles.check()
    assert triangles.silent.tolist() == [True]
    assert silent_trees(DEEP, None).tolist() == [False]


def test_weights_of_rows_multiply_how_often_they_were_drawn() -> None:
    tree = Tree(8, 3, 0.4)
    twice = observed(tree.z, tree.leaves, 2 * tree.weights)
    weighed = observed(tree.z, tree.leaves, tree.weights, sample_weight=np.full(8, 2, np.int32))
    nodes = np.array(LEAVES)
    assert twice.between(0, nodes, nodes).tolist() == weighed.between(0, nodes, nodes).tolist()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"unobserved": None}, ("unobserved: ",)),
        ({"unobserved": np.array([11])}, ("unobserved[0]: ",)),
        ({"unobserved": np.array([-1])}, ("unobserved[0]: ",)),
        ({"unobserved": np.array([1.0])}, ("unobserved: ", "int64", "float64")),
        ({"distances": np.full((4, 4), np.inf, np.float32)}, ("distances[0]: ",)),
        ({"distances": np.full((4, 4), np.nan, np.float32)}, ("distances: ", "diagonal")),
    ],
)
def test_what_is_refused(change: dict[str, Any], named: tuple[str, ...]) -> None:
    members = observed(np.zeros((4, 4), np.float32), LEAVES, [1] * 4)
    members.check()
    with pytest.raises(ArtifactError, match=naming(*named)):
        replace(members, **change).check()


def test_only_a_silent_tree_may_have_no_distance() -> None:
    for values, count in (([np.inf], 1), ([np.nan], 0), ([0.0, 0.0], 1)):
        with pytest.raises(ArtifactError, match="leaf_distances"):
            ObservedLeafDistances(ROOT, np.array(values), unobserved=np.array([count])).check()
    with pytest.raises(ArtifactError, match="unobserved"):
        check_unobserved(ROOT, np.array([2]))


def test_a_forest_of_complete_distances_lacks_none() -> None:
    complete: Any = type(
        "Forest", (), {"leaf_table": Members(DEEP, *[np.zeros((1, 4), np.int32)] * 2, np.zeros((4, 4)))}
    )
    assert scoring.unobserved_share(complete) == 0.0
