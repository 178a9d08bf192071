"""Two files of one table with other lists of categories: answers go by the names, in Python and in jobs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr

from distforest import RFD, SMERF, SimForestClassifier, TreeRank, URerF, load
from distforest.errors import DistforestWarning, InputError
from distforest.jobs.cluster import Threads
from distforest.jobs.question import Question
from distforest.jobs.score import score
from distforest.jobs.spec import Spec
from distforest.sources.files.ingest import ingest
from tests.jobs.iris_jobs import run
from tests.messages import naming

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
    told = naming("new.zarr/X", "'colour'", "1 category", "'amber'")
    with pytest.warns(DistforestWarning, match=naming("'colour'", "29 rows", "'amber'")):
        expected = forest.apply(new)
    with pytest.warns(DistforestWarning, match=told):
        np.testing.assert_array_equal(load(home / "forest.zarr").apply(str(home / "new.zarr/X")), expected)
    output = str(home / "out.zarr")
    with pytest.warns(DistforestWarning, match=told):
        score(Question(str(home / "forest.zarr"), str(home / "new.zarr/X"), "apply"), output, Threads(1))
    nodes = next(array for _, array in sorted(zarr.open_group(output, mode="r").arrays()))
    np.testing.assert_array_equal(nodes[:], expected)


def test_other_methods_refuse_files_with_categories(home: Path) -> None:
    with pytest.raises(InputError, match=naming("old.zarr/X", "'colour'", "SimForestClassifier")):
        SimForestClassifier("linear", n_estimators=3).fit(str(home / "old.zarr/X"), LABELS)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rfd", "treerank"])
def test_a_job_over_pairs_is_that_of_the_estimator(home: Path, method: str) -> None:
    """And scores another file by the names of its categories."""
    zarr.save_array(str(home / "y.zarr"), LABELS.astype(np.int64))
    spec = Spec.from_dict(
        {
            "format": 1,
            "method": method,
            "seed": 7,
            "output": str(home / "forest.zarr"),
            "params": {"n_estimators": 4},
            "run": {"scratch": str(home / "scratch")},
            "input": {"features": str(home / "old.zarr/X"), "labels": str(home / "y.zarr")},
        }
    )
    done = run(spec)
    own = {"rfd": RFD, "treerank": TreeRank}[method](4, random_state=7).fit(FRAME, LABELS.astype(np.int64))
    assert done.digest == own.digest_
    assert own.forest_.table.category_size is not None
    assert own.forest_.table.category_size.any()
    new = pd.read_csv(home / "new.csv").astype({"size": np.float32})
    expected = own.distance(new, FRAME)
    output = str(home / "out.zarr")
    question = Question(str(home / "forest.zarr"), str(home / "new.zarr/X"), "distance")
    score(question, output, Threads(1))
    distances = next(array for _, array in sorted(zarr.open_group(output, mode="r").arrays()))
    np.testing.assert_array_equal(distances[:], expected.astype(distances.dtype))


def test_a_job_without_labels_is_that_of_the_estimator(home: Path) -> None:
    """The screen, too, reads categories as categories."""
    spec = Spec.from_dict(
        {
            "format": 1,
            "method": "urerf",
            "seed": 7,
            "output": str(home / "forest.zarr"),
            "params": {"n_estimators": 4, "min_samples_split": 20},
            "run": {"scratch": str(home / "scratch")},
            "input": {"features": str(home / "old.zarr/X")},
        }
    )
    done = run(spec)
    own = URerF(4, min_samples_split=20, random_state=7).fit(FRAME)
    assert done.digest == own.digest_
    assert own.forest_.table.category_size is not None
    assert own.forest_.table.category_size.any()


def test_the_attributes_of_an_array_say_what_holds_categories(home: Path) -> None:
    address = str(home / "old.zarr/X")
    with pytest.raises(InputError, match=naming("categorical_features", [0], "X[:]")):
        SMERF(3, categorical_features=[0]).fit(address, LABELS)
    numbers = SMERF(3, categorical_features=None, random_state=0).fit(address, LABELS)
    assert numbers.forest_.table.category_size is None
