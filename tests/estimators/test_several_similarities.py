"""Several similarities of the same objects, as users give them: as matrices, words or functions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.utils import get_tags

from distforest import (
    Lazy,
    SimForestClassifier,
    SimForestOutlier,
    SimForestRegressor,
    load,
    pairwise,
)
from distforest.errors import ArtifactError, InputError
from distforest.forest.sealed.artifact import _checked_meaning
from distforest.pictures.trees import drawn_tree
from tests import samples
from tests.estimators.rows import CITY, EUCLID
from tests.estimators.rows import THIRD as X
from tests.estimators.rows import THIRD_Y as Y
from tests.messages import naming

BOTH = np.stack([CITY, EUCLID], axis=-1)
FUNCTIONS = (
    lambda a, b: float(np.abs(a - b).sum()),
    lambda a, b: float(np.sqrt(((a - b) ** 2).sum())),
)


def forest_of(similarity: Any = ("precomputed", "precomputed"), **params: Any) -> SimForestClassifier:
    own = {"n_estimators": 20, "random_state": 0, **params}
    return SimForestClassifier(list(similarity), kind="distance", **own)


def lazily(budgets: tuple[int | None, int | None] = (None, None), **params: Any) -> SimForestClassifier:
    lazy = [Lazy(pairwise(f), kind="distance", budget=b) for f, b in zip(FUNCTIONS, budgets, strict=True)]
    return SimForestClassifier(lazy, n_estimators=20, random_state=0, **params)


def test_a_list_of_one_is_the_one() -> None:
    one = SimForestClassifier(kind="distance", n_estimators=5, random_state=0).fit(CITY, Y)
    listed = SimForestClassifier(["precomputed"], kind="distance", n_estimators=5, random_state=0).fit(CITY, Y)
    assert listed.digest_ == one.digest_
    features = [SimForestClassifier(s, n_estimators=5, random_state=0).fit(X, Y).digest_ for s in ("rbf", ["rbf"])]
    assert features[0] == features[1]


@pytest.mark.parametrize("cut", ["best", "zero", "exemplars"])
def test_matrices_and_functions_grow_one_forest(cut: str) -> None:
    listed, stacked = (
        forest_of(cut=cut, oob_score=True, **samples.PAPER).fit(own, Y) for own in ([CITY, EUCLID], BOTH)
    )
    asked = lazily(cut=cut, oob_score=True).fit(X, Y)
    assert listed.digest_ == stacked.digest_ == asked.digest_
    assert listed.n_features_in_ == len(Y)
    measures = asked.forest_.provenance["similarity"]["measures"]
    assert sum(own["evaluations"] for own in measures) == asked.n_evaluations_ <= 2 * len(Y) * (len(Y) - 1) // 2
    expected = listed.predict_proba([CITY[:9], EUCLID[:9]])
    np.testing.assert_array_equal(stacked.predict_proba(BOTH[:9]), expected)
    np.testing.assert_array_equal(asked.predict_proba(X[:9]), expected)


@pytest.mark.parametrize("cut", ["best", "exemplars"])
def test_series_of_several_channels_are_objects(cut: str) -> None:
    channels = np.stack([X, X**2, np.sqrt(X)], axis=1)  # (n, channels, time)
    lazy = [Lazy(pairwise(f), kind="distance") for f in FUNCTIONS]
    asked = SimForestClassifier(lazy, n_estimators=20, cut=cut, oob_score=True, random_state=0).fit(
        channels[::2], Y[::2]
    )
    matrices = [np.array([[f(one, other) for other in channels[::2]] for one in channels]) for f in FUNCTIONS]
    given = forest_of(cut=cut, oob_score=True, **samples.PAPER).fit([matrix[::2] for matrix in matrices], Y[::2])
    assert asked.digest_ == given.digest_
    np.testing.assert_array_equal(asked.predict_proba(channels), given.predict_proba(matrices))


def test_equal_measures_split_the_gain_by_their_weights() -> None:
    forest = forest_of(similarity_weights=[1.0, 3.0], n_estimators=100).fit([CITY, CITY], Y)
    assert forest.feature_importances_.sum() == pytest.approx(1.0)
    assert 0.65 < forest.feature_importances_[1] < 0.85
    never = forest_of(similarity_weights=[0.0, 1.0]).fit([CITY, EUCLID], Y)
    assert never.feature_importances_.tolist() == pytest.approx([0.0, 1.0])


def test_the_scale_of_a_measure_changes_nothing() -> None:
    plain, scaled = (forest_of().fit([CITY, scale * EUCLID], Y) for scale in (1.0, 1024.0))
    np.testing.assert_array_equal(plain.forest_.table.columns, scaled.forest_.table.columns)
    np.testing.assert_array_equal(plain.forest_.leaves, scaled.forest_.leaves)


def test_folds_are_cut_along_both_axes() -> None:
    assert get_tags(forest_of()).input_tags.pairwise
    assert not get_tags(SimForestClassifier(["rbf", "manhattan"])).input_tags.pairwise
    assert cross_val_score(forest_of(), BOTH, Y, cv=3, error_score="raise").mean() > 0.8


@pytest.mark.parametrize("threads", [1, 3])
def test_built_in_similarities_read_the_same_features(threads: int) -> None:
    forest = SimForestClassifier(["rbf", "manhattan"], n_estimators=8, random_state=0, n_jobs=threads).fit(X, Y)
    assert forest.score(X, Y) > 0.9
    one = SimForestClassifier(["rbf", "manhattan"], n_estimators=8, random_state=0).fit(X, Y)
    assert forest.digest_ == one.digest_
    weighted = clone(one).fit(X, Y, sample_weight=np.repeat([1, 2], 25))
    assert weighted.digest_ == clone(one).fit(X, Y, sample_weight=np.repeat([1.0, 2.0], 25)).digest_


def test_regression_and_outliers() -> None:
    target = X[:, 0]
    regressor = SimForestRegressor(["linear", "rbf"], cut="zero", random_state=0, oob_score=True).fit(X[:, 1:], target)
    assert regressor.oob_score_ > 0.4
    far = np.concatenate([X, [[60.0, 60.0, 60.0, 60.0]]])
    outlier = SimForestOutlier(["linear", "manhattan"], random_state=0).fit(far)
    assert outlier.score_samples(far).argmin() == len(X)


def test_a_sealed_forest_answers_as_before(tmp_path: Path) -> None:
    given, built_in = forest_of().fit(BOTH, Y), SimForestClassifier(["rbf", "cosine"], n_estimators=4).fit(X, Y)
    asked = lazily(oob_score=True).fit(X, Y)
    for name, own, rows in (("given", given, BOTH), ("built_in", built_in, X)):
        own.save(tmp_path / f"{name}.zarr")
        opened = load(tmp_path / f"{name}.zarr")
        np.testing.assert_array_equal(opened.predict_proba(rows), own.predict_proba(rows))
        assert opened.n_features_in_ == own.n_features_in_
        assert opened.similarity == own.similarity
        np.testing.assert_array_equal(opened.feature_importances_, own.feature_importances_)
    asked.save(tmp_path / "asked.zarr")
    opened = load(tmp_path / "asked.zarr", list(asked.similarity), X)
    np.testing.assert_array_equal(opened.predict_proba(X), asked.predict_proba(X))
    with pytest.raises(InputError, match=naming("2 similarities", 1)):
        load(tmp_path / "asked.zarr", asked.similarity[0], X)
    with pytest.raises(InputError, match=naming("objects", "`training`")):
        load(tmp_path / "asked.zarr", list(asked.similarity), X[::-1])


def test_each_function_has_its_own_ledger_and_budget(tmp_path: Path) -> None:
    names = [tmp_path / "city", tmp_path / "euclid"]
    lazy = [
        Lazy(pairwise(f), kind="distance", ledger=name, budget=300) for f, name in zip(FUNCTIONS, names, strict=True)
    ]
    forest = SimForestClassifier(lazy, n_estimators=8, random_state=0).fit(X, Y)
    paid = [own["evaluations"] for own in forest.forest_.provenance["similarity"]["measures"]]
    assert 0 < min(paid) <= max(paid) <= 300
    assert sum(paid) == forest.n_evaluations_
    again = SimForestClassifier(lazy, n_estimators=8, random_state=0).fit(X, Y)
    assert again.digest_ == forest.digest_
    none = lazily((0, None)).fit(X, Y)
    assert none.feature_importances_.tolist() == pytest.approx([0.0, 1.0])
    assert none.forest_.n_trees == 20
    with pytest.raises(InputError, match=naming("ledger", names[0])):
        SimForestClassifier([lazy[0], Lazy(lazy[1].function, kind="distance", ledger=names[0])]).fit(X, Y)


@pytest.mark.parametrize(
    ("similarity", "rows", "params", "named"),
    [
        ([], X, {}, ("similarity:", "empty")),
        (["rbf", "precomputed"], X, {}, ("built in", "precomputed", "Lazy(pairwise(f))")),
        (["rbf", "rfb"], X, {}, ("similarity[1]:", "'rbf'", "'rfb'")),
        (["rbf", max], X, {}, ("similarity[1]:", "max", "Lazy(pairwise(f))")),
        (["rbf", "feature_subsets"], X, {}, ("similarity[1]: 'feature_subsets'",)),
        (["rbf", "cosine"], X, {"voting": "nearest"}, ("voting='nearest'", "several")),
        (["rbf", "cosine"], X, {"similarity_weights": [1.0]}, ("similarity_weights", 2, (1,))),
        (["rbf", "cosine"], X, {"similarity_weights": [0.0, 0.0]}, ("similarity_weights", [0.0, 0.0])),
        (["rbf", "cosine"], X, {"similarity_weights": [1.0, -1.0]}, ("similarity_weights", [1.0, -1.0])),
        (["precomputed"] * 2, CITY, {}, ("X:", "(n, n, 2)", (50, 50))),
        (["precomputed"] * 3, [CITY, EUCLID], {}, ("X:", "(n, n, 3)", "list of 2")),
        (["precomputed"] * 2, [CITY, EUCLID[:9]], {}, ("X, matrix 1:", (9, 50))),
        (["precomputed"] * 2, [CITY, np.where(CITY > 9, np.inf, CITY)], {}, ("X, matrix 1:", "NaN", "row 0", "inf")),
        ("rbf", X, {"similarity_weights": [1.0, 2.0]}, ("similarity_weights", 1, (2,))),
    ],
)
def test_what_cannot_be_used_is_refused(
    similarity: Any, rows: Any, params: dict[str, Any], named: tuple[object, ...]
) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        SimForestClassifier(similarity, n_estimators=2, **params).fit(rows, Y)


def test_a_drawn_tree_names_the_measure_that_a_cut_reads() -> None:
    boxes = drawn_tree(forest_of(n_columns=1).fit(BOTH, Y), 0, 1, ()).boxes
    assert re.fullmatch("s[0-9]+ by ([01]) \N{MINUS SIGN} s[0-9]+ by \\1 ≤ .+", boxes[0].cut)


def test_importances_need_several() -> None:
    forest = SimForestClassifier("rbf", n_estimators=2).fit(X, Y)
    with pytest.raises(AttributeError, match="feature_importances_"):
        _ = forest.feature_importances_


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ({"measures": []}, ("rows.measures", [])),
        ({"measures": [{"kind": "features", "n_columns": 50}]}, ("rows.measures", "dense", "'features'")),
        ({"n_columns": 99}, ("rows.n_columns", 99)),
        ({"weights": [1.0]}, ("rows.weights", [1.0])),
        ({"weights": [1.0, float("nan")]}, ("rows.weights", "[1.0, nan]")),
        ({"weights": [0.0, 0.0]}, ("rows.weights", [0.0, 0.0])),
        ({"further": 1}, ("rows", "'further'")),
    ],
)
def test_a_manifest_that_lies_is_refused(damage: dict[str, Any], named: tuple[object, ...]) -> None:
    entry = forest_of(n_estimators=1).fit(BOTH, Y).forest_.meaning.to_dict()
    entry["rows"] = {**entry["rows"], **damage}
    with pytest.raises(ArtifactError, match=naming("manifest.json", *named)):
        _checked_meaning(entry)
