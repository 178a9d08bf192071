"""Answers to a Dask array of rows: lazy, one block of rows at a time, each where the scheduler computes it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from operator import getitem
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from distforest.errors import InputError
from distforest.sources.collections import is_dask_array

if TYPE_CHECKING:
    import dask.array
    from dask.delayed import Delayed
    from distributed import Future

Answering = TypeVar("Answering", bound=Callable[..., Any])


def by_blocks(method: Answering) -> Answering:
    """Decorate a method of an estimator, whose first argument is the rows ``X``, so that it also accepts a Dask array.

    It then returns a lazy Dask array, or a tuple of them, with the same blocks of rows.
    """

    @wraps(method)
    def answer(self: Any, *args: Any, **named: Any) -> Any:
        rows = args[0] if args else named.get("X")
        if not is_dask_array(rows):
            return method(self, *args, **named)
        further = {name: value for name, value in named.items() if name != "X"}
        return _answered_later(self, method.__name__, args[1:], further, rows)

    return cast("Answering", answer)


def _answered_later(
    estimator: Any, method: str, args: tuple[Any, ...], named: dict[str, Any], rows: dask.array.Array
) -> Any:
    """Return the answers to all blocks of rows as lazy Dask arrays."""
    from dask.tokenize import tokenize  # noqa: PLC0415  (a fit in threads does without Dask)

    sizes = rows.chunks[0]
    if np.isnan(sizes).any():
        cure = "call X.compute_chunk_sizes() first"
        raise InputError(f"X: blocks of known numbers of rows were expected, found unknown ones; {cure}")
    alone = copy.copy(estimator)  # a block is answered where it lies, not by the estimator's own cluster
    if getattr(alone, "client", None) is not None:
        alone.client = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of one row of zeros, which shows only the form of an answer
        form = getattr(alone, method)(np.zeros((1, *rows.shape[1:]), rows.dtype), *args, **named)
    empty = tuple(one[:0] for one in (form if isinstance(form, tuple) else (form,)))
    question = {"method": method, "args": args, "named": named}
    answers = rows.rechunk(dict.fromkeys(range(1, rows.ndim), -1)).map_blocks(
        _answer_to_block,
        _held(alone, rows),
        **question,
        empty=empty,
        sizes=sizes,
        name=f"{method}-{tokenize(alone, rows, question)}",  # a future has another token each time
        drop_axis=[*range(1, rows.ndim)],
        meta=np.empty(0, object),
    )
    parts = tuple(
        answers.map_blocks(getitem, place, chunks=(sizes, *one.shape[1:]), new_axis=[*range(1, one.ndim)], meta=one)
        for place, one in enumerate(empty)
    )
    return parts if isinstance(form, tuple) else parts[0]


def _held(estimator: Any, rows: dask.array.Array) -> Delayed | Future[Any]:
    """Return a reference to the estimator for graphs; it is sent once to the cluster that computes ``rows``."""
    from dask import delayed  # noqa: PLC0415  (a fit in threads does without Dask)
    from dask.base import get_scheduler  # noqa: PLC0415

    client = None
    with suppress(RuntimeError):  # of an asynchronous client, for which nobody can wait here
        client = getattr(get_scheduler(collections=[rows]), "__self__", None)
    if client is None or not client.nthreads():  # a cluster may start its workers when it has tasks
        return delayed(estimator, pure=True, traverse=False)
    future: Future[Any] = client.scatter(estimator, broadcast=True)  # to all workers, so that it is not lost with one
    return future


def _answer_to_block(
    rows: np.ndarray,
    estimator: Any,
    method: str,
    args: tuple[Any, ...],
    named: dict[str, Any],
    empty: tuple[np.ndarray, ...],
    sizes: tuple[int, ...],
    block_id: tuple[int, ...],
) -> tuple[np.ndarray, ...]:
    """Return the answers to a block of rows; ``sizes`` are those of all blocks, ``empty`` the answers to no row."""
    if not len(rows):
        return empty
    try:
        found = getattr(estimator, method)(rows, *args, **named)
    except InputError as error:
        if not (first_row := sum(sizes[: block_id[0]])):
            raise
        raise InputError(
            f"X, in the block that begins at row {first_row:,}, whose rows count from 0: {error}"
        ) from error
    return found if isinstance(found, tuple) else (found,)
