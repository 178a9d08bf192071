"""What a page says of a job and of its trees, and the metrics."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest.service.page import charts, facts, words
from distforest.service.page.measured import N_AT_ONCE, N_BINS, N_LATEST, ChartColumns, Measurements
from tests.service.page_server import PlayedService, job_of, result_of

NOW = 10_000.0


def tree_event(first: int, last: int, seconds: float, peak_bytes: int = 0) -> dict[str, Any]:
    return {"event": "trees", "first": first, "last": last, "seconds": seconds, "peak_bytes": peak_bytes}


# --- words ------------------------------------------------------------------------------------------------


def test_a_job_in_words() -> None:
    running = {"state": "RUNNING", "phase": "grow", "done": 10, "total": 40, "rate": 2.5, "remaining": 12.0}
    told = words.job_in_words(
        job_of(**running, submitted=NOW - 30, started=NOW - 20, since=NOW - 20, retries=2, lost_workers=1), NOW
    )
    assert (told.state.word, told.state.tone, told.doing, told.over) == ("running", "active", "growing trees", False)
    assert (told.share, told.progress, told.rate) == ("25 %", "10 of 40 trees", "2.5 trees a second")
    assert (told.remaining, told.took) == ("12 s left", "20 s")
    assert told.trouble == "2 tried again, 1 worker lost"


@pytest.mark.parametrize("state", sorted(words.STATE_WORDS))
def test_only_a_job_that_is_worked_on_has_a_speed(state: str) -> None:
    told = words.job_in_words(job_of(state=state, phase="grow", done=3, total=40, rate=1.0, remaining=4.0), NOW)
    working = state in ("RUNNING", "MERGING")
    assert (bool(told.rate), bool(told.remaining)) == (working, working)
    assert told.over == (state in ("SUCCEEDED", "FAILED", "CANCELLED"))
    assert told.state.word == state.lower().replace("_", " ")
    assert told.state.sentence.endswith(".")


@pytest.mark.parametrize(
    ("state", "took"),
    [("RUNNING", "25 s"), ("MERGING", "25 s"), ("SUCCEEDED", "5.0 s"), ("INTERRUPTED", "5.0 s"), ("QUEUED", "5.0 s")],
)
def test_the_time_of_a_job_stands_still_when_nothing_works_on_it(state: str, took: str) -> None:
    job = job_of(state=state, started=NOW - 100, worked=5.0, since=NOW - 20)
    assert words.job_in_words(job, NOW).took == took


def test_the_time_of_a_job_of_an_older_version_is_that_from_its_start_to_its_end() -> None:
    job = job_of(state="SUCCEEDED", started=NOW - 100, ended=NOW - 60)
    del job["worked"]
    assert words.job_in_words(job, NOW).took == "40 s"


def test_a_job_that_waits_says_for_whom() -> None:
    waiting = {"state": "WAITING_FOR_WORKERS", "waiting": "all 2 threads of the workers are busy, with hung"}
    told = words.job_in_words(job_of(**waiting), NOW)
    assert told.state.sentence == "All 2 threads of the workers are busy, with hung."
    assert told.doing == waiting["waiting"]
    for other in ({**waiting, "waiting": None}, {**waiting, "state": "RUNNING"}):
        assert words.job_in_words(job_of(**other), NOW).state == words.STATE_WORDS[other["state"]]


def test_a_state_that_is_not_known_is_told_as_it_stands() -> None:
    assert words.job_in_words(job_of(state="PAUSED", phase="nap"), NOW).state.word == "paused"


def test_a_job_that_is_done_counts_its_trees() -> None:
    told = words.job_in_words(job_of(state="SUCCEEDED", done=1, total=1, n_trees=40), NOW)
    assert (told.progress, told.share) == ("40 of 40 trees", "100 %")


def test_phases_count_trees_only_where_they_are_trees() -> None:
    merging = job_of(state="MERGING", phase="merge", done=1, total=3, n_trees=40)
    assert words.job_in_words(merging, NOW).progress == "1 of 3"


def test_a_long_error_is_cut_for_the_list() -> None:
    error = {"kind": "JobError", "message": "x" * 500 + "\nmore"}
    assert words.job_in_words(job_of(state="FAILED", error=error), NOW).error == "x" * 159 + "…"


def test_facts_leave_out_what_is_not_known() -> None:
    waiting = dict(facts.facts_of_job(job_of(submitted=NOW - 5), NOW))
    assert {"Started", "Ended", "Took", "Runs for"}.isdisjoint(waiting)
    done = job_of(state="SUCCEEDED", submitted=NOW - 50, started=NOW - 40, ended=NOW - 10, worked=30.0)
    assert dict(facts.facts_of_job(done, NOW))["Took"] == "30 s"
    assert "Workers" not in dict(facts.facts_of_job(done, NOW))


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
    seconds, memory = charts.of_trees(columns.told(), 8)
    assert (seconds.summary, memory.greatest) == ("median 1.0 s, 500 ms to 1.5 s", "300 B")
    assert [bar.told for bar in seconds.bars][-1] == "tree 7: 1.5 s"
    left, right = float(seconds.bars[1].x), float(seconds.bars[2].x)
    assert left < charts.CHART_WIDTH * 2 / 8 < charts.CHART_WIDTH * 6 / 8 <= right
    assert float(seconds.bars[2].height) == 3 * float(seconds.bars[0].height) == charts.HEIGHT


def test_a_chart_without_numbers_is_left_out() -> None:
    assert charts.of_trees([], 10) == []
    columns = ChartColumns(2)
    columns.add(tree_event(0, 1, 0.0))
    assert [chart.title for chart in charts.of_trees(columns.told(), 2)] == ["Seconds per tree"]
    assert {bar.height for bar in charts.of_trees(columns.told(), 2)[0].bars} == {"0.00"}


# --- what is read --------------------------------------------------------------------------------------------


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


def test_an_event_is_counted_once_by_those_who_ask_at_the_same_time() -> None:
    service = PlayedService()
    known = Measurements(service)
    service.commit(service.put(job_of()), 0, 7, seconds=2.0)

    async def both() -> None:
        await asyncio.gather(*(known.of_job(service.job("smerf-1")) for _ in range(2)))

    asyncio.run(both())
    [columns, _] = asyncio.run(known.of_job(service.job("smerf-1")))
    assert [column.seconds for column in columns] == [0.25] * 8
