"""Jobs whose rows do not fit into their workers grow their trees by passes: the forest of a job that fits."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from distforest.errors import MemoryLimitError
from distforest.growth.cuts.sums import RowBlock
from distforest.growth.methods import sampling
from distforest.growth.passes import StoredRows
from distforest.jobs.cluster import Threads
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.plan import IMPORTED_BYTES, LEAST_ROWS_BUDGET, Size, check_memory, projected_bytes, within
from distforest.jobs.preview import preview
from distforest.jobs.scratch_room import HostWorkers
from distforest.jobs.spec import Spec
from distforest.jobs.train import Options, fit
from distforest.sources.scratch import ScratchFolder
from distforest.stores.folder import Folder
from tests.jobs.iris_jobs import large_arrays, run_by_passes, write_arrays

if TYPE_CHECKING:
    from pathlib import Path

LARGE = Size(4_000_000, 2, matrix_bytes=800 << 20, truth_bytes=16 << 20, width=7, dense=False, most_leaves=9_999)


def spec_in(folder: Path, name: str, max_bins: object = 16, min_samples_leaf: int = 1, **run: Any) -> Spec:
    return Spec.from_dict(
        {
            "format": 1,
            "method": "smerf",
            "output": f"{folder}/{name}.zarr",
            "input": {
                "features": f"{folder}/data.zarr/X",
                "distances": {"kind": "labels", "values": f"{folder}/data.zarr/y"},
            },
            "params": {"n_estimators": 3, "max_bins": max_bins, "min_samples_leaf": min_samples_leaf},
            "run": {"scratch": f"{folder}/scratch", "workers": 1, **run},
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_a_job_by_passes_seals_the_forest_of_one_in_memory(tmp_path: Path, holes: float) -> None:
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(500, 4)).astype(np.float32), rng.integers(0, 2, 500)
    X[rng.random(X.shape) < holes] = np.nan
    write_arrays(f"{tmp_path}/data.zarr", X=X, y=y)
    digests = set()
    for name, budget in (("memory", None), ("small", 3_000), ("larger", 30_000)):
        digests.add(run_by_passes(spec_in(tmp_path, name), budget).digest)
    assert len(digests) == 1
    assert not list((tmp_path / "scratch" / "passes").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(("max_bins", "budget", "most_above"), [(16, 20_000, 1.5), ("none", 300_000, 2.6)])
def test_what_passes_write_is_foreseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_bins: object, budget: int, most_above: float
) -> None:
    """Of exact values an even cut leaves children that fit, so that rows are written once; an uneven one would not."""
    rng, (n, n_columns) = np.random.default_rng(0), (3_000, 10)
    X, y = rng.normal(size=(n, n_columns)), rng.integers(0, 2, n)
    write_arrays(f"{tmp_path}/data.zarr", X=X, y=y)
    spec, append, most = spec_in(tmp_path, "forest", max_bins), StoredRows.append, [0]

    def noting(rows: StoredRows, block: RowBlock) -> None:
        append(rows, block)
        files = (tmp_path / "scratch" / "passes").rglob("*")
        most[0] = max(most[0], sum(file.stat().st_size for file in files if file.is_file()))

    monkeypatch.setattr(StoredRows, "append", noting)
    inputs = replace(stage_inputs(spec, f"{tmp_path}/job"), rows_budget=budget)
    fit(inputs, spec.output, Folder(f"{tmp_path}/job"), Threads(), Options())
    codes = n * n_columns if max_bins == 16 else 0  # whose file has no name
    row_bytes = n_columns + 4 if max_bins == 16 else 4 * n_columns + 8
    foreseen = HostWorkers().passes_bytes(codes, row_bytes, sampling(spec.params, n).n_distinct)
    assert most[0] + codes <= 1.02 * foreseen <= most_above * (most[0] + codes)


def test_room_for_codes_and_rows_is_asked_for_each_worker(tmp_path: Path) -> None:
    large_arrays(tmp_path)
    one, two, elsewhere = (
        preview(spec_in(tmp_path, "forest", min_samples_leaf=20, memory_limit="1GiB", max_bytes="2GiB", **run)).scratch
        for run in ({}, {"workers": 2}, {"workers": 2, "scheduler": "tcp://10.0.0.1:8786"})
    )
    assert one.passes > LARGE.matrix_bytes // 4
    assert (two.passes, elsewhere.passes) == (2 * one.passes, one.passes)
    assert one.staged >= 4 * 51 * LARGE.n_rows
    spec = spec_in(tmp_path, "forest", min_samples_leaf=20, memory_limit="1GiB", max_bytes="2GiB")
    shared, elsewhere = (
        preview(spec, hosts={host: HostWorkers(3, 6), "another.host": HostWorkers(5, 5)}).scratch
        for host in ("127.0.0.1", "a.third.host")
    )
    codes = 50 * LARGE.n_rows
    assert shared.passes == 3 * codes + 6 * (one.passes - codes)
    assert (elsewhere.passes, elsewhere.staged) == (0, one.staged)


def test_the_first_worker_of_a_host_asks_for_the_room_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (n, n_columns), rng, asked = (300, 5), np.random.default_rng(0), list[int]()
    write_arrays(f"{tmp_path}/data.zarr", X=rng.normal(size=(n, n_columns)), y=rng.integers(0, 2, n))
    spec = spec_in(tmp_path, "forest")
    monkeypatch.setattr(ScratchFolder, "check_room", lambda _self, _staged, beside=0, own=(): asked.append(beside))
    known = replace(stage_inputs(spec, f"{tmp_path}/job"), rows_budget=20_000)
    for hosts in ({}, {"127.0.0.1": HostWorkers(2, 6)}, {"another.host": HostWorkers(9, 9)}):
        replace(known, hosts=hosts).check_room()
    codes = n * n_columns
    of_tree = asked[0] - codes
    assert asked == [codes + of_tree, 2 * codes + 6 * of_tree, codes + of_tree]
    (known.scratch.path / "passes").mkdir()
    (known.scratch.path / "passes" / "a.codes").touch()  # a neighbour writes
    replace(known, hosts={"127.0.0.1": HostWorkers(2, 6)}).check_room()
    assert asked[-1] == codes + 3 * of_tree


def test_passes_are_chosen_where_not_even_one_tree_fits(tmp_path: Path) -> None:
    large_arrays(tmp_path)
    by_passes = preview(spec_in(tmp_path, "forest", min_samples_leaf=20, memory_limit="1GiB"))
    assert by_passes.size.rows_budget is not None
    assert by_passes.size.rows_budget > LEAST_ROWS_BUDGET
    assert by_passes.plan.projected_bytes <= 1 << 30
    assert preview(spec_in(tmp_path, "forest", memory_limit="16GiB")).size.rows_budget is None


def test_nodes_that_do_not_fit_are_foreseen(tmp_path: Path) -> None:
    """Full trees over so many rows have millions of nodes, which no budget of rows makes smaller."""
    large_arrays(tmp_path)
    full = preview(spec_in(tmp_path, "forest", memory_limit="1GiB"))
    assert full.size.rows_budget is None
    assert full.plan.projected_bytes > 1 << 30
    assert {"min_samples_leaf", "max_depth"} <= set(re.findall(r"`(\w+)`", full.cure))


def test_targets_take_memory_before_the_first_tree() -> None:
    targets = replace(LARGE, of_vectors=True, truth_bytes=256 << 20)
    assert within(LARGE, 1 << 30, 1, 1) is not None
    assert within(targets, 1 << 30, 1, 1) is None
    assert projected_bytes(targets, 1, 1) > projected_bytes(replace(targets, of_vectors=False), 1, 1)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("batch", [1, 2])
def test_a_budget_uses_what_the_limit_leaves(threads: int, batch: int) -> None:
    limit = 4 << 30
    sized = within(LARGE, limit, batch, threads)
    assert sized is not None
    assert limit - threads < projected_bytes(sized, batch, threads) <= limit
    assert within(LARGE, IMPORTED_BYTES, batch, threads) is None


@pytest.mark.parametrize("method", ["rfd", "treerank"])
def test_pairs_do_not_grow_by_passes(tmp_path: Path, method: str) -> None:
    large_arrays(tmp_path)
    features, labels = f"{tmp_path}/data.zarr/X", f"{tmp_path}/data.zarr/y"
    of_pairs = {"method": method, "input": {"features": features, "labels": labels}}
    run = {"workers": 1, "memory_limit": "1GiB"}
    seen = preview(Spec.from_dict({"format": 1, "output": f"{tmp_path}/f.zarr", "run": run, **of_pairs}))
    assert seen.size.rows_budget is None
    with pytest.raises(MemoryLimitError):
        check_memory(seen.plan.projected_bytes, seen.memory_limit)
