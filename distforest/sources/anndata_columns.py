"""Columns of AnnData, groups of two arrays: one says what is missing in the other, or what its codes mean."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import zarr

from distforest.errors import InputError
from distforest.sources.packed import LastStep, with_last_step

if TYPE_CHECKING:
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import NDBuffer

    from distforest.sources.guarded import ZarrArray

CODE_ARRAY, CATEGORY_ARRAY, VALUE_ARRAY, MASK_ARRAY = "codes", "categories", "values", "mask"
"""Arrays of a column: codes of its categories, -1 for a missing one; or values, and which of them are missing."""


@dataclass(frozen=True)
class WithoutMissing(LastStep):
    """A step that refuses a chunk with the code of a missing category."""

    address: str

    async def _decode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:  # noqa: ARG002
        if (chunk_data.as_numpy_array() < 0).any():
            found = "found the code -1, by which AnnData marks a missing one"
            raise InputError(f"{self.address}: a category for each row was expected, {found}; leave those rows out")
        return chunk_data


def is_categorical(group: zarr.Group) -> bool:
    """Whether a group is a column of categories of AnnData."""
    return group.attrs.get("encoding-type") == "categorical" and isinstance(group.get(CODE_ARRAY), zarr.Array)


def without_missing(address: str, array: ZarrArray, group: zarr.Group, categories: list[object]) -> ZarrArray:
    """An array of a group; if the group is a column of AnnData, one that refuses what is missing in it.

    Codes get the ``categories``, if there are any, as the attribute that names classes.

    Raises
    ------
    InputError
        The array holds values of which the mask beside it says that some are missing.
    """
    name, kind = address.rstrip("/").rpartition("/")[2], str(group.attrs.get("encoding-type", ""))
    if name == CODE_ARRAY and kind == "categorical" and array.dtype.kind == "i":
        metadata = copy.copy(array.metadata)
        named = {"classes": categories} if categories else {}
        object.__setattr__(metadata, "attributes", {**metadata.attributes, **named})
        return with_last_step(array, WithoutMissing(address), metadata)
    mask = group.get(MASK_ARRAY) if name == VALUE_ARRAY and kind.startswith("nullable-") else None
    if isinstance(mask, zarr.Array) and (n_missing := int(np.count_nonzero(mask[...]))):
        found = f"found {n_missing:,} that the mask beside it marks as missing"
        raise InputError(
            f"{address}: a value for each row was expected, {found}; write numbers with NaN in their place"
        )
    return array
