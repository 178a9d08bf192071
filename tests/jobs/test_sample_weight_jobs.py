"""Jobs with weights of rows: staged, refused, and the forests of the estimators."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

from distforest import (
    RFD,
    SMERF,
    Labels,
    Lazy,
    SimForestClassifier,
    SimForestRegressor,
    TreeRank,
    URerF,
    load,
    pairwise,
)
from distforest.errors import ArtifactError, InputError, SpecError
from distforest.forest.sealed.artifact import open_forest, read_manifest
from distforest.jobs.cluster import Threads
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.on_dask import OnDask
from distforest.jobs.preview import preview
from distforest.jobs.spec import Spec
from tests import samples
from tests.jobs.iris_jobs import checked_run, write_arrays
from tests.messages import naming

X, Y = load_iris(return_X_y=True)
X, Y = X[::3], Y[::3]
Z = np.abs(X[:, None, 2] - X[None, :, 2])
WHOLE = np.random.default_rng(0).integers(0, 5, len(X)).astype(float)
PAIRS = np.stack(np.triu_indices(len(X), 1), axis=1)[::4]
SIMILAR = Y[PAIRS[:, 0]] == Y[PAIRS[:, 1]]
PARTS = np.random.default_rng(0).integers(0, 9, len(X)) / 4.0
SEED: dict[str, Any] = {"n_estimators": 4, "random_state": 3}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Rows, what is known of them, and weights good and bad."""
    store = str(tmp_path_factory.mktemp("store") / "iris.zarr")
    bad = {"short": PARTS[:5], "wide": np.stack([PARTS, PARTS], axis=1), "zero": 0.0 * PARTS, "negative": PARTS - 1.0}
    bad["unknown"] = np.where(PARTS > 1.0, np.nan, PARTS)
    bad["flags"] = (PARTS > 1.0).astype(np.complex128)
    pairs = {"pairs": PAIRS, "similar": SIMILAR}
    write_arrays(store, X=X, y=Y, Z=Z, whole=WHOLE, parts=PARTS, **pairs, **bad)
    return store


JOBS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "distances": ("smerf", {"features": "X", "distances": "Z"}, {}),
    "labels": ("smerf", {"features": "X", "distances": {"kind": "labels", "values": "y"}}, {"max_bins": 8}),
    "classes": ("simforest", {"similarity": {"kind": "rbf", "features": "X"}, "labels": "y"}, {"n_landmarks": 0.5}),
    "balanced": ("simforest", {"similarity": {"kind": "linear", "features": "X"}, "labels": "y"}, {}),
    "targets": (
        "simforest",
        {"similarity": {"kind": "dense", "matrix": "Z", "measure": "distance"}, "targets": "y"},
        {},
    ),
    "screened": ("urerf", {"features": "X"}, {"min_samples_split": 9}),
    "points": ("rfd", {"features": "X", "labels": "y"}, {}),
    "ranked": ("treerank", {"features": "X", "labels": "y"}, {"n_pairs": 300, "max_depth": 4}),
    "linked": ("rfd", {"features": "X", "pairs": "pairs", "similar": "similar"}, {"resample": "pairs"}),
}
FITS: dict[str, Any] = {
    "distances": lambda weights: SMERF(**SEED).fit(X, Z, weights),
    "labels": lambda weights: SMERF(max_bins=8, **SEED).fit(X, Labels(Y), weights),
    "classes": lambda weights: SimForestClassifier("rbf", n_landmarks=0.5, **SEED).fit(X, Y, weights),
    "balanced": lambda weights: SimForestClassifier("linear", class_weight="balanced", **SEED).fit(X, Y, weights),
    "targets": lambda weights: SimForestRegressor(kind="distance", **SEED).fit(Z, Y, weights),
    "screened": lambda weights: URerF(min_samples_split=9, **SEED).fit(X, sample_weight=weights),
    "points": lambda weights: RFD(**SEED).fit(X, Y, weights),
    "ranked": lambda weights: TreeRank(n_pairs=300, max_depth=4, **SEED).fit(X, Y, weights),
    "linked": lambda weights: RFD(resample="pairs", **SEED).fit_pairs(X, PAIRS, SIMILAR, weights),
}


def spec_of(store: str, home: Path, case: str, weights: str | None) -> Spec:
    """The job of a case with the weights of this name, if any."""
    method, given, params = JOBS[case]

    def placed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: v if key in ("kind", "measure") else placed(v) for key, v in value.items()}
        return f"{store}/{value}"

    asked = placed(given) | ({"sample_weight": f"{store}/{weights}"} if weights else {})
    params = {"n_estimators": 4, **params, **({"class_weight": "balanced"} if case == "balanced" else {})}
    table = {"format": 1, "method": method, "seed": 3, "output": f"{home}/{case}.zarr", "input": asked}
    return Spec.from_dict({**table, "params": params, "run": {"scratch": f"{home}/scratch"}})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:sample_weight:distforest.errors.DistforestWarning")
@pytest.mark.parametrize("weights", ["whole", "parts"])
@pytest.mark.parametrize("case", JOBS)
def test_a_job_grows_the_forest_of_the_estimator(store: str, tmp_path: Path, case: str, weights: str) -> None:
    done = checked_run(spec_of(store, tmp_path, case, weights), Threads(2))
    own = FITS[case]({"whole": WHOLE, "parts": PARTS}[weights])
    assert done.digest == own.digest_
    sealed = open_forest(done.address)
    assert sealed.sample_weight is not None
    assert sealed.sample_weight.tolist() == own.forest_.sample_weight.tolist()
    loaded = load(done.address)
    np.testing.assert_array_equal(loaded.distance(), own.distance())
    assert read_manifest(done.address)["provenance"]["inputs"]["sample_weight"]["sha256"]


def test_jobs_with_other_weights_are_other_jobs(store: str, tmp_path: Path) -> None:
    specs = [spec_of(store, tmp_path, "distances", name) for name in (None, "whole", "parts")]
    found = [stage_inputs(spec, f"{tmp_path}/{place}.job").fingerprint for place, spec in enumerate(specs)]
    assert len(set(found)) == 3
    sizes = {(seen.size.n_rows, seen.plan.projected_bytes) for seen in map(preview, specs)}
    assert len(sizes) == 1


@pytest.mark.parametrize(
    ("weights", "named"),
    [
        ("short", ("input: ", " 50 ", " 5 ")),
        ("wide", ("input.sample_weight: ", (50, 2))),
        ("flags", ("input.sample_weight: ", "complex128")),
        ("absent", ("input.sample_weight: ",)),
    ],
)
def test_metadata_show_weights_that_do_not_fit(
    store: str, tmp_path: Path, weights: str, named: tuple[object, ...]
) -> None:
    with pytest.raises(SpecError, match=naming(f"{store}/{weights}", *named)):
        preview(spec_of(store, tmp_path, "classes", weights))


@pytest.mark.parametrize("case", ["points", "linked"])
def test_metadata_show_that_weights_are_not_those_of_the_points(store: str, tmp_path: Path, case: str) -> None:
    with pytest.raises(SpecError, match=naming("input: ", 50, 5, f"{store}/short")):
        preview(spec_of(store, tmp_path, case, "short"))


@pytest.mark.parametrize(
    ("weights", "found"),
    [("zero", "zero"), ("negative", "-0.5 in row 3"), ("unknown", "nan in row 0")],
)
def test_weights_of_bad_values_are_refused(store: str, tmp_path: Path, weights: str, found: str) -> None:
    with pytest.raises(InputError, match=naming("sample_weight: ", found)):
        checked_run(spec_of(store, tmp_path, "classes", weights), Threads(1))
    assert not Path(f"{tmp_path}/classes.zarr").exists()


@pairwise
def closeness(a: int, b: int) -> float:
    """How near two rows are."""
    return -float(np.abs(X[int(a)] - X[int(b)]).sum())


def test_a_function_of_objects_and_weights() -> None:
    lazy = SimForestClassifier(Lazy(closeness), **SEED).fit(range(len(X)), Y, WHOLE)
    given = SimForestClassifier(**SEED, **samples.PAPER).fit(-np.abs(X[:, None] - X).sum(axis=2), Y, WHOLE)
    for name, values in given.forest_.arrays().items():
        if name != "leaves":  # nothing is evaluated for rows out of bag
            assert np.array_equal(lazy.forest_.arrays()[name], values), name
    assert lazy.forest_.sample_weight.tolist() == WHOLE.tolist()


def test_a_damaged_weight_is_refused(tmp_path: Path) -> None:
    forest = FITS["distances"](WHOLE)
    forest.save(f"{tmp_path}/a.zarr")
    sealed = open_forest(f"{tmp_path}/a.zarr")
    for weights, found in (
        (np.zeros(len(X), np.int32), "all 0"),
        (-sealed.sample_weight, "negative"),
        (sealed.sample_weight[1:], (49,)),
        (np.roll(sealed.sample_weight, 1), "weight 0"),
    ):
        with pytest.raises(ArtifactError, match=naming("sample_weight: ", found)):
            replace(sealed, sample_weight=weights).check()


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore:sample_weight:distforest.errors.DistforestWarning")
def test_workers_grow_the_same(store: str, tmp_path: Path, cluster: OnDask) -> None:
    for case in ("distances", "screened"):
        assert checked_run(spec_of(store, tmp_path, case, "parts"), cluster).digest == FITS[case](PARTS).digest_
