"""The service, which accepts jobs, stores them, runs several at once, and answers calls about them.

It runs in the scheduler's event loop and does no work there: threads access the store, and workers access the data. Its
whole state is in the job root, so the next service continues where this one ended.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from distributed import Client

from distforest.amounts import are, counted
from distforest.errors import (
    AwayError,
    ConflictError,
    DistforestError,
    ExistsError,
    InputError,
    JobError,
    NotFoundError,
    SpecError,
)
from distforest.jobs.able_workers import warning_about_silent_workers
from distforest.jobs.any_spec import AnySpec, spec_from_json, spec_with
from distforest.jobs.preview import absent_inputs, faults_of_metadata, faults_on_a_worker
from distforest.jobs.spec import Spec
from distforest.jobs.stop import SIGN
from distforest.service.calls import new_id
from distforest.service.checkup import common_name, open_address
from distforest.service.job import LOG, Job, described, first_state
from distforest.service.lease import Lease, NotHeldError
from distforest.service.messages import JobFilter
from distforest.service.metrics import Metrics, silent_of
from distforest.service.queues import Queues
from distforest.service.records import STATE_VALUES
from distforest.service.registry import (
    CANCELLED,
    CANCELLING,
    ENDS,
    INTERRUPTED,
    QUEUED,
    SPEC,
    SUCCEEDED,
    WORK,
    Registry,
    UnreadableError,
    check_id,
    check_owner,
    unreadable,
)
from distforest.service.reporting import Reports
from distforest.service.running import ServiceContext, check_allowed, run_job
from distforest.service.watching import Turns, Watching
from distforest.stores.addresses import may_pass
from distforest.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from distributed import Scheduler
    from distributed.comm import Comm

    from distforest.service.messages import JobEvent, JobsAnswer, JobState, ServiceRecord, SubmitAnswer
    from distforest.service.policy import Policy

T = TypeVar("T")

Answered = dict[str, Any]
"""The answer to a call, by name."""

BEAT, LEASE_BEAT = 0.25, 2.0
"""Seconds between two writes of new events and states, and between two heartbeats of the service."""

CLOSING_SECONDS = 5.0
"""Time limit, in seconds, for running jobs to stop at a close, and for the thread of an ended job to finish."""

LOOK_SECONDS = 5.0
"""Time limit, in seconds, for reading the metadata of a job's inputs at its submission."""

MOST_FAULTS = 3
"""Largest number of faults in a message about a stored spec."""

STATE_KEYS = STATE_VALUES.keys() | {"state"}
"""Keys of a state that a service writes."""

CHANGES = ("submit", "cancel", "resume", "remove")
CALLS = (*CHANGES, "list", "status", "events", "health")
"""Names of the calls over the comm; those in ``CHANGES`` change something."""

EXTENSION = "distforest"
"""Name of the service among the scheduler's extensions, and prefix of its handlers' names."""


@dataclass(frozen=True)
class ServiceLimits:
    """The limits of a service: jobs that run at once, in all and by queue, and how long a job waits for a worker.

    If ``owners_only``, only the owner of a job and ``operators`` may cancel, resume or remove it.
    """

    max_running: int = 4
    no_workers_timeout: float | None = None
    queues: tuple[str, ...] = ()
    owners_only: bool = False
    operators: tuple[str, ...] = ()


@dataclass
class JobService:
    """The service for one job root."""

    scheduler: Scheduler
    registry: Registry
    policy: Policy
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    jobs: dict[str, Job] = field(default_factory=dict)
    failure: str | None = "the service is starting"
    context: ServiceContext | None = None
    meters: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        self.lease = Lease(self.registry, self.scheduler.address)
        self.registry = replace(self.registry, guard=self.lease.check_held)
        self.aside: dict[str, JobState] = {}
        self.queues = Queues(self.registry.folder(), self.limits.queues)
        self.turns, self.reports = Turns(), Reports()
        self._pool = ThreadPoolExecutor(self.limits.max_running, "distforest-job")
        self._running: dict[str, asyncio.Future[None]] = {}
        self._entry, self._queued = asyncio.Lock(), asyncio.Event()
        self._looping: asyncio.Task[None] | None = None
        self._is_replaced = False

    # --- life -------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take the lease of the job root, and queue all unfinished jobs in it.

        Raises
        ------
        ConflictError
            Another service is alive and serves the root.
        OSError
            The root cannot be written to.
        """
        for name in CALLS:
            self.scheduler.handlers[f"{EXTENSION}_{name}"] = self._handler(getattr(self, f"_{name}"), name in CHANGES)
        await self.lease.take()
        if not self.lease.excludes:
            what = "a store that does not compare before it writes, as far as is known: two services that are"
            how = "started at the same moment can both take it, for some seconds; start one after the other"
            LOG.warning("%s lies on %s %s", self.registry.root, what, how)
        if address := open_address(self.scheduler):
            what = "anyone who connects can run code here; start it with certificates, or with --host 127.0.0.1"
            LOG.warning("the scheduler listens to other hosts without TLS, at %s: %s", address, what)
        reading = asyncio.ensure_future(asyncio.to_thread(self._read_jobs))
        while not (await asyncio.wait([reading], timeout=LEASE_BEAT))[0]:
            await self._beat()
        await reading
        self.scheduler.add_plugin(Watching(self.jobs))
        self._looping = asyncio.create_task(self._loop())
        self._looping.add_done_callback(self._loop_ended)

    async def close(self) -> None:
        """Stop; the next service resumes the running jobs."""
        if self._looping is None:  # not started, or closed already
            return
        looping, self._looping, self.failure = self._looping, None, self.failure or "the service closes"
        looping.cancel()
        await asyncio.wait([looping])  # after this no job is started; a heartbeat may still be on its way, see `Lease`
        if self.context:
            self.context.closing.set()
        if self._running:
            await asyncio.wait(self._running.values(), timeout=CLOSING_SECONDS)
        if not self._is_replaced:
            await asyncio.to_thread(self._interrupt_jobs)
        if self.context:
            await asyncio.to_thread(self.context.client.close, CLOSING_SECONDS)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _read_jobs(self) -> None:
        """Read all jobs of the job root, and queue the unfinished ones, oldest first."""
        for name, found in self.registry.states():
            try:
                if (job := self._job_of_folder(name, found)) is not None:
                    self.jobs[name] = job
            except Exception as error:  # a folder with any content affects only its own job
                if isinstance(error, OSError) and may_pass(error, self.registry.root):
                    raise
                self.aside[name] = state = unreadable(name, error)
                LOG.warning("%s", state["error"] and state["error"]["message"], extra={"job": name})
        self._save()

    def _job_of_folder(self, name: str, state: JobState | UnreadableError | None) -> Job | None:
        """Return the job of a folder, None if the folder is not a job's; for an ended job only the state is read.

        An unfinished job is queued, and half-written files are removed from its folder.
        """
        if isinstance(state, UnreadableError):
            raise state
        if state is not None:
            state.pop("was", None)
            if state["state"] in ENDS and state.keys() >= STATE_KEYS:
                return Job(state, self.meters, n_written=None)
        self.registry.check_own(name)
        text = self.registry.spec(name)
        if text is None and state is None:
            return None
        if text is not None:
            state = {**first_state(name, self._known_spec(name, text), time.time()), **(state or {"id": name})}
        if state is None or not state.keys() >= STATE_KEYS:
            raise InputError("it has no spec.json, and its state.json is incomplete")
        job = Job(state, self.meters, n_written=self.registry.last_number(name))
        folder = self.registry.folder(name)
        folder.sweep()
        if job.state["state"] == CANCELLING:
            self._end_cancelled(job)
        elif not job.has_ended:
            folder.discard(SIGN)  # left by an end that the state does not record
            if job.state["state"] != QUEUED:
                job.note("resumed", "a new service resumes the job; committed tasks are not repeated")
                job.requeue()
        return job

    def _known_spec(self, name: str, text: str) -> AnySpec:
        try:
            return spec_from_json(text)
        except SpecError as error:
            faults = "; ".join(error.faults[:MOST_FAULTS])
            raise UnreadableError(f"{self.registry.folder(name).address}/{SPEC} is not a spec: {faults}") from error

    def _interrupt_jobs(self) -> None:
        for job in self.jobs.values():
            if job.is_at_work:
                job.set(state=INTERRUPTED, was=job.state["state"])
        self._save()
        try:
            self.lease.release()
        except OSError as error:
            LOG.warning("the lease could not be released: %r", error)

    async def _loop(self) -> None:
        connect = partial(Client, self.scheduler.address, security=self.scheduler.security, set_as_default=False)
        client = await asyncio.to_thread(connect)  # returns when all preloads of the scheduler are done
        timeout = self.limits.no_workers_timeout
        self.context = ServiceContext(self.registry, client, self.policy, self.lease.id, timeout, self.turns.why)
        beaten, self.failure = 0.0, None
        while True:
            if time.monotonic() - beaten >= LEASE_BEAT:  # first: a frozen service may have been replaced
                beaten = time.monotonic()
                if not await self._beat():
                    return
                await asyncio.to_thread(self.queues.read)
            self.turns.look(self.scheduler)
            self._start_queued(self.context)
            await asyncio.to_thread(self._save)
            with suppress(TimeoutError):  # nothing was queued, and no job has ended
                async with asyncio.timeout(BEAT):  # `wait_for` loses a cancel that arrives with the event
                    await self._queued.wait()
            self._queued.clear()

    def _loop_ended(self, loop: asyncio.Task[None]) -> None:
        """Record the error if the loop has failed: the health check then fails, and jobs are refused."""
        if not loop.cancelled() and (error := loop.exception()):
            self.failure = f"the service has failed: {error!r}"
            LOG.critical(self.failure, exc_info=error)

    async def _beat(self) -> bool:
        """Write a heartbeat; if another service has taken the lease, close the scheduler and return False."""
        try:
            await asyncio.to_thread(self.lease.beat)
        except JobError as error:
            self.failure, self._is_replaced = str(error), True
            LOG.critical("%s; this scheduler ends", error)
            self._ending = asyncio.create_task(self.scheduler.close(reason=self.failure))
            return False
        except OSError as error:
            self.meters.store_errors.labels("heartbeat").inc()
            LOG.warning("the job root does not answer: %r", error)
        return True

    def _save(self) -> None:
        if self._is_replaced:
            return
        for job in list(self.jobs.values()):
            job.save(self.registry)

    def _start_queued(self, context: ServiceContext) -> None:
        waiting = [job for job in self.jobs.values() if job.state["state"] == QUEUED and job.id not in self._running]
        at_work = Counter(self.jobs[name].state.get("queue") for name in self._running if name in self.jobs)
        for job in sorted(waiting, key=lambda job: (-job.state.get("priority", 0), job.state["submitted"])):
            queue = job.state.get("queue")
            why = self.queues.why(queue, at_work[queue])
            if why != job.state.get("waiting"):
                job.set(waiting=why)
            if why or len(self._running) >= self.limits.max_running:
                continue
            at_work[queue] += 1
            running = asyncio.get_running_loop().run_in_executor(self._pool, run_job, job, context)
            self._running[job.id] = running
            running.add_done_callback(partial(self._make_room, job.id))

    def _make_room(self, name: str, _running: asyncio.Future[None]) -> None:
        """Make room for the next job after one that ran."""
        self._running.pop(name, None)
        self._queued.set()

    # --- what readers see --------------------------------------------------------------------------------------

    def about(self) -> ServiceRecord:
        """Return the record of the service, with its workers and a text on those that are silent."""
        workers = self.scheduler.workers.values()
        threads = sum(worker.nthreads for worker in workers)
        silent = warning_about_silent_workers(silent_of(self.scheduler))
        return {**self.lease.record(), "workers": len(workers), "threads": threads, "silent": silent}

    def listed(self) -> list[JobState]:
        """Return all jobs, newest first."""
        jobs = list(self.jobs.values())  # a copy: while the service starts, a thread adds jobs
        jobs.sort(key=lambda job: (job.state["submitted"], job.id), reverse=True)
        return [*(self._with_workers(job.state) for job in jobs), *map(self._with_workers, list(self.aside.values()))]

    def job(self, name: str) -> JobState:
        """Return the state of a job; raise NotFoundError."""
        return self._with_workers(self.aside[name] if name in self.aside else self._existing(name).state)

    async def events(self, name: str, after: int = 0, limit: int = 1000) -> list[JobEvent]:
        """Return a job's events with greater numbers than ``after``; raise NotFoundError, or UnreadableError."""
        if name in self.aside:
            return []
        job = self._existing(name)
        if not self._is_replaced:
            await asyncio.to_thread(job.save, self.registry, True)
        return await asyncio.to_thread(self.registry.events, name, after, limit)

    async def metrics(self) -> bytes:
        """Return all metrics, as Prometheus reads them."""
        client = self.context and self.context.client
        return await self.meters.exposed(self.about(), self.listed(), self.failure is None, self.scheduler, client)

    async def report(self, name: str, run: list[tuple[str, str]]) -> str:
        """Return the report on a job's forest, as HTML, with these facts about its ``run``: see `Reports.of_job`."""
        job = self.job(name)
        return await self.reports.of_job(job, run, self._check_ready(self.context).client)

    def _check_ready(self, part: T | None) -> T:
        """Return a part of the service; raise AwayError if it is not there yet, or no longer."""
        if part is None:
            raise AwayError(f"{self.failure}; try again in a moment")
        return part

    def _with_workers(self, state: JobState) -> JobState:
        """Return a state as readers see it, with the number of workers."""
        return {**state, "workers": len(self.scheduler.workers)}

    def _existing(self, name: str) -> Job:
        if name in self.aside:
            error = self.aside[name]["error"]
            raise ConflictError(error["message"] if error else "")
        if name not in self.jobs:
            raise NotFoundError(f"there is no job {name!r} in {self.registry.root}; see `distforest list`")
        return self.jobs[name]

    # --- calls over the comm ------------------------------------------------------------------------------------

    def _handler(self, call: Callable[..., Awaitable[T]], passes_owner: bool) -> Callable[..., Awaitable[T | Answered]]:
        """Return a handler for the scheduler, which passes its comm and answers a refusal instead of raising it.

        The name in a client's certificate is the ``owner`` who submits or changes a job, whatever the client states. A
        call is refused until all jobs are read, after the service has closed, and while it may not write.
        """

        async def answer(comm: Comm | None = None, **arguments: object) -> T | Answered:
            try:
                name = common_name(comm.extra_info.get("peercert")) if comm and passes_owner else None
                self._check_ready(self._looping)
                try:
                    return await call(**arguments | ({"owner": name} if name else {}))
                except NotHeldError as error:
                    raise AwayError(f"{error.strerror}; try again in a moment") from error
            except Exception as error:  # noqa: BLE001  (an error that is raised would be pickled)
                if not isinstance(error, DistforestError):
                    LOG.exception("%s", call.__name__)
                known = isinstance(error, (DistforestError, OSError))
                faults = list(error.faults) if isinstance(error, SpecError) else [str(error) if known else repr(error)]
                kind = type(error).__name__ if isinstance(error, DistforestError) else "JobError"
                return {"error": {"kind": kind, "message": "\n".join(faults), "faults": faults}}

        return answer

    async def _submit(
        self,
        spec: str,
        id: str | None = None,  # noqa: A002  (the key of the message)
        submission: str | None = None,
        owner: str | None = None,
    ) -> SubmitAnswer:
        if self._looping is None or self._looping.done():  # jobs are accepted before its first turn, and start later
            raise JobError(self.failure)
        wanted = await asyncio.to_thread(self._allowed_spec, spec)
        if owner is not None:
            check_owner(owner)
        name, text = check_id(id) if id is not None else new_id(spec, time.time()), wanted.to_json()
        if name not in self.jobs and name not in self.aside:
            await self._check_inputs(wanted)
        async with self._entry:
            if name in self.jobs or name in self.aside:
                job = self._existing(name)
                kept = await asyncio.to_thread(self.registry.spec, name)
                if kept != text and (kept is None or self._known_spec(name, kept).to_json() != text):  # it may be older
                    raise ExistsError(f"id: {name!r} is the id of another job, with another spec; choose another one")
                is_same_call = submission is not None and job.state.get("submission") == submission
                return {"job": self._with_workers(job.state), "created": is_same_call}
            unfinished = sum(not job.has_ended for job in self.jobs.values())
            if unfinished >= self.policy.max_jobs:
                there = f"{counted(unfinished, 'job')} {are(unfinished)} unfinished"
                raise JobError(f"{there}, which is the limit (--max-jobs); try again later")
            first = first_state(name, wanted, time.time())
            job = Job({**first, "service": self.lease.id, "submission": submission, "owner": owner}, self.meters)
            job.note("submitted", "the job is accepted")
            await asyncio.to_thread(self.registry.register, job.state, wanted.to_json())
            self.jobs[name] = job
            self._queued.set()
        return {"job": self._with_workers(job.state), "created": True}

    def _allowed_spec(self, text: str) -> AnySpec:
        """Read a spec, and refuse what the operator does not allow; links in the file system are followed."""
        self.policy.read(text)
        spec = spec_from_json(text)
        check_allowed(spec, self.policy)
        self.queues.read()
        self.queues.check(spec.run.queue)
        return spec

    async def _check_inputs(self, spec: AnySpec) -> None:
        """Refuse inputs whose faults show within `LOOK_SECONDS`, here or on a worker; the job checks the rest.

        An input that is missing here may exist on the workers, so the worker that was heard from last is asked.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                faults = await asyncio.to_thread(faults_of_metadata, spec) if isinstance(spec, Spec) else []
                workers, context = self.scheduler.workers.values(), self.context
                if not faults and workers and context and await asyncio.to_thread(absent_inputs, spec):
                    asked = max(workers, key=lambda worker: worker.last_seen).address
                    ask = partial(context.client.run, faults_on_a_worker, spec, workers=[asked], on_error="ignore")
                    asking = asyncio.wrap_future(in_thread(ask, "distforest-inputs"))  # never ends if the worker hangs
                    faults = (await asyncio.shield(asking)).get(asked, [])
                if faults:
                    raise SpecError(faults)

    async def _list(self, states: Sequence[str] = (), skip: int = 0, limit: int | None = None) -> JobsAnswer:
        return JobFilter(states, skip, limit).answer(self.listed(), self.about())

    async def _status(self, id: str) -> Answered:  # noqa: A002
        return {"job": self.job(id)}

    async def _events(self, id: str, after: int = 0) -> Answered:  # noqa: A002
        state = self.job(id)  # read before the events, so that an ended job comes with all of them
        return {"job": state, "events": await self.events(id, int(after))}

    def _own(self, name: str, who: str | None) -> Job:
        """Return a job that the caller may change; raise ConflictError, or as `_existing`."""
        job = self._existing(name)
        owner = job.state.get("owner")
        if self.limits.owners_only and who not in self.limits.operators and (who is None or who != owner):
            raise ConflictError(f"{name} belongs to {owner or 'nobody'}: only its owner or an operator may change it")
        return job

    async def _cancel(self, id: str, owner: str | None = None) -> Answered:  # noqa: A002
        job = self._own(id, owner)
        if job.state["state"] == CANCELLED:
            return {"job": self._with_workers(job.state)}
        if not job.cancel():
            raise ConflictError(f"{id} is {job.state['state']}; only an unfinished job can be cancelled")
        job.note("cancelling", "the job is stopping; its trees stop at their next level")
        await asyncio.to_thread(self.registry.folder(id).write, SIGN, b"")
        if id not in self._running and not job.has_ended:
            await asyncio.to_thread(self._end_cancelled, job)
        await asyncio.to_thread(job.save, self.registry, True)
        return {"job": self._with_workers(job.state)}

    def _end_cancelled(self, job: Job) -> None:
        self.registry.folder(job.id).within(WORK).remove()
        job.end(CANCELLED, "the job was cancelled; its work is discarded")
        self.registry.release_output(job.state)

    async def _resume(
        self,
        id: str,  # noqa: A002
        changes: Mapping[str, object] | None = None,
        owner: str | None = None,
    ) -> Answered:
        job = self._own(id, owner)
        if job.state["state"] == SUCCEEDED:
            raise ConflictError(f"{id} has succeeded; there is nothing to resume")
        if job.has_ended:
            if not await self._is_over(job):
                raise ConflictError(f"{id} is ending; try again in a moment")
            await asyncio.to_thread(self.registry.check_own, id)
            table = json.loads(await asyncio.to_thread(self.registry.own_spec, id))
            spec = await asyncio.to_thread(self._allowed_spec, spec_with(table, changes or {}).to_json())
            await self._check_inputs(spec)
            await asyncio.to_thread(self.registry.reclaim, id, spec.output, spec.to_json())
            job.set(**described(spec))
            await asyncio.to_thread(job.count_events, self.registry)
            await asyncio.to_thread(self.registry.folder(id).discard, SIGN)
            job.is_cancelled = False
            job.note("resumed", "the job is resumed; committed tasks are not repeated")
            job.requeue()
            state = self._with_workers(job.state)  # now, as the loop may start the job while it is saved
            await asyncio.to_thread(job.save, self.registry, True)
            self._queued.set()
            return {"job": state}
        if changes:
            raise ConflictError(f"{id} is {job.state['state']}; its spec can change when it has ended: cancel it first")
        return {"job": self._with_workers(job.state)}

    async def _remove(self, id: str, owner: str | None = None) -> Answered:  # noqa: A002
        job = self._own(id, owner)
        if not await self._is_over(job):
            raise ConflictError(f"{id} is {job.state['state']}; cancel it first, or wait for its end")
        await asyncio.to_thread(self.registry.release_output, job.state)  # if a service was killed before its release
        await asyncio.to_thread(self.registry.remove, id)
        self.jobs.pop(id, None)
        return {"id": id}

    async def _is_over(self, job: Job) -> bool:
        """Return whether a job has ended and its thread is free; wait for a thread that is about to finish."""
        running = self._running.get(job.id)
        if job.has_ended and running:
            await asyncio.wait([running], timeout=CLOSING_SECONDS)
        return job.has_ended and job.id not in self._running

    async def _health(self) -> Answered:
        if self.failure:
            raise JobError(self.failure)
        return {"service": self.about()}
