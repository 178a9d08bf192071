"""Decisions about pairs: rates of resamples by loops over pairs, thresholds, probabilities, bands, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, t
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score, roc_curve

from distforest.errors import InputError
from distforest.forest.pairs import decisions
from distforest.forest.pairs.decisions import Calibration, t_per_normal


def made(n: int = 30, n_records: int = 3, seed: int = 0, noise: float = 0.3) -> Calibration:
    rng = np.random.default_rng(seed)
    own = np.repeat(np.arange(n), n_records)
    X = rng.normal(size=(n, 4))[own] + noise * rng.normal(size=(len(own), 4))
    left, right = np.triu_indices(len(own), 1)
    pairs = np.stack([own[left], own[right]], axis=1).astype(np.int32)
    return Calibration(np.linalg.norm(X[left] - X[right], axis=1), own[left] == own[right], pairs)


def rates_by_loops(one: Calibration, thresholds: np.ndarray, n_samples: int) -> np.ndarray:
    """The rates of `Calibration._resampled`, pair by pair from their definition, (2, n_samples, n_thresholds)."""
    known = sorted({int(identity) for pair in one.identities for identity in pair})
    rng, rates = np.random.default_rng(0), np.zeros((2, n_samples, len(thresholds)))
    for sample in range(n_samples):
        drawn = [known[k] for k in rng.integers(len(known), size=len(known) - 1)]
        a, b = rng.exponential(size=2)
        for kind in (0, 1):
            up_to, total = np.full(len(thresholds), 0.0 if kind else a * b), 0.0 if kind else a * b
            for distance, is_similar, (left, right) in zip(one.distances, one.similar, one.identities, strict=True):
                if is_similar == bool(kind):
                    weight = drawn.count(left) * (drawn.count(right) if left != right else 1)
                    total += weight
                    up_to += weight * (distance <= thresholds)
            rates[kind, sample] = up_to / max(total, 1.0)
    return rates


def test_rates_of_resamples_are_those_of_loops_over_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "N_RESAMPLES", 7)
    one = made(6, 3)
    cuts = np.quantile(one.distances, [0.0, 0.1, 0.5])
    np.testing.assert_allclose(np.array(one._resampled(cuts)), rates_by_loops(one, cuts, 7), rtol=1e-12)


def test_the_decision_is_that_of_its_formula() -> None:
    one = made()
    found, far = one.decision(0.05, 0.9), one.distances[~one.similar]
    false, _ = one._resampled(np.array([found.threshold]))
    apart = np.quantile(np.cbrt(false) - np.cbrt(np.roll(false, 1, axis=0)), 0.9) * t_per_normal(0.9, 29)
    n_alarms = int((far <= found.threshold).sum())
    assert found.bound == pytest.approx((np.cbrt((n_alarms + 1) / (len(far) + 1)) + apart) ** 3)
    assert found.bound <= 0.05
    assert found.fpr == n_alarms / len(far)
    assert found.tpr == (one.distances[one.similar] <= found.threshold).mean()
    assert 0.0 <= found.low <= found.tpr <= found.high <= 1.0
    assert one.threshold(0.05, 0.9) == found.threshold


def test_student_is_wider_than_normal_by_the_first_term_of_its_expansion() -> None:
    for n_free, within in ((7, 0.02), (30, 0.001)):
        assert t_per_normal(0.95, n_free) == pytest.approx(t.ppf(0.95, n_free) / norm.ppf(0.95), abs=within)


def test_a_threshold_falls_with_the_rate_and_with_the_confidence() -> None:
    one = made()
    at = [one.threshold(fpr) for fpr in (0.01, 0.05, 0.2)]
    assert at == sorted(at)
    assert one.threshold(0.05, 0.99) <= one.threshold(0.05, 0.9) <= one.threshold(0.05, 0.5)


def test_dependent_pairs_take_a_smaller_threshold_than_independent_ones() -> None:
    one = made(20, 8)
    n = len(one.distances)
    apart = Calibration(one.distances, one.similar, np.arange(2 * n, dtype=np.int32).reshape(n, 2))
    assert one.threshold(0.05) < apart.threshold(0.05)


def test_no_false_alarm_does_not_show_a_rate_of_zero() -> None:
    one = made(8, 2, noise=0.0)
    assert one.distances[one.similar].max() < one.distances[~one.similar].min()
    with pytest.raises(InputError, match=r"112 dissimilar pairs of 8 identities.*needed"):
        one.threshold(0.01)


def test_a_crowd_at_the_smallest_distance_is_refused_with_another_cure() -> None:
    one = made(10, 3)
    tied = Calibration(np.where(one.distances < 2.0, 0.0, one.distances), one.similar, one.identities)
    with pytest.raises(InputError, match="smallest distance, 0; grow more trees"):
        tied.threshold(0.01)


@pytest.mark.parametrize(("fpr", "confidence"), [(0.0, 0.95), (1.0, 0.95), (np.nan, 0.95), (0.1, 1.0), (0.1, 0.4)])
def test_a_rate_or_confidence_out_of_range_is_refused(fpr: float, confidence: float) -> None:
    with pytest.raises(InputError, match=r"fpr must|confidence must"):
        made(5).threshold(fpr, confidence)


def test_the_same_pairs_give_the_same_threshold() -> None:
    assert made().decision(0.05) == made().decision(0.05)


def test_probabilities_are_those_of_a_logistic_regression() -> None:
    one = made(40, 3)
    n_similar, n_other = int(one.similar.sum()), int((~one.similar).sum())
    target = np.where(one.similar, (n_similar + 1) / (n_similar + 2), 1 / (n_other + 2))  # Platt's
    X, kinds = np.tile(one.distances, 2)[:, None], np.repeat([1, 0], len(target))
    expected = LogisticRegression(C=np.inf, tol=1e-8).fit(X, kinds, np.concatenate([target, 1 - target]))
    at = np.linspace(0.0, 4.0, 20)
    np.testing.assert_allclose(one.probability(at), expected.predict_proba(at[:, None])[:, 1], rtol=1e-3)
    assert (np.diff(one.probability(at)) <= 0.0).all()


def test_the_share_in_use_changes_the_odds_by_bayes_formula() -> None:
    one, at = made(), np.linspace(0.0, 4.0, 5)
    p, q = one.probability(at), one.probability(at, share=0.001)
    prior = one.share / (1 - one.share)
    np.testing.assert_allclose(q / (1 - q), p / (1 - p) / prior * (0.001 / 0.999))
    np.testing.assert_allclose(one.probability(at, share=one.share), p)
    with pytest.raises(InputError, match="share"):
        one.probability(at, share=1.0)


def test_probabilities_of_pairs_that_are_told_apart_by_a_distance_stay_inside() -> None:
    p = made(8, 2, noise=0.0).probability(np.array([0.0, 100.0]))
    assert 0.8 < p[0] < 1.0
    assert 0.0 <= p[1] < 0.1


def test_the_band_lies_about_the_curve() -> None:
    one = made()
    band = one.roc_band()
    fpr, tpr, _ = roc_curve(one.similar, -one.distances)
    assert band.auc == pytest.approx(roc_auc_score(one.similar, -one.distances), abs=1e-3)
    np.testing.assert_allclose(np.interp(0.2, band.fpr, band.tpr), np.interp(0.2, fpr, tpr), atol=0.02)
    assert (band.low <= band.high).all()
    assert band.auc_low < band.auc < band.auc_high
    narrow = one.roc_band(0.5)
    assert narrow.auc_high - narrow.auc_low < band.auc_high - band.auc_low


@pytest.mark.parametrize(
    ("distances", "similar", "identities"),
    [
        ([0.1, 0.2], [True, True], [[0, 0], [1, 1]]),
        ([0.1, np.nan], [True, False], [[0, 0], [0, 1]]),
        ([0.1, 0.2], [True, False], [0, 1]),
    ],
)
def test_pairs_that_decide_nothing_are_refused(distances: list, similar: list, identities: list) -> None:
    with pytest.raises(InputError):
        Calibration(np.array(distances), np.array(similar), np.array(identities, np.int32))
