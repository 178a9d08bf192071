"""Staging: every input is written once per host, as a memory map whose name is the digest of its content.

Random access to a Zarr array decodes each chunk that it touches; a memory map decodes nothing, and all workers of a
host share it. A staged file gets its name only when it is complete, and is read only if its content has the digest in
its name.
"""

from __future__ import annotations

import fcntl
import logging
import os
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import InputError
from distforest.sources.array_files import Mapped, array_digest, npy_header, open_sound, untouched
from distforest.sources.arrays import bytes_of, open_array
from distforest.sources.guarded import DamagedChunkError
from distforest.sources.laid_rows import laid_rows
from distforest.sources.readings import Reading, check_shape, read_level
from distforest.sources.stored import OF_ANY_LENGTH, Digested
from distforest.stores.room import partial_file, told_if_full

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.sources.arrays import Matrix
    from distforest.sources.readings import Onlooker

KEPT_SECONDS = 7 * 86400
"""A staged file that nobody has opened for this long is removed when the next one is staged."""

PARTIAL_SECONDS = 60
"""An incomplete file that no process is writing is removed after this long, also when the next one is staged."""

NEW_ROOM = "make room there, or name another folder (`run.scratch`, or DISTFOREST_SCRATCH)"
"""The remedy where there is no room for staged files."""


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

    def open(self, scratch: Path, files: list[Mapped] | None = None) -> np.ndarray:
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
            with _locked(scratch, self.sha256):
                array = self._open_sound(scratch, files)
                if array is None:
                    array = self._stage_again(scratch, files)
        with suppress(OSError):  # the folder is full, or belongs to another user
            _lock(scratch, self.sha256).touch(0o600)  # the staged file's own times show whether it was written to
        return array

    @contextmanager
    def watched(self, scratch: Path) -> Iterator[np.ndarray]:
        """Open the staged array for a block during which nobody may write to its file; see `untouched`."""
        files: list[Mapped] = []
        array = self.open(scratch, files)
        with untouched(files):
            yield array

    def _open_sound(self, scratch: Path, files: list[Mapped]) -> np.ndarray | None:
        return open_sound(_path(scratch, self.sha256), self.sha256, self.shape, np.dtype(self.dtype), files)

    def _stage_again(self, scratch: Path, files: list[Mapped]) -> np.ndarray:
        path = _path(scratch, self.sha256)
        if path.exists():
            logging.getLogger("distforest").warning("%s is damaged, %s is staged again", path, self.address)
        if stage(self.address, self.reading, scratch).sha256 != self.sha256:
            raise InputError(f"{self.address} has changed since the job was planned; start it again")
        array = self._open_sound(scratch, files)
        if array is None:
            raise OSError(f"{path} was damaged or removed as soon as it was written")
        return array


def default_scratch() -> Path:
    """The folder for staged files: ``$DISTFOREST_SCRATCH``, or this user's folder in the temporary folder.

    Raises
    ------
    InputError
        Another user owns the folder in the temporary folder, and could change staged files.
    """
    named = os.environ.get("DISTFOREST_SCRATCH")
    if named:
        return Path(named)
    folder = Path(tempfile.gettempdir()) / f"distforest-{os.getuid()}"
    if folder.exists() and folder.stat().st_uid != os.getuid():
        raise InputError(f"{folder} belongs to another user; name a folder of your own in DISTFOREST_SCRATCH")
    return folder


def scratch_of(given: str | None) -> Path:
    """The folder for staged files that a job names, or `default_scratch`."""
    return Path(given) if given else default_scratch()


def check_scratch(scratch: Path) -> None:
    """Make the folder for staged files, and check that it is writable.

    Raises
    ------
    InputError
        It cannot be made or is not writable.
    """
    try:
        scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
    except (PermissionError, FileNotFoundError, FileExistsError, NotADirectoryError) as error:
        raise InputError(f"{_SCRATCH}, found {scratch}: {error.strerror}; name another") from error
    if not os.access(scratch, os.W_OK | os.X_OK):
        raise InputError(f"{_SCRATCH}, found {scratch}: it is not writable; name another")


_SCRATCH = "a folder for staged files was expected (`run.scratch`, or DISTFOREST_SCRATCH)"


def stage(address: str, reading: Reading, scratch: Path, onlooker: Onlooker | None = None) -> Staged:
    """Stage a Zarr array.

    Parameters
    ----------
    address
        Path or URL of a Zarr array, shape (n_rows, n_columns).
    reading
        The kind of matrix: which values are refused and how the others are converted.
    scratch
        Folder for staged files, local to the host.
    onlooker
        Sees all blocks as they are read.

    Raises
    ------
    InputError
        The array cannot be opened, holds values that the reading refuses, or has changed since distforest wrote it; no
        file is left behind.
    JobError
        There is no room for it; no file is left behind.
    """
    array, cure = open_array(address), f"to stage {address}, {NEW_ROOM}"
    objects = read_objects(address) if reading.keep and array.dtype.kind in OF_ANY_LENGTH else None
    try:
        check_shape(array, reading)
        _remove_old(scratch)
        with laid_rows(array, scratch, cure) as rows:
            stored = Digested(rows)
            values: Matrix = stored if objects is None else objects
            shape, dtype = tuple(values.shape), reading.dtype(values.dtype)
            with partial_file(scratch, npy_header(shape, dtype), bytes_of(shape, dtype), cure) as path:
                out = np.lib.format.open_memmap(path, mode="r+")
                _, reading = read_level(values, reading, out, onlooker)
                stored.check_digest()
                digest = _name_file(path, out, scratch)
    except DamagedChunkError:  # its message names the file
        raise
    except InputError as error:
        raise InputError(f"{address}: {error}") from error
    return Staged(address, reading, digest, shape, dtype.str if dtype.kind in "SU" else dtype.name)


def read_objects(address: str) -> np.ndarray:
    """Read a whole Zarr array; strings of any length become strings of fixed width, which a memory map can hold.

    Raises
    ------
    InputError
        A value is neither a number nor a string, or a string ends in NUL, which a fixed width would drop.
    """
    values = np.asarray(open_array(address)[...])
    if values.dtype.kind not in OF_ANY_LENGTH:
        return values
    other = next((one for one in values.flat if not isinstance(one, str) or one.endswith("\0")), None)
    if other is not None:
        raise InputError(f"{address}: objects must be numbers, or strings that do not end in NUL; found {other!r}")
    return np.array(values.tolist(), np.str_)


def _path(scratch: Path, sha256: str) -> Path:
    return scratch / f"{sha256}.npy"


def _lock(scratch: Path, sha256: str) -> Path:
    """The file that a process locks to stage; its time is when the staged file was last opened."""
    return scratch / f"{sha256}.lock"


def _name_file(path: Path, out: np.ndarray, scratch: Path) -> str:
    """Name a filled file by its digest, unless there is a sound file of that name; return the digest."""
    out.flush()  # type: ignore[attr-defined]  # everything is on the disk before the file gets its name
    digest = array_digest(out)
    target = _path(scratch, digest)
    if open_sound(target, digest, out.shape, out.dtype, []) is None:  # other processes may be reading a sound one
        os.replace(path, target)
    return digest


@contextmanager
def _locked(scratch: Path, name: str) -> Iterator[None]:
    """Run a block in one process of the host at a time; the lock ends with its process, however that ends."""
    with told_if_full(scratch, 0, NEW_ROOM):
        scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = _lock(scratch, name).open("w")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove_old(scratch: Path) -> None:
    """Remove files that nobody has opened for long, and incomplete files that killed processes have left."""
    now = time.time()
    for path in scratch.iterdir() if scratch.is_dir() else ():
        try:
            age = now - _last_used(path)
            if path.suffix in {".npy", ".lock"} and age > KEPT_SECONDS:
                path.unlink()
            if path.suffix == ".partial" and age > PARTIAL_SECONDS and not is_locked(path):
                path.unlink()
        except (FileNotFoundError, PermissionError):  # another process was faster, or another user owns it
            continue


def _last_used(path: Path) -> float:
    """The time at which a file was last written or, if it is a staged file, opened."""
    lock = path.with_suffix(".lock")
    return max(file.stat().st_mtime for file in (path, lock) if file is path or file.exists())


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of a file or a folder, as far as the file system tells."""
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
