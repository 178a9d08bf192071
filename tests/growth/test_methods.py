"""Methods bound to data: one forest however its trees are dealt out, and rows that route to where they grew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.forest.forest import NODE_ARRAYS
from distforest.forest.node_table import NodeTable, route, route_levels
from distforest.growth.draws.column_draws import Axis, Oblique
from distforest.growth.draws.objects import TwoObjects
from distforest.growth.methods import METHODS, n_candidates, problem, sampling
from distforest.growth.parameters import complete
from distforest.growth.problem import Sampling, put_together
from distforest.jobs import plan
from distforest.jobs.train import fit_here
from distforest.sources.arrays import ArraySource
from distforest.sources.binned import BinnedSource
from distforest.sources.filled import FilledSource
from distforest.sources.kernels import KernelSource
from tests import samples
from tests.messages import naming
from tests.reference import naive

if TYPE_CHECKING:
    from collections.abc import Callable

    from distforest.forest.forest import Forest

CASES = sorted(samples.CASES)
N_TREES = 7


def table_of(arrays: dict[str, np.ndarray]) -> NodeTable:
    return NodeTable(**{name: arrays[name] for name in NODE_ARRAYS}, surrogate=arrays.get("surrogate"))


def joined(parts: list[dict[str, np.ndarray]]) -> dict[str, bytes]:
    """Parts of a forest one after another; the triangles only where every part has them, as in a merge."""
    found = {name: np.concatenate([part[name] for part in parts]).tobytes() for name in parts[0]}
    if not all(len(part.get("leaf_distances", "-")) for part in parts):
        found["leaf_distances"] = b""
    return found


# --- one forest, however it is grown ----------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_trees_one_by_one_in_batches_and_all_at_once_are_the_same(case: str) -> None:
    grow = samples.problem_of(case).grow
    together = joined([grow(np.arange(N_TREES))])
    assert joined([grow(np.array([tree])) for tree in range(N_TREES)]) == together
    assert joined([grow(np.arange(first, min(first + 3, N_TREES))) for first in range(0, N_TREES, 3)]) == together


@pytest.mark.parametrize("case", CASES)
def test_one_digest_for_every_batch_and_number_of_threads(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = samples.problem_of(case, n_estimators=N_TREES)
    monkeypatch.setattr(plan, "TASKS_PER_SLOT", 1)
    digests = set()
    for batch, threads in ((1, 1), (3, 2), (64, 1)):
        monkeypatch.setattr(plan, "MAX_BATCH", batch)
        digests.add(fit_here(problem, threads).digest)
    assert digests == {samples.forest_from(problem).digest}


@pytest.mark.parametrize("case", CASES)
def test_another_seed_is_another_forest_and_the_same_seed_the_same(case: str) -> None:
    digest = fit_here(samples.problem_of(case)).digest
    assert fit_here(samples.problem_of(case)).digest == digest
    assert fit_here(samples.problem_of(case, seed=samples.SEED + 1)).digest != digest


@pytest.mark.parametrize("case", CASES)
def test_data_in_another_memory_order_or_dtype_is_the_same_data(case: str) -> None:
    data = samples.data_of(case)
    trees = np.arange(3)
    plain = joined([samples.problem_of(case, data).grow(trees)])
    other = samples.with_matrix(data, np.asfortranarray(data.matrix.astype(np.float64)))
    if case not in samples.KERNEL_CASES:  # their matrix goes to the kernels as it is
        assert joined([samples.problem_of(case, other).grow(trees)]) == plain
    locked = data.matrix.copy()
    locked.flags.writeable = False
    assert joined([samples.problem_of(case, samples.with_matrix(data, locked)).grow(trees)]) == plain


# --- routing is the twin of growing -----------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_training_rows_end_where_they_grew(case: str) -> None:
    problem = samples.problem_of(case)
    trees = np.arange(N_TREES)
    weights = problem.sampling.weights(problem.growth.seed, trees)
    _, grew = problem.growth.grow(trees, weights)
    table, rows = table_of(problem.grow(trees)), np.arange(problem.data.n_rows, dtype=np.int32)
    source = samples.as_split(case, problem)
    by_level = np.full((table.n_trees, len(rows)), -1, np.int32)
    route_levels(table, source, rows, np.ones(by_level.shape, np.bool_), by_level)
    for ends in (route(table, source, rows), by_level):
        assert (ends[weights > 0] == grew[weights > 0]).all()
        assert ends.tolist() == problem.grow(trees)["leaves"].tolist()
    assert (table.tree_size > 3).all()  # or there would be little to hold
    if case == "missing":
        assert not table.is_leaf[(table.tree_start[:-1, None] + grew)[weights > 0]].all()


@settings(max_examples=25)
@given(st.sampled_from(CASES), st.integers(0, 2**40), st.integers(4, 30))
def test_training_rows_end_where_they_grew_for_any_data(case: str, seed: int, n_rows: int) -> None:
    problem = samples.problem_of(case, samples.data_of(case, n_rows, seed % 997), seed, min_samples_leaf=1)
    trees = np.array([seed % 1000])
    weights = problem.sampling.weights(seed, trees)
    _, grew = problem.growth.grow(trees, weights)
    table = table_of(problem.grow(trees))
    table.check(problem.data.n_rows if case not in samples.FEATURE_CASES else samples.N_COLUMNS)
    ends = route(table, samples.as_split(case, problem), np.arange(n_rows, dtype=np.int32))
    assert (ends[weights > 0] == grew[weights > 0]).all()


@pytest.mark.parametrize("case", CASES)
def test_nodes_hold_what_the_rows_below_them_weigh(case: str) -> None:
    arrays = samples.problem_of(case).grow(np.arange(3))
    table, begin = table_of(arrays), 0
    for tree, size in enumerate(table.tree_size.tolist()):
        own = {"left": table.left[begin : begin + size], "right": table.right[begin : begin + size]}
        for node in range(size):
            rows = naive.reached(own, arrays["leaves"][tree].tolist(), node)
            assert table.n_rows[begin + node] == arrays["in_bag"][tree][rows].sum()
        begin += size


# --- parameters -------------------------------------------------------------------------------------------


@given(st.integers(0, 2**62), st.integers(1, 30), st.booleans(), st.data())
def test_sampling_is_the_reference(seed: int, n_rows: int, replace: bool, data: st.DataObject) -> None:
    n_draws = data.draw(st.integers(1, n_rows))
    weights = Sampling(n_rows, n_draws, replace).weights(seed, np.array([3, 0]))
    draw = naive.bootstrap_weights if replace else naive.subsample_weights
    assert weights.dtype == np.int32
    assert weights.tolist() == [draw(seed, tree, n_rows, n_draws).tolist() for tree in (3, 0)]


@pytest.mark.parametrize(
    ("max_samples", "n_draws"),
    [(None, 10), (10, 10), (3, 3), (1, 1), (1.0, 10), (0.26, 3), (0.01, 1), (np.float64(0.5), 5)],
)
def test_max_samples_is_a_number_a_share_or_all(max_samples: Any, n_draws: int) -> None:
    found = sampling({"max_samples": max_samples, "bootstrap": False}, 10)
    assert found == Sampling(10, n_draws, False)


def test_more_rows_than_there_are_cannot_be_drawn() -> None:
    with pytest.raises(InputError, match=naming("max_samples=11", 10)):
        sampling({"max_samples": 11, "bootstrap": True}, 10)


@pytest.mark.parametrize(
    ("max_features", "width"),
    [("sqrt", 3), ("log2", 3), (None, 10), (4, 4), (0.35, 3), (1.0, 10), (0.01, 1), (1, 1), (np.int64(6), 6)],
)
def test_max_features_of_ten_columns(max_features: Any, width: int) -> None:
    assert n_candidates(max_features, 10) == width


def test_draws_of_the_methods() -> None:
    axis, oblique = (samples.problem_of(case, max_features=4).growth.draw for case in ("labels", "oblique"))
    pairs = samples.problem_of("rbf_targets", n_pairs=5).growth.draw
    assert axis == Axis(5, 4)
    assert isinstance(oblique, Oblique)
    assert (len(oblique.columns.cumulative), oblique.width, oblique.combinations, oblique.scales) == (5, 4, 2.5, None)
    assert isinstance(pairs, TwoObjects)
    assert (pairs.width, pairs.truth.by_class) == (5, False)
    assert samples.problem_of("labels", max_features=99).growth.draw == Axis(5, 5)
    assert samples.problem_of("dense").growth.draw.width == 4


@pytest.mark.parametrize("case", CASES)
def test_a_source_is_what_the_rows_say(case: str) -> None:
    expected = KernelSource if case in samples.KERNEL_CASES else ArraySource
    assert type(samples.data_of(case).source()) is expected
    grown_on = type(samples.problem_of(case).growth.source)
    assert grown_on is (BinnedSource if "binned" in case else FilledSource if case == "means" else expected)


def test_limits_of_a_tree_hold() -> None:
    arrays = samples.problem_of("labels", min_samples_leaf=4, max_depth=2, min_samples_split=9).grow(np.arange(5))
    table = table_of(arrays)
    assert (table.n_rows >= 4).all()
    assert (table.n_rows[~table.is_leaf] >= 9).all()
    assert (table.tree_size <= 7).all()
    assert table.n_trees == 5


def test_a_method_refuses_what_it_cannot_learn_from() -> None:
    distances, labelled = samples.data_of("distances"), samples.data_of("labels")
    smerf, simforest = METHODS["smerf"], METHODS["simforest"]
    with pytest.raises(InputError, match=naming("simforest", "distances")):
        problem(simforest, distances, complete(simforest.parameters, {}), 0)
    with pytest.raises(InputError, match=naming("features", 36, "labels", 35)):
        problem(smerf, samples.retaught(labelled, labelled.truth.values[:-1]), complete(smerf.parameters, {}), 0)
    assert list(METHODS) == ["smerf", "simforest", "urerf", "isolation", "rfd", "treerank"]


# --- what leaves keep -------------------------------------------------------------------------------------


def test_tables_of_leaf_distances_are_kept_where_they_are_no_larger_than_the_matrix(
    forest_of: Callable[[str], Forest],
) -> None:
    small, large = forest_of("distances"), forest_of("members")
    assert (small.meaning.leaf.kind, large.meaning.leaf.kind) == ("leaf_distances", "members")
    assert set(small.arrays()) ^ set(large.arrays()) == {"leaf_distances", "distances"}
    assert small.leaf_table.arrays()["leaf_distances"].nbytes <= 4 * samples.N_ROWS**2
    limit = samples.problem_of("members").taught.triangle_limit
    leaves = [len(set(own)) for own in large.leaves.tolist()]
    assert max(n * (n + 1) // 2 for n in leaves) > limit


def test_a_forest_keeps_its_meaning(forest_of: Callable[[str], Forest]) -> None:
    forest = forest_of("rbf")
    assert forest.meaning.method == "simforest"
    assert forest.meaning.classes == ["a", "b", "c"]
    assert forest.meaning.seed == samples.SEED
    assert forest.meaning.rows == samples.data_of("rbf").rows
    assert forest.meaning.params["n_estimators"] == forest.n_trees == 4
    assert forest.objects is not None
    assert forest_of("labels").objects is None


# --- data that is hard ------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", sorted({*CASES} - {"landmark_targets"}))  # whose share needs rows for two landmarks
@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_a_few_rows_make_a_forest(case: str, n_rows: int) -> None:
    forest = fit_here(samples.problem_of(case, samples.data_of(case, n_rows)))
    forest.check()
    assert forest.leaves.shape == (forest.n_trees, n_rows)


@pytest.mark.parametrize("case", CASES)
def test_rows_that_are_all_alike_make_a_forest_of_roots(case: str) -> None:
    data = samples.data_of(case)
    if case in {"dense", "missing", "surrogate"}:
        same = samples.with_matrix(data, np.ones_like(data.matrix))
    else:
        same = samples.with_matrix(data, np.repeat(data.matrix[:1], data.n_rows, axis=0))
    forest = fit_here(samples.problem_of(case, same))
    assert forest.table.tree_size.tolist() == [1] * forest.n_trees
    assert not forest.leaves.any()


@pytest.mark.parametrize("case", ["labels", "oblique", "dense", "rbf"])
def test_one_class_makes_a_forest_of_roots(case: str) -> None:
    data = samples.data_of(case)
    only = samples.retaught(data, np.zeros_like(data.truth.values), classes=["only"])
    forest = fit_here(samples.problem_of(case, only))
    assert forest.table.tree_size.tolist() == [1] * forest.n_trees


@pytest.mark.parametrize("case", ["targets", "embedding", "rbf_targets"])
def test_one_target_makes_a_forest_of_roots(case: str) -> None:
    data = samples.data_of(case)
    forest = fit_here(samples.problem_of(case, samples.retaught(data, np.full_like(data.truth.values, 2.5))))
    assert forest.table.tree_size.tolist() == [1] * forest.n_trees


@pytest.mark.parametrize("case", ["distances", "members"])
def test_distances_of_zero_make_a_forest_of_roots(case: str) -> None:
    data = samples.data_of(case)
    forest = fit_here(samples.problem_of(case, samples.retaught(data, np.zeros_like(data.truth.values), largest=0.0)))
    assert forest.table.tree_size.tolist() == [1] * forest.n_trees
    forest.check()


def test_an_object_of_which_nothing_is_observed_stays_at_the_root() -> None:
    data = samples.data_of("dense")
    S = data.matrix.copy()
    S[5], S[:, 5] = np.nan, np.nan
    forest = fit_here(samples.problem_of("dense", samples.with_matrix(data, S)))
    assert forest.leaves[:, 5].tolist() == [0] * forest.n_trees
    assert 5 not in forest.table.columns
    assert (forest.table.tree_size > 1).all()


@pytest.mark.parametrize(("said", "ours"), [("n_trees", "n_estimators"), ("mtry", "max_features")])
def test_a_name_of_other_packages_leads_to_ours(said: str, ours: str) -> None:
    with pytest.raises(InputError, match=naming(repr(said), repr(ours))):
        complete(METHODS["smerf"].parameters, {said: 5})


def test_parts_are_put_together_and_none_of_their_arrays_is_held_twice() -> None:
    parts = [{"left": np.array([1, 2]), "gain": np.array([0.5])}, {"left": np.array([3]), "gain": np.array([0.25])}]
    found = put_together(parts, ["left", "gain"])
    assert {name: array.tolist() for name, array in found.items()} == {"left": [1, 2, 3], "gain": [0.5, 0.25]}
    assert parts == [{}, {}]


def test_one_part_is_not_copied() -> None:
    own = np.arange(3)
    assert put_together([{"left": own}], ["left"])["left"] is own
