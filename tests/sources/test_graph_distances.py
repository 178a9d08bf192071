"""Sparse adjacency matrices are read as dense ones are; edges and graph objects become matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest import Graph
from distforest.errors import DistforestWarning, InputError
from distforest.sources.readings import DIRECTIONS, known_entries, read_level
from distforest.sources.truth import Truth
from tests.messages import naming

FORMATS = ("csr", "csc", "coo", "lil", "dok")


def random_links(n: int, share: float, seed: int, largest: float, symmetric: bool) -> np.ndarray:
    """A matrix of links, of which about a share is not 0."""
    rng = np.random.default_rng(seed)
    matrix = np.where(rng.random((n, n)) < share, rng.uniform(0.0, largest, (n, n)), 0.0)
    return np.maximum(matrix, matrix.T) if symmetric else matrix


@settings(max_examples=80, deadline=None)
@given(
    n=st.integers(1, 12),
    share=st.sampled_from([0.0, 0.2, 0.6, 1.0]),
    seed=st.integers(0, 2**32 - 1),
    absent=st.sampled_from([1.0, 3.0, 1e4]),
    diagonal=st.sampled_from([None, 0.0, 0.5, 1.0]),
    directed=st.sampled_from(DIRECTIONS),
    kind=st.sampled_from(FORMATS),
    symmetric=st.booleans(),
)
@pytest.mark.filterwarnings("ignore::distforest.errors.DistforestWarning")
def test_a_sparse_matrix_is_read_as_the_dense_one(
    n: int,
    share: float,
    seed: int,
    absent: float,
    diagonal: float | None,
    directed: str,
    kind: str,
    symmetric: bool,
) -> None:
    matrix = random_links(n, share, seed, 1.0, symmetric)
    given = Graph(matrix, absent, diagonal, directed)
    dense, reading = read_level(matrix, given.reading)
    found = Truth.from_given(Graph(scipy.sparse.coo_array(matrix).asformat(kind), absent, diagonal, directed))
    assert found.graph is not None
    np.testing.assert_array_equal(found.graph.dense(), dense)
    np.testing.assert_array_equal(found.values, dense)
    assert (found.offset, found.largest) == (reading.offset, known_entries(dense, reading).largest)
    assert (found.graph.stored.data != found.graph.absent).all()
    left, right = np.divmod(np.arange(n * n), n)
    np.testing.assert_array_equal(found.distances(left, right), dense.reshape(-1).astype(np.float64) + found.offset)


@pytest.mark.parametrize(("directed", "expected"), [("mean", 0.75), ("either", 0.5), ("both", 1.0)])
def test_directions_are_joined_as_said(directed: str, expected: float) -> None:
    one_way = scipy.sparse.coo_array(([0.5], ([0], [1])), (2, 2))
    for matrix in (one_way, one_way.toarray()):
        np.testing.assert_array_equal(Graph(matrix, directed=directed).matrix(), [[1.0, expected], [expected, 1.0]])
        with pytest.warns(DistforestWarning, match=naming(0.5, "directed='mean'")):
            Truth.from_given(Graph(matrix))


def test_stored_zeros_are_no_links() -> None:
    zeros = scipy.sparse.coo_array(([1.0, 1.0, 0.0], ([0, 1, 2], [1, 0, 1])), (3, 3))
    found = Truth.from_given(Graph(zeros)).graph
    assert found is not None
    assert len(found.stored.data) == 2


@pytest.mark.parametrize(
    ("matrix", "named"),
    [
        ([[0, 2], [2, 0]], "2 at row 0, column 1"),
        ([[0, -1], [-1, 0]], "-1 at row 0, column 1"),
        ([[0, np.nan], [np.nan, 0]], "NaN at row 0, column 1"),
        ([[0, 1, 0], [1, 0, 0]], "square"),
        ([[0, 1j], [1j, 0]], "complex"),
    ],
)
def test_what_is_refused(matrix: Any, named: str) -> None:
    with pytest.raises(InputError, match=named):
        Truth.from_given(Graph(scipy.sparse.csr_array(np.array(matrix))))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"absent": 0.0}, ["absent: ", "1e-30"]),
        ({"diagonal": 1.5}, ["diagonal: ", "absent=1", 1.5]),
        ({"absent": "1"}, ["absent: ", "1e-30", "1e+30", "'1'"]),
        ({"directed": "max"}, ["directed: ", "'mean'", "'either'", "'both'", "'max'"]),
    ],
)
def test_options_are_checked(options: dict[str, Any], named: list[object]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        Graph(np.eye(2), **options)


def test_rows_of_a_sparse_graph_take_their_columns_with_them() -> None:
    matrix = random_links(6, 0.5, 0, 1.0, symmetric=True)
    some = Graph(scipy.sparse.csr_array(matrix), 2.0, 0.5, "both")[[4, 1]]
    np.testing.assert_array_equal(some.matrix(), Graph(matrix[np.ix_([4, 1], [4, 1])], 2.0, 0.5, "both").matrix())
    assert (len(some), some.shape) == (2, (2, 2))
    with pytest.raises(InputError, match="square"):
        Graph(scipy.sparse.csr_array(np.ones((2, 3))))[:1]


# --- edges ------------------------------------------------------------------------------------------------


def test_edges_link_both_ways_unless_they_are_directed() -> None:
    edges = [[0, 1, 0.5], [2, 1, 0.25], [1, 0, 0.5], [2, 2, 1.0]]
    expected = [[1.0, 0.5, 1.0], [0.5, 1.0, 0.75], [1.0, 0.75, 0.0]]
    assert Graph.of_edges(edges, 3).matrix().tolist() == expected
    directed = Graph.of_edges(edges, 3, directed="both")
    assert directed.matrix().tolist() == [[1.0, 0.5, 1.0], [0.5, 1.0, 1.0], [1.0, 1.0, 0.0]]
    assert Graph.of_edges(np.empty((0, 2), int), 2, diagonal=0.0).matrix().tolist() == [[0.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize(
    ("edges", "named"),
    [
        ([[0, 3]], ["0 to 2", "[0, 3] in row 0"]),
        ([[0, 1], [-1, 0]], ["[-1, 0] in row 1"]),
        ([[0, 0.5]], ["[0.0, 0.5] in row 0"]),
        ([[0, 1, 1.0], [1, 0, 0.5]], ["0 and 1 ", "1 in row 0", "0.5 in row 1"]),
        ([0, 1], ["(n_edges, 2)", "(n_edges, 3)"]),
        ([["a", "b"]], ["shape"]),
    ],
)
def test_edges_that_are_refused(edges: Any, named: list[str]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        Graph.of_edges(edges, 3)


def test_a_graph_of_networkx_in_the_order_of_its_nodes() -> None:
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph([("a", "b", {"weight": 0.5}), ("b", "c")])
    found = Graph.of_networkx(graph, ["c", "b", "a"])
    np.testing.assert_array_equal(found.matrix(), 1.0 - networkx.to_numpy_array(graph, ["c", "b", "a"]))
    np.testing.assert_array_equal(Graph.of_networkx(graph, ["a", "c"]).matrix(), np.ones((2, 2)))
    assert Graph.of_networkx(graph, "ab", weight=None).matrix()[0, 1] == 0.0
    one_way = networkx.DiGraph([("a", "b")])
    assert Graph.of_networkx(one_way, "ab", directed="either").matrix()[0, 1] == 0.0
    assert Graph.of_networkx(one_way, "ab", directed="both").matrix()[0, 1] == 1.0
    with pytest.raises(InputError, match=naming("'z'", 1)):
        Graph.of_networkx(graph, "az")
    with pytest.raises(InputError, match="weight"):
        Graph.of_networkx(networkx.MultiGraph([("a", "b", {"weight": 0.5}), ("a", "b")]), "ab")
