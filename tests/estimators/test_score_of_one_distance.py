"""A score of held-out rows that are all equally far apart says nothing, and tells it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold, cross_val_score

from distforest import SMERF, Labels, Targets
from distforest.errors import DistforestWarning
from tests.estimators.rows import X, Y
from tests.messages import naming

FOREST = SMERF(10, random_state=0).fit(X, Labels(Y))


def test_rows_of_one_class_are_reported() -> None:
    with pytest.warns(DistforestWarning, match=naming("score:", 435, "R2")):
        assert FOREST.score(X[50:80], Y[50:80]) == 0.0
    with pytest.warns(DistforestWarning, match=naming("score:", 190)):
        SMERF(5, random_state=0).fit(X, Targets(X[:, 0])).score(X[:20], Targets(np.ones(20)))


def test_folds_with_several_classes_are_scored_in_silence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = cross_val_score(SMERF(10, random_state=0), X, Y, cv=StratifiedKFold(3))
    assert scores.min() > 0.5
