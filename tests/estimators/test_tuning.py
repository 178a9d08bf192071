"""Tuning: cells have the scores of forests that are grown for them, and what is odd about a choice is told."""

from __future__ import annotations

import csv
import json
import math
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.stats import spearmanr
from sklearn.metrics import average_precision_score, roc_auc_score

from distforest import SMERF, Graph, URerF, tune
from distforest.errors import DistforestWarning, InputError
from distforest.evaluation import grids
from distforest.forest.scoring import out_of_bag_distance
from tests.messages import naming
from tests.simulated import radial

DATA = radial(60, p=6, random_state=0)
LABELS = (DATA.y > np.median(DATA.y)).astype(int)
GRID = {"max_features": [1, 6], "min_samples_split": [2, 4, 16], "max_depth": [None, 3]}


def test_cells_are_scored_and_the_best_is_fitted() -> None:
    found = tune(SMERF(90, oob_score=True, random_state=0), GRID, DATA.X, DATA.Z)
    assert found.n_fits_ == 3
    assert len(found.cv_results_["params"]) == 12
    assert found.best_params_["max_features"] == 6
    assert found.best_score_ == max(found.cv_results_["neg_root_mean_squared_error"])
    ranks = found.cv_results_["rank_neg_root_mean_squared_error"]
    assert ranks[found.best_index_] == 1
    assert sorted(ranks) == [*range(1, 13)]
    grown = SMERF(90, oob_score=True, random_state=0, **found.best_params_).fit(DATA.X, DATA.Z)
    assert found.best_estimator_.digest_ == grown.digest_
    assert found.best_estimator_.oob_rmse_ > 0.0


@pytest.mark.parametrize("truth", [DATA.Z, LABELS], ids=["distances", "labels"])
def test_the_scores_of_the_loosest_cell_are_those_of_its_forest(truth: Any) -> None:
    found = tune(SMERF(30, random_state=1), {"min_samples_split": [8, 2]}, DATA.X, truth)
    forest = SMERF(30, random_state=1).fit(DATA.X, truth)
    left, right = np.triu_indices(60, 1)
    estimate, count = out_of_bag_distance(forest.forest_, left, right)
    known = count > 0
    true = (LABELS[left] != LABELS[right]) * 1.0 if truth is LABELS else DATA.Z[left, right]
    true, estimate = true[known], estimate[known]
    own = {name: found.cv_results_[name][1] for name in grids.SCORINGS}
    assert own["neg_root_mean_squared_error"] == pytest.approx(-np.sqrt(np.mean((true - estimate) ** 2)))
    assert own["spearman"] == pytest.approx(spearmanr(true, estimate)[0])
    if truth is LABELS:
        assert own["roc_auc"] == pytest.approx(roc_auc_score(true == 0.0, -estimate))
        assert own["average_precision"] == pytest.approx(average_precision_score(true == 0.0, -estimate))
    else:
        assert math.isnan(own["roc_auc"])
        assert math.isnan(own["average_precision"])


@pytest.mark.slow
def test_trees_that_stop_earlier_score_as_trees_that_were_grown_so() -> None:
    """On average over seeds, within three standard errors."""
    params: dict[str, Any] = {"min_samples_split": 16}
    differences = []
    for seed in range(40):
        shared = tune(SMERF(20, random_state=seed), {"min_samples_split": [2, 16]}, DATA.X, DATA.Z)
        grown = tune(SMERF(20, random_state=seed), {key: [value] for key, value in params.items()}, DATA.X, DATA.Z)
        one, other = (found.cv_results_["neg_root_mean_squared_error"][-1] for found in (shared, grown))
        differences.append(one - other)
    error = np.std(differences, ddof=1) / np.sqrt(len(differences))
    assert error > 0.0
    assert abs(np.mean(differences)) < 3.0 * error


def test_links_are_found_by_areas() -> None:
    links = (np.abs(DATA.y[:, None] - DATA.y) < 0.05).astype(float)
    np.fill_diagonal(links, 0.0)
    grid = {"max_features": [1, 6]}
    for scoring in ("roc_auc", "average_precision"):
        found = tune(SMERF(30, random_state=0), grid, DATA.X, Graph(links), scoring=scoring)
        assert found.best_score_ == max(found.cv_results_[scoring])
        assert 0.0 < found.best_score_ <= 1.0
    sparse = tune(SMERF(30, random_state=0), grid, DATA.X, Graph(scipy.sparse.csr_array(links)), scoring=scoring)
    assert sparse.cv_results_[scoring] == pytest.approx(found.cv_results_[scoring])


@pytest.mark.filterwarnings("ignore:DF012 oob_score")
def test_without_all_distances_or_with_weights_each_cell_is_grown() -> None:
    holes = DATA.Z.copy()
    holes[3, 9] = holes[9, 3] = np.nan
    grid = {"min_samples_split": [2, 8]}
    assert tune(SMERF(10, random_state=0), grid, DATA.X, holes).n_fits_ == 2  # the best is one of them
    weights = np.tile([1, 2, 0], 20)
    found = tune(SMERF(60, random_state=0), grid, DATA.X, DATA.Z, sample_weight=weights)
    assert found.n_fits_ == 2
    grown = SMERF(60, oob_score=True, random_state=0).fit(DATA.X, DATA.Z, weights)
    assert found.cv_results_["neg_root_mean_squared_error"][0] == pytest.approx(-grown.oob_rmse_)


def test_the_best_is_not_grown_twice() -> None:
    """If its trees stop last, it is the forest that was scored; its warnings are given, and only its own."""
    labels = np.arange(60)
    grid = {"min_samples_split": [2], "max_features": [1, 6]}
    with pytest.warns(DistforestWarning, match=naming("DF007", 60, "Targets(y)")) as told:
        found = tune(SMERF(60, random_state=0), grid, DATA.X, labels)
    assert len(told) == 1
    assert found.n_fits_ == 2
    with pytest.warns(DistforestWarning, match=naming("DF007", 60, "Targets(y)")):
        grown = SMERF(60, random_state=0, **found.best_params_).fit(DATA.X, labels)
    assert found.best_estimator_.digest_ == grown.digest_
    assert found.best_estimator_.get_params() == grown.get_params()


def test_trees_without_splits_are_not_chosen_without_a_warning() -> None:
    """No feature says anything, so all cells are the same trees; of equal cells one with splits is chosen."""
    flat = np.ones((60, 2), np.float32)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        tune(SMERF(10, random_state=0), {"min_samples_split": [2, 8]}, flat, DATA.Z)
    messages = [str(one.message) for one in told]
    assert any("2 cells" in message for message in messages)
    assert any("best cell" in message for message in messages)
    scored = [grids.ScoredCell({"spearman": 0.5}, splits) for splits in (False, True, True)]
    best, told = grids.best_cell(scored, "spearman")
    assert best == 1
    assert re.search(naming("3 cells", 0.5), told[0])


def test_the_seed_of_all_cells_is_one() -> None:
    found = tune(SMERF(10), {"min_samples_split": [2, 9]}, DATA.X, DATA.Z)
    grown = SMERF(10, random_state=found.best_estimator_.random_state, **found.best_params_).fit(DATA.X, DATA.Z)
    assert grown.digest_ == found.best_estimator_.digest_


def test_few_of_many_rows_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grids, "MOST_SCORED_ROWS", 25)
    found = tune(SMERF(10, random_state=0), {"min_samples_split": [2, 9]}, DATA.X, DATA.Z)
    forest = SMERF(10, random_state=0).fit(DATA.X, DATA.Z).forest_
    assert len(grids.scored_rows(forest.n_training)) == 25
    assert math.isfinite(found.best_score_)


def test_the_table_is_printed_and_saved(tmp_path: Path) -> None:
    found = tune(SMERF(10, random_state=0), {"max_features": [1, 6]}, DATA.X, DATA.Z)
    lines = str(found).splitlines()
    assert lines[0].split()[:2] == ["max_features", "neg_root_mean_squared_error"]
    assert [line.startswith("*") for line in lines[1:]].index(True) == found.best_index_
    found.save(tmp_path / "cells.csv")
    with (tmp_path / "cells.csv").open(newline="") as file:
        rows = [*csv.reader(file)]
    assert rows[0] == found.columns
    assert float(rows[2][1]) == found.cv_results_["neg_root_mean_squared_error"][1]
    found.save(tmp_path / "cells.json")
    saved = json.loads((tmp_path / "cells.json").read_text())
    assert saved["cells"][1]["param_max_features"] == 6
    assert saved["cells"][0]["roc_auc"] is None
    assert saved["best"] == found.best_index_
    with pytest.raises(InputError, match=naming("cells.txt", ".csv", ".json")):
        found.save(tmp_path / "cells.txt")


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: tune(URerF(5), {"max_depth": [3]}, DATA.X, DATA.Z), ("estimator:", "SMERF", "URerF")),  # type: ignore[arg-type]
        (lambda: tune(SMERF(5), {}, DATA.X, DATA.Z), ("grid:", "dict")),
        (lambda: tune(SMERF(5), {"max_dept": [3]}, DATA.X, DATA.Z), ("grid:", "'max_dept'", "max_depth")),
        (lambda: tune(SMERF(5), {"max_depth": 3}, DATA.X, DATA.Z), ("grid:", "list", "'max_depth'", 3)),  # type: ignore[dict-item]
        (lambda: tune(SMERF(5), {"max_depth": [3]}, DATA.X, DATA.Z, scoring="r2"), ("scoring", "'roc_auc'", "'r2'")),
        (lambda: tune(SMERF(9), {"max_depth": [3]}, DATA.X, DATA.Z, scoring="roc_auc"), ("scoring='roc_auc'",)),
        (lambda: tune(SMERF(5, bootstrap=False), {"max_depth": [3]}, DATA.X, DATA.Z), ("pairs", "bootstrap=True")),
        (lambda: tune(SMERF(5), {"max_features": [0]}, DATA.X, DATA.Z), ("grid:", {"max_features": 0})),
    ],
)
def test_what_cannot_be_tuned_is_refused(call: Any, named: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        call()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_depth", -3),
        ("max_depth", 2.5),
        ("max_depth", True),
        ("min_samples_split", np.nan),
        ("min_samples_split", "x"),
    ],
)
def test_every_value_of_a_grid_is_one_that_a_fit_takes(name: str, value: Any) -> None:
    """Cells that share trees are not all fitted, so that only the loosest would be checked otherwise."""
    with pytest.raises(InputError, match=naming("grid:", {name: value})):
        tune(SMERF(4, random_state=0), {name: [4, value]}, DATA.X, DATA.Z)


def test_a_grid_takes_arrays_of_weights_and_numbers_of_numpy() -> None:
    grid = {"feature_weights": [None, np.ones(DATA.X.shape[1])], "max_depth": np.array([2, 3])}
    assert len(tune(SMERF(20, random_state=0), grid, DATA.X, DATA.Z).cv_results_["params"]) == 4
