"""The command line with sparse similarities: a file of SciPy's, ingested, validated, fitted and scored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from distforest import SimForestClassifier
from distforest.sources.arrays import open_array, write_array
from tests.estimators.rows import DISTANCES, TARGETS, observed
from tests.service.command_line import run, run_json

SPEC = """\
format = 1
method = "simforest"
seed = 3
output = "forest.zarr"
[input]
similarity = { kind = "dense", matrix = "S.zarr", measure = "distance" }
labels = "data.zarr/y"
[params]
n_estimators = 6
[run]
workers = 1
"""
LABELS = (TARGETS > 0).astype(np.int64)
APART = np.where(np.random.default_rng(2).random(DISTANCES.shape) < 0.2, np.nan, DISTANCES)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a file of SciPy's, labels and a spec."""
    monkeypatch.chdir(tmp_path)
    scipy.sparse.save_npz("S.npz", observed(APART))
    write_array("data.zarr", "y", LABELS.shape, LABELS.dtype, [LABELS])
    (tmp_path / "spec.toml").write_text(SPEC)
    return tmp_path


@pytest.mark.slow
@pytest.mark.cluster
def test_ingest_validate_fit_and_score(place: Path) -> None:
    code, found = run_json("ingest", "S.npz", "S.zarr")
    n_stored = int(np.count_nonzero(~np.isnan(APART)))
    assert (code, found["arrays"]["data"]["shape"], found["arrays"]["indptr"]["shape"]) == (0, [n_stored], [41])
    code, found = run_json("validate", "spec.toml", "--strict")
    similarity = found["preview"]["inputs"]["input.similarity"]
    assert (code, similarity["shape"], similarity["n_stored"]) == (0, [40, 40], n_stored)
    assert f"S.zarr float64 40 x 40, sparse, {n_stored:,} stored" in run("validate", "spec.toml", "--strict")[1]
    code, found = run_json("fit", "spec.toml")
    own = SimForestClassifier(kind="distance", n_estimators=6, random_state=3).fit(observed(APART), LABELS)
    assert (code, found["digest"]) == (0, own.digest_)
    assert run("score", "forest.zarr", "S.zarr", "answers.zarr", "--answer", "proba", "--threads-here", 2)[0] == 0
    np.testing.assert_array_equal(open_array("answers.zarr/proba")[...], own.predict_proba(observed(APART)))
    assert sorted(path.name for path in place.glob("*.zarr")) == ["S.zarr", "answers.zarr", "data.zarr", "forest.zarr"]


def test_a_damaged_file_or_store_is_exit_2(place: Path) -> None:
    assert run("ingest", "S.npz", "S.zarr")[0] == 0
    (place / "S.zarr" / "indices" / "c" / "0").unlink()
    code, _, err = run("fit", "spec.toml")
    assert (code, "S.zarr/indices: chunk c/0 " in err) == (2, True)
    (place / "S.npz").write_bytes((place / "S.npz").read_bytes()[:-200])
    code, _, err = run("ingest", "S.npz", "other.zarr")
    assert (code, "S.npz: " in err) == (2, True)
    assert not (place / "other.zarr").exists()
