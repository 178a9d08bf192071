"""ROC curves as they are drawn: of trees and their mean, with operating points, on a linear or a logarithmic scale."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sklearn.metrics import roc_curve

from distforest.arguments import check_finite, numbers
from distforest.errors import InputError
from distforest.evaluation.roc import ROC
from distforest.pictures.plotting import BLUE, MARKERS, ORANGE, on_unit_square

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from distforest.arguments import Floats

MOST_CURVES = 100
"""Largest number of trees whose curves are drawn: those of the first trees."""


class OperatingPoint(NamedTuple):
    """A point of a curve at which pairs may be told apart.

    Attributes
    ----------
    fpr, tpr
        False and true positive rate.
    threshold
        Pairs of at most this distance are called similar; None: not known.
    """

    fpr: float
    tpr: float
    threshold: float | None = None

    def told(self) -> str:
        """In words.

        Examples
        --------
        >>> OperatingPoint(0.01, 0.625, 0.25).told()
        'distance ≤ 0.25: 62.5% found, 1% false'
        """
        where = "" if self.threshold is None else f"distance ≤ {self.threshold:.3g}: "
        return f"{where}{100 * self.tpr:.3g}% found, {100 * self.fpr:.3g}% false"


def operating_points(similar: ArrayLike, distance: ArrayLike, at: Sequence[float]) -> list[OperatingPoint]:
    """Find the largest distance up to which pairs may be called similar at a bounded false positive rate.

    Parameters
    ----------
    similar
        Whether each pair is similar, shape (n_pairs,).
    distance
        Distance of each pair, shape (n_pairs,).
    at
        Largest allowed shares of the dissimilar pairs, in [0, 1].

    Returns
    -------
    list of OperatingPoint
        One for each rate at which a pair can be called similar, with the rates that its threshold has; each threshold
        once.

    Raises
    ------
    InputError
        The arrays are not of one length, all pairs are of one kind, or a rate is not in [0, 1].

    Examples
    --------
    >>> operating_points([1, 1, 0, 1, 0], [0.1, 0.2, 0.3, 0.4, 0.9], at=[0.0, 0.5])
    [OperatingPoint(fpr=0.0, tpr=0.6666666666666666, threshold=0.2), OperatingPoint(fpr=0.5, tpr=1.0, threshold=0.4)]
    """
    is_similar, far = numbers(similar, "similar", 1) != 0.0, numbers(distance, "distance", 1)
    if len(is_similar) != len(far) or is_similar.all() or not is_similar.any():
        raise InputError("similar and distance must be of one length, with pairs of both kinds")
    check_finite(far, "distance")
    fprs, tprs, scores = roc_curve(is_similar, -far, drop_intermediate=False)
    found: dict[int, OperatingPoint] = {}
    for rate in at:
        if not 0.0 <= rate <= 1.0:
            raise InputError(f"at: rates from 0 to 1 were expected, found {rate!r}")
        last = int(np.searchsorted(fprs, rate, side="right")) - 1
        if last:  # at 0 no pair is called similar
            found.setdefault(last, OperatingPoint(float(fprs[last]), float(tprs[last]), float(-scores[last])))
    return list(found.values())


def draw_curves(axes: Axes, curves: Sequence[ROC], log: bool, title: str, name: str = "one tree") -> None:
    """Draw the curves of trees, their mean, and chance; a curve by itself is called by its name."""
    mean = ROC.mean(curves)
    places = _left_end(curves) ** np.linspace(1.0, 0.0, 400) if log else np.array([0.0, 1.0])
    if len(curves) > 1:
        for number, curve in enumerate(curves[:MOST_CURVES]):
            label = f"{min(len(curves), MOST_CURVES)} trees" if number == 0 else "_"
            axes.plot(*_line(curve, places), color=BLUE, alpha=0.35, linewidth=0.7, label=label)
    area = f"{'their mean' if len(curves) > 1 else name}: area {mean.auc:.3f}"
    axes.plot(*_line(mean, places), color=BLUE, linewidth=2.5, label=area)
    axes.plot(places, places, color=ORANGE, linestyle="--", linewidth=1, label="chance")
    on_unit_square(axes, "false positive rate", "true positive rate")
    if log:
        axes.set_aspect("auto")
        axes.set_xscale("log")
        axes.set_xlim(places[0], 1.0)
        decades = np.arange(round(np.log10(places[0])), 1)
        axes.set_xticks(10.0**decades, [f"$10^{{{power}}}$" for power in decades])
    axes.set_title(title)


def draw_points(axes: Axes, points: Sequence[OperatingPoint]) -> None:
    """Mark operating points on a curve; what they are is told in the legend."""
    for point, marker in zip(points, cycle(MARKERS), strict=False):
        axes.plot(point.fpr, point.tpr, marker, color="black", markersize=7, zorder=3, label=point.told())


def _left_end(curves: Sequence[ROC]) -> float:
    """The largest power of ten up to the least positive false positive rate of a knot, from 10^-6 to 10^-2."""
    least = min(float(curve.fpr[curve.fpr > 0.0].min()) for curve in curves)
    return float(10.0 ** np.clip(np.floor(np.log10(least)), -6.0, -2.0))


def _line(curve: ROC, places: Floats) -> tuple[Floats, Floats]:
    """Points of a curve from the first of some places on: at its knots and at the places."""
    inside = curve.fpr >= places[0]
    fpr, tpr = np.append(curve.fpr[inside], places), np.append(curve.tpr[inside], curve.at(places))
    order = np.lexsort((tpr, fpr))
    return fpr[order], tpr[order]
