"""Arrays whose numbers are packed or marked, as xarray writes them: the values are read, and never the numbers."""

from __future__ import annotations

import base64
import re
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

from distforest import SimForestRegressor
from distforest.errors import InputError
from distforest.sources.arrays import open_array, row_blocks
from distforest.sources.opening import opened_array, read_rows
from distforest.sources.packed import DIMENSIONS
from distforest.sources.readings import FEATURES
from distforest.sources.scratch import ScratchFolder
from distforest.sources.staging import stage
from distforest.sources.stored import check_stored
from tests.messages import naming

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

VALUES = np.array([[1.5, np.nan, 2.25], [0.0, 7.0, 3.0], [-1.0, 12.5, np.nan], [4.0, 4.0, 4.0], [9.0, 0.25, 1.0]])
PACKED = np.where(np.isnan(VALUES), -9999, np.nan_to_num(VALUES) * 4 - 20).astype(np.int16)


def array_at(
    place: Path, values: np.ndarray, attributes: Mapping[str, Any], zarr_format: Any = 3, **options: Any
) -> str:
    """The address of an array with attributes."""
    options = {"chunks": (2, *values.shape[1:]), **options}
    array = zarr.create_array(
        str(place),
        shape=values.shape,
        dtype=values.dtype,
        zarr_format=zarr_format,
        attributes=dict(attributes),
        **options,
    )
    array[...] = values
    return str(place)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", ["<i2", ">i2", "<i4", "<i8", "<f4", "<f8"])
def test_packed_numbers_are_read_as_values(zarr_format: int, dtype: str, tmp_path: Path) -> None:
    attributes = {"scale_factor": 0.25, "add_offset": 5, "_FillValue": -9999, "units": "m"}
    address = array_at(tmp_path / "X.zarr", PACKED.astype(dtype), attributes, zarr_format)
    array = open_array(address)
    assert array.dtype == np.float64
    np.testing.assert_array_equal(array[...], VALUES)
    np.testing.assert_array_equal(array[1:4], VALUES[1:4])
    np.testing.assert_array_equal(np.concatenate([block for _, block in row_blocks(array, 24)]), VALUES)
    np.testing.assert_array_equal(read_rows(address, np.array([0, 2, 4])), VALUES[[0, 2, 4]])
    assert array.attrs["units"] == "m"
    opened: Any = opened_array(zarr.open_array(address, mode="r"))  # by the caller
    np.testing.assert_array_equal(opened[...], VALUES)


def test_shards_and_single_bytes_are_unpacked(tmp_path: Path) -> None:
    values = np.arange(-32, 32, dtype=np.int8).reshape(8, 8)
    attributes = {"scale_factor": 2.0, "missing_value": [-1, 7, 300, 0.5]}
    expected = np.where((values == -1) | (values == 7), np.nan, 2.0 * values)
    for name, options in {"shards": {"chunks": (2, 2), "shards": (4, 8)}, "plain": {}}.items():
        array = open_array(array_at(tmp_path / name, values, attributes, **options))
        np.testing.assert_array_equal(array[...], expected)
        np.testing.assert_array_equal(array[3:5], expected[3:5])


@pytest.mark.parametrize(("dtype", "mark"), [(np.int64, 2**63 - 1), (np.int64, -(2**63)), (np.uint64, 2**64 - 1)])
def test_a_mark_that_is_no_number_of_float64_is_found(dtype: Any, mark: int, tmp_path: Path) -> None:
    address = array_at(tmp_path / "X.zarr", np.array([1, mark, 3], dtype), {"_FillValue": mark})
    np.testing.assert_array_equal(open_array(address)[...], [1.0, np.nan, 3.0])


def test_marks_become_nan_in_whatever_form_they_are_stated(tmp_path: Path) -> None:
    values = np.where(np.isnan(VALUES), 1e20, VALUES)
    packed = base64.b64encode(struct.pack("<d", 1e20)).decode()  # xarray in Zarr format 3
    for place, mark in enumerate([1e20, [1e20], packed, "1e20"]):
        for dtype in (np.float32, np.float64):
            address = array_at(tmp_path / f"{place}{dtype.__name__}", values.astype(dtype), {"_FillValue": mark})
            np.testing.assert_array_equal(open_array(address)[...], VALUES)
    of_xarray = {"zarr_format": 2, "fill_value": 1e20}
    address = array_at(tmp_path / "second", values, {DIMENSIONS: ["row", "column"]}, **of_xarray)
    np.testing.assert_array_equal(open_array(address)[...], VALUES)
    address = array_at(tmp_path / "not of xarray", values, {}, **of_xarray)
    np.testing.assert_array_equal(open_array(address)[...], values)


def test_other_arrays_are_as_they_were(tmp_path: Path) -> None:
    plain: list[tuple[np.ndarray, dict[str, Any]]] = [
        (VALUES, {"_FillValue": "AAAAAAAA+H8="}),  # NaN, which xarray writes beside all floats
        (VALUES, {"missing_value": float("nan"), "scale_factor": 1, "add_offset": 0.0}),
        (PACKED, {"units": "days since 2020-01-01", DIMENSIONS: ["row", "column"], "_Unsigned": "false"}),
        (PACKED > 0, {"_FillValue": 1}),
        (np.array(["a", "b"]), {"_FillValue": "b"}),
    ]
    for place, (values, attributes) in enumerate(plain):
        array = open_array(array_at(tmp_path / str(place), values, attributes, 2 if values.dtype.kind == "U" else 3))
        assert array.dtype == values.dtype
        np.testing.assert_array_equal(array[...], values)


@pytest.mark.parametrize(
    ("attributes", "named"),
    [
        ({"scale_factor": "0.1x"}, ["scale_factor: ", "'0.1x'"]),
        ({"add_offset": [1.0, 2.0]}, ["add_offset: ", "[1.0, 2.0]"]),
        ({"_FillValue": "none"}, ["_FillValue: ", "'none'"]),
        ({"_Unsigned": "true"}, ["_Unsigned ", "int16"]),
    ],
)
def test_attributes_that_cannot_be_read_are_refused(
    attributes: dict[str, Any], named: list[object], tmp_path: Path
) -> None:
    address = array_at(tmp_path / "X.zarr", PACKED, attributes)
    for open_it in (lambda: open_array(address), lambda: opened_array(zarr.open_array(address, mode="r"))):
        with pytest.raises(InputError, match=naming("X.zarr: ", *named)):
            open_it()


def test_whole_numbers_that_floats_would_round_are_refused(tmp_path: Path) -> None:
    address = array_at(tmp_path / "X.zarr", np.array([[2**53 + 1, 1]]), {"_FillValue": 7})
    with pytest.raises(InputError, match=naming("X.zarr: ", "9,007,199,254,740,992")):
        open_array(address)[...]


def test_a_chunk_that_is_absent_holds_missing_values(tmp_path: Path) -> None:
    options = {"zarr_format": 2, "fill_value": -9999, "chunks": (1, 3)}
    values = np.where(np.arange(5)[:, None] == 3, -9999, PACKED).astype(np.int16)
    address = array_at(tmp_path / "X.zarr", values, {DIMENSIONS: ["r", "c"], "scale_factor": 0.5}, **options)
    assert np.isnan(open_array(address)[3]).all()
    assert re.search(naming(address, "1 of 5 ", " nan"), check_stored([address])[0])


def test_forests_and_jobs_learn_from_the_values(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 99, (60, 3)) / 4.0
    y = X[:, 0] + X[:, 1]
    X[::7, 2] = np.nan
    attributes = {"scale_factor": 0.25, "add_offset": 5.0, "_FillValue": -9999}
    packed = np.where(np.isnan(X), -9999, np.nan_to_num(X) * 4 - 20).astype(np.int16)
    address = array_at(tmp_path / "X.zarr", packed, attributes, chunks=(7, 3))
    targets = array_at(tmp_path / "y.zarr", (y * 4).astype(np.int32), {"scale_factor": 0.25})
    forest = SimForestRegressor("rbf", n_estimators=5, random_state=0)
    digests = [forest.fit(*given).digest_ for given in ((X, y), (address, targets))]
    assert digests[0] == digests[1]
    scratch = ScratchFolder(tmp_path / "scratch")
    np.testing.assert_array_equal(stage(address, FEATURES, scratch).open(scratch), X.astype(np.float32))
