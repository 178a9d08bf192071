"""Sums of one-sided distances: in the order of the definition, whatever is asked for together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest import SMERF, Distances, Embedding, Graph, Labels, Targets
from distforest.forest import one_sided, scoring
from distforest.forest.one_sided import TILE_COLUMNS, TILE_ROWS, add_products, add_shares_of_links
from tests.reference.naive_one_sided import products, products_of_links

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 3))
Z = np.abs(X[:, 0, None] - X[:, 0])
HOLES = np.where(np.triu(RNG.random(Z.shape) < 0.3, 1), np.nan, Z)
HOLES = np.triu(HOLES) + np.triu(HOLES, 1).T
HOLES[:, 4:7] = HOLES[4:7] = np.nan
LINKS = scipy.sparse.csr_array((Z < 0.2).astype(float))
TAUGHT: dict[str, Any] = {
    "graph": Graph(LINKS),
    "distances": Distances(Z),
    "far distances": Distances(1e7 + Z),
    "holes": Distances(HOLES),
    "labels": Labels(np.digitize(X[:, 0], [-0.5, 0.5])),
    "targets": Targets(X[:, 1]),
    "embedding": Embedding(X[:, :2]),
}


@settings(max_examples=20)
@given(st.integers(1, 4), st.integers(1, 2 * TILE_ROWS + 3), st.integers(1, 5), st.integers(0, 2**32))
def test_products_are_added_in_order(n: int, m: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shares, block = rng.random((n, m)) * (rng.random((n, m)) < rng.random()), rng.normal(size=(m, width))
    sums = np.zeros((n, width))
    add_products(shares, block, sums)
    assert sums.tolist() == products(shares, block)


def test_products_are_added_in_order_beyond_a_tile() -> None:
    shares, block = RNG.random((3, 70)), RNG.normal(size=(70, TILE_COLUMNS + 9))
    sums = np.zeros((3, block.shape[1]))
    add_products(shares, block, sums)
    assert sums.tolist() == products(shares, block)


@settings(max_examples=20)
@given(st.integers(1, 4), st.integers(1, 9), st.integers(0, 2**32))
def test_sums_over_links_are_added_in_order(n: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shares, links = rng.random((n, m)) * (rng.random((n, m)) < 0.7), rng.normal(size=(m, m))
    links[rng.random((m, m)) < 0.5] = 0.0
    stored = scipy.sparse.csr_array(links)
    near, mass = np.zeros((n, m)), np.zeros((n, 1))
    add_shares_of_links(shares, stored.indptr.astype(np.int64), stored.indices, stored.data, near, mass)
    assert (near.tolist(), mass[:, 0].tolist()) == products_of_links(shares, links)


@pytest.mark.filterwarnings("ignore::distforest.errors.DistforestWarning")
@pytest.mark.parametrize("at_once", [1, 7 * N, 1 << 23])
@pytest.mark.parametrize("name", TAUGHT)
def test_no_bit_depends_on_what_is_asked_for_together(name: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    forest = SMERF(20, min_samples_leaf=3, random_state=0).fit(X, TAUGHT[name])
    truth, new = scoring.truth_as_learned(forest.forest_, TAUGHT[name]), RNG.normal(size=(17, 3))
    nodes, whole = forest._nodes(new), forest.training_distance(new, TAUGHT[name], sides="one")
    monkeypatch.setattr(one_sided, "SHARES_AT_ONCE", at_once)
    assert forest.training_distance(new, TAUGHT[name], sides="one").tobytes() == whole.tobytes()
    for size in (1, 2, 5):
        parts = [nodes[:, first : first + size] for first in range(0, 17, size)]
        found = np.concatenate([one_sided.one_sided_distance(forest.forest_, part, truth) for part in parts])
        of_leaves = scoring.distance(forest.forest_, nodes, forest.forest_.training_nodes)
        assert np.where(np.isnan(found), of_leaves, found).tobytes() == whole.tobytes()
    shares, _ = one_sided.shares_of_rows(forest.forest_, nodes, np.ones(nodes.shape, np.bool_))
    of_all = one_sided.weighted_distances(shares, truth, np.arange(N))
    some = np.array([3, 50, 7])
    assert one_sided.weighted_distances(shares, truth, some).tobytes() == of_all[:, some].tobytes()
