"""Whether trees grow by passes over rows: where not even one tree fits into memory otherwise, and it does by passes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from distforest.growth.methods import sampling
from distforest.growth.row_room import FLOAT_BYTES, RANDOM_BYTES, RowRoom
from distforest.jobs.plan import FLOAT32_BYTES, Size, within
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from distforest.forest.forest import Params

_FEWER_NODES, _FEWER_ROWS = "a larger `min_samples_leaf` or a `max_depth`", "a smaller `max_samples`"


@dataclass(frozen=True)
class Room:
    """The memory of a worker, its threads, and the trees of a task; None: chosen by the size."""

    limit: int
    threads: int = 1
    batch: int | None = None

    def within(self, size: Size) -> Size | None:
        """The size by passes; None where that does not suffice either."""
        return within(size, self.limit, self.batch, self.threads)


def by_passes(params: Params, truth_kind: TruthKind, size: Size, room: Room) -> tuple[Size, str]:
    """The size of growth by passes; or the same size, and in words what would make them possible, "" if nothing would.

    Parameters
    ----------
    params, truth_kind
        All parameters of the method, and the kind of its ground truth.
    size
        The size with all rows in memory.
    room
        The memory that there is.
    """
    rows = sampling(params, size.n_rows)
    as_asked = replace(size, n_drawn=rows.n_distinct, most_leaves=rows.most_leaves(params))
    if not size.dense and not params.get("max_bins"):
        as_asked = replace(as_asked, room=row_room_of(params, truth_kind, size))
    sized = room.within(as_asked)
    if sized is not None:
        return sized, ""
    fewer_nodes = replace(as_asked, most_leaves=1)
    changed = [([_FEWER_NODES], fewer_nodes)]
    if as_asked.room is not None and "max_bins" in params:
        changed += [(["`max_bins`"], replace(as_asked, room=None))]
        changed += [(["`max_bins`", _FEWER_NODES], replace(fewer_nodes, room=None))]
    elif as_asked.room is not None:
        changed += [([_FEWER_ROWS], replace(fewer_nodes, n_drawn=1))]
    for wanted, other in changed:
        if room.within(other) is not None:
            return size, f", or let trees grow by passes: set {' and '.join(wanted)}"
    return size, ""


def row_room_of(params: Params, truth_kind: TruthKind, size: Size) -> RowRoom:
    """What a row takes whose features are read as they are, as `RowRoom.of` has it of a growth."""
    at_random, has_truth = params["splitter"] == "random", truth_kind != TruthKind.NOTHING
    return RowRoom(
        size.matrix_bytes // (FLOAT32_BYTES * size.n_rows),
        size.truth_bytes // size.n_rows,
        size.width,
        RANDOM_BYTES if at_random and has_truth else FLOAT_BYTES,
        int(params.get("n_witnesses", 0)),
        at_random and not has_truth and params["min_samples_leaf"] == 1,
    )
