"""Causes of trees without a split: data that are the same in all rows, and rules that stop a tree at its root.

The causes are looked for only when a forest has learned nothing, so the data may be read once more.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.roots import Roots
from distforest.growth.pairs.pair_problem import PairProblem
from distforest.sources.arrays import row_blocks
from distforest.sources.binned_table import Bins
from distforest.sources.row_kinds import is_given
from distforest.sources.sparse import SparseSource
from distforest.sources.sparse_features import SparseFeatures
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.growth.methods import Bound
    from distforest.growth.problem import Data
    from distforest.sources.source import Floats

TRUTH_NAMES = {
    TruthKind.DISTANCES: "distances that were given",
    TruthKind.EMBEDDING: "places in the embedding",
    TruthKind.DIRECTIONS: "directions of the vectors",
}
"""Names of some kinds of ground truth in messages."""

NO_REASON = "the cause is neither values that are all the same nor a rule that stops trees"
RAISED = "each split that was tried raises the mean distance inside its sides (check that large means far)"
RETURNED = "the similarities that a function has returned are the same for all objects (check that they differ)"
"""Causes in messages without another known cause: in general, for given distances, and for a function."""


def warning_about_roots(problem: Bound, roots: Roots, closed: int = 0) -> str:
    """Return a warning that a forest has no split (DF012), with consequence, causes and advice; else "".

    Parameters
    ----------
    problem
        The data and the method from which the forest has grown.
    roots
        Its trees without a split.
    closed
        Number of nodes without a cut, and of trees without a root, because the budget was spent.
    """
    follows = roots.warning()
    if not follows:
        return ""
    causes = [f"the budget was spent, which closed {closed:,} nodes or trees (raise it)"] if closed else []
    causes += [*_rules(problem), *_equal_truth(problem.data), *_equal_rows(problem.data)]
    causes = causes or list(_likely_causes(problem))
    unknown = RAISED if problem.data.truth.kind == TruthKind.DISTANCES else NO_REASON
    unknown = RETURNED if problem.data.is_lazy else unknown
    return f"{follows}: {'; '.join(causes) or unknown}"


def _rules(problem: Bound) -> Iterator[str]:
    """Yield the rules that stop a tree at its root."""
    params, is_of_pairs = problem.meaning.params, isinstance(problem, PairProblem)
    if params.get("optimise_fpr") == 0.0:
        yield "optimise_fpr=0.0 allows no cell to be split (raise it)"
    thing, more = ("pair", "give more pairs") if is_of_pairs else ("row", "raise max_samples")
    split, leaf = int(params.get("min_samples_split", 2)), int(params.get("min_samples_leaf", 1))
    if isinstance(problem, PairProblem):
        drawn = int(problem.sampling.sample(problem.meaning.seed, 0).weights.sum())
    else:
        drawn = problem.sampling.n_draws
    if drawn < 2:
        yield f"a tree draws one {thing} ({more})"
    elif drawn < split:
        yield f"a tree draws {drawn:,} {thing}s, and min_samples_split={split} makes them one leaf (lower it)"
    elif drawn < 2 * leaf:
        yield f"a tree draws {drawn:,} {thing}s, too few for two sides of min_samples_leaf={leaf} (lower it)"


def _equal_truth(data: Data) -> Iterator[str]:
    """Yield the cause that the ground truth is the same for all rows."""
    kind = data.truth.kind
    if kind in {TruthKind.NOTHING, TruthKind.LINKS}:
        return
    if data.truth.graph is not None:
        if not len(data.truth.graph.stored.data):
            yield f"all distances are {data.truth.graph.absent + data.truth.offset:g} (no two nodes are linked)"
        return
    low, high, _ = _ranges(data.truth.values.reshape(data.n_rows, -1))
    if (low < high).any() or (kind == TruthKind.DISTANCES and low.min() < high.max()):
        return
    if kind == TruthKind.LABELS:
        yield f"all labels are {_label(data, int(low[0]))} (give rows of a second class)"
        return
    values = {
        TruthKind.TARGETS: low[0],
        TruthKind.DIFFERENCES: low[0],
        TruthKind.DISTANCES: low[0] + data.truth.offset,
    }
    are_equal = f"are {values[kind]:g}" if kind in values else "are equal"
    yield f"all {TRUTH_NAMES.get(kind, kind.noun)} {are_equal} (check how they were read)"


def _label(data: Data, code: int) -> str:
    """Return the text of a class."""
    return repr(data.truth.classes[code] if data.truth.classes else code)


def _equal_rows(data: Data) -> Iterator[str]:
    """Yield the cause that all rows are equal, without evaluating a function."""
    if data.is_lazy:
        return
    if is_given(data.rows):
        n_observed, are_alike = _observed(data)
        if n_observed and are_alike:
            yield f"the {data.rows.reading.name} that are observed are the same for all rows (check how they were read)"
        return
    some, is_counted, lacks = "", np.ones(data.matrix.shape[1], np.bool_), False
    if isinstance(data.matrix, Bins):
        are_constant = not len(data.matrix.edges) and not data.matrix.lacking and not data.matrix.n_categories
    else:
        low, high, n_missing = (
            (*data.matrix.ranges, 0) if isinstance(data.matrix, SparseFeatures) else _ranges(data.array)
        )
        if n_missing == math.prod(data.matrix.shape):
            yield "all values of the features are missing (check how they were read)"
            return
        if data.feature_weights is not None and not (data.feature_weights > 0.0).all():
            some, is_counted = " of positive weight", data.feature_weights > 0.0
        are_constant, lacks = bool((low == high)[is_counted].all()), n_missing > 0
    if are_constant and not lacks:
        yield f"all features{some} are constant (check how they were read)"


def _likely_causes(problem: Bound) -> Iterator[str]:
    """Yield likely causes if none is sufficient: most values are unobserved, or a second class is rare."""
    data = problem.data
    if data.truth.n_unobserved:
        n_pairs = data.n_rows * (data.n_rows - 1) // 2
        if 2 * data.truth.n_unobserved > n_pairs:
            yield f"{n_pairs - data.truth.n_unobserved:,} of {n_pairs:,} distances are observed (observe more of them)"
    if is_given(data.rows) and not data.is_lazy:
        share = 100.0 * _observed(data)[0] / math.prod(data.matrix.shape)
        if share < 50.0:
            yield f"{100.0 - share:.3g} % of the {data.rows.reading.name} are unobserved (observe more of them)"
    if isinstance(problem, PairProblem):
        drawn = problem.sampling.sample(problem.meaning.seed, 0)
        if (drawn.codes == drawn.codes[0]).all():
            yield "the pairs that a tree draws are seldom of both kinds (give more pairs)"
    elif data.truth.kind == TruthKind.LABELS:
        counts, n, n_draws = np.bincount(data.truth.values), data.n_rows, problem.sampling.n_draws
        others = n - int(counts.max())
        if 2.0 * (1.0 - others / n) ** n_draws > 1.0:
            rare = f"all but {others:,} of {n:,} labels are {_label(data, int(counts.argmax()))}"
            yield f"{rare}, and a tree draws {n_draws:,} (raise max_samples)"


def _observed(data: Data) -> tuple[int, bool]:
    """Return the number of observed entries of a given matrix, and whether none of its columns has two values."""
    if isinstance(data.matrix, SparseSource):
        values = data.matrix.data
        return len(values), len(values) == 0 or bool(values.min() == values.max())
    low, high, n_missing = _ranges(data.array)
    return data.array.size - n_missing, not (low < high).any()


def _ranges(matrix: np.ndarray) -> tuple[Floats, Floats, int]:
    """Return the least and the greatest value of each column, NaN if none is observed; count missing ones."""
    low, high = np.full((2, matrix.shape[1]), np.nan)
    n_missing = 0
    for _, block in row_blocks(matrix):
        low, high = np.fmin(low, np.fmin.reduce(block)), np.fmax(high, np.fmax.reduce(block))
        n_missing += int(np.isnan(block).sum())
    return low, high, n_missing
