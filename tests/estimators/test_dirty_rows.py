"""RFD and TreeRank on rows that are far off, sentinels and long tails: bins tell pairs apart nearly as values do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from distforest import RFD, TreeRank

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(400, 3))
Y = (Z[:, 0] > 0).astype(int) + (Z[:, 1] > 0)
N_LEARNED = 200
LEFT, RIGHT = np.triu_indices(len(Z) - N_LEARNED, 1) + np.array(N_LEARNED)
SOME = RNG.random(Z.shape) < 0.01


def with_first(X: np.ndarray, value: float) -> np.ndarray:
    """One row that is learned from is far off."""
    found = X.copy()
    found[0] = value
    return found


DATA: dict[str, np.ndarray] = {
    "clean": Z,
    "one far row": with_first(Z, 1e4),
    "one row at the end of float32": with_first(Z, 1e38),
    "sentinels": np.where(SOME, -9999.0, Z),
    "sentinels and one far row": with_first(np.where(SOME, -9999.0, Z), 1e6),
    "long tails": np.exp(4.0 * Z),
    "subnormal and huge columns": Z * np.array([1e-40, 1.0, 1e37]),
}

Scorer = Callable[[np.ndarray, int | None], np.ndarray]


def by_rfd(X: np.ndarray, max_bins: int | None) -> np.ndarray:
    forest = RFD(30, n_constraints=400, max_bins=max_bins, random_state=0).fit(X[:N_LEARNED], Y[:N_LEARNED])
    return -forest.pair_distance(X[LEFT], X[RIGHT])


def by_ranks(X: np.ndarray, max_bins: int | None, region: str) -> np.ndarray:
    forest = TreeRank(4, n_pairs=4000, region=region, max_bins=max_bins, random_state=0)
    scores: np.ndarray = forest.fit(X[:N_LEARNED], Y[:N_LEARNED]).pair_score(X[LEFT], X[RIGHT])
    return scores


SCORERS: dict[str, Scorer] = {
    "rfd": by_rfd,
    "diagonal": lambda X, max_bins: by_ranks(X, max_bins, "diagonal"),
    "square": lambda X, max_bins: by_ranks(X, max_bins, "square"),
}


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("data", DATA)
def test_bins_tell_pairs_apart_as_values_do(data: str, scorer: str) -> None:
    X, alike = DATA[data], Y[LEFT] == Y[RIGHT]
    binned, exact = (roc_auc_score(alike, SCORERS[scorer](X, max_bins)) for max_bins in (256, None))
    assert exact > 0.65
    assert binned > exact - 0.02
