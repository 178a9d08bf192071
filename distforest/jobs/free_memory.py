"""How much memory this process can have."""

from __future__ import annotations

from pathlib import Path

import psutil

LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files in which a container tells how much memory it may have."""


def unused_bytes() -> int:
    """What this process has and what is free on this machine, but no more than its container may have.

    Examples
    --------
    >>> unused_bytes() > 1 << 20
    True
    """
    found = psutil.virtual_memory().available + psutil.Process().memory_info().rss
    for limit in LIMITS:
        try:
            told = Path(limit).read_text(encoding="ascii").strip()
        except OSError:  # no container, or one of another kind
            continue
        if told.isdecimal():
            found = min(found, int(told))
    return int(found)
