"""The estimator of TreeRank for similarities: ranking trees and ranking forests over pairs."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from distforest.estimators.on_pairs import OnPairs
from distforest.forest import pair_scores
from distforest.growth.methods import METHODS
from distforest.roc import ROC

if TYPE_CHECKING:
    from distforest.sources.source import Floats


@dataclass(eq=False, repr=False)
class TreeRank(OnPairs):
    """Similarity TreeRank (Clemencon, Vogel): a similarity whose ROC curve is as high as it can be.

    Each tree ranks pairs from alike to unlike; the ranks of a forest's trees are averaged. One tree is
    ``n_estimators=1``. The similarity of two points is the rank of their pair, from 1 for the most alike, and the
    distance is 1 - similarity.

    Parameters
    ----------
    {parameters}

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

    _method = "treerank"
    _parameters = METHODS["treerank"].parameters

    n_estimators: int = 44
    _: KW_ONLY
    max_depth: int = 15
    leafrank: str = "tree"
    leafrank_depth: int = 5
    region: str = "diagonal"
    n_pairs: int = 100_000
    pairs: str = "uniform"
    max_samples: float | None = None
    max_features: float | str | None = None
    max_bins: int | None = 256
    min_samples_split: int = 2
    min_samples_leaf: int = 5
    optimise_fpr: float | None = None
    aggregation: str = "mean"
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

    @property
    def tree_rocs_(self) -> list[ROC]:
        """The ROC curve of each tree on its own training pairs."""
        check_is_fitted(self)
        ranks = pair_scores.ranks_of(self.forest_)
        counts = (ranks.class_counts[ranks.leaves_in_order(tree)] for tree in range(self.forest_.n_trees))
        return [ROC.of_counts(own[:, 0], own[:, 1]) for own in counts]

    @property
    def roc_(self) -> ROC:
        """The mean of the trees' curves."""
        return ROC.mean(self.tree_rocs_)

    @property
    def auc_(self) -> float:
        """The area under the mean of the trees' curves."""
        return float(np.mean([roc.auc for roc in self.tree_rocs_]))
