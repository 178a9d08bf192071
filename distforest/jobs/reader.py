"""Reading a table from TOML, JSON or Python: rules for its values, and all faults with their lines."""

from __future__ import annotations

import difflib
import json
import math
import re
import reprlib
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dask.utils import parse_bytes

from distforest.errors import SpecError

if TYPE_CHECKING:
    import os

SPEC_BYTES = 2**20
"""Size of the largest text that is read."""

MAX_KEYS = 100
"""Keys of the largest table that is read: it takes time to suggest the right key for each wrong one."""

MAX_DEPTH = 8
"""Parts of the longest key that is read: the time of tomllib grows with the square of the parts."""

LARGEST_INTEGER = 2**63 - 1
"""The largest integer of TOML."""

NOT_GIVEN = object()

Place = tuple[str, ...]
"""The place of a value: the names of the tables around it, and its own name."""


# --- rules for values -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """A rule for a value.

    Attributes
    ----------
    words
        The allowed values in words.
    plain
        Returns the plain form of an allowed value, and raises ValueError for any other one.
    schema
        The same rule as JSON Schema, as far as that can state it.
    """

    words: str
    plain: Callable[[object], object]
    schema: Mapping[str, object]


@dataclass(frozen=True)
class Key:
    """One key of a table: its name, the rule for its value, and its default; without a default it is required."""

    name: str
    rule: Rule
    default: object = NOT_GIVEN


def exactly(number: int) -> Rule:
    """Allow one number."""
    return Rule(f"the number {number}", lambda value: _whole(value, number, number), {"const": number})


def integer(low: int) -> Rule:
    """Allow an integer of at least ``low``, but no bool."""
    schema = {"type": "integer", "minimum": low, "maximum": LARGEST_INTEGER}
    return Rule(f"an integer from {low} to 2^63 - 1", lambda value: _whole(value, low, LARGEST_INTEGER), schema)


def word(words: Collection[str]) -> Rule:
    """Allow one of some words."""

    def plain(value: object) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError
        return str(value)

    return Rule(" or ".join(map(repr, words)), plain, {"enum": list(words)})


def text(words: str, end: str = "") -> Rule:
    """Allow a string that can name a file, a bucket or a function, and that ends in ``end``."""

    def plain(value: object) -> str:
        # Control characters and lone surrogates name no file and no bucket, and would spoil every log.
        if (
            isinstance(value, str)
            and value.strip()
            and value.isprintable()
            and value.endswith(end)
            and not homed(value)
        ):
            return str(value)
        raise ValueError

    return Rule(words, plain, {"type": "string", "pattern": f"{re.escape(end)}$" if end else r"\S"})


def homed(value: object) -> bool:
    """Whether a text begins with the sign that stands for the home folder in a shell, and nowhere else."""
    return isinstance(value, str) and value.startswith("~/")


def _whole(value: object, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= int(value) <= high:
        raise ValueError
    return int(value)


def _flag(value: object) -> bool:
    if value is not True and value is not False:
        raise ValueError
    return value


def _bytes(value: object) -> int:
    if isinstance(value, str):
        # parse_bytes reads "" as one byte and "GiB" as one GiB; here a number is required.
        value = int(parse_bytes(value)) if re.match(r"[0-9]", value) else None
    return _whole(value, 1, LARGEST_INTEGER)


def _positive(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise ValueError
    return float(value)


PER_WORKER = "auto"
"""The word for as many as there are workers."""


def _number_or_auto(value: object) -> int | str:
    return PER_WORKER if value == PER_WORKER else _whole(value, 1, LARGEST_INTEGER)


NUMBER_OR_AUTO = Rule(
    f"{PER_WORKER!r}, or an integer from 1 to 2^63 - 1",
    _number_or_auto,
    {"anyOf": [{"enum": [PER_WORKER]}, integer(1).schema]},
)
FLAG = Rule("true or false", _flag, {"type": "boolean"})
SIZE = Rule(
    "a size such as '4GiB', or a number of bytes from 1",
    _bytes,
    {"anyOf": [{"type": "string", "pattern": "^[0-9]"}, integer(1).schema]},
)
NOT_NEGATIVE = Rule(
    "a finite real number >= 0", lambda value: 0.0 if value == 0 else _positive(value), {"type": "number", "minimum": 0}
)
POSITIVE = Rule("a finite real number > 0", _positive, {"type": "number", "exclusiveMinimum": 0})


# --- reading a table --------------------------------------------------------------------------------------


class Reader:
    """Reads a parsed table and collects all faults; a faulty value is read as None.

    Examples
    --------
    >>> reader = Reader({("trees",): 3})
    >>> reader.values((), {"trees": 0}, [Key("trees", integer(1)), Key("depth", integer(1), 5)])
    {'trees': None, 'depth': 5}
    >>> print(reader.error())
    trees (line 3): must be an integer from 1 to 2^63 - 1, found 0
    """

    def __init__(self, lines: Mapping[Place, int]) -> None:
        self._lines = lines
        self._faults: list[tuple[int, str]] = []

    @property
    def found_faults(self) -> bool:
        """Whether any fault was noted."""
        return bool(self._faults)

    def error(self) -> SpecError:
        """All faults, in the order of the file."""
        return SpecError([sentence for _, sentence in sorted(self._faults, key=lambda fault: fault[0])])

    def fault(self, place: Place, what: str) -> None:
        """Note a fault, with the line of its key or of the nearest table around it."""
        near = place
        while near and near not in self._lines:
            near = near[:-1]
        line = self._lines.get(near, 0)
        self._faults.append((line, sentence(place, line, what)))

    def mapping(self, place: Place, value: object, wanted: str) -> Mapping[Any, object] | None:
        """Return ``value`` if it is a table that is not too large; otherwise note a fault and return None."""
        if isinstance(value, Mapping) and len(value) <= MAX_KEYS:
            return value
        if value is NOT_GIVEN:
            self.fault(place, f"is missing; it must be {wanted}")
        elif isinstance(value, Mapping):
            self.fault(place, f"must be {wanted}, found one of {len(value)} keys")
        else:
            self.fault(place, f"must be {wanted}, found {shown(value)}")
        return None

    def table(
        self, place: Place, value: object, known: Collection[str], cures: Mapping[str, str] | None = None
    ) -> dict[str, object] | None:
        """Return the known keys of a table, None without one; others are faults, some of which have ``cures``."""
        given = self.mapping(place, value, f"a table of {listed(known)}")
        if given is None:
            return None
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1) if isinstance(name, str) else []
                hint = f"did you mean {near[0]!r}?" if near else f"known here are {listed(known)}"
                self.fault((*place, name), f"unknown key {shown(name)}; {(cures or {}).get(name, hint)}")
        return {name: given[name] for name in known if name in given}

    def values(self, place: Place, given: Mapping[str, object] | None, keys: Iterable[Key]) -> dict[str, Any]:
        """Read all keys, with their defaults; None for a faulty value, or for each value if there is no table."""
        plain: dict[str, Any] = {}
        for key in keys:
            value = key.default if given is None else given.get(key.name, key.default)
            plain[key.name] = None
            if value is key.default and value is not NOT_GIVEN:
                plain[key.name] = value
            elif value is not NOT_GIVEN:
                try:
                    plain[key.name] = key.rule.plain(value)
                except (ValueError, OverflowError):
                    cure = "; only a shell reads ~ as the home folder, so write that out" if homed(value) else ""
                    self.fault((*place, key.name), f"must be {key.rule.words}, found {shown(value)}{cure}")
            elif given is not None:
                self.fault((*place, key.name), f"is missing; it must be {key.rule.words}")
        return plain


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
