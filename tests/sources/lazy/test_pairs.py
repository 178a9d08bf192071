"""The table of pairs agrees with dictionaries: what is asked for, what is refused, what a candidate's values are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest.sources.lazy.pairs import KNOWN, PAID, PairCodes, Pairs, PairTable, slot_of
from distforest.sources.source import Projections, offsets
from tests.reference.naive_pairs import NaivePairs

pytestmark = pytest.mark.kernels


@st.composite
def requests(draw: st.DrawFn, n_rows: int, n_columns: int) -> tuple[np.ndarray, np.ndarray, Projections]:
    """Rows of some nodes, and ragged candidates for each."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    rows = draw(st.lists(st.integers(0, n_rows - 1), min_size=sum(sizes), max_size=sum(sizes)))
    width = draw(st.integers(1, 3))
    widths = draw(st.lists(st.integers(0, 3), min_size=width * len(sizes), max_size=width * len(sizes)))
    columns = draw(st.lists(st.integers(0, n_columns - 1), min_size=sum(widths), max_size=sum(widths)))
    weights = np.array([1.0 if place % 2 else -0.5 for place in range(len(columns))])
    projections = Projections(width, offsets(np.array(widths)), np.array(columns, np.int32), weights)
    return np.array(rows, np.int32), offsets(np.array(sizes)), projections


def value_of(pair: tuple[int, int]) -> float:
    return pair[0] * 1.25 - pair[1] ** 2 / 3.0


@pytest.mark.slow
@given(st.data(), st.booleans(), st.booleans(), st.one_of(st.none(), st.integers(0, 25)))
def test_requests_are_admitted_and_projected_as_by_hand(
    data: st.DataObject, symmetric: bool, self_known: bool, budget: int | None
) -> None:
    n = data.draw(st.integers(1, 6))
    objects = st.lists(st.integers(0, n - 1), min_size=1, max_size=6)
    row, column = data.draw(objects), data.draw(objects)
    slow = NaivePairs(row, column, symmetric, self_known, budget)
    fast = Pairs(
        PairCodes(np.array(row), np.array(column), n, symmetric, self_known),
        -1 if budget is None else budget,
        PairTable.empty(4),  # grows at once
    )
    for pair in data.draw(st.lists(st.tuples(*[st.integers(0, n - 1)] * 2), max_size=4)):
        own = (min(pair), max(pair)) if symmetric else pair
        slow.paid[own] = value_of(own)
        fast.put(np.array([own[0] * n + own[1]]), np.array([value_of(own)]), PAID)
    for _ in range(3):
        rows, starts, projections = data.draw(requests(len(row), len(column)))
        expected, charged = slow.admit(rows.tolist(), starts.tolist(), projections)
        refused, again, codes = fast.admit(rows, starts, projections)
        assert refused.tolist() == expected
        assert [divmod(code, n) for code in codes.tolist()] == charged
        assert again.tolist() == [pair in slow.paid for pair in charged]
        assert fast.left == (-1 if slow.left is None else slow.left)
        for pair in charged:
            slow.known[pair] = value_of(pair)
        new = [value_of((code // n, code % n)) for code in codes[~again].tolist()]
        fast.put(codes[~again], np.array(new, np.float64))
        values = slow.project(rows.tolist(), starts.tolist(), projections, expected)
        np.testing.assert_array_equal(fast.project(rows, starts, projections, refused), np.array(values))


def table(**given: Any) -> Pairs:
    numbers = np.arange(1000)
    return Pairs(PairCodes(numbers, numbers, 1000, True, False), **given)


def test_values_stay_while_the_table_grows() -> None:
    pairs, rng = table(), np.random.default_rng(0)
    codes = np.unique(rng.integers(0, 10**6, 30_000))
    values = codes.astype(np.float64)
    for part in np.array_split(rng.permutation(len(codes)), 7):
        pairs.put(codes[part], values[part])
    slots = [slot_of(code, pairs.table) for code in codes.tolist()]
    np.testing.assert_array_equal(pairs.table.value[slots], values)
    assert (pairs.table.state[slots] == KNOWN).all()
    assert pairs.filled == len(codes) <= len(pairs.table.code) // 2
    assert pairs.nbytes == 17 * len(pairs.table.code)


def test_what_is_withdrawn_is_asked_for_again() -> None:
    pairs = table()
    asking = (
        np.array([3], np.int32),
        np.array([0, 1]),
        Projections(1, np.array([0, 1]), np.array([5], np.int32), np.ones(1)),
    )
    _, _, first = pairs.admit(*asking)
    assert len(pairs.admit(*asking)[2]) == 0
    pairs.withdraw(first)
    assert pairs.admit(*asking)[2].tolist() == first.tolist() == [3005]
