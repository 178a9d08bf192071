"""Queries that all lie far beyond the training rows in some column: told in Python and in jobs, with both ranges."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from distforest import (
    RFD,
    SMERF,
    SimForestClassifier,
    SimForestOutlier,
    SimForestRegressor,
    TreeRank,
    URerF,
    load,
    merge,
)
from distforest.errors import DistforestWarning
from distforest.forest.column_ranges import COLUMN_RANGES, FEWEST_QUERIES, MOST_RANGES, ColumnRanges
from distforest.jobs.cluster import Here
from distforest.jobs.question import Question
from distforest.jobs.score import score
from tests.estimators.jobs import write_arrays
from tests.estimators.rows import HALVES, POINTS, TARGETS
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

FEW = {"random_state": 0}
KINDS: dict[str, Any] = {
    "smerf": lambda X: SMERF(4, **FEW).fit(X, HALVES),
    "bins": lambda X: SMERF(4, max_bins=8, **FEW).fit(X, HALVES),
    "urerf": lambda X: URerF(4, min_samples_split=4, **FEW).fit(X),
    "rfd": lambda X: RFD(4, n_constraints=20, **FEW).fit(X, HALVES),
    "treerank": lambda X: TreeRank(2, n_pairs=200, max_depth=2, **FEW).fit(X, HALVES),
    "rbf": lambda X: SimForestClassifier("rbf", n_estimators=4, **FEW).fit(X, HALVES),
    "two similarities": lambda X: SimForestRegressor(["rbf", "manhattan"], n_estimators=4, **FEW).fit(X, TARGETS),
    "subsets": lambda X: SimForestClassifier("feature_subsets", n_estimators=4, **FEW).fit(X, HALVES),
    "outliers": lambda X: SimForestOutlier("manhattan", n_estimators=4, **FEW).fit(X),
}


def far(column: int, by: float = 1e3) -> np.ndarray:
    X = POINTS.astype(np.float64)
    X[:, column] += by
    return X


def ends(X: np.ndarray) -> str:
    """The range of the column that is judged, as messages give it."""
    return f"{X[:, 1].min():.6g} to {X[:, 1].max():.6g}"


TRAINED = ends(POINTS)


def answer(forest: Any, X: Any) -> None:
    forest.distance(X[:FEWEST_QUERIES], X[:FEWEST_QUERIES])


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_column_far_from_training_is_told(name: str, tmp_path: Path) -> None:
    forest = KINDS[name](POINTS)
    address = str(tmp_path / "forest.zarr")
    forest.save(address)
    for one in (forest, load(address)):
        with pytest.warns(
            DistforestWarning, match=naming("X:", "column 1", TRAINED, ends(far(1)[:FEWEST_QUERIES]))
        ) as found:
            answer(one, far(1))
        assert len({str(told.message) for told in found}) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            answer(one, POINTS)
            answer(one, POINTS[np.argsort(POINTS[:, 0])][::-1])  # rows at one end
            one.distance(far(1)[: FEWEST_QUERIES - 1])
            one.distance()
            some = far(1)
            some[3, 1] = POINTS[3, 1]
            answer(one, some)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["smerf", "rfd", "rbf"])
def test_a_job_tells_of_all_its_tasks_at_once(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distforest.jobs.score.ANSWERS_PER_TASK", 64)  # several tasks
    forest, address = KINDS[name](POINTS), str(tmp_path / "f.zarr")
    forest.save(address)
    some = far(1)
    some[-1, 1] = POINTS[-1, 1]
    at = write_arrays(f"{tmp_path}/d.zarr", {"far": far(1), "some": some})
    with pytest.warns(DistforestWarning, match=naming(f"{at['far']}:", "column 1", TRAINED, ends(far(1)))) as found:
        score(Question(address, at["far"], "neighbors", n_neighbors=2), str(tmp_path / "a.zarr"), Here(2), True)
    assert len(found) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        score(Question(address, at["some"], "neighbors", n_neighbors=2), str(tmp_path / "b.zarr"), Here(2), True)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_mark_that_training_lacked_is_told(name: str, tmp_path: Path) -> None:
    forest, address = KINDS[name](POINTS), str(tmp_path / "f.zarr")
    forest.save(address)
    some = POINTS.astype(np.float64)
    some[3, 1] = -9999
    mark = ("column 1", -9999, TRAINED, "NaN")
    with pytest.warns(DistforestWarning, match=naming("X:", *mark)):
        forest.distance(some[2:5], some[2:5])
    at = write_arrays(f"{tmp_path}/d.zarr", {"some": some})
    with pytest.warns(DistforestWarning, match=naming(f"{at['some']}:", *mark)):
        score(Question(address, at["some"], "neighbors", n_neighbors=2), str(tmp_path / "a.zarr"), Here(2), True)
    for number in (-9998.0, 1e20, np.nan):  # of which another warning may tell
        some[3, 1] = number
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DistforestWarning)
            warnings.filterwarnings("error", naming(f"{number:g}"))
            forest.distance(some[2:5], some[2:5])


def test_a_mark_of_training_is_none_of_queries() -> None:
    X = POINTS.astype(np.float64)
    X[::9, 1] = -9999
    forest = SMERF(4, **FEW).fit(X, HALVES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        forest.distance(X[::9], X)
    assert forest.forest_.ranges is not None
    whole = ColumnRanges.of(np.array([[0.0], [99.0]]))  # a column that goes on
    assert whole.told_of_marks(ColumnRanges.of(np.array([[999.0]]))) == ""
    assert whole.told_of_marks(ColumnRanges.of(np.zeros((3, 2)))) == ""


def test_columns_are_told_by_their_names_and_categories_are_not_judged() -> None:
    frame = pd.DataFrame({"size": POINTS[:, 0], "weight": POINTS[:, 1], "flag": HALVES > 0})
    frame["colour"] = pd.Categorical(np.array(["red", "blue"])[HALVES], ["red", "blue"])
    frame["seen"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(len(frame)), "D")
    forest = SMERF(4, **FEW).fit(frame, HALVES)
    assert forest.forest_.ranges is not None
    assert np.isnan(forest.forest_.ranges.greatest[3])
    queries = frame.assign(size=frame["size"] * 1000 + 5000, seen=frame["seen"].astype("int64"))
    with (
        pytest.warns(DistforestWarning, match=naming("column 'seen'", "dates")),
        pytest.warns(DistforestWarning, match=naming("'size'", "'seen'")),
    ):
        forest.apply(queries)


def test_ranges_are_those_of_the_rows_wherever_a_forest_is_grown(tmp_path: Path) -> None:
    X = POINTS.astype(np.float64)
    X[2, 0] = np.nan
    forest = SMERF(3, **FEW).fit(X, HALVES)
    known = {"least": np.nanmin(X, axis=0).astype("f4"), "greatest": np.nanmax(X, axis=0).astype("f4")}
    assert forest.forest_.provenance[COLUMN_RANGES] == {name: ends.tolist() for name, ends in known.items()}
    both = merge([forest, SMERF(3, random_state=1).fit(X, HALVES)])
    assert both.forest_.provenance[COLUMN_RANGES] == forest.forest_.provenance[COLUMN_RANGES]
    parts = [ColumnRanges.of(X[:5]), ColumnRanges.of(X[5:])]
    joined, whole = parts[0].joined(parts[1]), ColumnRanges.of(X)
    for one, other in zip(joined, whole, strict=True):
        assert np.array_equal(one, other)
    assert whole.lacks.tolist() == [True] + [False] * (X.shape[1] - 1)
    address = str(tmp_path / "forest.zarr")
    both.save(address)
    assert load(address).forest_.provenance[COLUMN_RANGES] == forest.forest_.provenance[COLUMN_RANGES]


def test_a_forest_that_does_not_know_its_ranges_tells_nothing() -> None:
    sparse = SMERF(3, max_features=None, **FEW).fit(scipy.sparse.csr_array(POINTS), HALVES)
    assert COLUMN_RANGES not in sparse.forest_.provenance
    assert ColumnRanges.of(np.zeros((1, MOST_RANGES + 1))).entry() == {}
    others = {"least": [0.0], "greatest": [1.0]}
    for entry in (None, "1", {"least": [0.0]}, {"least": ["a"], "greatest": [1]}, others):
        forest = SMERF(3, **FEW).fit(POINTS, HALVES)
        object.__setattr__(forest.forest_, "provenance", {**forest.forest_.provenance, COLUMN_RANGES: entry})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            forest.apply(far(1))


@pytest.mark.parametrize("n_columns", [1, 3, 700, 3000])
@pytest.mark.parametrize("n", [1, 2, 5, 2050, 4099])
def test_ranges_are_the_same_of_rows_side_by_side(n: int, n_columns: int) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(min(n, 9000 // n_columns + 1), n_columns)).astype(np.float32)
    matrix[rng.random(matrix.shape) < 0.2 / len(matrix)] = np.nan
    matrix[:, 0] = np.nan
    for given in (matrix, np.asfortranarray(matrix)):
        found = ColumnRanges.of(given)
        assert found.lacks.tolist() == np.isnan(matrix).any(axis=0).tolist()
        for end, ufunc in ((found.least, np.fmin), (found.greatest, np.fmax)):
            np.testing.assert_array_equal(end, ufunc.reduce(matrix, axis=0))
