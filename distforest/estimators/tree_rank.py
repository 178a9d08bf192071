"""The estimator of TreeRank for similarities: ranking trees and forests over pairs of points."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from distforest.errors import InputError, warn_caller
from distforest.estimators.forest_estimator import n_threads
from distforest.estimators.input_types import CategoricalLike, PointsLike, SeedLike
from distforest.estimators.on_pairs import OnPairs
from distforest.evaluation.roc import ROC
from distforest.forest.pairs import pair_scores
from distforest.forest.roots import Roots
from distforest.growth.methods import METHODS, problem
from distforest.growth.pairs.pruning import prune
from distforest.jobs.train import fit_here

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributed import Client

    from distforest.estimators.pair_columns import PairColumn
    from distforest.forest.forest import Forest
    from distforest.growth.parameters import Value
    from distforest.growth.problem import Data
    from distforest.sources.comparisons import Comparison
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
    pair_columns : list of str, PairColumn or Comparison, or None, default=None
        Further symmetric columns of a pair: "euclidean", "whitened", "inner" and "cosine" of whole rows, objects of
        your own (see `distforest.estimators.pair_columns`), or a `Comparison` of fields such as names and dates, which
        nothing else reads then. A column whose ``random_state`` is None gets its seed from that of the forest. A sealed
        forest contains comparisons, but not the other objects: it then reads points in the form that `extended`
        returns.
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
    pair_columns: Sequence[str | PairColumn | Comparison] | None = None
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

    def _grow_from(self, data: Data, params: dict[str, Value], seed: int) -> None:
        """Grow the forest, and prune it."""
        folds, most = self.pruning_folds, data.n_rows // 2
        if folds is not None and not (isinstance(folds, (int, np.integer)) and 2 <= folds <= most):
            raise InputError(f"pruning_folds: None or an integer in 2..{most} was expected, found {folds!r}")
        if folds is not None and self.warm_start:
            raise InputError(
                "warm_start=True adds trees as they grew, and pruning_folds prunes them; leave one of them out"
            )
        super()._grow_from(data, params, seed)
        if folds is not None:
            threads = n_threads(self.n_jobs)
            had_cuts = not Roots.of_forest(self.forest_).are_too_many
            with self._told_progress() as watch:

                def grow(some: Data) -> Forest:
                    return fit_here(problem(self._method, some, params, seed), threads, watch)

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
