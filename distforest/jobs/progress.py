"""The progress of tasks on stderr: bars on a terminal or in a notebook, otherwise lines."""

from __future__ import annotations

import math
import sys
import time
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from distforest.jobs.cluster import Progress, Watch

UNITS = {
    "compile": "parts",
    "grow": "trees",
    "try": "trees",
    "alone": "trees",
    "ask": "pairs",
    "route": "rows",
    "judge": "cells",
    "merge": "parts",
    "score": "rows",
}
"""The unit of each run of tasks."""

LINE_SECONDS = 1.0
"""Least number of seconds between two lines of progress; the last line of a run is always printed."""


def progress_in_words(progress: Progress) -> str:
    """Format the progress of a run.

    Examples
    --------
    >>> from distforest.jobs.cluster import Progress
    >>> progress_in_words(Progress("grow", done=120, total=500, seconds=2.0))
    'grow 120/500 trees, 24 %, 60.0 a second, 6 s left'
    """
    unit = UNITS.get(progress.name, "tasks")
    share = f"{progress.done / progress.total:.0%}".replace("%", " %") if progress.total else "100 %"
    counted = f"{progress.name} {progress.done:,}/{progress.total:,} {unit}, {share}"
    return ", ".join(part for part in (counted, rate_in_words(progress), left(progress)) if part)


def rate_in_words(progress: Progress) -> str:
    """Format the number finished per second, or the seconds for each; empty before the first is finished."""
    if not progress.rate:
        return ""
    return f"{progress.rate:,.1f} a second" if progress.rate >= 1 else f"{1 / progress.rate:,.1f} s each"


def left(progress: Progress) -> str:
    """Format the time left or, at the end, the time taken; empty before the first is finished."""
    if progress.done >= progress.total:
        return f"done in {progress.seconds:,.1f} s"
    return f"{span(progress.remaining)} left" if math.isfinite(progress.remaining) else ""


def span(seconds: float) -> str:
    """Format a span of time.

    Examples
    --------
    >>> span(42.4), span(200), span(9000)
    ('42 s', '3 min 20 s', '2 h 30 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class LineWatch:
    """A watcher that prints lines of progress: about one a second, and the last of each run.

    Parameters
    ----------
    stream
        Stream to which the lines are printed.
    clock
        Function that returns the time in seconds; tests replace it.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._last = -math.inf

    def __call__(self, progress: Progress) -> None:
        """Print a line if a second has passed since the last one, or the run has ended."""
        now = self._clock()
        if progress.done >= progress.total or now - self._last >= LINE_SECONDS:
            self._last = now
            print(progress_in_words(progress), file=self._stream, flush=True)


class BarWatch:
    """A watcher that shows a progress bar for each run."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._known: dict[str, TaskID] = {}

    def __call__(self, progress: Progress) -> None:
        """Move the bar of a run; a run that starts again gets a new bar."""
        words = progress_in_words(progress).removeprefix(f"{progress.name} ")
        if progress.name not in self._known or progress.done == 0:
            self._known[progress.name] = self._bars.add_task(progress.name, total=progress.total, words=words)
        is_last = progress.done >= progress.total  # in a notebook, rich does not redraw at the end
        self._bars.update(self._known[progress.name], completed=progress.done, words=words, refresh=is_last)


@contextmanager
def shown_progress() -> Iterator[Watch]:
    """Yield a watcher that shows bars where possible (without colour under NO_COLOR), otherwise lines.

    Bars are possible if stderr is a terminal, and in a notebook with ipywidgets. Lines are printed on stderr.
    """
    from rich.console import Console  # noqa: PLC0415  (slow, and most fits show no progress)
    from rich.progress import BarColumn, TextColumn  # noqa: PLC0415
    from rich.progress import Progress as Bars  # noqa: PLC0415
    from rich.table import Column  # noqa: PLC0415

    console = Console(stderr=True)
    has_widgets = console.is_jupyter and find_spec("ipywidgets") is not None
    if not has_widgets and (not console.is_terminal or console.is_dumb_terminal):
        yield LineWatch(sys.stderr)
        return
    column = Column(no_wrap=True)
    counts = TextColumn("{task.fields[words]}", "progress.remaining", markup=False, table_column=column)
    with Bars(TextColumn("{task.description:>7}"), BarColumn(bar_width=24), counts, console=console) as bars:
        yield BarWatch(bars)
