"""Arrays in .npy and .npz files, read in blocks of rows and never unpickled."""

from __future__ import annotations

import math
import re
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from distforest.errors import InputError
from distforest.sources.tables import readable

if TYPE_CHECKING:
    from collections.abc import Iterator

SPARSE = {"format", "shape", "data", "indices", "indptr", "row", "col", "coords", "offsets", "_is_array"}
"""What `scipy.sparse.save_npz` writes of one kind of matrix or another."""


@dataclass(frozen=True)
class StoredArray:
    """An array in a file, of which only the header was read; ``member`` is its name in an .npz file."""

    path: str
    member: str | None
    name: str
    shape: tuple[int, ...]
    in_row_order: bool
    dtype: np.dtype[Any]

    @classmethod
    def open(cls, path: str, member: str | None, name: str) -> StoredArray:
        """Read the header; refuse an array without a name or values, or not of numbers or strings."""
        with readable(path), _stream(path, member) as stream:
            shape, fortran, dtype = header_of(stream)
        if not re.fullmatch(r"(?!__|distforest$|zarr\.json$)\w[\w .-]*", name):
            raise InputError(f"{path}: a plain name was asked for the array, found {name!r}; give another `name`")
        if dtype.kind != "U" and (dtype.kind not in "biuf" or dtype.itemsize > 8):
            strings = "write strings by .astype(str)"
            cures = {"O": f"pickled objects are never read, {strings}", "S": strings}
            raise InputError(
                f"{path}: array {name!r}: numbers of at most 64 bits or strings were asked for, "
                f"found dtype {dtype}; {cures.get(dtype.kind, 'write it as real numbers, or leave it out')}"
            )
        if math.prod(shape) == 0 or (not shape and dtype.kind != "U"):
            raise InputError(f"{path}: array {name!r}: rows of values were asked for, found shape {shape}")
        return cls(path, member, name, tuple(shape), not fortran or len(shape) < 2, dtype)

    @property
    def is_text(self) -> bool:
        """Whether it is of strings."""
        return self.dtype.kind == "U"

    def blocks(self, block_bytes: int) -> Iterator[np.ndarray]:
        """Read the rows in blocks of about ``block_bytes``; in Fortran order there is but one block."""
        if not self.in_row_order:
            yield self.whole()
            return
        row_bytes = self.dtype.itemsize * math.prod(self.shape[1:])
        step = max(1, block_bytes // row_bytes)
        native = self.dtype.newbyteorder("=")
        with readable(self.path), _stream(self.path, self.member) as stream:
            header_of(stream)
            for first in range(0, self.shape[0], step):
                shape = (min(step, self.shape[0] - first), *self.shape[1:])
                raw = stream.read(shape[0] * row_bytes)
                yield np.frombuffer(raw, self.dtype).reshape(shape).astype(native, copy=False)

    def whole(self) -> np.ndarray:
        """Read the array into memory."""
        with readable(self.path), _stream(self.path, self.member) as stream:
            values: np.ndarray = np.lib.format.read_array(stream, allow_pickle=False)
        return values.astype(self.dtype.newbyteorder("="), copy=False)


def stored_arrays(path: str) -> list[StoredArray]:
    """Read the headers of all arrays of an .npz file.

    Raises
    ------
    InputError
        The file is damaged, or holds something that is not an array of numbers or strings.
    """
    with readable(path), zipfile.ZipFile(path) as archive:
        members = archive.namelist()
    if len(set(members)) < len(members) or not all(member.endswith(".npy") for member in members):
        raise InputError(f"{path}: different .npy members were asked for, found {members!r}")
    return [StoredArray.open(path, member, member.removesuffix(".npy")) for member in members]


def is_of_sparse_matrix(path: str) -> bool:
    """Whether an .npz file has the members that `scipy.sparse.save_npz` writes."""
    with readable(path), zipfile.ZipFile(path) as archive:
        names = {member.removesuffix(".npy") for member in archive.namelist()}
    return {"format", "shape", "data"} <= names and bool({"indptr", "row", "coords", "offsets"} & names)


def stored_sparse(path: str) -> Any:
    """Read the sparse matrix of a file of `scipy.sparse.save_npz`, which unpickles nothing.

    Raises
    ------
    InputError
        The file is damaged, or holds further arrays, which would be lost.
    """
    with readable(path):
        _hold_alone(path)
        try:
            return scipy.sparse.load_npz(path)
        except (KeyError, TypeError, AttributeError, IndexError) as error:  # of members that do not fit each other
            raise ValueError(str(error)) from error


def _hold_alone(path: str) -> None:
    """Refuse arrays beside those of a sparse matrix; raises InputError."""
    with zipfile.ZipFile(path) as archive:
        further = sorted({member.removesuffix(".npy") for member in archive.namelist()} - SPARSE)
    if further:
        raise InputError(
            f"{path}: a sparse matrix alone was asked for, found {', '.join(map(repr, further))} beside it; "
            "save them as a file of their own"
        )


@contextmanager
def _stream(path: str, member: str | None) -> Iterator[IO[bytes]]:
    """Open an .npy file or a member of an .npz file."""
    if member is None:
        with Path(path).open("rb") as stream:
            yield stream
    else:
        with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
            yield stream


def header_of(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read shape, Fortran order and dtype; ValueError for what is no .npy file."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    return np.lib.format.read_array_header_2_0(stream)
