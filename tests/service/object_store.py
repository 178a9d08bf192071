"""An S3 store for tests: moto's server in a process of its own, and before it a proxy that fails as it is told to."""

from __future__ import annotations

import http.client
import importlib.util
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.service.processes import until

BUCKET = "forests"

MISSING = [name for name in ("moto", "flask", "s3fs") if importlib.util.find_spec(name) is None]
NEEDS_S3 = [
    pytest.mark.cluster,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]
"""Marks of tests that need the store, and packages for it."""

SLOW_SECONDS = 0.3
"""What a slow answer stops for, in its middle."""

OF_THE_CONNECTION = {"connection", "transfer-encoding", "keep-alive", "content-length", "date", "server", "expect"}
"""Headers that a proxy does not hand on."""

REFUSALS = {"500": (500, "InternalError"), "503": (503, "ServiceUnavailable"), "unknown": (501, "NotImplemented")}
"""What the proxy answers itself, by the name of the fault."""

CONDITIONS = {"if-match", "if-none-match"}
"""Headers by which a store is asked to compare."""


@dataclass(frozen=True)
class Fault:
    """What happens to each ``every``-th request of a method, if ``within`` is in its path; so often at most.

    ``kind`` is "500" or "503", an answer without asking the store; "refused", the connection is closed at once; "cut",
    it is closed in the middle of the answer's content; "lost", before the answer of a store that has done what it was
    asked; "slow".
    """

    kind: str
    method: str
    every: int = 1
    within: str = ""
    times: int = sys.maxsize


@dataclass
class ObjectStore:
    """The store: how processes reach it, what went wrong there, and what was asked of it.

    ``conditions`` of what is written or deleted are "kept"; or "dropped" without a word, as by older stores of the
    kind, or "unknown", which is an answer.
    """

    endpoint: str
    conditions: str = "kept"
    faults: list[Fault] = field(default_factory=list)
    struck: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    _seen: Counter[Fault] = field(default_factory=Counter)
    _own: threading.Lock = field(default_factory=threading.Lock)

    @property
    def environment(self) -> dict[str, str]:
        """What processes must have in their environment to reach it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "NO_PROXY": "127.0.0.1",
        }

    def place(self, name: str) -> str:
        """An address that nobody else has."""
        return f"s3://{BUCKET}/{name}-{uuid.uuid4().hex[:8]}"

    @contextmanager
    def failing(self, *faults: Fault) -> Iterator[Counter[str]]:
        """Let faults happen within a block; gives what has happened by then, by their kinds."""
        with self._own:
            self.faults, self.struck = list(faults), Counter()
            self._seen.clear()
        try:
            yield self.struck
        finally:
            self.faults = []

    def due(self, method: str, path: str) -> str | None:
        """The kind of the fault that happens to a request, if one does."""
        with self._own:
            self.asked[method] += 1
            for fault in self.faults:
                if fault.method != method or fault.within not in path:
                    continue
                self._seen[fault] += 1
                number = self._seen[fault]
                if number % fault.every == 0 and number <= fault.times * fault.every:
                    self.struck[fault.kind] += 1
                    return fault.kind
        return None


class _Handler(BaseHTTPRequestHandler):
    """Hands one connection's requests on to the store, or does what is due."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm, wbufsize = True, -1  # or each answer would wait for the client to acknowledge its head
    server: _Proxy

    def setup(self) -> None:
        super().setup()
        self.behind = http.client.HTTPConnection("127.0.0.1", self.server.port_behind, timeout=60)

    def finish(self) -> None:
        self.behind.close()
        with suppress(OSError):
            super().finish()

    def handle_expect_100(self) -> bool:
        """Tell a client that asks first to send its content, at once."""
        goes_on = super().handle_expect_100()
        self.wfile.flush()
        return goes_on

    def _hand_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kind, conditions = self.server.store.due(self.command, self.path), self.server.store.conditions
        if conditions != "kept" and self.command in ("PUT", "DELETE"):
            asked = [name for name in self.headers if name.lower() in CONDITIONS]
            kind = conditions if asked and conditions in REFUSALS else kind
            for name in asked:
                del self.headers[name]
        if kind == "refused":
            self._hang_up()
        elif kind in REFUSALS:
            self._refuse(*REFUSALS[kind])
        else:
            self._answer(kind, body)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _hand_on  # noqa: N815  (the base class names them)

    def _answer(self, kind: str | None, body: bytes) -> None:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in OF_THE_CONNECTION}
        self.behind.request(self.command, self.path, body, headers)
        answer = self.behind.getresponse()
        content = answer.read()
        if kind == "lost":
            self._hang_up()
            return
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in OF_THE_CONNECTION or (name.lower() == "content-length" and self.command == "HEAD"):
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        half = len(content) // 2
        self.wfile.write(content[:half])
        if kind == "cut":
            self._hang_up()
            return
        if kind == "slow":
            self.wfile.flush()
            time.sleep(SLOW_SECONDS)
        self.wfile.write(content[half:])
        self.wfile.flush()

    def _refuse(self, status: int, code: str) -> None:
        content = b"" if self.command == "HEAD" else f"<Error><Code>{code}</Code><Message>so</Message></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def _hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port_behind: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port_behind = port_behind
        self.store = ObjectStore(f"http://127.0.0.1:{self.server_address[1]}")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has hung up is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """A store with one empty bucket; what it says is logged in a folder."""
    log = folder / "moto.log"
    with log.open("wb") as out:
        command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
        server = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder)
    try:
        found = until(lambda: re.search(r"Running on http://127.0.0.1:(\d+)", log.read_text(errors="replace")))
        with _Proxy(int(found[1])) as proxy:
            threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True).start()
            try:
                yield proxy.store
            finally:
                proxy.shutdown()
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()


def let_go() -> None:
    """Close what this process has open to any store, and forget it: the next one who asks connects anew."""
    from fsspec.asyn import sync
    from s3fs import S3FileSystem
    from zarr.core.sync import _get_loop

    for client in S3FileSystem._cache.values():
        if client._s3 is not None:
            sync(client._loop or _get_loop(), client._s3creator.__aexit__, None, None, None)
    S3FileSystem.clear_instance_cache()


@contextmanager
def reached_store(folder: Path) -> Iterator[ObjectStore]:
    """The store, which this process reaches too, with its bucket."""
    with object_store(folder) as store, pytest.MonkeyPatch.context() as patch:
        for name, value in store.environment.items():
            patch.setenv(name, value)
        fsspec.filesystem("s3", use_listings_cache=False).mkdir(BUCKET)
        yield store
        let_go()
