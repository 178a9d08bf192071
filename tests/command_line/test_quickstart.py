"""The quickstart: it learns, it leaves what it promises, it gives the same forests again, and it fails clearly."""

import io
import json
import multiprocessing
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pytest

from distforest.command_line import quickstart
from distforest.errors import ArtifactError, InputError, JobError
from distforest.forest.sealed.artifact import open_forest
from distforest.jobs.spec import Spec
from distforest.sources.arrays import open_array
from tests.messages import naming

LAZEGA = {
    "digest": "ab" * 32,
    "n_trees": 5,
    "n_training": 50,
    "n_held_out": 21,
    "n_pairs": 1260,
    "share_of_links": 0.17,
    "auc_roc": 0.7654,
    "auc_pr": 0.4321,
}
IONOSPHERE = {
    "digest": "cd" * 32,
    "n_trees": 5,
    "n_training": 246,
    "n_held_out": 105,
    "share_of_majority": 0.6,
    "accuracy": 0.9123,
    "auc_roc": 0.9789,
}


@pytest.mark.slow
@pytest.mark.cluster
def test_quickstart_twice(tmp_path):
    home = tmp_path / "quick start"
    command = [sys.executable, "-m", "distforest", "quickstart", str(home), "--workers", "2", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=280)
    found = json.loads(done.stdout)
    assert [line[:5] for line in done.stderr.splitlines() if line.startswith("[")] == [f"[{k}/7]" for k in range(1, 8)]
    assert "grow 500/500 " in done.stderr
    assert found["lazega"]["auc_roc"] > 0.7
    assert found["lazega"]["auc_pr"] > 1.5 * found["lazega"]["share_of_links"]
    assert found["ionosphere"]["accuracy"] > 0.85 > found["ionosphere"]["share_of_majority"]
    assert found["ionosphere"]["auc_roc"] > 0.93
    for name in ("lazega", "ionosphere"):
        assert open_forest(f"{home}/forests/{name}.zarr").digest == found[name]["digest"]
        assert Spec.from_toml(home / f"{name}.toml").output == f"{home}/forests/{name}.zarr"
        assert not (home / f"forests/{name}.zarr.job").exists()
    assert (home / "quickstart.png").read_bytes().startswith(b"\x89PNG")
    assert open_array(f"{home}/scores/lazega-pairs.zarr/distance").shape == (found["lazega"]["n_pairs"],)
    assert json.loads((home / "quickstart.json").read_text())["complete"] is True
    (home / "own.txt").write_text("mine")
    (home / "data" / "stale").write_text("old")
    again = json.loads(json.dumps(quickstart.run_quickstart(str(home), workers=1)))
    assert (found.pop("workers"), again.pop("workers")) == (2, 1)
    assert found.pop("seconds").keys() == again.pop("seconds").keys()
    assert again == found
    assert (home / "own.txt").read_text() == "mine"
    assert not (home / "data" / "stale").exists()


def test_split_links_scores_every_pair_that_training_does_not_know(tmp_path):
    home = quickstart.fresh_folder(str(tmp_path / "q"))
    quickstart.split_links(home, seed=5)
    held_out = quickstart._test(home, "lazega", "held_out").astype(bool)
    pairs, linked = (quickstart._test(home, "lazega", name) for name in ("pairs", "linked"))
    adjacency = quickstart._test(home, "lazega", "A")
    assert held_out.sum() == 21
    assert len(np.unique(pairs, axis=0)) == len(pairs) == 71 * 70 // 2 - 50 * 49 // 2
    assert held_out[pairs].any(axis=1).all()
    assert (linked == adjacency[tuple(pairs.T)]).all()
    known = np.asarray(open_array(str(home / "data/lazega-train.zarr/A"))[...])
    assert (known == adjacency[np.ix_(~held_out, ~held_out)]).all()


def test_split_returns_standardises_by_the_training_part_alone(tmp_path):
    home = quickstart.fresh_folder(str(tmp_path / "q"))
    quickstart.split_returns(home, seed=5)
    training = np.asarray(open_array(str(home / "data/ionosphere-train.zarr/X"))[...], np.float64)
    test = quickstart._test(home, "ionosphere", "X")
    assert (len(training), len(test)) == (246, 105)
    assert training.mean(axis=0) == pytest.approx(0.0, abs=1e-6)
    deviation = training.std(axis=0)
    assert deviation[deviation > 0] == pytest.approx(1.0, abs=1e-6)
    assert np.abs(test.mean(axis=0)).max() > 0.01


def test_another_seed_is_another_split(tmp_path):
    splits = []
    for seed in (1, 2):
        home = quickstart.fresh_folder(str(tmp_path / str(seed)))
        quickstart.split_links(home, seed)
        splits.append(quickstart._test(home, "lazega", "held_out"))
    assert (splits[0] != splits[1]).any()


@pytest.mark.parametrize(("name", "found"), [(".", "quickstart"), ("file", "a file")])
def test_a_folder_of_something_else_and_a_file_are_left_alone(name, found, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match=naming(tmp_path, found)):
        quickstart.fresh_folder(str(tmp_path / name))
    assert (tmp_path / "file").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("error", [FileNotFoundError, BrokenProcessPool, TimeoutError])
def test_a_failed_step_is_named(error):
    stream, seconds = io.StringIO(), {}
    with quickstart.step("count the sheep", seconds, stream):
        pass
    named = naming("shear the sheep", "no sheep")
    with pytest.raises(JobError, match=named), quickstart.step("shear the sheep", seconds, stream):
        raise error("no sheep")
    assert stream.getvalue().splitlines() == ["[1/7] count the sheep", "[2/7] shear the sheep"]
    assert list(seconds) == ["count the sheep"]


@pytest.mark.slow
def test_the_error_of_a_scoring_process_is_raised_here(tmp_path):
    (tmp_path / "scores").mkdir()
    with pytest.raises(ArtifactError, match=naming(f"{tmp_path}/forests")):
        quickstart.score_apart(tmp_path, quickstart.return_questions(tmp_path))


def test_scoring_processes_that_take_too_long_are_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(quickstart, "SCORE_SECONDS", 0)
    before = set(multiprocessing.active_children())
    with pytest.raises(TimeoutError):
        quickstart.score_apart(tmp_path, quickstart.return_questions(tmp_path))
    assert set(multiprocessing.active_children()) <= before


def test_without_matplotlib_it_says_so_and_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(quickstart.importlib.util, "find_spec", lambda _name: None)
    assert quickstart.draw(tmp_path) is None
    assert "matplotlib" in capsys.readouterr().err


@pytest.mark.parametrize("picture", [None, "my quick/quickstart.png"])
def test_the_table_shows_every_result(picture):
    stream = io.StringIO()
    found = {"folder": "my quick", "lazega": LAZEGA, "ionosphere": IONOSPHERE, "picture": picture}
    quickstart.show({**found, "seconds": {"a step": 1.25, "another": 2.0}}, stream)
    shown = stream.getvalue()
    assert all(number in shown for number in ("0.765", "0.432", "0.912", "0.979", "ab" * 8, "cd" * 8, "3.2"))
    assert "distforest inspect 'my quick'/forests/lazega.zarr" in shown
    assert (picture or "matplotlib") in shown
