"""Schedulers that are killed, ended, frozen, or may not start: what a job has committed is never done again."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from distforest.forest.sealed.artifact import open_forest
from distforest.jobs.cluster import Threads
from distforest.jobs.score import score
from distforest.jobs.score_spec import ScoreSpec
from distforest.service import calls
from distforest.sources.arrays import open_array
from tests.messages import naming
from tests.service.faults import BEAT, STALE, Fault
from tests.service.processes import BATCH, ONCE, VICTIM, Cluster, Iris, running, until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="faults look into /proc"),
]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One service and two workers for the tests of this file; they are started again when they have died."""
    with running(Cluster(tmp_path_factory.mktemp("cluster"), worker=("--no-nanny",))) as cluster:
        yield cluster


@pytest.fixture
def cluster(cluster: Cluster) -> Cluster:
    cluster.start()
    return cluster


@pytest.mark.parametrize(
    ("point", "deed"),
    [
        ("before_staging", "kill_scheduler"),  # a worker comes there, and kills the scheduler
        ("mid_tree", "kill_scheduler"),
        ("mid_merge", "kill_scheduler"),
        ("before_seal", "kill"),  # the scheduler comes there itself
        ("after_publishing", "kill"),
    ],
)
def test_a_killed_scheduler_is_followed_by_one_that_goes_on(
    cluster: Cluster, iris: Iris, digest: str, point: str, deed: str
) -> None:
    job = point.replace("_", "-")
    cluster.faults.arm(Fault(point, deed, job, VICTIM if point == "mid_tree" else -1))
    cluster.submit(job, iris.spec(job))
    cluster.after_its_scheduler()
    later = time.time() + 100.0
    left = cluster.registry.job(job, later)
    assert (left["state"], left["attempt"]) == ("INTERRUPTED", 1)
    assert left["was"] in {"QUEUED", "RUNNING", "MERGING"}
    is_known_to_run = left["was"] != "QUEUED"  # its scheduler may have died before it could write that down
    kept, before = cluster.shards(job), cluster.faults.begun(job)
    assert Path(left["output"]).exists() == (point == "after_publishing")
    cluster.start()
    told = cluster.succeeded(job)
    assert told["result"]["digest"] == digest == open_forest(told["output"]).digest
    assert (told["attempt"], told["error"]) == (1 + is_known_to_run, None)
    assert len(cluster.events(job, "resumed")) == is_known_to_run
    assert not (cluster.root / job / "work").exists()
    again = cluster.faults.begun(job) - before
    assert again == ({} if point == "after_publishing" else dict.fromkeys(set(ONCE) - kept, 1))
    numbers = [event["n"] for event in cluster.events(job)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_answers_survive_their_scheduler_too(cluster: Cluster, iris: Iris) -> None:
    """It is killed twice: in mid work, and when the answers are complete, before it can say so."""
    cluster.submit("forest", iris.spec("forest"))
    forest = cluster.succeeded("forest")["output"]
    queries, output = f"{iris.folder}/iris.zarr/X", f"{iris.folder}/answers.zarr"
    asked = {"format": 1, "job": "score", "output": output, "input": {"forest": forest, "queries": queries}}
    spec = ScoreSpec.from_dict({**asked, "params": {"answer": "distance"}})
    cluster.faults.arm(Fault("mid_score", "kill_scheduler", "answers", tree=70))
    cluster.faults.arm(Fault("after_publishing", "kill", "answers"))
    cluster.service.submit(spec.to_json(), "answers")
    cluster.after_its_scheduler()
    done, before = len(list(cluster.root.glob("answers/work/done-*/*"))), cluster.faults.answered("answers")
    cluster.launch()
    cluster.after_its_scheduler()
    answered = cluster.faults.answered("answers")
    assert (answered - before).total() == len(answered) - done
    assert Path(output).exists()
    cluster.start()
    told = cluster.succeeded("answers")
    assert tuple(told["result"]["arrays"]["distance"]) == (150, 150)
    assert cluster.faults.answered("answers") == answered
    here = f"{iris.folder}/answers-here.zarr"
    score(spec.question(), here, Threads(1))
    np.testing.assert_array_equal(open_array(f"{output}/distance")[...], open_array(f"{here}/distance")[...])


def test_a_scheduler_that_is_ended_leaves_its_jobs_to_the_next_and_damage_in_between_does_no_harm(
    cluster: Cluster, iris: Iris, digest: str
) -> None:
    held = cluster.faults.arm(Fault("mid_tree", "hold", "left", VICTIM))
    cluster.submit("left", iris.spec("left"))
    until(lambda: cluster.faults.struck(held))
    others = ["without-state", "damaged-state", "torn-state"]
    for job in others:
        cluster.submit(job, iris.spec(job))
    for job in others:
        cluster.reached(job, "RUNNING", "MERGING", "SUCCEEDED")
    assert cluster.scheduler.end(signal.SIGHUP) == 0  # the end of its terminal, or of its supervisor
    cluster.faults.release()
    cluster.after_its_scheduler()
    assert cluster.registry.lease() is None
    assert cluster.written("left")["state"] == "INTERRUPTED"
    assert cluster.registry.events("left")[-1]["event"] == "interrupted"
    kept, before = cluster.shards("left"), cluster.faults.begun("left")
    with (cluster.root / "left" / "events.jsonl").open("ab") as file:
        file.write(b'{"n": 999, "time": 1.0, "even')  # a crash in mid line
    (cluster.root / "without-state" / "state.json").unlink()
    (cluster.root / "damaged-state" / "state.json").write_bytes(b"\0\xff no state")
    (cluster.root / "torn-state" / "state.json").write_bytes(b'{"format": 1, "id": "torn-st')
    cluster.start()
    for job in ["left", *others]:
        assert cluster.succeeded(job)["result"]["digest"] == digest
    assert cluster.faults.begun("left") - before == dict.fromkeys(set(ONCE) - kept, 1)
    for job in ["left", *others]:
        events = cluster.events(job)
        assert [event["n"] for event in events] == list(range(1, len(events) + 1))
        assert events[-1]["event"] == "succeeded"


def test_a_root_is_served_once(cluster: Cluster, iris: Iris, digest: str) -> None:
    second = cluster.start_scheduler(port=0)
    assert second.wait() == 1
    cluster.schedulers.pop()
    assert "error: the distforest service" in second.said
    assert f"{cluster.address} (process {cluster.scheduler.process.pid} on" in second.said
    cluster.submit("after-all", iris.spec("after-all"))
    assert cluster.succeeded("after-all")["result"]["digest"] == digest


def test_a_job_is_handed_in_while_its_scheduler_is_started_again(
    cluster: Cluster, iris: Iris, digest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By one client after the other, from before it closes until the next one serves, however slow the machine is."""
    monkeypatch.setattr(calls, "CONNECT_SECONDS", 100.0)
    names = ["one-client", "another-client"]
    with ThreadPoolExecutor(1) as pool:
        for name in names:
            cluster.scheduler.send(signal.SIGTERM)
            handed_in = pool.submit(cluster.submit, name, iris.spec(name))
            assert cluster.scheduler.wait() == 0
            cluster.start_scheduler()
            assert handed_in.result() == name
    cluster.start()
    for name in names:
        assert cluster.succeeded(name)["result"]["digest"] == digest


def test_a_job_that_waits_for_busy_workers_says_whose_they_are(cluster: Cluster, iris: Iris, digest: str) -> None:
    held = cluster.faults.arm(Fault("mid_tree", "hold", "hung", times=2))
    cluster.submit("hung", iris.spec("hung"))
    until(lambda: len(cluster.faults.struck(held)) == 2)
    cluster.submit("good", iris.spec("good"))
    told = cluster.reached("good", "WAITING_FOR_WORKERS")
    why = told["waiting"]
    assert re.match(naming("2 threads", "with hung"), why)
    assert cluster.job("hung")["state"] == "RUNNING"
    until(lambda: cluster.written("good").get("waiting") == why)
    cluster.faults.release()
    for job in ("hung", "good"):
        told = cluster.succeeded(job)
        assert (told["result"]["digest"], told["waiting"]) == (digest, None)
    [waiting] = cluster.events("good", "waiting")
    assert waiting["message"] == why


def test_a_root_that_cannot_be_written_to_ends_the_scheduler(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "cluster")
    (tmp_path / "cluster" / "jobs").write_text("no folder")
    scheduler = cluster.start_scheduler()
    assert scheduler.wait() == 1
    assert "error: the distforest service" in scheduler.said
    assert str(cluster.root) in scheduler.said


def test_a_service_that_was_taken_for_dead_ends_itself_and_changes_nothing(
    tmp_path: Path, iris: Iris, digest: str
) -> None:
    """The first one is frozen until the second one has taken over; then it wakes up, with a job in its hands."""
    settings = {STALE: "2", BEAT: "0.5"}
    with running(Cluster(tmp_path / "cluster", settings=settings, worker=("--no-nanny",), n_workers=1)) as cluster:
        held = cluster.faults.arm(Fault("mid_tree", "hold", "taken", VICTIM))
        cluster.submit("taken", iris.spec("taken"))
        until(lambda: cluster.faults.struck(held))
        first, port = cluster.scheduler, cluster.port
        first.send(signal.SIGSTOP)
        cluster.kill_workers()
        cluster.move()
        cluster.faults.release()
        cluster.start()
        told = cluster.succeeded("taken")
        until(lambda: cluster.written("taken").get("state") == "SUCCEEDED")
        files = [cluster.root / "taken" / name for name in ("state.json", "events.jsonl")]
        before = [file.read_bytes() for file in files]
        first.send(signal.SIGCONT)
        first.wait()
        assert f"by {cluster.address}" in first.said
        assert cluster.port != port
        assert (cluster.registry.lease() or {})["address"] == cluster.address
        assert [file.read_bytes() for file in files] == before
        assert open_forest(told["output"]).digest == digest


def test_a_job_that_finds_no_worker_in_time_fails_and_can_be_resumed(tmp_path: Path, iris: Iris, digest: str) -> None:
    """Then its worker is frozen for so long that it is given up, and wakes up in mid tree: a nanny would kill it."""
    options = ("--no-workers-timeout", "1")
    settings = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "15s"}
    cluster = Cluster(tmp_path / "cluster", options, settings, worker=("--no-nanny",), n_workers=0)
    with running(cluster):
        cluster.submit("frozen", iris.spec("frozen"))
        assert re.match(naming("worker", " 1 s"), cluster.reached("frozen", "FAILED")["error"]["message"])
        assert [event["event"] for event in cluster.events("frozen")].count("waiting") == 1
        held = cluster.faults.arm(Fault("mid_tree", "freeze", "frozen", VICTIM))
        merge = cluster.faults.arm(Fault("mid_merge", "hold", "frozen"))
        for _ in range(2):
            cluster.start_worker()
        cluster.attended(2)
        cluster.service.resume("frozen")
        [frozen] = until(lambda: cluster.faults.struck(held))
        cluster.reached("frozen", "MERGING")
        until(lambda: cluster.faults.struck(merge))  # its trees were grown elsewhere
        assert cluster.faults.begun("frozen") == ONCE | dict.fromkeys(BATCH, 2)
        cluster.attended(1)
        cluster.wake(frozen)
        until(lambda: cluster.faults.ended("frozen") == ONCE | dict.fromkeys(BATCH, 2))
        [victim] = [worker for worker in cluster.workers if worker.process.pid == frozen]
        victim.wait()
        cluster.faults.release()
        told = cluster.succeeded("frozen")
        assert told["result"]["digest"] == digest == open_forest(told["output"]).digest
        assert told["attempt"] == 2
