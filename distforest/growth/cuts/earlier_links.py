"""Sums over the links of a row to rows that come earlier, for eight candidates at once.

A sum for one candidate reads the rank of each linked row, which may be anywhere in memory, and whether it counts is
unpredictable. So the ranks of a row are stored side by side, in eight **lanes**, and one read serves eight candidates::

    row    ranks in lanes 0, 1, 2 ..      links of row 2: to row 0 with the term 5, to row 1 with the term 3
    0      0  2  1                        row 0 comes earlier in lanes 0 and 2, row 1 in lanes 0 and 1
    1      1  0  4                        sums   8  3  5
    2      2  1  3

Terms are whole numbers, so the order of the additions changes no bit. LLVM does not vectorise a loop in which it sees a
branch, so this loop is written in LLVM's IR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils

from distforest.jit import inserted
from distforest.sources.source import Int32s, Ints

if TYPE_CHECKING:
    from collections.abc import Callable

    from numba.core.base import BaseContext
    from numba.core.typing import BaseContext as TypingContext
    from numba.core.typing import Signature

    Generator = Callable[[BaseContext, ir.IRBuilder, Signature, tuple[ir.Value, ...]], ir.Value]

CANDIDATE_LANES = 8

_RANK, _TERM = ir.IntType(32), ir.IntType(64)
_RANKS, _TERMS = ir.VectorType(_RANK, CANDIDATE_LANES), ir.VectorType(_TERM, CANDIDATE_LANES)
_NOTHING = ir.Constant(_TERMS, None)


def _added(rank: Int32s, limit: int, place: Int32s, terms: Ints, begin: int, end: int, sums: Ints) -> None:
    """Compute the sums in the interpreter."""
    sums[:] = 0
    for e in range(begin, end):
        sums += np.where(rank[place[e]] < rank[limit], terms[e], 0)


def _generate(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: tuple[ir.Value, ...]
) -> ir.Constant:
    """Generate the code of the sums for compiled functions."""
    rank, place, terms, sums = (
        context.make_array(signature.args[at])(context, builder, values[at]).data for at in (0, 2, 3, 6)
    )
    limit, begin, end = (context.cast(builder, values[at], signature.args[at], types.int64) for at in (1, 4, 5))

    def ranks_of(row: ir.Value) -> ir.Value:
        lanes = builder.gep(rank, [builder.mul(row, _TERM(CANDIDATE_LANES))])
        return builder.load(builder.bitcast(lanes, _RANKS.as_pointer()), align=4)

    limits, total = ranks_of(limit), cgutils.alloca_once(builder, _TERMS)
    builder.store(_NOTHING, total)
    with cgutils.for_range_slice(builder, begin, end, _TERM(1)) as (e, _):
        other = builder.sext(builder.load(builder.gep(place, [e])), _TERM)
        are_earlier = builder.icmp_signed("<", ranks_of(other), limits)
        one = builder.insert_element(_NOTHING, builder.load(builder.gep(terms, [e])), _RANK(0))
        term = builder.shuffle_vector(one, _NOTHING, ir.Constant(_RANKS, None))
        builder.store(builder.add(builder.load(total), builder.select(are_earlier, term, _NOTHING)), total)
    builder.store(builder.load(total), builder.bitcast(sums, _TERMS.as_pointer()), align=8)
    return context.get_dummy_value()


def _typed(
    _typing: TypingContext,
    rank: types.Array,
    limit: types.Integer,
    place: types.Array,
    terms: types.Array,
    begin: types.Integer,
    end: types.Integer,
    sums: types.Array,
) -> tuple[Signature, Generator]:
    return types.void(rank, limit, place, terms, begin, end, sums), _generate


add_earlier: Callable[[Int32s, int, Int32s, Ints, int, int, Ints], None] = (
    _added if config.DISABLE_JIT else inserted(_typed)
)
"""``add_earlier(rank, limit, place, terms, begin, end, sums)`` sums the terms of the links ``begin`` to ``end - 1``.

sums[k] = sum over these links e of terms[e] where rank[place[e], k] < rank[limit, k], for each lane k. Arrays have no
gaps: ``rank`` has shape (n_rows, CANDIDATE_LANES), ``place`` and ``terms`` one entry for each link, ``sums`` shape
(CANDIDATE_LANES,).
"""
