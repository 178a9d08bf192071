"""A file that several processes may want to write, on stores that compare and on stores that do not."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from distforest.service import slot as slots
from distforest.service.slot import Slot, TakenError, slot
from distforest.stores.folder import Folder
from tests.service.object_store import NEEDS_S3, Fault, ObjectStore

ON_S3 = pytest.param("s3", marks=NEEDS_S3)


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    """A folder on the kind of store that a test names."""
    if request.param == "s3":
        return Folder(request.getfixturevalue("store").place("slots"))
    return Folder(str(tmp_path) if request.param == "file" else f"memory://{tmp_path}")


def two(folder: Folder) -> tuple[Slot, Slot]:
    """The same slot in the hands of two, who have both seen that nothing is there."""
    first, second = slot(folder, "who.json"), slot(folder, "who.json")
    assert first.read() is None
    assert second.read() is None
    return first, second


def is_refused(own: Slot, content: bytes) -> bool:
    with pytest.raises(TakenError, match=r"who\.json "):
        own.put(content)
    return True


KINDS = [("file", True), ("memory", False), pytest.param("s3", True, marks=NEEDS_S3)]


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "compares"), KINDS, indirect=["folder"])
def test_of_two_one_writes(folder: Folder, compares: bool) -> None:
    first, second = two(folder)
    first.put(b"first")
    assert is_refused(second, b"second")
    assert is_refused(second, b"second")
    assert folder.read("who.json") == b"first"
    first.put(b"first, again")
    assert second.read() == b"first, again"
    second.put(b"second")
    assert is_refused(first, b"first")
    with pytest.raises(TakenError):
        first.clear()
    assert folder.read("who.json") == b"second"
    assert second.compares == compares
    second.clear()
    assert not folder.exists("who.json")
    second.put(b"anew")
    assert folder.read("who.json") == b"anew"


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["file", ON_S3], indirect=True)
def test_what_was_removed_is_not_written_again_without_a_look(folder: Folder) -> None:
    first, second = two(folder)
    first.put(b"first")
    assert second.read() == b"first"
    first.clear()
    assert is_refused(second, b"second")
    assert second.read() is None
    second.put(b"second")


# --- on S3 ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("folder", [ON_S3], indirect=True)
def test_a_write_whose_answer_was_lost_is_known_for_ones_own(store: ObjectStore, folder: Folder) -> None:
    own, other = two(folder)
    for content in (b"one", b"two"):
        with store.failing(Fault("lost", "PUT", within="who.json", times=1)) as struck:
            own.put(content)
        assert struck["lost"] == 1
        assert folder.read("who.json") == content
    own.put(b"three")
    assert own.compares
    with store.failing(Fault("lost", "PUT", within="who.json", times=1)):
        assert is_refused(other, b"other")


@pytest.mark.parametrize("conditions", ["dropped", "unknown"])
@pytest.mark.parametrize("folder", [ON_S3], indirect=True)
def test_a_store_that_does_not_compare_is_found_out(
    store: ObjectStore, folder: Folder, monkeypatch: pytest.MonkeyPatch, conditions: str
) -> None:
    monkeypatch.setattr(store, "conditions", conditions)
    first, second = two(folder)
    first.put(b"first")
    assert not first.compares
    assert is_refused(second, b"second")  # as far as can be seen from here
    first.put(b"first, again")
    assert folder.read("who.json") == b"first, again"
    assert second.read() == b"first, again"
    second.put(b"second")
    assert not second.compares
    second.clear()
    assert not folder.exists("who.json")


@pytest.mark.parametrize("folder", [ON_S3], indirect=True)
def test_only_what_differs_is_compared_by_the_store(store: ObjectStore, folder: Folder) -> None:
    """A write is one request once the store is known to compare; and it is by the store that another one is refused."""
    first, second = two(folder)
    first.put(b"first")
    before = store.asked.copy()
    first.put(b"first, again")
    assert store.asked - before == {"PUT": 1}
    assert second.read() == b"first, again"
    second.put(b"second")
    before = store.asked.copy()
    assert is_refused(first, b"first")
    assert (store.asked - before)["PUT"] == 1
    assert folder.read("who.json") == b"second"


@pytest.mark.parametrize("folder", [ON_S3], indirect=True)
def test_a_bucket_that_is_not_there_is_said_to_be_missing(store: ObjectStore, folder: Folder) -> None:
    own = slot(Folder("s3://no-such-bucket/jobs"), "who.json")
    assert own.read() is None
    with pytest.raises(FileNotFoundError, match="bucket"):
        own.put(b"own")


# --- in a file system -------------------------------------------------------------------------------------


def test_a_file_system_without_locks_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", without)
    first, second = two(Folder(str(tmp_path)))
    first.put(b"first")
    assert is_refused(second, b"second")
    assert not first.compares


def test_a_lock_that_is_held_for_long_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "LOCK_SECONDS", 0.05)
    monkeypatch.setattr(slots, "LOCK_POLL", 0.001)
    own, _ = two(Folder(str(tmp_path)))
    own.put(b"own")
    with (tmp_path / ".who.json.lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError, match=r"\.who\.json\.lock "):
            own.put(b"own, again")
    own.put(b"own, again")
    assert sorted(os.listdir(tmp_path)) == [".who.json.lock", "who.json"]


@pytest.mark.parametrize("odd", ["a folder", "a link", "a pipe", "too large"])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path, odd: str) -> None:
    path = tmp_path / "who.json"
    {
        "a folder": path.mkdir,
        "a link": lambda: path.symlink_to("who.json"),
        "a pipe": lambda: os.mkfifo(path),
        "too large": lambda: path.write_bytes(b" " * (slots.SLOT_BYTES + 1)),
    }[odd]()
    with pytest.raises(OSError, match=r"who\.json"):
        slot(Folder(str(tmp_path)), "who.json").read()
