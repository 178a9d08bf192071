"""Where the jobs of a service are read: from its scheduler, from its job root, or from the root when nobody answers."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import dask.config

from distforest.errors import InputError, UnreachableError
from distforest.service.registry import Registry

if TYPE_CHECKING:
    from distforest.service.calls import Service
    from distforest.service.messages import JobEvent, JobsAnswer, JobState

R = TypeVar("R")

SCHEDULER_ADDRESS, ADDRESS_FILE, JOB_ROOT = "DASK_SCHEDULER_ADDRESS", "DISTFOREST_SCHEDULER_FILE", "DISTFOREST_JOB_ROOT"
"""What the environment says of the scheduler's address, of the file that holds it, and of the job root."""


class Jobs(Protocol):
    """What can be read of jobs, from wherever."""

    def listed(self) -> JobsAnswer:
        """``jobs``, newest first, and ``service``, which is None where it is not asked."""

    def job(self, job_id: str) -> JobState:
        """What is known of a job."""

    def events(self, job_id: str, after: int = 0) -> list[JobEvent]:
        """Events of a job after number ``after``, the first of them if they are many."""

    def within(self, seconds: float) -> Jobs:
        """Give the same, for an answer within so many seconds."""


@dataclass(frozen=True)
class Whereabouts:
    """Where the service is, and how to speak with it, as given; what is None, the environment or Dask says.

    Attributes
    ----------
    scheduler
        Address of the scheduler.
    scheduler_file
        The JSON file that the scheduler writes its address to.
    tls_ca_file, tls_cert, tls_key
        Files of TLS.
    job_root
        Path or URL of the job root.
    """

    scheduler: str | None = None
    scheduler_file: str | None = None
    tls_ca_file: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    job_root: str | None = None

    def service(self, seconds: float = math.inf) -> Service:
        """The service of the scheduler, to be reached within so many seconds.

        Raises
        ------
        InputError
            No scheduler is named in any way.
        UnreachableError
            The file that should name it is missing.
        """
        from distributed import Security  # noqa: PLC0415  (slow, and a job root is read without)

        from distforest.service.calls import Service  # noqa: PLC0415

        files = {"tls_ca_file": self.tls_ca_file, "tls_client_cert": self.tls_cert, "tls_client_key": self.tls_key}
        security = Security(**{name: path for name, path in files.items() if path})
        return Service(self._address(), security, seconds)

    def jobs(self, tell: Callable[[str], None]) -> Jobs:
        """What reads jobs.

        A job root that is given without a scheduler is read alone. Where both are known, from wherever, the scheduler
        is asked first.

        Parameters
        ----------
        tell
            Told why the root is read in place of a service.
        """
        root = self.job_root or os.environ.get(JOB_ROOT)
        if not root:
            return FromScheduler(self)
        from_root = FromRoot(Registry(root))
        if (self.job_root and not self._is_given) or not any(self._named):
            return from_root
        return FromEither(FromScheduler(self), from_root, tell)

    @property
    def _is_given(self) -> bool:
        return bool(self.scheduler or self.scheduler_file)

    @property
    def _named(self) -> tuple[str | None, str | None]:
        """Address, or file that holds it: as given, of the environment, of Dask's configuration."""
        if self._is_given:
            return self.scheduler, self.scheduler_file
        address, file = os.environ.get(SCHEDULER_ADDRESS), os.environ.get(ADDRESS_FILE)
        return (address, file) if address or file else (dask.config.get("scheduler-address", None), None)

    def _address(self) -> str:
        address, file = self._named
        if address:
            return address
        if file:
            return _address_in(file)
        raise InputError(
            f"no scheduler is named: give --scheduler ADDRESS or --scheduler-file FILE, or set {SCHEDULER_ADDRESS}"
        )


def _address_in(path: str) -> str:
    """The address in the file of a scheduler."""
    try:
        with open(path, encoding="utf-8") as file:
            return str(json.load(file)["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnreachableError(
            f"{path} is not the file of a running scheduler: {error}; "
            f"`dask scheduler --scheduler-file {path}` writes it"
        ) from error


# --- the readers ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FromScheduler:
    """The jobs as the service tells them; where it is, is found out for each call, as it may have moved."""

    where: Whereabouts
    seconds: float = math.inf

    def listed(self) -> JobsAnswer:
        """See `Jobs`."""
        return self.where.service(self.seconds).listed()

    def job(self, job_id: str) -> JobState:
        """See `Jobs`."""
        return self.where.service(self.seconds).job(job_id)

    def events(self, job_id: str, after: int = 0) -> list[JobEvent]:
        """See `Jobs`."""
        return self.where.service(self.seconds).events(job_id, after)

    def within(self, seconds: float) -> Jobs:
        """See `Jobs`."""
        return replace(self, seconds=seconds)


@dataclass(frozen=True)
class FromRoot:
    """The jobs in a job root, read without a scheduler."""

    registry: Registry

    def listed(self) -> JobsAnswer:
        """See `Jobs`."""
        return {"jobs": self._held().listed(time.time()), "service": None}

    def job(self, job_id: str) -> JobState:
        """See `Jobs`."""
        return self._held().job(job_id, time.time())

    def events(self, job_id: str, after: int = 0) -> list[JobEvent]:
        """See `Jobs`."""
        return self._held().events(job_id, after)

    def _held(self) -> Registry:
        """The registry of a root that is one."""
        kind = self.registry.folder().kind
        if kind == "directory":
            return self.registry
        found = f"there is no job root at {self.registry.root}" if kind is None else f"{self.registry.root} is a file"
        raise InputError(f"{found}; a job root is a folder, which the service that is given it makes")

    def within(self, seconds: float) -> Jobs:  # noqa: ARG002  (nothing is waited for)
        """See `Jobs`."""
        return self


@dataclass(frozen=True)
class FromEither:
    """The jobs as the service tells them; where no scheduler answers, as the job root has them: ``tell`` hears why."""

    service: Jobs
    root: Jobs
    tell: Callable[[str], None]

    def _read(self, read: Callable[[Jobs], R]) -> R:
        try:
            return read(self.service)
        except UnreachableError as error:
            self.tell(f"the job root is read, and not the service: {error}")
            return read(self.root)

    def listed(self) -> JobsAnswer:
        """See `Jobs`."""
        return self._read(lambda jobs: jobs.listed())

    def job(self, job_id: str) -> JobState:
        """See `Jobs`."""
        return self._read(lambda jobs: jobs.job(job_id))

    def events(self, job_id: str, after: int = 0) -> list[JobEvent]:
        """See `Jobs`."""
        return self._read(lambda jobs: jobs.events(job_id, after))

    def within(self, seconds: float) -> Jobs:
        """See `Jobs`."""
        return replace(self, service=self.service.within(seconds))
