"""Files as other programs write them: each is read right, or refused by line and column; none is read wrongly.

The files of pandas are written by pandas; those of other programs are what they write, by their documentation:
polars 1 to 2 (`write_csv`), R (`write.csv`, `write.csv2`, `write.table`), spreadsheets (Excel's "CSV", "CSV UTF-8" and
"Unicode text", in English and in German), SQLite (`.mode csv`), PostgreSQL (`COPY`), MySQL (`INTO OUTFILE`).
"""

from __future__ import annotations

import csv
import gzip
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import zarr

from distforest import SMERF, Labels, Targets
from distforest.errors import InputError
from distforest.sources.files.ids import names_of_rows
from distforest.sources.files.ingest import ingest
from tests.messages import naming
from tests.sources.helpers import warned

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


NAN = float("nan")
FRAME = pd.DataFrame(
    {
        "size": [1.5, NAN, -2e5],
        "colour": ["red", 'light "blue"', "red"],
        "seen": pd.to_datetime(["2024-01-31", "2024-02-29", "2024-02-01"]),
        "alive": [True, False, True],
    }
)
COLUMNS = {"size": [1.5, NAN, -2e5], "colour": ["red", 'light "blue"', "red"], "seen": [0, 29, 1], "alive": [1, 0, 1]}
"""The frame, and what is to be read of it."""

SQLITE = 'id,"the name",size\r\n1,"a ""b""",1.5\r\n2,,\r\n'
R = '"","size","colour"\n"1",1.5,"red"\n"2",NA,NA\n"3",-2e+05,"blue"\n'


def csv_of(frame: pd.DataFrame, **options: Any) -> Callable[[Path], None]:
    return lambda path: frame.to_csv(path, **{"index": False, **options})


def as_it_is(content: str | bytes, encoding: str = "utf-8") -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding)) and None


def read(path: Path, target: Path, options: dict[str, Any]) -> tuple[dict[str, list[Any]], list[str]]:
    """The columns of a file by name, categories as words; and what was told."""
    records: dict[str, Any] = {}
    told = warned(lambda: records.update(ingest(str(path), str(target), **options)))
    group = zarr.open_group(str(target), mode="r")
    attributes = dict(group["X"].attrs)
    names = attributes.get("feature_names", [str(k) for k in range(group["X"].shape[1])])
    columns = dict(zip(names, group["X"][:].T.tolist(), strict=True))
    for place, encoding in attributes.get("feature_encodings", {}).items():
        if encoding["kind"] == "category":
            name, words = names[int(place)], encoding["categories"]
            columns[name] = [NAN if code != code else words[int(code)] for code in columns[name]]
    if "ids" in records:
        columns["ids"] = names_of_rows(group["ids"][:], dict(group["ids"].attrs))
    return columns, told


READ_RIGHT: dict[str, tuple[str, Callable[[Path], None], dict[str, Any], dict[str, list[Any]], str]] = {
    "pandas": ("a.csv", csv_of(FRAME), {}, COLUMNS, ""),
    "pandas, with its index": ("a.csv", csv_of(FRAME, index=True), {"id": ""}, {**COLUMNS, "ids": ["0", "1", "2"]}, ""),
    "pandas, all in quotes": ("a.csv", csv_of(FRAME, quoting=csv.QUOTE_ALL), {}, COLUMNS, ""),
    "pandas, words in quotes": ("a.csv", csv_of(FRAME, quoting=csv.QUOTE_NONNUMERIC, na_rep="NA"), {}, COLUMNS, ""),
    "pandas, packed": ("a.csv.gz", csv_of(FRAME), {}, COLUMNS, ""),
    "pandas, with carriage returns": ("a.csv", csv_of(FRAME, lineterminator="\r\n"), {}, COLUMNS, ""),
    "pandas, utf-16": ("a.csv", csv_of(FRAME, encoding="utf-16"), {"encoding": "utf-16"}, COLUMNS, ""),
    "pandas, German": ("a.csv", csv_of(FRAME, sep=";", decimal=","), {"separator": ";", "decimal": ","}, COLUMNS, ""),
    "pandas, names of digits": (
        *("a.csv", csv_of(pd.DataFrame([[5.5, 6.5], [7.5, 8.5]])), {}),
        *({"0": [5.5, 7.5], "1": [6.5, 8.5]}, ""),
    ),
    "pandas, a named index": (
        *("a.csv", csv_of(FRAME.set_index(pd.Index(["x", "y", "z"], name="who")), index=True), {"id": "who"}),
        *({**COLUMNS, "ids": ["x", "y", "z"]}, ""),
    ),
    "pandas, time zones": (
        *("a.csv", csv_of(pd.DataFrame({"t": pd.to_datetime(["2024-03-31", "2024-04-01"]).tz_localize("CET")})), {}),
        *({"t": [82800.0, 165600.0]}, ""),  # counted in UTC, of the day before
    ),
    "pandas, a cell of several lines": (
        *("a.csv", csv_of(pd.DataFrame({"a": ["one\ntwo", "three"], "b": [1, 2]})), {}),
        *({"a": ["one\ntwo", "three"], "b": [1, 2]}, ""),
    ),
    "pandas, one column with a hole": (
        *("a.csv", csv_of(pd.DataFrame({"a": [1.5, NAN, 2.5]})), {}, {"a": [1.5, NAN, 2.5]}, ""),
    ),
    "pandas, Parquet": ("a.parquet", FRAME.to_parquet, {}, COLUMNS, ""),
    "pandas, Parquet with an index": (
        *("a.parquet", lambda path: FRAME.set_index("size").fillna(0).to_parquet(path), {"drop": ["size"]}),
        *({name: COLUMNS[name] for name in ("colour", "seen", "alive")}, ""),
    ),
    "pandas, Feather": ("a.feather", FRAME.to_feather, {}, COLUMNS, ""),
    "pandas, an ordered categorical": (
        "a.parquet",
        lambda path: pd.DataFrame(
            {"a": pd.Categorical(["lo", "hi", None], ["lo", "mid", "hi"], ordered=True)}
        ).to_parquet(path),
        *({}, {"a": ["lo", "hi", NAN]}, ""),
    ),
    "Arrow, a stream of words in dictionaries": (
        "a.arrow",
        lambda path: _stream(path, pa.table({"a": pa.array(["x", None, "y"]).dictionary_encode(), "b": [1, 2, None]})),
        *({}, {"a": ["x", NAN, "y"], "b": [1, 2, NAN]}, ""),
    ),
    "Arrow, decimals and dates": (
        "a.parquet",
        lambda path: pq.write_table(
            pa.table({"a": pa.array(["1.50", None]).cast(pa.decimal128(5, 2)), "d": pa.array([3, 1], pa.date32())}),
            path,
        ),
        *({}, {"a": [1.5, NAN], "d": [2, 0]}, ""),
    ),
    "polars": (
        "a.csv",
        as_it_is(
            'size,colour,seen,alive\n1.5,red,2024-01-31,true\n,"light ""blue""",2024-02-29,false\n'
            "-200000.0,red,2024-02-01,true\n"
        ),
        *({}, COLUMNS, ""),
    ),
    "polars, times": (
        *("a.csv", as_it_is("t\n2024-01-01T10:00:00.000000\n2024-01-01T12:00:00.500000\n"), {}),
        *({"t": [36000.0, 43200.5]}, ""),
    ),
    "R, write.csv": (
        *("a.csv", as_it_is(R), {"id": ""}),
        *(
            {"size": [1.5, NAN, -2e5], "colour": ["red", NAN, "blue"], "ids": ["1", "2", "3"]},
            "",
        ),
    ),
    "R, write.csv2": (
        *("a.csv", as_it_is(R.replace(",", ";").replace(".", ",")), {"separator": ";", "decimal": ",", "id": ""}),
        *(
            {"size": [1.5, NAN, -2e5], "colour": ["red", NAN, "blue"], "ids": ["1", "2", "3"]},
            "",
        ),
    ),
    "R, logicals and factors": (
        *("a.csv", as_it_is('"a","b"\nTRUE,"u"\nNA,"v"\nFALSE,"u"\n'), {}),
        *({"a": [1, NAN, 0], "b": ["u", "v", "u"]}, ""),
    ),
    "Excel, CSV UTF-8": (
        *("a.csv", as_it_is("\ufeffgröße,kind\r\n1.5,x\r\n,y\r\n"), {}, {"größe": [1.5, NAN], "kind": ["x", "y"]}, ""),
    ),
    "Excel, CSV in German": (
        *("a.csv", as_it_is("größe;kind\r\n1234,5;x\r\n0,25;y\r\n", "cp1252")),
        {"separator": ";", "decimal": ",", "encoding": "cp1252"},
        *({"größe": [1234.5, 0.25], "kind": ["x", "y"]}, ""),
    ),
    "Excel, Unicode text": (
        *("a.tsv", as_it_is("\ufeffgröße\tkind\r\n1\tx\r\n#N/A\ty\r\n", "utf-16-le"), {"encoding": "utf-16"}),
        *({"größe": [1, NAN], "kind": ["x", "y"]}, ""),
    ),
    "Excel, dates of the day first": (
        *("a.csv", as_it_is("d,n\r\n31.12.2024,1\r\n01.02.2025,2\r\n"), {"date_format": "d=%d.%m.%Y"}),
        *({"d": [0, 32], "n": [1, 2]}, ""),
    ),
    "dates of the day first beside those of a program": (
        *("a.csv", as_it_is("d,e\n31/12/2024,2024-01-01\n01/02/2025,2024-01-03\n"), {"date_format": "d=%d/%m/%Y"}),
        *({"d": [0, 32], "e": [0, 2]}, ""),
    ),
    "Excel, faults of formulas": (
        *(
            "a.csv",
            as_it_is("a,b\r\n1.5,1\r\n#DIV/0!,2\r\n"),
            {"missing": ["#DIV/0!"]},
            {"a": [1.5, NAN], "b": [1, 2]},
            "",
        ),
    ),
    "a spreadsheet, with a column of nothing at the end": (
        *("a.csv", as_it_is("a,b,\n1,2,\n3,4,\n"), {"drop": [""]}, {"a": [1, 3], "b": [2, 4]}, ""),
    ),
    "SQLite": (
        *("a.csv", as_it_is(SQLITE), {"id": "id"}),
        *({"the name": ['a "b"', NAN], "size": [1.5, NAN], "ids": ["1", "2"]}, ""),
    ),
    "PostgreSQL, CSV": (
        *("a.csv", as_it_is("a,b,t\n1,t,2024-01-01 10:00:00+00\n,f,2024-01-01 12:00:00.5+02\n"), {}),
        *({"a": [1, NAN], "b": ["t", "f"], "t": [36000, 36000.5]}, ""),
    ),
    "MySQL, text": (
        *("a.tsv", as_it_is('a\tb\n1\tone "and" two\n\\N\t"\n'), {"quote": "none", "missing": ["\\N"]}),
        *({"a": [1, NAN], "b": ['one "and" two', '"']}, ""),
    ),
    "numpy.savetxt": (
        *("a.csv", as_it_is("a,b\n1.000000000000000000e+00,nan\n-inf,1e5\n".replace("-inf", "2.5")), {}),
        *({"a": [1, 2.5], "b": [NAN, 1e5]}, ""),
    ),
    "a word processor, with minus signs and dashes": (
        *(
            "a.csv",
            as_it_is("a,b\n\u22121.5,1\n\u20132e3,\u22125\n3,6\n"),
            {},
            {"a": [-1.5, -2e3, 3], "b": [1, -5, 6]},
            "",
        ),
    ),
    "UCI, question marks, no header": (
        *("a.csv", as_it_is("5.1,?,x\n4.9,3.0,y\n"), {"header": False, "missing": ["?"]}),
        *({"0": [5.1, 4.9], "1": [NAN, 3.0], "2": ["x", "y"]}, ""),
    ),
    "codes with zeros": (
        *("a.csv", as_it_is("zip,n\n00123,1\n12345,2\n"), {"categorical": ["zip"]}),
        *({"zip": ["00123", "12345"], "n": [1, 2]}, ""),
    ),
}
"""By who writes it: the name of the file, what writes it, options, the columns that it holds, and what is told."""


def _stream(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


@pytest.mark.slow
@pytest.mark.parametrize("case", READ_RIGHT)
def test_a_file_is_read_right(case: str, tmp_path: Path) -> None:
    name, write, options, expected, told = READ_RIGHT[case]
    write(tmp_path / name)
    columns, found = read(tmp_path / name, tmp_path / "a.zarr", options)
    assert list(columns) == list(expected)
    for column, values in expected.items():
        wanted = [np.float32(value).item() if isinstance(value, (int, float)) else value for value in values]
        assert repr(columns[column]) == repr(wanted), column
    assert (bool(found), told in "".join(found)) == (bool(told), True), found


REFUSED = {
    "too few cells": ("a,b\n1,2\n3\n", ["Row #3", "2 columns", "got 1"]),
    "words among numbers": ("a,b\n1,2\n3,4\n5,four\n", ["row 2, column 'b'", "number", "'four'", "`missing='four'`"]),
    "a number among words": ("a\nx\ny\n3\n", ["row 2, column 'a'", "word", "'3'", "`categorical='a'`"]),
    "a decimal comma among points": ('a,b\n1.5,1\n2.5,1\n"1,5",2\n', ["row 2, column 'a'", "'1,5'"]),
    "dates of two forms": ("d\n2024-01-31\n2024-02-01\n31/01/2024\n", ["row 2, column 'd'", "date"]),
    "a date that does not exist": ("d\n2024-01-31\n2023-02-29\n", ["row 1, column 'd'", "date"]),
    "dates with and without a zone": (
        *("d\n2024-01-31T10:00Z\n2024-01-31T10:00\n2024-01-31T11:00\n", ["row 0", "'d'"]),
    ),
    "a name twice": ("a,a\n1,2\n", ["names", "'a'"]),
    "a column without a name": (",a\n0,1\n", ["role", "column ''", "`id=''`", "`drop=''`"]),
    "an empty file": ("", ["Empty"]),
    "only a header": ("a,b\n", ["rows", "none"]),
    "a line above the table": ("made by hand\na,b\n1,2\n", ["Row #2", "`skip_rows`"]),
    "names of rows without a name, of R": ('"a","b"\n"r1",1,2\n', ["Row #2", "2 columns", "got 3"]),
    "infinity": ("a,b\n1,2\ninf,3\n", ["inf in row 1, column 0 (a)"]),
    "a number too large": ("a,b\n1,2\n1e39,3\n", ["1e+39 in row 1, column 0 (a)"]),
    "digits of Python": ("a,b\n1,2\n2,2\n1_000,2\n", ["row 2, column 'a'", "'1_000'"]),
    "latin-1": ("a,b\n1,größe\n".encode("latin-1"), ["Row #2", "UTF8", "`encoding`"]),
    "half a packed file": (gzip.compress(b"a,b\n1,2\n" * 99)[:-12], ["a.csv.gz", "Truncated"]),
    "no packed file": (b"a,b\n1,2\n", ["a.csv.gz", "inflate"]),
}
"""What is refused, and what the message names."""


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_could_be_read_wrongly_is_refused(case: str, tmp_path: Path) -> None:
    content, named = REFUSED[case]
    path = tmp_path / ("a.csv.gz" if "packed" in case else "a.csv")
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError, match=naming(*named)):
        ingest(str(path), str(tmp_path / "a.zarr"))


def test_nothing_about_a_table_is_guessed(tmp_path: Path) -> None:
    """Codes with zeros, words that may be missing, amounts and numbers of rows are what they look like, unsaid."""
    words = ["None", "?", "-", "12 kg", "1,5", "10:30", "31/12/2024", "1_000", "5%"]
    rows = "".join(f'{k},00{k},"{word}"\n' for k, word in enumerate(words, 1))
    (tmp_path / "a.csv").write_text(f"n,code,word\n{rows}", encoding="utf-8")
    columns, told = read(tmp_path / "a.csv", tmp_path / "a.zarr", {})
    assert told == []
    assert columns == {"n": [*range(1, 10)], "code": [*range(1, 10)], "word": words}


def test_a_name_of_several_rows_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,b\n1,2\n1,3\n")
    assert warned(lambda: ingest(str(tmp_path / "a.csv"), str(tmp_path / "a.zarr"), id="id"), "1 row", "name")


TWO_FORMS = "born,seen,n\n05/03/2024,03/05/2024,1\n31/12/2024,12/31/2024,2\n,,3\n"


@pytest.mark.parametrize(
    "date_format",
    [["seen=%m/%d/%Y", "born=%d/%m/%Y"], ["born=%d/%m/%Y", "seen=%m/%d/%Y"]],
)
def test_each_column_may_have_its_own_form_of_dates(date_format: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(TWO_FORMS)
    found = ingest(str(tmp_path / "a.csv"), str(tmp_path / "a.zarr"), date_format=date_format)["X"]
    read = np.asarray(zarr.open_array(str(tmp_path / "a.zarr/X"))[:])
    np.testing.assert_array_equal(read[:, 0], read[:, 1])
    assert read[1, 0] - read[0, 0] == (date(2024, 12, 31) - date(2024, 3, 5)).days
    assert [own.n_missing for own in found.columns] == [1, 1, 0]


def test_digits_are_dates_where_the_column_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("d,n\n20240131,1\n20240201,2\nNA,4\n")
    ingest(str(path), str(tmp_path / "a.zarr"), date_format="d=%Y%m%d")
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "a.zarr/X"))[:, 0], [0, 1, np.nan])


@pytest.mark.parametrize(
    ("content", "date_format", "named"),
    [
        (TWO_FORMS, "seen=%d/%m/%Y", ["row 1, column 'seen'", "'%d/%m/%Y'", "'12/3"]),
        ("d,n\nred,1\n", "d=%Y", ["'%Y'", "'red'"]),
        ("d,n\n31.12.2022,1\n2023-02-28,1\n", "d=%d.%m.%Y", ["row 1, column 'd'", "'2023-02-28'"]),
        ("d,n\n0001-01-01+1400,1\n", "d=%Y-%m-%d%z", ["'0001"]),
        (TWO_FORMS, "seem=%m/%d/%Y", ["'seem'", "'seen'"]),
        (TWO_FORMS, "%d/%m/%Y", ["date_format ", "'%d/%m/%Y'", "column"]),
        (TWO_FORMS, ["n=%d", "n=%m"], ["date_format: ", "column 'n'"]),
    ],
)
def test_forms_of_dates_that_do_not_fit_are_refused(
    content: str, date_format: str | list[str], named: list[str], tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(InputError, match=naming(*named)):
        ingest(str(tmp_path / "a.csv"), str(tmp_path / "a.zarr"), date_format=date_format)
    assert not (tmp_path / "a.zarr").exists()


def test_targets_of_whole_numbers_are_no_labels(tmp_path: Path) -> None:
    rows = "".join(f"{k % 7},{100 * (k % 7)}\n" for k in range(30))
    (tmp_path / "a.csv").write_text(f"size,price\n{rows}")
    ingest(str(tmp_path / "a.csv"), str(tmp_path / "a.zarr"), target="price")
    X, y = str(tmp_path / "a.zarr/X"), str(tmp_path / "a.zarr/y")
    own = SMERF(3, random_state=0).fit(X, y)
    assert own.digest_ == SMERF(3, random_state=0).fit(X, Targets(np.arange(30) % 7 * 100.0)).digest_
    assert own.predict(X).dtype == np.float64
    assert SMERF(3, random_state=0).fit(X, Labels(y)).digest_ != own.digest_
