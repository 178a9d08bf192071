"""Distances of leaves, kept or from one pass over the rows, are those of the leaf table, to the bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.forest import members, scoring
from distforest.forest.forest import Forest
from distforest.forest.members import KeptDistances, Members, leaf_triangles
from tests import samples
from tests.tries import tries


def forest_of_digits(seed: int, weighted: bool = False, offset: float = 0.0) -> Forest:
    """A forest on distances of many digits, whose leaves are large and small."""
    rng = np.random.default_rng(seed)
    grown = samples.forest_from(
        samples.problem_of("distances", n_estimators=5, min_samples_leaf=int(rng.integers(1, 12)))
    )
    z = rng.random((samples.N_ROWS,) * 2, dtype=np.float32) * np.float32(1e3)
    weights = rng.integers(1, 2000, samples.N_ROWS).astype(np.int32) if weighted else None
    in_bag = grown.in_bag if weights is None else grown.in_bag * weights
    return replace(grown, leaf_table=Members(grown.table, grown.leaves, in_bag, np.maximum(z, z.T), offset))


@pytest.mark.kernels
@settings(max_examples=tries(15), deadline=None)
@given(seed=st.integers(0, 999), weighted=st.booleans(), offset=st.sampled_from([0.0, 7.0]))
def test_a_row_has_the_bits_of_the_leaf_table(seed: int, weighted: bool, offset: float) -> None:
    forest = forest_of_digits(seed, weighted, offset)
    assert isinstance(forest.leaf_table, Members)
    expected = np.zeros((samples.N_ROWS,) * 2)
    for tree, nodes in enumerate(forest.leaves.astype(np.int64)):
        expected += forest.leaf_table.between(tree, nodes, nodes)
    rows, found = KeptDistances.allocate(forest.leaf_table, forest.leaves), np.zeros_like(expected)
    assert rows is not None
    for some in (slice(0, 1), slice(1, 9), slice(9, None)):
        assert rows.add(forest.leaves[:, some], found[some])
    assert found.tobytes() == expected.tobytes()
    assert rows.is_known.sum() == sum(len(np.unique(nodes)) for nodes in forest.leaves)


def test_what_is_known_is_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    forest, asked, keep = forest_of_digits(0), list[int](), KeptDistances.keep
    monkeypatch.setattr(KeptDistances, "keep", lambda kept, *leaf: (asked.append(leaf[0]), keep(kept, *leaf)))
    for row in (3, 3, 4, 3):
        scoring.distance(forest, forest.leaves[:, row : row + 1], forest.leaves)
    new = np.flatnonzero(forest.leaves[:, 4] != forest.leaves[:, 3])
    assert asked == [*range(forest.n_trees), *new.tolist()]


def test_what_does_not_fit_is_not_kept_and_answers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, without = forest_of_digits(1), forest_of_digits(1)
    monkeypatch.setattr(members, "KEPT_NUMBERS", 0)
    assert without.kept_distances is None
    monkeypatch.undo()
    answers = [scoring.kneighbors(one, one.leaves[:, :3], one.leaves, 7, False) for one in (kept, without)]
    assert [part.tobytes() for part in answers[0]] == [part.tobytes() for part in answers[1]]
    assert kept.kept_distances is not None
    assert kept.kept_distances.is_known.any()


def test_rows_that_stay_in_a_node_with_children_have_nothing_kept() -> None:
    rows, total = forest_of_digits(0).kept_distances, np.zeros((1, samples.N_ROWS))
    assert rows is not None
    assert not rows.add(np.zeros((5, 1), np.int32), total)
    assert not total.any()


@pytest.mark.kernels
@pytest.mark.slow
@settings(max_examples=tries(15), deadline=None)
@given(
    seed=st.integers(0, 999), block_rows=st.integers(1, 50), weighted=st.booleans(), offset=st.sampled_from([0.0, 7])
)
def test_triangles_are_those_of_the_leaf_table(seed: int, block_rows: int, weighted: bool, offset: float) -> None:
    rng = np.random.default_rng(seed)
    forest = samples.forest_from(samples.problem_of("distances"))
    z = rng.random((samples.N_ROWS,) * 2, dtype=np.float32) * np.float32(1e3)
    z = np.maximum(z, z.T)
    weights = rng.integers(1, 2000, samples.N_ROWS).astype(np.int32) if weighted else None
    in_bag = forest.in_bag if weights is None else forest.in_bag * weights
    members = Members(forest.table, forest.leaves, in_bag, z, offset)
    expected = []
    for tree in range(forest.n_trees):
        nodes = np.flatnonzero(forest.table.is_leaf[slice(*forest.table.tree_start[tree : tree + 2])])
        expected.append(members.between(tree, nodes, nodes)[np.tril_indices(len(nodes))])
    np.testing.assert_array_equal(leaf_triangles(members, block_rows), np.concatenate(expected))
