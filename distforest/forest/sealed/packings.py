"""How the arrays of a forest are packed on disk: their exact Zarr metadata, and the size that a chunk announces.

Any other metadata are refused, because Zarr would follow them, for example to other files or codecs.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.sources.frames import BLOSC_HEAD, blosc_size, zstd_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from distforest.forest.forest import ArrayEntry

CHECKSUM = 4
"""Number of bytes of the checksum (crc32c) after each frame."""


@dataclass(frozen=True)
class Packing:
    """A codec, and how the decoded size of a chunk is read from its first bytes.

    Attributes
    ----------
    codec
        Name of the codec.
    configuration
        The codec's configuration, for values of so many bytes.
    head
        Number of first bytes of a chunk that are needed for its decoded size.
    announced
        The decoded size, from these bytes and the length of the frame; None if the frame is not valid.
    """

    codec: str
    configuration: Callable[[int], dict[str, object]]
    head: int
    announced: Callable[[bytes, int], int | None]

    def size(self, head: bytes, n_stored: int) -> int | None:
        """The decoded size of a chunk of ``n_stored`` bytes that begins with ``head``; None if it is not valid."""
        return self.announced(head, n_stored - CHECKSUM)

    def metadata(self, entry: ArrayEntry) -> dict[str, object]:
        """The Zarr metadata of an array, from its entry in the manifest."""
        width, row = np.dtype(entry["dtype"]).itemsize, [max(1, size) for size in entry["shape"][1:]]
        chunk = {"chunk_shape": [entry["chunk_rows"], *row]}
        order = {"configuration": {"endian": "little"}} if width > 1 else {}
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": entry["shape"],
            "data_type": entry["dtype"],
            "chunk_grid": {"name": "regular", "configuration": chunk},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": np.zeros((), entry["dtype"]).item(),
            "codecs": [
                {"name": "bytes", **order},
                {"name": self.codec, "configuration": self.configuration(width)},
                {"name": "crc32c"},
            ],
        }


def _of_blosc(width: int) -> dict[str, object]:
    return {"typesize": width, "cname": "lz4", "clevel": 1, "shuffle": "bitshuffle", "blocksize": 0}


def _of_zstd(_width: int) -> dict[str, object]:
    return {"level": 1, "checksum": False}


def _zstd_size(chunk: bytes, n_bytes: int) -> int | None:
    return zstd_size(chunk[:n_bytes])


PACKINGS = (
    Packing("blosc", _of_blosc, BLOSC_HEAD, blosc_size),
    Packing("zstd", _of_zstd, sys.maxsize, _zstd_size),
)
"""The current packing of forests, and the first one."""


def without_empty(node: object) -> object:
    """JSON without keys whose value is empty or null, which some versions of Zarr write and others leave out.

    Examples
    --------
    >>> without_empty({"name": "crc32c", "configuration": {}, "attributes": {"a": None}})
    {'name': 'crc32c'}
    """
    if not isinstance(node, dict):
        return [without_empty(value) for value in node] if isinstance(node, list) else node
    kept = {key: without_empty(value) for key, value in node.items()}
    return {key: value for key, value in kept.items() if value is not None and value not in ({}, [])}
