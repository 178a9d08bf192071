"""What the estimators share whose trees read pairs of points: how these come in, and what is asked of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller
from distforest.estimators.forest_estimator import ForestEstimator, n_threads, seed_of
from distforest.evaluation.roc import roc_curve
from distforest.forest.pairs import pair_scores
from distforest.growth.pairs.methods import pair_columns
from distforest.growth.problem import Data
from distforest.sources.doubts import told_of_amounts
from distforest.sources.factors import Labels, encoded
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
    from distforest.sources.point_pairs import PairColumns
    from distforest.sources.source import Float32s, Floats, Int32s


class OnPairs(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ForestEstimator):  # type: ignore[misc]
    """What the estimators share whose trees read pairs of points."""

    def fit(self, X: Any, y: Any) -> Self:
        """Grow the forest from labels: pairs of one label are alike, pairs of two are not.

        Parameters
        ----------
        X
            Features of the points, shape (n, n_features): array-like, Zarr array, or the address of one.
        y
            Label of each point, shape (n,).

        Raises
        ------
        InputError
            A parameter, ``X`` or ``y`` cannot be used.
        """
        params, seed = self._checked(y), seed_of(self.random_state)
        labels = column_or_1d(in_memory(opened_array(y)), warn=True)
        points, truth = self._training_points(X, labels, seed), Truth.of(Labels(labels))
        self._grow_from(
            Data(self._rows_of(params), points, TruthKind.LABELS, truth.values, truth.classes), params, seed
        )
        if told := told_of_amounts(labels, points[:, : self.n_features_in_], self._names()):
            cure = "if they are amounts, cut them into classes, or say of pairs whether they are alike (`fit_pairs`)"
            warn_caller(f"labels: {told}, any two of which are equally unlike; {cure}")
        return self

    @property
    def classes_(self) -> np.ndarray:
        """The labels, sorted; none where pairs were given."""
        check_is_fitted(self, "forest_")
        if self.forest_.meaning.classes is None:
            raise AttributeError("classes_: the forest was taught pairs, not labels")
        return np.asarray(self.forest_.meaning.classes)

    def fit_pairs(self, X: Any, pairs: Any, similar: Any) -> Self:
        """Grow the forest from pairs that are known to be alike (must-link) or not (cannot-link).

        Parameters
        ----------
        X
            Features of the points, as for `fit`.
        pairs
            Row numbers of the two points of each pair, shape (n_pairs, 2): array-like, Zarr array, or its address.
        similar
            Whether the two are alike, shape (n_pairs,), likewise: True or False, 1 or 0, or 1 or -1. A pair may come
            twice, and counts twice; one that is said to be both counts on both sides, with a warning.

        Raises
        ------
        InputError
            A parameter or an input cannot be used, or all pairs are of one kind.
        """
        params, seed = self._checked(similar), seed_of(self.random_state)
        points = self._training_points(X, None, seed)
        numbers, codes = _links(pairs, similar, len(points))
        if told := warning_of_contradictions(numbers, codes):
            warn_caller(f"pairs: {told}; drop what is wrong, or leave it as noise")
        self._grow_from(Data(self._rows_of(params), points, TruthKind.LINKS, codes, pairs=numbers), params, seed)
        return self

    def pair_distance(self, left: Any, right: Any) -> Floats:
        """Take the distance of row k of ``left`` to row k of ``right``, shapes (n, n_features); shape (n,)."""
        points, others = self._points(left), self._points(right)
        if len(points) != len(others):
            raise InputError(f"pairs need as many left rows as right rows, found {len(points)} and {len(others)}")
        numbers = np.arange(len(points), dtype=np.int32)
        pairs = PointPairs(pair_scores.columns_of(self.forest_), points, others, numbers, numbers)
        return pair_scores.pair_distance(self.forest_, pairs, n_threads(self.n_jobs))

    def distance(self, X: Any = None, Y: Any = None) -> Floats:
        """Take the distance of each row of ``X`` to each of ``Y``.

        It is not negative and symmetric, but no metric: a point may be at some distance from itself, and a way round
        may be shorter.

        Parameters
        ----------
        X, Y
            Points like those of `fit`, shapes (n_x, n_features) and (n_y, n_features); ``X`` is the training points by
            default, and ``Y`` is ``X``.

        Returns
        -------
        ndarray of shape (n_x, n_y)
        """
        points = self._points(X)
        others = points if Y is None else self._points(Y)
        return pair_scores.distance(self.forest_, points, others, n_threads(self.n_jobs))

    def transform(self, X: Any) -> Floats:
        """Take the distance of each row of ``X`` to each training point, shape (n, n_training)."""
        return pair_scores.distance(self.forest_, self._points(X), self._points(None), n_threads(self.n_jobs))

    def score(self, X: Any, y: Any) -> float:
        """Take the area under the ROC curve over pairs of rows, as metric-learn does.

        It is the chance that a pair of one label is nearer than a pair of two, ties counting one half: of all pairs
        i < j, or of 2^21 of them, the same ones every time.

        Parameters
        ----------
        X, y
            Points and their labels, as for `fit`.

        Raises
        ------
        InputError
            ``X`` or ``y`` cannot be used, or there are no pairs of one of the two kinds.
        """
        points = self._points(X)
        codes, _ = encoded(column_or_1d(in_memory(opened_array(y)), warn=True))
        if len(codes) != len(points):
            found = f"found {counted(len(points), 'row')} of X and {counted(len(codes), 'label')}"
            raise InputError(f"{found}: inconsistent numbers of samples")
        left, right = pairs_of_rows(len(points))
        return self._area(points, np.stack([left, right], axis=1), codes[left] != codes[right])

    def score_pairs(self, X: Any, pairs: Any, similar: Any) -> float:
        """Take the area under the ROC curve, as `score` does, over pairs of which it is known whether they are alike.

        Parameters
        ----------
        X, pairs, similar
            As for `fit_pairs`.

        Raises
        ------
        InputError
            An input cannot be used, or there are no pairs of one of the two kinds.
        """
        points = self._points(X)
        numbers, codes = _links(pairs, similar, len(points))
        return self._area(points, numbers, codes == DISSIMILAR)

    def _area(self, points: Float32s, numbers: Int32s, unlike: np.ndarray) -> float:
        """Area under the ROC curve over pairs of the points, whose numbers have the shape (n_pairs, 2)."""
        if not unlike.any() or unlike.all():
            found = f"found {counted(len(unlike), 'pair')}, {int(unlike.sum())} of them unlike"
            cure = "shuffle the rows, or stratify by label, where parts of them are held out"
            raise InputError(f"score: pairs alike and pairs unlike were expected, {found}; {cure}")
        pairs = PointPairs.of(pair_scores.columns_of(self.forest_), points, numbers)
        return roc_curve(-pair_scores.pair_distance(self.forest_, pairs, n_threads(self.n_jobs)), ~unlike).auc

    @property
    def _n_features_out(self) -> int:
        return self.forest_.n_training

    def kneighbors(self, X: Any = None, n_neighbors: int = 5, return_distance: bool = True) -> Any:
        """Find the nearest training points of each row of ``X``, block by block.

        Parameters
        ----------
        X
            Points, shape (n, n_features). None: the training points, none of which is its own neighbour.
        n_neighbors, return_distance
            How many, and whether their distances are returned too.

        Returns
        -------
        distances, indices : ndarray of shape (n, n_neighbors)
            Nearest first, equal distances in the order of the index; ``indices`` alone on request.
        """
        points, threads = self._points(X), n_threads(self.n_jobs)
        own = np.arange(len(points)) if X is None else None
        distances, indices = pair_scores.kneighbors(self.forest_, points, n_neighbors, own, threads)
        return (distances, indices) if return_distance else indices

    def _rows_of(self, params: dict[str, Any]) -> PairColumns:
        """How pairs of the points are read."""
        return pair_columns(params, self.n_features_in_)

    def _training_points(self, X: Any, labels: Any, seed: int) -> Float32s:  # noqa: ARG002  (for further columns)
        """Read the points that the forest is to learn from, shape (n, n_features)."""
        points = self._read_features(self._rows(X, reset=True))
        if len(points) < 3:
            raise InputError(f"three points were expected, so that pairs can differ; found n_samples={len(points)}")
        return points

    def _points(self, X: Any) -> Float32s:
        """Read points to be asked about, or take the training points for None."""
        check_is_fitted(self)
        if X is None:
            return self.forest_.points
        points = read(self._rows(X, reset=False), FEATURES)
        check_points(points)
        return points


def _links(pairs: Any, similar: Any, n_points: int) -> tuple[Int32s, np.ndarray]:
    """Read pairs of points, shape (n_pairs, 2), and the class of each, 0 for alike."""
    numbers = check_pairs(np.asarray(in_memory(opened_array(pairs))), n_points)
    codes = codes_of_links(in_memory(opened_array(similar)))
    if len(codes) != len(numbers):
        entries = counted(len(codes), "entry", "entries")
        raise InputError(f"found {counted(len(numbers), 'pair')} and {entries} of similar; one for each")
    return numbers, codes
