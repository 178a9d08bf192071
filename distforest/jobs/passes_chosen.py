"""Whether trees grow by passes over rows: where not even one tree fits into memory otherwise, and it does by passes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.growth.methods import METHODS, n_candidates, n_combined, sampling, with_max_features
from distforest.growth.row_room import FLOAT32_BYTES, RANKED_BY_COSTS, CategorySizes, RowRoom, sizes_of
from distforest.jobs.plan import Size, projected_bytes, within
from distforest.sources.row_kinds import Features
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from distforest.forest.forest import Params
    from distforest.growth.problem import Data

_FEWER_NODES, _FEWER_ROWS = "a larger `min_samples_leaf` or a `max_depth`", "a smaller `max_samples`"


@dataclass(frozen=True)
class WorkerRoom:
    """The memory of a worker, its threads, and the trees of a task; None: chosen by the size."""

    limit: int
    threads: int = 1
    batch: int | None = None

    def within(self, size: Size) -> Size | None:
        """The size by passes; None where that does not suffice either."""
        return within(size, self.limit, self.batch, self.threads)


def by_passes(params: Params, truth_kind: TruthKind, size: Size, room: WorkerRoom) -> tuple[Size, str]:
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
    if not size.dense:
        in_bins = bool(params.get("max_bins"))
        as_asked = replace(as_asked, room=row_room_of(params, truth_kind, size, in_bins))
    sized = room.within(as_asked)
    if sized is not None:
        return sized, ""
    fewer_nodes = replace(as_asked, most_leaves=1)
    changed = [([_FEWER_NODES], fewer_nodes)]
    reads_values = as_asked.room is not None and not as_asked.room.in_bins
    if reads_values and "max_bins" in params and not size.of_costs:
        of_bins = row_room_of(params, truth_kind, size, in_bins=True)
        changed += [(["`max_bins`"], replace(as_asked, room=of_bins))]
        changed += [(["`max_bins`", _FEWER_NODES], replace(fewer_nodes, room=of_bins))]
    elif reads_values:
        changed += [([_FEWER_ROWS], replace(fewer_nodes, n_drawn=1))]
    for wanted, other in changed:
        if room.within(other) is not None:
            return size, f", or let trees grow by passes: set {' and '.join(wanted)}"
    return size, ""


def row_room_of(params: Params, truth_kind: TruthKind, size: Size, in_bins: bool) -> RowRoom | None:
    """What a row takes, as `distforest.growth.row_room.room_of` has it of a growth; None if all of it are codes."""
    n_columns = size.matrix_bytes // (FLOAT32_BYTES * size.n_rows)
    room = RowRoom(n_columns, size.truth_bytes // size.n_rows, size.width, size.categories, in_bins)
    if in_bins:
        return None if size.categories is None else room
    at_random, has_truth = params["splitter"] == "random", truth_kind != TruthKind.NOTHING
    return replace(
        room,
        at_random=at_random and has_truth,
        of_costs=size.of_costs,
        n_witnesses=int(params.get("n_witnesses", 0)),
        by_some=at_random and not has_truth and params["min_samples_leaf"] == 1,
    )


def width_of(params: Params, n_columns: int, kind: TruthKind) -> int:
    """Candidates of a node of a method over rows, for a kind of ground truth."""
    params = with_max_features(params, kind)
    if "n_pairs" in params:
        return int(params["n_pairs"] or 1)
    width = n_candidates(params["max_features"], n_columns)
    is_axis = n_combined(params, n_columns) == 1.0 and params["feature_weights"] is None
    return min(width, n_columns) if is_axis else width


def exceeds(method: str, params: Params, shape: tuple[int, ...], room: WorkerRoom) -> bool:
    """Whether not even one tree fits into memory over features of this shape, whatever their truth takes."""
    if METHODS[method].reads != "features":
        return False
    return projected_bytes(_size(params, shape, 0, TruthKind.LABELS), room.batch or 1, 1) > room.limit


def budget_of(method: str, data: Data, params: Params, room: WorkerRoom) -> int | None:
    """The budget of rows of trees that grow by passes over data that are there; None: in memory.

    They do if they do not fit otherwise, and trees of this kind may.
    """
    kind = data.truth_kind
    is_taught = kind not in {TruthKind.DISTANCES, TruthKind.DIFFERENCES}
    if params.get("max_bins"):  # costs have no sums over bins
        is_taught &= data.costs is None
    if METHODS[method].reads != "features" or not is_taught or not isinstance(data.matrix, np.ndarray):
        return None
    categories = data.rows.n_categories if isinstance(data.rows, Features) else ()
    if not isinstance(data.rows, Features) or (categories and kind == TruthKind.NOTHING):
        return None
    size = _size(params, data.matrix.shape, data.truth.nbytes, kind)
    size = replace(size, of_vectors=kind.is_of_vectors, of_costs=data.costs is not None, told_bytes=data.told_bytes)
    if categories:
        n_classes = len(data.classes or ()) if kind == TruthKind.LABELS and data.costs is None else None
        of_vectors = RANKED_BY_COSTS if data.costs is not None else data.truth.shape[-1] if n_classes is None else 1
        size = replace(size, categories=CategorySizes(*sizes_of(categories), n_classes, of_vectors))
    if projected_bytes(size, room.batch or 1, 1) <= room.limit:
        return None
    return by_passes(params, kind, size, room)[0].rows_budget


def _size(params: Params, shape: tuple[int, ...], truth_bytes: int, kind: TruthKind) -> Size:
    n_rows, n_columns = shape
    n_trees, matrix_bytes = int(params["n_estimators"] or 1), FLOAT32_BYTES * n_rows * n_columns
    most_leaves = sampling(params, n_rows).most_leaves(params)
    width = width_of(params, n_columns, kind)
    return Size(n_rows, n_trees, matrix_bytes, truth_bytes, width, dense=False, most_leaves=most_leaves)
