"""How a sealed forest drew its features: the share of each in the draws, and what a screen found, without its trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.forest.forest import check_columns, shares_of
from distforest.forest.sealed.artifact import meaning_of, read_array
from distforest.sources.arrays import open_array
from distforest.sources.feature_names import FeatureNames

if TYPE_CHECKING:
    from distforest.forest.sealed.artifact import Manifest
    from distforest.sources.source import Floats, Ints


@dataclass(frozen=True)
class FeatureShares:
    """How likely each feature was to be drawn.

    Attributes
    ----------
    shares
        Of the draws, shape (n_features,); their sum is 1.
    dependence
        By how much each feature depends on another, shape (n_features,); None where they were not screened.
    names
        Of the features; empty where they have none.

    Examples
    --------
    >>> found = FeatureShares(np.array([0.25, 0.5, 0.25]), None, ("height", "width", "depth"))
    >>> found.by_share.tolist(), found.name(1)
    ([1, 0, 2], 'width')
    """

    shares: Floats
    dependence: Floats | None = None
    names: tuple[str, ...] = ()

    @property
    def by_share(self) -> Ints:
        """The features, the largest share first, of equal ones the first, shape (n_features,)."""
        return np.argsort(-self.shares, kind="stable")

    @property
    def n_dependent(self) -> int | None:
        """How many features depend on another, as far as a screen can tell; None without one."""
        return None if self.dependence is None else int((self.dependence > 0.0).sum())

    def name(self, feature: int) -> str:
        """What to call a feature: its name, or its number."""
        return self.names[feature] if self.names else f"feature {feature}"


def read_feature_shares(address: str, manifest: Manifest, features: str | None = None) -> FeatureShares | None:
    """Read how a sealed forest drew its features, and nothing else of it.

    Parameters
    ----------
    address
        Path or URL of the forest.
    manifest
        Its manifest.
    features
        Address of an array whose ``feature_names`` name them, as `ingest` writes it; None: by the forest's own names.

    Returns
    -------
    FeatureShares or None
        None where they were drawn alike, or the forest splits no features.

    Raises
    ------
    ArtifactError
        The forest is damaged.
    InputError
        There are no names at ``features``, or not one for each feature.
    """
    if "feature_weights" not in manifest["arrays"]:
        return None
    n_columns = meaning_of(manifest).rows.n_columns
    found = {}
    for name in ("feature_weights", "dependence"):
        found[name] = read_array(address, manifest, name) if name in manifest["arrays"] else None
        check_columns(name, found[name], n_columns)
    weights = found["feature_weights"]
    assert weights is not None  # noqa: S101  (the manifest names them)
    own = FeatureNames.of_provenance(manifest["provenance"])
    names = own.names if features is None and own else read_names(features, n_columns)
    return FeatureShares(shares_of(weights), found["dependence"], names)


def read_names(features: str | None, n_columns: int) -> tuple[str, ...]:
    """Read the names of features.

    Parameters
    ----------
    features
        Address of an array whose ``feature_names`` name them; None: they have none.
    n_columns
        How many there are.

    Returns
    -------
    tuple of str
        One for each, or empty.

    Raises
    ------
    InputError
        There are no names at ``features``, or not one for each feature.
    """
    if features is None:
        return ()
    names = open_array(features).attrs.get("feature_names")
    if not isinstance(names, list) or len(names) != n_columns:
        found = len(names) if isinstance(names, list) else "none"
        asked = f"{features}: the names of {counted(n_columns, 'feature')} were expected (attribute feature_names)"
        raise InputError(f"{asked}, found {found}")
    return tuple(map(str, names))
