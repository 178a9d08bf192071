"""The references of naive_clusters.py against numbers worked out by hand, other libraries, and what always holds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, norm
from sklearn.mixture import GaussianMixture

from tests.reference import naive_clusters as ref

LOG_2PI = math.log(2 * math.pi)
SIZES = [(60, 60), (100, 20), (20, 100), (10, 110)]

rows = st.lists(st.tuples(st.integers(-20, 20), st.integers(1, 4)), min_size=2, max_size=9).filter(
    lambda pairs: len({value for value, _ in pairs}) > 1
)


def ones(values: ref.Vector) -> ref.Integers:
    return np.ones(len(values), dtype=np.int64)


def arrays(pairs: list[tuple[int, int]]) -> tuple[ref.Vector, ref.Integers]:
    values, weights = np.array(pairs).T
    return values.astype(float), weights


def normal_grid(size: int, centre: float, spread: float) -> ref.Vector:
    return centre + spread * norm.ppf((np.arange(size) + 0.5) / size)


def cut_place(values: ref.Vector, cut: ref.Cut) -> int:
    return int(np.sum(values <= cut.below))


# Two-means


def test_two_means_takes_the_least_squares_where_a_peer_takes_another() -> None:
    values = np.array([5.1, 0, -5, 0, -4.9, 5, -5.1, 0])
    cuts = ref.two_means_cuts(values, ones(values))
    node = 51.01 + 75.02 - 8 * (-4.9 / 8) ** 2  # sum of squares less n mean^2
    assert [(cut.below, cut.above) for cut in cuts] == [(-5.1, -5), (-5, -4.9), (-4.9, 0), (0, 5), (5, 5.1)]
    # below -4.9 | 0: 0.02 and 51.01 - 5 * 2.02^2; below 0 | 5: 75.02 - 6 * 2.5^2 and 0.005
    assert node - cuts[2].score == pytest.approx(0.02 + 30.608)
    assert node - cuts[3].score == pytest.approx(37.52 + 0.005)
    assert ref.first_best(cuts) == cuts[2]


def test_allowed_cuts_count_weights_and_keep_ties_together() -> None:
    values, weights = np.array([1.0, 2.0, 2.0, 3.0]), np.array([1, 1, 2, 5])
    assert [cut[:2] for cut in ref.two_means_cuts(values, weights)] == [(1, 2), (2, 3)]
    assert [cut[:2] for cut in ref.two_means_cuts(values, weights, min_leaf=4)] == [(2, 3)]  # 4 below, 5 above
    assert ref.two_means_cuts(values, weights, min_leaf=5) == []
    assert ref.two_means_cuts(np.array([7.0, 7.0]), ones([1, 1])) == []
    # 0 1 2: both cuts take 2 - 0.5 away; the lower one is the first
    assert ref.first_best(ref.two_means_cuts(np.array([2.0, 0.0, 1.0]), ones([0] * 3))) == (0, 1, 1.5)


@given(rows, st.booleans())
def test_weights_are_repeated_rows(pairs: list[tuple[int, int]], relative: bool) -> None:
    values, weights = arrays(pairs)
    repeated = np.repeat(values, weights)
    for cuts, again in (
        (ref.two_means_cuts(values, weights, 2), ref.two_means_cuts(repeated, ones(repeated), 2)),
        (ref.fast_bic_cuts(values, weights, 2, relative), ref.fast_bic_cuts(repeated, ones(repeated), 2, relative)),
    ):
        np.testing.assert_allclose(cuts, again, rtol=1e-9, atol=1e-9)


@settings(max_examples=40)
@given(rows, st.sampled_from([0.001, 1.0, 1000.0]), st.integers(-5, 5))
def test_scale_and_mirror(pairs: list[tuple[int, int]], scale: float, shift: int) -> None:
    """Two-means is multiplied by scale^2, raw Fast-BIC gains -2 n log scale, the relative score stays as it is."""
    values, weights = arrays(pairs)
    n, moved = weights.sum(), scale * (shift - values)[::-1]
    for before, after in (
        (
            [cut.score * scale**2 for cut in ref.two_means_cuts(values, weights)],
            ref.two_means_cuts(moved, weights[::-1]),
        ),
        (
            [cut.score - 2 * n * math.log(scale) for cut in ref.fast_bic_cuts(values, weights, 1, False)],
            ref.fast_bic_cuts(moved, weights[::-1], 1, False),
        ),
        (
            [cut.score for cut in ref.fast_bic_cuts(values, weights, 1, True)],
            ref.fast_bic_cuts(moved, weights[::-1], 1, True),
        ),
    ):
        np.testing.assert_allclose(before[::-1], [cut.score for cut in after], rtol=1e-5, atol=1e-5 * scale**2 * n)


# Fast-BIC


def test_fast_bic_by_hand() -> None:
    # 0 2 | 10 14: n = 4, w = 1/2, v = 1 and 4, v_p = 2.5
    left, right, two = np.array([0.0, 2.0]), np.array([10.0, 14.0]), np.array([1, 1])
    mixing = 4 * math.log(0.5)
    diff = -2 * (mixing - LOG_2PI - (LOG_2PI + math.log(4)) - 2) + 5 * math.log(4)
    same = -2 * (mixing - 2 * (LOG_2PI + math.log(2.5)) - 2) + 4 * math.log(4)
    assert ref.two_cluster_scores(left, two, right, two) == pytest.approx((diff, same))
    assert (diff, same) == pytest.approx((26.600746, 26.107026))
    assert ref.fast_bic_score(left, two, right, two) == pytest.approx(same)
    # 20 rows a side: unequal variances pay for their further log n, as 20 log(4) + 40 log(1) < 40 log(2.5) - log(40)
    many = np.array([10, 10])
    diff, same = ref.two_cluster_scores(left, many, right, many)
    assert same - diff == pytest.approx(40 * math.log(2.5) - 20 * math.log(4) - math.log(40))
    assert ref.fast_bic_score(left, many, right, many) == diff
    # all four: mean 6.5, squares 42.25 + 20.25 + 12.25 + 56.25 = 131
    one = 4 * (LOG_2PI + math.log(131 / 4)) + 4 + 2 * math.log(4)
    values = np.concatenate([left, right])
    assert ref.one_cluster_score(values, ones(values)) == pytest.approx(one)
    raw, relative = (ref.fast_bic_cuts(values, ones(values), 2, relative) for relative in (False, True))
    assert raw == [(2, 10, pytest.approx(-26.107026))]
    assert relative == [(2, 10, pytest.approx(one - 26.107026))]


def test_fast_bic_guards() -> None:
    zero, pair, two = np.array([0.0, 0.0]), np.array([4.0, 8.0]), np.array([1, 1])
    # a constant side: `same` alone, v_p = 2 * 4 / 4
    diff, same = ref.two_cluster_scores(zero, two, pair, two)
    assert diff == math.inf
    assert same == pytest.approx(-2 * (4 * math.log(0.5) - 2 * (LOG_2PI + math.log(2)) - 2) + 4 * math.log(4))
    # two constant sides, 0 0 | 6 6: v_node = 9, so v_p = 9e-12
    expected = -2 * (4 * math.log(0.5) - 2 * (LOG_2PI + math.log(9e-12)) - 2) + 4 * math.log(4)
    assert ref.fast_bic_score(zero, two, zero + 6, two) == pytest.approx(expected)
    assert ref.fast_bic_score(zero, two, zero + 6, two, floor=1.0) == pytest.approx(
        -2 * (4 * math.log(0.5) - 2 * (LOG_2PI + math.log(9)) - 2) + 4 * math.log(4)
    )
    assert ref.one_cluster_score(zero, two) == -math.inf


@given(rows)
def test_unequal_variances_never_fit_worse(pairs: list[tuple[int, int]]) -> None:
    values, weights = arrays(pairs)
    for _, _, left in ref.partitions(values, weights):
        diff, same = ref.two_cluster_scores(values[left], weights[left], values[~left], weights[~left])
        n = weights.sum()
        assert math.isinf(diff) or diff - 5 * math.log(n) <= same - 4 * math.log(n) + 1e-9


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("seed", range(3))
def test_planted_clusters_are_cut_exactly(sizes: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.concatenate([rng.normal(0, 1, sizes[0]), rng.normal(10, 1, sizes[1])])
    for relative in (False, True):
        best = ref.first_best(ref.fast_bic_cuts(values, ones(values), 1, relative))
        assert cut_place(values, best) == sizes[0]
        assert best.below < ref.mclust_bic(values, ones(values)).threshold < best.above


def test_unequal_spreads_divide_the_criteria() -> None:
    """60 points of sd 1 beside 60 of sd 4, 10 apart: two-means cuts midway, Fast-BIC nearer to the narrow ones."""
    values = np.concatenate([normal_grid(60, 0, 1), normal_grid(60, 10, 4)])
    bic = ref.first_best(ref.fast_bic_cuts(values, ones(values), 1, False))
    two_means = ref.first_best(ref.two_means_cuts(values, ones(values)))
    assert (cut_place(values, bic), cut_place(values, two_means)) == (62, 69)
    assert cut_place(values, bic) == np.sum(values <= ref.mclust_bic(values, ones(values)).threshold)


def test_a_side_of_one_value_costs_fast_bic_a_row() -> None:
    """30 equal values beside 70 spread ones: `diff` needs two values a side, so the best cut takes in one more."""
    values = np.concatenate([np.zeros(30), normal_grid(70, 5, 1)])
    assert cut_place(values, ref.first_best(ref.two_means_cuts(values, ones(values)))) == 30
    assert cut_place(values, ref.first_best(ref.fast_bic_cuts(values, ones(values), 1, True))) == 31


# Mclust-BIC


def test_mclust_meets_another_library() -> None:
    rng = np.random.default_rng(4)
    values = np.concatenate([rng.normal(0, 1, 150), rng.normal(4, 2, 100)])
    for equal, kind in ((True, "tied"), (False, "full")):
        mixture, likelihood, _ = ref.fitted(values, ones(values), equal)
        peer = GaussianMixture(2, covariance_type=kind, tol=1e-10, max_iter=5000, reg_covar=0.0, random_state=0)
        peer.fit(values[:, None])
        assert likelihood == pytest.approx(peer.score(values[:, None]) * values.size, rel=1e-5)
        order = np.argsort(peer.means_[:, 0])
        np.testing.assert_allclose(mixture.means, peer.means_[order, 0], atol=0.02)
        np.testing.assert_allclose(mixture.shares, peer.weights_[order], atol=0.02)


def test_mclust_chooses_the_model_and_cuts_where_it_says() -> None:
    wide = np.concatenate([normal_grid(80, 0, 1), normal_grid(80, 10, 3)])
    fit = ref.mclust_bic(wide, ones(wide))
    assert not fit.equal
    assert fit.bic == pytest.approx(-2 * fit.log_likelihood + 5 * math.log(160))
    first, second = ref.log_densities(np.array([fit.threshold]), fit.mixture)[:, 0]
    assert first == pytest.approx(second)
    assert fit.mixture.means[0] < fit.threshold < 5 < fit.mixture.means[1]
    # symmetric and alike: four parameters suffice, and the cut is the middle
    alike = np.concatenate([normal_grid(50, -3, 1), normal_grid(50, 3, 1)])
    fit = ref.mclust_bic(alike, ones(alike))
    assert fit.equal
    assert fit.threshold == pytest.approx(0, abs=1e-6)
    density = sum(p * norm.pdf(alike, m, math.sqrt(v)) for p, m, v in zip(*fit.mixture, strict=True))
    assert fit.log_likelihood == pytest.approx(np.log(density).sum())
    assert fit.bic == pytest.approx(-2 * fit.log_likelihood + 4 * math.log(100))


def test_two_atoms_fall_to_the_floor() -> None:
    # 0 (3 times) and 6 (once): shares 3/4 and 1/4, v = 1e-12 * 6.75 for both; E saves log 4
    fit = ref.mclust_bic(np.array([0.0, 6.0]), np.array([3, 1]))
    expected = 3 * math.log(0.75) + math.log(0.25) - 2 * (LOG_2PI + math.log(6.75e-12))
    assert fit.equal
    assert fit.log_likelihood == pytest.approx(expected)
    assert fit.threshold == pytest.approx(3)
    np.testing.assert_allclose(fit.mixture.means, [0, 6])


def test_two_variances_are_asked_for_where_both_sides_of_the_start_have_two_values() -> None:
    spread = normal_grid(40, 8, 1)
    alone, pair = np.concatenate([np.zeros(10), spread]), np.concatenate([np.zeros(9), [0.01], spread])
    assert ref.mclust_bic(alone, ones(alone)).equal  # 1e4 times as narrow: two variances would win by far
    fit = ref.mclust_bic(pair, ones(pair))
    assert not fit.equal
    assert fit.mixture.variances[0] == pytest.approx(9e-6)  # 0.01^2 0.1 0.9


def test_two_variances_are_not_believed_where_one_is_at_the_floor() -> None:
    narrow = np.concatenate([np.zeros(9), [1e-4], normal_grid(40, 8, 1)])
    fit = ref.mclust_bic(narrow, ones(narrow))
    assert not fit.equal
    assert fit.mixture.variances[0] == pytest.approx(9e-10)
    least = 9.5e-10 / ref.variance(narrow, ones(narrow))
    fit = ref.mclust_bic(narrow, ones(narrow), least)
    assert fit.equal
    assert ref.fitted(narrow, ones(narrow), False, least)[0].variances[0] == pytest.approx(9.5e-10)


def test_rounds_end_where_a_row_gains_less_than_the_tolerance(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.concatenate([normal_grid(60, 0, 1), normal_grid(60, 2, 1)])
    likelihood, rounds = ref.fitted(values, ones(values), True)[1:]
    before = []
    for fewer in (1, 2):
        monkeypatch.setattr(ref, "ROUNDS", rounds - fewer)
        before.append(ref.fitted(values, ones(values), True)[1])
    assert likelihood - before[0] < 1e-8 * 120 <= before[0] - before[1]


@pytest.mark.slow
@settings(max_examples=40)
@given(rows)
def test_mclust_reads_weights_as_repeated_rows(pairs: list[tuple[int, int]]) -> None:
    values, weights = arrays(pairs)
    repeated = np.repeat(values, weights)
    fit, again = ref.mclust_bic(values, weights), ref.mclust_bic(repeated, ones(repeated))
    assert fit.bic == pytest.approx(again.bic, rel=1e-6, abs=1e-5)
    assert values.min() <= fit.threshold <= values.max()


@pytest.mark.parametrize(
    ("shares", "means", "variances", "place"),
    [
        ((0.5, 0.5), (0, 4), (1, 1), 2.0),
        ((0.8, 0.2), (0, 4), (2, 2), 2 + 2 * math.log(4) / 4),  # (a + b) / 2 + v log(pi_1 / pi_2) / (b - a)
        ((0.5, 0.5), (4, 0), (1, 1), 2.0),
        ((0.99, 0.01), (0, 1), (1, 1), 0.5),  # equal at 0.5 + log(99), beyond both means: the midpoint
        ((0.5, 0.5), (1, 1), (1, 4), 1.0),
        # -x^2/2 = -log 2 - (x - 6)^2/8 => 3 x^2 + 12 x - 36 - 8 log 2 = 0: one root between, one below both
        ((0.5, 0.5), (0, 6), (1, 4), -2 + math.sqrt(16 + 8 * math.log(2) / 3)),
    ],
)
def test_equally_likely(
    shares: tuple[float, float], means: tuple[float, float], variances: tuple[float, float], place: float
) -> None:
    mixture = ref.Mixture(*(np.array(part, dtype=float) for part in (shares, means, variances)))
    assert ref.equally_likely(mixture) == pytest.approx(place)


# Random cuts and witnesses


@settings(max_examples=40)
@given(rows)
def test_random_cut_gain_in_closed_form(pairs: list[tuple[int, int]]) -> None:
    """n log(v / v_p) + 2 sum n_k log w_k - 2 log n, and never more than the relative score of the same cut."""
    values, weights = arrays(pairs)
    n, relative = weights.sum(), ref.fast_bic_cuts(values, weights, 1, True)
    for (_, _, left), cut in zip(ref.partitions(values, weights), relative, strict=True):
        sides = [(values[side], weights[side]) for side in (left, ~left)]
        total, within = ref.squares(values, weights), sum(ref.squares(*side) for side in sides)
        mixing = sum(w.sum() * math.log(w.sum() / n) for _, w in sides)
        expected = n * math.log(total / max(within, 1e-12 * total)) + 2 * mixing - 2 * math.log(n)
        gain = ref.random_cut_gain(values, weights, left)
        assert gain == pytest.approx(expected, abs=1e-6)
        assert gain <= cut.score + 1e-9


def test_witness_gain_by_hand() -> None:
    left, weights = np.array([True, True, False]), np.array([1, 1, 2])
    # 0 2 | 6 6: mean 3.5, total 27, within 2; 5 5 5: 0; 1 1 | 3 3: within at the floor; 0 4 | 2 2: nothing explained
    witnesses = np.array([[0, 5, 1, 0], [2, 5, 1, 4], [6, 5, 3, 2]], dtype=float)
    alone = [4 * math.log(27 / 2), 0, 4 * math.log(1e12), 0]
    for column, gain in enumerate(alone):
        assert ref.witness_gain(witnesses[:, [column]], weights, left) == pytest.approx(gain, abs=1e-12)
    assert ref.witness_gain(witnesses, weights, left) == pytest.approx(sum(alone) / 4)
    assert ref.witness_gain(witnesses[:, [2]], weights, left, floor=0.1) == pytest.approx(4 * math.log(10))


# The dependence screen


def test_ranks_in_bins_by_hand() -> None:
    column, ties = np.array([3.0, 1.0, 3.0, 2.0, 3.0]), np.array([0.5, 0.9, 0.1, 0.2, 0.7])
    assert ref.ranks(column, ties).tolist() == [3, 0, 2, 1, 4]
    assert ref.ranks_in_bins(column, ties, 2).tolist() == [1, 0, 0, 0, 1]  # floor(2 rank / 5)
    sizes = np.bincount(ref.ranks_in_bins(np.arange(1003.0)[::-1], np.zeros(1003)))
    assert sizes.tolist() == [126, 125, 126, 125, 125, 126, 125, 125]


def test_g_statistic_is_the_log_likelihood_ratio() -> None:
    codes = np.random.default_rng(0).integers(8, size=(2, 400))
    table = np.zeros((8, 8))
    np.add.at(table, (codes[0], codes[1]), 1)
    peer = chi2_contingency(table, correction=False, lambda_="log-likelihood")
    assert ref.g_statistic(*codes) == pytest.approx(peer.statistic)
    assert ref.g_statistic(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), 2) == pytest.approx(0)
    # 0 0 1 1 beside 0 0 0 1: 2 (2 log(2 4 / 6) + log(4 / 6) + log(4 / 2))
    value = 2 * (2 * math.log(4 / 3) + math.log(2 / 3) + math.log(2))
    assert ref.g_statistic(np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1]), 2) == pytest.approx(value)


def test_screen_finds_the_two_that_depend() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((800, 5))
    X[:, 4] = np.exp(X[:, 1])  # the same ranks: G = 2 n log 8
    found = ref.dependence_screen(X, rng.random(X.shape))
    assert found.significant.tolist() == [False, True, False, False, True]
    np.testing.assert_allclose(found.largest[[1, 4]], 1600 * math.log(8))
    np.testing.assert_allclose(found.strength[[1, 4]], 1 - 49 / (1600 * math.log(8)))
    # chi-square(49) exceeds 62.0375 with the chance 1 / 10, and there are ten pairs
    by_chance = ref.false_pairs(62.0375 * (1 + 81 / 4800) * np.ones(5), 800)
    np.testing.assert_allclose(by_chance, 1, rtol=1e-4)
    assert found.largest[[0, 2, 3]].max() < 62
    # q = 0.4: 0.76 between two alike, 0.24 among three
    np.testing.assert_allclose(found.weights, [0.08, 0.38, 0.08, 0.08, 0.38])


def test_screen_reads_ranks_alone() -> None:
    rng = np.random.default_rng(2)
    X, ties = rng.standard_normal((200, 4)), rng.random((200, 4))
    X[:, 3] += X[:, 0]
    rows, columns = rng.permutation(200), np.array([2, 0, 3, 1])
    found = ref.dependence_screen(X, ties)
    for part, warped in zip(found, ref.dependence_screen(np.exp(3 * X), ties), strict=True):
        np.testing.assert_array_equal(part, warped)
    for part, moved in zip(found, ref.dependence_screen(X[rows][:, columns], ties[rows][:, columns]), strict=True):
        np.testing.assert_allclose(part[columns], moved, rtol=1e-12)


def test_strength_is_clipped() -> None:
    expected = [0, 0, 0.5, 0.999, 0]
    largest = np.array([0, 49, 49 + 100 * math.log(8), 200 * math.log(8) + 49, -math.inf])
    np.testing.assert_allclose(ref.dependence_strength(largest, 100), expected)
    assert ref.largest_over_partners(np.zeros((4, 1), dtype=np.int64), ref.g_statistic).tolist() == [-math.inf]
    assert ref.false_pairs(np.array([0.0, -math.inf]), 100).tolist() == [1, 1]  # one pair, a tail of 1


@pytest.mark.parametrize(
    ("by_chance", "weights"),
    [
        ([1, 1, 0.01], [1 / 3] * 3),
        ([0, 0, 0], [1 / 3] * 3),
        ([0, 0, 1, 1], [0.375, 0.375, 0.125, 0.125]),
        ([0, 1, 1, 1], [0.8125, 0.0625, 0.0625, 0.0625]),
        ([0.002, 1, 1, 1], [5 / 8, 1 / 8, 1 / 8, 1 / 8]),  # 13 times another, evidence for 5
        ([0.005, 0, 1, 1], [2 / 7, 3 / 7, 1 / 7, 1 / 7]),
    ],
)
def test_feature_weights(by_chance: list[float], weights: list[float]) -> None:
    found = ref.feature_weights(np.array(by_chance, dtype=float))
    np.testing.assert_allclose(found, weights)
    assert found.sum() == pytest.approx(1)


def test_legendre_statistic() -> None:
    # three rows, x = -2/3, 0, 2/3: P_2 and P_3 of three points lie on ±P_1 and (1, -2, 1), so the nine are 4 ones and
    # the rest 0: P_1 and P_3 are both odd, hence collinear (4 ones); P_2 meets itself (1)
    assert ref.legendre_statistic(np.arange(3), np.arange(3)) == pytest.approx(3 * 5)
    assert ref.legendre_statistic(np.arange(3), np.array([2, 1, 0])) == pytest.approx(3 * 5)
    # 256 equal ranks: nearly orthonormal, so three ones
    assert ref.legendre_statistic(np.arange(256), np.arange(256)) == pytest.approx(256 * 3, rel=1e-3)
    rng = np.random.default_rng(3)
    null = [ref.legendre_statistic(rng.permutation(256), np.arange(256)) for _ in range(400)]
    assert np.mean(null) == pytest.approx(9, abs=0.7)  # 9 and sd sqrt(18 / 400) = 0.21
    assert np.var(null) == pytest.approx(18, abs=6)
    a, b = rng.permutation(50), rng.permutation(50)
    assert ref.legendre_statistic(a, b) == pytest.approx(ref.legendre_statistic(b, 49 - a))


# Proximities


def test_proximities_by_hand() -> None:
    nodes = np.array([[1, 1, 2], [3, 4, 4], [5, 5, 5]])
    expected = np.array([[3, 2, 1], [2, 3, 2], [1, 2, 3]]) / 3
    np.testing.assert_allclose(ref.proximity(nodes, nodes), expected)
    np.testing.assert_allclose(ref.proximity(nodes, nodes[:, 1:]), expected[:, 1:])
    in_bag = np.array([[0, 0, 2], [0, 1, 1], [1, 0, 1]])
    shares, counts = ref.out_of_bag_proximity(nodes, in_bag)
    # row 2 was drawn by every tree; 0 and 1 were both left out by the first alone
    assert counts.tolist() == [[2, 1, 0], [1, 2, 0], [0, 0, 0]]
    np.testing.assert_array_equal(shares, [[1, 1, np.nan], [1, 1, np.nan], [np.nan] * 3])


def test_out_of_bag_proximity_is_the_plain_one_where_nothing_was_drawn() -> None:
    nodes = np.random.default_rng(5).integers(4, size=(7, 20))
    shares, counts = ref.out_of_bag_proximity(nodes, np.zeros_like(nodes))
    np.testing.assert_array_equal(shares, ref.proximity(nodes, nodes))
    assert (counts == 7).all()
    np.testing.assert_array_equal(shares, shares.T)
    assert (np.diag(shares) == 1).all()


def test_nearest_breaks_ties_by_index() -> None:
    proximities = np.array([[1, 0.5, 0.5, 0.9], [0.5, 1, np.nan, 0.0], [0.5, np.nan, 1, 0.5], [0.9, 0.0, 0.5, 1]])
    indices, found = ref.nearest(proximities, 3)
    assert indices.tolist() == [[3, 1, 2], [0, 3, 2], [0, 3, 1], [0, 2, 1]]
    np.testing.assert_array_equal(found[1], [0.5, 0.0, np.nan])
    assert ref.nearest(proximities, 2, leave_out_self=False)[0].tolist() == [[0, 3], [1, 0], [2, 0], [3, 0]]
