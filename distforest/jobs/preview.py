"""The inputs and the needs of a job, from the metadata of its inputs only, before any value is read."""

from __future__ import annotations

import asyncio
import json
import math
import os
import platform
import sys
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from distforest.amounts import counted
from distforest.errors import InputError, SpecError, warn_caller
from distforest.growth.cuts.trial_cuts import check_unbounded
from distforest.growth.draws.landmarks import count_landmarks
from distforest.growth.methods import METHODS, NO_PASSES_WITH_HOLES, check_sparse, check_together, sampling
from distforest.growth.pairs.pair_methods import check_n_points
from distforest.growth.pairs.sampling import ENOUGH
from distforest.growth.row_room import FLOAT32_BYTES, RANKED_BY_COSTS, CategorySizes, sizes_of
from distforest.jobs.callback import Callback
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.on_dask import MACHINE_BYTES
from distforest.jobs.plan import (
    TREES_AT_ONCE,
    Plan,
    Size,
    WorkerRoom,
    by_passes,
    check_memory,
    plan,
    projected_bytes,
    width_of,
)
from distforest.jobs.scratch_room import HostWorkers, ScratchRoom, scratch_room, workers_here
from distforest.jobs.spec import Spec, inputs_of, truth_of
from distforest.jobs.warning_capture import captured_warnings
from distforest.sources.arrays import bytes_of, open_array
from distforest.sources.factors import names_of_classes
from distforest.sources.files.ids import refuse_text_as_bytes
from distforest.sources.graph_distances import MOST_KEPT_DENSE
from distforest.sources.job_inputs import JobInput, Role
from distforest.sources.named_links import check_named_links
from distforest.sources.opening import open_matrix
from distforest.sources.point_pairs import check_pairs_and_links
from distforest.sources.readings import AS_IT_IS, DISTANCES, FEATURES, check_shape
from distforest.sources.rechunked_rows import rechunked_bytes
from distforest.sources.schema import Schema
from distforest.sources.source import NUMBERS
from distforest.sources.sparse_features import bytes_of_sparse
from distforest.sources.sparse_store import SparseStore
from distforest.sources.stored import check_stored
from distforest.sources.truth import TruthKind
from distforest.sources.weights import check_feature_weights
from distforest.stores.addresses import naming
from distforest.stores.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from distforest.jobs.any_spec import AnySpec
    from distforest.jobs.inputs import Inputs

ZARR = ("zarr.json", ".zgroup", ".zarray")
"""Metadata files of an array or a group."""


CHECKED_BYTES = 1 << 28
"""Size of inputs up to which `warnings_about_values` reads them, in about a second."""

PASSES_CURE = (
    ", or let trees grow by passes: set a larger `min_samples_leaf` or a `max_depth`, `max_bins`, or a smaller "
    "`max_samples`"
)
"""Further advice if a job over features or distances does not fit into memory."""


@dataclass(frozen=True)
class Preview:
    """The inputs and the needs of a job.

    Attributes
    ----------
    inputs
        The inputs, with their metadata.
    size, plan
        The size of the growth; the tasks of a first run, and the memory that a worker needs.
    memory_limit
        Memory of a worker: as in the spec, or an equal share of this machine; None on another scheduler.
    scratch
        Space that the job takes in the scratch folder of this host.
    warnings
        Warnings about inputs with chunks that are not stored.
    least_bytes, whole_bytes
        Memory that a worker needs with one thread and the smallest tasks, and with all rows and distances in memory.
    cure
        Advice that lets the trees grow by passes if they do not fit; "" if there is none.
    """

    inputs: tuple[JobInput, ...]
    size: Size
    plan: Plan
    memory_limit: int | None
    scratch: ScratchRoom
    warnings: tuple[str, ...] = ()
    least_bytes: int = 0
    whole_bytes: int = 0
    cure: str = ""


def check_and_stage(
    spec: Spec, folder: str, memory_limit: int | None = None, hosts: Mapping[str, HostWorkers] | None = None
) -> Inputs:
    """Stage the inputs of a job, after checking by their metadata that it can run.

    Parameters
    ----------
    spec
        The job.
    folder
        Address of the job's folder.
    memory_limit
        Memory of a worker in bytes, as its cluster reports it; by default that of the preview.
    hosts
        The workers by host, as their cluster reports them; by default those of the preview.

    Raises
    ------
    SpecError, InputError
        As raised by `preview` and `distforest.jobs.input_staging.stage_inputs`.
    MemoryLimitError
        The job does not fit into the memory of a worker.
    JobError
        The job does not fit into the scratch folder; nothing was staged.
    """
    spec.run.scratch_folder.check()
    seen = preview(spec, memory_limit, hosts)
    check_memory(seen.least_bytes, memory_limit or seen.memory_limit, seen.cure)
    seen.scratch.check(spec.run.scratch_folder)
    for warning in seen.warnings:
        warn_caller(warning)
    staged = stage_inputs(spec, folder, seen.size.n_parts)
    staged = replace(staged, rows_budget=seen.size.rows_budget, hosts=dict(hosts or {}))
    if staged.passes_distances and staged.n_unobserved:
        raise InputError(f"{truth_of(spec)[1]}: {NO_PASSES_WITH_HOLES}")
    return staged


def warnings_about_values(spec: Spec, seen: Preview) -> list[str]:
    """Return the warnings of a fit about its inputs, such as the findings of checks; large inputs are not read.

    Raises
    ------
    InputError
        Values are refused.
    """
    if sum(one.staged_bytes for one in seen.inputs) > CHECKED_BYTES:
        return []
    with tempfile.TemporaryDirectory(prefix="distforest-") as folder, captured_warnings() as warnings:
        own = spec.run.model_copy(update={"scratch": f"{folder}/scratch", "scratch_limit": None})
        stage_inputs(replace(spec, run=own), f"{folder}/job", seen.size.n_parts)
    return warnings


def absent_inputs(spec: AnySpec) -> list[str]:
    """Return the addresses of inputs that are not on this host but may exist elsewhere, with their groups."""
    return [address for address in spec.input_addresses if not (_is_there(address) or _group_of(address))]


def _is_there(address: str) -> bool:
    try:
        return Folder(address).exists()
    except OSError:
        return False


def _group_of(address: str) -> str | None:
    """Return the group that should contain an array, if it is on this host; otherwise None."""
    group, _, name = address.rstrip("/").rpartition("/")
    return group if name and any(_is_there(f"{group}/{metadata}") for metadata in ZARR) else None


def preview(spec: Spec, memory_limit: int | None = None, hosts: Mapping[str, HostWorkers] | None = None) -> Preview:
    """Open the metadata of the inputs and plan the job.

    Trees grow in parts if the spec has parts. They grow by passes if not even one tree at a time fits into a worker
    otherwise.

    Parameters
    ----------
    spec
        The job.
    memory_limit
        Memory of a worker in bytes; None: as in the spec, or an equal share of this machine.
    hosts
        The workers by host; None: those of the embedded cluster.

    Raises
    ------
    SpecError
        Inputs are missing, have a wrong shape or dtype, or do not fit each other; the error lists all faults.
    """
    seen, faults, warnings = list[JobInput](), list[str](), list[str]()
    for one in inputs_of(spec):
        try:
            with naming(one.place, one.address):
                seen.append(with_metadata(one))
                warnings += check_stored([one.address], spec.run.strict, spec.run.max_bytes)
        except InputError as error:
            faults.append(str(error))
    faults += _faults_of_functions(spec) + _faults_together(spec, seen)
    if faults:
        raise SpecError(faults)
    size, threads, least_batch = _size(spec, seen), spec.run.threads_per_worker, spec.run.batch or 1
    workers = spec.run.workers if isinstance(spec.run.workers, int) else min(os.cpu_count() or 1, 4)
    if hosts:
        workers = sum(own.n_workers for own in hosts.values())
    own_limit = spec.run.memory_limit
    if own_limit is None and not spec.run.scheduler:
        own_limit = MACHINE_BYTES // workers
    limit = memory_limit or own_limit
    cure, whole = "", projected_bytes(size, least_batch, 1)
    if spec.run.parts is not None:
        n_parts = min(workers, size.n_rows) if isinstance(spec.run.parts, str) else spec.run.parts
        codes = size.matrix_bytes // FLOAT32_BYTES
        if size.categories is not None:  # they are stored unchanged beside the codes
            codes += FLOAT32_BYTES * size.n_rows * size.categories.n_columns
        size = replace(size, matrix_bytes=codes, n_parts=n_parts, parts_of_worker=-(-n_parts // workers))
        least_batch = spec.run.batch or TREES_AT_ONCE
    elif limit and whole > limit and _may_pass(spec, seen, size):
        sized = by_passes(spec.params, truth_of(spec)[0], size, WorkerRoom(limit, threads, spec.run.batch))
        size, cure = sized or size, "" if sized else PASSES_CURE
    planned = plan(size, (), workers * threads, spec.run.batch, threads)
    here = workers_here(hosts) if hosts else HostWorkers(n := 1 if spec.run.scheduler else workers, n * threads)
    needs = scratch_room(seen, size, here), tuple(warnings), projected_bytes(size, least_batch, 1), whole, cure
    return Preview(tuple(seen), size, planned, own_limit, *needs)


def _may_pass(spec: Spec, seen: Sequence[JobInput], size: Size) -> bool:
    """Return whether trees of this kind can grow by passes, judging by metadata; see `distforest.growth.row_blocks`."""
    kind = truth_of(spec)[0]
    if METHODS[spec.method].reads != "features":
        return False
    if size.dense:  # distances on disk, none of them missing
        return not any(relation.functions or relation.kind == "observed" for relation in spec.input.relations.values())
    if size.categories is not None and kind == TruthKind.NOTHING:
        return False
    if spec.params.get("max_bins"):
        return not _found_without_sums(spec, seen)
    is_known = kind not in {TruthKind.DISTANCES, TruthKind.DIFFERENCES}
    return is_known and not any(one.is_of_sparse_features for one in seen)


def faults_of_metadata(spec: Spec) -> list[str]:
    """Return the faults of a job in the metadata of those inputs that this host can open; other inputs are skipped.

    Nothing else is read from a store, because a service must answer a submission at once.
    """
    seen, faults, is_all = list[JobInput](), list[str](), True
    for one in inputs_of(spec):
        try:
            with naming(one.place, one.address):
                seen.append(with_metadata(one))
        except InputError as error:
            is_there = _is_there(one.address) or _group_of(one.address) is not None
            is_all &= is_there
            faults += [str(error)] if is_there else []
        except OSError:
            is_all = False
    return faults + (_faults_together(spec, seen) if is_all else [])


async def faults_on_a_worker(spec: AnySpec) -> list[str]:
    """Return the faults of a job in the metadata of its inputs, all of which a worker must see; runs in a thread."""

    def faults() -> list[str]:
        absent = [f"input: nothing is at {address} on {platform.node()}" for address in absent_inputs(spec)]
        return absent or (faults_of_metadata(spec) if isinstance(spec, Spec) else [])

    return await asyncio.to_thread(faults)


# --- faults ------------------------------------------------------------------------------------------------


def with_metadata(one: JobInput) -> JobInput:
    """Read the metadata of an input; raise InputError for a wrong shape or dtype."""
    address, reading, role = one.address, one.reading, one.role
    if not _is_there(address) and (group := _group_of(address)):
        names = [name for name in Folder(group).folders() if any(_is_there(f"{group}/{name}/{held}") for held in ZARR)]
        inside = ", ".join(names) or "no array"
        raise InputError(f"{address}: a Zarr array was expected, found none; {group} holds {inside}")
    array = open_matrix(address) if one.may_be_sparse else open_array(address)
    shape = tuple(map(int, array.shape))
    if not (role == Role.OBJECTS or (role == Role.MATRIX and reading.keep)):
        refuse_text_as_bytes(address, array)
    check_shape(array, reading)
    is_number = reading is not AS_IT_IS or role in {Role.SAMPLE_WEIGHT, Role.PAIR_WEIGHT}
    if is_number and array.dtype.kind not in NUMBERS:
        raise InputError(f"{address}: numbers were expected, found dtype {array.dtype}")
    if reading.precise and shape[0] != shape[1]:
        raise InputError(f"{address}: a square matrix was expected, found shape {shape}")
    if one.is_vector and len(shape) == 2:
        raise InputError(f"{address}: one value for each row was expected, shape (n_rows,), found shape {shape}")
    if not 1 <= len(shape) <= 2 or not shape[0]:
        raise InputError(f"{address}: a value for each row was expected, found shape {shape}")
    item = reading.dtype(array.dtype).itemsize if reading.precise else 4
    one = replace(one, shape=shape, dtype=str(array.dtype), item=item)
    if not isinstance(array, SparseStore):
        of_names = len(json.dumps(dict(array.attrs), default=str)) if reading is FEATURES else 0
        staged_bytes = bytes_of(shape, reading.dtype(array.dtype)) + of_names
        return replace(one, staged_bytes=staged_bytes, rechunked_bytes=rechunked_bytes(array))
    if reading is DISTANCES:  # trees read it as a dense one
        return replace(one, staged_bytes=bytes_of(shape, reading.dtype(array.dtype)))
    return replace(one, n_stored=array.n_stored, staged_bytes=8 * (shape[0] + 1) + (4 + item) * array.n_stored)


def _faults_of_functions(spec: Spec) -> list[str]:
    """Return the faults of functions for similarities; they are imported, but not called."""
    faults: list[str] = []
    for name, relation in spec.input.relations.items():
        for number, part in relation.functions:
            place = f"{name}.{number}" if relation.parts else name
            try:
                callback = Callback.from_relation(part, f"{spec.output}.{number}" if relation.parts else spec.output)
                check_unbounded(spec.params, (callback.budget,))
            except InputError as error:
                faults += [f"input.{place}: {fault}" for fault in str(error).splitlines()]
    return faults


def _fault_of(place: str, look: Callable[[], object]) -> list[str]:
    """Return the fault of a place of the spec, if ``look`` raises InputError, otherwise an empty list."""
    try:
        look()
    except InputError as error:
        return [f"{place}: {error}"]
    return []


def _faults_together(spec: Spec, seen: Sequence[JobInput]) -> list[str]:
    """Return the faults of inputs and parameters that do not fit each other."""
    faults, (kind, _) = list[str](), truth_of(spec)
    by_role = {one.role: one for one in reversed(seen)}
    matrix, truth = by_role.get(Role.MATRIX), by_role.get(Role.TRUTH)

    faults += _fault_of("params", lambda: check_together(spec.params))
    if matrix is not None and matrix.is_of_sparse_features:
        faults += _fault_of("params", lambda: check_sparse(spec.params))
    if matrix is not None and (weights := by_role.get(Role.FEATURE_WEIGHTS)):
        known = weights.address, weights.shape, weights.dtype, matrix.shape[1]
        faults += _fault_of(weights.place, lambda: check_feature_weights(*known))
    of_pairs = {Role.PAIRS, Role.PAIR_WEIGHT, *((Role.TRUTH,) if kind == TruthKind.LINKS else ())}
    of_rows = set(Role) - of_pairs - {Role.FEATURE_WEIGHTS, Role.COSTS}
    for noun, roles in (("rows of the same items", of_rows), ("as many pairs", of_pairs - {Role.PAIRS})):
        same = [one for one in seen if one.role in roles]
        if len({one.shape[0] for one in same}) > 1:
            found = ", ".join(f"{one.shape[0]:,} at {one.address}" for one in same)
            faults.append(f"input: {noun} were expected, found {found}")
    if truth is not None:
        faults += _fault_of(f"{truth.place}: {truth.address}", lambda: _check_truth(truth, kind))
    if truth is not None and (pairs := by_role.get(Role.PAIRS)):
        known_pairs = pairs.address, pairs.shape, pairs.dtype, truth.shape[0]
        faults += _fault_of(pairs.place, lambda: check_pairs_and_links(*known_pairs))
    n_rows = {one.shape[0] for one in seen if one.role in of_rows}
    if len(n_rows) == 1:
        [n] = n_rows
        faults += _faults_of_sizes(spec, seen, n)
    return faults


def _check_truth(truth: JobInput, kind: TruthKind) -> None:
    """Refuse targets or vectors that are not numbers, several targets per row, and links with ambiguous names."""
    if kind.is_of_amounts and truth.dtype.startswith("complex"):
        raise InputError(f"numbers were expected, found dtype {truth.dtype}")
    if kind in {TruthKind.TARGETS, TruthKind.DIFFERENCES} and truth.shape[1:] not in {(), (1,)}:
        expected = "one target for each row was expected, shape (n_rows,)"
        raise InputError(f"{expected}, found shape {truth.shape}; several are an embedding")
    if kind == TruthKind.LINKS:
        check_named_links(names_of_classes(open_array(truth.address)))


def _faults_of_sizes(spec: Spec, seen: Sequence[JobInput], n_rows: int) -> list[str]:
    """Return the faults of parameters that need more rows, points or pairs than there are."""
    faults, params, there = list[str](), spec.params, n_rows
    if METHODS[spec.method].reads == "points":
        features = spec.input.addresses["features"]
        faults += _fault_of(f"input.features: {features}", lambda: check_n_points(n_rows))
        if spec.input.comparisons:
            array = open_matrix(features)
            schema = Schema.from_array(features, array) or Schema.unnamed(int(array.shape[1]))
            for number, one in enumerate(spec.input.comparisons):
                faults += _fault_of(f"input.comparisons.{number}", partial(one.on, schema))
        if params.get("resample") == "pairs":  # the number of pairs drawn from labels is not known yet
            there = next((one.shape[0] for one in seen if one.role == Role.PAIRS), sys.maxsize)
        if isinstance(params["max_samples"], int) and params["max_samples"] > there:
            faults.append(f"params.max_samples: {params['max_samples']} of {there} were requested")
        return faults + _faults_of_parts(spec, seen, n_rows)
    faults += _fault_of("params.max_samples", lambda: sampling(params, n_rows))
    faults += _fault_of("params.n_landmarks", lambda: count_landmarks(params.get("n_landmarks") or 1, n_rows))
    return faults + _faults_of_parts(spec, seen, n_rows)


def _faults_of_parts(spec: Spec, seen: Sequence[JobInput], n_rows: int) -> list[str]:
    """Return the faults of rows in parts, judging by metadata; see `distforest.growth.parts`."""
    parts = spec.run.parts
    if parts is None:
        return []
    found = _found_without_sums(spec, seen)
    if spec.params.get("max_bins", 0) is None:
        found.append("no `max_bins`")
    if spec.params.get("feature_weights") == "dependence":
        found.append("feature_weights='dependence', whose screen stages all rows on each host")
    expected = "dense features in bins (`max_bins`), from labels, targets or an embedding"
    faults = [f"run.parts: trees grow in parts over {expected}, found {', '.join(found)}; omit it"] * bool(found)
    if isinstance(parts, int) and parts > n_rows:
        faults.append(f"run.parts: at most one part for each of {counted(n_rows, 'row')} was expected, found {parts:,}")
    return faults


def _found_without_sums(spec: Spec, seen: Sequence[JobInput]) -> list[str]:
    """Return what prevents cuts by sums over codes, judging by metadata.

    `distforest.growth.row_blocks.check_by_sums` refuses the same when all rows have been read.
    """
    kind, found = truth_of(spec)[0], []
    if METHODS[spec.method].reads != "features" or "max_bins" not in spec.params:
        found.append(f"method {spec.method!r}")
    if kind == TruthKind.DISTANCES:
        found.append("distances")
    if kind == TruthKind.DIFFERENCES:
        found.append("absolute differences of targets")
    if spec.params.get("splitter") == "random":
        found.append("splitter='random'")
    found += [f"sparse features at {one.address}" for one in seen if one.is_of_sparse_features]
    return found + [f"distances of classes at {one.address}" for one in seen if one.role == Role.COSTS]


# --- sizes -------------------------------------------------------------------------------------------------


def _size(spec: Spec, seen: Sequence[JobInput]) -> Size:
    """Return the size of the growth, as `distforest.jobs.train.size_of` will compute it from the staged inputs.

    Metadata lack the number of classes, so the class counts of nodes are not included here.
    """
    by_role, (kind, _), reads = {one.role: one for one in reversed(seen)}, truth_of(spec), METHODS[spec.method].reads
    truth = by_role.get(Role.TRUTH)
    matrix = by_role.get(Role.MATRIX, truth)  # without objects it consists of row numbers
    assert matrix is not None  # noqa: S101  (every method reads something)
    n, n_dimensions = matrix.shape[0], truth.shape[1] if truth and len(truth.shape) > 1 else 1
    links = _bytes(truth, 4) if truth is not None and truth.n_stored is not None else 0
    kept = 4 * n**2 if links and n <= MOST_KEPT_DENSE else 0
    if pairs := by_role.get(Role.PAIRS):
        truth_bytes = _bytes(pairs, 4) + pairs.shape[0]
    elif truth is not None:
        truth_bytes = kept + _bytes(truth, 4 if kind in {TruthKind.DISTANCES, TruthKind.LABELS} else 8)
    else:
        truth_bytes = 4 * n**2 if kind == TruthKind.DISTANCES else 0
    is_fused = kind not in {TruthKind.DISTANCES, TruthKind.DIFFERENCES, TruthKind.NOTHING}
    if reads == "points" or (matrix.is_of_sparse_features and is_fused and spec.params.get("splitter") == "best"):
        width = 1  # a search of sparse features holds the values of one candidate at once
    else:
        width = width_of(spec.params, matrix.shape[-1], kind)
    has_costs, categories = Role.COSTS in by_role, None
    if matrix.reading is FEATURES and not matrix.kernels and matrix.n_stored is None:
        schema = Schema.from_array(matrix.address, open_array(matrix.address))
        if schema is not None and any(schema.n_categories):  # metadata have no classes, so two are assumed
            of_costs = None, RANKED_BY_COSTS
            scored_by = of_costs if has_costs else (2 if kind == TruthKind.LABELS else None, n_dimensions)
            categories = CategorySizes(*sizes_of(schema.n_categories), *scored_by)
    return Size(
        _n_pairs(spec, n, pairs) if reads == "points" else n,
        int(spec.params["n_estimators"] or 1),
        _bytes(matrix, matrix.item),
        truth_bytes,
        width,
        kind == TruthKind.DISTANCES and not links,
        links,
        kind.is_of_vectors,
        sampling(spec.params, n).most_leaves(spec.params) if reads == "features" else None,
        8 * (n_dimensions + 1) if kind.is_of_vectors else 0,
        of_costs=has_costs,
        categories=categories,
    )


def _n_pairs(spec: Spec, n_points: int, given: JobInput | None) -> int:
    """Return the number of pairs of a tree."""
    pairs = 0 if given is None else given.shape[0]
    if "n_constraints" in spec.params:
        wanted = spec.params["n_constraints"]
        return pairs or 4 * (ENOUGH if wanted == "auto" else int(wanted))  # for two classes: metadata have no classes
    there = pairs or n_points * (n_points - 1) // 2
    return there if spec.params["sampling"] == "all" and not pairs else min(int(spec.params["n_pairs"]), there)


def _bytes(one: JobInput, item: int) -> int:
    if one.is_of_sparse_features:
        return bytes_of_sparse(one.shape, one.n_stored or 0)
    if one.n_stored is not None:
        return 8 * (one.shape[0] + 1) + (4 + one.item) * one.n_stored
    return math.prod(one.shape) * item
