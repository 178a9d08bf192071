"""Read-only pages of the service on the scheduler's HTTP server.

``distributed.scheduler.http.routes`` names this module, and the scheduler reads `routes`. All links are relative, so
that they work under a prefix or behind a proxy. The server renders the pages with templates that escape every value;
the script in the browser only requests the same page again and inserts what has changed.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote

from dask.utils import format_time
from jinja2 import Environment, PackageLoader, StrictUndefined
from prometheus_client import CONTENT_TYPE_LATEST
from tornado.web import RequestHandler

from distforest.errors import ConflictError, DistforestError, InputError, JobError, NotFoundError
from distforest.html_table import with_code
from distforest.service.page import words
from distforest.service.page.measured import Measurements, charts
from distforest.service.registry import UNREADABLE, UnreadableError

if TYPE_CHECKING:
    from types import TracebackType

    from distributed import Scheduler

    from distforest.service.jobs import JobService

    ExcInfo = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]

_FOLDER = Path(__file__).parent
_TEMPLATES = Environment(loader=PackageLoader(__name__), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
_TEMPLATES.filters["quote"] = lambda name: quote(name, safe="")
_TEMPLATES.filters["marked"] = with_code
_TEMPLATES.globals["words"] = words
_FILES = {
    "style.css": "text/css; charset=utf-8",
    "watch.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Content policy of a report, which contains its style and pictures and has no script."""

_EXTENSION = "distforest"
_LARGEST_NUMBER = 2**53
N_ON_A_PAGE = 50
HEARTBEAT_PATIENCE = 60.0
"""Seconds without a heartbeat after which the health of the service is bad."""

_STATUSES: dict[type[DistforestError], int] = {
    InputError: 400,
    NotFoundError: 404,
    ConflictError: 409,
    UnreadableError: 500,
}
"""HTTP statuses of errors that are answered with their message; any other such error has 503."""


class PageReading(RequestHandler):  # type: ignore[misc]  # as above
    """Base of all handlers, which only read."""

    SUPPORTED_METHODS = ("GET", "HEAD")

    def initialize(self, dask_server: Scheduler) -> None:
        """Take the scheduler, which its HTTP server passes to each handler."""
        self.server = dask_server

    def set_default_headers(self) -> None:
        """Restrict the browser to files of this server, and disable its cache."""
        for name, value in _HEADERS.items():
            self.set_header(name, value)

    async def head(self, *parts: str) -> None:
        """Answer as to GET; the server leaves the body out."""
        if (done := self.get(*parts)) is not None:
            await done

    @property
    def service(self) -> JobService:
        """The service of this scheduler."""
        service: JobService | None = self.server.extensions.get(_EXTENSION)
        if service is None:
            raise JobError("the job service has not started on this scheduler")
        return service

    @property
    def measurements(self) -> Measurements:
        """The measurements from events that were read so far; they are kept as long as the service runs."""
        service, known = self.service, self.server.extensions
        kept = known.get(f"{_EXTENSION}-measurements")
        if kept is None or kept.service is not service:
            kept = known[f"{_EXTENSION}-measurements"] = Measurements(service)
        return kept

    def number(self, name: str) -> int:
        """Return an integer of the query string; 0 if it is missing."""
        text = self.get_query_argument(name, "0")
        if not re.fullmatch("[0-9]{1,16}", text) or int(text) > _LARGEST_NUMBER:
            raise InputError(f"{name} must be an integer from 0, found {text[:40]!r}")
        return int(text)

    def log_exception(self, kind: type[BaseException], value: BaseException, traceback: TracebackType) -> None:
        """Log an error unless it is an answer to the request."""
        if not isinstance(value, DistforestError):
            super().log_exception(kind, value, traceback)

    def write_error(self, status_code: int, *, exc_info: ExcInfo = (None, None, None), **_more: object) -> None:
        """Answer an error; for an internal error, refer only to the log."""
        if status_code == 405:
            self.set_header("Allow", "GET, HEAD")
        error = exc_info[1]
        if isinstance(error, DistforestError):
            self.set_status(_STATUSES.get(type(error), 503))
            self.refuse(type(error).__name__, str(error))
        elif status_code < 500:
            self.refuse("InputError", f"{self.request.method} is not allowed for this address, which can only be read")
        else:
            self.refuse("JobError", "the request failed; the scheduler's log has the reason")

    def refuse(self, kind: str, message: str) -> None:
        """Answer an error."""
        self.answer_json({"error": {"kind": kind, "message": message, "faults": [message]}})

    def answer_json(self, answer: Mapping[str, object]) -> None:
        """Answer with JSON."""
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(json.dumps(answer))


class Page(PageReading):
    """Base of the HTML pages."""

    root: ClassVar[str]
    """Relative path from the page to the folder of jobs.json."""

    def refuse(self, _kind: str, message: str) -> None:
        """Answer with an error page."""
        self.show("trouble.html", message=message)

    def show(self, template: str, **values: object) -> None:
        """Render a template, which escapes every value."""
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish(_TEMPLATES.get_template(template).render(root=self.root, **values))


class JobsPage(Page):
    """The list of jobs, newest first, in parts; ``?state=FAILED`` shows those in one state."""

    root = ""

    def get(self) -> None:
        """Answer the page."""
        jobs = self.service.listed()
        state, skipped = self.get_query_argument("state", ""), self.number("skip")
        chosen = [job for job in jobs if not state or job["state"] == state]
        self.show(
            "jobs.html",
            service=self.service,
            about=self.service.about(),
            aside=[job for job in jobs if job["state"] == UNREADABLE],
            states=Counter(job["state"] for job in jobs),
            chosen=state,
            jobs=chosen[skipped : skipped + N_ON_A_PAGE],
            newer=max(0, skipped - N_ON_A_PAGE) if skipped else None,
            older=skipped + N_ON_A_PAGE if len(chosen) > skipped + N_ON_A_PAGE else None,
        )


class JobPage(Page):
    """The page of a job."""

    root = "../"

    async def get(self, name: str) -> None:
        """Answer the page."""
        job = self.service.job(name)
        columns, events = await self.measurements.of_job(job)
        self.show(
            "job.html",
            service=self.service,
            job=job,
            facts=words.facts_of_job(job),
            results=words.facts_of_result(job["result"]),
            charts=charts(columns),
            events=words.folded(events),
            cut=bool(events) and events[0]["n"] > 1,
        )


class ReportPage(Page):
    """The report on the forest of a job: a page that loads nothing else; a worker makes it at the first request."""

    root = "../../"

    async def get(self, name: str) -> None:
        """Answer the page."""
        job = self.service.job(name)
        try:
            page = await self.service.report(name, [*words.facts_of_job(job), *words.facts_of_result(job["result"])])
        except InputError as error:
            raise ConflictError(str(error)) from error
        self.set_header("Content-Security-Policy", _REPORT_POLICY)
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish(page)


class JSONData(PageReading):
    """The service and all jobs, or one job, as JSON, as the commands print them with ``--json``.

    An answer has at most a thousand events of a job, from the one after ``?after=N``.
    """

    async def get(self, name: str | None = None, events: str | None = None) -> None:
        """Answer JSON."""
        if name is None:
            self.answer_json({"service": self.service.about(), "jobs": self.service.listed()})
            return
        job = self.service.job(name)  # read before the events, so that an ended job comes with all of them
        more = {"events": await self.service.events(name, after=self.number("after"))} if events else {}
        self.answer_json({"job": job, **more})


class Health(PageReading):
    """Health check: 200, or 503 with the reason; it shows no addresses, so that it may be public."""

    def get(self) -> None:
        """Answer JSON."""
        service = self.service
        about, now = service.about(), time.time()
        age = max(0.0, now - about["heartbeat"])
        late = f"the service's last heartbeat was {format_time(age)} ago" if age > HEARTBEAT_PATIENCE else None
        reason = service.failure or late
        record = {key: about[key] for key in ("id", "version", "started", "heartbeat", "workers", "threads")}
        states = Counter(job["state"] for job in service.listed())
        if reason is None:
            self.answer_json({"status": "ok", **record, "jobs": states})
        else:
            self.set_status(503)
            self.answer_json({"status": "failed", "reason": _without_password(reason), **record, "jobs": states})

    def refuse(self, _kind: str, message: str) -> None:
        """Answer that there is no service."""
        self.answer_json({"status": "failed", "reason": message})


class MetricsPage(PageReading):
    """The metrics for Prometheus."""

    async def get(self) -> None:
        """Answer with the metrics."""
        found = await self.service.metrics()
        self.set_header("Content-Type", CONTENT_TYPE_LATEST)
        self.finish(found)


class File(PageReading):
    """The style sheet, the script or the icon of the pages."""

    def get(self, name: str) -> None:
        """Answer a file's content."""
        if name not in _FILES:
            raise NotFoundError("there is no such file")
        self.set_header("Content-Type", _FILES[name])
        self.finish((_FOLDER / name).read_bytes())


class ToJobs(PageReading):
    """Redirection of neighbouring addresses to the list of jobs."""

    def initialize(self, dask_server: Scheduler, target: str = "") -> None:
        """Take the scheduler, and the list's address relative to this one."""
        super().initialize(dask_server)
        self._target = target

    def get(self) -> None:
        """Redirect the browser."""
        self.redirect(self._target)


def _without_password(text: str) -> str:
    """Return a text whose addresses have no user, password or query.

    Examples
    --------
    >>> _without_password("cannot write to s3://key:secret@bucket/jobs?token=1, is it full?")
    'cannot write to s3://bucket/jobs, is it full?'
    """
    return re.sub(r"(://)(?:[^\s/@]*@)?([^\s?]*)(?:\?\S*?(?=[.:,]?(?:\s|$)))?", r"\1\2", text)


routes: list[tuple[str, type[RequestHandler], dict[str, str]]] = [
    (r"/distforest", ToJobs, {"target": "distforest/jobs"}),
    (r"/distforest/", ToJobs, {"target": "jobs"}),
    (r"/distforest/jobs", JobsPage, {}),
    (r"/distforest/jobs/", ToJobs, {"target": "../jobs"}),
    (r"/distforest/jobs\.json", JSONData, {}),
    (r"/distforest/jobs/([^/]+)(/events)\.json", JSONData, {}),
    (r"/distforest/jobs/([^/]+)/report", ReportPage, {}),
    (r"/distforest/jobs/([^/]+)\.json", JSONData, {}),
    (r"/distforest/jobs/([^/]+)", JobPage, {}),
    (r"/distforest/health", Health, {}),
    (r"/distforest/metrics", MetricsPage, {}),
    (r"/distforest/page/([^/]+)", File, {}),
]
