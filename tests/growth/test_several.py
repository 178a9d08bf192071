"""Trees over several similarities are those of the formulas: which one a candidate draws, and what it then reads."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.growth.draws.object_pairs import Measures
from distforest.growth.methods import METHODS, problem
from distforest.growth.parameters import complete
from distforest.growth.problem import Data, Problem
from distforest.sources.arrays import ArraySource
from distforest.sources.lazy.callbacks import Lazy
from distforest.sources.lazy.lazy_source import LazySource, Objects, ValueSupplier
from distforest.sources.row_kinds import Dense, Several
from distforest.sources.side_by_side import SideBySide
from distforest.sources.truth import Truth, TruthKind
from tests import samples
from tests.growth.test_simforest import tree_arrays
from tests.messages import naming
from tests.reference import naive_simforest as naive
from tests.reference.naive_landmarks import drawn
from tests.tries import tries

pytestmark = pytest.mark.kernels

FEW = settings(max_examples=tries(100), deadline=None)
TREES = np.array([1, 6])


@dataclass(frozen=True)
class Case:
    """The similarities of each measure, its weight and kind, a truth, and what is told to the method."""

    matrices: list[np.ndarray]
    measures: list[tuple[float, str]]
    y: np.ndarray
    truth_kind: TruthKind
    seed: int
    params: dict[str, Any]

    @property
    def matrix(self) -> np.ndarray:
        """All measures side by side."""
        return np.concatenate(self.matrices, axis=1)

    @property
    def rules(self) -> naive.Rules:
        """The same for the slow twin."""
        own = {name: self.params[name] for name in ("n_pairs", "n_columns", "min_samples_leaf", "cut", "on_missing")}
        n_landmarks, by_class = self.params["n_landmarks"], self.truth_kind == TruthKind.LABELS
        marks = drawn(self.y, n_landmarks, self.seed, by_class=by_class) if n_landmarks else ()
        pairing, measures = self.params["pairing"] or "fresh", tuple(self.measures)
        return naive.Rules(self.truth_kind, landmarks=marks, pairing=pairing, measures=measures, **own)

    def problem(self, matrix: np.ndarray | SideBySide) -> Problem:
        """The product's."""
        n = len(self.y)
        rows = Several(tuple(Dense(n, kind) for _, kind in self.measures), tuple(w for w, _ in self.measures))
        is_labels = self.truth_kind == TruthKind.LABELS
        truth = self.y.astype(np.int32) if is_labels else self.y[:, None].astype(float)
        data = Data(rows, matrix, Truth(self.truth_kind, truth, [0, 1, 2] if is_labels else None))
        given = {"n_estimators": 2, "bootstrap": True, **self.params}
        return problem(METHODS["simforest"], data, complete(METHODS["simforest"].parameters, given), self.seed)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    n, seed = draw(st.integers(2, 14)), draw(st.integers(0, 2**40))
    rng = np.random.default_rng(seed)
    measures = draw(
        st.lists(
            st.tuples(st.integers(0, 3).map(float), st.sampled_from(["similarity", "distance"])), min_size=2, max_size=4
        ).filter(lambda own: any(weight for weight, _ in own))
    )
    matrices = []
    for _, kind in measures:
        S = rng.normal(size=(n, n)).round(draw(st.integers(0, 2)))
        S = np.tril(S) + np.tril(S, -1).T
        if kind == "distance":
            np.fill_diagonal(S, 0.0)
            S = -S * S / 2.0
        S[rng.random((n, n)) < draw(st.sampled_from([0.0, 0.2]))] = np.nan
        matrices.append(S)
    params = {
        "n_pairs": draw(st.integers(1, 4)),
        "n_columns": draw(st.integers(1, 3)),
        "n_landmarks": None if n < 3 else draw(st.one_of(st.none(), st.integers(3, n))),
        "min_samples_leaf": draw(st.integers(1, 3)),
        "cut": draw(st.sampled_from(["best", "zero"])),
        "on_missing": draw(st.sampled_from(["mean", "stop"])),
    }
    params["pairing"] = draw(st.sampled_from(["fresh", None] if params["n_landmarks"] else ["kept", "fresh", None]))
    truth_kind = draw(st.sampled_from([TruthKind.LABELS, TruthKind.TARGETS]))
    return Case(matrices, measures, rng.integers(0, 3, n), truth_kind, seed, params)


@pytest.mark.slow
@FEW
@given(cases())
def test_trees_are_those_of_the_formulas(case: Case) -> None:
    weights = case.problem(case.matrix).sampling.weights(case.seed, TREES)
    sources = SideBySide(tuple(ArraySource.from_values(matrix) for matrix in case.matrices))
    for matrix in (case.matrix,) if case.params["on_missing"] == "mean" else (case.matrix, sources):
        table, leaves = case.problem(matrix).growth.grow(TREES, weights)
        for tree in range(len(TREES)):
            nodes = naive.grow_tree(case.matrix, case.y, weights[tree], case.seed, int(TREES[tree]), case.rules)
            expected = naive.as_table(nodes, len(case.y))
            for name, found in tree_arrays(table, tree).items():
                if name in ("gain", "weights"):
                    np.testing.assert_allclose(found, expected[name], rtol=1e-12, err_msg=name)
                else:
                    np.testing.assert_array_equal(found, expected[name], err_msg=name)
            np.testing.assert_array_equal(leaves[tree], expected["leaves"])
        if case.params["cut"] == "zero":
            assert not table.threshold.any()
        assert (np.diff(table.columns // len(case.y))[:-1:2] == 0).all() or case.params["n_columns"] > 1


@pytest.mark.slow
@FEW
@given(cases())
def test_each_function_is_asked_for_the_pairs_that_the_formulas_read(case: Case) -> None:
    n = len(case.y)
    whole = [np.where(np.tri(n, dtype=bool), matrix, matrix.T) for matrix in case.matrices]
    kinds = ["similarity"] * len(whole)  # a function of distances is never asked for the diagonal
    measures = [(w, k) for (w, _), k in zip(case.measures, kinds, strict=True)]
    case = replace(case, matrices=whole, measures=measures, params={**case.params, "on_missing": "stop"})
    asked = [Counter[tuple[int, int]]() for _ in whole]

    def source_of(number: int) -> LazySource:
        def similarity(left: np.ndarray, right: np.ndarray) -> np.ndarray:
            asked[number].update(zip(left.tolist(), right.tolist(), strict=True))
            return whole[number][left, right]

        lazy = Lazy(similarity)
        return LazySource(lazy, Objects.from_columns(np.arange(n)), ValueSupplier.here(lazy))

    bound = case.problem(SideBySide(tuple(source_of(number) for number in range(len(whole)))))
    weights = bound.sampling.weights(case.seed, TREES)
    bound.growth.grow(TREES, weights)
    read = set()
    for tree, own in zip(TREES.tolist(), weights, strict=True):
        sample = naive.Sample(case.matrix, case.y, own, case.rules, order=naive.stream(case.seed, tree, -2))
        naive._grown(sample, case.seed, tree)
        read |= sample.asked
    expected: list[set[tuple[int, int]]] = [set() for _ in whole]
    for row, column in read:
        measure, other = divmod(column, n)
        expected[measure].add((min(row, other), max(row, other)))
    assert asked == [dict.fromkeys(own, 1) for own in expected]


@given(st.integers(0, 2**40), st.integers(1, 4), st.integers(0, 3))
def test_a_measure_is_that_of_the_candidate_of_its_node_alone(seed: int, n_measures: int, attempt: int) -> None:
    measures = Measures.from_weights(7, np.ones(n_measures), np.zeros(n_measures, bool))
    chosen = measures.drawn(samples.keys_of(seed, [0, 1, 2], [0, 4, 9]), attempt, 5)
    columns = chosen.columns(np.arange(15), np.full(15, 3, np.int32))
    assert set(columns.tolist()) <= {7 * m + 3 for m in range(n_measures)}
    again = measures.drawn(samples.keys_of(seed, [2], [9]), attempt, 5)
    assert (
        again.columns(np.arange(5), np.full(5, 3, np.int32)).tolist() == columns[10:].tolist()
    )  # of its own node alone


def test_measures_are_drawn_in_proportion_to_their_weights() -> None:
    n_nodes, weights = 500 if numba.config.DISABLE_JIT else 5000, np.array([1.0, 0.0, 3.0, 2.0, 0.0])
    keys = samples.keys_of(7, [0] * n_nodes, list(range(n_nodes)))
    drawn_by = Measures.from_weights(1, weights, np.zeros(5, bool)).drawn(keys, 0, 4)
    assert drawn_by.chosen is not None
    found = np.bincount(drawn_by.chosen, minlength=5)
    assert found[[1, 4]].tolist() == [0, 0]
    some = weights > 0
    assert samples.chi_square(found[some], weights[some] / weights.sum() * 4 * n_nodes) < 5


@pytest.mark.parametrize("width", [1, 3])
def test_objects_that_one_measure_alone_parts_are_parted_by_it(width: int) -> None:
    y = np.repeat([0.0, 1.0], 10)
    told = np.where(y[:, None] == y, 0.0, 1.0)
    noise = samples.similarities(20, 3, 0.0)
    case = Case(
        [noise, -told * told / 2.0, noise.T + noise],
        [(1.0, "similarity"), (1.0, "distance"), (1.0, "similarity")],
        y,
        TruthKind.LABELS,
        0,
        {"n_pairs": 16, "cut": "zero"},
    )
    table, _ = case.problem(case.matrix).growth.grow(np.arange(width), np.ones((width, 20), np.int32))
    root = table.columns[table.offset[table.tree_start[:-1]]]
    assert (root // 20 == 1).all()
    assert table.tree_size.tolist() == [3] * width


def test_measures_of_other_objects_are_refused() -> None:
    with pytest.raises(InputError, match=naming("(2, 2)", "(3, 3)")):
        SideBySide((ArraySource.from_values(np.eye(2)), ArraySource.from_values(np.eye(3))))
