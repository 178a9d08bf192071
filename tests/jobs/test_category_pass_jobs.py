"""Jobs over columns of categories whose rows do not fit into their workers: the forest of a job that fits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from distforest.errors import InputError, MemoryLimitError
from distforest.growth.passes import StoredRows
from distforest.growth.row_room import NO_LIMIT, CategorySizes, RowRoom
from distforest.jobs.cluster import Threads
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.on_dask import OnDask
from distforest.jobs.plan import Size, check_memory, projected_bytes, within
from distforest.jobs.preview import preview
from distforest.jobs.scratch_room import HostWorkers
from distforest.jobs.spec import Spec
from distforest.jobs.train import Options, fit, size_of
from distforest.sources.arrays import create_array, open_array, write_array
from distforest.sources.schema import ColumnKind, FeatureColumn, Schema
from distforest.stores.folder import Folder
from tests.jobs.iris_jobs import run_by_passes, run_in_parts
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

    from distforest.growth.cuts.sums import RowBlock

N_LARGE = 4_000_000
BINNED, FEW_NODES = {"max_bins": 16}, {"min_samples_leaf": 50}
SIZES = (0, 3, 200, 0, 0)


def attributes(n_categories: tuple[int, ...]) -> dict[str, Any]:
    """The attributes of an array whose columns have so many categories."""
    columns = []
    for place, n in enumerate(n_categories):
        words = tuple(f"{place}-{word}" for word in range(n))
        kind = ColumnKind.CATEGORY if n else ColumnKind.NUMBER
        columns.append(FeatureColumn(f"x{place}", kind, categories=words))
    return Schema(tuple(columns)).attributes()


def write_data(folder: Path, holes: float, kind: str) -> None:
    """Features of which two are categories, and what they tell."""
    rng, n = np.random.default_rng(7), 900
    X = rng.normal(size=(n, len(SIZES))).astype(np.float32)
    for place, size in enumerate(SIZES):
        if size:
            X[:, place] = rng.integers(0, size, n)
    told = X[:, 0] + rng.normal(size=200)[X[:, 2].astype(int)]
    X[rng.random(X.shape) < holes] = np.nan
    write_array(f"{folder}/data.zarr", "X", X.shape, X.dtype, [X], attributes(SIZES))
    y = (told > 0).astype(np.int64) if kind == "labels" else told
    write_array(f"{folder}/data.zarr", "y", y.shape, y.dtype, [y])


def spec_in(folder: Path, name: str, kind: str = "labels", method: str = "smerf", **given: Any) -> Spec:
    """A job over the arrays in a folder."""
    truth = {"distances": {"kind": kind, "values": f"{folder}/data.zarr/y"}} if method == "smerf" else {}
    run = {"scratch": f"{folder}/scratch", "workers": 1, "max_bytes": "40GiB", **given.pop("run", {})}
    return Spec.from_dict(
        {
            "format": 1,
            "method": method,
            "output": f"{folder}/{name}.zarr",
            "input": {"features": f"{folder}/data.zarr/X", **truth},
            "params": {"n_estimators": 2, **given},
            "run": run,
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("holes", [0.0, 0.1])
@pytest.mark.parametrize("how", [BINNED, {}])
@pytest.mark.parametrize("kind", ["labels", "targets"])
def test_a_job_by_passes_seals_the_forest_of_one_in_memory(
    tmp_path: Path, kind: str, how: dict[str, Any], holes: float
) -> None:
    write_data(tmp_path, holes, kind)
    digests = set()
    for name, budget in (("memory", None), ("small", 30_000), ("larger", 90_000)):
        spec = spec_in(tmp_path, name, kind, min_samples_leaf=5, **how)
        digests.add(run_by_passes(spec, budget).digest)
    assert len(digests) == 1
    assert not list((tmp_path / "scratch" / "passes").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("holes", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["labels", "targets"])
def test_parts_seal_the_forest_of_memory(tmp_path: Path, kind: str, holes: float) -> None:
    write_data(tmp_path, holes, kind)
    spec, digests = spec_in(tmp_path, "memory", kind, **BINNED), set()
    for n_parts, rows_of_pack in ((None, None), (1, 40), (2, 900), (3, 1), (4, 60)):
        of_parts = replace(spec, output=f"{tmp_path}/{n_parts}.zarr")
        digests.add(run_in_parts(of_parts, Threads(), n_parts, rows_of_pack).digest)
    assert len(digests) == 1


@pytest.mark.slow
@pytest.mark.cluster
def test_parts_on_workers_seal_the_forest_of_memory(tmp_path: Path, cluster: OnDask) -> None:
    write_data(tmp_path, 0.1, "targets")
    expected = run_in_parts(spec_in(tmp_path, "memory", "targets", **BINNED), Threads()).digest
    assert run_in_parts(spec_in(tmp_path, "parts", "targets", **BINNED), cluster, 3).digest == expected


def test_codes_that_are_no_categories_are_refused_in_parts(tmp_path: Path) -> None:
    write_data(tmp_path, 0.0, "labels")
    X = open_array(f"{tmp_path}/data.zarr/X")
    wrong = X[:]
    wrong[700, 2] = 200.0
    write_array(f"{tmp_path}/wrong.zarr", "X", wrong.shape, wrong.dtype, [wrong], attributes(SIZES))
    given = spec_in(tmp_path, "forest", **BINNED).to_dict()
    spec = Spec.from_dict({**given, "input": {**given["input"], "features": f"{tmp_path}/wrong.zarr/X"}})
    inputs = stage_inputs(spec, f"{tmp_path}/job", 3)
    with pytest.raises(InputError, match=naming("feature 2", "0 to 199", 200, "row 700")):
        fit(inputs, spec.output, Folder(f"{tmp_path}/job"), Threads(), Options())


def test_parts_over_categories_are_planned(tmp_path: Path) -> None:
    run, needed = {"parts": 4, "workers": 4, "memory_limit": "4GiB"}, list[int]()
    for name, n_categories in (("few", (0, 0, 0, 0, 30)), ("many", (30,))):
        large_categories(tmp_path / name, n_categories)
        seen, n = preview(spec_in(tmp_path / name, "forest", max_bins=256, run=run)), 10 if name == "few" else 50
        assert seen.size.n_parts == 4
        assert seen.size.part_bytes == N_LARGE * (50 + 4 * n + 4) // 4
        needed.append(seen.plan.projected_bytes)
    assert needed == sorted(needed)


def large_categories(folder: Path, n_categories: tuple[int, ...], n_rows: int = N_LARGE) -> None:
    """The metadata of arrays that are not stored."""
    array = create_array(f"{folder}/data.zarr", "X", (n_rows, 50), np.dtype(np.float32), 100_000)
    array.attrs.update(attributes((n_categories * 50)[:50]))
    create_array(f"{folder}/data.zarr", "y", (n_rows,), np.dtype(np.int32), 100_000)


@pytest.mark.parametrize("how", [{"max_bins": 256}, {}])
def test_passes_are_chosen_where_not_even_one_tree_fits(tmp_path: Path, how: dict[str, Any]) -> None:
    large_categories(tmp_path, (0, 0, 0, 0, 30))
    seen = preview(spec_in(tmp_path, "forest", **how, **FEW_NODES, run={"memory_limit": "1GiB"}))
    assert seen.size.rows_budget is not None
    assert seen.plan.projected_bytes <= 1 << 30
    codes = N_LARGE * (50 + 4 * 10) if how else 0
    assert seen.scratch.passes > codes
    assert preview(spec_in(tmp_path, "forest", **how, run={"memory_limit": "40GiB"})).size.rows_budget is None


def test_clusters_over_categories_do_not_grow_by_passes(tmp_path: Path) -> None:
    large_categories(tmp_path, (0, 0, 0, 0, 30))
    seen = preview(spec_in(tmp_path, "forest", method="urerf", **FEW_NODES, run={"memory_limit": "1GiB"}))
    assert seen.size.rows_budget is None
    assert seen.cure == ""


@pytest.mark.parametrize("how", [BINNED, {}])
def test_what_is_planned_is_what_a_worker_finds(tmp_path: Path, how: dict[str, Any]) -> None:
    """A plan from metadata, and one from staged inputs, have the same room of a row."""
    write_data(tmp_path, 0.0, "labels")
    spec = spec_in(tmp_path, "forest", **how)
    inputs = replace(stage_inputs(spec, f"{tmp_path}/job"), rows_budget=1 << 20)
    found, sizes = size_of(inputs.problem()), CategorySizes(2, 200, 2)
    expected = RowRoom(5, 4, 2, sizes, in_bins=bool(how))
    assert (found.room, found.categories) == (expected, sizes)


@pytest.mark.slow
@pytest.mark.parametrize("how", [BINNED, {}])
def test_what_passes_write_is_foreseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]) -> None:
    write_data(tmp_path, 0.0, "labels")
    spec, append, most = spec_in(tmp_path, "forest", **how), StoredRows.append, [0]

    def noting(rows: StoredRows, block: RowBlock) -> None:
        append(rows, block)
        files = (tmp_path / "scratch" / "passes").rglob("*")
        most[0] = max(most[0], sum(file.stat().st_size for file in files if file.is_file()))

    monkeypatch.setattr(StoredRows, "append", noting)
    inputs = replace(stage_inputs(spec, f"{tmp_path}/job"), rows_budget=50_000)
    fit(inputs, spec.output, Folder(f"{tmp_path}/job"), Threads(), Options())
    size = size_of(inputs.problem())
    assert size.room is not None
    codes = 900 * size.room.stored_bytes  # whose files have no name
    foreseen = HostWorkers().passes_bytes(codes, size.room.bytes_on_disk, size.n_drawn)
    assert most[0] + codes <= 1.02 * foreseen <= 2.6 * (most[0] + codes)


def test_sums_that_do_not_fit_are_refused() -> None:
    """The sums over a column of 65,536 categories by 1,000 classes take 250 MiB, and orders of these 1 GiB."""
    few, many = (RowRoom(50, 4, 7, CategorySizes(10, 1 << 16, n), in_bins=True) for n in (2, 1000))
    size = Size(N_LARGE, 2, 800 << 20, 16 << 20, 7, dense=False, n_drawn=2_528_483, most_leaves=9_999, room=few)
    assert few.most_rows(100 << 20) == NO_LIMIT
    assert many.most_rows(1 << 30) == 0
    assert within(replace(size, categories=few.categories), 1 << 30, 1, 1) is not None
    refused = replace(size, categories=many.categories, room=many)
    assert within(refused, 1 << 30, 1, 1) is None
    found = within(refused, 4 << 30, 1, 1)
    assert found is not None
    with pytest.raises(MemoryLimitError):  # as found where the labels are read, whose classes metadata do not tell
        check_memory(projected_bytes(replace(refused, rows_budget=400 << 20), 1, 1), 1 << 30)


def test_no_rank_of_each_candidate_is_planned_for_rows_in_bins(tmp_path: Path) -> None:
    """Rows are merged before categories are put in order, so more candidates take no more bytes of a row."""
    sizes = CategorySizes(25, 40, 2)
    few, many = (RowRoom(50, 4, width, sizes, in_bins=True) for width in (7, 50))
    assert few.bytes_in_memory == many.bytes_in_memory == 299
    large_categories(tmp_path, (0, 30))
    run = {"parts": 4, "workers": 4, "memory_limit": "40GiB"}
    by_width = [
        preview(spec_in(tmp_path, "forest", max_bins=256, max_features=width, run=run)).plan.projected_bytes
        for width in (7, 50)
    ]
    assert by_width[1] - by_width[0] < N_LARGE  # sums over more columns, less than a byte of a row


def test_more_columns_are_summed_at_once_with_a_larger_budget() -> None:
    room = RowRoom(50, 4, 7, CategorySizes(10, 1 << 16, 10), in_bins=True)
    held = [room.held(budget << 20, 1_000_000) for budget in (16, 90, 100, 200)]
    assert held == sorted(held)
    assert (held[0], held[-1]) == (1, 7)
    readings = [room.n_readings(budget << 20, 1_000_000) for budget in (16, 200)]
    assert readings == [8, 2]


def test_lists_of_categories_are_counted() -> None:
    size = Size(N_LARGE, 2, 800 << 20, 16 << 20, 7, dense=False, n_drawn=2_528_483, most_leaves=9_999)
    listing = replace(size, categories=CategorySizes(10, 1 << 16, 2))
    assert size.listed_bytes == 0
    assert 9 * size.n_drawn < listing.listed_bytes < size.n_drawn * 14
    assert listing.grown_bytes(1) - size.grown_bytes(1) == listing.listed_bytes
