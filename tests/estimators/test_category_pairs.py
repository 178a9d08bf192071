"""Forests over pairs of points of which some features are categories: RFD and Similarity TreeRank."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from distforest import RFD, TreeRank, load
from distforest.errors import ArtifactError, InputError
from distforest.estimators.pair_columns import Cosine
from distforest.forest.pairs.pair_scores import pair_answers, training_pairs
from distforest.forest.pairs.pair_walks import Block, Walks
from distforest.forest.pairs.ranking_cells import pruned
from distforest.pictures.trees import drawn_tree
from distforest.sources.point_pairs import MOST_PAIRED
from tests.messages import naming

N = 160
RNG = np.random.default_rng(0)
COLOURS = np.array(["red", "green", "blue", "black", "white", "pink"])
COLOUR, SIZE = RNG.integers(0, 6, N), RNG.normal(size=N).round(3)
FRAME = pd.DataFrame({"colour": COLOURS[COLOUR], "size": SIZE, "room": [f"room {k}" for k in RNG.integers(0, 30, N)]})
LACKING = FRAME.assign(colour=FRAME["colour"].mask(RNG.random(N) < 0.2), size=FRAME["size"].mask(RNG.random(N) < 0.1))
TABLES = {"complete": FRAME, "lacking": LACKING}
Y = (np.isin(COLOUR, [0, 2, 5]) ^ (SIZE > 0.8)).astype(int)
WAYS: dict[str, Any] = {
    "rfd": RFD(6, random_state=0),
    "evidence": RFD(6, voting="evidence", max_bins=None, random_state=0),
    "differences": RFD(6, position=False, random_state=0),
    "treerank": TreeRank(6, random_state=0),
    "square": TreeRank(6, region="square", aggregation="median", random_state=0),
    "linear": TreeRank(4, leafrank="linear", max_depth=3, random_state=0),
}


def renamed(frame: pd.DataFrame) -> pd.DataFrame:
    """Other names, in another order of the alphabet."""
    return frame.assign(colour=frame["colour"].str[::-1], room="_" + frame["room"].str[::-1])


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("way", WAYS)
def test_neither_names_nor_the_order_of_two_points_change_an_answer(way: str, table: str) -> None:
    X, model = TABLES[table], WAYS[way]
    forest, other = model.fit(X, Y), type(model)(**model.get_params()).fit(renamed(X), Y)
    distance = forest.distance(X[:50])
    np.testing.assert_array_equal(distance, distance.T)
    np.testing.assert_array_equal(other.distance(renamed(X[:50])), distance)
    cuts_sets = forest.forest_.table.category_size is not None
    assert cuts_sets == (way not in ("differences", "linear"))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["rfd", "square"])
def test_rows_walk_alike_side_by_side_and_one_by_one(way: str) -> None:
    forest = WAYS[way].fit(LACKING, Y).forest_
    numbers = RNG.integers(0, N, (500, 2)).astype(np.int32)
    pairs = training_pairs(forest, numbers)
    n_columns = pairs.shape[1]
    values = pairs.block(np.arange(500, dtype=np.int32), np.arange(n_columns, dtype=np.int32)).astype(np.float32)
    walks, block = Walks(forest.table), Block.from_values(values)
    assert walks._steps_on(block)[0] is not None
    by_sums = Walks(forest.table)
    by_sums.__dict__["_steps_of_twice"] = None
    for tree in range(forest.n_trees):
        np.testing.assert_array_equal(walks.ends(tree, block), by_sums.ends(tree, block))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["rfd", "treerank", "square"])
def test_counts_are_those_of_the_pairs_that_end_in_a_node(way: str) -> None:
    """The sides at which pairs grew are those on which they walk: an inner node counts as many as both its children."""
    for X in TABLES.values():
        forest = WAYS[way].fit(X, Y).forest_
        table, counts = forest.table, forest.leaf_table.arrays()["class_counts"]
        assert (counts.sum(axis=1) > 0).all()
        cut = np.flatnonzero((table.category_size > 0) & (table.gain > 0))
        assert len(cut)
        root = np.repeat(table.tree_start[:-1], table.tree_size)
        for node in cut[:200]:
            left, right = counts[root[node] + table.left[node]], counts[root[node] + table.right[node]]
            if way == "rfd":
                assert (left + right == counts[node]).all()
                shares = [own[1] / own.sum() for own in (left, right)]
                assert X is LACKING or shares[0] < shares[1]  # the order is that of the shares of dissimilar pairs


def test_which_two_they_are_is_learned_and_explained() -> None:
    """Red and blue are alike, and no other two; whether two differ cannot tell this."""
    pairs = np.array([(i, j) for i in range(N) for j in range(i + 1, N)])
    both = np.sort(COLOURS[COLOUR][pairs], axis=1)
    similar = (both[:, 0] == both[:, 1]) | ((both == ["blue", "red"]).all(axis=1))
    frame, own = FRAME[["colour"]], {"max_features": None, "min_samples_leaf": 1}
    forest = RFD(20, random_state=0, **own).fit_pairs(frame, pairs, similar)
    assert forest.roc_auc_score(frame, pairs, similar) == 1.0
    only = RFD(20, position=False, random_state=0, **own).fit_pairs(frame, pairs, similar)
    assert only.roc_auc_score(frame, pairs, similar) < 0.99
    assert forest.absolute_importances_[0] > 0.5
    red, blue, pink = (frame[frame["colour"] == name][:1] for name in ("red", "blue", "pink"))
    found = forest.explain(red, blue)
    assert found.columns == ("differ(colour)", "pair(colour)")
    np.testing.assert_allclose(found.baselines + found.contributions.sum(axis=1), forest.pair_distance(red, blue))
    assert found.contributions[0, 1] < 0
    assert forest.pair_distance(red, blue) < 0.5 < forest.pair_distance(red, pink)


@pytest.mark.slow
def test_a_sealed_forest_keeps_its_categories(tmp_path: Path) -> None:
    for way in ("rfd", "square"):
        forest = WAYS[way].fit(LACKING, Y)
        forest.save(tmp_path / way)
        opened = load(tmp_path / way)
        assert opened.digest_ == forest.digest_
        np.testing.assert_array_equal(opened.distance(LACKING[:20]), forest.distance(LACKING[:20]))
        unseen = LACKING.assign(colour=LACKING["colour"].replace({"red": "mauve"}))
        np.testing.assert_array_equal(opened.distance(unseen[:30]), forest.distance(unseen[:30]))


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[6, 0], [6, 0, -1], [6, 0, 1e300], [0, 0, 0], "abc", [6, 0, True], [6, 0, 70_000]])
def test_a_manifest_with_other_numbers_of_categories_is_refused(tmp_path: Path, sizes: object) -> None:
    WAYS["rfd"].fit(FRAME, Y).save(tmp_path / "forest")
    place = tmp_path / "forest" / "manifest.json"
    manifest = json.loads(place.read_text())
    manifest["meaning"]["rows"]["n_categories"] = sizes
    place.write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match=naming("manifest.json", "rows.n_categories", 3, "65,536")):
        load(tmp_path / "forest")


@pytest.mark.parametrize(("sizes", "name"), [((2, 0, 30), "category_codes"), ((), "category_size")])
def test_lists_and_points_that_contradict_the_numbers_of_categories_are_refused(
    sizes: tuple[int, ...], name: str
) -> None:
    forest = WAYS["rfd"].fit(FRAME, Y).forest_
    rows = dataclasses.replace(forest.meaning.rows, n_categories=sizes)
    wrong = dataclasses.replace(forest, meaning=dataclasses.replace(forest.meaning, rows=rows))
    with pytest.raises(ArtifactError, match=name):
        wrong.check()
    points = forest.points.copy()
    points[3, 0] = 17.0
    with pytest.raises(ArtifactError, match=naming("objects", "feature 0", 5, 17, "row 3")):
        dataclasses.replace(forest, objects=points).check()


@pytest.mark.slow
def test_pruned_trees_keep_the_lists_of_their_cells() -> None:
    for X in TABLES.values():
        forest = TreeRank(5, min_samples_leaf=1, random_state=0).fit(X, Y).forest_
        gains = forest.table.gain[forest.table.gain > 0]
        for gain in (0.0, float(np.median(gains)) * 1e-3, 0.01):
            smaller = pruned(forest, gain)
            smaller.check()
            assert len(smaller.table.left) <= len(forest.table.left)
            pairs = training_pairs(forest, RNG.integers(0, N, (50, 2)).astype(np.int32))
            assert np.isfinite(pair_answers(smaller, pairs)).all()
    chosen = TreeRank(4, pruning_folds=3, random_state=0).fit(FRAME, Y)
    assert chosen.score(FRAME, Y) > 0.8


def test_many_categories_are_read_as_whether_they_differ() -> None:
    n = MOST_PAIRED + 1
    names = [f"c{k}" for k in np.repeat(np.arange(n), 2)]
    frame = pd.DataFrame({"c": names, "x": np.zeros(2 * n)})
    pairs = np.array([(k, k + 1 if k % 2 == 0 else (k + 9) % (2 * n)) for k in range(2 * n)])
    for model in (RFD(3, random_state=0), TreeRank(3, region="square", random_state=0)):
        forest = model.fit_pairs(frame, pairs, np.arange(2 * n) % 2 == 0)
        assert forest.roc_auc_score(frame, pairs, np.arange(2 * n) % 2 == 0) > 0.95


def test_a_node_says_which_two_it_sends_left() -> None:
    forest = RFD(3, random_state=0).fit(FRAME[["colour"]], Y)
    texts = [box.cut for tree in range(3) for box in drawn_tree(forest, tree, 4, ()).boxes]
    assert any("pair(colour) in {" in text and " & " in text for text in texts), texts


def test_further_columns_of_pairs_read_numbers() -> None:
    with pytest.raises(InputError, match=naming("pair_columns", "2 features")):
        TreeRank(3, pair_columns=[Cosine()]).fit(FRAME, Y)
    codes = np.column_stack([COLOUR, SIZE])
    forest = RFD(4, categorical_features=[0], random_state=0).fit(codes, Y)
    np.testing.assert_array_equal(
        forest.distance(codes[:9]),
        RFD(4, random_state=0).fit(FRAME[["colour", "size"]], Y).distance(FRAME.iloc[:9, :2]),
    )
    assert RFD(4, random_state=0).fit(codes, Y).forest_.table.category_size is None
