"""Decisions of RFD and TreeRank: calibration held out and out of bag by identity, thresholds, sealing, refusals."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from distforest import RFD, TreeRank, load, merge
from distforest.errors import ArtifactError, InputError
from distforest.forest.forest import DECISION_ARRAYS, Forest
from distforest.forest.pairs import held_out
from distforest.forest.pairs.held_out import linked_identities, pairs_of_labels
from distforest.forest.sealed.artifact import open_forest
from distforest.forest.sealed.artifact import save as seal

RNG = np.random.default_rng(0)
PEOPLE = np.repeat(np.arange(40), 3)
POINTS = (RNG.normal(size=(40, 4))[PEOPLE] + 0.2 * RNG.normal(size=(120, 4))).astype(np.float32)
TAUGHT, NEW = PEOPLE < 25, PEOPLE >= 25
X, Y, X_NEW, Y_NEW = POINTS[TAUGHT], PEOPLE[TAUGHT], POINTS[NEW], PEOPLE[NEW]
PAIRS = np.stack(np.triu_indices(len(X), 1), axis=1)
SIMILAR = Y[PAIRS[:, 0]] == Y[PAIRS[:, 1]]


def rfd(**params: Any) -> RFD:
    return RFD(60, **{"max_samples": 0.15, "min_samples_leaf": 2, "random_state": 0, **params})


@pytest.fixture(scope="module")
def fitted() -> RFD:
    return rfd().fit(X, Y.astype(str))


@pytest.fixture
def forest(fitted: RFD) -> RFD:
    return pickle.loads(pickle.dumps(fitted))


def by_loops(forest: Forest, left: int, right: int, identities: np.ndarray) -> tuple[float, int]:
    """The share of votes against a pair among the trees that drew nothing of its two identities, and their number."""
    votes = []
    for tree in range(forest.n_trees):
        drawn = set(identities[np.flatnonzero(forest.in_bag[tree])].tolist())
        if not drawn & {identities[left], identities[right]}:
            alone = RFD()
            alone._restore(_of_tree(forest, tree))
            votes.append(alone.pair_distance(forest.points[[left]], forest.points[[right]])[0])
    return float(np.mean(votes)) if votes else np.nan, len(votes)


def _of_tree(forest: Forest, tree: int) -> Forest:
    nodes = slice(*np.append(0, np.cumsum(forest.table.tree_size))[[tree, tree + 1]])
    columns = slice(*np.append(0, np.cumsum(forest.table.width))[[nodes.start, nodes.stop]])
    arrays = {}
    for name, array in forest.arrays().items():
        rows = {"tree_size": slice(tree, tree + 1), "in_bag": slice(tree, tree + 1), "objects": slice(None)}
        arrays[name] = array[rows.get(name, columns if name in {"columns", "weights"} else nodes)]
    return Forest.from_arrays(forest.meaning, arrays)


def test_distances_out_of_bag_are_those_of_trees_that_know_neither_identity(forest: RFD) -> None:
    found, codes = forest.calibrate().calibration_, np.unique(Y.astype(str), return_inverse=True)[1]
    kept = 0
    for k, (left, right) in enumerate(PAIRS[::97]):
        distance, count = by_loops(forest.forest_, left, right, codes)
        if count >= held_out.LEAST_TREES:
            same = (found.identities == codes[[left, right]]).all(axis=1)
            assert np.isclose(found.distances[same], distance).any(), k
            kept += 1
    assert kept > 10
    assert found.similar.tolist() == (found.identities[:, 0] == found.identities[:, 1]).tolist()


def test_after_pairs_an_identity_is_what_similar_pairs_connect() -> None:
    forest = rfd().fit_pairs(X, PAIRS, SIMILAR).calibrate()
    assert len(np.unique(forest.calibration_.identities)) == 25
    given = forest.calibrate(identities=[f"p{one}" for one in Y]).calibration_
    assert sorted(np.bincount(given.identities[:, 0])) == sorted(np.bincount(forest.calibration_.identities[:, 0]))
    assert linked_identities(np.array([[0, 2], [2, 3], [1, 4]]), np.array([True, True, False]), 5).tolist() == [
        *(0, 1, 0, 0, 2)
    ]


def test_held_out_points_and_their_pairs_calibrate_alike(forest: RFD) -> None:
    own = forest.calibrate(X_NEW, Y_NEW).calibration_
    left, right = pairs = np.stack(np.triu_indices(len(X_NEW), 1))
    np.testing.assert_array_equal(own.distances, forest.pair_distance(X_NEW[left], X_NEW[right]))
    other = forest.calibrate_pairs(X_NEW, pairs.T, Y_NEW[left] == Y_NEW[right]).calibration_
    for name in ("distances", "similar", "identities"):
        np.testing.assert_array_equal(getattr(own, name), getattr(other, name))


def test_answers_follow_from_the_calibration_and_the_threshold(forest: RFD) -> None:
    forest.calibrate(X_NEW, Y_NEW)
    limit = forest.threshold(fpr=0.2, confidence=0.9)
    assert limit == forest.calibration_.threshold(0.2, 0.9)
    distances = forest.pair_distance(X[:-1], X[1:])
    assert forest.set_threshold(limit).predict_pairs(X[:-1], X[1:]).tolist() == (distances <= limit).tolist()
    proba = forest.predict_proba_pairs(X[:-1], X[1:], share=0.01)
    np.testing.assert_array_equal(proba[:, 1], forest.calibration_.probability(distances, 0.01))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


def test_a_ranking_forest_is_calibrated_by_distances_too() -> None:
    forest = TreeRank(40, n_pairs=500, max_samples=0.15, random_state=0).fit(X, Y).calibrate()
    near, far = (forest.calibration_.distances[forest.calibration_.similar == kind].mean() for kind in (True, False))
    assert near < far


def test_many_labelled_points_give_a_fixed_choice_half_of_similar_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "MOST_LABELLED_PAIRS", 2000)
    labels = np.random.default_rng(0).integers(50, size=200).astype(np.int32)
    labels[0] = 50  # a point without another of its kind
    pairs = pairs_of_labels(labels)
    same = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    assert 900 < same.sum() <= 1000
    assert len(pairs) <= 2000
    assert (pairs[:, 0] != pairs[:, 1]).all()
    assert pairs.tobytes() == pairs_of_labels(labels).tobytes()


@pytest.mark.parametrize("name", ["own.zarr", "own.zarr.zip"])
def test_a_sealed_forest_keeps_its_decisions_and_its_digest(forest: RFD, tmp_path: Path, name: str) -> None:
    forest.calibrate().set_threshold(0.25)
    assert forest.save(tmp_path / name) == forest.digest_
    opened = load(tmp_path / name)
    assert (opened.digest_, opened.threshold_) == (forest.digest_, 0.25)
    assert opened.calibration_.decision(0.2) == forest.calibration_.decision(0.2)
    assert opened.save(tmp_path / "again.zarr") == forest.digest_
    assert set(DECISION_ARRAYS) <= set(open_forest(str(tmp_path / "again.zarr")).sealed_arrays())


def test_a_threshold_alone_is_sealed_too(forest: RFD, tmp_path: Path) -> None:
    forest.set_threshold(0.5).save(tmp_path / "own.zarr")
    opened = load(tmp_path / "own.zarr")
    assert opened.threshold_ == 0.5
    assert not hasattr(opened, "calibration_")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ({"calibration_similar": None}, "go together"),
        ({"calibration_identities": np.zeros((3, 2), np.int32)}, "shapes"),
        ({"decision_threshold": np.array([np.nan])}, "finite"),
        ({"decision_threshold": np.array([0.1, 0.2])}, "decision_threshold"),
    ],
)
def test_decisions_that_cannot_be_are_refused(forest: RFD, damage: dict, words: str, tmp_path: Path) -> None:
    sealable = forest.calibrate()._sealable()
    for name, array in damage.items():
        object.__setattr__(sealable, name, array)
    seal(sealable, str(tmp_path / "own.zarr"))
    with pytest.raises(ArtifactError, match=words):
        open_forest(str(tmp_path / "own.zarr"))


def test_another_fit_and_a_merge_forget_decisions(forest: RFD) -> None:
    forest.calibrate().set_threshold(0.5)
    assert merge([forest, rfd(random_state=1).fit(X, Y.astype(str))]).forest_.calibration is None
    forest.fit(X, Y)
    assert not hasattr(forest, "calibration_")
    assert not hasattr(forest, "threshold_")


def test_what_is_not_there_yet_says_what_to_call(forest: RFD) -> None:
    for ask, cure in ((forest.predict_pairs, "set_threshold"), (forest.predict_proba_pairs, "calibrate")):
        with pytest.raises(NotFittedError, match=cure):
            ask(X[:1], X[1:2])
    with pytest.raises(NotFittedError, match="calibrate"):
        forest.threshold(fpr=0.1)
    with pytest.raises(NotFittedError):
        RFD().calibrate()


def test_forests_that_know_all_identities_are_refused_with_the_cure() -> None:
    with pytest.raises(InputError, match=r"hold out identities.*max_samples"):
        RFD(20, random_state=0).fit(X, Y).calibrate()
    with pytest.raises(InputError, match="median"):
        TreeRank(5, n_pairs=200, aggregation="median", random_state=0).fit(X, Y).calibrate()
    with pytest.raises(InputError, match="pair_columns"):
        rfd(pair_columns=["whitened"]).fit(X, Y).calibrate()


def test_bad_calls_are_refused(forest: RFD, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="X and y"):
        forest.calibrate(X_NEW)
    with pytest.raises(InputError, match="y: "):
        forest.calibrate(X_NEW, Y_NEW[1:])
    with pytest.raises(InputError, match="identities: "):
        forest.calibrate(identities=Y[1:])
    with pytest.raises(InputError, match="similar: "):
        forest.calibrate_pairs(X, PAIRS, SIMILAR[1:])
    with pytest.raises(InputError, match="finite"):
        forest.set_threshold(np.nan)
    forest.save(tmp_path / "own.zarr")
    with pytest.raises(InputError, match="X and y"):
        load(tmp_path / "own.zarr").calibrate()
