"""A scheduler with the pages, in a thread, over a service that a test plays."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import dask
from distributed import Scheduler

from distforest.errors import InputError, NotFoundError

STARTED = time.time() - 3 * 3600
ROUTES = "distributed.scheduler.http.routes"


def job_of(name: str = "smerf-1", **changed: Any) -> dict[str, Any]:
    """A job that waits for its turn, but for what is changed."""
    asked = {"format": 1, "id": name, "kind": "fit", "method": "smerf", "output": "/data/x.forest.zarr", "n_trees": 40}
    state = {"state": "QUEUED", "revision": 1, "service": "ab12", "workers": 2, "heartbeat": time.time()}
    times = {"submitted": time.time() - 90, "started": None, "ended": None, "since": time.time() - 90, "worked": 0.0}
    progress = {"phase": None, "done": 0, "total": 0, "rate": 0.0, "remaining": None}
    troubles = {"retries": 0, "lost_workers": 0, "attempt": 1, "error": None, "result": None}
    return {**asked, **state, **times, **progress, **troubles, **changed}


def result_of(n_trees: int) -> dict[str, Any]:
    """What a finished fit says."""
    made: dict[str, Any] = {"forest": "/data/x.forest.zarr", "digest": "9f" * 32, "n_trees": n_trees}
    return {**made, "n_grown": n_trees, "seconds": 3.1, "peak_bytes": 71 << 20}


class PlayedService:
    """A service whose jobs and events are what a test says."""

    def __init__(self) -> None:
        self.failure: str | None = None
        self.jobs: dict[str, dict[str, Any]] = {}
        self.happened: dict[str, list[dict[str, Any]]] = {}
        self.asked: list[tuple[str, int]] = []
        where = {"address": "tcp://127.0.0.1:8786", "job_root": "s3://key:secret@bucket/jobs", "host": "somewhere"}
        life = {"id": "ab12", "pid": 4711, "started": STARTED, "heartbeat": time.time(), "version": "0.1"}
        self.told: dict[str, Any] = {**where, **life, "workers": 2, "threads": 4, "silent": ""}

    @staticmethod
    def now() -> float:
        return time.time()

    def put(self, job: dict[str, Any]) -> str:
        """Take a job in, or another state of it."""
        self.jobs[job["id"]] = job
        self.happened.setdefault(job["id"], [])
        return str(job["id"])

    def change(self, name: str, **changed: Any) -> None:
        """Let a job come further."""
        old = self.jobs[name]
        self.jobs[name] = {**old, **changed, "revision": old["revision"] + 1}

    def happen(self, name: str, event: str, message: str, **more: Any) -> None:
        """Let something happen to a job."""
        events = self.happened[name]
        events.append({"n": len(events) + 1, "time": STARTED + 60, "event": event, "message": message, **more})

    def commit(self, name: str, first: int, last: int, seconds: float = 0.8, peak_bytes: int = 70 << 20) -> None:
        """Let the trees ``first`` to ``last`` of a job be committed."""
        told = f"trees {first} to {last} are committed"
        self.happen(name, "trees", told, first=first, last=last, seconds=seconds, peak_bytes=peak_bytes)

    def about(self) -> dict[str, Any]:
        return dict(self.told)

    def listed(self) -> list[dict[str, Any]]:
        return sorted((deepcopy(job) for job in self.jobs.values()), key=lambda job: -job["submitted"])

    def job(self, name: str) -> dict[str, Any]:
        if name not in self.jobs:
            raise NotFoundError(f"there is no job {name!r}")
        return deepcopy(self.jobs[name])

    async def events(self, name: str, after: int = 0, limit: int = 1000) -> list[dict[str, Any]]:
        self.asked.append((name, after))
        await asyncio.sleep(0)
        if name not in self.happened:
            raise NotFoundError(f"there is no job {name!r}")
        return [event for event in self.happened[name] if event["n"] > after][:limit]

    async def metrics(self) -> bytes:
        return f"distforest_workers {self.told['workers']:.1f}\n".encode()

    async def report(self, name: str, run: list[tuple[str, str]]) -> str:
        await asyncio.sleep(0)
        if self.jobs[name]["result"] is None:
            raise InputError(f"{name} has no forest")
        return f"<!DOCTYPE html><p>the report on {name}: {dict(run)['Digest']}</p>"


class Answer(NamedTuple):
    """What the HTTP server has answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Served:
    """A running HTTP server of a scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.port = scheduler.http_server.port

    def play(self) -> PlayedService:
        """Give the scheduler a service of its own to be played."""
        service = self.scheduler.extensions["distforest"] = PlayedService()
        return service

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def ask(self, path: str, method: str = "GET", headers: dict[str, str] | None = None) -> Answer:
        """One request, without following where it leads."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, headers=headers or {})
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()


@contextlib.contextmanager
def serving(http_prefix: str = "/") -> Iterator[Served]:
    """A scheduler in a thread of its own, whose HTTP server has the pages."""
    ready, over, kept = threading.Event(), threading.Event(), {}

    async def run() -> None:
        asked = {"host": "127.0.0.1", "port": 0, "dashboard_address": "127.0.0.1:0", "http_prefix": http_prefix}
        with dask.config.set({ROUTES: ["distributed.http.health", "distforest.service.page"]}):
            scheduler = Scheduler(**asked, dashboard=False)
        async with scheduler:
            kept["served"] = Served(scheduler)
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=asyncio.run, args=(run(),), daemon=True)
    thread.start()
    try:
        assert ready.wait(60), "the scheduler did not start"
        yield kept["served"]
    finally:
        over.set()
        thread.join(60)
    assert not thread.is_alive()
