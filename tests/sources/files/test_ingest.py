"""`distforest ingest`: every format round trip, every fault refused, nothing half written."""

from __future__ import annotations

import csv
import hashlib
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.datasets import load_iris

import distforest
from distforest.errors import DistforestWarning, InputError
from distforest.sources.files import planned, table_arrays
from distforest.sources.files.ingest import Ingested, ingest
from tests.messages import naming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.sources.helpers import Refused, Write

DATA = Path(distforest.__path__[0], "data")


def iris_csv(folder: Path) -> str:
    iris = load_iris()
    with (folder / "iris.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow([*iris.feature_names, "species"])
        for row, label in zip(iris.data, iris.target, strict=True):
            writer.writerow([*row, iris.target_names[label]])
    return str(folder / "iris.csv")


# Round trips


def test_csv_with_string_labels(tmp_path: Path) -> None:
    iris = load_iris()
    records = ingest(iris_csv(tmp_path), str(tmp_path / "iris.zarr"), label="species", chunk_bytes=500)
    group = zarr.open_group(str(tmp_path / "iris.zarr"), mode="r")
    np.testing.assert_array_equal(group["X"][:], iris.data.astype(np.float32))
    np.testing.assert_array_equal(group["y"][:], iris.target)  # the names are in alphabetical order
    assert group["X"].attrs["feature_names"] == iris.feature_names
    assert group["y"].attrs["classes"] == list(iris.target_names)
    digest = hashlib.sha256(iris.data.astype(np.float32).tobytes()).hexdigest()
    assert records["X"] == Ingested("X", (150, 4), "float32", digest)
    assert group["X"].attrs["distforest"]["sha256"] == digest
    assert records["y"].dtype == group["y"].dtype == "int64"
    assert group.attrs["distforest"] == {"type": "arrays", "version": 1, "arrays": ["X", "y"]}


@pytest.mark.slow
def test_the_digest_does_not_depend_on_the_format_or_the_chunks(write: Write, tmp_path: Path) -> None:
    iris = load_iris()
    source = iris_csv(tmp_path)
    np.savez(tmp_path / "iris.npz", X=np.asfortranarray(iris.data), y=iris.target_names[iris.target])
    lines = [
        f"{y} " + " ".join(f"{j}:{x!r}" for j, x in enumerate(map(float, row), 1) if x)
        for row, y in zip(iris.data, iris.target, strict=True)
    ]
    rows = write("iris.svm", "\n".join(lines) + "\n")
    small = ingest(source, str(tmp_path / "a.zarr"), label="species", chunk_bytes=1)
    large = ingest(source, str(tmp_path / "b.zarr"), label="species")
    stored = ingest(str(tmp_path / "iris.npz"), str(tmp_path / "c.zarr"), chunk_bytes=64)
    sparse = ingest(rows, str(tmp_path / "d.zarr"), chunk_bytes=96)
    assert small == large == stored == sparse
    assert zarr.open_array(str(tmp_path / "a.zarr/X"), mode="r").chunks == (1, 4)
    assert zarr.open_array(str(tmp_path / "b.zarr/X"), mode="r").chunks == (150, 4)


def test_npz_of_a_network(tmp_path: Path) -> None:
    records = ingest(str(DATA / "lazega.npz"), str(tmp_path / "lazega.zarr"))
    group = zarr.open_group(str(tmp_path / "lazega.zarr"), mode="r")
    with np.load(DATA / "lazega.npz", allow_pickle=False) as given_arrays:
        np.testing.assert_array_equal(group["A"][:], given_arrays["A"])
        np.testing.assert_array_equal(group["X"][:], given_arrays["X"])
    assert (records["A"].dtype, records["X"].dtype) == ("uint8", "float32")
    assert group["A"][:].sum() == 2 * 378


def test_npz_strings_become_attributes(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "a.npz",
        X=np.eye(2),
        y=np.array([1, 0], np.int8),
        classes=np.array(["no", "yes"]),
        feature_names=np.array(["a", "b"]),
        names=np.array([["Ann", "Bea"]]),
        about=np.array("two of them"),
        S=np.array([[1.0, np.nan], [np.nan, 1.0]], ">f8"),
        mask=np.array([True, False]),
    )
    records = ingest(str(tmp_path / "a.npz"), str(tmp_path / "a.zarr"))
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="r")
    assert group["y"].attrs["classes"] == ["no", "yes"]
    assert group["X"].attrs["feature_names"] == ["a", "b"]
    assert group.attrs["names"] == [["Ann", "Bea"]]
    assert group.attrs["about"] == "two of them"
    np.testing.assert_array_equal(group["S"][:], [[1, np.nan], [np.nan, 1]])
    assert {name: record.dtype for name, record in records.items()} == {
        "X": "float32",
        "y": "int8",
        "S": "float64",
        "mask": "bool",
    }


def test_npz_strings_for_each_row_become_labels(tmp_path: Path) -> None:
    species, sites = np.array(["moss", "fern", "moss"]), np.array(["c", "a", "b"])
    np.savez(tmp_path / "a.npz", X=np.eye(3), species=species, sites=sites, feature_names=np.array(["p", "q", "r"]))
    records = ingest(str(tmp_path / "a.npz"), str(tmp_path / "a.zarr"))
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="r")
    assert sorted(records) == ["X", "sites", "species"]
    for name, given_strings in (("species", species), ("sites", sites)):
        codes = group[name]
        assert np.array(codes.attrs["classes"])[codes[:]].tolist() == given_strings.tolist()
    assert group["X"].attrs["feature_names"] == ["p", "q", "r"]
    assert set(group.attrs) == {"distforest"}


def test_npz_string_labels_take_the_order_of_the_classes(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", y=np.array(["b", "a", "b"]), classes=np.array(["b", "c", "a"]))
    ingest(str(tmp_path / "a.npz"), str(tmp_path / "a.zarr"))
    y = zarr.open_array(str(tmp_path / "a.zarr/y"), mode="r")
    assert y[:].tolist() == [0, 2, 0]
    assert y.attrs["classes"] == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([3, -1], "int32"),
        ([0.5, 2.0], "float64"),
        (np.array([0.5, 2], np.float32), "float64"),
        ([True, False], "uint8"),
    ],
)
def test_npz_labels_of_numbers(tmp_path: Path, values: list[float], dtype: str) -> None:
    y = np.array(values)
    np.savez(tmp_path / "a.npz", y=y.astype(np.int32) if y.dtype.kind == "i" else y)
    assert ingest(str(tmp_path / "a.npz"), str(tmp_path / "a.zarr"))["y"].dtype == dtype
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "a.zarr/y"), mode="r")[:], y)


def test_npy_is_named_after_the_file_or_as_asked(tmp_path: Path) -> None:
    Z = np.arange(12.0).reshape(3, 4)
    np.save(tmp_path / "Z.npy", Z)
    assert list(ingest(str(tmp_path / "Z.npy"), str(tmp_path / "a.zarr"))) == ["Z"]
    record = ingest(str(tmp_path / "Z.npy"), str(tmp_path / "b.zarr"), name="X")["X"]
    assert (record.shape, record.dtype) == ((3, 4), "float32")
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "a.zarr/Z"), mode="r")[:], Z)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    values=hnp.arrays(
        st.sampled_from(["<f4", ">f8", "<i2", "u1", "?"]),
        hnp.array_shapes(min_dims=1, max_dims=3, max_side=6),
    ),
    order=st.sampled_from("CF"),
    chunk_bytes=st.integers(1, 64),
)
def test_any_numbers_survive(
    tmp_path_factory: pytest.TempPathFactory, values: np.ndarray, order: str, chunk_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("any")
    np.savez_compressed(folder / "a.npz", values=np.asarray(values, order=order))
    ingest(str(folder / "a.npz"), str(folder / "a.zarr"), chunk_bytes=chunk_bytes)
    array = zarr.open_array(str(folder / "a.zarr/values"), mode="r")
    assert array.dtype == values.dtype.newbyteorder("=")
    np.testing.assert_array_equal(array[:], values)


@pytest.mark.parametrize(
    ("labels", "dtype", "expected"),
    [
        (["1", "0", "-3"], "int64", [1, 0, -3]),
        (["1", "+2", "01"], "int64", [2, 0, 1]),
        (["1", "2.5", "1e3"], "int64", [0, 2, 1]),
        (["1", "x", "2"], "int64", [0, 2, 1]),
        (["1_0", "2", "2"], "int64", [0, 1, 1]),
        (["9" * 19, "2", "2"], "int64", [1, 0, 0]),
    ],
)
@pytest.mark.parametrize("chunk_bytes", [1, 1000])
def test_csv_labels(
    write: Write, tmp_path: Path, labels: list[str], dtype: str, expected: list[float], chunk_bytes: int
) -> None:
    source = write("a.csv", "x,y\n" + "".join(f"{row},{label}\n" for row, label in enumerate(labels)))
    record = ingest(source, str(tmp_path / "a.zarr"), label="y", chunk_bytes=chunk_bytes)["y"]
    assert record.dtype == dtype
    assert zarr.open_array(str(tmp_path / "a.zarr/y"), mode="r")[:].tolist() == expected


def test_csv_without_header(write: Write, tmp_path: Path) -> None:
    source = write("a.csv", "1.5,fern,2\n\n3,moss,4\n")
    ingest(source, str(tmp_path / "a.zarr"), label="1", header=False)
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="r")
    assert group["X"][:].tolist() == [[1.5, 2], [3, 4]]
    assert group["y"].attrs["classes"] == ["fern", "moss"]
    assert "feature_names" not in group["X"].attrs


def test_csv_header_of_numbers_with_a_label(write: Write, tmp_path: Path) -> None:
    source = write("a.csv", "\ufeff0,1,label\r\n5, 6 ,7\r\n")
    ingest(source, str(tmp_path / "a.zarr"), label="label")
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="r")
    assert (group["X"][:].tolist(), group["y"][:].tolist()) == ([[5, 6]], [7])


def test_the_first_row_is_a_header_unless_it_is_said_to_be_none(write: Write, tmp_path: Path) -> None:
    source = write("a.csv", "0,1\n30,40\n")
    records = ingest(source, str(tmp_path / "a.zarr"))
    assert (records["X"].shape, records["X"].attributes) == ((1, 2), {"feature_names": ["0", "1"]})
    records = ingest(source, str(tmp_path / "b.zarr"), header=False)
    assert (records["X"].shape, records["X"].attributes) == ((2, 2), {})


ZERO_BASED = "1 0:0.5 2:-2\n0 1:3\n"
"""As `sklearn.datasets.dump_svmlight_file` writes it."""


def test_libsvm_that_counts_from_zero(write: Write, tmp_path: Path) -> None:
    source, target = write("a.svm", ZERO_BASED), str(tmp_path / "a.zarr")
    with pytest.warns(DistforestWarning, match="zero_based=True"):
        ingest(source, target)
    assert zarr.open_array(f"{target}/X", mode="r")[:].tolist() == [[0.5, 0, -2], [0, 3, 0]]
    ingest(source, target, zero_based=True, overwrite=True)
    lacking = write("b.svm", "1 1:3\n")  # without the first and the last feature of the file that it goes with
    ingest(lacking, target, zero_based=True, n_features=3, overwrite=True)
    assert zarr.open_array(f"{target}/X", mode="r")[:].tolist() == [[0, 3, 0]]


def test_libsvm_of_so_many_features(write: Write, tmp_path: Path) -> None:
    source, target = write("a.svm", "1 1:2\n0\n"), str(tmp_path / "a.zarr")
    assert ingest(source, target, n_features=3)["X"].shape == (2, 3)
    assert ingest(write("b.svm", "1\n0\n"), target, n_features=2, overwrite=True)["X"].shape == (2, 2)


def test_libsvm(write: Write, tmp_path: Path) -> None:
    source = write("a.txt", "# a comment\n+1 1:0.5 3:-2 # and another\n\n-1\n+1 2:1e2\n")
    records = ingest(source, str(tmp_path / "a.zarr"), format="libsvm", chunk_bytes=24)
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="r")
    assert group["X"][:].tolist() == [[0.5, 0, -2], [0, 0, 0], [0, 100, 0]]
    assert group["y"][:].tolist() == [1, -1, 1]
    assert records["y"].dtype == "int64"


def test_parquet(tmp_path: Path) -> None:
    iris = load_iris()
    table = {name: pa.array(iris.data[:, j]) for j, name in enumerate(iris.feature_names)}
    species = pa.array(iris.target_names[iris.target].tolist())
    pq.write_table(
        pa.table({"species": species.dictionary_encode(), **table}),
        tmp_path / "iris.parquet",
        row_group_size=40,
    )
    records = ingest(str(tmp_path / "iris.parquet"), str(tmp_path / "p.zarr"), label="species", chunk_bytes=900)
    assert records == ingest(iris_csv(tmp_path), str(tmp_path / "c.zarr"), label="species")
    assert dict(zarr.open_array(str(tmp_path / "p.zarr/y"), mode="r").attrs) == dict(
        zarr.open_array(str(tmp_path / "c.zarr/y"), mode="r").attrs
    )


@pytest.mark.parametrize(
    ("file", "options", "named"),
    [
        ("a.xlsx", {}, ["'.xlsx'", "`format`", "csv", "Parquet", ".npz"]),
        ("a", {}, ["''", "`format`"]),
        ("a.csv", {"format": "xls"}, ["arrow, csv, libsvm, npy, npz, parquet", "'xls'"]),
        ("a.csv", {"name": "X"}, ["`name`", ".npy", "'X'"]),
        ("a.svm", {"label": "y"}, ["`label`", "csv", "Parquet", "Arrow", "'y'"]),
        ("a.svm", {"separator": ";"}, ["`separator`", "csv", "';'"]),
        ("a.svm", {"header": False}, ["`header`", "csv", False]),
        ("a.csv", {"n_features": 3}, ["`n_features`", "libsvm", 3]),
        ("a.csv", {"zero_based": True}, ["`zero_based`", "libsvm", True]),
        ("a.csv", {"chunk_bytes": 0}, ["chunk_bytes", " 0"]),
    ],
)
def test_options_that_do_not_fit(
    write: Write, refused: Refused, file: str, options: dict[str, object], named: list[object]
) -> None:
    refused(write(file, "1\n"), *named, **options)


def test_sources_that_are_no_files(refused: Refused, tmp_path: Path) -> None:
    refused(str(tmp_path / "absent.csv"), "absent.csv", "none")
    refused(str(tmp_path), tmp_path, "folder")
    zarr.open_group(str(tmp_path / "x.zarr"), mode="w")
    refused(str(tmp_path / "x.zarr"), "x.zarr", "Zarr")
    refused("s3://bucket/a.csv", "'s3://bucket/a.csv'")


# All or nothing


def interrupt(monkeypatch: pytest.MonkeyPatch, error: BaseException, n_chunks: int, chunks: Callable[[], int]) -> None:
    """Let the blocks of a csv file raise ``error`` once ``n_chunks`` chunks are written."""
    whole = table_arrays.feature_blocks

    def blocks(*arguments: Any) -> Iterator[tuple[np.ndarray, Counter[int]]]:
        for block in whole(*arguments):
            if chunks() == n_chunks:
                raise error
            yield block

    monkeypatch.setattr(table_arrays, "feature_blocks", blocks)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("disk full")], ids=repr)
def test_an_interrupted_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    source = iris_csv(tmp_path)
    interrupt(monkeypatch, error, 3, lambda: len([*tmp_path.glob("out.zarr.job/arrays.zarr/X/c/*")]))
    with pytest.raises(type(error)):
        ingest(source, str(tmp_path / "out.zarr"), label="species", chunk_bytes=200)
    assert list(tmp_path.iterdir()) == [Path(source)]


def test_a_target_is_overwritten_only_when_asked_and_only_a_group(write: Write, tmp_path: Path) -> None:
    source, target = write("a.csv", "a\n1\n"), tmp_path / "a.zarr"
    ingest(str(DATA / "lazega.npz"), str(target))
    with pytest.raises(InputError, match=naming(target, "new name")):
        ingest(source, str(target))
    ingest(source, str(target), overwrite=True)
    assert sorted(zarr.open_group(str(target), mode="r").array_keys()) == ["X"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.zarr"]
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "one.tex").write_text("mine")
    for other in (tmp_path / "thesis", Path(source)):
        with pytest.raises(InputError, match=naming(other, "never")):
            ingest(source, str(other), overwrite=True)
    assert (tmp_path / "thesis" / "one.tex").read_text() == "mine"
    assert Path(source).read_text() == "a\n1\n"


def test_a_failed_overwrite_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = iris_csv(tmp_path), tmp_path / "a.zarr"
    ingest(str(DATA / "lazega.npz"), str(target))
    with pytest.raises(InputError, match="'kind'"):
        ingest(source, str(target), label="kind", overwrite=True)
    interrupt(monkeypatch, OSError("disk full"), 3, lambda: len([*tmp_path.glob("a.zarr.job/arrays.zarr/X/c/*")]))
    with pytest.raises(OSError, match="disk full"):
        ingest(source, str(target), label="species", overwrite=True, chunk_bytes=200)
    assert zarr.open_array(f"{target}/A", mode="r")[:].sum() == 756
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zarr", "iris.csv"]


def test_what_was_there_comes_back_when_the_last_rename_fails(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = write("a.csv", "a\n1\n"), tmp_path / "a.zarr"
    ingest(str(DATA / "lazega.npz"), str(target))
    rename = Path.rename

    def refuse_new(path: Path, to: Path) -> Path:
        if to == target and not path.name.endswith(".older"):
            raise OSError("no rename")
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", refuse_new)
    with pytest.raises(OSError, match="no rename"):
        ingest(source, str(target), overwrite=True)
    assert zarr.open_array(f"{target}/A", mode="r").shape == (71, 71)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.zarr"]


def test_a_folder_that_is_not_there_is_not_made(write: Write, tmp_path: Path) -> None:
    source = write("a.csv", "a\n1\n")
    with pytest.raises(InputError, match=naming(tmp_path / "deep", "none")):
        ingest(source, str(tmp_path / "deep" / "a.zarr"))
    assert list(tmp_path.iterdir()) == [Path(source)]


def test_what_is_no_file_is_refused(refused: Refused, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "self.csv").symlink_to("self.csv")
    (tmp_path / "zeros.csv").symlink_to("/dev/zero")
    (tmp_path / "folder.csv").mkdir()
    found = {"pipe": "a pipe", "self": "none", "zeros": "a device", "folder": "a folder"}
    for name, told in found.items():
        refused(str(tmp_path / f"{name}.csv"), f"{name}.csv", told)


@pytest.mark.parametrize(("name", "n_bytes"), [("a.csv", 11), ("a.libsvm", 8), ("a.npy", 16)])
def test_a_bound_on_bytes_is_for_every_format(
    write: Write, refused: Refused, tmp_path: Path, name: str, n_bytes: int
) -> None:
    source = write(name, {"a.csv": "a,b\n1.5,2.5", "a.libsvm": "1 2:1\n"}.get(name, ""))
    if name == "a.npy":
        np.save(source, np.ones(2))
    refused(source, f"to {n_bytes};", f"max_bytes={n_bytes}", max_bytes=n_bytes - 1)
    assert ingest(source, str(tmp_path / "a.zarr"), max_bytes=n_bytes)
    for wrong in (0, True, 1.5):
        refused(source, "max_bytes ", repr(wrong), max_bytes=wrong)


def test_memory_that_does_not_suffice_names_the_file(
    write: Write, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(block: np.ndarray) -> np.ndarray:
        raise MemoryError

    monkeypatch.setattr(planned, "as_float32", exhausted)
    source = write("a.csv", "a\n1\n")
    refused(source, f"{source}: ", "memory")


def test_labels_and_features_of_a_table_have_as_many_rows(
    write: Write, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_arrays, "_labels_of", lambda *_: iter([["1"]]))  # as a damaged Parquet file has them
    refused(write("a.csv", "a,kind\n1,2\n3,4\n"), "2 rows, 1 label", label="kind")


def test_file_urls_are_paths(tmp_path: Path) -> None:
    ingest(str(DATA / "lazega.npz"), f"file://{tmp_path}/a.zarr/")
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]


# URLs


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    address = f"memory://{tmp_path.name}.zarr"
    yield address
    files, root = fsspec.core.url_to_fs(address)
    if files.exists(root):
        files.rm(root, recursive=True)


def test_a_url_is_written_and_overwritten(url: str) -> None:
    records = ingest(str(DATA / "lazega.npz"), url)
    assert zarr.open_array(f"{url}/A", mode="r").attrs["distforest"]["sha256"] == records["A"].sha256
    assert zarr.open_group(url, mode="r").attrs["distforest"]["arrays"] == ["A", "X"]
    with pytest.raises(InputError, match=naming(url, "new name")):
        ingest(str(DATA / "ionosphere.npz"), url)
    ingest(str(DATA / "ionosphere.npz"), url, overwrite=True)
    assert sorted(zarr.open_group(url, mode="r").array_keys()) == ["X", "y"]


def test_a_broken_source_leaves_a_url_as_it_was(write: Write, url: str) -> None:
    ingest(str(DATA / "lazega.npz"), url)
    with pytest.raises(InputError, match=naming("a.csv", "Empty")):
        ingest(write("a.csv", ""), url, overwrite=True)
    assert zarr.open_array(f"{url}/A", mode="r")[:].sum() == 756


def test_an_interrupted_url_says_that_it_is_unfinished_and_goes(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, root = fsspec.core.url_to_fs(url)
    seen = []

    def written() -> int:
        if files.exists(root):  # and is not only checked
            seen.append(dict(zarr.open_group(url, mode="r").attrs))
        return len(files.glob(f"{root}/X/c/*"))

    interrupt(monkeypatch, OSError("gone"), 3, written)
    with pytest.raises(OSError, match="gone"):
        ingest(iris_csv(tmp_path), url, label="species", chunk_bytes=200)
    assert seen[-1] == {"distforest": {"type": "unfinished"}}
    assert not files.exists(root)
    assert not files.exists(f"{root}.job")


def test_an_unknown_url_is_refused(write: Write) -> None:
    with pytest.raises(InputError, match=naming("nowhere")):
        ingest(write("a.csv", "a\n1\n"), "nowhere://bucket/a.zarr")


# The data that is shipped


@pytest.mark.parametrize("name", ["lazega", "ionosphere"])
def test_shipped_data_can_be_ingested(tmp_path: Path, name: str) -> None:
    records = ingest(str(DATA / f"{name}.npz"), str(tmp_path / "a.zarr"))
    assert records["X"].shape == {"lazega": (71, 18), "ionosphere": (351, 34)}[name]
    assert f"## {name}.npz" in (DATA / "SOURCES.md").read_text(encoding="utf-8")
