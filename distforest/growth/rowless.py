"""Growth without rows, which every part is sent; and what some rows answer of nodes: sums, which are added up.

See `distforest.growth.parts`, which has the drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from distforest.growth.cuts.criteria import Gini, Variance, judging
from distforest.growth.cuts.sums import NodeSums
from distforest.growth.cuts.table_sums import TableSums
from distforest.growth.grower import Growth
from distforest.growth.judged_rows import check_by_sums, truth_judged
from distforest.sources.binned import BinnedSource
from distforest.sources.binned_table import BinnedTable

if TYPE_CHECKING:
    from distforest.growth.problem import Problem, Sampling
    from distforest.sources.source import Int32s, Ints

IN_PARTS = "in parts"
"""How trees grow here, in messages."""


@dataclass(frozen=True)
class RowlessGrowth:
    """All of a growth but its rows: small enough to be sent to every part.

    Attributes
    ----------
    growth
        A growth whose source and whose criterion have no rows.
    sampling
        How trees draw rows, without the rows' own weights.
    """

    growth: Growth
    sampling: Sampling

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """That of a problem; raises InputError if its cuts do not follow from sums."""
        growth = problem.growth
        check_by_sums(growth, IN_PARTS)
        nobody = truth_judged(growth.criterion)[:0].copy()
        growth = replace(growth, criterion=judging(growth.criterion, nobody))
        return cls(growth, replace(problem.sampling, sample_weights=None))

    @property
    def source(self) -> BinnedSource | BinnedTable:
        """The bins, without codes."""
        assert isinstance(self.growth.source, (BinnedSource, BinnedTable))  # noqa: S101  (`check_by_sums`)
        return self.growth.source

    @property
    def criterion(self) -> Gini | Variance:
        """The criterion, without a truth."""
        assert isinstance(self.growth.criterion, (Gini, Variance))  # noqa: S101  (`check_by_sums`)
        return self.growth.criterion

    def of_tree(self, tree: int) -> tuple[Growth, Ints]:
        """The growth of one tree, and its number as an array."""
        trees = np.array([tree], np.int64)
        return self.growth.of_trees(trees), trees


@dataclass(frozen=True)
class SumsOfNodes:
    """What some rows answer of some nodes.

    Attributes
    ----------
    nodes
        Numbers of the nodes.
    columns
        Column of each candidate, shape (n_nodes, width).
    least, greatest
        Least and greatest truth of each node, shape (n_nodes,) or (n_nodes, n_dimensions).
    weight, n_rows
        Sum of the weights, and number of the rows, shape (n_nodes,).
    sums
        The sums of each node.
    """

    nodes: tuple[int, ...]
    columns: Int32s
    least: np.ndarray
    greatest: np.ndarray
    weight: Ints
    n_rows: Ints
    sums: tuple[NodeSums | TableSums, ...]

    def joined(self, other: Self) -> Self:
        """What these rows and those of ``other`` answer, which come after them."""
        return replace(
            self,
            least=np.minimum(self.least, other.least),
            greatest=np.maximum(self.greatest, other.greatest),
            weight=self.weight + other.weight,
            n_rows=self.n_rows + other.n_rows,
            sums=tuple(_joined(own, others) for own, others in zip(self.sums, other.sums, strict=True)),
        )


def _joined(own: NodeSums | TableSums, after: NodeSums | TableSums) -> NodeSums | TableSums:
    """The sums of both, which are of one kind."""
    if isinstance(own, TableSums):
        assert isinstance(after, TableSums)  # noqa: S101  (of the same growth)
        return own.joined(after)
    assert not isinstance(after, TableSums)  # noqa: S101  (of the same growth)
    return own.joined(after)


def join_sums(answers: Sequence[SumsOfNodes]) -> SumsOfNodes:
    """What the rows of several parts answer together, in the order of the parts."""
    whole = answers[0]
    for other in answers[1:]:
        whole = whole.joined(other)
    return whole
