"""Further symmetric columns of a pair for RFD and TreeRank, made from a vector for each point.

The value of a pair is the inner product of the vectors of its two points, their Euclidean distance, or the share of
their equal entries. So it is symmetric by construction, and is computed when it is read. Vectors that are learned from
labels must not reveal the labels of the training points: those of a training point come from trees that have not drawn
it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from sklearn.base import BaseEstimator, clone

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.estimators.input_types import FeaturesLike, SeedLike, VectorLike
from distforest.estimators.smerf import SMERF
from distforest.forest import scoring
from distforest.forest.pairs.held_out import linked_identities
from distforest.growth.rng import stream
from distforest.sources.factors import Labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from distforest.sources.source import Float32s, Floats, Int32s


class Links(NamedTuple):
    """Pairs of training points, and what is known of them.

    Attributes
    ----------
    pairs
        Row numbers of the two points of each pair, shape (n_pairs, 2).
    similar
        Whether the two points are similar, shape (n_pairs,).
    """

    pairs: Int32s
    similar: NDArray[np.bool_]

    def groups(self, n_points: int) -> Int32s:
        """The number of the group of each point, shape (n_points,): similar pairs connect the points of a group."""
        return linked_identities(self.pairs, self.similar, n_points)


LEAST_SHARE = 1e-3
"""Added to a share before its logarithm is taken."""

_COLUMNS = 1 << 41
"""Tree number whose random stream gives the seeds of the first column; greater than that of any tree or fold."""


@runtime_checkable
class PairColumn(Protocol):
    """A vector for each point; an attribute ``reduction`` is ``"dot"`` (the default), ``"distance"`` or ``"same"``."""

    def fit_transform(self, X: Float32s, y: NDArray[np.generic] | Links) -> ArrayLike:
        """Learn from the training points, and return their vectors as if the points were new, shape (n, k).

        ``y`` is the labels, shape (n,), or the `Links` if the forest learns from pairs.
        """

    def transform(self, X: Float32s) -> ArrayLike:
        """Compute the vectors of new points, shape (n, k)."""


@dataclass(eq=False, repr=False)
class Inner(BaseEstimator):  # type: ignore[misc]
    """The inner product of two points: the vector of a point is the point.

    No value of a point may be missing, here and in the next three.

    Examples
    --------
    >>> vectors = Inner().fit_transform(np.array([[3.0, 4.0], [0.0, 2.0]]), None)
    >>> float(vectors[0] @ vectors[1])
    8.0
    """

    def fit_transform(self, X: ArrayLike, y: object) -> Floats:  # noqa: ARG002  (nothing is learned)
        """Compute the vectors of the training points, shape (n, n_features)."""
        return self.transform(X)

    def transform(self, X: ArrayLike) -> Floats:
        """Compute the vectors of new points, shape (n, n_features)."""
        return np.asarray(X, np.float64)


@dataclass(eq=False, repr=False)
class Euclidean(Inner):
    """The Euclidean distance of two points."""

    reduction = "distance"


@dataclass(eq=False, repr=False)
class Cosine(Inner):
    """The cosine of two points: the vector of a point is the point divided by its length; that of 0 is 0.

    Examples
    --------
    >>> vectors = Cosine().fit_transform(np.array([[3.0, 4.0], [0.0, 2.0]]), None)
    >>> float(vectors[0] @ vectors[1])
    0.8
    """

    def transform(self, X: ArrayLike) -> Floats:
        """Compute the vectors of new points, shape (n, n_features)."""
        points = np.asarray(X, np.float64)
        length = np.sqrt((points**2).sum(axis=1, keepdims=True))
        return np.divide(points, length, out=np.zeros_like(points), where=length != 0.0)


@dataclass(eq=False, repr=False)
class Whitened(BaseEstimator):  # type: ignore[misc]
    """The Mahalanobis distance by the covariance C of points that belong together: sqrt((x - x')' C^-1 (x - x')).

    This is relevant component analysis (Bar-Hillel et al., JMLR 6, 2005). The points of a class belong together, or
    those that must-links connect. Ledoit and Wolf's shrinkage of the correlations makes C regular.

    Examples
    --------
    >>> y = np.arange(100) % 2
    >>> X = np.random.default_rng(0).normal(size=(100, 2)) * [4.0, 0.1] + np.outer(y, [0.0, 1.0])
    >>> vectors = Whitened().fit_transform(X, y)  # only the small second column tells the classes apart
    >>> difference = vectors[y == 0].mean(axis=0) - vectors[y == 1].mean(axis=0)
    >>> bool(np.linalg.norm(difference) > 5.0)
    True
    """

    reduction = "distance"

    def fit_transform(self, X: ArrayLike, y: NDArray[np.generic] | Links) -> Floats:
        """Learn C, and compute the vectors of the training points, shape (n, rank of C).

        Raises
        ------
        InputError
            No two different points belong together, or a value is missing.
        """
        from sklearn.covariance import LedoitWolf  # noqa: PLC0415  (slow, and few forests are whitened)

        points = np.asarray(X, np.float64)
        if not np.isfinite(points).all():
            row = int(np.argmin(np.isfinite(points).all(axis=1)))
            raise InputError(f"pair_columns: Whitened reads finite numbers, found NaN or infinity in row {row}")
        _, group, sizes = np.unique(
            y.groups(len(points)) if isinstance(y, Links) else np.asarray(y), return_inverse=True, return_counts=True
        )
        n_free = len(points) - len(sizes)
        sums = np.zeros((len(sizes), points.shape[1]))
        np.add.at(sums, group, points)
        within = points - (sums / sizes[:, None])[group]
        within = within[sizes[group] > 1]
        if not within.any():
            raise InputError("pair_columns: Whitened learns from points that belong together, found no two that differ")
        spread = np.sqrt((within**2).sum(axis=0) / n_free)
        scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0.0)
        variance, axes = np.linalg.eigh(LedoitWolf(assume_centered=True).fit(within * scale).covariance_)
        varies = variance > 1e-9 * variance.max()
        self.whitening_: Floats = scale[:, None] * axes[:, varies] / np.sqrt(variance[varies])
        return self.transform(points)

    def transform(self, X: ArrayLike) -> Floats:
        """Compute the vectors L'x of new points, where L L' = C^-1, shape (n, rank of C).

        A direction in which points that belong together do not vary counts for nothing.
        """
        whitened: Floats = np.asarray(X, np.float64) @ self.whitening_
        return whitened


BUILT_IN: dict[str, type[PairColumn]] = {
    "euclidean": Euclidean,
    "whitened": Whitened,
    "inner": Inner,
    "cosine": Cosine,
}
"""Columns that a word names."""


def column_of(given: object) -> PairColumn:
    """The column that a word names, or a copy of a given one; raises InputError for anything else.

    Examples
    --------
    >>> column_of("whitened")
    Whitened()
    """
    if isinstance(given, str) and given in BUILT_IN:
        return BUILT_IN[given]()
    if isinstance(given, PairColumn):
        own: PairColumn = clone(given, safe=False)  # an object that is not an estimator is copied
        return own
    expected = f"pair_columns: {', '.join(BUILT_IN)} or objects with fit_transform and transform were expected"
    raise InputError(f"{expected}, found {given!r}")


@dataclass(eq=False, repr=False)
class PlugIn(BaseEstimator):  # type: ignore[misc]
    """The probability that two points have the same label: sum_k eta_k(x) eta_k(x'), eta_k the share of label k.

    With the true shares, any increasing function of it is an optimal similarity (Clemencon, Vogel, section 2.1). The
    shares come from a `SMERF` on labels; those of a training point from the trees that have not drawn it. These trees
    may have drawn the other point of a pair, so the shares of near points depend a little on each other's labels, and
    look better on pairs of training points than on new ones. With ``forest={"bootstrap": False, "max_samples": 0.1}``
    few trees have drawn either point, but the shares are less exact.

    Parameters
    ----------
    n_estimators : int, default=500
        Number of trees.
    calibrated : bool, default=True
        Calibrate the shares, as those of a forest are too even: by a multinomial logistic regression on their
        logarithms, which learns from the out-of-bag shares.
    forest : dict or None, default=None
        Further parameters of `SMERF`.
    random_state : int, RandomState or None, default=None
        As in `SMERF`. In a `TreeRank`, None stands for a seed that follows from that of its forest.
    n_jobs : int or None, default=None
        Number of threads, as in `SMERF`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> PlugIn(50, random_state=0).fit_transform(X, y).shape
    (150, 3)
    """

    n_estimators: int = 500
    calibrated: bool = True
    forest: dict[str, Any] | None = None
    random_state: SeedLike = None
    n_jobs: int | None = None

    def fit_transform(self, X: FeaturesLike, y: VectorLike | Links) -> Floats:
        """Learn from labels, and return the shares of the training points, shape (n, n_classes).

        Raises
        ------
        InputError
            There are no labels, or all are equal.
        """
        if isinstance(y, Links):
            raise InputError("PlugIn learns from labels, found pairs alone; leave it out, or call fit(X, y)")
        labels = np.asarray(y)
        if len(np.unique(labels)) < 2:
            raise InputError("PlugIn learns from labels of two classes, found one")
        params = {"n_estimators": self.n_estimators, "random_state": self.random_state, "n_jobs": self.n_jobs}
        self.smerf_ = SMERF(**{**params, **(self.forest or {})}).fit(X, Labels(labels))
        shares, count = scoring.out_of_bag(self.smerf_.forest_)
        known = count > 0
        shares[~known] = 1.0 / shares.shape[1]
        if not self.calibrated:
            return shares
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415  (slow, and few forests are calibrated)

        self.calibration_ = LogisticRegression(C=0.1, max_iter=1000)
        self.calibration_.fit(np.log(shares[known] + LEAST_SHARE), labels[known])
        return self._calibrated(shares)

    def transform(self, X: FeaturesLike) -> Floats:
        """Compute the shares of new points, shape (n, n_classes)."""
        forest = self.smerf_.forest_
        shares = scoring.predict(forest, self.smerf_.apply(X).T)
        return self._calibrated(shares) if self.calibrated else shares

    def _calibrated(self, shares: Floats) -> Floats:
        calibrated: Floats = self.calibration_.predict_proba(np.log(shares + LEAST_SHARE))
        return calibrated


@dataclass(eq=False, repr=False)
class SharedLeaves(BaseEstimator):  # type: ignore[misc]
    """The share of trees in which two points share a leaf, of a forest that learns without labels: none can leak.

    Parameters
    ----------
    forest : estimator with fit(X) and apply(X)
        For example `URerF`.

    Examples
    --------
    >>> from distforest import URerF
    >>> X = np.random.default_rng(0).normal(size=(80, 3))
    >>> SharedLeaves(URerF(10, random_state=0)).fit_transform(X, None).shape
    (80, 10)
    """

    forest: Any
    reduction = "same"

    def fit_transform(self, X: Float32s, y: object) -> Int32s:  # noqa: ARG002  (labels are not used)
        """Grow the forest, and return the leaves of the training points, shape (n, n_trees)."""
        self.forest_ = clone(self.forest).fit(X)
        return self.transform(X)

    def transform(self, X: Float32s) -> Int32s:
        """Find the leaves of new points, shape (n, n_trees)."""
        leaves: Int32s = self.forest_.apply(X)
        return leaves


def seeded(columns: Sequence[PairColumn], seed: int) -> tuple[PairColumn, ...]:
    """Set each ``random_state`` that is None among the parameters of the columns, by the seed of the forest.

    Otherwise the digest of a forest would not follow from its seed.

    Examples
    --------
    >>> first, second, set_by_hand = seeded([PlugIn(), PlugIn(), PlugIn(random_state=5)], seed=0)
    >>> first.random_state == second.random_state, set_by_hand.random_state
    (False, 5)
    """
    for place, column in enumerate(columns):
        if isinstance(column, BaseEstimator):
            params = column.get_params()
            seeds = sorted(name for name in params if name.split("__")[-1] == "random_state")
            for draw, name in enumerate(seeds):
                if params[name] is None:  # 31 bits, so that estimators of scikit-learn accept it
                    column.set_params(**{name: int(stream(seed, _COLUMNS + place, draw)) >> 33})
    return tuple(columns)


@dataclass(frozen=True)
class Columns:
    """The fitted columns of a forest, and the length of the vector that each gives a point."""

    fitted: tuple[PairColumn, ...]
    sizes: tuple[int, ...] = ()

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]:
        """The columns in the form that `distforest.sources.point_pairs.PairColumns` reads: (reduction, length)."""
        kinds = [getattr(column, "reduction", "dot") for column in self.fitted]
        return tuple(zip(kinds, self.sizes, strict=False))

    def fit(self, points: Float32s, y: NDArray[np.generic] | Links) -> tuple[Self, Float32s]:
        """Learn from the training points; returns the columns with their sizes, and the points with their vectors."""
        vectors = [_checked_vectors(column, column.fit_transform(points, y), len(points)) for column in self.fitted]
        sizes = tuple(of_column.shape[1] for of_column in vectors)
        return replace(self, sizes=sizes), np.hstack([points, *vectors]) if vectors else points

    def extended(self, points: Float32s) -> Float32s:
        """Append the vectors of points to their features, shape (n, width)."""
        vectors = [_checked_vectors(column, column.transform(points), len(points)) for column in self.fitted]
        return np.hstack([points, *vectors])


def _checked_vectors(column: PairColumn, vectors: ArrayLike, n: int) -> Float32s:
    """Vectors as float32, shape (n, k); raises InputError unless there is a finite one for each point."""
    array = np.asarray(vectors, np.float32)
    expected = f"pair_columns: a finite vector for each of {counted(n, 'point')} was expected"
    if array.ndim != 2 or len(array) != n or not array.shape[1]:
        raise InputError(f"{expected}, found shape {array.shape} of {type(column).__name__}")
    is_finite = np.isfinite(array).all(axis=1)
    if not is_finite.all():
        where = f"in row {int(np.argmin(is_finite))} of {type(column).__name__}"
        raise InputError(f"{expected}, found NaN or infinity {where}; impute what is missing, or leave the column out")
    return array
