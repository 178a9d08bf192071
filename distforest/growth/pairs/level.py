"""A level of trees over pairs, as the kernels of a search take it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.frontier import Frontier, Nodes
    from distforest.growth.cuts.two_classes import Judged, TwoClasses
    from distforest.growth.grower import Limits
    from distforest.sources.kernels import Present
    from distforest.sources.point_pairs import PairReading, PointPairs
    from distforest.sources.source import Int32s, Projections

    Codes = NDArray[np.uint8]


class PairLevel(NamedTuple):
    """A level as the kernels of a search take it.

    Attributes
    ----------
    nodes
        The pairs of each node.
    columns
        The candidate columns of each node, shape (n_nodes, width).
    codes
        The class of each pair, shape (n_pairs,).
    pairs
        How the columns of a pair are read.
    observed
        Which features each point has.
    judged
        Counts and costs of the two classes in each node, and the least weight of a side.
    """

    nodes: Nodes
    columns: Int32s
    codes: Codes
    pairs: PairReading
    observed: Present
    judged: Judged

    @classmethod
    def of(
        cls, source: PointPairs, criterion: TwoClasses, frontier: Frontier, projections: Projections, limits: Limits
    ) -> PairLevel:
        """Collect the level of a search of pairs of two classes."""
        columns = projections.columns.reshape(frontier.n_nodes, projections.width)
        judged = criterion.judged(frontier, limits.min_samples_leaf)
        return cls(frontier.nodes, columns, criterion.codes, source.reading, source.observed, judged)
