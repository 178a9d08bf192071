"""Functions that the tests of sources share."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist, squareform

from distforest.errors import DistforestWarning
from distforest.jobs.spec import Spec
from distforest.sources.arrays import write_array
from distforest.sources.source import Source
from tests.messages import naming

Refused = Callable[..., str]
Write = Callable[[str, str], str]


def warned(call: Callable[[], object], *parts: object) -> list[str]:
    """The package's warnings of a call in which all of these parts stand; those of others stay errors."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", DistforestWarning)
        call()
    return [str(one.message) for one in found if re.search(naming(*parts), str(one.message))]


def write_arrays(group: str, **arrays: np.ndarray) -> str:
    """Write arrays into a Zarr group by their names; the address of the group."""
    for name, values in arrays.items():
        write_array(group, name, values.shape, values.dtype, [values])
    return group


def job_spec(folder: Path, method: str, **inputs: Any) -> Spec:
    """A job on these inputs that keeps to a folder."""
    run = {"scratch": f"{folder}/scratch"}
    return Spec.from_dict({"format": 1, "method": method, "output": f"{folder}/f.zarr", "input": inputs, "run": run})


def whole(source: Source) -> np.ndarray:
    """All values of a source."""
    rows, columns = (np.arange(size, dtype=np.int32) for size in source.shape)
    return source.block(rows, columns)


def with_zeros(matrix: np.ndarray, share: float) -> np.ndarray:
    """A symmetric matrix of which about a share of pairs is 0."""
    holes = np.triu(np.random.default_rng(0).random(matrix.shape) < share, 1)
    return np.where(holes | holes.T, matrix.dtype.type(0), matrix)


def scaled_distances(rows: np.ndarray, metric: str = "euclidean") -> np.ndarray:
    """Distances of rows whose columns have mean 0 and variance 1."""
    return squareform(pdist((rows - rows.mean(axis=0)) / rows.std(axis=0), metric))
