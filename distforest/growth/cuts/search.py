"""Limits of nodes, and the searches that compute the values of all candidates and let a criterion choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.frontier import pick
from distforest.sources.source import Floats, Projections, Source, taken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.frontier import Frontier
    from distforest.growth.cuts.criteria import Criterion
    from distforest.growth.cuts.scan import Cuts


@dataclass(frozen=True)
class Limits:
    """The limits that make a node a leaf.

    Attributes
    ----------
    min_samples_split
        In-bag weight below which a node is not cut.
    min_samples_leaf
        Least in-bag weight of either side of a cut.
    max_depth
        Depth at which a node is not cut; the root has depth 0.
    """

    min_samples_split: int = 2
    min_samples_leaf: int = 1
    max_depth: int | None = None

    def ends(self, depth: int) -> bool:
        """Return whether no node of this depth is cut."""
        return self.max_depth is not None and depth >= self.max_depth

    def open(self, frontier: Frontier, depth: int, criterion: Criterion) -> NDArray[np.bool_]:
        """Return which nodes may be cut."""
        if self.ends(depth):
            return np.zeros(frontier.n_nodes, np.bool_)
        return (frontier.weight >= self.min_samples_split) & criterion.impure(frontier)


def project_and_cut(
    source: Source, criterion: Criterion, frontier: Frontier, projections: Projections, limits: Limits
) -> tuple[Cuts, Floats]:
    """Return the best cut of each node, and the value of each row on the chosen candidate."""
    values = source.project(frontier.rows, frontier.starts, projections)
    cuts = criterion.cut(frontier, values, limits.min_samples_leaf)
    picked = np.empty(len(frontier.rows))
    pick(frontier.starts, values, cuts.candidate, picked)
    return cuts, picked


def score_and_cut(
    source: Source, criterion: Criterion, frontier: Frontier, projections: Projections, limits: Limits
) -> tuple[Cuts, Floats]:
    """`project_and_cut` that projects the scoring rows on all candidates, and all rows only on the chosen ones.

    If a side may be too light, all rows score, as some of the rows do not show it.
    """
    some = criterion.scored_on(frontier) if limits.min_samples_leaf == 1 else frontier
    if some is frontier:
        return project_and_cut(source, criterion, frontier, projections, limits)
    cuts = criterion.cut(some, source.project(some.rows, some.starts, projections), limits.min_samples_leaf)
    return cuts, values_on(source, frontier, projections, cuts)


def values_on(source: Source, frontier: Frontier, projections: Projections, cuts: Cuts) -> Floats:
    """Return the value of each row on the candidate that its node has chosen, shape (n_rows,)."""
    chosen = taken(projections, np.arange(frontier.n_nodes), cuts.candidate.clip(0))
    values: Floats = source.project(frontier.rows, frontier.starts, chosen)[0]
    return values
