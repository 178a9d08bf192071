"""Booleans, decimals and digits as words beside what is missing, in tables of Arrow, Polars and pandas: numbers."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from distforest import RFD, SMERF, SimForestRegressor, URerF
from distforest.errors import InputError
from tests.messages import naming

if TYPE_CHECKING:
    from collections.abc import Callable

RNG = np.random.default_rng(0)
N = 60
LACKS = np.arange(N) % 7 == 0
OTHER = RNG.random(N)
Y = RNG.integers(0, 2, N)
FEW: dict[str, Any] = {"n_estimators": 3, "random_state": 0}
KINDS: dict[str, Callable[[int], object]] = {
    "booleans": lambda number: number > 2,
    "decimals": lambda number: Decimal(number) / 4,
    "words": lambda number: str(number / 4),
    "whole numbers": int,
}
TABLES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "arrow": pa.table,
    "polars": pl.DataFrame,
    "pandas of arrow": lambda columns: pa.table(columns).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas": pd.DataFrame,
}
NUMBERS = RNG.integers(0, 6, N).tolist()


def values(kind: str, lacks: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """A column of a table, and the same as numbers."""
    column = [None if missing else KINDS[kind](number) for missing, number in zip(lacks, NUMBERS, strict=True)]
    return column, np.array([np.nan if value is None else float(value) for value in column])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("lacks", [LACKS, np.zeros(N, bool)], ids=["missing", "complete"])
def test_a_column_of_a_table_is_that_of_its_numbers(kind: str, table: str, lacks: np.ndarray) -> None:
    column, plain = values(kind, lacks)
    given, known = TABLES[table]({"a": column, "b": OTHER}), np.column_stack([plain, OTHER])
    for estimator in (SMERF(**FEW), RFD(n_constraints=30, **FEW)):
        assert estimator.fit(given, Y).digest_ == estimator.fit(known, Y).digest_
    forest, other = (URerF(min_samples_split=5, **FEW).fit(rows) for rows in (given, known))
    assert forest.digest_ == other.digest_
    assert np.array_equal(forest.apply(given), other.apply(known))


@pytest.mark.parametrize("table", ["arrow", "polars", "pandas"])
@pytest.mark.parametrize("kind", ["booleans", "decimals"])
def test_columns_of_categories_may_stand_beside_them(table: str, kind: str) -> None:
    column, plain = values(kind, LACKS)
    colour = np.array(["red", "blue"])[Y].tolist()
    named: dict[str, Any] = {**FEW, "categorical_features": ["colour"]}
    found = SMERF(**named).fit(TABLES[table]({"a": column, "colour": colour, "b": OTHER}), Y)
    known = SMERF(**named).fit(pd.DataFrame({"a": plain, "colour": colour, "b": OTHER}), Y)
    assert found.digest_ == known.digest_


def test_sparse_columns_of_pandas_may_leave_out_what_is_missing() -> None:
    dense = np.where(RNG.random((N, 2)) < 0.5, np.nan, RNG.random((N, 2)))
    frame = pd.DataFrame({"a": pd.arrays.SparseArray(dense[:, 0]), "b": pd.arrays.SparseArray(dense[:, 1])})
    assert SMERF(**FEW).fit(frame, Y).digest_ == SMERF(**FEW).fit(dense, Y).digest_
    mixed = frame.assign(c=pd.arrays.SparseArray(Y, fill_value=0))
    assert SMERF(**FEW).fit(mixed, Y).digest_ == SMERF(**FEW).fit(np.column_stack([dense, Y]), Y).digest_


def test_complex_columns_are_refused_by_their_name() -> None:
    for frame in (
        pd.DataFrame({"b": OTHER, "a": OTHER + 1j}),
        pd.DataFrame({"b": OTHER, "a": np.array([1j] * N, object)}),
    ):
        with pytest.raises(InputError, match=naming("X:", "column 'a'", frame["a"].dtype)):
            SMERF(**FEW).fit(frame, Y)


def test_targets_of_pandas_without_a_value_are_reported_by_their_row() -> None:
    targets = pd.Series(
        [None if missing else bool(one) for missing, one in zip(LACKS, Y, strict=True)], dtype="boolean"
    )
    with pytest.raises(InputError, match=naming("targets", 9, "row 0")):
        SimForestRegressor("rbf", **FEW).fit(OTHER[:, None], targets)
