"""One result of a screen for every block, number of threads and cluster; that of the kernels at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from distforest.growth.draws.dependence import (
    SCREEN_ROWS,
    Screen,
    bins,
    largest_dependence,
    polynomial_statistic,
    polynomials,
    ranks,
    screened_rows,
)
from distforest.growth.methods import METHODS
from distforest.growth.parameters import complete
from distforest.jobs import screening
from distforest.jobs.cluster import Progress, Threads, Work
from distforest.jobs.on_dask import OnDask
from distforest.jobs.screening import ScreenedMatrix, screen, screened_data
from tests import samples

SEED = 3


def in_memory(X: np.ndarray) -> ScreenedMatrix:
    """Features of which all are numbers, in the memory of this process."""
    return ScreenedMatrix(X, X.shape, ())


def table(n_rows: int = 300, n_features: int = 13) -> np.ndarray:
    """Features of which some pairs depend on each other, one is constant and one has ties."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    X[:, 1], X[:, 2] = np.cos(X[:, -1]), 1.0
    X[:, 4] = rng.integers(0, 3, n_rows)
    X[:, 6] = X[:, 4] * 100 + X[:, 0]
    return X.astype(np.float32)


def codes_of(X: np.ndarray, seed: int = SEED, most: int = SCREEN_ROWS) -> np.ndarray:
    """The ranks of the rows that are looked at, of all columns at once."""
    return ranks(X, screened_rows(seed, len(X), most), np.arange(X.shape[1], dtype=np.int32), seed)


def at_once(X: np.ndarray, seed: int = SEED) -> Screen:
    """What the kernels say of all pairs in one call."""
    codes = bins(codes_of(X, seed))
    return Screen.from_dependence(np.maximum(*largest_dependence(codes, codes)), codes.shape[1])


def bits(found: Screen) -> tuple[bytes, bytes]:
    return found.dependence.tobytes(), found.weights.tobytes()


def in_blocks(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    """Let both steps compare so many features with so many in a task."""
    monkeypatch.setattr(screening, "SCREENED_ROWS", block)
    monkeypatch.setattr(screening, "NEAR_BLOCK", block)


@pytest.fixture(params=["all", "near"])
def expected(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, bytes]:
    """The screen of `table` in one block, of all pairs or of those among the nearest five features."""
    monkeypatch.setattr(screening, "NEAR", 5 if request.param == "near" else 1000)
    return bits(screen(in_memory(table()), SEED, Threads(1)))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("block", [1, 2, 5, 12, 13])
def test_blocks_and_threads_do_not_change_the_screen(
    expected: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch, block: int, threads: int
) -> None:
    in_blocks(monkeypatch, block)
    assert bits(screen(in_memory(table()), SEED, Threads(threads))) == expected


@pytest.mark.slow
@pytest.mark.cluster
def test_processes_do_not_change_the_screen(
    cluster: OnDask, expected: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_blocks(monkeypatch, 4)
    assert bits(screen(in_memory(table()), SEED, cluster)) == expected


@pytest.mark.parametrize("n_features", [1, 2, 3, 13])
@pytest.mark.parametrize("block", [1, 4])
def test_blocks_say_what_the_kernels_say_of_all_pairs(
    monkeypatch: pytest.MonkeyPatch, n_features: int, block: int
) -> None:
    X = np.ascontiguousarray(table()[:, -n_features:])
    in_blocks(monkeypatch, block)
    assert bits(screen(in_memory(X), SEED, Threads(1))) == bits(at_once(X))


def test_what_depends_is_found() -> None:
    found = screen(in_memory(table(2000)), SEED, Threads(1))
    assert found.dependence[[0, 1, 4, 6, 12]].min() > 0.2
    assert np.delete(found.dependence, [0, 1, 4, 6, 12]).max() < 0.02
    assert found.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("seed", range(4))
def test_of_many_rows_some_are_looked_at(seed: int) -> None:
    X = np.random.default_rng(0).normal(size=(SCREEN_ROWS + 50, 3)).astype(np.float32)
    X[:, 2] += X[:, 0]
    rows = screened_rows(seed, len(X))
    assert len(rows) == SCREEN_ROWS
    found = screen(in_memory(X), seed, Threads(1))
    assert bits(found) == bits(at_once(X, seed))
    other = X.copy()
    other[np.setdiff1d(np.arange(len(X)), rows)] = 0.0  # those that are not
    assert bits(screen(in_memory(other), seed, Threads(1))) == bits(found)


@pytest.mark.parametrize("block", [2, 256])
def test_of_many_features_the_nearest_are_compared_by_bins(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    X = table()
    monkeypatch.setattr(screening, "NEAR", 6)
    in_blocks(monkeypatch, block)
    own = polynomials(codes_of(X, most=screening.NEAR_ROWS))
    rough = polynomial_statistic(own, own)
    np.fill_diagonal(rough, 0.0)
    near = sorted(np.argsort(-rough.max(axis=1), kind="stable")[:6].tolist())
    assert {1, 4, 6, 12} < set(near)
    codes = bins(codes_of(X)[near])
    largest = np.zeros(X.shape[1])
    largest[near] = np.maximum(*largest_dependence(codes, codes))
    found = screen(in_memory(X), SEED, Threads(1))
    assert bits(found) == bits(Screen.from_dependence(largest, len(X)))
    assert not found.dependence[sorted({*range(13)} - {*near})].any()


def test_the_watcher_sees_all_pairs_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    in_blocks(monkeypatch, 5)
    monkeypatch.setattr(screening, "NEAR", 6)
    told: list[Progress] = []
    screen(in_memory(table()), SEED, Threads(1), Work("screen", watch=told.append))
    ends = {progress.name: (progress.done, progress.total) for progress in told}
    assert ends == {"screen roughly": (6, 6), "screen": (3, 3)}  # pairs of 3 blocks, and of 2


def test_a_block_names_its_features() -> None:
    task = screening.BlockTask(in_memory(table()), SEED, (0, 1, 4), (4, 5, 9), near=False)
    assert str(task) == "features 0 to 4 against 4 to 9"


def test_data_in_memory_are_screened_as_any() -> None:
    data = replace(samples.data_of("urerf"), feature_weights=None)
    params = complete(METHODS["urerf"].parameters, {"n_estimators": 2})
    assert params["feature_weights"] == "dependence"
    found = screened_data(data, SEED, Threads(1))
    expected = screen(in_memory(data.matrix), SEED, Threads(1))
    assert found.feature_weights is not None
    assert found.dependence is not None
    assert (found.dependence.tobytes(), found.feature_weights.tobytes()) == bits(expected)
    assert found.matrix is data.matrix
