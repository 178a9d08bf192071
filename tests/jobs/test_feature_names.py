"""Names of columns on their way: from a file to Zarr, into the forest of a job, and to the queries of a scoring job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from distforest import RFD, SMERF, load
from distforest.command_line import cli
from distforest.errors import InputError
from distforest.forest.sealed.artifact import open_forest
from distforest.jobs.cluster import Threads
from distforest.jobs.question import Question
from distforest.jobs.score import score
from distforest.jobs.spec import Spec
from distforest.jobs.train import Fitted
from distforest.sources.arrays import open_array, write_array
from distforest.sources.files.ingest import ingest
from tests.jobs.iris_jobs import run
from tests.messages import naming

ROWS = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
LABELS = ["xy"[k % 2] for k in range(30)]
NAMES, DTYPES = ["width", "height", "depth"], ["float", "double", "float"]
INPUTS: dict[str, dict[str, Any]] = {
    "smerf": {"features": "X", "distances": {"kind": "labels", "values": "y"}},
    "urerf": {"features": "X"},
    "rfd": {"features": "X", "labels": "y"},
    "treerank": {"features": "X", "labels": "y"},
    "simforest": {"similarity": {"kind": "rbf", "features": "X"}, "labels": "y"},
}
PARAMS: dict[str, dict[str, Any]] = {"urerf": {"min_samples_split": 4}, "treerank": {"n_pairs": 100, "max_depth": 2}}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the same rows as a Parquet file, as a csv file with its columns turned, and both as Zarr."""
    monkeypatch.setenv("DISTFOREST_SCRATCH", str(tmp_path / "scratch"))
    columns = {name: ROWS[:, k] for k, name in enumerate(NAMES)}
    table = pa.table({**columns, "kind": LABELS}).set_column(1, "height", pa.array(ROWS[:, 1].astype(float)))
    pq.write_table(table, tmp_path / "rows.parquet")
    lines = ["depth,height,width", *(",".join(map(str, row[::-1].tolist())) for row in ROWS)]
    (tmp_path / "turned.csv").write_text("\n".join(lines))
    ingest(str(tmp_path / "rows.parquet"), str(tmp_path / "rows.zarr"), label="kind")
    ingest(str(tmp_path / "turned.csv"), str(tmp_path / "turned.zarr"))
    write_array(str(tmp_path / "plain.zarr"), "X", ROWS.shape, ROWS.dtype, [ROWS])
    return tmp_path


def addressed(given: Any, group: Path) -> Any:
    if isinstance(given, dict):
        return {key: value if key == "kind" else addressed(value, group) for key, value in given.items()}
    return f"{group}/{given}"


def grown(home: Path, method: str = "smerf", rows: str = "rows", output: str = "f") -> Fitted:
    inputs = addressed(INPUTS[method], home / "rows.zarr")
    text = json.dumps(inputs).replace("rows.zarr/X", f"{rows}.zarr/X")
    table = {"format": 1, "method": method, "seed": 3, "output": f"{home}/{output}.zarr", "input": json.loads(text)}
    spec = Spec.from_dict({**table, "params": {"n_estimators": 4, **PARAMS.get(method, {})}})
    return run(spec)


def test_files_give_their_names_and_dtypes_to_arrays(home: Path) -> None:
    attributes = open_array(str(home / "rows.zarr/X")).attrs
    assert attributes["feature_names"] == NAMES
    assert attributes["feature_dtypes"] == DTYPES
    attributes = open_array(str(home / "turned.zarr/X")).attrs
    assert attributes["feature_names"] == NAMES[::-1]
    assert "feature_dtypes" not in attributes  # a csv file says nothing of them


def test_arrays_of_numpy_give_their_dtype(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=ROWS.astype(">i2"), feature_names=np.array(NAMES))
    ingest(str(tmp_path / "a.npz"), str(tmp_path / "a.zarr"))
    assert open_array(str(tmp_path / "a.zarr/X")).attrs["feature_dtypes"] == [">i2"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("method", INPUTS)
def test_a_forest_of_a_job_knows_the_names_of_its_features(method: str, home: Path) -> None:
    done, plain = grown(home, method), grown(home, method, "plain", "p")
    found = open_forest(done.address).schema
    assert found is not None
    assert (list(found.names), list(found.dtypes)) == (NAMES, DTYPES)
    assert open_forest(plain.address).schema is None
    assert done.digest == plain.digest
    loaded = load(done.address)
    known = loaded.distance(str(home / "rows.zarr/X"))
    np.testing.assert_array_equal(loaded.distance(str(home / "turned.zarr/X")), known)


@pytest.mark.slow
@pytest.mark.parametrize("method", INPUTS)
def test_queries_are_put_in_order_by_their_names(method: str, home: Path) -> None:
    forest, output = grown(home, method).address, f"{home}/answers.zarr"
    rows, turned, plain, more, less = (f"{home}/{name}.zarr/X" for name in ("rows", "turned", "plain", "more", "less"))
    for name, columns in {"more": [*NAMES, "age"], "less": NAMES[1:]}.items():
        frame = pa.table({own: ROWS[:, k % 3] for k, own in enumerate(columns)})
        pq.write_table(frame, home / f"{name}.parquet")
        ingest(f"{home}/{name}.parquet", f"{home}/{name}.zarr")

    def answered(queries: str, reference: str | None = None) -> np.ndarray:
        score(Question(forest, queries, "distance", reference=reference), output, Threads(), overwrite=True)
        return np.asarray(open_array(f"{output}/distance")[:])

    known = answered(rows, rows)
    for queries, reference in ((rows, turned), (turned, rows), (plain, turned), (more, rows)):
        np.testing.assert_array_equal(answered(queries, reference), known)
    for asked in (Question(forest, less, "distance"), Question(forest, rows, "distance", reference=less)):
        with pytest.raises(InputError, match=naming("less.zarr/X", "'width'")):
            score(asked, f"{home}/none.zarr", Threads())
        assert not Path(f"{home}/none.zarr").exists()
    score(Question(grown(home, method, "plain", "p").address, turned, "distance"), output, Threads(), overwrite=True)


@pytest.mark.slow
def test_a_job_with_other_names_is_another_job(home: Path) -> None:
    first = grown(home)
    assert grown(home).n_grown == 0
    attributes = open_array(str(home / "rows.zarr/X")).attrs.asdict()
    renamed = {**attributes, "feature_names": ["a", "b", "c"]}
    path = home / "rows.zarr/X/zarr.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "attributes": renamed}))
    with pytest.raises(InputError, match=naming(f"{home}/f.zarr", "another job")):
        grown(home)
    assert grown(home, output="g").digest == first.digest


def test_names_that_are_no_names_are_refused_before_anything_is_grown(home: Path) -> None:
    write_array(str(home / "bad.zarr"), "X", ROWS.shape, ROWS.dtype, [ROWS], {"feature_names": "abc"})
    with pytest.raises(InputError, match=naming("bad.zarr/X", "feature_names", "3 columns", " str")):
        grown(home, rows="bad")


def inspected(forest: str) -> tuple[dict[str, str], dict[str, Any]]:
    runs = [CliRunner().invoke(cli.main, ["inspect", forest, *more]) for more in ((), ("--json",))]
    assert {run.exit_code for run in runs} == {0}
    return {line[:10].strip(): line[12:] for line in runs[0].stdout.splitlines()}, json.loads(runs[1].stdout)


@pytest.mark.slow
def test_inspect_tells_the_names(home: Path) -> None:
    lines, found = inspected(grown(home).address)
    assert lines["names"] == "width (float), height (double), depth (float)"
    assert (found["feature_names"], found["feature_dtypes"]) == (NAMES, DTYPES)
    lines, found = inspected(grown(home, rows="turned", output="t").address)
    assert lines["names"] == "depth, height, width"
    assert found["feature_dtypes"] is None
    lines, found = inspected(grown(home, rows="plain", output="p").address)
    assert lines["names"] == "none"
    assert (found["feature_names"], found["feature_dtypes"]) == (None, None)


def test_inspect_tells_the_first_of_many_names(tmp_path: Path) -> None:
    values = np.arange(120.0).reshape(15, 8)
    forest = SMERF(2, random_state=0).fit(pa.table({f"f{k}": values[:, k] for k in range(8)}), values[:, 0] > 50)
    forest.save(tmp_path / "f.zarr")
    assert inspected(str(tmp_path / "f.zarr"))[0]["names"] == (
        "f0 (double), f1 (double), f2 (double), f3 (double), f4 (double), and 3 more"
    )


def test_pictures_and_shares_use_the_forest_s_own_names(home: Path) -> None:
    _, found = inspected(grown(home, "urerf").address)
    assert {own["name"] for own in found["features"]["most"]} <= set(NAMES)


def test_a_forest_of_a_data_frame_asks_a_job_for_its_names(home: Path, tmp_path: Path) -> None:
    forest = RFD(2, random_state=0).fit(pa.table({name: ROWS[:, k] for k, name in enumerate(NAMES)}), LABELS)
    forest.save(tmp_path / "r.zarr")
    for name in ("rows", "turned"):
        score(
            Question(f"{tmp_path}/r.zarr", f"{home}/{name}.zarr/X", "neighbors"),
            f"{tmp_path}/{name}.out.zarr",
            Threads(),
        )
    answers = [open_array(f"{tmp_path}/{name}.out.zarr/indices")[:] for name in ("rows", "turned")]
    np.testing.assert_array_equal(*answers)
