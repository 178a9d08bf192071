"""Columns: read strictly, compared by the first difference, put in order by name, kept as far as a forest has room."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest import SMERF, load
from distforest.errors import DistforestWarning, InputError
from distforest.sources.arrays import open_array, write_array
from distforest.sources.schema import MAX_LENGTH, ColumnKind, FeatureColumn, Schema
from tests.messages import naming

TEXTS = st.lists(st.text(max_size=4), min_size=1, max_size=5)
KEYS = st.sampled_from(["names", "dtypes", "encodings", "0", "x"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda own: st.lists(own, max_size=3) | st.dictionaries(KEYS, own, max_size=3),
    max_leaves=8,
)


def named(folder: Path, attributes: dict[str, Any], shape: tuple[int, ...] = (3, 2)) -> Schema | None:
    write_array(str(folder / "a.zarr"), "X", shape, np.dtype(np.float32), [np.zeros(shape, np.float32)], attributes)
    address = str(folder / "a.zarr" / "X")
    return Schema.from_array(address, open_array(address))


@pytest.mark.parametrize("dtypes", [(), ("double", "int64")])
def test_names_come_back_from_the_attributes_of_an_array(dtypes: tuple[str, ...], tmp_path: Path) -> None:
    own = Schema.from_names(("a", "a"), dtypes)
    assert named(tmp_path, own.attributes()) == own


def test_an_array_without_names_has_none(tmp_path: Path) -> None:
    assert named(tmp_path, {"colour": "red"}) is None
    assert Schema.from_array("X", np.zeros((3, 2))) is None


def test_an_array_that_is_no_matrix_has_none(tmp_path: Path) -> None:
    assert named(tmp_path, {"feature_names": ["a"]}, (3,)) is None


@pytest.mark.parametrize(
    "attributes", [{"feature_names": ["a"]}, {"feature_names": ["a", "b"], "feature_dtypes": [1, 2]}]
)
def test_attributes_that_name_no_columns_are_refused_with_their_address(
    attributes: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=naming("X: ", "feature_names", "feature_dtypes", "2 columns")):
        named(tmp_path, attributes)


@pytest.mark.slow
@given(ANYTHING, st.integers(1, 3))
def test_an_entry_is_refused_or_has_a_name_for_each_column(entry: Any, n_columns: int) -> None:
    try:
        found = Schema.from_entry(entry, n_columns)
    except InputError:
        return
    assert len(found.names) == n_columns
    assert len(found.dtypes) in (0, n_columns)
    assert all(isinstance(text, str) for text in (*found.names, *found.dtypes))


@given(TEXTS, TEXTS)
def test_the_first_difference_is_named(own: list[str], other: list[str]) -> None:
    mine, found = Schema.from_names(tuple(own)), Schema.from_names(tuple(other))
    if own == other:
        mine.check_same(found, "new")
        return
    place = next(k for k in range(6) if own[k : k + 1] != other[k : k + 1])
    there, here = (repr(texts[place]) if place < len(texts) else "none" for texts in (own, other))
    with pytest.raises(InputError, match=naming(f"column {place} ", there, here)):
        mine.check_same(found, "new")


def test_names_too_long_for_a_forest_are_left_out_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = Schema.from_names(("a", "b" * MAX_LENGTH))
    assert longest.kept() is longest
    with pytest.warns(DistforestWarning, match=naming("names", "2 features")):
        assert Schema.from_names(("a", "b" * (MAX_LENGTH + 1))).kept() is None
    monkeypatch.setattr("distforest.sources.schema.MAX_CHARACTERS", 5)
    assert Schema.from_names(("abc", "de")).is_short()
    assert not Schema.from_names(("abc", "de"), ("x", "y")).is_short()


COLOURS = FeatureColumn("colour", ColumnKind.CATEGORY, "string", ("blue", "red", "green"))
ALIVE = FeatureColumn("alive", ColumnKind.BOOLEAN, "bool")
SEEN = FeatureColumn("seen", ColumnKind.DATE, unit="days", origin="2024-01-01")
MIXED = Schema((FeatureColumn("height", dtype="double"), COLOURS, SEEN, ALIVE))


def test_encodings_come_back_from_the_attributes_of_an_array(tmp_path: Path) -> None:
    assert named(tmp_path, MIXED.attributes(), (3, 4)) == MIXED
    assert Schema.from_provenance({"features": json.loads(json.dumps(MIXED.entry()))}) == MIXED


@pytest.mark.parametrize(
    ("encodings", "named"),
    [
        ([], ["encodings: ", "list"]),
        ({"2": {"kind": "boolean"}}, ["encodings: ", "2 columns", "'2'"]),
        ({"01": {"kind": "boolean"}}, ["encodings: ", "2 columns", "'01'"]),
        ({"0": {"kind": "number"}}, ["encodings.0: "]),
        ({"0": {"kind": ["date"]}}, ["encodings.0: "]),
        ({"0": {"kind": "category"}}, ["encodings.0: "]),
        ({"0": {"kind": "category", "categories": "ab"}}, ["categories: ", "65,536"]),
        ({"0": {"kind": "category", "categories": [1]}}, ["categories: ", "strings"]),
        ({"0": {"kind": "category", "categories": ["a", "a"]}}, ["'a'"]),
        ({"0": {"kind": "date", "unit": "years", "origin": "2024-01-01"}}, ["unit: ", "days", "seconds"]),
        ({"0": {"kind": "date", "unit": "days", "origin": "yesterday"}}, ["origin: ", "ISO 8601"]),
        ({"0": {"kind": "date", "unit": "days", "origin": 5}}, ["origin: ", "ISO 8601"]),
    ],
)
def test_encodings_of_another_form_are_refused(encodings: object, named: list[str]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        Schema.from_entry({"names": ["a", "b"], "encodings": encodings}, 2)


@given(st.data())
def test_rows_are_put_in_order_by_the_names_of_their_columns(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.text(max_size=3), min_size=1, max_size=6, unique=True))
    own = Schema.from_names(names[: data.draw(st.integers(1, len(names)))])
    found = Schema.from_names(data.draw(st.permutations(names)))
    values = np.arange(2.0 * len(names)).reshape(2, -1)
    reordering = own.reordering(found, "new")
    rows, unseen = reordering.rows(values)
    by_name = dict(zip(found.names, values.T.tolist(), strict=True))
    assert rows.T.tolist() == [by_name[name] for name in own.names]
    assert set(reordering.superfluous) == set(names) - set(own.names)
    assert not unseen
    assert reordering.changes_nothing == (own == found)


def test_columns_that_are_missing_are_named() -> None:
    with pytest.raises(InputError, match=naming("new.csv: ", "'b', 'c'")):
        Schema.from_names("abc").reordering(Schema.from_names("xa"), "new.csv")


def test_columns_with_one_name_cannot_be_put_in_order() -> None:
    assert Schema.from_names("aab").reordering(Schema.from_names("aab"), "new").changes_nothing
    for own, found in (("ab", "baa"), ("aab", "aba")):
        with pytest.raises(InputError, match=naming("name", "'a'")):
            Schema.from_names(own).reordering(Schema.from_names(found), "new")
    assert Schema.from_names("b").reordering(Schema.from_names("aab"), "new").superfluous == ("a", "a")


def test_categories_of_another_list_become_the_forest_s_and_unseen_ones_missing() -> None:
    found = Schema((FeatureColumn("colour", ColumnKind.CATEGORY, categories=("green", "pink", "blue")),))
    reordering = Schema((COLOURS,)).reordering(found, "new")
    rows, unseen = reordering.rows(np.array([[0], [1], [2], [np.nan], [1]], np.float32))
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows[:, 0], [2, np.nan, 0, np.nan, np.nan])
    assert unseen == {0: 2}
    for wrong in (3.0, -1.0, 0.5, np.inf):
        with pytest.raises(InputError, match="3 categories"):
            reordering.rows(np.array([[wrong]]))
    assert Schema((COLOURS,)).reordering(Schema((COLOURS,)), "new").changes_nothing


def test_codes_in_whole_numbers_may_become_missing() -> None:
    found = Schema((FeatureColumn("colour", ColumnKind.CATEGORY, categories=("green", "pink")),))
    rows, _ = Schema((COLOURS,)).reordering(found, "new").rows(np.array([[1], [0]]))
    np.testing.assert_array_equal(rows, [[np.nan], [2]])


def test_a_unit_that_an_earlier_version_wrote_is_ignored() -> None:
    entry = {"names": ["rate", "size"], "encodings": {"0": {"kind": "number", "unit": "%"}}}
    assert Schema.from_entry(entry, 2) == Schema.from_names(("rate", "size"))


def test_dates_of_another_origin_or_unit_become_the_forest_s() -> None:
    dates = np.array(["2024-02-01", "NaT", "1999-12-31T12:00:00"], "datetime64[s]")
    other = FeatureColumn("seen", ColumnKind.DATE, unit="seconds", origin="1970-01-01T00:00")
    rows, _ = Schema((SEEN,)).reordering(Schema((other,)), "new").rows(other.counts(dates)[:, None])
    np.testing.assert_allclose(rows[:, 0], SEEN.counts(dates), rtol=1e-15)
    np.testing.assert_array_equal(SEEN.counts(dates), [31, np.nan, -8766.5])
    assert SEEN.counts(dates.astype("datetime64[ns]"))[0] == 31


@pytest.mark.parametrize(
    ("own", "found", "told"),
    [
        (FeatureColumn("a"), replace(COLOURS, name="a"), "number .*category"),
        (replace(COLOURS, name="a"), FeatureColumn("a"), "category .*number"),
        (replace(SEEN, name="a"), FeatureColumn("a"), "date .*number"),
        (replace(SEEN, name="a"), replace(SEEN, name="a", origin="2024-01-01Z"), "dates without .*time zone"),
    ],
)
def test_columns_of_another_kind_are_refused(own: FeatureColumn, found: FeatureColumn, told: str) -> None:
    for refusing in (Schema((own,)).reordering, Schema((own,)).check_same):
        with pytest.raises(InputError, match=f"new.csv: column 'a': {told}"):
            refusing(Schema((found,)), "new.csv")


def test_a_boolean_is_a_number() -> None:
    assert Schema((FeatureColumn("a"),)).reordering(Schema((replace(ALIVE, name="a"),)), "new").changes_nothing


def test_the_same_columns_with_other_categories_are_not_the_same() -> None:
    with pytest.raises(InputError, match=naming("column 'colour'", "categories")):
        Schema((COLOURS,)).check_same(Schema((replace(COLOURS, categories=("red",)),)), "X")
    MIXED.check_same(MIXED, "X")


def test_categories_too_long_for_a_forest_are_refused() -> None:
    with pytest.raises(InputError, match=naming("longer", "1 feature")):
        Schema((FeatureColumn("a", ColumnKind.CATEGORY, categories=("b" * (MAX_LENGTH + 1),)),)).kept()


def test_a_forest_keeps_the_encodings_of_its_columns(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 3, (30, 4)).astype(np.float32)
    write_array(str(tmp_path / "a.zarr"), "X", rows.shape, rows.dtype, [rows], MIXED.attributes())
    forest = SMERF(2, random_state=0).fit(str(tmp_path / "a.zarr" / "X"), rows[:, 0] > 1)
    forest.save(tmp_path / "f.zarr")
    loaded = load(tmp_path / "f.zarr")
    assert loaded.forest_.schema == MIXED
    same = SMERF(2, categorical_features=[1], random_state=0).fit(rows, rows[:, 0] > 1)
    assert loaded.digest_ == same.digest_
    loaded.fit(rows[:, :2], rows[:, 0] > 1)
    assert not hasattr(loaded, "feature_names_in_")
