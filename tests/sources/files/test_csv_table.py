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
from distforest.errors import FaultsError, InputError
from distforest.sources.files import bounds, table_arrays
from distforest.sources.files.ingest import ingest

if TYPE_CHECKING:
    from collections.abc import Callable

    Refused = Callable[..., str]
    Write = Callable[[str, str], str]


@pytest.mark.parametrize(
    ("text", "label", "message"),
    [
        ("", None, "found an empty file"),
        ("\n\n", None, "found an empty file"),
        (
            "a,b\n",
            None,
            "rows were expected, found none below the first, a,b, which is taken as a header; give header=",
        ),
        ("a,b\n1,2\n3\n", None, "row 1 (line 3): as many cells as the first row has, 2, were expected, found 1"),
        ("a,b\n1,2\n\n3,4,5\n", None, "row 1 (line 4): as many cells as the first row has, 2, were expected, found 3"),
        ("a,b\n1,2\n3,four\n", None, "row 1 (line 3), column 'b': a number was expected, found 'four'"),
        ("a,b\n1,2_0\n2,3\n", None, "row 0 (line 2), column 'b': a number was expected, found '2_0'"),
        ("a,b\n1,nan\n3,-inf\n", None, "found 1 that is not, the first -inf in row 1 (line 3), column 1 (b)"),
        ("a,b\n1,2\n3,4e38\n", None, "found 1 that is not, the first 4e+38 in row 1 (line 3), column 1 (b)"),
        (
            "a,species\n1,2\n",
            "specie",
            "'specie' was expected, found 'a', 'species'; did you mean 'species'?",
        ),
        ("a,kind\n1,x\n2, \n", "kind", "row 1 (line 3), column 'kind': a label was expected, found ''"),
        ("a,kind\n1,1.5\n2,nan\n", "kind", "row 1 (line 3), column 'kind': a label was expected, found 'nan'"),
        ("a,kind\n1,1.5\n2,inf\n", "kind", "finite labels were expected, found inf in row 1"),
        ("kind\n", "kind", "rows were expected, found none below the first"),
        ("a,a\n1,2\n", None, "found 'a' twice"),
        ("a,\n0,2\n", None, "a name was expected in column 1, found ''; name it, or leave it out"),
        (
            "Sales,,,\nshop,kind,size,age\nx,y,1,2\n",
            None,
            "if what stands above line 2 is a title, give `skip_rows=1`",
        ),
        ("0.1;0.2\n5.1;3.5\n", None, "columns were expected, found '0.1;0.2'; cells are read as separated by commas"),
        ("1.0 2.0\n3.0 4.0\n", None, "columns were expected, found '1.0 2.0'; cells are read as separated by commas"),
        ("a,7\n1,2\n", None, "row 0 (line 1), column '0': a number was expected, found 'a'; if this row names the"),
        ('a,b\n1,"2\n', None, "line 2: cannot be read (unexpected end of data); look at its quotes"),
    ],
)
def test_csv_faults(write: Write, refused: Refused, text: str, label: str | None, message: str) -> None:
    assert message in refused(write("a.csv", text), label=label, chunk_bytes=16)


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
    message = refused(write("plants.csv", "height,plant\n1,fern\n"), target="plant")
    assert message.endswith("found 'fern'; fill it in, or leave its row out; if the column holds classes, give `label`")


def test_a_label_of_its_own_in_each_row_is_told(write: Write, tmp_path: Path) -> None:
    rows = "".join(f"{7 * k % 10},p{k}\n" for k in range(10))
    with pytest.warns(UserWarning, match="each of 10 rows has a label that no other row has; give `id` if the column "):
        ingest(write("plants.csv", f"height,plant\n{rows}"), str(tmp_path / "plants.zarr"), label="plant")
    ingest(write("twice.csv", f"height,plant\n{rows}3,p1\n"), str(tmp_path / "twice.zarr"), label="plant")


def test_a_table_without_features_and_without_a_truth_is_refused(write: Write, refused: Refused) -> None:
    message = refused(write("names.csv", "plant\nfern\n"), id="plant")
    assert "features, or a `label` or `target`, were expected, found no other column" in message


@pytest.mark.parametrize(
    ("row", "line"),
    [("1," * 30_000 + "2\n", 5002), ('"1\n",' * 15_000, 9098), ('"' + "1" * 60_000, 5002)],
    ids=["a line", "cells in quotes over many lines", "a cell in quotes that does not end"],
)
def test_a_row_that_is_too_long(
    write: Write, refused: Refused, monkeypatch: pytest.MonkeyPatch, row: str, line: int
) -> None:
    monkeypatch.setattr(bounds, "LONGEST_ROW", 20_000)
    message = refused(write("a.csv", "a,b\n" + "1,2\n" * 5000 + row))
    found = re.search(r"line (\d+): rows of at most 20,000 bytes were expected, found a longer one; look at", message)
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
    assert r"found '\x00'" in refused(write("a.csv", "a,b\n1,\0\n"))
    assert "field larger than field limit" in refused(write("a.csv", "\0" * 200_000))


def test_a_column_of_names_is_not_a_label(write: Write, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_arrays, "MAX_CLASSES", 3)
    source = write("a.csv", "a,id\n" + "".join(f"{row},r{row}\n" for row in range(4)))
    assert "at most 3 classes" in refused(source, label="id")


BY_COMMAS = "cells are read as separated by commas; if they are by {}, give `separator={!r}`"


@pytest.mark.parametrize(
    ("text", "label", "found", "cure"),
    [
        ("a;b;kind\n1;2;x\n", "kind", "found 'a;b;kind'", BY_COMMAS.format("semicolons", ";")),
        ("a\tb\tkind\n1\t2\tx\n", "kind", r"found 'a\tb\tkind'", BY_COMMAS.format("tabs", "tab")),
        ("a|b|kind\n1|2|x\n", "kind", "found 'a|b|kind'", BY_COMMAS.format("bars", "|")),
        (
            "a;b\n1,5;2,5\n",
            None,
            "as the first row has, 1, were expected, found 3",
            BY_COMMAS.format("semicolons", ";"),
        ),
        ("1,5;2,5\n", None, "found '5;2'", BY_COMMAS.format("semicolons", ";")),
        ("1;2;3\n", None, "found none below the first, 1;2;3,", BY_COMMAS.format("semicolons", ";")),
        ("made by hand\na,b\n1,2\n", None, "were expected, found 2", "if what stands above line 2 is a title, give"),
        (
            '"a","b"\n"r1",1,2\n',
            None,
            "were expected, found 3",
            "if the first one names the row, as R writes it, write",
        ),
        ('a,b\n"1,5",2\n', None, "found '1,5'", "if commas are decimal points, give `decimal=','`"),
        ('a,b\n"1,250.5",2\n', None, "found '1,250.5'", "if commas stand between thousands, give `thousands=','`"),
        (
            'a,b\n"1,250",2\n',
            None,
            "found '1,250'",
            "if commas stand between thousands, give `thousands=','` or, if the",
        ),
        ('a,b\n"1.250,5",2\n', None, "found '1.250,5'", "if points stand between thousands, give `thousands='.'` and"),
        ("a,b\n1,12%\n", None, "found '12%'", "give `unit='%'` to leave it out, or give `categorical='b'` if they are"),
        ("a,b\n1,31/12/24\n", None, "found '31/12/24'", "if these are dates, say how they are written, such as"),
        ("a,b\n1,x\n2,3\n3,4\n", None, "found 'x'", "correct it, or give `categorical='b'` if the column holds"),
        ("a,kind\n1,x\n2,\n", "kind", "a label was expected, found ''", "fill it in, or leave its row out"),
        ("a,b\n1,2,\n", None, "were expected, found 3", "if all lines but the first end with a separator, let the"),
        ("5.1,setosa\n", "kind", "found '0', '1'", "the first row is taken as data; give header=True if"),
        (
            "a\n1\n\n3\n",
            None,
            "line 3: a number was expected, found an empty line",
            "fill it in, or leave its row out",
        ),
    ],
)
def test_what_helps_is_told(
    write: Write, refused: Refused, text: str, label: str | None, found: str, cure: str
) -> None:
    message = refused(write("a.csv", text), label=label)
    assert found in message
    assert f"; {cure}" in message


def test_a_file_that_is_packed_or_of_other_bytes_is_told(refused: Refused, tmp_path: Path) -> None:
    for name, told in (("a.csv.zip", "suffix '.zip'; unpack it"), ("a.parquet.gz", "suffix '.gz'; give `format`")):
        (tmp_path / name).write_bytes(b"\x1f\x8b")
        assert f"found the {told}" in refused(str(tmp_path / name))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n" * 99)[:-9])
    assert "a.csv.gz: cannot be read (Compressed file ended" in refused(str(tmp_path / "a.csv.gz"))
    (tmp_path / "a.csv").write_bytes("a,b\n1,größe\n".encode("latin-1"))
    assert "line 2: text in UTF-8 was expected, found the byte 0xf6; save" in refused(str(tmp_path / "a.csv"))


@pytest.mark.parametrize(
    ("start", "told"),
    [
        (b"PK\x03\x04\x14", "found a zip archive, as of a spreadsheet .xlsx; save its table as csv"),
        (b"\xd0\xcf\x11\xe0", "found a spreadsheet .xls; save it as csv"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0), "found what gzip has packed; call it .csv.gz"),
        (b"PAR1", "found Parquet; give `format='parquet'`"),
        (
            b"sep=;\r\na;b\r\n1;2\r\n",
            "found 'sep=;', which tells Excel what separates cells; give `separator=';'` and `",
        ),
        (
            b"\xef\xbb\xbfsep=\t\na\tb\n1\t2\n",
            "which tells Excel what separates cells; give `separator='tab'` and `skip_",
        ),
    ],
)
def test_what_spreadsheets_and_packers_write_is_told(start: bytes, told: str, refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(start)
    assert told in refused(str(tmp_path / "a.csv"))


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
    told = "at most 10,000 bytes of text were expected, found a file of"
    assert told in refused(str(source), max_bytes=10_000)


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
    assert f"found {separator!r}" in refused(write("a.csv", "a,b\n1,2\n"), separator=separator)


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
    with pytest.warns(UserWarning, match="is taken as data, though it looks like a header; give header=True if it is"):
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
    column = r"column 0 \(id\)" if header else "column 0"
    with pytest.warns(
        UserWarning, match=f"a.csv: {column} numbers the rows from {first}, and is read as a feature"
    ) as told:
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


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (["1.5", "2", "3.O"], "the labels are read as classes, '1.5' among them, as '3.O' is no number"),
    ],
)
def test_labels_that_may_be_misspelt_are_told(write: Write, tmp_path: Path, labels: list[str], told: str) -> None:
    source = write("a.csv", "a,y\n" + "".join(f"{row}.5,{label}\n" for row, label in enumerate(labels)))
    with pytest.warns(UserWarning, match=told):
        records = ingest(source, str(tmp_path / "a.zarr"), label="y")
    assert records["y"].attributes == {"classes": sorted(labels)}


@pytest.mark.parametrize("word", ["NA", "?", "", "nan", "NULL"])
def test_a_label_that_is_missing_is_refused(write: Write, refused: Refused, tmp_path: Path, word: str) -> None:
    source = write("a.csv", f"a,y\n1,x\n2,{word}\n")
    assert f"row 1 (line 3), column 'y': a label was expected, found {word!r}; fill" in refused(source, label="y")
    if word not in ("", "nan"):
        records = ingest(source, str(tmp_path / "a.zarr"), label="y", missing=["-9"])
        assert records["y"].attributes == {"classes": sorted(["x", word])}


def test_labels_of_strings_in_an_npz_file_that_may_be_missing_are_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=np.eye(3), y=np.array(["x", "nan", "y"]))
    with pytest.warns(UserWarning, match="'nan' among the labels is read as a class"):
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
    with pytest.raises(InputError, match=rf"row 1 \(line {title.count(chr(10)) + 3}\), column 'size': a number was"):
        ingest(str(path), str(tmp_path / "sheet.zarr"), **form)  # type: ignore[arg-type]


@pytest.mark.parametrize("title", ["Sales\n", "Sales\n\n", "Sales of us\nby me\n", "Sales,2024\n", "Sales,,\n,,\n"])
def test_a_message_about_a_title_tells_how_many_lines_to_skip(title: str, write: Write, refused: Refused) -> None:
    table, n_lines = write("sheet.csv", f"{title}shop name,size,age\nan x,1,2\na y,2,3\n"), title.count("\n")
    assert f"if what stands above line {n_lines + 1} is a title, give `skip_rows={n_lines}`" in refused(table)


def test_rows_to_skip_that_are_none_or_all_are_refused(write: Write, refused: Refused) -> None:
    table = write("a.csv", "a,b\n1,2\n")
    for n_lines, told in ((2, "2"), (1 << 62, "4,611,686,018,427,387,904")):
        expected = f"rows were expected below the first {told} lines, found none; give a smaller `skip_rows`"
        assert expected in refused(table, skip_rows=n_lines)
    assert "skip_rows must be" in refused(table, skip_rows=-1)
    assert "`skip_rows` is for the lines above the table in a csv file" in refused(
        write("a.libsvm", "1 1:2\n"), skip_rows=1
    )


DIRTY = """shop,size,rate,seen,sold,kind,price
a,1,5 %,2024-01-01,3,x,"1,5"
b,few,6 %,01/02/2024,4,,"2,5"
c,3,0.07,2024-01-03,many,y,"3,5"
"""


def test_the_first_faults_of_all_columns_are_told_at_once(write: Write, tmp_path: Path) -> None:
    with pytest.raises(FaultsError) as caught:
        ingest(write("dirty.csv", DIRTY), f"{tmp_path}/d.zarr", label="kind", weight="sold", unit="%")
    expected = {"size": "few", "rate": "0.07", "seen": "01/02/2024", "price": "1,5", "kind": "", "sold": "many"}
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
    with pytest.warns(UserWarning, match=r"'Sales': each value has 2 of the \w+ that may separate columns; if they do"):
        ingest(write("sheet.csv", f"Sales\n{rows}"), f"{tmp_path}/sheet.zarr")
    ingest(write("texts.csv", "text\nred; blue\ngreen\n"), f"{tmp_path}/texts.zarr")
