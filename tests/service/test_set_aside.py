"""A job root with folders that no service has written, and a large one: who cannot be read is left alone, by name."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import re
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Scheduler

from distforest.service import jobs
from distforest.service.jobs import JobService
from distforest.service.registry import Registry
from distforest.stores.folder import Folder
from tests.messages import naming
from tests.service.jobs_on_paper import event, spec_text, state_of
from tests.service.page_server import ROUTES
from tests.service.test_service import in_a_service, reached, refused

Ask = Callable[..., Awaitable[dict[str, Any]]]
Put = Callable[[Path], object]


def says(name: str, **changed: Any) -> Put:
    """A state with other values."""
    return lambda folder: (folder / "state.json").write_text(json.dumps(state_of(folder.name, **changed)))


def instead(name: str, make: Put) -> Put:
    """Something else in place of a file."""

    def put(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return put


def moved(folder: Path) -> None:
    """A link to the folder, which lies elsewhere, as that of a job that was told to stop."""
    says("", state="CANCELLING")(folder)
    folder.rename(folder.parents[1] / "outside")
    folder.symlink_to("../outside")


def worked_elsewhere(folder: Path) -> None:
    says("", state="CANCELLING")(folder)
    (folder / "work" / "shard").unlink()
    (folder / "work").rmdir()
    (folder / "work").symlink_to("../../outside/work")


ODD: dict[str, Put] = {
    "state-nan": says("", submitted=math.nan),
    "state-far": says("", submitted=1e300, state="SUCCEEDED", ended=1.0),
    "state-rate": says("", rate=math.inf, state="SUCCEEDED", ended=1.0),
    "state-error": says("", error="why", state="FAILED", ended=1.0),
    "state-total": says("", total=[1], state="FAILED", ended=1.0),
    "state-other": says("", id="another"),
    "state-folder": instead("state.json", Path.mkdir),
    "state-loop": instead("state.json", lambda path: path.symlink_to(path.name)),
    "state-pipe": instead("state.json", os.mkfifo),
    "spec-folder": instead("spec.json", Path.mkdir),
    "spec-bytes": lambda folder: (folder / "spec.json").write_bytes(b"\xff\xfe"),
    "spec-none": lambda folder: (folder / "spec.json").write_text("{}"),
    "events-folder": instead("events.jsonl", Path.mkdir),
    "events-loop": instead("events.jsonl", lambda path: path.symlink_to(path.name)),
    "sign-folder": lambda folder: (folder / "stop" / "x").mkdir(parents=True),
    "linked": moved,
    "work-linked": worked_elsewhere,
}
EVENTS: dict[str, bytes] = {
    "n-infinite": b'{"n":1e999}\n',
    "n-nan": b'{"n":NaN,"time":1.0,"event":"trees","message":"."}\n',
    "no-time": b'{"n":2,"event":"trees"}\n',
    "no-numbers": b'{"n":2,"time":1.0,"event":"trees","message":"."}\n',
}
"""Lines of events that are left out; their jobs run."""


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A job root with a good job, and all odd ones."""
    registry = Registry(f"{tmp_path}/root")
    for name in ("good", *ODD, *EVENTS):
        registry.create(name, spec_text(name), state_of(name))
        registry.note(name, [event(1, "submitted")])
        registry.folder(name).within("work").write("shard", b"")
    for name, line in EVENTS.items():
        with (tmp_path / "root" / name / "events.jsonl").open("ab") as file:
            file.write(line)
    for name, put in ODD.items():
        put(tmp_path / "root" / name)
    (tmp_path / "root" / "notes").write_text("of the operator")
    return registry.root


def asked(scheduler: Scheduler, page: str) -> tuple[int, str]:
    url = f"http://127.0.0.1:{scheduler.http_server.port}/distforest/{page}"
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.slow
def test_who_cannot_be_read_is_left_alone_by_name_and_all_others_run(
    root: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = {path: path.lstat().st_mtime_ns for name in ODD for path in (tmp_path / "root" / name).rglob("*")}

    async def use(service: JobService, ask: Ask) -> None:
        service.scheduler.extensions["distforest"] = service
        listed = (await ask("list"))["jobs"]
        told = {job["id"]: job for job in listed}
        assert {name for name, job in told.items() if job["state"] == "UNREADABLE"} == set(ODD)
        assert set(told) == {"good", *ODD, *EVENTS}
        assert json.loads(json.dumps(listed, allow_nan=False)) == listed
        for name in ODD:
            message = told[name]["error"]["message"]
            assert message.startswith(f"{name} ")
            assert message in caplog.text
            assert (await ask("status", id=name))["job"] == told[name]
            assert (await ask("events", id=name))["events"] == []
            for what in ("cancel", "resume", "remove"):
                with refused(await ask(what, id=name), "ConflictError") as faults:
                    assert faults == [message]
            with refused(await ask("submit", spec=spec_text(name), id=name), "ConflictError") as faults:
                assert faults == [message]
        for name in ("good", *EVENTS):
            await reached(lambda name=name: service.job(name)["state"] == "WAITING_FOR_WORKERS")
        for page in ("jobs", "jobs.json", "metrics", "health", "jobs/linked", "jobs/n-infinite", "jobs/no-numbers"):
            status, text = await asyncio.to_thread(asked, service.scheduler, page)
            assert status == 200, text
        assert f"{len(ODD)} jobs are left alone" in (await asyncio.to_thread(asked, service.scheduler, "jobs"))[1]
        metrics = (await asyncio.to_thread(asked, service.scheduler, "metrics"))[1]
        assert f'distforest_jobs{{state="UNREADABLE"}} {len(ODD)}.0\n' in metrics

    dask_routes = {ROUTES: ["distributed.http.health", "distforest.service.page"]}
    with dask.config.set(dask_routes):
        in_a_service(root, use, max_running=5)
    assert (tmp_path / "outside" / "work" / "shard").exists()
    assert {path: path.lstat().st_mtime_ns for path in before} == before


@pytest.mark.slow
def test_events_that_cannot_be_read_are_reported_for_their_job_alone(root: str, tmp_path: Path) -> None:
    registry = Registry(root)
    registry.create("done", spec_text("done"), state_of("done", state="FAILED", ended=2e9))
    registry.folder("done").within("events.jsonl").write("x", b"")

    async def use(service: JobService, ask: Ask) -> None:
        service.scheduler.extensions["distforest"] = service
        assert service.job("done")["state"] == "FAILED"  # nothing of it was read but this
        for what in ("events", "resume"):
            with refused(await ask(what, id="done"), "UnreadableError") as faults:
                assert "done/events.jsonl" in faults[0]
        assert service.job("done")["state"] == "FAILED"
        assert (await asyncio.to_thread(asked, service.scheduler, "metrics"))[0] == 200
        status, text = await asyncio.to_thread(asked, service.scheduler, "jobs/done")
        assert (status, "events.jsonl" in text) == (500, True)

    with dask.config.set({ROUTES: ["distributed.http.health", "distforest.service.page"]}):
        in_a_service(root, use)


@pytest.mark.slow
def test_of_a_job_that_has_ended_only_its_state_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(f"{tmp_path}/root")
    for n in range(300):
        name = f"old-{n}"
        registry.create(name, spec_text(name), state_of(name, state="FAILED", ended=2.0, submitted=float(n)))
        registry.note(name, [event(k) for k in range(1, 5)])
    read: list[str] = []
    ends = Folder.ends

    def reading(folder: Folder, names: list[str], most: int) -> Any:
        read.extend(names)
        return ends(folder, names, most)

    async def use(service: JobService, ask: Ask) -> None:
        assert [job["id"] for job in service.listed()] == [f"old-{n}" for n in reversed(range(300))]
        assert {name.partition("/")[2] for name in read if "/" in name} == {"state.json"}
        assert len(read) < 310
        assert (await ask("resume", id="old-7"))["job"]["state"] == "QUEUED"
        [resumed, *_] = await service.events("old-7", after=4)
        assert (resumed["n"], resumed["event"]) == (5, "resumed")

    monkeypatch.setattr(Folder, "ends", reading)
    in_a_service(registry.root, use)


def test_the_lease_is_held_while_a_large_root_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is answered meanwhile, but told to try again."""
    monkeypatch.setattr(jobs, "LEASE_BEAT", 0.01)
    take_up = JobService._read_jobs
    answers: list[dict[str, Any]] = []

    def slowly(service: JobService) -> None:
        loop, first = service.scheduler.loop.asyncio_loop, service.lease.heartbeat
        asyncio.run_coroutine_threadsafe(reached(lambda: service.lease.heartbeat > first), loop).result()
        for name in ("submit", "list"):
            given = {"spec": spec_text("a"), "id": "a"} if name == "submit" else {}
            call = service.scheduler.handlers[f"distforest_{name}"](**given)
            answers.append(asyncio.run_coroutine_threadsafe(call, loop).result())
        take_up(service)

    async def use(service: JobService, ask: Ask) -> None:
        assert (await ask("list"))["jobs"] == []

    monkeypatch.setattr(JobService, "_read_jobs", slowly)
    in_a_service(f"{tmp_path}/root", use)
    assert len(answers) == 2
    for answer in answers:
        with refused(answer, "AwayError") as faults:
            assert "starting" in faults[0]


def test_a_store_that_does_not_compare_is_reported_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def use(service: JobService, ask: Ask) -> None:
        pass

    with caplog.at_level(logging.WARNING, "distforest"):
        in_a_service(f"{tmp_path}/root", use)
        assert caplog.text == ""
        in_a_service(f"memory://{tmp_path}", use)
    assert re.search(naming(f"memory://{tmp_path}", "does not compare"), caplog.text)


def test_a_message_of_any_length_is_kept_in_part(tmp_path: Path) -> None:
    registry = Registry(f"{tmp_path}/root")
    registry.create("a", spec_text(), state_of())
    job = jobs.Job(state_of())
    job.end("FAILED", "x" * 10**7, error={"kind": "JobError", "message": "x" * 10**7})
    assert job.save(registry, at_once=True)
    assert sum(path.stat().st_size for path in (tmp_path / "root" / "a").iterdir()) < 50_000
    [failed] = registry.events("a")
    assert re.search(r"… \(9,980,000 .*\)$", failed["message"])
