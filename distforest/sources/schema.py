"""The schema of a matrix's columns, from the file to the answer: names, kinds, and what their numbers stand for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller
from distforest.sources.arrays import ENCODING
from distforest.sources.var_names import var_names

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import scipy.sparse
    from numpy.typing import NDArray

    from distforest.sources.given import Shaped

    Rows = TypeVar("Rows", NDArray[Any], scipy.sparse.csr_array)

NAMES, DTYPES, ENCODINGS = "feature_names", "feature_dtypes", "feature_encodings"
"""The attributes of a Zarr array that hold the names, the dtypes, and the encodings of columns that are no numbers."""

MAX_LENGTH = 1 << 12
"""The most characters of a name, a dtype or a category that a forest keeps."""

MAX_CHARACTERS = 1 << 22
"""The most characters of all names, dtypes and categories that a forest keeps: its manifest holds them as JSON, in at
most 12 bytes each."""

MAX_CATEGORIES = 1 << 16
"""The most categories of a column, whose codes have 16 bits; more different strings are names of rows, or text."""

COLUMNS_TOLD = 10
"""The most names of columns that a message lists."""

DATE_UNITS = {"days": np.timedelta64(1, "D"), "seconds": np.timedelta64(1, "s")}
"""The units in which dates are counted."""


class ColumnKind(StrEnum):
    """What the numbers of a column stand for."""

    NUMBER = "number"
    CATEGORY = "category"
    BOOLEAN = "boolean"
    DATE = "date"


@dataclass(frozen=True)
class FeatureColumn:
    """A column: its name, its kind, and what its numbers stand for. NaN is a missing value of any kind.

    Attributes
    ----------
    name
        Its name.
    kind
        Numbers are themselves, categories their positions in ``categories``, booleans 0 and 1, dates are counted.
    dtype
        Its dtype, as the caller's library names it; empty if it is not known.
    categories
        The categories of a category column, each of them once: number k stands for ``categories[k]``.
    unit, origin
        Of a date column: a date is the number of ``unit`` ("days" or "seconds") since ``origin``, a date in ISO 8601.
        It ends with "Z" if the column has a time zone; its dates are then counted in UTC.

    Examples
    --------
    >>> colour = FeatureColumn("colour", ColumnKind.CATEGORY, categories=("blue", "red"))
    >>> colour.codes(["red", "green", None, "blue"])
    array([ 1., nan, nan,  0.])
    >>> seen = FeatureColumn("seen", ColumnKind.DATE, unit="days", origin="2024-01-01")
    >>> seen.counts(np.array(["2024-01-03", "NaT", "2023-12-31T12"], "datetime64[s]"))
    array([ 2. ,  nan, -0.5])
    """

    name: str
    kind: ColumnKind = ColumnKind.NUMBER
    dtype: str = ""
    categories: tuple[str, ...] = ()
    unit: str = ""
    origin: str = ""

    @classmethod
    def of_dates(cls, name: str, dtype: str, first: np.datetime64, has_times: bool, in_utc: bool) -> FeatureColumn:
        """A column of dates, counted from the first day: in days or, if it has times, in seconds.

        Examples
        --------
        >>> FeatureColumn.of_dates("seen", "", np.datetime64("2024-03-05T12"), True, True).encoding()
        {'kind': 'date', 'unit': 'seconds', 'origin': '2024-03-05Z'}
        """
        origin = str(np.datetime_as_string(first.astype("datetime64[D]"))) + ("Z" if in_utc else "")
        return cls(name, ColumnKind.DATE, dtype, unit=[*DATE_UNITS][has_times], origin=origin)

    @property
    def in_utc(self) -> bool:
        """Whether its dates have a time zone."""
        return self.origin.endswith("Z")

    @property
    def is_boolean(self) -> bool:
        """Whether it holds True and False, by its kind or, in a data frame, by its dtype."""
        return self.kind == ColumnKind.BOOLEAN or (
            self.kind == ColumnKind.NUMBER and self.dtype.lower().startswith("bool")
        )

    @property
    def start(self) -> np.datetime64:
        """The date whose number is 0."""
        return np.datetime64(self.origin.removesuffix("Z"))

    def codes(self, values: Sequence[str | None]) -> NDArray[np.float64]:
        """The numbers of categories, shape (n,); NaN for None and for a string that is none of them."""
        places = {category: float(place) for place, category in enumerate(self.categories)}
        return np.array([places.get(value, np.nan) if value is not None else np.nan for value in values], np.float64)

    def counts(self, dates: NDArray[np.datetime64]) -> NDArray[np.float64]:
        """The numbers of dates, shape (n,), in ``unit`` since ``origin``; NaN for NaT."""
        counts: NDArray[np.float64] = (dates - self.start) / DATE_UNITS[self.unit]
        return counts

    def encoding(self) -> dict[str, Any]:
        """What its numbers stand for, as JSON; empty for numbers."""
        if self.kind == ColumnKind.NUMBER:
            return {}
        return {
            "kind": str(self.kind),
            **({"categories": list(self.categories)} if self.kind == ColumnKind.CATEGORY else {}),
            **({"unit": self.unit, "origin": self.origin} if self.kind == ColumnKind.DATE else {}),
        }

    def told(self) -> str:
        """Its name, with its dtype or else its kind if it is no number."""
        shown = self.dtype or ("" if self.kind == ColumnKind.NUMBER else str(self.kind))
        return f"{self.name} ({shown})" if shown else self.name


@dataclass(frozen=True)
class Reordering:
    """How the rows of one schema become those of another, which has the same columns by name.

    Attributes
    ----------
    positions
        The position of each wanted column among the found ones.
    lists
        The new number of each found category, NaN if it is not wanted, by the position of the wanted column.
    scales
        The factor and the summand that turn found dates into wanted ones, by the position of the wanted column.
    superfluous
        The names of found columns that are not wanted.
    """

    positions: tuple[int, ...]
    lists: Mapping[int, NDArray[np.float64]] = field(default_factory=dict)
    scales: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    superfluous: tuple[str, ...] = ()

    @property
    def changes_nothing(self) -> bool:
        """Whether rows stay as they are."""
        in_order = self.positions == tuple(range(len(self.positions)))
        return in_order and not (self.lists or self.scales or self.superfluous)

    def rows(self, found: Rows) -> tuple[Rows, Counter[int]]:
        """The wanted columns of found rows, and how many unseen categories became missing, by column.

        Parameters
        ----------
        found
            Rows of the found columns, shape (n, n_found); sparse rows hold only numbers.

        Returns
        -------
        numpy.ndarray, or sparse array, of the same dtype
            Shape (n, n_wanted); a category that is not wanted is NaN.
        collections.Counter
            The number of these by position.

        Raises
        ------
        InputError
            A number is no position in the found categories.
        """
        if not isinstance(found, np.ndarray):
            return found[:, list(self.positions)], Counter()
        rows, unseen = np.array(found[:, list(self.positions)]), Counter[int]()
        if (self.lists or self.scales) and rows.dtype.kind != "f":
            rows = rows.astype(np.float32)
        for place, numbers in self.lists.items():
            codes = rows[:, place]
            known = ~np.isnan(codes)
            if not np.isin(codes[known], np.arange(len(numbers))).all():
                expected = f"column {place}: numbers of its {counted(len(numbers), 'category', 'categories')}"
                raise InputError(f"{expected} were expected, found others; ingest the file anew")
            new = numbers[codes[known].astype(np.intp)]
            unseen[place] += int(np.isnan(new).sum())
            rows[known, place] = new
        for place, (factor, summand) in self.scales.items():
            rows[:, place] = rows[:, place].astype(np.float64) * factor + summand
        return rows, +unseen


@dataclass(frozen=True)
class Schema:
    """The columns of a matrix, in order.

    Examples
    --------
    >>> schema = Schema.of_names(("height", "width"), ("double", "int64"))
    >>> schema.told()
    ['height (double)', 'width (int64)']
    >>> Schema.of_entry(schema.entry(), 2) == schema
    True
    >>> turned = Schema.of_names(("width", "age", "height"))
    >>> schema.reordering(turned, "new.csv").superfluous
    ('age',)
    >>> schema.check_same(turned, "new.zarr/X")
    Traceback (most recent call last):
    distforest.errors.InputError: new.zarr/X: the forest's features in their order were expected; column 0 is 'height'
    there, found 'width'; give the columns that it was trained on, in that order
    """

    columns: tuple[FeatureColumn, ...]

    @classmethod
    def of_names(cls, names: Sequence[str], dtypes: Sequence[str] = ()) -> Schema:
        """Make the schema of columns of numbers; ``dtypes`` is empty if they are not known."""
        both = zip(names, dtypes or ("",) * len(names), strict=True)
        return cls(tuple(FeatureColumn(name, dtype=dtype) for name, dtype in both))

    @classmethod
    def unnamed(cls, n_columns: int) -> Schema:
        """The schema of columns without names, which are called x0, x1 and so on."""
        return cls.of_names([f"x{place}" for place in range(n_columns)])

    @classmethod
    def of_array(cls, address: str, array: Shaped) -> Schema | None:
        """Read the schema from the attributes of a Zarr array of rows; None if it has none.

        A matrix of AnnData has the names of its variables: see `distforest.sources.var_names`.

        Raises
        ------
        InputError
            An attribute is not what `attributes` writes for as many columns.
        """
        attributes = getattr(array, "attrs", {})
        if len(array.shape) != 2:
            return None
        if NAMES not in attributes:
            names = var_names(address) if ENCODING in attributes else None
            return None if names is None else cls.of_var(address, names, int(array.shape[1]))
        entry = {"names": attributes[NAMES], "dtypes": attributes.get(DTYPES, [])}
        if ENCODINGS in attributes:
            entry["encodings"] = attributes[ENCODINGS]
        try:
            return cls.of_entry(entry, int(array.shape[1]))
        except InputError as error:
            known = f"attributes {NAMES}, {DTYPES} and {ENCODINGS}" if ENCODINGS in attributes else ""
            known = known or f"attributes {NAMES} and {DTYPES}"
            raise InputError(f"{address}: {known}: {error}; mend or remove them") from error

    @classmethod
    def of_var(cls, address: str, names: Sequence[str], n_columns: int) -> Schema:
        """Make the schema of the variables of a matrix of AnnData; raises InputError if there are not as many."""
        if len(names) != n_columns:
            expected = f"a name in var for each of {counted(n_columns, 'column')}"
            raise InputError(f"{address}: {expected} was expected, found {len(names):,}; write the object again")
        return cls.of_names(names)

    @classmethod
    def of_entry(cls, entry: object, n_columns: int) -> Schema:
        """Read the schema of ``n_columns`` columns, as written by `entry`; raises InputError for any other object."""
        known = {"names", "dtypes", "encodings"}
        if not isinstance(entry, dict) or not {"names"} <= set(entry) <= known:
            raise InputError(f"names, and dtypes and encodings or none, were expected, found {str(entry)[:200]}")
        for key in ("names", "dtypes"):
            values = entry.get(key, [])
            count = len(values) if isinstance(values, list) else None
            if count != n_columns and not (key == "dtypes" and count == 0):
                found = type(values).__name__ if count is None else count
                raise InputError(
                    f"{key}: a string for each of {counted(n_columns, 'column')} was expected, found {found}"
                )
            _check_strings(key, values, f"a string for each of {counted(n_columns, 'column')}")
        plain = cls.of_names(entry["names"], entry.get("dtypes", ()))
        return plain.encoded(entry.get("encodings", {}))

    @classmethod
    def of_provenance(cls, provenance: Mapping[str, Any]) -> Schema | None:
        """Read the schema from the checked provenance of a forest; None if it has none."""
        entry = provenance.get("features")
        return None if entry is None else cls.of_entry(entry, len(entry["names"]))

    def without_names(self) -> Schema:
        """The same columns with the names of `unnamed`."""
        return Schema(tuple(replace(column, name=f"x{place}") for place, column in enumerate(self.columns)))

    @property
    def is_named(self) -> bool:
        """Whether the columns have names of their own: see `unnamed`."""
        return any(name != f"x{place}" for place, name in enumerate(self.names))

    @property
    def n_categories(self) -> tuple[int, ...]:
        """The number of categories of each column, 0 for numbers; empty if all are numbers."""
        sizes = tuple(len(column.categories) for column in self.columns)
        return sizes if any(sizes) else ()

    @property
    def booleans(self) -> tuple[int, ...]:
        """The positions of the columns of True and False."""
        return tuple(place for place, column in enumerate(self.columns) if column.is_boolean)

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each column."""
        return tuple(column.name for column in self.columns)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtype of each column; empty if none is known."""
        dtypes = tuple(column.dtype for column in self.columns)
        return dtypes if any(dtypes) else ()

    @property
    def encodings(self) -> dict[str, dict[str, Any]]:
        """What the numbers of columns stand for that are no plain numbers, by the decimal position, as JSON."""
        return {str(place): own for place, column in enumerate(self.columns) if (own := column.encoding())}

    def first(self, n_columns: int) -> Schema:
        """The schema of the first ``n_columns`` columns."""
        return Schema(self.columns[:n_columns])

    def with_categories(self, found: Mapping[str, Collection[str]]) -> Schema:
        """The same columns, with the categories found in some of them, by name, that they do not list yet."""
        columns = []
        for own in self.columns:
            more = set(found.get(own.name, ())) - set(own.categories) if own.kind == ColumnKind.CATEGORY else ()
            columns.append(replace(own, categories=(*own.categories, *sorted(more))) if more else own)
        return Schema(tuple(columns))

    def entry(self) -> dict[str, Any]:
        """The schema as JSON: ``names``, ``dtypes`` if they are known, and ``encodings`` if not all are numbers."""
        return {
            "names": list(self.names),
            **({"dtypes": list(self.dtypes)} if self.dtypes else {}),
            **({"encodings": self.encodings} if self.encodings else {}),
        }

    def attributes(self) -> dict[str, Any]:
        """The schema as attributes of a Zarr array, for `of_array`."""
        keys = {"names": NAMES, "dtypes": DTYPES, "encodings": ENCODINGS}
        return {keys[key]: value for key, value in self.entry().items()}

    def told(self) -> list[str]:
        """Each name, with its dtype or kind if that is known."""
        return [column.told() for column in self.columns]

    def is_short(self) -> bool:
        """Whether it is short enough for a forest to keep."""
        texts = [text for own in self.columns for text in (own.name, own.dtype, own.unit, *own.categories)]
        lengths = [*map(len, texts)]
        return sum(lengths) <= MAX_CHARACTERS and max(lengths, default=0) <= MAX_LENGTH

    def kept(self) -> Schema | None:
        """The same schema, or None with a warning if it is longer than a forest keeps.

        Raises
        ------
        InputError
            It is too long, and without it nobody would know what the numbers of some columns stand for.
        """
        if self.is_short():
            return self
        limits = f"{MAX_LENGTH:,} characters each and {MAX_CHARACTERS:,} in all"
        if self.encodings:
            found = f"found longer ones of the {counted(len(self.columns), 'feature')}"
            raise InputError(f"names and categories of at most {limits} were expected, {found}; shorten them")
        text = f"the names of the {counted(len(self.columns), 'feature')} are longer than a forest keeps ({limits})"
        warn_caller(f"{text}; the forest will have no names; shorten them if it should check them")
        return None

    def check_names(self, found: Schema, where: str) -> None:
        """Refuse other columns, or another order of them; raises InputError, which names the first difference."""
        pairs = zip_longest(self.names, found.names)
        difference = next(((column, pair) for column, pair in enumerate(pairs) if pair[0] != pair[1]), None)
        if difference is not None:
            column, pair = difference
            trained, other = ("none" if name is None else repr(name) for name in pair)
            expected = f"the forest's features in their order were expected; column {column} is {trained} there"
            raise InputError(
                f"{where}: {expected}, found {other}; give the columns that it was trained on, in that order"
            )

    def check_same(self, found: Schema, where: str) -> None:
        """Refuse what `check_names` does, and columns whose numbers stand for something else; raises InputError."""
        self.check_names(found, where)
        if not self.reordering(found, where).changes_nothing:
            both = zip(self.columns, found.columns, strict=True)
            name = next(
                own.name for own, other in both if own.kind == other.kind and own.encoding() != other.encoding()
            )
            expected = (
                f"the forest's features were expected; column {name!r} has other categories, or other dates, there"
            )
            raise InputError(f"{where}: {expected}; encode it as for the forest")

    def recoding(self, found: Schema, where: str) -> Reordering | None:
        """How rows with the columns ``found`` become rows of this schema; None if they are. Raises as `reordering`."""
        recoding = self.reordering(found, where)
        return None if recoding.changes_nothing else recoding

    def told_of_unseen(self, found: Schema, recoding: Reordering) -> str:
        """Return a warning of found categories that this schema does not list, empty without any.

        ``recoding`` is the `reordering` of the found columns.
        """
        both = zip(self.columns, (found.columns[k] for k in recoding.positions), strict=True)
        unseen = [
            (own.name, more)
            for own, other in both
            if own.kind == ColumnKind.CATEGORY and (more := set(other.categories) - set(own.categories))
        ]
        if not unseen:
            return ""
        name, more = unseen[0]
        which = f"column {name!r} has {counted(len(more), 'category', 'categories')} that the forest has not seen"
        others = f", and so have {counted(len(unseen) - 1, 'other column')}" if len(unseen) > 1 else ""
        return f"{which} ({min(more)[:80]!r}){others}; they count as missing"

    def reordering(self, found: Schema, where: str) -> Reordering:
        """How rows with the schema ``found`` become rows of this one, by the names of the columns.

        Parameters
        ----------
        found
            The schema of the rows that are there; its columns may be more, and in any order.
        where
            Where they come from, for messages.

        Raises
        ------
        InputError
            Columns are missing, a name that has to be found stands twice, or a column is of another kind.
        """
        positions = tuple(range(len(self.columns)))
        if found.names != self.names:
            positions = self.positions(found.names, where)
        lists, scales = {}, {}
        for place, (own, other) in enumerate(zip(self.columns, (found.columns[k] for k in positions), strict=True)):
            _check_kind(own, other, where)
            if own.kind == ColumnKind.CATEGORY and own.categories != other.categories:
                lists[place] = own.codes(other.categories)
            if own.kind == ColumnKind.DATE and (own.unit, own.origin) != (other.unit, other.origin):
                factor = DATE_UNITS[other.unit] / DATE_UNITS[own.unit]
                scales[place] = (float(factor), float(own.counts(np.array([other.start]))[0]))
        taken = set(positions)
        superfluous = tuple(name for place, name in enumerate(found.names) if place not in taken)
        return Reordering(positions, lists, scales, superfluous)

    def positions(self, names: Sequence[str], where: str) -> tuple[int, ...]:
        """The position of each of these columns among others by name; raises InputError as `reordering`."""
        wanted = set(self.names)
        if missing := [name for name in dict.fromkeys(self.names) if name not in set(names)]:
            more = f" and {len(missing) - COLUMNS_TOLD:,} more" if missing[COLUMNS_TOLD:] else ""
            shown = ", ".join(map(repr, missing[:COLUMNS_TOLD])) + more
            raise InputError(
                f"{where}: the forest's features were expected, found none named {shown}; add what is missing"
            )
        counts, own = Counter(name for name in names if name in wanted), Counter(self.names)
        twice = next((name for name, count in (*own.items(), *counts.items()) if count > 1), None)
        if twice is not None:
            raise InputError(
                f"{where}: columns can be put in order only if each has its own name, found {twice!r} twice"
            )
        places = {name: place for place, name in enumerate(names)}
        return tuple(places[name] for name in self.names)

    def encoded(self, encodings: object) -> Schema:
        """The same columns with these `encodings`; raises InputError for any other object."""
        if not isinstance(encodings, dict):
            raise InputError(f"encodings: an object was expected, found {type(encodings).__name__}")
        columns = list(self.columns)
        known = {str(place): place for place in range(len(columns))}
        for key, encoding in encodings.items():
            if key not in known:
                expected = f"positions among {counted(len(columns), 'column')} were expected"
                raise InputError(f"encodings: {expected}, found {str(key)[:80]!r}")
            plain = columns[known[key]]
            columns[known[key]] = FeatureColumn(plain.name, dtype=plain.dtype, **_checked(f"encodings.{key}", encoding))
        return Schema(tuple(columns))


def _check_strings(key: str, values: list[object], expected: str) -> None:
    if not all(isinstance(value, str) for value in values):
        raise InputError(f"{key}: {expected} was expected, found another type")


def _checked(key: str, encoding: object) -> dict[str, Any]:
    """The fields of an encoded column; raises InputError."""
    fields = {
        "category": {"kind", "categories"},
        "boolean": {"kind"},
        "date": {"kind", "unit", "origin"},
        "number": {"kind", "unit"},
    }
    kind = encoding.get("kind") if isinstance(encoding, dict) else None
    if not isinstance(encoding, dict) or not isinstance(kind, str) or fields.get(kind) != set(encoding):
        raise InputError(f"{key}: a category, a boolean or a date was expected, found {str(encoding)[:200]}")
    if kind == "category":
        return {
            "kind": ColumnKind.CATEGORY,
            "categories": _checked_categories(f"{key}.categories", encoding["categories"]),
        }
    if kind == "date":
        return {"kind": ColumnKind.DATE, **_checked_dates(key, encoding["unit"], encoding["origin"])}
    if kind == "number":  # earlier versions wrote the unit of a column of numbers, which says nothing of its values
        return {}
    return {"kind": ColumnKind.BOOLEAN}


def _checked_categories(key: str, categories: object) -> tuple[str, ...]:
    if not isinstance(categories, list) or len(categories) > MAX_CATEGORIES:
        found = len(categories) if isinstance(categories, list) else type(categories).__name__
        raise InputError(f"{key}: a list of at most {MAX_CATEGORIES:,} strings was expected, found {found}")
    _check_strings(key, categories, "a list of strings")
    if len(set(categories)) != len(categories):
        twice = next(category for category, count in Counter(categories).items() if count > 1)
        raise InputError(f"{key}: each category once was expected, found {twice[:80]!r} again")
    return tuple(categories)


def _checked_dates(key: str, unit: object, origin: object) -> dict[str, str]:
    if unit not in DATE_UNITS:
        raise InputError(f"{key}.unit: {' or '.join(DATE_UNITS)} was expected, found {str(unit)[:80]!r}")
    try:
        known = isinstance(origin, str) and 10 <= len(origin) <= 32
        is_date = known and not np.isnat(np.datetime64(str(origin).removesuffix("Z"), "us"))
    except ValueError:
        is_date = False
    if not is_date:
        raise InputError(f"{key}.origin: a date in ISO 8601 was expected, found {str(origin)[:80]!r}")
    return {"unit": str(unit), "origin": str(origin)}


def _check_kind(own: FeatureColumn, found: FeatureColumn, where: str) -> None:
    """Refuse a column whose numbers stand for something else; a boolean is a number too."""
    numbers = {ColumnKind.NUMBER, ColumnKind.BOOLEAN}
    if own.kind != found.kind and not {own.kind, found.kind} <= numbers:
        raise InputError(
            f"{where}: column {own.name!r}: {own.kind} values were expected, found {found.kind} values; "
            "give what the forest was trained on"
        )
    if own.kind == ColumnKind.DATE and own.in_utc != found.in_utc:
        zones = ("dates with a time zone", "dates without one")
        expected, other = zones if own.in_utc else zones[::-1]
        raise InputError(f"{where}: column {own.name!r}: {expected} were expected, found {other}")


def refuse_categories(schema: Schema | None, address: str, reader: str) -> None:
    """Refuse features of which some are categories, whose codes would be taken for amounts; raises InputError."""
    names = [] if schema is None else [column.name for column in schema.columns if column.categories]
    if names:
        cure = "ingest the column as indicators of its categories, or leave it out"
        raise InputError(f"{address}: column {names[0]!r} holds categories, and {reader} reads numbers; {cure}")
