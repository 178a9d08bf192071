"""Reading a table from TOML or JSON, with the line of each key, and writing what is wrong with it."""

from __future__ import annotations

import json
import re
import reprlib
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dask.utils import parse_bytes

from distforest.errors import SpecError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

SPEC_BYTES = 2**20
"""Size of the largest text that is read."""

MAX_KEYS = 100
"""Keys of the largest table that is read, and similarities of the longest list."""

MAX_DEPTH = 8
"""Parts of the longest key that is read: the time of tomllib grows with the square of the parts."""

LARGEST_INTEGER = 2**63 - 1
"""The largest integer of TOML."""

Place = tuple[str, ...]
"""The place of a value: the names of the tables around it, and its own name."""


PER_WORKER = "auto"
"""The word for as many as there are workers."""


def bytes_in(size: object) -> int:
    """Return a number of bytes from 1, given as such or with a unit such as "4GiB"; raises ValueError.

    Examples
    --------
    >>> bytes_in("4GiB"), bytes_in(512)
    (4294967296, 512)
    """
    # parse_bytes reads "" as one byte and "GiB" as one GiB; here a number is required.
    with suppress(ValueError, OverflowError):
        number = parse_bytes(size) if isinstance(size, str) and re.match(r"[0-9]", size) else size
        if isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= LARGEST_INTEGER:
            return number
    raise ValueError("must be a size such as '4GiB', or a number of bytes from 1")


class _Shown(reprlib.Repr):
    """A short repr of anything: Python refuses to write integers of more than 4300 digits."""

    def repr_int(self, x: int, level: int) -> str:
        return super().repr_int(x, level) if x.bit_length() <= 64 else f"an integer of {x.bit_length()} bits"


_SHOWN = _Shown()
_SHOWN.maxstring = _SHOWN.maxother = 80


def shown(value: object) -> str:
    """Write a value for an error message, cut to a readable length."""
    return _SHOWN.repr(value)


def listed(words: Iterable[str]) -> str:
    """Write words for an error message."""
    return ", ".join(map(repr, words))


def sentence(place: Place, line: int, what: str) -> str:
    """Write a fault, which begins with its place.

    Examples
    --------
    >>> sentence(("run", "workers"), 12, "must be an integer")
    'run.workers (line 12): must be an integer'
    >>> sentence((), 0, "is not a table")
    'spec: is not a table'
    """
    bare = re.compile(r"[\w-]{1,80}")
    name = ".".join(part if isinstance(part, str) and bare.fullmatch(part) else shown(part) for part in place)
    where = (name or "spec") + (f" (line {line})" if line else "")
    return f"{where}: {what if len(what) <= 500 else what[:500] + '...'}"


def refusal(faults: Iterable[tuple[Place, str]], lines: Mapping[Place, int]) -> SpecError:
    """Return the error of all faults in the order of the file, each with the line of its key or of a table around it.

    Examples
    --------
    >>> print(refusal([(("trees",), "is missing"), (("run", "workers"), "must be 1")], {("run",): 3}))
    trees: is missing
    run.workers (line 3): must be 1
    """
    found = []
    for place, what in faults:
        near = next((place[:end] for end in range(len(place), 0, -1) if place[:end] in lines), ())
        line = lines.get(near, 0)
        found.append((line, sentence(place, line, what)))
    return SpecError([fault for _, fault in sorted(found, key=lambda fault: fault[0])])


# --- the lines of keys ------------------------------------------------------------------------------------


def read_json(source: str) -> object:
    """Read a JSON text; raises SpecError if it is not JSON."""
    try:
        return json.loads(_decoded(source.encode("utf-8", "surrogatepass")))
    except (ValueError, RecursionError) as error:
        if isinstance(error, SpecError):
            raise
        raise SpecError([sentence((), 0, f"is not JSON that can be read: {error}")]) from None


def read_toml(source: str | os.PathLike[str]) -> tuple[dict[str, object], dict[Place, int]]:
    """Read a TOML text or file: its table, and the line of each key; raises SpecError if it is not TOML."""
    data = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else _start(Path(source))
    content = _decoded(data)
    lines = key_lines(content)
    try:
        return tomllib.loads(content), lines
    except tomllib.TOMLDecodeError as error:
        fault, _, column = str(error).partition(" (at line ")
        at = re.match(r"(\d+), column (\d+)", column)
        line = int(at[1]) if at else content.count("\n") + 1
        what = f"is not TOML: {fault}" + (f" (column {at[2]})" if at else "")
        told = content.splitlines()[line - 1 : line]
        if at and told and fault == "Invalid value":
            what += _cure_of_value(told[0][int(at[2]) - 1 :])
        if "Unescaped" in fault:
            what += "; put paths with backslashes in single quotes, or write /"
        raise SpecError([sentence((), line, what)]) from None
    except (ValueError, RecursionError) as error:
        raise SpecError([sentence((), 0, f"is not TOML that can be read: {error}")]) from None


def _cure_of_value(text: str) -> str:
    """What to write for what stands where TOML expects a value; "" if nobody knows.

    Examples
    --------
    >>> _cure_of_value("True"), _cure_of_value("smerf # the method"), _cure_of_value("3.")
    ('; write true in lower case', '; put words in quotes', '')
    """
    if re.match(r"(None|none|null|nil)\b", text):
        return '; TOML has no None: leave the key out, or write "none"'
    if found := re.match(r"(True|False|TRUE|FALSE)\b", text):
        return f"; write {found[0].lower()} in lower case"
    return "; put words in quotes" if re.match(r"[A-Za-z~./]", text) else ""


def _start(path: Path) -> bytes:
    """Read the start of a file, at most one byte more than is allowed."""
    try:
        with path.open("rb") as file:
            return file.read(SPEC_BYTES + 1)
    except (OSError, ValueError) as error:
        raise SpecError([sentence((), 0, f"file {shown(str(path))} cannot be read: {error}")]) from None


def _decoded(data: bytes) -> str:
    if len(data) > SPEC_BYTES:
        raise SpecError([sentence((), 0, f"must be a text of at most {SPEC_BYTES} bytes (1 MiB), found more")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SpecError([sentence((), line, f"must be UTF-8, found byte {data[error.start]:#04x}")]) from None


# A string that is not closed ends with the text or the line, so each character is scanned once, in any text.
_TOKEN = re.compile(
    r'''
      (?P<part> """(?:\\.|[^\\])*?(?:"{3,5}|\Z)  |  \'\'\'.*?(?:'{3,5}|\Z)
              | "(?:\\.|[^"\\\n])*"?  |  '[^'\n]*'?  |  [\w-]+ )
    | (?P<mark> [][{}=.,\n] )
    | \#[^\n]* | .
    ''',
    re.DOTALL | re.VERBOSE,
)


def key_lines(content: str) -> dict[Place, int]:
    """Find the line on which each key of a TOML text first occurs.

    Examples
    --------
    >>> key_lines('''a = 1
    ... [b]
    ... "c d".e = { f = 2 }
    ... ''')
    {('a',): 1, ('b',): 2, ('b', 'c d'): 3, ('b', 'c d', 'e'): 3, ('b', 'c d', 'e', 'f'): 3}
    """
    scan = _Scan()
    for token in _TOKEN.finditer(content):
        if token["mark"]:
            scan.mark(token["mark"])
        elif token["part"]:
            scan.part(token["part"])
        scan.line += token[0].count("\n")
    return scan.lines


class _Scan:
    """The state of a scan through a TOML text: which table is open, which key is being read.

    It knows enough TOML to tell a key from a value: it is right for all that tomllib accepts, and harmless otherwise.
    """

    def __init__(self) -> None:
        self.lines: dict[Place, int] = {}
        self.line = 1
        self._in_value = False
        self._key: list[str] = []  # parts so far of the key or header that is being read
        self._dotted = False  # whether the next part continues this key
        self._table: Place = ()  # the last [header]
        self._place: Place = ()  # the key whose value is being read
        self._open: list[tuple[str, Place]] = []  # brackets of this value still open, each with its key

    def part(self, part: str) -> None:
        """Pass a word or a string."""
        if not self._in_value:
            self._key = [*(self._key if self._dotted else ()), _unquoted(part)]
            self._dotted = False
            self._check_depth(len(self._key))

    def mark(self, mark: str) -> None:
        """Pass a bracket, an equals sign, a dot, a comma or the end of a line."""
        if mark == ".":
            self._dotted = not self._in_value
        elif mark == "\n":
            if not self._open:
                self._in_value, self._key = False, []
        elif mark == "=":
            self._place = self._keep(self._open[-1][1] if self._open else self._table)
            self._in_value = True
        elif mark in "[{" and self._in_value:
            self._open.append((mark, self._place))
            self._in_value = mark == "["
        elif mark in "]}" and self._open:
            _, self._place = self._open.pop()
            self._in_value, self._key = True, []
        elif mark == "," and self._open:
            self._in_value, self._key = self._open[-1][0] == "[", []
        elif mark == "]" and self._key:
            self._table = self._keep(())

    def _keep(self, table: Place) -> Place:
        """Note the line of the key that ends here, and of the tables in it."""
        place = (*table, *self._key)
        self._check_depth(len(place))
        for end in range(len(table) + 1, len(place) + 1):
            self.lines.setdefault(place[:end], self.line)
        self._key = []
        return place

    def _check_depth(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise SpecError([sentence((), self.line, f"has a key of more than {MAX_DEPTH} parts")])


def _unquoted(part: str) -> str:
    """Remove the quotes of a part of a key."""
    if part[0] not in "\"'":
        return part
    try:
        return next(iter(tomllib.loads(f"{part} = 0")))
    except tomllib.TOMLDecodeError:
        return part
