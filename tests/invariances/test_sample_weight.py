"""The weight of a row: so many equal rows; 0 is an absent row; a factor that all whole weights have is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest import SMERF, SimForestClassifier
from tests.invariances.taught import (
    OF_DISTANCES,
    OF_FEATURES,
    SIMFORESTS,
    SMERFS,
    URERFS,
    Data,
    Grow,
    cuts_of,
    partitions,
)

DATA = Data.drawn(40)
N = len(DATA.X)
SEEDS = st.integers(0, 2**32)
FEW = settings(max_examples=8)
OF_SIMILARITIES = {
    name: grow
    for name, grow in {**SIMFORESTS, **{f"distances, {name}": grow for name, grow in OF_DISTANCES.items()}}.items()
    if "outliers" not in name
}
ALL: dict[str, Grow] = {**SMERFS, **URERFS, **OF_SIMILARITIES}
FREE: dict[str, Any] = {"min_samples_leaf": 1, "min_samples_split": 2}


def drawn(seed: int, low: int = 0, high: int = 4) -> np.ndarray:
    """Whole weights, one of them positive and one 0 if they may be."""
    weights = np.random.default_rng(seed).integers(low, high, N, endpoint=True)
    weights[0], weights[1] = high, low
    return weights.astype(float)


def repeated_rows(data: Data, weights: np.ndarray) -> Data:
    """Each row as often as its weight says."""
    return rows_of(data, np.repeat(np.arange(N), weights.astype(int)))


def rows_of(data: Data, rows: np.ndarray) -> Data:
    """Some rows, without pairs."""
    return data.but(pairs=data.pairs[:0], similar=data.similar[:0]).rows(rows)


# --- so many equal rows -----------------------------------------------------------------------------------


@pytest.mark.slow
@FEW
@given(
    SEEDS,
    st.sampled_from(
        [{}, {"max_bins": 4}, {"splitter": "random"}, {"feature_combinations": 2.0}, {"min_samples_leaf": 5}]
    ),
)
@pytest.mark.parametrize("taught", SMERFS)
def test_a_weight_is_so_many_equal_rows(taught: str, seed: int, more: dict[str, Any]) -> None:
    weights = drawn(seed)
    weighed, apart = (
        SMERFS[taught](DATA.but(weights=weights), **more),
        SMERFS[taught](repeated_rows(DATA, weights), **more),
    )
    assert cuts_of(weighed) == cuts_of(apart)
    np.testing.assert_allclose(weighed.distance(DATA.X), apart.distance(DATA.X), rtol=1e-12, atol=1e-13)
    for name in ("class_counts", "means", "spreads", "leaf_distances"):
        if hasattr(weighed.forest_.leaf_table, name) and hasattr(apart.forest_.leaf_table, name):
            found, expected = (getattr(own.forest_.leaf_table, name) for own in (weighed, apart))
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


@FEW
@given(SEEDS)
def test_without_witnesses_urerf_cuts_as_if_rows_were_repeated(seed: int) -> None:
    weights = drawn(seed)
    how: dict[str, Any] = {"coefficients": "sign"}
    weighed, apart = (
        URERFS["best cuts"](own, **how) for own in (DATA.but(weights=weights), repeated_rows(DATA, weights))
    )
    for name in ("tree_size", "columns", "n_rows"):
        assert getattr(weighed.forest_.table, name).tolist() == getattr(apart.forest_.table, name).tolist()
    np.testing.assert_allclose(weighed.forest_.table.threshold, apart.forest_.table.threshold, rtol=1e-12)
    np.testing.assert_allclose(weighed.forest_.table.gain, apart.forest_.table.gain, rtol=1e-9)


@pytest.mark.parametrize("balance", [None, "balanced", {"0": 4.0}])
def test_class_weights_multiply(balance: Any) -> None:
    """A similarity forest over one pair of objects that is the same with repeated rows: each row is its own column."""
    weights = drawn(3)
    X, labels = DATA.X, (DATA.labels > 0).astype(int)
    leaf: dict[str, Any] = {"n_estimators": 1, "bootstrap": False, "max_depth": 1, "random_state": 0}
    order = np.repeat(np.arange(N), weights.astype(int))
    weighed = SimForestClassifier("linear", class_weight=balance, **leaf).fit(X, labels, weights)
    apart = SimForestClassifier("linear", class_weight=balance, **leaf).fit(X[order], labels[order])
    assert weighed.forest_.leaf_table.class_weights == apart.forest_.leaf_table.class_weights
    root = [own.forest_.leaf_table.class_counts[0].tolist() for own in (weighed, apart)]
    assert root[0] == root[1] == np.bincount(labels, weights).tolist()


# --- a factor of all weights ------------------------------------------------------------------------------


@pytest.mark.parametrize("taught", ALL)
def test_equal_weights_are_none(taught: str) -> None:
    how = {} if taught in URERFS else FREE
    plain = ALL[taught](DATA, **how)
    assert cuts_of(ALL[taught](DATA.but(weights=np.ones(N)), **how)) == cuts_of(plain)
    for weight in (0.7,) if taught in URERFS else (0.7, 2.0):
        found = ALL[taught](DATA.but(weights=np.full(N, weight)), **how)
        assert partitions(found) == partitions(plain)
        for name in ("columns", "left", "threshold"):
            assert getattr(found.forest_.table, name).tolist() == getattr(plain.forest_.table, name).tolist()


@pytest.mark.slow
@FEW
@given(SEEDS)
@pytest.mark.parametrize("taught", {**SMERFS, **OF_SIMILARITIES})
def test_twice_all_whole_weights_change_no_cut(taught: str, seed: int) -> None:
    weights = drawn(seed, "nearest" in taught)
    once, twice = (ALL[taught](DATA.but(weights=factor * weights), **FREE) for factor in (1.0, 2.0))
    assert partitions(twice) == partitions(once)
    assert cuts_of(twice)["threshold"] == cuts_of(once)["threshold"]
    assert twice.forest_.table.n_rows.tolist() == (2 * once.forest_.table.n_rows).tolist()


@FEW
@given(SEEDS, st.floats(1e-6, 1e6))
def test_fractional_weights_are_relative(seed: int, factor: float) -> None:
    weights = np.random.default_rng(seed).random(N) + 0.25
    once, other = (SMERFS["labels"](DATA.but(weights=own)) for own in (weights, factor * weights))
    found, expected = (own.forest_.sample_weight for own in (other, once))
    assert np.abs(found - expected).max() <= 1  # a product may be rounded
    if np.array_equal(found, expected):
        assert other.digest_ == once.digest_


# --- an absent row ----------------------------------------------------------------------------------------


def spoiled(data: Data, absent: np.ndarray) -> Data:
    """The same with anything in the rows that are absent."""
    X, vectors, Z = data.X.copy(), data.vectors.copy(), data.Z.copy()
    X[absent], vectors[absent], Z[absent], Z[:, absent] = 1e30, -1e30, 1e30, 1e30
    targets = np.where(absent, 1e30, data.targets)
    return data.but(X=X, vectors=vectors, targets=targets, labels=np.where(absent, 9, data.labels), Z=Z)


@pytest.mark.filterwarnings("ignore")  # whoever gives such rows is told of them
@pytest.mark.parametrize("more", [{}, {"bootstrap": True}, {"max_bins": 4}, {"max_samples": 0.5}])
@pytest.mark.parametrize("taught", SMERFS)
def test_an_absent_row_may_be_anything(taught: str, more: dict[str, Any]) -> None:
    weights = drawn(5)
    absent = weights == 0.0
    data = DATA.but(weights=weights)
    found = SMERFS[taught](spoiled(data, absent), **more)
    plain, without = (SMERFS[taught](own, **more) for own in (data, rows_of(data, np.flatnonzero(~absent))))
    assert cuts_of(found) == cuts_of(plain) == cuts_of(without)
    np.testing.assert_allclose(found.distance(DATA.X), without.distance(DATA.X), rtol=1e-12, atol=1e-13)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("taught", URERFS)
def test_a_row_that_urerf_does_not_see_may_be_anything(taught: str) -> None:
    weights = drawn(6)
    absent = weights == 0.0
    data = DATA.but(weights=weights)
    found, without = (URERFS[taught](own) for own in (spoiled(data, absent), rows_of(data, np.flatnonzero(~absent))))
    assert cuts_of(found) == cuts_of(without)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bootstrap", [False, True])
@pytest.mark.parametrize("taught", [name for name in OF_FEATURES if "outliers" not in name])
def test_an_absent_object_is_no_column(taught: str, bootstrap: bool) -> None:
    weights = drawn(7)
    absent = weights == 0.0
    data = DATA.but(weights=weights)
    found = OF_FEATURES[taught](spoiled(data, absent), pairing="fresh", bootstrap=bootstrap)
    without = OF_FEATURES[taught](rows_of(data, np.flatnonzero(~absent)), pairing="fresh", bootstrap=bootstrap)
    columns = np.flatnonzero(~absent)[without.forest_.table.columns]
    assert found.forest_.table.columns.tolist() == columns.tolist()
    for name in ("threshold", "gain", "n_rows"):
        assert cuts_of(found)[name] == cuts_of(without)[name]


@pytest.mark.filterwarnings("ignore")
def test_the_width_of_a_kernel_follows_from_the_weights() -> None:
    weights = drawn(8)
    absent = weights == 0.0
    how: dict[str, Any] = {"n_estimators": 2, "random_state": 0}
    apart = repeated_rows(DATA, weights)
    found = SimForestClassifier("rbf", **how).fit(spoiled(DATA, absent).X, DATA.labels, weights)
    expected = SimForestClassifier("rbf", **how).fit(apart.X, apart.labels)
    assert found.forest_.meaning.rows.gamma == pytest.approx(expected.forest_.meaning.rows.gamma, rel=1e-12)


def test_an_absent_row_is_in_no_bag_but_has_an_estimate() -> None:
    weights = drawn(9)
    forest = SMERF(20, random_state=0).fit(DATA.X, DATA.labels, weights).forest_
    assert not forest.in_bag[:, weights == 0.0].any()
    assert (forest.leaves >= 0).all()
