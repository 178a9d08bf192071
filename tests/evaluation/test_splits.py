"""Splits of tables and of groups of arrays: every row is in one part, strata keep their shares, groups stay whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.model_selection import train_test_split

from distforest.errors import DistforestWarning, InputError
from distforest.evaluation.splits import Division, split
from distforest.sources.arrays import open_array, write_array
from distforest.sources.files.ids import names_of_rows
from distforest.sources.files.ingest import ingest
from distforest.sources.files.tables import CsvTable
from distforest.sources.files.text_options import TextOptions
from tests.messages import naming
from tests.service.command_line import run

KINDS = np.array(["fern", "moss", "pine"])[np.arange(60) % 6 // 2 % 3]
FRAME = pd.DataFrame(
    {
        "name": [f"00{k}" for k in range(60)],
        "size": np.arange(60) / 8,
        "kind": KINDS,
        "site": [f"s{k // 5}" for k in range(60)],
    }
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("t.csv", index=False)
    FRAME.to_csv("t.csv.gz", index=False)
    FRAME.to_parquet("t.parquet", index=False)
    ingest("t.csv", "t.zarr", label="kind", id="name", drop=["site"])
    return tmp_path


def read(path: str) -> pd.DataFrame:
    return pd.read_parquet(path) if path.endswith("parquet") else pd.read_csv(path, dtype={"name": str})


@pytest.mark.parametrize(
    ("source", "suffix"),
    [("t.csv", ".csv"), ("t.csv.gz", ".csv"), ("t.csv", ".csv.gz"), ("t.parquet", ".csv"), ("t.parquet", ".parquet")],
)
def test_every_row_is_in_one_part_in_its_order(source: str, suffix: str, home: Path) -> None:
    done = split(source, Division(0.3, random_state=4), f"a{suffix}", f"b{suffix}")
    kept, _ = train_test_split(np.arange(60), test_size=0.3, random_state=4)
    train, test = read(f"a{suffix}"), read(f"b{suffix}")
    assert (len(train), len(test)) == (done.n_train, done.n_test) == (42, 18)
    both = pd.concat([train, test]).astype({"size": float}).sort_values("size").reset_index(drop=True)
    pd.testing.assert_frame_equal(both, FRAME, check_dtype=False)
    assert list(train["name"]) == [f"00{k}" for k in sorted(kept)]
    assert sorted(own.name for own in home.iterdir() if own.name.endswith(".job")) == []


def test_rows_are_counted_by_one_column(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, read_columns = CsvTable.batches, []

    def batches(table: CsvTable, positions: Sequence[int]) -> Iterator[list[pa.Array]]:
        read_columns.append(list(positions))
        return whole(table, positions)

    monkeypatch.setattr(CsvTable, "batches", batches)
    split("t.csv", Division(0.3, random_state=4), "a.csv", "b.csv")
    assert read_columns == [[0], [0, 1, 2, 3]]


def test_parts_are_separated_as_the_table_is(home: Path) -> None:
    Path("german.csv").write_text("Größe;Ort\n1,5;Köln\n2,5;Bonn\n3,5;Köln\n", encoding="cp1252")
    split("german.csv", Division(0.3), "a.csv", "b.csv", TextOptions(separator=";", encoding="cp1252"))
    parts = [pd.read_csv(home / f"{part}.csv", sep=";", decimal=",") for part in "ab"]
    assert sorted(pd.concat(parts)["Größe"]) == [1.5, 2.5, 3.5]


def test_strata_keep_their_shares_and_groups_stay_whole(home: Path) -> None:
    del home
    split("t.csv", Division(0.25, stratify="kind"), "a.csv", "b.csv")
    assert read("b.csv")["kind"].value_counts().to_dict() == {"fern": 5, "moss": 5, "pine": 5}
    split("t.csv", Division(0.25, group="site"), "a.csv", "b.csv", overwrite=True)
    train, test = set(read("a.csv")["site"]), set(read("b.csv")["site"])
    assert not train & test
    assert (len(train), len(test)) == (9, 3)


def test_a_group_of_arrays_is_split_with_its_names(home: Path) -> None:
    del home
    split("t.zarr", Division(0.25, stratify="y", random_state=1), "a.zarr", "b.zarr")
    for name in ("X", "y", "ids"):
        parts = [open_array(f"{part}.zarr/{name}") for part in "ab"]
        assert [part.shape[0] for part in parts] == [45, 15]
        known = {k: v for k, v in open_array(f"t.zarr/{name}").attrs.asdict().items() if k != "distforest"}
        assert {k: v for k, v in parts[0].attrs.asdict().items() if k != "distforest"} == known
    assert np.bincount(open_array("b.zarr/y")[:]).tolist() == [5, 5, 5]
    ids = open_array("b.zarr/ids")
    rows = [int(name) for name in names_of_rows(ids[:], dict(ids.attrs))]
    np.testing.assert_array_equal(open_array("b.zarr/X")[:][:, 0], FRAME["size"][rows])
    assert ingest("t.csv", "c.zarr", label="kind", drop=["site", "name"])["X"].shape == (60, 1)


def test_what_cannot_be_split_is_refused(home: Path) -> None:
    Path("few.csv").write_text("a,kind\n1,x\n2,x\n3,y\n")
    Path("holes.csv").write_text("a,kind\n1,x\n2,\n3,y\n")
    square = np.eye(60)
    write_array("s.zarr", "X", (60, 3), square.dtype, [square[:, :3]])
    write_array("s.zarr", "Z", square.shape, square.dtype, [square])
    for source, division, named in (
        ("few.csv", Division(0.5, stratify="kind"), ("3 rows", "'kind'")),
        ("holes.csv", Division(0.5, group="kind"), ("holes.csv", "row 1", "'kind'")),
        ("t.csv", Division(0.5, stratify="kinds"), ("t.csv", "stratify", "'kinds'", "'kind'")),
        ("absent.csv", Division(0.5), ("absent.csv",)),
    ):
        with pytest.raises(InputError, match=naming(*named)):
            split(source, division, "a.csv", "b.csv")
    with pytest.raises(InputError, match=naming("s.zarr", "'Z'", (60, 60))):
        split("s.zarr", Division(0.5), "a.zarr", "b.zarr")
    with pytest.raises(InputError, match=naming("a.zarr", "csv", "Parquet")):
        split("t.csv", Division(0.5), "a.zarr", "b.csv")
    with pytest.raises(InputError, match=naming("t.csv", "b.parquet")):
        split("t.csv", Division(0.5), "a.csv", "b.parquet")
    with pytest.raises(InputError, match=naming("output", "'t.csv'")):
        split("t.csv", Division(0.5), "a.csv", "t.csv", overwrite=True)
    with pytest.raises(InputError, match=r"^test\b.* 2$"):
        Division(2)
    with pytest.raises(InputError, match=naming("`stratify`", "`group`", "'a'", "'b'")):
        Division(0.5, "a", "b")
    assert not [own.name for own in home.iterdir() if own.name[:2] in ("a.", "b.")]


def test_the_command_splits(home: Path) -> None:
    del home
    code, out, err = run("split", "t.parquet", "a.parquet", "b.csv", "--test", ".2", "--stratify", "kind")
    assert (code, out) == (0, "train  a.parquet, 48 rows\ntest   b.csv, 12 rows\n"), err
    code, _, err = run("split", "t.parquet", "a.parquet", "b.csv")
    assert (code, err.partition(" ")[0], err.count("\n")) == (2, "error:", 1)
    assert re.search(naming("a.parquet", "--overwrite"), err)
    Path("plain.csv").write_text("1.5,2.5\n3.5,4.5\n5.5,6.5\n")
    with pytest.warns(DistforestWarning, match=naming("plain.csv", "header")):
        split("plain.csv", Division(0.5), "c.csv", "d.csv", TextOptions(header=False))
    assert list(pd.read_csv("c.csv")) == ["0", "1"]
