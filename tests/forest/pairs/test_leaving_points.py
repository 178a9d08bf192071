"""Neighbours of forests that were fitted as users fit them, in threads: most training points leave early."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from distforest import RFD, TreeRank
from distforest.forest.pairs import pair_neighbors, pair_scores
from distforest.forest.pairs.pair_walks import Walks

P = 3


def test_most_points_leave_before_most_trees_have_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two groups far apart: those of the other group leave, and their pairs are walked no further."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (60, P)), rng.normal(9, 1, (60, P))]).astype(np.float32)
    forest = RFD(40, random_state=0).fit(X, np.repeat([0, 1], 60)).forest_
    steps, add = 0, Walks.add

    def counted(walks: Walks, parts: Any, block: Any, trees: slice, sums: Any) -> None:
        nonlocal steps
        steps += len(sums) * (trees.stop - trees.start)
        add(walks, parts, block, trees, sums)

    monkeypatch.setattr(Walks, "add", counted)
    pair_neighbors.kneighbors(forest, X[:4], 3, None)
    assert steps < 0.8 * 4 * 120 * 40


@pytest.mark.parametrize("aggregation", ["mean", "median"])
def test_a_ranking_forest_has_the_nearest_of_all(aggregation: str) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(80, P)).astype(np.float32), np.arange(80) % 4
    X[:, 0] += y
    forest = TreeRank(12, aggregation=aggregation, random_state=0).fit(X, y).forest_
    assert pair_neighbors.can_leave(forest) == (aggregation == "mean")
    apart = pair_scores.distance(forest, X[:9], X)
    order = np.argsort(apart, axis=1, kind="stable")[:, :4]
    distances, indices = pair_neighbors.kneighbors(forest, X[:9], 4, None)
    assert indices.tolist() == order.tolist()
    assert distances.tobytes() == np.take_along_axis(apart, order, axis=1).tobytes()
