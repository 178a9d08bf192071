"""The documentation: what its pages tell their reader to do is done, as the reader would do it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pages import ROOT, blocks, commands, reader

DOCS = ROOT / "docs"
PAGES = {
    path.relative_to(DOCS).as_posix(): path.read_text()
    for path in sorted(DOCS.rglob("*.md"))
    if not path.relative_to(DOCS).parts[0].startswith(("_", "gallery"))
}
JOURNEY = ("start/own-csv.md", "start/jobs.md")
"""Pages of which each goes on where the last one ended."""

SLOW = {"start/index.md", "which-method.md"}
"""Pages that take more than ten seconds."""

ALONE = [
    pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW or name.startswith("learn/")))
    for name, text in PAGES.items()
    if name not in JOURNEY and any(block.language in {"python", "console"} for block in blocks(text))
]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def test_there_are_pages_that_are_followed() -> None:
    assert {"one-tree.md", *JOURNEY} <= set(PAGES)


@pytest.mark.parametrize("name", ALONE)
def test_what_a_page_says_is_so(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with reader(tmp_path) as own:
        assert own.follow(DOCS / name) > 0


@pytest.mark.slow
@pytest.mark.cluster
def test_the_way_from_a_table_to_a_cluster(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with reader(tmp_path) as own:
        for name in JOURNEY:
            assert own.follow(DOCS / name) > 5


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere_in_plain_files(name: str) -> None:
    for link in LINK.findall(re.sub(r"```.*?```", "", PAGES[name], flags=re.DOTALL)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (DOCS / name).parent / path if path else DOCS / name
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target.read_text()), link


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page, as a git host and the site make them."""
    heads = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def test_a_transcript_is_read() -> None:
    text = "$ one \\\n>   --two\nthree\n\n$ four &\n$ five  # six\n"
    assert commands(text) == [("one --two", "three\n\n"), ("four &", ""), ("five", "")]


def test_a_file_is_known_by_the_line_above_it() -> None:
    text = "Save this as `job.toml`:\n\n```toml\na = 1\n```\n\nLike `that.toml`:\n\n```toml\na = 2\n```\n"
    assert [(block.saved, block.text, block.line) for block in blocks(text)] == [
        ("job.toml", "a = 1\n", 3),
        (None, "a = 2\n", 9),
    ]


def test_a_page_that_is_wrong_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    with reader(tmp_path) as own:
        page.write_text("```console\n$ echo one\ntwo\n```\n")
        with pytest.raises(AssertionError, match=r"page.md:1: echo one"):
            own.follow(page)
        page.write_text("```console\n$ false\n```\n")
        with pytest.raises(AssertionError, match="false"):
            own.follow(page)
        page.write_text("```python\n>>> a = 1\n\n```\n\n```python\n>>> a\n2\n\n```\n")
        with pytest.raises(AssertionError, match="Expected"):
            own.follow(page)
        page.write_text("```python\nraise ValueError(a)\n```\n")
        with pytest.raises(ValueError, match="1"):
            own.follow(page)
