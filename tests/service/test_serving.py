"""A service on this machine: a job's way from a spec to the forest, and what keeps a service from starting."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from types import SimpleNamespace

import dask
import numpy as np
import pytest
from click.testing import CliRunner

from distforest.command_line import cli
from distforest.errors import JobError
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.spec import Spec
from distforest.jobs.train import fit_here
from distforest.service import serving
from distforest.service.calls import Service
from distforest.service.registry import Registry
from distforest.sources.arrays import open_array, write_array
from tests.messages import naming

SPEC = """\
format = 1
method = "smerf"
seed = 3
output = "forest.zarr"
input = { features = "data.zarr/X", distances = "data.zarr/Z" }
params = { n_estimators = 6 }
"""
SCORING = """\
format = 1
job = "score"
output = "near.zarr"
input = { forest = "forest.zarr", queries = "data.zarr/X" }
params = { answer = "neighbors", n_neighbors = 3 }
"""


@contextmanager
def serving_process(root, *more):
    """A service as a process of its own; gives the process and what it says of itself."""
    ports = () if "--port" in more else ("--port", "0")
    command = [sys.executable, "-m", "distforest", "serve", "--job-root", str(root), "--workers", "1", "--json"]
    command += [*ports, "--dashboard-port", "0", *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            if process.poll() is None:
                process.kill()


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    features = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    arrays = {"X": features, "Z": np.abs(features[:, None, 0] - features[:, 0])}
    for name, values in arrays.items():
        write_array(str(tmp_path / "data.zarr"), name, values.shape, values.dtype, [values])
    (tmp_path / "fit.toml").write_text(SPEC)
    (tmp_path / "score.toml").write_text(SCORING)
    return tmp_path


@pytest.mark.cluster
@pytest.mark.slow
def test_jobs_are_served(home):
    expected = fit_here(stage_inputs(Spec.from_toml(home / "fit.toml"), f"{home}/x.job").problem()).digest
    with serving_process(home / "jobs") as (process, place):

        def run(*arguments):
            done = CliRunner().invoke(cli.main, [*arguments, "--scheduler", place["address"], "--json"])
            return done.exit_code, json.loads(done.stdout)

        code, found = run("submit", "fit.toml", "--id", "first", "--wait")
        assert (code, found["state"], found["result"]["digest"]) == (0, "SUCCEEDED", expected)
        again = run("submit", "fit.toml", "--id", "first", "--if-exists", "ok")
        assert again == (0, {"id": "first", "state": "SUCCEEDED", "created": False})
        assert run("submit", "fit.toml", "--id", "first")[0] == 8
        assert run("submit", "fit.toml", "--id", "first", "--set", "seed=4", "--if-exists", "ok")[0] == 8
        assert run("submit", "fit.toml", "--set", "input.features=nowhere.zarr/X")[0] == 2
        assert run("submit", "score.toml", "--set", "input.queries=nowhere.zarr/X")[0] == 2
        assert run("submit", "score.toml", "--id", "second", "--wait")[0] == 0
        assert open_array(str(home / "near.zarr/indices")).shape == (30, 3)
        code, found = run("list")
        assert [(job["id"], job["state"]) for job in found["jobs"]] == [("second", "SUCCEEDED"), ("first", "SUCCEEDED")]
        assert found["service"]["job_root"] == place["job_root"] == str(home / "jobs")
        events = CliRunner().invoke(cli.main, ["logs", "first", "-f", "--scheduler", place["address"], "--json"])
        told = [json.loads(line) for line in events.stdout.splitlines()]
        assert (told[0]["event"], told[-1]["event"]) == ("submitted", "succeeded")
        assert [event["n"] for event in told] == list(range(1, len(told) + 1))
        assert [run(name, "first")[0] for name in ("cancel", "resume")] == [2, 2]
        assert run("rm", "second") == (0, {"removed": ["second"]})
        assert [run(name, "second")[0] for name in ("status", "wait", "cancel", "resume", "rm")] == [4] * 5
        with urllib.request.urlopen(place["page"], timeout=120) as page:
            assert "first" in page.read().decode()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert (process.returncode, err.splitlines()[-1][:8]) == (0, "stopped;")
    assert "Traceback" not in err
    alone = CliRunner().invoke(cli.main, ["list", "--job-root", "jobs", "--json"])
    assert [job["state"] for job in json.loads(alone.stdout)["jobs"]] == ["SUCCEEDED"]


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("ignored", [False, True])
def test_the_end_of_its_terminal_ends_a_service_in_good_order(tmp_path, ignored):
    """Unless it was started so that it goes on, as by nohup; then it is ended by the next signal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        with serving_process(tmp_path / "jobs") as (process, place):
            process.send_signal(signal.SIGHUP)
            if ignored:
                assert Service(place["address"]).health()["pid"] == process.pid
                process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=120)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (process.returncode, err.splitlines()[-1][:8]) == (0, "stopped;")
    assert "Traceback" not in err
    assert Registry(str(tmp_path / "jobs")).lease() is None


class OrderedCluster:
    """A cluster without processes, which notes in which order it and the service in its scheduler are closed."""

    def __init__(self):
        self.closed = []
        self.scheduler = SimpleNamespace(
            address="tcp://127.0.0.1:1",
            http_server=SimpleNamespace(port=2),
            extensions={"distforest": SimpleNamespace(close=self._closing("service"))},
            finished=asyncio.Event().wait,
        )

    def _closing(self, what):
        async def close():
            self.closed.append(what)

        return close

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_error):
        self.closed.append("workers")


def test_a_service_that_is_ended_closes_before_its_workers_which_are_not_told_as_lost(monkeypatch):
    cluster = OrderedCluster()

    async def started(**_arguments):
        return cluster

    monkeypatch.setattr(serving, "LocalCluster", started)
    serving.serve("jobs", lambda *_place: signal.raise_signal(signal.SIGTERM))
    assert cluster.closed == ["service", "workers"]


@pytest.mark.slow
@pytest.mark.cluster
def test_what_keeps_a_service_from_starting(tmp_path):
    (tmp_path / "file").write_text("")
    with serving_process(tmp_path / "file") as (process, told):
        _, err = process.communicate(timeout=120)
    assert (process.returncode, told["exit_code"]) == (1, 1)
    assert "the distforest service" in err
    assert "Traceback" not in err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with serving_process(tmp_path / "jobs", "--port", str(taken.getsockname()[1])) as (process, told):
            _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Address already in use" in told["error"]["message"]  # the system says so
    assert "Traceback" not in err


def test_workers_that_could_not_start_are_no_service(tmp_path):
    done = CliRunner().invoke(cli.main, ["serve", "--job-root", str(tmp_path / "jobs"), "--memory-limit", "1KiB"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert re.match(naming("290 MiB", "1,024 bytes"), done.stderr)
    assert not (tmp_path / "jobs").exists()


@pytest.mark.parametrize("flags", [["--memory-limit", "much"], ["--workers", "0"], ["--port", "70000"]])
def test_what_no_machine_has_is_a_usage_error(tmp_path, flags):
    assert CliRunner().invoke(cli.main, ["serve", "--job-root", str(tmp_path), *flags]).exit_code == 2


def test_a_folder_that_takes_no_files_of_workers_is_reported_before_anything_starts(tmp_path):
    (tmp_path / "a file").touch()
    with (
        dask.config.set({"temporary-directory": str(tmp_path / "a file")}),
        pytest.raises(JobError, match=naming(tmp_path / "a file")),
    ):
        serving.serve(str(tmp_path / "jobs"), lambda *_: None)
    assert not (tmp_path / "jobs").exists()
