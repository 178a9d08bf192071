r"""Standard errors of the answers of a forest, from its trees (Wager, Hastie, Efron, 2014).

Trees draw rows, so a row is the unit, even if the answer is about a pair: a row that is drawn more often brings all its
distances with it. N_bi is the number of times that tree b drew row i, t_b the answer of tree b, B the number of trees,
n that of rows. Both estimates measure how the answer depends on each single row::

    infinitesimal jackknife    V_IJ = sum_i C_i^2,                C_i = mean_b (N_bi - N_i)(t_b - t)
    jackknife after bootstrap  V_J  = (n - 1)/n sum_i D_i^2,      D_i = mean of t_b over trees with N_bi = 0, less t

C_i and D_i are means over few trees, whose squares are too large: by v var(N_i)/B and by v (1/B_i - 1/B), where v is
the variance of t_b, and B_i the number of trees with N_bi = 0. These are subtracted (section 3.1). The rest of V_IJ is
too small for few rows and that of V_J too large, so their mean is taken (section 5.2). If each tree draws s of n rows
without replacement, V_IJ is multiplied by n (n - 1)/(n - s)^2 (Wager, Athey, 2018, Eq. 8).

The subtracted terms are sums of random numbers, so the rest has noise: the standard deviation of a sum of n squares of
normal numbers, sqrt(2 sum (term subtracted for row i)^2). A smaller variance cannot be distinguished from noise, so the
noise is used instead: an interval is not narrower than these trees can show. (Cut off at 0 instead, 7 % of the
intervals had almost no width at n = 320 with 500 trees.)

This is the variance of a forest of infinitely many trees. A finite forest adds v/B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import InputError
from distforest.forest.scoring import between_nodes, informative_trees

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from distforest.forest.forest import Forest
    from distforest.sources.source import Floats, Int32s

BLOCK_ANSWERS = 1 << 23
"""Largest number of entries, trees or rows times pairs, that are held at once."""


@dataclass(frozen=True)
class TreeDraws:
    """The number of times that trees drew rows.

    Attributes
    ----------
    counts
        Shape (n_trees, n_rows), without rows that no tree can draw.
    repeated
        Whether a tree may draw a row several times.
    """

    counts: NDArray[np.uint8]
    repeated: bool

    @classmethod
    def from_forest(cls, forest: Forest) -> TreeDraws:
        """Return the draws of the trees with distances.

        Raises
        ------
        InputError
            There is one tree, or all trees have drawn the same rows.
        """
        counts = forest.in_bag[informative_trees(forest)]
        if forest.sample_weight is not None:
            counts = counts[:, forest.sample_weight > 0]
        if len(counts) < 2 or (counts == counts[0]).all():
            found = "all of them have drawn the same rows" if len(counts) > 1 else f"found {len(counts)}"
            cure = "fit with bootstrap=True or a smaller max_samples, and hundreds of trees"
            raise InputError(f"standard errors follow from trees that have drawn different rows, but {found}; {cure}")
        return cls(counts, bool(forest.meaning.params.get("bootstrap", False)))

    def infinitesimal(self, answers: Floats) -> tuple[Floats, Floats]:
        """Return V_IJ of answers, shape (n_trees, m), less the part due to few trees, and its noise, shapes (m,).

        The first may be below 0.
        """
        n_trees, n_rows = self.counts.shape
        away = answers - answers.mean(axis=0)
        counts = self.counts - self.counts.mean(axis=0)
        covariances = counts.T @ away / n_trees
        added = counts.var(axis=0)[:, None] * away.var(axis=0) / n_trees
        n_drawn = float(self.counts[0].sum())
        factor = 1.0 if self.repeated else n_rows * (n_rows - 1) / (n_rows - n_drawn) ** 2
        return factor * (covariances**2 - added).sum(axis=0), factor * np.sqrt(2.0 * (added**2).sum(axis=0))

    def leaving_out(self, answers: Floats) -> tuple[Floats, Floats]:
        """Return V_J and its noise, as `infinitesimal`; there must be trees without each row."""
        n_trees, n_rows = self.counts.shape
        away = answers - answers.mean(axis=0)
        absent = (self.counts == 0).astype(np.float64)
        n_without = absent.sum(axis=0)[:, None]
        changes = absent.T @ away / n_without
        added = (1.0 / n_without - 1.0 / n_trees) * away.var(axis=0)
        share = (n_rows - 1) / n_rows
        return share * (changes**2 - added).sum(axis=0), share * np.sqrt(2.0 * (added**2).sum(axis=0))

    def standard_errors(self, answers: Floats) -> Floats:
        """Return the standard errors of the means of answers over the trees, shape (m,)."""
        found = [self.infinitesimal(answers)]
        if (self.counts == 0).any(axis=0).all():
            found.append(self.leaving_out(answers))
        variance, noise = np.mean(found, axis=0)
        return np.sqrt(np.maximum(variance, noise) + answers.var(axis=0) / len(answers))


def pair_standard_errors(forest: Forest, left: Int32s, right: Int32s) -> Floats:
    """Return the standard errors of the forest's distances of pairs, shape (n_pairs,).

    Parameters
    ----------
    forest
        The forest.
    left, right
        Nodes of the rows, from `distforest.forest.scoring.apply`, shapes (n_trees, n_pairs).

    Raises
    ------
    InputError
        As `TreeDraws.from_forest`.
    """
    draws, errors = TreeDraws.from_forest(forest), np.empty(left.shape[1])
    for block in _blocks(left.shape[1], max(draws.counts.shape)):
        errors[block] = draws.standard_errors(tree_distances(forest, left[:, block], right[:, block]))
    return errors


def tree_distances(forest: Forest, left: Int32s, right: Int32s) -> Floats:
    """Return the distance of each pair in each tree with distances, shape (n_trees, n_pairs)."""
    leaf_table = between_nodes(forest)
    return np.stack(
        [
            leaf_table.pairs(tree, left[tree].astype(np.int64), right[tree].astype(np.int64))
            for tree in informative_trees(forest).tolist()
        ]
    )


def _blocks(n_pairs: int, height: int) -> Iterator[slice]:
    step = max(1, BLOCK_ANSWERS // height)
    return (slice(first, min(n_pairs, first + step)) for first in range(0, n_pairs, step))
