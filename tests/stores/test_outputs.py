"""Outputs: what is at an address is known again, and only what is of the same kind is replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distforest.errors import InputError
from distforest.sources.arrays import write_array
from distforest.stores.building import publish
from distforest.stores.folder import Folder
from distforest.stores.outputs import (
    ANSWERS_KIND,
    ARRAYS_KIND,
    FOREST_KIND,
    check_kind,
    check_new,
    look,
    overlapping_addresses,
)
from tests.messages import naming

MANIFEST = json.dumps({"format": 99, "digest": "0", "meaning": {}, "arrays": {"left": {}}, "provenance": {}})
KINDS = {
    FOREST_KIND: {"manifest.json": MANIFEST, "left/c": "1", ".left.0123.partial": "1"},
    "an unfinished forest": {"unfinished.json": '{"fingerprint": "0"}', "left/c": "1"},
    ANSWERS_KIND: {"zarr.json": {"forest": "0", "answer": "distance", "complete": True}, "distance/c": "1"},
    "unfinished answers": {"zarr.json": {"forest": "0", "answer": "apply", "complete": False}},
    ARRAYS_KIND: {"zarr.json": {"type": "arrays", "version": 1, "arrays": ["X", "y"]}, "X/c": "1", "y/c": "1"},
    "unfinished arrays": {"zarr.json": {"type": "unfinished"}, "X/c": "1"},
}
OF_KIND = {
    **dict.fromkeys((FOREST_KIND, "an unfinished forest"), FOREST_KIND),
    **dict.fromkeys((ANSWERS_KIND, "unfinished answers"), ANSWERS_KIND),
    **dict.fromkeys((ARRAYS_KIND, "unfinished arrays"), ARRAYS_KIND),
}
OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "files": ({"a": "1", "b": "1", "c": "1", "d": "1", "e": "1"}, "folder with a, b, c and 2 more"),
    "a manifest of others": ({"manifest.json": '{"name": "page"}'}, "folder with manifest.json"),
    "a broken manifest": ({"manifest.json": "{"}, "folder with manifest.json"),
    "a group of others": ({"zarr.json": None, "X/c": "1"}, "Zarr group with X"),
    "a strange group": ({"zarr.json": {"type": "x"}, "X/c": "1"}, "Zarr group with X"),
    "an array": ({"zarr.json": "array", "c/0": "1"}, "Zarr array"),
    "a forest and more": ({**KINDS[FOREST_KIND], "notes.txt": "1"}, "sealed forest with notes.txt"),
    "arrays and more": ({**KINDS[ARRAYS_KIND], "Z/c": "1"}, "`distforest` with Z"),
    "answers and more": ({**KINDS[ANSWERS_KIND], "figure.png": "1"}, "forest with figure.png"),
}


def put_output(output: str, files: dict[str, Any]) -> None:
    """Write some files; the metadata of a group by its attribute, or those of an array."""
    for name, content in files.items():
        text = content
        if name == "zarr.json" and content == "array":
            text = '{"zarr_format": 3, "node_type": "array"}'
        elif name == "zarr.json":
            attributes = {} if content is None else {"distforest": content}
            text = json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes})
        Folder(output).write(name, text.encode())


@pytest.mark.parametrize("there", KINDS)
@pytest.mark.parametrize("kind", [FOREST_KIND, ANSWERS_KIND, ARRAYS_KIND])
def test_only_the_same_kind_is_replaced_and_only_if_that_is_allowed(output: str, there: str, kind: str) -> None:
    put_output(output, KINDS[there])
    if OF_KIND[there] != kind:
        for overwrite in (False, True):
            with pytest.raises(InputError, match=naming(output, kind, "never")):
                check_new(output, kind, overwrite)
        return
    with pytest.raises(InputError, match=naming(output, "new name", "run.overwrite")):
        check_new(output, kind, overwrite=False)
    check_new(output, kind, overwrite=True)


@pytest.mark.parametrize("there", OTHERS)
def test_nothing_else_is_ever_replaced(output: str, there: str) -> None:
    files, words = OTHERS[there]
    put_output(output, files)
    for kind in (FOREST_KIND, ANSWERS_KIND, ARRAYS_KIND):
        for overwrite in (False, True):
            with pytest.raises(InputError, match=naming(output, words, "never")):
                check_new(output, kind, overwrite)


def test_a_file_is_not_replaced_and_an_empty_folder_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.zarr").mkdir()
    assert look(f"{tmp_path}/a.zarr") is None
    assert look(f"{tmp_path}/none.zarr") is None
    (tmp_path / "loop.zarr").symlink_to("loop.zarr")
    with pytest.raises(InputError, match=naming("loop.zarr", "link")):
        check_kind(f"{tmp_path}/loop.zarr", FOREST_KIND)
    (tmp_path / "b.zarr").write_text("mine")
    with pytest.raises(InputError, match=naming("b.zarr", "file", "never")):
        check_kind(f"{tmp_path}/b.zarr", FOREST_KIND)


def test_a_name_that_is_a_link_says_what_is_behind_it(tmp_path: Path) -> None:
    put_output(f"{tmp_path}/real.zarr", KINDS[FOREST_KIND])
    (tmp_path / "link.zarr").symlink_to("real.zarr")
    assert str(look(f"{tmp_path}/link.zarr")) == "a sealed forest"
    put_output(f"{tmp_path}/new", {"manifest.json": "new"})
    publish(f"{tmp_path}/new", f"{tmp_path}/link.zarr", "manifest.json")
    assert (tmp_path / "link.zarr").is_symlink()
    assert (tmp_path / "real.zarr" / "manifest.json").read_text() == "new"
    assert {path.name for path in tmp_path.iterdir()} == {"link.zarr", "real.zarr"}


def test_what_is_read_is_in_the_way_by_whatever_name(tmp_path: Path) -> None:
    write_array(f"{tmp_path}/d.zarr", "X", (1,), np.dtype(np.int64), [np.zeros(1, np.int64)])
    (tmp_path / "link.zarr").symlink_to("d.zarr")
    read = {"features": f"{tmp_path}/d.zarr/X"}
    for output in ("d.zarr", "d.zarr/X", "d.zarr/X/f.zarr", "link.zarr", "link.zarr/X", "./d.zarr/"):
        assert overlapping_addresses(f"{tmp_path}/{output}", read) == read
    assert overlapping_addresses(f"file://{tmp_path}/d.zarr", read) == read
    for output in ("d.zarr/f.zarr", "d.zarr2", "d.zarr.job", "e.zarr"):
        assert overlapping_addresses(f"{tmp_path}/{output}", read) == {}
    assert overlapping_addresses("s3a://b/d.zarr/", {"X": "s3://b/d.zarr/X"})
    assert overlapping_addresses("s3://b/d.zarr\0", {"X": "/d.zarr\0"}) == {}
