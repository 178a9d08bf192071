"""A service that does nothing: a Dask server in a thread that answers the real one's calls as it is told."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Self

from distributed import Security
from distributed.core import Server, Status

JOB = {
    "format": 1,
    "id": "smerf-20261122-0102-4f3a",
    "state": "RUNNING",
    "revision": 17,
    "kind": "fit",
    "method": "smerf",
    "output": "/data/x.forest.zarr",
    "service": "ab12",
    "heartbeat": 1795309320.0,
    "submitted": 1795309200.0,
    "started": 1795309210.0,
    "ended": None,
    "phase": "grow",
    "done": 120,
    "total": 500,
    "rate": 20.0,
    "remaining": 19.0,
    "n_trees": 500,
    "workers": 2,
    "retries": 0,
    "lost_workers": 0,
    "attempt": 1,
    "error": None,
    "result": None,
}
RESULT = {
    "forest": "/data/x.forest.zarr",
    "digest": "d" * 64,
    "n_trees": 500,
    "n_grown": 500,
    "seconds": 25.0,
    "peak_bytes": 3 << 20,
}
SUCCEEDED = {**JOB, "state": "SUCCEEDED", "done": 500, "ended": 1795309240.0, "remaining": 0.0, "result": RESULT}
FAILED = {**JOB, "state": "FAILED", "ended": 1795309240.0, "error": {"kind": "MemoryLimitError", "message": "too big"}}
CANCELLED = {**JOB, "state": "CANCELLED", "ended": 1795309240.0}
ABOUT = {"id": "ab12", "address": "tcp://127.0.0.1:8786", "job_root": "/jobs", "version": "1.0", "workers": 2}


def refusal(kind: str, message: str, *faults: str) -> dict[str, Any]:
    return {"error": {"kind": kind, "message": message, "faults": list(faults or [message])}}


class FakeService:
    """Answers each operation with what ``answers`` has for it: a dict, or a list of which one after the other is told.

    Of a list the last one is told for ever. In place of an answer, None breaks the connection off, ``...`` is silence.

    Attributes
    ----------
    address
        Where it listens.
    asked
        Operation and arguments of each call.
    """

    def __init__(self, answers: dict[str, Any], security: Security | None = None, port: int = 0) -> None:
        self.answers, self.asked = answers, list[tuple[str, dict[str, Any]]]()
        self._security, self._port, self._ready = security, port, threading.Event()
        self.address = ""

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening, and break off what is connected."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(60)
        assert not self._thread.is_alive()

    async def _main(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        server = Server({f"distforest_{name}": self._handler(name) for name in self.answers})
        protocol = "tls" if self._security else "tcp"
        arguments = self._security.get_listen_args("scheduler") if self._security else {}
        await server.listen(f"{protocol}://127.0.0.1:{self._port}", **arguments)
        await server
        self.address = server.address
        self._ready.set()
        await self._end.wait()
        await server.close()

    def _handler(self, name: str) -> Any:
        def handler(comm: Any, **asked: Any) -> Any:
            asked.pop("reply", None)
            self.asked.append((name, asked))
            answer = self.answers[name]
            if isinstance(answer, list):
                answer = answer.pop(0) if len(answer) > 1 else answer[0]
            if answer is None:
                comm.abort()
            if answer is ...:
                return Status.dont_reply
            if isinstance(answer, Exception):
                raise answer
            return answer

        return handler
