"""Frames: the decoded size that a compressed chunk announces, read before anything is decoded.

::

    blosc    versions, flags, width | decoded bytes | block bytes | frame bytes  | ...
             4                        4               4             4
    zstd     magic | descriptor | window? | dictionary? | decoded bytes | blocks ... | checksum?
             4       1            0, 1      0, 1, 2, 4    1, 2, 4, 8                   0, 4
    block    last, kind, bytes | ...
             3

A chunk is one frame of Blosc, or one or more frames of Zstandard, all of which a decoder unpacks.
"""

from __future__ import annotations

BLOSC_HEAD = 16
"""Bytes at the start of a Blosc frame that announce its sizes."""

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_HAS_CHECKSUM = 4
_RUN, _COMPRESSED = 1, 2


def blosc_size(head: bytes, n_bytes: int) -> int | None:
    """The decoded size that the head of a frame of ``n_bytes`` announces; None if it announces another length.

    The decoder trusts the announced length, so with a larger one it would read beyond the end of the frame.

    Examples
    --------
    >>> head = bytes(4) + (800).to_bytes(4, "little") + bytes(4) + (120).to_bytes(4, "little")
    >>> blosc_size(head, 120), blosc_size(head, 119)
    (800, None)
    """
    if len(head) < BLOSC_HEAD or int.from_bytes(head[12:16], "little") != n_bytes:
        return None
    return int.from_bytes(head[4:8], "little")


def zstd_size(frames: bytes | memoryview) -> int | None:
    """The total decoded size that frames announce (RFC 8878, 3.1.1); None if one announces none or is cut off."""
    total, begin = 0, 0
    while begin < len(frames):
        size, blocks, has_checksum = _zstd_head(frames, begin)
        end = None if size is None else _zstd_end(frames, blocks)
        if size is None or end is None:
            return None
        total, begin = total + size, end + 4 * has_checksum
    return total if begin == len(frames) > 0 else None


def _zstd_head(frames: bytes | memoryview, begin: int) -> tuple[int | None, int, bool]:
    """The size that a frame announces, or None; where its blocks begin; whether it ends in a checksum.

    The size has 1, 2, 4 or 8 bytes and follows a descriptor byte, an optional window byte and an optional dictionary
    number.
    """
    if frames[begin : begin + 4] != _ZSTD_MAGIC or len(frames) < begin + 6:
        return None, begin, False
    descriptor = frames[begin + 4]
    flag, single, dictionary = descriptor >> 6, descriptor >> 5 & 1, (0, 1, 2, 4)[descriptor & 3]
    width = (single, 2, 4, 8)[flag]
    first = begin + 5 + (1 - single) + dictionary
    if not width or len(frames) < first + width:
        return None, begin, False
    size = int.from_bytes(frames[first : first + width], "little") + (256 if flag == 1 else 0)
    return size, first + width, bool(descriptor & _HAS_CHECKSUM)


def _zstd_end(frames: bytes | memoryview, begin: int) -> int | None:
    """Where the blocks that start at ``begin`` end; None if they are cut off or of an unknown kind."""
    while begin + 3 <= len(frames):
        head = int.from_bytes(frames[begin : begin + 3], "little")
        is_last, kind, size = head & 1, head >> 1 & 3, head >> 3
        if kind > _COMPRESSED:
            return None
        begin += 3 + (1 if kind == _RUN else size)
        if is_last:
            return begin
    return None
