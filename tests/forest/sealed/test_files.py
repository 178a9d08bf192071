"""A forest in one file is the forest of the folder; a file that is cut off, damaged or hostile is refused."""

from __future__ import annotations

import os
import re
import shutil
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.storage import ZipStore

from distforest.errors import ArtifactError
from distforest.forest.sealed import artifact, files
from distforest.forest.sealed.artifact import open_forest, read_array, read_manifest, save
from distforest.stores.addresses import store_of
from tests import samples
from tests.forest.sealed.damage import ForestOf, SealedOf, contents, refusal, score
from tests.messages import naming

CASES = sorted({**samples.CASES, **samples.VOTING_CASES, **samples.PAIR_CASES})


@pytest.fixture(scope="module")
def one_file(forest_of: ForestOf, tmp_path_factory: pytest.TempPathFactory) -> SealedOf:
    """A function that gives the file of a forest."""
    folder = tmp_path_factory.mktemp("files")

    def file_of(case: str) -> Path:
        path = folder / f"{case}.forest.zarr.zip"
        if not path.exists():
            save(forest_of(case), str(path))
        return path

    return file_of


def rebuilt(path: Path, target: Path, change: Callable[[zipfile.ZipInfo], None] = lambda _: None) -> Path:
    """A copy of an archive whose members are changed by a function."""
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(target, "w") as copy:
        for info in archive.infolist():
            content = archive.read(info)
            change(info)
            copy.writestr(info, content)
    return target


# --- round trip -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_a_forest_in_one_file_comes_back_as_it_was(case: str, forest_of: ForestOf, one_file: SealedOf) -> None:
    forest, path = forest_of(case), one_file(case)
    assert path.is_file()
    found = open_forest(str(path))
    assert contents(found) == contents(forest)
    assert found.digest == forest.digest == read_manifest(str(path))["digest"]
    score(found, case)


def test_it_is_the_folder_in_one_file(sealed_of: SealedOf, one_file: SealedOf, tmp_path: Path) -> None:
    assert save(open_forest(str(one_file("members"))), str(tmp_path / "back.forest.zarr")) == manifest_digest(
        sealed_of("members")
    )
    with zipfile.ZipFile(one_file("members")) as archive:
        names = archive.namelist()
        assert names[-1] == "manifest.json"
        for name in set(names) - {"manifest.json", "zarr.json"}:  # the chunks are the same bytes
            if not name.endswith("zarr.json"):
                assert archive.read(name) == (sealed_of("members") / name).read_bytes()
    there = {str(own.relative_to(tmp_path / "back.forest.zarr")) for own in (tmp_path / "back.forest.zarr").rglob("*")}
    assert set(names) <= there


def manifest_digest(path: Path) -> str:
    return read_manifest(str(path))["digest"]


def test_zarr_reads_it(forest_of: ForestOf, one_file: SealedOf) -> None:
    with ZipStore(one_file("labels"), mode="r") as store:
        group = zarr.open_group(store, mode="r")
        threshold = group["threshold"]
        assert isinstance(threshold, zarr.Array)
        assert threshold[:].tolist() == forest_of("labels").table.threshold.tolist()  # type: ignore[union-attr]


def test_the_same_forest_makes_the_same_file(forest_of: ForestOf, one_file: SealedOf, tmp_path: Path) -> None:
    save(forest_of("labels"), str(tmp_path / "again.zip"))
    assert (tmp_path / "again.zip").read_bytes() == one_file("labels").read_bytes()


def test_one_array_is_read_alone(forest_of: ForestOf, one_file: SealedOf) -> None:
    address = str(one_file("labels"))
    sizes = read_array(address, read_manifest(address), "tree_size")
    assert sizes.tolist() == forest_of("labels").table.tree_size.tolist()


def test_it_is_written_to_and_opened_from_a_store(forest_of: ForestOf) -> None:
    address = "memory://in-one-file/f.forest.zarr.zip"
    assert save(forest_of("oblique"), address) == forest_of("oblique").digest
    assert contents(open_forest(address)) == contents(forest_of("oblique"))
    with pytest.raises(ArtifactError, match=naming(address, "exists")):
        save(forest_of("oblique"), address)
    fs, path = store_of(address)
    fs.pipe_file(path, fs.cat_file(path)[:-1])
    with pytest.raises(ArtifactError, match=naming(address, "cut off")):
        open_forest(address)


def test_a_folder_of_that_name_is_opened_as_a_folder(sealed_of: SealedOf, forest_of: ForestOf, tmp_path: Path) -> None:
    shutil.copytree(sealed_of("labels"), tmp_path / "folder.zip")
    assert open_forest(str(tmp_path / "folder.zip")).digest == forest_of("labels").digest


def test_an_array_of_several_chunks_comes_back(
    forest_of: ForestOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distforest.forest.forest.SEALED_CHUNK_BYTES", 64)
    save(forest_of("members"), str(tmp_path / "f.zip"))
    assert contents(open_forest(str(tmp_path / "f.zip"))) == contents(forest_of("members"))


def test_long_archives_have_another_end(forest_of: ForestOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    save(forest_of("labels"), str(tmp_path / "f.zip"))
    monkeypatch.undo()
    assert b"PK\6\6" in (tmp_path / "f.zip").read_bytes()
    assert contents(open_forest(str(tmp_path / "f.zip"))) == contents(forest_of("labels"))


# --- whole or not at all ----------------------------------------------------------------------------------


def test_nothing_is_replaced_and_nothing_is_left_of_a_failure(
    forest_of: ForestOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise OSError("the disk is gone")

    monkeypatch.setattr(artifact, "_manifest", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        save(forest_of("labels"), str(tmp_path / "f.zip"))
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    save(forest_of("labels"), str(tmp_path / "f.zip"))
    before = (tmp_path / "f.zip").read_bytes()
    with pytest.raises(ArtifactError, match=naming("f.zip", "exists")):
        save(forest_of("targets"), str(tmp_path / "f.zip"))
    assert [own.read_bytes() for own in tmp_path.iterdir()] == [before]


# --- files that are damaged -------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=150)
@given(st.data())
def test_a_flipped_bit_or_a_cut_is_refused_or_changes_nothing(
    one_file: SealedOf, forest_of: ForestOf, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    raw = bytearray(one_file("labels").read_bytes())
    path = tmp_path_factory.getbasetemp() / "flipped.zip"
    if data.draw(st.booleans()):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    else:
        raw = raw[: data.draw(st.integers(0, len(raw) - 1))]
    path.write_bytes(raw)
    with suppress(ArtifactError):
        assert contents(open_forest(str(path))) == contents(forest_of("labels"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cut off"),
        (b"PK\5\6" + bytes(18), "manifest.json"),
        (b"PK\5\6" + b"\xff" * 18, "33,554,432 bytes"),
        (b"not a zip archive, and long enough for one", "cut off"),
    ],
)
def test_what_is_no_archive_is_refused(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "f.zip").write_bytes(content)
    with pytest.raises(ArtifactError, match=naming("f.zip: ", said)):
        open_forest(str(tmp_path / "f.zip"))


def test_bytes_before_or_after_an_archive_are_refused(one_file: SealedOf, tmp_path: Path) -> None:
    raw = one_file("labels").read_bytes()
    for changed in (b"#!/bin/sh\n" + raw, raw + b"\n", raw[:-2] + b"\1\0x"):
        (tmp_path / "f.zip").write_bytes(changed)
        assert "cut off" in refusal(tmp_path / "f.zip")


def test_packed_members_are_refused_before_they_are_unpacked(one_file: SealedOf, tmp_path: Path) -> None:
    def deflate(info: zipfile.ZipInfo) -> None:
        info.compress_type = zipfile.ZIP_DEFLATED

    path = rebuilt(one_file("labels"), tmp_path / "f.zip", deflate)
    assert "packed" in refusal(path)


def test_a_name_that_is_there_twice_is_refused(one_file: SealedOf, tmp_path: Path) -> None:
    path = rebuilt(one_file("labels"), tmp_path / "f.zip")
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("manifest.json", "{}")
    assert "same name" in refusal(path)


def test_members_that_share_their_bytes_are_refused(one_file: SealedOf, tmp_path: Path) -> None:
    path = tmp_path / "f.zip"
    with zipfile.ZipFile(one_file("labels")) as old, zipfile.ZipFile(path, "w") as archive:
        for info in old.infolist():
            archive.writestr(info, old.read(info))
        largest = max(archive.infolist(), key=lambda info: info.file_size)
        for number in range(100):
            twin = zipfile.ZipInfo(f"left/c/{number + 1}")
            twin.file_size = twin.compress_size = largest.file_size
            twin.CRC, twin.header_offset = largest.CRC, largest.header_offset
            archive.filelist.append(twin)
    assert "more bytes" in refusal(path)


def test_a_directory_that_is_too_large_is_refused_unread(one_file: SealedOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_DIRECTORY_BYTES", 100)
    assert "100 bytes" in refusal(one_file("labels"))


def test_a_member_that_is_gone_is_named(one_file: SealedOf, tmp_path: Path) -> None:
    with zipfile.ZipFile(one_file("labels")) as old, zipfile.ZipFile(tmp_path / "f.zip", "w") as archive:
        for info in old.infolist():
            if info.filename != "left/c/0":
                archive.writestr(info, old.read(info))
    assert re.match("left: chunk 0 .*left/c/0", refusal(tmp_path / "f.zip"))


def test_names_that_lead_elsewhere_are_never_written(one_file: SealedOf, forest_of: ForestOf, tmp_path: Path) -> None:
    path = rebuilt(one_file("labels"), tmp_path / "f.zip")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../../escaped", "x")
        archive.writestr("left/../../escaped", "x")
    assert open_forest(str(path)).digest == forest_of("labels").digest
    assert not [*tmp_path.parent.rglob("escaped")]


def test_an_address_where_nothing_is_holds_no_forest(tmp_path: Path) -> None:
    for address in (
        f"{tmp_path}/f.zip",
        f"{tmp_path}/none/f.zip",
        "unknown-protocol://f.zip",
        "memory://nothing/f.zip",
    ):
        with pytest.raises(ArtifactError, match=f"{address}: "):
            open_forest(address)


def test_a_pipe_is_refused_unread(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f.zip")
    assert "regular file" in refusal(tmp_path / "f.zip")


@pytest.mark.parametrize("name", ["a.zip", "a.zarr"])
def test_a_link_to_a_place_that_is_not_there_is_not_replaced(name: str, forest_of: ForestOf, tmp_path: Path) -> None:
    """A disk that is not mounted, say: the forest would lie elsewhere when it is."""
    link = tmp_path / name
    link.symlink_to(tmp_path / "disk" / name)
    with pytest.raises(ArtifactError, match=naming(f"{link}: ", f"disk/{name}")):
        save(forest_of(CASES[0]), str(link))
    assert link.is_symlink()
