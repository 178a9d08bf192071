"""Labels that name rows, words of missing labels among them, and distances that are all the same: told."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

from distforest import RFD, SMERF, Labels, SimForestClassifier
from distforest.errors import DistforestWarning, InputError
from distforest.sources.distance_doubts import told_of_equal_distances
from distforest.sources.doubts import told_of_classes
from distforest.sources.truth import Truth
from tests.messages import naming

X, Y = load_wine(return_X_y=True)
N = len(X)
WORDS = np.array(["red", "white", "rosé"])[Y].astype(object)
NAMES = np.array([f"bottle {k}" for k in range(N)])
FEW: dict[str, Any] = {"n_estimators": 2, "random_state": 0}
FITS: dict[str, Any] = {
    "SMERF": lambda y: SMERF(**FEW).fit(X, y),
    "SMERF on labels": lambda y: SMERF(**FEW).fit(X, Labels(y)),
    "SimForest": lambda y: SimForestClassifier("manhattan", **FEW).fit(X, y),
    "RFD": lambda y: RFD(**FEW).fit(X, y),
}


@pytest.mark.parametrize("name", FITS)
def test_words_of_missing_labels_are_told(name: str) -> None:
    lacking = pd.Series(WORDS).where(np.arange(N) % 9 > 0)
    with pytest.warns(DistforestWarning, match=naming("'nan'", "20 rows")):
        FITS[name](np.array([str(word) for word in lacking.to_numpy(dtype=object, na_value=np.nan)]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FITS[name](WORDS.astype(str))
        FITS[name](np.where(Y == 0, "None", WORDS.astype(str)))


@pytest.mark.parametrize("name", FITS)
def test_labels_that_name_rows_are_told(name: str) -> None:
    are_paired = pytest.raises(InputError, match="must-link") if name == "RFD" else nullcontext()
    with are_paired, pytest.warns(DistforestWarning, match=naming("178 rows", "label")):
        FITS[name](NAMES)


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("mark", [-1, -999])
def test_a_number_of_missing_labels_is_told(name: str, mark: int) -> None:
    lacking = np.where(np.arange(N) % 9 > 0, Y, mark)
    with pytest.warns(DistforestWarning, match=f"{mark} of 20 rows"):
        FITS[name](lacking)
    with pytest.warns(DistforestWarning, match=f"{mark}.0 of 20 rows"):
        FITS[name](lacking.astype(float))


@pytest.mark.parametrize("name", FITS)
def test_words_that_are_fractions_are_told(name: str) -> None:
    with pytest.warns(DistforestWarning, match=naming("labels ", len(np.unique(X[:, 0])), "178 rows", "amounts")):
        FITS[name](X[:, 0].astype(str))


@pytest.mark.parametrize(
    "classes", [[-1, 1], [-1, 0, 1], [-2, -1, 0, 1, 2], [-5, 0, 1, 2], [9, 99], [-1, "a"], [True, False]]
)
def test_numbers_below_0_that_may_be_classes_are_not_told(classes: list[object]) -> None:
    assert told_of_classes(classes, np.arange(30) % len(classes)) == ""
    versions = ["1.0", "1.1", "2.0"]
    assert told_of_classes(versions, np.arange(30) % 3) == ""


def test_what_may_be_meant_is_not_told() -> None:
    codes = np.arange(30)
    assert told_of_classes(list(range(30)), codes) == ""
    assert told_of_classes([str(k) for k in range(20)], codes[:20]) == ""
    assert told_of_classes([str(k) for k in range(29)], np.minimum(codes, 28)) == ""
    assert told_of_classes(["NA", "EU", "none", "Unknown"], codes % 4) == ""
    assert told_of_classes(["", " ", "EU"], codes % 3).startswith("the labels '' and ' ' of 20 rows ")
    assert told_of_classes([], np.empty(0, np.int32)) == ""


def test_equal_distances_are_told() -> None:
    equal = 3.0 - 3.0 * np.eye(N)
    with pytest.warns(DistforestWarning, match=naming("distances: ", "3,")):
        Truth.of(equal)
    equal[4, 9] = equal[9, 4] = 2.0
    for matrix in (equal, np.zeros((N, N)), np.ones((2, 2)), 1.0 - np.eye(3)[:, ::-1]):
        assert told_of_equal_distances(matrix.astype(np.float32)) == ""
    holes = np.where(np.eye(N)[::-1] > 0, np.nan, 1.0 - np.eye(N))
    assert told_of_equal_distances(holes.astype(np.float32)) != ""
