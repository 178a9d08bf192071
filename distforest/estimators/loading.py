"""Sealed forests as fitted estimators."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from distforest.errors import ArtifactError, InputError
from distforest.estimators.outliers import SimForestOutlier
from distforest.estimators.rfd import RFD
from distforest.estimators.simforest import SUBSETS, OnSimilarities, SimForestClassifier, SimForestRegressor
from distforest.estimators.smerf import SMERF
from distforest.estimators.tree_rank import TreeRank
from distforest.estimators.urerf import URerF
from distforest.forest.sealed.artifact import open_forest
from distforest.growth.cuts.class_weights import key_of
from distforest.growth.methods import METHODS
from distforest.growth.parameters import complete
from distforest.jobs.lockstep import check_origin, warn_of_change
from distforest.sources.lazy.callbacks import Lazy
from distforest.sources.lazy.source import Objects, items_of
from distforest.sources.row_kinds import Dense, Features, Kernel

if TYPE_CHECKING:
    from distforest.forest.forest import Meaning

Estimator = SMERF | URerF | SimForestClassifier | SimForestRegressor | SimForestOutlier | RFD | TreeRank
"""Any of the estimators; each says which forests are its own."""


def load(address: str | os.PathLike[str], similarity: Lazy | None = None, X: Any = None) -> Estimator:
    """Open a sealed forest as a fitted estimator, whichever door it was grown through.

    It answers as the original does, knows the names of its features, and has what its fit has estimated
    (``oob_score_``, ``pruning_`` and the like); ``random_state`` and ``gamma`` are the numbers that were used.

    Parameters
    ----------
    address
        Path or URL of the forest.
    similarity
        What similarities are asked of from now on; a forest names its function, but does not hold it. Without it, a
        forest that has learned from similarities is asked with rows of them.
    X
        With ``similarity``, the training objects as `fit` took them.

    Raises
    ------
    ArtifactError
        There is no sealed forest, or it is damaged.
    InputError
        ``similarity`` for a forest that does not read similarities, or without ``X``.
    """
    forest = open_forest(os.fspath(address))
    meaning, rows = forest.meaning, forest.meaning.rows
    try:
        params: dict[str, Any] = complete(METHODS[meaning.method].parameters, meaning.params)
    except (KeyError, InputError) as error:
        raise ArtifactError(f"{address}: unknown method or parameters: {error}") from error
    kind = _estimator_of(meaning)
    params = {row.name: params[row.name] for row in kind._parameters if row.name in params}
    if params.get("feature_weights") == "given":
        params["feature_weights"] = forest.feature_weights
    if "class_weight" in params:
        params["class_weight"] = _by_label(params["class_weight"], meaning.classes or [])
    if issubclass(kind, OnSimilarities):
        params["similarity"] = {Dense.kind: "precomputed", Features.kind: SUBSETS}.get(rows.kind, rows.kind)
        params["kind"] = rows.measure if isinstance(rows, Dense) else "similarity"
        params["gamma"] = rows.gamma if isinstance(rows, Kernel) and rows.kind == "rbf" else None
    found: Any = kind(**params, random_state=meaning.seed)
    found._adopt(forest)
    if similarity is not None:
        if not isinstance(rows, Dense) or X is None:
            raise InputError("similarity=Lazy(...) goes with X, the training objects, of a forest on similarities")
        found.similarity, found.kind, found.objects_ = similarity, "similarity", items_of(similarity, X)
        check_origin(forest, similarity, Objects.of(found.objects_))
        warn_of_change(forest, similarity)
        origin = forest.provenance.get("similarity", {})
        found.n_evaluations_, found.n_closed_ = origin.get("evaluations"), origin.get("closed")
    return found


def _estimator_of(meaning: Meaning) -> Any:
    """The estimator whose forests mean this."""
    return next(kind for kind in get_args(Estimator) if kind._opens(meaning))


def _by_label(weights: Any, classes: list[Any]) -> Any:
    """Turn a table of class weights by strings into one by labels."""
    if not isinstance(weights, Mapping):
        return weights
    return {label: weights[key_of(label)] for label in classes if key_of(label) in weights}
