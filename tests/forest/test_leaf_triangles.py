"""The distances of leaves from one pass over the rows are those of the leaf table, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.forest.members import Members, leaf_triangles
from tests import samples
from tests.tries import tries

pytestmark = [pytest.mark.kernels, pytest.mark.slow]


@settings(max_examples=tries(15), deadline=None)
@given(
    seed=st.integers(0, 999), block_rows=st.integers(1, 50), weighted=st.booleans(), offset=st.sampled_from([0.0, 7])
)
def test_triangles_are_those_of_the_leaf_table(seed: int, block_rows: int, weighted: bool, offset: float) -> None:
    rng = np.random.default_rng(seed)
    forest = samples.forest_from(samples.problem_of("distances"))
    z = rng.random((samples.N_ROWS,) * 2, dtype=np.float32) * np.float32(1e3)
    z = np.maximum(z, z.T)
    weights = rng.integers(1, 2000, samples.N_ROWS).astype(np.int32) if weighted else None
    in_bag = forest.in_bag if weights is None else forest.in_bag * weights
    members = Members(forest.table, forest.leaves, in_bag, z, offset)
    expected = []
    for tree in range(forest.n_trees):
        nodes = np.flatnonzero(forest.table.is_leaf[slice(*forest.table.tree_start[tree : tree + 2])])
        expected.append(members.between(tree, nodes, nodes)[np.tril_indices(len(nodes))])
    np.testing.assert_array_equal(leaf_triangles(members, block_rows), np.concatenate(expected))
