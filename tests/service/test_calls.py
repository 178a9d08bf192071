"""Calls to a service: what is sent, what is told of an answer, and why no call comes through."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import re
import socket
import threading
import time
from unittest.mock import Mock

import pytest
from distributed import Security

from distforest.errors import (
    AwayError,
    ConflictError,
    ExistsError,
    InputError,
    JobError,
    NotFoundError,
    SpecError,
    UnreachableError,
)
from distforest.service import calls
from distforest.service.calls import LostAnswerError, Service, new_id
from tests.messages import naming
from tests.service.fake_service import ABOUT, JOB, RESULT, SUCCEEDED, FakeService, refusal

ID = JOB["id"]
SPEC = json.dumps({"method": "smerf"})


@pytest.fixture(scope="module")
def ours():
    pytest.importorskip("cryptography", reason="certificates are made by cryptography")
    return Security.temporary()


@pytest.fixture(scope="module")
def theirs():
    pytest.importorskip("cryptography", reason="certificates are made by cryptography")
    return Security.temporary()


# --- what is asked and answered ---------------------------------------------------------------------------


def test_each_call_is_one_operation():
    answers = {name: {"job": JOB} for name in ("status", "cancel", "resume")} | {
        "list": {"service": ABOUT, "jobs": [JOB]},
        "events": {"job": JOB, "events": [{"n": 4, "event": "trees"}]},
        "remove": {"id": ID},
        "health": {"service": ABOUT},
    }
    with FakeService(answers) as fake:
        service = Service(fake.address)
        assert service.job(ID) == service.cancel(ID) == service.resume(ID) == JOB
        assert service.events(ID, after=3) == [{"n": 4, "event": "trees"}]
        assert service.remove(ID) == ID
        assert service.health() == ABOUT
        assert service.listed()["jobs"][0] == JOB
    named = {"id": ID}
    assert fake.asked == [
        ("status", named),
        ("cancel", named),
        ("resume", named),
        ("events", {"id": ID, "after": 3}),
        ("remove", named),
        ("health", {}),
        ("list", {"states": (), "skip": 0}),
    ]


def test_an_address_needs_no_scheme():
    with FakeService({"health": {"service": ABOUT}}) as fake:
        assert Service(fake.address.removeprefix("tcp://")).health() == ABOUT


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("InputError", InputError),
        ("ConflictError", ConflictError),
        ("NotFoundError", NotFoundError),
        ("JobError", JobError),
        ("SomethingElse", JobError),
    ],
)
def test_a_refusal_is_raised_as_what_it_is(kind, error):
    with FakeService({"status": refusal(kind, "no, as it is")}) as fake:
        with pytest.raises(error, match="no, as it is") as raised:
            Service(fake.address).job(ID)
        assert type(raised.value) is error


def test_a_refused_spec_has_all_its_faults():
    with FakeService({"submit": refusal("SpecError", "a\nb", "a: is missing", "b: is too large")}) as fake:
        with pytest.raises(SpecError) as raised:
            Service(fake.address).submit(SPEC)
        assert raised.value.faults == ("a: is missing", "b: is too large")


@pytest.mark.filterwarnings("ignore")
def test_an_error_in_the_service_is_reported_and_not_unpickled():
    with (
        FakeService({"status": ValueError("what was not foreseen")}) as fake,
        pytest.raises(JobError, match="what was not foreseen"),
    ):
        Service(fake.address).job(ID)


# --- handing in -------------------------------------------------------------------------------------------


def test_ids_are_made_of_method_time_and_chance():
    made = new_id(SPEC, 1795309320.0)
    assert re.fullmatch(r"smerf-20261122-010200-[0-9a-f]{6}", made)
    assert new_id(SPEC, 1795309320.0 + 3600) > made
    assert new_id('{"job": "score"}', 0.0).startswith("score-19700101-000000-")


@pytest.mark.parametrize("text", ["", "[]", '"smerf"', '{"method": 3}', '{"method": "../../etc"}'])
def test_an_id_is_made_for_any_text(text):
    assert new_id(text, 0.0).startswith("job-19700101-000000-")


def test_a_job_is_sent_with_an_id():
    with FakeService({"submit": {"job": JOB, "created": True}}) as fake:
        assert Service(fake.address).submit(SPEC)["created"]
        assert Service(fake.address).submit(SPEC, "mine")["job"] == JOB
    (_, first), (_, second) = fake.asked
    assert first["id"].startswith("smerf-")
    assert (second["spec"], second["id"]) == (SPEC, "mine")
    assert first["submission"] != second["submission"]


def test_a_job_that_exists_is_refused_reported_or_submitted_under_another_id():
    again = {"job": SUCCEEDED, "created": False}
    with FakeService({"submit": again}) as fake:
        with pytest.raises(ExistsError, match=naming(ID, "SUCCEEDED", "2026-11-22", RESULT["digest"])) as caught:
            Service(fake.address).submit(SPEC, ID)
        assert caught.value.job == SUCCEEDED
        assert Service(fake.address).submit(SPEC, ID, "ok") == again
    for first in (again, refusal("ExistsError", "id: 'nightly' is the id of another job")):
        with FakeService({"submit": [first, {"job": JOB, "created": True}]}) as fake:
            assert Service(fake.address).submit(SPEC, "nightly", "new")["created"]
        names = [asked["id"] for _, asked in fake.asked]
        assert names[0] == "nightly"
        assert re.fullmatch(r"nightly-\d{8}-\d{6}-[0-9a-f]{6}", names[1])
    with FakeService({"submit": first}) as fake, pytest.raises(ExistsError, match="nightly"):
        Service(fake.address).submit(SPEC, "nightly", "ok")


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(calls, "AGAIN_SECONDS", 0.01)


def test_a_job_whose_answer_is_lost_is_sent_again_under_the_same_id(hurried):
    with FakeService({"submit": [None, None, {"job": JOB, "created": True}]}) as fake:
        assert Service(fake.address).submit(SPEC) == {"job": JOB, "created": True}
    assert len(fake.asked) == 3
    assert len({(asked["id"], asked["submission"]) for _, asked in fake.asked}) == 1


def test_it_is_not_sent_for_ever(hurried):
    with FakeService({"submit": None}) as fake, pytest.raises(LostAnswerError, match="lost"):
        Service(fake.address).submit(SPEC)
    assert len(fake.asked) == 3


def test_other_calls_are_not_repeated():
    with FakeService({"cancel": None}) as fake, pytest.raises(LostAnswerError):
        Service(fake.address).cancel(ID)
    assert len(fake.asked) == 1


# --- while its scheduler is started again -----------------------------------------------------------------

CHANGES = {
    "submit": lambda service: service.submit(SPEC, ID)["job"],
    "cancel": lambda service: service.cancel(ID),
    "resume": lambda service: service.resume(ID),
    "remove": lambda service: service.remove(ID),
}
STARTING = refusal("AwayError", "the service is starting; try again in a moment")


@pytest.mark.parametrize("name", CHANGES)
def test_a_service_that_starts_is_waited_for_by_what_changes_something(name, hurried):
    done = {"id": ID} if name == "remove" else {"job": JOB, "created": True}
    with FakeService({name: [STARTING, STARTING, done], "list": [STARTING, {"jobs": []}]}) as fake:
        assert CHANGES[name](Service(fake.address)) == (ID if name == "remove" else JOB)
        assert [asked for asked, _ in fake.asked] == [name] * 3
        with pytest.raises(AwayError, match="starting"):
            Service(fake.address).listed()


def test_a_service_that_does_not_come_is_given_up(monkeypatch):
    """Each call takes 25 seconds by this clock."""
    clock = Mock(wraps=time, sleep=Mock(), monotonic=Mock(side_effect=itertools.count(0, 25)))
    monkeypatch.setattr(calls, "time", clock)
    with FakeService({"submit": STARTING}) as fake, pytest.raises(AwayError, match="starting"):
        Service(fake.address).submit(SPEC)
    assert len(fake.asked) == math.ceil(calls.CALL_PATIENCE[AwayError] / 25)
    with FakeService({}) as fake, pytest.raises(UnreachableError, match="--preload"):
        Service(fake.address).submit(SPEC)


def test_a_job_is_handed_in_over_a_restart(hurried):
    """The scheduler that closes breaks connections off; then nobody listens; then the next one is there."""
    held = []
    with socket.socket() as closing:
        closing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        closing.bind(("127.0.0.1", 0))
        closing.listen()
        port = closing.getsockname()[1]

        def restart():
            for _ in range(3):
                closing.accept()[0].close()
            closing.close()
            held.append(FakeService({"submit": [STARTING, {"job": JOB, "created": True}]}, port=port).__enter__())

        thread = threading.Thread(target=restart)
        thread.start()
        try:
            assert Service(f"tcp://127.0.0.1:{port}").submit(SPEC, ID)["job"] == JOB
        finally:
            thread.join(60)
            held[0].close()
    assert [asked["id"] for _, asked in held[0].asked] == [ID, ID]


# --- no call comes through --------------------------------------------------------------------------------


def why(service):
    with pytest.raises(UnreachableError) as raised:
        service.health()
    return str(raised.value)


@pytest.fixture
def deaf():
    """The port of a listener that never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_scheduler_without_the_service():
    with FakeService({}) as fake:
        assert "--preload distforest.service" in why(Service(fake.address))


@pytest.mark.slow
def test_nobody_listens():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        assert f" {address}: " in why(Service(address, patience=0.5))


@pytest.mark.slow
def test_a_listener_that_says_nothing_is_given_up(deaf):
    start = time.monotonic()
    assert "0.3 s" in why(Service(f"tcp://127.0.0.1:{deaf}", patience=0.3))
    assert time.monotonic() - start < 20  # of no hang, not of speed


@pytest.mark.slow
def test_no_patience_is_longer_than_that_of_all_calls(deaf, monkeypatch):
    monkeypatch.setattr(calls, "CONNECT_SECONDS", 0.3)
    assert "within 0.3 s" in why(Service(f"tcp://127.0.0.1:{deaf}", patience=1000.0))


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(calls, "ANSWER_SECONDS", 0.2)
    with FakeService({"health": ...}) as fake:
        assert "0.2 s" in why(Service(fake.address))


@pytest.mark.parametrize(
    ("address", "named"),
    [
        ("bad://x", "bad://x: "),
        ("tcp://127.0.0.1", "tcp://127.0.0.1: "),
        ("127.0.0.1:port", "127.0.0.1:port"),
    ],
)
def test_an_address_that_can_be_none(address, named):
    assert named in why(Service(address))


# --- TLS --------------------------------------------------------------------------------------------------


def test_with_certificates_of_one_authority_a_call_comes_through(ours):
    with FakeService({"health": {"service": ABOUT}}, ours) as fake:
        assert Service(fake.address, ours).health() == ABOUT
        assert Service(fake.address.removeprefix("tls://"), ours).health() == ABOUT


@pytest.fixture
def locked(ours):
    """A service that takes our certificates alone; afterwards, nothing was asked of it."""
    with FakeService({"health": {"service": ABOUT}}, ours) as fake:
        yield fake
    assert fake.asked == []


def test_no_certificate(locked):
    assert re.match(naming("TLS", "--tls-ca-file", "--tls-cert", "--tls-key"), why(Service(locked.address)))


def test_the_scheduler_is_of_another_authority(locked, theirs):
    assert "CA file" in why(Service(locked.address, theirs))


def test_the_client_is_of_another_authority(locked, ours, theirs):
    files = {"tls_client_cert": theirs.tls_client_cert, "tls_client_key": theirs.tls_client_key}
    crossed = Security(require_encryption=True, tls_ca_file=ours.tls_ca_file, **files)
    assert "your certificate" in why(Service(locked.address, crossed))


def test_a_plain_call_to_tls(locked):
    assert "tls://...?" in why(Service(locked.address.replace("tls://", "tcp://")))


def test_a_call_by_tls_to_a_plain_scheduler(ours):
    with FakeService({"health": {"service": ABOUT}}) as fake:
        assert "tcp://...?" in why(Service(fake.address.replace("tcp://", "tls://"), ours))
        assert "TLS" in why(Service(fake.address, ours))
    assert fake.asked == []


def test_files_of_tls_that_are_not_there(tmp_path):
    files = {"tls_ca_file": f"{tmp_path}/ca.pem", "tls_client_cert": f"{tmp_path}/cert.pem"}
    told = why(Service("tls://127.0.0.1:1", Security(require_encryption=True, **files)))
    assert f"ca-file {tmp_path}/ca.pem, cert {tmp_path}/cert.pem" in told


def test_files_of_tls_that_are_none(tmp_path):
    path = tmp_path / "ca.pem"
    path.write_text("nothing of the kind")
    files = {"tls_ca_file": str(path), "tls_client_cert": str(path)}
    assert "files of TLS" in why(Service("tls://127.0.0.1:1", Security(**files)))


# --- within a loop that runs ------------------------------------------------------------------------------


def test_a_notebook_may_call_although_its_loop_runs():
    async def cell():
        return Service(fake.address).job(ID)

    with FakeService({"status": {"job": JOB}}) as fake:
        assert asyncio.run(cell()) == JOB
