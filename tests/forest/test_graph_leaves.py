"""Distances of leaves by links, against sums over all pairs in exact numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import ArtifactError
from distforest.forest.graph_leaves import GraphMembers, KeptLinks
from tests.forest.test_observed_leaves import distances_of_row, table_of
from tests.growth.cuts.test_graph_distance import graph_of
from tests.messages import naming
from tests.reference import naive
from tests.tries import tries

pytestmark = pytest.mark.kernels

TABLE = table_of([(1, 2), (3, 4), (-1, -1), (-1, -1), (-1, -1)])
LEAVES = np.array([2, 3, 4])


def members(n: int, seed: int, weighted: bool) -> tuple[GraphMembers, np.ndarray, np.ndarray]:
    """Links of n rows in the three leaves of a tree, each of which holds one at least; the matrix, and the weights."""
    rng = np.random.default_rng(seed)
    z = np.where(rng.random((n, n)) < 0.6, 1.0, rng.random((n, n))).astype(np.float32)
    z = np.tril(z) + np.tril(z, -1).T
    leaves = LEAVES[np.concatenate([np.arange(3), rng.integers(0, 3, n - 3)])].astype(np.int32)
    in_bag = rng.integers(0, 4, n).astype(np.uint8)
    in_bag[:3] = 1
    stored = graph_of(z, 1.0).stored
    kept = KeptLinks(stored.indptr, stored.indices, stored.data.view(np.float32))
    of_rows = rng.integers(1, 9, n).astype(np.int32) if weighted else None
    table = GraphMembers(TABLE, leaves[None], in_bag[None], kept, 1.0, 0.25, of_rows)
    return table, z, in_bag * (1 if of_rows is None else of_rows)


@settings(max_examples=tries(30), deadline=None)
@given(st.integers(3, 20), st.integers(0, 2**32 - 1), st.booleans())
def test_distances_are_those_of_the_formula(n: int, seed: int, weighted: bool) -> None:
    table, z, weights = members(n, seed, weighted)
    found = table.between(0, LEAVES, LEAVES)
    for a, left in enumerate(LEAVES.tolist()):
        for b, right in enumerate(LEAVES.tolist()):
            expected = naive.leaf_distance(z, weights.tolist(), table.leaves[0].tolist(), left, right)
            assert found[a, b] == pytest.approx(expected + 0.25, rel=1e-12)
    np.testing.assert_array_equal(found, found.T)
    several = np.array([4, 2, 2])
    np.testing.assert_array_equal(table.between(0, several, LEAVES), found[[2, 0, 0]])
    left, right = np.repeat(LEAVES, 3), np.tile(LEAVES, 3)
    np.testing.assert_array_equal(table.pairs(0, left, right), found.reshape(-1))
    np.testing.assert_array_equal(distances_of_row(table, 3, LEAVES), found[1])


def test_leaves_that_no_link_joins_are_absent() -> None:
    table, *_ = members(9, 0, weighted=False)
    alone = replace(table, kept=KeptLinks(np.zeros(10, np.int64), np.empty(0, np.int32), np.empty(0, np.float32)))
    assert (alone.between(0, LEAVES, LEAVES) == 1.25).all()
    alone.check()


@pytest.mark.parametrize(
    ("name", "place", "value", "named"),
    [
        ("indptr", 0, 1, "graph_indptr: "),
        ("indptr", 1, 999, "graph_indptr: "),
        ("indptr", -1, 2, "graph_(indptr|indices): "),
        ("indices", 0, 99, "graph_indices: .*training rows"),
        ("indices", 0, -1, "graph_indices: .*training rows"),
        ("indices", 1, 0, "graph_indices: .*links"),
        ("distances", 0, np.nan, "graph_distances: "),
    ],
)
def test_damage_is_refused(name: str, place: int, value: float, named: str) -> None:
    table, *_ = members(9, 0, weighted=False)
    table.check()
    array = getattr(table.kept, name).copy()
    array[place] = value
    with pytest.raises(ArtifactError, match=f"^{named}"):
        replace(table, kept=table.kept._replace(**{name: array})).check()


def test_a_leaf_without_rows_is_refused() -> None:
    table, *_ = members(9, 0, weighted=False)
    with pytest.raises(ArtifactError, match=naming("leaves[0]:", "leaf 3")):
        replace(table, leaves=np.where(table.leaves == 3, 2, table.leaves)).check()
