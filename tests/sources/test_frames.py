"""What frames announce, against what their decoders make of them."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numcodecs import Blosc, Zstd

from distforest.sources.frames import BLOSC_HEAD, blosc_size, zstd_size

SIZES = [1, 255, 256, 65_791, 65_792, 300_000]


def contents(size: int) -> dict[str, bytes]:
    """Of one byte, of noise, and of a pattern: blocks of all three kinds."""
    noise = np.random.default_rng(0).bytes(size)
    return {"a run": bytes(size), "noise": noise, "a pattern": (b"abcdefg" * (size // 7 + 1))[:size]}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("has_checksum", [False, True])
def test_zstandard_announces_what_it_decodes_to(size: int, has_checksum: bool) -> None:
    for content in contents(size).values():
        frame = bytes(Zstd(1, checksum=has_checksum).encode(content))
        assert zstd_size(frame) == size == len(Zstd().decode(frame))


def test_frames_of_zstandard_are_added_up() -> None:
    frames = [bytes(Zstd(1, checksum=one).encode(bytes(size))) for size, one in ((1000, True), (70_000, False))]
    assert zstd_size(b"".join(frames)) == 71_000


@pytest.mark.parametrize("content", contents(5000).values())
def test_frames_that_are_not_whole_announce_nothing(content: bytes) -> None:
    frame = bytes(Zstd(1).encode(content))
    for length in range(len(frame)):
        assert zstd_size(frame[:length]) is None
    assert zstd_size(frame + b"x") is None


@given(st.binary(max_size=64), st.booleans())
def test_whatever_bytes_announce_they_are_read_to_their_end(tail: bytes, is_frame: bool) -> None:
    zstd_size((b"\x28\xb5\x2f\xfd" if is_frame else b"") + tail)
    blosc_size(tail[:BLOSC_HEAD], len(tail))


@pytest.mark.parametrize("size", SIZES)
def test_blosc_announces_what_it_decodes_to_if_its_length_is_true(size: int) -> None:
    for content in contents(size).values():
        frame = bytes(Blosc("lz4", 1).encode(content))
        assert blosc_size(frame[:BLOSC_HEAD], len(frame)) == size
        assert struct.unpack_from("<I", frame, 12) == (len(frame),)
        for length in (len(frame) - 1, len(frame) + 1):
            assert blosc_size(frame[:BLOSC_HEAD], length) is None
