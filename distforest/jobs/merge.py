"""Merging: the arrays of the shards are joined, in tree order, into the arrays of a sealed forest.

Each array of the forest is the concatenation of the shards' arrays. So a merge task writes some runs of whole chunks.
Tasks share nothing, and a task that runs twice writes the same chunks again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import itemgetter

import numpy as np

from distforest.errors import JobError
from distforest.forest.forest import SEALED_CHUNK_BYTES, Meaning, array_entry, chunk_rows
from distforest.forest.sealed.artifact import prepare, seal, write_rows
from distforest.jobs.cluster import Cluster, Work
from distforest.jobs.inputs import Inputs
from distforest.jobs.plan import merge_bytes
from distforest.jobs.shards import Receipt, grown_by, opened_shard
from distforest.jobs.shared_folders import check_written
from distforest.jobs.versions import VERSIONS
from distforest.sources.array_files import Mapped
from distforest.sources.arrays import bytes_of, release_pages, rows_of, writable_array
from distforest.sources.lazy.lazy_source import LazySource, origin_of
from distforest.sources.scratch import ScratchFolder
from distforest.sources.source import offsets
from distforest.sources.staging import Staged
from distforest.sources.truth import TruthKind
from distforest.stores.building import Building
from distforest.stores.claims import Claim
from distforest.stores.folder import Folder


@dataclass(frozen=True)
class Span:
    """Rows first to last - 1 of one array of the forest.

    ``pieces`` are (shard, first row there, first row in the span, rows); a span of a staged input has no pieces.
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
    """An array of the forest, and the sources of its rows.

    Attributes
    ----------
    name, dtype, tail
        Its name, dtype and the shape of a row.
    parts
        (shard, row of the array at which it begins, its rows), in tree order.
    staged
        The staged input that the array repeats, instead of parts.
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
        """Yield runs of whole chunks of at most ``n_bytes``, or of a single chunk."""
        shape, dtype = self.shape, np.dtype(self.dtype)
        rows = chunk_rows(shape, dtype)
        step = max(1, rows_of(n_bytes, shape, dtype) // rows) * rows
        for first in range(0, shape[0], step):
            last = min(first + step, shape[0])
            yield Span(self.name, self.dtype, self.tail, first, last, self._pieces(first, last), self.staged)

    def _pieces(self, first: int, last: int) -> tuple[tuple[str, int, int, int], ...]:
        pieces = []
        low = max(0, bisect_right(self.parts, first, key=itemgetter(1)) - 1)
        for shard, begin, length in self.parts[low : bisect_left(self.parts, last, key=itemgetter(1))]:
            start, end = max(first, begin), min(last, begin + length)
            if start < end:
                pieces.append((shard, start - begin, start - first, end - start))
        return tuple(pieces)


@dataclass(frozen=True)
class MergeTask:
    """Spans that a task writes into the arrays of a forest, which exist at the address ``target``.

    The task opens the arrays itself: an open array of Zarr can be sent only to a process with the same version of Zarr.
    ``claim`` is the job's claim on its output.
    """

    spans: tuple[Span, ...]
    shards: str
    target: str
    scratch: ScratchFolder
    claim: Claim | None = None

    def __str__(self) -> str:
        return ", ".join(f"{span.name}[{span.first}:{span.last}]" for span in self.spans)


def merge_rows(task: MergeTask) -> list[list[str]]:
    """Collect a task's rows and write their chunks; each shard is opened, and each of its arrays is read, only once.

    Return the digests of each span's chunks.
    """
    values, files = [np.empty(span.shape, span.dtype) for span in task.spans], list[Mapped]()
    wanted: dict[str, dict[str, list[tuple[np.ndarray, slice]]]] = {}
    for out, span in zip(values, task.spans, strict=True):
        if span.staged:
            staged = span.staged.open(task.scratch, files)
            out[:] = staged[span.first : span.last]
            release_pages(staged)
        for shard, source, target, rows in span.pieces:
            place = (out[target : target + rows], slice(source, source + rows))
            wanted.setdefault(shard, {}).setdefault(span.name, []).append(place)
    for name, arrays in wanted.items():
        with opened_shard(Folder(task.shards), name) as opened:
            for array, places in arrays.items():
                values_there = opened[array]
                for out, rows_there in places:
                    out[:] = values_there[rows_there]
    for file in files:
        file.check_untouched()
    if task.claim:
        task.claim.check_held()
    targets = {name: writable_array(task.target, name) for name in dict.fromkeys(span.name for span in task.spans)}
    return [write_rows(targets[span.name], span.first, out) for out, span in zip(values, task.spans, strict=True)]


def grouped(columns: Sequence[Column], slots: int) -> list[tuple[Span, ...]]:
    """Return all spans of all columns, in a group for each task; the spans of a group come from about the same shards.

    The spans of a column stay in order. All groups are of equal size, to within a span.
    """
    n_bytes = max(1, merge_bytes(sum(column.n_bytes for column in columns), slots))
    longest = min(n_bytes // len(columns), SEALED_CHUNK_BYTES)
    spans = [(span.first / length, span) for c in columns if (length := c.shape[0]) for span in c.spans(longest)]
    groups: dict[int, list[Span]] = {}
    so_far = 0
    for _, span in sorted(spans, key=itemgetter(0)):
        groups.setdefault(so_far // n_bytes, []).append(span)
        so_far += span.n_bytes
    return [tuple(group) for group in groups.values()]


@dataclass(frozen=True)
class Target:
    """The destination of the merged forest.

    Attributes
    ----------
    building
        The output, which is built as a whole.
    shards
        The folder of the shards.
    hold
        Function that is called before anything at the output changes; it raises if another job owns the output.
    provenance
        Further entries of the forest's provenance.
    claim
        That of the job on the output, if it has made one.
    complete
        Called with the address of the sealed forest before it is at the output.
    """

    building: Building
    shards: Folder
    hold: Callable[[], None] = lambda: None
    provenance: Mapping[str, object] = field(default_factory=dict)
    claim: Claim | None = None
    complete: Callable[[str], None] = lambda _address: None


def merge(inputs: Inputs, receipts: Sequence[Receipt], target: Target, cluster: Cluster, work: Work) -> str:
    """Merge the shards into one sealed forest.

    Parameters
    ----------
    inputs
        The inputs of the job.
    receipts
        The receipts of all shards, in tree order.
    target
        The folder of the shards, and the destination of the forest.
    cluster, work
        The cluster of the merge tasks, and their run.

    Returns
    -------
    str
        The forest's digest.
    """
    least = {name: min(receipt.rows[name] for receipt in receipts) for name in receipts[0].rows}
    laying = LayoutTask(inputs, least, target.shards, receipts[0].shard)  # whose size does not grow with the shards
    [layout] = cluster.each(plan_layout, [laying], replace(work, watch=None))
    columns = layout.columns(receipts, inputs)
    building = target.building
    target.hold()
    building.begin()
    for column in columns:
        prepare(building.address, column.name, column.shape, np.dtype(column.dtype))
    places, written = (target.shards.address, building.address), {column.name: list[str]() for column in columns}
    tasks = [MergeTask(spans, *places, inputs.scratch, target.claim) for spans in grouped(columns, cluster.slots)]
    try:
        for task, answers in zip(tasks, cluster.each(merge_rows, tasks, work), strict=True):
            for span, of_chunks in zip(task.spans, answers, strict=True):
                written[span.name] += of_chunks
        check_written(building.address, {name: len(digests) for name, digests in written.items()})
    except JobError:
        with suppress(OSError):  # the disk may be full, and tasks may still be writing
            building.withdraw()
        raise
    target.hold()
    record = {**provenance(inputs, receipts), **layout.features, **target.provenance}
    entries = {c.name: array_entry(c.shape, np.dtype(c.dtype), written[c.name]) for c in columns}
    digest = seal(building.address, layout.meaning, entries, record)
    target.complete(building.address)
    building.publish()
    return digest


@dataclass(frozen=True)
class LayoutTask:
    """A job's inputs, the least length of each array in its shards, and one of the shards."""

    inputs: Inputs
    least: dict[str, int]
    shards: Folder
    sample: str

    def __str__(self) -> str:
        return "the layout of the forest"


@dataclass(frozen=True)
class Layout:
    """The meaning of the merged forest; dtype and tail of arrays from shards; the staged input that others repeat.

    ``features`` are the provenance's entries on the features and on the weights of pairs.
    """

    meaning: Meaning
    grown: dict[str, tuple[str, tuple[int, ...]]]
    repeated: dict[str, str]
    features: dict[str, object]

    def columns(self, receipts: Sequence[Receipt], inputs: Inputs) -> list[Column]:
        """Return the arrays of the forest, with the sources of their rows."""
        columns = []
        for name, kind in self.grown.items():
            rows = [receipt.rows[name] for receipt in receipts]
            begins = offsets(np.array(rows, np.int64)).tolist()
            parts = ((r.shard, begin, length) for r, begin, length in zip(receipts, begins, rows, strict=False))
            columns.append(Column(name, *kind, tuple(parts)))
        for name, of in self.repeated.items():
            staged = inputs.repeated(of)
            columns.append(Column(name, staged.dtype, staged.shape[1:], (), staged))
        return columns


def plan_layout(task: LayoutTask) -> Layout:
    """Return the layout of the forest of a job's shards, after checking the staged inputs for damage."""
    opened = task.inputs.opened()
    for file in opened.files:
        file.check_content()
    contents = opened.problem.contents([task.least])
    with opened_shard(task.shards, task.sample) as sample:
        grown = {name: ((array := sample[name]).dtype.name, array.shape[1:]) for name in contents.grown}
    features = {**task.inputs.features(), **opened.problem.data.pair_weight_entry}
    return Layout(contents.meaning, grown, contents.repeated, features)


def provenance(inputs: Inputs, receipts: Sequence[Receipt]) -> dict[str, object]:
    """Return the provenance of a forest: versions, the digests of its inputs, and the costs of its similarities."""
    truth = {"sha256": (inputs.graph or inputs.truth).sha256}
    if not inputs.asked:  # otherwise the function is recorded with its distances
        truth = {"address": inputs.addresses[1], **truth}
    taught: dict[str, object] = {inputs.truth_kind.value: truth} if inputs.truth_kind != TruthKind.NOTHING else {}
    own_weights = None if inputs.dependence else inputs.feature_weights
    others = {"feature_weights": own_weights, "pairs": inputs.pairs, "costs": inputs.costs}
    others |= {"sample_weight": inputs.sample_weight, "pair_weight": inputs.pair_weight}
    taught |= {name: {"sha256": one.sha256} for name, one in others.items() if one}
    costs = {name: sum(getattr(receipt, name) for receipt in receipts) for name in ("evaluations", "closed")}
    costs["evaluations"] += inputs.evaluations
    origin: dict[str, object] = {}
    if inputs.callbacks:  # in a list, None for given ones
        sources = inputs.sources()
        origins = [origin_of(own.lazy, own.objects) if isinstance(own, LazySource) else None for own in sources]
        origin = {"measures": origins} if inputs.listed or origins[0] is None else origins[0]
    return {
        **({"similarity": {**origin, **costs}} if inputs.callbacks else {}),
        **(inputs.chosen_cut.entry if inputs.chosen_cut else {}),
        **({"distances": dict(inputs.asked.origin or {})} if inputs.asked else {}),
        "fingerprint": inputs.fingerprint,
        "inputs": {
            "matrix": {"address": inputs.addresses[0], "sha256": inputs.matrix.sha256},
            **taught,
        },
        "versions": dict(VERSIONS),
        "grown_by": grown_by(receipts),
    }
