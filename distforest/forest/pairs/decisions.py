"""Decisions about pairs from labelled pairs that a forest has not learned from: thresholds, probabilities, ROC bands.

Pairs that share an identity are dependent, so identities are resampled, and not pairs: in the pigeonhole bootstrap
(Owen, AOAS 2007) each identity has a multinomial weight, and a pair counts as the product of the weights of its two
identities. A pair within one identity counts as the weight of that identity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.sources.source import Floats, Int32s

Number = TypeVar("Number", bound=np.generic)

N_RESAMPLES = 1000
"""Number of resamples of the identities."""

MOST_THRESHOLDS = 500
"""Most distances that are tried as thresholds; others between them are passed over."""


class HeldThreshold(NamedTuple):
    """A threshold, and the rates of false and of true alarms among the calibration pairs up to this distance.

    ``bound`` is the rate of false alarms that as many new identities do not exceed, and ``low`` to ``high`` is the
    interval of their rate of true alarms, both with ``confidence``.
    """

    threshold: float
    confidence: float
    fpr: float
    bound: float
    tpr: float
    low: float
    high: float

    def described(self) -> str:
        """Describe the threshold and its rates."""
        found = f"{100 * self.tpr:.3g}% found ({100 * self.low:.3g} to {100 * self.high:.3g}%)"
        false = f"{100 * self.fpr:.3g}% false here, at most {100 * self.bound:.3g}% of as many new identities"
        return f"distance ≤ {self.threshold:.3g}: {found}, {false}"


class Band(NamedTuple):
    """A ROC curve with the pointwise band of its true positive rates, and the area under it with an interval."""

    fpr: Floats
    tpr: Floats
    low: Floats
    high: Floats
    auc: float
    auc_low: float
    auc_high: float


@dataclass(frozen=True, eq=False)
class Calibration:
    """Labelled pairs that a forest has not learned from.

    Attributes
    ----------
    distances
        The forest's distance of each pair, shape (n,).
    similar
        Whether each pair is similar, shape (n,).
    identities
        The identities of the two records of each pair, shape (n, 2), int32.
    """

    distances: Floats
    similar: NDArray[np.bool_]
    identities: Int32s

    def __post_init__(self) -> None:
        n = len(self.distances)
        shapes = [np.shape(array) for array in (self.distances, self.similar, self.identities)]
        if shapes != [(n,), (n,), (n, 2)]:
            raise InputError(f"a distance, a kind and two identities of each pair were expected, found shapes {shapes}")
        if not np.isfinite(self.distances).all():
            raise InputError("distances must be finite, found NaN or infinity")
        if self.similar.all() or not self.similar.any():
            found = f"found {counted(n, 'pair')}, {int(self.similar.sum()):,} of them similar"
            raise InputError(f"similar and dissimilar pairs were expected, {found}; add pairs of the other kind")

    @property
    def share(self) -> float:
        """The share of similar pairs."""
        return float(self.similar.mean())

    def rates_at(self, threshold: float) -> tuple[float, float]:
        """Return the rates of false and of true alarms of these pairs up to a distance."""
        near = self.distances <= threshold
        return float(near[~self.similar].mean()), float(near[self.similar].mean())

    def threshold(self, fpr: float, confidence: float = 0.95) -> float:
        """Return the threshold of `decision`."""
        return self.decision(fpr, confidence).threshold

    def decision(self, fpr: float, confidence: float = 0.95) -> HeldThreshold:
        """Find the largest distance at which new identities keep a rate of false alarms.

        The rate among as many new identities differs from the rate found here as the rates in two independent
        resamples differ. Differences are those of cube roots, because rates are skewed: where few false alarms are
        found, the rates in resamples also vary little. They are widened as Student's t is wider than a normal
        distribution, because the variance is that of few identities. One false alarm is added to those found, and to
        each resample one between two further identities, so that no rate of zero is ever shown.

        Raises
        ------
        InputError
            No distance can be shown to hold the rate, or a number is out of its range.
        """
        check_share("fpr", fpr)
        check_share("confidence", confidence, 0.5)
        tried, far = np.unique(self.distances), np.sort(self.distances[~self.similar])
        alarms, n = np.searchsorted(far, tried, side="right"), len(far)
        places = thinned(np.flatnonzero((alarms + 1 <= fpr * (n + 1)) | (tried == tried[0])))
        tried, alarms = tried[places], alarms[places]
        false, true = self._resampled(tried)
        roots = np.cbrt(false)
        apart = np.quantile(roots - np.roll(roots, 1, axis=0), confidence, axis=0)
        apart *= t_per_normal(confidence, len(np.unique(self.identities)) - 1)
        bounds = (np.cbrt((alarms + 1) / (n + 1)) + apart) ** 3
        place = int(np.argmin(np.append(bounds <= fpr, False))) - 1  # all smaller thresholds hold the rate, too
        if place < 0:
            raise InputError(self._too_few(fpr, confidence, int(alarms[0]), float(bounds[0])))
        rate, tpr = self.rates_at(tried[place])
        ends = interval(tpr + true[:, place] - np.roll(true[:, place], 1), confidence).clip(0.0, 1.0)
        rates = (rate, float(bounds[place]), tpr, *map(float, ends))
        return HeldThreshold(float(tried[place]), float(confidence), *rates)

    def probability(self, distances: Floats, share: float | None = None) -> Floats:
        """Compute the probability that pairs at some distances are similar.

        The odds are a logistic regression on the distance. Bayes' formula replaces the share of similar pairs among
        the calibration pairs by ``share``, that of similar pairs where the forest is used; None: no change.
        """
        slope, intercept = self.logistic
        if share is not None:
            check_share("share", share)
            intercept += log_odds(share) - log_odds(self.share)
        return 1.0 / (1.0 + np.exp(np.minimum(-(intercept + slope * distances), 700.0)))

    @cached_property
    def logistic(self) -> tuple[float, float]:
        """Slope and intercept of the log odds that a pair is similar, fitted with the targets of Platt (1999)."""
        n_similar, n = int(self.similar.sum()), len(self.similar)
        targets = np.where(self.similar, (n_similar + 1) / (n_similar + 2), 1 / (n - n_similar + 2))
        middle, spread = self.distances.mean(), self.distances.std() or 1.0
        columns = np.stack([(self.distances - middle) / spread, np.ones(n)])
        found = np.array([0.0, log_odds(self.share)])
        for _ in range(100):
            p = 1.0 / (1.0 + np.exp(-np.clip(found @ columns, -30.0, 30.0)))
            step = np.linalg.lstsq((columns * (p * (1.0 - p))) @ columns.T, columns @ (targets - p))[0]
            found += step / max(1.0, float(np.abs(step).max()))
            if np.abs(step).max() < 1e-9:
                break
        slope = min(float(found[0] / spread), 0.0)  # a larger distance never makes a pair more likely similar
        return slope, float(found[1] - slope * middle)

    def roc_band(self, confidence: float = 0.95) -> Band:
        """Compute the ROC curve, and the pointwise band of the curves in resamples, a share ``confidence`` of them."""
        check_share("confidence", confidence, 0.5)
        kinds = [np.sort(self.distances[self.similar == kind]) for kind in (False, True)]
        cuts = np.unique(np.concatenate([thinned(np.unique(kind)) for kind in kinds]))
        fpr, tpr = (_whole(np.searchsorted(kind, cuts, side="right") / len(kind)) for kind in kinds)
        false, true = (_whole(rates) for rates in self._resampled(cuts, n_added=0))
        curves = [np.interp(fpr, *curve) for curve in zip(false, true, strict=True)]
        low, high = interval(np.array(curves), confidence)
        areas = interval(np.asarray(np.trapezoid(true, false, axis=1)), confidence)
        return Band(fpr, tpr, low, high, float(np.trapezoid(tpr, fpr)), *map(float, areas))

    def _resampled(self, thresholds: Floats, n_added: int = 1) -> tuple[Floats, Floats]:
        """Rates of false and of true alarms up to each threshold, (N_RESAMPLES, n_thresholds) both.

        A resample draws one identity fewer than there are, which makes its variance unbiased.
        """
        known, numbers = np.unique(self.identities, return_inverse=True)
        left, right = numbers.reshape(-1, 2).T
        own, n, n_cells = left == right, len(known), len(thresholds) + 1
        cells = np.searchsorted(thresholds, self.distances) + n_cells * self.similar
        rates, rng = np.empty((2, N_RESAMPLES, len(thresholds))), np.random.default_rng(0)
        for sample in range(N_RESAMPLES):
            weights = np.bincount(rng.integers(n, size=n - 1), minlength=n)
            of_pairs = weights[left] * np.where(own, 1, weights[right])
            alarms = np.bincount(cells, of_pairs, 2 * n_cells).reshape(2, n_cells).cumsum(axis=1)
            alarms[0] += n_added * rng.exponential(size=2).prod()
            rates[:, sample] = alarms[:, :-1] / np.maximum(alarms[:, -1:], 1.0)
        return rates[0], rates[1]

    def _too_few(self, fpr: float, confidence: float, n_alarms: int, bound: float) -> str:
        """The refusal of a rate that not even the smallest distance can be shown to hold."""
        n, n_identities = int((~self.similar).sum()), len(np.unique(self.identities))
        found = f"found {counted(n, 'dissimilar pair')} of {counted(n_identities, 'identity', 'identities')}"
        text = f"fpr={fpr:g} cannot be shown to hold with confidence {confidence:g}: {found}"
        if n_alarms > fpr * n:
            nearest = f"{n_alarms:,} of them at the smallest distance, {self.distances.min():.3g}"
            return f"{text}, {nearest}; grow more trees, or allow a higher rate"
        times = bound / fpr
        needed = f"about {math.ceil(times * n):,} pairs of {math.ceil(math.sqrt(times) * n_identities):,} identities"
        return f"{text}, and {needed} are needed; add some, or allow a higher rate"


def _whole(rates: Floats) -> Floats:
    """Rates with that of no pair before them, and that of all pairs after them, along the last axis."""
    ends = np.zeros((*rates.shape[:-1], 1))
    return np.concatenate([ends, rates, ends + 1.0], axis=-1)


def interval(values: Floats, confidence: float) -> Floats:
    """The two ends between which a share ``confidence`` of the values lie along the first axis, in the middle."""
    return np.quantile(values, [(1.0 - confidence) / 2, (1.0 + confidence) / 2], axis=0)


def t_per_normal(confidence: float, n_free: int) -> float:
    """How much wider Student's t with ``n_free`` degrees of freedom is than a normal distribution, to first order."""
    z = NormalDist().inv_cdf(confidence)
    return 1.0 + (z**2 + 1.0) / (4.0 * max(n_free, 1))


def log_odds(share: float) -> float:
    """The logarithm of the odds of a share."""
    return math.log(share / (1.0 - share))


def thinned(values: NDArray[Number]) -> NDArray[Number]:
    """At most `MOST_THRESHOLDS` of ascending values, evenly by their rank; the least and the greatest among them."""
    return values[np.linspace(0, len(values) - 1, min(len(values), MOST_THRESHOLDS)).round().astype(np.int64)]


def check_share(name: str, value: float, least: float = 0.0) -> None:
    """Refuse a share that is 0, below ``least``, or not below 1."""
    if not (least <= value < 1.0 and value):
        raise InputError(f"{name} must be a number above {least:g} and below 1, found {value!r}")
