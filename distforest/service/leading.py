"""Jobs that ask a user's function: one worker leads, and the function is called on all of them.

Growth is cheap where a similarity is dear, so all trees grow on the worker that leads, which holds the ledger. If it
dies another one leads, and what was paid for is in the ledger.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from distributed import get_worker, worker_client

from distforest.jobs.any_spec import AnySpec
from distforest.jobs.folder import Folder
from distforest.jobs.inputs import stage_inputs
from distforest.jobs.on_dask import OnDask
from distforest.jobs.score import score
from distforest.jobs.score_spec import ScoreSpec
from distforest.jobs.stop import Stop
from distforest.jobs.train import Options, fit

if TYPE_CHECKING:
    from distforest.jobs.cluster import Progress

TOPIC = "distforest-progress"
"""Of the events by which a worker that leads tells how far it is."""

SECONDS = 1.0
"""Between two of them."""


@dataclass(frozen=True)
class Lead:
    """A job's spec, its working folder, and its name."""

    spec: AnySpec
    folder: str
    job: str

    def __str__(self) -> str:
        return "the job as a whole"


def lead(task: Lead) -> dict[str, Any]:
    """Run a job on the worker that is asked, with all workers for a cluster; its result."""
    spec, folder = task.spec, Folder(task.folder)
    stop = Stop(task.folder.rsplit("/", 1)[0])
    watch = _Telling(task.job, stop)
    with worker_client() as client:
        cluster = OnDask(client, task.job, lambda _threads, _seconds: stop.check())
        if isinstance(spec, ScoreSpec):
            done = score(spec.question(), spec.output, cluster, spec.run.overwrite, watch, folder)
            shapes = {name: list(shape) for name, shape in done.shapes.items()}
            return {"output": done.address, "digest": done.digest, "arrays": shapes}
        own = spec.run
        options = Options(own.batch, own.retries, own.overwrite, own.keep_shards, watch, stop=stop.address)
        fitted = asdict(fit(stage_inputs(spec, folder.address), spec.output, folder, cluster, options))
        return {"forest": fitted.pop("address"), **fitted}


class _Telling:
    """A watcher on a worker: tells the scheduler how far the job is, and stops where the sign is."""

    def __init__(self, job: str, stop: Stop) -> None:
        self._job, self._stop, self._next = job, stop, 0.0

    def __call__(self, progress: Progress) -> None:
        """Tell, if it is time or the run is at its end."""
        if time.monotonic() < self._next and progress.done < progress.total:
            return
        self._next = time.monotonic() + SECONDS
        self._stop.check()
        get_worker().log_event(TOPIC, {"job": self._job, **asdict(progress)})
