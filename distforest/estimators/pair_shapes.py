"""Pairs in the shapes that people have them in, as ``X`` and row numbers, which every method of a pair forest takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import scipy.sparse

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.estimators.input_types import PairsLike, VectorLike
from distforest.sources.factors import names_of_classes
from distforest.sources.given import in_memory, is_data_frame
from distforest.sources.opening import opened_array
from distforest.sources.point_pairs import check_pairs
from distforest.sources.truth import Truth, TruthKind

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from distforest.sources.source import Int32s, Ints


def number_pairs(pairs: ArrayLike, ids: ArrayLike, right_ids: ArrayLike | None = None) -> Ints:
    """Number pairs of names by the rows that have these names.

    Parameters
    ----------
    pairs
        Names of the two records of each pair, shape (n_pairs, 2): an array, a data frame of two columns, such as
        ``table[["unique_id_l", "unique_id_r"]]`` of Splink, or ``index.to_frame()`` of recordlinkage.
    ids
        Name of each row, shape (n,).
    right_ids
        Name of each row of a second table, to which the right names belong, shape (m,); None: there is one table.

    Returns
    -------
    ndarray of shape (n_pairs, 2), int64
        Row numbers in the table, or in both tables.

    Raises
    ------
    InputError
        Two rows of a table have one name, or a name is that of no row.

    Examples
    --------
    >>> number_pairs([["b", "a"], ["c", "a"]], ["a", "b", "c"])
    array([[1, 0],
           [2, 0]])
    """
    names = np.asarray(pairs)
    if names.ndim != 2 or names.shape[1] != 2:
        raise InputError(f"pairs: two names for each pair, shape (n_pairs, 2), were expected, found {names.shape}")
    numbers = np.empty(names.shape, np.int64)
    for side, of_side in enumerate((ids, ids if right_ids is None else right_ids)):
        listed = np.asarray(of_side).tolist()
        rows = {name: row for row, name in enumerate(listed)}
        if len(rows) < len(listed):
            twice = next(name for row, name in enumerate(listed) if rows[name] != row)
            raise InputError(f"ids: a name of its own was expected for each row, found {twice!r} twice")
        for pair, name in enumerate(names[:, side].tolist()):
            if name not in rows:
                raise InputError(f"pairs: names of the {counted(len(listed), 'row')} were expected, found {name!r}")
            numbers[pair, side] = rows[name]
    return numbers


def stack_tables(left: Any, right: Any, pairs: ArrayLike) -> tuple[Any, Ints]:
    """Put two tables one below the other, for pairs of a row of each.

    Parameters
    ----------
    left, right
        Data frames of one library with the same columns, arrays, or sparse matrices, of n and of m rows.
    pairs
        Row number in ``left`` and row number in ``right`` of each pair, shape (n_pairs, 2).

    Returns
    -------
    X
        The rows of both tables, n + m in all.
    pairs : ndarray of shape (n_pairs, 2), int64
        Row numbers in ``X``.

    Raises
    ------
    InputError
        The tables have other columns, or a number is that of no row.

    Examples
    --------
    >>> X, pairs = stack_tables(np.zeros((3, 2)), np.ones((2, 2)), [[0, 1], [2, 0]])
    >>> X.shape, pairs.tolist()
    ((5, 2), [[0, 4], [2, 3]])
    """
    numbers = np.asarray(pairs)
    shapes = [np.shape(side) for side in (left, right)]
    if numbers.ndim != 2 or numbers.shape[1] != 2 or numbers.dtype.kind not in "iu":
        raise InputError(
            f"pairs: row numbers of shape (n_pairs, 2) were expected, found {numbers.dtype} {numbers.shape}"
        )
    for side, (word, (n_rows, *_)) in enumerate(zip(("left", "right"), shapes, strict=True)):
        outside = (numbers[:, side] < 0) | (numbers[:, side] >= n_rows)
        if outside.any():
            found = f"found {numbers[outside, side][0]} in pair {int(outside.argmax())}"
            raise InputError(f"pairs: row numbers of {word} in 0..{n_rows - 1} were expected, {found}")
    if is_data_frame(left) and is_data_frame(right):
        one: Any = nw.from_native(left, eager_only=True)
        other: Any = nw.from_native(right, eager_only=True)
        if one.columns != other.columns:
            raise InputError(f"two tables with the same columns were expected, found {one.columns} and {other.columns}")
        X = nw.concat([one, other], how="vertical").to_native()
        X = X.reset_index(drop=True) if hasattr(X, "reset_index") else X
    elif shapes[0][1:] != shapes[1][1:]:
        raise InputError(f"two tables with the same columns were expected, found shapes {shapes[0]} and {shapes[1]}")
    else:
        stack = scipy.sparse.vstack if scipy.sparse.issparse(left) else np.concatenate
        X = stack([left, right])
    return X, numbers.astype(np.int64) + np.array([0, shapes[0][0]])


def pairs_of_array(array: ArrayLike) -> tuple[NDArray[Any], Ints]:
    """Take an array of pairs of vectors apart, as metric-learn has it; equal vectors are one point.

    Parameters
    ----------
    array
        Both vectors of each pair, shape (n_pairs, 2, n_features).

    Returns
    -------
    X : ndarray of shape (n, n_features)
        The distinct vectors.
    pairs : ndarray of shape (n_pairs, 2), int64
        Row numbers in ``X``.

    Raises
    ------
    InputError
        The array has another shape.

    Examples
    --------
    >>> X, pairs = pairs_of_array([[[0.0, 1.0], [2.0, 3.0]], [[2.0, 3.0], [4.0, 5.0]]])
    >>> X.shape, pairs.tolist()
    ((3, 2), [[0, 1], [1, 2]])
    """
    both = np.asarray(array)
    if both.ndim != 3 or both.shape[1] != 2:
        raise InputError(f"pairs of vectors of shape (n_pairs, 2, n_features) were expected, found {both.shape}")
    X, numbers = np.unique(both.reshape(-1, both.shape[2]), axis=0, return_inverse=True)
    return X, numbers.reshape(-1, 2)


def pairs_of_triplets(triplets: ArrayLike) -> tuple[Ints, NDArray[np.bool_]]:
    """Turn triplets, in which a is nearer to b than to c, into similar pairs (a, b) and dissimilar pairs (a, c).

    An answer "c is the odd one out of a, b and c" is two triplets: (a, b, c) and (b, a, c).

    Parameters
    ----------
    triplets
        Row numbers of a, b and c, shape (n_triplets, 3).

    Returns
    -------
    pairs : ndarray of shape (2 n_triplets, 2), int64
        Row numbers of both points.
    similar : ndarray of shape (2 n_triplets,), bool
        Whether a pair is similar.

    Raises
    ------
    InputError
        The array has another shape or dtype.

    Examples
    --------
    >>> pairs, similar = pairs_of_triplets([[4, 1, 7]])
    >>> pairs.tolist(), similar.tolist()
    ([[4, 1], [4, 7]], [True, False])
    """
    numbers = np.asarray(triplets)
    if numbers.ndim != 2 or numbers.shape[1] != 3 or numbers.dtype.kind not in "iu":
        found = f"found {numbers.dtype} {numbers.shape}"
        raise InputError(f"triplets: row numbers of shape (n_triplets, 3) were expected, {found}")
    pairs = np.concatenate([numbers[:, [0, 1]], numbers[:, [0, 2]]]).astype(np.int64)
    return pairs, np.repeat([True, False], len(numbers))


def read_links(pairs: PairsLike, similar: VectorLike, n_points: int) -> tuple[Int32s, NDArray[np.uint8]]:
    """Read pairs of points, shape (n_pairs, 2), and the class of each, 0 for similar."""
    links = opened_array(similar)
    given, kinds = np.asarray(in_memory(opened_array(pairs))), in_memory(links)
    numbers = check_pairs(given, n_points)
    codes = Truth.from_vector(TruthKind.LINKS, kinds, names_of_classes(links)).values
    if len(codes) != len(numbers):
        found = f"found {counted(len(numbers), 'pair')} and {counted(len(codes), 'entry', 'entries')}"
        raise InputError(f"similar: an entry for each pair was expected, {found}")
    return numbers, codes
