"""Jobs with a table [decision]: the decisions of the estimator, the digest without, warnings, refusals of specs."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distforest import RFD, load
from distforest.errors import InputError, SpecError
from distforest.jobs.any_spec import addresses_of
from distforest.jobs.cluster import Threads
from distforest.jobs.preview import preview
from distforest.jobs.question import Question
from distforest.jobs.score import score
from distforest.jobs.score_table import score_table
from distforest.jobs.spec import Spec
from distforest.sources.arrays import open_array, write_array
from tests.estimators.test_decisions import PAIRS, SIMILAR, X, Y
from tests.jobs.iris_jobs import run

ASKED = {"false_positive_rate": 0.2, "confidence": 0.9}
PARAMS = {"n_estimators": 60, "max_samples": 0.15, "min_samples_leaf": 2}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("store") / "people.zarr"
    people = Y * 7
    for name, values in {"X": X, "y": Y, "pairs": PAIRS, "similar": SIMILAR, "who": people, "few": people[1:]}.items():
        write_array(str(store), name, values.shape, values.dtype, [values])
    return store


def spec_of(store: Path, folder: Path, decision: Any, **changed: Any) -> Spec:
    given = changed.get("input", {"labels": "y"})
    asked = {} if decision is None else {"decision": decision}
    return Spec.from_dict(
        {
            "format": 1,
            "method": changed.get("method", "rfd"),
            "output": f"{folder}/forest.zarr",
            "input": {key: f"{store}/{name}" for key, name in {"features": "X", **given}.items()},
            "params": {**PARAMS, **changed.get("params", {})},
            "run": {"scratch": f"{folder}/scratch"},
            **asked,
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("taught", ["labels", "links", "identities"])
def test_a_job_decides_as_the_estimator_does(store: Path, tmp_path: Path, taught: str) -> None:
    of_pairs = {"pairs": "pairs", "similar": "similar"}
    asked = ASKED | ({"identities": f"{store}/who"} if taught == "identities" else {})
    spec = spec_of(store, tmp_path, asked, input={"labels": "y"} if taught == "labels" else of_pairs)
    done, forest = run(spec, Threads(2)), RFD(**PARAMS, random_state=0)
    expected = forest.fit(X, Y) if taught == "labels" else forest.fit_pairs(X, PAIRS, SIMILAR)
    expected.calibrate(identities=Y * 7 if taught == "identities" else None)
    loaded = load(done.address)
    assert (done.digest, done.warnings) == (expected.digest_, ())
    assert loaded.threshold_ == expected.threshold(0.2, 0.9)
    assert loaded.calibration_.distances.tobytes() == expected.calibration_.distances.tobytes()
    entry = loaded.forest_.provenance["decision"]
    assert (entry["false_positive_rate"], entry["confidence"]) == (0.2, 0.9)
    assert run(spec).n_grown == 0


@pytest.mark.slow
def test_a_rate_that_cannot_be_shown_is_a_warning_and_the_forest_is_kept(store: Path, tmp_path: Path) -> None:
    done = run(spec_of(store, tmp_path, {"false_positive_rate": 1e-4}))
    assert "decision" in done.warnings[0]
    loaded = load(done.address)
    assert len(loaded.calibration_.distances)
    assert not hasattr(loaded, "threshold_")
    others = tmp_path / "others"
    others.mkdir()
    known = run(spec_of(store, others, ASKED, params={"max_samples": None}))
    assert "out of bag" in known.warnings[0]
    assert not hasattr(load(known.address), "calibration_")


@pytest.mark.slow
def test_another_rate_is_another_forest_at_the_output(store: Path, tmp_path: Path) -> None:
    run(spec_of(store, tmp_path, ASKED))
    with pytest.raises(InputError, match="another job"):
        run(spec_of(store, tmp_path, ASKED | {"confidence": 0.5}))


def test_pairs_are_decided_in_batches_by_the_threshold_that_is_sealed(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distforest.jobs.score.ANSWERS_PER_TASK", 500)
    forest, sealed, found = RFD(**PARAMS, random_state=0).fit(X, Y), tmp_path / "own.zarr", []
    left, right = X[PAIRS[:, 0]], X[PAIRS[:, 1]]
    for limit in (0.8, 0.95):  # the digest of the forest is the same
        forest.calibrate().set_threshold(limit).save(sealed)
        for answer in ("decision", "probability"):
            question = Question(str(sealed), f"{store}/X", answer, pairs=f"{store}/pairs")
            done = score(question, f"{tmp_path}/{answer}.zarr", Threads(2), overwrite=True)
            assert done.digest == forest.digest_
            found.append(open_array(f"{tmp_path}/{answer}.zarr/{answer}")[...])
        np.testing.assert_array_equal(found[-2], forest.predict_pairs(left, right))
        np.testing.assert_array_equal(found[-1], forest.predict_proba_pairs(left, right)[:, 1])
        question = replace(question, share=0.001)
        score(question, f"{tmp_path}/rare.zarr", Threads(2), overwrite=True)
        rare = open_array(f"{tmp_path}/rare.zarr/probability")[...]
        np.testing.assert_array_equal(rare, forest.predict_proba_pairs(left, right, share=0.001)[:, 1])
        shutil.rmtree(sealed)
    assert found[0].sum() < found[2].sum()


def test_a_forest_without_decisions_says_what_to_call(store: Path, tmp_path: Path) -> None:
    RFD(**PARAMS, random_state=0).fit(X, Y).save(tmp_path / "own.zarr")
    for answer, cure in (("decision", "set_threshold"), ("probability", "calibrate")):
        question = Question(str(tmp_path / "own.zarr"), f"{store}/X", answer, pairs=f"{store}/pairs")
        with pytest.raises(InputError, match=cure):
            score(question, f"{tmp_path}/out.zarr", Threads(1))


def test_a_table_of_decisions_has_the_names_of_both_records(store: Path, tmp_path: Path) -> None:
    forest = RFD(**PARAMS, random_state=0).fit(X, Y).set_threshold(0.95)
    forest.save(tmp_path / "own.zarr")
    question = Question(str(tmp_path / "own.zarr"), f"{store}/X", "decision", pairs=f"{store}/pairs")
    done = score_table(question, f"{tmp_path}/out.csv", Threads(1))
    assert done.columns == ("left_row", "right_row", "decision")
    lines = Path(f"{tmp_path}/out.csv").read_text().splitlines()
    assert {line.rpartition(",")[2].strip('"').lower() for line in lines[1:]} == {"true", "false"}


def test_a_spec_keeps_its_decision(store: Path, tmp_path: Path) -> None:
    spec = spec_of(store, tmp_path, ASKED | {"identities": f"{store}/who"})
    assert Spec.from_json(spec.to_json()) == spec
    assert addresses_of(spec)["decision.identities"] == f"{store}/who"
    assert f"{store}/who" in spec.input_addresses
    assert "decision" not in spec_of(store, tmp_path, None).to_dict()


@pytest.mark.parametrize(
    "decision",
    [{}, {"false_positive_rate": 0.0}, {"false_positive_rate": 1.0}, ASKED | {"confidence": 1.0}, ASKED | {"fpr": 0.1}],
)
def test_decisions_that_cannot_be_are_faults_of_the_spec(store: Path, tmp_path: Path, decision: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="decision"):
        spec_of(store, tmp_path, decision)


def test_a_forest_of_rows_does_not_decide(store: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="decision"):
        spec_of(store, tmp_path, ASKED, method="urerf", input={}, params={"max_samples": 0.5})


def test_too_few_identities_are_a_fault_before_anything_grows(store: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="few") as caught:
        preview(spec_of(store, tmp_path, ASKED | {"identities": f"{store}/few"}))
    assert str(caught.value)
