"""Decisions of forests over pairs: calibration, a threshold for a rate of false alarms, probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, column_or_1d

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.estimators.forest_estimator import ForestEstimator, n_threads
from distforest.estimators.input_types import PairsLike, PointsLike, VectorLike
from distforest.estimators.pair_columns import PlugIn, SharedLeaves, Whitened
from distforest.estimators.pair_shapes import read_links
from distforest.forest.pairs import held_out, pair_scores
from distforest.forest.pairs.decisions import Calibration
from distforest.growth.pairs.pair_problem import pairs_taught_by
from distforest.sources.collections import computed
from distforest.sources.factors import encoded
from distforest.sources.given import in_memory
from distforest.sources.opening import opened_array
from distforest.sources.point_pairs import DISSIMILAR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.forest import Forest
    from distforest.forest.pairs.pair_scores import Points
    from distforest.growth.parameters import Value
    from distforest.growth.problem import Data
    from distforest.sources.source import Floats, Int32s

LEARNING_COLUMNS = (PlugIn, SharedLeaves, Whitened)
"""Columns of pairs that have learned from all training points, also from those that a tree has not drawn."""


class Decides(ForestEstimator):
    """What an estimator over pairs has to decide whether two points are the same."""

    _points: Any
    pair_distance: Any
    columns_: Any
    _taught: held_out.Taught | None = None
    calibration_: Calibration
    threshold_: float

    def calibrate(
        self, X: PointsLike | None = None, y: VectorLike | None = None, identities: VectorLike | None = None
    ) -> Self:
        """Keep labelled pairs that the forest has not learned from as ``calibration_``.

        `threshold` and `predict_proba_pairs` follow from them. Pairs are those of held-out points, or by default the
        training pairs, each judged by the trees that have drawn no record of either identity. They are all pairs of
        labelled points, or a fixed choice of 2^18, half of it similar.

        Parameters
        ----------
        X, y
            Points and labels of identities from which the forest has not learned. None: the training pairs.
        identities
            The identity of each point, such as a person, shape (n,). None: the label; or after `fit_pairs` the points
            that similar pairs connect.

        Raises
        ------
        InputError
            An input cannot be used, or too few trees are out of bag; the message names the cure.
        """
        check_is_fitted(self)
        if (X is None) != (y is None):
            raise InputError("calibrate needs X and y together, found one of them; give neither for the training pairs")
        X, y, identities = computed(X, y, identities)
        if X is not None:
            points, labels = self._points(X), _codes(y)
            _check_length("y", labels, points.shape[0])
            pairs = held_out.pairs_of_labels(labels)
            of_points = labels if identities is None else _codes(identities)
            return self._calibrated(points, pairs, labels[pairs[:, 0]] == labels[pairs[:, 1]], of_points)
        if self._taught is None:
            raise InputError("a forest that was loaded does not hold what it was taught; give X and y to calibrate")
        if any(isinstance(column, LEARNING_COLUMNS) for column in self.columns_.fitted):
            cure = "hold out identities, and give X and y to calibrate"
            raise InputError(f"pair_columns have learned from all training points; {cure}")
        pairs, similar, known = held_out.taught_pairs(self._taught, self.forest_.n_training)
        known = known if identities is None else _codes(identities)
        _check_length("identities", known, self.forest_.n_training)
        return self._keep(held_out.calibrated_out_of_bag(self.forest_, pairs, similar, known))

    def calibrate_pairs(
        self, X: PointsLike, pairs: PairsLike, similar: VectorLike, identities: VectorLike | None = None
    ) -> Self:
        """Keep pairs of held-out points that are known to be similar or dissimilar as ``calibration_``.

        Parameters
        ----------
        X, pairs, similar
            As for `fit_pairs`, of identities from which the forest has not learned.
        identities
            The identity of each point, shape (n,). None: similar pairs connect the points of an identity.
        """
        check_is_fitted(self)
        X, pairs, similar, identities = computed(X, pairs, similar, identities)
        points = self._points(X)
        numbers, codes = read_links(pairs, similar, points.shape[0])
        is_similar = codes != DISSIMILAR
        linked = held_out.linked_identities(numbers, is_similar, points.shape[0])
        return self._calibrated(points, numbers, is_similar, linked if identities is None else _codes(identities))

    def threshold(self, fpr: float, confidence: float = 0.95) -> float:
        """Return the largest distance at which as many new identities keep a rate of false alarms, for `set_threshold`.

        ``calibration_.decision(fpr, confidence)`` has the rate of true alarms, too. Raises InputError if no distance
        can be shown to hold the rate; the message says how many pairs are needed.
        """
        return self._calibration().threshold(fpr, confidence)

    def set_threshold(self, threshold: float) -> Self:
        """Keep the distance up to which `predict_pairs` takes a pair for similar as ``threshold_``."""
        check_is_fitted(self)
        if not np.isfinite(threshold):
            raise InputError(f"threshold must be a finite distance, found {threshold!r}")
        self.threshold_ = float(threshold)
        return self

    def predict_pairs(self, left: PointsLike, right: PointsLike) -> NDArray[np.bool_]:
        """Return whether row k of ``left`` and row k of ``right`` are similar, shape (n,): up to ``threshold_``."""
        check_is_fitted(self)
        if not hasattr(self, "threshold_"):
            raise NotFittedError(f"this {type(self).__name__} has no threshold yet; call set_threshold first")
        similar: NDArray[np.bool_] = self.pair_distance(left, right) <= self.threshold_
        return similar

    def predict_proba_pairs(self, left: PointsLike, right: PointsLike, share: float | None = None) -> Floats:
        """Compute the probabilities that row k of ``left`` and row k of ``right`` are dissimilar, and similar; (n, 2).

        ``share`` is the share of similar pairs where the answers are used; None: that of the calibration pairs.
        """
        similar = self._calibration().probability(self.pair_distance(left, right), share)
        return np.stack([1.0 - similar, similar], axis=1)

    def _calibration(self) -> Calibration:
        check_is_fitted(self)
        if not hasattr(self, "calibration_"):
            raise NotFittedError(f"this {type(self).__name__} is not calibrated yet; call calibrate first")
        return self.calibration_

    def _calibrated(self, points: Points, pairs: Int32s, similar: NDArray[np.bool_], identities: Int32s) -> Self:
        """Keep pairs of points that the forest has not learned from."""
        _check_length("identities", identities, points.shape[0])
        return self._keep(Calibration(self._distances_of(points, pairs), similar, identities[pairs]))

    def _distances_of(self, points: Points, numbers: Int32s) -> Floats:
        """Compute the distances of pairs of points; ``numbers`` are their rows, shape (n_pairs, 2)."""
        left, right = np.ascontiguousarray(numbers.T.astype(np.int32))
        pairs = pair_scores.pairs_of(pair_scores.columns_of(self.forest_), points, points).of_pairs(left, right)
        return pair_scores.pair_distance(self.forest_, pairs, n_threads(self.n_jobs))

    def _keep(self, calibration: Calibration) -> Self:
        """Keep a calibration; a threshold of an earlier one is forgotten."""
        self.calibration_ = calibration
        self.__dict__.pop("threshold_", None)
        return self

    def _grow_from(self, data: Data, params: dict[str, Value], seed: int) -> None:
        """Grow the forest, and keep what it was taught for `calibrate`; earlier decisions are forgotten."""
        super()._grow_from(data, params, seed)
        self._taught = pairs_taught_by(data)
        for name in ("calibration_", "threshold_"):
            self.__dict__.pop(name, None)

    def _sealable(self) -> Forest:
        """The forest as it is sealed, with its calibration and threshold."""
        decided = getattr(self, "calibration_", None), getattr(self, "threshold_", None)
        return super()._sealable().with_decision(*decided)

    def _restore(self, forest: Forest) -> None:
        """Make this a fitted estimator of an opened forest, with the calibration and threshold stored in it."""
        super()._restore(forest)
        if forest.calibration is not None:
            self.calibration_ = forest.calibration
        if forest.decision_threshold is not None:
            self.threshold_ = float(forest.decision_threshold[0])


def _codes(labels: object) -> Int32s:
    """Labels or identities as numbers from 0, shape (n,)."""
    return encoded(column_or_1d(in_memory(opened_array(labels)), warn=True))[0]


def _check_length(name: str, values: NDArray[Any], n: int) -> None:
    """Refuse values that are not one for each point or pair."""
    if len(values) != n:
        raise InputError(f"{name}: a value for each of {n:,} was expected, found {counted(len(values), 'value')}")
