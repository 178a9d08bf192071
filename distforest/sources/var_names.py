"""The names of the variables of an AnnData object in Zarr: the columns of its matrices, from the index of its `var`."""

from __future__ import annotations

import numpy as np

from distforest.errors import InputError
from distforest.sources.arrays import ENCODING, open_array, open_node

LAYERS = "layers"
"""The group of further matrices, beside ``X``, that have the same rows and columns."""

WITH_VAR = ("anndata", "raw")
"""The groups that hold a matrix and its ``var``, by their `ENCODING`."""


def var_names(address: str) -> list[str] | None:
    """The names of the columns of a matrix that AnnData wrote: ``X``, one of ``layers``, or ``raw/X``; else None.

    Raises
    ------
    InputError
        The object has no ``var``, or that has no index.
    """
    group, _, name = address.rstrip("/").rpartition("/")
    if group.rpartition("/")[2] == LAYERS:
        group, name = group.rpartition("/")[0], "X"
    if not group or name != "X":
        return None
    try:
        encoding = open_node(group).attrs.get(ENCODING)
    except InputError:  # the matrix stands alone
        return None
    if encoding not in WITH_VAR:
        return None
    index = open_node(f"{group}/var").attrs.get("_index")
    if not isinstance(index, str):
        raise InputError(f"{group}/var: the attribute _index, which names its index, was expected, found {index!r}")
    return [str(name) for name in np.asarray(open_array(f"{group}/var/{index}")[...]).tolist()]
