"""A forest to which trees are added is the forest that grows all of them at once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_iris

from distforest import RFD, SMERF, Lazy, SimForestClassifier, SimForestOutlier, TreeRank, URerF, load, pairwise
from distforest.errors import DistforestWarning, InputError
from tests.messages import naming

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from distributed import Client

FEATURES, LABELS = load_iris(return_X_y=True)
FEATURES = FEATURES.astype(np.float32)
ROWS = np.arange(150)
DISTANCES = np.abs(FEATURES[:, 2, None] - FEATURES[:, 2])
SIMILARITIES = -((FEATURES[:, None] - FEATURES) ** 2).sum(axis=-1).astype(np.float64)

FORESTS: dict[str, tuple[Callable[..., Any], tuple[object, ...]]] = {
    "labels": (SMERF, (FEATURES, LABELS)),
    "unobserved": (
        SMERF,
        (FEATURES, np.where((np.add.outer(np.arange(150), np.arange(150)) % 7) == 3, np.nan, DISTANCES)),
    ),
    "distances": (SMERF, (FEATURES[:, [0, 1, 3]], DISTANCES)),
    "targets": (SMERF, (FEATURES, FEATURES[:, 0] + 0.3)),
    "weights": (SMERF, (FEATURES, LABELS, np.arange(150) % 3)),
    "bins": (partial(SMERF, max_bins=8), (FEATURES, LABELS)),
    "sparse": (SMERF, (scipy.sparse.csr_array(FEATURES), LABELS)),
    "missing": (SMERF, (np.where(FEATURES > 6, np.nan, FEATURES), LABELS)),
    "similarities": (SimForestClassifier, (SIMILARITIES, LABELS)),
    "several": (
        partial(SimForestClassifier, ["precomputed"] * 2),
        (np.stack([SIMILARITIES, -DISTANCES.astype(np.float64)], axis=2), LABELS),
    ),
    "several_kernels": (partial(SimForestClassifier, ["rbf", "manhattan"]), (FEATURES, LABELS)),
    "nearest": (partial(SimForestClassifier, voting="nearest"), (SIMILARITIES, LABELS)),
    "kernel": (partial(SimForestClassifier, similarity="rbf"), (FEATURES, LABELS)),
    "outliers": (SimForestOutlier, (SIMILARITIES,)),
    "clusters": (URerF, (FEATURES,)),
    "screened": (partial(URerF, feature_weights="dependence"), (FEATURES,)),
    "pairs": (RFD, (FEATURES, LABELS)),
    "ranking": (TreeRank, (FEATURES, LABELS)),
}


@pytest.mark.parametrize("name", FORESTS)
def test_trees_that_are_added_make_the_forest_that_grows_at_once(name: str) -> None:
    make, data = FORESTS[name]
    at_once = make(n_estimators=12, random_state=3).fit(*data)
    added = make(n_estimators=3, random_state=3, warm_start=True).fit(*data)
    first = added.digest_
    for n_trees in (4, 12):
        added.set_params(n_estimators=n_trees).fit(*data)
    assert added.digest_ == at_once.digest_ != first


def test_estimates_out_of_bag_are_those_of_all_trees() -> None:
    at_once = SMERF(200, oob_score=True, max_depth=2, random_state=0).fit(FEATURES, LABELS)
    added = SMERF(150, oob_score=True, max_depth=2, random_state=0, warm_start=True).fit(FEATURES, LABELS)
    of_some = added.oob_score_
    added.set_params(n_estimators=200).fit(FEATURES, LABELS)
    assert added.oob_score_ == at_once.oob_score_ != of_some


def test_distances_of_leaves_are_kept_or_not_as_if_grown_at_once() -> None:
    """The most pairs of leaves that a tree may keep falls with the number of trees."""
    kinds = []
    for n_trees in (2, 40):
        forest = SMERF(2, random_state=0, warm_start=True, bootstrap=False).fit(FEATURES, DISTANCES)
        forest.set_params(n_estimators=n_trees, warm_start=True)
        if n_trees > 2:
            forest.fit(FEATURES, DISTANCES)
        kinds.append(forest.forest_.meaning.leaf.kind)
        at_once = SMERF(n_trees, random_state=0, bootstrap=False).fit(FEATURES, DISTANCES)
        assert forest.digest_ == at_once.digest_
    assert len(set(kinds)) == 2


def test_without_an_integer_as_seed_the_forest_keeps_its_own() -> None:
    added = SMERF(3, warm_start=True).fit(FEATURES, LABELS)
    seed = added.forest_.meaning.seed
    added.set_params(n_estimators=6).fit(FEATURES, LABELS)
    assert added.digest_ == SMERF(6, random_state=seed).fit(FEATURES, LABELS).digest_


def test_a_forest_that_was_saved_and_loaded_grows_on(tmp_path: Path) -> None:
    SMERF(3, random_state=0).fit(FEATURES, LABELS).save(f"{tmp_path}/iris.zarr")
    opened = load(f"{tmp_path}/iris.zarr")
    opened.set_params(n_estimators=6, random_state=0, warm_start=True).fit(FEATURES, LABELS)
    assert opened.digest_ == SMERF(6, random_state=0).fit(FEATURES, LABELS).digest_


@pytest.mark.slow
@pytest.mark.cluster
def test_trees_are_added_on_a_cluster(client: Client) -> None:
    added = SMERF(3, random_state=0, warm_start=True, client=client).fit(FEATURES, LABELS)
    added.set_params(n_estimators=8).fit(FEATURES, LABELS)
    assert added.digest_ == SMERF(8, random_state=0).fit(FEATURES, LABELS).digest_


def test_without_warm_start_a_new_forest_grows() -> None:
    forest = SMERF(6, random_state=0).fit(FEATURES, LABELS)
    assert forest.set_params(n_estimators=3).fit(FEATURES, LABELS).forest_.n_trees == 3


@pytest.mark.parametrize(
    ("changes", "data", "named"),
    [
        ({"n_estimators": 2}, (FEATURES, LABELS), ("n_estimators=2", "3 trees")),
        ({}, (FEATURES + 1, LABELS), ("warm_start=True",)),
        ({}, (FEATURES, LABELS[::-1]), ("warm_start=True",)),
        ({}, (FEATURES, LABELS, np.arange(150) % 3), ("warm_start=True",)),
        ({"max_depth": 2}, (FEATURES, LABELS), ("max_depth=2", None)),
        ({"random_state": 1}, (FEATURES, LABELS), ("seed 1", "seed 0", "random_state")),
    ],
)
def test_what_would_make_a_mixture_is_refused(
    changes: dict[str, object], data: tuple[np.ndarray, ...], named: tuple[object, ...]
) -> None:
    forest = SMERF(3, random_state=0, warm_start=True).fit(FEATURES, LABELS)
    digest = forest.digest_
    with pytest.raises(InputError, match=naming(*named)):
        forest.set_params(**{"n_estimators": 6, **changes}).fit(*data)
    assert forest.digest_ == digest


def test_as_many_trees_as_there_are_is_reported() -> None:
    forest = SMERF(3, random_state=0, warm_start=True).fit(FEATURES, LABELS)
    digest = forest.digest_
    with pytest.warns(DistforestWarning, match=naming("n_estimators=3", "warm_start=True")):
        forest.fit(FEATURES, LABELS)
    assert forest.digest_ == digest


def test_trees_that_grow_together_or_are_pruned_do_not_grow_on() -> None:
    lazy = SimForestClassifier(n_estimators=3, similarity=Lazy(pairwise(lambda a, b: -abs(a - b))), warm_start=True)
    with pytest.raises(InputError, match=naming("warm_start=True", "Lazy")):
        lazy.fit(FEATURES[:, 0].tolist(), LABELS)
    with pytest.raises(InputError, match=naming("warm_start=True", "pruning_folds")):
        TreeRank(3, pruning_folds=2, warm_start=True).fit(FEATURES, LABELS)


@pytest.mark.parametrize("similar", [False, True])
def test_data_that_their_owner_has_changed_since_the_fit_are_other_data(similar: bool) -> None:
    """Similarities are read without a copy, so what is compared must not be the owner's array."""
    X = np.random.default_rng(0).random((40, 40 if similar else 3))
    X = X @ X.T if similar else X
    labels = np.arange(40) % 2
    forest = SimForestClassifier(n_estimators=2) if similar else SMERF(2)
    forest.set_params(random_state=0).fit(X, labels)
    kept, X[3, 1] = X[3, 1], 7.5
    forest.set_params(n_estimators=4, warm_start=True)
    with pytest.raises(InputError, match="warm_start=True"):
        forest.fit(X, labels)
    X[3, 1] = kept
    assert forest.fit(X, labels).forest_.n_trees == 4
