"""ROC curves of ranking trees: exact piecewise linear functions, from the counts of ordered cells, and their mean.

The paper is Similarity TreeRank (Clémençon and Vogel), section 2.1: the curve of a score s joins the points (F_-(t),
F_+(t)), the shares of negatives and of positives that score above t, and "possible jumps are connected by line
segments". So pairs of equal score make one straight segment, and the area below the curve counts a tie as one half.
`sklearn.metrics.roc_curve` has the same knots for scores: ``ROC(*roc_curve(similar, -distance)[:2])``, and so has
`roc_of_distances`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.arguments import check_finite, numbers
from distforest.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from distforest.arguments import Floats


@dataclass(frozen=True, eq=False)
class ROC:
    """Receiver operating characteristic: a non-decreasing, piecewise linear curve from (0, 0) to (1, 1).

    Attributes
    ----------
    fpr, tpr : ndarray of shape (n_knots,), float64
        Shares of negatives and of positives at each knot, by decreasing score. Vertical segments are jumps.

    Raises
    ------
    InputError
        The arrays have different lengths, do not lead from (0, 0) to (1, 1), or decrease somewhere.

    Examples
    --------
    >>> curve = ROC([0.0, 0.1, 1.0], [0.0, 0.5, 1.0])
    >>> round(curve.auc, 12), round(curve.tpr_at(0.05), 12)
    (0.7, 0.25)
    """

    fpr: Floats
    tpr: Floats

    def __post_init__(self) -> None:
        for name in ("fpr", "tpr"):
            values = numbers(getattr(self, name), name, 1)
            check_finite(values, name)
            if len(values) < 2 or (values[0], values[-1]) != (0.0, 1.0) or (np.diff(values) < 0.0).any():
                raise InputError(f"{name}: numbers that rise from 0 to 1 were expected, found {values[:10].tolist()}")
            object.__setattr__(self, name, values)
        if len(self.fpr) != len(self.tpr):
            raise InputError(f"fpr and tpr of one length were expected, found {len(self.fpr)} and {len(self.tpr)}")

    @classmethod
    def of_counts(cls, n_positive: ArrayLike, n_negative: ArrayLike) -> ROC:
        """Compute the curve of a score that is constant within cells, from the counts of the cells.

        Parameters
        ----------
        n_positive, n_negative : array_like of shape (n_cells,)
            Positives and negatives in each cell, by decreasing score; shares or weights are allowed, too. An empty cell
            adds no knot.

        Raises
        ------
        InputError
            The arrays have different lengths, or there is no positive or no negative.

        Examples
        --------
        >>> ROC.of_counts([3, 1, 0], [0, 1, 1]).auc    # 3 x 2 in order, 1 x 1 in order, 1 x 1 tied, of 4 x 2
        0.9375
        """
        positive, negative = np.asarray(n_positive), np.asarray(n_negative)
        if len(positive) != len(negative) or not (positive.any() and negative.any()):
            found = f"found {positive[:10].tolist()} and {negative[:10].tolist()}"
            raise InputError(f"n_positive and n_negative: counts of the same cells, both with a sum above 0, {found}")
        filled = (positive > 0) | (negative > 0)
        rising = (np.append(0, np.cumsum(counts[filled])) for counts in (negative, positive))
        return cls(*(total / total[-1] for total in rising))

    @classmethod
    def mean(cls, curves: Sequence[ROC]) -> ROC:
        """Average curves vertically: the mean of the true positive rates at each false positive rate.

        The mean has a knot wherever one of the curves has one; a jump of one curve is a smaller jump of the mean.

        Raises
        ------
        InputError
            There is no curve.

        Examples
        --------
        >>> perfect, chance = ROC([0, 0, 1], [0, 1, 1]), ROC([0, 1], [0, 1])
        >>> round(ROC.mean([perfect, chance]).tpr_at(0.5), 12)
        0.75
        """
        if len(curves) == 0:
            raise InputError("no curves were given; pass at least one")
        knots = np.unique(np.concatenate([curve.fpr for curve in curves]))
        lower = [np.interp(-knots, -curve.fpr[::-1], curve.tpr[::-1]) for curve in curves]  # the lower end of a jump
        ends = np.stack([np.mean(lower, axis=0), np.mean([curve.at(knots) for curve in curves], axis=0)], axis=1)
        tpr, fpr = np.maximum.accumulate(ends.ravel()), np.repeat(knots, 2)  # rounding must not make it fall
        keep = np.append(True, (np.diff(fpr) > 0) | (np.diff(tpr) > 0))
        return cls(fpr[keep], tpr[keep])

    @property
    def auc(self) -> float:
        """Area under the curve: P(s(-) < s(+)) + P(s(-) = s(+)) / 2."""
        return float(np.trapezoid(self.tpr, self.fpr))

    def at(self, fprs: ArrayLike) -> Floats:
        """Interpolate the true positive rates at some false positive rates; at a jump, use its upper end.

        Raises
        ------
        InputError
            A rate is not in [0, 1].

        Examples
        --------
        >>> ROC([0, 0, 1], [0, 0.5, 1]).at([0, 0.5, 1])
        array([0.5 , 0.75, 1.  ])
        """
        rates = np.asarray(fprs, np.float64)
        if not ((rates >= 0.0) & (rates <= 1.0)).all():
            raise InputError(f"fpr: rates from 0 to 1 were expected, found {fprs!r}")
        return np.asarray(np.interp(rates, self.fpr, self.tpr))

    def tpr_at(self, fpr: float) -> float:
        """Interpolate the true positive rate at one false positive rate, as in `at`.

        A point between two knots means that a random part of the tied pairs between them is accepted. If fewer
        negatives than 1 / ``fpr`` were scored, the value depends only on the highest-scoring one.
        """
        return float(self.at(fpr))


class OperatingPoint(NamedTuple):
    """Point of a ROC curve: both rates, and the distance up to which pairs are classified as similar, if known.

    Examples
    --------
    >>> OperatingPoint(0.01, 0.625, 0.25).told()
    'distance ≤ 0.25: 62.5% found, 1% false'
    """

    fpr: float
    tpr: float
    threshold: float | None = None

    def told(self) -> str:
        """Return a description in words."""
        where = "" if self.threshold is None else f"distance ≤ {self.threshold:.3g}: "
        return f"{where}{100 * self.tpr:.3g}% found, {100 * self.fpr:.3g}% false"


def roc_of_distances(similar: ArrayLike, distance: ArrayLike, at: Sequence[float]) -> tuple[ROC, list[OperatingPoint]]:
    """Compute the ROC curve of distances, and points on it at bounded false positive rates.

    Parameters
    ----------
    similar, distance
        Whether each pair is similar, and its distance, shape (n_pairs,).
    at
        Maximum shares of the dissimilar pairs, in [0, 1]. For each share, the result has the largest distance up to
        which pairs may be classified as similar, if there is one; each distance once.

    Raises
    ------
    InputError
        The arrays have different lengths, all pairs are of one class, or a rate is not in [0, 1].

    Examples
    --------
    >>> roc_of_distances([1, 1, 0, 1, 0], [0.1, 0.2, 0.3, 0.4, 0.9], at=[0.0, 0.5])[1]
    [OperatingPoint(fpr=0.0, tpr=0.6666666666666666, threshold=0.2), OperatingPoint(fpr=0.5, tpr=1.0, threshold=0.4)]
    """
    is_similar, far = numbers(similar, "similar", 1) != 0.0, numbers(distance, "distance", 1)
    if len(is_similar) != len(far) or is_similar.all() or not is_similar.any():
        raise InputError("similar and distance must be of one length, with pairs of both kinds")
    check_finite(far, "distance")
    if strange := [rate for rate in at if not 0.0 <= rate <= 1.0]:
        raise InputError(f"at: rates from 0 to 1 were expected, found {strange[0]!r}")
    thresholds, place = np.unique(far, return_inverse=True)
    curve = ROC.of_counts(np.bincount(place, is_similar), np.bincount(place, ~is_similar))
    knots = sorted({int(np.searchsorted(curve.fpr, rate, side="right")) - 1 for rate in at} - {0})  # at 0 is none
    return curve, [OperatingPoint(float(curve.fpr[k]), float(curve.tpr[k]), float(thresholds[k - 1])) for k in knots]
