"""The main job from end to end on the real data that ships with the package: `distforest quickstart`.

Two jobs. Links of the Lazega law firm: a SMERF learns from the attributes of 70 % of the lawyers how near two of them
are in the co-work network, and says how near the others are. Ionosphere: a SimForest learns from the similarities of
70 % of the radar returns which are good, and classifies the others. Both go the whole way: files to Zarr by `ingest`,
TOML specs, training on one cluster of processes, sealed forests, and scores to Zarr by a process that has seen
nothing but the sealed forest.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from rich.console import Console
from rich.table import Table

from distforest.console import progress
from distforest.errors import DistforestError, InputError, JobError
from distforest.jobs.cluster import local_cluster
from distforest.jobs.folder import Folder
from distforest.jobs.inputs import stage_inputs
from distforest.jobs.spec import Spec
from distforest.jobs.train import Options, fit
from distforest.metrics import average_precision, roc_auc
from distforest.sources.arrays import open_array
from distforest.sources.ingest import ingest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.jobs.cluster import OnDask

MARK = "quickstart.json"
"""The file that makes a folder a quickstart folder: written first, and at the end with the results."""

MADE = ("data", "forests", "scores", "lazega.toml", "ionosphere.toml", "quickstart.png")
"""What else a quickstart puts into its folder, and removes when it runs there again; nothing else is removed."""

TRAINING_SHARE = 0.7
SCORE_SECONDS = 300
"""A scoring process that takes longer has failed."""

SPECS = {
    "lazega": """\
# The links of the Lazega law firm, learned by a SMERF: distforest fit {folder}/lazega.toml
format = 1
method = "smerf"
seed = {seed}
output = "{folder}/forests/lazega.zarr"

[input]
features = "{folder}/data/lazega-train.zarr/X"
distances = {{ kind = "graph", adjacency = "{folder}/data/lazega-train.zarr/A" }}

[params]
n_estimators = 500
min_samples_split = 4
""",
    "ionosphere": """\
# Good and bad radar returns, told apart by a SimForest: distforest fit {folder}/ionosphere.toml
format = 1
method = "simforest"
seed = {seed}
output = "{folder}/forests/ionosphere.zarr"

[input]
labels = "{folder}/data/ionosphere-train.zarr/y"
similarity = {{ kind = "rbf", features = "{folder}/data/ionosphere-train.zarr/X" }}

[params]
n_estimators = 500
""",
}


@dataclass
class Steps:
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
            The system refused something: a file, a process, memory.
        """
        print(f"[{len(self.seconds) + 1}/{self.total}] {name}", file=self.stream, flush=True)
        start = time.perf_counter()
        try:
            yield
        except (DistforestError, OSError, subprocess.SubprocessError) as error:
            raise JobError(f"quickstart: {name}: {error}") from error
        self.seconds[name] = time.perf_counter() - start


@dataclass(frozen=True)
class LinkData:
    """The links: which lawyers were held out, which pairs are scored, and which of these are linked."""

    adjacency: np.ndarray
    held_out: np.ndarray
    pairs: np.ndarray
    linked: np.ndarray


def run(folder: str = "quickstart", workers: int | None = None, seed: int = 7) -> dict[str, Any]:
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
        What `show` prints, as JSON: seed, the results ``"lazega"`` and ``"ionosphere"``, seconds of each step,
        and the picture's path, or None where matplotlib is not installed.

    Raises
    ------
    InputError
        There is something at ``folder`` that is no quickstart; it is left alone.
    JobError
        A step failed; the message says which.
    """
    home = _fresh(Path(folder))
    steps = Steps(sys.stderr, total=7)
    with steps.step("split the data, and ingest it to Zarr"):
        (home / "data").mkdir()
        links = split_links(home / "data", seed)
        labels = split_returns(home / "data", seed)
    with steps.step("start a cluster of processes"), local_cluster(workers) as cluster:
        n_workers = cluster.slots
        steps_before = dict(steps.seconds)
    del steps_before, n_workers
    return {"links": links, "labels": labels}
