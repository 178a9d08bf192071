"""Tables of text: what separates cells, what is a header, and what is wrong is told in words that help."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
import zarr
from sklearn.datasets import load_iris

from distforest import read_ids
from distforest.errors import DistforestWarning, FaultsError, InputError
from distforest.sources.files import bounds, table_arrays
from distforest.sources.files.ingest import ingest
from tests.messages import naming

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.sources.helpers import Refused, Write


@pytest.mark.parametrize(
    ("text", "label", "named"),
    [
        ("", None, ["empty"]),
        ("\n\n", None, ["empty"]),
        ("a,b\n", None, ["rows", "none", "a,b", "header="]),
        ("a,b\n1,2\n3\n", None, ["row 1 (line 3)", "cells", " 2", " 1"]),
        ("a,b\n1,2\n\n3,4,5\n", None, ["row 1 (line 4)", "cells", " 2", " 3"]),
        ("a,b\n1,2\n3,four\n", None, ["row 1 (line 3), column 'b'", "'four'"]),
        ("a,b\n1,2_0\n2,3\n", None, ["row 0 (line 2), column 'b'", "'2_0'"]),
        ("a,b\n1,nan\n3,-inf\n", None, ["-inf in row 1 (line 3), column 1 (b)"]),
        ("a,b\n1,2\n3,4e38\n", None, ["4e+38 in row 1 (line 3), column 1 (b)"]),
        ("a,species\n1,2\n", "specie", ["'specie'", "'a', 'species'"]),
        ("a,kind\n1,x\n2, \n", "kind", ["row 1 (line 3), column 'kind'", "label", "''"]),
        ("a,kind\n1,1.5\n2,nan\n", "kind", ["row 1 (line 3), column 'kind'", "label", "'nan'"]),
        ("a,kind\n1,1.5\n2,inf\n", "kind", ["labels", "inf in row 1"]),
        ("kind\n", "kind", ["rows", "none"]),
        ("a,a\n1,2\n", None, ["names", "'a'"]),
        ("a,\n0,2\n", None, ["name", "column 1", "''"]),
        ("Sales,,,\nshop,kind,size,age\nx,y,1,2\n", None, ["line 2", "skip_rows=1"]),
        ("0.1;0.2\n5.1;3.5\n", None, ["'0.1;0.2'", "separator=';'"]),
        ("1.0 2.0\n3.0 4.0\n", None, ["'1.0 2.0'", "separator="]),
        ("a,7\n1,2\n", None, ["row 0 (line 1), column '0'", "'a'", "header"]),
        ('a,b\n1,"2\n', None, ["line 2", "quotes"]),
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


def test_a_label_of_its_own_in_each_row_is_told(write: Write, tmp_path: Path) -> None:
    rows = "".join(f"{7 * k % 10},p{k}\n" for k in range(10))
    with pytest.warns(DistforestWarning, match=naming("10 rows", "label", "`id`")):
        ingest(write("plants.csv", f"height,plant\n{rows}"), str(tmp_path / "plants.zarr"), label="plant")
    ingest(write("twice.csv", f"height,plant\n{rows}3,p1\n"), str(tmp_path / "twice.zarr"), label="plant")


def test_a_table_without_features_and_without_a_truth_is_refused(write: Write, refused: Refused) -> None:
    refused(write("names.csv", "plant\nfern\n"), "features", "`label`", "`target`", id="plant")


@pytest.mark.parametrize(
    ("row", "line"),
    [("1," * 30_000 + "2\n", 5002), ('"1\n",' * 15_000, 9098), ('"' + "1" * 60_000, 5002)],
    ids=["a line", "cells in quotes over many lines", "a cell in quotes that does not end"],
)
def test_a_row_that_is_too_long(
    write: Write, refused: Refused, monkeypatch: pytest.MonkeyPatch, row: str, line: int
) -> None:
    monkeypatch.setattr(bounds, "LONGEST_ROW", 20_000)
    found = re.search(r"line (\d+)", refused(write("a.csv", "a,b\n" + "1,2\n" * 5000 + row), "20,000"))
    assert found
    assert line <= int(found[1]) <= line + 3000


def test_cells_in_quotes_may_hold_the_ends_of_lines(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "LONGEST_ROW", 20_000)
    source = write("a.csv", '"a\nb",kind\n' + '"\n1\n","x\r\ny"\n\n' * 5000)
    records = ingest(source, str(tmp_path / "a.zarr"), label="kind")
    assert records["X"].shape == (5000, 1)
    assert records["X"].attributes["feature_names"] == ["a\nb"]
    assert records["y"].attributes == {"classes": ["x\r\ny"]}


@pytest.mark.parametrize("text", ["a,b\n1,{}\n2,3\n", "{},b\n1,1:3\n", "{0},{0}\n1,2\n", "{},2\n1,2\n", "{},b\n"])
def test_long_cells_are_shown_in_short(write: Write, refused: Refused, text: str) -> None:
    source = write("a.csv", text.format("x" * 100_000))
    for label in (None, "x"):
        assert len(refused(source, label=label)) < 450 + len(source)


def test_a_csv_file_of_other_bytes(write: Write, refused: Refused) -> None:
    refused(write("a.csv", "a,b\n1,\0\n"), r"'\x00'")
    refused(write("a.csv", "\0" * 200_000), "field limit")


def test_a_column_of_names_is_not_a_label(write: Write, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_arrays, "MAX_CLASSES", 3)
    source = write("a.csv", "a,id\n" + "".join(f"{row},r{row}\n" for row in range(4)))
    refused(source, "3 classes", label="id")


@pytest.mark.parametrize(
    ("text", "label", "found", "cure"),
    [
        ("a;b;kind\n1;2;x\n", "kind", "'a;b;kind'", "separator=';'"),
        ("a\tb\tkind\n1\t2\tx\n", "kind", r"'a\tb\tkind'", "separator='tab'"),
        ("a|b|kind\n1|2|x\n", "kind", "'a|b|kind'", "separator='|'"),
        ("a;b\n1,5;2,5\n", None, " 3", "separator=';'"),
        ("1,5;2,5\n", None, "'5;2'", "separator=';'"),
        ("1;2;3\n", None, "1;2;3,", "separator=';'"),
        ("made by hand\na,b\n1,2\n", None, " 2", "line 2 or title"),
        ('"a","b"\n"r1",1,2\n', None, " 3", " R "),
        ('a,b\n"1,5",2\n', None, "'1,5'", "decimal=','"),
        ('a,b\n"1,250.5",2\n', None, "'1,250.5'", "thousands=','"),
        ('a,b\n"1,250",2\n', None, "'1,250'", "thousands=',' or decimal=','"),
        ('a,b\n"1.250,5",2\n', None, "'1.250,5'", "thousands='.'"),
        ("a,b\n1,12%\n", None, "'12%'", "categorical='b'"),
        ("a,b\n1,31/12/24\n", None, "'31/12/24'", "date_format="),
        ("a,b\n1,x\n2,3\n3,4\n", None, "'x'", "categorical='b'"),
        ("a,kind\n1,x\n2,\n", "kind", "''", "column 'kind'"),
        ("a,b\n1,2,\n", None, " 3", "separator"),
        ("5.1,setosa\n", "kind", "'0', '1'", "header=True"),
        ("a\n1\n\n3\n", None, "line 3", "empty line"),
    ],
)
def test_what_helps_is_told(
    write: Write, refused: Refused, text: str, label: str | None, found: str, cure: str
) -> None:
    refused(write("a.csv", text), found, *cure.split(" or "), label=label)


def test_a_file_that_is_packed_or_of_other_bytes_is_told(refused: Refused, tmp_path: Path) -> None:
    for name, named in (("a.csv.zip", ["'.zip'", "unpack"]), ("a.parquet.gz", ["'.gz'", "`format`"])):
        (tmp_path / name).write_bytes(b"\x1f\x8b")
        refused(str(tmp_path / name), *named)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n" * 99)[:-9])
    refused(str(tmp_path / "a.csv.gz"), "a.csv.gz: ", "Compressed")
    (tmp_path / "a.csv").write_bytes("a,b\n1,größe\n".encode("latin-1"))
    refused(str(tmp_path / "a.csv"), "line 2", "UTF-8", "0xf6")


@pytest.mark.parametrize(
    ("start", "named"),
    [
        (b"PK\x03\x04\x14", [".xlsx", "csv"]),
        (b"\xd0\xcf\x11\xe0", [".xls;", "csv"]),
        (gzip.compress(b"a,b\n1,2\n", mtime=0), ["gzip", ".csv.gz"]),
        (b"PAR1", ["format='parquet'"]),
        (b"sep=;\r\na;b\r\n1;2\r\n", ["'sep=;'", "Excel", "separator=';'", "skip_rows=1"]),
        (b"\xef\xbb\xbfsep=\t\na\tb\n1\t2\n", ["Excel", "separator='tab'", "skip_rows=1"]),
    ],
)
def test_what_spreadsheets_and_packers_write_is_told(
    start: bytes, named: list[str], refused: Refused, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_bytes(start)
    refused(str(tmp_path / "a.csv"), *named)


def test_a_line_for_excel_is_skipped_where_that_is_asked(write: Write, tmp_path: Path) -> None:
    source = write("a.csv", "sep=;\na;b\n-0.0;2\n-0;3\n")
    found = ingest(source, str(tmp_path / "a.zarr"), separator=";", skip_rows=1)["X"]
    assert found.shape == (2, 2)
    assert found.columns[0].contents == "0 to 0"


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
        ("3,4,5\n", [[3, 4, 5]]),
        ("1,2,3\n4,5,6\n", [[1, 2, 3], [4, 5, 6]]),
        ("0,1,1\n1,0,0\n1,0,0\n", [[0, 1, 1], [1, 0, 0], [1, 0, 0]]),
        ('\ufeff"1.5","2"\r\n"3","4"\r\n\r\n', [[1.5, 2], [3, 4]]),
        ("1,2\r3,4\r", [[1, 2], [3, 4]]),
        ("\n1,2\n\n3,4\n   \n", [[1, 2], [3, 4]]),
        ("5\n6\n7\n\n", [[5], [6], [7]]),
    ],
)
def test_plain_data_is_data_without_a_word(write: Write, tmp_path: Path, text: str, rows: list[list[float]]) -> None:
    ingest(write("a.csv", text), str(tmp_path / "a.zarr"))
    assert zarr.open_array(str(tmp_path / "a.zarr/X"), mode="r")[:].tolist() == rows


@pytest.mark.parametrize("text", ["0\n1\n2\n5\n", "0\n1.5\n2.5\n3.5\n", "0,1,2\n", "2019,2020,2021\n7,1,4\n"])
def test_what_could_be_a_header_is_data_and_told(write: Write, tmp_path: Path, text: str) -> None:
    with pytest.warns(DistforestWarning, match="header=True"):
        records = ingest(write("a.csv", text), str(tmp_path / "a.zarr"))
    assert records["X"].shape[0] == text.count("\n")


def frame(n_rows: int = 12) -> pd.DataFrame:
    """Rows of two numbers, and a label."""
    random = np.random.default_rng(0)
    return pd.DataFrame({"a": random.random(n_rows), "b": random.random(n_rows), "kind": np.arange(n_rows) % 2})


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("header", [True, False])
def test_a_column_that_numbers_the_rows_is_told(tmp_path: Path, first: int, header: bool) -> None:
    given = frame().set_axis(pd.RangeIndex(first, first + 12, name="id"))
    given.to_csv(tmp_path / "a.csv", header=header)
    column = "column 0 (id) " if header else "column 0 "
    with pytest.warns(DistforestWarning, match=naming(f"a.csv: {column}", "rows", f"from {first},")) as told:
        ingest(str(tmp_path / "a.csv"), str(tmp_path / "a.zarr"), label="kind" if header else "3", chunk_bytes=64)
    assert [own.filename for own in told] == [__file__]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("ids", [range(9), [*range(11), 12], range(2, 14), range(12, 0, -1)])
def test_a_column_that_does_not_number_the_rows_is_a_feature(tmp_path: Path, ids: list[int]) -> None:
    given = frame(len(ids)).set_axis(pd.Index(ids, name="id"))
    given.to_csv(tmp_path / "a.csv")
    assert ingest(str(tmp_path / "a.csv"), str(tmp_path / "a.zarr"), label="kind")["X"].shape == (len(ids), 3)
    pd.DataFrame({"t": np.arange(20)}).to_csv(tmp_path / "b.csv", index=False)  # there is no other feature
    ingest(str(tmp_path / "b.csv"), str(tmp_path / "b.zarr"))


def test_labels_that_may_be_misspelt_are_told(write: Write, tmp_path: Path) -> None:
    source = write("a.csv", "a,y\n0.5,1.5\n1.5,2\n2.5,3.O\n")
    with pytest.warns(DistforestWarning, match=naming("labels", "'1.5'", "'3.O'")):
        records = ingest(source, str(tmp_path / "a.zarr"), label="y")
    assert records["y"].attributes == {"classes": ["1.5", "2", "3.O"]}


@pytest.mark.parametrize("word", ["NA", "?", "", "nan", "NULL"])
def test_a_label_that_is_missing_is_refused(write: Write, refused: Refused, tmp_path: Path, word: str) -> None:
    source = write("a.csv", f"a,y\n1,x\n2,{word}\n")
    refused(source, "row 1 (line 3), column 'y'", "label", repr(word), label="y")
    if word not in ("", "nan"):
        records = ingest(source, str(tmp_path / "a.zarr"), label="y", missing=["-9"])
        assert records["y"].attributes == {"classes": sorted(["x", word])}


def test_labels_of_strings_in_an_npz_file_that_may_be_missing_are_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=np.eye(3), y=np.array(["x", "nan", "y"]))
    with pytest.warns(DistforestWarning, match=naming("'nan'", "labels")):
        ingest(str(tmp_path / "a.npz"), str(tmp_path / "a.zarr"))
    np.savez(tmp_path / "a.npz", X=np.eye(3), y=np.array(["x", "?", "y"]), classes=np.array(["?", "x", "y"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said to be a class
        ingest(str(tmp_path / "a.npz"), str(tmp_path / "a.zarr"), overwrite=True)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("labels", ["01A", "+-+", ["1a", "2", "3"], ["none", "mild", "severe"]])
def test_labels_of_words_and_whole_numbers_are_classes_without_a_word(
    write: Write, tmp_path: Path, labels: list[str]
) -> None:
    source = write("a.csv", "a,y\n" + "".join(f"{row}.5,{label}\n" for row, label in enumerate(labels)))
    ingest(source, str(tmp_path / "a.zarr"), label="y")


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
    with pytest.raises(InputError, match=naming(f"row 1 (line {title.count(chr(10)) + 3}), column 'size'", "'few'")):
        ingest(str(path), str(tmp_path / "sheet.zarr"), **form)  # type: ignore[arg-type]


@pytest.mark.parametrize("title", ["Sales\n", "Sales\n\n", "Sales of us\nby me\n", "Sales,2024\n", "Sales,,\n,,\n"])
def test_a_message_about_a_title_tells_how_many_lines_to_skip(title: str, write: Write, refused: Refused) -> None:
    table, n_lines = write("sheet.csv", f"{title}shop name,size,age\nan x,1,2\na y,2,3\n"), title.count("\n")
    refused(table, f"line {n_lines + 1} ", f"`skip_rows={n_lines}`")


def test_rows_to_skip_that_are_none_or_all_are_refused(write: Write, refused: Refused) -> None:
    table = write("a.csv", "a,b\n1,2\n")
    for n_lines, told in ((2, "2"), (1 << 62, "4,611,686,018,427,387,904")):
        refused(table, "`skip_rows`", f"{told} lines", skip_rows=n_lines)
    refused(table, "skip_rows", -1, skip_rows=-1)
    refused(write("a.libsvm", "1 1:2\n"), "`skip_rows`", "csv", skip_rows=1)


DIRTY = """shop,size,rate,seen,sold,kind,price
a,1,0.05,2024-01-01,3,x,"1,5"
b,few,0.06,01/02/2024,4,,"2,5"
c,3,7 %,2024-01-03,many,y,"3,5"
"""


def test_the_first_faults_of_all_columns_are_told_at_once(write: Write, tmp_path: Path) -> None:
    with pytest.raises(FaultsError) as caught:
        ingest(write("dirty.csv", DIRTY), f"{tmp_path}/d.zarr", label="kind", weight="sold")
    expected = {"size": "few", "rate": "7 %", "seen": "01/02/2024", "price": "1,5", "kind": "", "sold": "many"}
    assert [re.findall(r"column '(\w+)': .* found '(.*?)'", fault) for fault in caught.value.faults] == [
        [pair] for pair in expected.items()
    ]
    assert not Path(f"{tmp_path}/d.zarr").exists()


def test_faults_of_many_columns_are_few_lines(write: Write, tmp_path: Path) -> None:
    """What one option mends is told once; no more than ten columns are looked at, as each is found by reading."""
    for n_columns, told in ((9, ["a0 (and so in 8 other columns)"]), (12, ["a0 (and so in 9 other columns)", "more"])):
        rows = [";".join(f"a{k}" for k in range(n_columns)), *[";".join(["1,5"] * n_columns)] * 2]
        with pytest.raises(FaultsError) as caught:
            ingest(write("points.csv", "\n".join(rows)), f"{tmp_path}/d.zarr", separator=";")
        assert [re.sub(r"^.*(a0)'.*(?= \(and)|^.* may be ", r"\1", own) for own in caught.value.faults] == told


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_a_title_above_columns_of_another_separator_is_told(mark: str, write: Write, tmp_path: Path) -> None:
    """All of the table was one column of categories under its title, without a word."""
    rows = "shop;kind;size\nx;y;1\nz;y;3\n".replace(";", mark)
    with pytest.warns(DistforestWarning, match=naming("'Sales'", 2, "separator=")):
        ingest(write("sheet.csv", f"Sales\n{rows}"), f"{tmp_path}/sheet.zarr")
    ingest(write("texts.csv", "text\nred; blue\ngreen\n"), f"{tmp_path}/texts.zarr")
