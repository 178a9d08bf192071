"""Stores by address, through fsspec: access to a store, and which of its errors may be temporary.

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
"""Options of a remote store, without a cache of listings, since others write to it, too."""

S3_READING: dict[str, object] = {"max_concurrency": 1}
"""Options of S3; with more connections, its client requests the size of each file first."""

SAME_STORE = {"s3a": "s3", "gcs": "gs"}
"""Protocols with two names."""

PROTOCOLS = ("file", "s3", "gs", "abfs", "memory", *SAME_STORE)
"""Protocols of stores that keep files under their own keys. Protocols of fsspec that fetch from anywhere, unpack, or
keep a copy on this host are not among them."""

LOCAL = ("file", "local")
"""Protocols of this host's file system."""

LASTING_ERRORS = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)
"""Errors for which another try is useless."""


def is_remote(address: str) -> bool:
    """Return whether an address is outside this process and this host's file system.

    Examples
    --------
    >>> [is_remote(address) for address in ("/data/X", "file:///data/X", "memory://X", "s3://data/X")]
    [False, False, False, True]
    """
    protocol, colons, _ = address.partition("://")
    return bool(colons) and protocol not in {"file", "local", "memory"}


def real_address(address: str) -> str:
    """Return the canonical address of an address, after following the links of a local path.

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
    except ValueError:  # a path with a NUL, for which opening raises an error
        return address


def is_within(address: str, folder: str) -> bool:
    """Return whether an address leads to a folder, or to something in it.

    Examples
    --------
    >>> [is_within(inner, "/data/X.zarr") for inner in ("/data/X.zarr/c", "file:///data/X.zarr", "/data/X.zarr.job")]
    [True, True, False]
    """
    return f"{real_address(address)}/".startswith(f"{real_address(folder).rstrip('/')}/")


def store_options(address: str) -> dict[str, object]:
    """Return the options of fsspec for opening the store of an address.

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
    """Convert the errors of a store's client to OSError, in a block that uses the store.

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
    """Prefix the errors of a block that reads an input with the input's name; an OSError stays an OSError.

    Raises
    ------
    InputError
        The input is invalid.
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
    """Return whether an error may be temporary, and does not mean that a file is missing or damaged.

    Examples
    --------
    >>> may_pass(TimeoutError(), "s3://data/X"), may_pass(FileNotFoundError(), "s3://data/X")
    (True, False)
    """
    if not is_remote(address) or not isinstance(error, OSError) or isinstance(error, LASTING_ERRORS):
        return False
    return error.errno != errno.EINVAL  # an impossible request, such as for bytes of an empty file


def file_size(fs: AbstractFileSystem, path: str, most: int) -> int:
    """Return the size of a regular file of at most ``most`` bytes.

    A pipe would hang its reader, and a device may have no end.

    Raises
    ------
    ValueError
        It is not a regular file, or it is larger.
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
    """Return the names of the files and folders in a folder, sorted; empty if there is no folder."""
    fs, path = store_of(address)
    try:
        with reaching(address):
            entries = [str(entry).rstrip("/") for entry in fs.ls(path, detail=False)]
    except FileNotFoundError:
        return []
    # An object store may have an empty file that stands for the folder itself.
    return sorted(entry.rsplit("/", 1)[-1] for entry in entries if entry != path.rstrip("/"))


def read_file(address: str, most: int) -> bytes:
    """Return the content of a file; raise as `file_size`."""
    fs, path = store_of(address)
    with reaching(address):
        file_size(fs, path, most)
        return bytes(fs.cat_file(path))


def is_of_this_host(fs: AbstractFileSystem) -> bool:
    """Return whether a store is the file system of this host."""
    return "file" in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol)


def put_file(address: str, content: bytes | memoryview, lasting: bool = True) -> None:
    """Write a file in one step: readers see the old one or the new one.

    On an object store this is a single put. In a local file system the file is first written under another name;
    missing folders are created.

    Parameters
    ----------
    address
        Path or URL of the file.
    content
        The whole content.
    lasting
        Whether a local file is on disk before it has its name. If not, a power failure may damage it, which its reader
        must be able to detect; it is written in a seventh of the time, and removed faster.

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
    """Yield a new file of this host, which appears at the address as a whole after the block, or not at all.

    In a local file system it is written under another name first, and missing folders are created. On an object store
    it is sent when the block has ended.

    Parameters
    ----------
    address
        Path or URL of the file.
    n_bytes
        Approximate size in bytes, for the message of a full disk.

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
