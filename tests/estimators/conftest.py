"""What tests of estimators share: where files are staged, and a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from distforest.jobs.on_dask import local_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from distributed import Client


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for staged files and for temporary ones."""
    monkeypatch.setenv("DISTFOREST_SCRATCH", str(tmp_path / "scratch"))
    return tmp_path


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of an embedded cluster of one worker."""
    folder = tmp_path_factory.mktemp("cluster")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISTFOREST_SCRATCH", str(folder / "scratch"))
        patch.setattr("tempfile.tempdir", str(folder))
        with local_cluster(workers=1, folder=folder) as cluster:
            yield cluster.client
