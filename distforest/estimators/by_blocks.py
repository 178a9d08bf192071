"""Answers to a Dask array of rows: lazy, one block of rows at a time, each where the scheduler computes it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from distforest.errors import InputError
from distforest.sources.collections import is_dask_array

if TYPE_CHECKING:
    import dask.array

Answering = TypeVar("Answering", bound=Callable[..., Any])


def by_blocks(method: Answering) -> Answering:
    """Let a method of an estimator, whose first argument is the rows ``X``, take a Dask array as well.

    Its answer then is a Dask array, or a tuple of them, with the same blocks of rows; nothing is computed yet.
    """

    @wraps(method)
    def answer(self: Any, *args: Any, **named: Any) -> Any:
        rows = args[0] if args else named.get("X")
        if not is_dask_array(rows):
            return method(self, *args, **named)
        further = {name: value for name, value in named.items() if name != "X"}
        return _answered_later(self, _Question(method.__name__, args[1:], further), rows)

    return cast("Answering", answer)


def token_of(estimator: object, state: dict[str, Any]) -> object:
    """What names an estimator, and thereby its answers, in Dask's graphs: its class and state.

    Of a dataclass Dask takes the parameters only, and answers of two forests with equal ones would be the same to it.
    ``forest_`` in the state, if it is fitted, counts by its digest.
    """
    from dask.tokenize import normalize_token  # noqa: PLC0415  (a fit in threads does without Dask)

    forest = {"forest_": state["forest_"].digest} if "forest_" in state else {}
    return normalize_token((type(estimator), {**state, **forest}))


class _Question:
    """A call of a method with all of its arguments but the rows."""

    def __init__(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.name, self.args, self.named = name, args, named

    def __call__(self, estimator: Any, rows: np.ndarray, first_row: int = 0) -> Any:
        try:
            return getattr(estimator, self.name)(rows, *self.args, **self.named)
        except InputError as error:
            if not first_row:
                raise
            raise InputError(
                f"X, in the block that begins at row {first_row:,}, whose rows count from 0: {error}"
            ) from error


def _answered_later(estimator: Any, question: _Question, rows: dask.array.Array) -> Any:
    """The answer to each block of rows, as Dask arrays."""
    from dask import delayed  # noqa: PLC0415  (a fit in threads does without Dask)

    sizes = rows.chunks[0]
    if any(np.isnan(size) for size in sizes):
        cure = "call X.compute_chunk_sizes() first"
        raise InputError(f"X: blocks of known numbers of rows were expected, found unknown ones; {cure}")
    blocks = rows.rechunk(dict.fromkeys(range(1, rows.ndim), -1)).to_delayed().reshape(len(sizes), -1)[:, 0]
    alone = copy.copy(estimator)  # a block is answered where it lies, not by the estimator's own cluster
    if getattr(alone, "client", None) is not None:
        alone.client = None
    ask, forest = delayed(question, pure=True), delayed(alone, pure=True, traverse=False)
    first_rows = np.cumsum([0, *sizes[:-1]]).tolist()
    each = zip(blocks, first_rows, sizes, strict=True)
    parts = [(ask(forest, block, first_row), size) for block, first_row, size in each if size]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of one row of zeros, which shows only the form of an answer
        form = question(alone, np.zeros((1, *rows.shape[1:]), rows.dtype))
    if isinstance(form, tuple):
        return tuple(_joined([(part[place], size) for part, size in parts], of) for place, of in enumerate(form))
    return _joined(parts, form)


def _joined(parts: list[tuple[Any, int]], form: np.ndarray) -> dask.array.Array:
    """One array of the answers to the blocks, of which each has a number of rows; ``form`` is that to one row."""
    import dask.array as da  # noqa: PLC0415  (a fit in threads does without Dask)

    if not parts:
        return da.empty((0, *form.shape[1:]), form.dtype)
    of_blocks = [da.from_delayed(part, (size, *form.shape[1:]), form.dtype) for part, size in parts]
    return da.concatenate(of_blocks)
