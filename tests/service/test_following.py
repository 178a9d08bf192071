"""A job that is followed: which looks end it, and how long nothing may be heard."""

import pytest

from distforest.errors import UnreachableError, WaitTimeoutError
from distforest.service import following
from distforest.service.following import follow, follow_events, progress_of
from tests.messages import naming

NOTHING, FAULTY = "nobody answers", "the store does not"


class Told:
    """Jobs that are in one state after the other; `NOTHING`: nobody answers, `FAULTY`: no file can be read."""

    def __init__(self, *states, events=()):
        self.states, self.pages, self.limits = list(states), list(events), []

    def within(self, seconds):
        self.limits.append(seconds)
        return self

    def job(self, name):
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if state is NOTHING:
            raise UnreachableError(NOTHING)
        if state is FAULTY:
            raise OSError(FAULTY)
        return {"id": name, "state": state}

    def events(self, name, after=0):
        page = self.pages.pop(0) if self.pages else []
        if page is NOTHING:
            raise UnreachableError(NOTHING)
        return [{"n": n} for n in page]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(following, "POLL_SECONDS", 0.001)


def seen(*states, seconds=None):
    return [job["state"] for job in follow(Told(*states), "x", seconds)]


@pytest.mark.parametrize("last", ["SUCCEEDED", "FAILED", "CANCELLED"])
def test_it_ends_where_a_job_ends(last):
    assert seen("QUEUED", "RUNNING", "MERGING", last) == ["QUEUED", "RUNNING", "MERGING", last]


def test_a_service_that_was_heard_may_come_back():
    assert seen("RUNNING", NOTHING, "INTERRUPTED", FAULTY, "RUNNING", "SUCCEEDED") == [
        "RUNNING",
        "RUNNING",
        "SUCCEEDED",
    ]


def test_one_that_was_never_heard_is_not_waited_for():
    assert seen("INTERRUPTED", "SUCCEEDED") == ["INTERRUPTED"]
    with pytest.raises(UnreachableError):
        seen(NOTHING, "SUCCEEDED")
    with pytest.raises(OSError, match=FAULTY):
        seen(FAULTY, "SUCCEEDED")


def test_silence_has_an_end(monkeypatch):
    monkeypatch.setattr(following, "SILENCE_SECONDS", 0.05)
    assert seen("RUNNING", "INTERRUPTED") == ["RUNNING", "INTERRUPTED"]
    with pytest.raises(UnreachableError):
        seen("RUNNING", NOTHING)


@pytest.mark.parametrize(("states", "last"), [(("RUNNING",), "RUNNING"), (("QUEUED", NOTHING), "QUEUED")])
def test_time_is_over(states, last):
    with pytest.raises(WaitTimeoutError, match=naming("x ", last, "0.05 s")) as raised:
        seen(*states, seconds=0.05)
    assert raised.value.job == {"id": "x", "state": last}


def test_without_any_time_one_look_is_taken():
    assert seen("SUCCEEDED", seconds=0.0) == ["SUCCEEDED"]
    with pytest.raises(WaitTimeoutError):
        seen("RUNNING", seconds=0.0)


@pytest.mark.parametrize(("seconds", "most"), [(70.0, 70.0), (0.0, following.FOLLOW_SECONDS)])
def test_no_look_lasts_much_longer_than_there_is_time(seconds, most):
    told = Told("SUCCEEDED")
    assert len(list(follow(told, "x", seconds))) == 1
    assert following.FOLLOW_SECONDS <= told.limits[0] <= most


def test_events_are_followed_over_a_silence():
    told = Told("RUNNING", "RUNNING", NOTHING, "SUCCEEDED", events=[[1, 2], [], NOTHING, [3], []])
    assert [event["n"] for event in follow_events(told, "x")] == [1, 2, 3]


def test_the_last_events_of_a_job_are_not_lost_in_silence():
    with pytest.raises(UnreachableError):
        list(follow_events(Told("SUCCEEDED", events=[NOTHING]), "x"))


@pytest.mark.parametrize(
    "job",
    [
        {},
        {"state": "RUNNING", "phase": None, "done": 0, "total": 0, "rate": 0.0},
        {"state": "RUNNING", "phase": "grow", "done": None, "total": 5},
        {"state": "RUNNING", "phase": "grow", "done": 5, "total": 5, "rate": 0.0},
        {"state": "QUEUED", "phase": "grow", "done": 2, "total": 5, "rate": 1.0},
    ],
)
def test_no_progress_is_reported_before_there_is_any(job):
    assert progress_of(job) is None


def test_progress_before_the_first_is_done_has_no_rate():
    progress = progress_of({"state": "RUNNING", "phase": "grow", "done": 0, "total": 5, "rate": 0.0})
    assert (progress.done, progress.total, progress.rate) == (0, 5, 0.0)
