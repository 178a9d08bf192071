"""What URerF finds serves others: clusterings, embeddings and neighbours that take a precomputed matrix."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import squareform
from sklearn.cluster import HDBSCAN, SpectralClustering
from sklearn.manifold import Isomap, SpectralEmbedding, trustworthiness
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsClassifier

from distforest import URerF

N_NOISE = 20
SIZES = (80, 100, 60)
CODES = np.repeat(np.arange(len(SIZES)), SIZES)
"""Three clusters in three columns, beside columns of noise that are wider than the clusters are apart."""


def clusters(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    signal = 6.0 * (CODES[:, None] - 1.0) + rng.normal(size=(len(CODES), 3))
    return np.hstack([signal, rng.normal(scale=10.0, size=(len(CODES), N_NOISE))])


@pytest.fixture(scope="module")
def forest() -> URerF:
    return URerF(n_estimators=60, random_state=0).fit(clusters(0))


@pytest.fixture(scope="module")
def curve() -> tuple[np.ndarray, URerF]:
    """A place along a curve in three columns among columns of noise, and the forest of them."""
    rng = np.random.default_rng(1)
    along = rng.uniform(0.0, 1.0, 300)
    signal = np.column_stack([along, along**2, np.sin(2.0 * along)])
    return along, URerF(n_estimators=100, random_state=0).fit(np.hstack([signal, rng.normal(size=(300, N_NOISE))]))


def test_distance_is_a_precomputed_metric(forest: URerF) -> None:
    distance = forest.distance()
    assert np.array_equal(distance, distance.T)
    assert np.all(np.diagonal(distance) == 0.0)
    assert distance.min() == 0.0
    assert distance.max() <= 1.0
    assert squareform(distance).shape == (len(CODES) * (len(CODES) - 1) // 2,)  # it checks both itself


def test_hdbscan_clusters_by_the_distance(forest: URerF) -> None:
    found = HDBSCAN(min_cluster_size=30, metric="precomputed", copy=True).fit_predict(forest.distance())
    known = found >= 0
    assert known.mean() > 0.8
    assert adjusted_rand_score(CODES[known], found[known]) > 0.9


def test_spectral_clustering_clusters_by_the_proximity(forest: URerF) -> None:
    clustering = SpectralClustering(len(SIZES), affinity="precomputed", random_state=0, assign_labels="cluster_qr")
    assert adjusted_rand_score(CODES, clustering.fit_predict(forest.proximity())) > 0.9


def test_isomap_unrolls_the_distance(curve: tuple[np.ndarray, URerF]) -> None:
    along, forest = curve
    places = Isomap(n_neighbors=20, n_components=1, metric="precomputed").fit_transform(forest.distance())
    assert agreement(along, places) > 0.9


def test_spectral_embedding_unrolls_the_proximity(curve: tuple[np.ndarray, URerF]) -> None:
    along, forest = curve
    embedding = SpectralEmbedding(1, affinity="precomputed", random_state=0)
    assert agreement(along, embedding.fit_transform(forest.proximity())) > 0.9


@pytest.mark.slow
def test_umap_keeps_neighbours_by_the_distance(curve: tuple[np.ndarray, URerF]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of what it imports, and that a precomputed metric has no inverse
        umap = pytest.importorskip("umap")
        along, forest = curve
        plane = umap.UMAP(metric="precomputed", random_state=0, n_jobs=1).fit_transform(forest.distance())
    assert trustworthiness(along[:, None], plane, n_neighbors=20) > 0.9


def test_neighbours_classify_new_rows_by_the_distance(forest: URerF) -> None:
    by_distance = KNeighborsClassifier(5, metric="precomputed").fit(forest.distance(), CODES)
    known, new = clusters(0), clusters(2)
    assert by_distance.score(forest.distance(new, known), CODES) > 0.9


def test_kneighbors_agree_with_the_precomputed_distance(forest: URerF) -> None:
    distances, _ = forest.kneighbors(n_neighbors=7)
    others = np.where(np.eye(len(CODES), dtype=bool), np.inf, forest.distance())
    assert np.allclose(distances, np.sort(others, axis=1)[:, :7])


def agreement(along: np.ndarray, places: np.ndarray) -> float:
    """How far an embedding in one dimension keeps the order along the curve, in either direction."""
    ranks = [np.argsort(np.argsort(values.ravel())) for values in (along, places)]
    return abs(float(np.corrcoef(*ranks)[0, 1]))
