"""Metrics against plain loops that enumerate every way to break ties."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score
from sklearn.neighbors import KNeighborsClassifier

from distforest.errors import InputError
from distforest.evaluation.metrics import (
    average_precision,
    knn_accuracy,
    mean_average_precision,
    mean_ranks,
    mean_spearman,
    retrieval_precision,
    rmse,
    roc_auc,
)
from tests.messages import naming

RNG_SEED = 20


def naive_average_precision(order, relevant):
    hits, total = 0, 0.0
    for place, item in enumerate(order, start=1):
        if item in relevant:
            hits += 1
            total += hits / place
    return total / len(relevant)


def naive_expected_average_precision(true, predicted, k):
    """Mean over all consistent orders of the prediction and all consistent choices of the k closest."""
    items = range(len(true))
    orders = [
        order
        for order in itertools.permutations(items)
        if all(predicted[a] <= predicted[b] for a, b in itertools.pairwise(order))
    ]
    nearest = [
        set(chosen)
        for chosen in itertools.combinations(items, k)
        if max(true[i] for i in chosen) <= min((true[i] for i in items if i not in chosen), default=math.inf)
    ]
    values = [naive_average_precision(order, chosen) for order in orders for chosen in nearest]
    return sum(values) / len(values)


def naive_ranks(values):
    return [sum(w < v for w in values) + (sum(w == v for w in values) + 1) / 2 for v in values]


def naive_spearman(x, y):
    a, b = naive_ranks(x), naive_ranks(y)
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    cov = sum((u - mean_a) * (v - mean_b) for u, v in zip(a, b, strict=True))
    var_a, var_b = sum((u - mean_a) ** 2 for u in a), sum((v - mean_b) ** 2 for v in b)
    return cov / math.sqrt(var_a * var_b) if var_a and var_b else 0.0


def random_matrices(n, m, levels=None):
    rng = np.random.default_rng(RNG_SEED)
    if levels is None:
        return rng.normal(size=(n, m)), rng.normal(size=(n, m))
    return rng.integers(0, levels, (n, m)), rng.integers(0, levels, (n, m))


tied_rows = st.integers(1, 5).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 3), min_size=n, max_size=n),
        st.lists(st.integers(0, 3), min_size=n, max_size=n),
        st.integers(1, n),
    )
)


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(tied_rows)
def test_average_precision_of_a_row_is_the_mean_over_all_tie_breaks(row):
    true, predicted, k = row
    found = mean_average_precision([true], [predicted], k=k, exclude_diagonal=False)
    assert found == pytest.approx(naive_expected_average_precision(true, predicted, k), abs=1e-12)


def test_average_precision_without_ties_equals_scikit_learn_on_each_row():
    true, predicted = random_matrices(12, 40)
    relevant = np.argsort(np.argsort(true, axis=1), axis=1) < 10
    each = [average_precision_score(r, -p) for r, p in zip(relevant, predicted, strict=True)]
    found = mean_average_precision(true, predicted, exclude_diagonal=False)
    assert found == pytest.approx(np.mean(each), abs=1e-12)


def test_map_leaves_out_self_pairs():
    true, predicted = (np.abs(m) for m in random_matrices(6, 6))
    expected = []
    for i in range(6):
        others = [j for j in range(6) if j != i]
        expected.append(naive_expected_average_precision(true[i, others], predicted[i, others], k=2))
    assert mean_average_precision(true, predicted, k=2) == pytest.approx(np.mean(expected), abs=1e-12)


def test_map_bounds_and_a_hand_computed_worst_case():
    true = np.arange(6.0)[None, :]
    assert mean_average_precision(true, true**3, k=3, exclude_diagonal=False) == 1.0
    worst = (1 / 4 + 2 / 5 + 3 / 6) / 3
    assert mean_average_precision(true, -true, k=3, exclude_diagonal=False) == pytest.approx(worst, abs=1e-15)


@pytest.mark.slow
def test_map_of_a_constant_prediction_is_that_of_a_random_order():
    true, _ = random_matrices(1, 30)
    rng = np.random.default_rng(1)
    draws = [
        mean_average_precision(true, rng.permutation(30)[None, :], k=5, exclude_diagonal=False) for _ in range(4000)
    ]
    constant = mean_average_precision(true, np.zeros((1, 30)), k=5, exclude_diagonal=False)
    assert constant == pytest.approx(np.mean(draws), abs=5 * np.std(draws) / math.sqrt(len(draws)))


@pytest.mark.parametrize("metric", [mean_average_precision, mean_spearman, rmse])
def test_metrics_do_not_depend_on_the_order_of_points_nor_on_the_diagonal(metric):
    true, predicted = (m.astype(np.float64) for m in random_matrices(15, 15, levels=4))
    expected = metric(true, predicted)
    shuffled = np.random.default_rng(3).permutation(15)
    assert metric(true[np.ix_(shuffled, shuffled)], predicted[np.ix_(shuffled, shuffled)]) == pytest.approx(
        expected, abs=1e-12
    )
    np.fill_diagonal(true, np.nan)
    np.fill_diagonal(predicted, -1e9)
    assert metric(true, predicted) == expected


@pytest.mark.parametrize("metric", [mean_average_precision, mean_spearman])
def test_rank_metrics_see_only_the_order(metric):
    true, predicted = random_matrices(15, 15)
    assert metric(true, np.exp(predicted) + 7) == metric(true, predicted)


@pytest.mark.parametrize("levels", [None, 3, 1])
def test_spearman_equals_plain_loops(levels):
    true, predicted = random_matrices(8, 8, levels)
    each = []
    for i in range(8):
        others = [j for j in range(8) if j != i]
        each.append(naive_spearman([true[i, j] for j in others], [predicted[i, j] for j in others]))
    assert mean_spearman(true, predicted) == pytest.approx(np.mean(each), abs=1e-12)


def test_spearman_of_a_rectangle_and_its_extremes():
    true, predicted = random_matrices(3, 9, levels=5)
    each = [naive_spearman(a, b) for a, b in zip(true.tolist(), predicted.tolist(), strict=True)]
    assert mean_spearman(true, predicted, exclude_diagonal=False) == pytest.approx(np.mean(each), abs=1e-12)
    assert mean_spearman(true, -true, exclude_diagonal=False) == pytest.approx(-1.0, abs=1e-12)


@pytest.mark.parametrize("constant", ["true", "predicted", "both"])
def test_spearman_counts_a_constant_row_as_zero(constant):
    true, predicted = np.array([[1.0, 2, 3], [1, 2, 3]]), np.array([[2.0, 4, 9], [2, 4, 9]])
    if constant != "predicted":
        true[1] = 0.1
    if constant != "true":
        predicted[1] = 0.1
    assert mean_spearman(true, predicted, exclude_diagonal=False) == pytest.approx(0.5, abs=1e-15)


def test_rmse_equals_plain_loops_with_and_without_self_pairs():
    true, predicted = random_matrices(7, 7)
    squares = {(i, j): (true[i, j] - predicted[i, j]) ** 2 for i in range(7) for j in range(7)}
    off = [value for (i, j), value in squares.items() if i != j]
    assert rmse(true, predicted) == pytest.approx(math.sqrt(sum(off) / 42), rel=1e-14)
    assert rmse(true, predicted, exclude_diagonal=False) == pytest.approx(
        math.sqrt(sum(squares.values()) / 49), rel=1e-14
    )


def test_float32_is_compared_in_float64():
    true = np.full((2, 2), 1.0)
    predicted = np.full((2, 2), np.float32(0.1))
    assert rmse(true, predicted) == pytest.approx(1 - float(np.float32(0.1)), rel=1e-15)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=2, max_size=12))
def test_roc_auc_is_the_share_of_pairs_in_order(items):
    positives = [s for y, s in items if y]
    negatives = [s for y, s in items if not y]
    y, score = zip(*items, strict=True)
    if not positives or not negatives:
        with pytest.raises(InputError, match=naming("y ", [float(y[0])])):
            roc_auc(y, score)
        return
    wins = sum((a > b) + (a == b) / 2 for a in positives for b in negatives)
    assert roc_auc(y, score) == pytest.approx(wins / (len(positives) * len(negatives)), abs=1e-12)


def test_average_precision_equals_a_plain_loop_and_admits_ties_together():
    y, score = [1, 0, 1, 0, 0, 1], [5, 5, 3, 2, 1, 1]
    total, n_before = 0.0, 0
    for value in sorted(set(score), reverse=True):
        taken = [a for a, s in zip(y, score, strict=True) if s >= value]
        total += (sum(taken) - n_before) / 3 * sum(taken) / len(taken)
        n_before = sum(taken)
    assert average_precision(y, score) == pytest.approx(total, abs=1e-12)
    assert average_precision(y, [0] * 6) == pytest.approx(0.5)


@pytest.mark.parametrize("metric", [roc_auc, average_precision])
def test_minus_one_and_booleans_stand_for_labels(metric):
    y, score = np.array([0, 1, 1, 0, 1]), np.array([0.1, 0.3, 0.2, 0.4, 0.5], dtype=np.float32)
    assert metric(2 * y - 1, score) == metric(y, score) == metric(y.astype(bool), score)


@pytest.mark.parametrize("metric", [mean_average_precision, mean_spearman, rmse])
@pytest.mark.parametrize(
    ("true", "predicted", "named"),
    [
        (np.zeros((3, 3)), np.zeros((3, 4)), ("true", "predicted", (3, 3), (3, 4))),
        (np.zeros((3, 4)), np.zeros((3, 4)), ("exclude_diagonal=False", (3, 4))),
        (np.zeros(3), np.zeros(3), ("true", (3,))),
        (np.zeros((1, 1)), np.zeros((1, 1)), ("exclude_diagonal=True",)),
        (np.zeros((0, 0)), np.zeros((0, 0)), ("exclude_diagonal=True",)),
        (np.zeros((3, 3)), np.full((3, 3), np.nan), ("predicted", "6 NaN")),
        (np.full((3, 3), np.inf), np.zeros((3, 3)), ("true", "infinite", 6)),
        (np.array([["a", "b"]]), np.zeros((1, 2)), ("true", "<U1")),
        (np.zeros((1, 2)) + 1j, np.zeros((1, 2)), ("true", "complex128")),
        ([[1, 2], [3]], np.zeros((1, 2)), ("true", (2,))),
    ],
)
def test_matrices_are_refused_by_name(metric, true, predicted, named):
    with pytest.raises(InputError, match=naming(*named)):
        metric(true, predicted)


@pytest.mark.parametrize("k", [0, 4, -1, 2.0, True, "3", None])
def test_k_must_fit_the_points_of_a_query(k):
    with pytest.raises(InputError, match=rf"^k\b.*\[1, 3\].* {k!r}$"):
        mean_average_precision(np.zeros((4, 4)), np.zeros((4, 4)), k=k)


@pytest.mark.parametrize("metric", [roc_auc, average_precision])
@pytest.mark.parametrize(
    ("y", "score", "named"),
    [
        ([1, 0], [1, 2, 3], ("y ", "score", 2, 3)),
        ([1, 1], [1, 2], ("y ", [1.0])),
        ([-1, 0, 1], [1, 2, 3], ("y ", [-1.0, 0.0, 1.0])),
        ([0, 2], [1, 2], ("y ", [0.0, 2.0])),
        ([0, np.nan], [1, 2], ("y ", [0.0, np.nan])),
        ([], [], ("y ", [])),
        ([0, 1], [1, np.nan], ("score", "NaN")),
        ([[0, 1]], [[1, 2]], ("y ", (1, 2))),
        (["no", "yes"], [1, 2], ("y ", "<U3")),
    ],
)
def test_labels_and_scores_are_refused_by_name(metric, y, score, named):
    with pytest.raises(InputError, match=naming(*named)):
        metric(y, score)


def naive_neighbors(row, k):
    return sorted(range(len(row)), key=lambda j: (row[j], j))[:k]


def naive_vote(labels):
    return min(set(labels), key=lambda label: (-labels.count(label), label))


labelled = st.tuples(st.integers(1, 6), st.integers(1, 9)).flatmap(
    lambda shape: st.tuples(
        st.lists(
            st.lists(st.sampled_from([0.0, 0.5, 1.0, math.inf]), min_size=shape[1], max_size=shape[1]),
            min_size=shape[0],
            max_size=shape[0],
        ),
        st.lists(st.sampled_from("abc"), min_size=shape[1], max_size=shape[1]),
        st.lists(st.sampled_from("abcd"), min_size=shape[0], max_size=shape[0]),
        st.lists(st.integers(1, shape[1]), min_size=1, max_size=4),
    )
)


@settings(deadline=None)
@given(labelled)
def test_neighbours_and_votes_equal_plain_loops_with_all_ties(data):
    distances, train, test, ks = data
    right, found = [], []
    for k in ks:
        votes = [[train[j] for j in naive_neighbors(row, k)] for row in distances]
        right.append(sum(naive_vote(vote) == label for vote, label in zip(votes, test, strict=True)) / len(test))
        found.append(sum(vote.count(label) / k for vote, label in zip(votes, test, strict=True)) / len(test))
    assert np.allclose(knn_accuracy(distances, train, test, ks), right, atol=1e-15)
    each = [retrieval_precision(distances, train, test, k=k) for k in ks]
    assert np.allclose(each, found, atol=1e-15)


def test_votes_are_those_of_scikit_learn():
    distances, _ = random_matrices(60, 40)
    rng = np.random.default_rng(5)
    train, test = rng.integers(-2, 3, 40), rng.integers(-2, 3, 60)
    ks = [1, 2, 3, 8, 40]
    expected = []
    for k in ks:
        model = KNeighborsClassifier(k, metric="precomputed").fit(np.zeros((40, 40)), train)
        expected.append(model.score(np.exp(distances), test))
    assert np.array_equal(knn_accuracy(np.exp(distances), train, test, ks), expected)


def test_an_infinite_diagonal_leaves_a_query_out():
    distances = np.array([[np.inf, 1.0, 2.0], [1.0, np.inf, 3.0], [2.0, 3.0, np.inf]])
    assert knn_accuracy(distances, [0, 0, 1], [0, 0, 1], [1]).tolist() == [2 / 3]
    assert retrieval_precision(distances, [0, 0, 1], [0, 0, 1], k=2) == pytest.approx((1 + 1 + 0) / 6)


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=6))
def test_mean_ranks_equal_plain_loops(table):
    by_data_set = [naive_ranks([-row[j] for row in table]) for j in range(3)]
    expected = [sum(ranks[i] for ranks in by_data_set) / 3 for i in range(len(table))]
    assert np.allclose(mean_ranks(table), expected, atol=1e-15)
    assert np.mean(mean_ranks(table)) == pytest.approx((len(table) + 1) / 2)


@pytest.mark.parametrize("k", [0, 3, 2.0, True, None])
def test_neighbours_asked_for_must_be_there(k):
    with pytest.raises(InputError, match=rf"^k\b.*\[1, 2\].* {k}$"):
        knn_accuracy(np.eye(2), [0, 1], [0, 1], [1, k])
    with pytest.raises(InputError, match=rf"^k\b.*\[1, 2\].* {k}$"):
        retrieval_precision(np.eye(2), [0, 1], [0, 1], k)


def test_twenty_are_retrieved_unless_asked_otherwise():
    with pytest.raises(InputError, match=r"^k\b.* 20$"):
        retrieval_precision(np.eye(2), [0, 1], [0, 1])


@pytest.mark.parametrize(
    ("distances", "train", "test", "named"),
    [
        (np.zeros((2, 3)), [0, 1], [0, 1, 2], ((2, 3), (3,), (2,))),
        (np.zeros((2, 3)), [[0], [1], [2]], [0, 1], ("y_train", (2, 3), (3, 1))),
        (np.zeros((0, 3)), [0, 1, 2], [], ("y_test", (0, 3), (0,))),
        (np.zeros(3), [0, 1, 2], [0], ((3,),)),
        ([[0, np.nan]], [0, 1], [0], ("NaN", "1 of 2")),
    ],
)
def test_labelled_distances_are_refused_by_name(distances, train, test, named):
    with pytest.raises(InputError, match=naming("distances", *named)):
        knn_accuracy(distances, train, test, [1])


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ([0.5], (1,)),
        ([[]], (1, 0)),
        ([[0.5, np.nan]], "NaN"),
    ],
)
def test_tables_of_accuracies_are_refused_by_name(table, found):
    with pytest.raises(InputError, match=naming("accuracies", found)):
        mean_ranks(table)
