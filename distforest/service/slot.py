"""A small file that several processes may write; each one overwrites only content that it has seen.

In a file system, a lock is held while a file is compared and replaced. S3, and stores with its protocol, compare by
themselves on request (``If-None-Match`` and ``If-Match``). Older stores of this kind silently ignore the request, so a
store is tested before it is trusted. On other stores, a file is compared here and then written, which leaves a short
time in between.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distforest.stores.addresses import reaching, store_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from distforest.stores.folder import Folder

SLOT_BYTES = 1 << 16
"""Largest size of such a file."""

LOCK_SECONDS, LOCK_POLL = 10.0, 0.05
"""Seconds to wait for a lock, which is normally held only for a moment, and between two tries."""

NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}
"""Error numbers of a file system without locks."""

GONE, REFUSED = 404, {409, 412}
"""S3's statuses if a condition does not hold: the object is gone; it is being written or has changed."""

NOT_KNOWN = {400, 501}
"""Statuses of a store with S3's protocol that does not support conditions."""

NO_TAG = '"00000000000000000000000000000000"'
"""A tag that no object has."""


class TakenError(OSError):
    """Another process has written since this one read the file, or is writing it now."""


def slot(folder: Folder, name: str) -> Slot:
    """Return the slot ``name`` in a folder on any store."""
    if folder.is_local:
        return LocalSlot(folder, name)
    fs, path = store_of(f"{folder.address}/{name}")
    return S3Slot(folder, name, fs, path) if hasattr(fs, "call_s3") else Slot(folder, name)


class Slot:
    """The file, with the content that this process has last read or written.

    On a store that does not compare, it is read right before it is written.

    Attributes
    ----------
    compares
        Whether a write over a newer content of another process is certain to be refused.
    """

    compares = False

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder, self._name = folder, name
        self._seen: bytes | None = None

    def read(self) -> bytes | None:
        """Return the present content, None if there is no file; raise OSError if it is not a file, or too large."""
        self._seen = self._content()
        return self._seen

    def put(self, content: bytes) -> None:
        """Overwrite the content that was seen last; raises `TakenError` if it has changed."""
        self._compare()
        self._folder.write(self._name, content)
        self._seen = content

    def clear(self) -> None:
        """Remove the content that was seen last; raises `TakenError` if it has changed."""
        self._compare()
        self._folder.discard(self._name)
        self._seen = None

    def check_place(self) -> None:
        """Raise FileNotFoundError if the folder in which this process has written is gone."""

    def _content(self) -> bytes | None:
        try:
            found = self._folder.end(self._name, SLOT_BYTES)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise OSError(errno.EINVAL, str(error)) from error
        if not found.is_whole:
            raise OSError(errno.EFBIG, f"{self._folder.address}/{self._name} has more than {SLOT_BYTES:,} bytes")
        return found.content

    def _compare(self) -> None:
        if self._content() != self._seen:
            raise self._taken_error()

    def _taken_error(self) -> TakenError:
        return TakenError(errno.EBUSY, f"{self._folder.address}/{self._name} was written by another process")


class LocalSlot(Slot):
    """A slot in a file system; it is locked while it is compared and written, if the file system has locks."""

    def __init__(self, folder: Folder, name: str) -> None:
        super().__init__(folder, name)
        self.compares, self._has_locked = True, False
        self._path = Path(store_of(f"{folder.address}/{name}")[1])
        self._lock_path = self._path.with_name(f".{name}.lock")

    def check_place(self) -> None:
        """See `Slot`; the folder is recognised by the lock file, which is never removed."""
        if self._has_locked and not self._lock_path.exists():
            where = f"the folder {self._folder.address} is gone, or another one is in its place"
            raise FileNotFoundError(errno.ENOENT, f"{where}: was it moved, removed or unmounted?")

    def put(self, content: bytes) -> None:
        """See `Slot`; the content is written before the file is locked."""
        self.check_place()  # before a new folder would hide that the old one is gone
        new = self._path.with_name(f".{self._name}.{uuid.uuid4().hex}.partial")
        self._folder.write(new.name, content)
        try:
            with self._locked():
                self._compare()
                new.replace(self._path)
        finally:
            new.unlink(missing_ok=True)
        self._seen = content

    def clear(self) -> None:
        """See `Slot`."""
        self.check_place()
        with self._locked():
            super().clear()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        path, end = self._lock_path, time.monotonic() + LOCK_SECONDS
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
        try:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:  # another process holds it
                    if time.monotonic() > end:
                        what = f"{path} has been locked for {LOCK_SECONDS:g} s; is a service frozen there?"
                        raise TimeoutError(what) from None
                    time.sleep(LOCK_POLL)
                except OSError as error:
                    if error.errno not in NO_LOCKS:
                        raise
                    self.compares = False
                    break
            self._has_locked = True
            yield
        finally:
            os.close(file)


class S3Slot(Slot):
    """A slot on S3, or on a store with its protocol, which compares the tag of the content that was seen last."""

    def __init__(self, folder: Folder, name: str, fs: Any, path: str) -> None:
        super().__init__(folder, name)
        self._client, (bucket, key, _) = fs, fs.split_path(path)
        self._place = {"Bucket": bucket, "Key": key}
        self._tag: str | None = None
        self._is_tried = False

    def read(self) -> bytes | None:
        """See `Slot`."""
        self._seen, self._tag = self._tagged()
        return self._seen

    def put(self, content: bytes) -> None:
        """See `Slot`; the first call tests the store."""
        if self.compares:
            self._put(content)
            return
        self._compare()
        if self._is_tried:
            self._write(content)
            return
        try:
            self._put(content)
        except NotImplementedError:
            self._write(content)
        else:
            self.compares = self._refuses(IfMatch=NO_TAG) and self._refuses(IfNoneMatch="*")
        self._is_tried = True

    def clear(self) -> None:
        """See `Slot`."""
        self._compare()
        with suppress(NotImplementedError):
            self._request("delete_object", **(self._condition() if self.compares else {}))
            self._seen = self._tag = None
            return
        super().clear()

    def _tagged(self) -> tuple[bytes | None, str | None]:
        """Return the content and its tag, which is read first, so that it never belongs to newer content."""
        try:
            tag = str(self._request("head_object")["ETag"])
        except FileNotFoundError:
            return None, None
        return (found, tag) if (found := self._content()) is not None else (None, None)

    def _condition(self) -> dict[str, str]:
        return {"IfNoneMatch": "*"} if self._tag is None else {"IfMatch": self._tag}

    def _put(self, content: bytes) -> None:
        """Write on the condition that nothing has changed."""
        try:
            self._write(content, **self._condition())
        except TakenError:
            found, tag = self._tagged()
            if found != content:
                raise
            self._seen, self._tag = found, tag  # the first answer was lost, and the client has repeated the request

    def _write(self, content: bytes, **condition: str) -> None:
        answer = self._request("put_object", Body=content, **condition)
        self._seen, self._tag = content, str(answer["ETag"])

    def _refuses(self, **condition: str) -> bool:
        """Return whether the store refuses to rewrite its present content under a condition that does not hold."""
        try:
            self._write(self._seen or b"", **condition)
        except (TakenError, NotImplementedError) as error:
            return isinstance(error, TakenError)
        return False

    def _request(self, method: str, **arguments: str | bytes) -> Mapping[str, object]:
        """Send a request; raises `TakenError` if its condition does not hold, NotImplementedError if it is unknown."""
        try:
            with reaching(self._folder.address):
                answer: Mapping[str, object] = self._client.call_s3(method, **self._place, **arguments)
                return answer
        except OSError as error:
            status = _status(error)
            if status in REFUSED or (status == GONE and "IfMatch" in arguments):
                raise self._taken_error() from error
            if {"IfMatch", "IfNoneMatch"} & arguments.keys() and status in NOT_KNOWN:
                raise NotImplementedError from error
            raise


def _status(error: OSError) -> int:
    """Return the HTTP status of S3's answer; 0 if there was no answer."""
    cause: BaseException | None = error
    while cause is not None and not hasattr(cause, "response"):
        cause = cause.__cause__
    return int(getattr(cause, "response", {}).get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
