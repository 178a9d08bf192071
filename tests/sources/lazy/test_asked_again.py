"""Functions that answer otherwise when pairs are asked for again are told, for a few pairs and within a budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_wine

from distforest import Lazy, SimForestClassifier, SimForestOutlier, SimForestRegressor, pairwise
from distforest.errors import InputError
from distforest.sources.lazy.pairs import PairCodes, Pairs
from tests.messages import naming
from tests.sources.helpers import warned

X, Y = load_wine(return_X_y=True)
X = X / X.std(axis=0)
RNG = np.random.default_rng(0)


def apart(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).sum())


def in_batches(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> list[float]:
    return [apart(one, other) for one, other in zip(left, right, strict=True)]


ODD: dict[str, Callable[..., Any]] = {
    "at random": pairwise(lambda _one, _other: RNG.random()),
    "the first alone": pairwise(lambda one, _other: float(one.sum())),
    "noise": pairwise(lambda one, other: apart(one, other) * (1 + 0.1 * RNG.random())),
    "sorted": lambda left, right: sorted(in_batches(left, right)),
    "reversed": lambda left, right: in_batches(left, right)[::-1],
    "with the first of a batch": lambda left, right: [apart(left[0], other) for other in right],
}


def told(similarity: Any, estimator: Any = SimForestClassifier) -> list[str]:
    """What a fit tells of pairs that were answered otherwise."""
    return warned(lambda: estimator(similarity, n_estimators=10, random_state=0).fit(X, Y), "pair", "symmetric=False")


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_what_answers_otherwise_is_told(name: str) -> None:
    for kind in ("distance", "similarity"):
        assert len(told(Lazy(ODD[name], kind=kind))) == 1
        assert not told(Lazy(ODD[name], kind=kind, asks_again=False))


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [SimForestClassifier, SimForestRegressor, SimForestOutlier])
def test_what_answers_alike_is_not_told(estimator: Any) -> None:
    for function in (in_batches, pairwise(lambda one, other: np.float32(one @ other))):
        for kind in ("distance", "similarity"):
            assert not told(Lazy(function, kind=kind), estimator)
    some = pairwise(lambda one, other: None if (one[0] + other[0]) % 1 < 0.3 else apart(one, other))
    assert not told(Lazy(some, kind="distance"), estimator)
    assert len(told([Lazy(in_batches), Lazy(ODD["sorted"])], estimator)) == 1


@pytest.mark.slow
def test_only_a_few_are_asked_for_again_and_none_that_cost(tmp_path: Path) -> None:
    def fit(**options: Any) -> tuple[SimForestClassifier, Counter[tuple[int, int]]]:
        asked: Counter[tuple[int, int]] = Counter()

        def counted(left: Sequence[int], right: Sequence[int]) -> list[float]:
            asked.update((min(pair), max(pair)) for pair in zip(left, right, strict=True))
            return in_batches(X[left], X[right])

        lazy = Lazy(counted, kind="distance", **options)
        return SimForestClassifier(lazy, n_estimators=5, random_state=0).fit(np.arange(len(X)), Y), asked

    plain, once = fit(asks_again=False)
    assert max(once.values()) == 1
    again, counts = fit()
    assert again.digest_ == plain.digest_ or (again.forest_.table.threshold == plain.forest_.table.threshold).all()
    assert sum(count == 2 for count in counts.values()) == 8
    assert again.n_evaluations_ == counts.total() == once.total() + 8
    assert fit(budget=once.total() + 8)[1] == counts
    assert fit(budget=once.total() + 7)[1] == once
    assert fit(ledger=tmp_path / "values.ledger")[1] == once
    assert max(fit(symmetric=False)[1].values()) <= 2  # both orders are pairs of their own
    with pytest.raises(InputError, match=naming("asks_again", True, False)):
        Lazy(in_batches, asks_again="no")  # type: ignore[arg-type]


def test_of_many_pairs_some_are_taken_by_their_codes_alone() -> None:
    n = 600
    codes = np.flatnonzero(np.triu(np.ones((n, n), np.bool_)).ravel())
    taken = []
    for order in (np.arange(len(codes)), RNG.permutation(len(codes))):
        pairs = Pairs(PairCodes(np.arange(n), np.arange(n), n, True, False))
        pairs.put(codes[order], codes[order] + 0.5)
        all_codes, _ = pairs.of_two(len(codes))
        assert (all_codes == codes[codes // n != codes % n]).all()
        some, values = pairs.of_two(1000)
        assert (values == some + 0.5).all()
        assert (np.diff(some) > 0).all()
        taken.append(some)
    assert (taken[0] == taken[1]).all()
    assert 850 < len(taken[0]) < 1150
