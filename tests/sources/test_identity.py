"""Keys and signatures: equal for equal contents in every process, unlike for unlike ones."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sklearn
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.sources.callbacks import pairwise
from distforest.sources.identity import keys_of, name_of, signature
from tests.samples import gap


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
        assert signature(function) == signature(bound)
    assert signature(pairwise(functools.partial(root, k=1))) != signature(bound)


BOUND = (
    lambda f: f,
    lambda f: functools.partial(f, k=1),
    lambda f: functools.partial(f, k=2),
    lambda f: functools.partial(f, j=1),
    lambda f: functools.partial(f, None),
    lambda f: functools.partial(f, 1),
    lambda f: functools.partial(f, 1, 2),
    lambda f: functools.partial(f, [1, 2]),
    lambda f: functools.partial(f, k=np.arange(2)),
    lambda f: functools.partial(f, k={"a": None, "b": ("x", 1.5)}),
    lambda f: functools.partial(f, k={"a": "x", "b": (None, 1.5)}),
    lambda f: functools.partial(f, k=np.subtract),
    lambda f: functools.partial(f, k=functools.partial(root, 1)),
    lambda f: functools.partial(f, k=functools.partial(root, 2)),
)


def test_what_a_partial_binds_tells_functions_apart() -> None:
    assert len({signature(bind(f))["sha256"] for bind in BOUND for f in (power, root)}) == 2 * len(BOUND)
    swapped = functools.partial(power, k={"b": ("x", 1.5), "a": None})
    assert signature(swapped) == signature(functools.partial(power, k={"a": None, "b": ("x", 1.5)}))


def test_what_a_partial_binds_is_the_same_in_every_process() -> None:
    function = "functools.partial(numpy.linalg.norm, 'x', k={'a': None, 'b': (1, b'y')}, j=json.loads)"
    code = f"import functools, json, numpy; from distforest.sources.identity import *; s = signature({function})"
    names = {"functools": functools, "json": json, "numpy": np}
    done = subprocess.run([sys.executable, "-c", f"{code}; print(s)"], capture_output=True, text=True, check=True)
    assert eval(done.stdout) == signature(eval(function, names))


@pytest.mark.parametrize("value", [object(), {1}, [{"a": {1}}], Exception("x").with_traceback, 1j])
def test_a_partial_of_what_has_no_content_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match=r"a partial of .*:power binds must be the same .*; found (object|set|\w+);"):
        signature(pairwise(functools.partial(power, k=value)))


def test_keys_are_the_same_in_every_process() -> None:
    objects = "['cat', b'cat', 1.5, ('a', 2, [True]), 2**70]"
    code = f"from distforest.sources.identity import keys_of; print(keys_of({objects}).tolist())"
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
    with pytest.raises(InputError, match="found dict"):
        keys_of([{}])
