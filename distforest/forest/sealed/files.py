"""The files of a sealed forest: in a folder of any store, or one after another in a single file.

::

    wine.forest.zarr/           wine.forest.zarr.zip
        zarr.json                   | zarr.json | left/zarr.json | left/c/0 | ... | manifest.json | directory |
        left/zarr.json
        left/c/0 ...
        manifest.json

The single file is a zip archive with uncompressed members, which Zarr's ``ZipStore`` reads, too. Nothing is unpacked
from an archive of unknown origin: its directory is bounded before it is read; members that are compressed, encrypted,
named twice or larger than the file are refused; and a member is read by the name that the manifest gives.

An array must have the exact Zarr metadata of one of the `PACKINGS`. Any others are refused, because Zarr would follow
them, for example to other files or codecs.
"""

from __future__ import annotations

import struct
import sys
import zipfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from distforest.errors import ArtifactError, InputError
from distforest.sources.arrays import store_to_read
from distforest.sources.frames import BLOSC_HEAD, blosc_size, zstd_size
from distforest.stores.addresses import LASTING_ERRORS, file_size, reaching, read_file, store_of, whole_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO

    from zarr.core.buffer import Buffer
    from zarr.storage import StoreLike

    from distforest.forest.forest import ArrayEntry

ONE_FILE = ".zip"
"""Suffix of a forest in one file."""

MAX_DIRECTORY_BYTES = 32 << 20
"""Largest directory of an archive that is read; the chunks of a forest of 4 GiB take 100 KB there."""

MAX_FILE_BYTES = 1 << 40
"""Largest file that is opened as a forest."""

END, END_64 = struct.Struct("<4s4H2LH"), struct.Struct("<4sQ2H2L4Q")
"""Last record of an archive, and the longer one before it in an archive with sizes above 32 bits."""

LOCATOR_BYTES = 20
"""Size of the record between the two."""

CHECKSUM = 4
"""Number of bytes of the checksum (crc32c) after the frame of each chunk."""

NO_TIME = (1980, 1, 1, 0, 0, 0)
"""Time of every member, so that the same forest makes the same file."""


@dataclass(frozen=True)
class FolderFiles:
    """The files of a folder of any store, at an address.

    The methods raise ValueError or OSError if a file is missing or damaged, here and in `ArchiveFiles`.
    """

    address: str

    def read(self, name: str, most: int) -> bytes:
        """Return the content of a file of at most ``most`` bytes."""
        return read_file(f"{self.address}/{name}", most)

    def head(self, name: str, n_bytes: int, most: int) -> tuple[bytes, int]:
        """Return the first ``n_bytes`` of a file of at most ``most`` bytes, and its size."""
        fs, path = store_of(f"{self.address}/{name}")
        with reaching(self.address):
            size = file_size(fs, path, most)
            return bytes(fs.cat_file(path, start=0, end=min(n_bytes, size))), size

    def array(self, name: str) -> StoreLike:
        """Return the array ``name`` in the form that Zarr takes."""
        return store_to_read(f"{self.address}/{name}")


@dataclass(frozen=True)
class ArchiveFiles:
    """The members of an open archive that `checked_archive` has checked."""

    archive: zipfile.ZipFile

    def read(self, name: str, most: int) -> bytes:
        """Return the content of a member of at most ``most`` bytes."""
        size = self._size(name, most)
        return self._first(name, size)

    def head(self, name: str, n_bytes: int, most: int) -> tuple[bytes, int]:
        """Return the first ``n_bytes`` of a member of at most ``most`` bytes, and its size."""
        size = self._size(name, most)
        return self._first(name, min(n_bytes, size)), size

    def array(self, name: str) -> StoreLike:
        """Return the array ``name``: its stored members, in memory."""
        members = [info for info in self.archive.infolist() if info.filename.startswith(f"{name}/")]
        files = {info.filename.removeprefix(f"{name}/"): self._first(info.filename, info.file_size) for info in members}
        as_buffer = default_buffer_prototype().buffer.from_bytes
        return MemoryStore({key: as_buffer(content) for key, content in files.items()}, read_only=True)

    def _size(self, name: str, most: int) -> int:
        try:
            size = self.archive.getinfo(name).file_size
        except KeyError as error:
            raise FileNotFoundError(f"no {name} in the file") from error
        if size > most:
            raise ValueError(f"at most {most:,} bytes were expected at {name}, found {size:,}")
        return size

    def _first(self, name: str, n_bytes: int) -> bytes:
        """Return the first bytes of a member; if they are the whole member, its checksum is compared."""
        try:
            with self.archive.open(name) as member:
                return member.read(n_bytes)
        except (zipfile.BadZipFile, EOFError, RuntimeError, struct.error) as error:
            raise ValueError(f"{name}: {error}") from error


SealedFiles = FolderFiles | ArchiveFiles


def is_one_file(address: str) -> bool:
    """Return whether an address is that of a forest in one file, by its suffix.

    Examples
    --------
    >>> is_one_file("s3://data/wine.forest.zarr.zip"), is_one_file("wine.forest.zarr")
    (True, False)
    """
    return address.rstrip("/").endswith(ONE_FILE)


@contextmanager
def sealed_files(address: str) -> Iterator[SealedFiles]:
    """Yield the files of the forest at an address.

    Raises
    ------
    ArtifactError
        The file is not an archive of a forest, or is cut off.
    OSError
        A remote store does not answer.
    """
    if not is_one_file(address) or _is_folder(address):
        yield FolderFiles(address)
        return
    with reaching(address):
        try:
            fs, path = store_of(address)
            size = file_size(fs, path, MAX_FILE_BYTES)
        except (ValueError, *LASTING_ERRORS) as error:
            raise ArtifactError(f"{address}: no sealed forest here ({in_words(error, 'file')})") from error
        with fs.open(path, "rb") as file:
            yield ArchiveFiles(checked_archive(address, file, size))


def in_words(error: Exception, wanted: str) -> str:
    """Return a text of an error in reading a file, without the error number.

    Examples
    --------
    >>> in_words(NotADirectoryError(20, "Not a directory"), "manifest.json")
    'a file is where the folder should be; give the folder, or the .zip, that a fit or `save` has written'
    """
    cure = "give the folder, or the .zip, that a fit or `save` has written"
    if isinstance(error, FileNotFoundError):
        return f"there is no {wanted}; {cure}"
    if isinstance(error, NotADirectoryError):
        return f"a file is where the folder should be; {cure}"
    if isinstance(error, OSError) and error.strerror:
        return f"{wanted} cannot be read: {error.strerror}"
    return f"{wanted} cannot be read: {error}"


def _is_folder(address: str) -> bool:
    """Return whether there is a folder at an address, which may have the name of a file."""
    with suppress(InputError), reaching(address):
        fs, path = store_of(address)
        return bool(fs.isdir(path))
    return False


def checked_archive(address: str, file: IO[bytes], size: int) -> zipfile.ZipFile:
    """Open the archive in a file of ``size`` bytes; raise ArtifactError if it is not one that `whole_archive` makes."""
    try:
        _check_end(file, size)
        archive = zipfile.ZipFile(file)
        _check_members(archive.infolist(), size)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, struct.error) as error:
        raise ArtifactError(f"{address}: no sealed forest here: the file is cut off or damaged ({error})") from error
    return archive


def _check_end(file: IO[bytes], size: int) -> None:
    """Refuse a file that does not end with an archive's last record, right after a directory that is not too large."""
    file.seek(max(0, size - END.size - LOCATOR_BYTES - END_64.size))
    tail = file.read(END.size + LOCATOR_BYTES + END_64.size)
    if len(tail) < END.size or tail[-END.size :][:4] != b"PK\5\6":
        raise ValueError("it does not end as a zip archive does")
    *_, n_bytes, start, n_comment = END.unpack(tail[-END.size :])
    end = size - END.size
    if tail[:4] == b"PK\6\6" and tail[END_64.size :][:4] == b"PK\6\7":
        *_, n_bytes, start = END_64.unpack(tail[: END_64.size])
        end -= LOCATOR_BYTES + END_64.size
    if n_comment or start + n_bytes != end or n_bytes > MAX_DIRECTORY_BYTES:
        raise ValueError(f"a directory of at most {MAX_DIRECTORY_BYTES:,} bytes was expected at its end")


def _check_members(members: list[zipfile.ZipInfo], size: int) -> None:
    """Refuse members that are compressed or encrypted, that are named twice, or that have more bytes than the file."""
    for info in members:
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits & 1:
            raise ValueError(f"{info.filename[:80]!r} is packed or encrypted, and members are stored as they are")
    if len({info.filename for info in members}) != len(members):
        raise ValueError("two members have the same name")
    if sum(info.file_size for info in members) > size:
        raise ValueError("its members announce more bytes than it has")


@dataclass(frozen=True)
class NewArchive:
    """An archive that is being written."""

    archive: zipfile.ZipFile

    def add(self, name: str, content: bytes) -> None:
        """Add a file; the same files in the same order make the same archive."""
        info = zipfile.ZipInfo(name, NO_TIME)
        info.external_attr = 0o644 << 16
        self.archive.writestr(info, content)

    def add_array(self, name: str, files: dict[str, Buffer]) -> None:
        """Add the files of an array that was written to a store of memory."""
        for key in sorted(files):
            self.add(f"{name}/{key}", files[key].to_bytes())


@contextmanager
def whole_archive(address: str, n_bytes: int) -> Iterator[NewArchive]:
    """Yield a new archive of about ``n_bytes``, which appears at the address as a whole, or not at all."""
    with whole_file(address, n_bytes) as path, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        yield NewArchive(archive)


@dataclass(frozen=True)
class Packing:
    """A codec, and its way of reading the decoded size of a chunk from the first bytes.

    Attributes
    ----------
    codec
        Name of the codec.
    configuration
        Function that returns the codec's configuration for values of a width in bytes.
    head
        Number of first bytes of a chunk that are needed for its decoded size.
    announced
        Function that reads the decoded size from these bytes and the length of the frame; None for an invalid frame.
    """

    codec: str
    configuration: Callable[[int], dict[str, object]]
    head: int
    announced: Callable[[bytes, int], int | None]

    def size(self, head: bytes, n_stored: int) -> int | None:
        """Return the decoded size of a chunk of ``n_stored`` bytes that begins with ``head``; None if it is invalid."""
        return self.announced(head, n_stored - CHECKSUM)

    def metadata(self, entry: ArrayEntry) -> dict[str, object]:
        """Return the Zarr metadata of an array, from its entry in the manifest."""
        width, row = np.dtype(entry["dtype"]).itemsize, [max(1, size) for size in entry["shape"][1:]]
        chunk = {"chunk_shape": [entry["chunk_rows"], *row]}
        order = {"configuration": {"endian": "little"}} if width > 1 else {}
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": entry["shape"],
            "data_type": entry["dtype"],
            "chunk_grid": {"name": "regular", "configuration": chunk},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": np.zeros((), entry["dtype"]).item(),
            "codecs": [
                {"name": "bytes", **order},
                {"name": self.codec, "configuration": self.configuration(width)},
                {"name": "crc32c"},
            ],
        }


def _of_blosc(width: int) -> dict[str, object]:
    return {"typesize": width, "cname": "lz4", "clevel": 1, "shuffle": "bitshuffle", "blocksize": 0}


def _of_zstd(_width: int) -> dict[str, object]:
    return {"level": 1, "checksum": False}


def _zstd_size(chunk: bytes, n_bytes: int) -> int | None:
    return zstd_size(chunk[:n_bytes])


PACKINGS = (
    Packing("blosc", _of_blosc, BLOSC_HEAD, blosc_size),
    Packing("zstd", _of_zstd, sys.maxsize, _zstd_size),
)
"""The current packing of forests, and the first one."""


def without_empty(node: object) -> object:
    """Return JSON without keys whose value is empty or null, which some versions of Zarr write and others omit.

    Examples
    --------
    >>> without_empty({"name": "crc32c", "configuration": {}, "attributes": {"a": None}})
    {'name': 'crc32c'}
    """
    if not isinstance(node, dict):
        return [without_empty(value) for value in node] if isinstance(node, list) else node
    kept = {key: without_empty(value) for key, value in node.items()}
    return {key: value for key, value in kept.items() if value is not None and value not in ({}, [])}
