"""Compiled kernels on disk: one folder for all checkouts and environments of a user.

A file is named by everything that its machine code depends on: the contents of the files that define the kernel and the
kernels that it calls, the types of the arguments, the processor, and the versions of Python, NumPy, Numba and LLVM. So
no file in the folder becomes stale, two versions of a kernel stand side by side, and only a change of a source compiles
anything again.

If several processes need the same kernel, one of them compiles it, and the others wait and load it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pickle
import sys
import time
import uuid
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

import llvmlite
import numba
import numpy as np
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps

from distforest.errors import DistforestWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numba.core.base import BaseContext
    from numba.core.codegen import Codegen
    from numba.core.types import Type

FOLDER = "DISTFOREST_KERNELS"
"""The environment variable that names the folder."""

OFF = "off"
"""The value of the variable with which no compiled kernel is kept."""

LARGEST_BYTES = 1 << 30
"""How large the folder may grow; the files that were used longest ago make room."""

LONGEST_WAIT = 30.0
"""Seconds that a process waits for another one that compiles the same kernel, before it compiles it itself."""

COMPILED_BY = (sys.implementation.cache_tag, np.__version__, numba.__version__, llvmlite.__version__)


def kernel_folder() -> Path | None:
    """Return the folder of the compiled kernels, or None if none are kept; the folder need not exist yet.

    ``DISTFOREST_KERNELS`` comes first, then Numba's own ``NUMBA_CACHE_DIR``, then the user's cache as the XDG base
    directory specification defines it.
    """
    if named := os.environ.get(FOLDER):
        return None if named == OFF else Path(named).absolute()
    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser(), "distforest", "kernels")


class KernelCache(_Cache):  # type: ignore[misc]  # of a package without types
    """The compiled versions of one kernel, as Numba asks for them: one file for each signature."""

    def __init__(self, folder: Path, dispatcher: Dispatcher) -> None:
        self._folder, self._dispatcher = folder, dispatcher

    @property
    def cache_path(self) -> str:
        """The folder."""
        return str(self._folder)

    def load_overload(self, signature: tuple[Type, ...], target: BaseContext) -> CompileResult | None:
        """Load the version for a signature; if it returns None, the caller compiles it and calls `save_overload`."""
        target.refresh()
        path = self._path(signature, target.codegen())
        found = _read(path, signature)
        if found is None and _lock(path):
            found = _read(path, signature)  # by the process that held the lock
            if found is not None:
                _unlock(path)
        return None if found is None else CompileResult._rebuild(target, *found)

    def save_overload(self, signature: tuple[Type, ...], compiled: CompileResult) -> None:
        """Save the version for a signature; if that fails, warn once, as the kernel works without."""
        path = self._path(signature, compiled.library.codegen)
        try:
            if not compiled.library.has_dynamic_globals:
                _write(path, dumps((signature, compiled._reduce())))
        except OSError as error:
            _warn_once(self._folder, error.strerror)
        finally:
            _unlock(path)

    def _path(self, signature: tuple[Type, ...], codegen: Codegen) -> Path:
        function = self._dispatcher.py_func
        cells = dumps(tuple(cell.cell_contents for cell in function.__closure__ or ()))
        key = (stamp_of(self._dispatcher), str(signature), codegen.magic_tuple(), hashlib.sha256(cells).digest())
        return self._folder / f"{function.__qualname__}-{hashlib.sha256(repr(key).encode()).hexdigest()[:40]}.kernel"

    def enable(self) -> None:
        """Do nothing: Numba asks only for a cache that is enabled."""

    def disable(self) -> None:
        """Do nothing; see `enable`."""

    def flush(self) -> None:
        """Do nothing: no file becomes stale."""


# --- what machine code depends on ---------------------------------------------------------------------------


@cache
def stamp_of(dispatcher: Any) -> str:
    """Hash everything that the machine code of a kernel depends on, but the types of its arguments and the processor.

    These are the contents of the files of the kernel and of all kernels that it calls, as they were when they were
    imported, the options of the compiler, the constants that the kernels read, which other files may define, and the
    versions of what compiles.
    """
    made_of, waiting = set[object](COMPILED_BY), [dispatcher]
    while waiting:
        one = waiting.pop()
        options = tuple(sorted(map(repr, one.targetoptions.items())))
        code = one.py_func.__code__
        own = (one.py_func.__module__, one.py_func.__qualname__, code.co_firstlineno, code.co_code, options)
        if own in made_of:
            continue
        made_of |= {own, one.source_stamp}
        for name, value in _globals_of(code, one.py_func.__globals__):
            if isinstance(value, Dispatcher):
                waiting.append(value)
            elif hasattr(value, "source_stamp"):
                made_of.add((own[0], name, value.source_stamp))
            elif isinstance(value, (bool, int, float, str, tuple, np.generic)):
                made_of.add((own[0], name, repr(value)))
            elif hasattr(value, "_fields"):
                made_of.add((own[0], name, value._fields))
    return hashlib.sha256("\n".join(sorted(map(repr, made_of))).encode()).hexdigest()


def _globals_of(code: CodeType, names: dict[str, object]) -> Iterator[tuple[str, object]]:
    """The names of its module that a function reads, and what they stand for."""
    yield from ((name, names[name]) for name in code.co_names if name in names)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals_of(inner, names)


def source_stamp(function: Callable[..., object]) -> str:
    """Hash the file that defines a function, or the archive that holds the file; its code if there is neither."""
    path = Path(function.__code__.co_filename)
    file = next((one for one in (path, *path.parents) if one.is_file()), None)
    if file is None:
        return hashlib.sha256(function.__code__.co_code).hexdigest()
    found = file.stat()
    return _sha256(file, found.st_mtime_ns, found.st_size)


@cache
def _sha256(file: Path, _mtime_ns: int, _size: int) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


# --- the files ------------------------------------------------------------------------------------------------


def _read(path: Path, signature: tuple[Type, ...]) -> Any:
    """What `_write` wrote; None if there is no such file, if it is damaged, or if its types only look the same."""
    try:
        found, reduced = pickle.loads(path.read_bytes())  # noqa: S301  (the user's own folder)
        os.utime(path)
    except Exception:  # noqa: BLE001  (a damaged pickle may raise anything; the kernel is compiled again)
        return None
    return reduced if found == signature else None


def _write(path: Path, data: bytes) -> None:
    """Write a file, which appears as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _make_room(path.parent)
    part = path.with_suffix(f".{uuid.uuid4().hex}")
    try:
        part.write_bytes(data)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


@cache
def _make_room(folder: Path) -> None:
    """Remove the files that were used longest ago, once in a process, until the others take `LARGEST_BYTES`."""
    with suppress(OSError):  # other processes remove files, too
        files = sorted(((own.stat(), own.path) for own in os.scandir(folder)), key=lambda own: own[0].st_mtime)
        excess = sum(found.st_size for found, _ in files) - LARGEST_BYTES
        for found, path in files:
            if excess <= 0:
                break
            os.unlink(path)
            excess -= found.st_size


@cache
def _warn_once(folder: Path, why: str) -> None:
    text = f"{why}: compiled kernels cannot be kept in {folder}, so each process compiles them again; make room there"
    warnings.warn(f"{text}, or name another folder ({FOLDER})", DistforestWarning, stacklevel=2)


# --- one process compiles, others wait -------------------------------------------------------------------------


def _lock(path: Path) -> bool:
    """Lock the file of a kernel, waiting at most `LONGEST_WAIT`; False if it is not locked.

    The lock is one byte of a file beside it, chosen by its name. The system unlocks it when the process ends.
    """
    ended = time.monotonic() + LONGEST_WAIT
    with suppress(OSError):  # of a file system without locks, a full disk, or a folder that cannot be written
        while time.monotonic() < ended:
            try:
                fcntl.lockf(_lock_file(path.parent), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(path))
            except BlockingIOError:
                time.sleep(0.02)
            else:
                return True
    return False


def _unlock(path: Path) -> None:
    with suppress(OSError):
        fcntl.lockf(_lock_file(path.parent), fcntl.LOCK_UN, 1, _byte(path))


@cache
def _lock_file(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)


def _byte(path: Path) -> int:
    return int(hashlib.sha256(path.name.encode()).hexdigest()[:12], 16)
