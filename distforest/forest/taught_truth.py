"""Checks whether a ground truth is that of a forest's training, as far as the forest can show it.

Some leaf tables keep the distances, links or targets of the training rows, which are compared one by one. Class counts
and means of leaves are computed again. If only distances of leaves are kept, those of some trees are computed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.forest.graph_leaves import GraphMembers, KeptLinks
from distforest.forest.leaves import ClassCounts, Means
from distforest.forest.members import Members
from distforest.forest.node_sums import Moments, class_counts_of, describe
from distforest.forest.observed_leaves import ObservedLeafDistances, ObservedMembers
from distforest.forest.one_sided import rows_at_once
from distforest.forest.scoring import between_nodes, informative_trees
from distforest.forest.target_leaves import TargetMembers
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from distforest.forest.forest import Forest
    from distforest.forest.leaves import LeafTable
    from distforest.sources.source import Floats, Ints
    from distforest.sources.truth import Truth

CLOSE_ENOUGH = 1e-4
"""Share of the largest mean distance by which means of the same ground truth may differ, due to rounding."""

ROUNDING_OF_MEANS = 1e-9
"""Share by which a mean may differ from itself if all values deviate little from a common offset."""

SUMS_TO_CHECK = 1 << 32
"""Largest number of products that are added up for a check, beyond the fewest trees: see `checked_trees`."""


def check_own_distances(forest: Forest, truth: Truth, name: str = "y") -> None:
    """Refuse a ground truth that is not that of the forest's training rows, as far as the forest can show it.

    If the forest keeps the ground truth, as some kinds of leaf tables do, all of it is compared. Otherwise the contents
    of leaves are compared: class counts, means, or the mean distances of leaves, for as many trees as `SUMS_TO_CHECK`
    allows. So the check misses rows that no tree drew, and changes that leave all means equal to within the share
    `CLOSE_ENOUGH` of the largest mean.

    Parameters
    ----------
    forest, truth
        The forest, and the ground truth in the kind of its training.
    name
        Name of the ground truth in messages.

    Raises
    ------
    InputError
        The kind, the number of rows, or a compared value differs; or distances are unobserved where all were observed
        in training, or the other way round.
    """
    try:
        _check_kind(forest, truth)
        if not _keeps_this(forest, truth):
            _check_leaves(forest, truth)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def _check_kind(forest: Forest, truth: Truth) -> None:
    """Refuse a ground truth of another kind or size, or with unobserved distances unlike that of the fit."""
    learned = forest.meaning.leaf.learned
    if learned in (TruthKind.NOTHING, TruthKind.LINKS):
        raise InputError("a one-sided distance needs a forest that was trained on distances of rows")
    if truth.kind != learned or len(truth.values) != forest.n_training:
        wanted, given = learned.noun, truth.kind.noun
        if learned != truth.kind:  # possibly only in the metric
            wanted, given = learned.noun_with_metric, truth.kind.noun_with_metric
        expected = f"{wanted} of the {forest.n_training:,} training rows were expected, as in the fit"
        raise InputError(f"{expected}, found {given} of {len(truth.values):,} rows")
    had_holes = isinstance(forest.leaf_table, (ObservedMembers, ObservedLeafDistances))
    if had_holes != bool(truth.n_unobserved):
        some = "some unobserved distances were" if had_holes else "no unobserved distance was"
        raise InputError(f"{some} expected, as in the fit, found {counted(truth.n_unobserved, 'unobserved pair')}")


def _keeps_this(forest: Forest, truth: Truth) -> bool:
    """Compare a ground truth with the one that the forest keeps; return False if it keeps none, or in another form."""
    table, graph = forest.leaf_table, truth.graph
    if isinstance(table, GraphMembers) and graph is not None:
        stored, kept = graph.stored, table.kept
        if not (np.array_equal(stored.indptr, kept.indptr) and np.array_equal(stored.indices, kept.indices)):
            raise _other_truth("other links of nodes")
        _check_same(
            np.append(kept.distances, table.absent) + table.offset, np.append(graph.values, graph.absent), truth
        )
    elif isinstance(table, TargetMembers):
        _check_same(table.targets, truth.values, truth)
    elif isinstance(table, Members) and not table.scale and truth.values.shape == table.distances.shape:
        for rows in rows_at_once(len(truth.values), len(truth.values)):
            _check_same(table.distances[rows] + np.float64(table.offset), truth.values[rows], truth)
    else:
        return False
    return True


def _check_same(kept: np.ndarray, given: np.ndarray, truth: Truth) -> None:
    """Refuse values that differ from those that a forest keeps; raise InputError."""
    _check_near(kept, given + np.float64(truth.offset), truth.offset, "a value")


def _check_leaves(forest: Forest, truth: Truth) -> None:
    """Refuse a ground truth that leads to other leaves."""
    kept, table, leaves = forest.leaf_table, forest.table, forest.leaves
    assert leaves is not None  # noqa: S101  (a forest over pairs was trained on links, which are refused before)
    weights = forest.in_bag if forest.sample_weight is None else forest.in_bag * forest.sample_weight
    if isinstance(kept, ClassCounts):
        labels, n_classes = truth.values, kept.n_outputs
        if labels.max(initial=0) >= n_classes:
            raise _other_truth("other classes")
        if not np.array_equal(class_counts_of(table, leaves, weights, labels, n_classes), kept.class_counts):
            raise _other_truth("other labels")
        if kept.costs is not None and (truth.costs is None or not np.array_equal(kept.costs, truth.costs)):
            raise _other_truth("other costs")
    elif isinstance(kept, Means):
        moments = Moments.zeros(len(table.left), kept.n_outputs)
        if truth.values.shape[1:] != (kept.n_outputs,):
            raise _other_truth(f"vectors of {counted(truth.values.shape[1], 'dimension')}")
        describe(table.tree_start, table.left, table.right, leaves, weights, truth.values, moments)
        for known, by_truth in zip(kept.means.T, moments.means.T, strict=True):
            _check_near(known, by_truth, float(known.mean()), "the mean of a leaf")
    else:
        _check_distances(forest, truth)


def _check_distances(forest: Forest, truth: Truth) -> None:
    """Refuse distances of training rows if leaves of some trees have other means."""
    of_rows = forest.table, forest.training_nodes, forest.in_bag
    taught: LeafTable
    if truth.graph is not None:
        links = KeptLinks(truth.graph.stored.indptr, truth.graph.stored.indices, truth.graph.values)
        taught = GraphMembers(*of_rows, links, truth.graph.absent, truth.offset, forest.sample_weight)
    else:
        kind = ObservedMembers if truth.n_unobserved else Members
        taught = kind(*of_rows, truth.values, truth.offset, 0.0, forest.sample_weight)
    for tree in np.intersect1d(checked_trees(forest), informative_trees(forest)).tolist():
        nodes = np.unique(forest.training_nodes[tree, forest.in_bag[tree] > 0]).astype(np.int64)
        for some in rows_at_once(len(nodes), len(nodes)):
            known, by_truth = (table.between(tree, nodes[some], nodes) for table in (between_nodes(forest), taught))
            _check_near(known, by_truth, truth.offset, f"a mean of leaves of tree {tree}")


def _check_near(known: Floats, by_truth: Floats, offset: float, what: str) -> None:
    """Refuse numbers that differ by more than rounding, or differ in which are observed; raise InputError."""
    observed = ~np.isnan(known)
    if not np.array_equal(observed, ~np.isnan(by_truth)):
        raise _other_truth("other distances are unobserved")
    known, by_truth = known[observed], by_truth[observed]
    if not known.size:
        return
    largest = max(float(np.abs(known).max()), float(np.abs(by_truth).max()))
    apart = np.abs(known - by_truth)
    if (apart > CLOSE_ENOUGH * float(np.abs(known - offset).max()) + ROUNDING_OF_MEANS * largest).any():
        most = int(np.argmax(apart))
        raise _other_truth(f"{what} is {known[most]:.6g}, and {by_truth[most]:.6g} as given")


def _other_truth(found: str) -> InputError:
    return InputError(f"the ground truth that the forest was taught was expected, found something else: {found}")


def checked_trees(forest: Forest) -> Ints:
    """Return the trees that drew a row which no earlier tree drew, and then the first others, as many as allowed."""
    n_trees = forest.n_trees
    first = np.unique(np.argmax(forest.in_bag[:, forest.in_bag.any(axis=0)] > 0, axis=0))
    others = np.setdiff1d(np.arange(n_trees), first)
    return np.sort(np.append(first, others[: max(0, SUMS_TO_CHECK // forest.n_training**2 - len(first))]))
