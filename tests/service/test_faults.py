"""Whatever dies, fails or fills up around a running service: the forest is that of the undisturbed run, or says why."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from distforest.errors import ConflictError, JobError
from distforest.forest.sealed.artifact import open_forest
from distforest.jobs.cluster import Threads
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.spec import Spec
from distforest.jobs.train import Options, fit
from distforest.stores.folder import Folder
from tests.messages import naming
from tests.service.faults import Fault
from tests.service.processes import ALWAYS, BATCH, N_TREES, ONCE, VICTIM, Cluster, Iris, running, until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(sys.platform != "linux", reason="faults look into /proc"),
]

LEAVES = """
import os, sys
from distforest.service.calls import Service
Service(sys.argv[1]).submit(open(sys.argv[2]).read(), "left")
os._exit(9)
"""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One service and two workers for the tests of this file, as processes take seconds to start."""
    allowed = ("--allow-callback", "tests.service.faults:apart")
    with running(Cluster(tmp_path_factory.mktemp("cluster"), allowed)) as cluster:
        yield cluster


def assert_made(cluster: Cluster, job: str, digest: str) -> dict[str, Any]:
    """The job has made the forest of the undisturbed run, and keeps nothing else; its state."""
    told = cluster.succeeded(job)
    assert told["result"]["digest"] == digest == open_forest(told["output"]).digest
    assert not (cluster.root / job / "work").exists()
    return told


@pytest.mark.slow
def test_a_job_outlives_its_client_from_the_moment_that_it_is_taken_in(
    cluster: Cluster, iris: Iris, digest: str, tmp_path: Path
) -> None:
    (tmp_path / "spec.json").write_text(Spec.from_dict(iris.spec("left")).to_json())
    assert cluster.run("client", "-c", LEAVES, cluster.address, f"{tmp_path}/spec.json").wait() == 9
    told = assert_made(cluster, "left", digest)
    assert cluster.faults.begun("left") == ONCE
    assert (told["lost_workers"], told["attempt"], told["result"]["n_grown"]) == (0, 1, N_TREES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "again"),
    [
        ("before_staging", set()),
        ("before_reading", set()),
        ("mid_tree", BATCH),
        ("before_rename", BATCH),
        ("after_commit", set()),
        ("mid_merge", set()),
    ],
)
def test_a_killed_worker_costs_its_own_task_and_changes_nothing(
    cluster: Cluster, iris: Iris, digest: str, point: str, again: set[int]
) -> None:
    job = point.replace("_", "-")
    is_of_a_tree = point not in {"before_staging", "mid_merge"}
    death = cluster.faults.arm(Fault(point, "kill", job, VICTIM if is_of_a_tree else -1))
    cluster.submit(job, iris.spec(job))
    told = assert_made(cluster, job, digest)
    assert len(cluster.faults.struck(death)) == 1
    assert cluster.faults.begun(job) == ONCE | dict.fromkeys(again, 2)
    assert told["lost_workers"] == len(cluster.events(job, "lost")) == 1


@pytest.mark.slow
def test_a_store_that_fails_now_and_then_delays_a_job_and_changes_nothing(
    cluster: Cluster, iris: Iris, digest: str
) -> None:
    failure = cluster.faults.arm(Fault("write", "EIO", times=ALWAYS, every=4))

    def is_taken_in() -> bool:
        try:
            cluster.submit("flaky", iris.spec("flaky", batch=2))  # of 12 shards one worker of two writes four or more
        except JobError as error:
            assert "Input/output error" in str(error)
            return False
        return True

    until(is_taken_in)
    assert_made(cluster, "flaky", digest)
    until(lambda: cluster.registry.job("flaky", now=0.0)["state"] == "SUCCEEDED")
    struck = set(cluster.faults.struck(failure))
    assert cluster.scheduler.process.pid in struck
    assert len(struck) > 1


@pytest.mark.slow
def test_a_full_disk_ends_the_job_with_the_reason_and_room_lets_it_be_finished(
    cluster: Cluster, iris: Iris, digest: str
) -> None:
    full = cluster.faults.arm(Fault("before_rename", "ENOSPC", "full", VICTIM, ALWAYS))
    cluster.submit("full", iris.spec("full"))
    told = cluster.reached("full", "FAILED")
    assert "No space left on device" in told["error"]["message"]
    assert "trees 12 to 15" in told["error"]["message"]
    assert not Path(told["output"]).exists()
    until(lambda: not cluster.litter("full"))  # the state itself may just be written
    kept, before = cluster.shards("full"), cluster.faults.begun("full")
    assert kept.isdisjoint(BATCH)
    cluster.faults.disarm(full)
    cluster.service.resume("full")
    assert assert_made(cluster, "full", digest)["attempt"] == 2
    again = cluster.faults.begun("full") - before  # all but what was under way elsewhere when it was told
    assert set(again) >= BATCH
    assert set(again).isdisjoint(kept)
    assert set(again.values()) == {1}


@pytest.mark.slow
def test_a_full_disk_of_the_job_root_itself_is_reported_and_survived(cluster: Cluster, iris: Iris, digest: str) -> None:
    held = cluster.faults.arm(Fault("mid_tree", "hold", "brim", VICTIM))
    cluster.submit("brim", iris.spec("brim"))
    until(lambda: cluster.faults.struck(held))
    full = [cluster.faults.arm(Fault(point, "ENOSPC", "brim", -1, ALWAYS)) for point in ("sync", "before_rename")]
    cluster.faults.release()
    assert "No space left on device" in cluster.reached("brim", "FAILED")["error"]["message"]
    assert cluster.written("brim")["state"] in {"QUEUED", "RUNNING"}  # nobody could write down more
    for fault in full:
        cluster.faults.disarm(fault)
    until(lambda: cluster.written("brim")["state"] == "FAILED")
    cluster.service.resume("brim")
    assert_made(cluster, "brim", digest)


@pytest.mark.slow
def test_a_full_scratch_folder_ends_the_job_with_the_reason_and_room_lets_it_be_finished(
    cluster: Cluster, iris: Iris, digest: str, small_disk: Path
) -> None:
    with (small_disk / "filler").open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, 4 << 20)
    spec = iris.spec("crammed")
    cluster.submit("crammed", {**spec, "run": {**spec["run"], "scratch": str(small_disk)}})
    told = cluster.reached("crammed", "FAILED")
    assert re.search(naming(f"{small_disk} ", "bytes", " 0 ", "`run.scratch`"), told["error"]["message"])
    assert [path.name for path in small_disk.iterdir()] == ["filler"]
    assert told["lost_workers"] == 0
    (small_disk / "filler").unlink()
    cluster.service.resume("crammed")
    assert_made(cluster, "crammed", digest)


def test_a_short_job_waits_for_one_task_of_a_long_one(cluster: Cluster, iris: Iris, digest: str) -> None:
    cluster.start()
    held = cluster.faults.arm(Fault("mid_tree", "hold", "long", times=2))
    cluster.submit("long", iris.spec("long", n_trees=150, batch=1))
    until(lambda: len(cluster.faults.struck(held)) == 2)  # all workers have trees of the first job
    cluster.submit("short", iris.spec("short", batch=2))
    cluster.reached("short", "RUNNING")
    cluster.faults.release()
    assert_made(cluster, "short", digest)
    assert_made(cluster, "long", iris.digest(iris.spec("long", n_trees=150)))
    of_long, of_short = ([told["time"] for told in cluster.events(job, "trees")] for job in ("long", "short"))
    assert sum(told < of_short[-1] for told in of_long) < 50  # those that were held, and tiny ones between two steps
    assert cluster.faults.begun("short") == ONCE


@pytest.mark.slow
def test_one_id_is_one_job(cluster: Cluster, iris: Iris, digest: str) -> None:
    text = Spec.from_dict(iris.spec("one")).to_json()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: cluster.service.submit(text, "one", "ok"), range(4)))
    assert sorted(answer["created"] for answer in answers) == [False, False, False, True]
    with pytest.raises(ConflictError, match=naming("id: ", "'one'")):
        cluster.submit("one", iris.spec("one", n_trees=3))
    assert_made(cluster, "one", digest)
    assert cluster.service.submit(text, "one", "ok")["created"] is False
    assert cluster.faults.begun("one") == ONCE


@pytest.mark.slow
def test_a_cancelled_job_stops_its_trees_keeps_nothing_and_can_be_resumed(
    cluster: Cluster, iris: Iris, digest: str
) -> None:
    held = cluster.faults.arm(Fault("mid_tree", "hold", "stopped", VICTIM))
    cluster.submit("stopped", iris.spec("stopped"))
    until(lambda: cluster.faults.struck(held))
    assert cluster.service.cancel("stopped")["state"] in {"CANCELLING", "CANCELLED"}  # the answer may come late
    told = cluster.reached("stopped", "CANCELLED")  # while the tree still grows
    cluster.faults.release()
    until(lambda: set(cluster.faults.stopped("stopped")) >= BATCH)  # at their next level
    assert set(cluster.faults.ended("stopped")).isdisjoint(BATCH)
    assert cluster.service.cancel("stopped")["state"] == "CANCELLED"
    assert not Path(told["output"]).exists()
    assert not (cluster.root / "stopped" / "work").exists()
    before = cluster.faults.begun("stopped")
    cluster.service.resume("stopped")
    told = assert_made(cluster, "stopped", digest)
    assert (told["attempt"], told["error"], told["result"]["n_grown"]) == (2, None, N_TREES)
    assert cluster.faults.begun("stopped") - before == ONCE


@pytest.mark.slow
def test_what_is_about_to_be_committed_when_a_job_is_cancelled_is_not_kept(cluster: Cluster, iris: Iris) -> None:
    held = cluster.faults.arm(Fault("before_commit", "hold", "late", VICTIM))
    cluster.submit("late", iris.spec("late"))
    until(lambda: cluster.faults.struck(held))
    cluster.service.cancel("late")
    cluster.reached("late", "CANCELLED")
    written = cluster.faults.arm(Fault("after_commit", "hold", "late", VICTIM))
    cluster.faults.release()
    until(lambda: cluster.faults.struck(written))
    until(lambda: not cluster.shards("late"))


@pytest.mark.slow
def test_what_is_staged_when_a_job_is_cancelled_is_not_kept(cluster: Cluster, iris: Iris, digest: str) -> None:
    held = cluster.faults.arm(Fault("before_staging", "hold", "unstaged"))
    cluster.submit("unstaged", iris.spec("unstaged"))
    until(lambda: cluster.faults.struck(held))
    cluster.service.cancel("unstaged")
    cluster.reached("unstaged", "CANCELLED")
    cluster.faults.release()
    cluster.submit("next", iris.spec("next"))  # as many tasks as there are threads, after the one that was held
    assert_made(cluster, "next", digest)
    assert not (cluster.root / "unstaged" / "work").exists()
    cluster.service.resume("unstaged")
    assert_made(cluster, "unstaged", digest)


@pytest.mark.slow
def test_a_task_that_loses_its_workers_is_put_aside_and_done_tree_by_tree(
    cluster: Cluster, iris: Iris, digest: str
) -> None:
    cluster.faults.arm(Fault("mid_tree", "kill", "unlucky", VICTIM, times=2))
    cluster.submit("unlucky", iris.spec("unlucky"))
    told = assert_made(cluster, "unlucky", digest)
    [aside] = cluster.events("unlucky", "quarantine")
    assert re.match(naming("trees 12 to 15 ", "2 times", "tcp://127.0.0.1:"), aside["message"])
    assert told["lost_workers"] == 2
    assert cluster.faults.begun("unlucky") == ONCE | dict.fromkeys(BATCH, 3)
    last = [(event["first"], event["last"]) for event in cluster.events("unlucky", "trees")][-4:]
    assert last == [(tree, tree) for tree in sorted(BATCH)]


@pytest.mark.slow
def test_a_tree_that_always_ends_its_worker_is_named_with_the_reason_and_costs_no_other_tree(
    cluster: Cluster, iris: Iris, digest: str
) -> None:
    greed = cluster.faults.arm(Fault("mid_tree", "hog", "greedy", VICTIM, ALWAYS))
    cluster.submit("greedy", iris.spec("greedy"))
    told = cluster.reached("greedy", "FAILED")
    message = told["error"]["message"]
    assert re.match(naming("tree 13 ", "2 times", "tcp://127.0.0.1:", "memory", "of 800 MiB"), message)
    assert not any(f"tree {mate} " in message for mate in BATCH - {VICTIM})
    assert all("memory" in event["message"] for event in cluster.events("greedy", "memory"))
    assert len(cluster.events("greedy", "memory")) == told["lost_workers"] == 4  # twice with its task, twice alone
    assert cluster.shards("greedy") == set(ONCE) - {VICTIM}
    assert not Path(told["output"]).exists()
    before = cluster.faults.begun("greedy")
    cluster.faults.disarm(greed)
    cluster.service.resume("greedy")
    assert_made(cluster, "greedy", digest)
    assert cluster.faults.begun("greedy") - before == {VICTIM: 1}


@pytest.mark.slow
def test_a_job_waits_for_workers_and_goes_on_when_they_are_back(cluster: Cluster, iris: Iris, digest: str) -> None:
    held = cluster.faults.arm(Fault("mid_tree", "hold", "alone", VICTIM))
    cluster.submit("alone", iris.spec("alone"))
    until(lambda: cluster.faults.struck(held))
    cluster.kill_workers()
    cluster.reached("alone", "WAITING_FOR_WORKERS")
    cluster.start()
    assert_made(cluster, "alone", digest)
    kinds = [event["event"] for event in cluster.events("alone")]
    assert kinds.index("waiting") < kinds.index("running")


@pytest.mark.slow
def test_a_job_whose_leading_worker_dies_is_led_by_another_one(cluster: Cluster, iris: Iris, tmp_path: Path) -> None:
    spec = {
        **iris.spec("led", n_trees=8),
        "method": "simforest",
        "input": {
            "similarity": {"kind": "lazy", "measure": "distance", "function": "tests.service.faults:apart"},
            "labels": f"{iris.folder}/iris.zarr/y",
        },
    }
    here = Spec.from_dict({**spec, "output": f"{tmp_path}/here.forest.zarr"})
    job = Folder(f"{tmp_path}/job")
    undisturbed = fit(stage_inputs(here, job.address), here.output, job, Threads(1), Options())
    death = cluster.faults.arm(Fault("leading", "kill", "led", every=3))
    cluster.submit("led", spec)
    told = assert_made(cluster, "led", undisturbed.digest)
    assert len(cluster.faults.struck(death)) == 1
    assert told["lost_workers"] == 1
    asked = cluster.faults.asked()
    assert len(asked) == undisturbed.evaluations
    assert asked.total() - len(asked) < undisturbed.evaluations  # what had come was in the ledger
