"""Two files of one table with other lists of categories: answers go by the names, in Python and in jobs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr

from distforest import RFD, SMERF, SimForestClassifier, load
from distforest.errors import InputError
from distforest.jobs.cluster import Here
from distforest.jobs.question import Question
from distforest.jobs.score import score
from distforest.sources.files.ingest import ingest

RNG = np.random.default_rng(0)
COLOUR = np.array(["red", "green", "blue", "black"])[RNG.integers(0, 4, 120)]
FRAME = pd.DataFrame({"colour": COLOUR, "size": RNG.normal(size=120).astype(np.float32)})
LABELS = np.isin(COLOUR, ["red", "blue"]) ^ (FRAME["size"].to_numpy() > 0.7)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DISTFOREST_SCRATCH", str(tmp_path / "scratch"))
    new = FRAME[COLOUR != "black"].assign(colour=lambda own: own["colour"].replace({"green": "amber"}))
    for name, frame in {"old": FRAME, "new": new}.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        ingest(str(tmp_path / f"{name}.csv"), str(tmp_path / f"{name}.zarr"))
    return tmp_path


def test_a_file_with_another_list_of_categories_is_scored_by_their_names(home: Path) -> None:
    new = pd.read_csv(home / "new.csv").astype({"size": np.float32})
    forest = SMERF(5, random_state=0).fit(str(home / "old.zarr/X"), LABELS)
    assert forest.digest_ == SMERF(5, random_state=0).fit(FRAME, LABELS).digest_
    forest.save(home / "forest.zarr")
    told = r"column 'colour' has 1 category that the forest has not seen \('amber'\); they count as missing"
    with pytest.warns(UserWarning, match="has a category|have a category"):
        expected = forest.apply(new)
    with pytest.warns(UserWarning, match=told):
        np.testing.assert_array_equal(load(home / "forest.zarr").apply(str(home / "new.zarr/X")), expected)
    output = str(home / "out.zarr")
    with pytest.warns(UserWarning, match=told):
        score(Question(str(home / "forest.zarr"), str(home / "new.zarr/X"), "apply"), output, Here(1))
    nodes = next(array for _, array in sorted(zarr.open_group(output, mode="r").arrays()))
    np.testing.assert_array_equal(nodes[:], expected)


def test_other_methods_refuse_files_with_categories(home: Path) -> None:
    for other in (RFD(3), SimForestClassifier("linear", n_estimators=3)):
        with pytest.raises(InputError, match=r"column 'colour' holds categories, and .* reads numbers; ingest"):
            other.fit(str(home / "old.zarr/X"), LABELS)


def test_the_attributes_of_an_array_say_what_holds_categories(home: Path) -> None:
    address = str(home / "old.zarr/X")
    with pytest.raises(
        InputError, match=r"categorical_features: an array on disk says so in its attributes, found \[0\]"
    ):
        SMERF(3, categorical_features=[0]).fit(address, LABELS)
    numbers = SMERF(3, categorical_features=None, random_state=0).fit(address, LABELS)
    assert numbers.forest_.table.category_size is None
