"""Opening: the array or the sparse matrix at an address, whole or in part; data in memory stay as they are."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import numpy as np
import scipy

from distforest.sources.arrays import array_at, is_sparse_group, open_array, open_node
from distforest.sources.collections import computed
from distforest.sources.given import is_collection
from distforest.sources.packed import array_of_values
from distforest.sources.sparse_store import SparseStore
from distforest.sources.stored import warn_of_absent

if TYPE_CHECKING:
    from distforest.sources.guarded import ZarrArray


def address_of(values: object) -> str | None:
    """The address of what is given by it, or of a Zarr array on a disk of this host; None: it has none.

    Examples
    --------
    >>> address_of("moss.zarr/X"), address_of([1.0, 2.0])
    ('moss.zarr/X', None)
    """
    if isinstance(values, (str, os.PathLike)):
        return os.fspath(values)
    place = str(getattr(values, "store_path", ""))
    return place.removeprefix("file://") if place.startswith("file://") else None


def opened_array(values: object) -> object:
    """Open the Zarr array at an address, a path or URL; compute a Dask collection; anything else stays as it is.

    Warns of chunks that are not stored, also where the array on disk was opened by the caller; of packed numbers it has
    the values.
    """
    if is_collection(values):
        return computed(values)[0]
    if (address := address_of(values)) is not None:
        warn_of_absent([address], max_bytes=sys.maxsize)  # its size is checked where it is read
    if isinstance(values, (str, os.PathLike)):
        return open_array(os.fspath(values))
    return array_of_values(str(getattr(values, "store_path", "")), values)


def opened_rows(values: object) -> object:
    """Open the Zarr array at an address, or read the sparse matrix there; compute a Dask collection.

    Anything else stays as it is.

    Warns of chunks that are not stored.
    """
    if not isinstance(values, (str, os.PathLike)):
        return opened_array(values)
    address = os.fspath(values)
    warn_of_absent([address])
    matrix = open_matrix(address)
    return matrix.whole() if isinstance(matrix, SparseStore) else matrix


def open_matrix(address: str) -> ZarrArray | SparseStore:
    """Open the Zarr array, or the sparse matrix in Zarr, at an address.

    Raises
    ------
    InputError
        There is neither, or the metadata of the store contradict themselves.
    """
    node = open_node(address)
    return SparseStore.from_address(address, node.attrs) if is_sparse_group(node) else array_at(address, node)


def read_rows(address: str, rows: slice | np.ndarray) -> np.ndarray | scipy.sparse.csr_array:
    """Read some rows of the array or the sparse matrix at an address; sparse rows are a CSR array of SciPy."""
    return rows_in(open_matrix(address), rows)


def rows_in(matrix: ZarrArray | SparseStore, rows: slice | np.ndarray) -> np.ndarray | scipy.sparse.csr_array:
    """Read some rows of an array or a sparse matrix that `open_matrix` has opened, as `read_rows`."""
    if isinstance(matrix, SparseStore):
        return matrix.rows(rows)
    return np.asarray(matrix[rows] if isinstance(rows, slice) else matrix.oindex[rows])
