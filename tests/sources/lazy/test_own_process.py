"""A function in a process of its own: whatever it does costs a process, is told with its reason, and nothing more."""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing import resource_tracker
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

from distforest.errors import CancelledJobError, InputError
from distforest.sources.lazy import own_process
from distforest.sources.lazy.callbacks import AskingPolicy, Batch, FunctionAnswer, Lazy, pairwise
from distforest.sources.lazy.calling import Code
from distforest.sources.lazy.lazy_source import LazySource, Objects, ValueSupplier
from distforest.sources.lazy.own_process import PROCESSES, answers_apart, asking, in_own_processes
from tests.messages import naming
from tests.service.processes import lives, until
from tests.sources.lazy.asked_apart import hangs
from tests.sources.lazy.test_callbacks import batch_of

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

TIMEOUT = 0.1
ROOT = Path(__file__).parents[3]
ONCE = AskingPolicy(retries=0)


def asked(
    function: Callable[..., Any], *batches: Batch, policy: AskingPolicy = ONCE, concurrency: int = 1
) -> dict[int, FunctionAnswer]:
    """The answers of a function to batches."""
    return dict(answers_apart(Code.pickled(Lazy(function)), batches, policy, concurrency))


def own_processes() -> set[int]:
    """The processes that this one has started."""
    return {one.pid for one in psutil.Process().children(recursive=True) if lives(one.pid)}


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """After each test the processes that are kept warm are ended, and no other one is there."""
    resource_tracker.ensure_running()  # it stays, like any process that uses `multiprocessing`
    before = own_processes()
    yield
    for process in list(PROCESSES._idle):
        process.end()
    PROCESSES._idle.clear()
    until(lambda: own_processes() <= before)


def nothing() -> None:
    """Look at nothing."""


DEATHS: dict[str, tuple[Callable[[], Any], str]] = {
    "exit": (lambda: sys.exit("no credit"), r"sys\.exit\('no credit'\)"),
    "exit code": (sys.exit, r"sys\.exit\(\)"),
    "exit at once": (lambda: os._exit(3), "exit code 3"),
    "abort": (os.abort, "SIGABRT"),
    "crash": (lambda: ctypes.string_at(0), "SIGSEGV"),
    "kill": (lambda: os.kill(os.getpid(), 9), "SIGKILL.*memory"),
    "interrupt": (lambda: signal.raise_signal(signal.SIGINT), "KeyboardInterrupt|SIGINT"),
    "hung up": (lambda: (os.closerange(3, 256), threading.Event().wait()), "pipe"),
}


@pytest.mark.slow
@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize("shape", ["sequences", "pairs", "coroutine"])
def test_a_death_is_a_fault_that_names_function_pair_and_exit(death: str, shape: str, capfd: Any) -> None:
    die, reason = DEATHS[death]

    def dies(*_given: Any) -> None:
        die()

    async def dies_awaited(*_given: Any) -> None:
        die()

    function = {"sequences": dies, "pairs": pairwise(dies), "coroutine": dies_awaited}[shape]
    # Each try is a process, and is the same for all shapes; but a coroutine is only cancelled by its first interrupt.
    retries = int(shape == "sequences" or death == "interrupt")
    found = asked(function, batch_of(3, 7), policy=AskingPolicy(retries))[0]
    assert found.values.tolist() == []
    name = (dies if shape != "coroutine" else dies_awaited).__qualname__
    tried = "2 times" if retries else "1 time:"
    told = naming(f"{name} ", "pairs (7, 100) to (9, 102)", tried)
    assert re.search(f"{told}.*({reason})", str(found.error)), found.error
    if death == "crash":
        assert "Segmentation fault" in capfd.readouterr().err  # in the worker's log it says where


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_function_that_hangs_is_ended_at_its_timeout(concurrency: int) -> None:
    found = asked(hangs, batch_of(3), batch_of(2, 5), policy=AskingPolicy(1, TIMEOUT), concurrency=concurrency)
    for place, pairs in enumerate(("(0, 100) to (2, 102)", "(5, 100) to (6, 101)")):
        told = naming(f"{hangs.__module__}:hangs ", pairs, "2 times", "0.1 s")
        assert re.match(told, str(found[place].error))


@pytest.mark.slow
def test_a_hang_ends_where_the_interpreter_is_held() -> None:
    def holds(_left: Any, _right: Any) -> None:
        ctypes.PyDLL(None).pause()  # does not let other threads run

    assert "0.1 s" in str(asked(holds, batch_of(1), policy=AskingPolicy(0, TIMEOUT))[0].error)


@pytest.mark.slow
def test_a_call_beside_one_that_hangs_is_left_in_peace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def waits(left: list[int], _right: Any) -> list[float]:
        (tmp_path / str(left[0])).touch()
        while left[0] == 0 or (left[0] == 5 and not (tmp_path / "go").exists()):
            threading.Event().wait(0.01)
        return [float(os.getpid())] * len(left)

    now = 0.0
    monkeypatch.setattr(own_process, "time", SimpleNamespace(monotonic=lambda: now, sleep=time.sleep))

    def batches() -> Iterator[Batch]:
        nonlocal now
        yield batch_of(1)
        yield batch_of(1, 1)
        now = 0.5  # the next one may take until 1.5
        yield batch_of(1, 5)
        yield batch_of(1, 9)

    def look() -> None:
        nonlocal now
        now = 1.0 if (tmp_path / "0").exists() and (tmp_path / "5").exists() else now

    found = dict[int, FunctionAnswer]()
    with in_own_processes(look):
        for place, one in answers_apart(Code.pickled(Lazy(waits)), batches(), AskingPolicy(0, 1.0), 2):
            found[place] = one
            if place == 0:
                (tmp_path / "go").touch()
    assert list(found) == [1, 0, 2, 3]
    assert "1 s" in str(found[0].error)
    pids = [found[place].values[0] for place in (1, 2, 3)]
    assert pids[0] == pids[1] != pids[2]  # only then a process takes its place


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_process_that_nobody_waits_for_is_ended_with_all_that_it_has_started(
    concurrency: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_process, "MESSAGE_TICK", 0.01)

    def starts_and_hangs(*_given: Any) -> None:
        subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        (tmp_path / "started").touch()
        threading.Event().wait()

    def look() -> None:
        if (tmp_path / "started").exists():
            raise CancelledJobError("told to stop")

    before = own_processes()
    with in_own_processes(look), pytest.raises(CancelledJobError, match="told to stop"):
        asked(starts_and_hangs, batch_of(1), batch_of(1, 1), concurrency=concurrency)
    until(lambda: own_processes() <= before)


@pytest.mark.slow
def test_a_process_is_kept_warm_and_ends_when_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    def who(left: Any, _right: Any) -> list[int]:
        return [os.getpid()] * len(left)

    lazy = Lazy(who)
    code, other = Code.pickled(lazy), Code.pickled(Lazy(lambda left, _right: [0.0] * len(left)))
    found = [dict(answers_apart(code, [batch_of(2)], ONCE, 1))[0].values[0] for _ in range(2)]
    assert found[0] == found[1] != os.getpid()
    assert dict(answers_apart(other, [batch_of(2)], ONCE, 1))[0].error is None
    assert dict(answers_apart(code, [batch_of(2)], ONCE, 1))[0].values[0] == found[0]
    monkeypatch.setattr(own_process, "MOST_IDLE", 1)
    assert dict(answers_apart(code, [batch_of(2)], ONCE, 1))[0].values[0] == found[0]
    assert [one.key for one in PROCESSES._idle] == [(code.key, 1)]  # the other one has gone
    PROCESSES._idle[0].end()
    monkeypatch.setattr(own_process, "IDLE_SECONDS", 0.01)
    fresh = dict(answers_apart(code, [batch_of(2)], ONCE, 1))[0].values[0]  # one that died in peace is nobody's fault
    assert fresh != found[0]
    until(lambda: int(fresh) not in own_processes() and not PROCESSES._idle)


@pytest.mark.slow
def test_what_a_function_of_two_objects_gave_before_a_death_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"

    @pairwise
    def dies_once(a: int, _b: int) -> float:
        with log.open("a") as file:
            print(a, file=file)
        if a == 5 and log.read_text().split().count("5") == 1:
            os._exit(1)
        return float(a)

    found = asked(dies_once, batch_of(9), policy=AskingPolicy(1))[0]
    assert found.error is None
    assert found.values.tolist() == list(range(9))
    times = [log.read_text().split().count(str(a)) for a in range(9)]
    assert times[:3] == [1, 1, 1]  # they were told, in ever larger pieces
    assert max(times) == 2
    always = asked(pairwise(lambda a, b: os._exit(a) if a == 5 else a), batch_of(9))[0]
    assert 0 < len(always.values) <= 5
    assert f"({len(always.values)}, {100 + len(always.values)}) to (8, 108)" in str(always.error)


def test_a_pair_at_fault_is_named_as_in_this_process() -> None:
    @pairwise
    def broken(a: int, b: int) -> float | None:
        return {3: float("inf"), 1: None}.get(a, 1.0 / (5 - a) + b)

    for batch, place in ((batch_of(5), 3), (batch_of(3, 4), 1)):
        found = asked(broken, batch, policy=AskingPolicy(1))[0]
        here = own_process.answers(broken, [batch], AskingPolicy(1), 1)
        assert found.error == next(here)[1].error
        assert len(found.values) == place
    assert np.isnan(asked(broken, batch_of(3))[0].values).tolist() == [False, True, False]


@pytest.mark.slow
def test_coroutines_run_at_once_and_are_cancelled_when_they_are_late() -> None:
    async def late(left: list[int], _right: Any) -> list[float]:
        if left[0] == 0:
            await asyncio.Event().wait()
        return [float(os.getpid())] * len(left)

    found = asked(late, batch_of(2), batch_of(2, 5), batch_of(2, 9), policy=AskingPolicy(0, TIMEOUT), concurrency=2)
    assert "0.1 s" in str(found[0].error)
    assert len({*found[1].values, *found[2].values}) == 1  # of one process, which has outlived the one that was late
    assert (
        asked(late, batch_of(2, 5), policy=AskingPolicy(0, TIMEOUT), concurrency=2)[0].values[0] == found[1].values[0]
    )


@pytest.mark.slow
def test_what_a_function_prints_reads_and_leaves_behind_is_its_own(capfd: Any, tmp_path: Path) -> None:
    def busy(left: list[int], _right: Any) -> list[float]:
        print("asked for", len(left))
        assert sys.stdin.read() == ""
        if left[0] == 5:
            (tmp_path / "left behind").write_text(str(os.fork() or threading.Event().wait()))
            os._exit(4)
        return [2.0] * len(left)

    found = asked(busy, batch_of(2), batch_of(3, 5))
    assert found[0].values.tolist() == [2.0, 2.0]
    assert "exit code 4" in str(found[1].error)
    assert capfd.readouterr().out.startswith("asked for 2\n")
    left_behind = int((tmp_path / "left behind").read_text())
    until(lambda: not lives(left_behind))


@pytest.mark.slow
@pytest.mark.parametrize("copy", ["returns", "raises"])
@pytest.mark.parametrize("shape", ["one at a time", "threads", "coroutine"])
def test_a_copy_that_goes_on_as_if_it_had_been_asked_is_not_heard(copy: str, shape: str) -> None:
    def forks(left: list[int], _right: Any) -> list[float]:
        if os.fork() == 0:
            return [0.0] * len(left) if copy == "returns" else [1 / 0]
        os.wait()
        return [2.0] * len(left)

    async def forks_awaited(left: list[int], right: Any) -> list[float]:
        return forks(left, right)

    function = forks_awaited if shape == "coroutine" else forks
    found = asked(function, *[batch_of(2, 9 * n) for n in range(3)], concurrency=1 + (shape != "one at a time"))
    assert [one.error for one in found.values()] == [None] * 3
    assert {value for one in found.values() for value in one.values} == {2.0}


def test_objects_of_any_size_and_class_go_there() -> None:
    class Word:
        def __init__(self, text: str) -> None:
            self.text = text

    def lengths(left: list[Word], right: list[Word]) -> list[int]:
        return [len(a.text) + len(b.text) for a, b in zip(left, right, strict=True)]

    words = [Word("a" * (1 << n)) for n in range(21)]
    found = asked(lengths, Batch(words, words, [(n, n) for n in range(21)]))[0]
    assert found.values.tolist() == [2 << n for n in range(21)]
    text = "an object that cannot be sent"
    refused = asked(lengths, Batch([threading.Lock()], [text], [(0, 1)]))[0]
    assert "_thread.lock" in str(refused.error)


@pytest.mark.slow
def test_a_function_that_cannot_be_sent_or_loaded_is_refused_in_words(tmp_path: Path) -> None:
    lock = threading.Lock()

    def locked(_left: Any, _right: Any) -> None:
        lock.acquire()

    with pytest.raises(InputError, match=naming("locked ", "TypeError", "'_thread")):
        Code.pickled(Lazy(locked))
    faults = {
        "raise ValueError('old')": ["load", "ValueError: old"],
        "import os; os._exit(2)": ["load", "exit code 2"],
        "def f(a, b): return a": ["load", "changed"],
    }
    for number, (text, named) in enumerate(faults.items()):
        (tmp_path / f"module_{number}.py").write_text(text)
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(tmp_path))
            code = Code("module:f", "0", False, f"module_{number}:f")
            found = dict(answers_apart(code, [batch_of(2)], ONCE, 1))[0]
        assert re.match(naming("module:f ", "pairs", "1 time:", *named), str(found.error)), found.error


def test_a_module_that_workers_lack_is_reported_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "only_here.py").write_text("def f(left, right): return [0.0] * len(left)")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        code = Code.pickled(Lazy(importlib.import_module("only_here").f))
        (tmp_path / "only_here.py").unlink()
        found = dict(answers_apart(code, [batch_of(2)], ONCE, 1))[0]
    sys.modules.pop("only_here")
    assert re.search(naming("'only_here'", "install only_here"), str(found.error))


SCRIPT = """
import ctypes, os, sys, threading, time
from distforest.sources.lazy.callbacks import AskingPolicy, Batch, Lazy
from distforest.sources.lazy.calling import Code
from distforest.sources.lazy.own_process import answers_apart
folder, hang, end = sys.argv[1:]
print(os.getpid())
def hangs(left, right):
    with open(folder + "/pid", "w") as file:
        file.write(str(os.getpid()))
    os.rename(folder + "/pid", folder + "/written")
    if hang == "holds":
        ctypes.PyDLL(None).pause()  # does not let other threads run
    threading.Event().wait()
def ask():
    list(answers_apart(Code.pickled(Lazy(hangs)), [Batch([0], [0], [(0, 0)])], AskingPolicy(), 1))
threading.Thread(target=ask, daemon=True).start()
while end == "is killed" or not os.path.exists(folder + "/written"):
    time.sleep(0.01)
"""


@pytest.mark.slow
@pytest.mark.parametrize("hang", ["waits", "holds"])
@pytest.mark.parametrize("end", ["is killed", "exits"])
def test_a_process_ends_with_the_script_that_asks_which_runs_once(hang: str, end: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(tmp_path), hang, end]
    asks = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True)
    until((tmp_path / "written").exists)
    left_behind = int((tmp_path / "written").read_text())
    if end == "is killed":
        asks.kill()
    assert asks.communicate()[0].split() in ([], [str(asks.pid)])
    assert asks.returncode == (-9 if end == "is killed" else 0)
    until(lambda: not lives(left_behind))


def who(left: Any, _right: Any) -> list[float]:
    """The process, and whether it is a daemon."""
    return [float(os.getpid()), float(multiprocessing.current_process().daemon)][: len(left)]


@pytest.mark.slow
def test_a_daemon_such_as_a_worker_of_dask_may_start_a_process_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing.current_process(), "daemon", True)
    assert asked(who, batch_of(2))[0].values[1] == 0.0
    assert multiprocessing.current_process().daemon


@pytest.mark.slow
def test_a_fork_leaves_the_processes_to_the_one_that_has_started_them() -> None:
    before = asked(who, batch_of(1))[0].values[0]
    if (fork := os.fork()) == 0:
        PROCESSES.end_all()
        os._exit(len(PROCESSES._idle))
    assert os.waitpid(fork, 0)[1] == 0
    assert asked(who, batch_of(1))[0].values[0] == before


def test_a_source_asks_apart_only_where_it_is_told_to() -> None:
    def who(left: Any, _right: Any) -> list[float]:
        return [float(os.getpid())] * len(left)

    lazy, objects = Lazy(who), Objects.from_columns(np.arange(4))
    source = LazySource(lazy, objects, replace(ValueSupplier.here(lazy), ask=asking(lazy, Code.pickled(lazy))))
    first, second = (np.array([number], np.int32) for number in (0, 1))
    assert source.entries(first, second)[0] == os.getpid()
    with in_own_processes(nothing):
        assert source.entries(second, first + 2)[0] != os.getpid()
