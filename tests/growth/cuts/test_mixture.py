"""The mixture of two Gaussians against the slow reference of naive_clusters.py: thresholds, BIC, what is refused."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from distforest.growth.cuts.gaussians import equally_likely, part_mixture
from distforest.growth.cuts.two_means import CandidateCuts
from tests.reference import naive_clusters as ref
from tests.tries import tries

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.kernels

FREE = settings(max_examples=tries(60))
ROWS = st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 4)), min_size=2, max_size=12).filter(
    lambda pairs: len({value for value, _ in pairs}) > 1
)
SHAPES = [(1.0, 0.0), (2.0**-10, 1.0), (1.0, 2.0**22), (1e-3, 0.0), (2.0**40, 0.0)]


def parted(
    values: Sequence[float] | np.ndarray, weights: Sequence[int] | np.ndarray, min_leaf: int = 1, relative: bool = True
) -> tuple[float, float]:
    """Threshold and score of one candidate of one node."""
    row = np.array([values], np.float64)
    cuts = CandidateCuts.none(1, 1)
    starts = np.array([0, row.shape[1]], np.int64)
    part_mixture(starts, np.array(weights, np.int32), row, min_leaf, relative, cuts)
    return float(cuts.thresholds[0, 0]), float(cuts.scores[0, 0])


def lighter_sides(values: np.ndarray, weights: np.ndarray) -> set[int]:
    """The weight of the lighter side of the reference's cut, also where rounding moves it by 1e-6 of the spread."""
    threshold, n = ref.mclust_bic(values, weights).threshold, int(weights.sum())
    near = 1e-6 * float(np.ptp(values))
    left = {int(weights[values <= threshold + step].sum()) for step in (-near, 0.0, near)}
    return {min(own, n - own) for own in left}


def assert_as_the_reference(values: np.ndarray, weights: np.ndarray, lighter: int, min_leaf: int = 1) -> None:
    """Thresholds to 1e-6 of the spread, BIC to 1e-6; no cut where a side would be too light."""
    fit = ref.mclust_bic(values, weights)
    for relative in (False, True):
        threshold, score = parted(values, weights, min_leaf, relative)
        if lighter < min_leaf:
            assert math.isnan(threshold)
            assert score == -math.inf
        else:
            assert threshold == pytest.approx(fit.threshold, rel=1e-14, abs=1e-6 * float(np.ptp(values)))
            whole = ref.one_cluster_score(values, weights) if relative else 0.0
            assert score == pytest.approx(whole - fit.bic, rel=1e-6, abs=1e-7 * int(weights.sum()))


# --- against the reference --------------------------------------------------------------------------------


@FREE
@given(ROWS, st.sampled_from(SHAPES), st.integers(1, 5))
def test_few_values_are_parted_as_by_the_reference(
    pairs: list[tuple[int, int]], shape: tuple[float, float], min_leaf: int
) -> None:
    values, weights = np.array(pairs).T
    values = shape[0] * values + shape[1]
    lighter = lighter_sides(values, weights)
    assume(len(lighter) == 1)
    assert_as_the_reference(values, weights, *lighter, min_leaf)


@pytest.mark.parametrize("apart", [0.0, 1.0, 2.0, 4.0, 10.0])
@pytest.mark.parametrize("spreads", [(1.0, 1.0), (1.0, 4.0), (3.0, 0.2)])
@pytest.mark.parametrize("sizes", [(40, 40), (70, 10)])
def test_samples_of_two_gaussians_are_parted_as_by_the_reference(
    sizes: tuple[int, int], spreads: tuple[float, float], apart: float
) -> None:
    rng = np.random.default_rng(round(apart * 10) + sizes[0])
    sides = [rng.normal(0, spreads[0], sizes[0]), rng.normal(apart, spreads[1], sizes[1])]
    values = rng.permutation(np.concatenate(sides)).astype(np.float32).astype(np.float64)
    weights = rng.integers(1, 4, len(values))
    assert_as_the_reference(values, weights, *lighter_sides(values, weights))


@FREE
@given(ROWS, st.data())
def test_the_order_of_the_rows_and_those_not_observed_do_not_matter(
    pairs: list[tuple[int, int]], data: st.DataObject
) -> None:
    values, weights = np.array(pairs, np.float64).T
    found = parted(values, weights)
    holes = data.draw(st.lists(st.booleans(), max_size=4))
    moved = np.array(data.draw(st.permutations([*pairs, *((math.nan, 3) for _ in holes)])))
    again = parted(moved[:, 0], moved[:, 1])
    assert again == pytest.approx(found, rel=1e-9, abs=1e-9, nan_ok=True)


# --- guards -----------------------------------------------------------------------------------------------


def test_copies_of_one_value_are_no_cluster_of_their_own_variance() -> None:
    spread = 8.0 + np.linspace(-2.0, 2.0, 40)
    ones = np.ones(50, np.int64)
    copies, pair = np.concatenate([np.zeros(10), spread]), np.concatenate([np.zeros(9), [0.01], spread])
    alike, unlike = parted(copies, ones), parted(pair, ones)
    assert 2.0 < alike[0] < 6.0
    assert 0.01 < unlike[0] < 1.0  # two variances: the narrow Gaussian ends soon
    assert unlike[1] > alike[1] + 50
    # 1e-6 apart: below the floor of its variance, which nothing is believed of
    assert parted(np.concatenate([np.zeros(9), [1e-6], spread]), ones) == pytest.approx(alike, rel=1e-4)


def test_two_atoms_are_parted_at_the_floor() -> None:
    fit = ref.mclust_bic(np.array([0.0, 6.0]), np.array([3, 1]))
    assert parted([6.0, 0.0], [1, 3], relative=False) == pytest.approx((3.0, -fit.bic), rel=1e-9)


def test_where_there_is_nothing_to_part_there_is_no_score() -> None:
    for values in ([1.0], [2.0, 2.0, 2.0], [math.nan, math.nan], [0.0, -0.0], [math.nan, 1.0, math.nan]):
        threshold, score = parted(values, [2] * len(values))
        assert math.isnan(threshold)
        assert score == -math.inf
    assert parted([0.0, 1.0, 9.0, 10.0], [1] * 4, min_leaf=3)[1] == -math.inf


@FREE
@given(ROWS, st.integers(-30, 30))
def test_the_relative_score_knows_no_scale(pairs: list[tuple[int, int]], power: int) -> None:
    values, weights = np.array(pairs, np.float64).T
    threshold, score = parted(values, weights)
    found = parted(values * 2.0**power, weights)
    assert found == (pytest.approx(threshold * 2.0**power, nan_ok=True), pytest.approx(score, rel=1e-9, abs=1e-9))


def test_nodes_and_candidates_do_not_know_of_each_other() -> None:
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=(3, 30)), rng.integers(1, 4, 30).astype(np.int32)
    values[1, 4:9] = np.nan
    starts = np.array([0, 12, 13, 30], np.int64)
    thresholds, scores = cuts = CandidateCuts.none(3, 3)
    part_mixture(starts, weights, values, 2, True, cuts)
    for node in range(3):
        inside = slice(starts[node], starts[node + 1])
        for k in range(3):
            alone = parted(values[k, inside], weights[inside], 2)
            np.testing.assert_array_equal([thresholds[k, node], scores[k, node]], alone)
    assert np.isfinite(scores[:, [0, 2]]).any(axis=0).all()
    assert not np.isfinite(scores[:, 1]).any()


# --- where both are equally likely ------------------------------------------------------------------------


@FREE
@given(
    st.floats(0.01, 0.99),
    st.floats(-9, 9),
    st.floats(-9, 9),
    st.floats(1e-3, 10),
    st.one_of(st.none(), st.floats(1e-3, 10)),
)
def test_the_place_of_equal_likelihood_is_that_of_the_reference(
    share: float, low: float, high: float, first: float, second: float | None
) -> None:
    second = first if second is None else second
    mixture = ref.Mixture(*(np.array(pair) for pair in ((share, 1 - share), (low, high), (first, second))))
    found, expected = equally_likely(np.ascontiguousarray(np.stack(mixture).T)), ref.equally_likely(mixture)
    leads = ref.log_densities(mixture.means, mixture)
    lead = leads[0] - leads[1]
    assume(np.abs(lead).min() > 1e-9)  # or the place is at a mean itself, and rounding decides if there is one
    if low < high and lead[0] > 0 > lead[1]:
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-9)
    elif lead[0] * lead[1] > 0:
        assert found == pytest.approx((low + high) / 2, abs=1e-12)
