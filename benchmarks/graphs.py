"""A large graph: SMERF on the links of nodes with features; seconds and memory over the number of edges.

``python benchmarks/graphs.py [--edges M ...] [--nodes N] [--features P] [--trees B] [--threads T] [--pairs Q]``
draws, for each number M of edges, a graph of M / 10 nodes (or of N), in which nodes that are near in the first two of P
features are linked, and grows the forest in a fresh process, whose peak memory it prints; the process has drawn the
graph itself, and the peak before the fit stands beside. Then Q linked and Q unlinked pairs are scored, for the area
under the ROC curve. The exponent is the slope of log processor seconds over log M between two sizes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from measurement import machine, mib, print_table, seconds_cell, timed

if TYPE_CHECKING:
    from numpy.typing import NDArray

REACH = 100
"""A node's links go to about so many nodes that are next to it on a curve through the first two features."""

STRAY = 0.2
"""Share of the links whose other end is any node."""


def network(
    n_nodes: int, n_edges: int, n_features: int, seed: int
) -> tuple[NDArray[np.float32], scipy.sparse.csr_array]:
    """Features, shape (n_nodes, n_features), and the symmetric adjacency matrix of about ``n_edges`` edges."""
    rng = np.random.default_rng(seed)
    features = rng.random((n_nodes, n_features), np.float32)
    cells = max(1, round(math.sqrt(n_nodes / REACH)))
    square = np.minimum((features[:, :2] * cells).astype(np.int64), cells - 1)
    order = np.argsort(square[:, 0] * cells + square[:, 1], kind="stable")
    first = rng.integers(n_nodes, size=n_edges)
    step = np.rint(rng.normal(0.0, REACH / 2, n_edges)).astype(np.int64)
    second = (first + step) % n_nodes
    stray = rng.random(n_edges) < STRAY
    second[stray] = rng.integers(n_nodes, size=int(stray.sum()))
    between = first != second
    rows, columns = order[first[between]], order[second[between]]
    links = scipy.sparse.coo_array((np.ones(len(rows), np.float32), (rows, columns)), (n_nodes, n_nodes)).tocsr()
    links = links + links.T
    links.data[:] = 1.0
    return features, scipy.sparse.csr_array(links)


def measured(options: argparse.Namespace, n_edges: int) -> dict[str, Any]:
    """Grow one forest in this process; seconds, peaks of memory, sizes, and the area under the ROC curve of pairs."""
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415

    from distforest import SMERF, Graph  # noqa: PLC0415  (what draws the table does without)

    few = network(200, 2000, options.features, 1)
    SMERF(2, random_state=0).fit(few[0], Graph(few[1]))  # compiles
    n_nodes = options.nodes or n_edges // 10
    features, links = network(n_nodes, n_edges, options.features, 0)
    before, start = peak(), time.process_time()
    smerf = SMERF(options.trees, random_state=0, n_jobs=options.threads)
    seconds, forest = timed(lambda: smerf.fit(features, Graph(links)))
    processor, at_fit, table = time.process_time() - start, peak(), forest.forest_.table
    rng, start = np.random.default_rng(1), time.process_time()
    entries = rng.integers(links.nnz, size=options.pairs)
    linked = np.searchsorted(links.indptr, entries, side="right") - 1, links.indices[entries]
    others = rng.integers(n_nodes, size=(2, options.pairs))
    pairs = np.concatenate([np.stack(linked), others], axis=1)
    distances = forest._pair_distances(
        forest._nodes(features[pairs.reshape(-1)]), *np.arange(pairs.size).reshape(2, -1)
    )
    area = roc_auc_score(np.arange(len(distances)) < options.pairs, -distances)
    return {
        "nodes": n_nodes,
        "edges": links.nnz // 2,
        "seconds": seconds,
        "processor": processor,
        "before": before,
        "peak": at_fit,
        "cells": len(table.left),
        "kind": forest.forest_.leaf_table.kind,
        "scoring": time.process_time() - start,
        "area": area,
        "load": os.getloadavg()[0],
    }


def peak() -> int:
    """The peak memory of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def arguments() -> argparse.Namespace:
    """The sizes on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--here", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure each size in a process of its own, and print a table."""
    options = arguments()
    if options.here:
        print(json.dumps(measured(options, options.here)))
        return
    rows: list[list[str]] = []
    last: dict[str, Any] = {}
    for n_edges in options.edges:
        command = [sys.executable, __file__, *sys.argv[1:], "--here", str(n_edges)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = json.loads(answer.splitlines()[-1])
        exponent = ""
        if last:
            exponent = (
                f"{math.log(found['processor'] / last['processor']) / math.log(found['edges'] / last['edges']):.2f}"
            )
        seconds = [seconds_cell(found[name]) for name in ("seconds", "processor")]
        sizes = [f"{found[name]:,}" for name in ("nodes", "edges", "cells")]
        memory = [mib(found["before"]), mib(found["peak"])]
        rows.append([*sizes, *seconds, exponent, *memory, f"{found['area']:.3f}", f"{found['load']:.1f}"])
        last = found
    head = ["nodes", "edges", "nodes of trees", "seconds", "processor", "exponent", "before", "peak", "AUC-ROC", "load"]
    print(f"{machine()}, {options.trees} trees, {options.threads} threads, {options.features} features\n")
    print_table(head, rows)


if __name__ == "__main__":
    main()
