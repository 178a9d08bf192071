"""Cuts judged by the observed distances, against sums over all pairs in exact numbers, and against complete ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from distforest.forest.frontier import STAY
from distforest.growth.cuts.category_orders import REFERENCES
from distforest.growth.cuts.mean_distance import CELLS_OF_32_BITS, MeanDistance
from distforest.growth.cuts.observed_distance import ObservedDistance
from tests import samples
from tests.growth.cuts.test_criteria import FREE, NUMBERS, Search, cut, line, searches, symmetric
from tests.reference import naive, naive_observed
from tests.tries import tries

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = pytest.mark.kernels

SMALL = st.sampled_from([0.0, 1.0, 2.0, 0.5])


def with_holes(z: NDArray[np.float32], holes: NDArray[np.bool_]) -> NDArray[np.float32]:
    """The matrix with NaN at some pairs i < j and their mirror images."""
    above = np.triu(holes, 1)
    return np.where(above | above.T, np.float32(np.nan), z)


def some_holes(z: NDArray[np.float32], data: st.DataObject) -> NDArray[np.float32]:
    share = data.draw(st.sampled_from([0.2, 0.5, 0.9]))
    return with_holes(z, np.random.default_rng(data.draw(st.integers(0, 999))).random(z.shape) < share)


def of(z: NDArray[np.float32], places_missing: bool = False) -> ObservedDistance:
    found: Any = ObservedDistance.from_distances(z, float(np.fmax.reduce(np.abs(z), axis=None)), places_missing)
    return found  # type: ignore[no-any-return]


def assert_found(criterion: ObservedDistance, search: Search, z: NDArray[np.float32], largest: float) -> None:
    """The cuts, gains and sides of missing values are those of the reference."""
    for own in (criterion, criterion.pack(search.frontier)):
        found, begin = cut(own, search), 0
        for node, (rows, weights) in enumerate(zip(search.rows, search.weights, strict=True)):
            values, block = search.values[:, begin : begin + len(rows)], z[np.ix_(rows, rows)]
            exact = naive_observed.exact_distances(block, naive.node_bits(np.nan_to_num(block), largest))
            (candidate, threshold, gain), side = naive_observed.best_cut(
                values, exact, weights, search.min_leaf, criterion.places_missing
            )
            assert (found.candidate[node], found.threshold[node]) == (candidate, threshold)
            assert max(found.gain[node], 0.0) == pytest.approx(gain, rel=1e-9)
            assert found.missing[node] == (side if candidate >= 0 else STAY)
            begin += len(rows)


@FREE
@given(searches(), st.data(), st.booleans(), st.booleans())
def test_cuts_are_those_of_the_formula(search: Search, data: st.DataObject, small: bool, places: bool) -> None:
    z = some_holes(symmetric(search.n, SMALL if small else NUMBERS, data), data)
    assert_found(of(z, places), search, z, float(np.fmax.reduce(np.abs(z), axis=None)))


@FREE
@given(searches(), st.data(), st.booleans())
def test_with_everything_observed_cuts_are_those_of_the_mean_distance(
    search: Search, data: st.DataObject, places: bool
) -> None:
    z = symmetric(search.n, NUMBERS, data)
    plain, observed = MeanDistance.from_distances(z, float(z.max()), places), of(z, places)
    for one, other in ((plain, observed), (plain.pack(search.frontier), observed.pack(search.frontier))):
        assert [part.tobytes() for part in cut(one, search)] == [part.tobytes() for part in cut(other, search)]
    assert plain.impure(search.frontier).tolist() == observed.impure(search.frontier).tolist()


@pytest.mark.slow
@settings(max_examples=tries(8), deadline=None)
@given(
    n=st.integers(CELLS_OF_32_BITS - 1, 2 * CELLS_OF_32_BITS + 5),
    seed=st.integers(0, 2**32 - 1),
    rows=st.sampled_from(["side by side", "spread", "scattered"]),
    outlier=st.sampled_from([0.0, 1e4, 1e12]),
    lacks=st.booleans(),
)
def test_a_larger_node_too(n: int, seed: int, rows: str, outlier: float, lacks: bool) -> None:
    rng = np.random.default_rng(seed)
    among = {"spread": 3 * n // 2, "scattered": 3 * n}.get(rows, n)
    z = rng.random((among, among), dtype=np.float32)
    z = np.maximum(z, z.T) - np.float32(0.5)
    one, other = rng.choice(among, size=2, replace=False)
    z[one, other] = z[other, one] = z[one, other] + np.float32(outlier)
    z = with_holes(z, rng.random(z.shape) < 0.4)
    own, values = np.sort(rng.permutation(among)[:n]), rng.integers(0, 4, (2, n)).astype(np.float64)
    values[:, : n // 5 * lacks] = np.nan
    search = Search(among, [own.tolist()], [rng.integers(1, 9, n).tolist()], values, 1)
    assert_found(of(z), search, z, float(np.fmax.reduce(np.abs(z), axis=None)))


@FREE
@given(searches(), st.data())
def test_a_node_is_impure_if_two_observed_distances_differ(search: Search, data: st.DataObject) -> None:
    z = some_holes(symmetric(search.n, SMALL, data), data)
    blocks = [z[np.ix_(rows, rows)] for rows in search.rows]
    expected = [len(np.unique(block[~np.isnan(block)])) > 1 for block in blocks]
    for criterion in (of(z), of(z).pack(search.frontier)):
        assert criterion.impure(search.frontier).tolist() == expected


def test_without_an_observed_pair_there_is_no_cut() -> None:
    z = np.full((3, 3), np.nan, np.float32)
    np.fill_diagonal(z, [0.0, 1.0, 2.0])
    search = line([0.0, 1.0, 2.0])
    assert cut(of(z), search).candidate.tolist() == [-1]
    z[0, 1] = z[1, 0] = 1.0
    assert cut(of(z), search).candidate.tolist() == [0]


def test_a_pair_that_is_unobserved_says_nothing() -> None:
    """Rows 0 and 1 are near, rows 2 and 3 unknown; at any distance of these, the cut between the two sides is best."""
    z = np.full((4, 4), 4.0, np.float32)
    z[:2, :2] = z[2:, 2:] = 0.0
    z[2, 3] = z[3, 2] = np.nan
    found = cut(of(z), line([0.0, 1.0, 2.0, 3.0]))
    assert found.threshold.tolist() == [1.5]
    # m I(S) = (8 * 4 + 2 * 3.2 + 2 * 0) / 4, with g = (8 * 4 + 2 * 0) / 10; m I(L) = 0, m I(R) = 2 * 3.2 / 2
    assert found.gain[0] == pytest.approx((32 + 6.4) / 4 - 3.2)


@pytest.mark.slow
@FREE
@given(st.integers(2, 12), st.integers(0, 999), st.data())
def test_a_cut_does_not_depend_on_the_order_of_rows_on_the_scale_or_on_a_shift(
    n: int, seed: int, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    z = rng.integers(1, 64, (n, n)).astype(np.float32)
    z = some_holes(np.maximum(z, z.T), data)
    values, weights = rng.random((2, n)), rng.integers(1, 4, n)
    whole = Search(n, [list(range(n))], [weights.tolist()], values, 1)
    plain, order = cut(of(z), whole), rng.permutation(n)
    permuted = Search(n, [list(range(n))], [weights[order].tolist()], values[:, order], 1)
    assert [part.tobytes() for part in cut(of(z[np.ix_(order, order)]), permuted)] == [p.tobytes() for p in plain]
    scaled = cut(of(z * np.float32(1024)), whole)
    assert (scaled.candidate.tolist(), scaled.threshold.tolist()) == (
        plain.candidate.tolist(),
        plain.threshold.tolist(),
    )
    assert scaled.gain[0] == (plain.gain[0] * 1024 if plain.candidate[0] >= 0 else plain.gain[0])
    assume(plain.candidate[0] >= 0 and plain.gain[0] > 1e-6)
    shifted = cut(of(z + np.float32(64)), whole)  # m - m_L - m_R = 0
    assert shifted.gain[0] == pytest.approx(plain.gain[0], rel=1e-6)
    assert shifted.threshold.tolist() == plain.threshold.tolist()


@pytest.mark.parametrize("n", [6, REFERENCES + 40])
def test_categories_are_ordered_by_their_observed_distances(n: int) -> None:
    """Four categories in two groups; half of all pairs are unobserved."""
    rng, codes = np.random.default_rng(1), np.arange(4 * n) % 4
    group = codes // 2
    z = with_holes((group[:, None] != group).astype(np.float32), rng.random((4 * n, 4 * n)) < 0.5)
    frontier = samples.level([list(range(4 * n))], [[1] * (4 * n)])
    values = codes.astype(np.float64)[None].copy()
    of(z).rank_categories(frontier, np.ones((1, 1), np.bool_), 4, values)
    ranks = [set(values[0, codes == code].tolist()) for code in range(4)]
    assert all(len(rank) == 1 for rank in ranks)
    low, high = sorted([(min(ranks[0]), min(ranks[1])), (min(ranks[2]), min(ranks[3]))])
    assert max(low) < min(high)


def test_a_reference_row_of_which_nothing_is_known_orders_no_category() -> None:
    z = with_holes(
        np.array([[0, 1, 2, 1], [1, 0, 2, 1], [2, 2, 0, 1], [1, 1, 1, 0]], np.float32), np.zeros((4, 4), bool)
    )
    alone = z.copy()
    alone[3, :3] = alone[:3, 3] = np.nan
    values = np.array([[0.0, 0.0, 1.0, np.nan]])
    frontier = samples.level([[0, 1, 2, 3]], [[1] * 4])
    of(alone).rank_categories(frontier, np.ones((1, 1), np.bool_), 2, values)
    assert values[0, 0] == values[0, 1] != values[0, 2]
    assert replace(of(alone), exponent=3).impure(frontier).tolist() == [True]
