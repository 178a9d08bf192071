"""Forests that earlier versions have sealed: each opens, has its digest, and answers as it did.

Each .zip holds a forest of `POINTS` and what it said of `QUERIES`: one in Zstandard, as the first versions wrote,
the others in LZ4; ``members`` has distances in fixed point.
"""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distforest import RFD, SMERF, SimForestClassifier, load
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


OF_TRAINING_ROWS = {
    "ranges": {"least": [-4.0] * P, "greatest": [8.5, None, 8.5, 8.5]},
    "row_ranges": [{"least": [-9, -8], "mean": [-3, -2], "greatest": [0, 0], "observed": [N, N]}],
    "object_means": [[-2.5] * N],
    "lacking_columns": [2],
    "other_names": ["400", "410", "420", "430"],
}
"""Entries of a provenance that earlier versions wrote, and by which they judged queries."""


@pytest.mark.parametrize("estimator", [SMERF(3), RFD(3), SimForestClassifier("manhattan", n_estimators=3)])
@pytest.mark.parametrize("entries", [OF_TRAINING_ROWS, dict.fromkeys(OF_TRAINING_ROWS, "damaged")])
def test_a_forest_that_holds_what_is_no_longer_written_answers_as_ever(
    estimator: Any, entries: dict[str, Any], tmp_path: Path
) -> None:
    forest = estimator.set_params(random_state=0).fit(POINTS, np.arange(N) % 2)
    plain, queries = forest.forest_, np.vstack([QUERIES, 1e4 + QUERIES, np.full((1, P), np.nan)])
    expected = forest.distance(queries)
    forest.forest_ = replace(plain, provenance=plain.provenance | entries)
    assert forest.save(tmp_path / "forest.zarr") == plain.digest
    opened = load(tmp_path / "forest.zarr")
    np.testing.assert_array_equal(opened.distance(queries), expected)
    assert opened.save(tmp_path / "again.zarr") == plain.digest
