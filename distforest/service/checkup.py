"""What a process finds where it runs: versions, cores, compiled kernels, the scratch folder, a job root.

These functions run in the client, in a scheduler and in its workers, which find them by their names.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import uuid
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil
from dask.system import CPU_COUNT
from distributed import Worker

from distforest.errors import InputError
from distforest.jobs.versions import VERSIONS
from distforest.kernel_cache import kernel_folder
from distforest.service.exposure import expiries, open_address
from distforest.service.slot import TakenError, slot
from distforest.sources.scratch import ScratchFolder
from distforest.stores.folder import Folder

if TYPE_CHECKING:
    from distributed import Scheduler

OF_DASK = ("dask", "distributed", "cloudpickle")
"""Packages with which processes talk to each other."""


class Disk(NamedTuple):
    """A folder and its file system; ``fault`` says why it cannot be used, None for no fault.

    ``free`` is in bytes, ``device`` a number that is equal for folders of one file system of one host; both are None
    for an object store, and for a folder that cannot be used.
    """

    folder: str
    fault: str | None = None
    free: int | None = None
    device: int | None = None
    filesystem: str = ""


class Kernels(NamedTuple):
    """Where compiled kernels are kept, None if nowhere, and how many are there."""

    folder: str | None
    writable: bool
    n_kept: int


class Checkup(NamedTuple):
    """What a process has found.

    ``certificates`` are the Unix times at which its TLS files expire, by file; ``open_address`` is where a scheduler
    listens to other hosts without TLS.
    """

    host: str
    cores: int
    versions: dict[str, str]
    kernels: Kernels
    scratch: Disk
    certificates: dict[str, float]
    open_address: str | None


class RootCheckup(NamedTuple):
    """What is found of a job root; ``compares``: whether a file there is certainly written over what was seen only.

    ``probe`` is the name of a file that was left there for others to see, None if none could be written.
    """

    disk: Disk
    compares: bool
    probe: str | None


def examined() -> Checkup:
    """Examine this process and its host.

    Examples
    --------
    >>> found = examined()
    >>> found.cores >= 1, "numba" in found.versions
    (True, True)
    """
    known = {**VERSIONS, **{name: version(name) for name in OF_DASK}}
    return Checkup(platform.node(), int(CPU_COUNT), known, _kernels(), _scratch(), {}, None)


async def examined_aside(dask_worker: Scheduler | Worker) -> Checkup:
    """`examined` in a thread of a scheduler or worker, which Dask passes under this name."""
    found = await asyncio.to_thread(examined)
    if isinstance(dask_worker, Worker):
        return found._replace(certificates=expiries(dask_worker.security, "worker"))
    ends = expiries(dask_worker.security, "scheduler")
    return found._replace(certificates=ends, open_address=open_address(dask_worker))


# --- kernels and scratch ----------------------------------------------------------------------------------


def _kernels() -> Kernels:
    """Where compiled kernels are kept."""
    folder = kernel_folder()
    if folder is None:
        return Kernels(None, writable=False, n_kept=0)
    made = next(one for one in (folder, *folder.parents) if os.path.exists(one))
    return Kernels(str(folder), os.access(made, os.W_OK), sum(1 for _ in folder.glob("*.kernel")))


def _scratch() -> Disk:
    try:
        scratch = ScratchFolder()
        scratch.check()
    except InputError as error:
        return Disk(os.environ.get("DISTFOREST_SCRATCH", ""), str(error))
    return _disk(scratch.path)


async def scratch_free() -> int | None:
    """Bytes that are free in the scratch folder of this process; None if it cannot be used. In a thread."""
    return (await asyncio.to_thread(_scratch)).free


def _disk(folder: Path) -> Disk:
    return Disk(str(folder), None, shutil.disk_usage(folder).free, folder.stat().st_dev, _filesystem(folder))


def _filesystem(folder: Path) -> str:
    """The type of the file system of a folder, such as ext4 or nfs; empty if the system does not say."""
    real = folder.resolve()
    found = [part for part in psutil.disk_partitions(all=True) if real.is_relative_to(part.mountpoint)]
    return max(found, key=lambda part: len(part.mountpoint)).fstype if found else ""


# --- the job root -----------------------------------------------------------------------------------------


def probed_root(root: str) -> RootCheckup:
    """Write a small file into a job root, as a service writes its lease; it stays there until `forget_probe`."""
    folder, name = Folder(root), f"doctor-{uuid.uuid4().hex}"
    try:
        if (kind := folder.kind) not in {"directory", None} or (kind is None and folder.is_local):
            found = "nothing is there" if kind is None else f"a {kind} is there"
            return RootCheckup(Disk(root, f"{found}, and a folder was expected, which a service makes"), False, None)
        probe = slot(folder, name)
        probe.read()
        probe.put(b"distforest doctor")
        return RootCheckup(_disk(Path(_local(root))) if folder.is_local else Disk(root), probe.compares, name)
    except TakenError:
        fault = "a file that nobody else knows is said to have been written by another process"
    except (OSError, InputError) as error:
        fault = str(error)
    return RootCheckup(Disk(root, fault), False, None)


def _local(root: str) -> str:
    return root.removeprefix("file://").removeprefix("local://")


async def probed_aside(root: str) -> RootCheckup:
    """`probed_root` in a thread."""
    return await asyncio.to_thread(probed_root, root)


def sees_probe(root: str, name: str) -> str | None:
    """Why this process does not see the file ``name`` in a job root; None if it does."""
    try:
        return None if Folder(root).exists(name) else "it is not the same folder there"
    except (OSError, InputError) as error:
        return str(error)


async def sees_aside(root: str, name: str) -> str | None:
    """`sees_probe` in a thread."""
    return await asyncio.to_thread(sees_probe, root, name)


def forget_probe(root: str, name: str) -> None:
    """Remove the file of `probed_root`, and the file by which it was locked."""
    for own in (name, f".{name}.lock"):
        Folder(root).discard(own)


async def forget_aside(root: str, name: str) -> None:
    """`forget_probe` in a thread."""
    await asyncio.to_thread(forget_probe, root, name)
