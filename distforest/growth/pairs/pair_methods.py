"""The methods over pairs of points: the columns of a pair, which pairs a tree learns from, and how it grows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.forest.leaf_kinds import KeepsRanks, KeepsVotes, LeafKind
from distforest.forest.missing import LEARNED
from distforest.growth.cuts.search import Limits
from distforest.growth.cuts.two_classes import PLAIN, CostedEntropy, TwoClasses
from distforest.growth.draws.column_draws import Axis
from distforest.growth.grower import Growth
from distforest.growth.pairs.bins import PairBins
from distforest.growth.pairs.linear_cells import LinearCells
from distforest.growth.pairs.pair_problem import Classifiers
from distforest.growth.pairs.pair_search import PairSearch
from distforest.growth.pairs.point_weights import limits_of, present_data, weighed
from distforest.growth.pairs.ranking_trees import LeafRank, Ranking, SmallTrees
from distforest.growth.pairs.sampling import (
    MOST_TREE_PAIRS,
    Constraints,
    GivenPairs,
    LabelledPairs,
    PairSample,
    PairSampling,
)
from distforest.growth.pairs.sparse_search import SparseSearch, VaryingPairs
from distforest.growth.pairs.square_search import square_candidates
from distforest.growth.parameters import for_two_sides, limits_among, n_drawn
from distforest.sources.arrays import is_complete
from distforest.sources.comparisons import Comparison
from distforest.sources.point_pairs import DISSIMILAR, SIMILAR, PairColumns, PointPairs, check_pairs, check_points
from distforest.sources.schema import Schema
from distforest.sources.sparse_features import SparseFeatures
from distforest.sources.sparse_pairs import SparsePairs, check_sparse_points
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.growth.draws.column_draws import Draw
    from distforest.growth.grower import Search
    from distforest.growth.pairs.pair_problem import PairGrowth
    from distforest.growth.problem import Data
    from distforest.sources.source import Int32s

Params = Mapping[str, Any]

DRAWN_SHARE = 1.0 - 1.0 / math.e
"""Share of the points, or of the given pairs, that a tree of a ranking forest draws if it would otherwise draw all."""

NO_PAIRS = np.empty((0, 2), np.int32)
NO_CLASSES = TwoClasses(np.empty(0, np.uint8), np.empty((0, 2)))
"""Placeholders for the pairs and their classes, until a tree draws some."""

FEWEST_POINTS = 3
"""Pairs of fewer points cannot differ."""


class OverPairs(NamedTuple):
    """How trees grow over pairs: the points, which pairs each tree learns from, how it grows, and what leaves keep."""

    points: PointPairs | SparsePairs
    sampling: PairSampling
    growth: PairGrowth
    leaf: LeafKind


def pair_columns(
    params: Params,
    n_features: int,
    blocks: tuple[tuple[str, int], ...] = (),
    n_categories: tuple[int, ...] = (),
    comparisons: Sequence[Comparison] = (),
    schema: Schema | None = None,
) -> PairColumns:
    """The columns that a method with these parameters reads of a pair of points; the further arguments as there."""
    if "position" in params:
        family = "difference_mean" if params["position"] else "difference"
    else:
        family = "max_min" if params["region"] == "square" else "difference_mean"
    if not comparisons:
        return PairColumns(family, n_features, blocks, n_categories)
    schema = schema or Schema.unnamed(n_features)
    on_features = tuple(one.on(schema).resolved() for one in comparisons)
    functions = {one.comparator: one.function for one in on_features}
    if twice := [one.comparator for one in on_features if functions[one.comparator] is not one.function]:
        raise InputError(f"pair_columns: two functions are called {twice[0]}; give each a name: Comparison(..., name=)")
    compared = {c for one in on_features for c in one.features}
    sizes = tuple(0 if c in compared else size for c, size in enumerate(n_categories))
    return PairColumns(family, n_features, blocks, sizes if any(sizes) else (), on_features, schema)


def check_n_points(n_points: int) -> None:
    """Refuse fewer points than `FEWEST_POINTS`; raises InputError."""
    if n_points < FEWEST_POINTS:
        raise InputError(f"three points were expected, so that pairs can differ; found n_samples={n_points}")


def drawn_points(data: Data) -> PointPairs | SparsePairs:
    """The points and the columns of a pair, without pairs yet; raises InputError for too few points, or too large ones.

    Only points of positive weight are examined for missing values, as trees draw pairs of these only.
    """
    assert isinstance(data.rows, PairColumns)  # noqa: S101  (checked where the data are made)
    check_n_points(data.n_rows)
    if isinstance(data.matrix, SparseFeatures):
        check_sparse_points(data.matrix)
        none = np.empty(0, np.int32)
        return SparsePairs(data.rows, data.matrix, data.matrix, none, none)
    points = PointPairs.from_points(data.rows, data.array, NO_PAIRS)
    check_points(points.points, points.columns)
    return replace(points, is_complete=bool(points.is_complete) or is_complete(data.present))  # see `PointPairs`


def growth_of(
    points: PointPairs | SparsePairs,
    sampling: PairSampling,
    limits: Limits,
    params: Params,
    seed: int,
    width_of: Callable[[int], int],
) -> Growth:
    """How trees of cuts grow over pairs of the points; ``width_of`` says how many of n columns a node tries.

    Bins are those of pairs like those that the trees draw, unless ``max_bins`` is None. Square cuts have a candidate
    for each feature.
    """
    square = params.get("region") == "square"
    search: Search
    draw: Draw
    if isinstance(points, SparsePairs):  # which `check_sparse` lets have no bins
        n_columns = points.columns.n_features if square else points.shape[1]
        dense = PairSearch(None, np.empty((0, n_columns), np.uint8) if square else None)
        search, draw = SparseSearch(dense), VaryingPairs(n_columns, min(width_of(n_columns), n_columns))
    else:
        bins = None
        if params["max_bins"] is not None:
            left, right = np.ascontiguousarray(sampling.typical(seed).T)
            bins = PairBins.from_pairs(points.of_pairs(left, right), int(params["max_bins"]))
        candidates = square_candidates(points.columns) if square else points.columns.to_draw
        n_columns = points.shape[1] if candidates is None else len(candidates)
        draw = Axis(n_columns, min(width_of(n_columns), n_columns), candidates)
        search = PairSearch.for_squares(bins, points) if square else PairSearch(bins)
    on_missing = "stop" if points.is_complete else LEARNED
    sizes = points.columns.categories_of_columns
    n_categories = np.array(sizes, np.int32) if any(sizes) else None
    limits = for_two_sides(limits_of(sampling, limits))
    return Growth(
        points, draw, NO_CLASSES, limits, seed, search, on_missing=on_missing, held=1, n_categories=n_categories
    )


def links_of(data: Data) -> tuple[Int32s, NDArray[np.uint8]]:
    """The given pairs and their classes; raises InputError where they cannot be used."""
    assert data.pairs is not None  # noqa: S101  (checked where the data are made)
    pairs, codes = check_pairs(data.pairs, data.n_rows), data.truth.values.astype(np.uint8)
    if len(pairs) != len(codes):
        raise InputError(
            f"found {counted(len(pairs), 'pair')} and {counted(len(codes), 'class', 'classes')} of pairs; one for each"
        )
    kinds = np.unique(codes).tolist()
    if kinds != [SIMILAR, DISSIMILAR]:
        only = {(SIMILAR,): "only similar ones", (DISSIMILAR,): "only dissimilar ones"}
        found = only.get(tuple(kinds), f"classes {kinds[:5]}" if kinds else "none")
        weighed = data.sample_weights is not None or data.pair_weights is not None
        of_weight = " of positive weight" if weighed else ""
        raise InputError(f"pairs of both kinds{of_weight} were expected, found {found}")
    return pairs, codes


def given_pairs(data: Data, params: Params, seed: int) -> GivenPairs:
    """The given pairs, or pairs drawn once by the labels; a tree draws from them, or from the points.

    Raises
    ------
    InputError
        The pairs or labels cannot be used, or ``max_samples`` asks for more pairs or points than there are.
    """
    if data.truth.kind == TruthKind.LINKS:
        pairs, codes = links_of(data)
    else:
        rule = Constraints.from_option(params["n_constraints"], str(params["balance"]))
        pairs, codes = rule.draw(data.truth.values, seed)
    by_points = params["resample"] == "points"
    total, max_samples = data.n_rows if by_points else len(pairs), params["max_samples"]
    n_draws = n_drawn(max_samples, total)
    if n_draws > total:
        raise InputError(f"max_samples={max_samples!r} asks for more {params['resample']} than there are ({total})")
    weights = data.pair_weights
    return GivenPairs(pairs, codes, data.n_rows, n_draws, bool(params["bootstrap"]), by_points, weights)


def ranked_pairs(data: Data, params: Params) -> PairSampling:
    """The rule by which each ranking tree draws pairs: given ones, or pairs of labelled points.

    Raises
    ------
    InputError
        There are no pairs of one kind, too many pairs, or fewer points than ``max_samples`` asks for.
    """
    max_samples, n, n_pairs = params["max_samples"], data.n_rows, int(params["n_pairs"])
    many_trees = params["n_estimators"] > 1
    if data.truth.kind == TruthKind.LINKS:
        pairs, codes = links_of(data)
        n_draws = min(n_pairs, len(pairs))
        if n_draws == len(pairs) and many_trees:
            n_draws = max(1, round(DRAWN_SHARE * n_draws))
        return GivenPairs(pairs, codes, n, n_draws, False, False, data.pair_weights)
    counts = np.bincount(data.truth.values)
    if (counts > 0).sum() < 2 or counts.max() < 2:
        classes = f"{len(counts)} of one point each" if counts.max() < 2 else f"one, of {counts.max()} points"
        raise InputError(f"labels: two classes, one of them of two points, were expected, found {classes}")
    draws_all = params["sampling"] == "all" or n_pairs >= n * (n - 1) // 2
    if max_samples is None and draws_all and many_trees:
        max_samples = DRAWN_SHARE  # or all trees would be the same
    n_draws = n_drawn(max_samples, n)
    if isinstance(max_samples, float):
        n_draws = max(2, n_draws)
    if not 2 <= n_draws <= n:
        raise InputError(
            f"max_samples={max_samples!r} asks for {n_draws} of {counted(n, 'point')}; a tree needs two to all of them"
        )
    sampling = LabelledPairs(data.truth.values, n_pairs, str(params["sampling"]), n_draws)
    if sampling.n_rows > MOST_TREE_PAIRS:
        raise InputError(f"sampling='all' asks for {sampling.n_rows} pairs, at most {MOST_TREE_PAIRS} fit; set n_pairs")
    return sampling


def out_of_bag_pairs(data: Data, params: Params, seed: int) -> PairSample:
    """All pairs of which trees of RFD draw some, with their weights, and each point once in bag."""
    some = given_pairs(present_data(data), params, seed)
    every = replace(some, n_draws=len(some.pairs), replace=False, by_points=False)
    return weighed(data, lambda _: every).sample(seed, 0)


def tree_rank(data: Data, params: Params, seed: int, width_of: Callable[[int], int]) -> OverPairs:
    """Bind TreeRank to data; ``width_of`` says how many of n columns a node of a small tree tries."""
    points, sampling = drawn_points(data), weighed(data, lambda some: ranked_pairs(some, params))
    small = Limits(2, int(params["min_samples_leaf"]), int(params["leafrank_depth"]))
    growth = growth_of(points, sampling, small, params, seed, width_of)
    leafrank: LeafRank = SmallTrees(growth, params["region"] == "square")
    if params["leafrank"] == "linear":
        leafrank = LinearCells(growth.limits.min_samples_leaf)
    limits = limits_of(sampling, Limits(int(params["min_samples_split"]), 1, int(params["max_depth"])))
    ranking = Ranking(leafrank, limits, params["optimise_fpr"], seed)
    return OverPairs(points, sampling, ranking, KeepsRanks(params["aggregation"]))


def rfd(data: Data, params: Params, seed: int, width_of: Callable[[int], int]) -> OverPairs:
    """Bind RFD to data; ``width_of`` says how many of n columns a node tries."""
    points, sampling = drawn_points(data), weighed(data, lambda some: given_pairs(some, params, seed))
    growth = growth_of(points, sampling, Limits(**limits_among(params)), params, seed, width_of)
    impurity = CostedEntropy(*PLAIN) if params.get("criterion") == "entropy" else PLAIN
    return OverPairs(points, sampling, Classifiers(growth, impurity), KeepsVotes(params["voting"]))
