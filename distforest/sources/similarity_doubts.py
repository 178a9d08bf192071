"""Doubts about given similarities: columns in another order than rows, and one number that marks what is unknown.

See also `distforest.sources.zero_similarities`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.sources.arrays import row_blocks
from distforest.sources.rank_correlation import rank_correlation
from distforest.sources.source import spaced
from distforest.sources.zero_similarities import told_of_zero_similarities

if TYPE_CHECKING:
    from distforest.sources.source import Floats, Ints
    from distforest.sources.sparse import SparseSource

COMPARED_ROWS, SAMPLED_ROWS = 64, 256
"""At most so many evenly spaced rows are compared with the columns of the same objects; and so many tell whether all
rows are worth a look."""

UNEQUAL = 1e-6
"""Share of the largest difference of two similarities by which equal ones may differ."""

FEWEST_COMPARABLE, LEAST_OPPOSITION, LEAST_AGREEMENT = 13, -0.5, 0.15
"""Of fewer objects nothing is said; and if the rank correlation of the similarities of all pairs with those of the same
pairs, reversed, is no less, or far below 0, with the means of rows and columns or without them, they are no features.

Of 104 square cuts of 13 data sets, scaled or not, with 13 to 784 rows drawn at random or in order, 100 are told. Of 648
matrices from 18 sets that are not symmetric (ranks of neighbours, shares of them, divergences, inner products divided
by a number for each row or column, similarities with noise as large as they are) 3 are: inner products of positive
features divided by the largest of their row, which say little but how large the other object is."""

FIRST_READ = 64
"""Values of each row that are read first: one of them is usually observed, and then the row is not alone."""

FAR_FROM_OTHERS = 10.0
"""By how many times the range of all other values a mark lies beyond them."""

FEWEST_MARKED, FEWEST_UNMARKED = 8, 32
"""Fewer similarities below 0 may be one number by chance; and so they may beside fewer different others."""


def told_of_similarity_doubts(matrix: np.ndarray) -> str:
    """What is to be doubted about a square matrix of given similarities, NaN where one is unobserved; else ""."""
    marked = told_of_columns_order(matrix) or told_of_marked_similarities(matrix)
    marked = marked or told_of_far_mark(matrix, "similarity") or told_of_zero_similarities(matrix)
    return marked or told_of_features(matrix)


def told_of_alone(matrix: np.ndarray | SparseSource, value: str) -> str:
    """Say that objects have no observed similarity to any other; "" without any, or if no object has one.

    Parameters
    ----------
    matrix
        Square, NaN where nothing is observed.
    value
        What is observed: similarity, or distance.

    Examples
    --------
    >>> told_of_alone(np.array([[1, 0.5, np.nan], [0.5, 1, np.nan], [np.nan, np.nan, 1]]), "similarity")
    'no similarity of row 2 to any other row is observed, so it goes wherever all such rows go; observe some, or leave
    it out'
    """
    alone = _dense_alone(matrix) if isinstance(matrix, np.ndarray) else _sparse_alone(matrix)
    if not 0 < len(alone) < matrix.shape[0]:
        return ""
    if len(alone) == 1:
        found, follows = f"row {alone[0]} to any other row is observed", "so it goes wherever all such rows go"
        return f"no {value} of {found}, {follows}; observe some, or leave it out"
    found = f"{len(alone):,} rows to any other row is observed, the first of them row {alone[0]}"
    return f"no {value} of {found}, so all of them go to the same places; observe some, or leave them out"


def _dense_alone(matrix: np.ndarray) -> Ints:
    """The rows that have no value but on the diagonal; of most rows only the first few values are read."""
    is_known = ~np.isnan(matrix[:, :FIRST_READ])
    np.fill_diagonal(is_known, False)
    some = np.flatnonzero(~is_known.any(axis=1)).tolist()
    return np.array([row for row in some if _is_alone(matrix[row], row)], np.int64)


def _is_alone(values: np.ndarray, row: int) -> bool:
    return bool(np.isnan(np.delete(values, row)).all())


def _sparse_alone(matrix: SparseSource) -> Ints:
    """The same of a sparse matrix, whose stored values are the observed ones."""
    sizes = np.diff(matrix.indptr)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    n_own = np.bincount(rows[matrix.indices == rows], minlength=len(sizes))
    return np.flatnonzero(sizes == n_own)


def told_of_features(matrix: np.ndarray) -> str:
    """Say that a square matrix may hold features in place of similarities; else "".

    Similarities need not be symmetric, but the similarity of one object to another goes with that of the other to it;
    and most objects are most similar to themselves, or nobody has looked and the diagonal has one value. Of features,
    as many as rows, none of this holds but by chance.

    Examples
    --------
    >>> told_of_features(np.exp(-np.abs(np.subtract.outer(np.arange(20.0), np.arange(20.0)))))
    ''
    >>> told_of_features(np.random.default_rng(0).normal(size=(20, 20)))
    'row i of column j says nothing of row j of column i (rank correlation 0.04), and 20 of 20 objects are not most
    similar to themselves, so these seem to be features, of which there are as many as rows; give the similarities of
    all pairs of rows, or let them be computed, by "linear" or "rbf", say'
    """
    objects = spaced(len(matrix), SAMPLED_ROWS)
    if len(objects) < FEWEST_COMPARABLE:
        return ""
    values = matrix[np.ix_(objects, objects)].astype(np.float64)
    is_known, diagonal = ~np.isnan(values + values.T), np.diag(values)
    is_symmetric = (values == values.T)[is_known].all()
    if is_symmetric or (diagonal == diagonal[0]).all() or 2 * int(is_known.sum()) < values.size:
        return ""
    n_others = int((diagonal < np.nanmax(values, axis=1, initial=-np.inf)).sum())
    if 2 * n_others <= len(objects):
        return ""
    agreement = _agreement(values)
    if agreement < LEAST_OPPOSITION or max(agreement, _agreement(_centred(values))) >= LEAST_AGREEMENT:
        return ""
    found = f"row i of column j says nothing of row j of column i (rank correlation {agreement:.2f})"
    themselves = f"{n_others:,} of {len(objects):,} objects are not most similar to themselves"
    so = "so these seem to be features, of which there are as many as rows"
    cure = 'give the similarities of all pairs of rows, or let them be computed, by "linear" or "rbf", say'
    return f"{found}, and {themselves}, {so}; {cure}"


def _agreement(values: Floats) -> float:
    """The rank correlation of all values beside the diagonal, shape (n, n), with those of the same pairs, reversed."""
    upper = np.triu_indices(len(values), 1)
    one, other = values[upper], values.T[upper]
    is_known = ~np.isnan(one + other)
    one, other = one[is_known], other[is_known]
    return rank_correlation(np.append(one, other), np.append(other, one))


def _centred(values: Floats) -> Floats:
    """The ranks of values without the means of their rows and columns, by which a scale of either would count."""
    is_known = ~np.isnan(values)
    ordered, centred = np.sort(values[is_known]), np.full(values.shape, np.nan)
    centred[is_known] = np.searchsorted(ordered, values[is_known])
    np.fill_diagonal(centred, np.nan)
    counts = np.maximum(1, is_known.sum(axis=1) - 1)[:, None]
    centred -= np.nansum(centred, axis=1, keepdims=True) / counts
    counts = np.maximum(1, is_known.sum(axis=0) - 1)
    return np.asarray(centred - np.nansum(centred, axis=0) / counts)


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
    sampled = spaced(n, SAMPLED_ROWS)
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
    rows = np.unique(np.append(spaced(n, COMPARED_ROWS), moved[:COMPARED_ROWS]))
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
    some = matrix[spaced(len(matrix), SAMPLED_ROWS)]
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


def told_of_far_mark(matrix: np.ndarray, value: str) -> str:
    """Say that one whole number stands in several places, far from all others, or that all are the same; else "".

    A 0 is left to `distforest.sources.zero_similarities` and `distforest.sources.zero_distances`.

    Parameters
    ----------
    matrix
        Square, similarities or -d^2/2 of distances d, NaN where nothing is observed.
    value
        What is given: similarity, or distance.

    Examples
    --------
    >>> D = np.abs(np.subtract.outer(np.arange(40.0), np.arange(40.0)))
    >>> D[1, 20:] = D[20:, 1] = 9999
    >>> told_of_far_mark(-(D**2) / 2, "distance")
    '2.6% of the distances between different objects are 9999, far from all others, which are 1 to 39; if it marks what
    is unknown, put NaN in its place'
    >>> told_of_far_mark(1 - np.eye(9), "similarity")
    'all similarities between different objects are 1, so that there is hardly anything to learn from; check how they
    were worked out'
    """
    chosen = spaced(len(matrix), SAMPLED_ROWS)
    sample = matrix[np.ix_(chosen, chosen)].astype(np.float64)
    own = np.diag(sample).copy()
    np.fill_diagonal(sample, np.nan)
    values = sample[~np.isnan(sample)]
    plural = f"{value[:-1]}ies" if value.endswith("y") else f"{value}s"
    if len(values) >= FEWEST_UNMARKED and values.min() == values.max():
        same = values[0]
        if same == 0.0 or (own == same).any() or not _are_all(matrix, same):  # 0 is told, or no tree has a split
            return ""
        found = f"all {plural} between different objects are {_as_given(same, value):g}"
        return f"{found}, so that there is hardly anything to learn from; check how they were worked out"
    return _told_of_far_number(_as_given(values, value), f"{plural} between different objects")


def _as_given(values: Floats, value: str) -> Floats:
    """Similarities as they are; distances in place of -d^2/2."""
    return np.sqrt(np.maximum(0.0, -2.0 * values)) if value == "distance" else values


def _are_all(matrix: np.ndarray, same: float) -> bool:
    """Whether all values beside the diagonal are the same or NaN; reads no further than to the first other one.

    A sample does not tell: of many small groups it may have no two objects of one.
    """
    for first, block in row_blocks(matrix):
        is_other = (block != same) & ~np.isnan(block)
        rows = np.arange(len(block))
        is_other[rows, first + rows] = False
        if is_other.any():
            return False
    return True


def _told_of_far_number(values: Floats, what: str) -> str:
    """Say that the least or the largest value is a whole number but 0 that stands far from all others; else ""."""
    for mark in (values.min(), values.max()) if len(values) else ():
        is_mark = np.abs(values - mark) <= UNEQUAL * abs(mark)
        others, n_marked = values[~is_mark], int(is_mark.sum())
        if mark == 0.0 or abs(mark - round(mark)) > UNEQUAL:
            continue
        if n_marked < FEWEST_MARKED or len(np.unique(others)) < FEWEST_UNMARKED:
            continue
        if max(others.min() - mark, mark - others.max()) > FAR_FROM_OTHERS * (others.max() - others.min()):
            share = f"{100.0 * n_marked / len(values):.2g}% of the {what} are {mark:g}"
            range_of = f"far from all others, which are {others.min():.3g} to {others.max():.3g}"
            return f"{share}, {range_of}; if it marks what is unknown, put NaN in its place"
    return ""
