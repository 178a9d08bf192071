"""Columns of categories against their one-hot form, and against scikit-learn's histogram gradient boosting.

Of the forests over pairs of points it prints the area under the ROC curve over the pairs of at most 1,000 test rows,
and processor time. ``--pairs`` prints these alone. ``--neighbours`` prints how many of the nearest rows by URerF's
proximity have the label of a row, for each of the files; of heart and australian some columns are categories.

``python benchmarks/categories.py benchmarks/data/mushrooms.npz`` reads an ``.npz`` file with ``codes``, whole
numbers of shape (n, n_columns), and labels ``y``. Without a file it draws a table: 30 columns of 40 categories, of
which three decide.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.preprocessing import OneHotEncoder

from distforest import RFD, SMERF, TreeRank, URerF

MIXED = {"heart": [1, 2, 5, 6, 8, 12], "australian": [0, 3, 4, 5, 7, 8, 10, 11]}
"""The columns of categories of tables that also have numbers, by the names of their files."""

NEAREST, LARGEST, N_SEEDS = (1, 10, 50), 2_000, 5
"""How many of the nearest rows are compared, of at most how many rows, with how many seeds."""

N_TREES = 50
SHARE_OF_TRAINING = 0.1
SCORED, N_PAIR_TREES = 1_000, 20
"""Most test rows whose pairs are scored, and the number of trees over pairs."""


def table() -> tuple[np.ndarray, np.ndarray]:
    """The table of the file, or a drawn one."""
    files = [name for name in sys.argv[1:] if name != "--pairs"]
    if files:
        file = np.load(files[0], allow_pickle=False)
        return file["codes"].astype(float), file["y"]
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 40, (20_000, 30))
    votes = sum(np.isin(codes[:, k], rng.permutation(40)[:20]).astype(int) for k in range(3))
    return codes.astype(float), ((votes > 1) ^ (rng.random(20_000) < 0.05)).astype(int)


def measured(fit: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> tuple[Any, float, float]:
    """The result of a fit, its seconds, and the most MiB that it held; a first fit has compiled the kernels."""
    fit()
    start = clock()
    fit()
    seconds = clock() - start
    tracemalloc.start()
    fitted = fit()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return fitted, seconds, most / 2**20


def main() -> None:
    """Print accuracy, seconds and memory, each also as a ratio to the one-hot form."""
    X, y = table()
    order = np.random.default_rng(1).permutation(len(X))
    n = int(SHARE_OF_TRAINING * len(X))
    train, test = order[:n], order[n:]
    every = list(range(X.shape[1]))
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False, dtype=np.float32).fit(X[train])
    ways: dict[str, tuple[Any, np.ndarray]] = {
        "one-hot": (SMERF(N_TREES, random_state=0), encoder.transform(X)),
        "categories": (SMERF(N_TREES, categorical_features=every, random_state=0), X),
        "of all": (SMERF(N_TREES, max_features=None, categorical_features=every, random_state=0), X),
        "boosting": (HistGradientBoostingClassifier(categorical_features=every, random_state=0), X),
    }
    base: tuple[float, float] | None = None
    print(f"{n:,} training rows, {X.shape[1]} columns, {ways['one-hot'][1].shape[1]} categories")
    for name, (model, rows) in ways.items():
        fitted, seconds, memory = measured(lambda model=model, rows=rows: model.fit(rows[train], y[train]))
        accuracy = np.mean(fitted.predict(rows[test]) == y[test])
        base = base or (seconds, memory)
        ratios = f"{seconds / base[0]:.2f} of the time, {memory / base[1]:.2f} of the memory"
        print(f"{name:11}  accuracy {accuracy:.4f}  {seconds:7.2f} s  {memory:7.1f} MiB  {ratios}")


def main_of_pairs() -> None:
    """The same for forests over pairs, whose fits take both forms of the table."""
    X, y = table()
    order = np.random.default_rng(1).permutation(len(X))
    n = int(SHARE_OF_TRAINING * len(X))
    train, test = order[:n], order[n : n + SCORED]
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False, dtype=np.float32).fit(X[train])
    forms: dict[str, tuple[np.ndarray, dict[str, Any]]] = {
        "one-hot": (encoder.transform(X), {}),
        "categories": (X, {"categorical_features": list(range(X.shape[1]))}),
    }
    for kind, forest in {"RFD": RFD, "TreeRank": TreeRank}.items():
        base: tuple[float, float] | None = None
        for name, (rows, params) in forms.items():
            model = forest(N_PAIR_TREES, random_state=0, **params)
            fit = lambda model=model, rows=rows: model.fit(rows[train], y[train])  # noqa: E731  (bound at once)
            fitted, seconds, memory = measured(fit, time.process_time)
            base = base or (seconds, memory)
            ratios = f"{seconds / base[0]:.2f} of the time, {memory / base[1]:.2f} of the memory"
            area = fitted.score(rows[test], y[test])
            print(f"{kind:8} {name:11}  area {area:.4f}  {seconds:7.2f} s  {memory:7.1f} MiB  {ratios}")


def share_of_label(proximity: np.ndarray, y: np.ndarray) -> list[float]:
    """The share of the nearest rows that have the label of a row, for each number of `NEAREST`."""
    np.fill_diagonal(proximity, -1.0)
    nearest = np.argsort(-proximity, axis=1, kind="stable")
    return [float((y[nearest[:, :k]] == y[:, None]).mean()) for k in NEAREST]


def main_of_neighbours(files: list[str]) -> None:
    """The same for URerF, by the default rule, without a screen, and by the paper's rule."""
    rules: dict[str, Callable[..., URerF]] = {
        "default": URerF,
        "no screen": lambda **params: URerF(feature_weights=None, **params),
        "best fast BIC": lambda **params: URerF(criterion="fast_bic", splitter="best", **params),
        "paper": lambda **params: URerF.paper(min_samples_split=50, **params),
    }
    for file in files:
        data = np.load(file, allow_pickle=False)
        X, y = data["codes" if "codes" in data else "X"].astype(float), data["y"]
        rows = np.random.default_rng(0).permutation(len(X))[:LARGEST]
        X, y = X[rows], y[rows]
        words = MIXED.get(Path(file).stem, list(range(X.shape[1])))
        numbers = [column for column in range(X.shape[1]) if column not in words]
        for column in words:
            X[:, column] = np.unique(X[:, column], return_inverse=True)[1]
        one_hot = np.hstack([X[:, numbers], OneHotEncoder(sparse_output=False).fit_transform(X[:, words])])
        forms: dict[str, tuple[np.ndarray, dict[str, Any]]] = {
            "one-hot": (one_hot, {}),
            "categories": (X, {"categorical_features": words}),
        }
        for rule, forest in rules.items():
            for name, (table, params) in forms.items():
                start, shares = time.process_time(), []
                for seed in range(N_SEEDS):
                    own = forest(random_state=seed, **params).fit(table)
                    shares.append(share_of_label(own.proximity(), y))
                seconds = (time.process_time() - start) / N_SEEDS
                found = "  ".join(f"{share:.4f}" for share in np.mean(shares, axis=0))
                print(f"{Path(file).stem:10} {rule:13} {name:11}  {found}  {seconds:6.2f} s", flush=True)


if __name__ == "__main__":
    if "--neighbours" in sys.argv:
        main_of_neighbours([name for name in sys.argv[1:] if name != "--neighbours"])
        sys.exit()
    if "--pairs" not in sys.argv:
        main()
    main_of_pairs()
