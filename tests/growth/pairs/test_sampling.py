"""Pairs of trees: drawn by the law that is named, none twice, the same whoever draws them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.growth.pairs.sampling import (
    ENOUGH,
    AllPairs,
    ByClass,
    Constraints,
    GivenPairs,
    LabelledPairs,
    PairSampling,
    distinct,
    first_of_each,
    part_of,
)
from distforest.growth.rng import bootstrap, subsample
from distforest.sources.point_pairs import DISSIMILAR, SIMILAR
from tests import samples
from tests.messages import naming
from tests.reference import naive_trees_of_pairs as ref
from tests.tries import tries

pytestmark = pytest.mark.kernels

LABELS = st.lists(st.integers(0, 3), min_size=1, max_size=12).map(lambda own: np.unique(own, return_inverse=True)[1])
UNEVEN = np.array([0, 1, 1, 0, 2, 1, 1, 0, 3])
"""Classes of three, four, one and one point."""


def by_class(labels: np.ndarray) -> ByClass:
    return ByClass.from_labels(labels.astype(np.int32), np.arange(len(labels)))


def unordered(pairs: np.ndarray) -> list[tuple[int, int]]:
    return [(min(pair), max(pair)) for pair in pairs.tolist()]


KINDS: dict[str, tuple[Callable[[ByClass], AllPairs], Callable[[int, int], bool]]] = {
    "alike": (ByClass.similar, lambda a, b: a == b),
    "unlike": (ByClass.dissimilar, lambda a, b: a != b),
    "any": (ByClass.any, lambda a, b: True),
}


# --- all pairs by number ----------------------------------------------------------------------------------


@given(LABELS, st.sampled_from(sorted(KINDS)))
def test_every_pair_of_a_kind_has_one_number(labels: np.ndarray, kind: str) -> None:
    every, holds = KINDS[kind]
    there = every(by_class(labels))
    found = unordered(there.numbered(np.arange(there.total)))
    expected = [(i, j) for i, j in combinations(range(len(labels)), 2) if holds(labels[i], labels[j])]
    assert sorted(found) == expected


def test_pairs_of_some_points_alone() -> None:
    some = ByClass.from_labels(UNEVEN.astype(np.int32), np.array([1, 4, 5, 8]))
    assert unordered(some.similar().numbered(np.arange(1))) == [(1, 5)]
    assert some.dissimilar().total == 5
    assert {point for pair in unordered(some.any().numbered(np.arange(6))) for point in pair} == {1, 4, 5, 8}


@pytest.mark.parametrize(("n", "total"), [(0, 5), (3, 5), (5, 5), (2, 100), (50, 10**9), (1, 2**45)])
def test_numbers_are_distinct_and_below_their_total(n: int, total: int) -> None:
    found = distinct(part_of(3, 1, 0), n, total)
    assert len(set(found.tolist())) == len(found) == n
    assert n == 0 or (found.min() >= 0 and found.max() < total)
    assert found.tolist() == distinct(part_of(3, 1, 0), n, total).tolist()
    if n > 1 and total > 50:
        assert found.tolist() != distinct(part_of(3, 2, 0), n, total).tolist()
        assert found.tolist() != distinct(part_of(3, 1, 1), n, total).tolist()


@pytest.mark.parametrize(("n", "total"), [(2, 5), (2, 7)])
def test_every_subset_is_equally_likely(n: int, total: int) -> None:
    """By shuffling (2 of 5) and by drawing again what came before (2 of 7)."""
    n_draws, counts = 2000, dict.fromkeys(combinations(range(total), n), 0)
    for tree in range(n_draws):
        counts[tuple(sorted(distinct(part_of(0, tree, 0), n, total).tolist()))] += 1  # type: ignore[index]
    expected = np.full(len(counts), n_draws / len(counts))
    assert abs(samples.chi_square(np.array(list(counts.values())), expected)) < 5


def test_repeats_are_left_out_in_order() -> None:
    assert first_of_each(np.array([5, 2, 5, 9, 2, 0])).tolist() == [5, 2, 9, 0]
    assert first_of_each(np.empty(0, np.int64)).tolist() == []


# --- constraints ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("balance", ["points", "classes"])
@pytest.mark.parametrize("kind", ["must", "cannot"])
def test_a_point_and_its_partner_follow_the_law(balance: str, kind: str) -> None:
    points, n = by_class(UNEVEN), 6000
    places = [np.arange(len(UNEVEN))]
    if balance == "classes":
        places = [np.flatnonzero(UNEVEN[points.points] == code) for code in range(4)]
        places = places[: 2 if kind == "must" else 4]  # classes of one point have no must-link pair
    found = [points.partners(part_of(1, 0, k), own, kind == "cannot", n) for k, own in enumerate(places)]
    pairs = np.concatenate(found)
    paired = pairs[pairs[:, 0] != pairs[:, 1]]  # a point without a partner comes with itself
    assert ref.law_fits(ref.constraint_law(UNEVEN, balance, kind), paired) > 1e-4


@pytest.mark.parametrize("kind", ["must", "cannot"])
def test_any_pair_of_a_kind_is_equally_likely(kind: str) -> None:
    there = by_class(UNEVEN).dissimilar() if kind == "cannot" else by_class(UNEVEN).similar()
    drawn = np.concatenate([there.drawn(part_of(0, tree, 0), 2) for tree in range(800)])
    assert ref.law_fits(ref.constraint_law(UNEVEN, "pairs", kind), drawn) > 1e-4


@pytest.mark.parametrize("balance", ["points", "classes", "pairs"])
@settings(max_examples=tries(25))
@given(LABELS, st.integers(1, 4), st.integers(0, 2**40))
def test_constraints_are_distinct_pairs_of_their_kind(
    balance: str, labels: np.ndarray, n_constraints: int, seed: int
) -> None:
    labels, rule = labels.astype(np.int32), Constraints(n_constraints, balance)
    sizes = np.bincount(labels)
    there = {SIMILAR: sum(math.comb(n, 2) for n in sizes), DISSIMILAR: math.comb(len(labels), 2)}
    there[DISSIMILAR] -= there[SIMILAR]
    if not min(there.values()):
        kind = "cannot-link" if there[SIMILAR] else "must-link"
        with pytest.raises(InputError, match=naming("labels:", kind)):
            _quietly(rule, labels, seed)
        return
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        pairs, codes = rule.draw(labels, seed)
    assert (pairs.dtype, codes.dtype) == (np.int32, np.uint8)
    assert len(set(unordered(pairs))) == len(pairs) == len(codes)
    assert ((labels[pairs[:, 0]] != labels[pairs[:, 1]]) == (codes == DISSIMILAR)).all()
    wanted, fewer = n_constraints * len(sizes), 0
    for code in (SIMILAR, DISSIMILAR):
        n = int((codes == code).sum())
        fewer += n < wanted
        assert 1 <= n <= min(wanted, there[code])
        assert n == min(wanted, there[code]) or balance != "pairs"
    assert len(told) == fewer
    assert all("-link pair" in str(warning.message) for warning in told)
    again, _ = _quietly(rule, labels, seed)
    assert again.tolist() == pairs.tolist()


def _quietly(rule: Constraints, labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rule.draw(labels, seed)


def test_each_class_has_its_number_of_constraints() -> None:
    """RFD, section 3.1: a rare class has as many as the others; by points it is as rare as its points."""
    labels = np.repeat([0, 1], [380, 20]).astype(np.int32)
    for balance, low, high in (("classes", 100, 100), ("points", 2, 22), ("pairs", 0, 5)):
        pairs, codes = _quietly(Constraints(100, balance), labels, 5)
        must = pairs[codes == SIMILAR]
        assert len(must) == 200
        assert low <= (labels[must[:, 0]] == 1).sum() <= high


def test_a_class_without_pairs_has_none_and_the_others_have_theirs() -> None:
    labels = np.repeat([0, 1, 2], [30, 30, 1]).astype(np.int32)
    pairs, codes = _quietly(Constraints(100, "classes"), labels, 0)
    assert (codes == SIMILAR).sum() == 200
    assert (labels[pairs[codes == SIMILAR]] == 2).sum() == 0
    assert (labels[pairs[codes == DISSIMILAR]] == 2).any()


def test_as_many_as_help_are_drawn_unless_a_number_is_given() -> None:
    labels = np.repeat([0, 1], 15).astype(np.int32)
    _, codes = Constraints.from_option("auto", "pairs").draw(labels, 0)  # all there are, and no warning
    assert [int((codes == code).sum()) for code in (SIMILAR, DISSIMILAR)] == [210, 225]
    assert Constraints.from_option("auto", "points").n_constraints == ENOUGH
    assert Constraints.from_option(np.int64(7), "points") == Constraints(7, "points")


def test_seeds_draw_other_pairs() -> None:
    labels = np.repeat([0, 1], 40).astype(np.int32)
    for balance in ("points", "classes", "pairs"):
        first, second = (Constraints(20, balance).draw(labels, seed)[0] for seed in (0, 1))
        assert first.tolist() != second.tolist()


# --- pairs of a tree --------------------------------------------------------------------------------------


def given_pairs(**changed: Any) -> GivenPairs:
    rng = np.random.default_rng(0)
    pairs = np.array(list(combinations(range(12), 2)), np.int32)[rng.permutation(66)[:40]]
    codes = (np.arange(40) % 2).astype(np.uint8)
    return GivenPairs(**{"pairs": pairs, "codes": codes, "n_points": 12, **changed})


def drawn(seed: int, tree: int, n: int, n_draws: int, replace: bool) -> np.ndarray:
    weights = np.ones(n, np.int32)
    if replace or n_draws < n:
        (bootstrap if replace else subsample)(seed, tree, n_draws, weights)
    return weights


@pytest.mark.parametrize(("n_draws", "replace"), [(12, True), (5, True), (7, False), (12, False)])
def test_points_are_drawn_and_a_pair_comes_as_often_as_both(n_draws: int, replace: bool) -> None:
    sampling = given_pairs(n_draws=n_draws, replace=replace, by_points=True)
    assert sampling.n_rows == 40
    for tree in range(6):
        found = sampling.sample(9, tree)
        points = drawn(9, tree, 12, n_draws, replace)
        times = points[sampling.pairs].prod(axis=1)
        assert found.in_bag.tolist() == points.tolist()
        assert found.weights.tolist() == times[times > 0].tolist()
        assert found.pairs.tolist() == sampling.pairs[times > 0].tolist()
        assert found.codes.tolist() == sampling.codes[times > 0].tolist()
        assert ref.drawn_points(found.pairs, found.weights) <= set(np.flatnonzero(points).tolist())


@pytest.mark.parametrize(("n_draws", "replace"), [(40, True), (13, True), (13, False), (40, False)])
def test_pairs_are_drawn_and_all_points_are_known(n_draws: int, replace: bool) -> None:
    sampling = given_pairs(n_draws=n_draws, replace=replace, by_points=False)
    for tree in range(4):
        found, times = sampling.sample(9, tree), drawn(9, tree, 40, n_draws, replace)
        assert found.weights.tolist() == times[times > 0].tolist()
        assert found.weights.sum() == n_draws
        assert found.pairs.tolist() == sampling.pairs[times > 0].tolist()
        assert found.in_bag.tolist() == [1] * 12
    assert sampling.typical(0) is sampling.pairs


@pytest.mark.parametrize("by_points", [True, False])
@pytest.mark.parametrize(("share", "replace"), [(1.0, True), (0.4, True), (0.4, False), (1.0, False)])
def test_about_as_many_pairs_are_drawn_as_is_said(share: float, replace: bool, by_points: bool) -> None:
    numbers = np.array(list(combinations(range(80), 2)), np.int32)
    codes, total = np.zeros(len(numbers), np.uint8), 80 if by_points else len(numbers)
    sampling = GivenPairs(numbers, codes, 80, round(share * total), replace, by_points)
    mean = np.mean([len(sampling.sample(0, tree).pairs) for tree in range(20)])
    assert mean == pytest.approx(sampling.n_distinct, rel=0.06)
    if share == 1.0 and not replace:
        assert sampling.n_distinct == sampling.n_rows == len(numbers)


def test_a_tree_that_drew_both_points_of_no_pair_learns_from_all() -> None:
    one = {"pairs": np.array([[0, 11]], np.int32), "codes": np.zeros(1, np.uint8)}
    sampling = given_pairs(**one, n_draws=3, replace=False, by_points=True)
    found = [sampling.sample(0, tree) for tree in range(30)]
    assert all(own.pairs.tolist() == [[0, 11]] and own.weights.tolist() == [1] for own in found)
    assert {int(own.in_bag.sum()) for own in found} == {3, 12}


@pytest.mark.parametrize("rule", ["uniform", "balanced", "all"])
@settings(max_examples=tries(25))
@given(LABELS.filter(lambda own: len(own) > 2), st.integers(2, 80), st.integers(0, 99), st.data())
def test_labelled_points_are_paired_anew_for_each_tree(
    rule: str, labels: np.ndarray, n_pairs: int, seed: int, data: st.DataObject
) -> None:
    n_draws = data.draw(st.integers(2, len(labels)))
    sampling: PairSampling = LabelledPairs(labels.astype(np.int32), n_pairs, rule, n_draws)
    for tree in range(3):
        found = sampling.sample(seed, tree)
        inside = drawn(seed, tree, len(labels), n_draws, False)
        assert found.in_bag.tolist() == inside.tolist()
        assert ref.drawn_points(found.pairs, found.weights) <= set(np.flatnonzero(inside).tolist())
        assert len(set(unordered(found.pairs))) == len(found.pairs)
        assert (found.pairs[:, 0] != found.pairs[:, 1]).all()
        assert ((labels[found.pairs[:, 0]] != labels[found.pairs[:, 1]]) == (found.codes == DISSIMILAR)).all()
        assert found.weights.tolist() == [1] * len(found.pairs)
        if rule != "balanced":
            assert len(found.pairs) == sampling.n_rows == sampling.n_distinct
            continue
        here = [
            KINDS[kind][0](ByClass.from_labels(labels, np.flatnonzero(inside))).total for kind in ("alike", "unlike")
        ]
        wanted = n_pairs // 2, n_pairs - n_pairs // 2
        counts = [(found.codes == code).sum() for code in (SIMILAR, DISSIMILAR)]
        assert counts == [min(own, there) for own, there in zip(wanted, here, strict=True)]


def test_uniform_pairs_are_of_all_pairs_and_balanced_ones_half_and_half() -> None:
    labels = np.repeat([0, 1], [8, 4]).astype(np.int32)
    law = {pair: ref.Fraction(1, 66) for pair in combinations(range(12), 2)}
    uniform, balanced = (LabelledPairs(labels, 4, rule, 12) for rule in ("uniform", "balanced"))
    assert ref.law_fits(law, np.concatenate([uniform.sample(0, tree).pairs for tree in range(600)])) > 1e-4
    for kind, code in (("must", SIMILAR), ("cannot", DISSIMILAR)):
        drawn_pairs = [(own := balanced.sample(0, tree)).pairs[own.codes == code] for tree in range(600)]
        assert ref.law_fits(ref.constraint_law(labels, "pairs", kind), np.concatenate(drawn_pairs)) > 1e-4


def test_typical_pairs_are_some_of_all() -> None:
    few, many = (LabelledPairs(np.arange(n, dtype=np.int32) % 2, 10, "uniform", n) for n in (5, 200))
    assert len(few.typical(0)) == 10
    assert len(many.typical(0)) == 4096 == len(set(unordered(many.typical(0))))
    assert len({point for pair in many.typical(0).tolist() for point in pair}) == 200
