"""Sparse features: what is not stored is 0, value for value as in the dense matrix."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.sources.arrays import ArraySource
from distforest.sources.readings import FEATURES, read
from distforest.sources.scratch import ScratchFolder
from distforest.sources.source import Source
from distforest.sources.sparse_features import (
    BY_COLUMN,
    BY_ROW,
    BY_VALUE,
    ONE_BY_ONE,
    Gathered,
    SparseFeatures,
    cheapest_way,
    gather_nonzero,
    read_sparse_features,
    room_to_gather,
)
from distforest.sources.staged_sparse import StagedSparse
from tests import samples
from tests.messages import naming
from tests.sources.helpers import whole
from tests.sources.test_source import Level, assert_projects, levels
from tests.sources.test_sparse import CONTAINERS, staged_of
from tests.tries import tries

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kernels

FREE = settings(max_examples=tries(80))


def words(n_rows: int, n_columns: int, seed: int, share: float) -> np.ndarray:
    """Values of which most are 0; the others are of both signs and often equal."""
    rng = np.random.default_rng(seed)
    dense = rng.integers(-2, 4, (n_rows, n_columns)) * rng.choice([1.0, 0.1], (n_rows, n_columns))
    dense[rng.random(dense.shape) >= share] = 0.0
    return dense.astype(np.float32)


def source_of(dense: np.ndarray) -> SparseFeatures:
    return read_sparse_features(scipy.sparse.csr_array(dense))


@FREE
@given(
    st.integers(1, 7),
    st.integers(1, 6),
    st.integers(0, 999),
    st.sampled_from([0.0, 0.4, 1.0]),
    st.sampled_from([*CONTAINERS, scipy.sparse.bsr_array, scipy.sparse.dia_array]),
    st.sampled_from([np.float32, np.float64, np.int64, np.int8, np.bool_]),
)
def test_what_is_not_stored_is_0(
    n_rows: int, n_columns: int, seed: int, share: float, container: Any, dtype: Any
) -> None:
    dense = words(n_rows, n_columns, seed, share).astype(dtype)
    source, twin = (
        read_sparse_features(container(dense)),
        ArraySource.from_values(read(dense, FEATURES), is_complete=True),
    )
    assert isinstance(source, Source)
    assert source.shape == (n_rows, n_columns)
    np.testing.assert_array_equal(whole(source), whole(twin))
    assert source.data.all()
    rng = np.random.default_rng(seed)
    rows, columns = (rng.integers(size, size=9).astype(np.int32) for size in dense.shape)
    np.testing.assert_array_equal(source.entries(rows, columns), twin.entries(rows, columns))
    low, high = source.ranges
    np.testing.assert_array_equal([low, high], [twin.values.min(axis=0), twin.values.max(axis=0)])


@FREE
@given(levels(6, 5), st.integers(0, 999), st.sampled_from([0.0, 0.3, 1.0]))
def test_projections_are_those_of_the_dense_matrix(level: Level, seed: int, share: float) -> None:
    dense = words(6, 5, seed, share)
    assert_projects(source_of(dense), level)
    rows, starts, terms = level
    if terms:
        projections = samples.projections(terms)
        expected = ArraySource.from_values(dense, is_complete=True).project(rows, starts, projections)
        assert source_of(dense).project(rows, starts, projections).tobytes() == expected.tobytes()


@FREE
@given(
    st.lists(st.integers(0, 8), unique=True, min_size=1).map(sorted),
    st.lists(st.integers(0, 5), max_size=9),
    st.integers(0, 99),
)
def test_each_way_gathers_the_same(rows: list[int], columns: list[int], seed: int) -> None:
    dense = words(9, 6, seed, 0.4)
    stored, room = source_of(dense).both_ways, room_to_gather(source_of(dense).both_ways)
    of_rows, of_columns = np.array(rows, np.int32), np.array(columns, np.int32)
    _, bound = cheapest_way(stored, of_rows, of_columns)
    expected = [(i, dense[row, column]) for column in columns for i, row in enumerate(rows) if dense[row, column]]
    assert len(expected) <= bound
    for way in (BY_ROW, BY_COLUMN, BY_VALUE, ONE_BY_ONE):
        found = Gathered(
            np.full(len(columns) + 2, 99, np.int64), np.full(bound, -1, np.int32), np.zeros(bound, np.float32)
        )
        gather_nonzero(stored, of_rows, of_columns, way, room, found)
        starts = found.start[: len(columns) + 1]
        assert starts.tolist() == [0, *np.cumsum([np.count_nonzero(dense[rows, c]) for c in columns])]
        n = int(starts[-1])
        assert list(zip(found.place[:n].tolist(), found.value[:n], strict=True)) == expected
        assert (room.head == -1).all()


def test_the_cheapest_way_follows_the_amounts() -> None:
    """By column, by value, by row or one by one: which takes fewer steps follows from how many values there are."""
    dense = np.zeros((400, 300), np.float32)
    dense[np.arange(400), np.arange(400) % 300] = 1.0
    dense[:, 7] = 1.0
    stored = source_of(dense).both_ways

    def way(n_rows: int, columns: list[int]) -> int:
        return cheapest_way(stored, np.arange(n_rows, dtype=np.int32), np.array(columns, np.int32))[0]

    assert way(400, [7]) == BY_COLUMN
    assert way(400, [1, 2, 3]) == BY_VALUE
    assert way(4, list(range(300))) == BY_ROW
    assert way(4, [7]) == ONE_BY_ONE


def test_duplicates_are_summed_zeros_dropped_and_what_was_given_stays() -> None:
    parts = (np.array([1.0, 2.0, 3.0, 0.0, 4.0, -4.0]), np.array([2, 0, 2, 1, 1, 1]), np.array([0, 3, 6]))
    matrix = scipy.sparse.csr_array(parts, (2, 3))
    matrix.has_canonical_format  # noqa: B018  (SciPy keeps what it has found once)
    matrix.indices[:] = [2, 0, 2, 1, 1, 1]
    before = pickle.dumps((matrix.data, matrix.indices, matrix.indptr))
    source = read_sparse_features(matrix)
    np.testing.assert_array_equal(whole(source), matrix.toarray())
    assert (source.indptr.tolist(), source.indices.tolist()) == ([0, 2, 2], [0, 2])
    assert pickle.dumps((matrix.data, matrix.indices, matrix.indptr)) == before
    matrix.data[:] = 9.0
    assert source.data.tolist() == [2.0, 4.0]


def test_a_value_that_float32_rounds_to_0_is_not_kept() -> None:
    source = read_sparse_features(scipy.sparse.csr_array(np.array([[1e-60, 2.0], [-0.0, 0.0]])))
    assert (source.indices.tolist(), source.data.tolist()) == ([1], [2.0])


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_a_source_cannot_be_written_whatever_its_places_were(index: Any) -> None:
    matrix = scipy.sparse.csr_array(np.eye(3))
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    source = read_sparse_features(matrix)
    arrays = [*source.both_ways.rows, *source.both_ways.columns]
    assert [array.dtype for array in arrays] == [np.int64, np.int32, np.float32] * 2
    assert not any(array.flags.writeable for array in arrays)
    assert source.nbytes == sum(array.nbytes for array in arrays)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([1.0, np.inf, np.nan], [2, "NaN", "row 2, column 3 (inf)"]),
        ([1.0, 2.0, 1e39], [1, "float32", "row 2, column 4 "]),
        ([1.0, 2.0, 1j], ["complex128"]),
    ],
)
def test_values_that_are_refused(values: list[Any], named: list[object]) -> None:
    with pytest.raises(InputError, match=naming("features", *named)):
        read_sparse_features(scipy.sparse.coo_array((np.array(values), ([0, 2, 2], [1, 3, 4])), (3, 5)))


@pytest.mark.parametrize(("shape", "named"), [((3,), "(3,)"), ((0, 4), "empty"), ((1, 2**31), "2,147,483,647")])
def test_shapes_that_are_refused(shape: tuple[int, ...], named: str) -> None:
    with pytest.raises(InputError, match=naming(named)):
        read_sparse_features(scipy.sparse.coo_array(shape))


def test_places_outside_the_matrix_are_refused() -> None:
    matrix = scipy.sparse.csr_array(np.eye(3))
    matrix.indices[1] = 7
    with pytest.raises(InputError, match=naming("features: ", "csr", "contradicts")):
        read_sparse_features(matrix)


def test_what_is_staged_is_opened_as_what_it_was(tmp_path: Path) -> None:
    source = source_of(words(6, 5, 1, 0.4))
    parts = staged_of(source, tmp_path)  # type: ignore[arg-type]
    staged = pickle.loads(
        pickle.dumps(StagedSparse(parts.indptr, parts.indices, parts.data, source.shape, opens=SparseFeatures))
    )
    found = staged.open(ScratchFolder(tmp_path / "scratch"))
    assert isinstance(found, SparseFeatures)
    np.testing.assert_array_equal(whole(found), whole(source))
