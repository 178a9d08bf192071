"""Jobs of exact values and of clusters whose rows do not fit into their workers: the forest of a job that fits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from distforest.command_line.reports import previewed
from distforest.errors import MemoryLimitError
from distforest.growth.row_room import RowRoom
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.plan import LEAST_ROWS_BUDGET, Size, check_memory, projected_bytes, within
from distforest.jobs.preview import preview
from distforest.jobs.spec import Spec
from distforest.jobs.train import size_of
from distforest.sources.arrays import write_array
from distforest.sources.scratch import OF_HOST
from tests.jobs.iris_jobs import grow, large_arrays, write_arrays

if TYPE_CHECKING:
    from pathlib import Path

N_LARGE = 4_000_000
FEW_NODES = {"min_samples_leaf": 50}


def spec_in(folder: Path, name: str, method: str, params: dict[str, Any] | None = None, **run: Any) -> Spec:
    """A job over the arrays in a folder."""
    truth = {"distances": {"kind": "labels", "values": f"{folder}/data.zarr/y"}} if method == "smerf" else {}
    given = {
        "format": 1,
        "method": method,
        "output": f"{folder}/{name}.zarr",
        "input": {"features": f"{folder}/data.zarr/X", **truth},
        "params": {"n_estimators": 3, **(params or {})},
        "run": {"scratch": f"{folder}/scratch", "workers": 1, **run},
    }
    return Spec.from_dict(given)


@pytest.mark.slow
@pytest.mark.parametrize("holes", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", ["smerf", "urerf"])
def test_a_job_by_passes_seals_the_forest_of_one_in_memory(
    tmp_path: Path, method: str, weighted: bool, holes: float
) -> None:
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(600, 5)).astype(np.float32), rng.integers(0, 2, 600)
    X[:300, 0] += 4.0
    X[:, 1] = X[:, 0] + rng.normal(size=600) / 4.0  # which a screen finds
    X[rng.random(X.shape) < holes] = np.nan
    write_arrays(f"{tmp_path}/data.zarr", X=X, y=y, w=rng.integers(0, 3, 600).astype(float))
    digests = set()
    for name, budget in (("memory", None), ("small", 20_000), ("larger", 90_000)):
        spec = spec_in(tmp_path, name, method)
        if weighted:
            weight = {"sample_weight": f"{tmp_path}/data.zarr/w"}
            spec = Spec.from_dict({**spec.to_dict(), "input": {**spec.to_dict()["input"], **weight}})
        inputs = replace(stage_inputs(spec, f"{spec.output}.job"), rows_budget=budget)
        digests.add(grow(inputs, spec, batch=2).digest)
    assert len(digests) == 1
    assert not list((tmp_path / "scratch" / "passes").iterdir())


@pytest.mark.parametrize(
    ("method", "params"),
    [("smerf", {}), ("smerf", {"splitter": "random"}), ("urerf", {}), ("urerf", {"splitter": "best"})],
)
def test_passes_are_chosen_where_not_even_one_tree_fits(tmp_path: Path, method: str, params: dict[str, Any]) -> None:
    large_arrays(tmp_path)
    seen = preview(spec_in(tmp_path, "forest", method, {**params, **FEW_NODES}, memory_limit="1GiB"))
    assert seen.size.rows_budget is not None
    assert seen.size.rows_budget > LEAST_ROWS_BUDGET
    assert seen.plan.projected_bytes <= 1 << 30
    assert preview(spec_in(tmp_path, "forest", method, {**params, **FEW_NODES}, memory_limit="40GiB")).cure == ""
    assert dict(previewed(seen, OF_HOST).lines)["rows"].startswith("by passes, ")


@pytest.mark.parametrize("method", ["smerf", "urerf"])
def test_what_is_planned_is_what_a_worker_finds(tmp_path: Path, method: str) -> None:
    """A plan from metadata, and one from staged inputs, have the same room of a row."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 50)).astype(np.float32), rng.integers(0, 2, 300)
    write_arrays(f"{tmp_path}/data.zarr", X=X, y=y)
    spec = spec_in(tmp_path, "forest", method, {"feature_weights": None} if method == "urerf" else {})
    inputs = replace(stage_inputs(spec, f"{tmp_path}/job"), rows_budget=1 << 20)
    found = size_of(inputs.problem()).room
    assert found is not None
    width = {"smerf": 7, "urerf": 19}[method]
    urerf = {"truth_bytes": 0, "n_witnesses": 3, "by_some": True}
    assert found == replace(RowRoom(50, 4, width), **(urerf if method == "urerf" else {}))


def costed(folder: Path, costs: np.ndarray, **given: Any) -> Spec:
    """A job that learns labels with costs."""
    if not (folder / "costs.zarr").exists():
        write_array(f"{folder}/costs.zarr", "C", costs.shape, costs.dtype, [costs])
    spec = spec_in(folder, given.pop("name", "forest"), "smerf", given.pop("params", {}), **given).to_dict()
    truth = {"kind": "labels", "values": f"{folder}/data.zarr/y", "costs": f"{folder}/costs.zarr/C"}
    return Spec.from_dict({**spec, "input": {**spec["input"], "distances": truth}})


@pytest.mark.slow
def test_costs_of_classes_by_passes(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    X, costs = rng.normal(size=(600, 5)).astype(np.float32), np.array([[0, 1, 4], [1, 0, 1], [4, 1, 0]], np.float32)
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    write_arrays(f"{tmp_path}/data.zarr", X=X, y=y)
    digests = set()
    for name, budget in (("memory", None), ("small", 20_000), ("larger", 90_000)):
        spec = costed(tmp_path, costs, name=name)
        inputs = replace(stage_inputs(spec, f"{spec.output}.job"), rows_budget=budget)
        digests.add(grow(inputs, spec, batch=2).digest)
        room = size_of(inputs.problem()).room
        assert room == (RowRoom(5, 4, 2, of_costs=True) if budget else None)
    assert len(digests) == 1


def test_passes_with_costs_are_planned(tmp_path: Path) -> None:
    large_arrays(tmp_path)
    costs = np.array([[0, 1], [1, 0]], np.float32)
    exact = preview(costed(tmp_path, costs, params=FEW_NODES, memory_limit="1GiB"))
    plain = preview(spec_in(tmp_path, "forest", "smerf", FEW_NODES, memory_limit="1GiB"))
    assert exact.size.rows_budget is not None
    assert exact.size.rows_budget == plain.size.rows_budget
    binned = preview(costed(tmp_path, costs, params={**FEW_NODES, "max_bins": 16}, memory_limit="1GiB"))
    assert binned.size.rows_budget is None, "costs have no sums over bins"
    assert binned.cure == ""


@pytest.mark.parametrize("method", ["smerf", "urerf"])
def test_a_root_whose_one_candidate_does_not_fit_is_refused_with_what_to_do(tmp_path: Path, method: str) -> None:
    large_arrays(tmp_path, 40 * N_LARGE)
    run = {"memory_limit": "4GiB", "max_bytes": "40GiB"}
    seen = preview(spec_in(tmp_path, "forest", method, FEW_NODES, **run))
    assert seen.size.rows_budget is None
    with pytest.raises(MemoryLimitError, match=r"4,096 MiB.*`max_bins`.*`max_samples`$"):
        check_memory(seen.least_bytes, seen.memory_limit, seen.cure)
    fewer = {**FEW_NODES, "max_samples": 1_000_000}
    assert preview(spec_in(tmp_path, "forest", method, fewer, **run)).size.rows_budget is not None


@pytest.mark.parametrize("threads", [1, 3])
def test_a_budget_uses_what_the_limit_leaves(threads: int) -> None:
    room = RowRoom(n_columns=50, truth_bytes=4, width=7)
    large = Size(N_LARGE, 2, 800 << 20, 16 << 20, width=7, dense=False, n_drawn=2_528_483, room=room, most_leaves=9_999)
    sized = within(large, 4 << 30, 1, threads)
    assert sized is not None
    assert sized.rows_budget is not None
    assert projected_bytes(sized, 1, threads) <= 4 << 30
    in_codes = within(replace(large, room=None), 4 << 30, 1, threads)
    assert in_codes is not None
    assert sized.rows_budget == in_codes.rows_budget, "what the limit leaves"
    least = 900 << 20
    assert within(large, least, 1, 1) is not None
    assert within(replace(large, n_drawn=N_LARGE * 3), least, 1, 1) is None
