"""Columns of features without a value are told by name: in Python, and while a job stages its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from distforest import RFD, SMERF, SimForestClassifier, URerF
from distforest.sources.arrays import write_array
from distforest.sources.empty_columns import empty_columns, told_of_empty_columns
from distforest.sources.readings import AS_IT_IS, FEATURES
from distforest.sources.schema import Schema
from distforest.sources.scratch import ScratchFolder
from distforest.sources.staged_arrays import StagingPlace, stage_arrays
from distforest.sources.truth import TruthKind
from distforest.sources.wanted import Role, Wanted
from tests.estimators.rows import POINTS, TARGETS
from tests.sources.helpers import warned, write_arrays

if TYPE_CHECKING:
    from pathlib import Path

LABELS = (np.median(TARGETS) < TARGETS).astype(np.int32)
KINDS: dict[str, Any] = {
    "smerf": lambda: SMERF(2, random_state=0),
    "urerf": lambda: URerF(2, random_state=0),
    "rfd": lambda: RFD(2, n_constraints=20, random_state=0),
    "rbf": lambda: SimForestClassifier(similarity="rbf", n_estimators=2, random_state=0),
    "subsets": lambda: SimForestClassifier(similarity="feature_subsets", n_estimators=2, random_state=0),
}


def with_empty(n_rows_with_value: int = 0) -> pd.DataFrame:
    """Points with a column that has a value in some rows; another one lacks the first half, a third is constant."""
    frame = pd.DataFrame(POINTS, columns=["a", "b", "c"])
    frame["joined"] = np.where(np.arange(len(POINTS)) < n_rows_with_value, 1.0, np.nan)
    frame.loc[: len(frame) // 2, "b"] = np.nan
    return frame.assign(constant=1.0)


@pytest.mark.parametrize("name", KINDS)
def test_a_column_without_a_value_is_told_once_by_its_name(name: str) -> None:
    [told] = warned(lambda: KINDS[name]().fit(with_empty(), LABELS), "'joined'")
    assert told.startswith("X: column 'joined' ")
    assert warned(lambda: KINDS[name]().fit(with_empty(1), LABELS), "'joined'") == []


@pytest.mark.parametrize("n_parts", [None, 3])
def test_a_job_tells_of_a_column_without_a_value(n_parts: int | None, tmp_path: Path) -> None:
    group = str(tmp_path / "rows.zarr")
    frame = with_empty().astype(np.float32)
    attributes = Schema.of_names(list(frame.columns)).attributes()
    write_array(group, "X", frame.shape, np.dtype(np.float32), [frame.to_numpy()], attributes)
    write_arrays(group, y=LABELS)
    wanted = [
        Wanted("features", f"{group}/X", Role.MATRIX, FEATURES),
        Wanted("labels", f"{group}/y", Role.TRUTH, AS_IT_IS),
    ]
    place = StagingPlace(str(tmp_path / "job"), ScratchFolder(tmp_path / "scratch"), n_parts)
    [told] = warned(lambda: stage_arrays(wanted, TruthKind.LABELS, place), "'joined'")
    assert told.startswith(f"{group}/X: column 'joined' ")


def test_many_columns_are_counted() -> None:
    values = np.full((3, 9), np.nan, np.float32)
    values[1, 2] = 0.0
    found = told_of_empty_columns(empty_columns(values))
    assert found.startswith("column 0, column 1, column 3, column 4 and 4 other columns ")
    assert told_of_empty_columns(empty_columns(values[:0])) == ""
