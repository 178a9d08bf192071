"""One forest, however it is grown, saved and loaded."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from distforest import SMERF, Lazy, SimForestClassifier, SimForestOutlier, SimForestRegressor, load, pairwise
from distforest.errors import ArtifactError, DistforestWarning
from distforest.estimators.loading import Estimator
from distforest.forest.sealed.artifact import read_manifest
from distforest.growth.methods import GROWTH, METHODS
from distforest.jobs.on_dask import local_cluster
from distforest.jobs.versions import VERSIONS
from tests.estimators.jobs import run_job, spec_of, write_arrays

if TYPE_CHECKING:
    from pathlib import Path

from tests.estimators.rows import DISTANCES, NAMES, POINTS, SMALL, SMALL_Y, TARGETS, X, Y, observed
from tests.messages import naming


def test_the_digest_does_not_depend_on_threads() -> None:
    digests = {SMERF(9, random_state=0, n_jobs=n).fit(POINTS, DISTANCES).digest_ for n in (None, 1, 2, -1)}
    assert len(digests) == 1


def test_every_method_has_an_estimator() -> None:
    assert {kind._method.name for kind in get_args(Estimator)} == set(METHODS)


def test_a_job_of_a_spec_grows_the_same_forest(scratch: Path) -> None:
    at = write_arrays(f"{scratch}/in.zarr", {"X": POINTS, "Z": DISTANCES})
    inputs = {"features": at["X"], "distances": at["Z"]}
    done = run_job(spec_of(scratch, "smerf", inputs, seed=5, n_estimators=7))
    forest = done.address
    own = SMERF(7, random_state=5).fit(POINTS, DISTANCES)
    assert own.digest_ == done.digest == load(forest).digest_
    np.testing.assert_array_equal(load(forest).distance(POINTS), own.distance(POINTS))
    own.save(scratch / "own.zarr")
    versions = read_manifest(forest)["provenance"]["versions"]
    assert versions == read_manifest(str(scratch / "own.zarr"))["provenance"]["versions"]
    assert versions["growth"] == str(GROWTH)


def test_what_is_loaded_and_saved_again_keeps_the_versions_that_have_grown_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = SMERF(3, random_state=0).fit(POINTS, DISTANCES)
    digest, packed = fitted.save(tmp_path / "first.zarr"), pickle.dumps(fitted)
    lazily = SimForestRegressor(Lazy(pairwise(_apart)), n_estimators=2, random_state=0).fit(list(range(40)), TARGETS)
    assert {"similarity", "versions"} == set(lazily.forest_.provenance)
    monkeypatch.setitem(VERSIONS, "growth", "99")
    assert load(tmp_path / "first.zarr").save(tmp_path / "again.zarr") == digest
    pickle.loads(packed).save(tmp_path / "packed.zarr")
    clone(fitted).fit(POINTS, DISTANCES).save(tmp_path / "anew.zarr")
    places = [tmp_path / f"{name}.zarr" for name in ("first", "again", "packed", "anew")]
    found = [read_manifest(str(place))["provenance"]["versions"]["growth"] for place in places]
    assert found == [str(GROWTH)] * 3 + ["99"]
    older = json.loads((places[0] / "manifest.json").read_text())
    older["provenance"] = {}
    (places[0] / "manifest.json").write_text(json.dumps(older))
    load(places[0]).save(tmp_path / "older.zarr")
    assert read_manifest(str(tmp_path / "older.zarr"))["provenance"] == {}


def _apart(a: int, b: int) -> float:
    return float(-abs(TARGETS[a] - TARGETS[b]))


@pytest.mark.cluster
def test_a_client_grows_the_same_forest(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (scratch / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch / "tmp"))
    S = POINTS @ POINTS.T
    S[3, 5] = np.nan
    with local_cluster(workers=2, folder=scratch) as cluster:
        for estimator, rows, truth in (
            (SMERF(8, random_state=3, oob_score=True, max_samples=0.5), POINTS, DISTANCES),
            (SimForestClassifier("rbf", n_estimators=8, random_state=3), X, NAMES),
            (SimForestRegressor(n_estimators=8, random_state=3), S, TARGETS),
            (SimForestClassifier(n_estimators=8, random_state=3), observed(S), TARGETS > 0),
            (SimForestOutlier("rbf", n_estimators=8, random_state=3), X, None),
        ):
            there = clone(estimator).set_params(client=cluster.client)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DistforestWarning)
                here, there = estimator.fit(rows, truth), clone(there).fit(rows, truth)
            assert there.client is cluster.client
            assert there.digest_ == here.digest_
            np.testing.assert_array_equal(there.distance(rows), here.distance(rows))
            assert getattr(there, "oob_score_", 0) == getattr(here, "oob_score_", 0)
            if truth is None:
                np.testing.assert_array_equal(there.score_samples(rows), here.score_samples(rows))
    assert list((scratch / "tmp").glob("distforest-*")) == []


class _Connection:
    """Like a client: cannot be copied or pickled."""

    def __reduce__(self) -> str:
        raise TypeError("a connection")


def test_clones_share_the_client_and_copies_go_without_it() -> None:
    connection = _Connection()
    estimator = SimForestClassifier("linear", n_pairs=3, client=connection)
    twin = clone(estimator)
    assert twin is not estimator
    assert twin.client is estimator.client is connection
    assert twin.get_params() == estimator.get_params()
    assert pickle.loads(pickle.dumps(estimator)).client is None
    assert copy.deepcopy(estimator).n_pairs == 3


@pytest.mark.parametrize(
    ("estimator", "rows", "truth"),
    [
        (SMERF(6, feature_combinations=1.5, random_state=1), POINTS, DISTANCES),
        (SMERF(6, max_samples=0.5, random_state=1), SMALL, NAMES[::4]),
        (SimForestClassifier(n_estimators=6, kind="distance", random_state=1), DISTANCES, TARGETS > 0),
        (SimForestClassifier("cosine", n_estimators=6, gamma=2.0, random_state=1), X, NAMES),
        (SimForestClassifier("rbf", n_estimators=6, gamma=0.5, random_state=1), X, Y),
        (SimForestRegressor(n_estimators=6, kind="distance", max_depth=3, random_state=1), DISTANCES, TARGETS),
    ],
)
def test_a_saved_forest_answers_as_before(estimator: Any, rows: np.ndarray, truth: Any, tmp_path: Path) -> None:
    fitted = clone(estimator).fit(rows, truth)
    place = tmp_path / "a.forest.zarr"
    assert fitted.save(place) == fitted.digest_
    loaded = load(place)
    assert type(loaded) is type(fitted)
    changed: dict[str, Any] = {"gamma": None} if getattr(estimator, "similarity", None) == "cosine" else {}
    if isinstance(estimator, SMERF):  # a forest says what the default stood for
        changed = {"max_features": None if truth is DISTANCES else "sqrt"}
    elif rows is DISTANCES:
        changed = {"n_columns": 4, "on_missing": "mean"}
    else:
        changed |= {"n_columns": 1, "on_missing": "stop"}
    assert loaded.get_params() == {**estimator.get_params(), **changed}
    assert loaded.digest_ == fitted.digest_
    assert loaded.n_features_in_ == fitted.n_features_in_
    np.testing.assert_array_equal(loaded.distance(rows), fitted.distance(rows))
    np.testing.assert_array_equal(loaded.kneighbors()[1], fitted.kneighbors()[1])
    if truth is not DISTANCES:  # which teach nothing that could be predicted
        np.testing.assert_array_equal(loaded.predict(rows), fitted.predict(rows))
    if hasattr(fitted, "classes_"):
        np.testing.assert_array_equal(loaded.classes_, fitted.classes_)
        np.testing.assert_array_equal(loaded.predict_proba(rows), fitted.predict_proba(rows))
    assert clone(loaded).fit(rows, truth).digest_ == fitted.digest_
    with pytest.raises(ArtifactError, match=naming(place, "exists")):
        fitted.save(place)


def test_load_refuses_what_is_no_forest_of_this_house(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=naming(tmp_path / "nothing.zarr", "manifest.json")):
        load(tmp_path / "nothing.zarr")
    with pytest.raises(NotFittedError):
        SMERF().save(tmp_path / "unfitted.zarr")
    place = tmp_path / "a.forest.zarr"
    fitted = SMERF(3, random_state=0).fit(SMALL, SMALL_Y)
    fitted.forest_.meaning.params["colour"] = 1
    fitted.save(place)
    with pytest.raises(ArtifactError, match=naming(place, "'colour'")):
        load(place)
    manifest = json.loads((place / "manifest.json").read_text())
    manifest["meaning"]["seed"] = 1
    (place / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match=naming("manifest.json", "digest")):
        load(place)
