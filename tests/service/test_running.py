"""One job while it runs: its state and events, who looks after it, and what makes it stop."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import asdict, replace
from typing import Any

import pytest

from distforest.errors import CancelledJobError, InputError, JobError, MemoryLimitError
from distforest.growth.grower import Level
from distforest.jobs import stop
from distforest.jobs.cluster import Lost, Progress
from distforest.jobs.plan import check_memory
from distforest.jobs.shards import Receipt
from distforest.jobs.stop import SIGN, Stop
from distforest.service import running
from distforest.service.job import SAVING_BEAT, Job
from distforest.service.policy import Policy
from distforest.service.records import wrong_in_state
from distforest.service.registry import ENDS, JOB_STATES, Registry
from distforest.service.running import TOPIC, ClosingError, ServiceContext, WorkerWatch, event_of
from distforest.service.watching import Watching
from distforest.stores.folder import Folder
from tests.messages import naming
from tests.service.jobs_on_paper import spec_text, state_of


def said(job: Job, registry: Registry) -> list[dict[str, Any]]:
    """The events of a job, by way of the store."""
    registry.create(job.id, spec_text(), job.state)
    assert job.save(registry, at_once=True)
    return registry.events(job.id)


def test_a_job_counts_its_revisions_and_events() -> None:
    job = Job(state_of(), n_written=4)
    job.set(state="RUNNING")
    job.count("retries")
    job.note("started", "it has started", first=1)
    assert (job.state["revision"], job.state["retries"]) == (2, 1)
    assert job.is_at_work
    assert not job.has_ended


def test_a_job_tells_what_is_odd_once() -> None:
    job = Job(state_of())
    job.warn(["labels are many"])
    job.warn(["labels are many", "no tree has a split"])
    assert job.state["warnings"] == ["labels are many", "no tree has a split"]
    assert [event["message"] for event in job._unsaved] == ["warning: labels are many", "warning: no tree has a split"]
    job.requeue()
    assert job.state["warnings"] == []


@pytest.mark.parametrize("state", JOB_STATES)
def test_states_that_end_a_job_are_ends(state: str) -> None:
    job = Job(state_of(state=state))
    assert job.has_ended == (state in ENDS)
    assert job.is_at_work == (state in {"WAITING_FOR_WORKERS", "RUNNING", "MERGING", "CANCELLING"})


def test_progress_becomes_phase_rate_and_state() -> None:
    job = Job(state_of(state="RUNNING"))
    job.watch(Progress("grow", 0, 8, 0.0))
    assert [job.state[name] for name in ("phase", "done", "total", "rate", "remaining")] == ["grow", 0, 8, 0.0, None]
    job.watch(Progress("grow", 2, 8, 1.0))
    assert [job.state[name] for name in ("done", "rate", "remaining")] == [2, 2.0, 3.0]
    job.watch(Progress("survey", 1, 1, 1.0))
    assert (job.state["phase"], job.state["state"]) == ("grow", "RUNNING")
    job.watch(Progress("merge", 0, 1, 0.0))
    assert (job.state["phase"], job.state["state"]) == ("merge", "MERGING")
    job.set(state="CANCELLING")
    job.watch(Progress("grow", 3, 8, 1.0))
    assert job.state["state"] == "CANCELLING"


def test_a_job_waits_for_workers_from_whatever_it_did(registry: Registry) -> None:
    job = Job(state_of(state="MERGING"))
    job.attend(2)
    assert job._unsaved == []
    job.attend(0)
    job.attend(0)
    assert job.state["state"] == "WAITING_FOR_WORKERS"
    job.attend(1)
    assert job.state["state"] == "MERGING"
    assert len(job._unsaved) == 2
    job.end("FAILED", "why", error={"kind": "JobError", "message": "why"})
    job.attend(0)
    assert (job.state["state"], job.state["remaining"], job.state["ended"] > 0) == ("FAILED", None, True)


def test_a_job_that_waits_continues_with_the_run_that_began_meanwhile() -> None:
    job = Job(state_of(state="RUNNING"))
    job.watch(Progress("grow", 7, 8, 1.0))
    job.attend(1, "all 1 threads of the workers are busy")
    job.watch(Progress("merge", 0, 1, 0.0))
    assert (job.state["state"], job.state["phase"]) == ("WAITING_FOR_WORKERS", "merge")
    job.attend(1)
    assert (job.state["state"], job.state["phase"]) == ("MERGING", "merge")
    job.cancel()
    job.watch(Progress("grow", 0, 8, 1.0))
    job.attend(0)
    assert job.state["state"] == "CANCELLING"


def test_what_a_store_refuses_is_written_the_next_time(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.create("a", spec_text(), state_of())
    job = Job(state_of())
    job.set(state="RUNNING")
    job.note("started", "one")
    for broken in ("note", "write"):
        with monkeypatch.context() as during:

            def refuse(*_: Any) -> None:
                raise OSError(28, "No space left on device")

            during.setattr(Registry, broken, refuse)
            assert job.save(registry, at_once=True) is False
    job.note("running", "two")
    assert job.save(registry, at_once=True) is True
    found = registry.state("a")
    assert found is not None
    assert (found["state"], found["revision"]) == ("RUNNING", 1)
    assert [(event["n"], event["message"]) for event in registry.events("a")] == [(1, "one"), (2, "two")]
    before = registry.folder("a").read("state.json")
    assert job.save(registry) is True
    assert registry.folder("a").read("state.json") == before
    job.state["heartbeat"] -= SAVING_BEAT
    assert job.save(registry) is True
    assert registry.folder("a").read("state.json") != before  # it beats
    job.note("running", "after the clock was put back")
    job.state["heartbeat"] += 600.0
    assert job.save(registry) is True
    assert registry.events("a")[-1]["message"] == "after the clock was put back"
    assert job.state["heartbeat"] < time.time() + 300.0


@pytest.fixture
def context(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> ServiceContext:
    monkeypatch.setattr(running, "PAUSE", 0.0)
    registry.create("a", spec_text(), state_of())
    registry.folder("a").within("work").write("shard", b"")
    return ServiceContext(registry, None, Policy(), "me")


def plays(monkeypatch: pytest.MonkeyPatch, *acts: BaseException | dict[str, Any]) -> None:
    """Let the runs of a job come out so, one after another."""
    left = list(acts)

    def work(_job: Job, _desk: ServiceContext) -> dict[str, Any]:
        act = left.pop(0)
        if isinstance(act, BaseException):
            raise act
        return act

    monkeypatch.setattr(running, "_work", work)


def ran(context: ServiceContext) -> Job:
    job = Job(state_of())
    running.run_job(job, context)
    job.save(context.registry, at_once=True)
    return job


def test_a_run_that_fails_for_its_store_or_connection_is_tried_again(
    context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    plays(monkeypatch, OSError(5, "disk"), CancelledError("gone"), TimeoutError("slow"), {"digest": "d"})
    job = ran(context)
    assert (job.state["state"], job.state["result"], job.state["retries"]) == ("SUCCEEDED", {"digest": "d"}, 3)
    assert not context.registry.folder("a").within("work").exists()
    kinds = [event["event"] for event in context.registry.events("a")]
    assert kinds == ["started", "running", "running", "running", "succeeded"]


def test_work_is_removed_if_the_sign_to_stop_cannot_be_written(
    context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Folder.write

    def refuse(folder: Folder, name: str, content: bytes) -> None:
        if name == SIGN:
            raise OSError(28, "No space left on device")
        write(folder, name, content)

    monkeypatch.setattr(Folder, "write", refuse)
    plays(monkeypatch, {"digest": "d"})
    assert ran(context).state["state"] == "SUCCEEDED"
    assert not context.registry.folder("a").within("work").exists()


@pytest.mark.parametrize(
    ("acts", "kind", "message"),
    [
        ([OSError(5, "disk")] * 4, "OSError", "disk"),
        ([InputError("no such column")], "InputError", "no such column"),
        ([JobError("trees 1 to 2 failed")], "JobError", "trees 1 to 2 failed"),
        ([ZeroDivisionError("a bug")], "ZeroDivisionError", "a bug"),
        ([KeyboardInterrupt()], "KeyboardInterrupt", ""),
    ],
)
def test_a_run_that_fails_says_why_and_keeps_what_is_committed(
    context: ServiceContext, monkeypatch: pytest.MonkeyPatch, acts: list[BaseException], kind: str, message: str
) -> None:
    plays(monkeypatch, *acts)
    job = ran(context)
    assert job.state["state"] == "FAILED"
    assert job.state["error"]["kind"] == kind
    assert message in job.state["error"]["message"]
    assert context.registry.events("a")[-1]["event"] == "failed"
    folder = context.registry.folder("a")
    assert folder.within("work").exists("shard")
    assert folder.exists(SIGN)  # trees that still grow somewhere are not wanted


def test_a_cancelled_run_keeps_nothing(context: ServiceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    plays(monkeypatch, CancelledJobError("stop"))
    assert ran(context).state["state"] == "CANCELLED"
    folder = context.registry.folder("a")
    assert not folder.within("work").exists()
    assert folder.exists(SIGN)


@pytest.mark.parametrize("act", [ClosingError(), OSError(5, "disk"), CancelledError()])
def test_a_run_that_the_closing_service_ends_is_left_to_the_next_one(
    context: ServiceContext, monkeypatch: pytest.MonkeyPatch, act: BaseException
) -> None:
    context.closing.set()
    plays(monkeypatch, act)
    job = ran(context)
    assert job.is_at_work  # the service then writes that it is interrupted
    assert context.registry.events("a")[-1]["event"] == "interrupted"
    folder = context.registry.folder("a")
    assert folder.within("work").exists("shard")
    assert not folder.exists(SIGN)


def test_whoever_looks_after_a_run_ends_it_in_time(context: ServiceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(state_of(state="RUNNING"))
    patient = WorkerWatch(job, replace(context, no_workers_timeout=1000.0))
    patient(0, 0.0)
    patient(0, 1e9)
    assert job.state["state"] == "WAITING_FOR_WORKERS"
    clock = itertools.count(100)
    monkeypatch.setattr("distforest.service.running.time.monotonic", lambda: next(clock))
    hasty = WorkerWatch(job, replace(context, no_workers_timeout=1.5))
    hasty(0, 0.0)
    hasty(1, 0.0)  # from here on it waits anew
    hasty(0, 0.0)
    with pytest.raises(JobError, match=naming("worker", "1.5 s")):
        hasty(0, 0.0)
    monkeypatch.undo()
    job.is_cancelled = True
    with pytest.raises(CancelledJobError):
        patient(2, 0.0)
    context.closing.set()
    with pytest.raises(ClosingError):
        patient(2, 0.0)


def test_a_message_names_no_key_that_has_no_effect_in_a_service(registry: Registry) -> None:
    with pytest.raises(MemoryLimitError) as caught:
        check_memory(2 << 30, 1 << 30)
    job = Job(state_of(state="RUNNING"))
    job.note(**event_of(Lost(str(caught.value))))
    job.end("FAILED", str(caught.value), error={"kind": "MemoryLimitError", "message": str(caught.value)})
    for message in (job.state["error"]["message"], *(event["message"] for event in said(job, registry))):
        assert re.search(naming("2,048 MiB", "dask worker --memory-limit", "`run.batch`"), message)
        assert "run.memory_limit" not in message


def test_receipts_and_lost_tasks_are_reported(registry: Registry) -> None:
    job = Job(state_of(state="RUNNING"))
    job.note(**event_of(Receipt(4, 7, "trees.npz", 1.5, 1000)))
    job.note(**event_of(Lost("grow: trees 0 to 3 was lost")))
    for first, worker in ((8, "tcp://a:1"), (12, "tcp://a:1"), (16, "tcp://b:1")):
        job.note(**event_of(Receipt(first, first + 3, "trees.npz", 1.5, 1000), worker))
    grown = {"tcp://a:1": {"trees": 8, "seconds": 3.0}, "tcp://b:1": {"trees": 4, "seconds": 1.5}}
    assert job.state["grown_by"] == grown
    assert wrong_in_state(job.state) is None
    told, aside = said(job, registry)[:2]
    assert (told["event"], "trees 4 to 7 " in told["message"]) == ("trees", True)
    assert [told[name] for name in ("first", "last", "seconds", "peak_bytes")] == [4, 7, 1.5, 1000]
    assert aside["event"] == "quarantine"
    assert aside["message"].startswith("grow: trees 0 to 3 ")


def test_lost_workers_and_repeated_tasks_are_told_to_the_jobs_that_they_concern(registry: Registry) -> None:
    mine, other = Job(state_of("a", state="RUNNING")), Job(state_of("b", state="QUEUED"))
    watching = Watching({"a": mine, "b": other})
    keys = {
        ("smerf-grow-00000000", 1, "distforest", "a"),
        ("smerf-grow-00000000", 2, "distforest", "a"),
        "sum-3",
        ("x", 1),
    }
    lost = {"action": "remove-worker", "worker": "tcp://w", "processing-tasks": keys, "expected": False}
    watching.log_event("all", lost)
    watching.log_event("all", {**lost, "expected": True})
    watching.log_event("all", "a text")
    watching.log_event("worker-restart-memory", {"worker": "tcp://w", "pid": 1, "rss": 300 << 20})
    watching.transition(("smerf-grow-00000000", 1, "distforest", "a"), "processing", "waiting")
    watching.transition(("smerf-grow-00000000", 1, "distforest", "a"), "processing", "memory")
    watching.transition("sum-3", "processing", "waiting")
    assert (mine.state["lost_workers"], mine.state["retries"]) == (1, 1)
    lost_worker, memory = said(mine, registry)
    assert [(event["event"], event["worker"]) for event in (lost_worker, memory)] == [
        ("lost", "tcp://w"),
        ("memory", "tcp://w"),
    ]
    assert " 2 " in lost_worker["message"]
    assert "300 MiB" in memory["message"]
    assert (other.state["lost_workers"], other._unsaved) == (0, [])
    progress = asdict(Progress("ask", 3, 9, 1.0))
    watching.log_event(TOPIC, {"job": "a", **progress})
    watching.log_event(TOPIC, {"job": "gone", **progress})
    assert (mine.state["phase"], mine.state["done"]) == ("ask", 3)


def test_trees_look_for_the_sign_now_and_then(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = registry.folder("a")
    unhurried, level = Stop(folder.address), Level(1, 2, 0)
    monkeypatch.setattr(stop, "SIGN_SECONDS", 0.0)
    looking = Stop(folder.address)
    looking.at(level)
    folder.write(SIGN, b"")
    unhurried.at(level)
    Stop(None).at(level)
    Stop(None).check()
    looks: list[Callable[[], None]] = [lambda: looking.at(level), looking.check, unhurried.check]
    for look in looks:
        with pytest.raises(CancelledJobError, match="not kept"):
            look()

    def silent(*_: Any) -> bool:
        raise OSError(5, "no answer")

    monkeypatch.setattr(Folder, "exists", silent)
    looking.at(level)
    with pytest.raises(OSError, match="no answer"):  # what cannot be known is not committed
        looking.check()
