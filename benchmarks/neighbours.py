"""The nearest rows by proximity: seconds and peak memory of a fresh process; are they exact; and forestgeom.

``python benchmarks/neighbours.py QUESTION`` answers one question, JSON, in a fresh process; the sections start it. Its
kernels are compiled or found in the cache, and its forest is open, before the clock runs. The peak is that of the whole
process: Python with its packages, the forest and the answer; beside it stands what it held before it was asked.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from measurement import Paired, mib, print_table, ratio_cell, seconds_cell
from peers import Environments, Peer

from distforest import load
from distforest.forest.proximities import nearest, sparse_proximity
from distforest.forest.sealed.artifact import open_forest
from distforest.jobs.shards import peak_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

N_NEIGHBORS = 50
N_CHECKED = 1000
CHECKED_AT_ONCE = 8
EXACT = 1e-12
"""Distances that differ by less are the same: whole numbers over the number of trees."""


@dataclass(frozen=True)
class Question:
    """What a fresh process is asked.

    ``whole``: for all proximities as a sparse matrix, not for the nearest rows. The nearest of the rows numbered in the
    file ``rows`` are kept in the file ``answers``.
    """

    forest: str
    threads: int = 1
    whole: bool = False
    rows: str = ""
    answers: str = ""


def ask(question: Question) -> dict[str, Any]:
    """Ask a fresh process."""
    command = [sys.executable, __file__, json.dumps(asdict(question))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def answer(question: Question) -> dict[str, Any]:
    """Answer in this process: seconds, peak, peak before, and how many entries a sparse matrix has."""
    own = load(question.forest)
    own.n_jobs = question.threads
    nodes = own.forest_.training_nodes
    few = np.ascontiguousarray(nodes[:, :64])
    nearest(few, few, 2, self_rows=True)  # compile
    sparse_proximity(few, few)
    before, start = peak_bytes(), time.perf_counter()
    n_stored = 0
    if question.whole:
        n_stored = int(sparse_proximity(nodes, nodes, threads=question.threads).nnz)
    else:
        distances, indices = own.kneighbors(n_neighbors=N_NEIGHBORS)
    seconds, peak = time.perf_counter() - start, peak_bytes()
    if question.answers:
        rows = np.load(question.rows)
        np.savez(question.answers, distances=distances[rows], indices=indices[rows])
    return {"seconds": seconds, "peak_bytes": peak, "before_bytes": before, "n_stored": n_stored}


# --- exactness --------------------------------------------------------------------------------------------


def shared_counts(nodes: NDArray[np.int32], rows: Ints) -> NDArray[np.int16]:
    """In how many trees each of some rows shares its leaf with each row, one tree after another, shape (n_rows, n)."""
    counts = np.zeros((len(rows), nodes.shape[1]), np.int16)
    for own in nodes:
        counts += own[rows, None] == own
    return counts


def greatest(counts: NDArray[np.int16], row: int) -> Ints:
    """The rows of greatest count but for ``row`` itself; equal counts in the order of the index."""
    counts[row] = -1
    least = np.partition(counts, -N_NEIGHBORS)[-N_NEIGHBORS]
    above, ties = np.flatnonzero(counts > least), np.flatnonzero(counts == least)
    above = above[np.argsort(-counts[above], kind="stable")]
    return np.concatenate([above, ties[: N_NEIGHBORS - len(above)]])


def exactness(address: str, rows: Ints, found: Any) -> str:
    """What was found of some rows beside all their dense proximities, in words."""
    nodes = open_forest(address).training_nodes
    recalled, n_equal, n_alike = 0, 0, 0
    for first in range(0, len(rows), CHECKED_AT_ONCE):
        own = rows[first : first + CHECKED_AT_ONCE]
        for at, (row, counts) in enumerate(zip(own.tolist(), shared_counts(nodes, own), strict=True), start=first):
            expected = greatest(counts, row)
            recalled += len(np.intersect1d(expected, found["indices"][at]))
            n_equal += bool(np.array_equal(expected, found["indices"][at]))
            unlike = np.abs(1.0 - counts[expected] / len(nodes) - found["distances"][at])
            n_alike += bool(unlike.max() < EXACT)
    recall = recalled / (len(rows) * N_NEIGHBORS)
    return (
        f"On {len(rows):,} rows at random, against the dense proximity to all rows: recall {recall:.4f}; the same rows "
        f"in the same order for {n_equal:,} of them, the same distances for {n_alike:,}."
    )


# --- tables -----------------------------------------------------------------------------------------------


def many_rows(address: str, folder: Path, threads: tuple[int, ...]) -> None:
    """All nearest rows of a forest's training rows: seconds, peak, and whether they are exact."""
    n_trees, n_rows = open_forest(address).leaves.shape
    rows = np.sort(np.random.default_rng(0).choice(n_rows, min(N_CHECKED, n_rows), replace=False))
    np.save(folder / "rows.npy", rows)
    table = []
    for n in threads:
        kept = Question(address, n, rows=str(folder / "rows.npy"), answers=str(folder / "nearest.npz"))
        done = ask(kept)
        rate = f"{n_rows / done['seconds']:,.0f}"
        peaks = [mib(done["before_bytes"]), mib(done["peak_bytes"])]
        table.append([f"{n_rows:,}", str(n_trees), str(n), seconds_cell(done["seconds"]), rate, *peaks])
    print(f"`kneighbors(n_neighbors={N_NEIGHBORS})` of all training rows, in a fresh process:\n")
    print_table(["rows", "trees", "threads", "seconds", "rows a second", "held before", "peak"], table)
    with np.load(folder / "nearest.npz") as found:
        print(f"{exactness(address, rows, found)}\n", flush=True)


def against_forestgeom(address: str, folder: Path, peers: Environments, n_pairs: int) -> None:
    """The same leaves, ours and forestgeom's, in processes of their own, one after the other."""
    python = peers.python_with("forestgeom")
    if python is None:
        print("No environment with forestgeom was named: --peer-python PATH.\n", flush=True)
        return
    nodes = open_forest(address).training_nodes
    np.save(folder / "leaves.npy", np.ascontiguousarray(nodes.T))
    np.save(folder / "rows.npy", np.arange(nodes.shape[1]))
    asked = Question(address, rows=str(folder / "rows.npy"), answers=str(folder / "nearest.npz"))
    given = {"path": str(folder / "leaves.npy"), "answers": str(folder / "peer.npy"), "n_neighbors": N_NEIGHBORS}

    def ours() -> list[dict[str, Any]]:
        return [ask(asked), ask(Question(address, whole=True))]

    def theirs() -> list[dict[str, Any]]:
        with Peer(python) as peer:
            return [peer.ask("sparse_proximity", **given)]

    runs = []
    for pair in range(n_pairs):
        first, second = (ours, theirs) if pair % 2 == 0 else (theirs, ours)
        answers = {first: first(), second: second()}
        runs.append((*answers[ours], *answers[theirs]))
    print(f"n = {nodes.shape[1]:,}, {len(nodes)} trees, the leaves of one forest, one thread:\n")
    print_pairs(runs)
    with np.load(folder / "nearest.npz") as found:
        unlike = np.abs(1.0 - found["distances"] - np.load(folder / "peer.npy")).max()
    print(f"Largest difference of the {N_NEIGHBORS} greatest proximities of all rows: {unlike:.1e}.\n", flush=True)


def print_pairs(runs: list[tuple[dict[str, Any], ...]]) -> None:
    """The table of `against_forestgeom`: rows are what was made, ratios are to the peer's in the same pair."""
    choosing = tuple(theirs["seconds"] + theirs["seconds_to_choose"] for _, _, theirs in runs)
    making = tuple(theirs["seconds"] for _, _, theirs in runs)
    held = tuple(taken_bytes(theirs) for _, _, theirs in runs)
    near, whole = (tuple(run[side]["seconds"] for run in runs) for side in (0, 1))
    rows = []
    cases = (
        (f"the nearest {N_NEIGHBORS}; forestgeom's sparse matrix", 0, near, making),
        (f"the nearest {N_NEIGHBORS}; forestgeom's, and {N_NEIGHBORS} of each row taken from it", 0, near, choosing),
        ("all that are not 0", 1, whole, making),
    )
    for name, side, ours, peer in cases:
        own = tuple(taken_bytes(run[side]) for run in runs)
        memory = [mib(max(own)), mib(max(held)), ratio_cell(Paired(own, held, (None, None)).ratios)]
        rows.append([name, *Paired(ours, peer, (None, None)).cells(), *memory])
    names = ["what", "ours", "forestgeom", "ours / forestgeom", "memory, ours", "forestgeom", "ours / forestgeom"]
    print_table(names, rows)
    stored = " and ".join(f"{runs[-1][side]['n_stored']:,}" for side in (1, 2))
    peaks = "; ".join(f"{mib(run['before_bytes'])} and {mib(run['peak_bytes'])}" for run in runs[-1])
    print(f"Memory is what the answer took above what the process held before. Held before and peak: {peaks}.")
    print(f"Entries of both sparse matrices: {stored}.", flush=True)


def taken_bytes(run: dict[str, Any]) -> float:
    """What an answer took above what its process held before it was asked."""
    return float(run["peak_bytes"] - run["before_bytes"])


if __name__ == "__main__":
    print(json.dumps(answer(Question(**json.loads(sys.argv[1])))))
