"""Queues of a service: numbers of jobs that run at once, from command-line options and a file in the job root."""

from __future__ import annotations

import logging
import re
import tomllib
from typing import TYPE_CHECKING

from distforest.errors import InputError, SpecError
from distforest.jobs.reader import listed, shown
from distforest.service.registry import NO_SUCH_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from distforest.stores.folder import Folder

QUEUES, QUEUES_BYTES = "queues.toml", 1 << 20
"""The file of a job root with tables such as ``[nightly]``, which have an entry such as ``max-running = 2``; its
largest size."""


class Queues:
    """The queues that options such as ``nightly:max-running=2`` name, and those of the job root, which prevail."""

    def __init__(self, root: Folder, options: Iterable[str] = ()) -> None:
        self._root, self._fault, self._given = root, "", dict[str, int]()
        for option in options:
            found = re.fullmatch(r"([^\s:]+):max-running=(\d{1,9})", option)
            if not found:
                raise InputError(f"--queue: NAME:max-running=NUMBER was expected, found {shown(option)}")
            self._given[found[1]] = int(found[2])
        self.limits = self._given

    def read(self) -> None:
        """Read the file of the job root; if that fails, keep the limits and log the reason."""
        try:
            tables = tomllib.loads(self._root.end(QUEUES, QUEUES_BYTES).content.decode())
            self.limits = self._given | {name: max(0, int(table["max-running"])) for name, table in tables.items()}
            self._fault = ""
        except NO_SUCH_FILE:
            self.limits, self._fault = self._given, ""
        except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            fault = f"{self._root.address}/{QUEUES} is ignored: {error!r}"
            if fault != self._fault:
                logging.getLogger("distforest").warning("%s", fault)
            self._fault = fault

    def check(self, name: str | None) -> None:
        """Refuse a queue that does not exist; raise SpecError."""
        if name is not None and name not in self.limits:
            known = listed(sorted(self.limits)) or "none"
            raise SpecError([f"run.queue: {shown(name)} is not a queue of this service; it has {known}"])

    def why(self, name: str | None, n_running: int) -> str | None:
        """Return why a job of a queue waits for its turn; None if it does not wait."""
        if name is None or n_running < self.limits.get(name, 0):
            return None
        return f"waiting for queue {name}: {n_running} of {self.limits.get(name, 0)} running"
