"""A lean table is the table: the same arrays bit for bit, the same walks, in fewer bytes."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from distforest import SMERF
from distforest.forest.lean_table import KeptArray, LeanTable, children_by_levels, same_bits, shortest
from distforest.forest.node_table import LEAF, NodeTable, route
from tests import samples
from tests.forest.sealed.damage import ForestOf

CASES = sorted({**samples.CASES, **samples.VOTING_CASES, **samples.PAIR_CASES})


def lean(table: NodeTable) -> LeanTable:
    return LeanTable(**table.arrays())


@pytest.mark.parametrize("case", CASES)
def test_a_lean_table_has_the_arrays_of_the_table(case: str, forest_of: ForestOf) -> None:
    table = forest_of(case).table
    found = lean(table)
    assert list(found.arrays()) == list(table.arrays())
    assert samples.bits(found.arrays()) == samples.bits(table.arrays())
    for name, array in table.arrays().items():  # one that is asked for alone is the same
        own = getattr(found, name)
        assert same_bits(own.reshape(-1), array.reshape(-1)) if array.size else own.shape == array.shape
        assert own.dtype == array.dtype
    assert found.offset.tolist() == table.offset.tolist()
    assert found.is_leaf.tolist() == table.is_leaf.tolist()
    assert samples.bits(found.tree(1).arrays()) == samples.bits(table.tree(1).arrays())
    assert samples.bits(found.sending_on().arrays()) == samples.bits(table.sending_on().arrays())


@pytest.mark.parametrize("case", ["labels", "oblique", "targets", "surrogate"])
def test_rows_end_in_the_same_leaves(case: str, forest_of: ForestOf) -> None:
    forest = forest_of(case)
    source, rows = forest.source(samples.queries(case)), np.arange(4, dtype=np.int32)
    found = lean(forest.table)
    assert route(found, source, rows).tolist() == route(forest.table, source, rows).tolist()
    assert route(found.sending_on(), source, rows).tolist() == route(forest.table.sending_on(), source, rows).tolist()


def test_walks_down_single_columns_ask_for_no_array(forest_of: ForestOf) -> None:
    forest = forest_of("labels")
    found = lean(forest.table)
    n_bytes = found.n_bytes
    route(found, forest.source(samples.queries("labels")), np.arange(4, dtype=np.int32))
    assert not {"left", "right", "threshold", "columns", "weights", "width"} & found.__dict__.keys()
    assert found.n_bytes <= n_bytes + len(found.is_leaf) + 8 * (found.n_trees + 1)


def test_a_node_of_real_data_takes_a_third_of_its_bytes() -> None:
    X, y = load_digits(return_X_y=True)
    table = SMERF(5, random_state=0).fit(X, y).forest_.table
    before = sum(array.nbytes for array in table.arrays().values())
    assert before / len(table.left) > 40.0
    assert lean(table).n_bytes / len(table.left) < 14.0


def test_copies_pickles_and_changed_tables_are_tables(forest_of: ForestOf) -> None:
    table = forest_of("labels").table
    found = lean(table)
    for twin in (copy.deepcopy(found), pickle.loads(pickle.dumps(found)), replace(found), copy.copy(found)):
        assert samples.bits(twin.arrays()) == samples.bits(table.arrays())
    more = replace(found, gain=table.gain + 1.0)
    assert more.gain.tolist() == (table.gain + 1.0).tolist()
    assert not hasattr(found, "nothing")


ODD = st.sampled_from([0.0, -0.0, 0.5, 0.1, 1e300, 2.0**-1074, 1.0 + 2.0**-40, -3.0])


@given(st.lists(st.tuples(st.booleans(), ODD), max_size=12), st.booleans())
def test_any_numbers_come_back_bit_for_bit(pairs: list[tuple[bool, float]], of_nodes: bool) -> None:
    inner: NDArray[np.bool_] = np.array([own for own, _ in pairs], np.bool_)
    array = np.array([value for _, value in pairs], np.float64)
    kept = KeptArray.from_array(array, inner) if of_nodes else KeptArray.from_array(array)
    found = kept.array(len(array), inner)
    assert found.dtype == array.dtype
    assert same_bits(found, array)


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 300), max_size=12))
def test_any_integers_come_back(values: list[int]) -> None:
    array = np.array(values, np.int64)
    assert shortest(array).astype(np.int64).tolist() in (values, values[:1])
    assert KeptArray.from_array(array).array(len(array), np.ones(len(array), np.bool_)).tolist() == values


def test_children_follow_from_who_has_children() -> None:
    inner = np.array([1, 0, 1, 0, 0, 0], np.bool_)
    left, right = children_by_levels(np.array([5, 1]), inner)
    assert left.tolist() == [1, LEAF, 3, LEAF, LEAF, LEAF]
    assert right.tolist() == [2, LEAF, 4, LEAF, LEAF, LEAF]


def test_children_in_another_order_are_kept(forest_of: ForestOf) -> None:
    table = forest_of("labels").table
    turned = replace(table, left=table.right, right=table.left)
    found = lean(turned)
    assert {"left", "right"} <= found.kept.keys()
    assert samples.bits(found.arrays()) == samples.bits(turned.arrays())
    assert not {"left", "right"} & lean(table).kept.keys()
