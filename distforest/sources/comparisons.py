"""Comparisons: columns of a pair that say how two records agree in some of their fields.

::

    comparison                a record's fields      value of a pair (x, x')
    "equal"                   one or more, any       1 if all are the same, 0 if not
    "missing"                 one, any               how many of the two records lack it: 0, 1 or 2
    "absolute_difference"     one, numbers           |x - x'|
    "relative_difference"     one, numbers           |x - x'| / max(|x|, |x'|), 0 where both are 0
    "date_gap"                one, dates             |x - x'| in days
    "geographic"              latitude, longitude    great-circle distance in km, from degrees
    "inner"                   some, numbers          sum_k x_k x'_k
    "cosine"                  some, numbers          sum_k x_k x'_k / (|x| |x'|), 0 where either is 0
    "jaro_winkler"            one, text              similarity of Jaro and Winkler
    "levenshtein"             one, text              1 - edits / length of the longer one
    "token_set"               one, text              similarity of the sets of words
    "q_gram"                  one, text              Dice's coefficient of the sets of letter pairs

Every value but that of ``"missing"`` is NaN where either record lacks a field. A function of the user's takes the
fields of the left records and those of the right ones. All comparisons are symmetric, and computed when pairs are read.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distforest.errors import InputError
from distforest.sources.lazy.identity import name_of, resolve, signature
from distforest.sources.schema import ColumnKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.sources.schema import FeatureColumn, Schema
    from distforest.sources.source import Float32s, Ints

    Fields = Sequence[NDArray[Any]]
    """Values of some fields of n records, each of shape (n,): float64, or objects that are strings or None."""
    Values = NDArray[np.floating[Any]]

EARTH_KM = 6371.0088
"""Mean radius of the Earth (International Union of Geodesy and Geophysics)."""

DAYS = {"days": 1.0, "seconds": 1.0 / 86_400.0}
"""Days of a unit in which dates are counted."""

CHECKED_PAIRS = 100
"""Pairs on which a function of the user's is checked to be symmetric."""


def equal(left: Fields, right: Fields) -> Values:
    """1[x = x' in all fields]."""
    return np.all([one == other for one, other in zip(left, right, strict=True)], axis=0).astype(np.float32)


def absolute_difference(left: Fields, right: Fields) -> Values:
    """|x - x'|."""
    return np.abs(left[0] - right[0])


def relative_difference(left: Fields, right: Fields) -> Values:
    """|x - x'| / max(|x|, |x'|), 0 where both are 0."""
    larger = np.maximum(np.abs(left[0]), np.abs(right[0]))
    return np.divide(np.abs(left[0] - right[0]), larger, out=np.zeros(len(larger)), where=larger > 0.0)


def geographic(left: Fields, right: Fields) -> Values:
    """2 R asin sqrt(sin^2(dlat / 2) + cos(lat) cos(lat') sin^2(dlon / 2)), R the radius of the Earth (haversine)."""
    (lat, lon), (lat_, lon_) = np.radians(np.stack(left)), np.radians(np.stack(right))
    root = np.sin((lat - lat_) / 2.0) ** 2 + np.cos(lat) * np.cos(lat_) * np.sin((lon - lon_) / 2.0) ** 2
    return 2.0 * EARTH_KM * np.arcsin(np.sqrt(np.clip(root, 0.0, 1.0)))


def inner_product(left: Fields, right: Fields) -> Values:
    """sum_k x_k x'_k."""
    products: Values = np.sum([one * other for one, other in zip(left, right, strict=True)], axis=0)
    return products


def cosine(left: Fields, right: Fields) -> Values:
    """sum_k x_k x'_k / (|x| |x'|), 0 where either is 0."""
    lengths = np.sqrt(inner_product(left, left)) * np.sqrt(inner_product(right, right))
    return np.divide(inner_product(left, right), lengths, out=np.zeros(len(lengths)), where=lengths > 0.0)


def by_rapidfuzz(scorer: str, scale: float) -> Callable[[Fields, Fields], Values]:
    """A similarity of RapidFuzz over pairs of strings, times ``scale``; ``scorer`` is its name in the package."""

    def similarity(left: Fields, right: Fields) -> Values:
        try:
            from rapidfuzz import distance, fuzz, process  # noqa: PLC0415  (an extra)
        except ImportError as error:
            cure = "pip install 'distforest[text]'"
            raise InputError(f"comparisons of text need the package rapidfuzz: {cure}") from error
        module, _, name = scorer.partition(".")
        of_pair = getattr(fuzz, name) if module == "fuzz" else getattr(getattr(distance, module), name)
        return scale * process.cpdist(left[0], right[0], scorer=of_pair, dtype=np.float64)

    return similarity


def q_gram(left: Fields, right: Fields) -> Values:
    """2 |g & g'| / (|g| + |g'|), g the set of pairs of adjacent letters of the text with a space at either end."""
    grams = {text: {f" {text} "[k : k + 2] for k in range(len(text) + 1)} for text in {*left[0], *right[0]}}
    pairs = [(grams[one], grams[other]) for one, other in zip(left[0], right[0], strict=True)]
    return np.array([2.0 * len(one & other) / (len(one) + len(other)) for one, other in pairs])


class Comparator(NamedTuple):
    """A built-in comparison: what it computes, what its fields hold, and how many it has; None: any number."""

    compare: Callable[[Fields, Fields], Values]
    reads: str
    n_fields: int | None = 1


OF_ANY_KIND, OF_AMOUNTS, OF_TEXT, OF_DATES = "any", "numbers", "text", "dates"
READ = {
    OF_ANY_KIND: {*ColumnKind},
    OF_AMOUNTS: {ColumnKind.NUMBER, ColumnKind.BOOLEAN},
    OF_TEXT: {ColumnKind.CATEGORY},
    OF_DATES: {ColumnKind.DATE},
}
"""The kinds of columns that a comparison of each of these reads."""

LACKING = "missing"

COMPARATORS: dict[str, Comparator] = {
    "equal": Comparator(equal, OF_ANY_KIND, None),
    LACKING: Comparator(equal, OF_ANY_KIND),  # computed of codes, before fields are read
    "absolute_difference": Comparator(absolute_difference, OF_AMOUNTS),
    "relative_difference": Comparator(relative_difference, OF_AMOUNTS),
    "date_gap": Comparator(absolute_difference, OF_DATES),
    "geographic": Comparator(geographic, OF_AMOUNTS, 2),
    "inner": Comparator(inner_product, OF_AMOUNTS, None),
    "cosine": Comparator(cosine, OF_AMOUNTS, None),
    "jaro_winkler": Comparator(by_rapidfuzz("JaroWinkler.similarity", 1.0), OF_TEXT),
    "levenshtein": Comparator(by_rapidfuzz("Levenshtein.normalized_similarity", 1.0), OF_TEXT),
    "token_set": Comparator(by_rapidfuzz("fuzz.token_set_ratio", 0.01), OF_TEXT),
    "q_gram": Comparator(q_gram, OF_TEXT),
}
"""Comparisons that a word names."""


@dataclass(frozen=True, init=False)
class Comparison:
    """A column of a pair for RFD and TreeRank: how two records agree in some of their fields.

    No other column of a pair reads a field that is compared. So a table may hold names and text.

    Parameters
    ----------
    comparator : str or callable
        A word of the table in ``distforest.sources.comparisons``; or a symmetric function ``f(left, right)``, itself or
        as ``"module:function"``, of the fields of n pairs of records, which returns n numbers. ``left`` and ``right``
        are arrays of shape (n,) of one field, or lists of these of several: float64, or strings. A record that lacks a
        field is never among them.
    *fields : str or int
        Names or positions of the columns of ``X`` that are compared.
    each : bool, default=False
        Call the function with the values of one pair at a time.
    name : str or None, default=None
        What a sealed forest and its reports call a function; None: its module and name. Two functions have two names.

    Raises
    ------
    InputError
        The word is unknown, or it compares another number of fields.

    Examples
    --------
    >>> import pandas as pd
    >>> from distforest import RFD
    >>> X = pd.DataFrame({"name": ["Anna", "Ana", "Otto", "Oto"], "born": [1960.0, 1960.0, 1971.0, 1970.0]})
    >>> columns = [Comparison("levenshtein", "name"), Comparison("absolute_difference", "born")]
    >>> pairs, similar = [[0, 1], [2, 3], [0, 2], [1, 3]], [True, True, False, False]
    >>> forest = RFD(20, pair_columns=columns, min_samples_leaf=1, random_state=0).fit_pairs(X, pairs, similar)
    >>> bool(forest.pair_distance(X[:1], X[1:2]) < forest.pair_distance(X[:1], X[2:3]))
    True
    """

    comparator: str | Callable[..., Any]
    fields: tuple[str | int, ...]
    each: bool
    name: str | None

    def __init__(
        self, comparator: str | Callable[..., Any], *fields: str | int, each: bool = False, name: str | None = None
    ) -> None:
        object.__setattr__(self, "comparator", comparator)
        try:
            fields = tuple(one if isinstance(one, str) else operator.index(one) for one in fields)
        except TypeError:
            raise InputError(f"names or positions of columns of X were expected, found {fields!r}") from None
        object.__setattr__(self, "fields", fields)
        object.__setattr__(self, "each", each)
        object.__setattr__(self, "name", name)
        if name is not None and (not callable(comparator) or name in COMPARATORS):
            raise InputError(f"a name other than those of built-in comparisons names a function, found {name!r}")
        n_fields = None
        if isinstance(comparator, str) and ":" not in comparator:
            if comparator not in COMPARATORS:
                words = ", ".join(COMPARATORS)
                raise InputError(f"a comparison is a function or one of {words}; found {comparator!r}")
            n_fields = COMPARATORS[comparator].n_fields
        if not fields or n_fields not in (None, len(fields)):
            raise InputError(f"{comparator} compares {n_fields or 'some'} of the columns of X, found {fields!r}")

    def to_table(self) -> dict[str, object]:
        """The comparison as a spec has it."""
        return {"comparator": self.comparator, "fields": list(self.fields), "each": self.each}

    def on(self, schema: Schema) -> RecordComparison:
        """The same comparison on the columns of a schema; raises InputError if it cannot read them.

        A function that is named is not imported yet.
        """
        places = []
        for one in self.fields:
            known = one in schema.names if isinstance(one, str) else 0 <= one < len(schema.columns)
            if not known:
                raise InputError(f"pair_columns: {self.comparator} compares column {one!r}, which X does not have")
            places.append(schema.names.index(one) if isinstance(one, str) else one)
        if callable(self.comparator):
            name = self.name or name_of(self.comparator)
            return RecordComparison(name, tuple(places), self.each, self.comparator)
        if self.comparator not in COMPARATORS:
            return RecordComparison(self.comparator, tuple(places), self.each)
        reads = COMPARATORS[self.comparator].reads
        for column in (schema.columns[place] for place in places):
            if column.kind not in READ[reads]:
                found = f"column {column.name!r} holds values of kind {column.kind}"
                raise InputError(f"pair_columns: {self.comparator} compares {reads}, but {found}")
        return RecordComparison(self.comparator, tuple(places))


@dataclass(frozen=True)
class RecordComparison:
    """A comparison of some features of two points.

    Attributes
    ----------
    comparator
        A word, or the name of a function of the user's.
    features
        The positions of the features.
    each
        Whether the function takes one pair at a time.
    function
        The function of the user's; None: a sealed forest does not have it.
    """

    comparator: str
    features: tuple[int, ...]
    each: bool = False
    function: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    def resolved(self) -> RecordComparison:
        """The same with the function that it names; raises InputError if that cannot be imported."""
        if self.comparator in COMPARATORS or self.function is not None:
            return self
        return replace(self, function=resolve(self.comparator))

    @property
    def decides(self) -> list[object]:
        """What decides its values: its entry, and the digest of its function."""
        own = None if self.function is None else signature(self.function, strict=False)["sha256"]
        return [*self.to_list(), own]

    def to_list(self) -> list[object]:
        """The entry in a forest's manifest."""
        return [self.comparator, list(self.features), self.each]

    def name(self, features: Sequence[str]) -> str:
        """Its name in plots and reports, by the names of the features."""
        return (
            f"{self.comparator.partition(':')[2] or self.comparator}({', '.join(features[c] for c in self.features)})"
        )

    def values(self, left: Float32s, right: Float32s, columns: Sequence[FeatureColumn]) -> Float32s:
        """The value of each pair of records.

        Parameters
        ----------
        left, right
            The features of the records on either side, shapes (n_pairs, n_features).
        columns
            What the numbers of each feature stand for.

        Returns
        -------
        ndarray of shape (n_pairs,), float32

        Raises
        ------
        InputError
            A function of the user's is not there, returns something else than n numbers, or is not symmetric.
        """
        fields = list(self.features)
        both = np.hstack([left[:, fields], right[:, fields]])
        lacks = np.stack([np.isnan(side).any(axis=1) for side in np.split(both, 2, axis=1)], axis=1)
        if self.comparator == LACKING:
            return lacks.sum(axis=1).astype(np.float32)
        values, known = np.full(len(both), np.nan, np.float32), ~lacks.any(axis=1)
        distinct, of_pair = both[known], np.arange(int(known.sum()))
        if any(columns[c].kind == ColumnKind.CATEGORY for c in fields):  # of names there are far fewer pairs
            words = np.ascontiguousarray(distinct).view(np.uint64)
            words = words[:, 0] if len(fields) == 1 else words
            _, first, of_pair = np.unique(words, axis=0, return_index=True, return_inverse=True)
            distinct = distinct[first]
        sides = [
            [_field(codes, columns[c]) for c, codes in zip(fields, of_side.T, strict=True)]
            for of_side in np.split(distinct, 2, axis=1)
        ]
        if len(distinct):
            values[known] = self._compared(*sides)[of_pair.reshape(-1)]
        return values

    def _compared(self, left: Fields, right: Fields) -> NDArray[np.float32]:
        """The values of pairs of which no record lacks a field."""
        if self.comparator in COMPARATORS:
            with np.errstate(over="ignore"):
                values = np.asarray(COMPARATORS[self.comparator].compare(left, right), np.float32)
            if np.isinf(values).any():
                raise InputError(f"{self.comparator}: values of at most 3e38 were expected, found larger ones; scale X")
            return values
        values = self._called(left, right)
        some = [[field[:CHECKED_PAIRS] for field in side] for side in (right, left)]
        if not np.array_equal(self._called(*some), values[:CHECKED_PAIRS], equal_nan=True):
            raise InputError(f"{self.comparator}: f(x, y) = f(y, x) was expected of a comparison, found other values")
        return values

    def _called(self, left: Fields, right: Fields) -> NDArray[np.float32]:
        """What the user's function returns."""
        function, n = self.function, len(left[0])
        if function is None:
            cure = "give the function: load(address, comparisons=[function])"
            raise InputError(f"the forest compares records by {self.comparator}, which no file holds; {cure}")
        if self.each:
            one, other = (side[0] if len(side) == 1 else zip(*side, strict=True) for side in (left, right))
            found = [function(*pair) for pair in zip(one, other, strict=True)]
        else:
            found = function(*(side[0] if len(side) == 1 else side for side in (left, right)))
        values = np.asarray(found, np.float32)
        if values.shape != (n,) or np.isinf(values).any():
            raise InputError(f"{self.comparator}: {n} finite numbers or NaN were expected, found shape {values.shape}")
        return values


def _field(codes: NDArray[np.float32], column: FeatureColumn) -> NDArray[Any]:
    """What the numbers of a feature stand for: float64, days of dates, or strings."""
    if column.kind == ColumnKind.CATEGORY:
        return np.array(column.categories, object)[codes.astype(np.int64)]
    return codes.astype(np.float64) * DAYS.get(column.unit, 1.0)


@dataclass(frozen=True)
class Records:
    """Points with categories that the forest has not seen: these have the numbers that follow.

    Attributes
    ----------
    values
        The points, shape (n, width), float32.
    schema
        Their columns, with all categories.
    """

    values: Float32s
    schema: Schema

    @property
    def shape(self) -> tuple[int, int]:
        """Number of points, and of their columns."""
        return len(self.values), self.values.shape[1]

    def take(self, rows: Ints) -> Records:
        """Some of the points, in this order."""
        return Records(self.values[rows], self.schema)

    def beside(self, other: Records) -> tuple[Float32s, Float32s, Schema]:
        """Both sets of points with the same number for the same category, and the columns of both."""
        schema = self.schema.with_categories({c.name: c.categories for c in other.schema.columns})
        recoded = schema.reordering(other.schema, "X").rows(other.values)[0]
        return self.values, recoded, schema
