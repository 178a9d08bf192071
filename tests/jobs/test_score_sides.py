"""Scoring jobs that let training rows' own distances count: the answers of the estimator, by a choice that is told."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from distforest import SMERF, Distances, Embedding, Graph, Labels, SimForestClassifier, Targets, URerF
from distforest.errors import InputError, JobError, SpecError
from distforest.forest import one_sided
from distforest.jobs import own_distances, score
from distforest.jobs.any_spec import addresses_of, functions_of, moved, spec_from_json
from distforest.jobs.cluster import Cluster, Threads
from distforest.jobs.on_dask import OnDask
from distforest.jobs.question import Question
from distforest.jobs.score import Scored
from distforest.jobs.score_spec import ScoreSpec
from distforest.service.running import score_result
from distforest.sources import array_files
from distforest.sources.arrays import open_array
from distforest.sources.sparse_store import write_sparse
from distforest.stores.folder import Folder
from tests.estimators.test_sides import network
from tests.jobs.iris_jobs import write_arrays
from tests.messages import naming
from tests.service.command_line import run

N, NEW = 60, 11
FEATURES, LINKED = network(1, N + NEW)
X, QUERIES = FEATURES[:N], FEATURES[N:]
A = LINKED[:N, :N].astype(float)
RNG = np.random.default_rng(0)
Z = np.abs(X[:, 0, None] - X[:, 0])
HOLES = np.where(np.triu(RNG.random(Z.shape) < 0.3, 1), np.nan, Z)
HOLES[:, 3] = HOLES[3] = np.nan
HOLES = np.triu(HOLES) + np.triu(HOLES, 1).T
CLASSES = np.digitize(X[:, 0], [0.3, 0.6])
COSTS = np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]])
ARRAYS = {
    "X": X,
    "Q": QUERIES,
    "A": A,
    "Z": Z,
    "far": 1e7 + Z,
    "holes": HOLES,
    "y": CLASSES,
    "t": X[:, 1],
    "E": X[:, :2],
    "costs": COSTS,
    "other": Z[::-1, ::-1],
    "small": Z[:9, :9],
}
TAUGHT: dict[str, tuple[dict[str, Any], Any]] = {
    "dense": ({"kind": "dense", "matrix": "Z"}, Distances(Z)),
    "far": ({"kind": "dense", "matrix": "far"}, Distances(1e7 + Z)),
    "holes": ({"kind": "dense", "matrix": "holes"}, Distances(HOLES)),
    "graph": ({"kind": "graph", "adjacency": "A", "diagonal": 0.5}, Graph(A, diagonal=0.5)),
    "sparse": ({"kind": "graph", "adjacency": "S"}, Graph(scipy.sparse.csr_array(A))),
    "labels": ({"kind": "labels", "values": "y"}, Labels(CLASSES)),
    "costs": ({"kind": "labels", "values": "y", "costs": "costs"}, Labels(CLASSES, costs=COSTS)),
    "targets": ({"kind": "targets", "values": "t"}, Targets(X[:, 1])),
    "absolute": ({"kind": "targets", "values": "t", "metric": "absolute"}, Targets(X[:, 1], metric="absolute")),
    "embedding": ({"kind": "embedding", "values": "E"}, Embedding(X[:, :2])),
    "directions": ({"kind": "embedding", "values": "E", "metric": "cosine"}, Embedding(X[:, :2], metric="cosine")),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Rows, what is known of them, and a forest for each kind of ground truth."""
    home = tmp_path_factory.mktemp("store")
    write_arrays(f"{home}/a.zarr", **ARRAYS)
    write_sparse(f"{home}/a.zarr/S", scipy.sparse.csr_array(A))
    for name, (_, y) in TAUGHT.items():
        grown(y).save(f"{home}/{name}.forest.zarr")
    return str(home)


def grown(y: Any) -> SMERF:
    """The forest of a ground truth, whatever is doubtful about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SMERF(30, min_samples_leaf=2, random_state=0).fit(X, y)


def spec_of(store: str, output: str, name: str, sides: str | None, **changed: Any) -> ScoreSpec:
    """The job that scores the forest of a ground truth; keys of ``input`` and ``params`` may be changed."""
    taught = {
        key: f"{store}/a.zarr/{value}" if key in {"matrix", "adjacency", "values", "costs"} else value
        for key, value in TAUGHT[name][0].items()
    }
    given = {"forest": f"{store}/{name}.forest.zarr", "queries": f"{store}/a.zarr/Q", "distances": taught}
    params = {"sides": sides} | changed.get("params", {})
    return ScoreSpec.from_dict(
        {
            "format": 1,
            "job": "score",
            "output": output,
            "input": {key: own for key, own in (given | changed.get("input", {})).items() if own is not None},
            "params": {key: own for key, own in params.items() if own is not None},
            "run": {"scratch": f"{output}.scratch"},
        }
    )


def run_scoring(spec: ScoreSpec, cluster: Cluster, folder: Folder | None = None) -> Scored:
    return score.score(spec.question(), spec.output, cluster, folder=folder)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("sides", ["one", "two", "auto"])
@pytest.mark.parametrize("name", TAUGHT)
def test_a_job_answers_as_the_estimator(store: str, tmp_path: Path, name: str, sides: str) -> None:
    done = run_scoring(spec_of(store, f"{tmp_path}/d.zarr", name, sides), Threads(2))
    forest, y = grown(TAUGHT[name][1]), TAUGHT[name][1]
    expected = forest.training_distance(QUERIES, y, sides=sides).astype(np.float32)
    assert np.asarray(open_array(f"{done.address}/distance")[...]).tobytes() == expected.tobytes()
    assert done.own is not None
    assert done.own.sides == (forest.compare_sides(y).chosen if sides == "auto" else sides)
    assert (
        json.loads(Path(f"{done.address}/zarr.json").read_text())["attributes"]["distforest"]["sides"] == done.own.sides
    )
    assert not Path(f"{done.address}.job").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("answers", [1, 3 * N, 1 << 22])
@pytest.mark.parametrize("name", ["graph", "sparse", "holes", "embedding"])
def test_no_bit_depends_on_the_batches_and_the_choice_is_made_once(
    store: str, tmp_path: Path, name: str, answers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score, "ANSWERS_PER_TASK", answers)
    choices = []
    monkeypatch.setattr(own_distances, "score_sides", lambda *of: choices.append(of) or score_sides(*of))
    done = run_scoring(spec_of(store, f"{tmp_path}/d.zarr", name, "auto"), Threads(3))
    expected = grown(TAUGHT[name][1]).training_distance(QUERIES, TAUGHT[name][1]).astype(np.float32)
    assert np.asarray(open_array(f"{done.address}/distance")[...]).tobytes() == expected.tobytes()
    assert len(choices) == 1


def score_sides(*of: Any) -> Any:
    """The choice as it is."""
    from distforest.evaluation.sides import score_sides as own

    return own(*of)


@pytest.mark.slow
def test_what_was_chosen_is_reported(store: str, tmp_path: Path) -> None:
    done = run_scoring(spec_of(store, f"{tmp_path}/d.zarr", "sparse", "auto"), Threads(1))
    assert done.own is not None
    assert re.match(r"one\b.*roc_auc.*'two' 0\.", done.own.in_words)
    assert score_result(done, [])["sides"] == done.own.in_words
    assert "sides" not in score_result(
        run_scoring(spec_of(store, f"{tmp_path}/e.zarr", "sparse", None, input={"distances": None}), Threads(1)), []
    )


def test_a_job_that_was_interrupted_goes_on_only_with_the_same_ground_truth(store: str, tmp_path: Path) -> None:
    folder, marks = Folder(f"{tmp_path}/work"), set()
    for by in ("one", "two"):
        spec = spec_of(store, f"{tmp_path}/{by}.zarr", "dense", by)
        done = run_scoring(spec, Threads(1), folder)
        assert run_scoring(spec, Threads(1), folder).shapes == done.shapes  # already there
        marks |= set(folder.folders())
    assert len([mark for mark in marks if mark.startswith("done-")]) == 2
    assert "truth" not in folder.folders()


def test_a_staged_truth_is_held_while_it_is_read_and_in_use_no_longer_than_the_job(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_files, "COPIED_BYTES", 0)
    spec, answered = spec_of(store, f"{tmp_path}/d.zarr", "dense", "one"), one_sided.distance_to_training
    run_scoring(spec, Threads(1))
    [file] = spec.run.scratch_folder._files()
    assert file.is_removable

    def damaging(*of: Any) -> Any:
        assert not file.is_removable
        answers = answered(*of)
        with file.path.open("r+b") as staged:
            staged.seek(200)
            staged.write(bytes(400))
        return answers

    monkeypatch.setattr(one_sided, "distance_to_training", damaging)
    with pytest.raises(JobError, match=naming(file.path, "written")):
        run_scoring(replace(spec, output=f"{tmp_path}/e.zarr"), Threads(1))
    assert not Path(f"{tmp_path}/e.zarr").exists()


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore:.*")
def test_workers_answer_the_same(store: str, tmp_path: Path, cluster: OnDask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score, "ANSWERS_PER_TASK", 2 * N)
    for name in ("sparse", "holes", "costs"):
        done = run_scoring(spec_of(store, f"{tmp_path}/{name}.zarr", name, "auto"), cluster)
        expected = grown(TAUGHT[name][1]).training_distance(QUERIES, TAUGHT[name][1]).astype(np.float32)
        assert np.asarray(open_array(f"{done.address}/distance")[...]).tobytes() == expected.tobytes()


# --- the command ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_takes_a_table_as_in_a_spec(store: str, tmp_path: Path) -> None:
    where = f"{store}/sparse.forest.zarr", f"{store}/a.zarr/Q", f"{tmp_path}/d.zarr"
    taught = f"{{ kind = 'graph', adjacency = '{store}/a.zarr/S' }}"
    command = ["score", *where, "--threads-here", "2", "--sides", "auto", "--distances", taught]
    code, out, _ = run(*command)
    assert code == 0
    assert "one, chosen by roc_auc out of bag" in out
    expected = grown(Graph(scipy.sparse.csr_array(A))).training_distance(QUERIES, Graph(scipy.sparse.csr_array(A)))
    found = np.asarray(open_array(f"{tmp_path}/d.zarr/distance")[...])
    assert found.tobytes() == expected.astype(np.float32).tobytes()
    code, _, err = run(*command)
    assert code == 2
    assert re.search(naming(f"{tmp_path}/d.zarr", "--overwrite"), err)
    assert run(*command, "--overwrite")[0] == 0


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--sides", "one"], ("sides", "distances")),
        (["--distances", "Z"], ("distances", "sides")),
        (["--sides", "one", "--distances", "{ kind = 'graph' }"], ("--distances.adjacency: ",)),
        (["--sides", "one", "--distances", "{ kind = "], ("--distances", "address")),
        (["--sides", "one", "--distances", "{ kind = 'lazy', function = 'a:b' }"], ("--distances.kind: ", "'lazy'")),
        (["--sides", "one", "--distances", "Z", "--answer", "apply"], ("'distance'", "'apply'")),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    store: str, tmp_path: Path, options: list[str], named: tuple[str, ...]
) -> None:
    options = [f"{store}/a.zarr/Z" if option == "Z" else option for option in options]
    where = f"{store}/dense.forest.zarr", f"{store}/a.zarr/Q", f"{tmp_path}/d.zarr"
    code, _, err = run("score", *where, "--threads-here", "1", *options)
    assert code != 0
    assert re.search(naming(*named), err)
    assert not Path(f"{tmp_path}/d.zarr").exists()


# --- specs ------------------------------------------------------------------------------------------------


def test_a_spec_survives_json_and_names_its_addresses(store: str, tmp_path: Path) -> None:
    for name, (table, _) in TAUGHT.items():
        spec = spec_of(store, f"{tmp_path}/d.zarr", name, "auto")
        assert spec_from_json(spec.to_json()) == spec
        named = {place: address for place, address in addresses_of(spec).items() if "distances" in place}
        keys = {"matrix", "adjacency", "values", "costs"} & table.keys()
        assert named == {f"input.distances.{key}": f"{store}/a.zarr/{table[key]}" for key in keys}
        assert functions_of(spec) == {}
        gone = moved(spec, lambda address: f"/there{address}")
        assert all(address.startswith("/there/") for address in addresses_of(gone).values())
    plain = spec_of(store, f"{tmp_path}/d.zarr", "dense", None, input={"distances": None})
    assert spec_from_json(plain.to_json()) == plain
    assert plain.distances is None


@pytest.mark.parametrize(
    ("sides", "changed", "named"),
    [
        (None, {}, ("input.distances: ", "params.sides")),
        ("one", {"input": {"distances": None}}, ("params.sides: ", "input.distances")),
        ("both", {}, ("params.sides: ", "'two'", "'one'", "'auto'", "'both'")),
        ("one", {"input": {"distances": {"kind": "lazy", "function": "a:b"}}}, ("input.distances.kind: ", "'lazy'")),
        ("one", {"input": {"reference": "a.zarr/X"}}, ("input.reference: ", "params.sides")),
        ("one", {"params": {"answer": "apply"}}, ("input.distances: ", "'distance'", "'apply'")),
        ("one", {"input": {"distances": {"kind": "graph", "adjacency": "d.zarr"}}}, ("output: ", "'d.zarr'")),
    ],
)
def test_specs_of_what_does_not_go_together_are_refused(
    store: str, sides: str | None, changed: dict[str, Any], named: tuple[str, ...]
) -> None:
    with pytest.raises(SpecError) as caught:
        spec_of(store, "d.zarr", "dense", sides, **changed)
    assert any(fault.startswith(named[0]) and re.search(naming(*named), fault) for fault in caught.value.faults)
    assert len(caught.value.faults) == 1 or sides == "one"


# --- refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "taught", "found"),
    [
        ("dense", {"kind": "dense", "matrix": "other"}, "0.0097581, and 0.979418"),
        ("dense", {"kind": "dense", "matrix": "small"}, "distances of 9 rows"),
        ("dense", {"kind": "labels", "values": "y"}, "labels of 60 rows"),
        ("targets", {"kind": "targets", "values": "t", "metric": "absolute"}, "metric='absolute'"),
        ("dense", {"kind": "dense", "matrix": "nowhere"}, "a.zarr/nowhere"),
        ("dense", {"kind": "dense", "matrix": "X"}, X.shape),
        ("dense", {"kind": "dense", "matrix": "holes"}, "577 unobserved"),
    ],
)
def test_a_ground_truth_that_is_another_leaves_nothing(
    store: str, tmp_path: Path, name: str, taught: dict[str, str], found: object
) -> None:
    named = {key: value if key in {"kind", "metric"} else f"{store}/a.zarr/{value}" for key, value in taught.items()}
    spec = spec_of(store, f"{tmp_path}/d.zarr", name, "one", input={"distances": named})
    with pytest.raises(InputError, match=naming("distances: ", found)):
        run_scoring(spec, Threads(1))
    assert not Path(f"{tmp_path}/d.zarr").exists()
    assert not Path(f"{tmp_path}/d.zarr.job").exists()


def test_a_scratch_folder_that_cannot_be_is_refused(store: str, tmp_path: Path) -> None:
    (tmp_path / "d.zarr.scratch").touch()
    with pytest.raises(InputError, match=naming("`run.scratch`", f"{tmp_path}/d.zarr.scratch")):
        run_scoring(spec_of(store, f"{tmp_path}/d.zarr", "dense", "one"), Threads(1))
    assert not Path(f"{tmp_path}/d.zarr").exists()


@pytest.mark.slow
def test_forests_that_were_taught_no_distances_are_refused(store: str, tmp_path: Path) -> None:
    taught = spec_of(store, f"{tmp_path}/d.zarr", "dense", "one").distances
    SimForestClassifier("rbf", n_estimators=2, random_state=0).fit(X, CLASSES).save(f"{tmp_path}/sim.zarr")
    URerF(2, min_samples_split=9, random_state=0).fit(X).save(f"{tmp_path}/urerf.zarr")
    for name, method in (("sim", "simforest"), ("urerf", "urerf")):
        asked = Question(f"{tmp_path}/{name}.zarr", f"{store}/a.zarr/Q", "distance", sides="one", distances=taught)
        with pytest.raises(InputError, match=rf"^sides\b.* {method}\b"):
            score.score(asked, f"{tmp_path}/d.zarr", Threads(1))
    asked = Question(f"{store}/dense.forest.zarr", f"{store}/a.zarr/Q", "distance", sides="none", distances=taught)
    with pytest.raises(InputError, match=naming("sides: ", "'two', 'one', 'auto'", "'none'")):
        score.score(asked, f"{tmp_path}/d.zarr", Threads(1))


@pytest.mark.parametrize("address", ["\0", 3, {"kind": "labels"}, {"kind": "labels", "values": None}])
def test_a_ground_truth_without_a_usable_address_is_refused_by_its_key(address: Any) -> None:
    given = {"forest": "/data/f.zarr", "queries": "/data/x.zarr/X", "distances": address}
    params = {"answer": "distance", "sides": "auto"}
    table = {"format": 1, "job": "score", "output": "/data/near.zarr", "input": given, "params": params}
    with pytest.raises(SpecError, match=r"^input\.distances"):
        ScoreSpec.from_dict(table)
