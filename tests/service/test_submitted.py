"""A job that is submitted in Python: the same calls and words as those of the commands."""

from __future__ import annotations

import json

import numpy as np
import pytest

import distforest
from distforest import SMERF, SubmittedJob, submit
from distforest.errors import (
    ExistsError,
    InputError,
    NotDoneError,
    NotFoundError,
    SpecError,
    UnreachableError,
    WaitTimeoutError,
)
from distforest.jobs.any_spec import spec_from_dict
from distforest.service.registry import Registry
from distforest.service.whereabouts import Whereabouts
from tests.messages import naming
from tests.service.command_line import NOBODY, quick  # noqa: F401
from tests.service.fake_service import CANCELLED, FAILED, JOB, RESULT, SUCCEEDED, FakeService, refusal

ID = JOB["id"]
SPEC = {
    "format": 1,
    "method": "smerf",
    "output": "forest.zarr",
    "input": {"features": "data.zarr/X", "distances": "/data.zarr/Z"},
}
TOML = """format = 1
method = "smerf"
output = "forest.zarr"
[input]
features = "data.zarr/X"
distances = "/data.zarr/Z"
"""


@pytest.fixture
def taking():
    with FakeService({"submit": {"job": {**JOB, "state": "QUEUED"}, "created": True}}) as fake:
        yield fake


@pytest.mark.parametrize("form", ["a path", "a text", "a mapping", "a spec"])
def test_a_spec_in_any_form_is_sent_with_absolute_paths(form, taking, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.toml").write_text(TOML)
    forms = {"a path": tmp_path / "job.toml", "a text": "job.toml", "a mapping": SPEC, "a spec": spec_from_dict(SPEC)}
    job = submit(forms[form], taking.address, "mine")
    assert job == SubmittedJob(ID, taking.address)
    [(_, asked)] = taking.asked
    sent = json.loads(asked["spec"])
    assert (asked["id"], sent["output"]) == ("mine", f"{tmp_path}/forest.zarr")
    assert sent["input"]["features"] == f"{tmp_path}/data.zarr/X"


def test_a_job_that_exists_is_refused_or_returned(monkeypatch):
    monkeypatch.setenv("USER", "ada")
    with FakeService({"submit": {"job": JOB, "created": False}}) as fake:
        with pytest.raises(ExistsError, match=ID):
            submit(SPEC, fake.address, ID)
        assert submit(SPEC, fake.address, ID, if_exists="ok", owner="charles") == SubmittedJob(ID, fake.address)
    assert [asked["owner"] for _, asked in fake.asked] == ["ada", "charles"]


def test_faults_and_refusals_are_the_errors_of_the_package(taking):
    with pytest.raises(SpecError, match="method"):
        submit({**SPEC, "method": "smurf"}, taking.address)
    assert taking.asked == []
    with pytest.raises(UnreachableError):
        submit(SPEC, NOBODY)
    with pytest.raises(InputError, match="scheduler"):
        submit(SPEC)
    with FakeService({"status": refusal("NotFoundError", "there is no job")}) as fake, pytest.raises(NotFoundError):
        SubmittedJob(ID, Whereabouts(fake.address)).status()


def test_status_and_cancel_give_the_state(monkeypatch):
    monkeypatch.delenv("USER", raising=False)
    with FakeService({"status": {"job": JOB}, "cancel": {"job": CANCELLED}}) as fake:
        job = SubmittedJob(ID, fake.address)
        assert (job.status(), job.cancel()) == (JOB, CANCELLED)
        job.cancel("charles")
        monkeypatch.setenv("USER", "ada")
        job.cancel()
        owners = [{}, {"owner": "charles"}, {"owner": "ada"}]
        assert fake.asked == [("status", {"id": ID}), *(("cancel", {"id": ID, **owner}) for owner in owners)]


def test_waiting_is_silent_or_shows_what_the_command_shows(capsys):
    for verbose in (0, 1):
        with FakeService({"status": [{"job": JOB}, {"job": JOB}, {"job": SUCCEEDED}]}) as fake:
            job = SubmittedJob(ID, fake.address)
            assert job.wait(verbose=verbose) is job
        said = capsys.readouterr().err.splitlines()
        assert [line.split(",")[0] for line in said] == [
            *(f"{ID} is RUNNING", "grow 120/500 trees"),
            *(f"{ID} is SUCCEEDED", "grow 500/500 trees"),
        ][: 4 * verbose]


@pytest.mark.parametrize(
    ("state", "named"),
    [(FAILED, ("MemoryLimitError: too big", "`distforest resume")), (CANCELLED, ("cancelled", "`distforest resume"))],
)
def test_a_job_without_a_result_is_an_error_with_its_state(state, named):
    with FakeService({"status": {"job": state}}) as fake:
        job = SubmittedJob(ID, fake.address)
        for call in (job.wait, job.forest):
            with pytest.raises(NotDoneError, match=naming(ID, *named)) as raised:
                call()
            assert raised.value.job == state


def test_a_job_that_runs_has_no_forest_yet_and_waiting_has_an_end():
    with FakeService({"status": {"job": JOB}}) as fake:
        job = SubmittedJob(ID, fake.address)
        with pytest.raises(NotDoneError, match=naming(ID, "RUNNING")):
            job.forest()
        with pytest.raises(WaitTimeoutError, match=naming(ID, "RUNNING", "0.05 s")):
            job.wait(0.05)


def test_the_forest_of_a_job_is_opened_as_load_opens_it(tmp_path):
    X = np.eye(6)
    grown = SMERF(2, random_state=0).fit(X, [0, 0, 0, 1, 1, 1])
    grown.save(tmp_path / "x.zarr")
    done = {**SUCCEEDED, "result": {**RESULT, "forest": f"{tmp_path}/x.zarr"}}
    with FakeService({"status": {"job": done}}) as fake:
        assert SubmittedJob(ID, fake.address).forest().digest_ == grown.digest_
    answers = {**SUCCEEDED, "kind": "score", "output": "/data/out.zarr", "result": {"output": "/data/out.zarr"}}
    with (
        FakeService({"status": {"job": answers}}) as fake,
        pytest.raises(InputError, match=naming("scoring", "/data/out.zarr")),
    ):
        SubmittedJob(ID, fake.address).forest()


def test_without_a_scheduler_the_job_root_is_read(tmp_path):
    Registry(str(tmp_path / "jobs")).create(ID, "{}", {**SUCCEEDED})
    job = SubmittedJob(ID, Whereabouts(job_root=str(tmp_path / "jobs")))
    assert job.wait().status()["state"] == "SUCCEEDED"


@pytest.mark.parametrize(
    ("answer", "told", "untold"),
    [
        ({"job": JOB}, ["RUNNING", "grow 120/500 trees, 24 %", "/data/x.forest.zarr"], ["digest", "error"]),
        ({"job": SUCCEEDED}, ["SUCCEEDED", "/data/x.forest.zarr", "d" * 64], ["progress"]),
        ({"job": FAILED}, ["FAILED", "MemoryLimitError: too big"], ["digest", "progress"]),
        ({"job": {**JOB, "output": "<script>&"}}, ["&lt;script&gt;&amp;"], ["<script"]),
        (refusal("NotFoundError", "there is no job <x>"), ["not known: there is no job &lt;x&gt;"], ["<x>"]),
    ],
)
def test_a_notebook_shows_a_job_as_a_table(answer, told, untold):
    with FakeService({"status": answer}) as fake:
        shown = SubmittedJob(ID, fake.address)._repr_html_()
    assert ID in shown
    assert [words for words in told if words not in shown] == []
    assert [words for words in untold if words in shown] == []


def test_a_notebook_shows_from_where_a_job_was_read(tmp_path):
    Registry(str(tmp_path / "jobs")).create(ID, "{}", {**SUCCEEDED})
    shown = SubmittedJob(ID, Whereabouts(NOBODY, job_root=str(tmp_path / "jobs")))._repr_html_()
    assert "SUCCEEDED" in shown
    assert "job root" in shown
    assert f"{NOBODY}: " in SubmittedJob(ID, NOBODY)._repr_html_()


def test_names_are_those_of_the_package():
    assert {"SubmittedJob", "submit"} <= set(distforest.__all__)
