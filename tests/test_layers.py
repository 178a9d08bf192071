"""The rules of docs/design.md about who may import whom, read from the sources."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1] / "distforest"
FLOORS = {"sources": 1, "forest": 2, "growth": 3, "jobs": 4}
GROUND = {
    *("errors", "amounts", "jit", "arguments"),
    *("geodesics", "manifolds", "metrics", "ranking_truth", "roc", "simulate"),
}
ON_THE_GROUND = {
    "amounts": set(),
    "arguments": {"errors", "amounts"},
    "geodesics": {"errors", "amounts", "arguments"},
    "manifolds": {"errors", "arguments", "geodesics"},
    "metrics": {"errors", "arguments", "geodesics", "roc"},
    "ranking_truth": {"errors", "arguments", "roc"},
    "roc": {"errors", "amounts", "arguments"},
    "simulate": {"errors", "arguments", "manifolds", "ranking_truth"},
    "pictured": {"errors", "amounts", "arguments"},
    "plotting": {"errors", "amounts", "arguments", "metrics", "pictured"},
    "errors": set(),
    "jit": set(),
}
"""Modules beside the floors, and all that they may import."""
DOOR = 5

ESTIMATORS = (
    *("forest_estimator", "on_features", "on_pairs", "on_rows"),
    *("outliers", "pair_columns", "rfd", "simforest", "smerf", "tree_rank", "urerf"),
)
COMMANDS = {"cli", "certificate_commands", "service_commands", "trial_commands"}
WITH_A_SCHEDULER = ("calls", "jobs", "leading", "page", "serving", "watching", "whereabouts")
SERVICE = {"service", *(f"service.{name}" for name in WITH_A_SCHEDULER)}
ONLY_IN = {
    "distributed": {"jobs.on_dask", *SERVICE},
    "zarr": {"sources.arrays", "sources.guarded", "forest.artifact", "jobs.score"},
    "numcodecs": {"sources.guarded"},
    "sklearn": {"metrics", "growth.linear_cells", *(f"estimators.{name}" for name in ESTIMATORS)},
    "matplotlib": {"plotting", "ranking_plots"},
    "pyarrow": {"sources.tables"},
    "click": {*COMMANDS, "commands", "service"},
    "numba": {"jit"},
    "llvmlite": {"jit"},
}
INSIDE_FUNCTIONS = {*COMMANDS, "quickstart"}
LATE = {
    "sources.tables": {"pyarrow.parquet", "pyarrow.types"},  # may be missing
    # slow, and a fit in threads does without
    "estimators.forest_estimator": {"distforest.jobs.on_dask", "sklearn.metrics"},
    "estimators.simforest": {"distforest.jobs.on_dask"},
    "growth.linear_cells": {"sklearn.linear_model"},
    "service": {"distributed", "distforest.service."},  # the client imports it, too
    "service.whereabouts": {"distributed", "distforest.service.calls"},  # slow, and a job root is read without
}
"""An import inside a function is for these modules, or one of these imports."""


class Import(NamedTuple):
    """One imported module: by whom, in which line, and when."""

    module: str
    imported: str
    line: int
    when: str  # "start", "typing" or "call"

    def __str__(self) -> str:
        return f"distforest/{self.module.replace('.', '/')}.py:{self.line} imports {self.imported}"


def imports_in(module: str, source: str, known: frozenset[str]) -> Iterator[Import]:
    """Every import of a source text; ``from package import module`` is an import of that module."""

    def visit(node: ast.AST, when: str) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            now = when
            if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
                now = "typing"
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and when == "start":
                now = "call"
            if isinstance(child, ast.Import):
                yield from (Import(module, alias.name, child.lineno, when) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{module}:{child.lineno}: imports are absolute"
                for alias in child.names:
                    inner = f"{child.module}.{alias.name}"
                    yield Import(module, inner if inner in known else str(child.module), child.lineno, when)
            yield from visit(child, now)

    yield from visit(ast.parse(source), "start")


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def sources() -> dict[str, str]:
    """The source text of each module, by its name within the package; the package itself has the name ``""``."""
    return {name_of(path): path.read_text() for path in sorted(ROOT.rglob("*.py"))}


@cache
def imports() -> tuple[Import, ...]:
    known = frozenset(f"distforest.{name}" for name in sources())
    return tuple(found for module, source in sources().items() for found in imports_in(module, source, known))


def own(found: Import) -> str | None:
    """The imported module within the package; None for another package's."""
    if found.imported == "distforest":
        return ""
    return found.imported.removeprefix("distforest.") if found.imported.startswith("distforest.") else None


def floor(module: str) -> int:
    """How high a module stands."""
    first = module.split(".", maxsplit=1)[0]
    return FLOORS.get(first, 0 if first in GROUND else DOOR)


def told(found: list[Import]) -> str:
    return "\n".join(map(str, found))


def test_the_sources_are_read() -> None:
    assert {"errors", "forest.table", "growth.grower", "jobs.train", "estimators.smerf", ""} <= set(sources())
    assert len(imports()) > 200
    assert {found.when for found in imports()} == {"start", "typing", "call"}


def test_imports_are_told_apart() -> None:
    text = """
import os, distforest.errors
from distforest.forest import scoring
from distforest.growth.rng import mix
if TYPE_CHECKING:
    from zarr import Array
def f():
    import click
    class A:
        def g(self):
            from distforest.jobs import nothing
"""
    found = list(imports_in("x", text, frozenset({"distforest.forest.scoring"})))
    assert [(i.imported, i.line, i.when) for i in found] == [
        ("os", 2, "start"),
        ("distforest.errors", 2, "start"),
        ("distforest.forest.scoring", 3, "start"),
        ("distforest.growth.rng", 4, "start"),
        ("zarr", 6, "typing"),
        ("click", 8, "call"),
        ("distforest.jobs", 11, "call"),
    ]
    assert [floor(name) for name in ("errors", "sources.arrays", "forest.table", "growth", "jobs.spec", "cli", "")] == [
        0,
        1,
        2,
        3,
        4,
        5,
        5,
    ]


def test_imports_run_downwards() -> None:
    upwards = [i for i in imports() if (target := own(i)) is not None and floor(target) > floor(i.module)]
    assert not upwards, told(upwards)


def test_the_forest_does_not_know_how_it_is_grown() -> None:
    found = [
        i for i in imports() if i.module.startswith("forest") and (own(i) or "").split(".")[0] in ("growth", "jobs")
    ]
    assert not found, told(found)


@pytest.mark.parametrize("module", sorted(ON_THE_GROUND))
def test_modules_on_the_ground_stand_alone(module: str) -> None:
    if module not in sources():
        pytest.skip("not built yet")
    allowed = ON_THE_GROUND[module]
    found = [i for i in imports() if i.module == module and (target := own(i)) is not None and target not in allowed]
    assert not found, told(found)


def test_there_is_no_circle() -> None:
    below: dict[str, set[str]] = {module: set() for module in sources()}
    for found in imports():
        target = own(found)
        if target is not None and found.when == "start":
            below[found.module].add(target)
    done: set[str] = set()

    def descend(module: str, above: tuple[str, ...]) -> None:
        assert module not in above, f"a circle: {' -> '.join([*above, module])}"
        if module not in done:
            for target in sorted(below[module]):
                descend(target, (*above, module))
            done.add(module)

    for module in sorted(below):
        descend(module, ())
    assert done == set(sources())


def test_the_grower_is_handed_draws_criteria_and_methods() -> None:
    judges = ("criteria", "mean_distance", "blocks", "histograms")
    apart = {f"growth.{name}" for name in ("draws", *judges, "methods", "parameters")}
    found = [i for i in imports() if i.module == "growth.grower" and own(i) in apart and i.when != "typing"]
    assert not found, told(found)


@pytest.mark.parametrize("package", sorted(ONLY_IN))
def test_a_package_is_imported_where_it_belongs(package: str) -> None:
    found = [i for i in imports() if i.imported.split(".")[0] == package and i.when != "typing"]
    strangers = [i for i in found if i.module not in ONLY_IN[package]]
    assert not strangers, told(strangers)
    assert found or package == "matplotlib"


def test_imports_stand_at_the_top() -> None:
    found = [
        i
        for i in imports()
        if i.when == "call"
        and i.module not in INSIDE_FUNCTIONS
        and not any(i.imported.startswith(late) for late in LATE.get(i.module, ()))
    ]
    assert not found, told(found)


def test_kernels_are_serial_and_exact() -> None:
    for module, source in sources().items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.keyword):
                assert node.arg not in ("parallel", "fastmath"), f"{module}: {node.arg}"
            if isinstance(node, (ast.Name, ast.Attribute)):
                name = node.id if isinstance(node, ast.Name) else node.attr
                assert name not in ("prange", "vectorize", "guvectorize"), f"{module}:{node.lineno}: {name}"


WITHOUT_GROWTH = """
import sys
for name in ("distforest.growth", "distforest.jobs", "distributed", "dask", "sklearn"):
    sys.modules[name] = None
import distforest.forest.scoring, distforest.forest.artifact
"""


WITHOUT_DISTRIBUTED = """
import sys
sys.modules["distributed"] = None
import numpy as np
from distforest import SMERF
print(SMERF(n_estimators=1).fit(np.eye(4), [0, 0, 1, 1]).distance(np.eye(4)).shape)
"""


@pytest.mark.parametrize(("code", "said"), [(WITHOUT_GROWTH, ""), (WITHOUT_DISTRIBUTED, "(4, 4)\n")])
def test_a_scorer_and_a_fit_in_threads_do_without_the_rest(code: str, said: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, said), done.stderr
