"""One row is not "1 rows": what a message counts has its noun in the singular where there is one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from distforest import RFD, SMERF, URerF, load
from distforest.command_line.reports import inspected, verified
from distforest.errors import DistforestError
from distforest.forest.sealed.artifact import read_manifest
from distforest.jobs.cluster import Threads, Work
from distforest.service.running import event_of
from distforest.sources.files.ingest import ingest
from distforest.sources.readings import FEATURES, read
from tests.estimators.rows import SMALL, SMALL_Y
from tests.jobs.test_shards import RECEIPT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def fails(_task: object) -> None:
    raise OSError("no answer")


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda: read(np.array([[1.0, np.inf]]), FEATURES), "1 value"),
        (lambda: Threads(1).each(fails, ["task 3"], Work("grow", retries=0)), "1 time"),
        (lambda: RFD(2, random_state=0).fit_pairs(SMALL, [[0, 1]], [1, 0]), "1 pair"),
        (lambda: SMERF(2, random_state=0).fit(SMALL, SMALL_Y).score(SMALL[:1], SMALL_Y[:2]), "1 row"),
        (lambda: URerF(2, feature_weights=[1.0, -1.0]).fit(SMALL[:, :2]), "1 that is"),
    ],
)
def test_one_is_told_in_the_singular(ask: Callable[[], Any], told: str) -> None:
    with pytest.raises(DistforestError, match=rf"\b{told}\b"):
        ask()


def test_a_file_with_one_fault_is_told_in_the_singular(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,inf\n")
    with pytest.raises(DistforestError, match=r"\b1 that is\b.*\binf\b"):
        ingest(f"{tmp_path}/a.csv", f"{tmp_path}/a.zarr")
    np.savez(tmp_path / "a.npz", X=np.eye(1, 2), y=[0, 1])
    with pytest.raises(DistforestError, match=r"\b1 row\b.*\b2 labels\b"):
        ingest(f"{tmp_path}/a.npz", f"{tmp_path}/a.zarr")


def test_a_forest_of_one_tree_is_told_in_the_singular(tmp_path: Path) -> None:
    SMERF(1, random_state=0).fit(SMALL, SMALL_Y).save(tmp_path / "one.zarr")
    manifest = read_manifest(f"{tmp_path}/one.zarr")
    lines = dict(inspected("one.zarr", manifest, None, None).lines)
    assert " in 1 tree, " in lines["nodes"]
    assert "yes: 1 tree, " in dict(verified("one.zarr", load(tmp_path / "one.zarr").forest_).lines)["valid"]


def test_a_shard_of_one_tree_is_told_in_the_singular() -> None:
    assert event_of(RECEIPT)["message"].startswith("trees 3 to 5 ")
    assert event_of(replace(RECEIPT, first=4, last=4))["message"].startswith("tree 4 ")
