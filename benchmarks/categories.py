"""Columns of categories against their one-hot form, and against scikit-learn's histogram gradient boosting.

Of the forests over pairs of points it prints the area under the ROC curve over the pairs of at most 1,000 test rows,
and processor time. ``--pairs`` prints these alone. ``--neighbours`` prints how many of the nearest rows by URerF's
proximity have the label of a row, for each of the files; of heart and australian some columns are categories.
``--bins`` prints the processor time of one tree in bins over drawn tables, by merged rows and by the values of all
rows, and what a fit of one tree of all candidates and of unlimited leaves takes beside boosting's.

``python benchmarks/categories.py benchmarks/data/mushrooms.npz`` reads an ``.npz`` file with ``codes``, whole
numbers of shape (n, n_columns), and labels ``y``. Without a file it draws a table: 30 columns of 40 categories, of
which three decide.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from simulations import PAPER_RULE
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.preprocessing import OneHotEncoder

from distforest import RFD, SMERF, Targets, TreeRank, URerF
from distforest.growth.cuts.category_search import BesideBins, CategorySearch
from distforest.growth.methods import METHODS, problem
from distforest.growth.parameters import complete
from distforest.growth.problem import Data, Problem
from distforest.sources.row_kinds import Features
from distforest.sources.truth import Truth, TruthKind

MIXED = {"heart": [1, 2, 5, 6, 8, 12], "australian": [0, 3, 4, 5, 7, 8, 10, 11]}
"""The columns of categories of tables that also have numbers, by the names of their files."""

NEAREST, LARGEST, N_SEEDS = (1, 10, 50), 2_000, 5
"""How many of the nearest rows are compared, of at most how many rows, with how many seeds."""

N_TREES = 50
SHARE_OF_TRAINING = 0.1
SCORED, N_PAIR_TREES = 1_000, 20
"""Most test rows whose pairs are scored, and the number of trees over pairs."""

TABLES = {"22 of 10": (10,) * 22 + (0,) * 3, "5,000, 10 and 10": (5_000, 10, 10) + (0,) * 22, "none": (0,) * 25}
"""The numbers of categories of the columns of drawn tables, 0 for a column of numbers, by their names."""

TRUTHS, TABLE_ROWS, N_TIMES = (2, 5, None), (300_000, 1_200_000), 2
"""Numbers of classes, None for targets; numbers of rows; how often a tree is grown, of which the least time counts."""

FITTED_ROWS, MOST_BOOSTED = 300_000, 255
"""Most rows of a fit beside boosting, and most categories of a column there."""


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
        "paper": lambda **params: URerF(**{**PAPER_RULE, "min_samples_split": 50, **params}),
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


def drawn_data(n_categories: tuple[int, ...], n_rows: int, n_classes: int | None) -> Data:
    """A drawn table and a truth that six columns and all categories tell, with noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, len(n_categories))).astype(np.float32)
    told = rng.normal(size=n_rows) + 0.4 * np.sin(2.0 * X[:, -6:]).sum(axis=1)
    for column in np.flatnonzero(n_categories):
        n = n_categories[column]
        X[:, column] = np.floor(n * rng.random(n_rows) ** 1.5)
        told += 0.4 * rng.normal(size=n)[X[:, column].astype(int)]
    rows = Features(len(n_categories), n_categories if any(n_categories) else ())
    if n_classes is None:
        return Data(rows, X, Truth(TruthKind.TARGETS, told[:, None]))
    bounds = np.quantile(told, np.linspace(0, 1, n_classes + 1)[1:-1])
    return Data(
        rows, X, Truth(TruthKind.LABELS, np.searchsorted(bounds, told).astype(np.int32), list(range(n_classes)))
    )


def least_of(call: Callable[[], object], n_times: int = 1) -> float:
    """The least processor seconds of some calls."""
    seconds = []
    for _ in range(n_times):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return min(seconds)


def seconds_of_tree(bound: Problem) -> tuple[float, float]:
    """Processor seconds of a tree as it grows, and by the values of all rows where categories are candidates."""
    growth, weights = bound.growth, bound.sampling.weights(bound.meaning.seed, np.arange(1))
    own = least_of(lambda: growth.grow(np.arange(1), weights), N_TIMES)
    if not isinstance(growth.search, BesideBins):
        return own, own
    by_values = replace(growth, search=CategorySearch(growth.search.n_categories))
    return own, least_of(lambda: by_values.grow(np.arange(1), weights), N_TIMES)


def seconds_of_fits(data: Data) -> tuple[float, float]:
    """Processor seconds of a fit of one tree of all candidates, and of boosting's; NaN where they are not measured."""
    assert isinstance(data.rows, Features)
    if data.n_rows > FITTED_ROWS:
        return np.nan, np.nan
    n_categories = np.array(data.rows.n_categories or (0,) * data.array.shape[1])
    columns = np.flatnonzero(n_categories).tolist()
    y = data.truth.values.ravel()
    taught = y if data.truth.kind == TruthKind.LABELS else Targets(y)
    ours = SMERF(1, max_features=None, max_bins=255, bootstrap=False, categorical_features=columns, random_state=0)
    own = least_of(lambda: ours.fit(data.array, taught))
    if n_categories.max() > MOST_BOOSTED:
        return own, np.nan
    peer = HistGradientBoostingClassifier if data.truth.kind == TruthKind.LABELS else HistGradientBoostingRegressor
    params = {"max_iter": 1, "max_leaf_nodes": None, "min_samples_leaf": 1, "early_stopping": False}
    return own, least_of(lambda: peer(categorical_features=columns, **params).fit(data.array, y))


def main_of_bins() -> None:
    """Processor seconds of one tree in bins, over drawn tables of 25 columns."""
    method = METHODS["smerf"]
    for n_rows in TABLE_ROWS:
        for name, n_categories in TABLES.items():
            for n_classes in TRUTHS:
                for n in (3_000, n_rows):  # the first ones compile the kernels
                    data = drawn_data(n_categories, n, n_classes)
                    bound = problem(method, data, complete(method.parameters, {"max_bins": 255}), 0)
                    assert isinstance(bound, Problem)
                    own, by_values = seconds_of_tree(bound)
                    fit, peer = seconds_of_fits(data)
                kind = f"{n_classes} classes" if n_classes else "targets"
                told = f"{n_rows:9,} rows  {name:16}  {kind:9}  tree {own:6.2f} s, by all values {by_values:6.2f} s"
                print(f"{told}  fit {fit:6.2f} s, boosting {peer:6.2f} s", flush=True)


if __name__ == "__main__":
    if "--bins" in sys.argv:
        main_of_bins()
        sys.exit()
    if "--neighbours" in sys.argv:
        main_of_neighbours([name for name in sys.argv[1:] if name != "--neighbours"])
        sys.exit()
    if "--pairs" not in sys.argv:
        main()
    main_of_pairs()
