"""The compose file: it is one, and its own commands finish a job although each container is killed."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from distforest.forest.sealed.artifact import open_forest
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.spec import Spec
from distforest.jobs.train import fit_here
from distforest.service.registry import ENDS, Registry
from distforest.sources.arrays import write_array
from tests.deploy.containers import ROOT, Host, from_image, read, restarts
from tests.programs import program
from tests.service.processes import make_certificates
from tests.simulated import helix

FILE, TLS = ROOT / "docker-compose.yml", ROOT / "deploy" / "compose.tls.yml"
JOB = """
format = 1
method = "urerf"
seed = 7
output = "/data/helix.forest.zarr"
[input]
features = "/data/helix.zarr/X"
[params]
n_estimators = 500
feature_weights = "none"
[run]
batch = 1
"""


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What a checker of JSON schemas says of a file."""
    checker = program("check-jsonschema")
    if checker is None:
        pytest.skip("check-jsonschema is missing: pip install check-jsonschema")
    return subprocess.run([checker, *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("file", [FILE, TLS], ids=lambda file: file.name)
def test_the_file_is_valid(file: Path) -> None:
    checked = check("--builtin-schema", "vendor.compose-spec", str(file))
    assert checked.returncode == 0, checked.stdout


@pytest.mark.slow
def test_a_misspelt_key_is_found(tmp_path: Path) -> None:
    said = yaml.safe_load(FILE.read_text())
    said["services"]["worker"]["healthcheck"]["start_perod"] = "1s"
    wrong = tmp_path / "docker-compose.yml"
    wrong.write_text(yaml.safe_dump(said))
    assert "start_perod" in check("--builtin-schema", "vendor.compose-spec", str(wrong)).stdout


def test_what_is_to_stay_up_is_started_again_even_after_exit_code_0() -> None:
    services = read(FILE)["services"]
    stay = {name for name, said in services.items() if restarts(said.get("restart", "no"), 0)}
    assert stay == {"scheduler", "worker", "store"}
    assert {said["restart"] for name, said in services.items() if name not in stay} == {"no", "on-failure"}


def test_containers_are_confined() -> None:
    services = read(FILE)["services"]
    assert all(said["security_opt"] == ["no-new-privileges:true"] for said in services.values())
    for said in (said for said in services.values() if said["image"].startswith("distforest")):
        assert said["read_only"]
        assert said["cap_drop"] == ["ALL"]
        assert {volume.rsplit(":", 1)[1] for volume in said["volumes"]} >= {"/data", "/scratch"}
        assert "user" not in said  # that of the image
    published = [port for said in services.values() for port in said.get("ports", [])]
    assert published == ["127.0.0.1:8786:8786", "127.0.0.1:8787:8787"]


def test_images_of_others_are_pinned_by_digest() -> None:
    images = {said["image"] for said in read(FILE)["services"].values()}
    others = {image for image in images if not image.startswith("distforest:")}
    assert len(others) == 1
    assert all("@sha256:" in image for image in others)


def test_a_worker_has_room_beside_the_limit_of_its_nanny() -> None:
    from dask.utils import parse_bytes

    worker = read(FILE)["services"]["worker"]
    (limit,) = [word.split("=")[1] for word in worker["command"] if word.startswith("--memory-limit=")]
    container = worker["deploy"]["resources"]["limits"]["memory"]
    assert 1.1 * parse_bytes(limit) < parse_bytes(container)


def test_every_key_is_given_to_one_service_alone() -> None:
    services = read(FILE, TLS)["services"]
    keys = {
        name: [secret for secret in said.get("secrets", []) if secret.endswith("-key")]
        for name, said in services.items()
    }
    assert {name: found for name, found in keys.items() if found} == {
        "scheduler": ["scheduler-key"],
        "worker": ["worker-key"],
        "client": ["client-key"],
        "submit": ["client-key"],
    }
    for name, said in services.items():
        paths = {value for value in said["environment"].values() if value.startswith("/run/secrets/")}
        assert paths == {f"/run/secrets/{secret}" for secret in said.get("secrets", [])}, name


def test_each_variable_is_reported() -> None:
    told = (ROOT / "deploy" / "README.md").read_text()
    variables = set(re.findall(r"\$\{(\w+)", FILE.read_text() + TLS.read_text()))
    own = {"DASK_SCHEDULER_ADDRESS", "DISTFOREST_CERTIFICATES", "DISTFOREST_VERSION"}
    assert own < variables
    assert [name for name in sorted(variables - own) if f"`{name}`" not in told] == []


def test_the_image_says_where_everything_is_written() -> None:
    said = from_image()
    assert {said["NUMBA_CACHE_DIR"], said["DISTFOREST_SCRATCH"]} == {"/scratch/numba", "/scratch/staged"}
    assert said["NUMBA_NUM_THREADS"] == said["OMP_NUM_THREADS"] == "1"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """An engine with the compose file, a job in its folder of jobs, and the job's input in its volume."""
    jobs = tmp_path / "jobs"
    host = Host(read(FILE, DISTFOREST_JOBS=str(jobs)), tmp_path / "volumes")
    X = helix(300).X
    write_array(host.outside("client", 0, "/data/helix.zarr"), "X", X.shape, X.dtype, [X])
    (jobs / "helix.toml").write_text(host.outside("client", 0, JOB))
    yield host
    host.down()


@pytest.mark.cluster
@pytest.mark.slow
def test_a_job_is_finished_although_each_container_is_killed(host: Host) -> None:
    (scheduler,) = host.up("scheduler")
    host.until("the scheduler is healthy", lambda: host.healthy("scheduler"))
    workers = host.up("worker")
    assert len(workers) == 2
    sent = host.run("submit", "distforest", "submit", "/jobs/helix.toml", "--id", "killed")
    assert sent.returncode == 0, sent.stderr
    registry = Registry(str(host.folder / "data" / "jobs"))

    def commits() -> int:
        return sum(event["event"] == "trees" for event in registry.events("killed"))

    host.until("trees are there", lambda: commits() > 0)
    scheduler.kill()
    host.until("the workers end with their scheduler", lambda: all(worker.exits for worker in workers))
    before = commits()
    host.until("more trees are there", lambda: commits() > before)
    for worker in workers:
        worker.kill()
    host.until("the workers are dead", lambda: all(len(worker.exits) == 2 for worker in workers))
    host.until("the job has ended", lambda: registry.job("killed", time.time())["state"] in ENDS)

    assert scheduler.exits == [-signal.SIGKILL]
    # by themselves they end with 0, after which `on-failure` would leave none of them
    assert [worker.exits for worker in workers] == [[0, -signal.SIGKILL]] * 2
    found = registry.job("killed", time.time())
    assert (found["state"], found["error"]) == ("SUCCEEDED", None)
    assert found["result"]["digest"] == open_forest(found["output"]).digest == digest_here(host)


@pytest.mark.cluster
@pytest.mark.slow
def test_a_job_over_tls_whose_data_and_forest_lie_in_the_store(tmp_path: Path) -> None:
    moto = program("moto_server")
    if moto is None:
        pytest.skip("moto_server is missing: pip install 'moto[server]'")
    jobs, keys = tmp_path / "jobs", tmp_path / "keys"
    make_certificates(keys)
    said = {
        "DISTFOREST_CERTIFICATES": str(keys),
        "DISTFOREST_JOBS": str(jobs),
        "DISTFOREST_JOB_ROOT": "s3://distforest/jobs",
        "DISTFOREST_WORKERS": "1",
    }
    host = Host(read(FILE, TLS, **said), tmp_path / "volumes")
    host.compose["services"]["store"] |= {"command": [moto, "--host=127.0.0.1", "--port=9000"], "restart": "no"}
    try:
        host.up("store")
        host.until("the store answers", lambda: host.run("bucket").returncode == 0)
        jobs.mkdir(exist_ok=True)
        shutil.copy(ROOT / "deploy" / "jobs" / "helix.py", jobs)
        made = host.run("client", "python", "/jobs/helix.py", "s3://distforest/helix.zarr")
        assert made.returncode == 0, made.stderr
        (jobs / "helix.toml").write_text(JOB.replace("/data/", "s3://distforest/").replace("= 500", "= 20"))
        host.up("scheduler")
        host.until("the scheduler is healthy", lambda: host.healthy("scheduler"))
        host.up("worker")
        done = host.run("submit")
        assert done.returncode == 0, f"{done.stderr}\n{host.logs()}"
        listed = host.run("client", "distforest", "list", "--job-root", "s3://distforest/jobs", "--json")
        (job,) = json.loads(listed.stdout)["jobs"]
        assert (job["state"], job["output"]) == ("SUCCEEDED", "s3://distforest/helix.forest.zarr")
        host.compose = read(FILE, **said)
        stranger = host.run("client")
        assert stranger.returncode == 3, stranger.stderr
    finally:
        host.down()


def digest_here(host: Host) -> str:
    """The digest of the job's forest when it is grown in one thread, in memory."""
    spec = Spec.from_toml(host.folder.parent / "jobs" / "helix.toml")
    return fit_here(stage_inputs(spec, str(host.folder / "here")).problem()).digest
