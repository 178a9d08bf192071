"""Kernels without reference counts make, return and hold no array; who waits for compiling gets a message."""

from __future__ import annotations

import ast
import builtins
import multiprocessing
import sys
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
from distforest.jit import COMPILE, Notice, kernel, no_refcount

ROOT = Path(__file__).parents[1] / "distforest"
NUMBERS = {
    *("None", "int", "float", "bool", "np.int32", "np.int64", "np.uint32", "np.uint64"),
    *("CostedImpurity", "FixedPoint", "Line", "Side", "Sides", "Squares", "Start"),
}
"""What a function may return that is no array; tuples with names hold numbers alone."""


def compiled_functions() -> dict[str, list[ast.FunctionDef]]:
    """The functions under each decorator of `distforest.jit`."""
    found: dict[str, list[ast.FunctionDef]] = {"kernel": [], "no_refcount": []}
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                for name in (own.id for own in node.decorator_list if isinstance(own, ast.Name)):
                    found.get("no_refcount" if name == "inlined" else name, []).append(node)
    return found


def returns_arrays(function: ast.FunctionDef) -> bool:
    told = ast.unparse(function.returns) if function.returns else "None"
    inner = told.removeprefix("tuple[").removesuffix("]").split(", ") if told.startswith("tuple[") else [told]
    return not set(inner) <= NUMBERS


@pytest.mark.slow
def test_a_kernel_without_reference_counts_returns_no_array_and_calls_none_that_does() -> None:
    found = compiled_functions()
    assert len(found["no_refcount"]) > 20
    assert [own.name for own in found["no_refcount"] if returns_arrays(own)] == []
    givers = {own.name for own in found["kernel"] if returns_arrays(own)}
    assert "room_for" in givers
    for function in found["no_refcount"]:
        called = {
            own.func.id for own in ast.walk(function) if isinstance(own, ast.Call) and isinstance(own.func, ast.Name)
        }
        assert not called & givers, function.name


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_a_kernel_without_reference_counts_cannot_make_an_array() -> None:
    @no_refcount
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


def test_the_compilation_of_kernels_is_reported_once() -> None:
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
    monkeypatch.setenv("DISTFOREST_KERNELS", str(tmp_path))  # where no earlier run has left the kernel
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
def test_compilation_is_reported_to_a_person_and_to_no_log(
    terminal: bool, notebook: bool, worker: bool, told: bool, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: "the cluster" if worker else None)
    if notebook:
        monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
    jit._print_to_person(COMPILE)
    expected = "distforest: compile the kernels (slow only the first time)\n" if told else ""
    assert capsys.readouterr() == ("", expected)
