"""Forests that learn a similarity or a distance, trained on Dask."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distforest.checks.table import check
    from distforest.estimators.loading import load, merge
    from distforest.estimators.outliers import SimForestOutlier
    from distforest.estimators.rfd import RFD
    from distforest.estimators.simforest import SimForestClassifier, SimForestRegressor
    from distforest.estimators.smerf import SMERF
    from distforest.estimators.tree_rank import TreeRank
    from distforest.estimators.tuning import tune
    from distforest.estimators.urerf import URerF
    from distforest.pictures.clusters import principal_coordinates
    from distforest.service.submitted import SubmittedJob, submit
    from distforest.sources.comparisons import Comparison
    from distforest.sources.factors import Distances, Embedding, Graph, Labels, ObservedDistances, Targets
    from distforest.sources.files.ids import read_ids
    from distforest.sources.lazy.callbacks import Lazy, pairwise

    __version__: str

__all__ = [
    "RFD",
    "SMERF",
    "Comparison",
    "Distances",
    "Embedding",
    "Graph",
    "Labels",
    "Lazy",
    "ObservedDistances",
    "SimForestClassifier",
    "SimForestOutlier",
    "SimForestRegressor",
    "SubmittedJob",
    "Targets",
    "TreeRank",
    "URerF",
    "check",
    "load",
    "merge",
    "pairwise",
    "principal_coordinates",
    "read_ids",
    "submit",
    "tune",
]

_HOME = {
    "Comparison": "distforest.sources.comparisons",
    "check": "distforest.checks.table",
    **dict.fromkeys(("load", "merge"), "distforest.estimators.loading"),
    "principal_coordinates": "distforest.pictures.clusters",
    "read_ids": "distforest.sources.files.ids",
    "RFD": "distforest.estimators.rfd",
    "SMERF": "distforest.estimators.smerf",
    "TreeRank": "distforest.estimators.tree_rank",
    "URerF": "distforest.estimators.urerf",
    "tune": "distforest.estimators.tuning",
    "SimForestOutlier": "distforest.estimators.outliers",
    **dict.fromkeys(("SimForestClassifier", "SimForestRegressor"), "distforest.estimators.simforest"),
    **dict.fromkeys(("SubmittedJob", "submit"), "distforest.service.submitted"),
    **dict.fromkeys(("Lazy", "pairwise"), "distforest.sources.lazy.callbacks"),
    **dict.fromkeys(
        ("Distances", "Embedding", "Graph", "Labels", "ObservedDistances", "Targets"), "distforest.sources.factors"
    ),
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that a worker loads only the modules that it needs."""
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415  (slow, and few ask)

        return version("distforest")
    if name not in _HOME:
        raise AttributeError(f"module 'distforest' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
