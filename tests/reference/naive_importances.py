"""Importances from their definitions, pair by pair and tree by tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.reference.naive_explanations import walk

if TYPE_CHECKING:
    from distforest.forest.forest import Forest


def permutation_importances(
    forest: Any, rows: np.ndarray, true: np.ndarray, weights: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean increase of the squared error of pairs out of bag, and its standard error, for each column."""
    own: Forest = forest.forest_
    increases = []
    for tree in range(own.n_trees):
        out = [row for row in range(len(rows)) if not own.in_bag[tree, row] and weights[row]]

        def error(values: np.ndarray, tree: int = tree, out: list[int] = out) -> float:
            ends = np.array([walk(own, tree, row)[-1] for row in values])
            losses, mass = 0.0, 0.0
            for i in range(len(out)):
                for j in range(i + 1, len(out)):
                    a, b = out[i], out[j]
                    if not np.isnan(true[a, b]):
                        found = own.leaf_table.between(tree, ends[i : i + 1], ends[j : j + 1])[0, 0]
                        losses += weights[a] * weights[b] * (found - true[a, b]) ** 2
                        mass += weights[a] * weights[b]
            return losses / mass

        before, of_tree = error(rows[out]), []
        for column in range(rows.shape[1]):
            order = np.random.default_rng((seed, tree, column)).permutation(len(out))
            values = rows[out].copy()
            values[:, column] = values[order, column]
            of_tree.append(error(values) - before)
        increases.append(of_tree)
    per_tree = np.array(increases)
    return per_tree.mean(axis=0), np.sqrt(per_tree.var(axis=0, ddof=1) / len(per_tree))


def gain_errors(forest: Forest) -> np.ndarray:
    """Standard errors of shares of the gain, by the variance of a ratio of two means."""
    table, n_trees = forest.table, forest.n_trees
    gains = np.zeros((n_trees, forest.n_columns))
    for tree in range(n_trees):
        for node in range(table.tree_start[tree], table.tree_start[tree + 1]):
            for entry in range(table.offset[node], table.offset[node + 1]):
                gains[tree, table.columns[entry]] += table.gain[node]
    total = gains.sum(axis=1)
    ratio = gains.sum(axis=0) / total.sum()
    squares = sum((gains[tree] - ratio * total[tree]) ** 2 for tree in range(n_trees))
    return np.sqrt(squares / (n_trees * (n_trees - 1))) / total.mean()
