"""Tasks that take much longer than others of their run are run by a second worker."""

from __future__ import annotations

import threading
from collections import Counter

import dask
import pytest
from distributed import Client, LocalCluster

from distforest.jobs import stragglers
from distforest.jobs.cluster import Work
from distforest.jobs.on_dask import OnDask
from distforest.jobs.stragglers import FEWEST, LATE, SLOW, Stragglers


def test_a_straggler_takes_much_longer_than_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    known, now = Stragglers([4.0] * FEWEST), 1000.0
    monkeypatch.setattr(stragglers.time, "monotonic", lambda: now)
    own, others = {"a", "b"}, ["of another run"]
    assert not known.late(own, ["a", *others])
    now += SLOW * 4.0 - 1.0
    assert not known.late(own, ["a", "b", *others])
    now += 1.0
    assert known.late(own, ["a", "b", *others]) == ["a"]
    assert not known.late({"b"}, ["a", "b"]), "it has been given to another worker"
    assert not known.late(own, ["b"]), "it is queued again"


def test_tasks_that_are_short_are_not_late_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    known, now = Stragglers([0.01] * FEWEST), 1000.0
    monkeypatch.setattr(stragglers.time, "monotonic", lambda: now)
    assert not known.late({"a"}, ["a"])
    now += LATE - 0.1
    assert not known.late({"a"}, ["a"])
    now += 0.1
    assert known.late({"a"}, ["a"]) == ["a"]


def test_it_is_not_known_what_is_late_before_half_of_the_tasks_have_ended() -> None:
    assert not Stragglers([1.0] * (FEWEST - 1)).may_be_known(1)
    assert not Stragglers([1.0] * 7).may_be_known(8)
    assert Stragglers([1.0] * 8).may_be_known(8)


STUCK, RUNS = threading.Event(), Counter[int]()


def stuck_once(number: int) -> int:
    """A task of a worker in a thread of this process: number 3 hangs where it is run first."""
    RUNS[number] += 1
    if number == 3 and RUNS[number] == 1:
        assert STUCK.wait(60)
    return -number


@pytest.mark.cluster
def test_a_task_that_hangs_is_answered_by_an_idle_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stragglers, "LATE", 0.0)
    monkeypatch.setattr("distforest.jobs.on_dask.LOOK", 0.0)
    with (
        dask.config.set({"distributed.worker.preload": []}),  # of the cluster of other tests, for processes
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as workers,
        Client(workers, set_as_default=False) as client,
    ):
        try:
            assert OnDask(client).each(stuck_once, range(8), Work("stick")) == [-number for number in range(8)]
        finally:
            STUCK.set()
    assert RUNS[3] == 2
