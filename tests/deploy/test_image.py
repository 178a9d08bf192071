"""The image's recipe: pinned throughout, not run by root, and made of files that reach the builder."""

from __future__ import annotations

import re
import shlex
import tomllib
from fnmatch import fnmatch

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy.containers import ROOT, from_image

LINES = (ROOT / "deploy" / "Dockerfile").read_text().replace("\\\n", " ").splitlines()


def instructions(name: str) -> list[str]:
    return [line.removeprefix(f"{name} ").strip() for line in LINES if line.startswith(f"{name} ")]


def pinned(name: str) -> dict[str, str]:
    """The versions of a file of requirements, each of which must name one version."""
    lines = (ROOT / "deploy" / name).read_text().splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    for requirement in requirements:
        assert re.fullmatch(r"==[\w.]+", str(requirement.specifier)), requirement
    return {
        canonicalize_name(requirement.name): str(requirement.specifier).removeprefix("==")
        for requirement in requirements
    }


def test_every_stage_begins_with_one_image_named_by_its_digest() -> None:
    bases = {base.split(" AS ")[0] for base in instructions("FROM")}
    assert len(bases) == 1
    assert re.fullmatch(r"python:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", bases.pop())


def test_the_processes_are_nobody_of_importance() -> None:
    last = max(number for number, line in enumerate(LINES) if line.startswith("FROM "))
    (user,) = [line for line in LINES[last:] if line.startswith("USER ")]
    assert user == "USER 10001:10001"
    after = LINES[LINES.index(user) :]
    assert not any(line.startswith(("RUN ", "COPY ", "ADD ")) for line in after)


def test_all_that_the_package_needs_is_pinned_to_a_version_that_it_takes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = pinned("requirements.txt")
    extras = project["optional-dependencies"]
    for text in [*project["dependencies"], *extras["plot"], *extras["s3"], *extras["tls"]]:
        requirement = Requirement(text)
        assert requirement.specifier.contains(found[canonicalize_name(requirement.name)]), text
    assert not set(found) & {"pip", "pytest", "distforest"}


def test_the_builder_is_pinned_too() -> None:
    found = pinned("build-requirements.txt")
    for text in tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]:
        requirement = Requirement(text)
        assert requirement.specifier.contains(found[requirement.name]), text


def test_the_image_has_the_version_that_it_is_called_by() -> None:
    (default,) = instructions("ARG")
    assert re.fullmatch(r"VERSION=\d+\.\d+\.\d+", default)
    version = default.removeprefix("VERSION=")
    assert any('SETUPTOOLS_SCM_PRETEND_VERSION="$VERSION" pip wheel' in " ".join(line.split()) for line in LINES)
    files = [ROOT / "docker-compose.yml", *(ROOT / "deploy").rglob("*.y*ml"), ROOT / "deploy" / "Dockerfile"]
    called = {name for file in files for name in re.findall(r"\bdistforest:(\S+)", file.read_text())}
    assert called == {version, f"${{DISTFOREST_VERSION:-{version}}}"}
    build = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["x-process"]["build"]
    assert build["args"] == {"VERSION": f"${{DISTFOREST_VERSION:-{version}}}"}


def test_pip_takes_nothing_but_what_is_pinned() -> None:
    installs = [line for line in instructions("RUN") if line.startswith("pip") and " install " in line]
    assert len(installs) == 3
    assert all("--requirement" in line or "--no-index" in line for line in installs)


def test_what_is_copied_reaches_the_builder_and_nothing_else_does() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert lines[0] == "*"
    kept = {line[1:] for line in lines if line.startswith("!")}
    copied = [shlex.split(line)[:-1] for line in instructions("COPY") if not line.startswith("--from")]
    assert {name for names in copied for name in names} == kept
    assert all((ROOT / name).exists() for name in kept)
    assert any(fnmatch("distforest/growth/__pycache__", pattern) for pattern in lines)


def test_the_places_that_are_written_to_belong_to_the_user() -> None:
    made = " ".join(instructions("RUN"))
    assert "install -d -o 10001 -g 10001 -m 0750 /data /scratch" in made
    said = from_image()
    assert {said[name].split("/")[1] for name in ("NUMBA_CACHE_DIR", "DISTFOREST_SCRATCH")} == {"scratch"}
