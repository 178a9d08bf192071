"""Tuning jobs: the cells, scores and forest of `tune` in Python, whatever dies; and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from distforest import SMERF, Graph, Labels, tune
from distforest.errors import ArtifactError, InputError, JobError, SpecError
from distforest.evaluation.grids import TUNING, ScoredGrid
from distforest.forest.sealed.artifact import open_forest
from distforest.growth.problem import Problem
from distforest.jobs import tune as tuning
from distforest.jobs.any_spec import kind_of_job, n_trees_of, spec_from_dict, with_absolute_paths
from distforest.jobs.cluster import Cluster, Threads
from distforest.jobs.on_dask import OnDask
from distforest.jobs.spec import Spec
from distforest.jobs.train import Options, kept, shards_of
from distforest.jobs.train import fit as train
from distforest.jobs.tune_spec import TuneSpec
from distforest.sources import graph_distances
from distforest.sources.arrays import write_array
from distforest.sources.scratch import ScratchFolder
from distforest.sources.sparse_store import write_sparse
from distforest.sources.staging import stage
from distforest.stores.folder import Folder
from tests.jobs.faults import Faults, faulty, growths
from tests.messages import naming

N, SEED, N_TREES = 40, 5, 12
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).astype(np.float32)
Z = np.abs(X[:, None, 0] - X[:, 0]).astype(np.float32)
HOLES = Z.copy()
HOLES[3, 9] = HOLES[9, 3] = np.nan
Y = np.digitize(X[:, 1], [-0.5, 0.5])
COSTS = np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 1.0], [4.0, 1.0, 0.0]])
WEIGHTS = np.tile([1, 2, 1, 0], N // 4)
GRID = {"max_features": [1, 4], "min_samples_split": [2, 8]}


def table_in(folder: Path, **changes: Any) -> dict[str, Any]:
    """A tuning job of four cells, with its inputs written into a folder."""
    for name, values in (("X", X), ("Z", Z), ("holes", HOLES), ("y", Y), ("weights", WEIGHTS), ("costs", COSTS)):
        if not (folder / "data.zarr" / name).exists():
            write_array(f"{folder}/data.zarr", name, values.shape, values.dtype, [values])
    return {
        "format": 1,
        "job": "tune",
        "method": "smerf",
        "seed": SEED,
        "output": f"{folder}/best.zarr",
        "input": {"features": f"{folder}/data.zarr/X", "distances": f"{folder}/data.zarr/Z"},
        "params": {"n_estimators": N_TREES},
        "grid": GRID,
        "run": {"scratch": f"{folder}/scratch"},
        **changes,
    }


def spec_in(folder: Path, **changes: Any) -> TuneSpec:
    spec = spec_from_dict(table_in(folder, **changes))
    assert isinstance(spec, TuneSpec)
    return spec


def run_tuning(spec: TuneSpec, cluster: Cluster | None = None, **options: Any) -> tuning.TunedForest:
    """The job as the command line runs it, four trees to a task."""
    folder = Folder(f"{spec.output}.job")
    with kept(folder):
        groups = tuning.stage_grid(spec, folder.address)
        return tuning.tune(spec, groups, folder, cluster or Threads(), Options(batch=4, **options))


def shards_in(spec: TuneSpec) -> int:
    return len([*Path(f"{spec.output}.job").glob("shards-*/trees-*.npz")])


def test_a_spec_is_read_and_written(tmp_path: Path) -> None:
    spec = spec_in(tmp_path, scoring="spearman", grid={"max_depth": ["none", 3], "max_features": ["sqrt"]})
    assert spec.cells == [{"max_depth": None, "max_features": "sqrt"}, {"max_depth": 3, "max_features": "sqrt"}]
    assert spec_from_dict(spec.to_dict()) == spec
    assert with_absolute_paths(spec) == spec
    assert (kind_of_job(spec), spec.scoring) == ("tune", "spearman")
    assert n_trees_of(spec_in(tmp_path)) == 2 * N_TREES
    assert type(spec.fit_of({})) is Spec


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:DF012 oob_score:distforest.errors.DistforestWarning")
@pytest.mark.parametrize("kind", ["distances", "holes", "labels", "costs", "weights"])
def test_a_job_finds_what_python_finds(tmp_path: Path, kind: str) -> None:
    inputs = table_in(tmp_path)["input"]
    truth: Any = {"labels": Y, "holes": HOLES, "costs": Labels(Y, costs=COSTS)}.get(kind, Z)
    scoring = "roc_auc" if kind == "labels" else "spearman"
    if kind in {"labels", "costs"}:
        inputs["distances"] = {"kind": "labels", "values": f"{tmp_path}/data.zarr/y"}
        inputs["distances"] |= {"costs": f"{tmp_path}/data.zarr/costs"} if kind == "costs" else {}
    elif kind == "holes":
        inputs["distances"] = f"{tmp_path}/data.zarr/holes"
    elif kind == "weights":
        inputs["sample_weight"] = f"{tmp_path}/data.zarr/weights"
    grid = {**GRID, "max_samples": ["none", 20]} if kind == "weights" else GRID
    spec = spec_in(tmp_path, input=inputs, scoring=scoring, grid=grid, params={"n_estimators": 40})
    done = run_tuning(spec)
    own = {**grid, "max_samples": [None, 20]} if kind == "weights" else grid
    weights = WEIGHTS if kind == "weights" else None
    found = tune(SMERF(40, random_state=SEED), own, X, truth, scoring=scoring, sample_weight=weights)
    assert done.fitted.digest == found.best_estimator_.digest_
    assert repr(done.grid.cv_results_) == repr(found.cv_results_)  # NaN is not equal to itself
    assert done.grid.best_index_ == found.best_index_
    sealed = ScoredGrid.of_provenance(open_forest(spec.output).provenance)
    assert repr(sealed) == repr(done.grid)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_job_chooses_the_diagonal_of_a_graph_as_python_does(
    tmp_path: Path, sparse: bool, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, links = table_in(tmp_path), (Z < 0.3).astype(np.float64) - np.eye(N)
    if sparse:
        monkeypatch.setattr(graph_distances, "MOST_KEPT_DENSE", 0)
        write_sparse(f"{tmp_path}/A.zarr", scipy.sparse.csr_array(links))
    else:
        write_array(f"{tmp_path}/A.zarr", "A", links.shape, links.dtype, [links])
    address = f"{tmp_path}/A.zarr" if sparse else f"{tmp_path}/A.zarr/A"
    table["input"]["distances"] = {"kind": "graph", "adjacency": address}
    weights, params = (WEIGHTS, {"n_estimators": 60}) if weighted else (None, {"n_estimators": N_TREES})
    if weighted:
        table["input"]["sample_weight"] = f"{tmp_path}/data.zarr/weights"
    grid = {"diagonal": ["none", 0.5, 0], "min_samples_split": [2, 8]}
    spec = spec_from_dict({**table, "params": params, "grid": grid, "scoring": "roc_auc"})
    assert isinstance(spec, TuneSpec)
    assert spec_from_dict(spec.to_dict()) == spec
    groups = tuning.stage_grid(spec, f"{tmp_path}/staged")
    assert len({group.inputs.fingerprint for group in groups if group.shared.params["min_samples_split"] == 2}) == 3
    kept_by_host = [group.inputs.graph.sha256 if group.inputs.graph else group.inputs.truth.sha256 for group in groups]
    assert len(set(kept_by_host)) == 3
    done = run_tuning(spec)
    graph = Graph(address if sparse else links)
    own = {"diagonal": [None, 0.5, 0.0], "min_samples_split": [2, 8]}
    found = tune(SMERF(**params, random_state=SEED), own, X, graph, scoring="roc_auc", sample_weight=weights)
    assert done.fitted.digest == found.best_estimator_.digest_
    assert repr(done.grid.cv_results_) == repr(found.cv_results_)


def test_weights_staged_for_one_cell_stay_when_another_draws_otherwise(tmp_path: Path) -> None:
    """Hosts stage again what they read from the job's folder, which must still be there then."""
    table = table_in(tmp_path, grid={"max_samples": [0.5, 0.9]})
    table["input"]["sample_weight"] = f"{tmp_path}/fractions"
    write_array(str(tmp_path), "fractions", (N,), np.dtype(float), [RNG.uniform(0.5, 1.5, N)])
    spec = spec_from_dict(table)
    assert isinstance(spec, TuneSpec)
    kept_weights = [group.inputs.sample_weight for group in tuning.stage_grid(spec, f"{tmp_path}/staged")]
    assert len({own.address for own in kept_weights}) == 2
    for own in kept_weights:
        assert stage(own.address, own.reading, ScratchFolder(tmp_path / "another_host")).sha256 == own.sha256


def test_a_diagonal_beyond_absent_names_its_cell(tmp_path: Path) -> None:
    table = table_in(tmp_path, grid={"diagonal": [0.5, 3.0]})
    links = (Z < 0.3).astype(np.float64)
    write_array(f"{tmp_path}/A.zarr", "A", links.shape, links.dtype, [links])
    table["input"]["distances"] = {"kind": "graph", "adjacency": f"{tmp_path}/A.zarr/A"}
    spec = spec_from_dict(table)
    assert isinstance(spec, TuneSpec)
    with pytest.raises(InputError, match=naming("grid: ", "'diagonal': 3.0", "input.distances: ", "absent=1")):
        run_tuning(spec)


@pytest.mark.slow
def test_the_best_cell_takes_trees_that_are_there(tmp_path: Path) -> None:
    """Its forest is that of a plain fit, and if its trees stop last they are not grown again."""
    done = run_tuning(spec_in(tmp_path, grid={"max_features": [1, 4], "min_samples_split": [2]}))
    assert done.n_grown == 2 * N_TREES
    assert done.fitted.n_grown == 0
    spec = replace(spec_in(tmp_path).fit_of(done.grid.best_params_), output=f"{tmp_path}/fit.zarr")
    folder = Folder(f"{spec.output}.job")
    assert train(tuning.check_and_stage(spec, folder.address), spec.output, folder, Threads(), Options()).digest == (
        done.fitted.digest
    )


@pytest.mark.slow
def test_an_interrupted_job_is_completed_by_running_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    undisturbed = run_tuning(spec_in(tmp_path, output=f"{tmp_path}/undisturbed.zarr"))
    spec, grow, grown = spec_in(tmp_path), Problem.grow, list[int]()

    def interrupted(self: Problem, trees: np.ndarray) -> dict[str, np.ndarray]:
        if len(grown) >= 2:
            raise KeyboardInterrupt
        grown.append(len(trees))
        return grow(self, trees)

    with monkeypatch.context() as during:
        during.setattr(Problem, "grow", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_tuning(spec)
    assert shards_in(spec) == 2
    with monkeypatch.context() as during:

        def broken(*_: Any) -> None:
            raise KeyboardInterrupt

        during.setattr(tuning, "fit", broken)
        with pytest.raises(KeyboardInterrupt):
            run_tuning(spec)
    assert len([*Path(f"{spec.output}.job").glob("shards-*/scores-*.json")]) == 2
    with monkeypatch.context() as during:
        during.setattr(tuning, "scored_cells", broken)  # scores that are committed are read
        done = run_tuning(spec)
    assert done.grid == undisturbed.grid
    assert done.fitted.digest == undisturbed.fitted.digest
    assert done.n_grown == done.fitted.n_grown
    assert not Path(f"{spec.output}.job").exists()
    again = run_tuning(spec)
    assert (again.n_grown, again.grid, again.fitted.digest) == (0, done.grid, done.fitted.digest)


@pytest.mark.slow
def test_damaged_scores_are_worked_out_again_and_lost_shards_reported(tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    folder = Folder(f"{spec.output}.job")
    groups = tuning.stage_grid(spec, folder.address)
    with pytest.raises(ZeroDivisionError):
        tuning.tune(spec, groups, folder, Threads(), Options(watch=lambda progress: 1 // (progress.name != "merge")))
    own = tuning.ScoreCellsTask(groups[0].inputs, shards_of(groups[0].inputs, folder), groups[0].shared.stops, N_TREES)
    [path] = Path(own.shards.address).glob("scores-*.json")
    cells = json.loads(path.read_text())
    path.write_text(json.dumps([{**cell, "scores": dict.fromkeys(cell["scores"])} for cell in cells]))
    assert all(np.isnan(score) for cell in tuning.score_cells(own) for score in cell.scores.values())
    for path in Path(folder.address).glob("shards-*/scores-*.json"):
        path.write_text('[{"scores": {}')
    done = run_tuning(spec)
    assert done.grid == run_tuning(spec_in(tmp_path, output=f"{tmp_path}/other.zarr")).grid
    task = tuning.ScoreCellsTask(groups[0].inputs, Folder(f"{tmp_path}/nowhere"), groups[0].shared.stops, N_TREES)
    with pytest.raises(JobError, match="shards"):
        tuning.score_cells(task)


@pytest.mark.slow
@pytest.mark.cluster
def test_a_killed_worker_changes_nothing(tmp_path: Path, cluster: OnDask) -> None:
    expected = run_tuning(spec_in(tmp_path))
    record = tmp_path / "record"
    record.mkdir()
    spec = spec_in(tmp_path, output=f"{tmp_path}/again.zarr")
    with faulty(cluster, Faults(record, tree=5, point="after_growth")):
        done = run_tuning(spec, cluster)
    assert (record / "died").exists()
    assert repr(done.grid) == repr(expected.grid)  # NaN from a worker is not equal to another one
    assert done.fitted.digest == expected.fitted.digest
    assert max(growths(record).values()) > 2


@pytest.mark.slow
def test_another_forest_at_the_output_is_kept_unless_it_may_be_replaced(tmp_path: Path) -> None:
    done = run_tuning(spec_in(tmp_path, grid={"max_features": [1, 4]}))
    with pytest.raises(InputError, match=naming(f"{tmp_path}/best.zarr", "another tuning job", "`run.overwrite`")):
        run_tuning(spec_in(tmp_path))
    fitted = spec_in(tmp_path).fit_of(done.grid.best_params_)
    plain = replace(fitted, output=f"{tmp_path}/plain.zarr")
    folder = Folder(f"{plain.output}.job")
    train(tuning.check_and_stage(plain, folder.address), plain.output, folder, Threads(), Options())
    same = spec_in(tmp_path, output=plain.output, grid={"max_features": [1, 4]})
    with pytest.raises(InputError, match=naming(plain.output, "not tuned")):
        run_tuning(same)
    replaced = run_tuning(same, overwrite=True)
    assert replaced.fitted.digest == done.fitted.digest
    assert ScoredGrid.of_provenance(open_forest(plain.output).provenance) == done.grid


def test_a_score_that_is_not_defined_is_refused_before_trees_grow(tmp_path: Path) -> None:
    spec = spec_in(tmp_path, scoring="roc_auc")
    with pytest.raises(InputError, match=naming("scoring='roc_auc'", "spearman")):
        run_tuning(spec)
    assert not Path(f"{spec.output}.job").exists()


def test_a_cell_that_does_not_suit_the_rows_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=naming("grid: ", "{'max_samples': 41", "params.max_samples: ", "(40)")):
        run_tuning(spec_in(tmp_path, grid={"max_samples": [20, 41]}))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"grid": {}}, ("grid: ", "min_samples_split = [2, 4]")),
        ({"grid": {"max_depth": 3}}, ("grid.max_depth: ", " 3")),
        ({"grid": {"max_dept": [3]}}, ("grid.max_dept: ", "'max_depth'?")),
        ({"grid": {"max_depth": [0]}}, ("grid.max_depth: ", ">= 1", " 0")),
        ({"grid": {"max_depth": ["deep"]}}, ("grid.max_depth: ", ">= 1", "'deep'")),
        ({"grid": {"max_depth": [*range(1, 41)], "max_features": [*range(1, 41)]}}, ("grid: ", "1,024", "1,600")),
        (
            {"grid": {"max_bins": [4], "feature_combinations": [2.0]}},
            ("grid: ", "{'feature_combinations': 2.0, 'max_bins': 4}", "feature_combinations=1.0"),
        ),
        ({"grid": {"bootstrap": [False]}}, ("grid: ", "{'bootstrap': False}", "bootstrap = true", "max_samples")),
        ({"grid": {"feature_weights": ["given"]}}, ("grid.feature_weights: ", "input.feature_weights")),
        ({"grid": {"diagonal": [0.5]}}, ("grid.diagonal: ", "graph")),
        ({"grid": {"diagonal": [-1]}}, ("grid.diagonal: ", " -1")),
        ({"scoring": "r2"}, ("scoring: ", "'neg_root_mean_squared_error'", "'spearman'", "'r2'")),
        ({"method": "urerf"}, ("method: ", "'smerf'", "'urerf'")),
        ({"run": {"grow_on": True}}, ("run.grow_on: ", "a fit")),
        ({"job": "guess"}, ("job: ", "'fit' or 'tune' or 'score'", "'guess'")),
        ({"job": "fit"}, ("grid: ", "'job'")),
        ({"params": {"max_dept": 3}, "grid": {"max_depth": [0]}}, ("params.max_dept: ", "'max_depth'?")),
    ],
)
def test_what_cannot_be_tuned_is_refused(tmp_path: Path, changes: dict[str, Any], named: tuple[str, ...]) -> None:
    table = table_in(tmp_path, **changes)
    if table["method"] == "urerf":
        del table["input"]["distances"]
    with pytest.raises(SpecError, match=naming(*named)):
        spec_from_dict(table)


@pytest.mark.slow
def test_a_strangers_grid_is_checked(tmp_path: Path) -> None:
    run_tuning(spec_in(tmp_path))
    entry = open_forest(f"{tmp_path}/best.zarr").provenance[TUNING]
    assert isinstance(entry, dict)
    assert ScoredGrid.of_provenance({}) is None
    for name, value in (("best", 4), ("cells", []), ("scoring", "r2"), ("params", ["max_features"]), ("best", True)):
        with pytest.raises(ArtifactError, match=naming("provenance.tuning: ", "scored grid")):
            ScoredGrid.of_provenance({TUNING: {**entry, name: value}})
    cells = json.loads(json.dumps(entry["cells"]))
    cells[0]["spearman"] = "high"
    with pytest.raises(ArtifactError, match=naming("provenance.tuning: ", "scored grid")):
        ScoredGrid.of_provenance({TUNING: {**entry, "cells": cells}})
