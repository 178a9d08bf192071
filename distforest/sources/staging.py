"""Staging: every input once per host, as a memory map whose name is the digest of its content.

Random access to a Zarr array decodes each chunk that it touches; a memory map does not, and all workers of a host
share one. A staged file appears under its name only when it is whole, and is read only where it holds what its name
says.
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
from distforest.sources.array_files import Mapped, array_digest, held, npy_header, open_sound
from distforest.sources.arrays import bytes_of, open_array
from distforest.sources.guarded import DamagedChunkError
from distforest.sources.readings import Reading, check_shape, read_level
from distforest.sources.stored import OF_ANY_LENGTH, Digested
from distforest.stores.room import reserve, told_if_full

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.sources.arrays import Matrix
    from distforest.sources.readings import Onlooker

KEPT_SECONDS = 7 * 86400
"""A staged file that nobody opened for so long is removed when the next one is staged."""

PARTIAL_SECONDS = 60
"""A file that is not whole, and that no process is at work on, is removed likewise after so long."""

NEW_ROOM = "make room there, or name another folder (`run.scratch`, or DISTFOREST_SCRATCH)"
"""What to do where staged files find no room."""


@dataclass(frozen=True)
class Staged:
    """An input that can be opened on any host: where it came from, and the digest of what was read.

    Attributes
    ----------
    address
        Path or URL of the Zarr array.
    reading
        How it is read: without the offset of distances, where one was taken off.
    sha256, shape, dtype
        Of the staged array.
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
        """The staged array, read-only; staged on this host first where it is missing, or damaged.

        Parameters
        ----------
        scratch
            The folder for staged files.
        files
            If the file is mapped, it is added to this list, to be `held` while something is worked out from it.

        Raises
        ------
        InputError
            The input has changed since the job was planned, or this host cannot reach it.
        JobError
            There is no room for it.
        """
        files = [] if files is None else files
        found = self._sound(scratch, files)
        if found is None:
            with _locked(scratch, self.sha256):
                found = self._sound(scratch, files)
                if found is None:
                    found = self._staged_again(scratch, files)
        with suppress(OSError):  # a folder that is full, or of somebody else
            _lock(scratch, self.sha256).touch(0o600)  # a file's own times tell whether it was written to
        return found

    @contextmanager
    def watched(self, scratch: Path) -> Iterator[np.ndarray]:
        """The staged array for a block whose outcome counts only if nobody writes to its file; see `held`."""
        files: list[Mapped] = []
        array = self.open(scratch, files)
        with held(files):
            yield array

    def _sound(self, scratch: Path, files: list[Mapped]) -> np.ndarray | None:
        return open_sound(_path(scratch, self.sha256), self.sha256, self.shape, np.dtype(self.dtype), files)

    def _staged_again(self, scratch: Path, files: list[Mapped]) -> np.ndarray:
        path = _path(scratch, self.sha256)
        if path.exists():
            logging.getLogger("distforest").warning("%s is damaged, %s is staged again", path, self.address)
        if stage(self.address, self.reading, scratch).sha256 != self.sha256:
            raise InputError(f"{self.address} has changed since the job was planned; start it again")
        found = self._sound(scratch, files)
        if found is None:
            raise OSError(f"{path} was damaged or removed as soon as it was written")
        return found


def default_scratch() -> Path:
    """The folder for staged files: ``$DISTFOREST_SCRATCH``, or one of this user's in the temporary folder.

    Raises
    ------
    InputError
        Somebody else owns the folder in the temporary folder, and could change what is staged there.
    """
    given = os.environ.get("DISTFOREST_SCRATCH")
    if given:
        return Path(given)
    own = Path(tempfile.gettempdir()) / f"distforest-{os.getuid()}"
    if own.exists() and own.stat().st_uid != os.getuid():
        raise InputError(f"{own} belongs to another user; name a folder of your own in DISTFOREST_SCRATCH")
    return own


def check_scratch(scratch: Path) -> None:
    """Make the folder for staged files, or refuse it.

    Raises
    ------
    InputError
        It cannot be made, or not be written to.
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
        Its kind: what is refused and how it is converted.
    scratch
        Folder for staged files, local to the host.
    onlooker
        Shown all blocks as they are read.

    Raises
    ------
    InputError
        The array cannot be opened, holds values that the reading refuses, or others than distforest has written there;
        nothing is left behind.
    JobError
        There is no room for it; nothing is left behind.
    """
    stored = Digested(open_array(address))
    is_held = reading.keep and stored.dtype.kind in OF_ANY_LENGTH
    values: Matrix = read_objects(address) if is_held else stored
    try:
        check_shape(values, reading)
        shape, dtype = tuple(values.shape), reading.dtype(values.dtype)
        telling = told_if_full(scratch, bytes_of(shape, dtype), f"to stage {address}, {NEW_ROOM}")
        with telling, _new_file(scratch, shape, dtype) as (path, out):
            _, reading = read_level(values, reading, out, onlooker)
            stored.hold()
            digest = _settle(path, out, scratch)
    except DamagedChunkError:  # which names its file
        raise
    except InputError as error:
        raise InputError(f"{address}: {error}") from error
    return Staged(address, reading, digest, shape, dtype.str if dtype.kind in "SU" else dtype.name)


def read_objects(address: str) -> np.ndarray:
    """The objects of a Zarr array, whole; strings of any length become ones of one width, as a memory map holds them.

    Raises
    ------
    InputError
        They are neither numbers nor strings, or one of the strings ends in NUL and has no fixed width.
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
    """The file whose lock is for who stages, and whose time tells when the staged file was opened last."""
    return scratch / f"{sha256}.lock"


@contextmanager
def _new_file(scratch: Path, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Iterator[tuple[Path, np.ndarray]]:
    """A nameless array file to fill, with room for all of it; removed unless it was settled."""
    scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
    _forget_old(scratch)
    handle, name = tempfile.mkstemp(suffix=".partial", dir=scratch)
    path = Path(name)
    try:
        with open(handle, "wb") as file:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
            file.write(npy_header(shape, dtype))
            reserve(file, file.tell() + bytes_of(shape, dtype))
            yield path, np.lib.format.open_memmap(path, mode="r+")
    finally:
        path.unlink(missing_ok=True)


def _settle(path: Path, out: np.ndarray, scratch: Path) -> str:
    """Give a filled file its name, unless there is a sound one; returns the digest."""
    out.flush()  # type: ignore[attr-defined]  # onto the disk, header and all, before the file has its name
    digest = array_digest(out)
    target = _path(scratch, digest)
    if open_sound(target, digest, out.shape, out.dtype, []) is None:  # other processes may be reading a sound one
        os.replace(path, target)
    return digest


@contextmanager
def _locked(scratch: Path, name: str) -> Iterator[None]:
    """One process of the host at a time; the lock goes with its process, however that ends."""
    with told_if_full(scratch, 0, NEW_ROOM):
        scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = _lock(scratch, name).open("w")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _forget_old(scratch: Path) -> None:
    """Remove what nobody has opened for long, and what processes that were killed have left half written."""
    now = time.time()
    for path in scratch.iterdir():
        try:
            age = now - _last_used(path)
            if path.suffix in {".npy", ".lock"} and age > KEPT_SECONDS:
                path.unlink()
            if path.suffix == ".partial" and age > PARTIAL_SECONDS and not _is_in_work(path):
                path.unlink()
        except (FileNotFoundError, PermissionError):  # another process was faster, or it is another user's
            continue


def _last_used(path: Path) -> float:
    """When a file was written, or opened if it is a staged one."""
    lock = path.with_suffix(".lock")
    return max(own.stat().st_mtime for own in (path, lock) if own is path or own.exists())


def _is_in_work(path: Path) -> bool:
    """Whether a process holds the lock of a file that is not whole, as far as can be known."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
