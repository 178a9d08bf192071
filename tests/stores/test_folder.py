"""A job's folder: files whole or not at all, on any store."""

from __future__ import annotations

import errno
import os
import uuid
from pathlib import Path

import pytest

from distforest.stores.folder import Folder
from tests.messages import naming


@pytest.fixture(params=["local", "file", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    addresses = {
        "local": f"{tmp_path}/job",
        "file": f"file://{tmp_path}/job",
        "memory": f"memory://{uuid.uuid4().hex}/job",
    }
    return Folder(addresses[request.param])


def test_what_is_written_is_read(folder: Folder) -> None:
    assert folder.names() == []
    assert not folder.exists()
    folder.write("b.json", b"{}")
    folder.write("a.npz", bytes(range(256)) * 3)
    folder.write("empty", b"")
    assert folder.names() == ["a.npz", "b.json", "empty"]
    assert [folder.read(name) for name in folder.names()] == [bytes(range(256)) * 3, b"{}", b""]
    assert folder.exists()
    assert folder.exists("a.npz")
    assert not folder.exists("c")


def test_writing_again_replaces_the_file(folder: Folder) -> None:
    folder.write("state.json", b"a long first text")
    folder.write("state.json", b"new")
    assert folder.read("state.json") == b"new"
    assert folder.names() == ["state.json"]


def test_a_missing_file_is_not_found(folder: Folder) -> None:
    with pytest.raises(FileNotFoundError):
        folder.read("nothing")
    folder.write("x", b"")
    with pytest.raises(FileNotFoundError):
        folder.read("nothing")


def test_folders_lie_within_folders(folder: Folder) -> None:
    inner = folder.within("shards").within("deep")
    inner.write("x", b"1")
    assert inner.read("x") == folder.read("shards/deep/x") == b"1"
    assert folder.names() == ["shards"]
    assert folder.within("shards").names() == ["deep"]
    inner.remove()
    assert not inner.exists()
    assert folder.within("shards").names() == []
    inner.remove()  # what is gone can be removed again
    folder.remove()
    assert not folder.exists()


def test_a_folder_is_cleared_but_for_one_file(folder: Folder) -> None:
    for name in ("owner.json", "x", ".y.0123.partial"):
        folder.write(name, b"1")
    folder.within("sub").write("y", b"2")
    folder.clear("owner.json")
    assert (folder.names(), folder.exists(".y.0123.partial")) == (["owner.json"], False)
    folder.clear("nothing")
    assert not folder.exists()
    folder.clear("nothing")


def test_a_slash_at_the_end_says_nothing(folder: Folder) -> None:
    folder.write("x", b"1")
    same = Folder(f"{folder.address}/")
    assert (same.read("x"), same.names(), same.exists()) == (b"1", ["x"], True)
    assert same.within("sub").address == folder.within("sub").address


def test_only_a_folder_of_this_host_is_local(tmp_path: Path) -> None:
    assert Folder(str(tmp_path)).is_local
    assert Folder("relative/path").is_local
    assert Folder(f"file://{tmp_path}").is_local
    assert not Folder("memory://x").is_local


# --- whole or not at all ----------------------------------------------------------------------------------


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(str(tmp_path / "job"))
    folder.write("state.json", b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "it is full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=naming(os.strerror(errno.ENOSPC), "3 bytes", tmp_path / "job")):
        folder.write("state.json", b"new")
    assert folder.read("state.json") == b"old"
    assert [path.name for path in (tmp_path / "job").iterdir()] == ["state.json"]


def test_a_file_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, seen = Folder(str(tmp_path / "job")), []
    synced = os.fsync

    def fsync(handle: int) -> None:
        seen.append((os.fstat(handle).st_size, folder.names()))
        synced(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    folder.write("x", b"12345")
    assert seen == [(5, [])]  # all of it, and not yet to be seen
    assert folder.names() == ["x"]


def test_a_file_that_need_not_last_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("the disk was waited for"))
    folder = Folder(str(tmp_path / "job"))
    folder.write("x", b"12345", lasting=False)
    assert (folder.read("x"), folder.names()) == (b"12345", ["x"])


def test_what_is_being_written_is_not_listed(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "job"))
    folder.write("x", b"1")
    (tmp_path / "job" / ".y.0123.partial").write_bytes(b"2")
    assert folder.names() == ["x"]


def test_what_a_killed_process_left_half_written_is_swept_away(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "job"))
    folder.write("state.json", b"{}")
    (tmp_path / "job" / ".state.json.0123.partial").write_bytes(b"{")
    folder.sweep()
    assert [path.name for path in (tmp_path / "job").iterdir()] == ["state.json"]
    Folder("memory://swept").sweep()
