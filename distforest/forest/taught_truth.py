"""Whether a ground truth is the one that a forest was taught, as far as the forest tells.

A forest holds no ground truth beside its leaf tables, some of which keep the distances, links or targets of the
training rows. Of the others the mean distances of leaves follow from a ground truth in one pass over its distances:
with leaves l of tree t that count c_l, members k of weight w_k and mass m_l, ::

    sum over leaves l' of c_l' d(l, l') = sum over members j of l of w_j / m_l (sum over k of s_tk z_kj),
    s_tk = c_l(k) w_k / m_l(k)

The left side is what the forest says, the right one what a ground truth does, for all trees t at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.forest.graph_leaves import GraphMembers
from distforest.forest.leaves import Members, drawn_weights
from distforest.forest.observed_leaves import ObservedLeafDistances, ObservedMembers
from distforest.forest.one_sided import rows_at_once, weighted_distances
from distforest.forest.scoring import between_nodes, telling_trees
from distforest.forest.target_leaves import TargetMembers
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from distforest.forest.forest import Forest
    from distforest.sources.source import Floats, Ints
    from distforest.sources.truth import Truth

CLOSE_ENOUGH = 1e-4
"""The share of the largest mean distance by which means of the same ground truth may differ, by rounding."""

ROUNDING_OF_MEANS = 1e-9
"""The share by which a mean may differ from itself if all deviate little from a common offset."""

SUMS_TO_CHECK = 1 << 32
"""Most products that are added up to check a ground truth; those of the fewest trees at least, see `checked_trees`."""


def check_own_distances(forest: Forest, truth: Truth, name: str = "y") -> None:
    """Refuse a ground truth that is not the one of the forest's training rows, as far as the forest tells.

    If the forest keeps the ground truth, as some kinds of leaf tables do, all of it is compared. Otherwise the mean
    distances of leaves are, of all trees, or if there are many rows of as many as `SUMS_TO_CHECK` allows. So nothing is
    known of a row that no tree drew, nor of the distance of two rows that no such tree drew together, nor of a change
    that leaves all of these means as they are, but for a share `CLOSE_ENOUGH` of the largest one.

    Parameters
    ----------
    forest, truth
        The forest, and the ground truth as it has learned it.
    name
        What a caller knows the ground truth by.

    Raises
    ------
    InputError
        The kind, the number of rows, or what is compared differs; or distances are unobserved where all were taught, or
        the other way round.
    """
    try:
        _check_kind(forest, truth)
        if not _keeps_this(forest, truth):
            _check_means(forest, truth)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def tells_what_was_taught(forest: Forest) -> bool:
    """Whether the means of its leaves tell labels or targets that a forest was taught from others.

    The leaves of all drawn rows must be known, a row must have counted by its weight alone, and none may have stayed at
    an inner node, as those do that lack a similarity.
    """
    if forest.leaves is None or forest.has_unrouted or getattr(forest.leaf_table, "class_weights", None) is not None:
        return False
    is_leaf = forest.table.is_leaf[forest.table.tree_start[:-1, None] + forest.training_nodes]
    return bool((is_leaf | (forest.in_bag == 0)).all())


def _check_kind(forest: Forest, truth: Truth) -> None:
    """Refuse a ground truth of another kind or size, or with unobserved distances unlike that of the fit."""
    learned = forest.meaning.leaf.learned
    if learned in (TruthKind.NOTHING, TruthKind.LINKS):
        raise InputError("a one-sided distance needs a forest that was taught distances of rows")
    if truth.kind != learned or len(truth.values) != forest.n_training:
        wanted, given = learned.noun, truth.kind.noun
        if learned != truth.kind:  # which may be the metric alone
            wanted, given = learned.noun_with_metric, truth.kind.noun_with_metric
        expected = f"{wanted} of the {forest.n_training:,} training rows were expected, as in the fit"
        raise InputError(f"{expected}, found {given} of {len(truth.values):,} rows")
    had_holes = isinstance(forest.leaf_table, (ObservedMembers, ObservedLeafDistances))
    if had_holes != bool(truth.n_unobserved):
        some = "some unobserved distances were" if had_holes else "no unobserved distance was"
        raise InputError(f"{some} expected, as in the fit, found {counted(truth.n_unobserved, 'unobserved pair')}")


def _keeps_this(forest: Forest, truth: Truth) -> bool:
    """Compare a ground truth with the one that the forest keeps; False if it keeps none, or in another form."""
    table, graph = forest.leaf_table, truth.graph
    if isinstance(table, GraphMembers) and graph is not None:
        stored, kept = graph.stored, table.kept
        if not (np.array_equal(stored.indptr, kept.indptr) and np.array_equal(stored.indices, kept.indices)):
            raise _other_truth("the links of nodes are others")
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
    """Refuse values that are not those that a forest keeps; raises InputError."""
    _check_near(kept, given + np.float64(truth.offset), truth.offset, "a value")


def _check_means(forest: Forest, truth: Truth) -> None:
    """Refuse a ground truth by which the leaves of some trees have other mean distances; raises InputError."""
    if truth.n_unobserved:
        _check_observed_means(forest, truth)
        return
    between, trees = between_nodes(forest).between, checked_trees(forest)
    for some in rows_at_once(len(trees), forest.n_training):
        probes = [LeafProbe.of(forest, int(tree)) for tree in trees[some]]
        shares = np.zeros((len(probes), forest.n_training))
        for row, probe in zip(shares, probes, strict=True):
            row[probe.drawn] = probe.of_leaf * probe.counts[probe.leaf]
        to_all = weighted_distances(shares, truth, np.arange(forest.n_training))
        for probe, own in zip(probes, to_all, strict=True):
            by_truth = np.bincount(probe.leaf, probe.of_leaf * own[probe.drawn]).astype(np.float64)
            blocks = rows_at_once(len(probe.nodes), len(probe.nodes))
            of_leaves = [between(probe.tree, probe.nodes[rows], probe.nodes) @ probe.counts for rows in blocks]
            _check_near(np.concatenate(of_leaves), by_truth, truth.offset, f"a mean of leaves of tree {probe.tree}")


def _check_observed_means(forest: Forest, truth: Truth) -> None:
    """Do the same where some distances are unobserved: each pair of leaves has a mean over others."""
    of_rows = forest.training_nodes, forest.in_bag, truth.values, truth.offset, 0.0, forest.sample_weight
    tables = between_nodes(forest), ObservedMembers(forest.table, *of_rows)
    for tree in np.intersect1d(checked_trees(forest), telling_trees(forest)).tolist():
        nodes = np.unique(forest.training_nodes[tree, forest.in_bag[tree] > 0]).astype(np.int64)
        for some in rows_at_once(len(nodes), len(nodes)):
            known, by_truth = (table.between(tree, nodes[some], nodes) for table in tables)
            _check_near(known, by_truth, truth.offset, f"a mean of leaves of tree {tree}")


def _check_near(known: Floats, by_truth: Floats, offset: float, what: str) -> None:
    """Refuse numbers that differ by more than rounding, or are not observed alike; raises InputError."""
    observed = ~np.isnan(known)
    if not np.array_equal(observed, ~np.isnan(by_truth)):
        raise _other_truth("others are unobserved")
    known, by_truth = known[observed], by_truth[observed]
    if not known.size:
        return
    largest = max(float(np.abs(known).max()), float(np.abs(by_truth).max()))
    apart = np.abs(known - by_truth)
    if (apart > CLOSE_ENOUGH * float(np.abs(known - offset).max()) + ROUNDING_OF_MEANS * largest).any():
        most = int(np.argmax(apart))
        raise _other_truth(f"{what} is {known[most]:.6g}, and {by_truth[most]:.6g} as given")


def _other_truth(found: str) -> InputError:
    return InputError(f"what the forest was taught was expected, as in the fit, found something else: {found}")


class LeafProbe(NamedTuple):
    """The leaves of a tree, which count by random weights, so that no two ground truths agree by chance.

    Attributes
    ----------
    tree, nodes
        The tree, and the numbers of its leaves that drew rows, shape (n_leaves,).
    drawn, leaf, of_leaf
        The rows that it drew, the place of the leaf of each in ``nodes``, and its share of that leaf's weight.
    counts
        How much each leaf counts, shape (n_leaves,), 1 in all.
    """

    tree: int
    nodes: Ints
    drawn: Ints
    leaf: Ints
    of_leaf: Floats
    counts: Floats

    @classmethod
    def of(cls, forest: Forest, tree: int) -> LeafProbe:
        """The leaves of a tree of the forest."""
        weights = drawn_weights(forest.in_bag, forest.sample_weight, tree).astype(np.float64)
        drawn = np.flatnonzero(weights)
        nodes, leaf = np.unique(forest.training_nodes[tree, drawn], return_inverse=True)
        counts = np.random.default_rng(tree).random(len(nodes))
        of_leaf = weights[drawn] / np.bincount(leaf, weights[drawn])[leaf]
        return cls(tree, nodes.astype(np.int64), drawn, leaf, of_leaf, counts / counts.sum())


def checked_trees(forest: Forest) -> Ints:
    """The trees that drew a row which no earlier one drew, and of the others the first ones, as many as are allowed."""
    n_trees = forest.n_trees
    first = np.unique(np.argmax(forest.in_bag[:, forest.in_bag.any(axis=0)] > 0, axis=0))
    others = np.setdiff1d(np.arange(n_trees), first)
    return np.sort(np.append(first, others[: max(0, SUMS_TO_CHECK // forest.n_training**2 - len(first))]))
