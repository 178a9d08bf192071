"""A sign that stops growing trees on any host. Dask does not stop a running task, so trees check for the sign."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from distforest.errors import CancelledJobError
from distforest.stores.folder import Folder

if TYPE_CHECKING:
    from distforest.growth.grower import Level

SIGN = "stop"
"""Name of the sign in a job's folder."""

SIGN_SECONDS = 1.0
"""Seconds between two checks while trees grow."""


@dataclass
class Stop:
    """The place of the sign, in the job's folder at ``address``; a task without an address never stops."""

    address: str | None
    _next: float = field(default_factory=lambda: time.monotonic() + SIGN_SECONDS)

    def check(self) -> None:
        """Raise CancelledJobError if the sign exists."""
        if self.address is not None and Folder(self.address).exists(SIGN):
            raise CancelledJobError("the job was cancelled; what this task had grown is not kept")

    def at(self, _level: Level) -> None:
        """Check at a level of growth, at most once in `SIGN_SECONDS`, and ignore a store that does not answer."""
        if time.monotonic() >= self._next:
            with suppress(OSError):
                self.check()
            self._next = time.monotonic() + SIGN_SECONDS
