"""A box of a tree names the categories that go left, or those that do not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from distforest import SMERF
from distforest.pictures.trees import drawn_tree

NAMES = ["amber", "blue", "cyan", "dun", "ebony", "fawn"]


@pytest.mark.parametrize("n_first", [1, 5])
def test_a_box_names_categories(n_first: int) -> None:
    colour = np.array(NAMES * 10)
    y = np.isin(colour, NAMES[:n_first]).astype(int)
    forest = SMERF(1, bootstrap=False, random_state=0).fit(pd.DataFrame({"colour": colour}), y)
    root = next(drawn for drawn in drawn_tree(forest, 0, 1, []).boxes if drawn.depth == 0)
    text = " ".join(str(part) for part in vars(root).values())
    expected = {1: "colour not in {amber}", 5: "colour in {fawn}"}[n_first]
    assert expected in text
