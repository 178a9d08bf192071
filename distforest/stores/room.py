"""Disk space, which is reserved before a file is mapped, and whose lack is reported in an error.

A process that writes to a mapped file for which a full disk has no room is killed by a signal, without a message.
"""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from distforest.errors import JobError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

FULL = {errno.ENOSPC, errno.EDQUOT}
"""Error numbers of a full disk, or a full quota."""

CANNOT_RESERVE = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS}
"""Error numbers of file systems that cannot reserve space."""

PARTIAL = ("staged-", ".partial")
"""Prefix and suffix of the names of incomplete files in a scratch folder, where users may have others."""

ZEROS = 1 << 20
"""Number of zeros written at once on a file system that cannot reserve space."""


def reserve(file: IO[bytes], n_bytes: int) -> None:
    """Reserve space for a file of ``n_bytes``, which may then be mapped and filled; its present content stays.

    Raises
    ------
    OSError
        The disk is full.
    """
    begin = file.tell()
    file.flush()
    try:
        os.posix_fallocate(file.fileno(), begin, max(1, n_bytes - begin))
    except (AttributeError, OSError) as error:  # macOS has no such call
        if isinstance(error, OSError) and error.errno not in CANNOT_RESERVE:
            raise
        while begin < n_bytes:
            begin += file.write(bytes(min(ZEROS, n_bytes - begin)))
        file.flush()


def free_bytes(folder: Path) -> int:
    """Return the free bytes on the disk of a folder; the last parts of its path need not exist."""
    path = folder.absolute()
    return shutil.disk_usage(next(place for place in (path, *path.parents) if place.exists())).free


def full_disk(error: BaseException) -> str | None:
    """Return the message of a full-disk error and its notes, with what to do; None for any other error.

    Examples
    --------
    >>> full_disk(OSError(errno.ENOSPC, "No space left on device", "/data/a.zarr")), full_disk(OSError("no answer"))
    ('No space left on device: /data/a.zarr; make room there, and run the job again', None)
    """
    if not isinstance(error, OSError) or error.errno not in FULL:
        return None
    place = f": {error.filename}" if error.filename else ""
    text = " ".join((f"{error.strerror}{place}", *getattr(error, "__notes__", ())))
    return f"{text}; make room there, and run the job again"


@contextmanager
def explaining_full_disk(where: str | Path, n_bytes: int, cure: str | None = None) -> Iterator[None]:
    """Report how much space is missing, and where, if a block that writes about ``n_bytes`` finds a disk full.

    Parameters
    ----------
    where
        Path of the folder, the last parts of which need not exist, or URL.
    n_bytes
        Number of bytes that the block writes.
    cure
        Advice, if trying again does not help.

    Raises
    ------
    JobError
        The disk is full, and there is a ``cure``.
    OSError
        Any other OSError of the block; for a full disk, the message has the needed and the free bytes.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        place = str(where).removeprefix("file://")
        free = f", {free_bytes(Path(place)):,} are free" if Path(place).is_absolute() else ""
        message = f"{os.strerror(error.errno)}: {n_bytes:,} bytes are needed in {place} on {platform.node()}{free}"
        if cure is None:
            raise OSError(error.errno, message) from error
        raise JobError(f"{message}; {cure}") from error


@contextmanager
def partial_file(folder: Path, header: bytes, n_bytes: int, cure: str) -> Iterator[Path]:
    """Make a locked file with a header and reserved space for ``n_bytes`` after it; remove it if it is not renamed.

    Raises
    ------
    JobError
        The disk is full; the message has the ``cure``.
    OSError
        The folder cannot be written to.
    """
    with explaining_full_disk(folder, n_bytes, cure):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(PARTIAL[1], PARTIAL[0], folder)
        path = Path(name)
        try:
            with open(handle, "wb") as file:
                with suppress(OSError):  # a file system without locks
                    fcntl.flock(file, fcntl.LOCK_EX)
                file.write(header)
                reserve(file, file.tell() + n_bytes)
                yield path
        finally:
            path.unlink(missing_ok=True)
