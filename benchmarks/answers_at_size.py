"""Answers at size: a row against an opened forest, neighbours in parts of the index, and batch scoring.

``python benchmarks/answers_at_size.py few`` asks forests of the digits for one row at a time. ``... others`` asks one
on distances for one other row after another. ``... parts`` finds the nearest of many rows in a worker of a stated
memory, with the whole index and in parts of it, each in a process of its own whose peak the system tells. ``... batch``
scores many rows and compares with reading the same store by Zarr alone.
Data are made in ``--folder`` and removed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from measurement import mib, print_table
from sklearn.datasets import load_digits

from distforest import RFD, SMERF, Distances, SimForestClassifier, Targets, URerF, load
from distforest.jobs.cluster import Threads
from distforest.jobs.question import Question
from distforest.jobs.score import score
from distforest.jobs.shards import peak_bytes
from distforest.sources.arrays import row_blocks, write_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCK_ROWS = 1 << 18


def milliseconds(ask: Callable[[], object], repeats: int) -> str:
    """Processor time of a call after the first, median with its range."""
    ask()
    found = []
    for _ in range(repeats):
        start = time.process_time()
        ask()
        found.append(1e3 * (time.process_time() - start))
    return f"{median(found):.2f} ({min(found):.2f} to {max(found):.2f})"


def few(folder: Path, repeats: int, only: list[str]) -> None:
    """One row of the digits against forests of 1,797 of them."""
    X, y = load_digits(return_X_y=True)
    X = X.astype(np.float32)
    far = np.abs(y[:, None] - y).astype(np.float64)
    forests: dict[str, Callable[[], Any]] = {
        "SMERF, labels": lambda: SMERF(500, random_state=0).fit(X, y),
        "SMERF, targets": lambda: SMERF(500, random_state=0).fit(X, Targets(X.sum(axis=1))),
        "SMERF, distances": lambda: SMERF(500, random_state=0).fit(X, Distances(far)),
        "URerF": lambda: URerF(500, random_state=0).fit(X),
        "SimForest, given": lambda: SimForestClassifier(random_state=0).fit(X @ X.T, y),
        "RFD": lambda: RFD(100, random_state=0).fit(X, y),
    }
    rows = []
    for name, grown in forests.items():
        if only and not any(word in name for word in only):
            continue
        path = folder / f"{name}.forest.zarr"
        if not path.exists():
            grown().save(path)
        forest = load(path)
        read = (lambda own: own @ X.T) if "given" in name else (lambda own: own)
        one, five = read(X[3:4]), read(X[5:10])
        asks = [
            lambda forest=forest, one=one: forest.kneighbors(one, 5),
            (lambda forest=forest, one=one: forest.predict(one)) if hasattr(forest, "predict") else None,
            lambda forest=forest, one=one, five=five: forest.distance(one, five),
        ]
        cells = [milliseconds(ask, repeats) if ask and _answers(ask) else "" for ask in asks]
        rows.append([name, str(forest.forest_.n_trees), *cells])
    print_table(["forest", "trees", "5 neighbours, ms", "prediction, ms", "distance to 5, ms"], rows)


def others(folder: Path) -> None:
    """One other row of the digits after another against a forest on their distances, as freshly opened."""
    X, y = load_digits(return_X_y=True)
    path = folder / "SMERF, distances.forest.zarr"
    if not path.exists():
        SMERF(500, random_state=0).fit(X.astype(np.float32), Distances(np.abs(y[:, None] - y) * 1.0)).save(path)
    forest, times = load(path), []
    for row in np.random.default_rng(0).permutation(len(X)):
        one = X[row : row + 1].astype(np.float32)
        start = time.process_time()
        forest.kneighbors(one, 5)
        times.append(1e3 * (time.process_time() - start))
    spans = [(0, 1), (1, 10), (10, 50), (50, 200), (200, 500), (500, 1000), (1000, len(X))]
    rows = [[f"{first + 1:,} to {last:,}", f"{np.mean(times[first:last]):.2f}"] for first, last in spans]
    print_table(["rows", "5 neighbours, ms a row"], rows)


def _answers(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except ValueError:  # a forest of distances predicts nothing
        return False
    return True


def blocks(n_rows: int, n_columns: int) -> Iterator[np.ndarray]:
    """Rows of several clusters, block by block."""
    rng = np.random.default_rng(0)
    centers = rng.normal(0.0, 3.0, (50, n_columns))
    for first in range(0, n_rows, BLOCK_ROWS):
        n = min(BLOCK_ROWS, n_rows - first)
        yield (centers[rng.integers(0, 50, n)] + rng.normal(size=(n, n_columns))).astype(np.float32)


def made(folder: Path, n_rows: int, n_columns: int) -> str:
    """The address of such rows."""
    group = f"{folder}/rows-{n_rows}x{n_columns}.zarr"
    if not Path(group).exists():
        write_array(group, "X", (n_rows, n_columns), np.dtype(np.float32), blocks(n_rows, n_columns))
    return f"{group}/X"


def parts(folder: Path, n_rows: int, limits: list[int]) -> None:
    """The 10 nearest of the training rows of a forest, in workers of several limits."""
    place, forest = made(folder, n_rows, 10), folder / f"near-{n_rows}.forest.zarr"
    if not forest.exists():
        X = np.asarray(zarr.open_array(place, mode="r")[:])
        URerF(10, random_state=0, n_jobs=2, bootstrap=False, max_samples=0.05, min_samples_split=20).fit(X).save(forest)
    rows, first = [], None
    for limit in limits:
        asked = {"forest": str(forest), "queries": place, "output": f"{folder}/near.zarr", "limit": limit << 20}
        done = subprocess.run(
            [sys.executable, __file__, "neighbors", json.dumps(asked)], stdout=subprocess.PIPE, text=True, check=False
        )
        told = json.loads(done.stdout) if done.returncode == 0 else {"refused": True}
        if "refused" in told:
            rows.append([f"{limit:,} MiB" if limit else "none", "refused", "", "", ""])
            continue
        same = first in (None, told["sha256"])
        first = first or told["sha256"]
        peak = mib(told["peak"])
        found = [f"{told['part_rows']:,}", f"{told['seconds']:.0f}", peak, "yes" if same else "NO"]
        rows.append([f"{limit:,} MiB" if limit else "none", *found])
    print_table(["limit of the worker", "rows indexed at once", "processor seconds", "peak", "same answer"], rows)


def neighbors(asked: dict[str, Any]) -> None:
    """Find neighbours in this process; tells seconds, the peak, and the digest of the answer."""
    import hashlib  # noqa: PLC0415

    from distforest.jobs import score as scoring  # noqa: PLC0415

    seen: list[int] = []
    plan = scoring.room_for_neighbors

    def noted(*of: Any) -> Any:
        room = plan(*of)
        seen.append(room.part_rows or of[0].n_training)
        return room

    scoring.room_for_neighbors = noted
    question = Question(asked["forest"], asked["queries"], "graph", n_neighbors=10, without_self=True)
    start = time.process_time()
    score(question, asked["output"], Threads(1, asked["limit"] or None), overwrite=True)
    seconds, peak, digest = time.process_time() - start, peak_bytes(), hashlib.sha256()
    for name in ("indices", "data"):
        for _, block in row_blocks(zarr.open_array(f"{asked['output']}/{name}", mode="r")):
            digest.update(np.ascontiguousarray(block).data)
    told = {"seconds": seconds, "peak": peak, "sha256": digest.hexdigest(), "part_rows": seen[0]}
    print(json.dumps(told))


def batch(folder: Path, n_rows: int, n_columns: int, threads: int, repeats: int) -> None:
    """Predictions of many rows, and reading the same store by Zarr alone, in turn."""
    place, forest = made(folder, n_rows, n_columns), folder / f"batch-{n_columns}.forest.zarr"
    if not forest.exists():
        X = np.concatenate([block for _, block in zip(range(1), blocks(20_000, n_columns), strict=False)])
        SMERF(10, random_state=0).fit(X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)).save(forest)
    reading, scoring = [], []
    for _ in range(repeats):
        reading.append(_timed(lambda: _read(place, n_rows)))
        question = Question(str(forest), place, "predict")
        scoring.append(_timed(lambda q=question: score(q, f"{folder}/out.zarr", Threads(threads), overwrite=True)))
    table = []
    for at, word in ((0, "elapsed"), (1, "processor")):
        read, done = [one[at] for one in reading], [one[at] for one in scoring]
        ratios = sorted(a / b for a, b in zip(read, done, strict=True))
        cells = [f"{n_rows / median(times):,.0f}" for times in (read, done)]
        table.append([word, *cells, f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"])
    print(f"{n_rows:,} rows x {n_columns} columns, 10 trees, {threads} threads, {repeats} times in turn:\n")
    print_table(["time", "Zarr reads, rows a second", "scored, rows a second", "share of the reading rate"], table)


def _read(place: str, n_rows: int) -> None:
    array = zarr.open_array(place, mode="r")
    step = int(array.chunks[0]) * 8
    for first in range(0, n_rows, step):
        array[first : first + step]


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    start, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - used


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["few", "others", "parts", "batch", "neighbors"])
    parser.add_argument("asked", nargs="?")
    parser.add_argument("--folder", type=Path, default=Path("answers-at-size"))
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--limits", type=int, nargs="*", default=[0, 1600, 1200, 800], help="MiB; 0: none")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--keep", action="store_true", help="Keep the data.")
    given = parser.parse_args()
    if given.what == "neighbors":
        neighbors(json.loads(given.asked))
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.what == "few":
        few(given.folder, given.repeats, given.only)
    elif given.what == "others":
        others(given.folder)
    elif given.what == "parts":
        parts(given.folder, given.rows, given.limits)
    else:
        batch(given.folder, given.rows, given.columns, given.threads, given.repeats)
    if not given.keep:
        shutil.rmtree(given.folder)


if __name__ == "__main__":
    main()
