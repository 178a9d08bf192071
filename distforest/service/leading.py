"""Jobs that evaluate a user's function: one worker leads the job, and all workers call the function.

If a similarity is expensive, growth is cheap by comparison. So all trees grow on the leading worker, which holds the
ledger. If that worker dies, another one leads, and finds in the ledger what was evaluated.
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
    from distforest.jobs.tune import TunedForest
    from distforest.service.messages import JobNote, JobResult
    from distforest.stores.claims import Claim

TOPIC, ANSWER_TOPIC = "distforest-progress", "distforest-answer"
"""Topics of Dask events in which a leading worker reports its progress and the answers of its tasks."""

TELLING_SECONDS = 1.0
"""Seconds between two reports of progress."""


@dataclass(frozen=True)
class LeadTask:
    """A job's spec, working folder, id, and claim on its output; the service's version of the growth; a priority."""

    spec: AnySpec
    folder: str
    job: str
    claim: Claim
    growth: int = 1
    priority: float = 0.0

    def __str__(self) -> str:
        return "the job as a whole"


def lead(task: LeadTask) -> JobResult:
    """Run a job on the worker of this task, with all workers as its cluster; returns the result."""
    spec, folder = task.spec, Folder(task.folder)
    if not isinstance(spec, ScoreSpec):
        check_own_growth(task.growth)
    stop = Stop(task.folder.rsplit("/", 1)[0])
    watch = _ProgressReport(task.job, stop)
    with worker_client() as client, overheard() as warnings:
        method = getattr(spec, "method", "score")
        cluster = OnDask(client, task.job, lambda _threads, _seconds: stop.check(), method, task.priority)
        cluster = replace(cluster, placement=spec.run.placement)
        if isinstance(spec, ScoreSpec):
            asked, overwrite = spec.question(), spec.run.overwrite
            return score_result(score(asked, spec.output, cluster, overwrite, watch, folder, task.claim), warnings)
        options = replace(options_of(spec), watch=watch, on_answer=watch.on_answer, stop=stop.address, claim=task.claim)
        inputs = check_and_stage(spec, folder.address, cluster.memory_limit, cluster.hosts)
        return fit_result(fit(inputs, spec.output, folder, cluster, options), warnings)


def event_of(answer: Receipt | Lost, worker: str | None = None) -> JobNote:
    """The event for a task's answer, which a worker has sent, in words and numbers."""
    if isinstance(answer, Lost):
        return {"event": "quarantine", "message": f"{answer.why}; its trees are tried once more at the end, each alone"}
    trees = f"tree {answer.first} is" if answer.first == answer.last else f"trees {answer.first} to {answer.last} are"
    event: JobNote = {
        "event": "trees",
        "message": f"{trees} committed",
        "first": answer.first,
        "last": answer.last,
        "seconds": answer.seconds,
        "peak_bytes": answer.peak_bytes,
    }
    return {**event, "worker": worker} if worker else event


def options_of(spec: Spec) -> Options:
    """The options of a fit that its spec sets."""
    earlier = spec.output if spec.run.grow_on else None
    return Options(spec.run.batch, spec.run.retries, spec.run.overwrite, spec.run.keep_shards, earlier=earlier)


def fit_result(done: Fitted, warnings: Sequence[str] = ()) -> JobResult:
    """The result of a fit; ``warnings`` are those of its staging."""
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
        "warnings": [*warnings, *done.warnings],
    }


def tune_result(done: TunedForest) -> JobResult:
    """The result of a tuning job: that of the best forest's fit, the parameters of the best cell, and their score."""
    of_all: JobResult = {"n_grown": done.n_grown, "seconds": done.seconds, "warnings": list(done.warnings)}
    best: JobResult = {"best": done.grid.best_params_, "scoring": done.grid.scoring, "score": done.grid.best_score_}
    return {**fit_result(done.fitted), **of_all, **best}


def score_result(done: Scored, warnings: Sequence[str]) -> JobResult:
    """The result of a scoring; with its ``warnings``."""
    shapes = {name: list(shape) for name, shape in done.shapes.items()}
    result: JobResult = {"output": done.address, "digest": done.digest, "arrays": shapes, "warnings": list(warnings)}
    return result if done.own is None else {**result, "sides": done.own.told}


class _ProgressReport:
    """A watcher on a worker: reports progress to the scheduler, and stops the job when its sign appears."""

    def __init__(self, job: str, stop: Stop) -> None:
        self._job, self._stop, self._next = job, stop, 0.0

    def __call__(self, progress: Progress) -> None:
        """Report, if it is time or the run has ended."""
        if time.monotonic() < self._next and progress.done < progress.total:
            return
        self._next = time.monotonic() + TELLING_SECONDS
        self._stop.check()
        get_worker().log_event(TOPIC, {"job": self._job, **asdict(progress)})

    def on_answer(self, answer: Receipt | Lost) -> None:
        """Report the receipt of a task, or its loss."""
        get_worker().log_event(ANSWER_TOPIC, {"job": self._job, "event": event_of(answer, get_worker().address)})
