"""Rows down trees: ours beside scikit-learn, LightGBM, XGBoost and Treelite, each with trees of its own.

``python benchmarks/walks.py --packages FOLDER`` times predictions of class shares by a forest of 10 trees in one thread
on rows in memory, in turn. Labels have two classes, so that boosters have one tree where we have one. Our trees are
grown on the same rows and labels as scikit-learn's; Treelite is given scikit-learn's; LightGBM and XGBoost grow random
forests of trees with at most as many leaves. With ``--holes SHARE`` so many of all values are missing. ``FOLDER`` is a
folder of site packages with those peers, such as that of an environment of their own; without it, only scikit-learn is
measured.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from answers_at_size import blocks
from measurement import print_table
from sklearn.ensemble import RandomForestClassifier

from distforest import SMERF
from distforest.forest.scoring import apply, predict_rows

if TYPE_CHECKING:
    from collections.abc import Callable

N_TREES = 10


def contenders(X: np.ndarray, y: np.ndarray, rows: np.ndarray) -> dict[str, Callable[[], Any]]:
    """What predicts ``rows`` in one thread, by name; peers that are not there are left out."""
    ours = SMERF(N_TREES, random_state=0).fit(X, y).forest_
    forest = RandomForestClassifier(N_TREES, random_state=0, n_jobs=1).fit(X, y)
    sizes = [tree.tree_.node_count for tree in forest.estimators_]
    print(f"nodes a tree: ours {ours.table.tree_size.mean():,.0f}, scikit-learn's {np.mean(sizes):,.0f}\n")
    found: dict[str, Callable[[], Any]] = {
        "distforest, class shares": lambda: predict_rows(ours, ours.source(rows)),
        "distforest, leaves": lambda: apply(ours, ours.source(rows)),
        "scikit-learn, class shares": lambda: forest.predict_proba(rows),
        "scikit-learn, leaves": lambda: forest.apply(rows),
    }
    leaves = max(2, max(sizes) // 2)
    if (lightgbm := _peer("lightgbm")) is not None:
        sampled = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.63, "num_leaves": leaves}
        grown = lightgbm.LGBMClassifier(n_estimators=N_TREES, min_child_samples=1, n_jobs=1, verbose=-1, **sampled).fit(
            X, y
        )
        found["LightGBM"] = lambda: grown.booster_.predict(rows, num_threads=1)
    if (xgboost := _peer("xgboost")) is not None:
        boosted = xgboost.XGBRFClassifier(n_estimators=N_TREES, max_leaves=leaves, max_depth=0, n_jobs=1).fit(X, y)
        found["XGBoost"] = lambda: boosted.predict_proba(rows)
    if (treelite := _peer("treelite")) is not None:
        model = treelite.sklearn.import_model(forest)
        found["Treelite, scikit-learn's trees"] = lambda: treelite.gtil.predict(model, rows, nthread=1)
    return found


def _peer(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", help="site packages of the peers")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--grown-on", type=int, default=20_000)
    parser.add_argument("--holes", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    if given.packages:
        sys.path.append(given.packages)
    X = next(blocks(given.grown_on + given.rows, 20))
    y = ((X[:, 0] > 0) ^ (X[:, 1] > 0) ^ (np.random.default_rng(0).random(len(X)) < 0.1)).astype(int)
    X[np.random.default_rng(1).random(X.shape) < given.holes] = np.nan
    asked = contenders(X[: given.grown_on], y[: given.grown_on], np.ascontiguousarray(X[given.grown_on :]))
    times: dict[str, list[float]] = {name: [] for name in asked}
    for turn in range(given.repeats + 1):
        for name, ask in asked.items():
            start = time.process_time()
            ask()
            if turn:
                times[name].append(time.process_time() - start)
    own = times["distforest, class shares"]
    table = []
    for name, found in times.items():
        each = 1e9 * median(found) / N_TREES / (len(X) - given.grown_on)
        ratios = sorted(a / b for a, b in zip(own, found, strict=True))
        table.append([name, f"{each:.1f}", f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"])
    print_table(["", "ns a row and tree", "ours / its"], table)


if __name__ == "__main__":
    main()
