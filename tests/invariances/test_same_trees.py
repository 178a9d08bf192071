"""What must not change a tree: how columns, distances and similarities are scaled, the order of rows and columns, how
often all rows are given, how numbers and labels are written, and a column that says nothing.

Gains are compared to 1e-12, so that data without ties have one forest each, however they are written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest import RFD, SMERF, Labels, SimForestClassifier, Targets, TreeRank
from tests.invariances.taught import (
    OF_DISTANCES,
    OF_FEATURES,
    PAIRS,
    SIMFORESTS,
    SMERFS,
    URERFS,
    Data,
    numbered,
    partitions,
    said_of,
)

pytestmark = pytest.mark.slow

DATA = Data.drawn()
SEEDS = st.integers(0, 2**32)
POWERS, FACTORS = (2.0**-20, 2.0**20), (1e-6, 1e6)
SHIFT = 1e3
FEW = settings(max_examples=10)


# --- strictly monotone columns: cuts at single columns ask for the order alone ----------------------------


def stretched(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each column's values in the same order, at places of any size and sign."""
    found = np.empty_like(X)
    for column, own in zip(found.T, X.T, strict=True):
        _, place = np.unique(own, return_inverse=True)
        signs = rng.choice([-1.0, 1.0], 999)
        places = np.unique((signs * np.exp(rng.normal(0.0, 8.0, 999))).astype(np.float32))
        column[:] = np.sort(rng.permutation(places)[: place.max() + 1])[place]
    return found


@FEW
@given(SEEDS, st.sampled_from([2, 5, 40]), st.sampled_from([None, 4, 256]))
@pytest.mark.parametrize("taught", SMERFS)
def test_stretched_columns_lead_to_the_same_trees(taught: str, seed: int, n_values: int, max_bins: int | None) -> None:
    rng = np.random.default_rng(seed)
    data = DATA.but(X=np.round(DATA.X * n_values / 4.0))
    plain, other = (SMERFS[taught](own, max_bins=max_bins) for own in (data, data.but(X=stretched(data.X, rng))))
    assert partitions(other) == partitions(plain)
    table, same = plain.forest_.table, other.forest_.table
    for name in ("tree_size", "left", "right", "columns", "n_rows", "gain"):
        assert getattr(table, name).tolist() == getattr(same, name).tolist(), name


# --- a shift and a scale ----------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [*POWERS, *FACTORS])
@pytest.mark.parametrize("taught", ["targets", "embedding", "distances"])
def test_scaled_distances_lead_to_the_same_leaves(taught: str, factor: float) -> None:
    scaled = DATA.but(targets=DATA.targets * factor, vectors=DATA.vectors * factor, Z=DATA.Z * factor)
    assert partitions(SMERFS[taught](scaled)) == partitions(SMERFS[taught](DATA))


@pytest.mark.parametrize("shift", [-SHIFT, SHIFT])
@pytest.mark.parametrize("taught", ["targets", "embedding", "distances"])
def test_shifted_distances_lead_to_the_same_leaves(taught: str, shift: float) -> None:
    shifted = DATA.but(targets=DATA.targets + shift, vectors=DATA.vectors + shift, Z=DATA.Z + shift)
    assert partitions(SMERFS[taught](shifted)) == partitions(SMERFS[taught](DATA))


@pytest.mark.parametrize("factor", [*POWERS, *FACTORS])
@pytest.mark.parametrize("method", SIMFORESTS)
def test_scaled_similarities_lead_to_the_same_leaves(method: str, factor: float) -> None:
    scaled = DATA.but(S=DATA.S * factor, targets=DATA.targets * factor)
    assert partitions(SIMFORESTS[method](scaled)) == partitions(SIMFORESTS[method](DATA))


@pytest.mark.parametrize("shift", [-SHIFT, SHIFT])
@pytest.mark.parametrize("method", SIMFORESTS)
def test_shifted_similarities_lead_to_the_same_leaves(method: str, shift: float) -> None:
    assert partitions(SIMFORESTS[method](DATA.but(S=DATA.S + shift))) == partitions(SIMFORESTS[method](DATA))


@pytest.mark.parametrize("factor", [*POWERS, *FACTORS])
@pytest.mark.parametrize("method", OF_DISTANCES)
def test_scaled_distances_of_a_simforest_lead_to_the_same_leaves(method: str, factor: float) -> None:
    scaled = OF_DISTANCES[method](DATA.but(Z=DATA.Z * factor))
    assert partitions(scaled) == partitions(OF_DISTANCES[method](DATA))


@pytest.mark.parametrize("change", [*POWERS, *FACTORS, SHIFT])
@pytest.mark.parametrize("on_missing", ["mean", "stop", "larger", "surrogate"])
def test_missing_similarities_are_missing_on_any_scale(on_missing: str, change: float) -> None:
    S = DATA.S.copy()
    lost = np.random.default_rng(1).random(S.shape) < 0.1
    S[np.logical_and(lost | lost.T, ~np.eye(len(S), dtype=bool))] = np.nan
    other = S + SHIFT if change == SHIFT else S * change
    plain, changed = (SIMFORESTS["classes"](DATA.but(S=own), on_missing=on_missing) for own in (S, other))
    assert partitions(changed) == partitions(plain)


@pytest.mark.parametrize("factor", POWERS)
@pytest.mark.parametrize("method", ["linear", "manhattan", "targets, linear", "outliers, linear"])
def test_scaled_features_of_a_simforest_lead_to_the_same_leaves(method: str, factor: float) -> None:
    assert partitions(OF_FEATURES[method](DATA.but(X=DATA.X * factor))) == partitions(OF_FEATURES[method](DATA))


@pytest.mark.parametrize("factor", [*POWERS, *FACTORS])
@pytest.mark.parametrize("method", URERFS)
def test_features_on_any_scale_lead_to_the_same_leaves(method: str, factor: float) -> None:
    """One column after another: of what is measured in grams or in tonnes nothing follows."""
    for column in range(DATA.X.shape[1]):
        X = DATA.X.copy()
        X[:, column] *= factor
        assert partitions(URERFS[method](DATA.but(X=X))) == partitions(URERFS[method](DATA))


@pytest.mark.parametrize("factor", POWERS)
@pytest.mark.parametrize("max_bins", [None, 64])
@pytest.mark.parametrize("method", PAIRS)
def test_pairs_of_features_on_any_scale_are_told_alike(method: str, max_bins: int | None, factor: float) -> None:
    plain = PAIRS[method](DATA, max_bins=max_bins)
    for column in range(DATA.X.shape[1]):
        X = DATA.X.copy()
        X[:, column] *= factor
        scaled = DATA.but(X=X)
        assert said_of(PAIRS[method](scaled, max_bins=max_bins), scaled) == said_of(plain, DATA)


# --- rows: their order, and how often they are there -----------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("taught", SMERFS)
def test_rows_in_another_order_lie_in_the_same_leaves(taught: str, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(DATA.X))
    plain, other = SMERFS[taught](DATA).forest_.leaves, SMERFS[taught](DATA.rows(order)).forest_.leaves
    assert other.tolist() == plain[:, order].tolist()


@pytest.mark.parametrize("method", ["unscreened", "best cuts"])
def test_points_in_another_order_lie_in_the_same_leaves(method: str) -> None:
    order = np.random.default_rng(0).permutation(len(DATA.X))
    plain, other = URERFS[method](DATA).forest_.leaves, URERFS[method](DATA.rows(order)).forest_.leaves
    assert other.tolist() == plain[:, order].tolist()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("max_bins", [None, 64])
@pytest.mark.parametrize("method", PAIRS)
def test_pairs_in_another_order_are_told_alike(method: str, max_bins: int | None, seed: int) -> None:
    """Points, pairs, and the ends of each pair."""
    other = DATA.rows(np.random.default_rng(seed).permutation(len(DATA.X)))
    found = said_of(PAIRS[method](other, max_bins=max_bins), other)
    assert found[::-1] == said_of(PAIRS[method](DATA, max_bins=max_bins), DATA)


@pytest.mark.parametrize("taught", SMERFS)
def test_all_rows_twice_weigh_as_much_as_once(taught: str) -> None:
    """The multiplicity of a row is its weight, and a weight that all rows have is none."""
    once = SMERFS[taught](DATA).forest_
    twice = SMERFS[taught](DATA.rows(np.tile(np.arange(len(DATA.X)), 2))).forest_
    assert twice.leaves.tolist() == np.tile(once.leaves, 2).tolist()
    assert twice.table.threshold.tolist() == once.table.threshold.tolist()
    assert twice.table.n_rows.tolist() == (2 * once.table.n_rows).tolist()
    np.testing.assert_allclose(twice.table.gain, 2.0 * once.table.gain, rtol=1e-9)


@pytest.mark.parametrize("method", PAIRS)
def test_all_pairs_twice_weigh_as_much_as_once(method: str) -> None:
    twice = DATA.but(pairs=np.tile(DATA.pairs, (2, 1)), similar=np.tile(DATA.similar, 2))
    how: dict[str, Any] = {"max_bins": None, "min_samples_leaf": 1}
    assert said_of(PAIRS[method](twice, **how), DATA) == said_of(PAIRS[method](DATA, **how), DATA)


def test_classes_that_all_weigh_the_same_weigh_as_if_nothing_was_said() -> None:
    plain = SIMFORESTS["classes"](DATA)
    for weights in ({"0": 3.0, "1": 3.0, "2": 3.0}, {"0": 0.1, "1": 0.1, "2": 0.1}):
        assert partitions(SIMFORESTS["classes"](DATA, class_weight=weights)) == partitions(plain)


# --- columns: their order, and one that says nothing ------------------------------------------------------


@pytest.mark.parametrize("order", [[2, 0, 1], [1, 0, 2], [2, 1, 0]])
@pytest.mark.parametrize("taught", ["targets", "embedding", "distances"])
def test_columns_in_another_order_lead_to_the_same_leaves(taught: str, order: list[int]) -> None:
    plain, other = (
        SMERFS[taught](own, max_features=None, min_samples_leaf=2) for own in (DATA, DATA.but(X=DATA.X[:, order]))
    )
    assert partitions(other) == partitions(plain)


@pytest.mark.parametrize("order", [[2, 0, 1], [1, 0, 2], [2, 1, 0]])
@pytest.mark.parametrize("method", ["linear", "manhattan", "rbf"])
def test_similarities_of_columns_in_another_order_lead_to_the_same_leaves(method: str, order: list[int]) -> None:
    assert partitions(OF_FEATURES[method](DATA.but(X=DATA.X[:, order]))) == partitions(OF_FEATURES[method](DATA))


@pytest.mark.parametrize("constant", [0.0, 1.0, -7.5])
@pytest.mark.parametrize("max_bins", [None, 8])
@pytest.mark.parametrize("taught", ["targets", "embedding", "distances"])
def test_a_constant_column_changes_no_leaf(taught: str, max_bins: int | None, constant: float) -> None:
    how: dict[str, Any] = {"max_features": None, "min_samples_leaf": 2, "max_bins": max_bins}
    assert partitions(SMERFS[taught](with_constant(constant), **how)) == partitions(SMERFS[taught](DATA, **how))


@pytest.mark.parametrize("constant", [0.0, 1.0, -7.5])
@pytest.mark.parametrize("method", OF_FEATURES)
def test_a_constant_column_changes_no_leaf_of_a_similarity(method: str, constant: float) -> None:
    assert partitions(OF_FEATURES[method](with_constant(constant))) == partitions(OF_FEATURES[method](DATA))


@pytest.mark.parametrize("constant", [0.0, 1.0, -7.5])
def test_a_constant_column_has_no_weight_and_changes_no_cluster(constant: float) -> None:
    found = URERFS["best cuts"](with_constant(constant))
    assert partitions(found) == partitions(URERFS["best cuts"](DATA))
    weights = URERFS["screened"](with_constant(constant)).feature_weights_
    assert weights[-1] == weights.min()


@pytest.mark.parametrize("constant", [0.0, 1.0, -7.5])
@pytest.mark.parametrize("max_bins", [None, 64])
@pytest.mark.parametrize("method", PAIRS)
def test_a_constant_column_changes_nothing_that_is_said_of_pairs(
    method: str, max_bins: int | None, constant: float
) -> None:
    how: dict[str, Any] = {"max_bins": max_bins, "min_samples_leaf": 20}
    wider = with_constant(constant)
    assert said_of(PAIRS[method](wider, **how), wider) == said_of(PAIRS[method](DATA, **how), DATA)


def with_constant(value: float) -> Data:
    """The data with one more column."""
    return DATA.but(X=np.column_stack([DATA.X, np.full(len(DATA.X), value)]))


# --- how numbers and labels are written -------------------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble])
@pytest.mark.parametrize(
    ("methods", "method"),
    [
        (methods, method)
        for methods in (SMERFS, SIMFORESTS, OF_DISTANCES, OF_FEATURES, URERFS, PAIRS)
        for method in methods
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_numbers_of_any_width_lead_to_the_same_forest(
    methods: dict[str, Any], method: str, dtype: type, order: str
) -> None:
    wide = {name: getattr(DATA, name) for name in ("X", "targets", "vectors", "Z", "S")}
    other = DATA.but(**{name: np.asarray(values, dtype, order=order) for name, values in wide.items()})
    assert methods[method](other).digest_ == methods[method](DATA).digest_


GAPS = {
    "with a gap": np.array([0, 2, 7]),
    "negative": np.array([-3, -1, 40]),
    "words": np.array(["adder", "boa", "cobra"]),
    "small": np.array([0, 1, 2], np.int8),
}
LABELLED = {
    "smerf": lambda y: partitions(SMERF(4, bootstrap=False, random_state=0).fit(DATA.X, Labels(y))),
    "simforest": lambda y: partitions(SimForestClassifier(n_estimators=4, random_state=0).fit(DATA.S, y)),
    "rfd": lambda y: said_of(RFD(4, random_state=0).fit(DATA.X, y), DATA),
    "treerank": lambda y: said_of(TreeRank(4, n_pairs=500, random_state=0).fit(DATA.X, y), DATA),
}


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("method", LABELLED)
def test_labels_of_any_names_lead_to_the_same_leaves(method: str, gap: str) -> None:
    assert LABELLED[method](GAPS[gap][DATA.labels]) == LABELLED[method](DATA.labels)


def test_a_weight_of_a_label_that_nothing_has_changes_nothing() -> None:
    weights = {"0": 1.0, "1": 2.0, "2": 5.0}
    plain, other = (SIMFORESTS["classes"](DATA, class_weight=own) for own in (weights, {**weights, "9": 3.0}))
    assert partitions(other) == partitions(plain)
    assert other.predict_proba(DATA.S).shape == (len(DATA.S), 3)


def test_targets_that_are_whole_numbers_are_as_targets_that_are_not() -> None:
    whole = np.round(DATA.targets * 8.0)
    found = [SMERF(4, bootstrap=False, random_state=0).fit(DATA.X, Targets(own)) for own in (whole, whole.astype(int))]
    assert found[0].digest_ == found[1].digest_


def test_leaves_are_numbered_by_their_first_rows() -> None:
    assert numbered(np.array([7, 2, 7, 5, 2])) == [0, 1, 0, 3, 1]
