"""Signals that stop a running command, such as Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that stop a command: Ctrl-C, termination by a batch system or a shutdown, a closed terminal."""


@contextmanager
def interruptible(message: str) -> Iterator[None]:
    """Handle `STOP_SIGNALS` in the block: the first signal prints ``message`` and raises KeyboardInterrupt.

    A second signal ends the process. Outside the main thread nothing changes, as only the main thread may set handlers.
    A hangup that was ignored before, as under nohup, is still ignored.
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
