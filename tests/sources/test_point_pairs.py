"""Columns of pairs are those of the formulas, bit for bit and in either order; what is no pair is refused."""

from __future__ import annotations

import pickle

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.sources.arrays import PROJECTED_ROWS
from distforest.sources.comparisons import RecordComparison
from distforest.sources.kernels import presence
from distforest.sources.named_links import check_named_links
from distforest.sources.point_pairs import (
    DISSIMILAR,
    FAMILIES,
    LARGEST_FEATURE,
    REDUCTIONS,
    SIMILAR,
    PairColumns,
    PointPairs,
    check_pairs,
    check_points,
    codes_of_links,
    named,
)
from distforest.sources.schema import ColumnKind, FeatureColumn, Schema
from distforest.sources.source import Projections, Source, offsets, project_entries
from tests.messages import naming
from tests.reference import naive_trees_of_pairs as ref
from tests.sources.helpers import whole
from tests.tries import tries

pytestmark = pytest.mark.kernels

FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-45]), st.floats(-LARGEST_FEATURE, LARGEST_FEATURE, width=32)
)
WORDS = st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.0])


def matrix(draw: st.DrawFn, n: int, width: int, numbers: st.SearchStrategy[float]) -> np.ndarray:
    rows = st.lists(st.lists(numbers, min_size=width, max_size=width), min_size=n, max_size=n)
    return np.array(draw(rows), np.float32).reshape(n, width)


@st.composite
def points_and_pairs(draw: st.DrawFn) -> tuple[PointPairs, np.ndarray]:
    """Some pairs of points with up to three further blocks, and the table of the reference."""
    n, p, family = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.sampled_from(FAMILIES))
    X = matrix(draw, n, p, FLOATS)
    blocks = [
        (kind, draw(st.integers(1, 3))) for kind in sorted(draw(st.lists(st.sampled_from(REDUCTIONS), max_size=3)))
    ]
    parts = [matrix(draw, n, size, WORDS) for _, size in blocks]
    number = st.integers(0, n - 1)
    pairs = np.array(draw(st.lists(st.tuples(number, number), min_size=1, max_size=8)))
    by_kind = {kind: [part for (own, _), part in zip(blocks, parts, strict=True) if own == kind] for kind in REDUCTIONS}
    table = ref.pair_table(X, pairs, family, by_kind["dot"], by_kind["same"], by_kind["distance"])
    found = PointPairs.from_points(PairColumns(family, p, tuple(blocks)), np.hstack([X, *parts]), pairs)
    return found, table


def turned(source: PointPairs) -> PointPairs:
    """The pairs (x', x)."""
    return PointPairs(source.columns, source.others, source.points, source.right, source.left)


@settings(max_examples=tries(50))
@given(points_and_pairs())
def test_columns_are_those_of_the_formulas(given_: tuple[PointPairs, np.ndarray]) -> None:
    source, table = given_
    found = whole(source)
    assert isinstance(source, Source)
    assert source.shape == table.shape
    assert found.dtype == np.float64
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found, table.astype(np.float64))


@settings(max_examples=tries(50))
@given(points_and_pairs())
def test_a_pair_has_one_value_in_either_order_bit_for_bit(given_: tuple[PointPairs, np.ndarray]) -> None:
    source, _ = given_
    assert whole(source).tobytes() == whole(turned(source)).tobytes()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_sign_of_zero_does_not_tell_the_order(family: str) -> None:
    points = np.array([[0.0], [-0.0]], np.float32)
    both = whole(PointPairs.from_points(PairColumns(family, 1), points, [[0, 1], [1, 0]]))
    assert both[0].tobytes() == both[1].tobytes()
    assert not np.signbit(both).any()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_largest_numbers_that_are_let_in_have_finite_columns(family: str) -> None:
    points = np.array([[LARGEST_FEATURE], [-LARGEST_FEATURE], [LARGEST_FEATURE]], np.float32)
    check_points(points)
    found = whole(PointPairs.from_points(PairColumns(family, 1), points, [[0, 1], [0, 2], [1, 1]]))
    assert np.isfinite(found).all()
    with pytest.raises(InputError, match=naming("1.70141e+38", "3e+38")):
        check_points(np.array([[0.0, -3e38]], np.float32))
    check_points(np.empty((0, 2), np.float32))


@pytest.mark.slow
@settings(max_examples=tries(60))
@given(points_and_pairs(), st.data())
def test_projections_are_sums_of_entries(given_: tuple[PointPairs, np.ndarray], data: st.DataObject) -> None:
    source, _ = given_
    n, width = source.shape
    sizes = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
    rows = data.draw(st.lists(st.integers(0, n - 1), min_size=sum(sizes), max_size=sum(sizes)))
    n_candidates = data.draw(st.integers(1, 3))
    terms = data.draw(st.lists(st.integers(0, 3), min_size=3 * n_candidates, max_size=3 * n_candidates))
    terms = terms[: len(sizes) * n_candidates]
    columns = data.draw(st.lists(st.integers(0, width - 1), min_size=sum(terms), max_size=sum(terms)))
    weights = np.array([0.5, -1.0, 2.0] * len(columns))[: len(columns)]
    projections = Projections(n_candidates, offsets(np.array(terms)), np.array(columns, np.int32), weights)
    asked = (np.array(rows, np.int32), offsets(np.array(sizes)), projections)
    np.testing.assert_array_equal(source.project(*asked), project_entries(source, *asked))


@pytest.mark.parametrize("size", [PROJECTED_ROWS - 1, PROJECTED_ROWS, PROJECTED_ROWS + 1, 2 * PROJECTED_ROWS + 5])
def test_nodes_longer_than_a_block_are_projected_whole(size: int) -> None:
    rng = np.random.default_rng(size)
    source = PointPairs.from_points(
        PairColumns("difference_mean", 2), rng.normal(size=(9, 2)), rng.integers(0, 9, (size, 2))
    )
    rows = rng.permutation(size).astype(np.int32)
    projections = Projections(2, np.arange(3), np.array([1, 2], np.int32), np.ones(2))
    values = source.project(rows, np.array([0, size]), projections)
    np.testing.assert_array_equal(values, whole(source)[rows][:, [1, 2]].T)


def test_pairs_of_two_sets_of_points() -> None:
    points, others = np.array([[1.0], [4.0]]), np.array([[0.0], [2.0], [7.0]])
    source = PointPairs.from_points(PairColumns("difference_mean", 1), points, [[0, 2], [1, 0]], others)
    assert whole(source).tolist() == [[6.0, 4.0], [4.0, 2.0]]
    assert whole(source.of_pairs(source.left[:1], source.right[1:])).tolist() == [[1.0, 0.5]]
    assert source.of_pairs(source.left[:0], source.right[:0]).shape == (0, 2)


def test_kernels_are_compiled_once_for_points_of_this_process_and_of_workers() -> None:
    points = np.array([[0.0, 3.0], [1.0, 1.0]], np.float32)
    pairs = PointPairs.from_points(PairColumns("difference_mean", 2), points, [[0, 1]])
    columns, numbers = pairs.columns, pairs.left
    for same in (pickle.loads(pickle.dumps(pairs)), PointPairs(columns, points, points, numbers, numbers)):
        assert numba.typeof(same.reading) == numba.typeof(pairs.reading)


def test_points_are_held_once_as_they_are() -> None:
    points = np.arange(6, dtype=np.float32).reshape(3, 2)
    source = PointPairs.from_points(PairColumns("difference", 2), points, [[0, 1]])
    assert np.shares_memory(source.points, points)
    assert source.others is source.points
    assert not source.points.flags.writeable
    points[0, 0] = 7  # the user's own array stays theirs


@pytest.mark.parametrize(
    ("columns", "n_columns", "width"),
    [
        (PairColumns("difference", 3), 3, 3),
        (PairColumns("difference_mean", 3), 6, 3),
        (PairColumns("max_min", 2, (("same", 4), ("dot", 1))), 6, 7),
    ],
)
def test_columns_are_said_in_a_forest_s_meaning(columns: PairColumns, n_columns: int, width: int) -> None:
    assert (columns.n_columns, columns.width) == (n_columns, width)
    rows = columns.to_dict()
    assert (rows["kind"], rows["n_columns"], rows["n_features"]) == ("pairs", n_columns, columns.n_features)
    assert PairColumns.from_dict(rows) == columns


def test_columns_have_names() -> None:
    assert named(PairColumns("difference", 2), "ab", []) == ["|d a|", "|d b|"]
    assert named(PairColumns("difference_mean", 2), "ab", []) == ["|d a|", "|d b|", "mean(a)", "mean(b)"]
    assert named(PairColumns("max_min", 1, (("dot", 3),)), "a", ["dot"]) == ["max(a)", "min(a)", "dot"]


# --- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.int64])
def test_pairs_are_taken_as_int32(dtype: type) -> None:
    found = check_pairs(np.array([[0, 4], [4, 0], [0, 4]], dtype), 5)
    assert (found.dtype, found.tolist()) == (np.int32, [[0, 4], [4, 0], [0, 4]])
    assert check_pairs(np.empty((0, 2), dtype), 5).shape == (0, 2)


@pytest.mark.parametrize(
    ("pairs", "named"),
    [
        ([[0, 1, 2]], ["(n_pairs, 2)", "int64 (1, 3)"]),
        ([0, 1], ["int64 (2,)"]),
        ([[0.0, 1.0]], ["float64 (1, 2)"]),
        ([["0", "1"]], ["<U1"]),
        ([[0, 1], [1, 5]], ["0..4", "5 in pair 1"]),
        ([[0, 1], [-1, 5]], ["-1 in pair 1"]),
        ([[0, 2**40]], ["1099511627776 in pair 0"]),
        ([[0, 1], [3, 3], [2, 2]], ["point 3 ", "pair 1"]),
    ],
)
def test_what_is_no_pair_is_refused(pairs: list[object], named: list[str]) -> None:
    with pytest.raises(InputError, match=naming("pairs: ", *named)):
        check_pairs(np.array(pairs), 5)


@pytest.mark.parametrize("similar", [[True, False, True], [1, 0, 1], [1, -1, 1], [1.0, 0.0, 1.0], [1.0, -1.0, 1.0]])
def test_links_are_classes(similar: list[object]) -> None:
    codes = codes_of_links(similar)
    assert (codes.dtype, codes.tolist()) == (np.uint8, [SIMILAR, DISSIMILAR, SIMILAR])


@pytest.mark.parametrize(
    ("similar", "found"),
    [
        ([0, 1, -1], "[-1, 0, 1]"),
        ([1.0, np.nan], "pair 1"),
        (["yes", "no"], "['<U3']"),
        ([True, None], "pair 1"),
        ([[True], [False]], "(2, 1)"),
    ],
)
def test_other_links_are_refused(similar: object, found: str) -> None:
    with pytest.raises(InputError, match=naming("similar: ", True, False, found)):
        codes_of_links(similar)


@pytest.mark.parametrize("names", [["no", "yes"], ["cannot", "must"], ["Cannot", "Must"], ["n", "y"]])
def test_words_that_tell_which_pairs_are_similar_are_links(names: list[str]) -> None:
    check_named_links(names)


def test_words_that_do_not_tell_are_refused() -> None:
    with pytest.raises(InputError, match="order"):
        check_named_links(["linked", "unlinked"])


def test_what_points_have_follows_the_pairs_that_comparisons_number() -> None:
    points = np.array([[0.0, 1.0], [np.nan, 1.0], [2.0, np.nan]], np.float32)
    schema = Schema(tuple(FeatureColumn(name, ColumnKind.NUMBER) for name in "ab"))
    comparison = RecordComparison("absolute_difference", (0,))
    columns = PairColumns("difference_mean", 2, comparisons=(comparison,), schema=schema)
    left, right = np.array([0, 1, 0, 2], np.int32), np.array([1, 2, 2, 1], np.int32)
    pairs = PointPairs(columns, points, points, left, right)
    observed = pairs.observed.other[pairs.reading.right]
    np.testing.assert_array_equal(observed, presence(points, points).other[right])
