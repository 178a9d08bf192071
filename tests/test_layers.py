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

from distforest.growth.methods import METHODS

ROOT = Path(__file__).parents[1] / "distforest"
GROUND = {"errors", "amounts", "jit", "kernel_cache", "arguments", "sides", "html_table", "threads", "process_end"}
BELOW: dict[str, set[str]] = {
    "stores": set(),
    "sources": {"stores"},
    "checks": {"sources"},
    "forest": {"stores", "sources"},
    "growth": {"sources", "forest"},
    "evaluation": {"stores", "sources", "forest"},
    "jobs": {"stores", "sources", "checks", "forest", "growth", "evaluation"},
    "estimators": {"stores", "sources", "checks", "forest", "growth", "jobs", "evaluation"},
    "pictures": {"sources", "forest", "evaluation", "estimators"},
    "service": {"stores", "sources", "forest", "growth", "jobs", "estimators", "pictures"},
    "command_line": {"stores", "sources", "forest", "evaluation", "jobs", "pictures", "service"},
}
"""Of each room those whose files its own may import, beside the ground."""

ESTIMATORS = (
    *("forest_estimator", "on_features", "on_pairs", "on_rows", "reading"),
    *("outliers", "pair_columns", "rfd", "simforest", "smerf", "tree_rank", "tuning", "urerf"),
)
COMMANDS = {f"command_line.{name}" for name in ("cli", "doctor", "sealed_forests", "service")}
WITH_A_SCHEDULER = (
    "calls",
    "checkup",
    "doctor",
    "jobs",
    "page",
    "running",
    "serving",
    "watching",
    "whereabouts",
)
SERVICE = {"service", *(f"service.{name}" for name in WITH_A_SCHEDULER)}
ARROW = ("cells", "queries", "survey", "table_arrays", "table_writer", "tables")
ONLY_IN = {
    "distributed": {
        "jobs.able_workers",
        "jobs.dask_private",
        "jobs.forked_from",
        "jobs.on_dask",
        "jobs.worker_start",
        *SERVICE,
    },
    "zarr": {
        "sources.arrays",
        "sources.guarded",
        "sources.anndata_columns",
        "sources.packed",
        "sources.sharded",
        "forest.sealed.artifact",
        "forest.sealed.files",
    },
    "onnx": {"forest.exports"},
    "numcodecs": {"sources.guarded"},
    "sklearn": {
        *("evaluation.grids", "evaluation.splits", "growth.pairs.linear_cells"),
        *(f"pictures.{name}" for name in ("closeness", "displays", "out_of_bag")),
        "command_line.quickstart",
        *(f"estimators.{name}" for name in ESTIMATORS),
    },
    "matplotlib": {"pictures.charts"},
    "prometheus_client": {"service.metrics", "service.page"},
    "pyarrow": {f"sources.files.{name}" for name in ARROW},
    "click": {*COMMANDS, "command_line.commands", "service"},
    "numba": {"jit", "kernel_cache", "sources.lanes", "growth.cuts.earlier_links"},
    "llvmlite": {"jit", "kernel_cache", "sources.lanes", "growth.cuts.earlier_links"},
}
INSIDE_FUNCTIONS = {*COMMANDS, "command_line.quickstart"}
LATE = {
    "": {"importlib.metadata"},  # slow, and few ask for the version
    "jobs.answers": {"distforest.forest.", "distforest.sources."},  # the command line imports it, too
    "command_line.commands": {"distforest.pictures.charts"},  # slow, and an extra
    # slow, and a fit in threads does without
    "estimators.by_blocks": {"dask"},
    "evaluation.grids": {"scipy.stats", "sklearn.metrics"},  # slow, and a spec of a grid is read without
    "estimators.forest_estimator": {"dask.tokenize", "distforest.jobs.on_dask", "sklearn.metrics"},
    "estimators.on_pairs": {"sklearn.metrics"},
    "estimators.pair_columns": {"sklearn.covariance", "sklearn.linear_model"},
    "estimators.simforest": {"sklearn.metrics"},
    "forest.exports": {"onnx"},  # an extra
    "growth.pairs.linear_cells": {"sklearn.linear_model"},
    "sources.comparisons": {"rapidfuzz"},  # an extra
    "sources.collections": {"dask"},
    "jobs.on_dask": {"distforest.jit"},  # slow, and a client compiles nothing
    "jobs.score": {"distforest.jobs.lockstep"},  # it grows trees, and few questions ask a function
    "jobs.progress": {"rich."},  # slow, and most fits show nothing
    "service": {"distributed", "distforest.jobs.dask_private", "distforest.service."},  # the client imports it, too
    "service.checkup": {"cryptography"},  # an extra
    "service.reporting": {"distforest.pictures.report"},  # a service does without pictures
    "service.submitted": {"distforest.estimators.loading"},  # a service does without estimators
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
            if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
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


def room(module: str) -> str:
    """The room of a module: its first name, or that of the house itself for what lies loose in it."""
    first = module.split(".", maxsplit=1)[0]
    return first if first in BELOW else ""


def told(found: list[Import]) -> str:
    return "\n".join(map(str, found))


@pytest.mark.slow
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
    names = ("errors", "sources.lazy.pairs", "forest.table", "growth", "")
    assert [room(name) for name in names] == ["", "sources", "forest", "growth", ""]


def test_every_file_has_a_room() -> None:
    assert {name for name in sources() if not room(name)} == {*GROUND, "", "__main__"}
    assert {room(name) for name in sources()} == {*BELOW, ""}


@pytest.mark.slow
@pytest.mark.parametrize("place", sorted(BELOW))
def test_imports_run_downwards(place: str) -> None:
    allowed = {*BELOW[place], place}
    found = [
        i for i in imports() if room(i.module) == place and (target := own(i)) is not None and target not in GROUND
    ]
    upwards = [i for i in found if room(str(own(i))) not in allowed]
    assert not upwards, told(upwards)
    unused = BELOW[place] - {room(str(own(i))) for i in found}
    assert not unused


def test_the_rooms_make_no_circle() -> None:
    height: dict[str, int] = {}
    while len(height) < len(BELOW):
        ready = {name for name, below in BELOW.items() if name not in height and below <= height.keys()}
        assert ready, sorted(BELOW.keys() - height.keys())
        height |= dict.fromkeys(ready, len(height))


def test_the_ground_imports_the_ground() -> None:
    found = [i for i in imports() if i.module in GROUND and (target := own(i)) is not None and target not in GROUND]
    assert not found, told(found)


def test_there_is_no_circle() -> None:
    below: dict[str, set[str]] = {module: set() for module in sources()}
    for found in imports():
        target = own(found)
        if target is not None and found.when != "call":
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
    apart = ("growth.cuts.", "growth.draws.", "growth.pairs.", "growth.methods", "growth.parameters")
    grower = [i for i in imports() if i.module == "growth.grower" and i.when != "typing"]
    found = [i for i in grower if (own(i) or "").startswith(apart)]
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


@pytest.mark.slow
def test_a_method_is_named_by_its_row_and_its_estimator() -> None:
    naming: dict[str, list[str]] = {name: [] for name in METHODS}
    for module, source in sources().items():
        if any(name in source for name in METHODS):
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Constant) and node.value in naming:
                    naming[node.value].append(module)
    for name, everywhere in naming.items():
        found = [module for module in everywhere if module != "jobs.tables"]  # which inputs a method takes
        assert len(found) == 2, (name, found)
        assert {"growth.methods", "estimators"} == {found[1], room(found[0])}, (name, found)


INEXACT = {"parallel", "fastmath", "prange", "vectorize", "guvectorize"}


def test_kernels_are_serial_and_exact() -> None:
    for module, source in sources().items():
        if not any(name in source for name in INEXACT):
            continue
        for node in ast.walk(ast.parse(source)):
            used = getattr(node, "arg", None) if isinstance(node, ast.keyword) else None
            if isinstance(node, (ast.Name, ast.Attribute)):
                used = node.id if isinstance(node, ast.Name) else node.attr
            assert used not in INEXACT, f"{module}: {used}"


WITHOUT_GROWTH = """
import sys
for name in ("distforest.growth", "distforest.jobs", "distributed", "dask", "sklearn"):
    sys.modules[name] = None
import distforest.forest.scoring, distforest.forest.sealed.artifact
"""


WITHOUT_DISTRIBUTED = """
import sys
sys.modules["distributed"] = None
import numpy as np
from distforest import SMERF
print(SMERF(n_estimators=1).fit(np.eye(4), [0, 0, 1, 1]).distance(np.eye(4)).shape)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("code", "said"), [(WITHOUT_GROWTH, ""), (WITHOUT_DISTRIBUTED, "(4, 4)\n")])
def test_a_scorer_and_a_fit_in_threads_do_without_the_rest(code: str, said: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, said), done.stderr
