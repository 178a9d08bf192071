from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from distforest import Embedding, Graph, Labels, Targets
from distforest.errors import InputError
from distforest.sources import truth as module
from distforest.sources.arrays import write_array
from distforest.sources.truth import Truth, pairs_of_rows, read_vector

if TYPE_CHECKING:
    from pathlib import Path

RNG = np.random.default_rng(3)
MATRIX = RNG.random((6, 6))
MATRIX = MATRIX + MATRIX.T


@pytest.mark.parametrize(
    ("given", "judge"),
    [
        (Labels(["b", "a", "b", "c"]), "labels"),
        (Targets(RNG.normal(size=5)), "targets"),
        (Embedding(RNG.normal(size=(5, 3))), "embedding"),
    ],
)
def test_distances_of_pairs_are_those_of_the_matrix(given: Any, judge: str) -> None:
    truth = Truth.of(given)
    left, right = pairs_of_rows(len(given))
    assert truth.judge == judge
    np.testing.assert_allclose(truth.distances(left, right), given.matrix()[left, right], rtol=1e-12)


def test_a_matrix_is_read_as_distances_and_a_graph_as_their_complement() -> None:
    left, right = pairs_of_rows(6)
    truth = Truth.of(MATRIX.tolist())
    assert truth.judge == "distances"
    assert truth.largest == np.float32(MATRIX.max())
    np.testing.assert_array_equal(truth.distances(left, right), MATRIX.astype(np.float32)[left, right])
    links = (MATRIX > 1).astype(float)
    np.testing.assert_array_equal(Truth.of(Graph(links)).values, 1.0 - links)


def test_arrays_on_disk_are_read_like_arrays_in_memory(tmp_path: Path) -> None:
    group = str(tmp_path / "data.zarr")
    links = (MATRIX > 1).astype(float)
    for name, values in {"Z": MATRIX, "y": np.array([0, 1, 1, 0]), "A": links}.items():
        write_array(group, name, values.shape, values.dtype, [values])
    np.testing.assert_array_equal(Truth.of(f"{group}/Z").values, Truth.of(MATRIX).values)
    np.testing.assert_array_equal(Truth.of(tmp_path / "data.zarr" / "y").values, [0, 1, 1, 0])
    np.testing.assert_array_equal(Truth.of(Graph(f"{group}/A")).values, 1.0 - links)


@pytest.mark.parametrize(
    ("vector", "leaf", "kind"),
    [
        (np.array([1.0, 2.5]), None, Targets),
        (np.array([1.0, 2.0]), None, Labels),
        (np.array([1, 2]), None, Labels),
        (np.array(["a", "b"]), None, Labels),
        (np.array(["a", "b"], object), None, Labels),
        (np.array([1.0, 2.5]), {"kind": "members", "scale": 1.0}, Targets),
        (np.array([1, 2]), {"kind": "means", "factor": 0.5}, Targets),
        (np.array([1, 2]), {"kind": "means", "factor": 1.0}, Embedding),
        (np.array([1.0, 2.5]), {"kind": "class_counts"}, Labels),
    ],
)
def test_a_vector_is_read_by_what_was_learned_or_else_by_its_values(
    vector: np.ndarray, leaf: dict[str, Any] | None, kind: type
) -> None:
    assert isinstance(read_vector(vector, leaf), kind)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.array([1.0, np.nan]), "Z contain 1 NaN or infinite values, the first in row 1"),
        (np.array([1, "a", None], object), "Unknown label type"),
        (np.zeros((2, 3)), "square matrix"),
        (np.zeros((2, 2, 2)), "2-D matrix"),
        (np.array([[0.0, np.inf], [np.inf, 0.0]]), "first at row 0, column 1"),
        (Targets(["a"]), "targets must be numbers"),
    ],
)
def test_what_is_refused(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Truth.of(given)


def test_a_sparse_matrix_is_refused_with_the_way_out() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(InputError, match="toarray"):
        Truth.of(Graph(sparse.csr_array(np.eye(3))))


def test_pairs_are_drawn_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [len(side) for side in pairs_of_rows(5)] == [10, 10]
    monkeypatch.setattr(module, "MOST_PAIRS", 5000)
    left, right = pairs_of_rows(200)
    assert len(left) == len(right) == 5000
    assert (left < right).all()
    assert left.min() == 0
    assert right.max() == 199
    counts = np.bincount(np.concatenate([left, right]), minlength=200)
    assert abs(counts - 50).max() < 40  # about evenly: the standard deviation is 7
    np.testing.assert_array_equal(pairs_of_rows(200)[0], left)
