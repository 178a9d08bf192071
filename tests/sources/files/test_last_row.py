"""A last row that lacks what no other row lacks, such as the total of a spreadsheet, is told."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest.errors import DistforestWarning
from distforest.sources.arrays import open_array
from distforest.sources.files.ingest import ingest
from distforest.sources.files.last_row import LastRow
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sources.helpers import Write

HEAD = "name,amount,age,rate,note\n"
ROWS = "".join(f"a{k},{k * k},{k + 20},0.5,{'x' if k % 2 else ''}\n" for k in range(20))
TOTAL = "sum,2470,,,\n"


def test_a_row_of_totals_is_told_when_it_is_ingested(write: Write, tmp_path: Path) -> None:
    with pytest.warns(DistforestWarning, match=naming("row 20 (line 22)", 2, "'age'")):
        ingest(write("sheet.csv", HEAD + ROWS + TOTAL), f"{tmp_path}/sheet.zarr", id="name")


@pytest.mark.parametrize("rows", [ROWS, ROWS + "a20,5,40,,\n", ROWS + "a20,,,,\n" + TOTAL, "a0,1,2,3,x\n" + TOTAL])
def test_other_last_rows_are_not_told(rows: str, write: Write, tmp_path: Path) -> None:
    """None; one that lacks one value; one that is not alone; that of a short table."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ingest(write("sheet.csv", HEAD + rows), f"{tmp_path}/sheet.zarr", id="name")
    assert open_array(f"{tmp_path}/sheet.zarr/X").shape[0] == rows.count("\n")


@given(st.integers(0, 2**31))
def test_a_last_row_is_odd_where_it_alone_lacks_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    missing = rng.random((25, 4)) < 0.02
    missing[-1] = rng.random(4) < 0.7
    alone = missing[-1] & ~missing[:-1].any(axis=0)
    is_much = alone.sum() >= 2 and 2 * alone.sum() > (~missing[:-1].any(axis=0)).sum()
    np.testing.assert_array_equal(LastRow(25, missing.sum(axis=0), missing[-1]).is_odd, alone & is_much)
