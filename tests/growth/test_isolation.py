"""Pairs, cuts and trees at random against the reference, and the path lengths that follow from them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest.forest.forest import NODE_ARRAYS
from distforest.forest.node_table import NodeTable
from distforest.forest.path_lengths import PathLengths, complete_rows, usual_length
from distforest.growth.cuts.random_cuts import FIRST_SHARE
from distforest.growth.isolation import RandomCut, TwoAtRandom
from distforest.growth.methods import METHODS, problem
from distforest.growth.parameters import complete
from distforest.growth.problem import Data, Problem
from distforest.sources.arrays import ArraySource
from distforest.sources.row_kinds import Dense
from distforest.sources.truth import Truth, TruthKind
from tests import samples
from tests.growth.cuts.test_criteria import FREE
from tests.reference import naive, naive_isolation, naive_simforest

pytestmark = pytest.mark.kernels

RULES = naive_simforest.Rules(truth_kind="isolation")
N_TREES = 3


def problem_of(n_rows: int, missing: float, seed: int = 5, **params: Any) -> Problem:
    rows = Dense(n_rows)
    data = Data(rows, samples.similarities(n_rows, seed, missing), Truth(TruthKind.NOTHING, np.empty((n_rows, 0))))
    return problem(METHODS["isolation"], data, complete(METHODS["isolation"].parameters, params), seed)


def trees_of(bound: Problem) -> list[list[naive_simforest.Node]]:
    w = bound.sampling.weights(bound.growth.seed, np.arange(N_TREES))
    S, n, seed = bound.data.matrix, bound.data.n_rows, bound.growth.seed
    return [naive_simforest.grow_tree(S, np.zeros(n), w[tree], seed, tree, RULES) for tree in range(N_TREES)]


@FREE
@given(st.integers(0, 2**40), st.integers(2, 12), st.sampled_from([0.0, 0.3]), st.integers(0, 3))
def test_pairs_are_those_of_the_reference(seed: int, n_rows: int, missing: float, attempt: int) -> None:
    S = samples.similarities(n_rows, seed % 1000, missing)
    rows = [list(range(n_rows)), list(range(n_rows))[::-2] or [0]]
    keys = samples.keys_of(seed, [0, 1], [0, 1])
    drawn = TwoAtRandom(ArraySource.from_values(S))(
        samples.level(rows, [[1] * len(own) for own in rows]), keys, attempt
    )
    sample = naive_simforest.Sample(S, np.zeros(n_rows), np.ones(n_rows), RULES)
    for node, (own, key) in enumerate(zip(rows, keys.tolist(), strict=True)):
        entries = slice(drawn.offset[node], drawn.offset[node + 1])
        found = naive_simforest.drawn_candidate(sample, own, key, attempt, 0) if len(own) > 1 else None
        expected = found or naive_simforest.NO_PROJECTION
        assert tuple(drawn.columns[entries].tolist()) == expected.columns
        assert tuple(drawn.weights[entries].tolist()) == expected.weights


@FREE
@given(st.integers(0, 2**40), st.lists(st.integers(1, 4), min_size=2, max_size=8), st.integers(0, 3))
def test_pairs_by_weight_are_those_of_repeated_rows(seed: int, weights: list[int], attempt: int) -> None:
    """And in a further attempt those of rows without weights, but of other numbers."""
    n, keys = len(weights), samples.keys_of(seed, [0], [0])
    points = np.random.default_rng(seed % 1000).normal(size=(n, 3))
    S, repeats = points @ points.T, np.repeat(np.arange(n), weights)
    weighted = TwoAtRandom(ArraySource.from_values(S), weighted=True)
    drawn = weighted(samples.level([list(range(n))], [weights]), keys, attempt)
    repeated = TwoAtRandom(ArraySource.from_values(S[repeats][:, repeats]))
    ones = samples.level([list(range(len(repeats)))], [[1] * len(repeats)])
    assert drawn.columns.tolist() == repeats[repeated(ones, keys, attempt).columns].tolist()
    assert weighted.attempts == repeated.attempts + 1
    last = weighted(samples.level([list(range(n))], [weights]), keys, repeated.attempts)
    assert len(set(last.columns.tolist())) == 2


VALUE = st.one_of(st.sampled_from([0.0, 1.0, float(np.nextafter(1.0, 2.0)), math.nan]), st.floats(-9, 9))


@FREE
@given(
    st.lists(st.lists(VALUE, min_size=1, max_size=5), min_size=1, max_size=3), st.integers(0, 2**40), st.integers(0, 3)
)
def test_random_cuts_are_those_of_the_reference(values: list[list[float]], seed: int, attempt: int) -> None:
    keys = samples.keys_of(seed, [0] * len(values), list(range(len(values))))
    shares = [naive.unit(key, FIRST_SHARE + attempt) for key in keys.tolist()]
    frontier = samples.level([list(range(len(own))) for own in values], [[1] * len(own) for own in values])
    flat = np.array([[value for own in values for value in own]])
    found = RandomCut().attempted(keys, attempt).cut(frontier, flat, 1)
    for node, (own, share) in enumerate(zip(values, shares, strict=True)):
        expected = naive_simforest.random_cut(dict(enumerate(own)), share)
        assert found.candidate[node] == (-1 if expected is None else 0)
        assert found.threshold[node] == (0.0 if expected is None else expected.threshold)
        if expected is not None:
            assert np.nanmin(own) <= found.threshold[node] < np.nanmax(own)
    assert not found.gain.any()


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize(("n_rows", "max_samples"), [(40, 256), (40, 17), (9, 0.5), (2, None), (1, 256)])
def test_trees_are_those_of_the_reference(n_rows: int, max_samples: float | None, missing: float) -> None:
    bound = problem_of(n_rows, missing, max_samples=max_samples, n_estimators=N_TREES)
    arrays = bound.grow(np.arange(N_TREES))
    assert set(arrays) == {*NODE_ARRAYS, "leaves", "in_bag"}
    tables = [naive_simforest.as_table(tree, n_rows) for tree in trees_of(bound)]
    for name in ("left", "right", "threshold", "width", "columns", "weights", "gain", "n_rows"):
        assert arrays[name].tolist() == np.concatenate([table[name] for table in tables]).tolist()
    in_bag = arrays["in_bag"] > 0
    expected = np.stack([table["leaves"] for table in tables])
    assert arrays["leaves"][in_bag].tolist() == expected[in_bag].tolist()


def test_trees_one_by_one_are_the_trees_of_a_batch() -> None:
    grow = problem_of(40, 0.1, max_samples=20).grow
    together, alone = grow(np.arange(4)), [grow(np.array([tree])) for tree in range(4)]
    for name, array in together.items():
        assert np.concatenate([own[name] for own in alone]).tobytes() == array.tobytes()


def test_lengths_are_depths_and_the_usual_lengths_below() -> None:
    bound = problem_of(40, 0.2, max_samples=25, n_estimators=N_TREES)
    arrays = bound.grow(np.arange(N_TREES))
    lengths = PathLengths(NodeTable(**{name: arrays[name] for name in NODE_ARRAYS}))
    for tree, nodes in enumerate(trees_of(bound)):
        rows = naive_isolation.completed_rows(nodes)
        expected = [
            (node.depth + naive_isolation.usual_path(m)) / naive_isolation.usual_path(25)
            for node, m in zip(nodes, rows, strict=True)
        ]
        np.testing.assert_allclose(lengths.shares(tree, np.arange(len(nodes))), expected, rtol=1e-13)
        assert max(node.depth for node in nodes) <= 5  # ceil(log2(25))
    numbers = np.arange(0.0, 50.0, 0.25)
    assert usual_length(numbers).tolist() == pytest.approx([naive_isolation.usual_path(m) for m in numbers])


def test_of_a_complete_matrix_a_node_stands_for_its_own_rows() -> None:
    arrays = problem_of(40, 0.0, max_samples=25, n_estimators=N_TREES).grow(np.arange(N_TREES))
    table = NodeTable(**{name: arrays[name] for name in NODE_ARRAYS})
    rows = table.n_rows.astype(float)
    complete_rows(table.tree_start, table.left, table.right, rows)
    assert rows.tolist() == table.n_rows.tolist()
