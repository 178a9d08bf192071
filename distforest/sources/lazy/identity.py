"""Functions and objects, recognised in every process: the keys of a ledger, and the signature of its values."""

from __future__ import annotations

import copyreg
import functools
import hashlib
import importlib
import importlib.metadata
import itertools
import operator
import struct
from pathlib import PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from distforest.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray


Items: TypeAlias = "Sequence[object] | NDArray[np.generic]"
"""Objects in an order: an array of rows, or a sequence of anything."""

UserFunction: TypeAlias = "Callable[..., Any]"
"""A function that a user has written; its results are checked before they are used."""

ENTRY_POINTS = "distforest.similarity"
"""The group of entry points by which packages announce similarity functions."""


def name_of(function: object) -> str:
    """``module:qualname`` of a function, of a partial's innermost one, or of a callable object's class.

    Of the layers of a wrapper the outermost one counts: it has the public name.
    """
    layers = [function]
    while inner := getattr(layers[-1], "func" if isinstance(layers[-1], functools.partial) else "__wrapped__", None):
        layers.append(inner)
    named: object = type(layers[-1])
    for layer in reversed(layers):
        if isinstance(layer, functools.partial):  # a wrapper of a partial finds no name to take over
            break
        named = layer if hasattr(layer, "__qualname__") else named
    return f"{getattr(named, '__module__', None) or 'builtins'}:{getattr(named, '__qualname__', '')}"


def resolve(name: str) -> UserFunction:
    """Import a function by its name.

    Parameters
    ----------
    name
        ``"module:function"``, or the name of an entry point of the group ``distforest.similarity``.

    Raises
    ------
    InputError
        There is no such module, function or entry point, its import fails, or it is not callable.

    Examples
    --------
    >>> resolve("math:dist").__name__
    'dist'
    """
    points = importlib.metadata.entry_points(group=ENTRY_POINTS, name=name)
    try:
        if points:
            function = next(iter(points)).load()
        else:
            module, _, path = name.partition(":")
            function = operator.attrgetter(path)(importlib.import_module(module))
    except (Exception, SystemExit) as error:  # an import may raise anything, and a script may exit
        wanted = f"'module:function' that can be imported, or an entry point of the group {ENTRY_POINTS!r}"
        raise InputError(f"a similarity is {wanted}; found {name!r} ({type(error).__name__}: {error})") from error
    if not callable(function):
        raise InputError(f"a similarity is a function; {name!r} is a {type(function).__name__}")
    return function


def signature(function: UserFunction, *, strict: bool = True) -> dict[str, str | None]:
    """The identity of a function, for a ledger to compare.

    Parameters
    ----------
    function
        A function, method, partial, wrapper or callable object. The state of an object is its pickled state; its
        ``__getstate__`` should leave out counts and caches that do not decide its values. Of the state of a decorator
        (with ``functools.wraps``) only immutable values count.
    strict
        Whether to refuse a state without comparable content; otherwise the name of its type stands for it.

    Returns
    -------
    dict
        ``function``: its name; ``version``: that of its package, None if it has none; ``sha256``: of its code, its
        defaults, its closure, the state of its object, and the arguments that partials bind. It is the same in every
        process of one version of Python. Globals are not read.

    Raises
    ------
    InputError
        The function holds a value without comparable content.

    Examples
    --------
    >>> signature(np.linalg.norm)["function"]
    'numpy.linalg:norm'
    >>> one, two = (signature(functools.partial(np.linalg.norm, ord=order)) for order in (1, 2))
    >>> one["sha256"] == two["sha256"]
    False
    """
    name = name_of(function)
    sha256 = hashlib.sha256(_Content(name, strict).read(function)).hexdigest()
    return {"function": name, "version": _version(name.partition(":")[0]), "sha256": sha256}


class _Content:
    """Reads code and state as bytes, without memory addresses and the order of sets and dicts."""

    def __init__(self, name: str, strict: bool) -> None:
        self._name, self._strict = name, strict
        self._open: list[object] = []  # the values being read, outermost first: a function may hold itself

    def read(self, one: object, is_fixed: bool = False) -> bytes:
        """The bytes of a value: its type and content; if ``is_fixed``, immutable content alone."""
        if isinstance(one, (str, bytes, int, float, complex, np.bool_, np.number)):
            return _content(one)
        if places := [place for place, other in enumerate(self._open) if other is one]:
            return f"r{places[0]};".encode()
        self._open.append(one)
        content = b"".join(self._parts(one, is_fixed))
        self._open.pop()
        return type(one).__qualname__.encode() + hashlib.sha256(content).digest()

    def _parts(self, one: object, is_fixed: bool) -> Iterable[bytes]:
        each = functools.partial(self.read, is_fixed=is_fixed)
        if one is None or one is Ellipsis:
            return ()
        if type(one) in (tuple, frozenset) or (type(one) in (list, dict, set) and not is_fixed):
            parts: Any = one.items() if isinstance(one, dict) else one
            return sorted(map(each, parts)) if isinstance(one, (dict, set, frozenset)) else map(each, parts)
        if isinstance(one, np.ndarray):
            return f"{one.dtype.str}{one.shape}".encode(), each(one.tolist()) if one.dtype.hasobject else one.tobytes()
        if isinstance(one, (ModuleType, PurePath)):
            return (str(one if isinstance(one, PurePath) else one.__name__).encode(),)
        if isinstance(one, CodeType):  # sources are no help: lambdas on one line share theirs, and `exec` leaves none
            names, consts = repr(one.co_names).encode(), map(self.read, one.co_consts)
            return one.co_code, one.co_exceptiontable, names, *consts
        if isinstance(one, FunctionType):
            inner = getattr(one, "__wrapped__", None)
            return (b"" if inner is None else self.read(inner), *self._function(one, is_fixed or inner is not None))
        if isinstance(one, type):
            return (name_of(one).encode(),) if is_fixed else self._class(one)  # methods refer to most of a library
        if isinstance(one, (MethodType, BuiltinFunctionType)):
            called = one.__func__ if isinstance(one, MethodType) else one.__qualname__
            return each(called), each(one.__self__)
        if isinstance(one, functools.partial):
            return each(one.func), each(one.args), each(one.keywords)
        if hasattr(one, "__wrapped__"):
            inner, kind = self.read(one.__wrapped__), type(one)
            is_python = isinstance(getattr(kind, "__call__", None), FunctionType)  # noqa: B004  (it may be inherited)
            if not is_python or kind.__module__.startswith("distforest."):  # an adapter, which changes no value
                return (inner,)
            copied = {*functools.WRAPPER_ASSIGNMENTS, "__wrapped__"}
            state = sorted((key, held) for key, held in vars(one).items() if key not in copied)
            return inner, self.read(kind), *(self.read(named, is_fixed=True) for named in state)
        return (name_of(type(one)).encode(),) if is_fixed else self._state(one)

    def _function(self, function: FunctionType, is_fixed: bool) -> Iterable[bytes]:
        """Code, defaults and closure of a function."""
        parts = [self.read(function.__code__)]
        parts += [self.read(held, is_fixed) for held in (function.__defaults__, function.__kwdefaults__)]
        for cell in function.__closure__ or ():
            try:
                held = cell.cell_contents
            except ValueError:  # not assigned yet
                held = ...
            parts.append(self.read(held, is_fixed))
        return parts

    def _class(self, kind: type) -> Iterable[bytes]:
        """Names of a class and its bases, the versions of their packages, and their methods and properties."""
        for one in kind.__mro__:
            yield f"{name_of(one)};{_version(one.__module__)};".encode()
            for name, member in sorted(vars(one).items()):
                held = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
                held = getattr(held, "__wrapped__", getattr(held, "func", held))
                if isinstance(held, FunctionType):  # those of a dataclass hold markers of their own
                    yield name.encode() + self.read(held, is_fixed=True)

    def _state(self, one: object) -> Iterable[bytes]:
        """The pickled state of an object."""
        reducer: Callable[[Any], Any] = copyreg.dispatch_table.get(type(one), lambda one: one.__reduce_ex__(2))
        try:
            reduced: Any = None if type(one) is object else reducer(one)
        except Exception:  # noqa: BLE001 - a class may refuse in any way
            reduced = None
        if isinstance(reduced, str):  # the name of a global
            return (reduced.encode(),)
        if reduced is None and self._strict:
            raise InputError(
                f"what {self._name} holds must have a content that is the same in every process: None, numbers, str, "
                "bytes, paths, arrays, functions, and tuples, lists, sets, dicts or picklable objects of these; "
                f"found {type(one).__name__}; write a plain function of a module that takes it from a global, "
                "or pass what it belongs to in Lazy(objects=...)"
            )
        if reduced is None:
            return (name_of(type(one)).encode(),)
        maker, args, state, items, pairs = itertools.islice(itertools.chain(reduced, [None] * 3), 5)
        held = (maker, args, state, list(items) if items else None, dict(pairs) if pairs else None)
        return self.read(type(one)), *map(self.read, held)


@functools.cache  # slow: reads the metadata of every package
def _distributions() -> Mapping[str, list[str]]:
    """The distributions of each importable package: scikit-learn of sklearn."""
    return importlib.metadata.packages_distributions()


@functools.cache
def _version(module: str) -> str | None:
    """The version of the package of a module; None if it has none."""
    package = module.partition(".")[0]
    try:
        return importlib.metadata.version(_distributions().get(package, [package])[0])
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None


def keys_of(objects: Items) -> NDArray[np.int64]:
    """A key of each object's content, the same in every process, shape (n,).

    Parameters
    ----------
    objects
        Integers, which are their own keys; strings, bytes, floats, arrays, and tuples or lists of these; or a matrix,
        whose rows are the objects. Arrays, tuples and lists have one key if their numbers or strings are equal, in any
        precision up to that of float64. Different numbers have different keys, and so do integers, floats and truth
        values.

    Raises
    ------
    InputError
        An object has another type.

    Examples
    --------
    >>> keys_of([3, 7])
    array([3, 7])
    >>> len(set(keys_of(["cat", "dog", "cat"]).tolist()))
    2
    """
    if isinstance(objects, np.ndarray) and _is_packable(objects):
        kind = objects.dtype.kind
        if kind in "iu" and objects.ndim == 1:
            return np.array(objects, np.int64)
        if objects.ndim == 2:
            head = _head(objects.shape[1], kind)
            return np.array([_digest(head + row.astype(_PACKED[kind]).tobytes()) for row in objects], np.int64)
    return np.array([_key(one) for one in objects], np.int64)


def _key(one: object) -> int:
    if isinstance(one, (int, np.integer)) and not isinstance(one, bool) and -(1 << 63) <= int(one) < 1 << 63:
        return int(one)
    return _digest(_content(one))


def _digest(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)


_PACKED = {"b": "|b1", "i": "<i8", "u": "<i8", "f": "<f8", "c": "<c16"}
"""The dtype in which the numbers of each kind are hashed."""


def _head(n: int, kind: str) -> bytes:
    return f"[{n}{_PACKED[kind]}:".encode()


def _is_packable(array: np.ndarray) -> bool:
    """Whether an array has numbers, and all of them fit the dtype in which their kind is hashed."""
    if not array.size or array.dtype.kind not in _PACKED:
        return False
    if array.dtype.kind in "biu":
        return array.dtype != np.uint64 or int(array.max()) < 1 << 63
    with np.errstate(over="ignore"):
        return bool(((array.astype(_PACKED[array.dtype.kind]) == array) | np.isnan(array)).all())


def _numbers(parts: Sequence[Any]) -> bytes | None:
    """The content of a list of numbers, which equals that of an array of them; None for another list."""
    kinds = {_kind(one) for one in set(map(type, parts))}
    if not kinds or not (kinds == {"b"} or kinds <= set("ifc")):
        return None
    kind = max(kinds, key="bifc".index)
    exact = [int(part) if isinstance(part, np.integer) else part for part in parts]  # NumPy would round them
    try:
        with np.errstate(over="ignore"):
            array = np.array(exact, _PACKED[kind])
    except OverflowError:
        return None
    if kind != "b" and any(one != packed and one == one for one, packed in zip(exact, array.tolist(), strict=True)):
        return None
    return _head(len(parts), kind) + array.tobytes()


def _kind(one: type) -> str:
    kinds = (("b", (bool, np.bool_)), ("i", (int, np.integer)), ("f", (float, np.floating)))
    found = [kind for kind, types in (*kinds, ("c", (complex, np.complexfloating))) if issubclass(one, types)]
    return found[0] if found else ""


def _content(one: object) -> bytes:
    if isinstance(one, np.ndarray) and one.dtype.kind in "biufcSUO":
        if one.ndim == 1 and _is_packable(one):
            return _head(len(one), one.dtype.kind) + one.astype(_PACKED[one.dtype.kind]).tobytes()
        return _content(list(one) if one.ndim > 1 else one.tolist())
    if isinstance(one, (tuple, list)):
        return _numbers(one) or f"({len(one)}:".encode() + b"".join(_content(part) for part in one)
    if isinstance(one, (str, bytes)):
        raw = one.encode("utf-8", "surrogatepass") if isinstance(one, str) else one
        return f"{'s' if isinstance(one, str) else 'b'}{len(raw)}:".encode() + raw
    if isinstance(one, (bool, np.bool_)):
        return f"t{int(one)}".encode()
    if isinstance(one, (int, np.integer)):
        return f"i{int(one)};".encode()
    if isinstance(one, (float, complex, np.floating, np.complexfloating)):
        with np.errstate(over="ignore"):
            packed = complex(one)
        if packed != one and one == one:
            raise InputError(f"an object must hold numbers of the precision of float64, found {one!r}; round it")
        if isinstance(one, (float, np.floating)):
            return b"f" + struct.pack("<d", packed.real)
        return b"c" + struct.pack("<dd", packed.real, packed.imag)
    raise InputError(
        f"an object must have a content to be remembered by: int, str, bytes, float, numeric array, or a tuple or list "
        f"of these; found {type(one).__name__}; pass integer ids instead, and the objects in Lazy(objects=...)"
    )
