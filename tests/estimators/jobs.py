"""Jobs over arrays that a test writes to disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distforest.jobs.cluster import Threads
from distforest.jobs.preview import check_and_stage
from distforest.jobs.spec import Spec
from distforest.jobs.train import Fitted, Options, fit
from distforest.sources.arrays import write_array
from distforest.stores.folder import Folder

if TYPE_CHECKING:
    import numpy as np

    from distforest.jobs.cluster import Cluster


def write_arrays(group: str, arrays: dict[str, np.ndarray], **options: Any) -> dict[str, str]:
    """Write arrays into a Zarr group, and return the address of each."""
    for name, values in arrays.items():
        write_array(group, name, values.shape, values.dtype, [values], **options)
    return {name: f"{group}/{name}" for name in arrays}


def spec_of(
    folder: object, method: str, inputs: dict[str, Any], name: str = "out", seed: int = 0, **params: Any
) -> Spec:
    """Return a job that writes the forest ``folder/name.zarr``."""
    head = {"format": 1, "method": method, "seed": seed, "output": f"{folder}/{name}.zarr"}
    return Spec.from_dict({**head, "input": inputs, "params": params, "run": {"scratch": f"{folder}/scratch"}})


def run_job(spec: Spec, cluster: Cluster | None = None, **options: Any) -> Fitted:
    """Run a job as the command line does, beside its output."""
    place = Folder(f"{spec.output}.job")
    return fit(check_and_stage(spec, place.address), spec.output, place, cluster or Threads(), Options(**options))
