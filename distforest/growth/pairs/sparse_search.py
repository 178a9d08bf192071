"""Cuts of pairs whose points are sparse: the drawn columns of some nodes are written down, and searched as dense ones.

Nodes are taken together, or the columns of a large one in parts, so that at most `VALUES_AT_ONCE` values are in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.growth.cuts.criteria import Cuts
from distforest.growth.draws.varying_pairs import VaryingPairs
from distforest.growth.pairs.search import PairSearch
from distforest.growth.pairs.square_search import SquareSearch
from distforest.sources.source import Projections, offsets
from distforest.sources.sparse_pairs import PickedColumns, SparsePairs

if TYPE_CHECKING:
    from distforest.forest.frontier import Frontier
    from distforest.growth.cuts.search import Limits
    from distforest.growth.cuts.two_classes import TwoClasses
    from distforest.growth.grower import Growth
    from distforest.sources.point_pairs import PointPairs
    from distforest.sources.source import Floats, Ints

VALUES_AT_ONCE = 1 << 22
"""Largest number of values, pairs by columns, that are written down at once, unless a single column has more."""


def growth_over(growth: Growth, pairs: PointPairs | SparsePairs, criterion: TwoClasses) -> Growth:
    """The growth of trees over some pairs; a draw that asks which columns vary asks these."""
    draw = growth.draw
    if isinstance(pairs, SparsePairs) and isinstance(draw, VaryingPairs):
        draw = replace(draw, pairs=pairs, min_leaf=growth.limits.min_samples_leaf)
    return replace(growth, source=pairs, criterion=criterion, draw=draw)


class ColumnsPart(NamedTuple):
    """Some consecutive nodes of a level, and some of the candidates of each: those from ``begin`` to ``end - 1``."""

    first: int
    last: int
    begin: int
    end: int


def parts_of(sizes: Ints, counts: Ints, cells: int) -> Iterator[ColumnsPart]:
    """Parts of nodes of ``sizes`` pairs and ``counts`` candidates, each of at most ``cells`` values if it has many.

    Examples
    --------
    >>> [tuple(part) for part in parts_of(np.array([2, 3, 9]), np.array([4, 2, 5]), 20)]
    [(0, 2, 0, 4), (2, 3, 0, 2), (2, 3, 2, 4), (2, 3, 4, 5)]
    """
    first, n_nodes = 0, len(sizes)
    while first < n_nodes:
        last, n_pairs, width = first, 0, 0
        while last < n_nodes:
            n_more, wider = n_pairs + int(sizes[last]), max(width, int(counts[last]))
            if last > first and n_more * wider > cells:
                break
            last, n_pairs, width = last + 1, n_more, wider
        step = max(1, cells // max(1, n_pairs))
        for begin in range(0, width, step):
            yield ColumnsPart(first, last, begin, min(begin + step, width))
        first = last


@dataclass(frozen=True)
class SparseSearch:
    """A search of sparse pairs by one of dense pairs.

    Attributes
    ----------
    dense
        The search of the columns that are written down; without bins.
    cells
        Largest number of values that are written down at once.
    """

    dense: PairSearch | SquareSearch
    cells: int = VALUES_AT_ONCE

    def __call__(
        self, source: SparsePairs, criterion: TwoClasses, frontier: Frontier, projections: Projections, limits: Limits
    ) -> tuple[Cuts, Floats]:
        """The cuts, and the value of each pair on the chosen candidate, as the dense search gives them."""
        cuts, values = Cuts.none(frontier.n_nodes), np.zeros(len(frontier.rows))
        drawn = projections.offset[np.arange(frontier.n_nodes + 1) * projections.width]
        for first, last, begin, end in parts_of(frontier.sizes, np.diff(drawn), self.cells):
            some, lengths = frontier.slice(first, last), np.diff(drawn[first : last + 1]).clip(begin, end) - begin
            start = offsets(lengths)
            entry = np.repeat(drawn[first:last] + begin - start[:-1], lengths) + np.arange(start[-1])
            picked = PickedColumns(start, projections.columns[entry])
            written = source.written(some.rows, some.starts, picked)
            numbers = picked.numbers(source.columns.n_features)
            all_of = Projections(
                numbers.shape[1], np.arange(numbers.size + 1), numbers.reshape(-1), np.ones(numbers.size)
            )
            found, of_pairs = self.dense(written, criterion, some, all_of, limits)
            is_better = found.gain > cuts.gain[first:last]
            nodes = first + np.flatnonzero(is_better)
            entry_of = drawn[nodes] + begin + found.candidate[is_better]
            cuts.candidate[nodes] = (
                np.searchsorted(projections.offset, entry_of, side="right") - 1 - nodes * projections.width
            )
            for name in ("threshold", "gain", "missing"):
                getattr(cuts, name)[nodes] = getattr(found, name)[is_better]
            of_part = slice(frontier.starts[first], frontier.starts[last])
            values[of_part] = np.where(np.repeat(is_better, some.sizes), of_pairs, values[of_part])
        return cuts, values
