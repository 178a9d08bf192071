"""A forest that has learned nothing says so, what follows, and why; one that has learned says nothing."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

from distforest import (
    RFD,
    SMERF,
    Embedding,
    Graph,
    Labels,
    Lazy,
    SimForestClassifier,
    SimForestOutlier,
    SimForestRegressor,
    Targets,
    TreeRank,
    URerF,
    pairwise,
)
from distforest.growth.methods import METHODS
from distforest.growth.parameters import complete
from distforest.growth.problem import Data
from distforest.jobs.cluster import Here
from distforest.jobs.on_dask import local_cluster
from distforest.jobs.staging import from_data
from distforest.jobs.train import Options, fit
from distforest.sources.row_kinds import Dense
from distforest.sources.truth import TruthKind
from distforest.stores.folder import Folder
from tests.estimators.rows import DISTANCES, POINTS, X

FEW: dict[str, Any] = {"n_estimators": 8, "random_state": 0}
HALVES = (POINTS[:, 0] > 0).astype(int)
ONES, SAME = np.ones((40, 3)), np.ones((40, 40))
LINKS = (DISTANCES < 0.5) & ~np.eye(40, dtype=bool)
ONE_ALIKE, TWO = np.array([[0, 1], [2, 3]]), np.array([True, False])
RARE = np.where(np.arange(40) == 7, "b", "a")

ALL = "no tree has a split, so every distance is the same"
BOTH = f"{ALL}, and every prediction"
CONSTANT = r"all features are constant \(check how they were read\)"
ALIKE = r"the similarities are the same for all rows \(check how they were read\)"
CLASS = r"all labels are 'a' \(give rows of a second class\)"
LEAF = r"a tree draws 40 rows, too few for two sides of min_samples_leaf=30 \(lower it\)"
TURNED = "rows are further from themselves than from others, so these may be similarities"


@pytest.mark.parametrize(
    ("forest", "rows", "truth", "told"),
    [
        (SMERF(**FEW), ONES, HALVES, f"{BOTH}: {CONSTANT}$"),
        (SMERF(**FEW, max_bins=8), ONES, HALVES, f"{BOTH}: {CONSTANT}$"),
        (SMERF(**FEW), POINTS, ["a"] * 40, f"{BOTH}: {CLASS}$"),
        (SMERF(**FEW), POINTS, Targets(np.full(40, 2.5)), f"{BOTH}: all targets are 2.5 "),
        (SMERF(**FEW), POINTS, Embedding(np.ones((40, 2))), f"{BOTH}: all places in the embedding are equal "),
        (SMERF(**FEW), POINTS, SAME, f"{ALL}: all distances that were given are 1 "),
        (SMERF(**FEW), POINTS, 3e9 * SAME, f"{ALL}: all distances that were given are 3e\\+09 "),
        (SMERF(**FEW), POINTS, np.eye(40) + 0.1, f"{ALL}: {TURNED}"),
        (SMERF(**FEW), POINTS, np.abs((X @ X.T)[:40, :40]), f"{ALL}: {TURNED}"),
        (SMERF(**FEW, min_samples_leaf=30), POINTS, HALVES, f"{BOTH}: {LEAF}$"),
        (SMERF(**FEW, min_samples_split=41), ONES, HALVES, f"min_samples_split=41 .*lower it.; {CONSTANT}$"),
        (SMERF(**FEW, max_samples=1), POINTS, HALVES, rf"{BOTH}: a tree draws one row \(raise max_samples\)$"),
        (
            SMERF(**FEW, max_samples=5),
            POINTS,
            RARE,
            "trees have no split, .*: all but 1 of 40 labels are 'a', and a tree",
        ),
        (
            SMERF(**FEW, feature_weights=[1.0, 0.0, 0.0]),
            POINTS * [0, 1, 1],
            HALVES,
            "all features of positive weight are constant",
        ),
        (
            URerF(**FEW),
            POINTS,
            None,
            "every distance is 0: a tree draws 32 rows, and min_samples_split=50 makes them one",
        ),
        (URerF.paper(**FEW), POINTS, None, "a tree draws 40 rows, and min_samples_split=100 makes them one leaf"),
        (URerF(**FEW, min_samples_split=2), ONES, None, f"every distance is 0: {CONSTANT}$"),
        (RFD(**FEW), ONES, HALVES, f"{ALL}: {CONSTANT}$"),
        (
            RFD(**FEW, min_samples_leaf=10**6),
            POINTS,
            HALVES,
            r"a tree draws [\d,]+ pairs, too few for two sides of min",
        ),
        (TreeRank(**FEW), ONES, HALVES, f"no tree has a split, so every similarity is the same: {CONSTANT}$"),
        (TreeRank(**FEW, leafrank="linear"), ONES, HALVES, f"every similarity is the same: {CONSTANT}$"),
        (TreeRank(**FEW, min_samples_split=10**6), POINTS, HALVES, r"pairs, and min_samples_split=1000000 makes them"),
        (TreeRank(**FEW, optimise_fpr=0.0), POINTS, HALVES, "optimise_fpr=0.0 lets no cell be parted"),
        (SimForestClassifier(**FEW), SAME, HALVES, f"{BOTH}: {ALIKE}$"),
        (SimForestClassifier(**FEW), np.nan * SAME, HALVES, f"{BOTH}: 100 % of the similarities are unobserved"),
        (SimForestClassifier(**FEW), POINTS @ POINTS.T, ["a"] * 40, f"{BOTH}: {CLASS}$"),
        (
            SimForestClassifier(**FEW),
            scipy.sparse.csr_array(LINKS),
            HALVES,
            r"the .* % of the similarities that are obs",
        ),
        (SimForestClassifier(**FEW, voting="nearest"), SAME, HALVES, "every distance is the same, and the most"),
        (SimForestClassifier("rbf", **FEW), ONES, HALVES, f"{BOTH}: {CONSTANT}$"),
        (SimForestRegressor(**FEW), POINTS @ POINTS.T, np.zeros(40), f"{BOTH}: all targets are 0 "),
        (SimForestOutlier(**FEW), SAME, None, f"every score is the same, and every distance is 0: {ALIKE}$"),
    ],
)
@pytest.mark.filterwarnings("ignore:distances. most rows are nearer to each other than to themselves")
def test_what_follows_and_why(forest: BaseEstimator, rows: Any, truth: Any, told: str) -> None:
    with pytest.warns(UserWarning, match=told) as found:
        forest.fit(rows, truth)
    assert {warning.filename for warning in found} == {__file__}


def test_a_cause_that_is_not_known_is_not_made_up() -> None:
    linked = (HALVES[:, None] == HALVES) - np.eye(40)  # two cliques, in which all are far apart if these are distances
    with pytest.warns(UserWarning, match="each split that was tried raises the mean distance inside its sides"):
        SMERF(**FEW).fit(HALVES[:, None], linked)
    asked = Lazy(pairwise(lambda a, b: 1.0))
    with pytest.warns(
        UserWarning, match="the cause is neither values that are all the same nor a rule that stops trees"
    ):
        SimForestClassifier(asked, n_estimators=3, random_state=0).fit(list(range(12)), [0, 1] * 6)


def test_few_pairs_of_which_a_tree_draws_one_kind() -> None:
    with pytest.warns(UserWarning, match="are seldom of both kinds|a tree draws one pair .give more pairs"):
        TreeRank(**FEW, min_samples_leaf=1).fit_pairs(POINTS, ONE_ALIKE, TWO)


def test_what_pruning_has_taken_is_told() -> None:
    rng = np.random.default_rng(3)
    rows, labels = rng.normal(size=(60, 1)), rng.integers(0, 2, 60)
    forest = TreeRank(3, n_pairs=200, max_depth=2, random_state=0).fit(rows, labels)
    with pytest.warns(UserWarning, match="2 of 3 trees have no split, .* pruning has removed their splits, which gain"):
        forest.set_params(pruning_folds=3).fit(rows, labels)


@pytest.mark.parametrize("load_data", [load_iris, load_wine, load_breast_cancer])
def test_nothing_is_told_of_data_that_can_be_learned(load_data: Any) -> None:
    rows, labels = load_data(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for forest in (SMERF(**FEW), RFD(**FEW), TreeRank(4, n_pairs=2000, random_state=0)):
            forest.fit(rows, labels)
        URerF(**FEW).fit(rows)
        SimForestClassifier(**FEW).fit(rows @ rows.T, labels)
        SimForestOutlier(**FEW).fit(rows @ rows.T)


def test_some_roots_are_legal() -> None:
    """One row in three hundred has a label of its own, which about a third of the trees do not draw."""
    rows = np.random.default_rng(0).normal(size=(300, 4))
    forest = SMERF(30, random_state=0).fit(rows, np.arange(300) == 5)
    assert 5 <= (forest.forest_.table.tree_size == 1).sum() <= 15


def test_a_graph_is_not_told_of() -> None:
    SMERF(**FEW).fit(POINTS, Graph(LINKS.astype(float)))
    SMERF(**FEW).fit(POINTS, Labels(HALVES))
    SimForestClassifier(**FEW).fit(LINKS.astype(float), HALVES)


@pytest.mark.cluster
def test_a_client_tells_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTFOREST_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with local_cluster(workers=1, folder=tmp_path) as cluster:
        forest = URerF(**FEW, client=cluster.client)
        with pytest.warns(
            UserWarning, match="a tree draws 32 rows, and min_samples_split=50 makes them one leaf"
        ) as own:
            forest.fit(POINTS)
    assert [warning.filename for warning in own] == [__file__]


def _judged(observed: float) -> tuple[np.ndarray, np.ndarray]:
    """Distances of 90 objects of 3 classes, of which a share is observed."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 30)
    place = truth + rng.normal(scale=0.5, size=90)
    apart = np.abs(place[:, None] - place)
    lost = np.triu(rng.random(apart.shape) > observed, 1)
    return np.where(lost | lost.T, np.nan, apart), truth


STAY = r"objects lack similarities: 8\d % of their ways end at the root of a tree"


@pytest.mark.parametrize(
    ("forest", "cure"),
    [
        (SimForestClassifier(kind="distance", **FEW), r"predicts the same for all \(set on_missing='surrogate'"),
        (SimForestRegressor(kind="distance", **FEW), r"predicts the same for all \(set on_missing='surrogate'"),
        (SimForestOutlier(kind="distance", **FEW), r"all have the same score \(observe more pairs"),
    ],
)
def test_objects_that_stay_at_the_root_are_told_of(forest: BaseEstimator, cure: str) -> None:
    apart, truth = _judged(0.35)
    with pytest.warns(UserWarning, match=f"{STAY}, where (it )?{cure}"):
        forest.fit(apart, truth)


@pytest.mark.parametrize(("observed", "rule"), [(1.0, "stop"), (0.65, "stop"), (0.35, "larger"), (0.35, "surrogate")])
def test_forests_in_which_objects_go_on_say_nothing(observed: float, rule: str) -> None:
    apart, truth = _judged(observed)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        SimForestClassifier(kind="distance", on_missing=rule, **FEW).fit(apart, truth)
    assert told == []


def test_a_score_out_of_bag_that_is_no_better_than_one_answer_is_told_of() -> None:
    noise, truth = np.random.default_rng(0).normal(size=(60, 60)), np.repeat([0, 0, 1], 20)
    noise += noise.T
    np.fill_diagonal(noise, 9.0)
    with pytest.warns(UserWarning, match=r"no more than by answering the largest class always \(0.67\)"):
        SimForestClassifier(oob_score=True, random_state=0).fit(noise, truth)
    with pytest.warns(UserWarning, match=r"R2 is -\d.\d\d out of bag, no better than always answering the mean"):
        SimForestRegressor(oob_score=True, random_state=0).fit(noise, np.random.default_rng(1).normal(size=60))


def test_jobs_and_workers_tell_of_objects_that_stay(tmp_path: Path) -> None:
    apart, truth = _judged(0.35)
    data = Data(Dense.of(apart.shape, "distance"), -(apart**2) / 2, TruthKind.LABELS, truth, ("0", "1", "2"))
    job = Folder(str(tmp_path / "job"))
    inputs = from_data(
        data, "simforest", complete(METHODS["simforest"].parameters, {"n_estimators": 8}), 0, job.address
    )
    done = fit(inputs, str(tmp_path / "forest.zarr"), job, Here(1), Options())
    assert [told.split(" of a tree")[0][-15:] for told in done.warnings] == ["end at the root"]
