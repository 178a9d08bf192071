"""The rows of a block: how they are read, weighed and added up, in 32 bits and in 64."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.growth import mean_distance
from distforest.growth.blocks import FAR_CELLS, LINE, SPREAD, copy, gather, in_lines, lay
from distforest.growth.mean_distance import CHUNK, MeanDistance, masked_sums, weigh
from tests import naive, samples

pytestmark = pytest.mark.kernels

HIGHEST = {"small": 9, "middle": 1 << 25, "largest": 1 << 26, "at the edge": 1 << 26}


def row_of(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Distances in fixed point; at the edge all are the largest, where a chunk just no longer fits."""
    row = rng.integers(0, HIGHEST.get(kind, 9), n, endpoint=True)
    if kind == "signed" and n:
        row[rng.integers(n)] = -1
    return (np.full(n, 1 << 26) if kind == "at the edge" else row).astype(np.int32)


@pytest.mark.parametrize("kind", [*HIGHEST, "signed"])
@settings(max_examples=25)
@given(n=st.integers(0, 3 * CHUNK), seed=st.integers(0, 2**32 - 1), most=st.sampled_from([1, 2, 31]), data=st.data())
def test_sums_of_a_row_are_exact_in_as_few_bits_as_they_need(
    kind: str, n: int, seed: int, most: int, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    rows, weights = [row_of(kind, n, rng) for _ in range(2)], rng.integers(1, most, n, endpoint=True).astype(np.int32)
    rank, limits = rng.permutation(n).astype(np.int32), data.draw(st.tuples(*[st.integers(0, n)] * 2))
    are_narrow, expected = [], []
    for values, limit in zip(rows, limits, strict=True):
        exact = [int(value) * int(weight) for value, weight in zip(values, weights, strict=True)]
        total, is_narrow = weigh(values, weights)
        assert (values.tolist(), int(total)) == (exact, sum(exact))
        chunks = [sum(exact[first : first + CHUNK]) for first in range(0, n - CHUNK + 1, CHUNK)]
        assert bool(is_narrow) == (bool(chunks) and min(exact[: n - n % CHUNK]) >= 0 and max(chunks) < 2**32)
        are_narrow.append(bool(is_narrow))
        expected.append(sum(value for value, own in zip(exact, rank, strict=True) if own < limit))
    where = MeanDistance.of(np.zeros((1, 1), np.float32), 1.0).where(samples.level([[0]], [[1]]))._replace(is_far=True)
    for narrow in {False, all(are_narrow)}:  # what is fetched ahead may lie anywhere
        assert masked_sums(*rows, rank, tuple(np.int32(limits)), narrow, where, (n, -n)) == tuple(expected)


@given(n=st.integers(0, 5), length=st.integers(0, 3 * LINE))
def test_rows_begin_with_a_line(n: int, length: int) -> None:
    rows = in_lines(n, length)
    assert len(rows) == n
    assert rows.shape[1] in range(length, length + LINE)
    assert rows.flags.c_contiguous
    assert {row.ctypes.data % (LINE * rows.itemsize) for row in rows if row.size} <= {0}


def laid(places: list[int], weights: list[int]) -> tuple[list[int], list[int], bool]:
    """Where rows lie and their weights there, as `lay` says."""
    size = len(places)
    place, share = np.full(size, -1, np.int32), np.full(int(SPREAD * size), -1, np.int32)
    length, is_copied = lay(np.array(places, np.int32), np.array(weights, np.int32), place, share)
    return place.tolist(), share[:length].tolist(), bool(is_copied)


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


@pytest.mark.parametrize(("places", "is_copied"), [([3, 4, 5], True), ([3, 8], False), ([4, 3], False), ([3, 6], True)])
def test_rows_out_of_order_or_far_apart_are_gathered(places: list[int], is_copied: bool) -> None:
    assert laid(places, [1] * len(places))[2] == is_copied


def test_what_is_copied_is_what_would_be_gathered_and_what_lies_between() -> None:
    z = samples.distances(9)
    criterion = MeanDistance.of(z, 2.0)
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
            gathered, copied = np.zeros(len(level.rows), np.int32), np.zeros(len(between), np.int32)
            gather(i, 0, len(level.rows), source.where(level), gathered)
            copy(i, 0, source.where(level), copied)
            assert gathered.tolist() == np.rint(z[row, level.rows] * criterion.scale).tolist()
            assert copied.tolist() == np.rint(z[row, between] * criterion.scale).tolist()
            assert gathered.any()


@pytest.mark.parametrize("step", [1, LINE // 2, LINE])
def test_a_gather_from_far_away_reads_the_same(step: int) -> None:
    n = math.isqrt(FAR_CELLS) + 1
    z = np.random.default_rng(step).random((n, n), dtype=np.float32)
    criterion, rows = MeanDistance.of(z, 1.0), np.arange(0, n, step)
    everything = samples.level([list(range(n))], [[1] * n])
    level = samples.level([rows.tolist()], [[1] * len(rows)])
    for source in (criterion, criterion.pack(everything)):
        where, row = source.where(level), np.zeros(len(rows), np.int32)
        gather(1, 0, len(rows), where, row)
        assert row.tolist() == np.rint(z[rows[1], rows] * criterion.scale).tolist()


@settings(max_examples=8, deadline=None)
@given(
    n=st.integers(CHUNK - 1, 2 * CHUNK + 5),
    seed=st.integers(0, 2**32 - 1),
    heavy=st.booleans(),
    signed=st.booleans(),
    missing=st.booleans(),
    far=st.booleans(),
    rows=st.sampled_from(["out of order", "side by side", "spread", "scattered"]),
)
def test_the_cut_of_a_node_of_more_than_a_chunk_is_the_references(
    n: int, seed: int, heavy: bool, signed: bool, missing: bool, far: bool, rows: str
) -> None:
    rng = np.random.default_rng(seed)
    among = {"spread": 3 * n // 2, "scattered": 3 * n}.get(rows, n)
    z = rng.random((among, among), dtype=np.float32)
    z = np.maximum(z, z.T) - np.float32(0.5 * signed)
    values = rng.integers(0, 9, (2, n)).astype(np.float64)
    values[:, : n // 5 * missing] = np.nan
    weights = rng.integers(1, 31 if heavy else 2, n, endpoint=True).tolist()
    drawn = rng.permutation(among)[:n]
    own = drawn if rows == "out of order" else np.sort(drawn)
    criterion = MeanDistance.of(z, float(np.abs(z).max()))
    bits = round(math.log2(criterion.scale))
    candidate, threshold, gain = naive.best_cut_dense(values, z[np.ix_(own, own)], weights, 1, bits)
    frontier = samples.level([own.tolist()], [weights])
    for source in (criterion, criterion.pack(frontier)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mean_distance, "FAR_CELLS", 0 if far else FAR_CELLS)  # far rows are fetched ahead
            found = source.cut(frontier, values, 1)
        assert (found.candidate[0], found.threshold[0]) == (candidate, threshold)
        assert found.gain[0] * criterion.unit == pytest.approx(gain, rel=1e-10)
