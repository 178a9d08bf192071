"""Two columns of a table that say of which rows a pair is: by their numbers, from 0, or by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.sources.arrays import open_array, row_blocks
from distforest.sources.files.bounds import quoted
from distforest.sources.files.cells import texts_of
from distforest.sources.files.ids import WHOLE, ids_beside, names_of_rows
from distforest.sources.files.survey import column_blocks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

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
    array = open_array(ids)
    names = (name for _, block in row_blocks(array) for name in names_of_rows(block, dict(array.attrs)))
    numbers = {name: number for number, name in enumerate(names)}
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
    blocks, first = [np.empty((0, 2), np.int64)], 0
    for arrays in column_blocks(table, positions, PAIRS_READ):
        sides = [[row_of(text, numbers, n_rows) for text in texts_of(array).to_pylist()] for array in arrays]
        for column, side in enumerate(sides):
            if None in side:
                row = side.index(None)
                found = quoted(str(texts_of(arrays[column])[row].as_py()))
                where = table.place(first + row, positions[column])
                raise InputError(f"{where}: {wanted_rows(numbers, n_rows)} were expected, found {found}{cure}")
        blocks.append(np.array(sides, np.int64).T)
        first += len(sides[0])
    return np.concatenate(blocks)


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
