"""Kernels that borrow their arrays make none, return none, and call none that returns one, and hold none afterwards."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.errors import NumbaError

from distforest.growth.ordering import order_values
from distforest.jit import borrowing

ROOT = Path(__file__).parents[1] / "distforest"
NUMBERS = {"None", "int", "float", "bool", "np.int64", "np.uint32", "np.uint64", "Line"}
"""What a function may return that is no array; `Line` holds numbers alone."""


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
