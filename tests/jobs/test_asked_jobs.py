"""Jobs of SMERF whose ground truth a function computes: the forest of the estimator, within a budget, after faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distforest import SMERF, Lazy, load
from distforest.errors import InputError, JobError, SpecError
from distforest.forest.sealed.artifact import read_manifest
from distforest.jobs.any_spec import addresses_of, functions_of, spec_from_dict
from distforest.jobs.on_dask import OnDask
from distforest.jobs.preview import preview
from distforest.jobs.spec import Spec
from distforest.jobs.train import Fitted
from distforest.sources.arrays import write_array
from tests.jobs.iris_jobs import checked_run, write_arrays
from tests.messages import naming
from tests.simulated import radial

N = 60
DATA = radial(N, p=4, random_state=0)
X, Z = DATA.X, DATA.Z
ASKED: list[tuple[int, int]] = []
FAULTS: list[str] = []


def apart(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Distances of numbered rows, by a name that jobs can import."""
    return Z[left, right]


def counted(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The same distances, of a function that notes what it is asked and may fail after 300 pairs."""
    if FAULTS and len(ASKED) > 300:
        raise ConnectionError(FAULTS[0])
    ASKED.extend(zip(left.tolist(), right.tolist(), strict=True))
    return Z[left, right]


def of_rows(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Distances of the objects themselves, in one coordinate."""
    return np.abs(left[:, 0] - right[:, 0])


def nearer(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """A function whose answers depend on the state of this module."""
    return Z[left, right] + 1.0


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A folder with the features in Zarr, and weights of which one is 0."""
    weights = np.arange(N) % 3
    write_arrays(f"{tmp_path}/data.zarr", X=X, weights=weights)
    return str(tmp_path)


def table_of(place: str, name: str, distances: dict[str, Any], **params: Any) -> dict[str, Any]:
    return {
        "format": 1,
        "method": "smerf",
        "seed": 0,
        "output": f"{place}/{name}.zarr",
        "input": {
            "features": f"{place}/data.zarr/X",
            "distances": {"kind": "lazy", "function": f"{__name__}:apart", **distances},
        },
        "params": {"n_estimators": 5, "max_features": 4, **params},
        "run": {"scratch": f"{place}/scratch"},
    }


def run_table(table: dict[str, Any], cluster: Any = None, **options: Any) -> Fitted:
    return checked_run(Spec.from_dict(table), cluster, **options)


def forest(function: Any = apart, budget: int | None = None, n: int = 5, **params: Any) -> SMERF:
    lazy = Lazy(function, np.arange(N), kind="distance", budget=budget)
    return SMERF(n, max_features=4, random_state=0, **params).fit(X, lazy)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [None, 500])
@pytest.mark.parametrize("weights", [None, "dependence"])
def test_a_job_grows_the_forest_of_the_estimator(place: str, budget: int | None, weights: str | None) -> None:
    params = {} if weights is None else {"feature_weights": weights, "feature_combinations": 2.0}
    done = run_table(table_of(place, "asked", {} if budget is None else {"budget": budget}, **params))
    expected = forest(budget=budget, **params)
    assert done.digest == expected.digest_
    assert done.evaluations == expected.n_evaluations_
    told = read_manifest(done.address)["provenance"]["distances"]
    assert (told["function"], told["evaluations"]) == (f"{__name__}:apart", done.evaluations)
    assert list(read_manifest(done.address)["provenance"]["inputs"]["distances"]) == ["sha256"]
    assert Path(f"{done.address}.ledger").exists()
    again = run_table(table_of(place, "asked", {} if budget is None else {"budget": budget}, **params))
    assert (again.n_grown, again.digest) == (0, done.digest)


@pytest.mark.slow
def test_objects_and_weights_are_those_of_the_estimator(place: str) -> None:
    table = table_of(
        place, "objects", {"function": f"{__name__}:of_rows", "objects": f"{place}/data.zarr/X", "budget": 400}
    )
    table["input"]["sample_weight"] = f"{place}/data.zarr/weights"
    lazy = Lazy(of_rows, X, kind="distance", budget=400)
    expected = SMERF(5, max_features=4, random_state=0).fit(X, lazy, sample_weight=np.arange(N) % 3)
    done = run_table(table)
    assert (done.digest, done.evaluations) == (expected.digest_, expected.n_evaluations_)


@pytest.mark.slow
def test_distances_with_an_offset_are_told_from_others(place: str) -> None:
    first = run_table(table_of(place, "one", {}))
    second = run_table(table_of(place, "two", {"function": f"{__name__}:nearer"}))
    assert first.digest != second.digest == forest(nearer).digest_
    with pytest.raises(InputError, match=naming(f"{place}/one.zarr", "`run.overwrite`")):
        run_table(table_of(place, "one", {"function": f"{__name__}:nearer", "ledger": f"{place}/other"}))
    with pytest.raises(InputError, match=naming(f"{place}/one.zarr", "`run.overwrite`")):
        run_table(table_of(place, "one", {"budget": 700}))


@pytest.mark.slow
def test_what_was_asked_before_a_fault_is_not_asked_again(place: str) -> None:
    ASKED.clear()
    table = table_of(
        place, "faulty", {"function": f"{__name__}:counted", "budget": 900, "batch_size": 50, "retries": 0}
    )
    FAULTS.append("no credit")
    with pytest.raises(JobError, match="no credit"):
        run_table(table)
    FAULTS.clear()

    def stop_soon(progress: Any) -> None:
        if progress.name == "grow" and progress.done:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        run_table(table, watch=stop_soon)
    done = run_table(table)
    assert len(ASKED) == len(set(ASKED)) == done.evaluations == 900
    assert done.digest == forest(budget=900).digest_
    assert done.n_grown < 5


@pytest.mark.slow
def test_trees_are_added_without_asking_again(place: str) -> None:
    ASKED.clear()
    own = {"function": f"{__name__}:counted", "budget": 600}
    run_table(table_of(place, "grown", own))
    n_asked = len(ASKED)
    more = table_of(place, "grown", own, n_estimators=9)
    done = run_table(more, earlier=more["output"])
    assert (done.n_grown, done.digest) == (4, forest(budget=600, n=9).digest_)
    assert len(ASKED) == n_asked == 600


@pytest.mark.slow
@pytest.mark.cluster
def test_workers_call_the_function(place: str, cluster: OnDask) -> None:
    done = run_table(table_of(place, "workers", {"budget": 500, "batch_size": 40}), cluster)
    assert done.digest == forest(budget=500).digest_


def test_what_cannot_be_asked_is_refused(place: str) -> None:
    spec = Spec.from_dict(table_of(place, "named", {"objects": f"{place}/data.zarr/X"}))
    assert functions_of(spec) == {"input.distances.function": f"{__name__}:apart"}
    assert addresses_of(spec)["input.distances.objects"] == f"{place}/data.zarr/X"
    assert preview(spec).size.n_rows == N
    assert Spec.from_json(spec.to_json()) == spec
    with pytest.raises(SpecError, match=naming("input.distances", f"{__name__}:nothing")):
        run_table(table_of(place, "missing", {"function": f"{__name__}:nothing"}))
    with pytest.raises(InputError, match=naming("budget", "60 rows", 9)):
        run_table(table_of(place, "poor", {"budget": 9}))
    with pytest.raises(SpecError, match=naming("input.distances.symmetric", "'kind', 'function', 'objects'")):
        run_table(table_of(place, "directed", {"symmetric": False}))
    with pytest.raises(SpecError, match=naming("input.distances.kind", "cells of a grid")):
        spec_from_dict({**table_of(place, "tuned", {}), "job": "tune", "grid": {"max_depth": [2, 3]}})


@pytest.mark.slow
def test_the_sealed_forest_answers(place: str) -> None:
    done = run_table(table_of(place, "sealed", {"budget": 500}))
    opened = load(done.address)
    assert isinstance(opened, SMERF)
    np.testing.assert_array_equal(opened.distance(X[:5], X), forest(budget=500).distance(X[:5], X))


def test_distances_that_are_asked_are_in_memory(place: str) -> None:
    many = np.zeros((40_000, 2), np.float32)
    write_array(f"{place}/data.zarr", "many", many.shape, many.dtype, [many])
    table = table_of(place, "many", {}, min_samples_leaf=50)
    table["input"]["features"] = f"{place}/data.zarr/many"
    seen = preview(Spec.from_dict(table), 2 << 30)
    assert seen.size.rows_budget is None  # no passes over what is not on disk
    assert seen.least_bytes > 4 * 40_000**2
