"""The locks of the workflows: each requirement has its versions there, and they name no place to take them from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKS = {name: (ROOT / "requirements" / name).read_text().splitlines() for name in ("ci.txt", "lowest.txt")}


def locked(lock: str) -> dict[str, list[str]]:
    """The versions of each package, of which markers choose one."""
    found: dict[str, list[str]] = {}
    for line in LOCKS[lock]:
        if line and not line.lstrip().startswith("#"):
            requirement = Requirement(line)
            (exact,) = requirement.specifier
            assert exact.operator == "=="
            found.setdefault(canonicalize_name(requirement.name), []).append(exact.version)
    return found


def test_each_requirement_is_locked_to_versions_that_it_takes() -> None:
    found = locked("ci.txt")
    extras = PROJECT["optional-dependencies"]
    for text in [*PROJECT["dependencies"], *extras["test"], *extras["dev"], *extras["docs"]]:
        requirement = Requirement(text)
        versions = found[canonicalize_name(requirement.name)]
        assert [version for version in versions if not requirement.specifier.contains(version)] == [], text


def test_the_lowest_versions_are_those_that_the_project_states() -> None:
    found = locked("lowest.txt")
    for text in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]]:
        requirement = Requirement(text)
        (version,) = found[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), text
        for least in (Version(bound.version).release for bound in requirement.specifier if bound.operator == ">="):
            assert Version(version).release[: len(least)] == least, text


@pytest.mark.parametrize(
    ("lock", "command"),
    [
        ("ci.txt", "uv pip compile .*--universal .*--extra test --extra dev --extra docs"),
        ("lowest.txt", "uv pip compile .*--resolution lowest-direct --extra test"),
    ],
)
def test_it_says_how_it_is_made_and_names_no_index(lock: str, command: str) -> None:
    text = "\n".join(LOCKS[lock])
    assert re.search(rf"^# +{command}", text, re.MULTILINE)
    assert re.findall(r"://|--(?:extra-)?index-url|--find-links", text) == []
