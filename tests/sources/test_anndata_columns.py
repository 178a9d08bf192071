"""Columns of AnnData of which some values are missing: refused where one of their arrays is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

from distforest import SimForestClassifier, SimForestRegressor
from distforest.errors import InputError
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.preview import preview
from distforest.sources.arrays import open_array
from distforest.sources.guarded import DamagedChunkError
from tests.messages import naming
from tests.sources.helpers import job_spec, write_arrays

if TYPE_CHECKING:
    from pathlib import Path

X = np.random.default_rng(0).normal(size=(60, 3))


def column(place: Path, kind: str, zarr_format: Any, **arrays: np.ndarray) -> str:
    """The address of a column as AnnData writes it."""
    group = zarr.open_group(str(place), mode="w", zarr_format=zarr_format)
    group.attrs.update({"encoding-type": kind, "encoding-version": "0.2.0"})
    for name, values in arrays.items():
        group.create_array(name, shape=values.shape, dtype=values.dtype, chunks=(7,))[...] = values
    return str(place)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_codes_of_missing_categories_are_refused(zarr_format: int, tmp_path: Path) -> None:
    codes = (X[:, 0] > 0).astype(np.int8)
    forest = SimForestClassifier("rbf", n_estimators=2, random_state=0)
    address = f"{column(tmp_path / 'whole', 'categorical', zarr_format, codes=codes)}/codes"
    assert open_array(address).dtype == np.int8
    assert forest.fit(X, address).digest_ == forest.fit(X, codes).digest_
    codes[41] = -1
    address = f"{column(tmp_path / 'cells', 'categorical', zarr_format, codes=codes)}/codes"
    with pytest.raises(InputError, match=naming("cells/codes", -1)):
        forest.fit(X, address)
    other = f"{column(tmp_path / 'other', 'dataframe', zarr_format, codes=codes, level=codes)}"
    assert forest.fit(X, f"{other}/codes").forest_.meaning.classes == [-1, 0, 1]  # of no column of categories
    assert open_array(f"{other}/level")[41] == -1


@pytest.mark.filterwarnings("ignore:The data type")  # strings of one width in Zarr format 3
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("are_nullable", [False, True])
def test_categories_name_the_labels(are_nullable: bool, zarr_format: int, tmp_path: Path) -> None:
    codes, names = (X[:, 0] > 0).astype(np.int8), np.array(["T cell", "B cell"])
    given = {"codes": codes} if are_nullable else {"codes": codes, "categories": names}
    address = column(tmp_path / "cells", "categorical", zarr_format, **given)
    if are_nullable:
        whole = np.zeros(2, np.bool_)
        column(tmp_path / "cells/categories", "nullable-string-array", zarr_format, values=names, mask=whole)
    forest = SimForestClassifier("rbf", n_estimators=2, random_state=0)
    expected = forest.fit(X, codes).predict(X)
    for labels in (address, f"{address}/codes"):
        np.testing.assert_array_equal(forest.fit(X, labels).predict(X), names[expected])
        with pytest.raises(InputError, match=naming("T cell")):
            SimForestRegressor("rbf", n_estimators=2).fit(X, labels)
    features = write_arrays(str(tmp_path / "rows.zarr"), X=X)
    spec = job_spec(tmp_path, "smerf", features=f"{features}/X", distances={"kind": "labels", "values": address})
    preview(spec)
    assert stage_inputs(spec, str(tmp_path / "job")).classes == ["T cell", "B cell"]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", ["nullable-integer", "nullable-boolean"])
def test_values_that_a_mask_says_are_missing_are_refused(kind: str, zarr_format: int, tmp_path: Path) -> None:
    values, mask = np.arange(60), np.zeros(60, np.bool_)
    forest = SimForestRegressor("rbf", n_estimators=2, random_state=0)
    address = f"{column(tmp_path / 'whole', kind, zarr_format, values=values, mask=mask)}/values"
    assert forest.fit(X, address).digest_ == forest.fit(X, values).digest_
    mask[[3, 8]] = True
    address = f"{column(tmp_path / 'ages', kind, zarr_format, values=values, mask=mask)}/values"
    with pytest.raises(InputError, match=naming("ages/values", 2, "mask")):
        forest.fit(X, address)
    alone = f"{column(tmp_path / 'alone', kind, zarr_format, values=values)}/values"
    assert open_array(alone)[8] == 8


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_damaged_chunk_of_codes_is_reported_by_its_file(zarr_format: int, tmp_path: Path) -> None:
    address = f"{column(tmp_path / 'cells', 'categorical', zarr_format, codes=np.arange(60).astype(np.int8))}/codes"
    chunk = tmp_path / "cells" / "codes" / ("3" if zarr_format == 2 else "c/3")
    chunk.write_bytes(b"nothing that a codec has written")
    with pytest.raises(DamagedChunkError, match=f"^{chunk}: "):
        open_array(address)[...]


def test_an_array_in_no_group_is_read(tmp_path: Path) -> None:
    zarr.create_array(str(tmp_path / "values"), shape=(3,), dtype="i4")[...] = [1, -1, 2]
    assert open_array(str(tmp_path / "values"))[...].tolist() == [1, -1, 2]
