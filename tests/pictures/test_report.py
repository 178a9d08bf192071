"""The report on a forest: it says what the forest says, escapes what strangers wrote, and asks for nothing."""

import json
import re
import subprocess
import sys
from html import unescape
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from distforest import (
    RFD,
    SMERF,
    Lazy,
    SimForestClassifier,
    SimForestOutlier,
    SimForestRegressor,
    Targets,
    TreeRank,
    URerF,
    load,
    pairwise,
)
from distforest.errors import InputError
from distforest.forest.sealed.artifact import read_manifest
from distforest.pictures.report import report_page
from distforest.service.registry import Registry
from distforest.sources.arrays import open_array, write_array
from tests.messages import naming
from tests.service.command_line import run
from tests.service.fake_service import JOB, SUCCEEDED

OFFLINE = Path(__file__).parents[2] / ".ci" / "offline.py"
HOSTILE = "<script>alert(1)</script>\"'&"
FRAME = ["Data", "Parameters", "Run"]
END = ["Importances", "Depths of leaves", "Sizes of leaves", "Proximity by cluster", "Grow it again"]
ROC_OF = {True: "ROC of pairs out of bag", False: "ROC of the training pairs"}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Sealed forests of each kind."""
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.repeat([0, 1], 20)
    X[:, 0] += 3 * y
    near = X @ X.T
    lazy = Lazy(pairwise(lambda a, b: float(near[a, b])), objects=np.arange(40), budget=300)
    made = {
        "smerf": SMERF(60, oob_score=True, random_state=0).fit(X, y),
        "targets": SMERF(5, random_state=0).fit(X, Targets(X[:, 0])),
        "distances": SMERF(5, random_state=0).fit(X, np.abs(X[:, 0, None] - X[:, 0])),
        "urerf": URerF(5, min_samples_split=9, random_state=0).fit(X),
        "rfd": RFD(5, random_state=0).fit(X, y),
        "treerank": TreeRank(3, n_pairs=300, max_samples=0.6, random_state=0).fit(X, y),
        "similar": SimForestClassifier(n_estimators=5, random_state=0).fit(near, y),
        "outliers": SimForestOutlier(n_estimators=5, random_state=0).fit(near),
        "asked": SimForestClassifier(lazy, n_estimators=5, pairing="kept", random_state=0).fit(np.arange(40), y),
    }
    for name, forest in made.items():
        forest.save(folder / f"{name}.zarr")
    write_array(f"{folder}/in.zarr", "y", y.shape, y.dtype, [y])
    write_array(f"{folder}/in.zarr", "X", X.shape, X.dtype, [X])
    return folder


def headings(page):
    return [unescape(found) for found in re.findall(r"<h2[^>]*>(.*?)</h2>", page)]


def is_offline(page, folder):
    folder.mkdir()
    (folder / "page.html").write_text(page)
    return subprocess.run([sys.executable, OFFLINE, folder], capture_output=True, check=False).returncode == 0


@pytest.mark.slow
def test_a_report_has_the_decisions_of_a_calibrated_forest(home, tmp_path):
    X, own = np.asarray(open_array(f"{home}/in.zarr/X")[...]), load(f"{home}/rfd.zarr")
    own.calibrate(X, np.arange(len(X)) // 2).set_threshold(0.25).save(tmp_path / "own.zarr")
    assert run("report", tmp_path / "own.zarr", tmp_path / "a.html")[0] == 0
    page, (fpr, tpr) = (tmp_path / "a.html").read_text(), own.calibration_.rates_at(0.25)
    assert "Decisions" in headings(page)
    assert f"{100 * tpr:.3g}% found, {100 * fpr:.3g}% false" in page
    assert f"Area {own.calibration_.roc_band().auc:.4f}" in page
    own.threshold_ = 0.5
    del own.calibration_
    own.save(tmp_path / "alone.zarr")
    assert run("report", tmp_path / "alone.zarr", tmp_path / "b.html")[0] == 0
    assert "a distance of up to 0.5 is called similar" in (tmp_path / "b.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "truth"),
    [
        *((name, True) for name in ("smerf", "urerf", "rfd", "treerank", "similar")),
        *((name, False) for name in ("smerf", "targets", "distances", "urerf", "rfd", "treerank")),
        *((name, False) for name in ("similar", "outliers", "asked")),
    ],
)
def test_a_report_has_all_its_sections(home, tmp_path, name, truth):
    given = ["--truth", home / "in.zarr/y"] if truth else []
    code, out, err = run("report", home / f"{name}.zarr", tmp_path / "a.html", *given, "--json")
    assert (code, err) == (0, "")
    page, found = (tmp_path / "a.html").read_text(), json.loads(out)
    manifest = read_manifest(f"{home}/{name}.zarr")
    assert found["digest"] == manifest["digest"]
    assert found["n_bytes"] == len(page.encode())
    assert manifest["digest"] in page
    roc = [ROC_OF[truth]] if truth or name == "treerank" else []
    error = ["Error out of bag"] if truth or name == "smerf" else []  # which the fit of this one has recorded
    assert headings(page) == [*FRAME, *error, *roc, *END]
    assert ("recorded no error out of bag" in page, "<code>--truth</code>" in page) == (not error, not truth)
    text = unescape(page)
    for key, value in manifest["meaning"]["params"].items():
        assert f"<dt>{key}</dt><dd>{value!r}</dd>" in text
    n_charts, n_tables = len(re.findall("<svg ", page)), len(re.findall("<table>", page))
    assert 2 <= n_charts <= n_tables  # a table for every chart
    assert len(re.findall(r'<svg role="img" aria-label="\w', page)) == n_charts
    assert is_offline(page, tmp_path / "site")
    assert "<script" not in page


@pytest.mark.slow
def test_numbers_of_the_report_are_those_of_the_forest(home):
    page, forest = report_page(f"{home}/smerf.zarr", truth=f"{home}/in.zarr/y")
    estimator = load(home / "smerf.zarr")
    shares = [f"{100 * share:.1f}%" for share in sorted(estimator.feature_importances_, reverse=True)]
    importances = page.partition(">Importances<")[2].partition("</table>")[0]
    errors = [f"{100 * error:.1f}%" for _, _, error in estimator.gain_importances().largest()]
    assert re.findall(r"<td>(.*?)</td>", importances) == [*chain(*zip(shares, errors, strict=True))]
    assert f"RMSE of distances</dt><dd>{estimator.oob_rmse_:.3g}" in page
    assert f"R² of distances</dt><dd>{estimator.oob_score_:.3g}" in page
    depths = page.partition(">Depths of leaves<")[2].partition("</table>")[0]
    n_leaves = [int(found) for found in re.findall(r"<td>(.*?)</td>", depths)]
    assert sum(n_leaves) == int(forest.table.is_leaf.sum())


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (RFD(60, oob_score=True, random_state=0), "Pairs classified correctly"),
        (SimForestClassifier("rbf", n_estimators=20, oob_score=True, random_state=0), "Objects classified correctly"),
        (SimForestRegressor("rbf", n_estimators=20, oob_score=True, random_state=0), "R² of targets"),
    ],
)
def test_a_recorded_score_is_reported_with_what_it_measures(tmp_path, estimator, words):
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.repeat([0, 1], 20)
    X[:, 0] += 3 * y
    score = estimator.fit(X, y).oob_score_
    estimator.save(tmp_path / "a.zarr")
    page, _ = report_page(f"{tmp_path}/a.zarr")
    assert f"{words}</dt><dd>{score:.3g}<" in unescape(page)


def test_a_report_tells_how_it_is_repeated(home, tmp_path, monkeypatch):
    monkeypatch.chdir(home)
    for name, given in (("smerf", ["--truth", "in.zarr/y"]), ("urerf", [])):
        assert run("report", f"{name}.zarr", f"{tmp_path}/{name}.html", *given)[0] == 0
        page = (tmp_path / f"{name}.html").read_text()
        python, commands = map(unescape, re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL))
        data = {"X = ...": "X = 'in.zarr/X'", "y = ...": "import zarr; y = zarr.open_array('in.zarr/y')[...]"}
        for line, known in data.items():
            python = python.replace(line, known)
        exec(python, {})  # it ends with the comparison of the digests
        assert commands.splitlines()[0] == f"$ distforest verify {name}.zarr"
        *_, again = commands.splitlines()
        assert again.split()[:3] == ["$", "distforest", "report"]


def test_costs_of_similarities_are_reported(home):
    page, forest = report_page(f"{home}/asked.zarr")
    paid = forest.provenance["similarity"]["evaluations"]
    assert f"<dd>{paid:,} pairs paid for</dd>" in page
    assert "not routed" in page
    assert "oob_score=True" in page  # a name is written as it is
    assert "similarity=Lazy(...)" in page


def test_weights_without_which_a_forest_does_not_grow_again_are_reported(tmp_path):
    X, pairs, similar = np.arange(24.0).reshape(12, 2), np.stack([np.arange(11), np.arange(1, 12)], axis=1), [1, 0] * 6
    for name, more in (("pair_weight", {"pair_weight": np.arange(11)}), ("sample_weight", {"sample_weight": [2] * 12})):
        forest = RFD(3, resample="pairs", min_samples_leaf=1, random_state=0)
        forest.fit_pairs(X, pairs, similar[:11], **more).save(f"{tmp_path}/{name}.zarr")
        page, _ = report_page(f"{tmp_path}/{name}.zarr")
        assert {own for own in ("pair_weight", "sample_weight") if f"{own}=w" in page} == {name}


def test_what_strangers_have_written_is_escaped(home, tmp_path):
    X = np.arange(12.0).reshape(6, 2)
    forest = SMERF(2, random_state=0).fit(X, np.array([HOSTILE, "b"] * 3))
    forest.feature_names_in_ = np.array([HOSTILE, "b"], object)
    forest.save(tmp_path / "a.zarr")
    page, _ = report_page(f"{tmp_path}/a.zarr", run=[(HOSTILE, HOSTILE)], made_by=HOSTILE)
    assert HOSTILE in unescape(page)
    assert "<script" not in page
    assert '"\'&"' not in page


def test_a_report_on_a_job_tells_of_its_run(home, tmp_path):
    held = Registry(f"{tmp_path}/jobs")
    result = {**SUCCEEDED["result"], "forest": f"{home}/smerf.zarr", "seconds": 12.5, "peak_bytes": 3 << 20}
    held.create("wines", "{}", {**SUCCEEDED, "id": "wines", "result": result})
    held.create("young", "{}", {**JOB, "id": "young", "service": "gone"})
    held.create("asking", "{}", {**SUCCEEDED, "id": "asking", "kind": "score"})
    asked = ("--job-root", tmp_path / "jobs")
    assert run("report", "wines", tmp_path / "a.html", *asked)[0] == 0
    page = (tmp_path / "a.html").read_text()
    assert "<dt>Seconds</dt><dd>12.5</dd>" in page
    assert "<dt>Memory</dt><dd>3.0 MiB at the peak of a worker</dd>" in page
    assert "keeps neither" not in page
    assert f"wines {tmp_path}/a.html --job-root {tmp_path}/jobs" in page
    code, _, err = run("report", "young", tmp_path / "b.html", *asked)
    assert (code, "`distforest wait young`" in err) == (6, True)
    code, _, err = run("report", "asking", tmp_path / "b.html", *asked)
    assert (code, "asking is a scoring job" in err) == (2, True)
    assert run("report", "nobody", tmp_path / "b.html", *asked)[0] == 4
    assert not (tmp_path / "b.html").exists()


def test_what_is_refused(home, tmp_path):
    forest = home / "smerf.zarr"
    code, _, err = run("report", forest, tmp_path / "a.pdf")
    assert (code, ".html" in err) == (2, True)
    (tmp_path / "a.html").write_text("mine")
    code, _, err = run("report", forest, tmp_path / "a.html")
    assert (code, "--overwrite" in err) == (2, True)
    assert (tmp_path / "a.html").read_text() == "mine"
    assert run("report", forest, tmp_path / "a.html", "--overwrite")[0] == 0
    assert (tmp_path / "a.html").read_text() != "mine"
    assert run("report", tmp_path / "none.zarr", tmp_path / "b.html")[0] == 7
    code, _, err = run("report", "mistyped", tmp_path / "b.html")
    assert (code, "mistyped" in err, "scheduler" in err) == (2, True, True)
    code, _, err = run("report", home / "targets.zarr", tmp_path / "b.html", "--truth", home / "in.zarr/X")
    assert code == 2
    assert not (tmp_path / "b.html").exists()
    with pytest.raises(InputError, match=naming("truth:", "40 training rows", 2)):
        report_page(str(forest), truth=[0, 1])
    other = np.random.default_rng(0).permutation(np.repeat([0, 1], 20))
    with pytest.raises(InputError, match=naming("truth:", "taught")):
        report_page(str(forest), truth=other)


@pytest.mark.slow
@pytest.mark.parametrize("params", [{}, {"max_samples": 0.3}, {"max_depth": 1}], ids=str)
@pytest.mark.parametrize("method", [SimForestClassifier, SimForestRegressor])
def test_two_labels_or_targets_of_a_simforest_that_changed_places_are_reported(method, params, tmp_path):
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(60, 3)), rng.integers(1, 4, 60)
    y = (X[:, 0] > 0).astype(int) if method is SimForestClassifier else X[:, 0] + rng.normal(size=60)
    method(similarity="rbf", n_estimators=20, random_state=0, **params).fit(X, y, weight).save(tmp_path / "f.zarr")
    address = str(tmp_path / "f.zarr")
    assert len(report_page(address, truth=y)[0]) > 1000
    place = int(np.argmax(y != y[0]))
    y[[0, place]] = y[[place, 0]]
    with pytest.raises(InputError, match=naming("truth:", "taught")):
        report_page(address, truth=y)


def test_what_was_taught_is_known_also_with_weights_holes_and_functions(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    holes = np.where(rng.random((60, 60)) < 0.2, np.nan, X @ X.T)
    y = (X[:, 0] > 0).astype(int)
    by_class = SimForestClassifier(similarity="rbf", n_estimators=20, class_weight={0: 1, 1: 5}, random_state=0)
    of_pairs = Lazy(lambda left, right: X[left, 0] * X[right, 0], np.arange(60))
    fits = (
        (by_class, X),
        (SimForestClassifier(on_missing="stop", random_state=0), holes),
        (SimForestClassifier(of_pairs), np.arange(60)),
    )
    for number, (simforest, given) in enumerate(fits):
        simforest.fit(given, y).save(tmp_path / f"{number}.zarr")
        with pytest.raises(InputError, match=naming("truth:", "taught")):
            report_page(str(tmp_path / f"{number}.zarr"), truth=1 - y)
    for number in range(2):  # that of a function knows nothing out of bag
        assert len(report_page(str(tmp_path / f"{number}.zarr"), truth=y)[0]) > 1000


@pytest.mark.parametrize("name", ["urerf", "rfd"])
def test_a_truth_that_tells_nothing_of_the_rows_is_refused_in_words(home, tmp_path, name):
    """A forest that was taught nothing, or pairs, is judged by labels; features were called a matrix not square."""
    asked = "report", home / f"{name}.zarr", tmp_path / "b.html", "--truth"
    code, _, err = run(*asked, home / "in.zarr/X")
    assert code == 2
    assert re.match(naming("truth: ", "40 training", "(40, 3)"), err)
    for given, found in ((np.arange(40) / 7, "each row"), ([3] * 40, "one label")):
        with pytest.raises(InputError, match=naming("truth: ", "40 training", found)):
            report_page(f"{home}/{name}.zarr", truth=given)


@pytest.mark.slow
def test_a_report_needs_neither_distributed_nor_matplotlib(home):
    code = (
        "import sys\nfor name in ('distributed', 'matplotlib'): sys.modules[name] = None\n"
        "from distforest.pictures.report import report_page\n"
        f"print(len(report_page({f'{home}/rfd.zarr'!r})[0]) > 1000)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
