"""Functions and objects, recognised in every process: the keys of a ledger, and the signature of its values."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.metadata
import inspect
import itertools
import operator
import struct
import tokenize
from contextlib import contextmanager
from pathlib import PurePath
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from distforest.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray


Items: TypeAlias = "Sequence[object] | NDArray[np.generic]"
"""Objects in an order: an array of rows, or a sequence of anything."""

UserFunction: TypeAlias = "Callable[..., Any]"
"""A function that a user has written; its results are checked before they are used."""

ENTRY_POINTS = "distforest.similarity"
"""The group of entry points by which packages announce similarity functions."""


def _layers(function: object) -> list[object]:
    """A function and, layer by layer, the functions inside its partials and wrappers."""
    layers = [function]
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            return layers
        layers.append(function)


def name_of(function: object) -> str:
    """``module:qualname`` of a function, of a partial's innermost one, or of a callable object's class.

    Of the layers of a wrapper the outermost one counts: it has the public name.
    """
    layers = _layers(function)
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
        ``function``: its name; ``version``: that of its package, None if it has none; ``sha256``: of its source and
        code, its defaults, its closure, the state of its object, and the arguments that partials bind. It is the same
        in every process of one version of Python. Globals are not read.

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
    return {
        "function": name,
        "version": _version(name.split(":")[0].split(".")[0]),
        "sha256": hashlib.sha256(_Content(name, strict).function(function)).hexdigest(),
    }


_PLAIN = (tuple, list, dict)
"""Collections that are read by their content; a class that inherits from one is read as it is pickled."""


class _Content:
    """Reads a function's code and state as bytes, without memory addresses and the order of sets and dicts."""

    def __init__(self, name: str, strict: bool) -> None:
        self._name = name
        self._strict = strict
        self._is_fixed = False  # whether only immutable values count
        self._path: list[str] = []  # where the value being read is, for messages
        self._open: list[object] = []  # the values being read, outermost first: a function may hold itself

    def function(self, function: object) -> bytes:
        """The bytes of a callable: its innermost function, and what each layer around it adds."""
        layers = _layers(function)
        parts = [self._bare(layers[-1])]
        for layer, inner in itertools.pairwise(layers):
            if isinstance(layer, functools.partial):
                with self._at("partial"):
                    parts.append(self.value((layer.args, layer.keywords)))
            else:
                parts.append(self._wrapper(layer, inner))
        return b"".join(parts)

    def _bare(self, bare: object) -> bytes:
        if isinstance(bare, FunctionType):
            return self._python(bare)
        if isinstance(bare, type):
            return self._class(bare)
        call = _call_of(bare)
        if call or not (inspect.isroutine(bare) or hasattr(bare, "__qualname__")):
            with self._at("self"):
                return (self._python(call) if call else b"") + self._class(type(bare)) + self._state(bare)
        owner, called = getattr(bare, "__self__", None), getattr(bare, "__func__", None)
        code = self._python(called) if isinstance(called, FunctionType) else name_of(bare).encode()
        if owner is None or isinstance(owner, ModuleType):
            return code
        if isinstance(owner, type):
            return code + self._class(owner)
        with self._at("self"):
            is_plain = type(owner).__module__ == "builtins"  # the bound method of a list or a dict
            return code + (self.value(owner) if is_plain else self._class(type(owner)) + self._state(owner))

    def _wrapper(self, layer: object, inner: object) -> bytes:
        """The bytes of a decorator: its code and state without caches, counts and locks, which decide no value."""
        if isinstance(layer, MethodType):  # it shows the function that its own function wraps, but has an object
            return self._bare(layer)
        with self._fixed():
            if isinstance(layer, FunctionType):
                return self._python(layer, inner)
            is_ours = type(layer).__module__.partition(".")[0] == "distforest"  # an adapter, which changes no value
            if is_ours or not _call_of(layer):
                return b""
            copied = {*functools.WRAPPER_ASSIGNMENTS, "__wrapped__"}
            state = {key: one for key, one in vars(layer).items() if key not in copied and one is not inner}
            return self._class(type(layer)) + b"".join(key.encode() + self.value(state[key]) for key in sorted(state))

    def _python(self, function: FunctionType, inner: object = None) -> bytes:
        """Source, code, defaults and closure of a function; without the function that it wraps."""
        with self._reading(function) as known:
            if known:
                return known
            parts = [_text(function.__code__), self._code(function.__code__)]
            with self._at("defaults"):
                parts.append(self.value((function.__defaults__, function.__kwdefaults__)))
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
                with self._at(name):
                    parts.append(name.encode() + self._cell(cell, inner))
            return hashlib.sha256(b"".join(parts)).digest()

    def _cell(self, cell: CellType, inner: object) -> bytes:
        try:
            content = cell.cell_contents
        except ValueError:  # not assigned yet
            return b"e"
        return b"w" if inner is not None and content is inner else self.value(content)

    def _code(self, code: CodeType) -> bytes:
        # In addition to the source: lambdas on one line share it, and functions made by exec have none.
        parts = [code.co_code, code.co_exceptiontable, repr(code.co_names).encode()]
        parts += [self._code(one) if isinstance(one, CodeType) else self.value(one) for one in code.co_consts]
        return hashlib.sha256(b"".join(parts)).digest()

    def _class(self, kind: type) -> bytes:
        """Name and source of a class and its bases, and the state of their methods."""
        with self._reading(kind) as known:
            if known:
                return known
            parts = []
            with self._fixed():  # methods that dataclass writes hold markers of their own
                for one in kind.__mro__:
                    parts += [_named(one), _text(one)]
                    for name, member in sorted(vars(one).items()):
                        method = getattr(member, "__func__", member)
                        parts += [name.encode() + self._python(method)] if isinstance(method, FunctionType) else []
            return hashlib.sha256(b"".join(parts)).digest()

    def _state(self, one: object) -> bytes:
        """The pickled state of an object."""
        if self._is_fixed:
            return _typed(one)
        with self._reading(one) as known:
            if known:
                return known
            try:
                reduced: Any = None if type(one) is object else one.__reduce_ex__(2)
            except Exception:  # noqa: BLE001 - a class may refuse in any way
                reduced = None
            if reduced is None:
                return self._without_content(one)
            if isinstance(reduced, str):  # the name of a global
                return b"g" + reduced.encode()
            maker, args, state, items, pairs = itertools.islice(itertools.chain(reduced, [None] * 3), 5)
            begun = ([None if part is type(one) else part for part in args], state)
            parts = (*begun, list(items) if items else None, dict(pairs) if pairs else None)
            return b"o" + _named(type(one)) + name_of(maker).encode() + b"".join(map(self.value, parts))

    def value(self, one: object) -> bytes:
        """The bytes of a value: its type and content."""
        if one is None or one is Ellipsis:
            return b"n" if one is None else b"..."
        if self._is_fixed and isinstance(one, (list, dict, set)):
            return _typed(one)
        if isinstance(one, (set, frozenset)) or (isinstance(one, _PLAIN) and type(one) in _PLAIN):
            with self._reading(one) as known:
                return known or self._collection(one)
        if isinstance(one, np.ndarray):
            raw = f"a{one.dtype.str}{one.shape}:".encode()
            return raw + (self.value(one.tolist()) if one.dtype.hasobject else hashlib.sha256(one.tobytes()).digest())
        if isinstance(one, PurePath):
            return b"p" + _content(str(one))
        if isinstance(one, ModuleType):
            return b"m" + one.__name__.encode()
        if isinstance(one, type):
            return b"k" + (_named(one) if self._is_fixed else self._class(one))  # methods refer to most of a library
        if isinstance(one, (str, bytes, int, float, complex, np.bool_, np.number)):
            return _content(one)
        if callable(one):
            return b"F" + hashlib.sha256(name_of(one).encode() + self.function(one)).digest()
        return self._state(one)

    def _collection(self, one: Collection[object]) -> bytes:
        if isinstance(one, dict):
            parts = []
            for key, value in one.items():
                with self._at(str(key) if isinstance(key, str) else "[...]"):
                    parts.append(self.value(key) + self.value(value))
            return f"d{len(one)}:".encode() + b"".join(sorted(parts))
        parts = [self.value(part) for part in one]
        is_set = isinstance(one, (set, frozenset))
        return f"{'u' if is_set else '('}{len(one)}:".encode() + b"".join(sorted(parts) if is_set else parts)

    def _without_content(self, one: object) -> bytes:
        if not self._strict:
            return _typed(one)
        path = [name for place, name in enumerate(self._path) if place == 0 or name != "self"]
        where = f" in {'.'.join(path)!r}" if path else ""
        raise InputError(
            f"what {self._name} holds must have a content that is the same in every process: None, numbers, str, "
            "bytes, paths, arrays, functions, and tuples, lists, sets, dicts or picklable objects of these; "
            f"found {type(one).__name__}{where}; write a plain function of a module that takes it from a global, "
            "or pass what it belongs to in Lazy(objects=...)"
        )

    @contextmanager
    def _at(self, name: str) -> Iterator[None]:
        # not undone after an error, which ends the reading
        self._path.append(name)
        yield
        self._path.pop()

    @contextmanager
    def _reading(self, one: object) -> Iterator[bytes]:
        """Remember a value while it is read; yields a reference if it is already being read further out."""
        places = [place for place, other in enumerate(self._open) if other is one]
        self._open.append(one)
        yield f"r{places[0]};".encode() if places else b""
        self._open.pop()

    @contextmanager
    def _fixed(self) -> Iterator[None]:
        before, self._is_fixed = self._is_fixed, True
        yield
        self._is_fixed = before


def _call_of(one: object) -> FunctionType | None:
    """The function that runs when an object is called, if it is written in Python."""
    call = getattr(type(one), "__call__", None)  # noqa: B004 - the function itself is wanted
    return call if isinstance(call, FunctionType) else None


def _text(source: type | CodeType | FunctionType) -> bytes:
    """The source of a class, code or function; empty if there is none."""
    try:
        return inspect.getsource(source).encode()
    except (OSError, TypeError, SyntaxError, tokenize.TokenError):  # the last two: the file is being edited
        return b""


def _typed(one: object) -> bytes:
    return b"?" + name_of(type(one)).encode()


def _named(kind: type) -> bytes:
    return f"{name_of(kind)};{_version(kind.__module__.split('.')[0])};".encode()


@functools.cache  # slow: reads all installed packages
def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(_distributions().get(package, [package])[0])
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None


@functools.cache  # slow: reads the metadata of every package
def _distributions() -> Mapping[str, list[str]]:
    """The distributions of each importable package: scikit-learn of sklearn."""
    return importlib.metadata.packages_distributions()


def _ratio(one: Any) -> bytes:
    """A long double that no float64 equals, as a quotient of integers."""
    above, below = one.as_integer_ratio()
    return f"{above}/{below};".encode()


def keys_of(objects: Items) -> NDArray[np.int64]:
    """A key of each object's content, the same in every process, shape (n,).

    Parameters
    ----------
    objects
        Integers, which are their own keys; strings, bytes, floats, arrays, and tuples or lists of these; or a matrix,
        whose rows are the objects. Arrays, tuples and lists have one key if their numbers or strings are equal, in any
        precision. Different numbers have different keys, and so do integers, floats and truth values.

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
    packed = np.dtype(_PACKED[array.dtype.kind])
    if array.dtype.kind in "biu":
        return array.dtype != np.uint64 or int(array.max()) < 1 << 63
    if array.dtype.itemsize <= packed.itemsize:
        return True
    with np.errstate(over="ignore"):
        return bool(((array.astype(packed) == array) | np.isnan(array)).all())


def _numbers(parts: Sequence[Any]) -> bytes | None:
    """The content of a list of numbers, which equals that of an array of them; None for another list."""
    kinds = {_kind(one) for one in set(map(type, parts))}
    if not kinds or not (kinds == {"b"} or kinds <= set("ifc")):
        return None
    kind = max(kinds, key="bifc".index)
    try:
        with np.errstate(over="ignore"):
            array = np.array([int(part) for part in parts] if kind == "i" else parts, _PACKED[kind])
    except OverflowError:
        return None
    if kind != "b" and not all(map(_is_exact, parts, array.tolist())):
        return None
    return _head(len(parts), kind) + array.tobytes()


def _is_exact(number: Any, packed: complex) -> bool:
    """Whether a number equals its packed value."""
    if isinstance(number, np.integer):
        number = int(number)  # Python compares it with a float exactly; NumPy would round it
    return bool(number == packed or number != number)


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
    if isinstance(one, (float, np.floating)):
        return b"f" + (struct.pack("<d", float(one)) if _is_exact(one, float(one)) else _ratio(one))
    if isinstance(one, (complex, np.complexfloating)):
        if _is_exact(one, complex(one)):
            return b"c" + struct.pack("<dd", complex(one).real, complex(one).imag)
        return b"c" + _content(one.real) + _content(one.imag)
    raise InputError(
        f"an object must have a content to be remembered by: int, str, bytes, float, numeric array, or a tuple or list "
        f"of these; found {type(one).__name__}; pass integer ids instead, and the objects in Lazy(objects=...)"
    )
