"""Every fault of a user's function: how often it is asked again, what is kept, what is told."""

from __future__ import annotations

import asyncio
import copy
import math
import pickle
import re
import threading
from typing import Any

import numpy as np
import pytest

from distforest.errors import InputError
from distforest.sources.lazy.callbacks import AskingPolicy, Batch, FunctionAnswer, Lazy, answers, pairwise
from tests.messages import naming
from tests.samples import gap

TIMEOUT = 0.02


def batch_of(n: int, start: int = 0) -> Batch:
    return Batch(list(range(start, start + n)), [0] * n, [(start + i, 100 + i) for i in range(n)])


def answer_batch(function: Any, batch: Batch, policy: AskingPolicy) -> FunctionAnswer:
    ((_, one),) = answers(function, [batch], policy, 1)
    return one


class Script:
    """A function that does what its script says, call by call, and the last thing ever after."""

    def __init__(self, *script: Any) -> None:
        self.script, self.calls = script, []

    def __call__(self, left: Any, right: Any) -> Any:
        self.calls.append(list(left))
        step = self.script[min(len(self.calls), len(self.script)) - 1]
        if isinstance(step, BaseException):
            raise step
        return step


def test_lazy_refuses_everything_at_once() -> None:
    with pytest.raises(InputError) as caught:
        Lazy(3, kind="near", batch_size=0, concurrency=True, retries=-1, timeout=0, budget=-1, share="worker")
    text = str(caught.value)
    named = ("function", "kind", "batch_size", "concurrency", "retries", "timeout", "budget", "share")
    assert [line.split(" ")[0].split("=")[0] for line in text.splitlines()] == [*named]
    with pytest.raises(InputError, match=naming("ledger='l.sqlite'")):
        Lazy(gap, share="worker", ledger="l.sqlite")


def test_lazy_is_copied_and_pickled() -> None:
    lazy = Lazy(gap, objects=np.arange(3.0), kind="distance", budget=np.int64(5))
    for other in (copy.copy(lazy), copy.deepcopy(lazy), pickle.loads(pickle.dumps(lazy))):
        assert other.function([1], [3]).tolist() == [2.0]
        assert (other.kind, other.budget, other.objects.tolist()) == ("distance", 5, [0, 1, 2])
    assert "array" not in repr(lazy)


def test_pairwise_keeps_its_name_and_makes_nan_of_none() -> None:
    assert (gap.__name__, gap.__doc__, gap.__module__) == ("gap", "The gap.", "tests.samples")
    assert np.isnan(pairwise(lambda a, b: None)([1], [2])).all()
    assert pickle.loads(pickle.dumps(pairwise(math.dist)))([[0, 0]], [[3, 4]]).tolist() == [5.0]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (ValueError("bad"), ["ValueError: bad"]),
        (TimeoutError("mine"), ["TimeoutError: mine"]),
        ([1.0], ["(1,)", "(3,)"]),
        (1.0, ["one value", "sequence of 3", "`pairwise(function)`"]),
        (np.ones((3, 1)), ["(3, 1)"]),
        (["1", "2", "3"], ["U1"]),
        ([1j, 1, 1], ["complex128"]),
        ([None, "2", 1], ["'2'"]),
    ],
)
@pytest.mark.parametrize("timeout", [None, 60.0])
def test_a_fault_is_retried_so_often_and_reported(fault: Any, reason: list[str], timeout: float | None) -> None:
    script = Script(fault)
    one = answer_batch(script, batch_of(3), AskingPolicy(2, timeout))
    assert len(script.calls) == 3
    assert one.values.tolist() == []
    assert re.match(naming("Script ", "pairs (0, 100) to (2, 102)", "3 times", *reason), str(one.error))
    assert answer_batch(Script(fault, [True, None, 3]), batch_of(3), AskingPolicy(1)).error is None


@pytest.mark.parametrize("raw", [[True, False], np.array([1, 0], np.uint8), [1.0, None], np.float32([0.5, np.nan])])
def test_numbers_of_any_real_type_become_floats(raw: Any) -> None:
    values = answer_batch(Script(raw), batch_of(2), AskingPolicy()).values
    np.testing.assert_array_equal(values, np.array(raw, np.float64))


def test_values_before_an_infinite_one_are_kept_and_only_the_rest_is_asked_for() -> None:
    script = Script([1, 2, np.inf, 4], [-np.inf, 4])
    one = answer_batch(script, batch_of(4), AskingPolicy(1))
    assert script.calls == [[0, 1, 2, 3], [2, 3]]
    assert one.values.tolist() == [1, 2]
    assert re.search(naming("pair (2, 102)", "-inf"), str(one.error))


@pytest.mark.parametrize("as_coroutine", [False, True])
def test_nothing_is_asked_for_beyond_a_pair_that_is_infinite(as_coroutine: bool) -> None:
    asked: list[int] = []

    def scalar(a: int, b: int) -> float:
        asked.append(a)
        return math.inf if asked == [0, 1] else a

    async def later(a: int, b: int) -> float:
        return scalar(a, b)

    one = answer_batch(pairwise(later if as_coroutine else scalar), batch_of(5), AskingPolicy(1))
    assert (asked, one.values.tolist(), one.error) == ([0, 1, 1, 2, 3, 4], [0, 1, 2, 3, 4], None)
    one = answer_batch(pairwise(lambda a, b: -math.inf if a == 1 else a), batch_of(5), AskingPolicy(1))
    assert one.values.tolist() == [0]
    assert re.search(naming("pair (1, 101)", "2 times", "-inf"), str(one.error))


@pytest.mark.parametrize("as_coroutine", [False, True])
def test_what_was_paid_for_before_a_pair_failed_is_kept(as_coroutine: bool) -> None:
    asked: list[int] = []

    def scalar(a: int, b: int) -> float:
        asked.append(a)
        if a == 2 and asked.count(2) < 3:
            raise OSError("busy")
        return a

    async def later(a: int, b: int) -> float:
        return scalar(a, b)

    function = pairwise(later if as_coroutine else scalar)
    one = answer_batch(function, batch_of(4), AskingPolicy(1))
    assert (asked, one.values.tolist()) == ([0, 1, 2, 2], [0, 1])
    assert re.search(naming("pair (2, 102)", "2 times", "OSError: busy"), str(one.error))
    one = answer_batch(function, batch_of(4), AskingPolicy(0))
    assert (one.values.tolist(), one.error) == ([0, 1, 2, 3], None)


def test_a_pair_that_fails_now_and_then_does_not_use_up_the_tries_of_others() -> None:
    failed: set[int] = set()

    def scalar(a: int, b: int) -> float:
        if a not in failed:
            failed.add(a)
            raise OSError
        return a

    assert answer_batch(pairwise(scalar), batch_of(9), AskingPolicy(1)).values.tolist() == list(range(9))


def test_a_function_that_hangs_is_abandoned() -> None:
    release, threads = threading.Event(), []

    def hang(left: Any, right: Any) -> Any:
        threads.append(threading.current_thread())
        release.wait()
        return [0.0]

    one = answer_batch(hang, batch_of(1), AskingPolicy(1, TIMEOUT))
    release.set()
    for thread in threads:
        thread.join()
    assert len(threads) == 2
    assert all(thread.daemon for thread in threads)
    assert re.search(naming("pair (0, 100)", "2 times", "0.02 s"), str(one.error))


def test_a_coroutine_that_hangs_is_cancelled() -> None:
    calls: list[str] = []

    async def hang(left: Any, right: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            calls.append("ended")

    one = answer_batch(hang, batch_of(1), AskingPolicy(1, TIMEOUT))
    assert calls == ["ended", "ended"]
    assert "0.02 s" in str(one.error)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
@pytest.mark.parametrize(("timeout", "concurrency"), [(None, 1), (60.0, 1), (None, 2)])
def test_an_interrupt_passes_through(error: BaseException, timeout: float | None, concurrency: int) -> None:
    script = Script(error)
    with pytest.raises(type(error)):
        list(answers(script, [batch_of(1)], AskingPolicy(2, timeout), concurrency))
    assert len(script.calls) == 1


def test_a_cancellation_by_the_function_itself_is_a_fault() -> None:
    async def cancelled(left: Any, right: Any) -> Any:
        raise asyncio.CancelledError

    error = answer_batch(cancelled, batch_of(1), AskingPolicy(0)).error
    assert re.search(naming("1 time:", "CancelledError"), str(error))


def test_answer_works_inside_a_running_loop() -> None:
    async def double(left: Any, right: Any) -> Any:
        return [2 * a for a in left]

    async def main() -> Any:
        return answer_batch(double, batch_of(3), AskingPolicy()).values

    assert asyncio.run(main()).tolist() == [0, 2, 4]


def test_coroutines_run_at_once_but_never_more_than_allowed() -> None:
    barrier = asyncio.Barrier(3)  # passes only if three calls are there at once
    running, most = 0, 0

    async def count(left: Any, right: Any) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await barrier.wait()
        running -= 1
        return left

    got = dict(answers(count, (batch_of(2, 2 * i) for i in range(21)), AskingPolicy(0, 60.0), 3))
    assert {place: one.values.tolist() for place, one in got.items()} == {i: [2 * i, 2 * i + 1] for i in range(21)}
    assert most == 3


def test_threads_meet_and_are_never_more_than_allowed() -> None:
    barrier = threading.Barrier(3, timeout=60)  # passes only if three calls are there at once
    lock, running, most = threading.Lock(), 0, 0

    def meet(left: Any, right: Any) -> Any:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        barrier.wait()
        with lock:
            running -= 1
        return left

    got = dict(answers(meet, [batch_of(1, i) for i in range(9)], AskingPolicy(), 3))
    assert [got[i].values.tolist() for i in range(9)] == [[i] for i in range(9)]
    assert most == 3


def test_answers_come_as_they_complete() -> None:
    release = threading.Event()

    def first_waits(left: Any, right: Any) -> Any:
        if left[0] == 0:
            release.wait()
        return left

    found = answers(first_waits, [batch_of(1, i) for i in range(3)], AskingPolicy(), 2)
    places = [next(found)[0], next(found)[0]]
    release.set()
    assert [*places, *(place for place, _ in found)] == [1, 2, 0]


@pytest.mark.parametrize("concurrency", [1, 2])
@pytest.mark.parametrize("as_coroutine", [False, True])
def test_batches_are_drawn_when_they_are_asked_for(concurrency: int, as_coroutine: bool) -> None:
    drawn: list[int] = []

    async def later(left: Any, right: Any) -> Any:
        return left

    def batches() -> Any:
        for i in range(50):
            drawn.append(i)
            yield batch_of(1, i)

    found = answers(later if as_coroutine else Script([1.0]), batches(), AskingPolicy(), concurrency)
    next(found)
    found.close()
    assert len(drawn) <= concurrency + 1


def test_a_function_that_fails_after_the_consumer_stopped_is_not_asked_again() -> None:
    entered, release = threading.Event(), threading.Event()
    asked: list[int] = []
    threads: list[threading.Thread] = []

    def second_fails(left: Any, right: Any) -> Any:
        asked.append(left[0])
        if left[0] == 1:
            threads.append(threading.current_thread())
            entered.set()
            release.wait()
            raise OSError
        return left

    found = answers(second_fails, [batch_of(1, i) for i in range(9)], AskingPolicy(retries=5), 2)
    assert next(found)[0] == 0
    entered.wait()
    found.close()
    release.set()
    for thread in threads:
        thread.join()
    assert sorted(asked) == [0, 1]


@pytest.mark.parametrize("error", [asyncio.CancelledError, OSError])
def test_a_coroutine_that_the_consumer_cancels_is_not_asked_again(error: type[BaseException]) -> None:
    entered = threading.Event()
    calls: list[str] = []

    async def second_hangs(left: Any, right: Any) -> Any:
        if left[0] == 0:
            return left
        calls.append("began")
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            calls.append("cancelled")
            raise error from None

    found = answers(second_hangs, [batch_of(1, i) for i in range(9)], AskingPolicy(retries=5), 2)
    assert next(found)[0] == 0
    entered.wait()
    found.close()  # waits for the loop's end
    assert calls == ["began", "cancelled"]


def test_a_function_of_two_objects_is_led_to_pairwise() -> None:
    def of_objects(a: Any, b: Any) -> Any:
        return len({a} | {b})

    batch = Batch(["a", "b"], ["c", "d"], [(0, 2), (1, 3)])
    assert "pairwise(f)" in str(answer_batch(of_objects, batch, AskingPolicy(retries=0)).error)
    of_pairs = answer_batch(pairwise(lambda a, b: a - b), batch, AskingPolicy(retries=0))
    assert of_pairs.error
    assert "pairwise(f)" not in of_pairs.error
