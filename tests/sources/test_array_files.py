"""Array files: what holds anything else is not opened, and what is touched while it is mapped is found out."""

from __future__ import annotations

import errno
import gc
import mmap
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from distforest.errors import DamageError, JobError
from distforest.sources import array_files
from distforest.sources.array_files import Mapped, Marks, array_digest, open_sound, untouched
from tests import samples
from tests.messages import naming

ARRAY = samples.features(300)
DIGEST = array_digest(ARRAY)


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is opened here is mapped, as large files are."""
    monkeypatch.setattr(array_files, "COPIED_BYTES", 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A sound file that nobody has touched for an hour: a file system tells times apart by some milliseconds."""
    file = tmp_path / "x.npy"
    np.save(file, ARRAY)
    os.utime(file, (file.stat().st_mtime - 3600,) * 2)
    return file


def opened(path: Path) -> Mapped:
    files: list[Mapped] = []
    array = open_sound(path, DIGEST, ARRAY.shape, ARRAY.dtype, files)
    [file] = files
    assert file.array is array
    return file


def is_opened(path: Path, digest: str = DIGEST, shape: tuple[int, ...] = ARRAY.shape, dtype: str = "f4") -> bool:
    files: list[Mapped] = []
    found = open_sound(path, digest, shape, np.dtype(dtype), files)
    assert len(files) == (found is not None and array_files.COPIED_BYTES == 0)
    return found is not None


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(2000)
        file.write(b"other bytes")


def overwrite_in_memory(path: Path) -> None:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as cells:
        cells[2000:2003] = b"abc"


def overwrite_and_hide(path: Path) -> None:
    before = path.stat().st_mtime
    overwrite(path)
    os.utime(path, (before, before))


def shorten(path: Path) -> None:
    os.truncate(path, 2000)


def empty(path: Path) -> None:
    path.write_bytes(b"")


DAMAGE = [overwrite, overwrite_in_memory, overwrite_and_hide, shorten, empty]


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_while_a_file_is_read_is_found_out(path: Path, damage: Callable[[Path], None]) -> None:
    file = opened(path)
    assert file.is_untouched
    with (
        pytest.raises(JobError, match=naming(path)),
        untouched([file]),
    ):
        damage(path)
    assert not file.is_untouched


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("copied", [0, 1 << 24])
def test_what_is_damaged_is_not_opened(
    path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None], copied: int
) -> None:
    monkeypatch.setattr(array_files, "COPIED_BYTES", copied)
    for _ in range(2):  # this process has found it sound, and then it has not
        assert is_opened(path)
        damage(path)
        assert not is_opened(path)
        np.save(path, ARRAY)


@pytest.mark.parametrize("content", [b"", b"no array", b"\x93NUMPY\x01\x00", b"\x93NUMPY\x01\x00\xff\xff{"])
def test_what_is_no_such_array_is_not_opened(path: Path, content: bytes) -> None:
    assert is_opened(path)
    assert not is_opened(path, shape=(300, 6))
    assert not is_opened(path, dtype="f8")
    assert not is_opened(path, digest="0" * 64)
    np.save(path, np.asfortranarray(ARRAY))
    assert not is_opened(path)
    path.write_bytes(content)
    assert not is_opened(path)
    path.unlink()
    assert not is_opened(path)


def test_every_flipped_bit_is_found(path: Path) -> None:
    sound = path.read_bytes()
    for place in [*range(140), *range(140, len(sound), 97)]:
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 4]) + sound[place + 1 :])
        assert not is_opened(path), place


def fail_over(path: Path) -> None:
    overwrite(path)
    raise ZeroDivisionError


def test_another_error_in_the_block_may_come_of_the_damage(path: Path) -> None:
    with pytest.raises(JobError, match=naming(path)) as caught, untouched([opened(path)]):
        fail_over(path)
    assert isinstance(caught.value.__context__, ZeroDivisionError)
    np.save(path, ARRAY)
    with pytest.raises(ZeroDivisionError), untouched([opened(path)]):
        raise ZeroDivisionError


def write_and_write_back(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(bytes(len(content)))
    path.write_bytes(content)


def test_what_was_written_and_written_back_is_tried_again(path: Path) -> None:
    file = opened(path)
    with pytest.raises(OSError, match=naming(path)), untouched([file]):
        write_and_write_back(path)
    with untouched([opened(path)]):
        pass


@pytest.mark.parametrize(
    "deed", [os.unlink, lambda path: os.chmod(path, 0o400), lambda path: os.link(path, f"{path}2")]
)
def test_what_leaves_the_content_alone_is_no_damage(path: Path, deed: Callable[[Path], None]) -> None:
    file = opened(path)
    with untouched([file]):
        deed(path)
    file.check_content()
    assert file.array.tobytes() == ARRAY.tobytes()


def test_damage_that_the_file_system_does_not_know_of_is_found_by_reading(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = opened(path)
    file.check_content()
    monkeypatch.setattr(Marks, "from_file", lambda _handle: file.marks)  # as if the disk itself had changed it
    overwrite(path)
    with untouched([file]):
        pass
    with pytest.raises(DamageError, match=naming(path)):
        file.check_content()


@pytest.mark.slow
def test_a_file_that_nobody_reads_any_more_is_closed(path: Path) -> None:
    file = opened(path)
    array, handle = file.array, file.handle
    assert os.fstat(handle).st_size == path.stat().st_size
    del file
    gc.collect()
    with pytest.raises(OSError) as caught:
        os.fstat(handle)
    assert caught.value.errno == errno.EBADF
    assert array.tobytes() == ARRAY.tobytes()
    assert array.flags.writeable is False


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_small_is_copied_and_stays_what_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(array_files, "COPIED_BYTES", ARRAY.nbytes)
    for _ in range(2):  # the second time it is known to be sound
        files: list[Mapped] = []
        found = open_sound(path, DIGEST, ARRAY.shape, ARRAY.dtype, files)
        assert found is not None
        assert (files, found.tobytes(), found.flags.writeable) == ([], ARRAY.tobytes(), False)
    damage(path)
    assert found.tobytes() == ARRAY.tobytes()
