"""The ledger against a dictionary, against SIGKILL, and against files that are not its own."""

from __future__ import annotations

import math
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import DistforestWarning, InputError, JobError
from distforest.sources.lazy.ledger import APPLICATION, LOADED_ROWS, Ledger
from tests.messages import naming

SIGNATURE = {"function": "strings:edit", "version": "1.0", "sha256": "00"}
EDGES = [-(2**63), -1, 0, 1, 2, 2**63 - 1]
VALUES = st.one_of(st.just(math.nan), st.floats(allow_nan=False, allow_infinity=False))
TRIPLES = st.lists(st.tuples(st.sampled_from(EDGES), st.sampled_from(EDGES), VALUES), max_size=12)
BATCHES = st.lists(st.tuples(TRIPLES, st.sampled_from("pq"), st.booleans()), max_size=5)


def opened(path: Path | None, **changes: Any) -> Ledger:
    asked: dict[str, Any] = {"symmetric": True, "kind": "distance", **changes}
    signature = {**SIGNATURE, **asked.pop("signature", {})}
    return Ledger.open(path, signature=signature, **asked)


def recorded(ledger: Ledger, triples: list[tuple[int, int, float]], job: str = "p") -> None:
    left, right, values = zip(*triples, strict=True) if triples else ((), (), ())
    ledger.record(np.array(left, np.int64), np.array(right, np.int64), np.array(values, np.float64), job)


def loaded(
    ledger: Ledger, left: list[int], right: list[int], job: str = "p"
) -> dict[tuple[int, int], tuple[str, bool]]:
    known = ledger.load(np.array(left, np.int64), np.array(right, np.int64), job)
    places = list(zip(known.left.tolist(), known.right.tolist(), strict=True))
    assert len(set(places)) == len(places), "a coordinate was given twice"
    # repr: NaN equals itself
    rest = zip(map(repr, (known.values + 0.0).tolist()), known.is_own.tolist(), strict=True)
    return dict(zip(places, rest, strict=True))


def expected(
    model: dict[tuple[int, int], tuple[float, str]], keys: tuple[list[int], list[int]], symmetric: bool
) -> dict[tuple[int, int], tuple[str, bool]]:
    answer = {}
    for a in keys[0]:
        for b in keys[1]:
            pair = (min(a, b), max(a, b)) if symmetric else (a, b)
            if pair in model:
                value, job = model[pair]
                answer[keys[0].index(a), keys[1].index(b)] = (repr(value + 0.0), job == "p")
    return answer


@pytest.mark.slow
@given(BATCHES, st.lists(st.sampled_from(EDGES)), st.lists(st.sampled_from(EDGES)), st.booleans())
@settings(max_examples=40, deadline=None)
def test_ledger_is_a_dictionary(batches: list[Any], left: list[int], right: list[int], symmetric: bool) -> None:
    model: dict[tuple[int, int], tuple[float, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ledger.sqlite")
        ledger = opened(path, symmetric=symmetric)
        for triples, job, reopen in batches:
            recorded(ledger, triples, job)
            for a, b, value in triples:
                model.setdefault((min(a, b), max(a, b)) if symmetric else (a, b), (value, job))
            if reopen:
                ledger.close()
                ledger = opened(path, symmetric=symmetric)
        with ledger:
            assert loaded(ledger, left, right) == expected(model, (left, right), symmetric)
            assert ledger.count() == len(model)
            assert ledger.count("p") == sum(job == "p" for _, job in model.values())


def test_load_beyond_one_chunk() -> None:
    n = LOADED_ROWS + 10
    with opened(None, symmetric=False) as ledger:
        ledger.record(np.arange(n), np.arange(n)[::-1].copy(), np.arange(n) / 8, "p")
        known = ledger.load(np.arange(n), np.arange(n), "q")
    np.testing.assert_array_equal(known.left, np.arange(n))
    np.testing.assert_array_equal(known.right, np.arange(n)[::-1])
    np.testing.assert_array_equal(known.values, np.arange(n) / 8)
    assert not known.is_own.any()


def test_memory_ledgers_are_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with opened(None) as one, opened(None) as other:
        recorded(one, [(1, 2, 0.5)])
        assert (one.count(), other.count()) == (1, 0)
    opened(Path(":memory:")).close()
    assert [path.name for path in tmp_path.iterdir()] == [":memory:"]


KILLED = """
import os, signal, sys
import numpy as np
from distforest.sources.lazy.ledger import Ledger
signature = {"function": "strings:edit", "version": "1.0", "sha256": "00"}
ledger = Ledger.open(sys.argv[1], signature=signature, symmetric=True, kind="distance")
ledger.record(np.arange(3000), np.arange(3000) + 1, np.arange(3000) / 4, "p")
if sys.argv[2] == "midway":
    ledger._connection.execute("PRAGMA cache_size = 1")  # unfinished pages go to the file
    ledger._connection.execute("BEGIN")
    ledger._connection.execute("UPDATE pairs SET value = -1, job = 'unfinished'")
if sys.argv[2] == "wait":
    print("open", flush=True)
    sys.stdin.read()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("moment", ["after", "midway"])
def test_a_commit_outlives_the_process(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "ledger.sqlite"
    command = [sys.executable, "-c", KILLED, str(path), moment]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    with opened(path) as ledger:
        assert ledger.count("p") == 3000
        assert loaded(ledger, [10], [11]) == {(0, 0): ("2.5", True)}


def test_another_process_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    command = [sys.executable, "-c", KILLED, str(path), "wait"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(InputError, match=naming(path, "in use")):
            opened(path)
        other.kill()
    with opened(path) as ledger:  # the lock died with its process
        assert ledger.count() == 3000


def test_this_process_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with opened(path) as ledger:
        for _ in range(2):  # a refused attempt leaves the first one's lock in place
            with pytest.raises(InputError, match=naming(path, "in use")):
                opened(path)
        recorded(ledger, [(1, 2, 0.5)])
    ledger.close()
    with opened(path) as ledger:
        assert ledger.count() == 1


@pytest.mark.parametrize(
    ("changes", "part"),
    [({"signature": {"function": "strings:jaro"}}, "function"), ({"symmetric": False}, "symmetric"),
     ({"kind": "similarity"}, "kind")],
)  # fmt: skip
def test_other_values_are_refused(tmp_path: Path, changes: dict[str, Any], part: str) -> None:
    path = tmp_path / "ledger.sqlite"
    opened(path).close()
    before = path.read_bytes()
    asked = changes.get("signature", changes)[part]
    with pytest.raises(InputError, match=naming(path, f"({part}: ", repr(asked))):
        opened(path, **changes)
    assert path.read_bytes() == before
    opened(path).close()


@pytest.mark.parametrize(("part", "value"), [("sha256", "01"), ("version", None)])
def test_another_state_of_the_function_is_reported(tmp_path: Path, part: str, value: str | None) -> None:
    path = tmp_path / "ledger.sqlite"
    with opened(path) as ledger:
        recorded(ledger, [(1, 2, 0.5)])
    with pytest.warns(DistforestWarning, match=naming(f"({part}: ", repr(value), repr(SIGNATURE[part]))) as told:
        changed = opened(path, signature={part: value})
    assert told[0].filename == __file__
    with changed:
        assert changed.count() == 1


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE pairs (a, b, value, job)")


def marked(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA application_id = 77")


def later(path: Path) -> None:
    opened(path).close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 2")


def torn(path: Path) -> None:
    opened(path).close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DROP TABLE pairs")
        assert database.execute("PRAGMA application_id").fetchone() == (APPLICATION,)


def text(path: Path) -> None:
    path.write_text("left,right,value\n" * 300)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (foreign, "application"),
        (marked, "application"),
        (later, "format 2"),
        (torn, "no such table: pairs"),
        (text, "no database"),
    ],
)
def test_files_that_are_no_ledger(tmp_path: Path, make: Any, named: str) -> None:
    path = tmp_path / "other.sqlite"
    make(path)
    before = path.read_bytes()
    with pytest.raises(InputError, match=naming(path, named)):
        opened(path)
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["other.sqlite"]


def test_damaged_pages(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with opened(path) as ledger:
        ledger.record(np.arange(5000), np.arange(5000), np.zeros(5000), "p")
    data = bytearray(path.read_bytes())
    data[-20_000:] = b"\xff" * 20_000
    path.write_bytes(data)
    with opened(path) as ledger, pytest.raises(InputError, match=naming(path, "damaged")):
        ledger.load(np.arange(5000), np.arange(5000), "p")


def test_paths_that_cannot_be_opened(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent" / "ledger.sqlite"):
        with pytest.raises(InputError, match=naming(path, "unable to open")):
            opened(path)


def test_a_full_disk_loses_only_the_batch(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger.sqlite") as ledger:
        recorded(ledger, [(1, 2, 0.5)])
        pages = ledger._connection.execute("PRAGMA page_count").fetchone()[0]
        ledger._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(JobError, match=naming("ledger.sqlite", "full")):
            ledger.record(np.arange(5000), np.arange(5000), np.zeros(5000), "p")
        assert ledger.count() == 1
        recorded(ledger, [(2, 3, 0.5)])
        assert ledger.count() == 2


def test_another_thread_is_refused() -> None:
    faults: list[Exception] = []

    def ask() -> None:
        try:
            ledger.count()
        except sqlite3.ProgrammingError as error:
            faults.append(error)

    with opened(None) as ledger:
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    assert len(faults) == 1
