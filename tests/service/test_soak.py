"""The soak of `benchmarks/soak.py`, for seconds in place of minutes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(900)
@pytest.mark.skipif(not SOAK.exists(), reason="benchmarks are not part of this distribution")
@pytest.mark.skipif(sys.platform != "linux", reason="workers are found by their command lines")
def test_no_job_is_lost_and_none_is_wrong_while_processes_die(tmp_path):
    command = [sys.executable, str(SOAK), "--minutes", "0.4", "--jobs", "8", "--seed", "3", "--keep", str(tmp_path)]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("DASK_", "DISTFOREST_"))}
    source = {"PYTHONPATH": str(SOAK.parents[1])}
    done = subprocess.run(command, env={**inherited, **source}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 SUCCEEDED" in done.stdout
    blows = next(line for line in done.stdout.splitlines() if line.startswith("| blows |"))
    assert "1 x kill scheduler" in blows, done.stdout
