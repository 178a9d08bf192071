"""Points with distances that follow from a few of their columns, and points on a helix in noise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Simulation(NamedTuple):
    """Points, shape (n, p), their distances, shape (n, n), and the numbers from which these follow."""

    X: NDArray[np.float32]
    Z: Floats
    y: Floats


def regression(n: int, p: int = 20, random_state: int = 0) -> Simulation:
    """Squared differences of a noisy sum of two columns."""
    rng = np.random.default_rng(random_state)
    X = rng.uniform(0.1, 0.9, (n, p)).astype(np.float32)
    y = X[:, :2].astype(np.float64).mean(axis=1) + rng.uniform(-0.1, 0.1, n)
    return Simulation(X, np.subtract.outer(y, y) ** 2, y)


def bilinear(n: int, p: int = 20, random_state: int = 0) -> Simulation:
    """One minus products of sums of two columns; no point is at distance 0 from itself."""
    X = np.random.default_rng(random_state).uniform(0.0, 1.0, (n, p)).astype(np.float32)
    y = X[:, :2].astype(np.float64).mean(axis=1)
    return Simulation(X, 1.0 - np.multiply.outer(y, y), y)


def radial(n: int, p: int = 20, random_state: int = 0) -> Simulation:
    """Squared differences of the length of two columns, of points that are uniform in the unit ball."""
    rng = np.random.default_rng(random_state)
    direction = rng.standard_normal((n, p))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    X = (rng.uniform(0.0, 1.0, (n, 1)) ** (1.0 / p) * direction).astype(np.float32)
    y = np.hypot(X[:, 0].astype(np.float64), X[:, 1].astype(np.float64))
    return Simulation(X, np.subtract.outer(y, y) ** 2, y)


class Helix(NamedTuple):
    """Points, three columns of a helix before those of noise, and the place of each along it."""

    X: NDArray[np.float32]
    along: Floats


def helix(n: int, n_noise: int = 0, random_state: int = 0) -> Helix:
    """Points in random order on a helix of three turns and a half."""
    rng = np.random.default_rng(random_state)
    along = rng.permutation(np.linspace(2.0 * np.pi, 9.0 * np.pi, n))
    signal = np.stack([along * np.cos(along), along * np.sin(along), along], axis=1)
    noise = rng.normal(scale=np.sqrt(70.0), size=(n_noise, n)).T
    return Helix(np.hstack([signal, noise]).astype(np.float32), along)


def shared_neighbors(proximity: Floats, along: Floats, k: int) -> float:
    """The mean share of the k most proximate points of each that are among its k nearest along a curve."""
    apart = np.abs(np.subtract.outer(along, along))
    near, known = (
        np.argsort(own + np.diag(np.full(len(own), -np.inf)), axis=1)[:, 1 : k + 1] for own in (-proximity, apart)
    )
    return float(np.mean([len(np.intersect1d(*own)) / k for own in zip(near, known, strict=True)]))
