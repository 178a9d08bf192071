"""``distforest quickstart``: two jobs from end to end, on real data that ship with the package.

Links of the Lazega law firm: a SMERF learns the distance of two lawyers in the co-work network from the attributes of
70 % of the lawyers, and predicts the distances of the others. Ionosphere: a SimForest learns from the similarities of
70 % of the radar returns which returns are good, and classifies the others. Both take all steps: `ingest` converts
files to Zarr, TOML specs describe the jobs, one cluster of processes trains the forests, and new processes that read
only the sealed forests and the queries write the scores to Zarr.

While the cluster works, a thread imports the packages for scores and pictures, which takes about a second.
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import shlex
import shutil
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from rich.console import Console
from rich.table import Table

from distforest.errors import DistforestError, InputError, JobError
from distforest.jit import COMPILE
from distforest.jobs.cluster import Threads
from distforest.jobs.compilation import compile_kernels
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.on_dask import local_cluster
from distforest.jobs.progress import shown_progress
from distforest.jobs.question import Question
from distforest.jobs.score import score
from distforest.jobs.spec import Spec
from distforest.jobs.train import Options, fit
from distforest.process_end import end_sooner
from distforest.sources.arrays import open_array
from distforest.sources.files.ingest import ingest
from distforest.stores.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MARK = "quickstart.json"
"""File that marks a quickstart folder; it is written first, and again at the end with the results."""

MADE = ("data", "forests", "scores", "lazega.toml", "ionosphere.toml", "quickstart.png")
"""Other files and folders of a quickstart; a new run in the same folder removes only these."""

TRAINING_SHARE = 0.7
SCORE_SECONDS = 300
"""Time limit of the scoring processes, in seconds."""

N_SCORERS = 2
"""Number of processes that score."""

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
# Good and bad radar returns, classified by a SimForest. Train it with: distforest fit
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
"""Array with the ground truth of each data set."""

TRAINED = {"lazega": "a SMERF on links of lawyers", "ionosphere": "a SimForest on radar returns"}
"""Description of what each job trains."""

N_STEPS = 7


@contextmanager
def step(name: str, seconds: dict[str, float], stream: TextIO | None = None) -> Iterator[None]:
    """Announce a step, run it, and add how long it has taken to ``seconds``.

    Raises
    ------
    JobError
        The step failed; the message names it.
    """
    print(f"[{len(seconds) + 1}/{N_STEPS}] {name}", file=stream or sys.stderr, flush=True)
    start = time.perf_counter()
    try:
        yield
    except (DistforestError, OSError, BrokenProcessPool) as error:
        raise JobError(f"quickstart, {name}: {error}") from error
    seconds[name] = time.perf_counter() - start


def run_quickstart(folder: str = "quickstart", workers: int | None = None, seed: int = 7) -> dict[str, Any]:
    """Train, seal, reopen and score two forests on real data.

    Parameters
    ----------
    folder
        Folder of all files. An earlier quickstart in it is replaced.
    workers
        Number of processes of the embedded cluster; by default the number of cores, at most 4.
    seed
        Seed of the data splits and of the forests.

    Returns
    -------
    dict
        The results that `show` prints: the forests ``"lazega"`` and ``"ionosphere"`` with their scores, the seconds of
        each step, and the path of the picture, or None if matplotlib is not installed.

    Raises
    ------
    InputError
        ``folder`` contains something other than a quickstart; nothing is changed.
    JobError
        A step failed; the message names it.
    """
    home = fresh_folder(folder)
    seconds: dict[str, float] = {}
    with step("split the data and ingest it to Zarr", seconds):
        split_links(home, seed)
        split_returns(home, seed)
        specs = {name: _written_spec(home, name, seed) for name in SPECS}
        inputs = {name: stage_inputs(spec, f"{spec.output}.job") for name, spec in specs.items()}
    with ExitStack() as stack:
        with step("start a cluster of processes", seconds):
            cluster = stack.enter_context(local_cluster(workers))
        threading.Thread(target=import_measures, daemon=True).start()
        with step(COMPILE, seconds), shown_progress() as watch:
            compile_kernels(*inputs.values(), cluster=cluster, watch=watch)
        trained: dict[str, dict[str, Any]] = {}
        for name, spec in specs.items():
            with step(f"train {TRAINED[name]}", seconds), shown_progress() as watch:
                own = Folder(f"{spec.output}.job")
                done = fit(inputs[name], spec.output, own, cluster, Options(watch=watch))
            trained[name] = {
                "method": spec.method,
                "digest": done.digest,
                "n_trees": done.n_trees,
                "n_training": inputs[name].matrix.shape[0],
            }
        n_workers = cluster.slots
    with step("score the links and the radar returns in new processes", seconds):
        opened = score_apart(home, [*return_questions(home), *link_questions(home)])
        if opened != {one["digest"] for one in trained.values()}:
            raise JobError("the forests that were opened are not those that were sealed")
    with step("measure the scores and draw the picture", seconds):
        results = {
            "folder": str(home),
            "seed": seed,
            "workers": n_workers,
            "lazega": trained["lazega"] | link_scores(home),
            "ionosphere": trained["ionosphere"] | return_scores(home),
            "seconds": seconds,
            "picture": draw(home),
        }
    _mark(home, results)
    return results


def fresh_folder(folder: str) -> Path:
    """Create the folder, or remove an earlier quickstart from it.

    Raises
    ------
    InputError
        It contains something else, or is a file.
    """
    home = Path(folder)
    try:
        if home.exists() and any(home.iterdir()) and not (home / MARK).is_file():
            raise InputError(f"{folder}: expected an empty folder or an earlier quickstart; name another one")
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


def _mark(home: Path, results: Mapping[str, object]) -> None:
    """Write `MARK` with the results, which are empty at the start of a run."""
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
    """Split the numbers of n items at random into training and test, each in ascending order."""
    order = np.random.default_rng(seed).permutation(n)
    n_training = round(TRAINING_SHARE * n)
    return np.sort(order[:n_training]), np.sort(order[n_training:])


def split_links(home: Path, seed: int) -> None:
    """Split the lawyers, as the SMERF paper does for link prediction: by nodes.

    The scored pairs have at least one held-out node, so that no training pair is among them.
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
    """Split the radar returns by rows, and standardise them by mean and deviation of the training part."""
    stored = _shipped("ionosphere")
    training, test = _split(len(stored["X"]), seed)
    mean, deviation = stored["X"][training].mean(axis=0), stored["X"][training].std(axis=0)
    features = (stored["X"] - mean) / np.where(deviation > 0, deviation, 1.0)
    for part, rows in (("train", training), ("test", test)):
        arrays = {"X": features[rows], "y": stored["y"][rows], "classes": stored["classes"]}
        _put(home, f"ionosphere-{part}", arrays)


# --- training and scoring ---------------------------------------------------------------------------------


def _written_spec(home: Path, name: str, seed: int) -> Spec:
    """Write the spec of a forest, and read it back."""
    data, truth = home / "data" / f"{name}-train.zarr", TRUTHS[name]
    addresses = {"output": home / "forests" / f"{name}.zarr", "features": data / "X", "truth": data / truth}
    quoted = {key: json.dumps(str(address), ensure_ascii=False) for key, address in addresses.items()}
    path = home / f"{name}.toml"
    path.write_text(SPECS[name].format(seed=seed, **quoted), encoding="utf-8")
    return Spec.from_toml(path)


def import_measures() -> None:
    """Import the packages for scores and pictures, which is slow; a missing one is reported when it is needed."""
    with suppress(ImportError):
        importlib.import_module("sklearn.metrics")
        importlib.import_module("distforest.pictures.displays")


def link_questions(home: Path) -> list[Question]:
    """Return the questions for the distances of the held-out pairs and, for the picture, of all pairs of nodes."""
    forest, nodes = str(home / "forests" / "lazega.zarr"), home / "data" / "lazega-test.zarr"
    rows, pairs = str(nodes / "X"), str(nodes / "pairs")
    return [Question(forest, rows, "pairs", pairs=pairs), Question(forest, rows, "distance", reference=rows)]


def return_questions(home: Path) -> list[Question]:
    """Return the questions for the class shares of the held-out rows and, for the picture, their distances."""
    forest, rows = str(home / "forests" / "ionosphere.zarr"), str(home / "data" / "ionosphere-test.zarr" / "X")
    return [Question(forest, rows, "proba"), Question(forest, rows, "distance", reference=rows)]


def score_apart(home: Path, questions: Sequence[Question]) -> set[str]:
    """Answer questions in new processes, which get only the questions; return the digests of the forests.

    Raises
    ------
    DistforestError
        As `score`.
    BrokenProcessPool
        A process was killed.
    TimeoutError
        A process took more than `SCORE_SECONDS`.
    """
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(N_SCORERS, spawn, end_sooner) as pool:
        places = [str(home / "scores" / f"{Path(one.forest).stem}-{one.answer}.zarr") for one in questions]
        running = [pool.submit(score, one, place, Threads()) for one, place in zip(questions, places, strict=True)]
        try:
            return {future.result(SCORE_SECONDS).digest for future in running}
        except TimeoutError:
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _test(home: Path, name: str, array: str) -> np.ndarray:
    return np.asarray(open_array(str(home / "data" / f"{name}-test.zarr" / array))[...])


def _scores(home: Path, name: str, array: str) -> np.ndarray:
    return np.asarray(open_array(str(home / "scores" / f"{name}.zarr" / array))[...])


def link_scores(home: Path) -> dict[str, Any]:
    """Measure how well the distances of the held-out pairs predict the links."""
    from sklearn.metrics import average_precision_score, roc_auc_score  # noqa: PLC0415  (slow)

    linked, distance = _test(home, "lazega", "linked"), _scores(home, "lazega-pairs", "distance")
    return {
        "n_held_out": int(_test(home, "lazega", "held_out").sum()),
        "n_pairs": len(linked),
        "share_of_links": float(linked.mean()),
        "auc_roc": float(roc_auc_score(linked, -distance)),
        "auc_pr": float(average_precision_score(linked, -distance)),
    }


def return_scores(home: Path) -> dict[str, Any]:
    """Measure how well the class shares predict the labels of the held-out rows."""
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415  (slow)

    labels, shares = _test(home, "ionosphere", "y"), _scores(home, "ionosphere-proba", "proba")
    return {
        "n_held_out": len(labels),
        "share_of_majority": float(max(labels.mean(), 1.0 - labels.mean())),
        "accuracy": float((shares.argmax(axis=1) == labels).mean()),
        "auc_roc": float(roc_auc_score(labels, shares[:, 1])),
    }


# --- showing ----------------------------------------------------------------------------------------------


def draw(home: Path) -> str | None:
    """Draw the results of the forests; return the path of the picture, or None if matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        print("      no picture: matplotlib is not installed (pip install 'distforest[plot]')", file=sys.stderr)
        return None
    from distforest.pictures import charts, displays  # noqa: PLC0415  (matplotlib is optional)

    figure = charts.blank(14.0, 8.0)
    above, below = figure.subfigures(2, 1, squeeze=False)[:, 0]
    held_out, distance = _test(home, "lazega", "held_out"), _scores(home, "lazega-distance", "distance")
    who = f"among {len(held_out)} lawyers, {int(held_out.sum())} of them held out"
    above.suptitle(f"SMERF: who works with whom {who}", fontweight="bold")
    known, predicted, curve = above.subplots(1, 3)
    near = displays.ProximityDisplay.from_predictions(1.0 - distance, ax=predicted).clusters
    predicted.set_title("Predicted: 1 minus forest distance")
    known.imshow(_test(home, "lazega", "A")[np.ix_(near.order, near.order)], cmap="Blues")
    known.set(title="Known links, in the same order", xticks=[], yticks=[])
    scored = _scores(home, "lazega-pairs", "distance")
    displays.ROCDisplay.from_predictions(_test(home, "lazega", "linked"), scored, at=(), ax=curve)
    labels, distance = _test(home, "ionosphere", "y"), _scores(home, "ionosphere-distance", "distance")
    names = _shipped("ionosphere")["classes"][labels]
    below.suptitle(f"SimForest: forest distances of {len(labels)} held-out radar returns", fontweight="bold")
    matrix, spread, places = below.subplots(1, 3)
    displays.ProximityDisplay.from_predictions(1.0 - distance, n_clusters=2, ax=matrix)
    displays.DistancesDisplay.from_predictions(names, distance, ax=spread)
    displays.MapDisplay.from_predictions(names, distance, ax=places)
    path = home / "quickstart.png"
    figure.savefig(path, dpi=130)
    return str(path)


def show(results: Mapping[str, Any], stream: TextIO) -> None:
    """Print the results of `run_quickstart` as tables, and commands to try next."""
    links, returns = results["lazega"], results["ionosphere"]
    share, majority = f"{links['share_of_links']:.3f}", f"{returns['share_of_majority']:.3f}"
    held_out = _table(
        "Held-out results",
        ("", "links of Lazega", "ionosphere"),
        ("method", f"SMERF, {links['n_trees']} trees", f"SimForest, {returns['n_trees']} trees"),
        ("trained on", f"{links['n_training']} lawyers", f"{returns['n_training']} radar returns"),
        ("scored", f"{links['n_pairs']} pairs with {links['n_held_out']} others", f"{returns['n_held_out']} others"),
        ("AUC-ROC (chance 0.5)", f"{links['auc_roc']:.3f}", f"{returns['auc_roc']:.3f}"),
        (f"AUC-PR (chance {share})", f"{links['auc_pr']:.3f}", ""),
        (f"accuracy (majority {majority})", "", f"{returns['accuracy']:.3f}"),
        ("digest", links["digest"][:16], returns["digest"][:16]),
    )
    taken = [*results["seconds"].items(), ("all", sum(results["seconds"].values()))]
    console, folder = Console(file=stream), shlex.quote(results["folder"])
    console.print(held_out)
    console.print(_table("Seconds", ("step", "s"), *((name, f"{seconds:.1f}") for name, seconds in taken)))
    for line in (
        f"picture: {results['picture'] or 'none, matplotlib is not installed'}",
        f"next:    distforest inspect {folder}/forests/lazega.zarr",
        f"         distforest fit {folder}/lazega.toml --set seed=8 --overwrite",
    ):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _table(title: str, columns: Sequence[str], *rows: Sequence[str]) -> Table:
    table = Table(*columns, title=title, title_justify="left", title_style="bold")
    for row in rows:
        table.add_row(*row)
    return table
