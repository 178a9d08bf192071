"""Merging: the arrays of the shards, tree after tree, into the arrays of one sealed forest.

Every array of the forest is the shards' arrays one after another, so a merge task is some runs of whole chunks; tasks
share nothing, and one that runs twice writes the same chunks again.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np

from distforest.errors import JobError
from distforest.forest.forest import SEALED_CHUNK_BYTES, Meaning, array_entry, canonical, chunk_rows
from distforest.forest.sealed.artifact import Prepared, prepare, seal, write_rows
from distforest.jobs.cluster import Cluster, Work
from distforest.jobs.inputs import Inputs, scratch_of
from distforest.jobs.plan import merge_bytes
from distforest.jobs.shards import Receipt, opened_shard
from distforest.jobs.versions import grown_by, versions
from distforest.sources.array_files import Mapped
from distforest.sources.arrays import bytes_of, rows_of
from distforest.sources.lazy.source import origin_of
from distforest.sources.source import offsets
from distforest.sources.staging import Staged
from distforest.sources.truth import TruthKind
from distforest.stores.folder import Folder
from distforest.stores.outputs import MANIFEST, UNFINISHED, job_folder, publish

_begin = itemgetter(1)
"""Of a part of a column: the row at which it begins."""


@dataclass(frozen=True)
class Span:
    """Rows first to last - 1 of one array of the forest.

    ``pieces`` are (shard, first row there, first row in the span, rows); a span of a staged input has none.
    """

    name: str
    dtype: str
    tail: tuple[int, ...]
    first: int
    last: int
    pieces: tuple[tuple[str, int, int, int], ...]
    staged: Staged | None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the span's values."""
        return (self.last - self.first, *self.tail)

    @property
    def n_bytes(self) -> int:
        """Size of the span's values."""
        return bytes_of(self.shape, np.dtype(self.dtype))


@dataclass(frozen=True)
class Column:
    """One array of the forest: where its rows come from.

    Attributes
    ----------
    name, dtype, tail
        Its name, dtype and the shape of a row.
    parts
        (shard, row of the array at which it begins, its rows), in tree order.
    staged
        The staged input that the array repeats, in place of parts.
    """

    name: str
    dtype: str
    tail: tuple[int, ...]
    parts: tuple[tuple[str, int, int], ...] = ()
    staged: Staged | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole array."""
        length = self.staged.shape[0] if self.staged else sum(rows for _, _, rows in self.parts)
        return (length, *self.tail)

    @property
    def n_bytes(self) -> int:
        """Size of the array's values."""
        return bytes_of(self.shape, np.dtype(self.dtype))

    def spans(self, n_bytes: int) -> Iterator[Span]:
        """Runs of whole chunks of at most so many bytes, at least one chunk each."""
        shape, dtype = self.shape, np.dtype(self.dtype)
        rows = chunk_rows(shape, dtype)
        step = max(1, rows_of(n_bytes, shape, dtype) // rows) * rows
        for first in range(0, shape[0], step):
            last = min(first + step, shape[0])
            yield Span(self.name, self.dtype, self.tail, first, last, self._pieces(first, last), self.staged)

    def _pieces(self, first: int, last: int) -> tuple[tuple[str, int, int, int], ...]:
        pieces = []
        own = slice(max(0, bisect_right(self.parts, first, key=_begin) - 1), bisect_left(self.parts, last, key=_begin))
        for shard, begin, length in self.parts[own]:
            low, high = max(first, begin), min(last, begin + length)
            if low < high:
                pieces.append((shard, low - begin, low - first, high - low))
        return tuple(pieces)


@dataclass(frozen=True)
class MergeTask:
    """Spans to be written into the arrays of a forest, which are open: a task opens only shards."""

    spans: tuple[Span, ...]
    shards: str
    targets: Mapping[str, Prepared]
    scratch: str | None

    def __str__(self) -> str:
        return ", ".join(f"{span.name}[{span.first}:{span.last}]" for span in self.spans)


def merge_rows(task: MergeTask) -> list[list[str]]:
    """Collect a task's rows, each shard opened and each of its arrays read once, and write their chunks.

    Returns the digests of each span's chunks.
    """
    values, files = [np.empty(span.shape, span.dtype) for span in task.spans], list[Mapped]()
    wanted: dict[str, dict[str, list[tuple[np.ndarray, slice]]]] = {}
    for out, span in zip(values, task.spans, strict=True):
        if span.staged:
            out[:] = span.staged.open(scratch_of(task.scratch), files)[span.first : span.last]
        for shard, source, target, rows in span.pieces:
            place = (out[target : target + rows], slice(source, source + rows))
            wanted.setdefault(shard, {}).setdefault(span.name, []).append(place)
    for name, arrays in wanted.items():
        with opened_shard(Folder(task.shards), name) as opened:
            for array, places in arrays.items():
                found = opened[array]
                for out, rows_there in places:
                    out[:] = found[rows_there]
    for file in files:
        file.check_untouched()
    return [write_rows(task.targets[span.name], span.first, out) for out, span in zip(values, task.spans, strict=True)]


def grouped(columns: Sequence[Column], slots: int) -> list[tuple[Span, ...]]:
    """All spans of all columns in groups for so many threads, each of spans that come from about the same shards.

    The spans of a column stay in their order. A group is as large as another, give or take a span.
    """
    own = max(1, merge_bytes(sum(column.n_bytes for column in columns), slots))
    longest = min(own // len(columns), SEALED_CHUNK_BYTES)
    spans = [(span.first / length, span) for c in columns if (length := c.shape[0]) for span in c.spans(longest)]
    groups: dict[int, list[Span]] = {}
    held = 0
    for _, span in sorted(spans, key=itemgetter(0)):
        groups.setdefault(held // own, []).append(span)
        held += span.n_bytes
    return [tuple(group) for group in groups.values()]


@dataclass(frozen=True)
class Target:
    """Where the merged forest goes: built elsewhere, then given its own address as a whole.

    Attributes
    ----------
    output
        The address.
    folder, shards
        The job's folder, and in it that of the shards.
    hold
        Called before anything at the output changes; raises where it is another job's.
    replaces
        Whether there is a forest that the new one takes the place of.
    """

    output: str
    folder: Folder
    shards: Folder
    hold: Callable[[], None] = lambda: None
    replaces: bool = False

    @property
    def building(self) -> Folder:
        """Where it is built: beside the shards; on an object store in place, or beside the forest that it replaces."""
        if Folder(self.output).is_local:
            return self.folder.within("forest.zarr")
        return Folder(job_folder(self.output)).within("forest.zarr") if self.replaces else Folder(self.output)

    @property
    def is_in_place(self) -> bool:
        """Whether readers see it being built."""
        return self.building.address == self.output

    def clear(self, fingerprint: str) -> None:
        """Make room for the building; one in place says whose it is."""
        self.hold()
        self.building.remove()
        if self.is_in_place:
            self.building.write(UNFINISHED, canonical({"fingerprint": fingerprint}))

    def withdraw(self) -> None:
        """Leave nothing of a merge that has failed: what is built of a forest is of no use to the next one."""
        self.building.remove()

    def publish(self) -> None:
        """Give the sealed forest its address, over an older one if there is one."""
        if self.is_in_place:
            self.building.discard(UNFINISHED)
            return
        publish(self.building.address, self.output, MANIFEST)


def merge(inputs: Inputs, receipts: Sequence[Receipt], target: Target, cluster: Cluster, work: Work) -> str:
    """Merge the shards into one sealed forest.

    Parameters
    ----------
    inputs
        Of the job.
    receipts
        Of all shards, in tree order.
    target
        Where the shards are, and where the forest goes.
    cluster, work
        Where the merge tasks run, and how.

    Returns
    -------
    str
        The forest's digest.
    """
    [layout] = cluster.each(lay_out, [LayoutTask.of(inputs, receipts, target.shards)], replace(work, watch=None))
    columns = layout.columns(receipts, inputs)
    target.clear(inputs.fingerprint)
    building = target.building
    arrays = {c.name: prepare(building.address, c.name, c.shape, np.dtype(c.dtype)) for c in columns}
    tasks = [
        MergeTask(spans, target.shards.address, {span.name: arrays[span.name] for span in spans}, inputs.scratch)
        for spans in grouped(columns, cluster.slots)
    ]
    try:
        entries = _merged(columns, tasks, cluster, work)
    except JobError:
        with suppress(OSError):  # the disk may be full, and tasks may still be writing
            target.withdraw()
        raise
    target.hold()
    digest = seal(building.address, layout.meaning, entries, provenance(inputs, receipts) | layout.features)
    target.publish()
    return digest


def is_unfinished(output: str, fingerprint: str) -> bool:
    """Whether what is at an output is what an earlier run of the same job has built in place and not finished."""
    try:
        found = json.loads(Folder(output).read(UNFINISHED))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    return bool(found == {"fingerprint": fingerprint})


def _merged(columns: Sequence[Column], tasks: Sequence[MergeTask], cluster: Cluster, work: Work) -> dict[str, Any]:
    """Run the merge tasks; what the manifest says of each array."""
    digests: dict[str, list[str]] = {column.name: [] for column in columns}
    for task, answers in zip(tasks, cluster.each(merge_rows, tasks, work), strict=True):
        for span, own in zip(task.spans, answers, strict=True):
            digests[span.name] += own
    return {c.name: array_entry(c.shape, np.dtype(c.dtype), digests[c.name]) for c in columns}


@dataclass(frozen=True)
class LayoutTask:
    """A job's inputs, the least length of each array in its shards, and one of the shards."""

    inputs: Inputs
    least: dict[str, int]
    shards: Folder
    sample: str

    @classmethod
    def of(cls, inputs: Inputs, receipts: Sequence[Receipt], shards: Folder) -> LayoutTask:
        """The task for some shards; no larger for more of them."""
        least = {name: min(receipt.rows[name] for receipt in receipts) for name in receipts[0].rows}
        return cls(inputs, least, shards, receipts[0].shard)

    def __str__(self) -> str:
        return "the layout of the forest"


@dataclass(frozen=True)
class Layout:
    """What merged arrays mean; dtype and tail of those that come from shards; which staged input the others repeat.

    ``features`` is what the provenance says of the names of the columns.
    """

    meaning: Meaning
    grown: dict[str, tuple[str, tuple[int, ...]]]
    repeated: dict[str, str]
    features: dict[str, Any]

    def columns(self, receipts: Sequence[Receipt], inputs: Inputs) -> list[Column]:
        """Each array of the forest, and where its rows come from."""
        columns = [Column(name, *kind, _parts(name, receipts)) for name, kind in self.grown.items()]
        for name, of in self.repeated.items():
            staged: Staged = getattr(inputs, of)
            columns.append(Column(name, staged.dtype, staged.shape[1:], (), staged))
        return columns


def lay_out(task: LayoutTask) -> Layout:
    """Say what the forest of a job's shards holds; on the way look for damage that no task has seen."""
    opened = task.inputs.opened()
    for file in opened.files:
        file.check_content()
    contents = opened.problem.contents([task.least])
    with opened_shard(task.shards, task.sample) as sample:
        grown = {name: ((array := sample[name]).dtype.name, array.shape[1:]) for name in contents.grown}
    return Layout(contents.meaning, grown, contents.repeated, task.inputs.feature_names())


def _parts(name: str, receipts: Sequence[Receipt]) -> tuple[tuple[str, int, int], ...]:
    """Each shard's rows of an array, one shard after another."""
    rows = [receipt.rows[name] for receipt in receipts]
    begins = offsets(np.array(rows, np.int64)).tolist()
    return tuple((r.shard, begin, length) for r, begin, length in zip(receipts, begins, rows, strict=False))


def _origin(inputs: Inputs) -> dict[str, Any]:
    source = inputs.asked()
    return origin_of(source.lazy, source.objects)


def provenance(inputs: Inputs, receipts: Sequence[Receipt]) -> dict[str, Any]:
    """Where a forest comes from: versions, the digests of its inputs, and what its similarities cost."""
    truth = {"address": inputs.addresses[1], "sha256": inputs.truth.sha256}
    taught: dict[str, Any] = {inputs.truth_kind.value: truth} if inputs.truth_kind != TruthKind.NOTHING else {}
    if inputs.feature_weights and not inputs.dependence:
        taught["feature_weights"] = {"sha256": inputs.feature_weights.sha256}
    costs = {name: sum(getattr(receipt, name) for receipt in receipts) for name in ("evaluations", "closed")}
    return {
        **({"similarity": {**_origin(inputs), **costs}} if inputs.callback else {}),
        "fingerprint": inputs.fingerprint,
        "inputs": {
            "matrix": {"address": inputs.addresses[0], "sha256": inputs.matrix.sha256},
            **taught,
        },
        "versions": versions(),
        "grown_by": grown_by(receipts),
    }
