"""Comparisons of fields: each value by its formula in plain Python, and forests that read them."""

from __future__ import annotations

import functools
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from distforest import RFD, Comparison, TreeRank, load
from distforest.errors import ArtifactError, InputError
from distforest.forest.pairs.pair_scores import columns_of, pairs_of, training_pairs
from distforest.sources.comparisons import COMPARATORS, EARTH_KM, Records
from distforest.sources.schema import Schema
from tests.messages import naming

N = 40
RNG = np.random.default_rng(7)
NAMES = ["Anna Maria", "Ana", "Maria Anna", "Otto", "Oto", "Karl", "Carl", ""]
X = pd.DataFrame(
    {
        "name": RNG.choice([*NAMES[:-1], None], N),
        "town": RNG.choice(["Ulm", "Rom"], N),
        "height": np.where(RNG.random(N) < 0.2, np.nan, RNG.integers(-3, 4, N).astype(float)),
        "born": pd.to_datetime("1960-01-01") + pd.to_timedelta(RNG.integers(0, 9000, N), "D"),
        "lat": RNG.uniform(-90, 90, N),
        "lon": RNG.uniform(-180, 180, N),
        "free": RNG.normal(size=N),
    }
)
PAIRS = np.array([(i, j) for i in range(N) for j in range(i + 1, N)])
SIMILAR = RNG.random(len(PAIRS)) < 0.4


def jaro_winkler(a: str, b: str) -> float:
    """Matches within half of the longer length, less half of their transpositions; then the common prefix."""
    reach = max(max(len(a), len(b)) // 2 - 1, 0)
    used, matches = set[int](), []
    for i, letter in enumerate(a):
        near = range(max(0, i - reach), min(len(b), i + reach + 1))
        if (j := next((j for j in near if j not in used and b[j] == letter), None)) is not None:
            used.add(j)
            matches.append(letter)
    if not matches:
        return 0.0
    m, others = len(matches), [b[j] for j in sorted(used)]
    t = sum(one != other for one, other in zip(matches, others, strict=True)) // 2
    jaro = (m / len(a) + m / len(b) + (m - t) / m) / 3
    prefix = next((k for k in range(min(4, len(a), len(b))) if a[k] != b[k]), min(4, len(a), len(b)))
    return jaro + (0.1 * prefix * (1 - jaro) if jaro > 0.7 else 0.0)


@functools.cache
def edits(a: str, b: str) -> int:
    """The fewest letters that are inserted, deleted or replaced."""
    if not a or not b:
        return len(a) + len(b)
    return min(edits(a[1:], b) + 1, edits(a, b[1:]) + 1, edits(a[1:], b[1:]) + (a[0] != b[0]))


def dice(a: str, b: str) -> float:
    one, other = ({f" {text} "[k : k + 2] for k in range(len(text) + 1)} for text in (a, b))
    return 2 * len(one & other) / (len(one) + len(other))


def kilometres(a: list[float], b: list[float]) -> float:
    """By the angle between two unit vectors."""
    one, other = (
        np.array([math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon), math.sin(lat)])
        for lat, lon in (map(math.radians, side) for side in (a, b))
    )
    return EARTH_KM * math.atan2(float(np.linalg.norm(np.cross(one, other))), float(one @ other))


def relative(a: float, b: float) -> float:
    return abs(a - b) / max(abs(a), abs(b)) if a or b else 0.0


def initials(left: Any, right: Any) -> list[float]:
    return [float(a[0] == b[0]) for a, b in zip(left, right, strict=True)]


def taller(a: tuple[float, str], b: tuple[float, str]) -> float:
    return max(a[0], b[0]) + (a[1] == b[1])


def lopsided(left: Any, right: Any) -> Any:
    return left - right


REFERENCES: list[tuple[Comparison, Callable[[Any, Any], float]]] = [
    (Comparison("equal", "name", "height"), lambda a, b: float(a == b)),
    (Comparison("absolute_difference", "height"), lambda a, b: abs(a[0] - b[0])),
    (Comparison("relative_difference", "height"), lambda a, b: relative(a[0], b[0])),
    (Comparison("date_gap", "born"), lambda a, b: abs((a[0] - b[0]).days)),
    (Comparison("geographic", "lat", "lon"), kilometres),
    (Comparison("inner", "height", "lat"), lambda a, b: a[0] * b[0] + a[1] * b[1]),
    (
        Comparison("cosine", "height", "lat"),
        lambda a, b: (a[0] * b[0] + a[1] * b[1]) / (math.hypot(*a) * math.hypot(*b)),
    ),
    (Comparison("jaro_winkler", "name"), lambda a, b: jaro_winkler(a[0], b[0])),
    (Comparison("levenshtein", "name"), lambda a, b: 1 - edits(a[0], b[0]) / max(len(a[0]), len(b[0]))),
    (Comparison("q_gram", "name"), lambda a, b: dice(a[0], b[0])),
    (Comparison(initials, "name"), lambda a, b: float(a[0][0] == b[0][0])),
    (Comparison(taller, "height", "name", each=True), lambda a, b: taller((a[0], a[1]), (b[0], b[1]))),
]


def column(comparison: Comparison, forest: RFD | TreeRank | None = None) -> tuple[np.ndarray, Any]:
    """The last column of all pairs of points, and the forest that reads it."""
    forest = forest or RFD(2, pair_columns=[comparison], random_state=0).fit_pairs(X, PAIRS, SIMILAR)
    pairs = training_pairs(forest.forest_, PAIRS.astype(np.int32))
    rows, last = np.arange(len(PAIRS), dtype=np.int32), np.array([pairs.shape[1] - 1], np.int32)
    return pairs.block(rows, last)[:, 0], forest


@pytest.mark.parametrize(("comparison", "reference"), REFERENCES, ids=lambda value: getattr(value, "comparator", ""))
def test_values_are_those_of_the_formula(comparison: Comparison, reference: Callable[[Any, Any], float]) -> None:
    found, _ = column(comparison)
    fields = X[list(map(str, comparison.fields))].astype(object).to_numpy().tolist()
    expected = [
        math.nan if any(map(pd.isna, (*fields[i], *fields[j]))) else reference(fields[i], fields[j])
        for i, j in PAIRS.tolist()
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-4)
    assert comparison.comparator == "date_gap" or comparison.fields[0] in ("lat", "born") or np.isnan(found).any()


def test_every_word_has_a_reference() -> None:
    known = {one.comparator for one, _ in REFERENCES} | {"missing", "token_set"}  # both have a test of their own
    assert known >= set(COMPARATORS)


def test_both_missing_one_missing_and_none_are_three_values() -> None:
    found, _ = column(Comparison("missing", "name"))
    lacks = X["name"].isna().to_numpy()
    np.testing.assert_array_equal(found, lacks[PAIRS].sum(axis=1))
    assert set(found) == {0.0, 1.0, 2.0}


def test_token_sets_do_not_depend_on_the_order_of_words() -> None:
    found, _ = column(Comparison("token_set", "name"))
    names = X["name"].to_numpy()
    turned = [{names[i], names[j]} == {"Anna Maria", "Maria Anna"} for i, j in PAIRS.tolist()]
    assert any(turned)
    assert (found[turned] == 1.0).all()
    assert np.nanmin(found) < 0.5


ALL = [one for one, _ in REFERENCES]


WHOLE = X[["height"]].assign(free=RNG.integers(0, 9, N).astype(float), other=RNG.integers(0, 300, N).astype(float))


@pytest.mark.parametrize("max_bins", [None, 64])
def test_trees_on_absolute_differences_are_those_of_the_family(max_bins: int | None) -> None:
    params: dict[str, Any] = {"position": False, "max_bins": max_bins, "min_samples_leaf": 1, "random_state": 0}
    plain = RFD(5, **params).fit_pairs(WHOLE, PAIRS, SIMILAR)
    columns = [Comparison("absolute_difference", name) for name in WHOLE]
    found = RFD(5, pair_columns=columns, **params).fit_pairs(WHOLE, PAIRS, SIMILAR)
    np.testing.assert_array_equal(found.forest_.table.threshold, plain.forest_.table.threshold)
    np.testing.assert_array_equal(found.forest_.table.missing_right, plain.forest_.table.missing_right)
    np.testing.assert_array_equal(found.distance(WHOLE), plain.distance(WHOLE))


class Given:
    """Vectors that are given; their distance is a column."""

    reduction = "distance"

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors = vectors

    def fit_transform(self, X: object, y: object) -> np.ndarray:
        return self.vectors

    transform = fit_transform


@pytest.mark.parametrize("max_bins", [None, 64])
@pytest.mark.parametrize("region", ["square", "diagonal"])
def test_trees_beside_other_columns_are_those_of_a_vector(region: str, max_bins: int | None) -> None:
    params: dict[str, Any] = {"region": region, "max_bins": max_bins, "max_depth": 4, "random_state": 0}
    found = TreeRank(3, pair_columns=[Comparison("absolute_difference", "free")], **params)
    found.fit_pairs(WHOLE[["height", "other", "free"]], PAIRS, SIMILAR)
    plain = TreeRank(3, pair_columns=[Given(WHOLE[["free"]].to_numpy())], **params)
    plain.fit_pairs(WHOLE[["height", "other"]], PAIRS, SIMILAR)
    np.testing.assert_array_equal(found.forest_.table.threshold, plain.forest_.table.threshold)
    np.testing.assert_array_equal(found.forest_.table.n_rows, plain.forest_.table.n_rows)


@pytest.mark.parametrize("method", [RFD, TreeRank])
def test_distances_are_symmetric_and_no_split_reads_a_compared_feature(method: type[RFD | TreeRank]) -> None:
    forest = method(5, pair_columns=ALL, random_state=0).fit_pairs(X, PAIRS, SIMILAR)
    distances = forest.distance(X[:9], X[5:20])
    np.testing.assert_array_equal(distances, forest.distance(X[5:20], X[:9]).T)
    left, right = np.divmod(np.arange(9 * 15), 15)
    np.testing.assert_array_equal(
        distances.reshape(-1), forest.pair_distance(X.iloc[left], X.iloc[right + 5].reset_index(drop=True))
    )
    columns = columns_of(forest.forest_)
    compared = [X.columns.get_loc(name) for one in ALL for name in one.fields]
    constant = [*compared, *(len(X.columns) + c for c in compared)]
    assert not np.isin(forest.forest_.table.columns, constant).any()
    assert set(columns.to_draw) == set(range(columns.n_columns)) - set(constant)
    near, places = forest.kneighbors(X[:3], 4)
    np.testing.assert_array_equal(near, np.take_along_axis(forest.distance(X[:3], X), places, axis=1))


def test_a_sealed_forest_compares_by_words_and_by_the_functions_that_it_is_given(tmp_path: Path) -> None:
    forest = RFD(5, pair_columns=ALL, random_state=0).fit_pairs(X, PAIRS, SIMILAR)
    forest.save(tmp_path / "forest.zarr")
    bare = load(tmp_path / "forest.zarr")
    assert isinstance(bare, RFD)
    assert bare.digest_ == forest.digest_
    with pytest.raises(InputError, match=naming("initials", "load")):
        bare.pair_distance(X[:3], X[3:6])
    opened = load(tmp_path / "forest.zarr", comparisons=[initials, taller])
    assert isinstance(opened, RFD)
    np.testing.assert_array_equal(opened.distance(X[:9], X[9:]), forest.distance(X[:9], X[9:]))
    with pytest.raises(InputError, match=naming("taller", "lopsided")):
        load(tmp_path / "forest.zarr", comparisons=[lopsided])
    place = tmp_path / "forest.zarr" / "manifest.json"
    for wrong in ([["equal", [99], False]], [["equal", [], False]], "equal", [["equal", [0]]]):
        manifest = json.loads(place.read_text())
        manifest["meaning"]["rows"]["comparisons"] = wrong
        place.write_text(json.dumps(manifest))
        with pytest.raises(ArtifactError, match=naming("manifest.json")):
            load(tmp_path / "forest.zarr")


def test_records_with_the_same_unseen_category_are_equal() -> None:
    town = Comparison("equal", "town")
    forest = RFD(5, pair_columns=[town, Comparison("levenshtein", "name")], random_state=0)
    forest.fit_pairs(X[["name", "town", "free"]], PAIRS, SIMILAR)
    left = pd.DataFrame({"name": ["Anne", "Anne", "Karl"], "town": ["Bonn", "Bonn", "Ulm"], "free": 0.0})
    right = pd.DataFrame({"name": ["Annette", "Anne", "Carla"], "town": ["Bonn", "Cork", "Ulm"], "free": 0.0})
    one, other = forest._points(left), forest._points(right)
    assert isinstance(one, Records)
    rows = np.arange(3, dtype=np.int32)
    pairs = pairs_of(columns_of(forest.forest_), one, other).of_pairs(rows, rows)
    n = pairs.shape[1]
    values = pairs.block(rows, np.array([n - 2, n - 1], np.int32))
    np.testing.assert_allclose(values, [[1, 1 - 3 / 7], [0, 1], [1, 1 - 2 / 5]], rtol=1e-6)


def test_an_unseen_category_differs_from_others_and_its_pairs_are_missing() -> None:
    forest = RFD(5, random_state=0).fit_pairs(X[["town", "free"]], PAIRS, SIMILAR)
    left, right = (
        pd.DataFrame({"town": towns, "free": 0.0}) for towns in (["Bonn", "Bonn", "Rom"], ["Bonn", "Cork", "Bonn"])
    )
    rows = np.arange(3, dtype=np.int32)
    pairs = pairs_of(columns_of(forest.forest_), forest._points(left), forest._points(right)).of_pairs(rows, rows)
    differ, pair = pairs.block(rows, np.array([0, 2], np.int32)).T
    assert differ.tolist() == [0, 1, 1]
    assert np.isnan(pair).all()


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: Comparison("soundex", "name"), ["soundex", "jaro_winkler"]),
        (lambda: Comparison("geographic", "lat"), ["geographic", 2]),
        (lambda: Comparison("equal"), ["equal"]),
    ],
)
def test_comparisons_that_do_not_exist_are_refused(make: Callable[[], Comparison], names: list[object]) -> None:
    with pytest.raises(InputError, match=naming(*names)):
        make()


@pytest.mark.parametrize(
    ("comparison", "names"),
    [
        (Comparison("levenshtein", "height"), ["levenshtein", "height"]),
        (Comparison("absolute_difference", "name"), ["absolute_difference", "name"]),
        (Comparison("date_gap", "height"), ["date_gap", "height"]),
        (Comparison("equal", "surname"), ["equal", "surname"]),
        (Comparison("equal", 99), ["equal", 99]),
        (Comparison(lopsided, "lat"), ["lopsided"]),
        (Comparison(lambda *_: [1.0], "lat"), ["lambda"]),
    ],
)
def test_columns_that_cannot_be_compared_are_refused(comparison: Comparison, names: list[object]) -> None:
    with pytest.raises(InputError, match=naming(*names)):
        RFD(2, pair_columns=[comparison], random_state=0).fit_pairs(X, PAIRS, SIMILAR)


def test_a_schema_takes_more_categories_in_their_order() -> None:
    schema = Schema.from_entry({"names": ["a"], "encodings": {"0": {"kind": "category", "categories": ["x"]}}}, 1)
    assert schema.with_categories({"a": ["z", "x", "y"]}).columns[0].categories == ("x", "y", "z")
    assert schema.with_categories({"b": ["z"]}) == schema


JOB = """
format = 1
method = "rfd"
output = "forest.zarr"
[input]
features = "people.zarr/X"
pairs = "links.zarr/pairs"
similar = "links.zarr/y"
comparisons = [
  { comparator = "levenshtein", fields = ["name"] },
  { comparator = "missing", fields = ["name"] },
  { comparator = "date_gap", fields = ["born"] },
  { comparator = "tests.sources.test_comparisons:initials", fields = ["name"] },
]
[params]
n_estimators = 4
"""


@pytest.mark.slow
def test_a_job_grows_the_same_forest_and_scores_a_file(tmp_path: Path) -> None:
    table = X.drop(columns="height").assign(id=[f"r{k}" for k in range(N)])
    table.to_csv(tmp_path / "people.csv", index=False)
    links = table["id"].to_numpy()[PAIRS]
    pd.DataFrame({"left": links[:, 0], "right": links[:, 1], "same": np.where(SIMILAR, "yes", "no")}).to_csv(
        tmp_path / "links.csv", index=False
    )
    (tmp_path / "job.toml").write_text(JOB)
    new = table.tail(6).assign(name=["Anke", "Anke", "Karl", "Ulf", "Ulf", "Rolf"])
    new.to_csv(tmp_path / "new.csv", index=False)
    wanted = pd.DataFrame({"left": new["id"].iloc[:3].tolist(), "right": new["id"].iloc[3:].tolist()})
    wanted.to_csv(tmp_path / "wanted.csv", index=False)

    def run(*arguments: str) -> None:
        command = [sys.executable, "-m", "distforest", *arguments]
        root = str(Path(__file__).parents[2])
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": root})

    run("ingest", "people.csv", "people.zarr", "--id", "id")
    run("ingest", "links.csv", "links.zarr", "--pairs", "left,right", "--rows", "people.zarr", "--label", "same")
    run("fit", "job.toml")
    columns = [Comparison("levenshtein", "name"), Comparison("missing", "name"), Comparison("date_gap", "born")]
    columns.append(Comparison(initials, "name"))
    forest = RFD(4, pair_columns=columns, random_state=0).fit_pairs(table.drop(columns="id"), PAIRS, SIMILAR)
    sealed = load(tmp_path / "forest.zarr", comparisons=[initials])
    assert isinstance(sealed, RFD)
    assert sealed.digest_ == forest.digest_
    del columns[-1]
    words = JOB.replace('  { comparator = "tests.sources.test_comparisons:initials", fields = ["name"] },\n', "")
    (tmp_path / "words.toml").write_text(words.replace("forest.zarr", "words.zarr"))
    run("fit", "words.toml")
    run("score", "words.zarr", "new.csv", "found.csv", "--answer", "pairs", "--pairs", "wanted.csv", "--id", "id")
    found = pd.read_csv(tmp_path / "found.csv")["distance"]
    by_words = RFD(4, pair_columns=columns, random_state=0).fit_pairs(table.drop(columns="id"), PAIRS, SIMILAR)
    rows = new.drop(columns="id").reset_index(drop=True)
    np.testing.assert_allclose(found, by_words.pair_distance(rows[:3], rows[3:].reset_index(drop=True)), rtol=1e-6)


def same_name(place: int) -> Callable[[Any, Any], Any]:
    def compare(left: Any, right: Any) -> Any:
        return np.abs(left - right) * place

    return compare


def test_two_functions_of_one_name_are_refused(tmp_path: Path) -> None:
    first, second = same_name(1), same_name(2)
    columns = [Comparison(first, "lat"), Comparison(second, "lon")]
    with pytest.raises(InputError, match=naming("compare")):
        RFD(2, pair_columns=columns, random_state=0).fit_pairs(X, PAIRS, SIMILAR)
    named = [Comparison(first, "lat", name="once"), Comparison(second, "lon", name="twice")]
    forest = RFD(2, pair_columns=named, random_state=0).fit_pairs(X, PAIRS, SIMILAR)
    forest.save(tmp_path / "f.zarr")
    with pytest.raises(InputError, match=naming("compare")):
        load(tmp_path / "f.zarr", comparisons=[first, second])
    opened = load(tmp_path / "f.zarr", comparisons={"once": first, "twice": second})
    assert isinstance(opened, RFD)
    np.testing.assert_array_equal(opened.distance(X[:9]), forest.distance(X[:9]))
    assert opened.pair_columns == named
    with pytest.raises(InputError, match=naming("equal")):
        Comparison(first, "lat", name="equal")


def test_a_loaded_forest_has_its_comparisons_and_refits_to_the_same_one(tmp_path: Path) -> None:
    columns = [Comparison("levenshtein", "name"), Comparison("geographic", "lat", "lon")]
    forest = RFD(3, pair_columns=columns, random_state=0).fit_pairs(X, PAIRS, SIMILAR)
    forest.save(tmp_path / "f.zarr")
    opened = load(tmp_path / "f.zarr")
    assert isinstance(opened, RFD)
    assert opened.pair_columns == columns
    assert opened.fit_pairs(X, PAIRS, SIMILAR).digest_ == forest.digest_
    own = RFD(3, pair_columns=[Comparison(initials, "name")], random_state=0).fit_pairs(X, PAIRS, SIMILAR)
    own.save(tmp_path / "own.zarr")
    bare = load(tmp_path / "own.zarr")
    assert isinstance(bare, RFD)
    with pytest.raises(InputError, match=naming("load")):
        bare.fit_pairs(X, PAIRS, SIMILAR)  # the function that the file names is not imported


def test_trees_of_other_names_or_another_function_are_not_added() -> None:
    columns = [Comparison("levenshtein", "name"), Comparison(same_name(1), "lat")]
    forest = RFD(2, pair_columns=columns, warm_start=True, random_state=0).fit_pairs(X, PAIRS, SIMILAR)
    other = X.assign(name=X["name"].str.replace("Otto", "Ottos"))
    forest.set_params(n_estimators=4)
    with pytest.raises(InputError, match="warm_start"):
        forest.fit_pairs(other, PAIRS, SIMILAR)
    forest.set_params(pair_columns=[columns[0], Comparison(same_name(3), "lat")])
    with pytest.raises(InputError, match="warm_start"):
        forest.fit_pairs(X, PAIRS, SIMILAR)


@pytest.mark.parametrize("fields", [(1.5,), (None,), ([0],)])
def test_fields_are_names_or_positions(fields: tuple[Any, ...]) -> None:
    with pytest.raises(InputError, match=naming("positions")):
        Comparison("equal", *fields)
    assert Comparison("equal", np.int64(0)).fields == (0,)


def test_values_beyond_float32_are_refused() -> None:
    large = X[["lat", "lon"]] * 1e30
    with pytest.raises(InputError, match=naming("inner")):
        RFD(2, pair_columns=[Comparison("inner", "lat", "lon")], random_state=0).fit_pairs(large, PAIRS, SIMILAR)


def test_digits_are_names_where_they_are_strings() -> None:
    forest = RFD(2, pair_columns=[Comparison("levenshtein", "name")], random_state=0)
    forest.fit_pairs(X[["name", "free"]], PAIRS, SIMILAR)
    left = pd.DataFrame({"name": ["123", "77"], "free": 0.0})
    assert np.isfinite(forest.pair_distance(left, left)).all()


@pytest.mark.slow
def test_workers_compare_dates_and_text_as_threads_do(tmp_path: Path) -> None:
    from distributed import Client

    table = X[["name", "born", "lat", "lon"]].assign(born=X["born"] + pd.Timedelta("5h"))
    columns = [Comparison("levenshtein", "name"), Comparison("date_gap", "born")]
    forest = RFD(4, pair_columns=columns, random_state=0).fit_pairs(table, PAIRS, SIMILAR)
    with Client(processes=False, dashboard_address=None, local_directory=str(tmp_path)) as client:
        found = RFD(4, pair_columns=columns, random_state=0, client=client).fit_pairs(table, PAIRS, SIMILAR)
        assert found.digest_ == forest.digest_
