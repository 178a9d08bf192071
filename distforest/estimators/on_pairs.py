"""The base of the estimators whose trees read pairs of points: training from labels or pairs, distances, scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller
from distforest.estimators.forest_estimator import ForestEstimator, n_threads
from distforest.estimators.input_types import FeaturesLike, PairsLike, VectorLike
from distforest.evaluation.roc import roc_curve
from distforest.forest.missing import rows_without_values, told_of_rows_without_values
from distforest.forest.pairs import pair_scores
from distforest.growth.pairs.methods import pair_columns
from distforest.growth.problem import Data
from distforest.sources.arrays import ArraySource
from distforest.sources.doubts import told_of_amounts
from distforest.sources.factors import Labels, encoded, names_of_classes
from distforest.sources.given import in_memory
from distforest.sources.opening import opened_array
from distforest.sources.point_pairs import (
    DISSIMILAR,
    PointPairs,
    check_pairs,
    check_points,
    codes_of_links,
    warning_of_contradictions,
)
from distforest.sources.readings import FEATURES, read
from distforest.sources.truth import Truth, TruthKind, pairs_of_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.growth.parameters import Value
    from distforest.sources.point_pairs import PairColumns
    from distforest.sources.source import Float32s, Floats, Int32s, Ints


class OnPairs(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ForestEstimator):  # type: ignore[misc]
    """The base of the estimators whose trees read pairs of points."""

    def fit(self, X: FeaturesLike, y: VectorLike, sample_weight: VectorLike | None = None) -> Self:
        """Grow the forest from labels: points with the same label are similar, points with different labels dissimilar.

        Parameters
        ----------
        X
            Features of the points, shape (n, n_features): array-like, data frame, Zarr array, or the address of one.
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
        opened = opened_array(y)
        labels = column_or_1d(in_memory(opened), warn=True)
        points, truth = self._training_points(X, labels, seed), Truth.of(Labels(labels, names_of_classes(opened)))
        weights = self._integer_weights(params, truth, self._sample_weight(sample_weight, len(points)))
        of_truth = (TruthKind.LABELS, truth.values, truth.classes)
        data = Data(self._pair_columns(params), points, *of_truth, sample_weights=weights)
        self._grow_from(data, params, seed)
        of_amounts = np.array(truth.classes)[truth.values]  # classes with names are none
        if warning := told_of_amounts(of_amounts, points[:, : self.n_features_in_], self._schema()):
            cure = "if they are amounts, cut them into classes, or say of pairs whether they are similar (`fit_pairs`)"
            warn_caller(f"labels: {warning}, any two of which are equally dissimilar; {cure}")
        return self

    @property
    def classes_(self) -> np.ndarray:
        """The labels, sorted; raises AttributeError if the forest has learned from pairs."""
        check_is_fitted(self, "forest_")
        if self.forest_.meaning.classes is None:
            raise AttributeError("classes_: the forest was taught pairs, not labels")
        return np.asarray(self.forest_.meaning.classes)

    def fit_pairs(
        self, X: FeaturesLike, pairs: PairsLike, similar: VectorLike, sample_weight: VectorLike | None = None
    ) -> Self:
        """Grow the forest from pairs that are known to be similar (must-link) or dissimilar (cannot-link).

        Parameters
        ----------
        X
            Features of the points, as for `fit`.
        pairs
            Row numbers of the two points of each pair, shape (n_pairs, 2): array-like, Zarr array, or the address of
            one. A pair that occurs twice counts twice.
        similar
            Whether the two points are similar, shape (n_pairs,): True or False, 1 or 0, or 1 or -1; array-like, Zarr
            array, or the address of one.
        sample_weight
            How much each *point* counts, shape (n,), as for `fit`.

        Raises
        ------
        InputError
            A parameter or an input cannot be used, or all pairs are of one kind.

        Warns
        -----
        UserWarning
            A pair is both similar and dissimilar; it counts on both sides.
        """
        params, seed = self._checked_params(similar), self._seed()
        points = self._training_points(X, None, seed)
        numbers, codes = _read_links(pairs, similar, len(points))
        if warning := warning_of_contradictions(numbers, codes):
            warn_caller(f"pairs: {warning}; drop what is wrong, or leave it as noise")
        truth = Truth(TruthKind.LINKS, codes)
        weights = self._integer_weights(params, truth, self._sample_weight(sample_weight, len(points)))
        of_truth = (TruthKind.LINKS, codes)
        data = Data(self._pair_columns(params), points, *of_truth, pairs=numbers, sample_weights=weights)
        self._grow_from(data, params, seed)
        return self

    def pair_distance(self, left: FeaturesLike, right: FeaturesLike) -> Floats:
        """Compute the distance of row k of ``left`` to row k of ``right``, shapes (n, n_features); shape (n,)."""
        return pair_scores.pair_distance(self.forest_, self._pairs_of(left, right), n_threads(self.n_jobs))

    def _pairs_of(self, left: FeaturesLike, right: FeaturesLike) -> PointPairs:
        """Row k of ``left`` beside row k of ``right``."""
        points, others = self._points(left), self._points(right)
        if len(points) != len(others):
            raise InputError(f"pairs need as many left rows as right rows, found {len(points)} and {len(others)}")
        numbers = np.arange(len(points), dtype=np.int32)
        return PointPairs(pair_scores.columns_of(self.forest_), points, others, numbers, numbers)

    def distance(self, X: FeaturesLike | None = None, Y: FeaturesLike | None = None) -> Floats:
        """Compute the distance of each row of ``X`` to each of ``Y``.

        It is not negative and symmetric, but not a metric: the distance of a point to itself may be above 0, and the
        triangle inequality may not hold.

        Parameters
        ----------
        X, Y
            Points as for `fit`, shapes (n_x, n_features) and (n_y, n_features). By default ``X`` is the training
            points, and ``Y`` is ``X``.

        Returns
        -------
        ndarray of shape (n_x, n_y)
        """
        points = self._points(X)
        others = points if Y is None else self._points(Y)
        return pair_scores.distance(self.forest_, points, others, n_threads(self.n_jobs))

    def transform(self, X: FeaturesLike) -> Floats:
        """Compute the distance of each row of ``X`` to each training point, shape (n, n_training)."""
        return pair_scores.distance(self.forest_, self._points(X), self._points(None), n_threads(self.n_jobs))

    def score(self, X: FeaturesLike, y: VectorLike) -> float:
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
        points = self._points(X)
        codes, _ = encoded(column_or_1d(in_memory(opened_array(y)), warn=True))
        if len(codes) != len(points):
            counts = f"found {counted(len(points), 'row')} of X and {counted(len(codes), 'label')}"
            raise InputError(f"{counts}: inconsistent numbers of samples")
        left, right = pairs_of_rows(len(points))
        return self._area(points, np.stack([left, right], axis=1), codes[left] != codes[right])

    def score_pairs(self, X: FeaturesLike, pairs: PairsLike, similar: VectorLike) -> float:
        """Compute the area under the ROC curve, as `score` does, over pairs known to be similar or dissimilar.

        Parameters
        ----------
        X, pairs, similar
            As for `fit_pairs`.

        Raises
        ------
        InputError
            An input cannot be used, or all pairs are of one kind.
        """
        points = self._points(X)
        numbers, codes = _read_links(pairs, similar, len(points))
        return self._area(points, numbers, codes == DISSIMILAR)

    def _area(self, points: Float32s, numbers: Int32s, dissimilar: NDArray[np.bool_]) -> float:
        """Area under the ROC curve over pairs of the points; ``numbers`` are their rows, shape (n_pairs, 2)."""
        if not dissimilar.any() or dissimilar.all():
            found = f"found {counted(len(dissimilar), 'pair')}, {int(dissimilar.sum())} of them dissimilar"
            cure = "shuffle the rows, or stratify by label, where parts of them are held out"
            raise InputError(f"score: similar and dissimilar pairs were expected, {found}; {cure}")
        pairs = PointPairs.of(pair_scores.columns_of(self.forest_), points, numbers)
        return roc_curve(-pair_scores.pair_distance(self.forest_, pairs, n_threads(self.n_jobs)), ~dissimilar).auc

    @property
    def _n_features_out(self) -> int:
        return self.forest_.n_training

    def kneighbors(
        self, X: FeaturesLike | None = None, n_neighbors: int = 5, return_distance: bool = True
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
        numbers = np.arange(len(points)) if X is None else None
        distances, indices = pair_scores.kneighbors(self.forest_, points, n_neighbors, numbers, threads)
        return (distances, indices) if return_distance else indices

    def _pair_columns(self, params: dict[str, Value]) -> PairColumns:
        """The columns of a pair that the trees read."""
        return pair_columns(params, self.n_features_in_)

    def _training_points(
        self,
        X: FeaturesLike,
        labels: np.ndarray | None,  # noqa: ARG002  (for further columns)
        seed: int,  # noqa: ARG002
    ) -> Float32s:
        """Read the training points, shape (n, n_features)."""
        points = self._read_features(self._rows(X, reset=True))
        if len(points) < 3:
            raise InputError(f"three points were expected, so that pairs can differ; found n_samples={len(points)}")
        return points

    def _points(self, X: FeaturesLike | None) -> Float32s:
        """Read the points of a query; None stands for the training points."""
        check_is_fitted(self)
        if X is None:
            return self.forest_.points
        points = read(self._rows(X, reset=False), FEATURES)
        columns = pair_scores.columns_of(self.forest_)
        check_points(points, columns if points.shape[1] == columns.width else None)
        if len(empty := rows_without_values(ArraySource.of(points))):
            warn_caller(f"X: {told_of_rows_without_values(len(empty), len(points), int(empty[0]), 'value')}")
        return points


def _read_links(pairs: PairsLike, similar: VectorLike, n_points: int) -> tuple[Int32s, NDArray[np.uint8]]:
    """Read pairs of points, shape (n_pairs, 2), and the class of each, 0 for similar."""
    numbers = check_pairs(np.asarray(in_memory(opened_array(pairs))), n_points)
    codes = codes_of_links(in_memory(opened_array(similar)))
    if len(codes) != len(numbers):
        entries = counted(len(codes), "entry", "entries")
        raise InputError(f"found {counted(len(numbers), 'pair')} and {entries} of similar; give one for each pair")
    return numbers, codes
