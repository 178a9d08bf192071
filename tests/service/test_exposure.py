"""What a scheduler tells of its certificates and of a port that is open to others."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import dask.config
import pytest
from distributed import Scheduler, Security

from distforest.service.checkup import PAGES_CERTIFICATE, expiries, open_address
from tests.messages import naming
from tests.service.processes import make_certificates
from tests.service.test_service import in_a_service

pytest.importorskip("cryptography", reason="certificates are read by cryptography")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of the recipe."""
    own = tmp_path_factory.mktemp("tls") / "own"
    make_certificates(own)
    return own


def expiry(path: str) -> float:
    """The Unix time at which a certificate expires, as openssl tells it."""
    asked = ["openssl", "x509", "-noout", "-enddate", "-in", path]
    told = subprocess.run(asked, check=True, capture_output=True, text=True, timeout=60).stdout
    return ssl.cert_time_to_seconds(told.removeprefix("notAfter=").strip())


def test_certificates_expire_as_they_say(folder: Path, tmp_path: Path) -> None:
    ca, worker, scheduler = (str(folder / f"{name}.pem") for name in ("ca", "worker", "scheduler"))
    ends = {path: expiry(path) for path in (ca, worker, scheduler)}
    security = Security(tls_ca_file=ca, tls_worker_cert=worker, tls_scheduler_cert=str(tmp_path / "gone.pem"))
    assert expiries(security, "worker") == {ca: ends[ca], worker: ends[worker]}
    with dask.config.set({PAGES_CERTIFICATE: scheduler}):
        assert expiries(security, "scheduler") == {ca: ends[ca], scheduler: ends[scheduler]}
        assert expiries(security, "client") == {ca: ends[ca]}
    (tmp_path / "gone.pem").write_text("no certificate")
    assert expiries(security, "scheduler") == {ca: ends[ca]}
    assert expiries(Security(tls_ca_file=Path(ca).read_text()), "client") == {"in memory": ends[ca]}
    assert expiries(Security(), "scheduler") == {}


@pytest.mark.parametrize(("host", "is_open"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_a_port_is_open_if_others_reach_it_without_tls(host: str, is_open: bool, folder: Path) -> None:
    files = {
        "tls_scheduler_cert": str(folder / "scheduler.pem"),
        "tls_scheduler_key": str(folder / "scheduler-key.pem"),
    }
    closed = Security(tls_ca_file=str(folder / "ca.pem"), require_encryption=True, **files)

    async def found(security: Security, protocol: str) -> str | None:
        options = {"host": host, "port": 0, "dashboard": False, "dashboard_address": "127.0.0.1:0"}
        async with Scheduler(security=security, protocol=protocol, **options) as scheduler:
            return open_address(scheduler)

    address = asyncio.run(found(Security(), "tcp"))
    assert (address or "").startswith("tcp://0.0.0.0:") == is_open
    assert (address is not None) == is_open
    assert asyncio.run(found(closed, "tls")) is None


def test_a_service_warns_of_an_open_port(
    root: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("distforest.service.jobs.open_address", lambda _scheduler: "tcp://0.0.0.0:8786")

    async def use(*_: object) -> None:
        pass

    in_a_service(root, use)
    assert re.search(naming("tcp://0.0.0.0:8786", "TLS"), caplog.text)


LOGGING = """
import logging
import distributed
from distforest.service import log_as_json
log_as_json()
log_as_json()
logging.getLogger("distforest").info("trees %d to %d\\nare committed", 0, 7, extra={"job": "nightly"})
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("distributed.scheduler").exception("a division has failed")
"""


def test_logs_are_objects() -> None:
    done = subprocess.run([sys.executable, "-c", LOGGING], capture_output=True, text=True, check=True, timeout=120)
    first, second = map(json.loads, done.stderr.splitlines())
    assert datetime.fromisoformat(first.pop("time")).tzinfo is not None
    message = "trees 0 to 7\nare committed"
    assert first == {"level": "INFO", "logger": "distforest", "job": "nightly", "message": message}
    assert (second["level"], second["logger"], "job" in second) == ("ERROR", "distributed.scheduler", False)
    assert re.match(naming("a division has failed", "Traceback", "ZeroDivisionError"), second["message"])
