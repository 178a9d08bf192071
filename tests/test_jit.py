"""Kernels that borrow make no array, return none, and hold none afterwards; who waits for compiling is told."""

from __future__ import annotations

import ast
import builtins
import errno
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest
from numba.core import event
from numba.core.errors import NumbaError

from distforest import jit
from distforest.growth.cuts.ordering import order_values
from distforest.jit import COMPILE, Notice, borrowing, kernel, stamp_of
from distforest.sources import lanes
from distforest.sources.kernels import project_kernel, similarity

ROOT = Path(__file__).parents[1] / "distforest"
NUMBERS = {
    *("None", "int", "float", "bool", "np.int32", "np.int64", "np.uint32", "np.uint64"),
    *("FixedPoint", "Line", "Side", "Squares", "Start"),
}
"""What a function may return that is no array; tuples with names hold numbers alone."""


def compiled_functions() -> dict[str, list[ast.FunctionDef]]:
    """The functions under each decorator of `distforest.jit`."""
    found: dict[str, list[ast.FunctionDef]] = {"kernel": [], "borrowing": []}
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                for name in (own.id for own in node.decorator_list if isinstance(own, ast.Name)):
                    found.get(name, []).append(node)
    return found


def returns_arrays(function: ast.FunctionDef) -> bool:
    told = ast.unparse(function.returns) if function.returns else "None"
    inner = told.removeprefix("tuple[").removesuffix("]").split(", ") if told.startswith("tuple[") else [told]
    return not set(inner) <= NUMBERS


def test_who_borrows_returns_no_array_and_calls_none_that_does() -> None:
    found = compiled_functions()
    assert len(found["borrowing"]) > 20
    assert [own.name for own in found["borrowing"] if returns_arrays(own)] == []
    givers = {own.name for own in found["kernel"] if returns_arrays(own)}
    assert "room_for" in givers
    for function in found["borrowing"]:
        called = {
            own.func.id for own in ast.walk(function) if isinstance(own, ast.Call) and isinstance(own.func, ast.Name)
        }
        assert not called & givers, function.name


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_who_borrows_cannot_make_an_array() -> None:
    @borrowing
    def making(n: int) -> float:
        return float(np.empty(n).sum())

    with pytest.raises(NumbaError, match="returning of array passed into the function"):
        making(3)


def test_nothing_is_held_when_a_kernel_has_ended() -> None:
    arrays = np.array([2.0, 0.5, np.nan]), np.empty(3, np.int64), np.empty(3, np.uint64), np.empty(3, np.uint64)
    held = []
    for _ in range(4):
        assert order_values(*arrays) == 2
        held.append([sys.getrefcount(own) for own in arrays])
    assert held[1:] == held[:1] * 3


class Waiting:
    """Kernels that are compiled by the hands of a clock of our own."""

    def __init__(self) -> None:
        self.now, self.words = 100.0, list[str]()
        self.notice = Notice(self.words.append, lambda: self.now)

    def start(self, module: str = "distforest.growth.grower") -> None:
        compiled = SimpleNamespace(py_func=SimpleNamespace(__module__=module))
        self.notice.on_start(event.Event("numba:compile", event.EventStatus.START, {"dispatcher": compiled}))

    def end(self, seconds: float) -> None:
        self.now += seconds
        self.notice.on_end(event.Event("numba:compile", event.EventStatus.END, {}))


def test_who_waits_for_kernels_to_be_compiled_is_told_once() -> None:
    waiting = Waiting()
    for _ in range(3):
        waiting.start()
        waiting.end(0.3)
    waiting.now += 60  # it is compiling that counts
    assert waiting.words == []
    waiting.start()
    waiting.end(0.3)
    assert waiting.words == []  # it is over, as far as anybody knows
    for _ in range(5):
        waiting.start()
        waiting.end(9.0)
    assert waiting.words == [COMPILE]


def test_kernels_within_a_kernel_count_once_and_those_of_others_never() -> None:
    waiting = Waiting()
    waiting.start()
    for _ in range(3):
        waiting.start("numba.np.arraymath")
        waiting.end(0.3)
    waiting.end(0.0)
    waiting.start()
    assert waiting.words == []
    waiting.now += 0.2
    waiting.start("numba.np.arraymath")
    assert waiting.words == [COMPILE]
    others = Waiting()
    for _ in range(3):
        others.start("somebody.elses")
        others.end(50.0)
    others.start("somebody.elses")
    others.now += 50.0
    others.start()
    others.end(0.5)
    others.end(50.0)
    others.start()
    assert others.words == []


def test_numba_announces_what_it_compiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jit, "COMPILE_PATIENCE", 0.0)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))  # where no earlier run has left the kernel
    words: list[str] = []

    def doubled(x: float) -> float:
        return 2.0 * x

    doubled.__module__ = "distforest.growth.doubled"
    compiled = kernel(doubled)
    with event.install_listener("numba:compile", Notice(words.append)):
        assert (compiled(2.0), compiled(3.0)) == (4.0, 6.0)
    assert words == ([] if numba.config.DISABLE_JIT else [COMPILE])


@pytest.mark.parametrize(
    ("terminal", "notebook", "worker", "told"),
    [(True, False, False, True), (False, True, False, True), (False, False, False, False), (True, True, True, False)],
)
def test_a_person_is_told_and_no_log(
    terminal: bool, notebook: bool, worker: bool, told: bool, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: "the cluster" if worker else None)
    if notebook:
        monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
    jit._tell_a_person(COMPILE)
    expected = "distforest: compile the kernels (slow only the first time)\n" if told else ""
    assert capsys.readouterr() == ("", expected)


COMPILES = """
import numpy as np
from distforest.sources.sparse import SparseRows, observed, sparse_entries
one = np.zeros(1, np.int32)
stored = SparseRows(np.array([0, 1]), one, np.full(1, 7.0))
for kernel in (observed, sparse_entries):
    print(kernel(stored, *((0, 0) if kernel is observed else (one, one, np.zeros(1)))))
"""


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_a_full_folder_for_kernels_is_told_of_once_and_ends_nothing(small_disk: Path) -> None:
    with (small_disk / "filler").open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, 4 << 20)
    done = subprocess.run(
        [sys.executable, "-c", COMPILES],
        env={**os.environ, "PYTHONPATH": str(ROOT.parent), "NUMBA_CACHE_DIR": f"{small_disk}/kernels"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "7.0\nNone\n"), done.stderr
    assert done.stderr.count("UserWarning: No space left on device: compiled kernels cannot be kept in ") == 1
    assert "make room there, or name another folder (NUMBA_CACHE_DIR)" in done.stderr


def test_any_other_error_of_the_folder_for_kernels_is_raised() -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    with pytest.raises(OSError, match="broken"):
        jit._save_if_room(broken, "somewhere")


GONE = b"\x80\x04\x8c\x10distforest.jit__\x8c\x04Gone\x93."
"""A pickle that names a type of a module that is not there."""


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.parametrize("of_index", [GONE, b""])
def test_an_index_of_kernels_from_before_an_upgrade_ends_nothing(of_index: bytes, tmp_path: Path) -> None:
    command = [sys.executable, "-c", COMPILES]
    environment = {**os.environ, "PYTHONPATH": str(ROOT.parent), "NUMBA_CACHE_DIR": str(tmp_path)}
    for _ in range(2):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "7.0\nNone\n"), done.stderr
        indices = list(tmp_path.rglob("*.nbi"))
        assert indices
        for index in indices:
            index.write_bytes(pickle.dumps(numba.__version__) + of_index)


OUTER = """
from distforest.jit import kernel
from inner import STEP, called

@kernel
def f(x):
    return called(x) + STEP
"""

INNER = """
from distforest.jit import kernel

STEP = 1

@kernel
def called(x):
    return x + {added}
"""


@pytest.fixture
def told_by(tmp_path: Path) -> Callable[[str], int]:
    """What a new process prints that runs a program beside two modules of kernels, of which one calls the other."""
    path = os.pathsep.join([str(tmp_path), str(ROOT.parent)])
    environment = {**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    (tmp_path / "outer.py").write_text(OUTER)
    (tmp_path / "inner.py").write_text(INNER.format(added=1))

    def printed(program: str) -> int:
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert not done.stderr
        return int(done.stdout)

    return printed


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_a_kernel_is_compiled_again_if_what_it_calls_or_reads_in_another_file_has_changed(
    tmp_path: Path, told_by: Callable[[str], int]
) -> None:
    answers = []
    for inner in (
        INNER.format(added=1),
        INNER.format(added="10"),
        INNER.format(added=10).replace("STEP = 1", "STEP = 100"),
    ):
        (tmp_path / "inner.py").write_text(inner)
        answers.append(told_by("from outer import f; print(f(0))"))
    assert answers == [2, 11, 110]


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_code_that_was_imported_before_its_file_changed_is_not_kept_as_the_new_one(
    tmp_path: Path, told_by: Callable[[str], int]
) -> None:
    changed = f"from pathlib import Path; Path({str(tmp_path / 'inner.py')!r}).write_text({INNER.format(added=10)!r})"
    assert told_by(f"from outer import f; {changed}; print(f(0))") == 2
    assert told_by("from outer import f; print(f(0))") == 11


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_a_kernel_that_is_kept_may_call_one_that_no_file_holds(told_by: Callable[[str], int]) -> None:
    held = "import sys, types; inner = sys.modules['inner'] = types.ModuleType('inner')"
    assert told_by(f"{held}; exec({INNER.format(added=1)!r}, inner.__dict__); from outer import f; print(f(0))") == 2


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_a_kernel_follows_from_how_it_is_compiled_and_from_code_that_is_inserted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stamp() -> str:
        return str(stamp_of.__wrapped__(project_kernel))

    stamps = {stamp()}
    monkeypatch.setattr(lanes.dot, "source_stamp", "another", raising=False)
    stamps.add(stamp())
    monkeypatch.setitem(similarity.targetoptions, "error_model", "python")
    assert len({*stamps, stamp()}) == 3
