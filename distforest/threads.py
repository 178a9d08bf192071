"""A call in a thread that nobody has to wait for."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")


def in_thread(call: Callable[[], R], name: str) -> Future[R]:
    """Make a call in a thread of this name, which ends with the process; returns the answer that is to come.

    It is not an executor: the threads of one are joined at exit, and a call that hangs would keep the process alive.

    Examples
    --------
    >>> in_thread(lambda: 6 * 7, "answering").result()
    42
    """
    future: Future[R] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again by `future.result`
            future.set_exception(error)

    Thread(target=run, name=name, daemon=True).start()
    return future
