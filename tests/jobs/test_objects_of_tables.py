"""Objects of which a function tells the similarity, as texts in a column of a table: to learn from, and to classify."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
import zarr

from distforest import Lazy, SimForestClassifier, pairwise, read_ids
from distforest.errors import InputError
from distforest.jobs.callback import Callback
from distforest.jobs.cluster import Threads
from distforest.jobs.question import Question
from distforest.jobs.score_table import score_table
from distforest.jobs.spec import Spec
from distforest.sources.files.ingest import ingest
from distforest.sources.files.queries import QueryOptions
from tests.jobs.iris_jobs import checked_run
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ["ballad", "ballet", "ballot", "wallet", "pallet", "pellet", "été", "sun", "run", "pun", "gun", "gin"]
KINDS = ["long"] * 6 + ["short"] * 6
NAME = f"{__name__}:letters_apart"


@pairwise
def letters_apart(a: str, b: str) -> float:
    """A cheap distance of two words."""
    assert isinstance(a, str)
    return abs(len(a) - len(b)) + sum(x != y for x, y in zip(a, b, strict=False))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table of words, its arrays, and a sealed forest of them."""
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"name": [f"w{k}" for k in range(12)], "word": WORDS, "kind": KINDS}).to_csv("words.csv", index=False)
    pd.DataFrame({"kind": ["short", "long"], "name": ["a", "b"], "word": ["bun", "wallow"]}).to_csv(
        "new.csv", index=False
    )
    ingest("words.csv", "words.zarr", object="word", id="name", label="kind")
    similarity = {"kind": "lazy", "function": NAME, "measure": "distance", "objects": "words.zarr/objects"}
    spec = Spec.from_dict(
        {
            "format": 1,
            "method": "simforest",
            "output": "f.zarr",
            "input": {"labels": "words.zarr/y", "similarity": similarity},
            "params": {"n_estimators": 12, "oob_score": True},
            "run": {"scratch": f"{tmp_path}/scratch"},
        }
    )
    checked_run(spec, Threads(1))
    return tmp_path


def question(training: str | None = None) -> Question:
    callback = Callback.from_function(NAME, {"kind": "distance"})
    return Question("f.zarr", "new.csv", "predict", callback=callback, training=training)


@pytest.mark.slow
def test_a_column_of_texts_teaches_as_a_list_does(home: Path) -> None:
    asked = Lazy(letters_apart, kind="distance")
    forest = SimForestClassifier(asked, n_estimators=12, oob_score=True, random_state=0).fit(WORDS, KINDS)
    asked_of = QueryOptions(id="name", keep=("kind",), object="word")
    assert score_table(question("words.zarr/objects"), "out.csv", Threads(1), asked_of).digest == forest.digest_
    found = pd.read_csv("out.csv")
    assert list(found.columns) == ["name", "kind", "prediction"]
    assert list(found["name"]) == ["a", "b"]
    np.testing.assert_array_equal(found["prediction"], forest.predict(["bun", "wallow"]))


def test_a_file_without_its_column_of_objects_is_refused(home: Path) -> None:
    with pytest.raises(InputError, match=naming("new.csv", "`object`")):
        score_table(question(), "out.csv", Threads(1), QueryOptions(id="name"))
    with pytest.raises(InputError, match="`training`"):
        score_table(question(), "out.csv", Threads(1), QueryOptions(id="name", object="word"))


def test_damaged_texts_are_refused(home: Path) -> None:
    zarr.open_array("words.zarr/objects", mode="r+")[0, 0] = ord("c")
    with pytest.raises(InputError, match="SHA-256"):
        score_table(question("words.zarr/objects"), "out.csv", Threads(1), QueryOptions(object="word"))


def test_objects_are_beside_their_names_and_none_is_empty(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("name,word\na,fern\nb,\n")
    with pytest.raises(InputError, match=naming("bad.csv", "row 1", "'word'")):
        ingest(f"{tmp_path}/bad.csv", f"{tmp_path}/bad.zarr", object="word", id="name")
    (tmp_path / "good.csv").write_text("name,word\na,fern\nb,fern\n")
    ingest(f"{tmp_path}/good.csv", f"{tmp_path}/good.zarr", object="word", id="name")
    assert read_ids(f"{tmp_path}/good.zarr").tolist() == ["a", "b"]
