"""The weight of a given pair: it counts as so many equal pairs; 0 is an absent pair."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest import RFD, TreeRank
from distforest.errors import DistforestWarning, InputError
from distforest.forest.estimates import Pruning
from distforest.growth.pairs.point_weights import DRAWN_TWICE, FINEST_BESIDE, integers_of_pairs
from distforest.growth.pairs.sampling import in_tree
from distforest.growth.sample_weights import COARSEST, MOST_OF_TREE, Draws, SampleWeights
from tests.estimators.rows import POINTS
from tests.invariances.taught import cuts_of
from tests.invariances.test_weighted_points import DRAWN, FEW, GIVEN, PAIRS, SIMILAR, WHOLE, repeated_points
from tests.messages import naming

N = len(POINTS)
BY_POINTS: dict[str, Any] = {
    "bootstrap of points": RFD(4, max_bins=None, oob_score=True, random_state=3),
    "some points": RFD(4, max_bins=None, max_samples=0.7, bootstrap=False, oob_score=True, random_state=3),
}
"""Trees draw points, whatever the pairs are."""

EXACT = {name: own for name, own in {**GIVEN, **BY_POINTS}.items() if own.max_bins is None}


def fitted(estimator: Any, pairs: np.ndarray, similar: np.ndarray, X: np.ndarray = POINTS, **more: Any) -> Any:
    """A forest of given pairs, whether or not its trees have cuts, or pairs have estimates."""
    own = type(estimator)(**estimator.get_params(deep=False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DistforestWarning)
        return own.fit_pairs(X, pairs, similar, **more)


def repeated_pairs(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each pair as often as its weight says: the slow way to weigh it."""
    counts = weights.astype(int)
    return np.repeat(PAIRS, counts, axis=0), np.repeat(SIMILAR, counts)


def random_weights(seed: int) -> np.ndarray:
    """Small whole weights of the pairs."""
    return np.random.default_rng(seed).integers(0, 4, len(PAIRS)).astype(float)


@pytest.mark.slow
@FEW
@given(st.integers(0, 2**32))
@pytest.mark.parametrize("name", EXACT)
def test_a_pair_counts_as_so_many_equal_pairs(name: str, seed: int) -> None:
    weights = random_weights(seed)
    weighed, repeats = (
        fitted(EXACT[name], PAIRS, SIMILAR, pair_weight=weights),
        fitted(EXACT[name], *repeated_pairs(weights)),
    )
    assert weighed.digest_ == repeats.digest_
    assert getattr(weighed, "oob_score_", None) == pytest.approx(getattr(repeats, "oob_score_", None), abs=1e-12)
    if isinstance(weighed, TreeRank):
        assert weighed.auc_ == repeats.auc_
    absent = int((weights == 0.0).sum())
    assert weighed.forest_.provenance["pair_weight"] == {"pairs": len(PAIRS), "absent": absent}
    assert "pair_weight" not in repeats.forest_.provenance


@FEW
@given(st.integers(0, 2**32))
def test_bins_of_few_values_are_those_of_equal_pairs_but_for_their_edges(seed: int) -> None:
    estimator, weights = GIVEN["rfd of few values"], random_weights(seed)
    X = np.rint(2 * POINTS)
    weighed, repeats = (type(estimator)(**estimator.get_params(deep=False)) for _ in range(2))
    found = cuts_of(weighed.fit_pairs(X, PAIRS, SIMILAR, pair_weight=weights))
    expected = cuts_of(repeats.fit_pairs(X, *repeated_pairs(weights)))
    del found["threshold"], expected["threshold"]
    assert found == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", {**DRAWN, **BY_POINTS})
def test_an_absent_pair_is_as_if_it_were_left_out_and_equal_weights_are_none(name: str) -> None:
    estimator, weights = {**DRAWN, **BY_POINTS}[name], random_weights(0)
    kept = weights > 0.0
    one = fitted(estimator, PAIRS, SIMILAR ^ ~kept, pair_weight=weights)
    other = fitted(estimator, PAIRS[kept], SIMILAR[kept], pair_weight=weights[kept])
    assert one.digest_ == other.digest_
    plain = fitted(estimator, PAIRS, SIMILAR)
    assert fitted(estimator, PAIRS, SIMILAR, pair_weight=np.ones(len(PAIRS))).digest_ == plain.digest_


@pytest.mark.slow
@FEW
@given(st.integers(0, 2**32))
@pytest.mark.parametrize("name", [name for name in EXACT if name in GIVEN])
def test_weights_of_points_and_of_pairs_multiply(name: str, seed: int) -> None:
    weights, of_points = random_weights(seed), WHOLE[PAIRS].prod(axis=1).astype(int)
    both = fitted(EXACT[name], PAIRS, SIMILAR, sample_weight=WHOLE, pair_weight=weights)
    assert both.digest_ == fitted(EXACT[name], *repeated_pairs(weights), sample_weight=WHOLE).digest_
    assert cuts_of(both) == cuts_of(fitted(EXACT[name], PAIRS, SIMILAR, pair_weight=weights * of_points))
    X, links = repeated_points(POINTS, WHOLE)
    copies = fitted(EXACT[name], *links, X=X, pair_weight=np.repeat(weights, of_points))
    assert cuts_of(both) == cuts_of(copies)


@pytest.mark.slow
def test_fractional_weights_are_relative_and_go_with_those_of_points() -> None:
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(PAIRS))
    for own in EXACT.values():
        estimator = type(own)(**{**own.get_params(deep=False), "min_samples_leaf": 1, "min_samples_split": 2})
        one = fitted(estimator, PAIRS, SIMILAR, pair_weight=weights)
        assert cuts_of(one) == cuts_of(fitted(estimator, PAIRS, SIMILAR, pair_weight=weights * 4.0))
        both = fitted(estimator, PAIRS, SIMILAR, pair_weight=weights, sample_weight=np.full(N, 0.7))
        assert both.forest_.sample_weight.tolist() == [1024] * N
        plain = fitted(estimator, PAIRS, SIMILAR)
        equal = fitted(estimator, PAIRS, SIMILAR, pair_weight=np.full(len(PAIRS), 0.3))
        for array in ("columns", "left", "right", "threshold"):
            assert getattr(equal.forest_.table, array).tolist() == getattr(plain.forest_.table, array).tolist()


def test_limits_count_pairs_of_mean_weight() -> None:
    """A leaf of five pairs of mean weight, whatever the unit of the weights is."""
    for factor in (0.25, 3.25):
        estimator = RFD(1, resample="pairs", bootstrap=False, max_bins=None, min_samples_leaf=40, random_state=0)
        own = fitted(estimator, PAIRS, SIMILAR, pair_weight=np.full(len(PAIRS), factor))
        plain = fitted(estimator, PAIRS, SIMILAR)
        assert own.forest_.table.columns.tolist() == plain.forest_.table.columns.tolist()
        assert own.forest_.table.n_rows.tolist() == [1024 * n for n in plain.forest_.table.n_rows.tolist()]


def test_pruning_judges_by_weights() -> None:
    weights = random_weights(2)
    found: list[Pruning] = []
    for pairs, similar, more in ((PAIRS, SIMILAR, {"pair_weight": weights}), (*repeated_pairs(weights), {})):
        estimator = TreeRank(1, max_bins=None, leafrank_depth=2, max_depth=4, pruning_folds=2, random_state=0)
        found.append(fitted(estimator, pairs, similar, **more).pruning_)
    assert found[0].areas.tolist() == found[1].areas.tolist()
    assert found[0].gain == found[1].gain


def test_scores_of_pairs_count_weights() -> None:
    weights = random_weights(3)
    forest = fitted(GIVEN["rfd"], PAIRS[:150], SIMILAR[:150])
    one = forest.roc_auc_score(POINTS, PAIRS, SIMILAR, weights)
    assert one == pytest.approx(forest.roc_auc_score(POINTS, *repeated_pairs(weights)), abs=1e-12)
    with pytest.raises(InputError, match=naming("score:", SIMILAR.sum(), 0)):
        forest.roc_auc_score(POINTS, PAIRS, SIMILAR, SIMILAR)


def test_trees_are_added_to_a_forest_of_the_same_weights_alone() -> None:
    weights = random_weights(4)
    how: dict[str, Any] = {"max_bins": None, "random_state": 3}
    once = RFD(6, **how).fit_pairs(POINTS, PAIRS, SIMILAR, pair_weight=weights)
    grown = RFD(3, warm_start=True, **how).fit_pairs(POINTS, PAIRS, SIMILAR, pair_weight=weights)
    grown.set_params(n_estimators=6).fit_pairs(POINTS, PAIRS, SIMILAR, pair_weight=weights)
    assert grown.digest_ == once.digest_
    for other in (None, weights[::-1], 0.5 * weights):
        with pytest.raises(InputError, match="warm_start=True"):
            grown.set_params(n_estimators=9).fit_pairs(POINTS, PAIRS, SIMILAR, pair_weight=other)


# --- refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (np.ones(len(PAIRS) - 1), ("pair_weight:", (300,), (299,))),
        (np.ones(N), ("pair_weight:", (300,), (40,))),
        (np.ones((len(PAIRS), 1)), ("pair_weight:", (300,), (300, 1))),
        (np.zeros(len(PAIRS)), ("pair_weight:", "zero")),
        (-np.ones(len(PAIRS)), ("pair_weight:", -1.0, "pair 0")),
        (np.full(len(PAIRS), np.nan), ("pair_weight:", "nan", "pair 0")),
        (np.full(len(PAIRS), np.inf), ("pair_weight:", "inf", "pair 0")),
        (["much"] * len(PAIRS), ("pair_weight", "'much'")),
        (np.full(len(PAIRS), 1e7), ("pair_weight:", "536,870,911", "3,000,000,000")),
        (np.full(len(PAIRS), 1e10), ("pair_weight:", "2,147,483,647", "10,000,000,000")),
        (np.where(SIMILAR, 1.0, 0.0), ("only similar",)),
    ],
)
def test_weights_that_cannot_be_used_are_refused(wrong: Any, named: tuple[object, ...]) -> None:
    for estimator in (RFD(2), TreeRank(2)):
        with pytest.raises(InputError, match=naming(*named)):
            estimator.fit_pairs(POINTS, PAIRS, SIMILAR, pair_weight=wrong)


def test_absent_points_may_leave_no_pair_of_positive_weight() -> None:
    absent = np.where(np.arange(N) < 3, 1.0, 0.0)
    inside = (PAIRS < 3).all(axis=1)
    with pytest.raises(InputError, match="none"):
        RFD(2).fit_pairs(POINTS, PAIRS, SIMILAR, absent, pair_weight=np.where(inside, 0.0, 1.0))


def test_a_contradiction_of_an_absent_pair_is_not_reported() -> None:
    pairs, similar = np.concatenate([PAIRS, PAIRS[:1, ::-1]]), np.append(SIMILAR, ~SIMILAR[0])
    with pytest.warns(DistforestWarning, match=naming("DF009 pairs:", 1)):
        RFD(2, random_state=0).fit_pairs(POINTS, pairs, similar)
    one = RFD(2, random_state=0).fit_pairs(POINTS, pairs, similar, pair_weight=np.append(np.ones(len(PAIRS)), 0.0))
    assert one.digest_ == RFD(2, random_state=0).fit_pairs(POINTS, PAIRS, SIMILAR).digest_


def test_what_rounding_changes_is_reported() -> None:
    weights = np.append(np.full(len(PAIRS) - 1, 100.5), 0.01)
    with pytest.warns(DistforestWarning, match=naming("pair_weight:", 0.01, "pair 299")):
        RFD(2, random_state=0).fit_pairs(POINTS, PAIRS, SIMILAR, pair_weight=weights)


# --- integers ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_integers_leave_room_for_draws_and_for_points() -> None:
    parts = np.array([0.5, 1.5])
    assert integers_of_pairs(parts).unit == 1024
    assert integers_of_pairs(parts, SampleWeights(np.ones(3, np.int32))).unit == 1024
    assert integers_of_pairs(parts, SampleWeights(np.full(3, 1024, np.int32), 1024)).unit == FINEST_BESIDE
    many = np.resize(parts, 1_000_000)
    assert DRAWN_TWICE * int(integers_of_pairs(many).integers.sum()) <= MOST_OF_TREE
    beside = integers_of_pairs(many, SampleWeights(np.full(3, 1024, np.int32), 1024))
    assert DRAWN_TWICE * COARSEST * int(beside.integers.sum()) <= MOST_OF_TREE
    too_many = MOST_OF_TREE // (DRAWN_TWICE * COARSEST * COARSEST) + 2
    with pytest.raises(InputError, match=naming("pair_weight:", "2,097,151", "2,097,153")):
        integers_of_pairs(np.resize(parts, too_many), SampleWeights(np.full(3, 1024, np.int32), 1024))


def test_products_beyond_64_bits_are_refused() -> None:
    with pytest.raises(InputError, match=naming("sample_weight", "pair_weight", "2,147,483,647")):
        in_tree(np.full(4, 2, np.int32), np.full(4, 2**62, np.int64))  # whose sum is 0 in 64 bits
    of_points = SampleWeights.from_weights(np.full(3, 2.0**31 - 1.0), Draws(1, replace=False))
    with pytest.raises(InputError, match=naming("sample_weight", "pair_weight", "2,147,483,647")):
        RFD(2, random_state=0).fit_pairs(
            POINTS, PAIRS, SIMILAR, np.full(N, float(of_points.integers[0])), pair_weight=np.full(len(PAIRS), 3.0)
        )
