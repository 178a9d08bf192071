"""Cuts judged by the links of a graph, against sums over all pairs in exact numbers and those of the matrix."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.forest.frontier import Frontier
from distforest.growth.cuts.earlier_links import CANDIDATE_LANES, add_earlier
from distforest.growth.cuts.graph_distance import GraphDistance
from distforest.growth.cuts.mean_distance import NEARBY_ROWS, MeanDistance
from distforest.growth.cuts.random_cuts import AtRandom
from distforest.jit import kernel
from distforest.sources.graph_distances import GraphDistances
from distforest.sources.source import offsets
from distforest.sources.sparse import SparseSource
from tests import samples
from tests.growth.cuts.test_criteria import FREE, SCALARS, Search, assert_cuts, cut, searches, symmetric
from tests.reference import naive
from tests.tries import tries

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = pytest.mark.kernels

ABSENT = st.sampled_from([1.0, 0.0, 2.5, -1.0, 1e6])
WEIGHTS = st.one_of(SCALARS, st.floats(2.0**-30, 10, width=32))


def graph_of(z: NDArray[np.float32], absent: float) -> GraphDistances:
    """The graph of a matrix of distances, by those that are not ``absent``."""
    rows, columns = np.nonzero(z != np.float32(absent))
    indptr = offsets(np.bincount(rows, minlength=len(z)))
    return GraphDistances(SparseSource.from_arrays(indptr, columns.astype(np.int32), z[rows, columns], z.shape), absent)


def with_absent(z: NDArray[np.float32], absent: float, data: st.DataObject) -> NDArray[np.float32]:
    """The matrix with ``absent`` at some pairs and their mirror images."""
    share = data.draw(st.sampled_from([0.0, 0.3, 0.8, 1.0]))
    chosen = np.tril(np.random.default_rng(data.draw(st.integers(0, 999))).random(z.shape) < share)
    return np.where(chosen | chosen.T, np.float32(absent), z)


def both(z: NDArray[np.float32], absent: float, places: bool = False) -> tuple[GraphDistance, MeanDistance]:
    """The criterion of the graph, and that of its matrix."""
    largest = float(np.abs(z).max())
    graph = graph_of(z, absent)
    assert graph.largest == largest
    of_graph: Any = GraphDistance.from_graph(graph, largest)
    return GraphDistance(
        of_graph.of_graph, absent, of_graph.exponent, places_missing=places
    ), MeanDistance.from_distances(z, largest, places)


def in_order(search: Search) -> Search:
    """The search with the rows of each node in their order, as the grower has them."""
    return replace(search, rows=[sorted(rows) for rows in search.rows])


def assert_same(one: Any, other: Any, search: Search) -> None:
    frontier = search.frontier
    at, beside = one.at(frontier), other.at(frontier)
    assert at.impure(frontier).tolist() == beside.impure(frontier).tolist()
    found, expected = cut(at, search), cut(beside, search)
    assert [part.tobytes() for part in found] == [part.tobytes() for part in expected]


@FREE
@given(searches(), st.data(), ABSENT)
def test_cuts_are_those_of_the_formula(search: Search, data: st.DataObject, absent: float) -> None:
    z = with_absent(symmetric(search.n, SCALARS, data), absent if absent < 9 else 1.0, data)
    absent, search = absent if absent < 9 else 1.0, in_order(search)
    criterion, _ = both(z, absent)

    def expected(values: np.ndarray, rows: list[int], weights: list[int]) -> naive.Found:
        block = z[np.ix_(rows, rows)]
        bits = naive.node_bits(block, float(np.abs(z).max()), naive.node_digits(weights))
        return naive.best_cut_dense(values, block, weights, search.min_leaf, bits)

    assert_cuts(criterion.at(search.frontier), search, search.expected(expected))


@FREE
@given(searches(), st.data(), ABSENT, st.booleans())
def test_cuts_are_those_of_the_matrix_bit_for_bit(
    search: Search, data: st.DataObject, absent: float, places: bool
) -> None:
    z = with_absent(symmetric(search.n, WEIGHTS, data), absent, data)
    assert_same(*both(z, absent, places), in_order(search))


@settings(max_examples=tries(8), deadline=None)
@given(st.integers(60, 150), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e4, 1e12]), ABSENT, st.booleans())
def test_a_larger_node_too(n: int, seed: int, outlier: float, absent: float, lacks: bool) -> None:
    rng = np.random.default_rng(seed)
    z = rng.random((2 * n, 2 * n), dtype=np.float32)
    z = np.where(rng.random(z.shape) < 0.9, np.float32(absent), z)
    z = np.tril(z) + np.tril(z, -1).T
    one, other = rng.choice(2 * n, size=2, replace=False)
    z[one, other] = z[other, one] = z[one, other] + np.float32(outlier)
    values = rng.integers(0, 9, (3, n)).astype(np.float64)
    values[:, : n // 5 * lacks] = np.nan
    rows = np.sort(rng.permutation(2 * n)[:n])
    assert_same(*both(z, absent), Search(2 * n, [rows.tolist()], [rng.integers(1, 300, n).tolist()], values, 1))


@pytest.mark.slow
@pytest.mark.parametrize(("n_candidates", "lacks"), [(1, False), (8, True), (9, False), (19, True)])
def test_many_candidates_too(n_candidates: int, lacks: bool) -> None:
    """More than are summed at once, of a node whose sums are fetched ahead; one candidate lacks values."""
    n, rng = 40 if numba.config.DISABLE_JIT else NEARBY_ROWS + 4, np.random.default_rng(n_candidates)
    z = np.where(rng.random((n, n), np.float32) < 0.9, np.float32(1.0), rng.random((n, n), np.float32))
    z = np.tril(z) + np.tril(z, -1).T
    values = rng.integers(0, n, (n_candidates, n)).astype(np.float64)
    values[-1, : n // 3 * lacks] = np.nan
    assert_same(*both(z, 1.0), Search(n, [list(range(n))], [rng.integers(1, 4, n).tolist()], values, 1))


@settings(max_examples=tries(30), deadline=None)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_levels_keep_the_links_of_rows_that_stay_together(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    z = np.where(rng.random((n, n)) < 0.6, 1.0, rng.random((n, n))).astype(np.float32)
    z = np.tril(z) + np.tril(z, -1).T
    criterion: Any = both(z, 1.0)[0]
    frontier = Frontier.roots(rng.integers(0, 3, (3, n)).astype(np.int32))
    for _ in range(4):
        criterion = criterion.at(frontier)
        links = criterion.level.links
        for node, (first, last) in enumerate(zip(frontier.starts, frontier.starts[1:], strict=False)):
            rows = frontier.rows[first:last]
            assert criterion.level.first_rows(frontier)[node] == first
            found = np.ones((last - first, last - first), np.float32)
            for r in range(last - first):
                own = slice(links.begin[first + r], links.begin[first + r + 1])
                assert (np.diff(links.place[own]) > 0).all()
                found[r, links.place[own]] = links.distance[own]
            np.testing.assert_array_equal(found, z[np.ix_(rows, rows)])
        some = frontier.take(rng.random(frontier.n_nodes) < 0.8)[0]
        numbers = 1 + 2 * np.concatenate([np.arange(count) for count in np.bincount(some.tree, minlength=3)])
        left = numbers.astype(np.int32)
        frontier = some.descend(rng.integers(0, 3, len(some.rows)).astype(np.int8), left, left + np.int32(1))


@FREE
@given(searches(), st.data())
def test_random_cuts_are_judged_by_links_too(search: Search, data: st.DataObject) -> None:
    z, search = with_absent(symmetric(search.n, WEIGHTS, data), 1.0, data), in_order(search)
    keys = np.arange(7, 7 + len(search.rows), dtype=np.uint64)
    one, other = (AtRandom(criterion.at(search.frontier)).attempted(keys, 0) for criterion in both(z, 1.0))
    assert [part.tobytes() for part in cut(one, search)] == [part.tobytes() for part in cut(other, search)]


def test_a_node_without_links_or_with_equal_ones_is_pure() -> None:
    for z, expected in (
        (np.ones((3, 3)), False),
        (np.zeros((3, 3)), False),
        (np.ones((3, 3)) - np.eye(3), True),
        (np.diag([0.0, 0.0, 0.5]), True),
    ):
        frontier = samples.level([[0, 1, 2]], [[1, 2, 1]])
        criterion = both(z.astype(np.float32), 1.0)[0].at(frontier)
        assert criterion.impure(frontier).tolist() == [expected]


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
