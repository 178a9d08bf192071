"""The estimators keep the rules of scikit-learn: its own checks, parameters, names, and work with its tools."""

from __future__ import annotations

import inspect
import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_sample_weight_equivalence_on_dense_data, parametrize_with_checks

import distforest
from distforest import RFD, SMERF, Embedding, Labels, SimForestClassifier, SimForestRegressor, Targets, URerF
from distforest.errors import InputError
from distforest.growth.methods import METHODS

if TYPE_CHECKING:
    from collections.abc import Callable

from tests.estimators.rows import NAMES, SMALL, SMALL_Y, X, Y
from tests.messages import naming

pytestmark = pytest.mark.slow

_DRAWN = (
    "rows, objects and pairs are drawn by their numbers, which repeated rows do not keep; it fails for RandomForest too"
)

_EQUIVALENCE = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")


def _expected(estimator: BaseEstimator) -> dict[str, str]:
    """The checks that fail."""
    drawn = {_EQUIVALENCE[0]: _DRAWN}
    return drawn if isinstance(estimator, (SimForestClassifier, SimForestRegressor, RFD)) else {}


_OF_ALL_ROWS: dict[type, dict[str, Any]] = {
    SMERF: {"bootstrap": False, "feature_weights": None, "coefficients": "sign"},
    URerF: {
        "splitter": "best",
        "max_samples": None,
        "feature_weights": None,
        "n_witnesses": 0,
        "coefficients": "sign",
    },
}
"""Parameters with which no rows are drawn, and a row of weight 3 counts as three everywhere.

Scikit-learn, too, runs its checks of weights with parameters of their own (`PER_ESTIMATOR_CHECK_PARAMS`).
"""


_LEAST_LEAF = {"min_samples_leaf": 12}
"""Leaves of a quarter of the rows for the check of weights that are 10^7 apart.

The check itself gives the trees of scikit-learn leaves of a least weight (`min_weight_fraction_leaf`): a pure leaf
votes for its class, whatever a row of another one weighs.
"""


class _WithOwnColumns(SMERF):
    """SMERF without a column for each training row: repeated rows would be further columns of `transform`."""

    def transform(self, X: Any) -> Any:
        return self.distance(X, X)


def _of_all_rows(estimator: BaseEstimator) -> BaseEstimator:
    """The estimator as it must be so that repeated rows can be the same as weights."""
    params = {**estimator.get_params(), **_OF_ALL_ROWS.get(type(estimator), {})}
    return (_WithOwnColumns if type(estimator) is SMERF else type(estimator))(**params)


@parametrize_with_checks(
    [
        SMERF(n_estimators=10),
        SMERF(n_estimators=10, splitter="random", coefficients="normal", feature_weights="dependence"),
        URerF(n_estimators=10, min_samples_split=2),
        URerF(
            n_estimators=10,
            criterion="fast_bic",
            splitter="best",
            feature_weights=None,
            n_witnesses=0,
            coefficients="sign",
            min_samples_split=4,
            max_samples=None,
        ),
        RFD(n_estimators=10, n_constraints=20),
        SimForestClassifier("linear", n_estimators=10),
        SimForestRegressor("linear", n_estimators=10),
        SimForestClassifier(n_estimators=10),
        SimForestRegressor(n_estimators=10),
    ],
    expected_failed_checks=_expected,
)
def test_scikit_learn(estimator: BaseEstimator, check: Callable[[BaseEstimator], None]) -> None:
    if check.func.__name__ in _EQUIVALENCE:  # type: ignore[attr-defined]
        estimator = _of_all_rows(estimator)
    if check.func.__name__ == "check_class_weight_classifiers":  # type: ignore[attr-defined]
        estimator = clone(estimator).set_params(**_LEAST_LEAF)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its checks provoke warnings
        assert check(estimator) is None  # a check raises AssertionError where it fails


@pytest.mark.parametrize("more", [{}, {"max_bins": 4}, {"splitter": "random"}, {"min_samples_leaf": 3}])
def test_a_weight_is_so_many_equal_rows(more: dict[str, Any]) -> None:
    forest = _WithOwnColumns(n_estimators=10, bootstrap=False, **more)
    assert check_sample_weight_equivalence_on_dense_data("SMERF", forest) is None


@pytest.mark.parametrize("method", ["transform", "distance", "apply", "kneighbors"])
def test_rows_of_another_width_are_refused(method: str) -> None:
    forest = SMERF(5, random_state=0).fit(SMALL, SMALL_Y)
    with pytest.raises(ValueError, match=naming(3, "SMERF", 4)):
        getattr(forest, method)(SMALL[:, :3])
    with pytest.raises(ValueError, match=naming(3, "SMERF", 4)):
        forest.score(SMALL[:, :3], SMALL_Y)


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        (RFD, "rfd"),
        (SMERF, "smerf"),
        (URerF, "urerf"),
        (SimForestClassifier, "simforest"),
        (SimForestRegressor, "simforest"),
    ],
)
def test_constructors_agree_with_the_one_list_of_parameters(kind: type, method: str) -> None:
    found = {name: p.default for name, p in inspect.signature(kind).parameters.items()}
    expected: dict[str, Any] = {p.name: p.default for p in METHODS[method].parameters}
    expected |= {"random_state": None, "n_jobs": None, "verbose": 0, "warm_start": False, "client": None}
    if method in {"smerf", "urerf", "rfd"}:
        expected["categorical_features"] = "from_dtype"
    if method == "rfd":
        expected["pair_columns"] = None
    if kind is SimForestRegressor:
        del expected["class_weight"]
    if method == "simforest":
        expected |= {"similarity": "precomputed", "similarity_weights": None, "kind": "similarity", "gamma": None}
    assert found == expected
    for name in expected:
        assert f"    {name} : " in str(kind.__doc__)
    assert "{parameters}" not in str(kind.__doc__)


@pytest.mark.parametrize(
    ("estimator", "named"),
    [
        (SMERF(0, max_depth="deep"), ("n_estimators", 0, "max_depth", "'deep'")),
        (SMERF(max_samples=1000), ("max_samples=1000", 38)),
        (SMERF(random_state=-1), ("random_state", -1)),
        (SMERF(n_jobs=0), ("n_jobs", 0)),
        (SimForestClassifier("sigmoid"), ("similarity", "'precomputed'", "'linear'", "'sigmoid'")),
        (SimForestClassifier("rbf", gamma=0.0), ("gamma", 0.0)),
        (SimForestClassifier("rbf", kind="distance"), ("kind='distance'", "similarity='precomputed'")),
        (SimForestRegressor(kind="angle"), ("kind", "'similarity'", "'distance'", "'angle'")),
        (SMERF(5, bootstrap=False, oob_score=True), ("oob_score", "pairs", "bootstrap=True")),
        (
            SimForestClassifier("linear", n_estimators=5, bootstrap=False, oob_score=True),
            ("oob_score", "rows", "bootstrap=True"),
        ),
    ],
)
def test_bad_parameters_are_refused_by_fit(estimator: Any, named: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        estimator.fit(SMALL, SMALL_Y)


def test_numbers_of_numpy_lead_to_the_same_forest() -> None:
    plain = SMERF(5, max_depth=3, max_samples=0.5, random_state=7).fit(SMALL, SMALL_Y)
    numpy = SMERF(np.int64(5), max_depth=np.int32(3), max_samples=np.float64(0.5), random_state=np.int64(7))
    assert numpy.fit(SMALL, SMALL_Y).digest_ == plain.digest_


def test_random_state() -> None:
    def digest(random_state: Any) -> str:
        return str(SMERF(3, random_state=random_state).fit(SMALL, SMALL_Y).digest_)

    assert digest(1) == digest(1) != digest(2)
    assert digest(np.random.RandomState(1)) == digest(np.random.RandomState(1))
    assert digest(None) != digest(None)
    state = np.random.RandomState(1)
    assert digest(state) != digest(state)


@pytest.mark.parametrize("load_data", [load_iris, load_wine])
def test_a_pipeline_with_nearest_neighbours(load_data: Callable[..., Any]) -> None:
    rows, labels = load_data(return_X_y=True)
    train, test, y_train, y_test = train_test_split(rows, labels, stratify=labels, random_state=0)
    model = make_pipeline(SMERF(30, random_state=0), KNeighborsClassifier(metric="precomputed"))
    assert model.fit(train, y_train).score(test, y_test) > 0.9


@pytest.mark.parametrize("truth", [Y, NAMES, Labels(Y), Targets(Y + 0.5 * X[:, 0]), Embedding(X[:, :2])])
def test_grid_search(truth: Any) -> None:
    search = GridSearchCV(SMERF(10, random_state=0), {"max_depth": [1, 4]}, cv=3, error_score="raise")
    order = np.random.default_rng(0).permutation(len(X))
    search.fit(X[order], truth[order])
    assert search.best_params_ == {"max_depth": 4}
    assert 0.5 < search.best_score_ <= 1.0


def test_public_names() -> None:
    for name in distforest.__all__:
        assert name in dir(distforest)
        text = inspect.getdoc(getattr(distforest, name))
        assert text
        for section in re.findall(r"^Parameters\n-+\n(.*?)(?=\n\w+\n---|\Z)", text, re.DOTALL | re.MULTILINE):
            named = [line for line in section.splitlines() if line and not line.startswith(" ")]
            assert [line for line in named if not re.fullmatch(r"\**\w+(, \**\w+)*( : .*)?", line)] == []
    with pytest.raises(AttributeError, match=naming("distforest", "'URF'")):
        _ = distforest.URF  # type: ignore[attr-defined]


def test_names_of_columns() -> None:
    arrow = pytest.importorskip("pyarrow")
    frame = arrow.table({name: X[:, k] for k, name in enumerate("abcd")})
    forest = SMERF(3, random_state=0).fit(frame, Y)
    assert forest.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert forest.digest_ == SMERF(3, random_state=0).fit(X, Y).digest_
    with pytest.raises(ValueError, match="same order"):
        forest.transform(frame.select(["b", "a", "c", "d"]))
    with pytest.warns(UserWarning, match=naming("valid", "SMERF")):
        forest.transform(X)
