"""Trees that read a matrix of distances by passes are those that grow in memory, for any budget and any blocks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.growth.cuts import stored_distance
from distforest.growth.grower import Level
from distforest.growth.passes import Passes
from distforest.growth.problem import Data, Problem
from distforest.growth.sample_weights import OF_DISTANCES, Draws, SampleWeights
from distforest.sources.row_kinds import Features
from distforest.sources.truth import Truth, TruthKind
from tests import samples
from tests.growth.test_value_passes import bound
from tests.tries import tries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

N_COLUMNS = 4
FREE = settings(max_examples=tries(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def data_of(
    n_rows: int, seed: int, holes: float = 0.0, weighted: bool = False, n_categories: int = 0, outlier: float = 0.0
) -> Data:
    """Features with ties, of which one may be of categories, and distances that two of them tell, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, N_COLUMNS)).astype(np.float32)
    X[:, 2] = np.round(X[:, 2])
    told = X[:, 0] + X[:, 2]
    z = np.abs(told[:, None] - told) + rng.random((n_rows, n_rows))
    z = np.maximum(z, z.T).astype(np.float32)
    z[0, -1] = z[-1, 0] = z[0, -1] + np.float32(outlier)
    X[rng.random(X.shape) < holes] = np.nan
    if n_categories:
        X[:, 1] = rng.integers(0, n_categories, n_rows)
    weights = None
    if weighted:
        given = rng.integers(0, 4, n_rows).astype(float)
        given[0] = 1.0
        weights = SampleWeights.from_weights(given, Draws(n_rows, replace=True), OF_DISTANCES)
    kinds = (0, n_categories, 0, 0) if n_categories else ()
    largest = float(np.abs(z).max())
    rows = Features(N_COLUMNS, kinds)
    return Data(rows, X, Truth(TruthKind.DISTANCES, z, largest=largest), sample_weights=weights)


def three_trees(data: Data, passes: Passes | None = None, **given: Any) -> Problem:
    return bound(data, passes, **{"n_estimators": 3, **given})


def digest_by_batches(data: Data, passes: Passes | None = None, batch: int = 3, **given: Any) -> str:
    """The digest of a forest whose trees grow ``batch`` at a time."""
    of_data = three_trees(data, passes, **given)
    trees = np.arange(of_data.n_trees)
    return of_data.forest([of_data.grow(trees[first : first + batch]) for first in range(0, len(trees), batch)]).digest


@pytest.mark.slow
@FREE
@given(
    n_rows=st.integers(2, 90),
    seed=st.integers(0, 999),
    holes=st.sampled_from([0.0, 0.3, 0.9]),
    budget=st.sampled_from([1, 500, 5_000, 1 << 20]),
    block_rows=st.one_of(st.none(), st.integers(1, 99)),
    batch=st.integers(1, 3),
    max_samples=st.sampled_from([None, 0.5, 1]),
    max_bins=st.sampled_from([None, 5]),
    min_leaf=st.sampled_from([1, 4]),
    max_depth=st.sampled_from([None, 1, 3]),
    bootstrap=st.booleans(),
    weighted=st.booleans(),
    outlier=st.sampled_from([0.0, 1e5]),
)
def test_passes_grow_the_forest_of_memory_to_the_bit(
    tmp_path: Path,
    n_rows: int,
    seed: int,
    holes: float,
    budget: int,
    block_rows: int | None,
    batch: int,
    max_samples: float | None,
    max_bins: int | None,
    min_leaf: int,
    max_depth: int | None,
    bootstrap: bool,
    weighted: bool,
    outlier: float,
) -> None:
    data = data_of(n_rows, seed, holes, weighted, outlier=outlier)
    given = {
        "max_bins": max_bins,
        "min_samples_leaf": min_leaf,
        "max_depth": max_depth,
        "bootstrap": bootstrap,
        "max_samples": max_samples,
    }
    expected = digest_by_batches(data, **given)
    assert digest_by_batches(data, Passes(tmp_path, budget, block_rows), batch, **given) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"max_samples": 40},
        {"bootstrap": False},
        {"splitter": "random"},
        {"feature_combinations": 2.0},
        {"min_samples_leaf": 20},
    ],
)
def test_three_budgets_give_one_digest(tmp_path: Path, given: dict[str, Any]) -> None:
    data = data_of(300, seed=5, holes=0.1 if "feature_combinations" not in given else 0.0)
    np.save(tmp_path / "z.npy", data.truth.values)
    mapped = samples.retaught(data, np.load(tmp_path / "z.npy", mmap_mode="r"))
    digests = {digest_by_batches(mapped, Passes(tmp_path, budget), **given) for budget in (10_000, 100_000, 1 << 20)}
    assert digests == {digest_by_batches(data, **given)}


@pytest.mark.parametrize("splitter", ["best", "random"])
@pytest.mark.parametrize("budget", [1, 4_000])
def test_categories_are_ordered_as_in_memory(tmp_path: Path, splitter: str, budget: int) -> None:
    data = data_of(120, seed=8, n_categories=5)
    given = {"splitter": splitter, "max_features": None}
    assert digest_by_batches(data, Passes(tmp_path, budget, 7), **given) == digest_by_batches(data, **given)


class Watched:
    """Counts the passes in which each row of a matrix is read, level by level."""

    def __init__(self, problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
        self.levels: list[Counter[int]] = [Counter()]
        self.n_rows = problem.n_rows
        spans = stored_distance.spans

        def counted(matrix: np.ndarray, rows: np.ndarray, n_rows: int) -> Iterator[tuple[int, int]]:
            for first, last in spans(matrix, rows, n_rows):
                self.levels[-1].update(rows[(rows >= first) & (rows < last)].tolist())
                yield first, last

        monkeypatch.setattr(stored_distance, "spans", counted)
        self.problem = problem.watched(self._on_level)

    def _on_level(self, level: Level) -> None:
        self.levels.append(Counter())

    @property
    def most(self) -> list[int]:
        """The most passes over a row in each level."""
        return [max(level.values(), default=0) for level in self.levels]


@pytest.mark.parametrize("outlier", [0.0, 1e5])
def test_a_level_passes_over_no_row_more_than_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outlier: float
) -> None:
    """But for the few rows that show whether a node is pure; whatever the number of trees and of nodes."""
    data = data_of(400, seed=1, outlier=outlier)
    watched = Watched(three_trees(data, Passes(tmp_path, 60_000, 10)), monkeypatch)
    watched.problem.grow(np.arange(3))
    for level in watched.levels:
        assert sum(n > 2 for n in level.values()) <= 30  # rows of the first blocks
        assert max(level.values(), default=0) <= 3
    assert watched.most[0] > 0
    assert watched.most[-2:] == [0, 0]  # everything is in memory


def test_samples_are_gathered_for_all_trees_in_one_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(three_trees(data_of(400, seed=1), Passes(tmp_path, 1 << 18, 10), max_samples=50), monkeypatch)
    watched.problem.grow(np.arange(3))
    assert watched.most[0] == 1
    assert not any(watched.most[1:])


def test_nothing_is_read_for_nodes_at_the_greatest_depth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(three_trees(data_of(200, seed=1), Passes(tmp_path, 1 << 14, 10), max_depth=1), monkeypatch)
    watched.problem.grow(np.arange(3))
    assert len(watched.levels) == 3
    assert watched.most[0] > 0
    assert watched.most[1:] == [0, 0]


def test_unobserved_distances_are_refused(tmp_path: Path) -> None:
    data = data_of(40, seed=0)
    z = data.truth.values.copy()
    z[3, 4] = z[4, 3] = np.nan
    with pytest.raises(InputError, match="NaN"):
        three_trees(samples.retaught(data, z, n_unobserved=1), Passes(tmp_path, 1_000))
