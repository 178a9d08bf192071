"""Workers of an embedded cluster that compile kernels say so, once, to who has started the cluster."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Self

from distforest import jit
from distforest.jobs import on_dask
from distforest.jobs.on_dask import local_cluster

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


class WorkersHere:
    """A cluster, its client and two workers, all of them this object."""

    def __init__(self) -> None:
        self.handlers: dict[str, Callable[[tuple[float, str]], None]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def run(self, function: Callable[..., Any]) -> None:
        for _ in range(2):
            function(*([self] if "dask_worker" in inspect.signature(function).parameters else []))

    def subscribe_topic(self, topic: str, handler: Callable[[tuple[float, str]], None]) -> None:
        self.handlers[topic] = handler

    def log_event(self, topic: str, text: str) -> None:
        self.handlers[topic]((0.0, text))


def test_workers_that_compile_are_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    here, asked, words = WorkersHere(), list[Any](), list[str]()
    for name in ("LocalCluster", "Client"):
        monkeypatch.setattr(on_dask, name, lambda *_arguments, **_options: here)
    monkeypatch.setattr(on_dask, "end_sooner", lambda: None)
    monkeypatch.setattr(jit, "report_compilation", asked.append)
    with local_cluster(2, tell=words.append):
        for tell in asked:
            tell(jit.COMPILE)
    assert (len(asked), words) == (2, [jit.COMPILE])
    with local_cluster(2):
        assert len(asked) == 2
