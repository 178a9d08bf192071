"""The doctor: examines this machine, a scheduler and its workers, and says what is to be mended."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
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
    examined,
    examined_aside,
    forget_aside,
    forget_probe,
    probed_aside,
    probed_root,
    sees_aside,
)
from distforest.service.exposure import expiries
from distforest.service.registry import STALE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from distributed import Security

    from distforest.service.calls import Service
    from distforest.service.messages import ServiceRecord

VISIT_SECONDS = 30.0
"""How long a scheduler or worker may take to examine itself."""

CLOCK_READINGS = 3
"""How often a clock is read; the quickest answer counts."""

CLOCK_SECONDS = STALE / 2
"""Difference of clocks, in seconds, that is to be mended: heartbeats older than `STALE` count as those of the dead."""

EXPIRY_SECONDS = 30 * 86_400
"""Seconds before a certificate expires in which it is to be replaced."""

LEAST_FREE = 1 << 30
"""Bytes that should be free in a scratch folder and in a job root."""

ROLE_HERE, ROLE_SCHEDULER, ROLE_WORKER = "this machine", "scheduler", "worker"


class ClockDifference(NamedTuple):
    """How far a clock is ahead of the one here, in seconds, and how far this may be wrong."""

    ahead: float
    error: float


@dataclass(frozen=True)
class Patient:
    """A process that was examined.

    Attributes
    ----------
    role, address
        What it is, and where; this process has no address.
    threads
        Of a worker.
    checkup
        What it has found; None if it could not be examined, for the reason ``fault``.
    clock
        Of another process.
    blind
        Of a worker, why it does not see the job root; None if it does, or there is none.
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
    """All that was examined; ``service_fault`` says why the service of a scheduler does not answer."""

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
    return Findings((_here(security),), found)


def _here(security: Security) -> Patient:
    return Patient(ROLE_HERE, checkup=examined()._replace(certificates=expiries(security, "client")))


def examine_cluster(service: Service, root: str | None) -> Findings:
    """Examine this process, a scheduler and its workers, and the job root of its service if no other one is given.

    Raises
    ------
    UnreachableError
        No scheduler answers.
    """
    record, fault = _record_of(service)
    root = root or (record["job_root"] if record else None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VersionMismatchWarning)  # versions are compared here
        patients, found = asyncio.run(_examine(service, root))
    return Findings((_here(service.security), *patients), found, record, fault)


def _record_of(service: Service) -> tuple[ServiceRecord | None, str | None]:
    """What a service says of itself, and what is wrong with it; neither if the scheduler has none."""
    try:
        return service.health(), None
    except BrokenOffError:
        return None, None
    except UnreachableError as error:
        if type(error) is UnreachableError:
            raise
        return None, str(error)
    except JobError as error:
        return None, str(error)


async def _examine(service: Service, root: str | None) -> tuple[list[Patient], RootCheckup | None]:
    try:
        client = await Client(
            service.url, security=service.security, asynchronous=True, timeout=VISIT_SECONDS, set_as_default=False
        )
    except (OSError, ValueError, TypeError) as error:
        raise UnreachableError(f"no Dask scheduler answers at {service.address}: {error}") from error
    async with client:
        found = await _on_scheduler(client, probed_aside, root) if root else None
        probe = (root, found.probe) if isinstance(found, RootCheckup) and root and found.probe else None
        try:
            workers: Mapping[str, Any] = (await client.scheduler.identity(n_workers=-1))["workers"]
            visits = [_visit_worker(client, address, own["nthreads"], probe) for address, own in workers.items()]
            patients = [await _visit_scheduler(client, service.address), *await asyncio.gather(*visits)]
        finally:
            if probe:
                with suppress(Exception):  # a file of a few bytes stays behind
                    await _on_scheduler(client, forget_aside, *probe)
    return patients, found


async def _on_scheduler(client: Client, function: Callable[..., Any], *arguments: object) -> Any:
    async with asyncio.timeout(VISIT_SECONDS):
        return await client.run_on_scheduler(function, *arguments)


async def _on_worker(client: Client, address: str, function: Callable[..., Any], *arguments: object) -> Any:
    async with asyncio.timeout(VISIT_SECONDS):
        return (await client.run(function, *arguments, workers=[address]))[address]


async def _visit_scheduler(client: Client, address: str) -> Patient:
    async def ask(function: Callable[..., Any], *arguments: object) -> Any:
        return await _on_scheduler(client, function, *arguments)

    return await _visit(Patient(ROLE_SCHEDULER, address), ask, None)


async def _visit_worker(client: Client, address: str, threads: int, probe: tuple[str, str] | None) -> Patient:
    async def ask(function: Callable[..., Any], *arguments: object) -> Any:
        return await _on_worker(client, address, function, *arguments)

    return await _visit(Patient(ROLE_WORKER, address, threads), ask, probe)


async def _visit(patient: Patient, ask: Callable[..., Awaitable[Any]], probe: tuple[str, str] | None) -> Patient:
    """Examine a process through a function that runs another one there."""
    own = vars(patient)
    try:
        checkup = await ask(examined_aside)
        clock = await _clock(ask)
        blind = await ask(sees_aside, *probe) if probe else None
    except TimeoutError:
        return Patient(**{**own, "fault": f"it has not answered within {VISIT_SECONDS:g} s"})
    except Exception as error:  # noqa: BLE001  (whatever a process with other packages raises)
        return Patient(**{**own, "fault": f"it could not be examined: {type(error).__name__}: {error}"})
    return Patient(**{**own, "checkup": checkup, "clock": clock, "blind": blind})


async def _clock(ask: Callable[..., Awaitable[Any]]) -> ClockDifference:
    """Compare a clock with the one here: half of the time that the answer took may be missing."""
    readings = []
    for _ in range(CLOCK_READINGS):
        wall, start = time.time(), time.monotonic()
        there = await ask(time.time)
        took = time.monotonic() - start
        readings.append(ClockDifference(there - (wall + took / 2), took / 2))
    return min(readings, key=lambda reading: reading.error)


# --- judging ----------------------------------------------------------------------------------------------


def to_mend(found: Findings) -> list[str]:
    """What is wrong, a sentence each, with what to do."""
    of_disks = [*_kernels(found), *_scratch(found), *_root(found)]
    return [*_silent(found), *_versions(found), *of_disks, *_clocks(found), *_certificates(found)]


def _silent(found: Findings) -> Iterator[str]:
    if found.service_fault:
        yield f"the job service does not work: {found.service_fault}"
    for patient in found.patients:
        if patient.fault:
            yield f"{patient.name}: {patient.fault}; is one version of distforest installed everywhere?"
    if found.cluster and not found.workers:
        yield "the scheduler has no workers: start some with `dask worker ADDRESS`"


def _by_value(patients: Iterable[Patient], name: str) -> dict[str, list[str]]:
    """The names of the patients that have each version of a package; of Python the first two numbers count."""
    held: defaultdict[str, list[str]] = defaultdict(list)
    for patient in patients:
        if patient.checkup:
            text = patient.checkup.versions.get(name, "none")
            held[".".join(text.split(".")[:2]) if name == "python" else text].append(patient.name)
    return held


def _in_words(held: Mapping[str, list[str]]) -> str:
    some = [
        f"{value} on {names[0]}" + (f" and {len(names) - 1} more" if names[1:] else "") for value, names in held.items()
    ]
    return ", ".join(some)


def _differing(patients: list[Patient]) -> Iterator[tuple[str, str]]:
    """The packages whose versions differ, each with its versions in words."""
    names = {name: None for patient in patients if patient.checkup for name in patient.checkup.versions}
    for name in names:
        if len(held := _by_value(patients, name)) > 1:
            yield name, _in_words(held)


def _versions(found: Findings) -> Iterator[str]:
    for name, words in _differing(found.cluster):
        yield f"{name} differs: {words}; install one version everywhere"


def _kernels(found: Findings) -> Iterator[str]:
    for patient in found.patients:
        if patient.checkup and not patient.checkup.kernels.writable:
            where = patient.checkup.kernels.folder
            why = f"{where} is not writable" if where else f"as {FOLDER}={OFF} says"
            cure = f"set {FOLDER} to a folder that can be written to"
            yield f"{patient.name}: compiled kernels are not kept ({why}), so each process compiles them again; {cure}"


def _scratch(found: Findings) -> Iterator[str]:
    for patient in found.patients:
        if not patient.checkup or patient.role == ROLE_SCHEDULER:  # a scheduler stages nothing
            continue
        disk = patient.checkup.scratch
        if disk.fault:
            yield f"{patient.name}: {disk.fault}"
        elif disk.free is not None and disk.free < LEAST_FREE:
            yield f"{patient.name}: {_little(disk.free)} in the scratch folder {disk.folder}; name another one"


def _little(free: int) -> str:
    return f"only {in_bytes(free)} are free, {in_bytes(LEAST_FREE)} were expected,"


def _root(found: Findings) -> Iterator[str]:
    root = found.root
    if root is None:
        return
    disk = root.disk
    if disk.fault:
        yield f"job root {disk.folder}: {disk.fault}"
        return
    if not root.compares:
        lack = "its store does not compare before it writes, so two services may take the root at the same moment"
        yield f"job root {disk.folder}: {lack}; see to it that only one is started, or use another store"
    if disk.free is not None and disk.free < LEAST_FREE:
        yield f"job root {disk.folder}: {_little(disk.free)} there; make room"
    for patient in found.workers:
        if patient.blind:
            yield f"{patient.name}: it does not see the job root {disk.folder}: {patient.blind}; mount it there"


def _clocks(found: Findings) -> Iterator[str]:
    for patient in found.patients:
        if patient.clock and abs(patient.clock.ahead) - patient.clock.error > CLOCK_SECONDS:
            side = "ahead of" if patient.clock.ahead > 0 else "behind"
            yield (
                f"{patient.name}: its clock is {abs(patient.clock.ahead):.1f} s {side} the one of this machine; set "
                "the clocks by NTP"
            )


def _certificates(found: Findings) -> Iterator[str]:
    for patient in found.patients:
        for path, end in patient.checkup.certificates.items() if patient.checkup else ():
            if end - time.time() < EXPIRY_SECONDS:
                day = time.strftime("%Y-%m-%d", time.gmtime(end))
                what = "has expired" if end < time.time() else "expires"
                yield f"{patient.name}: the certificate {path} {what} on {day}; make new ones for the whole cluster"


def remarks(found: Findings) -> list[str]:
    """What is worth knowing, and not wrong."""
    return [*_versions_here(found), *_threads(found), *_one_disk(found), *_open(found)]


def _open(found: Findings) -> Iterator[str]:
    for patient in found.patients:
        if patient.checkup and (address := patient.checkup.open_address):
            yield f"{patient.name}: {address} is open to other hosts without TLS; whoever connects can run code there"


def _versions_here(found: Findings) -> Iterator[str]:
    one_wrong = {name for name, _ in _differing(found.cluster)}
    for name, words in _differing(list(found.patients)):
        if name not in one_wrong:
            yield f"{name} differs here: {words}; `submit` works, `fit --scheduler` needs one version"


def _threads(found: Findings) -> Iterator[str]:
    threads: defaultdict[str, int] = defaultdict(int)
    cores: dict[str, int] = {}
    for patient in found.workers:
        if patient.checkup:
            threads[patient.checkup.host] += patient.threads
            cores[patient.checkup.host] = patient.checkup.cores
    for host, n_threads in threads.items():
        if n_threads > cores[host]:
            yield f"{host}: its workers have {counted(n_threads, 'thread')} on {counted(cores[host], 'core')}"


def _one_disk(found: Findings) -> Iterator[str]:
    """Say whether staged files take their room from that of the job root."""
    if found.root is None or found.root.disk.device is None:
        return
    near = [patient for patient in found.patients if patient.role in {ROLE_HERE, ROLE_SCHEDULER} and patient.checkup]
    own = near[-1].checkup if near else None
    if own and own.scratch.device == found.root.disk.device:
        yield f"scratch folder and job root are in one file system on {own.host}, and take each other's room"
