"""Reports for the service's page: each is made once, one at a time, and only of a forest that a worker can hold."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from distforest import SMERF
from distforest.errors import InputError
from distforest.forest.sealed.artifact import decoded_bytes, open_forest, read_manifest
from distforest.service import reporting
from distforest.service.reporting import MOST_KEPT, Reports, ReportTask, report_there
from tests.messages import naming

if TYPE_CHECKING:
    from distributed import Client


def job_with(digest: str, name: str = "one") -> Any:
    return {"id": name, "state": "SUCCEEDED", "result": {"forest": f"/data/{name}.zarr", "digest": digest}}


@pytest.fixture
def forest(tmp_path: Path) -> str:
    points = np.random.default_rng(0).normal(size=(40, 3))
    address = str(tmp_path / "points.forest.zarr")
    SMERF(5, random_state=0).fit(points, (points[:, 0] > 0).astype(int)).save(address)
    return address


def test_a_worker_makes_the_report(forest: str) -> None:
    page = report_there(ReportTask("points-1", forest, [("Took", "4.2 s")], None))
    assert open_forest(forest).digest in page
    assert "4.2 s" in page
    assert "distforest report points-1 points-1.html" in page


def test_a_forest_of_more_than_a_quarter_of_the_memory_is_refused(forest: str) -> None:
    size = sum(array.nbytes for array in open_forest(forest).arrays().values())
    assert decoded_bytes(read_manifest(forest)) == size
    assert report_there(ReportTask("points-1", forest, [], 4 * size))
    with pytest.raises(InputError, match=naming("memory", "`distforest report")):
        report_there(ReportTask("points-1", forest, [], 4 * size - 1))


class Worker:
    """Stands for a cluster: says how many reports were made, and how many at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        monkeypatch.setattr(reporting, "_made_on", self.make)

    def make(self, _client: object, job: str, address: str, _run: object) -> str:
        self.made.append(job)
        return f"{job} at {address}, {len(self.made)}"


def test_a_report_is_made_once_for_all_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, reports, client = Worker(monkeypatch), Reports(), cast("Client", None)

    async def ask() -> list[str]:
        again = [reports.of_job(job_with("aa"), [], client) for _ in range(5)]
        return await asyncio.gather(*again)

    assert asyncio.run(ask()) == ["one at /data/one.zarr, 1"] * 5
    assert worker.made == ["one"]


def test_a_forest_that_was_grown_again_has_a_new_report_and_old_ones_are_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker, reports, client = Worker(monkeypatch), Reports(), cast("Client", None)

    async def ask() -> None:
        for digest in ("aa", "bb", "aa"):
            await reports.of_job(job_with(digest), [], client)
        assert worker.made == ["one", "one"]
        for k in range(MOST_KEPT - 1):
            await reports.of_job(job_with("cc", f"job-{k}"), [], client)
        await reports.of_job(job_with("aa"), [], client)
        assert worker.made.count("one") == 2  # "bb" was asked for longest ago, and went first
        await reports.of_job(job_with("bb"), [], client)
        assert worker.made.count("one") == 3

    asyncio.run(ask())


@pytest.mark.parametrize("result", [None, {"output": "/data/answers.zarr", "digest": "aa"}])
def test_a_job_without_a_forest_has_no_report(result: Any) -> None:
    job: Any = {"id": "one", "state": "RUNNING", "result": result}
    with pytest.raises(InputError, match=naming("one ", "RUNNING", "report")):
        asyncio.run(Reports().of_job(job, [], cast("Client", None)))
