"""The commands about jobs of a service: what they ask, print and exit with, against a service that is none."""

import io
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from unittest.mock import ANY

import pytest

from distforest.command_line import service as service_commands
from distforest.jobs.spec import Spec
from distforest.service import following, registry
from tests.messages import naming
from tests.service.command_line import lines_of, quick, run, run_json  # noqa: F401
from tests.service.fake_service import ABOUT, CANCELLED, FAILED, JOB, SUCCEEDED, FakeService, refusal

ID = JOB["id"]
SPEC = """\
format = 1
method = "smerf"
output = "forest.zarr"
input = { features = "data.zarr/X", distances = "/data.zarr/Z" }
"""
SCORING = """\
format = 1
job = "score"
output = "near.zarr"
input = { forest = "forest.zarr", queries = "data.zarr/X" }
"""


def soon(condition):
    """Wait until something is so."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "spec.toml"
    path.write_text(SPEC)
    return path


# --- the whole --------------------------------------------------------------------------------------------


def test_help_names_every_command():
    code, out, _ = run("--help")
    assert code == 0
    names = ("cancel", "list", "logs", "resume", "rm", "serve", "status", "submit", "wait")
    assert all(f"\n  {name} " in out.partition("\nJobs of a service:")[2] for name in names)


def test_states_are_those_of_the_registry():
    assert service_commands.STATES == registry.JOB_STATES


@pytest.mark.slow
def test_it_is_a_command_of_dask():
    with FakeService({"list": {"service": ABOUT, "jobs": []}}) as fake:
        command = [sys.executable, "-m", "dask", "distforest", "list", "--scheduler", fake.address, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == {"jobs": [], "service": ABOUT}


# --- submit -----------------------------------------------------------------------------------------------


@pytest.fixture
def taking():
    with FakeService(
        {"submit": {"job": {**JOB, "state": "QUEUED"}, "created": True}, "status": {"job": SUCCEEDED}}
    ) as f:
        yield f


def sent(fake):
    return json.loads(fake.asked[0][1]["spec"])


def test_submit_prints_the_id_and_how_to_follow_it(spec, taking):
    code, out, err = run("submit", spec, "--scheduler", taking.address)
    assert (code, err) == (0, "")
    assert lines_of(out) == {
        "id": ID,
        "state": "QUEUED",
        "follow": f"distforest wait {ID} --scheduler {taking.address}",
    }
    assert run(*lines_of(out)["follow"].split()[1:])[0] == 0
    code, found = run_json("submit", spec, "--scheduler", taking.address)
    assert (code, found) == (0, {"id": ID, "state": "QUEUED", "created": True})


def test_submit_sends_canonical_json_with_paths_from_the_root(spec, taking, tmp_path):
    sets = ("--set", "params.n_estimators=6", "--set", "run.scratch=scratch")
    run("submit", spec, *sets, "--id", "mine", "--scheduler", taking.address)
    text = taking.asked[0][1]["spec"]
    assert taking.asked[0][1]["id"] == "mine"
    assert text == Spec.from_json(text).to_json()
    found = sent(taking)
    assert found["output"] == f"{tmp_path}/forest.zarr"
    assert found["input"]["features"] == f"{tmp_path}/data.zarr/X"
    assert found["input"]["distances"]["matrix"] == "/data.zarr/Z"
    assert (found["params"]["n_estimators"], found["run"]["scratch"]) == (6, f"{tmp_path}/scratch")


def test_submit_says_whose_job_it_is_and_how_urgent(spec, taking, monkeypatch):
    monkeypatch.setenv("USER", "ada")
    run("submit", spec, "--priority", "-3", "--queue", "nightly", "--scheduler", taking.address)
    monkeypatch.delenv("USER")
    run("submit", spec, "--owner", "Charles B.", "--scheduler", taking.address)
    run("submit", spec, "--scheduler", taking.address)
    told = [(asked.get("owner"), json.loads(asked["spec"])["run"]["priority"]) for _, asked in taking.asked]
    assert told == [("ada", -3), ("Charles B.", 0), (None, 0)]
    assert [json.loads(asked["spec"])["run"]["queue"] for _, asked in taking.asked] == ["nightly", None, None]


def test_submit_takes_a_scoring_job(spec, taking, tmp_path):
    spec.write_text(SCORING)
    assert run("submit", spec, "--scheduler", taking.address)[0] == 0
    assert (sent(taking)["job"], sent(taking)["input"]["forest"]) == ("score", f"{tmp_path}/forest.zarr")
    assert taking.asked[0][1]["id"].startswith("score-")
    assert run("validate", spec)[0] == 0
    code, _, err = run("fit", spec)
    assert (code, "scoring" in err) == (2, True)


def test_a_spec_with_faults_is_not_sent(spec, taking):
    spec.write_text(SPEC.replace('"smerf"', '"smurf"'))
    code, _, err = run("submit", spec, "--scheduler", taking.address)
    assert (code, taking.asked) == (2, [])
    assert "method (line 2)" in err


def test_what_the_service_refuses_is_reported_fault_by_fault(spec):
    with FakeService({"submit": refusal("SpecError", "", "output: is outside", "input.features: is outside")}) as fake:
        code, out, err = run("submit", spec, "--scheduler", fake.address)
        assert (code, out) == (2, "")
        assert err == "error: output: is outside\nerror: input.features: is outside\n"
        code, found = run_json("submit", spec, "--scheduler", fake.address)
        assert found["error"]["faults"] == ["output: is outside", "input.features: is outside"]


def test_a_second_job_of_the_same_id_is_exit_8(spec):
    with FakeService({"submit": refusal("ExistsError", "'mine' is the id of another job")}) as fake:
        assert run("submit", spec, "--id", "mine", "--scheduler", fake.address)[0] == 8
        assert run("submit", spec, "--id", "mine", "--if-exists", "ok", "--scheduler", fake.address)[0] == 8


@pytest.mark.parametrize("waits", [(), ("--wait",)])
@pytest.mark.parametrize(("job", "code"), [(SUCCEEDED, 0), (FAILED, 1), (CANCELLED, 5)])
def test_the_job_of_last_night_is_told_from_that_of_this_night(spec, waits, job, code):
    with FakeService({"submit": {"job": job, "created": False}, **told(job)}) as fake:
        again = ("submit", spec, "--id", ID, *waits, "--scheduler", fake.address)
        found, out, err = run(*again)
        assert (found, out) == (8, "")
        assert re.search(naming(ID, job["state"], "2026-11-22 01:00:40 UTC", "--if-exists new", "--if-exists ok"), err)
        assert run_json(*again)[1] == {**job, "error": job["error"] or ANY, "exit_code": 8}
        found, out, err = run(*again, "--if-exists", "ok")
        assert (found, ID in err) == (code, True)
        if code == 0:
            assert run_json(*again, "--if-exists", "ok")[1]["created"] is False


def test_a_job_that_exists_and_still_runs_is_followed(spec):
    with FakeService({"submit": {"job": JOB, "created": False}}) as fake:
        code, out, _ = run("submit", spec, "--id", ID, "--if-exists", "ok", "--scheduler", fake.address)
    assert (code, lines_of(out)["state"]) == (0, "RUNNING")


def test_submit_and_wait(spec, taking):
    code, out, err = run("submit", spec, "--wait", "--scheduler", taking.address)
    assert (code, lines_of(out)["digest"]) == (0, "d" * 64)
    said = (ID, "SUCCEEDED", "500/500")
    assert all(part in line for part, line in zip(said, err.splitlines(), strict=True))
    code, found = run_json("submit", spec, "--wait", "--scheduler", taking.address)
    assert (code, found) == (0, {**SUCCEEDED, "created": True})


# --- wait -------------------------------------------------------------------------------------------------


def told(*jobs):
    return {"status": [{"job": job} for job in jobs]}


def test_wait_shows_progress_and_tells_the_result():
    with FakeService(told({**JOB, "state": "QUEUED", "phase": None, "total": 0}, JOB, JOB, SUCCEEDED)) as fake:
        code, out, err = run("wait", ID, "--scheduler", fake.address)
    assert code == 0
    said = ("QUEUED", "RUNNING", "120/500", "SUCCEEDED", "500/500")
    assert all(part in line for part, line in zip(said, err.splitlines(), strict=True))
    found = lines_of(out)
    assert (found["state"], found["forest"]) == ("SUCCEEDED", "/data/x.forest.zarr")
    assert found["memory"] == "3.0 MiB at the peak of a worker"


@pytest.mark.parametrize(
    ("job", "code", "named"),
    [
        (FAILED, 1, ("MemoryLimitError", "too big", "`distforest resume")),
        (CANCELLED, 5, ("cancelled",)),
        ({**JOB, "state": "INTERRUPTED", "was": "RUNNING"}, 6, ("interrupted",)),
    ],
)
def test_wait_exits_by_the_last_state(job, code, named):
    with FakeService(told(job)) as fake:
        found, out, err = run("wait", ID, "--scheduler", fake.address)
        assert (found, out) == (code, "")
        assert re.match(naming(*named), err.splitlines()[-1])
        found, answer = run_json("wait", ID, "--scheduler", fake.address)
    assert (found, answer["id"], answer["state"], answer["exit_code"]) == (code, ID, job["state"], code)
    assert answer["error"]["kind"] == (job["error"]["kind"] if job["error"] else "NotDoneError")


@pytest.mark.parametrize("seconds", [0, 0.1])
def test_wait_no_longer_than_was_said(seconds):
    with FakeService(told(JOB)) as fake:
        code, out, err = run("wait", ID, "--timeout", seconds, "--scheduler", fake.address)
        assert (code, out) == (124, "")
        assert re.search(f"error: {ID} .*RUNNING .*{seconds:g} s", err)
        code, found = run_json("wait", ID, "--timeout", seconds, "--scheduler", fake.address)
    assert (code, found["state"], found["error"]["kind"]) == (124, "RUNNING", "WaitTimeoutError")


def test_wait_for_a_job_that_is_not_there():
    with FakeService({"status": refusal("NotFoundError", "there is no job x")}) as fake:
        code, found = run_json("wait", "x", "--scheduler", fake.address)
    assert (code, found["error"]["kind"], found["error"]["message"]) == (4, "NotFoundError", "there is no job x")


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_wait_survives_a_restart_of_the_scheduler():
    port, end = free_port(), threading.Event()
    with FakeService(told(JOB), port=port) as first:

        def restart():
            soon(lambda: first.asked)
            first.close()
            with FakeService(told({**JOB, "state": "INTERRUPTED"}, SUCCEEDED), port=port):
                end.wait(120)

        restarting = threading.Thread(target=restart)
        restarting.start()
        code, out, _ = run("wait", ID, "--timeout", 120, "--scheduler", f"tcp://127.0.0.1:{port}")
        end.set()
        restarting.join(120)
    assert (code, lines_of(out)["state"]) == (0, "SUCCEEDED")


@pytest.mark.slow
def test_wait_gives_up_a_scheduler_that_does_not_come_back(monkeypatch):
    monkeypatch.setattr(following, "SILENCE_SECONDS", 0.2)
    with FakeService({"status": [{"job": JOB}, None]}) as fake:
        code, _, err = run("wait", ID, "--scheduler", fake.address)
    assert code == 3
    assert "lost" in err


HEARING_CTRL_C = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs in its background without it
from distforest.command_line.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["wait", "logs"])
def test_ctrl_c_ends_the_waiting_alone(command):
    arguments = [command, ID, *(["-f"] if command == "logs" else [])]
    event = {"n": 1, "time": 0.0, "event": "queued", "message": "the job is queued"}
    with FakeService({**told(JOB), "events": [{"job": JOB, "events": [event]}, {"job": JOB, "events": []}]}) as fake:
        line = [sys.executable, "-c", HEARING_CTRL_C, *arguments, "--scheduler", fake.address]
        with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
            try:
                soon(lambda: len(fake.asked) > 3)
                waiting.send_signal(signal.SIGINT)
                _, err = waiting.communicate(timeout=60)
            finally:
                waiting.kill()
    assert waiting.returncode == 130
    assert f"interrupted: {ID}" in err
    assert "Traceback" not in err


# --- list, status, logs -----------------------------------------------------------------------------------


@pytest.fixture
def several():
    hostile = {**JOB, "id": "odd", "state": "QUEUED", "output": "/\x1b[31mred[bold]x", "total": 0, "submitted": None}
    jobs = [hostile, {**JOB, "owner": "ada"}, {**SUCCEEDED, "id": "score-1", "kind": "score", "method": None}]
    with FakeService({"list": {"service": ABOUT, "jobs": jobs}}) as fake:
        yield fake


def test_list_prints_plain_columns(several, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: JOB["submitted"] + 200.0)
    code, out, err = run("list", "--scheduler", several.address)
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["ID", "STATE", "JOB", "OWNER", "PROGRESS", "AGE", "OUTPUT"],
        ["odd", "QUEUED", "smerf", "/\N{REPLACEMENT CHARACTER}[31mred[bold]x"],
        [ID, "RUNNING", "smerf", "ada", "120/500", "trees", "3", "min", "20", "s", "/data/x.forest.zarr"],
        ["score-1", "SUCCEEDED", "score", "500/500", "trees", "3", "min", "20", "s", "/data/x.forest.zarr"],
    ]


@pytest.mark.parametrize(
    ("kind", "state", "phase", "told"),
    [
        ("fit", "SUCCEEDED", None, "500/500 trees"),  # a job that has ended is in no phase
        ("score", "SUCCEEDED", None, "500/500 rows"),
        ("fit", "RUNNING", "alone", "500/500 trees"),  # what was lost with its workers is grown again, tree by tree
        ("fit", "MERGING", "merge", "500/500 parts"),
    ],
)
def test_list_counts_what_the_page_counts(kind, state, phase, told):
    job = {**SUCCEEDED, "kind": kind, "state": state, "phase": phase}
    with FakeService({"list": {"service": ABOUT, "jobs": [job]}}) as fake:
        assert f"  {told}  " in run("list", "--scheduler", fake.address)[1]


def test_list_asks_for_a_part():
    with FakeService({"list": {"service": ABOUT, "jobs": [JOB], "total": 8}}) as fake:
        by_state = ("--state", "queued", "--state", "RUNNING")
        code, _, err = run("list", *by_state, "--skip", "2", "--limit", "1", "--scheduler", fake.address)
        assert (code, bool(re.search(naming("5 ", "--skip 3"), err))) == (0, True)
        assert run_json("list", "--scheduler", fake.address)[1] == {"service": ABOUT, "jobs": [JOB], "total": 8}
    states = ["QUEUED", "RUNNING"]
    told = [{**asked, "states": list(asked["states"])} for _, asked in fake.asked]
    assert told == [{"states": states, "skip": 2, "limit": 1}, {"states": [], "skip": 0, "limit": 100}]
    with FakeService({"list": {"service": ABOUT, "jobs": [], "total": 0}}) as fake:
        code, out, err = run("list", "--state", "FAILED", "--scheduler", fake.address)
        assert (code, out, "FAILED" in err) == (0, "", True)
        assert run("list", "--state", "LOST", "--scheduler", fake.address)[0] == 2


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_list_draws_a_table_on_a_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    service_commands._print_table([{**JOB, "output": "/\x1b[2Jx[bold]y"}, {**SUCCEEDED, "id": "b"}])
    assert "\x1b[32mSUCCEEDED" in terminal.getvalue()
    first, second, third = re.sub("\x1b\\[[0-9;]*m", "", terminal.getvalue()).splitlines()
    assert first.split() == ["ID", "STATE", "JOB", "OWNER", "PROGRESS", "AGE", "OUTPUT"]
    assert "[2Jx[bold]y" in second  # neither the terminal nor the markup of the table is steered
    assert "\x1b" not in second + third
    assert "SUCCEEDED" in third


def test_status_tells_what_is_known():
    with FakeService(told({**JOB, "lost_workers": 1, "attempt": 2}, SUCCEEDED, FAILED)) as fake:
        running = lines_of(run("status", ID, "--scheduler", fake.address)[1])
        done = lines_of(run("status", ID, "--scheduler", fake.address)[1])
        code, out, _ = run("status", ID, "--scheduler", fake.address)
        assert run_json("status", ID, "--scheduler", fake.address) == (0, FAILED)
    assert running["state"] == "RUNNING, grow 120/500 trees, 24 %, 20.0 a second, 19 s left"
    assert (running["workers"], running["trouble"]) == ("2", "1 worker lost, attempt 2")
    assert running["started"] == "2026-11-22 01:00:10 UTC"
    assert (done["state"], done["trees"], done["seconds"]) == ("SUCCEEDED", "500", "25.0")
    assert "workers" not in done
    assert (code, lines_of(out)["error"]) == (0, "MemoryLimitError: too big")


ARRAYS = {"output": "/near.zarr", "digest": "d", "arrays": {"indices": [30, 4], "distance": [30, 4]}}


@pytest.mark.parametrize(
    ("job", "lines"),
    [
        ({**JOB, "owner": "ada", "priority": 5, "queue": "nightly"}, "owner ada; priority 5; queue nightly"),
        ({**SUCCEEDED, "warnings": ["no split", "\x1b[2J"]}, "warning no split; warning \N{REPLACEMENT CHARACTER}[2J"),
        ({**SUCCEEDED, "method": None, "result": ARRAYS}, "array indices 30 x 4; array distance 30 x 4"),
        ({"id": ID, "state": "QUEUED", "waiting": "waiting for a"}, "output not known; waiting waiting for a"),
    ],
)
def test_status_tells_what_a_job_has(job, lines):
    with FakeService(told(job)) as fake:
        found = [" ".join(line.split()) for line in run("status", ID, "--scheduler", fake.address)[1].splitlines()]
    assert set(lines.split("; ")) <= set(found)
    if "owner" not in job:
        assert not any(line.startswith(("owner", "priority", "queue")) for line in found)


def events(first, last):
    return [
        {"n": n, "time": 1795309320.0 + n, "event": "trees", "message": f"tree {n} is committed"}
        for n in range(first, last + 1)
    ]


def test_logs_print_all_events_a_line_each():
    pages = [{"job": JOB, "events": events(1, 2)}, {"job": JOB, "events": events(3, 3)}, {"job": JOB, "events": []}]
    with FakeService({"events": list(pages)}) as fake:
        code, out, _ = run("logs", ID, "--scheduler", fake.address)
        assert [asked["after"] for _, asked in fake.asked] == [0, 2, 3]
    assert (code, out.splitlines()[2]) == (0, "2026-11-22 01:02:03 UTC  tree 3 is committed")
    with FakeService({"events": list(pages)}) as fake:
        out = run("logs", ID, "--json", "--scheduler", fake.address)[1]
    assert list(map(json.loads, out.splitlines())) == events(1, 3)


def test_logs_follow_a_job_to_its_end():
    none = {"job": JOB, "events": []}
    pages = [{"job": JOB, "events": events(1, 1)}, none, None, {"job": JOB, "events": events(2, 3)}, none]
    with FakeService({**told(JOB, JOB, SUCCEEDED), "events": pages}) as fake:
        code, out, _ = run("logs", ID, "-f", "--scheduler", fake.address)
    assert (code, [line[-19:] for line in out.splitlines()]) == (0, [f"tree {n} is committed" for n in (1, 2, 3)])


# --- cancel, resume, rm -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("command", "state"), [("cancel", "CANCELLING"), ("resume", "QUEUED")])
def test_what_is_done_to_a_job_is_reported(command, state):
    with FakeService({command: {"job": {**JOB, "state": state, "phase": None}}}) as fake:
        code, out, _ = run(command, ID, "--scheduler", fake.address)
        assert (code, lines_of(out)["state"]) == (0, state)
        assert run_json(command, ID, "--scheduler", fake.address)[1]["state"] == state
    assert fake.asked == [(command, {"id": ID})] * 2


def test_resume_changes_the_spec():
    with FakeService({"resume": {"job": JOB}}) as fake:
        assert run("resume", ID, "--set", "run.batch=2", "--set", "seed=4", "--scheduler", fake.address)[0] == 0
    assert fake.asked == [("resume", {"id": ID, "changes": {"run.batch": 2, "seed": 4}})]


def test_rm():
    with FakeService({"remove": [{"id": "a"}, {"id": "b"}, {"id": ID}]}) as fake:
        assert run("rm", "a", "b", "--scheduler", fake.address) == (0, "removed  a\nremoved  b\n", "")
        assert run_json("rm", ID, "--scheduler", fake.address) == (0, {"removed": [ID]})
    assert [asked for _, asked in fake.asked] == [{"id": "a"}, {"id": "b"}, {"id": ID}]


@pytest.mark.parametrize(
    ("options", "states", "ids"),
    [
        (("--state", "succeeded"), ["SUCCEEDED"], ["now", "day", "month"]),
        (("--older-than", "12h"), ["SUCCEEDED", "FAILED", "CANCELLED"], ["day", "month"]),
        (("--older-than", "30d", "--state", "failed"), ["FAILED"], ["month"]),
        (("--older-than", "1000w"), ["SUCCEEDED", "FAILED", "CANCELLED"], []),
    ],
)
def test_rm_by_age_and_state(options, states, ids):
    ages = {"now": 0.0, "day": 90_000.0, "month": 31 * 86_400.0}
    jobs = [{**SUCCEEDED, "id": name, "ended": time.time() - age} for name, age in ages.items()]
    removed = [{"id": name} for name in ids] or [{"id": "none"}]
    with FakeService({"list": {"service": ABOUT, "jobs": jobs}, "remove": removed}) as fake:
        assert run_json("rm", *options, "--scheduler", fake.address) == (0, {"removed": ids})
    (_, listed), *rest = fake.asked
    assert list(listed["states"]) == states
    assert [asked["id"] for _, asked in rest] == ids


def test_rm_passes_over_a_job_that_is_gone():
    gone = [refusal("NotFoundError", "there is no job a"), {"id": "b"}]
    with FakeService({"list": {"service": ABOUT, "jobs": [SUCCEEDED, SUCCEEDED]}, "remove": gone}) as fake:
        assert run_json("rm", "--state", "succeeded", "--scheduler", fake.address) == (0, {"removed": ["b"]})


@pytest.mark.parametrize(
    "arguments",
    [(), (ID, "--state", "failed"), ("--state", "running"), ("--older-than", "30"), ("--older-than", "d-3")],
)
def test_what_rm_does_not_take(arguments):
    with FakeService({}) as fake:
        assert run("rm", *arguments, "--scheduler", fake.address)[0] == 2
    assert fake.asked == []


@pytest.mark.parametrize(("command", "operation"), [("cancel", "cancel"), ("resume", "resume"), ("rm", "remove")])
def test_what_is_refused(command, operation):
    with FakeService({operation: refusal("ConflictError", f"{ID} is RUNNING; cancel it first")}) as fake:
        code, out, err = run(command, ID, "--scheduler", fake.address)
        assert (code, out, err) == (2, "", f"error: {ID} is RUNNING; cancel it first\n")
    with FakeService({operation: refusal("NotFoundError", "there is no job x")}) as fake:
        assert run(command, "x", "--scheduler", fake.address)[0] == 4
