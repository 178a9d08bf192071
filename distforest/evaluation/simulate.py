"""Simulated points with known distances: the settings of SMERF's section 5.1 and appendix D.2, manifolds, pairs.

In SMERF's settings only the first two of p columns matter. Distances follow from one hidden number of each point,
``y``; they are in [0, 1], so that ``Q = 1 - Z`` is the corresponding similarity. The module also exports the manifolds
of URerF from `distforest.evaluation.manifolds`, and TreeRank's pairs with a known best ranking from
`distforest.evaluation.ranking_truth`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.arguments import generator, whole
from distforest.evaluation.manifolds import Manifold, manifold_helix, manifold_line, manifold_mixture, manifold_sphere
from distforest.evaluation.ranking_truth import RankedPairs, RankingTruth, treerank_pairs, treerank_truth

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.arguments import Floats, RandomState

__all__ = [
    "Manifold",
    "RankedPairs",
    "RankingTruth",
    "Simulation",
    "manifold_helix",
    "manifold_line",
    "manifold_mixture",
    "manifold_sphere",
    "smerf_bilinear",
    "smerf_radial",
    "smerf_regression",
    "treerank_pairs",
    "treerank_truth",
]


@dataclass(frozen=True, eq=False)
class Simulation:
    """Points and the distances between them.

    Attributes
    ----------
    X : ndarray of shape (n, p), float32
        Points.
    Z : ndarray of shape (n, n), float64
        Distances as the setting defines them, the diagonal included.
    y : ndarray of shape (n,), float64
        The hidden number of each point, from which Z follows.
    """

    X: NDArray[np.float32]
    Z: Floats
    y: Floats

    @property
    def Q(self) -> Floats:  # noqa: N802 - the paper's name
        """Similarities, 1 - Z, of shape (n, n)."""
        return 1.0 - self.Z


def smerf_regression(n: int, p: int = 20, random_state: RandomState = None) -> Simulation:
    """Squared differences of a noisy linear response: a setting that a Mahalanobis distance can learn.

    x ~ U(0.1, 0.9)^p, y = (x1 + x2) / 2 + e with e ~ U(-0.1, 0.1), z_ij = (y_i - y_j)^2 (Eq. 16). The noise
    is part of the truth, so no function of x predicts Z without error.

    Parameters
    ----------
    n, p : int
        Number of points and of columns, p >= 2.
    random_state : int, numpy.random.Generator or None
        Seed, or the generator to draw from; None: another seed each time.

    Returns
    -------
    Simulation
        The points; ``y`` is the response.

    Raises
    ------
    InputError
        ``n`` or ``p`` is not an integer or is too small, or ``random_state`` is none of the above.

    Examples
    --------
    >>> data = smerf_regression(5, random_state=0)
    >>> data.X.shape, data.Z.shape, float(data.Z[0, 0])
    ((5, 20), (5, 5), 0.0)
    """
    rng = _generator(n, p, random_state)
    X = rng.uniform(0.1, 0.9, (n, p)).astype(np.float32)
    y = _half_sum(X) + rng.uniform(-0.1, 0.1, n)
    return Simulation(X, np.subtract.outer(y, y) ** 2, y)


def smerf_bilinear(n: int, p: int = 20, random_state: RandomState = None) -> Simulation:
    """One minus the product of two linear responses: a setting that a bilinear similarity can learn.

    x ~ U(0, 1)^p, y = (x1 + x2) / 2, z_ij = 1 - y_i y_j. A point is not at distance 0 from itself:
    z_ii = 1 - y_i^2.

    Parameters
    ----------
    n, p : int
        Number of points and of columns, p >= 2.
    random_state : int, numpy.random.Generator or None
        Seed, or the generator to draw from; None: another seed each time.

    Returns
    -------
    Simulation
        The points; ``y`` is the response, and ``Q`` is y_i y_j.

    Raises
    ------
    InputError
        ``n`` or ``p`` is not an integer or is too small, or ``random_state`` is none of the above.

    Examples
    --------
    >>> data = smerf_bilinear(5, random_state=0)
    >>> bool(np.allclose(data.Q, np.outer(data.y, data.y)))
    True
    """
    rng = _generator(n, p, random_state)
    X = rng.uniform(0.0, 1.0, (n, p)).astype(np.float32)
    y = _half_sum(X)
    return Simulation(X, 1.0 - np.multiply.outer(y, y), y)


def smerf_radial(n: int, p: int = 20, random_state: RandomState = None) -> Simulation:
    """Squared differences of the length of the first two coordinates: a setting that neither linear method can learn.

    x uniform in the p-dimensional unit ball about 0, y = ||(x1, x2)||, z_ij = (y_i - y_j)^2 (Eq. 18).

    Parameters
    ----------
    n, p : int
        Number of points and of columns, p >= 2.
    random_state : int, numpy.random.Generator or None
        Seed, or the generator to draw from; None: another seed each time.

    Returns
    -------
    Simulation
        The points; ``y`` is the length.

    Raises
    ------
    InputError
        ``n`` or ``p`` is not an integer or is too small, or ``random_state`` is none of the above.

    Examples
    --------
    >>> data = smerf_radial(5, p=3, random_state=0)
    >>> bool((np.linalg.norm(data.X, axis=1) <= 1).all())
    True
    """
    rng = _generator(n, p, random_state)
    direction = rng.standard_normal((n, p))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    radius = rng.uniform(0.0, 1.0, (n, 1)) ** (1.0 / p)  # the share of the ball within radius r is r^p
    X = (radius * direction).astype(np.float32)
    y = np.hypot(X[:, 0].astype(np.float64), X[:, 1].astype(np.float64))
    return Simulation(X, np.subtract.outer(y, y) ** 2, y)


def _half_sum(X: NDArray[np.float32]) -> Floats:
    """(x1 + x2) / 2 of the stored float32 values, so that Z is exact for the X that a learner sees."""
    first, second = X[:, 0].astype(np.float64), X[:, 1].astype(np.float64)
    return (first + second) / 2


def _generator(n: object, p: object, random_state: object) -> np.random.Generator:
    """Check the arguments of a setting and return the generator to draw from."""
    whole("n", n, 1)
    whole("p", p, 2)
    return generator(random_state)
