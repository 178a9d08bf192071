"""Arrays in .npy and .npz files, read in blocks of rows and never unpickled."""

from __future__ import annotations

import io
import os
import re
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import scipy

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.sources.arrays import bytes_of, rows_of
from distforest.sources.files.bounds import brief, check_unfolded, quoted
from distforest.sources.files.damage import readable

if TYPE_CHECKING:
    from collections.abc import Iterator

SPARSE_MEMBERS = {"format", "shape", "data", "indices", "indptr", "row", "col", "coords", "offsets", "_is_array"}
"""Names of the arrays that `scipy.sparse.save_npz` writes, for any kind of matrix."""

MAX_MEMBERS = 1000
"""The most arrays of an .npz file: each is opened three times, and becomes a folder of Zarr."""

MAX_DIRECTORY = 1 << 22
"""Bytes of the largest directory of an .npz file: zipfile parses all of it, into ten times its size, at once."""

MAX_HEADER = 10_000
"""Bytes of the longest header of an array. numpy has the same bound, but checks it after reading the header."""

MAX_SIZE = (1 << 63) - 1
"""The largest size of an array in any dimension."""

WRITTEN_SIZE = rb"(?:0|[1-9]\d{,17})"
"""A size that is at most `MAX_SIZE`, as numpy writes it."""

PLAIN_HEADER = re.compile(
    rb"\{'descr': '([<>|][a-zA-Z]\d{1,9})', 'fortran_order': (True|False), "
    rb"'shape': \((%b,|%b(?:, %b)+)\), \} *\n" % ((WRITTEN_SIZE,) * 3)
)
"""The header that numpy writes for rows of values whose dtype has a plain name."""

ZIP_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Compressions that numpy writes. zipfile unfolds others without a bound, whatever size they announce."""


@dataclass(frozen=True)
class StoredArray:
    """An array in a file, known by its header; ``member`` is its name in an .npz file."""

    path: str
    member: str | None
    name: str
    shape: tuple[int, ...]
    in_row_order: bool
    dtype: np.dtype[np.generic]

    @classmethod
    def open(cls, path: str, name: str) -> StoredArray:
        """Read the header of an .npy file; raises InputError as `of`."""
        with readable(path), Path(path).open("rb") as stream:
            return cls.of(_Head.of(path, name, stream, os.fstat(stream.fileno()).st_size), None)

    @classmethod
    def of(cls, head: _Head, member: str | None) -> StoredArray:
        """The array of a header; raises InputError unless it has a plain name and values, numbers or strings."""
        path, name, shape, dtype = head.path, head.name, head.shape, head.dtype
        if not re.fullmatch(r"(?!__|distforest$|zarr\.json$)\w[\w .-]*", name):
            expected = "a plain name was expected for the array"
            raise InputError(f"{path}: {expected}, found {quoted(name)}; give another `name`")
        if dtype.kind != "U" and (dtype.kind not in "biuf" or dtype.itemsize > 8):
            strings = "write strings by .astype(str)"
            cures = {"O": f"pickled objects are never read, {strings}", "S": strings}
            raise InputError(
                f"{head.place}: numbers of at most 64 bits or strings were expected, "
                f"found dtype {brief(str(dtype))}; {cures.get(dtype.kind, 'write it as real numbers, or leave it out')}"
            )
        if head.n_bytes == 0 or (not shape and dtype.kind != "U"):
            raise InputError(f"{head.place}: rows of values were expected, found {head.words}")
        head.check_whole()
        return cls(path, member, name, shape, not head.in_columns or len(shape) < 2, dtype)

    @property
    def is_text(self) -> bool:
        """Whether the values are strings."""
        return self.dtype.kind == "U"

    @property
    def n_bytes(self) -> int:
        """Size of the values."""
        return bytes_of(self.shape, self.dtype)

    def blocks(self, block_bytes: int) -> Iterator[np.ndarray]:
        """Blocks of rows of about ``block_bytes``; a member in Fortran order is unfolded as a whole first."""
        step = rows_of(block_bytes, self.shape, self.dtype)
        native = self.dtype.newbyteorder("=")
        for block in self._rows(step) if self.in_row_order else self._columns(step):
            yield block.astype(native, order="C", copy=False)

    def _rows(self, step: int) -> Iterator[np.ndarray]:
        """Blocks of an array in C order."""
        row_bytes = bytes_of(self.shape[1:], self.dtype)
        with readable(self.path), _stream(self.path, self.member) as stream:
            header_of(stream)
            for first in range(0, self.shape[0], step):
                shape = (min(step, self.shape[0] - first), *self.shape[1:])
                raw = stream.read(shape[0] * row_bytes)
                yield np.frombuffer(raw, self.dtype).reshape(shape)

    def _columns(self, step: int) -> Iterator[np.ndarray]:
        """Blocks of an array in Fortran order; a file is mapped, so that it is never in memory as a whole."""
        with readable(self.path), _stream(self.path, self.member) as stream:
            header_of(stream)
            values: np.ndarray
            if self.member is None:
                values = np.memmap(stream, self.dtype, "r", stream.tell(), self.shape, order="F")
            else:
                values = np.frombuffer(stream.read(self.n_bytes), self.dtype).reshape(self.shape, order="F")
            for first in range(0, self.shape[0], step):
                yield values[first : first + step]

    def whole(self) -> np.ndarray:
        """Read the array into memory."""
        with readable(self.path), _stream(self.path, self.member) as stream:
            values: np.ndarray = np.lib.format.read_array(stream, allow_pickle=False)
        return values.astype(self.dtype.newbyteorder("="), copy=False)


@dataclass(frozen=True)
class _Head:
    """The header of an array, and ``n_left``, the number of bytes that follow it."""

    path: str
    name: str
    shape: tuple[int, ...]
    in_columns: bool
    dtype: np.dtype[np.generic]
    n_left: int

    @classmethod
    def of(cls, path: str, name: str, stream: IO[bytes], size: int) -> _Head:
        """Read the header of a stream of ``size`` bytes; raises InputError if its shape is impossible."""
        shape, in_columns, dtype = header_of(stream)
        head = cls(path, name, shape, in_columns, dtype, size - stream.tell())
        if not all(type(length) is int and 0 <= length <= MAX_SIZE for length in shape):
            found = f"found shape {brief(str(shape))}"
            raise InputError(f"{head.place}: sizes from 0 to 2^63 - 1 were expected, {found}; write the array again")
        return head

    @property
    def place(self) -> str:
        """Where the array is, for messages."""
        return f"{self.path}: array {quoted(self.name)}"

    @property
    def words(self) -> str:
        """Shape and dtype, for messages."""
        return f"shape {brief(str(self.shape))} and dtype {brief(str(self.dtype))}"

    @property
    def n_bytes(self) -> int:
        """Size of the values."""
        return bytes_of(self.shape, self.dtype)

    def check_whole(self) -> None:
        """Refuse an array with missing bytes, or with more bytes behind it; raises InputError."""
        if self.n_left != self.n_bytes:
            cut_off, further = "it is cut off, write it again", "write each array into a file of its own, or an .npz"
            raise InputError(
                f"{self.place}: {counted(self.n_bytes, 'byte')} were expected, as {self.words} announce, "
                f"found {self.n_left:,}; {cut_off if self.n_left < self.n_bytes else further}"
            )


def _heads(path: str, archive: zipfile.ZipFile) -> list[_Head]:
    """The headers of all members of an .npz file."""
    found = []
    for info in archive.infolist():
        with archive.open(info) as stream:
            found.append(_Head.of(path, info.filename.removesuffix(".npy"), stream, info.file_size))
    return found


def stored_arrays(path: str) -> list[StoredArray]:
    """The arrays of an .npz file, by their headers.

    Raises
    ------
    InputError
        The file is damaged, or holds something that is not an array of numbers or strings.
    """
    with readable(path), zipfile.ZipFile(path) as archive:
        members = archive.namelist()
        if not all(member.endswith(".npy") for member in members):
            raise InputError(f"{path}: .npy members were expected, found {brief(str(members))}")
        return [StoredArray.of(head, f"{head.name}.npy") for head in _heads(path, archive)]


class _ArchiveFile(io.FileIO):
    """An .npz file from which only the directory is read."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read ``size`` bytes; raises InputError if they are more than a directory has."""
        if size is not None and size > MAX_DIRECTORY:
            expected = f"a directory of at most {MAX_DIRECTORY:,} bytes was expected, found {size:,}"
            raise InputError(f"{self.name}: {expected}; write fewer arrays into a file")
        return super().read(size) or b""


def check_archive(path: str, max_bytes: int | None) -> None:
    """Check the directory of an .npz file, before a member is opened.

    Raises
    ------
    InputError
        The file is damaged; it has too many members, one member twice, or a compression that numpy does not write; or
        the members unfold to more than ``max_bytes`` (see `check_unfolded`).
    """
    with readable(path), _ArchiveFile(path) as file, zipfile.ZipFile(file) as archive:
        members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        expected = f"at most {MAX_MEMBERS:,} arrays were expected, found {len(members):,}"
        raise InputError(f"{path}: {expected}; write them into several files, or stack those of one shape")
    seen = set()
    for member in members:
        if member.filename in seen:
            raise InputError(f"{path}: different members were expected, found {quoted(member.filename)} twice")
        if member.compress_type not in ZIP_PACKINGS:
            expected = "members that are stored or deflated were expected"
            found = f"found {quoted(member.filename)} of compression {member.compress_type}"
            raise InputError(f"{path}: {expected}, {found}; write the file by numpy.savez_compressed")
        seen.add(member.filename)
    check_unfolded(path, sum(member.file_size for member in members), max_bytes)


def is_of_sparse_matrix(path: str) -> bool:
    """Whether an .npz file has the members that `scipy.sparse.save_npz` writes."""
    with readable(path), zipfile.ZipFile(path) as archive:
        names = {member.removesuffix(".npy") for member in archive.namelist()}
    return {"format", "shape", "data"} <= names and bool({"indptr", "row", "coords", "offsets"} & names)


def stored_sparse(path: str, max_bytes: int | None) -> object:
    """Read the sparse matrix of a file of `scipy.sparse.save_npz`; nothing is unpickled.

    Raises
    ------
    InputError
        The file is damaged; it holds further arrays, which would be lost; or it announces so many rows that ``indptr``
        takes more than ``max_bytes`` (see `check_unfolded`).
    """
    with readable(path):
        _check_alone(path)
        with zipfile.ZipFile(path) as archive:
            for head in _heads(path, archive):
                if not head.dtype.hasobject:  # else SciPy refuses the pickle
                    head.check_whole()
        try:
            matrix = scipy.sparse.load_npz(path)
        except (KeyError, TypeError, AttributeError, IndexError) as error:  # the members do not fit each other
            raise ValueError(str(error)) from error
    check_unfolded(path, 8 * matrix.shape[0], max_bytes)
    return matrix


def _check_alone(path: str) -> None:
    """Refuse arrays beside those of a sparse matrix; raises InputError."""
    with zipfile.ZipFile(path) as archive:
        further = sorted({member.removesuffix(".npy") for member in archive.namelist()} - SPARSE_MEMBERS)
    if further:
        raise InputError(
            f"{path}: a sparse matrix alone was expected, found {brief(', '.join(map(quoted, further)))} beside it; "
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


def header_of(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Read shape, Fortran order and dtype; raises ValueError if the stream is no .npy file.

    numpy parses a header with `ast.literal_eval`, which before Python 3.11.9 and 3.12.3 fails now and then while
    another thread parses, too (python/cpython#106905). Then a sound shard would be taken for a damaged one, so plain
    headers are read here.
    """
    version = np.lib.format.read_magic(stream)
    if version not in {(1, 0), (2, 0), (3, 0)}:
        raise ValueError(f"the format of an .npy file is 1.0, 2.0 or 3.0, not {version[0]}.{version[1]}")
    length = stream.read(2 if version == (1, 0) else 4)
    if int.from_bytes(length, "little") > MAX_HEADER:
        raise ValueError(f"the header of an .npy file has at most {MAX_HEADER:,} bytes")
    text = stream.read(int.from_bytes(length, "little"))
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        if plain := PLAIN_HEADER.fullmatch(text):
            dtype, in_columns, shape = plain.groups()
            return tuple(map(int, re.findall(rb"\d+", shape))), in_columns == b"True", np.dtype(dtype.decode())
        return read(io.BytesIO(length + text))
    except Exception as error:  # numpy lets through whatever Python's parsers raise
        raise ValueError(f"its header is none of an .npy file: {brief(str(error))}") from error
