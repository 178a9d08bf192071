"""Opening: the array or the sparse matrix at an address, whole or in part; what is in memory stays."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse

from distforest.sources.arrays import array_at, is_sparse_group, open_array, open_node
from distforest.sources.sparse_store import SparseStore
from distforest.sources.stored import warn_of_absent

if TYPE_CHECKING:
    from distforest.sources.guarded import ZarrArray


def opened_array(values: object) -> object:
    """Open the Zarr array at an address, a path or URL; anything else stays as it is. Tells of chunks not stored."""
    address = os.fspath(values) if isinstance(values, (str, os.PathLike)) else None
    place = str(getattr(values, "store_path", "")) if address is None else address
    if address is not None or place.startswith("file://"):
        warn_of_absent([place.removeprefix("file://")], max_bytes=sys.maxsize)  # what it is read into tells its room
    return values if address is None else open_array(address)


def opened_rows(values: object) -> object:
    """Open the Zarr array at an address, or read the sparse matrix there; anything else stays as it is."""
    if not isinstance(values, (str, os.PathLike)):
        return opened_array(values)
    address = os.fspath(values)
    warn_of_absent([address])
    found = open_matrix(address)
    return found.whole() if isinstance(found, SparseStore) else found


def open_matrix(address: str) -> ZarrArray | SparseStore:
    """Open what is at an address: a Zarr array, or a sparse matrix in Zarr.

    Raises
    ------
    InputError
        There is neither, or the metadata of the store contradict themselves.
    """
    node = open_node(address)
    return SparseStore.of(address, node.attrs) if is_sparse_group(node) else array_at(address, node)


def read_rows(address: str, rows: slice | np.ndarray) -> np.ndarray | scipy.sparse.csr_array:
    """Some rows of the array or sparse matrix at an address, the latter as SciPy's."""
    found = open_matrix(address)
    if isinstance(found, SparseStore):
        return found.rows(rows)
    return np.asarray(found[rows] if isinstance(rows, slice) else found.oindex[rows])
