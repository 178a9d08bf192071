"""Reading a table from TOML or JSON, with the line of each key, and reporting its faults."""

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
"""Largest number of keys of a table, and of similarities in a list."""

MAX_DEPTH = 8
"""Largest number of names in a place whose line is found; those of a spec are shorter."""

LARGEST_INTEGER = 2**63 - 1
"""Largest integer of TOML."""

Place = tuple[str, ...]
"""The place of a value: the names of the tables around it, and its name."""


LAZY_KIND = "lazy"
"""Kind of distances or similarities that a function computes."""


def bytes_in(size: object) -> int:
    """Return a number of bytes from 1, given as a number or with a unit such as "4GiB"; raise ValueError.

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
    """A short repr of any value; Python refuses to write integers of more than 4300 digits."""

    def repr_int(self, x: int, level: int) -> str:
        return super().repr_int(x, level) if x.bit_length() <= 64 else f"an integer of {x.bit_length()} bits"


_SHOWN = _Shown()
_SHOWN.maxstring = _SHOWN.maxother = 80


def shown(value: object) -> str:
    """Format a value for an error message, cut to a readable length."""
    return _SHOWN.repr(value)


def listed(words: Iterable[str]) -> str:
    """Format a list of words for an error message."""
    return ", ".join(map(repr, words))


def sentence(place: Place, line: int, what: str) -> str:
    """Format a fault, which begins with its place.

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
    """Read a JSON text; raise SpecError if it is not JSON."""
    try:
        return json.loads(_decoded(source.encode("utf-8", "surrogatepass")))
    except (ValueError, RecursionError) as error:
        if isinstance(error, SpecError):
            raise
        raise SpecError([sentence((), 0, f"is not JSON that can be read: {error}")]) from None


def read_toml(source: str | os.PathLike[str]) -> tuple[dict[str, object], dict[Place, int]]:
    """Read a TOML text or file: its table, and the line of each key; raise SpecError if it is not TOML."""
    if isinstance(source, str):
        data = source.encode("utf-8", "surrogatepass")
    else:
        try:
            with Path(source).open("rb") as file:
                data = file.read(SPEC_BYTES + 1)
        except (OSError, ValueError) as error:
            raise SpecError([sentence((), 0, f"file {shown(str(source))} cannot be read: {error}")]) from None
    content = _decoded(data)
    lines = key_lines(content)
    try:
        return tomllib.loads(content), lines
    except tomllib.TOMLDecodeError as error:
        fault, _, column = str(error).partition(" (at line ")
        at = re.match(r"(\d+), column (\d+)", column)
        what = f"is not TOML: {fault}" + (f" (column {at[2]})" if at else "")
        if fault == "Invalid value":
            what += "; put texts in quotes, write true and false in lower case, and omit what is None"
        if "Unescaped" in fault:
            what += "; put paths with backslashes in single quotes, or write /"
        raise SpecError([sentence((), int(at[1]) if at else content.count("\n") + 1, what)]) from None
    except (ValueError, RecursionError) as error:
        raise SpecError([sentence((), 0, f"is not TOML that can be read: {error}")]) from None


def _decoded(data: bytes) -> str:
    if len(data) > SPEC_BYTES:
        raise SpecError([sentence((), 0, f"must be a text of at most {SPEC_BYTES} bytes (1 MiB), found more")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SpecError([sentence((), line, f"must be UTF-8, found byte {data[error.start]:#04x}")]) from None


_LONG_STRING = re.compile(r"\"{3}.*?\"{3}|'{3}.*?'{3}", re.DOTALL)
_GAP = r"[ \t]*"
_PART = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_KEY = re.compile(
    rf"^{_GAP}(?P<header>\[{{1,2}}{_GAP})?(?P<key>{_PART}(?:{_GAP}\.{_GAP}{_PART})*){_GAP}(?(header)\]|=)", re.MULTILINE
)


def key_lines(content: str) -> dict[Place, int]:
    """Find the line on which each key of a TOML text first occurs; a key in an inline table has no line.

    A key within more than `MAX_DEPTH` tables has no line either, so that the time is linear in the length of the text.

    Examples
    --------
    >>> key_lines('''a = 1
    ... [b]
    ... "c d".e = { f = 2 }
    ... ''')
    {('a',): 1, ('b',): 2, ('b', 'c d'): 3, ('b', 'c d', 'e'): 3}
    """
    lines: dict[Place, int] = {}
    table: Place = ()
    line, counted_to = 1, 0
    content = _LONG_STRING.sub(lambda string: "\n" * string[0].count("\n"), content)
    for found in _KEY.finditer(content):
        key = tuple(part.strip("\"'") for part in re.findall(_PART, found["key"]))[:MAX_DEPTH]
        place = key if found["header"] else (*table, *key)[:MAX_DEPTH]
        table = place if found["header"] else table
        line += content.count("\n", counted_to, found.start("key"))
        counted_to = found.start("key")
        for end in range(1, len(place) + 1):
            lines.setdefault(place[:end], line)
    return lines
