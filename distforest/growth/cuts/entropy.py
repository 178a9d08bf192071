"""Entropy of labels: m H(S) = -sum_k m_k log(m_k / m), in nats, of the masses m_k of classes.

A cut gains m H(S) - m_L H(L) - m_R H(R), as ``criterion="entropy"`` of scikit-learn's trees does (Quinlan, C4.5, 1993).
It is not the mean of a pairwise distance, and gives rare classes more weight than Gini impurity does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from distforest.growth.cuts.criteria import Gini, GiniImpurity
from distforest.growth.cuts.scan import GAIN_ROUNDING, Sides, gain_of, largest_gain, may_gain, read_alike
from distforest.jit import no_refcount
from distforest.sources.source import Ints


class Disorder(NamedTuple):
    """Entropy of ``n_sums`` classes, and the weight of each class."""

    n_sums: int
    class_weights: Ints


read_alike(GiniImpurity, Disorder)

LOG_ROUNDING = 1e-15
"""Rounding of x log(x / y) for x near y, as a share of x."""


@dataclass(frozen=True)
class Entropy(Gini):
    """Labels, whose cuts are scored by entropy; its fields are those of `Gini`."""

    @property
    def impurity(self) -> Disorder:  # type: ignore[override]  # the same rows, another gain
        """The impurity."""
        return Disorder(self.n_classes, self.weights)


@no_refcount
def rel_entr(x: float, y: float) -> float:
    """Return the product x log(x / y), 0 for x = 0; the name is SciPy's."""
    return x * np.log(x / y) if x > 0 else 0.0


@largest_gain.register(Disorder)
def _(impurity: Disorder, sides: Sides, left: Ints, right: Ints) -> float:  # noqa: ARG001
    whole = 0.0
    for c in range(left.shape[0]):
        whole -= rel_entr(left[c] + right[c], sides.m_left + sides.m_right)
    return whole


@may_gain.register(Disorder)
def _(impurity: Disorder, most: float, least: float, sides: Sides, left: Ints, right: Ints) -> bool:  # noqa: ARG001
    return True


@gain_of.register(Disorder)
def _(impurity: Disorder, most: float, sides: Sides, left: Ints, right: Ints) -> float:  # noqa: ARG001
    inside = 0.0
    for c in range(left.shape[0]):
        inside -= rel_entr(left[c], sides.m_left) + rel_entr(right[c], sides.m_right)
    rounding = GAIN_ROUNDING * (most + inside) + LOG_ROUNDING * (sides.m_left + sides.m_right)
    return most - inside if most - inside > rounding else 0.0
