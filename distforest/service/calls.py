"""Calls to the service of a scheduler over its comm, without a Dask client, so that versions may differ."""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import secrets
import ssl
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from distributed import Security
from distributed.comm import CommClosedError, connect
from distributed.comm.core import FatalCommClosedError

from distforest.errors import (
    ArtifactError,
    AwayError,
    ConflictError,
    ExistsError,
    InputError,
    JobError,
    NotFoundError,
    SpecError,
    UnreachableError,
)
from distforest.service.messages import ALL_JOBS, JobFilter
from distforest.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from distributed.comm import Comm

    from distforest.service.messages import JobEvent, JobsAnswer, JobState, ServiceRecord, SubmitAnswer

    IfExists = Literal["fail", "ok", "new"]
    Answer = Any
    """Content of an answer over the comm; each method of `Service` annotates its type."""

CONNECT_SECONDS, ANSWER_SECONDS = 10.0, 60.0
"""Time limits for connecting to a scheduler, and for its answer."""

TLS_FILES = "--tls-ca-file, --tls-cert and --tls-key, or distributed.comm.tls in Dask's configuration"

SENDING_TRIES = 3
"""Number of times a job is sent if the connection is lost before the answer arrives."""

ERROR_KINDS = {
    kind.__name__: kind
    for kind in (InputError, ConflictError, ExistsError, NotFoundError, ArtifactError, AwayError, JobError)
}
"""Errors that a refusal may name, except `SpecError`, which takes a list of faults."""


class LostAnswerError(UnreachableError):
    """The connection to a scheduler was lost before its answer arrived."""


class BrokenOffError(UnreachableError):
    """The other side closed the connection before the call, or runs no job service; a starting one may do either."""


CALL_PATIENCE: dict[type[UnreachableError], float] = {AwayError: 60.0, BrokenOffError: 10.0}
"""Seconds for which a call that changes something is repeated, by error: if the service reports that it is away, and if
the error may come from such a service."""

AGAIN_SECONDS = 0.5
"""Seconds between two such calls."""


def new_id(spec: str, now: float) -> str:
    """Make an id for a job from its method (or kind of job), the time in Unix seconds and random digits.

    Examples
    --------
    >>> new_id('{"method": "smerf"}', 1795309320.0)
    'smerf-20261122-010200-...'
    """
    try:
        table = json.loads(spec)
        name = table.get("method") or table.get("job")
    except (ValueError, AttributeError):  # the service reports the faults of the spec
        name = None
    if not isinstance(name, str) or not re.fullmatch("[a-z]{1,20}", name):
        name = "job"
    return _dated(name, now)


def _dated(name: str, now: float) -> str:
    return f"{name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{secrets.token_hex(3)}"


def existing(job: JobState) -> str:
    """Return a message about a job that was submitted again.

    Examples
    --------
    >>> existing({"id": "nightly", "state": "SUCCEEDED", "ended": 1795309320.0, "result": {"digest": "9f03"}})
    'nightly exists already, and nothing was started: it is SUCCEEDED since 2026-11-22 01:02:00 UTC, with digest 9f03'
    """
    digest = (job.get("result") or {}).get("digest")
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(job.get("ended") or job.get("submitted") or 0.0))
    how = f"it is {job['state']} since {since}" if job.get("ended") else f"it is {job['state']}, submitted {since}"
    return f"{job['id']} exists already, and nothing was started: {how}" + (f", with digest {digest}" if digest else "")


@dataclass(frozen=True)
class Service:
    """The job service in a Dask scheduler; each method makes one call over a new connection.

    A refusal raises the error of `distforest.errors` that the service names: an unknown id as `NotFoundError`, a
    spec with faults as `SpecError` with all of them.

    Parameters
    ----------
    address : str
        Address of the scheduler: ``"tls://host:8786"``, or ``"host:8786"``, which is TLS if ``security`` requires it.
    security : distributed.Security, optional
        TLS settings; Dask's configuration by default.
    patience : float
        Time limit for connecting to the scheduler, in seconds; at most 10.

    Raises
    ------
    UnreachableError
        By each method: no scheduler answers, either side refuses TLS, or the scheduler runs no job service.
    """

    address: str
    security: Security = field(default_factory=Security)
    patience: float = math.inf

    def submit(
        self, spec: str, job_id: str | None = None, if_exists: IfExists = "fail", owner: str | None = None
    ) -> SubmitAnswer:
        """Submit a job; when this returns, the job is on disk.

        If the connection is lost before the answer arrives, the job is sent again; its id shows that it is the same
        job. Like every call that changes something, this one waits for a service that is being restarted.

        Parameters
        ----------
        spec
            JSON of the job.
        job_id
            Id of the job; by default made from the method, the time and random digits.
        if_exists
            What to do if a job with this id exists: "fail" raises ExistsError, "ok" returns it if its spec is the same,
            "new" submits the job under the id with the time and random digits after it.
        owner
            User who submits the job; the name in a certificate takes precedence.

        Returns
        -------
        dict
            ``job``, and ``created``: False if the job existed before this call.

        Raises
        ------
        ExistsError
            The id belongs to another job, or to the same job and ``if_exists`` is "fail".
        """
        name = job_id or new_id(spec, time.time())
        sent = {"spec": spec, "id": name, "submission": secrets.token_hex(8), "owner": owner}
        try:
            answer: SubmitAnswer = self._call_patiently("submit", SENDING_TRIES, **sent)
        except ExistsError:
            if if_exists != "new":
                raise
        else:
            if answer["created"] or if_exists == "ok":
                return answer
            if if_exists == "fail":
                cure = "choose another id, or give `if_exists='new'` or `if_exists='ok'`"
                raise ExistsError(f"{existing(answer['job'])}; {cure}", answer["job"])
        return self.submit(spec, _dated(name, time.time()), owner=owner)

    def listed(self, wanted: JobFilter = ALL_JOBS) -> JobsAnswer:
        """List ``jobs``, newest first, with the ``total`` number that match, and ``service``."""
        answer: JobsAnswer = self._call("list", **wanted._asdict())
        return answer

    def job(self, job_id: str) -> JobState:
        """Return the state of a job."""
        job: JobState = self._call("status", id=job_id)["job"]
        return job

    def events(self, job_id: str, after: int = 0) -> list[JobEvent]:
        """Return the events of a job after number ``after``, at most 1000 of them."""
        return list(self._call("events", id=job_id, after=after)["events"])

    def cancel(self, job_id: str, owner: str | None = None) -> JobState:
        """Stop a job; return its state. ``owner`` is the caller, as for `submit`."""
        job: JobState = self._call_patiently("cancel", id=job_id, owner=owner)["job"]
        return job

    def resume(self, job_id: str, changes: Mapping[str, object] | None = None, owner: str | None = None) -> JobState:
        """Continue a job that ended without a result from its finished tasks; return its state.

        Parameters
        ----------
        job_id
            Id of the job.
        changes
            Values by dotted keys, which replace those of its spec.
        owner
            The caller, as for `submit`.

        Raises
        ------
        SpecError
            The spec, with the changes, has faults; the job stays as it is.
        ConflictError
            The job has succeeded, or it has not ended and there are changes.
        """
        given = {"changes": dict(changes)} if changes else {}
        job: JobState = self._call_patiently("resume", 1, id=job_id, owner=owner, **given)["job"]
        return job

    def remove(self, job_id: str, owner: str | None = None) -> str:
        """Remove a job that has ended, but not its output; return its id. ``owner`` is the caller, as for `submit`."""
        return str(self._call_patiently("remove", id=job_id, owner=owner)["id"])

    def health(self) -> ServiceRecord:
        """Return the record of the service; raise JobError if it has failed."""
        service: ServiceRecord = self._call("health")["service"]
        return service

    # --- one call -----------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The address with its protocol."""
        if "://" in self.address:
            return self.address
        return f"{'tls' if self.security.require_encryption else 'tcp'}://{self.address}"

    def _call_patiently(self, name: str, tries: int = 1, **arguments: object) -> Answer:
        """Make a call that changes something, across a restart too; try ``tries`` times if answers are lost."""
        start, patience = time.monotonic(), 0.0
        while True:
            try:
                return self._call(name, **arguments)
            except LostAnswerError:
                tries -= 1
                if not tries:
                    raise
            except UnreachableError as error:
                patience = max(patience, CALL_PATIENCE.get(type(error), 0.0))
                if time.monotonic() - start >= patience:
                    raise
            time.sleep(AGAIN_SECONDS)

    def _call(self, name: str, **arguments: object) -> Answer:
        """Make one call and return its answer; raise the error of a refusal."""
        given = {key: value for key, value in arguments.items() if value is not None}
        # In another thread, as this one may run a loop, as a notebook's does; Ctrl-C reaches only this one.
        calling = in_thread(lambda: asyncio.run(self._exchange(f"distforest_{name}", given)), "distforest-call")
        answer = calling.result()
        if not isinstance(answer, dict):  # a scheduler answers an unknown operation with nothing
            raise BrokenOffError(
                f"the scheduler at {self.address} runs no job service; start it with --preload distforest.service"
            )
        if error := answer.get("error"):
            message = str(error.get("message", "refused"))
            if error.get("kind") == "SpecError":
                raise SpecError([str(fault) for fault in error.get("faults") or [message]])
            raise ERROR_KINDS.get(str(error.get("kind")), JobError)(message)
        if answer.get("status") == "uncaught-error":
            raise JobError(f"the service at {self.address} failed; its log has details: {answer.get('exception_text')}")
        return answer

    async def _exchange(self, operation: str, arguments: Mapping[str, object]) -> object:
        comm = await self._connect()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await comm.write({"op": operation, "reply": True, **arguments})
                return await comm.read()
        except TimeoutError:
            raise UnreachableError(
                f"the scheduler at {self.address} was reached, but has not answered within {ANSWER_SECONDS:g} s"
            ) from None
        except CommClosedError as error:
            raise LostAnswerError(
                f"the connection to the scheduler at {self.address} was lost before its answer: {error}"
            ) from error
        finally:
            comm.abort()

    async def _connect(self) -> Comm:
        """Connect to the scheduler; answers are not unpickled, because none is pickled."""
        seconds = min(self.patience, CONNECT_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                arguments = self.security.get_connection_args("client")
                return await connect(self.url, 0.9 * seconds, deserialize=False, **arguments)
        except (OSError, ValueError, TypeError, RuntimeError, MemoryError) as error:
            raise self._unreachable(error, first_cause(error)) from error

    def _unreachable(self, error: Exception, cause: BaseException) -> UnreachableError:
        """Return the error that states why a scheduler was not reached, and what to do."""
        at, files, is_closed = f"the scheduler at {self.address}", self.security, isinstance(error, CommClosedError)
        is_fatal, is_alert = isinstance(error, FatalCommClosedError), "ALERT" in str(cause)
        broke_off = is_closed and not is_fatal and not is_alert  # without a reason, as a starting service may do
        named = {"ca-file": files.tls_ca_file, "cert": files.tls_client_cert, "key": files.tls_client_key}
        missing = [  # a text with line breaks is a file's content, not its path
            f"{name} {path}" for name, path in named.items() if path and "\n" not in path and not os.path.isfile(path)
        ]
        if missing:
            why = f"{at} cannot be called: there is no TLS file {', '.join(missing)}"
        elif isinstance(error, TypeError):  # Dask's error for a TLS address without a certificate
            why = f"{at} requires TLS, and no certificate was given: give {TLS_FILES}"
        elif isinstance(error, RuntimeError):
            why = f"{at} cannot be called: its address is without TLS, and TLS is required; is it tls://...?"
        elif isinstance(cause, ssl.SSLCertVerificationError):
            why = f"the certificate of {at} is not signed by your CA; give the CA file of its cluster ({cause})"
        elif self.url.startswith("tls://") and (is_alert or broke_off):
            why = f"{at} closed the connection and refused your certificate; is it of its cluster's CA? ({cause})"
        elif is_fatal or "cannot convert to SSL" in str(error):
            why = f"what answers at {self.address} does not speak TLS; is the address tcp://...?"
        elif isinstance(error, ssl.SSLError):
            why = f"{at} cannot be called: the files of TLS cannot be used: {cause}"
        elif is_closed or isinstance(error, MemoryError):
            why = f"what answers at {self.address} is not a scheduler, or requires TLS; is the address tls://...?"
        elif isinstance(error, ValueError):
            why = f"no Dask scheduler can be at {self.address}: {error}"
        else:
            found = str(cause) or f"no answer came within {min(self.patience, CONNECT_SECONDS):g} s"
            cure = "is it running, and is this its own port, not that of its pages?"
            why = f"no Dask scheduler answers at {self.address}: {found}; {cure}"
        return BrokenOffError(why) if broke_off else UnreachableError(why)


def first_cause(error: BaseException) -> BaseException:
    """Return the first error of a chain of causes."""
    while error.__cause__ is not None and not isinstance(error.__cause__, asyncio.CancelledError):
        error = error.__cause__
    return error
