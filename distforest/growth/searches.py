"""How a level is searched: the fused searches, each for one kind of source and one of criterion.

Pairs of points have their own, which hold the bins of their columns: `distforest.growth.pairs.methods` makes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from distforest.growth.cuts.cluster_search import project_and_cut_clusters
from distforest.growth.cuts.clusters import TwoClusters
from distforest.growth.cuts.criteria import Gini, Variance
from distforest.growth.cuts.histograms import cut_codes_by_labels, cut_codes_by_targets
from distforest.growth.grower import judge_and_cut
from distforest.sources.arrays import ArraySource
from distforest.sources.binned import BinnedSource

if TYPE_CHECKING:
    from distforest.growth.cuts.criteria import Criterion
    from distforest.growth.grower import Search
    from distforest.sources.source import Source

FUSED: dict[tuple[type, type], Search] = {
    (BinnedSource, Gini): cut_codes_by_labels,
    (BinnedSource, Variance): cut_codes_by_targets,
    (ArraySource, TwoClusters): project_and_cut_clusters,
}
"""The searches that never hold the values of all candidates, by source and plain criterion."""


def search_of(source: Source, criterion: Criterion) -> Search:
    """The fused search for a source and a criterion, or `judge_and_cut`, which is right for all."""
    return FUSED.get((type(source), type(criterion)), judge_and_cut) if criterion.is_plain else judge_and_cut
