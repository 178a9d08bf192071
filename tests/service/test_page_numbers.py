"""What a page says of a job and of its trees."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest.service.page import words
from distforest.service.page.measured import N_AT_ONCE, N_BINS, N_LATEST, ChartColumns, Measurements, charts
from tests.service.page_server import PlayedService, job_of, result_of

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
    ("state", "took"),
    [
        *(("RUNNING", "25.00 s"), ("MERGING", "25.00 s"), ("SUCCEEDED", "5.00 s")),
        *(("INTERRUPTED", "5.00 s"), ("QUEUED", "5.00 s")),
    ],
)
def test_the_time_of_a_job_stands_still_when_nothing_works_on_it(
    state: str, took: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "time", SimpleNamespace(time=lambda: NOW))
    assert words.took(job_of(state=state, started=NOW - 100, worked=5.0, since=NOW - 20)) == took


def test_the_time_of_a_job_of_an_older_version_is_that_from_its_start_to_its_end() -> None:
    job = job_of(state="SUCCEEDED", started=NOW - 100, ended=NOW - 60)
    del job["worked"]
    assert words.took(job) == "40.00 s"


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
    waiting = dict(words.facts_of_job(job_of(submitted=NOW - 5)))
    assert {"Started", "Ended", "Took", "Runs for"}.isdisjoint(waiting)
    done = job_of(state="SUCCEEDED", submitted=NOW - 50, started=NOW - 40, ended=NOW - 10, worked=30.0)
    assert dict(words.facts_of_job(done))["Took"] == "30.00 s"
    assert "Workers" not in dict(words.facts_of_job(done))


def test_results_of_a_fit_and_of_a_score() -> None:
    fitted = dict(words.facts_of_result({**result_of(500), "n_grown": 20}))
    assert fitted["Trees"] == "500, 20 of them in the last run"
    assert fitted["Peak memory"] == "71.0 MiB in a worker"
    scored = dict(words.facts_of_result({"output": "/s.zarr", "digest": "9f", "arrays": {"distance": [2000, 3]}}))
    assert scored == {"Output": "/s.zarr", "Digest": "9f", "Array distance": "2,000 x 3"}
    assert words.facts_of_result(None) == []


# --- charts -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.integers(1, 700), st.data())
def test_columns_keep_the_seconds_of_every_tree(n_trees: int, data: st.DataObject) -> None:
    cuts = sorted({0, n_trees, *data.draw(st.lists(st.integers(0, n_trees), max_size=9))})
    tasks = [tree_event(a, b - 1, float(b - a) * (1 + a % 5), 1 + a) for a, b in pairwise(cuts)]
    columns = ChartColumns(n_trees)
    for task in data.draw(st.permutations(tasks)):
        columns.add(task)
    told = columns.committed()
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
    assert [(c.first, c.seconds, c.peak_bytes) for c in columns.committed()] == [
        (0, 0.5, 100),
        (1, 0.5, 100),
        (6, 1.5, 300),
        (7, 1.5, 300),
    ]
    seconds, memory = charts(columns.committed())
    assert (seconds.summary, memory.greatest) == ("median 1.00 s, 500.00 ms to 1.50 s", "300 B")
    assert [(trees.first, share, value) for trees, share, value in seconds.bars][1:3] == [
        (1, 1 / 3, "500.00 ms"),
        (6, 1.0, "1.50 s"),
    ]


def test_a_chart_of_values_that_are_alike_has_no_bars() -> None:
    columns = ChartColumns(4)
    columns.add(tree_event(0, 1, 1.0, 95))
    columns.add(tree_event(2, 3, 3.0, 100))
    seconds, memory = charts(columns.committed())
    assert (len(seconds.bars), memory.bars, memory.summary) == (4, [], "median 98 B, 95 B to 100 B")


def test_a_chart_without_numbers_is_left_out() -> None:
    assert charts([]) == []
    columns = ChartColumns(2)
    columns.add(tree_event(0, 1, 2.0))
    assert [chart.title for chart in charts(columns.committed())] == ["Seconds per tree"]


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
