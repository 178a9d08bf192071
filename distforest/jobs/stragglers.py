"""Stragglers: tasks that take much longer than others of their run, which an idle worker then runs a second time.

A disk may be slow, a host busy, or a worker frozen. A task is small and repeatable, so the first answer counts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable

Task = TypeVar("Task")

SLOW, LATE = 3.0, 5.0
"""A straggler has run for so many times the median of the tasks that have ended, and for so many seconds at least."""

FEWEST = 3
"""Fewest tasks whose median says how long one takes."""


@dataclass
class Stragglers:
    """The seconds that the tasks of a run took, and when others were first seen to run."""

    took: list[float] = field(default_factory=list)
    _since: dict[Hashable, float] = field(default_factory=dict)

    def may_be_known(self, n_running: int) -> bool:
        """Whether half of the tasks have ended, and enough of them to know how long one takes."""
        return len(self.took) >= max(FEWEST, n_running)

    def late(self, own: Collection[Task], running: Iterable[Task]) -> list[Task]:
        """The stragglers among a run's ``own`` tasks; ``running`` are all tasks that a worker has."""
        now, limit = time.monotonic(), max(LATE, SLOW * median(self.took))
        self._since = {task: self._since.get(task, now) for task in running if task in own}
        return [task for task in own if now - self._since.get(task, now) >= limit]
