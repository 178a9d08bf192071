"""The ledger: all values that a user's function has returned, in one SQLite file, so that no pair is paid for twice.

A pair is two 64-bit keys, of the contents or the ids of its objects. A stored NULL means that the function was asked,
and the pair is unobserved. Pairs are only appended; of a pair that is recorded twice, the first value counts. The
operating system locks the file while it is open, so a killed job leaves no stale lock.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from distforest.errors import DistforestError, InputError, JobError, warn_caller

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.sources.source import Floats, Ints

APPLICATION = 0x64664C67  # "dfLg" in the header of the file, by which a ledger is recognised
LEDGER_FORMAT = 1
LOADED_ROWS = 65_536  # rows read at once; bounds the memory of `load` beyond its result
ROW = np.dtype([("a", np.int64), ("b", np.int64), ("value", np.float64), ("own", np.bool_)])
LEDGER_TABLES = (  # no index on a and b: as keys are random, each pair of a batch would change another page
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
    """The m pairs of two lists of keys that are in a ledger.

    Attributes
    ----------
    left, right
        Positions in the two lists, shape (m,), of the first occurrence of each key.
    values
        Values of the pairs, shape (m,); NaN means unobserved.
    is_own
        Which of them the job itself has recorded, shape (m,).
    """

    left: Ints
    right: Ints
    values: Floats
    is_own: NDArray[np.bool_]


class Ledger(AbstractContextManager["Ledger"]):
    """An open ledger: one writer, used from the thread that opened it. `open` creates one.

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
        """Open a ledger, or start one if there is none; warns if the function has changed since it was started.

        Parameters
        ----------
        path : str, path or None
            The file; None keeps the ledger in memory.
        signature : mapping
            The signature of the function, by `distforest.sources.lazy.identity.signature`.
        symmetric : bool
            Whether (a, b) and (b, a) are one pair. The ``kind`` is "similarity" or "distance".

        Raises
        ------
        InputError
            If the file is in use, cannot be opened, is no ledger, or has other values; it is not changed.
        """
        # absolute: SQLite gives "" and ":memory:" a meaning of their own
        name = ":memory:" if path is None else str(Path(path).absolute())
        meta = {**signature, "symmetric": bool(symmetric), "kind": kind}
        with _explained(name, InputError):
            connection = sqlite3.connect(name, timeout=0, isolation_level=None)
        try:
            with _explained(name, InputError):
                _enter(connection, name, meta)
        except BaseException:  # a warning turned into an error too
            connection.close()
            raise
        return cls(connection, name, bool(symmetric))

    def record(self, left: Ints, right: Ints, values: Floats, job: str) -> None:
        """Write pairs in one transaction, which is on disk when this returns.

        A pair that is already recorded keeps its first value; recording it again only takes space.

        Parameters
        ----------
        left, right, values : int64, int64 and float64 arrays, shape (m,)
            Keys of the pairs, and their values; NaN for unobserved. ``job`` is the name of the job that paid for them.

        Raises
        ------
        JobError
            If the file cannot be written, for example because the disk is full; nothing of the batch is kept.
        """
        if self._symmetric:
            left, right = np.minimum(left, right), np.maximum(left, right)
        with _explained(self._name, JobError), self._connection:
            self._connection.execute("BEGIN")
            self._connection.execute("INSERT INTO jobs (name) VALUES (?) ON CONFLICT DO NOTHING", (job,))
            number = self._connection.execute("SELECT number FROM jobs WHERE name = ?", (job,)).fetchone()[0]
            columns = left.tolist(), right.tolist(), values.tolist(), [number] * len(left)
            rows = zip(*columns, strict=True)  # SQLite stores NaN as NULL
            self._connection.executemany("INSERT INTO pairs (a, b, value, job) VALUES (?, ?, ?, ?)", rows)

    def load(self, left_keys: Ints, right_keys: Ints, job: str) -> Known:
        """Find the stored pairs of a left and a right key, reading the whole table once.

        Parameters
        ----------
        left_keys, right_keys : int64 arrays, shapes (n,) and (k,)
            Keys; a key that occurs twice is found at its first position.
        job : str
            Name of the job whose pairs are marked in `Known.is_own`.

        Returns
        -------
        Known
            The m pairs, row after row. In a symmetric ledger a pair that fits both ways round is given at both places.

        Raises
        ------
        InputError, JobError
            If the file is damaged, or cannot be read.
        """
        lefts, rights = np.unique(left_keys, return_index=True), np.unique(right_keys, return_index=True)
        parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, ROW))]
        with _explained(self._name, JobError):
            query = "SELECT a, b, value, job IS (SELECT number FROM jobs WHERE name = ?) FROM pairs ORDER BY place"
            cursor = self._connection.execute(query, (job,))
            while chunk := cursor.fetchmany(LOADED_ROWS):
                rows = np.array(chunk, ROW)  # NULL becomes NaN
                mirrored = rows[rows["a"] != rows["b"]] if self._symmetric else rows[:0]
                for first, second, part in (("a", "b", rows), ("b", "a", mirrored)):
                    left, right = _find(lefts, part[first]), _find(rights, part[second])
                    both = (left >= 0) & (right >= 0)
                    parts.append((left[both], right[both], part[both]))
        left, right, rows = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        place = left * len(right_keys) + right
        _, first = np.unique(place, return_index=True)  # of one pair's values, the one that was recorded first
        return Known(left[first], right[first], rows["value"][first], rows["own"][first])

    def count(self, job: str | None = None) -> int:
        """Number of pairs in the ledger, or of pairs that ``job`` was the first to record; sorts the whole table."""
        query = (  # beside min(), SQLite takes job from the row of the minimum
            "SELECT count(*) FROM (SELECT job, min(place) AS first FROM pairs GROUP BY a, b) WHERE first > 0 "
            "AND (:job IS NULL OR job = (SELECT number FROM jobs WHERE name = :job))"
        )
        with _explained(self._name, JobError):
            return int(self._connection.execute(query, {"job": job}).fetchone()[0])

    def close(self) -> None:
        """Close the file, so that others can open it; closing twice does no harm."""
        self._connection.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def _find(places: tuple[Ints, Ints], wanted: Ints) -> Ints:
    """First positions of the keys ``wanted``, shape (m,); -1 for a missing one. ``places``: sorted keys, positions."""
    keys, first = places
    if not len(keys):
        return np.full(len(wanted), -1)
    near = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[near] == wanted, first[near], -1)


def _enter(connection: sqlite3.Connection, name: str, meta: dict[str, object]) -> None:
    """Lock the file, then start a ledger in it or check its ledger; a refused file is not changed."""
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # a lock, once taken, is kept until the connection closes
    connection.execute("PRAGMA synchronous = FULL")
    with connection:  # commits, or rolls back on an error
        connection.execute("BEGIN EXCLUSIVE")
        queries = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        mark, version, tables = (connection.execute(query).fetchone()[0] for query in queries)
        if (mark, version, tables) == (0, 0, 0):
            for statement in (
                *LEDGER_TABLES,
                f"PRAGMA application_id = {APPLICATION}",
                f"PRAGMA user_version = {LEDGER_FORMAT}",
            ):
                connection.execute(statement)
            rows = [(part, json.dumps(value)) for part, value in meta.items()]
            connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)
        elif mark != APPLICATION or version != LEDGER_FORMAT:
            kind = f"a ledger of format {version}" if mark == APPLICATION else "another application's database"
            raise InputError(f"a ledger of format {LEDGER_FORMAT} was expected; {name!r} is {kind}; name another file")
        connection.execute("SELECT place, a, b, value, job, number, name FROM pairs, jobs LIMIT 0")
        stored = {part: json.loads(value) for part, value in connection.execute("SELECT name, value FROM meta")}
    _compare(name, meta, stored)


def _compare(name: str, meta: dict[str, object], stored: dict[str, object]) -> None:
    """Refuse the ledger of another function, and warn of one of another state of the function."""
    differs = {
        part: f"{part}: asked {value!r}, found {stored.get(part)!r}"
        for part, value in meta.items()
        if value != stored.get(part)
    }
    differences = "; ".join(differs.values())
    if differs.keys() & {"function", "symmetric", "kind"}:
        raise InputError(f"the ledger {name!r} holds other values ({differences}); name another file")
    if differs:
        text = f"the ledger {name!r} was started with another state of the function ({differences})"
        warn_caller(f"{text}; its values are used as they are: name another file to ask anew")


@contextmanager
def _explained(name: str, otherwise: type[DistforestError]) -> Iterator[None]:
    """Turn SQLite's errors into InputError if another file helps, else into ``otherwise``."""
    try:
        yield
    except sqlite3.ProgrammingError:  # closed, or used from another thread: a mistake of the caller
        raise
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the kind, the rest its cause
        if code in FAULTS:
            raise InputError(f"the ledger {name!r} {FAULTS[code]} ({error})") from error
        raise otherwise(f"the ledger {name!r} cannot be used ({error}); check its path, rights and disk") from error
