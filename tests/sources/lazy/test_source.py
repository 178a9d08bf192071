"""A lazy source answers as the whole matrix does, asks for each pair once, and loses nothing that was paid for."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest.errors import InputError, JobError
from distforest.sources.arrays import ArraySource
from distforest.sources.lazy.callbacks import Lazy, pairwise
from distforest.sources.lazy.identity import signature
from distforest.sources.lazy.lazy_source import LazySource, Objects, ValueSupplier, items_of, opened_ledger
from distforest.sources.lazy.ledger import Ledger
from distforest.sources.readings import DISSIMILARITIES, SIMILARITIES, read
from distforest.sources.source import Projections, project_entries
from tests.messages import naming
from tests.sources.lazy.test_pairs import requests

N = 7
RNG = np.random.default_rng(3)
SIMILAR = RNG.normal(size=(N, N)).round(2)
SIMILAR[2, 4] = np.nan
FAR = np.abs(SIMILAR + SIMILAR.T)
np.fill_diagonal(FAR, 0.0)


class Counted:
    """A matrix as a function of two lists of places; counts how often each pair was asked for."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix, self.asked, self.calls = matrix, Counter[tuple[int, int]](), 0

    def __call__(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        self.calls += 1
        self.asked.update(zip(np.asarray(left).tolist(), np.asarray(right).tolist(), strict=True))
        return np.asarray(self.matrix[left, right])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.matrix,)  # the counts do not decide the values


def source_of(function: Callable[..., Any], budget: int | None = None, **options: Any) -> LazySource:
    lazy = Lazy(function, **options)
    return LazySource(lazy, Objects.from_columns(np.arange(N)), ValueSupplier.here(lazy, budget=budget))


CASES = {
    "similarity": (SIMILAR, SIMILARITIES, {"symmetric": False}),
    "distance": (FAR, DISSIMILARITIES, {"kind": "distance"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@given(asking=requests(N, N))
def test_it_answers_as_the_whole_matrix(case: str, asking: tuple[np.ndarray, np.ndarray, Projections]) -> None:
    matrix, reading, options = CASES[case]
    function = Counted(matrix)
    lazy, whole = source_of(function, batch_size=2, **options), ArraySource.from_values(read(matrix, reading))
    for _ in range(2):
        np.testing.assert_array_equal(lazy.project(*asking), whole.project(*asking))
    np.testing.assert_array_equal(project_entries(lazy, *asking), lazy.project(*asking))
    some = np.arange(3, dtype=np.int32)
    np.testing.assert_array_equal(lazy.block(some, some), whole.block(some, some))
    assert set(function.asked.values()) <= {1}
    assert lazy.n_evaluations == function.asked.total()
    assert lazy.shape == whole.shape
    if case == "distance":
        assert all(a < b for a, b in function.asked)  # one order, and nobody with itself


def test_pairs_of_a_request_come_in_batches_that_fill_the_places() -> None:
    function = Counted(FAR)
    source = source_of(function, kind="distance", batch_size=4, concurrency=3)
    source.block(np.array([0], np.int32), np.arange(1, N, dtype=np.int32))
    assert function.calls == 3  # six pairs for three callers, though four would fit into one call
    source = source_of(function, kind="distance", batch_size=4)
    source.block(np.array([0], np.int32), np.arange(1, N, dtype=np.int32))
    assert function.calls == 5


def test_equal_objects_are_asked_about_once() -> None:
    words = ["abc", "abe", "abc", "xyz"]
    asked = []

    @pairwise
    def differ(a: str, b: str) -> float:
        asked.append((a, b))
        return float(sum(x != y for x, y in zip(a, b, strict=True)))

    lazy = Lazy(differ, kind="distance")
    source = LazySource(lazy, Objects.from_columns(words, ["abc", "new"]), ValueSupplier.here(lazy))
    found = source.block(np.arange(2, dtype=np.int32), np.arange(4, dtype=np.int32))
    np.testing.assert_array_equal(found, [[0, -0.5, 0, -4.5], [-4.5, -4.5, -4.5, -4.5]])
    assert asked == [("abc", "abe"), ("abc", "xyz"), ("abc", "new"), ("abe", "new"), ("xyz", "new")]


def test_a_budget_is_never_exceeded_and_refuses_whole_candidates() -> None:
    function = Counted(FAR)
    source = source_of(function, 3, kind="distance")
    rows, starts = np.arange(3, dtype=np.int32), np.array([0, 3])
    two = Projections(2, np.array([0, 2, 3]), np.array([5, 6, 5], np.int32), np.ones(3))
    found = source.project(rows, starts, two)
    assert np.isnan(found[0]).all()  # six pairs
    np.testing.assert_array_equal(found[1], -(FAR[:3, 5] ** 2) / 2)
    assert (source.n_evaluations, source.spent, function.asked.total()) == (3, True, 3)
    one = np.array([0], np.int32)
    assert np.isnan(source.entries(one, one + 3))
    assert source.entries(one, one + 5)[0] == found[1, 0]
    assert function.asked.total() == 3


def test_a_failure_names_the_pair_and_keeps_what_came(tmp_path: Path) -> None:
    fails = True

    @pairwise
    def fragile(a: int, b: int) -> float:
        if fails and b == 4:
            raise RuntimeError("assay lost")
        return float(FAR[a, b])

    lazy = Lazy(fragile, kind="distance", batch_size=2, retries=1, ledger=tmp_path / "ledger")
    objects, rows = Objects.from_columns(np.arange(N)), np.array([1], np.int32)
    with opened_ledger(lazy) as ledger:
        source = LazySource(lazy, objects, ValueSupplier.here(lazy, ledger, "a"))
        with pytest.raises(JobError, match=naming("pair (1, 4)", "2 times", "RuntimeError: assay lost", "kept")):
            source.block(rows, np.arange(N, dtype=np.int32))
        assert ledger is not None
        assert ledger.count("a") == source.n_evaluations == 3  # (0, 1), (1, 2), (1, 3)
        fails = False
        source.block(rows, np.arange(N, dtype=np.int32))
        assert ledger.count("a") == source.n_evaluations == N - 1


SCALE = np.ones((N, N))
SCALE[2, 3] = 1e160 / FAR[2, 3]


def scaled(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Distances in units that can be mended."""
    return FAR[left, right] * SCALE[left, right]


def test_a_value_that_is_too_large_is_not_remembered_and_what_came_beside_it_is(tmp_path: Path) -> None:
    lazy = Lazy(scaled, kind="distance", batch_size=3, ledger=tmp_path / "ledger")
    rows, columns = np.array([2], np.int32), np.arange(N, dtype=np.int32)
    with opened_ledger(lazy) as ledger:
        assert ledger is not None
        source = LazySource(lazy, Objects.from_columns(np.arange(N)), ValueSupplier.here(lazy, ledger, "a"))
        with pytest.raises(JobError, match=naming("1e+160", "pair (2, 3)", "1e+150")):
            source.block(rows, columns)
        assert ledger.count() == source.n_evaluations == 2  # (0, 2), (1, 2)
    SCALE[2, 3] = 1.0
    with opened_ledger(lazy) as ledger:
        source = LazySource(lazy, Objects.from_columns(np.arange(N)), ValueSupplier.here(lazy, ledger, "a"))
        np.testing.assert_array_equal(source.block(rows, columns)[0], read(FAR[2:3], DISSIMILARITIES)[0])


def test_a_masked_answer_is_unobserved() -> None:
    far = np.ma.masked_where(np.add.outer(np.arange(N), np.arange(N)) == 5, FAR)
    rows, columns = np.array([1], np.int32), np.arange(N, dtype=np.int32)
    for dtype in (float, object):
        source = source_of(lambda left, right, dtype=dtype: far[left, right].astype(dtype), kind="distance")
        expected = np.where(columns == 4, np.nan, -(FAR[1] ** 2) / 2)
        np.testing.assert_array_equal(source.block(rows, columns)[0], expected)
    one_by_one = source_of(pairwise(lambda a, b: far[a, b]), kind="distance")
    np.testing.assert_array_equal(one_by_one.block(rows, columns)[0], expected)


def test_masked_objects_are_unobserved_where_numbers_may_be() -> None:
    masked = np.ma.masked_equal([[1.0, 2.0], [-9.0, 3.0]], -9.0)
    np.testing.assert_array_equal(items_of(Lazy(np.subtract), masked), [[1.0, 2.0], [np.nan, 3.0]])
    with pytest.raises(InputError, match=naming(1, "mask", "<U1")):
        items_of(Lazy(np.subtract), np.ma.array(["a", "b"], mask=[True, False]))
    with pytest.raises(InputError, match=naming("integers", "shape")):
        items_of(Lazy(np.subtract, masked), np.ma.array([0, 1], mask=[True, False]))


def test_threads_count_what_they_paid_for() -> None:
    source = source_of(Counted(FAR), kind="distance")
    paid = []

    def ask(row: int) -> None:
        source.block(np.array([row], np.int32), np.arange(N, dtype=np.int32))
        paid.append(source.n_evaluations_here)

    threads = [threading.Thread(target=ask, args=(row,)) for row in range(N)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(paid) == source.n_evaluations == N * (N - 1) // 2
    assert source.n_evaluations_here == 0


class Column:
    """A column of a table whose rows have other names than their places, as pandas has them."""

    def __init__(self, values: list[str]) -> None:
        self.values = values

    def to_numpy(self) -> np.ndarray:
        return np.array(self.values, object)

    def __getitem__(self, _name: int) -> str:
        raise AssertionError("taken by name")


def test_columns_of_tables_are_taken_by_place() -> None:
    found = items_of(Lazy(Counted(FAR), Column(["a", "b", "c"])), [2, 0])
    assert list(found) == ["c", "a"]
    assert list(items_of(Lazy(Counted(FAR)), Column(["a", "b"]))) == ["a", "b"]


@pytest.mark.slow
@given(st.integers(0, 12), st.integers(0, 12))
def test_a_second_run_of_a_job_pays_again_but_asks_only_for_what_is_new(first: int, second: int) -> None:
    function = Counted(FAR)
    lazy = Lazy(function, kind="distance")
    rows, columns = np.array([0, 1], np.int32), np.arange(N, dtype=np.int32)
    with Ledger.open(None, signature=signature(function), symmetric=True, kind="distance") as ledger:
        for budget in (first, second):
            source = LazySource(
                lazy, Objects.from_columns(np.arange(N)), ValueSupplier.here(lazy, ledger, "job", budget)
            )
            source.block(rows, columns)
            assert source.n_evaluations == min(budget, 11)
        assert function.asked.total() == ledger.count("job") == min(max(first, second), 11)
        free = LazySource(lazy, Objects.from_columns(np.arange(N)), ValueSupplier.here(lazy, ledger, "another", 0))
        unknown = {tuple(sorted(place)) for place in np.argwhere(np.isnan(free.block(rows, columns))).tolist()}
        assert len(unknown) == 11 - ledger.count()
        assert free.n_evaluations == 0


@pytest.mark.parametrize(
    ("objects", "given", "named"),
    [
        (None, "word", ["str"]),
        (None, [], ["none"]),
        (None, {"a", "b"}, ["set"]),
        (None, (word for word in "ab"), ["generator"]),
        (["a", "b"], [0, 2], ["0..1", "0 to 2", "similarity=Lazy("]),
        (["a", "b"], [-1, 0], ["0..1", "-1 to 0"]),
        (["a", "b"], [0.0, 1.0], ["(n,)", "(2,)", "float64", "similarity=Lazy("]),
        (["a", "b"], [[0], [1]], ["(2, 1)", "int64"]),
    ],
)
def test_rows_that_are_no_objects_are_refused(objects: Any, given: Any, named: list[str]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        items_of(Lazy(Counted(FAR), objects), given)


def test_rows_are_objects_or_places_in_them() -> None:
    assert items_of(Lazy(Counted(FAR)), ("a", "b")) == ["a", "b"]
    assert items_of(Lazy(Counted(FAR), ["x", "y"]), [1, 0, 1]) == ["y", "x", "y"]
    np.testing.assert_array_equal(items_of(Lazy(Counted(FAR), np.eye(3)), np.array([2])), [[0, 0, 1]])
