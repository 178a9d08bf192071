"""A job's folder on any fsspec store: small files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, NoReturn

from distforest.stores.addresses import is_of_this_host, names_in, put_file, reaching, store_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fsspec import AbstractFileSystem


class End(NamedTuple):
    """The last bytes of a file, and whether they are all of it."""

    content: bytes
    is_whole: bool


@dataclass(frozen=True)
class Folder:
    """A folder by path or URL.

    Every method raises OSError where the store does not answer, or refuses: `FileNotFoundError` for what is not there,
    `PermissionError` for what is not allowed. Where the protocol is unknown or not installed, it is InputError.

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
        """Whether the folder lies in this host's file system."""
        return is_of_this_host(self._at("")[0])

    @property
    def kind(self) -> str | None:
        """What stands at the address: ``"directory"``, ``"file"``, or another word of fsspec's; None: nothing."""
        fs, path = self._at("")
        try:
            with reaching(self.address):
                return str(fs.info(path)["type"])
        except (FileNotFoundError, NotADirectoryError):
            return None

    @property
    def is_link(self) -> bool:
        """Whether another place in this host's file system stands behind the name."""
        return self.is_local and os.path.islink(self._at("")[1].rstrip("/"))

    def within(self, name: str) -> Folder:
        """The folder ``name`` in this one."""
        return Folder(f"{self.address.rstrip('/')}/{name}")

    def write(self, name: str, content: bytes | memoryview, lasting: bool = True) -> None:
        """Write a file in one step; see `put_file`."""
        put_file(f"{self.address.rstrip('/')}/{name}", content, lasting)

    def append(self, name: str, content: bytes) -> int:
        """Add whole lines at the end of a file that nobody else writes; a line that a crash has cut off is ended.

        An object store cannot append: there the file is written anew, without lines that are its last ones already, as
        a put may have been done whose answer was lost. Returns the size of the file.
        """
        path = Path(self._at(name)[1])
        if not self.is_local:
            held = self._read_if_there(name)
            whole = held + _not_yet(held, content)
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
        """A file's content; raises FileNotFoundError."""
        fs, path = self._at(name)
        with reaching(self.address):
            return bytes(fs.cat_file(path))

    def ends(self, names: Sequence[str], most: int) -> list[End | Exception]:
        """The last bytes of regular files, at most so many of each; in place of one that cannot be read, why.

        That is FileNotFoundError or another OSError, or ValueError for what is no regular file: a link, also in the
        midst of a name, a folder, or a pipe, which would hang its reader. An object store is asked for many files at
        once.
        """
        fs, path = self._at("")
        if self.is_local:
            return [_end_or_error(partial(_end_here, path, name, most)) for name in names]
        paths = [f"{path.rstrip('/')}/{name}" for name in names]
        with reaching(self.address):
            found = fs.cat_ranges(paths, [-most - 1] * len(paths), [None] * len(paths), on_error="return")
        return [self._end(content, most) for content in found]

    def _end(self, found: bytes | Exception, most: int) -> End | Exception:
        """What a store has answered to the question for the end of a file, of one byte more than may be."""
        if isinstance(found, OSError) and found.errno == errno.EINVAL:  # an empty file has no last bytes
            return End(b"", is_whole=True)
        if isinstance(found, Exception):
            return _end_or_error(partial(self._raise_translated, found))
        return End(bytes(found[-most:]), len(found) <= most)

    def _raise_translated(self, error: Exception) -> NoReturn:
        """Raise the error of a store's client, translated by `reaching`."""
        with reaching(self.address):
            raise error

    def end(self, name: str, most: int) -> End:
        """The last bytes of a regular file; raises what `ends` answers."""
        [found] = self.ends([name], most)
        if isinstance(found, Exception):
            raise found
        return found

    def _read_if_there(self, name: str) -> bytes:
        try:
            return self.read(name)
        except FileNotFoundError:
            return b""

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """A file, open for reading in any order within a block; raises FileNotFoundError."""
        fs, path = self._at(name)
        with reaching(self.address), fs.open(path, "rb") as file:
            yield file

    def exists(self, name: str = "") -> bool:
        """Whether the file (or, without a name, the folder) is there."""
        fs, path = self._at(name)
        with reaching(self.address):
            return bool(fs.exists(path))

    def names(self) -> list[str]:
        """Names of the files in the folder, sorted, without those that are being written."""
        return [name for name in names_in(self.address) if not name.endswith(".partial")]

    def folders(self) -> list[str]:
        """Names of the folders in the folder, sorted, and of links, wherever they lead."""
        fs, path = self._at("")
        if self.is_local:
            with os.scandir(path) as entries:
                return sorted(entry.name for entry in entries if entry.is_symlink() or entry.is_dir())
        try:
            with reaching(self.address):
                found = [str(entry["name"]) for entry in fs.ls(path, detail=True) if entry["type"] == "directory"]
        except FileNotFoundError:
            return []
        return sorted(name.rstrip("/").rsplit("/", 1)[-1] for name in found if name.rstrip("/") != path.rstrip("/"))

    def sweep(self) -> None:
        """Remove what a process that was killed has left half written in the folder; nobody may be writing there."""
        if self.is_local:
            for path in Path(self._at("")[1]).glob(".*.partial"):
                path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the folder with all that is in it; of a link the link alone."""
        fs, path = self._at("")
        if self.is_link:
            os.unlink(path.rstrip("/"))
            return
        with reaching(self.address):
            if fs.exists(path):
                fs.rm(path, recursive=True)

    def clear(self, but: str) -> None:
        """Remove all that is in the folder but one file; without that, the folder too."""
        if not self.exists(but):
            self.remove()
            return
        fs, path = self._at("")
        for name in names_in(self.address):
            if name != but:
                with reaching(self.address):
                    fs.rm(f"{path}/{name}", recursive=True)


def _end_here(folder: str, name: str, most: int) -> End:
    """The end of a file of this host; a link is not followed, and a pipe is not waited for."""
    path = folder
    for part in name.split("/"):
        path = os.path.join(path, part)
        if os.path.islink(path):
            raise ValueError(f"{path} is a link, and links are not followed")
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            kind = "a folder" if stat.S_ISDIR(found.st_mode) else "a device, pipe or socket"
            raise ValueError(f"a regular file was expected at {path}, found {kind}")
        os.lseek(file, max(0, found.st_size - most), os.SEEK_SET)
        with open(file, "rb", closefd=False) as opened:
            return End(opened.read(most), found.st_size <= most)
    finally:
        os.close(file)


def _end_or_error(read: Callable[[], End]) -> End | Exception:
    """Return the end of a file, or the error of reading it."""
    try:
        return read()
    except (OSError, ValueError) as error:
        return error


def _not_yet(held: bytes, content: bytes) -> bytes:
    """Lines of ``content`` without the first ones that ``held`` ends with."""
    lines = content.splitlines(keepends=True)
    done = next((n for n in range(len(lines), 0, -1) if held.endswith(b"".join(lines[:n]))), 0)
    return b"".join(lines[done:])
