"""Trees over similarities are those of the formulas, cut by cut; no row ends where it did not grow."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.forest.node_table import NodeTable, route, route_levels
from distforest.growth.methods import METHODS, problem
from distforest.growth.parameters import complete
from distforest.growth.problem import Data, Problem
from distforest.sources.arrays import ArraySource
from distforest.sources.filled import filled
from distforest.sources.lazy.callbacks import Lazy
from distforest.sources.lazy.lazy_source import LazySource, Objects, ValueSupplier
from distforest.sources.row_kinds import Dense, Features
from distforest.sources.source import Source
from distforest.sources.truth import Truth, TruthKind
from tests.reference import naive_simforest as naive
from tests.reference.naive_landmarks import drawn
from tests.tries import tries

pytestmark = pytest.mark.kernels

OTHER_RULES = ("stop", "larger", "surrogate")
RULES = ("mean", *OTHER_RULES)


@dataclass(frozen=True)
class Case:
    """Similarities with gaps (or features), a truth, and what is told to the method."""

    matrix: np.ndarray
    y: np.ndarray
    truth_kind: TruthKind
    seed: int
    params: dict[str, Any]

    @property
    def rules(self) -> naive.Rules:
        """The same for the slow twin."""
        own = {name: self.params[name] for name in ("n_pairs", "n_columns", "on_missing", "min_samples_leaf")}
        n_landmarks, by_class = self.params["n_landmarks"], self.truth_kind == TruthKind.LABELS
        marks = drawn(self.y, n_landmarks, self.seed, by_class=by_class) if n_landmarks else ()
        subsets = self.matrix.shape[1] < len(self.matrix)
        is_fresh = subsets or n_landmarks or self.params["n_columns"] > 1
        pairing = self.params["pairing"] or ("fresh" if is_fresh else "kept")
        return naive.Rules(self.truth_kind, feature_subsets=subsets, landmarks=marks, pairing=pairing, **own)

    def problem(self) -> Problem:
        """The product's."""
        is_square = self.matrix.shape[0] == self.matrix.shape[1]
        rows = (Dense if is_square else Features)(self.matrix.shape[1])
        classes = [0, 1, 2] if self.truth_kind == TruthKind.LABELS else None
        truth = self.y.astype(np.int32) if self.truth_kind == TruthKind.LABELS else self.y[:, None].astype(float)
        data = Data(rows, self.matrix, Truth(self.truth_kind, truth, classes))
        given = {"n_estimators": 2, "bootstrap": True, **self.params}
        return problem(METHODS["simforest"], data, complete(METHODS["simforest"].parameters, given), self.seed)

    def read(self, queries: np.ndarray) -> Source:
        """Queries as the trees read them."""
        source = ArraySource.from_values(queries)
        return filled(source, len(self.y)) if self.params["on_missing"] == "mean" else source


@st.composite
def cases(draw: st.DrawFn, features: bool = True, means: bool = True) -> Case:
    n, seed = draw(st.integers(2, 18)), draw(st.integers(0, 2**40))
    rng = np.random.default_rng(seed)
    truth_kind, by_features = (
        draw(st.sampled_from([TruthKind.LABELS, TruthKind.TARGETS])),
        features and draw(st.booleans()),
    )
    if by_features:
        matrix = rng.integers(0, 4, (n, draw(st.integers(1, 6)))) / 2.0
        if matrix.shape[1] >= n:
            matrix = matrix[:, : n - 1]
        matrix[rng.random(matrix.shape) < draw(st.sampled_from([0.0, 0.1, 0.3]))] = np.nan
    else:
        matrix = rng.normal(size=(n, n)).round(draw(st.integers(0, 2)))
        matrix[rng.random((n, n)) < draw(st.sampled_from([0.0, 0.1, 0.3]))] = np.nan
    matrix_reads = means and not by_features
    params = {
        "n_pairs": draw(st.integers(1, 4)),
        "n_columns": 1 if by_features else draw(st.integers(1, 4)),
        "n_landmarks": None if by_features or n < 3 else draw(st.one_of(st.none(), st.integers(3, n))),
        "on_missing": draw(st.sampled_from(RULES if matrix_reads else OTHER_RULES)),
        "min_samples_leaf": draw(st.integers(1, 3)),
    }
    only_fresh = by_features or params["n_landmarks"] is not None
    params["pairing"] = draw(st.sampled_from(["fresh", None] if only_fresh else ["kept", "fresh", None]))
    return Case(matrix.astype(np.float32), rng.integers(0, 3, n), truth_kind, seed, params)


def tree_arrays(table: NodeTable, tree: int) -> dict[str, np.ndarray]:
    nodes = slice(table.tree_start[tree], table.tree_start[tree + 1])
    entries = slice(table.offset[nodes.start], table.offset[nodes.stop])
    found = {name: getattr(table, name)[nodes] for name in ("left", "right", "threshold", "width", "n_rows", "gain")}
    return {**found, "columns": table.columns[entries], "weights": table.weights[entries]}


@pytest.mark.slow
@settings(max_examples=tries(150))
@given(cases())
def test_trees_are_those_of_the_formulas(case: Case) -> None:
    bound, trees = case.problem(), np.array([1, 6])
    weights = bound.sampling.weights(case.seed, trees)
    table, leaves = bound.growth.grow(trees, weights)
    for tree in range(2):
        nodes = naive.grow_tree(case.matrix, case.y, weights[tree], case.seed, int(trees[tree]), case.rules)
        expected = naive.as_table(nodes, len(case.y))
        for name, found in tree_arrays(table, tree).items():
            if name in ("gain", "weights"):
                np.testing.assert_allclose(found, expected[name], rtol=1e-12, err_msg=name)
            else:
                np.testing.assert_array_equal(found, expected[name], err_msg=name)
        np.testing.assert_array_equal(leaves[tree], expected["leaves"])
        if case.params["on_missing"] == "surrogate":
            assert table.surrogate is not None
            own = table.surrogate[table.tree_start[tree] : table.tree_start[tree + 1]]
            np.testing.assert_array_equal(own, np.stack([expected["surrogate_j"], expected["surrogate_i"]], axis=1))
        else:
            assert (table.surrogate is None) == (case.params["on_missing"] in ("stop", "mean"))


@pytest.mark.slow
@settings(max_examples=tries(80))
@given(cases(features=False, means=False))
def test_growth_asks_for_the_similarities_that_the_formulas_read(case: Case) -> None:
    n, lower = len(case.y), np.tril(case.matrix)
    case = replace(case, matrix=np.where(np.tri(n, dtype=bool), lower, lower.T))
    bound, trees, asked = case.problem(), np.array([1, 6]), Counter[tuple[int, int]]()

    def similarity(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        asked.update(zip(left.tolist(), right.tolist(), strict=True))
        return case.matrix[left, right]

    lazy = Lazy(similarity)
    source = LazySource(lazy, Objects.from_columns(np.arange(n)), ValueSupplier.here(lazy))
    limits = replace(bound.growth.limits, min_samples_split=case.rules.min_samples_split)  # as over lazy similarities
    growth = replace(bound.growth, source=source, draw=replace(bound.growth.draw, source=source), limits=limits)
    weights = bound.sampling.weights(case.seed, trees)
    growth.grow(trees, weights)
    expected = set()
    for tree in range(2):
        expected |= naive.evaluations(case.matrix, case.y, weights[tree], case.seed, int(trees[tree]), case.rules)
    assert asked == dict.fromkeys(expected, 1)


@pytest.mark.slow
@settings(max_examples=tries(150))
@given(cases(), st.integers(0, 2**32))
def test_rows_are_routed_as_the_formulas_say(case: Case, seed: int) -> None:
    bound = case.problem()
    weights = bound.sampling.weights(case.seed, np.arange(2))
    table, leaves = bound.growth.grow(np.arange(2), weights)
    table.check(case.matrix.shape[1])
    queries = case.matrix.copy()
    if queries.shape[1] == len(queries):
        queries[np.random.default_rng(seed).random(queries.shape) < 0.3] = np.nan
    source, rows = case.read(queries), np.arange(len(queries), dtype=np.int32)
    found = route(table, source, rows)
    by_level = np.full_like(found, -1)
    route_levels(table, source, rows, np.ones(found.shape, np.bool_), by_level)
    np.testing.assert_array_equal(found, by_level)
    own = route(table, case.read(case.matrix), rows)
    np.testing.assert_array_equal(own[weights > 0], leaves[weights > 0])
    for tree in range(2):
        nodes = naive.grow_tree(case.matrix, case.y, weights[tree], case.seed, tree, case.rules)
        assert found[tree].tolist() == [naive.route_row(nodes, row, case.rules) for row in queries]


@settings(max_examples=tries(40))
@given(cases())
def test_every_rule_but_stop_takes_each_row_of_which_something_is_known_to_a_leaf(case: Case) -> None:
    bound = case.problem()
    weights = bound.sampling.weights(case.seed, np.arange(2))
    table, leaves = bound.growth.grow(np.arange(2), weights)
    stays = ~table.is_leaf[table.tree_start[:-1, None] + leaves] & (weights > 0)
    if case.params["on_missing"] == "mean":
        stays &= ~np.isnan(case.matrix).all(axis=1)
    assert not stays.any() or case.params["on_missing"] == "stop"


@pytest.mark.parametrize("seed", range(3))
def test_the_cosine_law_cuts_as_squared_distances_do(seed: int) -> None:
    # Double centring takes D to S = -(D^2 - rows' means - columns' means + mean) / 2. In S_kj - S_ki the row's part
    # cancels and the columns' part is the same for all rows: the threshold moves, the cut does not.
    points = np.random.default_rng(seed).normal(size=(40, 3))
    squares = ((points[:, None] - points) ** 2).sum(axis=2)
    centred = -(squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean()) / 2.0
    y = (points[:, 0] + 0.5 * points[:, 1] ** 2 > 0.3).astype(int)
    tables = []
    for matrix in (-squares / 2.0, centred):
        bound = Case(matrix.astype(np.float32), y, "labels", seed, {"n_pairs": 2, "n_columns": 2}).problem()
        tables.append(bound.growth.grow(np.arange(8), bound.sampling.weights(seed, np.arange(8))))
    (plain, ends), (moved, other_ends) = tables
    np.testing.assert_array_equal(ends, other_ends)
    for name in ("left", "columns", "weights", "n_rows"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(moved, name))
    assert (plain.threshold != moved.threshold).any()
    assert len(plain.left) > 30
