"""The estimator of TreeRank for similarities: ranking trees and forests over pairs of points."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller
from distforest.estimators.forest_estimator import n_threads
from distforest.estimators.input_types import CategoricalLike, PointsLike, SeedLike
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
    from collections.abc import Sequence

    from distributed import Client

    from distforest.forest.forest import Forest
    from distforest.forest.pairs.pair_scores import Points
    from distforest.growth.parameters import Value
    from distforest.growth.problem import Data
    from distforest.sources.point_pairs import PairColumns
    from distforest.sources.source import Floats


RANK_CHANCE = ROC(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
"""The ROC curve of a random ranking."""


@dataclass(eq=False, repr=False)
class TreeRank(OnPairs):
    """Similarity TreeRank (Clemencon, Vogel): a similarity whose ROC curve is as high as possible.

    Each tree ranks pairs from the most to the least similar, and the forest averages the ranks of its trees;
    ``n_estimators=1`` is a single ranking tree. The similarity of two points is the rank of their pair, from 1 for the
    most similar down to 0, and the distance is 1 - similarity.

    Parameters
    ----------
    {parameters}
    pair_columns : list of PairColumn or None, default=None
        Further symmetric columns of a pair: see `distforest.estimators.pair_columns`. A column whose ``random_state``
        is None gets its seed from that of the forest. A sealed forest does not contain these objects, so a loaded one
        reads points in the form that `extended` returns.
    pruning_folds : int >= 2 or None, default=None
        Prune the trees by cross-validation with this number of folds of the points; None: do not prune.

    Attributes
    ----------
    forest_, digest_, n_features_in_, feature_names_in_
        As in `SMERF`.
    classes_ : ndarray
        After `fit`: the labels, sorted.
    roc_ : ROC
        The ROC curve of the training pairs, the mean of the trees' curves; that of new pairs is lower.
    auc_ : float
        The area under it.
    pruning_ : Pruning
        With ``pruning_folds``: the gain of area up to which partings of cells were undone, and the mean area on
        held-out pairs for each gain that was tried.
    tree_rocs_ : list of ROC
        The ROC curve of each tree on its own training pairs, with a knot for each leaf.

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
    leafrank_depth: int = 15
    region: str = "diagonal"
    n_pairs: int = 30_000
    sampling: str = "uniform"
    max_samples: float | None = None
    max_features: float | str | None = "sqrt"
    max_bins: int | None = 256
    min_samples_split: int = 2
    min_samples_leaf: int = 5
    optimise_fpr: float | None = None
    aggregation: str = "mean"
    pair_columns: Sequence[PairColumn] | None = None
    pruning_folds: int | None = None
    categorical_features: CategoricalLike = "from_dtype"
    random_state: SeedLike = None
    n_jobs: int | None = None
    verbose: int = 0
    warm_start: bool = False
    client: Client | None = None

    def pair_score(self, left: PointsLike, right: PointsLike) -> Floats:
        """Compute the similarity of row k of ``left`` and row k of ``right``, shapes (n, n_features); shape (n,).

        It is the mean (or median) rank of the pair over the trees, from 1 for the most similar down to 0.
        """
        return 1.0 - self.pair_distance(left, right)

    def similarity(self, X: PointsLike | None = None, Y: PointsLike | None = None) -> Floats:
        """Compute the similarity of each row of ``X`` to each of ``Y``, as for `distance`; shape (n_x, n_y)."""
        return 1.0 - self.distance(X, Y)

    def extended(self, X: PointsLike) -> Points:
        """Append the vectors of ``pair_columns`` to the rows of ``X``, as the forest reads them, shape (n, width).

        A loaded forest has no ``pair_columns``: it expects rows that are extended already, and returns them.
        """
        check_is_fitted(self)
        return self._points(X)

    def _restore(self, forest: Forest) -> None:
        """Make this a fitted estimator of an opened forest, which reads points that are extended already."""
        super()._restore(forest)
        self.n_features_in_ = pair_scores.columns_of(forest).width
        if self.n_features_in_ > forest.n_features:
            self._set_schema(None)  # further columns have none

    def _pair_columns(self, params: dict[str, Value]) -> PairColumns:
        """The columns of a pair that the trees read."""
        return pair_columns(params, self.n_features_in_, self.columns_.blocks, self._n_categories())

    def _training_points(self, X: PointsLike, labels: np.ndarray | None, seed: int) -> Points:
        """Read the training points, extended by their further columns."""
        points = super()._training_points(X, labels, seed)
        columns = () if self.pair_columns is None else self.pair_columns
        if not isinstance(columns, (list, tuple)):
            raise InputError(f"pair_columns: a list of columns was expected, found {columns!r}")
        strange = [column for column in columns if not isinstance(column, PairColumn)]
        if strange:
            expected = "pair_columns: objects with fit_transform and transform were expected"
            raise InputError(f"{expected}, found {strange[0]!r}")
        if columns and (sizes := self._n_categories()):
            found = f"found {counted(sum(n > 0 for n in sizes), 'feature')} of categories"
            raise InputError(f"pair_columns read numbers, {found}; encode them as numbers, or leave pair_columns out")
        if not isinstance(points, np.ndarray):
            if columns:
                raise InputError("pair_columns read dense points, found sparse ones; leave pair_columns out")
            self.columns_ = Columns(())
            return points
        clones = [clone(column, safe=False) for column in columns]  # an object that is not an estimator is copied
        self.columns_, points = Columns(seeded(clones, seed)).fit(points, labels)
        return points

    def _points(self, X: PointsLike | None) -> Points:
        """Read the points of a query, extended by their further columns."""
        points = super()._points(X)
        if X is None or not isinstance(points, np.ndarray) or not getattr(self, "columns_", Columns(())).fitted:
            return points
        points = self.columns_.extended(points)
        check_points(points, pair_scores.columns_of(self.forest_))
        return points

    def _grow_from(self, data: Data, params: dict[str, Value], seed: int) -> None:
        """Grow the forest, and prune it."""
        if self.columns_.fitted and data.sample_weights is not None and not data.sample_weights.is_everywhere:
            cure = "leave out the points that have a weight of 0"
            raise InputError(f"sample_weight: pair_columns learn from all points, whatever their weights; {cure}")
        folds, most = self.pruning_folds, data.n_rows // 2
        if folds is not None and not (isinstance(folds, (int, np.integer)) and 2 <= folds <= most):
            raise InputError(f"pruning_folds: None or an integer in 2..{most} was expected, found {folds!r}")
        if folds is not None and self.warm_start:
            raise InputError(
                "warm_start=True adds trees as they grew, and pruning_folds prunes them; leave one of them out"
            )
        super()._grow_from(data, params, seed)
        if folds is not None:
            method, threads = self._method, n_threads(self.n_jobs)

            had_cuts = not Roots.of_forest(self.forest_).are_too_many
            with self._told_progress() as watch:

                def grow(some: Data) -> Forest:
                    return fit_here(problem(method, some, params, seed), threads, watch)

                forest, pruning = prune(self.forest_, data, int(folds), grow)
            self._set_forest(forest)
            self.pruning_ = pruning
            if had_cuts and (warning := Roots.of_forest(forest).told()):
                why = "pruning has removed their splits, which gain nothing on held-out pairs"
                warn_caller(f"{warning}: {why} (see that features and labels go together)")

    @property
    def tree_rocs_(self) -> list[ROC]:
        """The ROC curve of each tree on its own training pairs; the diagonal if these are all of one kind."""
        check_is_fitted(self)
        ranks = pair_scores.ranks_of(self.forest_)
        counts = (ranks.class_counts[ranks.leaves_in_order(tree)] for tree in range(self.forest_.n_trees))
        return [ROC.of_counts(*of_leaves.T) if of_leaves.any(axis=0).all() else RANK_CHANCE for of_leaves in counts]

    @property
    def roc_(self) -> ROC:
        """The mean of the trees' curves."""
        return ROC.mean(self.tree_rocs_)

    @property
    def auc_(self) -> float:
        """The area under the mean of the trees' curves."""
        return float(np.mean([roc.auc for roc in self.tree_rocs_]))
