"""The examples of the documentation are run."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
EXAMPLES = sorted(path.name for path in DOCS.glob("*.md") if ">>> " in path.read_text())


def test_there_are_examples() -> None:
    assert "one-tree.md" in EXAMPLES


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_say_what_is_shown(name: str) -> None:
    done = doctest.testfile(str(DOCS / name), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert done.attempted > 0
    assert not done.failed
