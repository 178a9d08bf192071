"""What a page says of a job and of its trees, and the metrics."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest.service.page import exposition, facts, words
from distforest.service.page.measured import N_AT_ONCE, N_BINS, N_LATEST, ChartColumns, Measurements
from tests.service.page_server import STARTED, PlayedService, job_of, result_of

NOW = 10_000.0


def tree_event(first: int, last: int, seconds: float, peak_bytes: int = 0) -> dict[str, Any]:
    return {"event": "trees", "first": first, "last": last, "seconds": seconds, "peak_bytes": peak_bytes}


# --- words ------------------------------------------------------------------------------------------------


def test_a_job_in_words() -> None:
    running = {"state": "RUNNING", "phase": "grow", "done": 10, "total": 40, "rate": 2.5, "remaining": 12.0}
    job = job_of(**running, submitted=NOW - 30, started=NOW - 20, retries=2, lost_workers=1)
    assert (words.state_of(job).word, words.doing(job)) == ("running", "growing trees")
    assert words.progress(job) == ["10 of 40 trees", "150 trees a minute", "12.00 s left"]
    assert words.trouble(job) == "2 tried again, 1 worker lost"
    speeds = [words.progress(job | {"rate": rate, "total": 3})[1] for rate in (0.001, 50.0)]
    assert speeds == ["0.06 a minute", "3,000 a minute"]


@pytest.mark.parametrize("state", sorted(words.STATE_WORDS))
def test_only_a_job_that_is_worked_on_has_a_speed(state: str) -> None:
    job = job_of(state=state, phase="grow", done=3, total=40, rate=1.0, remaining=4.0)
    assert len(words.progress(job)) == (3 if state in ("RUNNING", "MERGING") else 1)
    assert words.state_of(job).word == state.lower().replace("_", " ")
    assert words.state_of(job).sentence.endswith(".")


@pytest.mark.parametrize(
    ("state", "ended", "took"), [("SUCCEEDED", NOW - 60, "40.00 s"), ("INTERRUPTED", None, "10.00 s")]
)
def test_the_time_of_a_job_stands_still_when_nothing_works_on_it(state: str, ended: float | None, took: str) -> None:
    assert words.took(job_of(state=state, started=NOW - 100, ended=ended, heartbeat=NOW - 90)) == took


def test_a_job_that_waits_says_for_whom() -> None:
    waiting = {"state": "WAITING_FOR_WORKERS", "waiting": "all 2 threads of the workers are busy, with hung"}
    assert words.state_of(job_of(**waiting)).sentence == "All 2 threads of the workers are busy, with hung."
    assert words.doing(job_of(**waiting)) == waiting["waiting"]
    for other in ({**waiting, "waiting": None}, {**waiting, "state": "RUNNING"}):
        assert words.state_of(job_of(**other)) == words.STATE_WORDS[other["state"]]


def test_a_state_that_is_not_known_is_told_as_it_stands() -> None:
    assert words.state_of(job_of(state="PAUSED", phase="nap")).word == "paused"


def test_a_job_that_is_done_counts_its_trees() -> None:
    assert words.progress(job_of(state="SUCCEEDED", done=1, total=1, n_trees=40)) == ["40 of 40 trees"]


def test_phases_count_trees_only_where_they_are_trees() -> None:
    assert words.progress(job_of(state="MERGING", phase="merge", done=1, total=3, n_trees=40)) == ["1 of 3"]


def test_facts_leave_out_what_is_not_known() -> None:
    waiting = dict(facts.facts_of_job(job_of(submitted=NOW - 5)))
    assert {"Started", "Ended", "Took", "Runs for"}.isdisjoint(waiting)
    done = job_of(state="SUCCEEDED", submitted=NOW - 50, started=NOW - 40, ended=NOW - 10)
    assert dict(facts.facts_of_job(done))["Took"] == "30.00 s"
    assert "Workers" not in dict(facts.facts_of_job(done))


def test_results_of_a_fit_and_of_a_score() -> None:
    fitted = dict(facts.of_result({**result_of(500), "n_grown": 20}))
    assert fitted["Trees"] == "500, 20 of them in the last run"
    assert fitted["Peak memory"] == "71.0 MiB in a worker"
    scored = dict(facts.of_result({"output": "/s.zarr", "digest": "9f", "arrays": {"distance": [2000, 3]}}))
    assert scored == {"Output": "/s.zarr", "Digest": "9f", "Array distance": "2,000 x 3"}
    assert facts.of_result(None) == []


# --- charts -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.integers(1, 700), st.data())
def test_columns_keep_the_seconds_of_every_tree(n_trees: int, data: st.DataObject) -> None:
    cuts = sorted({0, n_trees, *data.draw(st.lists(st.integers(0, n_trees), max_size=9))})
    tasks = [tree_event(a, b - 1, float(b - a) * (1 + a % 5), 1 + a) for a, b in pairwise(cuts)]
    columns = ChartColumns(n_trees)
    for task in data.draw(st.permutations(tasks)):
        columns.add(task)
    told = columns.told()
    assert len(told) == min(n_trees, N_BINS)
    assert [told[0].first, told[-1].last] == [0, n_trees - 1]
    assert all(left.last + 1 == right.first for left, right in pairwise(told))
    total = sum(column.seconds * (column.last + 1 - column.first) for column in told)
    assert total == pytest.approx(sum(task["seconds"] for task in tasks))
    assert max(column.peak_bytes for column in told) == max(task["peak_bytes"] for task in tasks)


def test_trees_that_are_missing_leave_a_gap() -> None:
    columns = ChartColumns(8)
    columns.add(tree_event(0, 1, 1.0, 100))
    columns.add(tree_event(6, 7, 3.0, 300))
    assert [(c.first, c.seconds, c.peak_bytes) for c in columns.told()] == [
        (0, 0.5, 100),
        (1, 0.5, 100),
        (6, 1.5, 300),
        (7, 1.5, 300),
    ]
    seconds, memory = facts.charts(columns.told())
    assert (seconds.summary, memory.greatest) == ("median 1.00 s, 500.00 ms to 1.50 s", "300 B")
    assert [(trees.first, share, value) for trees, share, value in seconds.bars][1:3] == [
        (1, 1 / 3, "500.00 ms"),
        (6, 1.0, "1.50 s"),
    ]


def test_a_chart_without_numbers_is_left_out() -> None:
    assert facts.charts([]) == []
    columns = ChartColumns(2)
    columns.add(tree_event(0, 1, 2.0))
    assert [chart.title for chart in facts.charts(columns.told())] == ["Seconds per tree"]


# --- what is counted --------------------------------------------------------------------------------------


def counted(service: PlayedService, known: Measurements) -> Counter[str]:
    asyncio.run(known.count())
    return Counter(known.totals)


def test_numbers_are_counted_once_and_never_go_back() -> None:
    service = PlayedService()
    known = Measurements(service)
    name = service.put(job_of())
    assert not counted(service, known).total()
    service.commit(name, 0, 7, seconds=2.0)
    service.happen(name, "lost", "a worker was lost", worker="tcp://x")
    service.change(name, retries=2)
    first = counted(service, known)
    assert first == {"trees": 8, "seconds": 2.0, "lost_workers": 1, "retries": 2}
    assert counted(service, known) == first
    service.change(name, retries=0)  # an attempt of its own begins to count anew
    assert counted(service, known) == first
    del service.jobs[name]
    assert counted(service, known) == first
    service.happened.clear()
    service.put(job_of(submitted=STARTED + 5))  # the same name again
    service.commit(name, 0, 3, seconds=1.0)
    assert counted(service, known)["trees"] == 12


def test_what_others_did_before_is_not_counted() -> None:
    service = PlayedService()
    old, resumed = service.put(job_of("old", ended=STARTED - 9, retries=2)), service.put(job_of("resumed"))
    service.commit(old, 0, 7)
    service.commit(resumed, 0, 7)
    service.happened[resumed][0]["time"] = STARTED - 1
    service.commit(resumed, 8, 9)
    assert counted(service, Measurements(service)) == {"trees": 2, "seconds": 0.8, "retries": 0}
    assert {name for name, _ in service.asked} == {resumed}


def test_an_event_is_counted_once_by_those_who_ask_at_the_same_time() -> None:
    service = PlayedService()
    known = Measurements(service)
    service.commit(service.put(job_of()), 0, 7)

    async def both() -> None:
        await asyncio.gather(known.count(), known.count(), known.of_job(service.job("smerf-1")))

    asyncio.run(both())
    assert known.totals["trees"] == 8


def test_events_are_read_from_where_the_last_reader_stopped() -> None:
    service = PlayedService()
    known = Measurements(service)
    name = service.put(job_of(n_trees=5000))
    for tree in range(N_AT_ONCE + 5):
        service.commit(name, tree, tree)
    columns, latest = asyncio.run(known.of_job(service.job(name)))
    n_events = N_AT_ONCE + 5
    assert [event["n"] for event in latest] == list(range(n_events - N_LATEST + 1, n_events + 1))
    assert service.asked == [(name, 0), (name, N_AT_ONCE)]
    again_columns, again = asyncio.run(known.of_job(service.job(name)))
    assert (again_columns, again) == (columns, latest)
    assert service.asked[2:] == [(name, n_events - N_LATEST)]
    service.change(name, state="SUCCEEDED", ended=STARTED + 60)
    asyncio.run(known.count())
    asyncio.run(known.count())
    assert service.asked[3:] == [(name, n_events)]


def test_a_job_that_is_removed_while_it_is_counted() -> None:
    service = PlayedService()
    name = service.put(job_of())
    service.commit(name, 0, 7)
    del service.happened[name]
    assert not counted(service, Measurements(service)).total()


def test_metrics_are_what_prometheus_reads() -> None:
    parser = pytest.importorskip("prometheus_client.parser", reason="needs prometheus_client")
    service = PlayedService()
    for name, state in (("a", "RUNNING"), ("b", "FAILED"), ("c", "RUNNING")):
        service.put(job_of(name, state=state))
    service.put(job_of("d", state='O"D\\D\n'))
    told = exposition.metrics(service, Counter(trees=12, seconds=3.25), service.told["heartbeat"] + 2.5)
    read = {family.name: family for family in parser.text_string_to_metric_families(exposition.written(told))}
    assert all(name.startswith("distforest_") and family.documentation for name, family in read.items())
    states = {sample.labels["state"]: sample.value for sample in read["distforest_jobs"].samples}
    assert {state: states[state] for state in ("RUNNING", "FAILED", "QUEUED", 'O"D\\D\n')} == {
        "RUNNING": 2,
        "FAILED": 1,
        "QUEUED": 0,
        'O"D\\D\n': 1,
    }
    values = {sample.name: sample.value for family in read.values() for sample in family.samples if not sample.labels}
    assert values == {
        "distforest_working": 1,
        "distforest_heartbeat_age_seconds": 2.5,
        "distforest_start_time_seconds": STARTED,
        "distforest_workers": 2,
        "distforest_threads": 4,
        "distforest_trees_committed_total": 12,
        "distforest_growth_seconds_total": 3.25,
        "distforest_retries_total": 0,
        "distforest_lost_workers_total": 0,
    }
    kinds = {name: family.type for name, family in read.items()}
    assert kinds["distforest_trees_committed"] == "counter"
    assert kinds["distforest_heartbeat_age_seconds"] == "gauge"
