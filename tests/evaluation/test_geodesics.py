"""Geodesic precision and recall against plain enumeration of all orders, and against the formulas' slow twin."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from distforest.errors import InputError
from distforest.evaluation.metrics import (
    Hits,
    component_precision_recall,
    geodesic_precision,
    geodesic_recall,
    neighbor_hits,
    proximity_hits,
    relevant_by_component,
    relevant_by_distance,
)
from tests.messages import naming
from tests.reference import naive_clusters as naive

levels = st.integers(0, 3).map(float)


def square(elements, least=2, most=7):
    return st.integers(least, most).flatmap(lambda n: arrays(np.float64, (n, n), elements=elements))


def orders(values):
    """All orders of the points in which no value comes before a smaller one."""
    return [
        order
        for order in itertools.permutations(range(len(values)))
        if all(values[a] <= values[b] for a, b in itertools.pairwise(order))
    ]


def mean_share(proximity, geodesic, k):
    """Precision@k of point 0: its share of hits, over all orders of the retrieved and all orders of the relevant."""
    retrieved = [set(order[:k]) for order in orders([-p for p in proximity[1:]])]
    relevant = [set(order[:k]) for order in orders(geodesic[1:])]
    return np.mean([len(one & other) / k for one in retrieved for other in relevant])


@settings(max_examples=60)
@given(st.data())
def test_a_query_is_the_mean_over_all_tie_breaks(data):
    n = data.draw(st.integers(2, 6))
    proximity = data.draw(arrays(np.float64, n, elements=levels))
    geodesic = data.draw(arrays(np.float64, n, elements=levels))
    k = data.draw(st.integers(1, n - 1))
    found = proximity_hits(proximity[None], relevant_by_distance(geodesic[None], k, rows=[0]), k, rows=[0])
    assert found.precision == pytest.approx(mean_share(proximity, geodesic, k), abs=1e-12)


@pytest.mark.slow
@given(st.data(), square(st.one_of(levels, st.just(np.nan))))
def test_matrices_equal_the_slow_twin(data, proximity):
    n = len(proximity)
    k, n_relevant = (data.draw(st.integers(1, n - 1)) for _ in range(2))
    geodesic = data.draw(arrays(np.float64, (n, n), elements=st.one_of(levels, st.just(np.inf))))
    relevant = naive.relevant_by_distance(geodesic, n_relevant)
    assert relevant_by_distance(geodesic, n_relevant) == pytest.approx(relevant, abs=1e-12)
    if (relevant.sum(axis=1) > 0).any():
        expected = naive.precision_and_recall(proximity, relevant, k)
        assert geodesic_precision(proximity, geodesic, k, n_relevant) == pytest.approx(expected[0], abs=1e-12)
        assert geodesic_recall(proximity, geodesic, k, n_relevant) == pytest.approx(expected[1], abs=1e-12)


@pytest.mark.slow
@given(st.data(), square(levels))
def test_components_equal_the_slow_twin(data, proximity):
    n = len(proximity)
    labels, k = data.draw(arrays(np.int64, n, elements=st.integers(0, 2))), data.draw(st.integers(1, n - 1))
    relevant = naive.relevant_by_component(labels)
    assert np.array_equal(relevant_by_component(labels), relevant)
    found = component_precision_recall(proximity, labels, k)
    if relevant.any():
        assert found == pytest.approx(naive.precision_and_recall(proximity, relevant, k), abs=1e-12)
    else:
        assert found[0] == 0
        assert np.isnan(found[1])


@pytest.mark.slow
@given(st.data(), square(levels, least=3))
def test_blocks_of_queries_are_those_of_the_whole(data, proximity):
    n = len(proximity)
    order = np.array(data.draw(st.permutations(range(n))))
    cut, k = data.draw(st.integers(1, n - 1)), data.draw(st.integers(1, n - 1))
    labels = order % 2
    geodesic = np.abs(np.subtract.outer(order, order) // 2).astype(float)
    for relevant, block in (
        (relevant_by_distance(geodesic, k), lambda rows: relevant_by_distance(geodesic[rows], k, rows)),
        (relevant_by_component(labels), lambda rows: relevant_by_component(labels, rows)),
    ):
        whole = proximity_hits(proximity, relevant, k)
        parts = [proximity_hits(proximity[rows], block(rows), k, rows) for rows in np.split(order, [cut])]
        joined = Hits.joined(parts)
        assert np.array_equal(joined.hits, whole.hits[order])
        assert joined.precision == pytest.approx(whole.precision, abs=1e-15)
        assert joined.recall == pytest.approx(whole.recall, abs=1e-15)


@given(st.data(), st.integers(3, 9))
def test_listed_neighbours_equal_proximities_without_ties(data, n):
    seed = data.draw(st.integers(0, 1000))
    rng = np.random.default_rng(seed)
    proximity, k = rng.permuted(np.tile(np.arange(n), (n, 1)), axis=1), data.draw(st.integers(1, n - 1))
    np.fill_diagonal(proximity, n)  # most tables have each point first in its own list
    relevant = relevant_by_component(rng.integers(0, 2, n))
    listed = np.argsort(-proximity, axis=1)
    whole = proximity_hits(proximity, relevant, k)
    assert np.array_equal(neighbor_hits(listed[:, : k + 1], relevant, k).hits, whole.hits)
    assert np.array_equal(neighbor_hits(listed[:, 1:], relevant, k).hits, whole.hits)
    rows = np.array([n - 1, 0])
    assert np.array_equal(neighbor_hits(listed[rows], relevant[rows], k, rows).hits, whole.hits[rows])


def test_a_constant_proximity_is_at_chance_and_a_perfect_one_at_one():
    position = np.arange(40.0)
    line = np.abs(np.subtract.outer(position, position))
    assert geodesic_precision(np.ones((40, 40)), line, 8) == pytest.approx(8 / 39)
    assert geodesic_precision(-line, line, 39) == 1
    assert geodesic_precision(-line, line, 2) == 1  # the ends have no tie, and neither has two on both sides
    assert geodesic_recall(-line, line, 10, n_relevant=4) == 1
    labels = position // 20
    assert component_precision_recall(np.ones((40, 40)), labels, 19) == pytest.approx((19 / 39, 19 / 39))
    assert component_precision_recall(np.equal.outer(labels, labels), labels, 19) == (1, 1)


def test_precision_falls_and_recall_rises_with_k_beyond_a_component():
    labels = np.array([0, 0, 0, 1, 1, 1])
    together = np.equal.outer(labels, labels).astype(float)
    found = [component_precision_recall(together, labels, k) for k in (1, 2, 4)]
    assert np.allclose(found, [(1, 0.5), (1, 1), (0.5, 1)])


@pytest.mark.parametrize("metric", [geodesic_precision, geodesic_recall])
def test_the_order_of_rows_does_not_matter(metric):
    rng = np.random.default_rng(5)
    proximity, geodesic = (rng.integers(0, 4, (30, 30)).astype(float) for _ in range(2))
    order = rng.permutation(30)
    mixed = np.ix_(order, order)
    assert metric(proximity[mixed], geodesic[mixed], 7) == pytest.approx(metric(proximity, geodesic, 7), abs=1e-14)


def test_infinite_distances_to_retrieve_by_are_the_last():
    graph = np.array([[0, 1, np.inf, np.inf], [1, 0, np.inf, np.inf], [np.inf, np.inf, 0, 2], [np.inf, np.inf, 2, 0]])
    assert component_precision_recall(-graph, [0, 0, 1, 1], 1) == (1, 1)
    assert component_precision_recall(-graph, [0, 0, 1, 1], 2) == (0.5, 1)


eye = np.eye(3)


@pytest.mark.parametrize(
    ("ask", "named"),
    [
        (lambda: geodesic_precision(eye, eye[:2], 1), ("rows", (2, 3))),
        (lambda: geodesic_precision(eye[:2, :2], eye, 1), ("proximity", "relevant", (2, 2), (3, 3))),
        (lambda: geodesic_recall(eye, eye, 1, n_relevant=9), (2, 9)),
        (lambda: geodesic_precision(eye, -eye, 1), ("geodesic", "negative")),
        (lambda: geodesic_precision(eye, eye * np.nan, 1), ("geodesic", "NaN")),
        (lambda: geodesic_precision([["a"]], [[0]], 1), ((1, 1),)),
        (lambda: geodesic_precision([["a", "b"]] * 2, np.eye(2), 1), ("proximity", "<U1")),
        (lambda: relevant_by_distance(eye[0], 1), ("geodesic", (3,))),
        (lambda: relevant_by_distance(eye, 1, rows=[0, 1]), ("rows", 3, 2)),
        (lambda: relevant_by_component([0, 1], rows=[2]), ("rows", "0..1", "2..2")),
        (lambda: relevant_by_component([0, 1], rows=[0.5]), ("rows", "float64")),
        (lambda: relevant_by_component([[0, 1]]), ("labels", (1, 2))),
        (lambda: neighbor_hits([[0], [1]], eye, 1), ("indices", "(3, n_listed)", (2, 1))),
        (lambda: neighbor_hits(eye, eye, 1), ("indices", "float64", (3, 3))),
        (lambda: neighbor_hits([[1], [3], [0]], eye, 1), ("indices", "0..2", 3)),
        (lambda: neighbor_hits([[1], [-1], [0]], eye, 1), ("indices", "0..2", -1)),
        (lambda: neighbor_hits([[1, 1], [0, 1], [0, 1]], eye, 1), ("indices", "twice")),
        (lambda: neighbor_hits([[1], [1], [0]], eye, 1), ("k = 1", 0)),
        (lambda: neighbor_hits([[1, 2], [0, 2], [0, 1]], eye, 3), ("k = 3", 2)),
        (lambda: Hits.joined([]), (" k ", [])),
        (
            lambda: Hits.joined([proximity_hits(eye, relevant_by_component([0] * 3), k) for k in (1, 2)]),
            (" k ", [1, 2]),
        ),
    ],
)
def test_faults_are_refused_at_the_door(ask, named):
    with pytest.raises(InputError, match=naming(*named)):
        ask()


@pytest.mark.parametrize("k", [0, 3, True])
def test_k_counts_points_beside_the_query(k):
    with pytest.raises(InputError, match=rf"^k\b.* {k}$"):
        geodesic_precision(eye, eye, k)
