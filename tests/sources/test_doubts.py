"""What is told of what may be read otherwise than it was meant, and the plain data that are read in silence."""

from __future__ import annotations

import math
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import zarr
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances
from sklearn.preprocessing import StandardScaler, normalize

from distforest import (
    RFD,
    SMERF,
    Distances,
    Embedding,
    Graph,
    SimForestClassifier,
    SimForestOutlier,
    SimForestRegressor,
    Targets,
    TreeRank,
    URerF,
)
from distforest.errors import DistforestWarning
from distforest.estimators.pair_columns import PlugIn, SharedLeaves
from distforest.jobs.staging import stage_inputs
from distforest.sources import doubts
from distforest.sources.arrays import write_array
from distforest.sources.distance_doubts import SeenDistances, told_of_truth
from distforest.sources.doubts import (
    Sample,
    told_of_amounts,
    told_of_gamma,
    told_of_marks,
    told_of_rounding,
    told_of_scales,
    told_of_spellings,
)
from distforest.sources.files.ingest import ingest
from distforest.sources.schema import Schema
from distforest.sources.scratch import ScratchFolder
from distforest.sources.sparse_features import read_sparse_features
from distforest.sources.sparse_store import write_sparse
from tests import simulated
from tests.messages import naming
from tests.sources.helpers import job_spec, warned

pytestmark = pytest.mark.filterwarnings("ignore:no tree")  # what follows from what is doubted

RNG = np.random.default_rng(5)
SETS = {load.__name__: load(return_X_y=True) for load in (load_iris, load_wine, load_breast_cancer, load_diabetes)}
SECONDS = 1.7e9 + np.arange(1000.0)
FOREST = {"n_estimators": 2, "random_state": 0}


def sampled(values: Any) -> Sample:
    """The sample of a matrix that comes in one block, a vector as its only column."""
    sample = Sample()
    array = np.asarray(values)
    sample.see(array.reshape(len(array), -1), 0)
    return sample


def apart(points: np.ndarray, metric: str = "euclidean") -> np.ndarray:
    return pairwise_distances(points, metric=metric)


def staged(tmp_path: Path, method: str, own: dict[str, Any], arrays: dict[str, Any]) -> Any:
    """Stage a job whose arrays are written first; ``own`` names them."""
    group = str(tmp_path / f"{len(list(tmp_path.iterdir()))}.zarr")
    places = {}
    for name, values in arrays.items():
        if scipy.sparse.issparse(values):
            places[name] = f"{group}.{name}"
            write_sparse(places[name], values)
        else:
            places[name] = f"{group}/{name}"
            write_array(group, name, values.shape, values.dtype, [values], chunk_bytes=1 << 12)

    def at(value: Any) -> Any:
        return {key: at(one) for key, one in value.items()} if isinstance(value, dict) else places.get(value, value)

    return stage_inputs(job_spec(tmp_path, method, **at(own)), f"{tmp_path}/job")


# --- features that float32 does not tell apart ------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (SECONDS, ["9 of 1,000", "1,000 rows", "subtract", 1700000000]),
        (SECONDS.astype(np.int64), ["9 of 1,000", "subtract", 1700000000]),
        (np.uint64(2**63) + np.arange(50, dtype=np.uint64), ["1 of 50 ", "subtract", "9.223372037e"]),
        (1e9 + RNG.normal(size=500), ["1 of 500 ", "subtract", 99999999]),
        (-1e9 + RNG.normal(size=500), ["1 of 500 ", "subtract", -1000000003]),
        (RNG.random(300) * 1e-300, ["1 of 300 ", "multiply", "logarithm"]),
        (np.repeat([0.0, 1e-300], 50), ["1 of 2 ", "multiply"]),
        (np.repeat([1000000001, 1000000002, 1000000003], 50), ["1 of 3 "]),
        (10.0 ** -(RNG.random(1000) * 200), ["of 1,000 ", "logarithm"]),
    ],
    ids=["time", "time as integers", "beyond int64", "offset", "below 0", "tiny", "tiny or 0", "numbers", "p-values"],
)
def test_a_column_whose_values_become_equal_is_told(values: np.ndarray, named: list[object]) -> None:
    assert re.search(naming("float32", "column 0", *named), told_of_rounding(sampled(values)))


@pytest.mark.parametrize(
    "values",
    [
        1.7e9 + RNG.uniform(0, 3e7, 5000),
        1.7e9 + 60.0 * np.arange(7 * 1440),
        RNG.integers(10**9, 10**10, 5000),
        np.append(RNG.normal(size=500), [0.3, 0.1 + 0.2]),
        np.append(a := np.round(RNG.normal(size=500), 1), a.astype(np.float32)),
        1.0 + RNG.integers(-3, 4, 500) * 2.0**-52,
        np.array([sum(RNG.permutation([0.1, 0.2, 0.3, 0.4, 0.7])) for _ in range(300)]),
        -122.4 + RNG.uniform(0, 0.1, 5000),
        101325 + np.round(RNG.normal(size=5000) * 100, 2),
        np.repeat([0.0, -0.0, 1.0], 30),
        np.full(40, 1.7e9),
        np.array([0.1]),
    ],
    ids=[
        *("times of a year", "minutes of a week", "ten digits", "a near tie", "both precisions", "a constant in float"),
        *("sums in any order", "longitudes", "pressure", "zeros", "one value", "one row"),
    ],
)
def test_what_float32_tells_apart_well_enough_is_no_matter(values: np.ndarray) -> None:
    assert told_of_rounding(sampled(values)) == ""


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("form", ["raw", "scaled", "components", "lengths"])
def test_real_features_are_read_in_silence(name: str, form: str) -> None:
    X = SETS[name][0]
    forms = {"raw": X, "scaled": StandardScaler().fit_transform(X), "components": PCA().fit_transform(X)}
    forms["lengths"] = np.c_[(normalize(X) ** 2).sum(axis=1), np.sqrt((normalize(X) ** 2).sum(axis=1))]
    assert told_of_rounding(sampled(forms[form])) == ""


def test_several_columns_are_one_warning_and_go_by_their_names() -> None:
    values = np.c_[SECONDS, RNG.normal(size=1000), SECONDS, SECONDS, SECONDS, SECONDS]
    told = told_of_rounding(sampled(values), Schema.of_names(("time", "x", "start", "end", "seen", "last")))
    assert re.search("column 'time'.*1700000000.*column 'start', column 'end', column 'seen' and 1 more$", told)


@pytest.mark.slow
@given(st.lists(st.integers(1, 1500), min_size=1, max_size=6))
def test_a_sample_does_not_depend_on_the_blocks(sizes: list[int]) -> None:
    values = np.arange(2.0 * sum(sizes)).reshape(-1, 2)
    whole, parts, first = sampled(values), Sample(), 0
    for size in sizes:
        parts.see(values[first : first + size], first)
        first += size
    assert parts.n_rows == len(values)
    assert sorted(parts.rows().tolist()) == sorted(whole.rows().tolist())
    assert len(parts.rows()) == min(len(values), doubts.MOST_ROWS)


@pytest.mark.slow
def test_a_sample_is_small_whatever_the_columns_and_even() -> None:
    sample = Sample()
    for first in range(0, 20000, 4000):
        sample.see(np.arange(first, first + 4000.0)[:, None], first)
    assert abs(sample.rows().mean() - 10000) < 500
    assert "in 2,000 of 20,000 rows" in told_of_rounding(sampled(1.7e9 + np.arange(20000) / 100))
    wide = sampled(np.zeros((50, 1 << 17)))
    assert len(wide.rows()) == doubts.FEWEST_ROWS


@pytest.mark.parametrize("dtype", ["float32", "float16", "int16", "uint8", "bool"])
def test_what_fits_into_float32_is_not_sampled(dtype: str) -> None:
    assert sampled(np.ones((50, 3), dtype)).rows().size == 0


@pytest.mark.parametrize(
    "forest",
    [
        *(SMERF(**FOREST), URerF(**FOREST), RFD(**FOREST), TreeRank(2, n_pairs=500, random_state=0)),
        *(SimForestClassifier("rbf", gamma=1e-5, **FOREST), SimForestClassifier("feature_subsets", **FOREST)),
    ],
    ids=lambda forest: f"{type(forest).__name__} {getattr(forest, 'similarity', '')}",
)
def test_each_forest_tells_of_such_features_once_by_name(forest: Any) -> None:
    y = np.arange(1000) % 2
    frame = pd.DataFrame({"x": RNG.normal(size=1000) * 100, "time": SECONDS})
    with pytest.warns(DistforestWarning, match=naming("float32", "9 of 1,000", "column 'time'")) as caught:
        forest.fit(frame, y)
    assert [one.filename for one in caught] == [__file__]
    frame["time"] -= 1.7e9
    forest.fit(frame, y)  # as it was advised
    forest.fit(frame.astype(np.float32), y)


def test_a_warning_is_at_the_users_line_even_where_scikit_learn_calls() -> None:
    with pytest.warns(DistforestWarning, match="column 0") as caught:
        SMERF(**FOREST).fit_transform(SECONDS[:, None], np.arange(1000) % 2)
    assert caught[0].filename == __file__


def test_features_on_disk_are_told_of_as_they_are_staged_and_only_then(tmp_path: Path) -> None:
    values = np.c_[RNG.normal(size=1000), SECONDS]
    with pytest.warns(DistforestWarning, match=naming("zarr/X: ", "9 of 1,000", "column 1 ")):
        inputs = staged(tmp_path, "urerf", {"features": "X"}, {"X": values})
    inputs.matrix.open(ScratchFolder(tmp_path / "of another host"))
    array = zarr.create_array(str(tmp_path / "named.zarr"), shape=(1000, 2), dtype="float64", chunks=(64, 1))
    array[...] = values
    array.attrs["feature_names"] = ["x", "time"]
    with pytest.warns(DistforestWarning, match=naming("9 of 1,000", "column 'time'")):
        SMERF(**FOREST).fit(array, np.arange(1000) % 2)


def test_ingest_tells_of_features_and_a_job_on_them_does_not(tmp_path: Path) -> None:
    lines = "\n".join(f"{row % 7},{row / 7:.3f},{time:.0f}" for row, time in enumerate(SECONDS))
    (tmp_path / "rows.csv").write_text(f"kind,x,time\n{lines}")
    with pytest.warns(DistforestWarning, match=naming("rows.csv: ", "9 of 1,000", "column 'time'")):
        ingest(str(tmp_path / "rows.csv"), str(tmp_path / "rows.zarr"), label="kind")
    own = {"features": f"{tmp_path}/rows.zarr/X", "labels": f"{tmp_path}/rows.zarr/y"}
    staged(tmp_path, "rfd", own, {})


SPARSE_TIMES = np.zeros((1000, 3))
"""The second column holds a time in every fifth row, and 0, which stands for none, in the others."""
SPARSE_TIMES[::5, 1] = SECONDS[::5]
SPARSE_TIMES[:, 0] = np.arange(1000) % 3


def seen_sparse(matrix: Any) -> Sample:
    sample = Sample()
    read_sparse_features(matrix, sample)
    return sample


@pytest.mark.parametrize("dense", [False, True])
def test_a_column_of_amounts_and_zeros_keeps_its_zeros_when_it_is_mended(dense: bool) -> None:
    matrix = scipy.sparse.csr_array(SPARSE_TIMES)
    told = told_of_rounding(sampled(SPARSE_TIMES) if dense else seen_sparse(matrix))
    assert re.search(naming("float32", "10 of 201 ", "column 1 ", "1,000 rows", "ranks"), told)
    ranks = matrix.copy()
    ranks.data[ranks.data > 10] = 1.0 + np.arange(200)  # as it was advised
    assert told_of_rounding(sampled(ranks.toarray()) if dense else seen_sparse(ranks)) == ""


@pytest.mark.slow
@given(
    st.integers(0, 9999),
    st.integers(1, 30),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]),
    st.sampled_from([(1.0, "f8"), (2.0**-60, "f8"), (1e-300, "f8"), (1, "i8"), (1e-9, "f8")]),
    st.sampled_from([0.0, 1.0, 1e9, -(2.0**26)]),
)
def test_sparse_columns_are_told_as_dense_ones(
    seed: int, n_rows: int, n_columns: int, share: float, unit: tuple[float, str], start: float
) -> None:
    rng = np.random.default_rng(seed)
    values = (start + unit[0] * rng.integers(1, 12, (n_rows, n_columns))).astype(unit[1])
    values[rng.random(values.shape) > share] = 0
    for container in (scipy.sparse.csr_array, scipy.sparse.csc_matrix, scipy.sparse.coo_array):
        assert told_of_rounding(seen_sparse(container(values))) == told_of_rounding(sampled(values))


def test_sparse_features_of_any_kind_that_float32_tells_apart_are_read_in_silence() -> None:
    counts = RNG.poisson(0.1, (3000, 40))
    shares = normalize(counts.astype(np.float64) * np.log(RNG.integers(2, 2000, 40)))
    for values in (counts, shares, shares.astype(np.float32), counts > 0, np.zeros((4, 3))):
        assert told_of_rounding(seen_sparse(scipy.sparse.csr_array(values))) == ""


def test_of_a_large_sparse_matrix_some_rows_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doubts, "MOST_CELLS", 600)
    matrix = scipy.sparse.csr_array(SPARSE_TIMES)
    told, n_rows = told_of_rounding(seen_sparse(matrix)), 600 * 1000 // matrix.nnz
    assert f"column 1 in {n_rows} of 1,000 rows" in told


def test_fits_and_jobs_tell_of_sparse_features(tmp_path: Path) -> None:
    matrix, y = scipy.sparse.csr_array(SPARSE_TIMES), np.arange(1000) % 2
    with pytest.warns(DistforestWarning, match=naming("10 of 201 ", "column 1 ")) as caught:
        SMERF(**FOREST).fit(matrix, y)
    assert [one.filename for one in caught] == [__file__]
    SMERF(**FOREST).fit(matrix.astype(np.float32), y)
    own = {"features": "X", "distances": {"kind": "labels", "values": "y"}}
    with pytest.warns(DistforestWarning, match=naming("zarr.X: ", "10 of 201 ", "column 1 ")):
        staged(tmp_path, "smerf", own, {"X": matrix, "y": y})


# --- similarities given as distances, and marks for what is unknown ---------------------------------------


POINTS = RNG.normal(size=(40, 2))
TRUE = apart(POINTS)
TAUGHT = np.arange(40) % 2
UNKNOWN = TRUE.copy()
UNKNOWN[3, 7] = UNKNOWN[7, 3] = UNKNOWN[5, 30] = UNKNOWN[30, 5] = -1
OWN_1 = TRUE.copy()
OWN_1[9, 9] = OWN_1[12, 12] = 3.0


def legal_distances() -> dict[str, np.ndarray]:
    """Distances as people have them: of any metric, squared, rounded, in float32, or with noise where 0 is meant."""
    X = SETS["load_breast_cancer"][0][:120]
    metrics = ("euclidean", "sqeuclidean", "cosine", "correlation", "cityblock", "chebyshev", "canberra")
    found = {metric: apart(X, metric) for metric in metrics}
    single = X.astype(np.float32)
    squares = (single**2).sum(axis=1)
    found["squared in float32"] = squares[:, None] + squares - 2 * single @ single.T
    found["whole numbers by rounding"] = np.where(np.eye(120) > 0, -2.0, 8.7e6).astype(np.float32)
    found["root of it"] = np.sqrt(np.maximum(found["squared in float32"], 0))
    found["root of a cosine"] = np.sqrt(np.maximum(2 - 2 * (normalize(X) @ normalize(X).T), 0))
    scaled = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    found["Gower"] = np.abs(scaled[:, None] - scaled).mean(axis=2)
    found["one far row"] = apart(np.vstack([X, 1e9 * np.ones(X.shape[1])]))
    found["all 0"] = np.zeros((5, 5))
    found["of integers"] = np.rint(found["cityblock"]).astype(np.int64)
    return found


LEGAL = legal_distances()


@pytest.mark.parametrize("name", LEGAL)
def test_distances_as_people_have_them_are_read_in_silence(name: str) -> None:
    Z = LEGAL[name]
    seen = SeenDistances()
    for first in range(0, len(Z), 50):
        seen.see(Z[first : first + 50], first)
    assert seen.told("kind='similarity'") == ""
    assert told_of_truth(((Z + Z.T) / 2).astype(np.float32)) == ""


@pytest.mark.parametrize("make", [simulated.bilinear, simulated.radial, simulated.regression])
def test_the_papers_distances_are_learned_in_silence(make: Any) -> None:
    data = make(60, random_state=0)
    SMERF(**FOREST).fit(data.X, data.Z)
    SMERF(**FOREST).fit(data.X, Distances(data.Z - 1.0))  # of any sign


@pytest.mark.parametrize(
    "Z",
    [
        *(Distances(TRUE), Graph((TRUE < 1).astype(int)), -np.exp(-(TRUE**2)), -POINTS @ POINTS.T, TRUE + 1e7),
        *(Embedding(POINTS), Targets(POINTS[:, 0]), np.array([[0.5]])),
    ],
    ids=["Distances", "Graph", "less an rbf", "less products", "an offset", "Embedding", "Targets", "one row"],
)
def test_smerf_takes_distances_of_any_sign_and_diagonal(Z: Any) -> None:
    SMERF(**FOREST).fit(POINTS[: len(Z)], Z)


@pytest.mark.parametrize("name", SETS)
def test_similarities_that_smerf_is_given_as_distances_are_told(name: str) -> None:
    X = StandardScaler().fit_transform(SETS[name][0])[:100]
    for S in (np.exp(-(apart(X) ** 2) / X.shape[1]), X @ X.T, 1 - apart(X) / apart(X).max(), np.corrcoef(X)):
        with pytest.warns(DistforestWarning, match=naming("distances: ", "row 0 ", "1 - S")) as caught:
            SMERF(**FOREST).fit(X, S)
        assert {one.filename for one in caught} == {__file__}


@pytest.mark.parametrize(
    ("Z", "named"),
    [
        (UNKNOWN, ["all 4 ", "-1,", "row 3, column 7", "NaN"]),
        (np.where(UNKNOWN < 0, -9999, UNKNOWN), ["all 4 ", -9999, "row 3, column 7"]),
        (UNKNOWN * np.where(UNKNOWN < 0, 1, 1e7), ["all 4 ", "-1,"]),
        (OWN_1, ["2 of 40 ", "row 9, column 9"]),
        (TRUE + np.diag(np.full(40, 99.0)), ["row 0 ", 99]),
    ],
    ids=["-1", "-9999", "-1 among large ones", "a few rows", "a diagonal filled for a search"],
)
def test_marks_among_the_distances_of_smerf_are_told(Z: np.ndarray, named: list[object], tmp_path: Path) -> None:
    with pytest.warns(DistforestWarning, match=naming("distances: ", *named)):
        forest = SMERF(**FOREST).fit(POINTS, Z)
    forest.score(POINTS, Z)  # once is enough
    with pytest.warns(DistforestWarning, match=naming("zarr/Z: ", *named)):
        staged(tmp_path, "smerf", {"features": "X", "distances": "Z"}, {"X": POINTS, "Z": Z})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("D", "named"),
    [
        (UNKNOWN, ["4 ", "-1 at row 3, column 7", "NaN"]),
        (UNKNOWN * np.where(UNKNOWN < 0, 1, 1e7), ["4 ", "-1 at row 3"]),
        (np.where(UNKNOWN < 0, -9999, UNKNOWN), ["4 ", "-9999 at row 3, column 7"]),
        (OWN_1, ["2 of 40 ", "3 at row 9, column 9"]),
        (np.exp(-(TRUE**2)), ["40 of 40 ", "1 at row 0, column 0", "similarities"]),
        (np.corrcoef(POINTS @ RNG.normal(size=(2, 9))), ["40 of 40 ", "similarities", "below 0"]),
    ],
    ids=["-1", "-1 among large ones", "-9999", "a few rows", "similarities", "correlations"],
)
def test_what_no_distance_is_is_told_by_simforest(D: np.ndarray, named: list[str], tmp_path: Path) -> None:
    told = naming("distances: ", *named)
    for forest in (SimForestClassifier(kind="distance", **FOREST), SimForestRegressor(kind="distance", **FOREST)):
        with pytest.warns(DistforestWarning, match=told) as caught:
            forest.fit(D, TAUGHT)
        assert [one.filename for one in caught if "distances: " in str(one.message)] == [__file__]
    with pytest.warns(DistforestWarning, match=told):
        SimForestOutlier(kind="distance", **FOREST).fit(D)
    stored = scipy.sparse.csr_array(np.where(np.isnan(D), 0, D))
    with pytest.warns(DistforestWarning, match=told):
        SimForestClassifier(kind="distance", **FOREST).fit(stored, TAUGHT)
    for matrix in (D, stored):
        own = {"similarity": {"kind": "dense", "matrix": "D", "measure": "distance"}, "labels": "y"}
        with pytest.warns(DistforestWarning, match=naming("D: ", *named)):
            staged(tmp_path, "simforest", own, {"D": matrix, "y": TAUGHT})


def test_distances_that_are_unknown_by_nan_are_read_in_silence() -> None:
    D = np.where(UNKNOWN < 0, np.nan, UNKNOWN)
    np.fill_diagonal(D, 0.0)
    SimForestClassifier(kind="distance", **FOREST).fit(D, TAUGHT)
    SimForestClassifier(kind="distance", **FOREST).fit(scipy.sparse.csr_array(TRUE * (TRUE < 2)), TAUGHT)
    seen = SeenDistances()
    seen.see(TRUE > 1, 0)  # of any dtype
    assert seen.told("") == ""


# --- amounts as labels ------------------------------------------------------------------------------------


def identities(X: np.ndarray, n: int, seed: int = 0) -> np.ndarray:
    """Numbers of things: rows that are alike have one of them, dealt out at random."""
    rng = np.random.default_rng(seed)
    return rng.permutation(n)[apart(X, "euclidean")[:, rng.choice(len(X), n, replace=False)].argmin(axis=1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forest", "cure"),
    [
        (RFD(**FOREST), "fit_pairs"),
        (TreeRank(2, n_pairs=500, random_state=0), "fit_pairs"),
        (SimForestClassifier("rbf", **FOREST), "SimForestRegressor"),
    ],
    ids=["RFD", "TreeRank", "SimForestClassifier"],
)
def test_whole_amounts_are_told_with_what_this_forest_can_do(forest: Any, cure: str) -> None:
    X, y = SETS["load_diabetes"]
    for amounts in (y, y.astype(np.int64)):
        with pytest.warns(DistforestWarning, match=naming("labels: ", 214, "column 2 ", 0.69, cure)) as caught:
            forest.fit(X, amounts)
        assert [one.filename for one in caught] == [__file__]
    forest.fit(X, y.astype(str))  # names


def test_the_order_of_labels_is_not_looked_for_in_further_columns_of_a_pair() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=300), "y": rng.normal(size=300)})
    columns = [PlugIn(5), SharedLeaves(URerF(5, min_samples_split=9, random_state=0))]
    TreeRank(2, n_pairs=500, pair_columns=columns, random_state=0).fit(frame, np.arange(300) % 60)


@pytest.mark.slow
@pytest.mark.parametrize("n", [35, 60, 100])
def test_numbers_of_things_are_labels(n: int) -> None:
    X = load_digits().data[:600]
    for seed in range(5):
        y = identities(X, n, seed)
        assert told_of_amounts(y)
        assert told_of_amounts(y, X) == ""
    RFD(**FOREST).fit(X, y)
    SimForestClassifier(**FOREST).fit(X @ X.T, y)
    SimForestClassifier("rbf", **FOREST).fit(X, y)


def test_labels_of_less_than_two_rows_each_are_told_once_whatever_they_follow() -> None:
    X = POINTS[np.arange(60) % 40]
    for forest in (RFD(**FOREST), SimForestClassifier("linear", **FOREST)):
        with pytest.warns(DistforestWarning, match=naming("labels: ", 35, "60 rows")) as caught:
            forest.fit(X, np.arange(60) * 37 % 35)
        assert len(caught) == 1  # nothing beside it by scikit-learn


def test_the_order_of_labels_is_looked_for_in_columns_that_say_something() -> None:
    ages = np.arange(600) % 60
    constant, unknown = np.ones((600, 1)), np.full((600, 1), np.nan)
    rare = (ages == 3).astype(float)[:, None]  # ties, which are in no order
    assert told_of_amounts(ages, np.hstack([constant, unknown, rare])) == ""
    assert told_of_amounts(ages, np.empty((600, 0))) == ""
    assert told_of_amounts(ages, np.ones((9, 2))) == ""  # refused elsewhere
    rng = np.random.default_rng(0)
    columns = np.hstack([constant, unknown, -ages[:, None] + 30 * rng.normal(size=(600, 1))])
    assert re.search(r"column 2 .*-0\.\d+", told_of_amounts(ages, columns))
    wide = np.hstack([rng.normal(size=(600, 2000)), ages[:, None] + rng.normal(size=(600, 700))])
    assert re.search(r"column 2\d\d\d", told_of_amounts(ages, wide))


# --- words that differ in case or blanks only ------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["no", "yes", "NO"], ["'no' and 'NO'"]),
        (["a b", " a  b "], ["'a b' and ' a  b '"]),
        (["1", "2", "1.0"], ["'1' and '1.0'", "'.0'"]),
        (["Straße", "STRASSE", "x", "X ", "X"], ["'Straße' and 'STRASSE'", "2 other"]),
    ],
)
def test_words_that_differ_in_case_or_blanks_are_told(words: list[str], named: list[str]) -> None:
    assert re.match(naming("labels ", *named), told_of_spellings(words, "labels"))
    assert (
        told_of_spellings(["a", "ä", "b", 1, 1.0, True, "ab", "a-b", "1", "01", "1.5", "10", "1.0.0"], "labels") == ""
    )


def test_labels_and_categories_of_two_spellings_are_told_in_python_and_in_a_job(tmp_path: Path) -> None:
    X, y = SETS["load_iris"]
    names = np.array(["one", "two", "three"])[y]
    names = np.where(np.arange(len(y)) == 7, "One", names)
    told = "'One' and 'one'"
    for forest in (SimForestClassifier("manhattan", **FOREST), RFD(**FOREST), SMERF(**FOREST)):
        with pytest.warns(DistforestWarning, match=naming("labels ", told)) as caught:
            forest.fit(X, names)
        assert [one.filename for one in caught] == [__file__]
    with pytest.warns(DistforestWarning, match=naming("X: column 'word': ", told)):
        SMERF(**FOREST).fit(pd.DataFrame({"x": X[:, 0], "word": names}), y)
    codes = np.unique(names, return_inverse=True)[1]
    group = zarr.open_group(str(tmp_path / "own.zarr"), mode="w")
    group.create_array("y", data=codes).attrs["classes"] = np.unique(names).tolist()
    group.create_array("X", data=X.astype(np.float32))
    given = {"features": f"{tmp_path}/own.zarr/X", "distances": {"kind": "labels", "values": f"{tmp_path}/own.zarr/y"}}
    with pytest.warns(DistforestWarning, match=naming("labels ", told)):
        stage_inputs(job_spec(tmp_path, "smerf", **given), f"{tmp_path}/job")


# --- one column that is nearly all of a similarity --------------------------------------------------------


@pytest.mark.parametrize("similarity", ["linear", "rbf"])
def test_a_column_that_hides_all_others_is_told_by_name(similarity: str) -> None:
    wine = load_wine(as_frame=True)
    told = naming("column 'proline'", f"'{similarity}'", 280, "column 'magnesium'", 11.3)
    for forest in (SimForestClassifier(similarity, **FOREST), SimForestRegressor(similarity, **FOREST)):
        with pytest.warns(DistforestWarning, match=told) as caught:
            forest.fit(wine.data, wine.target)
        assert [one.filename for one in caught] == [__file__]
        forest.fit(StandardScaler().fit_transform(wine.data), wine.target)


@pytest.mark.parametrize("name", [name for name in SETS if name != "load_wine"])
@pytest.mark.parametrize("similarity", ["linear", "rbf", "cosine", "manhattan"])
def test_columns_that_all_count_are_no_matter(name: str, similarity: str) -> None:
    X = SETS[name][0].astype(np.float32)
    assert told_of_scales(X, similarity) == told_of_scales(X, similarity, random_cuts=True) == ""


@pytest.mark.parametrize("similarity", ["linear", "rbf", "cosine", "manhattan"])
def test_a_far_row_a_constant_and_a_single_column_hide_no_other(similarity: str) -> None:
    X = np.random.default_rng(0).normal(size=(80, 3)).astype(np.float32)
    X[7, 1] = 1e6
    forms = [X, np.c_[X[:, :1], np.full(80, 3)], X[:, :1], X[:2], np.zeros((9, 2)), np.c_[X[:, 0], np.eye(80)[:, 0]]]
    for form in forms:
        assert told_of_scales(form.astype(np.float32), similarity, random_cuts=True) == ""


def test_manhattan_is_hidden_from_cuts_at_random_places_alone() -> None:
    X = np.random.default_rng(0).normal(size=(200, 4)) * [1, 1, 1, 1000]
    SimForestClassifier("manhattan", **FOREST).fit(X, np.arange(200) % 2)
    with pytest.warns(DistforestWarning, match=naming("column 3 ", "'manhattan'")):
        SimForestOutlier("manhattan", **FOREST).fit(X)


@pytest.mark.parametrize("similarity", ["linear", "cosine"])
def test_a_column_beside_which_the_others_are_rounded_away_is_told(similarity: str) -> None:
    X = np.c_[np.random.default_rng(0).normal(size=(200, 3)), 1.7e9 + np.zeros(200)].astype(np.float32)
    told = told_of_scales(X, similarity)
    assert re.search(naming("column 3 ", "1.7e+09", f"'{similarity}'"), told)
    X[:, 3] = 1e5
    assert told_of_scales(X, similarity) == ""


def test_a_job_tells_of_a_column_that_hides_all_others(tmp_path: Path) -> None:
    X, y = SETS["load_wine"]
    own: dict[str, Any] = {"similarity": {"kind": "rbf", "features": "X"}, "labels": "y"}
    with pytest.warns(DistforestWarning, match=naming("similarity: column 12 ", "'rbf'")):
        staged(tmp_path, "simforest", own, {"X": X, "y": y})
    staged(tmp_path, "simforest", own, {"X": StandardScaler().fit_transform(X), "y": y})


def test_scales_are_those_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    X = (np.random.default_rng(0).normal(size=(3000, 4)) * [1, 1, 1, 1000]).astype(np.float32)
    told = told_of_scales(X, "linear")
    monkeypatch.setattr(doubts, "MOST_ROWS", 300)
    assert told_of_scales(X, "linear").startswith("column 3 ")
    assert told.startswith("column 3 ")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert told_of_scales(np.full((50, 2), math.pi, np.float32), "linear") == ""


# --- marks among features ---------------------------------------------------------------------------------

SCALED = {name: StandardScaler().fit_transform(X).astype(np.float32) for name, (X, _) in SETS.items()}


@pytest.mark.parametrize("name", SCALED)
@pytest.mark.parametrize("similarity", ["linear", "cosine", "rbf", "manhattan"])
def test_marks_of_missing_values_are_told_where_they_decide_a_similarity(name: str, similarity: str) -> None:
    X = SCALED[name].copy()
    X[[3, 8, 20], 2] = -9999.0
    X[[5, 8], 3] = 1e30
    told = told_of_marks(X, similarity, Schema.of_names(tuple(f"f{i}" for i in range(X.shape[1]))))
    if similarity == "manhattan":
        assert told == ""
    else:
        named = ("column 'f2' ", -9999, f"3 of {len(X):,} rows", "1 other column", repr(similarity), "NaN")
        assert re.search(naming(*named), told)
    assert told_of_marks(np.where(np.abs(X) > 100, np.float32(np.nan), X), similarity) == ""


@pytest.mark.parametrize("shift", [0.0, 5.0])
@pytest.mark.parametrize("scale", [-3.0, 1.0])
def test_marks_do_not_depend_on_order_shift_or_scale(shift: float, scale: float) -> None:
    X = SCALED["load_wine"].copy()
    X[[3, 8, 20], 2] = -9999.0
    expected = naming("column 2 ", "3 of 178 rows")
    assert re.match(expected, told_of_marks(X[RNG.permutation(len(X))] * scale + shift, "rbf"))


@pytest.mark.parametrize(
    "X",
    [
        np.where(np.arange(60)[:, None] == 7, 1e6, RNG.normal(size=(60, 3))),
        np.repeat([[0.0, 1e6]], 30, axis=0) * (np.arange(30)[:, None] % 3 == 0),
        np.exp(RNG.normal(size=(300, 4)) * 3),
        np.where(RNG.random((300, 1)) < 0.05, 1e4, 0.0) * np.ones((1, 3)),
        np.full((20, 3), np.nan),
        np.c_[np.full(20, np.nan), np.zeros(20)],
        np.empty((0, 3)),
    ],
    ids=["one far row", "two values", "log-normal", "mostly 0", "no value", "a column without", "no row"],
)
def test_far_values_that_are_no_marks_are_not_told_as_marks(X: np.ndarray) -> None:
    assert told_of_marks(X.astype(np.float32), "linear") == ""


def test_a_fit_and_a_job_tell_of_marks_once_and_nan_in_their_place_is_read_in_silence(tmp_path: Path) -> None:
    X, y = SCALED["load_wine"].copy(), SETS["load_wine"][1]
    X[RNG.random(X.shape) < 0.02] = -9999.0
    for forest in (SimForestClassifier("rbf", **FOREST), SimForestOutlier("cosine", **FOREST)):
        with pytest.warns(DistforestWarning, match=naming(-9999, "of 178 rows")) as caught:
            forest.fit(X, y)
        assert [one.filename for one in caught if "-9999" in str(one.message)] == [__file__]
    own = {"similarity": {"kind": "rbf", "features": "X"}, "labels": "y"}
    with pytest.warns(DistforestWarning, match=naming("similarity: column ", -9999, "of 178 rows")):
        staged(tmp_path, "simforest", own, {"X": X, "y": y})
    SimForestClassifier("rbf", **FOREST).fit(np.where(X < -99, np.nan, X), y)


# --- gamma ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("load", [load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine])
def test_the_default_gamma_of_real_features_is_not_told(load: Any) -> None:
    X = load(return_X_y=True)[0].astype(np.float32)
    for features in (X, StandardScaler().fit_transform(X).astype(np.float32), X * np.float32(1e6)):
        assert told_of_gamma(features, 1.0 / (features.shape[1] * float(features.var()))) == ""


def test_an_ordinary_gamma_costs_no_comparison_of_rows_with_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doubts, "_told_of_large_gamma", None)
    features = StandardScaler().fit_transform(load_wine(return_X_y=True)[0]).astype(np.float32)
    assert told_of_gamma(features, 1.0) == ""
    assert told_of_gamma(np.ones((9, 2), np.float32), 1e9) == ""  # all are alike


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
def test_a_gamma_that_leaves_objects_alone_is_told(load: Any) -> None:
    features = load(return_X_y=True)[0].astype(np.float32)
    assert told_of_gamma(features, 1e4).startswith("gamma=1e+04 ")
    assert told_of_gamma(np.repeat(features, 2, axis=0), 1e4) == ""  # each is there twice
    assert told_of_gamma(features[:7], 1e4) == ""
    scaled = ((features - features.mean(axis=0)) / features.std(axis=0)).astype(np.float32)
    for gamma in (0.01, 1.0, 10.0):
        assert told_of_gamma(scaled, gamma) == ""


@pytest.mark.parametrize("X", [np.ones((5, 2)), np.ones((1, 2)), np.full((5, 2), np.nan)])
def test_gamma_of_rows_that_are_alike_is_not_told(X: np.ndarray) -> None:
    assert told_of_gamma(X.astype(np.float32), 1.0) == ""


def test_a_far_value_that_makes_all_objects_alike_is_told_in_python_and_in_a_job(tmp_path: Path) -> None:
    X, y = load_iris(return_X_y=True)
    X = X.astype(np.float32)
    X[7, 2] = 1e20
    assert warned(lambda: SimForestClassifier("rbf", **FOREST).fit(X, y), "gamma=", "'rbf'")
    own = {"similarity": {"kind": "rbf", "features": "X"}, "labels": "y"}
    assert warned(lambda: staged(tmp_path, "simforest", own, {"X": X, "y": y}), "similarity: gamma=", "'rbf'")
