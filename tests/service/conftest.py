"""What the tests of faults share: data, and the digest that no fault may change."""

from __future__ import annotations

import pytest

from tests.service.processes import Iris


@pytest.fixture(scope="module")
def iris(tmp_path_factory: pytest.TempPathFactory) -> Iris:
    return Iris.written(tmp_path_factory.mktemp("iris"))


@pytest.fixture(scope="module")
def digest(iris: Iris) -> str:
    """Of the run in one thread, in memory, that nothing disturbs."""
    return iris.digest(iris.spec("here"))
