"""Jobs that are taught the distances of some pairs, as a sparse matrix: the forest of the estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import scipy.sparse

from distforest import SMERF, ObservedDistances
from distforest.errors import MemoryLimitError, SpecError
from distforest.jobs.cluster import Threads
from distforest.jobs.preview import check_and_stage, preview
from distforest.jobs.spec import Spec
from distforest.jobs.train import Options, fit
from distforest.sources.arrays import write_array
from distforest.sources.sparse_store import write_sparse
from distforest.stores.folder import Folder
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

RNG = np.random.default_rng(0)
N = 30
X = RNG.normal(size=(N, 3)).astype(np.float32)
PAIRS = np.argwhere(np.triu(RNG.random((N, N)) < 0.3, 1))
APART = np.linalg.norm(X[PAIRS[:, 0]] - X[PAIRS[:, 1]], axis=1)
MEASURED = scipy.sparse.csr_array((APART, tuple(PAIRS.T)), (N, N))


def job(place: Path, matrix: str, kind: str = "observed") -> Spec:
    distances = {"kind": kind, "matrix": f"{place}/{matrix}"}
    return Spec.from_dict(
        {
            "format": 1,
            "method": "smerf",
            "seed": 3,
            "output": f"{place}/f.zarr",
            "input": {"features": f"{place}/X.zarr/X", "distances": distances},
            "params": {"n_estimators": 4},
            "run": {"scratch": f"{place}/scratch", "workers": 1},
        }
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_array(f"{tmp_path}/X.zarr", "X", X.shape, X.dtype, [X])
    write_sparse(f"{tmp_path}/apart.zarr", MEASURED)
    return tmp_path


def test_a_job_on_measured_pairs_grows_the_forest_of_the_estimator(place: Path) -> None:
    forest = SMERF(4, random_state=3).fit(X, ObservedDistances(MEASURED))
    spec = job(place, "apart.zarr")
    inputs = check_and_stage(spec, f"{spec.output}.job")
    assert inputs.n_unobserved == N * (N - 1) // 2 - len(PAIRS)
    assert fit(inputs, spec.output, Folder(f"{spec.output}.job"), Threads(2), Options()).digest == forest.digest_


def test_observed_distances_take_the_memory_of_a_dense_matrix(place: Path) -> None:
    full = ObservedDistances(MEASURED).matrix()
    write_array(f"{place}/full.zarr", "Z", full.shape, full.dtype, [full])
    dense, observed = preview(job(place, "full.zarr/Z", "dense")), preview(job(place, "apart.zarr"))
    assert observed.plan.projected_bytes == dense.plan.projected_bytes


def test_observed_distances_that_do_not_fit_are_refused_before_they_are_staged(place: Path) -> None:
    with pytest.raises(MemoryLimitError, match="291 MiB"):
        check_and_stage(job(place, "apart.zarr"), f"{place}/f.zarr.job", memory_limit=291 << 20)
    assert not (place / "scratch").exists() or not list((place / "scratch").glob("*.npy"))


def test_a_sparse_matrix_must_say_what_is_not_stored(place: Path) -> None:
    with pytest.raises(SpecError, match=naming("input.distances", "apart.zarr", "observed distances")):
        preview(job(place, "apart.zarr", "dense"))
