"""What the estimators share whose trees route rows: distances, neighbours and nodes follow from where a row ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from distforest.errors import warn_caller
from distforest.estimators.forest_estimator import ForestEstimator, n_threads
from distforest.forest import proximities, scoring
from distforest.forest.missing import rows_without_values, told_of_rows_without_values

if TYPE_CHECKING:
    from distforest.sources.source import Floats, Int32s, Source


class OnRows(ForestEstimator):
    """What the estimators share whose trees route rows."""

    def distance(self, X: Any = None, Y: Any = None) -> Floats:
        """Take the distance of each row of ``X`` to each of ``Y``, the mean over the trees (SMERF, Eq. 3).

        Parameters
        ----------
        X, Y
            Rows like those of `fit`, shapes (n_x, n_columns) and (n_y, n_columns), in memory or in Zarr;
            ``X`` is the training rows by default, and ``Y`` is ``X``.

        Returns
        -------
        ndarray of shape (n_x, n_y)
        """
        nodes = self._nodes(X)
        return scoring.distance(self.forest_, nodes, nodes if Y is None else self._nodes(Y))

    def pair_distance(self, left: Any, right: Any) -> Floats:
        """Take the distance of row k of ``left`` to row k of ``right``, shapes (n, n_columns); shape (n,)."""
        return scoring.pair_distance(self.forest_, self._nodes(left), self._nodes(right))

    def proximity(self, X: Any = None, Y: Any = None) -> Floats:
        """Take the share of trees in which each row of ``X`` ends in the same node as each of ``Y``.

        Parameters
        ----------
        X, Y
            As for `distance`.

        Returns
        -------
        ndarray of shape (n_x, n_y)
        """
        nodes = self._nodes(X)
        return proximities.proximity(nodes, nodes if Y is None else self._nodes(Y), n_threads(self.n_jobs))

    def leaf_embedding(self, X: Any) -> Any:
        """Take the rows of ``X`` as sparse vectors: a column for each node of the forest, 1 where a row ends.

        Returns
        -------
        csr_matrix of shape (n, n_nodes)
            ``E @ E.T / n_estimators`` is the `proximity` of the rows.
        """
        return proximities.leaf_embedding(self.forest_, self._nodes(X))

    def kneighbors(self, X: Any = None, n_neighbors: int = 5, return_distance: bool = True) -> Any:
        """Find the nearest training rows of each row of ``X``.

        Parameters
        ----------
        X
            Rows, shape (n, n_columns). None: the training rows, none of which is its own neighbour.
        n_neighbors, return_distance
            How many, and whether their distances are returned too.

        Returns
        -------
        distances, indices : ndarray of shape (n, n_neighbors)
            Nearest first, equal distances in the order of the index; ``indices`` alone on request.
        """
        nodes, training = self._nodes(X), self.forest_.training_nodes
        threads = n_threads(self.n_jobs)
        distances, indices = scoring.kneighbors(self.forest_, nodes, training, n_neighbors, X is None, threads)
        return (distances, indices) if return_distance else indices

    def apply(self, X: Any) -> Int32s:
        """Find the node of each tree in which each row of ``X`` ends, shape (n, n_trees)."""
        return self._nodes(X).T

    def _nodes(self, X: Any) -> Int32s:
        """Find the nodes of the rows of ``X``, or of the training rows for None, shape (n_trees, n)."""
        check_is_fitted(self)
        if X is None:
            return self.forest_.training_nodes
        return scoring.apply(self.forest_, self._source(X))

    def _source(self, X: Any) -> Source:
        """Read rows as the trees do; told of are those of which no value is observed."""
        source = self.forest_.source(self._rows(X, reset=False))
        if len(found := rows_without_values(source)):
            warn_caller(f"X: {told_of_rows_without_values(len(found), source.shape[0], int(found[0]))}")
        return source
