"""Sets of categories: those that a cut sends to the other side than missing values.

A node that cuts a column of categories lists those that go to one side. All others go to the other side: those that the
node has seen there, those that it has never seen, and missing values. So a list has at most as many entries as the node
has rows, however many categories the column has; a bit for each category would be too much for 65,000 of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.errors import ArtifactError
from distforest.forest.frontier import LEFT, RIGHT, Frontier
from distforest.jit import kernel, no_refcount
from distforest.sources.schema import MAX_CATEGORIES
from distforest.sources.source import Floats, Int32s, Ints

CategoryCodes = NDArray[np.uint16]

OTHERS_LEFT, OTHERS_RIGHT = 0.0, 1.0
"""Threshold of a node that lists categories, by the side to which all others go."""


class CategorySets(NamedTuple):
    """The categories of each node, as kernels read them.

    Attributes
    ----------
    start
        Where the codes of each node begin in ``codes``, shape (N + 1,); shape (0,) if no node cuts categories.
    codes
        CategoryCodes of the categories, ascending in each node, shape (M,).
    others_right
        Whether a node's other categories, and missing values, go right, shape (N,).
    """

    start: Ints
    codes: CategoryCodes
    others_right: NDArray[np.bool_]


@no_refcount
def side_of_category(node: int, value: float, sets: CategorySets) -> int:
    """Return the side of a category at a node that cuts categories; an unlisted value goes with all others."""
    first, last = sets.start[node], sets.start[node + 1]
    while first < last:  # a binary search
        middle = (first + last) >> 1
        if sets.codes[middle] < value:
            first = middle + 1
        else:
            last = middle
    is_listed = first < sets.start[node + 1] and sets.codes[first] == value
    return RIGHT if is_listed != sets.others_right[node] else LEFT


@kernel
def send_categories(starts: Ints, nodes: Ints, values: Floats, sets: CategorySets, side: NDArray[np.int8]) -> None:
    """side[r] = that of the category values[r] at the node of row r; ``nodes`` are numbers in the whole table."""
    for place in range(nodes.shape[0]):
        node = nodes[place]
        if sets.start[node + 1] > sets.start[node]:
            for r in range(starts[place], starts[place + 1]):
                side[r] = side_of_category(node, values[r], sets)


class Listed(NamedTuple):
    """The lists of some nodes.

    Attributes
    ----------
    size
        The number of each node's codes, shape (n_nodes,).
    codes
        The codes of one node after another, ascending in each.
    threshold
        The side to which all others go, shape (n_nodes,): `OTHERS_LEFT` or `OTHERS_RIGHT`.
    """

    size: Int32s
    codes: CategoryCodes
    threshold: Floats


def listed_of(
    frontier: Frontier,
    values: Floats,
    side: NDArray[np.int8],
    which: NDArray[np.bool_],
    others_right: NDArray[np.bool_],
) -> Listed:
    """Return the lists of the nodes of a frontier, from the categories and sides of their rows.

    Parameters
    ----------
    frontier
        The nodes that are cut.
    values
        The code of each row on the column of its node, shape (n_rows,); NaN if it is missing. Codes of nodes that do
        not cut categories are not read.
    side
        The side of each row, shape (n_rows,).
    which
        Which nodes cut categories, shape (n_nodes,).
    others_right
        Whether the categories that are not listed go right, shape (n_nodes,).
    """
    entries = np.empty(len(values), np.int64)
    entries = np.sort(entries[: find_listed(frontier.starts, values, side, which, others_right, entries)])
    size = np.bincount(entries // MAX_CATEGORIES, minlength=frontier.n_nodes).astype(np.int32)
    return Listed(size, (entries % MAX_CATEGORIES).astype(np.uint16), np.where(others_right, OTHERS_RIGHT, OTHERS_LEFT))


@kernel
def find_listed(
    starts: Ints,
    values: Floats,
    side: NDArray[np.int8],
    which: NDArray[np.bool_],
    others_right: NDArray[np.bool_],
    entries: Ints,
) -> int:
    """Fill ``entries`` with node * MAX_CATEGORIES + code for each code that a node lists; return their number.

    A node for which ``which`` is True lists the codes of its rows that go to the other side than all others.
    """
    n, noted_by = 0, np.full(MAX_CATEGORIES, -1, np.int64)
    for node in range(starts.shape[0] - 1):
        if not which[node]:
            continue
        listed = LEFT if others_right[node] else RIGHT
        for r in range(starts[node], starts[node + 1]):
            if side[r] != listed or np.isnan(values[r]):
                continue
            code = np.int64(values[r])
            if noted_by[code] != node:
                noted_by[code] = node
                entries[n] = node * MAX_CATEGORIES + code
                n += 1
    return n


def check_lists(size: Int32s, codes: CategoryCodes, n_categories: Ints) -> None:
    """Refuse lists of categories that are not ascending, or beyond the categories of their columns.

    Parameters
    ----------
    size
        The number of each node's codes, shape (N,); not negative, M in all.
    codes
        The codes, shape (M,).
    n_categories
        The number of categories of each node's column, 0 where it cuts none, shape (N,).

    Raises
    ------
    ArtifactError
        The message names the array and its first wrong place.
    """
    wrong = (size > 0) != (n_categories > 0)
    if wrong.any():
        node = int(np.argmax(wrong))
        rule = "a node lists categories if it splits on a column of categories, and only then"
        raise ArtifactError(f"category_size[{node}]: {rule}")
    of_code = np.repeat(np.arange(len(size)), size)
    ascends = np.diff(codes.astype(np.int64)) > 0
    fits = codes < n_categories[of_code]
    fits[1:] &= ascends | (np.diff(of_code) > 0)
    if not fits.all():
        rule = "the categories of a node ascend, and its column has them"
        raise ArtifactError(f"category_codes[{int(np.argmin(fits))}]: {rule}")
