"""Weights as a user states them: of rows or of pairs of points, a number for each; of features, likewise."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError

if TYPE_CHECKING:
    from distforest.sources.source import Floats


class Weighed(NamedTuple):
    """What has weights: the key under which a user states them, one of those that have them, and all of them."""

    key: str
    noun: str
    plural: str


NO_AMOUNTS = "mMc"
"""Kinds of dtypes of which NumPy would count days or seconds, or drop what is imaginary."""

OF_ROWS = Weighed("sample_weight", "row", "samples")
OF_PAIRS = Weighed("pair_weight", "pair", "pairs")


def checked_weights(weights: object, n: int, what: Weighed = OF_ROWS) -> Floats:
    """Read the weights of ``n`` rows or pairs as float64, shape (n,).

    Raises
    ------
    InputError
        They are not a vector of as many finite numbers that are not negative and not all zero.
    """
    try:
        given = np.asarray(weights)
        values = given.astype(np.float64) if given.dtype.kind not in NO_AMOUNTS else None
    except (TypeError, ValueError) as error:
        raise InputError(f"{what.key} must be numbers: {error}") from error
    if values is None:
        raise InputError(f"{what.key} must be numbers, found {given.dtype}; give how much each {what.noun} counts")
    if values.shape != (n,):
        raise InputError(
            f"{what.key}: shape ({n},), a weight for each {what.noun}, was expected, found {values.shape}: "
            f"inconsistent numbers of {what.plural}"
        )
    for fault, name in ((~np.isfinite(values), "finite"), (values < 0.0, "not negative")):
        if fault.any():
            place = int(np.argmax(fault))
            found = f"found {values[place]} in {what.noun} {place}"
            raise InputError(f"{what.key}: numbers that are {name} were expected, {found}")
    if not values.any():
        raise InputError(f"{what.key}: a positive weight was expected, found only weights of zero")
    return values


def check_feature_weights(address: str, shape: tuple[int, ...], dtype: str, n_features: int) -> None:
    """Refuse feature weights that are not a vector with a number for each feature; raises InputError."""
    if shape != (n_features,) or not dtype.startswith(("float", "int", "uint", "bool")):
        expected = f"{address}: a number for each of {counted(n_features, 'feature')} was expected"
        raise InputError(f"{expected}, found {dtype} of shape {shape}")
