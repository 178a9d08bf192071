"""One-sided distances: a training row's own distances to the members of a new row's leaf; chosen out of bag."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.metrics import roc_auc_score

from distforest import SMERF, Distances, Embedding, Graph, Labels, Targets, URerF, tune
from distforest.errors import DistforestWarning, InputError
from distforest.evaluation.sides import ScoredSides
from tests.messages import naming
from tests.reference.naive_one_sided import one_sided, without

RNG = np.random.default_rng(0)
N = 30
X = RNG.normal(size=(N, 3))
NEW = RNG.normal(size=(5, 3))
LINKS = np.triu(np.abs(X[:, :1] - X[:, 0]) < 0.3, 1)
LINKS = (LINKS | LINKS.T).astype(float)
Z = np.abs(X[:, 0, None] - X[:, 0])
HOLES = np.where((RNG.random(Z.shape) < 0.2) & ~np.eye(N, dtype=bool), np.nan, Z)
HOLES[:, 4] = HOLES[4] = np.nan
HOLES = np.where(np.isnan(HOLES), HOLES.T, HOLES)
COSTS = [[0, 1, 3], [1, 0, 1], [3, 1, 0]]
CLASSES = np.digitize(X[:, 0], [-0.5, 0.5])
WEIGHTS = RNG.integers(0, 3, N)

TAUGHT: dict[str, tuple[Any, np.ndarray]] = {
    "graph": (Graph(scipy.sparse.csr_array(LINKS)), 1.0 - LINKS),
    "looped": (Graph(scipy.sparse.csr_array(LINKS), diagonal=0.25), np.where(np.eye(N), 0.25, 1.0 - LINKS)),
    "distances": (Distances(Z), Z),
    "holes": (Distances(HOLES), np.where(np.eye(N), 0.0, HOLES)),
    "labels": (Labels(CLASSES), (CLASSES[:, None] != CLASSES).astype(float)),
    "costs": (Labels(CLASSES, costs=COSTS), np.array(COSTS)[np.ix_(CLASSES, CLASSES)].astype(float)),
    "targets": (Targets(X[:, 1]), (X[:, 1, None] - X[:, 1]) ** 2 / 2),
    "differences": (Targets(X[:, 1], metric="absolute"), np.abs(X[:, 1, None] - X[:, 1])),
    "embedding": (Embedding(X[:, :2]), ((X[:, None, :2] - X[None, :, :2]) ** 2).sum(axis=2)),
}


@pytest.mark.filterwarnings("ignore::distforest.errors.DistforestWarning")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", TAUGHT)
def test_a_one_sided_distance_is_that_of_the_definition(name: str, weighted: bool) -> None:
    y, z = TAUGHT[name]
    forest = SMERF(6, min_samples_leaf=2, random_state=0).fit(X, y, WEIGHTS if weighted else None)
    found, two = forest.training_distance(NEW, y, sides="one"), forest.transform(NEW)
    ends = forest.apply(NEW)
    trees = range(6)
    for row in range(len(NEW)):
        expected = np.array([one_sided(forest.forest_, z, ends[row], j, trees) for j in range(N)])
        np.testing.assert_allclose(found[row], np.where(np.isnan(expected), two[row], expected), atol=1e-6)
    assert forest.training_distance(NEW, y, sides="two").tobytes() == two.tobytes()


@pytest.mark.parametrize("name", ["graph", "distances", "labels"])
def test_out_of_bag_a_training_row_is_new_to_the_trees_that_did_not_draw_it(name: str) -> None:
    y, z = TAUGHT[name]
    forest = SMERF(12, min_samples_leaf=2, random_state=0).fit(X, y)
    left, right = np.array([0, 3, 3, 7, 9]), np.array([1, 0, 3, 2, 8])
    one, two = (forest.oob_distance(left, right, sides=sides, y=y) for sides in ("one", "two"))
    ends = forest.apply(X)
    for pair, (i, j) in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
        trees = without(forest.forest_, i)
        if i == j or not trees:
            assert np.isnan([one[pair], two[pair]]).all()
            continue
        assert one[pair] == pytest.approx(one_sided(forest.forest_, z, ends[i], j, trees), abs=1e-6)
        of_trees = [
            np.mean([one_sided(forest.forest_, z, ends[i], k, [tree]) for k in members])
            for tree in trees
            for members in [
                np.repeat(np.arange(N), forest.forest_.in_bag[tree] * (forest.forest_.leaves[tree] == ends[j, tree]))
            ]
        ]
        assert two[pair] == pytest.approx(np.mean(of_trees), abs=1e-6)


def network(seed: int, n: int = 150) -> tuple[np.ndarray, np.ndarray]:
    """Features, and links that some nodes have with nearly all: what only their own links tell."""
    rng = np.random.default_rng(seed)
    features = rng.random((n, 4))
    popular = rng.random(n) < 0.15
    by_chance = rng.random((n, n)) < 0.5 * np.add.outer(popular, popular)
    linked = (np.abs(features[:, :1] - features[:, 0]) < 0.08) | by_chance
    linked = np.triu(linked, 1)
    return features, linked | linked.T


def test_own_links_are_chosen_where_nodes_have_habits_of_their_own() -> None:
    features, linked = network(0)
    known, new = slice(0, 100), slice(100, None)
    graph = Graph(scipy.sparse.csr_array(linked[known, known].astype(float)))
    forest = SMERF(60, min_samples_split=4, random_state=0).fit(features[known], graph)
    compared = forest.compare_sides(graph)
    assert compared.chosen == "one"
    assert (compared.scoring, compared.n_pairs) == ("roc_auc", 100 * 99)
    truth = linked[new, known].ravel()
    areas = {
        sides: roc_auc_score(truth, -forest.training_distance(features[new], graph, sides=sides).ravel())
        for sides in ("one", "two", "auto")
    }
    assert areas["auto"] == areas["one"] > areas["two"] + 0.05
    assert compared.scores["one"]["roc_auc"] == pytest.approx(areas["one"], abs=0.05)


def test_leaves_of_both_are_taken_where_single_links_are_noise() -> None:
    rng = np.random.default_rng(0)
    features = rng.random((80, 2))
    linked = np.triu(rng.random((80, 80)) < np.where(np.abs(features[:, :1] - features[:, 0]) < 0.3, 0.2, 0.02), 1)
    graph = Graph(scipy.sparse.csr_array((linked | linked.T).astype(float)))
    forest = SMERF(60, min_samples_split=10, random_state=0).fit(features, graph)
    assert forest.compare_sides(graph).chosen == "two"
    assert forest.training_distance(features[:3], graph).tobytes() == forest.transform(features[:3]).tobytes()


def test_scores_that_say_nothing_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    forest = SMERF(20, random_state=0).fit(X, Distances(Z))
    same = ScoredSides({sides: {"spearman": 0.5} for sides in ("two", "one")}, "spearman", 90)
    monkeypatch.setattr("distforest.estimators.smerf.score_sides", lambda _forest, _truth: same)
    with pytest.warns(DistforestWarning, match=naming("sides:", "spearman", 0.5)):
        found = forest.training_distance(NEW, Z)
    assert found.tobytes() == forest.transform(NEW).tobytes()


def test_what_has_no_one_sided_distance_is_refused() -> None:
    forest = SMERF(3, random_state=0).fit(X, Distances(Z))
    with pytest.raises(InputError, match="scoring='roc_auc'"):
        forest.compare_sides(Z, "roc_auc")
    with pytest.raises(InputError, match=naming("sides:", "'two'", "'one'", "'auto'", "'both'")):
        forest.training_distance(NEW, Z, sides="both")
    with pytest.raises(InputError, match=naming("y:", "distances", 30, 20)):
        forest.training_distance(NEW, Z[:20, :20])
    linked = SMERF(3, random_state=0).fit(X, Graph(LINKS))
    with pytest.raises(InputError, match=naming("y:", "tree 0", 1, 0)):
        linked.training_distance(NEW, LINKS)  # the links themselves, which are no distances
    with pytest.raises(InputError, match=naming("sides:", "'two'", "'one'", "y")):
        forest.oob_distance([0], [1], sides="one")
    with pytest.raises(InputError, match=naming("scoring:", "'neg_root_mean_squared_error'", "'accuracy'")):
        forest.compare_sides(Z, "accuracy")
    everywhere = SMERF(3, bootstrap=False, random_state=0).fit(X, Distances(Z))
    with pytest.raises(InputError, match=naming("sides:", "bootstrap=True")):
        everywhere.compare_sides(Z)
    assert not hasattr(URerF(3), "training_distance")


@pytest.mark.parametrize(
    "taught", [Labels, Targets, lambda y: Targets(y, metric="absolute"), lambda y: Embedding(y[:, None])]
)
def test_a_ground_truth_whose_last_rows_are_in_another_order_is_refused(taught: Any) -> None:
    rows, y = RNG.normal(size=(90, 3)), np.arange(90) % 7
    forest = SMERF(3, random_state=0).fit(rows, taught(y))
    with pytest.raises(InputError, match=naming("y:", "something else")):
        forest.training_distance(rows[:2], taught(np.r_[y[:60], y[:59:-1]]), sides="one")


def test_a_single_target_that_was_changed_since_the_fit_is_found() -> None:
    forest = SMERF(3, random_state=0).fit(X, Targets(X[:, 1], metric="absolute"))
    row = int(np.flatnonzero(forest.forest_.in_bag[0])[-1])
    y = np.where(np.arange(N) == row, 9.0, X[:, 1])
    with pytest.raises(InputError, match=naming("y:", f"{X[row, 1]:.6g}", 9)):
        forest.training_distance(NEW, Targets(y, metric="absolute"), sides="one")


def test_the_metric_of_a_ground_truth_is_named_where_it_is_another() -> None:
    forest = SMERF(3, random_state=0).fit(X, Targets(X[:, 1]))
    with pytest.raises(InputError, match=naming("y:", "targets", 30, "metric='absolute'")):
        forest.training_distance(NEW, Targets(X[:, 1], metric="absolute"), sides="one")


def test_the_distance_of_a_node_to_itself_is_chosen_with_the_parameters() -> None:
    y = Graph(scipy.sparse.csr_array(LINKS))
    found = tune(SMERF(40, random_state=0), {"diagonal": [None, 0.5, 0.0]}, X, y, scoring="roc_auc")
    assert [cell["diagonal"] for cell in found.cv_results_["params"]] == [None, 0.5, 0.0]
    assert found.n_fits_ == 3
    graph = Graph(scipy.sparse.csr_array(LINKS), diagonal=found.best_params_["diagonal"])
    assert found.best_estimator_.digest_ == SMERF(40, random_state=0).fit(X, graph).digest_
    left, right = np.triu_indices(N, 1)
    estimate = found.best_estimator_.oob_distance(left, right)
    known = ~np.isnan(estimate)
    assert found.best_score_ == pytest.approx(roc_auc_score(LINKS[left, right][known], -estimate[known]))
    both = tune(SMERF(10, random_state=0), {"diagonal": [0.5, 0.0], "min_samples_split": [2, 8]}, X, y)
    assert (len(both.cv_results_["params"]), both.n_fits_ <= 3) == (4, True)
    with pytest.raises(InputError, match=naming("grid:", "'diagonal'")):
        tune(SMERF(4), {"diagonal": [0.5]}, X, Z)
    with pytest.raises(InputError, match=naming("diagonal:", "absent=1", 2.0)):
        tune(SMERF(4), {"diagonal": [0.5, 2.0]}, X, y)
