"""Similarities whose columns are in another order than rows, or with marks for what is unknown, are told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from distforest import SimForestClassifier, SimForestOutlier
from distforest.errors import DistforestWarning
from distforest.jobs.preview import check_and_stage
from distforest.sources.readings import AS_IT_IS, DISSIMILARITIES, SIMILARITIES
from distforest.sources.scratch import ScratchFolder
from distforest.sources.similarity_doubts import (
    SAMPLED_ROWS,
    told_of_alone,
    told_of_columns_order,
    told_of_far_mark,
    told_of_features,
    told_of_marked_similarities,
    told_of_similarity_doubts,
)
from distforest.sources.staged_arrays import StagingPlace, stage_arrays
from distforest.sources.truth import TruthKind
from distforest.sources.wanted import Role, Wanted
from tests.estimators.rows import observed
from tests.messages import naming
from tests.sources.helpers import job_spec, write_arrays

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
S = np.exp(-np.abs(X[:, None] - X).sum(axis=2))
Y = (X[:, 0] > 0).astype(int)
ORDER = RNG.permutation(90)
OTHER_ORDER = r"row \d+ .*column \d+"


def marked(mark: float, share: float = 0.1) -> np.ndarray:
    """Similarities of which a share is one number."""
    chosen = np.triu(RNG.random(S.shape) < share, 1)
    return np.where(chosen | chosen.T, mark, S)


def test_columns_in_another_order_are_told_whatever_is_permuted() -> None:
    swapped = np.arange(90)
    swapped[[40, 41]] = 41, 40
    for matrix in (S[:, ORDER], S[ORDER], S[ORDER][:, swapped[ORDER]], S[:, ORDER].astype(np.float32)):
        assert re.search(OTHER_ORDER, told_of_columns_order(matrix))
    assert f"row 0 is column {int(np.argmax(ORDER == 0))}, " in told_of_columns_order(S[:, ORDER])


@pytest.mark.parametrize("to_read", [load_digits, load_breast_cancer, load_wine])
def test_features_of_as_many_rows_as_columns_are_told(to_read: Any) -> None:
    features, y = to_read(return_X_y=True)
    n = features.shape[1]
    rows = np.random.default_rng(0).permutation(len(features))[:n]
    square, y = features[rows], y[rows] % 2
    for estimator in (SimForestClassifier(n_estimators=2), SimForestOutlier(n_estimators=2)):
        with pytest.warns(DistforestWarning, match=naming("similarity: ", "row i", "column j")) as found:
            estimator.fit(square, y)
        assert len(found) == 1
    assert told_of_features(square[:12, :12]) == ""
    lacking = np.where(np.random.default_rng(1).random(square.shape) < 0.2, np.nan, square)
    assert told_of_features(lacking) != ""


@pytest.mark.parametrize("kind", ["similarity", "distance"])
@pytest.mark.parametrize("form", [np.asarray, observed])
def test_objects_that_are_compared_with_no_other_are_told(kind: str, form: Any, tmp_path: Path) -> None:
    matrix = S.copy() if kind == "similarity" else 1.0 - S
    for alone, which in (([3], ["row 3"]), ([3, 8], ["2 rows", "row 3"])):
        lacking = matrix.copy()
        lacking[alone], lacking[:, alone] = np.nan, np.nan
        lacking[3, 3] = matrix[3, 3]
        with pytest.warns(DistforestWarning, match=naming(f"X: no {kind} ", *which)):
            SimForestClassifier(kind=kind, n_estimators=2).fit(form(lacking), Y)
    assert told_of_alone(matrix, kind) == told_of_alone(np.full((4, 4), np.nan), kind) == ""
    if form is np.asarray:
        write_arrays(f"{tmp_path}/a.zarr", S=lacking, y=Y)
        reading = SIMILARITIES if kind == "similarity" else DISSIMILARITIES
        wanted = [
            Wanted("similarity", f"{tmp_path}/a.zarr/S", Role.MATRIX, reading),
            Wanted("labels", f"{tmp_path}/a.zarr/y", Role.TRUTH, AS_IT_IS),
        ]
        place = StagingPlace(str(tmp_path / "job"), ScratchFolder(tmp_path / "scratch"))
        with pytest.warns(DistforestWarning, match=naming(f"S: no {kind} ", "2 rows", "row 3")):
            stage_arrays(wanted, TruthKind.LABELS, place)


class Counted(np.ndarray):  # type: ignore[type-arg]
    """Similarities that count what is read of them."""

    n_read = 0

    def __getitem__(self, key: Any) -> Any:
        found = np.asarray(super().__getitem__(key))
        Counted.n_read += found.size
        return found


def test_whether_objects_are_alone_is_known_from_a_few_values_of_each_row() -> None:
    for holes in (0.0, 0.9):
        matrix = np.where(RNG.random((700, 700)) < holes, np.nan, 1.0)
        np.fill_diagonal(matrix, 1.0)
        matrix[5, 6:] = matrix[5, :5] = np.nan
        matrix[7, :699], matrix[7, 699] = np.nan, 0.5
        Counted.n_read = 0
        assert told_of_alone(matrix.view(Counted), "similarity").startswith("no similarity of row 5 ")
        assert Counted.n_read < matrix.size / 5


def test_similarities_that_are_not_symmetric_are_no_features() -> None:
    ranks = np.argsort(np.argsort(-S, axis=1), axis=1)
    shares = S - np.eye(90)
    shares /= shares.sum(axis=1, keepdims=True)
    nearest = (ranks < 10) & (ranks > 0)
    loads = S * RNG.uniform(0.1, 9.0, 90)
    for matrix in (-ranks, shares, nearest, nearest * S, loads, loads.T, loads - np.diag(np.diag(loads)), S):
        assert told_of_features(matrix) == ""
    assert told_of_features(np.full((20, 20), np.nan)) == ""
    assert told_of_features(np.where(np.eye(20) > 0, RNG.random(20), np.nan)) == ""


def test_similarities_in_one_order_are_not_told() -> None:
    cosine = X @ X.T / np.outer(*[np.linalg.norm(X, axis=1)] * 2)
    right = {
        "symmetric": S,
        "permuted on both sides": S[ORDER][:, ORDER],
        "inner products": X @ X.T,
        "cosines": cosine,
        "not symmetric": S + 0.3 * RNG.random(S.shape),
        "equal": np.ones((5, 5)),
        "identity": np.eye(6),
        "the reverse": np.eye(6)[::-1],  # is symmetric, too
        "small": S[:2, :2],
        "holes": np.where(RNG.random(S.shape) < 0.3, np.nan, S),
        "booleans": S > 0.3,
        "signs": np.sign(X @ X.T),
        "whole numbers": np.rint(3 * X @ X.T).astype(np.int64),
        "negative distances": -np.abs(X[:, None] - X).sum(axis=2),
        "one below": np.where(S[3, 4] == S, -1.0, S),
    }
    for name, matrix in right.items():
        assert told_of_similarity_doubts(matrix) == "", name


def test_one_number_below_all_others_is_told() -> None:
    for mark in (-1.0, -9999.0):
        for matrix in (marked(mark), marked(mark).astype(np.float32), np.rint(1000 * marked(mark))):
            assert told_of_marked_similarities(matrix).startswith("all ")
    many = marked(-1.0)
    n = np.count_nonzero(many == -1)
    assert re.match(naming(f"all {n:,} ", "-1,", "row"), told_of_marked_similarities(many))
    tall = np.tile(many, (SAMPLED_ROWS // 45, 1))  # of which only some rows are sampled
    assert f"all {n * (SAMPLED_ROWS // 45):,} " in told_of_marked_similarities(tall)
    assert told_of_marked_similarities(np.where(many == -1, -0.5, many)) == ""
    many[7, 8] = -2.0
    assert told_of_marked_similarities(many) == ""


def test_fits_and_jobs_tell(tmp_path: Path) -> None:
    data = write_arrays(f"{tmp_path}/d.zarr", y=Y)
    for name, matrix, told in (("order", S[:, ORDER], OTHER_ORDER), ("marks", marked(-1.0), " -1, ")):
        with pytest.warns(DistforestWarning, match=f"^similarity: .*{told}"):
            SimForestClassifier(n_estimators=2, random_state=0).fit(matrix, Y)
        with pytest.warns(DistforestWarning, match=f"^similarity: .*{told}"):
            SimForestOutlier(n_estimators=2, random_state=0).fit(matrix)
        write_arrays(data, **{name: matrix})
        spec = job_spec(tmp_path, "simforest", similarity=f"{data}/{name}", labels=f"{data}/y")
        with pytest.warns(DistforestWarning, match=f"{name}: .*{told}"):
            check_and_stage(spec, f"{tmp_path}/job")


@pytest.mark.parametrize("mark", [9999.0, -9999.0, 1e6, 99.0])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.8])
def test_a_number_far_from_all_others_is_told(mark: float, share: float) -> None:
    chosen = np.triu(RNG.random(S.shape) < share, 1)
    chosen |= chosen.T
    apart = np.linalg.norm(X[:, None] - X, axis=2)
    assert f" {mark:g}, " in told_of_far_mark(np.where(chosen, mark, S), "similarity")
    distances = np.where(chosen, abs(mark), apart)
    assert f" {abs(mark):g}, " in told_of_far_mark(-(distances**2) / 2, "distance")
    for estimator in (SimForestClassifier, SimForestOutlier):
        with pytest.warns(DistforestWarning, match=naming("distance: ", f" {abs(mark):g}, ")):
            estimator(kind="distance", n_estimators=2, random_state=0).fit(distances, Y)


def test_far_numbers_that_differ_and_few_of_them_are_not_told() -> None:
    apart = np.linalg.norm(X[:, None] - X, axis=2)
    assert not told_of_far_mark(S, "similarity") + told_of_far_mark(-(apart**2) / 2, "distance")
    apart[3], apart[:, 3] = 1000 * apart[3], 1000 * apart[:, 3]
    assert not told_of_far_mark(-(apart**2) / 2, "distance")
    some = S.copy()
    some[2, 7:10] = some[7:10, 2] = 9999
    assert not told_of_far_mark(some, "similarity")
    assert not told_of_far_mark(np.where(RNG.random(S.shape) < 0.5, 0.0, 1.0), "similarity")
    assert not told_of_far_mark(np.full((20, 20), np.nan), "similarity")


def test_values_that_are_all_the_same_and_unknown_distances_to_oneself_are_told() -> None:
    same = 1.0 - np.eye(90)
    with pytest.warns(DistforestWarning, match=naming("all distances ", " 1, ")):
        SimForestClassifier(kind="distance", n_estimators=2, random_state=0).fit(same, Y)
    assert not told_of_far_mark(np.ones((90, 90)), "similarity") + told_of_far_mark(np.eye(90), "similarity")
    apart = np.linalg.norm(X[:, None] - X, axis=2)
    apart[[3, 5], [3, 5]] = np.nan
    with pytest.warns(DistforestWarning, match=naming("distances: 2 of 90 rows ", "NaN")):
        SimForestOutlier(kind="distance", random_state=0).fit(apart)


def test_what_a_sample_of_rows_does_not_see_is_not_told_of_all() -> None:
    group = np.arange(1000) // 4  # no two of the rows that are read belong to one
    apart = np.where(group[:, None] == group, 0.5, 1.0)
    np.fill_diagonal(apart, 0.0)
    assert not told_of_far_mark(-(apart**2) / 2, "distance")
    assert not told_of_far_mark((2 * (1 - apart)).astype(np.int32) + 1, "similarity")
    same = np.ones((1000, 1000), np.int32) + np.eye(1000, dtype=np.int32)
    assert " 1, " in told_of_far_mark(same, "similarity")


def test_similarities_beyond_a_threshold_that_are_0_are_no_mark() -> None:
    near = 1 - np.abs(np.subtract.outer(np.arange(300) / 300, np.arange(300) / 300))
    assert not told_of_far_mark(np.where(near < 0.92, 0.0, near), "similarity")


def test_a_mark_is_told_once(recwarn: pytest.WarningsRecorder) -> None:
    SimForestClassifier(n_estimators=20, random_state=0).fit(marked(-9999), Y)
    assert sum("-9999" in str(warning.message) for warning in recwarn) == 1


def test_a_far_similarity_is_told() -> None:
    with pytest.warns(DistforestWarning, match=naming("similarity: ", " 9999, ")):
        SimForestClassifier(n_estimators=20, random_state=0).fit(marked(9999), Y)


def test_a_job_tells_of_a_far_number(tmp_path: Path) -> None:
    apart = np.where(S < 0.01, 9999.0, -np.log(S))
    write_arrays(f"{tmp_path}/t.zarr", D=apart)
    place = StagingPlace(str(tmp_path / "job"), ScratchFolder(str(tmp_path / "scratch")))
    wanted = [Wanted("similarity", f"{tmp_path}/t.zarr/D", Role.MATRIX, DISSIMILARITIES)]
    with pytest.warns(DistforestWarning, match=naming("t.zarr/D: ", 9999)):
        stage_arrays(wanted, TruthKind.NOTHING, place)
