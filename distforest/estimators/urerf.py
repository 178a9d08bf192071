"""Estimator of URerF."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._set_output import _get_output_config, check_library_installed
from sklearn.utils.validation import check_is_fitted

from distforest.estimators.input_types import (
    CategoricalLike,
    DataFrameLike,
    FeaturesLike,
    FeatureWeightsLike,
    RowsLike,
    SeedLike,
    SparseLike,
    VectorLike,
)
from distforest.estimators.on_features import OnFeatures
from distforest.forest.proximities import out_of_bag_proximity
from distforest.growth.methods import METHODS, sampling
from distforest.sources.collections import computed

if TYPE_CHECKING:
    import scipy.sparse
    from distributed import Client
    from sklearn.utils import Tags

    from distforest.sources.source import Floats, Ints


@dataclass(eq=False, repr=False)
class URerF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, OnFeatures):  # type: ignore[misc]
    """Unsupervised random forest (after Madhyastha et al.), which learns proximities on a manifold despite noise.

    Two points are near if many trees send them to the same leaf. There is no ground truth: a split is scored by how
    well two clusters describe a projection of the points. By default features are first screened by how strongly they
    depend on others (a scale-free measure), splits are random, and further features confirm a split. Use 1 - proximity
    as the distance for ``metric="precomputed"``. The proximity of the training rows is exactly symmetric, with ones on
    the diagonal, because every tree counts whether or not it drew a row. There is no ``score``, because there is no
    ground truth: pass a function as ``scoring`` to scikit-learn's searches.

    ``feature_weights`` may also be an array of numbers >= 0, shape (n_features,).

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    forest_, digest_, n_features_in_, feature_names_in_
        As in `SMERF`.
    feature_weights_ : ndarray of shape (n_features_in_,)
        Probability with which each feature was drawn.
    dependence_ : ndarray of shape (n_features_in_,), or None
        Dependence of each feature on another one, from 0 to 1; None if features were not screened.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Share of each feature in the sizes of the nodes that it splits.

    Examples
    --------
    >>> from sklearn.datasets import make_swiss_roll
    >>> noise = np.random.default_rng(0).normal(scale=9, size=(200, 5))
    >>> X = np.hstack([make_swiss_roll(200, random_state=0)[0], noise])
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
    feature_weights: FeatureWeightsLike = "dependence"
    splitter: str = "random"
    min_samples_split: int = 50
    max_depth: int | None = None
    bootstrap: bool = False
    max_samples: float | None = 0.8
    min_samples_leaf: int = 1
    categorical_features: CategoricalLike = "from_dtype"
    random_state: SeedLike = None
    n_jobs: int | None = None
    verbose: int = 0
    warm_start: bool = False
    client: Client | None = None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags

    def fit(
        self,
        X: FeaturesLike | SparseLike,
        y: object = None,  # noqa: ARG002  (scikit-learn passes it)
        sample_weight: VectorLike | None = None,
    ) -> Self:
        """Grow the forest.

        Parameters
        ----------
        X
            Features, shape (n, n_features): array-like, data frame, sparse matrix, Zarr array, or the address of one.
            In a sparse matrix an absent value is 0; it needs ``feature_weights=None``, ``n_witnesses=0`` and
            ``coefficients="sign"``.
        y
            Not used.
        sample_weight
            A weight for each row, shape (n,), as for `SMERF.fit`. The screen, the range and the positions of random
            cuts, and the scale of normal coefficients count each row of positive weight once.

        Raises
        ------
        InputError
            A parameter, ``X`` or ``sample_weight`` cannot be used.
        """
        params = self._checked_params(())
        X, sample_weight = computed(X, sample_weight)
        self._warn_of_order(X, sample_weight=sample_weight)
        features = self._training_features(X)
        weights = self._read_weights(sample_weight, features.shape[0])
        sampling(params, features.shape[0])  # refused before features are screened
        self._grow_on(features, None, params, weights)
        return self

    def out_of_bag_proximity(self) -> tuple[Floats, Ints]:
        """Compute the out-of-bag proximity of each pair of training rows, by the trees that drew neither row.

        Returns
        -------
        estimate, count : ndarray of shape (n, n)
            The proximity, NaN where every tree drew at least one of the two rows; and the number of trees that drew
            neither.
        """
        check_is_fitted(self)
        rows = np.arange(self.forest_.n_training)
        return out_of_bag_proximity(self.forest_, rows, rows)

    def transform(self, X: RowsLike) -> scipy.sparse.csr_matrix | Floats | DataFrameLike:
        """Represent the rows of ``X`` as sparse vectors, with a column for each node, which is 1 if the row ends there.

        Returns
        -------
        csr_matrix of shape (n, n_nodes)
            ``E @ E.T / n_estimators`` is the `proximity` of the rows. After ``set_output(transform="pandas")`` it is
            a data frame of sparse columns; for any other library, a data frame of dense columns.
        """
        embedding = self.leaf_embedding(X)
        container = _get_output_config("transform", self)["dense"]
        if container == "default":
            return embedding
        if container == "pandas":
            pd = check_library_installed("pandas")
            index = X.index if isinstance(X, pd.DataFrame) else None
            frame: DataFrameLike = pd.DataFrame.sparse.from_spmatrix(embedding, index=index)
            return frame
        dense: Floats = embedding.toarray()
        return dense

    @property
    def _n_features_out(self) -> int:
        return int(self.forest_.table.tree_start[-1])
