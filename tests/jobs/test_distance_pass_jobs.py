"""Jobs whose distances do not fit into their workers read them by passes: the forest of a job that fits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

from distforest.command_line.reports import previewed
from distforest.errors import InputError, MemoryLimitError
from distforest.jobs.on_dask import OnDask
from distforest.jobs.plan import Size, check_memory, plan, projected_bytes, within
from distforest.jobs.preview import check_and_stage, preview
from distforest.jobs.spec import Spec
from distforest.jobs.tune import stage_grid
from distforest.jobs.tune_spec import TuneSpec
from distforest.sources.arrays import create_array, write_array
from distforest.sources.scratch import ScratchFolder
from tests.jobs.faults import Faults, faulty
from tests.jobs.iris_jobs import run_by_passes
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

N = 160
LARGE = Size(40_000, 10, 3_200_000, 6_400_000_000, 4, dense=True, most_leaves=2_000, n_drawn=25_285)


def spec_in(folder: Path, name: str, distances: str = "Z", **given: Any) -> Spec:
    params = {"n_estimators": 6, "min_samples_leaf": 2, **given.pop("params", {})}
    return Spec.from_dict(
        {
            "format": 1,
            "method": "smerf",
            "output": f"{folder}/{name}.zarr",
            "input": {"features": f"{folder}/data.zarr/X", "distances": f"{folder}/data.zarr/{distances}"},
            "params": params,
            "run": {"scratch": f"{folder}/scratch", "workers": 1, **given},
        }
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Features and distances, these in three chunkings."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N, 4)).astype(np.float32)
    Z = np.abs(X[:, None, 0] - X[None, :, 0]) + np.abs(X[:, None, 2] - X[None, :, 2])
    for name, values in (("X", X), ("Z", Z)):
        write_array(f"{tmp_path}/data.zarr", name, values.shape, values.dtype, [values], chunk_bytes=1 << 14)
    for name, chunks in (("square", (50, 30)), ("columns", (N, 7))):
        zarr.create_array(f"{tmp_path}/data.zarr/{name}", data=Z, chunks=chunks)
    return tmp_path


@pytest.mark.slow
def test_a_job_by_passes_seals_the_forest_of_one_in_memory(store: Path) -> None:
    digests = {run_by_passes(spec_in(store, "memory"), None).digest}
    for name, distances, budget in (("small", "Z", 1), ("square", "square", 20_000), ("columns", "columns", 100_000)):
        digests.add(run_by_passes(spec_in(store, name, distances), budget).digest)
    assert len(digests) == 1


@pytest.mark.slow
@pytest.mark.parametrize("params", [{"max_samples": 30}, {"bootstrap": False}, {"min_samples_leaf": 1}])
def test_samples_and_full_trees_are_those_of_memory(store: Path, params: dict[str, Any]) -> None:
    expected = run_by_passes(spec_in(store, "memory", params=params), None).digest
    assert run_by_passes(spec_in(store, "passes", params=params), 8_000).digest == expected


@pytest.mark.slow
@pytest.mark.cluster
def test_a_worker_that_is_killed_costs_no_bit(store: Path, cluster: OnDask) -> None:
    expected = run_by_passes(spec_in(store, "memory"), None).digest
    (store / "record").mkdir()
    with faulty(cluster, Faults(store / "record", tree=3, point="after_growth")):
        assert run_by_passes(spec_in(store, "passes"), 20_000, cluster).digest == expected
    assert (store / "record" / "died").exists()


def large_distances(folder: Path) -> None:
    """The metadata of arrays that are not stored."""
    for name, shape in (("X", (LARGE.n_rows, 20)), ("Z", (LARGE.n_rows, LARGE.n_rows))):
        create_array(f"{folder}/data.zarr", name, shape, np.dtype(np.float32), 100)


def test_passes_are_chosen_where_the_matrix_does_not_fit(tmp_path: Path) -> None:
    large_distances(tmp_path)
    params = {"n_estimators": 10, "min_samples_leaf": 20}
    seen = preview(spec_in(tmp_path, "forest", memory_limit="1.5GiB", max_bytes=7 << 30, params=params))
    assert seen.size.rows_budget is not None
    assert 1 << 29 < seen.size.rows_budget < seen.plan.projected_bytes <= 3 << 29
    told = dict(previewed(seen, ScratchFolder(tmp_path)).lines)["distances"]
    assert told.endswith("in memory at once for each task")
    in_memory = preview(spec_in(tmp_path, "forest", memory_limit="16GiB", max_bytes=7 << 30, params=params))
    assert in_memory.size.rows_budget is None


def test_leaves_that_do_not_fit_are_foreseen(tmp_path: Path) -> None:
    """All pairs of leaves of one full tree have more bytes than the worker."""
    large_distances(tmp_path)
    full = {"n_estimators": 1, "min_samples_leaf": 1}
    seen = preview(spec_in(tmp_path, "forest", memory_limit="1.5GiB", max_bytes=7 << 30, params=full))
    assert seen.size.rows_budget is None
    with pytest.raises(MemoryLimitError, match=naming("1,536 MiB", "passes", "`min_samples_leaf`", "`max_depth`")):
        check_memory(seen.least_bytes, seen.memory_limit, seen.cure)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("batch", [None, 1, 3])
@pytest.mark.parametrize("n_drawn", [25_285, 1_000])
def test_a_budget_uses_what_the_limit_leaves(threads: int, batch: int | None, n_drawn: int) -> None:
    limit = 2 << 30
    sized = within(replace(LARGE, n_drawn=n_drawn, n_trees=1_000), limit, batch, threads)
    assert sized is not None
    planned = plan(sized, (), slots=threads, batch=batch, threads=threads)
    most = max(last - first + 1 for first, last in planned.tasks)
    assert most == batch if batch else 0.9 * sized.lockstep <= most <= sized.lockstep
    assert 0.66 * limit < planned.projected_bytes <= 3 * limit // 4
    assert projected_bytes(sized, most, threads) == planned.projected_bytes


def test_trees_of_small_samples_share_their_passes() -> None:
    sized = within(replace(LARGE, n_drawn=1_000, most_leaves=500, n_trees=1_000), 3 << 29, None, 1)
    assert sized is not None
    assert sized.lockstep >= 15


def test_unobserved_distances_are_refused_before_anything_grows(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Z = zarr.open_array(f"{store}/data.zarr/square", mode="r+")
    Z[3, 4] = Z[4, 3] = np.nan
    monkeypatch.setattr("distforest.jobs.preview.projected_bytes", lambda *_: 1 << 40)
    monkeypatch.setattr("distforest.jobs.preview.check_memory", lambda *_: None)
    with pytest.raises(InputError, match=naming("data.zarr/square", "NaN", "`run.memory_limit`")):
        check_and_stage(spec_in(store, "forest", "square", memory_limit="2GiB"), f"{store}/job")


def test_cells_are_not_judged_by_passes(tmp_path: Path) -> None:
    large_distances(tmp_path)
    spec = spec_in(tmp_path, "forest", memory_limit="1.5GiB", max_bytes=7 << 30).to_dict()
    grid = {"min_samples_leaf": [20, 40]}
    with pytest.raises(MemoryLimitError, match=naming("1,536 MiB", "cells")):
        stage_grid(TuneSpec.from_dict({**spec, "job": "tune", "grid": grid}), f"{tmp_path}/job")
