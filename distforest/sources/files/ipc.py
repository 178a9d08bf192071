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

DICTIONARIES, BATCHES = 2, 3
"""Fields of the footer of a file."""

MAGIC = b"ARROW1"
"""With which a file begins and ends; a stream of batches does not."""

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

    def vector(self, field: int, form: str, size: int) -> Iterator[tuple[int, ...]]:
        """The structs in a vector, each of ``size`` bytes that begin as ``form`` says."""
        place = self._place(field)
        if place:
            start = place + struct.unpack_from("<I", self.data, place)[0]
            for number in range(struct.unpack_from("<I", self.data, start)[0]):
                yield struct.unpack_from(form, self.data, start + 4 + size * number)

    def buffers(self, field: int) -> Iterator[tuple[int, ...]]:
        """Offset and length of each buffer."""
        return self.vector(field, "<qq", 16)

    def blocks(self, field: int) -> Iterator[int]:
        """Where in the file each batch is."""
        return (offset for (offset,) in self.vector(field, "<q", 24))


def announced_bytes(path: str) -> int:
    """The bytes to which all batches of an Arrow file unfold; raises errors of Arrow or struct for a damaged file."""
    with pa.memory_map(path) as source:
        messages = _messages_of_file(source) if source.read(6) == MAGIC else _messages_of_stream(source)
        return sum(_of_message(message) for message in messages if message.type in ("record batch", "dictionary"))


def _messages_of_stream(source: pa.NativeFile) -> Iterator[pa.Message]:
    source.seek(0)
    while True:
        try:
            yield pa.ipc.read_message(source)
        except EOFError:
            return


def _messages_of_file(source: pa.NativeFile) -> Iterator[pa.Message]:
    """The batches that the footer lists; it is what readers of a file go by."""
    size = source.size()
    source.seek(size - 10)
    length = struct.unpack("<i", source.read(4))[0]
    if not 0 < length <= size - 10:
        raise ValueError("its footer has no size")
    source.seek(size - 10 - length)
    footer = _Flat.root(source.read(length))
    for offset in (*footer.blocks(DICTIONARIES), *footer.blocks(BATCHES)):
        source.seek(offset)
        yield pa.ipc.read_message(source)


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
