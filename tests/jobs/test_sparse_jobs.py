"""Jobs that name a sparse similarity matrix: forest and answers of the estimator, and of the dense matrix with NaN."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from distforest import RFD, SMERF, SimForestClassifier, SimForestRegressor
from distforest.errors import InputError, SpecError
from distforest.forest.sealed.artifact import read_manifest
from distforest.jobs.any_spec import addresses_of
from distforest.jobs.cluster import Threads
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.on_dask import OnDask
from distforest.jobs.outline import outline
from distforest.jobs.plan import plan
from distforest.jobs.preview import check_and_stage, preview
from distforest.jobs.question import Question
from distforest.jobs.score import score
from distforest.jobs.scratch_room import SMALL_BYTES
from distforest.jobs.spec import Spec
from distforest.jobs.train import size_of
from distforest.sources.arrays import open_array
from distforest.sources.files.ingest import ingest
from distforest.sources.job_inputs import Role
from distforest.sources.scratch import ScratchFolder
from distforest.sources.sparse_store import write_sparse
from tests.estimators.rows import DISTANCES, POINTS, TARGETS, observed
from tests.jobs.iris_jobs import run, write_arrays
from tests.messages import naming

RNG = np.random.default_rng(1)
SIMILAR = POINTS @ POINTS.T
SIMILAR[RNG.random(SIMILAR.shape) < 0.3] = np.nan
APART = np.where(RNG.random(DISTANCES.shape) < 0.3, np.nan, DISTANCES)
np.fill_diagonal(APART, np.nan)  # not stored, yet known: an object is at distance 0 from itself
KNOWN = np.where(np.eye(40, dtype=bool), 0.0, APART)
"""The dense matrix that the sparse one of `APART` is read as."""
LABELS = (TARGETS > 0).astype(np.int64)
PARAMS = {"n_estimators": 8, "n_pairs": 3}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the matrices, sparse and dense, queries, labels and targets; not to be written to."""
    folder = tmp_path_factory.mktemp("made")
    scipy.sparse.save_npz(folder / "S.npz", observed(SIMILAR))
    ingest(str(folder / "S.npz"), f"{folder}/S.zarr", chunk_bytes=400)
    write_sparse(f"{folder}/D.zarr", observed(APART))
    write_sparse(f"{folder}/wide.zarr", observed(SIMILAR[:20]))
    write_sparse(f"{folder}/new.zarr", observed(SIMILAR[::3]), chunk_bytes=400)
    arrays = {"S": SIMILAR, "D": KNOWN, "Z": DISTANCES, "new": SIMILAR[::3], "X": POINTS, "y": LABELS, "t": TARGETS}
    write_arrays(f"{folder}/dense.zarr", **arrays, pairs=RNG.integers(0, 14, (30, 2)))
    return folder


def job(place: str, similarity: Any, truth: str = "labels", **params: Any) -> Spec:
    return Spec.from_dict(
        {
            "format": 1,
            "method": "simforest",
            "seed": 3,
            "output": f"{place}/out.forest.zarr",
            "input": {"similarity": similarity, truth: f"{place}/dense.zarr/{truth[0].replace('l', 'y')}"},
            "params": {**PARAMS, **params},
            "run": {"scratch": f"{place}/scratch", "overwrite": True},
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["mean", "stop", "larger", "surrogate"])
@pytest.mark.parametrize(
    ("estimator", "truth", "values"),
    [(SimForestClassifier, "labels", LABELS), (SimForestRegressor, "targets", TARGETS)],
)
@pytest.mark.parametrize(("name", "dense", "measure"), [("S", SIMILAR, "similarity"), ("D", KNOWN, "distance")])
def test_the_forest_is_that_of_the_estimator_and_of_the_dense_matrix(
    name: str, dense: np.ndarray, measure: str, estimator: type, truth: str, values: np.ndarray, rule: str, place: str
) -> None:
    addresses = (f"{place}/{name}.zarr", f"{place}/dense.zarr/{name}")
    specs = [job(place, {"kind": "dense", "matrix": a, "measure": measure}, truth, on_missing=rule) for a in addresses]
    sparse, whole = (run(spec, overwrite=True).digest for spec in specs)
    own = estimator(kind=measure, random_state=3, **{**PARAMS, "on_missing": rule})
    stored = observed(APART if measure == "distance" else SIMILAR)
    assert sparse == whole == own.fit(stored, values).digest_ == own.fit(dense, values).digest_
    assert own.fit(addresses[0], values).digest_ == sparse


@pytest.mark.slow
@pytest.mark.cluster
def test_workers_grow_and_answer_the_same(place: str, cluster: OnDask) -> None:
    spec = job(place, f"{place}/S.zarr")
    here = run(spec, overwrite=True).digest
    expected = answers_of(place, "new.zarr", "distance")
    shutil.rmtree(f"{place}/scratch")
    assert run(spec, cluster, overwrite=True).digest == here
    np.testing.assert_array_equal(answers_of(place, "new.zarr", "distance", cluster=cluster), expected)


@pytest.mark.slow
def test_a_matrix_is_staged_once_and_opened_anew_on_another_host(place: str) -> None:
    first, second = (stage_inputs(job(place, f"{place}/S.zarr"), f"{place}/{name}") for name in ("a", "b"))
    assert first.fingerprint == second.fingerprint
    assert first.addresses[0] == f"{place}/S.zarr"
    files = sorted(path.name for path in Path(place, "scratch").glob("*.npy"))
    assert len(files) == 4  # three of the matrix, one of the labels
    opened = first.matrix.open(ScratchFolder(Path(place, "elsewhere")))
    np.testing.assert_array_equal(opened.data, first.matrix.open(ScratchFolder(Path(place, "scratch"))).data)
    assert len([*Path(place, "elsewhere").glob("*.npy")]) == 3
    write_sparse(f"{place}/S.zarr", observed(SIMILAR * 2.0), overwrite=True)
    assert stage_inputs(job(place, f"{place}/S.zarr"), f"{place}/c").fingerprint != first.fingerprint


def test_a_forest_says_where_its_matrix_was(place: str) -> None:
    spec = job(place, f"{place}/S.zarr")
    run(spec, overwrite=True)
    assert read_manifest(spec.output)["provenance"]["inputs"]["matrix"]["address"] == f"{place}/S.zarr"
    assert addresses_of(spec)["input.similarity.matrix"] == f"{place}/S.zarr"


# Looking ahead


@pytest.mark.parametrize("name", ["S", "D"])
def test_the_projection_is_that_of_the_staged_job(name: str, place: str) -> None:
    spec = job(place, f"{place}/{name}.zarr")
    seen, staged = preview(spec), size_of(stage_inputs(spec, f"{place}/job").problem())
    assert seen.plan == plan(staged, (), 2, None, 1)
    in_files = sum(path.stat().st_size for path in Path(place, "scratch").glob("*.npy"))
    assert in_files <= seen.scratch.staged <= in_files + SMALL_BYTES + 2000
    [matrix] = [array for array in seen.inputs if array.role == Role.MATRIX]
    assert (matrix.shape, matrix.dtype) == ((40, 40), "float64")
    assert matrix.n_stored == np.count_nonzero(~np.isnan(SIMILAR if name == "S" else APART))


def test_what_is_no_square_matrix_is_refused(place: str) -> None:
    spec = job(place, f"{place}/wide.zarr")
    with pytest.raises(SpecError, match=naming("input.similarity: ", f"{place}/wide.zarr", (20, 40))):
        preview(spec)
    with pytest.raises(InputError, match=naming("similarity", (20, 40))):
        stage_inputs(spec, f"{place}/job")


def test_damage_is_refused_before_work_starts(place: str) -> None:
    Path(place, "S.zarr", "data", "c", "1").unlink()
    with pytest.raises(InputError, match=naming("S.zarr/data: ", "c/1")):
        check_and_stage(job(place, f"{place}/S.zarr"), f"{place}/job")
    shutil.copy(f"{place}/S.zarr/data/c/0", f"{place}/S.zarr/data/c/1")
    with pytest.raises(InputError, match=r"S\.zarr: .*\bdata\b"):
        stage_inputs(job(place, f"{place}/S.zarr"), f"{place}/job")
    shutil.rmtree(f"{place}/S.zarr/indices")
    with pytest.raises(SpecError, match=naming("input.similarity: ", "S.zarr/indices: ")):
        preview(job(place, f"{place}/S.zarr"))


@pytest.mark.parametrize(
    ("place_of_fault", "given"),
    [
        ("input.distances", {"features": "dense.zarr/X", "distances": "D.zarr"}),
        ("input.distances", {"features": "dense.zarr/X", "distances": {"kind": "dense", "matrix": "D.zarr"}}),
    ],
)
def test_other_inputs_are_dense(place_of_fault: str, given: dict[str, Any], place: str) -> None:
    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            return {**value, "matrix": f"{place}/{value['matrix']}"}
        return f"{place}/{value}"

    table = {"format": 1, "method": "smerf", "output": f"{place}/f.zarr"}
    spec = Spec.from_dict({**table, "input": {name: moved(value) for name, value in given.items()}})
    with pytest.raises(SpecError, match=naming(f"{place_of_fault}: ", f"{place}/D.zarr: ", "sparse")):
        preview(spec)
    with pytest.raises(InputError, match=naming(f"{place}/D.zarr: ", "sparse")):
        stage_inputs(spec, f"{place}/job")


# Scoring


def answers_of(place: str, queries: str, answer: str, name: str = "", cluster: Any = None, **asked: Any) -> np.ndarray:
    for key in ("reference", "pairs"):
        if key in asked:
            asked[key] = f"{place}/{asked[key]}"
    question = Question(f"{place}/out.forest.zarr", f"{place}/{queries}", answer, **asked)
    found = score(question, f"{place}/answers.zarr", cluster or Threads(2), overwrite=True)
    return np.asarray(open_array(f"{place}/answers.zarr/{name or next(iter(found.shapes))}")[...])


@pytest.mark.slow
@pytest.mark.parametrize("cells", [1, 1 << 22])
@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        ("distance", {}),
        ("distance", {"reference": "new.zarr"}),
        ("proximity", {"reference": "new.zarr"}),
        ("pairs", {"pairs": "dense.zarr/pairs"}),
        ("neighbors", {"n_neighbors": 4}),
        ("predict", {}),
        ("proba", {}),
        ("apply", {}),
    ],
)
def test_sparse_queries_are_answered_as_dense_ones(
    answer: str, asked: dict[str, Any], cells: int, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(job(place, f"{place}/S.zarr"), overwrite=True)
    monkeypatch.setattr("distforest.jobs.score.ANSWERS_PER_TASK", cells)
    found = answers_of(place, "new.zarr", answer, **asked)
    twin = {key: "dense.zarr/new" if key == "reference" else value for key, value in asked.items()}
    np.testing.assert_array_equal(found, answers_of(place, "dense.zarr/new", answer, **twin))
    assert len(np.unique(found)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["mean", "surrogate"])
@pytest.mark.parametrize(("name", "rows"), [("D", APART), ("S", SIMILAR)])
def test_the_training_rows_are_their_own_queries(name: str, rows: np.ndarray, rule: str, place: str) -> None:
    measure, params = "distance" if name == "D" else "similarity", {**PARAMS, "on_missing": rule}
    similarity = {"kind": "dense", "matrix": f"{place}/{name}.zarr", "measure": measure}
    run(job(place, similarity, on_missing=rule), overwrite=True)
    own = SimForestClassifier(kind=measure, random_state=3, **params).fit(observed(rows), LABELS)
    np.testing.assert_array_equal(answers_of(place, f"{name}.zarr", "apply"), own.apply(observed(rows)))


@pytest.mark.slow
def test_sparse_queries_that_do_not_fit_are_refused_at_the_door(place: str) -> None:
    run(job(place, f"{place}/S.zarr"), overwrite=True)
    write_sparse(f"{place}/narrow.zarr", observed(SIMILAR[:, :5]))
    with pytest.raises(InputError, match=naming("X ", "5 features", "40 features")):
        outline(Question(f"{place}/out.forest.zarr", f"{place}/narrow.zarr", "distance"))
    SMERF(3, random_state=0).fit(POINTS, DISTANCES).save(f"{place}/smerf.zarr")
    with pytest.raises(InputError, match=naming("X ", "40 features", "3 features")):
        outline(Question(f"{place}/smerf.zarr", f"{place}/new.zarr", "distance"))
    RFD(3, random_state=0).fit(POINTS, LABELS).save(f"{place}/rfd.zarr")
    for asked in ({"queries": "new.zarr"}, {"queries": "dense.zarr/X", "reference": "new.zarr"}):
        given = {key: f"{place}/{value}" for key, value in asked.items()}
        with pytest.raises(InputError, match=naming(f"{place}/new.zarr: ", "sparse")):
            outline(Question(f"{place}/rfd.zarr", answer="distance", **given))
