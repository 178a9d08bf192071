"""Targets and embeddings of which a few values are enormous; dates."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import r2_score

from distforest import SMERF, Embedding, Labels, SimForestClassifier, SimForestRegressor, Targets, load
from distforest.errors import InputError
from distforest.jobs.input_staging import stage_inputs
from tests.estimators.jobs import run_job, spec_of, write_arrays
from tests.messages import naming
from tests.reference import naive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RNG = np.random.default_rng(0)
ROWS = RNG.random((400, 5))
AMOUNTS = 100.0 * np.sin(2.0 * np.pi * ROWS[:, 0]) * ROWS[:, 1] + 20.0 * ROWS[:, 2] + RNG.normal(0.0, 2.0, 400)
X, QUERIES = ROWS[:200], ROWS[200:]
Y, TRUE = AMOUNTS[:200], AMOUNTS[200:]
FAR = 17
"""The row of the enormous value."""

FORESTS: dict[str, Callable[[np.ndarray], Any]] = {
    "targets": lambda y: SMERF(40, max_features=None, random_state=0).fit(X, Targets(y)),
    "targets in bins": lambda y: SMERF(40, max_features=None, max_bins=64, random_state=0).fit(X, Targets(y)),
    "targets at random places": lambda y: SMERF(40, max_features=None, splitter="random", random_state=0).fit(
        X, Targets(y)
    ),
    "embedding": lambda y: SMERF(40, max_features=None, random_state=0).fit(X, Embedding(np.column_stack([Y, y]))),
    "similarities": lambda y: SimForestRegressor("rbf", n_estimators=40, random_state=0).fit(X, y),
}


def with_far(value: float) -> np.ndarray:
    return np.where(np.arange(len(Y)) == FAR, value, Y)


def predicted(forest: Any) -> tuple[np.ndarray, np.ndarray]:
    """What a forest predicts of the queries that share no leaf with the enormous value, and the truth."""
    found = forest.predict(QUERIES)
    ordinary = np.abs(found).reshape(len(QUERIES), -1).max(axis=1) < 1e4
    assert ordinary.mean() > 0.8
    return found.reshape(len(QUERIES), -1)[ordinary, 0], TRUE[ordinary]


@cache
def score_beside(name: str, value: float) -> float:
    found, true = predicted(FORESTS[name](with_far(value)))
    return float(r2_score(true, found))


@pytest.mark.parametrize("name", FORESTS)
@pytest.mark.parametrize("value", [1e13, 1e17, -1e20, 1e100])
def test_an_enormous_value_hides_no_other(name: str, value: float) -> None:
    plain = score_beside(name, 1e9)  # where the one scale has digits enough
    assert plain > 0.65
    assert score_beside(name, value) > plain - 0.03


@pytest.mark.parametrize("value", [1e17, 1e20])
def test_an_enormous_value_costs_no_more_than_in_a_random_forest(value: float) -> None:
    peer = RandomForestRegressor(40, random_state=0).fit(X, with_far(value))
    found, true = predicted(peer)
    assert score_beside("targets", value) > r2_score(true, found) - 0.03


def test_distances_of_ordinary_rows_are_those_beside_a_smaller_value() -> None:
    rows, pairs = np.flatnonzero(np.arange(len(X)) != FAR), np.triu_indices(len(X) - 1, 1)
    true = (Y[rows, None] - Y[rows])[pairs] ** 2
    found = [FORESTS["targets"](with_far(value)).distance(X[rows])[pairs] for value in (1e9, 1e20)]
    ranks = [spearmanr(one, true)[0] for one in found]
    assert ranks[1] > ranks[0] - 0.03


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 1e9])
def test_means_and_spreads_of_nodes_keep_the_digits_of_their_rows(shift: float) -> None:
    y = with_far(1e20) + shift
    forest = SMERF(3, random_state=0).fit(X, Targets(y)).forest_
    table = forest.table
    for tree in range(3):
        own = slice(table.tree_start[tree], table.tree_start[tree + 1])
        shape = {"left": table.left[own], "right": table.right[own]}
        given = (shape, forest.leaves[tree], y[:, None])
        means, _ = naive.means(*given, forest.in_bag[tree])
        np.testing.assert_allclose(forest.leaf_table.means[own], means, rtol=1e-13)
        spreads = naive.spreads(*given, forest.in_bag[tree])
        np.testing.assert_allclose(forest.leaf_table.spreads[own], spreads, rtol=1e-9, atol=1e-12 * max(1.0, shift))


def test_values_that_are_all_equal_but_one_are_predicted_as_they_are() -> None:
    y = np.where(np.arange(len(X)) == FAR, 1e20, 100.0)
    assert np.median(SMERF(10, random_state=0).fit(X, Targets(y)).predict(QUERIES)) == 100.0


def test_a_forest_beside_an_enormous_value_is_the_same_with_any_number_of_threads_and_as_a_job(tmp_path: Path) -> None:
    y = with_far(1e20)
    plain, threads = (SMERF(6, random_state=0, n_jobs=n).fit(X, Targets(y)) for n in (None, 2))
    at = write_arrays(f"{tmp_path}/data.zarr", {"X": X, "y": y})
    inputs = {"features": at["X"], "distances": {"kind": "targets", "values": at["y"]}}
    spec = spec_of(tmp_path, "smerf", inputs, n_estimators=6)
    assert plain.digest_ == threads.digest_ == run_job(spec).digest
    assert load(spec.output).predict(QUERIES).tobytes() == plain.predict(QUERIES).tobytes()


@pytest.mark.parametrize("method", ["smerf", "simforest"])
def test_a_job_refuses_what_has_no_square(method: str, tmp_path: Path) -> None:
    at = write_arrays(f"{tmp_path}/data.zarr", {"X": X, "beyond": with_far(1e200)})

    own: dict[str, Any] = {"distances": {"kind": "targets", "values": at["beyond"]}, "features": at["X"]}
    if method == "simforest":
        own = {"similarity": {"kind": "linear", "features": at["X"]}, "targets": at["beyond"]}
    with pytest.raises(InputError, match=naming("targets", "1e-150", "1e150", "1e+200", "row 17")):
        stage_inputs(spec_of(tmp_path, method, own), f"{tmp_path}/job")


@pytest.mark.parametrize("value", [1e200, -1e305])
def test_a_value_whose_square_has_no_float_is_refused_with_its_row(value: float) -> None:
    for one in (FORESTS["targets"], FORESTS["embedding"], FORESTS["similarities"]):
        with pytest.raises(InputError, match=naming(f"{value:g}", "row 17")):
            one(with_far(value))


# --- dates ------------------------------------------------------------------------------------------------

DAYS = np.datetime64("2020-01-01") + (1000 * X[:, 0]).astype("timedelta64[D]")


@pytest.mark.parametrize("unit", ["D", "s", "ns"])
def test_dates_are_read_and_predicted_in_their_own_unit(unit: str) -> None:
    dates, days = DAYS.astype(f"datetime64[{unit}]"), {"D": 1.0, "s": 86400.0, "ns": 86400e9}[unit]
    for forest in (
        SMERF(10, random_state=0).fit(X, Targets(dates)),
        SimForestRegressor("linear", n_estimators=10, random_state=0).fit(X, dates),
    ):
        found = forest.predict(X)
        assert np.abs(found / days - DAYS.astype(float)).mean() < 60
        again = found.astype(f"datetime64[{unit}]")
        assert np.abs(again - dates).mean() < np.timedelta64(60, "D")
    assert SMERF(10, random_state=0).fit(X, Targets(dates)).score(X, Targets(dates)) > 0.8
    durations = SMERF(10, random_state=0).fit(X, Targets(dates - dates[0]))
    assert np.abs(durations.predict(X) / days).max() < 1000


@pytest.mark.parametrize("unit", ["D", "ns"])
def test_dates_without_a_word_are_refused_and_targets_are_named(unit: str) -> None:
    dates = DAYS.astype(f"datetime64[{unit}]")
    with pytest.raises(InputError, match=naming(f"datetime64[{unit}]", "Targets(y)")):
        SMERF(2).fit(X, dates)
    with pytest.raises(
        InputError, match=naming("row 0", "datetime.date(2021, 9, 28)", "Targets(numpy.array(y, 'datetime64[s]'))")
    ):
        SMERF(2).fit(X, DAYS.astype(object))
    with pytest.raises(InputError, match=naming("targets", "datetime.date")):
        SimForestRegressor("linear").fit(X, DAYS.astype(object))
    for one in (lambda: SimForestClassifier("linear").fit(X, dates), lambda: SMERF(2).fit(X, Labels(dates))):
        with pytest.raises(InputError, match=naming("labels", "Labels(y.astype(str))")):
            one()


@pytest.mark.parametrize("unit", ["D", "ns"])
def test_a_date_that_is_missing_is_refused_with_its_row(unit: str) -> None:
    dates = DAYS.astype(f"datetime64[{unit}]")
    dates[[7, 9]] = "NaT"
    refused: list[Callable[[], Any]] = [
        lambda: SMERF(2).fit(X, Targets(dates)),
        lambda: SMERF(2).fit(X, Embedding(dates[:, None])),
        lambda: SMERF(2).fit(X, Targets(dates - dates[0])),
        lambda: SimForestRegressor("linear").fit(X, dates),
    ]
    for one in refused:
        with pytest.raises(InputError, match=naming(2, "NaT", "row 7")):
            one()
