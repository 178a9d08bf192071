"""Why trees have no split: data that are the same in all rows, and rules that stop a tree at its root.

The causes are looked for only when a forest has learned nothing, so the data may be read once more.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.roots import Roots
from distforest.growth.pairs.problem import PairProblem
from distforest.sources.arrays import row_blocks
from distforest.sources.binned_table import Bins
from distforest.sources.row_kinds import Features, is_given
from distforest.sources.sparse import SparseSource
from distforest.sources.sparse_features import SparseFeatures
from distforest.sources.sparse_pairs import SparsePairs
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from distforest.growth.methods import Bound
    from distforest.growth.problem import Data
    from distforest.sources.source import Floats

TRUTH_NAMES = {
    TruthKind.DISTANCES: "distances that were given",
    TruthKind.EMBEDDING: "places in the embedding",
    TruthKind.DIRECTIONS: "directions of the vectors",
}
"""Names of some kinds of ground truth in a message."""

NO_REASON = "the cause is neither values that are all the same nor a rule that stops trees"
RAISED = "each split that was tried raises the mean distance inside its sides (check that large means far)"
"""Causes in a message where no other is known: in general, and of given distances."""


def told_of_roots(problem: Bound, roots: Roots, closed: int = 0) -> str:
    """Say why a forest has learned nothing (DF012): the consequence, the causes, what to do; else "".

    Parameters
    ----------
    problem
        The data and the method from which the forest has grown.
    roots
        Its trees without a split.
    closed
        Number of nodes without a cut, and of trees without a root, because the budget was spent.
    """
    follows = roots.told()
    if not follows:
        return ""
    unknown = RAISED if problem.data.truth_kind == TruthKind.DISTANCES else NO_REASON
    return f"{follows}: {'; '.join(causes(problem, closed)) or unknown}"


def causes(problem: Bound, closed: int = 0) -> list[str]:
    """The causes that hold, each with what to do; if none of them suffices, those that may be one."""
    budget = [f"the budget was spent, which closed {closed:,} nodes or trees (raise it)"] if closed else []
    sufficient = [*budget, *_of_rules(problem), *_of_truth(problem.data), *_of_rows(problem.data)]
    return sufficient or [*_of_lacking(problem.data), *_of_few(problem)]


def _of_rules(problem: Bound) -> Iterator[str]:
    """Rules that stop a tree at its root."""
    params, drawn = problem.meaning.params, _n_drawn(problem)
    if params.get("optimise_fpr") == 0.0:
        yield "optimise_fpr=0.0 lets no cell be parted (raise it)"
    thing, more = ("pair", "give more pairs") if isinstance(problem, PairProblem) else ("row", "raise max_samples")
    split, leaf = int(params.get("min_samples_split", 2)), int(params.get("min_samples_leaf", 1))
    if drawn < 2:
        yield f"a tree draws one {thing} ({more})"
    elif drawn < split:
        yield f"a tree draws {drawn:,} {thing}s, and min_samples_split={split} makes them one leaf (lower it)"
    elif drawn < 2 * leaf:
        yield f"a tree draws {drawn:,} {thing}s, too few for two sides of min_samples_leaf={leaf} (lower it)"


def _n_drawn(problem: Bound) -> int:
    """The in-bag weight of a root; over pairs, that of the first tree."""
    if isinstance(problem, PairProblem):
        return int(problem.sampling.sample(problem.meaning.seed, 0).weights.sum())
    return problem.sampling.n_draws


def _of_truth(data: Data) -> Iterator[str]:
    """A ground truth that is the same for all rows."""
    if data.truth_kind in {TruthKind.NOTHING, TruthKind.LINKS}:
        return
    if data.graph is not None:
        if not len(data.graph.stored.data):
            yield f"all distances are {data.graph.absent + data.offset:g} (no two nodes are linked)"
        return
    low, high, _ = _ranges(data.truth.reshape(data.n_rows, -1))
    if (low < high).any() or (data.truth_kind == TruthKind.DISTANCES and low.min() < high.max()):
        return
    if data.truth_kind == TruthKind.LABELS:
        yield f"all labels are {_label(data, int(low[0]))} (give rows of a second class)"
        return
    values = {TruthKind.DISTANCES: f"are {low[0] + data.offset:g}"}
    values |= dict.fromkeys((TruthKind.TARGETS, TruthKind.DIFFERENCES), f"are {low[0]:g}")
    are_equal = values.get(data.truth_kind, "are equal")
    yield f"all {TRUTH_NAMES.get(data.truth_kind, data.truth_kind.noun)} {are_equal} (check how they were read)"


def _label(data: Data, code: int) -> str:
    """A class in words."""
    return repr(data.classes[code] if data.classes else code)


def _of_rows(data: Data) -> Iterator[str]:
    """Rows that are all equal. No function is evaluated for it."""
    if data.is_lazy:
        return
    if is_given(data.rows):
        yield from _of_similarities(data, data.rows.reading.name)
        return
    if isinstance(data.matrix, Bins):
        if not len(data.matrix.edges) and not data.matrix.lacking and not data.matrix.n_categories:
            yield "all features are constant (check how they were read)"
        return
    if isinstance(data.matrix, SparseFeatures):
        (low, high), n_missing, size = data.matrix.ranges, 0, 1
    else:
        low, high, n_missing = _ranges(data.array)
        size = data.array.size
    weights = np.ones(len(low)) if data.feature_weights is None else data.feature_weights
    if n_missing == size:
        yield "all values of the features are missing (check how they were read)"
    elif not n_missing and (low == high)[weights > 0.0].all():
        some = "" if (weights > 0.0).all() else " of positive weight"
        yield f"all features{some} are constant (check how they were read)"
    elif data.truth_kind == TruthKind.NOTHING and isinstance(data.rows, Features) and data.rows.n_categories:
        varying = np.flatnonzero((low < high) & (weights > 0.0))
        if len(varying) == 1 and data.rows.n_categories[varying[0]]:
            yield "categories are cut by what other features say of them, and no other one varies (give more features)"


def _of_similarities(data: Data, name: str) -> Iterator[str]:
    """Similarities (or distances) of which each column has one value."""
    n_observed, are_alike = _observed(data)
    if n_observed and are_alike:
        share = 100.0 * n_observed / math.prod(data.matrix.shape)
        which = f"the {name}" if share == 100.0 else f"the {share:.3g} % of the {name} that are observed"
        yield f"{which} are the same for all rows (check how they were read)"


def _of_lacking(data: Data) -> Iterator[str]:
    """Similarities (or distances) of which most are unobserved."""
    if data.n_unobserved:
        n_pairs = data.n_rows * (data.n_rows - 1) // 2
        if 2 * data.n_unobserved > n_pairs:
            yield f"{n_pairs - data.n_unobserved:,} of {n_pairs:,} distances are observed (observe more of them)"
    if not is_given(data.rows) or data.is_lazy:
        return
    observed = _observed(data)[0] / math.prod(data.matrix.shape)
    if observed < 0.5:
        yield f"{100.0 - 100.0 * observed:.3g} % of the {data.rows.reading.name} are unobserved (observe more of them)"


def _of_few(problem: Bound) -> Iterator[str]:
    """A second class so rare, or pairs so few, that a tree seldom draws both kinds."""
    data = problem.data
    if isinstance(problem, PairProblem):
        drawn = problem.sampling.sample(problem.meaning.seed, 0)
        if (drawn.codes == drawn.codes[0]).all():
            yield "the pairs that a tree draws are seldom of both kinds (give more pairs)"
        if isinstance(problem.points, SparsePairs):
            return
        lacks: NDArray[np.bool_] = np.asarray(np.isnan(problem.points.points).any(axis=1))
        lacking = float(lacks[drawn.pairs].any(axis=1).mean())
        if problem.meaning.params.get("leafrank") == "linear" and lacking > 0.5:
            cure = "impute values, or give leafrank='tree'"
            yield f"{100.0 * lacking:.3g} % of the pairs lack a value, and leafrank='linear' needs all of them ({cure})"
        return
    if data.truth_kind != TruthKind.LABELS:
        return
    counts, n, n_draws = np.bincount(data.truth), data.n_rows, problem.sampling.n_draws
    most = int(counts.argmax())
    others = n - int(counts[most])
    if 2.0 * (1.0 - others / n) ** n_draws > 1.0:
        rare = f"all but {others:,} of {n:,} labels are {_label(data, most)}"
        yield f"{rare}, and a tree draws {n_draws:,} (raise max_samples)"


def _observed(data: Data) -> tuple[int, bool]:
    """The number of observed entries of a given matrix, and whether none of its columns has two values."""
    if isinstance(data.matrix, SparseSource):
        values = data.matrix.data
        return len(values), len(values) == 0 or bool(values.min() == values.max())
    low, high, n_missing = _ranges(data.array)
    return data.array.size - n_missing, not (low < high).any()


def _ranges(matrix: np.ndarray) -> tuple[Floats, Floats, int]:
    """The lowest and the highest value of each column, NaN if none is observed, and the number of missing values."""
    low, high = np.full((2, matrix.shape[1]), np.nan)
    n_missing = 0
    for _, block in row_blocks(matrix):
        low, high = np.fmin(low, np.fmin.reduce(block)), np.fmax(high, np.fmax.reduce(block))
        n_missing += int(np.isnan(block).sum())
    return low, high, n_missing
