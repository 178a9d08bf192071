"""What a fit has estimated: kept by save and load, and forgotten by the next fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from distforest import RFD, SMERF, SimForestClassifier, SimForestRegressor, TreeRank, load
from distforest.errors import DistforestWarning, InputError
from distforest.estimators.forest_estimator import ESTIMATED, WORKED_OUT
from distforest.forest import scoring
from tests.estimators.rows import SMALL, SMALL_Y
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

TARGETS = SMALL[:, 0] + 0.25
FITS: list[tuple[Any, Any, list[str]]] = [
    (SMERF(40, random_state=0), SMALL_Y, ["oob_score", "oob_rmse"]),
    (SimForestClassifier("linear", n_estimators=40, random_state=0), SMALL_Y, ["oob_score", "oob_decision_function"]),
    (SimForestRegressor("linear", n_estimators=40, random_state=0), TARGETS, ["oob_score", "oob_prediction"]),
    (RFD(40, n_constraints=50, random_state=0), SMALL_Y, ["oob_score"]),
    (TreeRank(2, n_pairs=200, max_depth=4, leafrank_depth=2, random_state=0), SMALL_Y, ["pruning"]),
]
ASKED = {"pruning": {"pruning_folds": 2}}


def said(forest: Any) -> dict[str, Any]:
    """What is there of all that may be estimated, in plain values."""
    names = [name for name in (*ESTIMATED, *WORKED_OUT) if hasattr(forest, f"{name}_")]
    found = {name: getattr(forest, f"{name}_") for name in names}
    return {name: own.to_dict() if name == "pruning" else np.asarray(own).tolist() for name, own in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("forest", "truth", "names"), FITS)
def test_estimates_come_back_and_are_forgotten_by_the_next_fit(
    forest: Any, truth: Any, names: list[str], tmp_path: Path
) -> None:
    asked = ASKED.get(names[0], {"oob_score": True})
    unasked = dict.fromkeys(asked, None if "pruning_folds" in asked else False)
    plain = forest.fit(SMALL, truth)
    assert said(plain) == {}
    plain.save(tmp_path / "plain.zarr")
    assert said(load(tmp_path / "plain.zarr")) == {}
    fitted = plain.set_params(**asked).fit(SMALL, truth)
    before = said(fitted)
    assert sorted(before) == sorted(names)
    digest = fitted.save(tmp_path / "first.zarr")
    opened = load(tmp_path / "first.zarr")
    assert said(opened) == before
    assert opened.digest_ == fitted.digest_ == digest
    assert opened.save(tmp_path / "second.zarr") == digest
    assert said(load(tmp_path / "second.zarr")) == before
    with pytest.raises(InputError):
        fitted.set_params(n_estimators=0).fit(SMALL, truth)
    assert said(fitted) == before  # those of the forest that is still there
    assert said(fitted.set_params(n_estimators=2, **unasked).fit(SMALL, truth)) == {}


@pytest.mark.parametrize(
    ("forest", "truth", "name"),
    [(SimForestClassifier, SMALL_Y, "oob_decision_function_"), (SimForestRegressor, TARGETS, "oob_prediction_")],
)
def test_what_trees_say_out_of_bag_is_worked_out_once(
    forest: Any, truth: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked_out = []
    out_of_bag = scoring.out_of_bag
    monkeypatch.setattr(scoring, "out_of_bag", lambda of: worked_out.append(of) or out_of_bag(of))
    fitted = forest("linear", n_estimators=40, oob_score=True, random_state=0).fit(SMALL, truth)
    first = getattr(fitted, name)
    assert (getattr(fitted, name) is first, len(worked_out)) == (True, 1)
    fitted.save(tmp_path / "forest.zarr")
    opened = load(tmp_path / "forest.zarr")
    assert len(worked_out) == 1  # neither of them asks
    np.testing.assert_array_equal(getattr(opened, name), first)
    assert (getattr(opened, name) is getattr(opened, name), len(worked_out)) == (True, 2)


@pytest.mark.parametrize("forest", [SimForestClassifier, SimForestRegressor])
def test_rows_without_an_estimate_are_reported(forest: Any) -> None:
    with pytest.warns(DistforestWarning, match=naming(len(SMALL), "out-of-bag")) as told:
        forest("linear", n_estimators=2, oob_score=True, random_state=0).fit(SMALL, SMALL_Y)
    assert [own.filename for own in told] == [__file__]
