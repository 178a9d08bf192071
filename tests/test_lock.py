"""The lock of the workflows: each requirement has its versions there, and it names no place to take them from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LINES = (ROOT / "requirements" / "ci.txt").read_text().splitlines()


def locked() -> dict[str, list[str]]:
    """The versions of each package, of which markers choose one."""
    found: dict[str, list[str]] = {}
    for line in LINES:
        if line and not line.lstrip().startswith("#"):
            requirement = Requirement(line)
            (exact,) = requirement.specifier
            assert exact.operator == "=="
            found.setdefault(canonicalize_name(requirement.name), []).append(exact.version)
    return found


def test_each_requirement_is_locked_to_versions_that_it_takes() -> None:
    found = locked()
    extras = PROJECT["optional-dependencies"]
    for text in [*PROJECT["dependencies"], *extras["test"], *extras["dev"], *extras["docs"]]:
        requirement = Requirement(text)
        versions = found[canonicalize_name(requirement.name)]
        assert [version for version in versions if not requirement.specifier.contains(version)] == [], text


def test_it_says_how_it_is_made_and_names_no_index() -> None:
    text = "\n".join(LINES)
    assert re.search(r"^# +uv pip compile .*--universal .*--extra test --extra dev --extra docs", text, re.MULTILINE)
    assert re.findall(r"://|--(?:extra-)?index-url|--find-links", text) == []
