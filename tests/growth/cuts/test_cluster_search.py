"""Levels that are projected and cut a few nodes at a time: the cuts are those of all values at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.growth.cuts import clusters
from distforest.growth.cuts.clusters import SCORES, TwoClusters, project_and_cut_clusters
from distforest.growth.cuts.search import Limits, project_and_cut
from distforest.sources.arrays import ArraySource
from tests import samples
from tests.tries import tries

pytestmark = pytest.mark.kernels


@settings(max_examples=tries(25))
@given(
    score=st.sampled_from([*SCORES]),
    relative=st.booleans(),
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=6),
    cells=st.sampled_from([1, 200, 1 << 15]),
    rounded=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_cuts_and_values_are_those_of_a_level_that_is_projected_whole(
    score: str, relative: bool, sizes: list[int], cells: int, rounded: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((120, 4)).astype(np.float32)
    source = ArraySource.of(np.round(X) if rounded else X)
    rows = [rng.permutation(120)[:size].tolist() for size in sizes]
    frontier = samples.level(rows, [rng.integers(1, 4, size).tolist() for size in sizes])
    drawn = [
        (int(column), float(sign)) for column, sign in zip(rng.integers(0, 4, 9), rng.choice([-1, 1], 9), strict=True)
    ]
    terms = [[drawn[:1], drawn[node : node + 3], [], drawn[5:7]] for node in range(len(sizes))]
    level = TwoClusters(score, relative), frontier, samples.projections(terms), Limits(min_samples_leaf=2)
    expected, values = project_and_cut(source, *level)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "CACHE_CELLS", cells)
        found, own = project_and_cut_clusters(source, *level)
    for name, array in expected._asdict().items():
        np.testing.assert_array_equal(getattr(found, name), array, name)
    cut = np.repeat(expected.candidate >= 0, frontier.sizes)
    np.testing.assert_array_equal(own[cut], values[cut])
