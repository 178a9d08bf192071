"""The numbers against naive.py: no state, no order, modulo 2^64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.growth import rng
from tests.reference import naive

pytestmark = pytest.mark.kernels

SEEDS = st.integers(0, 2**63 - 1)
WORDS = st.integers(0, 2**64 - 1)


@given(WORDS)
def test_mix_is_the_reference(z: int) -> None:
    assert int(rng.mix(np.uint64(z))) == naive.mix(z)


@given(SEEDS, st.lists(st.tuples(st.integers(0, 2**31), st.integers(-1, 2**31 - 2)), min_size=1, max_size=4))
def test_streams_are_the_reference(seed: int, places: list[tuple[int, int]]) -> None:
    tree = np.array([t for t, _ in places], np.int64)
    node = np.array([v for _, v in places], np.int32)
    keys = np.empty(len(places), np.uint64)
    rng.streams(seed, tree, node, keys)
    assert keys.tolist() == [naive.stream(seed, t, v) for t, v in places]
    assert int(rng.stream(seed, places[0][0], places[0][1])) == keys[0]


@given(WORDS, st.integers(0, 2**40), st.integers(1, 2**31 - 1))
def test_draws_of_a_stream_are_the_reference(key: int, draw: int, k: int) -> None:
    assert int(rng.random_bits(np.uint64(key), draw)) == naive.number(key, draw)
    assert int(rng.below(np.uint64(key), draw, k)) == naive.below(key, draw, k)
    assert 0 <= rng.below(np.uint64(key), draw, k) < k
    assert float(rng.unit(np.uint64(key), draw)) == naive.unit(key, draw)
    assert 0.0 <= rng.unit(np.uint64(key), draw) < 1.0


@given(SEEDS, st.integers(0, 10**6), st.integers(1, 40), st.integers(0, 60))
def test_bootstrap_is_the_reference(seed: int, tree: int, n_rows: int, n_draws: int) -> None:
    weights = np.full(n_rows, -1, np.int32)
    rng.bootstrap(seed, tree, n_draws, weights)
    assert weights.tolist() == naive.bootstrap_weights(seed, tree, n_rows, n_draws).tolist()


@given(st.data(), SEEDS, st.integers(0, 10**6), st.integers(1, 40))
def test_subsample_is_the_reference(data: st.DataObject, seed: int, tree: int, n_rows: int) -> None:
    n_draws = data.draw(st.integers(0, n_rows))
    weights = np.full(n_rows, -1, np.int32)
    rng.subsample(seed, tree, n_draws, weights)
    assert weights.tolist() == naive.subsample_weights(seed, tree, n_rows, n_draws).tolist()


@settings(max_examples=5)
@given(SEEDS)
def test_numbers_of_neighbouring_keys_do_not_agree(seed: int) -> None:
    tree, node = (array.reshape(-1) for array in np.meshgrid(np.arange(-1, 20), np.arange(-1, 20)))
    keys = np.empty(len(tree), np.uint64)
    rng.streams(seed, tree.astype(np.int64), node.astype(np.int32), keys)
    assert len(np.unique(keys)) == len(keys)
    bits = np.unpackbits(keys.view(np.uint8)).mean()
    assert abs(bits - 0.5) < 6 * 0.5 / np.sqrt(64 * len(keys))
