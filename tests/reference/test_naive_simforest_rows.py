"""The slow reference of similarity forests, by hand: rows that lack values, rows out of the bag, prices, isolation."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.reference import naive, naive_isolation
from tests.reference import naive_simforest as sim
from tests.reference.naive_simforest import Halves, Node, Projection, Rules
from tests.reference.simforest_by_hand import CLASSES, LINE, NAN, ONES, S_LINE, TARGETS, damaged, sample_of

# Pairs


S_GAP = np.full((5, 5), NAN)
S_GAP[:4, :4] = S_LINE
S_GAP[4, 4] = 1.0
GAP_CLASSES = [0, 0, 1, 1, 1]


@pytest.mark.parametrize("seed", range(6))
def test_a_row_without_a_value_stops(seed: int) -> None:
    tree = sim.grow_tree(S_GAP, GAP_CLASSES, [1, 1, 1, 1, 2], seed, 0, Rules())
    assert [node.n_rows for node in tree] == [6, 2, 2]
    assert tree[0].gain == 2.0
    assert tree[0].says == [2 / 6, 4 / 6]
    assert sim.as_table(tree, 5)["leaves"][4] == 0
    assert sim.predict([tree], [[NAN] * 5], Rules()).tolist() == [[2 / 6, 4 / 6]]


@pytest.mark.parametrize("seed", range(6))
def test_a_row_without_a_value_goes_with_the_larger_side(seed: int) -> None:
    larger = Rules(on_missing="larger", max_depth=1)
    for w, at_home in (([2, 1, 1, 1, 9], True), ([1, 1, 2, 1, 9], False)):
        tree = sim.grow_tree(S_GAP, GAP_CLASSES, w, seed, 0, larger)
        ends = sim.as_table(tree, 5)["leaves"]
        assert ends[4] == ends[0 if at_home else 3] != ends[3 if at_home else 0]
        assert sim.route_row(tree, [NAN] * 5, larger) == ends[4]
    tie = sim.grow_tree(S_GAP, GAP_CLASSES, [1, 1, 1, 1, 2], seed, 0, larger)
    assert sim.as_table(tree=tie, n=5)["leaves"][4] == 1
    assert [node.n_rows for node in tie] == [6, 4, 2]


def test_the_larger_child_of_a_test_row() -> None:
    for sizes, end in (((3, 4), 2), ((4, 3), 1), ((4, 4), 1)):
        root = Node([], 0, sum(sizes), [], Projection((0, 1), (1.0, -1.0)), left=1, right=2)
        tree = [root, *(Node([], 1, size, []) for size in sizes)]
        assert sim.route_row(tree, [NAN, 1.0], Rules(on_missing="larger")) == end
        assert sim.route_row(tree, [NAN, 1.0], Rules(on_missing="surrogate")) == end  # it has no surrogate
        assert sim.route_row(tree, [NAN, 1.0], Rules()) == 0


@pytest.mark.parametrize(
    ("half", "above", "weights", "expected"),
    [
        ([0, 1, 2, 3], [False, False, True, True], [1, 1, 1, 1], 1.5),
        # rows 0, 1, 3 agree at 0.5 and rows 0, 2, 3 at 2.5
        ([0, 1, 2, 3], [False, True, False, True], [1, 1, 1, 1], 0.5),
        ([0, 1, 2, 3], [False, True, False, True], [1, 1, 2, 1], 2.5),
        # 3 of 4 agree at best, and so does "right" for all
        ([0, 1, 2, 3], [True, False, True, True], [1, 1, 1, 1], None),
        ([0, 1], [True, False], [1, 1], None),
        ([5, 5, 5], [True, False, True], [1, 1, 1], None),
        ([], [], [], None),
        ([1 + 2.0**-52, 1 + 2.0**-51], [False, True], [1, 1], 1 + 2.0**-52),
    ],
)
def test_surrogate_thresholds(half, above, weights, expected) -> None:
    assert sim.agreeing_cut(half, above, weights) == expected


@pytest.mark.parametrize(
    ("halves", "surrogates", "larger_right", "expected"),
    [
        ((3.0, NAN), Halves(2.0, 2.0), False, True),
        ((2.0, NAN), Halves(2.0, 2.0), True, False),
        ((NAN, 3.0), Halves(2.0, 2.0), True, False),
        ((NAN, 2.0), Halves(2.0, 2.0), False, True),
        ((NAN, 3.0), Halves(2.0, None), True, True),
        ((3.0, NAN), Halves(None, 2.0), False, False),
        ((NAN, NAN), Halves(2.0, 2.0), True, True),
        ((NAN, NAN), Halves(2.0, 2.0), False, False),
    ],
)
def test_the_half_that_is_known_decides(halves, surrogates, larger_right, expected) -> None:
    assert sim.goes_right(halves, surrogates, larger_right) is expected


def test_surrogates_of_a_line() -> None:
    # S_kj = x_k x_j grows with x; it agrees on the side whose rows have the greater x
    rules = Rules(on_missing="surrogate")
    seen = set()
    for seed in range(12):
        tree = sim.grow_tree(S_LINE, CLASSES, ONES, seed, 0, rules)
        j, i = tree[0].projection.columns
        forwards = j > i
        seen.add(forwards)
        assert tree[0].surrogates == (Halves(2.5 * LINE[j], None) if forwards else Halves(None, 2.5 * LINE[i]))
        high, known = (2, j) if forwards else (1, i)
        for x in (1.0, 4.0):
            row = np.full(4, NAN)
            row[known] = x * LINE[known]
            assert sim.route_row(tree, row, rules) == (high if x == 4.0 else 3 - high)
    assert seen == {True, False}


def test_a_training_row_descends_by_the_half_that_is_known() -> None:
    # row 4 lies at x = 5. Similarity to a high row grows with x and stands in for the value; that to a low row grows
    # too, against the sides, so that one has no surrogate and row 4 goes with the heavier rows 0 and 1
    x = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    rules = Rules(on_missing="surrogate", max_depth=1)
    for gone, with_row in (([0, 1], 3), ([2, 3], 0)):
        S = np.outer(x, x)
        S[4, gone] = S[gone, 4] = NAN
        forwards = set()
        for seed in range(20):
            tree = sim.grow_tree(S, [0, 0, 1, 1, 0], [2, 2, 1, 1, 1], seed, 0, rules)
            j, i = tree[0].projection.columns
            ends = sim.as_table(tree, 5)["leaves"]
            if 4 not in (j, i):
                forwards.add(bool(j > i))
                assert ends[4] == ends[with_row] != ends[3 - with_row]
        assert forwards == {True, False}


# Invariants


@pytest.mark.parametrize("on_missing", ["stop", "larger", "surrogate"])
@pytest.mark.parametrize("n_columns", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_every_row_has_one_way(seed: int, n_columns: int, on_missing: str) -> None:
    S, y, w = damaged(40, seed, 0.2)
    rules = Rules(n_pairs=2, n_columns=n_columns, on_missing=on_missing, min_samples_leaf=2)
    tree = sim.grow_tree(S, y, w, seed, 4, rules)
    missing = 0
    assert len(tree) >= 3
    assert tree[0].rows == np.flatnonzero(w).tolist()
    for own, node in enumerate(tree):
        assert node.rows == sorted(set(node.rows))
        assert node.n_rows == sum(w[node.rows])
        assert node.says == pytest.approx([sum(w[r] for r in node.rows if y[r] == k) / node.n_rows for k in range(3)])
        if node.left < 0:
            continue
        assert own < node.left == node.right - 1
        stay = {row for row in node.rows if math.isnan(sim.projected(node.projection, S[row].__getitem__))}
        missing += len(stay)
        below = tree[node.left].rows + tree[node.right].rows
        assert sorted(below) == sorted(set(node.rows) - (stay if on_missing == "stop" else set()))
        assert min(tree[node.left].n_rows, tree[node.right].n_rows) >= 2
    assert missing > 0


@pytest.mark.parametrize("on_missing", ["stop", "larger"])
@pytest.mark.parametrize("seed", range(4))
def test_training_rows_are_routed_as_they_grew(seed: int, on_missing: str) -> None:
    S, y, w = damaged(24, seed, 0.2)
    rules = Rules(n_pairs=2, on_missing=on_missing)
    tree = sim.grow_tree(S, y, w, seed, 0, rules)
    table = sim.as_table(tree, 24)
    ends = [sim.route_row(tree, x, rules) for x in S]
    grown = [end if w[row] else -1 for row, end in enumerate(ends)]
    assert grown == table["leaves"].tolist()
    if on_missing == "stop":
        assert naive.route(table, S).tolist() == ends
        counts = naive.class_counts(table, table["leaves"], y, w, 3)
        assert (counts / counts.sum(axis=1, keepdims=True)).tolist() == table["says"].tolist()


@pytest.mark.parametrize("rules", [Rules(n_pairs=2), Rules(n_columns=4), TARGETS, Rules(truth_kind="isolation")])
def test_complete_data_know_no_missing_rule(rules: Rules) -> None:
    S, y, w = damaged(20, 1, 0.0)
    stop, larger, surrogate = (
        sim.grow_tree(S, y, w, 1, 0, replace(rules, on_missing=how)) for how in ("stop", "larger", "surrogate")
    )
    assert stop == larger
    assert len(stop) > 3
    assert [(node.rows, node.threshold, node.left) for node in surrogate] == [
        (node.rows, node.threshold, node.left) for node in stop
    ]


def test_rows_out_of_the_bag_have_no_say() -> None:
    S, y, w = damaged(24, 2, 0.1)
    tree = sim.grow_tree(S, y, w, 0, 0, Rules(n_pairs=2))
    out = np.flatnonzero(w == 0)
    assert len(out) > 3
    S[out], S[:, out], y[out] = 9.0, 9.0, 0
    assert sim.grow_tree(S, y, w, 0, 0, Rules(n_pairs=2)) == tree


def test_trees_and_seeds_differ() -> None:
    S, y, w = damaged(24, 2, 0.1)
    grown = [sim.grow_tree(S, y, w, seed, tree, Rules()) for seed in (0, 1) for tree in (0, 1)]
    assert all(grown[a] != grown[b] for a in range(4) for b in range(a))


# Evaluations


def test_evaluations_of_one_node() -> None:
    for seed in range(5):
        j, i = sim.grow_tree(S_LINE, CLASSES, ONES, seed, 0, Rules())[0].projection.columns
        touched = {(min(k, c), max(k, c)) for k in range(4) for c in (i, j)}
        assert len(touched) == 7  # two columns of four, their crossing counted once
        assert sim.evaluations(S_LINE, CLASSES, ONES, seed, 0, Rules()) == touched
        apart = sim.evaluations(S_LINE, CLASSES, ONES, seed, 0, Rules(kind="distance"))
        assert apart == touched - {(i, i), (j, j)}


def test_evaluations_of_pairs_that_cannot_be_used() -> None:
    S = np.array([[1, NAN], [NAN, 1]])
    assert len(sim.grow_tree(S, [0, 1], [1, 1], 0, 0, Rules())) == 1
    assert sim.evaluations(S, [0, 1], [1, 1], 0, 0, Rules()) == {(0, 0), (0, 1), (1, 1)}
    assert sim.evaluations(S, [0, 1], [1, 1], 0, 0, Rules(kind="distance")) == {(0, 1)}
    assert sim.evaluations(S, [0, 0], [1, 1], 0, 0, Rules()) == set()  # pure: nothing is drawn


def test_a_node_without_a_cut_pays_for_four_attempts() -> None:
    S, y, w = np.eye(30), np.arange(30) % 2, [1] * 30
    least = Rules(min_samples_leaf=16)  # no cut is possible
    for seed in range(5):
        key = naive.stream(seed, 0, 0)
        drawn = [sim.drawn_candidate(sample_of(S, y, w), range(30), key, a, 0).columns for a in range(4)]
        columns = {column for pair in drawn for column in pair}
        expected = {(min(k, c), max(k, c)) for k in range(30) for c in columns}
        assert len(columns) > 4
        assert sim.evaluations(S, y, w, seed, 0, least) == expected


def test_evaluations_are_in_the_bag() -> None:
    S, y, w = damaged(24, 3, 0.1)
    pairs = sim.evaluations(S, y, w, 0, 0, Rules(n_pairs=2, n_columns=2))
    assert {row for pair in pairs for row in pair} <= set(np.flatnonzero(w).tolist())
    assert all(a <= b for a, b in pairs)
    blind = S.copy()
    for a in range(24):
        for b in range(24):
            if (min(a, b), max(a, b)) not in pairs:
                blind[a, b] = NAN  # what was not asked for cannot matter
    rules = Rules(n_pairs=2, n_columns=2)
    assert sim.grow_tree(blind, y, w, 0, 0, rules) == sim.grow_tree(S, y, w, 0, 0, rules)
    assert sim.evaluations(S, y, w, 0, 0, Rules(feature_subsets=True)) == set()


def test_a_row_is_compared_with_the_columns_on_its_path() -> None:
    S, y, w = damaged(30, 5, 0.0)
    tree = sim.grow_tree(S, y, w, 0, 0, Rules())
    for x in S:
        path = sim.path_of(tree, x, Rules())
        columns = sim.columns_read(tree, x, Rules())
        assert columns == {c for own in path for c in tree[own].projection.columns}
        only = np.full(30, NAN)
        only[list(columns)] = x[list(columns)]
        assert sim.route_row(tree, only, Rules()) == path[-1]
        assert tree[path[-1]].left == -1


# Isolation

ISOLATION = Rules(truth_kind="isolation")


def test_usual_path() -> None:
    assert [naive_isolation.usual_path(m) for m in (1, 2)] == [0.0, 1.0]
    assert naive_isolation.usual_path(3) == pytest.approx(2 * (math.log(2) + 0.5772156649 - 2 / 3))
    assert naive_isolation.usual_path(256) == pytest.approx(10.2448, abs=1e-4)


def test_two_rows_are_as_usual() -> None:
    tree = sim.grow_tree([[2, 1], [1, 2]], [], [1, 1], 0, 0, ISOLATION)
    assert [node.rows for node in tree] in ([[0, 1], [0], [1]], [[0, 1], [1], [0]])
    assert naive_isolation.isolation_scores([tree], [[2, 1], [1, 2]], ISOLATION).tolist() == [0.5, 0.5]


def test_isolation_draws_its_pair_and_threshold() -> None:
    for seed in range(20):
        root = sim.grow_tree(S_LINE, [], ONES, seed, 3, ISOLATION)[0]
        key = naive.stream(seed, 3, 0)
        i = naive.below(key, 0, 4)
        j = [row for row in range(4) if row != i][naive.below(key, 1, 3)]
        assert root.projection == ((j, i), (1.0, -1.0))
        ends = sorted((LINE[j] - LINE[i]) * LINE[[0, 3]])
        assert root.threshold == ends[0] + (ends[1] - ends[0]) * naive.unit(key, 2**33)


def test_isolation_ends_at_the_depth_of_a_balanced_tree() -> None:
    x = np.arange(9, dtype=float)
    for n, deepest in ((8, 3), (9, 4), (2, 1)):
        depths = set()
        for tree in range(20):
            nodes = sim.grow_tree(np.outer(x, x)[:n, :n], [], [1] * n, 0, tree, ISOLATION)
            depths |= {node.depth for node in nodes}
        assert max(depths) == deepest
    equal = sim.grow_tree(np.ones((4, 4)), [], ONES, 0, 0, ISOLATION)
    assert len(equal) == 1  # no two of them are apart
    assert naive_isolation.isolation_scores([equal], np.ones((1, 4)), ISOLATION).tolist() == [0.5]


def test_an_outlier_has_the_highest_score() -> None:
    x = np.append(np.random.default_rng(0).normal(size=31), 12.0)
    S = sim.from_distances(np.abs(x[:, None] - x))
    trees = [sim.grow_tree(S, [], naive.subsample_weights(0, b, 32, 16), 0, b, ISOLATION) for b in range(40)]
    scores = naive_isolation.isolation_scores(trees, S, ISOLATION)
    assert scores.argmax() == 31
    assert scores[31] > 0.6
    assert np.median(scores) < 0.5
