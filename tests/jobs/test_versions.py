"""Versions: trees of two growths never meet, whoever does what for a job; by what trees were worked out is told."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distforest.command_line import reports
from distforest.errors import JobError
from distforest.forest.sealed.artifact import open_forest, read_manifest
from distforest.growth.methods import GROWTH
from distforest.growth.problem import Problem
from distforest.jobs import versions
from distforest.jobs.cluster import Threads
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.inputs import Inputs
from distforest.jobs.merge import LayoutTask, plan_layout
from distforest.jobs.on_dask import OnDask
from distforest.jobs.screening import BlockTask, ScreenedMatrix, screen_block
from distforest.jobs.shards import Receipt, grown_by, warning_about_versions
from distforest.jobs.spec import Spec
from distforest.jobs.train import GrowTask, Options, fit, grow_shard, survey
from distforest.jobs.versions import VERSIONS_HERE
from distforest.service.running import LeadTask, lead
from distforest.sources.staging import Staged
from distforest.stores.claims import Claim
from distforest.stores.folder import Folder
from tests.jobs.iris_jobs import N_TREES, run


def receipt(first: int, last: int, **versions: str) -> Receipt:
    return Receipt(first, last, "trees", 0.0, growth=GROWTH, **{**VERSIONS_HERE, **versions})  # type: ignore[arg-type]


# --- the growth -------------------------------------------------------------------------------------------


def work_of(inputs: Inputs, spec: Spec, growth: int, kind: str) -> Any:
    """Do a part of a job that was handed out by another version of the growth."""
    shards, of_another = Folder(f"{spec.output}.job").within("shards"), replace(inputs, growth=growth)
    if kind == "survey":
        return survey(of_another)
    if kind == "grow":
        return grow_shard(GrowTask(of_another, shards.address, 0, 1))
    if kind == "lay out":
        return plan_layout(LayoutTask(of_another, {}, shards, "trees"))
    if kind == "screen":
        assert isinstance(inputs.matrix, Staged)
        features = tuple(range(4))
        return screen_block(
            BlockTask(
                ScreenedMatrix(inputs.matrix, inputs.matrix.shape, (), inputs.scratch),
                3,
                features,
                features,
                False,
                growth,
            )
        )
    return lead(LeadTask(spec, shards.address, "job", Claim(spec.output, "a test"), growth))


@pytest.mark.parametrize("kind", ["survey", "grow", "lay out", "screen", "lead"])
@pytest.mark.parametrize("growth", [1, GROWTH + 1])
def test_every_task_from_which_trees_follow_holds_the_growth(spec: Spec, kind: str, growth: int) -> None:
    inputs = stage_inputs(spec, f"{spec.output}.job")
    with pytest.raises(JobError, match=f"version {GROWTH} .*version {growth}:"):
        work_of(inputs, spec, growth, kind)
    if kind in {"survey", "grow", "screen"}:
        work_of(inputs, spec, GROWTH, kind)


def test_inputs_that_another_version_has_staged_are_refused(spec: Spec) -> None:
    """As one reading may be of another precision; one that knows of no versions says nothing of its own."""
    inputs = stage_inputs(spec, f"{spec.output}.job")
    assert inputs.growth == GROWTH
    del inputs.__dict__["growth"]
    with pytest.raises(JobError, match=f"version 1 .*version {GROWTH}:"):
        fit(inputs, spec.output, Folder(f"{spec.output}.job"), Threads(1), Options())


def test_a_receipt_of_another_growth_ends_the_job_when_it_comes(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = []

    def of_an_earlier_version(task: GrowTask) -> Receipt:
        tasks.append(task)
        return replace(grow_shard(task), growth=1)

    monkeypatch.setattr("distforest.jobs.train.grow_shard", of_an_earlier_version)
    with pytest.raises(JobError, match=f"version 1 .*version {GROWTH}:"):
        run(spec, Threads(1), on_answer=lambda _: pytest.fail("it was told of trees that do not belong to it"))
    assert not Path(spec.output).exists()


# --- what computes ----------------------------------------------------------------------------------------


def test_versions_are_counted_in_trees() -> None:
    receipts = [receipt(0, 3), receipt(4, 4, numba="0.1"), receipt(5, 9), receipt(10, 10, distforest="0")]
    same = {name: VERSIONS_HERE[name] for name in ("numpy", "numba")}
    assert grown_by(receipts) == [
        {"trees": 9, **VERSIONS_HERE},
        {"trees": 1, "distforest": "0", **same},
        {"trees": 1, **VERSIONS_HERE, "numba": "0.1"},
    ]
    assert warning_about_versions(receipts[2:]) == ""  # of one growth, and the same bits
    told = warning_about_versions(receipts)
    assert re.search(rf"\b1 .*numpy {VERSIONS_HERE['numpy']}, numba 0\.1", told)
    assert re.search(r"\b9 ", told)


def test_trees_of_an_unknown_numba_are_reported() -> None:
    told = warning_about_versions([receipt(0, 3), Receipt(4, 5, "trees", 0.0, growth=GROWTH)])
    assert re.search(r"\b2 .*numpy unknown, numba unknown", told)


def test_one_set_of_versions_is_reported_and_warned_of_by_nobody(spec: Spec) -> None:
    told: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = run(spec, Threads(2), on_answer=told.append)
    assert {type(answer) for answer in told} == {Receipt}
    manifest = read_manifest(done.address)
    assert manifest["provenance"]["grown_by"] == [{"trees": N_TREES, **VERSIONS_HERE}]
    words = ", ".join(f"{name} {VERSIONS_HERE[name]}" for name in sorted(VERSIONS_HERE))
    assert ("grown by", f"{words}: {N_TREES} trees") in reports.inspected(done.address, manifest, None, None).lines


def test_a_run_that_goes_on_with_another_numba_says_so(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    grow, grown = Problem.grow, list[int]()

    def interrupted(problem: Problem, trees: np.ndarray) -> dict[str, np.ndarray]:
        if len(grown) == 4:
            raise KeyboardInterrupt
        grown.extend(trees.tolist())
        return grow(problem, trees)

    monkeypatch.setattr(Problem, "grow", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(spec, Threads(1))
    monkeypatch.undo()
    monkeypatch.setitem(versions.VERSIONS_HERE, "numba", "99.0")
    done = run(spec, Threads(1))
    (told,) = done.warnings
    assert re.search(r"numba 99\.0.*run\.overwrite", told)
    found = read_manifest(done.address)["provenance"]["grown_by"]
    assert [(own["trees"], own["numba"]) for own in found] == [(8, "99.0"), (4, version("numba"))]


def of_another_numba() -> None:
    """In a worker: as if another version were installed."""
    versions.VERSIONS_HERE["numba"] = "99.0"


@pytest.mark.slow
@pytest.mark.cluster
def test_workers_of_two_numbas_are_reported(cluster: OnDask, spec: Spec) -> None:
    first, *_ = cluster.client.nthreads()
    cluster.client.run(of_another_numba, workers=[first])
    done = run(replace(spec, params={**spec.params, "n_estimators": 60}), cluster)
    assert any("numba 99.0" in told for told in done.warnings)
    found = open_forest(done.address).provenance["grown_by"]
    assert sum(own["trees"] for own in found) == 60
    assert {own["numba"] for own in found} == {"99.0", VERSIONS_HERE["numba"]}


@pytest.mark.slow
@pytest.mark.parametrize("told", [None, "text", [], [3, None], [{"trees": {"a": [1]}}]])
def test_a_stranger_may_write_anything_there(spec: Spec, told: Any) -> None:
    done = run(spec, Threads(1))
    manifest = read_manifest(done.address)
    manifest["provenance"]["grown_by"] = told
    assert reports.inspected(done.address, manifest, None, None).answer["provenance"]["grown_by"] == told
