"""What a function and an object are, the same in every process: a ledger's keys, and the signature of its values."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.metadata
import inspect
import operator
from types import ModuleType, NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.errors import InputError
from distforest.sources.readings import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray


ENTRY_POINTS = "distforest.similarity"
"""The group in which packages announce similarity functions by name."""


def _layers(function: Any) -> list[Any]:
    """A function and, ever further within, what its partials and wrappers hold."""
    found = [function]
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            return found
        found.append(function)


def name_of(function: Any) -> str:
    """``module:qualname`` of a function, of a partial's innermost one, or of a callable object's class.

    Of a wrapper's layers the outermost one tells: it has the public name.
    """
    layers = _layers(function)
    named = type(layers[-1])
    for layer in reversed(layers):
        if isinstance(layer, functools.partial):  # a wrapper of a partial finds no name to take over
            break
        named = layer if hasattr(layer, "__qualname__") else named
    return f"{getattr(named, '__module__', None) or 'builtins'}:{named.__qualname__}"


def resolve(name: str) -> Callable[..., Any]:
    """Import the function that a name stands for.

    Parameters
    ----------
    name
        ``"module:function"``, or the name of an entry point of the group ``distforest.similarity``.

    Raises
    ------
    InputError
        There is no such module, function or entry point, or it cannot be called.

    Examples
    --------
    >>> resolve("math:dist").__name__
    'dist'
    """
    points = importlib.metadata.entry_points(group=ENTRY_POINTS, name=name)
    try:
        if points:
            found = next(iter(points)).load()
        else:
            module, _, path = name.partition(":")
            found = operator.attrgetter(path)(importlib.import_module(module))
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        wanted = f"'module:function' that can be imported, or an entry point of the group {ENTRY_POINTS!r}"
        raise InputError(f"a similarity is {wanted}; found {name!r} ({error})") from error
    if not callable(found):
        raise InputError(f"a similarity is a function; {name!r} is a {type(found).__name__}")
    function: Callable[..., Any] = found
    return function


def signature(function: Callable[..., Any]) -> dict[str, str | None]:
    """What a function is, for a ledger to compare.

    Returns
    -------
    dict
        ``function``, its name; ``version``, its package's, None if it has none; ``sha256`` of its source and of what
        partials bind, the same in every process.

    Raises
    ------
    InputError
        A partial binds a value that has no content to compare.

    Examples
    --------
    >>> signature(np.linalg.norm)["function"]
    'numpy.linalg:norm'
    >>> one, two = (signature(functools.partial(np.linalg.norm, ord=order)) for order in (1, 2))
    >>> one["sha256"] == two["sha256"]
    False
    """
    name, layers = name_of(function), _layers(function)
    bare = layers[-1]
    try:
        text = inspect.getsource(bare if hasattr(bare, "__qualname__") else type(bare)).encode()
    except (OSError, TypeError):
        code = getattr(bare, "__code__", None)
        text = code.co_code + repr(code.co_names).encode() if code else name.encode()
    bound = [(layer.args, layer.keywords) for layer in layers if isinstance(layer, functools.partial)]
    arguments = b"".join(_argument(part, name) for part in bound)
    return {
        "function": name,
        "version": _version(name.split(":")[0].split(".")[0]),
        "sha256": hashlib.sha256(text + arguments).hexdigest(),
    }


def _argument(one: Any, name: str) -> bytes:
    """What a partial binds, as bytes: contents as `_content` has them, and None, dicts and functions besides."""
    if one is None:
        return b"n"
    if isinstance(one, (tuple, list)):
        return f"({len(one)}:".encode() + b"".join(_argument(part, name) for part in one)
    if isinstance(one, dict):
        items = sorted(_argument(key, name) + _argument(value, name) for key, value in one.items())
        return f"d{len(one)}:".encode() + b"".join(items)
    bare = _layers(one)[-1]
    if hasattr(bare, "__qualname__") and isinstance(getattr(bare, "__self__", None), (NoneType, ModuleType, type)):
        return _argument(tuple(signature(one).values()), name)  # a function; methods and callable objects hold a state
    try:
        return _content(one)
    except InputError:
        raise InputError(
            f"what a partial of {name} binds must be the same in every process: None, int, str, bytes, float, numeric "
            f"array, function, or a tuple, list or dict of these; found {type(one).__name__}; "
            "write a function that makes it, or holds it as a global"
        ) from None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(_distributions().get(package, [package])[0])
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None


@functools.cache  # every package's metadata is read for it
def _distributions() -> Mapping[str, list[str]]:
    """The distributions that bring each importable package: scikit-learn brings sklearn."""
    return importlib.metadata.packages_distributions()


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
    elif isinstance(objects, np.ndarray) and objects.ndim > 1 and objects.dtype.kind in NUMBERS + "c":
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
    if isinstance(one, np.ndarray) and one.dtype.kind in NUMBERS + "cSU":
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
