"""Pairs of objects and what is known of them: a hash table that kernels read and fill.

A pair is one number, its code: a * n + b for the objects a and b of n, the smaller first where the order says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.sources.source import Floats, Int32s, Ints, Projections

EMPTY, KNOWN, WANTED, PAID, ASKED, CHARGED = range(6)
"""What a slot of the table holds: nothing; a value; a pair that was wanted and refused; a value that an earlier run of
the job has paid for, and this one not yet; the last two on their way to be known, asked for or charged again."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST_SLOTS = 1 << 12


class PairCodes(NamedTuple):
    """How coordinates become pairs: the object of each row and of each column, how many objects there are, ...

    ``symmetric`` makes (a, b) and (b, a) one pair, ``self_known`` the value of an object and itself 0, unasked.
    """

    row_object: Ints
    column_object: Ints
    n_objects: int
    symmetric: bool
    self_known: bool


@dataclass
class Pairs:
    """The table; ``left`` is how many pairs may still be charged, or -1 for any number."""

    naming: PairCodes
    left: int = -1
    code: Ints = field(default_factory=lambda: np.zeros(_FIRST_SLOTS, np.int64))
    state: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(_FIRST_SLOTS, np.uint8))
    value: Floats = field(default_factory=lambda: np.zeros(_FIRST_SLOTS))
    filled: int = 0

    @property
    def nbytes(self) -> int:
        """Size of the table."""
        return self.code.nbytes + self.state.nbytes + self.value.nbytes

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
        asked = np.empty(len(self.code) // 2, np.int64)
        number = n_asked = 0
        sizes = np.diff(starts)
        while True:
            number, self.filled, n_asked, self.left = admit_candidates(
                *(rows, starts, projections.offset, projections.columns, projections.width, *self.naming),
                *(self.code, self.state, self.filled, asked, n_asked, self.left, number, refused),
            )
            if number == len(refused):
                break
            k, node = divmod(number, len(sizes))
            candidate = node * projections.width + k
            self._grow(sizes[node] * (projections.offset[candidate + 1] - projections.offset[candidate]))
            asked = np.concatenate([asked[:n_asked], np.empty(len(self.code) // 2 - n_asked, np.int64)])
        codes = asked[:n_asked]
        again = np.zeros(n_asked, np.bool_)
        recall(codes, self.code, self.state, again)
        return refused, again, codes

    def put(self, codes: Ints, values: Floats, state: int = KNOWN) -> None:
        """Set the values of pairs, shape (m,); pairs that are new are added."""
        self._grow(len(codes))
        self.filled += put_values(codes, values, state, self.code, self.state, self.value)

    def withdraw(self, codes: Ints) -> None:
        """Let pairs that were admitted and got no answer be wanted again."""
        self.put(codes, np.zeros(len(codes)), WANTED)

    def project(self, rows: Int32s, starts: Ints, projections: Projections, refused: NDArray[np.bool_]) -> Floats:
        """The candidates' values from what is known, shape (width, n_rows); NaN for a candidate that is refused."""
        values = np.empty((projections.width, len(rows)))
        project_pairs(
            *(rows, starts, projections.offset, projections.columns, projections.weights, *self.naming),
            *(self.code, self.state, self.value, refused, values),
        )
        return values

    def codes(self, rows: Ints, columns: Ints) -> Ints:
        """The codes of coordinates, shape (m,)."""
        a, b = self.naming.row_object[rows], self.naming.column_object[columns]
        if self.naming.symmetric:
            a, b = np.minimum(a, b), np.maximum(a, b)
        return a * self.naming.n_objects + b

    def _grow(self, n_new: int) -> None:
        """Make the table so large that after ``n_new`` further pairs it is at most half full."""
        n_slots = len(self.code)
        while self.filled + n_new > n_slots // 2:
            n_slots *= 2
        if n_slots > len(self.code):
            held = self.state != EMPTY
            code, state, value = self.code[held], self.state[held], self.value[held]
            self.code, self.state = np.zeros(n_slots, np.int64), np.zeros(n_slots, np.uint8)
            self.value = np.zeros(n_slots)
            for one in np.unique(state).tolist():
                own = state == one
                put_values(code[own], value[own], one, self.code, self.state, self.value)


@kernel
def pair_code(a: int, b: int, n_objects: int, symmetric: bool) -> int:
    """Code a * n + b of a pair, the smaller object first where the order says nothing."""
    if symmetric and b < a:
        return b * n_objects + a
    return a * n_objects + b


@kernel
def slot_of(wanted: int, code: Ints, state: NDArray[np.uint8]) -> int:
    """The slot of a pair: the first one from its hash on that holds it or nothing (Fibonacci hashing)."""
    mask = code.shape[0] - 1
    slot = np.int64((np.uint64(wanted) * _GOLDEN) >> np.uint64(20)) & mask
    while state[slot] != EMPTY and code[slot] != wanted:
        slot = (slot + 1) & mask
    return slot


@kernel
def put_values(codes: Ints, values: Floats, new_state: int, code: Ints, state: NDArray[np.uint8], value: Floats) -> int:
    """value[codes[e]] = values[e], all in ``new_state``; how many pairs are new."""
    n_new = 0
    for e in range(codes.shape[0]):
        slot = slot_of(codes[e], code, state)
        n_new += state[slot] == EMPTY
        code[slot], state[slot], value[slot] = codes[e], new_state, values[e]
    return n_new


@kernel
def recall(codes: Ints, code: Ints, state: NDArray[np.uint8], again: NDArray[np.bool_]) -> None:
    """again[e] = whether pair codes[e] is charged again; such a pair is known now."""
    for e in range(codes.shape[0]):
        slot = slot_of(codes[e], code, state)
        again[e] = state[slot] == CHARGED
        if again[e]:
            state[slot] = KNOWN


@kernel
def admit_candidates(
    rows: Int32s,
    starts: Ints,
    offset: Ints,
    columns: Int32s,
    width: int,
    row_object: Ints,
    column_object: Ints,
    n_objects: int,
    symmetric: bool,
    self_known: bool,
    code: Ints,
    state: NDArray[np.uint8],
    filled: int,
    asked: Ints,
    n_asked: int,
    left: int,
    first: int,
    refused: NDArray[np.bool_],
) -> tuple[int, int, int, int]:
    """Put the unknown pairs of the candidates first, first + 1, ... into ``asked``.

    A candidate with more of them than are ``left`` is refused whole. Stops where the table might become more than half
    full. Returns the next candidate, how many slots are filled and pairs asked for, and what is left.
    """
    n_nodes = starts.shape[0] - 1
    for number in range(first, n_nodes * width):
        k, node = number // n_nodes, number % n_nodes
        candidate = node * width + k
        n_cells = (starts[node + 1] - starts[node]) * (offset[candidate + 1] - offset[candidate])
        if filled + n_cells > code.shape[0] // 2:
            return number, filled, n_asked, left
        begin = n_asked
        for e in range(offset[candidate], offset[candidate + 1]):
            b = column_object[columns[e]]
            for r in range(starts[node], starts[node + 1]):
                a = row_object[rows[r]]
                if self_known and a == b:
                    continue
                wanted = pair_code(a, b, n_objects, symmetric)
                slot = slot_of(wanted, code, state)
                if state[slot] == EMPTY:
                    code[slot], state[slot] = wanted, WANTED
                    filled += 1
                if state[slot] == WANTED or state[slot] == PAID:
                    state[slot] = ASKED if state[slot] == WANTED else CHARGED
                    asked[n_asked] = wanted
                    n_asked += 1
        if 0 <= left < n_asked - begin:
            for place in range(begin, n_asked):
                slot = slot_of(asked[place], code, state)
                state[slot] = WANTED if state[slot] == ASKED else PAID
            n_asked = begin
            refused[candidate] = True
        elif left >= 0:
            left -= n_asked - begin
    return n_nodes * width, filled, n_asked, left


@kernel
def project_pairs(
    rows: Int32s,
    starts: Ints,
    offset: Ints,
    columns: Int32s,
    weights: Floats,
    row_object: Ints,
    column_object: Ints,
    n_objects: int,
    symmetric: bool,
    self_known: bool,
    code: Ints,
    state: NDArray[np.uint8],
    value: Floats,
    refused: NDArray[np.bool_],
    values: Floats,
) -> None:
    """values[k, r] = sum over e of weights[e] * value of (row, columns[e]), e in candidate k of the row's node."""
    width = values.shape[0]
    for node in range(starts.shape[0] - 1):
        for r in range(starts[node], starts[node + 1]):
            a = row_object[rows[r]]
            for k in range(width):
                candidate = node * width + k
                total = np.nan if refused[candidate] else 0.0
                if not refused[candidate]:
                    for e in range(offset[candidate], offset[candidate + 1]):
                        b = column_object[columns[e]]
                        if not (self_known and a == b):
                            total += weights[e] * value[slot_of(pair_code(a, b, n_objects, symmetric), code, state)]
                values[k, r] = total
