"""Zarr groups of arrays as a whole: where a new one may lie, that it appears whole or not at all, its attributes."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import fsspec

from distforest.errors import InputError
from distforest.sources.stores import read_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_ATTRIBUTES = 64 << 20
"""Bytes of a group's metadata, beyond which they are not read."""

FILES = (".csv", ".tsv", ".txt", ".json", ".npy", ".npz", ".parquet", ".feather", ".xlsx", ".h5", ".hdf5", ".pkl")
"""Suffixes of files, which a Zarr group, a folder, must not seem to be."""


def check_name(target: str) -> None:
    """Refuse a group that has the name of a file; raises InputError.

    Examples
    --------
    >>> check_name("near.csv")
    Traceback (most recent call last):
    ...
    distforest.errors.InputError: near.csv: a Zarr group is written, a folder of arrays; name it near.zarr
    """
    name = PurePosixPath(target.rstrip("/")).name
    if name.lower().endswith(FILES):
        suggestion = f"{name.rpartition('.')[0]}.zarr"
        raise InputError(f"{target}: a Zarr group is written, a folder of arrays; name it {suggestion}")


def check_target(target: str, overwrite: bool) -> None:
    """Refuse a target that is in the way or cannot be written to; raises InputError."""
    path = local_path(target)
    if path is None:
        there, is_group = _look_at_url(target)
    else:
        there, is_group = path.exists(), (path / "zarr.json").is_file()
        if not path.parent.is_dir():
            raise InputError(f"{target}: a folder to write into was asked for, found none; make {path.parent}")
    if there and not overwrite:
        cure = "choose another or give overwrite=True" if is_group else "choose another"
        raise InputError(f"{target}: a new name was asked for, found something there; {cure}")
    if there and not is_group:
        raise InputError(f"{target}: a Zarr group to overwrite was asked for, found something else there")
    check_name(target)


@contextmanager
def destination(target: str, overwrite: bool) -> Iterator[str]:
    """Give a place to write to; at the block's good end it becomes the target, at a bad end it is removed.

    A path is written beside, as ``<target>.partial-`` and eight digits, and renamed. At a URL, which knows no renaming,
    arrays are written in place: a group without the attribute ``distforest`` is unfinished.
    """
    path = local_path(target)
    if path is None:
        files, root = fsspec.core.url_to_fs(target)
        if overwrite and files.exists(root):
            files.rm(root, recursive=True)
        yield target.rstrip("/")
        return
    temporary = path.with_name(f"{path.name}.partial-{secrets.token_hex(4)}")
    try:
        yield str(temporary)
        _move(temporary, path, overwrite)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def seal(group: str, attributes: Mapping[str, Any]) -> None:
    """Write the group's attributes, the last of all: Zarr keeps them in the group's ``zarr.json``."""
    address = f"{group}/zarr.json"
    with fsspec.open(address, "r", encoding="utf-8") as stream:
        metadata = json.load(stream)
    with fsspec.open(address, "w", encoding="utf-8") as stream:
        json.dump({**metadata, "attributes": dict(attributes)}, stream, indent=2)


def attributes_of(group: str) -> dict[str, Any]:
    """The attributes of the group at an address; none where there is no group that can be read."""
    try:
        metadata = json.loads(read_file(f"{group.rstrip('/')}/zarr.json", MAX_ATTRIBUTES))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(metadata, dict) or metadata.get("node_type") != "group":
        return {}
    attributes = metadata.get("attributes")
    return attributes if isinstance(attributes, dict) else {}


def local_path(target: str) -> Path | None:
    """Resolve the path of a local target, its links followed; None for a URL."""
    if "://" in target and not target.startswith("file://"):
        return None
    return Path(os.path.realpath(target.removeprefix("file://")))


def _look_at_url(target: str) -> tuple[bool, bool]:
    """Tell whether something is at a URL, and whether that is a Zarr group."""
    try:
        files, root = fsspec.core.url_to_fs(target)
        return files.exists(root), files.exists(f"{root}/zarr.json")
    except (OSError, ImportError, ValueError) as error:
        raise InputError(f"{target}: a URL to write to was asked for, found none ({error})") from error


def _move(temporary: Path, path: Path, overwrite: bool) -> None:
    """Rename ``temporary`` to ``path``; what was there is removed after that."""
    old = temporary.with_name(f"{temporary.name}-old")
    if overwrite and path.exists():
        path.rename(old)
    try:
        temporary.rename(path)
    except BaseException:
        if old.exists():
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)
