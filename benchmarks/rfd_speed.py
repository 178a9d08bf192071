"""RFD against scikit-learn's random forest on the materialised features of the same pairs: growth, memory, scoring.

TreeRank's forests are scored too. Their trees are much deeper than the peer's, so the peer is also given ours: then
both do the same, and must answer the same.

``python benchmarks/rfd_speed.py FOLDER QUESTION`` grows one forest in a fresh process, which is what `print_growth`
starts. Its kernels are compiled or found in the cache before the clock runs; the peer's features are made before its
clock runs. The peak is that of the whole process; beside it stands what it rose above what the process held before: its
packages and, but for a job, which reads them from Zarr, points and pairs. The estimator ends with the forest in memory;
a job leaves each tree on disk when it has grown. malloc is set as Dask sets it for workers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import zarr
from measurement import Paired, interleaved, mib, print_table, ratio_cell, seconds_cell
from peers import peak_bytes
from sklearn.datasets import make_classification

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Float32s = NDArray[np.float32]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

N_COLUMNS = 50
N_POINTS = 20_000
N_HELD_OUT = 200_000
FOREST: dict[str, Any] = {"n_estimators": 20, "max_features": "sqrt", "min_samples_leaf": 5, "random_state": 0}
"""What both forests have alike; both draw pairs with replacement, and both average the leaves' shares."""
AT_ONCE = 65_536
MALLOC = {"MALLOC_TRIM_THRESHOLD_": "65536"}
"""What Dask puts into the environment of its workers (`distributed.nanny.pre-spawn-environ`)."""


@dataclass(frozen=True)
class Size:
    """Pairs to grow on, and pairs to score."""

    grown: int
    scored: int
    grown_to_score: int


FULL = Size(1_000_000, 1_000_000, 100_000)
QUICK = Size(100_000, 100_000, 10_000)


@dataclass(frozen=True)
class Effort:
    """How much is measured, how often, in how many threads."""

    size: Size
    runs: int
    threads: int


@dataclass(frozen=True)
class Pairs:
    """Points, shape (n, p), pairs of their numbers, shape (m, 2), and whether a pair is of one class, shape (m,)."""

    points: Float32s
    pairs: Ints
    similar: Bools

    @classmethod
    def drawn(cls, n_pairs: int, seed: int) -> Pairs:
        """Pairs of the points of five classes, half of them of one class; of points of their own for each seed."""
        X, y = make_classification(
            *(2 * N_POINTS, N_COLUMNS), n_informative=10, n_classes=5, n_clusters_per_class=1, random_state=0
        )
        X, y = X[seed * N_POINTS : (seed + 1) * N_POINTS].astype(np.float32), y[seed * N_POINTS :][:N_POINTS]
        rng = np.random.default_rng(seed)
        left, right = rng.integers(N_POINTS, size=(2, n_pairs))
        for code in range(5):
            mates, alike = np.flatnonzero(y == code), np.flatnonzero((y[left] == code) & (np.arange(n_pairs) % 2 == 0))
            right[alike] = rng.choice(mates, len(alike))
        distinct = left != right
        return cls(X, np.stack([left, right], axis=1)[distinct], (y[left] == y[right])[distinct])

    def features(self) -> Float32s:
        """|x - x'| and (x + x')/2 of each pair, shape (m, 2p), made in blocks."""
        found = np.empty((len(self.pairs), 2 * N_COLUMNS), np.float32)
        for first in range(0, len(found), AT_ONCE):
            a, b = (self.points[own] for own in self.pairs[first : first + AT_ONCE].T)
            np.abs(a - b, out=found[first : first + AT_ONCE, :N_COLUMNS])
            found[first : first + AT_ONCE, N_COLUMNS:] = (a + b) / 2
        return found

    def first(self, n: int) -> Pairs:
        """The first pairs, of the same points."""
        return Pairs(self.points, self.pairs[:n], self.similar[:n])

    def save(self, path: Path) -> None:
        """Write all three arrays to Zarr."""
        for name in NAMES:
            zarr.save_array(path / name, getattr(self, name))

    @classmethod
    def load(cls, path: Path) -> Pairs:
        """Read what `save` wrote."""
        return cls(*(np.asarray(zarr.open_array(path / name, mode="r")[...]) for name in NAMES))


NAMES = tuple(Pairs.__dataclass_fields__)

# --- growth -----------------------------------------------------------------------------------------------


def grow_ours(pairs: Pairs, threads: int) -> Any:
    """Our forest."""
    from distforest import RFD  # noqa: PLC0415  (not in the peer's process)

    return RFD(voting="mean", resample="pairs", n_jobs=threads, **FOREST).fit_pairs(
        pairs.points, pairs.pairs, pairs.similar
    )


def grow_ranks(pairs: Pairs, threads: int) -> Any:
    """Our ranking forest, of trees of depth 15 with LeafRanks of depth 5 as in its paper."""
    from distforest import TreeRank  # noqa: PLC0415  (not in the peer's process)

    return TreeRank(n_jobs=threads, **FOREST).fit_pairs(pairs.points, pairs.pairs, pairs.similar)


def grow_peer(features: Float32s, similar: Bools, threads: int) -> Any:
    """The peer's forest."""
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415  (not in our process)

    return RandomForestClassifier(n_jobs=threads, **FOREST).fit(features, ~similar)


class Grown(NamedTuple):
    """A forest: what it says of pairs that were not learned from, and the seconds that do not count."""

    distances: Callable[[Pairs], Floats]
    seconds_to_make: float = 0.0


def warnings_of(forest: Any, unseen: Pairs) -> Floats:
    """The distances of pairs by our forest."""
    found: Floats = forest.pair_distance(*(unseen.points[own] for own in unseen.pairs.T))
    return found


def by_estimator(path: Path, threads: int) -> Callable[[], Grown]:
    """Our forest, in memory."""
    pairs = Pairs.load(path)
    return lambda: Grown(partial(warnings_of, grow_ours(pairs, threads)))


def by_job(path: Path, threads: int) -> Callable[[], Grown]:
    """Our forest by a job that reads Zarr, one tree a task, and leaves an artifact in a folder of its own."""
    folder = tempfile.mkdtemp(dir=path.parent)

    def grow() -> Grown:
        from distforest import load  # noqa: PLC0415  (not in the peer's process)
        from distforest.jobs.cluster import Threads  # noqa: PLC0415
        from distforest.jobs.input_staging import stage_inputs  # noqa: PLC0415
        from distforest.jobs.spec import Spec  # noqa: PLC0415
        from distforest.jobs.train import Options, fit  # noqa: PLC0415
        from distforest.stores.folder import Folder  # noqa: PLC0415

        own = {name: value for name, value in FOREST.items() if name != "random_state"}
        table = {
            "format": 1,
            "method": "rfd",
            "seed": FOREST["random_state"],
            "output": f"{folder}/forest.zarr",
            "input": {"features" if name == "points" else name: f"{path}/{name}" for name in NAMES},
            "params": {"voting": "mean", "resample": "pairs", **own},
            "run": {"scratch": f"{folder}/scratch"},
        }
        spec, job = Spec.from_dict(table), f"{folder}/job"
        fit(stage_inputs(spec, job), spec.output, Folder(job), Threads(threads), Options(batch=1))
        return Grown(lambda unseen: warnings_of(load(spec.output), unseen))

    return grow


def by_peer(path: Path, threads: int) -> Callable[[], Grown]:
    """scikit-learn's forest on the features of pairs; they are made before its clock runs."""
    pairs = Pairs.load(path)

    def grow() -> Grown:
        start = time.perf_counter()
        features = pairs.features()
        made = time.perf_counter() - start
        forest = grow_peer(features, pairs.similar, threads)
        return Grown(lambda unseen: distances_of(forest, unseen.features), made)

    return grow


PEER = "random forest"
GROWERS = {"RFD": by_estimator, "RFD by a job": by_job, PEER: by_peer}


def grown(folder: Path, whose: str, threads: int) -> dict[str, float]:
    """Grow one forest in this process: seconds, peak, what it rose, and accuracy on held-out pairs."""
    warm, grow = (GROWERS[whose](folder / name, threads) for name in ("few", "grown"))
    unseen = Pairs.load(folder / "held_out")
    warm()
    before, start = peak_bytes(), time.perf_counter()
    forest = grow()
    done, peak = time.perf_counter(), peak_bytes()
    return {
        "seconds": done - start - forest.seconds_to_make,
        "seconds_to_make": forest.seconds_to_make,
        "peak": peak,
        "rise": peak - before,
        "accuracy": float(np.mean((forest.distances(unseen) < 0.5) == unseen.similar)),
    }


def ask(folder: Path, whose: str, threads: int) -> dict[str, float]:
    """Ask a fresh process to grow a forest."""
    command = [sys.executable, __file__, str(folder), json.dumps({"whose": whose, "threads": threads})]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **MALLOC})
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def print_growth(effort: Effort) -> None:
    """Print time, memory and accuracy of all, each run in a process of its own, in turn."""
    answers: dict[str, list[dict[str, float]]] = {whose: [] for whose in GROWERS}
    with tempfile.TemporaryDirectory() as name:
        folder, pairs = Path(name), Pairs.drawn(effort.size.grown, 0)
        pairs.save(folder / "grown")
        pairs.first(200).save(folder / "few")
        Pairs.drawn(N_HELD_OUT, 1).save(folder / "held_out")
        for run in range(effort.runs):
            for whose in list(GROWERS)[:: 1 if run % 2 == 0 else -1]:
                answers[whose].append(ask(folder, whose, effort.threads))
                print(whose, answers[whose][-1], file=sys.stderr, flush=True)
    title = f"{effort.size.grown:,} pairs of {N_COLUMNS} features, {FOREST['n_estimators']} trees"
    print(f"## Growth: {title}, {effort.threads} threads\n")
    rows = [
        row(label, key, write, answers)
        for label, key, write in (
            ("time to grow", "seconds", seconds_cell),
            ("peak memory", "peak", mib),
            ("above what was held before", "rise", mib),
            ("accuracy on held-out pairs", "accuracy", "{:.4f}".format),
        )
    ]
    ratios = [f"{name} / {PEER} (least to most)" for name in GROWERS if name != PEER]
    print_table(["", *GROWERS, *ratios], rows)
    made = np.median([own["seconds_to_make"] for own in answers[PEER]])
    print(f"The peer's features take {seconds_cell(float(made))} to make, which its time leaves out.\n")


def row(label: str, key: str, write: Any, answers: dict[str, list[dict[str, float]]]) -> list[str]:
    """One measure of all: medians, and ours by the peer's."""
    found = {whose: [own[key] for own in runs] for whose, runs in answers.items()}
    medians = [write(float(np.median(own))) for own in found.values()]
    peer = found.pop(PEER)
    return [label, *medians, *(ratio_cell([a / b for a, b in zip(own, peer, strict=True)]) for own in found.values())]


# --- scoring ----------------------------------------------------------------------------------------------


def print_scoring(effort: Effort) -> None:
    """Print pairs per second of ours and the peer; its features are there before its clock runs, or are made by it."""
    pairs, unseen = Pairs.drawn(effort.size.grown_to_score, 0), Pairs.drawn(effort.size.scored, 1)
    ours = {"RFD": grow_ours(pairs, effort.threads), "TreeRank": grow_ranks(pairs, effort.threads)}
    peer = grow_peer(pairs.features(), pairs.similar, effort.threads)
    left, right = (np.ascontiguousarray(unseen.points[own]) for own in unseen.pairs.T)
    features = unseen.features()
    rows = []
    for name, forest in ours.items():
        forest.pair_distance(left[:100], right[:100])  # compile
        same = with_trees_of(forest, peer)
        peers = {
            "its own trees": partial(distances_of, peer, lambda: features),
            "its own trees, features made by the way": partial(distances_of, peer, unseen.features),
            "our trees": partial(distances_of, same, lambda: features),
        }
        for label, scored in peers.items():
            timed = interleaved(partial(forest.pair_distance, left, right), scored, effort.runs)
            if label == "our trees":
                np.testing.assert_allclose(*timed.answers, atol=1e-9)
            rates = [f"{len(left) / np.median(own):,.0f}" for own in (timed.ours, timed.peer)]
            rows.append([name, label, *rates, ratio_cell(timed.ratios), *aucs(timed, unseen.similar)])
    size = f"forests of {FOREST['n_estimators']} trees grown on {len(pairs.pairs):,} pairs"
    print(f"## Scoring {len(left):,} pairs of {N_COLUMNS} features, {size}, {effort.threads} threads\n")
    head = ["ours", "predict_proba by", "ours, pairs/s", "peer", "time: ours / peer (least to most)", "AUC", "peer's"]
    print_table(head, rows)


def distances_of(peer: Any, features: Callable[[], Float32s]) -> Floats:
    """The peer's share of votes for unlike."""
    found: Floats = peer.predict_proba(features())[:, 1]
    return found


def with_trees_of(forest: Any, peer: Any) -> Any:
    """A copy of the peer that holds the trees of ours, and the distance that each of their leaves says."""
    from sklearn.tree._tree import NODE_DTYPE, Tree  # noqa: PLC0415  (not in the processes that grow)

    table, leaves = forest.forest_.table, forest.forest_.leaf_table
    unlike = leaves.parts if leaves.dissimilar else 1.0 - leaves.parts
    nodes = np.zeros(len(table.left), NODE_DTYPE)
    nodes["left_child"], nodes["right_child"], nodes["threshold"] = table.left, table.right, table.threshold
    nodes["feature"][~table.is_leaf] = table.columns
    copied = deepcopy(peer)
    for own, first, last in zip(copied.estimators_, table.tree_start[:-1], table.tree_start[1:], strict=True):
        values = np.stack([1.0 - unlike[first:last], unlike[first:last]], axis=1)[:, None, :]
        tree = Tree(own.n_features_in_, np.array([2]), 1)
        state = {"max_depth": 1, "node_count": int(last - first), "nodes": nodes[first:last], "values": values}
        tree.__setstate__(state)
        own.tree_ = tree
    return copied


def aucs(timed: Paired, similar: Bools) -> list[str]:
    """Area under the ROC curve of both, as scores of unlike pairs."""
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415  (not in the processes that grow)

    return [f"{roc_auc_score(~similar, own):.4f}" for own in timed.answers]


if __name__ == "__main__":
    print(json.dumps(grown(Path(sys.argv[1]), **json.loads(sys.argv[2]))))
