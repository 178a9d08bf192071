"""Stragglers: tasks that take much longer than others of their run, so that an idle worker runs them a second time.

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
"""Least time of a straggler, as a multiple of the median time of finished tasks, and in seconds."""

FEWEST = 3
"""Least number of finished tasks whose median is used."""


@dataclass
class Stragglers:
    """The seconds that finished tasks of a run took, and the times at which others were first seen running."""

    took: list[float] = field(default_factory=list)
    _since: dict[Hashable, float] = field(default_factory=dict)

    def may_be_known(self, n_running: int) -> bool:
        """Return whether half of the tasks have ended, and enough of them to estimate the time of one."""
        return len(self.took) >= max(FEWEST, n_running)

    def late(self, own: Collection[Task], running: Iterable[Task]) -> list[Task]:
        """Return the stragglers among a run's ``own`` tasks; ``running`` are all tasks on workers."""
        now, limit = time.monotonic(), max(LATE, SLOW * median(self.took))
        self._since = {task: self._since.get(task, now) for task in running if task in own}
        return [task for task in own if now - self._since.get(task, now) >= limit]
