"""What must not change when distances or targets do: one far row, a common offset, another unit, another order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from distforest import SMERF, Embedding, SimForestRegressor, Targets, load
from distforest.errors import DistforestWarning
from distforest.forest.sealed.artifact import open_forest
from distforest.jobs.input_staging import stage_inputs
from distforest.sources.scratch import ScratchFolder
from tests.estimators.jobs import run_job, spec_of, write_arrays
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

N = 60
RNG = np.random.default_rng(0)
X = RNG.random((N, 2)).astype(np.float32)
WHOLE = np.rint(64 * X[:, 0] + 8 * RNG.random(N))  # so that squares, and what is taken off them, are whole numbers


def half_squares(y: np.ndarray) -> np.ndarray:
    """The distances that targets stand for."""
    return (y[:, None] - y) ** 2 / 2


def smerf_of(Z: Any, rows: np.ndarray = X, **params: Any) -> SMERF:
    return SMERF(**{"n_estimators": 10, "max_features": None, "random_state": 0, **params}).fit(rows, Z)


def cuts_of(forest: SMERF) -> list[bytes]:
    """Where the trees are cut."""
    table = forest.forest_.table
    return [getattr(table, name).tobytes() for name in ("tree_size", "left", "columns", "threshold")]


@pytest.mark.filterwarnings("ignore::distforest.errors.DistforestWarning")
@pytest.mark.parametrize("largest", [1e2, 1e4, 1e6, 1e9])
def test_one_far_row_blinds_no_other(largest: float) -> None:
    y = WHOLE / 16
    y[0] = largest
    Z, others = half_squares(y), np.triu_indices(N - 1, 1)
    dense, targets = smerf_of(Z, n_estimators=30), smerf_of(Targets(y), n_estimators=30)
    ranks = [spearmanr(one.distance(X[1:])[others], Z[1:, 1:][others])[0] for one in (dense, targets)]
    assert abs(ranks[0] - ranks[1]) < 0.02
    assert dense.forest_.table.tree_size.mean() > 0.95 * targets.forest_.table.tree_size.mean()


@pytest.mark.parametrize("offset", [1e3, 1e5, 1e7, -1e7, 2.0**40])
def test_a_common_offset_changes_no_cut_and_is_part_of_every_distance(offset: float) -> None:
    Z = half_squares(WHOLE)
    plain, shifted = (smerf_of(one, n_estimators=90, oob_score=True) for one in (Z, Z + offset))
    assert cuts_of(shifted) == cuts_of(plain)
    np.testing.assert_allclose(shifted.forest_.table.gain, plain.forest_.table.gain, rtol=1e-9)
    np.testing.assert_allclose(shifted.distance(X), plain.distance(X) + offset, rtol=1e-12)
    np.testing.assert_allclose(shifted.oob_score_, plain.oob_score_, atol=1e-6)
    np.testing.assert_allclose(shifted.score(X, Z + offset), plain.score(X, Z), atol=1e-6)
    assert shifted.digest_ != plain.digest_


@pytest.mark.parametrize("n_estimators", [2, 60])
def test_an_offset_is_sealed_with_the_forest(n_estimators: int, tmp_path: Path) -> None:
    forest = smerf_of(half_squares(WHOLE) + 1e7, n_estimators=n_estimators)
    address = str(tmp_path / "far.forest.zarr")
    forest.save(address)
    kind = {2: "leaf_distances", 60: "members"}[n_estimators]
    assert open_forest(address).leaf_table.kind == kind
    assert load(address).distance(X).tobytes() == forest.distance(X).tobytes()


@pytest.mark.slow
def test_a_job_takes_the_offset_off_block_by_block(tmp_path: Path) -> None:
    Z = half_squares(WHOLE)
    at = write_arrays(f"{tmp_path}/data.zarr", {"X": X, "Z": Z, "far": Z + 1e7}, chunk_bytes=1 << 12)
    found = []
    for name in ("Z", "far"):
        inputs = {"features": at["X"], "distances": at[name]}
        spec = spec_of(tmp_path, "smerf", inputs, name, n_estimators=10, max_features=None)
        staged = stage_inputs(spec, f"{tmp_path}/{name}")
        found.append((staged.fingerprint, run_job(spec).digest))
        path = staged.truth.open(
            ScratchFolder(tmp_path / "elsewhere")
        )  # another host stages for itself, and finds the same bytes
        assert path.tolist() == Z.tolist()
    assert found[1][1] == smerf_of(Z + 1e7).digest_
    assert len({fingerprint for fingerprint, _ in found}) == 2
    assert found[0][1] == smerf_of(Z).digest_ != found[1][1]


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(-83, 83))
def test_a_unit_of_a_power_of_two_changes_no_cut(power: int) -> None:
    plain, scaled = smerf_of(half_squares(WHOLE + X[:, 1])), smerf_of(half_squares(WHOLE + X[:, 1]) * 2.0**power)
    assert cuts_of(scaled) == cuts_of(plain)
    assert (plain.forest_.table.gain * 2.0**power).tobytes() == scaled.forest_.table.gain.tobytes()


@pytest.mark.parametrize("unit", [1e-25, 1e-7, 1e25])
def test_any_unit_changes_no_cut(unit: float) -> None:
    assert cuts_of(smerf_of(half_squares(WHOLE) * unit)) == cuts_of(smerf_of(half_squares(WHOLE)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::distforest.errors.DistforestWarning")
@settings(max_examples=10, deadline=None)
@given(st.permutations(range(N)), st.sampled_from([8.0, 1e5]))
def test_rows_in_another_order_are_parted_alike(order: list[int], far: float) -> None:
    y = np.where(np.arange(N) == 7, far, WHOLE)
    plain, other = (
        smerf_of(half_squares(y), bootstrap=False),
        smerf_of(half_squares(y[order]), X[order], bootstrap=False),
    )
    assert cuts_of(other) == cuts_of(plain)
    assert other.forest_.leaves.tolist() == plain.forest_.leaves[:, order].tolist()


def test_distances_that_differ_only_from_those_of_rows_to_themselves_are_reported() -> None:
    Z = half_squares(WHOLE) + 1e7
    np.fill_diagonal(Z, 0.0)
    with pytest.warns(DistforestWarning, match=naming("distances:", 10000000, "diagonal")):
        smerf_of(Z, n_estimators=1)
    smerf_of(1.0 - np.eye(N), n_estimators=1)  # all alike: nothing to lose


@pytest.mark.parametrize("separation", [1e6, 1e9, 1e10])
def test_the_distance_inside_a_group_does_not_cancel_however_far_the_groups_are_apart(separation: float) -> None:
    side = np.arange(N) % 2
    y = side * separation + 1.7e9 + RNG.normal(size=N)
    rows = side[:, None].astype(np.float32)
    own = y[side == 0]
    expected = half_squares(own).mean()
    found = SMERF(1, bootstrap=False).fit(rows, Targets(y)).distance(rows[:1])
    assert found[0, 0] == pytest.approx(expected, rel=1e-4)
    found = SMERF(1, bootstrap=False).fit(rows, Embedding(y)).distance(rows[:1])
    assert found[0, 0] == pytest.approx(2 * expected, rel=1e-4)
    similar = SimForestRegressor("linear", n_estimators=1, bootstrap=False, random_state=0).fit(rows, y)
    assert similar.distance(rows[:1])[0, 0] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("separation", [0.0, 1e9, 1e12])
def test_targets_are_parted_inside_a_group_however_far_the_groups_are_apart(separation: float) -> None:
    y = (np.arange(N) % 2) * separation + WHOLE
    rows = np.column_stack([np.arange(N) % 2, WHOLE]).astype(np.float32)
    table = smerf_of(Targets(y), rows, bootstrap=False, n_estimators=1).forest_
    assert len(np.unique(table.leaves[0])) == len(np.unique(y))
