"""Parts of a forest in memory become one forest."""

from __future__ import annotations

import numpy as np

from distforest.growth.problem import put_together


def test_parts_are_put_together_and_none_of_their_arrays_is_held_twice() -> None:
    parts = [{"left": np.array([1, 2]), "gain": np.array([0.5])}, {"left": np.array([3]), "gain": np.array([0.25])}]
    found = put_together(parts, ["left", "gain"])
    assert {name: array.tolist() for name, array in found.items()} == {"left": [1, 2, 3], "gain": [0.5, 0.25]}
    assert parts == [{}, {}]


def test_one_part_is_not_copied() -> None:
    own = np.arange(3)
    assert put_together([{"left": own}], ["left"])["left"] is own
