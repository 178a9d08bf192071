"""A ground truth is compared with what a forest was taught, as far as the forest tells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

from distforest import SMERF, Distances, Embedding, Graph, Labels, Targets
from distforest.errors import InputError
from distforest.forest import scoring, taught_truth
from distforest.forest.members import LeafDistances, Members
from distforest.forest.taught_truth import check_own_distances
from distforest.sources import graph_distances
from tests.messages import naming

RNG = np.random.default_rng(1)
N = 40
X = RNG.normal(size=(N, 3))
Z = np.abs(X[:, 0, None] - X[:, 0])
HOLES = np.where(np.triu(RNG.random(Z.shape) < 0.3, 1), np.nan, Z)
HOLES = np.triu(HOLES) + np.triu(HOLES, 1).T
LINKS = (Z < 0.3) & ~np.eye(N, dtype=bool)
CLASSES = np.digitize(X[:, 0], [-0.5, 0.5])
VALUES: dict[str, Any] = {
    "graph": LINKS.astype(float),
    "distances": Z,
    "far distances": 1e7 + Z,
    "holes": HOLES,
    "labels": CLASSES,
    "targets": X[:, 1],
    "small targets": 1e-6 * X[:, 1],
    "differences": X[:, 1],
    "embedding": X[:, :2],
}
READ: dict[str, Any] = {
    "graph": lambda values: Graph(scipy.sparse.csr_array(values)),
    "labels": Labels,
    "differences": lambda values: Targets(values, metric="absolute"),
    "embedding": Embedding,
    **dict.fromkeys(("targets", "small targets"), Targets),
}


def truth_of(name: str, values: np.ndarray) -> Any:
    """Values as the ground truth of this name."""
    return READ.get(name, Distances)(values)


def taught_otherwise(values: np.ndarray, row: int) -> np.ndarray:
    """The values with those of a row moved by one half, or to another class."""
    found: np.ndarray = np.array(values)
    if values.ndim == 2 and len(values) == values.shape[1]:
        others = np.arange(N) != row
        step = np.where(others, 0.5 if values.max(initial=0) != 1.0 else 1.0 - 2.0 * values[row], 0.0)
        found[row] += step
        found[:, row] = found[row]
    else:
        found[row] = (found[row] + 1) % 3 if values.dtype.kind == "i" else found[row] + 0.5 * np.abs(values).max()
    return found


@pytest.mark.parametrize("n_trees", [3, 30])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", VALUES)
def test_every_row_that_a_tree_drew_is_compared(name: str, weighted: bool, n_trees: int) -> None:
    values, weights = VALUES[name], RNG.integers(0, 3, N) if weighted else None
    forest = SMERF(n_trees, min_samples_leaf=4, random_state=0).fit(X, truth_of(name, values), weights)
    check_own_distances(forest.forest_, scoring.truth_as_learned(forest.forest_, truth_of(name, values)))
    drawn = np.flatnonzero(forest.forest_.in_bag.any(axis=0))
    not_by_the_first = np.setdiff1d(drawn, np.flatnonzero(forest.forest_.in_bag[0]))
    for row in [*drawn[:3], *not_by_the_first[:5]]:
        other = scoring.truth_as_learned(forest.forest_, truth_of(name, taught_otherwise(values, int(row))))
        with pytest.raises(InputError, match=naming("y:", "taught")):
            check_own_distances(forest.forest_, other)


def test_both_kinds_of_leaf_tables_of_distances_are_there() -> None:
    kinds = {type(SMERF(n, min_samples_leaf=4, random_state=0).fit(X, Z).forest_.leaf_table) for n in (3, 30)}
    assert kinds == {LeafDistances, Members}


def test_what_is_kept_is_compared_also_of_rows_that_no_tree_drew() -> None:
    forest = SMERF(1, max_samples=0.2, bootstrap=False, random_state=0).fit(X, Targets(X[:, 1], metric="absolute"))
    [row, *_] = np.flatnonzero(~forest.forest_.in_bag.any(axis=0))
    with pytest.raises(InputError, match=naming("y:", "a value")):
        forest.training_distance(X[:2], Targets(taught_otherwise(X[:, 1], int(row)), metric="absolute"), sides="one")


def test_nothing_is_known_of_a_row_that_no_tree_drew_where_means_are_kept() -> None:
    forest = SMERF(1, max_samples=0.2, bootstrap=False, random_state=0).fit(X, Targets(X[:, 1]))
    [row, *_] = np.flatnonzero(~forest.forest_.in_bag.any(axis=0))
    found = forest.training_distance(X[:2], Targets(taught_otherwise(X[:, 1], int(row))), sides="one")
    assert np.isfinite(found).all()


def test_links_that_a_large_forest_keeps_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_distances, "MOST_KEPT_DENSE", 10)
    graph = scipy.sparse.csr_array(LINKS.astype(float))
    forest = SMERF(60, min_samples_leaf=2, random_state=0).fit(X, Graph(graph))
    assert forest.forest_.meaning.leaf.kind == "graph"
    assert forest.training_distance(X[:2], Graph(graph), sides="one").shape == (2, N)
    with pytest.raises(InputError, match=naming("y:", "links")):
        forest.training_distance(
            X[:2], Graph(scipy.sparse.csr_array(taught_otherwise(LINKS.astype(float), 3))), sides="one"
        )
    with pytest.raises(InputError, match=naming("y:", "a value", 0, 0.5)):
        forest.training_distance(X[:2], Graph(0.5 * graph), sides="one")
    with pytest.raises(InputError, match=naming("y:", "a value", 1, 2)):
        forest.training_distance(X[:2], Graph(2.0 * graph, absent=2.0), sides="one")


@pytest.mark.parametrize("n_trees", [3, 30])
def test_unobserved_distances_are_those_of_the_fit(n_trees: int) -> None:
    how: dict[str, Any] = {"min_samples_leaf": 4, "random_state": 0}
    holes, whole = (SMERF(n_trees, **how).fit(X, Distances(z)) for z in (HOLES, Z))
    with pytest.raises(InputError, match=naming("y:", "some", "0 unobserved pairs")):
        holes.training_distance(X[:2], Distances(Z))
    with pytest.raises(InputError, match=r"y: .*\b[1-9]\d* unobserved pairs"):
        whole.training_distance(X[:2], Distances(HOLES))
    shuffled = RNG.permutation(N)
    with pytest.raises(InputError, match=naming("y:", "taught")):
        holes.training_distance(X[:2], Distances(HOLES[np.ix_(shuffled, shuffled)]), sides="one")


@pytest.mark.filterwarnings("ignore::distforest.errors.DistforestWarning")
def test_equal_values_are_those_of_the_fit() -> None:
    for y in (Targets(np.full(N, 1e9)), Embedding(np.ones((N, 2)), metric="cosine"), Labels(["a"] * N)):
        forest = SMERF(3, random_state=0).fit(X, y)
        assert (forest.training_distance(X[:2], y, sides="one") == 0.0).all()


def test_of_many_rows_those_trees_are_compared_that_drew_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    forest = SMERF(30, random_state=0).fit(X, Targets(X[:, 1])).forest_
    assert taught_truth.checked_trees(forest).tolist() == list(range(30))
    monkeypatch.setattr(taught_truth, "SUMS_TO_CHECK", 0)
    few = taught_truth.checked_trees(forest)
    assert few[0] == 0
    assert 1 < len(few) < 30
    assert (forest.in_bag[few].any(axis=0) == forest.in_bag.any(axis=0)).all()
    monkeypatch.setattr(taught_truth, "SUMS_TO_CHECK", 12 * N**2)
    assert len(taught_truth.checked_trees(forest)) == max(12, len(few))
