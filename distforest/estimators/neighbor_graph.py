"""Graph of nearest neighbours, as in scikit-learn, for all estimators that find neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from distforest.errors import InputError
from distforest.sources.collections import computed

if TYPE_CHECKING:
    from distforest.estimators.input_types import RowsLike

MODES = ("connectivity", "distance")
"""The weights that edges of a graph of neighbours may have."""


class FindsNeighbors:
    """Mixin for estimators with `kneighbors`."""

    kneighbors: Any
    forest_: Any

    def kneighbors_graph(
        self, X: RowsLike | None = None, n_neighbors: int = 5, mode: str = "connectivity"
    ) -> scipy.sparse.csr_matrix:
        """Compute the graph of the nearest training rows of each row of ``X``, as in scikit-learn.

        Parameters
        ----------
        X
            Rows, as for `kneighbors`. None: the training rows, none of which is its own neighbour.
        n_neighbors
            Number of neighbours of each row.
        mode
            The value that is stored for a neighbour: 1 for ``"connectivity"``, or its ``"distance"``, which may be 0.

        Returns
        -------
        csr_matrix of shape (n, n_training)
            float64; the ``n_neighbors`` entries of each row are in the order of `kneighbors`, nearest first.

        Raises
        ------
        InputError
            The mode is unknown, or there are fewer neighbours.

        Examples
        --------
        >>> from distforest import SMERF
        >>> forest = SMERF(100, random_state=0).fit([[0.0], [0.1], [5.0], [5.1]], [0, 0, 1, 1])
        >>> forest.kneighbors_graph(n_neighbors=1).toarray()
        array([[0., 1., 0., 0.],
               [1., 0., 0., 0.],
               [0., 0., 0., 1.],
               [0., 0., 1., 0.]])
        """
        if mode not in MODES:
            raise InputError(f"mode must be {' or '.join(map(repr, MODES))}, found {mode!r}")
        distances, indices = computed(*self.kneighbors(X, n_neighbors))
        weights = np.ones_like(distances) if mode == "connectivity" else distances
        n_training = self.forest_.n_training
        # scikit-learn takes numbers of 64 bits only where they are needed
        places = np.int32 if max(indices.size, n_training) < 2**31 else np.int64
        starts = np.arange(0, indices.size + 1, indices.shape[1], dtype=places)
        entries = weights.reshape(-1), indices.reshape(-1).astype(places), starts
        return scipy.sparse.csr_matrix(entries, (len(indices), n_training))
