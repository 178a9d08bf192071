"""What the tests of files share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from distforest.sources.files.ingest import ingest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sources.helpers import Write


@pytest.fixture
def things(write: Write, tmp_path: Path) -> str:
    """A group whose rows have names, and no features."""
    table = write("things.csv", "name,kind\nfern,a\nmoss,b\npine,b\noak,a\n")
    ingest(table, f"{tmp_path}/things.zarr", id="name", label="kind")
    return f"{tmp_path}/things.zarr"
