"""Versions of the growth, which must be one in a forest, and of the packages that grow it, for the provenance."""

from __future__ import annotations

import platform
from importlib.metadata import version

from distforest.errors import JobError
from distforest.growth.methods import GROWTH

PACKAGES = ("distforest", "numpy", "numba", "zarr")
COMPUTING = ("numpy", "numba")
"""Packages whose versions may round differently, so that the same trees have another digest."""


VERSIONS = {
    "python": platform.python_version(),
    **{name: version(name) for name in PACKAGES},
    "growth": str(GROWTH),
}
"""Versions of Python, of the packages that grow and write a forest, and of the growth."""

VERSIONS_HERE = {name: VERSIONS[name] for name in ("distforest", *COMPUTING)}
"""Versions of the packages that compute trees, at the start of this process, whatever is installed later."""


def check_growth(worker: int, job: int) -> None:
    """Refuse a worker with another version of the growth than the job; raise JobError."""
    if worker != job:
        raise JobError(
            f"a worker grows trees by version {worker} of the growth, the job by version {job}: one forest would be "
            "of two kinds; install one version of distforest everywhere and start again, what fits is kept"
        )


def check_own_growth(job: int) -> None:
    """Refuse the version of this process, a worker, if the job has another one; raise JobError."""
    check_growth(GROWTH, job)
