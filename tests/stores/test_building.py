"""Buildings: where outputs are built, and the new one is whole before the old one goes."""

from __future__ import annotations

import errno
import uuid
from pathlib import Path
from typing import Any

import fsspec
import pytest

from distforest.stores import building as buildings
from distforest.stores.building import Building, clear, is_begun, mend, new_group, publish
from distforest.stores.folder import Folder
from distforest.stores.outputs import ANSWERS_KIND, ARRAYS_KIND, FOREST_KIND, look
from tests.messages import naming


def put(output: str, files: dict[str, str]) -> None:
    """Write some files."""
    for name, content in files.items():
        Folder(output).write(name, content.encode())


# --- where it is built ------------------------------------------------------------------------------------

MARKS: dict[str, dict[str, object]] = {
    FOREST_KIND: {"fingerprint": "0"},
    ANSWERS_KIND: {"forest": "0", "answer": "apply", "complete": False},
    ARRAYS_KIND: {"type": "unfinished"},
}


@pytest.mark.parametrize("kind", MARKS)
def test_a_new_output_is_built_in_place_on_a_store_and_beside_its_path(output: str, kind: str, tmp_path: Path) -> None:
    built = Building.from_output(output, kind, MARKS[kind])
    built.begin()
    found = look(output)
    if "://" not in output:
        assert (built.is_in_place, built.address, found) == (
            False,
            f"{output}.job/{kind.rsplit(maxsplit=1)[-1]}.zarr",
            None,
        )
        assert Building.from_output(output, kind, MARKS[kind], Folder(str(tmp_path / "work"))).address == str(
            tmp_path / "work"
        )
        return
    assert (built.is_in_place, built.address, found and found.kind) == (True, output, kind)
    assert is_begun(output, kind, MARKS[kind])
    assert not is_begun(output, kind, {"fingerprint": "1"})
    built.publish()
    assert Folder(output).names() == ([] if kind == FOREST_KIND else ["zarr.json"])
    Folder(output).remove()


@pytest.mark.parametrize("kind", MARKS)
def test_only_its_own_job_goes_on_with_what_is_begun_in_place(kind: str) -> None:
    output = f"memory://{uuid.uuid4().hex}/a.zarr"
    Building.from_output(output, kind, MARKS[kind]).begin()
    assert Building.from_output(output, kind, MARKS[kind]).is_in_place == (kind != ARRAYS_KIND)
    other = Building.from_output(output, kind, {**MARKS[kind], "fingerprint": "1"})
    assert (other.is_in_place, other.address) == (False, f"{output}.job/{kind.rsplit(maxsplit=1)[-1]}.zarr")
    Folder(output).remove()


def test_a_group_that_begins_takes_the_place_of_what_is_there(output: str) -> None:
    put(output, {"X/c": "old"})
    new_group(output, {"type": "unfinished"})
    assert Folder(output).names() == ["zarr.json"]
    assert str(look(output)) == "unfinished arrays"


# --- how it appears ---------------------------------------------------------------------------------------


@pytest.fixture
def built(output: str) -> str:
    """An older output, and a new one that is whole."""
    put(output, {"manifest.json": "old", "left/c": "old", "gone/c": "old"})
    put(f"{output}.job/forest.zarr", {"manifest.json": "new", "left/c": "new", "right/c": "new"})
    return f"{output}.job/forest.zarr"


def told(output: str) -> dict[str, str]:
    """The files of an output and their contents."""
    files, root = fsspec.core.url_to_fs(output)
    return {file[len(root) + 1 :]: files.cat_file(file).decode() for file in files.find(root)}


OLD = {"manifest.json": "old", "left/c": "old", "gone/c": "old"}
NEW = {"manifest.json": "new", "left/c": "new", "right/c": "new"}


def test_the_new_one_takes_the_place_of_the_old_one(output: str, built: str) -> None:
    publish(built, output, "manifest.json")
    assert told(output) == NEW
    assert told(f"{output}.job") == {}


class KilledError(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("at", range(1, 12))
def test_wherever_a_publishing_is_cut_off_one_of_the_two_is_whole_and_comes_back(
    output: str, built: str, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Each change of a file counts, and the process is killed before or in one of them."""
    files, left = fsspec.core.url_to_fs(output)[0], [at]

    def counted(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def call(*given: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] > 0:
                return real(*given, **more)
            if left[0] == 0 and name == "rm":  # some of the files have gone
                files.store.pop(next(iter(files.find(given[0]))))
            raise KilledError  # and no `except` does anything any more

        monkeypatch.setattr(owner, name, call)

    for name in ("pipe_file", "cp_file", "rm_file", "rm") if "://" in output else ():
        counted(files, name)
    for owner, name in ((buildings.Path, "rename"), (buildings.shutil, "rmtree")):
        counted(owner, name)
    is_dead = False
    try:
        publish(built, output, "manifest.json")
    except KilledError:
        is_dead = True
    monkeypatch.undo()
    whole = [told(output), told(built)]
    assert NEW in whole or OLD in whole or told(output.replace("a.zarr", ".a.zarr.older")) == OLD
    mend(output)
    clear(output)
    assert told(output) in (OLD, NEW)
    assert is_dead or told(output) == NEW
    assert told(f"{output}.job") == {}
    if "://" not in output:
        assert {path.name for path in Path(output).parent.iterdir()} <= {"a.zarr", "a.zarr.job"}


def test_a_new_one_is_fetched_from_another_store(tmp_path: Path) -> None:
    built, output = f"memory://{uuid.uuid4().hex}/forest.zarr", f"{tmp_path}/a.zarr"
    put(built, NEW)
    put(output, OLD)
    publish(built, output, "manifest.json")
    assert told(output) == NEW
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]
    assert not Folder(built).exists()


def test_a_new_one_moves_into_another_file_system(tmp_path: Path, elsewhere: Path) -> None:
    put(f"{tmp_path}/new", NEW)
    put(f"{elsewhere}/a.zarr", OLD)
    put(f"{elsewhere}/.a.zarr.partial", {"x": "of a move that was killed"})
    mend(f"{elsewhere}/a.zarr")
    publish(f"{tmp_path}/new", f"{elsewhere}/a.zarr", "manifest.json")
    assert told(f"{elsewhere}/a.zarr") == NEW
    assert list(tmp_path.iterdir()) == []
    assert [path.name for path in elsewhere.iterdir()] == ["a.zarr"]


def test_a_file_system_that_is_full_keeps_the_old_one(tmp_path: Path, small_disk: Path) -> None:
    put(f"{tmp_path}/new", {**NEW, "large": "x" * (5 << 20)})
    put(f"{small_disk}/a.zarr", OLD)
    with pytest.raises(OSError, match=rf"^\[Errno {errno.ENOSPC}\] .*: 5,\d\d\d,\d\d\d bytes .*{small_disk} "):
        publish(f"{tmp_path}/new", f"{small_disk}/a.zarr", "manifest.json")
    assert told(f"{small_disk}/a.zarr") == OLD
    assert told(f"{tmp_path}/new").keys() == {*NEW, "large"}
    assert [path.name for path in small_disk.iterdir()] == ["a.zarr"]


def test_a_disk_that_is_full_keeps_the_old_one_of_another_store(small_disk: Path) -> None:
    built = f"memory://{uuid.uuid4().hex}/forest.zarr"
    put(built, {**NEW, "large": "x" * (5 << 20)})
    put(f"{small_disk}/a.zarr", OLD)
    with pytest.raises(OSError, match=naming("bytes", f"{small_disk} ")):
        publish(built, f"{small_disk}/a.zarr", "manifest.json")
    assert told(f"{small_disk}/a.zarr") == OLD
    assert [path.name for path in small_disk.iterdir()] == ["a.zarr"]
