"""Columns of features that say the same in other numbers, which a screen takes for a manifold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.sources.doubts import column_name

if TYPE_CHECKING:
    from distforest.sources.schema import Schema
    from distforest.sources.source import Float32s, Floats

OFF_A_LINE = 1e-9
"""By how much the correlation of two columns on one line may be less than 1, as float32 rounds them."""

OFF_BY_ROUNDING, ALIKE_PRINTS, MOST_NEIGHBOURS = 4 * 2.0**-24, 2e-4, 4
"""By which share of the amounts in its equation a value may be off a line, so that marks such as -9999 in both columns
do not make one; by how much fingerprints of copies may differ, which is four standard errors at `OFF_A_LINE`; and with
how many columns of nearly the same fingerprint one is compared."""

PRINTED, PRINTED_AT_ONCE = 4, 64
"""Of one row in so many fingerprints are made, and of so many columns at once."""

FEWEST_DIFFERENT, MOST_COPY_ROWS, MOST_NAMED = 10, 2000, 5
"""Columns of fewer different numbers are not judged, as the two halves of a yes and a no say the same, too; by how many
evenly spaced rows columns are compared; and how many columns a message names."""


def told_of_copies(features: Float32s, schema: Schema | None = None) -> str:
    """Name columns of numbers that are copies of each other, or one amount in two units; else "".

    They are missing in the same rows, and lie on a line but for the rounding of float32.

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
    is_category = np.zeros(rows.shape[1], np.bool_)
    if schema and schema.n_categories:
        is_category[:] = np.array(schema.n_categories) > 0
    alike = _first_copies(rows, np.where(is_category, np.nan, _fingerprints(rows[::PRINTED])))
    if not alike:
        return ""
    names = [column_name(column, schema) for column in alike[:MOST_NAMED]]
    more = [f"{len(alike) - MOST_NAMED:,} more"] if len(alike) > MOST_NAMED else []
    *first, last = names + more
    found = f"{', '.join(first)} and {last} are copies of each other, or one amount in two units"
    follows = "they count as depending on each other more than any other features"
    return f"{found}, so that {follows}; leave out all but one, or give feature_weights"


def _is_varied(values: Float32s) -> bool:
    """Whether a column has enough different numbers to be judged; the first few rows tell it of most."""
    some = (np.unique(part) for part in (values[: 4 * FEWEST_DIFFERENT], values))
    return any(len(part) - int(np.isnan(part).sum()) >= FEWEST_DIFFERENT for part in some)


def _fingerprints(rows: Float32s) -> Floats:
    """Two numbers of each column that a factor and a constant leave as they are, shape (2, n_columns).

    They are random sums of its values in units of their spread; NaN of a column that has none.
    """
    weights = np.random.default_rng(0).normal(size=(2, len(rows)))
    prints = np.full((2, rows.shape[1]), np.nan)
    for first in range(0, rows.shape[1], PRINTED_AT_ONCE):
        apart = rows[:, first : first + PRINTED_AT_ONCE].astype(np.float64)
        known = ~np.isnan(apart)
        apart[~known] = 0.0
        apart -= apart.sum(axis=0) / np.maximum(1, known.sum(axis=0))
        apart[~known] = 0.0
        spread = np.sqrt((apart**2).sum(axis=0))
        spread[spread == 0.0] = np.nan
        prints[:, first : first + PRINTED_AT_ONCE] = np.abs(weights @ apart) / spread
    return prints


def _first_copies(rows: Float32s, prints: Floats) -> list[int]:
    """The first column that has copies, and all of these; none if there is none."""
    columns = np.flatnonzero(~np.isnan(prints[0]))
    columns = columns[np.argsort(prints[0, columns], kind="stable")]
    first = rows.shape[1]
    for further in range(1, MOST_NEIGHBOURS + 1):
        one, other = columns[:-further], columns[further:]
        is_near = (np.abs(prints[:, one] - prints[:, other]) <= ALIKE_PRINTS).all(axis=0)
        for pair in np.sort(np.stack([one[is_near], other[is_near]], axis=1), axis=1).tolist():
            if pair[0] < first and _are_copies(rows[:, pair[0]], rows[:, pair[1]]):
                first = pair[0]
    if first == rows.shape[1]:
        return []
    near = np.flatnonzero((np.abs(prints - prints[:, [first]]) <= ALIKE_PRINTS).all(axis=0)).tolist()
    return [first, *(other for other in near if other != first and _are_copies(rows[:, first], rows[:, other]))]


def _are_copies(one: Float32s, other: Float32s) -> bool:
    """Whether the numbers of a column are those of another one times a factor, plus a constant."""
    known = ~np.isnan(one)
    if not np.array_equal(known, ~np.isnan(other)) or not _is_varied(one):
        return False
    x, y = one[known].astype(np.float64), other[known].astype(np.float64)
    from_x, from_y = x - x.mean(), y - y.mean()
    product = from_x @ from_y
    if abs(product) <= (1.0 - OFF_A_LINE) * np.linalg.norm(from_x) * np.linalg.norm(from_y):
        return False
    factor = product / (from_x @ from_x)
    constant = y.mean() - factor * x.mean()  # the factor and it are rounded, too, which shows at values near 0
    amounts = np.abs(y) + np.abs(factor * x) + abs(constant) + np.median(np.abs(y))
    return bool((np.abs(y - factor * x - constant) <= OFF_BY_ROUNDING * amounts).all())
