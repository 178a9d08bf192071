"""A few pairs that are asked for once more, in the other order: whether a function is one of pairs at all.

A forest asks for each pair once. So it cannot see that a function answers at random, that the order of two objects
matters to it, or that its values are in another order than its pairs. Such a function teaches nothing, without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.sources.lazy.identity import name_of

if TYPE_CHECKING:
    from distforest.sources.lazy.source import LazySource

MOST_AGAIN, ONE_IN = 8, 100
"""At most so many pairs are asked for again, and at most one in so many."""

CHOSEN_FROM = 1 << 14
"""From about so many known pairs at most they are chosen: to put all in order would take a tenth of a quick fit."""

ROUNDED_ANSWER = 1e-5
"""Share of the largest value among them by which two answers for a pair may differ."""


def told_of_other_answers(source: LazySource) -> str:
    """Say that pairs have another value in the other order; else "".

    Nothing is asked where pairs are known to cost, as a ledger or a spent budget says, or where order may matter.

    Examples
    --------
    >>> from distforest.sources.lazy.callbacks import Lazy, pairwise
    >>> from distforest.sources.lazy.source import LazySource, Objects, ValueSupplier
    >>> def first(one, other):
    ...     return float(one)
    >>> lazy, rows = Lazy(pairwise(first), kind="distance"), np.arange(24, dtype=np.int32)
    >>> source = LazySource(lazy, Objects.of(rows + 1.0), ValueSupplier.here(lazy))
    >>> known = source.block(rows, rows)
    >>> told_of_other_answers(source).partition(" returned ")[2]
    '1 for pair (0, 1), and 2 in the other order, as it did for 2 of 2 pairs that were asked for again; it must return
    the same for both orders and at any time, and a value for each pair in their order; where order matters, give
    Lazy(..., symmetric=False)'
    """
    n_again = min(MOST_AGAIN, source.n_evaluations // ONE_IN)
    budget, lazy = source.supply.budget, source.lazy
    may_ask = lazy.asks_again and lazy.symmetric and source.supply.ledger is None
    if not may_ask or (budget is not None and source.n_evaluations + n_again > budget):
        return ""
    codes, known = source.pairs.of_two(CHOSEN_FROM)
    if not 0 < n_again <= len(codes):
        return ""
    chosen = np.linspace(len(codes) - 1, 0, n_again).astype(np.int64)  # in another order than they were asked
    a, b = divmod(codes[chosen], source.pairs.naming.n_objects)
    again = source.in_other_order(codes[chosen])
    if again is None:
        return ""
    known, again = (np.sqrt(-2.0 * known), np.abs(again)) if source.squares else (known, again)
    first = known[chosen]
    other = np.abs(again - first) > ROUNDED_ANSWER * np.abs(known).max()  # of NaN, neither
    if not other.any():
        return ""
    place = int(np.flatnonzero(other)[-1])
    i, j = source.objects.names(a, b)[place]
    found = f"{name_of(lazy.function)} returned {first[place]:g} for pair ({i}, {j}), and {again[place]:g} in the other"
    as_well = f"order, as it did for {int(other.sum())} of {counted(n_again, 'pair')} that were asked for again"
    must = "it must return the same for both orders and at any time, and a value for each pair in their order"
    return f"{found} {as_well}; {must}; where order matters, give Lazy(..., symmetric=False)"
