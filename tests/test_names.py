"""One name, one thing: what is public at the top of a module has a name that no other module has."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "distforest"

SHARED = {
    "of commands, which are called as what they do": {
        *("fit", "ingest", "merge", "score", "serve", "split", "submit", "tune"),
    },
    "of modules of commands, each of which hands its own on": {"COMMANDS"},
    "of what a module lists without the imports of the other; a test compares the two": {"FORMATS"},
    "of questions to forests of rows, and to forests over pairs of points": {
        *("distance", "kneighbors", "out_of_bag", "pair_distance"),
    },
    "of tables of a spec, which are named as what they describe": {"FeatureSubsets", "Graph", "Grid", "Size", "Table"},
    "of functions that read a matrix or a table of a spec, and write a cell or a model as plain values": {
        "plain",
        "read",
    },
    "of type variables, and of the type of parameters": {"F", "Params", "R", "T"},
}
"""Names of two things, by the reason for it."""


def names_in(source: str) -> set[str]:
    """The public names that a module defines at its top."""
    found: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {own.id for target in node.targets for own in ast.walk(target) if isinstance(own, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return {name for name in found if not name.startswith("_")}


def homes() -> dict[str, list[str]]:
    """The modules that define each name."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        for name in names_in(path.read_text()):
            found[name].append(str(path.relative_to(ROOT)))
    return found


def test_names_are_found() -> None:
    assert names_in("A, b = 1, 2\n_c = 3\nd: int = 4\ndef e(): f = 1\nclass G: pass\nif True:\n    h = 5\n") == {
        *("A", "b", "d", "e", "G")
    }


@pytest.mark.slow
def test_a_name_stands_for_one_thing() -> None:
    allowed = set().union(*SHARED.values())
    twice = {name: places for name, places in homes().items() if len(places) > 1}
    strangers = {name: places for name, places in twice.items() if name not in allowed}
    assert not strangers
    assert allowed <= twice.keys(), sorted(allowed - twice.keys())
