"""What a fit has estimated comes back with its forest, is no part of its digest, and must be able to be true."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest.errors import ArtifactError
from distforest.forest.estimates import Estimates, Pruning
from distforest.forest.sealed.artifact import open_forest
from tests.forest.sealed.damage import SealedOf, manifest_of, reseal, with_value
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

FINITE = st.floats(allow_nan=False, allow_infinity=False)
PRUNED = st.lists(st.tuples(FINITE, FINITE), min_size=1, max_size=5).map(
    lambda rows: Pruning(rows[-1][0], *np.array(rows).T)
)


@given(
    st.none() | FINITE.filter(lambda value: value <= 1), st.none() | FINITE.filter(lambda x: x >= 0), st.none() | PRUNED
)
def test_estimates_come_back_from_the_provenance(score: Any, rmse: Any, pruning: Any) -> None:
    given = Estimates(score, rmse, pruning)
    held = given.into({"versions": {"numpy": "2"}, "estimates": {"oob_score": 0.5}})
    assert held["versions"] == {"numpy": "2"}
    assert ("estimates" in held) == (given != Estimates())
    found = Estimates.from_provenance(held)
    assert (found.oob_score, found.oob_rmse) == (score, rmse)
    assert (found.pruning is None) == (pruning is None)
    if found.pruning:
        assert found.pruning.to_dict() == pruning.to_dict()


def test_what_is_no_number_is_not_held() -> None:
    assert Estimates(math.nan, math.inf).into({}) == {}
    assert Estimates.from_provenance({}) == Estimates()


GOOD = {"gain": 1, "gains": [0.0, 1.0], "areas": [0.5, 0.75]}


@pytest.mark.parametrize(
    ("found", "named"),
    [
        (None, ("estimates:", "oob_score", "oob_rmse", "pruning", None)),
        ([], ("estimates:", "[]")),
        ({"oob_scores": 1}, ("estimates:", "oob_scores")),
        ({"oob_score": None}, ("estimates.oob_score:", "1.0", None)),
        ({"oob_score": True}, ("estimates.oob_score:", True)),
        ({"oob_score": "0.5"}, ("estimates.oob_score:", "0.5")),
        ({"oob_score": 1.5}, ("estimates.oob_score:", "-inf", "1.0", 1.5)),
        ({"oob_score": -(10**400)}, ("estimates.oob_score:",)),
        ({"oob_rmse": -1}, ("estimates.oob_rmse:", "0.0", "inf", -1)),
        ({"pruning": None}, ("estimates.pruning:", "gains", "areas", None)),
        ({"pruning": {**GOOD, "more": 1}}, ("estimates.pruning:", "more")),
        ({"pruning": {**GOOD, "gains": 1}}, ("estimates.pruning:", "[1, ")),
        ({"pruning": {**GOOD, "gains": []}}, ("estimates.pruning:", "[]")),
        ({"pruning": {**GOOD, "areas": [0.5, "x"]}}, ("estimates.pruning:", "'x'")),
        ({"pruning": {**GOOD, "areas": [0.5, 10**400]}}, ("estimates.pruning:",)),
        ({"pruning": {**GOOD, "areas": [0.5]}}, ("estimates.pruning:", "[0.5]")),
        ({"pruning": {**GOOD, "gain": 2.0}}, ("estimates.pruning:", "'gain': 2.0")),
        ({"pruning": {**GOOD, "gain": []}}, ("estimates.pruning:",)),
    ],
)
def test_estimates_that_cannot_be_true_are_refused_at_opening(
    damaged: SealedOf, found: Any, named: tuple[object, ...]
) -> None:
    path: Path = damaged("ranks")
    sealed = manifest_of(path)
    reseal(path, with_value(sealed, ("provenance", "estimates"), found))
    with pytest.raises(ArtifactError, match=naming("manifest.json: provenance.", *named)):
        open_forest(str(path))


def test_estimates_are_no_part_of_the_digest(damaged: SealedOf) -> None:
    path: Path = damaged("ranks")
    before = manifest_of(path)
    reseal(path, with_value(before, ("provenance", "estimates"), {"oob_score": 1, "pruning": GOOD}))
    assert manifest_of(path)["digest"] == before["digest"]
    forest = open_forest(str(path))
    assert forest.digest == before["digest"]
    found = Estimates.from_provenance(forest.provenance)
    assert found.oob_score == 1.0
    assert found.pruning is not None
    assert found.pruning.areas.tolist() == GOOD["areas"]
