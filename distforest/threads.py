"""Calls in threads: one that nobody has to wait for, and items that are made before they are asked for."""

from __future__ import annotations

from concurrent.futures import Future, wait
from itertools import islice
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


def ahead(items: Iterator[R], name: str) -> Iterator[R]:
    """Yield the items of an iterator, each of which is made in a thread of this name while the one before is in use.

    An error of the iterator is raised where its item is asked for. No thread is left at work when the items end, or
    when nobody wants more of them.

    Examples
    --------
    >>> list(ahead(iter("abc"), "spelling"))
    ['a', 'b', 'c']
    """

    def following() -> list[R]:
        return list(islice(items, 1))

    coming = in_thread(following, name)
    try:
        while made := coming.result():
            coming = in_thread(following, name)
            yield made[0]
    finally:
        wait([coming])
