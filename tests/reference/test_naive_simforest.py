"""The references of naive_simforest.py against numbers worked out by hand, and what must hold for any matrix."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import naive
from tests.reference import naive_simforest as sim
from tests.reference.naive_kept_pairs import kept_pair
from tests.reference.naive_simforest import Projection, Rules, Sample
from tests.reference.simforest_by_hand import CLASSES, LINE, NAN, ONES, S_LINE, TARGETS, damaged, groups_of, sample_of

# Pairs


def test_partner_is_where_the_running_sum_exceeds_the_share() -> None:
    sample = sample_of(y=[0, 1, 0, 1])
    # two unlike row 0, rows 1 and 3: total 2; share 0.5 is a sum of 1, which row 1 reaches but does not exceed
    assert [sim.unlike_partner(sample, range(4), 0, share) for share in (0.0, 0.49, 0.5, 0.99)] == [1, 1, 3, 3]
    assert sim.unlike_partner(sample, range(4), 0, 1.0) == 3  # never exceeded: the last one
    assert sim.unlike_partner(sample, [0, 2], 0, 0.3) is None
    targets = sample_of(y=[0.0, 1.0, 4.0, 0.0], rules=TARGETS)
    # |y - 0|: 0, 1, 4, 0
    assert [sim.unlike_partner(targets, range(4), 0, share) for share in (0.0, 0.19, 0.2, 1.0)] == [1, 1, 2, 2]


def test_usable_pairs_are_observed_and_apart() -> None:
    S = np.array([[1, 1, NAN, 2], [1, 1, 0, 0], [NAN, 0, NAN, 0], [2, 0, 0, 2]])
    sample, rows = sample_of(S), range(4)
    assert sim.is_direction(sample, rows, 3, 1)  # 2 + 1 - 0
    assert not sim.is_direction(sample, rows, 1, 0)  # 1 + 1 - 2: the same place
    assert not sim.is_direction(sample, rows, 3, 0)  # 2 + 1 - 4: no length in any space
    assert not sim.is_direction(sample, rows, 2, 0)  # S_02 unobserved
    assert not sim.is_direction(sample, rows, 2, 1)  # S_22 unobserved
    assert sim.tells_apart(sample, [0, 3], 3, 0)  # 2 - 1, 2 - 2
    assert not sim.tells_apart(sample, rows, 1, 0)  # 1 + 1 - 2: the diagonal says that they are the same
    T = np.array([[0, 0, NAN, 2], [0, 0, 0, 0], [NAN, 0, NAN, 0], [2, 0, 0, 2]])  # three of the four say nothing
    sample = sample_of(T)
    assert sim.tells_apart(sample, rows, 1, 0)  # 0 - 2 of row 3
    assert not sim.tells_apart(sample, [0, 1], 1, 0)
    assert not sim.tells_apart(sample, rows, 2, 0)  # S_02 unobserved
    assert sim.tells_apart(sample, rows, 3, 0)  # 2 - 0, 0 - 0
    distances = sample_of(T, rules=Rules(kind="distance"))
    assert not sim.tells_apart(distances, rows, 1, 0)  # at 0 from each other
    assert sim.tells_apart(distances, rows, 3, 0)  # 0 + 2 - 4
    T[1, 3] = T[3, 1] = 1
    assert sim.tells_apart(sample, [1, 2, 3], 2, 1)  # 0 - 1 of row 3, S_22 unobserved
    assert not sim.tells_apart(sample, [1, 2], 2, 1)
    features = sample_of([[1, 5], [1, 5], [1, 6]], rules=Rules(feature_subsets=True))
    assert not sim.is_direction(features, range(3), 1, 0)
    assert sim.is_direction(features, range(3), 2, 0)
    assert not sim.tells_apart(features, range(3), 1, 0)


def test_pairs_of_labels_are_uniform_over_i_then_over_j() -> None:
    sample = sample_of(y=[0, 0, 0, 1])
    keys = [naive.stream(1, 2, node) for node in range(6000)]
    pairs = Counter(sim.drawn_candidate(sample, range(4), key, 0, 0).columns for key in keys)
    # i = 3 (1/4): j one of 0, 1, 2 (1/12 each); i one of 0, 1, 2: j = 3
    assert set(pairs) == {(0, 3), (1, 3), (2, 3), (3, 0), (3, 1), (3, 2)}
    assert all(abs(pairs[3, i] - 1500) < 150 for i in range(3))  # standard deviation 34
    assert all(abs(pairs[j, 3] - 500) < 100 for j in range(3))  # 21


def test_pairs_of_targets_go_by_their_difference() -> None:
    sample = sample_of(y=[0.0, 1.0, 3.0, 3.0], rules=TARGETS)
    keys = [naive.stream(1, 2, node) for node in range(6000)]
    pairs = Counter(sim.drawn_candidate(sample, [0, 1, 2], key, 0, 0).columns for key in keys)
    # from 0: 1 and 3 of 4; from 1: 1 and 2 of 3; from 2: 3 and 2 of 5; each i 2000 times
    expected = {(1, 0): 500, (2, 0): 1500, (0, 1): 667, (2, 1): 1333, (0, 2): 1200, (1, 2): 800}
    assert set(pairs) == set(expected)
    assert all(abs(pairs[pair] - count) < 150 for pair, count in expected.items())


def test_kept_pairs_come_first_in_an_order() -> None:
    order = naive.number(naive.stream(3, 0, -2), 0)
    u = [naive.unit(order, row) for row in range(5)]
    assert np.round(u, 4).tolist() == [0.1942, 0.2594, 0.802, 0.4939, 0.3429]
    labels = sample_of(np.eye(5), [0, 0, 1, 1, 0], [1] * 5)
    # 0 1 4 3 2 in order, of classes 0 0 0 1 1
    assert kept_pair(labels, range(5), order) == (3, 0)
    assert [kept_pair(labels, rows, order) for rows in ([1, 2, 4], [2, 3, 4])] == [(2, 1), (3, 4)]
    assert kept_pair(labels, [0, 1, 4], order) == (None, 0)
    # E = 0.2159, 0.3003, 1.6195, 0.6810, 0.4199; after row 0: 0.0844, 1.4036, 0.4651, 0.2040, over unlike
    for y, j in (([0, 1, 10, 2, 1], 1), ([0, 0.5, 10, 2, 1], 2), ([0, 0, 10, 4, 1], 3), ([0, 0, 0, 0, 1], 4)):
        assert kept_pair(sample_of(np.eye(5), y, [1] * 5, TARGETS), range(5), order) == (j, 0)
    # after row 1: row 2 at 1.3192 / 9.5, row 3 at 0.3807 / 1.5, row 4 at 0.1196 / 0.5
    assert kept_pair(sample_of(np.eye(5), [0, 0.5, 10, 2, 1], [1] * 5, TARGETS), [1, 2, 3, 4], order) == (2, 1)
    assert kept_pair(sample_of(np.eye(5), [7.0] * 5, [1] * 5, TARGETS), range(5), order) == (None, 0)


def test_a_kept_pair_that_is_unusable_is_drawn_again_by_another_order() -> None:
    S, rules, rows = S_LINE.copy(), Rules(n_pairs=2, pairing="kept"), [0, 1, 2, 3]
    S[0], S[:, 0] = NAN, NAN
    trials = Counter()
    for tree in range(400):
        order = naive.stream(0, tree, -2)
        sample = Sample(S, [0, 0, 0, 1], ONES, rules, order=order)
        # of two candidates the second, attempt 1: orders 9, 11, 13, 15
        pairs = [kept_pair(sample, rows, naive.number(order, draw)) for draw in (9, 11, 13, 15)]
        usable = [pair for pair in pairs if 0 not in pair]
        trials[pairs.index(usable[0]) if usable else 4] += 1
        for key in (0, naive.stream(0, tree, 7)):  # the node has no say
            drawn = sim.drawn_candidate(sample, rows, key, 1, 1)
            assert (None if drawn is None else drawn.columns) == (usable[0] if usable else None)
    # i = 3 (1/4) with j = 0 (1/3), or i = 0 (1/4): 1/3 of the pairs
    assert [trials[t] for t in range(5)] == pytest.approx([267, 89, 30, 10, 5], abs=30)


def test_nodes_of_a_tree_draw_kept_pairs_by_its_orders() -> None:
    S, y, w = damaged(40, 2, 0.0)
    rules = Rules(pairing="kept")
    for tree in range(3):
        sample, order = sample_of(S, y, w, rules), naive.number(naive.stream(6, tree, -2), 0)
        inner = [node for node in sim.grow_tree(S, y, w, 6, tree, rules) if node.left >= 0]
        assert len(inner) > 3
        assert {node.projection.columns == kept_pair(sample, node.rows, order) for node in inner} == {True}


def test_draws_have_their_addresses() -> None:
    rows, key = [0, 1, 2, 3], naive.stream(5, 6, 7)
    sample = sample_of(rules=Rules(n_pairs=3))
    for attempt in range(sim.ATTEMPTS):
        for k in range(3):
            base = attempt * 4 * 6 + 2 * k  # every pair is usable: trial 0
            i = naive.below(key, base, 4)
            others = [2, 3] if i < 2 else [0, 1]
            j = others[int(naive.unit(key, base + 1) * 2)]
            assert sim.drawn_candidate(sample, rows, key, attempt, k) == ((j, i), (1.0, -1.0))


def test_an_unusable_pair_is_drawn_again_four_times() -> None:
    S = S_LINE.copy()
    S[0], S[:, 0] = NAN, NAN
    sample, rows, n_pairs = sample_of(S, y=[0, 0, 0, 1], rules=Rules(n_pairs=2)), [0, 1, 2, 3], 2
    trials = []
    for node in range(400):
        key = naive.stream(0, 0, node)
        drawn = sim.drawn_candidate(sample, rows, key, 1, 1)
        bases = [(4 + t) * 2 * n_pairs + 2 for t in range(4)]
        pairs = []
        for base in bases:
            i = naive.below(key, base, 4)
            pairs.append((3, i) if i < 3 else (int(naive.unit(key, base + 1) * 3), 3))
        usable = [pair for pair in pairs if 0 not in pair]
        trials.append(pairs.index(usable[0]) if usable else 4)
        assert (None if drawn is None else drawn.columns) == (usable[0] if usable else None)
    assert set(trials) == {0, 1, 2, 3, 4}


def test_columns_are_averaged_on_each_side() -> None:
    y = [0, 0, 0, 1, 1, 2]
    sample, rows = sample_of(np.eye(6), y, [1] * 6, Rules(n_columns=3)), list(range(6))
    for node in range(50):
        columns, weights = sim.drawn_candidate(sample, rows, naive.stream(0, 0, node), 0, 0)
        sizes = [min(3, y.count(y[columns[0]])), min(3, y.count(y[columns[-1]]))]
        side_j, side_i = columns[: sizes[0]], columns[sizes[0] :]
        assert len(set(columns)) == len(columns) == sum(sizes)
        assert {y[row] for row in side_j} == {y[columns[0]]}
        assert {y[row] for row in side_i} == {y[side_i[0]]} != {y[columns[0]]}
        assert weights == (1 / sizes[0],) * sizes[0] + (-1 / sizes[1],) * sizes[1]


def test_the_first_of_each_side_is_the_pair_itself() -> None:
    one, two = (sample_of(np.eye(6), [0, 0, 0, 1, 1, 1], [1] * 6, Rules(n_pairs=2, n_columns=q)) for q in (1, 2))
    others = Counter()
    for node in range(3000):
        key = naive.stream(0, 0, node)
        j, i = sim.drawn_candidate(one, range(6), key, 2, 1).columns
        columns = sim.drawn_candidate(two, range(6), key, 2, 1).columns
        assert (columns[0], columns[2]) == (j, i)
        extra = naive.number(key, 2**32 + 2 * 2 + 1)
        near = [[row for row in range(6) if row // 3 == c // 3 and row != c] for c in (j, i)]
        assert columns == (j, near[0][naive.below(extra, 0, 2)], i, near[1][naive.below(extra, 1, 2)])
        others[near[0].index(columns[1]), near[1].index(columns[3])] += 1
    assert all(abs(count - 750) < 120 for count in others.values())  # standard deviation 24
    assert len(others) == 4


def test_sides_of_targets_are_the_nearer_ones() -> None:
    sample = sample_of(np.eye(5), [0.0, 1.0, 5.0, 9.0, 10.0], [1] * 5, replace(TARGETS, n_columns=9))
    seen = set()
    for node in range(200):
        columns, weights = sim.drawn_candidate(sample, range(5), naive.stream(0, 0, node), 0, 0)
        plus = {c for c, weight in zip(columns, weights, strict=True) if weight > 0}
        seen.add((columns[0], columns[len(plus)], frozenset(plus), frozenset(columns) - plus))
    ends = {end for end in seen if {end[0], end[1]} == {0, 4}}
    assert ends == {(0, 4, frozenset({0, 1}), frozenset({3, 4})), (4, 0, frozenset({3, 4}), frozenset({0, 1}))}
    # between 1 and 10 (middle 5.5) the row at 5 belongs to 1, and the row at 0 too
    assert (1, 4, frozenset({0, 1, 2}), frozenset({3, 4})) in seen


def test_feature_subsets_read_only_what_differs() -> None:
    X = np.array([[0, 7, 1, 5, 2], [3, 7, 4, 5, 1]], dtype=np.float32)
    sample = sample_of(X, [0, 1], [1, 1], Rules(feature_subsets=True))
    difference = {0: 3.0, 2: 3.0, 4: -1.0}
    sizes = Counter()
    for node in range(3000):
        key = naive.stream(3, 0, node)
        columns, weights = sim.drawn_candidate(sample, [0, 1], key, 0, 0)
        j = 1 - naive.below(key, 0, 2)
        assert list(weights) == [difference[f] * (1 if j == 1 else -1) for f in columns]
        assert len(set(columns)) == len(columns)
        extra = naive.number(key, 2**32)
        assert len(columns) == [1, 2, 3][naive.below(extra, 0, 3)]  # of 4 asked, 3 differ
        assert columns[0] == [0, 2, 4][naive.below(extra, 1, 3)]
        sizes[len(columns)] += 1
    assert set(sizes) == {1, 2, 3}
    assert all(abs(count - 1000) < 130 for count in sizes.values())  # standard deviation 26


def test_values_and_halves() -> None:
    entry = [1.0, 2.0, 4.0, 8.0, NAN].__getitem__
    projection = Projection((3, 0, 2, 1), (0.5, 0.5, -0.5, -0.5))
    assert sim.projected(projection, entry) == 4.5 - 3.0
    assert sim.halves_of(projection, entry) == (4.5, 3.0)
    gap = Projection((3, 0, 4, 1), (0.5, 0.5, -0.5, -0.5))
    assert math.isnan(sim.projected(gap, entry))
    half_j, half_i = sim.halves_of(gap, entry)
    assert half_j == 4.5
    assert math.isnan(half_i)


# Cuts


@given(st.data())
@settings(max_examples=60)
def test_cuts_are_those_of_smerf_with_the_same_truth(data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 7))
    some = st.one_of(st.integers(-3, 3).map(float), st.just(NAN))
    values = data.draw(st.lists(some, min_size=n, max_size=n))
    weights = data.draw(st.lists(st.integers(1, 3), min_size=n, max_size=n))
    least = data.draw(st.integers(1, 3))
    codes = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    y = data.draw(st.lists(st.floats(-10, 10, width=32), min_size=n, max_size=n))
    by_row = dict(enumerate(values))
    labels = Sample([], codes, weights, Rules(min_samples_leaf=least, class_weight=(1, 1, 1)))
    targets = Sample([], y, weights, replace(TARGETS, min_samples_leaf=least))
    assert sim.every_cut(labels, by_row, 0) == naive.every_cut([values], naive.label_pairs(codes), weights, least)
    pairs = naive.embedding_pairs([[value] for value in y], 0.5)
    assert sim.every_cut(targets, by_row, 0) == naive.every_cut([values], pairs, weights, least)


def test_class_weights_count_in_the_gain_alone() -> None:
    values = {0: 0.0, 1: 1.0, 2: 2.0}
    # masses 1, 3 | 3: T/n = (49 - 1 - 36)/7; cut {0}|{1, 2}: 12/7; {0, 1}|{2}: LL = 16 - 1 - 9: 12/7 - 6/4
    cuts = sim.every_cut(sample_of(y=[0, 1, 1], rules=Rules(class_weight=(1, 3))), values, 0)
    assert [cut.gain for cut in cuts] == [Fraction(12, 7), Fraction(12, 7) - Fraction(6, 4)]
    heavy = [1, 3, 3]
    assert cuts == naive.every_cut([[0, 1, 2]], naive.label_pairs([0, 1, 1]), heavy, 1)
    # row 2 weighs 1, whatever its class weighs
    assert sim.every_cut(sample_of(y=[0, 1, 1], rules=Rules(class_weight=(1, 3), min_samples_leaf=2)), values, 0) == []
    tree = sim.grow_tree(S_LINE, CLASSES, ONES, 0, 0, Rules(class_weight=(9, 9), min_samples_split=5))
    assert len(tree) == 1


def test_gains_that_differ_by_rounding_are_equal() -> None:
    # 0.1, 0.2, 0.3: both cuts gain 0.015, but for the last bit, which prefers one end
    values = {0: 0.0, 1: 1.0, 2: 2.0}
    gains = []
    for y in ([0.1, 0.2, 0.3], [0.3, 0.2, 0.1]):
        cuts = sim.every_cut(sample_of(y=y, rules=TARGETS), values, 0)
        gains.append([cut.gain for cut in cuts])
        assert sim.best_cut(cuts).threshold == 0.5
    assert (gains[0][0] < gains[0][1]) != (gains[1][0] < gains[1][1])


def test_a_cut_that_gains_nothing_is_better_than_none() -> None:
    sample = sample_of(y=[0, 1, 0, 1], rules=Rules(min_samples_leaf=2))
    cuts = sim.every_cut(sample, {0: 0.0, 1: 1.0, 2: 2.0, 3: 3.0}, 0)
    assert [cut.gain for cut in cuts] == [0]  # 0, 1 | 0, 1
    assert sim.best_cut(cuts) == cuts[0]
    assert sim.best_cut([]) is None


def test_random_thresholds_lie_between_the_extremes() -> None:
    values = {3: 2.0, 5: NAN, 8: -2.0, 9: 0.0}
    assert [sim.random_cut(values, share).threshold for share in (0.0, 0.25, 0.75)] == [-2.0, -1.0, 1.0]
    assert sim.random_cut({0: 1.0, 1: 1.0, 2: NAN}, 0.5) is None
    assert sim.random_cut({2: NAN}, 0.5) is None
    eps = 2.0**-52
    assert sim.random_cut({0: 1.0, 1: 1.0 + eps}, 0.9).threshold == 1.0  # rounds to the greatest: then the least


# Trees


@pytest.mark.parametrize("seed", range(8))
def test_two_classes_on_a_line_are_parted_at_the_root(seed: int) -> None:
    # value of k = x_k (x_j - x_i): AABB or BBAA in order, T/n = 8/4
    tree = sim.grow_tree(S_LINE, CLASSES, ONES, seed, 0, Rules())
    root = tree[0]
    j, i = root.projection.columns
    assert CLASSES[j] != CLASSES[i]
    assert root.threshold == 2.5 * (LINE[j] - LINE[i])
    assert [root.gain, root.left, root.right, root.n_rows] == [2.0, 1, 2, 4]
    low, high = (1, 2) if j > i else (2, 1)
    assert [tree[low].rows, tree[high].rows] == [[0, 1], [2, 3]]
    assert [tree[low].says, tree[high].says] == [[1.0, 0.0], [0.0, 1.0]]
    assert [sim.route_row(tree, x * LINE, Rules()) for x in (0.5, 2.4, 2.6, 9.0)] == [low, low, high, high]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_an_inner_product_on_a_line_cuts_as_the_line_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.permutation(20).astype(np.float32)
    y = rng.normal(size=20)
    w = rng.integers(1, 4, 20)
    inner = sim.grow_tree(np.outer(x, x), y, w, seed, 0, TARGETS)
    table = naive.grow_tree(x[:, None], naive.embedding_pairs(y[:, None], 0.5), w, 0, 0, naive.Limits(1))
    reached = [frozenset(naive.reached(table, table["leaves"], node)) for node in range(len(table["left"]))]
    assert groups_of(inner) == pytest.approx(dict(zip(reached, table["gain"].tolist(), strict=True)))
    # D^2 differs from the inner product's differences by what is equal for all rows: only thresholds move
    distances = sim.grow_tree(sim.from_distances(np.abs(x[:, None] - x)), y, w, seed, 0, TARGETS)
    assert [node.rows for node in distances] == [node.rows for node in inner]
    assert [node.projection for node in distances] == [node.projection for node in inner]
    # one feature: its subset is the whole
    features = sim.grow_tree(x[:, None], y, w, seed, 0, replace(TARGETS, feature_subsets=True))
    assert [node.rows for node in features] == [node.rows for node in inner]
    assert [node.threshold for node in features] == [node.threshold for node in inner]


@pytest.mark.parametrize(
    ("rules", "size"),
    [
        (Rules(), 7),
        (Rules(max_depth=0), 1),
        (Rules(max_depth=1), 3),
        (Rules(min_samples_split=3), 3),
        (Rules(min_samples_leaf=2), 3),
        (Rules(min_samples_leaf=3), 1),
    ],
)
def test_limits_close_nodes(rules: Rules, size: int) -> None:
    tree = sim.grow_tree(S_LINE, [0.0, 1.0, 10.0, 11.0], ONES, 0, 0, replace(rules, truth_kind="targets"))
    assert len(tree) == size
    if size == 7:
        assert [(node.left, node.right, node.depth) for node in tree[:3]] == [(1, 2, 0), (3, 4, 1), (5, 6, 1)]
        assert [node.gain for node in tree] == [100.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0]


def test_a_node_is_as_large_as_its_weight() -> None:
    for w, size in (([1, 0, 3, 0], 3), ([1, 0, 2, 0], 1)):
        assert len(sim.grow_tree(S_LINE, CLASSES, w, 0, 0, Rules(min_samples_split=4))) == size


def test_answers() -> None:
    closed = Rules(max_depth=0)
    trees = [sim.grow_tree(S_LINE, CLASSES, w, 0, 0, closed) for w in ([3, 0, 1, 0], [1, 1, 0, 2])]
    assert [tree[0].says for tree in trees] == [[0.75, 0.25], [0.5, 0.5]]
    assert sim.predict(trees, S_LINE[:1], closed).tolist() == [[0.625, 0.375]]
    heavy = sim.grow_tree(S_LINE, CLASSES, [3, 0, 1, 0], 0, 0, replace(closed, class_weight=(1, 3)))
    assert heavy[0].says == [0.5, 0.5]
    means = sim.grow_tree(S_LINE, [2.0, 50.0, 4.0, 50.0], [3, 0, 1, 0], 0, 0, replace(closed, truth_kind="targets"))
    assert sim.predict([means], S_LINE[:1], TARGETS).tolist() == [[2.5]]
    absent = sim.grow_tree(S_LINE, [0, 0, 1, 2], [1, 1, 1, 0], 0, 0, closed)
    assert absent[0].says == [2 / 3, 1 / 3, 0.0]  # a class out of the bag keeps its column


# Missing values
