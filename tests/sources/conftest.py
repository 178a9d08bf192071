"""What the tests of sources share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from distforest.errors import InputError
from distforest.sources.files.ingest import ingest
from tests.messages import naming

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], str]:
    """A function that writes a text file and gives its path."""

    def write(name: str, text: str) -> str:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., str]:
    """A function that ingests what must be refused by names, leaving nothing behind, and gives the message."""

    def refused(source: str, *parts: object, **options: object) -> str:
        before = sorted(tmp_path.iterdir())
        with pytest.raises(InputError, match=naming(*parts)) as caught:
            ingest(source, str(tmp_path / "out.zarr"), **options)  # type: ignore[arg-type]
        assert sorted(tmp_path.iterdir()) == before
        return str(caught.value)

    return refused
