"""Trees over features as they are, and URerF, grow by passes as in memory, for any budget and any blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.forest.frontier import Frontier
from distforest.growth.cuts.criteria import Gini
from distforest.growth.cuts.search import Limits, score_and_cut
from distforest.growth.methods import METHODS, problem
from distforest.growth.parameters import complete
from distforest.growth.passes import InTurn, Passes, some_of
from distforest.growth.problem import Data, Problem
from distforest.growth.row_room import RowRoom
from distforest.growth.sample_weights import Draws, SampleWeights
from distforest.jobs.train import fit_here
from distforest.sources.arrays import ArraySource, map_of
from distforest.sources.mapped_rows import MappedRows, has_no_missing
from distforest.sources.row_kinds import Dense, Features
from distforest.sources.source import Projections, project_entries, taken
from distforest.sources.truth import Truth, TruthKind
from tests import samples
from tests.messages import naming
from tests.tries import tries

if TYPE_CHECKING:
    from pathlib import Path

N_COLUMNS = 6
FREE = settings(max_examples=tries(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
BEST, RANDOM = {"splitter": "best"}, {"splitter": "random"}
TAUGHT: dict[str, dict[str, Any]] = {
    "single columns": {},
    "random cuts": RANDOM,
    "sums of columns": {"feature_combinations": 2.0, "max_features": 4},
    "scaled sums": {"feature_combinations": 1.5, "coefficients": "normal", "min_samples_leaf": 5},
}
CLUSTERS: dict[str, dict[str, Any]] = {
    "default": {},
    "all rows judge": {"min_samples_leaf": 4},
    "fast BIC": {**BEST, "criterion": "fast_bic"},
    "fast BIC alone": {**BEST, "criterion": "fast_bic", "n_witnesses": 0},
    "two means": {**BEST, "criterion": "two_means", "relative": False, "n_witnesses": 0},
    "two means of single columns": {**BEST, "criterion": "two_means", "feature_combinations": 1.0, "max_features": 6},
    "a mixture": {**BEST, "criterion": "mclust_bic", "min_samples_split": 100},
}


def data_of(kind: TruthKind, n_rows: int, seed: int, holes: float = 0.0, weights: np.ndarray | None = None) -> Data:
    """Two clusters with a constant column, ties, copies of rows, a row far away, and -9999 for what is not known."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, N_COLUMNS)).astype(np.float32)
    X[: n_rows // 2, :3] += 3.0
    X[:, 2] = np.round(X[:, 2])
    X[:, 3] = 1.0
    X[::7, 4] = -9999.0
    X[n_rows // 3 : n_rows // 2] = X[n_rows // 3]
    X[n_rows // 4, 0] = 1e30
    told = X[:, 2] + rng.normal(size=n_rows)
    X[rng.random(X.shape) < holes] = np.nan
    own = None if weights is None else SampleWeights.from_weights(weights, Draws(n_rows, replace=True))
    truth, classes = np.empty((n_rows, 0)), None
    if kind == TruthKind.LABELS:
        truth, classes = (told > 1.5).astype(np.int32), (0, 1)
    elif kind != TruthKind.NOTHING:
        truth = np.stack([told, rng.normal(size=n_rows)], axis=1)[:, : 1 if kind == TruthKind.TARGETS else 2]
    return Data(Features(N_COLUMNS), X, Truth(kind, truth, classes), sample_weights=own)


def bound(data: Data, passes: Passes | None = None, **given: Any) -> Problem:
    method = METHODS["urerf" if data.truth.kind == TruthKind.NOTHING else "smerf"]
    without = {"feature_weights": None} if method.name == "urerf" else {}
    made = problem(method, data, complete(method.parameters, {"n_estimators": 2, **without, **given}), 3, passes)
    assert isinstance(made, Problem)
    return made


def digest_of(data: Data, passes: Passes | None = None, **given: Any) -> str:
    return fit_here(bound(data, passes, **given)).digest


def check_one_digest(data: Data, passes: Passes, how: dict[str, Any]) -> None:
    """By passes and in memory the same forest grows, and nothing is left on disk."""
    assert digest_of(data, passes, **how) == digest_of(data, **how)
    assert not list(passes.folder.iterdir()), "rows on disk outlive their tree"


@pytest.mark.slow
@FREE
@given(
    kind=st.sampled_from([TruthKind.LABELS, TruthKind.TARGETS, TruthKind.EMBEDDING]),
    how=st.sampled_from(sorted(TAUGHT)),
    n_rows=st.integers(2, 200),
    seed=st.integers(0, 999),
    holes=st.sampled_from([0.0, 0.3, 0.9]),
    budget=st.sampled_from([1, 5_000, 20_000, 1 << 20]),
    block_rows=st.one_of(st.none(), st.integers(1, 70)),
    weighted=st.booleans(),
)
def test_exact_values_grow_the_forest_of_memory_to_the_bit(
    tmp_path: Path,
    kind: TruthKind,
    how: str,
    n_rows: int,
    seed: int,
    holes: float,
    budget: int,
    block_rows: int | None,
    weighted: bool,
) -> None:
    data = data_of(kind, n_rows, seed, holes, weights_of(n_rows, seed) if weighted else None)
    check_one_digest(data, Passes(tmp_path, budget, block_rows), TAUGHT[how])


@pytest.mark.slow
@FREE
@given(
    how=st.sampled_from(sorted(CLUSTERS)),
    n_rows=st.integers(2, 400),
    seed=st.integers(0, 999),
    holes=st.sampled_from([0.0, 0.3, 0.9]),
    budget=st.sampled_from([1, 20_000, 60_000, 1 << 20]),
    block_rows=st.one_of(st.none(), st.integers(1, 500)),
    weighted=st.booleans(),
)
def test_clusters_grow_the_forest_of_memory_to_the_bit(
    tmp_path: Path,
    how: str,
    n_rows: int,
    seed: int,
    holes: float,
    budget: int,
    block_rows: int | None,
    weighted: bool,
) -> None:
    data = data_of(TruthKind.NOTHING, n_rows, seed, holes, weights_of(n_rows, seed) if weighted else None)
    check_one_digest(data, Passes(tmp_path, budget, block_rows), CLUSTERS[how])


@pytest.mark.slow
@FREE
@given(
    how=st.sampled_from(sorted(TAUGHT)),
    n_rows=st.integers(2, 60),
    seed=st.integers(0, 999),
    holes=st.sampled_from([0.0, 0.3, 0.9]),
    budget=st.sampled_from([1, 5_000, 20_000, 1 << 20]),
    weighted=st.booleans(),
    has_categories=st.booleans(),
)
def test_costs_of_classes_grow_the_forest_of_memory_to_the_bit(
    tmp_path: Path, how: str, n_rows: int, seed: int, holes: float, budget: int, weighted: bool, has_categories: bool
) -> None:
    rng = np.random.default_rng(seed)
    data = data_of(TruthKind.LABELS, n_rows, seed, holes, weights_of(n_rows, seed) if weighted else None)
    costs = rng.choice([0.0, 0.125, 1.0, 3.0, 7.0, 1e6], (5, 5)).astype(np.float32)
    costs = np.triu(costs, 1) + np.triu(costs, 1).T
    labels = (data.truth.values + rng.integers(0, 4, n_rows)).astype(np.int32)
    data = replace(data, truth=Truth(TruthKind.LABELS, labels, list(range(5)), costs=costs))
    if has_categories:
        data.array[:, 1] = rng.integers(0, 9, n_rows)
        data = replace(data, rows=Features(N_COLUMNS, (0, 9, 0, 0, 0, 0)))
    check_one_digest(data, Passes(tmp_path, budget), TAUGHT[how])


@pytest.mark.slow
@pytest.mark.parametrize("holes", [0.0, 0.1])
def test_three_budgets_give_one_digest_of_costs(tmp_path: Path, holes: float) -> None:
    data = data_of(TruthKind.LABELS, 3_000, 1, holes)
    costs = np.abs(np.arange(4)[:, None] - np.arange(4)[None]).astype(np.float32)
    labels = (data.truth.values + np.random.default_rng(1).integers(0, 3, 3_000)).astype(np.int32)
    data, given = (
        replace(data, truth=Truth(TruthKind.LABELS, labels, [0, 1, 2, 3], costs=costs)),
        {"min_samples_leaf": 30},
    )
    digests = {digest_of(data, Passes(tmp_path, budget), **given) for budget in (60_000, 200_000, 1 << 20)}
    assert digests == {digest_of(data, **given)}


def weights_of(n_rows: int, seed: int) -> np.ndarray:
    """Whole weights, some of them 0."""
    weights = np.random.default_rng(seed).integers(0, 4, n_rows).astype(float)
    weights[0] = 1.0
    return weights


def test_features_in_a_file_are_read_as_those_in_memory(tmp_path: Path) -> None:
    """Deviations of columns, fences and witnesses are read from the map, too."""
    data = data_of(TruthKind.NOTHING, 900, 5, 0.1, weights_of(900, 5))
    np.save(tmp_path / "X.npy", data.array)
    mapped = replace(data, matrix=np.load(tmp_path / "X.npy", mmap_mode="r"))
    assert map_of(mapped.array) is not None
    assert digest_of(mapped, Passes(tmp_path / "passes", 20_000)) == digest_of(data)


def test_what_cannot_be_grown_is_refused_with_what_to_do(tmp_path: Path) -> None:
    passes = Passes(tmp_path, 1_000)
    data = data_of(TruthKind.TARGETS, 40, 0)
    far = samples.retaught(data, np.where(np.arange(40)[:, None] == 3, 1e30, data.truth.values))
    with pytest.raises(InputError, match="FarVariance"):
        bound(far, passes)
    differences = replace(data, truth=replace(data.truth, kind=TruthKind.DIFFERENCES))
    with pytest.raises(InputError, match="AbsoluteDistance"):
        bound(differences, passes)
    untaught, few = data_of(TruthKind.NOTHING, 40, 0), np.abs(np.round(data.array)) % 3
    codes = replace(untaught, matrix=few, rows=Features(N_COLUMNS, (3,) * N_COLUMNS))
    with pytest.raises(InputError, match=naming("categories", "ground truth")):
        bound(codes, passes)


def test_similarities_are_refused(tmp_path: Path) -> None:
    method, data = METHODS["simforest"], data_of(TruthKind.LABELS, 40, 0)
    of_objects = replace(data, matrix=np.eye(40, dtype=np.float32), rows=Dense(40))
    params = complete(method.parameters, {"n_estimators": 1, "cut": "best"})
    with pytest.raises(InputError, match="TwoObjects"):
        problem(method, of_objects, params, 0, Passes(tmp_path, 1_000))


@pytest.mark.parametrize("held", [1, 2, 3, 7])
@pytest.mark.parametrize("min_leaf", [1, 3])
def test_candidates_in_turn_are_judged_as_all_at_once(held: int, min_leaf: int) -> None:
    rng = np.random.default_rng(held)
    source = ArraySource.from_values(rng.integers(0, 5, (60, 4)).astype(np.float32), is_complete=True)
    starts = np.array([0, 25, 60])
    rows = np.concatenate([np.sort(rng.permutation(60)[:25]), np.arange(35)]).astype(np.int32)
    frontier = Frontier(np.zeros(2, np.int64), np.arange(2, dtype=np.int32), starts, rows, np.ones(60, np.int32))
    projections = candidates(rng, n_nodes=2, width=7)
    criterion, limits = Gini(rng.integers(0, 3, 60).astype(np.int32), 3), Limits(min_samples_leaf=min_leaf)
    expected, values = score_and_cut(source, criterion, frontier, projections, limits)
    found, own_values = InTurn(held)(source, criterion, frontier, projections, limits)
    for name, own in found._asdict().items():
        np.testing.assert_array_equal(own, getattr(expected, name), err_msg=name)
    np.testing.assert_array_equal(own_values, values)


def candidates(rng: np.random.Generator, n_nodes: int, width: int) -> Projections:
    """Candidates of one to three columns of four."""
    sizes = rng.integers(1, 4, n_nodes * width)
    columns = np.concatenate([rng.permutation(4)[:n] for n in sizes.tolist()]).astype(np.int32)
    return Projections(width, np.concatenate([[0], np.cumsum(sizes)]), columns, rng.choice([-1.0, 1.0], len(columns)))


def test_some_candidates_are_those_of_each_node() -> None:
    projections = candidates(np.random.default_rng(0), n_nodes=3, width=5)
    some = some_of(projections, 1, 4)
    assert (some.width, some.n_nodes) == (3, 3)
    for node in range(3):
        for k in range(3):
            own, whole = (
                taken(given, np.array([node]), np.array([place], np.int32))
                for given, place in ((some, k), (projections, k + 1))
            )
            assert own.columns.tolist() == whole.columns.tolist()
            assert own.weights.tolist() == whole.weights.tolist()


@pytest.mark.parametrize("block_rows", [1, 7, 100])
@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_mapped_rows_answer_as_an_array(tmp_path: Path, block_rows: int, holes: float) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, 4)).astype(np.float32)
    X[rng.random(X.shape) < holes] = np.nan
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    source, peer = MappedRows(mapped, not holes, block_rows), ArraySource.from_values(X)
    rows = np.concatenate([np.sort(rng.permutation(50)[:20]), np.arange(50)]).astype(np.int32)
    starts, columns = np.array([0, 20, 70]), np.array([2, 0], np.int32)
    projections = candidates(rng, n_nodes=2, width=3)
    expected = project_entries(peer, rows, starts, projections)
    np.testing.assert_array_equal(source.project(rows, starts, projections), expected)
    np.testing.assert_array_equal(source.block(rows[:20], columns), peer.block(rows[:20], columns))
    np.testing.assert_array_equal(source.entries(rows[:2], columns), peer.entries(rows[:2], columns))
    assert source.shape == (50, 4)
    assert has_no_missing(mapped, block_rows) == (not holes)


def test_a_large_node_holds_as_many_candidates_as_its_budget() -> None:
    room = RowRoom(n_columns=20, truth_bytes=4, width=5)
    assert room.held(1, 1_000) == 1
    assert room.held(1 << 30, 1_000) == 5
    rows = room.most_rows(1 << 20)
    of_large = room.searched_bytes + room.truth_bytes + room.candidate_bytes
    assert rows * of_large <= (1 << 20) * 7 // 8 < (rows + 1) * of_large
    assert room.held(1 << 20, rows) == 1
    assert room.held(1 << 20, rows // 2) > 1
