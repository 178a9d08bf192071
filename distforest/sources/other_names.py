"""Names of columns that are no strings: numbers, dates and levels of pandas, which scikit-learn does not compare."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING

from distforest.errors import InputError
from distforest.sources.given import is_of_pandas
from distforest.sources.schema import MAX_CHARACTERS, MAX_LENGTH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from distforest.sources.given import DataFrame

OTHER_NAMES, FROM_0 = "other_names", "numbered"
"""The key of such names in a forest's provenance, and its entry if they number the columns from 0."""

NAMES_SHOWN = 5
"""The most names that a message lists."""


def other_names(frame: DataFrame) -> tuple[str, ...]:
    """The names of a data frame's columns as text if none of them is a string; else an empty tuple.

    Equal names have the same text, and so have all that are NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> other_names(pd.DataFrame(np.eye(3), columns=[3, 1.5, np.nan]))
    ('3', '1.5', 'nan')
    >>> other_names(pd.DataFrame(np.eye(2), columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])))
    ("('a', 1)", "('a', 2)")
    >>> other_names(pd.DataFrame(np.eye(2), columns=["3", "1.5"]))
    ()
    """
    names = list(frame.columns) if is_of_pandas(frame) else []
    return () if any(isinstance(name, str) for name in names) else tuple(map(_text, names))


def _text(name: object) -> str:
    if isinstance(name, tuple):
        return f"({', '.join(map(_text, name))})"
    if isinstance(name, Real) and not isinstance(name, Integral) and float(name).is_integer():
        return str(int(float(name)))
    return str(name) if isinstance(name, Real) else repr(name)


def entry_of_names(names: Sequence[str]) -> dict[str, object]:
    """The entry of a provenance; empty without names, or if they are longer than a forest keeps."""
    if not names or max(map(len, names)) > MAX_LENGTH or sum(map(len, names)) > MAX_CHARACTERS:
        return {}
    return {OTHER_NAMES: FROM_0 if _number_columns(names) else list(names)}


def names_of_entry(provenance: Mapping[str, object], n_columns: int) -> tuple[str, ...]:
    """The names that a provenance keeps of as many columns; empty if it keeps none.

    Examples
    --------
    >>> names_of_entry(entry_of_names(["400", "1.5"]), 2), names_of_entry(entry_of_names(["0", "1"]), 2)
    (('400', '1.5'), ('0', '1'))
    >>> names_of_entry({"other_names": ["400", 7]}, 2)
    ()
    """
    entry = provenance.get(OTHER_NAMES)
    if entry == FROM_0:
        return tuple(map(str, range(n_columns)))
    if not isinstance(entry, list) or len(entry) != n_columns or not all(isinstance(name, str) for name in entry):
        return ()
    return tuple(entry)


def _number_columns(names: Sequence[str]) -> bool:
    """Whether names number the columns from 0, and so say nothing."""
    return list(names) == list(map(str, range(len(names))))


def check_order_of_names(fitted: Sequence[str], names: Sequence[str]) -> None:
    """Refuse the columns of `fit` in another order.

    Raises
    ------
    InputError
        The message tells the first column that differs.

    Examples
    --------
    >>> check_order_of_names(["400", "410"], ["410", "400"])
    Traceback (most recent call last):
    distforest.errors.InputError: X: the columns of fit in their order were expected; column 0 was 400 there, found 410;
    give X[[400, 410]]
    """
    if names == fitted or sorted(names) != sorted(fitted):
        return
    place = next(place for place, (one, other) in enumerate(zip(fitted, names, strict=True)) if one != other)
    expected = f"X: the columns of fit in their order were expected; column {place} was {fitted[place]} there"
    listed = ", ".join(fitted[:NAMES_SHOWN]) + (", ..." if len(fitted) > NAMES_SHOWN else "")
    raise InputError(f"{expected}, found {names[place]}; give X[[{listed}]]")


def told_of_other_names(fitted: Sequence[str], names: Sequence[str]) -> str:
    """Say that columns have other names than in `fit`; else "".

    Names that number the columns from 0 say nothing.

    Examples
    --------
    >>> told_of_other_names(["400", "nan"], ["400", "420"])
    'column 1 was named nan in training, found 420; columns are read in their order'
    >>> told_of_other_names(["400", "410"], ["0", "1"]) + told_of_other_names(["400", "nan"], ["400", "nan"])
    ''
    """
    is_told = len(fitted) == len(names) and not (_number_columns(fitted) or _number_columns(names))
    different = (place for place, (one, other) in enumerate(zip(fitted, names, strict=False)) if one != other)
    place = next(different, None) if is_told else None
    if place is None:
        return ""
    return (
        f"column {place} was named {fitted[place]} in training, found {names[place]}; columns are read in their order"
    )
