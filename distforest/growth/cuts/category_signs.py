"""Categories as numbers: a random sign for each, so that about half of a column's categories stand against the others.

A sign stands for an interval of width 2 about it, as a rounded number stands for one: `BLUR` is the variance within. So
two columns of categories that say the same agree as two columns of numbers would, and not without any error.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from distforest.growth.rng import Keys, mix, unit
from distforest.jit import borrowing, kernel
from distforest.sources.schema import MAX_CATEGORIES
from distforest.sources.source import Float32s, Int32s, Ints, offsets

BLUR = 1.0 / 3.0
"""Variance of a uniform variable on an interval of width 2, which a sign stands for (Sheppard's correction)."""


class CategoryNumbers(NamedTuple):
    """Numbers of categories that do not depend on their codes: categories count as their first rows come.

    Attributes
    ----------
    start
        Where the numbers of each column begin, shape (n_columns + 1,); a column of numbers has none.
    number
        The number of each code of each column, shape (M,).
    """

    start: Ints
    number: Int32s

    @classmethod
    def none(cls, n_columns: int) -> Self:
        """No numbers, as no column holds categories."""
        return cls(np.zeros(n_columns + 1, np.int64), np.empty(0, np.int32))

    @classmethod
    def of(cls, matrix: Float32s, n_categories: Int32s) -> Self:
        """The numbers for features, shape (n_rows, n_columns), of which some columns hold codes."""
        numbers = cls(offsets(n_categories), np.full(int(n_categories.sum()), -1, np.int32))
        number_codes(matrix, numbers)
        return numbers


@kernel
def number_codes(matrix: Float32s, numbers: CategoryNumbers) -> None:
    """numbers.number[start[c] + code] = how many other codes of column c come before it, row by row; -1 for none."""
    start, number = numbers
    for c in range(matrix.shape[1]):
        n = 0
        for r in range(matrix.shape[0] if start[c + 1] > start[c] else 0):
            value = matrix[r, c]
            if value == value and number[start[c] + np.int64(value)] < 0:
                number[start[c] + np.int64(value)] = n
                n += 1


@kernel
def derive_keys(keys: Keys, first: int, derived: Keys) -> None:
    """derived[f] = mix(keys[f] + first)."""
    for f in range(keys.shape[0]):
        derived[f] = mix(keys[f] + np.uint64(first))


@borrowing
def sign_of(key: np.uint64, column: int, number: int) -> float:
    """+1 or -1 for a category of a column, by its number."""
    return 1.0 if unit(key, column * MAX_CATEGORIES + number) < 0.5 else -1.0


@borrowing
def number_at(value: float, column: int, key: np.uint64, numbers: CategoryNumbers) -> float:
    """The sign of a category, NaN if it is missing; a number of a column of numbers as it is."""
    first = numbers.start[column]
    if numbers.start[column + 1] == first or value != value:
        return value
    return sign_of(key, column, numbers.number[first + np.int64(value)])
