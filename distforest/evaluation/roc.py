"""ROC curves as exact piecewise linear functions: of scores, of ordered cells, and distances between two curves.

The paper is Similarity TreeRank (Clémençon and Vogel), section 2.1: the curve of a score s joins the points (F_-(t),
F_+(t)), the shares of negatives and of positives that score above t, and "possible jumps are connected by line
segments". So pairs of equal score make one straight segment. This is the average curve if their tie is broken at
random, and the area below the curve counts a tie as one half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.arguments import check_finite, numbers
from distforest.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from distforest.arguments import Floats

__all__ = ["ROC", "d1", "d_infinity", "roc_curve"]


@dataclass(frozen=True, eq=False)
class ROC:
    """A non-decreasing, piecewise linear curve from (0, 0) to (1, 1); vertical segments are jumps.

    The value at a false positive rate between two knots is on the straight line between them. At a jump it is the upper
    end: the largest true positive rate at that false positive rate.

    Attributes
    ----------
    fpr, tpr : ndarray of shape (n_knots,), float64
        Shares of negatives and of positives at each knot, in the order of falling score.

    Raises
    ------
    InputError
        The arrays are not of one length, do not lead from (0, 0) to (1, 1), or decrease somewhere.

    Examples
    --------
    >>> curve = ROC([0.0, 0.1, 1.0], [0.0, 0.5, 1.0])
    >>> round(curve.auc, 12), round(curve.tpr_at(0.05), 12)
    (0.7, 0.25)
    """

    fpr: Floats
    tpr: Floats

    def __post_init__(self) -> None:
        fpr, tpr = (numbers(getattr(self, name), name, 1) for name in ("fpr", "tpr"))
        if fpr.shape != tpr.shape or len(fpr) < 2:
            raise InputError(
                "fpr and tpr must be of one length, at least 2 knots, found "
                f"{len(fpr)} and {counted(len(tpr), 'value')}"
            )
        for name, values in (("fpr", fpr), ("tpr", tpr)):
            check_finite(values, name)
            if values[0] != 0 or values[-1] != 1 or bool((np.diff(values) < 0).any()):
                raise InputError(
                    f"{name} must begin at 0, end at 1 and fall nowhere, found {values[0]!r} to {values[-1]!r} and a "
                    f"least step of {np.diff(values).min()!r}"
                )
            object.__setattr__(self, name, values)

    @classmethod
    def of_counts(cls, n_positive: ArrayLike, n_negative: ArrayLike) -> ROC:
        """Compute the curve of a score that is constant in each of some cells, from the counts of the cells.

        Its knots are the cumulative sums over the cells, divided by the totals (section 2.2). Integer counts are summed
        as integers.

        Parameters
        ----------
        n_positive, n_negative : array_like of shape (n_cells,)
            Positives and negatives in each cell, in the order of falling score; shares or weights are allowed, too. An
            empty cell adds no knot.

        Returns
        -------
        ROC

        Raises
        ------
        InputError
            The arrays are not of one length, a count is negative or not finite, or there is no positive or no negative.

        Examples
        --------
        >>> ROC.of_counts([3, 1, 0], [0, 1, 1]).auc    # 3 x 2 in order, 1 x 1 in order, 1 x 1 tied, of 4 x 2
        0.9375
        """
        rising = [_cumulative(n_negative, "n_negative"), _cumulative(n_positive, "n_positive")]
        if len(rising[0]) != len(rising[1]):
            raise InputError(
                "n_positive and n_negative must be of one length, the number of cells, found "
                f"{len(rising[1]) - 1} and {len(rising[0]) - 1}"
            )
        moves = np.r_[True, (np.diff(rising[0]) > 0) | (np.diff(rising[1]) > 0)]
        fpr, tpr = ((total / total[-1])[moves] for total in rising)
        return cls(fpr, tpr)

    @classmethod
    def mean(cls, curves: Sequence[ROC]) -> ROC:
        """Average curves vertically: at each false positive rate take the mean of their true positive rates.

        Parameters
        ----------
        curves : sequence of ROC
            One curve or more.

        Returns
        -------
        ROC
            The mean, with a knot wherever one of the curves has one; a jump of one curve is a smaller jump of the mean.

        Raises
        ------
        InputError
            There is no curve.

        Examples
        --------
        >>> perfect, chance = ROC([0, 0, 1], [0, 1, 1]), ROC([0, 1], [0, 1])
        >>> ROC.mean([perfect, chance]).tpr_at(0.5)
        0.75
        """
        if len(curves) == 0:
            raise InputError("no curves were given; pass at least one")
        knots = np.unique(np.concatenate([curve.fpr for curve in curves]))
        ends = np.zeros((len(knots), 2))
        for curve in curves:
            ends[:, 0] += curve._before(knots)
            ends[:, 1] += curve.at(knots)
        # A sum of ones divided by their number is exactly 1, so the curve ends at 1; rounding must not make it fall.
        tpr = np.maximum.accumulate((ends / len(curves)).ravel())
        fpr = np.repeat(knots, 2)
        keep = np.r_[True, (np.diff(fpr) > 0) | (np.diff(tpr) > 0)]
        return cls(fpr[keep], tpr[keep])

    @property
    def auc(self) -> float:
        """Area below the curve: P(s(-) < s(+)) + P(s(-) = s(+)) / 2, exact except for the rounding of the knots.

        A knot has a rounding error of about 1e-16, which changes the area by no more than that; the trapezoids are
        summed without error. So the area is accurate to 1e-15, whatever the number of knots.
        """
        return self.partial_auc(1.0)

    def partial_auc(self, max_fpr: float) -> float:
        """Area below the curve up to a false positive rate: the integral of the curve from 0 to ``max_fpr``.

        It is not standardised: it is between 0 and ``max_fpr``, and ``max_fpr ** 2 / 2`` for a constant score.

        Parameters
        ----------
        max_fpr : float
            In [0, 1].

        Returns
        -------
        float

        Raises
        ------
        InputError
            ``max_fpr`` is not in [0, 1].

        Examples
        --------
        >>> ROC([0, 0, 1], [0, 0.5, 1]).partial_auc(0.5)
        0.3125
        """
        end = _rates(max_fpr, "max_fpr", 0)
        inside = self.fpr < end
        fpr = np.append(self.fpr[inside], end)
        tpr = np.append(self.tpr[inside], self._before(end))
        return math.fsum(np.diff(fpr) * (tpr[1:] + tpr[:-1]) / 2)

    def at(self, fprs: ArrayLike) -> Floats:
        """True positive rates at some false positive rates, on the lines between the knots.

        Parameters
        ----------
        fprs : array_like of shape (n,)
            In [0, 1], in any order.

        Returns
        -------
        ndarray of shape (n,), float64
            The rates; at a jump its upper end, so that the value at 0 is the share of positives above every negative.

        Raises
        ------
        InputError
            The array is not one-dimensional, or a value is not in [0, 1].

        Examples
        --------
        >>> ROC([0, 0, 1], [0, 0.5, 1]).at([0, 0.5, 1])
        array([0.5 , 0.75, 1.  ])
        """
        x = _rates(fprs, "fprs", 1)
        knot = np.searchsorted(self.fpr, x, side="right") - 1
        return self._between(x, knot, np.minimum(knot + 1, len(self.fpr) - 1))

    def tpr_at(self, fpr: float) -> float:
        """True positive rate at one false positive rate, on the line between two knots.

        A point between two knots stands for accepting a random part of the tied pairs between them. If fewer negatives
        than 1 / ``fpr`` were scored, the value depends only on the highest-scoring one.

        Parameters
        ----------
        fpr : float
            In [0, 1].

        Returns
        -------
        float
            The rate; at a jump its upper end.

        Raises
        ------
        InputError
            ``fpr`` is not in [0, 1].

        Examples
        --------
        >>> roc_curve([0.9, 0.8, 0.7, 0.1], [True, False, True, False]).tpr_at(0.0)
        0.5
        """
        return float(self.at(_rates(fpr, "fpr", 0)[None])[0])

    def _before(self, x: Floats) -> Floats:
        """Limit of the curve from the left: at a jump its lower end."""
        knot = np.searchsorted(self.fpr, x, side="left")
        return self._between(x, np.maximum(knot - 1, 0), knot)

    def _between(self, x: Floats, first: NDArray[np.intp], last: NDArray[np.intp]) -> Floats:
        """tpr_a + (x - fpr_a) / (fpr_b - fpr_a) (tpr_b - tpr_a) between knots a and b; exactly tpr at a knot."""
        width = self.fpr[last] - self.fpr[first]
        share = np.divide(x - self.fpr[first], width, out=np.zeros_like(x), where=width > 0)
        on_line = self.tpr[first] + share * (self.tpr[last] - self.tpr[first])
        # Rounding must neither lift the line above its end nor miss the end.
        return np.where(share < 1, np.minimum(on_line, self.tpr[last]), self.tpr[last])


def roc_curve(scores: ArrayLike, similar: ArrayLike, pair_weight: ArrayLike | None = None) -> ROC:
    """Compute the ROC curve of scores, with a straight segment for pairs of equal score.

    Parameters
    ----------
    scores : array_like of shape (m,)
        Larger means more likely similar; the score of a distance is its negative.
    similar : array_like of shape (m,)
        True (or 1) for a pair that is similar, False (or 0) for one that is not.
    pair_weight : array_like of shape (m,), optional
        How much each pair counts; one of weight 3 counts as three equal pairs. By default all count the same.

    Returns
    -------
    ROC
        The curve, with knots at (0, 0) and for each distinct score.

    Raises
    ------
    InputError
        The arrays are not one-dimensional of one length, a score is not finite, ``similar`` has other values or only
        one of the two among the pairs of positive weight, or weights are negative, not finite or all 0.

    Examples
    --------
    >>> curve = roc_curve([0.9, 0.8, 0.8, 0.1], [True, True, False, False])
    >>> curve.fpr, curve.tpr, curve.auc
    (array([0. , 0. , 0.5, 1. ]), array([0. , 0.5, 1. , 1. ]), 0.875)
    """
    values, marks = numbers(scores, "scores", 1), numbers(similar, "similar", 1)
    if values.shape != marks.shape:
        raise InputError(f"scores and similar must be of one length, found {len(values)} and {len(marks)}")
    check_finite(values, "scores")
    weights = None if pair_weight is None else _checked(pair_weight, len(values))
    distinct = np.unique(marks if weights is None else marks[weights > 0.0])
    if distinct.tolist() != [0.0, 1.0]:
        raise InputError(
            f"similar must hold True (or 1) and False (or 0), both and nothing else, found {distinct[:10].tolist()!r}"
        )
    order = np.argsort(-values)
    falling = values[order]
    last = np.flatnonzero(np.append(falling[1:] < falling[:-1], True))  # of each group of equal scores
    if weights is None:
        n_positive = np.cumsum(marks[order] == 1)[last]
        n_negative = last + 1 - n_positive
        return ROC.of_counts(np.diff(n_positive, prepend=0), np.diff(n_negative, prepend=0))
    kinds = ((marks[order] == kind) * weights[order] for kind in (1, 0))
    return ROC.of_counts(*(np.add.reduceat(kind, np.append(0, last[:-1] + 1)) for kind in kinds))


def _checked(pair_weight: ArrayLike, n_pairs: int) -> Floats:
    """Read the weights of pairs; raises InputError unless they are finite, not negative, and one for each."""
    weights = numbers(pair_weight, "pair_weight", 1)
    if len(weights) != n_pairs:
        raise InputError(
            f"pair_weight: a weight for each of {counted(n_pairs, 'pair')} was expected, found {len(weights)}"
        )
    check_finite(weights, "pair_weight")
    if weights.min() < 0.0:
        raise InputError(f"pair_weight: numbers that are not negative were expected, found {weights.min()}")
    return weights


def d1(roc: ROC, optimal: ROC) -> float:
    """The area between two curves: D_1 of equation (1), the integral of |ROC - ROC*|.

    The paper continues with D_1 = AUC* - AUC, which is the same as long as no curve exceeds the optimal one. A curve of
    test pairs may exceed it by chance; then D_1 is larger than the difference of the areas.

    Parameters
    ----------
    roc, optimal : ROC
        The curves; their order does not matter.

    Returns
    -------
    float
        In [0, 1]; exact except for rounding, also where the curves cross between two knots.

    Examples
    --------
    >>> d1(ROC([0, 1], [0, 1]), ROC([0, 0, 1], [0, 1, 1]))
    0.5
    """
    knots, start, end = _differences(roc, optimal)
    a, b = np.abs(start), np.abs(end)
    size = a + b
    # Where the difference changes its sign between two knots there are two triangles, (a a + b b) / (a + b) / 2 times
    # the width of the interval, instead of a trapezoid, (a + b) / 2 times the width.
    crossed = np.divide(a * a + b * b, size, out=np.zeros_like(size), where=size > 0)
    return math.fsum(np.diff(knots) * np.where(start * end < 0, crossed, size) / 2)


def d_infinity(roc: ROC, optimal: ROC) -> float:
    """The greatest vertical gap between two curves: D_infinity of equation (1), sup |ROC - ROC*| over 0 < fpr < 1.

    The difference is linear between the knots of both curves, so the supremum is its limit at a knot, from the left or
    from the right. A jump at fpr 0 counts.

    Parameters
    ----------
    roc, optimal : ROC
        The curves; their order does not matter.

    Returns
    -------
    float
        In [0, 1], exact except for rounding.

    Examples
    --------
    >>> d_infinity(ROC([0, 1], [0, 1]), ROC([0, 0, 1], [0, 0.5, 1]))
    0.5
    """
    _, start, end = _differences(roc, optimal)
    return float(max(np.abs(start).max(), np.abs(end).max()))


def _differences(one: ROC, other: ROC) -> tuple[Floats, Floats, Floats]:
    """The knots of both curves, and their difference at the two ends of each interval between knots."""
    knots = np.union1d(one.fpr, other.fpr)
    return knots, (one.at(knots) - other.at(knots))[:-1], (one._before(knots) - other._before(knots))[1:]


def _cumulative(counts: ArrayLike, name: str) -> NDArray[np.float64] | NDArray[np.int64]:
    """0 and the cumulative sums of counts, which are checked; integers stay integers."""
    values = numbers(counts, name, 1)
    check_finite(values, name)
    if bool((values < 0).any()) or not bool((values > 0).any()):
        raise InputError(
            f"{name} must hold counts >= 0 with a sum above 0, as a curve needs both classes, found "
            f"{values[:10].tolist()!r}"
        )
    array = np.asarray(counts)
    if array.dtype.kind in "biu":
        return np.append(0, np.cumsum(array, dtype=np.int64))
    return np.append(0.0, np.cumsum(values))


def _rates(values: ArrayLike, name: str, n_dimensions: int) -> Floats:
    """Check that rates are between 0 and 1."""
    rates = numbers(values, name, n_dimensions)
    if not bool(((rates >= 0) & (rates <= 1)).all()):
        raise InputError(f"{name} must lie in [0, 1], found {values!r}")
    return rates
