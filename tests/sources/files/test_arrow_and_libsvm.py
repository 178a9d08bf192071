"""Faults of Parquet and libsvm files: each is refused with what was found, and nothing is written."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from distforest.errors import InputError
from distforest.sources.files import bounds
from distforest.sources.files.bounds import readable
from distforest.sources.files.ingest import ingest
from distforest.sources.files.table_arrays import feature_blocks
from distforest.sources.files.tables import open_table
from distforest.sources.files.text_options import TextOptions
from distforest.sources.schema import Schema
from tests.messages import naming

if TYPE_CHECKING:
    from tests.sources.helpers import Refused, Write


@pytest.mark.parametrize(
    ("text", "options", "named"),
    [
        ("", {}, ["none"]),
        ("1\n2\n", {}, ["none"]),
        ("1 1:2 1:3\n", {}, ["row 0 (line 1)", "from 1", "'1:3'", "index 1"]),
        ("1 1:2\n1 3:2 2:3\n", {}, ["row 1 (line 2)", "from 1", "'2:3'", "index 3"]),
        (f"1 {'9' * 5000}:2 2:3\n", {}, ["index:value", "'999"]),
        ("1 qid:3 1:2\n", {}, ["index:value", "'qid:3'"]),
        ("1 1:2 2:\n", {}, ["index:value", "'2:'"]),
        ("# c\n1,2 1:2\n", {}, ["row 0 (line 2)", "label", "'1,2'"]),
        ("1 1:nan\n", {}, ["nan in row 0, column 0"]),
        ("inf 1:1\n", {}, ["labels", "inf in row 0"]),
        (f"1 {10**12}:1\n", {}, ["1048576", " 1000000000000"]),
        (f"1 1{'0' * 30}:1\n", {}, ["1048576", " 10000000000000000.."]),
        (f"1 {'0' * 5000}1:1\n", {}, ["row 0 (line 1)", "1048576"]),
        ("1 1:\0\n", {}, ["index:value", r"'1:\x00'"]),
        ("1 0:2 1:1\n", {"zero_based": False}, ["(line 1)", "from 1", "'0:2'", "zero_based"]),
        ("1 0:2\n", {"zero_based": False}, ["(line 1)", "from 1", "'0:2'", "zero_based"]),
        ("1 0:2 0:1\n", {"zero_based": True}, ["from 0", "'0:1'", "index 0"]),
        ("1 3:1 0:2\n", {}, ["from 1", "'0:2'", "index 3"]),
        ("1 1:2\n\n1 4:2\n", {"n_features": 3}, ["(line 3)", "1 to 3", "3 features", " 4"]),
        ("1 3:2\n", {"n_features": 3, "zero_based": True}, ["0 to 2", "3 features"]),
        ("1 3:2\n", {"n_features": 0}, ["n_features ", " 0"]),
        ("1 3:2\n", {"n_features": 1 << 21}, ["1048576 features"]),
    ],
)
def test_libsvm_faults(write: Write, refused: Refused, text: str, options: dict[str, int], named: list[str]) -> None:
    refused(write("a.libsvm", text), *named, **options)


def test_a_long_line_of_a_libsvm_file(write: Write, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "LONGEST_ROW", 20_000)
    source = write("a.libsvm", "1 1:1\n" * 50_000 + "1 " + "1" * 50_000 + "\n")
    refused(source, "line 50001", "20,000 bytes")


def test_a_libsvm_file_that_unfolds_to_too_much(
    write: Write, refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write("a.libsvm", "1 1000:1\n1 1:1\n\n" * 300)
    monkeypatch.setattr(bounds, "MOST_UNFOLDED", 1 << 20)
    refused(source, "4,800 bytes", "2,400,000", "`max_bytes=2400000`")
    assert ingest(source, str(tmp_path / "a.zarr"), max_bytes=2_400_000)["X"].shape == (600, 1000)
    refused(source, "2,400,000", max_bytes=2_399_999)


def test_memory_that_does_not_suffice_is_reported() -> None:
    with pytest.raises(InputError, match=naming("a.csv: ", "memory", "9 TiB")), readable("a.csv"):
        raise MemoryError("9 TiB")


def test_a_parquet_file_that_unfolds_to_too_much(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = str(tmp_path / "a.parquet")
    pd.DataFrame({"a": [0.5] * 200_000, "b": [1.5] * 200_000}).to_parquet(source)
    monkeypatch.setattr(bounds, "MOST_UNFOLDED", 1 << 20)
    refused(source, "3,200,000", "`max_bytes=3200000`")
    assert ingest(source, str(tmp_path / "a.zarr"), max_bytes=3_200_000)["X"].shape == (200_000, 2)


@pytest.mark.slow
def test_a_long_label_that_runs_repeat_is_held_once(tmp_path: Path) -> None:
    words = ["x" * 10_000, "y"]
    pd.DataFrame({"a": [0.5, 1.5] * 2500, "kind": words * 2500}).to_parquet(tmp_path / "a.parquet")
    tracemalloc.start()
    try:
        records = ingest(str(tmp_path / "a.parquet"), str(tmp_path / "a.zarr"), label="kind")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert records["y"].attributes == {"classes": words}
    assert peak < 10_000_000


@pytest.mark.parametrize("metadata", [b"[1]", b'{"index_columns": 5}', b'"no table"'])
def test_what_is_said_of_a_data_frame_may_be_nonsense(tmp_path: Path, metadata: bytes) -> None:
    table = pa.table({"a": [1.0, 2.0]}).replace_schema_metadata({b"pandas": metadata})
    pq.write_table(table, tmp_path / "a.parquet")
    assert ingest(str(tmp_path / "a.parquet"), str(tmp_path / "a.zarr"))["X"].shape == (2, 1)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_an_empty_folder_is_no_table(kind: str, refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused(str(tmp_path / "empty"), "empty", kind, format=kind)


def test_numbers_in_texts_of_several_types_are_read(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array(["1", "2"]), "b": pa.array(["3", "4"], pa.large_string())})
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    opened = open_table(str(tmp_path / "a.arrow"), "arrow", TextOptions())
    [(block, _)] = feature_blocks(opened, [0, 1], Schema.from_names(["a", "b"]), opened.cells, 2)
    np.testing.assert_array_equal(block, [[1, 3], [2, 4]])


def test_a_footer_that_is_damaged(refused: Refused, tmp_path: Path) -> None:
    pd.DataFrame({"a": [0.5, 1.5]}).to_parquet(tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    for content in (whole[:-3], whole[:-8] + b"\xff\xff\xff\x7fPAR1", b""):
        (tmp_path / "a.parquet").write_bytes(content)
        refused(str(tmp_path / "a.parquet"), "a.parquet: ", "read")


def test_parquet_faults(refused: Refused, tmp_path: Path) -> None:
    big = pa.array([1, 2**64 - 1], "uint64")
    source = str(tmp_path / "a.parquet")
    for values, found in ((pa.array([[1], [2]]), "list<"), (pa.array([b"a", b"b"]), "binary")):
        pq.write_table(pa.table({"a.b": [1.0, None], "t": values}), source)
        refused(source, "column 't'", found)
    pq.write_table(pa.table({"a": [1, 2], "t": ["u", None]}), source)
    refused(source, "row 1, column 't'", "label", "null", label="t")
    refused(source, "'tt'", "'t'", label="tt")
    pq.write_table(pa.table({"a": [1.0, float("inf")]}), source)
    refused(source, "inf in row 1, column 0 (a)")
    pq.write_table(pa.table({"a": [1, 2], "big": big}), source)
    refused(source, "a.parquet: ", "read", label="big")
    Path(source).write_bytes(b"PAR1 and no more")
    refused(source, "a.parquet: ", "read")


def test_the_index_of_a_data_frame_needs_a_role(refused: Refused, tmp_path: Path) -> None:
    source, target = str(tmp_path / "a.parquet"), str(tmp_path / "a.zarr")
    frame = pd.DataFrame({"home": [7, 7, 5], "id": ["p", "q", "r"], "a": [0.5, 1.5, 2.5], "b": [1, 2, 4]})
    frame.to_parquet(source)
    assert ingest(source, target)["X"].shape == (3, 4)
    frame.set_index(["home", "id"]).to_parquet(source)
    refused(source, "'home'", "index", "`id='home'`", "`drop='home'`")
    refused(source, "'home'", "`drop='home'`", id="id")
    records = ingest(source, target, id="id", drop=["home,b"], overwrite=True)
    assert (records["ids"].attributes["column"], records["X"].shape) == ("id", (3, 1))
    assert ingest(source, target, columns=["a,home,id"], overwrite=True)["X"].shape == (3, 3)


def test_a_column_that_has_another_role_is_refused_wherever_it_stands(refused: Refused, tmp_path: Path) -> None:
    source = str(tmp_path / "a.parquet")
    pd.DataFrame({"id": [7, 3], "a": [0.5, 1.5]}).to_parquet(source)
    refused(source, "'id'", "`id`", "`drop`", id="id", drop=["id"])
    refused(source, "'id'", "`id`", "`columns`", id="id", columns=["id", "a"])


def test_words_and_dates_of_a_parquet_file_become_numbers(tmp_path: Path) -> None:
    source, target = str(tmp_path / "a.parquet"), str(tmp_path / "a.zarr")
    frame = pd.DataFrame({"a": [0.5, None], "when": pd.date_range("2020", periods=2), "kind": ["y", "x"]})
    frame.to_parquet(source)
    ingest(source, target)
    X = zarr.open_array(f"{target}/X", mode="r")
    np.testing.assert_array_equal(X[:], [[0.5, 0, 1], [np.nan, 1, 0]])
    encodings = X.attrs["feature_encodings"]
    assert encodings["1"] == {"kind": "date", "unit": "days", "origin": "2020-01-01"}
    assert encodings["2"] == {"kind": "category", "categories": ["x", "y"]}
