"""Training: trees are grown by tasks that commit shards, shards are merged by tasks that write chunks, then the seal.

::

    plan -> grow, grow, ... -> shard, shard, ... -> merge, merge, ... -> chunk, chunk, ... -> manifest

A shard is one file, written in one step under a name that says which trees it holds. A run that was interrupted is
completed by running it again: the plan asks only for trees that no shard holds.
"""

from __future__ import annotations

import io
import json
import platform
import resource
import time
import zipfile
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.errors import ArtifactError, InputError, JobError
from distforest.forest.artifact import prepare, read_manifest, seal, write_rows
from distforest.forest.forest import NODE_ARRAYS, Forest, Meaning, array_entry, canonical, chunk_rows
from distforest.jobs.cluster import Cluster, Here, Work
from distforest.jobs.folder import Folder
from distforest.jobs.inputs import Inputs, scratch_of
from distforest.jobs.plan import Plan, Size, plan, refuse_if_too_large

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.growth.methods import Problem
    from distforest.jobs.cluster import Watch
    from distforest.sources.staging import Staged

MERGE_BYTES = 64 << 20
"""Size of what one merge task writes."""


@dataclass(frozen=True)
class Receipt:
    """What a growing task answers: which trees, in which shard, how large, how long, how much memory.

    ``rows`` is the length of each array of the shard.
    """

    first: int
    last: int
    shard: str
    seconds: float
    peak_bytes: int
    rows: dict[str, int]

    @property
    def n_trees(self) -> int:
        """Trees in the shard."""
        return self.last - self.first + 1


@dataclass(frozen=True)
class GrowTask:
    """Trees first to last of a job, to be committed into ``folder``."""

    inputs: Inputs
    folder: str
    first: int
    last: int

    @property
    def n_trees(self) -> int:
        """Trees of the task."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        return f"trees {self.first} to {self.last}"


@dataclass(frozen=True)
class MergeTask:
    """Rows of one array of the forest, to be collected from shards or from a staged input.

    ``parts`` are (shard, row of the array at which it begins, its rows), in tree order.
    """

    target: str
    folder: str
    name: str
    dtype: str
    tail: tuple[int, ...]
    first: int
    last: int
    parts: tuple[tuple[str, int, int], ...]
    staged: Staged | None
    scratch: str | None

    def __str__(self) -> str:
        return f"{self.name}[{self.first}:{self.last}]"


@dataclass(frozen=True)
class Options:
    """How a job runs; nothing here changes the forest."""

    batch: int | None = None
    retries: int = 3
    overwrite: bool = False
    keep_shards: bool = False
    watch: Watch | None = None


@dataclass(frozen=True)
class Fitted:
    """What a job has done.

    ``n_grown`` counts the trees grown by this run (fewer than ``n_trees`` where it completed another one).
    """

    address: str
    digest: str
    n_trees: int
    n_grown: int
    seconds: float
    growing_seconds: float
    peak_bytes: int
    projected_bytes: int


def grow_shard(task: GrowTask) -> Receipt:
    """Grow a task's trees and commit them; where they are committed already, only answer so."""
    folder, name = Folder(task.folder), shard_name(task.first, task.last)
    committed = read_receipt(folder, name)
    if committed:
        return committed
    start = time.perf_counter()
    arrays = task.inputs.problem().grow(np.arange(task.first, task.last + 1))
    rows = {key: len(array) for key, array in arrays.items()}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    receipt = Receipt(task.first, task.last, name, time.perf_counter() - start, peak, rows)
    folder.write(name, packed(arrays, receipt))
    return receipt


def shard_name(first: int, last: int) -> str:
    """The name of the shard with these trees."""
    return f"trees-{first:07d}-{last:07d}.npz"


def packed(arrays: dict[str, np.ndarray], receipt: Receipt) -> bytes:
    """A shard: the arrays of the trees and the receipt, as one .npz without pickle."""
    buffer = io.BytesIO()
    text = np.frombuffer(canonical(asdict(receipt)), np.uint8)
    np.savez(buffer, allow_pickle=False, receipt=text, **arrays)
    return buffer.getvalue()


def read_receipt(folder: Folder, name: str) -> Receipt | None:
    """The receipt of a committed shard; None where it is missing or damaged."""
    try:
        with zipfile.ZipFile(io.BytesIO(folder.read(name))) as archive:
            if archive.testzip() is not None:
                return None
        with load_shard(folder, name) as shard:
            return Receipt(**json.loads(shard["receipt"].tobytes()))
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        return None


def load_shard(folder: Folder, name: str) -> np.lib.npyio.NpzFile:
    """An open shard; its arrays are read when they are asked for."""
    return np.load(io.BytesIO(folder.read(name)), allow_pickle=False)  # type: ignore[no-any-return]


def committed_shards(folder: Folder) -> list[Receipt]:
    """The receipts of the shards in a folder, in tree order, each tree once."""
    found = [read_receipt(folder, name) for name in folder.names() if name.startswith("trees-")]
    kept: list[Receipt] = []
    for receipt in sorted((r for r in found if r), key=lambda r: (r.first, -r.last)):
        if not kept or receipt.first > kept[-1].last:
            kept.append(receipt)
    return kept


def fit(inputs: Inputs, output: str, folder: Folder, cluster: Cluster, options: Options) -> Fitted:
    """Train a forest and seal it at ``output``; completes an earlier run of the same job.

    Parameters
    ----------
    inputs
        The staged inputs.
    output
        Address of the forest.
    folder
        The job's own folder, for shards; removed at the end.
    cluster
        Where the tasks run.
    options
        How they run.

    Raises
    ------
    InputError
        There is another forest at ``output``, and it may not be overwritten.
    MemoryLimitError
        The job does not fit into its workers.
    JobError
        A task failed for good. What was committed is kept for the next run.
    """
    start = time.perf_counter()
    sealed = _already_sealed(inputs, output, options)
    if sealed:
        return sealed
    shards = folder.within(f"shards-{inputs.fingerprint[:16]}")
    size, slots = size_of(inputs), cluster.slots
    done = committed_shards(shards)
    trees = {tree for receipt in done for tree in range(receipt.first, receipt.last + 1)}
    planned = plan(size, trees, slots, options.batch, cluster.threads)
    refuse_if_too_large(planned, cluster.memory_limit)
    tasks = [GrowTask(inputs, shards.address, first, last) for first, last in planned.tasks]
    work = Work("grow", options.retries, lambda task: task.n_trees, options.watch)
    grown = cluster.each(grow_shard, tasks, work)
    receipts = sorted([*done, *grown], key=lambda receipt: receipt.first)
    digest = _merge(inputs, receipts, _Target(output, folder, shards), cluster, options)
    if not options.keep_shards:
        folder.remove()
    return Fitted(
        output,
        digest,
        size.n_trees,
        sum(receipt.n_trees for receipt in grown),
        time.perf_counter() - start,
        sum(receipt.seconds for receipt in grown),
        max((receipt.peak_bytes for receipt in grown), default=0),
        planned.projected_bytes,
    )


def size_of(inputs: Inputs) -> Size:
    """What the plan must know of the inputs."""
    draw = inputs.problem().growth.draw
    return Size(
        inputs.matrix.shape[0],
        int(inputs.params["n_estimators"]),
        inputs.matrix.n_bytes,
        inputs.truth.n_bytes,
        draw.width,
        inputs.judge == "distances",
    )


def _already_sealed(inputs: Inputs, output: str, options: Options) -> Fitted | None:
    """The forest at ``output`` if this job has made it; refuses to write over anything else."""
    if not Folder(output).exists():
        return None
    try:
        manifest = read_manifest(output)
    except ArtifactError as error:
        if options.overwrite or not Folder(output).is_local:
            return None
        raise InputError(f"{output} exists and is no sealed forest; remove it, or set run.overwrite") from error
    if manifest["provenance"].get("fingerprint") == inputs.fingerprint:
        n_trees = manifest["arrays"]["tree_size"]["shape"][0]
        return Fitted(output, manifest["digest"], n_trees, 0, 0.0, 0.0, 0, 0)
    if options.overwrite:
        return None
    raise InputError(f"{output} is a forest of another job; choose another output, or set run.overwrite")


@dataclass(frozen=True)
class _Target:
    """Where the merged forest goes: built beside the shards, then moved to its own address in one step."""

    output: str
    folder: Folder
    shards: Folder

    @property
    def building(self) -> Folder:
        """Where it is built; object stores cannot move, so there it is built in place."""
        return self.folder.within("forest.zarr") if Folder(self.output).is_local else Folder(self.output)

    def publish(self) -> None:
        """Move the sealed forest to its address, over an older one if there is one."""
        if self.building.address == self.output:
            return
        output, older = Folder(self.output), self.folder.within("older.zarr")
        if output.exists():
            older.remove()
            output.move(older)
        self.building.move(output)
        older.remove()


def _merge(
    inputs: Inputs, receipts: Sequence[Receipt], target: _Target, cluster: Cluster, options: Options
) -> str:
    """Merge the shards into one sealed forest; returns its digest."""
    problem = inputs.problem()
    meaning, arrays = _layout(problem, inputs, receipts)
    building = target.building
    building.remove()
    tasks: list[MergeTask] = []
    with load_shard(target.shards, receipts[0].shard) as sample:
        described = {name: _described(name, sample, source) for name, source in arrays.items()}
    for name, (dtype, tail) in described.items():
        staged = arrays[name]
        parts = () if staged else _parts(name, receipts)
        length = staged.shape[0] if staged else sum(rows for _, _, rows in parts)
        prepare(building.address, name, (length, *tail), dtype)
        tasks += _merge_tasks(name, dtype, (length, *tail), _Sources(building.address, target.shards.address, parts, staged, inputs.scratch))
    digests = cluster.each(merge_rows, tasks, Work("merge", options.retries, watch=options.watch))
    entries: dict[str, Any] = {}
    for task, own in zip(tasks, digests, strict=True):
        entry = entries.setdefault(task.name, {"length": 0, "sha256": []})
        entry["length"] = max(entry["length"], task.last)
        entry["sha256"] += own
    manifest = {
        name: array_entry((entries[name]["length"], *tail), dtype, entries[name]["sha256"])
        for name, (dtype, tail) in described.items()
    }
    digest = seal(building.address, meaning, manifest, provenance(inputs))
    target.publish()
    return digest


def _layout(
    problem: Problem, inputs: Inputs, receipts: Sequence[Receipt]
) -> tuple[Meaning, dict[str, Staged | None]]:
    """The arrays of the forest, each from the shards (None) or from a staged input, and what they mean."""
    arrays: dict[str, Staged | None] = dict.fromkeys((*NODE_ARRAYS, "leaves", "in_bag"))
    meaning = problem.meaning
    if inputs.judge == "distances":
        tables = all(receipt.rows["leaf_distances"] for receipt in receipts)
        meaning = problem.with_leaf_tables(tables)
        arrays["leaf_distances" if tables else "distances"] = None if tables else inputs.truth
    else:
        arrays |= dict.fromkeys(name for name in ("class_counts", "means", "spreads") if name in receipts[0].rows)
    if "n_features" in inputs.rows:
        arrays["objects"] = inputs.matrix
    return meaning, arrays


def _described(name: str, sample: Any, staged: Staged | None) -> tuple[np.dtype[Any], tuple[int, ...]]:
    if staged:
        return np.dtype(staged.dtype), staged.shape[1:]
    return sample[name].dtype, sample[name].shape[1:]


def _parts(name: str, receipts: Sequence[Receipt]) -> tuple[tuple[str, int, int], ...]:
    parts, begin = [], 0
    for receipt in receipts:
        parts.append((receipt.shard, begin, receipt.rows[name]))
        begin += receipt.rows[name]
    return tuple(parts)


@dataclass(frozen=True)
class _Sources:
    target: str
    folder: str
    parts: tuple[tuple[str, int, int], ...]
    staged: Staged | None
    scratch: str | None


def _merge_tasks(name: str, dtype: np.dtype[Any], shape: tuple[int, ...], sources: _Sources) -> list[MergeTask]:
    """Runs of whole chunks of an array, each with the shards that it overlaps."""
    rows = chunk_rows(shape, dtype)
    row_bytes = max(1, int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize)
    step = max(1, MERGE_BYTES // (rows * row_bytes)) * rows
    tasks = []
    for first in range(0, shape[0], step):
        last = min(first + step, shape[0])
        parts = tuple(part for part in sources.parts if part[1] < last and part[1] + part[2] > first)
        tasks.append(
            MergeTask(
                *(sources.target, sources.folder, name, dtype.name, tuple(shape[1:]), first, last),
                *(parts, sources.staged, sources.scratch),
            )
        )
    return tasks or [
        MergeTask(sources.target, sources.folder, name, dtype.name, tuple(shape[1:]), 0, 0, (), None, None)
    ]


def merge_rows(task: MergeTask) -> list[str]:
    """Collect a task's rows and write their chunks; returns the digest of each chunk."""
    if task.staged:
        values = task.staged.open(scratch_of(task.scratch))[task.first : task.last]
        return write_rows(task.target, task.name, task.first, values)
    values = np.empty((task.last - task.first, *task.tail), task.dtype)
    for name, begin, rows in task.parts:
        low, high = max(task.first, begin), min(task.last, begin + rows)
        with load_shard(Folder(task.folder), name) as shard:
            values[low - task.first : high - task.first] = shard[task.name][low - begin : high - begin]
    return write_rows(task.target, task.name, task.first, values)


def provenance(inputs: Inputs) -> dict[str, Any]:
    """Where a forest comes from: versions, and the digests of its inputs."""
    packages = ("distforest", "numpy", "numba", "zarr")
    return {
        "fingerprint": inputs.fingerprint,
        "inputs": {
            "matrix": {"address": inputs.matrix.address, "sha256": inputs.matrix.sha256},
            inputs.judge: {"address": inputs.truth.address, "sha256": inputs.truth.sha256},
        },
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
    }


def fit_here(problem: Problem, threads: int = 1, watch: Watch | None = None) -> Forest:
    """Train a forest on data in memory, in threads of this process; nothing is written.

    Parameters
    ----------
    problem
        Method and data.
    threads
        How many.
    watch
        Told of the progress.
    """
    data = problem.data
    dense = data.judge == "distances"
    width = problem.growth.draw.width
    size = Size(data.n_rows, problem.n_trees, data.matrix.nbytes, data.truth.nbytes, width, dense)
    planned: Plan = plan(size, (), threads, threads=threads)
    spans = [np.arange(first, last + 1) for first, last in planned.tasks]
    shards = Here(threads).each(problem.grow, spans, Work("grow", weight=len, watch=watch))
    arrays = {name: np.concatenate([shard[name] for shard in shards]) for name in shards[0]}
    meaning = problem.meaning
    if dense:
        tables = all(len(shard["leaf_distances"]) for shard in shards)
        meaning = problem.with_leaf_tables(tables)
        if not tables:
            del arrays["leaf_distances"]
            arrays["distances"] = data.truth
    if "n_features" in data.rows:
        arrays["objects"] = data.matrix
    forest = Forest.of(meaning, arrays)
    if forest.n_trees != problem.n_trees:
        raise JobError(f"{problem.n_trees} trees were asked for, found {forest.n_trees}")
    return forest
