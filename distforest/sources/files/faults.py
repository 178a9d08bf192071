"""Faults of several columns of a table: all of them are told at once, so that a sheet is mended once."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from distforest.amounts import counted
from distforest.errors import FaultsError, InputError
from distforest.sources.schema import COLUMNS_TOLD

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass
class FoundFaults:
    """The first fault of each column.

    Examples
    --------
    >>> found = FoundFaults()
    >>> for column in ("size", "age"):
    ...     with found.noted():
    ...         raise InputError(f"line 2, column {column}: a number was expected, found 'x'; correct it")
    >>> found.check()
    Traceback (most recent call last):
    distforest.errors.FaultsError: line 2, column size: a number was expected, found 'x'; correct it
    line 2, column age: a number was expected, found 'x'; correct it
    """

    errors: list[InputError] = field(default_factory=list)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note the fault that a block finds, and go on after it, unless there are as many as a message lists."""
        try:
            yield
        except InputError as error:
            self.errors.append(error)
        if len(self.errors) >= COLUMNS_TOLD:
            self.check()

    def check(self) -> None:
        """Raise what was noted: a single fault as it was raised, several as one FaultsError."""
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            each = [error.faults if isinstance(error, FaultsError) else (str(error),) for error in self.errors]
            told = _in_short([*dict.fromkeys(fault for own in each for fault in own)])
            enough = len(self.errors) >= COLUMNS_TOLD
            raise FaultsError(
                [*told, f"these are the faults of {COLUMNS_TOLD} columns; there may be more"] if enough else told
            )


def _in_short(faults: Sequence[str]) -> list[str]:
    """Faults, but those that the same option mends are told once, with their number."""
    alike: dict[str, list[str]] = {}
    for fault in faults:
        cure = fault.partition("; ")[2]
        alike.setdefault(cure if "`" in cure else fault, []).append(fault)
    more = {own[0]: f" (and so in {counted(len(own) - 1, 'other column')})" for own in alike.values() if own[1:]}
    return [own[0] + more.get(own[0], "") for own in alike.values()]
