"""Shards: the trees of one task in one file, written in one step under a name that says which trees it holds."""

from __future__ import annotations

import io
import json
import resource
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from distforest.forest.forest import canonical
from distforest.forest.table import n_roots_of
from distforest.growth.methods import GROWTH
from distforest.jobs.versions import COMPUTING, VERSIONS_HERE
from distforest.sources.files.npz import header_of
from distforest.stores.folder import Folder

SHARD_ERRORS = (OSError, EOFError, ValueError, KeyError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""What reading a damaged shard can raise; a flipped bit may announce encryption or compression."""


@dataclass(frozen=True)
class Receipt:
    """What a growing task answers: which trees, in which shard, how large, how long, how much memory.

    ``rows`` is the length of each array of the shard; ``evaluations`` and ``closed`` are what its similarities cost:
    pairs, and nodes that were left without a cut once the budget was spent; ``growth`` is the version of the growth,
    1 where a version before there were such numbers has grown the trees; ``n_roots`` counts trees without a cut;
    ``distforest``, ``numpy`` and ``numba`` are those of the process that has grown them.
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
    distforest: str = "unknown"
    numpy: str = "unknown"
    numba: str = "unknown"

    @property
    def n_trees(self) -> int:
        """Trees in the shard."""
        return self.last - self.first + 1


def peak_bytes() -> int:
    """The most memory that this process has held.

    Linux tells it of the process itself; ``getrusage`` also counts what the process was forked from.
    """
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024  # macOS tells bytes, Linux KiB
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def shard_name(first: int, last: int) -> str:
    """The name of the shard with these trees."""
    return f"trees-{first:07d}-{last:07d}.npz"


def packed(arrays: dict[str, np.ndarray], receipt: Receipt) -> memoryview:
    """A shard: the arrays of the trees and the receipt, as one .npz without pickle."""
    buffer = io.BytesIO()
    text = np.frombuffer(canonical(asdict(receipt)), np.uint8)
    np.savez(buffer, allow_pickle=False, receipt=text, **arrays)
    return buffer.getbuffer()


def commit(folder: Folder, arrays: dict[str, np.ndarray], receipt: Receipt) -> Receipt:
    """Write a shard in one step; its receipt, complete with what this process and the arrays say.

    It is soon merged, and is not waited for until it is on disk: one that is damaged is known by its checksums, and
    its trees grow again.
    """
    rows = {name: len(array) for name, array in arrays.items()}
    own = {"rows": rows, "peak_bytes": peak_bytes(), "growth": GROWTH, "n_roots": n_roots_of(arrays["tree_size"])}
    receipt = Receipt(**{**asdict(receipt), **own, **VERSIONS_HERE})
    folder.write(receipt.shard, packed(arrays, receipt), lasting=False)
    return receipt


@dataclass(frozen=True)
class Shard:
    """An opened shard. An array is read at once: `numpy.load` goes piece by piece, which takes three times as long."""

    archive: zipfile.ZipFile

    def __getitem__(self, name: str) -> np.ndarray:
        raw = self.archive.read(f"{name}.npy")
        stream = io.BytesIO(raw)
        shape, in_columns, dtype = header_of(stream)
        return np.frombuffer(raw, dtype, offset=stream.tell()).reshape(shape, order="F" if in_columns else "C")


def read_receipt(folder: Folder, name: str) -> Receipt | None:
    """The receipt of a committed shard; None where it is missing, damaged, or of another version of the growth."""
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
    """A shard; its arrays are read when they are asked for."""
    with folder.open(name) as file, zipfile.ZipFile(file) as archive:
        yield Shard(archive)


def committed_shards(folder: Folder) -> list[Receipt]:
    """The receipts of the shards in a folder, in tree order, each tree once."""
    found = [read_receipt(folder, name) for name in folder.names() if name.startswith("trees-")]
    kept: list[Receipt] = []
    for receipt in sorted((r for r in found if r), key=lambda r: (r.first, -r.last)):
        if not kept or receipt.first > kept[-1].last:
            kept.append(receipt)
    return kept


def grown_by(receipts: Sequence[Receipt]) -> list[dict[str, Any]]:
    """Each set of versions that has grown trees, with how many, the most first."""
    n_trees: Counter[tuple[str, ...]] = Counter()
    for receipt in receipts:
        n_trees[tuple(getattr(receipt, name) for name in VERSIONS_HERE)] += receipt.n_trees
    most_first = sorted(n_trees.items(), key=lambda own: (-own[1], own[0]))
    return [{"trees": count, **dict(zip(VERSIONS_HERE, found, strict=True))} for found, count in most_first]


def told_of_versions(receipts: Sequence[Receipt]) -> str:
    """What is to be said where trees were worked out by different versions; else nothing."""
    found = grown_by(receipts)
    if len({tuple(own[name] for name in COMPUTING) for own in found}) < 2:
        return ""
    parts = (f"{own['trees']:,} with " + ", ".join(f"{name} {own[name]}" for name in COMPUTING) for own in found)
    return (
        f"the trees of this forest were not all worked out by the same versions: {'; '.join(parts)}. Where these round "
        "differently, no run of one version gives its digest; to repeat it, install the same versions everywhere and "
        "grow it anew (`run.overwrite`)"
    )
