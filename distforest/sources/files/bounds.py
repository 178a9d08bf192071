"""Files of any content: how much they may unfold to, how faults are reported, and how much of it a message shows."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import zipfile
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from distforest.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TextIO

MOST_UNFOLDED = 1 << 30
"""Bytes that any file may unfold to: every machine has as many, and a small file of real data may be all zeros."""

MOST_TIMES = 200
"""Times its own size that a file may unfold to: real tables seldom pack to less than a hundredth, bombs to far less."""

LONGEST_ROW = 1 << 25
"""Bytes of the longest row of text: rows are read whole, and a cell takes some ten times its text in memory."""

SHOWN_CHARACTERS = 80
"""Characters of the longest cell or name that a message shows."""


def check_unfolded(path: str, n_bytes: int, max_bytes: int | None) -> None:
    """Refuse a file that would unfold to more bytes than is allowed.

    Parameters
    ----------
    path
        Path of the file.
    n_bytes
        Bytes that the file announces.
    max_bytes
        The most that is allowed. None: 1 GiB, or 200 times the file's size if that is more.

    Raises
    ------
    InputError
        The file announces more; the message names both sizes.
    """
    size = Path(path).stat().st_size
    most = allowed_bytes(size, MOST_TIMES, max_bytes)
    if n_bytes > most:
        raise InputError(
            f"{path}: at most {most:,} bytes of values were expected, found a file of {size:,} bytes that would "
            f"unfold to {n_bytes:,}; give `max_bytes={n_bytes}` if so many are meant"
        )


def allowed_bytes(n_stored: int, times: int, max_bytes: int | None) -> int:
    """Bytes to which ``n_stored`` bytes may unfold: ``max_bytes``, or if that is None 1 GiB or ``times`` as many.

    Examples
    --------
    >>> allowed_bytes(10, 200, None) == 1 << 30, allowed_bytes(1 << 30, 200, None) >> 30, allowed_bytes(10, 200, 50)
    (True, 200, 50)
    """
    return max(MOST_UNFOLDED, times * n_stored) if max_bytes is None else max_bytes


def out_of_memory(path: str, error: MemoryError) -> InputError:
    """The error for a file that does not fit into memory."""
    reason = f" ({brief(str(error), 200)})" if str(error) else ""
    found = f"there is not enough memory for what the file holds{reason}"
    return InputError(f"{path}: {found}; split the file, or read it where there is more memory")


def brief(text: str, most: int = SHOWN_CHARACTERS) -> str:
    r"""Shorten a text to its beginning, on one line.

    Examples
    --------
    >>> brief("a\nb"), brief("0123456789", 8)
    ('a b', '01234...')
    """
    short = text if len(text) <= most else f"{text[: most - 3]}..."
    return " ".join(short.splitlines())


def quoted(text: str) -> str:
    """Quote a cell or a name, or the beginning of a long one.

    Examples
    --------
    >>> quoted("four"), quoted("5" * 100)[-10:]
    ("'four'", "555555...'")
    """
    return repr(text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}...")


FILE_ERRORS = (
    *(OSError, ValueError, EOFError, RuntimeError, OverflowError, lzma.LZMAError),
    *(struct.error, zipfile.BadZipFile, zlib.error),
)
"""Errors that reading a damaged file raises."""


@contextmanager
def readable(path: str, *others: type[Exception]) -> Iterator[None]:
    """Turn the errors of reading a damaged or missing file, and ``others``, into an `InputError` that names it."""
    errors: tuple[type[Exception], ...] = (*FILE_ERRORS, *others)
    try:
        yield
    except InputError:
        raise
    except UnicodeDecodeError as error:
        found = f"the byte {error.object[error.start]:#04x}"
        expected = f"{path}: text in {error.encoding.upper()} was expected"
        raise InputError(
            f"{expected}, found {found}; give `encoding` if it has another, or save it in UTF-8"
        ) from error
    except MemoryError as error:
        raise out_of_memory(path, error) from error
    except errors as error:
        raise InputError(f"{path}: cannot be read ({brief(str(error), 300)})") from error


class RowFile(io.BufferedReader):
    """A file of text with a bound on its rows and on its size; its reader sets ``held`` to 0 after each row.

    Both are checked where blocks of bytes come from the disk, so lines are read as fast as without it. A packed file is
    unpacked on the way.

    Raises
    ------
    InputError
        A row has more than about `LONGEST_ROW` bytes; the error is raised before more bytes of it are read. Or the
        file unfolds to more than ``max_bytes`` allows.
    """

    def __init__(self, path: str, max_bytes: int | None = None) -> None:
        super().__init__(text_bytes(path))
        self.path = path
        self.held = self.n_bytes = 0
        self._line = 1
        self._most = allowed_bytes(Path(path).stat().st_size, MOST_TIMES, max_bytes)

    def text(self) -> TextIO:
        """Open the file for reading lines; closing the stream closes the file."""
        return io.TextIOWrapper(self, encoding="utf-8-sig")

    def read1(self, size: int = -1, /) -> bytes:
        """Read the next block, as a stream of lines does."""
        block = super().read1(size)
        self.held += len(block)
        self.n_bytes += len(block)
        self._line += block.count(b"\n") or block.count(b"\r")
        if self.held > LONGEST_ROW:
            expected = f"rows of at most {LONGEST_ROW:,} bytes were expected, found a longer one"
            raise InputError(f"{self.path}: line {self._line}: {expected}; look at how its lines end")
        if self.n_bytes > self._most:
            expected = f"{self.path}: at most {self._most:,} bytes of text were expected"
            found = f"found a file of {Path(self.path).stat().st_size:,} bytes that unfolds to more"
            raise InputError(f"{expected}, {found}; give `max_bytes` if so many are meant")
        return block


UNPACKERS = {".gz": gzip.GzipFile, ".bz2": bz2.BZ2File, ".xz": lzma.LZMAFile}
"""What reads a packed file of text, by its suffix."""


def text_bytes(path: str) -> io.RawIOBase:
    """Open a file for reading bytes; one that is packed, by its suffix, is unpacked."""
    opener: Any = UNPACKERS.get(Path(path).suffix.lower(), io.FileIO)
    file: io.RawIOBase = opener(path)
    return file
