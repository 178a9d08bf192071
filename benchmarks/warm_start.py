"""Warm starts: seconds from the start of a fresh process to its first tree, with the compile cache filled.

``python benchmarks/warm_start.py [--starts N]`` measures this section alone. Every case is a program of its own, run
once to fill the cache and then in turn with the others.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from measurement import machine, print_table, ratio_cell, seconds_cell

ROOT = Path(__file__).parent.parent
DATA = """
import numpy as np
X = np.random.default_rng(0).random((500, 10), dtype=np.float32)
y = (X[:, 0] + X[:, 1] > 1).astype(np.int32)
"""
GROWN = "\nprint('grown', flush=True)\n"
BOUND = """
from distforest.growth.methods import METHODS, problem
from distforest.growth.problem import Data
from distforest.sources.row_kinds import Features, Kernel
from distforest.sources.truth import TruthKind
from distforest.growth.parameters import {parameters} as parameters, complete
data = Data({rows}, X, {truth})
problem(METHODS["{method}"], data, complete(parameters, {{}}), 0).grow(np.arange(1))
"""


def _program(method: str, rows: str, truth: str) -> str:
    names = {"smerf": "SMERF_PARAMETERS", "simforest": "SIMFOREST_PARAMETERS"}
    return DATA + BOUND.format(method=method, parameters=names[method], rows=rows, truth=truth) + GROWN


WORKERS = """
from distforest.jobs import worker_start
from distforest.jobs.on_dask import local_cluster

def grown(program):
    exec(program, {{"print": lambda *words, **how: None}})

if __name__ == "__main__":
    {how}
    with local_cluster(2) as cluster:
        cluster.client.run(grown, {program!r})
        print("grown", flush=True)
"""
"""Two workers of an embedded cluster, which both grow a tree."""

FEATURES = "Features(10)"
LINEAR = 'Kernel("linear", 500, 10, 1.0)'
DENSE = "TruthKind.DISTANCES, np.abs(X[:, :1] - X[:, 0]), None, 1.0"
LABELS = "TruthKind.LABELS, y, [0, 1]"
PEER = "RandomForestClassifier(1).fit, scikit-learn"
PROGRAMS = {
    PEER: DATA + "from sklearn.ensemble import RandomForestClassifier as F\nF(1).fit(X, y)" + GROWN,
    "import numpy, numba": "import numpy, numba" + GROWN,
    "import distforest.growth.methods": "import distforest.growth.methods" + GROWN,
    "import distforest.jobs.train (what a worker imports)": "import distforest.jobs.train" + GROWN,
    "SMERF, dense, first tree": _program("smerf", FEATURES, DENSE),
    "SMERF, labels, first tree": _program("smerf", FEATURES, LABELS),
    "SimForest, linear, first tree": _program("simforest", LINEAR, LABELS),
    "distforest.SMERF(1).fit, dense": DATA
    + "from distforest import SMERF\nSMERF(n_estimators=1).fit(X, np.abs(X[:, :1] - X[:, 0]))"
    + GROWN,
    "distforest.SimForestClassifier(1).fit": DATA
    + "from distforest import SimForestClassifier as F\nF(n_estimators=1, similarity='linear').fit(X, y)"
    + GROWN,
    "two workers, forked, SMERF, labels, first trees": WORKERS.format(
        how="pass", program=_program("smerf", FEATURES, LABELS)
    ),
    "two workers, fresh interpreters, SMERF, labels, first trees": WORKERS.format(
        how="worker_start.start_method = lambda: 'spawn'", program=_program("smerf", FEATURES, LABELS)
    ),
}
"""What is started, by name; each says when it is done."""
HELP = "distforest --help"


def commands() -> dict[str, list[str]]:
    """The command of each case."""
    found = {name: [sys.executable, "-c", text] for name, text in PROGRAMS.items()}
    if importlib.util.find_spec("distforest.command_line.cli"):
        found[HELP] = [sys.executable, "-m", "distforest", "--help"]
    return found


def start(command: list[str]) -> float:
    """Seconds from the start of a process to its first line; RuntimeError with its own words if it fails."""
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        taken = time.perf_counter() - begin
        _, errors = process.communicate()
    if process.returncode or not line:
        raise RuntimeError(errors.strip().splitlines()[-1] if errors.strip() else "it said nothing")
    return taken


def section(n_starts: int) -> None:
    """Start every case ``n_starts`` times, in turn, and print the table."""
    print("## Warm starts: from the start of a fresh process to the first tree (500 rows), imports included\n")
    cases, failed = commands(), {}
    if HELP not in cases:
        failed[HELP] = "there is no command line yet"
    for name, command in list(cases.items()):
        try:
            start(command)  # fills the compile cache and the file cache
        except RuntimeError as error:
            failed[name] = str(error)
            del cases[name]
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(n_starts):
        for name, command in cases.items():
            taken[name].append(start(command))
    rows = []
    for name, own in taken.items():
        against = [a / b for a, b in zip(own, taken[PEER], strict=True)] if PEER in taken else []
        span = f"{seconds_cell(median(own))} ({seconds_cell(min(own))} to {seconds_cell(max(own))})"
        rows.append([name, span, ratio_cell(against) if against and name != PEER else ""])
    print_table(["process", "median (least to most)", "against scikit-learn's first tree"], rows)
    for name, reason in failed.items():
        print(f"{name} was left out: {reason}\n", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Seconds to the first tree of a fresh process.")
    parser.add_argument("--starts", type=int, default=5, help="starts of each case (5)")
    options = parser.parse_args()
    print(f"{machine()}\n")
    section(options.starts)
