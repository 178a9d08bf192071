"""Against the peers, in one command: quality, seconds and memory on the same data, beside packages that do the same.

::

    pip install 'distforest[examples]'
    python benchmarks/against_peers.py                           everything (about a quarter of an hour)
    python benchmarks/against_peers.py --quick                   two seeds, the small sets
    python benchmarks/against_peers.py --only metric-learn aeon  some comparisons
    python benchmarks/against_peers.py --update-docs             docs/against-peers.json, and the pages made of it

The environment of each peer is made with venv and pip at the first run (about 2 GB in all) and found again later;
``--environments`` says where. A peer that cannot be installed is named in the output with the reason. What is compared
is in `comparisons.py`, how each method is called in `contenders.py`. stdout is Markdown, stderr is progress.

For each seed the methods run in turn, another one first each time, each in a process of its own that is kept for the
comparison, with the same number of threads. A first run on the first set and on the last is not counted: it compiles.
Quality is computed here, for all in one way. The peak is that of the process during the run, its packages included.
Ratios and differences are of the same seed. With so few seeds, "ahead" says no more than that it was so each time.
Linux only, as memory is read from ``/proc``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from comparisons import COMPARISONS
from measurement import machine
from peer_environments import PeerEnvironment, environment_of, own_environment
from peers import Peer, PeerEnded
from standing import environment_line, filled, section, summary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from comparisons import Comparison, Method, Trial

    Answer = dict[str, Any]

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = DOCS / "against-peers.json"
PAGES = (DOCS / "compare.md", DOCS / "which-method.md")
KEPT = Path.home() / ".cache" / "distforest" / "peers"
OURS = "distforest"
LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
QUICK_SEEDS = 2


@dataclass(frozen=True)
class Effort:
    """How often, in how many threads, on which sets."""

    seeds: int
    threads: int
    quick: bool

    def sets(self, comparison: Comparison) -> tuple[str, ...]:
        """The sets of a comparison."""
        return comparison.quick_sets if self.quick else comparison.sets

    @property
    def variables(self) -> dict[str, str]:
        """The variables that hold a process to as many threads."""
        return dict.fromkeys(LIMITS, str(self.threads))


class Ring:
    """The contenders of a comparison, each in its process; to be used in a ``with`` statement."""

    def __init__(self, comparison: Comparison, environments: Mapping[str, PeerEnvironment], effort: Effort) -> None:
        self.comparison, self.effort = comparison, effort
        self.peers: dict[str, Peer] = {}
        self.failed: dict[str, str] = {}
        self.open_ = ExitStack()
        self.folder = Path(self.open_.enter_context(tempfile.TemporaryDirectory()))
        for method in comparison.methods:
            own = environments[method.environment or OURS]
            if own.python is None:
                self.failed[method.name] = f"could not be installed: {own.failed}"
                continue
            self.peers[method.name] = self.open_.enter_context(Peer(own.python, effort.variables))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.open_.close()

    def run(self, method: Method, trial: Trial, seed: int) -> Answer:
        """What a method costs, and how good it is by each measure; or why it ``failed``."""
        if method.name in self.failed:
            return {"failed": self.failed[method.name]}
        given, found = str(self.folder / "given.npz"), str(self.folder / "found.npz")
        np.savez(given, X=trial.X, y=trial.y, X_test=trial.X_test)
        how = {"seed": seed, "threads": self.effort.threads, "params": method.params}
        asked = {"asked": self.comparison.asked, "checked": self.comparison.checked}
        try:
            answer = self.peers[method.name].ask(
                "contend", contender=method.contender, given=given, found=found, how=how, **asked
            )
        except PeerEnded:
            self.failed[method.name] = "its process ended"
            return {"failed": self.failed[method.name]}
        if "failed" in answer:
            return answer
        with np.load(found) as arrays:
            answer["quality"] = {measure.name: measure.of(trial, arrays) for measure in self.comparison.measures}
        return answer


def measured(comparison: Comparison, environments: Mapping[str, PeerEnvironment], effort: Effort) -> Answer:
    """The results of a comparison, as `standing` describes them."""
    sets: dict[str, Any] = {}
    names = {OURS, *(method.environment or OURS for method in comparison.methods)}
    told = {
        name: {"versions": own.versions()} if own.failed is None else {"failed": own.failed}
        for name, own in environments.items()
        if name in names
    }
    with Ring(comparison, environments, effort) as ring:
        warm_up(ring, effort)
        for name in effort.sets(comparison):
            sets[name] = on_set(ring, name, effort)
    return {
        "title": comparison.title,
        "text": comparison.text,
        "machine": machine(),
        "threads": effort.threads,
        "seeds": list(range(effort.seeds)),
        "environments": told,
        "sets": sets,
    }


def warm_up(ring: Ring, effort: Effort) -> None:
    """Let each contender run once on the first and on the last set: what is compiled for many rows is, too."""
    sets = effort.sets(ring.comparison)
    for name in dict.fromkeys((sets[0], sets[-1])):
        trial = ring.comparison.trial(name, effort.seeds)
        for method in ring.comparison.methods:
            progress(ring.comparison.title, "warm-up", name, method.name)
            ring.run(replace(method, params={**method.params, **method.warm_up}), trial, effort.seeds)


def on_set(ring: Ring, name: str, effort: Effort) -> Answer:
    """The results of all methods on a set."""
    methods = ring.comparison.methods
    runs: dict[str, list[Answer]] = {method.name: [] for method in methods}
    for seed in range(effort.seeds):
        trial = ring.comparison.trial(name, seed)
        first = seed % len(methods)
        for method in methods[first:] + methods[:first]:
            progress(ring.comparison.title, name, f"seed {seed}", method.name)
            runs[method.name].append(ring.run(method, trial, seed))
    n_rows = len(trial.X) if trial.X is trial.X_test else len(trial.X) + len(trial.X_test)
    own = {method.name: {"side": method.side, **together(runs[method.name])} for method in methods}
    return {"rows": n_rows, "columns": trial.X.shape[1], "methods": own}


def together(runs: Sequence[Answer]) -> Answer:
    """The runs of all seeds as lists; of a method that failed with one of them, that it has."""
    failed = [run["failed"] for run in runs if "failed" in run]
    if failed:
        return {"failed": failed[0]}
    lists = {name: [run[name] for run in runs] for name in ("fit_seconds", "answer_seconds", "peak_bytes")}
    return {"quality": {name: [run["quality"][name] for run in runs] for name in runs[0]["quality"]}, **lists}


def progress(*words: str) -> None:
    """Say how far it is."""
    print(", ".join(words), file=sys.stderr, flush=True)


def update_docs(results: Mapping[str, Any]) -> None:
    """Write the file of results and the pages that are made of it."""
    pages = {page: filled(page.read_text(), results) for page in PAGES}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    for page, text in pages.items():
        page.write_text(text)


def parser_of_options() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(description="distforest beside its peers: quality, seconds and memory.")
    parser.add_argument("--only", nargs="+", choices=COMPARISONS, metavar="NAME", help=f"of {', '.join(COMPARISONS)}")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SEEDS} seeds, the small sets")
    parser.add_argument("--seeds", type=int, default=3, help="splits and seeds of each method (3)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each method (1)")
    parser.add_argument("--environments", type=Path, default=KEPT, metavar="FOLDER", help=f"keep them here ({KEPT})")
    parser.add_argument(
        "--results", type=Path, metavar="JSON", help="keep results here, beside those of other comparisons"
    )
    parser.add_argument("--update-docs", action="store_true", help=f"as --results {RESULTS.name}, and fill docs' pages")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Make environments, measure, print, and keep what was found."""
    parser = parser_of_options()
    options = parser.parse_args(arguments)
    if options.quick and options.update_docs:
        parser.error("--update-docs shows whole measurements: leave out --quick")
    if min(options.seeds, options.threads) < 1:
        parser.error("--seeds and --threads must be at least 1")
    effort = Effort(QUICK_SEEDS if options.quick else options.seeds, options.threads, options.quick)
    wanted = [name for name in COMPARISONS if name in (options.only or COMPARISONS)]
    needed = {method.environment: None for name in wanted for method in COMPARISONS[name].methods if method.environment}
    folder = options.environments.expanduser().absolute()
    environments = {OURS: own_environment(), **{name: environment_of(name, folder) for name in needed}}

    print(f"# Against the peers{' (quick)' if options.quick else ''}\n\n{machine()}\n", flush=True)
    for name, own in environments.items():
        versions = {"versions": own.versions()} if own.failed is None else {"failed": own.failed}
        print(f"- {environment_line(name, versions)}", flush=True)
    kept = RESULTS if options.update_docs else options.results
    known: dict[str, Any] = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
    found = {}
    for name in wanted:
        found[name] = measured(COMPARISONS[name], environments, effort)
        print(f"\n## {found[name]['title']}\n\n{section(found[name])}", flush=True)
        known = {each: found.get(each, known.get(each)) for each in COMPARISONS if each in found or each in known}
        if kept is not None:
            kept.write_text(json.dumps(known, indent=1) + "\n")
    print(f"\n## Summary\n\n{summary(found)}", flush=True)
    if options.update_docs:
        update_docs(known)


if __name__ == "__main__":
    main()
