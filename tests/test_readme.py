"""README's snippets, as they stand: each runs alone, its commands and options are there, and its specs are specs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
from distributed.cli.dask_scheduler import main as dask_scheduler

from distforest.command_line.cli import main
from distforest.jobs.any_spec import spec_from_dict
from distforest.jobs.reader import read_toml
from distforest.jobs.spec import Spec
from distforest.kernel_cache import FOLDER, kernel_folder
from distforest.service import dask_setup

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
PYTHON = [text for language, text in BLOCKS if language == "python"]
SHELL = [line for language, text in BLOCKS if language == "" for line in text.splitlines()]
INLINE = re.findall(r"`(distforest [^`]+)`", TEXT)


def commands(lines: list[str]) -> list[list[str]]:
    """The words of each command of some lines, without comments; a program goes by its name, wherever it lies."""
    parts = [shlex.split(part, comments=True) for line in lines for part in line.split("&&")]
    return [[program.rpartition("/")[2], *words] for program, *words in parts]


def parse(words: list[str]) -> None:
    """Parse the words of a command; raises click's error for what there is not."""
    context = click.Context(main)
    name, command, rest = main.resolve_command(context, list(words))
    assert command is not None
    command.make_context(name, rest, parent=context)


@pytest.mark.slow
@pytest.mark.parametrize("snippet", PYTHON)
def test_a_python_snippet_runs_alone(snippet: str, tmp_path: Path) -> None:
    (tmp_path / "snippet.py").write_text(snippet)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "snippet.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(tmp_path), FOLDER: str(kernel_folder())},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_every_block_is_of_a_kind_that_is_tested() -> None:
    assert {language for language, _ in BLOCKS} == {"python", "toml", ""}
    assert len(PYTHON) == 3
    programs = {command[0] for command in commands(SHELL)}
    assert programs == {"python3", "pip", "pytest", "distforest", "dask"}


@pytest.mark.parametrize(
    "words", [own[1:] for own in commands([*SHELL, *INLINE]) if own[0] == "distforest"], ids=" ".join
)
def test_a_command_has_these_options(words: list[str]) -> None:
    parse(words)


def test_options_that_comments_name_are_there() -> None:
    for line in SHELL:
        words, _, comment = line.partition("#")
        for option in re.findall(r"--[\w-]+", comment):
            known = main.commands[words.split()[1]].params
            assert option in {name for parameter in known for name in parameter.opts}, line


def test_a_command_that_there_is_not_would_be_seen() -> None:
    with pytest.raises(click.NoSuchOption, match="--plots"):
        parse(["inspect", "f.zarr", "--plots", "p.png"])
    with pytest.raises(click.UsageError, match="'inspects'"):
        parse(["inspects", "f.zarr"])


def test_the_scheduler_takes_these_options() -> None:
    ((_, name, *words),) = [own for own in commands(SHELL) if own[0] == "dask"]
    assert name == "scheduler"
    context = dask_scheduler.make_context("dask scheduler", words)
    assert context.params["preload"] == ("distforest.service",)
    assert dask_setup.make_context("distforest.service", list(context.params["preload_argv"])).params["job_root"]


def test_specs_are_specs() -> None:
    specs: list[Any] = [spec_from_dict(*read_toml(text)) for language, text in BLOCKS if language == "toml"]
    assert [spec.method for spec in specs if isinstance(spec, Spec)] == ["smerf"]


def test_what_is_to_be_installed_and_run_is_there() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = set(re.findall(r'"\.\[(\w+)\]"', TEXT))
    assert asked == {"plot", "test", "examples"}
    assert asked <= set(extras)
    named = re.findall(r"[\w/-]+\.(?:py|md|txt)\b", TEXT)
    assert "examples/dna_edit_distance.py" in named
    assert [path for path in named if not (ROOT / path).exists()] == []
