"""SMERF against fitted and plain linear distances on the three simulations of its paper (section 5.1).

::

    python benchmarks/smerf_simulations.py                    the paper's sizes, ten repeats, tuned forests
    python benchmarks/smerf_simulations.py --quick            small forests and data, two repeats
    python benchmarks/smerf_simulations.py --without-smerf    the linear distances only

stdout is a markdown table, mean ± standard error over the repeats; stderr is progress. Test points are
compared with each other, self pairs left out.

- *Euclidean* is the squared Euclidean distance (not in the paper). It has no scale, so for RMSE it is
  multiplied by the number that fits the training distances best (least squares); mAP and Spearman ignore it.
- *Mahalanobis* minimises sum_ij ((x_i - x_j)^T W (x_i - x_j) - z_ij)^2 over positive semidefinite W.
- *Bilinear* minimises ||X W X^T - Q||_F^2 over positive semidefinite W, where Q = 1 - Z; its distance is one
  minus its similarity.
- *SMERF* has 500 trees with oblique splits, grown for every pair of the paper's values of d (p^1/4, p^1/2,
  p^3/4, p, p^3/2, rounded up) and min.parent (2, 4, 8; appendix D.3); the forest of least out-of-bag RMSE
  predicts.

On Regression the noise is part of the truth: the distance without noise, (x_i - x_j)^T W (x_i - x_j) with the
true W of appendix D.2.1, has itself only mAP-10 0.225, Spearman 0.801 and RMSE 0.0403 on these ten repeats.

The paper solved the two fits with CVX and Mosek; here accelerated projected gradient runs until the condition
of optimality holds to nine digits, and a fit that does not get there is an error.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from measures import mean_average_precision, mean_spearman, rmse
from simulations import Simulation, smerf_bilinear, smerf_radial, smerf_regression

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Method = Callable[["Trial"], Floats]

SETTINGS = {"Regression": smerf_regression, "Bilinear": smerf_bilinear, "Radial": smerf_radial}
MEASURES = {"mAP-10": mean_average_precision, "Spearman": mean_spearman, "RMSE": rmse}
N_COLUMNS = 20
TOLERANCE = 1e-9
MAX_STEPS = 200_000


class Trial(NamedTuple):
    """Training points with their distances, the test points, and the seed of what is fitted."""

    X: Floats
    Z: Floats
    X_test: Floats
    seed: int


@dataclass(frozen=True)
class Sizes:
    """How large the experiment is; the defaults are the paper's."""

    n_train: int = 320
    n_test: int = 200
    n_estimators: int = 500
    max_features: tuple[int, ...] = tuple(math.ceil(N_COLUMNS**e) for e in (0.25, 0.5, 0.75, 1.0, 1.5))
    min_samples_split: tuple[int, ...] = (2, 4, 8)


QUICK = Sizes(n_train=120, n_test=100, n_estimators=100, max_features=(20,), min_samples_split=(2, 8))


def squared_distance(A: Floats) -> Floats:
    """Squared Euclidean distances between the rows of A, never below zero."""
    squares = np.einsum("ij,ij->i", A, A)
    return np.maximum(squares[:, None] + squares[None, :] - 2 * (A @ A.T), 0.0)


def euclidean(trial: Trial) -> Floats:
    """Squared Euclidean distance, scaled to the training distances by least squares."""
    raw = squared_distance(trial.X)
    scale = float(np.sum(raw * trial.Z) / np.sum(raw**2))
    return scale * squared_distance(trial.X_test)


def mahalanobis(trial: Trial) -> Floats:
    """Squared Mahalanobis distance fitted to the training distances (appendix D.1)."""
    return squared_distance(trial.X_test @ square_root(fit_mahalanobis(trial.X, trial.Z)))


def bilinear(trial: Trial) -> Floats:
    """One minus the bilinear similarity fitted to the training similarities (appendix D.1)."""
    W = fit_bilinear(trial.X, 1.0 - trial.Z)
    return 1.0 - trial.X_test @ W @ trial.X_test.T


def smerf(sizes: Sizes) -> Method:
    """SMERF with the pair of d and min.parent that has the least out-of-bag RMSE."""
    from distforest import SMERF  # noqa: PLC0415 - the linear distances run where no forest can be built

    def method(trial: Trial) -> Floats:
        X, X_test = trial.X.astype(np.float32), trial.X_test.astype(np.float32)
        forests = (  # a generator: the least so far and the newest are all that is held
            SMERF(
                n_estimators=sizes.n_estimators,
                max_features=d,
                min_samples_split=min_parent,
                feature_combinations=1.5,
                oob_score=True,
                random_state=trial.seed,
            ).fit(X, trial.Z)
            for d, min_parent in itertools.product(sizes.max_features, sizes.min_samples_split)
        )
        best = min(forests, key=lambda forest: forest.oob_rmse_)
        report(f"(d={best.max_features}, min.parent={best.min_samples_split})")
        return np.asarray(best.distance(X_test), dtype=np.float64)

    return method


def fit_mahalanobis(X: Floats, Z: Floats) -> Floats:
    """The W of the squared Mahalanobis distance nearest to Z in least squares."""
    n, p = X.shape
    gram, moment = np.zeros((p * p, p * p)), np.zeros(p * p)
    for i in range(n - 1):  # one row of pairs at a time: all pairs at once would take n^2 p^2 / 2 numbers
        difference = X[i + 1 :] - X[i]
        features: Floats = np.einsum("ia,ib->iab", difference, difference).reshape(-1, p * p)
        gram += features.T @ features
        moment += features.T @ Z[i, i + 1 :]
    return semidefinite_least_squares(gram, moment)


def fit_bilinear(X: Floats, Q: Floats) -> Floats:
    """The W of the bilinear similarity X W X^T nearest to Q in least squares."""
    inner = X.T @ X
    return semidefinite_least_squares(np.kron(inner, inner), (X.T @ Q @ X).ravel())


def semidefinite_least_squares(gram: Floats, moment: Floats) -> Floats:
    """The positive semidefinite W that minimises w^T gram w / 2 - moment^T w, with w = vec(W).

    Accelerated projected gradient, restarted when the momentum points uphill. It stops when a projected step
    moves W by no more than TOLERANCE times the length of the gradient step from 0: where a step moves
    nothing, W is optimal.
    """
    step = 1.0 / float(np.linalg.eigvalsh(gram)[-1])
    enough = TOLERANCE * step * np.linalg.norm(moment)
    w = ahead = np.zeros_like(moment)
    t = 1.0
    for _ in range(MAX_STEPS):
        new = project(ahead - step * (gram @ ahead - moment))
        if np.linalg.norm(new - ahead) <= enough:
            return new.reshape(math.isqrt(len(new)), -1)
        if (ahead - new) @ (new - w) > 0:
            ahead, t = new, 1.0
        else:
            t_new = (1 + math.sqrt(1 + 4 * t * t)) / 2
            ahead, t = new + (t - 1) / t_new * (new - w), t_new
        w = new
    raise RuntimeError(f"the fit did not converge in {MAX_STEPS} steps")


def project(w: Floats) -> Floats:
    """vec of the positive semidefinite matrix nearest to the symmetric part of the matrix of w."""
    W = w.reshape(math.isqrt(len(w)), -1)
    values, vectors = np.linalg.eigh((W + W.T) / 2)
    return ((vectors * np.maximum(values, 0.0)) @ vectors.T).ravel()


def square_root(W: Floats) -> Floats:
    """A with A A^T = W, so that rows x A have the squared distances of W."""
    values, vectors = np.linalg.eigh(W)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def split(data: Simulation, n_train: int, seed: int) -> tuple[Trial, Floats]:
    """The first points to train on, the others to test, with the true distances of the latter."""
    X = data.X.astype(np.float64)
    trial = Trial(X[:n_train], data.Z[:n_train, :n_train], X[n_train:], seed)
    return trial, data.Z[n_train:, n_train:]


def scores(methods: dict[str, Method], sizes: Sizes, repeats: int) -> Iterator[tuple[str, str, Floats]]:
    """For each setting and method the three measures of every repeat, (repeats, 3)."""
    for setting, simulate in SETTINGS.items():
        found: dict[str, list[list[float]]] = {name: [] for name in methods}
        for repeat in range(repeats):
            data = simulate(sizes.n_train + sizes.n_test, N_COLUMNS, random_state=repeat)
            trial, true = split(data, sizes.n_train, repeat)
            report(f"{setting}, repeat {repeat + 1} of {repeats}:")
            for name, method in methods.items():
                report(name)
                predicted = method(trial)
                found[name].append([measure(true, predicted) for measure in MEASURES.values()])
            report("", end="\n")
        for name, values in found.items():
            yield setting, name, np.array(values)


def report(text: str, end: str = " ") -> None:
    """Say how far the work is."""
    print(text, end=end, file=sys.stderr, flush=True)


def cell(values: Floats) -> str:
    """Mean ± standard error of the mean; the mean alone for one repeat."""
    if len(values) == 1:
        return f"{values[0]:.4f}"
    return f"{values.mean():.4f} ± {values.std(ddof=1) / math.sqrt(len(values)):.4f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the experiment and print its table."""
    parser = argparse.ArgumentParser(description="The simulations of the SMERF paper, section 5.1.")
    parser.add_argument("--repeats", type=int, help="number of repeats (10; 2 with --quick)")
    parser.add_argument("--quick", action="store_true", help="small data, small forests, a small grid")
    parser.add_argument("--without-smerf", action="store_true", help="the linear distances only")
    options = parser.parse_args(arguments)
    repeats = options.repeats if options.repeats is not None else 2 if options.quick else 10
    if repeats < 1:
        parser.error(f"--repeats must be at least 1, found {repeats}")

    sizes = QUICK if options.quick else Sizes()
    methods: dict[str, Method] = {"Euclidean": euclidean, "Mahalanobis": mahalanobis, "Bilinear": bilinear}
    if not options.without_smerf:
        methods["SMERF"] = smerf(sizes)
    print("| setting | method | " + " | ".join(MEASURES) + " |")
    print("|---|---|" + "---|" * len(MEASURES))
    for setting, name, values in scores(methods, sizes, repeats):
        print(f"| {setting} | {name} | " + " | ".join(cell(column) for column in values.T) + " |", flush=True)


if __name__ == "__main__":
    main()
