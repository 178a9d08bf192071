"""Similarities asked of a forest over distances, or the reverse: told in Python and in jobs, and never otherwise."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import pairwise_distances
from sklearn.preprocessing import scale

from distforest import SimForestClassifier, SimForestOutlier, load, merge
from distforest.errors import DistforestWarning
from distforest.forest.measured_rows import MOST_ENDS, MeasuredRows
from distforest.forest.row_ranges import (
    FEWEST_SEEN,
    ROW_RANGES,
    KnownRows,
    RowEnds,
    RowRanges,
    SeenRows,
)
from distforest.forest.square_queries import OBJECT_MEANS, ObjectMeans, SeenSquare
from distforest.jobs.cluster import Here
from distforest.jobs.question import Question
from distforest.jobs.score import score
from distforest.sources.arrays import ArraySource
from distforest.sources.distance_doubts import SeenSigns
from distforest.sources.row_kinds import Dense
from tests.estimators.jobs import write_arrays
from tests.messages import naming

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SETS = {
    name: (scale(X), y)
    for name, (X, y) in {"iris": load_iris(return_X_y=True), "wine": load_wine(return_X_y=True)}.items()
}
METRICS = ("euclidean", "cityblock", "cosine")
SIMILARITIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "reciprocal": lambda D: 1.0 / (1.0 + D),
    "exponential": lambda D: np.exp(-D),
    "gaussian": lambda D: np.exp(-(D**2) / 8.0),
}


def simforest_of(kind: str, S: np.ndarray, y: np.ndarray, **params: Any) -> SimForestClassifier:
    return SimForestClassifier(kind=kind, n_estimators=3, random_state=0, **params).fit(S, y)


def is_told(ask: Callable[[Any], object], rows: Any, *named: object) -> bool:
    """Whether an answer comes with the warning, which names all this; any other warning fails."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        ask(rows)
    assert len(found) <= 1
    expected = naming(*(named or ("the forest reads",)))
    assert all(issubclass(one.category, DistforestWarning) and re.search(expected, str(one.message)) for one in found)
    return bool(found)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_rows_of_the_other_kind_are_told_and_right_ones_never(name: str, metric: str, similarity: str) -> None:
    X, y = SETS[name]
    D = pairwise_distances(X, metric=metric)
    np.fill_diagonal(D, 0.0)
    S = SIMILARITIES[similarity](D)
    train, test = np.arange(0, len(X), 2), np.arange(1, len(X), 2)
    for kind, own, other in (("distance", D, S), ("similarity", S, D)):
        forest = simforest_of(kind, own[np.ix_(train, train)], y[train])
        assert is_told(forest.predict, other[np.ix_(test, train)])
        assert is_told(forest.apply, other[np.ix_(train, train)])
        assert not is_told(forest.apply, own[np.ix_(train, train)])
        assert not is_told(forest.apply, own[np.ix_(train[::-1], train)])
        assert not is_told(forest.predict, own[np.ix_(test, train)])
        for label in np.unique(y):
            assert not is_told(forest.predict, own[np.ix_(test[y[test] == label], train)])


def test_training_objects_asked_again_are_told_by_their_own_place() -> None:
    X, y = SETS["wine"]
    D = pairwise_distances(X)
    D /= D.max()
    forest = simforest_of("distance", D, y)
    assert is_told(forest.predict, 1.0 - D, "own number", "the forest reads distances")
    forest = simforest_of("similarity", 1.0 - D, y)
    assert is_told(forest.predict, D, "own number", "the forest reads similarities")


@pytest.mark.parametrize("kind", ["distance", "similarity"])
def test_as_many_queries_as_training_objects_are_told_if_they_are_transposed(kind: str) -> None:
    X, y = SETS["wine"]
    D = pairwise_distances(X) if kind == "distance" else np.exp(-pairwise_distances(X))
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[::2], order[1::2]
    forest = simforest_of(kind, D[np.ix_(train, train)], y[train])
    assert is_told(forest.predict, D[np.ix_(train, test)], "X.T")
    assert not is_told(forest.predict, D[np.ix_(test, train)])
    assert not is_told(forest.predict, D[np.ix_(train, train)])
    lacking = np.where(np.random.default_rng(1).random(D.shape) < 0.3, np.nan, D)
    np.fill_diagonal(lacking, np.diagonal(D))
    holes = simforest_of(kind, lacking[np.ix_(train, train)], y[train], on_missing="larger")
    for answer in (forest, holes):
        assert is_told(answer.predict, lacking[np.ix_(train, test)], "X.T")
        assert not is_told(answer.predict, lacking[np.ix_(test, train)])
    for entry in (None, 1, [], [[1.0]], [[1.0] * 40] * 2, [["a"] * 40], [[float("nan")] * 40]):
        object.__setattr__(forest.forest_, "provenance", {**forest.forest_.provenance, OBJECT_MEANS: entry})
        forest.forest_.__dict__.pop("known_rows", None)
        assert not is_told(forest.predict, D[np.ix_(train, test)])


@pytest.mark.slow
@given(st.integers(0, 99), st.integers(32, 300), st.integers(1, 299))
def test_means_of_objects_are_those_of_a_plain_loop_and_of_parts(seed: int, n: int, first: int) -> None:
    rng = np.random.default_rng(seed)
    S, queries = (np.where(rng.random((n, n)) < 0.1, np.nan, rng.normal(size=(n, n))) for _ in range(2))
    means = ObjectMeans.of(ArraySource.of(S), n)
    assert means is not None
    objects = range(0, n, 1 if n <= 256 else 2)
    slow = [np.mean([S[r, c] for r in objects if r != c and not np.isnan(S[r, c])]) for c in objects]
    np.testing.assert_allclose(means.values, [slow], rtol=1e-9)
    whole = means.seen(ArraySource.of(queries), n)
    first = min(first, n - 1)
    parts = [means.seen(ArraySource.of(part), n, at) for part, at in ((queries[:first], 0), (queries[first:], first))]
    assert whole is not None
    for one, other in zip(whole, SeenSquare.joined(*parts), strict=True):  # type: ignore[arg-type]
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_the_warning_states_both_ranges_in_the_numbers_of_the_user() -> None:
    X, y = SETS["wine"]
    D = pairwise_distances(X)
    forest = simforest_of("distance", D[::2, ::2], y[::2])
    with pytest.warns(DistforestWarning, match=naming("X:", "89 of 89", "0.624 to 0.997", "6.56 to 9.26", "distances")):
        forest.predict(D[1::2, ::2] / 10.0)


def test_distances_below_zero_are_told() -> None:
    X, y = SETS["iris"]
    D = pairwise_distances(X)
    forest = simforest_of("distance", D[::2, ::2], y[::2])
    for rows in (-D[1:10:2, ::2], scipy.sparse.csr_array(-D[1:10:2, ::2])):
        assert is_told(forest.predict, rows, "X:", 375, f"{rows.min():.6g}")
    assert not is_told(forest.predict, D[1:10:2, ::2] - 1e-9)
    assert not is_told(simforest_of("distance", D[::2, ::2] > 1, y[::2]).predict, D[1:10:2, ::2] > 1)
    assert not is_told(simforest_of("similarity", -D[::2, ::2], y[::2]).predict, -D[1:10:2, ::2])


@pytest.mark.slow
def test_a_job_tells_of_all_its_tasks_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distforest.jobs.score.ANSWERS_PER_TASK", 64)  # several tasks
    X, y = SETS["wine"]
    D = pairwise_distances(X)
    forest, address, data = (
        simforest_of("distance", D[::2, ::2], y[::2]),
        str(tmp_path / "f.zarr"),
        str(tmp_path / "d.zarr"),
    )
    forest.save(address)
    S = np.exp(-D)
    arrays = {
        "right": D[1::2, ::2],
        "own": D[::2, ::2],
        "other": S[1::2, ::2],
        "other_own": S[::2, ::2] * 9,
        "below": -D[1::2, ::2],
        "turned": D[::2, 1::2][:, np.random.default_rng(0).permutation(89)],
    }
    write_arrays(data, arrays)

    def ask(name: str) -> None:
        question = Question(address, f"{data}/{name}", "neighbors", n_neighbors=2)
        score(question, str(tmp_path / f"{name}-answers.zarr"), Here(2), True)

    assert not is_told(ask, "right")
    assert not is_told(ask, "own")
    assert is_told(ask, "other", f"{data}/other:", "89 of 89", "greatest distance")
    assert is_told(ask, "other_own", f"{data}/other_own:", "own number")
    assert is_told(ask, "turned", f"{data}/turned:", "X.T")
    assert is_told(ask, "below", f"{data}/below:", "7,921")


def test_each_of_several_similarities_is_judged() -> None:
    X, y = SETS["wine"]
    S, T = np.exp(-pairwise_distances(X)), X @ X.T
    forest = SimForestClassifier(["precomputed", "precomputed"], n_estimators=3, random_state=0)
    forest.fit([S[::2, ::2], T[::2, ::2]], y[::2])
    assert not is_told(forest.predict, [S[1::2, ::2], T[1::2, ::2]])
    assert is_told(forest.predict, [S[1::2, ::2], pairwise_distances(X)[1::2, ::2]], "measure 1 ")


def test_outliers_may_be_unlike_all_training_objects() -> None:
    X, _ = SETS["wine"]
    D, far = pairwise_distances(X), pairwise_distances(X[::2] + 9.0, X)
    forest = SimForestOutlier(kind="distance", n_estimators=5, random_state=0).fit(D)
    assert not is_told(forest.predict, far)
    assert is_told(forest.predict, np.exp(-D[::2]))


def test_rows_with_other_numbers_of_observed_entries_are_not_judged() -> None:
    X, y = SETS["wine"]
    D = pairwise_distances(X)
    forest = simforest_of("distance", D[::2, ::2], y[::2])
    some = np.full_like(D[1::2, ::2], np.nan)
    some[:, :3] = D[1::2, :6:2]
    assert not is_told(forest.predict, some)
    near = scipy.sparse.csr_array(np.where(D[::2, ::2] < 6, D[::2, ::2], 0))
    sparse = simforest_of("distance", near, y[::2], on_missing="surrogate")
    assert ROW_RANGES in sparse.forest_.provenance
    assert not is_told(sparse.apply, scipy.sparse.csr_array(np.where(D[1::2, ::2] < 6, D[1::2, ::2], 0)))
    assert is_told(sparse.apply, scipy.sparse.csr_array(np.where(D[1::2, ::2] < 6, 9 + D[1::2, ::2], 0)))


def test_sparse_queries_that_repeat_a_place_are_told_of_once() -> None:
    X, y = SETS["wine"]
    D = pairwise_distances(X)
    forest = simforest_of("distance", scipy.sparse.csr_array(D[::2, ::2]), y[::2])
    near = scipy.sparse.coo_array(D[1::2, ::2])
    twice = scipy.sparse.coo_array((np.r_[near.data, 0.0], (np.r_[near.row, 0], np.r_[near.col, 0])), near.shape)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        forest.forest_.source(twice, SeenSigns())
    assert len([one for one in told if "sparse matrix: 1 entry" in str(one.message)]) == 1


def test_few_rows_and_forests_that_do_not_know_tell_nothing(tmp_path: Path) -> None:
    X, y = SETS["iris"]
    D = pairwise_distances(X)
    forest = simforest_of("distance", D, y)
    for few in (1, 3, FEWEST_SEEN - 1):  # further than training objects, as outliers may be
        assert not is_told(forest.predict, 99 * D[:few])
    assert is_told(forest.predict, 99 * D[:FEWEST_SEEN])
    address = str(tmp_path / "forest.zarr")
    both = merge([forest, SimForestClassifier(kind="distance", n_estimators=3, random_state=1).fit(D, y)])
    both.save(address)
    assert load(address).forest_.provenance[ROW_RANGES] == forest.forest_.provenance[ROW_RANGES]
    assert is_told(load(address).predict, 99 * D)
    assert ROW_RANGES not in simforest_of("distance", D[45:58, 45:58], y[45:58]).forest_.provenance  # few objects
    few = {"least": [0, 1], "mean": [0, 1], "greatest": [0, 1]}
    full = {**few, "observed": [1, 999]}
    for entry in (
        None,
        1,
        [],
        [1],
        [few],
        [full, full],
        [{**few, "observed": [1, "a"]}],
        [{**few, "observed": [3, 4], "mean": [None, 1]}],
    ):
        object.__setattr__(forest.forest_, "provenance", {**forest.forest_.provenance, ROW_RANGES: entry})
        forest.forest_.__dict__.pop("known_rows", None)
        assert not is_told(forest.predict, 99 * D)


def test_ranges_are_those_of_a_plain_loop_and_of_parts() -> None:
    rng = np.random.default_rng(0)
    S = rng.normal(size=(20, 20))
    S[rng.random(S.shape) < 0.2] = np.nan
    ranges = RowRanges.of(ArraySource.of(S), 20)
    assert ranges is not None
    slow = []
    for with_self in (True, False):
        for row in range(20):
            known = [S[row, k] for k in range(20) if (with_self or k != row) and not np.isnan(S[row, k])]
            slow.append([min(known), np.mean(known), max(known), len(known)])
    low, high = np.min(slow, axis=0), np.max(slow, axis=0)
    assert np.allclose([ranges.low[0], ranges.high[0]], [low[:3], high[:3]], rtol=1e-12)
    assert ranges.n_observed.tolist() == [[low[3], high[3]]]
    queries = np.where(rng.random(S.shape) < 0.2, np.nan, 3.0 * rng.normal(size=(20, 20)))
    known = KnownRows(ranges, (Dense(20),))
    whole = known.seen(ArraySource.of(queries))
    parts = [known.seen(ArraySource.of(queries[rows]), rows.start, 20) for rows in (slice(0, 7), slice(7, 20))]
    assert whole is not None
    for one, other in zip(whole, SeenRows.joined(*parts), strict=True):  # type: ignore[arg-type]
        assert np.array_equal(one, other)
    long = RowEnds.of(MeasuredRows(ArraySource.of(np.repeat(queries, 200, axis=0)), 0, 20), is_square=False)
    assert MOST_ENDS // 2 < len(long.n_observed) <= MOST_ENDS


def test_rows_of_training_objects_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    block = MeasuredRows.block
    monkeypatch.setattr(MeasuredRows, "block", lambda rows, some: read.extend(some) or block(rows, some))
    X, _ = SETS["wine"]
    assert RowRanges.of(ArraySource.of(pairwise_distances(X)), len(X)) is not None
    assert read == list(range(len(X)))


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_few_rows_that_are_nearer_than_can_be_are_told(name: str, similarity: str) -> None:
    X, y = SETS[name]
    D = pairwise_distances(3.0 * X)
    np.fill_diagonal(D, 0.0)
    S = SIMILARITIES[similarity](D)
    for kind, own, other in (("distance", D, S), ("similarity", S, D)):
        forest = simforest_of(kind, own[::2, ::2], y[::2])
        assert is_told(forest.predict, other[1:2, ::2], "X:", f"greatest {kind}", "1 of 1")
        assert is_told(forest.predict, other[1:10:2, ::2])
        assert not is_told(forest.predict, np.vstack([other[1:10:2, ::2], own[11:12, ::2]]))
        for row in range(1, len(X), 2):
            assert not is_told(forest.predict, own[[row], ::2])


def test_a_few_rows_whose_distances_to_far_objects_are_unknown_are_of_no_other_kind() -> None:
    rng, n = np.random.default_rng(0), 60
    x = rng.normal(size=n + 10)
    x[:2] = 1000.0, -1000.0
    D = np.abs(x[:, None] - x)
    is_observed = np.triu(rng.random(D.shape) < 0.15)
    is_observed[0, 1] = True
    D[~(is_observed | is_observed.T)] = np.nan
    halves = -0.5 * D * D  # as trees read distances
    ranges = RowRanges.of(ArraySource.of(halves[:n, :n]), n)
    assert ranges is not None
    known = KnownRows(ranges, (Dense(n, "distance"),))
    for row in range(n, n + 10):
        seen = known.seen(ArraySource.of(halves[row : row + 1, :n]))
        assert seen is not None
        assert known.told(seen) == ""


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cityblock", "chebyshev", "cosine"])
def test_middles_and_outliers_are_no_rows_of_another_kind(metric: str) -> None:
    for X, y in SETS.values():
        train, zero = X[::2], np.zeros((1, X.shape[1])) + 1e-3
        queries = [zero, np.median(train, axis=0)[None], train[:1], train[:2] * 20.0, (train.max(axis=0) / 2)[None]]
        D = np.abs(pairwise_distances(train, metric=metric))
        np.fill_diagonal(D, 0.0)
        of_distances, of_similarities = (
            simforest_of("distance", D, y[::2]),
            simforest_of("similarity", np.exp(-D), y[::2]),
        )
        for rows in queries:
            own = np.abs(pairwise_distances(rows, train, metric=metric))
            assert not is_told(of_distances.predict, own)
            assert not is_told(of_similarities.predict, np.exp(-own))
