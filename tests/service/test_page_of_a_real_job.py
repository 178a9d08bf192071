"""The pages over the real service: a real job is watched from its submission to its forest, in a real browser."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from distforest.forest.sealed.artifact import open_forest
from distforest.service.calls import Service
from tests.service.browser import MISSING, browsing
from tests.service.processes import PATIENCE

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]

N_TREES = 24
METRICS = ("distforest_trees_committed_total", "distforest_growth_seconds_total", "distforest_workers")


@contextmanager
def process(folder: Path, name: str, *arguments: str) -> Iterator[None]:
    """A program of Dask, until the block ends; what it said is in a file of its name."""
    with (folder / f"{name}.log").open("wb") as log:
        command = [sys.executable, "-m", "dask", *arguments]
        running = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            running.terminate()
            try:
                running.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait(20)


def scheduler_of(file: Path) -> tuple[str, str]:
    """The address of a scheduler, and of its pages, once it has written them down."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            said = json.loads(file.read_text())
            return said["address"], f"http://127.0.0.1:{said['services']['dashboard']}/distforest"
        except (FileNotFoundError, ValueError):
            assert time.monotonic() < end, "the scheduler has not started"
            time.sleep(0.05)


def answer(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE) as said:
        return str(said.read().decode())


def numbers(page: str) -> dict[str, float]:
    """The metrics that have no label."""
    lines = [line.split(" ") for line in answer(f"{page}/metrics").splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines if "{" not in name}


@pytest.fixture
def spec(tmp_path: Path) -> dict[str, Any]:
    random = np.random.default_rng(5)
    points = random.normal(size=(150, 6)).astype(np.float32)
    distances = np.linalg.norm(points[:, None, :2] - points[None, :, :2], axis=2)
    for name, array in (("X", points), ("Z", distances.astype(np.float32))):
        zarr.save_array(tmp_path / "data.zarr" / name, array)
    data = {"features": f"{tmp_path}/data.zarr/X", "distances": f"{tmp_path}/data.zarr/Z"}
    job = {"format": 1, "method": "smerf", "seed": 5, "output": f"{tmp_path}/forest.zarr", "input": data}
    return {**job, "params": {"n_estimators": N_TREES}, "run": {"batch": 2}}


def test_a_real_job_is_watched_to_its_forest(spec: dict[str, Any], tmp_path: Path) -> None:
    where = tmp_path / "scheduler.json"
    local = ("--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0")
    serve = ("--scheduler-file", str(where), "--preload", "distforest.service", "--job-root", str(tmp_path / "jobs"))
    work = (
        "--scheduler-file",
        str(where),
        "--nthreads",
        "1",
        "--no-nanny",
        "--no-dashboard",
        "--local-directory",
        str(tmp_path),
    )
    with ExitStack() as running:
        running.enter_context(process(tmp_path, "scheduler", "scheduler", *local, *serve))
        browser = running.enter_context(browsing())
        address, page = scheduler_of(where)
        browser.open(f"{page}/jobs")
        browser.wait_for("main", lambda text: "No job yet" in text)
        before = numbers(page)
        assert [before[name] for name in METRICS] == [0, 0, 0]

        Service(address).submit(json.dumps(spec), "watched")
        browser.wait_for("tbody tr", lambda text: "watched" in text and "fit, smerf" in text)
        browser.wait_for("tbody .badge", lambda text: text == "waiting for workers")
        browser.run("document.querySelector('tbody a').click()")
        browser.wait_for(".lead .badge", lambda text: text == "waiting for workers")
        running.enter_context(process(tmp_path, "worker", "worker", *work))
        browser.wait_for(".lead .badge", lambda text: text == "succeeded")

        assert f"{N_TREES} of {N_TREES} trees" in browser.text(".far").replace("\n", " ")
        assert browser.run("return document.querySelectorAll('svg')[0].children.length") == N_TREES
        forest = open_forest(spec["output"])
        assert forest.digest in browser.text("#result")
        assert browser.text(".events li:last-child").endswith("the job is taken in")
        assert browser.complaints() == []
        told = json.loads(answer(f"{page}/jobs/watched.json"))["job"]
        assert (told["state"], told["result"]["digest"]) == ("SUCCEEDED", forest.digest)
        after = numbers(page)
        assert after["distforest_trees_committed_total"] == N_TREES
        assert after["distforest_growth_seconds_total"] > 0
        assert json.loads(answer(f"{page}/health"))["status"] == "ok"
        browser.run("document.querySelector('#result a').click()")
        browser.wait_for("main", lambda text: forest.digest in text and "distforest report watched" in text)
        assert "Took" in browser.text("main")
        assert browser.complaints() == []
