"""Staging: every input is written once per host, as a memory map whose name is the digest of its content.

Random access to a Zarr array decodes each chunk that it touches; a memory map decodes nothing, and all workers of a
host share it. A staged file gets its name only when it is complete, and is read only if its content has the digest in
its name.
"""

from __future__ import annotations

import fcntl
import logging
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import InputError
from distforest.sources.array_files import Mapped, array_digest, npy_header, open_sound, untouched, written_rows
from distforest.sources.arrays import bytes_of, open_array
from distforest.sources.files.ids import is_text_as_bytes, names_of_rows, refuse_text_as_bytes
from distforest.sources.guarded import DamagedChunkError
from distforest.sources.readings import Reading, check_shape, checked_blocks, read_level
from distforest.sources.rechunked_rows import rechunked_rows
from distforest.sources.scratch import NEW_ROOM, lock_of
from distforest.sources.stored import OF_ANY_LENGTH, Digested
from distforest.stores.room import explaining_full_disk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from distforest.sources.arrays import Matrix
    from distforest.sources.scratch import ScratchFolder


@dataclass(frozen=True)
class Staged:
    """An input that can be opened on any host: the address that it is read from, and the digest of its content.

    Attributes
    ----------
    address
        Path or URL of the Zarr array.
    reading
        How it is read, with the offset that was subtracted from distances.
    sha256, shape, dtype
        Digest, shape and dtype of the staged array.
    """

    address: str
    reading: Reading
    sha256: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def n_bytes(self) -> int:
        """Size of the staged array."""
        return bytes_of(self.shape, np.dtype(self.dtype))

    def open(self, scratch: ScratchFolder, files: list[Mapped] | None = None) -> np.ndarray:
        """Open the staged array, read-only; stage it on this host first if it is missing or damaged.

        Parameters
        ----------
        scratch
            The folder for staged files.
        files
            If the file is mapped, it is added to this list, for `untouched`.

        Raises
        ------
        InputError
            The input has changed since the job was planned, or this host cannot reach it.
        JobError
            There is no room for it.
        """
        files = [] if files is None else files
        array = self._open_sound(scratch, files)
        if array is None:
            with _locked(scratch.staged(self.sha256)):
                array = self._open_sound(scratch, files)
                if array is None:
                    array = self._stage_again(scratch, files)
        with suppress(OSError):  # the folder is full, or belongs to another user
            # The staged file's own times show whether it was written to.
            lock_of(scratch.staged(self.sha256)).touch(0o600)
        return array

    @contextmanager
    def watched(self, scratch: ScratchFolder) -> Iterator[np.ndarray]:
        """Open the staged array for a block during which nobody may write to its file; see `untouched`."""
        files: list[Mapped] = []
        array = self.open(scratch, files)
        with untouched(files):
            yield array

    def _open_sound(self, scratch: ScratchFolder, files: list[Mapped]) -> np.ndarray | None:
        return open_sound(scratch.staged(self.sha256), self.sha256, self.shape, np.dtype(self.dtype), files)

    def _stage_again(self, scratch: ScratchFolder, files: list[Mapped]) -> np.ndarray:
        path = scratch.staged(self.sha256)
        if path.exists():
            logging.getLogger("distforest").warning("%s is damaged, %s is staged again", path, self.address)
        if stage(self.address, self.reading, scratch).sha256 != self.sha256:
            raise InputError(f"{self.address} has changed since the job was planned; start it again")
        array = self._open_sound(scratch, files)
        if array is None:
            raise OSError(f"{path} was damaged or removed as soon as it was written")
        return array


def stage(address: str, reading: Reading, scratch: ScratchFolder) -> Staged:
    """Stage a Zarr array.

    Parameters
    ----------
    address
        Path or URL of a Zarr array, shape (n_rows, n_columns).
    reading
        The kind of matrix: which values are refused and how the others are converted.
    scratch
        Folder for staged files, local to the host, with their limit.

    Raises
    ------
    InputError
        The array cannot be opened, holds values that the reading refuses, or has changed since distforest wrote it; no
        file is left behind.
    JobError
        There is no room for it, on the disk or within the limit; no file is left behind.
    """
    array, why = open_array(address), f"to stage {address}"
    is_of_texts = array.dtype.kind in OF_ANY_LENGTH or is_text_as_bytes(array)
    objects = read_objects(address) if reading.keep and is_of_texts else None
    if not reading.keep:
        refuse_text_as_bytes(address, array)
    try:
        check_shape(array, reading)
        with rechunked_rows(array, scratch, why) as rows:
            stored = Digested(rows)
            values: Matrix = stored if objects is None else objects
            shape, dtype = tuple(values.shape), reading.dtype(values.dtype)
            with scratch.new_file(npy_header(shape, dtype), bytes_of(shape, dtype), why) as path:
                if reading.symmetric:
                    digest, reading = _filled(path, values, reading)
                else:
                    blocks = (block for _, block in checked_blocks(values, reading))
                    digest = written_rows(path, blocks, shape, dtype)
                if objects is None:
                    stored.check_digest()
                if open_sound(scratch.staged(digest), digest, shape, dtype, []) is None:
                    os.replace(path, scratch.staged(digest))  # other processes may be reading a sound one
    except DamagedChunkError:  # its message names the file
        raise
    except InputError as error:
        raise InputError(f"{address}: {error}") from error
    return Staged(address, reading, digest, shape, dtype.str if dtype.kind in "SU" else dtype.name)


def read_objects(address: str) -> np.ndarray:
    """Read a whole Zarr array; strings of any length become strings of fixed width, which a memory map can hold.

    So do the bytes of text that `distforest.sources.files.ingest.ingest` writes.

    Raises
    ------
    InputError
        A value is neither a number nor a string, or a string ends in NUL, which a fixed width would drop; or bytes of
        text are not those that were written.
    """
    array = open_array(address)
    if is_text_as_bytes(array):
        stored = Digested(array)
        texts = names_of_rows(stored[0 : array.shape[0]], dict(array.attrs))
        stored.check_digest()
        return np.array(texts, np.str_)
    values = np.asarray(array[...])
    if values.dtype.kind not in OF_ANY_LENGTH:
        return values
    other = next((one for one in values.flat if not isinstance(one, str) or one.endswith("\0")), None)
    if other is not None:
        raise InputError(f"{address}: objects must be numbers, or strings that do not end in NUL; found {other!r}")
    return np.array(values.tolist(), np.str_)


def _filled(path: Path, values: Matrix, reading: Reading) -> tuple[str, Reading]:
    """Fill a file by `read_level`, on the whole matrix; returns the digest, and the reading with its offset."""
    out = np.lib.format.open_memmap(path, mode="r+")
    _, reading = read_level(values, reading, out)
    out.flush()  # everything is on the disk before the file gets its name
    return array_digest(out), reading


@contextmanager
def _locked(staged: Path) -> Iterator[None]:
    """Stage a file in one process of the host at a time; the lock ends with its process, however that ends."""
    with explaining_full_disk(staged.parent, 0, NEW_ROOM):
        staged.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = lock_of(staged).open("w")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
