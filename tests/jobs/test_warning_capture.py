"""What a thread warns of is heard by who listens to it, and by nobody else."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import suppress

import pytest

from distforest.jobs.warning_capture import captured_warnings


@pytest.fixture(autouse=True)
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is shown as Python shows warnings that no test turns into errors."""
    found: list[str] = []
    with warnings.catch_warnings():
        warnings.resetwarnings()
        monkeypatch.setattr(warnings, "showwarning", lambda message, *_, **__: found.append(str(message)))
        yield found


def say(text: str, category: type[Warning] = UserWarning) -> None:
    warnings.warn(text, category, stacklevel=1)


def test_each_text_is_heard_once_in_each_block(shown: list[str]) -> None:
    for _ in range(2):  # a worker stages the same inputs again
        with captured_warnings() as told:
            say("labels are many")
            say("labels are many")
            say("z_ij and z_ji differ")
            say("of another kind", RuntimeWarning)
        assert told == ["labels are many", "z_ij and z_ji differ"]
    say("after")
    assert shown[0] == "of another kind"
    assert shown[-1] == "after"
    assert not {"labels are many", "z_ij and z_ji differ"} & set(shown)


def test_other_threads_are_not_listened_to(shown: list[str]) -> None:
    with captured_warnings() as told:
        thread = threading.Thread(target=say, args=("elsewhere",))
        thread.start()
        thread.join()
        say("here")
    assert (told, shown) == (["here"], ["elsewhere"])


def test_listeners_that_overlap_hear_their_own(shown: list[str]) -> None:
    heard: dict[str, list[str]] = {}
    both, done = threading.Barrier(2, timeout=60), threading.Event()

    def listen(name: str) -> None:
        with captured_warnings() as told:
            both.wait()
            say(name)
            if name == "last":
                assert done.wait(60)
                say("more")
        heard[name] = told
        done.set()

    threads = [threading.Thread(target=listen, args=(name,)) for name in ("first", "last")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say("nobody listens")
    assert heard == {"first": ["first"], "last": ["last", "more"]}
    assert shown == ["nobody listens"]


def test_a_block_in_a_block_and_one_that_fails(shown: list[str]) -> None:
    with captured_warnings() as outer:
        with suppress(ValueError), captured_warnings() as inner:
            say("within")
            raise ValueError
        say("about it")
    assert (inner, outer, shown) == (["within"], ["about it"], [])
