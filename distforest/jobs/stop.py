"""A sign that stops trees wherever they grow: Dask leaves a running task alone, so the trees look for it themselves."""

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
"""The name of the sign in a job's folder."""

SIGN_SECONDS = 1.0
"""Between two looks while trees grow."""


@dataclass
class Stop:
    """Where a task looks for the sign: in the job's folder at ``address``; a task without an address never stops."""

    address: str | None
    _next: float = field(default_factory=lambda: time.monotonic() + SIGN_SECONDS)

    def check(self) -> None:
        """Raise CancelledJobError if the sign is there."""
        if self.address is not None and Folder(self.address).exists(SIGN):
            raise CancelledJobError("the job was told to stop; what this task had grown is not kept")

    def at(self, _level: Level) -> None:
        """Look from a level of growth, at most once in `SIGN_SECONDS`; a store that does not answer stops nothing."""
        if time.monotonic() >= self._next:
            with suppress(OSError):
                self.check()
            self._next = time.monotonic() + SIGN_SECONDS
