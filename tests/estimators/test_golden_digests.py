"""Digests that are known: where one of them changes, the growth has changed, and its version has to rise.

Trees of two versions must not meet in one forest; what keeps them apart is `GROWTH`. The forests here are of whole
numbers and methods without exp, log or cos, so that every processor grows them alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from distforest import RFD, SMERF, Embedding, Labels, SimForestClassifier, SimForestRegressor, Targets, TreeRank, URerF
from distforest.growth.methods import GROWTH
from tests.samples import PAPER, PAPER_RULE

N, P = 80, 6
X = (((np.arange(N * P) * 2654435761 % 2**32) >> 16) % 101).reshape(N, P) / 8.0 - 4.0  # Knuth's multiplicative hash
TARGETS = X[:, 0] + np.abs(X[:, 1])
LABELS = (TARGETS > 3.0).astype(int) + (X[:, 2] > 2.0)
DISTANCES = np.abs(X[:, 0, None] - X[:, 0]) + (X[:, 1, None] != X[:, 1])
SIMILARITIES = X @ X.T
HOLES = np.where((np.arange(N)[:, None] * np.arange(N)) % 7 == 1, np.nan, SIMILARITIES)
GAPS = np.where((np.arange(N)[:, None] * np.arange(1, X.shape[1] + 1)) % 5 == 1, np.nan, X)

TWO_MEANS: dict[str, Any] = {"n_estimators": 4, "criterion": "two_means", "min_samples_split": 8, "random_state": 1}
RANKS: dict[str, Any] = {"n_pairs": 600, "leafrank_depth": 5, "max_features": None}
"""Small trees that try all columns."""

FITTED: dict[str, Callable[[], Any]] = {
    "labels": lambda: SMERF(4, random_state=1).fit(X, Labels(LABELS)),
    "bins": lambda: SMERF(4, max_bins=8, random_state=1).fit(X, Labels(LABELS)),
    "sums": lambda: SMERF(4, feature_combinations=2.0, random_state=1).fit(X, Labels(LABELS)),
    "targets": lambda: SMERF(4, max_features="sqrt", random_state=1).fit(X, Targets(TARGETS)),
    "embedding": lambda: SMERF(4, max_features="sqrt", random_state=1).fit(X, Embedding(X[:, :2])),
    "distances": lambda: SMERF(4, max_features="sqrt", random_state=1).fit(X, DISTANCES),
    "all columns": lambda: SMERF(4, random_state=1).fit(X, DISTANCES),
    "kept pairs": lambda: SimForestClassifier(n_estimators=4, random_state=1, **PAPER).fit(SIMILARITIES, LABELS),
    "missing": lambda: SimForestClassifier(n_estimators=4, random_state=1, **PAPER).fit(HOLES, LABELS),
    "means": lambda: SimForestClassifier(n_estimators=4, random_state=1).fit(HOLES, LABELS),
    "landmarks": lambda: SimForestClassifier(n_estimators=4, n_landmarks=9, random_state=1, **PAPER).fit(
        SIMILARITIES, LABELS
    ),
    "fresh pairs": lambda: SimForestClassifier("manhattan", n_estimators=4, pairing="fresh", random_state=1).fit(
        X, LABELS
    ),
    "columns of features": lambda: SimForestClassifier("feature_subsets", n_estimators=4, random_state=1).fit(
        X, LABELS
    ),
    "similarity of targets": lambda: SimForestRegressor("linear", n_estimators=4, pairing="fresh", random_state=1).fit(
        X, TARGETS
    ),
    "screened": lambda: URerF(4, min_samples_split=8, random_state=1).fit(X),
    "two means": lambda: URerF(**{**PAPER_RULE, **TWO_MEANS}).fit(X),
    "pairs": lambda: RFD(4, n_constraints=200, random_state=1).fit(X, LABELS),
    "ranks": lambda: TreeRank(2, **RANKS, random_state=1).fit(X, LABELS),
    "squares": lambda: TreeRank(2, **RANKS, region="square", random_state=1).fit(X, LABELS),
    "pairs that lack values": lambda: RFD(4, n_constraints=200, random_state=1).fit(GAPS, LABELS),
    "ranks of such": lambda: TreeRank(2, **RANKS, random_state=1).fit(GAPS, LABELS),
    "squares of such": lambda: TreeRank(2, **RANKS, region="square", random_state=1).fit(GAPS, LABELS),
    "weighted points": lambda: TreeRank(2, **RANKS, random_state=1).fit(X, LABELS, 0.25 + np.arange(N) % 4),
}

GROWN_BY = 5
"""The version of the growth that has grown these."""

DIGESTS = {
    "labels": "c1eb6c82bf9fd0df",
    "bins": "ea2d3943ebdfc72a",
    "sums": "dff1ad7ad3a78a64",
    "targets": "7011e1bfbe36ea39",
    "embedding": "9533bb818ab9762e",
    "distances": "abdfbbfa800e7319",
    "all columns": "e6708e1df27b3d9f",
    "kept pairs": "60852172df230fc2",
    "missing": "c97868038ed23a89",
    "means": "3667927824330977",
    "landmarks": "0443bfc3b7185c33",
    "fresh pairs": "aa374bb40057621f",
    "columns of features": "9e026bf4e6325176",
    "similarity of targets": "0e9aebacf12bc300",
    "screened": "cb13652ba0a9e82a",
    "two means": "3b388e42ebdf24f2",
    "pairs": "14e8de24bc19464f",
    "ranks": "dcc295b707a3eb5b",
    "squares": "a4c60f3019192277",
    "pairs that lack values": "cad0ea242e65f9bc",
    "ranks of such": "b2e772222335aadc",
    "squares of such": "cbaf4970701b8f32",
    "weighted points": "8c7b0ed6d2f7b5ec",
}
"""How each digest begins."""


@pytest.mark.parametrize("name", FITTED)
def test_a_digest_is_the_one_that_is_known(name: str) -> None:
    found = FITTED[name]().digest_[:16]
    assert (GROWTH, found) == (GROWN_BY, DIGESTS[name]), "the growth has changed: raise GROWTH, and write its digests"
