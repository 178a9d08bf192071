"""The formulas of the pages: the site can draw each, and a slip is seen in seconds, without a build of the site."""

from __future__ import annotations

import re
import sys

import pytest

from tests.pages import ROOT

pytest.importorskip("matplotlib")
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
from outlines import on_its_own_line, outline

FENCED = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
DISPLAYED = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
INLINE = re.compile(r"\$([^$]+)\$")


def formulas(text: str) -> tuple[list[str], list[str]]:
    """Give the formulas of a page: those on lines of their own, and those within lines."""
    text = CODE.sub("", FENCED.sub("", text))
    in_lines = DISPLAYED.sub("", text)
    assert in_lines.count("$") % 2 == 0, "a dollar belongs to a formula, or to code between backquotes"
    return DISPLAYED.findall(text), INLINE.findall(in_lines)


FORMULAS = {
    path.relative_to(ROOT).as_posix(): found
    for path in [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
    if any(found := formulas(path.read_text()))
}


def test_pages_on_methods_have_formulas() -> None:
    assert {f"docs/learn/{page}.md" for page in ("smerf", "simforest", "urerf", "rfd", "treerank")} <= set(FORMULAS)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMULAS)
def test_the_site_can_draw_the_formulas_of_a_page(name: str) -> None:
    displayed, in_lines = FORMULAS[name]
    for formula in displayed:
        assert "<path" in on_its_own_line(formula), formula
    for formula in in_lines:
        assert "<path" in outline(formula), formula


def test_a_formula_that_cannot_be_drawn_is_an_error() -> None:
    with pytest.raises(ValueError, match="frac13"):
        on_its_own_line(r"b = \frac13 \sum a_c^2")
    with pytest.raises(ValueError, match="unknown"):
        outline(r"\unknown x")


def test_dollars_in_code_are_no_formulas() -> None:
    page = "Costs `$5` or ``$6 `` a day; $x$\n\n```console\n$ ls $HOME\n```\n\n$$y\n+ 1$$\n"
    assert formulas(page) == (["y\n+ 1"], ["x"])
