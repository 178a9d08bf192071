"""A job's folder on any fsspec store: small files that appear whole or not at all."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec.core


@dataclass(frozen=True)
class Folder:
    """A folder by path or URL.

    Examples
    --------
    >>> folder = Folder("memory://example")
    >>> folder.write("state.json", b"{}")
    >>> folder.read("state.json"), folder.names(), folder.exists("other")
    (b'{}', ['state.json'], False)
    """

    address: str

    def _at(self, name: str) -> tuple[Any, str]:
        fs, path = fsspec.core.url_to_fs(f"{self.address.rstrip('/')}/{name}" if name else self.address)
        return fs, str(path)

    @property
    def is_local(self) -> bool:
        """Whether the folder lies in this host's file system."""
        protocol = self._at("")[0].protocol
        return "file" in ((protocol,) if isinstance(protocol, str) else protocol)

    def within(self, name: str) -> Folder:
        """The folder ``name`` in this one."""
        return Folder(f"{self.address.rstrip('/')}/{name}")

    def write(self, name: str, content: bytes) -> None:
        """Write a file in one step: readers see the old one or the new one, on disk before it has its name."""
        fs, path = self._at(name)
        if not self.is_local:
            fs.pipe_file(path, content)  # one put; object stores show it whole or not at all
            return
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}.partial")
        try:
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)

    def read(self, name: str) -> bytes:
        """A file's content; raises FileNotFoundError."""
        fs, path = self._at(name)
        return bytes(fs.cat_file(path))

    def open(self, name: str) -> Any:
        """A file, open for reading in any order; raises FileNotFoundError."""
        fs, path = self._at(name)
        return fs.open(path, "rb")

    def exists(self, name: str = "") -> bool:
        """Whether the file (or, without a name, the folder) is there."""
        fs, path = self._at(name)
        return bool(fs.exists(path))

    def names(self) -> list[str]:
        """Names of the files in the folder, sorted, without those that are being written."""
        fs, path = self._at("")
        if not fs.exists(path):
            return []
        found = (str(entry).rstrip("/").rsplit("/", 1)[-1] for entry in fs.ls(path, detail=False))
        return sorted(name for name in found if not name.endswith(".partial"))

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        fs, path = self._at("")
        if fs.exists(path):
            fs.rm(path, recursive=True)

    def move(self, target: Folder) -> None:
        """Give the folder another name; in a local file system in one step."""
        fs, path = self._at("")
        if self.is_local:
            other = Path(target._at("")[1])
            other.parent.mkdir(parents=True, exist_ok=True)
            Path(path).rename(other)
        else:
            fs.mv(path, target._at("")[1], recursive=True)
