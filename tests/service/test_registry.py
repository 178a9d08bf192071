"""The job root and its lease: what readers are told of it, with and without a service that lives."""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distforest.command_line.job_reports import reported
from distforest.errors import ConflictError, InputError, JobError, NotFoundError
from distforest.service import lease as leases
from distforest.service import registry as registries
from distforest.service.lease import Lease, died
from distforest.service.registry import Registry, UnreadableError, check_id
from distforest.stores.claims import start_time_of
from tests.messages import naming
from tests.service.jobs_on_paper import event, spec_text, state_of


@pytest.mark.parametrize(
    "name", ["", "A", "-x", "_x", "a/b", "..", "a..b", "service.json", "a" * 65, "ä", "a\n", 5, None]
)
def test_an_id_that_is_no_name_is_refused(name: Any) -> None:
    with pytest.raises(InputError, match=naming("id: ", 64)):
        check_id(name)


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
        with pytest.raises(NotFoundError, match=naming("job old ", registry.root)):
            ask()


def test_events_are_numbered_and_a_torn_line_is_left_out(registry: Registry) -> None:
    registry.create("a", spec_text(), state_of())
    assert registry.events("a") == []
    registry.note("a", [event(1, "one"), event(2, "two")])
    folder = registry.folder("a")
    if folder.is_local:  # elsewhere a file is whole
        folder.write("events.jsonl", folder.read("events.jsonl") + b'{"n": 3, "even')
    assert [event["n"] for event in registry.events("a")] == [1, 2]
    registry.note("a", [event(3, "three")])
    assert [event["event"] for event in registry.events("a", after=1)] == ["two", "three"]
    assert [event["n"] for event in registry.events("a", after=0, limit=2)] == [1, 2]
    assert registry.last_number("a") == 3


def test_what_no_service_says_is_no_event(registry: Registry) -> None:
    registry.create("a", spec_text(), state_of())
    trees = {**event(2, "trees"), "first": 0, "last": 3, "seconds": 1.5, "peak_bytes": None}
    said = [event(1), trees, {**event(9, "later"), "of": "another version"}]
    wrong = [
        *({**event(3), "n": n} for n in (math.inf, math.nan, -1, 1.5, "3", [3], None, True, 2**60)),
        *({**event(3), "time": moment} for moment in (math.nan, 1e300, -1.0, "now")),
        *({**event(3), name: 5} for name in ("event", "message")),
        *({**event(3), "later": value} for value in (math.nan, "\ud800", 2**70)),
        *({**trees, "n": 3, name: value} for name, value in (("first", 5), ("seconds", math.inf), ("peak_bytes", "1"))),
        event(3, "trees"),
        {"n": 3},
    ]
    lines = [json.dumps(found).encode() for found in (*wrong, *said, *wrong)]
    lines += [b'{"n":1e999}', b'{"n":' + b"9" * 5000 + b"}", b"[" * 100_000, b"\xff\xfe", b"null"]
    registry.folder("a").write("events.jsonl", b"\n".join(lines))
    assert registry.events("a") == said
    assert registry.last_number("a") == 9


def test_what_a_loss_of_power_has_left_at_the_end_hides_no_number(registry: Registry) -> None:
    registry.create("a", spec_text(), state_of())
    registry.note("a", [event(n) for n in range(1, 9)])
    folder = registry.folder("a")
    folder.write("events.jsonl", folder.read("events.jsonl") + bytes(2 * registries.LATEST_BYTES))
    assert registry.last_number("a") == 8


def test_of_many_events_the_latest_are_kept(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registries, "JOB_FILE_BYTES", 4000)
    registry.create("a", spec_text(), state_of())
    for n in range(1, 200):
        registry.note("a", [event(n)])
        assert len(registry.folder("a").read("events.jsonl")) <= 4000
    assert registry.last_number("a") == 199
    dropped, *kept = registry.events("a")
    assert [found["n"] for found in kept] == list(range(dropped["n"] + 1, 200))
    assert len(kept) > 15
    assert (dropped["event"], dropped["time"]) == ("dropped", kept[0]["time"])
    assert f" {dropped['n']} " in dropped["message"]
    assert registry.events("a", after=dropped["n"], limit=2) == kept[:2]
    assert registry.events("a", after=199) == []


def test_of_a_file_that_was_larger_before_the_end_is_read(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.create("a", spec_text(), state_of())
    registry.note("a", [event(n) for n in range(1, 200)])
    monkeypatch.setattr(registries, "JOB_FILE_BYTES", 4000)
    monkeypatch.setattr(registries, "LATEST_BYTES", 500)
    assert registry.last_number("a") == 199
    dropped, *kept = registry.events("a")
    assert [found["n"] for found in kept] == list(range(dropped["n"] + 1, 200))
    assert dropped["event"] == "dropped"
    registry.note("a", [event(200)])
    assert len(registry.folder("a").read("events.jsonl")) < 4000
    assert [found["n"] for found in registry.events("a")][-3:] == [198, 199, 200]


@pytest.mark.parametrize("damage", [b"", b"\0\xff", b'{"id": "a", "sta', b"[]", b"7"])
def test_a_damaged_state_is_none(registry: Registry, damage: bytes) -> None:
    registry.create("a", spec_text(), state_of())
    registry.folder("a").write("state.json", damage)
    assert registry.state("a") is None
    assert registry.job("a", now=0.0)["was"] == "QUEUED"


def test_what_no_service_has_written_is_no_state(registry: Registry) -> None:
    """Each of them by name, and all others are told."""
    values = [
        *(("submitted", value) for value in (math.nan, math.inf, -1.0, 1e300, "now", None)),
        *(("rate", value) for value in (math.inf, -1, "fast")),
        *(("total", value) for value in ([1], 1.5, -1, True, 2**60)),
        *(("error", value) for value in ("why", {}, {"kind": "JobError"}, {"kind": 1, "message": ""})),
        *(("result", value) for value in ([], {"n_trees": "7"}, {"seconds": math.nan}, {"arrays": {"a": 3}})),
        *(("later", value) for value in (math.nan, {"deep": [math.inf]}, "\ud800", {"\udfff": 1}, 2**70)),
        ("later", json.loads("[" * 50 + "]" * 50)),
        *(("", math.nan), ("\ud800", 1)),
        ("output", "/x/\ud800.zarr"),
        ("error", {"kind": "JobError", "message": "\ud800"}),
        *(("id", "b"), ("state", "UNREADABLE"), ("state", ["RUNNING"]), ("format", 2), ("output", None), ("was", 1)),
    ]
    for n, (name, value) in enumerate(values):
        own = f"odd-{n}"
        registry.folder(own).write("state.json", json.dumps({**state_of(own), name: value}).encode())
        with pytest.raises(UnreadableError, match=rf"odd-{n}/state\.json.*{re.escape(ascii(name)[1:-1])}"):
            registry.state(own)
    registry.folder("large").write("state.json", b" " * (registries.JOB_FILE_BYTES + 1))
    later = {"later": {"plain": [1, 2.5, "ä", None, True]}}
    registry.create("good", spec_text(), state_of("good", **later))
    told = registry.listed(now=0.0)
    assert registry.state("good") == state_of("good", **later)
    assert [(job["id"], job["state"]) for job in told if job["state"] != "UNREADABLE"] == [("good", "INTERRUPTED")]
    assert len(told) == len(values) + 2
    named = naming("large ", f"{registry.root}/large/state.json ", "8,388,608 bytes")
    assert re.match(named, registry.job("large", 0.0)["error"]["message"])
    assert reported(registry.job("large", 0.0)).lines[1] == ("state", "UNREADABLE")


@pytest.mark.parametrize("name", ["state.json", "spec.json", "events.jsonl"])
@pytest.mark.parametrize("odd", ["a folder", "a loop", "a link", "a pipe"])
def test_what_is_no_file_is_reported_and_not_waited_for(tmp_path: Path, name: str, odd: str) -> None:
    registry = Registry(f"{tmp_path}/root")
    for job in ("odd", "good"):
        registry.create(job, spec_text(), state_of(job))
        registry.note(job, [event(1)])
    path = tmp_path / "root" / "odd" / name
    path.rename(tmp_path / "elsewhere")
    {
        "a folder": path.mkdir,
        "a loop": lambda: path.symlink_to(name),
        "a link": lambda: path.symlink_to(tmp_path / "elsewhere"),
        "a pipe": lambda: os.mkfifo(path),
    }[odd]()
    told = {job["id"]: job for job in registry.listed(now=0.0)}
    assert told["good"]["state"] == "INTERRUPTED"
    assert told["odd"] == registry.job("odd", 0.0)
    assert told["odd"]["state"] == "UNREADABLE"
    assert str(path) in told["odd"]["error"]["message"]
    for name in ("state.json", "spec.json"):
        shutil.rmtree(path.parent)
        (path.parent / name).mkdir(parents=True)
        assert registry.job("odd", 0.0)["state"] == "UNREADABLE"  # though nothing else is there


def test_a_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    registry, outside = Registry(f"{tmp_path}/root"), Registry(f"{tmp_path}/outside")
    for name in ("linked", "worker"):
        outside.create(name, spec_text(), state_of(name, state="CANCELLING"))
        outside.folder(name).within("work").write("precious", b"")
    registry.create("own", spec_text(), state_of("own"))
    root = tmp_path / "root"
    (root / "linked").symlink_to(tmp_path / "outside" / "linked")
    (root / "nowhere").symlink_to("nothing")
    (root / "loop").symlink_to("loop")
    (root / "own" / "work").symlink_to(tmp_path / "outside" / "worker" / "work")
    assert {job["id"]: job["state"] for job in registry.listed(0.0)} == dict.fromkeys(
        ("linked", "nowhere", "loop", "own"), "UNREADABLE"
    )
    for name in ("linked", "nowhere", "loop", "own"):
        told = registry.job(name, 0.0)
        assert "is a link" in told["error"]["message"]
        registry.remove(name)
    assert registry.ids() == []
    for name in ("linked", "worker"):
        assert outside.folder(name).within("work").exists("precious")


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="needs waitid, to wait for the end of a process and leave it")
def test_a_dead_process_is_told_from_a_living_one() -> None:
    own = Lease(Registry("memory://unused"), "tcp://here").record()
    assert not died(own)
    assert died({**own, "born": own["born"] - 1.0})  # its number was given to another process
    assert not died({**own, "born": own["born"] - 1.0, "boot": "elsewhere"})
    assert not died({"boot": own["boot"]})
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        born = start_time_of(child.pid)
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
    with pytest.raises(JobError, match="tcp://second"):
        first.beat()
    first.release()
    assert registry.lease()["id"] == second.id  # type: ignore[index]
    sleep = asyncio.sleep

    async def beaten(seconds: float) -> None:
        second.beat()
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", beaten)
    monkeypatch.setattr(leases, "STALE", 1000.0)
    with pytest.raises(ConflictError, match=r"tcp://second \(process \d+ on .*\)"):
        asyncio.run(first.take())
    second.release()
    assert registry.lease() is None


def test_of_two_services_that_start_at_once_one_is_refused(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sees that nobody holds the root, before the other one writes."""
    first, second = Lease(registry, "tcp://first"), Lease(registry, "tcp://second")
    look, sleep = second._holder, asyncio.sleep

    def looked() -> dict[str, Any] | None:
        monkeypatch.setattr(second, "_holder", look)
        found = look()
        asyncio.run(first.take())
        return found

    async def beaten(seconds: float) -> None:
        first.beat()
        await sleep(0)

    monkeypatch.setattr(second, "_holder", looked)
    monkeypatch.setattr(asyncio, "sleep", beaten)
    with pytest.raises(ConflictError, match="tcp://first"):
        asyncio.run(second.take())
    assert registry.lease()["id"] == first.id  # type: ignore[index]
    assert first.excludes == registry.folder().is_local


def test_a_heartbeat_on_its_way_does_not_bring_a_released_lease_back(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that ends cancels its loop, but not the thread in which a heartbeat is being written."""
    own = Lease(registry, "tcp://own")
    asyncio.run(own.take())
    releasing, put = threading.Thread(target=own.release), own._slot.put

    def put_meanwhile(content: bytes) -> None:
        releasing.start()
        put(content)

    monkeypatch.setattr(own._slot, "put", put_meanwhile)
    own.beat()
    releasing.join()
    monkeypatch.undo()
    own.beat()
    assert registry.lease() is None


def test_a_lease_that_somebody_has_removed_is_written_again(registry: Registry) -> None:
    own = Lease(registry, "tcp://own")
    asyncio.run(own.take())
    registry.folder().discard("service.json")
    own.beat()
    assert registry.lease()["id"] == own.id  # type: ignore[index]


def test_a_job_root_that_was_moved_is_not_made_anew_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    registry, there = Registry(str(tmp_path / "jobs")), tmp_path / "jobs"
    own = Lease(registry, "tcp://own")
    asyncio.run(own.take())
    guarded = replace(registry, guard=own.check_held)
    guarded.create("a", spec_text(), state_of())
    there.rename(tmp_path / "moved")
    for write in (
        own.beat,
        lambda: guarded.note("a", [event(1)]),
        lambda: guarded.create("b", spec_text(), state_of()),
    ):
        with pytest.raises(OSError, match=naming(f"{there} ", "gone")):
            write()
        assert not there.exists()
    there.mkdir()  # as where a file system was mounted
    with pytest.raises(OSError, match="job root"):
        guarded.write("a", state_of(state="RUNNING"))
    assert not list(there.iterdir())
    there.rmdir()
    (tmp_path / "moved").rename(there)
    own.beat()
    guarded.write("a", state_of(state="RUNNING"))
    assert registry.state("a") == state_of(state="RUNNING")


def test_whose_heartbeats_do_not_come_through_writes_nothing_of_a_job(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Lease(registry, "tcp://own")
    guarded = replace(registry, guard=own.check_held)
    writes: list[Callable[[], None]] = [
        lambda: guarded.create("b", spec_text(), state_of("b")),
        lambda: guarded.write("a", state_of(state="RUNNING")),
        lambda: guarded.note("a", [event(1)]),
        lambda: guarded.remove("a"),
    ]
    registry.create("a", spec_text(), state_of())
    asyncio.run(own.take())
    with monkeypatch.context() as patch:
        patch.setattr(leases, "STALE", 0.0)
        for write in writes:
            with pytest.raises(OSError, match="heartbeat"):
                write()
    assert (registry.ids(), registry.events("a"), registry.state("a")) == (["a"], [], state_of())
    own.beat()
    for write in writes:
        write()
    assert registry.ids() == ["b"]


@pytest.mark.parametrize("content", [b"", b"[]", b'{"heartbeat": NaN}', b'{"heartbeat": "now"}', b'{"id": "x"}'])
def test_a_lease_that_tells_nobody_is_none(registry: Registry, content: bytes) -> None:
    registry.folder().write("service.json", content)
    registry.create("a", spec_text(), state_of())
    assert registry.lease() is None
    assert [job["state"] for job in registry.listed(now=100.0)] == ["INTERRUPTED"]
    own = Lease(registry, "tcp://own")
    asyncio.run(own.take())
    assert registry.lease()["id"] == own.id  # type: ignore[index]
