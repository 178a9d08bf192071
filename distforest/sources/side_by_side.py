"""Several measures of the same objects as one matrix: their similarities side by side.

::

    measure            0           1           2
    column        0 1 .. n-1  n .. 2n-1   2n .. 3n-1        column m * n + i is object i by measure m

So a split that reads two columns of one measure says by its columns which measure that is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distforest.errors import InputError
from distforest.sources.source import (
    Floats,
    Int32s,
    Ints,
    Projections,
    ReadByEntries,
    Source,
    project_entries,
    runs,
)


@dataclass(frozen=True, eq=False)
class SideBySide(ReadByEntries):
    """The columns of some sources of one shape, source after source.

    Attributes
    ----------
    sources
        The similarities of each measure, all of shape (n_rows, n_objects).

    Raises
    ------
    InputError
        The sources differ in shape.

    Examples
    --------
    >>> from distforest.sources.arrays import ArraySource
    >>> other = ArraySource.from_values(np.array([[0.0, 7.0], [8.0, 0.0]]))
    >>> both = SideBySide((ArraySource.from_values(np.eye(2)), other))
    >>> both.shape, both.entries(np.array([0, 1], np.int32), np.array([0, 2], np.int32))
    ((2, 4), array([1., 8.]))
    """

    sources: tuple[Source, ...]

    def __post_init__(self) -> None:
        shapes = {source.shape for source in self.sources}
        if len(shapes) != 1:
            found = " and ".join(map(str, sorted(shapes)))
            raise InputError(f"measures of the same objects have similarities of one shape, found {found}")

    @property
    def n_objects(self) -> int:
        """Number of columns of each measure."""
        return self.sources[0].shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n_rows, n_objects = self.sources[0].shape
        return n_rows, n_objects * len(self.sources)

    @property
    def nbytes(self) -> int:
        """Size of the values that the sources hold, where they say so."""
        return sum(int(getattr(source, "nbytes", 0)) for source in self.sources)

    def entries(self, rows: Int32s, columns: Int32s) -> Floats:
        """The values at ``(rows[e], columns[e])``, shape (n_entries,)."""
        values, (measure, place) = np.empty(len(rows)), np.divmod(columns, self.n_objects)
        for number, source in enumerate(self.sources):
            own = measure == number
            if own.any():
                values[own] = source.entries(rows[own], place[own])
        return values

    def project(self, rows: Int32s, starts: Ints, projections: Projections) -> Floats:
        """The candidates' values, shape (width, n_rows).

        A measure projects its own candidates at once, in the order of `distforest.sources.lazy.lazy_source.LazySource`:
        candidate by candidate, and in each node by node.
        """
        size = np.diff(projections.offset)
        filled = np.flatnonzero(size)
        filled = filled[np.argsort(filled % projections.width, kind="stable")]
        of_entry, column = np.divmod(projections.columns, np.int32(self.n_objects))
        measure = of_entry[projections.offset[filled]]
        if (of_entry != np.repeat(of_entry[projections.offset[:-1][size > 0]], size[size > 0])).any():
            return project_entries(self, rows, starts, projections)  # a candidate that reads two measures
        values = np.zeros((projections.width, len(rows)))
        for number, source in enumerate(self.sources):
            own = filled[measure == number]
            if not len(own):
                continue
            node, candidate = np.divmod(own, projections.width)
            begin, places = runs(starts, node)
            offset, entry = runs(projections.offset, own)
            alone = Projections(1, offset, column[entry], projections.weights[entry])
            values[np.repeat(candidate, np.diff(begin)), places] = source.project(rows[places], begin, alone)[0]
        return values
