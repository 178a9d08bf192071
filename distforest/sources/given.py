"""Input objects: which kind an object that a caller hands in is, and how it becomes an array.

A masked value was not observed, so it becomes NaN, which each reading allows or refuses.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol, TypeGuard, TypeVar

import numpy as np
import scipy

from distforest.amounts import are
from distforest.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import EllipsisType


T = TypeVar("T")


class Shaped(Protocol):
    """A matrix or array of any kind, before it is read."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each dimension."""


class ChunkedArray(Shaped, Protocol):
    """An array on disk that is read block by block: a Zarr array, or one like it."""

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the values."""

    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of a chunk; each chunk is decoded whole."""

    def __getitem__(self, rows: slice | EllipsisType, /) -> object:
        """Read a slice of the rows, or all of them."""


class DataFrame(Shaped, Protocol):
    """A table of named columns, of any library."""

    @property
    def columns(self) -> Iterable[object]:
        """The names of the columns, or the columns themselves in an Arrow table."""


def is_stored(values: object) -> TypeGuard[ChunkedArray]:
    """Whether ``values`` is an array on disk that is read block by block: a Zarr array, or one like it."""
    return hasattr(values, "chunks") and hasattr(values, "dtype")


def is_sparse(values: object) -> bool:
    """Whether ``values`` is a sparse matrix or array of SciPy, in any format."""
    has_any = "scipy.sparse" in sys.modules  # a third of a second that a process without sparse data does without
    return has_any and bool(scipy.sparse.issparse(values))


def is_collection(values: object) -> bool:
    """Whether ``values`` is a Dask array, a Dask data frame, or another collection of Dask."""
    return callable(getattr(values, "__dask_graph__", None)) and hasattr(values, "compute")


def is_data_frame(values: object) -> TypeGuard[DataFrame]:
    """Whether ``values`` is a table of named columns."""
    shape = getattr(values, "shape", None)  # of a Delayed of Dask another Delayed, as any attribute
    return hasattr(values, "columns") and isinstance(shape, tuple) and len(shape) == 2


def is_of_pandas(values: object) -> bool:
    """Whether an object is one of pandas."""
    return type(values).__module__.partition(".")[0] == "pandas"


def check_dense(given: object) -> None:
    """Refuse sparse data and the graph objects of other libraries; raises InputError."""
    if hasattr(given, "toarray"):
        raise InputError(f"a dense matrix is required, found sparse data ({given!r}); use its .toarray()")
    if hasattr(given, "nodes") and hasattr(given, "edges"):
        kind = f"{type(given).__module__.partition('.')[0]} {type(given).__name__}"
        cure = "name its nodes in the order of the rows: Graph.of_networkx(graph, nodes)"
        raise InputError(f"a dense adjacency matrix is required, found a graph object ({kind}); {cure}")


def in_memory(values: object) -> np.ndarray:
    """Read a whole array from disk, or convert an array-like; masked values become NaN."""
    return np.asarray(unmasked(values[...] if is_stored(values) else values))


def unmasked(values: T) -> T | np.ndarray:
    """Replace masked values by NaN, or by None in an array of objects; anything but a masked array stays as it is.

    Parameters
    ----------
    values
        Any object; a list of masked arrays is read as one masked array.

    Raises
    ------
    InputError
        An array of strings or dates has masked values, for which its dtype has no NaN.

    Examples
    --------
    >>> unmasked(np.ma.masked_equal([3, -9, 5], -9))
    array([ 3., nan,  5.])
    """
    array: object = values
    if isinstance(values, (list, tuple)) and any(isinstance(one, np.ma.MaskedArray) for one in values):
        array = np.ma.array(values)
    if not isinstance(array, np.ma.MaskedArray):
        return values
    mask = np.ma.getmaskarray(array)
    n_masked = int(mask.sum())
    if not n_masked:
        return np.ma.getdata(array)
    if array.dtype.kind == "O":
        return np.where(mask, np.array(None), np.ma.getdata(array))
    if array.dtype.kind not in "fcbiu":
        found = f"found {n_masked:,} that {are(n_masked)} masked in an array of {array.dtype}"
        raise InputError(f"observed values were expected, {found}, which has no missing value; leave their rows out")
    return np.where(mask, np.float32(np.nan), np.ma.getdata(array))
