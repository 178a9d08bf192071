"""Sums over links to earlier rows, against a loop over the links."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.growth.cuts.earlier_links import CANDIDATE_LANES, add_earlier
from distforest.jit import kernel
from tests.tries import tries

pytestmark = pytest.mark.kernels


@kernel
def earlier_of(rank: np.ndarray, limit: int, place: np.ndarray, terms: np.ndarray, span: tuple[int, int]) -> np.ndarray:
    """The sums of the links of a span; what was in their array before does not count."""
    sums = np.full(CANDIDATE_LANES, 77, np.int64)
    add_earlier(rank, limit, place, terms, span[0], span[1], sums)
    return sums


@settings(max_examples=tries(60), deadline=None)
@given(st.integers(1, 30), st.integers(0, 50), st.integers(0, 2**32 - 1))
def test_each_lane_has_its_own_sum(n_rows: int, n_links: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = rng.integers(0, n_rows + 1, (n_rows, CANDIDATE_LANES), np.int32)
    place = rng.integers(0, n_rows, n_links).astype(np.int32)
    terms = rng.integers(-(2**57), 2**57, n_links)
    limit = int(rng.integers(n_rows))
    begin, end = sorted(rng.integers(0, n_links + 1, 2).tolist())
    expected = [
        sum(int(terms[e]) for e in range(begin, end) if rank[place[e], lane] < rank[limit, lane])
        for lane in range(CANDIDATE_LANES)
    ]
    assert earlier_of(rank, limit, place, terms, (begin, end)).tolist() == expected
