"""The preview tells from metadata what the staged job will find."""

import platform
import re
from dataclasses import replace

import numpy as np
import pytest

from distforest import URerF
from distforest.errors import InputError, JobError, SpecError
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.outline import outline
from distforest.jobs.plan import plan
from distforest.jobs.preview import absent_inputs, check_and_stage, faults_of_metadata, preview
from distforest.jobs.question import Question
from distforest.jobs.scratch_room import SMALL_BYTES
from distforest.jobs.spec import Spec
from distforest.jobs.train import size_of
from distforest.sources.arrays import write_array
from distforest.sources.files.ids import TEXT_ENCODING, packed_names
from distforest.sources.scratch import ScratchFolder
from tests.jobs.iris_jobs import write_arrays
from tests.messages import naming


@pytest.fixture
def data(tmp_path):
    """The address of a group with arrays of 24 rows, and some that do not fit."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(24, 9))
    arrays = {
        "X": points,
        "Z": np.linalg.norm(points[:, None] - points, axis=2),
        "A": np.zeros((24, 24), np.uint8),
        "S": points @ points.T,
        "y": rng.integers(0, 3, 24),
        "pair": np.arange(2),
        "t": rng.normal(size=24),
        "E": points[:, :2],
        "w": np.arange(9.0),
        "wide": points.T,
        "short": points[:20],
        "complex": points.astype(np.complex128),
        "cube": np.zeros((24, 2, 2)),
    }
    write_arrays(f"{tmp_path}/d.zarr", **arrays)
    return f"{tmp_path}/d.zarr"


def spec_of(data, method, inputs, params=(), run=()):
    text = {
        "format": 1,
        "method": method,
        "output": "f.zarr",
        "input": {
            key: {part: f"{data}/{value}" if part in PLACES else value for part, value in held.items()}
            if isinstance(held, dict)
            else f"{data}/{held}"
            for key, held in inputs.items()
        },
        "params": dict(params),
        "run": dict(run),
    }
    return Spec.from_dict(text)


PLACES = {"matrix", "values", "adjacency", "features"}
JOBS = [
    ("smerf", {"features": "X", "distances": "Z"}, {}),
    ("smerf", {"features": "X", "distances": "Z"}, {"feature_combinations": 1.5, "max_features": 30}),
    ("smerf", {"features": "X", "distances": {"kind": "graph", "adjacency": "A"}}, {"max_features": 0.5}),
    ("smerf", {"features": "X", "distances": {"kind": "labels", "values": "y"}}, {"max_features": None}),
    ("smerf", {"features": "X", "distances": {"kind": "targets", "values": "t"}}, {"max_features": "log2"}),
    ("smerf", {"features": "X", "distances": {"kind": "embedding", "values": "E"}}, {}),
    ("simforest", {"labels": "y", "similarity": "S"}, {"n_pairs": 7}),
    ("urerf", {"features": "X"}, {"feature_weights": None}),
    ("urerf", {"features": "X", "feature_weights": "w"}, {"max_features": 5}),
    ("simforest", {"labels": "y", "similarity": {"kind": "rbf", "features": "X"}}, {}),
    ("simforest", {"targets": "t", "similarity": {"kind": "linear", "features": "X"}}, {}),
]


@pytest.mark.parametrize(("method", "inputs", "params"), JOBS)
def test_the_projection_is_that_of_the_staged_job(data, tmp_path, method, inputs, params):
    spec = spec_of(data, method, inputs, params, {"workers": 2, "threads_per_worker": 2})
    staged = size_of(stage_inputs(spec, f"{tmp_path}/job").problem())
    seen = preview(spec)
    assert seen.plan == plan(staged, (), 4, None, 2)
    assert seen.size.n_trees == staged.n_trees


def test_the_limit_is_the_spec_s_or_a_share_of_the_machine(data):
    inputs = {"features": "X", "distances": "Z"}
    assert preview(spec_of(data, "smerf", inputs, (), {"memory_limit": "2GiB"})).memory_limit == 2 << 30
    one, two = (preview(spec_of(data, "smerf", inputs, (), {"workers": n})).memory_limit for n in (1, 2))
    assert one // 2 == two > 0
    assert preview(spec_of(data, "smerf", inputs, (), {"scheduler": "tcp://h:1"})).memory_limit is None


@pytest.mark.parametrize(
    ("method", "inputs", "params", "places"),
    [
        ("smerf", {"features": "none", "distances": "none"}, {}, ["input.features", "input.distances"]),
        ("smerf", {"features": "short", "distances": "Z"}, {}, ["input"]),
        ("smerf", {"features": "X", "distances": "wide"}, {}, ["input.distances"]),
        ("smerf", {"features": "complex", "distances": "Z"}, {}, ["input.features"]),
        ("smerf", {"features": "X", "distances": "Z"}, {"max_samples": 25}, ["params.max_samples"]),
        ("simforest", {"labels": "y", "similarity": "S"}, {"n_landmarks": 25}, ["params.n_landmarks"]),
        ("rfd", {"features": "none", "labels": "pair"}, {}, ["input.features", "input.features"]),
        ("smerf", {"features": "X", "distances": {"kind": "embedding", "values": "cube"}}, {}, ["input.distances"]),
        ("simforest", {"labels": "y", "similarity": "X"}, {}, ["input.similarity"]),
        ("simforest", {"labels": "y", "similarity": {"kind": "rbf", "features": "y"}}, {}, ["input.similarity"]),
    ],
)
def test_every_fault_is_named_by_its_place(data, method, inputs, params, places):
    with pytest.raises(SpecError) as caught:
        preview(spec_of(data, method, inputs, params))
    assert [fault.split(":")[0] for fault in caught.value.faults] == places


@pytest.mark.parametrize(
    "inputs",
    [
        {"labels": "E", "similarity": "S"},
        {"labels": "column", "similarity": {"kind": "rbf", "features": "X"}},
    ],
)
def test_labels_of_two_dimensions_are_refused_by_metadata(data, inputs):
    write_array(data, "column", (24, 1), np.dtype("i8"), [np.zeros((24, 1), "i8")])
    with pytest.raises(SpecError, match=r"^input\.labels: .* \(n_rows,\), .* \(24, [12]\)$"):
        preview(spec_of(data, "simforest", inputs))


@pytest.mark.parametrize(
    ("method", "inputs", "place"),
    [
        ("smerf", {"features": "ids", "distances": {"kind": "labels", "values": "y"}}, "input.features: "),
        ("smerf", {"features": "X", "distances": {"kind": "embedding", "values": "ids"}}, "input.distances: "),
        ("urerf", {"features": "ids"}, "input.features: "),
        ("rfd", {"features": "ids", "labels": "y"}, "input.features: "),
        ("simforest", {"labels": "y", "similarity": {"kind": "rbf", "features": "ids"}}, "input.similarity: "),
    ],
)
def test_names_of_rows_as_bytes_are_no_features(data, tmp_path, method, inputs, place):
    names, attributes = packed_names([f"row {row}" for row in range(24)], 6), {TEXT_ENCODING: "utf-8"}
    write_array(data, "ids", names.shape, names.dtype, [names], attributes=attributes)
    spec = spec_of(data, method, inputs)
    told = naming(f"{data}/ids: ", "names", "X")
    for check in (preview, lambda spec: [check_and_stage(spec, f"{tmp_path}/job")]):
        with pytest.raises(SpecError, match=naming(place, f"{data}/ids: ", "names", "X")):
            check(spec)
    assert len(faults_of_metadata(spec)) == 1
    with pytest.raises(InputError, match=told):
        URerF(2).fit(f"{data}/ids")
    forest, rows = str(tmp_path / "f.zarr"), np.random.default_rng(0).normal(size=(24, 6))
    URerF(2, min_samples_split=4, random_state=0).fit(rows).save(forest)
    with pytest.raises(InputError, match=told):
        outline(Question(forest, f"{data}/ids", "apply"))


@pytest.mark.parametrize(
    ("distances", "found"),
    [
        ({"kind": "targets", "values": "complex"}, "complex128"),
        ({"kind": "embedding", "values": "complex"}, "complex128"),
        ({"kind": "targets", "values": "E"}, (24, 2)),
        ({"kind": "targets", "metric": "absolute", "values": "E"}, (24, 2)),
    ],
)
def test_amounts_that_are_none_are_refused_by_metadata(data, distances, found):
    with pytest.raises(SpecError, match=naming(f"input.distances: {data}/{distances['values']}: ", found)):
        preview(spec_of(data, "smerf", {"features": "X", "distances": distances}))


def test_labels_under_distances_are_named_by_their_key(data):
    inputs = {"features": "X", "distances": {"kind": "labels", "values": "E"}}
    with pytest.raises(SpecError, match=naming(f"input.distances: {data}/E: ", (24, 2))):
        preview(spec_of(data, "smerf", inputs))


def test_inputs_that_are_elsewhere_are_no_fault_of_who_hands_in_the_job(data):
    elsewhere = spec_of(data, "smerf", {"features": "X", "distances": "../nowhere.zarr/Z"})
    assert faults_of_metadata(elsewhere) == []
    assert faults_of_metadata(spec_of(data, "smerf", {"features": "X", "distances": "Z"})) == []
    faults = faults_of_metadata(spec_of(data, "smerf", {"features": "cube", "distances": "../nowhere.zarr/Z"}))
    assert [fault.partition(":")[0] for fault in faults] == ["input.features"]
    faults = faults_of_metadata(spec_of(data, "smerf", {"features": "short", "distances": "Z"}))
    assert [fault.partition(":")[0] for fault in faults] == ["input"]


def test_an_array_that_its_group_lacks_is_a_fault_that_names_what_is_there(data):
    mistyped = spec_of(data, "smerf", {"features": "X", "distances": "z"})
    assert absent_inputs(mistyped) == []
    inside = "A, E, S, X, Z, complex, cube, pair, short, t, w, wide, y"
    told = naming(f"input.distances: {data}/z: ", f"{data} ", inside)
    [fault] = faults_of_metadata(mistyped)
    assert re.match(told, fault)
    with pytest.raises(SpecError, match=told):
        preview(mistyped)
    [fault] = faults_of_metadata(spec_of(data, "smerf", {"features": "X", "distances": "X/z"}))
    assert re.match(naming(f"input.distances: {data}/X/z: ", f"{data}/X "), fault)


# --- room in the scratch folder ---------------------------------------------------------------------------


def staged_bytes(folder):
    return sum(path.stat().st_size for path in folder.glob("*.npy"))


@pytest.mark.parametrize(("method", "inputs", "params"), JOBS)
def test_the_room_in_the_scratch_folder_is_what_staging_takes(data, tmp_path, method, inputs, params):
    spec = spec_of(data, method, inputs, params, {"scratch": f"{tmp_path}/s"})
    foreseen = preview(spec).scratch
    stage_inputs(spec, f"{tmp_path}/job")
    assert staged_bytes(tmp_path / "s") <= foreseen.staged <= staged_bytes(tmp_path / "s") + SMALL_BYTES + 9 * 24
    assert foreseen.passes == 0


@pytest.mark.parametrize("limit", [None, 200_000])
def test_what_does_not_fit_is_reported_before_anything_is_staged(data, tmp_path, monkeypatch, limit):
    run = {"scratch": f"{tmp_path}/s", "scratch_limit": limit}
    spec = spec_of(data, "smerf", {"features": "X", "distances": "Z"}, {}, {**run, "workers": 1})
    needed = preview(spec).scratch.staged
    free = [needed]
    monkeypatch.setattr(ScratchFolder, "free", property(lambda _: free[0]))
    free[0] -= 1
    told = naming(f"{needed:,} bytes", f"{tmp_path}/s ", platform.node(), f"{needed - 1:,} ", "`run.scratch`")
    with pytest.raises(JobError, match=told):
        check_and_stage(spec, f"{tmp_path}/job")
    assert not (tmp_path / "job").exists()
    assert [path for path in (tmp_path / "s").iterdir() if path.name != ".limit"] == []
    free[0] += 1
    check_and_stage(spec, f"{tmp_path}/job")


def test_a_limit_below_what_a_job_stages_is_reported_before(data, tmp_path):
    run = {"scratch": f"{tmp_path}/s", "scratch_limit": 3000}
    with pytest.raises(JobError, match=naming(f"{tmp_path}/s ", "0 of the 3,000", "`run.scratch_limit`")):
        check_and_stage(spec_of(data, "smerf", {"features": "X", "distances": "Z"}, {}, run), f"{tmp_path}/job")
    assert [path.name for path in (tmp_path / "s").iterdir()] == [".limit"]


def test_what_goes_by_the_limit_counts_as_free(data, tmp_path, monkeypatch):
    """What nobody uses is removed as far as the limit says, and not to make room on the disk."""
    scratch = ScratchFolder(tmp_path / "s", 200_000)
    scratch.check()
    idle = scratch.staged("a" * 64)
    idle.write_bytes(bytes(150_000))
    monkeypatch.setattr(ScratchFolder, "free", property(lambda _: 50_000))
    scratch.check_room(80_000)
    with pytest.raises(JobError, match="80,001 "):
        scratch.check_room(80_000, 1)
    with pytest.raises(JobError, match="50,000 "):
        replace(scratch, limit=None).check_room(80_000)
    assert idle.exists()
