"""Weights as a user states them: of rows, a number for each; of features, likewise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError

if TYPE_CHECKING:
    from distforest.sources.source import Floats


def checked_sample_weight(weights: object, n_rows: int) -> Floats:
    """Read the weights of ``n_rows`` rows as float64, shape (n_rows,).

    Raises
    ------
    InputError
        They are not a vector of as many finite numbers that are not negative and not all zero.
    """
    try:
        values = np.array(weights, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"sample_weight must be numbers: {error}") from error
    if values.shape != (n_rows,):
        raise InputError(
            f"sample_weight: shape ({n_rows},), a weight for each row, was expected, found {values.shape}: "
            "inconsistent numbers of samples"
        )
    for fault, name in ((~np.isfinite(values), "finite"), (values < 0.0, "not negative")):
        if fault.any():
            row = int(np.argmax(fault))
            raise InputError(f"sample_weight: numbers that are {name} were expected, found {values[row]} in row {row}")
    if not values.any():
        raise InputError("sample_weight: a positive weight was expected, found only weights of zero")
    return values


def check_feature_weights(address: str, shape: tuple[int, ...], dtype: str, n_features: int) -> None:
    """Refuse feature weights that are not a vector with a number for each feature; raises InputError."""
    if shape != (n_features,) or not dtype.startswith(("float", "int", "uint", "bool")):
        expected = f"{address}: a number for each of {counted(n_features, 'feature')} was expected"
        raise InputError(f"{expected}, found {dtype} of shape {shape}")
