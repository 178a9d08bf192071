"""The doctor, which examines this machine, a scheduler and its workers, and reports problems."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from distributed import Client
from distributed.versions import VersionMismatchWarning

from distforest.amounts import counted, in_bytes
from distforest.errors import JobError, UnreachableError
from distforest.kernel_cache import FOLDER, OFF
from distforest.service.calls import BrokenOffError
from distforest.service.checkup import (
    Checkup,
    RootCheckup,
    aside,
    examined,
    examined_aside,
    expiries,
    forget_probe,
    probed_root,
    sees_probe,
)
from distforest.service.registry import STALE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

    from distributed import Security

    from distforest.service.calls import Service
    from distforest.service.messages import ServiceRecord

VISIT_SECONDS = 30.0
"""Time limit for a scheduler or worker to examine itself."""

CLOCK_READINGS = 3
"""Number of readings of a clock; the quickest answer counts."""

CLOCK_SECONDS = STALE / 2
"""Difference of clocks, in seconds, that is a problem: a service with heartbeats older than `STALE` counts as dead."""

EXPIRY_SECONDS = 30 * 86_400
"""Seconds before the expiry of a certificate from which it is reported."""

LEAST_FREE = 1 << 30
"""Bytes that should be free in a scratch folder and in a job root."""

ROLE_HERE, ROLE_SCHEDULER, ROLE_WORKER = "this machine", "scheduler", "worker"


class ClockDifference(NamedTuple):
    """The seconds by which a clock is ahead of the local one, and the error of this estimate."""

    ahead: float
    error: float


@dataclass(frozen=True)
class Patient:
    """A process that was examined.

    Attributes
    ----------
    role, address
        Its role and address; this process has no address.
    threads
        Number of threads of a worker.
    checkup
        Its findings; None if it could not be examined, for the reason ``fault``.
    clock
        Clock difference of another process.
    blind
        Why a worker does not see the job root; None if it does, or if there is no root.
    """

    role: str
    address: str = ""
    threads: int = 0
    checkup: Checkup | None = None
    fault: str | None = None
    clock: ClockDifference | None = None
    blind: str | None = None

    @property
    def name(self) -> str:
        """Role and address."""
        return f"{self.role} {self.address}".rstrip()


@dataclass(frozen=True)
class Findings:
    """The findings of an examination; ``service_fault`` is the reason why a scheduler's service does not answer."""

    patients: tuple[Patient, ...]
    root: RootCheckup | None = None
    service: ServiceRecord | None = None
    service_fault: str | None = None

    @property
    def cluster(self) -> list[Patient]:
        """The scheduler and its workers."""
        return [patient for patient in self.patients if patient.role != ROLE_HERE]

    @property
    def workers(self) -> list[Patient]:
        """The workers."""
        return [patient for patient in self.patients if patient.role == ROLE_WORKER]


# --- examining --------------------------------------------------------------------------------------------


def examine_here(root: str | None, security: Security) -> Findings:
    """Examine this process, the TLS files with which it would connect, and a job root if one is given."""
    found = probed_root(root) if root else None
    if root and found and found.probe:
        forget_probe(root, found.probe)
    own = examined()._replace(certificates=expiries(security, "client"))
    return Findings((Patient(ROLE_HERE, checkup=own),), found)


def examine_cluster(service: Service, root: str | None) -> Findings:
    """Examine this process, a scheduler and its workers, and the job root of its service if no other one is given.

    Raises
    ------
    UnreachableError
        No scheduler answers.
    """
    record, fault = None, None
    try:
        record = service.health()
    except BrokenOffError:  # a scheduler without a service
        pass
    except JobError as error:
        if type(error) is UnreachableError:
            raise
        fault = str(error)
    root = root or (record["job_root"] if record else None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VersionMismatchWarning)  # versions are compared here
        patients, found = asyncio.run(_examine(service, root))
    return Findings((*examine_here(None, service.security).patients, *patients), found, record, fault)


async def _examine(service: Service, root: str | None) -> tuple[list[Patient], RootCheckup | None]:
    try:
        client = await Client(
            service.url, security=service.security, asynchronous=True, timeout=VISIT_SECONDS, set_as_default=False
        )
    except (OSError, ValueError, TypeError) as error:
        raise UnreachableError(f"no Dask scheduler answers at {service.address}: {error}") from error

    async def ask(worker: str, function: Callable[..., Any], *arguments: object) -> Any:
        """Call a function on a worker, or on the scheduler."""
        async with asyncio.timeout(VISIT_SECONDS):
            if not worker:
                return await client.run_on_scheduler(function, *arguments)
            return (await client.run(function, *arguments, workers=[worker]))[worker]

    async def visit(patient: Patient, worker: str = "") -> Patient:
        try:
            checkup = await ask(worker, examined_aside)
            clock = await _clock(partial(ask, worker))
            blind = await ask(worker, aside, sees_probe, *probe) if probe and worker else None
        except TimeoutError:
            return replace(patient, fault=f"it has not answered within {VISIT_SECONDS:g} s")
        except Exception as error:  # noqa: BLE001  (whatever a process with other packages raises)
            return replace(patient, fault=f"it could not be examined: {type(error).__name__}: {error}")
        return replace(patient, checkup=checkup, clock=clock, blind=blind)

    async with client:
        found = await ask("", aside, probed_root, root) if root else None
        probe = (root, found.probe) if found and found.probe else None
        try:
            workers: Mapping[str, Any] = (await client.scheduler.identity(n_workers=-1))["workers"]
            visits = [visit(Patient(ROLE_WORKER, at, own["nthreads"]), at) for at, own in workers.items()]
            patients = [await visit(Patient(ROLE_SCHEDULER, service.address)), *await asyncio.gather(*visits)]
        finally:
            if probe:
                with suppress(Exception):  # a file of a few bytes stays behind
                    await ask("", aside, forget_probe, *probe)
    return patients, found


async def _clock(ask: Callable[..., Coroutine[object, object, Any]]) -> ClockDifference:
    """Compare a clock with the local one; the error is half of the time that the answer took."""
    readings = []
    for _ in range(CLOCK_READINGS):
        wall, start = time.time(), time.monotonic()
        there = await ask(time.time)
        took = time.monotonic() - start
        readings.append(ClockDifference(there - (wall + took / 2), took / 2))
    return min(readings, key=lambda reading: reading.error)


# --- what follows -----------------------------------------------------------------------------------------


def to_mend(found: Findings) -> list[str]:
    """Return the problems, one sentence each, with what to do."""
    return [*_of_the_cluster(found), *_of_processes(found), *_of_the_root(found)]


def _of_the_cluster(found: Findings) -> Iterator[str]:
    if found.service_fault:
        yield f"the job service does not work: {found.service_fault}"
    for patient in found.patients:
        if patient.fault:
            yield f"{patient.name}: {patient.fault}; is one version of distforest installed everywhere?"
    if found.cluster and not found.workers:
        yield "the scheduler has no workers: start some with `dask worker ADDRESS`"
    for name, words in _differing(found.cluster):
        yield f"{name} differs: {words}; install one version everywhere"


def _differing(patients: Sequence[Patient]) -> Iterator[tuple[str, str]]:
    """Yield the packages whose versions differ, with these versions; for Python only the first two numbers count."""
    examined_ones = [(patient.name, patient.checkup.versions) for patient in patients if patient.checkup]
    for package in {name: None for _, versions in examined_ones for name in versions}:
        held: defaultdict[str, list[str]] = defaultdict(list)
        for name, versions in examined_ones:
            number = versions.get(package, "none")
            held[".".join(number.split(".")[:2]) if package == "python" else number].append(name)
        if len(held) > 1:
            some = [
                f"{number} on {names[0]}" + (f" and {len(names) - 1} more" if names[1:] else "")
                for number, names in held.items()
            ]
            yield package, ", ".join(some)


def _of_processes(found: Findings) -> Iterator[str]:
    for patient in found.patients:
        if (own := patient.checkup) is None:
            continue
        if not own.kernels.writable:
            why = f"{own.kernels.folder} is not writable" if own.kernels.folder else f"because of {FOLDER}={OFF}"
            cure = f"set {FOLDER} to a writable folder"
            yield f"{patient.name}: compiled kernels are not kept ({why}), so each process compiles them again; {cure}"
        if patient.role != ROLE_SCHEDULER:  # a scheduler stages nothing
            if own.scratch.fault:
                yield f"{patient.name}: {own.scratch.fault}"
            elif own.scratch.free is not None and own.scratch.free < LEAST_FREE:
                little = _little(own.scratch.free)
                yield f"{patient.name}: {little} in the scratch folder {own.scratch.folder}; name another one"
        if patient.clock and abs(patient.clock.ahead) - patient.clock.error > CLOCK_SECONDS:
            side = "ahead of" if patient.clock.ahead > 0 else "behind"
            yield (
                f"{patient.name}: its clock is {abs(patient.clock.ahead):.1f} s {side} the one of this machine; set "
                "the clocks by NTP"
            )
        for path, end in own.certificates.items():
            if end - time.time() < EXPIRY_SECONDS:
                day = time.strftime("%Y-%m-%d", time.gmtime(end))
                what = "has expired" if end < time.time() else "expires"
                yield f"{patient.name}: the certificate {path} {what} on {day}; make new ones for the whole cluster"


def _little(free: int) -> str:
    return f"only {in_bytes(free)} are free, {in_bytes(LEAST_FREE)} were expected,"


def _of_the_root(found: Findings) -> Iterator[str]:
    if found.root is None:
        return
    disk = found.root.disk
    if disk.fault:
        yield f"job root {disk.folder}: {disk.fault}"
        return
    if not found.root.compares:
        lack = "its store does not compare before it writes, so two services may take the root at the same moment"
        yield f"job root {disk.folder}: {lack}; make sure that only one is started, or use another store"
    if disk.free is not None and disk.free < LEAST_FREE:
        yield f"job root {disk.folder}: {_little(disk.free)} there; free some space"
    for patient in found.workers:
        if patient.blind:
            yield f"{patient.name}: it does not see the job root {disk.folder}: {patient.blind}; mount it there"


def remarks(found: Findings) -> list[str]:
    """Return notes that are not problems."""
    wrong = {name for name, _ in _differing(found.cluster)}
    notes = [
        f"{name} differs here: {words}; `submit` works, `fit --scheduler` needs one version"
        for name, words in _differing(found.patients)
        if name not in wrong
    ]
    threads: defaultdict[str, int] = defaultdict(int)
    cores: dict[str, int] = {}
    for patient in found.workers:
        if patient.checkup:
            threads[patient.checkup.host] += patient.threads
            cores[patient.checkup.host] = patient.checkup.cores
    notes += [
        f"{host}: its workers have {counted(n_threads, 'thread')} on {counted(cores[host], 'core')}"
        for host, n_threads in threads.items()
        if n_threads > cores[host]
    ]
    near = [one.checkup for one in found.patients if one.role in {ROLE_HERE, ROLE_SCHEDULER} and one.checkup]
    device = found.root.disk.device if found.root else None
    if device is not None and near and near[-1].scratch.device == device:
        host = near[-1].host
        notes.append(f"scratch folder and job root are in one file system on {host} and share its space")
    for patient in found.patients:
        if patient.checkup and (address := patient.checkup.open_address):
            notes.append(
                f"{patient.name}: {address} is open to other hosts without TLS: anyone who connects can run code"
            )
    return notes
