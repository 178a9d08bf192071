"""The examples: each runs as its users run it, does what it is to show, and draws its picture."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[1] / "examples"
NEEDS = {"dna_edit_distance": "rapidfuzz", "series_dtw": "dtaidistance", "crowd_budget": "matplotlib"}
BUDGET = re.compile(r"^ +([\d,]+|none) +\d+ +([\d,]+) +([\d.]+)% +([\d,]+) +([\d,]+) +([\d.]+)%$", re.MULTILINE)
NEAREST = re.compile(r"^ +1-NN +0 +([\d,]+) +([\d.]+)%$", re.MULTILINE)
FORESTS = re.compile(r"^  forest, (.+?) +([\d.]+) ± [\d.]+$", re.MULTILINE)
RANKED = re.compile(r"^(RFD|TreeRank|Euclidean) +([\d.]+) +([\d.]+) +([\d.]+)$", re.MULTILINE)
UNWOUND = re.compile(r"^(?:URerF|Euclidean) +([\d.]+) +(-?[\d.]+)$", re.MULTILINE)


@pytest.mark.parametrize("name", NEEDS)
def test_example_runs_within_its_budgets_and_draws(name, tmp_path):
    if find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is missing: pip install 'distforest[examples]'")
    picture = tmp_path / "budget.png"
    printed = ran(name, picture)
    forests = [[number(cell) for cell in row] for row in BUDGET.findall(printed)]
    assert len(forests) == 6
    assert all(fit <= budget for budget, fit, *_ in forests)
    assert [row[1] for row in forests] == sorted(row[1] for row in forests)
    assert forests[-1][3] == 0  # without a budget no node is closed
    ((predicted, accuracy),) = NEAREST.findall(printed)
    assert forests[-1][4] <= number(predicted)
    assert forests[-1][-1] > 50
    assert number(accuracy) > 40
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_helix_is_unwound_and_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "helix.png"
    printed = ran("helix", picture)
    (precision, order), (rival, _) = ([float(cell) for cell in row] for row in UNWOUND.findall(printed))
    assert precision > 0.7
    assert rival < 0.3
    assert order > 0.95
    assert "most weight: 0, 1, 2;" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_pairs_of_wines_are_ranked_and_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "wine.png"
    printed = ran("wine_pairs", picture)
    rows = {name: [float(cell) for cell in cells] for name, *cells in RANKED.findall(printed)}
    assert list(rows) == ["RFD", "TreeRank", "Euclidean"]
    for name in ("RFD", "TreeRank"):
        assert all(own > rival for own, rival in zip(rows[name][:2], rows["Euclidean"], strict=False))
        assert rows[name][2] > 0.95
    assert "The first tree parts 2,000 pairs by " in printed
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_several_distances_are_ahead_of_one(tmp_path):
    pytest.importorskip("dtaidistance")
    pytest.importorskip("matplotlib")
    picture = tmp_path / "shares.png"
    printed = ran("series_measures", picture)
    found = {title: float(accuracy) for title, accuracy in FORESTS.findall(printed)}
    assert len(found) == 8
    for cut in ("zero", "exemplars"):
        assert found[f"10 distances, cut={cut}"] > max(found["DTW 5%, cut=best"], found[f"DTW 5%, cut={cut}"])
    ((asked, all_of_them),) = re.findall(r"asked for ([\d,]+) of ([\d,]+) distances", printed)
    assert 0 < number(asked) <= number(all_of_them)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        *NEEDS,
        "helix",
        "budgets",
        "series_measures",
        "wine_pairs",
    }


def ran(name, picture):
    """What an example prints, run as its users run it."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), "--quick", "--picture", str(picture)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def number(text):
    return float("inf") if text == "none" else float(text.replace(",", ""))
