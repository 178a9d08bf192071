"""Routing against naive.py and against its generic twin; tables that a kernel could not walk are refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import ArtifactError
from distforest.forest.block_walks import BLOCK_ROWS
from distforest.forest.forest import NODE_ARRAYS
from distforest.forest.node_table import NodeTable, route, route_levels
from distforest.sources.arrays import ArraySource
from distforest.sources.kernels import KernelSource
from distforest.sources.sparse_features import read_sparse_features
from tests import samples
from tests.forest.sealed.damage import changed
from tests.reference import naive
from tests.tries import tries

FREE = settings(max_examples=tries(80))


@st.composite
def tables(draw: st.DrawFn, n_columns: int, most_terms: int = 3) -> NodeTable:
    """Any valid table: random shapes of trees, projections of up to so many columns; single ones as they are."""
    trees: list[dict[str, list[Any]]] = []
    for _ in range(draw(st.integers(1, 3))):
        size = 2 * draw(st.integers(0, 4)) + 1
        own: dict[str, list[Any]] = {name: [] for name in NodeTable.__dataclass_fields__}
        free = list(range(1, size))
        for node in range(size):
            after = [child for child in free if child > node]
            remaining = len(free)
            inner = len(after) >= 2 and remaining == len(after) and (draw(st.booleans()) or node == size - remaining)
            left, right = (-1, -1)
            if inner:
                left, right = draw(st.permutations(after[:2]))
                free = [child for child in free if child not in (left, right)]
            terms = draw(st.lists(st.integers(0, n_columns - 1), min_size=1, max_size=most_terms)) if inner else []
            signs = [1.0] if most_terms == 1 else [1.0, -1.0, 0.5]
            weights = draw(st.lists(st.sampled_from(signs), min_size=len(terms), max_size=len(terms)))
            threshold = draw(st.sampled_from([0.0, 0.5, 1.0, -1.5])) if inner else 0.0
            for name, value in (("left", left), ("right", right), ("width", len(terms)), ("threshold", threshold)):
                own[name].append(value)
            own["columns"] += terms
            own["weights"] += weights
        own["gain"], own["n_rows"], own["tree_size"] = [1.0] * size, [2] * size, [size]
        trees.append(own)
    return NodeTable(**{name: _joined(trees, name) for name in NODE_ARRAYS})


def _joined(trees: list[dict[str, list[Any]]], name: str) -> np.ndarray:
    dtype = {"tree_size": np.int64, "n_rows": np.int64, "threshold": np.float64, "weights": np.float64}
    flat = [value for own in trees for value in own[name]]
    return np.array(flat, np.float64 if name == "gain" else dtype.get(name, np.int32))


def trees_to_route(table: NodeTable) -> list[dict[str, np.ndarray]]:
    """Each tree as naive.route reads it."""
    found = []
    for tree in range(table.n_trees):
        nodes = slice(table.tree_start[tree], table.tree_start[tree + 1])
        terms = slice(table.offset[nodes.start], table.offset[nodes.stop])
        own = {name: getattr(table, name)[nodes] for name in ("left", "right", "threshold", "width")}
        found.append({**own, "columns": table.columns[terms], "weights": table.weights[terms]})
    return found


def by_levels(table: NodeTable, source: Any, rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    ends = np.full(wanted.shape, -1, np.int32)
    route_levels(table, source, rows, wanted, ends)
    return ends


def matrix(n_rows: int, n_columns: int, data: st.DataObject) -> np.ndarray:
    numbers = st.sampled_from([0.0, 0.5, 1.0, -1.0, 2.0, float("nan")])
    one = st.lists(numbers, min_size=n_columns, max_size=n_columns)
    return np.array(data.draw(st.lists(one, min_size=n_rows, max_size=n_rows)), np.float32).reshape(n_rows, n_columns)


@pytest.mark.slow
@pytest.mark.kernels
@FREE
@given(tables(3), st.data(), st.integers(0, 6))
def test_routes_are_the_reference_and_the_generic_twin(table: NodeTable, data: st.DataObject, n_rows: int) -> None:
    table.check(3)
    X = matrix(max(n_rows, 1), 3, data)
    source = ArraySource.from_values(X)
    rows = np.array(data.draw(st.lists(st.integers(0, len(X) - 1), max_size=6)), np.int32)
    expected = [naive.route(tree, X[rows]).tolist() for tree in trees_to_route(table)]
    everything = np.ones((table.n_trees, len(rows)), np.bool_)
    assert route(table, source, rows).tolist() == expected
    assert by_levels(table, source, rows, everything).tolist() == expected
    wanted = np.array(data.draw(st.lists(st.booleans(), min_size=everything.size, max_size=everything.size)), np.bool_)
    wanted = wanted.reshape(everything.shape)
    some = np.where(wanted, np.array(expected, np.int32).reshape(wanted.shape), -1)
    assert route(table, source, rows, wanted).tolist() == some.tolist()
    assert by_levels(table, source, rows, wanted).tolist() == some.tolist()


@pytest.mark.slow
@pytest.mark.kernels
@FREE
@given(tables(3, most_terms=1), st.data(), st.integers(0, 99), st.sampled_from([1, 20, 1 << 17]))
def test_rows_that_lack_nothing_walk_as_the_reference(
    table: NodeTable, data: st.DataObject, seed: int, cells: int
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.choice(np.float32([-1.5, -0.25, 0.0, 0.5, 0.75, 1.0, 2.0]), (30, 3))
    rows = rng.integers(0, 30, data.draw(st.integers(0, 70))).astype(np.int32)
    wanted = rng.random((table.n_trees, len(rows))) < data.draw(st.sampled_from([0.1, 0.6, 1.0]))
    expected = np.array([naive.route(tree, X[rows]) for tree in trees_to_route(table)]).reshape(wanted.shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("distforest.forest.node_table.block_rows", lambda n_columns: max(1, cells // n_columns))
        found = route(table, ArraySource.from_values(X, is_complete=True), rows, wanted)
    assert found.tolist() == np.where(wanted, expected, -1).tolist()


@pytest.mark.slow
@pytest.mark.kernels
@FREE
@given(st.sampled_from([1, 3]).flatmap(lambda most: tables(3, most)), st.data(), st.integers(0, 99))
def test_rows_of_sparse_features_walk_as_the_reference(table: NodeTable, data: st.DataObject, seed: int) -> None:
    """Of five columns, of which the trees may read three; also in blocks that end amid the rows."""
    rng = np.random.default_rng(seed)
    X = rng.choice(np.float32([-1.5, 0.0, 0.0, 0.0, 0.5, 2.0]), (30, 5))
    source = read_sparse_features(scipy.sparse.csr_array(X))
    rows = rng.integers(0, 30, data.draw(st.integers(0, 3 * BLOCK_ROWS))).astype(np.int32)
    wanted = rng.random((table.n_trees, len(rows))) < data.draw(st.sampled_from([0.1, 0.6, 1.0]))
    expected = np.array([naive.route(tree, X[rows]) for tree in trees_to_route(table)]).reshape(wanted.shape)
    assert (table.sparse_steps is None) == (table.steps is None)
    assert route(table, source, rows, wanted).tolist() == np.where(wanted, expected, -1).tolist()
    assert by_levels(table, source, rows, wanted).tolist() == np.where(wanted, expected, -1).tolist()


@pytest.mark.slow
@pytest.mark.kernels
@FREE
@given(tables(4), st.sampled_from(["linear", "cosine", "rbf", "manhattan"]), st.integers(0, 99))
def test_a_kernel_source_routes_as_the_array_of_its_values(table: NodeTable, name: str, seed: int) -> None:
    X = samples.features(9, seed=seed)
    source = KernelSource(X, X[:4], name, 0.3)
    rows = np.arange(9, dtype=np.int32)
    values = source.block(rows, np.arange(4, dtype=np.int32))
    found = route(table, source, rows)
    for tree, own in enumerate(trees_to_route(table)):
        assert found[tree].tolist() == naive.route(own, values).tolist()


def test_missing_values_stop_a_row_at_an_inner_node() -> None:
    table = NodeTable(
        tree_size=np.array([5]),
        left=np.array([1, 3, -1, -1, -1], np.int32),
        right=np.array([2, 4, -1, -1, -1], np.int32),
        threshold=np.array([0.0, 1.0, 0, 0, 0]),
        width=np.array([1, 2, 0, 0, 0], np.int32),
        columns=np.array([0, 1, 2], np.int32),
        weights=np.array([1.0, 1.0, -1.0]),
        gain=np.zeros(5),
        n_rows=np.ones(5, np.int64),
    )
    nan = np.nan
    X = np.array([[nan, 0, 0], [1, nan, nan], [-1, nan, 0], [-1, 0, nan], [0, 3, 2], [-1, 4, 2]], np.float32)
    source, rows = ArraySource.from_values(X), np.arange(6, dtype=np.int32)
    expected = [[0, 2, 1, 1, 3, 4]]
    assert route(table, source, rows).tolist() == expected
    assert by_levels(table, source, rows, np.ones((1, 6), np.bool_)).tolist() == expected


def test_tables_are_joined_tree_after_tree(forest_of: Callable[[str], Any]) -> None:
    one, two = forest_of("oblique").table, forest_of("labels").table
    both = NodeTable.joined([one, two, one])
    both.check(samples.N_COLUMNS)
    X = samples.features(20, seed=5)
    source, rows = ArraySource.from_values(X), np.arange(20, dtype=np.int32)
    parts = [route(table, source, rows).tolist() for table in (one, two, one)]
    assert route(both, source, rows).tolist() == [ends for part in parts for ends in part]
    assert both.n_trees == 2 * one.n_trees + two.n_trees


def test_projections_of_nodes_are_their_columns_and_weights(forest_of: Callable[[str], Any]) -> None:
    table = forest_of("oblique").table
    nodes = np.flatnonzero(~table.is_leaf)[::-2]
    found = table.projections(nodes)
    assert found.width == 1
    for place, node in enumerate(nodes.tolist()):
        own, terms = slice(found.offset[place], found.offset[place + 1]), slice(*table.offset[node : node + 2])
        assert found.columns[own].tolist() == table.columns[terms].tolist()
        assert found.weights[own].tolist() == table.weights[terms].tolist()


# --- refusals ---------------------------------------------------------------------------------------------


def inner_of(table: NodeTable) -> int:
    """An inner node of the second tree, in the whole table, that is not its root."""
    return int(np.flatnonzero(~table.is_leaf[table.tree_start[1] + 1 :])[0] + table.tree_start[1] + 1)


Damage = Callable[[NodeTable, int, int], dict[str, np.ndarray]]
DAMAGES: dict[str, tuple[str, Damage]] = {
    "itself as its child": ("left", lambda t, node, own: {"left": changed(t.left, node, own)}),
    "an ancestor as its child": ("right", lambda t, node, own: {"right": changed(t.right, node, 0)}),
    "a child beyond its tree": ("right", lambda t, node, own: {"right": changed(t.right, node, t.tree_size[1])}),
    "a child far beyond": ("left", lambda t, node, own: {"left": changed(t.left, node, 2**31 - 1)}),
    "a negative child": ("left", lambda t, node, own: {"left": changed(t.left, node, -2)}),
    "one child only": ("right", lambda t, node, own: {"right": changed(t.right, node, -1)}),
    "no left child": ("right", lambda t, node, own: {"left": changed(t.left, node, -1)}),
    "no columns": (
        "width",
        lambda t, node, own: {
            "width": changed(t.width, node, 0),
            "columns": np.delete(t.columns, range(*t.offset[node : node + 2])),
            "weights": np.delete(t.weights, range(*t.offset[node : node + 2])),
        },
    ),
    "a negative width": (
        "width",
        lambda t, node, own: {"width": changed(changed(t.width, node, -1), 0, t.width[0] + t.width[node] + 1)},
    ),
    "a leaf with columns": (
        "width",
        lambda t, node, own: (
            {"width": changed(changed(t.width, node, t.width[node] - 1), -1, 1)}
            if t.width[node] > 1
            else {
                "width": changed(t.width, -1, 1),
                "columns": np.append(t.columns, np.int32(0)),
                "weights": np.append(t.weights, 1.0),
            }
        ),
    ),
    "too wide": ("columns", lambda t, node, own: {"width": changed(t.width, node, t.width[node] + 1)}),
    "a column too large": ("columns", lambda t, node, own: {"columns": changed(t.columns, -1, samples.N_COLUMNS)}),
    "a negative column": ("columns", lambda t, node, own: {"columns": changed(t.columns, 0, -1)}),
    "a column short": ("columns", lambda t, node, own: {"columns": t.columns[:-1]}),
    "a weight too many": ("weights", lambda t, node, own: {"weights": np.append(t.weights, 1.0)}),
    "an infinite weight": ("weights", lambda t, node, own: {"weights": changed(t.weights, 1, np.inf)}),
    "a NaN threshold": ("threshold", lambda t, node, own: {"threshold": changed(t.threshold, node, np.nan)}),
    "an infinite threshold": ("threshold", lambda t, node, own: {"threshold": changed(t.threshold, node, -np.inf)}),
    "a NaN gain": ("gain", lambda t, node, own: {"gain": changed(t.gain, node, np.nan)}),
    "negative rows": ("n_rows", lambda t, node, own: {"n_rows": changed(t.n_rows, node, -1)}),
    "a tree without a root": ("tree_size", lambda t, node, own: {"tree_size": np.append(t.tree_size, 0)}),
    "a negative tree": (
        "tree_size",
        lambda t, node, own: {"tree_size": np.append(changed(t.tree_size, 0, t.tree_size[0] + 1), -1)},
    ),
    "trees of other sizes": (
        "left",
        lambda t, node, own: {"tree_size": changed(changed(t.tree_size, 0, 1), 1, t.tree_size[:2].sum() - 1)},
    ),
    "more nodes than there are": (
        "left",
        lambda t, node, own: {"tree_size": changed(t.tree_size, 0, t.tree_size[0] + 1)},
    ),
    "fewer nodes than there are": ("left", lambda t, node, own: {"tree_size": t.tree_size[:-1]}),
    "nodes missing on the right": ("right", lambda t, node, own: {"right": t.right[:-1]}),
    "thresholds missing": ("threshold", lambda t, node, own: {"threshold": t.threshold[:-1]}),
    "no node at all": ("tree_size", lambda t, node, own: {"left": t.left[:0]}),
}


@pytest.mark.parametrize("damage", sorted(DAMAGES))
def test_a_table_that_cannot_be_walked_is_refused_by_the_name_of_the_array(
    damage: str, forest_of: Callable[[str], Any]
) -> None:
    table = forest_of("oblique").table
    table.check(samples.N_COLUMNS)
    node = inner_of(table)
    name, change = DAMAGES[damage]
    broken = replace(table, **change(table, node, node - int(table.tree_start[1])))
    with pytest.raises(ArtifactError, match=rf"^{name}\b"):
        broken.check(samples.N_COLUMNS)


WRAPPED = """
import numpy as np
from distforest.errors import ArtifactError
from distforest.forest.node_table import NodeTable
sizes = np.array([2**62, 2**62, 2**62, 2**62 + 3])  # 3 modulo 2^64
leaf, ints, floats = np.full(3, -1, np.int32), np.zeros(3, np.int32), np.zeros(3)
table = NodeTable(sizes, leaf, leaf, floats, ints, ints[:0], floats[:0], floats, np.ones(3, np.int64))
try:
    table.check(5)
except ArtifactError as error:
    print(error)
"""


@pytest.mark.slow
def test_tree_sizes_whose_sum_wraps_around_are_refused() -> None:
    done = subprocess.run([sys.executable, "-c", WRAPPED], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("tree_size")


def test_a_refusal_names_the_place(forest_of: Callable[[str], Any]) -> None:
    table = forest_of("labels").table
    node = inner_of(table)
    broken = replace(table, threshold=changed(table.threshold, node, np.nan))
    with pytest.raises(ArtifactError, match=rf"^threshold\[{node}\]: "):
        broken.check(samples.N_COLUMNS)
    with pytest.raises(ArtifactError, match=r"^columns\[\d+\]: .*0\.\.0"):
        table.check(1)
