"""Doubts about given similarities: columns in another order than rows, and one number that marks what is unknown.

See also `distforest.sources.zero_similarities`.
"""

from __future__ import annotations

import numpy as np

from distforest.sources.arrays import row_blocks
from distforest.sources.zero_similarities import told_of_zero_similarities

COMPARED_ROWS, SAMPLED_ROWS = 64, 256
"""At most so many evenly spaced rows are compared with the columns of the same objects; and so many tell whether all
rows are worth a look."""

UNEQUAL = 1e-6
"""Share of the largest difference of two similarities by which equal ones may differ."""

FEWEST_MARKED, FEWEST_UNMARKED = 8, 32
"""Fewer similarities below 0 may be one number by chance; and so they may beside fewer different others."""


def told_of_similarity_doubts(matrix: np.ndarray) -> str:
    """What is to be doubted about a square matrix of given similarities, NaN where one is unobserved; else ""."""
    return told_of_columns_order(matrix) or told_of_marked_similarities(matrix) or told_of_zero_similarities(matrix)


def _spaced(n: int, most: int) -> np.ndarray:
    return np.arange(0, n, -(-n // most))


def told_of_columns_order(matrix: np.ndarray) -> str:
    """Say that the columns of similarities are in another order than the rows; else "".

    They are if each object has its largest similarity in a column of its own, if that is not the diagonal, and if the
    matrix, which is not symmetric, is so when each of these columns is moved to the place of its row.

    Examples
    --------
    >>> S = np.exp(-np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)) ** 2))
    >>> told_of_columns_order(S)
    ''
    >>> told_of_columns_order(S[:, [1, 0, 2, 4, 3]])
    'most similar to row 0 is column 1, and the matrix is symmetric only if its columns are moved to such rows, so they
    are in another order; give rows and columns of the same objects in one order, S[:, order]'
    """
    n = len(matrix)
    sampled = _spaced(n, SAMPLED_ROWS)
    some = matrix[sampled].astype(np.float64)
    some[np.isnan(some)] = -np.inf
    if n < 3 or (some.argmax(axis=1) == sampled).all():
        return ""
    most_similar = np.empty(n, np.int64)
    is_taken = np.zeros(n, np.bool_)
    for first, block in row_blocks(matrix):
        if np.isnan(block).any():
            return ""
        found = block.argmax(axis=1)
        if is_taken[found].any() or len(np.unique(found)) < len(found):
            return ""
        is_taken[found] = True
        most_similar[first : first + len(block)] = found
    moved = np.flatnonzero(most_similar != np.arange(n))
    rows = np.unique(np.append(_spaced(n, COMPARED_ROWS), moved[:COMPARED_ROWS]))
    values = matrix[rows].astype(np.float64)
    rounding = UNEQUAL * float(values.max() - values.min())
    if _are_equal(values, matrix[:, rows].T, rounding):
        return ""
    if not _are_equal(values[:, most_similar], matrix[:, most_similar[rows]].T, rounding):
        return ""
    found_row = f"most similar to row {moved[0]} is column {most_similar[moved[0]]}"
    cure = "give rows and columns of the same objects in one order, S[:, order]"
    only = "the matrix is symmetric only if its columns are moved to such rows"
    return f"{found_row}, and {only}, so they are in another order; {cure}"


def _are_equal(one: np.ndarray, other: np.ndarray, rounding: float) -> bool:
    return bool((np.abs(one - other) <= rounding).all())


def told_of_marked_similarities(matrix: np.ndarray) -> str:
    """Say that one number stands where others are not below 0, as a mark for what is unknown does; else "".

    Examples
    --------
    >>> S = np.exp(-np.abs(np.subtract.outer(np.arange(40.0), np.arange(40.0))) / 9)
    >>> told_of_marked_similarities(S)
    ''
    >>> S[1, 2:] = S[2:, 1] = -1
    >>> told_of_marked_similarities(S)
    'all 76 similarities below 0 are -1, the first at row 1, column 2; if it marks what is unknown, put NaN in their
    place'
    """
    some = matrix[_spaced(len(matrix), SAMPLED_ROWS)]
    if some.dtype.kind not in "if" or not (some < 0).any():
        return ""
    n_below, mark, place, others = 0, 0.0, (0, 0), np.empty(0)
    for first, block in row_blocks(matrix):
        below = block < 0
        if below.any():
            row, column = divmod(int(below.argmax()), block.shape[1])
            value = float(block[row, column])
            if (n_below and value != mark) or not (block[below] == value).all():
                return ""
            place = place if n_below else (first + row, column)
            n_below, mark = n_below + int(np.count_nonzero(below)), value
        if len(others) < FEWEST_UNMARKED:
            others = np.union1d(others, block[~below & ~np.isnan(block)])
    if n_below < FEWEST_MARKED or len(others) < FEWEST_UNMARKED or mark % 1.0:
        return ""
    found = f"all {n_below:,} similarities below 0 are {mark:g}, the first at row {place[0]}, column {place[1]}"
    return f"{found}; if it marks what is unknown, put NaN in their place"
