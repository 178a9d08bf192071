"""What the tests of jobs share: workers, a small job, and copies of folders that a file of tests makes once."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from distforest.jobs.on_dask import OnDask, local_cluster
from tests.jobs.iris_jobs import spec_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from distforest.jobs.spec import Spec


@pytest.fixture(scope="module")
def cluster() -> Iterator[OnDask]:
    """Two workers for the tests of a file, as a worker takes seconds to start; who dies is replaced."""
    with local_cluster(2) as cluster:
        yield cluster


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    """The job over iris, with its inputs in the test's own folder."""
    return spec_in(tmp_path)


@pytest.fixture
def place(made: Path, tmp_path: Path) -> str:
    """The test's own copy of the folder that the fixture `made` of its file gives."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return str(tmp_path)
