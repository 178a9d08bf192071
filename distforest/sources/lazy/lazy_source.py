"""A lazy source: a matrix of values of a user's function, each asked for once, when it is needed."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np

from distforest.errors import InputError, JobError
from distforest.sources.given import unmasked
from distforest.sources.lazy.callbacks import AskingPolicy, Batch, FunctionAnswer, Lazy, answers
from distforest.sources.lazy.identity import Items, keys_of, name_of
from distforest.sources.lazy.ledger import Ledger
from distforest.sources.lazy.pairs import PAID, PairCodes, Pairs
from distforest.sources.readings import DISSIMILARITIES, SIMILARITIES
from distforest.sources.side_by_side import SideBySide
from distforest.sources.source import Projections, ReadByEntries

if TYPE_CHECKING:
    from distforest.sources.source import Floats, Int32s, Ints

OF_NEW_OBJECTS = "for new objects, set similarity=Lazy(...) with objects that hold them, too, and give their places"
"""What to do about objects that a similarity does not hold."""

Ask = Callable[[Iterable[Batch]], Iterator[tuple[int, FunctionAnswer]]]
"""Asks for batches; yields (place of the batch, its answer) as they complete."""


@dataclass(frozen=True, eq=False)
class Objects:
    """The objects for which the columns and the rows of a matrix stand; objects of equal content are one.

    Attributes
    ----------
    items
        All objects, those of the columns first.
    key
        The key of the content of each distinct object, shape (n_distinct,).
    first
        The first position of each distinct object in ``items``, ascending, shape (n_distinct,).
    column, row
        Number of the distinct object of each column and each row.
    n_columns
        Number of columns.
    """

    items: Items
    key: Ints
    first: Ints
    column: Ints
    row: Ints
    n_columns: int

    @classmethod
    def from_columns(cls, columns: Items, rows: Items | None = None) -> Objects:
        """The objects of columns, and of rows if they are others; raises InputError for an object without content."""
        items = columns if rows is None else joined(columns, rows)
        key, first, number = np.unique(keys_of(items), return_index=True, return_inverse=True)
        order = np.argsort(first)
        number = np.argsort(order)[number]
        n = len(columns)
        return cls(items, key[order], first[order], number[:n], number[:n] if rows is None else number[n:], n)

    @property
    def sha256(self) -> str:
        """A digest of the contents of the columns' objects, in order."""
        return hashlib.sha256(self.key[self.column].tobytes()).hexdigest()

    def batch(self, left: Ints, right: Ints) -> Batch:
        """Pairs of distinct objects, by their numbers."""
        left, right = self.first[left], self.first[right]
        return Batch(chosen(self.items, left), chosen(self.items, right), Names(left, right, self.n_columns))


@dataclass(frozen=True, eq=False)
class Names:
    """Names of pairs in messages, worked out only when needed from the positions of their objects among all items."""

    left: Ints
    right: Ints
    n_columns: int

    def __len__(self) -> int:
        return len(self.left)

    def __getitem__(self, pair: SupportsIndex, /) -> tuple[str, str]:
        """The names of the two objects of a pair: a column's number, or that of a query."""
        one, other = (
            str(place) if place < self.n_columns else f"query {place - self.n_columns}"
            for place in (int(self.left[pair]), int(self.right[pair]))
        )
        return one, other


def chosen(items: Items, places: Ints) -> Items:
    """The items at some positions: an array if they are in an array, else a list."""
    return items[places] if isinstance(items, np.ndarray) else [items[place] for place in places.tolist()]


def joined(left: Items, right: Items) -> Items:
    """Concatenate two sequences: into an array if both are arrays of rows of one shape, else into a list."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray) and left.shape[1:] == right.shape[1:]:
        return np.concatenate([left, right])
    return [*left, *right]


def items_of(lazy: Lazy, rows: object) -> Items:
    """The objects for which rows stand: the rows themselves, or the objects at these positions in ``lazy.objects``.

    Raises
    ------
    InputError
        The rows are no sequence, empty, or positions out of bounds.
    """
    rows = sequence_of(rows)
    if lazy.objects is None:
        return rows
    objects, places = sequence_of(lazy.objects), np.asarray(rows)
    n = len(objects)
    if places.ndim != 1 or places.dtype.kind not in "iu":
        kind = f"shape {places.shape} of {places.dtype}"
        found = f"rows are places in the objects of Lazy(objects=...), integers of shape (n,); found {kind}"
        raise InputError(f"{found}; {OF_NEW_OBJECTS}")
    if places.min() < 0 or places.max() >= n:
        found = f"places in the objects of Lazy(objects=...) must be in 0..{n - 1}, found {places.min()}"
        raise InputError(f"{found} to {places.max()}; {OF_NEW_OBJECTS}")
    return chosen(objects, places)


def sequence_of(objects: object) -> Items:
    """Read objects in order: an array stays an array, a column or table of pandas becomes one, others become a list.

    Raises
    ------
    InputError
        The objects have no order (a set, a dict, a generator) or no length, or there are none.
    """
    plain = unmasked(objects.to_numpy() if hasattr(objects, "to_numpy") else objects)
    items: Items
    if isinstance(plain, np.ndarray) and plain.ndim > 0:
        items = plain
    elif isinstance(plain, Sequence) and not isinstance(plain, (str, bytes)):
        items = list(plain)
    else:
        raise InputError(f"objects must be a sequence, one for each row; found {type(plain).__name__}")
    if len(items) == 0:
        raise InputError("objects: found none, while a minimum of 1 is required")
    return items


def origin_of(lazy: Lazy, objects: Objects) -> dict[str, object]:
    """The entry on similarities in a forest's provenance: which function they are of, and of which objects."""
    return {**lazy.signature, "symmetric": bool(lazy.symmetric), "objects": objects.sha256}


@dataclass(frozen=True, eq=False)
class ValueSupplier:
    """How values are obtained, remembered and paid for.

    Attributes
    ----------
    ask
        Asks for batches of pairs.
    at_once
        Number of batches that are asked for at the same time.
    ledger
        Remembers values; without one they are remembered for as long as the source exists.
    job
        Name of the job that pays, for the ledger.
    budget
        The most pairs that may be paid for; None for no limit.
    """

    ask: Ask
    at_once: int = 1
    ledger: Ledger | None = None
    job: str = ""
    budget: int | None = None

    @classmethod
    def here(cls, lazy: Lazy, ledger: Ledger | None = None, job: str = "", budget: int | None = None) -> ValueSupplier:
        """A supplier that calls the function in this process."""
        ask = partial(
            answers, lazy.function, policy=AskingPolicy(lazy.retries, lazy.timeout), concurrency=lazy.concurrency
        )
        return cls(ask, lazy.concurrency, ledger, job, budget)


class LazySource(ReadByEntries):
    """The similarities of rows to columns; the function is asked only for pairs that a projection needs.

    Unknown pairs of a request are admitted candidate by candidate while the budget lasts, asked for in batches, written
    into the ledger, and then used. The values of a refused candidate are NaN. Distances become similarities, -d^2/2,
    and that of an object to itself is 0; with ``as_given`` they stay as the function returns them, also that one.

    Examples
    --------
    >>> from distforest.sources.lazy.callbacks import Lazy, pairwise
    >>> lazy = Lazy(pairwise(lambda a, b: float(abs(a - b))), kind="distance")
    >>> source = LazySource(lazy, Objects.from_columns(np.array([1, 5, 7])), ValueSupplier.here(lazy))
    >>> source.entries(np.array([0, 1, 1], np.int32), np.array([1, 0, 1], np.int32)), source.n_evaluations
    (array([-8., -8.,  0.]), 1)
    """

    def __init__(self, lazy: Lazy, objects: Objects, supply: ValueSupplier, as_given: bool = False) -> None:
        self.lazy, self.objects, self.supply = lazy, objects, supply
        is_distance = lazy.kind == "distance" and not as_given
        naming = PairCodes(objects.row, objects.column, len(objects.first), bool(lazy.symmetric), is_distance)
        self.pairs = Pairs(naming, -1 if supply.budget is None else supply.budget)
        self.n_evaluations = 0
        self.spent = False
        self._reading = DISSIMILARITIES if is_distance else SIMILARITIES
        self._lock, self._thread = threading.Lock(), threading.local()
        if supply.ledger is not None:
            self._recall(supply.ledger)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.objects.row), len(self.objects.column)

    @property
    def nbytes(self) -> int:
        """Size of the values that are remembered."""
        return self.pairs.nbytes

    def entries(self, rows: Int32s, columns: Int32s) -> Floats:
        """The values at ``(rows[e], columns[e])``, shape (n_entries,); each may be refused by itself."""
        each = np.arange(len(rows) + 1)
        return self.project(rows, each, Projections(1, each, columns, np.ones(len(rows))))[0]

    def project(self, rows: Int32s, starts: Ints, projections: Projections) -> Floats:
        """The candidates' values, shape (width, n_rows); NaN if a value is unobserved or the candidate is refused.

        Raises
        ------
        JobError
            The function failed for a pair at every try; the values before it are in the ledger.
        """
        with self._lock:
            refused, again, codes = self.pairs.admit(rows, starts, projections)
            self.spent = self.spent or bool(refused.any())
            self._charge(int(again.sum()))
            self._ask(codes[~again])
            return self.pairs.project(rows, starts, projections, refused)

    def _ask(self, codes: Ints) -> None:
        size = max(1, min(self.lazy.batch_size, -(-len(codes) // self.supply.at_once)))
        faults: list[str] = []
        is_open = np.ones(len(codes), np.bool_)

        def batches() -> Iterator[Batch]:
            for first in range(0, len(codes), size):
                if faults:
                    return
                yield self._batch(codes[first : first + size])

        try:
            for place, answer in self.supply.ask(batches()):
                values, error, largest = answer.values, answer.error, self._reading.largest
                if (bad := np.abs(values) > largest).any():  # too large for a similarity or a distance
                    values = values[: int(bad.argmax())]
                    pair = self._batch(codes[place * size + len(values) :][:1]).names[0]
                    returned = f"{name_of(self.lazy.function)} returned {answer.values[len(values)]:g}"
                    error = f"{returned} for pair ({pair[0]}, {pair[1]}): beyond {largest:g}; scale its values"
                answered = slice(place * size, place * size + len(values))
                self._learn(codes[answered], values)
                is_open[answered] = False
                faults += [error] if error else []
        finally:
            if is_open.any():
                self.pairs.withdraw(codes[is_open])
        if faults:
            raise JobError(f"{faults[0]}; the values before it are kept{'' if self.supply.ledger else ' in memory'}")

    def _batch(self, codes: Ints) -> Batch:
        return self.objects.batch(*divmod(codes, self.pairs.naming.n_objects))

    def _learn(self, codes: Ints, values: Floats) -> None:
        """Record values in the ledger, then use them."""
        if self.supply.ledger is not None:
            a, b = divmod(codes, self.pairs.naming.n_objects)
            self.supply.ledger.record(self.objects.key[a], self.objects.key[b], values, self.supply.job)
        self._charge(len(values))
        self.pairs.put(codes, self._reading.block(values[None, :], 0)[0])

    def _charge(self, n: int) -> None:
        self.n_evaluations += n
        self._thread.n_evaluations = self.n_evaluations_here + n

    @property
    def n_evaluations_here(self) -> int:
        """Number of pairs that this thread has paid for."""
        return int(getattr(self._thread, "n_evaluations", 0))

    def _recall(self, ledger: Ledger) -> None:
        """Take over the values in the ledger; those that this job has paid for are charged when they are needed."""
        rows, columns = self.objects.row, self.objects.column
        known = ledger.load(self.objects.key[rows], self.objects.key[columns], self.supply.job)
        try:
            values = self._reading.block(known.values[None, :], 0)[0]
        except InputError as error:
            fault = f"the ledger {self.lazy.ledger} holds a value beyond {self._reading.largest:g}"
            raise InputError(f"{fault}; name another one") from error
        codes = self.pairs.codes(known.left, known.right)
        self.pairs.put(codes[~known.is_own], values[~known.is_own])
        self.pairs.put(codes[known.is_own], values[known.is_own], PAID)


def lazy_sources(matrix: object) -> tuple[LazySource, ...]:
    """The lazy sources that a matrix consists of: itself, or those of several measures side by side; else none."""
    parts = matrix.sources if isinstance(matrix, SideBySide) else (matrix,)
    return tuple(part for part in parts if isinstance(part, LazySource))


@contextmanager
def opened_ledger(lazy: Lazy) -> Iterator[Ledger | None]:
    """Open the ledger that a similarity names; None if it names none."""
    if lazy.ledger is None:
        yield None
        return
    with Ledger.open(lazy.ledger, signature=lazy.signature, symmetric=bool(lazy.symmetric), kind=lazy.kind) as ledger:
        yield ledger
