"""Distances that follow from labels, targets and embeddings, against naive.py."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.sources.factors import Embedding, Labels, ObservedDistances, Targets, encoded, finite_vectors
from distforest.sources.sparse_store import write_sparse
from tests.messages import naming
from tests.reference import naive


def reference(pairs: naive.Pairs) -> list[list[float]]:
    return [[float(value / pairs.scale) for value in row] for row in pairs.z]


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=8))
def test_labels(values: list[str]) -> None:
    expected = reference(naive.label_pairs([ord(value) for value in values]))
    assert Labels(values).matrix().tolist() == expected


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=8))
def test_targets(values: list[float]) -> None:
    expected = reference(naive.embedding_pairs([[value] for value in values], 0.5))
    found = Targets(values).matrix()
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-300)
    assert found.tobytes() == found.T.copy().tobytes()


POINTS = st.integers(1, 3).flatmap(
    lambda q: st.lists(st.lists(st.integers(-8, 8).map(float), min_size=q, max_size=q), min_size=1, max_size=7)
)


@settings(max_examples=60)
@given(POINTS)
def test_embeddings(points: list[list[float]]) -> None:
    expected = reference(naive.embedding_pairs(points, 1.0))
    assert Embedding(points).matrix().tolist() == expected


def test_embeddings_far_from_the_origin_do_not_cancel() -> None:
    assert Embedding([[1e8], [1e8 + 1]]).matrix().tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_embeddings_are_symmetric_and_nothing_is_negative() -> None:
    points = np.random.default_rng(0).normal(size=(40, 7)) * 1e3
    found = Embedding(np.concatenate([points, points])).matrix()
    assert found.tobytes() == found.T.copy().tobytes()
    assert (found >= 0).all()
    np.testing.assert_allclose(np.diag(found[:40, 40:]), 0, atol=1e-6)


@pytest.mark.parametrize("kind", [Labels, Targets, Embedding])
def test_rows_are_taken_as_of_an_array(kind: Any) -> None:
    values = np.array([[3.0], [1.0], [2.0], [1.0]]) if kind is Embedding else [3.0, 1.0, 2.0, 1.0]
    given_values = kind(values)
    assert (len(given_values), given_values.shape) == (4, (4, 4))
    for rows in (np.array([2, 0]), slice(1, 3), np.array([True, False, False, True])):
        taken = given_values[rows]
        assert isinstance(taken, kind)
        assert taken.matrix().tolist() == given_values.matrix()[rows][:, rows].tolist()


@pytest.mark.parametrize(
    ("values", "codes", "classes"),
    [
        (["b", "a", "b"], [1, 0, 1], ["a", "b"]),
        ([3, -1, 3], [1, 0, 1], [-1, 3]),
        ([2.5, 0.5], [1, 0], [0.5, 2.5]),
        ([True, False], [1, 0], [False, True]),
        (np.array(["x", "y"], object), [0, 1], ["x", "y"]),
        ([], [], []),
    ],
)
def test_labels_are_encoded_in_the_order_of_their_classes(values: Any, codes: list[int], classes: list[Any]) -> None:
    found, names = encoded(values)
    assert (found.tolist(), found.dtype, names) == (codes, np.int32, classes)
    assert all(type(name) in (str, int, float, bool) for name in names)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([[1, 2], [3, 4]], ["(2, 2)"]),
        ([[1], [2]], ["(2, 1)", "numpy.ravel(y)"]),
        ([1.0, math.nan, math.nan], [2, "row 1"]),
        (np.array(["b", "a", None, math.nan], object), [2, "row 2"]),
        (np.array([1, "a"], object), ["type"]),
        (np.array([2, 1j]), ["1j", "row 1"]),
        (np.array(["2020-01-01"], "datetime64[ns]"), ["datetime64[ns]", "Labels(y.astype(str))"]),
        (np.array([1, 2], "timedelta64[s]"), ["timedelta64[s]"]),
    ],
)
def test_labels_that_cannot_be_classes_are_refused(values: Any, named: list[object]) -> None:
    with pytest.raises(InputError, match=naming("labels", *named)):
        encoded(values)


def test_vectors_are_float64_in_columns() -> None:
    for values in ([1, 2], np.array([1, 2], np.int8), [[1.0], [2.0]], np.array([True, True]) + np.array([0, 1])):
        found = finite_vectors(values, "targets")
        assert (found.tolist(), found.dtype) == ([[1.0], [2.0]], np.float64)
    assert finite_vectors([[1, 2]], "embedding").tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(("unit", "number"), [("D", 18262.0), ("s", 18262 * 86400.0), ("ns", 18262 * 86400e9)])
def test_dates_are_numbers_of_their_own_unit(unit: str, number: float) -> None:
    dates = np.array(["2020-01-01", "1970-01-01"], f"datetime64[{unit}]")
    for values in (dates, dates - dates[1]):
        assert finite_vectors(values, "targets").tolist() == [[number], [0.0]]


def test_what_pandas_has_in_the_place_of_a_value_is_refused_with_its_row() -> None:
    pandas = pytest.importorskip("pandas")
    for missing in (pandas.NA, pandas.NaT, None):
        with pytest.raises(InputError, match=naming("labels", "row 1")):
            encoded(pandas.Series(["a", missing, "b"], dtype=object))
    with pytest.raises(InputError, match=naming("targets", "NaN", "row 1")):
        finite_vectors(pandas.Series([1.0, pandas.NA], dtype=object), "targets")
    with pytest.raises(InputError, match=naming("targets", "NaT", "row 1")):
        finite_vectors(pandas.to_datetime(pandas.Series(["2020-01-01", None])), "targets")


@pytest.mark.parametrize(
    ("values", "name", "named"),
    [
        ([1.0, math.nan, math.inf], "targets", [2, "NaN", "row 1"]),
        ([[0.0, 1.0], [-math.inf, 0.0]], "embedding", [1, "NaN", "row 1"]),
        (["1", "b"], "targets", ["'b'"]),
        (np.array(["2020-01-01", "NaT"], "datetime64[ns]"), "targets", [1, "NaT", "row 1"]),
        ([datetime.date(2020, 1, 1)], "targets", ["datetime.date"]),
        ([[1.0], [1.0, 2.0]], "embedding", ["numbers"]),
        (np.zeros((2, 2, 2)), "embedding", ["each row"]),
        ([[1.0, 2.0]], "targets", ["one number"]),
        (np.array([1.0, np.longdouble("1e400")]), "targets", [1, "infinite", "row 1"]),
        ([1, 10**400], "targets", ["too large"]),
    ],
)
def test_vectors_that_cannot_be_learned_are_refused(values: Any, name: str, named: list[object]) -> None:
    with pytest.raises(InputError, match=naming(name, *named)):
        finite_vectors(values, name)


@pytest.mark.parametrize("one", [1j, np.complex64(1j), np.complex128(1.0)])
@pytest.mark.parametrize("dtype", [complex, object])
def test_complex_targets_are_refused(one: Any, dtype: Any) -> None:
    with pytest.raises(InputError, match=naming("targets", np.dtype(dtype), "complex")):
        finite_vectors(np.array([2.0, one], dtype), "targets")


def test_observed_distances_are_the_stored_ones(tmp_path: Path) -> None:
    stored = scipy.sparse.csr_array(([2.0, 0.0, 7.0], ([0, 1, 3], [1, 2, 3])), (4, 4))
    observed = ObservedDistances(stored)
    expected = np.full((4, 4), np.nan)
    expected[0, 1], expected[1, 2] = 2.0, 0.0  # a stored zero is a distance
    np.fill_diagonal(expected, [0.0, 0.0, 0.0, 7.0])
    np.testing.assert_array_equal(observed.matrix(), expected)
    np.testing.assert_array_equal(observed[[0, 3]].matrix(), [[0.0, np.nan], [np.nan, 7.0]])
    assert (len(observed), observed.shape) == (4, (4, 4))
    np.testing.assert_array_equal(observed[np.array([False, True, True, False])].matrix()[0], [0.0, 0.0])
    write_sparse(f"{tmp_path}/Z.zarr", stored)
    np.testing.assert_array_equal(ObservedDistances(f"{tmp_path}/Z.zarr").matrix(), expected)


@pytest.mark.parametrize(
    ("given", "named"),
    [(np.eye(3), ["ndarray", "Distances"]), (scipy.sparse.csr_array(np.ones((2, 3))), ["(2, 3)"])],
)
def test_observed_distances_are_sparse_and_square(given: Any, named: list[object]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        ObservedDistances(given)
