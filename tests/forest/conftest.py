"""Copies of sealed forests, to be damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.forest.sealed.damage import SealedOf


@pytest.fixture(scope="session")
def copies(sealed_of: SealedOf, tmp_path_factory: pytest.TempPathFactory) -> SealedOf:
    """A function that gives a copy of a sealed forest; whoever damages it puts it right again (`damaged`)."""
    found: dict[str, Path] = {}

    def copy_of(case: str) -> Path:
        if case not in found:
            found[case] = tmp_path_factory.mktemp("copies") / f"{case}.forest.zarr"
            shutil.copytree(sealed_of(case), found[case])
        return found[case]

    return copy_of


@pytest.fixture
def damaged(sealed_of: SealedOf, tmp_path: Path) -> SealedOf:
    """A function that gives a copy of a sealed forest for this test alone."""
    return lambda case: Path(shutil.copytree(sealed_of(case), tmp_path / f"{case}.forest.zarr"))
