"""Tables of measured pairs as sparse matrices: the mean of each pair, both ways; what is no pair is refused."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.sources.files.ingest import ingest
from distforest.sources.files.pair_tables import mean_of_pairs
from distforest.sources.opening import open_matrix
from tests.messages import naming
from tests.sources.helpers import warned

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sources.helpers import Refused, Write

MEASURED = "i,j,apart,note\nfern,moss,1.5,x\nmoss,fern,2.5,y\npine,moss,4,z\nfern,pine,,\n"
OPTIONS = {"pairs": ["i,j"], "value": "apart"}


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 9) | st.just(None)), min_size=1, max_size=40
    )
)
def test_each_pair_is_the_mean_of_its_rows(measured: list[tuple[int, int, int | None]]) -> None:
    of_pair = defaultdict(list)
    for i, j, value in measured:
        if value is not None:
            of_pair[i, j].append(value)
            if i != j:
                of_pair[j, i].append(value)
    values = np.array([np.nan if value is None else value for *_, value in measured], np.float64)
    found = mean_of_pairs(np.array([pair[:2] for pair in measured]), values, 6).tocoo()
    stored = dict(zip(zip(found.row.tolist(), found.col.tolist(), strict=True), found.data, strict=True))
    assert stored == pytest.approx({pair: np.mean(own) for pair, own in of_pair.items()})


def test_measured_pairs_become_a_sparse_matrix(write: Write, things: str, tmp_path: Path) -> None:
    table = write("measured.csv", MEASURED)
    told = warned(lambda: ingest(table, f"{tmp_path}/apart.zarr", rows=things, **OPTIONS))  # type: ignore[arg-type]
    for text, parts in zip(told, (["1 pair"], ["1 row"], ["'note'", "`value`", "`drop`"]), strict=True):
        assert re.search(naming(*parts), text)
    matrix = open_matrix(f"{tmp_path}/apart.zarr").whole()  # type: ignore[union-attr]
    assert matrix.shape == (4, 4)
    np.testing.assert_array_equal(matrix.toarray(), [[0, 2, 0, 0], [2, 0, 4, 0], [0, 4, 0, 0], [0, 0, 0, 0]])


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("i,j,apart\nfern,yew,1\n", ["row 0", "'yew'"]),
        ("i,j,apart\n0,1,1\n", ["'0'", "`ids`"]),
        ("i,j,apart\nfern,moss,far\n", ["row 0", "column 'apart'", "'far'"]),
        ("i,j,apart\nfern,moss,inf\n", ["row 0", "'inf'"]),
        ("i,j,apart\nfern,moss,\n", ["pairs", "none"]),
    ],
)
def test_what_is_no_measured_pair_is_refused(
    text: str, named: list[str], write: Write, refused: Refused, things: str
) -> None:
    refused(write("bad.csv", text), *named, rows=things, **OPTIONS)


def test_a_value_needs_pairs_of_rows_and_no_other_role(write: Write, things: str, tmp_path: Path) -> None:
    table, group = write("measured.csv", MEASURED), f"{tmp_path}/apart.zarr"
    for options in ({}, {"pairs": ["i", "j"]}):
        with pytest.raises(InputError, match=naming("`value`", "`pairs`", "`rows`")):
            ingest(table, group, value="apart", **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="label"):
        ingest(table, group, pairs=["i", "j"], rows=things, value="apart", label="note")
