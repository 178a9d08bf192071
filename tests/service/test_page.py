"""The pages over HTTP: what is answered, to whom, and that nothing of a job becomes a part of the page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, urljoin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CONTENT_TYPE_LATEST

from distforest.service import page
from tests.service.page_server import Answer, PlayedService, Served, job_of, result_of, serving

FOLDER = Path(page.__file__).parent
HOSTILE = '"><img src=x onerror="alert(1)">&amp;\'<script>alert(2)</script>'
PAGES = ("/distforest/jobs", "/distforest/jobs/smerf-1")
JSON = (
    "/distforest/jobs.json",
    "/distforest/jobs/smerf-1.json",
    "/distforest/jobs/smerf-1/events.json",
    "/distforest/health",
)
FILES = ("/distforest/page/style.css", "/distforest/page/watch.js", "/distforest/page/icon.svg")
EVERYWHERE = (*PAGES, *JSON, *FILES, "/distforest/metrics")
REFUSED = ("/distforest/jobs/none", "/distforest/jobs/none.json", "/distforest/page/none", "/distforest/jobs?skip=x")


@pytest.fixture
def service(served: Served) -> PlayedService:
    """A service with one job that has got somewhere."""
    played = served.play()
    played.put(job_of(state="RUNNING", phase="grow", done=8, total=40, rate=2.0, remaining=16.0, started=played.now()))
    played.happen("smerf-1", "running", "5 tasks are sent")
    played.commit("smerf-1", 0, 7)
    return played


class Document(HTMLParser):
    """A page as a browser reads it: its elements, its words, and its links."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(answer.text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def found(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def links(self) -> list[str]:
        return [str(a[key]) for _, a in self.elements for key in ("href", "src") if key in a]


def shape(document: Document) -> list[str]:
    return [tag for tag, _ in document.elements]


# --- who may ask what -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", EVERYWHERE)
def test_all_can_be_read_and_nothing_changed(served: Served, service: PlayedService, path: str) -> None:
    answer = served.ask(path)
    assert answer.status == 200
    head = served.ask(path, "HEAD")
    assert (head.status, head.body, head.headers["Content-Type"]) == (200, b"", answer.headers["Content-Type"])
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        refused = served.ask(path, method)
        assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("path", [*EVERYWHERE, *REFUSED])
def test_a_browser_is_told_to_be_strict(served: Served, service: PlayedService, path: str) -> None:
    headers = served.ask(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/distforest/jobs/none", 404, "'none'"),
        ("/distforest/jobs/none.json", 404, "'none'"),
        ("/distforest/jobs/none/events.json", 404, "'none'"),
        ("/distforest/page/__init__.py", 404, "no such file"),
        ("/distforest/page/..%2Fpolicy.py", 404, "no such file"),
        ("/distforest/jobs?skip=-1", 400, "skip .*'-1'"),
        ("/distforest/jobs/smerf-1/events.json?after=1e3", 400, "after .*'1e3'"),
        ("/distforest/jobs/smerf-1/events.json?after=9999999999999999", 400, "after "),
    ],
)
def test_refusals_say_why(served: Served, service: PlayedService, path: str, status: int, said: str) -> None:
    answer = served.ask(path)
    assert answer.status == status
    if "json" in answer.headers["Content-Type"]:
        error = answer.json["error"]
        assert re.search(said, error["message"])
        assert error["faults"] == [error["message"]]
    else:
        assert re.search(said, Document(answer).text)


def test_a_job_that_is_removed_while_it_is_shown(served: Served, service: PlayedService) -> None:
    del service.happened["smerf-1"]
    for path in ("/distforest/jobs/smerf-1", "/distforest/jobs/smerf-1/events.json"):
        assert served.ask(path).status == 404


def test_a_fault_of_ours_is_not_shown_to_the_world(
    served: Served, service: PlayedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> list[object]:
        raise RuntimeError("s3://key:secret@bucket")

    monkeypatch.setattr(service, "events", broken)
    monkeypatch.setattr(service, "metrics", broken)
    for path in ("/distforest/jobs/smerf-1", "/distforest/jobs/smerf-1/events.json", "/distforest/metrics"):
        answer = served.ask(path)
        assert answer.status == 500
        assert "s log" in answer.text
        assert "secret" not in answer.text


def test_a_page_that_has_not_changed_is_not_sent_again(served: Served, service: PlayedService) -> None:
    version = served.ask("/distforest/jobs.json").headers["Etag"]
    assert served.ask("/distforest/jobs.json", headers={"If-None-Match": version}).status == 304
    service.change("smerf-1", done=16)
    assert served.ask("/distforest/jobs.json", headers={"If-None-Match": version}).status == 200


def test_a_job_leads_to_the_report_on_its_forest(served: Served, service: PlayedService) -> None:
    assert 'report"' not in served.ask("/distforest/jobs/smerf-1").text
    refused = served.ask("/distforest/jobs/smerf-1/report")
    assert refused.status == 409
    assert "smerf-1 has no forest" in refused.text
    service.change("smerf-1", state="SUCCEEDED", result=result_of(40), ended=service.now())
    assert '<a href="smerf-1/report">' in served.ask("/distforest/jobs/smerf-1").text
    answer = served.ask("/distforest/jobs/smerf-1/report")
    assert (answer.status, "9f" * 32 in answer.text) == (200, True)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy  # so that the default holds
    assert served.ask("/distforest/jobs/nothing/report").status == 404


# --- the same data, for programs --------------------------------------------------------------------------


def test_json_is_what_the_service_says(served: Served, service: PlayedService) -> None:
    assert served.ask("/distforest/jobs.json").json == {"service": service.about(), "jobs": service.listed()}
    assert served.ask("/distforest/jobs/smerf-1.json").json == {"job": service.job("smerf-1")}
    whole = served.ask("/distforest/jobs/smerf-1/events.json").json
    assert whole == {"job": service.job("smerf-1"), "events": service.happened["smerf-1"]}
    assert [event["n"] for event in served.ask("/distforest/jobs/smerf-1/events.json?after=1").json["events"]] == [2]


def test_health(served: Served, service: PlayedService) -> None:
    answer = served.ask("/distforest/health")
    assert (answer.status, answer.json["status"], answer.json["jobs"]) == (200, "ok", {"RUNNING": 1})
    service.failure = "cannot write to s3://key:secret@bucket/jobs/service.json?token=hidden: no such bucket"
    failed = served.ask("/distforest/health")
    assert (failed.status, failed.json["status"]) == (503, "failed")
    assert failed.json["reason"] == "cannot write to s3://bucket/jobs/service.json: no such bucket"
    for told in (answer, failed):
        assert not re.search(r"secret|hidden|key:|127\.0\.0\.1|somewhere|pid", told.text)
        assert 4711 not in told.json.values()  # a process number, not digits of a time


def test_health_without_a_heartbeat(served: Served, service: PlayedService) -> None:
    service.told["heartbeat"] -= page.HEARTBEAT_PATIENCE + 60
    answer = served.ask("/distforest/health")
    assert (answer.status, "120.0" in answer.json["reason"]) == (503, True)


def test_a_scheduler_whose_service_has_not_started(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(served.scheduler.extensions, "distforest", raising=False)
    for path in EVERYWHERE:
        assert served.ask(path).status == (200 if path in FILES else 503)
    told = served.ask("/distforest/health").json
    assert (told["status"], [*told]) == ("failed", ["status", "reason"])


def test_metrics_over_http(served: Served, service: PlayedService) -> None:
    answer = served.ask("/distforest/metrics")
    assert (answer.headers["Content-Type"], answer.text) == (CONTENT_TYPE_LATEST, "distforest_workers 2.0\n")


# --- what a person reads ----------------------------------------------------------------------------------


def test_the_list(served: Served, service: PlayedService) -> None:
    error = {"kind": "JobError", "message": "trees 0 to 7 failed on three workers"}
    service.put(job_of("old", state="FAILED", submitted=service.now() - 7300, started=1.0, ended=2.0, error=error))
    document = Document(served.ask("/distforest/jobs"))
    rows = [a["data-key"] for a in document.found("tr") if "data-key" in a]
    assert rows == ["smerf-1", "old"]
    for said in ("running growing trees", "8 of 40 trees", "120 trees a minute", "16.00 s left", error["message"]):
        assert said in document.text
    assert "2 workers 4 threads" in document.text
    (bar,) = document.found("progress")
    assert (bar["value"], bar["max"], bar["aria-label"]) == ("8", "40", "Progress of smerf-1")
    assert [a["scope"] for a in document.found("th")] == ["col"] * 4 + ["row"] * 2


def test_the_list_and_the_page_name_the_owner(served: Served, service: PlayedService) -> None:
    service.put(job_of("hers", owner="<ada>"))
    assert "fit, smerf, by <ada>" in Document(served.ask("/distforest/jobs")).text
    assert "Owner <ada>" in Document(served.ask("/distforest/jobs/hers")).text
    service.put(job_of("grown", grown_by={"tcp://<a>:1": {"trees": 1200, "seconds": 3.21}}))
    assert "tcp://<a>:1 1,200 3.2" in Document(served.ask("/distforest/jobs/grown")).text


def test_the_list_names_silent_workers(served: Served, service: PlayedService) -> None:
    told = "worker tcp://10.0.0.2:4001 was last heard 14 s ago"
    assert told not in Document(served.ask("/distforest/jobs")).text
    service.told["silent"] = told
    assert told in Document(served.ask("/distforest/jobs")).text


def test_the_list_of_a_state(served: Served, service: PlayedService) -> None:
    service.put(job_of("other", state="FAILED"))
    document = Document(served.ask("/distforest/jobs?state=FAILED"))
    assert "img" not in shape(Document(served.ask(f"/distforest/jobs?state={quote(HOSTILE)}&skip=60")))
    assert [a["data-key"] for a in document.found("tr") if "data-key" in a] == ["other"]
    assert [a["href"] for a in document.found("a") if "aria-current" in a] == ["jobs?state=FAILED"]
    assert "No job is in this state" in Document(served.ask("/distforest/jobs?state=MERGING")).text


def test_a_long_list_is_leafed_through(served: Served) -> None:
    service = served.play()
    names = [f"job-{number:03}" for number in range(120)]
    for number, name in enumerate(names):
        service.put(job_of(name, submitted=service.now() - number))
    url, seen = served.url("/distforest/jobs?state=QUEUED"), []
    for _ in range(3):
        document = Document(served.ask(url.removeprefix(served.url(""))))
        seen.append([a["data-key"] for a in document.found("tr") if "data-key" in a])
        onwards = [a["href"] for a in document.found("a") if "skip=" in str(a["href"])]
        url = urljoin(url, str(onwards[-1]))
    assert [len(rows) for rows in seen] == [50, 50, 20]
    assert [name for rows in seen for name in rows] == names
    assert len(onwards) == 1  # there is nothing older than the oldest


def test_nothing_is_there_yet(served: Served) -> None:
    service = served.play()
    service.told["workers"] = 0
    text = Document(served.ask("/distforest/jobs")).text
    assert "No job yet" in text
    assert "distforest submit SPEC.toml --scheduler tcp://127.0.0.1:8786" in text
    assert "No worker is connected" in text


def test_a_service_that_has_failed_says_so_on_every_page(served: Served, service: PlayedService) -> None:
    service.failure = "the job root is read-only"
    for path in PAGES:
        assert "The service is not at work the job root is read-only" in Document(served.ask(path)).text


def test_a_job(served: Served, service: PlayedService) -> None:
    service.commit("smerf-1", 8, 15, seconds=1.6)
    service.happen("smerf-1", "lost", "worker tcp://x was lost", worker="tcp://x")
    document = Document(served.ask("/distforest/jobs/smerf-1"))
    for said in ("20 % 8 of 40 trees growing trees 120 trees a minute 16.00 s left", "/data/x.forest.zarr"):
        assert said in document.text
    assert [a["data-key"] for a in document.found("li")] == ["4", "3", "1"]
    assert "trees 8 to 15 are committed and 1 commit before" in document.text
    assert [a["class"] for a in document.found("li")] == ["loud", "", ""]
    assert "Peak memory of a worker 70.0 MiB" in document.text  # of all tasks, without bars
    assert len(document.found("svg")) == 1
    assert len(document.found("rect")) == 16
    assert "tree 15: 200.00 ms" in document.text


def test_a_long_job_tells_what_happened_last(served: Served, service: PlayedService) -> None:
    for tree in range(8, 40):
        for _ in range(8):
            service.commit("smerf-1", tree, tree)
    document = Document(served.ask("/distforest/jobs/smerf-1"))
    assert "What happened last" in document.text
    assert "trees 39 to 39 are committed and all commits before" in document.text
    assert len(document.found("li")) == 1


def test_a_job_that_failed_says_why_in_full(served: Served, service: PlayedService) -> None:
    error = {"kind": "JobError", "message": "a column is empty\n\nMend it, then: distforest resume smerf-1"}
    service.change("smerf-1", state="FAILED", error=error, ended=service.now())
    text = Document(served.ask("/distforest/jobs/smerf-1")).text
    assert "Why it failed a column is empty Mend it, then: distforest resume smerf-1" in text


def test_a_job_that_is_done_says_what_it_made(served: Served, service: PlayedService) -> None:
    service.change("smerf-1", state="SUCCEEDED", result=result_of(40), done=40, ended=service.now(), phase=None)
    text = Document(served.ask("/distforest/jobs/smerf-1")).text
    assert f"The result Forest /data/x.forest.zarr Digest {'9f' * 32} Trees 40" in text
    assert "100 % 40 of 40 trees" in text


def test_a_job_that_was_warned_of_something_says_so(served: Served, service: PlayedService) -> None:
    service.change("smerf-1", state="SUCCEEDED", warnings=["no tree has a split", "labels are many"], phase=None)
    service.happen("smerf-1", "warning", "warning: no tree has a split")
    page = Document(served.ask("/distforest/jobs/smerf-1"))
    assert "What is odd no tree has a split labels are many" in page.text
    assert page.found("li")[0]["class"] == "loud"
    assert "2 warnings" in Document(served.ask("/distforest/jobs")).text


def test_words_of_code_are_marked_and_escaped(served: Served, service: PlayedService) -> None:
    message = f"give `label`, not `{HOSTILE}`; one ` stays"
    error = {"kind": "SpecError", "message": message}
    service.change("smerf-1", state="FAILED", error=error, warnings=[message], ended=service.now())
    for path, n_times in (("/distforest/jobs", 1), ("/distforest/jobs/smerf-1", 2)):
        page = Document(served.ask(path))
        assert (len(page.found("code")), len(page.found("img"))) == (2 * n_times, 0)
        assert sum(word in ("label", HOSTILE) for word in page.words) == 2 * n_times
        assert "`" in page.text.replace("``", "")


# --- nothing of a job becomes a part of the page ----------------------------------------------------------

printed = st.text(
    st.characters(blacklist_categories=("Cc", "Cs", "Zs", "Zl", "Zp"), blacklist_characters="`"),
    min_size=1,
    max_size=40,
)
names = (printed | st.just(HOSTILE)).filter(lambda name: name not in (".", "..") and not name.endswith(".json"))


def failed(service: PlayedService, name: str, text: str) -> None:
    """A job that says the same text wherever it can."""
    times = {"started": 1.0, "ended": 2.0}
    error, made = {"kind": text, "message": text}, {"output": text, "arrays": {text: [3]}}
    further = {"method": text, "output": text, "error": error, "result": made, "warnings": [text]}
    service.put(job_of(name, state="FAILED", **times, **further))
    service.happen(name, "failed", text)


@settings(max_examples=25, deadline=None)
@given(name=names, text=printed | st.just(HOSTILE))
def test_words_of_a_job_stay_words(served: Served, name: str, text: str) -> None:
    failed(served.play(), "plain", "words")
    like_it = [shape(Document(served.ask(path))) for path in ("/distforest/jobs", "/distforest/jobs/plain")]
    failed(served.play(), name, text)
    listed = Document(served.ask("/distforest/jobs"))
    (row,) = [a for a in listed.found("a") if str(a["href"]).startswith("jobs/")]
    own = Document(served.ask(f"/distforest/{row['href']}"))
    assert [shape(listed), shape(own)] == like_it
    assert name in listed.words
    assert name in own.words
    assert sum(text in word for word in own.words) >= 6
    assert served.ask(f"/distforest/jobs/{quote(name, safe='')}.json").json["job"]["id"] == name


def test_templates_escape_everything_and_hold_no_code() -> None:
    templates = {path.name: path.read_text() for path in FOLDER.glob("templates/*.html")}
    assert {"frame.html", "jobs.html", "job.html", "macros.html", "trouble.html"} <= set(templates)
    for name, text in templates.items():
        assert not re.search(r"{%\s*autoescape|\|\s*safe", text), name
        assert not re.search(r"\s(on\w+|style)\s*=|javascript:|<style", text), name
        assert re.findall("<script.*?>", text) == re.findall(r'<script src="[^"]*watch.js" defer>', text), name
    script = (FOLDER / "watch.js").read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(", script)


@pytest.mark.parametrize("prefix", ["", "/proxy/dask"])
def test_links_lead_somewhere_whatever_stands_before_them(prefix: str) -> None:
    with serving(prefix) as served:
        service = served.play()
        service.put(job_of(state="SUCCEEDED", result=result_of(40)))
        for path in (*PAGES, "/distforest/jobs/none", "/distforest/jobs/none?skip=3"):
            url = served.url(prefix + path)
            links = Document(served.ask(prefix + path)).links
            assert len(links) >= 4
            for link in links:
                there = urljoin(url, link).removeprefix(served.url(""))
                assert there == f"{prefix}/status" or served.ask(there).status == 200, link  # that is Dask's own page
        for path in ("/distforest", "/distforest/", "/distforest/jobs/"):
            answer = served.ask(prefix + path)
            assert answer.status == 302
            assert urljoin(served.url(prefix + path), answer.headers["Location"]) == served.url(
                f"{prefix}/distforest/jobs"
            )


def test_a_scheduler_reads_the_routes_as_its_own_modules_give_them() -> None:
    from distributed.http.utils import get_handlers

    handlers = get_handlers(server=None, modules=["distforest.service.page"], prefix="/a")
    assert all(url.startswith("/a/distforest") for url, _, _ in handlers)
    assert all("dask_server" in arguments for _, _, arguments in handlers)


# --- colours ----------------------------------------------------------------------------------------------


def luminance(colour: str) -> float:
    """How bright a colour is, by the formula of the accessibility guidelines."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_the_paper(scheme: str) -> None:
    palette = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", (FOLDER / "style.css").read_text())
    colours = {name: both[scheme == "dark"] for name, *both in palette}
    for ink in ("ink", "quiet", "accent", "active", "good", "bad", "waiting", "still"):
        for paper in ("paper", "raised", "bad-paper"):
            bright, dark = sorted((luminance(colours[ink]), luminance(colours[paper])), reverse=True)
            assert (bright + 0.05) / (dark + 0.05) >= 4.5, (ink, paper)
