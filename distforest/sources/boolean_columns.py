"""Columns of True and False: later rows may hold 1 and 0 in their place, but no other numbers.

Trees cut them between 0 and 1, so that of codes such as 1 and 2 all would go to the side of True.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse

from distforest.errors import InputError
from distforest.sources.arrays import row_blocks

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from distforest.sources.schema import Schema


def check_booleans(rows: np.ndarray | scipy.sparse.spmatrix, schema: Schema | None, are_all: bool) -> None:
    """Refuse rows that hold anything but 0, 1 and missing values in a column that was of True and False in training.

    Parameters
    ----------
    rows
        Shape (n, n_columns).
    schema
        The columns in training; None if they had no names.
    are_all
        Whether all columns were of True and False.

    Raises
    ------
    InputError
        The message tells the first such row.

    Examples
    --------
    >>> check_booleans(np.array([[1.0], [np.nan]]), None, True)
    >>> check_booleans(np.array([[1.0], [2.0]]), None, True)
    Traceback (most recent call last):
    distforest.errors.InputError: X: True or False, or 1 or 0, was expected in column 0, as in training, found 2 in row
    1; code it as in training
    """
    own = () if schema is None else schema.booleans
    places = range(rows.shape[1]) if are_all else [place for place in own if place < rows.shape[1]]
    if rows.dtype.kind == "b" or not (others := _with_others(rows, places)):
        return
    column = rows[:, [others[0]]]
    values = np.ravel(column if isinstance(column, np.ndarray) else column.toarray())
    row = int(_is_other(values).argmax())
    name = others[0] if schema is None or not schema.is_named else repr(schema.names[others[0]])
    expected = f"X: True or False, or 1 or 0, was expected in column {name}, as in training"
    raise InputError(f"{expected}, found {values[row]:g} in row {row}; code it as in training")


def _with_others(rows: np.ndarray | scipy.sparse.spmatrix, places: Collection[int]) -> list[int]:
    """The columns among some that hold anything but 0, 1 and missing values."""
    if not places:
        return []
    if isinstance(rows, np.ndarray):
        has_others, own = np.zeros(rows.shape[1], np.bool_), np.array(places)
        for _, block in row_blocks(rows):
            has_others[own] |= _is_other(block if len(own) == block.shape[1] else block[:, own]).any(axis=0)
        return np.flatnonzero(has_others).tolist()
    stored = scipy.sparse.csr_array(rows)
    return sorted(set(stored.indices[_is_other(stored.data)].tolist()) & set(places))


def _is_other(values: np.ndarray) -> NDArray[np.bool_]:
    is_other: NDArray[np.bool_] = (values != 0) & (values != 1) & (values == values)
    return is_other
