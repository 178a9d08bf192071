"""Warnings of one thread, for whoever has asked for its job: nobody reads the stderr of a worker."""

from __future__ import annotations

import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

_thread = threading.local()
_show = warnings.showwarning
_lock = threading.Lock()


@contextmanager
def overheard() -> Iterator[list[str]]:
    """Collect what this thread warns of in the block, each text once, in place of showing it.

    `warnings.catch_warnings` would collect what other threads warn of, too, and two of them that overlap would leave
    one in place for ever. What is put in place here lets the warnings of other threads pass, so that it may stay.
    """
    told: list[str] = []
    _listen()
    before, _thread.told = getattr(_thread, "told", None), told
    try:
        yield told
    finally:
        _thread.told = before


def _listen() -> None:
    """Let warnings come here that are shown; one that was shown before is shown again."""
    global _show
    with _lock:
        if warnings.showwarning is not _collect:
            _show, warnings.showwarning = warnings.showwarning, _collect
        warnings.simplefilter("default", UserWarning, append=True)  # forgets what was shown, and changes nothing else


def _collect(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Keep a warning to a user in a thread that listens; show any other."""
    told = getattr(_thread, "told", None)
    if told is None or category is not UserWarning:
        _show(message, category, filename, lineno, file, line)
    elif str(message) not in told:
        told.append(str(message))
