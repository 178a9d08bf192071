"""Jobs that are taught a sparse graph: forest and answers of the estimator, and of the dense matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from distributed import Client

from distforest import SMERF, Graph, load
from distforest.errors import InputError, SpecError
from distforest.jobs.inputs import Inputs
from distforest.jobs.on_dask import local_cluster
from distforest.jobs.plan import Size, plan
from distforest.jobs.preview import check_and_stage, preview
from distforest.jobs.spec import Spec
from distforest.jobs.train import size_of
from distforest.sources import graph_distances
from distforest.sources.sparse_store import write_sparse
from tests.estimators.test_graphs import WEIGHTS, A, N, X
from tests.jobs.iris_jobs import checked_run, write_arrays
from tests.messages import naming

OPTIONS: dict[str, Any] = {"absent": 2.0, "diagonal": 0.5, "directed": "either"}


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A folder with features, weights, and the graph, sparse and dense."""
    write_sparse(f"{tmp_path}/A.zarr", scipy.sparse.csr_array(A), chunk_bytes=400)
    write_arrays(f"{tmp_path}/dense.zarr", X=X, w=WEIGHTS, A=A)
    return str(tmp_path)


def job(place: str, adjacency: str, options: dict[str, Any], weighted: bool = False, n_trees: int = 6) -> Spec:
    distances = {"kind": "graph", "adjacency": f"{place}/{adjacency}", **options}
    weight = {"sample_weight": f"{place}/dense.zarr/w"} if weighted else {}
    return Spec.from_dict(
        {
            "format": 1,
            "method": "smerf",
            "seed": 3,
            "output": f"{place}/{adjacency.replace('/', '-')}.forest.zarr",
            "input": {"features": f"{place}/dense.zarr/X", "distances": distances, **weight},
            "params": {"n_estimators": n_trees},
            "run": {"scratch": f"{place}/scratch", "overwrite": True},
        }
    )


def staged(spec: Spec) -> Inputs:
    return check_and_stage(spec, f"{spec.output}.job")


def digest_of_job(spec: Spec, **options: Any) -> str:
    return checked_run(spec, overwrite=True, **options).digest


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, OPTIONS])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_job_grows_the_forest_of_the_estimator(options: dict[str, Any], weighted: bool, place: str) -> None:
    forest = SMERF(6, random_state=3).fit(X, Graph(A, **options), WEIGHTS if weighted else None)
    assert digest_of_job(job(place, "A.zarr", options, weighted)) == forest.digest_
    assert digest_of_job(job(place, "dense.zarr/A", options, weighted)) == forest.digest_
    opened = load(f"{place}/A.zarr.forest.zarr")
    np.testing.assert_array_equal(opened.distance(X), forest.distance(X))


@pytest.mark.slow
def test_a_job_of_a_large_graph_keeps_the_links(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_distances, "MOST_KEPT_DENSE", 0)
    forest = SMERF(6, random_state=3).fit(X, Graph(f"{place}/A.zarr", **OPTIONS))
    spec = job(place, "A.zarr", OPTIONS)
    assert digest_of_job(spec) == forest.digest_
    opened = load(spec.output)
    assert opened.forest_.meaning.leaf.kind == "graph"
    np.testing.assert_array_equal(opened.distance(X), forest.distance(X))
    assert opened.forest_.provenance["inputs"]["distances"]["sha256"] == staged(spec).graph.sha256  # type: ignore[union-attr]
    more = job(place, "A.zarr", OPTIONS, n_trees=9)
    assert (
        digest_of_job(more, earlier=spec.output)
        == SMERF(9, random_state=3).fit(X, Graph(f"{place}/A.zarr", **OPTIONS)).digest_
    )


@pytest.mark.slow
def test_a_cluster_grows_the_same_forest(place: str) -> None:
    spec = job(place, "A.zarr", OPTIONS)
    expected = SMERF(6, random_state=3).fit(X, Graph(A, **OPTIONS)).digest_
    with local_cluster(1, 1) as cluster:
        assert digest_of_job(spec, cluster=cluster) == expected


@pytest.mark.slow
def test_a_fit_on_a_cluster_of_the_callers_own(place: str) -> None:
    graph = Graph(scipy.sparse.csr_array(A), **OPTIONS)
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
        forest = SMERF(6, random_state=3, client=client).fit(X, graph)
    assert forest.digest_ == SMERF(6, random_state=3).fit(X, graph).digest_


@pytest.mark.slow
def test_another_graph_is_another_job(place: str) -> None:
    prints = {staged(job(place, "A.zarr", options)).fingerprint for options in ({}, {"absent": 2.0}, {"diagonal": 0.5})}
    assert len(prints) == 3


def test_the_preview_knows_the_size(place: str) -> None:
    spec = job(place, "A.zarr", {})
    size = size_of(staged(spec).problem())
    assert size.link_bytes > 0
    assert not size.dense
    seen = preview(spec)
    assert seen.size.n_rows == N
    # without loops every link is stored, so metadata tell the size to the byte
    assert plan(size, (), 4, None, 1).projected_bytes == seen.plan.projected_bytes


def test_many_links_make_small_tasks() -> None:
    size = Size(n_rows=1000, n_trees=64, matrix_bytes=1, truth_bytes=1, width=3, dense=False, link_bytes=1 << 25)
    assert max(last - first + 1 for first, last in plan(size, (), 1).tasks) == 2


def test_what_is_refused(place: str) -> None:
    with pytest.raises(SpecError, match=naming("input.distances.directed", "'mean'", "'either'", "'both'", "'max'")):
        job(place, "A.zarr", {"directed": "max"})
    with pytest.raises(SpecError, match=naming("input.distances.absent", 0)):
        job(place, "A.zarr", {"absent": 0})
    with pytest.raises(InputError, match=naming("input.distances", "diagonal", "absent=1", 3.0)):
        preview(job(place, "A.zarr", {"diagonal": 3}))
    write_sparse(f"{place}/heavy.zarr", scipy.sparse.csr_array(5 * A))
    with pytest.raises(InputError, match=naming("heavy.zarr", "row 0", "`absent`")):
        staged(job(place, "heavy.zarr", {}))
