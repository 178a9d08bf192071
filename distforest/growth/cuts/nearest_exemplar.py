"""Splitting of nodes by exemplars: each row goes to the nearest one; and the gain of this split.

::

    exemplars     a   b   c          S of a row       .2  .9  .4     goes to b
                                                      .7   -  .1     stays: a similarity is unobserved

Let L_c be the rows that go to exemplar c. The gain is that of a cut (`distforest.growth.cuts.criteria`) with more than
two sides, P(S)/m - sum_c P(L_c)/m_c with P(S) = m^2 - sum_k m_k^2; rows that stay are not in S.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.growth.cuts.scan import GAIN_ROUNDING, NO_CUT
from distforest.jit import kernel, no_refcount
from distforest.sources.source import Floats, Int32s, Ints, Projections, offsets

if TYPE_CHECKING:
    from distforest.forest.frontier import Frontier, Nodes
    from distforest.growth.cuts.criteria import Gini
    from distforest.sources.source import Source

STAYS = -1
"""Marks a row that lacks the similarity to an exemplar."""


class Parted(NamedTuple):
    """The splits of nodes by one candidate each."""

    gain: Floats  # its gain in fixed-point units, or `NO_CUT`, shape (n_nodes,)
    is_kept: NDArray[np.bool_]  # whether each exemplar is kept, node after node; undefined without a cut
    # the exemplar to which each row goes, counted among kept ones, or `STAYS`, shape (n_rows,)
    child: NDArray[np.int8]


def part_by_exemplars(
    source: Source, criterion: Gini, frontier: Frontier, exemplars: Projections, min_leaf: int
) -> Parted:
    """Split each node by its exemplars, the columns of its only candidate; see `go_to_nearest`."""
    size = np.diff(exemplars.offset)
    most = int(size.max(initial=1))
    alone = offsets((np.arange(most) < size[:, None]).reshape(-1))
    values = source.project(frontier.rows, frontier.starts, exemplars._replace(width=most, offset=alone))
    parted = Parted(
        np.full(frontier.n_nodes, NO_CUT), np.ones(len(exemplars.columns), np.bool_), np.empty(len(values[0]), np.int8)
    )
    go_to_nearest(frontier.nodes, exemplars.offset, values, criterion.truth, criterion.weights, min_leaf, parted)
    return parted


@kernel
def go_to_nearest(
    nodes: Nodes, offset: Ints, values: Floats, codes: Int32s, class_weights: Ints, min_leaf: int, parted: Parted
) -> None:
    """child[r] = argmax_c values[c, r] over the exemplars of the row's node, the first of equals, and the gain.

    An exemplar to which rows of less weight than ``min_leaf`` go is not kept, and they go to the nearest kept one. A
    node has no cut if fewer than two are kept.
    """
    starts, _, weights = nodes
    most, n_classes = values.shape[0], class_weights.shape[0]
    weight, place = np.empty(most, np.int64), np.empty(most, np.int32)
    counts = np.zeros((most + 1, n_classes), np.int64)
    for node in range(starts.shape[0] - 1):
        here = slice(starts[node], starts[node + 1])
        kept = parted.is_kept[offset[node] : offset[node + 1]]
        n = kept.shape[0]
        find_nearest(values[:n, here], kept, parted.child[here])
        weight[:n] = 0
        for r in range(here.start, here.stop):
            if parted.child[r] != STAYS:
                weight[parted.child[r]] += weights[r]
        n_kept = 0
        for c in range(n):
            kept[c] = weight[c] >= min_leaf
            place[c] = n_kept
            n_kept += kept[c]
        if n_kept < 2:
            continue
        if n_kept < n:
            find_nearest(values[:n, here], kept, parted.child[here])
            for r in range(here.start, here.stop):
                if parted.child[r] != STAYS:
                    parted.child[r] = place[parted.child[r]]
        parted.gain[node] = gain_of_children(node, nodes, n_kept, parted.child, codes, class_weights, counts)


@no_refcount
def find_nearest(values: Floats, kept: NDArray[np.bool_], child: NDArray[np.int8]) -> None:
    """child[r] = argmax values[c, r] over the c that are kept, the first of equals; `STAYS` if one of these is NaN."""
    for r in range(values.shape[1]):
        nearest = STAYS
        for c in range(values.shape[0]):
            if kept[c]:
                if np.isnan(values[c, r]):
                    nearest = STAYS
                    break
                if nearest == STAYS or values[c, r] > values[nearest, r]:
                    nearest = c
        child[r] = nearest


@no_refcount
def gain_of_children(
    node: int, nodes: Nodes, n_children: int, child: NDArray[np.int8], codes: Int32s, class_weights: Ints, counts: Ints
) -> float:
    """P(S)/m - sum_c P(L_c)/m_c; 0 if it is within rounding. ``counts``, zeros, becomes the sums by child and class."""
    starts, rows, weights = nodes
    for r in range(starts[node], starts[node + 1]):
        if child[r] != STAYS:
            k = codes[rows[r]]
            counts[child[r], k] += weights[r] * class_weights[k]
            counts[n_children, k] += weights[r] * class_weights[k]
    whole, inside = 0.0, 0.0
    for c in range(n_children + 1):
        m, squares = np.int64(0), np.int64(0)
        for k in range(counts.shape[1]):
            m += counts[c, k]
            squares += counts[c, k] * counts[c, k]
            counts[c, k] = 0
        if c < n_children:
            inside += (m * m - squares) / m
        else:
            whole = (m * m - squares) / m
    gain = whole - inside
    return gain if gain > GAIN_ROUNDING * (whole + inside) else 0.0
