"""SMERF on distances of which some are unobserved: the same forest however that is told, and what it then says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import zarr
from scipy.stats import spearmanr

from distforest import SMERF, Distances, Graph, ObservedDistances, load
from distforest.command_line.reports import inspected
from distforest.errors import DistforestWarning, InputError
from distforest.forest import scoring
from distforest.forest.observed_leaves import ObservedLeafDistances, ObservedMembers
from distforest.forest.roots import unobserved_of_manifest
from distforest.forest.sealed.artifact import read_manifest
from distforest.jobs.cluster import Threads
from distforest.jobs.spec import Spec
from distforest.pictures.out_of_bag import error_curve
from distforest.sources.truth import Truth
from tests.jobs.iris_jobs import run
from tests.messages import naming
from tests.simulated import radial

DATA = radial(70, p=5, random_state=0)
X = DATA.X
HELD_OUT = np.triu(np.random.default_rng(0).random(DATA.Z.shape) < 0.3, 1)
Z = np.where(HELD_OUT | HELD_OUT.T, np.nan, DATA.Z)


def smerf_of(truth: Any = Z, n_estimators: int = 12, **params: Any) -> SMERF:
    return SMERF(n_estimators, **{"random_state": 0, "max_features": None, **params}).fit(X, truth)


@pytest.fixture(scope="module")
def forest() -> SMERF:
    return smerf_of()


def test_a_distance_observed_in_one_direction_counts_for_both() -> None:
    assert smerf_of(np.where(HELD_OUT, np.nan, DATA.Z)).digest_ == smerf_of(DATA.Z).digest_
    assert smerf_of(np.where(HELD_OUT, np.nan, DATA.Z)).unobserved_share_ == 0.0


def test_what_is_unobserved_may_be_told_in_any_way(forest: SMERF) -> None:
    above = np.triu(~np.isnan(Z), 1)
    stored = scipy.sparse.coo_array((Z[above], np.nonzero(above)), Z.shape)  # in one direction, without a diagonal
    empty_diagonal = Z.copy()
    np.fill_diagonal(empty_diagonal, np.nan)
    ways = [Distances(Z), ObservedDistances(stored), ObservedDistances(stored.T.tocsc()), empty_diagonal]
    ways.append(np.ma.masked_invalid(Z))
    assert {smerf_of(way).digest_ for way in ways} == {forest.digest_}
    order = np.arange(len(X))[::-1]
    turned = ObservedDistances(stored)[order][order]
    np.testing.assert_array_equal(turned.matrix(), ObservedDistances(stored).matrix())


def test_threads_and_jobs_grow_the_same_forest(forest: SMERF, tmp_path: Any) -> None:
    assert smerf_of(n_jobs=2).digest_ == forest.digest_
    zarr.save_array(f"{tmp_path}/X.zarr", X)
    zarr.save_array(f"{tmp_path}/Z.zarr", Z)
    (tmp_path / "job.toml").write_text(f"""
format = 1
method = "smerf"
seed = 0
output = "{tmp_path}/forest.zarr"
[input]
features = "{tmp_path}/X.zarr"
distances = "{tmp_path}/Z.zarr"
[params]
n_estimators = 12
max_features = "none"
""")
    run(Spec.from_toml(tmp_path / "job.toml"), Threads())
    loaded = load(f"{tmp_path}/forest.zarr")
    assert loaded.digest_ == forest.digest_
    np.testing.assert_array_equal(loaded.distance(X), forest.distance(X))
    assert loaded.unobserved_share_ == forest.unobserved_share_ > 0.1


def test_a_sealed_forest_says_how_much_was_unobserved(forest: SMERF, tmp_path: Any) -> None:
    forest.save(f"{tmp_path}/some.zarr")
    smerf_of(DATA.Z).save(f"{tmp_path}/all.zarr")
    manifests = {name: read_manifest(f"{tmp_path}/{name}.zarr") for name in ("some", "all")}
    shares = {name: unobserved_of_manifest(f"{tmp_path}/{name}.zarr", manifest) for name, manifest in manifests.items()}
    assert shares == {"some": forest.unobserved_share_, "all": None}
    told = inspected("some.zarr", manifests["some"], None, None, 0.25)
    assert "25 %" in dict(told.lines)["observed"]
    assert told.answer["unobserved_share"] == 0.25
    assert "unobserved_share" not in inspected("all.zarr", manifests["all"], None, None).answer


def test_both_leaf_tables_say_the_same(forest: SMERF) -> None:
    shallow = smerf_of(min_samples_leaf=8)
    assert isinstance(forest.forest_.leaf_table, ObservedMembers)
    table = shallow.forest_.leaf_table
    assert isinstance(table, ObservedLeafDistances)
    parts = (shallow.forest_.leaves, shallow.forest_.in_bag, Z.astype(np.float32))
    members = ObservedMembers(shallow.forest_.table, *parts)  # type: ignore[arg-type]
    leaves = np.flatnonzero(shallow.forest_.table.is_leaf[: shallow.forest_.table.tree_size[0]])
    np.testing.assert_array_equal(members.between(0, leaves, leaves), table.between(0, leaves, leaves))


def test_pairs_that_were_held_out_are_estimated_from_the_others() -> None:
    said = smerf_of(n_estimators=60).distance(X)[HELD_OUT]
    assert spearmanr(said, DATA.Z[HELD_OUT])[0] > 0.85


def test_new_rows_are_told_nearly_as_well_as_with_all_distances() -> None:
    new = radial(60, p=5, random_state=1)
    of_pairs = np.triu_indices(60, 1)
    complete, without = (
        spearmanr(smerf_of(z, n_estimators=60).distance(new.X)[of_pairs], new.Z[of_pairs])[0] for z in (DATA.Z, Z)
    )
    assert complete - without < 0.03


def test_errors_are_those_of_observed_pairs() -> None:
    forest = smerf_of(n_estimators=80, oob_score=True)
    left, right = np.nonzero(np.triu(~np.isnan(Z), 1))
    said, _ = scoring.out_of_bag_distance(forest.forest_, left, right)
    assert forest.oob_rmse_ == pytest.approx(np.sqrt(np.mean((said - Z[left, right]) ** 2)), rel=1e-5)
    curve = error_curve(forest.forest_, Truth.from_given(Z))
    assert curve.error[-1] == pytest.approx(forest.oob_rmse_, rel=1e-5)
    without = Z.copy()
    without[:35] = without[:, :35] = np.nan
    assert forest.score(X, without) == pytest.approx(forest.score(X[35:], Z[35:, 35:]))


def test_trees_that_drew_no_observed_pair_are_left_to_the_others() -> None:
    few = np.full_like(Z, np.nan)
    few[0, 1:3] = [1.0, 2.0]
    with pytest.warns(DistforestWarning, match=naming("DF010", 67, "row 3")):
        forest = smerf_of(few, n_estimators=30, min_samples_leaf=12)
    table = forest.forest_.leaf_table
    assert isinstance(table, ObservedLeafDistances)
    assert 0 < table.silent.sum() < 30
    distances = forest.distance(X)
    assert np.isfinite(distances).all()
    nodes = forest.apply(X).T.astype(np.int32)
    telling = np.flatnonzero(~table.silent)
    means = [np.mean([table.pairs(t, nodes[t, :1], nodes[t, 1:2])[0] for t in telling])]
    assert [distances[0, 1]] == pytest.approx(means)
    pairs = scoring.pair_distance(forest.forest_, nodes[:, :1], nodes[:, 1:2])
    assert pairs.tolist() == pytest.approx([distances[0, 1]])
    _, counts = scoring.out_of_bag_distance(forest.forest_, np.array([5]), np.array([6]))
    out = (forest.forest_.in_bag[:, [5, 6]] == 0).all(axis=1)
    assert counts.tolist() == [(out & ~table.silent).sum()]


def test_a_forest_of_silent_trees_says_so() -> None:
    few = np.full_like(Z, np.nan)
    few[0, 1] = 1.0
    with (
        pytest.warns(DistforestWarning, match=naming("DF010", 68, "row 2")),
        pytest.warns(DistforestWarning, match=naming(1, "2,415")),
    ):
        forest = smerf_of(few, n_estimators=2, max_samples=0.05)
    assert np.isnan(forest.distance(X)).all()
    nodes = forest.apply(X).T.astype(np.int32)
    assert np.isnan(scoring.pair_distance(forest.forest_, nodes, nodes)).all()


def test_links_that_nobody_knows_are_none_of_the_absent_ones() -> None:
    A = (np.median(DATA.Z) > DATA.Z).astype(np.float64)
    np.fill_diagonal(A, 0.0)
    unknown = np.where(np.isnan(Z), np.nan, A)
    forest = smerf_of(Graph(unknown), n_estimators=60)
    linked, others = (forest.distance(X)[HELD_OUT & (own == A)] for own in (1.0, 0.0))
    assert linked.mean() + 0.3 < others.mean()
    no_loops = unknown.copy()
    np.fill_diagonal(no_loops, np.nan)
    assert smerf_of(Graph(no_loops)).digest_ == smerf_of(Graph(unknown)).digest_


@pytest.mark.parametrize(
    "params", [{"splitter": "random"}, {"feature_combinations": 2.0, "max_features": 8}, {"max_bins": 16}]
)
def test_it_goes_with_every_kind_of_split(params: dict[str, Any]) -> None:
    said = smerf_of(n_estimators=40, **params).distance(X)[HELD_OUT]
    assert spearmanr(said, DATA.Z[HELD_OUT])[0] > 0.6


def test_rows_of_weight_0_are_absent() -> None:
    weights = np.ones(70)
    weights[50:] = 0.0
    one, other = SMERF(8, random_state=0), SMERF(8, random_state=0)
    weighed, short = one.fit(X, Z, sample_weight=weights), other.fit(X[:50], Z[:50, :50])
    np.testing.assert_array_equal(weighed.distance(X), short.distance(X))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (np.where(np.eye(70) > 0, 0.0, np.nan), ("distances:", "2,415", "NaN")),
        (scipy.sparse.csr_array(np.eye(70)), ("distances:", "ObservedDistances(Z)", "Graph(A)", "Z.toarray()")),
        (Distances(scipy.sparse.csr_array(np.eye(70))), ("ObservedDistances(Z)",)),
        (np.where(np.arange(70) == np.arange(70)[:, None] - 70, 1.0, np.inf), ("distances", "NaN", "row 0", "inf")),
    ],
)
def test_what_is_refused(given: Any, named: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        smerf_of(given)


def test_trees_are_added_and_distances_explained() -> None:
    forest = smerf_of(n_estimators=5, warm_start=True)
    assert forest.set_params(n_estimators=12).fit(X, Z).digest_ == smerf_of().digest_
    found = forest.explain(X[:2], X[5:7])
    np.testing.assert_allclose(found.distances, forest.distance(X[:2], X[5:7]).diagonal(), rtol=1e-9)
    np.testing.assert_allclose(found.baselines + found.contributions.sum(axis=1), found.distances, rtol=1e-9)
