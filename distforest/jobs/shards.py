"""Shards: the trees of one task in one file, written in one step under a name that says which trees it holds."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import asdict, dataclass

import numpy as np

from distforest.forest.forest import canonical
from distforest.jobs.folder import Folder


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
    return np.load(io.BytesIO(folder.read(name)), allow_pickle=False)


def committed_shards(folder: Folder) -> list[Receipt]:
    """The receipts of the shards in a folder, in tree order, each tree once."""
    found = [read_receipt(folder, name) for name in folder.names() if name.startswith("trees-")]
    kept: list[Receipt] = []
    for receipt in sorted((r for r in found if r), key=lambda r: (r.first, -r.last)):
        if not kept or receipt.first > kept[-1].last:
            kept.append(receipt)
    return kept
