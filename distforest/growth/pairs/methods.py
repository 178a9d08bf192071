"""The methods over pairs of points: what they read of a pair, which pairs a tree learns from, and how it grows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.forest.leaf_kinds import KeepsRanks, KeepsVotes, LeafKind
from distforest.growth.cuts.two_classes import TwoClasses
from distforest.growth.draws.columns import Axis
from distforest.growth.grower import Growth, Limits
from distforest.growth.pairs.bins import PairBins
from distforest.growth.pairs.linear_cells import LinearCells
from distforest.growth.pairs.problem import Classifiers
from distforest.growth.pairs.sampling import (
    MOST_TREE_PAIRS,
    Constraints,
    GivenPairs,
    LabelledPairs,
    PairSampling,
)
from distforest.growth.pairs.search import PairSearch
from distforest.growth.pairs.square_search import SquareSearch
from distforest.growth.pairs.tree_rank import LeafRank, Ranking, SmallTrees
from distforest.growth.parameters import limits_among, n_drawn
from distforest.sources.point_pairs import ALIKE, UNLIKE, PairColumns, PointPairs, check_pairs, check_points
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.growth.grower import Search
    from distforest.growth.pairs.problem import PairGrowth
    from distforest.growth.problem import Data
    from distforest.sources.source import Int32s

Params = Mapping[str, Any]

DRAWN_SHARE = 1.0 - 1.0 / math.e
"""Of the points, or the given pairs, that a tree of a ranking forest draws where it would draw all."""

NO_PAIRS = np.empty((0, 2), np.int32)
NO_CLASSES = TwoClasses(np.empty(0, np.uint8), np.empty((0, 2)))
"""What stands for the pairs, and for their classes, until a tree has drawn some."""


class OverPairs(NamedTuple):
    """How trees grow over pairs: the points, which pairs each tree learns from, how it grows, and what nodes say."""

    points: PointPairs
    sampling: PairSampling
    growth: PairGrowth
    leaf: LeafKind


def pair_columns(params: Params, n_features: int, blocks: tuple[tuple[str, int], ...] = ()) -> PairColumns:
    """What a method with these parameters reads of a pair of points with ``n_features`` features."""
    if "position" in params:
        return PairColumns("difference_mean" if params["position"] else "difference", n_features, blocks)
    return PairColumns("max_min" if params["region"] == "square" else "difference_mean", n_features, blocks)


def check_pair_parameters(params: Params) -> None:
    """Refuse parameters that do not go together, whatever the data; raises InputError."""
    if params.get("oob_score") and params["resample"] != "points":
        raise InputError("oob_score goes with resample='points': two pairs that share a point know of each other")
    if params.get("leafrank") == "linear" and params["region"] != "diagonal":
        raise InputError(f"leafrank='linear' goes with region='diagonal', found {params['region']!r}")


def drawn_points(data: Data) -> PointPairs:
    """The points, and what is read of a pair; no pairs yet."""
    assert isinstance(data.rows, PairColumns)  # noqa: S101  (held by whoever makes the data)
    points = PointPairs.of(data.rows, data.array, NO_PAIRS)
    check_points(points.points, points.columns)
    return points


def axis_of(n_columns: int, width_of: Callable[[int], int]) -> Axis:
    """Single columns of some, as many at a time as ``width_of`` says."""
    return Axis(n_columns, min(width_of(n_columns), n_columns))


def pair_search_of(params: Params, points: PointPairs, sampling: PairSampling, seed: int) -> PairSearch:
    """How a level is searched: through bins of pairs like those that the trees draw, if there are any."""
    if params["max_bins"] is None:
        return PairSearch(None)
    left, right = np.ascontiguousarray(sampling.typical(seed).T)
    return PairSearch(PairBins.of(points.of_pairs(left, right), int(params["max_bins"])))


def links_of(data: Data) -> tuple[Int32s, NDArray[np.uint8]]:
    """The pairs that were given, and their classes; raises InputError where they cannot be used."""
    assert data.pairs is not None  # noqa: S101  (held by whoever makes the data)
    pairs, codes = check_pairs(data.pairs, data.n_rows), data.truth.astype(np.uint8)
    if len(pairs) != len(codes):
        raise InputError(
            f"found {counted(len(pairs), 'pair')} and {counted(len(codes), 'class', 'classes')} of pairs; one for each"
        )
    kinds = np.unique(codes).tolist()
    if kinds != [ALIKE, UNLIKE]:
        found = {(ALIKE,): "only alike ones", (UNLIKE,): "only unlike ones"}.get(tuple(kinds), f"classes {kinds[:5]}")
        raise InputError(f"pairs of both kinds were expected, found {found}")
    return pairs, codes


def given_pairs(data: Data, params: Params, seed: int) -> GivenPairs:
    """The pairs that were given, or drawn from the labels; a tree draws of them, or of the points.

    Raises
    ------
    InputError
        Pairs or labels that cannot be used; more pairs or points are to be drawn than there are.
    """
    if data.truth_kind == TruthKind.LINKS:
        pairs, codes = links_of(data)
    else:
        rule = Constraints.of(params["n_constraints"], str(params["balance"]))
        pairs, codes = rule.draw(data.truth, seed)
    by_points = params["resample"] == "points"
    there, given = data.n_rows if by_points else len(pairs), params["max_samples"]
    n_draws = n_drawn(given, there)
    if n_draws > there:
        raise InputError(f"max_samples={given!r} asks for more {params['resample']} than there are ({there})")
    return GivenPairs(pairs, codes, data.n_rows, n_draws, bool(params["bootstrap"]), by_points)


def labelled_pairs(data: Data, params: Params) -> LabelledPairs:
    """Pairs that each tree draws of labelled points; raises InputError where there are none of one kind."""
    counts = np.bincount(data.truth)
    if (counts > 0).sum() < 2 or counts.max() < 2:
        classes = f"{len(counts)} of one point each" if counts.max() < 2 else f"one, of {counts.max()} points"
        raise InputError(f"labels: two classes, one of them of two points, were expected, found {classes}")
    given, n = params["max_samples"], data.n_rows
    same_pairs = params["sampling"] == "all" or params["n_pairs"] >= n * (n - 1) // 2
    if given is None and same_pairs and params["n_estimators"] > 1:
        given = DRAWN_SHARE  # or all trees would be the same
    n_draws = max(2, n_drawn(given, n)) if isinstance(given, float) else n_drawn(given, n)
    if not 2 <= n_draws <= n:
        raise InputError(
            f"max_samples={given!r} asks for {n_draws} of {counted(n, 'point')}; a tree needs two to all of them"
        )
    found = LabelledPairs(data.truth, int(params["n_pairs"]), str(params["sampling"]), n_draws)
    if found.n_rows > MOST_TREE_PAIRS:
        raise InputError(f"sampling='all' asks for {found.n_rows} pairs, at most {MOST_TREE_PAIRS} fit; set n_pairs")
    return found


def tree_rank(data: Data, params: Params, seed: int, width_of: Callable[[int], int]) -> OverPairs:
    """Bind TreeRank to data; ``width_of`` says how many of some columns a node of a small tree tries."""
    points = drawn_points(data)
    if data.truth_kind == TruthKind.LABELS:
        sampling: PairSampling = labelled_pairs(data, params)
    else:
        pairs, codes = links_of(data)
        n_draws = min(int(params["n_pairs"]), len(pairs))
        if n_draws == len(pairs) and params["n_estimators"] > 1:
            n_draws = max(1, round(DRAWN_SHARE * n_draws))
        sampling = GivenPairs(pairs, codes, data.n_rows, n_draws, replace=False, by_points=False)
    square = params["region"] == "square"
    by_columns, n_columns = pair_search_of(params, points, sampling, seed), points.shape[1]
    search: Search = by_columns
    if square:
        search, n_columns = SquareSearch.of(by_columns.bins, points), n_columns - points.columns.n_features
    small = Limits(2, int(params["min_samples_leaf"]), int(params["leafrank_depth"]))
    growth = Growth(points, axis_of(n_columns, width_of), NO_CLASSES, small, seed, search, held=1)
    limits = Limits(int(params["min_samples_split"]), 1, int(params["max_depth"]))
    leafrank: LeafRank = SmallTrees(growth, square)
    if params["leafrank"] == "linear":
        leafrank = LinearCells(int(params["min_samples_leaf"]))
    ranking = Ranking(leafrank, limits, params["optimise_fpr"], seed)
    return OverPairs(points, sampling, ranking, KeepsRanks(params["aggregation"]))


def rfd(data: Data, params: Params, seed: int, width_of: Callable[[int], int]) -> OverPairs:
    """Bind RFD to data; ``width_of`` says how many of some columns a node tries."""
    points, sampling = drawn_points(data), given_pairs(data, params, seed)
    search = pair_search_of(params, points, sampling, seed)
    growth = Growth(
        points, axis_of(points.shape[1], width_of), NO_CLASSES, Limits(**limits_among(params)), seed, search, held=1
    )
    return OverPairs(points, sampling, Classifiers(growth), KeepsVotes(params["voting"]))
