"""Array files: their content is compared with its digest when they are opened, and must not change while it is used.

A memory map shows at once whatever is written to its file. So a process reads the whole content of a file once, and
after each task it asks the file system whether anybody has written to the file since. Small arrays are copied, which is
safer still: codes or row numbers that changed after they were checked could crash the process.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import platform
import weakref
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from distforest.errors import DamageError, JobError
from distforest.sources.arrays import bytes_of, row_blocks
from distforest.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path


COPIED_BYTES = 1 << 24
"""Arrays up to this size are copied."""


class Marks(NamedTuple):
    """A file system's record of a file. Writing sets both times, and nobody can set ``changed`` back."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, handle: int) -> Self:
        """The marks of an open file."""
        status = os.fstat(handle)
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@dataclass(frozen=True, eq=False)
class Mapped:
    """An array file that this process has mapped.

    Attributes
    ----------
    path, sha256
        The file, and the digest of the array that it must hold.
    array
        Its content, a read-only memory map.
    handle
        Descriptor of the open file, whose name may have been removed since.
    marks
        The marks of the file, read before its content was compared with the digest.
    """

    path: Path
    sha256: str
    array: np.ndarray
    handle: int
    marks: Marks

    @property
    def is_untouched(self) -> bool:
        """Whether nobody has written to the file since it was opened."""
        return Marks.of(self.handle) == self.marks

    def check_untouched(self) -> None:
        """Refuse results that were computed from the file if anybody has written to it since it was opened.

        Raises
        ------
        JobError
            Its content has changed.
        OSError
            It was written to, but its content is the same, so that another attempt can succeed.
        """
        marks = Marks.of(self.handle)
        if marks == self.marks:
            return
        if marks.size < self.marks.size or array_digest(self.array) != self.sha256:
            raise JobError(
                f"{self._described} was written to while it was read, and the results computed from it are not kept; "
                "find out who writes to that folder, or whether the disk is damaged, and start the job again: the file "
                "is staged anew, and trees that were committed before are kept"
            )
        if marks.modified == self.marks.modified:
            return  # its name was removed, say, or its owner has changed
        raise OSError(f"{self._described} was touched while it was read; the results from it are computed again")

    def check_content(self) -> None:
        """Do the same, and find damage that the file system has not recorded; reads the whole file.

        Raises
        ------
        DamageError
            Its content has changed, at an unknown time.
        """
        self.check_untouched()
        if array_digest(self.array) != self.sha256:
            raise DamageError(
                f"{self._described} does not hold what it held when it was opened, although nobody has written to it: "
                "the disk or the memory of that host is faulty. No tree of this job is kept; start it again elsewhere"
            )

    @property
    def _described(self) -> str:
        return f"the staged file {self.path} on {platform.node()}"


def array_digest(array: np.ndarray) -> str:
    """The digest of an array's dtype, shape and values."""
    digest = begun_digest(array.shape, array.dtype)
    for _, block in row_blocks(array):
        digest.update(np.ascontiguousarray(block).data)
    return digest.hexdigest()


def begun_digest(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> hashlib._Hash:
    """The digest of an array of which all values are still to come."""
    return hashlib.sha256(f"{dtype.str}{shape}".encode())


def written_rows(path: Path, blocks: Iterable[np.ndarray], shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> str:
    """Write blocks of rows after the header of an array file; returns the digest of the array.

    The digest of a block is taken while it is written, and meanwhile what was written before goes to the disk. At the
    end all of it is there.

    Parameters
    ----------
    path
        A file that has its header, as `npy_header` makes it, and room for the array.
    blocks
        The rows, from the first to the last; they are converted to ``dtype``.
    shape, dtype
        Of the whole array.

    Raises
    ------
    OSError
        The disk is full, or refuses a write.
    """
    digest, flushed = begun_digest(shape, dtype), Future[None]()
    flushed.set_result(None)
    with path.open("r+b") as file:
        file.seek(len(npy_header(shape, dtype)))
        flush = partial(os.fsync, file.fileno())
        try:
            for given in blocks:
                block = np.ascontiguousarray(given, dtype).data
                digested = in_thread(partial(digest.update, block), "distforest-digest")
                file.write(block)
                digested.result()
                if flushed.done():
                    flushed.result()  # a file system reports an error once
                    flushed = in_thread(flush, "distforest-flush")
        finally:
            wait([flushed])
        flushed.result()
        file.flush()
        flush()
    return digest.hexdigest()


def npy_header(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> bytes:
    """The header of an array's ``.npy`` file, as NumPy writes it."""
    stream = io.BytesIO()
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue()


def open_sound(
    path: Path, sha256: str, shape: tuple[int, ...], dtype: np.dtype[np.generic], files: list[Mapped]
) -> np.ndarray | None:
    """Open an array file whose content must have a digest; None where there is no file, or its content differs.

    A small array is copied, so that it cannot change. A larger one is mapped, and its file is added to ``files`` and
    locked as long as the map lives, which says that it is in use: see `distforest.sources.scratch`. The
    content is compared with the digest unless this process did so before and nobody has touched the file since.
    """
    header, n_bytes = npy_header(shape, dtype), bytes_of(shape, dtype)
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return None
    with file:
        _hold(file.fileno())
        if not os.fstat(file.fileno()).st_nlink:  # it was removed before it was held
            return None
        marks = Marks.of(file.fileno())
        if marks.size < len(header) + n_bytes or file.read(len(header)) != header:
            return None
        if n_bytes <= COPIED_BYTES:
            content = file.read(n_bytes)
            array = np.frombuffer(content, dtype).reshape(shape) if len(content) == n_bytes else np.empty(0)
        else:
            array = np.memmap(file, dtype, "r", len(header), shape)
        known = _sound_marks(path, sha256)
        if (known != [marks] or Marks.of(file.fileno()) != marks) and array_digest(array) != sha256:
            return None
        known[:] = [marks]
        if isinstance(array, np.memmap):
            mapped = Mapped(path, sha256, array, os.dup(file.fileno()), marks)
            weakref.finalize(mapped, os.close, mapped.handle)
            files.append(mapped)
    return array


def _hold(handle: int) -> None:
    """Lock a file together with all who read it, so that nobody removes it.

    A map has a descriptor of its own, which shares the lock: it lasts until the map is gone, or its process.
    """
    with suppress(OSError):  # a file system without locks
        fcntl.flock(handle, fcntl.LOCK_SH)


@contextmanager
def untouched(files: Sequence[Mapped]) -> Iterator[None]:
    """Run a block that reads files; at its end raises as `Mapped.check_untouched` if anybody has written to them."""
    try:
        yield
    finally:  # an error in the block may be due to what was written
        for file in files:
            file.check_untouched()


@lru_cache(maxsize=512)
def _sound_marks(_path: Path, _sha256: str) -> list[Marks]:
    """The marks of a file when this process last compared it with its digest: a list to be filled, empty at first."""
    return []
