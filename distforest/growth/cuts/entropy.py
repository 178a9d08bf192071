"""Entropy of labels: m H(S) = m log m - sum_k m_k log m_k, in nats, of the masses m_k of classes.

A cut gains m H(S) - m_L H(L) - m_R H(R), as ``criterion="entropy"`` of scikit-learn's trees does (Quinlan, C4.5, 1993).
It is not the mean of a pairwise distance; it weighs rare classes more than Gini impurity does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from distforest.growth.cuts.criteria import Gini, GiniImpurity
from distforest.growth.cuts.scan import (
    GAIN_ROUNDING,
    Sides,
    bins_for,
    gain_of,
    groups_for,
    largest_gain,
    may_gain,
    rows_as_groups,
)
from distforest.jit import borrowing
from distforest.sources.source import Ints


class Disorder(NamedTuple):
    """Entropy, and the weight of each class, shape (n_classes,)."""

    class_weights: Ints


for function in (groups_for, bins_for, rows_as_groups):
    function.share(GiniImpurity, Disorder)


@dataclass(frozen=True)
class Entropy(Gini):
    """Labels, whose cuts are judged by entropy; the fields are those of `Gini`."""

    @property
    def impurity(self) -> Disorder:  # type: ignore[override]  # the same rows, another gain
        """The impurity."""
        return Disorder(self.weights)


@borrowing
def n_log_n(n: float) -> float:
    """The product n log(n), 0 for n = 0."""
    return n * np.log(n) if n > 0 else 0.0


@largest_gain.of(Disorder)
def _(impurity: Disorder, sides: Sides, left: Ints, right: Ints) -> float:  # noqa: ARG001
    whole = n_log_n(sides.m_left + sides.m_right)
    for c in range(left.shape[0]):
        whole -= n_log_n(left[c] + right[c])
    return whole


@may_gain.of(Disorder)
def _(impurity: Disorder, most: float, least: float, sides: Sides, left: Ints, right: Ints) -> bool:  # noqa: ARG001
    return True


@gain_of.of(Disorder)
def _(impurity: Disorder, most: float, sides: Sides, left: Ints, right: Ints) -> float:  # noqa: ARG001
    inside = n_log_n(sides.m_left) + n_log_n(sides.m_right)
    for c in range(left.shape[0]):
        inside -= n_log_n(left[c]) + n_log_n(right[c])
    gain = most - inside
    return gain if gain > GAIN_ROUNDING * (most + inside) else 0.0
