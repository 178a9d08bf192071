"""How far apart two classes are, where labels are not all equally far apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.sources.given import check_dense, unmasked
from distforest.sources.readings import SMALLEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.sources.source import Float32s


def read_costs(given: object, order: Sequence[object]) -> Float32s:
    """Read the distances of classes, shape (n_classes, n_classes), in float32.

    Parameters
    ----------
    given
        A symmetric matrix without negative numbers, 0 on the diagonal: array-like or a data frame.
    order
        The class of each of its rows and columns.

    Raises
    ------
    InputError
        The matrix is none of classes in this order, or holds other numbers; the message names the two classes.

    Examples
    --------
    >>> read_costs([[0, 1], [1, 0]], ["cat", "dog"])
    array([[0., 1.],
           [1., 0.]], dtype=float32)
    """
    check_dense(given)
    raw = np.asarray(unmasked(given))
    if raw.shape != (len(order),) * 2:
        expected = f"costs: a row and a column for each of {counted(len(order), 'class', 'classes')} were expected"
        raise InputError(
            f"{expected} ({', '.join(map(repr, order[:5]))}{', ...' * (len(order) > 5)}), found {raw.shape}"
        )
    if raw.dtype.kind not in "biuf":
        raise InputError(f"costs must be numbers, found dtype {raw.dtype}")
    with np.errstate(over="ignore"):  # a number beyond float32 becomes infinite, and is refused
        costs: Float32s = raw.astype(np.float32)
    refused = (
        (~(np.isfinite(costs) & (costs >= 0.0)), "finite numbers from 0 on were expected"),
        (np.diag(np.diag(costs)) > 0.0, "0 was expected for a class and itself"),
        (costs != costs.T, "the same number was expected in both directions (give the mean of both)"),
    )
    for bad, expected in refused:
        if bad.any():
            one, other = (int(place) for place in np.argwhere(bad)[0])
            raise InputError(f"costs: {expected}, found {raw[one, other]:g} for {order[one]!r} and {order[other]!r}")
    if costs.size and costs.max() < SMALLEST:
        raise InputError(f"costs: the largest must be at least {SMALLEST:g}, found {costs.max():g}; scale them")
    return costs


def order_of_costs(given: object) -> list[Any] | None:
    """The classes that a data frame or a stored array of costs names; None if it names none.

    Raises
    ------
    InputError
        The rows and the columns of a data frame are named otherwise.
    """
    if hasattr(given, "index") and hasattr(given, "columns") and hasattr(given, "to_numpy"):
        rows, columns = (np.asarray(names).tolist() for names in (given.index, given.columns))
        if rows != columns:
            raise InputError(f"costs: rows and columns of the same classes were expected, found {rows} and {columns}")
        return list(columns)
    names = getattr(given, "attrs", {}).get("classes")
    return names if isinstance(names, list) else None


def costs_among(costs: Float32s, order: Sequence[object], classes: Sequence[object]) -> Float32s:
    """The distances of some classes, in their order, from those of all.

    Raises
    ------
    InputError
        One of the classes has no costs.

    Examples
    --------
    >>> costs_among(np.array([[0, 2], [2, 0]], np.float32), ["cat", "dog"], ["dog"])
    array([[0.]], dtype=float32)
    """
    place = {name: number for number, name in enumerate(order)}
    unknown = [name for name in classes if name not in place]
    if unknown:
        known = f"{', '.join(map(repr, order[:5]))}{', ...' * (len(order) > 5)}"
        raise InputError(f"costs: one of the classes {known} was expected, found the label {unknown[0]!r}")
    numbers = [place[name] for name in classes]
    among: Float32s = np.ascontiguousarray(costs[np.ix_(numbers, numbers)])
    return among
