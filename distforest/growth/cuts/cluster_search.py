"""The best cuts between two clusters: a fused search that projects and cuts a few nodes at a time.

So the projected values are still in the processor's cache when they are cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.frontier import Nodes, longest_of, pick
from distforest.growth.cuts.cluster_scores import TWO_MEANS, CandidateCuts, ClusterScoring
from distforest.growth.cuts.clusters import TwoClusters, choose
from distforest.growth.cuts.criteria import Cuts
from distforest.growth.cuts.gaussians import cut_clusters
from distforest.growth.cuts.search import Limits
from distforest.jit import kernel
from distforest.sources.arrays import ArraySource, project_array
from distforest.sources.source import Float32s, Floats, Ints, Projections

if TYPE_CHECKING:
    from distforest.forest.frontier import Frontier

CACHE_CELLS = 1 << 15
"""Projected values (float64) of nodes that are cut together; a larger node is cut alone."""


def project_and_cut_clusters(
    source: ArraySource, criterion: TwoClusters, frontier: Frontier, projections: Projections, limits: Limits
) -> tuple[Cuts, Floats]:
    """The fused twin of `judge_and_cut` for projections of an array and the best cut of each node."""
    cuts, picked = Cuts.none(frontier.n_nodes), np.empty(len(frontier.rows))
    cut_as_projected(
        *(source.values, frontier.nodes, frontier.weight, projections),
        *(criterion.scoring(limits.min_samples_leaf), cuts, picked),
    )
    return cuts, picked


@kernel
def cut_as_projected(
    array: Float32s,
    nodes: Nodes,
    weight: Ints,
    projections: Projections,
    scoring: ClusterScoring,
    cuts: Cuts,
    picked: Floats,
) -> None:
    """`project_array`, `cut_clusters` of the best candidate only, `choose` and `pick`; a few nodes at a time."""
    (starts, rows, in_bag), (_, offset, columns, weights) = nodes, projections
    n_nodes, width = weight.shape[0], (offset.shape[0] - 1) // weight.shape[0]
    room = np.empty(max(CACHE_CELLS, width * longest_of(starts)))
    first = 0
    while first < n_nodes:
        begin, last = starts[first], first + 1
        while last < n_nodes and width * (starts[last + 1] - begin) <= CACHE_CELLS:
            last += 1
        end = starts[last]
        values = room[: width * (end - begin)].reshape(width, end - begin)
        own_starts = starts[first : last + 1] - begin
        candidates = offset[width * first : width * last + 1]
        project_array(array, rows[begin:end], own_starts, candidates, columns, weights, values)
        of_candidates = CandidateCuts(np.empty((width, last - first)), np.empty((width, last - first)))
        cut_clusters(own_starts, in_bag[begin:end], values, scoring, True, of_candidates)
        of_nodes = Cuts(
            cuts.candidate[first:last], cuts.threshold[first:last], cuts.gain[first:last], cuts.missing[first:last]
        )
        choose(of_candidates, scoring.score == TWO_MEANS, weight[first:last], of_nodes)
        pick(own_starts, values, of_nodes.candidate, picked[begin:end])
        first = last
