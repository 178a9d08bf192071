"""Class weights: as scikit-learn means them, in the criterion by hand, in whole trees, and in what leaves say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.class_weight import compute_class_weight

from distforest import SimForestClassifier, SimForestRegressor, load
from distforest.errors import InputError
from distforest.forest.leaf_kinds import KeepsCounts
from distforest.forest.leaves import ClassCounts
from distforest.growth.cuts.class_weights import MOST_WEIGHT, ClassWeights, key_of
from distforest.growth.cuts.criteria import Gini
from distforest.growth.cuts.search import Limits, project_and_cut
from distforest.growth.methods import search_of
from distforest.jobs.cluster import Threads
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.spec import Spec
from distforest.jobs.train import Options, fit, fit_here
from distforest.sources.arrays import write_array
from distforest.sources.binned import BinnedSource
from distforest.stores.folder import Folder
from tests import samples
from tests.growth.cuts.test_criteria import FREE, Search, assert_cuts, codes_of, cut, line, searches
from tests.growth.test_sklearn import Tree, data_of, grown
from tests.messages import naming
from tests.reference import naive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CODES = np.array([0, 0, 0, 1, 1, 2], np.int32)
WEIGHTS = st.lists(st.integers(1, 1 << 20), min_size=3, max_size=3).map(lambda c: np.array(c, np.int64))


CODES_OF = {2: np.array([0, 1], np.int32), 3: np.array([0, 1, 2], np.int32)}


def integers(given: Any, codes: np.ndarray = CODES, classes: Any = ("a", "b", "c"), n_draws: int = 6) -> list[int]:
    found: list[int] = ClassWeights.from_labels(given, codes, list(classes)).integers(n_draws).tolist()
    return found


# --- what a user says -------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [["a", "b"], [3, 7], [1.0, 2.0], [False, True]])
@pytest.mark.parametrize("weights", [[2.0, 3.0], [1, 0.25]])
def test_weights_of_labels_of_any_type_are_those_of_scikit_learn(labels: list[Any], weights: list[float]) -> None:
    codes = np.array([0, 1, 1, 1, 1, 0, 1], np.int32)
    y = np.array(labels)[codes]
    for own in (dict(zip(labels, weights, strict=True)), {labels[1]: weights[1]}, {}, "balanced"):
        said = own if isinstance(own, str) else {key_of(label): weight for label, weight in own.items()}
        expected = compute_class_weight(own, classes=np.array(labels), y=y)
        np.testing.assert_allclose(ClassWeights.from_labels(said, codes, labels).weights, expected, rtol=1e-15)


def test_labels_that_are_equal_have_one_key() -> None:
    assert {key_of(label) for label in (1, 1.0, True, np.float32(1), np.bool_(True), np.uint8(1), "1")} == {"1"}
    assert len({key_of(label) for label in (0.5, 1, "a", "A", -1, 1e30)}) == 6


def test_a_label_that_is_misspelt_is_refused_and_one_too_many_is_not() -> None:
    with pytest.raises(InputError, match=naming("class_weight", "'A'", "'a'")):
        integers({"A": 2.0, "b": 1.0, "c": 1.0})
    with pytest.raises(ValueError, match="class_weight"):
        compute_class_weight({"A": 2.0, "b": 1.0, "c": 1.0}, classes=np.array(["a", "b", "c"]), y=np.array(["a"]))
    assert integers({"a": 2.0, "b": 1.0, "c": 1.0, "d": 9.0}) == [128, 64, 64]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([1.0, 1.0, 1.0], [64, 64, 64]),
        ([0.3, 0.3, 0.9], [64, 64, 192]),
        ([1.0, 1.007, 1.008], [64, 64, 65]),
        ([1.0, 16384.0, 2.5], [64, 1 << 20, 160]),
        ([1e-300, 2e-300, 1.5e-300], [64, 128, 96]),
    ],
)
def test_weights_are_sixty_fourths_of_the_least(weights: list[float], expected: list[int]) -> None:
    assert integers(dict(zip("abc", weights, strict=True))) == expected


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([1.0, 16384.0, 3.0], [64, 1 << 20, 192]),
        ([1.0, 262145.0, 3.0], [32, 8388640, 96]),
        ([1e-4, 1e3, 1e-4], [1, 10_000_000, 1]),
        ([1.0, 1e7, 128.0], [1, 10_000_000, 128]),
        ([2.0, 1e7, 3.0], [2, 10_000_000, 3]),
        ([1.0, 2.0**24], [1, 1 << 24]),
    ],
)
def test_weights_far_apart_have_a_coarser_least_one(weights: list[float], expected: list[int]) -> None:
    found = ClassWeights.from_labels(
        dict(zip("abc", weights, strict=False)), CODES_OF[len(weights)], list("abc")[: len(weights)]
    )
    assert found.integers(n_draws=100).tolist() == expected


@pytest.mark.parametrize("largest", [2.0**24 + 1, 1e308])
def test_weights_too_far_apart_are_refused(largest: float) -> None:
    with pytest.raises(InputError, match=naming("class_weight:", "16,777,216")):
        integers({"a": largest, "b": 1e-10 if largest > 1e300 else 1.0})


def test_weights_that_integers_cannot_tell_apart_are_refused() -> None:
    with pytest.raises(InputError, match=naming("class_weight:", "6 rows", "16,777,216")):
        integers({"a": 1e7, "b": 1.0, "c": 1.3})
    assert integers({"a": 1e7, "b": 1.0, "c": 1.0}, n_draws=10) == [10_000_000, 1, 1]


def test_a_tree_may_not_weigh_more_than_its_squares_can_hold() -> None:
    most = MOST_WEIGHT // (1 << 20)
    assert MOST_WEIGHT**2 < 2**63 <= (MOST_WEIGHT + 1) ** 2
    assert max(integers({"a": 16384.0}, n_draws=most)) == 1 << 20
    assert max(integers({"a": 16384.0}, n_draws=most + 1)) == 1 << 19
    with pytest.raises(InputError, match=naming("class_weight:", f"{64 * most + 100:,} rows", "16,376")):
        integers({"a": 16384.0}, n_draws=64 * most + 100)


def test_targets_have_no_class_weights() -> None:
    with pytest.raises(InputError, match=naming("class_weight='balanced'", "targets")):
        samples.problem_of("rbf_targets", class_weight="balanced")


# --- cuts -------------------------------------------------------------------------------------------------


@pytest.mark.kernels
@FREE
@given(searches(), st.data(), WEIGHTS)
def test_weighted_gini(search: Search, data: st.DataObject, weights: np.ndarray) -> None:
    codes = codes_of(search, data)
    expected = search.expected(
        lambda values, rows, w: naive.best_cut_weighted(values, codes[rows], w, search.min_leaf, weights)
    )
    assert_cuts(Gini(codes, 3, class_weights=weights), search, expected)


@pytest.mark.kernels
@FREE
@given(searches(), st.data(), st.integers(1, 1000))
def test_equal_weights_cut_as_none(search: Search, data: st.DataObject, weight: int) -> None:
    codes = codes_of(search, data)
    plain, weighted = cut(Gini(codes, 3), search), cut(Gini(codes, 3, class_weights=np.full(3, weight)), search)
    assert weighted.candidate.tolist() == plain.candidate.tolist()
    assert weighted.threshold.tolist() == plain.threshold.tolist()
    found = plain.candidate >= 0
    np.testing.assert_allclose(weighted.gain[found], weight * plain.gain[found], rtol=1e-12)


@pytest.mark.kernels
def test_a_weight_can_turn_a_cut_and_a_light_side_stays_light() -> None:
    codes = np.array([0, 0, 1, 0, 1, 1, 1, 1], np.int32)
    search = line([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    found = [cut(Gini(codes, 2, class_weights=np.array(c)), search).threshold[0] for c in ([1, 1], [9, 1], [1, 9])]
    assert found == [4.5, 4.5, 2.5]
    heavy = Gini(codes, 2, class_weights=np.array([64, 640]))
    assert cut(heavy, replace(search, min_leaf=3)).threshold[0] == 4.5  # two rows are two, however heavy


@pytest.mark.kernels
def test_binned_columns_are_cut_by_weighted_classes_too() -> None:
    source, frontier = BinnedSource.from_features(samples.features(60), 8), samples.level([list(range(60))], [[1] * 60])
    projections = samples.projections([[[(0, 1.0)], [(1, 1.0)], [(3, 1.0)]]])
    weighted = Gini(samples.labels(60), 3, class_weights=np.array([64, 640, 99]))
    found, values = search_of(source, weighted)(source, weighted, frontier, projections, Limits())
    twin, twin_values = project_and_cut(source, weighted, frontier, projections, Limits())
    assert [part.tobytes() for part in (*found, values)] == [part.tobytes() for part in (*twin, twin_values)]
    gini = Gini(samples.labels(60), 3)
    plain, _ = search_of(source, gini)(source, gini, frontier, projections, Limits())
    assert found.gain[0] != plain.gain[0]


# --- trees ------------------------------------------------------------------------------------------------


def gain(codes: np.ndarray, left: np.ndarray, weights: np.ndarray) -> float:
    """Sum of squares over sum of the weighted classes of each side: the gain, but for what all cuts share."""
    sides = [np.bincount(codes[own], minlength=len(weights)) * weights for own in (left, ~left)]
    return float(sum((side.astype(float) ** 2).sum() / side.sum() for side in sides))


@pytest.mark.parametrize("min_leaf", [1, 5])
@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "sonar", "heart"])
def test_the_tree_of_weighted_classes_is_that_of_scikit_learn_up_to_ties(name: str, min_leaf: int) -> None:
    data = data_of(name)
    classes, X = len(data.truth.classes or ()), data.matrix
    weights = np.array([64, 640, 199])[:classes]
    problem = samples.without_bootstrap(data, min_samples_leaf=min_leaf)
    weighted = replace(problem.growth, criterion=Gini(data.truth.values, classes, class_weights=weights))
    ours = Tree.of(grown(replace(problem, growth=weighted)))
    peer = DecisionTreeClassifier(
        class_weight=dict(enumerate(weights.tolist())), min_samples_leaf=min_leaf, random_state=0
    )
    theirs = Tree.of_sklearn(peer.fit(X, data.truth.values))
    waiting, same, ties = [(0, 0, np.arange(len(X)))], 0, 0
    while waiting:
        own, other, rows = waiting.pop()
        if ours.left[own] < 0 or theirs.left[other] < 0:  # scikit-learn also makes cuts that gain nothing
            assert theirs.left[other] < 0 or len(set(data.truth.values[rows])) == 1 or min_leaf > 1
            continue
        left, right = ours.goes_left(own, X[rows]), theirs.goes_left(other, X[rows])
        if (left == right).all():
            same += 1
            waiting.append((ours.left[own], theirs.left[other], rows[left]))
            waiting.append((ours.right[own], theirs.right[other], rows[~left]))
            continue
        ties += 1
        codes = data.truth.values[rows]
        assert gain(codes, left, weights) == pytest.approx(gain(codes, right, weights), rel=1e-9)
    assert same > max(3, ties)


def test_without_weights_a_forest_says_nothing_of_them(forest_of: Callable[[str], Any]) -> None:
    assert forest_of("rbf").meaning.leaf == KeepsCounts()
    assert forest_of("rbf").meaning.params["class_weight"] is None


# --- what leaves say --------------------------------------------------------------------------------------


def weighted_forest(case: str = "missing") -> Any:
    return fit_here(samples.problem_of(case, class_weight={"a": 1.0, "b": 2.5, "c": 40.0}))


def test_shares_and_distances_are_of_weighted_counts() -> None:
    forest, c = weighted_forest(), [64, 160, 2560]
    assert forest.meaning.leaf == KeepsCounts(tuple(c))
    table = forest.leaf_table
    assert isinstance(table, ClassCounts)
    forest.check()
    first = forest.table.tree_start[1]
    nodes = np.arange(forest.table.tree_size[1])
    heavy = [[int(m) * own for m, own in zip(counts, c, strict=True)] for counts in table.class_counts[first:]]
    shares = [[part / sum(own) for part in own] for own in heavy[: len(nodes)]]
    np.testing.assert_allclose(table.outputs(1, nodes), shares, rtol=1e-15)
    expected = [[naive.counts_distance(heavy[a], heavy[b]) for b in nodes] for a in nodes]
    np.testing.assert_allclose(table.between(1, nodes, nodes), expected, atol=1e-12)
    assert table.pairs(1, nodes, nodes[::-1]).tolist() == np.diag(table.between(1, nodes, nodes)[:, ::-1]).tolist()


def test_weights_lift_the_rare_class() -> None:
    X, y = samples.features(120), samples.labels(120)
    keep = (y != 2) | (np.arange(120) % 5 == 0)
    X, y = X[keep], np.array(["common", "other", "rare"])[y[keep]]
    found = {}
    for own in (None, "balanced", {"rare": 30}):
        forest = SimForestClassifier("rbf", class_weight=own, min_samples_leaf=8, random_state=0, oob_score=True)
        proba = forest.fit(X, y).oob_decision_function_
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
        found[str(own)] = (proba[:, 2].mean(), (forest.predict(X) == "rare").sum())
    assert found["None"][0] < found["balanced"][0] < found["{'rare': 30}"][0]
    assert found["None"][1] < found["{'rare': 30}"][1]


# --- the doors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["balanced", {1: 3, 2: np.float32(0.5)}])
def test_a_job_an_estimator_and_a_loaded_one_are_the_same_forest(given: Any, tmp_path: Path) -> None:
    X, y = samples.features(50).astype(np.float64), samples.labels(50)
    group, address = str(tmp_path / "in.zarr"), str(tmp_path / "f.zarr")
    write_array(group, "X", X.shape, X.dtype, [X])
    write_array(group, "y", y.shape, y.dtype, [y])
    relations = {"similarity": {"kind": "rbf", "features": f"{group}/X"}, "labels": f"{group}/y"}
    said = given if isinstance(given, str) else {"1": 3, "2": 0.5}
    params = {"n_estimators": 5, "class_weight": said}
    head = {"format": 1, "method": "simforest", "seed": 4, "output": address}
    spec = Spec.from_dict({**head, "input": relations, "params": params})
    done = fit(stage_inputs(spec, str(tmp_path / "job")), address, Folder(str(tmp_path / "job")), Threads(), Options())
    own = SimForestClassifier("rbf", n_estimators=5, class_weight=given, random_state=4).fit(X, y)
    opened = load(address)
    assert own.digest_ == done.digest == opened.digest_
    np.testing.assert_array_equal(opened.predict_proba(X), own.predict_proba(X))
    if isinstance(given, dict):
        assert opened.class_weight == {0: 1.0, 1: 3.0, 2: 0.5}
    assert opened.fit(X, y).digest_ == own.digest_
    assert SimForestClassifier("rbf", n_estimators=5, random_state=4).fit(X, y).digest_ != own.digest_


@pytest.mark.parametrize("given", ["Balanced", {0: 0.0}, {0: -1}, {0: np.inf}, {0: True}, {0: "2"}, {0: 10**400}, 3])
def test_what_is_no_weight_is_refused(given: Any) -> None:
    with pytest.raises(InputError, match=naming("class_weight", "'balanced'", None)):
        SimForestClassifier("rbf", class_weight=given).fit(samples.features(), samples.labels())


def test_targets_have_no_such_parameter() -> None:
    assert "class_weight" not in SimForestRegressor().get_params()
    assert "class_weight :" not in str(SimForestRegressor.__doc__)
