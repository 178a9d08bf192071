"""The job root and its lease: what readers are told of it, with and without a service that lives."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from distforest.errors import ConflictError, InputError, JobError, NotFoundError
from distforest.service import lease as leases
from distforest.service.lease import Lease, died
from distforest.service.registry import Registry, hold_id
from tests.service.jobs_on_paper import spec_text, state_of


@pytest.fixture(params=["a path", "a URL"])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Registry]:
    """A job root in the file system, and one that cannot append."""
    found = Registry(f"{tmp_path}/root" if request.param == "a path" else f"memory://{tmp_path}")
    yield found
    found.folder().remove()


@pytest.mark.parametrize(
    "name", ["", "A", "-x", "_x", "a/b", "..", "a..b", "service.json", "a" * 65, "ä", "a\n", 5, None]
)
def test_an_id_that_is_no_name_is_refused(name: Any) -> None:
    with pytest.raises(InputError, match="id: up to 64 of a-z"):
        hold_id(name)


def test_a_reader_learns_all_from_the_root(registry: Registry) -> None:
    registry.create("old", spec_text(), state_of("old", submitted=1.0, state="SUCCEEDED"))
    registry.create("new", spec_text(), state_of("new", submitted=2.0, state="MERGING"))
    registry.folder().write("service.json", json.dumps({"heartbeat": 50.0}).encode())
    registry.folder().write("Else", b"")
    assert [job["id"] for job in registry.listed(now=55.0)] == ["new", "old"]
    assert registry.job("new", now=60.0)["state"] == "MERGING"
    told = registry.job("new", now=60.1)
    assert (told["state"], told["was"]) == ("INTERRUPTED", "MERGING")
    assert registry.job("old", now=1e9)["state"] == "SUCCEEDED"
    registry.folder().discard("service.json")
    assert registry.job("new", now=55.0)["state"] == "INTERRUPTED"
    registry.remove("old")
    assert registry.ids() == ["new"]
    for ask in (lambda: registry.job("old", 0.0), lambda: registry.events("old")):
        with pytest.raises(NotFoundError, match="there is no job old in"):
            ask()


def test_events_are_numbered_and_a_torn_line_is_left_out(registry: Registry) -> None:
    registry.create("a", spec_text(), state_of())
    assert registry.events("a") == []
    registry.note("a", [{"n": 1, "event": "one"}, {"n": 2, "event": "two"}])
    folder = registry.folder("a")
    if folder.is_local:  # elsewhere a file is whole
        folder.write("events.jsonl", folder.read("events.jsonl") + b'{"n": 3, "even')
    assert [event["n"] for event in registry.events("a")] == [1, 2]
    registry.note("a", [{"n": 3, "event": "three"}])
    assert [event["event"] for event in registry.events("a", after=1)] == ["two", "three"]
    assert [event["n"] for event in registry.events("a", after=0, limit=2)] == [1, 2]


@pytest.mark.parametrize("damage", [b"", b"\0\xff", b'{"id": "a", "sta', b"[]", b"7"])
def test_a_damaged_state_is_none(registry: Registry, damage: bytes) -> None:
    registry.create("a", spec_text(), state_of())
    registry.folder("a").write("state.json", damage)
    assert registry.state("a") is None
    assert registry.job("a", now=0.0)["was"] == "QUEUED"


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="needs waitid, to wait for the end of a process and leave it")
def test_a_dead_process_is_told_from_a_living_one() -> None:
    own = Lease(Registry("memory://unused"), "tcp://here").record()
    assert not died(own)
    assert died({**own, "born": own["born"] - 1.0})  # its number was given to another process
    assert not died({**own, "born": own["born"] - 1.0, "boot": "elsewhere"})
    assert not died({"boot": own["boot"]})
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        born = psutil.Process(child.pid).create_time()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert died({**own, "pid": child.pid, "born": born})  # a zombie
    assert died({**own, "pid": child.pid, "born": born})


def test_the_lease_of_a_dead_service_is_taken_at_once(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    Lease(registry, "tcp://dead")._write()
    held = registry.lease()
    assert held is not None
    registry.folder().write("service.json", json.dumps({**held, "born": 0.0}).encode())
    monkeypatch.setattr(asyncio, "sleep", lambda _: pytest.fail("it waited"))
    own = Lease(registry, "tcp://own")
    asyncio.run(own.take())
    assert registry.lease()["id"] == own.id  # type: ignore[index]


def test_the_lease_of_a_silent_service_is_taken_and_that_of_a_living_one_is_not(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "POLL", 0.01)
    monkeypatch.setattr(leases, "STALE", 0.1)
    first, second = Lease(registry, "tcp://first"), Lease(registry, "tcp://second")
    asyncio.run(first.take())
    asyncio.run(second.take())
    assert registry.lease()["id"] == second.id  # type: ignore[index]
    with pytest.raises(JobError, match="has been taken over by tcp://second"):
        first.beat()
    first.release()
    assert registry.lease()["id"] == second.id  # type: ignore[index]
    sleep = asyncio.sleep

    async def beaten(seconds: float) -> None:
        second.beat()
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", beaten)
    monkeypatch.setattr(leases, "STALE", 1000.0)
    with pytest.raises(ConflictError, match=r"is served already, by tcp://second \(process \d+ on .*\); stop that"):
        asyncio.run(first.take())
    second.release()
    assert registry.lease() is None
