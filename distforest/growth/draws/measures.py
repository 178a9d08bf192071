"""Which of several similarities of the same objects a candidate compares objects by."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.growth.rng import Keys, unit
from distforest.jit import kernel
from distforest.sources.source import Floats, Int32s, Ints

FIRST_MEASURE = 1 << 37
"""The first draw of a stream that chooses measures."""


class Measures(NamedTuple):
    """The measures of a source whose columns are object 0, 1, ... by measure 0, then by measure 1, and so on.

    Attributes
    ----------
    n_objects
        Number of columns of each measure.
    reached
        Sums of the measures' shares in the draw, up to each of them, shape (n_measures,); the last is 1.
    of_distances
        Whether each measure holds -d^2/2, whose diagonal is 0, shape (n_measures,).
    """

    n_objects: int
    reached: Floats
    of_distances: NDArray[np.bool_]

    @classmethod
    def of(cls, n_objects: int, weights: Floats, of_distances: NDArray[np.bool_]) -> Measures:
        """Measures that are drawn in proportion to ``weights``, shape (n_measures,).

        Examples
        --------
        >>> Measures.of(9, np.array([1.0, 3.0]), np.array([False, True])).reached
        array([0.25, 1.  ])
        """
        reached = np.cumsum(weights) / weights.sum()
        reached[np.flatnonzero(weights)[-1] :] = 1.0  # rounding must not draw a measure of weight 0
        return cls(n_objects, reached, of_distances)

    def drawn(self, keys: Keys, attempt: int, width: int) -> Compared:
        """The measure of each of ``width`` candidates of some nodes, from the streams ``keys``, shape (n_nodes,)."""
        if len(self.reached) == 1:
            return Compared(self, None)
        chosen = np.empty(len(keys) * width, np.int32)
        draw_measures(keys, FIRST_MEASURE + attempt * width, width, self.reached, chosen)
        return Compared(self, chosen)


ONE_MEASURE = Measures(1, np.ones(1), np.array([False]))
"""A single similarity that is not -d^2/2; its number of columns does not matter."""


class Compared(NamedTuple):
    """What candidates compare objects by.

    Attributes
    ----------
    measures
        The measures.
    chosen
        The measure of each candidate, shape (n_candidates,); None if there is only one.
    """

    measures: Measures
    chosen: Int32s | None

    def columns(self, candidates: Ints | NDArray[np.bool_], objects: Int32s) -> Int32s:
        """The columns of objects by the measures of their candidates, both of shape (n,)."""
        if self.chosen is None:
            return objects
        columns: Int32s = objects + self.chosen[candidates] * np.int32(self.measures.n_objects)
        return columns

    def are_distances(self, candidates: Ints) -> NDArray[np.bool_]:
        """Whether the measures of some candidates hold -d^2/2, shape (n,), or (1,) if there is only one measure."""
        if self.chosen is None:
            return self.measures.of_distances
        of_distances: NDArray[np.bool_] = self.measures.of_distances[self.chosen[candidates]]
        return of_distances


@kernel
def draw_measures(keys: Keys, first: int, width: int, reached: Floats, chosen: Int32s) -> None:
    """chosen[f * width + k] = the first m with reached[m] > u, u of draw first + k of node f."""
    for node in range(keys.shape[0]):
        for k in range(width):
            u, m = unit(keys[node], first + k), 0
            while reached[m] <= u:
                m += 1
            chosen[node * width + k] = m
