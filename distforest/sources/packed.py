"""Packed values in Zarr: attributes that say what stored numbers stand for, as xarray writes and netCDF has them.

A stored number stands for ``scale_factor * number + add_offset``, and one that is ``_FillValue`` or ``missing_value``
for a missing value. Zarr does not read these attributes, so that packed numbers would pass for values, and marks for
numbers. The source is the CF Conventions, sections 2.5.1 and 8.1.
"""

from __future__ import annotations

import base64
import copy
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np
import zarr
from zarr.abc.codec import ArrayArrayCodec
from zarr.dtype import Float64

from distforest.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import NDBuffer
    from zarr.core.metadata import ArrayMetadata

    from distforest.sources.guarded import ZarrArray

T = TypeVar("T")

SCALE, OFFSET, MARK_NAMES = "scale_factor", "add_offset", ("_FillValue", "missing_value")
"""The attributes of an array that say what its numbers stand for."""

DIMENSIONS = "_ARRAY_DIMENSIONS"
"""The attribute by which xarray's arrays in Zarr format 2 are known: their fill value marks missing values."""

LARGEST_WHOLE = 2**53
"""Larger whole numbers are not all numbers of float64."""

CURE = "write the values themselves, with NaN for what is missing: `ds.drop_encoding().to_zarr(...)` in xarray"


class StandsFor(NamedTuple):
    """What the stored numbers of an array stand for.

    Attributes
    ----------
    scale, offset
        A number stands for ``scale * number + offset``.
    marks
        Numbers that stand for a missing value, in the dtype of the array.
    """

    scale: float
    offset: float
    marks: tuple[np.generic, ...]

    @classmethod
    def from_array(cls, array: ZarrArray) -> StandsFor | None:
        """What an array's attributes say; None if its numbers stand for themselves.

        Raises
        ------
        InputError
            An attribute cannot be read.
        """
        attributes, dtype = array.attrs.asdict(), array.dtype
        if dtype.kind not in "iuf":
            return None
        if str(attributes.get("_Unsigned", "")).lower() == "true" and dtype.kind == "i":
            raise InputError(f"attribute _Unsigned says that {dtype} stands for other numbers; {CURE}")
        scale, offset = _number(attributes, SCALE, 1.0), _number(attributes, OFFSET, 0.0)
        if scale == 0.0:
            raise InputError(f"attribute {SCALE}: another number than 0 was expected; {CURE}")
        marks = [mark for name in MARK_NAMES for mark in _marks(attributes, name, dtype)]
        if array.metadata.zarr_format == 2 and DIMENSIONS in attributes and array.fill_value:
            marks.append(dtype.type(array.fill_value))
        known = tuple(mark for mark in dict.fromkeys(marks) if mark == mark)  # NaN is missing anyway
        return cls(scale, offset, known) if known or scale != 1.0 or offset else None

    def unpacked(self, stored: np.ndarray) -> np.ndarray:
        """The values of stored numbers in float64, NaN for a missing one.

        Raises
        ------
        InputError
            A whole number is too large for float64.

        Examples
        --------
        >>> StandsFor(0.5, 10.0, (np.int16(-9999),)).unpacked(np.array([4, -9999], np.int16))
        array([12., nan])
        """
        values = stored.astype(np.float64)
        is_missing = np.isin(stored, np.array(self.marks, stored.dtype)) if self.marks else np.zeros(stored.shape, bool)
        is_large = (stored > LARGEST_WHOLE) | (stored < -LARGEST_WHOLE)
        if stored.dtype.kind != "f" and (is_large & ~is_missing).any():
            expected = f"whole numbers up to {LARGEST_WHOLE:,} were expected beside {SCALE} or {MARK_NAMES[0]}"
            raise InputError(f"{expected}, found larger ones; {CURE}")
        if (self.scale, self.offset) != (1.0, 0.0):
            values = values * self.scale + self.offset
        values[is_missing] = np.nan
        return values


def _number(attributes: Mapping[str, object], name: str, default: float) -> float:
    """A number among attributes; raises InputError for anything else."""
    found = np.asarray(attributes.get(name, default))
    if found.dtype.kind not in "iuf" or found.size != 1 or not np.isfinite(found).all():
        raise InputError(f"attribute {name}: a finite number was expected, found {attributes[name]!r}; {CURE}")
    return float(found.reshape(-1)[0])


def _marks(attributes: Mapping[str, object], name: str, dtype: np.dtype[np.generic]) -> list[np.generic]:
    """The numbers of a dtype that an attribute says mark missing values; raises InputError if it says no numbers."""
    value = attributes.get(name)
    given = value if isinstance(value, list) else [value] * (value is not None)
    try:
        numbers: list[Any] = [_float_of(one) if isinstance(one, str) else one for one in given]
        floats = np.array([float(one) for one in numbers])
    except (ValueError, TypeError, OverflowError, struct.error) as error:  # also of base64
        raise InputError(f"attribute {name}: a number was expected, found {value!r}; {CURE}") from error
    if dtype.kind != "f":  # others are in no entry; float64 has not all of int64
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max  # type: ignore[type-var]
        whole = [int(one) for one, own in zip(numbers, floats, strict=True) if np.isfinite(own) and own == np.rint(own)]
        return [dtype.type(one) for one in whole if least <= one <= most]
    with np.errstate(over="ignore"):
        return list(floats.astype(dtype))


def _float_of(text: str) -> float:
    """A number as xarray writes it in Zarr format 3: its eight bytes as base64; else a word such as ``"NaN"``.

    Examples
    --------
    >>> _float_of("AAAAAAAA+H8="), _float_of("-9999")
    (nan, -9999.0)
    """
    try:
        return float(text)
    except ValueError:
        return float(struct.unpack("<d", base64.b64decode(text, validate=True))[0])


class LastStep(ArrayArrayCodec):
    """A codec that only decodes: chunks of the same shape and, unless it says otherwise, of the same size."""

    is_fixed_size = True

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:  # noqa: ARG002
        """The same codec for any chunk."""
        return self

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:  # noqa: ARG002
        """The bytes of a chunk before the step."""
        return input_byte_length


def with_last_step(array: ZarrArray, step: LastStep, metadata: ArrayMetadata | None = None) -> ZarrArray:
    """The same array, whose decoded chunks go through a step; ``metadata`` are those of its values, if it has others.

    Chunks are read by the array's own pipeline, with what guards it.
    """
    given = array.async_array
    pipeline: Any = given.codec_pipeline
    values = replace(given)
    if metadata is not None:
        object.__setattr__(values, "metadata", metadata)  # without the checks of its codecs, which read stored numbers
    codecs = (step, *pipeline.array_array_codecs)
    object.__setattr__(values, "codec_pipeline", replace(pipeline, array_array_codecs=codecs))
    return zarr.Array(values)


@dataclass(frozen=True)
class Unpacked(LastStep):
    """A step from stored numbers of a dtype and with a fill value, as Zarr has these, to values in float64."""

    packing: StandsFor
    dtype: Any
    fill_value: Any
    address: str

    def resolve_metadata(self, chunk_spec: ArraySpec) -> ArraySpec:
        """What a chunk is before it is unpacked."""
        return replace(chunk_spec, dtype=self.dtype, fill_value=self.fill_value)

    async def _decode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:
        try:
            values = self.packing.unpacked(chunk_data.as_numpy_array())
        except InputError as error:
            raise InputError(f"{self.address}: {error}") from error
        return chunk_spec.prototype.nd_buffer.from_numpy_array(values)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:  # noqa: ARG002
        """The bytes of a chunk before it is unpacked."""
        return input_byte_length // 8 * int(self.dtype.to_native_dtype().itemsize)


def array_of_values(address: str, array: T) -> T:
    """The same array with its values in float64 if it is one of Zarr whose numbers are packed, else as it is.

    Raises
    ------
    InputError
        An attribute says what this reader does not know.
    """
    if not isinstance(array, zarr.Array):
        return array
    try:
        packing = StandsFor.from_array(array)
    except InputError as error:
        raise InputError(f"{address}: {error}") from error
    if packing is None:
        return array
    metadata: ArrayMetadata = copy.copy(array.metadata)
    name = "dtype" if metadata.zarr_format == 2 else "data_type"
    step = Unpacked(packing, getattr(metadata, name), metadata.fill_value, address)
    object.__setattr__(metadata, name, Float64())  # as in `with_last_step`
    fill = np.asarray(0 if metadata.fill_value is None else metadata.fill_value, array.dtype)
    object.__setattr__(metadata, "fill_value", packing.unpacked(fill.reshape(1))[0])
    return cast("T", with_last_step(array, step, metadata))
