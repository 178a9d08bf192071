"""Checks of a process's environment: versions, kernels, scratch folder, job root, certificates, open ports.

These functions run in the client, in a scheduler and in its workers, which import them by name.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import platform
import shutil
import uuid
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import dask
import psutil
from dask.system import CPU_COUNT
from distributed import Worker
from distributed.comm import parse_address, parse_host_port

from distforest.errors import InputError
from distforest.jobs.versions import VERSIONS
from distforest.kernel_cache import kernel_folder
from distforest.service.slot import TakenError, slot
from distforest.sources.scratch import ScratchFolder
from distforest.stores.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from distributed import Scheduler, Security

T = TypeVar("T")

PAGES_CERTIFICATE = "distributed.scheduler.dashboard.tls.cert"
"""Dask's setting of the certificate for the scheduler's pages."""

OF_DASK = ("dask", "distributed", "cloudpickle")
"""Packages that processes communicate with."""


class Disk(NamedTuple):
    """A folder and its file system; ``fault`` is the reason why it cannot be used, or None.

    ``free`` is in bytes, ``device`` a number that is equal for folders of one file system on one host. Both are None
    for an object store, and for a folder that cannot be used.
    """

    folder: str
    fault: str | None = None
    free: int | None = None
    device: int | None = None
    filesystem: str = ""


class Kernels(NamedTuple):
    """The folder of compiled kernels, None if they are not kept, and their number."""

    folder: str | None
    writable: bool
    n_kept: int


class Checkup(NamedTuple):
    """The findings of a process.

    ``certificates`` are the Unix times at which its TLS files expire, by file. ``open_address`` is the address at which
    a scheduler listens to other hosts without TLS.
    """

    host: str
    cores: int
    versions: dict[str, str]
    kernels: Kernels
    scratch: Disk
    certificates: dict[str, float]
    open_address: str | None


class RootCheckup(NamedTuple):
    """The findings on a job root.

    ``compares`` is whether a write there is certain to replace only the content that the writer has seen. ``probe`` is
    the name of a file that was left there for other processes to see, None if none could be written.
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
    folder = kernel_folder()
    kernels = Kernels(None, writable=False, n_kept=0)
    if folder is not None:
        made = next(one for one in (folder, *folder.parents) if os.path.exists(one))
        kernels = Kernels(str(folder), os.access(made, os.W_OK), sum(1 for _ in folder.glob("*.kernel")))
    return Checkup(platform.node(), int(CPU_COUNT), known, kernels, scratch_disk(), {}, None)


async def aside(function: Callable[..., T], *arguments: object) -> T:
    """Call a function in a thread of a scheduler or worker, whose event loop continues."""
    return await asyncio.to_thread(function, *arguments)


async def examined_aside(dask_worker: Scheduler | Worker) -> Checkup:
    """Call `examined` in a thread of a scheduler or worker, which Dask passes under this name."""
    found = await asyncio.to_thread(examined)
    if isinstance(dask_worker, Worker):
        return found._replace(certificates=expiries(dask_worker.security, "worker"))
    ends = expiries(dask_worker.security, "scheduler")
    return found._replace(certificates=ends, open_address=open_address(dask_worker))


# --- disks ------------------------------------------------------------------------------------------------


def scratch_disk() -> Disk:
    """Return the scratch folder of this process."""
    try:
        scratch = ScratchFolder()
        scratch.check()
    except InputError as error:
        return Disk(os.environ.get("DISTFOREST_SCRATCH", ""), str(error))
    return _disk(scratch.path)


def _disk(folder: Path) -> Disk:
    real = folder.resolve()
    found = [part for part in psutil.disk_partitions(all=True) if real.is_relative_to(part.mountpoint)]
    kind = max(found, key=lambda part: len(part.mountpoint)).fstype if found else ""  # such as ext4 or nfs
    return Disk(str(folder), None, shutil.disk_usage(folder).free, folder.stat().st_dev, kind)


# --- the job root -----------------------------------------------------------------------------------------


def probed_root(root: str) -> RootCheckup:
    """Write a small file into a job root, as a service writes its lease; `forget_probe` removes it."""
    folder, name = Folder(root), f"doctor-{uuid.uuid4().hex}"
    try:
        if (kind := folder.kind) not in {"directory", None} or (kind is None and folder.is_local):
            found = "nothing is there" if kind is None else f"a {kind} is there"
            return RootCheckup(Disk(root, f"{found}, but a folder was expected, which a service creates"), False, None)
        probe = slot(folder, name)
        probe.read()
        probe.put(b"distforest doctor")
        local = Path(root.removeprefix("file://").removeprefix("local://"))
        return RootCheckup(_disk(local) if folder.is_local else Disk(root), probe.compares, name)
    except TakenError:
        fault = "a new file seems to have been written by another process"
    except (OSError, InputError) as error:
        fault = str(error)
    return RootCheckup(Disk(root, fault), False, None)


def sees_probe(root: str, name: str) -> str | None:
    """Return why this process does not see the file ``name`` in a job root; None if it does."""
    try:
        return None if Folder(root).exists(name) else "it is not the same folder there"
    except (OSError, InputError) as error:
        return str(error)


def forget_probe(root: str, name: str) -> None:
    """Remove the file of `probed_root`, and the file by which it was locked."""
    for own in (name, f".{name}.lock"):
        Folder(root).discard(own)


# --- certificates and ports -------------------------------------------------------------------------------


def expiries(security: Security, role: str) -> dict[str, float]:
    """Return the Unix times at which the certificates of a process expire, by the name of their file.

    The package cryptography, which the extra ``tls`` installs, reads them; without it, the result is empty.
    """
    try:
        from cryptography import x509  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        return {}
    files = security.get_tls_config_for_role(role)
    named = {files["ca_file"], files["cert"], dask.config.get(PAGES_CERTIFICATE, None) if role == "scheduler" else None}
    found = {}
    for path in filter(None, named):
        with suppress(OSError, ValueError):  # Dask refuses to start with a file that it cannot use
            is_content = "\n" in path
            text = path.encode() if is_content else Path(path).read_bytes()
            ends = [one.not_valid_after_utc.timestamp() for one in x509.load_pem_x509_certificates(text)]
            found["in memory" if is_content else str(path)] = min(ends)
    return found


def common_name(certificate: Mapping[str, Any] | None) -> str | None:
    """Return the common name of the subject of a certificate, as `ssl.SSLSocket.getpeercert` returns it.

    Examples
    --------
    >>> common_name({"subject": ((("organizationName", "Analytical"),), (("commonName", "ada"),))})
    'ada'
    """
    subject = (pair for part in (certificate or {}).get("subject", ()) for pair in part)
    return next((value for name, value in subject if name == "commonName"), None)


def open_address(scheduler: Scheduler) -> str | None:
    """Return the address at which a scheduler listens to other hosts without TLS; None if there is none."""
    return next((at.listen_address for at in scheduler.listeners if _is_open(at.listen_address)), None)


def _is_open(address: str) -> bool:
    """Return whether processes of other hosts can reach an address without a certificate.

    Examples
    --------
    >>> [_is_open(at) for at in ("tcp://0.0.0.0:1", "tcp://[::1]:1", "tls://0.0.0.0:1", "inproc://10.0.0.7/1/2")]
    [True, False, False, False]
    """
    protocol, place = parse_address(address)
    return protocol in {"tcp", "ws"} and not ipaddress.ip_address(parse_host_port(place, 0)[0]).is_loopback
