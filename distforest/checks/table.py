"""The table of checks: what each one suspects, and the one place where findings become warnings.

A check looks at data that a fit can use, and returns a sentence if they may not be what the user meant. It changes
nothing. Everything that a fit cannot use is refused elsewhere. Each check has a code, with which its warning begins, so
that Python's own filters switch it off:

>>> import warnings
>>> warnings.filterwarnings("ignore", "DF007")  # or PYTHONWARNINGS="ignore:DF007" for a command
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distforest.checks import suspicions
from distforest.checks.suspicions import Given
from distforest.errors import InputError, warn_caller
from distforest.sources.columns import FROM_DTYPE, TableColumns, numbers_in_column
from distforest.sources.factors import Labels
from distforest.sources.given import in_memory, is_sparse, unmasked
from distforest.sources.kernels import KERNELS
from distforest.sources.opening import opened_rows
from distforest.sources.point_pairs import check_pairs
from distforest.sources.readings import FEATURES, read
from distforest.sources.row_kinds import Dense, Features, Kernel
from distforest.sources.row_order import warning_about_row_order
from distforest.sources.sparse import SparseSource, read_sparse
from distforest.sources.truth import Truth, TruthKind

if TYPE_CHECKING:
    from distforest.sources.row_kinds import RowKind


GIVEN_MATRIX = "precomputed"
"""The word for similarities that are given."""


class Finding(NamedTuple):
    """What a check has found.

    Attributes
    ----------
    code
        The code of the check, such as ``"DF007"``.
    text
        What was found, and what to do.
    """

    code: str
    text: str

    def __str__(self) -> str:
        return f"{self.code} {self.text}"


class Check(NamedTuple):
    """A check.

    Attributes
    ----------
    suspects
        What it suspects.
    reason
        What happens to the answers if the suspicion is right.
    look
        Looks at the data of a fit, and returns a sentence or ""; None if the check runs elsewhere, as it needs more.
    """

    suspects: str
    reason: str
    look: Callable[[Given], str] | None = None


CHECKS: dict[str, Check] = {
    "DF001": Check(
        "distances are similarities",
        "near rows count as far, so that a forest learns the opposite",
        suspicions.similarities_as_distances,
    ),
    "DF002": Check(
        "similarities are distances",
        "far objects count as near, so that a forest learns the opposite",
        suspicions.distances_as_similarities,
    ),
    "DF003": Check(
        "a square matrix has one triangle only",
        "half of all pairs count as unobserved or as 0",
        suspicions.one_triangle,
    ),
    "DF004": Check("distances z_ij and z_ji differ", "the mean of the two is learned, which may be neither"),
    "DF005": Check("rows of two tables are in different orders", "each row learns what is true of another one"),
    "DF006": Check(
        "one number marks what is unknown",
        "it counts as a value far from all others, and decides most distances",
        suspicions.sentinels,
    ),
    "DF007": Check(
        "labels are amounts",
        "any two amounts count as equally different; `Targets` are compared by their differences",
        suspicions.amounts_as_labels,
    ),
    "DF008": Check(
        "one column drowns the others",
        "a built-in similarity adds up columns, so that the others hardly count",
        suspicions.dominant_column,
    ),
    "DF009": Check(
        "pairs contradict each other",
        "both count, so that a forest is unsure of them",
        suspicions.contradictory_pairs,
    ),
    "DF010": Check(
        "rows have no observed pair",
        "nothing is learned of them, and all of them get the same answer",
        suspicions.unobserved_rows,
    ),
    "DF011": Check(
        "different values of a column are equal in float32",
        "trees read float32, and cannot tell these values apart",
        suspicions.rounded_columns,
    ),
    "DF012": Check(
        "a forest has learned little or nothing",
        "trees have no split, or most rows stay at their roots, or few trees vote, so that many answers are the same",
    ),
    "DF013": Check(
        "categories are names of rows",
        "nearly every category is of one row, so that splits by it hold for no new row",
        suspicions.names_as_categories,
    ),
}
"""All checks by their codes."""


def findings(given: Given) -> list[Finding]:
    """Run the checks that read data, in the order of their codes.

    Examples
    --------
    >>> similar = np.exp(-np.abs(np.subtract.outer(np.arange(9.0), np.arange(9.0))))
    >>> [finding.code for finding in findings(Given(distances=similar))]
    ['DF001']
    """
    found = ((code, check.look(given)) for code, check in CHECKS.items() if check.look is not None)
    return [Finding(code, text) for code, text in found if text]


def warn_of(given: Given) -> None:
    """Warn of each finding at the line of the caller."""
    for finding in findings(given):
        warn_caller(str(finding))


def check(
    X: object,
    y: object = None,
    *,
    similarity: str = "",
    kind: str = "similarity",
    pairs: object = None,
    similar: object = None,
) -> list[Finding]:
    """Look for data that can be used, but may not mean what they should, as `fit` does; nothing grows.

    Parameters
    ----------
    X
        Features, shape (n, n_features), or for ``similarity="precomputed"`` a square matrix, which may be sparse:
        array-like, data frame, of which columns of numbers and of categories are looked at, Zarr array, or the address
        of one.
    y
        What the forest would learn, as `SMERF` takes it; None: nothing.
    similarity
        ``"precomputed"``, a built-in similarity as of `SimForestClassifier`, or ``""`` for a forest over features.
    kind
        Whether a precomputed matrix holds ``"similarity"`` or ``"distance"``.
    pairs, similar
        As for `RFD.fit_pairs`.

    Returns
    -------
    list of Finding
        In the order of their codes; empty if there is nothing to suspect.

    Raises
    ------
    InputError
        ``X`` or ``y`` cannot be used at all, or the similarity is unknown.

    Examples
    --------
    >>> distances = np.abs(np.subtract.outer(np.arange(9.0), np.arange(9.0)))
    >>> print(*check(distances, similarity="precomputed"))
    DF002 similarities: most objects are less similar to themselves than to any other object; if these are distances,
    say kind='distance'
    """
    if similarity not in ("", GIVEN_MATRIX, *KERNELS):
        words = ", ".join(map(repr, ("", GIVEN_MATRIX, *KERNELS)))
        raise InputError(f"similarity: one of {words} was expected, found {similarity!r}")
    raw: Any = opened_rows(X)
    columns: dict[str, np.ndarray] = {}
    of_categories = Given()
    if (table := TableColumns.from_frame(raw)) is not None:
        found_in = {name: numbers_in_column(column) for name, column in zip(table.names, table.columns, strict=True)}
        columns = {name: numbers for name, numbers in found_in.items() if numbers is not None}
        raw = np.column_stack([*columns.values()]) if columns else raw
        if (schema := table.learned(FROM_DTYPE)) is not None:
            none = np.empty((len(table.columns[0]), 0))
            of_categories = Given(features=none, names=table.names, n_categories=schema.n_categories)
    elif not is_sparse(raw):
        raw = unmasked(in_memory(raw))
    matrix: np.ndarray | SparseSource
    rows: RowKind
    if similarity == GIVEN_MATRIX:
        rows = Dense.from_shape(raw.shape, kind)
        matrix = read_sparse(raw, rows.reading) if is_sparse(raw) else read(raw, rows.reading)
    else:
        matrix = read(raw, FEATURES)
        rows = Kernel.from_features(similarity, matrix, None) if similarity else Features(matrix.shape[1])
    truth = Truth(TruthKind.NOTHING, np.empty((matrix.shape[0], 0))) if y is None else Truth.from_given(y)
    if pairs is not None:
        truth = Truth.from_vector(TruthKind.LINKS, similar)
    numbers = None if pairs is None else check_pairs(np.asarray(pairs), matrix.shape[0])
    classes = None if isinstance(y, Labels) else truth.classes  # who writes Labels(y) means labels
    looked_at = Given.from_inputs(rows, matrix, (truth.kind, truth.values, classes), numbers, tuple(columns))
    found = findings(looked_at if similarity == GIVEN_MATRIX else replace(looked_at, raw=raw)) + findings(of_categories)
    order = warning_about_row_order(X, y, "y")
    return sorted([*found, *([Finding("DF005", order)] if order else [])])
