"""What is refused at the door, with the first place at fault; what is converted, and how."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import DistforestWarning, InputError
from distforest.jobs.input_staging import stage_inputs
from distforest.sources import arrays, readings
from distforest.sources.readings import (
    AS_IT_IS,
    DISSIMILARITIES,
    DISTANCES,
    FEATURES,
    GRAPH,
    SIMILARITIES,
    Reading,
    known_entries,
    read,
    read_level,
)
from tests.messages import naming
from tests.sources.helpers import job_spec, write_arrays

ALL = [FEATURES, SIMILARITIES, DISSIMILARITIES, DISTANCES, GRAPH]
NAN, INF = float("nan"), float("inf")
COMPLETE = Reading("features")
"""A kind of matrix of which no value may be missing."""


def square(**places: float) -> np.ndarray:
    """A symmetric 4 x 4 matrix with values at places such as r1c2."""
    values = np.add.outer(np.arange(4.0), np.arange(4.0)) / 8
    for place, value in places.items():
        values[int(place[1]), int(place[3])] = value
    return values


# --- what comes in ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "uint8", "bool"])
@pytest.mark.parametrize("reading", ALL)
def test_numbers_come_in_as_float32_but_similarities_as_they_are_and_squares_as_float64(
    reading: Reading, dtype: str
) -> None:
    values = (square() > 0.3).astype(dtype)
    found = read(values, reading)
    is_wide = reading is DISSIMILARITIES or (reading is SIMILARITIES and dtype in ("float64", "int64"))
    assert (found.dtype, found.flags.c_contiguous) == (np.float64 if is_wide else np.float32, True)
    wide = values.astype(np.float64)
    expected = {"edges": 1 - wide, "squares": -(wide**2) / 2, None: wide}[reading.convert]
    assert found.tolist() == expected.tolist()


@settings(max_examples=40)
@given(st.integers(1, 30), st.integers(1, 5), st.sampled_from([1, 7, 10**6]))
def test_blocks_change_nothing(n_rows: int, tile: int, block_bytes: int) -> None:
    rng = np.random.default_rng(n_rows)
    values = rng.random((n_rows, n_rows))
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", DistforestWarning)
        whole = read(values, DISTANCES)
        patch.setattr(readings, "_TILE", tile)
        patch.setattr(readings, "row_blocks", lambda array: arrays.row_blocks(array, block_bytes))
        assert read(values, DISTANCES).tobytes() == whole.tobytes()
    assert whole.tobytes() == whole.T.copy().tobytes()
    narrow = values.astype(np.float32)
    np.testing.assert_allclose(whole, (narrow.astype(np.float64) + narrow.T) / 2, rtol=1e-6)


def test_distances_that_are_all_0_are_symmetric() -> None:
    assert read(np.zeros((3, 3)), DISTANCES).tolist() == [[0.0] * 3] * 3


def test_a_place_to_read_into_is_used() -> None:
    out = np.empty((4, 4), np.float32)
    assert read(square(), FEATURES, out) is out
    assert out.tolist() == square().tolist()


def test_zarr_arrays_are_read_like_arrays_in_memory(tmp_path: Path) -> None:
    array = zarr.create_array(str(tmp_path / "x.zarr"), shape=(4, 4), dtype="float64", chunks=(3, 2))
    array[...] = square()
    for reading in ALL:
        assert read(array, reading).tobytes() == read(square(), reading).tobytes()


def test_similarities_that_need_no_conversion_are_not_copied(tmp_path: Path) -> None:
    values = np.lib.format.open_memmap(tmp_path / "s.npy", "w+", np.float64, (4, 4))
    values[:] = square(r0c1=NAN)
    assert np.shares_memory(read(values, SIMILARITIES), values)
    assert np.shares_memory(read(values.astype(np.float32), SIMILARITIES), values) is False
    for other in (np.asfortranarray(values), values.astype(">f8"), values[::-1]):
        np.testing.assert_array_equal(read(other, SIMILARITIES), other)
        assert read(other, SIMILARITIES).flags.c_contiguous
    assert not np.shares_memory(read(values, DISSIMILARITIES), values)


def test_features_are_used_where_they_lie_by_who_only_looks_at_them() -> None:
    values = np.zeros((3, 2), np.float32)
    assert np.shares_memory(read(values, FEATURES, borrows=True), values)
    assert not np.shares_memory(read(values, FEATURES), values)
    odd = np.zeros(25, np.uint8)[1:].view(np.float32).reshape(3, 2)
    for other in (values.astype(np.float64), values.T, odd):
        found = read(other, FEATURES, borrows=True)
        assert (found.dtype, found.flags.c_contiguous, found.flags.aligned) == (np.float32, True, True)
        assert not np.shares_memory(found, other)
    with pytest.raises(InputError, match="row 2, column 1"):
        read(np.array([[0.0, 1.0], [2.0, np.nan], [3.0, np.inf]], np.float32), FEATURES, borrows=True)


def test_values_as_they_are_keep_their_dtype_and_shape() -> None:
    values = np.array([3, 1], np.int16)
    assert AS_IT_IS.block(values, 0) is values
    readings.check_shape(values, AS_IT_IS)


# --- refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reading", "values", "named"),
    [
        (COMPLETE, square(r1c2=NAN, r3c0=INF), ["2 values NaN", "row 1, column 2"]),
        (FEATURES, square(r1c2=NAN, r3c0=INF), ["1 value ", "float32", "row 3, column 0"]),
        (FEATURES, square(r2c3=-INF), ["1 value ", "row 2, column 3 (-inf)"]),
        (FEATURES, square(r0c0=1e39), ["float32", "row 0, column 0 (", "1e+39"]),
        (SIMILARITIES, square(r3c1=INF, r0c0=NAN), ["1 value ", "row 3, column 1"]),
        (DISSIMILARITIES, square(r2c1=-INF), ["1 value ", "row 2, column 1"]),
        (DISTANCES, square(r3c3=NAN), ["NaN", "row 3 "]),
        (DISTANCES, square(r3c2=INF, r1c0=NAN), ["1 value ", "row 3, column 2"]),
        (GRAPH, square(r1c0=INF, r0c1=NAN), ["1 value ", "row 1, column 0"]),
    ],
)
def test_a_refusal_names_the_number_of_bad_values_and_the_first_place(
    reading: Reading, values: np.ndarray, named: list[str]
) -> None:
    with pytest.raises(InputError, match=naming(reading.name, *named)):
        read(values, reading)


def test_the_first_place_counts_rows_of_the_whole_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.zeros((9, 2))
    values[7, 1] = NAN
    monkeypatch.setattr(readings, "row_blocks", lambda array: arrays.row_blocks(array, 32))
    with pytest.raises(InputError, match=naming("6..7", "row 7, column 1")):
        read(values, COMPLETE)


@pytest.mark.parametrize(("reading", "largest"), [(SIMILARITIES, "1e+300"), (DISSIMILARITIES, "1e+150")])
def test_values_whose_differences_or_squares_have_no_float64_are_refused(reading: Reading, largest: str) -> None:
    assert np.isfinite(read(square(r1c2=float(largest)), reading)).all()
    with pytest.raises(InputError, match=naming(largest, "row 1, column 2 ")):
        read(square(r1c2=-1.1 * float(largest)), reading)


@pytest.mark.parametrize("scale", [1e-140, 1e-23, 1e20, 1e140])
def test_squares_of_distances_neither_vanish_nor_overflow(scale: float) -> None:
    found = read(square() * scale, DISSIMILARITIES)
    np.testing.assert_allclose(found / scale / scale, -(square() ** 2) / 2, rtol=1e-15)


def test_what_is_masked_is_missing_or_refused() -> None:
    masked = np.ma.masked_equal(square(r1c2=-9.0), -9.0)
    for reading in (FEATURES, SIMILARITIES, DISSIMILARITIES):
        found = read(masked, reading)
        assert np.argwhere(np.isnan(found)).tolist() == [[1, 2]]
    with pytest.raises(InputError, match=naming("1 value NaN", "row 1, column 2")):
        read(masked, COMPLETE)


def test_a_distance_of_each_pair_is_no_matrix_and_becomes_one() -> None:
    with pytest.raises(InputError, match=naming("(6,)", "scipy.spatial.distance.squareform(d)")):
        read(np.arange(6.0), DISTANCES)


@pytest.mark.parametrize("reading", ALL)
def test_what_is_no_matrix_of_numbers_is_refused(reading: Reading) -> None:
    refused: list[tuple[Any, str]] = [
        (np.zeros(3), "(3,)"),
        (np.zeros((2, 2, 2)), "(2, 2, 2)"),
        (np.float64(1), "shape ()"),
        (np.zeros((0, 3)), "empty"),
        (np.zeros((3, 0)), "empty"),
        (np.array([["a", "b"], ["c", "d"]]), "<U1"),
        (np.array([[1j, 2], [3, 4]]), "complex128"),
        (np.array([[1, "x"], [None, 2]], object), "object"),
        (np.zeros((2, 2), "datetime64[s]"), "datetime64"),
    ]
    for values, found in refused:
        with pytest.raises(InputError, match=naming(reading.name, found)):
            read(values, reading)


@pytest.mark.parametrize("reading", [DISTANCES, GRAPH])
def test_distances_are_square(reading: Reading) -> None:
    with pytest.raises(InputError, match=naming(reading.name, "(2, 3)")):
        read(np.zeros((2, 3)), reading)
    assert read(np.zeros((2, 3)), SIMILARITIES).shape == (2, 3)


@pytest.mark.parametrize("value", [2.0, -0.5])
def test_links_beyond_one_are_refused(value: float) -> None:
    with pytest.raises(InputError):
        read(square(r0c1=value, r1c0=value), GRAPH)


# --- what distances have in common ---------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    n=st.integers(1, 9),
    low=st.sampled_from([-1e9, -1e3, -1.0, 0.0, 0.5, 1.0, 1e7, 1e12]),
    spread=st.sampled_from([0.0, 1e-3, 1.0, 1e3]),
    reading=st.sampled_from([DISTANCES, FEATURES]),
    block_bytes=st.sampled_from([64, 1 << 20]),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_common_offset_is_taken_off_distances_that_are_alike_and_no_others(
    n: int, low: float, spread: float, reading: Reading, block_bytes: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    values = low + spread * rng.random((n, n))
    values = np.maximum(values, values.T)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readings, "row_blocks", lambda array: arrays.row_blocks(array, block_bytes))
        found, level = read_level(values, reading)
        plain = read(values, reading)
    least, most = values.min(), values.max()
    are_alike = 0.0 < most - least < max(abs(least), abs(most)) / 128
    expected = (least if abs(least) < abs(most) else most) if are_alike and reading.symmetric else 0.0
    assert level == dataclasses.replace(reading, offset=expected)
    assert found.tobytes() == (plain if not expected else (values - expected).astype(np.float32)).tobytes()
    assert read_level(values, level)[0].tobytes() == found.tobytes()  # as a second host reads it
    assert level.offset or found.tobytes() == plain.tobytes()


def test_links_that_are_all_weak_keep_their_differences() -> None:
    links = np.array([[0.0, 3e-9], [3e-9, 1e-9]])
    assert read(links, GRAPH).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    found, level = read_level(links, GRAPH)
    np.testing.assert_allclose(found, 1.0 - links - level.offset, rtol=1e-6)
    assert len(np.unique(found)) == 3


@pytest.mark.parametrize("size", [1e-31, 1e-300])
def test_distances_too_small_for_float32_are_refused(size: float) -> None:
    with pytest.raises(InputError, match=naming("distances: ", "1e-30")):
        read_level(size * (1 - np.eye(3)), DISTANCES)
    read_level(np.zeros((3, 3)), DISTANCES)


def test_distances_of_different_rows_that_hardly_differ_are_reported() -> None:
    values = np.full((4, 4), 1e6) + np.add.outer(np.arange(4.0), np.arange(4.0))
    np.fill_diagonal(values, 0.0)
    with pytest.warns(DistforestWarning, match=naming("1000001 to 1000005", "Subtract")):
        found, level = read_level(values, DISTANCES)
    assert (level, found.tolist()) == (DISTANCES, values.tolist())
    np.fill_diagonal(values, -3.0)
    values[0, 3] = values[3, 0] = 5.0  # one that differs
    assert read_level(values, DISTANCES)[1] == DISTANCES


# --- symmetry ---------------------------------------------------------------------------------------------


def test_asymmetric_distances_warn_and_are_averaged() -> None:
    with pytest.warns(DistforestWarning, match=naming("distances: ", "z_ij", 0.5)):
        found = read(square(r0c1=1.0, r1c0=0.5), DISTANCES)
    assert found[0, 1] == found[1, 0] == 0.75
    assert found.tolist() == square(r0c1=0.75, r1c0=0.75).tolist()


def test_rounding_is_averaged_without_a_warning() -> None:
    up = float(np.nextafter(np.float32(0.5), np.float32(1)))
    found = read(square(r0c1=up, r1c0=0.5), DISTANCES)
    assert found.tobytes() == found.T.copy().tobytes()
    assert found[0, 1] in (np.float32(0.5), np.float32(up))


def test_asymmetry_far_from_the_diagonal_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "_TILE", 2)
    values = np.ones((7, 7))
    values[6, 0] = 3.0
    with pytest.warns(DistforestWarning, match=naming("z_ij", "to 2")):
        found = read(values, DISTANCES)
    assert found[6, 0] == found[0, 6] == 2.0
    assert (np.delete(found.ravel(), [6, 42]) == 1).all()


def test_halves_that_differ_beyond_float32_warn_too() -> None:
    with pytest.warns(DistforestWarning, match="z_ij"):
        assert read(square(r0c1=3e38, r1c0=-3e38), SYMMETRIC)[0, 1] == 0


SYMMETRIC = Reading("values", symmetric=True)


def test_an_absent_edge_is_distance_one_and_the_diagonal_is_as_it_is() -> None:
    links = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.25], [0.0, 0.25, 1.0]])
    assert read(links, GRAPH).tolist() == [[1.0, 0.0, 1.0], [0.0, 1.0, 0.75], [1.0, 0.75, 0.0]]


def test_squares_of_distances_order_rows_as_inner_products_do() -> None:
    points = np.random.default_rng(0).normal(size=(6, 2))
    d = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2))
    S = read(d, DISSIMILARITIES).astype(np.float64)
    inner = points @ points.T
    for i, j in ((0, 1), (4, 2)):
        offset = (S[:, j] - S[:, i]) - (inner[:, j] - inner[:, i])
        np.testing.assert_allclose(offset, offset[0], atol=1e-6)


@pytest.mark.parametrize("missing", [SIMILARITIES, DISSIMILARITIES])
def test_unobserved_entries_stay_unobserved(missing: Reading) -> None:
    found = read(square(r0c3=NAN), missing)
    assert np.isnan(found[0, 3])
    assert np.isnan(found).sum() == 1


def test_the_largest_entry_is_taken_of_absolute_values(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = np.array([[0.5, -3.0], [2.0, 1.0]], np.float32)
    assert known_entries(matrix, DISTANCES).largest == 3.0
    monkeypatch.setattr(readings, "row_blocks", lambda array: arrays.row_blocks(array, 8))
    assert known_entries(matrix, DISTANCES).largest == 3.0
    assert known_entries(np.zeros((2, 2), np.float32), DISTANCES).largest == 0.0


def test_reading_leaves_the_users_array_alone() -> None:
    keep: Callable[[], np.ndarray] = lambda: square(r0c1=1.0, r1c0=0.5).astype(np.float32)  # noqa: E731
    values = keep()
    with pytest.warns(DistforestWarning, match=naming("z_ij", 0.5)):
        read(values, DISTANCES)
    for reading in ALL[:3]:
        read(values, reading)
    assert values.tolist() == keep().tolist()


def test_distances_of_a_job_that_are_called_similarities_are_suspected(tmp_path: Path) -> None:
    group, points = str(tmp_path / "in.zarr"), np.arange(9.0)
    distances = abs(points[:, None] - points)
    write_arrays(group, D=distances, S=-distances, y=points.astype(np.int64) % 2)

    def staged(matrix: str, measure: str) -> None:
        similarity = {"kind": "dense", "matrix": f"{group}/{matrix}", "measure": measure}
        stage_inputs(job_spec(tmp_path, "simforest", similarity=similarity, labels=f"{group}/y"), f"{tmp_path}/job")

    staged("D", "distance")
    staged("S", "similarity")
    with pytest.warns(DistforestWarning, match=naming("DF002", "distance")):
        staged("D", "similarity")


# --- what nobody observed ---------------------------------------------------------------------------------


def test_one_direction_counts_for_both_and_the_diagonal_is_0(monkeypatch: pytest.MonkeyPatch) -> None:
    given = np.array([[NAN, 2.0, NAN], [NAN, NAN, 3.0], [NAN, 5.0, NAN]])
    expected = [[0.0, 2.0, NAN], [2.0, 0.0, 4.0], [NAN, 4.0, 0.0]]
    with pytest.warns(DistforestWarning, match=naming("z_ij", "to 2")):
        np.testing.assert_array_equal(read(given, DISTANCES), expected)
    monkeypatch.setattr(readings, "_TILE", 2)
    with pytest.warns(DistforestWarning, match=naming("z_ij", "to 2")):
        found = read(given, DISTANCES)
    np.testing.assert_array_equal(found, expected)
    assert known_entries(found, DISTANCES) == (4.0, 1)
    assert np.isnan(given[0, 0])  # the user's matrix is not changed


def test_a_common_offset_is_that_of_observed_distances() -> None:
    given = 1e9 + np.array([[0.0, NAN, 1.0], [NAN, 0.0, 0.5], [NAN, 0.5, 0.0]])
    found, level = read_level(given, DISTANCES)
    assert level.offset == 1e9
    np.testing.assert_array_equal(found, [[0.0, NAN, 1.0], [NAN, 0.0, 0.5], [1.0, 0.5, 0.0]])
    np.testing.assert_array_equal(read_level(given, level)[0], found)  # as a second host reads it


def test_unobserved_links_stay_unobserved() -> None:
    found = read(np.array([[NAN, 1.0, NAN], [1.0, 0.0, 0.0], [NAN, 0.0, 0.0]]), GRAPH)
    np.testing.assert_array_equal(found, [[1.0, 0.0, NAN], [0.0, 1.0, 1.0], [NAN, 1.0, 1.0]])


def test_a_matrix_without_an_observed_pair_is_refused() -> None:
    nothing = np.array([[0.0, NAN], [NAN, 0.0]], np.float32)
    with pytest.raises(InputError, match=naming("distances: ", "all 1 ", "NaN")):
        known_entries(nothing, DISTANCES)
    assert known_entries(nothing[:1, :1], DISTANCES) == (0.0, 0)


def test_a_diagonal_of_which_some_is_nan_must_be_0_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "row_blocks", lambda values: ((row, values[row : row + 1]) for row in range(3)))
    given = np.array([[NAN, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.5]])
    with pytest.raises(InputError, match=r"row 0 .*row 2 "):
        read(given, DISTANCES)
    with pytest.raises(InputError, match=r"row 2 .*row 0 "):
        read(given[::-1, ::-1], DISTANCES)
