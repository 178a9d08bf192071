"""What a person sees of a running command on stderr: progress as bars on a terminal, else as plain lines."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

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
"""What is counted in each run of tasks."""

LINE_SECONDS = 1.0
"""At least so many seconds lie between two lines of progress; the last line of a run always comes."""

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What asks a command to stop: Ctrl-C, a batch system or the system's end, a terminal that was closed."""


def progress_in_words(progress: Progress) -> str:
    """How far a run is, in words.

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
    """Finished a second, or seconds for each, in words; nothing before the first is finished."""
    if not progress.rate:
        return ""
    return f"{progress.rate:,.1f} a second" if progress.rate >= 1 else f"{1 / progress.rate:,.1f} s each"


def left(progress: Progress) -> str:
    """Seconds left, or seconds taken at the end, in words; nothing before the first is finished."""
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
    """A watcher that writes lines: about one a second, and the last of each run.

    Parameters
    ----------
    stream
        Where to.
    clock
        Seconds; another clock makes it testable.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._last = -math.inf

    def __call__(self, progress: Progress) -> None:
        """Write a line if it is time, or the run is at its end."""
        now = self._clock()
        if progress.done >= progress.total or now - self._last >= LINE_SECONDS:
            self._last = now
            print(progress_in_words(progress), file=self._stream, flush=True)


class _Words(ProgressColumn):
    """Count, rate and time left of a bar, in the words of the lines."""

    def render(self, task: Task) -> Text:
        """Write them."""
        return Text(str(task.fields["words"]), style="progress.remaining")


class BarWatch:
    """A watcher that moves bars, one for each run."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._known: dict[str, TaskID] = {}

    def __call__(self, progress: Progress) -> None:
        """Move the run's bar; a run that begins anew begins a new bar."""
        words = progress_in_words(progress).removeprefix(f"{progress.name} ")
        if progress.name not in self._known or progress.done == 0:
            self._known[progress.name] = self._bars.add_task(progress.name, total=progress.total, words=words)
        self._bars.update(self._known[progress.name], completed=progress.done, words=words)


@contextmanager
def progress() -> Iterator[Watch]:
    """Watch the block: by bars where stderr is a terminal (without colour under NO_COLOR), else by lines."""
    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        yield LineWatch(sys.stderr)
        return
    columns = (TextColumn("{task.description:>7}"), BarColumn(bar_width=24), _Words(Column(no_wrap=True)))
    with Bars(*columns, console=console) as bars:
        yield BarWatch(bars)


@contextmanager
def interruptible(message: str) -> Iterator[None]:
    """Make the first of `STOP_SIGNALS` say ``message`` and raise KeyboardInterrupt, the second end the process.

    Only the main thread may change what a signal does; in another one nothing changes. Nor does it for a closed
    terminal that is ignored, as under nohup.
    """

    def first(_number: int, _frame: FrameType | None) -> None:
        for number in before:
            signal.signal(number, second)
        with suppress(OSError):  # the terminal may be gone
            print(f"\n{message}", file=sys.stderr, flush=True)
        raise KeyboardInterrupt

    def second(number: int, _frame: FrameType | None) -> None:
        os._exit(128 + number)

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        taken = STOP_SIGNALS[:2] if is_ignored else STOP_SIGNALS
        before.update({number: signal.signal(number, first) for number in taken})
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
