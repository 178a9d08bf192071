"""Jobs of forests that are taught nothing: the screen as a step of theirs, weights from an array, faults told."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pytest

from distforest import URerF, load
from distforest.errors import InputError, SpecError
from distforest.forest.sealed.artifact import open_forest
from distforest.growth.problem import Problem
from distforest.jobs import screening
from distforest.jobs.any_spec import moved
from distforest.jobs.cluster import Threads
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.on_dask import OnDask
from distforest.jobs.preview import preview
from distforest.jobs.spec import Spec
from distforest.sources.arrays import write_array
from tests.jobs.faults import Faults, faulty, growths
from tests.jobs.iris_jobs import run
from tests.messages import naming
from tests.simulated import helix

N_TREES, N_ROWS, N_FEATURES = 24, 150, 12
WEIGHTS = np.arange(N_FEATURES, dtype=np.float64)
X = helix(N_ROWS, N_FEATURES - 3).X


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Points of a helix in noise, in two chunkings, and feature weights good and bad."""
    store = tmp_path_factory.mktemp("store") / "helix.zarr"
    arrays = {
        "X": X,
        "by_seven": X,
        "weights": WEIGHTS,
        "short": WEIGHTS[:5],
        "wide": np.stack([WEIGHTS, WEIGHTS], axis=1),
        "complex": WEIGHTS.astype(np.complex128),
        "negative": WEIGHTS - 1.0,
        "unknown": np.full(N_FEATURES, np.nan),
        "zero": np.zeros(N_FEATURES),
        "y": np.arange(N_ROWS) % 2,
    }
    for name, values in arrays.items():
        chunk = 7 * X[:1].nbytes if name == "by_seven" else 1 << 20
        write_array(str(store), name, values.shape, values.dtype, [values], chunk_bytes=chunk)
    return store


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six tasks of the screen."""
    monkeypatch.setattr(screening, "SCREENED_ROWS", 5)


def spec_of(store: Path, folder: Path, features: str = "X", weights: str | None = None, **params: object) -> Spec:
    given = {} if weights is None else {"feature_weights": f"{store}/{weights}"}
    return Spec.from_dict(
        {
            "format": 1,
            "method": "urerf",
            "seed": 5,
            "output": f"{folder}/forest.zarr",
            "input": {"features": f"{store}/{features}", **given},
            "params": {"n_estimators": N_TREES, "min_samples_split": 20, **params},
            "run": {"scratch": f"{folder}/scratch"},
        }
    )


@pytest.fixture(scope="module")
def reference() -> URerF:
    """The forest grown in one thread, in memory."""
    return URerF(N_TREES, min_samples_split=20, random_state=5).fit(X)


# --- one digest -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("features", "threads", "batch"), [("X", 1, 24), ("X", 3, 5), ("by_seven", 2, 1)])
def test_a_job_grows_the_forest_of_the_estimator(
    store: Path, tmp_path: Path, reference: URerF, features: str, threads: int, batch: int
) -> None:
    done = run(spec_of(store, tmp_path, features), Threads(threads), batch=batch)
    assert (done.digest, done.n_grown) == (reference.digest_, N_TREES)
    loaded = load(done.address)
    assert np.array_equal(loaded.proximity(), reference.proximity())
    assert loaded.dependence_ is not None
    assert np.array_equal(loaded.dependence_, reference.dependence_)
    assert not Path(f"{done.address}.job").exists()


@pytest.mark.slow
@pytest.mark.cluster
def test_the_screen_runs_on_a_cluster_and_a_killed_worker_changes_nothing(
    store: Path, tmp_path: Path, reference: URerF, cluster: OnDask
) -> None:
    """A worker that was not there at the screen grows with its weights; `test_train` kills at every point."""
    (tmp_path / "record").mkdir()
    seen: list[str] = []
    with faulty(cluster, Faults(tmp_path / "record", tree=7, point="after_growth")):
        done = run(spec_of(store, tmp_path), cluster, batch=4, watch=lambda progress: seen.append(progress.name))
    assert done.digest == reference.digest_
    assert (tmp_path / "record" / "died").exists()
    assert set(growths(tmp_path / "record")) == set(range(N_TREES))
    assert [name for name, _ in itertools.groupby(seen)] == ["screen", "grow", "merge"]


@pytest.mark.slow
def test_an_interrupted_job_goes_on_to_the_same_forest(
    store: Path, tmp_path: Path, reference: URerF, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, grow, grown = spec_of(store, tmp_path), Problem.grow, 0

    def interrupted(self: Problem, trees: np.ndarray) -> dict[str, np.ndarray]:
        nonlocal grown
        if grown == 3:
            raise KeyboardInterrupt
        grown += 1
        return grow(self, trees)

    monkeypatch.setattr(Problem, "grow", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(spec, Threads(1), batch=4)
    assert not Path(spec.output).exists()
    monkeypatch.setattr(Problem, "grow", grow)
    done = run(spec, Threads(2), batch=3)
    assert (done.digest, done.n_grown) == (reference.digest_, N_TREES - 12)


def test_an_interrupted_screen_is_done_again(
    store: Path, tmp_path: Path, reference: URerF, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, compare, compared = spec_of(store, tmp_path), screening.largest_dependence, 0

    def interrupted(*codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal compared
        if compared == 4:
            raise KeyboardInterrupt
        compared += 1
        return compare(*codes)

    monkeypatch.setattr(screening, "largest_dependence", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(spec, Threads(1))
    monkeypatch.setattr(screening, "largest_dependence", compare)
    assert run(spec, Threads(1)).digest == reference.digest_


def test_a_sealed_forest_is_not_screened_again(
    store: Path, tmp_path: Path, reference: URerF, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(store, tmp_path)
    run(spec, Threads(1))
    monkeypatch.setattr(screening, "screen", lambda *_: pytest.fail("features were screened"))
    again = run(spec, Threads(1))
    assert (again.digest, again.n_grown) == (reference.digest_, 0)


# --- weights from an array --------------------------------------------------------------------------------


def test_weights_from_an_array(store: Path, tmp_path: Path) -> None:
    spec = spec_of(store, tmp_path, weights="weights")
    assert spec.params["feature_weights"] == "given"
    done = run(spec, Threads(2))
    own = URerF(N_TREES, min_samples_split=20, feature_weights=WEIGHTS, random_state=5).fit(X)
    forest = open_forest(done.address)
    assert done.digest == own.digest_ == forest.digest
    assert forest.feature_weights is not None
    assert np.array_equal(forest.feature_weights, WEIGHTS)
    assert forest.dependence is None


def test_other_weights_are_another_job(store: Path, tmp_path: Path) -> None:
    first = stage_inputs(spec_of(store, tmp_path, weights="weights"), str(tmp_path / "one"))
    write_array(str(tmp_path / "w.zarr"), "weights", WEIGHTS.shape, WEIGHTS.dtype, [WEIGHTS[::-1]])
    changed = spec_of(store, tmp_path).to_dict()
    changed["params"] = {**changed["params"], "feature_weights": "given"}  # type: ignore[dict-item]
    changed["input"] = {**changed["input"], "feature_weights": f"{tmp_path}/w.zarr/weights"}  # type: ignore[dict-item]
    second = stage_inputs(Spec.from_dict(changed), str(tmp_path / "two"))
    assert first.fingerprint != second.fingerprint


def test_weights_lead_a_forest_that_is_taught_too(store: Path, tmp_path: Path) -> None:
    table = spec_of(store, tmp_path).to_dict()
    table |= {"method": "smerf", "params": {"n_estimators": 5, "feature_weights": "given", "splitter": "random"}}
    truth = {"kind": "labels", "values": f"{store}/y"}
    table["input"] = {"features": f"{store}/X", "feature_weights": f"{store}/weights", "distances": truth}
    forest = open_forest(run(Spec.from_dict(table), Threads(1)).address)
    assert forest.feature_weights is not None
    assert 0 not in forest.table.columns  # the feature of no weight


# --- faults -----------------------------------------------------------------------------------------------

MISFITS = {"short": (5,), "wide": (12, 2), "complex": "complex128"}


@pytest.mark.parametrize("weights", MISFITS)
def test_weights_that_do_not_fit_are_reported_by_the_preview_and_by_the_job(
    store: Path, tmp_path: Path, weights: str
) -> None:
    spec = spec_of(store, tmp_path, weights=weights)
    named = f"{store}/{weights}: ", "12 features", MISFITS[weights]
    with pytest.raises(SpecError, match=naming("input.feature_weights: ", *named)):
        preview(spec)
    with pytest.raises(InputError, match=naming(*named)):
        run(spec, Threads(1))


@pytest.mark.parametrize(
    ("weights", "found"),
    [("negative", " 1 "), ("unknown", " 12 "), ("zero", "none")],
)
def test_weights_that_say_nothing_are_refused(store: Path, tmp_path: Path, weights: str, found: str) -> None:
    with pytest.raises(InputError, match=naming("feature_weights", found)):
        run(spec_of(store, tmp_path, weights=weights), Threads(1))


@pytest.mark.parametrize(
    ("weights", "said", "named"),
    [
        ("weights", "dependence", ("'dependence'", "input.feature_weights")),
        ("weights", None, ("'none'", "input.feature_weights")),
        ("weights", "none", ("'none'", "input.feature_weights")),
        (None, "given", ("'given'", "input.feature_weights")),
        (None, 0.5, ("'dependence' or 'given' or 'none'", 0.5)),
    ],
)
def test_parameters_and_input_must_agree(
    store: Path, tmp_path: Path, weights: str | None, said: object, named: tuple[object, ...]
) -> None:
    with pytest.raises(SpecError, match=naming("params.feature_weights: ", *named)) as caught:
        spec_of(store, tmp_path, weights=weights, feature_weights=said)
    assert len(caught.value.faults) == 1


def test_parameters_that_do_not_go_together_are_reported_before_the_screen(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screening, "screen", lambda *_: pytest.fail("features were screened"))
    spec = spec_of(store, tmp_path, criterion="mclust_bic")
    with pytest.raises(SpecError, match=naming("params: ", "criterion='mclust_bic'", "splitter='best'")):
        preview(spec)
    with pytest.raises(InputError, match=naming("criterion='mclust_bic'", "splitter='best'")):
        run(spec, Threads(1))
    with pytest.raises(InputError, match=naming("criterion='mclust_bic'", "splitter='best'")):
        URerF(criterion="mclust_bic").fit(X)


def test_paths_are_written_from_the_root_for_workers_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = spec_of(Path("a.zarr"), Path(), weights="weights").to_dict()
    spec = moved(Spec.from_dict(table), os.path.abspath)
    assert spec.input.addresses == {
        "features": f"{tmp_path}/a.zarr/X",
        "feature_weights": f"{tmp_path}/a.zarr/weights",
    }
    assert spec.output == f"{tmp_path}/forest.zarr"
