"""The scratch folder of a host: where it is, which files there are in use, and how staged files stay below a limit.

Who maps a staged file holds a shared lock on it as long as the map lives (`distforest.sources.array_files`), and who
writes one locks it alone. The system ends both with the process, however that ends. So a file that can be locked alone
is one that nobody uses, and may go.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import tempfile
import time
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from distforest.errors import InputError, JobError
from distforest.stores.room import PARTIAL, explaining_full_disk, free_bytes, partial_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

KEPT_SECONDS = 7 * 86400
"""A staged file that nobody has opened for this long is removed when the next one is staged."""

PARTIAL_SECONDS = 60
"""An incomplete file that no process is writing is removed after this long, also when the next one is staged."""

NEW_ROOM = "make room there, or name another folder (`run.scratch`, or DISTFOREST_SCRATCH)"
"""The remedy where there is no room for staged files."""

_WANTED = "a folder for staged files was expected (`run.scratch`, or DISTFOREST_SCRATCH)"


_DIGEST = re.compile("[0-9a-f]{64}")


class _File(NamedTuple):
    """A file that counts for the limit: a staged one, or one that is being written."""

    last_used: float
    path: Path
    n_bytes: int

    @property
    def is_removable(self) -> bool:
        """Whether it is staged, and nobody uses it."""
        if not _is_staged(self.path):
            return False
        with _if_unused(self.path) as is_unused:
            return is_unused


@dataclass(frozen=True)
class ScratchFolder:
    """The folder for staged files as a job names it; each host has its own.

    Attributes
    ----------
    named
        Its path; None: the folder of the host, ``$DISTFOREST_SCRATCH`` or this user's in the temporary folder.
    limit
        Most bytes of staged files there; None: as many as there is room for.
    """

    named: str | Path | None = None
    limit: int | None = None

    @property
    def path(self) -> Path:
        """The folder on this host.

        Raises
        ------
        InputError
            Another user owns the folder in the temporary folder, and could change staged files.
        """
        named = self.named or os.environ.get("DISTFOREST_SCRATCH")
        if named:
            return Path(named)
        folder = Path(tempfile.gettempdir()) / f"distforest-{os.getuid()}"
        if folder.exists() and folder.stat().st_uid != os.getuid():
            raise InputError(f"{folder} belongs to another user; name a folder of your own in DISTFOREST_SCRATCH")
        return folder

    @property
    def free(self) -> int:
        """Bytes that are free on its disk."""
        return free_bytes(self.path)

    def check(self) -> None:
        """Make the folder, and check that it is writable.

        Raises
        ------
        InputError
            It cannot be made or is not writable.
        """
        path = self.path
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except (PermissionError, FileNotFoundError, FileExistsError, NotADirectoryError) as error:
            raise InputError(f"{_WANTED}, found {path}: {error.strerror}; name another") from error
        if not os.access(path, os.W_OK | os.X_OK):
            raise InputError(f"{_WANTED}, found {path}: it is not writable; name another")

    def staged(self, sha256: str) -> Path:
        """The staged file of a content."""
        return self.path / f"{sha256}.npy"

    def check_room(self, staged: int, beside: int = 0, own: Collection[Path] = ()) -> None:
        """Refuse what does not fit, before any of it is written.

        Parameters
        ----------
        staged
            Bytes of the files that will be staged.
        beside
            Bytes of other files in the folder, which the limit does not count.
        own
            Staged files that will be used, and are there or come without this process.

        Raises
        ------
        JobError
            The limit or the disk leaves less room; with both numbers, and what to do.
        """
        if not staged + beside:
            return
        free = self.free + self._bytes_that_go(staged, own)
        if staged + beside > free:
            raise JobError(
                f"{staged + beside:,} bytes are needed in {self.path} on {platform.node()} before trees can grow, "
                f"{free:,} are free; {NEW_ROOM}"
            )

    def _bytes_that_go(self, n_bytes: int, own: Collection[Path]) -> int:
        """Bytes that go for ``n_bytes`` more within the limit; raises JobError if too few may go."""
        if self.limit is None:
            return 0
        with self._alone() if self.path.is_dir() else nullcontext():  # a file that is tested looks as if it were used
            files = self._files()
            idle = sum(file.n_bytes for file in files if file.path not in own and file.is_removable)
        held = sum(file.n_bytes for file in files)
        if n_bytes > self.limit - held + idle:
            raise self._over_limit(n_bytes, held - idle)
        return min(idle, max(0, held + n_bytes - self.limit))

    @contextmanager
    def new_file(self, header: bytes, n_bytes: int, why: str) -> Iterator[Path]:
        """`partial_file` in this folder, for which staged files that nobody uses go, the oldest first.

        Raises
        ------
        JobError
            The disk is full, or all that the limit allows is in use; ``why`` says for what room is needed.
        """
        with ExitStack() as held:
            with self._alone():
                self._remove_left()
                self._keep_limit(len(header) + n_bytes, why)
                path = held.enter_context(partial_file(self.path, header, n_bytes, f"{why}, {NEW_ROOM}"))
            yield path

    def _keep_limit(self, n_bytes: int, why: str) -> None:
        """Remove the oldest files that nobody uses until ``n_bytes`` more are within the limit."""
        if self.limit is None:
            return
        files = self._files()
        held = sum(file.n_bytes for file in files)
        for file in sorted(files):
            if held + n_bytes <= self.limit:
                return
            if _is_staged(file.path) and _removed(file.path):
                held -= file.n_bytes
        if held + n_bytes > self.limit:
            raise self._over_limit(n_bytes, held, f"{why}, ")

    def _over_limit(self, n_bytes: int, in_use: int, why: str = "") -> JobError:
        cure = "wait until other jobs have ended, or set a larger limit" if in_use else "set a larger limit"
        return JobError(
            f"{n_bytes:,} bytes of staged files are needed in {self.path} on {platform.node()}, and {in_use:,} of the "
            f"{self.limit:,} that may be there (`run.scratch_limit`) are in use; {why}{cure}"
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Where there is a limit, make room and take it in one process of the host at a time."""
        if self.limit is None:
            yield
            return
        with explaining_full_disk(self.path, 0, NEW_ROOM):
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = (self.path / ".limit").open("w")
        with file:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _files(self) -> list[_File]:
        """All staged files and those that are being written."""
        found = []
        for path in self._paths():
            if _is_partial(path) or _is_staged(path):
                with suppress(FileNotFoundError):  # another process was faster
                    found.append(_File(_last_used(path), path, path.stat().st_size))
        return found

    def _paths(self) -> list[Path]:
        return list(self.path.iterdir()) if self.path.is_dir() else []

    def _remove_left(self) -> None:
        """Remove files that nobody has opened for long, and incomplete files that killed processes have left."""
        now = time.time()
        for path in self._paths():
            try:
                age = now - _last_used(path)
                if _is_staged(path) and age > KEPT_SECONDS:
                    _removed(path)
                if _is_ours(path, ".lock") and age > KEPT_SECONDS:
                    path.unlink()
                if _is_partial(path) and age > PARTIAL_SECONDS and not is_locked(path):
                    path.unlink()
            except (FileNotFoundError, PermissionError):  # another process was faster, or another user owns it
                continue


OF_HOST = ScratchFolder()
"""The folder of each host, without a limit."""


def _is_staged(path: Path) -> bool:
    return _is_ours(path, ".npy")


def _is_ours(path: Path, suffix: str) -> bool:
    """Whether a file is named by a digest: users may have other files in the folder that they name."""
    return path.suffix == suffix and _DIGEST.fullmatch(path.stem) is not None


def _is_partial(path: Path) -> bool:
    begin, end = PARTIAL
    return path.name.startswith(begin) and path.name.endswith(end)


def lock_of(staged: Path) -> Path:
    """The file that a process locks to stage; its time is when the staged file was last opened."""
    return staged.with_suffix(".lock")


def is_being_staged(staged: Path) -> bool:
    """Whether a process of this host is staging a file for itself, or has just seen that it is there."""
    try:
        return is_locked(lock_of(staged))
    except OSError:  # there is no lock, or it is another user's
        return False


def _last_used(path: Path) -> float:
    """The time at which a file was last written or, if it is a staged file, opened."""
    lock = lock_of(path)
    return max(file.stat().st_mtime for file in (path, lock) if file is path or file.exists())


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of a file or a folder, as far as the file system tells."""
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


@contextmanager
def _if_unused(path: Path) -> Iterator[bool]:
    """Whether nobody uses a staged file; nobody begins to within the block."""
    with ExitStack() as held:
        try:
            # A network file system locks a file alone only for those who may write to it.
            file = held.enter_context(path.open("r+b"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def _removed(path: Path) -> bool:
    """Remove a staged file unless it is in use; whether it is gone."""
    with _if_unused(path) as is_unused:
        if is_unused:
            path.unlink(missing_ok=True)
        return is_unused
