"""The command line: what it prints, what it exits with, and a whole job in processes."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import numpy as np
import pytest
import zarr

from distforest import RFD, SMERF, Lazy, SimForestClassifier, SimForestOutlier, SimForestRegressor, pairwise
from distforest.command_line import cli
from distforest.errors import DistforestWarning, InputError
from distforest.forest import scoring
from distforest.forest.proximities import proximity
from distforest.forest.sealed.artifact import open_forest
from distforest.jobs import outline, preview
from distforest.jobs.cluster import Threads
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.scratch_room import HostWorkers
from distforest.jobs.spec import Spec
from distforest.jobs.train import Options, fit, fit_here
from distforest.sources.arrays import open_array, write_array
from distforest.sources.scratch import ScratchFolder
from distforest.stores.folder import Folder
from tests.messages import naming
from tests.service.command_line import run, run_json

SPEC = """\
format = 1
method = "smerf"
seed = 3
output = "{folder}/forest.zarr"
[input]
features = "{folder}/data.zarr/X"
distances = "{folder}/data.zarr/Z"
[params]
n_estimators = 6
"""


def process(*arguments, **options):
    """The arguments for a command in its own process."""
    command = [sys.executable, "-m", "distforest", *map(str, arguments)]
    return {"args": command, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with data, a spec and its sealed forest."""
    home = tmp_path_factory.mktemp("home")
    rng = np.random.default_rng(0)
    features = rng.normal(size=(30, 3)).astype(np.float32)
    arrays = {
        "X": features,
        "Z": np.abs(features[:, None, 0] - features[:, 0]),
        "pairs": np.array([[0, 1], [5, 2], [7, 7]]),
    }
    for name, values in arrays.items():
        write_array(str(home / "data.zarr"), name, values.shape, values.dtype, [values])
    (home / "spec.toml").write_text(SPEC.format(folder=home))
    spec = Spec.from_toml(home / "spec.toml")
    folder = Folder(f"{spec.output}.job")
    fit(stage_inputs(spec, folder.address), spec.output, folder, Threads(1), Options())
    return home


@pytest.fixture
def spec(home, tmp_path):
    """The spec as a file of the test's own, writing into the test's own folder."""
    path = tmp_path / "spec.toml"
    text = SPEC.format(folder=home).replace(f"{home}/forest.zarr", f"{tmp_path}/forest.zarr")
    path.write_text(text)
    return path


# --- the whole --------------------------------------------------------------------------------------------


def test_help_imports_nothing_heavy():
    command = [sys.executable, "-X", "importtime", "-c", "import distforest.command_line.cli"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    loaded = {line.rsplit("|", 1)[-1].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert {"distforest", "click"} <= loaded
    assert not loaded & {"numpy", "dask", "distributed", "numba", "zarr", "sklearn", "scipy", "rich", "matplotlib"}


def test_help_names_every_door():
    code, out, _ = run("--help")
    assert code == 0
    doors = ("evaluate", "fit", "ingest", "inspect", "quickstart", "score", "verify")
    assert all(f"\n  {door} " in out for door in doors)


@pytest.mark.slow
def test_it_is_a_command_of_dask(tmp_path):
    command = [sys.executable, "-m", "dask", "distforest", "verify", str(tmp_path / "nothing.zarr")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (7, "")
    assert "nothing.zarr" in done.stderr


def test_choices_are_those_of_the_jobs():
    from distforest.sources.files.formats import FORMATS

    assert set(cli.FORMATS) == set(FORMATS.values())


def test_control_characters_do_not_reach_the_terminal(tmp_path):
    code, out, err = run("verify", f"{tmp_path}/\x1b[31mforest.zarr")
    assert (code, out) == (7, "")
    assert "error: " in err
    assert "\x1b" not in err


# --- inspect and verify -----------------------------------------------------------------------------------


def test_inspect_json(home):
    forest = open_forest(f"{home}/forest.zarr")
    code, found = run_json("inspect", home / "forest.zarr")
    assert code == 0
    assert (found["digest"], found["method"], found["n_trees"]) == (forest.digest, "smerf", 6)
    assert found["params"] == forest.meaning.params
    assert found["n_leaves"] == int(forest.table.is_leaf.sum())
    assert found["n_bytes"] == sum(array.nbytes for array in forest.arrays().values())


def test_a_forest_in_the_place_of_predictions_is_told_how_to_predict(home):
    code, _, err = run("evaluate", home / "forest.zarr", "new.csv")
    assert code == 2
    named = ("forest.zarr", "`distforest score ", "new.csv found.csv --answer predict`")
    assert re.match(naming(*named), err)


def test_inspect_tells_the_leaf_table_and_where_the_forest_is_from(home):
    code, out, _ = run("inspect", home / "forest.zarr")
    lines = {line[:10].strip(): line[12:] for line in out.splitlines()}
    kind = open_forest(f"{home}/forest.zarr").leaf_table.kind
    assert code == 0
    assert lines["leaf table"].startswith(f"{kind}: ")
    assert f"features address {home}/data.zarr/X" in out  # as a spec calls it
    assert "matrix address" not in out
    assert "numpy" in out
    assert "threshold       float64" in out


@pytest.mark.slow
def test_inspect_draws_importances(home, tmp_path):
    assert run("inspect", home / "forest.zarr", "--plot", tmp_path / "a.svg")[0] == 0
    assert "<!-- share of the gain of all splits -->" in (tmp_path / "a.svg").read_text()
    X = np.asarray(open_array(f"{home}/data.zarr/X")[...])
    RFD(5, random_state=0).fit(X, X[:, 0] > 0).save(tmp_path / "rfd.zarr")
    assert run("inspect", tmp_path / "rfd.zarr", "--plot", tmp_path / "b.svg")[0] == 0
    assert "<!-- middles -->" in (tmp_path / "b.svg").read_text()


@pytest.mark.slow
def test_inspect_draws_importances_of_similarities_over_a_few_features(home, tmp_path):
    X = np.asarray(open_array(f"{home}/data.zarr/X")[...])
    forest = SimForestClassifier("feature_subsets", n_estimators=10, random_state=0).fit(X, X[:, 1] > 0)
    forest.save(tmp_path / "subsets.zarr")
    assert run("inspect", tmp_path / "subsets.zarr", "--plot", tmp_path / "a.svg")[0] == 0
    text = (tmp_path / "a.svg").read_text()
    named = [line.strip() for line in text.splitlines() if re.fullmatch(r"\s*<!-- \d+ -->", line)]
    assert named[0] == "<!-- 1 -->"  # the feature that decides
    assert "<!-- share of the gain of all splits -->" in text


def test_forests_without_a_cut_that_gains_are_reported(home, tmp_path):
    X = np.asarray(open_array(f"{home}/data.zarr/X")[...])
    with pytest.warns(DistforestWarning, match="min_samples_split=99"):
        SMERF(2, min_samples_split=99, random_state=0).fit(X, X[:, 0] > 0).save(tmp_path / "roots.zarr")
    either = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])  # exclusive or: the first cut gains 0
    SMERF(2, max_depth=1, bootstrap=False, random_state=0).fit(either, [0, 1, 1, 0]).save(tmp_path / "xor.zarr")
    for name in ("roots", "xor"):
        code, out, err = run("inspect", tmp_path / f"{name}.zarr", "--plot", tmp_path / "a.png")
        assert (code, out, "gains" in err) == (2, "", True)
    assert not (tmp_path / "a.png").exists()


@pytest.mark.slow
def test_inspect_draws_forests_on_similarities(home, tmp_path):
    X = np.asarray(open_array(f"{home}/data.zarr/X")[...])
    y, given = X[:, 0] > 0, X @ X.T
    lazy = Lazy(pairwise(lambda a, b: float(given[a, b])), objects=np.arange(len(X)))
    forests = {
        "linear": SimForestClassifier("linear", n_estimators=3, random_state=0).fit(X, y),
        "given": SimForestClassifier(n_estimators=3, random_state=0).fit(given, y),
        "numbers": SimForestRegressor(n_estimators=3, random_state=0).fit(given, X[:, 0]),
        "asked": SimForestClassifier(lazy, n_estimators=3, random_state=0).fit(np.arange(len(X)), y),
        "outliers": SimForestOutlier(n_estimators=3, random_state=0).fit(given),
    }
    shown = dict.fromkeys(("linear", "given", "numbers", "outliers"), "Proximity, rows by cluster")
    shown["asked"] = "SimForestClassifier, tree 0 of 3"
    for name, forest in forests.items():
        forest.save(tmp_path / f"{name}.zarr")
        code, _, err = run("inspect", tmp_path / f"{name}.zarr", "--plot", tmp_path / f"{name}.svg")
        assert (code, err) == (0, "")
        assert f"<!-- {shown[name]}" in (tmp_path / f"{name}.svg").read_text()


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.filterwarnings("default::distforest.errors.DistforestWarning")
def test_a_forest_that_has_learned_nothing_is_reported(home, spec, tmp_path):
    fit_it = ("fit", spec, "--set", "params.min_samples_split=99", "--workers", 1)
    first, out, err = run(*fit_it)
    code, found = run_json(*fit_it)  # sealed already
    [told] = found["warnings"]
    assert (first, code, found["n_grown"], told in out) == (0, 0, 0, False)
    assert re.search(rf"^warning: {re.escape(told)}.* 30 rows.* min_samples_split=99 ", err, re.MULTILINE)
    assert f"\nwarning     {told}\n" in run("inspect", tmp_path / "forest.zarr")[1]
    assert run_json("inspect", tmp_path / "forest.zarr")[1]["n_roots"] == 6
    assert run_json("inspect", home / "forest.zarr")[1]["n_roots"] == 0
    assert "warning" not in run("inspect", home / "forest.zarr")[1]
    manifest = (tmp_path / "forest.zarr/manifest.json").read_text()
    (tmp_path / "alone.zarr").mkdir()
    (tmp_path / "alone.zarr/manifest.json").write_text(manifest)
    assert run_json("inspect", tmp_path / "alone.zarr")[1]["n_roots"] is None


def test_verify_a_good_forest(home):
    code, found = run_json("verify", home / "forest.zarr")
    assert (code, found["valid"], found["digest"]) == (0, True, open_forest(f"{home}/forest.zarr").digest)


@pytest.mark.slow
def test_a_forest_is_exported_to_one_file_and_back(home, tmp_path):
    digest = open_forest(f"{home}/forest.zarr").digest
    code, found = run_json("export", home / "forest.zarr", tmp_path / "f.zip")
    assert (code, found["digest"], found["form"]) == (0, digest, "the sealed forest in one file")
    for command in ("inspect", "verify"):
        assert run_json(command, tmp_path / "f.zip")[1]["digest"] == digest
    assert run("score", tmp_path / "f.zip", home / "data.zarr/X", tmp_path / "out.zarr", "--threads-here", "1")[0] == 0
    forest = open_forest(f"{home}/forest.zarr")
    expected = scoring.distance(forest, forest.leaves, forest.leaves)
    assert open_array(f"{tmp_path}/out.zarr/distance")[:].tolist() == expected.astype(np.float32).tolist()
    assert run_json("export", tmp_path / "f.zip", tmp_path / "back.zarr")[1]["digest"] == digest
    assert open_forest(f"{tmp_path}/back.zarr").digest == digest


def test_an_export_that_cannot_be_is_refused_and_leaves_nothing(home, tmp_path):
    (tmp_path / "f.zip").write_bytes(b"mine")
    for output, code, named in (
        ("f.zip", 7, (f"{tmp_path}/f.zip: ", "exists")),
        ("f.pkl", 2, ("f.pkl", ".zip", ".zarr")),
        ("none/f.zip", 2, (f"{tmp_path}/none",)),
        (home / "forest.zarr" / "left" / "f.zip", 2, (f"{home}/forest.zarr/left/f.zip",)),
        ("f.onnx", 2, ("ONNX", "distances")),
    ):
        ended = run("export", home / "forest.zarr", tmp_path / output)
        assert ended[0] == code, ended
        assert re.match(naming(*named), ended[2])
    assert [(own.name, own.read_bytes()) for own in tmp_path.iterdir()] == [("f.zip", b"mine")]
    assert run("verify", tmp_path / "f.zip")[0] == 7


def test_verify_a_damaged_forest(home, tmp_path):
    shutil.copytree(home / "forest.zarr", tmp_path / "forest.zarr")
    chunk = next(path for path in sorted((tmp_path / "forest.zarr/threshold/c").rglob("*")) if path.is_file())
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    code, found = run_json("verify", tmp_path / "forest.zarr")
    assert (code, found["valid"], found["exit_code"]) == (7, False, 7)
    assert found["error"]["kind"] == "ArtifactError"
    assert "threshold" in found["error"]["message"]
    assert run("inspect", tmp_path / "forest.zarr")[0] == 0


@pytest.mark.parametrize(
    ("leaf", "told"),
    [
        ({"kind": "leaf_distances"}, "leaf_distances: tables of all leaf pairs, 0 B"),
        ({"kind": "class_counts"}, "class_counts: the classes"),
        ({"kind": "means", "factor": 0.5}, "means: mean and spread"),
    ],
)
def test_inspect_tells_any_kind_of_leaf_table(home, tmp_path, leaf, told):
    manifest = json.loads((home / "forest.zarr/manifest.json").read_text())
    manifest["meaning"]["leaf"] = leaf
    (tmp_path / "forest.zarr").mkdir()
    (tmp_path / "forest.zarr/manifest.json").write_text(json.dumps(manifest))
    code, out, _ = run("inspect", tmp_path / "forest.zarr")
    assert code == 0
    assert f"leaf table  {told}" in out
    assert run("verify", tmp_path / "forest.zarr")[0] == 7


def test_a_name_in_a_strangers_forest_does_not_steer_the_terminal(home, tmp_path):
    manifest = json.loads((home / "forest.zarr/manifest.json").read_text())
    manifest["provenance"]["versions"] = {"numpy": "\x1b[31m2.0"}
    (tmp_path / "forest.zarr").mkdir()
    (tmp_path / "forest.zarr/manifest.json").write_text(json.dumps(manifest))
    code, out, _ = run("inspect", tmp_path / "forest.zarr")
    assert code == 0
    assert "numpy \N{REPLACEMENT CHARACTER}[31m2.0" in out
    assert "\x1b" not in out


@pytest.mark.parametrize("door", ["verify", "inspect"])
def test_no_forest_is_exit_7(door, tmp_path):
    code, out, err = run(door, tmp_path / "nothing.zarr")
    assert (code, out) == (7, "")
    assert err.startswith("error: ")
    assert "nothing.zarr" in err


# --- validate ---------------------------------------------------------------------------------------------


def test_validate_prints_the_complete_spec(spec):
    code, found = run_json("validate", spec)
    assert (code, found["valid"]) == (0, True)
    assert found["spec"] == Spec.from_toml(spec).to_dict()


def test_validate_names_all_faults_with_their_lines(spec):
    spec.write_text(spec.read_text().replace('"smerf"', '"smurf"').replace("seed = 3", "seed = -1") + "extra = 1\n")
    code, out, err = run("validate", spec)
    assert (code, out) == (2, "")
    assert [line.split(":")[0] for line in err.splitlines()] == ["error"] * 3
    assert "method (line 2)" in err
    assert "extra" in err
    assert "seed (line 3)" in err
    found = run_json("validate", spec)[1]
    assert (found["valid"], len(found["error"]["faults"])) == (False, 3)


def test_validate_projects_the_memory(spec):
    spec.write_text(spec.read_text() + '[run]\nworkers = 2\nmemory_limit = "1GiB"\n')
    code, found = run_json("validate", spec)
    preview = found["preview"]
    assert (code, preview["n_rows"], preview["n_trees"]) == (0, 30, 6)
    assert preview["memory_limit"] == 1 << 30
    assert 0 < preview["projected_bytes"] < 1 << 30
    assert preview["inputs"]["input.features"]["shape"] == [30, 3]
    assert "1.0 GiB" in run("validate", spec)[1]


@pytest.mark.filterwarnings("default")
def test_validate_reports_what_checks_find_and_stages_nothing(spec, tmp_path, monkeypatch):
    amounts = np.arange(30) * 1.5
    write_array(f"{tmp_path}/amounts.zarr", "y", amounts.shape, amounts.dtype, [amounts])
    truth = f'distances = {{ kind = "labels", values = "{tmp_path}/amounts.zarr/y" }}'
    spec.write_text(re.sub("distances = .*", truth, spec.read_text()) + f'[run]\nscratch = "{tmp_path}/scratch"\n')
    code, found = run_json("validate", spec)
    assert (code, [told.partition(" ")[0] for told in found["preview"]["told"]]) == (0, ["DF007"])
    assert not list((tmp_path / "scratch").glob("*.npy"))
    monkeypatch.setattr(preview, "CHECKED_BYTES", 0)
    assert run_json("validate", spec)[1]["preview"]["told"] == []


def test_validate_strict_names_every_missing_input(spec):
    spec.write_text(spec.read_text().replace("data.zarr", "nowhere.zarr"))
    code, out, _ = run("validate", spec)
    assert code == 0
    assert "nowhere.zarr/Z: " in out
    code, _, err = run("validate", spec, "--strict")
    assert code == 2
    assert [line.split(":")[1].strip() for line in err.splitlines()] == ["input.features", "input.distances"]


def test_validate_tells_that_nobody_can_write_the_output(spec, tmp_path):
    assert "warning" not in run("validate", spec)[1]
    whole = spec.read_text()
    line = next(line for line in whole.splitlines() if line.startswith("output"))
    spec.write_text(whole.replace(line, f'output = "{tmp_path}/results/forest.zarr"'))
    assert re.search(f"^warning .*{tmp_path}/results", run("validate", spec)[1], re.MULTILINE)
    (tmp_path / "file.zarr").touch()
    spec.write_text(whole.replace(line, f'output = "{tmp_path}/file.zarr"'))
    assert re.search(f"^warning .*{tmp_path}/file.zarr", run("validate", spec)[1], re.MULTILINE)


def test_validate_refuses_an_array_that_its_group_lacks(spec):
    spec.write_text(spec.read_text().replace("data.zarr/Z", "data.zarr/z"))
    code, _, err = run("validate", spec)
    assert code == 2
    assert "input.distances" in err
    assert " holds " in err


def test_validate_refuses_a_job_that_cannot_fit(spec):
    spec.write_text(spec.read_text() + '[run]\nmemory_limit = "1MiB"\n')
    code, found = run_json("validate", spec)
    assert (code, found["error"]["kind"]) == (1, "MemoryLimitError")


def test_validate_tells_what_a_job_stages_and_refuses_what_does_not_fit(spec, tmp_path, monkeypatch):
    monkeypatch.setattr(ScratchFolder, "free", property(lambda _: 1 << 20))
    text = spec.read_text() + f'[run]\nscratch = "{tmp_path}/scratch"\n'
    spec.write_text(text + 'scratch_limit = "2MiB"\n')
    told = run_json("validate", spec)[1]["preview"]["scratch"]
    assert 0 < told.pop("staged") < 1 << 20
    assert told == {"folder": f"{tmp_path}/scratch", "passes": 0, "limit": 2 << 20, "free": 1 << 20}
    assert f"KiB of staged files (at most 2.0 MiB) in {tmp_path}/scratch, 1.0 MiB free" in run("validate", spec)[1]
    spec.write_text(text + 'scratch_limit = "1KiB"\n')
    code, out, err = run("validate", spec)
    assert (code, out) == (1, "")
    assert re.match(naming(f"{tmp_path}/scratch", "1,024", "`run.scratch_limit`"), err)
    monkeypatch.setattr(ScratchFolder, "free", property(lambda _: 1 << 10))
    spec.write_text(text)
    assert re.match(naming(f"{tmp_path}/scratch", "1,024"), run("validate", spec)[2])
    assert not (tmp_path / "scratch").exists()


@pytest.mark.parametrize("size", ["1KiB", "289MiB", 1])
def test_workers_that_could_not_start_are_refused_before_anything_is_staged(spec, size):
    spec.write_text(spec.read_text().replace("data.zarr", "nowhere.zarr"))
    code, out, err = run("fit", spec, "--set", f"run.memory_limit='{size}'")
    assert (code, out) == (1, "")
    assert re.match(naming("error: ", "290 MiB", "--memory-limit"), err)


def features_of_others(spec, home, tmp_path):
    """Features without the second of three chunks, in the place of the spec's own."""
    address = tmp_path / "others.zarr" / "X"
    zarr.create_array(str(address), data=open_array(f"{home}/data.zarr/X")[:], chunks=(10, 3))
    (address / "c" / "1" / "0").unlink()
    spec.write_text(spec.read_text().replace(f"{home}/data.zarr/X", str(address)))
    return address


@pytest.mark.slow
@pytest.mark.filterwarnings("default::distforest.errors.DistforestWarning")
@pytest.mark.parametrize("command", ["validate", "fit"])
def test_chunks_that_are_not_stored_are_reported_or_refused(command, spec, home, tmp_path):
    address = features_of_others(spec, home, tmp_path)
    told = f"{address}: 1 of 3 chunks"
    code, out, err = run(command, spec, "--strict")
    assert (code, out) == (2, "")
    assert re.match(naming("--strict", "1 of 3 chunks"), err)
    spec.write_text(spec.read_text() + "[run]\nstrict = true\n")
    assert run(command, spec)[0] == 2
    spec.write_text(spec.read_text().replace("strict = true", "strict = false"))
    code, out, err = run(command, spec)
    assert code == 0
    assert told in out + err


@pytest.mark.filterwarnings("default::distforest.errors.DistforestWarning")
def test_queries_of_which_chunks_are_not_stored_are_reported_or_refused(spec, home, tmp_path):
    address = features_of_others(spec, home, tmp_path)
    code, _, err = run("score", f"{home}/forest.zarr", address, tmp_path / "near.zarr", "--threads-here", 1, "--strict")
    assert (code, not (tmp_path / "near.zarr").exists()) == (2, True)
    assert "1 of 3 chunks" in err
    code, _, err = run("score", f"{home}/forest.zarr", address, tmp_path / "near.zarr", "--threads-here", 1)
    assert code == 0
    assert f"warning: {address}: 1 of 3 chunks" in err


def test_an_array_that_announces_more_than_there_is_is_refused_unless_it_is_allowed(spec, home, tmp_path):
    address = tmp_path / "huge.zarr"
    zarr.create_array(str(address), shape=(1 << 40, 3), chunks=(1 << 30, 3), dtype="f4")
    score = ("score", f"{home}/forest.zarr", address, tmp_path / "near.zarr", "--threads-here", 1)
    fit = ("fit", spec, "--set", f"input.features={address}")
    for command in (score, fit):
        code, out, err = run(*command)
        assert (code, out) == (2, "")
        named = (f"{address}: ", "1,073,741,824 bytes", "13,194,139,533,312", "--max-bytes 13194139533312")
        assert re.match(naming(*named), err)
        code, _, err = run(*command, "--max-bytes", "1GiB")
        assert code == 2
        assert "1,073,741,824 bytes" in err
    code, _, err = run(*score, "--max-bytes", "much")
    assert code == 2
    assert re.match(naming("error: --max-bytes", "'much'"), err)
    assert not (tmp_path / "near.zarr").exists()


def test_a_job_that_no_worker_has_room_for_is_refused_before_anything_is_staged(spec, tmp_path):
    scratch = tmp_path / "scratch"
    features = np.zeros((1 << 10, 1 << 10), np.float32)
    write_array(str(tmp_path / "wide.zarr"), "X", features.shape, features.dtype, [features])
    write_array(str(tmp_path / "wide.zarr"), "t", (1 << 10,), np.dtype("f8"), [np.arange(1024.0)])
    spec.write_text(
        f"""format = 1
method = "smerf"
output = "{tmp_path}/forest.zarr"
input = {{ features = "{tmp_path}/wide.zarr/X", distances = {{ kind = "targets", values = "{tmp_path}/wide.zarr/t" }} }}
run = {{ memory_limit = "291MiB", scratch = "{scratch}" }}
"""
    )
    code, out, err = run("fit", spec)
    assert (code, out) == (1, "")
    assert re.match(naming("error: ", "291 MiB", "--memory-limit"), err)
    assert list(scratch.iterdir()) == []
    assert not (tmp_path / "forest.zarr.job").exists()


def test_a_scratch_folder_that_cannot_be_is_refused_by_its_key(spec, tmp_path):
    (tmp_path / "file").write_text("")
    code, out, err = run("fit", spec, "--set", f"run.scratch={tmp_path}/file/scratch")
    assert (code, out) == (2, "")
    assert re.match(naming("error: ", "`run.scratch`", "DISTFOREST_SCRATCH"), err)


@pytest.mark.parametrize(
    ("option", "key"),
    [
        (("--workers", 2), "workers"),
        (("--threads", 2), "threads_per_worker"),
        (("--memory-limit", "2GiB"), "memory_limit"),
    ],
)
def test_the_size_of_a_cluster_is_not_asked_of_a_scheduler_elsewhere(spec, option, key):
    code, out, err = run("fit", spec, "--scheduler", "tcp://127.0.0.1:1", *option)
    assert (code, out) == (2, "")
    assert re.match(naming(f"`{key}`", "--scheduler"), err)


@pytest.mark.slow
def test_queries_with_a_damaged_chunk_are_refused_by_its_file(home, tmp_path):
    address = tmp_path / "queries.zarr"
    zarr.create_array(str(address), data=open_array(f"{home}/data.zarr/X")[:], chunks=(10, 3))
    chunk = address / "c" / "1" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-4])
    for where in (("--threads-here", 1), ("--workers", 1)):
        code, out, err = run("score", f"{home}/forest.zarr", address, tmp_path / "near.zarr", *where)
        assert (code, out) == (2, "")
        assert f"error: {chunk}: " in err
        assert "Traceback" not in err
        assert not (tmp_path / "near.zarr").exists()


def test_a_small_question_starts_no_workers(home, tmp_path, monkeypatch):
    def started(_run):
        raise AssertionError("workers are started")

    monkeypatch.setattr(cli, "_cluster", started)
    question = ("score", f"{home}/forest.zarr", f"{home}/data.zarr/X", tmp_path / "near.zarr")
    assert run(*question)[0] == 0
    pairs = np.tile([[0, 1]], (4000, 1))
    write_array(f"{tmp_path}/pairs.zarr", "pairs", pairs.shape, pairs.dtype, [pairs])
    with monkeypatch.context() as patch:
        patch.setattr(outline, "opened_bytes", lambda _manifest: 0)
        patch.setattr(outline, "SMALL_QUESTION", 8 * pairs.size - 1)
        with pytest.raises(AssertionError, match="workers are started"):
            run(*question, "--overwrite", "--answer", "pairs", "--pairs", f"{tmp_path}/pairs.zarr/pairs")
    monkeypatch.setattr(outline, "SMALL_QUESTION", 100)
    with pytest.raises(AssertionError, match="workers are started"):
        run(*question, "--overwrite")


def test_a_question_about_nothing_is_refused_as_workers_refuse_it(home, tmp_path, monkeypatch):
    monkeypatch.setattr(cli, "_cluster", pytest.fail)
    for forest, queries, code, told in (
        (home / "forest.zarr", home / "nothing.zarr/X", 2, "error: queries: "),
        (home / "nothing.zarr", home / "data.zarr/X", 7, f"error: {home}/nothing.zarr: "),
        (home / "nothing.zarr", home / "nothing.zarr/X", 7, f"error: {home}/nothing.zarr: "),
    ):
        found, _, err = run("score", forest, queries, tmp_path / "near.zarr")
        assert (found, told in err) == (code, True), err


# --- ingest -----------------------------------------------------------------------------------------------


def test_ingest(tmp_path):
    values = np.arange(6, dtype=np.float64).reshape(3, 2)
    np.savez(tmp_path / "a.npz", X=values, y=np.array([0, 1, 0]))
    code, found = run_json("ingest", tmp_path / "a.npz", tmp_path / "a.zarr")
    assert code == 0
    assert found["arrays"]["X"]["shape"] == [3, 2]
    assert (np.asarray(open_array(f"{tmp_path}/a.zarr/X")[...]) == values).all()
    code, _, err = run("ingest", tmp_path / "a.npz", tmp_path / "a.zarr")
    assert (code, err.startswith("error: ")) == (2, True)
    code, out, _ = run("ingest", tmp_path / "a.npz", tmp_path / "a.zarr", "--overwrite")
    assert (code, "X float32 3 x 2" in out) == (0, True)


def test_ingest_reports_what_it_has_taken_for_what(tmp_path):
    (tmp_path / "p.csv").write_text("0,1,2\n1.5,2.5,fern\n3.5,4.5,moss\n")
    code, out, err = run("ingest", tmp_path / "p.csv", tmp_path / "p.zarr", "--label", "2")
    assert (code, err) == (0, "")
    assert "X float32 2 x 2, feature_names 0, 1\n" in out
    assert "y int64 2, classes fern, moss\n" in out
    code, out, err = run(
        "ingest", tmp_path / "p.csv", tmp_path / "p.zarr", "--label", "2", "--no-header", "--overwrite"
    )
    assert (code, err) == (0, "")
    assert "X float32 3 x 2, no feature_names\n" in out


def test_a_dry_run_of_ingest_prints_a_schema_that_ingest_takes(tmp_path):
    (tmp_path / "p.csv").write_text('height,"a ""b""",kind\n1.5,x,fern\n3.5,y,moss\n')
    given = ("ingest", tmp_path / "p.csv", tmp_path / "p.zarr", "--label", "kind")
    code, out, err = run(*given, "--dry-run")
    assert (code, out, err) == (0, '[columns]\n"height" = "number"\n"a \\"b\\"" = "category"\n', "")
    assert not (tmp_path / "p.zarr").exists()
    (tmp_path / "s.toml").write_text(out)
    code, out, _ = run(*given, "--schema", tmp_path / "s.toml")
    assert (code, "X float32 2 x 2" in out) == (0, True)


def test_ingest_shows_values_with_commas_apart(tmp_path):
    (tmp_path / "p.csv").write_text('stage,kind\n"Adult, 1 Egg",fern\nChick,moss\n')
    code, out, _ = run("ingest", tmp_path / "p.csv", tmp_path / "p.zarr", "--label", "kind")
    assert (code, out.splitlines()[-1].endswith('  "Adult, 1 Egg", Chick')) == (0, True)


def test_ingest_is_told_what_separates_cells(tmp_path):
    (tmp_path / "p.csv").write_text("height;width;kind\n1;2;fern\n2;3;moss\n")
    given = ("ingest", tmp_path / "p.csv", tmp_path / "p.zarr", "--label", "kind")
    code, _, err = run(*given)
    assert (code, "'height;width;kind'" in err) == (2, True)
    code, out, err = run(*given, "--separator", ";")
    assert (code, err) == (0, "")
    assert "X float32 2 x 2, feature_names height, width\n" in out


def test_ingest_tells_where_strings_have_gone(tmp_path):
    arrays = {
        "X": np.eye(2),
        "kinds": np.array(["a", "b"]),
        "about": np.array("two"),
        "many": np.array([list("abcdef")]),
    }
    np.savez(tmp_path / "a.npz", **arrays)
    code, out, _ = run("ingest", tmp_path / "a.npz", tmp_path / "a.zarr")
    assert code == 0
    assert "array      kinds int64 2, classes a, b\n" in out
    assert "attribute  about two\n" in out
    assert "attribute  many a, b, c, d, e, ... (6)\n" in out
    _, found = run_json("ingest", tmp_path / "a.npz", tmp_path / "b.zarr")
    assert (found["arrays"]["kinds"]["attributes"], found["attributes"]) == (["classes"], ["about", "many"])


def test_ingest_refuses_what_would_unfold_to_more_than_is_allowed(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros((50_000, 2)))
    command = ("ingest", tmp_path / "a.npz", tmp_path / "a.zarr", "--max-bytes")
    code, out, err = run(*command, "500kB")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.match(naming("500,000 bytes", "800,128", "--max-bytes 800128"), err)
    assert run(*command, "1 MiB")[0] == 0
    for size in ("much", "", "0"):
        code, out, err = run(*command, size)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert re.match(naming("--max-bytes", repr(size)), err)


@pytest.mark.filterwarnings("default::distforest.errors.DistforestWarning")
def test_ingest_takes_a_libsvm_file_as_it_is_reported(tmp_path):
    (tmp_path / "a.svm").write_text("1 0:2\n")
    command = ("ingest", tmp_path / "a.svm", tmp_path / "a.zarr", "--overwrite")
    code, out, err = run(*command)
    assert (code, "X float32 1 x 1" in out, "--zero-based" in err) == (0, True, True)
    code, out, err = run(*command, "--zero-based", "--n-features", 3)
    assert (code, "X float32 1 x 3" in out, err) == (0, True, "")
    code, out, err = run(*command, "--one-based")
    assert (code, "--zero-based" in err) == (2, True)


@pytest.mark.parametrize(
    ("file", "options", "named"),
    [
        ("a.csv", ("--header", "--id", "c"), ("column 'c'", "--id", "'a', 'b'")),
        ("b.csv", (), ("--categorical b", "--missing x")),
        ("a.txt", (), ("--format",)),
        ("a.csv", ("--n-features", 3), ("--n-features", "libsvm")),
        ("a.csv", ("--name", "X"), ("--name", ".npy")),
        ("kinds.npy", (), ("--name y",)),
        ("new name!.npy", (), ("'new name!'", "--name")),
    ],
)
def test_hints_name_the_flags_of_the_command(tmp_path, file, options, named):
    if file.endswith(".npy"):
        np.save(tmp_path / file, np.array(["a", "b"] if file == "kinds.npy" else [1.0, 2.0]))
    else:
        (tmp_path / file).write_text("a,b\n1,x\n2,y\n" if file == "a.csv" else "a,b\n1,x\n2,3\n3,4\n")
    code, _, err = run("ingest", tmp_path / file, tmp_path / "a.zarr", *options)
    assert code == 2
    assert re.match(naming(*named), err)


def commands_onto(home, tmp_path, output):
    """Each command that writes an output, by the kind of what it writes."""
    (tmp_path / "a.csv").write_text("a\n1\n")
    return {
        "ingest": ("ingest", tmp_path / "a.csv", output),
        "score": ("score", home / "forest.zarr", home / "data.zarr/X", output, "--threads-here", 1),
        "fit": ("fit", home / "spec.toml", "--set", "seed=4", "--workers", 1, "--set", f"output={output}"),
    }


@pytest.mark.slow
@pytest.mark.cluster
def test_a_target_in_the_way_is_overwritten_by_a_flag(home, tmp_path):
    for name, command in commands_onto(home, tmp_path, tmp_path / "a.zarr").items():
        shutil.rmtree(tmp_path / "a.zarr", ignore_errors=True)
        if name == "fit":
            shutil.copytree(home / "forest.zarr", tmp_path / "a.zarr")
        else:
            assert run(*command)[0] == 0
        code, _, err = run(*command)
        assert (code, "--overwrite" in err) == (2, True)
        assert run(*command, "--overwrite")[0] == 0
        assert {path.name for path in tmp_path.iterdir()} == {"a.csv", "a.zarr"}


def test_a_question_is_corrected_in_its_flags(home, tmp_path):
    command = ("score", home / "forest.zarr", home / "data.zarr/X", tmp_path / "a.zarr", "--threads-here", 1)
    refused = run(*command, "--answer", "neighbors", "--n-neighbors", 31)[2]
    assert re.match(naming("error: --n-neighbors", "1..30", 31), refused)
    assert "error: --pairs: " in run(*command, "--answer", "pairs")[2]


@pytest.mark.parametrize(
    ("answer", "option", "takes"),
    [
        ("apply", ("--pairs", "data.zarr/pairs"), "'pairs' or 'standard_error'"),
        ("pairs", ("--pairs", "data.zarr/pairs", "--reference", "data.zarr/X"), "'distance' or 'proximity'"),
        ("distance", ("--n-neighbors", 3), "'neighbors' or 'graph'"),
        ("predict", ("--without-self",), "'neighbors' or 'graph'"),
    ],
)
def test_what_an_answer_does_not_take_is_refused(home, tmp_path, answer, option, takes):
    option = [f"{home}/{own}" if "zarr" in str(own) else own for own in option]
    command = ("score", home / "forest.zarr", home / "data.zarr/X", tmp_path / "a.zarr", "--threads-here", 1)
    code, out, err = run(*command, "--answer", answer, *option)
    assert (code, out) == (2, "")
    flag = next(own for own in reversed(option) if str(own).startswith("--"))
    assert re.match(naming(f"error: {flag}", takes, repr(answer)), err)
    assert err.count("\n") == 1


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer_is_one_plain_line(spec):
    done = subprocess.run(**process("fit", spec, "--scheduler", "bad://x"), check=False, timeout=60)
    [refused] = done.stderr.splitlines()  # and no traceback of a client that is collected late
    assert re.match("error: .* bad://x: ", refused)


@pytest.mark.slow
def test_a_warning_is_one_plain_line(spec, home, tmp_path):
    crooked = np.asarray(open_array(f"{home}/data.zarr/Z")[...]).copy()
    crooked[0, 1] += 1.0
    write_array(f"{tmp_path}/z.zarr", "Z", crooked.shape, crooked.dtype, [crooked])
    arguments = ["fit", str(spec), "--set", f"input.distances={tmp_path}/z.zarr/Z", "--workers", "1"]
    done = subprocess.run(**process(*arguments), check=True, timeout=60)
    warned, *progress = done.stderr.splitlines()
    assert all(line.startswith(("grow", "merge")) for line in progress)
    assert warned.startswith("warning: DF004 distances: ")


# --- fit and score, here ----------------------------------------------------------------------------------


def test_a_missing_input_is_exit_2(spec):
    code, found = run_json("fit", spec, "--set", "input.features=nowhere.zarr/X")
    assert (code, found["error"]["kind"]) == (2, "SpecError")
    assert found["error"]["message"].startswith("input.features: nowhere.zarr/X: ")


def test_no_scheduler_is_exit_3(spec):
    code, found = run_json("fit", spec, "--scheduler", "bad://nobody")
    assert (code, found["error"]["kind"], found["exit_code"]) == (3, "UnreachableError", 3)
    assert "bad://nobody" in found["error"]["message"]


@pytest.mark.parametrize(("key", "value"), [("run.workers", "['gpu-1']"), ("run.resources", "{ GPU = 1 }")])
def test_a_placement_without_a_scheduler_is_refused_before_inputs_are_staged(spec, monkeypatch, key, value):
    staged = []
    monkeypatch.setattr("distforest.jobs.preview.check_and_stage", lambda *given: staged.append(given))
    code, _, err = run("fit", spec, "--set", f"{key}={value}")
    assert code == 2
    assert re.search(naming(key, "run.scheduler"), err)
    assert staged == []


@pytest.mark.parametrize("command", ["fit", "tune"])
def test_a_cluster_elsewhere_is_asked_before_inputs_are_staged_for_it(spec, monkeypatch, command):
    """So trees grow by passes where they do not fit into its workers, and in as many parts as it has workers."""

    hosts = {"node7": HostWorkers(2, 1), "node8": HostWorkers(3, 1)}

    @dataclass(frozen=True)
    class Elsewhere(Threads):
        placement: dict = field(default_factory=dict)

        @property
        def hosts(self):
            return hosts

    staged = []

    def stage(job, folder, *workers):
        staged.append(workers)
        raise InputError("it is staged")

    monkeypatch.setattr("distforest.jobs.on_dask.connected", lambda _: nullcontext(Elsewhere(1, memory_limit=3 << 30)))
    monkeypatch.setattr("distforest.jobs.tune.stage_grid", stage)  # first, as this imports what the next line replaces
    monkeypatch.setattr("distforest.jobs.preview.check_and_stage", stage)
    if command == "tune":
        spec.write_text(f'job = "tune"\n{spec.read_text()}[grid]\nmax_depth = [2, 3]\n')
    for where in (("--scheduler", "tcp://elsewhere:1"), ("--workers", 2)):
        code, _, err = run(command, spec, *where)
        assert (code, err) == (2, "error: it is staged\n")
    assert staged == [(3 << 30, hosts), (None, None)]


def test_score_writes_what_the_forest_says(home, tmp_path):
    forest = open_forest(f"{home}/forest.zarr")
    features = np.asarray(open_array(f"{home}/data.zarr/X")[...])
    nodes = scoring.apply(forest, forest.source(features))
    question = (home / "forest.zarr", home / "data.zarr/X")
    code, found = run_json("score", *question, tmp_path / "d.zarr", "--threads-here", 2)
    assert (code, found["digest"], found["arrays"]) == (0, forest.digest, {"distance": [30, 30]})
    expected = scoring.distance(forest, nodes, forest.leaves).astype(np.float32)
    assert (np.asarray(open_array(f"{tmp_path}/d.zarr/distance")[...]) == expected).all()
    pairs = ("--answer", "pairs", "--pairs", home / "data.zarr/pairs", "--threads-here", 1)
    assert run("score", *question, tmp_path / "p.zarr", *pairs)[0] == 0
    expected = scoring.distance(forest, nodes, nodes).astype(np.float32)[[0, 5, 7], [1, 2, 7]]
    assert np.asarray(open_array(f"{tmp_path}/p.zarr/distance")[...]) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["out.csv", "out.CSV", "out.npz", "out.parquet/", "a.b.json"])
def test_a_group_is_not_given_the_name_of_a_file(home, tmp_path, name):
    output = f"{tmp_path}/{name}"
    for command in (
        ("score", home / "forest.zarr", home / "data.zarr/X", output),
        ("ingest", home / "spec.toml", output, "--format", "csv"),
    ):
        code, out, err = run(*command)
        assert (code, out) == (2, "")
        hint = name.rstrip("/").rpartition(".")[0] + ".zarr"
        if command[0] == "score" and name.lower() == "out.csv":  # a table is written, and cannot hold distances
            assert "'distance'" in err
        else:
            assert re.match(naming(f"error: {output}: ", hint), err)
    assert list(tmp_path.iterdir()) == []


def test_score_does_not_replace_unasked(home, tmp_path):
    command = ("score", home / "forest.zarr", home / "data.zarr/X", tmp_path / "o.zarr", "--threads-here", 1)
    assert run(*command, "--answer", "apply")[0] == 0
    assert run(*command, "--answer", "apply")[0] == 2
    code, out, err = run(*command, "--answer", "neighbors", "--n-neighbors", 4, "--overwrite")
    assert (code, "indices 30 x 4" in out) == (0, True)
    assert err.splitlines()[-1].startswith("score 30/30 rows, 100 %")


def test_score_writes_proximities_and_neighbours(home, tmp_path):
    forest = open_forest(f"{home}/forest.zarr")
    question = (home / "forest.zarr", home / "data.zarr/X", tmp_path / "o.zarr", "--threads-here", 1, "--overwrite")
    code, found = run_json("score", *question, "--answer", "proximity")
    assert (code, found["answer"], found["arrays"]) == (0, "proximity", {"proximity": [30, 30]})
    written = np.asarray(open_array(f"{tmp_path}/o.zarr/proximity")[...])
    assert (written == proximity(forest.leaves, forest.leaves).astype(np.float32)).all()
    code, found = run_json("score", *question, "--answer", "neighbors", "--n-neighbors", 4, "--without-self")
    assert (code, found["arrays"]) == (0, {"indices": [30, 4], "distance": [30, 4]})
    _, indices = scoring.kneighbors(forest, forest.leaves, forest.leaves, 4, True)
    assert (np.asarray(open_array(f"{tmp_path}/o.zarr/indices")[...]) == indices).all()


def test_score_wants_one_place_to_run(home, tmp_path):
    question = (home / "forest.zarr", home / "data.zarr/X", tmp_path / "o.zarr")
    code, _, err = run("score", *question, "--workers", 2, "--threads-here", 1)
    assert code == 2
    assert re.match(naming("--workers", "--threads-here", "--scheduler"), err)


# --- fit, score and verify in processes -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.cluster
def test_fit_score_verify_in_processes(spec, home, tmp_path):
    expected = fit_here(stage_inputs(Spec.from_toml(spec), f"{tmp_path}/x.job").problem()).digest
    fitted = subprocess.run(**process("fit", spec, "--workers", 2, "--json"), check=True, timeout=120)
    found = json.loads(fitted.stdout)
    assert (found["digest"], found["n_trees"], found["n_grown"]) == (expected, 6, 6)
    assert found["peak_bytes"] > 0 < found["projected_bytes"]
    assert "grow 6/6 " in fitted.stderr
    assert not (tmp_path / "forest.zarr.job").exists()
    question = (tmp_path / "forest.zarr", home / "data.zarr/X", tmp_path / "scores.zarr")
    code, _, err = run("score", *question, "--workers", 2)
    assert (code, "score 30/30 " in err) == (0, True)
    assert open_array(f"{tmp_path}/scores.zarr/distance").shape == (30, 30)
    code, out, _ = run("verify", tmp_path / "forest.zarr")
    assert (code, expected in out) == (0, True)
    code, out, _ = run("fit", spec)
    assert (code, "sealed by an earlier run of this job" in out) == (0, True)
    assert run("fit", spec, "--set", "seed=4")[:2] == (2, "")


GRID = ("--set", "job=tune", "--set", "grid.max_features=[1, 3]", "--set", "grid.min_samples_split=[2, 9]")


@pytest.mark.slow
def test_tune_seals_the_best_and_writes_the_cells(spec, tmp_path, monkeypatch):
    @contextmanager
    def here(_run):
        yield Threads()

    monkeypatch.setattr(cli, "_cluster", here)
    code, found = run_json("tune", spec, *GRID, "--set", "params.n_estimators=40", "--plot", tmp_path / "cells.svg")
    assert (code, found["best"]["max_features"]) == (0, 3)
    assert found["digest"] == open_forest(f"{tmp_path}/forest.zarr").digest
    assert [cell["param_min_samples_split"] for cell in found["cells"]] == [2, 9, 2, 9]
    assert (tmp_path / "cells.svg").stat().st_size > 1000
    assert not (tmp_path / "forest.zarr.job").exists()
    code, out, _ = run("tune", spec, *GRID, "--set", "params.n_estimators=40", "--table", tmp_path / "cells.csv")
    assert (code, "sealed by an earlier run of this job" in out) == (0, True)
    assert len((tmp_path / "cells.csv").read_text().splitlines()) == 5


@pytest.mark.parametrize(
    ("command", "more", "told"),
    [
        ("tune", (), 'job = "tune"'),
        ("fit", GRID, "`distforest tune`"),
        ("tune", (*GRID, "--table", "cells.txt"), ".csv or .json"),
        ("tune", (*GRID, "--plot", "nowhere/cells.png"), "--plot nowhere/cells.png: "),
        ("tune", (*GRID, "--scheduler", "tcp://127.0.0.1:1", "--workers", "2"), "`workers`"),
        ("tune", (*GRID, "--set", "scoring=r2"), "scoring: "),
    ],
)
def test_what_is_not_tuned_is_reported_before_anything_runs(spec, tmp_path, command, more, told):
    code, _, err = run(command, spec, *more)
    assert (code, told in err) == (2, True), err
    assert not [*tmp_path.glob("forest.zarr*")]


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_what_is_finished_and_the_same_command_goes_on(number, spec, tmp_path):
    many = ("fit", spec, "--workers", 1, "--batch", 1, "--json", "--set", "params.n_estimators=300")
    with subprocess.Popen(**process(*many, start_new_session=True)) as first:
        next(line for line in first.stderr if line.startswith("grow ") and not line.startswith("grow 0/"))
        assert list(tmp_path.glob("forest.zarr.job/shards-*/trees-*.npz"))
        os.killpg(first.pid, number)  # as terminals and batch systems do: to every process of the command
        out, err = first.communicate(timeout=60)
    assert (first.returncode, json.loads(out)["exit_code"]) == (6, 6)
    assert "resumes" in err
    assert "Traceback" not in err
    assert not (tmp_path / "forest.zarr").exists()
    code, out, _ = run(*many)
    found = json.loads(out)
    assert code == 0
    assert 0 < found["n_grown"] < found["n_trees"] == 300
    table = {**Spec.from_toml(spec).to_dict(), "params": {"n_estimators": 300}}
    inputs = stage_inputs(Spec.from_dict(table), f"{tmp_path}/x.job")
    assert found["digest"] == fit_here(inputs.problem()).digest


def test_a_picture_is_written_where_it_can_be(home, tmp_path):
    for name in ("none/a.png", "a", "none/"):
        code, out, err = run("inspect", home / "forest.zarr", "--plot", f"{tmp_path}/{name}")
        assert (code, out) == (2, "")
        assert err.startswith(f"error: --plot {tmp_path}/{name}: ")


@pytest.mark.filterwarnings("default::distforest.errors.DistforestWarning")
def test_names_that_identify_nothing_are_reported(home):
    code, _, err = run("inspect", home / "forest.zarr", "--features", home / "data.zarr/X")
    assert (code, err.count("\n")) == (0, 1)
    assert re.match(naming("warning: --features", "--plot"), err)
