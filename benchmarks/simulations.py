"""Data whose truth is known: the simulations of the papers of SMERF, URerF and TreeRank.

SMERF (section 5.1 and appendix D.2): points of which two columns matter, with distances in [0, 1] that follow from one
hidden number of each point. URerF (appendix B): a line, a helix, a sphere or three Gaussians in three features, and
features of noise beside them; its "grids of equal spacing" are the midpoints of equal intervals, so that no point
occurs twice. TreeRank (section 6.4): pairs of points from a random tree of cells, of which the best ranking is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np
from measures import relevant_by_component, relevant_by_distance
from numpy.typing import NDArray

from distforest.evaluation.roc import ROC

Floats = NDArray[np.float64]
Seed = int | np.random.Generator | None

# --- SMERF: points with distances -------------------------------------------------------------------------


class Simulation(NamedTuple):
    """Points (n, p), distances (n, n) with their diagonal, and the hidden number of each point behind them."""

    X: NDArray[np.float32]
    Z: Floats
    y: Floats

    @property
    def Q(self) -> Floats:  # noqa: N802 - the paper's name
        """Similarities, 1 - Z."""
        return 1.0 - self.Z


def smerf_regression(n: int, p: int = 20, random_state: Seed = None) -> Simulation:
    """z_ij = (y_i - y_j)^2 with y = (x1 + x2) / 2 + U(-0.1, 0.1) and x ~ U(0.1, 0.9)^p (Eq. 16): for Mahalanobis."""
    rng = np.random.default_rng(random_state)
    X = rng.uniform(0.1, 0.9, (n, p)).astype(np.float32)
    y = X[:, :2].astype(np.float64).mean(axis=1) + rng.uniform(-0.1, 0.1, n)
    return Simulation(X, np.subtract.outer(y, y) ** 2, y)


def smerf_bilinear(n: int, p: int = 20, random_state: Seed = None) -> Simulation:
    """z_ij = 1 - y_i y_j with y = (x1 + x2) / 2 and x ~ U(0, 1)^p: for a bilinear similarity; z_ii > 0."""
    X = np.random.default_rng(random_state).uniform(0.0, 1.0, (n, p)).astype(np.float32)
    y = X[:, :2].astype(np.float64).mean(axis=1)
    return Simulation(X, 1.0 - np.multiply.outer(y, y), y)


def smerf_radial(n: int, p: int = 20, random_state: Seed = None) -> Simulation:
    """z_ij = (y_i - y_j)^2 with y = |(x1, x2)| and x uniform in the unit ball (Eq. 18): for no linear method."""
    rng = np.random.default_rng(random_state)
    direction = rng.standard_normal((n, p))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    radius = rng.uniform(0.0, 1.0, (n, 1)) ** (1.0 / p)  # the share of the ball within radius r is r^p
    X = (radius * direction).astype(np.float32)
    y = np.hypot(X[:, 0].astype(np.float64), X[:, 1].astype(np.float64))
    return Simulation(X, np.subtract.outer(y, y) ** 2, y)


# --- URerF: manifolds in noise ----------------------------------------------------------------------------

Noise = Literal["normal", "lognormal", "t", "correlated"]
"""Noise of a variance; "t" has 2 degrees of freedom and the quartiles of the normal one."""

PAPER_RULE: dict[str, Any] = {
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
"""Parameters of `URerF` that are the paper's rule, with the signs of Fast-BIC corrected."""

AUTOCORRELATION = 0.7
RADIUS = 9.0
HELIX_BEGIN, HELIX_END = 2 * math.pi, 9 * math.pi
GEODESIC_STEP = 2.0**-30
"""Geodesic distances are rounded to multiples of this, so that distances equal by symmetry are exact ties."""


class Manifold(NamedTuple):
    """Points, three signal features before the noise, and the place of each.

    The place is an arc length, azimuth and polar angle, or the number of a component.
    """

    X: NDArray[np.float32]
    latent: Floats
    shape: str

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """The component of each point of a mixture; None for a manifold in one piece."""
        return self.latent[:, 0].astype(np.int64) if self.shape == "mixture" else None

    def geodesic(self) -> Floats:
        """Distances on the manifold, shape (n, n); in a mixture 0 or infinite."""
        if self.shape == "mixture":
            return np.where(self.latent == self.latent[:, 0], 0.0, np.inf)
        if self.shape == "sphere":  # the haversine of the angle, which is exact also for near points
            (u, v), (other_u, other_v) = self.latent.T[:, :, None], self.latent.T
            half = np.sin((v - other_v) / 2) ** 2 + np.sin(v) * np.sin(other_v) * np.sin((u - other_u) / 2) ** 2
            distances = 2 * RADIUS * np.arcsin(np.sqrt(np.minimum(half, 1.0)))
        else:
            distances = np.abs(self.latent - self.latent[:, 0])
        return np.rint(distances / GEODESIC_STEP) * GEODESIC_STEP

    def relevant(self, k: int) -> Floats:
        """The probability that a point is relevant to another: of its component, or one of its k nearest."""
        return relevant_by_distance(self.geodesic(), k) if self.labels is None else relevant_by_component(self.labels)


def _line(n: int, _rng: np.random.Generator) -> tuple[Floats, Floats]:
    along = _midpoints(n)[:, None]
    ends = np.array([4.0, 6.0, 9.0])
    return along * ends, along * np.linalg.norm(ends)


def _helix(n: int, _rng: np.random.Generator) -> tuple[Floats, Floats]:
    def length(t: Floats | float) -> Floats:
        """The integral of the speed sqrt(t^2 + 2)."""
        return np.asarray(t * np.sqrt(t**2 + 2) / 2 + np.arcsinh(t / math.sqrt(2)))

    along = HELIX_BEGIN + (HELIX_END - HELIX_BEGIN) * _midpoints(n)
    signal = np.stack([along * np.cos(along), along * np.sin(along), along], axis=1)
    return signal, (length(along) - length(HELIX_BEGIN))[:, None]


def _sphere(n: int, _rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Rings of about equal steps in both angles; their number divides n if that is possible."""
    ideal = math.sqrt(n / 2)
    near = range(max(1, math.ceil(ideal / 1.5)), max(1, math.floor(ideal * 1.5)) + 1)
    n_rings = min(near, key=lambda rings: (n % rings != 0, max(2 * rings**2 / n, n / (2 * rings**2)), -rings))
    sizes = np.diff(np.arange(n_rings + 1) * n // n_rings)
    polar = np.repeat(math.pi * _midpoints(n_rings), sizes)
    azimuth = 2 * math.pi * np.concatenate([_midpoints(size) for size in sizes])
    signal = np.stack([np.cos(azimuth) * np.sin(polar), np.sin(azimuth) * np.sin(polar), np.cos(polar)], axis=1)
    return RADIUS * signal, np.stack([azimuth, polar], axis=1)


def _mixture(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    component = np.sort(rng.choice(3, n, p=[0.3, 0.3, 0.4]))
    signal = rng.standard_normal((n, 3)) + np.array([-3.0, 0.0, 3.0])[component, None]
    return signal, component[:, None].astype(np.float64)


def _midpoints(n: int) -> Floats:
    """The midpoints of n equal intervals between 0 and 1."""
    return (np.arange(n) + 0.5) / n


def _noise(kind: Noise, shape: tuple[int, int], variance: float, rng: np.random.Generator) -> Floats:
    """Draw noise feature by feature, so that more features do not change the first ones."""
    deviation = math.sqrt(variance)
    if kind == "t":
        quartile = 0.5 / math.sqrt(2 * 0.75 * 0.25)  # of t(2): (2p - 1) / sqrt(2p(1 - p))
        return rng.standard_t(2, shape) * (deviation * NormalDist().inv_cdf(0.75) / quartile)
    values = rng.standard_normal(shape)
    if kind == "lognormal":
        return np.exp(values) * (deviation / math.sqrt((math.e - 1) * math.e))
    if kind == "correlated":
        for feature in range(1, len(values)):
            values[feature] *= math.sqrt(1 - AUTOCORRELATION**2)
            values[feature] += AUTOCORRELATION * values[feature - 1]
    return deviation * values


def _manifold(
    shape: str,
    draw: Callable[[int, np.random.Generator], tuple[Floats, Floats]],
    n: int = 1000,
    noise_dimensions: int = 0,
    noise: Noise = "normal",
    *,
    noise_variance: float = 70.0,
    rescale: bool = False,
    random_state: Seed = None,
) -> Manifold:
    """Draw points in random order, since an answer could depend on their order; append noise, and rescale columns."""
    rng = np.random.default_rng(random_state)
    signal, latent = draw(n, rng)
    order = rng.permutation(n)
    X = np.empty((n, 3 + noise_dimensions), np.float32)
    X[:, :3] = signal[order]
    X[:, 3:] = _noise(noise, (noise_dimensions, n), noise_variance, rng).T
    if rescale:
        least = X.min(axis=0).astype(np.float64)
        span = X.max(axis=0) - least
        X = ((X - least) / np.where(span > 0, span, 1.0)).astype(np.float32)
    return Manifold(X, latent[order], shape)


manifold_line = partial(_manifold, "line", _line)
manifold_helix = partial(_manifold, "helix", _helix)
manifold_sphere = partial(_manifold, "sphere", _sphere)
manifold_mixture = partial(_manifold, "mixture", _mixture)
MANIFOLDS = {"line": manifold_line, "helix": manifold_helix, "sphere": manifold_sphere, "mixture": manifold_mixture}

# --- TreeRank: pairs whose best ranking is known ----------------------------------------------------------


class RankedPairs(NamedTuple):
    """The two points of each pair, whether it is similar, and the cell from which it was drawn."""

    left: NDArray[np.float32]
    right: NDArray[np.float32]
    similar: NDArray[np.bool_]
    cell: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RankingTruth:
    """Cells of pairs f = ((x + x') / sqrt 2, |x - x'| / sqrt 2), and the shares of both kinds of pairs in each.

    The paper's X = R^3 has no uniform distribution; as in the authors' program f is in [-1, 1]^p x [0, 1]^p, so that
    every cell is a box of positive volume.
    """

    lower: Floats
    upper: Floats
    positive: Floats
    negative: Floats
    p_plus: float

    @property
    def optimal(self) -> ROC:
        """The best ROC curve of any score: cells in the order of falling shares of similar pairs."""
        order = np.argsort(self.negative / self.positive, kind="stable")
        return ROC.of_counts(self.positive[order], self.negative[order])

    def draw(self, n: int, random_state: Seed = None) -> RankedPairs:
        """Draw pairs, each independently similar with probability ``p_plus``; there may be none of one kind."""
        rng = np.random.default_rng(random_state)
        similar = rng.random(n) < self.p_plus
        place = rng.random(n)
        of_kinds = [np.cumsum(shares) for shares in (self.negative, self.positive)]
        cells = [np.searchsorted(rising[:-1] / rising[-1], place, side="right") for rising in of_kinds]
        cell = np.where(similar, cells[1], cells[0])
        f = self.lower[cell] + (self.upper - self.lower)[cell] * rng.random((n, self.lower.shape[1]))
        u, v = np.hsplit(f, 2)
        v *= rng.integers(0, 2, v.shape) * 2 - 1
        left, right = ((x / math.sqrt(2)).astype(np.float32) for x in (u + v, u - v))
        return RankedPairs(left, right, similar, cell)


def treerank_truth(
    depth: int,
    p: int = 3,
    noise: float = 0.01,
    p_plus: float = 0.5,
    *,
    shuffled: bool = False,
    random_state: Seed = None,
) -> RankingTruth:
    """Draw a random tree of 2^depth cells, whose shares are noise^(l / L) and noise^(-l / L) from left to right.

    With ``noise`` 0.01 the best AUC is 0.990, 0.983, 0.976, 0.970 for depths 1 to 4 by the paper's formula; the paper
    says about 0.96. The authors' program has exponents l / 2^D, which is ``noise=0.01 ** (1 - 0.5**depth)`` here and
    makes the best AUC 0.909, 0.952, 0.960, 0.962, and it assigns the shares to the cells in random order
    (``shuffled``), which is much harder. With both a tree of single cuts gets the figures of the paper's table 1.
    """
    rng = np.random.default_rng(random_state)
    lower, upper = np.r_[-np.ones(p), np.zeros(p)][None], np.ones((1, 2 * p))
    for level in range(depth):
        row = np.arange(2**level)
        column = rng.integers(0, 2 * p, len(row))
        cut = rng.uniform(lower[row, column], upper[row, column])
        above = 2 * row + (rng.random(len(row)) >= 0.5)  # the children stand in the order left, right, left, right ...
        lower, upper = np.repeat(lower, 2, axis=0), np.repeat(upper, 2, axis=0)
        lower[above, column] = cut
        upper[above ^ 1, column] = cut
    power = np.linspace(0.0, 1.0, 2**depth)
    order = rng.permutation(len(power)) if shuffled else np.arange(len(power))
    positive, negative = noise**power, noise ** (1 - power)
    return RankingTruth(lower, upper, positive[order] / positive.sum(), negative[order] / negative.sum(), p_plus)
