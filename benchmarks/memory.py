"""Memory: the peak of a fresh process that runs a job, against the projection of the plan.

``python benchmarks/memory.py FOLDER THREADS`` runs the job whose inputs are pickled in a folder, which is what
`section` starts. The peak is that of the new process, as the receipts of a job tell it.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measurement import mib, print_table

from distforest.growth.methods import METHODS
from distforest.growth.parameters import complete
from distforest.jobs.cluster import Threads
from distforest.jobs.input_staging import from_data
from distforest.jobs.shards import peak_bytes
from distforest.jobs.train import Options, fit
from distforest.stores.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distforest.growth.problem import Data
    from distforest.jobs.cluster import Progress

    Case = tuple[str, Data, dict[str, Any]]

TASKS_PER_THREAD = 3


def section(cases: Mapping[str, Case], threads: tuple[int, ...]) -> None:
    """Measure each case, a method with its data and parameters, and print the table."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DISTFOREST_SCRATCH"] = f"{folder}/scratch"
        for number, (name, (method, data, params)) in enumerate(cases.items()):
            for n in threads:
                own = Path(folder) / f"{number}-{n}"
                own.mkdir()
                wanted = {"n_estimators": TASKS_PER_THREAD * n, **params}
                inputs = from_data(data, method, complete(METHODS[method].parameters, wanted), 3, str(own / "inputs"))
                (own / "inputs.pickle").write_bytes(pickle.dumps(inputs))
                staged = sum(part.n_bytes for part in (inputs.matrix, inputs.truth, inputs.pairs) if part)
                rows.append([name, str(n), mib(staged), *_cells(_peaks(own, n))])
    head = ["job", "threads", "staged", "peak while growing", "peak", "projected", "peak / projected"]
    print_table(head, rows)
    print("Staged inputs are memory maps; the pages that were read count in the peak.\n", flush=True)


def _peaks(folder: Path, threads: int) -> dict[str, int]:
    """Run the job of a folder in a fresh process; its answer."""
    command = [sys.executable, __file__, str(folder), str(threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    answer: dict[str, int] = json.loads(done.stdout)
    return answer


def _cells(peaks: dict[str, int]) -> list[str]:
    ratio = f"**{peaks['peak'] / peaks['projected']:.2f}**"
    return [mib(peaks["growing"]), mib(peaks["peak"]), mib(peaks["projected"]), ratio]


def run(folder: Path, threads: int) -> dict[str, int]:
    """Run the job of a folder here; the peaks of this process, and the plan's projection."""
    growing = 0

    def watch(progress: Progress) -> None:
        nonlocal growing
        if progress.name == "grow":
            growing = peak_bytes()

    inputs = pickle.loads((folder / "inputs.pickle").read_bytes())
    job = Folder(str(folder / "job"))
    fitted = fit(inputs, str(folder / "forest.zarr"), job, Threads(threads), Options(watch=watch))
    return {"growing": growing, "peak": peak_bytes(), "projected": fitted.projected_bytes}


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), int(sys.argv[2]))))
