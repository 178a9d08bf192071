"""Searching codes where they lie, against projecting, ordering and scanning them; and against exact cuts."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.forest.frontier import Frontier
from distforest.growth.cuts import class_histograms, histograms
from distforest.growth.cuts.criteria import Gini, Variance
from distforest.growth.cuts.entropy import Entropy
from distforest.growth.cuts.mean_distance import MeanDistance
from distforest.growth.cuts.poisson import Poisson
from distforest.growth.cuts.search import Limits, project_and_cut, score_and_cut
from distforest.growth.methods import search_of
from distforest.sources.arrays import ArraySource
from distforest.sources.binned import BinnedSource
from distforest.sources.source import Projections
from tests import samples
from tests.messages import naming
from tests.reference import naive
from tests.tries import tries

pytestmark = pytest.mark.kernels

N_ROWS = 60 if numba.config.DISABLE_JIT else 120
FREE = settings(max_examples=tries(40))


def binned(n_rows: int, max_bins: int, seed: int) -> BinnedSource:
    X = samples.features(n_rows, seed=seed)
    X[:, 2] = np.round(X[:, 2])
    return BinnedSource.from_features(X, max_bins)


def level_of(n_rows: int, n_nodes: int, seed: int) -> Frontier:
    """Nodes of one tree, large ones and small ones."""
    rng = np.random.default_rng(seed)
    node = np.sort(rng.integers(0, n_nodes, n_rows) ** 2 // n_nodes)
    order = rng.permutation(n_rows)
    rows = [order[node == own].tolist() for own in np.unique(node)]
    return samples.level(rows, [rng.integers(1, 6, len(own)).tolist() for own in rows])


def columns_of(n_nodes: int, width: int, seed: int) -> Projections:
    columns = np.random.default_rng(seed).integers(0, samples.N_COLUMNS, (n_nodes, width)).tolist()
    return samples.projections([[[(column, 1.0)] for column in own] for own in columns])


@FREE
@given(
    seed=st.integers(0, 999),
    n_rows=st.integers(1, N_ROWS),
    n_nodes=st.integers(1, 4),
    width=st.integers(1, 3),
    max_bins=st.sampled_from([2, 3, 16, 256]),
    min_leaf=st.integers(1, 20),
)
def test_the_fused_search_is_its_generic_twin_to_the_bit(
    seed: int, n_rows: int, n_nodes: int, width: int, max_bins: int, min_leaf: int
) -> None:
    source, frontier = binned(n_rows, max_bins, seed), level_of(n_rows, n_nodes, seed)
    projections = columns_of(frontier.n_nodes, width, seed)
    Y = samples.features(n_rows, seed=seed).astype(np.float64)[:, 1:3]
    labels, counts = samples.labels(n_rows, seed), Poisson.from_counts(np.abs(Y[:, :1]).round())
    for criterion in (
        Gini(labels, 3),
        Entropy(labels, 3),
        Variance.from_vectors(Y[:, :1], 0.5),
        Variance.from_vectors(Y, 1.0),
        counts,
    ):
        cuts, values = search_of(source, criterion)(source, criterion, frontier, projections, Limits(2, min_leaf))
        twin, twin_values = project_and_cut(source, criterion, frontier, projections, Limits(2, min_leaf))
        assert [part.tobytes() for part in cuts] == [part.tobytes() for part in twin]
        assert values.tobytes() == twin_values.tobytes()


@FREE
@given(
    seed=st.integers(0, 999),
    n_rows=st.sampled_from([5, 30, 90, 300]),  # all with all, by counting, by histograms
    n_classes=st.integers(2, 3),
    max_bins=st.sampled_from([2, 255]),
    min_leaf=st.integers(1, 20),
    share=st.sampled_from([0.0, 0.02, 0.3, 0.95]),
)
def test_so_it_is_where_values_are_missing(
    seed: int, n_rows: int, n_classes: int, max_bins: int, min_leaf: int, share: float
) -> None:
    X = samples.features(n_rows, seed=seed)
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    source, frontier = BinnedSource.from_features(X, max_bins), level_of(n_rows, 1, seed)
    projections = columns_of(frontier.n_nodes, 3, seed)
    criterion = Gini(samples.labels(n_rows, seed) % n_classes, n_classes, places_missing=True)
    cuts, values = search_of(source, criterion)(source, criterion, frontier, projections, Limits(2, min_leaf))
    twin, twin_values = project_and_cut(source, criterion, frontier, projections, Limits(2, min_leaf))
    assert [part.tobytes() for part in cuts] == [part.tobytes() for part in twin]
    assert values.tobytes() == twin_values.tobytes()


@pytest.mark.parametrize("n_rows", [20, 50])  # in the order of the codes, and by histograms
@pytest.mark.parametrize("where", [3, -3])
def test_a_side_may_weigh_just_min_leaf(n_rows: int, where: int) -> None:
    side = (np.arange(n_rows) >= where % n_rows).astype(np.int32)
    source = BinnedSource.from_features(np.arange(n_rows, dtype=np.float32)[:, None], 256)
    frontier = samples.level([list(range(n_rows))], [[1] * n_rows])
    for criterion in (Gini(side, 2), Variance.from_vectors(side[:, None] * 2.0, 0.5)):
        for min_leaf, is_allowed in ((2, True), (3, True), (4, False)):
            single = samples.projections([[[(0, 1.0)]]])
            cuts, _ = search_of(source, criterion)(source, criterion, frontier, single, Limits(2, min_leaf))
            assert (cuts.threshold[0] == where % n_rows - 0.5) == is_allowed


@FREE
@given(st.integers(0, 999), st.integers(1, 40), st.integers(1, 4))
def test_histograms_find_the_reference_cut_of_the_codes(seed: int, n_rows: int, min_leaf: int) -> None:
    source, frontier = binned(n_rows, 5, seed), level_of(n_rows, 1, seed)
    projections, codes = columns_of(1, 2, seed), samples.labels(n_rows, seed)
    cuts, _ = search_of(source, Gini(codes, 3))(source, Gini(codes, 3), frontier, projections, Limits(2, min_leaf))
    values = source.codes[np.ix_(frontier.rows, projections.columns)].T.astype(np.float64)
    expected = naive.best_cut_labels(values, codes[frontier.rows], frontier.weights, min_leaf)
    assert (cuts.candidate[0], cuts.threshold[0]) == expected[:2]
    assert cuts.gain[0].clip(0) == pytest.approx(expected[2])


@pytest.mark.parametrize("few", [0, 32, 10_000])
@pytest.mark.parametrize("case", ["binned", "binned_targets"])
def test_trees_of_histograms_are_trees_of_ordered_codes(case: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = samples.problem_of(case, samples.data_of(case, 90))
    assert problem.growth.search is not score_and_cut
    weights = problem.sampling.weights(1, np.arange(3))
    table, leaves = problem.growth.grow(np.arange(3), weights)
    monkeypatch.setattr(class_histograms, "cut_codes_gini", None)  # the twin must not come to the fused kernels
    monkeypatch.setattr(histograms, "cut_codes", None)
    generic = samples.replace(problem.growth, search=project_and_cut)
    twin, twin_leaves = generic.grow(np.arange(3), weights)
    assert leaves.tolist() == twin_leaves.tolist()
    assert [a.tobytes() for a in table.arrays().values()] == [a.tobytes() for a in twin.arrays().values()]


def test_distances_on_binned_features_go_the_generic_way() -> None:
    source, frontier = binned(30, 4, 0), level_of(30, 2, 0)
    projections = columns_of(frontier.n_nodes, 2, 0)
    z = samples.distances(30)
    criterion = MeanDistance.from_distances(z, float(z.max()))
    found, values = search_of(source, criterion)(source, criterion, frontier, projections, Limits())
    projected = source.project(frontier.rows, frontier.starts, projections)
    expected = criterion.cut(frontier, projected, 1)
    assert [part.tobytes() for part in found] == [part.tobytes() for part in expected]
    assert (found.candidate >= 0).all()
    assert values.tolist() == projected[found.candidate[frontier.place], np.arange(30)].tolist()
    array = ArraySource.from_values(samples.features(30))
    exact, _ = search_of(array, criterion)(array, criterion, frontier, projections, Limits())
    assert (exact.gain >= found.gain).all()


@pytest.mark.parametrize("truth_kind", ["labels", "targets", "distances"])
def test_with_a_bin_for_every_value_the_trees_are_the_exact_ones_in_the_bag(truth_kind: str) -> None:
    exact, fine = (samples.problem_of(truth_kind, max_bins=bins, min_samples_leaf=1) for bins in (None, 256))
    trees = np.arange(4)
    expected, found = exact.grow(trees), fine.grow(trees)
    for name in ("left", "right", "columns", "gain", "n_rows", "in_bag"):
        assert found[name].tolist() == expected[name].tolist()
    drawn = expected["in_bag"] > 0
    assert found["leaves"][drawn].tolist() == expected["leaves"][drawn].tolist()


def test_thresholds_of_binned_trees_are_edges_of_features() -> None:
    problem = samples.problem_of("binned")
    arrays, source = problem.grow(np.arange(4)), problem.growth.source
    assert isinstance(source, BinnedSource)
    inner = arrays["left"] >= 0
    for column, threshold in zip(arrays["columns"], arrays["threshold"][inner], strict=True):
        edges = source.edges[source.first_edge[column] : source.first_edge[column + 1]]
        assert threshold in edges
        assert len(edges) <= 5


def test_bins_go_with_single_columns_only() -> None:
    with pytest.raises(InputError, match=naming("max_bins", "feature_combinations=1.0", 2.5)):
        samples.problem_of("oblique", max_bins=8)
