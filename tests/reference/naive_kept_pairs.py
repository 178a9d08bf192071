"""Kept pairs in plain loops, from what the methods page says: what their kernel must equal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tests.reference.naive import unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.reference.naive_simforest import Sample


def kept_pair(sample: Sample, rows: Sequence[int], order: int) -> tuple[int | None, int]:
    """Return (j, i), i of the least u = unit(order, row), j of the least (E_j - E_i) / unlike; E = -log(1 - u)."""
    late = {row: unit(order, row) for row in rows}  # of labels, which are unlike by 1, u decides itself
    i = min(rows, key=late.__getitem__)
    others = [row for row in rows if sample.unlike(row, i) > 0]
    if sample.rules.truth_kind == "targets":
        E = {row: -math.log(1.0 - u) for row, u in late.items()}
        late = {row: (E[row] - E[i]) / sample.unlike(row, i) for row in others}
    return min(others, key=late.__getitem__, default=None), i
