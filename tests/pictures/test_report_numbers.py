"""The numbers of a report, against slow references: errors out of bag, shapes of trees, clusters."""

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_wine

from distforest import RFD, SMERF, Embedding, SimForestClassifier, Targets, TreeRank, URerF
from distforest.errors import InputError
from distforest.forest.pairs.pair_scores import node_scores
from distforest.pictures import out_of_bag
from distforest.pictures.clusters import clustered
from distforest.pictures.out_of_bag import error_curve, out_of_bag_roc
from distforest.pictures.tree_shapes import TreeShapes
from distforest.sources.truth import Truth, TruthKind
from tests.messages import naming


@pytest.fixture(scope="module")
def few_wines():
    X, y = load_wine(return_X_y=True)
    return X[::4], y[::4]


@pytest.fixture(scope="module")
def taught(few_wines):
    """Forests of each kind, with what is known of their rows."""
    X, y = few_wines
    labels, far = Truth.from_given(y, TruthKind.LABELS), np.abs(X[:, 0, None] - X[:, 0])
    near = -np.linalg.norm(X[:, None] - X, axis=2)
    return {
        "labels": (SMERF(7, random_state=0).fit(X, y), labels),
        "targets": (SMERF(7, random_state=0).fit(X, Targets(X[:, 0])), Truth.from_given(Targets(X[:, 0]))),
        "embedding": (SMERF(7, random_state=0).fit(X, Embedding(X[:, :2])), Truth.from_given(Embedding(X[:, :2]))),
        "distances": (SMERF(7, random_state=0).fit(X, far), Truth.from_given(far)),
        "nearest": (SimForestClassifier(n_estimators=7, voting="nearest", random_state=0).fit(near, y), labels),
        "untaught": (URerF(7, min_samples_split=9, random_state=0).fit(X), labels),
        "votes": (RFD(7, random_state=0).fit(X, y), labels),
        "evidence": (RFD(7, voting="evidence", random_state=0).fit(X, y), labels),
        "ranks": (TreeRank(7, n_pairs=500, max_samples=0.6, random_state=0).fit(X, y), labels),
    }


def route(table, tree, row):
    """The node in which a row ends, step by step."""
    start, node = int(table.tree_start[tree]), 0
    while table.left[start + node] != -1:
        first = table.offset[start + node]
        entries = range(first, first + table.width[start + node])
        value = sum(row[table.columns[e]] * table.weights[e] for e in entries)
        side = table.left if value <= table.threshold[start + node] else table.right
        node = int(side[start + node])
    return node


def naive_errors(estimator, truth):
    """The error after each tree, row by row and pair by pair."""
    forest = estimator.forest_
    n, found = forest.n_training, []
    said: dict[object, list[tuple[float, float]]] = {}
    predicts = forest.leaf_table.kind in ("class_counts", "means") and not forest.nearest_votes
    asked = range(n) if predicts else list(itertools.combinations(range(n), 2))
    for tree in range(forest.n_trees):
        for what in asked:
            rows = [what] if predicts else what
            if any(forest.in_bag[tree, row] for row in rows):
                continue
            said.setdefault(what, []).append(_said(forest, tree, rows))
        judged = {what: sum(a for a, _ in own) / sum(b for _, b in own) for what, own in said.items()}
        found.append(_error(forest, truth, judged))
    return found


def _said(forest, tree, rows):
    start = int(forest.table.tree_start[tree])
    if forest.leaves is not None and len(rows) == 1:
        return forest.leaf_table.outputs(tree, np.array([forest.leaves[tree, rows[0]]]))[0], 1.0
    if forest.leaves is not None:
        left, right = (forest.leaves[tree, [row]].astype(np.int64) for row in rows)
        return forest.leaf_table.between(tree, left, right)[0, 0], 1.0
    one, other = forest.points[list(rows)]
    middle = (one + other) * np.float32(0.5)
    node = start + route(forest.table, tree, np.concatenate([np.abs(one - other), middle]).astype(float))
    table = node_scores(forest)
    whole = 1.0 if table.wholes is None else table.wholes[node]
    return (table.parts[node] if table.dissimilar else whole - table.parts[node]), whole


def _error(forest, truth, judged):
    if not isinstance(next(iter(judged)), tuple):
        if truth.kind == TruthKind.LABELS:
            return np.mean([np.argmax(own) != truth.values[row] for row, own in judged.items()])
        return np.sqrt(np.mean([(own - truth.values[row]) ** 2 for row, own in judged.items()]))
    true = {pair: truth.distances(*np.array(pair)[:, None])[0] for pair in judged}
    if truth.kind == TruthKind.DISTANCES:
        return np.sqrt(np.mean([(own - true[pair]) ** 2 for pair, own in judged.items()]))
    if forest.leaf_table.kind == "votes":
        return np.mean([(own > 0.5) != (true[pair] > 0) for pair, own in judged.items()])
    same = [own for pair, own in judged.items() if true[pair] == 0]
    other = [own for pair, own in judged.items() if true[pair] > 0]
    return 1 - np.mean([(a < b) + (a == b) / 2 for a in same for b in other])


NAMES = ["labels", "targets", "embedding", "distances", "nearest", "untaught", "votes", "evidence", "ranks"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_errors_over_the_trees_are_those_of_the_definition(taught, name):
    estimator, truth = taught[name]
    curve = error_curve(estimator.forest_, truth)
    assert curve.n_trees.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert curve.error == pytest.approx(naive_errors(estimator, truth))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["labels", "untaught", "votes", "ranks"])
def test_the_curve_out_of_bag_has_the_area_of_all_trees(taught, name):
    estimator, truth = taught[name]
    forest = estimator.forest_
    judged: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for tree, pair in itertools.product(range(forest.n_trees), itertools.combinations(range(forest.n_training), 2)):
        if not forest.in_bag[tree, list(pair)].any():
            judged.setdefault(pair, []).append(_said(forest, tree, pair))
    far = {pair: sum(a for a, _ in own) / sum(b for _, b in own) for pair, own in judged.items()}
    same = [own for (i, j), own in far.items() if truth.values[i] == truth.values[j]]
    other = [own for (i, j), own in far.items() if truth.values[i] != truth.values[j]]
    area = np.mean([(a < b) + (a == b) / 2 for a in same for b in other])
    assert out_of_bag_roc(forest, truth).auc == pytest.approx(area)


def test_of_many_pairs_some_are_judged_the_same_ones_every_time(taught, monkeypatch):
    estimator, truth = taught["votes"]
    monkeypatch.setattr(out_of_bag, "MOST_PAIRS", 50)
    left, right = out_of_bag.scored_pairs(45)
    assert len({*zip(left.tolist(), right.tolist(), strict=True)}) == 50
    assert (left < right).all()
    curve = error_curve(estimator.forest_, truth)
    assert curve.judged.endswith(" pairs")
    assert int(curve.judged.split()[0]) <= 50


def test_a_truth_that_does_not_go_with_the_forest_is_refused(taught, few_wines):
    X, y = few_wines
    labels, targets = taught["labels"][1], taught["targets"][1]
    for name, truth, *named in (
        ("labels", targets, "truth:", "labels", "taught", "targets"),
        ("votes", targets, "truth:", "labels", "links", "targets"),
        ("labels", Truth.from_given(y[:9], TruthKind.LABELS), "truth:", "45 training rows", 9),
        ("labels", Truth.from_given(y + 1, TruthKind.LABELS), "truth:", "[0, 1, 2]", "[1, 2, 3"),
    ):
        with pytest.raises(InputError, match=naming(*named)):
            error_curve(taught[name][0].forest_, truth)
    with pytest.raises(InputError, match=naming("truth:", "labels", "ROC", "targets")):
        out_of_bag_roc(taught["targets"][0].forest_, targets)
    whole = SMERF(2, bootstrap=False, random_state=0).fit(X, y)
    with pytest.raises(InputError, match="out of bag"):
        error_curve(whole.forest_, labels)


def leaves_of(table, tree, node=0, depth=0):
    """All leaves below a node with their depths; a node that several share counts once for each path."""
    start = int(table.tree_start[tree])
    if table.left[start + node] == -1:
        return [(start + node, depth)]
    both = (int(table.left[start + node]), int(table.right[start + node]))
    return [leaf for child in both for leaf in leaves_of(table, tree, child, depth + 1)]


@pytest.mark.parametrize("name", ["labels", "untaught", "votes"])
def test_leaves_are_as_deep_and_large_as_a_walk_finds(taught, name):
    forest = taught[name][0].forest_
    shapes = TreeShapes.of(forest)
    found = [leaf for tree in range(forest.n_trees) for leaf in leaves_of(forest.table, tree)]
    assert shapes.depths.tolist() == [depth for _, depth in sorted(found)]
    assert shapes.sizes.tolist() == [int(forest.table.n_rows[node]) for node, _ in sorted(found)]
    for told, values in ((shapes.depths_told(), shapes.depths), (shapes.sizes_told(), shapes.sizes)):
        for words, n in told:
            least, _, most = words.partition(" to ")
            assert n == sum(int(least) <= value <= int(most or least) for value in values.tolist())
        assert sum(n for _, n in told) == len(values)


def test_leaves_of_ranking_trees_are_cells(taught):
    forest = taught["ranks"][0].forest_
    shapes, table = TreeShapes.of(forest), forest.leaf_table
    scores = table.scores[forest.table.is_leaf]
    for depth, score in zip(shapes.depths.tolist(), scores.tolist(), strict=True):
        assert score * 2**depth == int(score * 2**depth)  # of a cell of depth d the score is a multiple of 2^-d
    assert shapes.depths.max() > 1
    for tree in range(forest.n_trees):
        own = shapes.depths[np.repeat(np.arange(7), [int(table.leaves_in_order(t).size) for t in range(7)]) == tree]
        assert (2.0 ** -own.astype(float)).sum() == 1.0  # of a binary tree (Kraft)


def naive_average_linkage(apart, n_clusters):
    """Clusters that are joined until so many are left: always the two of the least mean distance."""
    clusters = [{k} for k in range(len(apart))]
    while len(clusters) > n_clusters:
        pairs = itertools.combinations(range(len(clusters)), 2)
        i, j = min(pairs, key=lambda two: np.mean([apart[a][b] for a in clusters[two[0]] for b in clusters[two[1]]]))
        clusters[i] |= clusters.pop(j)
    return {frozenset(own) for own in clusters}


@pytest.mark.parametrize("n_clusters", [1, 2, 4, 9, 20])
def test_clusters_are_those_of_average_linkage(n_clusters):
    points = np.random.default_rng(0).normal(size=(20, 2))
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    found = clustered(1.0 - apart, n_clusters)
    own = {frozenset(np.flatnonzero(found.codes == cluster).tolist()) for cluster in range(len(found.sizes))}
    assert own == naive_average_linkage(apart, n_clusters)
    assert sorted(found.order.tolist()) == list(range(20))
    steps = np.diff(found.codes[found.order])
    assert set(steps.tolist()) <= {0, 1}  # a cluster is a run


def test_clusters_that_lie_apart_are_found_without_their_number():
    places = np.repeat([0.0, 5.0, 11.0], [4, 6, 5]) + np.linspace(0, 0.5, 15)
    found = clustered(-np.abs(places[:, None] - places))
    assert sorted(found.sizes.tolist()) == [4, 5, 6]
    assert clustered(np.ones((5, 5))).sizes.tolist() == [5]
    assert clustered([[1.0]]).sizes.tolist() == [1]
