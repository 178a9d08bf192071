"""Room on disks: reserved before a file is mapped, and told of where there is none.

Who writes to a map of a file for which a full disk has no room is ended by a signal, without a word.
"""

from __future__ import annotations

import errno
import os
import platform
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from distforest.errors import JobError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import IO

FULL = {errno.ENOSPC, errno.EDQUOT}
"""Numbers of the errors that say that a disk, or what one may use of it, is full."""

UNKNOWN = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS}
"""Numbers of the errors of file systems that cannot reserve."""

ZEROS = 1 << 20
"""Bytes that are written at once where a file system cannot reserve."""


def reserve(file: IO[bytes], n_bytes: int) -> None:
    """Make room for a file of ``n_bytes``, which may then be mapped and filled; what it holds already stays.

    Raises
    ------
    OSError
        There is no room.
    """
    begin = file.tell()
    file.flush()
    try:
        os.posix_fallocate(file.fileno(), begin, max(1, n_bytes - begin))
    except (AttributeError, OSError) as error:  # macOS has no such call
        if isinstance(error, OSError) and error.errno not in UNKNOWN:
            raise
        while begin < n_bytes:
            begin += file.write(bytes(min(ZEROS, n_bytes - begin)))
        file.flush()


@contextmanager
def told_if_full(folder: Path, n_bytes: int, why: str, cure: str) -> Iterator[None]:
    """Tell of a full disk, in a block that writes about ``n_bytes`` into a folder.

    Parameters
    ----------
    folder
        Where; with what is missing above it, if it is.
    n_bytes
        How much.
    why, cure
        What it is for, and what to do, in words.

    Raises
    ------
    JobError
        The disk is full, with both numbers; other errors of the system stay what they are.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        asked = f"{n_bytes:,} bytes were asked for {why}"
        where = f"no room in {folder} on {platform.node()}"
        raise JobError(f"{where}: {asked}, {_free(folder):,} are free; {cure}") from error


def _free(folder: Path) -> int:
    """Bytes that are free where a folder is, or would be."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    return shutil.disk_usage(there).free
