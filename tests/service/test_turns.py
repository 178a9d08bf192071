"""Whose turn it is, as a scheduler's tasks tell."""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from distforest.service import watching as turns
from distforest.service.job import Job
from distforest.service.watching import Turns
from tests.messages import naming
from tests.service.jobs_on_paper import state_of


@dataclass(eq=False)
class Task:
    key: Any


def task(job: str, number: int = 1) -> Task:
    return Task(("smerf-grow-00000000", number, "distforest", job))


@dataclass
class Worker:
    processing: list[Task] = field(default_factory=list)
    executing: dict[Task, float] = field(default_factory=dict)
    long_running: set[Task] = field(default_factory=set)
    nthreads: int = 1
    last_seen: float = math.inf


def scheduler(*workers: Worker, queued: tuple[Task, ...] = (), unrunnable: tuple[Task, ...] = ()) -> Any:
    threads = sum(worker.nthreads for worker in workers)
    found = {f"tcp://{n}": worker for n, worker in enumerate(workers)}
    return SimpleNamespace(workers=found, queued=queued, unrunnable=dict.fromkeys(unrunnable), total_nthreads=threads)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is told after so many seconds of a scheduler that stays as it is."""

    def told(found: Any, job: str = "a", seconds: float = 2 * turns.PATIENCE) -> str | None:
        own, now = Turns(), 1000.0
        for moment in (now, now + seconds):
            monkeypatch.setattr("distforest.service.watching.time.monotonic", lambda moment=moment: moment)
            own.look(found)
        return own.why(job)

    return told


def test_a_job_none_of_whose_tasks_has_its_turn_waits(told: Any) -> None:
    hung = scheduler(Worker([task("hung", 1)]), Worker([task("hung", 2)]), queued=(task("a"), task("a", 2)))
    assert re.match(naming("2 threads", "with hung;"), told(hung))
    assert told(hung, "hung") is None
    assert told(hung, "else") is None
    assert told(hung, seconds=turns.PATIENCE / 2) is None  # so long may a turn be away


def test_a_job_with_a_task_at_work_does_not_wait_nor_one_without_tasks(told: Any) -> None:
    assert told(scheduler(Worker([task("hung")]), Worker([task("a")]), queued=(task("a", 2),))) is None
    assert told(scheduler(Worker([task("hung")]), Worker([task("hung")]))) is None


def test_tasks_that_wait_on_a_worker_wait(told: Any) -> None:
    """Where Dask is told to hand workers more tasks than they have threads, they say what they work on."""
    hung = task("hung")
    assert told(scheduler(Worker([hung, task("a")], {hung: 9.0}))).startswith("all 1 threads")
    led = task("a", 1)
    leading = Worker([led, hung, task("a", 2)], {led: 50.0, hung: 9.0}, {led})
    assert "with hung" in told(scheduler(leading))
    assert told(scheduler(Worker([led, hung], {led: 9.0, hung: 9.0}, {led}))) is None  # it has no task that waits


def test_a_job_whose_worker_is_silent_waits_and_names_it(told: Any) -> None:
    silent = Worker([task("a")], last_seen=time.time() - 14)
    assert re.match(naming("tcp://1 ", "14 s ago"), told(scheduler(Worker(), silent)))
    assert told(scheduler(Worker([task("a", 2)]), silent)) is None
    assert re.match(naming("tcp://0 ", "14 s ago"), told(scheduler(silent)))


def test_those_who_are_at_work_are_named(told: Any) -> None:
    jobs = [Worker([task(f"j{n}")]) for n in range(7)]
    words = told(scheduler(*jobs, Worker([Task("sum-0a1b2c3d")]), Worker([Task(("x", 1))]), queued=(task("a"),)))
    assert "with j0, j1, j2, j3, j4, 2 more, " in words


def test_workers_that_take_no_task_are_reported(told: Any) -> None:
    words = told(scheduler(Worker(), Worker([task("hung")]), unrunnable=(task("a"),)))
    assert "paused" in words


def test_without_workers_nobody_waits_for_busy_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it count when some are back."""
    own, clock = Turns(), iter(range(1000, 2000, 2))
    monkeypatch.setattr("distforest.service.watching.time.monotonic", lambda: float(next(clock)))
    for _ in range(10):
        own.look(scheduler(unrunnable=(task("a"),)))
        assert own.why("a") is None
    own.look(scheduler(Worker([task("hung")]), queued=(task("a"),)))
    assert own.why("a") is None


def test_it_does_not_look_more_often_than_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Turns()
    monkeypatch.setattr("distforest.service.watching.time.monotonic", lambda: 1000.0)
    own.look(scheduler(Worker()))
    own.look(None)


def test_a_job_that_shares_busy_workers_does_not_tell_of_each_turn() -> None:
    job = Job(state_of(state="RUNNING"))
    for _ in range(5):
        job.attend(2, "with x")
        assert (job.state["state"], job.state["waiting"]) == ("WAITING_FOR_WORKERS", "with x")
        job.attend(2, "with x and y")
        assert job.state["waiting"] == "with x and y"
        job.attend(2)
        assert (job.state["state"], job.state["waiting"]) == ("RUNNING", None)
    assert [event["event"] for event in job._unsaved] == ["waiting", "running"]
    job.attend(2, "with x")
    job.attend(0, None)
    assert "no workers" in job.state["waiting"]
    job.attend(2)
    assert [event["event"] for event in job._unsaved[2:]] == ["waiting", "running"]
