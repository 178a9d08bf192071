"""Lazy similarities: how many pairs a forest asks for, what asking costs beside the function, and a complete matrix.

::

    python benchmarks/lazy.py                          everything (about twenty minutes)
    python benchmarks/lazy.py --quick                  smaller (about two minutes)
    python benchmarks/lazy.py --only pairs overhead    some of: pairs, overhead, workers, precomputed

stdout is markdown; nothing is asserted. The objects are rows of features; their similarity, the inner product, comes
from a function that counts the pairs that it is asked for. How deep trees become depends on the classes, and so do the
pairs: hence two kinds of objects. "Outside the function" is the time in which no call was running; the ideal time is
that of a machine that keeps all calls busy from first to last.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import sqlite3
import tempfile
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from distributed import LocalCluster
from measurement import PAIR_CELLS, interleaved, machine, print_table, seconds_cell, timed
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from distforest import Lazy, SimForestClassifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

N_COLUMNS = 20
SECONDS_A_PAIR = 1e-3
CONCURRENCY = 32


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    sizes: tuple[int, ...]
    seeds: int
    union: tuple[int, int]  # objects and trees
    dear: tuple[int, int]
    free: tuple[int, int]
    on_workers: tuple[int, int]
    precomputed: tuple[int, int]
    pairs: int


MOST = (1000, 2000, 4000, 8000, 16_000, 32_000)
FULL = Effort(MOST, 5, (2000, 100), (2000, 20), (2000, 100), (1000, 10), (5000, 100), 3)
QUICK = Effort(MOST[:4], 1, (500, 100), (1000, 10), (1000, 20), (500, 4), (5000, 100), 1)


@dataclass
class Products:
    """Inner products of numbered rows; remembers how many pairs it gave, and when it was at work."""

    X: Floats
    seconds_a_pair: float = 0.0
    n: int = 0
    calls: list[tuple[float, float]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __reduce__(self) -> tuple[Any, ...]:
        """What decides the values; a ledger asks."""
        return type(self), (self.X, self.seconds_a_pair)

    def __call__(self, left: Ints, right: Ints) -> Floats:
        """Products of the pairs, shape (n,)."""
        start = time.perf_counter()
        found = np.einsum("ij,ij->i", self.X[left], self.X[right])
        if self.seconds_a_pair:
            time.sleep(self.seconds_a_pair * len(left))
        with self.lock:
            self.n += len(left)
            self.calls.append((start, time.perf_counter()))
        return found

    def seconds_at_work(self) -> float:
        """How long at least one call was running."""
        total, reached = 0.0, -math.inf
        for start, end in sorted(self.calls):
            total += max(0.0, end - max(start, reached))
            reached = max(reached, end)
        return total


def noisy(n: int, n_columns: int = N_COLUMNS) -> tuple[Floats, Ints]:
    """Features and classes of n objects in two classes, one label in twenty wrong."""
    X, y = make_classification(
        n, n_columns, n_informative=n_columns // 2, n_redundant=0, flip_y=0.1, class_sep=1.0, random_state=0
    )
    return X, y


def clustered(n: int) -> tuple[Floats, Ints]:
    """Features and classes of n objects in ten clusters, one a class."""
    rng = np.random.default_rng(0)
    y, centres = rng.integers(0, 10, n), 2.0 * rng.standard_normal((10, N_COLUMNS))
    return centres[y] + rng.standard_normal((n, N_COLUMNS)), y


DATA = {"two classes, 5 % of the labels wrong": noisy, "ten clusters": clustered}

DRAWN = (("fresh", 1), ("fresh", 2), ("kept", 2), ("kept", 4))
"""How nodes draw their pairs, and how many."""


def grown(lazy: Lazy, y: Ints, **params: Any) -> SimForestClassifier:
    """A forest of all objects."""
    return SimForestClassifier(lazy, random_state=params.pop("seed", 0), **params).fit(np.arange(len(y)), y)


def lazily(products: Products, **options: Any) -> Lazy:
    """The similarity of numbered objects."""
    return Lazy(products, np.arange(len(products.X)), **options)


def print_pairs(effort: Effort) -> None:
    """Pairs of one tree against n, with the exponent; three counts of them; the union over many trees."""
    print("## Pairs that a tree asks for\n")
    rows = []
    for text, (pairing, r) in itertools.product(DATA, DRAWN):
        own = {"pairing": pairing, "n_pairs": r}
        counts = [
            np.mean([pairs_of_tree(DATA[text](n), own, seed) for seed in range(effort.seeds)]) for n in effort.sizes
        ]
        exponents = ["", *(f"{e:.2f}" for e in np.diff(np.log(counts)) / np.diff(np.log(effort.sizes)))]
        for n, count, exponent in zip(effort.sizes, counts, exponents, strict=True):
            shares = [f"{count / (2 * r * n * math.log2(n)):.3f}", f"{count / math.comb(n, 2):.3%}"]
            rows.append([text, pairing, str(r), f"{n:,}", f"{count:,.0f}", *shares, exponent])
        slope = np.polyfit(np.log(effort.sizes), np.log(counts), 1)[0]
        rows.append([text, pairing, str(r), "all", "", "", "", f"**{slope:.3f}**"])
    head = ["objects", "pairing", "r = n_pairs", "n", "asked for", "/ (2 r n log2 n)", "of all pairs", "exponent"]
    print_table(head, rows)
    print("The function's count, the forest's `n_evaluations_` and the ledger's are equal in every run.\n")
    n, trees = effort.union
    X, y = noisy(n)
    counts = [
        grown(lazily(Products(X)), y, n_estimators=trees, pairing=pairing, n_pairs=r).n_evaluations_
        for pairing, r in DRAWN
    ]
    print(f"All trees of a forest of {trees}, n = {n:,}, of all {math.comb(n, 2):,} pairs:\n")
    print_table(
        ["pairing", "n_pairs", "asked for", "share"],
        [
            [pairing, str(r), f"{c:,}", f"{c / math.comb(n, 2):.1%}"]
            for (pairing, r), c in zip(DRAWN, counts, strict=True)
        ],
    )


def pairs_of_tree(objects: tuple[Floats, Ints], params: dict[str, Any], seed: int) -> int:
    """Pairs that one tree asks for, by three counts that have to agree."""
    X, y = objects
    products = Products(X)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "ledger.sqlite"
        forest = grown(lazily(products, ledger=path), y, seed=seed, n_estimators=1, **params)
        in_ledger = _rows_of_ledger(path)
    if not products.n == forest.n_evaluations_ == in_ledger:
        raise SystemExit(
            f"the function gave {products.n}, the forest says {forest.n_evaluations_}, the ledger {in_ledger}"
        )
    return products.n


def _rows_of_ledger(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute("SELECT count(*) FROM pairs").fetchone()[0])
    finally:
        connection.close()


def print_overhead(effort: Effort) -> None:
    """Time outside of a dear function, and time for each pair beside a free one."""
    n, trees = effort.dear
    X, y = noisy(n)
    grown(lazily(Products(X)), y, n_estimators=1)  # compiles
    print(f"## A function of 1 ms a pair, concurrency {CONCURRENCY}: n = {n:,}, {trees} trees\n")
    rows = []
    for batch_size in (1000, 100):
        products = Products(X, SECONDS_A_PAIR)
        lazy = lazily(products, batch_size=batch_size, concurrency=CONCURRENCY)
        seconds, _ = timed(partial(grown, lazy, y, n_estimators=trees))
        outside = 1.0 - products.seconds_at_work() / seconds
        ideal = products.n * SECONDS_A_PAIR / CONCURRENCY
        rows.append(
            [str(batch_size), f"{products.n:,}", seconds_cell(seconds), f"{outside:.1%}", f"{ideal / seconds:.1%}"]
        )
    print_table(["batch_size", "pairs", "fit", "of it outside the function", "ideal time / fit"], rows)
    _print_free(effort)


def _print_free(effort: Effort) -> None:
    n, trees = effort.free
    X, y = noisy(n)
    matrix = X @ X.T
    print(f"## A function that costs nothing, batch_size 1,000: n = {n:,}, {trees} trees\n")
    precomputed = SimForestClassifier(n_estimators=trees, random_state=0)
    complete = [timed(partial(precomputed.fit, matrix, y))[0] for _ in range(2)][-1]  # the first compiles
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for text, ledger in (("in memory", None), ("SQLite file", Path(place) / "ledger.sqlite")):
            products = Products(X)
            seconds, _ = timed(partial(grown, lazily(products, ledger=ledger), y, n_estimators=trees))
            at_work = products.seconds_at_work()
            each = (seconds - complete - at_work) / products.n
            cells = [seconds_cell(s) for s in (seconds, at_work, complete)]
            rows.append([text, f"{products.n:,}", *cells, f"{each * 1e6:.2f} µs"])
    print_table(["ledger", "pairs", "fit", "in the function", "fit, complete matrix", "overhead a pair"], rows)


@dataclass
class Noted:
    """The inner product, which notes its calls in a folder: on workers it runs in processes of its own."""

    X: Floats
    folder: str
    seconds_a_pair: float = 0.0

    def __call__(self, left: Ints, right: Ints) -> Floats:
        """Say how similar the objects at the two places are."""
        start = time.time()
        found: Floats = np.einsum("ij,ij->i", self.X[left], self.X[right])
        time.sleep(self.seconds_a_pair * len(left))
        with Path(self.folder, str(os.getpid())).open("a") as file:
            file.write(f"{start} {time.time()} {len(left)}\n")
        return found


def seconds_noted(folder: str) -> tuple[float, int]:
    """Seconds in which a call was running, and pairs; the notes go."""
    calls = []
    for path in Path(folder).iterdir():
        calls += [tuple(map(float, line.split())) for line in path.read_text().splitlines()]
        path.unlink()
    union, reached = 0.0, -math.inf
    for start, end, _ in sorted(calls):
        union += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return union, int(sum(n for *_, n in calls))


def print_workers(effort: Effort) -> None:
    """The same on two workers of a Dask cluster, where the function runs in a process beside each."""
    n, trees = effort.on_workers
    print(f"## Two workers of a Dask cluster: n = {n:,}, {trees} trees, concurrency 4\n")
    rows = []
    with tempfile.TemporaryDirectory() as folder, LocalCluster(2, threads_per_worker=1) as cluster:
        X, y = noisy(n)
        for cost, batch_size in ((0.0, 1000), (SECONDS_A_PAIR, 1000), (SECONDS_A_PAIR, 100), (0.0, 1000)):
            lazy = Lazy(Noted(X, folder, cost), batch_size=batch_size, concurrency=4)
            forest = SimForestClassifier(lazy, client=cluster.get_client(), n_estimators=trees, random_state=0)
            seconds, _ = timed(partial(forest.fit, np.arange(n), y))
            at_work, pairs = seconds_noted(folder)
            cells = [f"{cost * 1e3:g} ms", str(batch_size), f"{pairs:,}", seconds_cell(seconds)]
            rows.append([*cells, f"{1 - at_work / seconds:.1%}", f"{(seconds - at_work) / pairs * 1e6:.1f} µs"])
    head = ["a pair", "batch_size", "pairs", "fit", "of it outside the function", "beside the function a pair"]
    print_table(head, rows[1:])  # the first compiles


def print_precomputed(effort: Effort) -> None:
    """A complete matrix against scikit-learn's forest on features of the same objects."""
    n, trees = effort.precomputed
    X, y = noisy(n, 50)
    matrix = (X @ X.T).astype(np.float32)
    print(f"## Precomputed similarities, n = {n:,}, {trees} trees, against RandomForestClassifier, p = 50\n")
    rows = []
    for n_jobs in (1, 2):
        SimForestClassifier(n_estimators=2, n_jobs=n_jobs).fit(matrix, y)
        ours = SimForestClassifier(n_estimators=trees, n_jobs=n_jobs, random_state=0)
        peer = RandomForestClassifier(trees, n_jobs=n_jobs, random_state=0)
        rows.append(
            [str(n_jobs), *interleaved(partial(ours.fit, matrix, y), partial(peer.fit, X, y), effort.pairs).cells()]
        )
    print_table(["n_jobs", *PAIR_CELLS], rows)


PARTS = {
    "pairs": print_pairs,
    "overhead": print_overhead,
    "workers": print_workers,
    "precomputed": print_precomputed,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the parts and print their tables."""
    parser = argparse.ArgumentParser(description="Pairs that forests ask for, and what asking costs.")
    parser.add_argument("--quick", action="store_true", help="smaller")
    parser.add_argument("--only", choices=[*PARTS], nargs="+", default=[*PARTS], help="parts (all)")
    options = parser.parse_args(arguments)
    print(f"# Lazy similarities\n\n{machine()}\n")
    for part in options.only:
        PARTS[part](QUICK if options.quick else FULL)


if __name__ == "__main__":
    main()
