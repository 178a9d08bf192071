"""Cuts that try their missing values on either side, against sums from scratch, and against a search without them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest.forest.frontier import LEFT, RIGHT, STAY
from distforest.forest.missing import ALL_OBSERVED
from distforest.growth.cuts.criteria import Gini, Variance
from distforest.growth.cuts.far_values import FarVariance
from distforest.growth.cuts.mean_distance import MeanDistance
from distforest.growth.cuts.two_clusters import TwoClusters
from distforest.growth.cuts.two_means import CandidateCuts
from distforest.growth.cuts.witnesses import Witnesses
from distforest.growth.draws.column_draws import ColumnWeights
from tests import samples
from tests.growth.cuts.test_criteria import (
    FREE,
    NUMBERS,
    SCALARS,
    Search,
    codes_of,
    criteria_of,
    cut,
    line,
    searches,
    symmetric,
)
from tests.reference import naive, naive_missing

if TYPE_CHECKING:
    from collections.abc import Callable

    from distforest.growth.cuts.criteria import Criterion

pytestmark = pytest.mark.kernels

GONE = math.nan
CLUSTERS = [
    TwoClusters("two_means"),
    TwoClusters("two_means", relative=False),
    TwoClusters("fast_bic"),
    TwoClusters("equal_bic", relative=False),
    TwoClusters("mclust_bic"),
    TwoClusters("fast_bic", at_random=True),
]


def assert_placed(criterion: Criterion, search: Search, pairs_of: Callable[[list[int]], naive.Pairs]) -> None:
    """The cuts are those of the reference, and so are the sides of the missing rows."""
    found, begin = cut(criterion, search), 0
    for node, (rows, weights) in enumerate(zip(search.rows, search.weights, strict=True)):
        values = search.values[:, begin : begin + len(rows)]
        placed = naive_missing.every_cut(values, pairs_of(rows), weights, search.min_leaf)
        (candidate, threshold, gain), side = naive_missing.best_of(placed)
        assert (found.candidate[node], found.threshold[node]) == (candidate, threshold)
        assert found.missing[node] == side
        assert max(found.gain[node], 0.0) * criterion.unit == pytest.approx(gain, rel=1e-10)
        begin += len(rows)


@FREE
@given(searches(), st.data())
def test_labels(search: Search, data: st.DataObject) -> None:
    codes = codes_of(search, data)
    assert_placed(Gini(codes, 3, places_missing=True), search, lambda rows: naive.label_pairs(codes[rows]))


@FREE
@given(searches(), st.data(), st.sampled_from([0.5, 1.0]))
def test_vectors(search: Search, data: st.DataObject, factor: float) -> None:
    one = st.lists(SCALARS, min_size=2, max_size=2)
    Y = np.array(data.draw(st.lists(one, min_size=search.n, max_size=search.n)))
    for criterion in (Variance.from_vectors(Y, factor), FarVariance(Y, factor, 1.0)):
        own: Any = replace(criterion, places_missing=True)
        assert_placed(own, search, lambda rows: naive.embedding_pairs(Y[rows], factor))


@FREE
@given(searches(), st.data())
def test_distances(search: Search, data: st.DataObject) -> None:
    z = symmetric(search.n, NUMBERS, data)
    criterion, largest = MeanDistance.from_distances(z, float(z.max()), places_missing=True), float(z.max())

    def pairs_of(rows: list[int]) -> naive.Pairs:
        block = z[np.ix_(rows, rows)]
        return naive.dense_pairs(block, naive.node_bits(block, largest))

    assert_placed(criterion, search, pairs_of)
    assert_placed(criterion.pack(search.frontier), search, pairs_of)


@FREE
@given(searches())
def test_without_missing_values_nothing_changes(search: Search) -> None:
    whole = replace(search, values=np.nan_to_num(search.values, nan=0.5))
    for criterion in criteria_of(np.arange(search.n, dtype=np.int32) % 3):
        own: Any = replace(criterion, places_missing=True)  # type: ignore[type-var]
        plain, placed = cut(criterion, whole), cut(own, whole)
        assert [part.tobytes() for part in plain] == [part.tobytes() for part in placed]
        assert set(placed.missing.tolist()) == {STAY}
        assert set(cut(criterion, search).missing.tolist()) == {STAY}  # left out


@pytest.mark.parametrize(
    ("values", "codes", "threshold", "side"),
    [
        ([0.0, 1.0, 2.0, 3.0, GONE], [0, 0, 1, 1, 1], 1.5, RIGHT),
        ([0.0, 1.0, 2.0, 3.0, GONE], [0, 0, 1, 1, 0], 1.5, LEFT),
        ([0.0, 1.0, 2.0, GONE, GONE], [0, 0, 0, 1, 1], ALL_OBSERVED, RIGHT),
        ([5.0, 5.0, 5.0, GONE, GONE], [1, 1, 1, 0, 0], ALL_OBSERVED, RIGHT),
        ([0.0, 1.0, 2.0, 3.0], [0, 0, 1, 1], 1.5, STAY),
    ],
)
def test_a_planted_side_is_found(values: list[float], codes: list[int], threshold: float, side: int) -> None:
    for criterion in criteria_of(np.array(codes, np.int32)):
        own: Any = replace(criterion, places_missing=True)  # type: ignore[type-var]
        found = cut(own, line(values))
        assert (found.candidate[0], found.threshold[0], found.missing[0]) == (0, threshold, side)


@pytest.mark.parametrize("min_leaf", [1, 2, 3])
def test_a_side_may_be_heavy_by_its_missing_rows(min_leaf: int) -> None:
    """One observed row and one missing one are two."""
    for criterion in criteria_of(np.array([0, 1, 1, 1, 0], np.int32)):
        own: Any = replace(criterion, places_missing=True)  # type: ignore[type-var]
        found = cut(own, line([0.0, 1.0, 2.0, 3.0, GONE], min_leaf=min_leaf))
        assert ((found.threshold[0], found.missing[0]) == (0.5, LEFT)) == (min_leaf < 3)


# --- criteria that leave the missing out -----------------------------------------------------------------


@FREE
@given(st.integers(0, 999), st.integers(2, 60), st.sampled_from(CLUSTERS))
def test_clusters_are_judged_by_the_rows_that_have_a_value(seed: int, n: int, criterion: TwoClusters) -> None:
    """The cut of one candidate is that of a node without the rows that lack it."""
    rng = np.random.default_rng(seed)
    values, lacks = np.where(rng.random(n) < 0.5, 4.0, 0.0) + rng.normal(size=n), rng.random(n) < 0.3
    weights = rng.integers(1, 4, n).tolist()
    own = criterion.attempted(np.array([seed], np.uint64), 0)
    found = cut(own, line(np.where(lacks, GONE, values).tolist(), weights))
    kept = np.flatnonzero(~lacks)
    if not len(kept):
        assert found.candidate.tolist() == [-1]
        return
    alone = cut(own, line(values[kept].tolist(), [weights[row] for row in kept]))
    assert found.candidate.tolist() == alone.candidate.tolist()
    assert found.threshold.tolist() == alone.threshold.tolist()
    assert found.missing.tolist() == [STAY]
    share = 1.0 if criterion.relative else sum(weights) / sum(weights[row] for row in kept)
    if alone.candidate[0] == 0:
        assert found.gain[0] == pytest.approx(alone.gain[0] * share)


@pytest.mark.parametrize("score", ["two_means", "fast_bic"])
def test_of_two_equal_candidates_the_one_that_lacks_less_is_cut(score: str) -> None:
    values = np.array([0.0, 0.1, 0.2, 5.0, 5.1, 5.2] * 5)
    holes = np.where(np.arange(30) % 4 == 0, GONE, values)
    for order, chosen in (([holes, values], 1), ([values, holes], 0)):
        search = Search(30, [list(range(30))], [[1] * 30], np.array(order), 1)
        assert cut(TwoClusters(score), search).candidate.tolist() == [chosen]


def test_witnesses_do_not_look_at_missing_values() -> None:
    """Witness 0 lacks some rows; without them it says the same. Witness 1 lacks all, and says nothing."""
    rng = np.random.default_rng(0)
    side = np.repeat([0.0, 1.0], 15)
    matrix = np.stack([5.0 * side + rng.normal(size=30), np.full(30, GONE)], axis=1).astype(np.float32)
    matrix[::4, 0] = GONE
    kept = np.flatnonzero(~np.isnan(matrix[:, 0]))
    found = []
    for rows in (np.arange(30), kept):
        scores = np.zeros((1, 1))
        witnesses = Witnesses(matrix, ColumnWeights.uniform(2), 1, np.zeros((1, 1), np.int32))
        frontier = line([0.0] * 30).frontier if len(rows) == 30 else samples.level([rows.tolist()], [[1] * len(rows)])
        witnesses.confirm(frontier, side[rows][None], CandidateCuts(np.full((1, 1), 0.5), scores))
        found.append(scores[0, 0])
    assert found[0] == pytest.approx(found[1])
    assert found[0] > 1.0
    nothing = np.zeros((1, 1))
    of_none = Witnesses(matrix, ColumnWeights.uniform(2), 1, np.ones((1, 1), np.int32))
    of_none.confirm(line([0.0] * 30).frontier, side[None], CandidateCuts(np.full((1, 1), 0.5), nothing))
    assert nothing[0, 0] == 0.0
