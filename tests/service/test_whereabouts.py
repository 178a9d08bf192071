"""Where the commands look for a service: flags, environment, Dask's configuration, the job root."""

import json
import re

import pytest

from distforest.service.registry import Registry
from tests.messages import naming
from tests.service.command_line import NOBODY, lines_of, quick, run, run_json  # noqa: F401
from tests.service.fake_service import ABOUT, JOB, SUCCEEDED, FakeService

ID = JOB["id"]


@pytest.mark.parametrize("command", ["list", "status", "logs", "wait", "cancel", "resume", "rm"])
def test_no_scheduler_is_named(command):
    code, out, err = run(command, *([] if command == "list" else [ID]))
    assert (code, out) == (2, "")
    assert re.match(naming("--scheduler ADDRESS", "--scheduler-file FILE"), err)


@pytest.mark.parametrize("command", ["list", "status", "logs", "wait", "cancel", "resume", "rm"])
def test_nobody_answers(command):
    code, found = run_json(command, *([] if command == "list" else [ID]), "--scheduler", NOBODY)
    assert (code, found["error"]["kind"], found["exit_code"]) == (3, "UnreachableError", 3)


@pytest.fixture
def listing():
    with FakeService({"list": {"service": ABOUT, "jobs": []}}) as fake:
        yield fake


def test_the_address_comes_from_the_environment(listing, monkeypatch):
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", listing.address)
    assert run("list")[0] == 0
    assert run("list", "--scheduler", NOBODY)[0] == 3  # a flag is stronger


def test_the_address_comes_from_a_file(listing, monkeypatch, tmp_path):
    path = tmp_path / "scheduler.json"
    path.write_text(json.dumps({"address": listing.address, "workers": {}}))
    assert run("list", "--scheduler-file", path)[0] == 0
    monkeypatch.setenv("DISTFOREST_SCHEDULER_FILE", str(path))
    assert run("list")[0] == 0
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", NOBODY)
    assert run("list")[0] == 3
    assert run("list", "--scheduler-file", path)[0] == 0


@pytest.mark.parametrize("content", [None, "", "[]", '{"id": "Scheduler-1"}'])
def test_a_file_without_an_address_is_exit_3(content, tmp_path):
    path = tmp_path / "scheduler.json"
    if content is not None:
        path.write_text(content)
    code, _, err = run("list", "--scheduler-file", path)
    assert code == 3
    assert f"{path} " in err


def test_the_address_comes_from_the_configuration_of_dask(listing):
    import dask

    with dask.config.set({"scheduler-address": listing.address}):
        assert run("list")[0] == 0


@pytest.fixture
def root(tmp_path):
    """A job root whose service is gone."""
    path = str(tmp_path / "jobs")
    held = Registry(path)
    held.create(ID, "{}", {**JOB, "service": "gone"})
    held.create("done", "{}", {**SUCCEEDED, "id": "done", "submitted": 1.0})
    held.note(ID, [{"n": 1, "time": 1795309320.0, "event": "submitted", "message": "the job is accepted"}])
    return path


def test_a_job_root_is_read_alone(root):
    code, found = run_json("list", "--job-root", root)
    assert code == 0
    assert [(job["id"], job["state"]) for job in found["jobs"]] == [(ID, "INTERRUPTED"), ("done", "SUCCEEDED")]
    assert found["service"] is None
    code, out, _ = run("status", ID, "--job-root", root)
    assert code == 0
    assert lines_of(out)["state"].startswith("INTERRUPTED, was RUNNING")
    assert run("logs", ID, "--job-root", root)[1] == "2026-11-22 01:02:00 UTC  the job is accepted\n"
    assert run("wait", "done", "--job-root", root)[0] == 0
    assert run("wait", ID, "--job-root", root)[0] == 6
    for command in ("status", "logs", "wait"):
        assert run(command, "nothing", "--job-root", root)[0] == 4


def test_a_given_job_root_is_stronger_than_what_the_environment_says(root, listing, monkeypatch):
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", listing.address)
    assert len(run_json("list", "--job-root", root)[1]["jobs"]) == 2
    assert listing.asked == []


def test_with_both_the_service_is_asked_and_the_root_is_read_when_it_does_not_answer(root, listing, monkeypatch):
    monkeypatch.setenv("DISTFOREST_JOB_ROOT", root)
    assert run_json("list", "--scheduler", listing.address)[1]["service"] == ABOUT
    code, out, err = run("list", "--scheduler", NOBODY)
    assert (code, ID in out) == (0, True)
    assert re.match(naming("note: ", "job root", NOBODY), err)
    assert run("status", ID, "--scheduler-file", f"{root}/nothing.json")[0] == 0
    assert run("list")[0] == 0


def test_a_job_root_that_is_none(tmp_path):
    code, _, err = run("list", "--job-root", tmp_path / "nothing")
    assert code == 2
    assert f"{tmp_path}/nothing" in err


@pytest.mark.parametrize("command", ["list", "status", "logs", "wait"])
def test_a_job_root_that_is_a_file(command, tmp_path):
    (tmp_path / "file").write_text("no folder")
    code, out, err = run(command, *([] if command == "list" else [ID]), "--job-root", tmp_path / "file")
    assert (code, out) == (2, "")
    assert re.match(naming(f"error: {tmp_path}/file ", "a file", "job root"), err)


def test_a_job_that_cannot_be_read_is_listed_by_name(root, tmp_path):
    (tmp_path / "jobs" / "odd").symlink_to("nothing")
    code, out, err = run("list", "--job-root", root)
    assert (code, [line.split()[:2] for line in out.splitlines()[1:]]) == (
        0,
        [[ID, "INTERRUPTED"], ["done", "SUCCEEDED"], ["odd", "UNREADABLE"]],
    )
    assert err.startswith("note: odd ")
    assert run("list", "--state", "unreadable", "--job-root", root, "--json")[1].count('"UNREADABLE"') == 1
    code, out, _ = run("status", "odd", "--job-root", root)
    assert (code, lines_of(out)["state"]) == (0, "UNREADABLE")
    code, _, err = run("wait", "odd", "--job-root", root)
    assert (code, "jobs/odd is a link" in err) == (1, True)


def test_certificates_are_taken_from_files(tmp_path):
    pytest.importorskip("cryptography", reason="certificates are made by cryptography")
    from distributed import Security

    ours = Security.temporary()
    files = {"ca-file": ours.tls_ca_file, "cert": ours.tls_client_cert, "key": ours.tls_client_key}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    flags = [text for name in files for text in (f"--tls-{name}", tmp_path / name)]
    with FakeService({"list": {"service": ABOUT, "jobs": []}}, ours) as fake:
        assert run("list", "--scheduler", fake.address, *flags)[0] == 0
        assert run("list", "--scheduler", fake.address.removeprefix("tls://"), *flags)[0] == 0
        code, _, err = run("list", "--scheduler", fake.address)
        assert (code, "--tls-cert" in err) == (3, True)
        (tmp_path / "key").unlink()
        code, _, err = run("list", "--scheduler", fake.address, *flags)
        assert (code, f"key {tmp_path}/key" in err) == (3, True)
    assert len(fake.asked) == 2
