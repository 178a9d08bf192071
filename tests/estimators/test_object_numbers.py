"""Distances, pairs and links of nullable dtypes and of objects are read as the numbers that they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from distforest import RFD, SMERF, Distances
from distforest.errors import InputError
from tests.estimators.rows import X
from tests.messages import naming

APART = np.abs(X[:, 2, None] - X[:, 2])
KNOWN = np.where(APART > 4, np.nan, APART)
FEW: dict[str, Any] = {"n_estimators": 2, "random_state": 0}
PAIRS, SIMILAR = np.array([[0, 1], [0, 60], [3, 9], [70, 140]] * 5), np.array([1, 0, 1, 0] * 5, bool)


@pytest.mark.parametrize(
    "given",
    [
        np.where(APART > 4, None, APART),
        KNOWN.astype(object),
        pd.DataFrame(KNOWN).astype("Float64"),
        pd.DataFrame(np.where(APART > 4, pd.NA, APART)),
        Distances(pd.DataFrame(KNOWN).astype("Float64")),
    ],
    ids=["None", "NaN", "Float64", "NA", "Distances"],
)
def test_distances_that_are_objects_teach_what_their_numbers_teach(given: Any) -> None:
    forest = SMERF(**FEW).fit(X, given)
    assert forest.digest_ == SMERF(**FEW).fit(X, KNOWN).digest_
    assert forest.score(X, given) == forest.score(X, KNOWN)


@pytest.mark.parametrize("strange", ["3", 1j, np.complex128(1j), pd.Timedelta(1, "s"), np.datetime64("2024"), 10**400])
def test_objects_that_are_no_numbers_are_refused(strange: object) -> None:
    given = APART.astype(object)
    given[1, 2] = strange
    with pytest.raises(InputError, match=naming("distances", "object")):
        SMERF(**FEW).fit(X, given)


def test_pairs_and_links_that_are_objects_are_those_of_numbers() -> None:
    digest = RFD(**FEW).fit_pairs(X, PAIRS, SIMILAR).digest_
    for pairs in (pd.DataFrame(PAIRS).astype("Int64"), PAIRS.astype(object)):
        for similar in (SIMILAR.astype(object), pd.array(SIMILAR, "boolean"), SIMILAR.astype(int).astype(object)):
            assert RFD(**FEW).fit_pairs(X, pairs, similar).digest_ == digest


@pytest.mark.parametrize("lacks", [None, np.nan, pd.NA])
def test_a_pair_that_lacks_a_number_or_its_link_is_named(lacks: object) -> None:
    pairs, similar = PAIRS.astype(object), SIMILAR.astype(object)
    pairs[3, 1] = similar[2] = lacks
    with pytest.raises(InputError, match=naming("pairs:", "pair 3")):
        RFD(**FEW).fit_pairs(X, pairs, SIMILAR)
    with pytest.raises(InputError, match=naming("similar:", "pair 2")):
        RFD(**FEW).fit_pairs(X, PAIRS, similar)


def test_pairs_of_fractional_dtype_are_refused() -> None:
    with pytest.raises(InputError, match=naming("pairs:", "float64 (20, 2)")):
        RFD(**FEW).fit_pairs(X, PAIRS.astype(float), SIMILAR)
    with pytest.raises(InputError, match=naming("pairs:", "pair 0")):
        RFD(**FEW).fit_pairs(X, np.where(PAIRS == 1, np.nan, PAIRS), SIMILAR)
