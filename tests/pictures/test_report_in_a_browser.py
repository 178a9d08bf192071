"""The report in a real browser: it asks for nothing, fits a phone, and can be read in light and dark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from distforest import SMERF
from distforest.pictures.report import report_page
from tests.service.browser import MISSING, Browser, browsing

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]

LIGHT_OF = """
const shade = colour => {
  const linear = share => share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  const [r, g, b] = colour.match(/[\\d.]+/g).map(value => linear(value / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (one, other) => {
  const [a, b] = [shade(one), shade(other)].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
};
"""
TEXTS = """
const paper = getComputedStyle(document.body).backgroundColor;
const found = [];
for (const element of document.querySelectorAll("h1, h2, p, dt, dd, th, td, pre, code, span:not(.bar)")) {
  const own = getComputedStyle(element.closest("pre") || document.body).backgroundColor;
  found.push(contrast(getComputedStyle(element).color, own));
}
return Math.min(...found);
"""
SHAPES = """
const paper = getComputedStyle(document.body).backgroundColor;
const own = document.querySelectorAll("svg [style*='var(--accent)'], svg [style*='currentColor']");
return Math.min(...[...own].map(shape => {
  const style = getComputedStyle(shape);
  return contrast(["", "none"].includes(shape.style.fill) ? style.stroke : style.fill, paper);
}));
"""

LETTERS = """
const texts = [...document.querySelectorAll("p, td, th, dd, pre")];
const scaled = [...document.querySelectorAll("svg text")].map(text => {
  const { c, d } = text.getScreenCTM();
  return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(c, d);
});
return Math.min(...scaled, ...texts.map(element => parseFloat(getComputedStyle(element).fontSize)));
"""


class Counting(BaseHTTPRequestHandler):
    """Answers the page, and remembers what was asked for."""

    page: ClassVar[bytes] = b""
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200 if self.path == "/report.html" else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.page if self.path == "/report.html" else b"")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a report on a small forest, with features of long names."""
    folder = tmp_path_factory.mktemp("report")
    X, y = np.random.default_rng(0).normal(size=(60, 4)), np.repeat([0, 1, 2], 20)
    X[:, 0] += 2 * y
    forest = SMERF(20, random_state=0).fit(X, y)
    forest.feature_names_in_ = np.array(["short", "a" * 90, "several words of a name " * 4, "b"], object)
    forest.save(folder / "a.zarr")
    Counting.page = report_page(f"{folder}/a.zarr", truth=y)[0].encode()
    with ThreadingHTTPServer(("127.0.0.1", 0), Counting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/report.html"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as running:
        yield running


@pytest.mark.parametrize(("width", "dark"), [*product((1280, 390), (False, True))])
def test_it_is_read_on_any_screen(browser: Browser, address: str, tmp_path: Path, width: int, dark: bool) -> None:
    browser.resize(width, 900, dark=dark)
    Counting.asked.clear()
    browser.open(address)
    assert Counting.asked == ["/report.html"]
    assert (
        browser.run("return performance.getEntriesByType('resource').filter(e => !e.name.startsWith('data:')).length")
        == 0
    )
    assert browser.complaints() == []
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run("return document.querySelectorAll('svg image').length") >= 1
    assert browser.run(LIGHT_OF + TEXTS) >= 4.5  # WCAG 2, level AA
    assert browser.run(LIGHT_OF + SHAPES) >= 3.0
    background = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(20, 24, 22)") == dark
    assert browser.run("return [...document.querySelectorAll('svg')].every(s => s.ariaLabel && s.role)")
    assert browser.run(LETTERS) >= 13
    assert len(browser.picture(tmp_path / "a.png")) > 20_000


def test_it_is_read_without_a_network_and_scripts(browser: Browser, address: str, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_bytes(Counting.page)
    browser.scripts(run=False)
    browser.offline(gone=True)
    try:
        browser.open(f"file://{tmp_path}/a.html")
        text = browser.seen()
    finally:
        browser.offline(gone=False)
        browser.scripts(run=True)
    for heading in ("Error out of bag", "ROC of pairs out of bag", "Importances", "Proximity by cluster"):
        assert heading in text
    assert browser.protocol("Page.printToPDF", printBackground=True)["data"]
