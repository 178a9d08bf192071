"""TreeRank on the random trees of cells of its paper (Similarity TreeRank, section 6.4): every cell of table 1.

::

    python benchmarks/treerank_simulations.py                     one tree of single cuts, 100 runs of each cell
    python benchmarks/treerank_simulations.py --runs 10 --cells 3/3/0.5 3/1/0.5
    python benchmarks/treerank_simulations.py --leafrank-depth 3 --min-samples-leaf 5 --trees 44 --share 0.5

A cell of the table is depth of the truth / depth of the tree / share of similar pairs. Each run draws a new truth, a
training set of 150 (5/4)^(D^2) pairs for a truth of depth D in R^3, and 100,000 test pairs; D1 is the area between the
ROC curve of the test pairs and the best one, Dinf the greatest gap between them. Of a training set without one of the
two kinds nothing can be learnt: the curve is the diagonal.

stdout is JSON lines, one for each run and cell; stderr is the table with 95 % intervals of the means.

The paper's text and its programme differ in two things: see `simulations.treerank_truth`. The table was made by the
programme, and so it is here; ``--text`` draws the truth of the text. Its trees make single cuts, at any value and down
to single pairs: ``--leafrank-depth 1 --min-samples-leaf 1``, the defaults.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from measures import d1, d_infinity
from simulations import treerank_truth
from sklearn.metrics import roc_curve

from distforest import TreeRank
from distforest.evaluation.roc import ROC

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simulations import RankedPairs

N_TEST = 100_000
CHANCE = ROC(np.array([0.0, 1.0]), np.array([0.0, 1.0]))

PAPER = {
    "1/1/0.5": (0.00, 0.06),
    "2/2/0.5": (0.03, 0.20),
    "3/3/0.5": (0.07, 0.30),
    "4/4/0.5": (0.12, 0.43),
    "3/1/0.5": (0.21, 0.65),
    "3/2/0.5": (0.11, 0.43),
    "3/8/0.5": (0.06, 0.28),
    "3/3/0.1": (0.08, 0.31),
    "3/3/0.001": (0.42, 0.75),
    "3/3/0.0002": (0.45, 0.81),
}
"""Table 1: D1 and Dinf, by depth of the truth / depth of the tree / share of similar pairs."""


@dataclass(frozen=True)
class Cell:
    """A cell of the table."""

    true_depth: int
    depth: int
    p_plus: float

    @classmethod
    def of(cls, name: str) -> Cell:
        """From its name."""
        true_depth, depth, p_plus = name.split("/")
        return cls(int(true_depth), int(depth), float(p_plus))

    @property
    def n_train(self) -> int:
        """Pairs to learn from."""
        return int(150 * 1.25 ** (self.true_depth**2))


def curve(train: RankedPairs, test: RankedPairs, forest: TreeRank) -> ROC:
    """The ROC curve of the test pairs, ranked by what was learnt from the training pairs."""
    if train.similar.all() or not train.similar.any():
        return CHANCE
    m = len(train.left)
    pairs = np.stack([np.arange(m), np.arange(m, 2 * m)], axis=1)
    forest.fit_pairs(np.concatenate([train.left, train.right]), pairs, train.similar)
    return ROC(*roc_curve(test.similar, forest.pair_score(test.left, test.right))[:2])


def run(cell: Cell, number: int, settings: dict[str, Any], share: float, as_in_text: bool) -> dict[str, Any]:
    """One run of a cell; a tree draws a share of the training pairs."""
    rng = np.random.default_rng([number, cell.true_depth])  # one truth for all trees of that truth's depth
    noise = 0.01 if as_in_text else 0.01 ** (1 - 0.5**cell.true_depth)
    truth = treerank_truth(
        cell.true_depth, 3, noise, cell.p_plus, shuffled=not as_in_text, random_state=int(rng.integers(2**31))
    )
    train, test = truth.draw(cell.n_train, rng), truth.draw(N_TEST, rng)
    while test.similar.all() or not test.similar.any():
        test = truth.draw(N_TEST, rng)
    n_pairs = max(2, round(share * cell.n_train))
    found = curve(train, test, TreeRank(max_depth=cell.depth, n_pairs=n_pairs, random_state=number, **settings))
    distances = {"d1": d1(found, truth.optimal), "dinf": d_infinity(found, truth.optimal)}
    return {"run": number, "n_similar": int(train.similar.sum()), **distances}


def results(options: argparse.Namespace, settings: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The runs of each cell, printed as they come."""
    for name in options.cells:
        runs = []
        for number in range(options.runs):
            runs.append(run(Cell.of(name), number, settings, options.share, options.text))
            own = {"cell": name, **settings, "share": options.share, "text": options.text}
            print(json.dumps({**own, **runs[-1]}), flush=True)
        yield name, runs


def interval(values: Sequence[float]) -> str:
    """Mean, half the width of its 95 % interval (normal), and the standard deviation of a run."""
    if len(values) < 2:
        return f"{values[0]:.3f}"
    spread = statistics.stdev(values)
    return f"{statistics.mean(values):.3f} ± {1.96 * spread / math.sqrt(len(values)):.3f} ({spread:.2f})"


def parser_of_options() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(description="TreeRank on its paper's simulations: table 1.")
    parser.add_argument("--runs", type=int, default=100, help="of each cell (100)")
    parser.add_argument("--cells", nargs="+", default=list(PAPER), choices=list(PAPER), metavar="D_GT/D/P_PLUS")
    parser.add_argument("--trees", type=int, default=1, help="trees of a forest (1)")
    parser.add_argument("--share", type=float, default=1.0, help="share of the pairs that a tree draws (1)")
    parser.add_argument("--leafrank-depth", type=int, default=1, help="depth of the trees that part cells (1)")
    parser.add_argument("--min-samples-leaf", type=int, default=1, help="pairs on each side of a cut (1)")
    parser.add_argument("--max-features", type=float, help="share of the columns that a cut tries (all)")
    parser.add_argument("--region", default="diagonal", choices=("diagonal", "square"), help="what cuts look like")
    parser.add_argument("--text", action="store_true", help="the truth of the paper's text, not of its programme")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the cells and print the table."""
    options = parser_of_options().parse_args(arguments)
    settings = {
        "n_estimators": options.trees,
        "leafrank_depth": options.leafrank_depth,
        "min_samples_leaf": options.min_samples_leaf,
        "max_features": options.max_features,
        "region": options.region,
        "max_bins": None,
    }
    lines = []
    for name, runs in results(options, settings):
        own = [interval([one[measure] for one in runs]) for measure in ("d1", "dinf")]
        paper = PAPER[name]
        lines.append(f"| {name} | {paper[0]:.2f} | {own[0]} | {paper[1]:.2f} | {own[1]} |")
        print(lines[-1], file=sys.stderr, flush=True)
    header = "| D_gt/D/p+ | D1, paper | D1, mean ± 95 % (one run) | Dinf, paper | Dinf |\n|---|---|---|---|---|"
    print("\n" + "\n".join([header, *lines]), file=sys.stderr)


if __name__ == "__main__":
    main()
