"""A matrix that is passed over block by block is read as it is, and is not in memory afterwards."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from distforest.errors import DistforestWarning
from distforest.sources.arrays import release_pages, row_blocks
from distforest.sources.mapped_rows import spans
from distforest.sources.readings import DISTANCES, symmetrise
from tests.messages import naming

N = 2_000
"""Rows of a matrix of 16 MB."""

SLACK = 1 << 20
"""Bytes of other files that may come and go meanwhile."""

MOST = 6 << 20
"""Bytes of a block: 150 rows with those between them, and what the system maps beside a page that is read."""


def mapped_bytes() -> int:
    """Resident bytes of files in this process."""
    found = re.search(r"RssFile:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) << 10 if found else 0


@pytest.fixture
def matrix(tmp_path: Path) -> np.ndarray:
    values = np.random.default_rng(0).random((N, N), dtype=np.float32)
    values[np.arange(N)].sum(axis=1)  # the pages of NumPy's own code count as files from now on, and not later
    np.save(tmp_path / "z.npy", values)
    return np.load(tmp_path / "z.npy", mmap_mode="r+")


@pytest.mark.parametrize("step", [1, 3])
def test_a_pass_reads_every_row_and_holds_a_block(matrix: np.ndarray, step: int) -> None:
    rows, before = np.arange(0, N, step), mapped_bytes()
    expected, found, most = np.array(matrix).sum(axis=1)[rows], [], 0
    release_pages(matrix)
    for first, last in spans(matrix, rows, 50):
        here = rows[(rows >= first) & (rows < last)]
        found.append(matrix[here].sum(axis=1))
        most = max(most, mapped_bytes() - before)
    np.testing.assert_array_equal(np.concatenate(found), expected)
    assert most <= MOST
    assert mapped_bytes() - before <= SLACK


def test_a_pass_that_is_ended_early_gives_its_block_back(matrix: np.ndarray) -> None:
    before = mapped_bytes()
    for first, last in spans(matrix, np.arange(N), 50):
        assert matrix[first:last].any()
        break
    assert mapped_bytes() - before <= SLACK


def test_what_staging_does_with_a_map_gives_it_back(matrix: np.ndarray) -> None:
    before, values = mapped_bytes(), np.array(matrix)
    with pytest.warns(DistforestWarning, match=naming("distances: ", "z_ij")):
        symmetrise(matrix, DISTANCES)
    np.testing.assert_array_equal(matrix, values / 2 + values.T / 2)
    assert sum(float(block.sum()) for _, block in row_blocks(matrix)) > 0
    assert mapped_bytes() - before <= SLACK
