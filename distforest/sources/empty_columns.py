"""Columns of features without a single value, which no split can read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.sources.arrays import row_blocks
from distforest.sources.doubts import column_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from distforest.sources.schema import Schema
    from distforest.sources.source import Float32s, Ints

NAMED = 4
"""The most columns that a message names."""


def empty_columns(features: Float32s) -> Ints:
    """Find the columns of features, shape (n, p), of which every value is NaN.

    Examples
    --------
    >>> empty_columns(np.array([[1, np.nan, np.nan], [np.nan, np.nan, 2]], np.float32)).tolist()
    [1]
    """
    if not len(features):
        return np.empty(0, np.int64)
    columns = np.flatnonzero(np.isnan(features[0]))  # usually none, and then no other row is read
    for _, block in row_blocks(features):
        if not len(columns):
            break
        columns = columns[np.isnan(block[:, columns]).all(axis=0)]
    return columns


def told_of_empty_columns(columns: Collection[int], schema: Schema | None = None) -> str:
    """Name columns that have no value at all; "" without any.

    Constant columns are not told of unless all are: they are what they are, as the border of a picture is. A column
    without a value has mostly been read wrongly, as where two tables are joined by names that differ.

    Examples
    --------
    >>> told_of_empty_columns([1])
    'column 1 has no value in any row, so that no split can read it: check how it was read, or leave it out'
    >>> told_of_empty_columns([])
    ''
    """
    if not len(columns):
        return ""
    ordered = sorted(columns)
    names = ", ".join(column_name(column, schema) for column in ordered[:NAMED])
    more = f" and {counted(len(ordered) - NAMED, 'other column')}" if len(ordered) > NAMED else ""
    have, it, them = ("has", "it was", "it") if len(ordered) == 1 else ("have", "they were", "them")
    found = f"{names}{more} {have} no value in any row, so that no split can read {them}"
    return f"{found}: check how {it} read, or leave {them} out"
