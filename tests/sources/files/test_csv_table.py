"""Tables of text: they are read as the options say, and what is wrong is told with its row."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zarr
from sklearn.datasets import load_iris

from distforest import read_ids
from distforest.errors import InputError
from distforest.sources.files import planned, tables
from distforest.sources.files.ingest import ingest
from distforest.sources.files.roles import schema_text
from tests.messages import naming

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.sources.helpers import Refused, Write


@pytest.mark.parametrize(
    ("text", "label", "named"),
    [
        ("\n\n", None, ["Empty"]),
        ("a,b\n1,2\n\n3,4,5\n", None, ["Row #3", "2 columns", "got 3"]),
        ("a,b\n1,2\n3,four\n", None, ["row 1, column 'b'", "'four'"]),
        ("a,b\n1,nan\n3,-inf\n", None, ["-inf in row 1, column 1 (b)"]),
        ("a,b\n1,2\n3,4e38\n", None, ["4e+38 in row 1, column 1 (b)"]),
        ("a,species\n1,2\n", "specie", ["'specie'", "'a', 'species'"]),
        ("a;species\n1;2\n", "species", ["'species'", "'a;species'"]),
        ("a,kind\n1,x\n2, \n", "kind", ["row 1, column 'kind'", "label", "' '"]),
        ("a,kind\n1,1.5\n2,nan\n", "kind", ["row 1, column 'kind'", "label", "'nan'", "`missing`"]),
        ("kind\n", "kind", ["rows", "none"]),
        ("a\n1\n\nx\n", None, ["row 2, column 'a'", "'x'"]),  # of one column, an empty line is an empty cell
    ],
)
def test_csv_faults(write: Write, refused: Refused, text: str, label: str | None, named: list[str]) -> None:
    refused(write("a.csv", text), *named, label=label, chunk_bytes=16)


@pytest.mark.parametrize(
    ("role", "own"), [("label", ["fern", "moss", "fern"]), ("target", [1.5, 0.25, 2.0])], ids=["labels", "targets"]
)
def test_names_and_a_truth_alone_are_a_group_without_features(
    write: Write, tmp_path: Path, role: str, own: list[object]
) -> None:
    rows = "".join(f"p{k},{value}\n" for k, value in enumerate(own))
    group = str(tmp_path / "known.zarr")
    arrays = ingest(write("known.csv", f"plant,known\n{rows}"), group, id="plant", **{role: "known"})
    assert (list(arrays), arrays["y"].shape) == (["y", "ids"], (3,))
    assert [read_ids(address).tolist() for address in (group, f"{group}/y")] == [["p0", "p1", "p2"]] * 2


def test_words_as_targets_are_told_to_be_labels(write: Write, refused: Refused) -> None:
    refused(write("plants.csv", "height,plant\n1,fern\n"), "'plant'", "'fern'", "`label`", target="plant")


def test_a_table_without_features_and_without_a_truth_is_refused(write: Write, refused: Refused) -> None:
    refused(write("names.csv", "plant\nfern\n"), "features", "`label`", "`target`", id="plant")


def test_a_row_that_is_too_long(write: Write, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK_BYTES", 20_000)
    refused(write("a.csv", "a,b\n" + "1,2\n" * 5000 + '"' + "1" * 60_000), "block")


def test_cells_in_quotes_may_hold_the_ends_of_lines(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "BLOCK_BYTES", 20_000)
    source = write("a.csv", '"a\nb",kind\n' + '"\n1\n","x\r\ny"\n\n' * 5000)
    records = ingest(source, str(tmp_path / "a.zarr"), label="kind")
    assert records["X"].shape == (5000, 1)
    assert records["X"].attributes["feature_names"] == ["a\nb"]
    assert records["y"].attributes == {"classes": ["x\r\ny"]}


def test_a_column_of_names_is_not_a_label(write: Write, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned, "MAX_CLASSES", 3)
    source = write("a.csv", "a,id\n" + "".join(f"{row},r{row}\n" for row in range(4)))
    refused(source, "3 classes", label="id")


def test_a_file_that_is_packed_otherwise_is_reported(refused: Refused, tmp_path: Path) -> None:
    for name, named in (("a.csv.zip", ["'.zip'", "`format`"]), ("a.parquet.gz", ["'.gz'", "`format`"])):
        (tmp_path / name).write_bytes(b"\x1f\x8b")
        refused(str(tmp_path / name), *named)
    for suffix in ("gz", "bz2", "xz"):
        (tmp_path / f"a.csv.{suffix}").write_bytes(b"a,b\n1,2\n")
        refused(str(tmp_path / f"a.csv.{suffix}"), f"a.csv.{suffix}: ", "read")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_file_is_unpacked(pack: Callable[[bytes], bytes], refused: Refused, tmp_path: Path) -> None:
    suffix = {"gzip": "gz", "bz2": "bz2", "lzma": "xz"}[pack.__module__]
    source = tmp_path / f"a.csv.{suffix}"
    source.write_bytes(pack(b"a,kind\n" + b"1,x\n" * 5000))
    assert ingest(str(source), str(tmp_path / "a.zarr"), label="kind")["X"].shape == (5000, 1)
    refused(str(source), "10,000 bytes", max_bytes=10_000)


@pytest.mark.parametrize("separator", [";", "tab", "\t", "|", " "])
def test_cells_are_separated_as_is_said(tmp_path: Path, separator: str) -> None:
    iris = load_iris(as_frame=True).frame
    iris.columns = [name.replace(" ", "_") for name in iris.columns]
    iris.to_csv(tmp_path / "a.csv", index=False)
    iris.to_csv(tmp_path / "b.csv", index=False, sep="\t" if separator == "tab" else separator)
    usual = ingest(str(tmp_path / "a.csv"), str(tmp_path / "a.zarr"), label="target")
    asked = ingest(str(tmp_path / "b.csv"), str(tmp_path / "b.zarr"), label="target", separator=separator)
    assert usual == asked
    assert usual["X"].attributes == asked["X"].attributes


def test_a_file_of_tabs_says_so_by_its_suffix(write: Write, tmp_path: Path) -> None:
    records = ingest(write("a.tsv", "a\tkind\n1\tx\n"), str(tmp_path / "a.zarr"), label="kind")
    assert records["X"].attributes == {"feature_names": ["a"]}


@pytest.mark.parametrize("separator", ["", ";;", "e", "5", '"', ".", "\n", "-"])
def test_what_cannot_separate_is_refused(write: Write, refused: Refused, separator: str) -> None:
    refused(write("a.csv", "a,b\n1,2\n"), "separator", repr(separator), separator=separator)


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("0,1,2\n3,4,5\n", [[0, 1, 2], [3, 4, 5]]),
        ('\ufeff"1.5","2"\r\n"3","4"\r\n\r\n', [[1.5, 2], [3, 4]]),
        ("1,2\r3,4\r", [[1, 2], [3, 4]]),
        ("\n1, 2\n\n3 ,4\n", [[1, 2], [3, 4]]),
        ("5\n6\n7\n", [[5], [6], [7]]),
    ],
)
def test_plain_data_is_data_without_a_word(write: Write, tmp_path: Path, text: str, rows: list[list[float]]) -> None:
    ingest(write("a.csv", text), str(tmp_path / "a.zarr"), header=False)
    assert zarr.open_array(str(tmp_path / "a.zarr/X"), mode="r")[:].tolist() == rows


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "labels",
    [["01", "1", "001"], ["1.5", "2", "3.O"], ["1E5", "10E4"], ["12345678901234567890", "12345678901234567891"]],
)
def test_labels_keep_their_text(write: Write, tmp_path: Path, labels: list[str]) -> None:
    source = write("a.csv", "a,y\n" + "".join(f"0.5,{label}\n" for label in labels))
    assert ingest(source, str(tmp_path / "a.zarr"), label="y")["y"].attributes == {"classes": sorted(labels)}


@pytest.mark.parametrize("word", ["NA", "", "nan", "NULL"])
def test_a_label_that_is_missing_is_refused(write: Write, refused: Refused, tmp_path: Path, word: str) -> None:
    source = write("a.csv", f"a,y\n1,x\n2,{word}\n")
    refused(source, "row 1, column 'y'", "label", repr(word), label="y")
    if word not in ("", "nan"):
        records = ingest(source, str(tmp_path / "a.zarr"), label="y", missing=["-9"])
        assert records["y"].attributes == {"classes": sorted(["x", word])}


TITLES = {
    "a line": "Sales of 2024\n",
    "a line and an empty one": "Sales of 2024\n\n",
    "lines with separators": "Sales,2024\n,\n",
    "a quote that does not end": 'Sales, in "\n',
    "empty lines before and after": "\nSales\n\n\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("title", TITLES.values(), ids=TITLES)
def test_lines_above_the_table_are_skipped(title: str, end: str, encoding: str, tmp_path: Path) -> None:
    path, table = tmp_path / "sheet.csv", 'size,shop\n1,"x\ny"\n\n2,z\n'
    path.write_bytes((title + table).replace("\n", end).encode(encoding))
    form = {"skip_rows": title.count("\n"), "encoding": encoding, "overwrite": True}
    written = ingest(str(path), str(tmp_path / "sheet.zarr"), **form)  # type: ignore[arg-type]
    path.write_bytes(table.replace("\n", end).encode(encoding))
    assert ingest(str(path), str(tmp_path / "plain.zarr"), encoding=encoding, overwrite=True) == written
    path.write_bytes(f"{title}size,shop\n1,x\nfew,y\n3,z\n".replace("\n", end).encode(encoding))
    with pytest.raises(InputError, match=naming("row 1, column 'size'", "'few'")):
        ingest(str(path), str(tmp_path / "sheet.zarr"), **form)  # type: ignore[arg-type]


def test_rows_to_skip_that_are_none_or_all_are_refused(write: Write, refused: Refused) -> None:
    table = write("a.csv", "a,b\n1,2\n")
    refused(table, "`skip_rows`", skip_rows=2)
    refused(table, "a.csv: ", skip_rows=1 << 62)
    refused(table, "skip_rows", -1, skip_rows=-1)
    refused(write("a.libsvm", "1 1:2\n"), "`skip_rows`", "csv", skip_rows=1)


PLANTS = "name,seen,size,alive,colour\na,2024-01-31,1.5,true,red\nb,,2,false,blue\n"


def test_a_schema_says_which_features_there_are_and_of_which_kind(write: Write, tmp_path: Path) -> None:
    kinds = {"colour": "category", "size": "category", "seen": "date", "alive": "boolean"}
    schema = write("schema.toml", schema_text(kinds))
    X = ingest(write("plants.csv", PLANTS), str(tmp_path / "a.zarr"), schema=schema)["X"]
    assert {column.name: column.kind for column in X.columns} == kinds
    alike = ingest(
        str(tmp_path / "plants.csv"), str(tmp_path / "b.zarr"), columns=[*kinds], categorical=["size"], dry_run=True
    )["X"]
    assert (alike.shape, alike.attributes) == (X.shape, X.attributes)
    assert not (tmp_path / "b.zarr").exists()


@pytest.mark.parametrize(
    ("schema", "options", "named"),
    [
        ('[columns]\ncolour = "number"\n', {}, ["row 0, column 'colour'", "number", "'red'"]),
        ('[columns]\nsize = "date"\n', {}, ["row 0, column 'size'", "date", "'1.5'"]),
        ('[columns]\nheight = "number"\n', {}, ["'height'", "'size'"]),
        ('[columns]\nsize = "float"\n', {}, ["s.toml: columns.size", "number, category, boolean, date", "'float'"]),
        ("size = 1\n", {}, ["s.toml: ", "columns"]),
        ("[columns\n", {}, ["s.toml: ", "read"]),
        ('[columns]\nsize = "number"\n', {"categorical": ["size"]}, ["`schema`", "`categorical`"]),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(
    schema: str, options: dict[str, object], named: list[str], write: Write, refused: Refused
) -> None:
    refused(write("plants.csv", PLANTS), *named, schema=write("s.toml", schema), **options)


def test_a_schema_decides_what_a_column_of_two_kinds_should_hold(write: Write, refused: Refused) -> None:
    source, schema = write("a.csv", "size\nx\ny\n3\n"), write("s.toml", schema_text({"size": "number"}))
    refused(source, "row 2, column 'size'", "'3'")
    refused(source, "row 0, column 'size'", "'x'", schema=schema)
