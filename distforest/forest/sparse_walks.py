"""How rows of sparse features walk down trees: each row is written out once, and then walks down all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.sources.source import Floats, Int32s, Ints
    from distforest.sources.sparse_features import Lines

    Trees = tuple[Ints, Int32s, Int32s, Floats, Ints, Int32s, Floats]
    """The arrays of `distforest.forest.table.RoutedNodes`."""


@kernel
def route_sparse(
    nodes: Trees, n_columns: int, by_row: Lines, rows: Int32s, wanted: NDArray[np.bool_], ends: Int32s
) -> None:
    """`distforest.forest.table.route_array` for rows by their values other than 0; no value is missing."""
    tree_start, left, right, threshold, offset, columns, weights = nodes
    dense = np.zeros(n_columns, np.float32)
    for r in range(rows.shape[0]):
        stored = range(by_row.start[rows[r]], by_row.start[rows[r] + 1])
        for v in stored:
            dense[by_row.number[v]] = by_row.value[v]
        for tree in range(tree_start.shape[0] - 1):
            if not wanted[tree, r]:
                continue
            root, node = tree_start[tree], 0
            while left[root + node] >= 0:
                value = 0.0
                for e in range(offset[root + node], offset[root + node + 1]):
                    value += weights[e] * dense[columns[e]]
                node = left[root + node] if value <= threshold[root + node] else right[root + node]
            ends[tree, r] = node
        for v in stored:
            dense[by_row.number[v]] = 0.0
