"""The simulated manifolds against their definitions, lengths worked out by steps, and the laws of their noise."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest, norm, t

from distforest.errors import InputError
from distforest.evaluation.metrics import component_precision_recall, geodesic_precision, proximity_hits
from distforest.evaluation.simulate import manifold_helix, manifold_line, manifold_mixture, manifold_sphere

MANIFOLDS = [manifold_line, manifold_helix, manifold_sphere, manifold_mixture]
NOISES = ["normal", "lognormal", "t", "correlated"]


def polygon(curve, ends, steps=200_000):
    """Length of a curve between parameters, as that of a polygon of many steps."""
    points = np.array([curve(s) for s in np.linspace(*ends, steps)])
    return np.linalg.norm(np.diff(points, axis=0), axis=1).sum()


@pytest.mark.parametrize("manifold", MANIFOLDS)
def test_shapes_types_and_one_seed_one_data_set(manifold):
    data, again, other = (manifold(60, 4, random_state=seed) for seed in (3, 3, 4))
    assert data.X.shape == (60, 7)
    assert data.X.dtype == np.float32
    assert data.latent.dtype == np.float64
    assert np.array_equal(data.X, again.X)
    assert np.array_equal(data.latent, again.latent)
    assert not np.array_equal(data.X, other.X)
    assert np.array_equal(manifold(60, 4, random_state=np.random.default_rng(3)).X, data.X)
    assert (data.labels is not None) == (manifold is manifold_mixture)
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.X = other.X


@pytest.mark.parametrize("manifold", MANIFOLDS)
def test_geodesics_are_a_metric_and_blocks_are_rows_of_it(manifold):
    data = manifold(50, random_state=0)
    D = data.geodesic()
    assert D.shape == (50, 50)
    assert np.array_equal(D, D.T)
    assert not D.diagonal().any()
    with np.errstate(invalid="ignore"):
        assert (D[:, :, None] + D[None] >= D[:, None] - 1e-8).all()
    rows = np.array([7, 0, 7])
    assert np.array_equal(data.geodesic(rows), D[rows])
    straight = np.linalg.norm(data.X[:, None].astype(np.float64) - data.X, axis=2)
    if manifold is not manifold_mixture:
        assert (straight - 1e-5 <= D).all()  # nothing is shorter than the straight line


@pytest.mark.parametrize("manifold", MANIFOLDS)
def test_shuffling_permutes_the_rows_and_nothing_else(manifold):
    mixed, plain = (manifold(40, shuffle=shuffle, random_state=1) for shuffle in (True, False))
    order = np.lexsort(mixed.X.T)
    assert np.array_equal(mixed.X[order], plain.X[np.lexsort(plain.X.T)])
    assert not np.array_equal(mixed.X, plain.X)
    rows = np.lexsort(plain.X.T)
    assert np.array_equal(mixed.geodesic()[np.ix_(order, order)], plain.geodesic()[np.ix_(rows, rows)])


def test_the_line_has_equal_steps_and_exact_ties():
    data = manifold_line(1000, shuffle=False)
    share = (np.arange(1000) + 0.5) / 1000
    assert np.allclose(data.X, np.outer(share, (4, 6, 9)), rtol=1e-6)
    D = data.geodesic()
    assert D[0, -1] == pytest.approx(math.sqrt(133) * 0.999, abs=1e-8)
    for step in (1, 25, 400):
        assert len(np.unique(np.diagonal(D, step))) <= 2  # a multiple of 2^-30 may fall on either side
        middle = D[500]
        assert middle[500 - step] == middle[500 + step]


def test_the_helix_is_as_long_as_a_polygon_of_many_steps():
    data = manifold_helix(9, shuffle=False)
    steps = 2 * math.pi + 7 * math.pi * (np.arange(9) + 0.5) / 9
    curve = lambda s: (s * math.cos(s), s * math.sin(s), s)  # noqa: E731
    assert np.allclose(data.X, [curve(s) for s in steps], rtol=1e-5, atol=1e-5)
    for a, b in ((0, 1), (3, 8), (0, 8)):
        assert data.geodesic()[a, b] == pytest.approx(polygon(curve, (steps[a], steps[b]), 20_000), rel=1e-6)
    assert data.latent[0, 0] == pytest.approx(polygon(curve, (2 * math.pi, steps[0]), 20_000), rel=1e-6)


def test_the_sphere_is_a_grid_with_great_circles():
    data = manifold_sphere(1000, random_state=2)
    azimuth, polar = data.latent.T
    assert len(np.unique(polar)) == 25
    assert len(np.unique(azimuth)) == 40
    assert len(np.unique(data.latent, axis=0)) == 1000
    X = data.X.astype(np.float64)
    assert np.allclose(np.linalg.norm(X, axis=1), 9, rtol=1e-6)
    assert np.allclose(X[:, 2], 9 * np.cos(polar), atol=1e-5)
    assert np.allclose(np.arctan2(X[:, 1], X[:, 0]) % (2 * math.pi), azimuth, atol=1e-4)
    cosine = np.clip(X @ X.T / 81, -1, 1)
    far = np.abs(cosine) < 0.9  # the arc cosine is inexact near its ends
    assert np.allclose(data.geodesic()[far], 9 * np.arccos(cosine[far]), atol=1e-4)
    assert data.geodesic().max() <= 9 * math.pi + 1e-8


@given(st.integers(1, 400))
def test_a_sphere_of_any_size_has_no_point_twice(n):
    latent = manifold_sphere(n, shuffle=False).latent
    assert latent.shape == (n, 2)
    assert len(np.unique(latent.round(9), axis=0)) == n
    rings = np.unique(latent[:, 1], return_counts=True)[1]
    assert rings.max() - rings.min() <= 1


def test_the_mixture_has_its_shares_means_and_components():
    data = manifold_mixture(20_000, random_state=5)
    labels = data.labels
    assert np.bincount(labels) / 20_000 == pytest.approx([0.3, 0.3, 0.4], abs=0.015)
    for component, centre in enumerate((-3, 0, 3)):
        part = data.X[labels == component].astype(np.float64) - centre
        assert kstest(part.ravel(), "norm").pvalue > 1e-3
        assert np.allclose(np.cov(part.T), np.eye(3), atol=0.1)
    assert np.array_equal(data.geodesic([0])[0], np.where(labels == labels[0], 0, np.inf))
    assert np.array_equal(np.sort(labels), manifold_mixture(20_000, shuffle=False, random_state=5).labels)


@pytest.mark.parametrize(("noise", "law"), [("normal", norm(scale=math.sqrt(70))), ("t", None), ("lognormal", None)])
def test_the_laws_of_independent_noise(noise, law):
    values = manifold_line(5000, 4, noise, random_state=6).X[:, 3:].astype(np.float64)
    if noise == "t":
        law = t(2, scale=math.sqrt(70) * norm.ppf(0.75) / t(2).ppf(0.75))
        assert np.subtract(*np.quantile(values, (0.75, 0.25))) == pytest.approx(2 * norm.ppf(0.75) * 70**0.5, rel=0.05)
    if noise == "lognormal":
        assert values.min() > 0
        scale = math.exp(0.5) * math.sqrt(math.e - 1) / math.sqrt(70)  # its standard deviation to that of the noise
        values, law = np.log(values * scale), norm
    assert kstest(values.ravel(), law.cdf).pvalue > 1e-3
    assert np.abs(np.corrcoef(np.argsort(np.argsort(values, axis=0), axis=0).T) - np.eye(4)).max() < 5 / 5000**0.5


def test_correlated_noise_is_autoregressive_and_keeps_its_variance():
    values = manifold_helix(20_000, 6, "correlated", noise_variance=9.0, random_state=7).X[:, 3:].astype(np.float64)
    lags = np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    assert np.allclose(np.cov(values.T), 9 * 0.7**lags, atol=0.3)


@pytest.mark.parametrize("noise", NOISES)
def test_more_noise_leaves_the_first_features_as_they_are(noise):
    few, many = (manifold_mixture(30, d, noise, random_state=8).X for d in (2, 9))
    assert np.array_equal(many[:, :5], few)


@pytest.mark.parametrize("noise", NOISES)
def test_rescaled_features_run_from_zero_to_one(noise):
    plain, scaled = (manifold_sphere(50, 3, noise, rescale=rescale, random_state=9).X for rescale in (False, True))
    assert not scaled.min(axis=0).any()
    assert (scaled.max(axis=0) == 1).all()
    assert np.array_equal(np.argsort(scaled[:, 4]), np.argsort(plain[:, 4]))


def test_a_constant_feature_is_rescaled_to_zero():
    assert np.array_equal(manifold_line(1, 2, rescale=True, random_state=0).X, np.zeros((1, 5)))


def test_relevant_points_are_the_nearest_or_the_component():
    line, mixture = (manifold(80, random_state=1) for manifold in (manifold_line, manifold_mixture))
    rows, random = np.array([5, 60]), np.random.default_rng(0).random((80, 80))
    whole = proximity_hits(random, line.relevant(10), 10)
    assert whole.precision == geodesic_precision(random, line.geodesic(), 10)
    found = proximity_hits(random[rows], line.relevant(10, rows), 10, rows)
    assert np.array_equal(found.hits, whole.hits[rows])
    found = proximity_hits(random, mixture.relevant(10), 10)
    assert (found.precision, found.recall) == component_precision_recall(random, mixture.labels, 10)


@pytest.mark.parametrize(
    ("manifold", "least"), [(manifold_line, 0.999), (manifold_helix, 0.8), (manifold_sphere, 0.999)]
)
def test_euclidean_distance_does_on_each_what_the_paper_says(manifold, least):
    data = manifold(1000, random_state=0)
    straight = np.linalg.norm(data.X[:, None].astype(np.float64) - data.X, axis=2).round(4)  # float32 breaks ties
    found = geodesic_precision(-straight, data.geodesic())
    assert found >= least
    assert manifold is not manifold_helix or found < 0.92  # neighbouring turns are nearer than the way along


@pytest.mark.parametrize("manifold", MANIFOLDS)
@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("n", 0),
        ("n", 5.0),
        ("noise_dimensions", -1),
        ("noise", "cauchy"),
        ("noise_variance", 0),
        ("noise_variance", math.nan),
        ("noise_variance", "70"),
        ("rescale", 1),
        ("shuffle", "yes"),
        ("random_state", -1),
    ],
)
def test_faults_are_refused_at_the_door(manifold, argument, value):
    with pytest.raises(InputError, match=rf"^{argument}\b.* {value!r}$"):
        manifold(**{argument: value})
