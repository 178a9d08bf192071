"""Best cuts between two clusters: the fused twin of projecting a level and cutting its values.

A few nodes are projected at a time, so that their values are still in the processor's cache when they are cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.growth.clusters import SCORES, TwoClusters
from distforest.growth.gaussians import cut_clusters
from distforest.growth.grower import Limits, judge_and_cut
from distforest.jit import kernel
from distforest.sources.arrays import ArraySource, project_array
from distforest.sources.source import Float32s, Floats, Ints, Projections, Rows, Source, taken

if TYPE_CHECKING:
    from distforest.forest.frontier import Frontier
    from distforest.growth.criteria import Criterion, Cuts

CACHE_CELLS = 1 << 15
"""Projected values (float64) of nodes that are cut together; a larger node stands alone."""


def project_and_cut_clusters(
    source: Source, criterion: Criterion, frontier: Frontier, projections: Projections, limits: Limits
) -> tuple[Cuts, Floats]:
    """`judge_and_cut` for the best cuts on projections of an array."""
    if not isinstance(source, ArraySource) or not isinstance(criterion, TwoClusters) or not criterion.takes_best:
        return judge_and_cut(source, criterion, frontier, projections, limits)
    thresholds = np.full((projections.width, frontier.n_nodes), np.nan)
    scores = np.full(thresholds.shape, -np.inf)
    cut_as_projected(
        *(source.values, frontier.rows, frontier.starts, frontier.weights),
        *(projections.offset, projections.columns, projections.weights),
        *(SCORES[criterion.score], limits.min_samples_leaf, criterion.relative, thresholds, scores),
    )
    cuts = criterion.chosen(frontier, thresholds, scores)
    chosen = taken(projections, np.arange(frontier.n_nodes), cuts.candidate.clip(0))
    return cuts, source.project(frontier.rows, frontier.starts, chosen)[0]


@kernel
def cut_as_projected(
    array: Float32s,
    rows: Rows,
    starts: Ints,
    in_bag: Rows,
    offset: Ints,
    columns: Rows,
    weights: Floats,
    score: int,
    min_leaf: int,
    relative: bool,
    thresholds: Floats,
    scores: Floats,
) -> None:
    """`project_array`, then `cut_clusters` of the best candidate only; a few nodes at a time."""
    width, n_nodes = thresholds.shape
    room = np.empty(max(CACHE_CELLS, width * (starts[1:] - starts[:-1]).max()))
    first = 0
    while first < n_nodes:
        begin, last = starts[first], first + 1
        while last < n_nodes and width * (starts[last + 1] - begin) <= CACHE_CELLS:
            last += 1
        end = starts[last]
        values = room[: width * (end - begin)].reshape(width, end - begin)
        own = starts[first : last + 1] - begin
        candidates = offset[width * first : width * last + 1]
        project_array(array, rows[begin:end], own, candidates, columns, weights, values)
        found = thresholds[:, first:last], scores[:, first:last]
        cut_clusters(own, in_bag[begin:end], values, score, min_leaf, relative, True, *found)
        first = last
