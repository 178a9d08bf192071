"""Bins of the columns of pairs: a value's code and the edges between codes say the same of every float32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.growth.pairs.bins import CELLS, CROWD, HALVES, SAMPLED, SEARCHED, TAILS, PairBins, code_of
from distforest.sources.point_pairs import FAMILIES, LARGEST_FEATURE, PairColumns, PointPairs
from tests.reference import naive_trees_of_pairs as ref
from tests.tries import tries

pytestmark = pytest.mark.kernels

INF = np.float32(np.inf)
MAX_BINS = st.sampled_from([2, 3, 7, 64, 256])


def all_pairs(n: int) -> np.ndarray:
    """Every pair of n points."""
    return np.stack(np.triu_indices(n, 1), axis=1)


def pairs_of(X: np.ndarray, family: str = "difference_mean", pairs: np.ndarray | None = None) -> PointPairs:
    pairs = all_pairs(len(X)) if pairs is None else pairs
    return PointPairs.from_points(PairColumns(family, X.shape[1]), X.astype(np.float32), pairs)


def codes(bins: PairBins, column: int, values: np.ndarray) -> np.ndarray:
    found = np.empty(len(values), np.int32)
    own = (bins.low[column], bins.scale[column], bins.code[column], bins.edges[column])
    found[:] = [code_of(value, *own) for value in values.astype(np.float64).tolist()]
    return found


def column_of(pairs: PointPairs, column: int) -> np.ndarray:
    n = pairs.shape[0]
    return pairs.entries(np.arange(n, dtype=np.int32), np.full(n, column, np.int32))


def neighbours(values: np.ndarray) -> np.ndarray:
    """Values, the float32 on either side of each, and the extremes."""
    own = values.astype(np.float32)
    extremes = np.float32([0.0, -0.0, 1.0, -1.0, LARGEST_FEATURE, -LARGEST_FEATURE, 1e-45, -1e-45])
    return np.unique(np.concatenate([own, np.nextafter(own, INF), np.nextafter(own, -INF), extremes]))


def edges_of(bins: PairBins, column: int) -> list[float]:
    """The edges between the codes of a column."""
    edges = bins.edges[column]
    n_codes = 1 + int(np.isfinite(edges).sum())
    assert (np.diff(edges[: n_codes - 1]) > 0).all()
    assert (edges[n_codes - 1 :] == np.inf).all()
    found: list[float] = edges[: n_codes - 1].tolist()
    return found


def assert_sound(bins: PairBins, pairs: PointPairs, max_bins: int) -> None:
    """A code is the number of the edges below a value, whatever the value."""
    n_columns = pairs.shape[1]
    assert bins.code.shape == (n_columns, CELLS)
    assert max_bins <= bins.edges.shape[1] < 2 * max_bins
    for column in range(n_columns):
        edges = edges_of(bins, column)
        assert len(edges) < max_bins
        values = neighbours(np.concatenate([edges, column_of(pairs, column)]))
        assert codes(bins, column, values).tolist() == [ref.code_of(value, edges) for value in values.tolist()]


def sampled(pairs: PointPairs, column: int) -> np.ndarray:
    """Of at most `SAMPLED` pairs: what the bins of a column are made of."""
    if pairs.columns.family == "max_min":
        ends = np.concatenate([pairs.left, pairs.right])
        pairs = pairs.of_pairs(ends, ends)
    assert len(pairs.left) <= SAMPLED
    return column_of(pairs, column)


def assert_quantiles(bins: PairBins, pairs: PointPairs, max_bins: int) -> None:
    """Each value has a bin of its own where they are few; where not, no bin of several values holds many pairs.

    Where all cells are searched bins are just those of the definition.
    """
    for column in range(pairs.shape[1]):
        values, edges = sampled(pairs, column), edges_of(bins, column)
        expected = ref.quantile_edges(values, max_bins)
        if (bins.code[column] == SEARCHED).all():
            assert edges == expected
        own = codes(bins, column, values)
        distinct = np.unique(values)
        if len(distinct) <= max_bins:
            assert len(edges) == len(expected) == len(distinct) - 1
            assert np.unique(own).tolist() == [*range(len(distinct))]
            continue
        for b in range(len(edges) + 1):
            assert (own == b).sum() <= 3 * len(values) / max_bins or len(np.unique(values[own == b])) == 1, (column, b)


def constant(X: np.ndarray, _: np.random.Generator) -> np.ndarray:
    X[:, 0] = X[0, 0]
    return X


def far_row(X: np.ndarray, _: np.random.Generator) -> np.ndarray:
    X[0] = LARGEST_FEATURE
    return X


def steep(X: np.ndarray, _: np.random.Generator) -> np.ndarray:
    """Ratios of 1e30 and more."""
    with np.errstate(over="ignore"):
        return np.exp(20 * X).clip(max=LARGEST_FEATURE)


HOW: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "plain": lambda X, _: X,
    "ties": lambda X, _: np.sign(X),
    "mirrored": lambda X, _: np.concatenate([X, -X]),
    "grid": lambda X, rng: rng.integers(-7, 8, X.shape) / 10.0,
    "constant": constant,
    "far row": far_row,
    "steep": steep,
    "sentinels": lambda X, rng: np.where(rng.random(X.shape) < 0.1, -9999.0, X),
    "far tails": lambda X, rng: np.where(rng.random(X.shape) < 0.1, np.sign(X) * 1e37, X),
    "gaps of a subnormal": lambda X, rng: np.where(rng.random(X.shape) < 0.5, 0.0, 1e-45),
}
"""What else may be the matter with some numbers."""


@st.composite
def points(draw: st.DrawFn) -> np.ndarray:
    """Points of many scales, with ties, constant columns, far rows, sentinels, long tails, symmetric about 0 or not."""
    n, p = draw(st.integers(2, 30)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = rng.normal(draw(st.sampled_from([0.0, 5.0, 1e6])), 1.0, (n, p)) * draw(
        st.sampled_from([1e-40, 1e-3, 1.0, 1e30])
    )
    how = draw(st.sampled_from(list(HOW)))
    return HOW[how](X, rng).astype(np.float32)


@pytest.mark.slow
@settings(max_examples=tries(60))
@given(points(), st.sampled_from(FAMILIES), MAX_BINS)
def test_bins_are_quantiles_and_every_value_is_in_its_own(X: np.ndarray, family: str, max_bins: int) -> None:
    pairs = pairs_of(X, family)
    bins = PairBins.from_pairs(pairs, max_bins)
    assert_sound(bins, pairs, max_bins)
    assert_quantiles(bins, pairs, max_bins)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("value", [0.0, -0.0, 7.0, -1e30, 1e-45])
def test_a_constant_column_has_one_bin(value: float, family: str) -> None:
    pairs = pairs_of(np.full((5, 2), value), family)
    bins = PairBins.from_pairs(pairs, 256)
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
    bins = PairBins.from_pairs(pairs, 256)
    assert bins.code[1, CELLS // 2 - 1] < bins.code[1, CELLS // 2]  # the edge in question
    assert_sound(bins, pairs, 256)


def test_one_pair_has_one_bin() -> None:
    pairs = pairs_of(np.array([[0.0], [3.0]]))
    assert_sound(PairBins.from_pairs(pairs, 256), pairs, 256)


def with_one_far(far: float) -> PointPairs:
    """All pairs of 80 points, one of which is far from the others."""
    X = np.random.default_rng(0).normal(size=(80, 2))
    X[0] = far
    return pairs_of(X)


@pytest.mark.parametrize("far", [1e4, 1e9, 1e30])
def test_how_far_a_row_is_does_not_matter(far: float) -> None:
    near, pairs = with_one_far(1e3), with_one_far(far)
    others = np.flatnonzero(pairs.left > 0)  # row 0 is always the left one
    for column in range(4):
        own, before = (codes(PairBins.from_pairs(some, 256), column, column_of(some, column)) for some in (pairs, near))
        assert abs(own - before)[others].max() <= 2
        assert len(np.unique(own[others])) > 200


@pytest.mark.parametrize("share", [0.01, 0.2])
def test_sentinels_and_long_tails_do_not_take_the_bins(share: float) -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(90, 1))
    for X in (np.where(rng.random(z.shape) < share, -9999.0, z), np.exp(4 * z), np.exp(10 * z)):
        bins = PairBins.from_pairs(pairs := pairs_of(X), 256)
        assert (bins.code == SEARCHED).any(axis=1).all()
        assert_quantiles(bins, pairs, 256)
        assert min(len(edges_of(bins, column)) for column in range(2)) > 200


def test_a_value_that_many_pairs_have_has_a_bin_of_its_own() -> None:
    X = np.random.default_rng(0).normal(size=(90, 1)).clip(min=0.0)
    bins = PairBins.from_pairs(pairs := pairs_of(X), 64)
    values = column_of(pairs, 0)
    assert (values == 0.0).mean() > 0.2
    assert np.unique(values[codes(bins, 0, values) == 0]).tolist() == [0.0]


@pytest.mark.parametrize("values", [[0.0, 1e-45, 1.0], [-1e30, 0.0, 1e-30, 1e30], [1.0, 1.0 + 2**-23, LARGEST_FEATURE]])
def test_few_values_are_told_apart_however_close(values: list[float]) -> None:
    """Each is a pair's middle; all but the last are there once, which is there 300 times."""
    X = np.concatenate([values, np.full(299, values[-1])])[:, None]
    bins = PairBins.from_pairs(pairs := pairs_of(X, pairs=np.repeat(np.arange(len(X)), 2).reshape(-1, 2)), 256)
    assert np.unique(codes(bins, 1, column_of(pairs, 1))).tolist() == [*range(len(values))]


def test_many_pairs_are_sampled_evenly() -> None:
    n = 3 * SAMPLED
    rng = np.random.default_rng(0)
    X, numbers = rng.normal(size=(50, 1)), rng.integers(0, 50, (n, 2))
    many = PairBins.from_pairs(pairs_of(X, pairs=numbers), 256)
    some = PairBins.from_pairs(pairs_of(X, pairs=numbers[::3]), 256)
    assert many.edges.tobytes() == some.edges.tobytes()
    assert many.code.tobytes() == some.code.tobytes()


def test_extremes_share_the_bins_of_the_points() -> None:
    """A place on a coordinate separates two points: maxima and minima must know the same places."""
    pairs = pairs_of(np.random.default_rng(0).normal(size=(40, 2)), "max_min")
    bins = PairBins.from_pairs(pairs, 32)
    for c in range(2):
        for name in ("low", "scale", "code", "edges"):
            assert getattr(bins, name)[c].tobytes() == getattr(bins, name)[c + 2].tobytes()
    assert_sound(bins, pairs, 32)


def test_a_further_column_has_bins_of_its_own() -> None:
    rng = np.random.default_rng(0)
    columns = PairColumns("max_min", 1, (("dot", 2), ("same", 3)))
    points = np.hstack([rng.normal(size=(40, 3)), rng.integers(0, 2, (40, 3))])
    pairs = PointPairs.from_points(columns, points, all_pairs(40))
    bins = PairBins.from_pairs(pairs, 16)
    assert_sound(bins, pairs, 16)
    assert np.unique(codes(bins, 3, column_of(pairs, 3))).tolist() == [0, 1, 2, 3]  # no, one, two, three of three


def test_codes_are_read_one_by_one_as_together() -> None:
    pairs = pairs_of(np.random.default_rng(0).normal(size=(30, 1)))
    bins = PairBins.from_pairs(pairs, 16)
    values = neighbours(column_of(pairs, 1)).astype(np.float64)
    own = (bins.low[1], bins.scale[1], bins.code[1], bins.edges[1])
    alone = [int(code_of(value, *own)) for value in values.tolist()]
    assert codes(bins, 1, values).tolist() == alone


def test_a_cell_with_one_code_holds_two_bins_at_most() -> None:
    assert TAILS[0] < 1 / 256
    assert CROWD <= 2 / 256
    assert sum(HALVES) + 1 == 256
