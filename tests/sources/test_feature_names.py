"""Names of columns: read strictly, compared by the first difference, kept as far as a forest has room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.sources.arrays import open_array, write_array
from distforest.sources.feature_names import MAX_LENGTH, FeatureNames

TEXTS = st.lists(st.text(max_size=4), min_size=1, max_size=5)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda own: st.lists(own, max_size=3) | st.dictionaries(st.sampled_from(["names", "dtypes", "x"]), own, max_size=3),
    max_leaves=8,
)


def named(folder: Path, attributes: dict[str, Any], shape: tuple[int, ...] = (3, 2)) -> FeatureNames | None:
    write_array(str(folder / "a.zarr"), "X", shape, np.dtype(np.float32), [np.zeros(shape, np.float32)], attributes)
    address = str(folder / "a.zarr" / "X")
    return FeatureNames.of_array(address, open_array(address))


@pytest.mark.parametrize("dtypes", [(), ("double", "int64")])
def test_names_come_back_from_the_attributes_of_an_array(dtypes: tuple[str, ...], tmp_path: Path) -> None:
    own = FeatureNames(("a", "a"), dtypes)
    assert named(tmp_path, own.attributes()) == own


def test_an_array_without_names_has_none(tmp_path: Path) -> None:
    assert named(tmp_path, {"colour": "red"}) is None
    assert FeatureNames.of_array("X", np.zeros((3, 2))) is None


def test_an_array_that_is_no_matrix_has_none(tmp_path: Path) -> None:
    assert named(tmp_path, {"feature_names": ["a"]}, (3,)) is None


@pytest.mark.parametrize(
    "attributes", [{"feature_names": ["a"]}, {"feature_names": ["a", "b"], "feature_dtypes": [1, 2]}]
)
def test_attributes_that_name_no_columns_are_refused_with_their_address(
    attributes: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"X: attributes feature_names and feature_dtypes: .* for each of 2 columns"):
        named(tmp_path, attributes)


@given(ANYTHING, st.integers(1, 3))
def test_an_entry_is_refused_or_has_a_name_for_each_column(entry: Any, n_columns: int) -> None:
    try:
        found = FeatureNames.of_entry(entry, n_columns)
    except InputError:
        return
    assert len(found.names) == n_columns
    assert len(found.dtypes) in (0, n_columns)
    assert all(isinstance(text, str) for text in (*found.names, *found.dtypes))


@given(TEXTS, TEXTS)
def test_the_first_difference_is_named(own: list[str], other: list[str]) -> None:
    mine, found = FeatureNames(tuple(own)), FeatureNames(tuple(other))
    if own == other:
        mine.check_same(found, "new")
        return
    place = next(k for k in range(6) if own[k : k + 1] != other[k : k + 1])
    there, here = (repr(texts[place]) if place < len(texts) else "none" for texts in (own, other))
    with pytest.raises(InputError) as caught:
        mine.check_same(found, "new")
    assert f"column {place} is {there} there, found {here}; give" in str(caught.value)


def test_names_too_long_for_a_forest_are_left_out_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = FeatureNames(("a", "b" * MAX_LENGTH))
    assert longest.kept() is longest
    with pytest.warns(UserWarning, match="the names of the 2 features are longer than a forest keeps"):
        assert FeatureNames(("a", "b" * (MAX_LENGTH + 1))).kept() is None
    monkeypatch.setattr("distforest.sources.feature_names.MAX_CHARACTERS", 5)
    assert FeatureNames(("abc", "de")).are_short()
    assert not FeatureNames(("abc", "de"), ("x", "y")).are_short()
