"""Jobs that never run: specs that the service takes in, states that it writes."""

from __future__ import annotations

from typing import Any

from distforest.jobs.spec import Spec
from distforest.service.job import first_state

NOWHERE = "memory://nowhere"
"""Where their outputs would lie."""


def spec_text(name: str = "a", **changed: Any) -> str:
    table = {"format": 1, "method": "smerf", "output": f"{NOWHERE}/{name}.zarr", "params": {"n_estimators": 7}}
    return Spec.from_dict({**table, "input": {"features": "/x/X", "distances": "/x/Z"}, **changed}).to_json()


def state_of(name: str = "a", **changed: Any) -> dict[str, Any]:
    return {**first_state(name, Spec.from_json(spec_text(name)), 100.0), **changed}


def event(n: int, kind: str = "running", **more: Any) -> dict[str, Any]:
    return {"n": n, "time": 100.0 + n, "event": kind, "message": f"number {n}", **more}
