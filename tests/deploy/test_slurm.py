"""The SLURM script: on a real SLURM of one node it is queued again before its time is up, and goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from distforest.errors import NotFoundError
from distforest.forest.sealed.artifact import open_forest
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.spec import Spec
from distforest.jobs.train import fit_here
from distforest.service.registry import Registry
from distforest.sources.arrays import write_array
from tests.deploy.containers import PATIENCE, ROOT, until
from tests.deploy.slurm import SRUN, missing, slurm
from tests.programs import PATH, program
from tests.simulated import helix

pytestmark = pytest.mark.slow

SCRIPT = ROOT / "deploy" / "slurm" / "fit.sh"
JOB = """
format = 1
method = "urerf"
seed = 7
output = "{folder}/helix.forest.zarr"
[input]
features = "{folder}/helix.zarr/X"
[params]
n_estimators = 500
feature_weights = "none"
[run]
batch = 1
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    X = helix(300).X
    write_array(f"{tmp_path}/helix.zarr", "X", X.shape, X.dtype, [X])
    (tmp_path / "helix.toml").write_text(JOB.format(folder=tmp_path))
    return tmp_path / "helix.toml"


def digest_here(job: Path) -> str:
    """The digest of the job's forest when it is grown in one thread, in memory."""
    return fit_here(stage_inputs(Spec.from_toml(job), str(job.parent / "here")).problem()).digest


def variables(folder: Path) -> dict[str, str]:
    """What the script is told: where jobs and scratch are to be, the loopback network, and this checkout's kernels."""
    return {
        "PATH": PATH,
        "DISTFOREST_JOBS": str(folder / "jobs"),
        "TMPDIR": str(folder),
        "DISTFOREST_INTERFACE": "lo",
        "NUMBA_CACHE_DIR": "",
    }


def commits(registry: Registry, name: str) -> int:
    """How many tasks of a job are known to be committed."""
    try:
        return sum(event["event"] == "trees" for event in registry.events(name))
    except NotFoundError:
        return 0


def kill_scheduler(root: Path) -> None:
    """SIGKILL to the scheduler that the script has started."""
    ours = ["scheduler", "--scheduler-file", str(root / "scheduler.json")]
    found = [process for process in psutil.process_iter(["cmdline"]) if (process.info["cmdline"] or [])[2:5] == ours]
    assert len(found) == 1
    found[0].kill()


def attempt(registry: Registry, name: str) -> int:
    return int(registry.job(name, time.time())["attempt"])


@pytest.mark.cluster
def test_a_job_survives_its_scheduler_and_its_time_limit(job: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    if reason := missing():
        pytest.skip(f"{reason}; with a stand-in for srun, the next test does what it can")
    with slurm(tmp_path_factory.mktemp("slurm")) as running:
        running.environment.update(variables(job.parent))
        options = ("--parsable", "--ntasks=2", "--mem-per-cpu=900M", f"--output={job.parent}/out.txt")
        number = running.call("sbatch", *options, str(SCRIPT), str(job)).strip()
        name = f"slurm-{number}"
        registry = Registry(str(job.parent / "jobs" / name / "jobs"))
        until("trees are there", lambda: commits(registry, name) > 0)
        kill_scheduler(job.parent / "jobs" / name)
        until("another scheduler goes on", lambda: attempt(registry, name) == 2)
        before = commits(registry, name)
        until("more trees are there", lambda: commits(registry, name) > before)
        running.call("scancel", "--batch", "--signal=USR1", number)  # as SLURM does when the time is running out
        until("it is queued again", lambda: running.told(number, "Restarts") == "1")
        ends = {"COMPLETED", "FAILED"}
        until("it has ended", lambda: running.told(number, "JobState") in ends, lambda: running.hurry(number))
        assert (running.told(number, "JobState"), running.told(number, "ExitCode")) == ("COMPLETED", "0:0")
    found = registry.job(name, time.time())
    assert (found["state"], found["attempt"]) == ("SUCCEEDED", 3)
    assert found["result"]["digest"] == open_forest(found["output"]).digest == digest_here(job)
    assert not list(job.parent.glob("distforest-slurm-*"))


@contextmanager
def started(folder: Path, job: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The script as the batch step of an allocation of one task, with a stand-in for srun."""
    (folder / "srun").write_text(SRUN)
    (folder / "srun").chmod(0o700)
    own = variables(job.parent)
    told = {**os.environ, **own, "SLURM_JOB_ID": "7", "SLURM_NTASKS": "1", "PATH": f"{folder}:{own['PATH']}"}
    command = ["bash", str(SCRIPT), str(job)]
    with (job.parent / "out.txt").open("wb") as out:
        script = subprocess.Popen(command, env=told, stdout=out, stderr=out, cwd=job.parent, start_new_session=True)
    try:
        yield script
    finally:
        with contextlib.suppress(ProcessLookupError):  # nothing is left
            os.killpg(script.pid, signal.SIGKILL)
        script.wait(60)


def ended(script: subprocess.Popen[bytes]) -> int:
    """The exit code of the script, which must leave no process."""
    left = psutil.Process(script.pid).children(recursive=True)
    code = script.wait(PATIENCE)
    assert psutil.wait_procs(left, timeout=60)[1] == []
    return code


@pytest.mark.cluster
def test_a_job_survives_its_scheduler_without_slurm(job: Path, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    registry = Registry(str(tmp_path / "jobs" / "slurm-7" / "jobs"))
    with started(programs, job) as script:
        until("trees are there", lambda: commits(registry, "slurm-7") > 0)
        kill_scheduler(tmp_path / "jobs" / "slurm-7")
        assert ended(script) == 0, (tmp_path / "out.txt").read_text()
    found = registry.job("slurm-7", time.time())
    assert (found["state"], found["attempt"]) == ("SUCCEEDED", 2)
    assert found["result"]["digest"] == digest_here(job)
    assert not list(tmp_path.glob("distforest-slurm-*"))


STAND_IN = """\
#!/usr/bin/env bash
case "$1" in
    scheduler) exit 1 ;;
    *) exec sleep 100 ;;
esac
"""


def test_a_scheduler_that_cannot_start_ends_it_all(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("dask", "distforest"):
        (programs / name).write_text(STAND_IN)
        (programs / name).chmod(0o700)
    with started(programs, tmp_path / "job.toml") as script:
        assert ended(script) == 1
    assert not list(tmp_path.glob("distforest-slurm-*"))


def test_the_scripts_are_sound() -> None:
    assert subprocess.run(["bash", "-n", str(SCRIPT)], timeout=20, check=False).returncode == 0
    shellcheck = program("shellcheck")
    if shellcheck is None:
        pytest.skip("shellcheck is missing: apt-get install shellcheck")
    for script in (SCRIPT, *sorted((ROOT / "deploy").rglob("*.sh"))):
        checked = subprocess.run([shellcheck, str(script)], capture_output=True, text=True, timeout=60, check=False)
        assert checked.returncode == 0, checked.stdout
