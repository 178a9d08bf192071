"""The service without workers: what it takes in, keeps, refuses and takes up again."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from distributed import Scheduler

from distforest.errors import InputError, SpecError
from distforest.jobs.spec import Spec
from distforest.jobs.stop import SIGN
from distforest.service import jobs
from distforest.service import lease as leases
from distforest.service.job import Job
from distforest.service.jobs import JobService, ServiceLimits
from distforest.service.policy import Policy
from distforest.service.queues import QUEUES, Queues
from distforest.service.registry import ENDS, Registry, check_id
from distforest.sources.arrays import write_array
from distforest.stores.folder import Folder
from tests.messages import naming
from tests.service.jobs_on_paper import NOWHERE, spec_text, state_of

Ask = Callable[..., Awaitable[dict[str, Any]]]


def in_a_service(root: str, use: Callable[[JobService, Ask], Awaitable[None]], **given: Any) -> None:
    """Run a test in a scheduler with a service, which is closed at the end."""
    limits = ServiceLimits(
        **{field.name: given.pop(field.name) for field in fields(ServiceLimits) if field.name in given}
    )
    policy = Policy(**given)

    async def main() -> None:
        async with Scheduler(host="127.0.0.1", port=0, dashboard=False, dashboard_address="127.0.0.1:0") as scheduler:
            service = JobService(scheduler, Registry(root), policy, limits)
            assert "starting" in str(service.failure)
            await service.start()
            try:
                await reached(lambda: service.failure is None)
                await use(service, lambda name, **asked: scheduler.handlers[f"distforest_{name}"](**asked))
            finally:
                await service.close()
                await service.close()

    asyncio.run(main())


async def reached(what: Callable[[], Any], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, f"waited for {seconds:g} s in vain"
        await asyncio.sleep(0.01)


async def at_work(service: JobService, ask: Ask) -> None:
    """Submit job a, and see it begin; there are no workers that it could have."""
    await ask("submit", spec=spec_text("a"), id="a")
    await reached(lambda: service.job("a")["state"] == "WAITING_FOR_WORKERS")


@contextmanager
def refused(answer: dict[str, Any], kind: str) -> Iterator[list[str]]:
    assert set(answer) == {"error"}, answer
    assert answer["error"]["kind"] == kind, answer
    assert answer["error"]["message"] == "\n".join(answer["error"]["faults"])
    yield answer["error"]["faults"]


@pytest.mark.slow
def test_jobs_are_taken_in_kept_cancelled_resumed_and_removed(root: str) -> None:
    async def use(service: JobService, ask: Ask) -> None:
        answer = await ask("submit", spec=spec_text("a"), id="a")
        assert (answer["created"], answer["job"]["state"]) == (True, "QUEUED")
        assert Registry(root).spec("a") == spec_text("a")  # durable before the answer
        assert (await ask("submit", spec=spec_text("a"), id="a"))["created"] is False
        with refused(await ask("submit", spec=spec_text("b"), id="a"), "ExistsError") as faults:
            assert faults[0].startswith("id: 'a' ")
        await reached(lambda: service.job("a")["state"] == "WAITING_FOR_WORKERS")
        assert (await ask("submit", spec=spec_text("b"), id="b"))["job"]["state"] == "QUEUED"
        assert (await ask("cancel", id="b"))["job"]["state"] == "CANCELLED"  # it had not begun: one runs at once
        assert (await ask("cancel", id="b"))["job"]["state"] == "CANCELLED"
        with refused(await ask("remove", id="a"), "ConflictError") as faults:
            assert re.match(naming("a ", "WAITING_FOR_WORKERS"), *faults)
        assert (await ask("cancel", id="a"))["job"]["state"] in {"CANCELLING", "CANCELLED"}  # as soon as it sees that
        await reached(lambda: service.job("a")["state"] == "CANCELLED")
        await reached(lambda: not service._running)
        told = (await ask("resume", id="a"))["job"]
        assert (told["state"], told["attempt"], told["ended"]) == ("QUEUED", 2, None)
        assert not Registry(root).folder("a").exists(SIGN)
        await reached(lambda: service.job("a")["state"] == "WAITING_FOR_WORKERS")
        assert (await ask("resume", id="a"))["job"]["state"] == "WAITING_FOR_WORKERS"
        answer = await ask("events", id="a", after=2)
        assert [event["n"] for event in answer["events"]] == list(range(3, len(answer["events"]) + 3))
        assert await ask("remove", id="b") == {"id": "b"}
        listed = await ask("list")
        assert [job["id"] for job in listed["jobs"]] == ["a"]
        assert listed["service"]["workers"] == 0
        assert (await ask("health"))["service"]["address"] == service.scheduler.address
        assert Registry(root).ids() == ["a"]

    in_a_service(root, use, max_running=1)
    left = Registry(root).state("a")
    assert left is not None
    assert left["state"] == "INTERRUPTED"
    assert Registry(root).lease() is None


@pytest.mark.slow
def test_a_resume_answers_what_it_did_however_soon_the_job_begins(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(service: JobService, ask: Ask) -> None:
        await at_work(service, ask)
        await ask("cancel", id="a")
        await reached(lambda: service.job("a")["state"] == "CANCELLED" and not service._running)
        loop, save, saved = asyncio.get_running_loop(), Job.save, iter(["by resume"])

        def begun_meanwhile(job: Job, registry: Registry, *forced: bool) -> None:
            if forced and next(saved, None):
                loop.call_soon_threadsafe(service._queued.set)
                begun = reached(lambda: job.state["state"] == "WAITING_FOR_WORKERS")
                asyncio.run_coroutine_threadsafe(begun, loop).result()
            save(job, registry, *forced)

        monkeypatch.setattr(Job, "save", begun_meanwhile)
        assert (await ask("resume", id="a"))["job"]["state"] == "QUEUED"
        assert next(saved, None) is None
        assert service.job("a")["state"] == "WAITING_FOR_WORKERS"

    in_a_service(root, use)


def test_who_resumes_a_job_at_once_waits_for_its_thread(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(service: JobService, ask: Ask) -> None:
        await at_work(service, ask)
        await ask("cancel", id="a")
        await reached(lambda: service.job("a")["state"] == "CANCELLED" and not service._running)
        ending = service._running["a"] = asyncio.get_running_loop().create_future()
        ending.add_done_callback(partial(service._make_room, "a"))
        with monkeypatch.context() as patch:
            patch.setattr(jobs, "CLOSING_SECONDS", 0.0)
            for name in ("resume", "remove"):
                with refused(await ask(name, id="a"), "ConflictError"):
                    pass
        resumed = asyncio.create_task(ask("resume", id="a"))
        await reached(lambda: len(ending._callbacks) > 1)  # it waits
        ending.set_result(None)
        assert (await resumed)["job"]["state"] == "QUEUED"

    in_a_service(root, use)


def test_a_submit_that_is_sent_again_is_told_from_a_second_one(root: str) -> None:
    async def use(service: JobService, ask: Ask) -> None:
        for call, created in (("first", True), ("first", True), ("second", False)):
            assert (await ask("submit", spec=spec_text("a"), id="a", submission=call))["created"] is created

    in_a_service(root, use)


def test_a_spec_is_mended_by_the_resume(root: str, tmp_path: Path) -> None:
    for name in ("X", "Z"):
        write_array(f"{tmp_path}/data.zarr", name, (4, 4), np.dtype("f4"), [np.zeros((4, 4), "f4")])
    given = {"features": f"{tmp_path}/data.zarr/X", "distances": f"{tmp_path}/data.zarr/Z"}

    async def use(service: JobService, ask: Ask) -> None:
        await ask("submit", spec=spec_text("a", input=given), id="a")
        await reached(lambda: service.job("a")["state"] == "WAITING_FOR_WORKERS")
        with refused(await ask("resume", id="a", changes={"seed": 3}), "ConflictError"):
            pass
        await ask("cancel", id="a")
        await reached(lambda: service.job("a")["state"] == "CANCELLED" and not service._running)
        Folder(f"{tmp_path}/data.zarr/Z").remove()
        for changes in ({}, {"seed": 3}):
            with refused(await ask("resume", id="a", changes=changes), "SpecError") as faults:
                assert re.match(naming("input.distances", f"{tmp_path}/data.zarr"), *faults)
        with refused(await ask("resume", id="a", changes={"params.n_estimators": 8}), "SpecError") as faults:
            assert re.match(naming("params.n_estimators: ", "8 trees", 7), *faults)
        with refused(await ask("resume", id="a", changes={"seed.a": 1}), "InputError") as faults:
            assert re.match(naming("seed.a"), *faults)
        assert service.job("a")["state"] == "CANCELLED"
        mended = {"input.distances": f"{tmp_path}/data.zarr/X", "params.n_estimators": 3, "output": f"{NOWHERE}/b.zarr"}
        found = (await ask("resume", id="a", changes=mended))["job"]
        assert (found["state"], found["output"], found["n_trees"]) == ("QUEUED", f"{NOWHERE}/b.zarr", 3)
        kept = Spec.from_json(str(Registry(root).spec("a")))
        assert (kept.output, kept.params["n_estimators"]) == (found["output"], 3)

    in_a_service(root, use, max_trees=7)


@pytest.mark.slow
def test_jobs_of_a_higher_priority_start_first(root: str) -> None:
    """One runs at once; it waits for workers, of which there are none, until it is cancelled."""

    async def use(service: JobService, ask: Ask) -> None:
        await at_work(service, ask)
        for name, priority in (("low", -1), ("usual", 0), ("later", 0), ("high", 2), ("higher", 3)):
            await ask("submit", spec=spec_text(name, run={"priority": priority}), id=name)
        await ask("cancel", id="later")
        raised = await ask("resume", id="later", changes={"run.priority": 1})
        assert raised["job"]["priority"] == 1
        last = "a"
        for name in ("higher", "high", "later", "usual", "low"):
            await ask("cancel", id=last)
            await reached(lambda name=name: service.job(name)["state"] == "WAITING_FOR_WORKERS")
            last = name

    in_a_service(root, use, max_running=1)


@pytest.mark.slow
def test_a_queue_limits_its_jobs_and_a_file_of_the_root_changes_it(root: str, caplog: pytest.LogCaptureFixture) -> None:
    limits = Path(root) / QUEUES

    async def use(service: JobService, ask: Ask) -> None:
        with refused(await ask("submit", spec=spec_text("a", run={"queue": "daily"})), "SpecError") as faults:
            assert re.match(naming("run.queue: 'daily'", "nightly"), *faults)
        for name in "abc":
            await ask("submit", spec=spec_text(name, run={"queue": "nightly"}), id=name)
        await reached(lambda: service.job("c")["waiting"] == "waiting for queue nightly: 2 of 2 running")
        await ask("submit", spec=spec_text("d"), id="d")  # is not held back
        for name in ("a", "b", "d"):
            await reached(lambda name=name: service.job(name)["state"] == "WAITING_FOR_WORKERS")
        limits.write_text("[nightly]\nmax-running = 'two'\n")
        await reached(lambda: "is ignored" in caplog.text)
        assert service.job("c")["state"] == "QUEUED"
        limits.write_text("[nightly]\nmax-running = 3\n[daily]\nmax-running = 0\n")
        await reached(lambda: service.job("c")["state"] == "WAITING_FOR_WORKERS")
        await ask("submit", spec=spec_text("e", run={"queue": "daily"}), id="e")
        await reached(lambda: service.job("e")["waiting"] == "waiting for queue daily: 0 of 0 running")
        limits.unlink()
        await ask("cancel", id="a")
        await reached(lambda: service.job("a")["state"] == "CANCELLED" and "a" not in service._running)
        with refused(await ask("resume", id="a", changes={"run.queue": "daily"}), "SpecError") as faults:
            assert re.match(naming("run.queue: 'daily'"), *faults)

    with pytest.raises(InputError, match=naming("nightly=2")):
        in_a_service(root, use, queues=("nightly=2",))
    in_a_service(root, use, queues=("nightly:max-running=2",))


@pytest.mark.parametrize(
    "content",
    [
        "[nightly]\nmax-running = inf\n",
        "[nightly]\nmax-running = nan\n",
        "[nightly]\nmax-running = 'two'\n",
        "[nightly]\nmax-running = " + "[" * 10_000,
        "nightly = 1\n",
        "[nightly\n",
    ],
)
def test_a_file_of_queues_without_numbers_changes_no_limit(tmp_path: Path, content: str) -> None:
    queues = Queues(Folder(str(tmp_path)), ["daily:max-running=1"])
    (tmp_path / QUEUES).write_text("[nightly]\nmax-running = 2\n")
    queues.read()
    (tmp_path / QUEUES).write_text(content)
    queues.read()
    assert queues.limits == {"daily": 1, "nightly": 2}


def test_only_owners_and_operators_change_jobs_if_the_service_says_so(root: str) -> None:
    async def use(_service: JobService, ask: Ask) -> None:
        await ask("submit", spec=spec_text("a"), id="a", owner="ada")
        await ask("submit", spec=spec_text("b"), id="b")
        for call, name, who in product(("cancel", "resume", "remove"), "ab", ("charles", None)):
            with refused(await ask(call, id=name, owner=who), "ConflictError") as faults:
                assert re.match(naming(name, "ada" if name == "a" else "nobody"), *faults)
        assert "job" in await ask("cancel", id="a", owner="ada")
        assert "job" in await ask("cancel", id="b", owner="root")

    in_a_service(root, use, owners_only=True, operators=("root",))


def test_a_job_has_an_owner_that_a_list_can_show(root: str) -> None:
    async def use(service: JobService, ask: Ask) -> None:
        assert (await ask("submit", spec=spec_text("a"), id="a", owner="Ada L."))["job"]["owner"] == "Ada L."
        assert (await ask("submit", spec=spec_text("b"), id="b"))["job"]["owner"] is None
        for owner in ("", "a" * 65, "\x1b[2J", 3):
            with refused(await ask("submit", spec=spec_text("c"), id="c", owner=owner), "InputError") as faults:
                assert faults[0].startswith("owner: ")
        assert Registry(root).job("a", time.time())["owner"] == "Ada L."

    in_a_service(root, use)


def test_a_spec_of_an_older_version_is_the_same(root: str) -> None:
    async def use(service: JobService, ask: Ask) -> None:
        await ask("submit", spec=spec_text("a"), id="a")
        old = json.loads(spec_text("a"))
        del old["run"]["priority"]
        Registry(root).write_spec("a", json.dumps(old))
        assert (await ask("submit", spec=spec_text("a"), id="a"))["created"] is False
        with refused(await ask("submit", spec=spec_text("a", seed=1), id="a"), "ExistsError"):
            pass

    in_a_service(root, use)


def test_refusals_are_answers(root: str) -> None:
    async def use(service: JobService, ask: Ask) -> None:
        for name in ("status", "events", "cancel", "resume", "remove"):
            with refused(await ask(name, id="nobody"), "NotFoundError") as faults:
                assert re.match(naming("'nobody'", root), faults[0])
        with refused(await ask("submit", spec=spec_text(), id="../a"), "InputError") as faults:
            assert faults[0].startswith("id: ")
        with refused(await ask("submit", spec='{"format": 1}'), "SpecError") as faults:
            assert len(faults) > 1
        with refused(await ask("submit", spec=spec_text() + " " * 2000), "SpecError") as faults:
            assert re.match(naming("spec: ", "2000 bytes"), faults[0])
        with refused(await ask("submit", spec=spec_text(params={"n_estimators": 8})), "SpecError") as faults:
            assert re.match(naming("params.n_estimators: ", "8 trees", 7), *faults)
        with refused(await ask("submit", spec=spec_text(output="/else/a.zarr")), "SpecError") as faults:
            assert faults[0].startswith("output: '/else/a.zarr' ")
        with refused(await ask("status"), "JobError") as faults:
            assert "TypeError" in faults[0]
        assert service.listed() == []
        assert Registry(root).ids() == []
        await ask("submit", spec=spec_text("a"), id="a")
        with refused(await ask("submit", spec=spec_text("b"), id="b"), "JobError") as faults:
            assert "--max-jobs" in faults[0]
        assert (await ask("submit", spec=spec_text("a"), id="a"))["created"] is False
        await service.close()
        for answer in (await ask("submit", spec=spec_text("a"), id="a"), await ask("health")):
            with refused(answer, "AwayError") as faults:
                assert "closes" in faults[0]

    limits = {"max_spec_bytes": 2000, "max_trees": 7, "max_jobs": 1}
    in_a_service(root, use, prefixes=(NOWHERE, "/x"), **limits)


def test_a_service_that_may_not_write_asks_to_come_again(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(service: JobService, ask: Ask) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(leases, "STALE", 0.0)
            with refused(await ask("submit", spec=spec_text("a"), id="a"), "AwayError") as faults:
                assert "heartbeat" in faults[0]
            assert (await ask("list"))["jobs"] == []
        assert (await ask("submit", spec=spec_text("a"), id="a"))["created"]

    in_a_service(root, use)


def test_a_job_without_an_id_is_given_one(root: str) -> None:
    async def use(service: JobService, ask: Ask) -> None:
        made = [(await ask("submit", spec=spec_text(name)))["job"]["id"] for name in "ab"]
        assert made[0] != made[1]
        assert all(check_id(name).startswith("smerf-20") for name in made)

    in_a_service(root, use)


def test_a_new_service_takes_up_what_it_finds(root: str) -> None:
    registry = Registry(root)
    for name, state in (
        ("queued", "QUEUED"),
        ("running", "RUNNING"),
        ("merging", "MERGING"),
        ("interrupted", "INTERRUPTED"),
        ("cancelling", "CANCELLING"),
        ("succeeded", "SUCCEEDED"),
        ("failed", "FAILED"),
        ("cancelled", "CANCELLED"),
        ("stopped", "RUNNING"),
        ("stateless", "RUNNING"),
        ("torn", "RUNNING"),
    ):
        registry.create(name, spec_text(name), state_of(name, state=state))
        registry.note(name, [{"n": 1, "time": 1.0, "event": "submitted", "message": "."}])
        registry.folder(name).within("work").write("shard", b"")
    registry.folder("stateless").discard("state.json")
    registry.folder("torn").write("state.json", b'{"state": "SUCC')
    registry.folder("stopped").write(SIGN, b"")  # its service had ended before it could say that it has failed
    registry.folder("no-spec-that-is-one").write("spec.json", b"{}")
    registry.folder("empty").write("else", b"")

    async def use(service: JobService, ask: Ask) -> None:
        told = {job["id"]: (job["state"], job["attempt"]) for job in service.listed()}
        again = {"running", "merging", "interrupted", "stopped"}
        assert {name for name, found in told.items() if found[1] == 2} == again
        ended = {name: found[0] for name, found in told.items() if found[0] in ENDS}
        assert ended == {"cancelling": "CANCELLED"} | {
            name: name.upper() for name in ("succeeded", "failed", "cancelled")
        }
        assert {name for name, found in told.items() if found[0] == "UNREADABLE"} == {"no-spec-that-is-one"}
        assert set(told) == set(ended) | again | {"queued", "stateless", "torn", "no-spec-that-is-one"}
        assert not registry.folder("cancelling").within("work").exists()
        assert not registry.folder("stopped").exists(SIGN)
        [_, event, *_] = await service.events("running")
        assert (event["n"], event["event"]) == (2, "resumed")

    in_a_service(root, use, max_running=1)


def test_the_end_of_a_run_is_not_undone_by_a_cancel_that_comes_too_late(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Folder.write

    async def use(service: JobService, ask: Ask) -> None:
        await at_work(service, ask)
        job = service.jobs["a"]

        def ended_meanwhile(folder: Folder, name: str, content: bytes) -> None:
            if name == SIGN and not job.has_ended:
                job.end("SUCCEEDED", "done", result={})
            write(folder, name, content)

        monkeypatch.setattr(Folder, "write", ended_meanwhile)
        await ask("cancel", id="a")
        assert service.job("a")["state"] == "SUCCEEDED"
        monkeypatch.setattr(Folder, "write", write)

    in_a_service(root, use)


@pytest.mark.slow
def test_a_service_whose_lease_was_taken_ends_its_scheduler_and_writes_nothing(
    root: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("distforest.service.jobs.LEASE_BEAT", 0.05)
    registry = Registry(root)

    async def use(service: JobService, ask: Ask) -> None:
        await at_work(service, ask)
        taken = json.dumps({"id": "another one", "address": "tcp://there", "heartbeat": 1.0}).encode()
        close = service.scheduler.close

        async def closed(**given: Any) -> None:  # as the preload's teardown would have it
            await service.close()
            await close(**given)

        folder, beat = registry.folder("a"), service.lease.beat
        before = []

        def beat_too_late() -> None:  # between two savings of the service: none is under way
            registry.folder().write("service.json", taken)
            folder.write("state.json", b"of the other one")
            before.append(folder.read("events.jsonl"))
            beat()

        monkeypatch.setattr(service.scheduler, "close", closed)
        monkeypatch.setattr(service.lease, "beat", beat_too_late)
        await reached(lambda: service.failure)
        await service.scheduler.finished()
        assert "tcp://there" in caplog.text
        assert folder.read("state.json") == b"of the other one"
        assert [folder.read("events.jsonl")] == before
        assert registry.lease() == json.loads(taken)

    in_a_service(root, use)


def test_a_service_that_closes_as_a_job_is_queued_does_not_go_on(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(service: JobService, ask: Ask) -> None:
        monkeypatch.setattr(jobs, "BEAT", 60.0)
        await reached(lambda: service._queued._waiters)
        looping = service._looping
        assert looping is not None
        service._queued.set()
        await asyncio.sleep(0)  # who waited has been told, and has not yet gone on
        await service.close()
        assert looping.cancelled()
        assert Registry(root).lease() is None

    in_a_service(root, use)


@pytest.mark.slow
def test_a_service_whose_loop_has_failed_says_so(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(service: JobService, ask: Ask) -> None:
        def broken(*_: Any) -> None:
            raise ZeroDivisionError("a bug")

        monkeypatch.setattr(service, "_start_queued", broken)
        await reached(lambda: service.failure)
        with refused(await ask("health"), "JobError") as faults:
            assert "ZeroDivisionError('a bug')" in faults[0]

    in_a_service(root, use)


def test_a_spec_error_is_answered_with_all_faults(root: str) -> None:
    async def use(service: JobService, ask: Ask) -> None:
        text = json.dumps({"format": 1, "method": "smerf", "seed": -1, "output": "x", "input": {}})
        with pytest.raises(SpecError) as expected:
            Spec.from_json(text)
        with refused(await ask("submit", spec=text), "SpecError") as faults:
            assert faults == list(expected.value.faults)

    in_a_service(root, use)


def test_a_job_is_refused_whose_inputs_are_at_fault_as_far_as_can_be_seen(root: str, tmp_path: Path) -> None:
    write_array(f"{tmp_path}/data.zarr", "X", (4, 2), np.dtype("f4"), [np.zeros((4, 2), "f4")])
    spec = {
        "format": 1,
        "method": "urerf",
        "output": f"{tmp_path}/f.zarr",
        "input": {"features": f"{tmp_path}/data.zarr"},
    }

    async def use(service: JobService, ask: Ask) -> None:
        with refused(await ask("submit", spec=json.dumps(spec)), "SpecError") as faults:
            assert re.match(naming(f"input.features: {tmp_path}/data.zarr: ", "group with X"), *faults)
        spec["input"] = {"features": f"{tmp_path}/elsewhere.zarr/X"}
        assert (await ask("submit", spec=json.dumps(spec)))["created"] is True

    in_a_service(root, use)


def test_an_input_that_is_absent_here_is_looked_for_on_the_worker_that_was_heard_of_last(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "LOOK_SECONDS", 30.0)
    over, workers = threading.Event(), {n: SimpleNamespace(address=f"tcp://{n}", last_seen=n) for n in (1, 3, 2)}
    answers: list[Callable[[], dict[str, list[str]]]] = [
        lambda: {"tcp://3": ["input: nothing is at /x/X"]},
        dict,  # it has died
        lambda: {"tcp://3": []},
        lambda: {"tcp://3": [str(over.wait(60))]},
    ]
    asked = []

    def run(_function: Any, _spec: Any, workers: list[str], on_error: str) -> dict[str, list[str]]:
        asked.append(workers)
        return answers[len(asked) - 1]()

    async def use(service: JobService, ask: Ask) -> None:
        assert service.context is not None
        with monkeypatch.context() as during:
            during.setattr(service.context.client, "run", run)
            during.setattr(service.turns, "look", lambda _scheduler: None)
            during.setattr(service, "scheduler", SimpleNamespace(workers=workers))
            with refused(await ask("submit", spec=spec_text("a"), id="a"), "SpecError") as faults:
                assert faults == ["input: nothing is at /x/X"]
            for name in "bc":
                assert (await ask("submit", spec=spec_text(name), id=name))["created"] is True
            during.setattr(jobs, "LOOK_SECONDS", 0.05)
            assert (await ask("submit", spec=spec_text("d"), id="d"))["created"] is True
            over.set()
        assert asked == [["tcp://3"]] * 4

    in_a_service(root, use)


def test_a_store_that_does_not_answer_keeps_nobody_who_hands_in_a_job(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung = threading.Event()
    monkeypatch.setattr(jobs, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(jobs, "faults_of_metadata", lambda _spec: [str(hung.wait(60))])

    async def use(service: JobService, ask: Ask) -> None:
        assert (await ask("submit", spec=spec_text("a"), id="a"))["created"] is True
        hung.set()

    in_a_service(root, use)
