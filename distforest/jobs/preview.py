"""The inputs and the needs of a job, from the metadata of its inputs alone, before any value is read."""

from __future__ import annotations

import asyncio
import json
import math
import os
import platform
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from distforest.amounts import counted
from distforest.errors import InputError, SpecError, warn_caller
from distforest.growth.cuts.trial_cuts import check_unbounded
from distforest.growth.draws.landmarks import n_wanted
from distforest.growth.methods import (
    METHODS,
    NO_PASSES_WITH_HOLES,
    check_sparse,
    check_together,
    sampling,
)
from distforest.growth.pairs.methods import FEWEST_POINTS
from distforest.growth.pairs.sampling import ENOUGH
from distforest.growth.row_room import FLOAT32_BYTES, RANKED_BY_COSTS, CategorySizes, sizes_of
from distforest.jobs.callback import Callback
from distforest.jobs.on_dask import MACHINE_BYTES
from distforest.jobs.passes_chosen import WorkerRoom, by_passes, width_of
from distforest.jobs.plan import TREES_AT_ONCE, Plan, Size, check_memory, plan, projected_bytes
from distforest.jobs.scratch_room import HostWorkers, ScratchRoom, scratch_room, workers_here
from distforest.jobs.seen import Seen
from distforest.jobs.spec import Spec
from distforest.jobs.staging import stage_inputs
from distforest.jobs.wanted import input_addresses, truth_of, wanted_inputs
from distforest.sources.arrays import bytes_of, open_array
from distforest.sources.factors import names_of_classes
from distforest.sources.files.ids import refuse_text_as_bytes
from distforest.sources.graph_distances import MOST_KEPT_DENSE
from distforest.sources.laid_rows import laid_bytes
from distforest.sources.named_links import check_named_links
from distforest.sources.opening import open_matrix
from distforest.sources.point_pairs import check_pairs_and_links
from distforest.sources.readings import AS_IT_IS, DISTANCES, FEATURES, check_shape
from distforest.sources.schema import Schema
from distforest.sources.source import NUMBERS
from distforest.sources.sparse_features import bytes_of_sparse
from distforest.sources.sparse_store import SparseStore
from distforest.sources.stored import check_stored
from distforest.sources.truth import TruthKind
from distforest.sources.wanted import Role
from distforest.sources.weights import check_feature_weights
from distforest.stores.addresses import naming
from distforest.stores.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distforest.jobs.any_spec import AnySpec
    from distforest.jobs.inputs import Inputs
    from distforest.sources.wanted import Wanted


ZARR = ("zarr.json", ".zgroup", ".zarray")
"""Files of metadata that make a folder an array or a group."""


@dataclass(frozen=True)
class Preview:
    """The inputs and the needs of a job.

    Attributes
    ----------
    inputs
        The arrays.
    n_rows, n_trees
        Rows and trees of the forest.
    plan
        The tasks of a first run, and the memory that a worker needs.
    memory_limit
        Memory of a worker: as in the spec, or an equal share of this machine; None on another scheduler.
    scratch
        Room that the job takes in the scratch folder of this host.
    told
        Warnings about inputs with chunks that are not stored.
    least_bytes
        Memory that a worker needs with one thread and the smallest tasks.
    cure
        What would let the trees grow by passes if they do not fit; "" if nothing would.
    whole_bytes
        The same as ``least_bytes``, with all rows and distances in memory.
    """

    inputs: tuple[Seen, ...]
    n_rows: int
    n_trees: int
    plan: Plan
    memory_limit: int | None
    scratch: ScratchRoom
    told: tuple[str, ...] = ()
    least_bytes: int = 0
    cure: str = ""
    whole_bytes: int = 0


def check_and_stage(
    spec: Spec, folder: str, memory_limit: int | None = None, hosts: Mapping[str, HostWorkers] | None = None
) -> Inputs:
    """Stage the inputs of a job, after their metadata show that it can run.

    Parameters
    ----------
    spec
        The job.
    folder
        Address of the job's folder.
    memory_limit
        Memory of a worker in bytes, as its cluster reports it; by default that of the preview.
    hosts
        The workers by their hosts, as their cluster reports them; by default those of the preview.

    Raises
    ------
    SpecError, InputError
        As raised by `preview` and `distforest.jobs.staging.stage_inputs`.
    MemoryLimitError
        The job does not fit into the memory of a worker.
    JobError
        It does not fit into the scratch folder; nothing was staged.
    """
    spec.run.scratch_folder.check()
    seen = preview(spec, memory_limit, hosts)
    check_memory(seen.least_bytes, memory_limit or seen.memory_limit, seen.cure)
    seen.scratch.check(spec.run.scratch_folder)
    for told in seen.told:
        warn_caller(told)
    staged = stage_inputs(spec, folder, seen.plan.n_parts)
    staged = replace(staged, rows_budget=seen.plan.rows_budget, hosts=dict(hosts or {}))
    if staged.passes_distances and staged.n_unobserved:
        raise InputError(f"{truth_of(spec)[1]}: {NO_PASSES_WITH_HOLES}")
    return staged


def absent_inputs(spec: AnySpec) -> list[str]:
    """The addresses of inputs that may exist elsewhere: neither they nor groups that lack them are on this host."""
    addresses = input_addresses(spec) if isinstance(spec, Spec) else spec.input_addresses
    return [address for address in addresses if not (_is_there(address) or _group_of(address))]


def _is_there(address: str) -> bool:
    try:
        return Folder(address).exists()
    except OSError:
        return False


def _group_of(address: str) -> str | None:
    """The group that should hold an array, if it is on this host; None: nobody here can tell."""
    group, _, name = address.rstrip("/").rpartition("/")
    return group if name and any(_is_there(f"{group}/{metadata}") for metadata in ZARR) else None


def preview(spec: Spec, memory_limit: int | None = None, hosts: Mapping[str, HostWorkers] | None = None) -> Preview:
    """Open the metadata of the inputs and plan the job.

    Trees grow in parts if the spec says so, and by passes if they do not fit into a worker otherwise, even one at a
    time.

    Parameters
    ----------
    spec
        The job.
    memory_limit
        Memory of a worker in bytes; None: as in the spec, or an equal share of this machine.
    hosts
        The workers by their hosts; None: those of the embedded cluster.

    Raises
    ------
    SpecError
        Inputs are missing, of a wrong shape or dtype, or do not fit each other; the error lists all faults.
    """
    seen: list[Seen] = []
    faults: list[str] = []
    told: list[str] = []
    for wanted in wanted_inputs(spec):
        try:
            with naming(wanted.place, wanted.address):
                seen.append(_read_metadata(wanted))
                told += check_stored([wanted.address], spec.run.strict, spec.run.max_bytes)
        except InputError as error:
            faults.append(str(error))
    faults += _faults_of_functions(spec)
    faults += _faults_of_what_was_seen(spec, seen)
    if faults:
        raise SpecError(faults)
    size = _size(spec, seen)
    workers, threads, least_batch = workers_of(spec), spec.run.threads_per_worker, spec.run.batch or 1
    if hosts:
        workers = sum(own.n_workers for own in hosts.values())
    own_limit = _limit(spec, workers)
    limit = memory_limit or own_limit
    cure, whole = "", projected_bytes(size, least_batch, 1)
    if spec.run.parts is not None:
        size, least_batch = _in_parts(spec.run.parts, size, workers), spec.run.batch or TREES_AT_ONCE
    elif limit and whole > limit and _may_pass(spec, seen, size):
        size, cure = by_passes(spec.params, truth_of(spec)[0], size, WorkerRoom(limit, threads, spec.run.batch))
    planned = plan(size, (), workers * threads, spec.run.batch, threads)
    least = projected_bytes(size, least_batch, 1)
    room = scratch_room(seen, size, workers_here(hosts) if hosts else _own_workers(spec, workers))
    return Preview(tuple(seen), size.n_rows, size.n_trees, planned, own_limit, room, tuple(told), least, cure, whole)


def _own_workers(spec: Spec, workers: int) -> HostWorkers:
    """The workers of this host before a cluster has told of them; on another scheduler at least one."""
    n_workers = 1 if spec.run.scheduler else workers
    return HostWorkers(n_workers, n_workers * spec.run.threads_per_worker)


def _in_parts(parts: int | str, size: Size, workers: int) -> Size:
    """The size of growth in parts, of which every worker has as many, give or take one."""
    n_parts = min(workers, size.n_rows) if isinstance(parts, str) else parts
    codes = size.matrix_bytes // FLOAT32_BYTES
    if size.categories is not None:  # which lie beside the codes, as they are
        codes += FLOAT32_BYTES * size.n_rows * size.categories.n_columns
    return replace(size, matrix_bytes=codes, n_parts=n_parts, parts_of_worker=-(-n_parts // workers))


def _may_pass(spec: Spec, seen: list[Seen], size: Size) -> bool:
    """Whether trees of this kind grow by passes, as far as metadata tell; see `distforest.growth.row_blocks`."""
    if METHODS[spec.method].reads != "features":
        return False
    if size.dense:  # distances on disk, and without holes
        return not any(relation.functions or relation.kind == "observed" for relation in spec.input.relations.values())
    found = _found_without_sums(spec, seen) if spec.params.get("max_bins") else _found_without_values(spec, seen)
    return not found and (size.categories is None or truth_of(spec)[0] != TruthKind.NOTHING)


def faults_of_metadata(spec: Spec) -> list[str]:
    """The faults of a job in the metadata of those inputs that this host can open; other inputs are skipped.

    Nothing else is read from a store, because a service must answer a submit at once.
    """
    seen, faults, is_all = list[Seen](), list[str](), True
    for wanted in wanted_inputs(spec):
        try:
            with naming(wanted.place, wanted.address):
                seen.append(_read_metadata(wanted))
        except InputError as error:
            is_there = _is_there(wanted.address) or _group_of(wanted.address) is not None
            is_all &= is_there
            faults += [str(error)] if is_there else []
        except OSError:
            is_all = False
    return faults + (_faults_of_what_was_seen(spec, seen) if is_all else [])


async def faults_on_a_worker(spec: AnySpec) -> list[str]:
    """The faults of a job in the metadata of its inputs, for a worker, which must see all of them; in a thread."""

    def faults() -> list[str]:
        absent = [f"input: nothing is at {address} on {platform.node()}" for address in absent_inputs(spec)]
        return absent or (faults_of_metadata(spec) if isinstance(spec, Spec) else [])

    return await asyncio.to_thread(faults)


def _faults_of_what_was_seen(spec: Spec, seen: list[Seen]) -> list[str]:
    of_values = [*_faults_of_features(spec, seen), *_faults_of_amounts(spec, seen)]
    return [*of_values, *_misfits(spec, seen), *_faults_of_parts(spec, seen)]


def _faults_of_amounts(spec: Spec, seen: list[Seen]) -> list[str]:
    """The faults of targets and embeddings that are no numbers, or more of them than one for each row."""
    kind, truth = truth_of(spec)
    found = next((array for array in seen if array.address == truth and not array.matrix), None)
    if found is None or not kind.is_of_amounts:
        return []
    if found.dtype.startswith("complex"):
        return [f"{found.name}: {found.address}: numbers were expected, found dtype {found.dtype}"]
    if kind in {TruthKind.TARGETS, TruthKind.DIFFERENCES} and found.shape[1:] not in {(), (1,)}:
        expected = f"{found.name}: {found.address}: one target for each row was expected, shape (n_rows,)"
        return [f"{expected}, found shape {found.shape}; several are an embedding"]
    return []


def _faults_of_parts(spec: Spec, seen: list[Seen]) -> list[str]:
    """What does not go with rows in parts, as far as metadata tell; see `distforest.growth.parts`."""
    parts = spec.run.parts
    if parts is None:
        return []
    found = _found_without_sums(spec, seen)
    if spec.params.get("max_bins", 0) is None:
        found.append("no `max_bins`")
    if spec.params.get("feature_weights") == "dependence":
        found.append("feature_weights='dependence', whose screen stages all rows on each host")
    faults = [f"run.parts: trees grow in parts over {_IN_PARTS}, found {', '.join(found)}; leave it out"] * bool(found)
    n_rows = next((array.shape[0] for array in seen if array.matrix), None)
    if isinstance(parts, int) and n_rows is not None and parts > n_rows:
        faults.append(f"run.parts: at most one part for each of {counted(n_rows, 'row')} was expected, found {parts:,}")
    return faults


def _categories_of(array: Seen) -> tuple[int, ...]:
    """The number of categories of each column of dense features; empty if all hold numbers."""
    if array.name != "input.features" or array.n_stored is not None:
        return ()
    schema = Schema.of_array(array.address, open_array(array.address))
    return () if schema is None or not any(schema.n_categories) else schema.n_categories


def _category_sizes(seen: list[Seen], truth_kind: TruthKind, n_dimensions: int) -> CategorySizes | None:
    """What is known of categories; metadata of labels have no classes, so these are taken as two."""
    found = next((sizes for array in seen if (sizes := _categories_of(array))), None)
    if found is None:
        return None
    if any(array.by_class for array in seen):
        return CategorySizes(*sizes_of(found), None, RANKED_BY_COSTS)
    return CategorySizes(*sizes_of(found), 2 if truth_kind == TruthKind.LABELS else None, n_dimensions)


_IN_PARTS = "dense features in bins (`max_bins`), from labels, targets or an embedding"


def workers_of(spec: Spec) -> int:
    """Workers of the embedded cluster: as in the spec, or one for each core, at most 4."""
    return spec.run.workers if isinstance(spec.run.workers, int) else min(os.cpu_count() or 1, 4)


def _faults_of_functions(spec: Spec) -> list[str]:
    """The faults of functions for similarities; they are imported, but not called."""
    faults: list[str] = []
    for name, relation in spec.input.relations.items():
        for number, part in relation.functions:
            place = f"{name}.{number}" if relation.parts else name
            try:
                callback = Callback.of_relation(part, f"{spec.output}.{number}" if relation.parts else spec.output)
                check_unbounded(spec.params, (callback.budget,))
            except InputError as error:
                faults += [f"input.{place}: {fault}" for fault in str(error).splitlines()]
    return faults


def _faults_of_features(spec: Spec, seen: list[Seen]) -> list[str]:
    """The faults in how features are drawn: parameters that contradict each other, weights that do not fit."""
    faults: list[str] = []
    matrix = next((array for array in seen if array.matrix), None)
    try:
        check_together(spec.params)
        if matrix is not None and matrix.is_of_sparse_features:
            check_sparse(spec.params)
    except InputError as error:
        faults.append(f"params: {error}")
    for array in seen:
        if array.by_feature and matrix is not None:
            try:
                check_feature_weights(array.address, array.shape, array.dtype, matrix.shape[1])
            except InputError as error:
                faults.append(f"{array.name}: {error}")
    return faults


def _read_metadata(wanted: Wanted) -> Seen:
    """Read the metadata of an input; raises InputError for a wrong shape or dtype."""
    address, reading = wanted.address, wanted.reading
    if not _is_there(address) and (group := _group_of(address)):
        names = [name for name in Folder(group).folders() if any(_is_there(f"{group}/{name}/{held}") for held in ZARR)]
        inside = ", ".join(names) or "no array"
        raise InputError(f"{address}: a Zarr array was expected, found none; {group} holds {inside}")
    array = open_matrix(address) if wanted.may_be_sparse else open_array(address)
    shape = tuple(map(int, array.shape))
    is_of_objects = wanted.role == Role.OBJECTS or (wanted.role == Role.MATRIX and reading.keep)
    if not is_of_objects:
        refuse_text_as_bytes(address, array)
    check_shape(array, reading)
    is_number = reading is not AS_IT_IS or wanted.role in {Role.SAMPLE_WEIGHT, Role.PAIR_WEIGHT}
    if is_number and array.dtype.kind not in NUMBERS:
        raise InputError(f"{address}: numbers were expected, found dtype {array.dtype}")
    if reading.precise and shape[0] != shape[1]:
        raise InputError(f"{address}: a square matrix was expected, found shape {shape}")
    if wanted.is_vector and len(shape) == 2:
        raise InputError(f"{address}: one value for each row was expected, shape (n_rows,), found shape {shape}")
    if not 1 <= len(shape) <= 2 or not shape[0]:
        raise InputError(f"{address}: a value for each row was expected, found shape {shape}")
    n_stored = array.n_stored if isinstance(array, SparseStore) else None
    item = reading.dtype(array.dtype).itemsize if reading.precise else 4
    kept = Seen(wanted.place, address, shape, str(array.dtype), wanted.role == Role.MATRIX, n_stored, item)
    if isinstance(array, SparseStore) and reading is DISTANCES:  # trees read it as a dense one
        return replace(kept, n_stored=None, staged_bytes=bytes_of(shape, reading.dtype(array.dtype)))
    if isinstance(array, SparseStore):
        return replace(kept, staged_bytes=8 * (shape[0] + 1) + (4 + item) * array.n_stored)
    of_names = len(json.dumps(dict(array.attrs), default=str)) if reading is FEATURES else 0
    staged_bytes = bytes_of(shape, reading.dtype(array.dtype)) + of_names
    return replace(kept, staged_bytes=staged_bytes, laid_bytes=laid_bytes(array))


def _misfits(spec: Spec, seen: list[Seen]) -> list[str]:
    """The faults of inputs that do not describe the same rows, and of samples that are larger than they are."""
    if METHODS[spec.method].reads == "points":
        return _misfits_of_pairs(spec, seen)
    by_row = [array for array in seen if not array.by_feature and not array.by_class]
    rows = {array.shape[0] for array in by_row}
    if len(rows) > 1:
        found = ", ".join(f"{array.shape[0]} at {array.address}" for array in by_row)
        return [f"input: rows of the same items were expected, found {found}"]
    return [fault for n in rows for fault in _faults_of_sizes(spec, n)]


def _faults_of_sizes(spec: Spec, n_rows: int) -> list[str]:
    """The faults of parameters that need more rows than there are."""
    faults = []
    try:
        sampling(spec.params, n_rows)
    except InputError as error:
        faults.append(f"params.max_samples: {error}")
    try:
        n_wanted(spec.params.get("n_landmarks") or 1, n_rows)
    except InputError as error:
        faults.append(f"params.n_landmarks: {error}")
    return faults


def _misfits_of_pairs(spec: Spec, seen: list[Seen]) -> list[str]:
    """The faults of points, labels and pairs that do not fit each other, and of samples that are too large."""
    found = {array.name.removeprefix("input."): array for array in seen}
    n, faults = found["features"].shape[0] if "features" in found else None, []
    if n is not None and n < FEWEST_POINTS:
        where = found["features"].address
        faults.append(f"input.features: three points were expected, so that pairs can differ, found {n} at {where}")
    if n is not None and "labels" in found and found["labels"].shape[0] != n:
        labels = found["labels"]
        faults.append(
            f"input: a label for each of {counted(n, 'point')} was expected, "
            f"found {labels.shape[0]:,} at {labels.address}"
        )
    if n is not None and "sample_weight" in found and found["sample_weight"].shape[0] != n:
        weights = found["sample_weight"]
        faults.append(
            f"input: a weight for each of {counted(n, 'point')} was expected, "
            f"found {weights.shape[0]:,} at {weights.address}"
        )
    if (
        "pair_weight" in found
        and "similar" in found
        and (n_pairs := found["similar"].shape[0]) != (n_weights := found["pair_weight"].shape[0])
    ):
        where = found["pair_weight"].address
        faults.append(
            f"input: a weight for each of {counted(n_pairs, 'pair')} was expected, found {n_weights:,} at {where}"
        )
    if "similar" in found:
        try:
            check_named_links(names_of_classes(open_array(found["similar"].address)))
        except InputError as error:
            faults.append(f"input.similar: {found['similar'].address}: {error}")
    if "pairs" in found and "similar" in found:
        pairs = found["pairs"]
        try:
            check_pairs_and_links(pairs.address, pairs.shape, pairs.dtype, found["similar"].shape[0])
        except InputError as error:
            faults.append(f"input.pairs: {error}")
    there, most = n, spec.params["max_samples"]
    if spec.params.get("resample") == "pairs":
        there = (
            found["pairs"].shape[0] if "pairs" in found else None
        )  # drawn from labels: their number is not known yet
    if there is not None and isinstance(most, int) and most > there:
        faults.append(f"params.max_samples: {most} of {there} were requested")
    return faults


def _n_pairs(spec: Spec, seen: list[Seen], n_points: int) -> int:
    """Pairs of a tree."""
    pairs = next((array.shape[0] for array in seen if array.name == "input.pairs"), None)
    if "n_constraints" in spec.params:
        wanted = spec.params["n_constraints"]
        return pairs or 4 * (ENOUGH if wanted == "auto" else int(wanted))  # for two classes: metadata has no classes
    there = pairs or n_points * (n_points - 1) // 2
    return there if spec.params["sampling"] == "all" and not pairs else min(int(spec.params["n_pairs"]), there)


def _size(spec: Spec, seen: list[Seen]) -> Size:
    """The size of the growth, as `distforest.jobs.train.size_of` will compute it from the staged inputs.

    Metadata do not tell the number of classes, so what nodes tell of them is not counted here.
    """
    others = [array for array in seen if not (array.matrix or array.is_weight or array.by_class)]
    truth = next((array for array in others if not array.is_of_objects), None)
    matrix = next((array for array in seen if array.matrix), truth)  # without objects it consists of row numbers
    assert matrix is not None  # noqa: S101  (every method reads something)
    truth_kind, _ = truth_of(spec)
    over_pairs = METHODS[spec.method].reads == "points"
    links = _bytes(truth, 4) if truth is not None and truth.n_stored is not None else 0
    n_dimensions = truth.shape[1] if truth and len(truth.shape) > 1 else 1
    kept = 4 * matrix.shape[0] ** 2 if links and matrix.shape[0] <= MOST_KEPT_DENSE else 0
    return Size(
        _n_pairs(spec, seen, matrix.shape[0]) if over_pairs else matrix.shape[0],
        int(spec.params["n_estimators"] or 1),
        _bytes(matrix, matrix.item),
        _bytes_of_links(seen)
        or (kept + _bytes(truth, 4 if truth_kind in {TruthKind.DISTANCES, TruthKind.LABELS} else 8) if truth else 0)
        or (4 * matrix.shape[0] ** 2 if truth_kind == TruthKind.DISTANCES else 0),
        1 if matrix.is_of_sparse_features and _is_narrow(spec, truth_kind) else _width(spec, matrix.shape[-1]),
        truth_kind == TruthKind.DISTANCES and not links,
        links,
        truth_kind.is_of_vectors,
        _most_leaves(spec, matrix.shape[0]),
        8 * (n_dimensions + 1) if truth_kind.is_of_vectors else 0,
        of_costs=any(array.by_class for array in seen),
        categories=_category_sizes(seen, truth_kind, n_dimensions),
    )


def _most_leaves(spec: Spec, n_rows: int) -> int | None:
    """The most leaves of a tree over features; None of one over something else."""
    is_over_features = METHODS[spec.method].reads == "features"
    return sampling(spec.params, n_rows).most_leaves(spec.params) if is_over_features else None


def _bytes_of_links(seen: list[Seen]) -> int:
    """Size of given pairs and of their classes; 0 without pairs."""
    return next((_bytes(array, 4) + array.shape[0] for array in seen if array.name == "input.pairs"), 0)


def _bytes(array: Seen, item: int) -> int:
    if array.is_of_sparse_features:
        return bytes_of_sparse(array.shape, array.n_stored or 0)
    if array.n_stored is not None:
        return 8 * (array.shape[0] + 1) + (4 + array.item) * array.n_stored
    return math.prod(array.shape) * item


def _is_narrow(spec: Spec, truth_kind: TruthKind) -> bool:
    """Whether a search of sparse features holds the values of one candidate at once."""
    unfused = {TruthKind.DISTANCES, TruthKind.DIFFERENCES, TruthKind.NOTHING}
    return truth_kind not in unfused and spec.params.get("splitter") == "best"


def _width(spec: Spec, n_columns: int) -> int:
    """Candidates of a node."""
    if METHODS[spec.method].reads == "points":
        return 1
    return width_of(spec.params, n_columns, truth_of(spec)[0])


def _found_without_sums(spec: Spec, seen: list[Seen]) -> list[str]:
    """What keeps cuts from following from sums over codes, as far as metadata tell.

    It is what `distforest.growth.row_blocks.check_by_sums` refuses when all rows have been read.
    """
    truth_kind, _ = truth_of(spec)
    found = []
    if METHODS[spec.method].reads != "features" or "max_bins" not in spec.params:
        found.append(f"method {spec.method!r}")
    if truth_kind == TruthKind.DISTANCES:
        found.append("distances")
    if truth_kind == TruthKind.DIFFERENCES:
        found.append("absolute differences of targets")
    if spec.params.get("splitter") == "random":
        found.append("splitter='random'")
    found += [f"sparse features at {array.address}" for array in seen if array.is_of_sparse_features]
    return found + [f"distances of classes at {array.address}" for array in seen if array.by_class]


def _found_without_values(spec: Spec, seen: list[Seen]) -> list[str]:
    """What keeps cuts from following from one candidate's values after another's, as far as metadata tell.

    It is what `distforest.growth.row_blocks.check_by_passes` refuses when all rows have been read.
    """
    truth_kind, _ = truth_of(spec)
    found = [str(truth_kind)] if truth_kind in {TruthKind.DISTANCES, TruthKind.DIFFERENCES} else []
    return found + [f"sparse features at {array.address}" for array in seen if array.is_of_sparse_features]


def _limit(spec: Spec, workers: int) -> int | None:
    if spec.run.memory_limit or spec.run.scheduler:
        return spec.run.memory_limit
    return MACHINE_BYTES // workers
