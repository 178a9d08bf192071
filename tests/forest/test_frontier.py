"""The frontier against plain loops over nodes and rows."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.forest.frontier import LEFT, RIGHT, STAY, Frontier, decide
from tests import samples
from tests.tries import tries

pytestmark = pytest.mark.kernels

FREE = settings(max_examples=tries(80))


@st.composite
def frontiers(draw: st.DrawFn) -> Frontier:
    """Nodes of any sizes, empty ones too."""
    sizes = draw(st.lists(st.integers(0, 5), max_size=5))
    rows = [draw(st.lists(st.integers(0, 99), min_size=size, max_size=size)) for size in sizes]
    weights = [draw(st.lists(st.integers(1, 9), min_size=size, max_size=size)) for size in sizes]
    return samples.level(rows, weights)


def rows_by_node(frontier: Frontier) -> list[tuple[int, int, list[tuple[int, int]]]]:
    """(tree, node, its rows with their weights), node by node."""
    pairs = list(zip(frontier.rows.tolist(), frontier.weights.tolist(), strict=True))
    starts = frontier.starts.tolist()
    groups = [pairs[first:last] for first, last in itertools.pairwise(starts)]
    return list(zip(frontier.tree.tolist(), frontier.node.tolist(), groups, strict=True))


@FREE
@given(st.lists(st.lists(st.integers(0, 5), min_size=4, max_size=4), max_size=4))
def test_roots_hold_the_rows_of_positive_weight(weights: list[list[int]]) -> None:
    frontier = Frontier.roots(np.array(weights, np.int32).reshape(-1, 4))
    expected = [(tree, 0, [(r, w) for r, w in enumerate(own) if w]) for tree, own in enumerate(weights)]
    assert rows_by_node(frontier) == expected
    assert frontier.n_nodes == len(weights)
    assert (frontier.rows.dtype, frontier.weights.dtype, frontier.starts.dtype) == (np.int32, np.int32, np.int64)


@FREE
@given(frontiers(), st.data())
def test_nodes_are_taken_weighed_and_sliced(frontier: Frontier, data: st.DataObject) -> None:
    nodes = rows_by_node(frontier)
    assert frontier.weight.tolist() == [sum(w for _, w in group) for _, _, group in nodes]
    assert frontier.place.tolist() == [place for place, (_, _, group) in enumerate(nodes) for _ in group]
    which = data.draw(st.lists(st.booleans(), min_size=len(nodes), max_size=len(nodes)))
    taken, held = frontier.take(np.array(which, np.bool_))
    assert rows_by_node(taken) == [node for node, wanted in zip(nodes, which, strict=True) if wanted]
    inside = np.zeros(len(frontier.rows), np.bool_)
    inside[held] = True
    assert inside.tolist() == [w for (_, _, group), w in zip(nodes, which, strict=True) for _ in group]
    assert frontier.rows[held].tolist() == taken.rows.tolist()
    assert frontier.weights[held].tolist() == taken.weights.tolist()
    first = data.draw(st.integers(0, len(nodes)))
    last = data.draw(st.integers(first, len(nodes)))
    assert rows_by_node(frontier.slice(first, last)) == nodes[first:last]


@FREE
@given(frontiers(), st.data())
def test_rows_descend_in_their_order_and_those_that_stay_are_gone(frontier: Frontier, data: st.DataObject) -> None:
    nodes, m = rows_by_node(frontier), len(frontier.rows)
    side = data.draw(st.lists(st.sampled_from([LEFT, RIGHT, STAY]), min_size=m, max_size=m))
    left = np.arange(10, 10 + 2 * len(nodes), 2, dtype=np.int32)
    found = rows_by_node(frontier.descend(np.array(side, np.int8), left, left + np.int32(1)))
    expected, sides = [], iter(side)
    for place, (tree, _, group) in enumerate(nodes):
        own = [(row, next(sides)) for row in group]
        expected += [
            (tree, 10 + 2 * place + wanted, [row for row, s in own if s == wanted]) for wanted in (LEFT, RIGHT)
        ]
    assert found == expected


@FREE
@given(frontiers(), st.data())
def test_a_row_goes_left_up_to_the_threshold_and_stays_where_nothing_is_observed(
    frontier: Frontier, data: st.DataObject
) -> None:
    numbers = st.sampled_from([0.0, -0.0, 1.0, float(np.nextafter(1, 2)), -math.inf, math.inf, math.nan])
    m = len(frontier.rows)
    values = np.array(data.draw(st.lists(numbers, min_size=m, max_size=m)), np.float64)
    limits = st.lists(st.sampled_from([0.0, 1.0, -2.0]), min_size=frontier.n_nodes, max_size=frontier.n_nodes)
    threshold = np.array(data.draw(limits), np.float64)
    side = np.full(m, 9, np.int8)
    decide(frontier.starts, values, threshold, side)
    expected = [
        STAY if math.isnan(v) else LEFT if v <= threshold[node] else RIGHT
        for v, node in zip(values.tolist(), frontier.place.tolist(), strict=True)
    ]
    assert side.tolist() == expected
