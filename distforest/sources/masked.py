"""Masked arrays: what is masked was not observed, so it is NaN, which each reading allows or refuses."""

from __future__ import annotations

from typing import Any

import numpy as np

from distforest.amounts import are
from distforest.errors import InputError


def unmasked(values: object) -> Any:
    """NaN in the place of what is masked, or None among objects; what is no masked array stays as it is.

    Parameters
    ----------
    values
        Anything; a list of masked arrays counts as one.

    Raises
    ------
    InputError
        Something is masked in an array of strings or dates, which have no such value.

    Examples
    --------
    >>> unmasked(np.ma.masked_equal([3, -9, 5], -9))
    array([ 3., nan,  5.])
    """
    if isinstance(values, (list, tuple)) and any(isinstance(one, np.ma.MaskedArray) for one in values):
        values = np.ma.array(values)
    if not isinstance(values, np.ma.MaskedArray):
        return values
    mask = np.ma.getmaskarray(values)
    n_masked = int(mask.sum())
    if not n_masked:
        return np.ma.getdata(values)
    if values.dtype.kind == "O":
        return np.where(mask, np.array(None), np.ma.getdata(values))
    if values.dtype.kind not in "fcbiu":
        found = f"found {n_masked:,} that {are(n_masked)} masked in an array of {values.dtype}"
        raise InputError(f"observed values were expected, {found}, which knows no missing ones; leave their rows out")
    return np.where(mask, np.float32(np.nan), np.ma.getdata(values))
