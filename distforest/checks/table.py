"""The table of checks: what each one suspects, and the one place where findings become warnings.

A check looks at data that a fit can use, and returns a sentence if they may not be what the user meant. It changes
nothing. Everything that a fit cannot use is refused elsewhere. Each check has a code, with which its warning begins, so
that Python's own filters switch it off:

>>> import warnings
>>> warnings.filterwarnings("ignore", "DF007")  # or PYTHONWARNINGS="ignore:DF007" for a command
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.checks import suspicions
from distforest.errors import warn_caller
from distforest.sources.point_pairs import SIMILAR
from distforest.sources.row_kinds import Dense, Kernel, is_given
from distforest.sources.sparse import SparseSource
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from distforest.sources.arrays import Matrix
    from distforest.sources.row_kinds import RowKind
    from distforest.sources.source import Int32s


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
    similarity
        The built-in similarity that is computed from the features; "" without one.
    similarities
        Given similarities, shape (n, n), NaN if unobserved, or their observed entries.
    of_distances
        Whether these are -d^2/2 of given distances d.
    distances
        The distances that the forest learns, shape (n, n).
    labels
        The label of each row, shape (n,).
    pairs, similar
        Row numbers of given pairs, shape (m, 2), and whether the rows of each are similar, shape (m,).
    """

    raw: Matrix | None = None
    features: np.ndarray | None = None
    names: Sequence[str] = ()
    similarity: str = ""
    similarities: np.ndarray | SparseSource | None = None
    of_distances: bool = False
    distances: np.ndarray | None = None
    labels: np.ndarray | None = None
    pairs: Int32s | None = None
    similar: NDArray[np.bool_] | None = None

    @classmethod
    def of(
        cls,
        rows: RowKind,
        matrix: object,
        truth: tuple[TruthKind, np.ndarray, Sequence[object] | None],
        pairs: Int32s | None = None,
        names: Sequence[str] = (),
    ) -> Given:
        """What a fit was given, as it has been read: rows of a kind, and the kind, values and classes of the truth."""
        kind, values, classes = truth
        is_square = kind == TruthKind.DISTANCES and values.ndim == 2 and values.shape[0] == values.shape[1]
        return cls(
            features=matrix[:, : rows.n_features] if isinstance(matrix, np.ndarray) and not is_given(rows) else None,
            names=names,
            similarity=rows.kind if isinstance(rows, Kernel) else "",
            similarities=matrix if isinstance(rows, Dense) and isinstance(matrix, (np.ndarray, SparseSource)) else None,
            of_distances=isinstance(rows, Dense) and rows.of_distances,
            distances=values if is_square else None,
            labels=np.array(classes)[values] if kind == TruthKind.LABELS and classes is not None else None,
            pairs=pairs,
            similar=values == SIMILAR if kind == TruthKind.LINKS else None,
        )


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
        suspicions.drowning_column,
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
    "DF012": Check("a forest has learned nothing", "most trees have no split, so that their answers are all the same"),
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
