"""Iris as a job of a dozen trees, judged by distances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris

from distforest.jobs.cluster import Cluster
from distforest.jobs.spec import Spec
from distforest.jobs.staging import stage_inputs
from distforest.jobs.train import Fitted, Options, fit
from distforest.sources.arrays import write_array
from distforest.stores.folder import Folder

N_TREES = 12
X, Y = load_iris(return_X_y=True)
Z = np.abs(X[:, None, 2] - X[None, :, 2])


def spec_in(folder: Path) -> Spec:
    """The job, with its inputs written into a folder."""
    for name, values in (("X", X), ("Z", Z)):
        write_array(f"{folder}/iris.zarr", name, values.shape, values.dtype, [values])
    return Spec.from_dict(
        {
            "format": 1,
            "method": "smerf",
            "seed": 3,
            "output": f"{folder}/forest.zarr",
            "input": {"features": f"{folder}/iris.zarr/X", "distances": f"{folder}/iris.zarr/Z"},
            "params": {"n_estimators": N_TREES},
            "run": {"scratch": f"{folder}/scratch"},
        }
    )


def run(spec: Spec, cluster: Cluster, **options: Any) -> Fitted:
    """The job as the command line runs it, two trees to a task."""
    folder = Folder(f"{spec.output}.job")
    return fit(stage_inputs(spec, folder.address), spec.output, folder, cluster, Options(batch=2, **options))
