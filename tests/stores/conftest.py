"""What the tests of stores share."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["path", "memory"])
def output(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an output that is not there yet: a path, or a URL in this process."""
    return f"{tmp_path}/a.zarr" if request.param == "path" else f"memory://{uuid.uuid4().hex}/a.zarr"
