"""Pairs in tables: by names or numbers of rows, with what is known of each; what is no row is refused at the door."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import zarr

from distforest.errors import DistforestWarning, InputError
from distforest.sources.files.ingest import ingest
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sources.helpers import Refused, Write

NAMED = "left,right,same,sure,note\nfern,moss,no,1,x\nmoss,pine,yes,0.5,y\n"
NUMBERED = "i,j,similar\n0,1,0\n2,1,1\n"


def test_pairs_of_names_become_row_numbers(write: Write, things: str, tmp_path: Path) -> None:
    group = str(tmp_path / "links.zarr")
    options = {"pairs": ["left,right"], "rows": things, "label": "same", "weight": "sure", "drop": ["note"]}
    written = ingest(write("links.csv", NAMED), group, **options)  # type: ignore[arg-type]
    found = zarr.open_group(group, mode="r")
    assert list(written) == ["pairs", "y", "weights"]
    assert found["pairs"][:].tolist() == [[0, 1], [1, 2]]
    assert found["pairs"].dtype == np.int64
    assert dict(found["pairs"].attrs)["rows"] == f"of {things}/y, by name"
    assert (found["y"][:].tolist(), found["y"].attrs["classes"]) == ([0, 1], ["no", "yes"])


@pytest.mark.parametrize("rows", [None, "numbers.zarr"])
def test_numbers_of_rows_are_read_as_they_are(write: Write, tmp_path: Path, rows: str | None) -> None:
    ingest(write("numbers.csv", "height\n1\n2\n3\n"), str(tmp_path / "numbers.zarr"))
    given = None if rows is None else str(tmp_path / rows)
    group = str(tmp_path / "links.zarr")
    ingest(write("links.csv", NUMBERED), group, pairs=["i", "j"], rows=given, label="similar")
    found = zarr.open_group(group, mode="r")
    assert sorted(found) == ["pairs", "y"]
    assert found["pairs"][:].tolist() == [[0, 1], [2, 1]]
    assert str(found["pairs"].attrs["rows"]).endswith("by number, from 0")


def test_columns_that_are_left_out_beside_pairs_are_reported(write: Write, things: str, tmp_path: Path) -> None:
    """They were left out without a word, such as the distance in a table without the role value."""
    table, group = write("links.csv", NAMED), f"{tmp_path}/links.zarr"
    told = naming("csv: 'same', 'sure', 'note' ", "`value`", "`label`", "`target`")
    with pytest.warns(DistforestWarning, match=told):
        ingest(table, group, pairs=["left,right"], rows=things)
    with pytest.warns(DistforestWarning, match=naming("csv: 'note' ", "`value`", "`columns`")):
        ingest(table, group, pairs=["left,right"], rows=things, label="same", weight="sure", overwrite=True)


def test_columns_of_features_stand_beside_pairs_if_they_are_named(write: Write, things: str, tmp_path: Path) -> None:
    group = str(tmp_path / "links.zarr")
    written = ingest(write("links.csv", NAMED), group, pairs=["left,right"], rows=things, columns=["sure"])
    assert {name: array.shape for name, array in written.items()} == {"X": (2, 1), "pairs": (2, 2)}


@pytest.mark.parametrize(
    ("text", "options", "named"),
    [
        (NAMED, {"pairs": ["left,right"]}, ["numbers", "'fern'", "names"]),
        (NAMED.replace("pine", "yew"), {"rows": "things"}, ["row 1", "names", "'yew'"]),
        (NUMBERED, {"pairs": ["i,j"], "rows": "things"}, ["names", "`ids`"]),
        (NUMBERED.replace("2,1", "3,1"), {"pairs": ["i,j"], "rows": "numbers"}, ["0 to 2", "'3'"]),
        (NUMBERED.replace("2,1", "-2,1"), {"pairs": ["i,j"]}, ["from 0", "'-2'"]),
        (NUMBERED.replace("2,1", "2.5,1"), {"pairs": ["i,j"]}, ["from 0", "'2.5'"]),
        (NAMED.replace("moss,pine", "moss,moss"), {"rows": "things", "label": "same"}, ["row 1", "two rows"]),
        (NUMBERED, {"pairs": ["i"]}, ["`pairs`", " 1"]),
        (NUMBERED, {"pairs": ["i,i"]}, ["`pairs`", " 1"]),
        (NUMBERED, {"pairs": ["i,j"], "label": "j"}, ["role", "'j'"]),
        (NUMBERED, {"pairs": [], "rows": "things"}, ["`rows`", "`pairs`"]),
        ("i,j\n", {"pairs": ["i,j"]}, ["rows", "none"]),
    ],
)
def test_what_is_no_pair_of_rows_is_refused(
    write: Write, refused: Refused, things: str, tmp_path: Path, text: str, options: dict[str, object], named: list[str]
) -> None:
    ingest(write("numbers.csv", "height\n1\n2\n3\n"), str(tmp_path / "numbers.zarr"))
    places = {"things": things, "numbers": str(tmp_path / "numbers.zarr")}
    given = {"pairs": ["left,right"], **options}
    if "rows" in given:
        given["rows"] = places[str(given["rows"])]
    refused(write("links.csv", text), *named, **given)


def test_rows_of_one_name_are_no_rows_of_pairs(write: Write, tmp_path: Path) -> None:
    with pytest.warns(DistforestWarning, match=naming("twice.csv: ", "1 row")):
        ingest(write("twice.csv", "name,kind\nfern,a\nfern,b\n"), f"{tmp_path}/twice.zarr", id="name", label="kind")
    with pytest.raises(InputError, match=naming("names", "1 row")):
        ingest(write("links.csv", NAMED), f"{tmp_path}/l.zarr", pairs=["left", "right"], rows=f"{tmp_path}/twice.zarr")
