"""The estimator of URerF."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from distforest.estimators.on_features import OnFeatures
from distforest.forest.proximities import out_of_bag_proximity
from distforest.growth.methods import METHODS, sampling

if TYPE_CHECKING:
    from distforest.sources.source import Floats, Ints

PAPER: dict[str, Any] = {
    "criterion": "fast_bic",
    "relative": False,
    "n_witnesses": 0,
    "max_features": "sqrt",
    "feature_combinations": 0.05,
    "coefficients": "sign",
    "feature_weights": None,
    "splitter": "best",
    "min_samples_split": 100,
    "bootstrap": True,
    "max_samples": None,
}
"""The rule of Madhyastha et al., sections 3 and 4."""


@dataclass(eq=False, repr=False)
class URerF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, OnFeatures):  # type: ignore[misc]
    """Unsupervised random forest (after Madhyastha et al.): how near points are on a manifold, in spite of noise.

    Two points are near if many trees send them to the same leaf. Nothing is taught: a cut is judged by how well two
    clusters describe a projection of the points. By default features are first screened by how much they depend on
    others (a scale-free measure), projections are cut at random, and further features confirm a cut. `paper` gives
    the paper's own rule. A distance is 1 - proximity, for ``metric="precomputed"``; the proximity of rows and
    themselves is exactly symmetric, with ones on the diagonal, as every tree counts whether or not it drew a row.
    There is no ``score``, as there is no truth: scikit-learn's searches need ``scoring``, a function of yours.

    Parameters
    ----------
    {parameters}

    An array of numbers that are not negative, shape (n_features,), may be given as ``feature_weights``.

    Attributes
    ----------
    forest_, digest_, n_features_in_, feature_names_in_
        As of `SMERF`.
    feature_weights_ : ndarray of shape (n_features_in_,)
        How likely each feature was to be drawn; their sum is 1.
    dependence_ : ndarray of shape (n_features_in_,), or None
        By how much each feature depends on another one, from 0 to 1, if they were screened.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Share of each feature in the sizes of the nodes that it cuts.

    Examples
    --------
    >>> from distforest.evaluation.manifolds import manifold_helix
    >>> X = manifold_helix(200, noise_dimensions=5, random_state=0).X
    >>> forest = URerF(20, random_state=0).fit(X)
    >>> forest.proximity().shape, bool(forest.feature_weights_[:3].sum() > 0.7)
    ((200, 200), True)
    """

    _method = METHODS["urerf"]
    _parameters = _method.parameters

    n_estimators: int = 100
    _: KW_ONLY
    criterion: str = "equal_bic"
    relative: bool = True
    n_witnesses: int = 3
    max_features: float | str | None = "effective"
    feature_combinations: float = 2.0
    coefficients: str = "normal"
    feature_weights: Any = "dependence"
    splitter: str = "random"
    min_samples_split: int = 50
    max_depth: int | None = None
    bootstrap: bool = False
    max_samples: float | None = 0.8
    min_samples_leaf: int = 1
    random_state: Any = None
    n_jobs: int | None = None
    client: Any = None

    @classmethod
    def paper(cls, n_estimators: int = 100, **params: Any) -> Self:
        """Make a forest by the paper's own rule, with other parameters over it.

        Fast-BIC with its signs put right, the best of all cuts, square root of p projections whose columns are a
        twentieth of all, each with its sign; nodes of fewer than 100 rows are leaves. With many features of noise
        ``feature_combinations=1`` keeps it above chance.

        Examples
        --------
        >>> URerF.paper(random_state=0).criterion
        'fast_bic'
        """
        return cls(n_estimators, **{**PAPER, **params})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002  (scikit-learn passes it)
        """Grow the forest.

        Parameters
        ----------
        X
            Features, shape (n, n_features): array-like, Zarr array, or the address of one.
        y
            Not looked at.

        Raises
        ------
        InputError
            A parameter or ``X`` cannot be used.
        """
        params = self._checked(())
        features = self._features(X)
        sampling(params, len(features))  # refused before features are screened
        self._grow_on(features, None, params)
        return self

    def out_of_bag_proximity(self) -> tuple[Floats, Ints]:
        """Take the proximity of training rows over the trees that drew neither.

        Returns
        -------
        estimate, count : ndarray of shape (n, n)
            NaN where there is no such tree, and how many there are.
        """
        check_is_fitted(self)
        rows = np.arange(self.forest_.n_training)
        return out_of_bag_proximity(self.forest_, rows, rows)

    def transform(self, X: Any) -> Any:
        """Take the rows of ``X`` as sparse vectors: a column for each node of the forest, 1 where a row ends.

        Returns
        -------
        csr_matrix of shape (n, n_nodes)
            ``E @ E.T / n_estimators`` is the `proximity` of the rows.
        """
        return self.leaf_embedding(X)

    @property
    def _n_features_out(self) -> int:
        return int(self.forest_.table.tree_start[-1])
