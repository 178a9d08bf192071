"""The fused search of categories, against ranking and cutting the values of all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.growth.cuts.category_search import BesideBins, put_better
from distforest.growth.cuts.class_histograms import best_codes_by_labels
from distforest.growth.cuts.criteria import Gini, Variance
from distforest.growth.cuts.entropy import Entropy
from distforest.growth.cuts.histograms import best_codes
from distforest.growth.cuts.poisson import Poisson
from distforest.growth.cuts.scan import Cuts
from distforest.growth.cuts.search import Limits
from distforest.sources.binned_table import BinnedTable
from tests import samples
from tests.growth.cuts.test_histograms import level_of

if TYPE_CHECKING:
    from distforest.forest.frontier import Frontier
    from distforest.sources.source import Floats, Projections

pytestmark = pytest.mark.kernels

N_ROWS = 60 if numba.config.DISABLE_JIT else 400
FREE = settings(max_examples=20 if numba.config.DISABLE_JIT else 50, deadline=None)
MOST = (40, 1 << 16)
"""Codes with which the sums over several candidates are held at once, and over one alone."""


def table_of(n_rows: int, most: int, seed: int, holes: float) -> tuple[BinnedTable, np.ndarray]:
    """Numbers with ties, and columns of 2, of 7 and of ``most`` categories, of which many are rare."""
    rng = np.random.default_rng(seed)
    n_categories = np.array([0, 2, most, 0, 7], np.int32)
    X = np.round(rng.normal(size=(n_rows, 5)), 1).astype(np.float32)
    for column in np.flatnonzero(n_categories):
        X[:, column] = np.floor(n_categories[column] * rng.random(n_rows) ** 3)
    X[rng.random(X.shape) < holes] = np.nan
    return BinnedTable.from_features(X, 8, n_categories > 0), n_categories


def criteria_of(n_rows: int, seed: int, places_missing: bool) -> list[Gini | Variance]:
    rng = np.random.default_rng(seed)
    labels, Y = rng.integers(0, 6, n_rows).astype(np.int32), np.round(rng.normal(size=(n_rows, 3)), 1)
    of_labels = [kind(labels % n, n, places_missing=places_missing) for n in (2, 3, 6) for kind in (Gini, Entropy)]
    of_vectors = [samples.replace(Variance.from_vectors(Y[:, :n], 0.5), places_missing=places_missing) for n in (1, 3)]
    counts = samples.replace(Poisson.from_counts(np.abs(Y[:, :1])), places_missing=places_missing)
    return [*of_labels, *of_vectors, counts]


def by_all_rows(
    search: BesideBins,
    source: BinnedTable,
    criterion: Gini | Variance,
    frontier: Frontier,
    projections: Projections,
    limits: Limits,
) -> tuple[Cuts, Floats]:
    """The cuts of the search and the values of their rows, from the values of all rows on all candidates."""
    values, which = source.project(frontier.rows, frontier.starts, projections), search.of_categories(projections)
    is_category = np.repeat(which, frontier.sizes, axis=1)
    ranks = np.where(is_category, values, 0.0)
    criterion.rank_categories(frontier, which, int(search.n_categories.max()), ranks)
    cuts = criterion.cut(frontier, np.where(is_category, 0.0, values), limits.min_samples_leaf)
    own = criterion.cut(frontier, ranks, limits.min_samples_leaf)
    put_better(cuts, np.arange(frontier.n_nodes), own.candidate.astype(np.int64), own)
    chosen = cuts.candidate.clip(0)[frontier.place]
    return cuts, np.where(is_category, ranks, values)[chosen, np.arange(len(frontier.rows))]


@FREE
@given(
    seed=st.integers(0, 999),
    n_rows=st.integers(1, N_ROWS),
    n_nodes=st.integers(1, 6),
    width=st.integers(1, 6),
    most=st.sampled_from(MOST),
    holes=st.sampled_from([0.0, 0.1, 0.9]),
    min_leaf=st.integers(1, 20),
)
def test_groups_of_categories_are_cut_as_all_rows_are_to_the_bit(
    seed: int, n_rows: int, n_nodes: int, width: int, most: int, holes: float, min_leaf: int
) -> None:
    source, n_categories = table_of(n_rows, most, seed, holes)
    frontier, limits = level_of(n_rows, n_nodes, seed), Limits(2, min_leaf)
    columns = np.random.default_rng(seed).integers(0, 5, (frontier.n_nodes, width)).tolist()
    projections = samples.projections([[[(column, 1.0)] for column in own] for own in columns])
    for criterion in criteria_of(n_rows, seed, places_missing=holes > 0 or seed % 2 == 0):
        search = BesideBins(n_categories, best_codes_by_labels if type(criterion) is Gini else best_codes)
        cuts, values = search(source, criterion, frontier, projections, limits)
        twin, of_twin = by_all_rows(search, source, criterion, frontier, projections, limits)
        assert [part.tobytes() for part in cuts] == [part.tobytes() for part in twin]
        has = (cuts.candidate >= 0)[frontier.place]
        assert values[has].tobytes() == of_twin[has].tobytes()
