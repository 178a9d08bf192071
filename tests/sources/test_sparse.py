"""Sparse similarities: what is stored is what a dense matrix with NaN elsewhere says, value for value."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.sources.arrays import ArraySource
from distforest.sources.readings import AS_IT_IS, DISSIMILARITIES, FEATURES, SIMILARITIES, Reading, read
from distforest.sources.scratch import ScratchFolder
from distforest.sources.source import Source
from distforest.sources.sparse import SparseSource, read_sparse, with_own_distances
from distforest.sources.staged_sparse import StagedSparse
from distforest.sources.staging import stage
from tests import samples
from tests.messages import naming
from tests.sources.helpers import whole, write_arrays
from tests.sources.test_source import Level, assert_projects, levels
from tests.tries import tries

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kernels

FREE = settings(max_examples=tries(80))
CONTAINERS = [
    *(scipy.sparse.csr_array, scipy.sparse.csc_array, scipy.sparse.coo_array, scipy.sparse.dok_array),
    *(scipy.sparse.lil_array, scipy.sparse.csr_matrix, scipy.sparse.coo_matrix),
]


def dense_of(n_rows: int, n_columns: int, seed: int, missing: float) -> np.ndarray:
    """Values of which a share is unobserved; zeros and repeated values among them."""
    rng = np.random.default_rng(seed)
    dense = rng.integers(-2, 3, (n_rows, n_columns)) * rng.choice([1.0, 0.1], (n_rows, n_columns))
    dense[rng.random(dense.shape) < missing] = np.nan
    return dense


def stored_of(dense: np.ndarray, seed: int = 0) -> Any:
    """The observed values alone, zeros too, in any order."""
    rows, columns = np.nonzero(~np.isnan(dense))
    order = np.random.default_rng(seed).permutation(len(rows))
    rows, columns = rows[order], columns[order]
    return scipy.sparse.coo_array((dense[rows, columns], (rows, columns)), dense.shape)


@FREE
@given(
    st.integers(1, 7),
    st.integers(1, 6),
    st.integers(0, 999),
    st.sampled_from([0.0, 0.4, 1.0]),
    st.sampled_from(CONTAINERS),
    st.sampled_from([SIMILARITIES, DISSIMILARITIES]),
)
def test_what_is_not_stored_is_unobserved(
    n_rows: int, n_columns: int, seed: int, missing: float, container: Any, reading: Reading
) -> None:
    dense = dense_of(n_rows, n_columns, seed, missing)
    source = read_sparse(container(stored_of(dense, seed)), reading)
    assert isinstance(source, Source)
    assert source.shape == (n_rows, n_columns)
    twin = ArraySource.from_values(read(dense, reading))
    np.testing.assert_array_equal(whole(source), whole(twin))
    rng = np.random.default_rng(seed)
    rows, columns = (rng.integers(size, size=9).astype(np.int32) for size in dense.shape)
    np.testing.assert_array_equal(source.entries(rows, columns), twin.entries(rows, columns))
    assert source.block(rows[:2], columns[:0]).shape == (2, 0)
    assert source.block(rows[:0], columns).shape == (0, 9)


@FREE
@given(levels(6, 5), st.integers(0, 999), st.sampled_from([0.0, 0.3, 1.0]))
def test_projections_are_those_of_the_dense_matrix(level: Level, seed: int, missing: float) -> None:
    dense = dense_of(6, 5, seed, missing)
    source = read_sparse(stored_of(dense, seed), SIMILARITIES)
    assert_projects(source, level)
    rows, starts, terms = level
    if terms:
        projections = samples.projections(terms)
        expected = ArraySource.from_values(dense).project(rows, starts, projections)
        np.testing.assert_array_equal(source.project(rows, starts, projections), expected)


def test_duplicates_are_summed_before_they_are_squared_and_what_was_given_stays() -> None:
    given_matrix = scipy.sparse.csr_array((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 2]), np.array([0, 3, 3])), (2, 3))
    before = pickle.dumps((given_matrix.data, given_matrix.indices, given_matrix.indptr))
    source = read_sparse(given_matrix, DISSIMILARITIES)
    np.testing.assert_array_equal(whole(source), [[-2.0, np.nan, -8.0], [np.nan] * 3])
    assert (source.indptr.tolist(), source.indices.tolist()) == ([0, 2, 2], [0, 2])
    assert pickle.dumps((given_matrix.data, given_matrix.indices, given_matrix.indptr)) == before


def test_a_stored_nan_is_not_kept() -> None:
    values = np.array([[np.nan, 1.0, 0.0], [np.nan, np.nan, np.nan], [2.0, np.nan, 3.0]])
    stored = scipy.sparse.coo_array((values.ravel(), np.indices((3, 3)).reshape(2, 9)), (3, 3))
    source = read_sparse(stored, SIMILARITIES)
    np.testing.assert_array_equal(whole(source), values)
    assert (source.indptr.tolist(), source.data.tolist()) == ([0, 2, 2, 4], [1.0, 0.0, 2.0, 3.0])
    assert source.nbytes == 4 * 8 + 4 * 4 + 4 * 8


def test_blocks_are_stored_whole_and_diagonals_without_their_zeros() -> None:
    stored = scipy.sparse.coo_array(([1.0, 0.0], ([0, 2], [0, 2])), (4, 4))
    assert len(read_sparse(stored.tocsr(), SIMILARITIES).data) == 2
    assert len(read_sparse(stored.todia(), SIMILARITIES).data) == 1
    assert len(read_sparse(scipy.sparse.bsr_array(stored, blocksize=(2, 2)), SIMILARITIES).data) == 8


@pytest.mark.parametrize(
    ("given", "held"), [(np.int8, np.float32), (np.float32, np.float32), (np.int64, np.float64), (float, np.float64)]
)
def test_a_source_cannot_be_written_and_holds_what_it_is_given(given: Any, held: Any) -> None:
    source = read_sparse(scipy.sparse.csr_array(np.eye(3, dtype=given)), SIMILARITIES)
    arrays = (source.indptr, source.indices, source.data)
    assert [array.dtype for array in arrays] == [np.int64, np.int32, held]
    assert not any(array.flags.writeable for array in arrays)


@pytest.mark.parametrize(
    ("values", "reading", "named"),
    [
        ([1.0, np.inf, np.nan], SIMILARITIES, ["row 2, column 3 "]),
        ([1.0, -1e151, 2.0], DISSIMILARITIES, ["row 2, column 3 ", "-1e+151"]),
        ([1.0, 1e301, 2.0], SIMILARITIES, ["1e+300", "row 2, column 3 "]),
        ([1.0, 2.0, 1j], SIMILARITIES, ["complex128"]),
        ([1.0, 2.0, 3.0], FEATURES, ["sparse", "(3, 5)"]),
    ],
)
def test_values_that_are_refused(values: list[Any], reading: Reading, named: list[str]) -> None:
    stored = scipy.sparse.coo_array((np.array(values), ([0, 2, 2], [1, 3, 4])), (3, 5))
    with pytest.raises(InputError, match=naming(reading.name, *named)):
        read_sparse(stored, reading)


@pytest.mark.parametrize(("shape", "named"), [((3,), "(3,)"), ((0, 4), "empty")])
def test_shapes_that_are_refused(shape: tuple[int, ...], named: str) -> None:
    with pytest.raises(InputError, match=naming(named)):
        read_sparse(scipy.sparse.coo_array(np.zeros(shape)), SIMILARITIES)


@FREE
@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(0, 200),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from(CONTAINERS),
)
def test_own_distances_are_0_where_they_are_not_stored(
    n_rows: int, n_columns: int, seed: int, missing: float, container: Any
) -> None:
    dense = dense_of(n_rows, n_columns, seed, missing)
    found = read_sparse(with_own_distances(container(stored_of(dense, seed))), SIMILARITIES)
    for i in range(min(dense.shape)):
        dense[i, i] = 0.0 if np.isnan(dense[i, i]) else dense[i, i]
    np.testing.assert_array_equal(whole(found), dense)


def staged_of(source: SparseSource, folder: Path) -> StagedSparse:
    names, scratch = ("indptr", "indices", "data"), ScratchFolder(folder / "scratch")
    group = write_arrays(f"{folder}/own.zarr", **{name: getattr(source, name) for name in names})
    return StagedSparse(*(stage(f"{group}/{name}", AS_IT_IS, scratch) for name in names), source.shape)


@pytest.mark.parametrize("missing", [0.4, 1.0])
def test_what_is_staged_is_opened_on_any_host(tmp_path: Path, missing: float) -> None:
    source = read_sparse(stored_of(dense_of(6, 6, 1, missing)), SIMILARITIES)
    staged = pickle.loads(pickle.dumps(staged_of(source, tmp_path)))
    for scratch in ("scratch", "of another host"):
        found = staged.open(ScratchFolder(tmp_path / scratch))
        np.testing.assert_array_equal(whole(found), whole(source))
    assert staged.n_bytes == source.nbytes
    assert staged.address == str(tmp_path / "own.zarr" / "data")


def test_the_digest_tells_shapes_and_places_apart(tmp_path: Path) -> None:
    staged = staged_of(read_sparse(stored_of(dense_of(6, 6, 1, 0.4)), SIMILARITIES), tmp_path)
    twins = [replace(staged, shape=(6, 7)), replace(staged, indices=staged.indptr), replace(staged, data=staged.indptr)]
    assert len({staged.sha256, *(twin.sha256 for twin in twins)}) == 4
    assert replace(staged).sha256 == staged.sha256


def test_values_are_the_sources_own() -> None:
    """What a user does to a matrix afterwards does not reach the source, though it is float32 and in order already."""
    matrix = scipy.sparse.csr_array(np.array([[1.0, 2.0], [2.0, 1.0]], np.float32))
    source = read_sparse(matrix, SIMILARITIES)
    matrix.data[:] = 9.0
    assert source.data.tolist() == [1.0, 2.0, 2.0, 1.0]
