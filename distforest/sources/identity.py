"""What a function and an object are, the same in every process: a ledger's keys, and the signature of its values."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def _bare(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def name_of(function: Any) -> str:
    """``module:qualname`` of a function, of a partial's innermost one, or of a callable object's class."""
    named = _bare(function)
    named = named if hasattr(named, "__qualname__") else type(named)
    return f"{getattr(named, '__module__', None) or 'builtins'}:{named.__qualname__}"


def signature(function: Callable[..., Any]) -> dict[str, str | None]:
    """What a function is, for a ledger to compare: its name, its package's version, a hash of its source.

    Examples
    --------
    >>> signature(np.linalg.norm)["function"]
    'numpy.linalg:norm'
    """
    bare = inspect.unwrap(_bare(function))
    try:
        text = inspect.getsource(bare if hasattr(bare, "__qualname__") else type(bare)).encode()
    except (OSError, TypeError):
        code = getattr(bare, "__code__", None)
        text = code.co_code + repr(code.co_names).encode() if code else name_of(function).encode()
    return {
        "function": name_of(function),
        "version": _version(name_of(function).split(":")[0].split(".")[0]),
        "sha256": hashlib.sha256(text).hexdigest(),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None


def keys_of(objects: Any) -> NDArray[np.int64]:
    """A key of each object's content, the same in every process, shape (n,).

    Parameters
    ----------
    objects
        Integers, which are their own keys; or strings, bytes, floats, arrays, and tuples or lists of these; or a
        matrix of numbers, whose rows are the objects.

    Raises
    ------
    InputError
        An object of another type.

    Examples
    --------
    >>> keys_of([3, 7])
    array([3, 7])
    >>> len(set(keys_of(["cat", "dog", "cat"]).tolist()))
    2
    """
    if isinstance(objects, np.ndarray) and objects.ndim == 1 and np.can_cast(objects.dtype, np.int64):
        if objects.dtype.kind in "iu":
            return objects.astype(np.int64)
    elif isinstance(objects, np.ndarray) and objects.ndim > 1 and objects.dtype.kind in "fiubc":
        rows = np.ascontiguousarray(objects)
        head = _head(rows[0]) if len(rows) else b""
        return np.array([_digest(head + row.tobytes()) for row in rows], np.int64)
    return np.array([_key(one) for one in objects], np.int64)


def _key(one: Any) -> int:
    if isinstance(one, (int, np.integer)) and not isinstance(one, bool) and -(1 << 63) <= int(one) < 1 << 63:
        return int(one)
    return _digest(_content(one))


def _digest(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)


def _head(array: np.ndarray) -> bytes:
    return f"a{array.dtype.str}{array.shape}:".encode()


def _content(one: Any) -> bytes:
    if isinstance(one, np.ndarray) and one.dtype.kind in "fiubcSU":
        return _head(one) + one.tobytes()
    if isinstance(one, (tuple, list)):
        return f"({len(one)}:".encode() + b"".join(_content(part) for part in one)
    if isinstance(one, (str, bytes)):
        raw = one.encode("utf-8", "surrogatepass") if isinstance(one, str) else one
        return f"{'s' if isinstance(one, str) else 'b'}{len(raw)}:".encode() + raw
    if isinstance(one, (bool, np.bool_)):
        return f"t{int(one)}".encode()
    if isinstance(one, (int, np.integer)):
        return f"i{int(one)};".encode()
    if isinstance(one, (float, np.floating)):
        return b"f" + np.float64(one).tobytes()
    raise InputError(
        f"an object must have a content to be remembered by: int, str, bytes, float, numeric array, or a tuple or list "
        f"of these; found {type(one).__name__}; pass integer ids instead, and the objects in Lazy(objects=...)"
    )
