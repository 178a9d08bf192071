"""Displays of distances, forests and rankings, as in scikit-learn: ``...Display.from_estimator(forest, X)``.

They need matplotlib (``pip install 'distforest[plot]'``), which is imported when a display is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distforest.pictures.displays import (
        DistancesDisplay,
        ExplanationDisplay,
        ImportancesDisplay,
        MapDisplay,
        ProximityDisplay,
        ROCDisplay,
        TreeDisplay,
        TuningDisplay,
    )

__all__ = [
    "DistancesDisplay",
    "ExplanationDisplay",
    "ImportancesDisplay",
    "MapDisplay",
    "ProximityDisplay",
    "ROCDisplay",
    "TreeDisplay",
    "TuningDisplay",
]


def __getattr__(name: str) -> Any:
    """Import a display when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'distforest.pictures' has no attribute {name!r}")
    return getattr(import_module("distforest.pictures.displays"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
