"""Scoring from files to files: the same answers as from arrays, and awkward files that are read right or refused."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distforest import RFD, SMERF, SimForestClassifier, load, read_ids
from distforest.errors import DistforestWarning, InputError
from distforest.jobs.cluster import Threads
from distforest.jobs.question import Question
from distforest.jobs.score import Scored, score
from distforest.jobs.score_table import ScoredTable, flat_columns, score_table
from distforest.sources.arrays import open_array, write_array
from distforest.sources.files.ids import names_of_rows
from distforest.sources.files.ingest import ingest
from distforest.sources.files.queries import QueryOptions
from distforest.sources.files.text_options import TextOptions
from tests.messages import naming
from tests.service.command_line import run

RNG = np.random.default_rng(0)
COLOURS = np.array(["red", "green", "blue"])
FEATURES = ["size", "colour", "seen", "ok"]


def frame(n: int) -> pd.DataFrame:
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 300, n), "D")
    columns = {"size": RNG.normal(size=n).round(3), "colour": COLOURS[RNG.integers(0, 3, n)], "seen": days}
    return pd.DataFrame({"name": [f"c{k:03d}" for k in range(n)], **columns, "ok": RNG.random(n) < 0.5})


OLD, NEW = frame(200), frame(40)[["ok", "seen", "colour", "name", "size"]]
OLD.loc[7, "size"] = NEW.loc[5, "size"] = np.nan
OLD.loc[8, "seen"] = pd.NaT
LABELS = np.where((OLD["size"] > 0) ^ (OLD["colour"] == "red"), "fern", "moss")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a forest of a table of all kinds of columns, new rows in every format, and as Zarr."""
    home = tmp_path_factory.mktemp("made")
    OLD.drop(columns="name").to_csv(home / "old.csv", index=False)
    ingest(str(home / "old.csv"), str(home / "old.zarr"))
    SMERF(6, random_state=0).fit(str(home / "old.zarr/X"), LABELS).save(home / "f.zarr")
    NEW.to_csv(home / "new.csv", index=False)
    NEW.to_csv(home / "new.csv.gz", index=False)
    NEW.to_csv(home / "new.tsv", index=False, sep="\t")
    NEW.to_parquet(home / "new.parquet")
    NEW.to_feather(home / "new.feather")
    (home / "folder").mkdir()
    for number, part in enumerate((NEW[:15], NEW[15:])):
        part.to_parquet(home / f"folder/{number}.parquet", index=False)
    ingest(str(home / "new.csv"), str(home / "new.zarr"), id="name")
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DISTFOREST_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.chdir(tmp_path)
    for path in made.iterdir():
        (tmp_path / path.name).symlink_to(path)
    return tmp_path


def answered(
    queries: str, output: str, answer: str = "predict", options: QueryOptions | None = None, **more: Any
) -> ScoredTable | Scored:
    question = Question("f.zarr", queries, answer, **more)
    file = None if ".zarr" in queries else options or QueryOptions(id="name")
    return score_table(question, output, Threads(2), file, overwrite=True)


@pytest.mark.slow
@pytest.mark.parametrize("source", ["new.csv", "new.csv.gz", "new.tsv", "new.parquet", "new.feather", "folder"])
def test_a_file_is_answered_as_what_it_is_ingested_to(source: str, home: Path) -> None:
    for answer, array in (("predict", "prediction"), ("proba", "proba"), ("apply", "nodes"), ("distance", "distance")):
        score(Question("f.zarr", "new.zarr/X", answer), "known.zarr", Threads(2), overwrite=True)
        answered(source, "found.zarr", answer)
        for name in (array, "ids"):
            known, found = (open_array(f"{group}.zarr/{name}") for group in ("known", "found"))
            np.testing.assert_array_equal(found[:], known[:])
    assert names_of_rows(found[:], dict(found.attrs)) == list(NEW["name"])
    assert sorted(path.name for path in home.iterdir() if path.name.endswith(".job")) == []


def read(path: str) -> pd.DataFrame:
    if path.endswith(".parquet"):
        return pd.read_parquet(path)
    return pd.read_feather(path) if path.endswith(".arrow") else pd.read_csv(path, sep=None, engine="python")


@pytest.mark.slow
@pytest.mark.parametrize("output", ["out.csv", "out.csv.gz", "out.tsv", "out.parquet", "out.arrow"])
def test_answers_become_a_table(output: str, home: Path) -> None:
    del home
    done = answered("new.csv", output, options=QueryOptions(id="name", keep=("ok,size",)))
    score(Question("f.zarr", "new.zarr/X", "predict"), "known.zarr", Threads(2), overwrite=True)
    found = read(output)
    assert isinstance(done, ScoredTable)
    assert (done.n_rows, list(done.columns)) == (40, list(found))
    assert list(found) == ["name", "ok", "size", "prediction"]
    assert list(found["name"]) == list(NEW["name"])
    codes = open_array("known.zarr/prediction")[:]
    assert list(found["prediction"]) == [["fern", "moss"][code] for code in codes]
    np.testing.assert_array_equal(pd.to_numeric(found["size"]), NEW["size"])


@pytest.mark.slow
def test_each_answer_that_fits_has_its_columns(home: Path) -> None:
    del home
    assert list(read(_table("new.csv", "proba"))) == ["row", "proba_fern", "proba_moss"]
    found = read(_table("new.parquet", "neighbors", n_neighbors=2))
    assert list(found) == ["row", "neighbor_0", "neighbor_1", "distance_0", "distance_1"]
    assert list(found["row"]) == list(range(40))
    score(Question("f.zarr", "new.zarr/X", "neighbors", n_neighbors=2), "known.zarr", Threads(2), overwrite=True)
    np.testing.assert_array_equal(found[["neighbor_0", "neighbor_1"]], open_array("known.zarr/indices")[:])
    assert len(list(read(_table("new.zarr/X", "apply")))) == 7
    assert next(iter(read("out.parquet"))) == "name"  # which the Zarr group knows
    for answer in ("distance", "proximity"):
        with pytest.raises(InputError, match=naming("out.parquet: ", f"'{answer}'", "out.zarr")):
            _table("new.csv", answer)


def _table(queries: str, answer: str, **more: Any) -> str:
    answered(queries, "out.parquet", answer, QueryOptions(drop=("name",)), **more)
    return "out.parquet"


@pytest.mark.slow
def test_pairs_of_a_table_are_row_numbers_or_names(home: Path) -> None:
    numbers = np.array([[0, 1], [3, 3], [39, 2]])
    write_array("pairs.zarr", "pairs", numbers.shape, numbers.dtype, [numbers])
    score(Question("f.zarr", "new.zarr/X", "pairs", pairs="pairs.zarr/pairs"), "known.zarr", Threads(2))
    known = open_array("known.zarr/distance")[:]
    pd.DataFrame(numbers, columns=["a", "b"]).to_csv(home / "numbers.csv", index=False)
    named = pd.DataFrame(NEW["name"].to_numpy()[numbers], columns=["a", "b"])
    named.to_parquet(home / "names.parquet", index=False)
    found = read(_table("new.csv", "pairs", pairs="numbers.csv"))
    assert list(found) == ["left_row", "right_row", "distance"]
    np.testing.assert_array_equal(found[["left_row", "right_row"]], numbers)
    np.testing.assert_array_equal(found["distance"], known)
    answered("new.csv", "out.parquet", "pairs", pairs="names.parquet")
    found = read("out.parquet")
    assert found[["left_name", "right_name"]].to_numpy().tolist() == named.to_numpy().tolist()
    np.testing.assert_array_equal(found["distance"], known)
    for text, named in (
        ("0,1\n2,3\n", ("first row", "0, 1")),
        ("a,b\n0,40\n", ("row 0", "0 to 39", "'40'", "new.csv")),
        ("a\n0\n", ("0 to 39", " 1")),
        ("a,b\n0,b1\n", ("row 0", "'b1'", "new.csv", "`id`")),
    ):
        (home / "bad.csv").write_text(text)
        with pytest.raises(InputError, match=naming("bad.csv: ", *named)):
            _table("new.csv", "pairs", pairs="bad.csv")


@pytest.mark.slow
def test_pairs_may_have_further_columns(home: Path) -> None:
    """A table of measured pairs, i,j,distance, asks for the same pairs; an index that pandas wrote is no side."""
    numbers = np.array([[0, 1], [3, 3], [39, 2]])
    pd.DataFrame(numbers, columns=["a", "b"]).assign(c=1, d=2).to_csv(home / "measured.csv")
    found = read(_table("new.csv", "pairs", pairs="measured.csv"))
    np.testing.assert_array_equal(found[["left_row", "right_row"]], numbers)


HEAD = "size,colour,seen,ok"
GOOD = "1.5,red,2024-02-01,true"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", ("Empty",)),
        (f"{HEAD}\n", ("rows", "none")),
        ("size,colour,ok\n1.5,red,true\n", ("'seen'",)),
        (f"size,Colour,seen,ok\n{GOOD}\n", ("'colour'", "add")),
        (f"{HEAD},size\n{GOOD},2\n", ("'size'", "twice")),
        (f"{HEAD}\n{GOOD}\n1x,red,2024-02-01,true\n", ("row 1", "'size'", "'1x'")),
        (f"{HEAD}\n{GOOD}\ninf,red,2024-02-01,true\n", ("row 1", "'size'", " inf")),
        (f"{HEAD}\n1,red,2024-02-31,true\n", ("row 0", "'seen'", "'2024-02-31'", "`date_format=")),
        (f"{HEAD}\n1,red,2024-02-01,perhaps\n", ("row 0", "'ok'", "'perhaps'")),
        (f"{GOOD}\n{GOOD}\n", ("'size', 'colour', 'seen', 'ok'",)),
    ],
)
def test_awkward_files_are_refused_and_leave_nothing(text: str, named: tuple[str, ...], home: Path) -> None:
    (home / "bad.csv").write_text(text)
    with pytest.raises(InputError, match=naming("bad.csv: ", *named)):
        answered("bad.csv", "bad.out.csv", options=QueryOptions())
    assert not [path.name for path in home.iterdir() if path.name.startswith("bad.out")]


def test_a_table_without_rows_is_refused(home: Path) -> None:
    NEW[:0].to_parquet(home / "none.parquet")
    with pytest.raises(InputError, match=naming("none.parquet: ", "rows")):
        answered("none.parquet", "out.csv")


def test_what_is_odd_is_reported_and_read_right(home: Path) -> None:
    (home / "odd.csv").write_text(f"note,{HEAD}\nhello,NA,mauve,2024-02-01,TRUE\nyou,1,red,,false\n")
    with pytest.warns(DistforestWarning, match=naming("odd.csv: ", "1 row", "'colour'")):
        answered("odd.csv", "odd.out.csv", "apply", QueryOptions())
    (home / "plain.csv").write_text(f"{HEAD}\n,,2024-02-01,1\n1,red,,0\n")
    answered("plain.csv", "plain.out.csv", "apply", QueryOptions())
    pd.testing.assert_frame_equal(read("odd.out.csv"), read("plain.out.csv"))


def test_words_of_other_countries(home: Path) -> None:
    text = "ok;seen;size;colour\ntrue;01.02.2024;1234,5;red\nfalse;leer;-0,5;blue\n"
    (home / "german.csv").write_text(text, encoding="cp1252")
    options = TextOptions(separator=";", decimal=",", date_format="seen=%d.%m.%Y", missing=("leer",), encoding="cp1252")
    answered("german.csv", "german.out.csv", "apply", QueryOptions(text=options))
    (home / "plain.csv").write_text(f"{HEAD}\n1234.5,red,2024-02-01,true\n-0.5,blue,,false\n")
    answered("plain.csv", "plain.out.csv", "apply", QueryOptions())
    pd.testing.assert_frame_equal(read("german.out.csv"), read("plain.out.csv"))
    for form in (None, "sen=%d.%m.%Y"):
        named = ("'sen'", "'seen'") if form else ("'seen'", "'01.02.2024'", "`date_format='seen=%d/%m/%Y'`")
        with pytest.raises(InputError, match=naming("german.csv: ", *named)):
            answered("german.csv", "none.csv", "apply", QueryOptions(text=replace(options, date_format=form)))


def test_a_forest_without_names_reads_columns_in_their_order(home: Path) -> None:
    values = RNG.normal(size=(60, 3))
    SMERF(4, random_state=0).fit(values, values[:, 0] > 0).save(home / "plain.zarr")
    table = pd.DataFrame(values[:9], columns=["a", "b", "c"]).assign(name=range(9))
    table.to_csv(home / "t.csv", index=False)
    question = Question("plain.zarr", "t.csv", "apply")
    with pytest.raises(InputError, match=naming("t.csv: ", "3 features", "4 ('a', 'b', 'c', 'name')", "`drop`")):
        score_table(question, "o.csv", Threads(), QueryOptions())
    score_table(question, "o.csv", Threads(), QueryOptions(id="name"))
    lines = ["1 " + " ".join(f"{k + 1}:{value!r}" for k, value in enumerate(row[:2].tolist())) for row in values[:9]]
    (home / "t.libsvm").write_text("\n".join(lines))
    score_table(Question("plain.zarr", "t.libsvm", "apply"), "l.csv", Threads(), QueryOptions())
    table.assign(c=0.0)[["a", "b", "c"]].to_csv(home / "zero.csv", index=False, header=False)
    score_table(
        Question("plain.zarr", "zero.csv", "apply"), "z.csv", Threads(), QueryOptions(text=TextOptions(header=False))
    )
    pd.testing.assert_frame_equal(read("l.csv"), read("z.csv"))


def test_a_forest_of_a_built_in_similarity_finds_the_neighbours_of_rows_with_holes(home: Path) -> None:
    numbers = pd.DataFrame(RNG.normal(size=(30, 2)), columns=["a", "b"])
    SimForestClassifier("rbf", n_estimators=3, random_state=0).fit(numbers, numbers["a"] > 0).save(home / "rbf.zarr")
    numbers.loc[4, "b"] = np.nan
    numbers.to_csv(home / "holes.csv", index=False)
    question = Question("rbf.zarr", "holes.csv", "neighbors", n_neighbors=1)
    score_table(question, "o.csv", Threads(), QueryOptions())
    _, near = load("rbf.zarr").kneighbors(numbers, n_neighbors=1)
    assert read("o.csv")["neighbor_0"].tolist() == near[:, 0].tolist()


@pytest.mark.slow
def test_the_command_scores_files(home: Path) -> None:
    of_names = "score", "f.zarr", "new.csv", "out.parquet", "--answer", "predict", "--id", "name"
    code, out, err = run(*of_names, "--keep", "ok", "--json")
    assert (code, json.loads(out)["columns"]) == (0, ["name", "ok", "prediction"]), err
    assert pq.read_table("out.parquet").schema.names == ["name", "ok", "prediction"]
    code, out, _ = run(*of_names, "--overwrite")
    assert (code, out.splitlines()[2]) == (0, "table   40 rows, name, prediction")
    assert re.fullmatch(r"error: out\.parquet: .*--overwrite\n", run(*of_names)[2])
    (home / "titled.csv").write_text(f"Plants\n\n{Path('new.csv').read_text()}")
    asked = "score", "f.zarr", "titled.csv", "titled.parquet", "--answer", "predict", "--id", "name"
    assert "--skip-rows" in run(*asked)[2]
    assert run(*asked, "--skip-rows", "2")[0] == 0
    assert pq.read_table("titled.parquet") == pq.read_table("out.parquet")
    assert re.search(naming("--id ", "new.zarr/X"), run("score", "f.zarr", "new.zarr/X", "o.csv", "--id", "name")[2])
    assert "queries is 'new.csv'" in run("score", "f.zarr", "new.csv", home / "new.csv", "--answer", "predict")[2]
    assert "--keep " in run("score", "f.zarr", "new.csv", "o.zarr", "--keep", "ok")[2]
    with gzip.open("x.csv.gz", "wt") as file:
        file.write(NEW.to_csv(index=False))
    assert run("score", "f.zarr", "x.csv.gz", "x.csv", "--answer", "apply", "--drop", "name")[0] == 0


def test_a_kept_column_may_not_be_called_like_an_answer(home: Path) -> None:
    pq.write_table(pa.Table.from_pandas(NEW.assign(prediction=1)), home / "p.parquet")
    with pytest.raises(InputError, match=naming("'prediction'", "twice")):
        answered("p.parquet", "out.csv", options=QueryOptions(id="name", keep=("prediction",)))
    assert not Path("out.csv").exists()


@pytest.mark.slow
def test_booleans_of_a_data_frame_are_read_in_a_file(home: Path) -> None:
    table = OLD[["size", "ok"]].fillna(0)
    SMERF(3, random_state=0).fit(table, LABELS).save(home / "bool.zarr")
    for name, own in {"words": table, "numbers": table.astype({"ok": int})}.items():
        own.to_csv(home / f"{name}.csv", index=False)
        score_table(Question("bool.zarr", f"{name}.csv", "apply"), f"{name}.out.csv", Threads(), QueryOptions())
    pd.testing.assert_frame_equal(read("words.out.csv"), read("numbers.out.csv"))


def test_what_a_killed_scoring_has_left_is_no_obstacle(home: Path) -> None:
    left = home / "left.csv.job/working/answers.zarr.job"
    left.mkdir(parents=True)
    (left / "owner.json").write_text("{}")
    answered("new.csv", "left.csv")
    assert sorted(path.name for path in home.glob("left*")) == ["left.csv"]


def test_what_no_format_holds_is_refused_and_leaves_nothing(home: Path) -> None:
    table = pa.Table.from_pandas(NEW).append_column("list", pa.array([[1, 2]] * len(NEW)))
    pq.write_table(table, home / "list.parquet")
    with pytest.raises(InputError, match=naming(".csv: ", "list<element: int64>")):
        answered("list.parquet", "l.csv", options=QueryOptions(id="name", keep=("list",)))
    assert not list(home.glob("l.csv*"))
    answered("list.parquet", "l.parquet", options=QueryOptions(id="name", keep=("list",)))
    assert read("l.parquet")["list"][3].tolist() == [1, 2]


def test_answers_in_zarr_are_replaced_only_if_that_is_allowed(home: Path) -> None:
    del home
    answered("new.csv", "z.zarr")
    with pytest.raises(InputError, match=naming("z.zarr: ", "`run.overwrite`")):
        score_table(Question("f.zarr", "new.csv", "predict"), "z.zarr", Threads(), QueryOptions(id="name"))
    answered("new.csv", "z.zarr", "apply")
    with pytest.raises(InputError, match=naming("output", "'f.zarr'")):
        answered("new.csv", "f.zarr")


def test_targets_and_embeddings_have_a_column_each() -> None:
    assert list(flat_columns("prediction", np.zeros((2, 1)), None)) == ["prediction"]
    assert list(flat_columns("prediction", np.zeros((2, 2)), None)) == ["prediction_0", "prediction_1"]


@pytest.mark.slow
def test_neighbours_have_the_names_of_the_training_rows(home: Path) -> None:
    """Whatever the forest reads: categories and holes, similarities of features, points of pairs, clusters."""
    old = OLD.assign(name=[f"old {k}" for k in range(200)], kind=LABELS)
    old.loc[::9, "size"] = np.nan
    old.to_csv(home / "named.csv", index=False)
    new = NEW.drop(columns=["colour", "seen"])
    new.to_csv(home / "numbers.csv", index=False)
    ingest("named.csv", "named.zarr", id="name", label="kind")
    ingest("named.csv", "numbers.zarr", id="name", label="kind", drop=["colour", "seen"])
    similar = SimForestClassifier("rbf", n_estimators=4, random_state=0)
    for number, (forest, group, table) in enumerate(
        (
            (SMERF(4, random_state=0), "named", "new.csv"),
            (similar, "numbers", "numbers.csv"),
            (RFD(4, random_state=0), "numbers", "numbers.csv"),
        )
    ):
        sealed = f"forest-{number}.zarr"
        forest.fit(f"{group}.zarr/X", f"{group}.zarr/y").save(home / sealed)
        options = {"answer": "neighbors", "n_neighbors": 3}
        for address in (f"{group}.zarr", f"{group}.zarr/X"):
            asked = Question(sealed, table, training_ids=address, **options)
            score_table(asked, "named.parquet", Threads(2), QueryOptions(id="name"), overwrite=True)
        score_table(
            Question(sealed, table, **options), "rows.parquet", Threads(2), QueryOptions(id="name"), overwrite=True
        )
        named, rows = read("named.parquet"), read("rows.parquet")
        for column in ("neighbor_0", "neighbor_1", "neighbor_2"):
            assert list(named[column]) == [f"old {row}" for row in rows[column]]
            assert list(named[column]) == list(read_ids(f"{group}.zarr")[rows[column]])
        assert list(named["name"]) == list(NEW["name"])


def test_names_of_other_rows_are_refused(home: Path) -> None:
    """A table that was sorted or written anew would name the wrong neighbours without a word."""
    OLD.sort_values("size").to_csv(home / "sorted.csv", index=False)
    OLD[:150].to_csv(home / "short.csv", index=False)
    for name in ("sorted", "short"):
        ingest(f"{name}.csv", f"{name}.zarr", id="name")
    OLD.sort_values("size").assign(kind=["fern", "moss"] * 100).to_csv(home / "labelled.csv", index=False)
    ingest("labelled.csv", "labelled.zarr", id="name", label="kind")
    before = sorted(path.name for path in home.iterdir())
    for address, named in (
        ("sorted.zarr", ("sorted.zarr/X: ", "row 0", "f.zarr")),
        ("labelled.zarr/y", ("labelled.zarr/X: ", "row 0", "f.zarr")),
        ("short.zarr/X", ("short.zarr/X: ", "200 rows", 150, "f.zarr")),
        ("sorted.csv", ("sorted.csv: ", "`distforest ingest`")),
        ("old.zarr", ("old.zarr/X: ", "`id`")),
    ):
        with pytest.raises(InputError, match=naming(*named)):
            answered("new.csv", "out.csv", "neighbors", training_ids=address)
    with pytest.raises(InputError, match=naming("`training_ids`", "out.csv", "out.zarr")):
        answered("new.csv", "out.zarr", "neighbors", training_ids="sorted.zarr")
    with pytest.raises(InputError, match=naming("`training_ids`", "'neighbors'", "'predict'")):
        answered("new.csv", "out.csv", "predict", training_ids="old.zarr")
    assert sorted(path.name for path in home.iterdir()) == before


def test_the_command_names_neighbours(home: Path) -> None:
    OLD.to_csv(home / "named.csv", index=False)
    ingest("named.csv", "named.zarr", id="name")
    asked = ["score", "f.zarr", "new.csv", "out.csv", "--answer", "neighbors", "--n-neighbors", "1", "--id", "name"]
    code, _, err = run(*asked, "--training-ids", "named.zarr")
    assert code == 0, err
    assert list(read("out.csv")) == ["name", "neighbor_0", "distance_0"]
    assert set(read("out.csv")["neighbor_0"]) <= set(OLD["name"])
    asked[3] = "out.zarr"
    code, _, err = run(*asked, "--training-ids", "named.zarr")
    assert (code, "--training-ids " in err) == (2, True)


def test_whole_numbers_as_names_stay_numbers(home: Path) -> None:
    OLD.assign(name=np.arange(200) + 1000).to_csv(home / "named.csv", index=False)
    ingest("named.csv", "named.zarr", id="name")
    assert read_ids("named.zarr/X").tolist() == list(range(1000, 1200))
    answered("new.csv", "out.parquet", "neighbors", training_ids="named.zarr")
    assert read("out.parquet")["neighbor_0"].between(1000, 1199).all()


def test_no_table_is_written_into_arrays(home: Path) -> None:
    NEW.to_csv(home / "x.csv", index=False)
    ingest("x.csv", "x.zarr", id="name")
    for output in ("x.zarr/p.csv", "x.zarr/X/p.parquet", "f.zarr/p.csv"):
        with pytest.raises(InputError, match=rf"^{output}: .*{home}|^output\b.*'{output}'.*'f\.zarr'"):
            answered("new.csv", output)
    assert not list(home.glob("*.zarr/**/p.*"))
