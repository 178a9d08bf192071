"""Forests that earlier versions have sealed: each opens, has its digest, and answers as it did.

Each .zip holds a forest of `POINTS` and what it said of `QUERIES`: one in Zstandard, as the first versions wrote,
the others in LZ4; ``members`` has distances in fixed point.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from distforest import load
from distforest.forest.sealed.artifact import open_forest

FOLDER = Path(__file__).parent / "older"
N, P = 40, 4
POINTS = (((np.arange(N * P) * 2654435761 % 2**32) >> 16) % 101).reshape(N, P) / 8.0 - 4.0
QUERIES = POINTS[:5] + 0.25
DIGESTS = {
    "members_zstd": "1e6bac0d520f",
    "members_lz4": "1e6bac0d520f",
    "class_counts_lz4": "2c7527348607",
    "means_lz4": "4aa9e6d0e257",
    "votes_lz4": "995bdab0cdad",
}


@pytest.fixture(params=DIGESTS)
def older(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """The name of a file, and where it was unpacked."""
    with zipfile.ZipFile(FOLDER / f"{request.param}.zip") as archive:
        archive.extractall(tmp_path)
    return request.param, tmp_path


def test_an_older_forest_opens_and_answers_as_it_did(older: tuple[str, Path]) -> None:
    name, folder = older
    forest = load(folder / "forest.zarr")
    assert forest.digest_.startswith(DIGESTS[name])
    np.testing.assert_allclose(forest.distance(QUERIES), np.load(folder / "answers.npy"), rtol=1e-14, atol=0)


def test_an_older_forest_that_is_saved_again_is_the_same(older: tuple[str, Path], tmp_path: Path) -> None:
    _, folder = older
    forest = load(folder / "forest.zarr")
    assert forest.save(tmp_path / "again.zarr") == forest.digest_ == open_forest(str(tmp_path / "again.zarr")).digest


def test_each_file_is_of_the_codec_that_it_says() -> None:
    for name in DIGESTS:
        with zipfile.ZipFile(FOLDER / f"{name}.zip") as archive:
            codec = archive.read("forest.zarr/left/zarr.json")
        assert (b"zstd" in codec) == name.endswith("zstd")
