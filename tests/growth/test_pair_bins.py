"""Bins of the columns of pairs: a value's code and the edges between codes say the same of every float32."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.growth import pair_bins
from distforest.growth.pair_bins import CELLS, SAMPLED, PairBins, code_of
from distforest.sources.point_pairs import FAMILIES, LARGEST, PairColumns, PointPairs

pytestmark = pytest.mark.kernels

INF = np.float32(np.inf)
MAX_BINS = st.sampled_from([2, 3, 7, 64, 256])


def all_pairs(n: int) -> np.ndarray:
    """Every pair of n points."""
    return np.stack(np.triu_indices(n, 1), axis=1)


def pairs_of(X: np.ndarray, family: str = "difference_mean", pairs: np.ndarray | None = None) -> PointPairs:
    pairs = all_pairs(len(X)) if pairs is None else pairs
    return PointPairs.of(PairColumns(family, X.shape[1]), X.astype(np.float32), pairs)


def codes(bins: PairBins, column: int, values: np.ndarray) -> np.ndarray:
    found = np.empty(len(values), np.int32)
    own = (bins.low[column], bins.scale[column], bins.code[column])
    found[:] = [code_of(value, *own) for value in values.astype(np.float64).tolist()]
    return found


def column_of(pairs: PointPairs, column: int) -> np.ndarray:
    n = pairs.shape[0]
    return pairs.entries(np.arange(n, dtype=np.int32), np.full(n, column, np.int32))


def neighbours(values: np.ndarray) -> np.ndarray:
    """Values, the float32 on either side of each, and the extremes."""
    own = values.astype(np.float32)
    extremes = np.float32([0.0, -0.0, 1.0, -1.0, LARGEST, -LARGEST, 1e-45, -1e-45])
    return np.unique(np.concatenate([own, np.nextafter(own, INF), np.nextafter(own, -INF), extremes]))


def assert_sound(bins: PairBins, pairs: PointPairs, max_bins: int) -> None:
    """Codes go up with values, edges with codes; below an edge is a code below it, and the other way round."""
    n_columns = pairs.shape[1]
    assert bins.code.shape == (n_columns, CELLS)
    assert bins.edges.shape == (n_columns, max_bins)
    for column in range(n_columns):
        steps = np.diff(bins.code[column].astype(int))
        assert bins.code[column, 0] == 0
        assert set(steps.tolist()) <= {0, 1}
        n_codes = int(bins.code[column, -1]) + 1
        edges = bins.edges[column]
        assert n_codes <= max_bins
        assert np.isfinite(edges[: n_codes - 1]).all()
        assert (np.diff(edges[: n_codes - 1]) > 0).all() or not bins.scale[column]
        assert (edges[n_codes - 1 :] == np.inf).all()
        values = neighbours(np.concatenate([edges[: n_codes - 1], column_of(pairs, column)]))
        own = codes(bins, column, values)
        assert (np.diff(own) >= 0).all()
        for b in range(n_codes):
            assert ((own <= b) == (values <= edges[b])).all(), (column, b)


@st.composite
def points(draw: st.DrawFn) -> np.ndarray:
    """Points of many scales, with ties, constant columns and columns that are symmetric about 0."""
    n, p = draw(st.integers(2, 30)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = rng.normal(draw(st.sampled_from([0.0, 5.0, 1e6])), 1.0, (n, p)) * draw(
        st.sampled_from([1e-40, 1e-3, 1.0, 1e30])
    )
    how = draw(st.sampled_from(["plain", "ties", "constant", "mirrored", "outlier", "grid"]))
    if how == "ties":
        X = np.sign(X)
    elif how == "constant":
        X[:, 0] = X[0, 0]
    elif how == "mirrored":
        X = np.concatenate([X, -X])
    elif how == "outlier":
        X[0] = LARGEST
    elif how == "grid":
        X = rng.integers(-7, 8, (n, p)) / 10.0
    return X.astype(np.float32)


@settings(max_examples=60)
@given(points(), st.sampled_from(FAMILIES), MAX_BINS)
def test_codes_and_edges_say_the_same_of_every_value(X: np.ndarray, family: str, max_bins: int) -> None:
    pairs = pairs_of(X, family)
    assert_sound(PairBins.of(pairs, max_bins), pairs, max_bins)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("value", [0.0, -0.0, 7.0, -1e30, 1e-45])
def test_a_constant_column_has_one_bin(value: float, family: str) -> None:
    pairs = pairs_of(np.full((5, 2), value), family)
    bins = PairBins.of(pairs, 256)
    for column in range(pairs.shape[1]):
        assert np.unique(codes(bins, column, column_of(pairs, column))).tolist() == [0]
        assert not np.isfinite(bins.edges[column, 1:]).any()


@pytest.mark.parametrize("high", [0.1, 0.3, 0.7, 1.0, 1.1, 2.3])
def test_an_edge_at_zero_is_found(high: float) -> None:
    """Around 0 two numbers that differ by rounding of float64 have a thousand million float32 between them."""
    side = high * np.concatenate([[1 / 2000], np.arange(1, 101) / 100])
    X = np.concatenate([-side, side])[:, None]
    n = len(X)
    pairs = pairs_of(np.concatenate([X, X]), pairs=np.stack([np.arange(n), np.arange(n, 2 * n)], axis=1))
    bins = PairBins.of(pairs, 256)
    assert bins.code[1, CELLS // 2 - 1] < bins.code[1, CELLS // 2]  # the edge in question
    assert_sound(bins, pairs, 256)


def test_one_pair_has_one_bin() -> None:
    pairs = pairs_of(np.array([[0.0], [3.0]]))
    assert_sound(PairBins.of(pairs, 256), pairs, 256)


@pytest.mark.parametrize("max_bins", [2, 16, 256])
def test_codes_hold_about_as_many_pairs(max_bins: int) -> None:
    X = np.random.default_rng(0).normal(size=(90, 2))
    pairs = pairs_of(X)  # 4005: all of them are sampled
    bins = PairBins.of(pairs, max_bins)
    for column in range(4):
        counts = np.bincount(codes(bins, column, column_of(pairs, column)))
        assert len(counts) > 0.7 * max_bins
        assert counts.max() < 3 * len(pairs.left) / max_bins + 30
    n_codes = bins.code.max(axis=1) + 1
    assert n_codes.tolist() == [max_bins] * 4 or max_bins == 256


def test_two_values_are_told_apart() -> None:
    pairs = pairs_of((np.arange(40)[:, None] % 2).astype(float))
    bins = PairBins.of(pairs, 256)
    assert codes(bins, 0, np.array([0.0, 1.0])).tolist() == [0, 1]
    assert 0.0 <= bins.edges[0, 0] < 1.0


def test_a_few_values_far_out_do_not_take_the_grid() -> None:
    X = np.random.default_rng(0).uniform(size=(90, 1))
    X[0] = 1e30
    values = column_of(pairs := pairs_of(X, pairs=all_pairs(90)[::3]), 0)
    far = values > 1.0
    assert 0.0 < far.mean() < 0.03
    few = np.flatnonzero(far)[:2]
    kept = pairs.of_pairs(*(np.concatenate([own[~far], own[few]]) for own in (pairs.left, pairs.right)))
    bins = PairBins.of(kept, 64)
    assert len(np.unique(codes(bins, 0, values[~far]))) > 50


def test_many_pairs_are_sampled_evenly() -> None:
    n = 3 * SAMPLED
    rng = np.random.default_rng(0)
    X, numbers = rng.normal(size=(50, 1)), rng.integers(0, 50, (n, 2))
    many = PairBins.of(pairs_of(X, pairs=numbers), 256)
    some = PairBins.of(pairs_of(X, pairs=numbers[::3]), 256)
    assert many.edges.tobytes() == some.edges.tobytes()
    assert many.code.tobytes() == some.code.tobytes()


def test_extremes_share_the_bins_of_the_points() -> None:
    """A place on a coordinate separates two points: maxima and minima must know the same places."""
    pairs = pairs_of(np.random.default_rng(0).normal(size=(40, 2)), "max_min")
    bins = PairBins.of(pairs, 32)
    for c in range(2):
        for name in ("low", "scale", "code", "edges"):
            assert getattr(bins, name)[c].tobytes() == getattr(bins, name)[c + 2].tobytes()
    assert_sound(bins, pairs, 32)


def test_a_further_column_has_bins_of_its_own() -> None:
    rng = np.random.default_rng(0)
    columns = PairColumns("max_min", 1, (("dot", 2), ("same", 3)))
    points = np.hstack([rng.normal(size=(40, 3)), rng.integers(0, 2, (40, 3))])
    pairs = PointPairs.of(columns, points, all_pairs(40))
    bins = PairBins.of(pairs, 16)
    assert_sound(bins, pairs, 16)
    assert np.unique(codes(bins, 3, column_of(pairs, 3))).tolist() == [0, 1, 2, 3]  # no, one, two, three of three


def test_codes_are_read_one_by_one_as_together() -> None:
    pairs = pairs_of(np.random.default_rng(0).normal(size=(30, 1)))
    bins = PairBins.of(pairs, 16)
    values = neighbours(column_of(pairs, 1)).astype(np.float64)
    alone = [int(code_of(value, bins.low[1], bins.scale[1], bins.code[1])) for value in values.tolist()]
    assert codes(bins, 1, values).tolist() == alone


def test_tails_are_a_small_share_of_the_sample() -> None:
    assert 0 < int(pair_bins.TAILS * SAMPLED) < 0.01 * SAMPLED
