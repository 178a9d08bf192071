"""Columns of amounts with a unit: told, as each of them becomes a category of its own; names with numbers are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from distforest import SMERF
from distforest.sources.doubts import told_of_units
from distforest.sources.files.ingest import ingest
from tests.sources.helpers import warned

N = 60
Y = np.arange(N) % 2
AMOUNTS: list[tuple[str, Callable[[int], str]]] = [
    ("kg", lambda k: f"{k}kg"),
    ("kg", lambda k: f" {k}.5 kg "),
    ("C", lambda k: f"-{k},5C"),
    ("<", lambda k: f"< {k}"),
    ("$", lambda k: f"${k}.99"),
    ("°", lambda k: f"{k}°"),
]
NAMES: dict[str, Callable[[int], str]] = {
    "prefix": lambda k: f"Q{k}",
    "words": lambda k: f"store {k}",
    "letters": lambda k: f"{k}{'abc'[k % 3]}",
    "days": lambda k: f"{k}-{k + 5}",
    "few": lambda k: f"{k % 9} kg",
    "one is other": lambda k: "much" if k == 3 else f"{k} kg",
    "versions": lambda k: f"{k}.x{k}",
    "numbers": str,
}


def cells(form: Callable[[int], str]) -> list[str]:
    return [form(row % 20) for row in range(N)]


@pytest.mark.parametrize(("unit", "form"), AMOUNTS)
def test_amounts_with_a_unit_are_told_in_frames_and_files(
    unit: str, form: Callable[[int], str], tmp_path: Path
) -> None:
    frame = pd.DataFrame({"a": cells(form), "b": np.arange(N) * 7 % 13})
    assert len(warned(lambda: SMERF(2, random_state=0).fit(frame, Y), "column 'a'", repr(unit))) == 1
    assert warned(lambda: SMERF(2, random_state=0).fit(frame.astype({"a": "category"}), Y), "column 'a'") == []
    source = str(tmp_path / "a.csv")
    frame.assign(y=np.where(Y > 0, "p", "q")).to_csv(source, index=False)
    if unit in ("kg", "°"):  # others are refused, or have a comma
        told = warned(lambda: ingest(source, f"{tmp_path}/a.zarr", label="y"), f"unit={unit!r}", "categorical='a'")
        assert len(told) == 1
    assert warned(lambda: ingest(source, f"{tmp_path}/b.zarr", label="y", categorical=["a"]), "'a'") == []


@pytest.mark.parametrize("name", NAMES)
def test_names_with_numbers_are_not_told(name: str) -> None:
    assert told_of_units(dict.fromkeys(cells(NAMES[name]))) == ""
