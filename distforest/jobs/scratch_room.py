"""The room of a host: the memory of this process, and the space that a job takes in the scratch folder.

A job stages files there, and trees that grow by passes write their rows there.
"""

from __future__ import annotations

import platform
import socket
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil

from distforest.sources.job_inputs import Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from distforest.jobs.plan import Size
    from distforest.sources.job_inputs import JobInput
    from distforest.sources.scratch import ScratchFolder

SMALL_BYTES, SCREENED_BYTES = 1 << 16, 8
"""Bytes of headers and small arrays that are staged beside the inputs; bytes of a screen's result per column."""

BYTES_OF_WAITING_ROW = 16
"""Bytes of a row that waits on disk, beside its codes and truth: its number and multiplicity, each stored twice."""

TIMES_WRITTEN = 2
"""Number of copies of a tree's rows on disk: while a node is split, its rows and those of its children exist."""


class HostWorkers(NamedTuple):
    """The workers of a host, which share its scratch folder: their number, and the number of their threads."""

    n_workers: int = 1
    threads: int = 1

    def passes_bytes(self, code_bytes: int, row_bytes: int, n_drawn: int) -> int:
        """Return the bytes that the workers write while trees grow by passes over rows.

        Each worker writes the codes, and each thread the rows of a tree. A row takes ``row_bytes`` for its truth and
        its codes, or its features if these are read directly.

        Examples
        --------
        >>> HostWorkers().passes_bytes(code_bytes=50_000, row_bytes=54, n_drawn=632)
        138480
        >>> HostWorkers(n_workers=2, threads=4).passes_bytes(50_000, 54, 632)
        453920
        """
        rows = TIMES_WRITTEN * self.threads * n_drawn * (row_bytes + BYTES_OF_WAITING_ROW)
        return self.n_workers * code_bytes + rows


def workers_here(hosts: Mapping[str, HostWorkers]) -> HostWorkers:
    """Return the workers on this host, which may be known by several addresses.

    Examples
    --------
    >>> workers_here({"127.0.0.1": HostWorkers(2, 4), "an.other.host": HostWorkers(8, 8)})
    HostWorkers(n_workers=2, threads=4)
    """
    names = {"localhost", platform.node(), socket.gethostname()}
    names |= {found.address for addresses in psutil.net_if_addrs().values() for found in addresses}
    here = [workers for host, workers in hosts.items() if host in names]
    return HostWorkers(sum(own.n_workers for own in here), sum(own.threads for own in here))


class ScratchRoom(NamedTuple):
    """Bytes in the scratch folder of a host: of staged files, and of codes and rows while trees grow by passes."""

    staged: int = 0
    passes: int = 0

    def check(self, scratch: ScratchFolder) -> None:
        """Refuse a job for which there is not enough space, before anything is staged; raise JobError."""
        scratch.check_room(self.staged, self.passes)


def scratch_room(seen: Sequence[JobInput], size: Size, here: HostWorkers) -> ScratchRoom:
    """Return the space that a job takes, judging by the metadata of its inputs, with these workers on the host."""
    codes = size.matrix_bytes // 4 if size.room is None else size.n_rows * size.room.stored_bytes
    row_bytes = (codes + size.truth_bytes) // size.n_rows if size.room is None else size.room.bytes_on_disk
    by_passes = size.rows_budget is not None and not size.dense
    matrices, truth = [one for one in seen if one.role == Role.MATRIX], size.truth_bytes
    others = [one for one in seen if one.role not in {Role.MATRIX, Role.TRUTH, Role.PAIRS}]
    if size.n_parts is not None:  # features stay where they are
        truth += size.truth_bytes if size.of_vectors else 0  # also in the form by which cuts are scored
        matrix = sum(2048 * one.shape[1] for one in matrices)  # at most 256 edges of bins
    else:
        # Several are staged one by one, and then side by side; a function without objects is given numbers of rows.
        matrix = sum(one.staged_bytes for one in matrices) * min(2, len(matrices)) or 8 * size.n_rows
    laid = max((one.rechunked_bytes for one in seen if size.n_parts is None or one.role != Role.MATRIX), default=0)
    of_screen = SCREENED_BYTES * max((one.shape[-1] for one in matrices), default=0)
    staged = truth + matrix + sum(one.staged_bytes for one in others) + laid + SMALL_BYTES + of_screen
    return ScratchRoom(staged, here.passes_bytes(codes, row_bytes, size.n_drawn) if by_passes else 0)


MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files with the memory limit of a container."""


def unused_bytes() -> int:
    """Return the bytes that this process has and that are free on this machine, at most those of its container.

    Examples
    --------
    >>> unused_bytes() > 1 << 20
    True
    """
    found = psutil.virtual_memory().available + psutil.Process().memory_info().rss
    for limit in MEMORY_LIMITS:
        try:
            text = Path(limit).read_text(encoding="ascii").strip()
        except OSError:  # no container, or one of another kind
            continue
        if text.isdecimal():
            found = min(found, int(text))
    return int(found)
