"""Numbers with a unit or a currency: left out if it is named, told if it is not, refused if it is not the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from distforest import SMERF, load
from distforest.command_line.reports import inspected
from distforest.errors import InputError
from distforest.forest.sealed.artifact import read_manifest
from distforest.sources.arrays import open_array
from distforest.sources.files.cells import CellFormat, texts_of
from distforest.sources.files.ingest import ingest
from distforest.sources.files.queries import QueryOptions, ReadColumns, open_queries
from distforest.sources.files.table_files import TextOptions
from distforest.sources.schema import FeatureColumn, Schema
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sources.helpers import Refused, Write

ROWS = "rate;fee\n5,2 %;€ 1.006,60\n-0,5%;-€9\n+7 %;€-1e1\nn/a;€0,5\n"
FORM = {"separator": ";", "decimal": ",", "thousands": "."}


def test_units_that_are_named_are_left_out(write: Write, tmp_path: Path) -> None:
    ingest(write("fees.csv", ROWS), f"{tmp_path}/fees.zarr", unit=["%", "€"], **FORM)  # type: ignore[arg-type]
    found = zarr.open_array(f"{tmp_path}/fees.zarr/X", mode="r")[:]
    np.testing.assert_array_equal(found, np.float32([[5.2, 1006.6], [-0.5, -9], [7, -10], [np.nan, 0.5]]))


@given(
    st.floats(-1e6, 1e6),
    st.sampled_from(["%", "EUR", "kg/m", "€"]),
    st.sampled_from(["", " ", "\u00a0"]),
    st.booleans(),
)
def test_a_number_with_a_unit_is_the_number(value: float, unit: str, blank: str, is_before: bool) -> None:
    cells = CellFormat(units=("%", "kg", "kg/m", "EUR", "€"))
    text = f"{unit}{blank}{value!r}" if is_before else f"{value!r}{blank}{unit}"
    texts = texts_of(pa.array([text]))
    assert cells.is_number(texts).to_pylist() == [True]
    assert cells.numbers(texts).to_pylist() == [value]
    assert cells.units_of(texts).to_pylist() == [unit]
    assert CellFormat().is_number(texts).to_pylist() == [False]


@pytest.mark.parametrize(
    ("text", "unit", "named"),
    [
        ("rate\n5.2 %\n", (), ["line 2", "'5.2 %'", "`unit='%'`"]),
        ("fee\n€ 6.60\n€ 9.90\n", (), ["line 2", "'€ 6.60'", "`unit='€'`"]),
        ("rate\n5.2 %\n0.05\n", ("%",), ["line 3", "'0.05'", "'5.2 %'"]),
        ("fee\n€ 5\n$ 5\n", ("€", "$"), ["line 3", "'$ 5'", "'€ 5'"]),
        ("fee\n5 kg\n5 g\n", ("kg",), ["line 3", "'5 g'"]),
        ("fee\n€ 5\n€ 5 %\n", ("€", "%"), ["line 3", "'€ 5 %'"]),
        ("rate\n5 %\n", ("5",), ["unit ", "'5'"]),
        ("rate\n5 %\n", ("",), ["unit ", "''"]),
    ],
)
def test_other_units_are_refused(
    text: str, unit: tuple[str, ...], named: list[str], write: Write, refused: Refused
) -> None:
    refused(write("sheet.csv", text), *named, unit=unit, header=True)


def test_files_that_are_scored_have_units_too(write: Write) -> None:
    wanted = ReadColumns(Schema((FeatureColumn("fee"), FeatureColumn("rate"))), 2)
    text = TextOptions(unit=("%", "€"), **FORM)
    queries = open_queries(write("fees.csv", ROWS), wanted, QueryOptions(text=text))
    np.testing.assert_array_equal(next(iter(queries.features()))[:2], np.float32([[1006.6, 5.2], [-9, -0.5]]))
    mixed = open_queries(write("mixed.csv", ROWS.replace("7 %", "7")), wanted, QueryOptions(text=text))
    with pytest.raises(InputError, match=naming("line 4", "'+7'")):
        next(iter(mixed.features()))


LEARNED = ReadColumns(Schema((FeatureColumn("rate", unit="%"), FeatureColumn("size"))), 2)


def test_a_forest_keeps_the_units_of_its_columns(write: Write, tmp_path: Path) -> None:
    address, rows = f"{tmp_path}/rates.zarr", "".join(f"{k / 10} %,{k}\n" for k in range(12))
    assert ingest(write("rates.csv", f"rate,size\n{rows}"), address, unit="%")["X"].columns[0].contents == "0 to 1.1 %"
    forest = SMERF(1, random_state=0).fit(f"{address}/X", np.arange(12) % 2)
    forest.save(f"{tmp_path}/f.zarr")
    assert Schema.of_array(address, open_array(f"{address}/X")) == LEARNED.schema
    assert load(f"{tmp_path}/f.zarr")._schema() == LEARNED.schema
    lines = dict(inspected("f.zarr", read_manifest(f"{tmp_path}/f.zarr"), None, None, None).lines)
    assert lines["names"] == "rate (%), size"
    ingest(write("plain.csv", "rate,size\n5.2,1\n"), f"{tmp_path}/named.zarr")
    without = forest.predict(f"{tmp_path}/named.zarr/X")
    np.testing.assert_array_equal(without, forest.predict(pd.DataFrame({"rate": [5.2], "size": [1]})))


def test_files_that_are_scored_have_the_units_of_the_forest(write: Write) -> None:
    """A file is read by the forest's unit, named or not; a cell without it, or with another, is refused by line."""
    queries = open_queries(write("new.csv", "size,rate\n1,5.2 %\n2,NA\n"), LEARNED, QueryOptions())
    np.testing.assert_array_equal(next(iter(queries.features())), np.float32([[5.2, 1], [np.nan, 2]]))
    for cell, units in (("0.052", ()), ("0.052", ("%",)), ("5 ‰", ("%", "‰"))):
        path, text = write("other.csv", f"size,rate\n1,5.2 %\n2,{cell}\n"), TextOptions(unit=units)
        with pytest.raises(InputError, match=naming("line 3), column 'rate'", "'%'", f"'{cell}'")):
            next(iter(open_queries(path, LEARNED, QueryOptions(text=text)).features()))


def test_units_are_the_same_in_all_blocks(write: Write, tmp_path: Path) -> None:
    """The unit of a column is that of its first number, also where another one begins with a block of 1 MiB."""
    n_rows = 1023
    path = write("long.csv", f"rate\n{('5 %'.ljust(1023) + chr(10)) * n_rows}{'0.05'.ljust(1023)}\n")
    expected = naming(f"line {n_rows + 2})", "'%'", "'0.05")
    with pytest.raises(InputError, match=expected):
        ingest(path, f"{tmp_path}/long.zarr", target="rate", unit="%")
    wanted = ReadColumns(Schema((FeatureColumn("rate"),)), 1)
    queries = open_queries(path, wanted, QueryOptions(text=TextOptions(unit="%")))
    with pytest.raises(InputError, match=expected):
        list(queries.features())


@pytest.mark.parametrize("unit", ["", "5", 5, "e", " %"])
def test_an_entry_with_no_unit_is_refused(unit: object) -> None:
    entry = {"names": ["rate"], "encodings": {"0": {"kind": "number", "unit": unit}}}
    with pytest.raises(InputError, match=naming("encodings.0.unit: ")):
        Schema.of_entry(entry, 1)


def test_columns_with_two_units_are_not_the_same() -> None:
    own = Schema((FeatureColumn("rate", unit="%"),))
    with pytest.raises(InputError, match=naming("column 'rate': ", "'%'", "'‰'")):
        own.reordering(Schema((FeatureColumn("rate", unit="‰"),)), "new.zarr/X")
