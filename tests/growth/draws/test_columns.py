"""The draws of columns: axis against naive.py, oblique by its rules."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from distforest.growth.draws.column_draws import Axis, ColumnWeights, Oblique
from tests import samples
from tests.reference import naive

pytestmark = pytest.mark.kernels

SEEDS = st.integers(0, 2**63 - 1)
MANY = 400 if numba.config.DISABLE_JIT else 4000


def one_row_each(n_nodes: int) -> samples.Frontier:
    return samples.level([[0]] * n_nodes, [[1]] * n_nodes)


@pytest.mark.slow
@given(SEEDS, st.integers(1, 9), st.integers(1, 9), st.integers(1, 4))
def test_axis_walks_the_reference_permutation(seed: int, n_columns: int, width: int, n_nodes: int) -> None:
    draw = Axis(n_columns, min(width, n_columns))
    tree, node = list(range(5, 5 + n_nodes)), list(range(n_nodes))
    keys = samples.keys_of(seed, tree, node)
    found: list[list[int]] = [[] for _ in range(n_nodes)]
    for attempt in range(draw.attempts):
        drawn = draw(one_row_each(n_nodes), keys, attempt)
        assert drawn.n_nodes == n_nodes
        assert drawn.weights.tolist() == [1.0] * len(drawn.columns)
        assert np.diff(drawn.offset).tolist() == [1] * (n_nodes * drawn.width)
        for own, columns in zip(found, drawn.columns.reshape(n_nodes, -1).tolist(), strict=True):
            own.extend(columns)
    expected = [naive.axis_permutation(seed, t, v, n_columns) for t, v in zip(tree, node, strict=True)]
    assert found == expected
    for attempt in range(draw.attempts):
        rest = draw.rest(one_row_each(n_nodes), keys, attempt)
        assert rest.columns.reshape(n_nodes, -1).tolist() == [own[attempt * draw.width :] for own in expected]


@given(SEEDS, st.integers(1, 7), st.integers(1, 9), st.floats(1.0, 6.0), st.integers(1, 3), st.integers(0, 2))
def test_oblique_candidates_keep_their_rules(
    seed: int, n_columns: int, width: int, combinations: float, n_nodes: int, attempt: int
) -> None:
    draw = Oblique(ColumnWeights.uniform(n_columns), width, combinations)
    keys = samples.keys_of(seed, [3] * n_nodes, list(range(n_nodes)))
    drawn = draw(one_row_each(n_nodes), keys, attempt)
    sizes = np.diff(drawn.offset).reshape(n_nodes, width)
    assert drawn.offset[-1] == len(drawn.columns) == len(drawn.weights)
    assert set(np.abs(drawn.weights).tolist()) == {1.0}
    assert ((drawn.columns >= 0) & (drawn.columns < n_columns)).all()
    assert ((sizes >= 1) & (sizes <= n_columns)).all()
    total = width + round(width * (combinations - 1.0))
    assert (sizes.sum(axis=1) <= total).all()
    whole = (sizes < n_columns).all(axis=1)  # nothing was dropped there
    assert (sizes.sum(axis=1)[whole] == total).all()
    for first, last in zip(drawn.offset[:-1], drawn.offset[1:], strict=True):
        own = drawn.columns[first:last].tolist()
        assert len(set(own)) == len(own)


@given(SEEDS, st.integers(2, 6))
def test_oblique_draws_of_a_node_depend_on_its_key_and_attempt_alone(seed: int, n_nodes: int) -> None:
    draw = Oblique(ColumnWeights.uniform(6), 4, 2.0)
    keys = samples.keys_of(seed, list(range(n_nodes)), [2] * n_nodes)
    together = draw(one_row_each(n_nodes), keys, 1)
    alone = [draw(one_row_each(1), keys[f : f + 1], 1) for f in range(n_nodes)]
    assert together.columns.tolist() == [c for own in alone for c in own.columns]
    assert together.weights.tolist() == [w for own in alone for w in own.weights]
    again = draw(one_row_each(n_nodes), keys, 2)
    assert (again.columns.tolist(), again.weights.tolist()) != (together.columns.tolist(), together.weights.tolist())


def test_oblique_columns_signs_and_sizes_follow_their_law() -> None:
    draw = Oblique(ColumnWeights.uniform(5), 4, 1.5)
    drawn = draw(one_row_each(MANY), samples.keys_of(1, [0] * MANY, list(range(MANY))), 0)
    columns = np.bincount(drawn.columns, minlength=5)
    assert samples.chi_square(columns, np.full(5, columns.sum() / 5)) < 5
    signs = np.bincount((drawn.weights > 0).astype(int), minlength=2)
    assert samples.chi_square(signs, np.full(2, signs.sum() / 2)) < 5
    # two further columns over four candidates: sizes 1 + Binomial(2, 1/4)
    sizes = np.bincount(np.diff(drawn.offset), minlength=4)[1:]
    assert samples.chi_square(sizes, np.array([9, 6, 1]) / 16 * 4 * MANY) < 5


@given(
    SEEDS,
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 4.0]), min_size=1, max_size=7).filter(any),
    st.integers(1, 5),
    st.floats(1.0, 4.0),
)
def test_columns_without_weight_are_never_drawn(
    seed: int, weights: list[float], width: int, combinations: float
) -> None:
    draw = Oblique(ColumnWeights.from_weights(np.array(weights)), width, combinations)
    drawn = draw(one_row_each(3), samples.keys_of(seed, [0, 1, 2], [4, 5, 6]), 0)
    assert (np.array(weights)[drawn.columns] > 0).all()
    sizes = np.diff(drawn.offset)
    assert len(sizes) == 3 * width
    assert ((sizes >= 1) & (sizes <= np.count_nonzero(weights))).all()
    for first, last in zip(drawn.offset[:-1], drawn.offset[1:], strict=True):
        assert len(set(drawn.columns[first:last].tolist())) == last - first


def test_weighted_columns_follow_their_law() -> None:
    """The first column of a candidate by its weight, the second by its weight among the others."""
    weights = np.array([4.0, 0.0, 3.0, 1.0])
    draw = Oblique(ColumnWeights.from_weights(weights), 1, 2.0)
    drawn = draw(one_row_each(MANY), samples.keys_of(4, [0] * MANY, list(range(MANY))), 0)
    assert len(drawn.columns) == 2 * MANY
    pairs = drawn.columns.reshape(MANY, 2)
    law = np.array(
        [[0 if a == b else weights[a] / 8 * weights[b] / (8 - weights[a]) for b in range(4)] for a in range(4)]
    )
    assert law.sum() == pytest.approx(1.0)
    counts = np.bincount(pairs[:, 0] * 4 + pairs[:, 1], minlength=16)
    assert samples.chi_square(counts[law.reshape(-1) > 0], law[law > 0] * MANY) < 5
    assert counts.sum() == counts[law.reshape(-1) > 0].sum()


def test_where_one_column_has_all_the_weight_a_candidate_is_content_with_it() -> None:
    draw = Oblique(ColumnWeights.from_weights(np.array([0.0, 1.0, 0.0])), 2, 3.0)
    drawn = draw(one_row_each(20), samples.keys_of(0, [0] * 20, list(range(20))), 0)
    assert drawn.columns.tolist() == [1] * 40
    assert np.diff(drawn.offset).tolist() == [1] * 40
    assert set(np.abs(drawn.weights).tolist()) == {1.0}
    rare = Oblique(ColumnWeights.from_weights(np.array([1.0, 1e-12])), 3, 2.0)
    drawn = rare(one_row_each(20), samples.keys_of(0, [0] * 20, list(range(20))), 0)
    assert set(drawn.columns.tolist()) == {0}
    assert len(drawn.columns) == 60


def test_normal_coefficients_are_normal_with_the_deviations_of_their_columns() -> None:
    scales = np.array([0.5, 2.0, 0.0, 1e-3])
    draw = Oblique(ColumnWeights.from_weights(np.array([1.0, 1.0, 1.0, 1.0])), 2, 2.0, scales)
    drawn = draw(one_row_each(MANY), samples.keys_of(6, [0] * MANY, list(range(MANY))), 1)
    for column in (0, 1, 3):
        own = drawn.weights[drawn.columns == column]
        assert len(own) > MANY / 2
        assert kstest(own / scales[column], "norm").pvalue > 1e-3
    assert (drawn.weights[drawn.columns == 2] == 0.0).all()
    apart = drawn.weights / np.where(scales > 0, scales, 1.0)[drawn.columns]
    shared = np.corrcoef(apart[:-1], apart[1:])[0, 1]  # of neighbours in one stream
    assert abs(shared) < 5 / np.sqrt(len(apart))
    signs = Oblique(ColumnWeights.uniform(4), 2, 2.0)
    same = signs(one_row_each(MANY), samples.keys_of(6, [0] * MANY, list(range(MANY))), 1)
    assert same.columns.tolist() == drawn.columns.tolist()  # coefficients have places of their own
