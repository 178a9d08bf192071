"""Pictures of distances, forests and rankings, as scikit-learn has them: ``...Display.from_estimator(forest, X)``.

They need matplotlib (``pip install 'distforest[plot]'``), which is imported when the first of them is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distforest.pictures.distance_displays import (
        DistancesDisplay,
        MapDisplay,
        OutlierScoresDisplay,
        ProximityDisplay,
    )
    from distforest.pictures.forest_displays import (
        BudgetDisplay,
        ExplanationDisplay,
        ImportancesDisplay,
        ROCDisplay,
        TuningDisplay,
    )
    from distforest.pictures.tree_display import TreeDisplay

__all__ = [
    "BudgetDisplay",
    "DistancesDisplay",
    "ExplanationDisplay",
    "ImportancesDisplay",
    "MapDisplay",
    "OutlierScoresDisplay",
    "ProximityDisplay",
    "ROCDisplay",
    "TreeDisplay",
    "TuningDisplay",
]

_HOME = {
    **dict.fromkeys(
        ("BudgetDisplay", "ExplanationDisplay", "ImportancesDisplay", "ROCDisplay", "TuningDisplay"), "forest_displays"
    ),
    **dict.fromkeys(
        ("DistancesDisplay", "MapDisplay", "OutlierScoresDisplay", "ProximityDisplay"), "distance_displays"
    ),
    "TreeDisplay": "tree_display",
}


def __getattr__(name: str) -> Any:
    """Import a display when it is first asked for."""
    if name not in _HOME:
        raise AttributeError(f"module 'distforest.pictures' has no attribute {name!r}")
    return getattr(import_module(f"distforest.pictures.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
