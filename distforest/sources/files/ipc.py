"""What an Arrow file announces: the bytes to which its packed buffers unfold, read from the metadata of its batches.

Arrow allocates what a buffer's first eight bytes say before it unpacks it, so they are summed up first. The metadata of
a batch is a flatbuffer, see https://arrow.apache.org/docs/format/Columnar.html, with `Message.fbs` for the fields.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER, BODY_LENGTH = 2, 3
"""Fields of a message."""

BUFFERS, COMPRESSION = 2, 3
"""Fields of a record batch."""

BATCH_OF_DICTIONARY = 1
"""The field of a dictionary batch that holds a record batch."""


class _Flat:
    """A table in a flatbuffer."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        self._vtable = at - struct.unpack_from("<i", data, at)[0]
        self._size = struct.unpack_from("<H", data, self._vtable)[0]

    @classmethod
    def root(cls, data: bytes) -> _Flat:
        return cls(data, struct.unpack_from("<I", data, 0)[0])

    def _place(self, field: int) -> int:
        """Where a field is; 0 if it is absent."""
        slot = 4 + 2 * field
        offset = struct.unpack_from("<H", self.data, self._vtable + slot)[0] if slot < self._size else 0
        return self.at + offset if offset else 0

    def table(self, field: int) -> _Flat | None:
        place = self._place(field)
        return _Flat(self.data, place + struct.unpack_from("<I", self.data, place)[0]) if place else None

    def buffers(self, field: int) -> Iterator[tuple[int, int]]:
        """Offset and length of each buffer."""
        place = self._place(field)
        if place:
            start = place + struct.unpack_from("<I", self.data, place)[0]
            for number in range(struct.unpack_from("<I", self.data, start)[0]):
                yield struct.unpack_from("<qq", self.data, start + 4 + 16 * number)


def announced_bytes(path: str) -> int:
    """The bytes to which all batches of an Arrow file unfold; raises errors of Arrow or struct for a damaged file."""
    with pa.memory_map(path) as source:
        if source.read(6) == b"ARROW1":
            source.seek(8)  # what follows is a stream, up to its footer
        else:
            source.seek(0)
        n_bytes = 0
        while True:
            try:
                message = pa.ipc.read_message(source)
            except EOFError:
                return n_bytes
            if message.type in ("record batch", "dictionary"):
                n_bytes += _of_message(message)


def _of_message(message: pa.Message) -> int:
    batch = _Flat.root(message.metadata.to_pybytes()).table(HEADER)
    if batch is not None and message.type == "dictionary":
        batch = batch.table(BATCH_OF_DICTIONARY)
    if batch is None:
        return 0
    body, packed = memoryview(message.body), batch.table(COMPRESSION) is not None
    n_bytes = 0
    for offset, length in batch.buffers(BUFFERS):
        if packed and length >= 8:
            announced = struct.unpack_from("<q", body, offset)[0]
            n_bytes += length - 8 if announced < 0 else announced
        else:
            n_bytes += length
    return n_bytes
