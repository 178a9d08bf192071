"""What the tests of ground truths share that stand for a matrix of distances."""

from __future__ import annotations

import pytest

from distforest import SMERF
from tests.samples import bits

every_way = pytest.mark.parametrize(
    ("params", "weighted"),
    [
        ({}, False),
        ({"min_samples_split": 6}, True),
        ({"splitter": "random", "max_features": 4}, False),
        ({"feature_combinations": 2.0, "bootstrap": False}, True),
        ({"max_bins": 8, "max_depth": 3}, False),
    ],
)
"""Ways to grow, with and without weights of rows."""


def same_trees(one: SMERF, other: SMERF) -> bool:
    """Whether the nodes of two forests are equal bit for bit."""
    return bits(one.forest_.table.arrays()) == bits(other.forest_.table.arrays())
