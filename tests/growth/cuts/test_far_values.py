"""Cuts and means where a few values lie so far off that all others look alike beside them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.growth.cuts.criteria import Variance
from distforest.growth.cuts.far_values import (
    FarVariance,
    different,
    far_keys,
    middle_of,
    radius_of_most,
    variance_of,
)
from tests import samples
from tests.growth.cuts.test_criteria import FREE, SCALARS, Search, assert_cuts, cut, line, searches
from tests.messages import naming
from tests.reference import naive
from tests.tries import tries

pytestmark = pytest.mark.kernels

RNG = np.random.default_rng(0)
ORDINARY = {
    "normal": RNG.normal(size=(3000, 1)),
    "Cauchy": RNG.standard_cauchy((3000, 1)),
    "lognormal": RNG.lognormal(0.0, 3.0, (3000, 1)),
    "counts": RNG.poisson(0.1, (3000, 1)).astype(float),
    "amounts, most of them 0": np.where(RNG.random((3000, 1)) < 0.7, 0.0, RNG.lognormal(0.0, 2.0, (3000, 1))),
    "seconds since 1970": 1.7e9 + np.cumsum(RNG.exponential(size=(3000, 1)), axis=0),
    "rounding at 1": 1.0 + np.spacing(1.0) * RNG.integers(0, 9, (3000, 1)) * (np.arange(3000) % 3 > 0)[:, None],
    "axes of any length": RNG.normal(size=(3000, 3)) * [1.0, 1e-8, 1e-15],
    "one value": np.full((5, 1), 5.0),
    "classes": np.eye(4)[RNG.integers(0, 4, 300)],
}


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float64)[:, None]


def with_far(value: float, n: int = 300) -> np.ndarray:
    """Ordinary values, and one."""
    return np.where(np.arange(n)[:, None] == 17, value, 100.0 * np.sin(np.arange(n))[:, None])


# --- which data are so ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_values_keep_the_one_scale_and_the_middle_of_their_range(name: str) -> None:
    vectors = ORDINARY[name]
    assert isinstance(variance_of(vectors, 0.5, "targets"), Variance)
    assert middle_of(vectors).tolist() == (vectors.min(axis=0) / 2.0 + vectors.max(axis=0) / 2.0).tolist()


@pytest.mark.parametrize("value", [1e13, -1e17, 1e20, 1e100])
def test_a_far_value_gives_each_node_its_own_scale_and_means_no_middle(value: float) -> None:
    for vectors in (with_far(value), np.hstack([with_far(value), with_far(0.0)])):
        criterion = variance_of(vectors, 0.5, "targets")
        assert isinstance(criterion, FarVariance)
        assert 30 < criterion.radius < 100
        assert middle_of(vectors).tolist() == [0.0] * vectors.shape[1]


def test_what_most_rows_hold_counts_once() -> None:
    """Of 100 rows 60 lack a value, as one number says; the others lie close together beside it."""
    vectors = np.where(np.arange(100) % 5 < 3, 9.969209968386869e36, np.arange(100.0))[:, None]
    assert 5 < radius_of_most(vectors) < 50
    assert radius_of_most(column(*[1.0] * 50, 1e20)) == 0.0  # nothing to tell apart but the two
    assert radius_of_most(column(0.0, 1.0, 1e20)) == 1.0


def test_far_depends_on_the_bits_that_the_one_scale_has_left() -> None:
    """A million values have 40 bits; 2^12 levels of them must be left for most."""
    n = 1 << 20
    vectors = np.linspace(0.0, 1.0, n)[:, None]
    for exponent, is_far in ((25, False), (27, True)):
        vectors[0] = 2.0**exponent
        assert (radius_of_most(vectors) > 0.0) == is_far
        assert radius_of_most(vectors[::4096]) == 0.0  # 256 of them have 50 bits


def test_values_that_would_lose_their_digits_are_not_taken_about_the_middle() -> None:
    assert middle_of(column(*[100.0] * 20, 1e20)).tolist() == [0.0]
    assert middle_of(column(*[100.0] * 3, *np.arange(5.0, 25.0) * 1e20)).tolist() == [0.0]
    assert middle_of(column(100.0, *np.arange(5.0, 25.0) * 1e20)).tolist() == [12e20]  # one in 21
    assert middle_of(np.hstack([column(*[100.0] * 20, 1e20), 1e19 * column(*range(21))])).tolist() == [0.0, 1e20]


def test_rows_that_are_equal_have_one_key_and_others_have_others() -> None:
    rows = np.array([[0.0, 1.0], [1.0, 0.0], [-0.0, 1.0], [0.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    assert len(np.unique(far_keys(rows))) == 4
    assert far_keys(rows)[0] == far_keys(rows)[2]
    assert sorted(different(rows).tolist()) == [0, 1, 3, 4]
    grid = np.stack(np.meshgrid(np.arange(300), np.arange(300)), axis=-1).reshape(-1, 2)
    assert len(different(grid.astype(float))) == len(np.unique(far_keys(grid))) == 90000


# --- cuts -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@FREE
@given(searches(), st.data(), st.sampled_from([2.0**60, -(2.0**80), 2.0**200]), st.sampled_from([0.5, 1.0]))
def test_a_cut_is_as_good_as_the_best_and_the_best_where_no_value_is_far(
    search: Search, data: st.DataObject, far: float, factor: float
) -> None:
    q = data.draw(st.integers(1, 2))
    one = st.lists(SCALARS, min_size=q, max_size=q)
    Y = np.array(data.draw(st.lists(one, min_size=search.n, max_size=search.n)))
    Y[data.draw(st.integers(0, search.n - 1)), 0] = far
    criterion, begin = FarVariance(Y, factor, 1.0), 0
    found = cut(criterion, search)
    for node, (rows, w) in enumerate(zip(search.rows, search.weights, strict=True)):
        own = search.values[:, begin : begin + len(rows)]
        alone = Search(search.n, [rows], [w], own, search.min_leaf)
        assert [part[0] for part in cut(criterion, alone)] == [part[node] for part in found]
        if (np.abs(Y[rows]) < 8.0).all():
            assert_cuts(criterion, alone, [naive.best_cut_embedding(own, Y[rows], w, search.min_leaf, factor)])
        else:
            cuts = naive.every_cut(own, naive.embedding_pairs(Y[rows], factor), w, search.min_leaf)
            assert (found.candidate[node] >= 0) == bool(cuts)
            chosen = [c for c in cuts if c[:2] == (found.candidate[node], found.threshold[node])]
            assert all(float(c.gain) >= float(max(cuts, key=lambda c: c.gain).gain) * (1 - 1e-9) for c in chosen)
            assert [float(c.gain) for c in chosen] == pytest.approx([found.gain[node]] * bool(cuts), rel=1e-6)
        begin += len(rows)


@FREE
@given(searches(), st.data())
def test_without_a_far_value_the_cuts_are_those_of_the_one_scale(search: Search, data: st.DataObject) -> None:
    Y = np.array(data.draw(st.lists(SCALARS, min_size=search.n, max_size=search.n)))[:, None]
    plain, own = Variance.from_vectors(Y, 0.5), FarVariance(Y, 0.5, 1.0)
    found, other = cut(plain, search), cut(own, search)
    assert (found.candidate.tolist(), found.threshold.tolist()) == (other.candidate.tolist(), other.threshold.tolist())
    is_cut = found.candidate >= 0
    np.testing.assert_allclose(other.gain[is_cut], found.gain[is_cut] * plain.unit, rtol=1e-12)
    assert plain.impure(search.frontier).tolist() == own.impure(search.frontier).tolist()


def test_a_node_is_impure_where_two_values_differ_by_what_counts_among_most() -> None:
    criterion = FarVariance(column(1e20, 1.0, 1.0, 2.0, 2.0 + 2.0**-51), 0.5, 1.0)
    frontier = samples.level([[0, 1], [1, 2], [2, 3], [3, 4], [0]], [[1, 1]] * 4 + [[1]])
    assert criterion.impure(frontier).tolist() == [True, False, True, False, False]


def test_the_one_scale_takes_all_but_the_far_value_for_equal() -> None:
    Y, search = with_far(1e20, 20), line([float(i == 17) for i in range(20)])
    ordinary = samples.level([list(range(16))], [[1] * 16])
    assert not Variance.from_vectors(Y, 0.5).impure(ordinary)[0]
    criterion = variance_of(Y, 0.5, "targets")
    assert criterion.impure(ordinary)[0]
    assert cut(criterion, search).gain[0] == pytest.approx(0.95 * 1e40, rel=1e-9)


@settings(max_examples=tries(20))
@given(st.floats(1e-140, 1e120))
def test_values_of_any_size_are_cut_alike(size: float) -> None:
    criterion = variance_of(column(0.0, 1.0, 4.0, 1e24) * size, 0.5, "targets")
    found = criterion.cut(samples.level([[0, 1, 2]], [[1, 1, 1]]), np.array([[0.0, 1.0, 2.0]]), 1)
    assert (found.candidate[0], found.threshold[0]) == (0, 1.5)
    assert found.gain[0] == pytest.approx(24.5 / 3 * size**2, rel=1e-9)


# --- the edges --------------------------------------------------------------------------------------------


def test_values_of_no_dimension_have_no_far_one() -> None:
    assert isinstance(variance_of(np.empty((3, 0)), 1.0, "embedding"), Variance)
    assert middle_of(np.empty((3, 0))).tolist() == []


@pytest.mark.parametrize("value", [1e200, -1e300, 1.7e308])
def test_a_value_whose_square_has_no_float_is_refused_with_its_row(value: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=naming("embedding", "row 17")):
            variance_of(with_far(value), 1.0, "embedding")
