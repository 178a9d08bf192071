"""Importances: equal to the slow reference, named rightly on the paper's simulation, refused for other rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

from distforest import SMERF, Targets, URerF
from distforest.errors import DistforestWarning, InputError
from distforest.forest.node_table import route
from tests.messages import naming
from tests.reference.naive_importances import gain_errors, permutation_importances
from tests.simulated import radial

DATA = radial(60, p=5, random_state=0)
FEATURES = DATA.X
LABELS = (DATA.y > np.median(DATA.y)).astype(int)
HOLES = np.where(np.random.default_rng(0).random(DATA.Z.shape) < 0.3, np.nan, DATA.Z)
HOLES = (HOLES + HOLES.T) / 2.0
KINDS: dict[str, Any] = {"distances": DATA.Z, "labels": LABELS, "targets": Targets(DATA.y), "holes": HOLES}


def fitted(kind: str, **params: Any) -> Any:
    return SMERF(**{"n_estimators": 6, "feature_combinations": 2.0, "random_state": 0, **params}).fit(
        FEATURES, KINDS[kind]
    )


def true_distances(kind: str) -> np.ndarray:
    if kind == "labels":
        return (LABELS[:, None] != LABELS).astype(float)
    return {"distances": DATA.Z, "targets": np.subtract.outer(DATA.y, DATA.y) ** 2 / 2.0, "holes": HOLES}[kind]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_importances_are_those_of_the_definition(kind: str) -> None:
    forest = fitted(kind)
    found = forest.permutation_importances(FEATURES, KINDS[kind], random_state=3)
    importances, errors = permutation_importances(forest, FEATURES, true_distances(kind), np.ones(60), 3)
    assert np.abs(found.importances - importances).max() < 1e-7  # distances are held in float32
    assert np.abs(found.standard_errors - errors).max() < 1e-7
    by_gain = forest.gain_importances()
    assert by_gain.importances == pytest.approx(forest.feature_importances_)
    assert by_gain.standard_errors == pytest.approx(gain_errors(forest.forest_))


def test_pairs_weigh_the_product_of_the_weights_of_their_rows() -> None:
    weights = np.tile([1, 2, 0], 20)
    forest = SMERF(6, random_state=0).fit(FEATURES, DATA.Z, sample_weight=weights)
    found = forest.permutation_importances(FEATURES, DATA.Z)
    importances, _ = permutation_importances(forest, FEATURES, DATA.Z, weights, 0)
    assert np.abs(found.importances - importances).max() < 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_the_two_features_that_matter_are_the_largest(seed: int) -> None:
    data = radial(320, random_state=seed)
    params: dict[str, Any] = {"max_features": None, "feature_combinations": 2.0, "random_state": seed}
    forest = SMERF(50, **params).fit(data.X, data.Z)
    for found in (forest.gain_importances(), forest.permutation_importances(data.X, data.Z)):
        assert {name for name, _, _ in found.largest(2)} == {"x0", "x1"}


@pytest.mark.slow
def test_the_standard_error_is_that_of_other_seeds() -> None:
    many = [SMERF(20, random_state=seed).fit(FEATURES, DATA.Z) for seed in range(60)]
    for found in (
        [forest.gain_importances() for forest in many],
        [forest.permutation_importances(FEATURES, DATA.Z, random_state=k) for k, forest in enumerate(many)],
    ):
        spread = np.std([one.importances for one in found], axis=0, ddof=1)
        told = np.sqrt(np.mean([one.standard_errors**2 for one in found], axis=0))
        assert np.all(np.abs(told / spread - 1.0) < 0.35)  # a deviation of 60 varies by 9 %, of the trees by a little


@pytest.mark.filterwarnings("ignore::distforest.errors.DistforestWarning")
def test_sparse_rows_and_sizes_of_nodes_count() -> None:
    thin = np.where(FEATURES > 0.5, FEATURES, 0.0).astype(np.float32)
    sparse = scipy.sparse.csr_matrix(thin)
    one = SMERF(6, random_state=0).fit(sparse, LABELS).permutation_importances(sparse, LABELS)
    other = SMERF(6, random_state=0).fit(thin, LABELS).permutation_importances(thin, LABELS)
    assert np.array_equal(one.importances, other.importances)
    untaught = URerF(5, random_state=0).fit(FEATURES)
    assert untaught.gain_importances().importances == pytest.approx(untaught.feature_importances_)
    assert not hasattr(untaught, "permutation_importances")


def test_a_constant_feature_has_none_and_a_shift_changes_nothing() -> None:
    rows = np.column_stack([FEATURES, np.ones(60, np.float32)])
    found = SMERF(6, random_state=0).fit(rows, DATA.Z).permutation_importances(rows, DATA.Z)
    assert found.importances[-1] == found.standard_errors[-1] == 0.0
    whole = np.round(FEATURES * 64).astype(np.float32)
    one, other = (
        SMERF(6, random_state=0).fit(rows, LABELS).permutation_importances(rows, LABELS).importances
        for rows in (whole, whole + np.float32(1024))
    )
    assert np.array_equal(one, other)


def test_a_single_tree_has_no_standard_error() -> None:
    forest = fitted("distances", n_estimators=1)
    for found in (forest.gain_importances(), forest.permutation_importances(FEATURES, DATA.Z)):
        assert np.isnan(found.standard_errors).all()
        assert np.isfinite(found.importances).all()


def test_a_forest_without_splits_gives_zeros() -> None:
    forest = SMERF(3, min_samples_split=99, random_state=0)
    with pytest.warns(DistforestWarning, match="min_samples_split=99"):
        forest.fit(FEATURES, DATA.Z)
    assert not forest.gain_importances().importances.any()
    assert not forest.permutation_importances(FEATURES, DATA.Z).importances.any()


def test_other_rows_are_refused() -> None:
    forest = fitted("distances")
    with pytest.raises(InputError, match=naming("X:", "59 rows", 60, "sklearn.inspection.permutation_importance")):
        forest.permutation_importances(FEATURES[:59], DATA.Z[:59, :59])
    with pytest.raises(InputError, match=naming("X:", "row 0", "sklearn.inspection.permutation_importance")):
        forest.permutation_importances(FEATURES[::-1], DATA.Z)
    with pytest.raises(InputError, match=naming("60 rows of X", "59 of distances")):
        forest.permutation_importances(FEATURES, DATA.Z[:59, :59])
    with pytest.raises(InputError, match=naming("y:", "a value")):
        forest.permutation_importances(FEATURES, DATA.Z[::-1, ::-1])
    with pytest.raises(InputError, match=naming("bootstrap=True", "max_samples")):
        fitted("distances", bootstrap=False).permutation_importances(FEATURES, DATA.Z)


@pytest.mark.parametrize("params", [{}, {"feature_combinations": 2.0}])
def test_a_tree_alone_routes_as_in_its_forest(params: dict[str, Any]) -> None:
    """With categories, and values that are missing."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([FEATURES, 2 * rng.integers(0, 3, 60) + LABELS]).astype(np.float32)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    forest = SMERF(5, categorical_features=[5], max_features=None, random_state=0, **params).fit(rows, LABELS)
    table, source, every = forest.forest_.routed_table, forest.forest_.source(rows), np.arange(60, dtype=np.int32)
    assert table.category_codes is not None
    assert len(table.category_codes)
    ends = route(table, source, every)
    for tree in range(5):
        assert np.array_equal(route(table.tree(tree), source, every)[0], ends[tree])
    assert np.isfinite(forest.permutation_importances(rows, LABELS).importances).all()
