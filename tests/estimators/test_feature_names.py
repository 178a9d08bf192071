"""Names of features: of data frames and of arrays on disk, kept by saved forests, compared as scikit-learn does."""

from __future__ import annotations

import datetime
import warnings
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone

from distforest import RFD, SMERF, SimForestClassifier, SimForestOutlier, SimForestRegressor, TreeRank, URerF, load
from distforest.errors import DistforestWarning, InputError
from distforest.estimators.pair_columns import Cosine
from distforest.sources.arrays import open_array, write_array
from tests.estimators.rows import SMALL, SMALL_Y
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["sepal length", "sepal width", "petal length", "petal width"]
DTYPES = ["float64", "float64", "float32", "int64"]
FRAME = pd.DataFrame({name: SMALL[:, k] for k, name in enumerate(NAMES)}).astype(
    {"petal length": "float32", "petal width": "int64"}
)
VALUES = FRAME.to_numpy(np.float32)
KINDS = [
    SMERF(5, random_state=0),
    URerF(5, min_samples_split=4, random_state=0),
    RFD(5, random_state=0),
    TreeRank(2, n_pairs=200, max_depth=3, random_state=0),
    SimForestClassifier("rbf", n_estimators=5, random_state=0),
    SimForestRegressor("linear", n_estimators=5, random_state=0),
    SimForestOutlier("rbf", n_estimators=5, random_state=0),
]


@pytest.mark.parametrize("estimator", KINDS)
def test_a_saved_forest_knows_the_names_of_its_features(estimator: Any, tmp_path: Path) -> None:
    forest = clone(estimator).fit(FRAME, SMALL_Y)
    forest.save(tmp_path / "named.zarr")
    loaded = load(tmp_path / "named.zarr")
    assert loaded.feature_names_in_.tolist() == forest.feature_names_in_.tolist() == NAMES
    assert loaded.feature_dtypes_in_.tolist() == forest.feature_dtypes_in_.tolist() == DTYPES
    np.testing.assert_array_equal(loaded.distance(FRAME), forest.distance(FRAME))
    with pytest.raises(ValueError, match="same order"):
        loaded.distance(FRAME[NAMES[::-1]])
    with pytest.raises(ValueError, match="- petal width"):
        loaded.distance(FRAME[NAMES[:3]])
    with pytest.warns(UserWarning, match=naming("valid", type(estimator).__name__)):
        loaded.distance(VALUES)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", KINDS)
def test_names_are_no_part_of_the_digest(estimator: Any, tmp_path: Path) -> None:
    named, plain = clone(estimator).fit(FRAME, SMALL_Y), clone(estimator).fit(VALUES, SMALL_Y)
    assert named.save(tmp_path / "a.zarr") == plain.save(tmp_path / "b.zarr") == named.digest_
    assert not hasattr(load(tmp_path / "b.zarr"), "feature_names_in_")


def test_a_fit_forgets_the_names_of_an_earlier_one(tmp_path: Path) -> None:
    forest = SMERF(3, random_state=0).fit(FRAME, SMALL_Y).fit(VALUES, SMALL_Y)
    assert not hasattr(forest, "feature_names_in_")
    assert not hasattr(forest, "feature_dtypes_in_")
    forest.save(tmp_path / "a.zarr")
    loaded = load(tmp_path / "a.zarr")
    with pytest.warns(UserWarning, match=naming("without", "SMERF")):
        loaded.distance(FRAME)
    assert not hasattr(loaded, "feature_names_in_")


def test_numbers_as_names_are_none() -> None:
    forest = SMERF(3, random_state=0).fit(FRAME.set_axis(range(4), axis=1), SMALL_Y)
    assert not hasattr(forest, "feature_names_in_")
    assert not hasattr(forest, "feature_dtypes_in_")


def test_a_forest_that_is_saved_again_keeps_its_names(tmp_path: Path) -> None:
    SMERF(3, random_state=0).fit(FRAME, SMALL_Y).save(tmp_path / "a.zarr")
    load(tmp_path / "a.zarr").save(tmp_path / "b.zarr")
    assert load(tmp_path / "b.zarr").feature_names_in_.tolist() == NAMES


def test_names_longer_than_a_forest_keeps_are_reported_when_it_is_saved(tmp_path: Path) -> None:
    forest = SMERF(3, random_state=0).fit(FRAME.rename(columns={"petal width": "w" * 5000}), SMALL_Y)
    with pytest.warns(DistforestWarning, match=naming("4 features", "4,096")):
        forest.save(tmp_path / "a.zarr")
    assert not hasattr(load(tmp_path / "a.zarr"), "feature_names_in_")


def test_columns_of_a_similarity_matrix_have_names_too(tmp_path: Path) -> None:
    ids = [f"object {k}" for k in range(len(SMALL))]
    matrix = pd.DataFrame(SMALL @ SMALL.T, columns=ids)
    SimForestClassifier(n_estimators=3, random_state=0).fit(matrix, SMALL_Y).save(tmp_path / "a.zarr")
    loaded = load(tmp_path / "a.zarr")
    loaded.predict(matrix)
    with pytest.raises(ValueError, match="same order"):
        loaded.predict(matrix[ids[::-1]])


def test_further_columns_of_pairs_have_no_names_but_the_features_keep_theirs(tmp_path: Path) -> None:
    forest = TreeRank(2, n_pairs=200, max_depth=2, pair_columns=[Cosine()], random_state=0)
    forest.fit(FRAME, SMALL_Y).save(tmp_path / "a.zarr")
    loaded = load(tmp_path / "a.zarr")
    assert not hasattr(loaded, "feature_names_in_")
    assert list(loaded.forest_.schema.names) == NAMES
    np.testing.assert_array_equal(loaded.distance(forest.extended(FRAME)), forest.distance(FRAME))
    loaded.save(tmp_path / "b.zarr")
    assert list(load(tmp_path / "b.zarr").forest_.schema.names) == NAMES


def stored(folder: Path, name: str, columns: list[int], names: bool = True) -> str:
    values = VALUES[:, columns]
    attributes = {"feature_names": [NAMES[k] for k in columns], "feature_dtypes": [DTYPES[k] for k in columns]}
    write_array(str(folder), name, values.shape, values.dtype, [values], attributes if names else {})
    return str(folder / name)


def test_an_array_on_disk_has_the_names_of_its_attributes(tmp_path: Path) -> None:
    whole = stored(tmp_path / "in.zarr", "X", [0, 1, 2, 3])
    turned = stored(tmp_path / "in.zarr", "turned", [0, 2, 1, 3])
    few, plain = (
        stored(tmp_path / "in.zarr", "few", [0, 1, 2]),
        stored(tmp_path / "in.zarr", "plain", [0, 1, 2, 3], False),
    )
    forest = SMERF(3, random_state=0).fit(whole, SMALL_Y)
    assert forest.feature_names_in_.tolist() == NAMES
    assert forest.feature_dtypes_in_.tolist() == DTYPES
    np.testing.assert_array_equal(forest.distance(whole), forest.distance(FRAME))
    np.testing.assert_array_equal(forest.distance(turned), forest.distance(FRAME))
    np.testing.assert_array_equal(forest.distance(open_array(turned)), forest.distance(FRAME))
    with pytest.raises(InputError, match=naming(f"{few}:", "'petal width'")):
        forest.distance(few)
    with pytest.warns(UserWarning, match=naming("valid", "SMERF")):
        forest.distance(plain)
    unnamed = SMERF(3, random_state=0).fit(plain, SMALL_Y)
    assert not hasattr(unnamed, "feature_names_in_")
    np.testing.assert_array_equal(unnamed.distance(whole), forest.distance(whole))
    with pytest.raises(ValueError, match=naming(3, "SMERF", 4)):
        unnamed.distance(few)


# --- columns that are no numbers --------------------------------------------------------------------------

DAY = datetime.date(2020, 1, 1)
STRANGE: dict[str, Any] = {
    "colour": pd.Categorical(["red", "blue"] * 19),
    "place": ["here", "there"] * 19,
    "took": pd.to_timedelta([1] * 38, unit="D"),
    "day": [DAY] * 38,
}
"""Columns that are no numbers to a forest of numbers; pandas holds plain dates as objects, Arrow as dates."""


@pytest.mark.parametrize(("column", "library"), [*product(STRANGE, ["pandas"]), *product([*STRANGE][:3], ["arrow"])])
def test_a_column_that_is_no_numbers_is_named(column: str, library: str) -> None:
    frame = FRAME.assign(**{column: STRANGE[column]})
    given = frame if library == "pandas" else pa.Table.from_pandas(frame)
    forest = SMERF(3, categorical_features=None)
    with pytest.raises(InputError, match=naming("X:", f"column '{column}'")):
        forest.fit(given, SMALL_Y)
    with pytest.raises(InputError, match=naming("X:", f"column '{column}'")):
        forest.fit(given.select([column]) if library == "arrow" else given[[column]], SMALL_Y)


@pytest.mark.parametrize("column", ["flag", "whole", "objects", "words"])
def test_columns_that_can_be_read_as_numbers_are_taken(column: str) -> None:
    numbers = np.arange(38) % 2
    read = {
        "flag": numbers.astype(bool),
        "whole": pd.array(numbers, dtype="Int64"),
        "objects": numbers.astype(object),
        "words": numbers.astype(str),
    }
    given = FRAME.assign(**{column: read[column]})
    expected = SMERF(3, random_state=0).fit(np.column_stack([FRAME, numbers]), SMALL_Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert SMERF(3, random_state=0).fit(given, SMALL_Y).digest_ == expected.digest_


OBJECTS = [f"o{k}" for k in range(len(VALUES))]
NAMED = pd.DataFrame(VALUES @ VALUES.T, index=OBJECTS, columns=OBJECTS)


@pytest.mark.parametrize("make", [SimForestClassifier, SimForestOutlier])
def test_rows_of_similarities_in_another_order_than_the_columns_are_reported(make: Any) -> None:
    shuffled = NAMED.iloc[::-1]
    with pytest.warns(
        DistforestWarning, match=naming("row 0 of X", f"'{OBJECTS[-1]}'", "column 0", "'o0'", "X.loc[X.columns]")
    ) as told:
        make(n_estimators=3).fit(shuffled, SMALL_Y)
    assert told[0].filename == __file__
    right = shuffled[shuffled.index]
    for given in (
        right,
        NAMED,
        NAMED.reset_index(drop=True),
        NAMED.set_axis(range(len(OBJECTS))),
        NAMED.add_prefix("to "),
    ):
        make(n_estimators=3).fit(given, SMALL_Y)


OTHER_NAMES = {
    "integers": [3, 1, 0, 2],
    "floats": [400.0, 420.5, 410.0, 430.0],
    "levels": pd.MultiIndex.from_product([["sepal", "petal"], ["length", "width"]]),
    "dates": pd.date_range("2024-03-05", periods=4),
    "missing": [7.5, np.nan, 4.0, 3.0],
}


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_columns_without_strings_as_names_are_read_in_their_order(name: str) -> None:
    frame = pd.DataFrame(SMALL, columns=OTHER_NAMES[name])
    forest = RFD(3, random_state=0).fit(frame, SMALL_Y)
    turned = frame.iloc[:, ::-1]
    np.testing.assert_array_equal(forest.distance(turned), forest.distance(turned.to_numpy()))


@pytest.mark.parametrize("make", [SMERF, partial(URerF, min_samples_split=4)])
def test_weights_of_features_named_in_another_order_are_reported(make: Any) -> None:
    frame = pd.DataFrame(SMALL, columns=list("abcd"))
    weights = pd.Series([0.1, 0.2, 0.3, 0.4], index=list("abcd"))
    make(n_estimators=2, feature_weights=weights).fit(frame, SMALL_Y)
    make(n_estimators=2, feature_weights=weights.to_numpy()).fit(frame, SMALL_Y)
    make(n_estimators=2, feature_weights=weights[::-1]).fit(SMALL, SMALL_Y)
    with pytest.warns(DistforestWarning, match=naming("feature_weights", "'d'", "'a'")):
        make(n_estimators=2, feature_weights=weights[::-1]).fit(frame, SMALL_Y)
    numbered = frame.set_axis(list("0123"), axis=1)  # as a csv file names columns that have no names
    make(n_estimators=2, feature_weights=weights.reset_index(drop=True)).fit(numbered, SMALL_Y)


@pytest.mark.parametrize("estimator", [SMERF(2), URerF(2), RFD(2), SimForestClassifier("rbf", n_estimators=2)])
def test_two_columns_of_one_name_are_refused_by_name(estimator: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.eye(6), columns=list("abcadf"))
    with pytest.raises(InputError, match=naming("X:", "'a'", 2)):
        estimator.fit(frame, [0, 1] * 3)
    with pytest.raises(InputError, match=naming("X:", "'3'", 6)):
        estimator.fit(pandas.DataFrame(np.eye(6), columns=[3] * 6), [0, 1] * 3)
