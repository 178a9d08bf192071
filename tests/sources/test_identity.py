"""Keys and signatures: equal for equal contents in every process, unlike for unlike ones."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.sources.callbacks import pairwise
from distforest.sources.identity import keys_of, signature


@pairwise
def gap(a: float, b: float) -> float:
    """The gap."""
    return abs(a - b)


def test_signature_tells_functions_apart() -> None:
    def other(a: float, b: float) -> float:
        return a

    mine = signature(gap)
    assert mine["function"] == f"{__name__}:gap"
    assert mine == signature(gap)
    assert mine["sha256"] != signature(pairwise(other))["sha256"]
    assert signature(np.subtract)["sha256"] == signature(np.subtract)["sha256"]
    assert signature(np.linalg.norm)["version"] == np.__version__


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
