"""Rows of pandas are paired by their places: names in another order are told."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from distforest import (
    RFD,
    SMERF,
    Distances,
    Labels,
    SimForestClassifier,
    SimForestOutlier,
    Targets,
    TreeRank,
    URerF,
)
from distforest.errors import DistforestWarning, InputError
from distforest.sources.row_order import warning_about_order, warning_about_row_order
from tests.estimators.caught_warnings import warnings_of
from tests.messages import naming

X = load_iris(as_frame=True).data.set_axis(list("abcd"), axis=1)
Y = load_iris(as_frame=True).target
TURNED = Y[::-1]
FEW = {"n_estimators": 2, "random_state": 0}
PAIRS, SIMILAR = np.array([[0, 1], [0, 60], [3, 9], [70, 140]] * 5), [1, 0, 1, 0] * 5

FITS: dict[str, Any] = {
    "SMERF": lambda y, w: SMERF(**FEW).fit(X, y, w),
    "SMERF on labels": lambda y, w: SMERF(**FEW).fit(X, Labels(y), w),
    "SMERF on targets": lambda y, w: SMERF(**FEW).fit(X, Targets(y), w),
    "SMERF on distances": lambda y, w: SMERF(**FEW).fit(X, pd.DataFrame(differences(y), index=y.index), w),
    "SimForest": lambda y, w: SimForestClassifier("manhattan", **FEW).fit(X, y, w),
    "RFD": lambda y, w: RFD(**FEW).fit(X, y, w),
    "TreeRank": lambda y, w: TreeRank(**FEW, max_depth=2).fit(X, y, w),
}
OF_WEIGHTS: dict[str, Any] = {
    "SimForestOutlier": lambda w: SimForestOutlier("manhattan", **FEW).fit(X, sample_weight=w),
    "URerF": lambda w: URerF(**FEW).fit(X, sample_weight=w),
    "RFD on pairs": lambda w: RFD(**FEW).fit_pairs(X, PAIRS, SIMILAR, w),
}


def differences(y: pd.Series) -> np.ndarray:
    values = y.to_numpy(np.float64)
    return np.abs(values[:, None] - values)


def warnings_of_rows(call: Any) -> list[str]:
    """The warnings about the order of rows."""
    return warnings_of(call, "DF005", "row 0 of ", ".to_numpy()")


@pytest.mark.parametrize("name", FITS)
def test_rows_of_y_and_weights_in_another_order_are_reported(name: str) -> None:
    weights = pd.Series(np.ones(len(X)), index=TURNED.index)
    for what, message in zip(
        ("y", "sample_weight"), warnings_of_rows(lambda: FITS[name](TURNED, weights)), strict=True
    ):
        named = ("row 0 of X", " 0 ", f"of {what} 149", f"{what}.loc[X.index]", f"{what}.to_numpy()")
        assert re.search(naming(*named), message)
    assert warnings_of_rows(lambda: FITS[name](TURNED.loc[X.index], weights.loc[X.index])) == []
    assert warnings_of_rows(lambda: FITS[name](Y, None)) == []


@pytest.mark.parametrize("name", OF_WEIGHTS)
def test_weights_alone_are_told_too(name: str) -> None:
    weights = pd.Series(np.ones(len(X)), index=TURNED.index)
    assert len(warnings_of_rows(lambda: OF_WEIGHTS[name](weights))) == 1
    assert warnings_of_rows(lambda: OF_WEIGHTS[name](weights.to_numpy())) == []


@pytest.mark.parametrize("of", ["pairs", "similar"])
def test_what_is_known_of_pairs_in_another_order_than_these_is_reported(of: str) -> None:
    pairs, similar = pd.DataFrame(PAIRS), pd.Series(SIMILAR)
    weights = pd.Series(np.ones(len(PAIRS)), index=pairs.index[::-1])
    given: tuple[Any, Any] = (pairs, similar) if of == "pairs" else (PAIRS, similar)
    fit = RFD(**FEW).fit_pairs
    [warning] = warnings_of_rows(lambda: fit(X, *given, pair_weight=weights))
    assert re.search(naming(f"row 0 of {of}", " 0 ", "of pair_weight 19"), warning)
    assert warnings_of_rows(lambda: fit(X, *given, pair_weight=weights.loc[similar.index])) == []
    [warning] = warnings_of_rows(lambda: fit(X, pairs, similar[::-1]))
    assert re.search(naming("row 0 of pairs", " 0 ", "of similar 19"), warning)


def test_columns_of_distances_in_another_order_than_its_rows_are_reported() -> None:
    named = [f"flower {i}" for i in range(len(X))]
    Z = pd.DataFrame(differences(Y), index=named, columns=named[::-1])
    with pytest.warns(
        DistforestWarning, match=naming("row 0 of y", "'flower 0'", "column 0", "'flower 149'", "y.loc[y.columns]")
    ):
        SMERF(**FEW).fit(X, Z)
    with pytest.warns(DistforestWarning, match=naming("row 0 of y", "'flower 0'", "column 0", "'flower 149'")):
        SMERF(**FEW).fit(X, Distances(Z))


@pytest.mark.parametrize(
    ("own", "other"),
    [
        ([0, 1, 2], [0, 1, 2]),
        ([0, 1, 2], [7, 8, 9]),
        ([0, 1, 2], [2, 1, 5]),
        (["a", "a", "b"], ["a", "a", "b"]),
        ([], []),
    ],
    ids=["the same", "other names", "some others", "twice the same name", "no row"],
)
def test_names_that_do_not_contradict_are_no_matter(own: list[Any], other: list[Any]) -> None:
    frame = pd.DataFrame({"x": np.zeros(len(own))}, index=own)
    assert warning_about_row_order(frame, pd.Series(np.zeros(len(other)), index=other), "y") == ""
    assert warning_about_row_order(frame.to_numpy(), pd.Series(np.zeros(len(other)), index=other), "y") == ""
    assert warning_about_row_order(frame, [1, 2, 3], "y") == ""


def test_more_rows_of_the_same_names_are_told_as_such() -> None:
    twice = pd.concat([Y, Y])
    assert warning_about_row_order(X, twice, "y") == ""
    with pytest.raises(InputError, match=naming(150, 300)):
        SMERF(**FEW).fit(X, Labels(twice))


COLUMNS: dict[str, Any] = {
    "str": lambda words: pd.Series(words, dtype="str"),
    "string": lambda words: pd.Series(words, dtype="string"),
    "category": lambda words: pd.Series(words, dtype="category"),
    "Categorical": pd.Categorical,
    "pyarrow": lambda words: pd.Series(words, dtype="string[pyarrow]"),
    "Int64": lambda words: pd.Series([len(word) for word in words], dtype="Int64"),
    "boolean": lambda words: pd.Series([word == "x" for word in words], dtype="boolean"),
    "int64 of pyarrow": lambda words: pd.Series([len(word) for word in words], dtype="int64[pyarrow]"),
}
OF_LABELS: dict[str, Any] = {
    "SMERF": lambda y: SMERF(**FEW).fit(X, y),
    "SMERF on labels": lambda y: SMERF(**FEW).fit(X, Labels(y)),
    "SimForest": lambda y: SimForestClassifier("manhattan", **FEW).fit(X, y),
    "RFD": lambda y: RFD(**FEW).fit(X, y),
}


@pytest.mark.parametrize("name", OF_LABELS)
@pytest.mark.parametrize("column", COLUMNS)
def test_labels_of_pandas_have_any_of_its_types(name: str, column: str) -> None:
    y = COLUMNS[column](["x" if one else "yy" for one in Y])
    found = OF_LABELS[name](y).distance(X)
    assert np.array_equal(found, OF_LABELS[name](np.asarray(y).tolist()).distance(X))


def test_labels_of_pandas_in_another_order_are_told_whatever_their_type() -> None:
    words = pd.Series(Y.map({0: "a", 1: "b", 2: "c"}), dtype="category")
    assert len(warnings_of_rows(lambda: SMERF(**FEW).fit(X, words[::-1]))) == 1
    assert len(warnings_of_rows(lambda: SMERF(**FEW).fit(X, Labels(words[::-1])))) == 1
    assert warnings_of_rows(lambda: SMERF(**FEW).fit(X, words)) == []


def test_columns_that_a_csv_names_by_words_are_reported_beside_rows_that_it_numbers() -> None:
    numbers = np.arange(1001, 1001 + len(X))
    written = pd.DataFrame(differences(Y), index=numbers, columns=numbers[::-1]).to_csv()
    Z = pd.read_csv(io.StringIO(written), index_col=0)
    with pytest.warns(
        DistforestWarning, match=naming("row 0 of y", 1001, "column 0", "'1150'", "y.loc[y.columns.astype(int)]")
    ):
        SMERF(**FEW).fit(X, Z)
    mended = Z.loc[Z.columns.astype(int)]
    assert mended.index.astype(str).tolist() == mended.columns.tolist()
    assert warning_about_order(mended, "y") == ""


@pytest.mark.parametrize("dtype", ["int64", "uint8", "object"])
def test_rows_named_by_words_are_reported_beside_the_same_numbers(dtype: str) -> None:
    numbered = pd.Series(np.zeros(3), index=pd.Index([11, 12, 13], dtype=dtype))
    named = pd.Series(np.arange(3.0), index=["13", "12", "11"])
    found = warning_about_row_order(numbered.to_frame("x"), named, "y")
    assert re.search(naming("row 0 of X", 11, "of y '13'", "y.loc[X.index.astype(str)]"), found)
    assert named.loc[numbered.index.astype(str)].tolist() == [2.0, 1.0, 0.0]
    found = warning_about_row_order(named.to_frame("x"), numbered, "y")
    assert re.search(naming("row 0 of X", "'13'", "of y 11", "y.loc[X.index.astype(int)]"), found)
    assert warning_about_row_order(numbered.to_frame("x"), named[::-1], "y") == ""


@pytest.mark.parametrize("other", [["1", "2", "4"], ["01", "02", "03"], ["1", "1", "2"], [True, False, None]])
def test_words_that_are_other_names_than_the_numbers_are_no_matter(other: list[Any]) -> None:
    frame = pd.DataFrame({"x": np.zeros(3)}, index=[2, 1, 3])
    assert warning_about_row_order(frame, pd.Series(np.zeros(3), index=pd.Index(other, dtype=object)), "y") == ""
    assert warning_about_order(pd.DataFrame(np.eye(3), index=[2, 1, 3], columns=other), "X") == ""
