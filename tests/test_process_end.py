"""Processes of commands and of embedded clusters end without a search for cycles."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from distforest.jobs.on_dask import local_cluster

PRINT_AT_EXIT = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0)); "


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("from distforest.process_end import end_sooner; end_sooner()", "True"),
        ("from distforest.command_line.cli import main; main(['validate', 'nowhere.toml'])", "True"),
        ("import distforest", "False"),
    ],
)
def test_objects_are_frozen_as_a_process_of_our_own_ends(code: str, expected: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRINT_AT_EXIT + code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.splitlines()[-1] == expected


@pytest.mark.cluster
def test_workers_are_not_frozen_while_they_work() -> None:
    with local_cluster(1) as cluster:
        assert set(cluster.client.run(gc.get_freeze_count).values()) == {0}
