"""Importances of the columns that splits read, with standard errors over the trees.

By gain: the gain of the splits of a column. By permutation: the loss of out-of-bag accuracy when a column is permuted,
over pairs of rows that a tree did not draw (Breiman, Random Forests, 2001, section 10).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.forest.node_table import route
from distforest.forest.scoring import between_nodes, informative_trees, misplaced_rows, uses_proximity
from distforest.sources.arrays import ArraySource, is_complete

if TYPE_CHECKING:
    from distforest.forest.forest import Forest
    from distforest.sources.source import Float32s, Floats, Source
    from distforest.sources.truth import Truth

MOST_PERMUTED_ROWS = 512
"""Largest number of out-of-bag rows of a tree whose pairs are compared; of more rows, this many are drawn at random."""


@dataclass(frozen=True)
class FeatureImportances:
    """The importance of each column, with its standard error over the trees.

    Attributes
    ----------
    importances
        Shape (n_columns,).
    standard_errors
        Standard deviation over other forests on the same data, shape (n_columns,); NaN for a single tree.
    columns
        Names of the columns.
    """

    importances: Floats
    standard_errors: Floats
    columns: tuple[str, ...]

    def largest(self, n: int = 10) -> list[tuple[str, float, float]]:
        """Return the ``n`` columns of the largest importance: name, importance and standard error, the largest first.

        Examples
        --------
        >>> FeatureImportances(np.array([0.1, 0.9]), np.array([0.02, 0.02]), ("width", "length")).largest(1)
        [('length', 0.9, 0.02)]
        """
        order = np.argsort(-self.importances, kind="stable")[:n].tolist()
        return [(self.columns[k], float(self.importances[k]), float(self.standard_errors[k])) for k in order]


def gain_importances(forest: Forest, columns: tuple[str, ...]) -> FeatureImportances:
    """Compute `distforest.forest.scoring.feature_importances` with standard errors.

    A share is the ratio r = sum_b g_b / sum_b G_b of the gains of a column and of all columns in tree b, so its
    variance is that of a ratio of means: sum_b (g_b - r G_b)^2 / (B (B - 1) mean(G)^2).

    Parameters
    ----------
    forest
        A forest whose trees route rows by columns.
    columns
        Names of the columns.
    """
    table = forest.table
    gain = table.n_rows if uses_proximity(forest) else table.gain
    per_entry = np.repeat(gain.astype(np.float64), table.width)
    tree = np.repeat(np.arange(forest.n_trees), np.diff(table.offset[table.tree_start]))
    cells = tree * forest.n_columns + table.columns
    gains = np.bincount(cells, per_entry, forest.n_trees * forest.n_columns).reshape(forest.n_trees, -1)
    of_tree = gains.sum(axis=1)
    if not of_tree.sum():
        nothing = np.zeros(forest.n_columns)
        return FeatureImportances(nothing, nothing, columns)
    shares = gains.sum(axis=0) / of_tree.sum()
    errors = errors_of_means(gains - shares * of_tree[:, None]) / of_tree.mean()
    return FeatureImportances(shares, errors, columns)


def permutation_importances(
    forest: Forest, source: Source, truth: Truth, columns: tuple[str, ...], seed: int
) -> FeatureImportances:
    """Compute the increase of the error of out-of-bag distances when a column is permuted.

    In each tree, the column is permuted among the rows out of bag, and the increase of the mean squared error over
    all pairs i < j of them is taken; the importance is its mean over the trees. A pair counts as the product of the
    weights of its rows.

    Parameters
    ----------
    forest
        A forest whose trees route rows by features.
    source
        The training rows, shape (n_rows, n_columns).
    truth
        The ground truth of these rows.
    columns
        Names of the columns.
    seed
        Seed of the permutations, which follow from (seed, tree, column).

    Raises
    ------
    InputError
        The rows are not the training rows, or no tree left out two rows with an observed distance.
    """
    _check_training_rows(forest, source)
    found = [increases_of_tree(forest, tree, source, truth, seed) for tree in informative_trees(forest).tolist()]
    increases = [own for own in found if own is not None]
    if not increases:
        cure = "fit with bootstrap=True or a smaller max_samples, or grow more trees"
        raise InputError(f"no tree left two rows out of its sample whose distance was observed; {cure}")
    per_tree = np.array(increases)
    return FeatureImportances(per_tree.mean(axis=0), errors_of_means(per_tree), columns)


def errors_of_means(per_tree: Floats) -> Floats:
    """Return the standard error of the mean of each column of an array (n_trees, n_columns); NaN for a single tree."""
    n_trees = len(per_tree)
    if n_trees == 1:
        return np.full(per_tree.shape[1], np.nan)
    errors: Floats = per_tree.std(axis=0, ddof=1) / np.sqrt(n_trees)
    return errors


def _check_training_rows(forest: Forest, source: Source) -> None:
    """Refuse rows that do not end where the training rows do; raise InputError."""
    expected = "X: the training rows of the forest were expected, in order"
    cure = "for other rows use sklearn.inspection.permutation_importance"
    if source.shape[0] != forest.n_training:
        found = f"found {counted(source.shape[0], 'row')} instead of {forest.n_training:,}"
        raise InputError(f"{expected}, {found}; {cure}")
    if len(strange := misplaced_rows(forest, source, np.arange(forest.n_training))):
        raise InputError(f"{expected}, but row {strange[0]} ends in another node than in training; {cure}")


def increases_of_tree(forest: Forest, number: int, source: Source, truth: Truth, seed: int) -> list[float] | None:
    """Return the increase of a tree's error if a column is permuted among rows out of bag, for each column.

    The error is the mean squared error of the distances of pairs; for a column that no split reads the increase is 0.
    None if the tree left out no two rows with an observed distance.
    """
    out = forest.in_bag[number] == 0
    if forest.sample_weight is not None:
        out &= forest.sample_weight > 0
    numbers = np.flatnonzero(out)
    if len(numbers) > MOST_PERMUTED_ROWS:
        numbers = np.sort(np.random.default_rng((seed, number)).choice(numbers, MOST_PERMUTED_ROWS, replace=False))
    left, right = np.triu_indices(len(numbers), 1)
    true = truth.distances(numbers[left], numbers[right])
    known = ~np.isnan(true)
    left, right, true = left[known], right[known], true[known]
    if not len(true):
        return None
    of_rows = np.ones(len(numbers)) if forest.sample_weight is None else forest.sample_weight[numbers] / 1.0
    weights = of_rows[left] * of_rows[right]
    weights /= weights.sum()
    table = forest.routed_table.tree(number)
    rows = source.block(numbers.astype(np.int32), np.arange(forest.n_columns, dtype=np.int32)).astype(np.float32)

    def error_of(values: Float32s) -> float:
        nodes = route(
            table, ArraySource.from_values(values, is_complete(values)), np.arange(len(values), dtype=np.int32)
        )[0]
        met, place = np.unique(nodes.astype(np.int64), return_inverse=True)
        distances = between_nodes(forest).between(number, met, met)
        return float(weights @ (true - distances[place[left], place[right]]) ** 2)

    increases, error = [0.0] * forest.n_columns, error_of(rows)
    for column in np.unique(table.columns).tolist():
        order = np.random.default_rng((seed, number, column)).permutation(len(rows))
        permuted = rows.copy()
        permuted[:, column] = rows[order, column]
        increases[column] = error_of(permuted) - error
    return increases
