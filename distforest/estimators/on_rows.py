"""Base of the estimators whose trees route rows: every answer follows from the nodes in which a row ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from distforest.estimators.by_blocks import by_blocks
from distforest.estimators.forest_estimator import ForestEstimator, n_threads
from distforest.estimators.input_types import RowsLike
from distforest.estimators.neighbor_graph import FindsNeighbors
from distforest.forest import proximities, scoring

if TYPE_CHECKING:
    import scipy.sparse

    from distforest.sources.source import Floats, Int32s, Ints, Source


class OnRows(FindsNeighbors, ForestEstimator):
    """Base class of the estimators whose trees route rows."""

    def distance(self, X: RowsLike | None = None, Y: RowsLike | None = None) -> Floats:
        """Compute the distance of each row of ``X`` to each of ``Y``, the mean over the trees (SMERF, Eq. 3).

        Parameters
        ----------
        X, Y
            Rows as for `fit`, shapes (n_x, n_columns) and (n_y, n_columns). By default ``X`` is the training rows,
            and ``Y`` is ``X``: ``distance(T)`` compares all rows of T with each other, and ``distance(T, X)`` compares
            them with the training rows ``X``.

        Returns
        -------
        ndarray of shape (n_x, n_y)
        """
        nodes = self._nodes(X)
        return scoring.distance(self.forest_, nodes, nodes if Y is None else self._nodes(Y))

    def pair_distance(self, left: RowsLike, right: RowsLike) -> Floats:
        """Compute the distance of row k of ``left`` to row k of ``right``, shape (n,)."""
        return scoring.pair_distance(self.forest_, self._nodes(left), self._nodes(right))

    def proximity(self, X: RowsLike | None = None, Y: RowsLike | None = None) -> Floats:
        """Compute the share of trees in which each row of ``X`` ends in the same node as each of ``Y``.

        Parameters
        ----------
        X, Y
            As for `distance`.

        Returns
        -------
        ndarray of shape (n_x, n_y)
        """
        nodes = self._nodes(X)
        others = scoring.indexed(self.forest_, nodes if Y is None else self._nodes(Y))
        return proximities.proximity(nodes, others, n_threads(self.n_jobs))

    def sparse_proximity(
        self, X: RowsLike | None = None, Y: RowsLike | None = None, n_neighbors: int | None = None
    ) -> scipy.sparse.csr_matrix:
        """Compute `proximity` as a sparse matrix, with all non-zero proximities or only the largest of each row.

        Parameters
        ----------
        X, Y
            As for `distance`.
        n_neighbors
            Number of proximities to keep for each row, which include the row itself. None: all.

        Returns
        -------
        csr_matrix of shape (n_x, n_y)

        Examples
        --------
        >>> from distforest import URerF
        >>> forest = URerF(5, random_state=0).fit(np.random.default_rng(0).normal(size=(100, 3)))
        >>> near = forest.sparse_proximity()
        >>> near.shape, bool((near.toarray() == forest.proximity()).all())
        ((100, 100), True)
        >>> forest.sparse_proximity(n_neighbors=3).nnz
        300
        """
        nodes = self._nodes(X)
        others = scoring.indexed(self.forest_, nodes if Y is None else self._nodes(Y))
        return proximities.sparse_proximity(nodes, others, n_neighbors, n_threads(self.n_jobs))

    def leaf_embedding(self, X: RowsLike) -> scipy.sparse.csr_matrix:
        """Represent the rows of ``X`` as sparse vectors, with a column for each node, which is 1 if the row ends there.

        Returns
        -------
        csr_matrix of shape (n, n_nodes)
            ``E @ E.T / n_estimators`` is the `proximity` of the rows.
        """
        return proximities.leaf_embedding(self.forest_, self._nodes(X))

    @by_blocks
    def kneighbors(
        self,
        X: RowsLike | None = None,
        n_neighbors: int = 5,
        return_distance: bool = True,
        added: RowsLike | None = None,
    ) -> tuple[Floats, Ints] | Ints:
        """Find the nearest neighbours of each row of ``X`` among the training rows and ``added`` rows.

        Parameters
        ----------
        X
            Rows, shape (n, n_columns). None: the training rows, none of which is its own neighbour.
        n_neighbors
            Number of neighbours of each row.
        return_distance
            Whether to return the distances, too.
        added
            Further rows that may be neighbours, shape (n_added, n_columns), without a change of the trees. Row k of
            them has the index n_training + k.

        Returns
        -------
        distances, indices : ndarray of shape (n, n_neighbors)
            Nearest first, and equal distances by index. Without ``return_distance``, only ``indices`` is returned.
        """
        nodes, training = self._nodes(X), self.forest_.training_nodes
        if added is not None:
            training = np.concatenate([training, self._nodes(added)], axis=1)
        threads = n_threads(self.n_jobs)
        distances, indices = scoring.kneighbors(self.forest_, nodes, training, n_neighbors, X is None, threads)
        return (distances, indices) if return_distance else indices

    @by_blocks
    def apply(self, X: RowsLike) -> Int32s:
        """Find the node of each tree in which each row of ``X`` ends, shape (n, n_trees)."""
        return self._nodes(X).T

    def _nodes(self, X: RowsLike | None) -> Int32s:
        """Find the nodes of the rows of ``X``, or of the training rows for None, shape (n_trees, n)."""
        check_is_fitted(self)
        if X is None:
            return self.forest_.training_nodes
        return scoring.apply(self.forest_, self._source(X))

    def _source(self, X: RowsLike) -> Source:
        """Read rows as the trees do."""
        return self.forest_.source(self._rows(X, reset=False))
