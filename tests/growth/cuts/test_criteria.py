"""Every criterion against the sums of naive.py, done from scratch in exact numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.growth.cuts import mean_distance
from distforest.growth.cuts.criteria import Gini, Variance, gini_gain
from distforest.growth.cuts.mean_distance import MeanDistance
from distforest.growth.cuts.scan import Cuts, keep_best
from tests import samples
from tests.messages import naming
from tests.reference import naive
from tests.tries import tries

if TYPE_CHECKING:
    from collections.abc import Callable

    from distforest.forest.frontier import Frontier
    from distforest.growth.cuts.criteria import Criterion

pytestmark = pytest.mark.kernels

UP = float(np.nextafter(1.0, 2.0))
VALUES = [0.0, -0.0, 1.0, UP, 2.0, -1.5, 5e-324, math.nan]
SCALARS = st.sampled_from([-3.0, -1.0, 0.0, 0.125, 0.5, 1.0, 2.0, 7.0])
NUMBERS = st.one_of(st.just(0.0), st.floats(2.0**-30, 10, width=32))
TARGETS = st.floats(-1e3, 1e3).filter(lambda y: y == 0.0 or abs(y) > 1e-9)
FREE = settings(max_examples=tries(60))


@dataclass(frozen=True)
class Search:
    """Some nodes of one level with their candidates' values."""

    n: int
    rows: list[list[int]]
    weights: list[list[int]]
    values: np.ndarray
    min_leaf: int

    @property
    def frontier(self) -> Frontier:
        return samples.level(self.rows, self.weights)

    def expected(self, best_cut: Callable[[np.ndarray, list[int], list[int]], naive.Found]) -> list[naive.Found]:
        """The reference's cut of each node, from its own values, rows and weights."""
        begin, found = 0, []
        for rows, weights in zip(self.rows, self.weights, strict=True):
            found.append(best_cut(self.values[:, begin : begin + len(rows)], rows, weights))
            begin += len(rows)
        return found


@st.composite
def searches(draw: st.DrawFn) -> Search:
    n = draw(st.integers(1, 8))
    rows = draw(st.lists(st.lists(st.integers(0, n - 1), min_size=1, unique=True), min_size=1, max_size=3))
    weights = [draw(st.lists(st.integers(1, 5), min_size=len(own), max_size=len(own))) for own in rows]
    width, m = draw(st.integers(1, 3)), sum(map(len, rows))
    one = st.sampled_from(VALUES) if draw(st.booleans()) else st.one_of(st.floats(-9, 9), st.just(math.nan))
    values = [draw(st.lists(one, min_size=m, max_size=m)) for _ in range(width)]
    return Search(n, rows, weights, np.array(values, np.float64), draw(st.integers(1, 4)))


def line(values: list[float], weights: list[int] | None = None, min_leaf: int = 1) -> Search:
    """One node with one candidate."""
    n = len(values)
    return Search(n, [list(range(n))], [weights or [1] * n], np.array([values]), min_leaf)


def cut(criterion: Criterion, search: Search) -> Cuts:
    return criterion.cut(search.frontier, search.values, search.min_leaf)


def assert_cuts(criterion: Criterion, search: Search, expected: list[naive.Found]) -> None:
    found = cut(criterion, search)
    assert found.candidate.tolist() == [candidate for candidate, _, _ in expected]
    assert found.threshold.tolist() == [threshold for _, threshold, _ in expected]
    np.testing.assert_allclose(
        found.gain.clip(0) * criterion.unit, [gain for _, _, gain in expected], rtol=1e-10, atol=1e-11
    )


def codes_of(search: Search, data: st.DataObject, n_classes: int = 3) -> np.ndarray:
    return np.array(data.draw(st.lists(st.integers(0, n_classes - 1), min_size=search.n, max_size=search.n)), np.int32)


def symmetric(n: int, numbers: st.SearchStrategy[float], data: st.DataObject) -> np.ndarray:
    """Distances with any diagonal."""
    z = np.zeros((n, n), np.float32)
    for i in range(n):
        z[i, : i + 1] = z[: i + 1, i] = data.draw(st.lists(numbers, min_size=i + 1, max_size=i + 1))
    return z


def of_distances(z: np.ndarray) -> MeanDistance:
    return MeanDistance.from_distances(z, float(np.abs(z).max()))


# --- the best cut -----------------------------------------------------------------------------------------


@FREE
@given(searches(), st.data())
def test_gini(search: Search, data: st.DataObject) -> None:
    codes = codes_of(search, data)
    expected = search.expected(lambda values, rows, w: naive.best_cut_labels(values, codes[rows], w, search.min_leaf))
    assert_cuts(Gini(codes, 3), search, expected)


@pytest.mark.parametrize("least", [0.0, 3.0])
def test_of_cuts_whose_gains_differ_by_rounding_the_first_is_kept(least: float) -> None:
    cuts = Cuts(np.array([0], np.int32), np.array([0.25]), np.array([least]), np.zeros(1, np.int8))
    for gain in (least, least * (1.0 + 1e-15), least * (1.0 + 1e-13)):
        keep_best(0, 1, 1.0, 2.0, gain, cuts)
        assert [part.tolist() for part in cuts[:3]] == [[0], [0.25], [least]]
    keep_best(0, 1, 1.0, 2.0, least * (1.0 + 1e-11) + 1e-11, cuts)
    assert (cuts.candidate.tolist(), cuts.threshold.tolist()) == ([1], [1.5])


def test_a_gini_gain_that_is_rounding_is_none() -> None:
    """Sides of (2, 3) and (4, 6) rows of two classes: what is left of three divisions is 9e-16."""
    inside = (5 * 5 - 13) / 5 + (10 * 10 - 52) / 10
    whole = (15 * 15 - 117) / 15
    assert whole - inside > 0.0
    assert gini_gain(whole, 5, 13, 10, 52) == 0.0
    search = line([0.0] * 5 + [1.0] * 10)
    codes = np.array([0] * 2 + [1] * 3 + [0] * 4 + [1] * 6, np.int32)
    assert cut(Gini(codes, 2), search).gain.tolist() == [0.0]


@FREE
@given(searches(), st.data(), st.sampled_from([0.5, 1.0]))
def test_variance(search: Search, data: st.DataObject, factor: float) -> None:
    q = data.draw(st.integers(1, 2))
    one = st.lists(SCALARS, min_size=q, max_size=q)
    Y = np.array(data.draw(st.lists(one, min_size=search.n, max_size=search.n)))
    expected = search.expected(
        lambda values, rows, w: naive.best_cut_embedding(values, Y[rows], w, search.min_leaf, factor)
    )
    assert_cuts(Variance.from_vectors(Y, factor), search, expected)


@FREE
@given(searches(), st.data(), st.booleans())
def test_mean_distance(search: Search, data: st.DataObject, small: bool) -> None:
    numbers = st.sampled_from([0.0, 1.0, 2.0, 0.5]) if small else NUMBERS
    z = symmetric(search.n, numbers, data)
    criterion, largest = of_distances(z), float(z.max())

    def best_cut(values: np.ndarray, rows: list[int], w: list[int]) -> naive.Found:
        block = z[np.ix_(rows, rows)]
        return naive.best_cut_dense(values, block, w, search.min_leaf, naive.node_bits(block, largest))

    expected = search.expected(best_cut)
    assert_cuts(criterion, search, expected)
    assert_cuts(criterion.pack(search.frontier), search, expected)


@FREE
@given(searches(), st.data())
def test_a_cut_of_any_targets_is_as_good_as_the_best(search: Search, data: st.DataObject) -> None:
    Y = np.array(data.draw(st.lists(TARGETS, min_size=search.n, max_size=search.n)))[:, None]
    criterion = Variance.from_vectors(Y, 0.5)
    found = cut(criterion, search)
    begin = 0
    for node, (rows, w) in enumerate(zip(search.rows, search.weights, strict=True)):
        own = search.values[:, begin : begin + len(rows)]
        cuts = naive.every_cut(own, naive.embedding_pairs(Y[rows], 0.5), w, search.min_leaf)
        best = max((c.gain for c in cuts), default=0)
        if found.candidate[node] >= 0:
            chosen = [c for c in cuts if c[:2] == (found.candidate[node], found.threshold[node])]
            assert len(chosen) == 1
            assert float(chosen[0].gain) >= float(best) * (1 - 1e-9)
            assert found.gain[node] * criterion.unit == pytest.approx(float(chosen[0].gain), rel=1e-6)
        else:
            assert not cuts
        begin += len(rows)


@pytest.mark.parametrize(
    ("targets", "values"),
    [
        ([0.1, 0.2, -0.3, 0.3, -0.3, 0.0], [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]),  # gains 1e-34 of terms of 0.3: rounding
        ([-1.0, 1.0, 1 - 3e-13, 1 - 3e-13], [math.nan, 0.0, 1.0, 1.0]),  # gains all that there is
    ],
)
def test_what_is_rounding_is_judged_by_the_terms_of_the_gain(targets: list[float], values: list[float]) -> None:
    Y, search = np.array(targets)[:, None], line(values)
    expected = naive.best_cut_embedding(search.values, Y, search.weights[0], 1, 0.5)
    found = cut(Variance.from_vectors(Y, 0.5), search)
    assert (found.candidate.tolist(), found.gain.tolist() == [0.0]) == ([expected[0]], expected[2] == 0.0)


@pytest.mark.parametrize("size", [1e-140, 1e-30, 1e30, 1e140])
def test_targets_of_any_size_are_cut_alike(size: float) -> None:
    criterion = Variance.from_vectors(np.array([[0.0], [1.0], [4.0]]) * size, 0.5)
    found = cut(criterion, line([0.0, 1.0, 2.0]))
    assert (found.candidate[0], found.threshold[0]) == (0, 1.5)
    assert found.gain[0] * criterion.unit == pytest.approx(24.5 / 3 * size**2)


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_targets_whose_squares_have_no_float_are_refused(size: float) -> None:
    with pytest.raises(InputError, match=naming("targets", "1e-150", "1e150")):
        Variance.from_vectors(np.array([[0.0], [1.0], [-1.0]]) * size, 0.5)


# --- rules that hold for all ------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [1, 4, 7])
@pytest.mark.parametrize("kind", ["labels", "targets", "distances"])
def test_a_planted_cut_is_found(kind: str, where: int) -> None:
    rng = np.random.default_rng(where)
    side = (np.arange(9) >= where).astype(np.int32)
    order = rng.permutation(9)
    noise = rng.normal(size=(4, 9))
    values = np.insert(noise, 2, np.arange(9.0), axis=0)[:, order]
    search = Search(9, [list(range(9))], [[1, 2, 1, 3, 1, 1, 2, 1, 1]], values, 1)
    truth = side[order]
    criterion: Any = {
        "labels": Gini(truth, 2),
        "targets": Variance.from_vectors(5.0 * truth[:, None] + 1.0, 0.5),
        "distances": of_distances(np.abs(truth[:, None] - truth).astype(np.float32) + np.float32(0.25)),
    }[kind]
    found = cut(criterion, search)
    assert (found.candidate[0], found.threshold[0]) == (2, where - 0.5)


def criteria_of(codes: np.ndarray) -> list[Criterion]:
    """One truth, judged in three ways."""
    z = (codes[:, None] != codes).astype(np.float32)
    return [Gini(codes, 3), Variance.from_vectors(np.eye(3)[codes], 0.5), MeanDistance.from_distances(z, 1.0)]


@FREE
@given(searches(), st.data())
def test_distances_made_of_labels_cut_as_labels_do_to_the_bit(search: Search, data: st.DataObject) -> None:
    codes = codes_of(search, data)
    gini, variance, dense = criteria_of(codes)
    by_labels, by_distances, by_vectors = cut(gini, search), cut(dense, search), cut(variance, search)
    for own, other in zip(by_labels[:2], by_distances[:2], strict=True):
        assert own.tobytes() == other.tobytes()
    is_cut = by_labels.candidate >= 0
    assert (by_distances.gain * dense.unit)[is_cut].tobytes() == by_labels.gain[is_cut].tobytes()
    assert by_vectors.candidate.tolist() == by_labels.candidate.tolist()
    assert by_vectors.threshold.tolist() == by_labels.threshold.tolist()
    assert gini.impure(search.frontier).tolist() == dense.impure(search.frontier).tolist()


@FREE
@given(searches(), st.data())
def test_no_side_is_lighter_than_min_leaf_and_both_are_observed(search: Search, data: st.DataObject) -> None:
    for criterion in criteria_of(codes_of(search, data)):
        found = cut(criterion, search)
        begin = 0
        for node, (rows, w) in enumerate(zip(search.rows, search.weights, strict=True)):
            if (k := found.candidate[node]) >= 0:
                own = search.values[k, begin : begin + len(rows)]
                left, right = own <= found.threshold[node], own > found.threshold[node]
                assert min(np.dot(left, w), np.dot(right, w)) >= search.min_leaf
                assert math.isfinite(found.threshold[node])
                assert found.gain[node] >= 0
            begin += len(rows)


@pytest.mark.slow
@FREE
@given(st.data(), st.lists(st.integers(1, 5), min_size=2, max_size=9))
def test_a_cut_and_its_mirror_image_gain_the_same_to_the_bit(data: st.DataObject, weights: list[int]) -> None:
    n = len(weights)
    search = line(data.draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=n, max_size=n)), weights)
    mirrored = line((-search.values[0]).tolist(), weights)
    codes = codes_of(search, data)
    for criterion in (Gini(codes, 3), of_distances(symmetric(n, NUMBERS, data))):
        found, image = cut(criterion, search), cut(criterion, mirrored)
        assert found.candidate.tolist() == image.candidate.tolist()
        assert found.gain.tobytes() == image.gain.tobytes()


def test_a_cut_of_targets_and_its_mirror_image_gain_the_same_to_the_bit() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        weights, Y = rng.integers(1, 6, 6).tolist(), rng.normal(size=(6, 2))
        values = rng.permutation([-1.0, -1.0, -1.0, 1.0, 1.0, 1.0]).tolist()
        criterion = Variance.from_vectors(Y, 0.5)
        found = cut(criterion, line(values, weights))
        image = cut(criterion, line([-v for v in values], weights))
        assert found.gain.tobytes() == image.gain.tobytes()


@pytest.mark.slow
@FREE
@given(searches(), st.data())
def test_nodes_do_not_know_of_each_other_nor_of_the_order_of_their_rows(search: Search, data: st.DataObject) -> None:
    codes = codes_of(search, data)
    z = symmetric(search.n, NUMBERS, data)
    Y = np.array(data.draw(st.lists(TARGETS, min_size=search.n, max_size=search.n)))[:, None]
    for criterion in (Gini(codes, 3), of_distances(z), Variance.from_vectors(Y, 0.5)):
        together, begin = cut(criterion, search), 0
        for node, (rows, w) in enumerate(zip(search.rows, search.weights, strict=True)):
            order = data.draw(st.permutations(range(len(rows))))
            own = search.values[:, begin : begin + len(rows)]
            alone = Search(
                search.n, [[rows[o] for o in order]], [[w[o] for o in order]], own[:, order], search.min_leaf
            )
            assert [part[0] for part in cut(criterion, alone)] == [part[node] for part in together]
            begin += len(rows)


def test_among_equal_gains_the_first_candidate_and_the_lowest_threshold_win() -> None:
    search = Search(4, [[0, 1, 2, 3]], [[1, 1, 1, 1]], np.array([[5.0] * 4, [1, 2, 3, 4], [4, 3, 2, 1]]), 1)
    for criterion in criteria_of(np.array([0, 1, 0, 1], np.int32)):  # 0|101 and 010|1 gain the same
        found = cut(criterion, search)
        assert (found.candidate[0], found.threshold[0]) == (1, 1.5)


def test_a_threshold_lies_below_the_right_side_even_where_the_middle_is_rounded() -> None:
    codes = np.array([0, 1], np.int32)
    for low, high in [(1.0, UP), (-5e-324, 0.0), (0.0, 5e-324), (-UP, -1.0)]:
        for criterion in criteria_of(codes):
            threshold = cut(criterion, line([low, high])).threshold[0]
            assert low <= threshold < high


# --- purity -----------------------------------------------------------------------------------------------


@FREE
@given(searches(), st.data())
def test_a_node_is_impure_where_two_of_its_pairs_differ(search: Search, data: st.DataObject) -> None:
    codes = codes_of(search, data, 2)
    z = symmetric(search.n, st.sampled_from([0.0, 1.0]), data)
    dense = MeanDistance.from_distances(z, 1.0)
    unlike = [len(set(codes[rows].tolist())) > 1 for rows in search.rows]
    differ = [len(np.unique(z[np.ix_(rows, rows)])) > 1 for rows in search.rows]
    assert Gini(codes, 2).impure(search.frontier).tolist() == unlike
    assert Variance.from_vectors(codes[:, None] * 2.0, 0.5).impure(search.frontier).tolist() == unlike
    assert dense.impure(search.frontier).tolist() == differ
    assert dense.pack(search.frontier).impure(search.frontier).tolist() == differ


# --- distances in fixed point -----------------------------------------------------------------------------


@FREE
@given(searches(), st.data())
def test_packed_blocks_say_what_the_matrix_says_on_this_level_and_below(search: Search, data: st.DataObject) -> None:
    criterion = of_distances(symmetric(search.n, NUMBERS, data))
    packed = criterion.pack(search.frontier)
    kept = [sorted(data.draw(st.permutations(range(len(rows))))[: 1 + len(rows) // 2]) for rows in search.rows]
    begins = np.cumsum([0, *map(len, search.rows)])
    places = [b + k for b, own in zip(begins, kept, strict=False) for k in own]
    below = Search(
        search.n,
        [[rows[k] for k in own] for rows, own in zip(search.rows, kept, strict=True)],
        [[w[k] for k in own] for w, own in zip(search.weights, kept, strict=True)],
        search.values[:, places],
        search.min_leaf,
    )
    for step in (search, below):
        expected = cut(criterion, step)
        for same in (packed, packed.pack(step.frontier)):
            assert [part.tobytes() for part in cut(same, step)] == [part.tobytes() for part in expected]
        for node in range(len(step.rows)):  # and of one node of the level alone, as in a slab
            alone = step.frontier.slice(node, node + 1)
            begin, end = step.frontier.starts[node], step.frontier.starts[node + 1]
            found = packed.cut(alone, np.ascontiguousarray(step.values[:, begin:end]), step.min_leaf)
            assert [part[0] for part in found] == [part[node] for part in expected]


def test_blocks_are_packed_where_they_lie_scattered_and_are_not_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    criterion = of_distances(samples.distances(8))
    frontier = samples.level([[0, 1, 2], [3, 4]], [[1, 1, 1], [1, 1]])
    assert criterion.at(frontier) is criterion  # a matrix so small is near as a whole
    monkeypatch.setattr(mean_distance, "NEAR_CELLS", 0)
    crowded = samples.level([[0, 1, 2, 3, 4], [3, 4]], [[1] * 5, [1] * 2])
    assert of_distances(samples.distances(5)).at(crowded).packed is None  # 29 of 50 cells
    monkeypatch.setattr(mean_distance, "PACKED_CELLS", 12)
    assert criterion.at(frontier) is criterion
    monkeypatch.setattr(mean_distance, "PACKED_CELLS", 13)
    packed = criterion.at(frontier)
    assert packed.packed is not None
    assert len(packed.packed.cells) == 13
    assert packed.at(frontier) is packed  # not half of them are gone
    single = samples.level([[0], [3]], [[1], [1]])
    again = packed.at(single)
    assert again.packed is not None
    assert len(again.packed.cells) == 2


@FREE
@given(searches(), st.data())
def test_a_weight_is_so_many_equal_rows(search: Search, data: st.DataObject) -> None:
    z, codes = symmetric(search.n, st.floats(0, 9, width=16), data), codes_of(search, data)
    largest, weights = float(np.abs(z).max()), np.concatenate(search.weights)
    places = np.repeat(np.arange(len(weights)), weights)
    of = np.concatenate(search.rows)[places]  # the row that each of the rows apart repeats
    ends = np.cumsum([sum(own) for own in search.weights])
    rows = [list(range(end - sum(own), end)) for end, own in zip(ends.tolist(), search.weights, strict=True)]
    vectors = Variance.from_vectors(codes[:, None] * 1.5, 0.5, heaviest=len(of))
    apart = Search(len(of), rows, [[1] * len(own) for own in rows], search.values[:, places], search.min_leaf)
    for weighed, repeated in (
        (Gini(codes, 3), Gini(codes[of], 3)),
        (vectors, replace(vectors, truth=vectors.truth[of])),
        (MeanDistance.from_distances(z, largest), MeanDistance.from_distances(z[np.ix_(of, of)], largest)),
    ):
        found, other = cut(weighed, search), cut(repeated, apart)
        assert [part.tobytes() for part in found] == [part.tobytes() for part in other]


@FREE
@given(searches(), st.data(), st.sampled_from([31, 1000, 2**15, 2**20]))
def test_distances_of_heavy_rows_have_fewer_digits(search: Search, data: st.DataObject, most: int) -> None:
    z = symmetric(search.n, st.floats(0, 9, width=16), data)
    heavy = [[data.draw(st.integers(1, most)) for _ in own] for own in search.rows]
    search, criterion = replace(search, weights=heavy), of_distances(z)

    def best(values: np.ndarray, rows: list[int], w: list[int]) -> naive.Found:
        block = z[np.ix_(rows, rows)]
        bits = naive.node_bits(block, float(np.abs(z).max()), naive.node_digits(w))
        return naive.best_cut_dense(values, block, w, search.min_leaf, bits)

    assert_cuts(criterion, search, search.expected(best))


@pytest.mark.parametrize("largest", [1e-6, 0.75, 1.0, 2.0**20, 1e30, 3e38])
def test_the_largest_distance_at_the_largest_multiplicity_does_not_overflow(largest: float) -> None:
    z = np.float32(largest) * (1 - np.eye(4, dtype=np.float32))
    z[0, 1] = z[1, 0] = 0
    criterion = of_distances(z)
    search = line([0.0, 0.0, 1.0, 1.0], [31, 31, 31, 31])
    bits = naive.node_bits(z, largest)
    assert 2.0**25 <= largest * 2.0**bits <= 2.0**26 * (1 + 1e-6)
    expected = naive.best_cut_dense(search.values, z, search.weights[0], 1, bits)
    assert_cuts(criterion, search, [expected])


@FREE
@given(searches(), st.data(), st.sampled_from([2.0**-30, 0.5, 4.0, 2.0**40]))
@example(line([0.0, 1.0, 2.0]), None, 2.0**-30)
def test_a_power_of_two_on_the_distances_changes_nothing_but_the_gain(
    search: Search, data: st.DataObject | None, factor: float
) -> None:
    z = samples.distances(3) if data is None else symmetric(search.n, st.floats(0, 9, width=16), data)
    plain, scaled = of_distances(z), of_distances(z * np.float32(factor))
    found, other = cut(plain, search), cut(scaled, search)
    assert [part.tobytes() for part in found[:2]] == [part.tobytes() for part in other[:2]]
    is_cut = found.candidate >= 0
    assert (found.gain * factor)[is_cut].tobytes() == other.gain[is_cut].tobytes()


@pytest.mark.parametrize("truth_kind", ["labels", "targets"])
def test_a_candidate_gains_nothing_for_rows_that_it_leaves_behind(truth_kind: str) -> None:
    """One parts 4 observed rows of 60 without a rest, the other all of them with a rest: it gains more in all."""
    codes = np.repeat([0, 1], 30).astype(np.int32)
    few = np.full(60, math.nan)
    few[[0, 1, 30, 31]] = codes[[0, 1, 30, 31]]
    whole = np.r_[np.arange(30.0), np.arange(30.0) + 15]
    criterion: Criterion = (
        Gini(codes, 2) if truth_kind == "labels" else Variance.from_vectors(codes[:, None].astype(float), 0.5)
    )
    frontier = samples.level([list(range(60))], [[1] * 60])
    found = criterion.cut(frontier, np.stack([few, whole]), 1)
    assert found.candidate.tolist() == [1]
    assert criterion.cut(frontier, few[None], 1).threshold.tolist() == [0.5]
