"""The references of naive_trees_of_pairs.py against numbers worked out by hand, scikit-learn, and what always holds."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.tree import DecisionTreeClassifier

from tests.reference import naive_trees_of_pairs as ref

Found = list[tuple[int, int, int, int]]  # two columns, code and weight of each pair
HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
SHALLOW = ref.Limits(max_depth=1)
FAMILIES = ("difference", "difference_mean", "max_min")
EIGHT = ref.Sample(np.arange(8.0)[:, None], [0, 0, 1, 0, 1, 0, 1, 1], [1] * 8)  # + + - + - + - -

floats32 = st.floats(-(2.0**100), 2.0**100, width=32)
rows = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=12
).filter(lambda found: any(weight for *_, weight in found))
rankings = st.builds(
    ref.Ranking, st.integers(0, 4), st.builds(ref.Limits, st.integers(1, 3), st.integers(1, 2)), st.none()
)


def sample_of(found: Found, squares: int = 0) -> ref.Sample:
    """Two small columns a pair; of a square region, the maximum and the minimum of the two."""
    first, second, codes, weights = (np.array(column) for column in zip(*found, strict=True))
    if squares:
        first, second = np.maximum(first, second), np.minimum(first, second)
    return ref.Sample(np.column_stack([first, second]), codes, weights, squares)


def planted(seed: int, m: int, p: int, family: str = "difference_mean") -> ref.Sample:
    """Pairs of 30 points in two classes that differ in the first coordinate; all weights 1."""
    rng = np.random.default_rng(seed)
    labels = np.arange(30) % 2
    X = rng.normal(size=(30, p)).astype(np.float32)
    X[:, 0] += 2 * labels
    every = list(combinations(range(30), 2))
    pairs = [every[k] for k in rng.choice(len(every), m, replace=False)]
    codes = [int(labels[i] != labels[j]) for i, j in pairs]
    return ref.Sample(ref.pair_table(X, pairs, family), codes, [1] * m, p if family == "max_min" else 0)


# Columns of a pair


def test_columns_by_hand() -> None:
    x, x2 = np.float32([1, -2, 0.5]), np.float32([4, -2, -0.25])
    assert ref.pair_columns(x, x2, "difference").tolist() == [3, 0, 0.75]
    assert ref.pair_columns(x, x2, "difference_mean").tolist() == [3, 0, 0.75, 2.5, -2, 0.125]
    assert ref.pair_columns(x, x2, "max_min").tolist() == [4, -2, 0.5, 1, -2, -0.25]
    with pytest.raises(ValueError, match="cosine"):
        ref.pair_columns(x, x2, "cosine")
    assert ref.pair_columns([0.0], [-0.0], "max_min").tobytes() == ref.pair_columns([-0.0], [0.0], "max_min").tobytes()
    assert ref.dot_column([1, 2, 3], [4, 5, -6]) == -4
    assert ref.dot_column([1, 2.0**-40], [1, 1]) == 1  # rounded to float32
    assert ref.same_column([1, 2, 3], [1, 3, 3]) == np.float32(2 / 3)
    X, sames = x[:, None], np.int64([[7], [8], [7]])
    table = ref.pair_table(X, [(0, 2), (1, 1)], "difference", [np.eye(3), X], [sames])
    assert table.dtype == np.float32
    assert table.tolist() == [[0.5, 0, 0.5, 1], [0, 1, 4, 1]]


@given(st.lists(st.tuples(floats32, floats32), min_size=1, max_size=4))
def test_columns_are_symmetric_bit_for_bit_and_rounded_once(points: list[tuple[float, float]]) -> None:
    x, x2 = np.float32(points).T
    for family in FAMILIES:
        assert ref.pair_columns(x, x2, family).tobytes() == ref.pair_columns(x2, x, family).tobytes()
    exact = [abs(Fraction(float(u)) - Fraction(float(v))) for u, v in zip(x, x2, strict=True)]
    exact += [(Fraction(float(u)) + Fraction(float(v))) / 2 for u, v in zip(x, x2, strict=True)]
    for value, found in zip(exact, ref.pair_columns(x, x2, "difference_mean"), strict=True):
        near = [np.nextafter(found, np.float32(side)) for side in (-np.inf, np.inf)]
        assert abs(Fraction(float(found)) - value) <= min(abs(Fraction(float(other)) - value) for other in near)


# Cuts


def test_cuts_by_hand() -> None:
    columns = np.array([[0.0], [1], [2], [3]])
    assert ref.best_cut(columns, [0, 0, 1, 1], [1] * 4, (1, 1), 1) == (0, 1.5, 2)  # 2 * 2 * 2/4
    assert ref.best_cut(columns, [0, 0, 1, 1], [1] * 4, (3, 1), 1) == (0, 1.5, 3)  # 2 * 6 * 2/8
    # 0 | 1 1 0: 2 - 0 - 2 * 1 * 2/3, and the same at 2.5: the lower one; at 1.5 nothing is gained
    assert ref.best_cut(columns, [0, 1, 1, 0], [1] * 4, (1, 1), 1) == (0, 0.5, Fraction(2, 3))
    assert ref.best_cut(columns, [0, 1, 1, 0], [1] * 4, (1, 1), 2) == (0, 1.5, 0)  # where nothing is better
    assert ref.best_cut(columns, [0, 1, 1, 0], [1] * 4, (1, 1), 3) == ref.NO_CUT
    # a cost of 1/2 for code 0: m = (1, 2), 4/3 - 2 * 0.5 * 2/2.5
    assert ref.best_cut(columns, [0, 1, 1, 0], [1] * 4, (HALF, 1), 1).gain == Fraction(4, 3) - Fraction(4, 5)


def test_the_first_of_equal_candidates_and_only_given_thresholds() -> None:
    columns = np.array([[5.0, 0, 3], [5, 1, 2], [5, 2, 1], [5, 3, 0]])
    codes, ones = [0, 0, 1, 1], [1] * 4
    assert ref.best_cut(columns, codes, ones, (1, 1), 1) == (1, 1.5, 2)
    assert ref.best_cut(columns[:, [2, 1, 0]], codes, ones, (1, 1), 1) == (0, 1.5, 2)
    assert ref.best_cut(columns[:, [1]], codes, ones, (1, 1), 1, [[0.7, 2.2]]) == (0, 0.7, Fraction(2, 3))
    assert ref.best_cut(columns[:, [1]], codes, ones, (1, 1), 1, [[-1, 3]]) == ref.NO_CUT
    assert ref.best_cut(columns[:, [0]], codes, ones, (1, 1), 1) == ref.NO_CUT


def test_gains_that_differ_by_rounding_are_equal() -> None:
    columns, codes = np.array([[0.0, 1], [1, 1], [1, 1], [1, 0]]), [0, 0, 1, 1]  # one of code 0 off, one of code 1 off
    for cost, found in ((1 + Fraction(1, 2**60), {0}), (1 + Fraction(1, 2**30), {0, 1})):
        cuts = [ref.best_cut(columns[:, order], codes, [1] * 4, (1, cost), 1) for order in ([0, 1], [1, 0])]
        assert {cut.column for cut in cuts} == found


def test_square_cuts_by_hand() -> None:
    largest, smallest = np.array([[1.0], [3], [2], [3]]), np.array([[0.0], [2], [0], [1]])
    # the points 0 1 | 2 3: 1.5 separates the last two pairs
    assert ref.best_square_cut(largest, smallest, [0, 0, 1, 1], [1] * 4, (1, 1), 1) == (0, 1.5, 2)
    assert ref.best_square_cut(largest, smallest, [0, 0, 1, 1], [1] * 4, (1, 1), 3) == ref.NO_CUT
    # a cut may lie between two minima, or between two maxima
    for top, bottom, place in (([[3.0], [3]], [[2.0], [0]], 1), ([[1.0], [3]], [[0.0], [0]], 2)):
        assert ref.best_square_cut(np.array(top), np.array(bottom), [0, 1], [1, 1], (1, 1), 1) == (0, place, 1)
    # no cut of a single column parts them
    assert ref.best_cut(np.hstack([largest, smallest]), [0, 0, 1, 1], [1] * 4, (1, 1), 1).gain < 2
    two = [np.hstack([np.zeros((4, 1)), column]) for column in (largest, smallest)]
    assert ref.best_square_cut(*two, [0, 0, 1, 1], [1] * 4, (1, 1), 1) == (1, 1.5, 2)
    further = ref.Sample(np.hstack([largest, smallest, [[0], [0], [9], [9]]]), [0, 0, 1, 1], [1] * 4, 1)
    assert further.candidates() == [0, 2]
    assert ref.best_of(further, range(4), (1, 1), 1) == (0, 1.5, 2)  # column 2 is as good and comes later


@given(st.integers(-3, 3), st.integers(-3, 3), st.sampled_from(np.arange(-3.5, 4, 0.5).tolist()))
def test_a_square_cut_is_the_papers_and_two_nodes_of_a_table(x: int, x2: int, A: float) -> None:
    top, bottom = max(x, x2), min(x, x2)
    separated = ref.goes_left([top, bottom], 0, A, squares=1)
    assert separated == (not (top <= A) and bottom <= A)  # max <= A: together; else min <= A: separated; else together
    if A not in (x, x2):  # the paper's signs differ in what they do with the boundary alone
        assert separated == (not ((top >= A) ^ (bottom <= A)))


@settings(max_examples=40)
@given(rows, st.integers(0, 1), st.integers(1, 3))
def test_weights_are_repeated_pairs(found: Found, squares: int, min_leaf: int) -> None:
    sample = sample_of(found, squares)
    again = sample_of([(*row[:3], 1) for row in found for _ in range(row[3])], squares)
    cut = ref.best_of(sample, range(len(found)), (2, 3), min_leaf)
    assert cut == ref.best_of(again, range(len(again.codes)), (2, 3), min_leaf)
    if cut.column >= 0:
        sides = [ref.goes_left(row, cut.column, cut.threshold, squares) for row in again.values]
        assert min(sum(sides), len(sides) - sum(sides)) >= min_leaf


def test_a_cell_is_cut_by_gini_and_not_by_lambda() -> None:
    """12 of each: Gini takes the pure end (4, 0), though (8, 3) has Lambda 5/12, not 4/12."""
    signs = "++++-+-+-++--+-+-+-+----"
    codes = [int(sign == "-") for sign in signs]
    assert sum(codes) == 12
    cut = ref.best_cut(np.arange(24.0)[:, None], codes, [1] * 24, (12, 12), 1)
    assert cut.threshold == 3.5
    differences = [signs[:s].count("+") - signs[:s].count("-") for s in range(1, 24)]
    assert differences.index(max(differences)) == 10
    # with equal total costs M = 144: M (l_0 - l_1)^2/((l_0 + l_1)(2 M - l_0 - l_1)), l = 12 (4, 0)
    assert cut.gain == Fraction(144 * 48**2, 48 * (288 - 48))


# One tree


def test_a_tree_by_hand() -> None:
    tree = ref.grow_tree(EIGHT)
    assert (tree["counts"], tree["threshold"], tree["gain"]) == ((4, 4), 1.5, 4 - Fraction(16, 6))
    assert tree["left"] == {"rows": [0, 1], "counts": (2, 0)}
    assert [leaf["rows"] for leaf in ref.leaves_of(tree)] == [[0, 1], [2], [3], [4], [5], [6, 7]]
    closed = {(0, 1, 2): [8], (1, 1, 2): [2, 6], (2, 1, 2): [2, 4, 2], (None, 3, 2): [4, 4], (None, 1, 7): [2, 6]}
    for limits, leaves in (closed | {(None, 1, 6): [2, 4, 2]}).items():
        assert [len(leaf["rows"]) for leaf in ref.leaves_of(ref.grow_tree(EIGHT, limits=ref.Limits(*limits)))] == leaves


def test_a_pair_out_of_the_bag_is_routed_and_not_counted() -> None:
    sample = ref.Sample(np.array([[0.0], [4], [1.5], [9]]), [0, 1, 1, 0], [1, 1, 0, 0])
    tree = ref.grow_tree(sample)
    assert (tree["threshold"], tree["counts"]) == (2, (1, 1))
    assert [(leaf["rows"], leaf["counts"]) for leaf in ref.leaves_of(tree)] == [([0, 2], (1, 0)), ([1, 3], (0, 1))]
    assert ref.leaf_of(tree, [1.5])["rows"] == [0, 2]


@pytest.mark.parametrize("costs", [(1, 1), (3, 2)])
def test_scikit_learn_finds_no_better_cut_in_any_node(costs: tuple[int, int]) -> None:
    """2 m_0 m_1/m is m times scikit-learn's Gini impurity; of equal cuts it takes any."""
    sample = planted(0, 80, 2)
    options = {"min_samples_leaf": 3, "class_weight": dict(enumerate(costs)), "random_state": 0}
    peer = DecisionTreeClassifier(**options).fit(sample.values, sample.codes)
    inside = peer.decision_path(sample.values).toarray().astype(bool)
    t = peer.tree_
    loss = t.weighted_n_node_samples * t.impurity
    assert t.node_count > 8
    for node in range(t.node_count):
        cut = ref.best_of(sample, np.flatnonzero(inside[:, node]).tolist(), costs, 3)
        left, right = t.children_left[node], t.children_right[node]
        gain = loss[node] - loss[left] - loss[right] if left >= 0 else 0.0
        assert float(cut.gain) == pytest.approx(gain, abs=1e-9)


def test_a_forest_is_an_ordinary_forest_on_the_table_of_pairs() -> None:
    sample, rng = planted(1, 90, 2), np.random.default_rng(2)
    limits = ref.Limits(max_depth=3, min_samples_leaf=5)
    trees, peers = [], []
    for _ in range(3):
        weights = np.bincount(rng.integers(90, size=90), minlength=90)
        drawn = np.repeat(np.arange(90), weights)
        trees.append(ref.grow_tree(ref.Sample(sample.values, sample.codes, weights), limits=limits))
        peer = DecisionTreeClassifier(max_depth=3, min_samples_leaf=5, random_state=0)
        peers.append(peer.fit(sample.values[drawn], np.array(sample.codes)[drawn]))
    shares = np.mean([peer.predict_proba(sample.values)[:, 1] for peer in peers], axis=0)
    votes = np.mean([peer.predict(sample.values) for peer in peers], axis=0)
    assert [float(ref.distance(trees, row, "mean")) for row in sample.values] == pytest.approx(shares)
    assert [float(ref.distance(trees, row, "majority")) for row in sample.values] == pytest.approx(votes)


@settings(max_examples=40)
@given(rows, st.integers(0, 1))
def test_a_tree_that_is_not_held_back_parts_all_that_can_be_parted(found: Found, squares: int) -> None:
    sample = sample_of(found, squares)
    tree = ref.grow_tree(sample)
    for leaf in ref.leaves_of(tree):
        assert all(ref.leaf_of(tree, sample.values[row]) is leaf for row in leaf["rows"])
        assert min(leaf["counts"]) == 0 or ref.best_of(sample, leaf["rows"], (1, 1), 1) == ref.NO_CUT
    assert sorted(row for leaf in ref.leaves_of(tree) for row in leaf["rows"]) == list(range(len(found)))


# Votes


def test_votes_by_hand() -> None:
    stumps = [ref.grow_tree(ref.Sample(np.zeros((3, 1)), [0, 0, 1], weights)) for weights in ([1, 1, 1], [0, 1, 9])]
    assert [stump["counts"] for stump in stumps] == [(2, 1), (1, 9)]
    assert ref.distance(stumps, [0.0], "majority") == HALF
    assert ref.distance(stumps, [0.0], "mean") == (THIRD + Fraction(9, 10)) / 2
    assert ref.distance(stumps, [0.0], "evidence") == Fraction(10, 13)
    assert [ref.vote((2, 2)), ref.vote((2, 2), HALF), ref.vote((2, 3)), ref.vote((3, 2))] == [0, HALF, 1, 0]
    with pytest.raises(ValueError, match="mode"):
        ref.distance(stumps, [0.0], "mode")


def test_out_of_bag_is_by_points() -> None:
    pairs, in_bag = [(0, 1), (2, 3), (1, 4)], ([2, 0, 1], [0, 1, 0], [0, 1, 1])
    drawn = [ref.drawn_points(pairs, weights) for weights in in_bag]
    assert drawn == [{0, 1, 4}, {2, 3}, {1, 2, 3, 4}]
    stumps = [{"counts": counts} for counts in ((0, 1), (3, 1), (1, 2))]
    # the pair (0, 1) is in the bag of the first tree alone, but the third has seen point 1
    assert ref.out_of_bag_distance(stumps, drawn, (0, 1), [0.0], "mean") == Fraction(1, 4)
    assert ref.out_of_bag_distance(stumps, drawn, (2, 3), [0.0], "majority") == 1
    assert ref.out_of_bag_distance(stumps, drawn, (0, 5), [0.0], "evidence") == Fraction(3, 7)
    assert ref.out_of_bag_distance(stumps, drawn, (1, 2), [0.0], "mean") is None


# Similarity TreeRank


def test_a_ranking_tree_by_hand() -> None:
    tree = ref.treerank(EIGHT, ref.Ranking(3, SHALLOW))
    cells = [(cell["depth"], cell["k"], cell["rows"]) for cell in ref.leaves_of(tree)]
    assert cells == [(1, 0, [0, 1]), (3, 4, [3, 4, 5]), (3, 5, [2]), (2, 3, [6, 7])]
    assert [node["gain"] for node in ref.inner_of(tree)] == [HALF, HALF / 2, HALF / 4]
    assert ref.knots(tree) == [(0, 0), (0, HALF), (HALF / 2, 1), (HALF, 1), (1, 1)]
    assert ref.area(ref.knots(tree)) == ref.area_by_gains(tree) == Fraction(15, 16)
    assert [ref.paper_score(cell, 3) for cell in ref.leaves_of(tree)] == [8, 4, 3, 2]
    assert [ref.normalised_rank(tree, ref.cell_of(tree, [v])) for v in (0, 4, 2, 7)] == [
        1,
        HALF * 3 / 2,
        HALF,
        HALF / 2,
    ]


def test_the_better_side_of_a_cut_goes_left_and_a_union_of_leaves_may() -> None:
    turned = ref.treerank(ref.Sample(np.array([[0.0], [1]]), [1, 0], [1, 1]), ref.Ranking(1, SHALLOW))
    assert [cell["rows"] for cell in ref.leaves_of(turned)] == [[1], [0]]
    assert ref.area(ref.knots(turned)) == turned["gain"] == 1  # the sum over the last of two levels would say 1/2
    outside = ref.Sample(np.arange(6.0)[:, None], [0, 0, 1, 1, 0, 0], [1] * 6)
    two = ref.treerank(outside, ref.Ranking(1, ref.Limits(max_depth=2)))
    assert [cell["rows"] for cell in ref.leaves_of(two)] == [[0, 1, 4, 5], [2, 3]]
    one = ref.treerank(outside, ref.Ranking(1, SHALLOW))
    assert [cell["rows"] for cell in ref.leaves_of(one)] == [[0, 1], [2, 3, 4, 5]]


def test_a_similar_pair_costs_as_much_as_there_are_unlike_ones() -> None:
    tree = ref.treerank(ref.Sample(np.arange(5.0)[:, None], [0, 0, 1, 0, 1], [1] * 5), ref.Ranking(1, SHALLOW))
    # m = (6, 6): 6 - 0 - 2 * 2 * 6/8 at 1.5, 6 - 2 * 6 * 3/9 at 3.5; with costs the other way about 3.5 would win
    assert (tree["rule"]["threshold"], tree["rule"]["gain"]) == (1.5, 3)


def test_a_leaf_of_a_leafrank_with_the_shares_of_its_cell_goes_right() -> None:
    thirds = ref.Sample(np.repeat(np.arange(3.0), 2)[:, None], [0, 0, 0, 1, 1, 1], [1] * 6)  # ++ | +- | --
    tree = ref.treerank(thirds, ref.Ranking(1, ref.Limits(max_depth=2)))
    assert [leaf["counts"] for leaf in ref.leaves_of(tree["rule"])] == [(2, 0), (1, 1), (0, 2)]
    assert tree["left"]["rows"] == [0, 1]


def test_shares_are_of_all_pairs_whatever_the_weights() -> None:
    tree = ref.treerank(ref.Sample(np.arange(4.0)[:, None], [0, 1, 0, 1], [3, 1, 1, 7]), ref.Ranking(2, SHALLOW))
    # 0 | 1 2 3, then 1 2 | 3: n_+ = 4, n_- = 8
    assert ref.knots(tree) == [(0, 0), (0, 3 * HALF / 2), (Fraction(1, 8), 1), (1, 1)]


@pytest.mark.parametrize(
    ("values", "codes"),
    [([[0.0]], [0]), ([[1.0], [2]], [1, 1]), ([[3.0], [3], [3]], [0, 1, 0]), ([[0.0], [0], [1], [1]], [0, 1, 0, 1])],
    ids=["one pair", "one sign", "constant", "nothing to gain"],
)
def test_what_cannot_be_parted_is_one_cell(values: list[list[float]], codes: list[int]) -> None:
    tree = ref.treerank(ref.Sample(np.array(values), codes, [1] * len(codes)), ref.Ranking(5, ref.Limits(5)))
    assert ref.leaves_of(tree) == [tree]
    assert ref.knots(tree) == [(0, 0), (1, 1)]
    assert (ref.paper_score(tree, 5), ref.normalised_rank(tree, tree)) == (32, 1)


def test_only_cells_that_begin_left_of_the_rate_are_parted() -> None:
    values = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    sample = ref.Sample(values, [0, 1, 1, 0], [4, 1, 4, 1])  # 4+ and 1-, then 4- and 1+: column 1 alone says nothing
    fifth = Fraction(1, 5)
    start, end = [(0, 0), (0, 4 * fifth), (fifth, 4 * fifth)], (1, 1)
    whole = [*start, (fifth, 1), end]
    # the second cell begins at 1/5
    for rate, curve in ((None, whole), (fifth + 1, whole), (fifth, [*start, end]), (0 * fifth, [(0, 0), end])):
        assert ref.knots(ref.treerank(sample, ref.Ranking(2, SHALLOW, rate))) == curve


@settings(max_examples=60)
@given(rows, st.integers(0, 1), rankings)
def test_a_ranking_tree_keeps_its_books(found: Found, squares: int, ranking: ref.Ranking) -> None:
    sample = sample_of(found, squares)
    tree = ref.treerank(sample, ranking)
    leaves = ref.leaves_of(tree)
    ends = [ref.cell_of(tree, row) for row in sample.values]
    scores = [ref.paper_score(cell, ranking.depth) for cell in ends]
    assert [ends[row] is leaf for leaf in leaves for row in leaf["rows"]] == [True] * len(found)
    falling = [ref.paper_score(leaf, ranking.depth) for leaf in leaves]
    assert falling == sorted(set(falling), reverse=True)
    if min(tree["counts"]) > 0:
        for leaf in leaves:
            shares = (leaf["beta"][1] - leaf["beta"][0], leaf["alpha"][1] - leaf["alpha"][0])
            assert ref.shares(sample, leaf["rows"]) == shares
        ranks = [ref.normalised_rank(tree, cell) for cell in ends]
        by_pairs = {ref.area_by_pairs(s, sample.codes, sample.weights) for s in (scores, ranks)}
        assert by_pairs == {ref.area(ref.knots(tree))} == {ref.area_by_gains(tree)}
    for node in ref.inner_of(tree):
        left, right = node["left"], node["right"]
        assert node["gain"] == ref.gain_from_corners(node) > 0
        assert left["counts"][0] * right["counts"][1] > left["counts"][1] * right["counts"][0]


@settings(max_examples=40)
@given(rows, rankings)
def test_the_score_of_an_early_leaf_owns_the_block_of_its_offspring(found: Found, ranking: ref.Ranking) -> None:
    """2^D, and 2^(D - j - 1) less for each step right from depth j."""
    tree = ref.treerank(sample_of(found), ranking)
    for leaf in ref.leaves_of(tree):
        steps = [leaf["k"] >> (leaf["depth"] - j - 1) & 1 for j in range(leaf["depth"])]
        expected = 2**ranking.depth - sum(2 ** (ranking.depth - j - 1) for j, right in enumerate(steps) if right)
        assert ref.paper_score(leaf, ranking.depth) == expected


@settings(max_examples=40)
@given(rows, st.integers(1, 3))
def test_no_other_union_of_leaves_of_a_leafrank_gains_more(found: Found, depth: int) -> None:
    sample = sample_of(found)
    tree = ref.treerank(sample, ref.Ranking(1, ref.Limits(depth)))
    if "left" not in tree:
        return
    leaves = ref.leaves_of(tree["rule"])
    for size in range(len(leaves) + 1):
        for union in combinations(leaves, size):
            plus, minus = ref.shares(sample, [row for leaf in union for row in leaf["rows"]])
            assert plus - minus <= tree["gain"]


@pytest.mark.parametrize("family", ["difference_mean", "max_min"])
def test_scikit_learn_draws_the_same_curve(family: str) -> None:
    sample = planted(3, 100, 2, family)
    tree = ref.treerank(sample, ref.Ranking(3, ref.Limits(2, 3)))
    scores = [float(ref.paper_score(ref.cell_of(tree, row), 3)) for row in sample.values]
    truth = 1 - np.array(sample.codes)
    rates, powers, _ = roc_curve(truth, scores, drop_intermediate=False)
    assert len(ref.leaves_of(tree)) > 4
    np.testing.assert_allclose(np.array(ref.knots(tree), dtype=float), np.column_stack([rates, powers]), atol=1e-12)
    assert float(ref.area(ref.knots(tree))) == pytest.approx(roc_auc_score(truth, scores), abs=1e-12)


def test_a_ranking_forest_takes_the_mean_or_the_median_of_ranks() -> None:
    flat, steep = (ref.treerank(EIGHT, ref.Ranking(depth, SHALLOW)) for depth in (0, 3))
    middle = ref.treerank(EIGHT, ref.Ranking(1, SHALLOW))
    # of v = 7: 1, 1/2 and 1/4
    assert ref.forest_score([flat, middle, steep], [7.0], "mean") == Fraction(7, 12)
    assert ref.forest_score([flat, steep, middle], [7.0], "median") == HALF
    assert ref.forest_score([flat, steep], [7.0], "median") == Fraction(5, 8)
    with pytest.raises(ValueError, match="kendall"):
        ref.forest_score([flat], [7.0], "kendall")


# Pruning


def test_pruning_by_hand() -> None:
    trees = ref.prune(ref.treerank(EIGHT, ref.Ranking(3, SHALLOW)))
    addresses = [[(leaf["depth"], leaf["k"]) for leaf in ref.leaves_of(tree)] for tree in trees]
    assert addresses == [[(1, 0), (3, 4), (3, 5), (2, 3)], [(1, 0), (2, 2), (2, 3)], [(1, 0), (1, 1)], [(0, 0)]]
    assert [ref.area_by_gains(tree) for tree in trees] == [Fraction(n, 16) for n in (15, 14, 12, 8)]


@pytest.mark.parametrize(
    ("gains", "k"), [((1, 2, 3), 0), ((3, 2, 1), 1), ((2, 1, 2), 0)], ids=["left", "right", "equal"]
)
def test_the_weakest_parent_of_two_leaves_goes_first(gains: tuple[int, int, int], k: int) -> None:
    """The root, in the last case the weakest of all, waits until its parts are leaves."""

    def leaf(depth: int, k: int) -> ref.Tree:
        return {"depth": depth, "k": k, "alpha": (k, k + 1), "beta": (k, k + 1)}

    first = leaf(1, 0) | {"gain": gains[0], "left": leaf(2, 0), "right": leaf(2, 1)}
    second = leaf(1, 1) | {"gain": gains[2], "left": leaf(2, 2), "right": leaf(2, 3)}
    trees = ref.prune(leaf(0, 0) | {"gain": gains[1], "left": first, "right": second})
    inner = [{(node["depth"], node["k"]) for node in ref.inner_of(tree)} for tree in trees]
    assert [(before - after).pop() for before, after in pairwise(inner)] == [(1, k), (1, 1 - k), (0, 0)]


@settings(max_examples=40)
@given(rows, rankings)
def test_each_pruning_costs_half_the_least_gain(found: Found, ranking: ref.Ranking) -> None:
    trees = ref.prune(ref.treerank(sample_of(found), ranking))
    for before, after in pairwise(trees):
        ends = [node for node in ref.inner_of(before) if not ref.inner_of(node["left"]) + ref.inner_of(node["right"])]
        lost = ref.area(ref.knots(before)) - ref.area(ref.knots(after))
        assert lost == min(node["gain"] for node in ends) / 2
        assert len(ref.leaves_of(after)) == len(ref.leaves_of(before)) - 1
        assert set(ref.knots(after)) < set(ref.knots(before))
    assert "left" not in trees[-1]


# Constraints


LAWS = {  # must-links of 2 and of 3 points; cannot-links of one of 3 points with a lone one, and of two lone ones
    "points": (Fraction(2, 5), Fraction(1, 5), Fraction(3, 20), Fraction(1, 10)),  # 1/5 (1/2 + 1/4), 2/5 * 1/4
    "classes": (HALF, HALF / 3, Fraction(5, 36), Fraction(1, 6)),  # 1/3 (1/3 * 1/2 + 1/4), 2/3 * 1/4
    "pairs": (HALF / 2, HALF / 2, Fraction(1, 7), Fraction(1, 7)),
}


@pytest.mark.parametrize("balance", LAWS)
def test_constraint_laws_by_hand(balance: str) -> None:
    small, large, outside, rare = LAWS[balance]
    among = dict.fromkeys([(2, 3), (2, 4), (3, 4)], large)
    assert ref.constraint_law([4, 4, 7, 7, 7], balance, "must") == {(0, 1): small} | among
    lone = [0, 0, 0, 1, 2]
    unlike = {(i, j): outside for i in range(3) for j in (3, 4)} | {(3, 4): rare}
    assert ref.constraint_law(lone, balance, "cannot") == unlike
    assert ref.constraint_law(lone, balance, "must") == dict.fromkeys([(0, 1), (0, 2), (1, 2)], THIRD)
    assert ref.constraint_law([1, 1], balance, "cannot") == {}
    assert ref.constraint_law([1, 2], balance, "must") == {}
    with pytest.raises(ValueError, match="rows"):
        ref.constraint_law([0, 0], "rows", "must")


@given(st.lists(st.integers(0, 3), min_size=2, max_size=9), st.sampled_from(["points", "classes", "pairs"]))
def test_constraint_laws_are_laws(labels: list[int], balance: str) -> None:
    for kind in ("must", "cannot"):
        law = ref.constraint_law(labels, balance, kind)
        pairs = {(i, j) for i, j in combinations(range(len(labels)), 2) if (labels[i] == labels[j]) == (kind == "must")}
        assert set(law) == pairs
        assert sum(law.values()) == (1 if pairs else 0)


def draw(labels: list[int], balance: str, kind: str, rng: np.random.Generator) -> tuple[int, int]:
    """One pair by the words of the rule: what cannot be used is drawn again."""
    n = len(labels)
    while True:
        i = int(rng.integers(n))
        if balance == "classes":
            label = int(rng.integers(4))
            i = int(rng.choice([point for point in range(n) if labels[point] == label]))
        fits = [j for j in range(n) if j != i and (labels[j] == labels[i]) == (kind == "must")]
        j = int(rng.integers(n))
        if balance == "pairs" and j in fits:
            return i, j
        if balance != "pairs" and fits:
            return i, int(rng.choice(fits))


@pytest.mark.parametrize("kind", ["must", "cannot"])
def test_draws_follow_their_law_and_no_other(kind: str) -> None:
    labels, rng = [0, 0, 0, 0, 0, 1, 1, 2, 2, 3], np.random.default_rng(5)
    laws = {balance: ref.constraint_law(labels, balance, kind) for balance in ("points", "classes", "pairs")}
    for balance in laws:
        pairs = [draw(labels, balance, kind, rng) for _ in range(3000)]
        for other, law in laws.items():
            assert (ref.law_fits(law, pairs) > 1e-3) == (other == balance)
    assert ref.law_fits(laws["points"], [(1, 1)]) == 0
