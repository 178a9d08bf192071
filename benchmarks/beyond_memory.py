"""Trees over more rows than memory: by passes within a budget, beside the same trees in memory.

``python benchmarks/beyond_memory.py [--how KIND] [--rows N] [--columns P] [--trees B] [--budget MIB] [--leaf M]
[--folder FOLDER]`` writes N rows of P features with two classes, which three features and noise tell, and grows B trees
in two fresh processes: in memory, and by passes. KIND is "bins" (SMERF with `max_bins`), "exact" (SMERF of exact
values), the same over columns of which every fifth holds categories, "categories" and "exact_categories", or URerF: as
it is by default, "clusters", or with the best cuts by two means, "two_means". Columns have 3, 30, 300, 3,000 and so on
categories in turn, which tell of the classes, too. Each process is watched from outside: its peak is the largest
resident memory that the kernel reports of it, mapped pages included. Both must give the same bits.

The whole size is ``--rows 20000000 --trees 10 --budget 256``, which takes 7 GB of disk.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from measurement import machine, mib, print_table, seconds_cell

from distforest.growth.methods import METHODS, problem
from distforest.growth.parameters import complete
from distforest.growth.passes import Passes
from distforest.growth.problem import Data
from distforest.sources.row_kinds import Features
from distforest.sources.truth import Truth, TruthKind

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "bins": ("smerf", {"max_bins": 256}),
    "exact": ("smerf", {}),
    "categories": ("smerf", {"max_bins": 256}),
    "exact_categories": ("smerf", {}),
    "clusters": ("urerf", {"feature_weights": None}),
    "two_means": ("urerf", {"feature_weights": None, "splitter": "best", "criterion": "two_means", "n_witnesses": 0}),
}
"""Method and parameters of each kind of trees."""

BLOCK = 100_000
"""Rows that are drawn at once."""

SIZES = (3, 30, 300, 3_000)
"""Categories of columns, in turn."""


def categories_of(how: str, n_columns: int) -> tuple[int, ...]:
    """The number of categories of each column, 0 for numbers; empty if all hold numbers."""
    if not how.endswith("categories"):
        return ()
    return tuple(SIZES[k // 5 % len(SIZES)] if k % 5 == 4 else 0 for k in range(n_columns))


def write_rows(folder: Path, n_rows: int, n_columns: int, n_categories: tuple[int, ...]) -> None:
    """Write features and labels as two files of NumPy."""
    rng = np.random.default_rng(0)
    told = {k: rng.standard_normal(n) for k, n in enumerate(n_categories) if n}
    shapes = {"X": ((n_rows, n_columns), np.float32), "y": ((n_rows,), np.int32)}
    X, y = (
        np.lib.format.open_memmap(folder / f"{name}.npy", "w+", dtype, shape) for name, (shape, dtype) in shapes.items()
    )
    for first in range(0, n_rows, BLOCK):
        n = min(BLOCK, n_rows - first)
        block = rng.standard_normal((n, n_columns), np.float32)
        score = block[:, 0] + block[:, 1] * block[:, 2] + rng.standard_normal(n) / 2.0
        for k, of_category in told.items():
            block[:, k] = rng.integers(0, len(of_category), n)
            score += of_category[block[:, k].astype(np.int64)] / len(told)
        X[first : first + n] = block
        y[first : first + n] = score > 0.0


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Grow the trees in this process, each alone; the digest of all their arrays, and seconds of the processor."""
    X = np.load(options.folder / "X.npy", mmap_mode="r")
    y = np.load(options.folder / "y.npy")
    method_name, own = KINDS[options.how]
    given = {**own, "n_estimators": options.trees}
    if options.how != "clusters":  # by default a few rows judge cuts, which goes with leaves of any size
        given["min_samples_leaf"] = options.leaf
    method = METHODS[method_name]
    passes = Passes(options.folder / "passes", options.budget << 20) if options.only == "by passes" else None
    few = np.arange(3000)
    for n_few, rows in ((1 << 16, few), (0, None)):  # the first time compiles
        features, labels = (X, y) if rows is None else (X[rows], y[rows])
        if method_name == "smerf":
            kinds = Features(X.shape[1], categories_of(options.how, X.shape[1]))
            data = Data(kinds, features, Truth(TruthKind.LABELS, labels, (0, 1)))
        else:
            data = Data(Features(X.shape[1]), features, Truth(TruthKind.NOTHING, np.empty((len(labels), 0))))
        budget = passes if rows is None or passes is None else Passes(passes.folder, n_few)
        before, processor, start = resident(), time.process_time(), time.perf_counter()
        bound = problem(method, data, complete(method.parameters, given), 0, budget)
        binned, digest, n_nodes = time.process_time() - processor, hashlib.sha256(), 0
        for tree in range(options.trees):
            arrays = bound.grow(np.array([tree]))
            n_nodes += len(arrays["left"])
            for name in sorted(arrays):
                digest.update(np.ascontiguousarray(arrays[name]).data)
    return {
        "seconds": time.perf_counter() - start,
        "processor": time.process_time() - processor,
        "binned": binned,
        "before": before,
        "nodes": n_nodes,
        "digest": digest.hexdigest(),
    }


def resident() -> int:
    """Resident memory of this process now, in bytes."""
    return resident_of(Path("/proc/self"))


def resident_of(process: Path) -> int:
    """Resident memory of a process now, in bytes, mapped pages included; 0 after its end."""
    try:
        found = re.search(r"VmRSS:\s+(\d+) kB", (process / "status").read_text())
    except OSError:
        return 0
    return int(found[1]) << 10 if found else 0


def watched(command: list[str]) -> tuple[dict[str, Any], int]:
    """Run a command; its answer as JSON, and the largest resident memory that was seen of it."""
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        while child.poll() is None:
            peak = max(peak, resident_of(Path(f"/proc/{child.pid}")))
            time.sleep(0.02)
        answer = child.stdout.read() if child.stdout else ""
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {child.returncode}")
    return json.loads(answer), peak


def main() -> None:
    """Measure both, or the one that is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--how", choices=tuple(KINDS), default="bins", help="kind of trees")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--trees", type=int, default=2)
    parser.add_argument("--budget", type=int, default=64, help="MiB of rows in memory at once")
    parser.add_argument("--leaf", type=int, default=20, help="least rows of a leaf")
    parser.add_argument("--folder", type=Path, help="where the rows are written")
    parser.add_argument("--only", choices=("in memory", "by passes"))
    parser.add_argument("--alone", action="store_true", help="measure in this process, and print JSON")
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(measured(options)))
        return
    print(machine(), "\n", flush=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        write_rows(Path(folder), options.rows, options.columns, categories_of(options.how, options.columns))
        arguments = [f"--{name}={getattr(options, name)}" for name in ("how", "trees", "budget", "leaf")]
        rows, found = [], {}
        for how in (options.only,) if options.only else ("in memory", "by passes"):
            command = [sys.executable, __file__, "--alone", f"--only={how}", f"--folder={folder}", *arguments]
            found[how], peak = watched(command)
            one = found[how]
            times = [seconds_cell(one[name]) for name in ("seconds", "processor", "binned")]
            rows.append([how, *times, mib(one["before"]), mib(peak), f"{one['nodes']:,}", one["digest"][:12]])
    print_table(["trees", "seconds", "processor", "binning", "before", "peak", "nodes", "digest"], rows)
    if len(found) > 1:
        passes, memory = found["by passes"], found["in memory"]
        if passes["digest"] != memory["digest"]:
            raise SystemExit("the trees differ")
        print(f"by passes / in memory, seconds of the processor: {passes['processor'] / memory['processor']:.2f}")


if __name__ == "__main__":
    main()
