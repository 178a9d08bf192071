"""The doctor: what it finds on this machine and in a real cluster, and what it wants mended."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from distributed import Security

from distforest.errors import InputError
from distforest.kernel_cache import kernel_folder
from distforest.service import doctor as examining
from distforest.service.checkup import (
    Checkup,
    Disk,
    Kernels,
    RootCheckup,
    examined,
    forget_probe,
    probed_root,
    sees_probe,
)
from distforest.service.doctor import (
    LEAST_FREE,
    ROLE_HERE,
    ROLE_SCHEDULER,
    ROLE_WORKER,
    ClockDifference,
    Findings,
    Patient,
    examine_here,
    remarks,
    to_mend,
)
from distforest.sources.scratch import ScratchFolder
from distforest.stores.folder import Folder
from tests.messages import naming
from tests.service.command_line import NOBODY, quick, run, run_json  # noqa: F401  (a fixture of all tests here)
from tests.service.object_store import NEEDS_S3, ObjectStore
from tests.service.processes import Cluster, free_port, running, until

ROOM = 100 * LEAST_FREE
VERSIONS = {"python": "3.12.4", "distforest": "1.0", "numpy": "2.2.0"}
WELL = Checkup("host-a", 8, VERSIONS, Kernels("/cache", True, 12), Disk("/scratch", None, ROOM, 1, "ext4"), {}, None)
ROOT = RootCheckup(Disk("/jobs", None, ROOM, 2, "nfs"), compares=True, probe="doctor-1")
CLOCK = ClockDifference(0.001, 0.002)


def patient(role: str, address: str = "", **changes: Any) -> Patient:
    clock = CLOCK if address else None
    return replace(Patient(role, address, 2 if role == ROLE_WORKER else 0, WELL, clock=clock), **changes)


def with_checkup(role: str, address: str = "", **changes: Any) -> Patient:
    return patient(role, address, checkup=WELL._replace(**changes))


def findings(*others: Patient, root: RootCheckup | None = ROOT, **more: Any) -> Findings:
    """A cluster that is well but for these workers."""
    return Findings(
        (patient(ROLE_HERE), patient(ROLE_SCHEDULER, "s"), patient(ROLE_WORKER, "w"), *others), root, **more
    )


# --- judging ------------------------------------------------------------------------------------------------------


def test_a_cluster_that_is_well_needs_nothing() -> None:
    assert to_mend(findings()) == []
    assert remarks(findings()) == []
    assert to_mend(Findings((patient(ROLE_HERE),))) == []


@pytest.mark.parametrize(
    ("found", "named"),
    [
        (findings(service_fault="it is starting"), ("job service", "it is starting")),
        (
            findings(patient(ROLE_WORKER, "x", checkup=None, fault="it is gone")),
            ("worker x: ", "it is gone", "version"),
        ),
        (Findings((patient(ROLE_HERE), patient(ROLE_SCHEDULER, "s"))), ("scheduler", "workers")),
        (
            findings(with_checkup(ROLE_WORKER, "x", versions={**VERSIONS, "numpy": "2.1.0"})),
            ("numpy", "2.2.0 on scheduler s and 1 more", "2.1.0 on worker x"),
        ),
        (
            findings(with_checkup(ROLE_WORKER, "x", kernels=Kernels(None, False, 0))),
            ("worker x: ", "DISTFOREST_KERNELS=off"),
        ),
        (findings(with_checkup(ROLE_WORKER, "x", kernels=Kernels("/c", False, 3))), ("worker x: ", "/c ")),
        (
            findings(with_checkup(ROLE_WORKER, "x", scratch=Disk("/s", "it is not writable"))),
            ("worker x: ", "it is not writable"),
        ),
        (
            findings(with_checkup(ROLE_WORKER, "x", scratch=Disk("/s", None, 5 << 20, 1))),
            ("worker x: ", "5.0 MiB", "1.0 GiB", "/s"),
        ),
        (findings(root=RootCheckup(Disk("/jobs", "denied"), False, None)), ("job root /jobs: ", "denied")),
        (findings(root=ROOT._replace(compares=False)), ("/jobs", "two services")),
        (findings(root=ROOT._replace(disk=ROOT.disk._replace(free=0))), ("/jobs", "0 B")),
        (findings(patient(ROLE_WORKER, "x", blind="denied")), ("worker x: ", "job root /jobs: ", "denied")),
        (
            findings(patient(ROLE_WORKER, "x", clock=ClockDifference(60.0, 0.1))),
            ("60.0 s ahead", "this machine"),
        ),
        (
            findings(patient(ROLE_WORKER, "x", clock=ClockDifference(-60.0, 0.1))),
            ("60.0 s behind", "this machine"),
        ),
        (
            findings(with_checkup(ROLE_WORKER, "x", certificates={"/ca.pem": 3e9, "/w.pem": 1e9})),
            ("x: ", "/w.pem", "2001-09-09"),
        ),
    ],
)
def test_what_is_wrong_is_reported_with_its_cure(found: Findings, named: tuple[str, ...]) -> None:
    [sentence] = to_mend(found)
    assert re.match(naming(*named), sentence)


def test_a_certificate_is_replaced_in_time() -> None:
    ends = {f"/{days}.pem": time.time() + 86_400 * days for days in (29, 31)}
    [sentence] = to_mend(findings(with_checkup(ROLE_SCHEDULER, "t", certificates=ends)))
    assert re.match(naming("scheduler t: ", "/29.pem"), sentence)


def test_a_port_that_is_open_to_others_is_worth_knowing() -> None:
    [sentence] = remarks(findings(with_checkup(ROLE_SCHEDULER, "t", open_address="tcp://0.0.0.0:8786")))
    assert re.match(naming("scheduler t: ", "tcp://0.0.0.0:8786", "TLS"), sentence)


def test_what_does_no_harm_is_not_wrong() -> None:
    python = {**VERSIONS, "python": "3.12.9"}
    slow = ClockDifference(20.0, 19.0)  # the answer took long, so nothing is known of the clock
    full = with_checkup(ROLE_SCHEDULER, "t", scratch=Disk("/s", "it is not writable"))  # it stages nothing
    assert (
        to_mend(findings(with_checkup(ROLE_WORKER, "x", versions=python), patient(ROLE_WORKER, "y", clock=slow), full))
        == []
    )
    assert to_mend(findings(root=RootCheckup(Disk("s3://jobs"), True, "doctor-1"))) == []


def test_what_is_worth_knowing() -> None:
    here = with_checkup(ROLE_HERE, versions={**VERSIONS, "numpy": "2.1.0"})
    found = replace(findings(), patients=(here, *findings().patients[1:]))
    assert to_mend(found) == []
    [sentence] = remarks(found)
    assert re.match(naming("numpy", "2.1.0 on this machine", "2.2.0 on scheduler s and 1 more", "`submit`"), sentence)
    busy = findings(patient(ROLE_WORKER, "x", threads=7))
    [sentence] = remarks(busy)
    assert re.match(naming("host-a: ", "9 threads", "8 cores"), sentence)
    shared = findings(root=ROOT._replace(disk=ROOT.disk._replace(device=1)))
    [sentence] = remarks(shared)
    assert re.match(naming("scratch folder", "job root", "host-a"), sentence)


# --- examining ----------------------------------------------------------------------------------------------------


def test_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTFOREST_SCRATCH", str(tmp_path / "scratch"))
    found = examined()
    assert found.scratch.folder == str(tmp_path / "scratch")
    assert found.scratch.device == os.stat(tmp_path).st_dev
    assert {"python", "distforest", "numba", "distributed"} <= set(found.versions)
    assert found.kernels.folder == str(kernel_folder())
    (tmp_path / "file").touch()
    monkeypatch.setenv("DISTFOREST_SCRATCH", str(tmp_path / "file"))
    assert "DISTFOREST_SCRATCH" in str(examined().scratch.fault)


def test_a_scratch_folder_of_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: ScratchFolder) -> None:
        raise InputError("it belongs to another user")

    monkeypatch.setattr(ScratchFolder, "check", refuse)
    assert examined().scratch.fault == "it belongs to another user"


def test_a_job_root_is_written_to_and_left_as_it_was(tmp_path: Path) -> None:
    found = probed_root(str(tmp_path))
    assert found.disk.fault is None
    assert found.compares
    assert found.probe is not None
    assert sees_probe(str(tmp_path), found.probe) is None
    assert "folder" in str(sees_probe(str(tmp_path / "elsewhere"), found.probe))
    assert "bad://" in str(sees_probe("bad://root", found.probe))
    forget_probe(str(tmp_path), found.probe)
    assert list(tmp_path.iterdir()) == []


def test_a_job_root_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "nothing" in str(probed_root(f"{tmp_path}/none").disk.fault)
    assert "a file" in str(probed_root(f"{tmp_path}/file").disk.fault)
    assert "bad://" in str(probed_root("bad://root").disk.fault)
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_a_store_that_does_not_compare() -> None:
    found = probed_root("memory://doctor/root")
    assert (found.disk, found.compares) == (Disk("memory://doctor/root"), False)
    assert found.probe is not None
    forget_probe("memory://doctor/root", found.probe)


@pytest.mark.slow
@NEEDS_S3[0]
@NEEDS_S3[1]
@pytest.mark.parametrize(("conditions", "compares"), [("kept", True), ("dropped", False), ("unknown", False)])
def test_an_object_store(store: ObjectStore, conditions: str, compares: bool) -> None:
    store.conditions = conditions
    try:
        place = store.place("root")
        found = examine_here(place, Security())
        assert found.root is not None
        assert (found.root.disk, found.root.compares) == (Disk(place), compares)
        assert len(to_mend(found)) == (not compares)
        assert Folder(place).names() == []
    finally:
        store.conditions = "kept"


def test_the_command_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTFOREST_SCRATCH", str(tmp_path / "scratch"))
    (tmp_path / "jobs").mkdir()
    code, answer = run_json("doctor", "--job-root", tmp_path / "jobs")
    assert (code, answer["healthy"], answer["mend"]) == (0, True, [])
    [own] = answer["processes"]
    assert own["role"] == ROLE_HERE
    assert own["scratch"]["folder"] == str(tmp_path / "scratch")
    assert answer["job_root"]["compares"]
    assert list((tmp_path / "jobs").iterdir()) == []
    code, out, _ = run("doctor", "--job-root", tmp_path / "none")
    assert code == 1
    assert "\nmend          job root" in out
    monkeypatch.setenv("DISTFOREST_JOB_ROOT", str(tmp_path / "none"))
    assert run_json("doctor")[0] == 1


def test_nobody_is_there() -> None:
    code, answer = run_json("doctor", "--scheduler", NOBODY)
    assert (code, answer["error"]["kind"]) == (3, "UnreachableError")


@pytest.mark.cluster
@pytest.mark.slow
def test_a_real_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(Cluster(tmp_path / "cluster")) as cluster:
        code, answer = run_json("doctor", "--scheduler", cluster.address)
        assert (code, answer["mend"]) == (0, []), answer
        assert [own["role"] for own in answer["processes"]] == [ROLE_HERE, ROLE_SCHEDULER, ROLE_WORKER, ROLE_WORKER]
        workers = answer["processes"][2:]
        assert {own["scratch"]["folder"] for own in workers} == {f"{cluster.folder}/scratch"}
        assert all(own["threads"] == 1 and abs(own["clock"]["ahead"]) < 5 for own in workers)
        assert answer["service"]["job_root"] == answer["job_root"]["folder"] == str(cluster.root)
        assert not list(cluster.root.glob("*doctor*"))
        code, out, _ = run("doctor", "--scheduler", cluster.address)
        assert code == 0
        assert out.endswith("healthy       yes\n")
        assert out.count("worker") == 1  # two on one host, which share all

        with monkeypatch.context() as patched:
            patched.setattr(examining, "VISIT_SECONDS", 3.0)
            frozen = psutil.Process(cluster.workers[0].process.pid).children()
            for process in frozen:
                process.suspend()
            code, answer = run_json("doctor", "--scheduler", cluster.address)
            for process in frozen:
                process.resume()
        assert code == 1
        [sentence] = answer["mend"]
        assert re.match(r"worker tcp://\S+: .* 3 s", sentence)

        cluster.workers[0].end()
        cluster.workers[1].end()
        until(lambda: cluster.health().get("workers") == 0)
        code, answer = run_json("doctor", "--scheduler", cluster.address)
        assert (code, answer["healthy"]) == (1, False)
        [sentence] = answer["mend"]
        assert "`dask worker ADDRESS`" in sentence


@pytest.mark.slow
@pytest.mark.cluster
def test_a_scheduler_without_a_service(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "cluster", n_workers=0)
    address = f"tcp://127.0.0.1:{(port := free_port())}"
    here = ("--host", "127.0.0.1", "--port", str(port), "--dashboard-address", "127.0.0.1:0")
    plain = cluster.run("plain", "-m", "dask", "scheduler", *here)
    try:
        until(lambda: "Scheduler at" in plain.said)
        code, answer = run_json("doctor", "--scheduler", address)
        assert (code, answer["service"], answer["job_root"]) == (1, None, None)
        assert [own["role"] for own in answer["processes"]] == [ROLE_HERE, ROLE_SCHEDULER]
    finally:
        plain.end()
