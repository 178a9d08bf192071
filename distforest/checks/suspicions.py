"""The data of a fit as checks look at them, and the checks: each returns a sentence, or "" if it suspects nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.stats

from distforest.amounts import counted
from distforest.sources.arrays import row_blocks
from distforest.sources.point_pairs import SIMILAR
from distforest.sources.row_kinds import Dense, Kernel, is_given
from distforest.sources.source import spaced
from distforest.sources.sparse import SparseSource
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from distforest.sources.arrays import Matrix
    from distforest.sources.row_kinds import RowKind
    from distforest.sources.source import Floats, Int32s, Ints

FEWEST_ROWS = 8
"""Fewer rows may look like anything by chance."""

MOST_ROWS, MOST_OBJECTS = 2000, 256
"""Columns are checked by at most so many rows, and values of a square matrix by those among so many objects."""

BEYOND, FEWEST_MARKS = 10.0, 2
"""A mark lies beyond all other values by so many times their range, and stands in at least so many places.

Measured on the wine and breast cancer data, scaled, with -9999 in 1 % of the cells: SimForest loses 2 to 9 points of
accuracy."""

SUMS = ("linear", "rbf")
"""Built-in similarities that add up squares or products of columns."""

DROWNED = 1e-3
"""Share of the fourth power of a column's scale below which the sum of those of all others hardly counts.

Measured on the wine and breast cancer data, scaled, with an added column of noise: at 1e-3 SimForest loses 2 to 8
points of accuracy, at 1e-5 5 to 25."""

MOST_CLASSES, ROWS_OF_A_CLASS, LEAST_ORDER = 20, 20, 0.3
"""Labels are suspected if there are more different numbers, with fewer rows each on average, and a column follows their
order with this rank correlation; identifiers of persons or things do not follow any."""

MOST_LISTED = 10
"""The most columns that a finding lists."""

FEW_LOST = 0.1
"""Share of the different values of a column that float32 may make equal without a word."""


@dataclass(frozen=True)
class Given:
    """What a fit was given, as far as checks look at it; None is what it was not given.

    Attributes
    ----------
    raw
        Features before they become float32, shape (n, n_features), in memory or on disk.
    features
        Shape (n, n_features); NaN is missing.
    names
        The names of the features; empty if they have none.
    n_categories
        The number of categories of each feature, 0 for a number; empty if all are numbers.
    similarity
        The built-in similarity that is computed from the features; "" without one.
    similarities
        Given similarities, shape (n, n), NaN if unobserved, or their observed entries.
    of_distances
        Whether these are -d^2/2 of given distances d.
    distances
        The distances that the forest learns, shape (n, n).
    labels
        The label of each row, shape (n,), unless the user has said that they are labels.
    weights
        How much each row counts, shape (n,), or each given pair, shape (m,); None if all count alike.
    pairs, similar
        Row numbers of given pairs, shape (m, 2), and whether the rows of each are similar, shape (m,).
    """

    raw: Matrix | None = None
    features: np.ndarray | None = None
    names: Sequence[str] = ()
    n_categories: Sequence[int] = ()
    similarity: str = ""
    similarities: np.ndarray | SparseSource | None = None
    of_distances: bool = False
    distances: np.ndarray | None = None
    labels: np.ndarray | None = None
    weights: np.ndarray | None = None
    pairs: Int32s | None = None
    similar: NDArray[np.bool_] | None = None

    @classmethod
    def from_inputs(
        cls,
        rows: RowKind,
        matrix: object,
        truth: tuple[TruthKind, np.ndarray, Sequence[object] | None],
        pairs: Int32s | None = None,
        names: Sequence[str] = (),
        weights: np.ndarray | None = None,
    ) -> Given:
        """What a fit was given, as it has been read: rows of a kind, and the kind, values and classes of the truth."""
        kind, values, classes = truth
        is_square = kind == TruthKind.DISTANCES and values.ndim == 2 and values.shape[0] == values.shape[1]
        return cls(
            features=matrix[:, : rows.n_features] if isinstance(matrix, np.ndarray) and not is_given(rows) else None,
            names=names,
            n_categories=getattr(rows, "n_categories", ()),
            similarity=rows.kind if isinstance(rows, Kernel) else "",
            similarities=matrix if isinstance(rows, Dense) and isinstance(matrix, (np.ndarray, SparseSource)) else None,
            of_distances=isinstance(rows, Dense) and rows.of_distances,
            distances=values if is_square else None,
            labels=np.array(classes)[values] if kind == TruthKind.LABELS and classes is not None else None,
            weights=weights,
            pairs=pairs,
            similar=values == SIMILAR if kind == TruthKind.LINKS else None,
        )


def similarities_as_distances(given: Given) -> str:
    """Suspect distances if most rows are further from themselves than from any other row."""
    if given.distances is not None and _own_is_extreme(given.distances, np.fmax):
        return "distances: most rows are further from themselves than from any other row; give 1 - S of similarities S"
    matrix = given.similarities
    if given.of_distances and isinstance(matrix, np.ndarray) and _own_is_extreme(matrix, np.fmin):
        found = "distances: most objects are further from themselves than from any other object"
        return f"{found}; if these are similarities, say kind='similarity'"
    return ""


def distances_as_similarities(given: Given) -> str:
    """Suspect similarities if most objects are less similar to themselves than to any other object."""
    if given.of_distances or not isinstance(given.similarities, np.ndarray):
        return ""
    if not _own_is_extreme(given.similarities, np.fmin):
        return ""
    found = "similarities: most objects are less similar to themselves than to any other object"
    return f"{found}; if these are distances, say kind='distance'"


def _own_is_extreme(matrix: np.ndarray, extreme: np.ufunc) -> bool:
    """Whether the diagonal is beyond all other values of the row, for most rows; ``extreme`` is np.fmin or np.fmax."""
    block = _among(matrix)
    own = np.diag(block).copy()
    np.fill_diagonal(block, np.nan)
    bound = extreme.reduce(block, axis=1)
    is_beyond = own < bound if extreme is np.fmin else own > bound
    return len(own) >= FEWEST_ROWS and bool(2 * np.count_nonzero(is_beyond) > len(own))


def _among(matrix: np.ndarray) -> Floats:
    """The values among some evenly spaced objects, at most `MOST_OBJECTS`, of a square matrix."""
    chosen = spaced(len(matrix), MOST_OBJECTS)
    return matrix[np.ix_(chosen, chosen)].astype(np.float64)


def one_triangle(given: Given) -> str:
    """Suspect a square matrix whose values on one side of the diagonal are all 0 or unobserved."""
    matrix = given.similarities
    if matrix is None or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < FEWEST_ROWS:
        return ""
    if isinstance(matrix, SparseSource):
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        n_below, n_above = np.count_nonzero(matrix.indices < rows), np.count_nonzero(matrix.indices > rows)
        cure = "mirror it: S + S.T, whose diagonal is added to itself"
    else:
        is_value = np.nan_to_num(_among(matrix)) != 0.0
        n_below, n_above = np.count_nonzero(np.tril(is_value, -1)), np.count_nonzero(np.triu(is_value, 1))
        cure = "mirror it: numpy.fmax(S, S.T) where NaN is unobserved, else S + S.T with half of the diagonal"
    if (n_below > 0) == (n_above > 0):
        return ""
    empty, full = ("below", "above") if n_above else ("above", "below")
    return f"square matrix: all values are {full} the diagonal and none {empty} it; {cure}"


def sentinels(given: Given) -> str:
    """Suspect the least or the largest value of a column or a matrix if it stands in several places, far from others.

    Features are looked at where a built-in similarity adds them up; a tree that splits them can leave a mark apart.
    """
    cure = "if it marks what is unknown, put NaN in its place"
    if given.features is not None and given.similarity in (*SUMS, "cosine"):
        rows = _sampled(given.features)
        for column in range(rows.shape[1]):
            if found := _mark_in(rows[:, column]):
                return f"{_name(given, column)} has {found}, which decides {given.similarity!r}; {cure}"
    for matrix in (given.similarities, given.distances):
        if isinstance(matrix, np.ndarray):
            values = _among(matrix)
            values = values[~np.eye(len(values), dtype=bool)]
            if matrix is given.similarities and given.of_distances:
                values = np.sqrt(np.maximum(0.0, -2.0 * values))
            if found := _mark_in(values):
                return f"the matrix of pairs has {found}; {cure}"
    return ""


def _mark_in(values: Floats) -> str:
    """Describe a number that stands in several places beyond all others; "" without one."""
    known = values[~np.isnan(values)]
    for mark in (known.min(), known.max()) if len(known) else ():
        others, n_marked = known[known != mark], int(np.count_nonzero(known == mark))
        if n_marked < FEWEST_MARKS or len(others) < FEWEST_ROWS or others.min() == others.max():
            continue
        if max(others.min() - mark, mark - others.max()) > BEYOND * (others.max() - others.min()):
            return f"{mark:g} in {n_marked:,} places, far from {others.min():.3g} to {others.max():.3g} elsewhere"
    return ""


def amounts_as_labels(given: Given) -> str:
    """Suspect numbers as labels if they are nearly all different, or many, few rows each, in the order of a column."""
    labels = given.labels
    if labels is None or labels.dtype.kind not in "iuf" or len(labels) < FEWEST_ROWS:
        return ""
    n_classes = len(np.unique(labels))
    if n_classes <= MOST_CLASSES or len(labels) >= n_classes * ROWS_OF_A_CLASS:
        return ""
    found = f"labels: {n_classes:,} different numbers in {len(labels):,} rows"
    cure = "give Targets(y) if they are amounts"
    if 2 * n_classes > len(labels):
        return f"{found}; {cure}"
    if given.features is None or len(given.features) != len(labels):
        return ""
    rows = spaced(len(labels), MOST_ROWS)
    for column, values in enumerate(np.asarray(given.features[rows], np.float64).T):
        known = ~np.isnan(values)
        if known.sum() >= FEWEST_ROWS and np.ptp(values[known]) > 0.0:
            correlation = float(scipy.stats.spearmanr(values[known], labels[rows][known]).statistic)
            if abs(correlation) >= LEAST_ORDER:
                return f"{found}, in the order of {_name(given, column)} (rank correlation {correlation:.2f}); {cure}"
    return ""


def dominant_column(given: Given) -> str:
    """Suspect the scale of a column beside which all others hardly count in a built-in similarity."""
    if given.features is None or given.similarity not in SUMS or given.features.shape[1] < 2:
        return ""
    rows = _sampled(given.features)
    rows[:, np.isnan(rows).all(axis=0)] = 0.0
    scales = np.nanstd(rows, axis=0)
    first, second = np.argsort(-scales, kind="stable")[:2]
    others = float((np.delete(scales, first) ** 4).sum())
    if not 0.0 < others < DROWNED * scales[first] ** 4:
        return ""
    found = f"{_name(given, int(first))} is nearly all that {given.similarity!r} adds up: its standard deviation is"
    next_one = f"the next, of {_name(given, int(second))}, {scales[second]:.3g}"
    return f"{found} {scales[first]:.3g}, {next_one}; scale the columns first, say each by its standard deviation"


def contradictory_pairs(given: Given) -> str:
    """Suspect pairs of rows, of a weight above 0, that are given both as similar and as dissimilar."""
    if given.pairs is None or given.similar is None or not len(given.pairs):
        return ""
    low, high = given.pairs.min(axis=1).astype(np.int64), given.pairs.max(axis=1)
    numbers = low * (int(high.max()) + 1) + high
    counts = np.ones(len(numbers), np.bool_) if given.weights is None else given.weights > 0
    both = np.intersect1d(numbers[given.similar & counts], numbers[~given.similar & counts])
    if not len(both):
        return ""
    first = int(np.isin(numbers, both).argmax())
    some = f"pairs: {counted(len(both), 'pair of rows', 'pairs of rows')}"
    return f"{some} given both as similar and as dissimilar, first of all {low[first]} and {high[first]}; drop one"


def unobserved_rows(given: Given) -> str:
    """Suspect rows of a square matrix, of a weight above 0, of which no value is observed but on the diagonal."""
    for matrix in (given.similarities, given.distances):
        if matrix is None or matrix.shape[0] != matrix.shape[1]:
            continue
        n_observed = _n_observed(matrix)
        alone = np.flatnonzero((n_observed == 0) & (given.weights is None or given.weights > 0))
        if 0 < len(alone) < len(n_observed):
            rows = f"{counted(len(alone), 'row')} of {len(n_observed):,}"
            found = f"{rows} without an observed pair with any other row, the first of them row {alone[0]}"
            return f"{found}; observe some pairs, or leave the rows out"
    return ""


def _n_observed(matrix: np.ndarray | SparseSource) -> Ints:
    """How many values of each row are observed, without its own, shape (n,)."""
    if isinstance(matrix, SparseSource):
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        own = np.bincount(rows[matrix.indices == rows], minlength=matrix.shape[0])
        return np.diff(matrix.indptr) - own
    n_observed = [np.count_nonzero(~np.isnan(block), axis=1) for _, block in row_blocks(matrix)]
    return np.concatenate(n_observed) - ~np.isnan(np.diagonal(matrix))


def rounded_columns(given: Given) -> str:
    """Suspect a column of which float32 makes many different values equal."""
    if given.raw is None or given.raw.dtype.kind not in "fiu" or given.raw.dtype == np.float32:
        return ""
    for column, values in enumerate(np.asarray(given.raw[:MOST_ROWS]).T):
        known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
        with np.errstate(over="ignore"):  # what is too large is refused elsewhere
            n_different, n_left = len(np.unique(known)), len(np.unique(known.astype(np.float32)))
        if n_left < (1.0 - FEW_LOST) * n_different:
            found = f"{_name(given, column)}: float32 leaves {n_left:,} of {n_different:,} different values"
            return f"{found}; subtract the middle of the column"
    return ""


def names_as_categories(given: Given) -> str:
    """Suspect columns of categories with more than half as many categories as there are rows."""
    n_rows = 0 if given.features is None else len(given.features)
    if n_rows < FEWEST_ROWS:
        return ""
    many = [f"{_name(given, k)} has {n:,}" for k, n in enumerate(given.n_categories) if 2 * n > n_rows]
    if not many:
        return ""
    more = f", and {len(many) - MOST_LISTED:,} more" if len(many) > MOST_LISTED else ""
    found = f"categories: of {n_rows:,} rows, {', '.join(many[:MOST_LISTED])}{more}"
    return f"{found}; leave out a column that names the rows"


def _sampled(features: np.ndarray) -> Floats:
    """Evenly spaced rows as float64."""
    return np.array(features[spaced(len(features), MOST_ROWS)], np.float64)


def _name(given: Given, column: int) -> str:
    """What a message calls a column."""
    return f"column {given.names[column]!r}" if len(given.names) > column else f"column {column}"
