"""Simulated manifolds in noise, with their geodesic distances: the four settings of URerF's appendix B.

Three signal features describe a line, a helix, a sphere or a mixture of three Gaussians; features of noise follow. The
paper's "grids of equal spacing" are read as follows. Line and helix: the midpoints of n equal intervals of the
parameter. Sphere: rings at the midpoints of equal intervals of the polar angle, and on each ring equally many points at
the midpoints of equal intervals of the azimuth (1,000 points: 25 rings of 40; if no divisor of n is suitable, some
rings have one point more). Midpoints are inside the paper's open intervals, so no point occurs twice, neither at a pole
nor at the seam. Rows are in random order, because a method that depends on the order of rows would otherwise look
better than it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from distforest.arguments import generator, whole
from distforest.errors import InputError
from distforest.evaluation.geodesics import relevant_by_component, relevant_by_distance

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from distforest.arguments import Floats, RandomState

Noise = Literal["normal", "lognormal", "t", "correlated"]
"""Kinds of noise of variance v.

"normal" is N(0, v). "lognormal" is exp(N(0, 1)), scaled to the variance v and not centred. "t" is Student's t with 2
degrees of freedom, which has no variance, scaled to the quartiles of N(0, v). "correlated" is N(0, v) with the
correlation `AUTOCORRELATION` ^ |i - j| between noise features i and j.
"""

NOISES: tuple[Noise, ...] = get_args(Noise)

AUTOCORRELATION = 0.7
RADIUS = 9.0
"""Radius of the sphere."""
HELIX = (2 * math.pi, 9 * math.pi)
"""Ends of the helix's parameter."""
LINE_ENDS = (4.0, 6.0, 9.0)
"""End of the line that begins at 0."""
SHARES = (0.3, 0.3, 0.4)
CENTRES = (-3.0, 0.0, 3.0)
"""Shares of the components of the mixture, and every coordinate of their means."""

GEODESIC_STEP = 2.0**-30
"""Geodesic distances are rounded to multiples of this, so that distances equal by symmetry are exact ties."""


@dataclass(frozen=True, eq=False)
class Manifold:
    """Points on a manifold, in noise.

    Attributes
    ----------
    X : ndarray of shape (n, 3 + noise_dimensions), float32
        Points: three signal features, then noise.
    latent : ndarray of shape (n, 1) or (n, 2), float64
        Place of each point: its arc length from the end of the line or helix; azimuth and polar angle on the sphere;
        the number of its component in the mixture.
    shape : str
        ``"line"``, ``"helix"``, ``"sphere"`` or ``"mixture"``.
    """

    X: NDArray[np.float32]
    latent: Floats
    shape: str

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """The component of each point, shape (n,), for a mixture; None for a manifold in one piece."""
        return self.latent[:, 0].astype(np.int64) if self.shape == "mixture" else None

    def geodesic(self, rows: ArrayLike | None = None) -> Floats:
        """Distances on the manifold from some rows (all by default) to all rows, shape (n_rows, n).

        In a mixture the distance is 0 within a component, and infinite between two.

        Examples
        --------
        >>> manifold_line(4, shuffle=False).geodesic([0]).round(3)    # steps of sqrt(133) / 4
        array([[0.   , 2.883, 5.766, 8.649]])
        """
        some = self.latent if rows is None else self.latent[np.asarray(rows)]
        return np.rint(_DISTANCES[self.shape](some, self.latent) / GEODESIC_STEP) * GEODESIC_STEP

    def relevant(self, k: int, rows: ArrayLike | None = None) -> Floats:
        """The probability that a point is relevant to each of some rows (all by default), shape (n_rows, n).

        The relevant points are the others of the row's component, or its k nearest if the manifold is in one piece;
        `distforest.evaluation.geodesics.proximity_hits` compares proximities with them.

        Examples
        --------
        >>> manifold_line(4, shuffle=False).relevant(2, [0])
        array([[0., 1., 1., 0.]])
        """
        if self.labels is not None:
            return relevant_by_component(self.labels, rows)
        return relevant_by_distance(self.geodesic(rows), k, rows)


def manifold_line(
    n: int = 1000,
    noise_dimensions: int = 0,
    noise: Noise = "normal",
    *,
    noise_variance: float = 70.0,
    rescale: bool = False,
    shuffle: bool = True,
    random_state: RandomState = None,
) -> Manifold:
    """Points (4t, 6t, 9t) at equal distances, 0 < t < 1: without noise the Euclidean distance is right.

    Parameters
    ----------
    n : int
        Number of points, n >= 1.
    noise_dimensions : int
        Number of features of noise, independent of the signal; more of them do not change the first ones.
    noise : {"normal", "lognormal", "t", "correlated"}
        Kind of noise, see `Noise`.
    noise_variance : float
        Variance of the noise, 70 in the paper; "t" has none, so it is that of the normal distribution with its
        quartiles.
    rescale : bool
        Whether to scale every feature to [0, 1] by its least and largest value; a constant one becomes 0.
    shuffle : bool
        Whether rows are in random order; else they follow the grid, or come component by component.
    random_state : int, numpy.random.Generator or None
        Seed, or the generator to draw from; None: another seed each time.

    Returns
    -------
    Manifold
        ``latent`` is the distance from the end, t times the length sqrt(133).

    Raises
    ------
    InputError
        An argument is out of range.

    Examples
    --------
    >>> manifold_line(5, noise_dimensions=2, random_state=0).X.shape
    (5, 5)
    """
    surroundings = _Surroundings(noise_dimensions, noise, noise_variance, rescale, shuffle)
    return _in_noise("line", _line, n, surroundings, random_state)


def manifold_helix(
    n: int = 1000,
    noise_dimensions: int = 0,
    noise: Noise = "normal",
    *,
    noise_variance: float = 70.0,
    rescale: bool = False,
    shuffle: bool = True,
    random_state: RandomState = None,
) -> Manifold:
    """Points (t cos t, t sin t, t) at equal steps of t, 2 pi < t < 9 pi: a curve wound up in three dimensions.

    The arc length from t = a to b is F(b) - F(a) with F(t) = t sqrt(t^2 + 2) / 2 + asinh(t / sqrt 2), as the speed is
    sqrt(t^2 + 2).

    Parameters
    ----------
    n, noise_dimensions, noise, noise_variance, rescale, shuffle, random_state
        As for `manifold_line`.

    Returns
    -------
    Manifold
        ``latent`` is the arc length from the inner end.

    Raises
    ------
    InputError
        An argument is out of range.

    Examples
    --------
    >>> manifold_helix(5, shuffle=False).geodesic([0]).round(1)
    array([[  0. ,  47.4, 114. , 199.9, 305.1]])
    """
    surroundings = _Surroundings(noise_dimensions, noise, noise_variance, rescale, shuffle)
    return _in_noise("helix", _helix, n, surroundings, random_state)


def manifold_sphere(
    n: int = 1000,
    noise_dimensions: int = 0,
    noise: Noise = "normal",
    *,
    noise_variance: float = 70.0,
    rescale: bool = False,
    shuffle: bool = True,
    random_state: RandomState = None,
) -> Manifold:
    """Points 9 (cos u sin v, sin u sin v, cos v) on a grid of 0 < u < 2 pi and 0 < v < pi: two dimensions.

    Parameters
    ----------
    n, noise_dimensions, noise, noise_variance, rescale, shuffle, random_state
        As for `manifold_line`.

    Returns
    -------
    Manifold
        ``latent`` is (u, v); geodesics are great circles.

    Raises
    ------
    InputError
        An argument is out of range.

    Examples
    --------
    >>> data = manifold_sphere(1000, random_state=0)
    >>> bool(np.allclose(np.linalg.norm(data.X, axis=1), 9))
    True
    """
    surroundings = _Surroundings(noise_dimensions, noise, noise_variance, rescale, shuffle)
    return _in_noise("sphere", _sphere, n, surroundings, random_state)


def manifold_mixture(
    n: int = 1000,
    noise_dimensions: int = 0,
    noise: Noise = "normal",
    *,
    noise_variance: float = 70.0,
    rescale: bool = False,
    shuffle: bool = True,
    random_state: RandomState = None,
) -> Manifold:
    """Points of three Gaussians N(c 1, I), c = -3, 0, 3, with probabilities 0.3, 0.3, 0.4: a manifold in pieces.

    Parameters
    ----------
    n, noise_dimensions, noise, noise_variance, rescale, shuffle, random_state
        As for `manifold_line`.

    Returns
    -------
    Manifold
        ``latent`` is the number of the component, as ``labels`` is.

    Raises
    ------
    InputError
        An argument is out of range.

    Examples
    --------
    >>> np.unique(manifold_mixture(100, random_state=0).labels)
    array([0, 1, 2])
    """
    surroundings = _Surroundings(noise_dimensions, noise, noise_variance, rescale, shuffle)
    return _in_noise("mixture", _mixture, n, surroundings, random_state)


# --- signal -----------------------------------------------------------------------------------------------


def _midpoints(n: int) -> Floats:
    """The midpoints of n equal parts of the interval from 0 to 1."""
    return (np.arange(n) + 0.5) / n


def _line(n: int, _rng: np.random.Generator) -> tuple[Floats, Floats]:
    position = _midpoints(n)[:, None]
    return position * LINE_ENDS, position * math.hypot(*LINE_ENDS)


def _helix(n: int, _rng: np.random.Generator) -> tuple[Floats, Floats]:
    first, last = HELIX
    along = first + (last - first) * _midpoints(n)
    signal = np.stack([along * np.cos(along), along * np.sin(along), along], axis=1)
    return signal, (_helix_length(along) - _helix_length(np.float64(first)))[:, None]


def _helix_length(along: Floats | np.float64) -> Floats:
    """F(t) = t sqrt(t^2 + 2) / 2 + asinh(t / sqrt 2), whose derivative is the speed sqrt(t^2 + 2)."""
    return np.asarray(along * np.sqrt(along**2 + 2) / 2 + np.arcsinh(along / math.sqrt(2)))


def _sphere(n: int, _rng: np.random.Generator) -> tuple[Floats, Floats]:
    n_rings = _ring_count(n)
    sizes = np.diff(np.arange(n_rings + 1) * n // n_rings)
    polar = np.repeat(math.pi * _midpoints(n_rings), sizes)
    azimuth = 2 * math.pi * np.concatenate([_midpoints(size) for size in sizes])
    signal = np.stack([np.cos(azimuth) * np.sin(polar), np.sin(azimuth) * np.sin(polar), np.cos(polar)], axis=1)
    return RADIUS * signal, np.stack([azimuth, polar], axis=1)


def _ring_count(n: int) -> int:
    """Number of rings of a grid of n points with about equal steps in both angles; preferably a divisor of n."""
    ideal = math.sqrt(n / 2)
    near = range(max(1, math.ceil(ideal / 1.5)), max(1, math.floor(ideal * 1.5)) + 1)
    return min(near, key=lambda rings: (n % rings != 0, max(2 * rings**2 / n, n / (2 * rings**2)), -rings))


def _mixture(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    component = np.sort(rng.choice(len(SHARES), n, p=SHARES))
    signal = rng.standard_normal((n, 3)) + np.asarray(CENTRES)[component, None]
    return signal, component[:, None].astype(np.float64)


# --- distances --------------------------------------------------------------------------------------------


def _along(some: Floats, others: Floats) -> Floats:
    """|s - s'| of arc lengths."""
    return np.abs(some - others[:, 0])


def _great_circle(some: Floats, others: Floats) -> Floats:
    """2 r asin sqrt(sin^2((v - v') / 2) + sin v sin v' sin^2((u - u') / 2)): exact also for near points."""
    (u, v), (other_u, other_v) = some.T[:, :, None], others.T
    half = np.sin((v - other_v) / 2) ** 2 + np.sin(v) * np.sin(other_v) * np.sin((u - other_u) / 2) ** 2
    return 2 * RADIUS * np.arcsin(np.sqrt(np.minimum(half, 1.0)))


def _within_components(some: Floats, others: Floats) -> Floats:
    return np.where(some == others[:, 0], 0.0, np.inf)


_DISTANCES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "line": _along,
    "helix": _along,
    "sphere": _great_circle,
    "mixture": _within_components,
}


# --- noise ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Surroundings:
    """The noise around the signal, and how rows and features are arranged, checked: see `manifold_line`."""

    noise_dimensions: int
    noise: Noise
    noise_variance: float
    rescale: bool
    shuffle: bool

    def __post_init__(self) -> None:
        whole("noise_dimensions", self.noise_dimensions, 0)
        if self.noise not in NOISES:
            raise InputError(f"noise must be one of {', '.join(NOISES)}, found {self.noise!r}")
        variance = self.noise_variance
        if isinstance(variance, bool) or not isinstance(variance, (int, float, np.number)):
            raise InputError(f"noise_variance must be a number, found {variance!r}")
        if not 0 < variance < math.inf:
            raise InputError(f"noise_variance must be above 0 and finite, found {variance!r}")
        for name in ("rescale", "shuffle"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise InputError(f"{name} must be True or False, found {getattr(self, name)!r}")


def _in_noise(
    shape: str,
    draw: Callable[[int, np.random.Generator], tuple[Floats, Floats]],
    n: int,
    surroundings: _Surroundings,
    random_state: RandomState,
) -> Manifold:
    """Draw points of a manifold, shuffle them, append noise, and rescale all features."""
    n = whole("n", n, 1)
    rng = generator(random_state)
    signal, latent = draw(n, rng)
    if surroundings.shuffle:
        order = rng.permutation(n)
        signal, latent = signal[order], latent[order]
    X = np.empty((n, 3 + surroundings.noise_dimensions), np.float32)
    X[:, :3] = signal
    X[:, 3:] = _drawn_noise(surroundings, n, rng).T
    return Manifold(_rescaled(X) if surroundings.rescale else X, latent, shape)


def _drawn_noise(surroundings: _Surroundings, n: int, rng: np.random.Generator) -> Floats:
    """Draw noise feature by feature, shape (noise_dimensions, n), so that more features do not change the first."""
    size, deviation = (surroundings.noise_dimensions, n), math.sqrt(surroundings.noise_variance)
    if surroundings.noise == "t":
        quartile = 0.5 / math.sqrt(2 * 0.75 * 0.25)  # of t(2): (2p - 1) / sqrt(2p(1 - p))
        return rng.standard_t(2, size) * (deviation * NormalDist().inv_cdf(0.75) / quartile)
    values = rng.standard_normal(size)
    if surroundings.noise == "lognormal":
        return np.exp(values) * (deviation / math.sqrt((math.e - 1) * math.e))
    if surroundings.noise == "correlated":
        for feature in range(1, size[0]):
            values[feature] *= math.sqrt(1 - AUTOCORRELATION**2)
            values[feature] += AUTOCORRELATION * values[feature - 1]
    return deviation * values


def _rescaled(X: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale every column to [0, 1] by its least and largest value; a constant one becomes 0."""
    least = X.min(axis=0).astype(np.float64)
    span = X.max(axis=0) - least
    scaled = (X - least) / np.where(span > 0, span, 1.0)
    return scaled.astype(np.float32)
