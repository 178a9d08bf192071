"""The estimator of SMERF."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.estimators.forest_estimator import estimated, r_squared
from distforest.estimators.on_features import OnFeatures
from distforest.forest import scoring
from distforest.growth.methods import METHODS
from distforest.sources.truth import Truth, TruthKind, pairs_of_rows

if TYPE_CHECKING:
    from distforest.sources.source import Floats, Int32s, Ints

BLOCK_NODES = 1 << 25
"""Nodes that are looked up at once where pairs of rows are scored, on each side."""


@dataclass(eq=False, repr=False)
class SMERF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, OnFeatures):  # type: ignore[misc]
    """Similarity and metric random forest (Tomita and Vogelstein): learns a given distance from features.

    A cut makes the mean pairwise distance inside its two sides as small as it can be. The distance of two
    rows is the mean training distance between the leaves in which they end, averaged over the trees.

    Parameters
    ----------
    {parameters}

    An array of numbers that are not negative, shape (n_features,), may be given as ``feature_weights``.

    Attributes
    ----------
    forest_ : Forest
        The forest.
    digest_ : str
        sha256 of the forest: equal for equal forests, wherever and however grown.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Share of each feature in the gain of all cuts.
    feature_weights_, dependence_
        As of `URerF`.
    classes_ : ndarray
        Where labels were taught: these, sorted.
    oob_rmse_, oob_score_ : float
        With ``oob_score``: root mean squared error and coefficient of determination of the out-of-bag
        distances of all pairs i < j of training rows, or of 2^21 pairs drawn at random where there are more.
    n_features_in_, feature_names_in_, feature_dtypes_in_
        Number of features; their names where ``X`` is a data frame with string names, or a Zarr array whose attribute
        ``feature_names`` names them, and their dtypes there. A saved forest keeps both.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = SMERF(n_estimators=20, random_state=0).fit(X, y)
    >>> forest.distance(X[:1], X[[1, 50, 100]]).round(1)
    array([[0., 1., 1.]])

    Distances are cross-validated as `Distances`, which are cut on both sides:

    >>> from sklearn.model_selection import GridSearchCV
    >>> from distforest import Distances
    >>> Z = Distances(abs(X[:, 2, None] - X[:, 2]))
    >>> search = GridSearchCV(SMERF(20, random_state=0), {"max_depth": [1, 5]}, cv=3)
    >>> search.fit(X[:, [0, 1, 3]], Z).best_params_
    {'max_depth': 5}
    """

    _method = METHODS["smerf"]
    _parameters = _method.parameters
    __metadata_request__fit: ClassVar = {"Z": UNUSED}
    __metadata_request__score: ClassVar = {"Z": UNUSED}

    n_estimators: int = 500
    _: KW_ONLY
    max_features: float | str | None = "sqrt"
    feature_combinations: float = 1.0
    coefficients: str = "sign"
    feature_weights: Any = None
    splitter: str = "best"
    max_bins: int | None = None
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    max_depth: int | None = None
    bootstrap: bool = True
    max_samples: float | None = None
    oob_score: bool = False
    random_state: Any = None
    n_jobs: int | None = None
    client: Any = None

    def fit(self, X: Any, Z: Any) -> Self:
        """Grow the forest.

        Parameters
        ----------
        X
            Features, shape (n, n_features): array-like, Zarr array, or the address of one.
        Z
            What the forest learns: distances, shape (n, n), likewise, or as `Distances`; `Labels`, `Targets`,
            `Embedding` or `Graph`; or a vector of length n, read as `Targets` where it holds fractional numbers, else
            (strings, booleans, whole numbers) as `Labels`, with a warning where whole numbers are so many that
            amounts may be meant. Dates are given as `Targets`.

        Raises
        ------
        InputError
            A parameter, ``X`` or ``Z`` cannot be used.

        Warns
        -----
        UserWarning
            Labels may be amounts, or a few targets lie far from all others.
        """
        params = self._checked(Z)
        features, truth = self._features(X), Truth.of(Z)
        self._warn_of_far(truth)
        self._grow_on(features, truth, params)
        if self.oob_score:
            left, right = pairs_of_rows(len(features))
            found, count = scoring.out_of_bag_distance(self.forest_, left, right)
            known = estimated(count, "pairs")
            true, found = truth.distances(left[known], right[known]), found[known]
            self.oob_rmse_ = float(np.sqrt(np.mean((true - found) ** 2)))
            self.oob_score_ = r_squared(true, found)
        return self

    @property
    def classes_(self) -> np.ndarray:
        """The labels, sorted; none where anything else was taught."""
        check_is_fitted(self, "forest_")
        if self.forest_.meaning.classes is None:
            raise AttributeError("classes_: the forest was not taught labels")
        return np.asarray(self.forest_.meaning.classes)

    def predict(self, X: Any) -> np.ndarray:
        """Predict what was taught of rows: labels, targets, or places in an embedding.

        Returns
        -------
        ndarray of shape (n,), or (n, q) for an embedding of q > 1 dimensions
            The label of the largest mean share of the leaves in which a row ends, of equal ones the first; or the mean
            over the leaves. Of dates it is a number of the unit in which they were given, since 1970: see `Targets`.

        Raises
        ------
        InputError
            The forest was taught distances alone, so it predicts nothing but distances.
        """
        nodes = self._nodes(X)
        said = scoring.predict(self.forest_, nodes)
        if self.forest_.meaning.classes is not None:
            labels: np.ndarray = self.classes_[np.argmax(said, axis=1)]
            return labels
        return said[:, 0] if said.shape[1] == 1 else said

    def predict_proba(self, X: Any) -> Floats:
        """Take the mean share of each class in the leaves in which the rows of ``X`` end, shape (n, n_classes).

        Raises
        ------
        InputError
            The forest was not taught labels.
        """
        nodes = self._nodes(X)
        said = scoring.predict(self.forest_, nodes)
        if self.forest_.meaning.classes is None:
            taught = "targets" if self.forest_.meaning.leaf.learned is TruthKind.TARGETS else "an embedding"
            raise InputError(f"a forest that was trained on {taught} has no class shares; ask for `predict`")
        return said

    @property
    def _n_features_out(self) -> int:
        return self.forest_.n_training

    def transform(self, X: Any) -> Floats:
        """Take the distance of each row of ``X`` to each training row, shape (n, n_training)."""
        nodes = self._nodes(X)
        return scoring.distance(self.forest_, nodes, self.forest_.training_nodes)

    def score(self, X: Any, Z: Any) -> float:
        """Take the coefficient of determination of the distances of all pairs i < j of rows, at most 2^21.

        ``Z`` takes any form that `fit` takes; a vector is read as the forest has learned.
        """
        nodes = self._nodes(X)
        truth = Truth.of(Z, self.forest_.meaning.leaf.learned)
        if len(truth.values) != nodes.shape[1]:
            text = f"found {counted(nodes.shape[1], 'row')} of X and {len(truth.values)} of {truth.kind}"
            raise InputError(f"{text}: inconsistent numbers of samples")
        left, right = pairs_of_rows(nodes.shape[1])
        return r_squared(truth.distances(left, right), self._pair_distances(nodes, left, right))

    def _pair_distances(self, nodes: Int32s, left: Ints, right: Ints) -> Floats:
        """Take the distances of pairs of rows; a pair costs less where the whole matrix is asked for."""
        if 4 * len(left) > nodes.shape[1] ** 2:
            return scoring.distance(self.forest_, nodes, nodes)[left, right]
        step = max(1, BLOCK_NODES // self.forest_.n_trees)
        blocks = [slice(first, first + step) for first in range(0, len(left), step)]
        found = [scoring.pair_distance(self.forest_, nodes[:, left[b]], nodes[:, right[b]]) for b in blocks]
        return np.concatenate(found)
