"""NA and NaT of pandas among objects: numbers beside them stay numbers, and are no categories."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from distforest import SMERF, SimForestClassifier, URerF

RNG = np.random.default_rng(0)
N = 90
NUMBERS, LACKS = RNG.integers(0, 6, N), np.arange(N) % 9 == 0
Y, OTHER = NUMBERS > 2, RNG.random(N)
FEW: dict[str, Any] = {"n_estimators": 3, "random_state": 0}


def objects(missing: Any, kind: Any) -> list[Any]:
    return [missing if lacks else kind(number) for lacks, number in zip(LACKS, NUMBERS.tolist(), strict=True)]


COLUMNS: dict[str, Any] = {
    "whole numbers": pd.Series(objects(pd.NA, int), dtype="object"),
    "floating numbers": pd.Series(objects(pd.NA, float), dtype="object"),
    "decimals": pd.Series(objects(pd.NA, Decimal), dtype="object"),
    "beside NaT": pd.Series(objects(pd.NaT, int), dtype="object"),
    "digits": pd.Series(objects(pd.NA, str), dtype="string"),
    "digits as objects": pd.Series(objects(pd.NA, str), dtype="object"),
    "Int64": pd.Series(NUMBERS, dtype="Int64").mask(LACKS),
}
PLAIN = np.where(LACKS, np.nan, NUMBERS)


def frame(column: Any, **others: Any) -> pd.DataFrame:
    return pd.DataFrame({"a": column, "b": OTHER, **others})


@pytest.mark.parametrize("column", COLUMNS)
def test_numbers_beside_what_is_missing_stay_numbers(column: str) -> None:
    colour = pd.Categorical(np.array(["red", "blue"])[NUMBERS % 2])
    for others in ({}, {"colour": colour}):
        forest = SMERF(**FEW).fit(frame(PLAIN, **others), Y)
        found = SMERF(**FEW).fit(frame(COLUMNS[column], **others), Y)
        assert found.digest_ == forest.digest_
        assert np.array_equal(found.apply(frame(COLUMNS[column], **others)), forest.apply(frame(PLAIN, **others)))
    assert URerF(**FEW).fit(frame(COLUMNS[column])).digest_ == URerF(**FEW).fit(frame(PLAIN)).digest_


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_that_is_named_holds_categories_all_the_same(column: str) -> None:
    named = {**FEW, "categorical_features": ["a"]}
    known = SMERF(**named).fit(frame(PLAIN), Y)
    assert known.forest_.schema is not None
    assert known.forest_.schema.n_categories == (6, 0)
    assert SMERF(**named).fit(frame(COLUMNS[column]), Y).digest_ == known.digest_


def test_words_beside_what_is_missing_stay_words_and_arrays_are_read_alike() -> None:
    words = pd.Series(objects(pd.NA, lambda number: "abcdef"[number]), dtype="string")
    lacking = frame(words, c=pd.Series(objects(pd.NA, int), dtype="object"))
    forest = SMERF(**FEW).fit(lacking, Y)
    assert forest.forest_.schema is not None
    assert forest.forest_.schema.n_categories == (6, 0, 0)
    assert lacking["c"].dtype == object  # what was given is not changed
    given = np.array([objects(pd.NA, int), OTHER], object).T
    assert SMERF(**FEW).fit(given, Y).digest_ == SMERF(**FEW).fit(np.column_stack([PLAIN, OTHER]), Y).digest_
    fits = [SimForestClassifier("manhattan", **FEW).fit(frame(own), Y) for own in (PLAIN, COLUMNS["whole numbers"])]
    assert fits[0].digest_ == fits[1].digest_
    assert pd.isna(given[0, 0])
