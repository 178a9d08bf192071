"""Stores by address, through fsspec: how to reach one, and which of its errors may pass.

The client of an object store has its own errors. Here they become `OSError`, after which tasks and jobs are tried
again. `FileNotFoundError` and `PermissionError` stay as they are.
"""

from __future__ import annotations

import errno
import os
import tempfile
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import fsspec.core

from distforest.errors import InputError
from distforest.stores.room import explaining_full_disk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsspec import AbstractFileSystem

CLIENTS = {"aiobotocore", "aiohttp", "azure", "botocore", "gcsfs", "google", "requests", "s3fs", "urllib3"}
"""Packages whose errors are those of a store's client."""

UNCACHED: dict[str, object] = {"use_listings_cache": False}
"""Options of a remote store: others write to it too, so listings are not kept."""

S3_READING: dict[str, object] = {"max_concurrency": 1}
"""Options of S3: with more, its client asks for the size of each file first, to read large files in parts."""

SAME_STORE = {"s3a": "s3", "gcs": "gs"}
"""Protocols by another name."""

PROTOCOLS = ("file", "s3", "gs", "abfs", "memory", *SAME_STORE)
"""Protocols of stores that hold files under their own keys. Protocols of fsspec that fetch from anywhere, unpack, or
keep a copy on this host are not among them."""

LOCAL = ("file", "local")
"""Protocols of this host's file system."""

LASTING_ERRORS = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)
"""Errors that another try does not mend."""


def is_remote(address: str) -> bool:
    """Whether an address leads out of this process and this host's file system.

    Examples
    --------
    >>> [is_remote(address) for address in ("/data/X", "file:///data/X", "memory://X", "s3://data/X")]
    [False, False, False, True]
    """
    protocol, colons, _ = address.partition("://")
    return bool(colons) and protocol not in {"file", "local", "memory"}


def real_address(address: str) -> str:
    """The one name of the place that an address leads to; the links of a local path are followed.

    Examples
    --------
    >>> real_address("file:///data/./X.zarr/"), real_address("s3a://data/X.zarr/")
    ('/data/X.zarr', 's3://data/X.zarr')
    """
    protocol, colons, path = address.partition("://")
    if "::" in address:
        return address
    if colons and protocol not in LOCAL:
        return f"{SAME_STORE.get(protocol, protocol)}://{path.strip('/')}"
    try:
        return os.path.realpath(path if colons else address)
    except ValueError:  # a path with a NUL: opening it tells so
        return address


def is_within(address: str, folder: str) -> bool:
    """Whether an address leads to a folder, or to something in it.

    Examples
    --------
    >>> [is_within(inner, "/data/X.zarr") for inner in ("/data/X.zarr/c", "file:///data/X.zarr", "/data/X.zarr.job")]
    [True, True, False]
    """
    return f"{real_address(address)}/".startswith(f"{real_address(folder).rstrip('/')}/")


def store_options(address: str) -> dict[str, object]:
    """Options of fsspec with which the store of an address is opened.

    Examples
    --------
    >>> store_options("/data/X"), store_options("gs://data/X")
    ({}, {'use_listings_cache': False})
    """
    if not is_remote(address):
        return {}
    return UNCACHED | S3_READING if address.startswith(("s3://", "s3a://")) else UNCACHED


def store_of(address: str) -> tuple[AbstractFileSystem, str]:
    """Open the store of an address; return it and the path there.

    Raises
    ------
    InputError
        The protocol is unknown, or the package for it is not installed.
    """
    try:
        fs, path = fsspec.core.url_to_fs(address, **store_options(address))
    except (ImportError, ValueError) as error:
        raise InputError(f"{address}: the store cannot be reached: {error}") from error
    return fs, str(path)


@contextmanager
def reaching(address: str) -> Iterator[None]:
    """Turn the errors of a store's client into OSError, in a block that uses the store.

    Raises
    ------
    PermissionError
        There are no credentials, or they do not suffice.
    OSError
        The store does not answer, or answers with an error.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) or not _is_of_client(error):
            raise
        kind = PermissionError if "Credential" in type(error).__name__ else OSError
        raise kind(f"{address}: {type(error).__name__}: {error}") from error


@contextmanager
def naming(place: str, address: str) -> Iterator[None]:
    """Put the name of an input before the errors of a block that reads it; an OSError stays one.

    Raises
    ------
    InputError
        The input is at fault.
    OSError
        The input cannot be read; the error has the kind and the number of the one in the block.
    """
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
    except OSError as error:
        kind = type(error) if type(error).__module__ == "builtins" else OSError
        named = kind(f"{place}: {address} cannot be read: {error}")
        named.errno = error.errno
        raise named from error


def may_pass(error: Exception, address: str) -> bool:
    """Whether an error says that a store could not be used just now, and not that a file is missing or damaged.

    Examples
    --------
    >>> may_pass(TimeoutError(), "s3://data/X"), may_pass(FileNotFoundError(), "s3://data/X")
    (True, False)
    """
    if not is_remote(address) or not isinstance(error, OSError) or isinstance(error, LASTING_ERRORS):
        return False
    return error.errno != errno.EINVAL  # an impossible request, such as for the first bytes of an empty file


def file_size(fs: AbstractFileSystem, path: str, most: int) -> int:
    """The size of a regular file of at most ``most`` bytes.

    A pipe would hang its reader, and a device may have no end.

    Raises
    ------
    ValueError
        It is no regular file, or it is larger.
    OSError
        There is no file, or the store does not answer.
    """
    info = fs.info(path)
    if info["type"] != "file":
        kind = "a folder" if info["type"] == "directory" else "a device, pipe or socket"
        raise ValueError(f"a regular file was expected at {path}, found {kind}")
    if info["size"] > most:
        raise ValueError(f"at most {most:,} bytes were expected at {path}, found {info['size']:,}")
    return int(info["size"])


def names_in(address: str) -> list[str]:
    """Names of the files and folders in a folder, sorted; empty if there is no folder."""
    fs, path = store_of(address)
    try:
        with reaching(address):
            entries = [str(entry).rstrip("/") for entry in fs.ls(path, detail=False)]
    except FileNotFoundError:
        return []
    # An object store may hold an empty file that stands for the folder itself.
    return sorted(entry.rsplit("/", 1)[-1] for entry in entries if entry != path.rstrip("/"))


def read_file(address: str, most: int) -> bytes:
    """The content of a file; raises as `file_size`."""
    fs, path = store_of(address)
    with reaching(address):
        file_size(fs, path, most)
        return bytes(fs.cat_file(path))


def is_of_this_host(fs: AbstractFileSystem) -> bool:
    """Whether a store is the file system of this host."""
    return "file" in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol)


def put_file(address: str, content: bytes | memoryview, lasting: bool = True) -> None:
    """Write a file in one step: readers see the old one or the new one.

    On an object store it is one put. In a local file system it is written beside its name first; folders that are
    missing are made.

    Parameters
    ----------
    address
        Path or URL of the file.
    content
        All of it.
    lasting
        Whether a local file is on disk before it has its name. If not, a loss of power may damage it, which its reader
        must be able to tell; it is written in a seventh of the time, and removed faster.

    Raises
    ------
    OSError
        The store does not answer, or the disk is full; as `reaching` and `explaining_full_disk`.
    """
    fs, path = store_of(address)
    if not is_of_this_host(fs):
        with reaching(address):
            fs.pipe_file(path, bytes(content))
        return
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}.partial")
    try:
        with explaining_full_disk(target.parent, len(content)), partial.open("wb") as file:
            file.write(content)
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def whole_file(address: str, n_bytes: int) -> Iterator[Path]:
    """A new file of this host for a block to write, which is at the address as a whole after the block, or not at all.

    In a local file system it is written beside its name, and missing folders are made. On an object store it is sent
    when the block has ended.

    Parameters
    ----------
    address
        Path or URL of the file.
    n_bytes
        About how many bytes it will have, for the message of a full disk.

    Raises
    ------
    OSError
        The store does not answer, or the disk is full; as `reaching` and `explaining_full_disk`.
    """
    fs, path = store_of(address)
    is_local = is_of_this_host(fs)
    folder = Path(path).parent if is_local else Path(tempfile.gettempdir())
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{Path(path).name}.{uuid.uuid4().hex}.partial"
    try:
        with explaining_full_disk(folder, n_bytes):
            yield partial
            with partial.open("rb") as file:
                os.fsync(file.fileno())
        if is_local:
            partial.replace(path)
            return
        with reaching(address):
            fs.put_file(str(partial), path)
    finally:
        partial.unlink(missing_ok=True)


def _is_of_client(error: Exception) -> bool:
    return any(kind.__module__.partition(".")[0] in CLIENTS for kind in type(error).__mro__)
