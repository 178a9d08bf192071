"""Numbers with a unit or a currency: left out if it is named, told if it is not, refused if it is not the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.sources.files import csv_table
from distforest.sources.files.cells import CellFormat, texts_of
from distforest.sources.files.ingest import ingest
from distforest.sources.files.queries import QueryOptions, ReadColumns, open_queries
from distforest.sources.files.survey import numbers_in
from distforest.sources.files.table_files import TextOptions, open_table
from distforest.sources.schema import FeatureColumn, Schema

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[[str, str], str]

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
    ("text", "unit", "expected"),
    [
        ("rate\n5.2 %\n", (), r"line 2.*found '5.2 %'; give `unit='%'` to leave it out"),
        ("fee\n€ 6.60\n€ 9.90\n", (), r"line 2.*found '€ 6.60'; give `unit='€'` to leave it out"),
        (
            "rate\n5.2 %\n0.05\n",
            ("%",),
            r"line 3.*one unit, or all without, were.*found '0.05' beside '5.2 %'",
        ),
        ("fee\n€ 5\n$ 5\n", ("€", "$"), r"line 3.*found '\$ 5' beside '€ 5'"),
        ("fee\n€ 5\n€ 5 %\n", ("€", "%"), r"line 3.*a number was expected, found '€ 5 %'"),
        ("fee\n5 kg\n5 g\n", ("kg",), r"line 3.*a number was expected, found '5 g'"),
        ("rate\n5 %\n", ("5",), "unit must be what stands beside a number"),
        ("rate\n5 %\n", ("",), "unit must be what stands beside a number"),
    ],
)
def test_other_units_are_refused(text: str, unit: tuple[str, ...], expected: str, write: Write, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=expected):
        ingest(write("sheet.csv", text), f"{tmp_path}/sheet.zarr", unit=unit, header=True)


def test_files_that_are_scored_have_units_too(write: Write) -> None:
    wanted = ReadColumns(Schema((FeatureColumn("fee"), FeatureColumn("rate"))), 2)
    text = TextOptions(unit=("%", "€"), **FORM)
    queries = open_queries(write("fees.csv", ROWS), wanted, QueryOptions(text=text))
    np.testing.assert_array_equal(next(iter(queries.features()))[:2], np.float32([[1006.6, 5.2], [-9, -0.5]]))
    mixed = open_queries(write("mixed.csv", ROWS.replace("7 %", "7")), wanted, QueryOptions(text=text))
    with pytest.raises(InputError, match=r"line 4.*found '\+7'"):
        next(iter(mixed.features()))


@pytest.mark.parametrize("others", ["0.05", "7 €"])
def test_all_blocks_of_a_column_have_one_unit(others: str, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_table, "BLOCK_BYTES", 64)  # more are read at once, but for so many lines twice
    path = write("rates.csv", "rate\n" + "5 %\n" * 9 + "n/a\n" * 50_000 + f"{others}\n" * 9)
    text = TextOptions(unit=("%", "€"))
    told = rf"line 50011\), column 'rate'.*found '{others}'"
    with pytest.raises(InputError, match=told):
        list(open_queries(path, ReadColumns(Schema((FeatureColumn("rate"),)), 1), QueryOptions(text=text)).features())
    table = open_table(path, "csv", text)
    with pytest.raises(InputError, match=told):
        numbers_in(table, "target", "rate", text.cells(), with_missing=True)
