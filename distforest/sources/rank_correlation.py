"""How the ranks of two vectors go together, and which is above; by which doubts tell what belongs together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from distforest.sources.source import Floats


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    """The correlation of ranks, shape (n,) both; 0 if one side is constant or holds NaN.

    Examples
    --------
    >>> rank_correlation(np.arange(4), np.array([1.0, 8.0, 8.0, 9.0]))
    0.9486832980505138
    >>> rank_correlation(np.arange(4), np.ones(4))
    0.0
    """
    left, right = _shared_ranks(one), _shared_ranks(other)
    size = float(np.sqrt((left**2).sum() * (right**2).sum()))
    return float((left * right).sum()) / size if size > 0.0 else 0.0


def share_above(some: Floats, others: Floats) -> float:
    """How often one of ``some`` is above one of ``others``, ties counting one half.

    Examples
    --------
    >>> share_above(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    0.875
    """
    ordered = np.sort(others)
    below = np.searchsorted(ordered, some) + np.searchsorted(ordered, some, "right")
    return float(below.mean() / (2.0 * len(others)))


def _shared_ranks(values: np.ndarray) -> Floats:
    """The ranks of values minus their mean, where equal values share their mean rank; all 0 if a value is NaN."""
    if np.isnan(values).any():
        return np.zeros(len(values))
    ordered = np.sort(values)
    doubled = np.searchsorted(ordered, values) + np.searchsorted(ordered, values, "right")
    centred: Floats = (doubled - len(values)) / 2.0
    return centred
