"""URerF: how fast a tree grows, how jobs grow with their rows, and how soon the nearest rows are found.

::

    python benchmarks/unsupervised.py --peer-python PATH PATH    everything (about half an hour on two cores)
    python benchmarks/unsupervised.py --quick                    smaller and fewer (about five minutes)
    python benchmarks/unsupervised.py --only jobs neighbours     some of: trees, jobs, neighbours, sparse

``--peer-python`` names Pythons of environments with the peers treeple and forestgeom (see `peers.py` for how to make
them); without one its section is left out. ``--folder`` keeps data and forests, so that a section that needs a forest
of an earlier run does not grow it again. stdout is markdown.

The points are a curved sheet: two hidden numbers, eight columns that are smooth functions of them with a little noise,
and twelve columns of noise; rows in random order.

*Trees*. treeple grows with two-means by single columns, and by sparse sums, from all rows, with as many candidates and
the same least size of a cut node as ours, and makes nothing of the trees. It reads values by the numbers of rows
although it keeps them by place, so that on rows in random order its cuts are not those of two-means; and it closes a
node where its cut makes things worse, which ends most of its trees soon. So it is also told to keep on cutting; and it
is given the one kind of data that it reads right: all columns rise with the number of the row. There both grow the same
tree, node for node. Beside seconds a tree stands what one value costs: seconds over the sum of rows times candidates of
all nodes that were searched.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import neighbours
import numpy as np
from measurement import Paired, machine, mib, print_table, ratio_cell, seconds_cell, timed
from peers import Environments, Peer

from distforest.growth.methods import METHODS, problem
from distforest.growth.parameters import complete
from distforest.growth.problem import Data
from distforest.sources.arrays import write_array
from distforest.sources.row_kinds import Features
from distforest.sources.truth import Truth, TruthKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Float32s = NDArray[np.float32]

SEED = 3
N_COLUMNS, N_SMOOTH = 20, 8
LEAST = 100
"""The least size of a node that is cut, where trees are compared: the paper's min.parent."""

SPEC = """format = 1
method = "urerf"
seed = {seed}
output = "{output}"

[input]
features = "{features}"

[params]
n_estimators = {trees}

[run]
workers = 2
threads_per_worker = 1
memory_limit = "4GiB"
"""


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    trees_at_once: dict[int, int]
    pairs: int
    job_rows: tuple[int, ...]
    trees: int
    sparse_rows: int


FULL = Effort({10_000: 10, 100_000: 2}, 11, (10_000, 100_000, 1_000_000), 100, 20_000)
QUICK = Effort({10_000: 10}, 2, (3_000, 10_000, 30_000), 20, 5_000)


@dataclass(frozen=True)
class Place:
    """Where data and forests are kept, how much is measured, and with which peers."""

    folder: Path
    effort: Effort
    peers: Environments

    def job(self, n_rows: int) -> dict[str, Any]:
        """What ``distforest fit`` answered about a job on so many rows; it runs once."""
        name = f"sheet-{n_rows}-{self.effort.trees}"
        told, output = self.folder / f"{name}.json", self.folder / f"{name}.forest.zarr"
        if not told.exists():
            group, X = str(self.folder / f"{name}.zarr"), curved_sheet(n_rows)
            write_array(group, "X", X.shape, X.dtype, [X])
            spec = self.folder / f"{name}.toml"
            spec.write_text(SPEC.format(seed=SEED, output=output, features=f"{group}/X", trees=self.effort.trees))
            command = [sys.executable, "-m", "distforest", "fit", str(spec), "--overwrite", "--json"]
            whole, done = timed(lambda: subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True))
            told.write_text(json.dumps({**json.loads(done.stdout), "whole_seconds": whole}))
        answer: dict[str, Any] = json.loads(told.read_text())
        return answer


def curved_sheet(n_rows: int) -> Float32s:
    """Points of the sheet, shape (n_rows, 20): eight smooth functions of two numbers, twelve columns of noise."""
    rng = np.random.default_rng(0)
    directions, phases = rng.normal(0.0, 2.0, (2, N_SMOOTH)), rng.uniform(0.0, 2.0 * np.pi, N_SMOOTH)
    X = rng.standard_normal((n_rows, N_COLUMNS), dtype=np.float32)
    X[:, :N_SMOOTH] = 0.05 * X[:, :N_SMOOTH] + np.sin(rng.random((n_rows, 2)) @ directions + phases)
    return X


def rising_columns(n_rows: int) -> Float32s:
    """Rows that every column puts in the same order, that of their numbers; no two values of a column are equal."""
    hidden = np.sort(np.random.default_rng(0).permutation(2 * n_rows)[:n_rows]) / (2 * n_rows)
    return np.stack([hidden**power + 0.5 * hidden for power in np.linspace(0.5, 4.0, N_COLUMNS)], 1).astype(np.float32)


# --- trees ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Trees that are compared: their data, by sums or single columns, how many candidates, and how the peer ends."""

    text: str
    data: Callable[[int], Float32s]
    oblique: bool = False
    candidates: int = 4
    keeps_on: bool = True


CASES = (
    Case("rising columns, all 20 single columns: the same tree", rising_columns, candidates=N_COLUMNS),
    Case("rising columns, 4 single columns", rising_columns),
    Case("sheet, 4 single columns, treeple keeps on", curved_sheet),
    Case("sheet, 4 sums, treeple keeps on", curved_sheet, oblique=True),
    Case("sheet, 4 single columns, treeple as it ends", curved_sheet, keeps_on=False),
    Case("sheet, 4 sums, treeple as it ends", curved_sheet, oblique=True, keeps_on=False),
)


@dataclass(frozen=True)
class Grown:
    """Seconds in which some trees grew, and the sizes of each one's nodes in ascending order."""

    seconds: float
    sizes: list[list[int]]

    @property
    def seconds_a_tree(self) -> float:
        """In the mean."""
        return self.seconds / len(self.sizes)

    def seconds_a_value(self, case: Case) -> float:
        """Over the sum of rows times candidates of all nodes that are large enough to be cut."""
        n_searched = sum(size for own in self.sizes for size in own if size >= LEAST)
        return self.seconds / (n_searched * case.candidates)


def two_means(X: Float32s, case: Case) -> Callable[[NDArray[np.int64]], Grown]:
    """A function that grows two-means trees of all rows, given their numbers."""
    wanted = {
        "criterion": "two_means",
        "relative": False,
        "splitter": "best",
        "n_witnesses": 0,
        "coefficients": "sign",
        "feature_combinations": 1.5 if case.oblique else 1.0,
        "max_features": case.candidates,
        "bootstrap": False,
        "max_samples": 1.0,
    }
    return grower(X, wanted)


def grower(X: Float32s, params: dict[str, Any]) -> Callable[[NDArray[np.int64]], Grown]:
    """A function that grows trees, given their numbers: every feature alike, nodes of `LEAST` rows and more are cut."""
    data = Data(Features(X.shape[1]), X, Truth(TruthKind.NOTHING, np.empty((len(X), 0))))
    method, wanted = METHODS["urerf"], {"feature_weights": None, "min_samples_split": LEAST, **params}
    ours = problem(method, data, complete(method.parameters, wanted), SEED)

    def grown(numbers: NDArray[np.int64]) -> Grown:
        seconds, arrays = timed(lambda: ours.grow(numbers))
        of_trees = np.split(arrays["n_rows"], np.cumsum(arrays["tree_size"])[:-1])
        return Grown(seconds, [np.sort(own).tolist() for own in of_trees])

    return grown


def trees(place: Place) -> None:
    """Two-means trees, ours and treeple's."""
    python = place.peers.python_with("treeple")
    if python is None:
        print("No environment with treeple was named: --peer-python PATH.\n", flush=True)
        return
    print(f"## Two-means trees: p = {N_COLUMNS}, all rows, nodes of {LEAST} rows and more are cut, one thread\n")
    rows = []
    with Peer(python) as peer:
        for n_rows, n_trees in place.effort.trees_at_once.items():
            for case in CASES:
                X = case.data(n_rows)
                path = place.folder / f"{case.data.__name__}-{n_rows}.npy"
                np.save(path, X)
                runs = compared(case, two_means(X, case), (peer, path), (n_trees, place.effort.pairs))
                rows.append([f"{n_rows:,}", str(n_trees), case.text, *cells(case, runs)])
    names = ["n", "trees", "kind", "ours", "treeple", "ours / treeple (least to most)"]
    print_table([*names, "nodes", "ns a value", "ratio"], rows)
    print("Seconds are of one tree. Nodes and ns a value are ours / treeple's.\n", flush=True)
    for n_rows, n_trees in place.effort.trees_at_once.items():
        grow = grower(curved_sheet(n_rows), {})
        seconds = [grow(np.arange(run * n_trees, (run + 1) * n_trees)).seconds_a_tree for run in range(4)][1:]
        print(
            f"A tree of the default recipe on the sheet, n = {n_rows:,}: {seconds_cell(statistics.median(seconds))}.\n"
        )


def compared(
    case: Case, grow: Callable[[NDArray[np.int64]], Grown], asked: tuple[Peer, Path], sizes: tuple[int, int]
) -> list[tuple[Grown, Grown]]:
    """Ours and the peer's trees in pairs of runs, after one that warms both up."""
    (peer, path), (n_trees, n_pairs) = asked, sizes
    given: dict[str, Any] = {"oblique": case.oblique, "keeps_on": case.keeps_on, "max_features": case.candidates}
    runs = []
    for pair in range(n_pairs + 1):
        numbers = np.arange(pair * n_trees, (pair + 1) * n_trees)
        found = peer.ask("trees", path=str(path), seeds=numbers.tolist(), min_samples_split=LEAST, **given)
        runs.append((grow(numbers), Grown(**found)))
    return runs[1:]


def cells(case: Case, runs: list[tuple[Grown, Grown]]) -> list[str]:
    """A row of the table."""
    seconds = [[own.seconds_a_tree for own in side] for side in zip(*runs, strict=True)]
    each = [[own.seconds_a_value(case) for own in side] for side in zip(*runs, strict=True)]
    times, costs = (Paired(tuple(ours), tuple(peer), (None, None)) for ours, peer in (seconds, each))
    nodes = [np.mean([len(own) for run in runs for own in run[side].sizes]) for side in (0, 1)]
    same = ", the same" if all(a.sizes == b.sizes for a, b in runs) else ""
    value = " / ".join(f"{1e9 * np.median(own):.3g}" for own in (costs.ours, costs.peer))
    return [*times.cells(), f"{nodes[0]:,.0f} / {nodes[1]:,.0f}{same}", value, ratio_cell(costs.ratios)]


# --- jobs, neighbours -------------------------------------------------------------------------------------


def jobs(place: Place) -> None:
    """``distforest fit`` on more and more rows."""
    print(f"## Jobs: `distforest fit`, {place.effort.trees} trees, the default recipe, 2 workers with 4 GiB each\n")
    place.job(1000)  # compile
    rows, seconds = [], []
    for n_rows in place.effort.job_rows:
        done = place.job(n_rows)
        seconds.append(done["seconds"])
        memory = [mib(done[name]) for name in ("peak_bytes", "projected_bytes", "memory_limit")]
        rows.append([f"{n_rows:,}", seconds_cell(done["seconds"]), seconds_cell(done["whole_seconds"]), *memory])
    print_table(["n", "the job", "with start and end", "peak of a worker", "projected", "allowed"], rows)
    sizes = np.log(place.effort.job_rows)
    steps = ", ".join(f"{step:.2f}" for step in np.diff(np.log(seconds)) / np.diff(sizes))
    exponent = np.polyfit(sizes, np.log(seconds), 1)[0]
    print(f"A job takes time in proportion to n^{exponent:.2f} (from size to size: {steps}).\n", flush=True)


def near(place: Place) -> None:
    """The nearest rows of all rows of the largest job."""
    print("## Neighbours: the nearest of all training rows, from the leaves of the forest\n")
    address = place.job(place.effort.job_rows[-1])["forest"]
    neighbours.many_rows(address, place.folder, (1, 2))


def sparse(place: Place) -> None:
    """Proximities beside forestgeom's."""
    print("## Sparse proximities: forestgeom on the same leaves\n")
    address = place.job(place.effort.sparse_rows)["forest"]
    neighbours.against_forestgeom(address, place.folder, place.peers, min(3, place.effort.pairs))


SECTIONS: dict[str, Callable[[Place], None]] = {"trees": trees, "jobs": jobs, "neighbours": near, "sparse": sparse}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what was asked for and print the tables."""
    parser = argparse.ArgumentParser(description="URerF: trees, jobs and neighbours; seconds, memory, ratios to peers.")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, metavar="NAME", help=f"some of {', '.join(SECTIONS)}")
    parser.add_argument("--quick", action="store_true", help="smaller and fewer")
    parser.add_argument("--peer-python", nargs="+", default=[], metavar="PATH", help="Pythons that have a peer")
    parser.add_argument("--folder", type=Path, help="keep data and forests here")
    options = parser.parse_args(arguments)
    peers = Environments(tuple(options.peer_python))
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["DISTFOREST_SCRATCH"] = f"{scratch}/scratch"
        folder = (options.folder or Path(scratch)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        place = Place(folder, QUICK if options.quick else FULL, peers)
        print(f"# URerF{' (quick)' if options.quick else ''}\n\n{machine()}\n\n{peers.facts()}\n", flush=True)
        for name in options.only or SECTIONS:
            taken, _ = timed(lambda name=name: SECTIONS[name](place))  # type: ignore[misc]
            print(f"({name}: {taken:.0f} s)\n", flush=True)


if __name__ == "__main__":
    main()
