"""The estimator of the random forest distance."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from distforest.estimators.forest_estimator import have_estimates
from distforest.estimators.input_types import CategoricalLike, SeedLike
from distforest.estimators.on_pairs import OnPairs
from distforest.forest import scoring
from distforest.forest.pairs import pair_scores
from distforest.growth.methods import METHODS
from distforest.growth.pairs.methods import judging_pairs
from distforest.sources.point_pairs import DISSIMILAR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributed import Client

    from distforest.estimators.pair_columns import PairColumn
    from distforest.growth.parameters import Value
    from distforest.growth.problem import Data
    from distforest.sources.comparisons import Comparison
    from distforest.sources.source import Floats


@dataclass(eq=False, repr=False)
class RFD(OnPairs):
    """Random forest distance (Xiong et al.): a distance that also depends on where the two points are.

    The trees learn to tell must-link from cannot-link pairs by |x - x'| and (x + x') / 2; of a feature of categories
    by whether the two differ, and by which two they are, in either order. The distance of two points is the share of
    trees that vote against a link.

    Parameters
    ----------
    {parameters}
    pair_columns : list of str, PairColumn or Comparison, or None, default=None
        As in `TreeRank`. With all four of the whole rows, pairs of classes that were never taught are ordered better.

    Attributes
    ----------
    forest_, digest_, n_features_in_, feature_names_in_
        As in `SMERF`.
    classes_ : ndarray
        After `fit`: the labels, sorted.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Share of each feature in the gain of all splits: the sum of the next two attributes.
    relative_importances_, absolute_importances_ : ndarray of shape (n_features_in_,)
        Share of the differences of a feature, and of its middles; of categories, of whether they differ, and of which
        two they are. With ``pair_columns`` the shares add up to 1 together with ``pair_column_importances_``.
    pair_column_importances_ : ndarray of shape (n_pair_columns,)
        Share of each of ``pair_columns``.
    oob_score_ : float
        With ``oob_score``: share of the training pairs that are classified correctly by the trees that drew neither
        point.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RFD(50, random_state=0).fit(X, y)
    >>> forest.distance(X[:1], X[[1, 50, 100]]).round(1)
    array([[0., 1., 1.]])
    """

    _method = METHODS["rfd"]
    _parameters = _method.parameters

    n_estimators: int = 200
    _: KW_ONLY
    position: bool = True
    n_constraints: int | str = "auto"
    balance: str = "points"
    voting: str = "majority"
    max_features: float | str | None = "sqrt"
    criterion: str | None = None
    max_bins: int | None = 256
    min_samples_split: int = 2
    min_samples_leaf: int = 5
    max_depth: int | None = None
    bootstrap: bool = True
    max_samples: float | None = None
    resample: str = "points"
    oob_score: bool = False
    pair_columns: Sequence[str | PairColumn | Comparison] | None = None
    categorical_features: CategoricalLike = "from_dtype"
    random_state: SeedLike = None
    n_jobs: int | None = None
    verbose: int = 0
    warm_start: bool = False
    client: Client | None = None

    def _grow_from(self, data: Data, params: dict[str, Value], seed: int) -> None:
        """Grow the forest, and estimate its error from the pairs whose points a tree has not drawn."""
        super()._grow_from(data, params, seed)
        if self.oob_score:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # growing has given the warnings on constraints
                judges = judging_pairs(data, params, seed)
            pairs = pair_scores.training_pairs(self.forest_, judges.pairs)
            distance, count = pair_scores.out_of_bag(self.forest_, pairs)
            known = have_estimates(count, "pairs")
            is_right = (distance[known] > 0.5) == (judges.codes[known] == DISSIMILAR)
            self.oob_score_ = float(np.average(is_right, weights=judges.weights[known]))

    @property
    def feature_importances_(self) -> Floats:
        """Share of each feature in the gain of all splits, shape (n_features_in_,)."""
        return self._gain_shares().sum(axis=0)

    @property
    def relative_importances_(self) -> Floats:
        """Share of each feature's differences in the gain of all splits, shape (n_features_in_,)."""
        return self._gain_shares()[0]

    @property
    def absolute_importances_(self) -> Floats:
        """Share of each feature's middles in the gain of all splits, shape (n_features_in_,)."""
        return self._gain_shares()[1]

    @property
    def pair_column_importances_(self) -> Floats:
        """Share of each of ``pair_columns`` in the gain of all splits, shape (n_pair_columns,)."""
        check_is_fitted(self)
        return scoring.feature_importances(self.forest_)[pair_scores.columns_of(self.forest_).n_of_family :]

    def _gain_shares(self) -> Floats:
        """Share of the differences and of the middles of each feature in the gain, shape (2, n_features_in_)."""
        check_is_fitted(self)
        columns = pair_scores.columns_of(self.forest_)
        shares = np.zeros(2 * columns.n_features)
        of_family = scoring.feature_importances(self.forest_)[: columns.n_of_family]
        shares[: len(of_family)] = of_family  # a forest without middles has half as many columns
        return shares.reshape(2, -1)
