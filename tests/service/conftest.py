"""What the tests of faults share: data, and the digest that no fault may change."""

from __future__ import annotations

import pytest

from distforest.stores.folder import Folder
from tests.service.jobs_on_paper import NOWHERE
from tests.service.processes import Iris


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
