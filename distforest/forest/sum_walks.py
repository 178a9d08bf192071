"""Walks of rows down trees of any projections, including sums of several columns; each row walks by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.forest.category_sets import CategorySets, side_of_category
from distforest.forest.frontier import LEFT, RIGHT, STAY
from distforest.forest.missing import side_of_halves
from distforest.jit import kernel, no_refcount
from distforest.sources.source import Float32s, Floats, Int32s, Ints

if TYPE_CHECKING:
    from distforest.sources.sparse import Lines


class SumNodes(NamedTuple):
    """The nodes of a `NodeTable` as a step reads them.

    Attributes
    ----------
    left, right, threshold, offset, columns, weights
        Arrays of the table; ``columns`` are unsigned (see `distforest.jit`).
    goes_right
        Whether a node sends a row with a missing value right, shape (N,); empty if the row stays.
    surrogate
        Thresholds of the two halves of each projection, shape (N, 2); (0, 2) if none decides.
    """

    left: Int32s
    right: Int32s
    threshold: Floats
    offset: Ints
    columns: NDArray[np.uint32]
    weights: Floats
    goes_right: NDArray[np.bool_]
    surrogate: Floats


@kernel
def route_array(
    nodes: SumNodes,
    sets: CategorySets | None,
    tree_start: Ints,
    values: Float32s,
    rows: Int32s,
    wanted: NDArray[np.bool_],
    ends: Int32s,
) -> None:
    """Walk each row down each tree: the fused twin of `distforest.forest.node_table.route_levels` for an array.

    A row goes left where sum over e of weights[e] values[r, columns[e]] <= threshold. A node that cuts categories
    decides by its list; if ``sets`` is None, Numba compiles nothing for these.
    """
    left, right, threshold, offset, columns, weights, goes_right, surrogate = nodes
    for tree in range(tree_start.shape[0] - 1):
        root = tree_start[tree]
        for r in range(rows.shape[0]):
            if not wanted[tree, r]:
                continue
            node = root
            while left[node] >= 0:
                value = 0.0
                for e in range(offset[node], offset[node + 1]):
                    value += weights[e] * values[rows[r], columns[e]]
                is_right, side = value > threshold[node], side_by_list(node, value, sets)
                if side != STAY:
                    is_right = side == RIGHT
                elif np.isnan(value):
                    if goes_right.shape[0] == 0:
                        break
                    is_right = goes_right[node]
                    if surrogate.shape[0] > 0:
                        terms = slice(offset[node], offset[node + 1])
                        is_right = lacking_goes_right(
                            values[rows[r]], columns[terms], weights[terms], surrogate[node], is_right
                        )
                node = root + (right[node] if is_right else left[node])
            ends[tree, r] = node - root


@no_refcount
def side_by_list(node: int, value: float, sets: CategorySets | None) -> int:
    """Return the side of a category at a node; `STAY` if the node cuts no categories."""
    if sets is None:
        return STAY
    if sets.start[node + 1] == sets.start[node]:
        return STAY
    return side_of_category(node, value, sets)


@no_refcount
def lacking_goes_right(
    row: Float32s, columns: NDArray[np.uint32], weights: Floats, surrogate: Floats, goes_right: bool
) -> bool:
    """Return whether a row with a missing value goes right: by a half of its projection, else by ``goes_right``."""
    positive, negative = 0.0, 0.0
    for e in range(columns.shape[0]):
        if weights[e] < 0.0:
            negative -= weights[e] * row[columns[e]]
        else:
            positive += weights[e] * row[columns[e]]
    side = side_of_halves(positive, negative, surrogate)
    return goes_right if side == STAY else side == RIGHT


@kernel
def route_sparse(
    nodes: SumNodes,
    tree_start: Ints,
    n_columns: int,
    by_row: Lines,
    rows: Int32s,
    wanted: NDArray[np.bool_],
    ends: Int32s,
) -> None:
    """`route_array` for rows by their non-zero values, none of them missing; a row is written out once."""
    left, right, threshold, offset, columns, weights, _, _ = nodes
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


@no_refcount
def goes_left(
    node: int, value: float, threshold: Floats, goes_right: NDArray[np.bool_], sets: CategorySets | None
) -> bool:
    """Return whether a pair goes left from a node: by its list if it cuts categories, otherwise by its threshold."""
    side = side_by_list(node, value, sets)
    if side != STAY:
        return side == LEFT
    return value <= threshold[node] or (np.isnan(value) and not goes_right[node])


@no_refcount
def walk_sums(nodes: SumNodes, sets: CategorySets | None, root: int, values: Float32s, ends: Ints) -> None:
    """ends[r] = the leaf of pair r in the tree that begins at ``root``, a number in the whole table."""
    left, right, threshold, offset, columns, weights, goes_right, _ = nodes
    for r in range(values.shape[0]):
        node = root
        while left[node] >= 0:
            total = 0.0
            for e in range(offset[node], offset[node + 1]):
                total += weights[e] * np.float64(values[r, columns[e]])
            is_left = goes_left(node, total, threshold, goes_right, sets)
            node = root + (left[node] if is_left else right[node])
        ends[r] = node


@no_refcount
def tally_pairs(
    nodes: SumNodes,
    sets: CategorySets | None,
    root: int,
    values: Float32s,
    codes: NDArray[np.uint8],
    multiplicity: Int32s,
    counts: Ints,
) -> None:
    """counts[node, s] += sum of the multiplicities of the pairs of class s that pass the node or end there."""
    left, right, threshold, offset, columns, weights, goes_right, _ = nodes
    for r in range(values.shape[0]):
        node, s = root, codes[r]
        counts[0, s] += multiplicity[r]
        while left[node] >= 0:
            total = 0.0
            for e in range(offset[node], offset[node + 1]):
                total += weights[e] * np.float64(values[r, columns[e]])
            is_left = goes_left(node, total, threshold, goes_right, sets)
            node = root + (left[node] if is_left else right[node])
            counts[node - root, s] += multiplicity[r]
