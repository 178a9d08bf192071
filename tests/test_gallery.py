"""The gallery: what a script must have beside what it draws. ``.ci/docs`` runs the scripts, so nothing here does."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.pages import ROOT

sys.path.insert(0, str(ROOT / "docs" / "_ext"))
from alt_texts import words_of

GALLERY = ROOT / "docs" / "gallery"
SCRIPTS = {path.relative_to(GALLERY).as_posix(): path for path in sorted(GALLERY.rglob("*.py"))}
PAPERS = [name for name in SCRIPTS if name.startswith("papers/")]
METHODS = {"rfd", "simforest", "smerf", "treerank", "urerf"}
SOURCE = re.compile(r"^:Source: \S", re.MULTILINE)
SMALLER = re.compile(r"^:Smaller here: \S", re.MULTILINE)
DATA = re.compile(r'ROOT((?: / "[\w.-]+")+)')


def test_each_paper_has_a_page() -> None:
    assert {Path(name).stem for name in PAPERS} == METHODS
    assert sum(name.startswith("cases/") for name in SCRIPTS) >= 6


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_says_where_its_data_and_its_figures_come_from(name: str) -> None:
    text = ast.get_docstring(ast.parse(SCRIPTS[name].read_text())) or ""
    title, line, *_ = text.splitlines()
    assert len(line) >= len(title)
    assert set(line) == {"="}
    assert SOURCE.search(text)
    assert not re.search(r"^[^\s:].*\n +\S", text, re.MULTILINE), "an indented line makes the one above it a term"


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_draws_and_imports_what_there_is(name: str) -> None:
    source = SCRIPTS[name].read_text()
    assert "plt.show()" in source
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "distforest":
            assert node.module is not None
            module = import_module(node.module)
            assert [own.name for own in node.names if not hasattr(module, own.name)] == []


@pytest.mark.parametrize("name", [name for name in SCRIPTS if "/" in name])
def test_a_page_says_what_it_means_and_where_it_fails(name: str) -> None:
    source = SCRIPTS[name].read_text()
    assert "# What it means\n# ---" in source
    assert "# Where it fails\n# ---" in source


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_s_page_says_what_is_smaller_and_how_to_run_it_in_full(name: str) -> None:
    source = SCRIPTS[name].read_text()
    text = ast.get_docstring(ast.parse(source)) or ""
    assert SMALLER.search(text)
    assert f"python docs/gallery/{name} --full" in " ".join(text.split())
    assert 'FULL = "--full" in sys.argv[1:]' in source


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_files_that_a_script_names_are_there(name: str) -> None:
    source = SCRIPTS[name].read_text()
    for parts in DATA.findall(source):
        assert ROOT.joinpath(*re.findall(r'"([\w.-]+)"', parts)).exists()
    for path in re.findall(r"``((?:docs|examples|benchmarks|distforest)/[\w./]+)``", source):
        assert (ROOT / path).exists()


def test_a_picture_is_told_in_words() -> None:
    figures = pytest.importorskip("matplotlib.figure")
    figure = figures.Figure()
    left, right = figure.subplots(1, 2)
    left.plot([0, 1], label="SMERF")
    left.plot([1, 0], label='"chance"')
    left.set(title="Links", xlabel="share\nof all", ylabel="area")
    left.legend()
    right.set(ylabel="colours")
    assert words_of(figure) == "Links: area against share of all: SMERF, 'chance'; colours"
    figure.suptitle("Both")
    assert words_of(figure).startswith("Both; Links")


@pytest.mark.slow
def test_a_script_is_executed_again_when_it_or_its_data_have_changed(tmp_path: Path) -> None:
    page, picture, data = "docs/gallery/papers/a.py", "docs/gallery/b.py", "examples/data/c.npz"
    for name in (page, picture, data, ".ci/executed.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    shutil.copy(ROOT / ".ci" / "executed.py", tmp_path / ".ci")

    def run(*words: str) -> str:
        command = [sys.executable, str(tmp_path / ".ci/executed.py"), *words]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    def executed() -> set[str]:
        return {name for name in (page, picture) if re.search(run(), str(tmp_path / name))}

    run("--write")
    assert executed() == {picture}
    (tmp_path / page).write_text("changed")
    assert executed() == {page, picture}
    run("--write")
    assert executed() == {picture}
    (tmp_path / data).write_text("changed")
    assert executed() == {page, picture}
