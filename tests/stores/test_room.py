"""Room on disks: what is reserved is there, and what is full is told, with both numbers."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from distforest.errors import JobError
from distforest.stores import room
from distforest.stores.room import explaining_full_disk, reserve
from tests.messages import naming


def reserved(path: Path, n_bytes: int) -> bytes:
    """What a file holds, of which the first bytes were written and the others reserved."""
    with path.open("wb") as file:
        file.write(b"begin")
        reserve(file, n_bytes)
    return path.read_bytes()


@pytest.mark.parametrize("number", [None, errno.EOPNOTSUPP, errno.EINVAL])
def test_what_is_reserved_is_there_and_what_was_written_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int | None
) -> None:
    def cannot(*_: int) -> None:
        assert number is not None
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(room, "ZEROS", 7)
    wanted = b"begin" + bytes(95)
    assert reserved(tmp_path / "as_it_is", 100) == wanted
    if number is None:
        monkeypatch.delattr("os.posix_fallocate")  # as on macOS
    else:
        monkeypatch.setattr("os.posix_fallocate", cannot)
    assert reserved(tmp_path / "by_zeros", 100) == wanted


@pytest.mark.parametrize("by_zeros", [False, True])
def test_a_full_disk_is_reported_before_anything_is_mapped(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch, by_zeros: bool
) -> None:
    if by_zeros:
        monkeypatch.delattr("os.posix_fallocate")
    with (small_disk / "file").open("wb") as file, pytest.raises(OSError) as caught:
        reserve(file, 5 << 20)
    assert caught.value.errno == errno.ENOSPC


def test_an_error_that_is_no_lack_of_room_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr("os.posix_fallocate", broken)
    with pytest.raises(OSError, match="broken"):
        reserved(tmp_path / "file", 100)
    with pytest.raises(OSError, match=r"^\[Errno 5\] broken$"), explaining_full_disk(tmp_path, 100, "make room"):
        broken()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_what_is_full_is_reported_with_both_numbers(small_disk: Path, number: int) -> None:
    place = small_disk / "not" / "made" / "yet"
    told = naming(os.strerror(number), "5,000,000 bytes", place, os.uname().nodename, "4,194,304")
    with pytest.raises(OSError, match=told) as caught, explaining_full_disk(f"file://{place}", 5_000_000):
        raise OSError(number, os.strerror(number))
    assert caught.value.errno == number
    with pytest.raises(JobError, match=f"{told}.*; make room$"), explaining_full_disk(place, 5_000_000, "make room"):
        raise OSError(number, os.strerror(number))


def test_of_a_store_elsewhere_nothing_is_said_to_be_free() -> None:
    with (
        pytest.raises(OSError, match=r"7 bytes .*s3://bucket/jobs on \S+$"),
        explaining_full_disk("s3://bucket/jobs", 7),
    ):
        raise OSError(errno.ENOSPC, "full")
