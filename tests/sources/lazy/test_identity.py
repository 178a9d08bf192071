"""Keys and signatures: equal for equal contents in every process, unlike for unlike ones."""

from __future__ import annotations

import functools
import inspect
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.sources.lazy.callbacks import pairwise
from distforest.sources.lazy.identity import keys_of, name_of, resolve, signature
from tests import messages
from tests.samples import gap


def digest(function: Callable[..., Any]) -> str | None:
    return signature(function)["sha256"]


def power(a: float, b: float, *bound: Any, **named: Any) -> float:
    return abs(a - b) ** len(bound)


def root(a: float, b: float, *bound: Any, **named: Any) -> float:
    return abs(a - b) ** (1 / len(bound))


def test_signature_tells_functions_apart() -> None:
    def other(a: float, b: float) -> float:
        return a

    mine = signature(gap)
    assert mine["function"] == "tests.samples:gap"
    assert mine == signature(gap)
    assert mine["sha256"] != signature(pairwise(other))["sha256"]
    assert signature(np.subtract)["sha256"] == signature(np.subtract)["sha256"]
    assert signature(np.linalg.norm)["version"] == np.__version__
    assert signature(sklearn.metrics.accuracy_score)["version"] == sklearn.__version__


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*args: Any) -> Any:
        return function(*args)

    return inner


def test_signature_sees_through_partials_and_wrappers() -> None:
    bound = functools.partial(power, k=1)
    for function in (bound, pairwise(bound), wrapped(bound), pairwise(wrapped(functools.partial(wrapped(power), k=1)))):
        assert name_of(function) == f"{__name__}:power"
    assert digest(pairwise(bound)) == digest(pairwise(functools.partial(power, k=1)))
    assert digest(pairwise(functools.partial(root, k=1))) != digest(pairwise(bound))
    assert digest(functools.cache(root)) != digest(functools.cache(power))


def scaled(by: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inner(*args: Any) -> Any:
            return by * function(*args)

        return inner

    return decorate


class Scaled:
    def __init__(self, function: Callable[..., Any], by: float) -> None:
        functools.update_wrapper(self, function)
        self.inner, self.by = function, by

    def __call__(self, *args: Any) -> Any:
        return self.by * self.inner(*args)


class Rescaled(Scaled):
    pass


def test_decorators_are_told_apart_by_what_they_hold() -> None:
    made = [
        power,
        wrapped(power),
        scaled(1)(power),
        scaled(2)(power),
        Scaled(power, 1),
        Scaled(power, 2),
        Scaled(root, 2),
        Rescaled(power, 1),
        Rescaled(power, 2),
    ]
    digests = [digest(one) for one in made]
    assert len(set(digests)) == len(made)
    assert digests[1:] == [digest(wrapped(power)), *[digest(scaled(by)(power)) for by in (1, 2)], *digests[4:]]


def remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    seen: dict[Any, Any] = {}
    lock = threading.Lock()

    @functools.wraps(function)
    def inner(*args: Any) -> Any:
        with lock:
            return seen[args] if args in seen else seen.setdefault(args, function(*args))

    return inner


def test_what_a_decorator_remembers_decides_no_value() -> None:
    function = remembered(power)
    before = digest(function)
    function(1, 2)
    assert digest(function) == before == digest(remembered(power)) != digest(remembered(root))


def shifted(by: Any) -> Callable[..., Any]:
    def apart(a: float, b: float) -> float:
        return float(a - b - by)

    return apart


def defaulting(by: Any) -> Callable[..., Any]:
    def apart(a: float, b: float, by: Any = by) -> float:
        return float(a - b - by)

    return apart


def naming(by: Any) -> Callable[..., Any]:
    def apart(a: float, b: float, *, by: Any = by) -> float:
        return float(a - b - by)

    return apart


class Minkowski:
    def __init__(self, p: Any) -> None:
        self.p = p

    def __call__(self, a: float, b: float) -> float:
        return float(abs(a - b) ** self.p)

    def apart(self, a: float, b: float) -> float:
        return self(a, b)

    @classmethod
    def bound(cls, a: float, b: float) -> float:
        return cls(2)(a, b)


@dataclass
class Settings:
    by: Any
    names: list[str] = field(default_factory=list)

    def __call__(self, a: float, b: float) -> float:
        return float(a - b - self.by)


HOLDERS = {
    "closure": shifted,
    "default": defaulting,
    "keyword default": naming,
    "callable object": Minkowski,
    "method": lambda by: Minkowski(by).apart,
    "dataclass": Settings,
    "object in a closure": lambda by: shifted(Minkowski(by)),
    "method of a dict": lambda by: {"a": by}.get,
    "nested functions": lambda by: shifted([shifted(by), {"a": shifted(0)}]),
    "attribute of attribute": lambda by: Minkowski(Settings(by)),
    "pairwise": lambda by: pairwise(Minkowski(by)),
    "vectorised": lambda by: np.vectorize(shifted(by)),
    "partial": lambda by: functools.partial(shifted(by), 1),
    "bound": lambda by: functools.partial(power, by),
    "bound by name": lambda by: functools.partial(power, k=by),
}


@pytest.mark.slow
@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS)
def test_what_a_function_holds_tells_it_apart(holder: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect, "getsource", functools.cache(inspect.getsource))  # of a class it parses the file
    numbers = (1, 9, 1.0, True, 1j, np.ones(1), np.ones(1, np.float32))
    values = (*numbers, "1", b"1", None, (1,), [1, 2], {1}, {1: 1}, Path("1"), print, Minkowski)
    digests = [digest(holder(value)) for value in values]
    assert len(set(digests)) == len(values)
    assert digests == [digest(holder(value)) for value in values]


def test_a_class_method_belongs_to_its_class() -> None:
    class Manhattan(Minkowski):
        pass

    assert digest(Minkowski.bound) == digest(Minkowski.bound) != digest(Manhattan.bound)
    assert digest(Minkowski(2)) != digest(Manhattan(2)) == digest(Manhattan(2))


@pytest.mark.slow
def test_a_state_is_what_an_object_is_pickled_by() -> None:
    class Cached(Minkowski):
        def __call__(self, a: float, b: float) -> float:
            self.seen = getattr(self, "seen", 0) + 1
            return super().__call__(a, b)

        def __getstate__(self) -> dict[str, Any]:
            return {"p": self.p}

    function, plain = Cached(2), Minkowski(2)
    before = digest(function)
    function(1, 2)
    assert digest(function) == before != digest(Cached(3))
    plain.seen = 1  # type: ignore[attr-defined]
    assert digest(plain) != digest(Minkowski(2))


def test_a_class_is_told_apart_by_its_properties_and_not_by_what_it_caches() -> None:
    def made(get: Callable[[Any], Any], **held: Any) -> Any:
        return type("Made", (Minkowski,), {"step": property(get), "far": functools.cached_property(get), **held})(2)

    assert digest(made(lambda _: 1)) == digest(made(lambda _: 1, model="loaded")) != digest(made(lambda _: 2))


def test_lambdas_on_one_line_and_functions_without_source_are_told_apart() -> None:
    one, two, again = [[lambda a, b: 1.0, lambda a, b: 2.0][place] for place in (0, 1, 0)]
    assert inspect.getsource(one) == inspect.getsource(two)
    assert digest(one) != digest(two)
    assert digest(one) == digest(again)
    texts = (
        "return 1.0",
        "return 2.0",
        "return (lambda: 2.0)()",
        "return (lambda: 3.0)()",
        "return a in {'x', 'y', 'z'}",
    )
    spaces: list[dict[str, Any]] = [{"__name__": "made"} for _ in texts]
    for text, space in zip(texts, spaces, strict=True):
        exec(f"def apart(a, b): {text}", space)
    assert len({digest(space["apart"]) for space in spaces}) == len(texts)


@pytest.mark.slow
def test_a_function_that_holds_itself_has_a_signature() -> None:
    def made(by: int) -> Callable[..., Any]:
        def apart(a: int, b: int) -> int:
            return by if a == b else apart(a - 1, b)

        return apart

    assert digest(made(1)) == digest(made(1)) != digest(made(2))
    one, other = Settings(1), Settings(1)
    one.by, other.by = one, other
    assert digest(one) == digest(other) != digest(Settings(Settings(1)))


STATEFUL = """
class Apart:
    limit = 3
    def __init__(self): self.names, self.table = {'x', 'y', 'zz', 'w'}, {'b': (1, None), 'a': numpy.arange(3)}
    def __call__(self, a, b): return a in {'x', 'y', 'zz', 'w'}
def made(held):
    def apart(a, b, kind={'p', 'q', 'r'}): return held
    return apart
held = Apart(), made(Apart()), made(Apart().__call__), made(made({1.5, 'x'})), functools.partial(made(1), k=numpy)
digests = [signature(one)['sha256'] for one in held]
"""


@pytest.mark.slow
def test_what_a_function_holds_is_the_same_in_every_process() -> None:
    code = (
        f"import functools, numpy\nfrom distforest.sources.lazy.identity import signature\n{STATEFUL}\nprint(digests)"
    )
    done = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        )
        for seed in "12"
    ]
    assert done[0].stdout == done[1].stdout
    assert len(set(eval(done[0].stdout))) == 5


REFUSED: dict[str, Callable[[], Any]] = {
    "lock": lambda: shifted(threading.Lock()),
    "Connection": lambda: Minkowski(sqlite3.connect(":memory:")),
    "object": lambda: Minkowski({"key": [np.array([object()])]}).apart,
    "generator": lambda: functools.partial(power, k=iter(number for number in (1, 2))),
}


@pytest.mark.slow
@pytest.mark.parametrize("found", REFUSED)
def test_a_state_without_content_is_refused_or_called_by_its_type(found: str) -> None:
    function = REFUSED[found]()
    with pytest.raises(InputError, match=messages.naming(f"found {found};", "Lazy(objects=...)")):
        signature(function)
    assert signature(function, strict=False) == signature(REFUSED[found](), strict=False)


BROKEN = {
    "syntax": ("def apart(a, b) return 0", "SyntaxError"),
    "raises": ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
    "exits": ("import sys; sys.exit(3)", "SystemExit: 3"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_module_that_cannot_be_imported_is_refused(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, error = BROKEN[case]
    module = f"a_module_that_{case}"
    (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=messages.naming("'module:function'", f"'{module}:apart'", error)):
        resolve(f"{module}:apart")


def test_keys_are_the_same_in_every_process() -> None:
    objects = "['cat', b'cat', 1.5, ('a', 2, [True]), 2**70]"
    code = f"from distforest.sources.lazy.identity import keys_of; print(keys_of({objects}).tolist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert eval(done.stdout) == keys_of(eval(objects)).tolist()


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_integers_are_their_own_keys(ids: list[int]) -> None:
    assert keys_of(ids).tolist() == ids
    assert keys_of(np.array(ids, np.int64)).tolist() == ids


CONTENTS = st.recursive(st.text() | st.binary() | st.integers() | st.booleans(), st.lists, max_leaves=5)


@given(CONTENTS, CONTENTS)
def test_keys_differ_where_contents_do(a: Any, b: Any) -> None:
    first, second = keys_of([(a,), (b,)])
    assert (first == second) == (repr(a) == repr(b))


def test_rows_of_a_matrix_are_objects() -> None:
    matrix = np.random.default_rng(0).random((4, 3))
    assert keys_of(matrix).tolist() == keys_of(list(matrix)).tolist()
    assert keys_of(matrix.T.copy().T).tolist() == keys_of(matrix).tolist()
    assert len({*keys_of(matrix), *keys_of(matrix.astype(np.float32))}) == 8
    with pytest.raises(InputError, match="dict"):
        keys_of([{}])


ROWS = st.lists(st.lists(st.integers(-99, 99), min_size=2, max_size=2), min_size=1, max_size=4)


@given(ROWS)
def test_rows_of_equal_numbers_are_one_in_any_container(rows: list[list[int]]) -> None:
    whole = keys_of(rows).tolist()
    assert keys_of([tuple(row) for row in rows]).tolist() == whole
    for dtype in (np.int8, np.int64, ">i4", object):
        array = np.array(rows, dtype)
        assert (
            keys_of(array).tolist()
            == keys_of(np.asfortranarray(array)).tolist()
            == keys_of(list(array)).tolist()
            == whole
        )
    halves = [[number / 2 for number in row] for row in rows]
    broken = keys_of(halves).tolist()
    assert not set(broken) & set(whole)  # floats are not integers
    for dtype in (np.float16, np.float32, np.float64, ">f8", np.longdouble):
        array = np.array(halves, dtype)
        assert keys_of(array).tolist() == keys_of([list(row) for row in array]).tolist() == broken
    assert len(set(whole)) == len({tuple(row) for row in rows})


def test_a_cube_is_as_its_nested_lists() -> None:
    cube = np.random.default_rng(0).integers(0, 9, (3, 2, 2))
    assert keys_of(cube).tolist() == keys_of(cube.tolist()).tolist()
    assert keys_of(cube.reshape(3, 4)).tolist() != keys_of(cube).tolist()
    empty = np.empty((2, 0))
    assert keys_of(empty).tolist() == keys_of([[], ()]).tolist()


def test_strings_are_one_in_any_container() -> None:
    rows = [["a", "bc"], ["bc", "a"]]
    for dtype in ("<U2", "<U4", object):
        assert keys_of(np.array(rows, dtype)).tolist() == keys_of(rows).tolist()
        assert keys_of(np.array(rows[0], dtype)).tolist() == keys_of(rows[0]).tolist()


def test_scalars_are_one_in_any_precision() -> None:
    assert len({*keys_of([1.0, np.float32(1.0), np.float16(1.0), np.longdouble(1.0)])}) == 1
    assert keys_of(np.array([0.5, 2.0], np.float32)).tolist() == keys_of([0.5, 2.0]).tolist()
    assert keys_of(np.array([3, 7], np.uint64)).tolist() == keys_of([np.int8(3), 7]).tolist() == [3, 7]
    for different in ([1, 1.0, True, "1", b"1"], [[1], [1.0], [True], ["1"]], [[1, True], [1, 1], [True, True]]):
        assert len({*keys_of(different)}) == len(different)
    assert keys_of(np.array([[True, False]])).tolist() == keys_of([[True, np.False_]]).tolist()


def test_numbers_are_never_rounded() -> None:
    last, next_one = 2**53, 2**53 + 1
    pairs = [[last, 0.5], [next_one, 0.5], [last, 1j], [next_one, 1j], [np.int64(next_one), 1.5]]
    assert len({*keys_of(pairs)}) == len(pairs)
    assert keys_of([[np.int64(next_one), 0.5], (next_one, np.float32(0.5))]).tolist() == [keys_of(pairs)[1]] * 2
    finer = 1 + np.finfo(np.longdouble).eps
    matrix = np.array([[1.0, np.nan], [np.nan, 1.0]], np.longdouble)
    assert len({*keys_of(matrix)}) == 2
    for refused in (finer, finer * 1j, np.longdouble("1e400"), [finer, 0.5], np.array([[finer, 1]])):
        with pytest.raises(InputError, match="float64"):
            keys_of([refused])


def test_integers_beyond_64_bits_keep_their_value() -> None:
    wide = [[2**63, 1], [2**63 - 1, 1], [-(2**63), 1], [2**64 + 1, 1], [2**63 + 1, 1]]
    assert len({*keys_of(wide)}) == len(wide)
    unsigned = np.array([[2**63, 1], [2**63 - 1, 1]], np.uint64)
    assert keys_of(unsigned).tolist() == keys_of(wide[:2]).tolist() == keys_of([list(row) for row in unsigned]).tolist()
    assert keys_of(unsigned[:, 0]).tolist() == keys_of([2**63, 2**63 - 1]).tolist()
