"""Similarities of 0 that stand for what is unknown are told; those of objects with nothing in common are not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

import distforest
from distforest import SimForestClassifier, SimForestOutlier
from distforest.errors import DistforestWarning
from distforest.jobs.preview import check_and_stage
from distforest.sources.zero_similarities import told_of_zero_similarities
from tests.messages import naming
from tests.sources.helpers import job_spec, scaled_distances, with_zeros, write_arrays

CANCER, _ = load_breast_cancer(return_X_y=True)
SETS = {"wine": load_wine(return_X_y=True), "iris": load_iris(return_X_y=True)}
ROWS, Y = SETS["wine"]
RNG = np.random.default_rng(0)
with np.load(Path(distforest.__file__).parent / "data" / "lazega.npz") as found:
    LINKS = found["A"].astype(np.float64)
PATHS = [path.stem for path in sorted(Path(distforest.__file__).parent.rglob("*.py"))][:200]

SIMILARITIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rbf": lambda d: np.exp(-((d / np.median(d)) ** 2) / 2),
    "wide": lambda d: np.exp(-((d / np.median(d)) ** 2) / 8),
    "linear": lambda d: 1 - d / d.max(),
    "float32": lambda d: np.exp(-((d / np.median(d)) ** 2)).astype(np.float32),
    "tenfold": lambda d: 10 * np.exp(-((d / np.median(d)) ** 2) / 2),
}


def nearest(S: np.ndarray, k: int) -> np.ndarray:
    is_near = np.argsort(np.argsort(-S, axis=1), axis=1) <= k
    return np.where(is_near | is_near.T, S, 0.0)


@pytest.mark.parametrize("name", SIMILARITIES)
@pytest.mark.parametrize("share", [0.05, 0.5, 0.85])
def test_zeros_that_mark_what_is_unknown_are_told(name: str, share: float) -> None:
    for rows, _ in SETS.values():
        S = SIMILARITIES[name](scaled_distances(rows))
        for matrix in (with_zeros(S, share), np.where(np.eye(len(S)) == 1, 0, with_zeros(S, share))):
            assert re.match(r"[\d.]+% .*NaN", told_of_zero_similarities(matrix))
        assert told_of_zero_similarities(S) == ""


REASONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    **{f"beyond {share}": lambda S, share=share: np.where(np.quantile(S, share) > S, 0.0, S) for share in (0.1, 0.8)},
    **{f"nearest {k}": lambda S, k=k: nearest(S, k) for k in (3, 20, 60)},
    "soft threshold": lambda S: np.maximum(0.0, S - np.quantile(S, 0.7)),
    "groups": lambda S: np.where(np.arange(len(S))[:, None] // 9 == np.arange(len(S)) // 9, S, 0.0),
    "links": lambda S: (np.quantile(S, 0.8) < S).astype(float),
    "links at random": lambda S: np.round(with_zeros(S, 0.8) > 0),
    "weights at random": lambda S: with_zeros(np.triu(RNG.uniform(0.4, 1, S.shape), 1), 0.9),
    "unobserved": lambda S: np.where(with_zeros(S, 0.8) == 0.0, np.nan, S),
    "few objects": lambda S: with_zeros(S, 0.5)[:19, :19],
    "not symmetric": lambda S: np.where(RNG.random(S.shape) < 0.8, 0.0, S),
}


@pytest.mark.parametrize("name", REASONS)
def test_zeros_with_a_reason_are_not_told(name: str) -> None:
    for rows, _ in SETS.values():
        for similarity in ("rbf", "wide", "linear"):
            found = REASONS[name](SIMILARITIES[similarity](scaled_distances(rows)))
            symmetric = found if name == "not symmetric" else np.fmax(found, found.T)
            assert told_of_zero_similarities(symmetric) == ""


def in_common(bits: np.ndarray) -> dict[str, np.ndarray]:
    bits = bits[bits.any(axis=1)].astype(np.float64)
    both, size = bits @ bits.T, bits.sum(axis=1)
    return {
        "Jaccard": both / (size[:, None] + size - both),
        "cosine": both / np.sqrt(np.outer(size, size)),
        "overlap": both / np.minimum.outer(size, size),
        "counts": both,
    }


def test_objects_with_nothing_in_common_are_not_told() -> None:
    words = CountVectorizer(analyzer="char_wb", ngram_range=(3, 3))
    letters = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3)).fit_transform(PATHS).toarray()
    clipped = {"clipped": np.maximum(0.0, np.corrcoef(CANCER[::4]))}
    for bits in (words.fit_transform(PATHS).toarray() > 0, CANCER[::3] > np.quantile(CANCER, 0.9, axis=0), LINKS > 0):
        assert [name for name, S in in_common(bits).items() if told_of_zero_similarities(S)] == []
    for S in (letters @ letters.T, LINKS, LINKS @ LINKS, *clipped.values()):
        assert told_of_zero_similarities(S) == ""


def test_objects_that_are_all_alone_are_told() -> None:
    squares = scaled_distances(ROWS) ** 2
    for S in (np.exp(-1e6 * squares), np.eye(30), np.zeros((30, 30)), 5.0 * np.eye(30, dtype=np.float32)):
        assert told_of_zero_similarities(S).startswith("most objects ")
    some = np.eye(30)
    some[np.arange(0, 8, 2), np.arange(1, 8, 2)] = some[np.arange(1, 8, 2), np.arange(0, 8, 2)] = 0.5
    assert told_of_zero_similarities(some) == ""
    assert told_of_zero_similarities(np.where(np.eye(30) == 1, 1.0, np.nan)) == ""


def test_fits_and_jobs_tell(tmp_path: Path) -> None:
    S = with_zeros(SIMILARITIES["rbf"](scaled_distances(ROWS)), 0.8)
    with pytest.warns(DistforestWarning, match=naming("similarity: 80% ", "NaN")):
        SimForestClassifier(n_estimators=2, random_state=0).fit(S, Y)
    with pytest.warns(DistforestWarning, match=naming("similarity: 80% ", "NaN")):
        SimForestOutlier(n_estimators=2, random_state=0).fit(S)
    data = write_arrays(f"{tmp_path}/d.zarr", S=S, y=Y)
    spec = job_spec(tmp_path, "simforest", similarity=f"{data}/S", labels=f"{data}/y")
    with pytest.warns(DistforestWarning, match=naming("S: 80% ", "NaN")):
        check_and_stage(spec, f"{tmp_path}/job")
