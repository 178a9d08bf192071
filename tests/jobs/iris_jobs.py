"""Iris as a job of a dozen trees, judged by distances; and how these tests run any job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris

from distforest.jobs.cluster import Cluster, Threads
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.inputs import Inputs
from distforest.jobs.preview import check_and_stage
from distforest.jobs.spec import Spec
from distforest.jobs.train import Fitted, Options, fit, size_of
from distforest.sources.arrays import create_array, write_array
from distforest.stores.folder import Folder

N_TREES = 12
X, Y = load_iris(return_X_y=True)
Z = np.abs(X[:, None, 2] - X[None, :, 2])


def spec_in(folder: Path) -> Spec:
    """The job, with its inputs written into a folder."""
    write_arrays(f"{folder}/iris.zarr", X=X, Z=Z)
    return Spec.from_dict(
        {
            "format": 1,
            "method": "smerf",
            "seed": 3,
            "output": f"{folder}/forest.zarr",
            "input": {"features": f"{folder}/iris.zarr/X", "distances": f"{folder}/iris.zarr/Z"},
            "params": {"n_estimators": N_TREES, "max_features": "sqrt"},
            "run": {"scratch": f"{folder}/scratch"},
        }
    )


def run(spec: Spec, cluster: Cluster | None = None, **options: Any) -> Fitted:
    """Stage a job and grow its forest, two trees to a task unless `batch` is given."""
    return grow(stage_inputs(spec, f"{spec.output}.job"), spec, cluster, **{"batch": 2, **options})


def checked_run(spec: Spec, cluster: Cluster | None = None, **options: Any) -> Fitted:
    """The same after a check of the metadata, as the command line does it."""
    return grow(check_and_stage(spec, f"{spec.output}.job"), spec, cluster, **{"batch": 2, **options})


def run_in_parts(
    spec: Spec, cluster: Cluster, n_parts: int | None = None, rows_of_pack: int | None = None, **options: Any
) -> Fitted:
    """The same with the rows in so many parts."""
    inputs = stage_inputs(spec, f"{spec.output}.job", n_parts)
    if inputs.parts is not None and rows_of_pack is not None:
        inputs = replace(inputs, parts=replace(inputs.parts, rows_of_pack=rows_of_pack))
    return grow(inputs, spec, cluster, **options)


def run_by_passes(spec: Spec, budget: int | None, cluster: Cluster | None = None) -> Fitted:
    """The same by passes with so many bytes for rows; in memory without a budget."""
    inputs = replace(stage_inputs(spec, f"{spec.output}.job"), rows_budget=budget)
    assert size_of(inputs.problem()).rows_budget == budget
    return grow(inputs, spec, cluster, batch=2)


def grow(inputs: Inputs, spec: Spec, cluster: Cluster | None = None, **options: Any) -> Fitted:
    """Grow and seal the forest of staged inputs."""
    return fit(inputs, spec.output, Folder(f"{spec.output}.job"), cluster or Threads(2), Options(**options))


def large_arrays(folder: Path, n_rows: int = 4_000_000) -> None:
    """Write the metadata of features and labels that are not stored."""
    create_array(f"{folder}/data.zarr", "X", (n_rows, 50), np.dtype(np.float32), 100_000)
    create_array(f"{folder}/data.zarr", "y", (n_rows,), np.dtype(np.int32), 100_000)


def write_arrays(group: object, /, **arrays: Any) -> None:
    """Write arrays of these names into a group."""
    for name, values in arrays.items():
        write_array(str(group), name, values.shape, values.dtype, [values])
