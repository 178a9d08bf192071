"""The main job from end to end on the real data that ships with the package: ``distforest quickstart``.

Links of the Lazega law firm: a SMERF learns from the attributes of 70 % of the lawyers how near two of them are in
the co-work network, and says how near the others are. Ionosphere: a SimForest learns from the similarities of 70 %
of the radar returns which are good, and classifies the others. Both go the whole way: files to Zarr by `ingest`,
TOML specs, training on one cluster of processes, sealed forests, and scores in Zarr from a fresh process that has
nothing but the sealed forest.
"""

from __future__ import annotations

import importlib.util
import json
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from rich.console import Console
from rich.table import Table

from distforest.command_line.console import progress
from distforest.errors import DistforestError, InputError, JobError
from distforest.evaluation.metrics import average_precision, roc_auc
from distforest.jit import COMPILE
from distforest.jobs.cluster import Work
from distforest.jobs.inputs import stage_inputs
from distforest.jobs.on_dask import local_cluster
from distforest.jobs.spec import Spec
from distforest.jobs.train import Options, fit
from distforest.sources.arrays import open_array
from distforest.sources.files.ingest import ingest
from distforest.stores.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from distforest.jobs.cluster import Cluster
    from distforest.jobs.inputs import Inputs

MARK = "quickstart.json"
"""The file that makes a folder a quickstart folder: written first, and at the end with the results."""

MADE = ("data", "forests", "scores", "lazega.toml", "ionosphere.toml", "quickstart.png")
"""What else a quickstart puts into its folder, and removes when it runs there again; nothing else is removed."""

TRAINING_SHARE = 0.7
SCORE_SECONDS = 300
"""A scoring process that takes longer has failed."""

SPECS = {
    "lazega": """\
# The links of the Lazega law firm, learned by a SMERF. Train it with: distforest fit
format = 1
method = "smerf"
seed = {seed}
output = {output}

[input]
features = {features}
distances = {{ kind = "graph", adjacency = {truth} }}

[params]
n_estimators = 500
min_samples_split = 4
""",
    "ionosphere": """\
# Good and bad radar returns, told apart by a SimForest. Train it with: distforest fit
format = 1
method = "simforest"
seed = {seed}
output = {output}

[input]
similarity = {{ kind = "rbf", features = {features} }}
labels = {truth}

[params]
n_estimators = 500
""",
}
TRUTHS = {"lazega": "A", "ionosphere": "y"}


@dataclass
class QuickstartSteps:
    """The steps of a run: announced when they begin, timed, and named where one fails."""

    stream: TextIO
    total: int
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Run a step; an error in it is told with its name.

        Raises
        ------
        JobError
            The step failed.
        """
        print(f"[{len(self.seconds) + 1}/{self.total}] {name}", file=self.stream, flush=True)
        start = time.perf_counter()
        try:
            yield
        except (DistforestError, OSError, subprocess.SubprocessError) as error:
            raise JobError(f"quickstart, {name}: {error}") from error
        self.seconds[name] = time.perf_counter() - start


def run_quickstart(folder: str = "quickstart", workers: int | None = None, seed: int = 7) -> dict[str, Any]:
    """Train, seal, reopen and score two forests on real data.

    Parameters
    ----------
    folder
        Where to put everything. A quickstart that is there already is replaced.
    workers
        Processes of the embedded cluster; the number of cores, at most 4, by default.
    seed
        Of the splits and of the forests.

    Returns
    -------
    dict
        What `show` prints, as JSON: the results ``"lazega"`` and ``"ionosphere"``, the seconds of each step,
        and the path of the picture, or None where matplotlib is not installed.

    Raises
    ------
    InputError
        There is something at ``folder`` that is no quickstart; it is left alone.
    JobError
        A step failed; the message says which.
    """
    home = fresh_folder(folder)
    steps = QuickstartSteps(sys.stderr, total=8)
    with steps.step("split the data and ingest it to Zarr"):
        split_links(home, seed)
        split_returns(home, seed)
        lazega, ionosphere = job(home, "lazega", seed), job(home, "ionosphere", seed)
    with ExitStack() as stack:
        with steps.step("start a cluster of processes"):
            cluster = stack.enter_context(local_cluster(workers))
        with steps.step(COMPILE):
            compile_kernels([lazega, ionosphere], cluster)
        with steps.step("train a SMERF on links of lawyers"):
            links = train(lazega, cluster)
        with steps.step("train a SimForest on radar returns"):
            returns = train(ionosphere, cluster)
        n_workers = cluster.slots
    with steps.step("score the links in a fresh process"):
        links |= score_links(home, links["digest"])
    with steps.step("score the radar returns in a fresh process"):
        returns |= score_returns(home, returns["digest"])
    with steps.step("draw the picture"):
        picture = draw(home)
    found = {"folder": str(home), "seed": seed, "workers": n_workers, "lazega": links, "ionosphere": returns}
    found |= {"seconds": steps.seconds, "picture": picture}
    _mark(home, found)
    return found


def fresh_folder(folder: str) -> Path:
    """Make the folder, or empty it of an earlier quickstart.

    Raises
    ------
    InputError
        Something else is there.
    """
    home = Path(folder)
    try:
        if home.exists() and any(home.iterdir()) and not (home / MARK).is_file():
            raise InputError(f"{folder}: is not empty and no quickstart folder; name another one")
        home.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InputError(f"{folder}: a folder was expected, found a file; name another one") from error
    for path in (home / name for name in MADE):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    _mark(home, {})
    for name in ("data", "forests", "scores"):
        (home / name).mkdir()
    return home


def _mark(home: Path, results: dict[str, Any]) -> None:
    content = {"made_by": "distforest quickstart", "complete": bool(results), **results}
    Folder(str(home)).write(MARK, json.dumps(content, indent=2).encode())


# --- data -------------------------------------------------------------------------------------------------


def _shipped(name: str) -> dict[str, np.ndarray]:
    """Load a data set of the package."""
    with (
        resources.as_file(resources.files("distforest") / "data" / f"{name}.npz") as path,
        np.load(path, allow_pickle=False) as stored,
    ):
        return dict(stored)


def _put(home: Path, name: str, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays as a file, and ingest it."""
    file = home / "data" / f"{name}.npz"
    np.savez(file, allow_pickle=False, **arrays)
    ingest(str(file), str(file.with_suffix(".zarr")))


def _split(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Deal n items out to training and test, each in ascending order."""
    order = np.random.default_rng(seed).permutation(n)
    n_training = round(TRAINING_SHARE * n)
    return np.sort(order[:n_training]), np.sort(order[n_training:])


def split_links(home: Path, seed: int) -> None:
    """Split the lawyers, as the SMERF paper does for link prediction: by nodes.

    The scored pairs are all that no training row knows of: of two held-out nodes, or of one and a training node.
    """
    stored = _shipped("lazega")
    features, adjacency = stored["X"], stored["A"]
    training, test = _split(len(features), seed)
    _put(home, "lazega-train", {"X": features[training], "A": adjacency[np.ix_(training, training)]})
    held_out = np.zeros(len(features), np.uint8)
    held_out[test] = 1
    pairs = np.argwhere(np.triu(held_out[:, None] | held_out, 1))
    linked = adjacency[pairs[:, 0], pairs[:, 1]]
    nodes = {"X": features, "A": adjacency, "held_out": held_out, "pairs": pairs, "linked": linked}
    _put(home, "lazega-test", nodes)


def split_returns(home: Path, seed: int) -> None:
    """Split the radar returns by rows; standardise them by the mean and deviation of the training part."""
    stored = _shipped("ionosphere")
    training, test = _split(len(stored["X"]), seed)
    mean, deviation = stored["X"][training].mean(axis=0), stored["X"][training].std(axis=0)
    features = (stored["X"] - mean) / np.where(deviation > 0, deviation, 1.0)
    for part, rows in (("train", training), ("test", test)):
        arrays = {"X": features[rows], "y": stored["y"][rows], "classes": stored["classes"]}
        _put(home, f"ionosphere-{part}", arrays)


# --- training and scoring ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class QuickstartJob:
    """A spec, and its staged inputs."""

    spec: Spec
    inputs: Inputs

    @property
    def folder(self) -> Folder:
        """The job's folder."""
        return Folder(f"{self.spec.output}.job")


def job(home: Path, name: str, seed: int) -> QuickstartJob:
    """Write the spec of a forest, read it back, and stage what it names."""
    data, truth = home / "data" / f"{name}-train.zarr", TRUTHS[name]
    addresses = {"output": home / "forests" / f"{name}.zarr", "features": data / "X", "truth": data / truth}
    quoted = {key: json.dumps(str(address), ensure_ascii=False) for key, address in addresses.items()}
    path = home / f"{name}.toml"
    path.write_text(SPECS[name].format(seed=seed, **quoted), encoding="utf-8")
    spec = Spec.from_toml(path)
    return QuickstartJob(spec, stage_inputs(spec, f"{spec.output}.job"))


def grow_one(inputs: Inputs) -> None:
    """Grow a tree that is not kept: the kernels that it needs are compiled, or found in the cache."""
    inputs.problem().grow(np.arange(1))


def compile_kernels(jobs: Sequence[QuickstartJob], cluster: Cluster) -> None:
    """Compile the kernels of the jobs on the cluster, so that training shows its own pace."""
    with progress() as watch:
        cluster.each(grow_one, [own.inputs for own in jobs], Work("compile", watch=watch))


def train(own: QuickstartJob, cluster: Cluster) -> dict[str, Any]:
    """Train and seal a forest."""
    with progress() as watch:
        done = fit(own.inputs, own.spec.output, own.folder, cluster, Options(watch=watch))
    return {
        "method": own.spec.method,
        "digest": done.digest,
        "n_trees": done.n_trees,
        "n_training": own.inputs.matrix.shape[0],
    }


def ask(home: Path, name: str, answer: str, *options: str) -> str:
    """Ask a sealed forest about its test rows, in a process of its own; returns the forest's digest.

    Raises
    ------
    JobError
        The process failed; with what it said.
    """
    command = [
        *(sys.executable, "-m", "distforest", "score"),
        *(str(home / "forests" / f"{name}.zarr"), str(home / "data" / f"{name}-test.zarr" / "X")),
        *(str(home / "scores" / f"{name}-{answer}.zarr"), "--answer", answer),
        *("--threads-here", "1", "--json", *options),
    ]
    done = subprocess.run(  # noqa: S603  (this interpreter, and paths of our own)
        command, capture_output=True, text=True, timeout=SCORE_SECONDS, check=False
    )
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or ["nothing"]
        raise JobError(f"the scoring process ended with exit code {done.returncode}; it said last: {said[0]}")
    return str(json.loads(done.stdout)["digest"])


def _same_forest(digests: set[str], sealed: str) -> None:
    if digests != {sealed}:
        raise JobError(f"the forest {sealed} was sealed, found {', '.join(sorted(digests))} when it was opened")


def _test(home: Path, name: str, array: str) -> np.ndarray:
    return np.asarray(open_array(str(home / "data" / f"{name}-test.zarr" / array))[...])


def _scores(home: Path, name: str, array: str) -> np.ndarray:
    return np.asarray(open_array(str(home / "scores" / f"{name}.zarr" / array))[...])


def score_links(home: Path, digest: str) -> dict[str, Any]:
    """Score the held-out pairs, and all nodes against all for the picture."""
    data = home / "data" / "lazega-test.zarr"
    found = {
        ask(home, "lazega", "pairs", "--pairs", str(data / "pairs")),
        ask(home, "lazega", "distance", "--reference", str(data / "X")),
    }
    _same_forest(found, digest)
    linked, distance = _test(home, "lazega", "linked"), _scores(home, "lazega-pairs", "distance")
    return {
        "n_held_out": int(_test(home, "lazega", "held_out").sum()),
        "n_pairs": len(linked),
        "share_of_links": float(linked.mean()),
        "auc_roc": roc_auc(linked, -distance),
        "auc_pr": average_precision(linked, -distance),
    }


def score_returns(home: Path, digest: str) -> dict[str, Any]:
    """Score the held-out rows, and their distances to each other for the picture."""
    rows = str(home / "data" / "ionosphere-test.zarr" / "X")
    _same_forest({ask(home, "ionosphere", "proba"), ask(home, "ionosphere", "distance", "--reference", rows)}, digest)
    labels, shares = _test(home, "ionosphere", "y"), _scores(home, "ionosphere-proba", "proba")
    return {
        "n_held_out": len(labels),
        "share_of_majority": float(max(labels.mean(), 1.0 - labels.mean())),
        "accuracy": float((shares.argmax(axis=1) == labels).mean()),
        "auc_roc": roc_auc(labels, shares[:, 1]),
    }


# --- showing ----------------------------------------------------------------------------------------------


def draw(home: Path) -> str | None:
    """Draw what the forests have learned; returns the picture's path, None where matplotlib is missing."""
    if importlib.util.find_spec("matplotlib") is None:
        print("      no picture: matplotlib is not installed (pip install 'distforest[plot]')", file=sys.stderr)
        return None
    from distforest.pictures import plotting  # noqa: PLC0415  (matplotlib is optional)

    held_out = _test(home, "lazega", "held_out")
    links = plotting.Links(
        _test(home, "lazega", "A"),
        _scores(home, "lazega-distance", "distance"),
        held_out,
        _test(home, "lazega", "linked"),
        _scores(home, "lazega-pairs", "distance"),
        f"SMERF: who works with whom among {len(held_out)} lawyers, {int(held_out.sum())} of them held out",
    )
    names: Any = open_array(str(home / "data" / "ionosphere-test.zarr" / "y")).attrs["classes"]
    labels = _test(home, "ionosphere", "y")
    returns = plotting.Classes(
        _scores(home, "ionosphere-distance", "distance"),
        labels,
        list(names),
        f"SimForest: forest distances of {len(labels)} held-out radar returns",
    )
    path = home / "quickstart.png"
    plotting.overview(links, returns).savefig(path, dpi=130)
    return str(path)


def show(found: dict[str, Any], stream: TextIO) -> None:
    """Print the results of `run_quickstart` as tables, and what to try next."""
    console = Console(file=stream)
    console.print(_results(found["lazega"], found["ionosphere"]))
    seconds = Table(title="Seconds", title_justify="left", title_style="bold")
    seconds.add_column("step")
    seconds.add_column("s", justify="right")
    for name, taken in found["seconds"].items():
        seconds.add_row(name, f"{taken:.1f}")
    seconds.add_section()
    seconds.add_row("all", f"{sum(found['seconds'].values()):.1f}")
    console.print(seconds)
    folder = shlex.quote(found["folder"])
    for line in (
        f"picture: {found['picture'] or 'none, matplotlib is not installed'}",
        f"next:    distforest inspect {folder}/forests/lazega.zarr",
        f"         distforest fit {folder}/lazega.toml --set seed=8 --overwrite",
    ):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _results(links: dict[str, Any], returns: dict[str, Any]) -> Table:
    table = Table(title="Held-out results", title_justify="left", title_style="bold")
    for name in ("", "links of Lazega", "ionosphere"):
        table.add_column(name)
    share, majority = f"{links['share_of_links']:.3f}", f"{returns['share_of_majority']:.3f}"
    rows = (
        ("method", f"SMERF, {links['n_trees']} trees", f"SimForest, {returns['n_trees']} trees"),
        ("trained on", f"{links['n_training']} lawyers", f"{returns['n_training']} radar returns"),
        ("scored", f"{links['n_pairs']} pairs with {links['n_held_out']} others", f"{returns['n_held_out']} others"),
        ("AUC-ROC (chance 0.5)", f"{links['auc_roc']:.3f}", f"{returns['auc_roc']:.3f}"),
        (f"AUC-PR (chance {share})", f"{links['auc_pr']:.3f}", ""),
        (f"accuracy (majority {majority})", "", f"{returns['accuracy']:.3f}"),
        ("digest", links["digest"][:16], returns["digest"][:16]),
    )
    for row in rows:
        table.add_row(*row)
    return table
