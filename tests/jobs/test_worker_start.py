"""How the workers of an embedded cluster start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from distforest.errors import JobError
from distforest.jobs import on_dask, worker_start
from distforest.jobs.worker_start import ENVIRONMENT, check_room, start_method, uninterrupted
from distforest.sources.arrays import write_array
from tests.messages import naming

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

A_JOB = """
import json, os, sys
import psutil
from distforest.jobs.on_dask import local_cluster
from distforest.jobs.spec import Spec
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.train import Options, fit
from distforest.stores.folder import Folder

def seen():
    import os, sys
    names = [name for name in sys.modules if name.split(".")[0] in ("distforest", "numba", "distributed")]
    return os.getppid(), os.environ["OMP_NUM_THREADS"], names

if __name__ == "__main__":
    spec = Spec.from_dict(json.loads(sys.argv[1]))
    with local_cluster(2) as cluster:
        first = list(cluster.client.run(seen).values())
        parents = {psutil.Process(parent) for parent, _, _ in first}
        told = [[parent.ppid() == os.getpid(), parent.num_threads()] for parent in parents]
        fit(stage_inputs(spec, "job"), "forest.zarr", Folder("job"), cluster, Options())
        last = list(cluster.client.run(seen).values())
    new = set().union(*(names for _, _, names in last)).difference(*(names for _, _, names in first))
    print(json.dumps({"parents": told, "threads": sorted({threads for _, threads, _ in first}), "new": sorted(new)}))
"""


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone")
def test_workers_are_forked_from_a_process_that_has_imported_all_that_they_need(tmp_path: Path) -> None:
    (tmp_path / "a_job.py").write_text(A_JOB)
    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    write_array(str(tmp_path / "data.zarr"), "X", X.shape, X.dtype, [X])
    write_array(str(tmp_path / "data.zarr"), "y", (40,), np.int64, [(X[:, 0] > 0).astype(np.int64)])
    labels = {"kind": "labels", "values": "data.zarr/y"}
    spec = {"format": 1, "method": "smerf", "seed": 0, "output": "forest.zarr", "params": {"n_estimators": 4}}
    spec |= {"input": {"features": "data.zarr/X", "distances": labels}, "run": {"scratch": str(tmp_path / "scratch")}}
    command = [sys.executable, "a_job.py", json.dumps(spec)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"parents": [[True, 1]], "threads": ["1"], "new": []}


A_FORK = """
import json, multiprocessing, os, sys
from distforest.jobs.worker_start import start_method

def seen():
    import distributed
    print(json.dumps({"distributed": distributed.__file__, "variables": dict(os.environ)}))

if __name__ == "__main__":
    assert start_method() == "forkserver"
    process = multiprocessing.get_context("forkserver").Process(target=seen)
    process.start()
    process.join()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone")
def test_workers_import_nothing_from_the_current_directory(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "distributed.py").write_text("raise SystemExit('a file of the user')")
    (tmp_path / "a_fork.py").write_text(A_FORK)
    given = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    given["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, str(tmp_path / "a_fork.py")]
    done = subprocess.run(command, cwd=tmp_path / "data", env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    found = json.loads(done.stdout)
    assert found["distributed"] == worker_start.distributed.__file__
    assert {name for name in found["variables"] if "PATH" in name or "DISTFOREST" in name} == {
        name for name in given if "PATH" in name or "DISTFOREST" in name
    }
    assert found["variables"]["PYTHONPATH"] == given["PYTHONPATH"]


def test_where_nothing_can_be_forked_interpreters_are_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> NoReturn:
        raise OSError("AF_UNIX path too long")

    monkeypatch.setattr(forkserver, "ensure_running", refuse)
    assert start_method() == "spawn"
    monkeypatch.setattr(worker_start.sys, "platform", "darwin")
    monkeypatch.setattr(forkserver, "ensure_running", lambda: None)
    assert start_method() == "spawn"


def test_what_workers_start_in_is_left_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Mapping[str, str]] = []
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setattr(forkserver, "ensure_running", lambda: found.append(dict(os.environ)))
    with worker_start.dask.config.set({ENVIRONMENT: {"OMP_NUM_THREADS": 1, "OF_OURS": 7}}):
        start_method()
    assert found[0]["OMP_NUM_THREADS"] == "3"  # a user's own
    assert found[0]["OF_OURS"] == "7"
    assert "OF_OURS" not in os.environ


def test_a_folder_that_takes_no_files_is_reported_before_workers_start(tmp_path: Path) -> None:
    check_room(tmp_path / "not" / "yet")
    (tmp_path / "a file").touch()
    with pytest.raises(JobError, match=naming("workers", "Errno 20", tmp_path / "a file")):
        check_room(tmp_path / "a file" / "in it")


def test_a_signal_while_workers_start_comes_when_they_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = []

    class Started:
        def __init__(self, **_: object) -> None:
            signal.raise_signal(signal.SIGINT)
            ends.append("started")

        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            ends.append("closed")

    monkeypatch.setattr(on_dask, "LocalCluster", Started)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), on_dask.local_cluster(1):
        ends.append("used")
    assert ends == ["started", "closed"]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_signal_is_not_held_back() -> None:
    seen = []

    def interrupted() -> None:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            seen.append("first")
            signal.raise_signal(signal.SIGINT)
            seen.append("second")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert seen == ["first"]
