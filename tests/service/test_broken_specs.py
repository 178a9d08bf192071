"""Specs with a fault, handed in to a real service: each is refused by the name of its key, and leaves no trace.

`tests/jobs/test_spec.py` has the faults of every key; here are a few of them, and what only a service meets.
"""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from distributed import LocalCluster
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distforest.jobs.any_spec import spec_from_dict
from distforest.service.job import first_state
from distforest.service.policy import Policy
from distforest.service.registry import Registry
from distforest.service.running import check_allowed
from tests.messages import naming
from tests.service.processes import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(60)]

ALLOWED = "/data"
FIT = {
    "format": 1,
    "method": "smerf",
    "seed": 7,
    "output": "/data/wine.forest.zarr",
    "input": {"features": "/data/wine.zarr/X", "distances": {"kind": "dense", "matrix": "/data/wine.zarr/Z"}},
    "params": {"n_estimators": 10},
}
LAZY = {
    "format": 1,
    "method": "simforest",
    "output": "/data/words.forest.zarr",
    "input": {
        "similarity": {"kind": "lazy", "function": "ours:alike", "objects": "/data/words.zarr/words"},
        "labels": "/data/words.zarr/y",
    },
}
SCORE = {
    "format": 1,
    "job": "score",
    "output": "/data/near.zarr",
    "input": {"forest": "/data/wine.forest.zarr", "queries": "/data/wine.zarr/X"},
    "params": {"answer": "neighbors", "n_neighbors": 3},
}
SOUND = (FIT, LAZY, SCORE)

Path_ = tuple[str, ...]


class Broken(NamedTuple):
    """What is handed in as a spec, and the place that the refusal must name; or another one of that."""

    spec: object
    place: str
    other: str | None = None


# --- a service that is handed broken specs ----------------------------------------------------------------


class Door:
    """The comm of a service without workers, and its job root."""

    def __init__(self, cluster: LocalCluster, root: Path) -> None:
        self._cluster = cluster
        self.root = root

    def ask(self, name: str, **asked: object) -> dict[str, Any]:
        """Call a handler of the service."""
        call = getattr(self._cluster.scheduler_comm, f"distforest_{name}")
        answer = self._cluster.sync(call, **asked)
        assert isinstance(answer, dict), f"{name} answers {answer!r}"
        return answer

    def is_untouched(self) -> bool:
        """Whether there is no job, in the service or in its root."""
        files = {path.name for path in self.root.iterdir() if path.suffix != ".partial"}  # of the next heartbeat
        return self.ask("list")["jobs"] == [] and files == {"service.json", ".service.json.lock"}


@contextmanager
def serving_door(root: Path) -> Iterator[Door]:
    """A service that allows what the sound specs name."""
    options = ["--job-root", str(root), "--allow-prefix", ALLOWED, "--allow-callback", "ours:alike"]
    scheduler = {"preload": ["distforest.service"], "preload_argv": options}
    with LocalCluster(
        n_workers=0, processes=False, dashboard_address="127.0.0.1:0", scheduler_kwargs=scheduler, silence_logs=50
    ) as cluster:
        found = Door(cluster, root)
        until(lambda: "service" in found.ask("health"))
        yield found


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with serving_door(tmp_path_factory.mktemp("jobs")) as found:
        yield found


def check_refused(answer: dict[str, Any], place: str, other: str | None = None) -> None:
    """The answer is a refusal, one of its faults is of this place, and each is one line that can be printed."""
    assert "error" in answer, answer
    error = answer["error"]
    assert error["kind"] in ("SpecError", "InputError"), error
    assert error["message"]
    faults = error["faults"]
    assert any(fault.startswith((f"{place}: ", f"{other or place}: ")) for fault in faults), (place, faults)
    assert all(fault.isprintable() and len(fault) < 1000 for fault in faults)


@pytest.mark.parametrize("table", SOUND, ids=["fit", "lazy", "score"])
def test_the_specs_are_sound_before_they_are_broken(door: Door, table: dict[str, Any]) -> None:
    spec_from_dict(table)
    answer = door.ask("submit", spec=json.dumps({**table, "zz": 1}))
    check_refused(answer, "zz")
    assert len(answer["error"]["faults"]) == 1


def test_the_stores_and_functions_of_the_specs_are_allowed() -> None:
    policy = Policy(prefixes=(ALLOWED,), callbacks=("ours:alike",))
    for table in SOUND:
        check_allowed(spec_from_dict(table), policy)


# --- how a spec is broken ---------------------------------------------------------------------------------


def put(table: dict[str, Any], place: Path_, value: object) -> dict[str, Any]:
    """A copy of a table with another value at a place."""
    copied = copy.deepcopy(table)
    inner = copied
    for name in place[:-1]:
        inner = inner.setdefault(name, {})
    inner[place[-1]] = value
    return copied


def as_text(table: object, place: Path_ | str) -> Broken:
    return Broken(json.dumps(table), place if isinstance(place, str) else ".".join(place))


OUT_OF_RANGE: list[tuple[dict[str, Any], Path_, list[object]]] = [
    (FIT, ("params", "n_estimators"), [0, -1, 100_001, 2**31, 2**62, 1.5, True, "10"]),
    (FIT, ("input", "distances", "kind"), ["dens", "labels ", ""]),
    (LAZY, ("input", "similarity", "budget"), [-1, 2**63]),
    (SCORE, ("params", "n_neighbors"), [0, -1, 2**63]),
]


@st.composite
def out_of_range(draw: st.DrawFn) -> Broken:
    """A key holds a value that it may not."""
    table, place, values = draw(st.sampled_from(OUT_OF_RANGE))
    return as_text(put(table, place, draw(st.sampled_from(values))), place)


@st.composite
def deep(draw: st.DrawFn) -> Broken:
    """Brackets within brackets in place of one value; where they are too deep or not closed the text is no JSON."""
    depth, end = draw(st.integers(2, 200) | st.integers(2000, 20_000)), draw(st.sampled_from(["1", ""]))
    opened, closed = draw(st.sampled_from([("[", "]"), ('{"a":', "}")]))
    nested = opened * depth + (end + closed * depth if end else "")
    table, place = draw(st.sampled_from([(FIT, ("seed",)), (FIT, ("input", "features")), (SCORE, ("run", "batch"))]))
    text = json.dumps(put(table, place, "HERE")).replace('"HERE"', nested)
    if not end or depth <= 200:
        return Broken(text, ".".join(place) if end else "spec")
    return Broken(text, "spec", ".".join(place))  # by how deep Python may go just now


@st.composite
def cut(draw: st.DrawFn) -> Broken:
    """A text that is no JSON: cut off, with junk before or after it, or of another language."""
    text = json.dumps(draw(st.sampled_from(SOUND)))
    junk = draw(st.sampled_from(["x", "{", "]", "\0", "'", ",,", "\\u12"]))
    wrong = [
        text[: draw(st.integers(0, len(text) - 1))],
        junk + text,
        text + junk,
        text.replace('"', "'"),
        "format = 1",
    ]
    return Broken(draw(st.sampled_from(wrong)), "spec")


NO_TEXTS: list[object] = [None, 5, True, 1.5, [], ["{}"], {}, {"format": 1}, b"{}", b"\xff\xfe"]


@st.composite
def no_text(draw: st.DrawFn) -> Broken:
    """Something else than a text, or one that is too long."""
    if draw(st.booleans()):
        return Broken(draw(st.sampled_from(NO_TEXTS)), "spec")
    return as_text({**FIT, "zz": "x" * draw(st.integers(65_536, 200_000))}, "spec")


ADDRESSES = [
    *((FIT, place) for place in (("output",), ("input", "features"), ("input", "distances", "matrix"))),
    *((FIT, place) for place in (("run", "scratch"), ("input", "feature_weights"))),
    *((LAZY, ("input", "similarity", name)) for name in ("objects", "ledger")),
    *((SCORE, ("input", name)) for name in ("forest", "queries", "reference", "pairs")),
]
ELSEWHERE = [
    *("x.zarr", "../x.zarr", "~/x.zarr", "/etc/x.zarr", "/database/x.zarr", "/data/../etc/x.zarr"),
    *("/data/%2e%2e/etc/x.zarr", "s3://data/x.zarr", "http://169.254.169.254/x.zarr", "zip:///data/x.zarr"),
    *(
        "simplecache::s3://data/x.zarr",
        "/data/a::/etc/x.zarr",
        "file://data/x.zarr",
        "/data//x.zarr",
        "x" * 9999 + ".zarr",
    ),
]


@st.composite
def elsewhere(draw: st.DrawFn) -> Broken:
    """An address is not allowed."""
    table, place = draw(st.sampled_from(ADDRESSES))
    return as_text(put(table, place, draw(st.sampled_from(ELSEWHERE))), place)


@st.composite
def uncalled(draw: st.DrawFn) -> Broken:
    """A function is not allowed."""
    function = draw(
        st.sampled_from(["os:system", "ours:other", "ours:*", "ours", ":alike", "builtins:eval", "ours:alike.x"])
    )
    if draw(st.booleans()):
        return as_text(put(LAZY, ("input", "similarity", "function"), function), "input.similarity.function")
    return as_text(put(SCORE, ("input", "similarity"), function), "input.similarity")


BROKEN = st.one_of(out_of_range(), deep(), cut(), elsewhere(), uncalled(), no_text())


# --- the tests --------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(broken=BROKEN)
def test_every_broken_spec_is_refused_by_the_name_of_its_key(door: Door, broken: Broken) -> None:
    check_refused(door.ask("submit", spec=broken.spec, id="broken"), broken.place, broken.other)
    assert door.is_untouched()


IDS: list[object] = [*("", "../x", "a/b", ".", "..", "A", "a" * 65, "a\0", "é", "a..b"), 5, ["a"]]


def test_a_kind_refuses_the_keys_of_another_kind(door: Door) -> None:
    answer = door.ask("submit", spec=json.dumps(put(FIT, ("input", "distances", "kind"), "lazy")))
    check_refused(answer, "input.distances.matrix")
    check_refused(answer, "input.distances.function")


@pytest.mark.parametrize("id_", IDS)
def test_an_id_that_can_be_no_folder_is_refused(door: Door, id_: object) -> None:
    check_refused(door.ask("submit", spec=json.dumps(FIT), id=id_), "id")
    assert door.is_untouched()


CALLS: list[tuple[str, dict[str, object]]] = [
    *(
        (name, {"id": id_})
        for name in ("status", "cancel", "resume", "remove", "events")
        for id_ in ("nobody", 5, None, [])
    ),
    *(("events", {"id": "nobody", "after": after}) for after in ("x", None, [], 1e400)),
    *((name, {}) for name in ("submit", "status", "cancel", "resume", "remove", "events")),
    *((name, {"zz": 1}) for name in ("submit", "list", "health")),
]


@pytest.mark.parametrize(("name", "asked"), CALLS)
def test_a_call_that_means_nothing_is_refused(door: Door, name: str, asked: dict[str, object]) -> None:
    answer = door.ask(name, **asked)
    assert answer["error"]["message"], answer
    assert door.is_untouched()


def test_the_service_is_well_after_all_of_them(door: Door) -> None:
    assert door.ask("health")["service"]["job_root"] == str(door.root)
    assert door.is_untouched()


# --- what was written into the job root by somebody else --------------------------------------------------

FORGED = [
    (put(FIT, ("input", "features"), "/etc/x.zarr"), ("input.features", "'/etc/x.zarr'")),
    (put(LAZY, ("input", "similarity", "function"), "os:system"), ("input.similarity.function", "'os:system'")),
    (put(SCORE, ("output",), "http://169.254.169.254/x.zarr"), ("output", "'http://169.254.169.254/x.zarr'")),
]
DAMAGED = [b"", b"{", b"[]", b"5", b"null", b'"x"', b"\xff\xfe", b"{}", b'{"state": []}', b'{"state": "X"}']
"""What a file may hold that was cut off, or is somebody else's."""


@pytest.mark.slow
def test_a_spec_that_is_found_in_the_job_root_is_checked_before_it_runs(tmp_path: Path) -> None:
    registry = Registry(str(tmp_path))
    for number, (table, _) in enumerate(FORGED):
        state = first_state(f"forged-{number}", spec_from_dict(table), 1.0)
        registry.create(state["id"], json.dumps(table), state)
    with serving_door(tmp_path) as door:
        for number, (_, named) in enumerate(FORGED):
            job = until(lambda name=f"forged-{number}": ended(door, name))  # type: ignore[misc]
            assert job["state"] == "FAILED"
            assert re.match(naming(*named), job["error"]["message"])


def ended(door: Door, name: str) -> dict[str, Any] | None:
    job: dict[str, Any] = door.ask("status", id=name)["job"]
    return job if job["state"] in ("SUCCEEDED", "FAILED", "CANCELLED") else None


def test_a_service_comes_up_whatever_is_damaged_in_its_job_root(tmp_path: Path) -> None:
    sound = json.dumps(first_state("x", spec_from_dict(FIT), 1.0)).encode(), json.dumps(FIT).encode()
    pairs = itertools.product([*DAMAGED, sound[0]], [*DAMAGED, sound[1]])
    for number, (state, spec) in enumerate(pairs):
        folder = tmp_path / f"damaged-{number}"
        folder.mkdir()
        for name, content in (("state.json", state), ("spec.json", spec), ("events.jsonl", DAMAGED[number % 10])):
            (folder / name).write_bytes(content)
    (tmp_path / "empty").mkdir()
    with serving_door(tmp_path) as door:
        check_refused(door.ask("submit", spec=json.dumps({**FIT, "zz": 1})), "zz")
        assert isinstance(door.ask("list")["jobs"], list)
