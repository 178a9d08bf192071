"""Fits in Python over features that do not fit into memory grow by passes: the forest of one that fits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from distforest import SMERF, Embedding, URerF
from distforest.estimators import forest_estimator
from distforest.estimators.forest_estimator import ForestEstimator
from distforest.growth.methods import METHODS
from distforest.growth.parameters import complete
from distforest.growth.problem import Data, Problem
from distforest.jobs import plan
from distforest.jobs.inputs import Inputs
from distforest.jobs.plan import WorkerRoom, budget_of, exceeds
from distforest.sources.arrays import map_of, write_array
from distforest.sources.row_kinds import Features
from distforest.sources.schema import ColumnKind, FeatureColumn, Schema
from distforest.sources.truth import Truth, TruthKind

if TYPE_CHECKING:
    from pathlib import Path

    from distributed import Client

N_ROWS = 600


def rows_at(folder: Path) -> tuple[str, np.ndarray, np.ndarray]:
    """The address of features, the features, and labels."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N_ROWS, 5)).astype(np.float32)
    X[: N_ROWS // 2, 0] += 4.0
    X[::11, 3] = np.nan
    write_array(f"{folder}/data.zarr", "X", X.shape, X.dtype, [X])
    return f"{folder}/data.zarr/X", X, rng.integers(0, 2, N_ROWS)


def made_small(monkeypatch: pytest.MonkeyPatch, n_bytes: int) -> list[Problem]:
    """Let memory be so small that no tree fits, and a budget of few bytes suffice; returns the problems that grow."""
    grown, grow = list[Problem](), Problem.grow

    def noted(self: Problem, trees: Any) -> Any:
        grown.append(self)
        return grow(self, trees)

    monkeypatch.setattr(Problem, "grow", noted)
    monkeypatch.setattr("distforest.jobs.plan.IMPORTED_BYTES", 0)
    monkeypatch.setattr("distforest.jobs.plan.BYTES_OF_PASSES", 0)
    monkeypatch.setattr("distforest.jobs.plan.LEAST_ROWS_BUDGET", 1)
    monkeypatch.setattr("distforest.jobs.plan.MERGE_BYTES", 1 << 14)
    monkeypatch.setattr("distforest.jobs.plan.SEALED_CHUNK_BYTES", 0)
    monkeypatch.setattr(forest_estimator, "unused_bytes", lambda: n_bytes)
    return grown


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("method", ["smerf", "binned", "urerf"])
def test_a_fit_from_an_address_is_that_in_memory(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, method: str, threads: int
) -> None:
    address, X, y = rows_at(scratch)
    made: dict[str, ForestEstimator] = {
        "smerf": SMERF(2, min_samples_leaf=5, random_state=0, n_jobs=threads),
        "binned": SMERF(2, max_bins=16, min_samples_leaf=5, random_state=0, n_jobs=threads),
        "urerf": URerF(2, random_state=0, n_jobs=threads),
    }
    own: Any = made[method]
    taught = () if method == "urerf" else (y,)
    expected = own.fit(X, *taught).forest_
    grown = made_small(monkeypatch, threads * 65_000)
    found = own.fit(address, *taught).forest_
    assert found.digest == expected.digest
    assert found.provenance["data_sha256"] == expected.provenance["data_sha256"]
    assert all(bound.passes is not None for bound in grown)
    assert all(map_of(bound.data.array) is not None for bound in grown)
    assert not list((scratch / "scratch" / "passes").iterdir())


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("method", ["smerf", "urerf"])
def test_a_client_whose_workers_are_too_small_grows_the_same_forest(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    address, X, y = rows_at(tmp_path)
    own: Any = SMERF(2, min_samples_leaf=5, random_state=0) if method == "smerf" else URerF(2, random_state=0)
    taught = () if method == "urerf" else (y,)
    expected = own.fit(X, *taught).digest_
    budgets, fit = list[int | None](), forest_estimator.fit

    def noted(inputs: Inputs, *others: Any) -> Any:
        budgets.append(inputs.rows_budget)
        return fit(inputs, *others)

    made_small(monkeypatch, 1 << 30)
    monkeypatch.setattr(forest_estimator, "fit", noted)
    monkeypatch.setattr(ForestEstimator, "_room", lambda _: WorkerRoom(100_000))
    assert own.set_params(client=client).fit(address, *taught).digest_ == expected
    assert budgets != [None]


@pytest.mark.parametrize("kind", ["labels", "embedding"])
@pytest.mark.parametrize("params", [{"max_bins": 16}, {}])
def test_a_fit_over_categories_from_an_address_is_that_in_memory(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, params: dict[str, Any], kind: str
) -> None:
    _, X, y = rows_at(scratch)
    X[:, 1] = np.random.default_rng(2).integers(0, 30, N_ROWS)
    words = tuple(f"word {place}" for place in range(30))
    columns = [FeatureColumn(f"x{place}") for place in range(5)]
    columns[1] = FeatureColumn("x1", ColumnKind.CATEGORY, categories=words)
    write_array(f"{scratch}/table.zarr", "X", X.shape, X.dtype, [X], Schema(tuple(columns)).attributes())
    taught: Any = y if kind == "labels" else Embedding(np.stack([y, X[:, 1]], axis=1))
    own: Any = SMERF(2, min_samples_leaf=5, random_state=0, **params)
    expected = own.fit(f"{scratch}/table.zarr/X", taught).forest_
    assert expected.table.category_size.any()
    grown = made_small(monkeypatch, 100_000)
    assert own.fit(f"{scratch}/table.zarr/X", taught).digest_ == expected.digest
    assert all(bound.passes is not None for bound in grown)


def test_rows_that_fit_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address, _, y = rows_at(tmp_path)
    grown = made_small(monkeypatch, 1 << 30)
    SMERF(1, random_state=0).fit(address, y)
    assert [bound.passes for bound in grown] == [None]
    assert map_of(grown[0].data.array) is None


def test_only_features_and_what_judges_by_passes_are_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, X, y = rows_at(tmp_path)
    tight = WorkerRoom(plan.IMPORTED_BYTES)
    params = complete(METHODS["smerf"].parameters, {})
    labels = Data(Features(5), X, Truth(TruthKind.LABELS, y.astype(np.int32), (0, 1)))
    assert budget_of("smerf", labels, params, WorkerRoom(1 << 40)) is None
    distances = Data(Features(5), X, Truth(TruthKind.DISTANCES, np.zeros((N_ROWS, N_ROWS), np.float32)))
    assert budget_of("smerf", distances, params, tight) is None
    assert exceeds("smerf", params, X.shape, tight)
    assert not exceeds("simforest", complete(METHODS["simforest"].parameters, {}), X.shape, tight)
    codes = Data(Features(5, (3,) * 5), X, Truth(TruthKind.NOTHING, np.empty((N_ROWS, 0))))
    own = complete(METHODS["urerf"].parameters, {})
    made_small(monkeypatch, 0)
    assert budget_of("urerf", codes, own, WorkerRoom(100_000)) is None, "nothing judges categories"
    assert budget_of("urerf", replace(codes, rows=Features(5)), own, WorkerRoom(100_000)) is not None
