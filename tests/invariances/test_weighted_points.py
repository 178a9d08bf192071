"""The weight of a point in pairs: a pair counts as the product of two of them; 0 is an absent point."""

from __future__ import annotations

import warnings
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest import RFD, TreeRank
from distforest.errors import InputError
from distforest.estimators.pair_columns import Cosine
from distforest.growth.pairs.point_weights import PointWeights, WeighedPairs
from distforest.growth.pairs.sampling import GivenPairs
from distforest.growth.sample_weights import COARSEST, MOST_OF_TREE, Draws, SampleWeights
from tests.estimators.rows import POINTS
from tests.invariances.taught import cuts_of
from tests.messages import naming

if TYPE_CHECKING:
    from distforest.estimators.on_pairs import OnPairs

N = len(POINTS)
RNG = np.random.default_rng(5)
LABELS = np.digitize(POINTS[:, 0] + POINTS[:, 1] ** 2, [0.0, 1.0])
PAIRS = np.stack(np.triu_indices(N, 1), axis=1)[RNG.permutation(N * (N - 1) // 2)[:300]]
SIMILAR = LABELS[PAIRS[:, 0]] == LABELS[PAIRS[:, 1]]
WHOLE = np.append([3.0, 0.0], RNG.integers(0, 4, N - 2))
FEW = settings(max_examples=6)

GIVEN: dict[str, OnPairs] = {
    "rfd": RFD(4, resample="pairs", bootstrap=False, max_bins=None, random_state=3),
    "rfd of few values": RFD(4, resample="pairs", bootstrap=False, min_samples_leaf=9, random_state=3),
    "treerank": TreeRank(1, max_bins=None, leafrank_depth=3, random_state=3),
    "square": TreeRank(1, max_bins=None, region="square", max_depth=4, min_samples_split=20, random_state=3),
}
DRAWN: dict[str, OnPairs] = {
    **GIVEN,
    "points": RFD(4, max_samples=0.8, random_state=3),
    "drawn pairs": TreeRank(3, n_pairs=100, random_state=3),
    "linear": TreeRank(2, n_pairs=200, leafrank="linear", random_state=3),
    "square bins": TreeRank(2, n_pairs=200, region="square", random_state=3),
}


def grown(estimator: OnPairs, X: np.ndarray, truth: Any, weights: np.ndarray | None = None, **more: Any) -> Any:
    """A forest of labels, or of pairs and whether they are similar."""
    own = type(estimator)(**{**estimator.get_params(deep=False), **more})
    if isinstance(truth, tuple):
        return own.fit_pairs(X, *truth, sample_weight=weights)
    return own.fit(X, truth, sample_weight=weights)


def repeated_points(X: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Each point as often as its weight says, and each pair between all copies of its points."""
    counts = weights.astype(int)
    first = np.cumsum(counts) - counts
    pairs, similar = [], []
    for (a, b), is_similar in zip(PAIRS, SIMILAR, strict=True):
        copies = [(first[a] + k, first[b] + m) for k in range(counts[a]) for m in range(counts[b])]
        pairs += copies
        similar += [is_similar] * len(copies)
    return np.repeat(X, counts, axis=0), (np.array(pairs), np.array(similar))


@pytest.mark.slow
@FEW
@given(st.integers(0, 2**32))
@pytest.mark.parametrize("name", GIVEN)
def test_a_given_pair_counts_as_the_pairs_of_all_copies_of_its_points(name: str, seed: int) -> None:
    weights = np.random.default_rng(seed).integers(0, 4, N).astype(float)
    X = np.rint(2 * POINTS) if name == "rfd of few values" else POINTS  # each value has a bin of its own
    weighed, apart = grown(GIVEN[name], X, (PAIRS, SIMILAR), weights), grown(GIVEN[name], *repeated_points(X, weights))
    found, expected = cuts_of(weighed), cuts_of(apart)
    if GIVEN[name].max_bins is not None:  # edges between the same values are laid for other numbers of pairs
        del found["threshold"], expected["threshold"]
    assert found == expected
    for array in ("class_counts", *(("scores",) if "rfd" not in name else ())):
        own, other = (getattr(forest.forest_.leaf_table, array) for forest in (weighed, apart))
        assert own.tolist() == other.tolist()
    if GIVEN[name].max_bins is None:
        assert weighed.distance(X, X).tobytes() == apart.distance(X, X).tobytes()


@pytest.mark.parametrize("taught", ["labels", "links"])
@pytest.mark.parametrize("name", DRAWN)
def test_equal_weights_are_none_and_a_factor_of_whole_weights_changes_no_cut(name: str, taught: str) -> None:
    truth = LABELS if taught == "labels" else (PAIRS, SIMILAR)
    free: dict[str, Any] = {"min_samples_leaf": 1, "min_samples_split": 2}
    plain = grown(DRAWN[name], POINTS, truth, **free)
    one = grown(DRAWN[name], POINTS, truth, np.ones(N), **free)
    assert cuts_of(one) == cuts_of(plain)
    assert one.forest_.sample_weight.tolist() == [1] * N
    for weight in (0.7, 2.0):
        found = grown(DRAWN[name], POINTS, truth, np.full(N, weight), **free)
        for array in ("columns", "left", "right", "threshold"):
            assert getattr(found.forest_.table, array).tolist() == getattr(plain.forest_.table, array).tolist()


@pytest.mark.parametrize("taught", ["labels", "links"])
@pytest.mark.parametrize("name", DRAWN)
def test_an_absent_point_may_be_anything_and_is_as_if_it_were_left_out(name: str, taught: str) -> None:
    absent, place = WHOLE == 0, np.cumsum(WHOLE > 0) - 1
    spoiled, labels = POINTS.copy(), LABELS.copy()
    spoiled[absent], labels[absent] = [1e30, -1e30, np.nan], 9
    kept = ~absent[PAIRS].any(axis=1)
    truth: Any = labels if taught == "labels" else (PAIRS, np.where(kept, SIMILAR, ~SIMILAR))
    rest: Any = LABELS[~absent] if taught == "labels" else (place[PAIRS[kept]], SIMILAR[kept])
    one = grown(DRAWN[name], spoiled, truth, WHOLE)
    other = grown(DRAWN[name], POINTS[~absent], rest, WHOLE[~absent])
    assert cuts_of(one) == cuts_of(other)
    assert one.forest_.table.missing_right is None
    assert one.forest_.in_bag[:, ~absent].tolist() == other.forest_.in_bag.tolist()
    assert not one.forest_.in_bag[:, absent].any()
    assert one.distance(POINTS, POINTS).tobytes() == other.distance(POINTS, POINTS).tobytes()
    one.forest_.check()


def test_the_labels_of_absent_points_alone_are_no_class() -> None:
    absent = WHOLE == 0
    with pytest.raises(InputError, match=naming("labels:", "cannot-link")):
        RFD(2).fit(POINTS, absent.astype(int), sample_weight=WHOLE)


def test_weights_move_a_cut_towards_heavy_points() -> None:
    """Of two features, each of which explains some points, that of the heavy ones is cut."""
    X = np.zeros((40, 2))
    X[:20, 0], X[20:, 1] = np.arange(20) % 2, np.arange(20) % 2
    y = np.arange(40) % 2
    for heavy, feature in ((slice(20), 0), (slice(20, 40), 1)):
        weights = np.full(40, 1.0)
        weights[heavy] = 5.0
        root = RFD(
            1, position=False, max_features=None, resample="pairs", bootstrap=False, max_depth=1, random_state=0
        ).fit(X, y, sample_weight=weights)
        assert root.forest_.table.columns.tolist() == [feature]


def test_pruning_and_out_of_bag_estimates_count_weights() -> None:
    weights = np.where(np.arange(N) % 2 == 0, 1.0, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = RFD(60, oob_score=True, random_state=0).fit(POINTS, LABELS, sample_weight=weights)
        other = RFD(60, oob_score=True, random_state=0).fit(POINTS[::2], LABELS[::2])
    assert one.oob_score_ == other.oob_score_
    how: dict[str, Any] = {"n_pairs": 200, "max_depth": 4, "pruning_folds": 2, "random_state": 0}
    once = TreeRank(2, **how).fit(POINTS, LABELS, sample_weight=np.ones(N))
    assert once.pruning_.areas.tolist() == TreeRank(2, **how).fit(POINTS, LABELS).pruning_.areas.tolist()
    twice = TreeRank(2, **how).fit(POINTS, LABELS, sample_weight=np.where(np.arange(N) < 3, 0.0, 2.0))
    assert 0.5 < twice.pruning_.areas.max() <= 1.0


def test_weights_that_cannot_be_used_are_refused() -> None:
    for wrong, named in (
        (np.ones(N - 1), ((40,), (39,))),
        (np.zeros(N), ("zero",)),
        (-np.ones(N), (-1.0, "row 0")),
        (np.full(N, 1e6), ("pair_weight", "2,147,483,647")),
    ):
        for fit in (RFD(2).fit, TreeRank(2).fit):
            with pytest.raises(InputError, match=naming("sample_weight", *named)):
                fit(POINTS, LABELS, sample_weight=wrong)
    with pytest.raises(InputError, match=naming("sample_weight:", "pair_columns")):
        TreeRank(2, pair_columns=[Cosine()]).fit(POINTS, LABELS, sample_weight=WHOLE)


# --- integers ---------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0.0, 100.0), min_size=2, max_size=8).filter(any), st.integers(1, 10**7))
def test_products_of_fractional_weights_are_rounded(weights: list[float], n_pairs: int) -> None:
    given_weights = np.array(weights) + 0.25 * (np.array(weights) > 0)
    present = given_weights[given_weights > 0]
    if (given_weights == np.rint(given_weights)).all():
        return
    of_points = SampleWeights.from_weights(given_weights, Draws(1, replace=False))
    found = PointWeights.from_weights(of_points, n_pairs)
    assert COARSEST <= found.unit <= 1024
    a, b = np.triu_indices(len(weights), 1)
    pairs = np.stack([a, b], axis=1).astype(np.int32)
    mean = Fraction(sum(map(Fraction, present.tolist())), len(present))
    for (i, j), weight in zip(pairs, found.of_pairs(pairs).tolist(), strict=True):
        exact = Fraction(given_weights[i]) * Fraction(given_weights[j]) / mean**2 * found.unit
        assert (weight == 0) == (exact == 0)
        if exact:
            own = [Fraction(given_weights[k]) / mean * 1024 for k in (i, j)]
            off = exact * (1 / min(own)) + 1 if min(own) > 1 else exact + found.unit * max(own) / 1024 + 1
            assert weight >= 1
            assert abs(weight - exact) <= off
    assert min(n_pairs, len(pairs)) * int(found.of_pairs(pairs).max()) <= MOST_OF_TREE or len(pairs) > n_pairs


def test_pairs_that_are_too_heavy_are_refused_early_or_when_they_are_drawn() -> None:
    one_heavy = SampleWeights(np.array([1 << 20, 1 << 20, 1, 1], np.int32), 1 << 10)
    assert PointWeights.from_weights(one_heavy, 1).unit == 1024
    with pytest.raises(InputError, match=naming("sample_weight:", "1,000,000", "134.2")):
        PointWeights.from_weights(replace(one_heavy, integers=np.full(1000, 1 << 24, np.int32)), 10**6)
    numbers = np.array([[0, 1]], np.int32)
    sampling = GivenPairs(numbers, np.zeros(1, np.uint8), 2, 1, replace=False, by_points=False)
    heavy = WeighedPairs(sampling, np.arange(2, dtype=np.int32), PointWeights(np.full(2, 1 << 16, np.int32)))
    with pytest.raises(InputError, match=naming("2,147,483,647", "4,294,967,296")):
        heavy.sample(0, 0)
