"""Parameter ``similarity``, which may be a list: several similarities of the same objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import InputError
from distforest.sources.given import unmasked
from distforest.sources.lazy.callbacks import Lazy
from distforest.sources.row_kinds import Dense, Kernel, Several

if TYPE_CHECKING:
    from collections.abc import Iterable

    from distforest.estimators.input_types import RowsLike, SimilarityLike, VectorLike
    from distforest.growth.parameters import Parameter
    from distforest.sources.row_kinds import RowKind

PRECOMPUTED = "precomputed"
"""The name of a similarity that is given as a matrix."""


def similarities_of(given: SimilarityLike) -> tuple[str | Lazy, ...]:
    """Return the similarities of the parameter as a tuple, for a list or a single one."""
    return tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)


def check_similarities(given: tuple[str | Lazy, ...], parameter: Parameter, alone: str) -> None:
    """Refuse a list that is empty, has an unknown entry or ``alone``, or whose entries read different rows.

    Raises
    ------
    InputError
        The message names the entry.
    """
    if not given:
        raise InputError("similarity: a list of similarities was expected, found an empty one")
    for place, one in enumerate(given):
        if not isinstance(one, Lazy) and (fault := parameter.fault(one)):
            raise InputError(fault if len(given) == 1 else f"similarity[{place}]: {fault}")
        if one == alone and len(given) > 1:
            raise InputError(f"similarity[{place}]: {alone!r} makes similarities of its own; give it alone")
    kinds = {"Lazy" if isinstance(one, Lazy) else one if one == PRECOMPUTED else "built in" for one in given}
    if len(kinds) > 1:
        cure = "give the others as functions, Lazy(pairwise(f))"
        raise InputError(f"several similarities must read the same rows, found {' and '.join(sorted(kinds))}; {cure}")


def weights_of(given: VectorLike | None, n_measures: int) -> tuple[float, ...]:
    """Return the weight of each similarity; raises InputError for anything but a number >= 0 for each."""
    if given is None:
        return (1.0,) * n_measures
    weights = np.asarray(unmasked(given), np.float64)
    if weights.shape != (n_measures,):
        raise InputError(f"similarity_weights: one for each of {n_measures} similarities, found shape {weights.shape}")
    if not (np.isfinite(weights) & (weights >= 0.0)).all() or not weights.any():
        raise InputError(f"similarity_weights must be finite and >= 0, not all of them 0; found {weights.tolist()}")
    return tuple(weights.tolist())


def matrices_of(X: RowsLike, n_measures: int) -> list[RowsLike]:
    """Return the matrix of each similarity, from a list or an array of shape (n, n_objects, n_measures).

    Raises
    ------
    InputError
        There is not one matrix for each similarity.
    """
    expected = f"X: {n_measures} matrices were expected, a list of them or an array of shape (n, n, {n_measures})"
    if isinstance(X, (list, tuple)) and all(isinstance(one, str) or len(getattr(one, "shape", ())) == 2 for one in X):
        if len(X) != n_measures:
            raise InputError(f"{expected}; found a list of {len(X)}")
        return list(X)
    if not isinstance(X, (list, tuple, np.ndarray)):
        raise InputError(f"{expected}; found {type(X).__name__}")
    values = np.asarray(unmasked(X))
    if values.ndim != 3 or values.shape[2] != n_measures:
        raise InputError(f"{expected}; found shape {values.shape}")
    return [values[:, :, place] for place in range(n_measures)]


def side_by_side(matrices: Iterable[np.ndarray]) -> np.ndarray:
    """Join matrices side by side, shape (n, n_measures * n_objects); raises InputError if shapes differ."""
    listed = list(matrices)
    shapes = {matrix.shape for matrix in listed}
    if len(shapes) > 1:
        raise InputError(f"X: matrices of one shape were expected, found {' and '.join(map(str, sorted(shapes)))}")
    return np.concatenate(listed, axis=1)


def words_of(rows: RowKind) -> str | list[str]:
    """Return the value of the parameter ``similarity`` for the rows of a forest."""
    if isinstance(rows, Several):
        return [PRECOMPUTED if isinstance(measure, Dense) else measure.kind for measure in rows.measures]
    return rows.kind if isinstance(rows, Kernel) else PRECOMPUTED
