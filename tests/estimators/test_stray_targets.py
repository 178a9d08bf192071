"""A few targets far from all others: what they do to the others is told, and ordinary targets are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.datasets import load_diabetes, load_linnerud

from distforest import SMERF, Embedding, SimForestRegressor, Targets
from distforest.errors import DistforestWarning
from distforest.growth.cuts.far_values import told_of_stray
from distforest.jobs.staging import stage_inputs
from tests.estimators.jobs import spec_of, write_arrays
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

N = 300
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).astype(np.float32)
Y = 100.0 + 10.0 * X[:, 0] + 5.0 * np.abs(X[:, 1]) + RNG.normal(0.0, 0.5, N)
FAR = np.where(np.arange(N) == 7, 1e6, Y)

ESTIMATORS: dict[str, Any] = {
    "similarities": lambda y: SimForestRegressor("manhattan", n_estimators=30, random_state=0).fit(X, y),
    "features": lambda y: SMERF(30, random_state=0).fit(X, Targets(y)),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_row_of_a_far_target_is_named(name: str) -> None:
    with pytest.warns(DistforestWarning, match=naming("targets:", "1e+06", "row 7", "100%")) as told:
        forest = ESTIMATORS[name](FAR)
    assert told[0].filename == __file__
    others = np.arange(N) != 7
    assert spearmanr(forest.predict(X)[others], Y[others])[0] > 0.6  # one enormous leaf mean hides no order
    ESTIMATORS[name](Y)  # of ordinary targets nothing is told


def test_sentinels_among_targets_are_counted() -> None:
    some = np.where(np.arange(N) % 100 == 5, -9999.0, Y)
    with pytest.warns(DistforestWarning, match=naming("targets:", "3 of 300", -9999, "row 5", "100%")):
        ESTIMATORS["similarities"](some)


def test_a_far_place_in_an_embedding_is_told() -> None:
    """Three of 300 places at -999 took the coefficient of determination out of bag from 0.4 to below 0."""
    places = np.where(np.arange(N)[:, None] % 100 == 5, -999.0, X[:, :2])
    places[:, 0] /= 10.0
    with pytest.warns(DistforestWarning, match=naming("column 1", "embedding", "3 of 300", -999, "row 5")):
        SMERF(5, random_state=0).fit(X, Embedding(places))
    for ordinary in (X, np.column_stack([Y, X]), RNG.lognormal(0.0, 1.0, (N, 2)), np.eye(3)[np.arange(N) % 3]):
        SMERF(5, random_state=0).fit(X, Embedding(ordinary))
    far_in_the_small = np.column_stack([1e6 * Y, FAR / 1e6])  # which decides nothing
    SMERF(5, random_state=0).fit(X, Embedding(far_in_the_small))


def test_the_far_targets_of_absolute_differences_are_told_with_what_these_lose() -> None:
    with pytest.warns(DistforestWarning, match=naming("targets:", "1e+06", "row 7", "99.8%", "absolute")):
        SMERF(5, random_state=0).fit(X, Targets(FAR, metric="absolute"))
    SMERF(5, random_state=0).fit(X, Targets(Y, metric="absolute"))


def test_a_job_tells_of_far_targets_of_absolute_differences(tmp_path: Path) -> None:
    at = write_arrays(f"{tmp_path}/in.zarr", {"X": X, "y": FAR})
    distances = {"kind": "targets", "values": at["y"], "metric": "absolute"}
    spec = spec_of(tmp_path, "smerf", {"features": at["X"], "distances": distances})
    with pytest.warns(DistforestWarning, match=naming("targets:", "1e+06", "row 7", "absolute")):
        stage_inputs(spec, f"{tmp_path}/job")


def test_a_job_tells_it_too(tmp_path: Path) -> None:
    at = write_arrays(f"{tmp_path}/in.zarr", {"S": X @ X.T, "y": FAR})
    spec = spec_of(tmp_path, "simforest", {"similarity": at["S"], "targets": at["y"]})
    with pytest.warns(DistforestWarning, match=naming("targets:", "1e+06", "row 7")):
        stage_inputs(spec, f"{tmp_path}/job")


ORDINARY: dict[str, np.ndarray] = {
    "diabetes": load_diabetes().target,
    "chins": load_linnerud().target[:, 0],
    "waists": load_linnerud().target[:, 1],
    "long tail": RNG.lognormal(0.0, 2.0, 3000),
    "incomes": RNG.pareto(1.5, 3000),
    "few claims": (RNG.random(3000) < 0.01) * RNG.lognormal(0.0, 1.5, 3000),
    "one event": (np.arange(3000) == 5).astype(float),
    "a second group": np.where(np.arange(300) % 25 == 0, 1e4, Y),
    "constant": np.ones(50),
    "three": np.array([0.0, 1.0, 1e6]),
    "two": np.array([0.0, 1e6]),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_of_ordinary_targets_nothing_is_told(name: str) -> None:
    assert not told_of_stray(ORDINARY[name].astype(float))


@pytest.mark.parametrize("scale", [1e-140, 1.0, 1e140])
def test_it_is_told_on_any_scale(scale: float) -> None:
    assert "row 7 " in told_of_stray(FAR * scale)
    assert told_of_stray(FAR, absolute=True) == told_of_stray(FAR * scale, absolute=True).replace(
        f"{1e6 * scale:.6g}", "1e+06"
    )
    assert not told_of_stray(Y * scale)
