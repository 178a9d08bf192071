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

from distforest.errors import DistforestWarning, InputError
from distforest.sources.files import bounds
from distforest.sources.files.ingest import ingest
from distforest.sources.files.tables import readable

if TYPE_CHECKING:
    from collections.abc import Callable

    Refused = Callable[..., str]
    Write = Callable[[str, str], str]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found none"),
        ("1\n2\n", "found none"),
        ("1 1:2 1:3\n", "row 0 (line 1): rising indices from 1 were expected, found '1:3' after index 1"),
        (
            "1 1:2\n1 3:2 2:3\n",
            "row 1 (line 2): rising indices from 1 were expected, found '2:3' after index 3",
        ),
        (f"1 {'9' * 5000}:2 2:3\n", "index:value was expected, found '999"),
        ("1 qid:3 1:2\n", "index:value was expected, found 'qid:3'"),
        ("1 1:2 2:\n", "index:value was expected, found '2:'"),
        ("# c\n1,2 1:2\n", "row 0 (line 2): a number as label was expected, found '1,2'"),
        ("1 1:nan\n", "found 1 that is not, the first nan in row 0, column 0"),
        ("inf 1:1\n", "finite labels were expected, found inf in row 0"),
        (
            f"1 {10**12}:1\n",
            "indices up to 1048576 were expected (rows are stored densely), found 1000000000000",
        ),
        (
            f"1 1{'0' * 30}:1\n",
            "indices up to 1048576 were expected (rows are stored densely), found 10000000000000000..",
        ),
        (f"1 {'0' * 5000}1:1\n", "row 0 (line 1): indices up to 1048576 were expected"),
        ("1 1:\0\n", r"index:value was expected, found '1:\x00'"),
    ],
)
def test_libsvm_faults(write: Write, refused: Refused, text: str, message: str) -> None:
    assert message in refused(write("a.libsvm", text))


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "1 0:2 1:1\n",
            {"zero_based": False},
            "(line 1): rising indices from 1 were expected, found '0:2'; give zero",
        ),
        ("1 0:2\n", {"zero_based": False}, "(line 1): rising indices from 1 were expected, found '0:2'; give zero"),
        ("1 0:2 0:1\n", {"zero_based": True}, "rising indices from 0 were expected, found '0:1' after index 0"),
        ("1 3:1 0:2\n", {}, "rising indices from 1 were expected, found '0:2' after index 3"),
        (
            "1 1:2\n\n1 4:2\n",
            {"n_features": 3},
            "(line 3): indices from 1 to 3 were expected, as of 3 features, found 4",
        ),
        (
            "1 3:2\n",
            {"n_features": 3, "zero_based": True},
            "indices from 0 to 2 were expected, as of 3 features, found 3",
        ),
        ("1 3:2\n", {"n_features": 0}, "n_features must be an integer >= 1, found 0"),
        ("1 3:2\n", {"n_features": 1 << 21}, "at most 1048576 features were expected"),
    ],
)
def test_libsvm_faults_against_what_was_said(
    write: Write, refused: Refused, text: str, options: dict[str, int], message: str
) -> None:
    assert message in refused(write("a.libsvm", text), **options)


def test_a_long_cell_of_a_libsvm_file_is_shown_in_short(write: Write, refused: Refused) -> None:
    for text in (f"1 1:{'x' * 9999}\n", f"{'x' * 9999} 1:1\n"):
        source = write("a.libsvm", text)
        assert len(refused(source)) < 200 + len(source)


def test_a_long_line_of_a_libsvm_file(write: Write, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "LONGEST_ROW", 20_000)
    source = write("a.libsvm", "1 1:1\n" * 50_000 + "1 " + "1" * 50_000 + "\n")
    assert "line 50001: rows of at most 20,000 bytes were expected, found a longer one" in refused(source)


def test_a_libsvm_file_that_unfolds_to_too_much(
    write: Write, refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write("a.libsvm", "1 1000:1\n1 1:1\n\n" * 300)
    monkeypatch.setattr(bounds, "MOST_UNFOLDED", 1 << 20)
    found = "found a file of 4,800 bytes that would unfold to 2,400,000; give `max_bytes=2400000` if so many are meant"
    assert found in refused(source)
    assert ingest(source, str(tmp_path / "a.zarr"), max_bytes=2_400_000)["X"].shape == (600, 1000)
    assert "would unfold to 2,400,000" in refused(source, max_bytes=2_399_999)


def test_memory_that_does_not_suffice_is_told() -> None:
    with (
        pytest.raises(
            InputError, match=r"a.csv: there is not enough memory for what the file holds \(9 TiB\); split the file"
        ),
        readable("a.csv"),
    ):
        raise MemoryError("9 TiB")


def test_a_parquet_file_that_unfolds_to_too_much(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = str(tmp_path / "a.parquet")
    pd.DataFrame({"a": [0.5] * 200_000, "b": [1.5] * 200_000}).to_parquet(source)
    monkeypatch.setattr(bounds, "MOST_UNFOLDED", 1 << 20)
    assert "would unfold to 3,200,000; give `max_bytes=3200000` if so many are meant" in refused(source)
    assert ingest(source, str(tmp_path / "a.zarr"), max_bytes=3_200_000)["X"].shape == (200_000, 2)


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


def test_a_footer_that_is_damaged(refused: Refused, tmp_path: Path) -> None:
    pd.DataFrame({"a": [0.5, 1.5]}).to_parquet(tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    for content in (whole[:-3], whole[:-8] + b"\xff\xff\xff\x7fPAR1", b""):
        (tmp_path / "a.parquet").write_bytes(content)
        assert "cannot be read (" in refused(str(tmp_path / "a.parquet"))


def test_parquet_faults(refused: Refused, tmp_path: Path) -> None:
    big = pa.array([1, 2**64 - 1], "uint64")
    source = str(tmp_path / "a.parquet")
    for values, found in (
        (pa.array([[1], [2]]), "list<"),
        (pa.array([b"a", b"b"]), "binary"),
        (big.cast("uint64"), ""),
    ):
        pq.write_table(pa.table({"a.b": [1.0, None], "t": values}), source)
        if found:
            assert f"column 't': numbers, words or dates were expected, found {found}" in refused(source)
    pq.write_table(pa.table({"a": [1, 2], "t": ["u", None]}), source)
    assert "row 1, column 't': a label was expected, found null" in refused(source, label="t")
    assert "did you mean 't'?" in refused(source, label="tt")
    pq.write_table(pa.table({"a": [1.0, float("inf")]}), source)
    assert "found 1 that is not, the first inf in row 1, column 0 (a)" in refused(source)
    pq.write_table(pa.table({"a": [1, 2], "big": big}), source)
    assert "cannot be read" in refused(source, label="big")
    Path(source).write_bytes(b"PAR1 and no more")
    assert "cannot be read" in refused(source)


def test_the_index_of_a_data_frame_in_a_parquet_file_names_the_rows(tmp_path: Path) -> None:
    source, target = str(tmp_path / "a.parquet"), str(tmp_path / "a.zarr")
    frame = pd.DataFrame({"id": [7, 3, 5], "a": [0.5, 1.5, 2.5], "kind": ["x", "y", "z"]})
    frame.to_parquet(source)
    assert ingest(source, target, label="kind")["X"].shape == (3, 2)
    for index in ("id", "kind"):
        frame.set_index(index).to_parquet(source)
        with pytest.warns(
            DistforestWarning, match=f"{index!r} was the index of the data frame, and is read as the names"
        ) as told:
            records = ingest(source, target, overwrite=True)
        assert [own.filename for own in told] == [__file__]
        assert records["ids"].attributes["column"] == index
        assert records["X"].shape == (3, 2)
    assert "ids" not in ingest(source, target, label="kind", overwrite=True)


def test_the_index_of_a_data_frame_is_left_out_where_drop_names_it_among_others(tmp_path: Path) -> None:
    source, target = str(tmp_path / "a.parquet"), str(tmp_path / "a.zarr")
    frame = pd.DataFrame({"home": [7, 7, 5], "id": ["p", "q", "r"], "a": [0.5, 1.5, 2.5], "b": [1, 2, 4]})
    frame.set_index("id").to_parquet(source)
    with pytest.warns(DistforestWarning, match="'id' was the index of the data frame, and is left out"):
        records = ingest(source, target, drop=["id,b"])
    assert (records.keys(), records["X"].shape) == ({"X"}, (3, 2))
    frame.set_index(["home", "id"]).to_parquet(source)
    with pytest.warns(DistforestWarning, match="'id' was the index of the data frame, and is read as the names"):
        records = ingest(source, target, drop=["home"], overwrite=True)
    assert records["ids"].attributes["column"] == "id"
    with pytest.warns(DistforestWarning, match="'home', 'id' were the index of the data frame, and are left out"):
        records = ingest(source, target, drop=["home", "id"], overwrite=True)
    assert (records.keys(), records["X"].shape) == ({"X"}, (3, 2))
    assert ingest(source, target, columns=["a,home,id"], overwrite=True).keys() == {"X"}


def test_a_column_that_has_another_role_is_refused_wherever_it_stands(refused: Refused, tmp_path: Path) -> None:
    source = str(tmp_path / "a.parquet")
    pd.DataFrame({"id": [7, 3], "a": [0.5, 1.5]}).to_parquet(source)
    assert "'id' is the `id`, found it in `drop`" in refused(source, id="id", drop=["id"])
    assert "'id' is the `id`, found it in `columns`" in refused(source, id="id", columns=["id", "a"])


def test_a_categorical_of_numbers_that_parquet_holds_as_numbers_is_told(tmp_path: Path) -> None:
    source, target = str(tmp_path / "a.parquet"), str(tmp_path / "a.zarr")
    frame = pd.DataFrame({"code": pd.Categorical([7, 5, 7]), "grade": pd.Categorical([1, 2, 1], ordered=True)})
    frame.assign(word=pd.Categorical(["x", "y", "x"])).to_parquet(source)
    with pytest.warns(
        DistforestWarning, match="'code' was a categorical .* amounts; give `categorical='code'`"
    ) as told:
        records = ingest(source, target)
    assert len(told) == 1
    assert [own.kind for own in records["X"].columns] == ["number", "number", "category"]
    assert ingest(source, target, categorical=["code"], overwrite=True)["X"].columns[0].kind == "category"


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
