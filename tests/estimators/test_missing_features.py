"""Features that lack values, from the fit to the sealed forest, its job and its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from distforest import SMERF, Embedding, Labels, Targets, load
from distforest.errors import InputError
from distforest.jobs.cluster import Threads
from distforest.jobs.question import Question
from distforest.jobs.score import score
from distforest.sources.arrays import open_array
from tests.estimators.jobs import run_job, spec_of, write_arrays
from tests.estimators.rows import DISTANCES, POINTS, TARGETS
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

    from distforest.forest.forest import Forest

CODES = np.digitize(TARGETS, np.quantile(TARGETS, [0.3, 0.7]))
LOST = np.random.default_rng(5).random(POINTS.shape) < 0.25
LOST[:, -1] &= ~LOST[:, :-1].all(axis=1)
HOLES = np.where(LOST, np.nan, POINTS)
QUERIES = np.where(np.roll(LOST, 7, axis=0), np.nan, POINTS + 0.1)

TRUTHS: dict[str, tuple[Any, dict[str, Any]]] = {
    "labels": (Labels(CODES), {}),
    "targets": (Targets(TARGETS), {"min_samples_leaf": 2}),
    "embedding": (Embedding(POINTS[:, :2]), {}),
    "distances": (DISTANCES, {"min_samples_split": 6}),
    "bins": (Labels(CODES), {"max_bins": 4}),
    "bins of targets": (Targets(TARGETS), {"max_bins": 256}),
    "sums": (Labels(CODES), {"feature_combinations": 2.0, "coefficients": "normal"}),
    "screened": (Targets(TARGETS), {"feature_weights": "dependence"}),
    "at random": (DISTANCES, {"splitter": "random"}),
}


def smerf_on(name: str, X: np.ndarray, **further: Any) -> SMERF:
    truth, options = TRUTHS[name]
    return SMERF(n_estimators=8, random_state=3, **options, **further).fit(X, truth)


def ends_of(forest: Forest, X: np.ndarray) -> np.ndarray:
    """The node of each row in each tree, step by step; a value of a sum is missing where one of its terms is."""
    table, ends = forest.routed_table, np.empty((forest.n_trees, len(X)), np.int32)
    assert table.missing_right is not None
    for tree, start in enumerate(table.tree_start[:-1]):
        for r, row in enumerate(X.astype(np.float32).astype(np.float64)):
            node = 0
            while table.left[start + node] >= 0:
                at = start + node
                terms = slice(table.offset[at], table.offset[at + 1])
                value = sum(row[table.columns[terms]] * table.weights[terms])
                is_right = table.missing_right[at] if np.isnan(value) else value > table.threshold[at]
                node = table.right[at] if is_right else table.left[at]
            ends[tree, r] = node
    return ends


@pytest.mark.parametrize("name", TRUTHS)
def test_every_row_ends_in_a_leaf_and_queries_walk_as_training_rows_do(name: str) -> None:
    estimator = smerf_on(name, HOLES)
    forest = estimator.forest_
    assert forest.table.missing_right is not None
    assert forest.table.is_leaf[(forest.table.tree_start[:-1, None] + forest.training_nodes)].all()
    np.testing.assert_array_equal(estimator.apply(HOLES).T, forest.training_nodes)
    expected = ends_of(forest, QUERIES)
    np.testing.assert_array_equal(estimator.apply(QUERIES).T, expected)
    for part in (QUERIES[:1], QUERIES[~np.isnan(QUERIES).any(axis=1)]):  # one row, and rows that lack nothing
        own = ends_of(forest, part)
        np.testing.assert_array_equal(estimator.apply(part).T, own)


@pytest.mark.parametrize("name", TRUTHS)
def test_a_forest_of_rows_that_lack_nothing_sends_what_is_missing_to_the_heavier_side(name: str) -> None:
    estimator = smerf_on(name, POINTS)
    table = estimator.forest_.table
    assert table.missing_right is None
    assert "missing_right" not in estimator.forest_.arrays()
    np.testing.assert_array_equal(estimator.apply(QUERIES).T, ends_of(estimator.forest_, QUERIES))
    root = np.repeat(table.tree_start[:-1], table.tree_size)[~table.is_leaf]
    right, left = (table.n_rows[root + child[~table.is_leaf]] for child in (table.right, table.left))
    sends_right = estimator.forest_.routed_table.missing_right
    assert sends_right is not None
    assert sends_right[~table.is_leaf].tolist() == (right >= left).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["labels", "bins of targets", "sums", "screened", "distances"])
def test_a_job_and_a_sealed_forest_are_the_same_and_answer_alike(name: str, scratch: Path) -> None:
    truth, options = TRUTHS[name]
    kind = "distances" if name == "distances" else ("targets" if truth.__class__ is Targets else "labels")
    values = np.asarray(getattr(truth, "values", truth))
    at = write_arrays(f"{scratch}/in.zarr", {"X": HOLES, "Q": QUERIES, "truth": values})
    given: Any = at["truth"] if kind == "distances" else {"kind": kind, "values": at["truth"]}
    inputs = {"features": at["X"], "distances": given}
    done = run_job(spec_of(scratch, "smerf", inputs, seed=3, n_estimators=8, **options))
    estimator = smerf_on(name, HOLES)
    assert done.digest == estimator.digest_ == load(done.address).digest_
    assert estimator.save(scratch / "own.zarr") == done.digest
    np.testing.assert_array_equal(load(scratch / "own.zarr").distance(QUERIES), estimator.distance(QUERIES))
    answers = str(scratch / "answers.zarr")
    score(Question(done.address, at["Q"], "distance"), answers, Threads(2), True)
    found = np.asarray(open_array(f"{answers}/distance")[...])
    np.testing.assert_array_equal(found, estimator.transform(QUERIES).astype(found.dtype))


@pytest.mark.parametrize("name", ["labels", "distances", "bins"])
def test_a_monotone_scale_changes_no_side(name: str) -> None:
    one, other = smerf_on(name, HOLES), smerf_on(name, np.exp(HOLES / 4.0))
    assert one.forest_.table.missing_right is not None
    for array in ("left", "right", "columns", "missing_right", "n_rows"):
        np.testing.assert_array_equal(getattr(one.forest_.table, array), getattr(other.forest_.table, array))


def test_what_is_missing_may_be_all_that_tells_classes_apart() -> None:
    X = np.where(np.arange(40)[:, None] % 2 == 0, np.nan, np.random.default_rng(0).normal(size=(40, 1)))
    forest = SMERF(20, random_state=0).fit(X, Labels(np.arange(40) % 2))
    assert forest.predict([[1e30], [-1e30]]).tolist() == [1, 1]
    assert forest.predict([[np.nan]]).tolist() == [0]


def test_a_column_without_any_value_is_never_cut() -> None:
    X = np.insert(HOLES, 1, np.nan, axis=1)
    for name in TRUTHS:
        table = smerf_on(name, X).forest_.table
        single = (table.width == 1)[~table.is_leaf]
        assert single.all() or name == "sums"
        assert 1 not in table.columns


def test_infinity_is_refused() -> None:
    X = HOLES.copy()
    X[3, 1] = np.inf
    with pytest.raises(InputError, match=naming("features", "row 3", "column 1")):
        smerf_on("labels", X)
