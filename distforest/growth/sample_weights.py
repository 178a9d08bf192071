"""Sample weights: weights of rows, or of given pairs, as a user gives them and as the integers that a tree adds.

A row of weight 3 counts as three equal rows, and a row of weight 0 is absent: no tree draws it, and nothing that is
computed from all rows reads it. Whole weights are the integers themselves. Fractional weights are relative: they are
divided by their mean and rounded to a multiple of 1 / `SampleWeights.unit`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.sources.weights import OF_ROWS, Weighed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.sources.source import Floats, Int32s, Ints

COARSEST = 1 << 4
"""Least integer of the mean of fractional weights; weights that need a lower one are refused."""

MOST_OF_TREE = 2**31 - 1
"""Largest sum of the weights of a tree: the class counts of a node are 32-bit integers. Squares of sums fit 62 bits."""

WARNED_SHARE = 0.01
"""The relative change of a weight by rounding above which a fit warns."""


class Bounds(NamedTuple):
    """Bounds of the integers."""

    tree: int  # the largest sum of the weights of a tree
    row: int  # the largest weight of a row
    finest: int  # the largest integer of the mean of fractional weights


GENERAL = Bounds(MOST_OF_TREE, MOST_OF_TREE, 1 << 10)
OF_DISTANCES = Bounds(1 << 23, 1 << 15, 1 << 8)
"""The general bounds, and those if cuts are scored by given distances, which lose a bit for each bit of a weight (see
`distforest.growth.cuts.mean_distance.digits`)."""


@dataclass(frozen=True)
class SampleWeights:
    """A weight for each row.

    Examples
    --------
    >>> SampleWeights.from_weights(np.array([1.0, 0.0, 3.0]), Draws(3, replace=False))
    SampleWeights(integers=array([1, 0, 3], dtype=int32), unit=1)
    >>> SampleWeights.from_weights(np.array([0.25, 0.0, 0.75]), Draws(3, replace=False))
    SampleWeights(integers=array([ 512,    0, 1536], dtype=int32), unit=1024)
    """

    integers: Int32s  # the weights that trees add, shape (n_rows,); 0 for a row that is absent
    unit: int = 1  # the integer that counts as one row: 1 for whole weights, a power of two for fractional ones

    @classmethod
    def from_weights(
        cls, weights: Floats, draws: Draws, bounds: Bounds = GENERAL, what: Weighed = OF_ROWS
    ) -> SampleWeights:
        """Return the integers w_i if all are whole, otherwise max(1, rint(unit w_i / mean of the positive w)), 0 for 0.

        Parameters
        ----------
        weights
            Finite numbers that are not negative, not all 0, shape (n_rows,); see `distforest.sources.weights`.
        draws
            The draws of a tree from the rows of positive weight.
        bounds
            Bounds of the integers; the ``unit`` of fractional weights is halved until no tree can exceed them.
        what
            The weighted items, for messages.

        Raises
        ------
        InputError
            A weight, or the sum of the weights of a tree, is too large.
        """
        if (weights == np.rint(weights)).all():
            largest, most, found = "weight", bounds.row, float(weights.max())
            if found <= most:
                largest, most, found = "sum of the weights of a tree", bounds.tree, draws.likely(weights)
            if found > most:
                cure = "divide whole weights by their mean, so that they are read as relative ones"
                raise InputError(f"{what.key}: the largest {largest} may be {most:,}, found {found:,.15g}; {cure}")
            return cls(weights.astype(np.int32))
        positive = weights[weights > 0.0] / weights.max()
        relative = np.zeros(len(weights))
        relative[weights > 0.0] = positive / (math.fsum(positive) / len(positive))  # the same on any processor
        unit = bounds.finest
        while not (fits := draws.fit(_rounded(relative, unit), bounds)) and unit > COARSEST:
            unit //= 2
        if not fits:
            if what is not OF_ROWS:
                most = bounds.tree // COARSEST
                raise InputError(f"{what.key}: at most {most:,} {what.plural} were expected, found {len(positive):,}")
            limit = min(bounds.row, bounds.tree / draws.n_draws) / COARSEST
            raise InputError(
                f"{what.key}: for trees of {counted(draws.n_draws, what.noun)} the largest weight may be {limit:.4g} "
                f"times the mean, found {relative.max():.4g} times; clip it, or lower max_samples"
            )
        return cls(_rounded(relative, unit).astype(np.int32), unit)

    @cached_property
    def present(self) -> Ints:
        """Numbers of the rows of positive weight, shape (n_present,)."""
        return np.flatnonzero(self.integers)

    @property
    def is_everywhere(self) -> bool:
        """Whether no row is absent."""
        return len(self.present) == len(self.integers)

    def of_rows(self, rows: Ints) -> SampleWeights:
        """Return the weights of some rows."""
        return replace(self, integers=self.integers[rows])

    def of_trees(self, counts: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the weight of each row in each tree: its multiplicity in ``counts`` times its weight.

        Raises
        ------
        InputError
            As `check_heaviest`.
        """
        weights = counts * self.integers.astype(np.int64)
        check_heaviest(int(weights.sum(axis=1).max(initial=0)))
        return weights.astype(np.int32)

    def rounding_warning(self, weights: Floats, what: Weighed = OF_ROWS) -> str:
        """Return a warning about ``weights`` that rounding has changed by more than `WARNED_SHARE`; else ""."""
        if self.unit == 1:
            return ""
        relative = weights / weights.max()
        exact = relative / (relative[self.present].mean() / self.unit)
        changed = np.abs(self.integers - exact) > WARNED_SHARE * exact
        if not changed.any():
            return ""
        with np.errstate(over="ignore"):  # a weight near the smallest number has changed infinitely
            shares = np.abs(self.integers - exact) / np.where(exact > 0.0, exact, 1.0)
        row = int(np.argmax(np.where(changed, shares, 0.0)))
        found = f"{int(changed.sum()):,} of {counted(len(self.present), 'weight')}"
        return (
            f"{what.key}: fractional weights are rounded to multiples of 1/{self.unit} of their mean, which changes "
            f"{found} by more than one per cent, most of all {weights[row]:.4g} in {what.noun} {row}"
        )


def least(unit: int, n_rows: int, binding: int) -> int:
    """Return the sum of weights that counts as ``n_rows`` rows; below ``binding`` rows a limit has no effect.

    Without weights, a limit of one row for a side, or of two for a node that is cut, prevents no cut. So it prevents
    none for rows of small fractional weights either.
    """
    return n_rows * unit if unit == 1 or n_rows >= binding else 1


def check_heaviest(heaviest: int) -> None:
    """Refuse a tree whose weights add up to more than `MOST_OF_TREE`; raise InputError."""
    if heaviest > MOST_OF_TREE:
        raise InputError(
            f"sample_weight: the weights of a tree may add up to {MOST_OF_TREE:,}, found {heaviest:,}; "
            "divide them by their mean, or lower max_samples"
        )


@dataclass(frozen=True)
class Draws:
    """The number of rows that a tree draws, and whether it may draw a row more than once."""

    n_draws: int
    replace: bool

    def most(self, weights: Floats | Int32s) -> float:
        """Return the largest sum of the weights, shape (n_rows,), of any rows that a tree may draw."""
        if self.replace:
            return self.n_draws * float(weights.max())
        return self.likely(weights)

    def fit(self, weights: Floats, bounds: Bounds) -> bool:
        """Return whether weights, and all their sums in a tree, are within bounds."""
        return bool(weights.max() <= bounds.row) and self.most(weights) <= bounds.tree

    def likely(self, weights: Floats | Int32s) -> float:
        """Return the largest sum of the weights of rows that are drawn once."""
        return float(np.sort(weights)[-self.n_draws :].sum(dtype=np.float64))


def _rounded(relative: Floats, unit: int) -> Floats:
    """max(1, rint(unit w)) for each positive w, 0 for 0."""
    rounded: Floats = np.maximum(np.rint(relative * unit), relative > 0.0)
    return rounded
