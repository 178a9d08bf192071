"""The base of the estimators whose trees read pairs of points: training from labels or pairs, distances, scores."""

from __future__ import annotations

from dataclasses import replace
from types import NoneType
from typing import TYPE_CHECKING, Self

import numpy as np
import scipy.sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller
from distforest.estimators.by_blocks import by_blocks
from distforest.estimators.decisions import Decides
from distforest.estimators.forest_estimator import n_threads
from distforest.estimators.input_types import PairsLike, PointsLike, VectorLike
from distforest.estimators.neighbor_graph import FindsNeighbors
from distforest.estimators.pair_columns import Columns, Links, PairColumn, column_of, seeded
from distforest.estimators.pair_shapes import read_links
from distforest.estimators.reading import names_kept
from distforest.forest.explanations import Explanation, explain_pairs
from distforest.forest.pairs import pair_neighbors, pair_scores
from distforest.growth.methods import check_sparse, for_sparse
from distforest.growth.pairs.pair_methods import check_n_points, pair_columns
from distforest.growth.pairs.point_weights import integers_of_pairs
from distforest.growth.problem import Data
from distforest.sources.collections import computed
from distforest.sources.comparisons import Comparison, Records
from distforest.sources.factors import Labels, encoded, names_of_classes
from distforest.sources.files.ids import warning_about_addresses, warning_about_named_pairs
from distforest.sources.given import in_memory
from distforest.sources.opening import opened_array
from distforest.sources.point_pairs import (
    DISSIMILAR,
    check_points,
    named,
)
from distforest.sources.readings import FEATURES, read
from distforest.sources.row_order import warning_about_row_order
from distforest.sources.sparse_features import read_sparse_features
from distforest.sources.sparse_pairs import SparsePairs, check_sparse_points
from distforest.sources.truth import Truth, TruthKind, pairs_of_rows
from distforest.sources.weights import OF_PAIRS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from sklearn.utils import Tags

    from distforest.forest.forest import Forest
    from distforest.forest.pairs.pair_scores import PairsOfPoints, Points
    from distforest.growth.parameters import Value
    from distforest.growth.sample_weights import SampleWeights
    from distforest.sources.point_pairs import PairColumns
    from distforest.sources.source import Float32s, Floats, Int32s, Ints
    from distforest.sources.sparse_features import SparseFeatures


class OnPairs(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FindsNeighbors, Decides):  # type: ignore[misc]
    """The base of the estimators whose trees read pairs of points."""

    _zero_is_absent = True
    pair_columns: Sequence[str | PairColumn | Comparison] | None
    columns_: Columns

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not for_sparse({row.name: getattr(self, row.name) for row in self._parameters})
        return tags

    def fit(self, X: PointsLike, y: VectorLike, sample_weight: VectorLike | None = None) -> Self:
        """Grow the forest from labels: points with the same label are similar, points with different labels dissimilar.

        Parameters
        ----------
        X
            Features of the points, shape (n, n_features): array-like, data frame, sparse matrix, Zarr array, or the
            address of one. A value that a sparse matrix does not store is 0.
        y
            Label of each point, shape (n,).
        sample_weight
            How much each point counts, shape (n,); a pair counts as the product of the weights of its two points. A
            point of weight 0 is absent. None: all count the same.

        Raises
        ------
        InputError
            A parameter, ``X``, ``y`` or ``sample_weight`` cannot be used.
        """
        params, seed = self._checked_params(y), self._seed()
        X, y, sample_weight = computed(X, y, sample_weight)
        self._warn_of_order(X, y=y, sample_weight=sample_weight)
        opened = opened_array(y)
        labels = column_or_1d(in_memory(opened), warn=True)
        points, truth = self._training_points(X), Truth.from_given(Labels(labels, names_of_classes(opened)))
        weights = self._integer_weights(params, truth, self._read_weights(sample_weight, points.shape[0]))
        self._check_weights(weights)
        points = self._with_columns(points, labels, seed)
        data = Data(self._pair_columns(params), points, truth, sample_weights=weights)
        self._grow_from(data, params, seed)
        return self

    @property
    def classes_(self) -> np.ndarray:
        """The labels, sorted; raises AttributeError if the forest has learned from pairs."""
        check_is_fitted(self, "forest_")
        if self.forest_.meaning.classes is None:
            raise AttributeError("classes_: the forest was taught pairs, not labels")
        return np.asarray(self.forest_.meaning.classes)

    def fit_pairs(
        self,
        X: PointsLike,
        pairs: PairsLike,
        similar: VectorLike,
        sample_weight: VectorLike | None = None,
        pair_weight: VectorLike | None = None,
    ) -> Self:
        """Grow the forest from pairs that are known to be similar (must-link) or dissimilar (cannot-link).

        Parameters
        ----------
        X
            Features of the points, as for `fit`.
        pairs
            Row numbers of the two points of each pair, counted from 0 whatever the index of a data frame says, shape
            (n_pairs, 2): array-like, Zarr array, or the address of one. A pair that occurs twice counts twice.
        similar
            Whether the two points are similar, shape (n_pairs,): True or False, 1 or 0, or 1 or -1; array-like, Zarr
            array, or the address of one.
        sample_weight
            How much each *point* counts, shape (n,), as for `fit`.
        pair_weight
            How much each pair counts, shape (n_pairs,): one of weight 3 as three equal pairs, one of weight 0 not at
            all. Beside ``sample_weight`` both multiply: a pair counts as its own weight times those of its two points.
            None: all count the same.

        Raises
        ------
        InputError
            A parameter or an input cannot be used, or all pairs are of one kind.

        Warns
        -----
        DistforestWarning
            A check has found something, such as a pair that is both similar and dissimilar; it counts on both sides.
        """
        params, seed = self._checked_params(similar), self._seed()
        given = computed(X, pairs, similar, sample_weight, pair_weight)
        X, pairs, similar, sample_weight, pair_weight = given
        self._warn_of_order(X, sample_weight=sample_weight)
        warnings = (
            warning_about_row_order(pairs, similar, "similar", "pairs"),
            warning_about_row_order(pairs, pair_weight, "pair_weight", "pairs")
            or warning_about_row_order(similar, pair_weight, "pair_weight", "similar"),
            warning_about_named_pairs(X, pairs),
            warning_about_addresses(pairs, similar),
            warning_about_addresses(pairs, pair_weight),
        )
        for warning in filter(None, warnings):
            warn_caller(f"DF005 {warning}")
        points = self._training_points(X)
        numbers, codes = read_links(pairs, similar, points.shape[0])
        counts = self._read_weights(pair_weight, len(codes), OF_PAIRS)
        present = slice(None) if counts is None else counts > 0.0
        truth = Truth(TruthKind.LINKS, codes)
        weights = self._integer_weights(params, truth, self._read_weights(sample_weight, points.shape[0]))
        integers = None
        if counts is not None:
            integers = integers_of_pairs(counts, weights)
            if warning := integers.rounding_warning(counts, OF_PAIRS):
                warn_caller(warning)
        self._check_weights(weights)
        points = self._with_columns(points, Links(numbers[present], codes[present] != DISSIMILAR), seed)
        data = Data(self._pair_columns(params), points, truth, pairs=numbers, sample_weights=weights)
        self._grow_from(replace(data, pair_weights=integers), params, seed)
        return self

    def pair_distance(self, left: PointsLike, right: PointsLike) -> Floats:
        """Compute the distance of row k of ``left`` to row k of ``right``, shapes (n, n_features); shape (n,)."""
        return pair_scores.pair_distance(self.forest_, self._pairs_of(left, right), n_threads(self.n_jobs))

    def _pairs_of(self, left: PointsLike, right: PointsLike) -> PairsOfPoints:
        """Row k of ``left`` beside row k of ``right``."""
        points, others = self._points(left), self._points(right)
        n, n_others = points.shape[0], others.shape[0]
        if n != n_others:
            raise InputError(f"pairs need as many left rows as right rows, found {n} and {n_others}")
        numbers = np.arange(n, dtype=np.int32)
        return pair_scores.pairs_of(pair_scores.columns_of(self.forest_), points, others).of_pairs(numbers, numbers)

    def distance(self, X: PointsLike | None = None, Y: PointsLike | None = None) -> Floats:
        """Compute the distance of each row of ``X`` to each of ``Y``.

        It is not negative and symmetric, but not a metric: the distance of a point to itself may be above 0, and the
        triangle inequality may not hold.

        Parameters
        ----------
        X, Y
            Points as for `fit`, shapes (n_x, n_features) and (n_y, n_features). By default ``X`` is the training
            points, and ``Y`` is ``X``: ``distance(T)`` is of each row of T to each of T, and ``distance(T, X)`` of each
            to each training point, if ``X`` are these.

        Returns
        -------
        ndarray of shape (n_x, n_y)
        """
        points = self._points(X)
        others = points if Y is None else self._points(Y)
        return pair_scores.distance(self.forest_, points, others, n_threads(self.n_jobs))

    @by_blocks
    def transform(self, X: PointsLike) -> Floats:
        """Compute the distance of each row of ``X`` to each training point, shape (n, n_training)."""
        return pair_scores.distance(self.forest_, self._points(X), self._points(None), n_threads(self.n_jobs))

    def score(self, X: PointsLike, y: VectorLike) -> float:
        """Compute the area under the ROC curve over pairs of rows, as metric-learn does.

        It is the probability that a pair with the same label is nearer than a pair with different labels, ties counting
        one half. It is taken over all pairs i < j, or over a fixed random choice of 2^21 of them.

        Parameters
        ----------
        X, y
            Points and their labels, as for `fit`.

        Raises
        ------
        InputError
            ``X`` or ``y`` cannot be used, or all pairs are of one kind.
        """
        X, y = computed(X, y)
        points = self._points(X)
        codes, _ = encoded(column_or_1d(in_memory(opened_array(y)), warn=True))
        n = points.shape[0]
        if len(codes) != n:
            counts = f"found {counted(n, 'row')} of X and {counted(len(codes), 'label')}"
            raise InputError(f"{counts}: inconsistent numbers of samples")
        left, right = pairs_of_rows(n)
        return self._area(points, np.stack([left, right], axis=1), codes[left] != codes[right])

    def roc_auc_score(
        self, X: PointsLike, pairs: PairsLike, similar: VectorLike, pair_weight: VectorLike | None = None
    ) -> float:
        """Compute the area under the ROC curve, as `score` does, over pairs known to be similar or dissimilar.

        `pair_distance` has a value for each pair.

        Parameters
        ----------
        X, pairs, similar, pair_weight
            As for `fit_pairs`.

        Raises
        ------
        InputError
            An input cannot be used, or all pairs of positive weight are of one kind.
        """
        X, pairs, similar, pair_weight = computed(X, pairs, similar, pair_weight)
        points = self._points(X)
        numbers, codes = read_links(pairs, similar, points.shape[0])
        weights = self._read_weights(pair_weight, len(codes), OF_PAIRS)
        if weights is not None:
            present = weights > 0.0
            numbers, codes, weights = numbers[present], codes[present], weights[present]
        return self._area(points, numbers, codes == DISSIMILAR, weights)

    def _area(
        self, points: Points, numbers: Int32s, dissimilar: NDArray[np.bool_], weights: Floats | None = None
    ) -> float:
        """Area under the ROC curve over pairs of the points; ``numbers`` are their rows, shape (n_pairs, 2)."""
        from sklearn.metrics import roc_auc_score  # noqa: PLC0415  (a tenth of a second that a fit does without)

        if not dissimilar.any() or dissimilar.all():
            found = f"found {counted(len(dissimilar), 'pair')}, {int(dissimilar.sum())} of them dissimilar"
            cure = "shuffle the rows, or stratify by label, where parts of them are held out"
            raise InputError(f"score: similar and dissimilar pairs were expected, {found}; {cure}")
        distances = self._distances_of(points, numbers)
        return float(roc_auc_score(~dissimilar, -distances, sample_weight=weights))

    def explain(self, left: PointsLike, right: PointsLike) -> Explanation:
        """Explain why two points are near or far: the distance as a sum over the columns of their pair.

        Parameters
        ----------
        left, right
            Points, shapes (n_pairs, n_features) both; row k of ``left`` is compared with row k of ``right``.

        Returns
        -------
        Explanation
            The distance of each pair is the mean answer for the training pairs and what each column adds to it, or
            takes from it.

        Raises
        ------
        InputError
            There are not as many left points as right points, points are sparse, or splits are weighted sums of all
            columns, as those of a `TreeRank` with ``leafrank="linear"``.
        """
        pairs = self._pairs_of(left, right)
        if isinstance(pairs, SparsePairs):
            raise InputError("explain reads dense points, found a forest of sparse ones; use pair_distance")
        own = pairs.columns
        features = [*names_kept(self), *(f"x{k}" for k in range(own.n_features))]
        names = named(own, features[: own.n_features], [f"further column {k}" for k in range(len(own.blocks))])
        return explain_pairs(self.forest_, pairs, tuple(names))

    @property
    def _n_features_out(self) -> int:
        return self.forest_.n_training

    @by_blocks
    def kneighbors(
        self, X: PointsLike | None = None, n_neighbors: int = 5, return_distance: bool = True
    ) -> tuple[Floats, Ints] | Ints:
        """Find the nearest training points of each row of ``X``, block by block.

        Parameters
        ----------
        X
            Points, shape (n, n_features). None: the training points; a point is not its own neighbour.
        n_neighbors
            Number of neighbours of each row.
        return_distance
            Whether to return their distances too.

        Returns
        -------
        distances, indices : ndarray of shape (n, n_neighbors)
            Nearest first, equal distances in the order of the index; only ``indices`` if not ``return_distance``.
        """
        points, threads = self._points(X), n_threads(self.n_jobs)
        numbers = np.arange(points.shape[0]) if X is None else None
        distances, indices = pair_neighbors.kneighbors(self.forest_, points, n_neighbors, numbers, threads)
        return (distances, indices) if return_distance else indices

    def _pair_columns(self, params: dict[str, Value]) -> PairColumns:
        """The columns of a pair that the trees read."""
        schema = self._schema()
        if self._comparisons and schema is not None:
            schema.kept()  # a forest without the names could not compare them
        own = self._n_categories(), self._comparisons, schema
        return pair_columns(params, self.n_features_in_, self.columns_.blocks, *own)

    @property
    def _comparisons(self) -> list[Comparison]:
        """The comparisons among ``pair_columns``."""
        return [given for given in self.pair_columns or () if isinstance(given, Comparison)]

    def _check_weights(self, weights: SampleWeights | None) -> None:
        """Refuse points of weight 0 beside further columns, which learn from all points."""
        vectors = len(self.pair_columns or ()) - len(self._comparisons)
        if vectors and weights is not None and not weights.is_everywhere:
            cure = "leave out the points that have a weight of 0"
            raise InputError(f"sample_weight: pair_columns learn from all points, whatever their weights; {cure}")

    def _with_columns(
        self, points: Float32s | SparseFeatures, known: NDArray[np.generic] | Links, seed: int
    ) -> Float32s | SparseFeatures:
        """Append the vectors of the further columns to the training points, shape (n, width)."""
        if not isinstance(self.pair_columns, (list, tuple, NoneType)):
            raise InputError(f"pair_columns: a list of columns was expected, found {self.pair_columns!r}")
        columns = [column_of(given) for given in self.pair_columns or () if not isinstance(given, Comparison)]
        if columns and (sizes := self._n_categories()):
            found = f"found {counted(sum(n > 0 for n in sizes), 'feature')} of categories"
            raise InputError(f"pair_columns read numbers, {found}; encode them as numbers, or leave pair_columns out")
        if not isinstance(points, np.ndarray):
            if self.pair_columns:
                raise InputError("pair_columns read dense points, found sparse ones; leave pair_columns out")
            self.columns_ = Columns(())
            return points
        self.columns_, points = Columns(seeded(columns, seed)).fit(points, known)
        return points

    def extended(self, X: PointsLike) -> Points:
        """Append the vectors of ``pair_columns`` to the rows of ``X``, as the forest reads them, shape (n, width).

        A loaded forest has no ``pair_columns``: it expects rows that are extended already, and returns them.
        """
        check_is_fitted(self)
        return self._points(X)

    def _restore(self, forest: Forest) -> None:
        """Make this a fitted estimator of an opened forest, which reads points that are extended already."""
        super()._restore(forest)
        self.columns_ = Columns(())
        self.n_features_in_ = pair_scores.columns_of(forest).width
        if self.n_features_in_ > forest.n_features:
            self._set_schema(None)  # further columns have none

    def _training_points(self, X: PointsLike) -> Float32s | SparseFeatures:
        """Read the training points, shape (n, n_features)."""
        rows = self._rows(X, reset=True)
        if scipy.sparse.issparse(rows):
            check_sparse(self._params())
            points: Float32s | SparseFeatures = read_sparse_features(rows)
        else:
            points = self._read_features(rows)
        check_n_points(points.shape[0])
        return points

    def _points(self, X: PointsLike | None) -> Points:
        """Read the points of a query, sparse if the training points are; None stands for the training points."""
        check_is_fitted(self)
        if X is None:
            return pair_scores.training_points(self.forest_)
        schema = self._with_unseen(X)
        rows = self._rows(X, False, schema)
        if self.forest_.sparse_points is not None:
            sparse = read_sparse_features(rows if scipy.sparse.issparse(rows) else scipy.sparse.csr_array(rows[:]))
            check_sparse_points(sparse)
            return sparse
        if scipy.sparse.issparse(rows):  # as few columns as the training points have, of which none is left out
            rows = read_sparse_features(rows).dense(np.arange(rows.shape[0], dtype=np.int32))
        points = read(rows, FEATURES)
        columns = pair_scores.columns_of(self.forest_)
        if schema is not None:
            check_points(points)
            return Records(points, schema)
        check_points(points, columns if points.shape[1] == columns.width else None)
        if self.columns_.fitted:
            points = self.columns_.extended(points)
            check_points(points, columns)
        return points
