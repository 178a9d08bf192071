"""Further symmetric columns of a pair for TreeRank: how alike what each of its two points says of itself is.

A column is given by a vector for each point; the value of a pair is the inner product of the vectors of its two points,
or the share of their equal entries, so it is symmetric by construction and is worked out when it is read. What learns
from labels must not give away those of the training points: their vectors are made by trees that have not drawn them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.estimators.smerf import SMERF
from distforest.forest import scoring
from distforest.growth.rng import stream
from distforest.sources.factors import Labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.sources.source import Float32s, Floats

LEAST_SHARE = 1e-3
"""Added to a share before its logarithm is taken."""

_COLUMNS = 1 << 41
"""Number of the tree in whose streams the first column's seeds are: beyond all trees, and those of the folds."""


@runtime_checkable
class PairColumn(Protocol):
    """A vector for each point; with an attribute ``reduction``, ``"dot"`` (the default) or ``"same"``."""

    def fit_transform(self, X: Any, y: Any) -> Any:
        """Learn from the training points, and give their vectors as if they were new, shape (n, k)."""

    def transform(self, X: Any) -> Any:
        """The vectors of new points, shape (n, k)."""


@dataclass(eq=False, repr=False)
class Cosine(BaseEstimator):  # type: ignore[misc]
    """The cosine of two points: a point's vector is the point over its length; that of 0 is 0.

    Examples
    --------
    >>> vectors = Cosine().fit_transform(np.array([[3.0, 4.0], [0.0, 2.0]]), None)
    >>> float(vectors[0] @ vectors[1])
    0.8
    """

    def fit_transform(self, X: Any, y: Any) -> Floats:  # noqa: ARG002  (nothing is learned)
        """The vectors of the points."""
        return self.transform(X)

    def transform(self, X: Any) -> Floats:
        """The vectors of the points, shape (n, n_features)."""
        points = np.asarray(X, np.float64)
        length = np.sqrt((points**2).sum(axis=1, keepdims=True))
        return np.divide(points, length, out=np.zeros_like(points), where=length > 0.0)


@dataclass(eq=False, repr=False)
class PlugIn(BaseEstimator):  # type: ignore[misc]
    """The chance that two points have one label: sum_k eta_k(x) eta_k(x'), eta_k the share of label k in a forest.

    Any increasing function of it, with the true shares, is the best similarity that there is (Clemencon, Vogel,
    section 2.1). The shares are those of a forest `SMERF` on labels; those of the training points come from the trees
    that have not drawn them. They may have drawn the other point of a pair: shares of near points know a little of each
    other's labels, so on pairs of training points they look better than they are. With
    ``forest={"bootstrap": False, "max_samples": 0.1}`` few trees have drawn either, and shares are less exact.

    Parameters
    ----------
    n_estimators : int, default=500
        Number of trees.
    calibrated : bool, default=True
        Pass the shares through a multinomial logistic regression on their logarithms that has learned from the shares
        out of bag: a forest's shares are too even.
    forest : dict or None, default=None
        Further parameters of `SMERF`.
    random_state : int, RandomState or None, default=None
        As of `SMERF`; None in a `TreeRank`: by the seed of its forest.
    n_jobs : int or None, default=None
        Threads.

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
    random_state: Any = None
    n_jobs: int | None = None

    def fit_transform(self, X: Any, y: Any) -> Floats:
        """Learn from labels, and give the shares of the training points, shape (n, n_classes).

        Raises
        ------
        InputError
            There are no labels.
        """
        if y is None:
            raise InputError("PlugIn learns from labels, found pairs alone; leave it out, or call fit(X, y)")
        if len(np.unique(y)) < 2:
            raise InputError("PlugIn learns from labels of two classes, found one")
        own = {"n_estimators": self.n_estimators, "random_state": self.random_state, "n_jobs": self.n_jobs}
        self.smerf_ = SMERF(**{**own, **(self.forest or {})}).fit(X, Labels(y))
        shares, count = scoring.out_of_bag(self.smerf_.forest_)
        known = count > 0
        shares[~known] = 1.0 / shares.shape[1]
        if not self.calibrated:
            return shares
        self.calibration_ = LogisticRegression(C=0.1, max_iter=1000)
        self.calibration_.fit(np.log(shares[known] + LEAST_SHARE), np.asarray(y)[known])
        return self._calibrated(shares)

    def transform(self, X: Any) -> Floats:
        """The shares of new points, shape (n, n_classes)."""
        forest = self.smerf_.forest_
        shares = scoring.predict(forest, self.smerf_.apply(X).T)
        return self._calibrated(shares) if self.calibrated else shares

    def _calibrated(self, shares: Floats) -> Floats:
        found: Floats = self.calibration_.predict_proba(np.log(shares + LEAST_SHARE))
        return found


@dataclass(eq=False, repr=False)
class SharedLeaves(BaseEstimator):  # type: ignore[misc]
    """The share of trees in which two points share a leaf, of a forest that is taught nothing: labels cannot leak.

    Parameters
    ----------
    forest : estimator with fit(X) and apply(X)
        `URerF`, say.

    Examples
    --------
    >>> from distforest import URerF
    >>> X = np.random.default_rng(0).normal(size=(80, 3))
    >>> SharedLeaves(URerF(10, random_state=0)).fit_transform(X, None).shape
    (80, 10)
    """

    forest: Any
    reduction = "same"

    def fit_transform(self, X: Any, y: Any) -> Any:  # noqa: ARG002  (labels are not looked at)
        """Grow the forest, and give the leaves of the points, shape (n, n_trees)."""
        self.forest_ = clone(self.forest).fit(X)
        return self.transform(X)

    def transform(self, X: Any) -> Any:
        """The leaves of new points, shape (n, n_trees)."""
        return self.forest_.apply(X)


def seeded(columns: Sequence[PairColumn], seed: int) -> tuple[PairColumn, ...]:
    """The columns, each ``random_state`` among their parameters that is None set from the forest's seed.

    Without it a forest's digest would not follow from its own seed.

    Examples
    --------
    >>> own, same, set_by_hand = seeded([PlugIn(), PlugIn(), PlugIn(random_state=5)], seed=0)
    >>> own.random_state == same.random_state, set_by_hand.random_state
    (False, 5)
    """
    for place, column in enumerate(columns):
        if isinstance(column, BaseEstimator):
            params = column.get_params()
            seeds = sorted(name for name in params if name.split("__")[-1] == "random_state")
            drawn = {name: _seed(seed, place, draw) for draw, name in enumerate(seeds) if params[name] is None}
            column.set_params(**drawn)
    return tuple(columns)


def _seed(seed: int, place: int, draw: int) -> int:
    """A seed for a column; of 31 bits, so that scikit-learn's own estimators take it."""
    return int(stream(seed, _COLUMNS + place, draw)) >> 33


@dataclass(frozen=True)
class Columns:
    """The fitted columns of a forest, and how many of a point's further columns are of each."""

    fitted: tuple[PairColumn, ...]
    sizes: tuple[int, ...] = ()

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]:
        """As `distforest.sources.point_pairs.PairColumns` has them."""
        kinds = [getattr(column, "reduction", "dot") for column in self.fitted]
        return tuple(zip(kinds, self.sizes, strict=False))

    def fit(self, points: Float32s, y: Any) -> tuple[Self, Float32s]:
        """Learn from the training points; the same with their sizes, and the points with their further columns."""
        vectors = [_held(column, column.fit_transform(points, y), len(points)) for column in self.fitted]
        return replace(self, sizes=tuple(own.shape[1] for own in vectors)), np.hstack([points, *vectors])

    def extended(self, points: Float32s) -> Float32s:
        """Points with their further columns."""
        vectors = [_held(column, column.transform(points), len(points)) for column in self.fitted]
        return np.hstack([points, *vectors])


def _held(column: PairColumn, vectors: Any, n: int) -> Float32s:
    """Vectors as float32; raises InputError where they are not a finite one for each point."""
    found = np.asarray(vectors, np.float32)
    if found.ndim != 2 or len(found) != n or not found.shape[1] or not np.isfinite(found).all():
        asked = f"pair_columns: a finite vector for each of {counted(n, 'point')} was expected"
        raise InputError(f"{asked}, found shape {found.shape} of {type(column).__name__}")
    return found
