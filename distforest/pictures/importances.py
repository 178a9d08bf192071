"""Importances of the features of a forest: the data of a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.estimators.reading import names_kept
from distforest.estimators.rfd import RFD
from distforest.estimators.smerf import SMERF
from distforest.estimators.urerf import URerF
from distforest.forest import scoring
from distforest.forest.importances import gain_importances
from distforest.forest.pairs.pair_scores import columns_of, is_over_pairs
from distforest.sources.point_pairs import named
from distforest.sources.row_kinds import Dense, Kernel, Several

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from distforest.arguments import Floats


@dataclass(frozen=True)
class Importances:
    """Importance of each feature in a forest.

    Attributes
    ----------
    parts
        One or two named arrays of shape (n_features,) that add up to the importances: in a forest over pairs those of
        its differences and of its means.
    names
        Names of the features; if empty, their numbers are shown.
    of
        The total of the shares; or a description of importances that are not shares.
    title
        Title of the picture.
    errors
        Standard error of each importance, shape (n_features,); None: they are not drawn.
    is_share
        Whether the importances are shares of a total. If not, they may be negative.

    Raises
    ------
    InputError
        There are names, but not one for each feature.
    """

    parts: Mapping[str, Floats]
    names: Sequence[str] = ()
    of: str = "the gain of all splits"
    title: str = "Features by importance"
    errors: Floats | None = None
    is_share: bool = True

    def __post_init__(self) -> None:
        n_features = len(next(iter(self.parts.values())))
        if self.names and len(self.names) != n_features:
            expected = f"none, or one for each of {counted(n_features, 'feature')} was expected"
            raise InputError(f"names: {expected}, found {len(self.names)}")


def reads_features(forest: Any) -> bool:
    """Return whether the splits of a fitted estimator read features or columns of pairs, not similarities."""
    return not isinstance(forest.forest_.meaning.rows, (Dense, Kernel, Several))


def importances_of(forest: Any, names: Sequence[str] = ()) -> Importances:
    """Compute the importances of features from the splits of a forest.

    Parameters
    ----------
    forest
        A fitted estimator whose splits read features.
    names
        Names of the features; if empty, those of the forest, or their numbers.

    Returns
    -------
    Importances
        For RFD the shares of differences and of means; for TreeRank a share for each column of a pair.

    Raises
    ------
    InputError
        Splits read similarities, no split gains anything, or there is not one name for each feature.
    """
    if not reads_features(forest):
        kind = forest.forest_.meaning.rows.kind
        raise InputError(f"importances are of features, but the splits of this forest read {kind} similarities")
    listed, errors = list(names) or names_kept(forest), None
    if isinstance(forest, RFD):
        parts = {"differences": forest.relative_importances_, "middles": forest.absolute_importances_}
    else:
        parts = {"importance": scoring.feature_importances(forest.forest_)}
        if forest.forest_.n_trees > 1:
            errors = gain_importances(forest.forest_, ()).standard_errors
        if is_over_pairs(forest.forest_):
            columns = columns_of(forest.forest_)
            features = listed[: columns.n_features] or [f"feature {k}" for k in range(columns.n_features)]
            listed = named(columns, features, [f"further column {k}" for k in range(len(columns.blocks))])
    if not sum(shares.sum() for shares in parts.values()):
        raise InputError("no tree has a split that gains anything, so no feature has given anything")
    of = "the nodes that were split, by their rows" if isinstance(forest, URerF) else "the gain of all splits"
    return Importances(parts, listed, of, errors=errors)


def permutation_importances_of(forest: Any, X: Any, y: Any, names: Sequence[str] = ()) -> Importances:
    """Compute out-of-bag permutation importances; arguments are as for `SMERF.permutation_importances`.

    Raises
    ------
    InputError
        The forest is not a `SMERF`, or ``X`` and ``y`` are not its training data.
    """
    if not isinstance(forest, SMERF):
        raise InputError(f"X, y: none were expected, as {type(forest).__name__} has no importances by permutation")
    found = forest.permutation_importances(X, y)
    errors = found.standard_errors if forest.forest_.n_trees > 1 else None
    of, title = "increase of the squared error out of bag", "Features by permutation"
    parts = {"importance": found.importances}
    return Importances(parts, list(names) or names_kept(forest), of, title, errors=errors, is_share=False)
