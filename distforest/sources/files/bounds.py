"""What a file, or an array, of a stranger may ask of this machine: refused by what it announces, told in few words."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from distforest.errors import InputError

if TYPE_CHECKING:
    from typing import TextIO

MOST_UNFOLDED = 1 << 30
"""Bytes that anything may unfold to: so many any machine has, and a small file of real data may be all zeros."""

MOST_TIMES = 200
"""How often its own size a file may unfold to: real tables seldom pack to less than a hundredth, bombs to far less."""

LONGEST_ROW = 1 << 25
"""Bytes of the longest row of text: a cell takes some ten times its text in memory, and rows are read whole."""

SHOWN_CHARACTERS = 80
"""Characters of the longest cell or name that a message shows."""


def check_unfolded(path: str, n_bytes: int, max_bytes: int | None) -> None:
    """Refuse a file that would unfold to more bytes than is allowed.

    Parameters
    ----------
    path
        Of the file.
    n_bytes
        What it announces.
    max_bytes
        The most that is allowed. None: 1 GiB, or 200 times the file's size if that is more.

    Raises
    ------
    InputError
        It announces more; the message names both sizes.
    """
    size = Path(path).stat().st_size
    most = allowed_bytes(size, MOST_TIMES, max_bytes)
    if n_bytes > most:
        raise InputError(
            f"{path}: at most {most:,} bytes of values were expected, found a file of {size:,} bytes that would "
            f"unfold to {n_bytes:,}; give `max_bytes={n_bytes}` if so many are meant"
        )


def allowed_bytes(n_stored: int, times: int, max_bytes: int | None) -> int:
    """How much may unfold from so many bytes: what is allowed, else 1 GiB, or so many times as much.

    Examples
    --------
    >>> allowed_bytes(10, 200, None) == 1 << 30, allowed_bytes(1 << 30, 200, None) >> 30, allowed_bytes(10, 200, 50)
    (True, 200, 50)
    """
    return max(MOST_UNFOLDED, times * n_stored) if max_bytes is None else max_bytes


def out_of_memory(path: str, error: MemoryError) -> InputError:
    """The error that tells that the memory did not suffice for a file."""
    told = f" ({brief(str(error), 200)})" if str(error) else ""
    found = f"there is not enough memory for what the file holds{told}"
    return InputError(f"{path}: {found}; split the file, or read it where there is more memory")


def brief(text: str, most: int = SHOWN_CHARACTERS) -> str:
    r"""The beginning of a long text, on one line.

    Examples
    --------
    >>> brief("a\nb"), brief("0123456789", 8)
    ('a b', '01234...')
    """
    begun = text if len(text) <= most else f"{text[: most - 3]}..."
    return " ".join(begun.splitlines())


def quoted(text: str) -> str:
    """A cell or a name in quotes, or how it begins.

    Examples
    --------
    >>> quoted("four"), quoted("5" * 100)[-10:]
    ("'four'", "555555...'")
    """
    return repr(text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}...")


class RowFile(io.BufferedReader):
    """A file of text; what reads rows from it sets ``held`` to 0 after each.

    The bound stands where bytes come from the disk, block by block, so that lines are read as fast as without it.

    Raises
    ------
    InputError
        A row has more than about `LONGEST_ROW` bytes: a line, or the lines of cells in quotes. It is found before more
        than so many are read.
    """

    def __init__(self, path: str) -> None:
        super().__init__(io.FileIO(path))
        self.path = path
        self.held = 0
        self._line = 1

    def text(self, newline: str | None = None) -> TextIO:
        """Open the file for reading lines; whoever closes them closes the file."""
        return io.TextIOWrapper(self, encoding="utf-8-sig", newline=newline)

    def read1(self, size: int = -1, /) -> bytes:
        """Read the next block, as a stream of lines does."""
        block = super().read1(size)
        self.held += len(block)
        self._line += block.count(b"\n") or block.count(b"\r")
        if self.held > LONGEST_ROW:
            asked = f"rows of at most {LONGEST_ROW:,} bytes were expected, found a longer one"
            raise InputError(f"{self.path}: line {self._line}: {asked}; look at how its lines end, and at its quotes")
        return block
