"""The ledger: every value that a user's function ever returned, in one SQLite file, so that no pair is paid for twice.

A pair is two 64-bit keys, of the objects' content or ids; a stored NULL is a pair that was asked and is unobserved.
Pairs are only appended; of one that was recorded twice, the first value counts. The file is locked by the operating
system for as long as it is open, so a killed job leaves no stale lock behind.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from distforest.errors import DistforestError, InputError, JobError, warn_caller

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.sources.source import Floats, Ints

APPLICATION = 0x64664C67  # "dfLg" in the header of the file: what tells a ledger from another application's database
LEDGER_FORMAT = 1
LOADED_ROWS = 65_536  # rows read at once: what bounds the memory of `load` beyond its answer
ROW = np.dtype([("a", np.int64), ("b", np.int64), ("value", np.float64), ("own", np.bool_)])
LEDGER_TABLES = (  # no index on a and b: keys are random, so every pair of a batch would change another page
    "CREATE TABLE pairs (place INTEGER PRIMARY KEY, a INTEGER, b INTEGER, value REAL, job INTEGER)",
    "CREATE TABLE jobs (number INTEGER PRIMARY KEY, name TEXT UNIQUE)",
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID",
)
LEDGER_DAMAGED = "is damaged or no database; restore it or name another file"
FAULTS = {
    sqlite3.SQLITE_BUSY: "is in use by another job; wait for it or name another file",
    sqlite3.SQLITE_CORRUPT: LEDGER_DAMAGED,
    sqlite3.SQLITE_NOTADB: LEDGER_DAMAGED,
}


@dataclass(frozen=True, eq=False)
class Known:
    """What a ledger knows of two lists of keys: m coordinates, their values (NaN: unobserved), and whose they are."""

    left: Ints  # positions in the lists, shape (m,), of the first occurrence of each key
    right: Ints
    values: Floats
    own: NDArray[np.bool_]  # whether the asking job itself recorded the pair


class Ledger(AbstractContextManager["Ledger"]):
    """An open ledger: one writer, used from the thread that opened it; ``Ledger.open`` makes one.

    Examples
    --------
    >>> signature = {"function": "strings:edit", "version": None, "sha256": "0b"}
    >>> with Ledger.open(None, signature=signature, symmetric=True, kind="distance") as ledger:
    ...     ledger.record(np.array([7, 9]), np.array([5, 7]), np.array([2.0, np.nan]), "first")
    ...     known = ledger.load(np.array([5, 9]), np.array([7]), "second")
    ...     known.left, known.right, known.values, ledger.count("first")
    (array([0, 1]), array([0, 0]), array([ 2., nan]), 2)
    """

    def __init__(self, connection: sqlite3.Connection, name: str, symmetric: bool) -> None:
        self._connection = connection
        self._name = name
        self._symmetric = symmetric

    @classmethod
    def open(
        cls, path: str | os.PathLike[str] | None, *, signature: Mapping[str, object], symmetric: bool, kind: str
    ) -> Self:
        """Open a ledger, or start one where there is none; warns where the function has changed since it was started.

        Parameters
        ----------
        path : str, path or None
            The file; None keeps the ledger in memory.
        signature : mapping
            The function whose values these are, as `distforest.sources.lazy.identity.signature` tells it.
        symmetric : bool
            Whether (a, b) and (b, a) are one pair. The ``kind`` is "similarity" or "distance".

        Raises
        ------
        InputError
            If the file is in use, cannot be opened, is no ledger, or holds other values; it is left as it was.
        """
        # absolute: SQLite gives "" and ":memory:" a meaning of their own
        name = ":memory:" if path is None else str(Path(path).absolute())
        asked = {**signature, "symmetric": bool(symmetric), "kind": kind}
        with _explained(name, InputError):
            connection = sqlite3.connect(name, timeout=0, isolation_level=None)
        try:
            with _explained(name, InputError):
                _enter(connection, name, asked)
        except BaseException:  # a warning turned into an error too
            connection.close()
            raise
        return cls(connection, name, bool(symmetric))

    def record(self, left: Ints, right: Ints, values: Floats, job: str) -> None:
        """Write pairs in one transaction that, once this returns, outlives the process.

        A pair that is there already keeps its first value; what is recorded again only takes space.

        Parameters
        ----------
        left, right, values : int64, int64 and float64 arrays, shape (m,)
            Keys of the pairs, and their values; NaN for unobserved. ``job`` paid for them.

        Raises
        ------
        InputError
            If the arrays differ in shape.
        JobError
            If the file cannot be written, for example because the disk is full; nothing of the batch is kept.
        """
        left, right, values = np.asarray(left, np.int64), np.asarray(right, np.int64), np.asarray(values, np.float64)
        if left.ndim != 1 or not left.shape == right.shape == values.shape:
            found = f"{left.shape}, {right.shape} and {values.shape}"
            raise InputError(f"left, right and values must be of one shape (m,); found {found}; pass one value a pair")
        if self._symmetric:
            left, right = np.minimum(left, right), np.maximum(left, right)
        with _explained(self._name, JobError), self._connection:
            self._connection.execute("BEGIN")
            self._connection.execute("INSERT INTO jobs (name) VALUES (?) ON CONFLICT DO NOTHING", (job,))
            number = self._connection.execute("SELECT number FROM jobs WHERE name = ?", (job,)).fetchone()[0]
            rows = zip(left.tolist(), right.tolist(), values.tolist(), repeat(number))  # SQLite stores NaN as NULL
            self._connection.executemany("INSERT INTO pairs (a, b, value, job) VALUES (?, ?, ?, ?)", rows)

    def load(self, left_keys: Ints, right_keys: Ints, job: str) -> Known:
        """Find the stored pairs of a left and a right key, reading the whole table once.

        Parameters
        ----------
        left_keys, right_keys : int64 arrays, shapes (n,) and (k,)
            Keys; duplicates are answered at their first position. The pairs of ``job`` are marked as ``own``.

        Returns
        -------
        Known
            The m coordinates found, row after row. In a symmetric ledger a pair that fits either way round is given
            at both places.

        Raises
        ------
        InputError, JobError
            If the file is damaged, or cannot be read.
        """
        lefts, rights = np.unique(left_keys, return_index=True), np.unique(right_keys, return_index=True)
        found = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, ROW))]
        with _explained(self._name, JobError):
            query = "SELECT a, b, value, job IS (SELECT number FROM jobs WHERE name = ?) FROM pairs ORDER BY place"
            cursor = self._connection.execute(query, (job,))
            while chunk := cursor.fetchmany(LOADED_ROWS):
                rows = np.array(chunk, ROW)  # NULL becomes NaN
                mirrored = rows[rows["a"] != rows["b"]] if self._symmetric else rows[:0]
                for first, second, part in (("a", "b", rows), ("b", "a", mirrored)):
                    left, right = _find(lefts, part[first]), _find(rights, part[second])
                    both = (left >= 0) & (right >= 0)
                    found.append((left[both], right[both], part[both]))
        left, right, rows = (np.concatenate(parts) for parts in zip(*found, strict=True))
        place = left * len(right_keys) + right
        _, first = np.unique(place, return_index=True)  # of one pair's values, the one that was recorded first
        return Known(left[first], right[first], rows["value"][first], rows["own"][first])

    def count(self, job: str | None = None) -> int:
        """Number of pairs in the ledger, or of those that ``job`` was the first to record; sorts the whole table."""
        query = (  # beside min(), SQLite takes job from the row of the minimum
            "SELECT count(*) FROM (SELECT job, min(place) AS first FROM pairs GROUP BY a, b) WHERE first > 0 "
            "AND (:job IS NULL OR job = (SELECT number FROM jobs WHERE name = :job))"
        )
        with _explained(self._name, JobError):
            return int(self._connection.execute(query, {"job": job}).fetchone()[0])

    def close(self) -> None:
        """Close the file and let others open it; closing twice does no harm."""
        self._connection.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def _find(places: tuple[Ints, Ints], asked: Ints) -> Ints:
    """First positions of ``asked``, shape (m,), -1 where there is none; ``places``: sorted keys, first positions."""
    keys, first = places
    if not len(keys):
        return np.full(len(asked), -1)
    near = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.where(keys[near] == asked, first[near], -1)


def _enter(connection: sqlite3.Connection, name: str, asked: dict[str, object]) -> None:
    """Lock the file, then start the ledger in it or check the one that is there; a refused file is not written to."""
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # a lock, once taken, is kept until the connection closes
    connection.execute("PRAGMA synchronous = FULL")
    with connection:  # commits, or rolls back on an error
        connection.execute("BEGIN EXCLUSIVE")
        asking = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        mark, version, tables = (connection.execute(statement).fetchone()[0] for statement in asking)
        if (mark, version, tables) == (0, 0, 0):
            for statement in (
                *LEDGER_TABLES,
                f"PRAGMA application_id = {APPLICATION}",
                f"PRAGMA user_version = {LEDGER_FORMAT}",
            ):
                connection.execute(statement)
            rows = [(part, json.dumps(value)) for part, value in asked.items()]
            connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)
        elif mark != APPLICATION or version != LEDGER_FORMAT:
            what = f"a ledger of format {version}" if mark == APPLICATION else "another application's database"
            raise InputError(f"a ledger of format {LEDGER_FORMAT} was expected; {name!r} is {what}; name another file")
        connection.execute("SELECT place, a, b, value, job, number, name FROM pairs, jobs LIMIT 0")
        found = {part: json.loads(value) for part, value in connection.execute("SELECT name, value FROM meta")}
    _compare(name, asked, found)


def _compare(name: str, asked: dict[str, object], found: dict[str, object]) -> None:
    differing = (part for part in asked if asked[part] != found.get(part))
    differs = {part: f"{part}: asked {asked[part]!r}, found {found.get(part)!r}" for part in differing}
    refused = [text for part, text in differs.items() if part in ("function", "symmetric", "kind")]
    if refused:
        raise InputError(f"the ledger {name!r} holds other values ({'; '.join(refused)}); name another file")
    if differs:
        text = f"the ledger {name!r} was started with another state of the function ({'; '.join(differs.values())})"
        warn_caller(f"{text}; its values are used as they are: name another file to ask anew")


@contextmanager
def _explained(name: str, otherwise: type[DistforestError]) -> Iterator[None]:
    """Turn SQLite's errors into ours: ``otherwise``, except for what naming another file would mend."""
    try:
        yield
    except sqlite3.ProgrammingError:  # closed, or used from another thread: the caller's mistake, told as it is
        raise
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the kind, the rest its cause
        if code in FAULTS:
            raise InputError(f"the ledger {name!r} {FAULTS[code]} ({error})") from error
        raise otherwise(f"the ledger {name!r} cannot be used ({error}); check its path, rights and disk") from error
