"""Measurements: ours and a peer in interleaved pairs, ratios within a pair, markdown tables, facts of the machine."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

PACKAGES = ("numpy", "numba", "scikit-learn", "distributed", "zarr")
PAIR_CELLS = ("ours", "peer", "ours / peer (least to most)")
"""Names of the columns that `Paired.cells` fills."""


@dataclass(frozen=True)
class Paired:
    """Seconds of ours and of the peer in each pair, and what they answered the last time."""

    ours: tuple[float, ...]
    peer: tuple[float, ...]
    answers: tuple[Any, Any]

    @property
    def ratios(self) -> tuple[float, ...]:
        """Ours over the peer's, pair by pair."""
        return tuple(a / b for a, b in zip(self.ours, self.peer, strict=True))

    def cells(self) -> list[str]:
        """The two median times, and the median ratio with the least and the most."""
        return [
            seconds_cell(statistics.median(self.ours)),
            seconds_cell(statistics.median(self.peer)),
            ratio_cell(self.ratios),
        ]


def interleaved(ours: Callable[[], object], peer: Callable[[], object], n_pairs: int) -> Paired:
    """Time both in pairs; the one that goes first changes from pair to pair. Warm both up before."""
    times: tuple[list[float], list[float]] = ([], [])
    answers: list[object] = [None, None]
    for pair in range(n_pairs):
        for side in (0, 1) if pair % 2 == 0 else (1, 0):
            taken, answers[side] = timed((ours, peer)[side])
            times[side].append(taken)
    return Paired(tuple(times[0]), tuple(times[1]), (answers[0], answers[1]))


def timed(function: Callable[[], object]) -> tuple[float, Any]:
    """Seconds of one call, and its answer."""
    gc.collect()
    start = time.perf_counter()
    answer = function()
    return time.perf_counter() - start, answer


def median_seconds(function: Callable[[], object], n: int) -> float:
    """Median seconds of ``n`` calls."""
    return statistics.median(timed(function)[0] for _ in range(n))


def seconds_cell(seconds: float) -> str:
    """A time with three digits and its unit."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def ratio_cell(ratios: Sequence[float]) -> str:
    """The median, and the least and the most in brackets."""
    return f"**{statistics.median(ratios):.3g}** ({min(ratios):.3g} to {max(ratios):.3g})"


def mib(n_bytes: float) -> str:
    """Bytes as whole MiB."""
    return f"{n_bytes / 2**20:,.0f} MiB"


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a markdown table, each row as soon as it is known."""
    print(table_head(head))
    for row in rows:
        print(table_row(row), flush=True)
    print(flush=True)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A markdown table, without an end of line."""
    return "\n".join([table_head(head), *map(table_row, rows)])


def table_head(head: Sequence[str]) -> str:
    """The first two lines of a markdown table."""
    return f"{table_row(head)}\n|{'---|' * len(head)}"


def table_row(cells: Sequence[str]) -> str:
    """A line of a markdown table."""
    return "| " + " | ".join(cells) + " |"


def machine() -> str:
    """What the numbers were measured on, in one line."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return (
        f"{cores} cores ({_processor()}), load {load} at the start; "
        f"{platform.system()}, Python {platform.python_version()}, {packages}"
    )


def _processor() -> str:
    """Name of the processor and size of its last cache, where the system tells them."""
    name, cache = platform.machine(), ""
    cpuinfo, last = Path("/proc/cpuinfo"), Path("/sys/devices/system/cpu/cpu0/cache/index3/size")
    if cpuinfo.exists():
        models = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        name = models[0].partition(":")[2].strip() if models else name
    if last.exists():
        cache = f", last-level cache {last.read_text().strip()}"
    return name + cache
