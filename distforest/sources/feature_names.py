"""Feature names: the names of a matrix's columns, and their dtypes as the caller's library names them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distforest.sources.given import Shaped

NAMES, DTYPES = "feature_names", "feature_dtypes"
"""The attributes of a Zarr array that hold the names and the dtypes."""

MAX_LENGTH = 1 << 12
"""The most characters of a name, or of a dtype, that a forest keeps."""

MAX_CHARACTERS = 1 << 22
"""The most characters of all names and dtypes that a forest keeps: its manifest holds them as JSON, in at most 12 bytes
each."""


@dataclass(frozen=True)
class FeatureNames:
    """The names of all columns, in order.

    Attributes
    ----------
    names
        The name of each column.
    dtypes
        The dtype of each column; empty if they are not known.

    Examples
    --------
    >>> names = FeatureNames(("height", "width"), ("double", "int64"))
    >>> names.told()
    ['height (double)', 'width (int64)']
    >>> FeatureNames.of_entry(names.entry(), 2) == names
    True
    >>> names.check_same(FeatureNames(("width", "height")), "new.zarr/X")
    Traceback (most recent call last):
    distforest.errors.InputError: new.zarr/X: the forest's features in their order were expected; column 0 is 'height'
    there, found 'width'; give the columns that it was trained on, in that order
    """

    names: tuple[str, ...]
    dtypes: tuple[str, ...] = ()

    @classmethod
    def of_array(cls, address: str, array: Shaped) -> FeatureNames | None:
        """Read the names from the attributes of a Zarr array of rows; None if it has none.

        Raises
        ------
        InputError
            An attribute is not a list with a string for each column.
        """
        attributes = getattr(array, "attrs", {})
        if NAMES not in attributes or len(array.shape) != 2:
            return None
        entry = {"names": attributes[NAMES], "dtypes": attributes.get(DTYPES, [])}
        try:
            return cls.of_entry(entry, int(array.shape[1]))
        except InputError as error:
            raise InputError(f"{address}: attributes {NAMES} and {DTYPES}: {error}; mend or remove them") from error

    @classmethod
    def of_entry(cls, entry: object, n_columns: int) -> FeatureNames:
        """Read the names of ``n_columns`` columns, as written by `entry`; raises InputError for any other object."""
        if not isinstance(entry, dict) or not {"names"} <= set(entry) <= {"names", "dtypes"}:
            raise InputError(f"names, and dtypes or none, were expected, found {str(entry)[:200]}")
        for key, values in entry.items():
            count = len(values) if isinstance(values, list) else None
            if count != n_columns and not (key == "dtypes" and count == 0):
                found = type(values).__name__ if count is None else count
                raise InputError(
                    f"{key}: a string for each of {counted(n_columns, 'column')} was expected, found {found}"
                )
            if not all(isinstance(value, str) for value in values):
                raise InputError(
                    f"{key}: a string for each of {counted(n_columns, 'column')} was expected, found another type"
                )
        return cls(tuple(entry["names"]), tuple(entry.get("dtypes", ())))

    @classmethod
    def of_provenance(cls, provenance: Mapping[str, Any]) -> FeatureNames | None:
        """Read the names from the checked provenance of a forest; None if it has none."""
        entry = provenance.get("features")
        return None if entry is None else cls(tuple(entry["names"]), tuple(entry.get("dtypes", ())))

    def first(self, n_columns: int) -> FeatureNames:
        """The names of the first ``n_columns`` columns."""
        return FeatureNames(self.names[:n_columns], self.dtypes[:n_columns])

    def entry(self) -> dict[str, list[str]]:
        """The names and dtypes as JSON."""
        return {"names": list(self.names), **({"dtypes": list(self.dtypes)} if self.dtypes else {})}

    def attributes(self) -> dict[str, list[str]]:
        """The names and dtypes as attributes of a Zarr array, for `of_array`."""
        return {NAMES: list(self.names), **({DTYPES: list(self.dtypes)} if self.dtypes else {})}

    def told(self) -> list[str]:
        """Each name, with its dtype if that is known."""
        named = zip(self.names, self.dtypes, strict=True) if self.dtypes else ()
        return [f"{name} ({dtype})" for name, dtype in named] or list(self.names)

    def are_short(self) -> bool:
        """Whether they are short enough for a forest to keep."""
        lengths = [*map(len, self.names), *map(len, self.dtypes)]
        return sum(lengths) <= MAX_CHARACTERS and max(lengths, default=0) <= MAX_LENGTH

    def kept(self) -> FeatureNames | None:
        """The same names, or None with a warning if they are longer than a forest keeps."""
        if self.are_short():
            return self
        limits = f"{MAX_LENGTH:,} characters each and {MAX_CHARACTERS:,} in all"
        text = f"the names of the {counted(len(self.names), 'feature')} are longer than a forest keeps ({limits})"
        warn_caller(f"{text}; the forest will have no names; shorten them if it should check them")
        return None

    def check_same(self, found: FeatureNames, where: str) -> None:
        """Refuse other names, or another order of them; raises InputError, which names the first difference."""
        if found.names == self.names:
            return
        pairs = enumerate(zip_longest(self.names, found.names))
        column, pair = next((column, pair) for column, pair in pairs if pair[0] != pair[1])
        trained, other = ("none" if name is None else repr(name) for name in pair)
        expected = f"the forest's features in their order were expected; column {column} is {trained} there"
        raise InputError(f"{where}: {expected}, found {other}; give the columns that it was trained on, in that order")
