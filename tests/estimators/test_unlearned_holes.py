"""Queries that lack what no training row lacked: told in Python and in jobs, with the columns and how many."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from distforest import RFD, SMERF, TreeRank, URerF, load
from distforest.errors import DistforestWarning
from distforest.forest.missing import LACKING, told_of_unlearned
from distforest.jobs.cluster import Here
from distforest.jobs.question import Question
from distforest.jobs.score import score
from distforest.sources.arrays import write_array
from tests.estimators.rows import HALVES, POINTS
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

KINDS: dict[str, Any] = {
    "smerf": lambda: SMERF(4, random_state=0),
    "bins": lambda: SMERF(4, max_bins=8, random_state=0),
    "at random": lambda: SMERF(4, splitter="random", random_state=0),
    "urerf": lambda: URerF(4, min_samples_split=4, random_state=0),
    "rfd": lambda: RFD(4, n_constraints=20, random_state=0),
    "treerank": lambda: TreeRank(2, n_pairs=200, max_depth=2, random_state=0),
}


def with_holes(*columns: int) -> np.ndarray:
    X = POINTS.astype(np.float64)
    for column in columns:
        X[3 * column : 3 * column + 2 + column, column] = np.nan
    return X


@pytest.mark.parametrize("name", KINDS)
def test_a_hole_that_training_did_not_know_is_told(name: str, tmp_path: Path) -> None:
    forest = KINDS[name]().fit(POINTS, HALVES)
    told = rf"^X: .*column 1 \(3 .*{len(POINTS)} .*column 0 \(2\)"
    with pytest.warns(DistforestWarning, match=told) as found:
        forest.transform(with_holes(0, 1))
    assert len(found) == 1
    address = str(tmp_path / "forest.zarr")
    forest.save(address)
    with pytest.warns(DistforestWarning, match=told):
        load(address).transform(with_holes(0, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        forest.transform(POINTS)
        forest.kneighbors()


@pytest.mark.parametrize("name", KINDS)
def test_a_hole_in_another_column_than_in_training_is_told_and_the_same_one_is_not(name: str, tmp_path: Path) -> None:
    forest = KINDS[name]().fit(with_holes(1), HALVES)
    assert forest.forest_.provenance[LACKING] == [1]
    address = str(tmp_path / "forest.zarr")
    forest.save(address)
    for one in (forest, load(address)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            one.transform(with_holes(1))
        with pytest.warns(DistforestWarning, match=naming("X:", "column 0 (2 ")):
            one.transform(with_holes(0, 1))


@pytest.mark.parametrize("name", ["smerf", "rfd"])
def test_a_job_tells_once_of_all_its_tasks(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distforest.jobs.score.ANSWERS_PER_TASK", 64)  # several tasks
    forest, address, data = KINDS[name]().fit(with_holes(2), HALVES), str(tmp_path / "f.zarr"), str(tmp_path / "d.zarr")
    forest.save(address)
    X = with_holes(0, 1, 2)
    X[0] = np.nan  # of which another warning tells
    write_array(data, "X", X.shape, X.dtype, [X])
    question = Question(address, f"{data}/X", "neighbors", n_neighbors=2)
    with pytest.warns(DistforestWarning, match=naming(f"{data}/X:")) as found:
        score(question, str(tmp_path / "a.zarr"), Here(2), True)
    assert len(found) == 2
    for told in (naming("row 0 of 40"), r"column 1 \(3 .*column 0 \(1\)"):
        assert sum(bool(re.search(told, str(one.message))) for one in found) == 1


def test_columns_are_told_by_their_names() -> None:
    pandas = pytest.importorskip("pandas")
    names = [f"size {k}" for k in range(POINTS.shape[1])]
    forest = SMERF(3, random_state=0).fit(pandas.DataFrame(POINTS, columns=names), HALVES)
    with pytest.warns(DistforestWarning, match=r"^X: .*'size 1' \(3 .*'size 0' \(2\)"):
        forest.apply(pandas.DataFrame(with_holes(0, 1), columns=names))


def test_a_forest_that_does_not_say_what_it_lacked_tells_nothing() -> None:
    forest = SMERF(3, random_state=0).fit(with_holes(1), HALVES)
    for entry in ({}, {LACKING: "columns"}):
        others = {key: value for key, value in forest.forest_.provenance.items() if key != LACKING}
        object.__setattr__(forest.forest_, "provenance", {**others, **entry})
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            forest.apply(with_holes(0))
        assert not told


def test_many_columns_are_counted() -> None:
    told = told_of_unlearned(dict.fromkeys(range(9), 1), 5)
    assert re.search(r"column 0 \(1 .* 5 .*column 1 \(1\).*column 2 \(1\).*column 3 \(1\).* 5 ", told)
    assert "column 4" not in told
    assert told_of_unlearned({}, 5) == ""


@pytest.mark.parametrize("name", ["smerf", "rfd"])
def test_a_category_that_the_forest_has_not_seen_is_told_as_such_alone(name: str) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": POINTS[:, 0], "colour": np.array(["red", "blue"], object)[HALVES]})
    forest = KINDS[name]().fit(frame, HALVES)
    frame.loc[3, "colour"] = "green"
    with pytest.warns(DistforestWarning, match=naming("column 'colour'", 1, "'green'")) as found:
        forest.transform(frame)
    assert len(found) == 1
