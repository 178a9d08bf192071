"""What a process has opened last: kept for its next tasks, so that the files that it maps stay in use."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from distforest.sources.array_files import Mapped


class HoldsFiles(Protocol):
    """What was opened, with the files that hold it."""

    @property
    def files(self) -> tuple[Mapped, ...]:
        """The files that it maps."""


OpenedBy = TypeVar("OpenedBy")
Held = TypeVar("Held", bound=HoldsFiles)


class LastOpened(Generic[OpenedBy, Held]):
    """What was opened last by some keys; the oldest goes for a new one. Its methods may be called from any thread."""

    def __init__(self, most: int, open_new: Callable[[OpenedBy], Held]) -> None:
        self._most, self._open, self._held, self._lock = most, open_new, dict[OpenedBy, Held](), Lock()

    def of(self, key: OpenedBy) -> Held:
        """What a key opens: as before, unless somebody has written to its files since."""
        with self._lock:
            found = self._held.pop(key, None)
        if found is not None and not all(file.is_untouched for file in found.files):
            found = None  # which lets go of it before it is opened again
        found = found or self._open(key)
        with self._lock:
            self._held[key] = found
            while len(self._held) > self._most:
                del self._held[next(iter(self._held))]
        return found

    def forget(self, which: Callable[[OpenedBy], bool] = lambda _: True) -> None:
        """Let go of what some keys have opened, so that the files may go."""
        with self._lock:
            for key in [own for own in self._held if which(own)]:
                del self._held[key]
