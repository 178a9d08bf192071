"""URerF on the command line, as a user meets it: validate, fit, inspect, score."""

import json
import subprocess
import sys

import numpy as np
import pytest
from distributed import LocalCluster

from distforest import URerF, load
from distforest.sources.arrays import open_array, write_array
from tests.service.command_line import run
from tests.simulated import helix

SPEC = """\
format = 1
method = "urerf"
seed = 4
output = "{folder}/forest.zarr"
[input]
features = "{folder}/helix.zarr/X"
[params]
n_estimators = 12
min_samples_split = 25
[run]
workers = 2
"""
NAMES = [f"n{k}" for k in range(7)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a helix in noise, its spec, and forests by three kinds of weights."""
    home = tmp_path_factory.mktemp("home")
    (home / "spec.toml").write_text(SPEC.format(folder=home))
    X = helix(160, 4, random_state=1).X
    write_array(f"{home}/helix.zarr", "X", X.shape, X.dtype, [X])
    write_array(f"{home}/named.zarr", "X", X.shape, X.dtype, [X], attributes={"feature_names": NAMES})
    for name, weights in (("screened", "dependence"), ("given", [3, 0, 1, 0, 0, 0, 0]), ("alike", None)):
        URerF(5, min_samples_split=25, feature_weights=weights, random_state=0).fit(X).save(home / f"{name}.zarr")
    return home


def lines(out):
    return {line[:10].strip(): line[12:] for line in out.splitlines()}


@pytest.mark.slow
@pytest.mark.cluster
def test_a_user_s_way(home):
    code, out, _ = run("validate", home / "spec.toml", "--strict")
    assert (code, "input.features" in out, "12 in " in out) == (0, True, True)
    process = [sys.executable, "-m", "distforest", "fit", str(home / "spec.toml"), "--json"]
    done = subprocess.run(process, capture_output=True, text=True, check=True, timeout=300)
    found = json.loads(done.stdout)
    X = np.asarray(open_array(f"{home}/helix.zarr/X")[...])
    assert found["digest"] == URerF(12, min_samples_split=25, random_state=4).fit(X).digest_
    assert "screen" in done.stderr  # the step is told of
    forest, rows = home / "forest.zarr", home / "helix.zarr/X"
    ways = ("--threads-here", 1, "--answer")
    assert run("score", forest, rows, home / "near.zarr", *ways, "proximity")[0] == 0
    near = np.asarray(open_array(f"{home}/near.zarr/proximity")[...])
    assert np.array_equal(near, near.T)
    np.testing.assert_allclose(near, load(forest).proximity(), rtol=1e-6)
    code, _, err = run("score", forest, rows, home / "p.zarr", *ways, "predict")
    assert (code, "ground truth" in err) == (2, True)


@pytest.mark.slow
@pytest.mark.cluster
def test_a_scheduler_elsewhere(home, tmp_path, monkeypatch):
    """Paths from the folder of the command lead workers in another folder to the same arrays."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here").mkdir()
    X = np.asarray(open_array(f"{home}/helix.zarr/X")[...])
    weights = np.arange(1.0, 8.0)
    monkeypatch.chdir(tmp_path / "elsewhere")
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        monkeypatch.chdir(tmp_path / "here")
        for name, values in (("X", X), ("weights", weights)):
            write_array("in.zarr", name, values.shape, values.dtype, [values])
        text = SPEC.format(folder=".").replace("helix.zarr/X", "in.zarr/X").replace("workers = 2", "")
        (tmp_path / "here" / "spec.toml").write_text(text)
        given = ("--set", "input.feature_weights=in.zarr/weights", "--set", "output=weighed.zarr")
        for more, own in (((), "dependence"), (given, weights)):
            code, out, err = run("fit", "spec.toml", "--scheduler", cluster.scheduler_address, *more, "--json")
            assert code == 0, err
            grown = URerF(12, min_samples_split=25, feature_weights=own, random_state=4).fit(X)
            assert json.loads(out)["digest"] == grown.digest_
        asked = ("score", "forest.zarr", "in.zarr/X", "near.zarr", "--answer", "proximity")
        assert run(*asked, "--scheduler", cluster.scheduler_address)[0] == 0
    near = np.asarray(open_array("near.zarr/proximity")[...])
    np.testing.assert_allclose(near, load("forest.zarr").proximity(), rtol=1e-6)


@pytest.mark.slow
def test_inspect_tells_what_a_screen_has_found(home):
    code, out, _ = run("inspect", home / "screened.zarr")
    told = lines(out)
    forest = load(home / "screened.zarr")
    first = int(np.argmax(forest.feature_weights_))
    assert code == 0
    assert told["features"].startswith(
        f"{(forest.dependence_ > 0).sum()} of 7 depend on another; drawn most: feature {first} ("
    )
    assert f"dependence {forest.dependence_[first]:.3f})" in told["features"]
    assert told["leaf table"].startswith("same_leaf: no values, ")
    found = json.loads(run("inspect", home / "screened.zarr", "--json")[1])["features"]
    assert found["n_dependent"] == int((forest.dependence_ > 0).sum())
    assert [own["share"] for own in found["most"]] == pytest.approx(sorted(forest.feature_weights_, reverse=True))
    assert {own["name"] for own in found["most"]} == {None}


def test_inspect_names_features(home):
    out = run("inspect", home / "given.zarr", "--features", home / "named.zarr/X")[1]
    assert lines(out)["features"] == "2 of 7 were drawn, by given weights; drawn most: n0 (75.0%), n2 (25.0%)"
    code, _, err = run("inspect", home / "given.zarr", "--features", home / "helix.zarr/X")
    assert (code, "7 features" in err) == (2, True)


def test_inspect_says_nothing_of_features_drawn_alike(home):
    code, out, _ = run("inspect", home / "alike.zarr")
    assert (code, "features" in lines(out)) == (0, False)
    assert "features" not in json.loads(run("inspect", home / "alike.zarr", "--json")[1])


@pytest.mark.slow
def test_inspect_draws_the_weights(home, tmp_path):
    assert run("inspect", home / "screened.zarr", "--plot", tmp_path / "a.png")[0] == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (
        run("inspect", home / "given.zarr", "--features", home / "named.zarr/X", "--plot", tmp_path / "a.svg")[0] == 0
    )
    assert "<!-- n0 -->" in (tmp_path / "a.svg").read_text()


def test_inspect_draws_the_importances_of_features_drawn_alike(home, tmp_path):
    command = ("inspect", home / "alike.zarr", "--features", home / "named.zarr/X", "--plot", tmp_path / "a.svg")
    assert run(*command)[0] == 0
    drawn = (tmp_path / "a.svg").read_text()
    importances = load(home / "alike.zarr").feature_importances_
    places = [drawn.index(f"<!-- {NAMES[k]} -->") for k in np.argsort(-importances, kind="stable")]
    assert places == sorted(places)
    assert "<!-- share of the nodes that were split, by their rows -->" in drawn


def test_pictures_that_cannot_be_drawn(home, tmp_path, monkeypatch):
    code, _, err = run("inspect", home / "screened.zarr", "--plot", tmp_path / "a.tune")
    assert (code, "'tune'" in err) == (2, True)
    monkeypatch.setitem(sys.modules, "distforest.pictures.charts", None)
    monkeypatch.delattr("distforest.pictures.charts", raising=False)
    code, _, err = run("inspect", home / "screened.zarr", "--plot", tmp_path / "a.png")
    assert (code, "--plot" in err, "'distforest[plot]'" in err) == (2, True, True)
    assert not (tmp_path / "a.png").exists()
