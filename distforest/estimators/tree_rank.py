"""The estimator of TreeRank for similarities: ranking trees and ranking forests over pairs."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from distforest.errors import InputError, warn_caller
from distforest.estimators.forest_estimator import n_threads
from distforest.estimators.on_pairs import OnPairs
from distforest.estimators.pair_columns import Columns, PairColumn, seeded
from distforest.evaluation.roc import ROC
from distforest.forest.pairs import pair_scores
from distforest.forest.roots import Roots
from distforest.growth.methods import METHODS, problem
from distforest.growth.pairs.methods import pair_columns
from distforest.growth.pairs.pruning import prune
from distforest.jobs.train import fit_here
from distforest.sources.point_pairs import check_points

if TYPE_CHECKING:
    from distforest.forest.forest import Forest
    from distforest.growth.problem import Data
    from distforest.sources.point_pairs import PairColumns
    from distforest.sources.source import Float32s, Floats


RANK_CHANCE = ROC(np.array([0.0, 1.0]), np.array([0.0, 1.0]))


@dataclass(eq=False, repr=False)
class TreeRank(OnPairs):
    """Similarity TreeRank (Clemencon, Vogel): a similarity whose ROC curve is as high as it can be.

    Each tree ranks pairs from alike to unlike; the ranks of a forest's trees are averaged. One tree is
    ``n_estimators=1``. The similarity of two points is the rank of their pair, from 1 for the most alike, and the
    distance is 1 - similarity.

    Parameters
    ----------
    {parameters}
    pair_columns : list of PairColumn or None, default=None
        Further symmetric columns of a pair: see `distforest.estimators.pair_columns`. One whose ``random_state`` is
        None has its seed from the forest's. A sealed forest does not hold what makes them: a loaded one reads points
        as `extended` gives them.
    pruning_folds : int >= 2 or None, default=None
        Prune the trees as far as cross-validation says, by so many folds of the points; None: not at all.

    Attributes
    ----------
    forest_, digest_, n_features_in_, feature_names_in_
        As of `SMERF`.
    classes_ : ndarray
        After `fit`: the labels, sorted.
    roc_ : ROC
        The ROC curve of the training pairs, the mean of the trees' curves: better than that of new pairs.
    auc_ : float
        The area under it.
    pruning_ : Pruning
        With ``pruning_folds``: the gain of area up to which partings went, and what held-out pairs said of others.
    tree_rocs_ : list of ROC
        The curve of each tree on its own training pairs, a knot for each leaf.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = TreeRank(5, n_pairs=2000, leafrank_depth=2, random_state=0).fit(X, y)
    >>> bool(forest.similarity(X[:1], X[1:2]) > forest.similarity(X[:1], X[100:101]))
    True
    """

    _method = METHODS["treerank"]
    _parameters = _method.parameters

    n_estimators: int = 44
    _: KW_ONLY
    max_depth: int = 15
    leafrank: str = "tree"
    leafrank_depth: int = 5
    region: str = "diagonal"
    n_pairs: int = 100_000
    sampling: str = "uniform"
    max_samples: float | None = None
    max_features: float | str | None = None
    max_bins: int | None = 256
    min_samples_split: int = 2
    min_samples_leaf: int = 5
    optimise_fpr: float | None = None
    aggregation: str = "mean"
    pair_columns: Any = None
    pruning_folds: int | None = None
    random_state: Any = None
    n_jobs: int | None = None
    client: Any = None

    def pair_score(self, left: Any, right: Any) -> Floats:
        """Take the similarity of row k of ``left`` and row k of ``right``, shapes (n, n_features); shape (n,).

        The mean (or median) rank of the pair over the trees, from 1 for the most alike down to 0.
        """
        return 1.0 - self.pair_distance(left, right)

    def similarity(self, X: Any = None, Y: Any = None) -> Floats:
        """Take the similarity of each row of ``X`` to each of ``Y``, as for `distance`; shape (n_x, n_y)."""
        return 1.0 - self.distance(X, Y)

    def extended(self, X: Any) -> Float32s:
        """Take the rows of ``X`` with their further columns, as the forest reads points, shape (n, width).

        A loaded forest does not know what makes them, so it takes and gives points that have them already.
        """
        check_is_fitted(self)
        return self._points(X)

    def _adopt(self, forest: Forest) -> None:
        """Take a forest that was opened for the fitted one; it reads points with their further columns."""
        super()._adopt(forest)
        self.n_features_in_ = pair_scores.columns_of(forest).width
        if self.n_features_in_ > forest.n_features:
            self._name(None)  # further columns have none

    def _rows_of(self, params: dict[str, Any]) -> PairColumns:
        """How pairs of the points are read."""
        return pair_columns(params, self.n_features_in_, self.columns_.blocks)

    def _training_points(self, X: Any, labels: Any, seed: int) -> Float32s:
        """Read the points that the forest is to learn from, with their further columns."""
        points = super()._training_points(X, labels, seed)
        given: Any = () if self.pair_columns is None else self.pair_columns
        if not isinstance(given, (list, tuple)):
            raise InputError(f"pair_columns: a list of columns was expected, found {given!r}")
        strange = [column for column in given if not isinstance(column, PairColumn)]
        if strange:
            raise InputError(f"pair_columns: objects with fit_transform and transform, found {strange[0]!r}")
        own = [clone(column, safe=False) for column in given]  # one that is no estimator is copied
        self.columns_, points = Columns(seeded(own, seed)).fit(points, labels)
        return points

    def _points(self, X: Any) -> Float32s:
        """Read points to be asked about, with their further columns."""
        points = super()._points(X)
        if X is None or not getattr(self, "columns_", Columns(())).fitted:
            return points
        points = self.columns_.extended(points)
        check_points(points, pair_scores.columns_of(self.forest_))
        return points

    def _grow_from(self, data: Data, params: dict[str, Any], seed: int) -> None:
        """Grow the forest, and prune it."""
        folds, most = self.pruning_folds, data.n_rows // 2
        if folds is not None and not (isinstance(folds, (int, np.integer)) and 2 <= folds <= most):
            raise InputError(f"pruning_folds: None or an integer in 2..{most} was expected, found {folds!r}")
        super()._grow_from(data, params, seed)
        if folds is not None:
            method, threads = self._method, n_threads(self.n_jobs)

            def grow(some: Data) -> Forest:
                return fit_here(problem(method, some, params, seed), threads)

            had_cuts = not Roots.of_forest(self.forest_).are_too_many
            forest, found = prune(self.forest_, data, int(folds), grow)
            self._hold(forest)
            self.pruning_ = found
            if had_cuts and (told := Roots.of_forest(forest).told()):
                why = "pruning has taken their cuts, which gain nothing on held-out pairs"
                warn_caller(f"{told}: {why} (see that features and labels go together)")

    @property
    def tree_rocs_(self) -> list[ROC]:
        """The ROC curve of each tree on its own training pairs; that of chance where these are of one kind."""
        check_is_fitted(self)
        ranks = pair_scores.ranks_of(self.forest_)
        counts = (ranks.class_counts[ranks.leaves_in_order(tree)] for tree in range(self.forest_.n_trees))
        return [ROC.of_counts(own[:, 0], own[:, 1]) if own.any(axis=0).all() else RANK_CHANCE for own in counts]

    @property
    def roc_(self) -> ROC:
        """The mean of the trees' curves."""
        return ROC.mean(self.tree_rocs_)

    @property
    def auc_(self) -> float:
        """The area under the mean of the trees' curves."""
        return float(np.mean([roc.auc for roc in self.tree_rocs_]))
