"""Column weights: the law by which a node draws a column, what is refused, and the columns' deviations."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.growth.draws.column_draws import ColumnWeights, column_at, draw_columns, inverse_deviations
from tests import samples
from tests.messages import naming
from tests.reference import naive
from tests.reference import naive_clusters as ref

pytestmark = pytest.mark.kernels

MANY = 400 if numba.config.DISABLE_JIT else 4000
WEIGHTS = st.lists(
    st.one_of(st.just(0.0), st.floats(1e-6, 1.0), st.sampled_from([1.0, 2.0, 1e-300, 1e300])), min_size=1, max_size=12
).filter(any)


@given(WEIGHTS)
def test_shares_are_those_of_the_weights(weights: list[float]) -> None:
    found = ColumnWeights.from_weights(np.array(weights))
    expected = np.array(weights) / sum(weights)
    np.testing.assert_allclose(found.shares, expected, rtol=1e-9, atol=1e-15)
    assert found.cumulative[-1] == 1.0
    assert found.effective * (1 + 1e-9) >= 1.0
    assert found.effective <= len(weights) * (1 + 1e-9)
    assert found.effective == pytest.approx(1 / (expected**2).sum())


@given(WEIGHTS, st.floats(0, 1, exclude_max=True))
def test_the_column_at_a_share_is_the_first_above_it_and_has_a_weight(weights: list[float], share: float) -> None:
    cumulative = ColumnWeights.from_weights(np.array(weights)).cumulative
    for place in (share, 0.0, 1.0 - 2.0**-53, *(edge for edge in cumulative if edge < 1.0)):
        column = column_at(cumulative, place)
        assert column == np.searchsorted(cumulative, place, side="right")
        assert weights[column] > 0


def test_columns_are_drawn_by_their_weights_each_from_its_own_place() -> None:
    weights = ColumnWeights.from_weights(np.array([0.0, 3.0, 1.0, 0.0, 4.0, 0.0]))
    columns = np.empty((MANY, 3), np.int32)
    keys = samples.keys_of(5, [1] * MANY, list(range(MANY)))
    draw_columns(keys, 70, weights.cumulative, columns)
    for e in range(3):
        counts = np.bincount(columns[:, e], minlength=6)
        assert counts[[0, 3, 5]].tolist() == [0, 0, 0]
        assert samples.chi_square(counts[[1, 2, 4]], np.array([3, 1, 4]) / 8 * MANY) < 5
    together = np.bincount(columns[:, 0] * 6 + columns[:, 1], minlength=36)
    law = np.outer([0, 3, 1, 0, 4, 0], [0, 3, 1, 0, 4, 0]).reshape(-1) / 64 * MANY
    assert samples.chi_square(together[law > 0], law[law > 0]) < 5
    share = naive.unit(naive.stream(5, 1, 9), 72)
    assert columns[9, 2] == np.searchsorted(weights.cumulative, share, side="right")


@pytest.mark.parametrize("root", range(1, 8))
def test_candidates_are_the_effective_number_to_the_power_of_three_quarters(root: int) -> None:
    """Rounded up; rounding of the effective number itself adds none: 16 columns give 8."""
    assert ColumnWeights.uniform(root**4).n_candidates == root**3
    assert ColumnWeights.uniform(root**4 + 1).n_candidates == root**3 + 1
    assert ColumnWeights.from_weights(np.array([0.0, 2.0])).n_candidates == 1


@pytest.mark.parametrize(
    ("weights", "found"),
    [
        ([1.0, math.nan], 1),
        ([math.inf, 1.0, -math.inf], 2),
        ([1.0, -1e-300], 1),
        ([0.0, 0.0], "none"),
        ([], "none"),
    ],
)
def test_bad_weights_are_refused(weights: list[float], found: object) -> None:
    with pytest.raises(InputError, match=naming("feature_weights", found)):
        ColumnWeights.from_weights(np.array(weights))


def test_weights_of_two_dimensions_are_refused() -> None:
    with pytest.raises(InputError, match="feature_weights"):
        ColumnWeights.from_weights(np.ones((2, 2)))


@pytest.mark.parametrize("weights", [[1e308, 1e308], [1e308] * 3, [5e-324, 5e-324], [5e-324, 1e-323]])
def test_weights_of_any_size_are_taken(weights: list[float]) -> None:
    found = ColumnWeights.from_weights(np.array(weights))
    np.testing.assert_allclose(found.shares, np.array(weights) / max(weights) / sum(np.array(weights) / max(weights)))


# --- deviations -------------------------------------------------------------------------------------------


def deviations_of(X: np.ndarray) -> np.ndarray:
    """With fences from all rows."""
    return inverse_deviations(X, np.arange(len(X), dtype=np.int32))


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e15])
@pytest.mark.parametrize("offset", [0.0, 1.0, -1000.0])
def test_deviations_are_those_of_what_is_heard(scale: float, offset: float) -> None:
    rng = np.random.default_rng(0)
    X = (scale * (offset + rng.normal(size=(300, 5)))).astype(np.float32)
    X[:, 1] = X[:, 1] > X[:, 1].mean()
    X[0, 2] = X[:, 2].max()  # the first row is the farthest
    X[5, 3], X[6, 3], X[7, 4] = -9999 * scale, 1e6 * scale, 1e20
    own = X.astype(np.float64)
    np.testing.assert_allclose(deviations_of(X), ref.inverse_deviations(own), rtol=1e-10)
    np.testing.assert_allclose(deviations_of(X)[:3], 1 / own[:, :3].std(axis=0), rtol=2e-2)
    np.testing.assert_allclose(deviations_of(X)[3:], 1 / scale, rtol=0.15)


@given(st.integers(0, 1000))
def test_deviations_of_any_columns_are_those_of_the_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = (rng.integers(-3, 4, (rng.integers(1, 40), 4)) * (rng.random(4) < 0.5) + rng.integers(0, 2, 4)).astype(
        np.float32
    )
    X[rng.random(X.shape) < 0.05] = 1e4
    np.testing.assert_allclose(deviations_of(X), ref.inverse_deviations(X.astype(np.float64)), rtol=1e-9)


def test_a_constant_column_has_no_inverse_deviation_and_an_almost_constant_one_has() -> None:
    X = np.full((200, 4), np.float32(0.1))
    X[:, 1], X[7, 2], X[0, 3] = 1e30, np.nextafter(np.float32(0.1), np.float32(1)), 1e6
    found = deviations_of(X)
    assert found[:2].tolist() == [0.0, 0.0]
    # the sums are about the first row: one so far out costs as many roundings as there are rows
    np.testing.assert_allclose(found[2:], 1 / X[:, 2:].astype(np.float64).std(axis=0), rtol=1e-11)
    assert deviations_of(X[:1]).tolist() == [0.0] * 4


def test_deviations_do_not_depend_on_the_order_of_memory() -> None:
    X = np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)
    assert deviations_of(np.asfortranarray(X)).tobytes() == deviations_of(X).tobytes()
