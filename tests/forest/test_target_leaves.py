"""Leaf tables of absolute differences, against sums over all pairs in exact numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest import SMERF, Targets
from distforest.errors import ArtifactError
from distforest.forest.target_leaves import NodeTargets, TargetMembers, mean_differences, weighted_medians
from tests.reference import naive_differences
from tests.tries import tries

NUMBERS = st.sampled_from([-7.5, -1.0, 0.0, 0.1, 1.0, 3.0, 1e12])
SIDES = st.lists(st.tuples(NUMBERS, st.integers(1, 4)), min_size=1, max_size=6).map(sorted)


def node_targets(*sides: list[tuple[float, int]]) -> NodeTargets:
    start = np.cumsum([0, *map(len, sides)])
    both = [one for side in sides for one in side]
    return NodeTargets(start, np.array([y for y, _ in both]), np.array([w for _, w in both], np.int32))


@pytest.mark.kernels
@settings(max_examples=tries(60))
@given(SIDES, SIDES)
def test_means_and_medians_are_those_of_all_pairs(one: list[tuple[float, int]], other: list[tuple[float, int]]) -> None:
    nodes, means, medians = node_targets(one, other), np.empty(4), np.empty(2)
    mean_differences(nodes, np.array([0, 1, 0, 1]), np.array([1, 0, 0, 1]), means)
    pairs = [(one, other), (other, one), (one, one), (other, other)]
    expected = [naive_differences.mean_of_pairs(*zip(*a, strict=True), *zip(*b, strict=True)) for a, b in pairs]  # type: ignore[arg-type]
    np.testing.assert_allclose(means, [float(mean) for mean in expected], rtol=1e-12)
    assert means[0] == means[1]
    weighted_medians(nodes, medians)
    wanted = [float(naive_differences.median(*zip(*side, strict=True))) for side in (one, other)]  # type: ignore[arg-type]
    np.testing.assert_allclose(medians, wanted, rtol=1e-15)


def fitted() -> SMERF:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    return SMERF(2, min_samples_leaf=4, random_state=0).fit(X, Targets(X[:, 0], metric="absolute"))


def test_inner_nodes_are_known() -> None:
    forest = fitted().forest_
    table = forest.leaf_table
    assert isinstance(table, TargetMembers)
    rows = np.repeat(np.arange(30), forest.in_bag[0])
    drawn = table.targets[rows, 0]
    of_root = np.abs(drawn[:, None] - drawn).mean()
    assert table.pairs(0, np.array([0]), np.array([0])) == pytest.approx(of_root)
    assert table.outputs(0, np.array([0])) == pytest.approx(np.median(drawn))
    leaf = np.flatnonzero(forest.table.is_leaf[: forest.table.tree_size[0]])[0]
    inside = table.targets[np.repeat(np.arange(30), forest.in_bag[0] * (forest.leaves[0] == leaf)), 0]  # type: ignore[index]
    assert table.outputs(0, np.array([leaf])) == pytest.approx(np.median(inside))
    assert table.between(0, np.array([leaf, 0]), np.array([0]))[0, 0] == pytest.approx(
        np.abs(inside[:, None] - drawn).mean()
    )


def test_damaged_targets_are_refused() -> None:
    table = fitted().forest_.leaf_table
    assert isinstance(table, TargetMembers)
    table.check()
    for damage in (table.targets[:5], np.where(table.targets > 0, np.nan, table.targets)):
        with pytest.raises(ArtifactError, match="taught_targets"):
            replace(table, targets=damage).check()
    with pytest.raises(ArtifactError, match=r"leaves\[\d\]: leaf \d"):
        replace(table, leaves=np.zeros_like(table.leaves)).check()
