"""The rows of a block: how they are read, weighed and added up, in 32 bits and in 64."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distforest.growth.cuts import blocks
from distforest.growth.cuts.blocks import CELLS_OF_A_LINE, FAR_CELLS, SPREAD, begin_of, block_cells, gather, in_lines
from distforest.growth.cuts.mean_distance import (
    CELLS_OF_32_BITS,
    FixedPoint,
    MeanDistance,
    digits,
    distance_bits,
    largest_exponent,
    masked_sums,
    weigh,
    weigh_chunks,
)
from tests import samples
from tests.reference import naive
from tests.tries import tries

pytestmark = pytest.mark.kernels

HIGHEST = {"small": 9, "middle": 1 << 25, "largest": (1 << 26) - 4, "at the edge": (1 << 26) - 4}
ONE = FixedPoint(np.float32(1.0), np.float32(1 << 26), np.int64(26))


def row_of(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Distances that are whole numbers; at the edge all are the largest, where a chunk just fits."""
    row = rng.integers(0, HIGHEST.get(kind, 9), n, endpoint=True)
    if kind == "signed" and n:
        row[rng.integers(n)] = -1
    edge = HIGHEST["at the edge"]
    return (np.full(n, edge) if kind == "at the edge" else np.minimum(row.astype(np.float32), edge)).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*HIGHEST, "signed"])
@settings(max_examples=tries(25))
@given(
    n=st.integers(0, 3 * CELLS_OF_32_BITS),
    seed=st.integers(0, 2**32 - 1),
    most=st.sampled_from([1, 2, 31]),
    data=st.data(),
)
def test_sums_of_a_row_are_exact_in_as_few_bits_as_they_need(
    kind: str, n: int, seed: int, most: int, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    weights, rows = rng.integers(1, most, n, endpoint=True).astype(np.int32), np.zeros((2, n), np.int32)
    rank, limits = rng.permutation(n).astype(np.int32), data.draw(st.tuples(*[st.integers(0, n)] * 2))
    are_narrow, expected = [], []
    for row, limit in zip(rows, limits, strict=True):
        values = row_of(kind, n, rng)
        exact = [int(value) * int(weight) for value, weight in zip(values, weights, strict=True)]
        total, is_narrow, fits = weigh_chunks(values, ONE, weights, row)
        assert (row.tolist(), int(total), bool(fits)) == (exact, sum(exact), True)
        row[:] = 0
        assert int(weigh(values, ONE, weights, row)[0]) == sum(exact)
        assert row.tolist() == exact
        chunks = [
            sum(exact[first : first + CELLS_OF_32_BITS])
            for first in range(0, n - CELLS_OF_32_BITS + 1, CELLS_OF_32_BITS)
        ]
        assert bool(is_narrow) == (bool(chunks) and min(exact[: n - n % CELLS_OF_32_BITS]) >= 0 and max(chunks) < 2**32)
        are_narrow.append(bool(is_narrow))
        expected.append(sum(value for value, own in zip(exact, rank, strict=True) if own < limit))
    where = (
        MeanDistance.from_distances(np.zeros((1, 1), np.float32), 1.0)
        .where(samples.level([[0]], [[1]]))
        ._replace(is_far=True)
    )
    for narrow in {False, all(are_narrow)}:  # what is fetched ahead may lie anywhere
        assert masked_sums(*rows, rank, tuple(np.int32(limits)), narrow, where, (n, -n)) == tuple(expected)


@settings(max_examples=tries(40))
@given(
    n=st.integers(1, 2 * CELLS_OF_32_BITS + 3),
    place=st.integers(0, 2 * CELLS_OF_32_BITS + 2),
    value=st.sampled_from([2.0**26, -(2.0**26), 2.0**27, -1e30, 3e38, 2.0**26 - 4, -(2.0**26) + 4]),
)
def test_a_value_that_does_not_fit_is_reported_where_it_weighs_anything(n: int, place: int, value: float) -> None:
    values, weights, row = np.ones(n, np.float32), np.full(n, 3, np.int32), np.empty(n, np.int32)
    place %= n
    values[place] = value
    _, _, fits = weigh_chunks(values, ONE, weights, row)
    _, reach = weigh(values, ONE, weights, row)
    assert bool(fits) == (reach < 2**26) == (abs(value) < 2**26)
    weights[place] = 0  # of another row
    total, _, fits = weigh_chunks(values, ONE, weights, row)
    assert (int(total), bool(fits), int(row[place])) == (3 * (n - 1), True, 0)
    total, reach = weigh(values, ONE, weights, row)
    assert (int(total), int(row[place])) == (3 * (n - 1), 0)
    assert reach < 2**26


@settings(max_examples=tries(40))
@given(
    numbers=st.lists(st.floats(-(2.0**127), 2.0**127, width=32), min_size=6, max_size=6),
    largest=st.sampled_from([1e-30, 1.0, 3e38]),
    factor=st.sampled_from([1.0, 1e-20, 1e-38]),
)
def test_the_scale_of_a_node_is_the_references(numbers: list[float], largest: float, factor: float) -> None:
    z = np.zeros((3, 3), np.float32)
    z[np.triu_indices(3)] = np.array(numbers) * factor
    z = z + np.triu(z, 1).T
    criterion, level = MeanDistance.from_distances(z, largest), samples.level([[0, 1, 2]], [[1] * 3])
    own = int(largest_exponent(0, 3, criterion.where(level), 3, np.empty(3, np.float32)))
    for most in (26, 13):
        assert int(distance_bits(criterion.exponent, own, most)) == naive.node_bits(z, largest, most)
    two = int(largest_exponent(0, 3, criterion.where(level), 2, np.empty(3, np.float32)))
    assert two <= own  # a guess from two rows is never too large


@pytest.mark.slow
@given(st.lists(st.one_of(st.integers(1, 40), st.integers(1, 2**23)), min_size=1, max_size=6))
@example([31] * 8456)
@example([1] * (2**18 - 1))
@example([1] * 2**18)
@example([2**31 - 1])
def test_the_digits_of_a_node_follow_from_its_weights(weights: list[int]) -> None:
    assert int(digits(np.array(weights, np.int32))) == naive.node_digits(weights)


@given(n=st.integers(0, 5), length=st.integers(0, 3 * CELLS_OF_A_LINE))
def test_rows_begin_with_a_line(n: int, length: int) -> None:
    rows = in_lines(n, length)
    assert len(rows) == n
    assert rows.shape[1] in range(length, length + CELLS_OF_A_LINE)
    assert rows.flags.c_contiguous
    assert {row.ctypes.data % (CELLS_OF_A_LINE * rows.itemsize) for row in rows if row.size} <= {0}


def laid(places: list[int], weights: list[int]) -> tuple[list[int], list[int], bool]:
    """Where rows lie and their weights there, as `block_cells` says."""
    size = len(places)
    place, share = np.full(size, -1, np.int32), np.full(int(SPREAD * size), -1, np.int32)
    length, is_whole = block_cells(np.array(places, np.int32), np.array(weights, np.int32), place, share)
    return place.tolist(), share[:length].tolist(), bool(is_whole)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6, unique=True), st.data())
def test_rows_lie_side_by_side_as_far_as_their_spread_allows(places: list[int], data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.integers(1, 9), min_size=len(places), max_size=len(places)))
    reach = max(places) - min(places) + 1
    if places == sorted(places) and reach <= SPREAD * len(places):
        own = dict(zip(places, weights, strict=True))
        expected = [own.get(place, 0) for place in range(places[0], places[-1] + 1)]
        assert laid(places, weights) == ([place - places[0] for place in places], expected, True)
    else:
        assert laid(places, weights) == (list(range(len(places))), weights, False)


@pytest.mark.parametrize(("places", "is_whole"), [([3, 4, 5], True), ([3, 8], False), ([4, 3], False), ([3, 6], True)])
def test_rows_out_of_order_or_far_apart_are_gathered(places: list[int], is_whole: bool) -> None:
    assert laid(places, [1] * len(places))[2] == is_whole


def test_a_whole_row_is_what_would_be_gathered_and_what_lies_between() -> None:
    z = samples.distances(9)
    criterion = MeanDistance.from_distances(z, 2.0)
    frontier = samples.level([[2, 4, 5, 7]], [[1] * 4])
    below = samples.level([[4, 7]], [[1] * 2])
    packed = criterion.pack(frontier)
    for source, level, between in (
        (criterion, frontier, [2, 3, 4, 5, 6, 7]),
        (criterion, below, [4, 5, 6, 7]),
        (packed, frontier, [2, 4, 5, 7]),
        (packed, below, [4, 5, 7]),
    ):
        for i, row in enumerate(level.rows):
            gathered, where = np.zeros(len(level.rows), np.float32), source.where(level)
            gather(i, 0, len(level.rows), where, gathered)
            begin = begin_of(i, 0, len(level.rows), where)
            assert gathered.tolist() == z[row, level.rows].tolist()
            assert where.cells[begin : begin + len(between)].tolist() == z[row, between].tolist()
            assert gathered.any()


@pytest.mark.parametrize("step", [1, CELLS_OF_A_LINE // 2, CELLS_OF_A_LINE])
def test_a_gather_from_far_away_reads_the_same(step: int) -> None:
    n = math.isqrt(FAR_CELLS) + 1
    z = np.random.default_rng(step).random((n, n), dtype=np.float32)
    criterion, rows = MeanDistance.from_distances(z, 1.0), np.arange(0, n, step)
    everything = samples.level([list(range(n))], [[1] * n])
    level = samples.level([rows.tolist()], [[1] * len(rows)])
    for source in (criterion, criterion.pack(everything)):
        where, row = source.where(level), np.zeros(len(rows), np.float32)
        gather(1, 0, len(rows), where, row)
        assert row.tolist() == z[rows[1], rows].tolist()


@settings(max_examples=tries(8), deadline=None)
@given(
    n=st.integers(CELLS_OF_32_BITS - 1, 2 * CELLS_OF_32_BITS + 5),
    seed=st.integers(0, 2**32 - 1),
    heavy=st.booleans(),
    signed=st.booleans(),
    missing=st.booleans(),
    far=st.booleans(),
    rows=st.sampled_from(["out of order", "side by side", "spread", "scattered"]),
    outlier=st.sampled_from([0.0, 1e4, 1e12]),
)
def test_the_cut_of_a_node_of_more_than_a_chunk_is_the_references(
    n: int, seed: int, heavy: bool, signed: bool, missing: bool, far: bool, rows: str, outlier: float
) -> None:
    rng = np.random.default_rng(seed)
    among = {"spread": 3 * n // 2, "scattered": 3 * n}.get(rows, n)
    z = rng.random((among, among), dtype=np.float32)
    z = np.maximum(z, z.T) - np.float32(0.5 * signed)
    one, other = rng.integers(among, size=2)  # no row of its own: a guess may overlook it, and it may be another's
    z[one, other] = z[other, one] = z[one, other] + np.float32(outlier)
    values = rng.integers(0, 9, (2, n)).astype(np.float64)
    values[:, : n // 5 * missing] = np.nan
    weights = rng.integers(1, 31 if heavy else 2, n, endpoint=True).tolist()
    drawn = rng.permutation(among)[:n]
    own = drawn if rows == "out of order" else np.sort(drawn)
    largest, block = float(np.abs(z).max()), z[np.ix_(own, own)]
    criterion = MeanDistance.from_distances(z, largest)
    candidate, threshold, gain = naive.best_cut_dense(values, block, weights, 1, naive.node_bits(block, largest))
    frontier = samples.level([own.tolist()], [weights])
    for source in (criterion, criterion.pack(frontier)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blocks, "FAR_CELLS", 0 if far else FAR_CELLS)  # far rows are fetched ahead
            found = source.cut(frontier, values, 1)
        assert (found.candidate[0], found.threshold[0]) == (candidate, threshold)
        assert found.gain[0] == pytest.approx(gain, rel=1e-10)


@pytest.mark.parametrize("n", [5, CELLS_OF_32_BITS + 6])
@pytest.mark.parametrize("weight", [200, 1 << 15])
def test_a_distance_that_is_rounded_to_a_power_of_two_is_added_like_any_other(n: int, weight: int) -> None:
    """With so few digits the largest distance, just below 1, needs a bit more than all others."""
    rng = np.random.default_rng(n)
    z = rng.random((n, n), dtype=np.float32)
    z = np.maximum(z, z.T)
    z[0, 1] = z[1, 0] = np.nextafter(np.float32(1.0), np.float32(0.0))
    values, weights = rng.integers(0, 9, (2, n)).astype(np.float64), [weight] * n
    bits = naive.node_bits(z, 1.0 - 2.0**-24, naive.node_digits(weights))
    candidate, threshold, gain = naive.best_cut_dense(values, z, weights, 1, bits)
    found = MeanDistance.from_distances(z, 1.0 - 2.0**-24).cut(samples.level([list(range(n))], [weights]), values, 1)
    assert (found.candidate[0], found.threshold[0]) == (candidate, threshold)
    assert found.gain[0] == pytest.approx(gain, rel=1e-10)
