"""The room that a job takes in the scratch folder of a host: staged files, and what trees by passes write there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.jobs.plan import Size
    from distforest.jobs.seen import Seen
    from distforest.sources.scratch import ScratchFolder

SMALL_BYTES, SCREENED_BYTES = 1 << 16, 8
"""Bytes of what is staged beside the inputs: headers and small arrays; what a screen has found of each column."""

BYTES_OF_WAITING_ROW = 12
"""Bytes of a row that waits on disk, beside its codes and truth: how often it is drawn, its number and weight."""

TIMES_WRITTEN = 2
"""How often a tree's rows are on disk at once: while a node is parted, its own are there and its children's."""


class ScratchRoom(NamedTuple):
    """Bytes in the scratch folder of a host: of staged files, and of codes and rows while trees grow by passes."""

    staged: int = 0
    passes: int = 0

    def check(self, scratch: ScratchFolder) -> None:
        """Refuse a job for which there is no room, before anything is staged; raises JobError."""
        scratch.check_room(self.staged, self.passes)


def scratch_room(seen: Sequence[Seen], size: Size, n_processes: int, threads: int) -> ScratchRoom:
    """The room that a job takes, as far as metadata tell.

    Parameters
    ----------
    seen
        The metadata of its inputs.
    size
        The size of its growth.
    n_processes, threads
        Workers of the host, and threads of each.
    """
    codes = size.matrix_bytes // 4 if size.room is None else size.n_rows * size.room.stored_bytes
    row_bytes = (codes + size.truth_bytes) // size.n_rows if size.room is None else size.room.bytes_on_disk
    rows = passes_bytes(codes, row_bytes, threads * size.n_drawn)
    by_passes = size.rows_budget is not None and not size.dense
    return ScratchRoom(_staged_bytes(seen, size), n_processes * rows if by_passes else 0)


def passes_bytes(code_bytes: int, row_bytes: int, n_drawn: int) -> int:
    """Bytes that a process writes while trees grow by passes over rows: all codes, and ``n_drawn`` rows of trees.

    A row takes ``row_bytes`` for its codes, or its features where these are read as they are, and its truth.

    Examples
    --------
    >>> passes_bytes(code_bytes=50_000, row_bytes=54, n_drawn=632)
    133424
    """
    return code_bytes + TIMES_WRITTEN * n_drawn * (row_bytes + BYTES_OF_WAITING_ROW)


def _staged_bytes(seen: Sequence[Seen], size: Size) -> int:
    """Bytes of staged files; in parts, features stay where they are."""
    matrices = [array for array in seen if array.matrix]
    others = [array for array in seen if array.is_weight or array.by_class or array.is_of_objects]
    truth = size.truth_bytes
    if size.n_parts is not None:
        truth += size.truth_bytes if size.of_vectors else 0  # as cuts are judged by it, too
        matrix = sum(2048 * array.shape[1] for array in matrices)  # at most 256 edges of bins
    else:
        # Several are staged one by one, and then side by side; a function without objects is given numbers of rows.
        matrix = sum(array.staged_bytes for array in matrices) * min(2, len(matrices)) or 8 * size.n_rows
    laid = max((array.laid_bytes for array in seen if size.n_parts is None or not array.matrix), default=0)
    n_columns = max((array.shape[-1] for array in matrices), default=0)
    of_others = sum(array.staged_bytes for array in others if not array.matrix)
    return truth + matrix + of_others + laid + SMALL_BYTES + SCREENED_BYTES * n_columns
