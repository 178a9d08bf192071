"""Columns of categories against their one-hot form, and against scikit-learn's histogram gradient boosting.

``python benchmarks/categories.py benchmarks/data/mushrooms.npz`` reads an ``.npz`` file with ``codes``, whole
numbers of shape (n, n_columns), and labels ``y``. Without a file it draws a table: 30 columns of 40 categories, of
which three decide.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.preprocessing import OneHotEncoder

from distforest import SMERF

N_TREES = 50
SHARE_OF_TRAINING = 0.1


def table() -> tuple[np.ndarray, np.ndarray]:
    """The table of the file, or a drawn one."""
    if len(sys.argv) > 1:
        file = np.load(sys.argv[1], allow_pickle=False)
        return file["codes"].astype(float), file["y"]
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 40, (20_000, 30))
    votes = sum(np.isin(codes[:, k], rng.permutation(40)[:20]).astype(int) for k in range(3))
    return codes.astype(float), ((votes > 1) ^ (rng.random(20_000) < 0.05)).astype(int)


def measured(fit: Callable[[], Any]) -> tuple[Any, float, float]:
    """The result of a fit, its seconds, and the most MiB that it held; a first fit has compiled the kernels."""
    fit()
    start = time.perf_counter()
    fit()
    seconds = time.perf_counter() - start
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


if __name__ == "__main__":
    main()
