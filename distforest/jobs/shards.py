"""Shards: the trees of one task in one file, written in one step under a name that states its trees."""

from __future__ import annotations

import io
import json
import resource
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from distforest.errors import JobError
from distforest.forest.forest import canonical
from distforest.forest.node_table import n_roots_of
from distforest.forest.roots import Stayed
from distforest.growth.methods import GROWTH
from distforest.jobs.versions import COMPUTING, VERSIONS_HERE
from distforest.sources.files.npz import header_of
from distforest.stores.folder import Folder

SHARD_ERRORS = (OSError, EOFError, ValueError, KeyError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""Errors of reading a damaged shard, in which a flipped bit may indicate encryption or compression."""


@dataclass(frozen=True)
class Receipt:
    """The answer of a growing task: its trees, their shard, size, seconds and memory.

    ``rows`` is the length of each array of the shard. ``evaluations`` and ``closed`` are the costs of its similarities:
    evaluated pairs, and nodes that stayed uncut because the budget was spent. ``growth`` is the version of the growth,
    1 for trees from before versions were recorded. ``n_roots`` counts trees without a split; ``n_stayed`` and
    ``n_routed`` are those of `Stayed`. ``distforest``, ``numpy`` and ``numba`` are the versions in the process that
    grew the trees.
    """

    first: int
    last: int
    shard: str
    seconds: float
    peak_bytes: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    evaluations: int = 0
    closed: int = 0
    growth: int = 1
    n_roots: int = 0
    n_stayed: int = 0
    n_routed: int = 0
    distforest: str = "unknown"
    numpy: str = "unknown"
    numba: str = "unknown"

    @property
    def n_trees(self) -> int:
        """Number of trees in the shard."""
        return self.last - self.first + 1


def peak_bytes() -> int:
    """Return the peak memory of this process.

    Linux reports it for the process itself; ``getrusage`` includes the process from which it was forked.
    """
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024  # macOS reports bytes, Linux KiB
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def shard_name(first: int, last: int) -> str:
    """Return the name of the shard with these trees."""
    return f"trees-{first:07d}-{last:07d}.npz"


def packed(arrays: dict[str, np.ndarray], receipt: Receipt) -> memoryview:
    """Return the content of a shard: the arrays of the trees and the receipt, as one .npz without pickle."""
    buffer = io.BytesIO()
    text = np.frombuffer(canonical(asdict(receipt)), np.uint8)
    np.savez(buffer, allow_pickle=False, receipt=text, **arrays)
    return buffer.getbuffer()


def commit(
    folder: Folder, arrays: dict[str, np.ndarray], receipt: Receipt, grown_with: Mapping[str, str] = VERSIONS_HERE
) -> Receipt:
    """Write a shard in one step; return its receipt, completed from this process and the arrays.

    ``grown_with`` contains the versions that grew its trees.

    A shard is merged soon, so the call does not wait until it is on disk. Checksums reveal damage, and the trees of a
    damaged shard grow again.
    """
    rows = {name: len(array) for name, array in arrays.items()}
    sizes = arrays["tree_size"]
    here = {"rows": rows, "peak_bytes": peak_bytes(), "growth": GROWTH, "n_roots": n_roots_of(sizes)}
    stayed = asdict(Stayed.from_leaves(sizes, arrays.get("leaves")))
    receipt = Receipt(**{**asdict(receipt), **here, **stayed, **grown_with})
    folder.write(receipt.shard, packed(arrays, receipt), lasting=False)
    return receipt


@dataclass(frozen=True)
class Shard:
    """An opened shard. An array is read in one piece; `numpy.load` reads many, which takes three times as long."""

    archive: zipfile.ZipFile

    def __getitem__(self, name: str) -> np.ndarray:
        raw = self.archive.read(f"{name}.npy")
        stream = io.BytesIO(raw)
        shape, in_columns, dtype = header_of(stream)
        return np.frombuffer(raw, dtype, offset=stream.tell()).reshape(shape, order="F" if in_columns else "C")


def read_receipt(folder: Folder, name: str) -> Receipt | None:
    """Return the receipt of a committed shard; None if it is missing, damaged, or of another version of the growth."""
    try:
        with opened_shard(folder, name) as shard:
            if shard.archive.testzip() is not None:
                return None
            receipt = Receipt(**json.loads(shard["receipt"].tobytes()))
    except SHARD_ERRORS:
        return None
    return receipt if receipt.growth == GROWTH else None


@contextmanager
def opened_shard(folder: Folder, name: str) -> Iterator[Shard]:
    """Open a shard, whose arrays are read when they are used."""
    with folder.open(name) as file, zipfile.ZipFile(file) as archive:
        yield Shard(archive)


def committed_shards(folder: Folder) -> list[Receipt]:
    """Return the receipts of the shards in a folder, in tree order, each tree once."""
    receipts = [read_receipt(folder, name) for name in folder.names() if name.startswith("trees-")]
    kept: list[Receipt] = []
    for receipt in sorted((r for r in receipts if r), key=lambda r: (r.first, -r.last)):
        if not kept or receipt.first > kept[-1].last:
            kept.append(receipt)
    return kept


def committed_parts(folder: Folder, n_trees: int, of: str) -> list[dict[str, np.ndarray]]:
    """Return the arrays of all shards in a folder, in tree order.

    Raises
    ------
    JobError
        The shards do not contain ``n_trees`` trees; the message names ``of``.
    """
    receipts, parts = committed_shards(folder), []
    if sum(receipt.n_trees for receipt in receipts) != n_trees:
        raise JobError(f"shards of {of} are damaged or were removed; run the job again")
    for receipt in receipts:
        with opened_shard(folder, receipt.shard) as shard:
            parts.append({name: shard[name] for name in receipt.rows})
    return parts


def committed_answer(folder: Folder, name: str, work: Callable[[], Any]) -> Any:
    """Return what an earlier run has committed beside its shards, as JSON; otherwise commit what ``work`` returns."""
    try:
        return json.loads(folder.read(name))
    except (OSError, ValueError):
        answer = work()
    folder.write(name, json.dumps(answer).encode())
    return answer


def grown_by(receipts: Sequence[Receipt]) -> list[dict[str, int | str]]:
    """Return each set of versions that grew trees, with the number of these trees; the largest number first."""
    n_trees: Counter[tuple[str, ...]] = Counter()
    for receipt in receipts:
        n_trees[tuple(getattr(receipt, name) for name in VERSIONS_HERE)] += receipt.n_trees
    most_first = sorted(n_trees.items(), key=lambda pair: (-pair[1], pair[0]))
    return [{"trees": count, **dict(zip(VERSIONS_HERE, numbers, strict=True))} for numbers, count in most_first]


def warning_about_versions(receipts: Sequence[Receipt]) -> str:
    """Return the warning about trees that were grown with different versions of libraries; empty for one version."""
    sets = grown_by(receipts)
    if len({tuple(row[name] for name in COMPUTING) for row in sets}) < 2:
        return ""
    parts = (f"{row['trees']:,} with " + ", ".join(f"{name} {row[name]}" for name in COMPUTING) for row in sets)
    return (
        f"the trees of this forest were not all grown with the same versions: {'; '.join(parts)}. Where these round "
        "differently, no run of one version gives its digest; to repeat it, install the same versions everywhere and "
        "grow it again (`run.overwrite`)"
    )
