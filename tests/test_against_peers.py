"""`benchmarks/against_peers.py` without a network: what is read and told, and that pages show the results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS, DOCS = ROOT / "benchmarks", ROOT / "docs"
pytestmark = pytest.mark.skipif(not BENCHMARKS.exists(), reason="benchmarks are not part of this distribution")


@pytest.fixture(scope="module")
def benchmarks() -> Iterator[Any]:
    """A function that imports a module of the benchmarks."""
    known = set(sys.modules)
    sys.path.insert(0, str(BENCHMARKS))
    yield import_module
    sys.path.remove(str(BENCHMARKS))
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "") or "").startswith(str(BENCHMARKS)):
            del sys.modules[name]


@pytest.fixture
def standing(benchmarks: Any) -> ModuleType:
    return benchmarks("standing")


def method(side: str, quality: list[float], fit: list[float], peak: int = 2**20) -> dict[str, Any]:
    own = {"quality": {"accuracy": quality}, "fit_seconds": fit, "answer_seconds": [0.5] * len(fit)}
    return {"side": side, **own, "peak_bytes": [peak] * len(fit)}


def comparison() -> dict[str, Any]:
    """Three seeds: one peer wins on one set and loses on the other, one is level, one fails, one is not there."""
    ours = method("ours", [0.9, 0.8, 0.7], [0.5, 1.5, 3.5], 2**22)
    better, worse = method("peer", [0.95, 0.9, 0.71], [1.5] * 3), method("peer", [0.2, 0.3, 0.4], [0.5] * 3)
    level = method("peer", [0.9, 0.9, 0.9], [0.5, 1.5, 3.5], 2**21)
    absent = {"side": "peer", "failed": "could not be installed: no wheel"}
    broken = {"side": "peer", "failed": "ValueError: a_b | c"}
    sets = {
        "one": {"rows": 1500, "columns": 4, "methods": {"F": ours, "A": better, "B": level, "C": absent}},
        "two": {"rows": 20, "columns": 3, "methods": {"F": ours, "A": worse, "B": broken, "C": absent}},
    }
    environments = {"distforest": {"versions": {"numpy": "2.0"}}, "gone": {"failed": "no wheel"}}
    facts = {"title": "Peers", "text": "What is done.", "machine": "2 cores", "threads": 1, "seeds": [0, 1, 2]}
    return {**facts, "environments": environments, "sets": sets}


TABLE = """\
| set | method | accuracy | fit and answers |
|---|---|---|---|
| one (1,500 x 4) | F | 0.800 | 2 s |
|  | A | 0.900 **ahead** | 2 s |
|  | B | 0.900 | 2 s |
|  | C | not measured: could not be installed: no wheel |  |
| two (20 x 3) | F | 0.800 | 2 s |
|  | A | 0.300 behind | 1 s |
|  | B | not measured: ValueError: a\\_b \\| c |  |
|  | C | not measured: could not be installed: no wheel |  |"""


def test_a_table_tells_quality_and_time_beside_ours(standing: ModuleType) -> None:
    text, facts, table = standing.section(comparison()).split("\n\n")
    assert text == "What is done."
    assert facts == "3 seeds, 1 thread each. numpy 2.0. **gone could not be installed**: no wheel."
    assert table == TABLE


def test_the_summary_says_where_we_lose_and_what_was_not_measured(standing: ModuleType) -> None:
    assert standing.summary({"peers": comparison()}).splitlines() == [
        "| peer, and ours | measure | ahead of us on | level on | behind us on | our time / its |",
        "|---|---|---|---|---|---|",
        "| Peers: A, F | accuracy | one | none | two | 1.5 (1 to 2) |",
        "| Peers: B, F | accuracy | none | one; two: not measured, ValueError: a\\_b \\| c | none | 1 |",
        "| Peers: C, F | not measured | could not be installed: no wheel |  |  |  |",
    ]


def test_nothing_is_claimed_where_ours_has_failed(standing: ModuleType) -> None:
    own = comparison()
    own["sets"] = {"one": own["sets"]["one"]}
    own["sets"]["one"]["methods"]["F"] = {"side": "ours", "failed": "InputError: no"}
    assert "| F | not measured: InputError: no |" in standing.section(own)
    assert "ahead" not in standing.section(own)
    assert "| Peers: A, F | not measured | ours failed |" in standing.summary({"peers": own})


@pytest.mark.parametrize(("own", "word"), [([2, 2], "ahead"), ([0, 0], "behind"), ([2, 0], "level"), ([1, 1], "level")])
def test_one_is_ahead_only_if_it_is_so_with_every_seed(standing: ModuleType, own: list[float], word: str) -> None:
    assert standing.standing(own, [1, 1]) == word


def test_no_time_has_an_exponent(standing: ModuleType) -> None:
    assert [standing.duration(value) for value in (0.9996, 0.0123, 1234.5)] == ["1000 ms", "12.3 ms", "1234 s"]
    assert standing.ratio_spread([1e-5, 2e-5]) == "< 0.001"
    assert standing.ratio_spread([1e-5, 0.25]) == "0.13 (0.001 to 0.25)"
    assert standing.ratio_spread([1e4, 2e4]) == "> 1,000"
    assert standing.ratio_spread([123.0, 99.6, 1e5]) == "120 (100 to 1,000)"


def test_a_page_is_filled_in_its_places_alone_and_twice_is_once(standing: ModuleType) -> None:
    page = "before\n\n<!-- against-peers: peers -->\nold\n<!-- end -->\n\nbetween\n"
    page += "<!-- against-peers: summary -->\n<!-- end -->\n"
    filled = standing.filled(page, {"peers": comparison()})
    assert "old" not in filled
    assert filled.startswith("before\n\n<!-- against-peers: peers -->\n\nWhat is done.\n")
    assert filled.count("<!-- end -->\n\nbetween\n<!-- against-peers: summary -->\n\n| peer, and") == 1
    assert standing.filled(filled, {"peers": comparison()}) == filled
    with pytest.raises(KeyError, match="peers"):
        standing.filled(page, {})


def test_the_pages_show_the_file_of_results(benchmarks: Any, standing: ModuleType) -> None:
    command = benchmarks("against_peers")
    results = json.loads(command.RESULTS.read_text())
    assert list(results) == list(command.COMPARISONS)
    shown = "".join(page.read_text() for page in command.PAGES)
    assert {name for _, name, _ in standing.PLACE.findall(shown)} == {*results, standing.SUMMARY}
    for page in command.PAGES:
        assert standing.filled(page.read_text(), results) == page.read_text(), "run against_peers.py --update-docs"


def test_methods_have_contenders_environments_and_sets(benchmarks: Any) -> None:
    contenders, environments = benchmarks("contenders").CONTENDERS, benchmarks("peer_environments").REQUIREMENTS
    for comparison in benchmarks("comparisons").COMPARISONS.values():
        assert comparison.methods[0].side == "ours"
        assert set(comparison.quick_sets) <= set(comparison.sets)
        for method in comparison.methods:
            assert method.contender in contenders
            assert method.environment is None or method.environment in environments
            assert method.side in ("ours", "peer", "plain")


def test_recall_counts_what_is_as_near_as_the_tenth(benchmarks: Any) -> None:
    comparisons = benchmarks("comparisons")
    distance = np.array([[*range(1, 10), 10.0, 10.0, 11.0]])
    for last, expected in ((9, 1.0), (10, 1.0), (11, 0.9)):
        found = {"distance": distance, "nearest": np.array([[*range(9), last]])}
        assert comparisons.recall(None, found) == pytest.approx(expected)


def test_the_same_rows_for_a_seed_and_classes_in_proportion(benchmarks: Any) -> None:
    comparisons = benchmarks("comparisons")
    own, again, other = (comparisons.split("iris", seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(own.X, again.X)
    assert not np.array_equal(own.X, other.X)
    assert np.bincount(own.y_test).tolist() == [15, 15, 15]
    np.testing.assert_allclose(own.X.mean(axis=0), 0, atol=1e-12)
    plain, noisy = (comparisons.all_rows(name, 0) for name in ("iris", "iris + noise"))
    np.testing.assert_array_equal(noisy.X[:, :4], plain.X)
    assert noisy.X.shape == (150, 104)


def test_an_environment_is_made_once_and_again_for_other_versions(
    benchmarks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environments = benchmarks("peer_environments")
    commands: list[list[str]] = []

    def run(command: list[str]) -> subprocess.CompletedProcess[str]:
        commands.append(list(command))
        if "venv" in command:
            (tmp_path / "ydf" / "bin").mkdir(parents=True)
            for name in ("pyvenv.cfg", "bin/python"):
                (tmp_path / "ydf" / name).touch()
        return subprocess.CompletedProcess(command, 0, "", "")

    for _ in range(2):
        assert environments.environment_of("ydf", tmp_path, run).python == str(tmp_path / "ydf" / "bin" / "python")
    assert [command[2] for command in commands] == ["venv", "pip"]
    monkeypatch.setitem(environments.REQUIREMENTS, "ydf", ("ydf==0.0",))
    environments.environment_of("ydf", tmp_path, run)
    assert commands[3][-1] == "ydf==0.0"
    (tmp_path / "ydf" / "bin" / "python").unlink()  # as when the Python that it was made of is gone
    environments.environment_of("ydf", tmp_path, run)
    assert len(commands) == 6


def test_another_python_finds_its_own_packages_alone(benchmarks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "here")
    inherited = benchmarks("peers").inherited
    assert inherited(sys.executable)["PYTHONPATH"] == "here"
    assert inherited("other/bin/python") == {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}


def test_what_cannot_be_installed_is_reported_and_tried_again(benchmarks: Any, tmp_path: Path) -> None:
    environments = benchmarks("peer_environments")

    def run(command: list[str]) -> subprocess.CompletedProcess[str]:
        if "venv" in command:
            (tmp_path / "ydf").mkdir()
            (tmp_path / "ydf" / "pyvenv.cfg").touch()
            return subprocess.CompletedProcess(command, 0, "", "")
        said = "WARNING: a\nERROR: No matching distribution found for ydf\nnotice: b\n"
        return subprocess.CompletedProcess(command, 1, "", said)

    for _ in range(2):
        own = environments.environment_of("ydf", tmp_path, run)
        assert own.python is None
        assert own.failed == "ERROR: No matching distribution found for ydf"
        assert own.versions() == {}


def test_a_folder_that_is_no_environment_is_left_alone(benchmarks: Any, tmp_path: Path) -> None:
    (tmp_path / "ydf").mkdir()
    (tmp_path / "ydf" / "mine").touch()
    with pytest.raises(SystemExit, match="ydf"):
        benchmarks("peer_environments").environment_of("ydf", tmp_path, lambda command: pytest.fail("ran"))
    assert (tmp_path / "ydf" / "mine").exists()


def test_what_a_run_would_be_is_checked_before_anything_is_made(
    benchmarks: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    main = benchmarks("against_peers").main
    for arguments, named in (
        (["--quick", "--update-docs"], "--quick"),
        (["--seeds", "0"], "--seeds"),
        (["--only", "none"], "'none'"),
    ):
        with pytest.raises(SystemExit):
            main(arguments)
        assert named in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_contenders_run_in_turn_and_one_that_fails_is_named(benchmarks: Any) -> None:
    command, comparisons, own = (benchmarks(name) for name in ("against_peers", "comparisons", "peer_environments"))
    methods = (
        comparisons.peer("forest", "scikit_learn", None, kind="RandomForestClassifier", n_estimators=5),
        comparisons.peer("no such tree", "scikit_learn", None, kind="RandomForestClassifier", n_estimators=-1),
        comparisons.peer("absent", "ydf", "ydf", learner="RandomForestLearner"),
    )
    wanted = comparisons.Comparison(
        "t", "t", methods, ("iris",), ("iris",), comparisons.split, (comparisons.ACCURACY,), ("labels",)
    )
    environments = {command.OURS: own.own_environment(), "ydf": own.PeerEnvironment(None, "no wheel")}
    found = command.measured(wanted, environments, command.Effort(2, 1, quick=True))
    assert found["environments"]["ydf"] == {"failed": "no wheel"}
    assert found["environments"][command.OURS]["versions"]["numpy"] == np.__version__
    forest, broken, absent = found["sets"]["iris"]["methods"].values()
    assert len(forest["quality"]["accuracy"]) == len(forest["fit_seconds"]) == 2
    assert min(forest["quality"]["accuracy"]) > 0.8
    assert min(forest["fit_seconds"]) > 0
    assert min(forest["peak_bytes"]) > 2**20
    assert "n_estimators" in broken["failed"]
    assert "no wheel" in absent["failed"]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_a_process_that_ends_is_reported_and_asked_no_more(benchmarks: Any, tmp_path: Path) -> None:
    command, comparisons, own = (benchmarks(name) for name in ("against_peers", "comparisons", "peer_environments"))
    dies = tmp_path / "dies"
    dies.write_text("#!/bin/sh\nread line\nexit 1\n")
    dies.chmod(0o755)
    method = comparisons.peer("dies", "ydf", "ydf")
    wanted = comparisons.Comparison("t", "t", (method,), (), (), comparisons.split, (), ("labels",))
    environments = {"ydf": own.PeerEnvironment(str(dies))}
    with command.Ring(wanted, environments, command.Effort(1, 1, quick=True)) as ring:
        for _ in range(2):
            assert "ended" in ring.run(method, comparisons.split("iris", 0), 0)["failed"]
