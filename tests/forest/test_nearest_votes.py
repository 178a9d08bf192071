"""The nearest vote against plain loops; what is refused of a forest in which training objects vote."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import ArtifactError, InputError
from distforest.forest import nearest_votes, scoring
from distforest.forest.forest import Forest
from distforest.forest.leaf_index import LeafIndex
from distforest.forest.nearest_votes import nearest_members
from distforest.forest.sealed.artifact import open_forest
from distforest.sources.arrays import ArraySource
from tests import samples
from tests.forest.sealed.damage import SealedOf, manifest_of, refusal, reseal, rewrite, with_value
from tests.messages import naming
from tests.reference import naive_landmarks
from tests.tries import tries

pytestmark = pytest.mark.kernels

CASES = sorted(samples.VOTING_CASES)
FREE = settings(max_examples=tries(100))
ForestOf = Callable[[str], Forest]


@pytest.mark.slow
@FREE
@given(st.integers(1, 12), st.integers(1, 9), st.integers(1, 4), st.integers(0, 999), st.integers(1, 40))
def test_voters_are_those_of_plain_loops(n_training: int, n: int, n_trees: int, seed: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    training = rng.integers(0, 3, (n_trees, n_training)).astype(np.int32)
    nodes = rng.integers(0, 5, (n_trees, n)).astype(np.int32)  # in some of which no training row lies
    S = rng.integers(0, 3, (n + 2, n_training)).astype(np.float32)
    S[rng.random(S.shape) < 0.3] = np.nan
    rows = rng.permutation(n + 2)[:n].astype(np.int32)
    expected = [
        [naive_landmarks.voter(S[rows[q]].tolist(), nodes[tree, q], training[tree].tolist()) for q in range(n)]
        for tree in range(n_trees)
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(nearest_votes, "COMPARED_PAIRS", most)
        found = nearest_members(nodes, training, ArraySource.from_values(S), rows)
    assert found.tolist() == expected
    assert nearest_members(nodes, LeafIndex.from_nodes(training), ArraySource.from_values(S), rows).tolist() == expected


class Noted:
    """Similarities that note which of them are asked for."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.shape, self.asked = values, values.shape, []

    def entries(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The values at some places."""
        self.asked += list(zip(rows.tolist(), columns.tolist(), strict=True))
        return self.values[rows, columns].astype(np.float64)


def test_pairs_of_a_row_and_those_in_its_leaves_are_asked_for_once() -> None:
    training = np.array([[1, 1, 2, 2], [1, 2, 2, 1]], np.int32)
    nodes = np.array([[1, 2, 3], [1, 1, 3]], np.int32)
    noted: Any = Noted(np.arange(12.0).reshape(3, 4))
    found = nearest_members(nodes, training, noted, np.arange(3, dtype=np.int32))
    assert found.tolist() == [[1, 3, -1], [3, 3, -1]]
    assert sorted(noted.asked) == [(0, 0), (0, 1), (0, 3), (1, 0), (1, 2), (1, 3)]


@pytest.mark.parametrize("case", CASES)
def test_predictions_are_means_of_what_voters_say(case: str, forest_of: ForestOf) -> None:
    forest, queries = forest_of(case), samples.queries(case, 12)
    queries[3] = np.nan  # which no object votes for
    truth = samples.data_of(case).truth.values
    object_votes = truth if case.endswith("targets") else np.eye(3)[truth]
    nodes = scoring.apply(forest, forest.source(queries))
    table = forest.table
    says = [forest.leaf_table.outputs(tree, np.arange(table.tree_size[tree])) for tree in range(forest.n_trees)]  # type: ignore[union-attr]
    expected = naive_landmarks.said(queries, nodes.tolist(), forest.training_nodes.tolist(), object_votes, says)
    found = scoring.predict_rows(forest, forest.source(queries))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    shares = replace(forest, meaning=replace(forest.meaning, leaf=replace(forest.meaning.leaf, nearest=False)))
    kept = scoring.predict_rows(shares, shares.source(queries))
    np.testing.assert_array_equal(found[3], kept[3])
    assert (found != kept).any()


@pytest.mark.parametrize("case", CASES)
def test_nodes_and_training_rows_alone_say_nothing(case: str, forest_of: ForestOf) -> None:
    forest = forest_of(case)
    with pytest.raises(InputError, match="nodes"):
        scoring.predict(forest, forest.training_nodes)
    with pytest.raises(InputError, match="out of bag"):
        scoring.out_of_bag(forest)


def test_an_own_class_or_target_is_sealed_for_every_object(sealed_of: SealedOf) -> None:
    assert open_forest(str(sealed_of("nearest"))).codes.tolist() == samples.data_of("nearest").truth.values.tolist()  # type: ignore[union-attr]
    targets = open_forest(str(sealed_of("nearest_targets"))).targets
    np.testing.assert_array_equal(targets, samples.data_of("nearest_targets").truth.values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("case", "arrays", "named"),
    [
        ("nearest", {"codes": np.full(36, 3, np.int32)}, ("codes:", "classes")),
        ("nearest", {"codes": np.full(36, -1, np.int32)}, ("codes:", "classes")),
        ("nearest", {"codes": np.zeros(35, np.int32)}, ("codes:", "int32", "(36,)", "(35,)")),
        ("nearest", {"targets": np.zeros((36, 1))}, ("targets:", "leaf.voting 'nearest'")),
        ("nearest_targets", {"targets": np.full((36, 1), np.nan)}, ("targets:", "finite")),
        ("nearest_targets", {"targets": np.zeros((36, 2))}, ("targets:", "float64", "(36, 1)", "(36, 2)")),
        ("labels", {"codes": np.zeros(36, np.int32)}, ("codes:", "leaf.voting 'nearest'")),
    ],
)
def test_voices_that_are_refused(
    case: str, arrays: dict[str, np.ndarray], named: tuple[str, ...], damaged: SealedOf
) -> None:
    path = damaged(case)
    rewrite(path, arrays)
    with pytest.raises(ArtifactError, match=naming(*named)):
        open_forest(str(path))


@pytest.mark.parametrize(
    ("case", "place", "value", "named"),
    [
        ("nearest", ("meaning", "leaf", "voting"), "share", ("manifest.json: leaf.voting", "'nearest'")),
        ("nearest", ("meaning", "leaf", "voting"), ..., ("codes: ", "leaf.voting 'nearest'")),
        ("nearest", ("arrays", "codes"), ..., ("codes: ", "missing")),
        ("dense", ("meaning", "leaf", "voting"), "nearest", ("codes: ", "missing")),
        ("labels", ("meaning", "leaf", "voting"), "nearest", ("manifest.json: leaf.voting", "'nearest'")),
        ("members", ("meaning", "leaf", "voting"), "nearest", ("manifest.json: leaf.voting", "'nearest'")),
        ("nearest", ("meaning", "rows", "n_columns"), 37, ("leaves: ", "37 training rows", 36)),
    ],
)
def test_votes_without_what_they_need_are_refused(
    case: str, place: tuple[str, ...], value: Any, named: tuple[object, ...], damaged: SealedOf
) -> None:
    path = damaged(case)
    reseal(path, with_value(manifest_of(path), place, value))
    told = refusal(path).removeprefix(f"{path}: ")
    assert told.startswith(str(named[0]))
    assert re.match(naming(*named), told)
