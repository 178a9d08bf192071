"""A table of measured pairs, such as ``i,j,distance``, as the sparse matrix of what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.arguments import Floats
    from distforest.sources.files.tables import Table


def mean_of_pairs(pairs: NDArray[np.int64], values: Floats, n_rows: int) -> scipy.sparse.csr_array:
    """The mean value of each pair that has one, in both directions: a matrix of shape (n_rows, n_rows).

    Parameters
    ----------
    pairs
        Row numbers, shape (n_pairs, 2); (i, j) and (j, i) are one pair.
    values
        A value of each, shape (n_pairs,); NaN where nothing was measured.
    n_rows
        The number of rows.

    Examples
    --------
    >>> mean_of_pairs(np.array([[0, 1], [1, 0], [2, 1], [0, 2]]), np.array([1.0, 3.0, 5.0, np.nan]), 3).toarray()
    array([[0., 2., 0.],
           [2., 0., 5.],
           [0., 5., 0.]])
    """
    known = np.isfinite(values)
    low, high = np.sort(pairs[known], axis=1).T
    places, which, times = np.unique(low * n_rows + high, return_inverse=True, return_counts=True)
    means = np.bincount(which, values[known], len(places)) / times
    rows, columns = np.divmod(places, n_rows)
    apart = rows != columns
    both = np.append(rows, columns[apart]), np.append(columns, rows[apart])
    return scipy.sparse.csr_array((np.append(means, means[apart]), both), (n_rows, n_rows))


def matrix_of_measured(table: Table, pairs: NDArray[np.int64], values: Floats, n_rows: int) -> scipy.sparse.csr_array:
    """The matrix of measured pairs, of `mean_of_pairs`.

    Raises
    ------
    InputError
        Nothing was measured.

    Warns
    -----
    DistforestWarning
        A pair stands in several rows, whose mean is taken, or nothing was measured of a pair, which is left out.
    """
    n_missing = int(np.isnan(values).sum())
    if n_missing == len(values):
        raise InputError(f"{table.path}: measured pairs were expected, found none")
    if n_missing:
        has, be = ("has", "is") if n_missing == 1 else ("have", "are")
        warn_caller(f"{table.path}: {counted(n_missing, 'pair')} {has} no value and {be} left out")
    matrix = mean_of_pairs(pairs, values, n_rows)
    n_repeated = len(values) - n_missing - scipy.sparse.triu(matrix).nnz
    if n_repeated:
        found = counted(n_repeated, "row repeats a pair", "rows repeat a pair")
        warn_caller(f"{table.path}: {found}, in this or the other direction; the mean of each pair is taken")
    return matrix
