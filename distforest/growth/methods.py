"""The methods, as a table: how data are read, what a node draws, and which criteria may score its cuts.

`distforest.jobs.spec_models` has the tables of its spec, and its estimator points to the row.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.forest.chosen_cut import BEST, EXEMPLARS, ZERO
from distforest.forest.forest import Meaning
from distforest.forest.leaf_kinds import (
    NEAREST,
    SHARE,
    KeepsNothing,
)
from distforest.forest.missing import LEARNED
from distforest.growth.chains import ChainGrowth
from distforest.growth.cuts.category_search import BesideBins, CategorySearch, RanksCategories
from distforest.growth.cuts.class_histograms import best_codes_by_labels, cut_codes_by_labels
from distforest.growth.cuts.class_weights import MOST_WEIGHT, ClassWeights
from distforest.growth.cuts.companions import CategoryNumbers, Companions
from distforest.growth.cuts.criteria import Criterion, Tallied
from distforest.growth.cuts.histograms import best_codes, cut_binned
from distforest.growth.cuts.mean_distance import MeanDistance
from distforest.growth.cuts.random_cuts import AtRandom, AtZero
from distforest.growth.cuts.search import Limits, score_and_cut
from distforest.growth.cuts.sparse_columns import cut_sparse
from distforest.growth.cuts.stored_distance import StoredDistance
from distforest.growth.cuts.two_clusters import MCLUST_BIC, CompanionSearch, TwoClusters, project_and_cut_clusters
from distforest.growth.cuts.witnesses import Witnesses
from distforest.growth.draws.column_draws import Axis, CategoriesAlone, ColumnWeights, Draw, Oblique, inverse_deviations
from distforest.growth.draws.dependence import screened_rows
from distforest.growth.draws.landmarks import Landmarks, landmarks_of, landmarks_within
from distforest.growth.draws.object_pairs import Disagreement, Measures
from distforest.growth.draws.objects import Exemplars, FeatureSubsets, TwoObjects
from distforest.growth.draws.varying_columns import VaryingColumns
from distforest.growth.grower import Growth
from distforest.growth.isolation import RandomCut, TwoAtRandom
from distforest.growth.pairs.pair_methods import OverPairs, pair_columns, rfd, tree_rank
from distforest.growth.pairs.pair_problem import PairProblem
from distforest.growth.parameters import (
    AUTO,
    FRESH,
    ISOLATION_PARAMETERS,
    KEPT,
    RFD_PARAMETERS,
    SIMFOREST_PARAMETERS,
    SMERF_PARAMETERS,
    TREERANK_PARAMETERS,
    URERF_PARAMETERS,
    WITHOUT_SIDES,
    Parameter,
    for_two_sides,
    keeps_pairs,
    limits_among,
    n_drawn,
    recorded_parameters,
)
from distforest.growth.passes import Passes
from distforest.growth.problem import Data, Problem, Sampling
from distforest.growth.row_blocks import check_by_passes
from distforest.growth.sample_weights import GENERAL, OF_DISTANCES, Draws, SampleWeights, least
from distforest.growth.taught import Judging, Untaught, taught_by
from distforest.sources.arrays import ArraySource
from distforest.sources.binned import BinnedSource
from distforest.sources.binned_table import BinnedTable, Bins, TableFiles
from distforest.sources.category_codes import check_codes
from distforest.sources.filled import ROW_MEAN, filled
from distforest.sources.lazy.lazy_source import LazySource
from distforest.sources.mapped_rows import has_no_missing
from distforest.sources.row_kinds import Dense, Features, Several, is_given
from distforest.sources.sparse_features import SparseFeatures
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.forest import Params
    from distforest.forest.leaf_kinds import LeafKind
    from distforest.growth.grower import Search
    from distforest.sources.comparisons import Comparison
    from distforest.sources.lazy.callbacks import Lazy
    from distforest.sources.point_pairs import PairColumns
    from distforest.sources.schema import Schema
    from distforest.sources.source import Floats, Int32s, Source

GROWTH = 5
"""Version of the growth: it rises whenever the same data, parameters and seed lead to another digest."""

NO_PASSES_WITH_HOLES = (
    "trees grow by passes over distances that are all observed, found NaN among them; replace it by a number, or "
    "give workers the memory for the whole matrix (`run.memory_limit`)"
)
"""Error if some distances are unobserved, and the matrix does not fit into memory."""

Bound = Problem | PairProblem
"""A method that is bound to data."""


@dataclass(frozen=True)
class Method:
    """A method."""

    name: str  # its name in specs, in artifacts and on the command line
    reads: str  # ``"features"``, ``"similarity"``, or ``"points"`` for a method over pairs of points
    truth_kinds: tuple[TruthKind, ...]  # the kinds of ground truth from which it can learn
    parameters: tuple[Parameter, ...]  # its parameters
    # makes the draw from data, their source, parameters and a seed
    draw: Callable[[Data, Source, Params, int], Draw] | None = None
    # for a method without a ground truth: makes the criterion and the kind of leaf table
    without_truth: Callable[[Data, Params], tuple[Criterion, LeafKind]] | None = None
    # for a method over pairs of points, instead of a draw: makes the grower of trees over pairs
    over_pairs: Callable[[Data, Params, int, Callable[[int], int]], OverPairs] | None = None
    in_specs: bool = True  # whether a job's spec may name it


def _columns_of_features(data: Data, source: Source, params: Params, seed: int) -> Draw:
    n_columns = int(data.matrix.shape[1])
    combinations, max_features = n_combined(params, n_columns), params["max_features"]
    if combinations == 1.0 and data.feature_weights is None and params["feature_weights"] is None:
        width = min(n_candidates(max_features, n_columns), n_columns)
        if isinstance(source, SparseFeatures) and data.truth.kind != TruthKind.NOTHING:
            return VaryingColumns(source, width, int(params["min_samples_leaf"]), params["splitter"] == "best")
        return Axis(n_columns, width)
    weights = _column_weights(data, params)
    width = n_candidates(max_features, n_columns, weights)
    if params["coefficients"] != "normal":
        return Oblique(weights, width, combinations)
    present = None if data.sample_weights is None or data.sample_weights.is_everywhere else data.sample_weights.present
    sample = screened_rows(seed, data.n_rows if present is None else len(present))
    rows = sample if present is None else present[sample].astype(np.int32)
    matrix = ArraySource.from_values(data.array).values
    return Oblique(weights, width, combinations, inverse_deviations(matrix, rows, present))


def n_combined(params: Params, n_columns: int) -> float:
    """Return the mean number of columns of a candidate, from the parameter ``feature_combinations``; at least 1."""
    combinations = float(params["feature_combinations"])
    return combinations if combinations >= 1.0 else max(1.0, combinations * n_columns)


def _column_weights(data: Data, params: Params) -> ColumnWeights:
    """Return the feature weights of the data; raise InputError if they contradict ``feature_weights``."""
    if (data.feature_weights is None) != (params["feature_weights"] is None):
        found = "none" if data.feature_weights is None else "some"
        raise InputError(f"feature_weights={params['feature_weights']!r}, but found {found} with the data")
    n_columns = int(data.matrix.shape[1])
    if data.feature_weights is None:
        return ColumnWeights.uniform(n_columns)
    if len(data.feature_weights) != n_columns:
        raise InputError(
            f"feature_weights: one for each of {counted(n_columns, 'feature')}, found {len(data.feature_weights)}"
        )
    return ColumnWeights.from_weights(data.feature_weights)


def _two_clusters(data: Data, params: Params) -> tuple[Criterion, KeepsNothing]:
    """Return the criterion that scores two clusters on a projection; rows are near if they share a leaf."""
    at_random, n_witnesses = params["splitter"] == "random", int(params["n_witnesses"])
    witnesses = None
    if n_witnesses:
        witnesses = Witnesses(ArraySource.from_values(data.array).values, _column_weights(data, params), n_witnesses)
    return TwoClusters(params["criterion"], params["relative"], at_random, witnesses), KeepsNothing("same_leaf")


def _beside_categories(criterion: TwoClusters, draw: Draw, data: Data, n_categories: Int32s) -> TwoClusters:
    """Return the criterion for features with categories, which sums of columns, drawn as by ``draw``, score."""
    matrix = ArraySource.from_values(data.array).values
    numbers = CategoryNumbers.from_matrix(matrix, n_categories)
    if not isinstance(draw, Oblique):
        draw = Oblique(ColumnWeights.uniform(len(n_categories)), draw.width, 1.0)
    scales = None if draw.scales is None else np.where(n_categories > 0, 1.0, draw.scales)
    companions = Companions(matrix, numbers, replace(draw, scales=scales), criterion.at_random)
    witnesses = criterion.witnesses and replace(criterion.witnesses, numbers=numbers)
    return replace(criterion, companions=companions, witnesses=witnesses)


def _pairs_of_objects(data: Data, source: Source, params: Params, seed: int) -> Draw:
    targets = data.truth.values.astype(np.float64).reshape(data.n_rows, -1)[:, 0]
    truth = Disagreement(targets, data.truth.kind == TruthKind.LABELS)
    n_pairs, n_columns = int(params["n_pairs"]), int(params["n_columns"])
    if isinstance(data.rows, Features):
        others = {"n_columns": (1,), "n_landmarks": (None,), "voting": (SHARE,), "cut": (BEST, ZERO)}
        for name, values in {"pairing": (FRESH, None), **others}.items():
            if params[name] not in values:
                found = f"{name}={params[name]!r}"
                raise InputError(f"{found} compares given similarities, and feature_subsets has none; omit it")
        return FeatureSubsets(data.array, truth, n_pairs)
    if data.sample_weights is None or params["n_landmarks"] is None:
        landmarks = landmarks_of(params["n_landmarks"], targets, truth.by_class, seed)
    else:  # drawn from the objects of positive weight
        present = data.sample_weights.present.astype(np.int32)
        some = landmarks_of(params["n_landmarks"], targets[present], truth.by_class, seed)
        landmarks = Landmarks.from_rows(present[some.rows], data.n_rows)
    measures = _measures(data)
    kept = keeps_pairs(params, len(measures.reached))
    if params["cut"] != EXEMPLARS:
        return TwoObjects(source, truth, n_pairs, n_columns, landmarks=landmarks, kept=kept, measures=measures)
    if not truth.by_class:
        found = f"found {data.truth.kind}; name the cut {BEST!r} or {ZERO!r}"
        raise InputError(f"cut={EXEMPLARS!r} compares one object of each class; it needs labels, {found}")
    n_classes = len(data.truth.classes or ())
    return Exemplars(targets, n_classes, n_pairs, landmarks=landmarks, kept=kept, measures=measures)


def _measures(data: Data) -> Measures:
    """Return the measures by which a candidate may compare objects."""
    rows = data.rows
    measures = rows.measures if isinstance(rows, Several) else (rows,)
    of_distances = np.array([isinstance(measure, Dense) and measure.of_distances for measure in measures])
    weights = np.array(rows.weights) if isinstance(rows, Several) else np.ones(1)
    return Measures.from_weights(data.n_rows, weights, of_distances)


def _random_cuts(data: Data, _params: Params) -> tuple[Criterion, KeepsNothing]:
    """Return random cuts, which are not scored; leaves keep the weight that counts as one row."""
    unit = 1 if data.sample_weights is None else data.sample_weights.unit
    return RandomCut(), KeepsNothing("path_lengths", unit)


_ROWS = (
    Method(
        "smerf",
        "features",
        (
            *(TruthKind.DISTANCES, TruthKind.LABELS, TruthKind.TARGETS),
            *(TruthKind.DIFFERENCES, TruthKind.EMBEDDING, TruthKind.DIRECTIONS),
        ),
        SMERF_PARAMETERS,
        _columns_of_features,
    ),
    Method("simforest", "similarity", (TruthKind.LABELS, TruthKind.TARGETS), SIMFOREST_PARAMETERS, _pairs_of_objects),
    Method("urerf", "features", (TruthKind.NOTHING,), URERF_PARAMETERS, _columns_of_features, _two_clusters),
    Method(
        "isolation",
        "similarity",
        (TruthKind.NOTHING,),
        ISOLATION_PARAMETERS,
        lambda data, source, _params, _seed: TwoAtRandom(
            source, measures=_measures(data), weighted=data.sample_weights is not None
        ),
        _random_cuts,
        in_specs=False,
    ),
    Method("rfd", "points", (TruthKind.LABELS, TruthKind.LINKS), RFD_PARAMETERS, over_pairs=rfd),
    Method("treerank", "points", (TruthKind.LABELS, TruthKind.LINKS), TREERANK_PARAMETERS, over_pairs=tree_rank),
)
METHODS = {method.name: method for method in _ROWS}

OF_DENSE: dict[str, object] = {"max_bins": None, "coefficients": "sign", "n_witnesses": 0, "leafrank": "tree"}
"""Parameters that read a dense matrix of features, each with the value that does not."""

FEWEST_LANDMARKS = 3
"""Least number of landmarks; a smaller budget is spent on trees."""

N_COLUMNS_OF_MATRIX = 4
"""Number of columns on each side of a pair of a given matrix; on 15 sets, 16 and 64 were no better."""


def with_max_features(params: Params, kind: TruthKind) -> Params:
    """Replace ``max_features="auto"``: as in scikit-learn, "sqrt" for labels, and all columns for any other truth.

    Examples
    --------
    >>> with_max_features({"max_features": "auto"}, TruthKind.LABELS)
    {'max_features': 'sqrt'}
    """
    if params.get("max_features") != AUTO:
        return params
    return {**params, "max_features": "sqrt" if kind == TruthKind.LABELS else None}


def with_defaults_of_pairs(params: Params, data: Data) -> Params:
    """Replace ``n_columns``, ``on_missing`` and ``n_landmarks`` of SimForest, if None, by values that suit the data.

    A budget pays for landmarks, which all trees share, rather than for one tree after another: in
    `benchmarks/landmarks.py` they are ahead in 29 of 30 means, by 0.02 of the accuracy and 0.15 of R2.

    The mean of several columns resists noise. But with the other rules, an object without one of them has no value; a
    function would be evaluated for several times the pairs; and 20 landmarks have little noise to average. The mean of
    a row needs the whole row, which only a matrix has.

    Raises
    ------
    InputError
        ``on_missing="mean"`` is given with a function or with features.
    """
    if "n_columns" not in params:
        return params
    if params["n_landmarks"] is None and params["pairing"] != KEPT and isinstance(data.matrix, LazySource):
        params = {**params, "n_landmarks": _landmarks_of_budget(data.matrix.lazy, data)}
    is_matrix = is_given(data.rows) and not data.is_lazy
    if params["on_missing"] == ROW_MEAN and not is_matrix:
        cure = "name another rule, or omit on_missing"
        raise InputError(
            f"on_missing={ROW_MEAN!r} reads the rows of a given matrix of similarities, found none; {cure}"
        )
    on_missing = params["on_missing"] or (ROW_MEAN if is_matrix else "stop")
    takes_one = params["n_landmarks"] is not None or params["pairing"] == KEPT or params["cut"] == EXEMPLARS
    n_columns = params["n_columns"] or (1 if takes_one or on_missing != ROW_MEAN else N_COLUMNS_OF_MATRIX)
    return {**params, "n_columns": n_columns, "on_missing": on_missing}


def _landmarks_of_budget(lazy: Lazy, data: Data) -> int | None:
    """Return the number of landmarks that the budget of a function allows; None if there is none or it is too small."""
    if lazy.budget is None or not lazy.symmetric:
        return None
    m = landmarks_within(lazy.budget, data.n_rows, lazy.kind == "similarity")
    return m if m >= max(FEWEST_LANDMARKS, len(data.truth.classes or ())) else None


def n_candidates(max_features: float | str | None, n_columns: int, weights: ColumnWeights | None = None) -> int:
    """Return the number of candidates of a node, from the parameter ``max_features``; at least one.

    Examples
    --------
    >>> [n_candidates(m, 20) for m in ("sqrt", "log2", 0.5, 7, None)]
    [4, 4, 10, 7, 20]
    >>> n_candidates("effective", 20, ColumnWeights.from_weights(np.repeat([1.0, 0.0], [2, 18])))
    2
    """
    if max_features == "effective":
        return (weights or ColumnWeights.uniform(n_columns)).n_candidates
    if max_features == "sqrt":
        return max(1, math.isqrt(n_columns))
    if max_features == "log2":
        return max(1, int(math.log2(n_columns)))
    if max_features is None:
        return n_columns
    if isinstance(max_features, float):
        return max(1, int(max_features * n_columns))
    return int(max_features)


def sampling(params: Params, n_rows: int, weights: SampleWeights | None = None) -> Sampling:
    """Return the sampling of rows by ``bootstrap`` and ``max_samples``; rows of weight 0 do not count.

    Raises
    ------
    InputError
        ``max_samples`` is larger than the number of rows.
    """
    max_samples, n_rows = params["max_samples"], n_rows if weights is None else len(weights.present)
    n_draws = n_drawn(max_samples, n_rows)
    if "bootstrap" not in params:  # isolation: rows without replacement, at most all of them
        return Sampling(n_rows, min(n_draws, n_rows), replace=False, sample_weights=weights)
    if n_draws > n_rows:
        raise InputError(f"max_samples={max_samples!r} requests more rows than there are ({n_rows})")
    return Sampling(n_rows, n_draws, bool(params["bootstrap"]), weights)


def weights_of_rows(
    params: Params,
    truth_kind: TruthKind,
    truth: np.ndarray,
    classes: Sequence[object] | None,
    weights: Floats,
    has_costs: bool = False,
) -> SampleWeights:
    """Return the weights of the rows as the integers that trees add.

    Parameters
    ----------
    params
        The parameters of a method whose rows may have weights.
    truth_kind, truth, classes
        The ground truth, as in `Data`.
    weights
        Weights from `distforest.sources.weights.checked_weights`, shape (n_rows,).
    has_costs
        Whether the classes have costs, whose sums have the bounds of distances.

    Raises
    ------
    InputError
        The weights are too large, or a parameter needs all rows.
    """
    if "resample" in params or "region" in params:  # pairs are weighed by `distforest.growth.pairs.point_weights`
        return SampleWeights.from_weights(weights, Draws(1, replace=False))
    n_present = int(np.count_nonzero(weights))
    if params.get("voting") == NEAREST and n_present < len(weights):
        raise InputError(f"voting={NEAREST!r} lets every training object vote; omit those with a weight of 0")
    draws, bounds = sampling(params, n_present), GENERAL
    if truth_kind in {TruthKind.DISTANCES, TruthKind.DIFFERENCES} or has_costs:
        bounds = OF_DISTANCES
    if truth_kind == TruthKind.LABELS and (class_weight := params.get("class_weight")) is not None:
        of_classes = ClassWeights.from_labels(class_weight, truth, classes or [], weights).integers(draws.n_draws)
        spare = 2 if (weights != np.rint(weights)).any() else 1  # rounded, they may weigh classes a little differently
        bounds = bounds._replace(tree=min(bounds.tree, MOST_WEIGHT // (spare * int(of_classes.max()))))
    return SampleWeights.from_weights(weights, Draws(draws.n_draws, draws.replace), bounds)


CONTRADICTIONS: tuple[tuple[str, object, str, Mapping[str, tuple[object, ...]]], ...] = (
    ("criterion", MCLUST_BIC, "finds its own splits", {"splitter": ("best",)}),
    ("voting", NEAREST, "gives no vote out of bag", {"oob_score": (False,), "cut": (BEST, ZERO, EXEMPLARS)}),
    ("cut", EXEMPLARS, "compares one object of each class by Gini impurity, and has no two sides", WITHOUT_SIDES),
    ("pairing", KEPT, "keeps pairs, and those of landmarks are fresh", {"n_landmarks": (None,)}),
    ("oob_score", True, "needs points that a tree has not drawn", {"resample": ("points",)}),
    ("leafrank", "linear", "reads differences and middles of points", {"region": ("diagonal",)}),
    (
        *("max_bins", None, "splits single columns"),
        {"feature_combinations": (1.0,), "splitter": ("best",), "feature_weights": (None,)},
    ),
)
"""Parameters with a value (None: any but None), its effect, and the values of other parameters that it requires."""


def check_together(params: Params) -> None:
    """Refuse parameters that contradict each other, whatever the data; raise InputError."""
    for name, value, what, others in CONTRADICTIONS:
        found = params.get(name)
        if found is None or value not in {None, found}:
            continue
        for other, allowed in others.items():
            if other in params and params[other] not in allowed:
                goes = " or ".join(map(repr, allowed))
                raise InputError(f"{name}={found!r} {what}; it needs {other}={goes}, found {other}={params[other]!r}")


def problem(method: Method, data: Data, params: Params, seed: int, passes: Passes | None = None) -> Bound:
    """Bind a method to data.

    Parameters
    ----------
    method
        One of `METHODS`.
    data
        The data, read and checked.
    params
        All parameters of the method.
    seed
        The seed of the forest.
    passes
        The budget of rows in memory, for trees that grow by passes; None: all rows are in memory.

    Returns
    -------
    Problem or PairProblem
        The method bound to the data, which grows trees and computes their leaf tables.

    Raises
    ------
    InputError
        The method cannot learn from this kind of ground truth, a parameter contradicts another one or the data, or
        trees of this kind do not grow by passes.
    """
    params = with_max_features(with_defaults_of_pairs(params, data), data.truth.kind)
    check_together(params)
    assert params.get("cut") != AUTO  # noqa: S101  (chosen before, by `distforest.growth.cuts.trial_cuts`)
    if data.truth.kind not in method.truth_kinds:
        raise InputError(f"{method.name} learns from {' or '.join(method.truth_kinds)}, found {data.truth.kind}")
    if data.truth.kind != TruthKind.LINKS and len(data.truth.values) != data.n_rows:
        is_condensed = data.truth.kind.is_of_vectors and len(data.truth.values) == data.n_rows * (data.n_rows - 1) // 2
        cure = "; give squareform(d) of SciPy if it is the distance of each pair, as pdist gives them" * is_condensed
        found = (
            f"{counted(data.n_rows, 'row')} of {method.reads} and {len(data.truth.values)} of {data.truth.kind.noun}"
        )
        raise InputError(f"found {found}: inconsistent numbers of samples{cure}")
    if isinstance(data.rows, Several) and params.get("voting") == NEAREST:
        raise InputError(f"voting={NEAREST!r} needs the nearest object, on which several similarities differ")
    if method.over_pairs is None:
        return _over_rows(method, data, params, seed, passes)
    if passes is not None:
        raise InputError(f"trees grow by passes over features, found {method.name}, which learns from pairs")
    bound = method.over_pairs(data, params, seed, partial(n_candidates, params["max_features"]))
    recorded = recorded_parameters(method.parameters, params)
    meaning = Meaning(method.name, recorded, seed, data.rows, bound.leaf, data.truth.classes)
    return PairProblem(meaning, data, int(params["n_estimators"]), bound.points, bound.sampling, bound.growth)


def over_rows(bound: Bound) -> Problem:
    """Return a bound method that is known to be over rows."""
    assert isinstance(bound, Problem)  # noqa: S101  (callers do not use methods over pairs)
    return bound


def _over_rows(method: Method, data: Data, params: Params, seed: int, passes: Passes | None) -> Problem:
    """Bind a method to rows."""
    assert method.draw is not None  # noqa: S101  (a method has a draw or is one over pairs)
    of_rows = None if data.is_of_distances else passes
    data, source = data.without_absent(), _source(data, params, of_rows)
    rows_of_trees, n_trees = sampling(params, data.n_rows, data.sample_weights), int(params["n_estimators"] or 1)
    criterion: Criterion
    if method.without_truth:
        criterion, leaf = method.without_truth(data, params)
        taught = Untaught(leaf)
    else:
        class_weights = None
        if (class_weight := params.get("class_weight")) is not None:
            if data.truth.kind != TruthKind.LABELS:
                raise InputError(f"class_weight={class_weight!r} needs labels, found {data.truth.kind}")
            of_classes = ClassWeights.from_labels(
                class_weight, data.truth.values, data.truth.classes or [], data.sample_weight
            )
            params = {**params, "class_weight": of_classes.given}
            class_weights = of_classes.integers(rows_of_trees.heaviest)
        block_rows = None if passes is None else passes.rows_of_block(4 * data.n_rows)
        of_rows_and_classes = data.sample_weight, rows_of_trees.heaviest, class_weights
        nearest = params.get("voting") == NEAREST
        taught_criterion, taught = taught_by(
            data.truth, n_trees, block_rows, nearest, *of_rows_and_classes, params.get("criterion")
        )
        criterion = _placed(taught_criterion, params, passes if data.is_of_distances else None)
    limits = _limits(params, rows_of_trees)
    if not data.is_lazy:  # their budget would last longer, which changes their forests
        limits = for_two_sides(limits)
    draw, search = method.draw(data, source, params, seed), search_of(source, criterion)
    if isinstance(draw, Exemplars):
        growth: Growth = ChainGrowth(source, draw, criterion, limits, seed, search, held=draw.most)
    else:
        held = 1 if isinstance(source, SparseFeatures) and search is not score_and_cut else None
        rule = _rule_for_missing(data, source, params)
        growth = Growth(source, draw, criterion, limits, seed, search, on_missing=rule, held=held)
    if isinstance(data.rows, Features) and data.rows.n_categories:
        growth = _with_categories(method, growth, data, data.rows.n_categories)
    recorded = recorded_parameters(method.parameters, params)
    meaning = Meaning(method.name, recorded, seed, data.rows, taught.leaf, data.truth.classes)
    if of_rows is not None:
        check_by_passes(growth)
    return Problem(meaning, data, growth, rows_of_trees, n_trees, taught, passes)


def _placed(criterion: Judging, params: Params, passes: Passes | None) -> Criterion:
    """Return the criterion with the placement of cuts and missing rows, by ``passes`` over a matrix of distances.

    Raises
    ------
    InputError
        Some distances are unobserved, and the matrix does not fit into memory.
    """
    at_random = params.get("splitter") == "random"
    placed: Criterion = replace(criterion, places_missing="on_missing" not in params and not at_random)
    if passes is not None:
        if type(placed) is not MeanDistance:
            raise InputError(NO_PASSES_WITH_HOLES)
        placed = StoredDistance.from_criterion(placed, passes.budget, passes.rows_of_block(4 * len(placed.distances)))
    if params.get("cut") == ZERO:
        return AtZero(placed)
    return AtRandom(placed) if at_random else placed


def _with_categories(method: Method, growth: Growth, data: Data, sizes: tuple[int, ...]) -> Growth:
    """Return the growth for features with categories; raise InputError if the truth cannot order categories."""
    found = f"found {counted(sum(n > 0 for n in sizes), 'feature')} of categories"
    if data.truth.graph is not None:
        raise InputError(f"a sparse graph orders no categories, {found}; give a dense one, or encode them as numbers")
    n_categories = np.array(sizes, np.int32)
    draw = CategoriesAlone(growth.draw, n_categories)
    if isinstance(growth.criterion, TwoClusters):
        criterion = _beside_categories(growth.criterion, growth.draw, data, n_categories)
        of_companions = CompanionSearch(n_categories)
        return replace(growth, draw=draw, criterion=criterion, search=of_companions, n_categories=n_categories)
    if method.reads != "features" or not isinstance(growth.criterion, RanksCategories):
        cure = "encode them as numbers, such as by scikit-learn's OneHotEncoder, or pass categorical_features=None"
        raise InputError(f"{method.name} splits on numbers, {found}; {cure}")
    search = CategorySearch(n_categories)
    if isinstance(growth.source, BinnedTable) and isinstance(growth.criterion, Tallied) and growth.criterion.is_plain:
        search = BesideBins(n_categories, best_codes_by_labels if growth.criterion.is_gini else best_codes)
    return replace(growth, draw=draw, search=search, n_categories=n_categories)


def _rule_for_missing(data: Data, source: Source, params: Params) -> str:
    """Return the rule for missing values: that of the parameters, or the one for features if some are missing."""
    lacks = isinstance(source, (ArraySource, BinnedSource, BinnedTable)) and not source.is_complete
    lacks = lacks and isinstance(data.rows, Features)
    rule = str(params.get("on_missing", LEARNED if lacks else "stop"))
    return "stop" if rule == ROW_MEAN else rule  # a row of means lacks all values, or none


def search_of(source: Source, criterion: Criterion) -> Search:
    """Return the fused search for a source and a criterion, which never holds the values of all candidates.

    Without a fused search, return `score_and_cut`, which fits any.
    """
    if not criterion.is_plain:
        return score_and_cut
    if isinstance(source, ArraySource) and source.is_complete and isinstance(criterion, TwoClusters):
        return project_and_cut_clusters
    if isinstance(criterion, Tallied) and isinstance(source, BinnedSource):
        return cut_codes_by_labels if criterion.is_gini else cut_binned
    return cut_sparse if isinstance(criterion, Tallied) and isinstance(source, SparseFeatures) else score_and_cut


def _limits(params: Params, rows: Sampling) -> Limits:
    """Return the limits of nodes. A tree of random cuts ends at depth ceil(log2(n)), the usual depth of single rows."""
    if "max_depth" not in params:
        return Limits(max_depth=(rows.usual_weight - 1).bit_length())
    limits = Limits(**limits_among(params))
    if (weights := rows.sample_weights) is None:
        return limits
    split, leaf = least(weights.unit, limits.min_samples_split, 3), least(weights.unit, limits.min_samples_leaf, 2)
    return replace(limits, min_samples_split=split, min_samples_leaf=leaf)


def _source(data: Data, params: Params, passes: Passes | None) -> Source:
    """Return the source that growth reads; by passes its codes are mapped."""
    max_bins = params.get("max_bins")
    if isinstance(data.matrix, SparseFeatures):
        check_sparse(params)
        _ = data.matrix.both_ways  # sorted once, before threads read it
        return data.matrix
    if isinstance(data.matrix, Bins):
        return data.matrix.source()
    if max_bins is None:
        if params.get("on_missing") == ROW_MEAN:
            return filled(data.source(), data.n_rows, data.sample_weight)
        return data.source() if passes is None else _features_on_disk(data, passes)
    of_categories = None
    if isinstance(data.rows, Features) and data.rows.n_categories:
        check_codes(data.array, data.rows.n_categories)
        of_categories = np.array(data.rows.n_categories) > 0
    if passes is not None:
        return _codes_on_disk(data, int(max_bins), of_categories, passes)
    if of_categories is not None:
        return BinnedTable.from_features(data.array, int(max_bins), of_categories, data.sample_weight)
    return BinnedSource.from_features(data.array, int(max_bins), data.sample_weight)


def _codes_on_disk(
    data: Data, max_bins: int, of_categories: NDArray[np.bool_] | None, passes: Passes
) -> BinnedSource | BinnedTable:
    """Return the source of codes, and of categories beside them, in files without names."""
    passes.folder.mkdir(parents=True, exist_ok=True)
    step = passes.rows_of_block(data.array.shape[1] * data.array.itemsize)
    with tempfile.TemporaryDirectory(dir=passes.folder) as folder:  # the maps keep the files until they are released
        files = TableFiles(Path(folder) / "codes", Path(folder) / "categories")
        if of_categories is None:
            return BinnedSource.stored(data.array, max_bins, data.sample_weight, files.codes, step)
        return BinnedTable.stored(data.array, max_bins, of_categories, data.sample_weight, files, step)


def _features_on_disk(data: Data, passes: Passes) -> Source:
    """Return the source of features with at most a block resident."""
    if not isinstance(data.rows, Features):
        return data.source()  # refused by `check_by_passes`
    check_codes(data.array, data.rows.n_categories)
    step = passes.rows_of_block(data.array.shape[1] * data.array.itemsize)
    return ArraySource.from_values(data.array, has_no_missing(data.array, step))


def for_sparse(params: Params) -> dict[str, object]:
    """Return the parameters that must change if features are sparse, each with a value that needs no dense matrix.

    Examples
    --------
    >>> for_sparse({"max_bins": None, "n_witnesses": 3, "feature_weights": "dependence"})
    {'n_witnesses': 0, 'feature_weights': None}
    """
    changes = {name: value for name, value in OF_DENSE.items() if params.get(name, value) != value}
    weights = params.get("feature_weights")
    return {**changes, "feature_weights": None} if isinstance(weights, str) and weights == "dependence" else changes


def check_sparse(params: Params) -> None:
    """Refuse parameters that read a dense matrix of features; raise InputError."""
    cures = for_sparse(params)
    if cures:
        found = ", ".join(f"{name}={params[name]!r}" for name in cures)
        cure = ", ".join(f"{name}={value!r}" for name, value in cures.items())
        raise InputError(
            f"features are sparse, but {found} needs dense ones; give {cure}, or X.toarray() if it is small"
        )


def rows_of_features(
    method: str,
    params: Params,
    n_features: int,
    schema: Schema | None,
    is_sparse: bool,
    comparisons: Sequence[Comparison] = (),
) -> Features | PairColumns:
    """Return the kind of rows for a method over features; raise InputError if they must not be sparse."""
    n_categories = schema.n_categories if schema else ()
    if is_sparse:
        check_sparse(params)
        if comparisons:
            raise InputError("comparisons read dense features, found sparse ones; omit the comparisons")
    if METHODS[method].reads == "points":
        return pair_columns(params, n_features, (), n_categories, comparisons, schema)
    return Features(n_features, n_categories)
