"""Array files that are sound when they are opened, and unchanged while something is worked out from them.

A map shows whatever is written to its file, at once. So a process reads the whole content of a file once, and asks the
file system after each task whether anybody has written to it since. What is small it copies, which is safer still:
other codes or row numbers than were checked could end the process.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import weakref
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from distforest.errors import DamageError, JobError
from distforest.sources.arrays import bytes_of, row_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


COPIED_BYTES = 1 << 24
"""Arrays up to this size are copied."""


class Marks(NamedTuple):
    """What a file system says of a file. Writing sets both times, and nobody can set the second one back."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, handle: int) -> Self:
        """The marks of an open file."""
        found = os.fstat(handle)
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@dataclass(frozen=True, eq=False)
class Mapped:
    """An array file that this process has mapped.

    Attributes
    ----------
    path, sha256
        Of the file, and the digest of what it must hold.
    array
        Its content, a read-only memory map.
    handle
        Of the open file, which may have lost its name meanwhile.
    marks
        Of the file, from before its content was found to be what it must be.
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

    def hold(self) -> None:
        """Refuse what has been worked out from the file if it was touched meanwhile.

        Raises
        ------
        JobError
            It does not hold what it must any more.
        OSError
            It was written to, and holds that all the same: another try will do.
        """
        found = Marks.of(self.handle)
        if found == self.marks:
            return
        if found.size < self.marks.size or array_digest(self.array) != self.sha256:
            raise JobError(
                f"{self._named} was written to while it was read, and what was worked out from it meanwhile is not "
                "kept; see who writes to that folder, or whether the disk is sound, and start the job again: the file "
                "is staged anew, and trees that were committed before are kept"
            )
        if found.modified == self.marks.modified:
            return  # it has lost its name, say, or changed its owner
        raise OSError(f"{self._named} was touched while it was read; what was worked out meanwhile is worked out anew")

    def check_content(self) -> None:
        """The same of a file that was damaged without the file system's knowledge: reads all of it.

        Raises
        ------
        DamageError
            Its content is another, and nobody knows since when.
        """
        self.hold()
        if array_digest(self.array) != self.sha256:
            raise DamageError(
                f"{self._named} does not hold what it held when it was opened, although nobody has written to it: the "
                "disk or the memory of that host is not sound. No tree of this job is kept; start it again elsewhere"
            )

    @property
    def _named(self) -> str:
        return f"the staged file {self.path} on {platform.node()}"


def array_digest(array: np.ndarray) -> str:
    """The digest of an array's dtype, shape and values."""
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    for _, block in row_blocks(array):
        digest.update(np.ascontiguousarray(block).data)
    return digest.hexdigest()


def npy_header(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> bytes:
    """How the file of an array begins, as NumPy has it."""
    stream = io.BytesIO()
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, described)
    return stream.getvalue()


def open_sound(
    path: Path, sha256: str, shape: tuple[int, ...], dtype: np.dtype[np.generic], files: list[Mapped]
) -> np.ndarray | None:
    """Open an array file that must hold what its digest says; None where there is none, or it holds anything else.

    The content of a small one is copied, so that it stays what it is. Any other is mapped, and added to ``files``. It
    is compared with the digest, unless this process has found it sound and nobody has touched the file since.
    """
    header, n_bytes = npy_header(shape, dtype), bytes_of(shape, dtype)
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return None
    with file:
        marks = Marks.of(file.fileno())
        if marks.size < len(header) + n_bytes or file.read(len(header)) != header:
            return None
        if n_bytes <= COPIED_BYTES:
            content = file.read(n_bytes)
            array = np.frombuffer(content, dtype).reshape(shape) if len(content) == n_bytes else np.empty(0)
        else:
            array = np.memmap(file, dtype, "r", len(header), shape)
        sound = _found_sound(path, sha256)
        if (sound != [marks] or Marks.of(file.fileno()) != marks) and array_digest(array) != sha256:
            return None
        sound[:] = [marks]
        if isinstance(array, np.memmap):
            found = Mapped(path, sha256, array, os.dup(file.fileno()), marks)
            weakref.finalize(found, os.close, found.handle)
            files.append(found)
    return array


@contextmanager
def held(files: Sequence[Mapped]) -> Iterator[None]:
    """A block that reads files, and whose outcome counts only if nobody has touched them; raises as `Mapped.hold`."""
    try:
        yield
    finally:  # an error in the block may come of what was written
        for file in files:
            file.hold()


@lru_cache(maxsize=512)
def _found_sound(_path: Path, _sha256: str) -> list[Marks]:
    """The marks with which this process has found a file sound, if it has: a list that is written to."""
    return []
