"""Zarr groups of arrays: the names of new ones, their writing as a whole, and their attributes."""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from distforest.errors import InputError
from distforest.stores.addresses import put_file, read_file
from distforest.stores.building import Building
from distforest.stores.claims import owned
from distforest.stores.outputs import ARRAYS_KIND, BEGUN, GROUP, MAX_METADATA, check_new, check_place, object_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ALLOWING = "`overwrite=True`"
"""The argument that allows arrays to replace others, for messages."""

FILES = (".csv", ".tsv", ".txt", ".json", ".npy", ".npz", ".parquet", ".feather", ".xlsx", ".h5", ".hdf5", ".pkl")
"""Suffixes of files; a Zarr group is a folder, and must not have such a name."""


def check_name(target: str) -> None:
    """Refuse a group with the name of a file; raise InputError.

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
    """Refuse a target that exists and may not be replaced, or cannot be written; raise InputError."""
    check_place(target)
    check_new(target, ARRAYS_KIND, overwrite, ALLOWING)
    check_name(target)


@contextmanager
def destination(target: str, overwrite: bool, job: str = "another writing of arrays") -> Iterator[str]:
    """Own a target, and yield the address to write to.

    When the block ends, the group there becomes the target; if the block raises, it is removed. The group is built in
    the target's job folder. At a URL, where nothing can be renamed, a new group is written in place, and is marked as
    unfinished by its attribute ``distforest``.

    Raises
    ------
    ConflictError
        Another job owns the target; the message names this job ``job``.
    InputError
        The content at the target may not be replaced.
    """
    with owned(target, job) as claim:
        check_new(target, ARRAYS_KIND, overwrite, ALLOWING)
        building = Building.from_output(target, ARRAYS_KIND, {"type": BEGUN})
        building.begin()
        try:
            yield building.address
        except BaseException:
            with suppress(OSError):  # the error of the block is the one to raise
                building.withdraw()
            raise
        if not building.is_in_place:
            claim.take()  # it may have been taken over if this process was frozen for long
            check_new(target, ARRAYS_KIND, overwrite, ALLOWING)
        building.publish()


def seal_group(group: str, attributes: Mapping[str, object]) -> None:
    """Write the attributes of a group, after its arrays; Zarr keeps them in the group's ``zarr.json``."""
    address = f"{group}/{GROUP}"
    metadata = json.loads(read_file(address, MAX_METADATA))
    put_file(address, json.dumps({**metadata, "attributes": dict(attributes)}, indent=2).encode())


def attributes_of(group: str) -> dict[str, object]:
    """Return the attributes of the group at an address; empty if there is no group that can be read."""
    try:
        metadata = object_in(read_file(f"{group.rstrip('/')}/{GROUP}", MAX_METADATA))
    except (OSError, ValueError):
        return {}
    if metadata.get("node_type") != "group":
        return {}
    attributes = metadata.get("attributes")
    return attributes if isinstance(attributes, dict) else {}
