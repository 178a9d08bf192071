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


def computed(*values: Any) -> tuple[Any, ...]:
    """Compute the Dask collections among ``values``; those of one kind in one graph, so that each part is loaded once.

    Threads write each block of an array to its place, so that no second copy is held; the workers of a cluster keep the
    blocks until they are fetched, one after another. Anything but a collection stays as it is.

    Examples
    --------
    >>> import dask.array
    >>> X = dask.array.arange(6, chunks=2).reshape(3, 2)
    >>> rows, total, name = computed(X, X.sum(), "x")
    >>> rows.tolist(), int(total), name
    ([[0, 1], [2, 3], [4, 5]], 15, 'x')
    """
    kinds: dict[str, list[Any]] = {}  # Dask optimizes arrays, data frames and delayed values apart, and may mix them up
    for value in filter(is_collection, values):
        kinds.setdefault(type(value).__module__, []).append(value)
    found = {id(lazy): one for kind in kinds.values() for lazy, one in zip(kind, _of_one_kind(kind), strict=True)}
    return tuple(found.get(id(value), value) for value in values)


def _of_one_kind(lazy: list[Any]) -> list[Any]:
    """Compute collections of one kind in one graph."""
    import dask.threaded  # noqa: PLC0415  (a fit in threads does without Dask)
    from dask.array.core import slices_from_chunks, store  # noqa: PLC0415

    wholes = [np.empty(one.shape, one.dtype) if _has_known_blocks(one) else None for one in lazy]
    if dask.base.get_scheduler(collections=lazy) in {dask.threaded.get, dask.get}:  # which share this memory
        rest = [  # a delayed whole is named at random, and not by its bytes
            one if whole is None else store(one, dask.delayed(whole), lock=False, compute=False)
            for one, whole in zip(lazy, wholes, strict=True)
        ]
    else:
        held = dask.persist(*lazy)
        for one, whole in zip(held, wholes, strict=True):
            if whole is not None:
                for place, block in zip(slices_from_chunks(one.chunks), one.to_delayed().flat, strict=True):
                    whole[place] = block.compute()
        rest = [one if whole is None else None for one, whole in zip(held, wholes, strict=True)]
    return [one if whole is None else whole for one, whole in zip(dask.compute(*rest), wholes, strict=True)]


def _has_known_blocks(value: object) -> bool:
    """Whether a value is a Dask array of plain NumPy blocks whose sizes are known."""
    return is_dask_array(value) and type(value._meta) is np.ndarray and not np.isnan(value.shape).any()
