"""The references of naive.py against numbers worked out by hand, and against scikit-learn's trees."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from tests.reference import naive

NAN = math.nan


def test_numbers_are_splitmix64() -> None:
    # The published first outputs of splitmix64 from state 0.
    assert [naive.number(0, draw) for draw in range(3)] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]


def test_below_and_unit_scale_the_high_bits() -> None:
    # 0xE220A839 / 2^32 = 0.8833...: 8 of 10, 883 of 1000; 0x6E789E6A / 2^32 = 0.4315...
    assert [naive.below(0, 0, k) for k in (1, 10, 1000)] == [0, 8, 883]
    assert naive.below(0, 1, 10) == 4
    assert abs(naive.unit(0, 0) - 0xE220A8397B1DCDAF / 2**64) < 2**-52


def test_stream_of_the_sample_adds_nothing_for_node_minus_one() -> None:
    first = 0xE220A8397B1DCDAF  # mix(0 + G)
    assert naive.stream(0, -1, -1) == naive.mix(naive.mix(first))
    assert naive.stream(2**64 - naive.GOLDEN, 0, -1) == naive.mix(first)  # seed + G wraps to 0, mix(0) = 0
    streams = {naive.stream(s, t, v) for s in range(4) for t in range(4) for v in range(-1, 4)}
    assert len(streams) == 4 * 4 * 5


def test_samples_have_the_right_size_and_law() -> None:
    weights = naive.bootstrap_weights(7, 0, 1000, 1000)
    assert weights.sum() == 1000
    assert abs(np.mean(weights == 0) - math.exp(-1)) < 0.05  # standard deviation 0.01
    assert naive.subsample_weights(7, 0, 10, 10).tolist() == [1] * 10
    drawn = sum(naive.subsample_weights(7, tree, 10, 3) for tree in range(2000))
    assert drawn.sum() == 6000
    assert np.abs(drawn - 600).max() < 100  # standard deviation 20


def test_permutations_are_uniform_over_nodes() -> None:
    orders = Counter(tuple(naive.axis_permutation(1, 2, node, 3)) for node in range(6000))
    assert len(orders) == 6
    assert max(abs(count - 1000) for count in orders.values()) < 150  # standard deviation 29


def test_fixed_point_rounds_ties_to_even() -> None:
    # times 2: 0.5, 1.5, 2.5, -0.5, 0.6 -> 0, 2, 2, 0, 1
    assert naive.dense_pairs([[0.25, 0.75, 1.25, -0.25, 0.3]], 1).z == [[0, 2, 2, 0, 1]]
    assert naive.dense_pairs([[6.0, 10.0]], -2) == ([[2, 2]], Fraction(1, 4))


def test_pair_sum_counts_ordered_pairs_and_the_diagonal() -> None:
    # 2*2*1 + 2*3*2 + 3*2*3 + 3*3*4
    assert naive.pair_sum([[1, 2], [3, 4]], [0, 1], [2, 3]) == 70


def test_gain_of_balanced_labels() -> None:
    # AABB: T = 2 * 2 * 2 = 8; 8/4 - 0/2 - 0/2 = 2; cut A|ABB: RR = 2 * 1 * 2 = 4; 2 - 0 - 4/3
    assert naive.gain_of(8, 4, 0, 2, 0, 2) == 2
    assert naive.gain_of(8, 4, 0, 1, 4, 3) == Fraction(2, 3)


Z_LINE = [[0.0, 0.0, 3.0], [0.0, 0.0, 3.0], [3.0, 3.0, 0.0]]  # |y_i - y_j| of y = 0, 0, 3
Z_DIAGONAL = [[0.0, 0.0, 3.0], [0.0, 0.0, 3.0], [3.0, 3.0, 1.0]]


@pytest.mark.parametrize(
    ("values", "z", "weights", "min_leaf", "expected"),
    [
        # T/n = 12/3; {0}|{1,2}: 4 - 6/2 = 1; {0,1}|{2}: 4
        ([[0, 1, 2]], Z_LINE, [1, 1, 1], 1, (0, 1.5, 4.0)),
        # T = 2*2*3 + 2*2*3 + 4*1 = 28, n = 4; {0,1}|{2}: 7 - 0 - 4/2 = 5; {0}|{1,2}: 7 - 16/3
        ([[0, 1, 2]], Z_DIAGONAL, [1, 1, 2], 1, (0, 1.5, 5.0)),
        # row 0 unobserved: T/n = 6/2
        ([[NAN, 1, 2]], Z_LINE, [1, 1, 1], 1, (0, 1.5, 3.0)),
        # row 1 out of the bag: the neighbours are 0 and 2: T/n = 6/2
        ([[0, 1, 2]], Z_LINE, [1, 0, 1], 1, (0, 1.0, 3.0)),
        # two a side are asked and row 2 weighs 1: only {0}|{1,2} with w_0 = 2: 12+6 = 18, 18/4 - 6/2 = 3/2
        ([[0, 1, 2]], Z_LINE, [2, 1, 1], 2, (0, 0.5, 1.5)),
        # equal values are never parted
        ([[1, 1, 1]], Z_LINE, [1, 1, 1], 1, (-1, 0.0, 0.0)),
        # -z: the gains are -4 and -1
        ([[0, 1, 2]], [[-v for v in row] for row in Z_LINE], [1, 1, 1], 1, (-1, 0.0, 0.0)),
        # z = -1 everywhere: -3 + 1 + 2 = 0, and nothing is better
        ([[0, 1, 2]], [[-1.0] * 3] * 3, [1, 1, 1], 1, (0, 0.5, 0.0)),
        # the second candidate is better, the third equal to it but drawn later
        ([[0, 1, 0], [0, 1, 2], [2, 1, 0]], Z_LINE, [1, 1, 1], 1, (1, 1.5, 4.0)),
    ],
)
def test_best_cut_of_three_rows(values, z, weights, min_leaf, expected) -> None:
    assert naive.best_cut_dense(values, z, weights, min_leaf, 8) == expected


def test_a_nodes_scale_follows_that_of_all_in_steps_of_four() -> None:
    # 3 < 2^2: 26 - 2; 0.3 < 2^-1 is 3 below: the same step; 0.2 < 2^-2 is 4 below, 0.01 < 2^-6 is 8 below
    found = [naive.node_bits([[0.0, own], [own, 0.0]], 3.0) for own in (3.0, 0.3, -0.2, 0.01, 0.0)]
    assert found == [24, 24, 28, 32, 126]


def test_spreads_are_about_each_nodes_own_mean() -> None:
    table = {"left": np.array([1, -1, -1]), "right": np.array([2, -1, -1])}
    # 0, 0, 3 about 1; 10 about itself; all about 13/4: (2 * 169 + 1 + 729) / 16 / 4
    assert naive.spreads(table, [1, 1, 2], [[0.0], [3.0], [10.0]], [2, 1, 1]).tolist() == [1068 / 64, 2.0, 0.0]


def test_among_equal_gains_the_lowest_threshold() -> None:
    # ABA: T/n = 4/3; both cuts leave an AB pair, 2/2 = 1
    assert naive.best_cut_labels([[0, 1, 2]], [0, 1, 0], [1, 1, 1], 1) == (0, 0.5, float(Fraction(1, 3)))


def test_threshold_falls_back_to_the_left_neighbour() -> None:
    eps = 2.0**-52
    assert naive.midpoint(1 + eps, 1 + 2 * eps) == 1 + eps  # the middle is a tie; even is b
    assert naive.midpoint(1.0, 1 + eps) == 1.0
    assert naive.midpoint(-1.0, 2.0) == 0.5
    cut = naive.best_cut_labels([[1 + eps, 1 + 2 * eps]], [0, 1], [1, 1], 1)
    assert cut == (0, 1 + eps, 1.0)  # v <= t is left: T/n = 2/2


def test_embedding_gain_is_exact() -> None:
    # points (0,0), (0,1) | (3,4): squares 1, 25, 18; T = 2 * 44, n = 3; LL = 2, n_L = 2: 88/3 - 1
    cut = naive.best_cut_embedding([[0, 1, 2]], [[0, 0], [0, 1], [3, 4]], [1, 1, 1], 1, 1.0)
    assert cut == (0, 1.5, float(Fraction(85, 3)))
    half = naive.best_cut_embedding([[0, 1, 2]], [[0, 0], [0, 1], [3, 4]], [1, 1, 1], 1, 0.5)
    assert half == (0, 1.5, float(Fraction(85, 6)))


def test_tree_of_four_targets_is_numbered_level_by_level() -> None:
    # y = 0, 1, 10, 11: T = 4 * 222 - 22^2 = 404; LL = 2 * 1 - 1 = 1, RR = 2 * 221 - 441 = 1: 101 - 1/2 - 1/2
    X = np.array([[0], [1], [2], [3]], dtype=np.float32)
    pairs = naive.embedding_pairs([[0], [1], [10], [11]], 0.5)
    table = naive.grow_tree(X, pairs, [1, 1, 1, 1], 0, 0, naive.Limits(1))
    assert table["left"].tolist() == [1, 3, 5, -1, -1, -1, -1]
    assert table["right"].tolist() == [2, 4, 6, -1, -1, -1, -1]
    assert table["threshold"].tolist() == [1.5, 0.5, 2.5, 0, 0, 0, 0]
    assert table["gain"].tolist() == [100, 0.5, 0.5, 0, 0, 0, 0]
    assert table["n_rows"].tolist() == [4, 2, 2, 1, 1, 1, 1]
    assert table["width"].tolist() == [1, 1, 1, 0, 0, 0, 0]
    assert table["columns"].tolist() == [0, 0, 0]
    assert table["leaves"].tolist() == naive.route(table, X).tolist() == [3, 4, 5, 6]


def missing_row_tree() -> tuple[np.ndarray, list[int], dict[str, np.ndarray]]:
    """Return X, weights and table: rows 0, 1 | 2, 3; row 4 is missing and stays; row 5 is out of the bag."""
    X = np.array([[0], [1], [2], [3], [NAN], [9]], dtype=np.float32)
    weights = [1, 1, 1, 1, 2, 0]
    return (
        X,
        weights,
        naive.grow_tree(X, naive.label_pairs([0, 0, 1, 1, 1, 0]), weights, 0, 0, naive.Limits(1)),
    )


def test_missing_rows_stay_at_their_node_and_out_of_bag_rows_descend() -> None:
    X, _, table = missing_row_tree()
    assert table["left"].tolist() == [1, -1, -1]
    assert table["gain"].tolist() == [2, 0, 0]  # the missing row takes no part: AABB
    assert table["n_rows"].tolist() == [6, 2, 2]
    assert table["leaves"].tolist() == naive.route(table, X).tolist() == [1, 1, 2, 2, 0, 2]
    assert naive.route(table, np.array([[1.5], [np.inf], [-np.inf]])).tolist() == [1, 2, 1]


def test_what_nodes_say() -> None:
    _, weights, table = missing_row_tree()
    leaves = table["leaves"]
    counts = naive.class_counts(table, leaves, [0, 0, 1, 1, 1, 0], weights, 2)
    assert counts.tolist() == [[2, 4], [2, 0], [0, 2]]
    assert naive.counts_distance(counts[0], counts[1]) == float(Fraction(2, 3))  # 1 - 2/6 * 1
    mean, squares = naive.means(table, leaves, [[0], [2], [4], [6], [9], [100]], weights)
    assert mean.tolist() == [[5], [1], [5]]  # (0 + 2 + 4 + 6 + 2 * 9) / 6
    assert squares.tolist() == [float(Fraction(218, 6)), 2, 26]
    # ((0-4)^2 + (0-6)^2 + (2-4)^2 + (2-6)^2) / 4 = 18 = 2 + 26 - 2 * 1 * 5
    assert naive.means_distance(mean[1], squares[1], mean[2], squares[2], 1.0) == 18


def test_leaf_distances_include_self_pairs_and_multiplicities() -> None:
    _, weights, table = missing_row_tree()
    y = [0, 2, 4, 6, 9, 100]
    z = [[(a - b) ** 2 for b in y] for a in y]
    leaves = table["leaves"]
    assert naive.leaf_distance(z, weights, leaves, 1, 2) == 18
    assert naive.leaf_distance(z, weights, leaves, 1, 1) == 2  # (0 + 4 + 4 + 0) / 4
    assert naive.leaf_distance(z, [1, 3, 1, 1, 2, 0], leaves, 1, 1) == 1.5  # 2 * 1 * 3 * 4 / 16
    assert naive.leaf_distance(z, weights, leaves, 0, 1) == 65  # row 4 alone: (81 + 49) / 2
    # rows 0 to 4 with 1, 1, 1, 1, 2 to rows 0 and 1: (4 + 4 + 16 + 4 + 36 + 16 + 2 * 130) / 12
    assert naive.leaf_distance(z, weights, leaves, 0, 1, table) == float(Fraction(340, 12))


def test_forest_and_out_of_bag_means() -> None:
    # Leaves 1 and 2 of each tree; rows 0 and 3 are both out of the bag in the second tree only.
    z = [[abs(i - j) for j in range(4)] for i in range(4)]
    trees = [naive.Grown([1, 1, 1, 0], [1, 1, 2, 2]), naive.Grown([0, 1, 2, 0], [1, 1, 2, 2])]
    # h of the first: ({0, 1}, {2}): (2 + 1) / 2; of the second: ({1}, {2, 2}): 1
    assert naive.forest_distance(z, trees, [1, 1], [2, 2]) == 1.25
    assert naive.oob_distance(z, trees, 0, 3) == (1.0, 1)
    for i, j in ((0, 1), (1, 2), (3, 3)):
        value, count = naive.oob_distance(z, trees, i, j)
        assert math.isnan(value)
        assert count == 0


def test_attempts_go_on_until_the_columns_are_used_up() -> None:
    X = np.array([[0, 5, 7, 0], [0, 5, 7, 1]], dtype=np.float32)
    pairs = naive.label_pairs([0, 1])
    for seed in range(8):
        for d in (1, 2, 3, 4):
            table = naive.grow_tree(X, pairs, [1, 1], seed, 0, naive.Limits(d))
            assert table["columns"].tolist() == [3]
    assert len(naive.grow_tree(X[:, :3], pairs, [1, 1], 0, 0, naive.Limits(1))["left"]) == 1


def test_the_first_column_drawn_wins_among_equals() -> None:
    X = np.array([[0, 5, 2], [1, 4, 9]], dtype=np.float32)
    for seed in range(8):
        table = naive.grow_tree(X, naive.label_pairs([0, 1]), [1, 1], seed, 3, naive.Limits(3))
        assert table["columns"].tolist() == naive.axis_permutation(seed, 3, 0, 3)[:1]


@pytest.mark.parametrize(
    ("limits", "size"),
    [
        (naive.Limits(1), 7),
        (naive.Limits(1, max_depth=0), 1),
        (naive.Limits(1, max_depth=1), 3),
        (naive.Limits(1, min_samples_split=3), 3),
        (naive.Limits(1, min_samples_split=5), 1),
        (naive.Limits(1, min_samples_leaf=2), 3),
        (naive.Limits(1, min_samples_leaf=3), 1),
    ],
)
def test_limits_close_nodes(limits: naive.Limits, size: int) -> None:
    X = np.array([[0], [1], [2], [3]], dtype=np.float32)
    pairs = naive.embedding_pairs([[0], [1], [10], [11]], 0.5)
    assert len(naive.grow_tree(X, pairs, [1, 1, 1, 1], 0, 0, limits)["left"]) == size


def nodes_as_in_sklearn(table: dict[str, np.ndarray], model: object) -> int:
    """Assert equal cuts top down and count the nodes: scikit-learn numbers its nodes depth first."""
    theirs, stack, seen = model.tree_, [(0, 0)], 0
    columns = np.zeros(len(table["left"]), dtype=int)
    columns[table["width"] == 1] = table["columns"]
    while stack:
        own, other = stack.pop()
        seen += 1
        left, right = theirs.children_left[other], theirs.children_right[other]
        assert (table["left"][own] < 0) == (left < 0)
        assert table["n_rows"][own] == theirs.weighted_n_node_samples[other]
        if left >= 0:
            assert columns[own] == theirs.feature[other]
            assert table["threshold"][own] == pytest.approx(theirs.threshold[other], abs=1e-6)
            n, impurity = theirs.weighted_n_node_samples, theirs.impurity
            decrease = n[other] * impurity[other] - n[left] * impurity[left] - n[right] * impurity[right]
            assert table["gain"][own] == pytest.approx(decrease, rel=1e-9)
            stack += [(table["left"][own], left), (table["right"][own], right)]
    return seen


def test_labels_grow_scikit_learns_gini_tree() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 3)).astype(np.float32)
    y = (X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=40) > 0).astype(int) + (X[:, 2] > 0.8)
    weights = naive.bootstrap_weights(1, 0, 40, 40)
    table = naive.grow_tree(X, naive.label_pairs(y), weights, 1, 0, naive.Limits(3, max_depth=3))
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y, sample_weight=weights)
    assert nodes_as_in_sklearn(table, model) == model.tree_.node_count > 5


def test_targets_grow_scikit_learns_variance_tree() -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30, 1)).astype(np.float32)  # one column: no two cuts of a small node are equal
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=30)
    table = naive.grow_tree(X, naive.embedding_pairs(y[:, None], 0.5), [1] * 30, 0, 0, naive.Limits(1))
    model = DecisionTreeRegressor(random_state=0).fit(X, y)
    assert nodes_as_in_sklearn(table, model) == model.tree_.node_count > 5
    mean, _ = naive.means(table, table["leaves"], y[:, None], [1] * 30)
    assert mean[table["leaves"], 0] == pytest.approx(model.predict(X))


def test_fully_grown_targets_predict_half_the_squared_difference() -> None:
    # Eq. 13 on y = 0, 1, 10: single leaves, so h(l, l') = (y_i - y_j)^2 / 2
    X, y = np.array([[0], [1], [2]], dtype=np.float32), [0.0, 1.0, 10.0]
    z = [[(a - b) ** 2 / 2 for b in y] for a in y]
    table = naive.grow_tree(X, naive.dense_pairs(z, 4), [1, 1, 1], 0, 0, naive.Limits(1))
    leaves = table["leaves"]
    assert [naive.leaf_distance(z, [1, 1, 1], leaves, leaves[0], b) for b in leaves] == [0.0, 0.5, 50.0]


def test_similarities() -> None:
    assert naive.linear([1, 2], [3, 4]) == 11
    assert naive.cosine([3, 4], [4, 3]) == 24 / 25
    assert naive.rbf([0, 0], [1, 1], 0.5) == math.exp(-1)
    S = [[1, 2, 4], [2, 3, 9], [4, 9, 7]]
    assert naive.simforest_value(S, 0, 1, 2) == 2  # S_02 - S_01
    assert naive.simforest_value(S, 0, 2, 1) == -2
