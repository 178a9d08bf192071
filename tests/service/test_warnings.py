"""What is odd in a job of a service reaches who waits for it: from its inputs on a worker, and from its forest."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

from distforest.sources.arrays import write_array
from tests.messages import naming
from tests.service.processes import Cluster, Iris, running

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    allowed = ("--allow-callback", "tests.service.faults:apart")
    with running(Cluster(tmp_path_factory.mktemp("cluster"), allowed, n_workers=1)) as cluster:
        yield cluster


def warnings_of_job(cluster: Cluster, job: str) -> list[str]:
    """The warnings of a job that has succeeded, which are events, too."""
    told = list(cluster.succeeded(job)["warnings"])
    assert [event["message"] for event in cluster.events(job, "warning")] == [f"warning: {text}" for text in told]
    return told


def test_of_its_inputs_and_of_its_forest(cluster: Cluster, iris: Iris) -> None:
    pairs = np.array([[0, 60], [60, 0], [1, 2], [3, 70]])
    for name, values in (("pairs", pairs), ("similar", np.array([1, 0, 1, 0]))):
        write_array(str(iris.folder / "odd.zarr"), name, values.shape, values.dtype, [values])
    places = {name: f"{iris.folder}/odd.zarr/{name}" for name in ("pairs", "similar")}
    rows = {"features": f"{iris.folder}/iris.zarr/X"}
    for job in ("once", "again"):  # on the worker that has warned of it before
        cluster.submit(job, {**iris.spec(job, n_trees=6), "method": "rfd", "input": {**rows, **places}})
        of_pairs, of_roots = warnings_of_job(cluster, job)
        assert re.match(naming("DF009", "0 and 60"), of_pairs)
        assert re.match(naming("9 pairs", "min_samples_leaf=5"), of_roots)


def test_of_a_job_that_a_worker_leads(cluster: Cluster, iris: Iris) -> None:
    similarity = {"kind": "lazy", "measure": "distance", "function": "tests.service.faults:apart", "budget": 0}
    write_array(str(iris.folder / "amounts.zarr"), "y", (150,), np.dtype(int), [np.arange(150)])
    given = {"similarity": similarity, "labels": f"{iris.folder}/amounts.zarr/y"}
    cluster.submit("led", {**iris.spec("led", n_trees=4), "method": "simforest", "input": given})
    of_labels, of_roots = warnings_of_job(cluster, "led")
    assert of_labels.startswith("DF007 labels: ")
    assert re.match(naming("budget", "4 nodes"), of_roots)


def test_nothing_of_what_is_not_odd(cluster: Cluster, iris: Iris) -> None:
    cluster.submit("plain", iris.spec("plain", n_trees=4))
    assert warnings_of_job(cluster, "plain") == []
