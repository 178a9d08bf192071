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
from distforest.errors import DistforestWarning, InputError
from distforest.sources.files.ids import names_of_rows
from distforest.sources.files.ingest import ingest
from tests.messages import naming
from tests.sources.helpers import warned

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.sources.helpers import Refused, Write

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
COLUMNS_OF_R = {"size": [1.5, NAN, -2e5], "colour": ["red", NAN, "blue"], "ids": ["1", "2", "3"]}


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
    "pandas, with its index": ("a.csv", csv_of(FRAME, index=True), {}, {**COLUMNS, "ids": ["0", "1", "2"]}, "name"),
    "pandas, all in quotes": ("a.csv", csv_of(FRAME, quoting=csv.QUOTE_ALL), {}, COLUMNS, ""),
    "pandas, words in quotes": ("a.csv", csv_of(FRAME, quoting=csv.QUOTE_NONNUMERIC, na_rep="NA"), {}, COLUMNS, ""),
    "pandas, packed": ("a.csv.gz", csv_of(FRAME), {}, COLUMNS, ""),
    "pandas, with carriage returns": ("a.csv", csv_of(FRAME, lineterminator="\r\n"), {}, COLUMNS, ""),
    "pandas, utf-16": ("a.csv", csv_of(FRAME, encoding="utf-16"), {}, COLUMNS, ""),
    "pandas, German": ("a.csv", csv_of(FRAME, sep=";", decimal=","), {"separator": ";", "decimal": ","}, COLUMNS, ""),
    "pandas, names of digits": (
        *("a.csv", csv_of(pd.DataFrame([[5.5, 6.5], [7.5, 8.5]])), {}),
        *({"0": [5.5, 7.5], "1": [6.5, 8.5]}, "header=False"),
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
        *({name: COLUMNS[name] for name in ("colour", "seen", "alive")}, "'size'"),
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
        *("a.csv", as_it_is(R), {}),
        *(
            {"size": [1.5, NAN, -2e5], "colour": ["red", NAN, "blue"], "ids": ["1", "2", "3"]},
            "'NA'",
        ),
    ),
    "R, write.csv2": (
        *("a.csv", as_it_is(R.replace(",", ";").replace(".", ",")), {"separator": ";", "decimal": ","}),
        *(
            {"size": [1.5, NAN, -2e5], "colour": ["red", NAN, "blue"], "ids": ["1", "2", "3"]},
            "'NA'",
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
        *("a.csv", as_it_is("größe;kind\r\n1.234,5;x\r\n0,25;y\r\n", "cp1252")),
        {"separator": ";", "decimal": ",", "thousands": ".", "encoding": "cp1252"},
        *({"größe": [1234.5, 0.25], "kind": ["x", "y"]}, ""),
    ),
    "Excel, Unicode text": (
        *("a.tsv", as_it_is("\ufeffgröße\tkind\r\n1\tx\r\n#N/A\ty\r\n", "utf-16-le"), {}),
        *({"größe": [1, NAN], "kind": ["x", "y"]}, ""),
    ),
    "Excel, dates of the day first": (
        *("a.csv", as_it_is("d,n\r\n31.12.2024,1\r\n01.02.2025,2\r\n"), {"date_format": "%d.%m.%Y"}),
        *({"d": [0, 32], "n": [1, 2]}, ""),
    ),
    "dates of the day first beside those of a program": (
        *("a.csv", as_it_is("d,e\n31/12/2024,2024-01-01\n2025-02-01,2024-01-03\n"), {"date_format": "%d/%m/%Y"}),
        *({"d": [0, 32], "e": [0, 2]}, ""),
    ),
    "Excel, faults of formulas": (
        *("a.csv", as_it_is("a,b\r\n1.5,1\r\n#DIV/0!,2\r\n"), {}, {"a": [1.5, NAN], "b": [1, 2]}, ""),
    ),
    "a spreadsheet, with a column of nothing at the end": (
        *("a.csv", as_it_is("a,b,\n1,2,\n3,4,\n"), {}, {"a": [1, 3], "b": [2, 4]}, "separator"),
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
        *("a.tsv", as_it_is('a\tb\n1\tone "and" two\n\\N\t"\n'), {"quote": "none"}),
        *({"a": [1, NAN], "b": ['one "and" two', '"']}, ""),
    ),
    "numpy.savetxt": (
        *("a.csv", as_it_is("# a,b\n1.000000000000000000e+00,nan\n-inf,1e5\n".replace("-inf", "2.5")), {}),
        *({"a": [1, 2.5], "b": [NAN, 1e5]}, ""),
    ),
    "UCI, question marks, no header": (
        *("a.csv", as_it_is("5.1,?,x\n4.9,3.0,y\n"), {"header": False}),
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
    "too few cells": ("a,b\n1,2\n3\n", ["row 1 (line 3)", "cells", " 2", " 1"]),
    "words among numbers": ("a,b\n1,2\n3,4\n5,four\n", ["row 2 (line 4), column 'b'", "number", "'four'"]),
    "a number among words": ("a\nx\ny\n3\n", ["row 2 (line 4), column 'a'", "word", "'3'"]),
    "decimal commas": ('a,b\n"1,5",2\n', ["row 0 (line 2), column 'a'", "'1,5'"]),
    "a decimal comma and words": ('a,b\n"1,5",2\nx,3\n', ["row 0 (line 2), column 'a'", "'1,5'"]),
    "thousands or a decimal comma": ('a,b\n"1,234",2\n', ["thousands=','", "decimal"]),
    "German thousands": ("a;b\n1.234,5;2\n", ["thousands='.'", "decimal=','"]),
    "numbers of which most have points between thousands": (
        *("a,n\n1.234.567,2\n2.234.567,2\n12,2\n", ["(line 2), column 'a'", "'1.234.567'", "thousands"]),
    ),
    "dates of two forms": ("d\n2024-01-31\n2024-02-01\n31/01/2024\n", ["(line 4), column 'd'", "date"]),
    "a date that does not exist": ("d\n2024-01-31\n2023-02-29\n", ["row 1 (line 3), column 'd'", "date"]),
    "dates with and without a zone": (
        *("d\n2024-01-31T10:00Z\n2024-01-31T10:00\n2024-01-31T11:00\n", ["row 0 (line 2)", "'d'"]),
    ),
    "dates of unknown form": ("d,n\n31/12/2024,1\n", ["date_format='%d/%m/%Y'"]),
    "times of the day": ("t,n\n10:30,1\n11:45,2\n", ["row 0 (line 2), column 't'", "'10:30'"]),
    "shares in per cent": ("a,n\n5%,1\n7%,2\n", ["row 0 (line 2), column 'a'", "'5%'"]),
    "amounts of money": ('a,n\n"$1,000",1\n', ["row 0 (line 2), column 'a'", "'$1,000'"]),
    "a name twice": ("a,a\n1,2\n", ["names", "'a'"]),
    "zero bytes": ("a,b\n1,x\0\n", ["row 0 (line 2), column 1", "'x\\x00'"]),
    "a quote that does not end": ('a,b\n1,"2\n3,4\n', ["line 3", "quotes"]),
    "text after a quote": ('a,b\n1,"2"x\n', ["line 2", "','", "'\"'"]),
    "inches after a quote": ('a,b\n"5" pipe",1\n', ["line 2", "','", "'\"'"]),
    "another separator": ("a;b\n1;2\n", ["separator=';'"]),
    "an empty file": ("", ["empty"]),
    "only a header": ("a,b\n", ["rows", "none", "a,b"]),
    "a line above the table": ("made by hand\na,b\n1,2\n", ["line 2", "skip_rows=1"]),
    "names of rows without a name, of R": ('"a","b"\n"r1",1,2\n', ["row 0 (line 2)", " R "]),
    "infinity": ("a,b\n1,2\ninf,3\n", ["inf in row 1 (line 3), column 0 (a)"]),
    "a number too large": ("a,b\n1,2\n1e39,3\n", ["1e+39 in row 1 (line 3), column 0 (a)"]),
    "digits of Python": ("a,b\n1_000,2\n", ["row 0 (line 2), column 'a'", "'1_000'"]),
    "latin-1": ("a,b\n1,größe\n".encode("latin-1"), ["line 2", "UTF-8", "0xf6"]),
    "half a packed file": (gzip.compress(b"a,b\n1,2\n" * 99)[:-12], ["a.csv.gz", "Compressed"]),
}
"""What is refused, and what the message names."""


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_could_be_read_wrongly_is_refused(case: str, tmp_path: Path) -> None:
    content, named = REFUSED[case]
    path = tmp_path / ("a.csv.gz" if "packed" in case else "a.csv")
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    options = {"separator": ";"} if "German" in case else {}
    with pytest.raises(InputError, match=naming(*named)):
        ingest(str(path), str(tmp_path / "a.zarr"), **options)


@pytest.mark.parametrize(
    ("content", "options", "named"),
    [
        ("a,b\n007,1\n8,2\n", {}, ["'007'", "number"]),
        ("id,b\n1234567890123456789,1\n1234567890123456788,2\n", {}, ["'id'", "digits"]),
        ("a,b\nNA,1\nx,2\n", {}, ["'NA'", "1 row", "missing"]),
        ("a,b\nNone,1\nx,2\n", {}, ["'None'", "category"]),
        ("a,b\n-,1\n+,2\n", {}, ["'-'", "category"]),
        ('a,b\n1, "x"\n2, "y"\n', {}, ["'b'", "quotes"]),
        ("a,b\n1,\n2,\n", {}, ["column 'b'", "no value"]),
        ("red,1\nblue,2\n", {}, ["header=True"]),
        ("red,blue\nblue,red\nred,red\n", {}, ["header=False"]),
        ("id,b\n1,2\n1,3\n", {"id": "id"}, ["1 row", "name"]),
        ("a,b\n" + "".join(f"w{k},{k}.5\n" for k in range(30)), {}, ["'a'", "word"]),
    ],
)
def test_what_is_read_and_may_be_meant_otherwise_is_told(
    content: str, options: dict[str, str], named: list[str], tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text(content)
    assert warned(lambda: ingest(str(tmp_path / "a.csv"), str(tmp_path / "a.zarr"), **options), *named)


@pytest.mark.parametrize("date_format", ["%Y-%d-%m", "%d/%m/%Y"])
def test_a_date_that_two_forms_read_differently_is_read_by_the_given_one(date_format: str, tmp_path: Path) -> None:
    """The 2024-01-13 is no date by year, day, month; in the same column 2024-13-01 is the 13 January."""
    path = tmp_path / "a.csv"
    path.write_text("d,n\n2024-13-01,1\n2024-14-01,2\n2024-01-13,3\n")
    with pytest.raises(InputError, match=naming("column 'd'", "date")):
        ingest(str(path), str(tmp_path / "a.zarr"), date_format=date_format)


def test_dates_of_given_form_and_with_zones_are_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("d,n\n13/01/2024,1\n14/01/2024,2\n2024-01-15T10:00Z,3\n")
    with pytest.raises(InputError, match=naming("column 'd'", "date")):
        ingest(str(path), str(tmp_path / "a.zarr"), date_format="%d/%m/%Y")


TWO_FORMS = "born,seen,n\n05/03/2024,03/05/2024,1\n31/12/2024,12/31/2024,2\n,-,3\n"


@pytest.mark.parametrize(
    "date_format",
    [["%d/%m/%Y", "seen=%m/%d/%Y"], ["seen=%m/%d/%Y", "born=%d/%m/%Y"], ["%m/%d/%Y", "born=%d/%m/%Y"]],
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
    path.write_text("d,n\n20240131,1\n20240201,2\n-,4\n2024-02-03,4\n")
    ingest(str(path), str(tmp_path / "a.zarr"), date_format="d=%Y%m%d")
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "a.zarr/X"))[:, 0], [0, 1, np.nan, 3])
    path.write_text("d,n\n20240131,1\n20240201,2\n")
    with pytest.warns(DistforestWarning, match=naming("'%Y%m%d'", "date_format='COLUMN=%Y%m%d'")):
        ingest(str(path), str(tmp_path / "b.zarr"), date_format="%Y%m%d")


@pytest.mark.parametrize(
    ("content", "date_format", "named"),
    [
        (TWO_FORMS, ["%d/%m/%Y", "seen=%d/%m/%Y"], ["row 1 (line 3), column 'seen'", "'%d/%m/%Y'", "'12/3"]),
        ("d,n\nred,1\n", "d=%Y", ["'%Y'", "'red'"]),
        ("d,n\n2023-02-29,1\n", "d=%d.%m.%Y", ["'2023-02-29'", "no such day"]),
        (TWO_FORMS, "seem=%m/%d/%Y", ["'seem'", "'seen'"]),
        (TWO_FORMS, ["%d", "%m"], ["date_format: ", "'%d' and '%m'"]),
        (TWO_FORMS, ["n=%d", "n=%m"], ["date_format: ", "column 'n'"]),
        (TWO_FORMS, "seen=%-d/%m/%Y", ["date_format ", "'%-d/%m/%Y'", "directive"]),
        (TWO_FORMS, "born=%d/%m/%Y", ["date_format='seen=%m/%d/%Y'"]),
        ("d,n\n05/03/2024,1\n", None, ["date_format='%d/%m/%Y'", "date_format='%m/%d/%Y'"]),
        ("d,n\n-,1\n31/12/2024,2\n", None, ["column 'd'", "'31/12/2024'", "dates"]),
        ("d,n\n05/03/2024,1\n05/13/2024,1\n", None, ["date_format='%m/%d/%Y'"]),
        ("d,n\n05/03/2024,1\n05/13/2024,1\n13/05/2024,1\n", None, ["date_format='%d/%m/%Y'"]),
    ],
)
def test_forms_of_dates_that_do_not_fit_are_refused(
    content: str, date_format: str | list[str] | None, named: list[str], tmp_path: Path
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


def test_dates_with_names_of_months_are_told_with_their_form(write: Write, tmp_path: Path) -> None:
    table = write("prices.csv", "day,price\n" + "".join(f"{day}-Sep-03,{day}.5\n" for day in range(28, 0, -1)))
    told = naming("column 'day'", "'28-Sep-03'", "date_format='day=%d-%b-%y'")
    with pytest.warns(DistforestWarning, match=told) as found:
        ingest(table, str(tmp_path / "prices.zarr"))
    assert len(found) == 1
    written = ingest(table, str(tmp_path / "dates.zarr"), date_format="day=%d-%b-%y")
    assert [column.kind for column in written["X"].columns] == ["date", "number"]


@pytest.mark.parametrize("first", ["2020-01-02", "03/04/2020"])
def test_dates_of_two_forms_are_refused_with_the_form_that_helps(
    write: Write, refused: Refused, tmp_path: Path, first: str
) -> None:
    days = [first, "2020-01-02", "03/04/2020", first]
    table = write("seen.csv", "seen,size\n" + "".join(f"{day},{size}\n" for size, day in enumerate(days)))
    refused(table, "column 'seen'", "'03/04/2020'", "date_format='%d/%m/%Y'", "date_format='%m/%d/%Y'")
    written = ingest(table, str(tmp_path / "seen.zarr"), date_format="%d/%m/%Y")
    assert [column.kind for column in written["X"].columns] == ["date", "number"]
