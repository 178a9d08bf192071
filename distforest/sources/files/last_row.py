"""The last row of a table, which may be no row like the others: spreadsheets write totals there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.sources.files.bounds import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from distforest.sources.files.tables import Table

FEWEST_ABOVE, FEWEST_HOLES = 10, 2
"""The fewest rows of a table, and the fewest values that its last one lacks, of which a doubt is told."""


@dataclass
class LastRow:
    """How many values each column lacks, and which of them the last row lacks; both of shape (n_columns,)."""

    n_rows: int
    n_missing: NDArray[np.int64]
    lacks: NDArray[np.bool_]

    @property
    def is_odd(self) -> NDArray[np.bool_]:
        """Which columns the last row alone lacks; none unless these are most of the columns that no other row lacks.

        Examples
        --------
        >>> LastRow(21, np.array([1, 1, 20]), np.array([True, True, False])).is_odd
        array([ True,  True, False])
        """
        whole = self.n_missing == self.lacks
        alone = whole & self.lacks
        is_much = self.n_rows >= FEWEST_ABOVE and alone.sum() >= FEWEST_HOLES and 2 * alone.sum() > whole.sum()
        return alone & is_much

    def told(self, table: Table, positions: Sequence[int], names: Sequence[str]) -> str:
        """A warning that the last row may be a total of the others; "" if it is like them."""
        columns = np.flatnonzero(self.is_odd)
        if not len(columns):
            return ""
        first = columns[0]
        where = table.place(self.n_rows - 1, positions[first]).removeprefix(f"{table.path}: ")
        found = f"the last one, lacks {counted(len(columns), 'value')} that no other row lacks"
        return f"{where}, {found}, such as of {quoted(names[first])}; leave it out if it is a total of the others"
