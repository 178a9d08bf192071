"""Small matrices, classes and rules that the tests of the slow similarity forest share."""

from __future__ import annotations

import math

import numpy as np

from tests.reference import naive
from tests.reference.naive_simforest import Node, Rules, Sample

NAN = math.nan
LINE = np.array([1.0, 2.0, 3.0, 4.0])
S_LINE = np.outer(LINE, LINE)
CLASSES = [0, 0, 1, 1]
ONES = [1, 1, 1, 1]
PAPER = Rules()
TARGETS = Rules(truth_kind="targets")


def sample_of(M=S_LINE, y=CLASSES, w=ONES, rules=PAPER) -> Sample:
    return Sample(M, y, w, rules)


def damaged(n: int, seed: int, missing: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return similarities with gaps, classes and weights of n rows; the diagonal is observed."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    S = np.exp(-((x[:, None] - x) ** 2).sum(axis=2)).astype(np.float32)
    gone = np.triu(rng.random((n, n)) < missing, 1)
    S[gone | gone.T] = NAN
    y = (x[:, 0] > 0).astype(int) + (x[:, 1] > 0.8)
    return S, y, naive.bootstrap_weights(seed, 0, n, n)


def groups_of(tree: list[Node]) -> dict[frozenset[int], float]:
    """Return the gain of each node by its rows: what is left of a tree when sides are not told apart."""
    return {frozenset(node.rows): node.gain for node in tree}
