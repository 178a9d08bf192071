"""Projections: the slow twin `project_entries` against plain loops, and every source's own `project` against it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.sources.arrays import ArraySource
from distforest.sources.binned import BinnedSource
from distforest.sources.filled import filled
from distforest.sources.kernels import KERNELS, KernelSource
from distforest.sources.readings import SIMILARITIES
from distforest.sources.source import Source, project_entries
from distforest.sources.sparse import read_sparse
from tests import samples
from tests.estimators.rows import observed
from tests.reference import naive_simforest
from tests.sources.helpers import whole
from tests.tries import tries

pytestmark = pytest.mark.kernels

FREE = settings(max_examples=tries(80))
Level = tuple[np.ndarray, np.ndarray, list[list[list[tuple[int, float]]]]]


@st.composite
def levels(draw: st.DrawFn, n_rows: int, n_columns: int) -> Level:
    """Rows of some nodes, and the candidates of each node: ragged, some of them empty."""
    sizes = draw(st.lists(st.integers(0, 4), max_size=4))
    rows = np.array([draw(st.integers(0, n_rows - 1)) for size in sizes for _ in range(size)], np.int32)
    width = draw(st.integers(1, 3))
    term = st.tuples(st.integers(0, n_columns - 1), st.sampled_from([1.0, -1.0, 0.1, 3.0]))
    terms = [[draw(st.lists(term, max_size=3)) for _ in range(width)] for _ in sizes]
    return rows, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), terms


def by_loops(source: Source, level: Level) -> list[list[float]]:
    """Each value as a sum in the order of the candidate's columns."""
    rows, starts, terms = level
    width = len(terms[0]) if terms else 1
    values: list[list[float]] = [[] for _ in range(width)]
    for node, candidates in enumerate(terms):
        for row in rows[starts[node] : starts[node + 1]].tolist():
            for k, candidate in enumerate(candidates):
                total = 0.0
                for column, weight in candidate:
                    entry = source.entries(np.array([row], np.int32), np.array([column], np.int32))[0]
                    total += weight * float(entry)
                values[k].append(total)
    return values


def assert_projects(source: Source, level: Level) -> None:
    rows, starts, terms = level
    projections = samples.projections(terms or [[[]]])
    if not terms:  # no node at all
        projections = projections._replace(offset=np.zeros(1, np.int64))
    assert projections.n_nodes == len(terms)
    own, slow = (project(rows, starts, projections) for project in (source.project, _slow(source)))
    assert own.shape == (projections.width, len(rows))
    assert own.tobytes() == slow.tobytes()
    expected = by_loops(source, level)
    for found, numbers in zip(own.tolist(), expected, strict=True):
        assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(found, numbers, strict=True))


def _slow(source: Source) -> Any:
    return lambda rows, starts, projections: project_entries(source, rows, starts, projections)


@FREE
@given(levels(6, 4), st.integers(0, 99))
def test_arrays_project_as_their_entries_do(level: Level, seed: int) -> None:
    X = samples.features(6, 4, seed)
    X[np.random.default_rng(seed).random(X.shape) < 0.2] = np.nan
    assert_projects(ArraySource.from_values(X), level)


@FREE
@given(levels(6, 4), st.integers(0, 99), st.sampled_from(["dense", "several", "sparse"]))
def test_means_project_as_their_entries_do(level: Level, seed: int, form: str) -> None:
    S = samples.features(6, 4, seed)
    S[np.random.default_rng(seed).random(S.shape) < 0.4] = np.nan
    n_objects = 2 if form == "several" else 4
    source = filled(
        read_sparse(observed(S), SIMILARITIES) if form == "sparse" else ArraySource.from_values(S), n_objects
    )
    np.testing.assert_array_equal(whole(source), naive_simforest.with_means(S, n_objects))
    assert_projects(source, level)


def test_means_count_objects_as_often_as_their_weights() -> None:
    S = np.array([[1.0, np.nan, 4.0, 7.0], [np.nan, np.nan, np.nan, 5.0], [np.nan, 2.0, 3.0, np.nan]], np.float32)
    weights = np.array([1, 1, 2, 0], np.int32)
    expected = [[1.0, 3.0, 4.0, 7.0], [np.nan, np.nan, np.nan, 5.0], [8 / 3, 2.0, 3.0, 8 / 3]]
    np.testing.assert_array_equal(naive_simforest.with_means(S, 4, weights), expected)
    for source in (ArraySource.from_values(S), read_sparse(observed(S), SIMILARITIES)):
        np.testing.assert_array_equal(whole(filled(source, 4, weights)), expected)


@FREE
@given(levels(6, 3), st.sampled_from(KERNELS), st.integers(0, 99), st.integers(1, 9))
def test_kernels_project_as_their_entries_do(level: Level, name: str, seed: int, n_features: int) -> None:
    X = samples.features(9, n_features, seed)
    assert_projects(KernelSource(X[:6], X[6:], name, 0.7), level)


def test_sources_keep_the_protocol() -> None:
    X = samples.features(4)
    lacking = ArraySource.from_values(np.where(X.mean() < X, np.nan, X))
    for source in (
        ArraySource.from_values(X),
        filled(lacking, X.shape[1]),
        KernelSource(X, X, "rbf"),
        BinnedSource.from_features(X, 4),
    ):
        assert isinstance(source, Source)
        rows, columns = np.array([2, 0], np.int32), np.array([1, 1, 3], np.int32)
        block = source.block(rows, columns)
        assert (block.shape, block.dtype) == ((2, 3), np.float64)
        entries = source.entries(np.repeat(rows, 3), np.tile(columns, 2))
        assert (entries.shape, entries.dtype) == ((6,), np.float64)
        assert block.ravel().tobytes() == entries.tobytes()


def test_an_unobserved_value_makes_the_sums_that_need_it_unobserved() -> None:
    X = np.array([[1.0, np.nan, 2.0]], np.float32)
    level = (np.array([0], np.int32), np.array([0, 1]), [[[(0, 1.0), (2, -1.0)], [(0, 1.0), (1, 0.0)], []]])
    found = ArraySource.from_values(X).project(*level[:2], samples.projections(level[2]))
    assert found[0].tolist() == [-1.0]
    assert np.isnan(found[1, 0])
    assert found[2].tolist() == [0.0]
