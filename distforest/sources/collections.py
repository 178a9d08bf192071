"""Dask collections: arrays and tables in parts, of which a fit needs all values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from distforest.sources.given import is_collection

if TYPE_CHECKING:
    import dask.array


def is_dask_array(values: object) -> TypeGuard[dask.array.Array]:
    """Whether ``values`` is a Dask array."""
    return is_collection(values) and isinstance(getattr(values, "chunks", None), tuple)  # a Delayed has any attribute


def gathered(values: Any) -> Any:
    """Compute a collection: an array of known shape one block of rows at a time into its place, else at once.

    Examples
    --------
    >>> import dask.array
    >>> gathered(dask.array.arange(6, chunks=2).reshape(3, 2)).tolist()
    [[0, 1], [2, 3], [4, 5]]
    """
    if not is_dask_array(values) or not isinstance(values._meta, np.ndarray):
        return values.compute()
    if any(np.isnan(size) for size in values.shape):
        return values.compute()  # to ask for the lengths first would compute all twice, and can fail on a cluster
    whole, first = np.empty(values.shape, values.dtype), 0
    for n_rows in values.chunks[0]:
        whole[first : first + n_rows] = values[first : first + n_rows].compute()
        first += n_rows
    return whole
