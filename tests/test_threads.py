"""Calls in threads: items come in order, errors where their item is asked for, and no thread stays behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from distforest.threads import ahead

NAME = "made-ahead"


def test_the_next_item_is_made_while_one_is_in_use() -> None:
    begun = [threading.Event() for _ in range(4)]

    def items() -> Iterator[int]:
        for number, event in enumerate(begun):
            event.set()
            yield number

    found = []
    for item in ahead(items(), NAME):
        if item + 1 < len(begun):
            assert begun[item + 1].wait(60)
        assert not any(event.is_set() for event in begun[item + 2 :])
        found.append(item)
    assert found == [0, 1, 2, 3]


def test_an_item_may_be_none() -> None:
    assert list(ahead(iter([None, 0, None]), NAME)) == [None, 0, None]


def test_an_error_comes_where_its_item_is_asked_for() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise KeyError("second")

    found = ahead(items(), NAME)
    assert next(found) == 1
    with pytest.raises(KeyError, match="second"):
        next(found)
    assert list(found) == []


def test_who_wants_no_more_waits_for_what_is_being_made() -> None:
    made = []

    def items() -> Iterator[int]:
        for number in range(9):
            made.append(number)
            yield number

    found = ahead(items(), NAME)
    assert next(found) == 0
    found.close()  # type: ignore[attr-defined]
    assert made == [0, 1]
