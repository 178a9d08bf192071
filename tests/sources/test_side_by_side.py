"""Several sources side by side read what their concatenated matrix holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.sources.arrays import ArraySource
from distforest.sources.side_by_side import SideBySide
from distforest.sources.source import Projections, offsets, project_entries
from tests.tries import tries

pytestmark = pytest.mark.kernels

FREE = settings(max_examples=tries(100))


@FREE
@given(st.data(), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_projections_are_those_of_the_whole_matrix(data: st.DataObject, n: int, width: int, mixes: bool) -> None:
    n_measures, n_rows = data.draw(st.integers(1, 4)), 5
    rng = np.random.default_rng(data.draw(st.integers(0, 2**40)))
    parts = [rng.normal(size=(n_rows, n)) for _ in range(n_measures)]
    for part in parts:
        part[rng.random(part.shape) < 0.1] = np.nan
    both, whole = SideBySide(tuple(map(ArraySource.from_values, parts))), np.concatenate(parts, axis=1)
    sizes = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
    starts, rows = offsets(np.array(sizes)), rng.integers(0, n_rows, sum(sizes)).astype(np.int32)
    terms = rng.integers(0, 4, width * len(sizes))
    columns = rng.integers(0, n, terms.sum()) + n * np.repeat(rng.integers(0, n_measures, len(terms)), terms)
    if mixes:
        columns = rng.integers(0, n * n_measures, terms.sum())
    projections = Projections(width, offsets(terms), columns.astype(np.int32), rng.normal(size=terms.sum()))
    found = both.project(rows, starts, projections)
    assert found.tobytes() == project_entries(ArraySource.from_values(whole), rows, starts, projections).tobytes()
    assert both.shape == whole.shape
    every = np.arange(whole.shape[1], dtype=np.int32)
    np.testing.assert_array_equal(both.block(rows, every), whole[rows])
    assert both.entries(rows[:0], every[:0]).shape == (0,)
