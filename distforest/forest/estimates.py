"""Estimates of a fit about its forest: out-of-bag errors, and the pruning of ranking trees.

A forest does not contain its ground truth, so estimates cannot be computed again. A sealed forest keeps them in its
provenance, under ``"estimates"``. They are not part of the digest, and no answer needs them.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from distforest.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distforest.sources.source import Floats

ESTIMATES = "estimates"
"""Key of estimates in the provenance of a forest."""

RANGES = {"oob_score": (-math.inf, 1.0), "oob_rmse": (0.0, math.inf)}
"""Least and greatest value of each out-of-bag estimate."""

PRUNING = {"gain", "gains", "areas"}


@dataclass(frozen=True)
class Pruning:
    """The pruning of a forest: the chosen gain, all tried gains, and the mean area under the curve for each.

    The areas are those of held-out pairs.
    """

    gain: float
    gains: Floats
    areas: Floats

    def to_dict(self) -> dict[str, object]:
        """Return the pruning as JSON."""
        return {"gain": float(self.gain), "gains": self.gains.tolist(), "areas": self.areas.tolist()}

    @classmethod
    def from_entry(cls, entry: object) -> Self:
        """Read the pruning from JSON; raise ArtifactError if it is not valid."""
        if not isinstance(entry, dict) or set(entry) != PRUNING:
            raise _unexpected("pruning", "a gain, gains and areas", entry)
        lists = [entry["gains"], entry["areas"]]
        if not all(isinstance(values, list) and values and all(map(_is_number, values)) for values in lists):
            raise _unexpected("pruning", "numbers", lists)
        if len(entry["gains"]) != len(entry["areas"]) or entry["gain"] not in entry["gains"]:
            raise _unexpected("pruning", "an area for each gain, and one of these gains", entry)
        return cls(float(entry["gain"]), np.array(entry["gains"], np.float64), np.array(entry["areas"], np.float64))


@dataclass(frozen=True)
class Estimates:
    """The estimates of a fit; None for those that were not requested.

    Attributes
    ----------
    oob_score, oob_rmse
        The attributes of these names of an estimator: the accuracy or the coefficient of determination, and the root
        mean squared error.
    pruning
        The pruning of ranking trees.
    """

    oob_score: float | None = None
    oob_rmse: float | None = None
    pruning: Pruning | None = None

    @classmethod
    def from_provenance(cls, provenance: Mapping[str, object]) -> Self:
        """Read the estimates of a forest's provenance.

        Raises
        ------
        ArtifactError
            The estimates do not have the form that `into` writes.

        Examples
        --------
        >>> Estimates.from_provenance({"estimates": {"oob_score": 0.875}})
        Estimates(oob_score=0.875, oob_rmse=None, pruning=None)
        """
        entry = provenance.get(ESTIMATES, {})
        if not isinstance(entry, dict) or not set(entry) <= set(cls.__dataclass_fields__):
            raise _unexpected("", ", ".join(cls.__dataclass_fields__), entry)
        for name, (least, most) in RANGES.items():
            if name in entry and not (_is_number(entry[name]) and least <= entry[name] <= most):
                raise _unexpected(name, f"a finite number from {least} to {most}", entry[name])
        numbers = {name: float(entry[name]) for name in RANGES if name in entry}
        return cls(**numbers, pruning=Pruning.from_entry(entry["pruning"]) if "pruning" in entry else None)

    def into(self, provenance: Mapping[str, object]) -> dict[str, object]:
        """Return the provenance with these estimates instead of others; numbers that are not finite are omitted."""
        numbers = {name: float(value) for name in RANGES if _is_number(value := getattr(self, name))}
        entry = numbers | ({"pruning": self.pruning.to_dict()} if self.pruning else {})
        others = {name: value for name, value in provenance.items() if name != ESTIMATES}
        return others | ({ESTIMATES: entry} if entry else {})


def _is_number(value: object) -> bool:
    """Return whether a value is a number that has a finite float."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _unexpected(name: str, expected: str, found: object) -> ArtifactError:
    place = ".".join(part for part in ("provenance", ESTIMATES, name) if part)
    return ArtifactError(f"manifest.json: {place}: expected {expected}; found {str(found)[:80]}")
