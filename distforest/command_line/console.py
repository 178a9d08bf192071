"""The progress of a running command on stderr: bars on a terminal, otherwise plain lines."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TextColumn
from rich.progress import Progress as Bars
from rich.table import Column
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import TextIO

    from rich.progress import Task, TaskID

    from distforest.jobs.cluster import Progress, Watch

UNITS = {
    "compile": "methods",
    "grow": "trees",
    "alone": "trees",
    "ask": "pairs",
    "route": "rows",
    "merge": "parts",
    "score": "rows",
}
"""The unit that each run of tasks counts."""

LINE_SECONDS = 1.0
"""Least number of seconds between two lines of progress; the last line of a run is always printed."""

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that stop a command: Ctrl-C, the end set by a batch system or a shutdown, a closed terminal."""


def progress_in_words(progress: Progress) -> str:
    """Write the progress of a run in words.

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
    """Write the number finished per second, or the seconds for each; empty before the first is finished."""
    if not progress.rate:
        return ""
    return f"{progress.rate:,.1f} a second" if progress.rate >= 1 else f"{1 / progress.rate:,.1f} s each"


def left(progress: Progress) -> str:
    """Write the time left, or at the end the time taken; empty before the first is finished."""
    if progress.done >= progress.total:
        return f"done in {progress.seconds:,.1f} s"
    return f"{span(progress.remaining)} left" if math.isfinite(progress.remaining) else ""


def span(seconds: float) -> str:
    """Write a span of time in words.

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
        The lines are printed to it.
    clock
        Returns the time in seconds; tests pass one of their own.
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


class _Words(ProgressColumn):
    """A column of a bar with the count, the rate and the time left, in the words of the lines."""

    def render(self, task: Task) -> Text:
        """Return the words."""
        return Text(str(task.fields["words"]), style="progress.remaining")


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
        self._bars.update(self._known[progress.name], completed=progress.done, words=words)


@contextmanager
def progress() -> Iterator[Watch]:
    """Give a watcher to the block: of bars if stderr is a terminal (without colour under NO_COLOR), else of lines."""
    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        yield LineWatch(sys.stderr)
        return
    columns = (TextColumn("{task.description:>7}"), BarColumn(bar_width=24), _Words(Column(no_wrap=True)))
    with Bars(*columns, console=console) as bars:
        yield BarWatch(bars)


@contextmanager
def interruptible(message: str) -> Iterator[None]:
    """Handle `STOP_SIGNALS` in the block: the first prints ``message`` and raises KeyboardInterrupt.

    A second signal ends the process. Outside the main thread nothing changes, as only that thread may set handlers. A
    closed terminal is still ignored if it was ignored before, as under nohup.
    """

    def first(_number: int, _frame: FrameType | None) -> None:
        for number in before:
            signal.signal(number, second)
        with suppress(OSError):  # the terminal may be gone
            print(f"\n{message}", file=sys.stderr, flush=True)
        raise KeyboardInterrupt

    def second(number: int, _frame: FrameType | None) -> None:
        os._exit(128 + number)

    before: dict[int, Callable[[int, FrameType | None], object] | int | signal.Handlers | None] = {}
    if threading.current_thread() is threading.main_thread():
        is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        handled = STOP_SIGNALS[:2] if is_ignored else STOP_SIGNALS
        before.update({number: signal.signal(number, first) for number in handled})
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
