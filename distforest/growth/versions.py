"""Versions: by what a forest has grown, as its provenance tells."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version

from distforest.growth.methods import GROWTH

PACKAGES = ("distforest", "numpy", "numba", "zarr")
COMPUTING = ("numpy", "numba")
"""Packages whose versions may round differently, so that the same trees have another digest."""


def versions() -> dict[str, str]:
    """Of Python, of the packages that grow and write a forest, and of the growth.

    Examples
    --------
    >>> list(versions())
    ['python', 'distforest', 'numpy', 'numba', 'zarr', 'growth']
    """
    return {"python": platform.python_version(), **_installed(), "growth": str(GROWTH)}


@cache
def _installed() -> dict[str, str]:
    """Of the packages; looked up once, as each is a file to be read."""
    return {name: version(name) for name in PACKAGES}


VERSIONS_HERE = {name: versions()[name] for name in ("distforest", *COMPUTING)}
"""The versions of what works out trees in this process: those of its begin, whatever is installed under it."""
