"""Packs: nodes of a tree that one process has gathered with all their rows, and finishes by the grower as it is.

See `distforest.growth.parts`, which has the drawing.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.frontier import Frontier
from distforest.growth.cuts.sums import RowBlock
from distforest.growth.grower import Levels
from distforest.growth.judged_rows import truth_judged
from distforest.growth.level_decisions import AnswerOfPack, Decision, NodeRun, WrittenNodes
from distforest.growth.passes import descend_in_memory
from distforest.growth.rowless import RowlessGrowth
from distforest.sources.binned_table import BinnedTable
from distforest.sources.source import offsets, runs

if TYPE_CHECKING:
    from distforest.growth.parts import Packet


@dataclass(frozen=True)
class PackOfNodes:
    """Nodes of a tree that one process has with all their rows; they are finished there.

    Attributes
    ----------
    block
        The rows.
    frontier
        The nodes, with numbers of rows within ``block``; they are numbered from 0 until the level is decided.
    n_cut
        By run: how many of its nodes were cut in the last level, in the order of the nodes.
    written
        The levels so far.
    """

    block: RowBlock
    frontier: Frontier
    n_cut: Mapping[int, int]
    written: tuple[WrittenNodes, ...]

    def __sizeof__(self) -> int:
        frontier = self.frontier
        arrays = (*self.block, frontier.rows, frontier.weights, frontier.starts, frontier.node)
        tables = sum(sum(map(sys.getsizeof, one.arrays.values())) for one in self.written)
        return object.__sizeof__(self) + sum(array.nbytes for array in arrays if array is not None) + tables


def descend_pack(
    pack: PackOfNodes | None, rowless: RowlessGrowth, decision: Decision, number: int, packets: Sequence[Packet]
) -> PackOfNodes:
    """Take the nodes of a pack one level down, with those that it begins to hold.

    Parameters
    ----------
    pack
        The pack; None: it had no nodes before.
    decision
        What was decided of the level above.
    number
        The number of the pack.
    packets
        From each part, the rows of the nodes that the pack begins to hold; empty if there are none.
    """
    level, begun = decision.level, (decision.begun or {}).get(number, ())
    growth, trees = rowless.of_tree(level.tree)
    pack = _nothing(rowless) if pack is None else _numbered(pack, decision)
    run_of = np.repeat(
        np.array([*pack.n_cut, *(run.number for run in begun)], np.int64),
        np.array([*(2 * n for n in pack.n_cut.values()), *(run.n_nodes for run in begun)], np.int64),
    )
    block, frontier = _with_packets(pack, begun, packets)
    written = Levels(1)
    written.next_node[:] = 0
    nodes = frontier.node
    block, below = descend_in_memory(growth, trees, block, frontier, level.depth, written)
    here = WrittenNodes.of(nodes, written)
    n_cut = {run: int(here.is_cut[run_of == run].sum()) for run in dict.fromkeys(run_of.tolist())}
    return PackOfNodes(block, below, n_cut, (*pack.written, here))


def _nothing(rowless: RowlessGrowth) -> PackOfNodes:
    """A pack without nodes."""
    no_truth, nobody = truth_judged(rowless.criterion)[:0], np.empty(0, np.int32)
    source = rowless.source
    categories = source.categories if isinstance(source, BinnedTable) else None
    block = RowBlock(np.empty((0, source.shape[1]), np.uint8), no_truth, nobody, categories)
    frontier = Frontier(np.empty(0, np.int64), nobody, np.zeros(1, np.int64), nobody, nobody)
    return PackOfNodes(block, frontier, {}, ())


def _numbered(pack: PackOfNodes, decision: Decision) -> PackOfNodes:
    """The pack, with its nodes and the children in its last level numbered as was decided."""
    first_child, going_on = decision.first_child or {}, {run: n for run, n in pack.n_cut.items() if n}
    n_cut = np.array(list(going_on.values()), np.int64)
    shift = np.array([first_child[run] for run in going_on], np.int64) - 2 * (np.cumsum(n_cut) - n_cut)
    node = pack.frontier.node + np.repeat(shift, 2 * n_cut).astype(np.int32)
    last = pack.written[-1].shifted(np.repeat(shift, n_cut))
    return replace(pack, frontier=replace(pack.frontier, node=node), written=(*pack.written[:-1], last))


def _with_packets(pack: PackOfNodes, begun: Sequence[NodeRun], packets: Sequence[Packet]) -> tuple[RowBlock, Frontier]:
    """The rows of a pack and those that it begins to hold, and all nodes; rows of a node come part after part."""
    block, frontier = pack.block, pack.frontier
    if not begun:
        return block, frontier
    nodes = np.concatenate([np.arange(run.node, run.node + run.n_nodes, dtype=np.int32) for run in begun])
    sizes = np.stack([packet.sizes for packet in packets])  # parts x nodes
    before = len(block.weights) + np.cumsum(sizes.sum(axis=1)) - sizes.sum(axis=1)
    starts = before[:, None] + np.cumsum(sizes, axis=1) - sizes
    rows = [
        np.arange(start, start + size, dtype=np.int32)
        for start, size in zip(starts.T.reshape(-1).tolist(), sizes.T.reshape(-1).tolist(), strict=True)
    ]
    blocks = [block, *(packet.block for packet in packets)]
    whole = RowBlock.joined(blocks)
    new = np.concatenate(rows)
    weights = np.concatenate([frontier.weights, whole.weights[new]])
    ends = frontier.starts[-1] + np.cumsum(sizes.sum(axis=0))
    return whole, Frontier(
        np.zeros(frontier.n_nodes + len(nodes), np.int64),
        np.concatenate([frontier.node, nodes]),
        np.concatenate([frontier.starts, ends]),
        np.concatenate([frontier.rows, new]),
        weights,
    )


def finish_packs(packs: Sequence[PackOfNodes], rowless: RowlessGrowth, decision: Decision) -> PackOfNodes:
    """Finish the nodes of all packs that have any; returns a pack of all that they have written."""
    growth, trees = rowless.of_tree(decision.level.tree)
    told = [_numbered(pack, decision) for pack in packs]
    written, depth = [one for pack in told for one in pack.written], decision.level.depth
    block, frontier = _joined_packs(told)
    next_node = decision.level.next_node
    while frontier.n_nodes:
        of_level = Levels(1)
        of_level.next_node[:] = next_node
        nodes = frontier.node
        block, frontier = descend_in_memory(growth, trees, block, frontier, depth, of_level)
        written.append(WrittenNodes.of(nodes, of_level))
        next_node, depth = int(of_level.next_node[0]), depth + 1
    return PackOfNodes(block, frontier, {}, tuple(written))


def _joined_packs(packs: Sequence[PackOfNodes]) -> tuple[RowBlock, Frontier]:
    """The rows of some packs, and their nodes in the order of their numbers."""
    block = RowBlock.joined([pack.block for pack in packs])
    sizes = [len(pack.block.weights) for pack in packs]
    before = np.cumsum(sizes) - sizes
    rows = [pack.frontier.rows + np.int32(first) for pack, first in zip(packs, before.tolist(), strict=True)]
    node = np.concatenate([pack.frontier.node for pack in packs])
    order = np.argsort(node)
    starts, entry = runs(offsets(np.concatenate([pack.frontier.sizes for pack in packs])), order)
    weights = np.concatenate([pack.frontier.weights for pack in packs])
    return block, Frontier(
        np.zeros(len(node), np.int64), node[order], starts, np.concatenate(rows)[entry], weights[entry]
    )


def answer_of_pack(pack: PackOfNodes) -> AnswerOfPack:
    """What a pack answers of the level that it has gone down."""
    return AnswerOfPack(pack.n_cut, len(pack.frontier.rows))


def written_of_pack(pack: PackOfNodes) -> tuple[WrittenNodes, ...]:
    """All levels of a pack that is finished."""
    return pack.written
