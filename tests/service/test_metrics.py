"""The metrics of a service: what happens is counted, and what is so is read."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import Security
from prometheus_client.parser import text_string_to_metric_families

from distforest.service import metrics
from distforest.service.checkup import Disk
from distforest.service.job import Job
from distforest.service.metrics import Metrics
from distforest.service.registry import JOB_STATES, Registry
from tests.service.jobs_on_paper import spec_text, state_of

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"


def worker(host: str, silent: float) -> SimpleNamespace:
    return SimpleNamespace(host=host, address=f"tcp://{host}:1", last_seen=time.time() - silent)


class PaperService:
    """What metrics ask a service."""

    def __init__(self, root: str, meters: Metrics) -> None:
        self.failure, self.meters, self.registry = None, meters, Registry(root)
        self.workers = {
            f"tcp://{name}:1": worker(name, silent) for name, silent in (("a", 1.0), ("b", 4.0), ("c", 101.0))
        }
        self.scheduler = SimpleNamespace(workers=self.workers, worker_ttl=300.0, security=Security())
        self.asked: list[str] = []

    def run(self, function: Any, _what: Any, workers: list[str], on_error: str) -> dict[str, Disk]:
        self.asked += workers
        return dict.fromkeys(workers, Disk("/s", None, 5 << 30))

    def about(self) -> dict[str, Any]:
        root = self.registry.root
        return {"job_root": root, "heartbeat": time.time() - 60, "started": 100.0, "workers": 3, "threads": 6}

    def listed(self) -> list[dict[str, Any]]:
        return [state_of("a", state="RUNNING"), state_of("b", state="FAILED"), state_of("c", state="RUNNING")]


def exposed(service: PaperService) -> dict[tuple[str, ...], float]:
    is_working = service.failure is None
    asking = service.meters.exposed(service.about(), service.listed(), is_working, service.scheduler, service)
    text = asyncio.run(asking).decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name.removeprefix("distforest_"), *sample.labels.values()): sample.value for sample in samples}


def test_what_is_so(tmp_path: Path) -> None:
    service = PaperService(str(tmp_path), Metrics())
    found = exposed(service)
    of_states = {state: found["jobs", state] for state in JOB_STATES}
    assert of_states == {**dict.fromkeys(JOB_STATES, 0), "RUNNING": 2, "FAILED": 1}
    values = ("workers", "threads", "silent_workers", "start_time_seconds", "working")
    assert [found[name,] for name in values] == [3, 6, 1, 100, 1]
    assert 60 <= found["heartbeat_age_seconds",] < 120
    assert service.asked == ["tcp://a:1", "tcp://b:1"]  # one that is silent would be waited for
    of_scratch = {
        host: n_bytes for (name, *labels), n_bytes in found.items() if labels[:1] == ["scratch"] for host in labels[1:]
    }
    assert of_scratch == dict.fromkeys("ab", 5 << 30)
    [of_root] = [n_bytes for (name, *labels), n_bytes in found.items() if labels[:1] == ["root"]]
    assert of_root > 0
    service.failure = "the service has failed"
    del service.workers["tcp://a:1"]
    found = exposed(service)
    assert found["working",] == 0
    assert ("free_bytes", "scratch", "a") not in found


def test_what_does_not_answer_is_left_out_and_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "METRICS_SECONDS", 0.01)
    service, over = PaperService(str(tmp_path), Metrics()), threading.Event()
    answer = service.run

    def late(*asked: Any, **more: Any) -> dict[str, int | None]:
        assert over.wait(60)
        return answer(*asked, **more)

    monkeypatch.setattr(service, "run", late)
    for _ in range(2):
        assert not any(name == "free_bytes" for name, *_ in exposed(service))
    assert service.asked == []
    over.set()
    monkeypatch.setattr(metrics, "METRICS_SECONDS", 60.0)
    assert ("free_bytes", "scratch", "a") in exposed(service)


def test_what_happens_to_jobs_is_counted(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    meters, clock = Metrics(), SimpleNamespace(now=100.0)
    monkeypatch.setattr(
        "distforest.service.job.time", SimpleNamespace(time=lambda: clock.now, monotonic=time.monotonic)
    )
    registry.create("a", spec_text(), state_of())
    job = Job(state_of(), meters)
    clock.now = 130.0
    job.begin("s")
    job.note("trees", "trees 0 to 7 are committed", first=0, last=7, seconds=2.0, peak_bytes=None)
    job.count("retries")
    job.count("lost_workers")
    clock.now = 135.0
    job.attend(0)  # no worker is there until 1,000
    clock.now = 1000.0
    job.attend(2)
    clock.now = 1002.0
    job.end("FAILED", "why", error={"kind": "JobError", "message": "why"})
    assert job.state["worked"] == 7.0
    job.requeue()
    clock.now = 5000.0
    job.begin("s")
    clock.now = 5001.0
    assert job.save(registry, at_once=True)  # the heartbeat, after which the service is killed
    clock.now = 9000.0
    job.requeue()
    job.begin("s")
    clock.now = 9000.5
    job.end("SUCCEEDED", "done")
    assert job.state["worked"] == 8.5
    monkeypatch.setattr(Registry, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    assert not job.save(registry, at_once=True)
    found = exposed(PaperService("memory://root", meters))
    totals = ("trees_committed_total", "growth_seconds_total", "retries_total", "lost_workers_total")
    assert [found[name,] for name in totals] == [8, 2.0, 1, 1]
    assert found["store_errors_total", "save"] == 1
    assert (found["queue_seconds_count", "smerf"], found["queue_seconds_sum", "smerf"]) == (3, 30.0 + 3998.0)
    ended = {state: found["job_seconds_sum", "smerf", state] for state in ("FAILED", "SUCCEEDED")}
    assert ended == {"FAILED": 7.0, "SUCCEEDED": 8.5}


def test_each_metric_is_in_the_table_of_the_page() -> None:
    told = re.findall(r"^\| `distforest_(\w+)`", PAGE.read_text(), re.MULTILINE)
    assert sorted(told) == sorted(family.name.removeprefix("distforest_") for family in Metrics().registry.collect())
