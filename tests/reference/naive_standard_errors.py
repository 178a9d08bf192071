"""The jackknives of a forest from their definitions, row by row and tree by tree (Wager, Hastie, Efron, 2014)."""

from __future__ import annotations

import numpy as np


def infinitesimal(counts: np.ndarray, answers: np.ndarray, repeated: bool) -> tuple[float, float]:
    """Sum over rows of the squared covariance of draws and answers, less its bias; and the noise of what is left."""
    n_trees, n_rows = counts.shape
    mean = sum(answers) / n_trees
    v = sum((t - mean) ** 2 for t in answers) / n_trees
    total = squares = 0.0
    for row in range(n_rows):
        drawn = sum(float(n) for n in counts[:, row]) / n_trees
        covariance = sum((counts[b, row] - drawn) * (answers[b] - mean) for b in range(n_trees)) / n_trees
        bias = sum((counts[b, row] - drawn) ** 2 for b in range(n_trees)) / n_trees * v / n_trees
        total += covariance**2 - bias
        squares += bias**2
    factor = 1.0 if repeated else n_rows * (n_rows - 1) / (n_rows - int(counts[0].sum())) ** 2
    return factor * total, factor * float(np.sqrt(2.0 * squares))


def after_bootstrap(counts: np.ndarray, answers: np.ndarray) -> tuple[float, float]:
    """Sum over rows of the squared change without the trees that drew it, less its bias; and the noise."""
    n_trees, n_rows = counts.shape
    mean = sum(answers) / n_trees
    v = sum((t - mean) ** 2 for t in answers) / n_trees
    total = squares = 0.0
    for row in range(n_rows):
        without = [answers[b] for b in range(n_trees) if counts[b, row] == 0]
        bias = v * (1 / len(without) - 1 / n_trees)
        total += (sum(without) / len(without) - mean) ** 2 - bias
        squares += bias**2
    share = (n_rows - 1) / n_rows
    return share * total, share * float(np.sqrt(2.0 * squares))


def standard_error(counts: np.ndarray, answers: np.ndarray, repeated: bool) -> float:
    """The root of the mean of both (of the first if a row is in all trees), or of their noise; and the trees' own."""
    found = [infinitesimal(counts, answers, repeated)]
    if (counts == 0).any(axis=0).all():
        found.append(after_bootstrap(counts, answers))
    variance, noise = (sum(one[k] for one in found) / len(found) for k in (0, 1))
    return float(np.sqrt(max(variance, noise) + np.var(answers) / len(answers)))
