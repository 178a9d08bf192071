"""The warnings of a thread, collected for the owner of its job, who does not see the stderr of a worker."""

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
def captured_warnings() -> Iterator[list[str]]:
    """Collect the warnings of this thread in the block, each text once, instead of showing them.

    `warnings.catch_warnings` would collect the warnings of other threads, too, and two overlapping blocks would leave
    one of the hooks in place forever. This hook passes on the warnings of other threads, so it may stay.
    """
    texts: list[str] = []
    _listen()
    before, _thread.texts = getattr(_thread, "texts", None), texts
    try:
        yield texts
    finally:
        _thread.texts = before


def _listen() -> None:
    """Install the hook, and let a warning that was shown before be shown again."""
    global _show
    with _lock:
        if warnings.showwarning is not _collect:
            _show, warnings.showwarning = warnings.showwarning, _collect
        warnings.simplefilter("default", UserWarning, append=True)  # only clears the record of shown warnings


def _collect(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Collect a `UserWarning`, from this package or a user's function, in a collecting thread; show any other."""
    texts = getattr(_thread, "texts", None)
    if texts is None or not issubclass(category, UserWarning):
        _show(message, category, filename, lineno, file, line)
    elif str(message) not in texts:
        texts.append(str(message))
