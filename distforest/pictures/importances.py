"""What each feature has given to a forest: the numbers of a picture of importances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distforest.errors import InputError
from distforest.estimators.rfd import RFD
from distforest.estimators.urerf import URerF
from distforest.forest import scoring
from distforest.forest.pairs.pair_scores import columns_of, is_over_pairs
from distforest.pictures.pictured import Importances
from distforest.sources.point_pairs import named
from distforest.sources.row_kinds import Dense, Kernel, Several

if TYPE_CHECKING:
    from collections.abc import Sequence


def reads_features(forest: Any) -> bool:
    """Whether the splits of a fitted estimator read features, or columns of pairs, and not whole similarities."""
    return not isinstance(forest.forest_.meaning.rows, (Dense, Kernel, Several))


def importances_of(forest: Any, names: Sequence[str] = ()) -> Importances:
    """Read what each feature has given to the splits of a forest.

    Parameters
    ----------
    forest
        A fitted estimator whose splits read features.
    names
        Names of the features; if empty, those of the forest, or their numbers.

    Returns
    -------
    Importances
        For RFD the shares of differences and of middles; for TreeRank a share for each column of a pair.

    Raises
    ------
    InputError
        Splits read similarities, no split gains anything, or there is not one name for each feature.
    """
    if not reads_features(forest):
        kind = forest.forest_.meaning.rows.kind
        raise InputError(f"importances are of features, but the splits of this forest read {kind} similarities")
    listed = list(names) or [*map(str, getattr(forest, "feature_names_in_", ()))]
    if isinstance(forest, RFD):
        parts = {"differences": forest.relative_importances_, "middles": forest.absolute_importances_}
    else:
        parts = {"importance": scoring.feature_importances(forest.forest_)}
        listed = _columns_of_pairs(forest, listed) if is_over_pairs(forest.forest_) else listed
    if not sum(shares.sum() for shares in parts.values()):
        raise InputError("no tree has a split that gains anything, so no feature has given anything")
    of = "the nodes that were split, by their rows" if isinstance(forest, URerF) else "the gain of all splits"
    return Importances(parts, listed, of)


def _columns_of_pairs(forest: Any, names: list[str]) -> list[str]:
    """Name the columns of pairs by the names, or the numbers, of the features of a point."""
    columns = columns_of(forest.forest_)
    features = names[: columns.n_features] or [f"feature {k}" for k in range(columns.n_features)]
    return named(columns, features, [f"further column {k}" for k in range(len(columns.blocks))])
