"""Functions that the tests of sources share."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

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
