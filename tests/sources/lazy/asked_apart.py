"""Functions that are asked in processes of their own, which import this module and so little else."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any


def hangs(_left: Any, _right: Any) -> None:
    """Never answer."""
    threading.Event().wait()


def kills_its_worker(_left: Any, _right: Any) -> Any:
    """End the worker that asks; this process ends with it."""
    os.kill(os.getppid(), signal.SIGKILL)
    signal.pause()
    raise AssertionError("still alive")
