"""Trees that are a root alone: how many are told, and what follows."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from distforest import SMERF
from distforest.errors import DistforestWarning
from distforest.forest.leaf_kinds import LEAF_KINDS, KeepsCounts, KeepsVotes
from distforest.forest.roots import FOLLOWS, Roots
from distforest.forest.sealed.artifact import open_forest, read_manifest
from distforest.growth.rng import bootstrap
from tests.messages import naming

VOTES = KeepsVotes("mean")


@pytest.mark.parametrize(
    ("n_roots", "n_trees", "n_rows", "named"),
    [
        (0, 10, 50, None),
        (5, 10, 50, None),
        (6, 10, 50, ("6 of 10", 4)),
        (10, 10, 50, ("no tree",)),
        (1, 1, 3, ("no tree",)),
        (9, 10, 2, None),
        (10, 10, 2, ("no tree",)),
        (10, 10, 1, None),
    ],
)
def test_more_than_half_are_too_many(n_roots: int, n_trees: int, n_rows: int, named: tuple | None) -> None:
    told = Roots(n_roots, n_trees, n_rows, VOTES).warning()
    assert bool(told) == (named is not None)
    assert re.match(naming(*named or ()), told)


def test_chance_alone_leaves_fewer_than_half() -> None:
    """Of n rows one of which differs from the others, a bootstrap misses it, or draws it alone."""
    for n in range(3, 12):
        alone = 0
        for tree in range(2000):
            weights = np.empty(n, np.int32)
            bootstrap(7, tree, n, weights)
            alone += weights[0] in (0, n)
        assert alone / 2000 < 0.42
        assert alone / 2000 == pytest.approx((1 - 1 / n) ** n + (1 / n) ** n, abs=0.04)


def test_each_kind_of_leaf_table_has_its_words() -> None:
    assert set(FOLLOWS) == {*LEAF_KINDS, "nearest"}
    assert Roots(3, 3, 9, KeepsCounts(nearest=True)).warning() != Roots(3, 3, 9, KeepsCounts()).warning()


def test_a_sealed_forest_knows_its_roots(tmp_path: Path) -> None:
    rows = np.arange(12.0)[:, None]
    with pytest.warns(DistforestWarning, match=naming("of 9 trees", "max_samples")):
        forest = SMERF(9, max_samples=0.4, bootstrap=True, random_state=0).fit(rows, (rows[:, 0] == 3).astype(int))
    forest.save(tmp_path / "f.zarr")
    sealed = Roots.from_manifest(str(tmp_path / "f.zarr"), read_manifest(str(tmp_path / "f.zarr")))
    assert sealed == Roots.from_forest(open_forest(str(tmp_path / "f.zarr"))) == Roots.from_forest(forest.forest_)
    assert sealed.n_roots == int((forest.forest_.table.tree_size == 1).sum())
