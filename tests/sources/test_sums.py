"""Weighted sums of distances, against the sums of their matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest import SMERF, Embedding, Labels, Targets
from distforest.errors import InputError

RNG = np.random.default_rng(0)
N = 40
X = RNG.normal(size=(N, 3)).round(1)
Y = np.array(["a", "b", "c"])[RNG.integers(0, 3, N)]
FORMS: list[Any] = [
    Labels(Y),
    Targets(X[:, 0] ** 2),
    Embedding(X[:, 1:]),
    Embedding(X + 0.01, metric="cosine"),
]
WEIGHTS = st.floats(1e-3, 1e3)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(range(len(FORMS))), WEIGHTS), min_size=1, max_size=4))
def test_a_sum_of_distances_is_that_of_their_matrices(terms: list[tuple[int, float]]) -> None:
    weighted = [weight * FORMS[number] for number, weight in terms]
    found = weighted[0]
    for term in weighted[1:]:
        found = found + term
    expected = sum(weight * FORMS[number].matrix() for number, weight in terms)
    np.testing.assert_allclose(found.matrix(), expected, rtol=1e-12, atol=1e-12)


def test_a_number_of_numpy_is_a_weight() -> None:
    weights = (np.float64(2.0), np.int32(2), 2)
    assert len({(weight * FORMS[1]).matrix().tobytes() for weight in weights}) == 1
    assert (FORMS[1] * 2).matrix().tobytes() == (2 * FORMS[1]).matrix().tobytes()


def test_twice_the_labels_grow_the_trees_of_the_labels() -> None:
    one, other = (SMERF(5, max_features=None, random_state=0).fit(X, given) for given in (2 * Labels(Y), Labels(Y)))
    assert one.forest_.table.columns.tolist() == other.forest_.table.columns.tolist()
    assert one.forest_.table.threshold.tolist() == other.forest_.table.threshold.tolist()
    np.testing.assert_allclose(one.distance(X), 2.0 * other.distance(X), atol=1e-12)


def test_a_forest_of_a_sum_knows_the_distances_of_the_matrix() -> None:
    both = 0.5 * Labels(Y) + 2 * Targets(X[:, 0])
    forests = [SMERF(5, random_state=0, min_samples_leaf=4).fit(X, given) for given in (both, both.matrix())]
    np.testing.assert_allclose(forests[0].distance(X), forests[1].distance(X), rtol=1e-5, atol=1e-6)
    assert forests[0].score(X[:9], 0.5 * Labels(Y[:9]) + 2 * Targets(X[:9, 0])) == pytest.approx(
        forests[1].score(X[:9], both.matrix()[:9, :9]), abs=1e-5
    )


def test_what_is_no_sum_is_refused() -> None:
    with pytest.raises(InputError, match="-1"):
        -1 * Labels(Y)
    with pytest.raises(InputError, match="40 and 3"):
        Labels(Y) + Targets([1.0, 2.0, 3.5])
    with pytest.raises(InputError, match="costs"):
        Labels(Y, costs=1.0 - np.eye(3)) + Targets(X[:, 0])
    for wrong in ("a", None, True, np.ones(3)):
        with pytest.raises(TypeError):
            wrong * Labels(Y)
    with pytest.raises(TypeError):
        Labels(Y) + 1.0
