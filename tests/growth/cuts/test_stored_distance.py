"""Cuts from passes over a matrix of distances are those of the matrix in memory, to the bit, and of the formula."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distforest.growth.cuts.mean_distance import CELLS_OF_32_BITS, MeanDistance
from distforest.growth.cuts.stored_distance import StoredDistance
from tests import samples
from tests.reference import naive
from tests.reference.naive_stored import best_cut_by_pairs
from tests.tries import tries

pytestmark = pytest.mark.kernels


def matrix_of(n: int, rng: np.random.Generator, outlier: float = 0.0, signed: bool = False) -> np.ndarray:
    """Symmetric distances, one of which may be larger by far, so that a guessed scale is too small."""
    z = rng.random((n, n), dtype=np.float32)
    z = np.maximum(z, z.T) - np.float32(0.5 * signed)
    one, other = rng.integers(n, size=2)
    z[one, other] = z[other, one] = z[one, other] + np.float32(outlier)
    return z


@pytest.mark.slow
@settings(max_examples=tries(25), deadline=None)
@given(
    n=st.integers(2, CELLS_OF_32_BITS + 30),
    seed=st.integers(0, 2**32 - 1),
    block_rows=st.integers(1, 40),
    budget=st.sampled_from([1, 2_000, 30_000, 1 << 20]),
    outlier=st.sampled_from([0.0, 1e4, 1e12]),
    signed=st.booleans(),
    missing=st.booleans(),
    places_missing=st.booleans(),
    heavy=st.booleans(),
    min_leaf=st.sampled_from([1, 3]),
)
def test_a_level_by_passes_is_cut_as_in_memory(
    n: int,
    seed: int,
    block_rows: int,
    budget: int,
    outlier: float,
    signed: bool,
    missing: bool,
    places_missing: bool,
    heavy: bool,
    min_leaf: int,
) -> None:
    rng = np.random.default_rng(seed)
    among = n + int(rng.integers(2 * n))
    z = matrix_of(among, rng, outlier, signed)
    whole = MeanDistance.from_distances(z, float(np.abs(z).max()), places_missing)
    stored = StoredDistance.from_criterion(whole, budget, block_rows)
    rows = [np.sort(rng.permutation(among)[: rng.integers(1, n + 1)]).tolist() for _ in range(3)]
    weights = [rng.integers(1, 3000 if heavy else 3, len(own)).tolist() for own in rows]
    frontier = samples.level(rows, weights)
    values = rng.integers(0, 9, (2, len(frontier.rows))).astype(np.float64)
    values[rng.random(values.shape) < 0.2 * missing] = np.nan
    at_level = stored.at(frontier)
    np.testing.assert_array_equal(at_level.impure(frontier), whole.impure(frontier))
    for found, expected in zip(
        at_level.cut(frontier, values, min_leaf), whole.cut(frontier, values, min_leaf), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


@settings(max_examples=tries(10), deadline=None)
@given(seed=st.integers(0, 2**32 - 1), block_rows=st.integers(1, 9), missing=st.booleans())
@example(seed=32480, block_rows=1, missing=False)  # nothing is cut
def test_a_cut_by_sums_is_the_references(seed: int, block_rows: int, missing: bool) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 30))
    z = matrix_of(n, rng)
    values = rng.integers(0, 9, (2, n)).astype(np.float64)
    values[:, : n // 5 * missing] = np.nan
    weights, largest = rng.integers(1, 4, n).tolist(), float(np.abs(z).max())
    pairs = list(itertools.product(range(n), repeat=2))
    rng.shuffle(pairs)
    expected = best_cut_by_pairs(values, z, weights, 1, naive.node_bits(z, largest), pairs)
    frontier = samples.level([list(range(n))], [weights])
    found = (
        StoredDistance.from_criterion(MeanDistance.from_distances(z, largest), 1, block_rows)
        .at(frontier)
        .cut(frontier, values, 1)
    )
    assert (found.candidate[0], found.threshold[0]) == expected[:2]
    if found.candidate[0] >= 0:  # without a cut there is no gain
        assert found.gain[0] == pytest.approx(expected[2], rel=1e-10)


def test_blocks_that_fit_are_gathered_the_smallest_first() -> None:
    z = matrix_of(40, np.random.default_rng(3))
    criterion = StoredDistance.from_criterion(MeanDistance.from_distances(z, 1.0), 2_000, 1)
    frontier = samples.level([list(range(20)), [1, 5, 30], list(range(10, 20))], [[1] * 20, [1] * 3, [1] * 10])
    packed = criterion.at(frontier)
    assert [pack.packed.cells.nbytes for pack in packed.packs] == [4 * (9 + 100)]
    below = samples.level([[0, 1, 2, 4], [1, 5], [10, 12]], [[1] * 4, [1] * 2, [1] * 2])
    further = packed.at(below)
    assert [pack.packed.cells.nbytes for pack in further.packs] == [4 * 8, 4 * 16]


def test_a_node_of_equal_distances_is_pure() -> None:
    z = np.full((6, 6), 2.0, np.float32)
    z[5] = z[:, 5] = 3.0
    frontier = samples.level([[0, 1, 2], [3, 4, 5]], [[1] * 3, [1] * 3])
    criterion = StoredDistance.from_criterion(MeanDistance.from_distances(z, 3.0), 1, 1)
    assert criterion.at(frontier).impure(frontier).tolist() == [False, True]
