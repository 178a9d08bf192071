"""Pairs of objects and their known values: a hash table that kernels read and fill.

A pair has a code: a * n + b for the objects a and b of n, the smaller one first if pairs are symmetric.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.jit import kernel, no_refcount

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.sources.source import Floats, Int32s, Ints, Projections

EMPTY, KNOWN, WANTED, PAID, ASKED, CHARGED = range(6)
"""States of a slot of the table: empty; with a value; needed by a refused candidate, without a value; with a value that
an earlier run of the job has paid for, and this run not yet. The last two are on their way to be known: `ASKED` was
wanted, and `CHARGED` was paid for by an earlier run."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST_SLOTS = 1 << 12


class PairCodes(NamedTuple):
    """How coordinates become pairs.

    Attributes
    ----------
    row_object, column_object
        The object of each row and of each column.
    n_objects
        How many objects there are.
    symmetric
        Whether (a, b) and (b, a) are one pair.
    self_known
        Whether the value of an object and itself is known to be 0.
    """

    row_object: Ints
    column_object: Ints
    n_objects: int
    symmetric: bool
    self_known: bool


class PairTable(NamedTuple):
    """The slots of a hash table: the code, state and value of a pair each, shape (n_slots,), a power of two."""

    code: Ints
    state: NDArray[np.uint8]
    value: Floats

    @classmethod
    def empty(cls, n_slots: int) -> PairTable:
        """A table without pairs."""
        return cls(np.zeros(n_slots, np.int64), np.zeros(n_slots, np.uint8), np.zeros(n_slots))

    @property
    def n_slots(self) -> int:
        """Number of slots."""
        return len(self.code)


class Admission(NamedTuple):
    """How far the admission of candidates has come.

    Attributes
    ----------
    number
        The next candidate; candidate k of node f has the number k * n_nodes + f.
    filled
        Slots of the table that are not empty.
    n_admitted
        Pairs that are admitted.
    left
        Pairs that may still be charged; -1 for any number.
    """

    number: int
    filled: int
    n_admitted: int
    left: int


@dataclass
class Pairs:
    """The pairs of a job; ``left`` is how many may still be charged, or -1 for any number."""

    naming: PairCodes
    left: int = -1
    table: PairTable = field(default_factory=lambda: PairTable.empty(_FIRST_SLOTS))
    filled: int = 0

    @property
    def nbytes(self) -> int:
        """Size of the table."""
        return sum(column.nbytes for column in self.table)

    def admit(
        self, rows: Int32s, starts: Ints, projections: Projections
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Ints]:
        """Find the unknown pairs of whole candidates, as long as they may be charged.

        Returns
        -------
        refused : ndarray
            Which candidates cannot be paid for, shape (n_nodes * width,).
        again : ndarray
            Which of the admitted pairs an earlier run has paid for; their values are known from here on.
        codes : ndarray
            The admitted pairs, candidate by candidate and in each node by node; each once.
        """
        refused = np.zeros(len(projections.offset) - 1, np.bool_)
        admitted = np.empty(self.table.n_slots // 2, np.int64)
        sizes, now = np.diff(starts), Admission(0, self.filled, 0, self.left)
        while True:
            now = admit_candidates(rows, starts, projections, self.naming, self.table, admitted, now, refused)
            self.filled, self.left = now.filled, now.left
            if now.number == len(refused):
                break
            k, node = divmod(now.number, len(sizes))
            candidate = node * projections.width + k
            self._grow(sizes[node] * (projections.offset[candidate + 1] - projections.offset[candidate]))
            room = np.empty(self.table.n_slots // 2 - now.n_admitted, np.int64)
            admitted = np.concatenate([admitted[: now.n_admitted], room])
        codes = admitted[: now.n_admitted]
        again = np.zeros(len(codes), np.bool_)
        recall(codes, self.table, again)
        return refused, again, codes

    def put(self, codes: Ints, values: Floats, state: int = KNOWN) -> None:
        """Set the values of pairs, shape (m,); pairs that are new are added."""
        self._grow(len(codes))
        self.filled += put_values(codes, values, state, self.table)

    def withdraw(self, codes: Ints) -> None:
        """Let pairs that were admitted and got no answer be wanted again."""
        self.put(codes, np.zeros(len(codes)), WANTED)

    def project(self, rows: Int32s, starts: Ints, projections: Projections, refused: NDArray[np.bool_]) -> Floats:
        """The candidates' values from known pairs, shape (width, n_rows); NaN for a candidate that is refused."""
        values = np.empty((projections.width, len(rows)))
        project_pairs(rows, starts, projections, self.naming, self.table, refused, values)
        return values

    def codes(self, rows: Ints, columns: Ints) -> Ints:
        """The codes of coordinates, shape (m,)."""
        a, b = self.naming.row_object[rows], self.naming.column_object[columns]
        if self.naming.symmetric:
            a, b = np.minimum(a, b), np.maximum(a, b)
        return a * self.naming.n_objects + b

    def _grow(self, n_new: int) -> None:
        """Make the table so large that after ``n_new`` further pairs it is at most half full."""
        n_slots = self.table.n_slots
        while self.filled + n_new > n_slots // 2:
            n_slots *= 2
        if n_slots > self.table.n_slots:
            filled = self.table.state != EMPTY
            code, state, value = (column[filled] for column in self.table)
            self.table = PairTable.empty(n_slots)
            for one in np.unique(state).tolist():
                in_state = state == one
                put_values(code[in_state], value[in_state], one, self.table)


@kernel
def pair_code(a: int, b: int, n_objects: int, symmetric: bool) -> int:
    """Code a * n + b of a pair, the smaller object first if pairs are symmetric."""
    if symmetric and b < a:
        return b * n_objects + a
    return a * n_objects + b


@no_refcount
def slot_of(wanted: int, table: PairTable) -> int:
    """The slot of a pair: from its hash on, the first that holds the pair or is empty (Fibonacci hashing)."""
    mask = table.code.shape[0] - 1
    slot = np.int64((np.uint64(wanted) * _GOLDEN) >> np.uint64(20)) & mask
    while table.state[slot] != EMPTY and table.code[slot] != wanted:
        slot = (slot + 1) & mask
    return slot


@kernel
def put_values(codes: Ints, values: Floats, new_state: int, table: PairTable) -> int:
    """Set value[codes[e]] = values[e], all in ``new_state``; return how many pairs are new."""
    code, state, value = table
    n_new = 0
    for e in range(codes.shape[0]):
        slot = slot_of(codes[e], table)
        n_new += state[slot] == EMPTY
        code[slot], state[slot], value[slot] = codes[e], new_state, values[e]
    return n_new


@kernel
def recall(codes: Ints, table: PairTable, again: NDArray[np.bool_]) -> None:
    """Set again[e] to whether pair codes[e] is charged again; such a pair is known from here on."""
    state = table.state
    for e in range(codes.shape[0]):
        slot = slot_of(codes[e], table)
        again[e] = state[slot] == CHARGED
        if again[e]:
            state[slot] = KNOWN


@kernel
def admit_candidates(
    rows: Int32s,
    starts: Ints,
    projections: Projections,
    naming: PairCodes,
    table: PairTable,
    admitted: Ints,
    now: Admission,
    refused: NDArray[np.bool_],
) -> Admission:
    """Put the unknown pairs of the candidates from ``now`` on into ``admitted``, each once.

    A candidate with more of them than are left is refused whole. Stops where the table might become more than half
    full, and returns how far it has come.
    """
    offset, columns, width = projections.offset, projections.columns, projections.width
    code, state, _ = table
    first, filled, n_admitted, left = now
    n_nodes = starts.shape[0] - 1
    for number in range(first, n_nodes * width):
        k, node = number // n_nodes, number % n_nodes
        candidate = node * width + k
        n_cells = (starts[node + 1] - starts[node]) * (offset[candidate + 1] - offset[candidate])
        if filled + n_cells > code.shape[0] // 2:
            return Admission(number, filled, n_admitted, left)
        begin = n_admitted
        for e in range(offset[candidate], offset[candidate + 1]):
            b = naming.column_object[columns[e]]
            for r in range(starts[node], starts[node + 1]):
                a = naming.row_object[rows[r]]
                if naming.self_known and a == b:
                    continue
                wanted = pair_code(a, b, naming.n_objects, naming.symmetric)
                slot = slot_of(wanted, table)
                if state[slot] == EMPTY:
                    code[slot], state[slot] = wanted, WANTED
                    filled += 1
                if state[slot] == WANTED or state[slot] == PAID:
                    state[slot] = ASKED if state[slot] == WANTED else CHARGED
                    admitted[n_admitted] = wanted
                    n_admitted += 1
        if 0 <= left < n_admitted - begin:
            for place in range(begin, n_admitted):
                slot = slot_of(admitted[place], table)
                state[slot] = WANTED if state[slot] == ASKED else PAID
            n_admitted = begin
            refused[candidate] = True
        elif left >= 0:
            left -= n_admitted - begin
    return Admission(n_nodes * width, filled, n_admitted, left)


@kernel
def project_pairs(
    rows: Int32s,
    starts: Ints,
    projections: Projections,
    naming: PairCodes,
    table: PairTable,
    refused: NDArray[np.bool_],
    values: Floats,
) -> None:
    """values[k, r] = sum over e of weights[e] * value of (row, columns[e]), e in candidate k of the row's node."""
    offset, columns, weights = projections.offset, projections.columns, projections.weights
    width = values.shape[0]
    for node in range(starts.shape[0] - 1):
        for r in range(starts[node], starts[node + 1]):
            a = naming.row_object[rows[r]]
            for k in range(width):
                candidate = node * width + k
                total = np.nan if refused[candidate] else 0.0
                if not refused[candidate]:
                    for e in range(offset[candidate], offset[candidate + 1]):
                        b = naming.column_object[columns[e]]
                        if not (naming.self_known and a == b):
                            code = pair_code(a, b, naming.n_objects, naming.symmetric)
                            total += weights[e] * table.value[slot_of(code, table)]
                values[k, r] = total
