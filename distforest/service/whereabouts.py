"""Sources of jobs: the scheduler, the job root, or the root if no scheduler answers."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import dask.config

from distforest.errors import InputError, UnreachableError
from distforest.service.messages import ALL_JOBS, JobFilter
from distforest.service.registry import Registry

if TYPE_CHECKING:
    from distributed import Security

    from distforest.service.calls import Service
    from distforest.service.messages import JobEvent, JobsAnswer, JobState

R = TypeVar("R")

SCHEDULER_ADDRESS, ADDRESS_FILE, JOB_ROOT = "DASK_SCHEDULER_ADDRESS", "DISTFOREST_SCHEDULER_FILE", "DISTFOREST_JOB_ROOT"
"""Environment variables: the scheduler's address, the file with this address, and the job root."""


@dataclass(frozen=True)
class Whereabouts:
    """The settings for reaching the service; None stands for the environment or Dask's configuration.

    Attributes
    ----------
    scheduler
        Address of the scheduler.
    scheduler_file
        JSON file to which the scheduler writes its address.
    tls_ca_file, tls_cert, tls_key
        TLS files.
    job_root
        Path or URL of the job root.
    """

    scheduler: str | None = None
    scheduler_file: str | None = None
    tls_ca_file: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    job_root: str | None = None

    @property
    def options(self) -> list[str]:
        """The settings as command-line options, for commands that messages propose.

        Examples
        --------
        >>> Whereabouts("tcp://127.0.0.1:8786").options
        ['--scheduler', 'tcp://127.0.0.1:8786']
        """
        given = [(f"--{name.replace('_', '-')}", value) for name, value in asdict(self).items() if value]
        return [part for option in given for part in option]

    @property
    def names_scheduler(self) -> bool:
        """Whether a scheduler is named, as an argument or elsewhere."""
        return any(self._named)

    def service(self, seconds: float = math.inf) -> Service:
        """Return the service of the scheduler, which must be reached within ``seconds``.

        Raises
        ------
        InputError
            No scheduler is named.
        UnreachableError
            The file that should name it is missing.
        """
        from distforest.service.calls import Service  # noqa: PLC0415

        return Service(self._address(), self.security(), seconds)

    def security(self) -> Security:
        """Return the TLS files; those that are not given come from Dask's configuration."""
        from distributed import Security  # noqa: PLC0415  (slow, and not needed to read a job root)

        files = {"tls_ca_file": self.tls_ca_file, "tls_client_cert": self.tls_cert, "tls_client_key": self.tls_key}
        return Security(**{name: path for name, path in files.items() if path})

    def jobs(self, tell: Callable[[str], None]) -> Jobs:
        """Return the reader of jobs.

        A job root that is given without a scheduler is read directly. If both are known, the scheduler is called first.

        Parameters
        ----------
        tell
            Function that is called with the reason if the root is read instead of the service.
        """
        root = self.job_root or os.environ.get(JOB_ROOT)
        is_alone = root and ((self.job_root and not self._is_given) or not any(self._named))
        return Jobs(None if is_alone else self, Registry(root) if root else None, tell)

    @property
    def _is_given(self) -> bool:
        return bool(self.scheduler or self.scheduler_file)

    @property
    def _named(self) -> tuple[str | None, str | None]:
        """The address, or the file with it: as given, from the environment, or from Dask's configuration."""
        if self._is_given:
            return self.scheduler, self.scheduler_file
        address, file = os.environ.get(SCHEDULER_ADDRESS), os.environ.get(ADDRESS_FILE)
        return (address, file) if address or file else (dask.config.get("scheduler-address", None), None)

    def _address(self) -> str:
        address, file = self._named
        if address:
            return address
        if file:
            try:
                with open(file, encoding="utf-8") as opened:
                    return str(json.load(opened)["address"])
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise UnreachableError(
                    f"{file} is not the file of a running scheduler: {error}; "
                    f"`dask scheduler --scheduler-file {file}` writes it"
                ) from error
        raise InputError(
            f"no scheduler is named: give --scheduler ADDRESS or --scheduler-file FILE, or set {SCHEDULER_ADDRESS}"
        )


@dataclass(frozen=True)
class Jobs:
    """A reader of jobs: from the service, or from the job root if no service answers or only the root is known.

    Attributes
    ----------
    where
        How to reach the service, whose address each call looks up, as it may have changed; None if only the root is
        read.
    registry
        The job root; None if only the service is called.
    tell
        Function that is called with the reason if the root is read instead of the service.
    seconds
        Time limit for reaching the service, in seconds.
    """

    where: Whereabouts | None
    registry: Registry | None
    tell: Callable[[str], None]
    seconds: float = math.inf

    def listed(self, wanted: JobFilter = ALL_JOBS) -> JobsAnswer:
        """List ``jobs``, newest first, and ``service``, which is None if the job root is read."""
        return self._read(
            lambda service: service.listed(wanted), lambda registry: wanted.answer(registry.listed(time.time()), None)
        )

    def job(self, job_id: str) -> JobState:
        """Return the state of a job."""
        return self._read(lambda service: service.job(job_id), lambda registry: registry.job(job_id, time.time()))

    def events(self, job_id: str, after: int = 0) -> list[JobEvent]:
        """Return events of a job after number ``after``; only the first of them if there are many."""
        return self._read(
            lambda service: service.events(job_id, after), lambda registry: registry.events(job_id, after)
        )

    def within(self, seconds: float) -> Jobs:
        """Return a reader that must reach the service within ``seconds``."""
        return replace(self, seconds=seconds)

    def _read(self, ask: Callable[[Service], R], read: Callable[[Registry], R]) -> R:
        if self.where is not None:
            try:
                return ask(self.where.service(self.seconds))
            except UnreachableError as error:
                if self.registry is None:
                    raise
                self.tell(f"the job root is read instead of the service: {error}")
        assert self.registry is not None  # noqa: S101  (at least one is given)
        if (kind := self.registry.folder().kind) != "directory":
            found = f"{self.registry.root} is a file" if kind else f"there is no job root at {self.registry.root}"
            raise InputError(f"{found}; a job root is a folder that its service creates")
        return read(self.registry)
