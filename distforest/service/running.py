"""Running a job: a thread of the service plans and waits, while tasks on workers do all the work.

::

    stage -> survey -> (screen) -> grow, grow, ... -> lay out -> merge, merge, ... -> seal

It is the same `distforest.jobs.train.fit` (or `distforest.jobs.score.score`) as on a laptop, with the service's client
as its cluster. A run that ends with its scheduler leaves its shards, and the next service starts the same run again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING

from distforest.errors import CancelledJobError, DistforestError, InputError, JobError
from distforest.growth.methods import GROWTH
from distforest.jobs.any_spec import AnySpec, addresses_of, functions_of, n_trees_of, spec_from_json
from distforest.jobs.cluster import Work, error_in_words
from distforest.jobs.inputs import Inputs
from distforest.jobs.on_dask import OnDask
from distforest.jobs.overheard import overheard
from distforest.jobs.preview import check_and_stage
from distforest.jobs.score import score
from distforest.jobs.score_spec import ScoreSpec
from distforest.jobs.spec import Spec
from distforest.jobs.stop import SIGN, Stop
from distforest.jobs.train import Options, fit
from distforest.jobs.tune import CellGroup, stage_grid, tune
from distforest.jobs.tune_spec import TuneSpec
from distforest.service.claims import claim_of, give_back
from distforest.service.leading import LeadTask, event_of, fit_result, lead, options_of, score_result, tune_result
from distforest.service.registry import CANCELLED, FAILED, SUCCEEDED, WORK
from distforest.sources.staged_arrays import STAGED_INPUTS
from distforest.stores.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distributed import Client

    from distforest.jobs.scratch_room import HostWorkers
    from distforest.service.job import Job
    from distforest.service.messages import JobResult, StateChanges
    from distforest.service.policy import Policy
    from distforest.service.registry import Registry
    from distforest.stores.claims import Claim

ATTEMPTS, PAUSE = 4, 0.5
"""How often a run is tried if its store or connection fails; seconds before a second try, doubled at each try."""

UNSTEADY = (OSError, CancelledError, TimeoutError)
"""Errors that may not recur at another try."""


class ClosingError(Exception):
    """The service closes; its jobs stay as they are for the next service."""


@dataclass(frozen=True)
class ServiceContext:
    """What all running jobs of a service share; ``busy`` says which other work keeps the workers from a job."""

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
        """Take the number of the workers' threads; raises the error that ends the run."""
        if self.context.closing.is_set():
            raise ClosingError
        if self.job.is_cancelled:
            raise CancelledJobError("the job was cancelled")
        self.job.attend(threads, self.context.busy(self.job.id))
        self._since = None if threads else self._since or time.monotonic()
        waited, most = time.monotonic() - (self._since or time.monotonic()), self.context.no_workers_timeout
        if most is not None and waited > most:
            raise JobError(f"no worker came in {most:g} s; start some, and resume the job")


@dataclass(frozen=True)
class StageTask:
    """A spec whose inputs a worker checks and stages, the job's folder, the memory of a worker, and all by hosts."""

    spec: Spec
    folder: str
    memory_limit: int | None
    hosts: Mapping[str, HostWorkers] | None = None

    def __str__(self) -> str:
        return "the inputs"


def stage_there(task: StageTask) -> tuple[Inputs, list[str]]:
    """Check and stage the inputs of a job on the worker of this task; also returns the warnings."""
    with _while_wanted(task.folder), overheard() as warnings:
        return check_and_stage(task.spec, task.folder, task.memory_limit, task.hosts), warnings


@dataclass(frozen=True)
class GridTask:
    """As `StageTask`, of a tuning job."""

    spec: TuneSpec
    folder: str
    memory_limit: int | None
    hosts: Mapping[str, HostWorkers] | None = None

    def __str__(self) -> str:
        return "the inputs"


def stage_grid_there(task: GridTask) -> tuple[list[CellGroup], list[str]]:
    """Check and stage the inputs of a tuning job on the worker of this task; also returns the warnings."""
    with _while_wanted(task.folder), overheard() as warnings:
        return stage_grid(task.spec, task.folder, task.memory_limit, task.hosts), warnings


@contextmanager
def _while_wanted(folder: str) -> Iterator[None]:
    """Remove what a block has staged in a job's working folder, if the job was told to stop meanwhile.

    Dask does not stop a running task, so what it stages may come after all else was removed.
    """
    try:
        yield
    finally:
        try:
            Stop(folder.removesuffix(f"/{WORK}")).check()
        except CancelledJobError:
            staged = Folder(folder)
            staged.within(STAGED_INPUTS).remove()
            if not staged.names():  # of a job that has failed, trees are kept
                staged.remove()
            raise


def run_job(job: Job, context: ServiceContext) -> None:
    """Run a job until it has ended; its end is on disk when this returns, if the store answers."""
    _run(job, context)
    if job.has_ended:
        job.save(context.registry, at_once=True)
        give_back(context.registry, job.state)


def _run(job: Job, context: ServiceContext) -> None:
    """Run a job; an error becomes its state."""
    job.begin(context.service)
    try:
        result = _with_retries(job, context)
    except CancelledJobError:
        _clean_up(job, context)
        job.end(CANCELLED, "the job was cancelled; nothing of it is kept")
    except ClosingError:
        job.note("interrupted", "the service has stopped; the next one resumes this job")
    except BaseException as error:
        if context.closing.is_set():
            job.note("interrupted", "the service has stopped; the next one resumes this job")
            return
        if not isinstance(error, (DistforestError, *UNSTEADY)):
            logging.getLogger("distforest").exception("job %s", job.id, extra={"job": job.id})
        message = str(error) if isinstance(error, DistforestError) else error_in_words(error)
        _write_sign(job, context)
        job.end(FAILED, message, error={"kind": type(error).__name__, "message": message})
    else:
        _clean_up(job, context)
        job.warn(result.pop("warnings", ()))
        last: StateChanges = {"result": result, "phase": None}
        if "n_trees" in result:
            last |= {"done": result["n_trees"], "total": result["n_trees"]}
        job.end(SUCCEEDED, f"{job.state['output']} is complete", **last)


def _with_retries(job: Job, context: ServiceContext) -> JobResult:
    """Run a job, again if its store or its connection has failed; what is committed is not repeated."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _work(job, context)
        except UNSTEADY as error:
            if attempt == ATTEMPTS or isinstance(error, DistforestError) or context.closing.is_set():
                raise
            job.note("running", f"the job is taken up again after {error!r}")
            job.meters.store_errors.labels("run").inc()
            job.count("retries")
            context.closing.wait(PAUSE * 2**attempt)
    raise AssertionError("unreachable")


def _work(job: Job, context: ServiceContext) -> JobResult:
    job.set(phase="stage", done=0, total=0, rate=0.0, remaining=None)
    text = context.registry.spec(job.id)
    if text is None:
        raise InputError("the job has no spec.json (any more); submit it again")
    spec = spec_from_json(text)
    check_allowed(spec, context.policy)
    method, priority = getattr(spec, "method", "score"), float(spec.run.priority)
    cluster = OnDask(context.client, job.id, WorkerWatch(job, context), method, priority)
    work = context.registry.folder(job.id).within(WORK)
    claim = claim_of(context.registry, job.id, spec.output)
    claim.take()  # an older service may have accepted the job without one, or somebody has removed it
    if functions_of(spec):
        task = LeadTask(spec, work.address, job.id, claim, GROWTH, cluster.priority)
        [result] = cluster.each(lead, [task], Work("lead", spec.run.retries, first=True))
        return result
    if isinstance(spec, ScoreSpec):
        return _score(job, spec, cluster, work, claim)
    if isinstance(spec, TuneSpec):
        return _tune(job, spec, cluster, work, claim)
    return _fit(job, spec, cluster, work, claim)


def check_allowed(spec: AnySpec, policy: Policy) -> None:
    """Refuse a spec that names something the operator does not allow; raises SpecError with all faults."""
    policy.check(addresses_of(spec), functions_of(spec), n_trees_of(spec))


def _fit(job: Job, spec: Spec, cluster: OnDask, work: Folder, claim: Claim) -> JobResult:
    task = StageTask(spec, work.address, cluster.memory_limit, cluster.hosts)
    [(inputs, warnings)] = cluster.each(stage_there, [task], Work("stage", spec.run.retries, first=True))
    job.warn(warnings)
    return fit_result(fit(inputs, spec.output, work, cluster, _options(job, spec, work, claim)))


def _tune(job: Job, spec: TuneSpec, cluster: OnDask, work: Folder, claim: Claim) -> JobResult:
    task = GridTask(spec, work.address, cluster.memory_limit, cluster.hosts)
    [(groups, warnings)] = cluster.each(stage_grid_there, [task], Work("stage", spec.run.retries, first=True))
    job.warn(warnings)
    tuned = tune(spec, groups, work, cluster, _options(job, spec, work, claim))
    return tune_result(tuned)


def _options(job: Job, spec: Spec, work: Folder, claim: Claim) -> Options:
    """How a job that grows trees runs."""
    sign = work.address.removesuffix(f"/{WORK}")
    return replace(
        options_of(spec),
        watch=job.watch,
        on_answer=lambda answer: job.note(**event_of(answer)),
        stop=sign,
        claim=claim,
    )


def _score(job: Job, spec: ScoreSpec, cluster: OnDask, work: Folder, claim: Claim) -> JobResult:
    with overheard() as warnings:
        done = score(spec.question(), spec.output, cluster, spec.run.overwrite, job.watch, work, claim)
    return score_result(done, warnings)


def _write_sign(job: Job, context: ServiceContext) -> None:
    """Write the sign that stops trees of the job that may still grow somewhere."""
    try:
        context.registry.folder(job.id).write(SIGN, b"")
    except OSError as error:
        logging.getLogger("distforest").warning("job %s: %r", job.id, error, extra={"job": job.id})


def _clean_up(job: Job, context: ServiceContext) -> None:
    """Remove everything of a job but the files that readers need."""
    _write_sign(job, context)
    try:
        context.registry.folder(job.id).within(WORK).remove()
    except OSError as error:
        logging.getLogger("distforest").warning("job %s: %r", job.id, error, extra={"job": job.id})
