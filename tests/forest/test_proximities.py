"""Proximities against naive.py and brute force: dense, out of bag, sparse and the greatest; the same for any block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.forest import leaf_index, proximities
from distforest.forest.forest import Forest
from distforest.forest.leaf_index import LeafIndex
from distforest.sources.source import Floats, Int32s, Ints
from tests import samples
from tests.forest.test_scoring import nodes_of
from tests.messages import naming
from tests.reference import naive, naive_clusters
from tests.tries import tries

pytestmark = pytest.mark.kernels

CASES = sorted(samples.CASES)
FREE = settings(max_examples=tries(80))
ForestOf = Callable[[str], Forest]


@st.composite
def two_sides(draw: st.DrawFn) -> tuple[Int32s, Int32s]:
    """Nodes of two groups of rows in some trees, in trees of one leaf to one for each row; some rows are alike."""
    n_trees, n_left, n_right = draw(st.integers(1, 6)), draw(st.integers(0, 12)), draw(st.integers(1, 30))
    n_nodes = draw(st.lists(st.integers(1, 40), min_size=n_trees, max_size=n_trees))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    nodes = np.array([rng.integers(0, size, n_left + n_right) for size in n_nodes]).astype(np.int32)
    nodes[:, rng.random(nodes.shape[1]) < draw(st.sampled_from([0.0, 0.5]))] = nodes[:, :1]
    return nodes[:, :n_left], nodes[:, n_left:]


def brute(left: Int32s, right: Int32s) -> Floats:
    """Every proximity, one by one."""
    shares = [naive.proximity(a.tolist(), b.tolist()) for a in left.T for b in right.T]
    return np.array(shares).reshape(left.shape[1], right.shape[1])


def best(shares: Floats, n_neighbors: int, self_rows: bool) -> tuple[Floats, Ints]:
    """The greatest of each row of a dense matrix, of equal ones the first."""
    shares = shares.copy()
    if self_rows:
        np.fill_diagonal(shares, -1.0)
    order = np.argsort(-shares, axis=1, kind="stable")[:, :n_neighbors]
    return np.take_along_axis(shares, order, axis=1), order


# --- the rows of each leaf --------------------------------------------------------------------------------


@FREE
@given(two_sides(), st.booleans(), st.sampled_from([1, 3]))
def test_an_index_has_each_row_once_in_its_node_of_each_tree(
    sides: tuple[Int32s, Int32s], some_absent: bool, threads: int
) -> None:
    _, nodes = sides
    if some_absent:
        nodes = np.where(nodes % 3 == 1, -1, nodes)
    index = LeafIndex.from_nodes(nodes, threads)
    assert index.order[index.place].tolist() == list(range(index.n_rows))
    for tree, own in enumerate(nodes):
        start = index.start[index.first[tree] : index.first[tree + 1]]
        for node in range(own.max() + 1):
            members = index.members[start[node] : start[node + 1]]
            assert (np.diff(members) > 0).all()
            assert sorted(index.order[members].tolist()) == np.flatnonzero(own == node).tolist()


# --- all of them ------------------------------------------------------------------------------------------


@FREE
@given(two_sides(), st.sampled_from([1, 4, 4096]), st.sampled_from([1, 3]))
def test_proximities_count_the_trees_in_which_two_rows_end_together(
    sides: tuple[Int32s, Int32s], block: int, threads: int
) -> None:
    left, right = sides
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaf_index, "BLOCK_QUERIES", block)
        found = proximities.proximity(left, right, threads)
    assert found.tobytes() == brute(left, right).tobytes()
    assert found.tobytes() == proximities.proximity(right, left).T.copy().tobytes()
    assert found.tobytes() == proximities.proximity(left, LeafIndex.from_nodes(right)).tobytes()
    own = proximities.proximity(right, right)
    assert own.tobytes() == own.T.copy().tobytes()
    assert (np.diagonal(own) == 1.0).all()


@pytest.mark.parametrize("case", CASES)
def test_proximities_of_forests(case: str, forest_of: ForestOf) -> None:
    forest = forest_of(case)
    nodes, training = nodes_of(forest, case, 6), forest.leaves[:, :7]
    assert proximities.proximity(nodes, training).tolist() == brute(nodes, training).tolist()


@pytest.mark.parametrize("case", CASES)
def test_an_embedding_has_the_proximities_as_its_inner_products(case: str, forest_of: ForestOf) -> None:
    forest = forest_of(case)
    nodes = nodes_of(forest, case, 6)
    embedding = proximities.leaf_embedding(forest, nodes)
    assert embedding.shape == (6, len(forest.table.left))
    assert (embedding.sum(axis=1) == forest.n_trees).all()
    products = (embedding @ embedding.T).toarray() / forest.n_trees
    np.testing.assert_array_equal(products, proximities.proximity(nodes, nodes))


@pytest.mark.slow
@FREE
@given(two_sides(), st.integers(1, 8), st.sampled_from([1, 3]))
def test_sparse_proximities_are_the_dense_ones_that_are_not_0(
    sides: tuple[Int32s, Int32s], block: int, threads: int
) -> None:
    left, right = sides
    dense = brute(left, right)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proximities, "ROWS_OF_PROXIMITIES", block)
        whole = proximities.sparse_proximity(left, right, threads=threads)
    assert whole.shape == dense.shape
    assert whole.toarray().tobytes() == dense.tobytes()
    assert whole.nnz == np.count_nonzero(dense)
    assert whole.has_sorted_indices


@pytest.mark.parametrize("n_rows", [33, 256, 257, 70_000, 20_000_000])  # of one to four bytes
def test_rows_are_sorted_byte_by_byte(n_rows: int) -> None:
    rows = np.random.default_rng(n_rows).integers(0, n_rows, 200).astype(np.int32)
    rows[:2] = n_rows - 1, 0
    found = rows.copy()
    leaf_index.sort_rows(found, np.empty(200, np.int32), n_rows)
    assert found.tolist() == sorted(rows.tolist())


# --- the greatest -----------------------------------------------------------------------------------------


@pytest.mark.slow
@FREE
@given(two_sides(), st.integers(1, 30), st.sampled_from([1, 4, 4096]), st.sampled_from([1, 3]))
def test_the_nearest_are_those_of_the_dense_matrix(
    sides: tuple[Int32s, Int32s], n_neighbors: int, block: int, threads: int
) -> None:
    left, right = sides
    n_neighbors = min(n_neighbors, right.shape[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaf_index, "BLOCK_QUERIES", block)
        found, indices = proximities.nearest(left, right, n_neighbors, False, threads)
    expected, order = best(brute(left, right), n_neighbors, False)
    assert indices.tolist() == order.tolist()
    assert found.tobytes() == expected.tobytes()
    sparse = proximities.sparse_proximity(left, right, n_neighbors, threads)
    dense = np.zeros(sparse.shape)
    np.put_along_axis(dense, order, expected, axis=1)
    assert sparse.toarray().tobytes() == dense.tobytes()
    assert sparse.nnz == np.count_nonzero(expected)
    assert sparse.has_sorted_indices


@FREE
@given(two_sides(), st.integers(1, 29), st.sampled_from([1, 4, 4096]))
def test_a_row_is_not_its_own_neighbour(sides: tuple[Int32s, Int32s], n_neighbors: int, block: int) -> None:
    _, nodes = sides
    n_neighbors = min(n_neighbors, nodes.shape[1] - 1)
    if n_neighbors == 0:  # of one row
        with pytest.raises(InputError, match=naming("n_neighbors", "1..0", "1 row")):
            proximities.nearest(nodes, nodes, 1, True)
        return
    expected, order = best(brute(nodes, nodes), n_neighbors, True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaf_index, "BLOCK_QUERIES", block)
        found, indices = proximities.nearest(nodes, LeafIndex.from_nodes(nodes), n_neighbors, True)
    assert indices.tolist() == order.tolist()
    assert found.tobytes() == expected.tobytes()


@FREE
@given(two_sides(), st.integers(1, 30), st.booleans(), st.integers(1, 31), st.sampled_from([1, 4, 4096]))
def test_parts_of_the_index_have_the_bits_of_the_whole(
    sides: tuple[Int32s, Int32s], n_neighbors: int, self_rows: bool, part_rows: int, block: int
) -> None:
    left, right = sides
    left = right if self_rows else left
    n_neighbors = min(n_neighbors, right.shape[1] - self_rows)
    if n_neighbors == 0:  # of one row
        return
    expected, order = best(brute(left, right), n_neighbors, self_rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaf_index, "BLOCK_QUERIES", block)
        found, indices = proximities.nearest(left, right, n_neighbors, self_rows, part_rows=part_rows)
    assert indices.tolist() == order.tolist()
    assert found.tobytes() == expected.tobytes()


def test_the_nearest_of_many_equal_ones_are_the_first() -> None:
    nodes = np.zeros((3, 500), np.int32)
    nodes[2, 250:] = 1
    found, indices = proximities.nearest(nodes, nodes, 300, True)
    assert found[0].tolist() == [1.0] * 249 + [2 / 3] * 51
    assert indices[0].tolist() == list(range(1, 301))
    assert indices[400].tolist() == [*range(250, 400), *range(401, 500), *range(51)]


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="many rows")
def test_the_nearest_of_many_rows_in_several_blocks() -> None:
    rng = np.random.default_rng(4)
    place = rng.random(9000)
    cuts = np.sort(rng.random((20, 300)), axis=1)
    nodes = np.array([np.searchsorted(own, place) for own in cuts]).astype(np.int32)
    found, indices = proximities.nearest(nodes, nodes, 40, True, threads=2)
    for row in range(0, 9000, 300):
        shares = (nodes == nodes[:, [row]]).mean(axis=0)
        shares[row] = -1.0
        order = np.argsort(-shares, kind="stable")[:40]
        assert indices[row].tolist() == order.tolist()
        assert found[row].tolist() == shares[order].tolist()


# --- out of bag -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 5, 1024])
@pytest.mark.parametrize("case", CASES)
def test_out_of_bag_proximities_rest_on_the_trees_that_drew_neither_row(
    case: str, block: int, forest_of: ForestOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    forest = forest_of(case)
    monkeypatch.setattr(proximities, "ROWS_OF_PROXIMITIES", block)
    left, right = np.arange(12), np.arange(4, 36)
    found, count = proximities.out_of_bag_proximity(forest, left, right)
    shares, trees = naive_clusters.out_of_bag_proximity(forest.leaves, forest.in_bag)
    np.testing.assert_array_equal(found, shares[np.ix_(left, right)])
    assert count.tolist() == trees[np.ix_(left, right)].tolist()
    mirrored, _ = proximities.out_of_bag_proximity(forest, right, left, threads=2)
    assert mirrored.T.copy().tobytes() == found.tobytes()


def test_a_row_out_of_bag_is_as_near_to_itself_as_can_be(forest_of: ForestOf) -> None:
    forest = forest_of("labels")
    everyone = np.arange(36)
    found, count = proximities.out_of_bag_proximity(forest, everyone, everyone)
    out = forest.in_bag == 0
    assert np.diagonal(count).tolist() == out.sum(axis=0).tolist()
    assert 0 < out.any(axis=0).sum() < 36
    assert np.array_equal(np.diagonal(found), np.where(out.any(axis=0), 1.0, np.nan), equal_nan=True)


# --- what is refused --------------------------------------------------------------------------------------


def test_both_sides_are_routed_through_one_forest() -> None:
    two, three = np.zeros((2, 4), np.int32), np.zeros((3, 4), np.int32)
    for right in (three, LeafIndex.from_nodes(three)):
        for ask in (proximities.proximity, proximities.sparse_proximity):
            with pytest.raises(InputError, match=naming("forest", 2, "3 trees")):
                ask(two, right)
        with pytest.raises(InputError, match=naming("forest", 2, "3 trees")):
            proximities.nearest(two, right, 1, False)


@pytest.mark.parametrize("side", [0, 1])
def test_rows_that_were_not_routed_are_refused(side: int) -> None:
    sides = [np.zeros((2, 4), np.int32), np.zeros((2, 4), np.int32)]
    sides[side][1, 2] = -1
    for ask in (proximities.proximity, proximities.sparse_proximity, lambda a, b: proximities.nearest(a, b, 1, True)):
        with pytest.raises(InputError, match=naming("nodes:", "row 2", "tree 1", -1)):
            ask(*sides)
    with pytest.raises(InputError, match=naming("nodes:", "(n_trees, n_rows)", "float64 (2, 4)")):
        proximities.proximity(np.zeros((2, 4)), sides[0])


def test_out_of_bag_rows_that_were_not_routed_are_refused(forest_of: ForestOf) -> None:
    forest = forest_of("labels")
    forest = replace(forest, leaves=np.where(forest.in_bag == 0, -1, forest.leaves).astype(np.int32))
    with pytest.raises(InputError, match=naming("out of bag", "oob_score=True", "bootstrap=False")):
        proximities.out_of_bag_proximity(forest, np.arange(3), np.arange(3))


@pytest.mark.parametrize(("n_neighbors", "self_rows"), [(0, False), (5, False), (4, True), (-1, True)])
def test_more_neighbours_than_rows_are_refused(n_neighbors: int, self_rows: bool) -> None:
    nodes = np.zeros((2, 4), np.int32)
    with pytest.raises(InputError, match=naming("n_neighbors", f"1..{4 - self_rows}", "4 rows", n_neighbors)):
        proximities.nearest(nodes, nodes, n_neighbors, self_rows)


def test_rows_and_themselves_are_as_many() -> None:
    nodes = np.zeros((2, 4), np.int32)
    with pytest.raises(InputError, match=naming("self_rows=True", 3, "4 rows")):
        proximities.nearest(nodes[:, :3], nodes, 1, True)


def test_a_thread_that_fails_ends_the_work() -> None:
    def refuse(task: int) -> None:
        if task == 3:
            raise InputError("not 3")

    for threads in (1, 2):
        with pytest.raises(InputError, match="not 3"):
            leaf_index.in_threads(refuse, iter(range(9)), threads)
