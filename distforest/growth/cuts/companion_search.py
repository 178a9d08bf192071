"""The search of nodes of a forest without a ground truth whose candidates may be columns of categories."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.frontier import pick
from distforest.growth.cuts.category_search import CategorySearch
from distforest.growth.cuts.clusters import TwoClusters
from distforest.growth.cuts.companions import NO_COLUMN, Judges, keep_places, place_categories
from distforest.growth.cuts.search import judge_and_cut, values_on
from distforest.sources.source import taken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.frontier import Frontier
    from distforest.growth.cuts.criteria import Criterion, Cuts
    from distforest.growth.cuts.search import Limits
    from distforest.sources.source import Floats, Int32s, Projections, Source


class CompanionSearch(CategorySearch):
    """`judge_and_cut` that cuts columns of categories by the places that their companions give them."""

    def __call__(
        self, source: Source, criterion: Criterion, frontier: Frontier, projections: Projections, limits: Limits
    ) -> tuple[Cuts, Floats]:
        """The best cut of each node, and the value of each row on the chosen candidate: its place, or a number."""
        which = self.of_categories(projections)
        if not which.any():
            return judge_and_cut(source, criterion, frontier, projections, limits)
        assert isinstance(criterion, TwoClusters) and criterion.companions  # noqa: S101, PT018  (bound to each other)
        some = criterion.judged_on(frontier) if limits.min_samples_leaf == 1 else frontier
        values = source.project(some.rows, some.starts, projections)
        drawn = criterion.companions.drawn(some, self.own(projections, which))
        judges = criterion.companions.judges(some, drawn)
        place_categories(some.starts, some.weights, self.n_codes, judges, values)
        cuts = replace(criterion, judges=judges).cut(some, values, limits.min_samples_leaf)
        places = np.empty(len(some.rows))
        pick(some.starts, values, cuts.candidate, places)
        if some is frontier:
            return cuts, places
        picked = values_on(source, frontier, projections, cuts)
        chosen = which[cuts.candidate.clip(0), np.arange(frontier.n_nodes)] & (cuts.candidate >= 0)
        if chosen.any():
            (of_all, rows), (judged, judged_rows) = frontier.take(chosen), some.take(chosen)
            nodes, candidates = np.flatnonzero(chosen), cuts.candidate[chosen]
            codes = source.project(judged.rows, judged.starts, taken(projections, nodes, candidates))[0]
            of_chosen = criterion.companions.judges(of_all, drawn.chosen(nodes, candidates))
            picked[rows] = self.places(of_all, of_chosen, picked[rows], (judged, codes, places[judged_rows]))
        return cuts, picked

    def places(
        self, frontier: Frontier, judges: Judges, codes: Floats, judged: tuple[Frontier, Floats, Floats]
    ) -> Floats:
        """The places of the categories of all rows, shape (n_rows,): those from rows that have judged, if there are.

        Parameters
        ----------
        frontier, judges, codes
            All rows, what companions say of them, and their categories.
        judged
            The rows of the same nodes that have judged, their categories and places.
        """
        places = codes.copy()
        place_categories(frontier.starts, frontier.weights, self.n_codes, judges, places[np.newaxis])
        some, some_codes, some_places = judged
        keep_places(some.starts, some_codes, some_places, frontier.starts, codes, self.n_codes, places)
        return places

    @property
    def n_codes(self) -> int:
        """Most categories of a column."""
        return int(self.n_categories.max())

    def own(self, projections: Projections, which: NDArray[np.bool_]) -> Int32s:
        """The column of each candidate that is a column of categories, else `NO_COLUMN`, shape (width, n_nodes)."""
        own = np.full(which.T.size, NO_COLUMN, np.int32)
        flat = which.T.reshape(-1)
        own[flat] = projections.columns[projections.offset[:-1][flat]]
        return np.ascontiguousarray(own.reshape(which.T.shape).T)
