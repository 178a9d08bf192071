"""Frames: what a compressed chunk announces of itself, read before anything is decoded.

::

    blosc    versions, flags, width | decoded bytes | block bytes | frame bytes  | ...           | crc32c
             4                        4               4             4              ...             4
    zstd     magic | descriptor | window? | dictionary? | decoded bytes          | ...           | crc32c
             4       1            0, 1      0, 1, 2, 4    1, 2, 4, 8               ...             4

Forests are written with Blosc, and were with Zstandard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD_BYTES = 18
"""Bytes in which a frame has announced its size."""
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_BLOSC_HEAD, _CHECKSUM = 16, 4


def blosc_size(head: bytes, n_stored: int) -> int | None:
    """The decoded size that a Blosc frame announces; None if its own size is not what is stored before the checksum.

    The decoder takes the frame's word for where it ends, so a larger one would have it read what lies behind.
    """
    if len(head) < _BLOSC_HEAD or int.from_bytes(head[12:16], "little") != n_stored - _CHECKSUM:
        return None
    return int.from_bytes(head[4:8], "little")


def zstd_size(head: bytes, _n_stored: int) -> int | None:
    """The decoded size that a Zstandard frame announces in its first 18 bytes (RFC 8878, 3.1.1.1); None if it does not.

    A frame announces it in 1, 2, 4 or 8 bytes, after one descriptor byte, an optional window byte and an optional
    dictionary number.
    """
    if len(head) < 6 or head[:4] != _ZSTD_MAGIC:
        return None
    flag, single, dictionary = head[4] >> 6, head[4] >> 5 & 1, (0, 1, 2, 4)[head[4] & 3]
    width = (single, 2, 4, 8)[flag]
    first = 5 + (1 - single) + dictionary
    if not width or len(head) < first + width:
        return None
    return int.from_bytes(head[first : first + width], "little") + (256 if flag == 1 else 0)


ANNOUNCED: dict[tuple[str, ...], Callable[[bytes, int], int | None]] = {
    ("bytes", "blosc", "crc32c"): blosc_size,
    ("bytes", "zstd", "crc32c"): zstd_size,
}
"""By the codecs of an array: the decoded size of a chunk, from its head and the bytes that are stored."""
