"""Jobs that learn labels with costs, cosine distances or absolute differences: the forests of the estimator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distforest import SMERF, Embedding, Labels, Targets, load
from distforest.errors import InputError, SpecError
from distforest.growth.problem import Data
from distforest.jobs.any_spec import addresses_of, moved
from distforest.jobs.preview import check_and_stage, preview
from distforest.jobs.spec import Spec
from distforest.sources.arrays import write_array
from distforest.stores.folder import Folder
from tests.estimators.test_class_costs import COSTS, ORDER, WEIGHTS, X, Y
from tests.estimators.test_cosines import VECTORS
from tests.jobs.iris_jobs import checked_run, write_arrays
from tests.messages import naming

CODES = np.array([ORDER.index(name) for name in Y])


@pytest.fixture
def place(tmp_path: Path) -> str:
    held = {"X": X, "codes": CODES, "C": COSTS, "w": WEIGHTS, "V": VECTORS[: len(X)]}
    write_arrays(f"{tmp_path}/in.zarr", **held)
    return str(tmp_path)


def job(place: str, distances: dict[str, str], **further: str) -> Spec:
    return Spec.from_dict(
        {
            "format": 1,
            "method": "smerf",
            "seed": 3,
            "output": f"{place}/a.forest.zarr",
            "input": {"features": f"{place}/in.zarr/X", "distances": distances, **further},
            "params": {"n_estimators": 5},
            "run": {"scratch": f"{place}/scratch"},
        }
    )


def costed(place: str, costs: str = "C", **further: str) -> Spec:
    values = {"values": f"{place}/in.zarr/codes", "costs": f"{place}/in.zarr/{costs}"}
    return job(place, {"kind": "labels", **values}, **further)


def forest_of_job(spec: Spec) -> Any:
    return load(checked_run(spec).address)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_labels_with_costs(place: str, weighted: bool) -> None:
    further = {"sample_weight": f"{place}/in.zarr/w"} if weighted else {}
    spec = costed(place, **further)
    assert preview(spec).size.n_rows == len(X)
    expected = SMERF(5, random_state=3).fit(X, Labels(CODES, costs=COSTS), WEIGHTS if weighted else None)
    found = forest_of_job(spec)
    assert found.digest_ == expected.digest_
    assert found.distance(X).tobytes() == expected.distance(X).tobytes()


def test_a_tuned_job_judges_by_the_costs(place: str) -> None:
    data = check_and_stage(costed(place), f"{place}/job").problem().data
    assert isinstance(data, Data)
    left, right = np.triu_indices(len(X), 1)
    assert data.truth.distances(left, right).tolist() == COSTS.astype(np.float32)[CODES[left], CODES[right]].tolist()


def test_other_costs_are_another_job(place: str) -> None:
    fingerprints = set()
    for factor in (1.0, 2.0):
        write_array(f"{place}/other.zarr", "C", COSTS.shape, COSTS.dtype, [COSTS * factor])
        spec = costed(place)
        distances = {**spec.to_dict()["input"]["distances"], "costs": f"{place}/other.zarr/C"}  # type: ignore[index]
        spec = job(place, distances)
        fingerprints.add(check_and_stage(spec, f"{place}/job{factor}").fingerprint)
        Folder(f"{place}/other.zarr").remove()
    assert len(fingerprints) == 2


def test_cosine_distances(place: str) -> None:
    spec = job(place, {"kind": "embedding", "values": f"{place}/in.zarr/V", "metric": "cosine"})
    expected = SMERF(5, random_state=3).fit(X, Embedding(VECTORS[: len(X)], metric="cosine"))
    assert forest_of_job(spec).digest_ == expected.digest_


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_absolute_differences(place: str, weighted: bool) -> None:
    further = {"sample_weight": f"{place}/in.zarr/w"} if weighted else {}
    distances = {"kind": "targets", "values": f"{place}/in.zarr/codes", "metric": "absolute"}
    spec = job(place, distances, **further)
    assert preview(spec).size.n_rows == len(X)
    expected = SMERF(5, random_state=3).fit(X, Targets(CODES, metric="absolute"), WEIGHTS if weighted else None)
    found = forest_of_job(spec)
    assert found.digest_ == expected.digest_
    assert found.predict(X).tolist() == expected.predict(X).tolist()
    squared = check_and_stage(job(place, {"kind": "targets", "values": f"{place}/in.zarr/codes"}), f"{place}/other")
    assert squared.fingerprint != check_and_stage(spec, f"{place}/again").fingerprint


def test_addresses_of_costs_are_known_and_moved(place: str) -> None:
    spec = costed(place)
    assert addresses_of(spec)["input.distances.costs"] == f"{place}/in.zarr/C"
    options = moved(spec, lambda address: f"/else{address}").input.relations["distances"].options  # type: ignore[union-attr]
    assert options["costs"] == f"/else{place}/in.zarr/C"


def test_costs_of_another_shape_are_refused_with_their_address(place: str) -> None:
    with pytest.raises(InputError, match=naming("input.distances.costs", "4 classes", X.shape)):
        check_and_stage(costed(place, "X"), f"{place}/job")


def test_an_output_in_the_costs_is_refused(place: str) -> None:
    table = costed(place).to_dict()
    with pytest.raises(SpecError, match=naming("output", "in.zarr/C")):
        Spec.from_dict({**table, "output": f"{place}/in.zarr/C/a.zarr"})


def test_an_unknown_metric_is_refused(place: str) -> None:
    with pytest.raises(SpecError, match=naming("metric", "'sqeuclidean'", "'cosine'", "'l1'")):
        job(place, {"kind": "embedding", "values": f"{place}/in.zarr/V", "metric": "l1"})
