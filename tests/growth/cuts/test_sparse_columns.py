"""Moving all zeros at once, against projecting, ordering and scanning the dense matrix; and against exact cuts."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.forest.frontier import Frontier
from distforest.growth.cuts.criteria import Gini, Variance
from distforest.growth.cuts.entropy import Entropy
from distforest.growth.cuts.poisson import Poisson
from distforest.growth.cuts.search import Limits, project_and_cut, score_and_cut
from distforest.growth.methods import search_of
from distforest.sources.arrays import ArraySource
from distforest.sources.source import Projections
from tests import samples
from tests.reference import naive
from tests.sources.test_sparse_features import source_of, words
from tests.tries import tries

pytestmark = pytest.mark.kernels

N_ROWS = 30 if numba.config.DISABLE_JIT else 150
FREE = settings(max_examples=tries(60))


def level_of(n_rows: int, n_nodes: int, rng: np.random.Generator) -> Frontier:
    """Nodes of one tree, whose rows ascend."""
    node = rng.integers(0, n_nodes, n_rows)
    rows = [np.flatnonzero(node == own).tolist() for own in np.unique(node)]
    return samples.level(rows, [rng.integers(1, 6, len(own)).tolist() for own in rows])


def candidates_of(n_nodes: int, n_columns: int, rng: np.random.Generator) -> Projections:
    """Candidates of up to three columns, some of which come twice in a node, and some of no column."""
    width = int(rng.integers(1, 5))
    weights = [1.0, -1.0, 0.3]
    return samples.projections(
        [
            [
                [(int(c), float(rng.choice(weights))) for c in rng.permutation(n_columns)[: rng.integers(0, 4)]]
                for _ in range(width)
            ]
            for _ in range(n_nodes)
        ]
    )


@FREE
@given(
    st.integers(0, 9999),
    st.integers(1, N_ROWS),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    st.integers(1, 12),
)
def test_the_fused_search_is_its_dense_twin_to_the_bit(
    seed: int, n_rows: int, n_columns: int, share: float, min_leaf: int
) -> None:
    rng, dense = np.random.default_rng(seed), words(n_rows, n_columns, seed, share)
    source, twin = source_of(dense), ArraySource.from_values(dense, is_complete=True)
    frontier = level_of(n_rows, int(rng.integers(1, 6)), rng)
    projections, limits = candidates_of(frontier.n_nodes, n_columns, rng), Limits(2, min_leaf)
    Y = samples.features(n_rows, seed=seed).astype(np.float64)
    labels, counts = samples.labels(n_rows, seed), Poisson.from_counts(np.abs(Y[:, :1]).round())
    for criterion in (
        Gini(labels, 3),
        Entropy(labels, 3),
        Variance.from_vectors(Y[:, :1], 0.5),
        Variance.from_vectors(Y, 1.0),
        counts,
    ):
        search = search_of(source, criterion)
        assert search is not score_and_cut
        cuts, values = search(source, criterion, frontier, projections, limits)
        expected, of_rows = project_and_cut(twin, criterion, frontier, projections, limits)
        assert [part.tobytes() for part in cuts] == [part.tobytes() for part in expected]
        assert values.tobytes() == of_rows.tobytes()


@FREE
@given(st.integers(0, 9999), st.integers(2, 12), st.integers(1, 4))
def test_the_cuts_are_the_exact_ones(seed: int, n_rows: int, min_leaf: int) -> None:
    rng, dense = np.random.default_rng(seed), words(n_rows, 4, seed, 0.4)
    codes, weights = rng.integers(0, 3, n_rows).astype(np.int32), rng.integers(1, 4, n_rows).tolist()
    source, frontier = source_of(dense), samples.level([list(range(n_rows))], [weights])
    projections = samples.projections([[[(column, 1.0)] for column in range(4)]])
    targets = rng.normal(size=(n_rows, 2))
    gini, variance = Gini(codes, 3), Variance.from_vectors(targets, 1.0)
    expected = (
        naive.best_cut_labels(dense.T.astype(float).tolist(), codes, weights, min_leaf),
        naive.best_cut_embedding(dense.T.astype(float).tolist(), targets, weights, min_leaf, 1.0),
    )
    for criterion, (candidate, threshold, gain) in zip((gini, variance), expected, strict=True):
        cuts, _ = search_of(source, criterion)(source, criterion, frontier, projections, Limits(2, min_leaf))
        assert (cuts.candidate.tolist(), cuts.threshold.tolist()) == ([candidate], [threshold])
        np.testing.assert_allclose(cuts.gain.clip(0) * criterion.unit, [gain], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("value", "threshold"), [(3.0, 1.5), (-3.0, -1.5)])
def test_a_planted_cut_between_zeros_and_others_is_found(value: float, threshold: float) -> None:
    dense = np.zeros((9, 3), np.float32)
    dense[[1, 4, 5], 1] = value
    codes = (dense[:, 1] != 0.0).astype(np.int32)
    source, frontier = source_of(dense), samples.level([list(range(9))], [[1] * 9])
    single = samples.projections([[[(column, 1.0)] for column in range(3)]])
    for criterion in (Gini(codes, 2), Variance.from_vectors(codes[:, None] * 2.0, 0.5)):
        for min_leaf, candidate in ((3, 1), (4, -1)):
            cuts, values = search_of(source, criterion)(source, criterion, frontier, single, Limits(2, min_leaf))
            assert cuts.candidate.tolist() == [candidate]
            if candidate == 1:
                assert cuts.threshold.tolist() == [threshold]
                assert values.tolist() == dense[:, 1].tolist()


def test_a_sum_that_cancels_is_a_zero_among_the_others() -> None:
    dense = np.array([[1, 1], [2, 0], [0, 0], [0, 3]], np.float32)
    source, frontier = source_of(dense), samples.level([[0, 1, 2, 3]], [[1, 1, 1, 1]])
    difference = samples.projections([[[(0, 1.0), (1, -1.0)]]])
    criterion = Gini(np.array([0, 1, 0, 2], np.int32), 3)
    cuts, values = search_of(source, criterion)(source, criterion, frontier, difference, Limits(2, 2))
    assert (cuts.candidate.tolist(), cuts.threshold.tolist()) == ([-1], [0.0])
    assert values.tolist() == [0.0, 2.0, 0.0, -3.0]
    cuts, _ = search_of(source, criterion)(source, criterion, frontier, difference, Limits(2, 1))
    assert cuts.threshold.tolist() == [-1.5]
