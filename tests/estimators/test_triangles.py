"""Matrices of pairs of objects of which one triangle alone is filled: told, whatever the other one holds."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from distforest import SMERF, Graph, SimForestClassifier, SimForestOutlier
from distforest.errors import DistforestWarning
from distforest.jobs.staging import stage_inputs
from distforest.sources.distance_doubts import told_of_one_side, told_of_triangle
from distforest.sources.files.ingest import ingest
from tests.estimators.jobs import spec_of, write_arrays
from tests.estimators.told import told_by
from tests.messages import naming

RNG = np.random.default_rng(0)
N = 30
X = RNG.normal(size=(N, 3))
Y = (X[:, 0] > 0).astype(np.int32)
Z = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
S = np.exp(-(Z**2))
FEW = {"n_estimators": 2, "random_state": 0}


def told_of_triangles(call: Any) -> list[str]:
    """The warnings that say how to mirror a matrix."""
    return told_by(call, ".T")


FITS: dict[str, Any] = {
    "similarities": lambda M: SimForestClassifier(**FEW).fit(M(S), Y),
    "distances": lambda M: SimForestClassifier(kind="distance", **FEW).fit(M(Z), Y),
    "outliers": lambda M: SimForestOutlier(**FEW).fit(M(S)),
    "one of two": lambda M: SimForestClassifier(["precomputed"] * 2, **FEW).fit([S, M(S)], Y),
}


@pytest.mark.parametrize("name", FITS)
def test_a_triangle_of_similarities_is_told(name: str) -> None:
    for triangle, empty in ((np.triu, "below"), (np.tril, "above")):
        [told] = told_of_triangles(lambda triangle=triangle: FITS[name](triangle))
        assert re.search(naming(f"{empty} the diagonal", " 0,", "S + S.T"), told)
    above = np.triu(np.ones((N, N), np.bool_), 1)
    [told] = told_of_triangles(lambda: FITS[name](lambda M: np.where(above, np.nan, M)))
    assert re.search(naming("above the diagonal", "unobserved", "numpy.fmax(S, S.T)"), told)
    assert told_of_triangles(lambda: FITS[name](lambda M: M)) == []


def test_what_is_no_triangle_is_not_told() -> None:
    sparse = np.where(RNG.random((N, N)) < 0.05, 1.0, 0.0)
    few = np.zeros((N, N))
    few[2, [5, 7, 9]] = 1.0
    for matrix in (S, sparse, few, np.eye(N), np.zeros((N, N)), np.ones((1, 1)), np.where(sparse > 0, S, np.nan)):
        assert told_of_triangle(matrix) == ""
    assert told_of_one_side(np.triu(S)[:, :5]) == ""
    assert told_of_triangle(np.triu(np.ones((3, 3), np.int8))) != ""


def test_a_triangle_of_distances_that_smerf_learns_is_told() -> None:
    for n, triangle in ((N, np.triu), (N, np.tril), (1100, np.triu)):  # the last in several tiles
        x = RNG.normal(size=(n, 1))
        [told] = told_of_triangles(
            lambda triangle=triangle, x=x: SMERF(1, max_depth=1).fit(x, triangle(np.abs(x - x.T)))
        )
        assert re.search(naming("distances:", "z_ij", "z_ji", "Z + Z.T"), told)
    partly = np.where(np.arange(N) < 3, np.triu(Z), Z)
    assert told_of_triangles(lambda: SMERF(**FEW).fit(X, partly)) == []
    assert told_of_triangles(lambda: SMERF(**FEW).fit(X, Graph(np.triu(S > 0.5)))) == []  # another warning says so


def test_a_job_tells_of_triangles_dense_or_sparse(tmp_path: Path) -> None:
    at = write_arrays(f"{tmp_path}/d.zarr", {"y": Y, "S": S, "upper": np.triu(S), "far": np.tril(Z)})
    scipy.sparse.save_npz(tmp_path / "upper.npz", scipy.sparse.csr_array(np.triu(S, 1)))
    ingest(str(tmp_path / "upper.npz"), f"{tmp_path}/upper.zarr")

    def told(matrix: str, measure: str) -> list[str]:
        similarity = {"kind": "dense", "matrix": matrix, "measure": measure}
        spec = spec_of(tmp_path, "simforest", {"similarity": similarity, "labels": at["y"]}, n_estimators=2)
        return told_of_triangles(lambda: stage_inputs(spec, f"{tmp_path}/job"))

    assert told(at["S"], "similarity") == []
    assert "below the diagonal" in told(at["upper"], "similarity")[0]
    assert "above the diagonal" in told(at["far"], "distance")[0]
    assert "one direction" in told(f"{tmp_path}/upper.zarr", "similarity")[0]


def test_links_of_a_frame_in_another_order_are_told() -> None:
    names = [f"n{k}" for k in range(N)]
    turned = RNG.permutation(N)
    links = pd.DataFrame((S > 0.3).astype(float), index=names, columns=names)
    with pytest.warns(DistforestWarning, match=naming("row 0 of y", "y.loc[y.columns]")):
        SMERF(**FEW).fit(X, Graph(links.iloc[:, turned], directed="mean"))
    frame = pd.DataFrame(X, columns=list("abc"), index=names)
    with pytest.warns(DistforestWarning, match=naming("row 0 of X", "y.loc[X.index]")):
        SMERF(**FEW).fit(frame, Graph(links.iloc[turned, turned]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SMERF(**FEW).fit(frame, Graph(links))
