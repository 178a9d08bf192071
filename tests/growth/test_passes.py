"""Trees that grow by passes over rows on disk are those that grow in memory, for any budget and any blocks."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.growth import problem as problem_of_rows
from distforest.growth.cuts.criteria import Gini, Variance
from distforest.growth.cuts.sums import NodeSums, RowBlock
from distforest.growth.grower import Level
from distforest.growth.passes import Passes, StoredRows, remove_left
from distforest.growth.problem import Data, Problem
from distforest.growth.sample_weights import Draws, SampleWeights
from distforest.jobs.train import fit_here
from distforest.sources.arrays import release_pages
from distforest.sources.binned import BinnedSource
from distforest.sources.row_kinds import Features
from distforest.sources.truth import Truth, TruthKind
from tests import samples
from tests.growth.test_value_passes import bound
from tests.tries import tries

if TYPE_CHECKING:
    from pathlib import Path

N_COLUMNS = 4
FREE = settings(max_examples=tries(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
KINDS = ("labels", "three labels", "targets", "embedding")


def data_of(kind: str, n_rows: int, seed: int, holes: float = 0.0, weights: np.ndarray | None = None) -> Data:
    """Features with ties, a part of them missing, and a truth that two of them tell, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, N_COLUMNS)).astype(np.float32)
    X[:, 2] = np.round(X[:, 2])
    told = X[:, 0] + X[:, 2] + rng.normal(size=n_rows)
    X[rng.random(X.shape) < holes] = np.nan
    own = None if weights is None else SampleWeights.from_weights(weights, Draws(n_rows, replace=True))
    if kind == "targets":
        return Data(Features(N_COLUMNS), X, Truth(TruthKind.TARGETS, told[:, None]), sample_weights=own)
    if kind == "embedding":
        truth = np.stack([told, rng.normal(size=n_rows)], axis=1)
        return Data(Features(N_COLUMNS), X, Truth(TruthKind.EMBEDDING, truth), sample_weights=own)
    n_classes = 2 if kind == "labels" else 3
    labels = np.clip(np.floor(told + n_classes / 2), 0, n_classes - 1).astype(np.int32)
    return Data(Features(N_COLUMNS), X, Truth(TruthKind.LABELS, labels, list(range(n_classes))), sample_weights=own)


def binned(data: Data, passes: Passes | None = None, **given: Any) -> Problem:
    """Trees that read their columns in bins."""
    return bound(data, passes, **{"max_bins": 16, **given})


def binned_digest(data: Data, passes: Passes | None = None, **given: Any) -> str:
    return fit_here(binned(data, passes, **given)).digest


@pytest.mark.slow
@FREE
@given(
    kind=st.sampled_from(KINDS),
    n_rows=st.integers(2, 60),
    seed=st.integers(0, 999),
    holes=st.sampled_from([0.0, 0.3, 0.9]),
    budget=st.sampled_from([1, 500, 2_000, 1 << 20]),
    block_rows=st.one_of(st.none(), st.integers(1, 70)),
    max_bins=st.sampled_from([2, 5, 256]),
    min_leaf=st.sampled_from([1, 4]),
    bootstrap=st.booleans(),
    weighted=st.booleans(),
)
def test_passes_grow_the_forest_of_memory_to_the_bit(
    tmp_path: Path,
    kind: str,
    n_rows: int,
    seed: int,
    holes: float,
    budget: int,
    block_rows: int | None,
    max_bins: int,
    min_leaf: int,
    bootstrap: bool,
    weighted: bool,
) -> None:
    weights = None
    if weighted:
        weights = np.random.default_rng(seed).integers(0, 4, n_rows).astype(float)
        weights[0] = 1.0
    data = data_of(kind, n_rows, seed, holes, weights)
    given = {"max_bins": max_bins, "min_samples_leaf": min_leaf, "bootstrap": bootstrap}
    expected = binned_digest(data, **given)
    assert binned_digest(data, Passes(tmp_path, budget, block_rows), **given) == expected
    assert not list(tmp_path.iterdir()), "rows on disk outlive their tree"


@pytest.mark.parametrize(("kind", "criterion"), [("three labels", "entropy"), ("targets", "poisson")])
def test_so_they_do_by_another_criterion(tmp_path: Path, kind: str, criterion: str) -> None:
    data = data_of(kind, 60, seed=1, holes=0.2)
    if criterion == "poisson":
        data = samples.retaught(data, np.abs(data.truth.values).round())
    expected = binned_digest(data, criterion=criterion)
    assert binned_digest(data, Passes(tmp_path, 500), criterion=criterion) == expected != binned_digest(data)


def test_rows_that_a_killed_process_has_left_are_removed(tmp_path: Path) -> None:
    for name in ("rows-left", "rows-locked", "rows-young", "others"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.codes").write_bytes(b"codes")
        if name != "rows-young":
            os.utime(tmp_path / name, (0, 0))
    handle = os.open(tmp_path / "rows-locked", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        remove_left(tmp_path)
    finally:
        os.close(handle)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["others", "rows-locked", "rows-young"]


@pytest.mark.parametrize("kind", ["labels", "targets"])
@pytest.mark.parametrize("holes", [0.0, 0.4])
def test_a_node_by_sums_is_cut_as_in_memory(tmp_path: Path, kind: str, holes: float) -> None:
    data = data_of(kind, 300, seed=8, holes=holes)
    by_sums = binned(data, Passes(tmp_path, 1, 17), max_depth=3).grow(np.arange(2))
    in_memory = binned(data, max_depth=3).grow(np.arange(2))
    assert list(by_sums) == list(in_memory)
    for name, values in in_memory.items():
        np.testing.assert_array_equal(by_sums[name], values, err_msg=name)


def test_features_are_not_read_again_if_no_row_is_out_of_bag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = data_of("labels", 90, seed=2)
    expected = binned_digest(data, bootstrap=False)
    monkeypatch.setattr(problem_of_rows, "route", None)
    assert binned_digest(data, Passes(tmp_path, 900), bootstrap=False) == expected


def test_each_part_of_a_level_is_watched(tmp_path: Path) -> None:
    levels: list[Level] = []
    binned(data_of("labels", 300, seed=1), Passes(tmp_path, 5_000)).watched(levels.append).grow(np.arange(1))
    whole: list[Level] = []
    binned(data_of("labels", 300, seed=1)).watched(whole.append).grow(np.arange(1))
    for depth in range(max(level.depth for level in whole) + 1):
        parts = [level for level in levels if level.depth == depth]
        assert sum(level.n_open for level in parts) == sum(level.n_open for level in whole if level.depth == depth)
    assert len(levels) > len(whole)


def test_an_error_leaves_no_rows_on_disk(tmp_path: Path) -> None:
    def fail(level: Level) -> None:
        if level.depth == 2:
            raise KeyboardInterrupt

    stopped = binned(data_of("labels", 300, seed=1), Passes(tmp_path, 2_000)).watched(fail)
    with pytest.raises(KeyboardInterrupt):
        stopped.grow(np.arange(1))
    assert not list(tmp_path.iterdir())


def test_far_targets_are_refused(tmp_path: Path) -> None:
    data = data_of("targets", 40, seed=0)
    far = samples.retaught(data, np.where(np.arange(40)[:, None] == 3, 1e30, data.truth.values))
    with pytest.raises(InputError, match="FarVariance"):
        binned(far, Passes(tmp_path, 1_000))


@pytest.mark.kernels
@FREE
@given(seed=st.integers(0, 999), n_rows=st.integers(1, 300), n_classes=st.integers(1, 4))
def test_sums_are_those_of_each_row_alone(seed: int, n_rows: int, n_classes: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 256, (n_rows, 3)).astype(np.uint8)
    labels, weights = rng.integers(0, n_classes, n_rows).astype(np.int32), rng.integers(1, 5, n_rows).astype(np.int32)
    vectors, columns = rng.integers(-99, 99, (n_rows, 2)), np.array([2, 0], np.int32)
    by_class, by_vector = NodeSums.zeros(Gini(labels, n_classes), 2), NodeSums.zeros(Variance(vectors, 1.0), 2)
    for first in range(0, n_rows, 50):
        here = slice(first, first + 50)
        by_class.add(RowBlock(codes[here], labels[here], weights[here]), columns)
        by_vector.add(RowBlock(codes[here], vectors[here], weights[here]), columns)
    for k, column in enumerate(columns.tolist()):
        for code in np.unique(codes[:, column]).tolist():
            rows = np.flatnonzero(codes[:, column] == code).tolist()
            of_classes = [sum(int(weights[r]) for r in rows if labels[r] == c) for c in range(n_classes)]
            of_vectors = [sum(int(weights[r]) * int(vectors[r, q]) for r in rows) for q in range(2)]
            assert by_class.bins.sums[256 * k + code].tolist() == of_classes
            assert by_vector.bins.sums[256 * k + code].tolist() == of_vectors
            assert by_class.filled(k)[code] == by_vector.filled(k)[code] == sum(of_classes)
        assert by_class.filled(k).sum() == by_vector.filled(k).sum() == weights.sum()


@pytest.mark.parametrize("holes", [0.0, 0.2])
@pytest.mark.parametrize("block_rows", [1, 7, 1000])
def test_stored_codes_are_those_in_memory(tmp_path: Path, holes: float, block_rows: int) -> None:
    X = data_of("labels", 90, seed=4, holes=holes).array
    weights = np.arange(90, dtype=np.int32) % 3
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for own in (None, weights):
        expected = BinnedSource.from_features(X, 8, own)
        found = BinnedSource.stored(mapped, 8, own, tmp_path / "codes", block_rows)
        np.testing.assert_array_equal(found.codes, expected.codes)
        np.testing.assert_array_equal(found.edges, expected.edges)
        assert found.is_complete == expected.is_complete == (not holes)


def test_pages_that_are_given_back_are_read_again(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(1000))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")[5:]
    assert mapped.sum() == sum(range(5, 1000))
    release_pages(mapped)
    assert mapped.sum() == sum(range(5, 1000))


def test_changes_that_are_in_no_file_keep_their_pages(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(1000))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="c")
    mapped[7] = -1
    release_pages(mapped[5:])
    assert mapped[7] == -1


def test_rows_are_read_in_the_order_in_which_they_were_written(tmp_path: Path) -> None:
    codes, truth = np.arange(20, dtype=np.uint8).reshape(10, 2), np.arange(30).reshape(10, 3)
    weights, categories = np.arange(1, 11, dtype=np.int32), np.arange(10, dtype=np.float32)[:, None]
    numbers = np.arange(10, dtype=np.int32)[::-1]
    whole = RowBlock(codes, truth, weights, categories, numbers)
    rows = StoredRows(tmp_path / "rows", whole.slice(0, 0))
    for first, last in ((0, 3), (3, 3), (3, 10)):
        rows.append(whole.slice(first, last))
    blocks = list(rows.blocks(4))
    assert [len(block.weights) for block in blocks] == [4, 4, 2]
    for name, values in whole._asdict().items():
        np.testing.assert_array_equal(np.concatenate([getattr(block, name) for block in blocks]), values)
    assert (rows.n_rows, rows.extent.weight, rows.bytes_of_row) == (10, 55, 38)
    assert (rows.extent.least.tolist(), rows.extent.greatest.tolist()) == ([0, 1, 2], [27, 28, 29])
    rows.remove()
    assert not list(tmp_path.iterdir())
