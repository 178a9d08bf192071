"""What tests of the service share: job roots, a store, a page server, and data with their digest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from distforest.service.registry import Registry
from distforest.stores.folder import Folder
from tests.service.jobs_on_paper import NOWHERE
from tests.service.object_store import ObjectStore, reached_store
from tests.service.page_server import Served, serving
from tests.service.processes import Cluster, Iris, undisturbed


@pytest.fixture(autouse=True)
def nowhere() -> None:
    """No job on paper of another test owns its output."""
    Folder(NOWHERE).remove()


@pytest.fixture(scope="module")
def iris(tmp_path_factory: pytest.TempPathFactory) -> Iris:
    return Iris.written(tmp_path_factory.mktemp("iris"))


@pytest.fixture(scope="module")
def digest(iris: Iris) -> str:
    """Of the run in one thread, in memory, that nothing disturbs."""
    return iris.digest(iris.spec("here"))


@pytest.fixture
def cluster(started: Cluster) -> Iterator[Cluster]:
    """The cluster that a module has started for all its tests."""
    with undisturbed(started):
        yield started


@pytest.fixture
def root(tmp_path: Path) -> str:
    """The address of a job root."""
    return f"{tmp_path}/root"


@pytest.fixture(params=["a path", "a URL"])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Registry]:
    """A job root in the file system, and one that cannot append."""
    found = Registry(f"{tmp_path}/root" if request.param == "a path" else f"memory://{tmp_path}")
    yield found
    found.folder().remove()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with reached_store(tmp_path_factory.mktemp("store")) as store:
        yield store


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """The pages over HTTP."""
    with serving() as running:
        yield running
