"""The building of an output: its place, the mark of an unfinished output, and publishing as a whole.

::

    wine.forest.zarr.job/forest.zarr     built beside the output, in its job's folder, then moved to its address
    s3://data/wine.forest.zarr           built in place: at an unused URL, where nothing can be renamed

The new output is complete before an old one is removed. In a local file system it is renamed. On an object store it is
copied, and the file that completes it comes last. `reaching` translates all errors of a store.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from distforest.stores.addresses import names_in, put_file, reaching, real_address, store_of
from distforest.stores.folder import Folder
from distforest.stores.outputs import (
    ANSWERS_KIND,
    ARRAYS_KIND,
    FOREST_KIND,
    GROUP,
    MANIFEST,
    UNFINISHED,
    distforest_attribute,
    job_folder,
    look,
    object_at,
)
from distforest.stores.room import explaining_full_disk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class OutputKind(NamedTuple):
    """The way in which outputs of a kind are built.

    Attributes
    ----------
    name
        Name of the folder in which it is built, in a job's folder.
    begun
        The file that marks an output built in place as begun.
    last
        The file without which no reader recognises the output; it is written last.
    is_resumed
        Whether a later run of the same job continues an output that is begun in place.
    """

    name: str
    begun: str
    last: str
    is_resumed: bool


OUTPUT_KINDS = {
    FOREST_KIND: OutputKind("forest.zarr", UNFINISHED, MANIFEST, is_resumed=True),
    ANSWERS_KIND: OutputKind("answers.zarr", GROUP, GROUP, is_resumed=True),
    ARRAYS_KIND: OutputKind("arrays.zarr", GROUP, GROUP, is_resumed=False),
}
"""Kinds of outputs, by their names in messages."""

NODES = "nodes.zarr"
"""Name of the group in a job's folder with the nodes from which answers are computed."""

WORK_FOLDER = "working"
"""Name of the folder in a job's folder in which files are converted to arrays, or arrays to files."""

BUILDINGS = (*(kind.name for kind in OUTPUT_KINDS.values()), NODES, WORK_FOLDER)
"""Names of the folders in a job's folder for outputs that are built, and for nodes or queries."""

PUBLISHING = "publishing.json"
"""File in an output's job folder that names the building that is being copied to the output's address."""


@dataclass(frozen=True)
class Building:
    """An output that is being built. Its methods raise OSError if a store does not answer or a disk is full.

    Attributes
    ----------
    output
        The address that the output will have.
    kind
        The kind of output: a key of `OUTPUT_KINDS`.
    folder
        The folder in which it is built.
    mark
        JSON that marks the output as begun, and identifies its job.

    Examples
    --------
    >>> building = Building.from_output("memory://building/X.zarr", ARRAYS_KIND, {"type": "unfinished"})
    >>> building.begin()
    >>> building.is_in_place, str(look("memory://building/X.zarr"))
    (True, 'unfinished arrays')
    >>> building.withdraw()
    """

    output: str
    kind: str
    folder: Folder
    mark: Mapping[str, object]

    @classmethod
    def from_output(cls, output: str, kind: str, mark: Mapping[str, object], here: Folder | None = None) -> Building:
        """Choose where an output is built.

        It is built in place at an unused URL, or where the same job has begun it; otherwise beside the output. An
        output in this host's file system is built in the folder ``here``, if that is given.
        """
        place, built = real_address(output), OUTPUT_KINDS[kind]
        beside = Folder(job_folder(output)).within(built.name)
        if "://" not in place:
            return cls(output, kind, here or beside, mark)
        is_free = look(output) is None or (built.is_resumed and is_begun(output, kind, mark))
        return cls(output, kind, Folder(place) if is_free else beside, mark)

    @property
    def address(self) -> str:
        """Address of the folder in which it is built."""
        return self.folder.address

    @property
    def is_in_place(self) -> bool:
        """Whether it is built at the output's address, where readers see it."""
        return self.address == real_address(self.output)

    def begin(self) -> None:
        """Empty the folder, mark an output in place as begun, and create an empty group."""
        begun = OUTPUT_KINDS[self.kind].begun
        if begun == GROUP:
            new_group(self.address, self.mark)
            return
        self.folder.remove()
        if self.is_in_place:
            self.folder.write(begun, json.dumps(self.mark).encode())

    def withdraw(self) -> None:
        """Remove the building."""
        self.folder.remove()

    def publish(self) -> None:
        """Move the complete output to its address, replacing an older one."""
        built = OUTPUT_KINDS[self.kind]
        if not self.is_in_place:
            publish(self.address, self.output, built.last)
        elif built.begun != built.last:
            self.folder.discard(built.begun)


def is_begun(output: str, kind: str, mark: Mapping[str, object]) -> bool:
    """Return whether an output of this kind has been begun in place by the job with this mark."""
    return mark_of(output, kind) == mark


def mark_of(output: str, kind: str) -> object:
    """Return the mark of an output: always for a group, for a forest while it is begun; None or empty without one."""
    begun = OUTPUT_KINDS[kind].begun
    content = object_at(f"{real_address(output)}/{begun}")
    return distforest_attribute(content) if begun == GROUP else content


def new_group(address: str, mark: Mapping[str, object]) -> None:
    """Replace what is at an address by an empty Zarr group with ``mark`` as its attribute ``distforest``."""
    Folder(address).remove()
    metadata = {"zarr_format": 3, "node_type": "group", "attributes": {"distforest": mark}}
    put_file(f"{address}/{GROUP}", json.dumps(metadata).encode())


@contextmanager
def working_folder(output: str) -> Iterator[Folder]:
    """Yield a new folder beside an output, in its job's folder; only the output's owner may use this.

    `os.replace` moves a file that is written there to a local output.
    """
    folder = Folder(job_folder(output)).within(WORK_FOLDER)
    folder.remove()
    if folder.is_local:
        Path(folder.address).mkdir()
    try:
        yield folder
    finally:
        folder.remove()


# --- how it appears ---------------------------------------------------------------------------------------


def publish(building: str, output: str, last: str) -> None:
    """Move a complete building to the address of its output; an older output is removed after that.

    Parameters
    ----------
    building
        Address of the building. If the output is on an object store, it is in the output's job folder; if the output is
        on this host, it may be in any store.
    output
        Address of the output.
    last
        Name of the file that is copied last, without which no reader recognises the output.
    """
    place = real_address(output)
    if "://" not in place and "://" in real_address(building):
        _fetch(building, Path(place))
        return
    if "://" not in place:
        _rename(Path(real_address(building)), Path(place))
        return
    journal = json.dumps({"from": PurePosixPath(building).name, "last": last}).encode()
    put_file(f"{job_folder(output)}/{PUBLISHING}", journal)
    _finish(output)


def mend(output: str) -> None:
    """Repair an output whose publishing was interrupted; only its owner may do so.

    In a local file system the older output is restored. On an object store the copy of the new one is completed.
    """
    place = real_address(output)
    if "://" not in place:
        target = Path(place)
        older = _beside(target, "older")
        shutil.rmtree(_beside(target, "partial"), ignore_errors=True)
        if older.exists() and not target.exists():
            older.rename(target)
        shutil.rmtree(older, ignore_errors=True)
    elif PUBLISHING in names_in(job_folder(output)):
        _finish(output)


def clear(output: str) -> None:
    """Remove all buildings from an output's job folder."""
    folder = job_folder(output)
    fs, path = store_of(folder)
    for name in set(names_in(folder)).intersection(BUILDINGS):
        with reaching(folder):
            fs.rm(f"{path}/{name}", recursive=True)


def _beside(target: Path, suffix: str) -> Path:
    """Return a hidden folder beside a target, in the same file system."""
    return target.with_name(f".{target.name}.{suffix}")


def _rename(source: Path, target: Path) -> None:
    """Rename a folder, after copying it beside its target if that is in another file system."""
    try:
        _exchange(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with _copied(target) as copy:
            _copy_folder(source, copy)
        shutil.rmtree(source)
    shutil.rmtree(_beside(target, "older"), ignore_errors=True)


@contextmanager
def _copied(target: Path) -> Iterator[Path]:
    """Yield a folder beside a target for a copy, which gets the target's name after the block."""
    copy = _beside(target, "partial")
    try:
        yield copy
        _exchange(copy, target)
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _copy_folder(source: Path, copy: Path) -> None:
    """Copy a folder, up to the first error; `shutil.copytree` would continue and raise a list of errors."""
    n_bytes = sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
    with explaining_full_disk(copy.parent, n_bytes):
        for place, _, names in os.walk(source):
            there = copy / Path(place).relative_to(source)
            there.mkdir(exist_ok=True)
            for name in names:
                shutil.copy2(Path(place) / name, there / name)


def _fetch(building: str, target: Path) -> None:
    """Copy a building from an object store beside its target, then rename the copy."""
    fs, source = store_of(building)
    with _copied(target) as copy, reaching(building):
        found = fs.find(source, detail=True)
        files = list(found)
        with explaining_full_disk(copy.parent, sum(int(about["size"]) for about in found.values())):
            fs.get(files, [f"{copy}{file[len(source) :]}" for file in files])
    shutil.rmtree(_beside(target, "older"), ignore_errors=True)
    with reaching(building):
        fs.rm(source, recursive=True)


def _exchange(source: Path, target: Path) -> None:
    """Rename a folder; an older one of that name is moved aside first, and restored if renaming fails."""
    older = _beside(target, "older")
    if target.exists():
        shutil.rmtree(older, ignore_errors=True)  # left by a publishing that was interrupted at its very end
        target.rename(older)
    try:
        source.rename(target)
    except BaseException:
        if older.exists():
            older.rename(target)
        raise


def _finish(output: str) -> None:
    """Copy the building that the journal names to the output; an interrupted copy starts again."""
    folder = job_folder(output)
    journal = object_at(f"{folder}/{PUBLISHING}")
    fs, path = store_of(folder)
    name, last = str(journal.get("from")), str(journal.get("last"))
    source, target = f"{path}/{name}", store_of(real_address(output))[1]
    with reaching(output):
        if fs.exists(f"{source}/{last}"):
            if fs.exists(target):
                fs.rm(target, recursive=True)
            files = sorted(fs.find(source), key=lambda file: file == f"{source}/{last}")
            copies = [target + file[len(source) :] for file in files]
            fs.copy(files[:-1], copies[:-1])
            fs.cp_file(files[-1], copies[-1])
        fs.rm_file(f"{path}/{PUBLISHING}")  # first, as a half-removed building must not be copied again
        if fs.exists(source):
            fs.rm(source, recursive=True)
