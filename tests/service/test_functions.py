"""Functions that hang or die in a running service: the job says so, no worker is lost, and other jobs go on."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.messages import naming
from tests.service.processes import Cluster, Iris, running, undisturbed, until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(sys.platform != "linux", reason="faults look into /proc"),
    pytest.mark.slow,
]

SHARES = ["all", "worker"]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One service and two workers of one thread each."""
    with running(Cluster(tmp_path_factory.mktemp("cluster"), ("--allow-callback", "tests.service.functions:*"))) as own:
        yield own


@pytest.fixture
def cluster(started: Cluster) -> Iterator[Cluster]:
    """It has the same workers after each test as before it."""
    before = workers(started)
    with undisturbed(started):
        yield started
    assert workers(started) == before


def workers(cluster: Cluster) -> set[int]:
    """The processes of the workers."""
    return {child.pid for worker in cluster.workers for child in psutil.Process(worker.process.pid).children()}


def asks(iris: Iris, job: str, function: str, **options: Any) -> dict[str, Any]:
    """The spec of a job that asks a function."""
    similarity = {"kind": "lazy", "measure": "distance", "function": f"tests.service.functions:{function}", **options}
    inputs = {"similarity": similarity, "labels": f"{iris.folder}/iris.zarr/y"}
    return {**iris.spec(job, n_trees=8), "method": "simforest", "input": inputs}


def called(cluster: Cluster, name: str) -> list[tuple[int, int]]:
    """The processes that have called a function, and those that asked."""
    found = [path.name.split("-") for path in cluster.faults.folder.glob(f"{name}-*")]
    return [(int(own), int(parent)) for _, own, parent in found]


@pytest.mark.parametrize("share", SHARES)
def test_a_function_that_hangs_is_ended_by_cancel_and_leaves_its_workers_to_others(
    cluster: Cluster, iris: Iris, share: str
) -> None:
    hung = cluster.submit(f"hung-{share}", asks(iris, f"hung-{share}", "hangs", share=share, batch_size=100))
    until(lambda: len({parent for _, parent in called(cluster, "hangs")}) == 2)  # on both workers
    good = [f"good-{share}-{number}" for number in range(3)]
    for name in good:
        cluster.submit(name, asks(iris, name, "good", share=share))
    cluster.service.cancel(hung)
    cluster.reached(hung, "CANCELLED")
    digests = {cluster.succeeded(name)["result"]["digest"] for name in good}
    assert len(digests) == 1
    assert not any(psutil.pid_exists(own) for own, _ in called(cluster, "hangs"))
    assert {parent for _, parent in called(cluster, "good")} <= workers(cluster)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize(
    ("function", "options", "named"),
    [
        ("quits", {}, "sys.exit('no credit')"),
        ("exits", {}, "exit code 3"),
        ("crashes", {}, "SIGSEGV"),
        ("hangs", {"timeout": 0.5}, "0.5 s"),
    ],
)
def test_a_function_that_dies_or_hangs_fails_its_job_with_the_reason(
    cluster: Cluster, iris: Iris, share: str, function: str, options: dict[str, Any], named: str
) -> None:
    bad, good = f"{function}-{share}", f"beside-{function}-{share}"
    cluster.submit(bad, asks(iris, bad, function, share=share, **options))
    cluster.submit(good, asks(iris, good, "good", share=share))
    told = cluster.reached(bad, "FAILED")
    message = told["error"]["message"]
    assert re.match(naming(f"tests.service.functions:{function} ", "pairs (", "3 times", named), message)
    assert "memory limit" not in message
    assert (told["lost_workers"], told["attempt"]) == (0, 1)
    assert cluster.succeeded(good)["lost_workers"] == 0
