"""Codes of categories in a matrix, before a kernel reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import InputError
from distforest.sources.arrays import row_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_codes(matrix: np.ndarray, n_categories: Sequence[int], first_row: int = 0) -> None:
    """Refuse codes that are no categories of their feature; NaN is a missing value. Pages of a map are given back.

    Parameters
    ----------
    matrix
        Features, shape (n, p) with p at least ``len(n_categories)``.
    n_categories
        Number of categories of each of the first features, 0 for a number.
    first_row
        Number of the first row in messages.

    Raises
    ------
    InputError
        The message names the feature and the first wrong row.

    Examples
    --------
    >>> check_codes(np.array([[0.5, 2.0]]), (0, 3))
    """
    columns = [column for column, n in enumerate(n_categories) if n]
    for first, block in row_blocks(matrix) if columns else ():
        for column in columns:
            codes = block[:, column]
            fits = np.isnan(codes) | ((codes >= 0) & (codes < n_categories[column]) & (codes == np.floor(codes)))
            if not fits.all():
                row = int(np.argmin(fits))
                expected = f"feature {column} holds codes of categories, 0 to {n_categories[column] - 1}"
                raise InputError(f"{expected}; found {codes[row]:g} in row {first_row + first + row}")
