"""The documentation: what its pages tell their reader to do is done, as the reader would do it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from distforest.checks.table import CHECKS
from distforest.command_line.commands import CODES, STATE_CODES
from distforest.growth.methods import METHODS
from distforest.kernel_cache import FOLDER
from distforest.service import dask_setup
from distforest.service.whereabouts import ADDRESS_FILE, JOB_ROOT, SCHEDULER_ADDRESS
from tests.pages import ROOT, blocks, commands, reader

DOCS = ROOT / "docs"
OFFLINE = ROOT / ".ci" / "offline.py"
PAGES = {
    path.relative_to(DOCS).as_posix(): path.read_text()
    for path in sorted(DOCS.rglob("*.md"))
    if not path.relative_to(DOCS).parts[0].startswith("_")
}
JOURNEY = ("start/own-csv.md", "start/jobs.md")
"""Pages of which each goes on where the last one ended."""

MARKS = {
    "start/index.md": [pytest.mark.slow, pytest.mark.cluster],
    "which-method.md": [pytest.mark.slow],
    "how-to/matrix.md": [pytest.mark.slow, pytest.mark.cluster],
    "how-to/own-function.md": [pytest.mark.slow, pytest.mark.cluster],
    "how-to/pairs.md": [pytest.mark.slow, pytest.mark.cluster],
    "how-to/parameters.md": [pytest.mark.slow],
    "how-to/retrieval.md": [pytest.mark.slow, pytest.mark.cluster],
    "how-to/scoring.md": [pytest.mark.slow, pytest.mark.cluster],
    "how-to/submit.md": [pytest.mark.slow, pytest.mark.cluster],
    "reference/doctor.md": [pytest.mark.slow, pytest.mark.cluster],
}
NEEDED = {"how-to/export.md": "onnxruntime"}
"""Packages that pages need beside matplotlib."""

ALONE = [
    pytest.param(name, marks=MARKS.get(name, []))
    for name, text in PAGES.items()
    if name not in JOURNEY and any(block.language in {"python", "console"} for block in blocks(text))
]
TYPED = re.compile(r"^\$ (?:.*\\\n)*.*", re.MULTILINE)
"""A command of a transcript, with the lines on which it goes on."""

WIDTH = 96
"""Characters of a line of code that a page shows between both columns in a window of 1,280 pixels."""

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def test_there_are_pages_that_are_followed() -> None:
    assert {"one-tree.md", *JOURNEY} <= set(PAGES)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALONE)
def test_what_a_page_says_is_so(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip(NEEDED.get(name, "matplotlib"))
    with reader(tmp_path) as own:
        assert own.follow(DOCS / name) > 0


@pytest.mark.slow
@pytest.mark.cluster
def test_the_way_from_a_table_to_a_cluster(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with reader(tmp_path, types_alone=True) as own:
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


@pytest.mark.parametrize("name", sorted(set(PAGES) - {"reference/api.md"}))
def test_what_is_typed_is_seen_without_scrolling(name: str) -> None:
    for block in blocks(PAGES[name]):
        assert not block.text.endswith("\n\n"), f"an empty line ends the block of line {block.line}"
        typed = TYPED.findall(block.text) if block.language == "console" else [block.text]
        lines = [line for text in typed for line in text.splitlines()]
        if block.language in {"", "console", "toml", "json"}:
            assert [line for line in lines if len(line) > WIDTH] == []


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


def test_the_exit_codes_are_those_of_the_program() -> None:
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGES["reference/exit-codes.md"], re.MULTILINE)}
    assert told == {0, 1, *(code for _, code in CODES), *STATE_CODES.values()}


def test_the_variables_are_those_that_are_read() -> None:
    told = set(re.findall(r"^\| `(\w+)`", PAGES["reference/environment.md"], re.MULTILINE))
    options = {option.envvar for option in dask_setup.params if isinstance(option, click.Option)}
    assert told == {*options, "DISTFOREST_SCRATCH", FOLDER, SCHEDULER_ADDRESS, ADDRESS_FILE, JOB_ROOT}


def test_the_checks_are_those_that_run() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \| .+ \|$", PAGES["reference/checks.md"], re.MULTILINE)
    assert rows == [(code, known.suspects, known.reason) for code, known in CHECKS.items()]


def test_every_method_has_a_page() -> None:
    assert {f"learn/{name}.md" for name in METHODS if name != "isolation"} <= set(PAGES)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('<link rel="stylesheet" href="https://fonts.example/a.css">', True),
        ('<script src="//cdn.example/a.js"></script>', True),
        ('<img srcset="a.png 1x, https://example.org/b.png 2x">', True),
        ("<style>@import 'https://example.org/a.css'; b { c: url(https://example.org/d.woff) }</style>", True),
        ('<p style="background: url(http://example.org/a.png)">', True),
        ('<iframe src="http://example.org">', True),
        ('<a href="https://example.org">', False),
        (
            '<link rel="canonical" href="https://example.org/a.html"><img src="a.png"><script>"https://a"</script>',
            False,
        ),
    ],
)
def test_what_a_page_loads_from_elsewhere_is_found(text: str, found: bool, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(text)
    ran = subprocess.run([sys.executable, OFFLINE, tmp_path], capture_output=True, text=True, check=False)
    assert ran.returncode == found, ran.stdout


def test_a_site_without_pages_is_no_site(tmp_path: Path) -> None:
    assert subprocess.run([sys.executable, OFFLINE, tmp_path], capture_output=True, check=False).returncode == 1
