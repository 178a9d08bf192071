"""Picture of a sealed forest that suits its method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distforest.errors import InputError
from distforest.estimators.loading import load
from distforest.estimators.tree_rank import TreeRank
from distforest.forest.feature_shares import read_feature_shares, read_names
from distforest.forest.pairs.pair_scores import columns_of
from distforest.forest.sealed.artifact import read_manifest
from distforest.pictures.charts import blank
from distforest.pictures.closeness import closeness_of_some
from distforest.pictures.displays import (
    ImportancesDisplay,
    ProximityDisplay,
    ROCDisplay,
    TreeDisplay,
)
from distforest.pictures.importances import Importances, importances_of, reads_features

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase


def sealed_picture(address: str, features: str | None = None) -> FigureBase:
    """Draw a sealed forest.

    Parameters
    ----------
    address
        Path or URL of the forest.
    features
        Address of an array whose ``feature_names`` name the features, as `distforest ingest` writes it; None: use the
        forest's names, or the numbers of features.

    Returns
    -------
    Figure
        Weights of features if these were not drawn with equal probability. Otherwise, for TreeRank a tree and the
        curves of all trees; for splits on features their importances; for similarities the proximities of the training
        objects by cluster, or a tree if out-of-bag objects were not routed.

    Raises
    ------
    ArtifactError
        There is no sealed forest, or it is damaged.
    InputError
        No split gains anything; there are no names at ``features``, or not one for each feature.
    """
    drawn = read_feature_shares(address, read_manifest(address), features)
    if drawn is not None:
        parts = {"drawn": drawn.shares}
        if drawn.dependence is not None:
            depends = drawn.dependence > 0.0
            parts = {"the others": drawn.shares * ~depends, "depends on another": drawn.shares * depends}
        weights = Importances(parts, drawn.names, "the draws", "Features by weight")
        return ImportancesDisplay(weights).plot().figure_
    forest: Any = load(address)
    if isinstance(forest, TreeRank):
        names = read_names(features, columns_of(forest.forest_).n_features)
        figure = blank(15.0, 6.6)
        tree, curves = figure.subplots(1, 2, width_ratios=(2, 1))
        TreeDisplay.from_estimator(forest, names=names, ax=tree)
        ROCDisplay.from_estimator(forest, at=(), log=True, ax=curves)
        return figure
    if reads_features(forest):
        try:
            importances = importances_of(forest, read_names(features, forest.n_features_in_))
        except InputError as error:
            raise InputError(f"{address}: {error}") from error
        return ImportancesDisplay(importances).plot().figure_
    if forest.forest_.has_unrouted:
        return TreeDisplay.from_estimator(forest).figure_
    return ProximityDisplay.from_predictions(closeness_of_some(forest)).figure_
