"""The weights of rows as integers: whole ones as they are, fractional ones rounded, within bounds."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.growth.methods import METHODS, sampling, weights_of_rows
from distforest.growth.parameters import complete
from distforest.growth.problem import Sampling
from distforest.growth.sample_weights import (
    COARSEST,
    GENERAL,
    MOST_OF_TREE,
    OF_DISTANCES,
    Bounds,
    Draws,
    SampleWeights,
    least,
)
from distforest.sources.truth import TruthKind
from distforest.sources.weights import checked_weights
from tests.messages import naming
from tests.reference import naive

FRACTIONS = st.one_of(st.just(0.0), st.floats(1e-9, 1e9), st.floats(1e-3, 10.0))
ALL = Draws(10, replace=False)


@given(st.lists(st.integers(0, 2**20), min_size=1, max_size=10).filter(any))
def test_whole_weights_are_used_as_they_are(weights: list[int]) -> None:
    found = SampleWeights.from_weights(np.array(weights, np.float64), ALL)
    assert (found.integers.tolist(), found.unit) == (weights, 1)
    assert found.present.tolist() == [row for row, w in enumerate(weights) if w]
    assert found.is_everywhere == (0 not in weights)
    assert not found.rounding_warning(np.array(weights, np.float64))


@given(st.lists(FRACTIONS, min_size=1, max_size=10).filter(any), st.integers(1, 1000), st.booleans())
@example([0.5, 1e9], 1000, True)
def test_fractional_weights_are_rounded(weights: list[float], n_draws: int, replace: bool) -> None:
    assume(any(w % 1.0 for w in weights))
    bounds, draws = Bounds(tree=1 << 20, row=1 << 18, finest=1 << 10), Draws(n_draws, replace)

    def of(unit: int) -> list[int]:
        exact = [naive.relative_weight(weights, row, unit) for row in range(len(weights))]
        return [max(round(value), value > 0) for value in exact]

    def fits(unit: int) -> bool:
        integers = of(unit)
        return max(integers) <= bounds.row and naive.heaviest_tree(integers, n_draws, replace) <= bounds.tree

    units = [unit for unit in (1024, 512, 256, 128, 64, 32, 16) if fits(unit)]
    if not units:
        with pytest.raises(InputError, match=naming("sample_weight:", "times the mean")):
            SampleWeights.from_weights(np.array(weights), draws, bounds)
        return
    found = SampleWeights.from_weights(np.array(weights), draws, bounds)
    for row, (value, expected) in enumerate(zip(found.integers.tolist(), of(units[0]), strict=True)):
        half = abs(naive.relative_weight(weights, row, units[0]) % 1 - Fraction(1, 2))
        assert value == expected or (half < 1e-9 and abs(value - expected) == 1)
    assert found.unit == units[0]


@given(
    st.lists(st.integers(0, 9), min_size=3, max_size=8).filter(any),
    st.integers(0, 2**40),
    st.sampled_from([{}, {"bootstrap": False}, {"max_samples": 2}, {"max_samples": 0.5}, {"max_samples": 1.0}]),
)
def test_trees_draw_as_if_absent_rows_were_not_there(weights: list[int], seed: int, more: dict[str, Any]) -> None:
    own, trees = np.array(weights, np.int32), np.arange(3)
    params = {"max_samples": None, "bootstrap": True, **more}
    present = np.flatnonzero(own)
    assume(len(present) >= 2)
    found = sampling(params, len(own), SampleWeights(own)).weights(seed, trees)
    expected = sampling(params, len(present)).weights(seed, trees)
    assert found[:, present].tolist() == expected.tolist()
    assert not found[:, own == 0].any()
    weighed = SampleWeights(own).of_trees(found)
    assert weighed.tolist() == (found * own).tolist()
    rows = sampling(params, len(own), SampleWeights(own))
    assert rows.heaviest == naive.heaviest_tree(weights, rows.n_draws, rows.replace) >= weighed.sum(axis=1).max()


@pytest.mark.parametrize(
    ("weights", "bounds", "named"),
    [
        ([2.0**31, 1.0], GENERAL, ("largest weight", "2,147,483,647", "2,147,483,648")),
        ([2.0**30, 2.0**30], GENERAL, ("sum", "2,147,483,647", "2,147,483,648")),
        ([1e308] * 20, GENERAL, ("largest weight", "2,147,483,647", "1e+308")),
        ([2.0**15 + 1, 1.0], OF_DISTANCES, ("32,768", "32,769")),
        ([0.1] * 30_000 + [1e9], OF_DISTANCES, ("10 rows", 2048)),
    ],
)
def test_weights_that_are_too_large_are_refused(weights: list[float], bounds: Bounds, named: tuple[Any, ...]) -> None:
    with pytest.raises(InputError, match=naming("sample_weight:", *named)):
        SampleWeights.from_weights(np.array(weights), ALL, bounds)


def test_a_tree_that_drew_too_much_weight_is_refused() -> None:
    weights = SampleWeights(np.array([2**30, 1], np.int32))
    assert weights.of_trees(np.array([[1, 3]], np.int32)).tolist() == [[2**30, 3]]
    with pytest.raises(InputError, match=naming("sample_weight:", "2,147,483,647", "2,147,483,648")):
        weights.of_trees(np.array([[1, 1], [2, 0]], np.int32))
    assert Sampling(2, 2, True, weights).heaviest == MOST_OF_TREE


@pytest.mark.parametrize(
    ("weights", "named"),
    [
        ([1.0, 2.0], ("(3,)", "(2,)")),
        ([[1.0], [1.0], [1.0]], ("(3,)", "(3, 1)")),
        (2.0, ("(3,)", "()")),
        ([1.0, -2.0, 0.0], ("-2.0 in row 1",)),
        ([1.0, 1.0, np.nan], ("nan in row 2",)),
        ([np.inf, 1.0, 1.0], ("inf in row 0",)),
        ([0.0, 0.0, 0.0], ("zero",)),
        (["a", "b", "c"], ("'a'",)),
        (np.ones(3, "timedelta64[D]"), ("timedelta64[D]",)),
        (np.ones(3, "datetime64[s]"), ("datetime64[s]",)),
        (np.ones(3, complex), ("complex128",)),
        ([None, 1.0, 1.0], ("nan in row 0",)),
    ],
)
def test_bad_weights_are_refused(weights: Any, named: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=naming("sample_weight", *named)):
        checked_weights(weights, 3)


def test_the_least_numbers_are_weights_like_others() -> None:
    weights = np.array([5e-324, 1e-323, 5e-324])
    assert SampleWeights(np.array([768, 1536, 768], np.int32), 1024).rounding_warning(weights) == ""


def test_limits_count_rows() -> None:
    whole, parts = SampleWeights(np.array([3, 1], np.int32)), SampleWeights(np.array([900, 1100], np.int32), 1024)
    assert [least(whole.unit, n, 3) for n in (2, 5)] == [2, 5]
    assert [least(parts.unit, n, 3) for n in (2, 3)] == [1, 3072]
    assert [least(parts.unit, n, 2) for n in (1, 2)] == [1, 2048]


@pytest.mark.filterwarnings("error")
def test_weights_near_the_smallest_number_are_reported_alone() -> None:
    weights = np.array([1.0, 1.5, 5e-324])
    assert "4.941e-324 in row 2" in SampleWeights.from_weights(weights, Draws(3, replace=False)).rounding_warning(
        weights
    )


def test_what_is_rounded_is_reported() -> None:
    weights = np.array([0.1] * 50 + [1.5] * 100 + [0.0])
    assert not SampleWeights.from_weights(weights, ALL).rounding_warning(weights)
    coarse = SampleWeights.from_weights(weights, Draws(200_000, True))
    assert coarse.unit == 1024
    rough = SampleWeights.from_weights(weights, ALL, Bounds(1 << 20, 1 << 20, COARSEST))
    assert re.match(naming("1/16", "50 of 150", "0.1 in row 0"), rough.rounding_warning(weights))


def params_of(method: str, **more: Any) -> dict[str, Any]:
    return complete(METHODS[method].parameters, {"n_estimators": 2, **more})


def test_class_weights_leave_room_for_weights() -> None:
    codes = np.repeat([0, 1], [90, 10]).astype(np.int32)
    weights = np.random.default_rng(0).random(100) + 0.5
    params = params_of("simforest", class_weight={"a": 1.0, "b": 8000.0})
    found = weights_of_rows(params, TruthKind.LABELS, codes, ["a", "b"], weights)
    plain = weights_of_rows(params_of("simforest"), TruthKind.LABELS, codes, ["a", "b"], weights)
    assert (plain.unit, found.unit) == (1024, 16)
    params = params_of("simforest", class_weight={"a": 1.0, "b": 16000.0})
    with pytest.raises(InputError, match=naming("sample_weight:", "100 rows")):
        weights_of_rows(params, TruthKind.LABELS, codes, ["a", "b"], 10.0 * weights**6)


def test_all_objects_must_vote_if_the_nearest_does() -> None:
    params = params_of("simforest", voting="nearest")
    with pytest.raises(InputError, match="voting='nearest'"):
        weights_of_rows(params, TruthKind.LABELS, np.array([0, 1], np.int32), ["a", "b"], np.array([0.0, 1.0]))
