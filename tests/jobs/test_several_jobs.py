"""Jobs over several similarities: the forests of the estimators, their answers, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from sklearn.datasets import load_iris

from distforest import SimForestClassifier, load
from distforest.command_line.cli import main
from distforest.errors import InputError, JobError, SpecError
from distforest.forest.sealed.artifact import read_manifest
from distforest.jobs.any_spec import addresses_of, functions_of, moved
from distforest.jobs.cluster import Threads
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.json_schema import job_schema
from distforest.jobs.preview import check_and_stage
from distforest.jobs.question import Question
from distforest.jobs.score import score
from distforest.jobs.spec import Spec
from distforest.sources.arrays import open_array
from tests import samples
from tests.jobs.iris_jobs import checked_run, write_arrays
from tests.messages import naming

X, Y = (array[::3] for array in load_iris(return_X_y=True))
CITY = np.abs(X[:, None] - X).sum(axis=2)
EUCLID = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
MATRICES = [
    {"kind": "dense", "matrix": "city", "measure": "distance"},
    {"kind": "dense", "matrix": "euclid", "measure": "distance", "weight": 2.0},
]
BUILT_IN = [{"kind": "rbf", "features": "X"}, {"kind": "manhattan", "features": "X", "weight": 3}]
ASKED: list[tuple[int, int]] = []
BROKEN: list[Path] = []


def euclid(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Distances of numbered objects, by a name that jobs can import."""
    return EUCLID[left, right]


def rooted(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Roots of the distances of the objects themselves."""
    return np.sqrt(np.abs(left - right).sum(axis=1))


def weak(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The distances of numbered objects, of a function that may fail after 100 pairs."""
    if BROKEN and len(ASKED) > 100:
        raise ConnectionError("no credit")
    ASKED.extend(zip(left.tolist(), right.tolist(), strict=True))
    return EUCLID[left, right]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Features, distances and labels, and distances that do not fit."""
    store = str(tmp_path_factory.mktemp("store") / "iris.zarr")
    arrays = {"X": X, "y": Y, "city": CITY, "euclid": EUCLID, "short": CITY[:9, :9], "both": np.hstack([CITY, EUCLID])}
    write_arrays(store, **arrays)
    return store


def table_of(
    store: str, similarity: list[dict[str, Any]], output: str = "forest.zarr", **params: Any
) -> dict[str, Any]:
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
        "params": {"n_estimators": 6, "cut": "zero", **params},
    }


def fitted(store: str, similarity: list[dict[str, Any]], folder: Path, **params: Any) -> str:
    """The address of the forest that a job has grown."""
    table = table_of(store, similarity, f"{folder}/forest.zarr", **params)
    spec = Spec.from_dict({**table, "run": {"scratch": f"{folder}/s"}})
    return checked_run(spec, Threads(1)).address


@pytest.mark.slow
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
    score(Question(output, f"{store}/{rows}", answer="proba"), f"{tmp_path}/said.zarr", Threads(1))
    said = np.asarray(open_array(f"{tmp_path}/said.zarr/proba")[:])
    np.testing.assert_array_equal(said, forest.predict_proba([CITY, EUCLID] if name == "matrices" else X))
    if name == "matrices":
        with pytest.raises(InputError, match=naming("X ", "50 features", "100 features")):
            score(Question(output, f"{store}/city", answer="proba"), f"{tmp_path}/other.zarr", Threads(1))
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
    ("similarity", "named"),
    [
        ([], (": ", "2 to 100", " 0")),
        (MATRICES[:1], (": ", "2 to 100", " 1")),
        ([MATRICES[0], BUILT_IN[0]], (": ", "both")),
        ([BUILT_IN[0], {"kind": "linear", "features": "Z"}], (": ", "several arrays")),
        ([BUILT_IN[0], {"kind": "lazy", "function": "a:b"}], (": ", "both")),
        ([MATRICES[0], {"kind": "feature_subsets", "features": "X"}], (".1.kind: ", "'feature_subsets'")),
        (
            [{"kind": "lazy", "function": "a:b"}, {"kind": "lazy", "function": "a:c", "share": "worker"}],
            (": ", "'share'", "'all' and 'worker'"),
        ),
        ([{"kind": "lazy", "function": "a:b", "ledger": "l"}] * 2, (": ", "ledger", "'l' twice")),
        ([MATRICES[0], {**MATRICES[1], "weight": 0}], (".1.weight: ", "found 0")),
    ],
)
def test_a_list_that_is_no_list_of_similarities_is_refused(
    store: str, similarity: list[dict[str, Any]], named: tuple[str, ...]
) -> None:
    place, *found = named
    with pytest.raises(SpecError, match=naming(f"input.similarity{place}", *found)):
        Spec.from_dict(table_of(store, similarity))


def test_matrices_of_other_objects_are_refused(store: str, tmp_path: Path) -> None:
    short = [MATRICES[0], {**MATRICES[1], "matrix": "short"}]
    spec = Spec.from_dict({**table_of(store, short), "run": {"scratch": f"{tmp_path}/s"}})
    with pytest.raises(InputError, match=naming("input: ", " 50 ", f"{store}/city", " 9 ", f"{store}/short")):
        check_and_stage(spec, f"{tmp_path}/job")
    with pytest.raises(InputError, match=naming("input.similarity: ", (9, 9), (50, 50))):
        stage_inputs(spec, f"{tmp_path}/job")


def functions(**options: Any) -> list[dict[str, Any]]:
    """The matrix and the function of a mixed list."""
    asked = {"kind": "lazy", "function": f"{__name__}:euclid", "measure": "distance", "weight": 2.0, **options}
    return [MATRICES[0], asked]


@pytest.mark.slow
@pytest.mark.parametrize("share", ["all", "worker"])
def test_a_list_of_a_matrix_and_functions_grows_the_forest_of_the_matrices(
    store: str, share: str, tmp_path: Path
) -> None:
    own: dict[str, Any] = {"n_estimators": 6, "cut": "zero", "random_state": 3, "bootstrap": False, **samples.PAPER}
    matrices = SimForestClassifier(["precomputed"] * 3, similarity_weights=[1.0, 2.0, 1.0], kind="distance", **own)
    matrices.fit([CITY, EUCLID, CITY**0.5], Y)
    listed = [*functions(share=share), {**functions(share=share)[1], "function": f"{__name__}:rooted", "weight": 1.0}]
    listed[2]["objects"] = f"{store}/X"
    output = fitted(store, listed, tmp_path, bootstrap=False)
    assert load(output).digest_ == matrices.digest_
    told = read_manifest(output)["provenance"]["similarity"]
    assert [of and of["function"] for of in told["measures"]] == [None, f"{__name__}:euclid", f"{__name__}:rooted"]
    assert 0 < told["evaluations"] <= 2 * 50 * 49
    lines = CliRunner().invoke(main, ["inspect", output]).output
    assert "measure 0 given" in lines
    assert f"measure 2 function {__name__}:rooted" in lines
    ledgers = {path.name for path in tmp_path.glob("*.ledger")}
    assert ledgers == ({"forest.zarr.1.ledger", "forest.zarr.2.ledger"} if share == "all" else set())


@pytest.mark.slow
def test_what_was_asked_before_a_fault_is_not_asked_again(store: str, tmp_path: Path) -> None:
    ASKED.clear()
    listed = functions(function=f"{__name__}:weak", retries=0, batch_size=40)
    BROKEN.append(tmp_path)
    with pytest.raises(JobError, match="no credit"):
        fitted(store, listed, tmp_path)
    BROKEN.pop()
    output = fitted(store, listed, tmp_path)
    assert len(ASKED) == len(set(ASKED)) > 0
    assert read_manifest(output)["provenance"]["similarity"]["evaluations"] == len(ASKED)


def test_a_budget_of_one_function_stops_only_that_one(store: str, tmp_path: Path) -> None:
    output = fitted(store, functions(budget=60), tmp_path)
    told = read_manifest(output)["provenance"]["similarity"]
    assert told["evaluations"] <= 60
    assert load(output).forest_.n_trees == 6
    assert load(output).feature_importances_.tolist()[0] > 0.5


def test_functions_of_a_list_are_named_to_whoever_allows_them(store: str) -> None:
    spec = Spec.from_dict(table_of(store, functions(objects=f"{store}/X", ledger="/far/ledger")))
    assert functions_of(spec) == {"input.similarity.1.function": f"{__name__}:euclid"}
    found = addresses_of(spec)
    assert found["input.similarity.1.objects"] == f"{store}/X"
    assert found["input.similarity.1.ledger"] == "/far/ledger"
    assert "input.similarity.1.function" not in found
    far = addresses_of(moved(spec, lambda address: f"/far{address}"))
    assert far["input.similarity.1.objects"] == f"/far{store}/X"
    assert functions_of(moved(spec, lambda address: f"/far{address}")) == functions_of(spec)
    assert Draft202012Validator(job_schema()).is_valid(table_of(store, functions()))
    missing = Spec.from_dict(table_of(store, functions(function=f"{__name__}:nothing")))
    with pytest.raises(SpecError, match=naming("input.similarity.1: ", f"{__name__}:nothing")):
        check_and_stage(missing, f"{store}.job")
