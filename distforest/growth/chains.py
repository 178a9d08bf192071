r"""Chains: nodes that are split by one exemplar per class, written as cuts of two objects.

A row goes to the nearest of k exemplars. Nearness is transitive, so a chain of comparisons finds it: the first with the
second, the nearer of them with the third, and so on. Stage s has s nodes, one for each exemplar that may lead; all of
them compare their leader with exemplar s + 1, and two of one leader are one node. So a chain has k (k - 1) / 2 nodes
and k children, some of which have several parents::

    1|2 --- 1|3 --- 1|4 --- child 1         i|j  left if the row is nearer to i, or as near, right if nearer to j
       \        \       `-- child 4
        \        3|4 --- child 3, child 4       (one node, whether 1 or 2 led before)
         2|3 --- 2|4 --- child 2, child 4

Each stage reads a new exemplar, so a row without the similarity to one of them cannot pass. It stays in the node that
is split, the head of the chain: all nodes of a chain have the values of the head (`NodeTable.chain_head`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.forest.node_table import LEAF
from distforest.growth.cuts.criteria import Gini
from distforest.growth.cuts.nearest_exemplar import STAYS, part_by_exemplars
from distforest.growth.cuts.scan import GAIN_ROUNDING, NO_CUT
from distforest.growth.grower import Growth, Levels, PartingByCuts, Splits, in_order, numbered
from distforest.jit import kernel
from distforest.sources.source import Floats, Int32s, Ints, Projections, offsets, runs, taken

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from distforest.forest.frontier import Frontier
    from distforest.growth.cuts.criteria import Criterion
    from distforest.growth.rng import Keys


@dataclass(frozen=True)
class ChainGrowth(Growth):
    """Growth of nodes that are split by the best of some candidates of one exemplar per class.

    In its `Splits` the projection of a node has its exemplars as columns, and the side of a row is the exemplar to
    which it goes, or `STAYS`.
    """

    def parting(self, trees: Ints, on_level: Callable[[Frontier], None]) -> PartingByCuts:
        """Return the parting of the nodes of some trees."""
        return PartingByExemplars(self.of_trees(trees), trees, ChainLevels(len(trees)), on_level)

    def _search_slab(self, frontier: Frontier, keys: Keys, criterion: Criterion) -> Splits:
        is_cut, gain = np.zeros(frontier.n_nodes, np.bool_), np.full(frontier.n_nodes, NO_CUT)
        child = np.full(len(frontier.rows), STAYS, np.int8)
        chosen: list[tuple[Ints, Projections]] = []
        for attempt, places, uncut, rows in self._attempts(frontier, is_cut):
            best = self._best_of(self.draw(uncut, keys[places], attempt), uncut, criterion)
            has = best.gain > NO_CUT
            child[rows], gain[places], is_cut[places] = best.child, best.gain, has
            chosen.append((places[has], best.exemplars(has)))
        width, columns, weights = in_order(chosen, frontier.n_nodes)
        none = np.zeros(frontier.n_nodes)
        return Splits(is_cut, none, gain, width, columns, weights, child, none.astype(np.int8))

    def _best_of(self, drawn: Projections, frontier: Frontier, criterion: Criterion) -> Best:
        """Return the candidate of the largest gain of each node, the first of equals."""
        assert isinstance(criterion, Gini)  # noqa: S101  (exemplars are of classes)
        n, min_leaf = frontier.n_nodes, self.limits.min_samples_leaf
        none, child = np.zeros(len(drawn.columns), np.bool_), np.full(len(frontier.rows), STAYS, np.int8)
        best = Best(drawn, none, np.zeros(n, np.int32), np.full(n, NO_CUT), child)
        for k in range(drawn.width):
            candidate = np.full(n, k, np.int32)
            parted = part_by_exemplars(
                self.source, criterion, frontier, taken(drawn, np.arange(n), candidate), min_leaf
            )
            best.is_kept[runs(drawn.offset, np.arange(n) * drawn.width + k)[1]] = parted.is_kept
            is_better = parted.gain > np.where(best.gain > NO_CUT, best.gain * (1.0 + GAIN_ROUNDING), NO_CUT)
            rows = np.repeat(is_better, frontier.sizes)
            best.candidate[is_better], best.gain[is_better] = k, parted.gain[is_better]
            best.child[rows] = parted.child[rows]
        return best


class Best(NamedTuple):
    """The best candidate of each node among those ``drawn``, and which exemplars of all candidates are kept."""

    drawn: Projections
    is_kept: NDArray[np.bool_]
    candidate: Int32s
    gain: Floats
    child: NDArray[np.int8]

    def exemplars(self, which: NDArray[np.bool_]) -> Projections:
        """Return the kept exemplars of the best candidates of some nodes, as projections of width 1."""
        nodes = np.flatnonzero(which)
        offset, entry = runs(self.drawn.offset, nodes * self.drawn.width + self.candidate[nodes])
        kept = self.is_kept[entry]
        n_kept = np.diff(offsets(kept)[offset])
        columns = self.drawn.columns[entry[kept]]
        return Projections(1, offsets(n_kept), columns, np.ones(len(columns)))


class PartingByExemplars(PartingByCuts):
    """Splitting by exemplars, written to `ChainLevels`."""

    def write(self, is_parted: NDArray[np.bool_], frontier: Frontier, side: NDArray[np.int8]) -> Frontier:
        """Write each split node as the head of a chain, and the chain."""
        assert isinstance(self.written, ChainLevels)  # noqa: S101  (`ChainGrowth`)
        n_children = self.splits.width[self.splits.is_cut].astype(np.int64)
        first = self.written.chain(is_parted, self.splits, self.growth.criterion.unit)
        return frontier.spread(side, n_children, first)


@dataclass
class ChainLevels(Levels):
    """The levels written so far, with the further nodes of a level's chains after its own nodes."""

    node: Int32s = field(init=False)

    def begin(self, frontier: Frontier) -> None:
        """Record the nodes of a level."""
        super().begin(frontier)
        self.node = frontier.node

    def chain(self, is_cut: NDArray[np.bool_], splits: Splits, unit: float) -> Int32s:
        """Write the level; return the number of the first child of each split node."""
        heads, tree, n_rows = self.node[is_cut], self.tree[-1][is_cut], self.columns["n_rows"][-1][is_cut]
        size = splits.width[splits.is_cut].astype(np.int64)
        n_further = size * (size - 1) // 2 - 1
        further = numbered(self.next_node, tree, n_further)
        first = numbered(self.next_node, tree, size)
        n_links = int(n_further.sum() + len(size))
        left, right = np.empty((2, n_links), np.int32)
        links = ChainLinks(left, right, np.empty((n_links, 2), np.int32))
        link_exemplars(offsets(size), splits.columns, further, first, links)
        is_head = np.zeros(len(links.left), np.bool_)
        is_head[offsets(n_further + 1)[:-1]] = True
        self._append(is_cut, self.node, links.some(is_head), splits.gain[splits.is_cut] * unit)
        self.tree.append(np.repeat(tree, n_further))
        self.columns["n_rows"].append(np.repeat(n_rows, n_further))
        rest = links.some(~is_head)
        every = np.ones(len(rest.left), np.bool_)
        self._append(every, np.repeat(heads, n_further), rest, np.zeros(len(every)))
        return first.astype(np.int32)

    def _append(self, is_cut: NDArray[np.bool_], heads: Int32s, links: ChainLinks, gain: Floats) -> None:
        """Append some nodes; ``links`` and ``gain`` are those of the nodes that are cut, each at 0."""
        n = len(is_cut)
        nodes: dict[str, np.ndarray] = {
            "left": np.full(n, LEAF, np.int32),
            "right": np.full(n, LEAF, np.int32),
            "threshold": np.zeros(n),
            "width": np.where(is_cut, np.int32(2), np.int32(0)),
            "gain": np.zeros(n),
            "chain_head": heads,
        }
        nodes["left"][is_cut], nodes["right"][is_cut], nodes["gain"][is_cut] = links.left, links.right, gain
        for name, values in nodes.items():
            self.columns.setdefault(name, []).append(values)
        self.ragged.append((links.columns.reshape(-1), np.tile([1.0, -1.0], len(links.columns))))


class ChainLinks(NamedTuple):
    """The nodes of chains, chain after chain and stage after stage.

    Attributes
    ----------
    left, right
        Numbers of the children within the tree, shape (n,).
    columns
        The exemplar of the next stage, and the one that leads, shape (n, 2).
    """

    left: Int32s
    right: Int32s
    columns: Int32s

    def some(self, which: NDArray[np.bool_]) -> ChainLinks:
        """Return the nodes that are True in ``which``."""
        return ChainLinks(*(array[which] for array in self))


@kernel
def link_exemplars(offset: Ints, exemplars: Int32s, further: Ints, first: Ints, links: ChainLinks) -> None:
    """Write the chain of each node's exemplars: node (s, l), 1 <= l <= s < k, compares exemplar s + 1 with exemplar l.

    It leads to (s + 1, l) if the row is nearer to l, or as near, and to (s + 1, s + 1) if it is nearer to s + 1; stage
    k - 1 leads to the child of the leading exemplar. Node (1, 1) is the head; the others have the numbers from
    ``further`` on, and the children those from ``first`` on, both of shape (n_nodes,).
    """
    n = 0
    for node in range(offset.shape[0] - 1):
        begin, size = offset[node], offset[node + 1] - offset[node]
        for s in range(1, size):
            next_stage = further[node] + s * (s + 1) // 2 - 1 if s < size - 1 else first[node]
            for leader in range(s):
                links.left[n], links.right[n] = next_stage + leader, next_stage + s
                links.columns[n, 0], links.columns[n, 1] = exemplars[begin + s], exemplars[begin + leader]
                n += 1
