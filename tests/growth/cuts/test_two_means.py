"""Two-means cuts found without a sort, against the slow reference and against the scan of all values in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.growth.cuts.gaussians import cut_clusters, scan_clusters
from distforest.growth.cuts.two_means import (
    COUNTED_BINS,
    SORTED_UP_TO,
    TWO_MEANS,
    CandidateCuts,
    ClusterScoring,
    cut_two_means,
    room_for,
)
from tests.reference import naive_clusters as ref
from tests.tries import tries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Integers = NDArray[np.int32]

pytestmark = pytest.mark.kernels

LARGE = 300 if numba.config.DISABLE_JIT else 5 * COUNTED_BINS
KINDS = ["normal", "uniform", "skewed", "heavy", "two", "few", "rounded", "far", "rising", "rare", "one away"]


def values_of(kind: str, n: int, seed: int) -> Vector:
    """Values of one kind, float32 numbers."""
    rng = np.random.default_rng(seed)
    normal, uniform = rng.standard_normal(n), rng.random(n)
    found: Vector = {
        "normal": normal,
        "uniform": uniform,
        "skewed": np.exp(3.0 * normal),
        "heavy": rng.standard_cauchy(n),
        "two": normal + 100.0 * (uniform < 0.3),
        "few": np.floor(5.0 * uniform),
        "rounded": np.round(normal, 1),
        "far": 2.0**20 + np.round(uniform, 3),
        "rising": np.sort(uniform) ** 3,
        "rare": uniform + 1e4 * (normal > 2.0),
        "one away": np.where(np.arange(n) == n // 3, -1e6, normal),
    }[kind]
    return found.astype(np.float32).astype(np.float64)


def weights_of(n: int, seed: int) -> Integers:
    return np.random.default_rng(seed).integers(1, 5, n).astype(np.int32)


def cut(values: Vector, weights: Integers, min_leaf: int = 1, relative: bool = True) -> tuple[float, float]:
    """The kernel's threshold and score; its working arrays are longer than they must be, and dirty."""
    room = room_for(len(values) + 3)
    for array in room:
        array[:] = 1
    cuts = CandidateCuts(np.zeros((1, 1)), np.zeros((1, 1)))
    node = np.array([0, len(values)]), 0, weights, values[None]
    cut_two_means(*node, ClusterScoring(TWO_MEANS, relative, min_leaf), True, room, cuts)
    return float(cuts.thresholds[0, 0]), float(cuts.scores[0, 0])


def scanned(values: Vector, weights: Integers, min_leaf: int = 1, relative: bool = True) -> tuple[float, float]:
    order = np.argsort(values, kind="stable")
    scoring = ClusterScoring(TWO_MEANS, relative, min_leaf)
    threshold, score = scan_clusters(values, weights, order, scoring, np.empty(len(order)))
    return float(threshold), float(score)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=tries(10))
@given(n=st.integers(SORTED_UP_TO, LARGE), seed=st.integers(0, 2**32 - 1), data=st.data())
def test_the_cut_is_that_of_the_scan_of_all_values(kind: str, n: int, seed: int, data: st.DataObject) -> None:
    values, weights = values_of(kind, n, seed), weights_of(n, seed)
    min_leaf = data.draw(st.one_of(st.just(1), st.integers(1, n)))
    for relative in (False, True):
        threshold, score = cut(values, weights, min_leaf, relative)
        expected = scanned(values, weights, min_leaf, relative)
        assert threshold == pytest.approx(expected[0], rel=0.0, abs=0.0, nan_ok=True)
        if expected[1] == -np.inf:
            assert score == -np.inf
        else:
            assert abs(score - expected[1]) <= 1e-9 * ref.squares(values, weights)


@pytest.mark.parametrize("kind", KINDS)
def test_no_cut_of_the_reference_is_better(kind: str) -> None:
    values, weights = values_of(kind, 2 * SORTED_UP_TO, 0), weights_of(2 * SORTED_UP_TO, 0)
    cuts = ref.two_means_cuts(values, weights)
    threshold, score = cut(values, weights)
    (chosen,) = [one for one in cuts if one.below <= threshold < one.above]
    slack = 1e-9 * ref.squares(values, weights)
    assert chosen.score == pytest.approx(score, rel=0.0, abs=slack)
    assert chosen.score >= max(one.score for one in cuts) - slack


@settings(max_examples=tries(30))
@given(half=st.lists(st.integers(1, 2**20), min_size=SORTED_UP_TO // 2, max_size=80))
def test_of_two_equal_cuts_the_lower_is_found(half: list[int]) -> None:
    """Values that mirror each other about 0: every cut has a twin."""
    values = np.array([*half, *(-x for x in half)], np.float64)
    weights = np.ones(len(values), np.int32)
    threshold, _ = cut(values, weights)
    assert threshold <= 0.0
    assert threshold == scanned(values, weights)[0]


@settings(max_examples=tries(60))
@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=2, max_size=6),
    n=st.integers(SORTED_UP_TO, 3 * SORTED_UP_TO),
    seed=st.integers(0, 2**32 - 1),
    relative=st.booleans(),
    twins=st.booleans(),
)
def test_the_best_candidate_is_cut_alike_where_the_others_need_not_be(
    kinds: list[str], n: int, seed: int, relative: bool, twins: bool
) -> None:
    values = np.stack([values_of(kind, n, seed + place) for place, kind in enumerate(kinds)])
    values = np.concatenate([values, values]) if twins else values  # of equals the first is found
    weights, node = weights_of(n, seed), np.array([0, n])
    thresholds, scores = np.full((2, len(values), 1), np.nan), np.full((2, len(values), 1), -np.inf)
    for best_only in (0, 1):
        cuts = CandidateCuts(thresholds[best_only], scores[best_only])
        cut_clusters(node, weights, values, ClusterScoring(TWO_MEANS, relative, 1), bool(best_only), cuts)
    best = int(scores[0].argmax())
    assert int(scores[1].argmax()) == best
    assert scores[1][best] == scores[0][best]
    assert thresholds[1][best] == thresholds[0][best]
    assert (scores[1] <= scores[0]).all()  # the others have no cut, or one that is not their best


@pytest.mark.parametrize("kind", ["normal", "few", "skewed", "two"])
def test_rows_in_another_order_are_cut_alike(kind: str) -> None:
    values, weights = values_of(kind, 200, 1), weights_of(200, 1)
    order = np.random.default_rng(2).permutation(200)
    threshold, score = cut(values, weights)
    moved = cut(values[order], weights[order])
    assert moved[0] == threshold
    assert moved[1] == pytest.approx(score, rel=1e-12)


@pytest.mark.parametrize(
    "change", [{3: np.nan}, {0: np.nan}, {7: 1e300}, {7: np.float64("inf")}, dict.fromkeys(range(SORTED_UP_TO), 2.0)]
)
def test_it_says_where_all_values_must_be_sorted(change: dict[int, float]) -> None:
    values = values_of("normal", SORTED_UP_TO, 0)
    values[list(change)] = list(change.values())
    assert np.isnan(cut(values, weights_of(SORTED_UP_TO, 0))[1])


@pytest.mark.parametrize("n", [SORTED_UP_TO - 1, SORTED_UP_TO, 3 * SORTED_UP_TO])
def test_nodes_with_missing_values_are_cut_as_without_their_rows(n: int) -> None:
    values, weights = values_of("two", n, 4), weights_of(n, 4)
    holed, heavy = np.insert(values, [0, n // 2], np.nan), np.insert(weights, [0, n // 2], 9).astype(np.int32)
    found = []
    for own, w in ((values, weights), (holed, heavy)):
        cuts = CandidateCuts.none(1, 1)
        cut_clusters(np.array([0, len(own)]), w, own[None], ClusterScoring(TWO_MEANS, True, 1), False, cuts)
        found.append((cuts.thresholds[0, 0], cuts.scores[0, 0]))
    assert found[0][0] == found[1][0]
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-12)
