"""Functions that jobs of a running service ask, good and bad ones; some leave a file that tells who called them."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

FOLDER = "DISTFOREST_TEST_FAULTS"
"""The variable that names the folder of faults, here because a process that is started to die should start quickly."""


def tell(name: str) -> None:
    """Leave a file with the processes that call, and that asks."""
    (Path(os.environ[FOLDER]) / f"{name}-{os.getpid()}-{os.getppid()}").touch()


def good(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Distances of numbered objects."""
    from tests.service.faults import apart

    tell("good")
    return apart(left, right)


def hangs(_left: np.ndarray, _right: np.ndarray) -> None:
    """Never answer."""
    tell("hangs")
    threading.Event().wait()


def quits(_left: np.ndarray, _right: np.ndarray) -> None:
    """Leave as a program does."""
    sys.exit("no credit")


def exits(_left: np.ndarray, _right: np.ndarray) -> None:
    """Leave at once."""
    os._exit(3)


def crashes(_left: np.ndarray, _right: np.ndarray) -> None:
    """Read where nothing is."""
    ctypes.string_at(0)
