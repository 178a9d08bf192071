"""Jobs that name sparse features: forest and answers of the estimator, and of the dense matrix with zeros."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import zarr

from distforest import RFD, SMERF, Labels, TreeRank, URerF, load
from distforest.errors import InputError, SpecError
from distforest.jobs.cluster import Threads
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.preview import check_and_stage, faults_of_metadata, preview
from distforest.jobs.question import Question
from distforest.jobs.score import score
from distforest.jobs.scratch_room import SMALL_BYTES
from distforest.jobs.spec import Spec
from distforest.jobs.train import size_of
from distforest.sources import var_names as module
from distforest.sources.arrays import open_array
from distforest.sources.files.ingest import ingest
from distforest.sources.job_inputs import Role
from distforest.sources.sparse_store import write_sparse
from tests.jobs.iris_jobs import run, write_arrays
from tests.messages import naming
from tests.sources.test_sparse_features import words

X, NEW = words(50, 40, 1, 0.1), words(11, 40, 2, 0.1)
Y = (X[:, :5].sum(axis=1) > 0).astype(np.int64)
PARAMS = {"n_estimators": 6}


def write_as_anndata_does(address: str, matrix: Any, zarr_format: Any = 3) -> None:
    """Write a sparse matrix as anndata 0.12 lays it out: checked by hand against its files."""
    group = zarr.create_group(address, zarr_format=zarr_format)
    for name in ("data", "indices", "indptr"):
        group.create_array(name, data=getattr(matrix, name))
    encoding = {"encoding-type": f"{matrix.format}_matrix", "encoding-version": "0.1.0"}
    group.attrs.update({**encoding, "shape": list(map(int, matrix.shape))})


def write_object_as_anndata_does(address: str, matrix: Any, names: Any, zarr_format: Any = 3) -> None:
    """Write an object whose variables have these names; the same matrix is in X, twice in layers, and in raw."""
    dense, index = {"encoding-type": "array", "encoding-version": "0.2.0"}, "gene_ids"
    whole, raw = {"encoding-type": "anndata", "encoding-version": "0.1.0"}, {"encoding-type": "raw"}
    for place, attributes in {"": whole, "layers": {"encoding-type": "dict"}, "raw": raw}.items():
        zarr.create_group(f"{address}/{place}".rstrip("/"), zarr_format=zarr_format).attrs.update(attributes)
    for place in ("X", "layers/counts", "raw/X"):
        write_as_anndata_does(f"{address}/{place}", matrix, zarr_format)
    layer = zarr.open_group(f"{address}/layers").create_array("dense", data=matrix.toarray())
    layer.attrs.update(dense)
    for place in ("var", "raw/var"):
        var = zarr.create_group(f"{address}/{place}", zarr_format=zarr_format)
        var.attrs.update({"encoding-type": "dataframe", "_index": index, "column-order": []})
        var.create_array(index, data=np.array(names, np.dtypes.StringDType()))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the matrices in each layout, queries and labels; not to be written to."""
    folder = tmp_path_factory.mktemp("made")
    scipy.sparse.save_npz(folder / "X.npz", scipy.sparse.csr_array(X))
    ingest(str(folder / "X.npz"), f"{folder}/own.zarr", chunk_bytes=400)
    write_as_anndata_does(f"{folder}/csr.zarr", scipy.sparse.csr_matrix(X), 2)
    shuffled = scipy.sparse.csc_matrix(X)
    for first, last in zip(shuffled.indptr[:-1], shuffled.indptr[1:], strict=True):  # in any order within a column
        shuffled.indices[first:last], shuffled.data[first:last] = (
            part[first:last][::-1].copy() for part in (shuffled.indices, shuffled.data)
        )
    write_as_anndata_does(f"{folder}/csc.zarr", shuffled)
    write_sparse(f"{folder}/new.zarr", scipy.sparse.csr_array(NEW), chunk_bytes=400)
    write_as_anndata_does(f"{folder}/new_csc.zarr", scipy.sparse.csc_matrix(NEW))
    write_arrays(f"{folder}/dense.zarr", X=X, y=Y, new=NEW)
    return folder


def job(place: str, features: str, method: str = "smerf", **params: Any) -> Spec:
    labels = f"{place}/dense.zarr/y"
    as_distances = {"distances": {"kind": "labels", "values": labels}}
    truth = {"smerf": as_distances, "urerf": {}}.get(method, {"labels": labels})
    return Spec.from_dict(
        {
            "format": 1,
            "method": method,
            "seed": 3,
            "output": f"{place}/out.forest.zarr",
            "input": {"features": f"{place}/{features}", **truth},
            "params": {**PARAMS, **params},
            "run": {"scratch": f"{place}/scratch", "overwrite": True},
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("features", ["own.zarr", "csr.zarr", "csc.zarr", "dense.zarr/X"])
def test_the_forest_is_that_of_the_dense_matrix_in_each_layout(features: str, place: str) -> None:
    done = run(job(place, features), overwrite=True)
    estimator = SMERF(6, random_state=3)
    assert done.digest == estimator.fit(X, Labels(Y)).digest_ == estimator.fit(f"{place}/{features}", Labels(Y)).digest_
    for answer in ("predict", "neighbors"):
        found = []
        for queries in ("new.zarr", "new_csc.zarr", "dense.zarr/new"):
            question = Question(done.address, f"{place}/{queries}", answer)
            answered = score(question, f"{place}/answers.zarr", Threads(2), overwrite=True)
            name = min(answered.shapes)
            found.append(np.asarray(open_array(f"{place}/answers.zarr/{name}")[...]))
        assert all((one == found[0]).all() for one in found)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rfd", "treerank"])
def test_pairs_of_sparse_points_are_learned_in_a_job_and_scored(method: str, place: str) -> None:
    params: dict[str, Any] = {"max_bins": None, **({"n_pairs": 300} if method == "treerank" else {})}
    estimator = {"rfd": RFD, "treerank": TreeRank}[method](6, random_state=3, **params)
    estimator.fit(scipy.sparse.csr_array(X), Y)
    spec = job(place, "csc.zarr", method, **params)
    assert preview(spec).plan.projected_bytes > 0
    done = run(spec, overwrite=True)
    assert done.digest == estimator.digest_ == load(done.address).digest_
    for answer, name, options in (("distance", "distance", {}), ("neighbors", "distance", {"n_neighbors": 4})):
        expected = estimator.distance(NEW, X) if method == "rfd" else 1.0 - estimator.similarity(NEW, X)
        for queries in ("new.zarr", "dense.zarr/new"):
            question = Question(done.address, f"{place}/{queries}", answer, **options)
            score(question, f"{place}/answers.zarr", Threads(2), overwrite=True)
            found = np.asarray(open_array(f"{place}/answers.zarr/{name}")[...])
            nearest = expected if answer == "distance" else np.sort(expected, axis=1)[:, :4]
            assert np.allclose(found, nearest, rtol=1e-6)


@pytest.mark.parametrize("method", ["rfd", "treerank"])
def test_bins_of_sparse_points_are_refused_before_work(method: str, place: str) -> None:
    with pytest.raises(SpecError, match=naming("params: ", "max_bins=256", "max_bins=None")):
        check_and_stage(job(place, "csr.zarr", method), f"{place}/job")


def test_a_preview_knows_the_size_from_metadata_and_the_staged_inputs_have_it(place: str) -> None:
    spec = job(place, "csc.zarr")
    seen, problem = preview(spec), stage_inputs(spec, f"{place}/job").problem()
    [features] = [array for array in seen.inputs if array.role == Role.MATRIX]
    assert (features.shape, features.n_stored) == (X.shape, np.count_nonzero(X))
    assert seen.plan.projected_bytes > size_of(problem).matrix_bytes
    assert size_of(problem).matrix_bytes == problem.data.matrix.nbytes
    assert size_of(problem).width == 1
    staged = sum(path.stat().st_size for path in Path(place, "scratch").glob("*.npy"))
    assert staged <= seen.scratch.staged <= staged + SMALL_BYTES + 2000


@pytest.mark.slow
def test_urerf_reads_sparse_features_without_what_needs_dense_ones(place: str) -> None:
    params = {"coefficients": "sign", "n_witnesses": 0, "feature_weights": None, "min_samples_split": 8}
    spec = job(place, "csr.zarr", "urerf", **params)
    assert run(spec, overwrite=True).digest == URerF(6, random_state=3, **params).fit(X).digest_
    with pytest.raises(SpecError, match=naming("params: ", "coefficients='normal', n_witnesses=3", "n_witnesses=0")):
        check_and_stage(job(place, "csr.zarr", "urerf"), f"{place}/job")
    with pytest.raises(InputError, match=naming("max_bins=8", "max_bins=None")):
        stage_inputs(job(place, "csr.zarr", max_bins=8), f"{place}/job")


@pytest.mark.parametrize(
    ("name", "change", "found"),
    [
        ("indices", lambda old: old + 1000, r"0 to 49 .*10\d\d in column \d+"),
        ("indptr", lambda old: old[::-1], "indptr that rises"),
        ("data", lambda old: old * np.nan, r"\d+ stored values NaN .*row \d+, column \d+"),
    ],
)
def test_a_damaged_group_of_anndata_is_refused(name: str, change: Any, found: str, place: str) -> None:
    array = zarr.open_group(f"{place}/csc.zarr")[name]
    array[...] = change(np.asarray(array[...]))
    with pytest.raises(InputError, match=rf"{place}/csc\.zarr: .*{found}"):
        stage_inputs(job(place, "csc.zarr"), f"{place}/job")


@pytest.mark.parametrize("shape", [[50], [50, 0], [50, 2**31], "50 x 40", [49, 40], [50, 41]])
def test_a_shape_that_contradicts_the_arrays_is_refused(shape: Any, place: str) -> None:
    for name in ("csr", "csc"):
        zarr.open_group(f"{place}/{name}.zarr").attrs["shape"] = shape
    faults = [fault for name in ("csr", "csc") for fault in faults_of_metadata(job(place, f"{name}.zarr"))]
    assert faults
    assert all(f"{place}/c" in fault for fault in faults)


GENES = [f"gene {number}" for number in range(40)]


@pytest.fixture
def cells(place: str) -> str:
    """The folder with objects of named genes: for training, and queries with more genes in another order."""
    write_object_as_anndata_does(f"{place}/cells.zarr", scipy.sparse.csr_matrix(X), GENES, 2)
    order = np.random.default_rng(3).permutation(42)
    wider = np.hstack([NEW, np.ones((11, 2), np.float32)])[:, order]
    names = np.array([*GENES, "more", "and more"])[order]
    write_object_as_anndata_does(f"{place}/other.zarr", scipy.sparse.csc_matrix(wider), names)
    return place


@pytest.mark.slow
@pytest.mark.parametrize("part", ["X", "layers/counts", "layers/dense", "raw/X"])
def test_the_variables_of_anndata_name_the_features_and_queries_are_put_in_order(part: str, cells: str) -> None:
    done, plain = run(job(cells, f"cells.zarr/{part}"), overwrite=True), SMERF(6, random_state=3).fit(X, Labels(Y))
    own = SMERF(6, random_state=3).fit(f"{cells}/cells.zarr/{part}", Labels(Y))
    assert done.digest == own.digest_ == plain.digest_
    assert own.feature_names_in_.tolist() == GENES
    assert list(load(done.address).feature_names_in_) == GENES
    assert own.predict(f"{cells}/other.zarr/{part}").tolist() == plain.predict(NEW).tolist()
    score(Question(done.address, f"{cells}/other.zarr/{part}", "predict"), f"{cells}/a.zarr", Threads(2))
    assert np.asarray(open_array(f"{cells}/a.zarr/prediction")[...]).tolist() == plain.predict(NEW).tolist()


def test_queries_of_anndata_that_lack_a_variable_are_refused(cells: str) -> None:
    forest = SMERF(6, random_state=3).fit(f"{cells}/other.zarr/X", Labels(np.arange(11) % 2))
    with pytest.raises(InputError, match=naming("cells.zarr/X: ", "'and more', 'more'")):
        forest.predict(f"{cells}/cells.zarr/X")
    assert forest.predict(f"{cells}/other.zarr/X").shape == (11,)


def test_an_object_of_anndata_whose_var_does_not_fit_is_refused(cells: str) -> None:
    address = f"{cells}/cells.zarr"
    index = zarr.open_group(f"{address}/var")
    del index["gene_ids"]
    index.create_array("gene_ids", data=np.array(GENES[1:], np.dtypes.StringDType()))
    with pytest.raises(InputError, match=naming("cells.zarr/X: ", "var", "40 columns", 39)):
        SMERF(2).fit(f"{address}/X", Labels(Y))
    del index.attrs["_index"]
    with pytest.raises(InputError, match=naming("cells.zarr/var: ", "_index", None)):
        stage_inputs(job(cells, "cells.zarr/X"), f"{cells}/job")
    shutil.rmtree(f"{address}/var")
    with pytest.raises(InputError, match=naming("cells.zarr/var: ", "Zarr array")):
        SMERF(2).fit(f"{address}/X", Labels(Y))


def test_a_matrix_of_anndata_beside_other_groups_has_no_names(cells: str) -> None:
    shutil.move(f"{cells}/cells.zarr/X", f"{cells}/X")
    forest = SMERF(6, random_state=3).fit(f"{cells}/X", Labels(Y))
    assert not hasattr(forest, "feature_names_in_")
    zarr.open_group(f"{cells}/cells.zarr").attrs["encoding-type"] = "other"
    shutil.move(f"{cells}/X", f"{cells}/cells.zarr/X")
    assert not hasattr(forest.fit(f"{cells}/cells.zarr/X", Labels(Y)), "feature_names_in_")


@pytest.mark.slow
def test_names_are_read_once_for_all_tasks_of_a_scoring_and_anew_for_the_next(
    cells: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"{cells}/forest.zarr"
    SMERF(6, random_state=3).fit(f"{cells}/cells.zarr/X", Labels(Y)).save(address)
    plain = SMERF(6, random_state=3).fit(X, Labels(Y))
    monkeypatch.setattr("distforest.jobs.score.ANSWERS_PER_TASK", 4)
    reads, read = [], module.var_names

    def counted(of: str) -> list[str] | None:
        reads.append(of)
        return read(of)

    monkeypatch.setattr(module, "var_names", counted)
    monkeypatch.setattr("distforest.sources.schema.var_names", counted)
    score(Question(address, f"{cells}/other.zarr/X", "predict"), f"{cells}/a.zarr", Threads(2))
    of_outline = 2  # of its checks
    assert len(reads) == of_outline + 1
    index = zarr.open_group(f"{cells}/other.zarr/var")["gene_ids"]
    values = zarr.open_group(f"{cells}/other.zarr/X")
    assert values.attrs["encoding-type"] == "csc_matrix"
    names = np.asarray(index[...]).tolist()  # type: ignore[index]
    first, second = names.index(GENES[0]), names.index(GENES[1])
    names[first], names[second] = names[second], names[first]
    index[...] = np.array(names, np.dtypes.StringDType())  # type: ignore[index]
    swapped = NEW[:, [1, 0, *range(2, NEW.shape[1])]]
    score(Question(address, f"{cells}/other.zarr/X", "apply"), f"{cells}/b.zarr", Threads(2))
    np.testing.assert_array_equal(np.asarray(open_array(f"{cells}/b.zarr/nodes")[...]), plain.apply(swapped))
