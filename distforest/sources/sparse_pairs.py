"""Pairs of points of which most values are 0: the columns of a pair are worked out of those that are drawn or used.

A few columns of some pairs are written side by side as two dense points for each pair, its own left and right one. So
whatever reads `PointPairs` reads these, and nothing of the size of points times features is ever held.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.errors import InputError
from distforest.jit import kernel
from distforest.sources.point_pairs import LARGEST_FEATURE, PointPairs
from distforest.sources.source import Int32s, Ints, ReadByEntries, project_entries

if TYPE_CHECKING:
    from distforest.sources.point_pairs import PairColumns
    from distforest.sources.source import Float32s, Floats, Projections
    from distforest.sources.sparse import Lines
    from distforest.sources.sparse_features import SparseFeatures


class PickedColumns(NamedTuple):
    """Columns of a pair that are picked for each of some nodes.

    Attributes
    ----------
    start
        Where the columns of each node begin, shape (n_nodes + 1,).
    columns
        The columns, node after node; those of a node differ.
    """

    start: Ints
    columns: Int32s

    @property
    def width(self) -> int:
        """Most columns of a node, and one more, which is 0 for all pairs and stands for none."""
        return 1 + int(np.diff(self.start).max(initial=0))

    def numbers(self, n_features: int) -> Int32s:
        """The picked columns as `SparsePairs.written` numbers them, (n_nodes, width); the last is none."""
        size, width = np.diff(self.start), self.width
        numbers = np.full((len(size), width), width - 1, np.int32)
        node = np.repeat(np.arange(len(size)), size)
        place = np.arange(len(self.columns)) - self.start[node]
        numbers[node, place] = place + np.where(self.columns >= n_features, width, 0)
        return numbers


@dataclass(frozen=True, eq=False)
class SparsePairs(ReadByEntries):
    """Pairs of points whose features are sparse, which hold numbers and lack no value; see `PointPairs`.

    Attributes
    ----------
    columns
        The columns of a pair; there are no further ones.
    points, others
        Features of the left and of the right points.
    left, right
        Numbers of the two points of each pair, shape (m,).

    Examples
    --------
    >>> import scipy.sparse
    >>> from distforest.sources.point_pairs import PairColumns
    >>> from distforest.sources.sparse_features import read_sparse_features
    >>> points = read_sparse_features(scipy.sparse.csr_array([[0.0, 3.0], [1.0, 1.0]]))
    >>> one, two = np.zeros(1, np.int32), np.ones(1, np.int32)
    >>> pair = SparsePairs(PairColumns("difference_mean", 2), points, points, one, two)
    >>> pair.block(np.array([0], np.int32), np.arange(4, dtype=np.int32))
    array([[1. , 2. , 0.5, 2. ]])
    """

    columns: PairColumns
    points: SparseFeatures
    others: SparseFeatures
    left: Int32s
    right: Int32s
    is_complete: bool = True

    @property
    def shape(self) -> tuple[int, int]:
        """Number of pairs, and number of columns of a pair."""
        return len(self.left), self.columns.n_columns

    def of_pairs(self, left: Int32s, right: Int32s) -> SparsePairs:
        """Make other pairs of the same points."""
        return replace(self, left=left, right=right)

    def entries(self, rows: Int32s, columns: Int32s) -> Floats:
        """The values at ``(rows[e], columns[e])``, shape (n_entries,)."""
        n, of_feature = len(rows), columns % self.columns.n_features
        sides = ((self.points, self.left), (self.others, self.right))
        one, other = (
            points.entries(of_pair[rows], of_feature).astype(np.float32)[:, None] for points, of_pair in sides
        )
        number = np.arange(n, dtype=np.int32)
        dense = PointPairs(replace(self.columns, n_features=1), one, other, number, number)
        return dense.entries(number, (columns // self.columns.n_features).astype(np.int32))

    def project(self, rows: Int32s, starts: Ints, projections: Projections) -> Floats:
        """The candidates' values, shape (width, n_rows)."""
        return project_entries(self, rows, starts, projections)

    def on(self, features: Ints) -> SparsePairs:
        """The same pairs with these features alone; their numbers ascend, and there is at least one."""
        columns = replace(self.columns, n_features=len(features))
        points = self.points.on(features)
        others = points if self.others is self.points else self.others.on(features)
        return replace(self, columns=columns, points=points, others=others)

    def dense(self, pairs: slice) -> PointPairs:
        """Some of the pairs, all of whose features are written down."""
        one, other = self.points.dense(self.left[pairs]), self.others.dense(self.right[pairs])
        number = np.arange(len(one), dtype=np.int32)
        return PointPairs(self.columns, one, other, number, number, is_complete=True)

    def written(self, rows: Int32s, starts: Ints, picked: PickedColumns) -> PointPairs:
        """The rows of some nodes with the columns that are picked for each, of as many features as the widest has.

        Column c < p of a pair that is picked as the k-th is column k there; the second one of a feature, p + c, is
        column k of the second half. All other values are 0.
        """
        width = picked.width
        one, other = np.zeros((len(rows), width), np.float32), np.zeros((len(rows), width), np.float32)
        slots = np.full(self.columns.n_columns, -1, np.int32)
        for points, of_pair, values in ((self.points, self.left, one), (self.others, self.right, other)):
            write_picked(points.by_row, of_pair[rows], starts, picked, self.columns.n_features, slots, values)
        place = np.empty(len(self.left), np.int32)
        place[rows] = np.arange(len(rows), dtype=np.int32)
        return PointPairs(replace(self.columns, n_features=width), one, other, place, place, is_complete=True)


def check_sparse_points(points: SparseFeatures) -> None:
    """Refuse points whose differences or sums overflow float32; raises InputError."""
    largest = float(np.abs(points.data).max(initial=0.0))
    if largest > LARGEST_FEATURE:
        raise InputError(
            f"features of points in pairs must be at most {LARGEST_FEATURE:g}, found {largest:g}; scale them"
        )


@kernel
def write_picked(
    lines: Lines, points: Int32s, starts: Ints, picked: PickedColumns, n_features: int, slots: Int32s, values: Float32s
) -> None:
    """values[r, k] = X[points[r], c mod p] wherever it is not 0, for the k-th column c picked for the node of row r.

    ``slots`` is -1 for each column of a pair, also afterwards.
    """
    start, columns = picked
    for node in range(starts.shape[0] - 1):
        for e in range(start[node], start[node + 1]):
            slots[columns[e]] = e - start[node]
        for r in range(starts[node], starts[node + 1]):
            for v in range(lines.start[points[r]], lines.start[points[r] + 1]):
                for column in range(lines.number[v], slots.shape[0], n_features):
                    if slots[column] >= 0:
                        values[r, slots[column]] = lines.value[v]
        for e in range(start[node], start[node + 1]):
            slots[columns[e]] = -1
