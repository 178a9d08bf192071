"""The estimator of SMERF."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import check_is_fitted

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.estimators.forest_estimator import have_estimates, r_squared
from distforest.estimators.input_types import (
    CategoricalLike,
    FeaturesLike,
    FeatureWeightsLike,
    RowsLike,
    SeedLike,
    SparseLike,
    TruthLike,
    VectorLike,
)
from distforest.estimators.on_features import OnFeatures
from distforest.forest import scoring
from distforest.growth.methods import METHODS
from distforest.sources.truth import Truth, TruthKind, pairs_of_rows

if TYPE_CHECKING:
    from distributed import Client
    from sklearn.utils import Tags

    from distforest.sources.source import Floats, Int32s, Ints

BLOCK_NODES = 1 << 25
"""Nodes that are looked up at once, on each side, to score pairs of rows."""


@dataclass(eq=False, repr=False)
class SMERF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, OnFeatures):  # type: ignore[misc]
    """Similarity and metric random forest (Tomita and Vogelstein): learns a given distance from features.

    A split minimises the mean pairwise distance within its two sides. The distance of two rows is the mean training
    distance between the leaves in which they end, averaged over the trees.

    Parameters
    ----------
    {parameters}

    ``feature_weights`` may also be an array of numbers >= 0, shape (n_features,).

    Attributes
    ----------
    forest_ : Forest
        The forest.
    digest_ : str
        SHA-256 of the forest: equal forests have the same digest, wherever they were grown.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Share of each feature in the gain of all splits.
    feature_weights_, dependence_
        As in `URerF`.
    classes_ : ndarray
        The labels, sorted, if the forest has learned labels.
    oob_rmse_, oob_score_ : float
        With ``oob_score``: root mean squared error and coefficient of determination of the out-of-bag distances of all
        pairs i < j of training rows whose distances were observed, or of 2^21 random pairs if there are more.
    unobserved_share_ : float
        Share of all pairs of leaves of which no distance was observed, so that their parents stand in; 0.0 if the
        distances were complete.
    n_features_in_, feature_names_in_, feature_dtypes_in_
        Number of features; and their names and dtypes, if ``X`` is a data frame with string names or a Zarr array with
        the attribute ``feature_names``. A saved forest keeps them.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = SMERF(n_estimators=20, random_state=0).fit(X, y)
    >>> forest.distance(X[:1], X[[1, 50, 100]]).round(1)
    array([[0., 1., 1.]])

    For cross-validation, give distances as `Distances`, whose rows and columns are selected together:

    >>> from sklearn.model_selection import GridSearchCV
    >>> from distforest import Distances
    >>> lengths = Distances(abs(X[:, 2, None] - X[:, 2]))
    >>> search = GridSearchCV(SMERF(20, random_state=0), {"max_depth": [1, 5]}, cv=3)
    >>> search.fit(X[:, [0, 1, 3]], lengths).best_params_
    {'max_depth': 5}
    """

    _method = METHODS["smerf"]
    _parameters = _method.parameters

    n_estimators: int = 500
    _: KW_ONLY
    max_features: float | str | None = "sqrt"
    feature_combinations: float = 1.0
    coefficients: str = "sign"
    feature_weights: FeatureWeightsLike = None
    splitter: str = "best"
    max_bins: int | None = None
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    max_depth: int | None = None
    bootstrap: bool = True
    max_samples: float | None = None
    oob_score: bool = False
    categorical_features: CategoricalLike = "from_dtype"
    random_state: SeedLike = None
    n_jobs: int | None = None
    verbose: int = 0
    warm_start: bool = False
    client: Client | None = None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags()  # of `predict_proba`; the forest may learn other truths, so it is none
        return tags

    def fit(self, X: FeaturesLike | SparseLike, y: TruthLike, sample_weight: VectorLike | None = None) -> Self:
        """Grow the forest.

        Parameters
        ----------
        X
            Features, shape (n, n_features): array-like, data frame, sparse matrix, Zarr array, or the address of one.
            In a sparse matrix an absent value is 0.
        y
            The ground truth: distances, shape (n, n), as a matrix or as `Distances`; `Labels`, `Targets`, `Embedding`
            or `Graph`; or a vector, shape (n,). NaN in a matrix is a distance that nobody observed, `ObservedDistances`
            are a sparse matrix of those that were. A vector with fractional numbers is read as `Targets`, any other
            (strings, booleans, whole numbers) as `Labels`. Give dates as `Targets`.
        sample_weight
            A weight for each row, shape (n,): array-like, Zarr array, or the address of one. Whole weights count as so
            many equal rows, fractional ones in relation to their mean; a row of weight 0 is absent. None: 1 for all.

        Raises
        ------
        InputError
            A parameter, ``X``, ``y`` or ``sample_weight`` cannot be used.

        Warns
        -----
        UserWarning
            There are so many different whole numbers that they may be amounts rather than labels; or a few targets lie
            far from all others.
        """
        params = self._checked_params(y)
        features, truth = self._training_features(X), Truth.of(y)
        weights = self._sample_weight(sample_weight, features.shape[0])
        self._warn_of_far_values(truth)
        self._grow_on(features, truth, params, weights)
        if self.oob_score:
            left, right = pairs_of_rows(features.shape[0])
            estimate, count = scoring.out_of_bag_distance(self.forest_, left, right)
            known = have_estimates(count, "pairs")
            true = truth.distances(left, right)
            known &= ~np.isnan(true)
            true, estimate = true[known], estimate[known]
            of_pairs = _weights_of_pairs(weights, left[known], right[known])
            self.oob_rmse_ = float(np.sqrt(np.average((true - estimate) ** 2, weights=of_pairs)))
            self.oob_score_ = r_squared(true, estimate, of_pairs)
        return self

    @property
    def classes_(self) -> np.ndarray:
        """The labels, sorted; raises AttributeError if the forest has learned anything else."""
        check_is_fitted(self, "forest_")
        if self.forest_.meaning.classes is None:
            raise AttributeError("classes_: the forest was not taught labels")
        return np.asarray(self.forest_.meaning.classes)

    def predict(self, X: RowsLike) -> np.ndarray:
        """Predict labels, targets or points of an embedding, whichever the forest has learned.

        Returns
        -------
        ndarray of shape (n,), or (n, q) for an embedding of q > 1 dimensions
            The label with the largest mean share in the leaves in which a row ends, the first of equal ones; or the
            mean over these leaves. A date is predicted as a number in the unit of the training dates, counted from
            1970: see `Targets`.

        Raises
        ------
        InputError
            The forest has learned distances, so it predicts only distances.
        """
        nodes = self._nodes(X)
        means = scoring.predict(self.forest_, nodes)
        if self.forest_.meaning.classes is not None:
            labels: np.ndarray = self.classes_[np.argmax(means, axis=1)]
            return labels
        return means[:, 0] if means.shape[1] == 1 else means

    def predict_proba(self, X: RowsLike) -> Floats:
        """Compute the mean share of each class in the leaves in which the rows of ``X`` end, shape (n, n_classes).

        Raises
        ------
        InputError
            The forest has not learned labels.
        """
        nodes = self._nodes(X)
        shares = scoring.predict(self.forest_, nodes)
        if self.forest_.meaning.classes is None:
            truth = "targets" if self.forest_.meaning.leaf.learned is TruthKind.TARGETS else "an embedding"
            raise InputError(f"a forest that was trained on {truth} has no class shares; ask for `predict`")
        return shares

    @property
    def unobserved_share_(self) -> float:
        """Share of all pairs of leaves of which no distance was observed; 0.0 if the distances were complete."""
        check_is_fitted(self, "forest_")
        return scoring.unobserved_share(self.forest_)

    @property
    def _n_features_out(self) -> int:
        return self.forest_.n_training

    def transform(self, X: RowsLike) -> Floats:
        """Compute the distance of each row of ``X`` to each training row, shape (n, n_training)."""
        nodes = self._nodes(X)
        return scoring.distance(self.forest_, nodes, self.forest_.training_nodes)

    def score(self, X: RowsLike, y: TruthLike, sample_weight: VectorLike | None = None) -> float:
        """Compute the coefficient of determination of the distances of all pairs i < j of rows, at most 2^21 pairs.

        Parameters
        ----------
        X
            Rows, shape (n, n_features).
        y
            The ground truth in any form that `fit` accepts; a vector is read as the kind that the forest has learned.
        sample_weight
            A weight for each row, shape (n,), as for `fit`; a pair weighs the product of the weights of its two rows.

        Raises
        ------
        InputError
            ``y`` is no ground truth for these rows, or ``sample_weight`` cannot be used.
        """
        nodes = self._nodes(X)
        truth = Truth.of(y, self.forest_.meaning.leaf.learned)
        if len(truth.values) != nodes.shape[1]:
            text = f"found {counted(nodes.shape[1], 'row')} of X and {len(truth.values)} of {truth.kind}"
            raise InputError(f"{text}: inconsistent numbers of samples")
        weights = self._sample_weight(sample_weight, nodes.shape[1])
        rows = np.arange(nodes.shape[1]) if weights is None else np.flatnonzero(weights)
        if len(rows) < 2:
            raise InputError(f"score compares pairs: two rows of positive weight were expected, found {len(rows)}")
        left, right = (rows[places] for places in pairs_of_rows(len(rows)))
        true = truth.distances(left, right)
        known = ~np.isnan(true)
        left, right = left[known], right[known]
        return r_squared(true[known], self._pair_distances(nodes, left, right), _weights_of_pairs(weights, left, right))

    def _pair_distances(self, nodes: Int32s, left: Ints, right: Ints) -> Floats:
        """Compute the distances of pairs of rows; many pairs by the whole matrix, where each costs less."""
        if 4 * len(left) > nodes.shape[1] ** 2:
            return scoring.distance(self.forest_, nodes, nodes)[left, right]
        step = max(1, BLOCK_NODES // self.forest_.n_trees)
        blocks = [slice(first, first + step) for first in range(0, len(left), step)]
        distances = [scoring.pair_distance(self.forest_, nodes[:, left[b]], nodes[:, right[b]]) for b in blocks]
        return np.concatenate(distances)


def _weights_of_pairs(weights: Floats | None, left: Ints, right: Ints) -> Floats | None:
    """The products of the weights of two rows, relative to the largest weight; None: equal weights."""
    if weights is None:
        return None
    relative = weights / weights.max()  # so that no product is infinite
    return relative[left] * relative[right]
