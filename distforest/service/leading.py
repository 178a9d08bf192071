"""Jobs that ask a user's function: one worker leads, and the function is called on all of them.

Growth is cheap where a similarity is expensive, so all trees grow on the worker that leads, which holds the ledger. If
it dies another one leads, and what was paid for is in the ledger.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from distributed import get_worker, worker_client

from distforest.jobs.any_spec import AnySpec
from distforest.jobs.cluster import Lost
from distforest.jobs.on_dask import OnDask
from distforest.jobs.overheard import overheard
from distforest.jobs.preview import check_and_stage
from distforest.jobs.score import Scored, score
from distforest.jobs.score_spec import ScoreSpec
from distforest.jobs.stop import Stop
from distforest.jobs.train import Fitted, Options, fit
from distforest.jobs.versions import check_own_growth
from distforest.stores.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.jobs.cluster import Progress
    from distforest.jobs.shards import Receipt
    from distforest.jobs.spec import Spec
    from distforest.service.messages import JobNote, JobResult
    from distforest.stores.claims import Claim

TOPIC, ANSWER_TOPIC = "distforest-progress", "distforest-answer"
"""Topics of the events in which a leading worker reports its progress and its tasks' answers."""

TELLING_SECONDS = 1.0
"""Between two of them."""


@dataclass(frozen=True)
class LeadTask:
    """A job's spec, its working folder, its name, its claim on its output, and the growth of who hands it out."""

    spec: AnySpec
    folder: str
    job: str
    claim: Claim
    growth: int = 1

    def __str__(self) -> str:
        return "the job as a whole"


def lead(task: LeadTask) -> JobResult:
    """Run a job on the worker that is asked, with all workers for a cluster; its result."""
    spec, folder = task.spec, Folder(task.folder)
    if not isinstance(spec, ScoreSpec):
        check_own_growth(task.growth)
    stop = Stop(task.folder.rsplit("/", 1)[0])
    watch = _ProgressReport(task.job, stop)
    with worker_client() as client, overheard() as told:
        cluster = OnDask(client, task.job, lambda _threads, _seconds: stop.check())
        if isinstance(spec, ScoreSpec):
            asked, overwrite = spec.question(), spec.run.overwrite
            return score_result(score(asked, spec.output, cluster, overwrite, watch, folder, task.claim), told)
        options = replace(options_of(spec), watch=watch, on_answer=watch.on_answer, stop=stop.address, claim=task.claim)
        inputs = check_and_stage(spec, folder.address, cluster.memory_limit)
        return fit_result(fit(inputs, spec.output, folder, cluster, options), told)


def event_of(answer: Receipt | Lost) -> JobNote:
    """What readers are told of a task's answer: an event, in words and numbers."""
    if isinstance(answer, Lost):
        return {"event": "quarantine", "message": f"{answer.why}; its trees are tried once more at the end, each alone"}
    told = f"tree {answer.first} is" if answer.first == answer.last else f"trees {answer.first} to {answer.last} are"
    return {
        "event": "trees",
        "message": f"{told} committed",
        "first": answer.first,
        "last": answer.last,
        "seconds": answer.seconds,
        "peak_bytes": answer.peak_bytes,
    }


def options_of(spec: Spec) -> Options:
    """How a spec wants its fit to run."""
    return Options(spec.run.batch, spec.run.retries, spec.run.overwrite, spec.run.keep_shards)


def fit_result(done: Fitted, told: Sequence[str] = ()) -> JobResult:
    """What readers are told of a forest that is sealed; with what was warned of before."""
    return {
        "forest": done.address,
        "digest": done.digest,
        "n_trees": done.n_trees,
        "n_grown": done.n_grown,
        "seconds": done.seconds,
        "growing_seconds": done.growing_seconds,
        "peak_bytes": done.peak_bytes,
        "projected_bytes": done.projected_bytes,
        "evaluations": done.evaluations,
        "closed": done.closed,
        "warnings": [*told, *done.warnings],
    }


def score_result(done: Scored, told: Sequence[str]) -> JobResult:
    """What readers are told of answers that are complete; with what was warned of before."""
    shapes = {name: list(shape) for name, shape in done.shapes.items()}
    return {"output": done.address, "digest": done.digest, "arrays": shapes, "warnings": list(told)}


class _ProgressReport:
    """A watcher on a worker: tells the scheduler how far the job is, and stops where the sign is."""

    def __init__(self, job: str, stop: Stop) -> None:
        self._job, self._stop, self._next = job, stop, 0.0

    def __call__(self, progress: Progress) -> None:
        """Tell, if it is time or the run is at its end."""
        if time.monotonic() < self._next and progress.done < progress.total:
            return
        self._next = time.monotonic() + TELLING_SECONDS
        self._stop.check()
        get_worker().log_event(TOPIC, {"job": self._job, **asdict(progress)})

    def on_answer(self, answer: Receipt | Lost) -> None:
        """Tell what a task has answered, or what is odd."""
        get_worker().log_event(ANSWER_TOPIC, {"job": self._job, "event": event_of(answer)})
