"""The parting of nodes by exemplars: against plain loops and sums over all pairs of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from distforest.growth.cuts.criteria import Gini
from distforest.growth.cuts.nearest_exemplar import STAYS, Parted, part_by_exemplars
from distforest.growth.cuts.random_cuts import AtZero
from distforest.growth.cuts.scan import NO_CUT
from distforest.sources.arrays import ArraySource
from tests import samples
from tests.reference.naive import ROUNDING
from tests.reference.naive_exemplars import Parting, part
from tests.reference.naive_simforest import Rules, Sample
from tests.tries import tries

pytestmark = pytest.mark.kernels

FREE = settings(max_examples=tries(200))
NEAR = [0.0, -0.0, 1.0, float(np.nextafter(1.0, 2.0)), -1.0, 5e-324, math.nan]


@dataclass(frozen=True)
class Case:
    """Some nodes with their rows and weights, similarities, classes and their weights, and one candidate a node."""

    rows: list[list[int]]
    weights: list[list[int]]
    S: np.ndarray
    y: np.ndarray
    class_weights: tuple[int, ...]
    columns: list[list[int]]
    min_leaf: int

    @property
    def criterion(self) -> Gini:
        """The product's, of three classes."""
        weights = np.array(self.class_weights, np.int64) if self.class_weights else None
        return Gini(self.y.astype(np.int32), 3, class_weights=weights)

    def parted(self) -> Parted:
        """How the product parts the nodes."""
        candidates = samples.projections([[[(column, 1.0) for column in own]] for own in self.columns])
        frontier = samples.level(self.rows, self.weights)
        return part_by_exemplars(ArraySource.from_values(self.S), self.criterion, frontier, candidates, self.min_leaf)

    def sample(self, node: int) -> Sample:
        """A node for the plain loops."""
        weights = np.zeros(len(self.y), int)
        weights[self.rows[node]] = self.weights[node]
        c = self.class_weights or (1, 1, 1)
        return Sample(self.S, self.y, weights, Rules(class_weight=c, min_samples_leaf=self.min_leaf))


@st.composite
def partings(draw: st.DrawFn, n_exemplars: int | None = None) -> Case:
    n, n_columns = draw(st.integers(2, 9)), draw(st.integers(2, 6))
    rows = draw(st.lists(st.lists(st.integers(0, n - 1), min_size=1, unique=True), min_size=1, max_size=3))
    most = draw(st.sampled_from([1, 5, 2**24]))
    weights = [draw(st.lists(st.integers(1, most), min_size=len(own), max_size=len(own))) for own in rows]
    one = st.sampled_from(NEAR) if draw(st.booleans()) else st.one_of(st.floats(-9, 9), st.just(math.nan))
    S = np.array(draw(st.lists(one, min_size=n * n_columns, max_size=n * n_columns))).reshape(n, n_columns)
    if draw(st.booleans()):
        S = np.nan_to_num(S)
    y = np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    least = n_columns if n_exemplars is None else n_exemplars
    some = st.permutations(range(n_columns)).flatmap(
        lambda order: st.integers(0 if n_exemplars is None else least, least).map(lambda count: order[:count])
    )
    columns = [draw(some) for _ in rows]
    class_weights = draw(st.sampled_from([(), (1, 2, 5)]))
    return Case(rows, weights, S, y, class_weights, columns, draw(st.integers(1, 4)))


def disagreement(sample: Sample, rows: list[int]) -> Fraction:
    """P(S) / m of rows, P(S) by its definition: w_i w_j over all ordered pairs of rows of two classes."""
    weight = {row: int(sample.w[row]) * sample.rules.class_weight[sample.y[row]] for row in rows}
    total = sum(weight[i] * weight[j] for i, j in product(rows, rows) if sample.y[i] != sample.y[j])
    return Fraction(total, sum(weight.values()))


def gain_of(sample: Sample, found: Parting) -> float:
    """The gain of a parting by the definition, 0 where it is rounding."""
    whole = disagreement(sample, [row for side in found.sides for row in side])
    inside = sum((disagreement(sample, side) for side in found.sides), Fraction(0))
    return float(whole - inside) if whole - inside > ROUNDING * (whole + inside) else 0.0


@pytest.mark.slow
@FREE
@given(partings())
@example(Case([[0, 1, 2]], [[1, 1, 1]], np.array([[0.0, -0.0], [1, 2], [2, 1]]), np.arange(3), (), [[1, 0]], 1))
def test_rows_go_to_the_nearest_exemplar_that_is_kept(case: Case) -> None:
    found = case.parted()
    assert (len(found.gain), len(found.is_kept), len(found.child)) == (
        *(len(case.rows), sum(map(len, case.columns)), sum(map(len, case.rows))),
    )
    n_kept, n_rows = 0, 0
    for node, (rows, columns) in enumerate(zip(case.rows, case.columns, strict=True)):
        is_kept, child = found.is_kept[n_kept : n_kept + len(columns)], found.child[n_rows : n_rows + len(rows)]
        n_kept, n_rows = n_kept + len(columns), n_rows + len(rows)
        sample = case.sample(node)
        expected = part(sample, rows, columns)
        if expected is None:
            assert found.gain[node] == NO_CUT
            continue
        assert [column for column, own in zip(columns, is_kept, strict=True) if own] == list(expected.exemplars)
        place = {row: c for c, side in enumerate(expected.sides) for row in side}
        assert child.tolist() == [place.get(row, STAYS) for row in rows]
        assert found.gain[node] == pytest.approx(gain_of(sample, expected), rel=1e-10)


@pytest.mark.slow
@FREE
@given(partings(2))
def test_two_exemplars_part_as_a_cut_at_zero(case: Case) -> None:
    """Column 1 - column 0 of the candidate is cut at zero."""
    found = case.parted()
    pairs = samples.projections([[[(j, 1.0), (i, -1.0)]] for i, j in case.columns])
    frontier = samples.level(case.rows, case.weights)
    source, criterion = ArraySource.from_values(case.S), AtZero(case.criterion)
    cuts = criterion.cut(frontier, source.project(frontier.rows, frontier.starts, pairs), case.min_leaf)
    begin = 0
    for node, rows in enumerate(case.rows):
        values = case.S[np.ix_(rows, case.columns[node])]
        seen = ~np.isnan(values).any(axis=1)
        assert (cuts.candidate[node] == 0) == (found.gain[node] != NO_CUT)
        assert found.gain[node] == pytest.approx(cuts.gain[node], rel=1e-12)
        if found.gain[node] != NO_CUT:
            right = found.child[begin : begin + len(rows)]
            assert right[seen].tolist() == (values[seen, 1] > values[seen, 0]).tolist()
            assert (right[~seen] == STAYS).all()
        begin += len(rows)


@pytest.mark.slow
@FREE
@given(partings())
def test_a_node_is_parted_alike_whatever_others_there_are(case: Case) -> None:
    together, n_kept, n_rows = case.parted(), 0, 0
    for node, (rows, columns) in enumerate(zip(case.rows, case.columns, strict=True)):
        one = replace(case, rows=[rows], weights=[case.weights[node]], columns=[columns])
        alone = one.parted()
        assert alone.gain[0] == together.gain[node]
        if alone.gain[0] != NO_CUT:
            assert alone.is_kept.tolist() == together.is_kept[n_kept : n_kept + len(columns)].tolist()
            assert alone.child.tolist() == together.child[n_rows : n_rows + len(rows)].tolist()
        n_kept, n_rows = n_kept + len(columns), n_rows + len(rows)


@pytest.mark.slow
@FREE
@given(partings())
def test_a_weight_is_so_many_equal_rows(case: Case) -> None:
    assume(max(w for own in case.weights for w in own) <= 5)
    rows = [np.repeat(own, w).tolist() for own, w in zip(case.rows, case.weights, strict=True)]
    copied = replace(case, rows=rows, weights=[[1] * len(own) for own in rows])
    assert copied.parted().gain.tolist() == case.parted().gain.tolist()


def one_node(S: list[list[float]], y: list[int], min_leaf: int = 1) -> Case:
    """A node of all rows that weigh 1, whose candidate has all columns."""
    n, k = np.shape(S)
    return Case([list(range(n))], [[1] * n], np.array(S, float), np.array(y), (), [list(range(k))], min_leaf)


def test_rows_of_an_exemplar_that_is_left_out_go_to_the_next() -> None:
    """So does one that lacks it alone, which is how two rows reach an exemplar and one would not."""
    S = [[5, 1, 0], [5, 1, 0], [1, 5, 0], [1, 5, 0], [0, 1, 2], [2, 1, math.nan], [math.nan, 5, 0]]
    case = one_node(S, [0, 0, 1, 1, 2, 2, 1], 2)
    found = case.parted()
    assert found.is_kept.tolist() == [True, True, False]
    assert found.child.tolist() == [0, 0, 1, 1, 1, 0, STAYS]
    # 2, 2 and 2 of 6 rows; 2 and 1 of 3, 2 and 1 of 3
    assert found.gain.tolist() == pytest.approx([(36 - 12) / 6 - (9 - 5) / 3 - (9 - 5) / 3])


@pytest.mark.parametrize(
    ("S", "y", "min_leaf"),
    [
        ([[1, 1], [2, 2], [3, 3]], [0, 1, 0], 1),  # all similarities are equal: all rows go to the first
        ([[2, 1], [1, 2], [1, 2]], [0, 1, 1], 2),  # one row alone
        ([[math.nan, 1], [1, math.nan], [math.nan, 2]], [0, 0, 1], 1),  # all rows stay
        ([[2], [1]], [0, 1], 1),  # one exemplar
    ],
)
def test_nodes_that_are_not_parted(S: list[list[float]], y: list[int], min_leaf: int) -> None:
    assert one_node(S, y, min_leaf).parted().gain.tolist() == [NO_CUT]


def test_rows_of_one_class_are_parted_where_the_others_stay() -> None:
    """As by cuts of pairs, where a gain of 0 is enough."""
    found = one_node([[2, 1], [1, 2], [math.nan, 2]], [0, 0, 1]).parted()
    assert (found.gain.tolist(), found.child.tolist()) == ([0.0], [0, 1, STAYS])


def test_a_parting_that_gains_nothing_is_one() -> None:
    """Sides of (2, 3), (4, 6) and (2, 3) rows of two classes; what is left of four divisions is no gain."""
    sides = [0] * 5 + [1] * 10 + [2] * 5
    y = [0] * 2 + [1] * 3 + [0] * 4 + [1] * 6 + [0] * 2 + [1] * 3
    found = one_node(np.eye(3)[sides].tolist(), y).parted()
    assert found.gain.tolist() == [0.0]
    assert found.child.tolist() == sides


def test_gains_of_many_partings_without_a_gain_are_none() -> None:
    for sizes in product([1, 3, 7, 10, 21], repeat=3):
        sides = np.repeat([0, 1, 2], 6).tolist()
        weights = np.repeat(sizes, 6).tolist()
        case = replace(one_node(np.eye(3)[sides].tolist(), [0, 1, 1, 2, 2, 2] * 3), weights=[weights])
        assert case.parted().gain.tolist() == [0.0], sizes


def test_sums_of_heavy_rows_do_not_wrap_around() -> None:
    """Weights of a tree stay below 2^31, and so do their sums."""
    case = replace(one_node([[1, 0], [0, 1], [0, 1]], [0, 1, 2]), weights=[[2**30, 2**29, 2**29]])
    sample = case.sample(0)
    expected = part(sample, [0, 1, 2], [0, 1])
    assert expected is not None
    assert case.parted().gain.tolist() == pytest.approx([gain_of(sample, expected)])


def test_a_candidate_of_many_exemplars() -> None:
    k = 32
    S = np.random.default_rng(0).normal(size=(200, k))
    case = Case([list(range(200))], [[1] * 200], S, np.arange(200) % 3, (), [list(range(k))[::-1]], 1)
    expected = part(case.sample(0), case.rows[0], case.columns[0])
    found = case.parted()
    assert expected is not None
    assert len(expected.exemplars) == k
    assert found.child.tolist() == (k - 1 - S.argmax(axis=1)).tolist()
    assert found.gain.tolist() == pytest.approx([gain_of(case.sample(0), expected)])
