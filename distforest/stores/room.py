"""Room on disks: reserved before a file is mapped, and told of where there is none.

Who writes to a map of a file for which a full disk has no room is ended by a signal, without a word.
"""

from __future__ import annotations

import errno
import os
import platform
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from distforest.errors import JobError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

FULL = {errno.ENOSPC, errno.EDQUOT}
"""Numbers of the errors that say that a disk, or what one may use of it, is full."""

CANNOT_RESERVE = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS}
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
        if isinstance(error, OSError) and error.errno not in CANNOT_RESERVE:
            raise
        while begin < n_bytes:
            begin += file.write(bytes(min(ZEROS, n_bytes - begin)))
        file.flush()


@contextmanager
def told_if_full(where: str | Path, n_bytes: int, cure: str | None = None) -> Iterator[None]:
    """Tell of a full disk, in a block that writes about ``n_bytes``.

    Parameters
    ----------
    where
        Path of the folder, some of which may be missing, or URL.
    n_bytes
        How much.
    cure
        What to do, if waiting will not do.

    Raises
    ------
    JobError
        The disk is full and there is a cure.
    OSError
        Any other error of the system in the block; of a full disk with both numbers.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        place = str(where).removeprefix("file://")
        path = Path(place)
        there = next((own for own in (path, *path.parents) if path.is_absolute() and own.exists()), None)
        free = f", {shutil.disk_usage(there).free:,} are free" if there else ""
        told = f"{os.strerror(error.errno)}: {n_bytes:,} bytes are needed in {place} on {platform.node()}{free}"
        if cure is None:
            raise OSError(error.errno, told) from error
        raise JobError(f"{told}; {cure}") from error
