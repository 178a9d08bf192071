"""The order of rows in pandas tables: rows are paired by position, so the same names in another order are reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distforest.sources.given import is_data_frame, is_of_pandas

if TYPE_CHECKING:
    from collections.abc import Sequence


def told_of_order(values: object, name: str) -> str:
    """Where the order of row names and column names differs, in a data frame ``name`` of pairs of objects; else "".

    The order differs if rows and columns have the same names in another order, and the rows are not just numbered. A
    whole number and its digits are one name: a csv file that pandas reads names rows by numbers, but columns by words.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> told_of_order(pd.DataFrame(np.eye(3), index=["b", "a", "c"], columns=["a", "b", "c"]), "X")
    "row 0 of X is named 'b' and column 0 'a', but they are taken for the same object; give X.loc[X.columns]"
    >>> told_of_order(pd.DataFrame(np.eye(3), columns=[2, 0, 1]), "X")
    ''
    """
    if not is_data_frame(values) or not hasattr(values, "index") or len(set(values.shape)) > 1:
        return ""
    rows, columns = list(values.index), list(values.columns)
    place = None if rows == list(range(len(rows))) else _first_out_of_order(rows, columns)
    if place is None:
        return ""
    found = f"row {place} of {name} is named {rows[place]!r} and column {place} {columns[place]!r}"
    order = f"{name}.columns{_conversion(columns, rows)}"
    return f"{found}, but they are taken for the same object; give {name}.loc[{order}]"


def told_of_row_order(X: object, values: object, name: str, of: str = "X") -> str:
    """Where the names of rows of ``X`` and of ``values``, both of pandas, are the same in another order; else "".

    Rows are paired by position, as in scikit-learn, whatever their names are. ``name`` and ``of`` are what a caller
    knows ``values`` and ``X`` by.

    Examples
    --------
    >>> import pandas as pd
    >>> told_of_row_order(pd.DataFrame({"x": [1.0, 2.0, 3.0]}), pd.Series([7, 9, 8], index=[0, 2, 1]), "y")
    'row 1 of X is named 1 and of y 2, but they are taken for the same row; give y.loc[X.index], or y.to_numpy() if they
    are'
    """
    own, other = _index_of(X), _index_of(values if is_of_pandas(values) else getattr(values, "values", None))
    place = _first_out_of_order(own, other)
    if place is None:
        return ""
    found = f"row {place} of {of} is named {own[place]!r} and of {name} {other[place]!r}"
    order = f"{of}.index{_conversion(own, other)}"
    return f"{found}, but they are taken for the same row; give {name}.loc[{order}], or {name}.to_numpy() if they are"


def _first_out_of_order(own: list[object], other: list[object]) -> int | None:
    """The first place with another name where both have the same names in another order; else None."""
    if len(own) != len(other) or own == other:
        return None
    if _are_words(own) != _are_words(other):  # "11" and 11 are one name
        own, other = [str(name) for name in own], [str(name) for name in other]
    if own == other or set(own) != set(other):
        return None
    return next(place for place, (one, another) in enumerate(zip(own, other, strict=True)) if one != another)


def _conversion(names: list[object], wanted: list[object]) -> str:
    """What makes names of an index those that are wanted, if one of both are words and the other whole numbers."""
    if _are_words(names) == _are_words(wanted):
        return ""
    return ".astype(str)" if _are_words(wanted) else ".astype(int)"


def _are_words(names: list[object]) -> bool:
    return isinstance(next(iter(names), None), str)


def told_of_named_weights(names: Sequence[str], weights: object) -> str:
    """Say that weights of features are named as the features are, but in another order; else "".

    Examples
    --------
    >>> import pandas as pd
    >>> told_of_named_weights(["a", "b"], pd.Series([0.2, 0.8], index=["b", "a"]))
    "feature_weights are taken in their order, but the first that differs is named 'b', and the feature 'a'; give
    feature_weights[X.columns]"
    >>> told_of_named_weights(["0", "1"], pd.Series([0.2, 0.8]))
    ''
    """
    own = [str(name) for name in _index_of(weights)]  # pandas numbers weights from 0, and a file has the names "0", "1"
    if own == list(names) or sorted(own) != sorted(names):
        return ""
    one, other = next((one, other) for one, other in zip(own, names, strict=True) if one != other)
    found = f"the first that differs is named {one!r}, and the feature {other!r}"
    return f"feature_weights are taken in their order, but {found}; give feature_weights[X.columns]"


def _index_of(values: object) -> list[object]:
    """The names of the rows of a frame or series of pandas; of anything else, such as a `Categorical`, none."""
    index = getattr(values, "index", None)
    return [] if index is None or not is_of_pandas(values) else list(index)
