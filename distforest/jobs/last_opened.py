"""A cache of what a process has opened last, for its next tasks, so that mapped files stay in use."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from distforest.sources.array_files import Mapped


class HoldsFiles(Protocol):
    """An opened object with the files that contain it."""

    @property
    def files(self) -> tuple[Mapped, ...]:
        """The files that it maps."""


OpenedBy = TypeVar("OpenedBy")
Held = TypeVar("Held", bound=HoldsFiles)


class LastOpened(Generic[OpenedBy, Held]):
    """A cache of opened objects by key, without the oldest; its methods may be called from any thread."""

    def __init__(self, most: int) -> None:
        self._most, self._held, self._lock = most, dict[OpenedBy, Held](), Lock()

    def get_or_open(self, key: OpenedBy, open_new: Callable[[], Held]) -> Held:
        """Return the object of a key if it is opened and its files are unchanged; otherwise open it now."""
        with self._lock:
            found = self._held.pop(key, None)
        if found is not None and not all(file.is_untouched for file in found.files):
            found = None  # releases it before it is opened again
        found = found or open_new()
        with self._lock:
            self._held[key] = found
            while len(self._held) > self._most:
                del self._held[next(iter(self._held))]
        return found

    def forget(self, which: Callable[[Held], bool] = lambda _: True) -> None:
        """Forget opened objects, or ``which`` of them, so that their files can be removed."""
        with self._lock:
            self._held = {key: held for key, held in self._held.items() if not which(held)}
