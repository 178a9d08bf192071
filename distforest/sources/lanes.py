"""Sums over the features of two objects in four lanes, which a processor adds at once.

Feature q is added to lane q modulo 4, those after the last whole four to lane 0, and the sum is (a + b) + (c + d) for
the lanes a, b, c and d. A sum in float64 depends on the order of its additions, so this order is a part of what a
similarity is. Where LLVM may not change an order it makes no vectors of a loop, so this loop is written in LLVM's own
words (`_built`); `_added` is the same sum for the interpreter.

Each sum takes two arrays of shape (p,) without gaps, of float32 or float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils

from distforest.jit import inserted
from distforest.sources.source import Float32s, Floats

if TYPE_CHECKING:
    from collections.abc import Callable

    from numba.core.base import BaseContext
    from numba.core.typing import BaseContext as TypingContext
    from numba.core.typing import Signature

    Sum = Callable[[Float32s | Floats, Float32s | Floats], float]
    Generator = Callable[[BaseContext, ir.IRBuilder, Signature, tuple[ir.Value, ...]], ir.Value]

N_LANES = 4

_CELL = np.dtype(np.float32).itemsize  # no array begins elsewhere than at a multiple of it
_DOUBLE, _PLACE, _LANE = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
_VECTOR = ir.VectorType(_DOUBLE, N_LANES)


class Term(NamedTuple):
    """What one feature adds to a sum.

    Attributes
    ----------
    of
        The term of two values, float64.
    built
        The same in LLVM's words, for two numbers or two vectors of them.
    """

    of: Callable[[np.float64, np.float64], float]
    built: Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]


def _absolute(builder: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    difference = builder.fsub(x, y)
    kind = "f64" if difference.type == _DOUBLE else f"v{N_LANES}f64"
    signature = ir.FunctionType(difference.type, [difference.type])
    return builder.call(builder.module.declare_intrinsic(f"llvm.fabs.{kind}", fnty=signature), [difference])


_PRODUCT = Term(lambda x, y: x * y, lambda builder, x, y: builder.fmul(x, y))
_SQUARE = Term(lambda x, _: x * x, lambda builder, x, _: builder.fmul(x, x))
_DISTANCE = Term(lambda x, y: abs(x - y), _absolute)


def _if_shared(term: Term) -> Term:
    """The term, or 0 if one of the two values is missing; 0 changes no bit of a sum."""

    def built(builder: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        are_observed, nothing = builder.fcmp_ordered("ord", x, y), ir.Constant(x.type, None)
        return builder.select(are_observed, term.built(builder, x, y), nothing)

    return Term(lambda x, y: term.of(x, y) if x == x and y == y else 0.0, built)


def _sum_of(term: Term) -> Sum:
    return _added(term) if config.DISABLE_JIT else _built(term)


def _added(term: Term) -> Sum:
    """The sum of a term, for the interpreter."""

    def added(x: Float32s | Floats, y: Float32s | Floats) -> float:
        lanes, whole = [0.0] * N_LANES, len(x) // N_LANES * N_LANES
        for q in range(len(x)):
            lanes[q % N_LANES if q < whole else 0] += term.of(np.float64(x[q]), np.float64(y[q]))
        return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])

    return added


def _built(term: Term) -> Sum:
    """The sum of a term, for compiled functions."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: tuple[ir.Value, ...]
    ) -> ir.Value:
        kinds = zip(signature.args, values, strict=True)
        arrays = [context.make_array(kind)(context, builder, value) for kind, value in kinds]
        (n,) = cgutils.unpack_tuple(builder, arrays[0].shape)
        whole = builder.and_(n, _PLACE(-N_LANES))
        total = cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, None))
        with cgutils.for_range_slice(builder, _PLACE(0), whole, _PLACE(N_LANES)) as (q, _):
            fours = [_read(builder, array, q, _VECTOR) for array in arrays]
            builder.store(builder.fadd(builder.load(total), term.built(builder, *fours)), total)
        a, b, c, d = (builder.extract_element(builder.load(total), _LANE(lane)) for lane in range(N_LANES))
        first = cgutils.alloca_once_value(builder, a)
        with cgutils.for_range_slice(builder, whole, n, _PLACE(1)) as (q, _):
            ones = [_read(builder, array, q, _DOUBLE) for array in arrays]
            builder.store(builder.fadd(builder.load(first), term.built(builder, *ones)), first)
        return builder.fadd(builder.fadd(builder.load(first), b), builder.fadd(c, d))

    def typed(_typing: TypingContext, x: types.Array, y: types.Array) -> tuple[Signature, Generator]:
        return types.float64(x, y), generate

    return inserted(typed)


def _read(builder: ir.IRBuilder, array: ir.Value, q: ir.Value, kind: ir.Type) -> ir.Value:
    """The value at place ``q`` of an array, or the vector that begins there, as float64."""
    cell, place = array.data.type.pointee, builder.gep(array.data, [q])
    if isinstance(kind, ir.VectorType):
        place = builder.bitcast(place, ir.VectorType(cell, kind.count).as_pointer())
    value = builder.load(place, align=_CELL)
    return value if cell == _DOUBLE else builder.fpext(value, kind)


dot = _sum_of(_PRODUCT)
"""sum_q x_q y_q."""

manhattan_distance = _sum_of(_DISTANCE)
"""sum_q |x_q - y_q|."""

dot_of_shared = _sum_of(_if_shared(_PRODUCT))
"""sum_q x_q y_q over the q that both have."""

square_of_shared = _sum_of(_if_shared(_SQUARE))
"""sum_q x_q^2 over the q that both have."""

distance_of_shared = _sum_of(_if_shared(_DISTANCE))
"""sum_q |x_q - y_q| over the q that both have."""
