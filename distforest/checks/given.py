"""What checks look at: the data of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

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
        The label of each row, shape (n,), unless the user has said that they are labels.
    weights
        How much each row counts, shape (n,), or each given pair, shape (m,); None if all count alike.
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
    weights: np.ndarray | None = None
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
        weights: np.ndarray | None = None,
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
            weights=weights,
            pairs=pairs,
            similar=values == SIMILAR if kind == TruthKind.LINKS else None,
        )
