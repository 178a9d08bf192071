"""Sparse matrices in Zarr: a group of three arrays, which is checked when it is read.

It is similarities, of which an absent one is unobserved, or features, of which an absent one is 0: where the group is
named decides it. The three arrays are in row order (CSR). A group as AnnData writes it may also be in column order
(CSC), and in any order within a row or column.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import scipy

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.sources.arrays import CHUNK_BYTES, ENCODING, SPARSE, open_array, write_array
from distforest.sources.readings import DISSIMILARITIES, SIMILARITIES, check_shape
from distforest.sources.source import runs
from distforest.sources.sparse import MOST_NUMBERED, SparseSource, checked_csr, read_sparse, with_own_distances
from distforest.sources.sparse_features import SparseFeatures, read_sparse_features
from distforest.stores.groups import check_target, destination, seal_group

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distforest.sources.guarded import ZarrArray
    from distforest.sources.source import Ints

    Arrays = dict[str, np.ndarray]

PARTS = ("indptr", "indices", "data")
"""The arrays of a store: where each row's entries begin; the column of each entry; its value."""

VERSION = 1
"""Version of the stored form. It increases when an older reader would misread a newer store."""

LINES = {"csr_matrix": "row", "csc_matrix": "column"}
"""What a group of AnnData divides by ``indptr``, by its encoding."""

STORE_DAMAGED = "the store is damaged; write it again"


# --- writing ----------------------------------------------------------------------------------------------


def write_sparse(target: str, values: object, *, overwrite: bool = False, chunk_bytes: int = CHUNK_BYTES) -> None:
    """Write a sparse matrix as a Zarr group, which a job spec may name as its similarities or features.

    Parameters
    ----------
    target
        Path or fsspec URL of the new group. A local group appears only when it is complete; at a URL, the group gets
        its attributes only then.
    values
        Sparse matrix or array of SciPy, in any format; duplicates are summed, as SciPy does. As similarities its stored
        entries were observed, including stored zeros; as features all others are 0.
    overwrite
        Whether to replace a Zarr group at ``target``.
    chunk_bytes
        Decoded size of a chunk, roughly.

    Raises
    ------
    InputError
        The matrix is empty, not numeric or inconsistent; or the target exists already.

    Examples
    --------
    >>> import tempfile
    >>> from distforest.sources.opening import open_matrix
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_sparse(f"{folder}/S.zarr", scipy.sparse.coo_array(([2.0, 0.0], ([0, 1], [1, 1])), (2, 2)))
    ...     store = open_matrix(f"{folder}/S.zarr")
    ...     store.shape, store.n_stored, store.rows(slice(1, 2)).indices.tolist()
    ((2, 2), 2, [1])
    """
    arrays, attributes = csr_arrays(values)
    check_target(target, overwrite)
    with destination(target, overwrite) as group:
        for name, part in arrays.items():
            write_array(group, name, part.shape, part.dtype, [part], chunk_bytes=chunk_bytes)
        seal_group(group, {**attributes, "distforest": {"type": "arrays", "version": 1, "arrays": list(arrays)}})


def csr_arrays(values: scipy.sparse.sparray | scipy.sparse.spmatrix) -> tuple[Arrays, dict[str, object]]:
    """The arrays of a store, by name, and the attributes of its group; raises InputError as `write_sparse`."""
    check_shape(values, SIMILARITIES)
    check_numbers("a sparse matrix", values.dtype)
    matrix = checked_csr(values, "a sparse matrix")
    arrays = {"indptr": matrix.indptr.astype(np.int64), "indices": matrix.indices.astype(np.int32), "data": matrix.data}
    return arrays, {SPARSE: {"format": "csr", "version": VERSION, "shape": list(map(int, matrix.shape))}}


def check_numbers(name: str, dtype: np.dtype[np.generic]) -> None:
    """Refuse values other than integers, booleans, and floats of 32 or 64 bits; raises InputError."""
    if dtype.kind not in "biuf" or dtype.itemsize > 8 or dtype == np.float16:
        raise InputError(f"{name}: integers, or floats of 32 or 64 bits, were expected, found dtype {dtype}")


# --- reading ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SparseStore:
    """A store whose metadata have been checked; its values are checked when they are read.

    Attributes
    ----------
    address
        Path or URL of the group.
    shape
        Rows and columns.
    parts
        The Zarr arrays, by name.
    line
        ``"row"`` (CSR) or ``"column"`` (CSC): what ``indptr`` divides.
    in_order
        Whether the numbers within each line must ascend; otherwise they are sorted, and duplicates are summed.
    attrs
        The attribute `ENCODING` of a group of AnnData, whose columns have names; empty for others, which have none.
    """

    address: str
    shape: tuple[int, int]
    parts: dict[str, ZarrArray]
    line: str = "row"
    in_order: bool = True
    attrs: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def from_address(cls, address: str, attributes: Mapping[str, object]) -> SparseStore:
        """Open the store at an address, whose group has these attributes; raises InputError if it is no store."""
        line = LINES.get(str(attributes.get(ENCODING))) if SPARSE not in attributes else None
        shape = _shape_of(address, attributes) if line is None else _shape_in(address, attributes.get("shape"))
        parts = {name: open_array(f"{address.rstrip('/')}/{name}") for name in PARTS}
        store = cls(
            address,
            shape,
            parts,
            line or "row",
            in_order=line is None,
            attrs={} if line is None else {ENCODING: attributes[ENCODING]},
        )
        store._check_metadata()
        return store

    @property
    def n_lines(self) -> int:
        """Number of rows (CSR) or columns (CSC)."""
        return self.shape[0 if self.line == "row" else 1]

    @property
    def length(self) -> int:
        """Length of a line."""
        return self.shape[1 if self.line == "row" else 0]

    def _check_metadata(self) -> None:
        for name, part in self.parts.items():
            if len(part.shape) != 1 or (name != "data" and part.dtype.kind not in "iu"):
                found = f"found {part.dtype} of shape {tuple(part.shape)}"
                raise InputError(f"{self.address}: a vector was expected as {name}, {found}; {STORE_DAMAGED}")
        check_numbers(f"{self.address}: data", self.dtype)
        for name, n in {"indptr": self.n_lines + 1, "indices": self.n_stored}.items():
            if self.parts[name].shape[0] != n:
                found = f"found {self.parts[name].shape[0]}; {STORE_DAMAGED}"
                raise InputError(f"{self.address}: {counted(n, 'number')} were expected in {name}, {found}")

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Dtype of the stored values."""
        return np.dtype(self.parts["data"].dtype)

    @property
    def n_stored(self) -> int:
        """Number of stored entries."""
        return int(self.parts["data"].shape[0])

    def rows(self, rows: slice | np.ndarray) -> scipy.sparse.csr_array:
        """Read and check some rows, as a CSR array of SciPy; of a matrix in column order, all columns are read.

        Parameters
        ----------
        rows
            A slice of step 1, or row numbers.

        Raises
        ------
        InputError
            The stored arrays contradict each other; the message names the row or column.
        """
        if self.line == "row":
            return scipy.sparse.csr_array(self._lines(rows), shape=(len(np.arange(self.shape[0])[rows]), self.shape[1]))
        return scipy.sparse.csr_array(scipy.sparse.csc_array(self._lines(slice(None)), shape=self.shape))[rows]

    def _lines(self, lines: slice | np.ndarray) -> tuple[np.ndarray, np.ndarray, Ints]:
        """The values of some lines, their numbers in the line, and where each line begins."""
        starts = self._read("indptr", slice(None)).astype(np.int64)
        falls = np.flatnonzero(starts[1:] < starts[:-1])
        if starts[0] != 0 or starts[-1] != self.n_stored or len(falls):
            found = (
                f"found {starts[0]} to {starts[-1]}{f', and a fall at {self.line} {falls[0]}' if len(falls) else ''}"
            )
            expected = f"indptr that rises from 0 to {self.n_stored}, the number of entries,"
            raise InputError(f"{self.address}: {expected} was expected, {found}; {STORE_DAMAGED}")
        numbers = np.arange(self.n_lines)[lines]
        places: slice | Ints
        if isinstance(lines, slice):
            first, last = (int(numbers[0]), int(numbers[-1]) + 1) if len(numbers) else (0, 0)
            begin, places = starts[first : last + 1] - starts[first], slice(int(starts[first]), int(starts[last]))
        else:
            begin, places = runs(starts, numbers)
        columns, data = self._read("indices", places), self._read("data", places)
        is_wrong = (columns < 0) | (columns >= self.length)
        if self.in_order:
            is_first = np.zeros(len(columns), np.bool_)
            is_first[begin[:-1][np.diff(begin) > 0]] = True
            is_wrong[1:] |= (columns[1:] <= columns[:-1]) & ~is_first[1:]
        if is_wrong.any():
            entry = int(np.argmax(is_wrong))
            found = f"found {columns[entry]} in {self.line} {numbers[np.searchsorted(begin, entry, side='right') - 1]}"
            order = " that ascend, each stored once," if self.in_order else ""
            expected = f"numbers from 0 to {self.length - 1}{order} were expected in each {self.line}"
            raise InputError(f"{self.address}: {expected}, {found}; {STORE_DAMAGED}")
        return data.astype(self.dtype.newbyteorder("="), copy=False), columns.astype(np.int32, copy=False), begin

    def features(self) -> SparseFeatures:
        """Read the whole matrix as features.

        The same values are refused as in a dense matrix, with an InputError.
        """
        try:
            return read_sparse_features(self.whole())
        except InputError as error:
            raise InputError(f"{self.address}: {error}") from error

    def whole(self) -> scipy.sparse.csr_array:
        """Read and check the whole matrix, as a CSR array of SciPy, and compare it with the digests in the store."""
        return self.rows(slice(None))

    def read(self, measure: str) -> SparseSource:
        """Read the whole matrix as a source of similarities or, by ``measure``, of distances.

        The distance of an object to itself is 0 if it is not stored. The same values are refused as in a dense matrix,
        with an InputError.
        """
        matrix = self.whole()
        try:
            if measure == "distance":
                return read_sparse(with_own_distances(matrix), DISSIMILARITIES)
            return read_sparse(matrix, SIMILARITIES)
        except InputError as error:
            raise InputError(f"{self.address}: {error}") from error

    def _read(self, name: str, places: slice | Ints) -> np.ndarray:
        """Read some values of a part; if all are read, compare them with their digest."""
        part = self.parts[name]
        try:
            if not isinstance(places, slice):
                return np.asarray(part.oindex[places]) if len(places) else np.empty(0, part.dtype)
            values = np.asarray(part[places])
        except (ValueError, RuntimeError) as error:  # a chunk cannot be decoded
            raise InputError(f"{self.address}: {name} cannot be read ({error}); {STORE_DAMAGED}") from error
        written = part.attrs.get("distforest")
        digest = written.get("sha256") if isinstance(written, dict) else None
        is_whole = len(values) == part.shape[0]
        if digest and is_whole and hashlib.sha256(np.ascontiguousarray(values).data).hexdigest() != digest:
            raise InputError(f"{self.address}: found other values in {name} than were written; {STORE_DAMAGED}")
        return values


def _shape_of(address: str, attributes: Mapping[str, object]) -> tuple[int, int]:
    """The shape in the attribute of our own group; raises InputError if it is not the attribute of a store."""
    attribute = attributes.get(SPARSE)
    if not isinstance(attribute, dict):
        expected = f"{address}: a sparse matrix with its attribute {SPARSE!r}, or {ENCODING!r}, was expected"
        raise InputError(
            f"{expected}, found a group without; it is unfinished, or was not made by ingest, write_sparse or AnnData"
        )
    if attribute.get("format") != "csr" or attribute.get("version") != VERSION:
        expected = f"{address}: a sparse matrix of format 'csr', version {VERSION}, was expected"
        raise InputError(f"{expected}, found {attribute.get('format')!r}, version {attribute.get('version')!r}")
    return _shape_in(address, attribute.get("shape"))


def _shape_in(address: str, shape: object) -> tuple[int, int]:
    """A shape as an attribute says it; raises InputError if it is none of a matrix."""
    if not isinstance(shape, list) or len(shape) != 2 or not all(type(n) is int and n > 0 for n in shape):
        raise InputError(f"{address}: a shape of two positive integers was expected, found {shape!r}; {STORE_DAMAGED}")
    if max(shape) > MOST_NUMBERED:
        raise InputError(f"{address}: at most {MOST_NUMBERED} rows and columns were expected, found {shape}")
    return shape[0], shape[1]
