"""Shares and dependence of the features of a sealed forest, read without its trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.forest.forest import check_columns, shares_of
from distforest.forest.sealed.artifact import meaning_of, read_array
from distforest.sources.arrays import open_array
from distforest.sources.schema import Schema

if TYPE_CHECKING:
    from distforest.forest.sealed.artifact import Manifest
    from distforest.sources.source import Floats, Ints


@dataclass(frozen=True)
class FeatureShares:
    """The share of each feature in the draws.

    Attributes
    ----------
    shares
        Share of each feature, shape (n_features,); their sum is 1.
    dependence
        How strongly each feature depends on another, shape (n_features,); None if features were not screened.
    names
        Names of the features; empty if they have none.

    Examples
    --------
    >>> features = FeatureShares(np.array([0.25, 0.5, 0.25]), None, ("height", "width", "depth"))
    >>> features.by_share.tolist(), features.name(1)
    ([1, 0, 2], 'width')
    """

    shares: Floats
    dependence: Floats | None = None
    names: tuple[str, ...] = ()

    @property
    def by_share(self) -> Ints:
        """Numbers of the features, largest share first, ties in order, shape (n_features,)."""
        return np.argsort(-self.shares, kind="stable")

    @property
    def n_dependent(self) -> int | None:
        """Number of features for which screening found a dependence on another one; None without screening."""
        return None if self.dependence is None else int((self.dependence > 0.0).sum())

    def name(self, feature: int) -> str:
        """Return the name of a feature, or its number if it has none."""
        return self.names[feature] if self.names else f"feature {feature}"


def read_feature_shares(address: str, manifest: Manifest, features: str | None = None) -> FeatureShares | None:
    """Read the shares and dependence of a sealed forest's features, and none of its other arrays.

    Parameters
    ----------
    address
        Path or URL of the forest.
    manifest
        Its manifest.
    features
        Address of an array with the attribute ``feature_names``, as `ingest` writes it; None: the forest's own names.

    Returns
    -------
    FeatureShares or None
        None if all features had equal weights, or the forest does not split on features.

    Raises
    ------
    ArtifactError
        The forest is damaged.
    InputError
        The array at ``features`` does not have one name for each feature.
    """
    if "feature_weights" not in manifest["arrays"]:
        return None
    n_columns = meaning_of(manifest).rows.n_columns
    weights = read_array(address, manifest, "feature_weights")
    check_columns("feature_weights", weights, n_columns)
    dependence = read_array(address, manifest, "dependence") if "dependence" in manifest["arrays"] else None
    check_columns("dependence", dependence, n_columns)
    of_forest = Schema.from_provenance(manifest["provenance"])
    names = of_forest.names if features is None and of_forest else read_names(features, n_columns)
    return FeatureShares(shares_of(weights), dependence, names)


def read_names(features: str | None, n_columns: int) -> tuple[str, ...]:
    """Read the names of features.

    Parameters
    ----------
    features
        Address of an array with the attribute ``feature_names``; None: the features have no names.
    n_columns
        Number of features.

    Returns
    -------
    tuple of str
        A name for each feature, or empty.

    Raises
    ------
    InputError
        The array does not have one name for each feature.
    """
    if features is None:
        return ()
    names = open_array(features).attrs.get("feature_names")
    if not isinstance(names, list) or len(names) != n_columns:
        found = len(names) if isinstance(names, list) else "none"
        expected = f"{features}: the names of {counted(n_columns, 'feature')} were expected (attribute feature_names)"
        raise InputError(f"{expected}, found {found}")
    return tuple(map(str, names))
