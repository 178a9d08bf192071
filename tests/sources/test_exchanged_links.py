"""Similar and dissimilar pairs that are exchanged are told; right ones, noise and networks are not."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine

from distforest import RFD, TreeRank
from distforest.errors import DistforestWarning
from distforest.sources.exchanged_links import told_of_exchanged
from tests.messages import naming

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from distforest.sources.source import Int32s

RNG = np.random.default_rng(0)


def labelled_pairs(labels: np.ndarray) -> tuple[Int32s, NDArray[np.bool_]]:
    """Random pairs of points, and whether their labels are equal."""
    pairs = RNG.integers(len(labels), size=(20 * len(labels), 2)).astype(np.int32)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return pairs, labels[pairs[:, 0]] == labels[pairs[:, 1]]


@pytest.mark.parametrize("to_read", [load_digits, load_iris, load_wine])
@pytest.mark.parametrize("wrong", [0.0, 0.1])
def test_kinds_that_are_exchanged_are_told(to_read: Callable[[], dict[str, np.ndarray]], wrong: float) -> None:
    pairs, alike = labelled_pairs(to_read()["target"])
    alike ^= RNG.random(len(alike)) < wrong
    assert told_of_exchanged(pairs, alike.astype(np.uint8))
    assert not told_of_exchanged(pairs, (~alike).astype(np.uint8))


def test_links_of_a_network_and_random_ones_are_not_told() -> None:
    points = RNG.normal(size=(150, 2))
    pairs = np.stack(np.triu_indices(150, 1), axis=1).astype(np.int32)
    apart = np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1)
    for share in (0.02, 0.1, 0.5, 0.9):
        assert not told_of_exchanged(pairs, (apart > np.quantile(apart, share)).astype(np.uint8))
        assert not told_of_exchanged(pairs, (RNG.random(len(pairs)) < share).astype(np.uint8))
    triplets = np.arange(300, dtype=np.int32).reshape(100, 3)  # an anchor, what is like it, and what is not
    of_both = np.concatenate([triplets[:, :2], triplets[:, ::2]])
    assert not told_of_exchanged(of_both, np.repeat([0, 1], 100).astype(np.uint8))
    assert not told_of_exchanged(of_both, np.repeat([1, 0], 100).astype(np.uint8))


@pytest.mark.parametrize("estimator", [RFD(2, random_state=0), TreeRank(2, random_state=0)])
def test_a_fit_tells_of_them(estimator: RFD | TreeRank) -> None:
    X, y = load_wine(return_X_y=True)
    pairs, alike = labelled_pairs(y)
    with pytest.warns(DistforestWarning, match=naming("similar: ", "True", 1)):
        estimator.fit_pairs(X, pairs, ~alike)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator.fit_pairs(X, pairs, alike)
        estimator.fit_pairs(X, pairs, alike, pair_weight=np.ones(len(alike)))
