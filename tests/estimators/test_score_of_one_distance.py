"""A score of held-out rows that are all equally far apart says nothing, and tells it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import StratifiedKFold, cross_val_score

from distforest import SMERF, Labels, Targets

X, Y = load_iris(return_X_y=True)
FOREST = SMERF(10, random_state=0).fit(X, Labels(Y))


def test_rows_of_one_class_are_told() -> None:
    cure = "shuffle the rows, or stratify by label, where parts of them are held out"
    with pytest.warns(UserWarning, match=f"^score: all 435 pairs are at distance 0, so that R2 says nothing; {cure}$"):
        assert FOREST.score(X[50:80], Y[50:80]) == 0.0
    with pytest.warns(UserWarning, match="^score: all 190 pairs are at distance 0"):
        SMERF(5, random_state=0).fit(X, Targets(X[:, 0])).score(X[:20], Targets(np.ones(20)))


def test_folds_with_several_classes_are_scored_in_silence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = cross_val_score(SMERF(10, random_state=0), X, Y, cv=StratifiedKFold(3))
    assert scores.min() > 0.5
