"""Jobs over several similarities: the forests of the estimators, their answers, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from sklearn.datasets import load_iris

from distforest import SimForestClassifier, load
from distforest.errors import InputError, SpecError
from distforest.forest.sealed.artifact import read_manifest
from distforest.jobs.any_spec import addresses_of, moved
from distforest.jobs.cluster import Here
from distforest.jobs.preview import check_and_stage
from distforest.jobs.question import Question
from distforest.jobs.schema import job_schema
from distforest.jobs.score import score
from distforest.jobs.spec import Spec
from distforest.jobs.staging import stage_inputs
from distforest.jobs.train import Options, fit
from distforest.sources.arrays import open_array, write_array
from distforest.stores.folder import Folder

X, Y = (array[::3] for array in load_iris(return_X_y=True))
CITY = np.abs(X[:, None] - X).sum(axis=2)
EUCLID = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
MATRICES = [
    {"kind": "dense", "matrix": "city", "measure": "distance"},
    {"kind": "dense", "matrix": "euclid", "measure": "distance", "weight": 2.0},
]
BUILT_IN = [{"kind": "rbf", "features": "X"}, {"kind": "manhattan", "features": "X", "weight": 3}]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Features, distances and labels, and distances that do not fit."""
    store = str(tmp_path_factory.mktemp("store") / "iris.zarr")
    arrays = {"X": X, "y": Y, "city": CITY, "euclid": EUCLID, "short": CITY[:9, :9], "both": np.hstack([CITY, EUCLID])}
    for name, values in arrays.items():
        write_array(store, name, values.shape, values.dtype, [values])
    return store


def table_of(store: str, similarity: list[dict[str, Any]], output: str = "forest.zarr") -> dict[str, Any]:
    """A spec that names arrays of the store."""
    named = [
        {key: f"{store}/{value}" if key in ("matrix", "features") else value for key, value in part.items()}
        for part in similarity
    ]
    return {
        "format": 1,
        "method": "simforest",
        "output": output,
        "seed": 3,
        "input": {"similarity": named, "labels": f"{store}/y"},
        "params": {"n_estimators": 6, "cut": "zero"},
    }


def fitted(store: str, similarity: list[dict[str, Any]], folder: Path) -> str:
    """The address of the forest that a job has grown."""
    spec = Spec.from_dict({**table_of(store, similarity, f"{folder}/forest.zarr"), "run": {"scratch": f"{folder}/s"}})
    place = Folder(f"{spec.output}.job")
    fit(check_and_stage(spec, place.address), spec.output, place, Here(1), Options(batch=2))
    return spec.output


@pytest.mark.parametrize("name", ["matrices", "built_in"])
def test_a_job_grows_the_forest_of_the_estimator(store: str, name: str, tmp_path: Path) -> None:
    similarity = MATRICES if name == "matrices" else BUILT_IN
    output = fitted(store, similarity, tmp_path)
    own: dict[str, Any] = {"n_estimators": 6, "cut": "zero", "random_state": 3}
    if name == "matrices":
        forest = SimForestClassifier(["precomputed"] * 2, similarity_weights=[1.0, 2.0], kind="distance", **own)
        forest.fit([CITY, EUCLID], Y)
    else:
        forest = SimForestClassifier(["rbf", "manhattan"], similarity_weights=[1.0, 3.0], **own).fit(X, Y)
    assert load(output).digest_ == forest.digest_
    rows = "both" if name == "matrices" else "X"
    score(Question(output, f"{store}/{rows}", answer="proba"), f"{tmp_path}/said.zarr", Here(1))
    said = np.asarray(open_array(f"{tmp_path}/said.zarr/proba")[:])
    np.testing.assert_array_equal(said, forest.predict_proba([CITY, EUCLID] if name == "matrices" else X))
    if name == "matrices":
        with pytest.raises(InputError, match="X has 50 features, but the forest is expecting 100"):
            score(Question(output, f"{store}/city", answer="proba"), f"{tmp_path}/other.zarr", Here(1))
        manifest = read_manifest(output)
        assert manifest["provenance"]["inputs"]["matrix"]["address"] == f"{store}/city, {store}/euclid"


def test_a_spec_of_several_is_read_written_and_moved(store: str) -> None:
    spec = Spec.from_dict(table_of(store, MATRICES))
    assert Spec.from_json(spec.to_json()) == spec
    assert Spec.from_dict(spec.to_dict()) == spec
    assert addresses_of(spec)["input.similarity.1.matrix"] == f"{store}/euclid"
    assert (
        addresses_of(moved(spec, lambda address: f"/far{address}"))["input.similarity.0.matrix"] == f"/far{store}/city"
    )
    judge = Draft202012Validator(job_schema())
    assert judge.is_valid(table_of(store, MATRICES))
    assert judge.is_valid(table_of(store, BUILT_IN))
    assert not judge.is_valid(table_of(store, MATRICES[:1]))
    assert not judge.is_valid(table_of(store, [{**MATRICES[0], "weight": "much"}, MATRICES[1]]))


@pytest.mark.parametrize(
    ("similarity", "told"),
    [
        ([], "input.similarity.*a list of 2 to 100 of them, found 0"),
        (MATRICES[:1], "found 1"),
        ([MATRICES[0], BUILT_IN[0]], "a list of matrices, or of similarities of the same features, found both"),
        ([BUILT_IN[0], {"kind": "linear", "features": "Z"}], "found several arrays of features"),
        ([MATRICES[0], {"kind": "lazy", "function": "a:b"}], r"similarity.1.kind.*'lazy'"),
        ([MATRICES[0], {**MATRICES[1], "weight": 0}], r"similarity.1.weight"),
    ],
)
def test_a_list_that_is_no_list_of_similarities_is_refused(
    store: str, similarity: list[dict[str, Any]], told: str
) -> None:
    with pytest.raises(SpecError, match=told):
        Spec.from_dict(table_of(store, similarity))


def test_matrices_of_other_objects_are_refused(store: str, tmp_path: Path) -> None:
    short = [MATRICES[0], {**MATRICES[1], "matrix": "short"}]
    spec = Spec.from_dict({**table_of(store, short), "run": {"scratch": f"{tmp_path}/s"}})
    with pytest.raises(InputError, match="rows of the same items were expected"):
        check_and_stage(spec, f"{tmp_path}/job")
    with pytest.raises(InputError, match=r"matrices of one shape, found \(9, 9\) and \(50, 50\)"):
        stage_inputs(spec, f"{tmp_path}/job")
