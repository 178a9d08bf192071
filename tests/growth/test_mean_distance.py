"""The rows of a block: how they are read, weighed and added up, in 32 bits and in 64."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.growth.mean_distance import CHUNK, MeanDistance, copy, gather, is_run, masked_sum, weigh
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
    values, weights = row_of(kind, n, rng), rng.integers(1, most, n, endpoint=True).astype(np.int32)
    exact = [int(value) * int(weight) for value, weight in zip(values, weights, strict=True)]
    total, is_narrow = weigh(values, weights)
    assert (values.tolist(), int(total)) == (exact, sum(exact))
    chunks = [sum(exact[first : first + CHUNK]) for first in range(0, n - CHUNK + 1, CHUNK)]
    assert bool(is_narrow) == (bool(chunks) and min(exact[: n - n % CHUNK]) >= 0 and max(chunks) < 2**32)
    rank, limit = rng.permutation(n).astype(np.int32), np.int32(data.draw(st.integers(0, n)))
    expected = sum(value for value, own in zip(exact, rank, strict=True) if own < limit)
    for narrow in {False, bool(is_narrow)}:
        assert masked_sum(values, rank, limit, narrow) == expected


@given(st.lists(st.integers(0, 4), max_size=5))
def test_a_run_is_told_from_what_only_ends_like_one(numbers: list[int]) -> None:
    expected = all(number == numbers[0] + place for place, number in enumerate(numbers))
    assert is_run(np.array(numbers, np.int32)) == expected


def test_what_lies_side_by_side_is_copied_as_it_would_be_gathered() -> None:
    criterion = MeanDistance.of(samples.distances(9), 2.0)
    frontier = samples.level([[2, 3, 4, 5]], [[1] * 4])
    below = samples.level([[3, 4]], [[1] * 2])
    packed = criterion.pack(frontier)
    for source, level in ((criterion, frontier), (packed, frontier), (packed, below)):
        for i in range(len(level.rows)):
            gathered, copied = np.zeros((2, len(level.rows)), np.int32)
            gather(i, 0, len(level.rows), source.where(level), gathered)
            copy(i, 0, len(level.rows), source.where(level), copied)
            assert copied.tolist() == gathered.tolist()
            assert gathered.any()


@settings(max_examples=8, deadline=None)
@given(
    n=st.integers(CHUNK - 1, 2 * CHUNK + 5),
    seed=st.integers(0, 2**32 - 1),
    heavy=st.booleans(),
    signed=st.booleans(),
    missing=st.booleans(),
)
def test_the_cut_of_a_node_of_more_than_a_chunk_is_the_references(
    n: int, seed: int, heavy: bool, signed: bool, missing: bool
) -> None:
    rng = np.random.default_rng(seed)
    z = rng.random((n, n), dtype=np.float32)
    z = np.maximum(z, z.T) - np.float32(0.5 * signed)
    values = rng.integers(0, 9, (2, n)).astype(np.float64)
    values[:, : n // 5 * missing] = np.nan
    weights = rng.integers(1, 31 if heavy else 2, n, endpoint=True).tolist()
    rows = rng.permutation(n)
    criterion = MeanDistance.of(z, float(np.abs(z).max()))
    bits = round(math.log2(criterion.scale))
    candidate, threshold, gain = naive.best_cut_dense(values, z[np.ix_(rows, rows)], weights, 1, bits)
    frontier = samples.level([rows.tolist()], [weights])
    for own in (criterion, criterion.pack(frontier)):
        found = own.cut(frontier, values, 1)
        assert (found.candidate[0], found.threshold[0]) == (candidate, threshold)
        assert found.gain[0] * criterion.unit == pytest.approx(gain, rel=1e-10)
