"""What a fit has found out about its forest: its errors out of bag, and how far ranking trees were pruned.

A forest does not hold what it was taught, so they cannot be worked out again. A sealed forest has them in its
provenance, under ``"estimates"``: they are no part of the digest, and no answer needs them.
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
"""Where they are in the provenance of a forest."""

RANGES = {"oob_score": (-math.inf, 1.0), "oob_rmse": (0.0, math.inf)}
"""The numbers that an estimate out of bag may be."""

PRUNING = {"gain", "gains", "areas"}


@dataclass(frozen=True)
class Pruning:
    """How far a forest was pruned: the gain, and the mean area under the curve of held-out pairs for each one tried."""

    gain: float
    gains: Floats
    areas: Floats

    def to_dict(self) -> dict[str, object]:
        """As JSON."""
        return {"gain": float(self.gain), "gains": self.gains.tolist(), "areas": self.areas.tolist()}

    @classmethod
    def of(cls, found: object) -> Self:
        """Read what a file says; raises ArtifactError where it cannot be true."""
        if not isinstance(found, dict) or set(found) != PRUNING:
            raise _strange("pruning", "a gain, gains and areas", found)
        lists = [found["gains"], found["areas"]]
        if not all(isinstance(own, list) and own and all(map(_is_number, own)) for own in lists):
            raise _strange("pruning", "numbers", lists)
        if len(found["gains"]) != len(found["areas"]) or found["gain"] not in found["gains"]:
            raise _strange("pruning", "an area for each gain, and one of these gains", found)
        return cls(float(found["gain"]), np.array(found["gains"], np.float64), np.array(found["areas"], np.float64))


@dataclass(frozen=True)
class Estimates:
    """What a fit has found out: None for what it was not asked.

    Attributes
    ----------
    oob_score, oob_rmse
        What an estimator says under these names: a share that is told rightly or a coefficient of determination,
        and a root mean squared error.
    pruning
        How far ranking trees were pruned.
    """

    oob_score: float | None = None
    oob_rmse: float | None = None
    pruning: Pruning | None = None

    @classmethod
    def of(cls, provenance: Mapping[str, object]) -> Self:
        """Read the estimates of a forest's provenance.

        Raises
        ------
        ArtifactError
            They are not of the form that `into` writes.

        Examples
        --------
        >>> Estimates.of({"estimates": {"oob_score": 0.875}})
        Estimates(oob_score=0.875, oob_rmse=None, pruning=None)
        """
        found = provenance.get(ESTIMATES, {})
        if not isinstance(found, dict) or not set(found) <= set(cls.__dataclass_fields__):
            raise _strange("", ", ".join(cls.__dataclass_fields__), found)
        for name, (least, most) in RANGES.items():
            if name in found and not (_is_number(found[name]) and least <= found[name] <= most):
                raise _strange(name, f"a finite number from {least} to {most}", found[name])
        numbers = {name: float(found[name]) for name in RANGES if name in found}
        return cls(**numbers, pruning=Pruning.of(found["pruning"]) if "pruning" in found else None)

    def into(self, provenance: Mapping[str, object]) -> dict[str, object]:
        """The provenance with these estimates in the place of any others; a number that is not finite is left out."""
        numbers = {name: float(own) for name in RANGES if _is_number(own := getattr(self, name))}
        found = numbers | ({"pruning": self.pruning.to_dict()} if self.pruning else {})
        others = {name: own for name, own in provenance.items() if name != ESTIMATES}
        return others | ({ESTIMATES: found} if found else {})


def _is_number(value: object) -> bool:
    """Whether a value is a number that has a finite float."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _strange(name: str, expected: str, found: object) -> ArtifactError:
    place = ".".join(part for part in ("provenance", ESTIMATES, name) if part)
    return ArtifactError(f"manifest.json: {place}: expected {expected}; found {str(found)[:80]}")
