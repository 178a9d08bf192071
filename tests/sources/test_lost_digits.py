"""Whole numbers with many digits beside fractions, which a table makes float64, are told as those of a matrix are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from distforest import RFD, SMERF
from distforest.sources.data_frames import frame_columns
from distforest.sources.lost_digits import told_of_lost_digits
from tests.estimators.rows import SMALL, SMALL_Y
from tests.sources.helpers import warned

N = len(SMALL)
FRAME = pd.DataFrame(SMALL, columns=list("abcd"))
WIDE = {
    "identifiers": 2**60 + np.arange(N),
    "steps of float64": 2**60 + 300 * np.arange(N),
    "nanoseconds": 1_577_836_800_000_000_000 + 100 * np.arange(N),
    "beyond 2^53": 2**53 + np.arange(N),
    "seconds": 1_577_836_800 + np.arange(N),
}
FORMS: dict[str, Any] = {
    "pandas": lambda frame: frame,
    "nullable": lambda frame: frame.convert_dtypes(),
    "a missing one": lambda frame: frame.convert_dtypes().reindex([*range(N - 1), N]),
    "objects": lambda frame: frame.astype({"id": object}),
    "digits as words": lambda frame: frame.astype({"id": str}),
    "array of objects": lambda frame: frame.astype(object).to_numpy(),
    "polars": lambda frame: pl.DataFrame(frame.to_dict("list")),
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "a missing one of Polars": lambda frame: pl.DataFrame(frame.to_dict("list")).with_columns(
        pl.when(pl.int_range(N) != 3).then("id").alias("id")
    ),
    "a missing one of Arrow": lambda frame: pa.Table.from_pandas(FORMS["a missing one"](frame), preserve_index=False),
    "beside categories": lambda frame: frame.assign(kind=np.where(SMALL_Y == 1, "x", "z")),
}


def told_by(rows: Any, estimator: Any = None) -> list[str]:
    """What a fit tells of features that float32 does not tell apart."""
    return warned(lambda: (estimator or SMERF(2, random_state=0)).fit(rows, SMALL_Y), "float32")


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("form", FORMS)
def test_whole_numbers_that_become_equal_are_told_once(name: str, form: str) -> None:
    [told] = told_by(FORMS[form](FRAME.assign(id=WIDE[name])))
    assert ("column 4 " if form == "array of objects" else "column 'id' ") in told


def test_what_stays_apart_is_not_told() -> None:
    for ids in (np.arange(N), 2**24 + 2 * np.arange(N), 2**60 + 2**40 * np.arange(N), np.full(N, 2**60), SMALL[:, 0]):
        assert told_by(FRAME.assign(id=ids)) == []
    kinds = FRAME.assign(id=2**60 + SMALL_Y)
    assert told_by(kinds.astype({"id": "category"})) == []
    assert told_by(kinds, SMERF(2, categorical_features=["id"], random_state=0)) == []
    assert len(told_by(kinds, RFD(2, n_constraints=20, random_state=0))) == 1


def test_columns_of_fractions_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"x": [0.5, np.nan], "y": pd.array([0.5, None], dtype="Float64")})
    monkeypatch.setattr(pd.Series, "dropna", pytest.fail)
    monkeypatch.setattr(pl.Series, "drop_nulls", pytest.fail)
    for given in (frame, pl.DataFrame({"x": [0.5, None]}), pa.table({"x": [0.5, None]})):
        assert told_of_lost_digits(frame_columns(given)) == ""
