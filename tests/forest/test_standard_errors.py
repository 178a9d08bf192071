"""Standard errors of distances: equal to the slow reference, and to what is known of means of drawn rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest import SMERF, load
from distforest.errors import InputError
from distforest.forest import standard_errors
from distforest.forest.scoring import apply
from distforest.forest.standard_errors import TreeDraws, tree_distances
from distforest.jobs.cluster import Threads
from distforest.jobs.question import Question
from distforest.jobs.score import score
from distforest.sources.arrays import open_array, write_array
from tests import samples
from tests.messages import naming
from tests.reference import naive_standard_errors as naive
from tests.simulated import radial

DATA = radial(40, p=4, random_state=0)


@given(st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=40, deadline=None)
def test_both_jackknives_are_those_of_the_definition(seed: int, repeated: bool) -> None:
    rng = np.random.default_rng(seed)
    n_trees, n_rows = rng.integers(3, 30), rng.integers(3, 12)
    if repeated:
        counts = rng.multinomial(n_rows, np.full(n_rows, 1 / n_rows), n_trees).astype(np.uint8)
    else:
        counts = np.stack([rng.permutation(n_rows) < 2 for _ in range(n_trees)]).astype(np.uint8)
    answers = rng.normal(size=(n_trees, 3)) + counts[:, :1] * rng.normal()
    draws = TreeDraws(counts, repeated)
    for k, own in enumerate(answers.T):
        found = np.array(draws.infinitesimal(answers))[:, k]
        assert found == pytest.approx(naive.infinitesimal(counts, own, repeated), abs=1e-12)
        if (counts == 0).any(axis=0).all():
            found = np.array(draws.leaving_out(answers))[:, k]
            assert found == pytest.approx(naive.after_bootstrap(counts, own), abs=1e-12)
        assert draws.standard_errors(answers)[k] == pytest.approx(naive.standard_error(counts, own, repeated))


@pytest.mark.parametrize("repeated", [True, False])
def test_of_a_mean_of_drawn_rows_it_is_the_standard_error_of_a_mean(repeated: bool) -> None:
    """A tree that answers with the mean of its rows: the variance of a mean is known."""
    rng, n_rows, n_trees = np.random.default_rng(0), 50, 20_000
    values = rng.normal(size=n_rows)
    if repeated:
        counts = rng.multinomial(n_rows, np.full(n_rows, 1 / n_rows), n_trees).astype(np.uint8)
    else:
        counts = np.stack([rng.permutation(n_rows) < 20 for _ in range(n_trees)]).astype(np.uint8)
    answers = (counts @ values / counts.sum(axis=1))[:, None]
    draws, known = TreeDraws(counts, repeated), values.var(ddof=1) / n_rows
    for found, _ in (draws.infinitesimal(answers), draws.leaving_out(answers)):
        assert found == pytest.approx(known, rel=0.06)


@pytest.mark.parametrize("params", [{}, {"bootstrap": False, "max_samples": 0.5}, {"max_samples": 0.7}])
def test_a_forest_tells_them_of_pairs_in_blocks(params: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    forest = SMERF(30, random_state=0, **params).fit(DATA.X, DATA.Z)
    left, right = DATA.X[:10], DATA.X[10:20]
    whole = forest.pair_distance(left, right, return_std=True)
    monkeypatch.setattr(standard_errors, "BLOCK_ANSWERS", 100)
    distances, errors = forest.pair_distance(left, right, return_std=True)
    assert np.array_equal(distances, forest.pair_distance(left, right))
    assert errors == pytest.approx(whole[1], rel=1e-9)
    own = forest.forest_
    per_tree = tree_distances(own, apply(own, own.source(left)), apply(own, own.source(right)))
    assert per_tree.mean(axis=0) == pytest.approx(distances)
    for k in range(10):
        expected = naive.standard_error(own.in_bag, per_tree[:, k], params.get("bootstrap", True))
        assert errors[k] == pytest.approx(expected)
    swapped = forest.pair_distance(right, left, return_std=True)
    assert swapped[1] == pytest.approx(errors)


def test_rows_of_weight_0_are_absent() -> None:
    weights = np.arange(40) % 4 > 0
    one = SMERF(30, random_state=0).fit(DATA.X, DATA.Z, sample_weight=weights)
    draws = TreeDraws.from_forest(one.forest_)
    assert draws.counts.shape == (30, 30)
    assert np.isfinite(one.pair_distance(DATA.X[:5], DATA.X[5:10], return_std=True)[1]).all()


def test_trees_that_drew_the_same_rows_tell_nothing() -> None:
    for forest, found in (
        (SMERF(1, random_state=0), "found 1"),
        (SMERF(5, bootstrap=False, random_state=0), "same rows"),
    ):
        forest.fit(DATA.X, DATA.Z)
        with pytest.raises(InputError, match=naming(found, "bootstrap=True", "max_samples")):
            forest.pair_distance(DATA.X[:1], DATA.X[1:2], return_std=True)


def test_a_scoring_job_writes_them_beside_the_distances(sealed_of: Callable[[str], Path], tmp_path: Path) -> None:
    rows, sealed = samples.features(), sealed_of("labels")
    pairs = np.array([[0, 5], [7, 7], [3, 1]], np.int64)
    write_array(f"{tmp_path}/in.zarr", "X", rows.shape, rows.dtype, [rows])
    write_array(f"{tmp_path}/in.zarr", "pairs", pairs.shape, pairs.dtype, [pairs])
    question = Question(str(sealed), f"{tmp_path}/in.zarr/X", "standard_error", pairs=f"{tmp_path}/in.zarr/pairs")
    score(question, f"{tmp_path}/out.zarr", Threads(1))
    forest: Any = load(sealed)
    distances, errors = forest.pair_distance(rows[pairs[:, 0]], rows[pairs[:, 1]], return_std=True)
    assert open_array(f"{tmp_path}/out.zarr/distance")[...] == pytest.approx(distances, rel=1e-6)
    assert open_array(f"{tmp_path}/out.zarr/standard_error")[...] == pytest.approx(errors, rel=1e-6)
