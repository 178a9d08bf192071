from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from distforest import Embedding, Graph, Labels, SimForestRegressor, Targets
from distforest.errors import DistforestWarning, InputError
from distforest.jobs.input_staging import stage_inputs
from distforest.sources import truth as module
from distforest.sources.arrays import open_array, write_array
from distforest.sources.truth import Truth, TruthKind, pairs_of_rows, read_vector
from tests.messages import naming
from tests.sources.helpers import job_spec, write_arrays

if TYPE_CHECKING:
    from pathlib import Path

RNG = np.random.default_rng(3)
MATRIX = RNG.random((6, 6))
MATRIX = MATRIX + MATRIX.T


@pytest.mark.parametrize(
    ("given", "truth_kind"),
    [
        (Labels(["b", "a", "b", "c"]), TruthKind.LABELS),
        (Targets(RNG.normal(size=5)), TruthKind.TARGETS),
        (Embedding(RNG.normal(size=(5, 3))), TruthKind.EMBEDDING),
    ],
)
def test_distances_of_pairs_are_those_of_the_matrix(given: Any, truth_kind: TruthKind) -> None:
    truth = Truth.from_given(given)
    left, right = pairs_of_rows(len(given))
    assert truth.kind == truth_kind
    np.testing.assert_allclose(truth.distances(left, right), given.matrix()[left, right], rtol=1e-12)


def test_a_matrix_is_read_as_distances_and_a_graph_as_their_complement() -> None:
    left, right = pairs_of_rows(6)
    truth = Truth.from_given(MATRIX.tolist())
    assert truth.kind == TruthKind.DISTANCES
    assert truth.largest == np.float32(MATRIX.max())
    np.testing.assert_array_equal(truth.distances(left, right), MATRIX.astype(np.float32)[left, right])
    links = (MATRIX > 1).astype(float)
    np.testing.assert_array_equal(Truth.from_given(Graph(links)).values, 1.0 - links)


def test_arrays_on_disk_are_read_like_arrays_in_memory(tmp_path: Path) -> None:
    links = (MATRIX > 1).astype(float)
    group = write_arrays(str(tmp_path / "data.zarr"), Z=MATRIX, y=np.array([0, 1, 1, 0]), A=links)
    np.testing.assert_array_equal(Truth.from_given(f"{group}/Z").values, Truth.from_given(MATRIX).values)
    np.testing.assert_array_equal(Truth.from_given(tmp_path / "data.zarr" / "y").values, [0, 1, 1, 0])
    np.testing.assert_array_equal(Truth.from_given(Graph(f"{group}/A")).values, 1.0 - links)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Labels, np.array([2, 0, 1, 0, 2])),
        (Targets, np.array([2.5, 0.0, 1.0, -3.0, 7.0])),
        (Embedding, np.arange(10.0).reshape(5, 2)),
    ],
)
def test_a_relation_takes_the_address_of_its_values(kind: Any, values: np.ndarray, tmp_path: Path) -> None:
    address = str(tmp_path / "data.zarr" / "y")
    write_arrays(str(tmp_path / "data.zarr"), y=values)
    expected = kind(values)
    for given in (kind(address), kind(tmp_path / "data.zarr" / "y"), kind(open_array(address))):
        assert (len(given), given.shape) == (5, (5, 5))
        assert given.matrix().tolist() == expected.matrix().tolist()
        assert given[[3, 0]].matrix().tolist() == expected[[3, 0]].matrix().tolist()
        read, wanted = Truth.from_given(given), Truth.from_given(expected)
        assert (read.kind, read.classes) == (wanted.kind, wanted.classes)
        np.testing.assert_array_equal(read.values, wanted.values)
    with pytest.raises(InputError, match=naming("nothing.zarr: ", "none")):
        kind(tmp_path / "nothing.zarr")


@pytest.mark.parametrize(
    ("vector", "learned", "kind"),
    [
        (np.array([1.0, 2.5]), None, Targets),
        (np.array([1.0, 2.0]), None, Labels),
        (np.array([1, 2]), None, Labels),
        (np.array(["a", "b"]), None, Labels),
        (np.array(["a", "b"], object), None, Labels),
        (np.array([1.0, 2.5]), TruthKind.DISTANCES, Targets),
        (np.array([1, 2]), TruthKind.TARGETS, Targets),
        (np.array([1, 2]), TruthKind.EMBEDDING, Embedding),
        (np.array([1.0, 2.5]), TruthKind.LABELS, Labels),
    ],
)
def test_a_vector_is_read_by_what_was_learned_or_else_by_its_values(
    vector: np.ndarray, learned: TruthKind | None, kind: type
) -> None:
    assert isinstance(read_vector(vector, learned), kind)


def spread(n_rows: int, n_different: int) -> np.ndarray:
    """So many rows, among which so many different whole numbers are dealt out."""
    return np.arange(n_rows) % n_different


SUGAR = spread(392, 106)
"""As many different whole numbers as a column of blood sugar has."""


@pytest.mark.parametrize(
    "classes",
    [
        *(spread(150, 3), spread(1797, 10), spread(40, 10), spread(20000, 26), np.array([1.0, 2.0])),
        *(spread(30, 2).astype(bool), spread(392, 106).astype(str), SUGAR * 1.1),
    ],
    ids=["iris", "digits", "few digits", "letters", "two rows", "booleans", "strings", "fractional numbers"],
)
def test_labels_and_plain_targets_are_read_in_silence(classes: np.ndarray) -> None:
    read_vector(classes)


def test_codes_of_classes_that_have_names_are_no_amounts(tmp_path: Path) -> None:
    attributes = {"classes": [f"person {number}" for number in range(106)]}
    write_array(str(tmp_path), "y", SUGAR.shape, SUGAR.dtype, [SUGAR], attributes=attributes)
    assert Truth.from_given(f"{tmp_path}/y").kind == TruthKind.LABELS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "taught"),
    [
        ("smerf", {"features": "X", "distances": {"kind": "labels", "values": "y"}}),
        ("simforest", {"similarity": {"kind": "linear", "features": "X"}, "labels": "y"}),
        ("rfd", {"features": "X", "labels": "y"}),
    ],
)
def test_labels_of_a_job_that_may_be_amounts_are_suspected(tmp_path: Path, method: str, taught: dict[str, Any]) -> None:
    def staged(labels: np.ndarray, **attributes: Any) -> None:
        group = str(tmp_path / f"{len(list(tmp_path.iterdir()))}.zarr")
        for name, values in {"X": np.c_[RNG.normal(size=(392, 2)), SUGAR / 30], "y": labels}.items():
            write_array(group, name, values.shape, values.dtype, [values], attributes=attributes if name == "y" else {})
        at = {"X": f"{group}/X", "y": f"{group}/y"}
        own = {
            key: {word: at.get(value, value) for word, value in given.items()} if isinstance(given, dict) else at[given]
            for key, given in taught.items()
        }
        stage_inputs(job_spec(tmp_path, method, **own), f"{tmp_path}/job")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        staged(spread(392, 10))
        staged((SUGAR * 37) % 106)  # names, in no order that the features know
        staged(SUGAR, classes=[f"person {number}" for number in range(106)])
    with pytest.warns(DistforestWarning, match=naming("DF007", 106, "392 rows", "column 2", "1.00")):
        staged(SUGAR)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (np.array([1.0, np.nan]), [" y ", "NaN", "row 1"]),
        (np.array([1, "a", None], object), ["label type", "row 2 (None)"]),
        (np.array(["a", "b", 3.0], object), ["label type", "row 2 (3.0)"]),
        (np.array(["2020-01-01"], "datetime64[ns]"), ["datetime64[ns]", "Targets(y)"]),
        (np.zeros((2, 3)), ["square", "Distances"]),
        (np.zeros((3, 1)), ["single column", "(3, 1)", "Targets(numpy.ravel(y))"]),
        (np.array([["a"], ["b"]]), ["single column", "(2, 1)", "Labels(numpy.ravel(y))"]),
        (np.zeros((1, 3)), ["single row", "(1, 3)", "Targets"]),
        (np.zeros((2, 2, 2)), ["(2, 2, 2)"]),
        (np.array([[0.0, np.inf], [np.inf, 0.0]]), ["row 0, column 1"]),
        (Targets(["a"]), ["targets", "numbers"]),
    ],
)
def test_what_is_refused(given: Any, named: list[str]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        Truth.from_given(given)


def test_a_sparse_matrix_is_refused_with_the_way_out() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(InputError, match=naming("Graph(A)", "Z.toarray()")):
        Truth.from_given(sparse.csr_array(np.eye(3)))


def test_pairs_are_drawn_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [len(side) for side in pairs_of_rows(5)] == [10, 10]
    monkeypatch.setattr(module, "MOST_SCORED_PAIRS", 5000)
    left, right = pairs_of_rows(200)
    assert len(left) == len(right) == 5000
    assert (left < right).all()
    assert left.min() == 0
    assert right.max() == 199
    counts = np.bincount(np.concatenate([left, right]), minlength=200)
    assert abs(counts - 50).max() < 40  # about evenly: the standard deviation is 7
    np.testing.assert_array_equal(pairs_of_rows(200)[0], left)


@pytest.mark.parametrize("form", ["address", "zarr", "labels", "rows"])
def test_classes_at_an_address_have_the_names_of_its_attributes(form: str, tmp_path: Path) -> None:
    codes = np.arange(60) % 3
    address = f"{tmp_path}/a.zarr/y"
    write_array(f"{tmp_path}/a.zarr", "y", codes.shape, codes.dtype, [codes], {"classes": ["zebra", "ape", "cat"]})
    forms = {"address": address, "zarr": open_array(address), "labels": Labels(address), "rows": Labels(address)[::-1]}
    truth = Truth.from_given(forms[form])
    assert truth.classes == ["zebra", "ape", "cat"]
    assert truth.values.tolist() == (codes[::-1] if form == "rows" else codes).tolist()
    assert Truth.from_given(open_array(address)[:]).classes == [0, 1, 2]
    assert Truth.from_given(Labels([0.5, 1.0], ["a", "b"])).classes == [0.5, 1.0]
    assert Truth.from_given(Labels([1, 2], ["a", "b"])).classes == [1, 2]  # there is no third name


def test_numbers_of_named_classes_are_no_amounts(tmp_path: Path) -> None:
    codes = np.array([0, 2, 1, 0], np.int64)
    write_array(str(tmp_path / "d.zarr"), "y", codes.shape, codes.dtype, [codes], {"classes": ["u", "v", "w"]})
    address = str(tmp_path / "d.zarr/y")
    told = naming("classes", "'u'", "labels")
    for kind in (Targets, Embedding):
        with pytest.raises(InputError, match=told):
            kind(address)
    with pytest.raises(InputError, match=naming("y: ", "classes", "'u'")):
        SimForestRegressor("linear").fit(np.eye(4), address)
    group = write_arrays(str(tmp_path / "d.zarr"), X=np.eye(4, dtype=np.float32))
    given = {"features": f"{group}/X", "distances": {"kind": "targets", "values": address}}
    with pytest.raises(InputError, match=told):
        stage_inputs(job_spec(tmp_path, "smerf", **given), str(tmp_path / "job"))
    assert Truth.from_given(Targets(codes)).kind == "targets"
    assert Truth.from_given(Labels(address)).classes == ["u", "v", "w"]
