"""An ONNX model predicts as its forest does, also of missing values and at thresholds; other forests are refused."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes, load_digits, load_iris, load_wine

from distforest import RFD, SMERF, Embedding, SimForestClassifier, Targets, URerF
from distforest.errors import DistforestWarning, InputError
from distforest.forest.exports import array_of_classes, onnx_bytes, onnx_model
from distforest.forest.forest import Forest
from tests.messages import naming

EPSILON = float(np.finfo(np.float32).eps)


def answers(forest: Forest, X: np.ndarray) -> list[np.ndarray]:
    """What ONNX Runtime answers."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(onnx_bytes(forest), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"X": X.astype(np.float32)})


def with_holes(X: np.ndarray) -> np.ndarray:
    """The rows with a tenth of their values missing."""
    return np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)


LEARNED = {
    "wine": (load_wine, {}),
    "digits": (load_digits, {"max_bins": 16}),
    "iris": (load_iris, {"min_samples_leaf": 5}),
    "holes": (load_wine, {}),
    "diabetes": (load_diabetes, {"min_samples_leaf": 3}),
}


@cache
def learned(name: str) -> tuple[SMERF, np.ndarray]:
    """A forest on real data, and rows to ask it about."""
    load, params = LEARNED[name]
    X, y = load(return_X_y=True)
    X = with_holes(X) if name == "holes" else X
    if name == "iris":
        y = np.array(["setosa", "versicolor", "virginica"])[y]
    truth = Targets(y[::2]) if name == "diabetes" else y[::2]
    return SMERF(25, random_state=0, **params).fit(X[::2], truth), X


@pytest.mark.parametrize("name", ["wine", "digits", "iris", "holes"])
def test_classes_are_those_of_the_forest(name: str) -> None:
    forest, X = learned(name)
    for rows in (X, with_holes(X)):
        labels, shares = answers(forest.forest_, rows)
        assert labels.tolist() == forest.predict(rows).tolist()
        np.testing.assert_allclose(shares, forest.predict_proba(rows), rtol=EPSILON, atol=EPSILON)


def test_numbers_are_those_of_the_forest() -> None:
    forest, X = learned("diabetes")
    for rows in (X, with_holes(X)):
        (values,) = answers(forest.forest_, rows)
        np.testing.assert_allclose(values[:, 0], forest.predict(rows), rtol=EPSILON)


def test_an_embedding_has_several_outputs() -> None:
    X, _ = load_wine(return_X_y=True)
    forest = SMERF(10, random_state=0).fit(X[:, 3:], Embedding(X[:, :3]))
    (values,) = answers(forest.forest_, X[:, 3:])
    np.testing.assert_allclose(values, forest.predict(X[:, 3:]), rtol=2 * EPSILON)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.sampled_from(["wine", "holes", "diabetes"]), st.integers(0, 2**32 - 1))
def test_a_row_at_a_threshold_goes_where_the_forest_sends_it(name: str, seed: int) -> None:
    forest, X = learned(name)
    table, random = forest.forest_.table, np.random.default_rng(seed)
    rows = X[random.integers(0, len(X), 40)].astype(np.float32)
    are_cut = ~table.is_leaf & (table.threshold < 1e30)  # above: what was observed from what was not
    cuts = random.choice(np.flatnonzero(are_cut), 40)
    at = table.threshold[cuts].astype(np.float32)
    column = table.columns[table.offset[:-1][cuts]]
    for shifted in (np.nextafter(at, np.float32(-np.inf)), at, np.nextafter(at, np.float32(np.inf))):
        rows[np.arange(40), column] = shifted
        expected = forest.predict_proba(rows) if name != "diabetes" else forest.predict(rows)[:, None]
        np.testing.assert_allclose(answers(forest.forest_, rows)[-1], expected, rtol=EPSILON, atol=EPSILON)


def test_trees_without_a_split_answer_too() -> None:
    with pytest.warns(DistforestWarning, match="min_samples_split=100"):
        forest = SMERF(3, min_samples_split=100, random_state=0).fit(np.eye(6), [0, 1, 1, 0, 1, 1])
    labels, shares = answers(forest.forest_, np.eye(6))
    assert labels.tolist() == forest.predict(np.eye(6)).tolist()
    np.testing.assert_allclose(shares, forest.predict_proba(np.eye(6)), rtol=EPSILON)


def test_the_model_is_valid_and_tells_of_its_forest() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"height": [1.0, 2.0, 3.0, 4.0], "width": [1.0, 0.0, 1.0, 0.0]})
    forest = SMERF(2, random_state=0).fit(frame, [True, True, False, False])
    model = onnx_model(forest.forest_.with_schema(forest._schema()))
    onnx.checker.check_model(model, full_check=True)
    told = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(told["feature_names"]) == ["height", "width"]
    assert (told["digest"], told["method"]) == (forest.digest_, "smerf")
    labels, _ = answers(forest.forest_, frame.to_numpy())
    assert labels.dtype == np.bool_
    assert labels.tolist() == forest.predict(frame).tolist()
    assert onnx_bytes(forest.forest_) == onnx_bytes(forest.forest_)


@pytest.mark.parametrize(
    ("classes", "dtype"), [([1, 2], "int64"), ([1.5, 2], "float64"), (["a", "b"], "object"), ([False, True], "bool")]
)
def test_classes_keep_their_kind(classes: list[Any], dtype: str) -> None:
    assert array_of_classes(classes).dtype.name == dtype
    assert array_of_classes(classes).tolist() == classes


@pytest.mark.parametrize("classes", [["a", 1], [True, 1], [None], [2**63]])
def test_classes_of_no_kind_are_refused(classes: list[Any]) -> None:
    with pytest.raises(InputError, match="classes"):
        array_of_classes(classes)


def test_what_onnx_cannot_express_is_refused() -> None:
    X, y = load_iris(return_X_y=True)
    distances = np.abs(X[:, :1] - X[:, 0])
    words = np.array([["a", "b"][k % 2] for k in range(150)], object)
    subsets = SimForestClassifier(n_estimators=2, similarity="feature_subsets", random_state=0)
    refused = {
        "sums of features": SMERF(2, feature_combinations=2, random_state=0).fit(X, y),
        "predicts nothing": SMERF(2, random_state=0).fit(X, distances),
        "rows of kind linear": SimForestClassifier(n_estimators=2, similarity="linear", random_state=0).fit(X, y),
        "columns of categories": SMERF(2, random_state=0).fit(np.column_stack([X.astype(object), words]), y),
        "rows of kind pairs": RFD(2, random_state=0).fit(X, y),
        "predicts nothing: ": URerF(2, random_state=0).fit(X),
        "sums of features; ": subsets.fit(X, y),
    }
    for said, forest in refused.items():
        with pytest.raises(InputError, match=naming("ONNX", said)):
            onnx_bytes(forest.forest_)


def test_a_model_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    forest, _ = learned("iris")
    monkeypatch.setattr("distforest.forest.exports.MAX_MODEL_BYTES", 10_000)
    with pytest.raises(InputError, match=naming("ONNX", "10,000 bytes", "25 trees")):
        onnx_bytes(forest.forest_)
