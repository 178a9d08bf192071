"""Pairs whose best ranking is known: a random tree of cells, each with its shares of similar and dissimilar pairs.

The generator is that of Similarity TreeRank (Clémençon and Vogel), section 6.4. A pair (x, x') of points in R^p is
described by f = ((x + x') / sqrt 2, |x - x'| / sqrt 2) of their lemma 1. A tree of depth D cuts the space of f into 2^D
cells: each cut takes one of the 2p columns at random and a threshold that is uniform over that column in the cell. The
cells are numbered from left to right, l = 0 ... L = 2^D - 1. A similar pair is in cell l with a probability
proportional to delta^(l / L), a dissimilar one with a probability proportional to delta^(-l / L), and both are uniform
within the cell.

The paper gives X = R^3 without bounds, in which there is no uniform distribution. Here f is in the box [-1, 1]^p x [0,
1]^p, as in the authors' program, so the points are within +- sqrt 2. Then every cell is a box of positive volume, and a
uniform pair needs no rejection: f is drawn in the box, and x and x' are (u + s v) / sqrt 2 and (u - s v) / sqrt 2 for f
= (u, v) and p independent signs s. If instead the points were in the unit cube, the columns of f would bound each
other, and a cut could leave a cell almost no volume.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from distforest.arguments import check_finite, generator, numbers, whole
from distforest.errors import InputError
from distforest.evaluation.roc import ROC

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from distforest.arguments import Floats, RandomState

__all__ = ["RankedPairs", "RankingTruth", "treerank_pairs", "treerank_truth"]

DEEPEST = 16
"""Largest depth of a tree of cells."""

N_TRIES = 100
"""Number of times that cuts are drawn until none falls on the end of its cell, where it would leave no volume."""


@dataclass(frozen=True, eq=False)
class RankedPairs:
    """Pairs of points, which of them are similar, and the truth that they are drawn from.

    Attributes
    ----------
    left, right : ndarray of shape (m, p), float32
        The two points of each pair.
    similar : ndarray of shape (m,), bool
        Whether the pair is similar.
    cell : ndarray of shape (m,), int64
        The cell from which the pair is drawn. Points are then rounded to float32, so that a pair within about 1e-7 of a
        border may be on its other side.
    truth : RankingTruth
        The truth that the pairs are drawn from; ``truth.draw(n)`` draws test pairs.
    """

    left: NDArray[np.float32]
    right: NDArray[np.float32]
    similar: NDArray[np.bool_]
    cell: NDArray[np.int64]
    truth: RankingTruth

    @property
    def optimal(self) -> ROC:
        """The best ROC curve that any score of pairs can have."""
        return self.truth.optimal


@dataclass(frozen=True, eq=False)
class RankingTruth:
    """A tree of cells of pairs, and the distribution of similar and dissimilar pairs over them.

    Attributes
    ----------
    column : ndarray of shape (n_cells - 1,), int64
        The column of f that each inner node cuts. Nodes are in heap order: the children of i are 2i + 1 and 2i + 2.
    threshold : ndarray of shape (n_cells - 1,), float64
        Threshold of each cut.
    upper_is_left : ndarray of shape (n_cells - 1,), bool
        Whether pairs at or above the threshold go left; else those below it do.
    lower, upper : ndarray of shape (n_cells, 2p), float64
        Bounds of each cell in f.
    positive, negative : ndarray of shape (n_cells,), float64
        Shares of the similar and of the dissimilar pairs in each cell, the paper's delta_l^+ and delta_l^-.
    p_plus : float
        Probability that a pair is similar.
    """

    column: NDArray[np.int64]
    threshold: Floats
    upper_is_left: NDArray[np.bool_]
    lower: Floats
    upper: Floats
    positive: Floats
    negative: Floats
    p_plus: float

    @cached_property
    def optimal(self) -> ROC:
        """The best ROC curve that any score of pairs can have: cells by falling delta_l^+ / delta_l^-, exact."""
        order = np.argsort(self.negative / self.positive, kind="stable")
        return ROC.of_counts(self.positive[order], self.negative[order])

    def draw(self, n: int, random_state: RandomState = None) -> RankedPairs:
        """Draw pairs, each independently similar with probability ``p_plus``; there may be none of one kind.

        Parameters
        ----------
        n : int
            Number of pairs.
        random_state : int, numpy.random.Generator or None
            Seed, or the generator to draw from; None: another seed each time.

        Returns
        -------
        RankedPairs

        Raises
        ------
        InputError
            ``n`` is not an integer >= 1, or ``random_state`` is none of the above.

        Examples
        --------
        >>> truth = treerank_truth(3, random_state=0)
        >>> truth.draw(1000, random_state=1).left.shape
        (1000, 3)
        """
        n, rng = whole("n", n, 1), generator(random_state)
        similar = rng.random(n) < self.p_plus
        place = rng.random(n)
        cell = np.where(similar, _cell_at(self.positive, place), _cell_at(self.negative, place))
        f = self.lower[cell] + (self.upper - self.lower)[cell] * rng.random((n, self.lower.shape[1]))
        u, v = np.hsplit(f, 2)
        v *= rng.integers(0, 2, v.shape) * 2 - 1
        left, right = ((x / math.sqrt(2)).astype(np.float32) for x in (u + v, u - v))
        return RankedPairs(left, right, similar, cell, self)

    def cells(self, left: ArrayLike, right: ArrayLike) -> NDArray[np.int64]:
        """The cell of each pair; the order of its points does not matter.

        Parameters
        ----------
        left, right : array_like of shape (m, p)
            Points.

        Returns
        -------
        ndarray of shape (m,), int64

        Raises
        ------
        InputError
            The arrays are not of shape (m, p) both, or a value is not finite.
        """
        a, b = numbers(left, "left", 2), numbers(right, "right", 2)
        p = self.lower.shape[1] // 2
        if a.shape != b.shape or a.shape[1] != p:
            raise InputError(f"left and right must be of shape (m, {p}) both, found {a.shape} and {b.shape}")
        check_finite(a, "left")
        check_finite(b, "right")
        f = np.hstack([a + b, np.abs(a - b)]) / math.sqrt(2)
        rows = np.arange(len(f))
        node = np.zeros(len(f), dtype=np.int64)
        for _ in range(len(self.positive).bit_length() - 1):
            goes_left = (f[rows, self.column[node]] >= self.threshold[node]) == self.upper_is_left[node]
            node = 2 * node + 2 - goes_left
        return node - len(self.column)

    def posterior(self, left: ArrayLike, right: ArrayLike) -> Floats:
        """The probability that a pair is similar, given its cell: the best possible score.

        eta = p_plus delta_l^+ / (p_plus delta_l^+ + (1 - p_plus) delta_l^-) in cell l.

        Parameters
        ----------
        left, right : array_like of shape (m, p)
            Points.

        Returns
        -------
        ndarray of shape (m,), float64

        Raises
        ------
        InputError
            As for ``cells``.

        Examples
        --------
        >>> truth = treerank_truth(1, noise=0.25, random_state=0)
        >>> test = truth.draw(1000, random_state=1)
        >>> np.unique(truth.posterior(test.left, test.right).round(12))
        array([0.2, 0.8])
        """
        similar, dissimilar = self.p_plus * self.positive, (1 - self.p_plus) * self.negative
        return (similar / (similar + dissimilar))[self.cells(left, right)]


def treerank_truth(
    depth: int,
    p: int = 3,
    noise: float = 0.01,
    p_plus: float = 0.5,
    *,
    shuffled: bool = False,
    random_state: RandomState = None,
) -> RankingTruth:
    """Draw a random tree of cells, from which pairs can be drawn: TreeRank's synthetic truth, section 6.4.

    With ``noise`` 0.01 the best AUC is 0.990, 0.983, 0.976, 0.970 for depths 1 to 4 by the paper's formula; the paper
    says about 0.96. The authors' program differs from their text in two ways. Its exponents are l / 2^D instead of l /
    (2^D - 1). This is the formula with ``noise=0.01 ** (1 - 0.5**depth)`` and makes the best AUC 0.909, 0.952, 0.960,
    0.962. And the program assigns the shares to the cells in random order, ``shuffled=True``, so that neighbours in the
    tree no longer have similar shares, which is much harder. With both changes a tree of single cuts gets the figures
    of the paper's table 1; with the text it is far from them.

    Parameters
    ----------
    depth : int
        Depth of the tree, D_gt: 2^depth cells; 1 to 16.
    p : int
        Number of coordinates of a point.
    noise : float
        The paper's delta, above 0 (the curve is the unit step) and below 1 (it is the diagonal).
    p_plus : float
        Probability that a pair is similar, between 0 and 1.
    shuffled : bool
        Whether to assign the shares to the cells in random order; else the best cell is the leftmost, as in the paper's
        text.
    random_state : int, numpy.random.Generator or None
        Seed, or the generator to draw from; None: another seed each time.

    Returns
    -------
    RankingTruth

    Raises
    ------
    InputError
        An argument is out of range.

    Examples
    --------
    >>> [round(treerank_truth(depth).optimal.auc, 3) for depth in (1, 2, 3, 4)]
    [0.99, 0.983, 0.976, 0.97]
    >>> [round(treerank_truth(depth, noise=0.01 ** (1 - 0.5**depth)).optimal.auc, 3) for depth in (1, 2, 3, 4)]
    [0.909, 0.952, 0.96, 0.962]
    """
    if whole("depth", depth, 1) > DEEPEST:
        raise InputError(f"depth must be at most {DEEPEST}, which makes {2**DEEPEST} cells, found {depth!r}")
    whole("p", p, 1)
    _check_share("noise", noise)
    _check_share("p_plus", p_plus)
    rng = generator(random_state)
    tree = _random_cells(int(depth), int(p), rng)
    power = np.linspace(0.0, 1.0, 2**depth)
    order = rng.permutation(len(power)) if shuffled else np.arange(len(power))
    positive, negative = noise**power, noise ** (1 - power)  # delta^(-l / L), over delta^-1
    return RankingTruth(*tree, positive[order] / positive.sum(), negative[order] / negative.sum(), float(p_plus))


def treerank_pairs(
    n: int,
    depth: int,
    p: int = 3,
    noise: float = 0.01,
    p_plus: float = 0.5,
    *,
    shuffled: bool = False,
    random_state: RandomState = None,
) -> RankedPairs:
    """Draw pairs from a new random tree of cells: `treerank_truth`, then its ``draw``.

    The paper trains on 150 (5/4)^(D^2) pairs for a tree of depth D, and tests on 100,000.

    Parameters
    ----------
    n : int
        Number of pairs.
    depth, p, noise, p_plus, shuffled, random_state
        As for `treerank_truth`.

    Returns
    -------
    RankedPairs
        ``truth`` draws test pairs, ``optimal`` is the best ROC curve.

    Raises
    ------
    InputError
        An argument is out of range.

    Examples
    --------
    >>> train = treerank_pairs(1117, depth=3, random_state=0)
    >>> test = train.truth.draw(100_000, random_state=1)
    >>> train.left.shape, test.similar.shape, round(test.optimal.auc, 3)
    ((1117, 3), (100000,), 0.976)
    """
    whole("n", n, 1)
    rng = generator(random_state)
    return treerank_truth(depth, p, noise, p_plus, shuffled=shuffled, random_state=rng).draw(n, rng)


def _random_cells(
    depth: int, p: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], Floats, NDArray[np.bool_], Floats, Floats]:
    """Draw columns, thresholds and orientations of a tree in heap order; also return the bounds of its cells."""
    lower, upper = np.r_[-np.ones(p), np.zeros(p)][None], np.ones((1, 2 * p))
    columns, thresholds, orientations = [], [], []
    for level in range(depth):
        row = np.arange(2**level)
        column = rng.integers(0, 2 * p, len(row))
        cut = _strictly_between(lower[row, column], upper[row, column], rng)
        upper_is_left = rng.random(len(row)) < 0.5
        lower, upper = np.repeat(lower, 2, axis=0), np.repeat(upper, 2, axis=0)
        above = 2 * row + ~upper_is_left  # children are in the order left, right, left, right ...
        lower[above, column] = cut
        upper[above ^ 1, column] = cut
        columns.append(column)
        thresholds.append(cut)
        orientations.append(upper_is_left)
    return np.concatenate(columns), np.concatenate(thresholds), np.concatenate(orientations), lower, upper


def _strictly_between(lower: Floats, upper: Floats, rng: np.random.Generator) -> Floats:
    """Draw uniform thresholds that leave both sides a volume; raises InputError after `N_TRIES` tries."""
    for _ in range(N_TRIES):
        cut = rng.uniform(lower, upper)
        if bool(((lower < cut) & (cut < upper)).all()):
            return cut
    raise InputError(f"no splits that leave every cell a volume in {N_TRIES} tries; ask for a smaller depth")


def _cell_at(shares: Floats, place: Floats) -> NDArray[np.int64]:
    """The cell at each place between 0 and 1 if the cells divide that interval by their shares."""
    rising = np.cumsum(shares)
    return np.searchsorted(rising[:-1] / rising[-1], place, side="right")


def _check_share(name: str, value: object) -> None:
    """Raise InputError unless ``value`` is a number above 0 and below 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < 1:
        raise InputError(f"{name} must be a number above 0 and below 1, found {value!r}")
