"""Columns of features that say the same in other numbers, which a screen takes for a manifold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.sources.doubts import column_name

if TYPE_CHECKING:
    from distforest.sources.schema import Schema
    from distforest.sources.source import Float32s

OFF_A_LINE = 1e-9
"""By how much the correlation of two columns on one line may be less than 1, as float32 rounds them."""

FEWEST_DIFFERENT, MOST_COPY_ROWS, MOST_NAMED = 10, 2000, 5
"""Columns of fewer different numbers are not judged, as the two halves of a yes and a no say the same, too; by how many
evenly spaced rows columns are compared; and how many columns a message names."""


def told_of_copies(features: Float32s, schema: Schema | None = None) -> str:
    """Name columns of numbers that are copies of each other, or one amount in two units; else "".

    They put all rows in the same order, or in the reverse, and lie on a line. Neighbours in a series may do the first.

    Parameters
    ----------
    features
        Shape (n, p), NaN where a value is missing.
    schema
        The columns, with their names.

    Examples
    --------
    >>> features = np.random.default_rng(0).normal(size=(50, 4))
    >>> features[:, 3] = 32 - 1.8 * features[:, 1]
    >>> told_of_copies(features)
    'column 1 and column 3 are copies of each other, or one amount in two units, so that they count as depending on
    each other more than any other features; leave out all but one, or give feature_weights'
    """
    rows = np.asarray(features[:: -(-max(1, len(features)) // MOST_COPY_ROWS)], np.float32)
    groups: dict[bytes, list[int]] = {}
    for column in range(features.shape[1]):
        values, places = np.unique(rows[:, column], return_inverse=True)
        n_different = len(values) - int(np.isnan(values).sum())
        if n_different >= FEWEST_DIFFERENT and not (schema and schema.n_categories and schema.n_categories[column]):
            groups.setdefault(_order_of(places, n_different), []).append(column)
    lines = (_on_a_line(rows, group) for group in groups.values() if len(group) > 1)
    alike = next((group for group in lines if len(group) > 1), None)
    if alike is None:
        return ""
    names = [column_name(column, schema) for column in alike[:MOST_NAMED]]
    more = [f"{len(alike) - MOST_NAMED:,} more"] if len(alike) > MOST_NAMED else []
    *first, last = names + more
    found = f"{', '.join(first)} and {last} are copies of each other, or one amount in two units"
    follows = "they count as depending on each other more than any other features"
    return f"{found}, so that {follows}; leave out all but one, or give feature_weights"


def _on_a_line(rows: Float32s, columns: list[int]) -> list[int]:
    """The first column, and those whose numbers are those of the first times a factor, plus a constant."""
    known = rows[~np.isnan(rows[:, columns[0]])][:, columns].astype(np.float64)
    known -= known.mean(axis=0)
    known /= np.abs(known).max(axis=0)
    cosines = known[:, 0] @ known / np.sqrt((known[:, 0] ** 2).sum() * (known**2).sum(axis=0))
    return [column for column, cosine in zip(columns, cosines, strict=True) if abs(cosine) > 1.0 - OFF_A_LINE]


def _order_of(places: np.ndarray, n_different: int) -> bytes:
    """The order of the rows by a column, the same for the reverse; rows without a value come last in both.

    ``places`` are the numbers of the values in ascending order, NaN last.
    """
    turned = np.where(places < n_different, n_different - 1 - places, places)
    return min(places.astype(np.int32).tobytes(), turned.astype(np.int32).tobytes())
