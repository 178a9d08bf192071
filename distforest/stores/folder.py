"""A folder on any fsspec store: small files that appear as a whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from distforest.stores.addresses import is_of_this_host, names_in, put_file, reaching, store_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fsspec import AbstractFileSystem


class End(NamedTuple):
    """The last bytes of a file, and whether they are the whole file."""

    content: bytes
    is_whole: bool


@dataclass(frozen=True)
class Folder:
    """A folder by path or URL.

    Every method raises OSError if the store does not answer or refuses: `FileNotFoundError` if a file is missing,
    `PermissionError` if access is not allowed. It raises InputError if the protocol is unknown or not installed.

    Examples
    --------
    >>> folder = Folder("memory://example")
    >>> folder.write("state.json", b"{}")
    >>> folder.read("state.json"), folder.names(), folder.exists("other")
    (b'{}', ['state.json'], False)
    """

    address: str

    def _at(self, name: str) -> tuple[AbstractFileSystem, str]:
        return store_of(f"{self.address.rstrip('/')}/{name}" if name else self.address)

    @property
    def is_local(self) -> bool:
        """Whether the folder is in this host's file system."""
        return is_of_this_host(self._at("")[0])

    @property
    def kind(self) -> str | None:
        """The type of the object at the address: ``"directory"``, ``"file"`` or another of fsspec; None: nothing."""
        fs, path = self._at("")
        try:
            with reaching(self.address):
                return str(fs.info(path)["type"])
        except (FileNotFoundError, NotADirectoryError):
            return None

    @property
    def is_link(self) -> bool:
        """Whether the address is a symbolic link in this host's file system."""
        return self.is_local and os.path.islink(self._at("")[1].rstrip("/"))

    def within(self, name: str) -> Folder:
        """Return the folder ``name`` in this one."""
        return Folder(f"{self.address.rstrip('/')}/{name}")

    def write(self, name: str, content: bytes | memoryview, lasting: bool = True) -> None:
        """Write a file in one step; see `put_file`."""
        put_file(f"{self.address.rstrip('/')}/{name}", content, lasting)

    def append(self, name: str, content: bytes) -> int:
        """Append whole lines to a file that has no other writer; return the size of the file.

        A line that a crash has cut off is completed first. An object store cannot append, so the file is written again.
        Lines with which the file already ends are omitted: an earlier put may have succeeded although its answer was
        lost.
        """
        path = Path(self._at(name)[1])
        if not self.is_local:
            before = b""
            with suppress(FileNotFoundError):
                before = self.read(name)
            lines = content.splitlines(keepends=True)
            done = next((n for n in range(len(lines), 0, -1) if before.endswith(b"".join(lines[:n]))), 0)
            whole = before + b"".join(lines[done:])
            self.write(name, whole)
            return len(whole)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                content = content if file.read(1) == b"\n" else b"\n" + content
            file.write(content)
            return file.tell()

    def discard(self, name: str) -> None:
        """Remove a file if it is there."""
        fs, path = self._at(name)
        with reaching(self.address):
            if fs.exists(path):
                fs.rm_file(path)

    def read(self, name: str) -> bytes:
        """Return the content of a file; raise FileNotFoundError."""
        fs, path = self._at(name)
        with reaching(self.address):
            return bytes(fs.cat_file(path))

    def ends(self, names: Sequence[str], most: int) -> list[End | Exception]:
        """Return the last bytes of regular files, at most ``most`` of each, or errors for files that cannot be read.

        An error is FileNotFoundError or another OSError. It is ValueError if there is no regular file: a folder, a
        pipe, which would block its reader, or a link, including one within the path. An object store is asked for many
        files at once.
        """
        fs, path = self._at("")
        if self.is_local:
            return [_end_here(path, name, most) for name in names]
        paths = [f"{path.rstrip('/')}/{name}" for name in names]
        with reaching(self.address):
            answers = fs.cat_ranges(paths, [-most - 1] * len(paths), [None] * len(paths), on_error="return")
        return [self._end(answer, most) for answer in answers]

    def _end(self, answer: bytes | Exception, most: int) -> End | Exception:
        """Read a store's answer to a request for the last ``most`` + 1 bytes of a file."""
        if not isinstance(answer, Exception):
            return End(bytes(answer[-most:]), len(answer) <= most)
        if isinstance(answer, OSError) and answer.errno == errno.EINVAL:  # an empty file has no last bytes
            return End(b"", is_whole=True)
        try:
            with reaching(self.address):
                raise answer
        except (OSError, ValueError) as error:
            return error

    def end(self, name: str, most: int) -> End:
        """Return the last bytes of a regular file; raise the error that `ends` returns."""
        [end] = self.ends([name], most)
        if isinstance(end, Exception):
            raise end
        return end

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file for reading in any order within a block; raise FileNotFoundError."""
        fs, path = self._at(name)
        with reaching(self.address), fs.open(path, "rb") as file:
            yield file

    def exists(self, name: str = "") -> bool:
        """Return whether the file ``name`` exists; without a name, whether the folder exists."""
        fs, path = self._at(name)
        with reaching(self.address):
            return bool(fs.exists(path))

    def names(self) -> list[str]:
        """Return the names of the files in the folder, sorted, without those that are being written."""
        return [name for name in names_in(self.address) if not name.endswith(".partial")]

    def folders(self) -> list[str]:
        """Return the names of the folders in the folder, and of any links, sorted."""
        fs, path = self._at("")
        if self.is_local:
            with os.scandir(path) as entries:
                return sorted(entry.name for entry in entries if entry.is_symlink() or entry.is_dir())
        try:
            with reaching(self.address):
                folders = [str(entry["name"]) for entry in fs.ls(path, detail=True) if entry["type"] == "directory"]
        except FileNotFoundError:
            return []
        return sorted(name.rstrip("/").rsplit("/", 1)[-1] for name in folders if name.rstrip("/") != path.rstrip("/"))

    def sweep(self) -> None:
        """Remove files that a killed process has left half written; no other process may write in the folder."""
        if self.is_local:
            for path in Path(self._at("")[1]).glob(".*.partial"):
                path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the folder and its content; for a link, only the link itself."""
        fs, path = self._at("")
        if self.is_link:
            os.unlink(path.rstrip("/"))
            return
        with reaching(self.address):
            if fs.exists(path):
                fs.rm(path, recursive=True)

    def clear(self, but: str) -> None:
        """Remove the content of the folder except the file ``but``; if that is missing, remove the folder, too."""
        if not self.exists(but):
            self.remove()
            return
        fs, path = self._at("")
        for name in names_in(self.address):
            if name != but:
                with reaching(self.address):
                    fs.rm(f"{path}/{name}", recursive=True)


def _end_here(folder: str, name: str, most: int) -> End | Exception:
    """Return the end of a file on this host, or an error; links are not followed, and a pipe does not block."""
    path = folder
    for part in name.split("/"):
        path = os.path.join(path, part)
        if os.path.islink(path):
            return ValueError(f"{path} is a link, and links are not followed")
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a device, pipe or socket"
                return ValueError(f"a regular file was expected at {path}, found {kind}")
            os.lseek(file, max(0, status.st_size - most), os.SEEK_SET)
            with open(file, "rb", closefd=False) as opened:
                return End(opened.read(most), status.st_size <= most)
        finally:
            os.close(file)
    except OSError as error:
        return error
