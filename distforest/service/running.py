"""Running a job: a thread of the service plans and waits, while tasks on workers do all the work.

::

    stage -> survey -> (screen) -> grow, grow, ... -> lay out -> merge, merge, ... -> seal

It is the same `distforest.jobs.train.fit` (or `distforest.jobs.score.score`) as on a laptop, with the service's client
as its cluster. A run that ends with its scheduler leaves its shards, and the next service starts the same run again.

A job that evaluates a user's function is led by one worker, and all workers call the function. If a similarity is
expensive, growth is cheap by comparison, so all trees grow on the leading worker, which has the ledger. If it dies,
another worker leads, and finds the evaluated pairs in the ledger.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any

from distributed import get_worker, worker_client

from distforest.errors import CancelledJobError, DistforestError, JobError
from distforest.growth.methods import GROWTH
from distforest.jobs.any_spec import AnySpec, addresses_of, functions_of, n_trees_of, spec_from_json
from distforest.jobs.cluster import Lost, Work, error_in_words
from distforest.jobs.on_dask import OnDask
from distforest.jobs.preview import check_and_stage
from distforest.jobs.score import score
from distforest.jobs.score_spec import ScoreSpec
from distforest.jobs.spec import Spec
from distforest.jobs.stop import SIGN, Stop
from distforest.jobs.train import Options, fit
from distforest.jobs.tune import stage_grid, tune
from distforest.jobs.tune_spec import TuneSpec
from distforest.jobs.versions import check_own_growth
from distforest.jobs.warning_capture import captured_warnings
from distforest.service.job import LOG
from distforest.service.registry import CANCELLED, FAILED, SUCCEEDED, WORK
from distforest.sources.staged_arrays import STAGED_INPUTS
from distforest.stores.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from distributed import Client

    from distforest.jobs.cluster import Progress
    from distforest.jobs.score import Scored
    from distforest.jobs.scratch_room import HostWorkers
    from distforest.jobs.shards import Receipt
    from distforest.jobs.train import Fitted
    from distforest.jobs.tune import TunedForest
    from distforest.service.job import Job
    from distforest.service.messages import JobNote, JobResult, StateChanges
    from distforest.service.policy import Policy
    from distforest.service.registry import Registry
    from distforest.stores.claims import Claim

ATTEMPTS, PAUSE = 4, 0.5
"""Number of tries of a run whose store or connection fails; seconds before the second try, doubled at each try."""

TOPIC, ANSWER_TOPIC = "distforest-progress", "distforest-answer"
"""Topics of Dask events in which a leading worker reports its progress and the answers of its tasks."""

TELLING_SECONDS = 1.0
"""Seconds between two reports of progress."""

UNSTEADY = (OSError, CancelledError, TimeoutError)
"""Errors that may not recur at another try."""


class ClosingError(Exception):
    """The service closes, and leaves its jobs to the next service."""


@dataclass(frozen=True)
class ServiceContext:
    """The context that all running jobs of a service share; ``busy`` describes the work that a job waits for."""

    registry: Registry
    client: Client
    policy: Policy
    service: str
    no_workers_timeout: float | None = None
    busy: Callable[[str], str | None] = lambda _job: None
    closing: Event = field(default_factory=Event)


@dataclass
class WorkerWatch:
    """Checks for one running job whether it must stop, and whether there are workers."""

    job: Job
    context: ServiceContext
    _since: float | None = None

    def __call__(self, threads: int, _seconds: float) -> None:
        """Raise the error that ends the run, if there is one; ``threads`` is the number of the workers' threads."""
        if self.context.closing.is_set():
            raise ClosingError
        if self.job.is_cancelled:
            raise CancelledJobError("the job was cancelled")
        self.job.attend(threads, self.context.busy(self.job.id))
        self._since = None if threads else self._since or time.monotonic()
        waited, most = time.monotonic() - (self._since or time.monotonic()), self.context.no_workers_timeout
        if most is not None and waited > most:
            raise JobError(f"no worker connected within {most:g} s; start some, and resume the job")


@dataclass(frozen=True)
class StageTask:
    """A spec whose inputs a worker checks and stages, the job's folder, the memory of a worker, and workers by host."""

    spec: Spec
    folder: str
    memory_limit: int | None
    hosts: Mapping[str, HostWorkers] | None = None

    def __str__(self) -> str:
        return "the inputs"


def stage_there(task: StageTask) -> tuple[Any, list[str]]:
    """Check and stage the inputs of a job, or of a tuning job's cells, on the worker of this task; return warnings too.

    Staged inputs are removed if the job was cancelled meanwhile: Dask does not stop a running task, so they may appear
    after everything else was removed.
    """
    try:
        with captured_warnings() as warnings:
            stage: Any = stage_grid if isinstance(task.spec, TuneSpec) else check_and_stage
            return stage(task.spec, task.folder, task.memory_limit, task.hosts), warnings
    finally:
        try:
            Stop(task.folder.removesuffix(f"/{WORK}")).check()
        except CancelledJobError:
            staged = Folder(task.folder)
            staged.within(STAGED_INPUTS).remove()
            if not staged.names():  # the trees of a failed job are kept
                staged.remove()
            raise


def run_job(job: Job, context: ServiceContext) -> None:
    """Run a job until it has ended; if the store answers, its end is on disk when this returns.

    An error becomes the state of the job.
    """
    job.begin(context.service)
    try:
        result = _with_retries(job, context)
    except CancelledJobError:
        _clean_up(job, context)
        job.end(CANCELLED, "the job was cancelled; its work is discarded")
    except BaseException as error:  # noqa: BLE001  (any error becomes the job's state)
        if isinstance(error, ClosingError) or context.closing.is_set():
            job.note("interrupted", "the service has stopped; the next one resumes this job")
            return
        if not isinstance(error, (DistforestError, *UNSTEADY)):
            LOG.exception("job %s", job.id, extra={"job": job.id})
        message = str(error) if isinstance(error, DistforestError) else error_in_words(error)
        _clean_up(job, context, keeps_work=True)
        job.end(FAILED, message, error={"kind": type(error).__name__, "message": message})
    else:
        _clean_up(job, context)
        job.warn(result.pop("warnings", ()))
        last: StateChanges = {"result": result, "phase": None}
        if "n_trees" in result:
            last |= {"done": result["n_trees"], "total": result["n_trees"]}
        job.end(SUCCEEDED, f"{job.state['output']} is complete", **last)
    job.save(context.registry, at_once=True)
    context.registry.release_output(job.state)


def _with_retries(job: Job, context: ServiceContext) -> JobResult:
    """Run a job, again if its store or its connection has failed; committed tasks are not repeated."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _work(job, context)
        except UNSTEADY as error:
            if attempt == ATTEMPTS or isinstance(error, DistforestError) or context.closing.is_set():
                raise
            job.note("running", f"the job is tried again after {error!r}")
            job.meters.store_errors.labels("run").inc()
            job.count("retries")
            context.closing.wait(PAUSE * 2**attempt)
    raise AssertionError("unreachable")


def _work(job: Job, context: ServiceContext) -> JobResult:
    job.set(phase="stage", done=0, total=0, rate=0.0, remaining=None)
    spec = spec_from_json(context.registry.own_spec(job.id))
    check_allowed(spec, context.policy)
    method, priority = getattr(spec, "method", "score"), float(spec.run.priority)
    cluster = OnDask(context.client, job.id, WorkerWatch(job, context), method, priority, placement=spec.run.placement)
    work = context.registry.folder(job.id).within(WORK)
    claim = context.registry.claim(job.id, spec.output)
    claim.take()  # an older service may have accepted the job without a claim, or the claim was removed
    if functions_of(spec):
        task = LeadTask(spec, work.address, job.id, claim, GROWTH, cluster.priority)
        [result] = cluster.each(lead, [task], Work("lead", spec.run.retries, first=True))
        return result
    if isinstance(spec, ScoreSpec):
        with captured_warnings() as warnings:
            done = score(spec.question(), spec.output, cluster, spec.run.overwrite, job.watch, work, claim)
        return score_result(done, warnings)
    return _grow(job, spec, cluster, work, claim)


def check_allowed(spec: AnySpec, policy: Policy) -> None:
    """Refuse a spec that names something the operator does not allow; raise SpecError with all faults."""
    policy.check(addresses_of(spec), functions_of(spec), n_trees_of(spec))


def _grow(job: Job, spec: Spec, cluster: OnDask, work: Folder, claim: Claim) -> JobResult:
    task = StageTask(spec, work.address, cluster.memory_limit, cluster.hosts)
    [(staged, warnings)] = cluster.each(stage_there, [task], Work("stage", spec.run.retries, first=True))
    job.warn(warnings)

    def note(answer: Receipt | Lost) -> None:
        job.note(**event_of(answer, next((reply.worker for reply in cluster.latest if reply.answer is answer), None)))

    sign = work.address.removesuffix(f"/{WORK}")
    options = replace(options_of(spec), watch=job.watch, on_answer=note, stop=sign, claim=claim)
    if isinstance(spec, TuneSpec):
        return tune_result(tune(spec, staged, work, cluster, options))
    return fit_result(fit(staged, spec.output, work, cluster, options))


def _clean_up(job: Job, context: ServiceContext, keeps_work: bool = False) -> None:
    """Write the sign that stops the job's remaining trees on workers, and remove all that no reader needs."""
    folder = context.registry.folder(job.id)
    steps: list[Callable[[], object]] = [partial(folder.write, SIGN, b"")]
    for step in steps if keeps_work else [*steps, folder.within(WORK).remove]:
        try:
            step()
        except OSError as error:  # the next step runs anyway
            LOG.warning("job %s: %r", job.id, error, extra={"job": job.id})


# --- a job that is led by a worker -----------------------------------------------------------------------


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
    """Run a job on the worker of this task, with all workers as its cluster; return the result."""
    spec, folder = task.spec, Folder(task.folder)
    if not isinstance(spec, ScoreSpec):
        check_own_growth(task.growth)
    stop = Stop(task.folder.rsplit("/", 1)[0])
    watch = _ProgressReport(task.job, stop)
    with worker_client() as client, captured_warnings() as warnings:
        method = getattr(spec, "method", "score")
        cluster = OnDask(client, task.job, lambda _threads, _seconds: stop.check(), method, task.priority)
        cluster = replace(cluster, placement=spec.run.placement)
        if isinstance(spec, ScoreSpec):
            asked, overwrite = spec.question(), spec.run.overwrite
            return score_result(score(asked, spec.output, cluster, overwrite, watch, folder, task.claim), warnings)
        options = replace(options_of(spec), watch=watch, on_answer=watch.on_answer, stop=stop.address, claim=task.claim)
        inputs = check_and_stage(spec, folder.address, cluster.memory_limit, cluster.hosts)
        return fit_result(fit(inputs, spec.output, folder, cluster, options), warnings)


class _ProgressReport:
    """A watcher on a worker that reports progress to the scheduler, and stops the job when its sign appears."""

    def __init__(self, job: str, stop: Stop) -> None:
        self._job, self._stop, self._next = job, stop, 0.0

    def __call__(self, progress: Progress) -> None:
        """Report progress if it is due or the run has ended."""
        if time.monotonic() < self._next and progress.done < progress.total:
            return
        self._next = time.monotonic() + TELLING_SECONDS
        self._stop.check()
        get_worker().log_event(TOPIC, {"job": self._job, **asdict(progress)})

    def on_answer(self, answer: Receipt | Lost) -> None:
        """Report the receipt of a task, or its loss."""
        get_worker().log_event(ANSWER_TOPIC, {"job": self._job, "event": event_of(answer, get_worker().address)})


# --- events and results -----------------------------------------------------------------------------------


def event_of(answer: Receipt | Lost, worker: str | None = None) -> JobNote:
    """Return the event for a task's answer that a worker has sent."""
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
    """Return the options of a fit that its spec sets."""
    earlier = spec.output if spec.run.grow_on else None
    return Options(spec.run.batch, spec.run.retries, spec.run.overwrite, spec.run.keep_shards, earlier=earlier)


def fit_result(done: Fitted, warnings: Sequence[str] = ()) -> JobResult:
    """Return the result of a fit; ``warnings`` are those of its staging."""
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
    """Return the result of a tuning job: the best forest's fit, the parameters of the best cell, and their score."""
    of_all: JobResult = {"n_grown": done.n_grown, "seconds": done.seconds, "warnings": list(done.warnings)}
    best: JobResult = {"best": done.grid.best_params_, "scoring": done.grid.scoring, "score": done.grid.best_score_}
    return {**fit_result(done.fitted), **of_all, **best}


def score_result(done: Scored, warnings: Sequence[str]) -> JobResult:
    """Return the result of a scoring job, with its ``warnings``."""
    shapes = {name: list(shape) for name, shape in done.shapes.items()}
    result: JobResult = {"output": done.address, "digest": done.digest, "arrays": shapes, "warnings": list(warnings)}
    return result if done.own is None else {**result, "sides": done.own.in_words}
