"""A preload of a Dask scheduler: the size of the largest message that it has read or written, in ``$MESSAGE_LOG``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributed.comm import tcp

if TYPE_CHECKING:
    from distributed import Scheduler

VARIABLE = "MESSAGE_LOG"


def dask_setup(_scheduler: Scheduler) -> None:
    """Measure what goes through its sockets."""
    path, read, wrote = Path(os.environ[VARIABLE]), tcp.from_frames, tcp.to_frames
    largest = 0

    def note(frames: list[Any]) -> None:
        nonlocal largest
        size = sum(memoryview(frame).nbytes for frame in frames)
        if size > largest:
            largest = size
            path.write_text(str(size))

    async def reading(frames: list[Any], *given: Any, **named: Any) -> Any:
        note(frames)
        return await read(frames, *given, **named)

    async def writing(*given: Any, **named: Any) -> Any:
        frames = await wrote(*given, **named)
        note(frames)
        return frames

    tcp.from_frames, tcp.to_frames = reading, writing
