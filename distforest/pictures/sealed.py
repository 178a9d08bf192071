"""The picture of a sealed forest: the one that says most of its method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distforest.errors import InputError
from distforest.estimators.loading import load
from distforest.estimators.outliers import SimForestOutlier
from distforest.estimators.tree_rank import TreeRank
from distforest.forest.feature_shares import read_feature_shares, read_names
from distforest.forest.pairs.pair_scores import columns_of
from distforest.forest.sealed.artifact import read_manifest
from distforest.pictures.closeness import closeness_of_some
from distforest.pictures.distance_displays import OutlierScoresDisplay, ProximityDisplay
from distforest.pictures.forest_displays import ImportancesDisplay
from distforest.pictures.importances import importances_of, reads_features
from distforest.pictures.pictured import Weights
from distforest.pictures.plotting import feature_weights
from distforest.pictures.ranking_plots import ranking
from distforest.pictures.tree_display import TreeDisplay

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
        Weights of features if these were not drawn alike; of TreeRank a tree and the curves of all; of splits that read
        features their importances; of outliers how usual the training objects are; of other similarities the
        proximities of the training objects by cluster, or a tree if objects out of bag were not routed.

    Raises
    ------
    ArtifactError
        There is no sealed forest, or it is damaged.
    InputError
        No split gains anything; there are no names at ``features``, or not one for each feature.
    """
    manifest = read_manifest(address)
    drawn = read_feature_shares(address, manifest, features)
    if drawn is not None:
        return feature_weights(Weights(drawn.shares, drawn.dependence, drawn.names))
    forest: Any = load(address)
    if isinstance(forest, TreeRank):
        return ranking(forest, names=read_names(features, columns_of(forest.forest_).n_features))
    if reads_features(forest):
        names = read_names(features, forest.n_features_in_)
        try:
            importances = importances_of(forest, names)
        except InputError as error:
            raise InputError(f"{address}: {error}") from error
        return ImportancesDisplay(importances).plot().figure_
    return _of_similarities(forest)


def _of_similarities(forest: Any) -> FigureBase:
    """Draw a forest whose splits read similarities of objects."""
    if isinstance(forest, SimForestOutlier):
        return OutlierScoresDisplay.from_estimator(forest).figure_
    if forest.forest_.has_unrouted:
        return TreeDisplay.from_estimator(forest).figure_
    return ProximityDisplay.from_predictions(closeness_of_some(forest)).figure_
