"""Simulated data on disk, and answers on disk judged by them, each against the same worked out in memory."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import zarr

from distforest import SMERF, load
from distforest.command_line import trials as trial_commands
from distforest.errors import ArtifactError, InputError
from distforest.evaluation import trials
from distforest.evaluation.manifolds import NOISES
from distforest.evaluation.metrics import component_precision_recall, geodesic_precision, proximity_hits
from distforest.evaluation.simulate import manifold_helix, manifold_mixture, manifold_sphere, smerf_radial
from distforest.sources.arrays import open_array, write_array
from tests.messages import naming
from tests.service.command_line import run

N = 60


def write(group, **arrays):
    for name, values in arrays.items():
        write_array(str(group), name, values.shape, values.dtype, [values])


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A helix, a mixture and a setting of SMERF on disk, and a forest that was taught the helix."""
    home = tmp_path_factory.mktemp("trials")
    asked = {"n": N, "random_state": 0}
    for setting in ("helix", "mixture", "smerf_radial"):
        trials.simulate(setting, str(home / f"{setting}.zarr"), asked)
    data = manifold_helix(N, random_state=0)
    SMERF(n_estimators=5, random_state=0).fit(data.X, data.geodesic()).save(str(home / "forest.zarr"))
    return home


# --- simulate ---------------------------------------------------------------------------------------------


def test_what_is_written_is_what_is_simulated(home, tmp_path):
    asked = ["--n", 40, "--seed", 3, "--noise-dimensions", 2, "--noise", "t", "--noise-variance", 5, "--rescale"]
    code, out, err = run("simulate", "sphere", *asked, "--no-shuffle", "--output", tmp_path / "s.zarr", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["arrays"] == {
        "X": {"dtype": "float32", "shape": [40, 5]},
        "latent": {"dtype": "float64", "shape": [40, 2]},
    }
    data = manifold_sphere(40, 2, "t", noise_variance=5.0, rescale=True, shuffle=False, random_state=3)
    assert np.array_equal(open_array(str(tmp_path / "s.zarr/X"))[...], data.X)
    assert np.array_equal(open_array(str(tmp_path / "s.zarr/latent"))[...], data.latent)
    attributes = dict(zarr.open_group(tmp_path / "s.zarr", mode="r").attrs)["distforest"]
    assert (attributes["setting"], attributes["asked"]) == ("sphere", told["asked"])


def test_each_setting_writes_its_arrays(home):
    mixture, radial = manifold_mixture(N, random_state=0), smerf_radial(N, random_state=0)
    assert np.array_equal(open_array(str(home / "mixture.zarr/labels"))[...], mixture.labels)
    for name in ("X", "Z", "y"):
        assert np.array_equal(open_array(str(home / f"smerf_radial.zarr/{name}"))[...], getattr(radial, name))


def test_columns_are_for_the_settings_of_smerf(tmp_path):
    code, out, _ = run("simulate", "smerf_bilinear", "--columns", 4, "--n", 9, "--output", tmp_path / "b.zarr")
    assert code == 0
    assert "X float32 9 x 4" in out
    code, _, err = run("simulate", "helix", "--columns", 4, "--output", tmp_path / "h.zarr")
    assert code == 2
    assert "--n, --noise, --noise-dimensions, --noise-variance, --seed, --rescale, --shuffle" in err
    assert re.search(naming("helix", "--columns"), err)
    assert [path.name for path in tmp_path.iterdir()] == ["b.zarr"]


def test_what_is_there_is_kept_unless_it_may_go(tmp_path):
    target = tmp_path / "line.zarr"
    assert run("simulate", "line", "--n", 5, "--output", target)[0] == 0
    code, _, err = run("simulate", "line", "--n", 7, "--output", target)
    assert code == 2
    assert re.search(naming(target, "--overwrite"), err)
    assert open_array(f"{target}/X").shape == (5, 3)
    assert run("simulate", "line", "--n", 7, "--output", target, "--overwrite")[0] == 0
    assert open_array(f"{target}/X").shape == (7, 3)


def test_a_wrong_argument_leaves_nothing(tmp_path):
    code, _, err = run("simulate", "line", "--noise-variance", -1, "--output", tmp_path / "line.zarr")
    assert code == 2
    assert re.search(naming("--noise-variance", -1.0), err)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match=naming("setting", "line, helix", "'torus'")):
        trials.simulate("torus", str(tmp_path / "torus.zarr"), {})


def test_the_commands_know_the_settings_and_the_noises():
    assert set(trial_commands.SETTINGS) == {*trials.MANIFOLDS, *trials.DISTANCES_OF_SETTINGS}
    assert trial_commands.NOISES == NOISES


# --- evaluate ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def random(home):
    """Proximities, distances and nearest rows that know nothing, as arrays on disk; and the proximities."""
    proximity = np.random.default_rng(1).integers(0, 9, (N, N)).astype(np.float32) / 8
    nearest = np.argsort(-proximity, axis=1, kind="stable")[:, :20]
    write(home / "random.zarr", proximity=proximity, distance=1 - proximity, indices=nearest, other=proximity)
    return proximity


@pytest.mark.parametrize("kind", ["proximity", "distance"])
def test_matrices_on_disk_are_judged_as_in_memory(home, random, kind):
    found = trials.evaluate(str(home / f"random.zarr/{kind}"), str(home / "helix.zarr"), [5, 12])
    data = manifold_helix(N, random_state=0)
    for score, k in zip(found.scores, (5, 12), strict=True):
        assert score.precision == pytest.approx(geodesic_precision(random, data.geodesic(), k), abs=1e-14)
        assert score.recall == score.precision
        assert score.chance == pytest.approx(k / (N - 1))


def test_components_are_judged_by_labels_and_by_the_mixture_alike(home, random):
    labels = manifold_mixture(N, random_state=0).labels
    expected = component_precision_recall(random, labels, 10)
    answer = str(home / "random.zarr/proximity")
    for truth in ("mixture.zarr", "mixture.zarr/labels"):
        (score,) = trials.evaluate(answer, str(home / truth), [10]).scores
        assert (score.precision, score.recall) == pytest.approx(expected, abs=1e-14)
        assert score.chance == pytest.approx(np.mean(np.bincount(labels)[labels] - 1) / (N - 1))


def test_distances_of_smerf_are_a_truth_too(home, random):
    Z = smerf_radial(N, random_state=0).Z
    for truth in ("smerf_radial.zarr", "smerf_radial.zarr/Z"):
        (score,) = trials.evaluate(str(home / "random.zarr/distance"), str(home / truth), [7]).scores
        assert score.precision == pytest.approx(geodesic_precision(random, Z, 7), abs=1e-14)


@pytest.mark.parametrize("cells", [1, 7 * N, 1 << 22])
def test_the_size_of_a_block_changes_nothing(home, random, cells, monkeypatch):
    whole = trials.evaluate(str(home / "random.zarr/indices"), str(home / "helix.zarr"), [9, 3])
    monkeypatch.setattr(trials, "PAIRS_JUDGED_AT_ONCE", cells)
    assert trials.evaluate(str(home / "random.zarr/indices"), str(home / "helix.zarr"), [9, 3]) == whole


def test_some_queries_are_some_rows_of_all(home, random):
    data = manifold_helix(N, random_state=0)
    found = trials.evaluate(str(home / "random.zarr/proximity"), str(home / "helix.zarr"), [5], n_queries=13, seed=4)
    hits = proximity_hits(random, data.relevant(5), 5).hits
    rows = np.random.default_rng(4).choice(N, 13, replace=False)
    assert (found.n_points, found.n_queries) == (N, 13)
    assert found.scores[0].precision == pytest.approx(hits[rows].mean() / 5, abs=1e-14)


def test_a_forest_is_judged_as_its_distances_are(home, tmp_path):
    data, forest = manifold_helix(N, random_state=0), load(str(home / "forest.zarr"))
    expected = geodesic_precision(-forest.distance(data.X), data.geodesic(), 8)
    assert expected > 0.5
    code, out, _ = run("evaluate", home / "forest.zarr", home / "helix.zarr", "-k", 8, "--json")
    told = json.loads(out)
    assert (code, told["kind"], told["n_queries"]) == (0, "forest", N)
    assert told["scores"][0]["precision"] == pytest.approx(expected, abs=1e-12)
    for answer, kind in (("distance", "distance"), ("neighbors", "indices")):
        asked = ["--answer", answer, "--threads-here", 1, *(["--n-neighbors", 9] if answer == "neighbors" else [])]
        assert run("score", home / "forest.zarr", home / "helix.zarr/X", tmp_path / answer, *asked)[0] == 0
        found = trials.evaluate(str(tmp_path / answer), str(home / "helix.zarr"), [8])
        assert found.kind == kind
        assert found.scores[0].precision == pytest.approx(expected, abs=0.05 if kind == "indices" else 1e-6)
    asked = ["--answer", "proximity", "--threads-here", 1]
    assert run("score", home / "forest.zarr", home / "helix.zarr/X", tmp_path / "proximity", *asked)[0] == 0
    (score,) = trials.evaluate(str(tmp_path / "proximity"), str(home / "helix.zarr"), [8]).scores
    assert score.precision == pytest.approx(geodesic_precision(forest.proximity(data.X), data.geodesic(), 8), abs=1e-6)
    with pytest.raises(InputError, match=naming("k = 9", 8)):
        trials.evaluate(str(tmp_path / "neighbors"), str(home / "helix.zarr"), [9])


def test_lines_for_a_person(home, random):
    code, out, _ = run("evaluate", home / "random.zarr/proximity", home / "helix.zarr", "--k", 5, "--queries", 20)
    assert code == 0
    assert f"{N} points, 20 of them queries" in out
    assert "k = 5" in out
    assert "precision by chance 0.0847" in out


def test_fifty_points_are_retrieved_by_default(home, random):
    code, out, _ = run("evaluate", home / "random.zarr/proximity", home / "helix.zarr", "--json")
    assert code == 0
    assert [score["k"] for score in json.loads(out)["scores"]] == [50]


def test_no_recall_where_every_point_is_alone(tmp_path, home, random):
    write(tmp_path / "t.zarr", y=np.arange(N))
    code, out, _ = run("evaluate", home / "random.zarr/proximity", tmp_path / "t.zarr/y", "-k", 5, "--json")
    assert (code, json.loads(out)["scores"][0]) == (0, {"k": 5, "precision": 0.0, "recall": None, "chance": 0.0})
    _, out, _ = run("evaluate", home / "random.zarr/proximity", tmp_path / "t.zarr/y", "-k", 5)
    assert "recall none" in out


@pytest.mark.parametrize(
    ("answer", "truth", "more", "named"),
    [
        ("random.zarr/other", "helix.zarr", {}, ("random.zarr/other", "proximity, distance, indices", "'other'")),
        ("random.zarr", "helix.zarr", {}, ("random.zarr", "distance, indices, other")),
        ("helix.zarr", "helix.zarr", {}, ("helix.zarr", "distance, proximity, neighbors", None, "--answer")),
        ("nothing.zarr", "helix.zarr", {}, ("nothing.zarr",)),
        ("random.zarr/distance", "nothing.zarr", {}, ("nothing.zarr",)),
        ("small.zarr/text/distance", "helix.zarr", {}, ("small.zarr/text/distance",)),
        ("random.zarr/distance", "helix.zarr/X", {}, ("helix.zarr/X", "(n, n)", "(n,)", (60, 3))),
        ("small.zarr/distance", "helix.zarr", {}, ("small.zarr/distance", "helix.zarr", 60, (4, 4))),
        ("random.zarr/distance", "helix.zarr", {"ks": [60]}, ("k ", 59, 60)),
        ("random.zarr/distance", "helix.zarr", {"ks": [0]}, ("k ", ">= 1", 0)),
        ("random.zarr/distance", "helix.zarr", {"n_queries": 61}, ("n_queries", "1..60", 61)),
        ("random.zarr/indices", "helix.zarr", {"ks": [30]}, ("k = 30", 19)),
        ("small.zarr/distance", "small.zarr/one", {}, ("small.zarr/one", "1 point")),
        ("small.zarr/indices", "small.zarr/four", {"ks": [1]}, ("small.zarr/indices", (4,))),
        ("forest.zarr", "mixture.zarr/labels", {"ks": [1]}, ("mixture.zarr/labels/X",)),
        ("forest.zarr", "smerf_radial.zarr", {"ks": [1]}, ("X ", "20 features", "3 features")),
    ],
)
def test_what_cannot_be_judged_is_refused_at_the_door(home, random, answer, truth, more, named):
    if not (home / "small.zarr").exists():
        write(home / "small.zarr", distance=np.zeros((4, 4)), one=np.zeros(1), four=np.zeros(4), indices=np.arange(4))
    with pytest.raises(InputError, match=naming(*named)):
        trials.evaluate(str(home / answer), str(home / truth), **{"ks": [5], **more})


@pytest.mark.parametrize(
    ("told", "named"),
    [
        ({"setting": "torus"}, ("t.zarr", "line, helix, sphere, mixture", "'torus'")),
        ({"setting": "sphere"}, ("t.zarr/latent", "sphere", (N, 1))),
        ({}, ("t.zarr", "line, helix, sphere, mixture", None)),
    ],
)
def test_a_group_that_is_no_simulation_of_ours_is_refused(home, random, tmp_path, told, named):
    write(tmp_path / "t.zarr", latent=np.zeros((N, 1)))
    zarr.open_group(tmp_path / "t.zarr").attrs["distforest"] = {"type": "simulation", **told}
    with pytest.raises(InputError, match=naming(*named)):
        trials.evaluate(str(home / "random.zarr/distance"), str(tmp_path / "t.zarr"))


def test_a_damaged_forest_is_no_answer(home, tmp_path):
    (tmp_path / "forest.zarr").mkdir()
    (tmp_path / "forest.zarr/manifest.json").write_text("{}")
    with pytest.raises(ArtifactError):
        trials.evaluate(str(tmp_path / "forest.zarr"), str(home / "helix.zarr"))
