"""A forest that has learned nothing says so, what follows, and why; one that has learned says nothing."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

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
from distforest.errors import DistforestWarning
from distforest.growth.methods import METHODS
from distforest.growth.parameters import complete
from distforest.growth.problem import Data
from distforest.jobs.cluster import Threads
from distforest.jobs.input_staging import from_data
from distforest.jobs.train import Options, fit
from distforest.sources.row_kinds import Dense
from distforest.sources.truth import Truth, TruthKind
from distforest.stores.folder import Folder
from tests.estimators.caught_warnings import warnings_of
from tests.estimators.rows import DISTANCES, POINTS
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

    from distributed import Client

FEW: dict[str, Any] = {"n_estimators": 8, "random_state": 0}
HALVES = (POINTS[:, 0] > 0).astype(int)
ONES, SAME = np.ones((40, 3)), np.ones((40, 40))
LINKS = (DISTANCES < 0.5) & ~np.eye(40, dtype=bool)
ONE_ALIKE, TWO = np.array([[0, 1], [2, 3]]), np.array([True, False])
RARE = np.where(np.arange(40) == 7, "b", "a")

EQUAL = ("distance", "prediction", "similarity", "score", "0")
"""What may be the same for all that is asked: how a message names it, and that distances are 0."""

BOTH = {"distance", "prediction"}


@pytest.mark.parametrize(
    ("forest", "rows", "truth", "equal", "causes"),
    [
        (SMERF(**FEW), ONES, HALVES, BOTH, [("features",)]),
        (SMERF(**FEW, max_bins=8), ONES, HALVES, BOTH, [("features",)]),
        (SMERF(**FEW), POINTS, ["a"] * 40, BOTH, [("labels", "'a'")]),
        (SMERF(**FEW), POINTS, Targets(np.full(40, 2.5)), BOTH, [("targets", 2.5)]),
        (SMERF(**FEW), POINTS, Embedding(np.ones((40, 2))), BOTH, [("embedding",)]),
        (SMERF(**FEW), POINTS, SAME, {"distance"}, [("distances", 1)]),
        (SMERF(**FEW), POINTS, np.eye(40) + 0.1, {"distance"}, [("mean distance",)]),
        (SMERF(**FEW, min_samples_leaf=30), POINTS, HALVES, BOTH, [("40 rows", "min_samples_leaf=30")]),
        (SMERF(**FEW, min_samples_split=41), ONES, HALVES, BOTH, [("min_samples_split=41",), ("features",)]),
        (SMERF(**FEW, max_samples=1), POINTS, HALVES, BOTH, [("one row", "max_samples")]),
        (SMERF(**FEW, max_samples=5), POINTS, RARE, set(), [("1 of 40", "labels", "'a'", "max_samples")]),
        (SMERF(**FEW, feature_weights=[1.0, 0, 0]), POINTS * [0, 1, 1], HALVES, BOTH, [("features", "weight")]),
        (URerF(**FEW), POINTS, None, {"distance", "0"}, [("32 rows", "min_samples_split=50")]),
        (URerF(**FEW, min_samples_split=2), ONES, None, {"distance", "0"}, [("features",)]),
        (RFD(**FEW), ONES, HALVES, {"distance"}, [("features",)]),
        (RFD(**FEW, min_samples_leaf=10**6), POINTS, HALVES, {"distance"}, [("pairs", "min_samples_leaf=1000000")]),
        (TreeRank(**FEW), ONES, HALVES, {"similarity"}, [("features",)]),
        (TreeRank(**FEW, min_samples_split=10**6), POINTS, HALVES, {"similarity"}, [("min_samples_split=1000000",)]),
        (TreeRank(**FEW, optimise_fpr=0.0), POINTS, HALVES, {"similarity"}, [("optimise_fpr=0.0",)]),
        (SimForestClassifier(**FEW), SAME, HALVES, BOTH, [("similarities",)]),
        (SimForestClassifier(**FEW), np.nan * SAME, HALVES, BOTH, [("100 %", "similarities")]),
        (SimForestClassifier(**FEW), scipy.sparse.csr_array(LINKS), HALVES, BOTH, [("similarities", "observed")]),
        (SimForestClassifier(**FEW, voting="nearest"), SAME, HALVES, {"distance"}, [("similarities",)]),
        (SimForestClassifier("rbf", **FEW), ONES, HALVES, BOTH, [("features",)]),
        (SimForestOutlier(**FEW), SAME, None, {"score", "distance", "0"}, [("similarities",)]),
    ],
)
def test_what_follows_and_why(
    forest: BaseEstimator, rows: Any, truth: Any, equal: set[str], causes: list[tuple[object, ...]]
) -> None:
    [told] = warnings_of(lambda: forest.fit(rows, truth), "DF012")
    follows, why = told.removeprefix("DF012 ").split(": ")
    assert {name for name in EQUAL if name in follows} == equal
    for cause, named in zip(why.split("; "), causes, strict=True):
        assert re.search(naming(*named), cause)


def test_a_cause_that_is_not_known_is_not_made_up() -> None:
    linked = (HALVES[:, None] == HALVES) - np.eye(40)  # two cliques, in which all are far apart if these are distances
    with pytest.warns(DistforestWarning, match="mean distance"):
        SMERF(**FEW).fit(HALVES[:, None], linked)
    asked = Lazy(pairwise(lambda a, b: 1.0))
    with pytest.warns(DistforestWarning, match=naming("DF012", "function")):
        SimForestClassifier(asked, n_estimators=3, random_state=0).fit(list(range(12)), [0, 1] * 6)


def test_few_pairs_of_which_a_tree_draws_one_kind() -> None:
    with pytest.warns(DistforestWarning, match="pair"):
        TreeRank(**FEW, min_samples_leaf=1).fit_pairs(POINTS, ONE_ALIKE, TWO)


def test_what_pruning_has_taken_is_reported() -> None:
    rng = np.random.default_rng(3)
    rows, labels = rng.normal(size=(60, 1)), rng.integers(0, 2, 60)
    forest = TreeRank(3, n_pairs=200, max_depth=2, leafrank_depth=5, max_features=None, random_state=0)
    forest.fit(rows, labels)
    with pytest.warns(DistforestWarning, match=naming("2 of 3 trees", "pruning")):
        forest.set_params(pruning_folds=3).fit(rows, labels)


@pytest.mark.slow
@pytest.mark.parametrize("load_data", [load_iris, load_wine, load_breast_cancer])
def test_data_that_can_be_learned_draw_no_warning(load_data: Any) -> None:
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


def test_a_graph_draws_no_warning() -> None:
    SMERF(**FEW).fit(POINTS, Graph(LINKS.astype(float)))
    SMERF(**FEW).fit(POINTS, Labels(HALVES))
    SimForestClassifier(**FEW).fit(LINKS.astype(float), HALVES)


@pytest.mark.slow
@pytest.mark.cluster
def test_a_client_tells_the_same(client: Client) -> None:
    forest = URerF(**FEW, client=client)
    with pytest.warns(DistforestWarning, match=naming(32, "min_samples_split=50")) as own:
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


@pytest.mark.parametrize(
    ("forest", "cure"),
    [
        (SimForestClassifier(kind="distance", on_missing="stop", **FEW), "on_missing other than 'stop'"),
        (SimForestRegressor(kind="distance", on_missing="stop", **FEW), "on_missing other than 'stop'"),
        (SimForestOutlier(kind="distance", **FEW), "contamination"),
    ],
)
def test_objects_that_stay_at_the_root_are_reported(forest: BaseEstimator, cure: str) -> None:
    apart, truth = _judged(0.35)
    with pytest.warns(DistforestWarning, match=rf"8\d %.*{cure}"):
        forest.fit(apart, truth)


@pytest.mark.parametrize(
    ("observed", "rule"), [(1.0, "stop"), (0.65, "stop"), (0.35, "larger"), (0.35, "surrogate"), (0.35, "mean")]
)
def test_forests_in_which_objects_go_on_say_nothing(observed: float, rule: str) -> None:
    apart, truth = _judged(observed)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        SimForestClassifier(kind="distance", on_missing=rule, **FEW).fit(apart, truth)
    assert told == []


def test_a_score_out_of_bag_that_is_no_better_than_one_answer_is_reported() -> None:
    noise, truth = np.random.default_rng(0).normal(size=(60, 60)), np.repeat([0, 0, 1], 20)
    noise += noise.T
    np.fill_diagonal(noise, 9.0)
    with pytest.warns(DistforestWarning, match=naming("DF012 oob_score:", 0.67)):
        SimForestClassifier(n_columns=1, oob_score=True, random_state=0).fit(noise, truth)
    with pytest.warns(DistforestWarning, match=r"^DF012 oob_score: R2 .* -\d\.\d\d "):
        SimForestRegressor(oob_score=True, random_state=0).fit(noise, np.random.default_rng(1).normal(size=60))


@pytest.mark.slow
def test_jobs_and_workers_tell_of_objects_that_stay(tmp_path: Path) -> None:
    apart, truth = _judged(0.35)
    data = Data(
        Dense.from_shape(apart.shape, "distance"), -(apart**2) / 2, Truth(TruthKind.LABELS, truth, ("0", "1", "2"))
    )
    job = Folder(str(tmp_path / "job"))
    inputs = from_data(
        data,
        "simforest",
        complete(METHODS["simforest"].parameters, {"n_estimators": 8, "on_missing": "stop"}),
        0,
        job.address,
    )
    done = fit(inputs, str(tmp_path / "forest.zarr"), job, Threads(1), Options())
    [told] = done.warnings
    assert re.search(r"8\d %.*on_missing other than 'stop'", told)
