"""Class weights, as a user gives them and as the integers that a tree adds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.forest.leaves import MAX_CLASS_WEIGHT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.sources.source import Floats, Ints

RESOLUTIONS = (64, 32, 16, 8, 4, 2, 1)
"""Integers of the least weight; the first with which all weights fit is taken."""

ROUNDED_SHARE = 0.01
"""Relative change of another weight that a lower integer of the least weight may cause."""

MOST_WEIGHT = math.isqrt(2**63 - 1)
"""Largest sum whose square fits 63 bits."""


def key_of(label: object) -> str:
    """Return the string for a label in tables whose keys are strings.

    Examples
    --------
    >>> [key_of(label) for label in ("a", 1, 1.0, np.int64(1), True, 0.5)]
    ['a', '1', '1', '1', '1', '0.5']
    """
    if isinstance(label, (int, np.bool_, np.integer)):  # a Python bool is an int
        return str(int(label))
    if isinstance(label, (float, np.floating)):
        return str(int(label)) if float(label).is_integer() else str(float(label))
    return str(label)


@dataclass(frozen=True)
class ClassWeights:
    """A positive weight for each class.

    Attributes
    ----------
    weights
        A weight for each class, in the order of the classes.
    given
        The weights as a value of the parameter ``class_weight``: ``"balanced"``, or a table with all labels.

    Examples
    --------
    >>> codes = np.array([0, 0, 0, 1])
    >>> ClassWeights.from_labels("balanced", codes, ["no", "yes"]).integers(n_draws=4).tolist()
    [64, 192]
    >>> ClassWeights.from_labels({"yes": 2.5}, codes, ["no", "yes"]).given
    {'no': 1.0, 'yes': 2.5}
    """

    weights: tuple[float, ...]
    given: str | dict[str, float]

    @classmethod
    def from_labels(
        cls,
        given: str | Mapping[str, float],
        codes: NDArray[np.int32],
        classes: Sequence[object],
        sample_weight: NDArray[np.int32] | Floats | None = None,
    ) -> ClassWeights:
        """Return the weights of some labels.

        Parameters
        ----------
        given
            ``"balanced"``, which is n / (K times the rows of the class), as in scikit-learn; or a table of weights by
            label, with the keys of `key_of`. A label that is not in the table has weight 1.
        codes
            Class of each row, shape (n,).
        classes
            The labels, shape (K,).
        sample_weight
            The weight of each row, which counts as this number of rows, shape (n,); None: 1.

        Raises
        ------
        InputError
            The table has a key that is not a label, and a label is not in the table.
        """
        if isinstance(given, str):
            if sample_weight is None:
                counts, n = np.bincount(codes, minlength=len(classes)).clip(1), float(len(codes))
            else:
                n = float(sample_weight.sum(dtype=np.float64))
                counts = np.bincount(codes, sample_weight, minlength=len(classes))
                counts[counts == 0.0] = n / len(classes)  # a class of absent rows weighs 1
            return cls(tuple((n / (len(classes) * counts)).tolist()), given)
        keys = [key_of(label) for label in classes]
        strange = [name for name in given if name not in keys]
        missing = [label for label, key in zip(classes, keys, strict=True) if key not in given]
        if strange and missing:
            raise InputError(
                f"class_weight names {strange[0]!r}, which is none of the labels, and not the label {missing[0]!r}"
            )
        weights = [float(given.get(key, 1.0)) for key in keys]
        return cls(tuple(weights), dict(zip(keys, weights, strict=True)))

    def integers(self, n_draws: int) -> Ints:
        """Return the integers c_k = max(1, rint(r w_k / min w)), shape (K,), for trees of ``n_draws`` rows.

        r is 64 or, if the largest weight would be too large with it, the largest smaller power of two with which all
        weights fit and none is rounded by more than `ROUNDED_SHARE`.

        Raises
        ------
        InputError
            The ratio of the weights is too large for the integers.
        """
        ratio = max(self.weights) / min(self.weights)
        if not ratio <= MAX_CLASS_WEIGHT:
            raise InputError(
                f"class_weight: the largest weight may be {MAX_CLASS_WEIGHT:,} times the least, found {ratio:g} times"
            )
        relative, most = np.array(self.weights) / min(self.weights), min(MAX_CLASS_WEIGHT, MOST_WEIGHT // n_draws)
        for resolution in RESOLUTIONS:
            integers = np.maximum(1.0, np.rint(resolution * relative))
            is_accurate = (np.abs(integers - resolution * relative) <= ROUNDED_SHARE * resolution * relative).all()
            if integers.max() <= most and (is_accurate or resolution == RESOLUTIONS[0]):
                found: Ints = integers.astype(np.int64)
                return found
        raise InputError(
            f"class_weight: for trees of {counted(n_draws, 'row')} weights are integers up to {most:,}, which cannot "
            f"tell some of the weights apart if the largest is {ratio:g} times the least; give weights that differ "
            "less, or lower max_samples"
        )
