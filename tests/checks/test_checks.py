"""Each check finds what it suspects in data that are wrong, and nothing in data that are right."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from scipy.spatial.distance import cdist
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

from distforest import RFD, SMERF, Distances, Labels, SimForestClassifier, Targets, check
from distforest.checks.suspicions import Given
from distforest.checks.table import CHECKS, Finding, findings
from distforest.errors import DistforestWarning, InputError
from tests.messages import naming

X, Y = load_wine(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
Z = cdist(X, X)
S = np.exp(-(Z**2) / 13)


def with_mark(matrix: np.ndarray, mark: float, share: float = 0.02) -> np.ndarray:
    """Some pairs are marked as unknown by a number."""
    marked, some = matrix.copy(), np.triu(np.random.default_rng(0).random(matrix.shape) < share, 1)
    marked[some | some.T] = mark
    return marked


def alone(matrix: np.ndarray) -> np.ndarray:
    """Of one row nothing is observed."""
    lacking = matrix.copy()
    lacking[5, :] = lacking[:, 5] = np.nan
    lacking[5, 5] = matrix[5, 5]
    return lacking


def beside(values: np.ndarray, column: int = 3) -> np.ndarray:
    """The features with other values in a column."""
    changed = X.copy()
    changed[:, column] = values
    return changed


AGES = np.random.default_rng(1).integers(18, 90, len(X))
ROWS = np.arange(len(X))
CARS = pd.DataFrame({"size": X[:, 0], "name": [f"car {k % 130}" for k in ROWS], "plate": [f"p{k}" for k in ROWS]})
PRECOMPUTED: dict[str, Any] = {"similarity": "precomputed"}
WRONG: dict[str, list[tuple[tuple[Any, ...], dict[str, Any], tuple[object, ...]]]] = {
    "DF001": [((X, Distances(S)), {}, ()), ((S,), {**PRECOMPUTED, "kind": "distance"}, ("similarity",))],
    "DF002": [((Z,), PRECOMPUTED, ("distance",))],
    "DF003": [
        ((np.triu(S),), PRECOMPUTED, ("above",)),
        ((scipy.sparse.triu(scipy.sparse.csr_array(S)),), PRECOMPUTED, ("above",)),
        ((np.where(np.tri(len(S), dtype=bool), S, np.nan),), PRECOMPUTED, ("below",)),
    ],
    "DF005": [((pd.DataFrame(X), pd.Series(Y, index=np.roll(np.arange(len(Y)), 1))), {}, ("y", 0))],
    "DF006": [
        ((beside(np.where(np.arange(len(X)) % 50, X[:, 3], -9999.0)),), {"similarity": "rbf"}, (3, -9999)),
        ((with_mark(S, -1e4),), PRECOMPUTED, (-10000,)),
        ((with_mark(Z, 9999.0),), {**PRECOMPUTED, "kind": "distance"}, (9999,)),
        ((X, Distances(with_mark(Z, 9999.0))), {}, (9999,)),
    ],
    "DF007": [
        ((X, np.arange(len(X))), {}, (178, "Targets")),
        ((pd.DataFrame(beside(AGES / 10.0), columns=[f"c{k}" for k in range(13)]), AGES), {}, ("c3",)),
    ],
    "DF008": [((beside(1000.0 * X[:, 3]),), {"similarity": "linear"}, (3, "linear"))],
    "DF009": [((X,), {"pairs": [[0, 1], [2, 3], [1, 0]], "similar": [1, 1, 0]}, (0, 1))],
    "DF010": [((alone(S),), PRECOMPUTED, ("row 5",)), ((X, Distances(alone(Z))), {}, ("row 5",))],
    "DF011": [((beside(1e12 + np.arange(len(X))),), {}, (3, "float32"))],
    "DF013": [((CARS,), {}, ("'name'", 130, "'plate'", 178))],
}


@pytest.mark.parametrize(
    ("code", "case"), [(code, number) for code, cases in WRONG.items() for number in range(len(cases))]
)
def test_a_check_finds_what_it_suspects(code: str, case: int) -> None:
    args, options, named = WRONG[code][case]
    found = check(*args, **options)
    assert code in {finding.code for finding in found}
    [finding] = [one for one in found if one.code == code]
    assert all(str(name) in finding.text for name in named)


@pytest.mark.parametrize("value", [1e300, -1e300, np.inf])
def test_what_is_too_large_for_float32_is_refused_and_not_suspected(value: float) -> None:
    with pytest.raises(InputError, match=naming("row 5")):
        SMERF(2).fit(beside(np.where(np.arange(len(X)) == 5, value, X[:, 3])), Y)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_columns_of_numbers_in_a_table_are_looked_at(library: str) -> None:
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[library]
    table = make({"word": ["a", "b"] * 89, "size": X[:, 0], "seconds": 1e12 + np.arange(len(X))})
    [finding] = check(table)
    assert (finding.code, "'seconds'" in finding.text) == ("DF011", True)


def test_what_is_no_similarity_is_refused() -> None:
    with pytest.raises(InputError, match=naming("similarity", "'precomputed'", "'rbff'")):
        check(X, similarity="rbff")


def test_every_check_of_data_is_tried_here() -> None:
    assert {code for code, own in CHECKS.items() if own.look is not None} <= set(WRONG)


SETS = {
    name: load(return_X_y=True)
    for name, load in (
        *(("iris", load_iris), ("wine", load_wine), ("digits", load_digits)),
        *(("cancer", load_breast_cancer), ("diabetes", load_diabetes)),
    )
}


@pytest.mark.parametrize("name", SETS)
def test_nothing_is_suspected_of_real_data(name: str) -> None:
    features, truth = SETS[name]
    features, truth = features[:300], truth[:300]
    scaled = (features - features.mean(axis=0)) / np.maximum(features.std(axis=0), 1e-9)
    near, far = np.exp(-cdist(scaled, scaled, "sqeuclidean") / scaled.shape[1]), cdist(scaled, scaled)
    kinds: list[Finding] = check(features, Targets(truth) if name == "diabetes" else truth)
    kinds += check(scaled, Distances(far)) + check(scaled, similarity="rbf") + check(scaled, similarity="linear")
    kinds += check(near, **PRECOMPUTED) + check(far, **PRECOMPUTED, kind="distance")
    holes = np.where(np.random.default_rng(0).random(near.shape) < 0.3, np.nan, near)
    kinds += check(holes, **PRECOMPUTED)
    assert kinds == []


def test_rows_of_weight_0_need_no_observed_pair() -> None:
    weights = (np.arange(len(X)) != 5).astype(float)
    found = findings(Given(distances=alone(Z), weights=weights))
    assert [finding.code for finding in found] == []
    assert [finding.code for finding in findings(Given(distances=alone(Z), weights=1.0 - weights))] == ["DF010"]


@pytest.mark.filterwarnings("ignore:DF01:distforest.errors.DistforestWarning")
def test_a_sparse_matrix_with_one_triangle_is_suspected() -> None:
    upper = scipy.sparse.triu(scipy.sparse.csr_array(S))
    with pytest.warns(DistforestWarning, match="DF003"):
        SimForestClassifier(n_estimators=2, random_state=0).fit(upper, Y)


@pytest.mark.filterwarnings("ignore:DF012:distforest.errors.DistforestWarning")
def test_a_fit_warns_of_findings_and_a_code_switches_a_check_off() -> None:
    with pytest.warns(DistforestWarning, match=naming("DF001", "1 - S")):
        SMERF(2, random_state=0).fit(X, Distances(S))
    contradicting = np.array([[0, 1], [70, 150], [1, 0]] * 5), [1, 0, 0] * 5
    with pytest.warns(DistforestWarning, match=naming("DF009", 0, 1)):
        RFD(2, min_samples_leaf=1, random_state=0).fit_pairs(X, *contradicting)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "DF009")
        warnings.filterwarnings("ignore", "DF012")
        RFD(2, min_samples_leaf=1, random_state=0).fit_pairs(X, *contradicting)


def test_columns_that_name_the_rows_are_named_by_a_fit() -> None:
    for forest in (RFD(2, random_state=0), SMERF(2, random_state=0)):
        with pytest.warns(DistforestWarning, match=naming("DF013", "'name'", 130, "'plate'", 178)):
            forest.fit(CARS.assign(kind=np.where(ROWS % 2, "a", "b")), Y)


def test_labels_that_are_named_so_are_no_amounts(recwarn: pytest.WarningsRecorder) -> None:
    rows = beside(AGES / 10.0)
    assert [finding.code for finding in check(rows, AGES)] == ["DF007"]
    assert check(rows, Labels(AGES)) == []
    SMERF(2, random_state=0).fit(rows, Labels(AGES))
    assert not [one for one in recwarn if "DF007" in str(one.message)]
