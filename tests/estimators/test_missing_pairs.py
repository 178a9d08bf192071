"""Points that lack values, from the fit of a forest over pairs to the sealed forest, its job and its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from distforest import RFD, TreeRank, load
from distforest.errors import ArtifactError, DistforestWarning, InputError
from distforest.estimators.pair_columns import Cosine, PlugIn
from distforest.forest.pairs import pair_scores, pair_walks
from distforest.forest.pairs.pair_leaves import Ranks
from distforest.forest.pairs.pair_walks import Walks
from distforest.growth.pairs import linear_cells
from distforest.jobs.cluster import Threads
from distforest.jobs.question import Question
from distforest.jobs.score import score
from distforest.sources.arrays import open_array
from distforest.sources.point_pairs import PointPairs
from tests.estimators.jobs import run_job, spec_of, write_arrays
from tests.estimators.rows import POINTS
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

    from distforest.estimators.on_pairs import OnPairs
    from distforest.forest.forest import Forest

LABELS = np.digitize(POINTS[:, 0] + POINTS[:, 1] ** 2, [0.0, 1.0])
RNG = np.random.default_rng(5)
LOST = RNG.random(POINTS.shape) < 0.2
LOST[:, -1] &= ~LOST[:, :-1].all(axis=1)
HOLES = np.where(LOST, np.nan, POINTS)
QUERIES = np.where(np.roll(LOST, 7, axis=0), np.nan, POINTS + 0.1)
PAIRS = np.stack(np.triu_indices(len(POINTS), 1), axis=1)[RNG.permutation(len(POINTS) * (len(POINTS) - 1) // 2)[:300]]
SIMILAR = LABELS[PAIRS[:, 0]] == LABELS[PAIRS[:, 1]]

FORESTS: dict[str, OnPairs] = {
    "rfd": RFD(8, random_state=3),
    "rfd of differences": RFD(8, position=False, voting="mean", random_state=3),
    "rfd at any value": RFD(8, max_bins=None, voting="evidence", max_features=None, random_state=3),
    "treerank": TreeRank(4, n_pairs=400, leafrank_depth=3, random_state=3),
    "median": TreeRank(4, n_pairs=400, leafrank_depth=3, aggregation="median", max_bins=None, random_state=3),
    "square": TreeRank(4, n_pairs=400, leafrank_depth=3, region="square", max_features=None, random_state=3),
    "square at any value": TreeRank(4, n_pairs=400, region="square", max_bins=None, max_features=2, random_state=3),
    "linear": TreeRank(4, n_pairs=400, leafrank="linear", random_state=3),
}


def pair_forest(name: str, X: np.ndarray, **further: Any) -> Any:
    return type(FORESTS[name])(**{**FORESTS[name].get_params(deep=False), **further}).fit(X, LABELS)


def ends_of(forest: Forest, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """The node of the pairs of rows in each tree, step by step; a column is missing where either point lacks it."""
    table, family = forest.table.sending_on(), pair_scores.columns_of(forest).family
    assert table.missing_right is not None
    ends = np.empty((forest.n_trees, len(X)), np.int64)
    for r, (a, b) in enumerate(zip(X.astype(np.float32), Y.astype(np.float32), strict=True)):
        both = (np.abs(a - b), (a + b) / 2)
        row = np.concatenate([np.maximum(a, b), np.minimum(a, b)] if family == "max_min" else both).astype(float)
        for tree, start in enumerate(table.tree_start[:-1]):
            node = start
            while table.left[node] >= 0:
                terms = slice(table.offset[node], table.offset[node + 1])
                value = sum(row[table.columns[terms]] * table.weights[terms])
                is_right = table.missing_right[node] if np.isnan(value) else value > table.threshold[node]
                node = start + (table.right[node] if is_right else table.left[node])
            ends[tree, r] = node
    return ends


def walked(forest: Forest, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    numbers = np.arange(len(X), dtype=np.int32)
    pairs = PointPairs(pair_scores.columns_of(forest), X.astype(np.float32), Y.astype(np.float32), numbers, numbers)
    return np.array([pair_scores.walked(Walks(forest.table), tree, pairs) for tree in range(forest.n_trees)])


def expected_answer(forest: Forest, ends: np.ndarray) -> np.ndarray:
    table = pair_scores.node_scores(forest)
    if table.median:
        found = np.median(table.parts[ends], axis=0)
    else:
        found = table.parts[ends].sum(axis=0) / (len(ends) if table.wholes is None else table.wholes[ends].sum(axis=0))
    return found if table.dissimilar else 1.0 - found


@pytest.mark.filterwarnings("ignore::distforest.errors.DistforestWarning")
@pytest.mark.parametrize("holes", [True, False])
@pytest.mark.parametrize("name", FORESTS)
def test_pairs_walk_to_the_side_that_was_learned_or_else_to_the_heavier_one(name: str, holes: bool) -> None:
    estimator = pair_forest(name, HOLES if holes else POINTS)
    forest = estimator.forest_
    assert (forest.table.missing_right is not None) == holes
    for X, Y in ((QUERIES, HOLES[::-1].copy()), (POINTS, QUERIES), (POINTS, POINTS[::-1].copy())):
        ends = ends_of(forest, X, Y)
        assert forest.table.is_leaf[ends].all()
        np.testing.assert_array_equal(walked(forest, X, Y), ends)
        found = estimator.pair_distance(X, Y)
        np.testing.assert_allclose(found, expected_answer(forest, ends), rtol=0, atol=1e-12)
        assert found.tobytes() == estimator.pair_distance(Y, X).tobytes()


@pytest.mark.parametrize("name", FORESTS)
def test_counts_are_those_of_the_training_pairs_as_they_walk(name: str) -> None:
    """And a cut parts them as growth did: the children of a cut node hold what it holds."""
    forest = pair_forest(name, HOLES).forest_
    table, counts = forest.table, forest.leaf_table.class_counts
    root = np.repeat(table.tree_start[:-1], table.tree_size)
    inner = ~table.is_leaf
    assert (counts.sum(axis=1) > 0).all()
    forest.check()
    if isinstance(forest.leaf_table, Ranks):  # several branches of a small tree end in the same cell
        of_leaves = np.add.reduceat(np.where(table.is_leaf[:, None], counts, 0), table.tree_start[:-1])
        np.testing.assert_array_equal(of_leaves, counts[table.tree_start[:-1]])
        return
    below = counts[root[inner] + table.left[inner]] + counts[root[inner] + table.right[inner]]
    np.testing.assert_array_equal(counts[inner], below)
    whole, left, right = (
        counts[node].astype(float)
        for node in (np.flatnonzero(inner), root[inner] + table.left[inner], root[inner] + table.right[inner])
    )
    gini = [2 * part.prod(axis=1) / part.sum(axis=1) for part in (whole, left, right)]
    np.testing.assert_allclose(table.gain[inner], gini[0] - gini[1] - gini[2], atol=1e-9)


@pytest.mark.parametrize("name", ["rfd", "treerank", "square"])
def test_forests_without_missing_values_have_no_rule_in_their_digest(name: str) -> None:
    assert "missing_right" not in pair_forest(name, POINTS).forest_.arrays()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rfd", "treerank", "square", "median", "linear"])
@pytest.mark.parametrize("cells", [50, 1 << 12])
def test_blocks_and_threads_change_nothing(name: str, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = pair_forest(name, HOLES)
    distance = expected.distance(QUERIES, HOLES)
    monkeypatch.setattr(pair_walks, "block_rows", lambda n_columns: max(1, cells // n_columns))
    monkeypatch.setattr(pair_scores, "PAIRS_PER_TURN", 37)
    found = pair_forest(name, HOLES, n_jobs=3)
    assert found.digest_ == expected.digest_
    assert found.distance(QUERIES, HOLES).tobytes() == distance.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rfd", "treerank", "square", "linear"])
@pytest.mark.parametrize("taught", ["labels", "links"])
def test_a_job_and_a_sealed_forest_are_the_same_and_answer_alike(name: str, taught: str, scratch: Path) -> None:
    arrays = {"X": HOLES, "Q": QUERIES, "labels": LABELS, "pairs": PAIRS, "similar": SIMILAR}
    at = write_arrays(f"{scratch}/in.zarr", arrays, chunk_bytes=7 * HOLES[:1].nbytes)
    estimator = FORESTS[name]
    truth = {"labels": ("labels",), "links": ("pairs", "similar")}[taught]
    params = {row.name: getattr(estimator, row.name) for row in estimator._parameters}
    words = {"max_features": "none"}  # of a specification, which knows no None
    params = {key: words.get(key) if value is None else value for key, value in params.items()}
    params = {key: value for key, value in params.items() if value is not None}
    inputs = {"features": at["X"], **{key: at[key] for key in truth}}
    done = run_job(spec_of(scratch, estimator._method.name, inputs, seed=3, **params))
    estimator = type(estimator)(**estimator.get_params(deep=False))
    estimator = estimator.fit(HOLES, LABELS) if taught == "labels" else estimator.fit_pairs(HOLES, PAIRS, SIMILAR)
    if estimator.max_bins is not None:
        assert done.digest == estimator.digest_ == load(done.address).digest_
    assert estimator.save(scratch / "own.zarr") == estimator.digest_
    own: Any = load(scratch / "own.zarr")
    np.testing.assert_array_equal(own.distance(QUERIES), estimator.distance(QUERIES))
    answers = str(scratch / "answers.zarr")
    score(Question(done.address, at["Q"], "distance"), answers, Threads(2), True)
    found = np.asarray(open_array(f"{answers}/distance")[...])
    loaded: Any = load(done.address)
    np.testing.assert_array_equal(found, loaded.transform(QUERIES).astype(found.dtype))


@pytest.mark.parametrize("name", FORESTS)
def test_a_scale_and_the_order_of_points_in_a_pair_change_no_side(name: str) -> None:
    one, other = pair_forest(name, HOLES).forest_, pair_forest(name, 4.0 * HOLES).forest_
    arrays = ["left", "right", "columns", "missing_right", "n_rows"]
    for array in arrays:
        np.testing.assert_array_equal(getattr(one.table, array), getattr(other.table, array))


@pytest.mark.parametrize("name", ["rfd at any value", "treerank", "median", "square", "square at any value"])
def test_permuted_points_of_given_pairs_lead_to_the_same_cuts(name: str) -> None:
    order = np.random.default_rng(0).permutation(len(POINTS))
    place = np.argsort(order)
    estimator = FORESTS[name]
    further = {"resample": "pairs"} if isinstance(estimator, RFD) else {}
    own, other = (type(estimator)(**{**estimator.get_params(deep=False), **further}) for _ in range(2))
    own.fit_pairs(HOLES, PAIRS, SIMILAR)
    other.fit_pairs(HOLES[order], place[PAIRS], SIMILAR)
    for array, values in own.forest_.table.arrays().items():
        np.testing.assert_array_equal(values, getattr(other.forest_.table, array))


@pytest.mark.parametrize("pair", [("rfd", 256), ("treerank", 256), ("square", 256)])
def test_few_values_are_cut_alike_in_bins_and_anywhere(pair: tuple[str, int]) -> None:
    """Each value has a bin of its own, so the same pairs go to the same sides."""
    name, max_bins = pair
    X = np.where(LOST, np.nan, np.rint(2 * POINTS).clip(-4, 4))
    bins, anywhere = (pair_forest(name, X, max_bins=most).forest_ for most in (max_bins, None))
    for array in ("left", "right", "columns", "missing_right", "n_rows"):
        np.testing.assert_array_equal(getattr(bins.table, array), getattr(anywhere.table, array))


@pytest.mark.parametrize("name", ["rfd", "treerank", "square"])
@pytest.mark.parametrize("far", [1e4, -1e6])
def test_a_far_point_and_holes_leave_other_points_as_they_were(name: str, far: float) -> None:
    dirty = HOLES.copy()
    dirty[0] = far
    # an area under the curve of the other points
    more = {"n_estimators": 40} if name == "rfd" else {"n_estimators": 10, "n_pairs": 2000}
    clean, other = (pair_forest(name, X, **more).score(QUERIES[1:], LABELS[1:]) for X in (HOLES, dirty))
    assert clean > 0.7
    assert abs(clean - other) < 0.05


@pytest.mark.parametrize("name", ["rfd", "treerank", "square"])
def test_a_point_that_all_pairs_know_may_lack_what_no_pair_needs(name: str) -> None:
    """A column of which every value is missing is never cut, and does no harm."""
    X = np.insert(HOLES, 1, np.nan, axis=1)
    forest = pair_forest(name, X, max_features=None).forest_
    features = forest.table.columns % X.shape[1]
    assert 1 not in features
    assert len(features)


def test_what_is_missing_may_be_all_that_tells_pairs_apart() -> None:
    """Points of one class have the value, those of the other lack it; so a pair of both classes has none."""
    X = np.where(np.arange(40)[:, None] % 2 == 0, np.nan, np.ones((40, 1)))
    similar = (PAIRS % 40 % 2).all(axis=1)
    pairs = PAIRS % 40
    kept = pairs[:, 0] != pairs[:, 1]
    for forest in (RFD(10, random_state=0), TreeRank(3, random_state=0)):
        forest.fit_pairs(X, pairs[kept], similar[kept])
        assert forest.roc_auc_score(X, pairs[kept], similar[kept]) == 1.0


def test_out_of_bag_estimates_and_pruning_take_missing_values() -> None:
    forest = RFD(100, oob_score=True, random_state=0).fit(HOLES, LABELS)
    assert 0.6 < forest.oob_score_ <= 1.0
    assert pair_forest("treerank", HOLES, pruning_folds=3).pruning_.areas.max() > 0.5
    pruned = pair_forest("square", HOLES, pruning_folds=2)
    np.testing.assert_array_equal(walked(pruned.forest_, QUERIES, HOLES), ends_of(pruned.forest_, QUERIES, HOLES))


def test_further_columns_come_from_points_that_lack_values_if_they_bear_it() -> None:
    forest = TreeRank(2, n_pairs=300, pair_columns=[PlugIn(20, calibrated=False)], random_state=0).fit(HOLES, LABELS)
    rows = forest.extended(QUERIES)
    assert np.isnan(rows[:, : HOLES.shape[1]]).any()
    assert np.isfinite(rows[:, HOLES.shape[1] :]).all()
    with pytest.raises(InputError, match=naming("pair_columns:", "row 1", "Cosine")):
        TreeRank(2, pair_columns=[Cosine()]).fit(HOLES, LABELS)


def test_vectors_of_further_columns_are_never_missing(tmp_path: Path) -> None:
    forest = TreeRank(2, n_pairs=300, pair_columns=[PlugIn(20, calibrated=False)], random_state=0).fit(HOLES, LABELS)
    forest.save(tmp_path / "forest.zarr")
    loaded: Any = load(tmp_path / "forest.zarr")
    rows = forest.extended(QUERIES)
    assert loaded.distance(rows, rows).tobytes() == forest.distance(QUERIES, QUERIES).tobytes()
    rows[3, -1] = np.nan
    with pytest.raises(InputError, match=naming("NaN", "row 3", "`extended`")):
        loaded.distance(rows)


def test_objects_of_a_forest_may_lack_features_but_nothing_else() -> None:
    forest = pair_forest("rfd", HOLES).forest_
    forest.check()
    objects = forest.points.copy()
    objects[2, 1] = np.inf
    with pytest.raises(ArtifactError, match="objects"):
        type(forest)(**{**vars_of(forest), "objects": objects}).check()


def vars_of(forest: Forest) -> dict[str, Any]:
    return {name: getattr(forest, name) for name in forest.__dataclass_fields__}


def test_infinity_is_refused() -> None:
    X = HOLES.copy()
    X[3, 1] = np.inf
    for name in ("rfd", "treerank"):
        with pytest.raises(InputError, match=naming("features", "row 3", "column 1")):
            pair_forest(name, X)


def test_means_of_linear_cells_leave_missing_values_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """In small blocks, of which the first ones may have no value of a column."""
    X = HOLES.astype(np.float32)
    left, right = np.ascontiguousarray(PAIRS.T.astype(np.int32))
    forest = pair_forest("treerank", HOLES).forest_
    pairs = PointPairs(pair_scores.columns_of(forest), X, X, left, right)
    rows = np.arange(len(PAIRS), dtype=np.int32)
    columns = pairs.block(rows, np.arange(pairs.shape[1], dtype=np.int32))
    monkeypatch.setattr(linear_cells, "PAIRS_AT_ONCE", 3)
    found = linear_cells.Standard.from_pairs(pairs, rows, rows[:1])  # one row has infinite fences
    np.testing.assert_allclose(found.mean, np.nanmean(columns, axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.deviation, np.nanstd(columns, axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.columns(rows), np.nan_to_num((columns - found.mean) / found.deviation), atol=1e-9)


def test_linear_cells_of_pairs_that_lack_values_are_reported() -> None:
    X = np.where(RNG.random((60, 8)) < 0.4, np.nan, RNG.normal(size=(60, 8)))
    y = np.arange(60) % 2
    with pytest.warns(DistforestWarning, match="DF012"):
        TreeRank(3, n_pairs=200, leafrank="linear", random_state=0).fit(X, y)
