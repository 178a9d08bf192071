"""Out-of-bag error of a forest as trees are added.

A forest does not contain its ground truth, so the caller passes it again. The error after t trees is that of the
first t trees: each row, or pair of rows, is scored by those of them that did not draw it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.evaluation.roc import ROC
from distforest.forest import scoring
from distforest.forest.leaf_kinds import KeepsVotes
from distforest.forest.pairs import pair_scores
from distforest.sources.truth import Truth, TruthKind, pairs_of_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from distforest.forest.forest import Forest
    from distforest.sources.source import Floats, Ints

    Scorer = Callable[[Floats, np.ndarray], float]
    Running = Iterator[tuple[Floats, Floats]]

MOST_POINTS = 100
"""Largest number of points of a curve."""

MOST_PAIRS = 1 << 16
"""Pairs of training rows that are scored: all, or so many drawn at random, the same ones every time."""


@dataclass(frozen=True)
class ErrorCurve:
    """Out-of-bag error of the first trees of a forest.

    Attributes
    ----------
    n_trees
        Numbers of trees, ascending, shape (n_points,).
    error
        The error of that many trees, shape (n_points,).
    measure
        Name of the error.
    judged
        Number of rows or pairs that all trees score, in words.
    """

    n_trees: Ints
    error: Floats
    measure: str
    judged: str


def error_curve(forest: Forest, truth: Truth) -> ErrorCurve:
    """Compute the out-of-bag error over the trees.

    Parameters
    ----------
    forest
        The forest.
    truth
        The ground truth of its training rows, in their order; or labels, for a forest on pairs or without ground truth.

    Returns
    -------
    ErrorCurve
        The error is that of predictions if the forest predicts, and that of distances if it has learned distances. For
        a vote on pairs it is the share of misclassified pairs. Otherwise it is the area above the ROC curve of
        distances, for which pairs of the same label are similar.

    Raises
    ------
    InputError
        The ground truth has another kind or length; no row is out of bag, or out-of-bag rows were not routed.
    """
    if len(truth.values) != forest.n_training:
        found = f"found {len(truth.values):,}"
        raise InputError(f"truth: one for each of {counted(forest.n_training, 'training row')} was expected, {found}")
    if isinstance(forest.leaf_table, scoring.Predicting) and not forest.nearest_votes:
        return _curve(forest, _predictions(forest), *_scorer_of_rows(forest, truth), "row")
    left, right = scored_pairs(forest.n_training)
    if truth.n_unobserved:
        is_known = ~np.isnan(truth.distances(left, right))
        left, right = left[is_known], right[is_known]
    judged = _scorer_of_pairs(forest, truth, left, right)
    return _curve(forest, _pair_distances(forest, left, right), *judged, "pair")


def out_of_bag_roc(forest: Forest, truth: Truth) -> ROC:
    """Compute the ROC curve of out-of-bag distances of pairs, which are similar if they have the same label.

    Raises
    ------
    InputError
        The ground truth is not labels, or all pairs are of one class; or as for `error_curve`.
    """
    if truth.kind is not TruthKind.LABELS:
        raise InputError(f"truth: labels were expected for the ROC curve of pairs, found {truth.kind}")
    left, right = scored_pairs(forest.n_training)
    *_, (total, count) = _pair_distances(forest, left, right)
    known = count > 0
    similar = truth.distances(left[known], right[known]) == 0.0
    if similar.all() or not similar.any():
        raise InputError("truth: pairs of one label and of two labels were expected, found pairs of one kind")
    fpr, tpr, _ = roc_curve(similar, -total[known] / count[known])
    return ROC(fpr, tpr)


def scored_pairs(n_rows: int) -> tuple[Ints, Ints]:
    """Return all pairs i < j of rows, or a fixed random sample of `MOST_PAIRS` of them."""
    left, right = pairs_of_rows(n_rows)
    drawn = np.arange(len(left))
    if len(left) > MOST_PAIRS:
        drawn = np.sort(np.random.default_rng(0).choice(len(left), MOST_PAIRS, replace=False))
    return left[drawn], right[drawn]


def curve_points(n_trees: int) -> Ints:
    """Return the numbers of trees at which a curve has a point: all, or about `MOST_POINTS` up to the last.

    Examples
    --------
    >>> curve_points(3).tolist(), curve_points(500)[[0, 1, -1]].tolist(), len(curve_points(500))
    ([1, 2, 3], [5, 10, 500], 100)
    """
    return np.unique(np.linspace(n_trees / MOST_POINTS, n_trees, MOST_POINTS).clip(1.0).astype(np.int64))


def _curve(forest: Forest, running: Running, scorer: Scorer, measure: str, noun: str) -> ErrorCurve:
    """Score the running sums at the points of the curve, except those without anything out of bag."""
    wanted, found = set(curve_points(forest.n_trees).tolist()), list[tuple[int, float]]()
    n_scored = 0
    for n_trees, (total, count) in enumerate(running, start=1):
        known = count > 0
        if n_trees in wanted and known.any():
            n_scored = int(known.sum())
            found.append((n_trees, scorer(total[known] / count[known].reshape(-1, *[1] * (total.ndim - 1)), known)))
    if not found:
        raise InputError("every tree drew all rows, so none is out of bag; grow with bootstrap=True")
    numbers, errors = zip(*found, strict=True)
    return ErrorCurve(np.array(numbers), np.array(errors), measure, counted(n_scored, noun))


# --- rows -------------------------------------------------------------------------------------------------


def _predictions(forest: Forest) -> Running:
    """Return, after each tree, the sums of the predictions of trees that did not draw a row, and their number."""
    leaf_table, nodes = scoring.predicting(forest), forest.training_nodes
    total, count = np.zeros((forest.n_training, leaf_table.n_outputs)), np.zeros(forest.n_training)
    for tree in range(forest.n_trees):
        out = forest.in_bag[tree] == 0
        total[out] += leaf_table.outputs(tree, nodes[tree, out].astype(np.int64))
        count += out
        yield total, count


def _scorer_of_rows(forest: Forest, truth: Truth) -> tuple[Scorer, str]:
    """Return how predictions are scored, and the name of the measure."""
    learned = forest.meaning.leaf.learned
    if truth.kind != learned:
        raise InputError(f"truth: {learned} were expected, which the forest was taught, found {truth.kind}")
    if truth.kind is TruthKind.LABELS:
        if [*map(str, truth.classes or ())] != [*map(str, forest.meaning.classes or ())]:
            raise InputError(f"truth: the classes {forest.meaning.classes} were expected, found {truth.classes}")
        return lambda said, known: float(
            np.mean(said.argmax(axis=1) != truth.values[known])
        ), "share of rows misclassified"
    if truth.kind is TruthKind.DIFFERENCES:
        return lambda said, known: float(np.abs(said - truth.values[known]).mean()), "mean absolute error of targets"
    return lambda said, known: _root_mean_square(said - truth.values[known]), f"root mean squared error of {learned}"


def _root_mean_square(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(errors**2)))


# --- pairs ------------------------------------------------------------------------------------------------


def _pair_distances(forest: Forest, left: Ints, right: Ints) -> Running:
    """Return, after each tree, the sums of the distances by trees that drew neither row, and their weights."""
    total, weight = np.zeros(len(left)), np.zeros(len(left))
    for tree in range(forest.n_trees):
        unseen = forest.in_bag[tree] == 0
        out = np.flatnonzero(unseen[left] & unseen[right])
        parts, wholes = _distances_of_tree(forest, tree, left[out], right[out])
        total[out] += parts
        weight[out] += wholes
        yield total, weight


def _distances_of_tree(forest: Forest, tree: int, left: Ints, right: Ints) -> tuple[Floats, Floats | float]:
    """Return what a tree adds to the sums of the distances of pairs, and to their weights."""
    if not pair_scores.is_over_pairs(forest):
        nodes = forest.training_nodes[tree].astype(np.int64)
        found = scoring.between_nodes(forest).pairs(tree, nodes[left], nodes[right])
        tells = ~np.isnan(found)  # a tree that drew no observed distance knows none
        return np.where(tells, found, 0.0), tells.astype(np.float64)
    table = pair_scores.node_scores(forest)
    numbers = np.stack([left, right], axis=1).astype(np.int32)
    ends = pair_scores.walked(table.walks, tree, pair_scores.training_pairs(forest, numbers))
    wholes = 1.0 if table.wholes is None else table.wholes[ends]
    return (table.parts[ends] if table.dissimilar else wholes - table.parts[ends]), wholes


def _scorer_of_pairs(forest: Forest, truth: Truth, left: Ints, right: Ints) -> tuple[Scorer, str]:
    """Return how distances are scored, and the name of the measure."""
    learned, true = forest.meaning.leaf.learned, truth.distances(left, right)
    if truth.kind is TruthKind.DISTANCES and learned is TruthKind.DISTANCES:
        return lambda found, known: _root_mean_square(found - true[known]), "root mean squared error of distances"
    if truth.kind is not TruthKind.LABELS:
        raise InputError(f"truth: labels were expected for a forest that was taught {learned}, found {truth.kind}")
    if isinstance(forest.meaning.leaf, KeepsVotes):
        return lambda found, known: float(np.mean((found > 0.5) != (true[known] > 0.0))), "share of pairs misclassified"

    def area_above(found: Floats, known: np.ndarray) -> float:
        similar = true[known] == 0.0  # pairs of one kind have the area of chance
        return float(1.0 - roc_auc_score(similar, -found)) if 0 < similar.sum() < len(similar) else 0.5

    return area_above, "area above the ROC curve of pairs"
