"""The pages in a real browser: a job is watched from queued to done, and nothing that a job says is run."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.service.browser import MISSING, Browser, browsing
from tests.service.page_server import PlayedService, Served, job_of, result_of

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(MISSING), reason=MISSING), pytest.mark.slow]

HOSTILE = "<img src=x onerror=\"document.title='run'\">"
LONG = "a-name-of-64-letters-without-any-place-at-which-it-could-be-cut0"
STATE, FAR, NOTICE = ".lead .badge", ".far p", "#notice"


@pytest.fixture(scope="module")
def started() -> Iterator[Browser]:
    with browsing() as running:
        yield running


@pytest.fixture
def browser(started: Browser) -> Browser:
    """A browser as wide as a desk's, that has nothing to complain of yet."""
    started.resize(1280, 900)
    started.complaints()
    return started


@pytest.fixture
def service(served: Served) -> PlayedService:
    return served.play()


def look_again(browser: Browser) -> None:
    """Let the page ask now, as it does when its tab is looked at again."""
    browser.run("document.dispatchEvent(new Event('visibilitychange'))")


def say(text: str) -> object:
    """Whether an element says this."""
    return lambda found: text in " ".join(found.split())


def test_a_job_is_watched_from_queued_to_done(served: Served, service: PlayedService, browser: Browser) -> None:
    name = service.put(job_of(n_trees=16))
    service.happen(name, "submitted", "the job is accepted")
    browser.open(served.url("/distforest/jobs"))
    browser.wait_for("tbody tr", say("smerf-1 fit, smerf queued"))
    browser.run("document.querySelector('tbody a').click()")
    browser.wait_for(STATE, say("queued"))
    assert browser.run("return location.pathname") == "/distforest/jobs/smerf-1"
    browser.run("window.mark = 'the same page all along'")
    assert browser.run("return document.querySelectorAll('progress, svg').length") == 0

    service.change(name, state="WAITING_FOR_WORKERS", started=service.now())
    browser.wait_for(STATE, say("waiting for workers"))  # it asks by itself
    service.change(name, state="RUNNING", phase="grow", done=0, total=16, rate=0.0)
    look_again(browser)
    browser.wait_for(FAR, say("0 % 0 of 16 trees growing trees"))
    for first in range(0, 16, 4):
        service.commit(name, first, first + 3, seconds=1.0 + first)
        service.change(name, done=first + 4, rate=5.0, remaining=(12 - first) / 5)
        look_again(browser)
        browser.wait_for(FAR, say(f"{first + 4} of 16 trees growing trees 300 trees a minute"))
        assert browser.run("return document.querySelector('progress').value") == first + 4
        n_bars = browser.run("return [...document.querySelectorAll('svg')].map(svg => svg.children.length)")
        assert n_bars == ([first + 4] if first else [])  # trees of one task are alike, and so is all memory
    service.change(name, state="MERGING", phase="merge", done=1, total=2)
    look_again(browser)
    browser.wait_for(STATE, say("merging"))
    service.change(name, state="SUCCEEDED", phase=None, ended=service.now(), result=result_of(16))
    service.happen(name, "succeeded", "/data/x.forest.zarr is complete")
    look_again(browser)
    browser.wait_for(STATE, say("succeeded"))
    assert "9f" * 32 in browser.text("#result")
    assert browser.run("return document.title") == "succeeded · smerf-1 · distforest"
    assert browser.run("return window.mark") == "the same page all along"
    assert "/data/x.forest.zarr is complete" in browser.text(".events li")
    assert browser.complaints() == []


def test_an_error_comes_to_the_page_in_words(served: Served, service: PlayedService, browser: Browser) -> None:
    name = service.put(job_of(state="RUNNING", phase="grow", done=4, total=40, started=service.now()))
    browser.open(served.url("/distforest/jobs/smerf-1"))
    error = {"kind": "InputError", "message": "X has a row without a number\nMend it and resume the job"}
    service.change(name, state="FAILED", error=error, ended=service.now())
    browser.wait_for("#error", say("Why it failed X has a row without a number Mend it and resume the job"))
    service.change(name, state="QUEUED", error=None, ended=None)
    look_again(browser)
    browser.wait_for("#error", lambda text: not text)


def test_what_a_job_says_is_not_run(served: Served, service: PlayedService, browser: Browser) -> None:
    error = {"kind": HOSTILE, "message": HOSTILE}
    name = service.put(job_of(HOSTILE, state="FAILED", method=HOSTILE, output=HOSTILE, error=error, ended=2.0))
    service.happen(name, "failed", HOSTILE)
    for path in ("/distforest/jobs", f"/distforest/jobs/{quote(name, safe='')}", f"/distforest/jobs/{quote('<b>x')}"):
        browser.open(served.url(path))
        browser.run("window.asked = 0; const old = fetch; window.fetch = (...a) => (window.asked++, old(...a))")
        service.happen(name, "failed", HOSTILE)  # so that the script has something to put in
        look_again(browser)
        browser.run("return new Promise(done => setInterval(() => window.asked && done(1), 20))")
        browser.wait_for("main", bool)
        assert browser.run("return document.querySelectorAll('img, main script').length") == 0
        assert "distforest" in browser.run("return document.title")
    browser.open(served.url("/distforest/jobs"))
    assert HOSTILE in browser.text("tbody a")
    browser.run("document.querySelector('tbody a').click()")
    browser.wait_for("h1", say(HOSTILE))
    complaints = [line for line in browser.complaints() if "404" not in line]
    assert complaints == []


def test_the_policy_stops_a_script_that_got_in(served: Served, service: PlayedService, browser: Browser) -> None:
    browser.open(served.url("/distforest/jobs"))
    browser.run("document.querySelector('main').innerHTML = arguments[0]", HOSTILE)
    browser.wait_for("body", lambda _: any("Content Security Policy" in line for line in browser.complaints()))
    assert browser.run("return document.title") == "Jobs · distforest"


def test_a_scheduler_that_is_gone_is_noticed(served: Served, service: PlayedService, browser: Browser) -> None:
    service.put(job_of())
    browser.open(served.url("/distforest/jobs"))
    assert browser.text(NOTICE) == ""
    browser.offline(True)
    try:
        look_again(browser)
        browser.wait_for(NOTICE, say("No answer since"))
        assert "smerf-1" in browser.text("tbody")
    finally:
        browser.offline(False)
    service.put(job_of("smerf-2"))
    browser.wait_for("tbody", say("smerf-2"))
    browser.wait_for(NOTICE, lambda text: not text)


def test_a_reader_is_not_disturbed(served: Served, service: PlayedService, browser: Browser) -> None:
    for number in range(3):
        service.put(job_of(f"old-{number}", submitted=service.now() - 100 - number))
    browser.open(served.url("/distforest/jobs"))
    browser.run("window.mine = document.querySelectorAll('tbody a')[1]; window.mine.focus()")
    service.put(job_of("new", submitted=service.now()))
    del service.jobs["old-0"]
    look_again(browser)
    browser.wait_for("tbody", say("new"))
    rows = browser.run("return [...document.querySelectorAll('tbody a')].map(link => link.textContent)")
    assert rows == ["new", "old-1", "old-2"]
    assert browser.run("return document.activeElement === window.mine && window.mine.textContent") == "old-1"


MIXED = """
const random = (below) => (window.state = (window.state * 48271) % 2147483647) % below;
const mixed = (depth) => {
  const element = document.createElement(["p", "ul", "b"][random(3)]);
  if (random(2)) element.className = "c" + random(3);
  if (random(3)) element.title = "t" + random(3);
  const keys = ["a", "b", "c", "d", "e"].sort(() => random(3) - 1).slice(0, random(6));
  for (let n = random(5); depth && n > 0; n -= 1) element.append(random(2) ? "text " + random(4) : mixed(depth - 1));
  for (const key of keys) {
    const child = depth ? mixed(depth - 1) : document.createElement("i");
    child.dataset.key = key;
    element.insertBefore(child, element.childNodes[random(element.childNodes.length + 1)] ?? null);
  }
  return element;
};
window.state = arguments[0];
for (let n = 0; n < 120; n += 1) {
  const [here, there] = [document.createElement("div"), document.createElement("div")];
  here.append(mixed(3));
  there.append(mixed(3));
  const asked = there.cloneNode(true);
  put(here, there);
  if (!here.isEqualNode(asked)) return here.outerHTML + " is not " + asked.outerHTML;
}
return "alike";
"""


def test_what_is_put_in_is_what_was_sent(served: Served, service: PlayedService, browser: Browser) -> None:
    browser.open(served.url("/distforest/jobs"))
    assert browser.run(MIXED, 20261122) == "alike"


def test_a_page_can_be_read_without_its_script(served: Served, service: PlayedService, browser: Browser) -> None:
    service.put(job_of(state="RUNNING", phase="grow", done=8, total=40, started=service.now()))
    service.commit("smerf-1", 0, 7)
    browser.scripts(False)
    try:
        browser.open(served.url("/distforest/jobs/smerf-1"))
        text = browser.seen()
    finally:
        browser.scripts(True)
    for said in ("running", "8 of 40 trees", "Seconds per tree", "this page stands still"):
        assert said in text


@pytest.mark.parametrize("width", [1280, 390, 320])
def test_nothing_is_wider_than_the_screen(
    served: Served, service: PlayedService, browser: Browser, width: int, tmp_path: Path
) -> None:
    error = {"kind": "JobError", "message": f"s3://{'a' * 300} cannot be read"}
    service.put(job_of(LONG, state="FAILED", phase="grow", done=9, total=40, output="/x" * 200, error=error))
    service.commit(LONG, 0, 7)
    service.happen(LONG, "lost", f"worker tls://{'b' * 90} was lost")
    for path in ("/distforest/jobs", f"/distforest/jobs/{LONG}", "/distforest/jobs/none"):
        browser.resize(width, 844)
        browser.open(served.url(path))
        assert browser.run("return document.documentElement.scrollWidth") <= width, path
        picture = browser.picture(tmp_path / "page.png")
        assert struct.unpack(">I", picture[16:20])[0] <= width


def test_what_is_drawn_has_words(served: Served, service: PlayedService, browser: Browser) -> None:
    service.put(job_of(state="RUNNING", phase="grow", done=8, total=40, started=service.now()))
    service.commit("smerf-1", 0, 3)
    service.commit("smerf-1", 4, 7, seconds=1.6)
    browser.resize(390, 844)  # where a row becomes a card, it still is a row of a table
    for path, roles in {
        "/distforest/jobs": {"table", "row", "columnheader", "rowheader", "cell", "progressbar"},
        "/distforest/jobs/smerf-1": {"heading", "progressbar", "image", "status"},
    }.items():
        browser.open(served.url(path))
        tree = browser.protocol("Accessibility.getFullAXTree")["nodes"]
        found = {node["role"]["value"]: node.get("name", {}).get("value", "") for node in tree if not node["ignored"]}
        assert roles <= {"image" if role == "img" else role for role in found}
        for role in {"progressbar", "image", "img"} & set(found):
            assert found[role]
