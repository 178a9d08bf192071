"""Sparse features: a forest over made documents, beside scikit-learn's random forest on the same matrix.

``python benchmarks/sparse.py [--rows N] [--columns P] [--words W] [--trees B] [--depth D] [--threads T] [--queries M]``
draws N documents of about W words of P by Zipf's law, in four topics, and trains each forest in a fresh process, whose
peak memory it prints; the process has drawn the documents itself, and the peak before the fit stands beside. Then M new
documents are scored, for the accuracy and once more, in seconds of the processor.
"""

from __future__ import annotations

import argparse
import json
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

    from distforest.forest.node_table import NodeTable

N_TOPICS = 4
EXPONENT = 1.1
"""Of Zipf's law: the word of rank r comes with a probability in proportion to r^-EXPONENT."""

OWN_WORDS = 0.3
"""Share of the words of a document that follow its topic's order of words; the others follow one that all share."""

OTHER_TOPIC = 0.1
"""Share of the documents whose label is another one than their topic."""


def documents(
    n_rows: int, n_columns: int, n_words: float, seed: int
) -> tuple[scipy.sparse.csr_array, NDArray[np.int64]]:
    """Counts of words, shape (n_rows, n_columns), float32, and a label for each row."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(N_TOPICS, size=n_rows)
    row = np.repeat(np.arange(n_rows, dtype=np.int32), rng.poisson(n_words, n_rows))
    share = np.cumsum(np.arange(1.0, n_columns + 1.0) ** -EXPONENT)
    word = np.searchsorted(share, rng.random(len(row)) * share[-1]).astype(np.int32)
    orders = np.stack([rng.permutation(n_columns) for _ in range(N_TOPICS)]).astype(np.int32)
    own = np.flatnonzero(rng.random(len(row)) < OWN_WORDS)
    word[own] = orders[topic[row[own]], word[own]]
    counts = scipy.sparse.coo_array((np.ones(len(row), np.float32), (row, word)), (n_rows, n_columns)).tocsr()
    other = rng.random(n_rows) < OTHER_TOPIC
    return counts, np.where(other, rng.integers(N_TOPICS, size=n_rows), topic)


def measured(who: str, options: argparse.Namespace) -> dict[str, Any]:
    """Train one forest in this process; its seconds, nodes, accuracy on new rows, and the peaks of memory."""
    X, y = documents(options.rows + options.queries, options.columns, options.words, seed=0)
    X, y, new, truth = X[: options.rows], y[: options.rows], X[options.rows :], y[options.rows :]
    common = {"n_estimators": options.trees, "max_depth": options.depth, "random_state": 0, "n_jobs": options.threads}
    if who == "ours":
        from distforest import SMERF, Labels  # noqa: PLC0415  (each process imports one of the two)

        few = documents(300, 500, 10.0, seed=1)
        SMERF(2, random_state=0).fit(few[0], Labels(few[1])).predict(few[0])  # compiles
        before, start = peak(), time.process_time()
        seconds, forest = timed(lambda: SMERF(**common).fit(X, Labels(y)))
        table = forest.forest_.table
        n_nodes, depth = len(table.left), depth_of(table)
    else:
        from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415

        columns = X.tocsc()
        before, start = peak(), time.process_time()
        seconds, forest = timed(lambda: RandomForestClassifier(**common).fit(columns, y))
        trees = [tree.tree_ for tree in forest.estimators_]
        n_nodes, depth = sum(tree.node_count for tree in trees), max(tree.max_depth for tree in trees)
    at_fit, processor = peak(), time.process_time() - start
    accuracy, start = float((forest.predict(new) == truth).mean()), time.process_time()
    forest.predict(new)
    scored = time.process_time() - start
    return {
        "seconds": seconds,
        "processor": processor,
        "before": before,
        "peak": at_fit,
        "nodes": n_nodes,
        "depth": depth,
        "accuracy": accuracy,
        "values": X.nnz,
        "scored": scored,
    }


def depth_of(table: NodeTable) -> int:
    """The depth of the deepest node; a child comes after its parent."""
    root, depth = np.repeat(table.tree_start[:-1], table.tree_size), np.zeros(len(table.left), np.int64)
    for node in np.flatnonzero(~table.is_leaf):
        depth[root[node] + [table.left[node], table.right[node]]] = depth[node] + 1
    return int(depth.max())


def peak() -> int:
    """The peak memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main() -> None:
    """Measure both, or the one that is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=100_000)
    parser.add_argument("--words", type=float, default=10.0)
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--depth", type=int, default=None)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--only", choices=("ours", "peer"), action="append")
    parser.add_argument("--alone", action="store_true", help="measure in this process, and print JSON")
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(measured(options.only[0], options)))
        return
    print(machine(), "\n", flush=True)
    rows, seconds = [], {}
    for who in options.only or ("ours", "peer"):
        names = ("rows", "columns", "words", "trees", "threads", "queries")
        arguments = [f"--{name}={getattr(options, name)}" for name in names]
        arguments += [f"--depth={options.depth}"] if options.depth else []
        command = [sys.executable, __file__, "--alone", f"--only={who}", *arguments]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        seconds[who] = found["processor"]
        name = "SMERF" if who == "ours" else "RandomForestClassifier"
        cells = [
            seconds_cell(found["seconds"]),
            seconds_cell(found["processor"]),
            mib(found["before"]),
            mib(found["peak"]),
            f"{found['nodes']:,}",
            f"{found['depth']:,}",
        ]
        rows.append([name, *cells, f"{found['accuracy']:.3f}", seconds_cell(found["scored"])])
        print(f"{found['values']:,} values other than 0", flush=True)
    print_table(["forest", "fit", "processor", "peak before", "peak", "nodes", "levels", "accuracy", "scored"], rows)
    if len(seconds) > 1:
        print(f"ours / peer, seconds of the processor: {seconds['ours'] / seconds['peer']:.2f}")


if __name__ == "__main__":
    main()
