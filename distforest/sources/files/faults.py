"""Faults of several columns of a table: all of them are told at once, so that a sheet is mended once."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from distforest.errors import FaultsError, InputError
from distforest.sources.schema import COLUMNS_TOLD

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class FoundFaults:
    """The first fault of each column.

    Examples
    --------
    >>> found = FoundFaults()
    >>> for column in ("size", "age"):
    ...     with found.noted():
    ...         raise InputError(f"row 2, column {column}: a number was expected, found 'x'; correct it")
    >>> found.check()
    Traceback (most recent call last):
    distforest.errors.FaultsError: row 2, column size: a number was expected, found 'x'; correct it
    row 2, column age: a number was expected, found 'x'; correct it
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
            told = [*dict.fromkeys(fault for own in each for fault in own)]
            enough = len(self.errors) >= COLUMNS_TOLD
            raise FaultsError(
                [*told, f"these are the faults of {COLUMNS_TOLD} columns; there may be more"] if enough else told
            )
