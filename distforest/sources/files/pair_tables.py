"""Tables of pairs of rows, which two columns name or number from 0, and what was measured of each pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller
from distforest.sources.files.bounds import quoted
from distforest.sources.files.cells import texts_of
from distforest.sources.files.ids import WHOLE, ids_beside, names_at, order_of_names, rows_of_ids
from distforest.sources.opening import open_matrix

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from distforest.arguments import Floats
    from distforest.sources.files.tables import Table

PAIRS_READ = 1 << 14
"""Pairs of a table that are read together."""

HIGHEST_NUMBER = 2**31 - 1
"""Rows are numbered by int32."""


def numbers_of_rows(address: str, n_rows: int, called: str) -> dict[str, int] | None:
    """The number of each row at an address by its name; None if they have no names. ``called`` is for messages.

    Raises
    ------
    InputError
        Two rows have the same name.
    """
    ids = ids_beside(address, n_rows)
    if ids is None:
        return None
    numbers = {name: number for number, name in enumerate(names_at(ids))}
    if len(numbers) < n_rows:
        n_twice = counted(n_rows - len(numbers), "row")
        raise InputError(f"{called}: pairs of names need names that differ, found {n_twice} named as another")
    return numbers


def wanted_rows(numbers: Mapping[str, int] | None, n_rows: int | None) -> str:
    """What is expected in a pair, in words."""
    if numbers is not None:
        return "the names of rows"
    return "numbers of rows, from 0," if n_rows is None else f"numbers of rows, 0 to {n_rows - 1},"


def pairs_of_rows_in(
    table: Table, positions: Sequence[int], numbers: Mapping[str, int] | None, n_rows: int | None, cure: str = ""
) -> NDArray[np.int64]:
    """Read pairs of rows from two columns of a table, shape (n_pairs, 2).

    Parameters
    ----------
    table, positions
        The table, and which columns hold the rows.
    numbers
        The number of each row by its name; None: the table has numbers of rows, from 0.
    n_rows
        The number of rows; None: nobody has said it.
    cure
        What to do if an entry is no row.

    Raises
    ------
    InputError
        An entry is no row.
    """
    blocks = [np.empty((0, 2), np.int64)]
    for first, arrays in table.blocks(positions, PAIRS_READ):
        texts = [texts_of(array).to_pylist() for array in arrays]
        sides = [[row_of(text, numbers, n_rows) for text in side] for side in texts]
        for column, side in enumerate(sides):
            if None in side:
                row = side.index(None)
                found = quoted(str(texts[column][row]))
                where = table.place(first + row, positions[column])
                raise InputError(f"{where}: {wanted_rows(numbers, n_rows)} were expected, found {found}{cure}")
        blocks.append(np.array(sides, np.int64).T)
    return np.concatenate(blocks)


def pairs_of_rows_at(
    table: Table, positions: Sequence[int], rows: str
) -> tuple[NDArray[np.int64], int, dict[str, dict[str, str]]]:
    """Read pairs of the rows at an address, by their names if they have any.

    Returns also how many rows there are, and `order_of_names`, empty if they have none.
    """
    address = rows_of_ids(rows)
    n_rows = int(open_matrix(address).shape[0])
    numbers = numbers_of_rows(address, n_rows, address)
    cure = "" if numbers is None else "; write it as `ids` beside them does, 007 and not 7, or leave this row out"
    pairs = pairs_of_rows_in(table, positions, numbers, n_rows, f", of {address}{cure}")
    return pairs, n_rows, {} if numbers is None else order_of_names([*numbers])


def row_of(text: str | None, numbers: Mapping[str, int] | None, n_rows: int | None) -> int | None:
    """The number of the row that a text names; None if it names none.

    Examples
    --------
    >>> row_of("7", None, 8), row_of("8", None, 8), row_of("8", None, None), row_of("fern", {"fern": 3}, 8)
    (7, None, 8, 3)
    """
    if numbers is not None:
        return numbers.get(text or "")
    number = int(text) if text and WHOLE.fullmatch(text) else -1
    return number if 0 <= number < (HIGHEST_NUMBER if n_rows is None else n_rows) else None


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
