"""Staging: every input once per host, as a memory map whose name is the digest of its content.

Random access to a Zarr array decodes each chunk that it touches; a memory map does not, and all workers of a host
share one. A staged file appears under its name only when it is whole.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.errors import InputError
from distforest.sources.arrays import bytes_of, open_array, row_blocks
from distforest.sources.readings import Reading, check_shape, read_level
from distforest.sources.stored import OF_ANY_LENGTH, Digested

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.sources.readings import Onlooker

KEPT_SECONDS = 7 * 86400
"""A staged file that nobody opened for so long is removed when the next one is staged."""


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

    def open(self, scratch: Path) -> np.ndarray:
        """The staged array as a read-only memory map; staged on this host first where it is missing.

        Raises
        ------
        InputError
            The input has changed since the job was planned, or this host cannot reach it.
        """
        path = _path(scratch, self.sha256)
        if not path.exists():
            with _locked(scratch, self.sha256):
                if not path.exists():
                    found = stage(self.address, self.reading, scratch)
                    if found.sha256 != self.sha256:
                        raise InputError(f"{self.address} has changed since the job was planned; start it again")
        os.utime(path)
        return np.load(path, mmap_mode="r", allow_pickle=False)


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
    """
    stored = Digested(open_array(address))
    is_held = reading.keep and stored.dtype.kind in OF_ANY_LENGTH
    values: Any = read_objects(address) if is_held else stored
    try:
        check_shape(values, reading)
        dtype = reading.dtype(values.dtype)
        with _new_file(scratch, tuple(values.shape), dtype) as (path, out):
            _, reading = read_level(values, reading, out, onlooker)
            stored.hold()
            digest = _settle(path, out, scratch)
    except InputError as error:
        raise InputError(f"{address}: {error}") from error
    return Staged(address, reading, digest, tuple(values.shape), dtype.str if dtype.kind in "SU" else dtype.name)


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


@contextmanager
def _new_file(scratch: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[tuple[Path, np.ndarray]]:
    """A nameless array file to fill; removed unless it was settled."""
    scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
    _forget_old(scratch)
    handle, name = tempfile.mkstemp(suffix=".partial", dir=scratch)
    os.close(handle)
    path = Path(name)
    try:
        yield path, np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    finally:
        path.unlink(missing_ok=True)


def _settle(path: Path, out: np.ndarray, scratch: Path) -> str:
    """Give a filled file its name; returns the digest."""
    out.flush()  # type: ignore[attr-defined]  # onto the disk, header and all, before the file has its name
    digest = hashlib.sha256(f"{out.dtype.str}{out.shape}".encode())
    for _, block in row_blocks(out):
        digest.update(np.ascontiguousarray(block).data)
    os.replace(path, _path(scratch, digest.hexdigest()))
    return digest.hexdigest()


@contextmanager
def _locked(scratch: Path, name: str) -> Iterator[None]:
    """One process of the host at a time; the lock goes with its process, however that ends."""
    scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (scratch / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _forget_old(scratch: Path) -> None:
    limit = time.time() - KEPT_SECONDS
    for path in scratch.iterdir():
        try:
            if path.suffix in {".npy", ".lock", ".partial"} and path.stat().st_mtime < limit:
                path.unlink()
        except FileNotFoundError:  # another process was faster
            continue
