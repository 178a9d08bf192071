"""Does a threshold hold its rate of false alarms among new identities? Beside a quantile and a bootstrap over pairs.

``python benchmarks/decisions.py [--faces olivettifaces.mat] [--letter letter.npz] [--splits S]`` grows one forest for
each set, from the first of its identities. The others are split S times into two halves: pairs of the first half set
the threshold, pairs of the second judge it. Printed is the share of splits in which the realised rate is at most the
nominal one, over the splits in which a threshold was found, and the mean share of similar pairs that it finds.

``--out-of-bag`` compares instead calibrations out of bag with those of held-out identities, on made identities of
three seeds: the threshold for a rate of 0.01, the realised rates, and the log loss of probabilities.

The faces are those of AT&T, ``faces`` of shape (4096, 400), ten in a row of each of 40 people; the letters ``X`` and
``y`` are those of UCI's Letter Recognition.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from measurement import machine, print_table
from scipy.io import loadmat
from sklearn.decomposition import PCA
from sklearn.isotonic import IsotonicRegression

from distforest import RFD, TreeRank
from distforest.errors import InputError
from distforest.forest.pairs.decisions import Calibration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from distforest.estimators.on_pairs import OnPairs

CONFIDENCE = 0.95
LEAST = 1e-6
"""The least probability of what is the case, as an isotonic regression may answer 0 or 1."""


class Records(NamedTuple):
    """Records with their identities, of which the first ``n_taught`` teach the forest."""

    X: NDArray[np.float32]
    identities: NDArray[np.int64]
    n_taught: int


def faces(path: str) -> Records:
    """Ten pictures of each of 40 people, by their first 30 principal components."""
    pixels = loadmat(path)["faces"].T.astype(np.float64)
    return Records(PCA(30, random_state=0).fit_transform(pixels).astype(np.float32), np.repeat(np.arange(40), 10), 16)


def letters(path: str) -> Records:
    """Thirty pictures of each letter; every other letter of the alphabet teaches."""
    with np.load(path) as held:
        X, y = held["X"], held["y"]
    order = [*range(0, 26, 3), *range(1, 26, 3), *range(2, 26, 3)]
    rows = np.concatenate([np.flatnonzero(y == letter)[:30] for letter in order])
    return Records(X[rows].astype(np.float32), np.repeat(np.arange(26), 30), 9)


def made(n: int, n_records: int, n_families: int, seed: int) -> Records:
    """Embeddings of identities around the centres of families, some of which spread more than others."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_families, 12))[rng.integers(n_families, size=n)] * (n_families < n)
    own = centres + rng.normal(size=(n, 12)) * rng.gamma(8, 1 / 8, size=(n, 1))
    noise = rng.normal(size=(n * n_records, 12)) * np.repeat(rng.gamma(8, 0.5 / 8, size=(n, 1)), n_records, axis=0)
    X = np.repeat(own, n_records, axis=0) + noise
    return Records(X.astype(np.float32), np.repeat(np.arange(n), n_records), n // 3)


def all_pairs(records: Records, estimator: OnPairs) -> Calibration:
    """All pairs of records that have not taught the forest, with their distances."""
    taught = records.identities < records.n_taught
    forest = estimator.fit(records.X[taught], records.identities[taught])
    X, own = records.X[~taught], records.identities[~taught]
    left, right = np.triu_indices(len(X), 1)
    identities = np.stack([own[left], own[right]], axis=1).astype(np.int32)
    return Calibration(forest.pair_distance(X[left], X[right]), own[left] == own[right], identities)


def of_identities(pairs: Calibration, some: NDArray[np.int32]) -> Calibration:
    """The pairs within some identities."""
    chosen = np.isin(pairs.identities, some).all(axis=1)
    return Calibration(pairs.distances[chosen], pairs.similar[chosen], pairs.identities[chosen])


def halves(pairs: Calibration, n: int) -> Iterator[tuple[Calibration, Calibration]]:
    """Pairs of one half of the identities, and of the other, split ``n`` times."""
    known = np.unique(pairs.identities)
    for seed in range(n):
        order = np.random.default_rng(seed).permutation(known)
        yield of_identities(pairs, order[: len(known) // 2]), of_identities(pairs, order[len(known) // 2 :])


def by_quantile(half: Calibration, fpr: float) -> float:
    """The largest distance with at most this rate of false alarms in the half itself."""
    tried = np.unique(half.distances)
    false = np.searchsorted(np.sort(half.distances[~half.similar]), tried, side="right") / (~half.similar).sum()
    return float(tried[false <= fpr].max(initial=-1.0))


def by_pairs(half: Calibration, fpr: float) -> float:
    """The same as `Calibration.threshold`, but from resamples of pairs, which it takes for independent."""
    each = Calibration(half.distances, half.similar, np.arange(2 * len(half.similar), dtype=np.int32).reshape(-1, 2))
    tried, n = np.unique(half.distances), int((~half.similar).sum())
    false = np.searchsorted(np.sort(each.distances[~each.similar]), tried, side="right")
    rng = np.random.default_rng(0)
    tried, false = tried[false <= fpr * n], false[false <= fpr * n]
    apart = rng.binomial(n, false / n, (1000, len(false))) - rng.binomial(n, false / n, (1000, len(false)))
    bounds = (false + 1 + np.quantile(apart, CONFIDENCE, axis=0)) / (n + 1)
    return float(tried[bounds <= fpr].max(initial=-1.0))


def by_identities(half: Calibration, fpr: float) -> float:
    """The threshold of a calibration; -1 if none can be shown to hold the rate."""
    try:
        return half.threshold(fpr, CONFIDENCE)
    except InputError:
        return -1.0


WAYS = {"quantile": by_quantile, "pairs": by_pairs, "identities": by_identities}


def losses(half: Calibration, other: Calibration) -> tuple[float, float]:
    """Mean log loss among the other half of a logistic and of an isotonic regression on the distance."""
    isotonic = IsotonicRegression(increasing=False, out_of_bounds="clip").fit(half.distances, half.similar)
    found = [half.probability(other.distances), isotonic.predict(other.distances)]
    right = [np.where(other.similar, p, 1 - p).clip(LEAST, 1) for p in found]
    return float(-np.log(right[0]).mean()), float(-np.log(right[1]).mean())


def out_of_bag() -> None:
    """Print a row for each seed, number of trees and way of calibration."""
    rows = []
    for seed in range(3):
        records = made(200, 3, 200, seed)
        X, own = records.X, records.identities
        known, held, new = own < 100, (own >= 100) & (own < 150), np.flatnonzero(own >= 150)
        left, right = new[np.stack(np.triu_indices(len(new), 1))]
        similar = own[left] == own[right]
        for n_trees in (150, 600):
            forest = RFD(n_trees, max_samples=0.15, min_samples_leaf=2, random_state=0).fit(X[known], own[known])
            distances = forest.pair_distance(X[left], X[right])
            for way, given in (("out of bag", ()), ("held out", (X[held], own[held]))):
                one = forest.calibrate(*given).calibration_
                limit, p = one.threshold(0.01, CONFIDENCE), one.probability(distances, float(similar.mean()))
                near, loss = distances <= limit, -np.log(np.where(similar, p, 1.0 - p).clip(LEAST, 1.0)).mean()
                rates = (limit, near[~similar].mean(), near[similar].mean(), loss)
                rows.append([str(seed), str(n_trees), way, *(f"{rate:.4f}" for rate in rates)])
    print_table(["seed", "trees", "calibrated", "threshold", "false", "found", "log loss"], rows)


def main() -> None:
    """Print a row for each set and rate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faces")
    parser.add_argument("--letter")
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--out-of-bag", action="store_true")
    options = parser.parse_args()
    if options.out_of_bag:
        out_of_bag()
        return
    sets = {
        "made identities": (made(150, 4, 150, 0), RFD(100, random_state=0)),
        "made families": (made(150, 4, 25, 1), TreeRank(20, random_state=0)),
    }
    if options.faces:
        sets["faces"] = faces(options.faces), RFD(200, random_state=0)
    if options.letter:
        sets["letters"] = letters(options.letter), RFD(100, random_state=0)
    rows, of_loss = [], []
    for name, (records, estimator) in sets.items():
        if options.only and name not in options.only:
            continue
        pairs = all_pairs(records, estimator)
        splits = list(halves(pairs, options.splits))
        lost = np.mean([losses(*split) for split in splits], axis=0)
        of_loss.append([name, *(f"{one:.4f}" for one in lost)])
        n_identities = len(np.unique(splits[0][0].identities))
        for fpr in (0.001, 0.01, 0.05):
            cells = []
            for find in WAYS.values():
                thresholds = np.array([find(half, fpr) for half, _ in splits])
                known = thresholds >= 0.0
                ends = [
                    (t, other) for t, (_, other), is_found in zip(thresholds, splits, known, strict=True) if is_found
                ]
                held = [(other.distances[~other.similar] <= t).mean() <= fpr for t, other in ends]
                found = [(other.distances[other.similar] <= t).mean() for t, other in ends]
                cells.append(f"{np.mean(held):.3f} ({np.mean(found):.2f})" if held else "")
            rows.append([name, str(n_identities), f"{fpr:g}", *cells, f"{np.mean(known):.2f}"])
            print(rows[-1], flush=True)
    print(f"{machine()}, {options.splits} splits\n")
    print_table(["data", "identities", "rate", *(f"by {way}" for way in WAYS), "shown"], rows)
    print()
    print_table(["data", "log loss, logistic", "isotonic"], of_loss)


if __name__ == "__main__":
    main()
