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
import marshal
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
from numba import config
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
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
"""How large the folder may be when a process first saves a kernel; the files that were used longest ago make room."""

LONGEST_WAIT = 30.0
"""Seconds that a process waits for another one that compiles the same kernel, before it compiles it itself."""


def kernel_folder() -> Path | None:
    """Return the folder of the compiled kernels, or None if none are kept; the folder need not exist yet.

    ``DISTFOREST_KERNELS`` comes first, then Numba's own ``NUMBA_CACHE_DIR``, then the user's cache as the XDG base
    directory specification defines it. A user without a home has none.
    """
    if named := os.environ.get(FOLDER):
        return None if named == OFF else Path(named).absolute()
    if config.CACHE_DIR:
        return Path(config.CACHE_DIR).absolute()
    cache_home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    home = cache_home if cache_home.is_absolute() else Path(os.path.expanduser("~"), ".cache")
    return home / "distforest" / "kernels" if home.is_absolute() else None


class KernelCache(_Cache):  # type: ignore[misc]  # of a package without types
    """The compiled versions of one kernel, as Numba asks for them: one file for each signature."""

    def __init__(self, folder: Path, dispatcher: Any) -> None:
        self._folder, self._dispatcher = folder, dispatcher
        self._numba_compile = dispatcher.compile
        dispatcher.compile = self._compile

    @property
    def cache_path(self) -> str:
        """The folder."""
        return str(self._folder)

    def _compile(self, signature: tuple[Type, ...]) -> object:
        """Compile a version or load it, while no other process compiles it."""
        path = self._path(signature, self._dispatcher.targetctx.codegen())
        with global_compiler_lock:  # which Numba takes first, too
            is_locked = not os.path.exists(path) and _lock(path)
            try:
                return self._numba_compile(signature)
            finally:
                if is_locked:
                    _unlock(path)

    def load_overload(self, signature: tuple[Type, ...], target: BaseContext) -> CompileResult | None:
        """Load the version for a signature; None if it must be compiled."""
        target.refresh()
        found = _read(self._path(signature, target.codegen()), signature)
        return None if found is None else CompileResult._rebuild(target, *found)

    def save_overload(self, signature: tuple[Type, ...], compiled: CompileResult) -> None:
        """Save the version for a signature; if that fails, warn once, as the kernel works without."""
        if compiled.library.has_dynamic_globals:
            return
        try:
            path = self._path(signature, compiled.library.codegen)
            _write(path, dumps((signature, compiled._reduce())))
        except OSError as error:
            _warn_once(self._folder, error.strerror)

    def _path(self, signature: tuple[Type, ...], codegen: Codegen) -> Path:
        types = str(signature)
        key = (stamp_of(self._dispatcher, types), types, codegen.magic_tuple())
        name = self._dispatcher.py_func.__qualname__
        return self._folder / f"{name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:40]}.kernel"

    def enable(self) -> None:
        """Do nothing: Numba asks only for a cache that is enabled."""

    def disable(self) -> None:
        """Do nothing; see `enable`."""

    def flush(self) -> None:
        """Do nothing: no file becomes stale."""


# --- what machine code depends on ---------------------------------------------------------------------------


@cache
def stamp_of(dispatcher: Any, types: str = "") -> str:
    """Hash everything that the machine code of a kernel depends on, but the types of its arguments and the processor.

    These are the contents of the files of the kernel and of all kernels that it calls, as they were when they were
    imported, the options of the compiler, the constants that the kernels read, which other files may define, and the
    versions of what compiles. Of a function of kinds (`distforest.jit.dispatched`) they are the implementations in its
    own file, and those elsewhere for the kinds that ``types`` names, the types of the arguments: which others there are
    depends on what was imported.
    """
    versions = (sys.implementation.cache_tag, np.__version__, numba.__version__, llvmlite.__version__)
    options = (config.OPT, config.BOUNDSCHECK, config.DEBUGINFO_DEFAULT, config.LOOP_VECTORIZE, config.SLP_VECTORIZE)
    made_of: set[object] = {*versions, str(options), f"SVML: {config.USING_SVML}"}
    waiting = [dispatcher]
    while waiting:
        one = waiting.pop()
        function = getattr(one, "py_func", one)
        target_options = tuple(sorted(map(repr, getattr(one, "targetoptions", {}).items())))
        code = function.__code__
        own = (function.__module__, function.__qualname__, code.co_firstlineno, code.co_code, target_options)
        if own in made_of:
            continue
        made_of |= {own, one.source_stamp}
        for name, value in _globals_of(code, function.__globals__):
            if isinstance(value, Dispatcher):
                waiting.append(value)
            elif hasattr(value, "implementations"):
                made_of.add((own[0], name, repr(getattr(value, "options", None))))
                each = value.implementations.items()
                waiting += [made for kind, made in each if _is_used(kind, made, value, types)]
            elif hasattr(value, "source_stamp"):
                made_of.add((own[0], name, value.source_stamp))
            elif isinstance(value, (bool, int, float, str, tuple, np.generic)):
                made_of.add((own[0], name, repr(value)))
            elif hasattr(value, "_fields"):
                made_of.add((own[0], name, value._fields))
    return hashlib.sha256("\n".join(sorted(map(repr, made_of))).encode()).hexdigest()


def _is_used(kind: type, made: Callable[..., object], of_kinds: object, types: str) -> bool:
    return made.__module__ == of_kinds.__module__ or f"{kind.__name__}(" in types


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
        return hashlib.sha256(marshal.dumps(function.__code__)).hexdigest()
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
    except Exception:  # noqa: BLE001  (a damaged pickle may raise anything; the kernel is compiled again)
        return None
    with suppress(OSError):  # others may read the folder and not write to it
        os.utime(path)
    return reduced if found == signature else None


def _write(path: Path, data: bytes) -> None:
    """Write a file, which appears as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _make_room(path.parent)
    part = path.with_name(f"{uuid.uuid4().hex}.part")
    try:
        part.write_bytes(data)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


@cache
def _make_room(folder: Path) -> None:
    """Remove the kernels that were used longest ago, once in a process, until the others take `LARGEST_BYTES`."""
    files = []
    for path in (*folder.glob("*.kernel"), *folder.glob("*.part")):
        with suppress(OSError):  # other processes remove files, too
            files.append((path.stat(), path))
    excess = sum(found.st_size for found, _ in files) - LARGEST_BYTES
    for found, path in sorted(files, key=lambda file: file[0].st_mtime):
        if excess <= 0:
            break
        path.unlink(missing_ok=True)
        excess -= found.st_size


@cache
def _warn_once(folder: Path, why: str) -> None:
    text = f"{why}: compiled kernels cannot be kept in {folder}, so each process compiles them again"
    warnings.warn(f"{text}; name another folder ({FOLDER}), or make room there", DistforestWarning, stacklevel=2)


# --- one process compiles, others wait -------------------------------------------------------------------------


def _lock(path: Path) -> bool:
    """Lock the file of a kernel, waiting at most `LONGEST_WAIT`; False if it is not locked.

    The lock is one byte of a file beside it, chosen by its name. The system unlocks it when the process ends.
    """
    if _warn_once.cache_info().currsize:  # nobody could load what this process compiles
        return False
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
