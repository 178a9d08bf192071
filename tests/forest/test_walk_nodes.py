"""The nodes of a tree lie in preorder, and a leaf is told from a node by its parent."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.forest.walks import IS_LEAF, preorder
from tests.samples import trees_of_any_shape
from tests.tries import tries

pytestmark = pytest.mark.kernels


@settings(max_examples=tries(40))
@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(0, 99))
def test_a_left_child_with_children_comes_right_after_its_parent(sizes: list[int], seed: int) -> None:
    table = trees_of_any_shape(sizes, [0.5], seed)

    def met(root: int, node: int) -> list[int]:
        if table.left[root + node] < 0:
            return []
        return [root + node, *met(root, int(table.left[root + node])), *met(root, int(table.right[root + node]))]

    expected = np.arange(len(table.left)) + int(IS_LEAF)
    order = [node for root in table.tree_start[:-1] for node in met(int(root), 0)]
    expected[order] = 4 * np.arange(len(order))
    assert preorder(table.tree_start, table.left, table.right).tolist() == expected.tolist()
