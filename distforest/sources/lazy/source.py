"""A lazy source: a matrix whose values a user's function gives, each asked for once, when it is needed."""

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
from distforest.sources.lazy.callbacks import AskingPolicy, Batch, FunctionAnswer, Lazy, answers
from distforest.sources.lazy.identity import Items, keys_of, name_of
from distforest.sources.lazy.ledger import Ledger
from distforest.sources.lazy.pairs import PAID, PairCodes, Pairs
from distforest.sources.masked import unmasked
from distforest.sources.readings import DISSIMILARITIES, SIMILARITIES
from distforest.sources.source import Projections, block_entries

if TYPE_CHECKING:
    from distforest.sources.source import Floats, Int32s, Ints

Ask = Callable[[Iterable[Batch]], Iterator[tuple[int, FunctionAnswer]]]
"""Asks for batches; gives (place of the batch, its answer) as they complete."""


@dataclass(frozen=True, eq=False)
class Objects:
    """The objects that the columns of a matrix, and the rows of another list, stand for; equal ones are one.

    Attributes
    ----------
    items
        All of them, the columns' first.
    key
        The key of each distinct object's content, shape (n_distinct,).
    first
        Where in ``items`` each of them stands first, ascending, shape (n_distinct,).
    column, row
        Number of the distinct object of each column and row.
    n_columns
        How many of ``items`` are columns.
    """

    items: Items
    key: Ints
    first: Ints
    column: Ints
    row: Ints
    n_columns: int

    @classmethod
    def of(cls, columns: Items, rows: Items | None = None) -> Objects:
        """Columns, and rows where they are others; raises InputError for an object without content."""
        items = columns if rows is None else joined(columns, rows)
        key, first, number = np.unique(keys_of(items), return_index=True, return_inverse=True)
        order = np.argsort(first)
        number = np.argsort(order)[number]
        n = len(columns)
        return cls(items, key[order], first[order], number[:n], number[:n] if rows is None else number[n:], n)

    @property
    def sha256(self) -> str:
        """A digest of the contents of the columns' objects, in their order."""
        return hashlib.sha256(self.key[self.column].tobytes()).hexdigest()

    def take(self, distinct: Ints) -> Items:
        """Some of the distinct objects."""
        return chosen(self.items, self.first[distinct])

    def names(self, left: Ints, right: Ints) -> Names:
        """What messages call some pairs of the distinct objects."""
        return Names(self.first[left], self.first[right], self.n_columns)


@dataclass(frozen=True, eq=False)
class Names:
    """What messages call pairs, worked out only where one is told: the places of their objects among all items."""

    left: Ints
    right: Ints
    n_columns: int

    def __len__(self) -> int:
        return len(self.left)

    def __getitem__(self, pair: SupportsIndex, /) -> tuple[str, str]:
        """Two numbers among the columns, or among the rows asked about."""
        return self._name(int(self.left[pair])), self._name(int(self.right[pair]))

    def _name(self, place: int) -> str:
        return str(place) if place < self.n_columns else f"query {place - self.n_columns}"


def chosen(items: Items, places: Ints) -> Items:
    """The items at some places: an array of an array, a list of anything else."""
    return items[places] if isinstance(items, np.ndarray) else [items[place] for place in places.tolist()]


def joined(left: Items, right: Items) -> Items:
    """One sequence of two: an array where both are arrays of rows of one shape, else a list."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray) and left.shape[1:] == right.shape[1:]:
        return np.concatenate([left, right])
    return [*left, *right]


def items_of(lazy: Lazy, given: object) -> Items:
    """The objects that rows stand for: themselves, or places in ``lazy.objects``.

    Raises
    ------
    InputError
        No sequence, none at all, or a place that there is not.
    """
    rows = sequence_of(given)
    if lazy.objects is None:
        return rows
    objects, places = sequence_of(lazy.objects), np.asarray(rows)
    n = len(objects)
    if places.ndim != 1 or places.dtype.kind not in "iu":
        found = f"shape {places.shape} of {places.dtype}"
        raise InputError(f"with Lazy(objects=...) rows are places in them, integers of shape (n,); found {found}")
    if places.min() < 0 or places.max() >= n:
        raise InputError(f"places must be in 0..{n - 1}, found {places.min()} to {places.max()}")
    return chosen(objects, places)


def sequence_of(given: object) -> Items:
    """Objects in an order of their own: an array as it is, a column or table of pandas as an array, else a list.

    Raises
    ------
    InputError
        What has no order of its own (a set, a dict, a generator), no length, or nothing in it.
    """
    plain = unmasked(given.to_numpy() if hasattr(given, "to_numpy") else given)
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
    """What a forest's provenance says of its similarities: which function is asked, and about which objects."""
    return {**lazy.signature, "symmetric": bool(lazy.symmetric), "objects": objects.sha256}


@dataclass(frozen=True, eq=False)
class ValueSupplier:
    """Where values come from: who asks, for how many batches at once; the ledger; who pays, and for how many pairs.

    Without a ledger values are remembered for as long as the source is; without a budget there is no limit.
    """

    ask: Ask
    at_once: int = 1
    ledger: Ledger | None = None
    job: str = ""
    budget: int | None = None

    @classmethod
    def here(cls, lazy: Lazy, ledger: Ledger | None = None, job: str = "", budget: int | None = None) -> ValueSupplier:
        """Calls in this process."""
        ask = partial(
            answers, lazy.function, policy=AskingPolicy(lazy.retries, lazy.timeout), concurrency=lazy.concurrency
        )
        return cls(ask, lazy.concurrency, ledger, job, budget)


class LazySource:
    """The similarities of rows to columns, of which only those are ever asked for that a projection needs.

    Unknown pairs of a request are admitted candidate by candidate while the budget lasts, asked for in batches, written
    into the ledger, and then used. A candidate that was refused is NaN.

    Examples
    --------
    >>> from distforest.sources.lazy.callbacks import Lazy, pairwise
    >>> lazy = Lazy(pairwise(lambda a, b: float(abs(a - b))), kind="distance")
    >>> source = LazySource(lazy, Objects.of(np.array([1, 5, 7])), ValueSupplier.here(lazy))
    >>> source.entries(np.array([0, 1, 1], np.int32), np.array([1, 0, 1], np.int32)), source.n_evaluations
    (array([-8., -8.,  0.]), 1)
    """

    def __init__(self, lazy: Lazy, objects: Objects, supply: ValueSupplier) -> None:
        self.lazy, self.objects, self.supply = lazy, objects, supply
        is_distance = lazy.kind == "distance"
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
        """Size of what is remembered."""
        return self.pairs.nbytes

    def entries(self, rows: Int32s, columns: Int32s) -> Floats:
        """The values at ``(rows[e], columns[e])``, shape (n_entries,); each may be refused alone."""
        each = np.arange(len(rows) + 1)
        return self.project(rows, each, Projections(1, each, columns, np.ones(len(rows))))[0]

    def block(self, rows: Int32s, columns: Int32s) -> Floats:
        """The values at ``rows`` x ``columns``, shape (n_rows, n_columns)."""
        return block_entries(self, rows, columns)

    def project(self, rows: Int32s, starts: Ints, projections: Projections) -> Floats:
        """The candidates' values, shape (width, n_rows); NaN where one is unobserved, or the candidate refused.

        Raises
        ------
        JobError
            The function failed for a pair, as often as it may; the values that came are in the ledger.
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
                values, error = self._representable(codes[place * size :], answer)
                own = slice(place * size, place * size + len(values))
                self._learn(codes[own], values)
                is_open[own] = False
                faults += [error] if error else []
        finally:
            if is_open.any():
                self.pairs.withdraw(codes[is_open])
        if faults:
            raise JobError(f"{faults[0]}; the values before it are kept{'' if self.supply.ledger else ' in memory'}")

    def _batch(self, codes: Ints) -> Batch:
        a, b = divmod(codes, self.pairs.naming.n_objects)
        return Batch(self.objects.take(a), self.objects.take(b), self.objects.names(a, b))

    def _learn(self, codes: Ints, values: Floats) -> None:
        """Write values down, then use them."""
        if self.supply.ledger is not None:
            a, b = divmod(codes, self.pairs.naming.n_objects)
            self.supply.ledger.record(self.objects.key[a], self.objects.key[b], values, self.supply.job)
        self._charge(len(values))
        self.pairs.put(codes, self._reading.block(values[None, :], 0)[0])

    def _representable(self, codes: Ints, answer: FunctionAnswer) -> tuple[Floats, str | None]:
        """The values before the first one that is too large for a similarity, or a distance; and what is at fault."""
        largest = self._reading.largest
        bad = np.abs(answer.values) > largest
        if not bad.any():
            return answer.values, answer.error
        first = int(bad.argmax())
        a, b = self.objects.names(*divmod(codes[first : first + 1], self.pairs.naming.n_objects))[0]
        text = f"{name_of(self.lazy.function)} returned {answer.values[first]:g} for pair ({a}, {b})"
        return answer.values[:first], f"{text}: beyond {largest:g}; scale its values"

    def _charge(self, n: int) -> None:
        self.n_evaluations += n
        self._thread.n_evaluations = self.n_evaluations_here + n

    @property
    def n_evaluations_here(self) -> int:
        """Pairs that this thread has paid for."""
        return int(getattr(self._thread, "n_evaluations", 0))

    def _recall(self, ledger: Ledger) -> None:
        """Take over what the ledger knows; what this job has paid for is charged when it is needed."""
        rows, columns = self.objects.row, self.objects.column
        known = ledger.load(self.objects.key[rows], self.objects.key[columns], self.supply.job)
        try:
            values = self._reading.block(known.values[None, :], 0)[0]
        except InputError as error:
            found = f"the ledger {self.lazy.ledger} holds a value beyond {self._reading.largest:g}"
            raise InputError(f"{found}; name another one") from error
        codes = self.pairs.codes(known.left, known.right)
        self.pairs.put(codes[~known.own], values[~known.own])
        self.pairs.put(codes[known.own], values[known.own], PAID)


@contextmanager
def opened_ledger(lazy: Lazy) -> Iterator[Ledger | None]:
    """The ledger that a similarity names, open; None where it names none."""
    if lazy.ledger is None:
        yield None
        return
    with Ledger.open(lazy.ledger, signature=lazy.signature, symmetric=bool(lazy.symmetric), kind=lazy.kind) as ledger:
        yield ledger
