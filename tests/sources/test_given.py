"""What is masked is NaN, in whatever array or list it comes; what has no NaN is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from distforest.errors import InputError
from distforest.sources.factors import Embedding, Labels, Targets
from distforest.sources.given import unmasked
from distforest.sources.point_pairs import codes_of_links
from distforest.sources.truth import Truth
from tests.messages import naming


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int64", "uint8", "bool", "complex64"])
def test_a_masked_number_is_nan(dtype: str) -> None:
    values = np.array([0, 1, 1]).astype(dtype)
    found = unmasked(np.ma.array(values, mask=[False, True, False]))
    assert type(found) is np.ndarray
    assert np.isnan(found).tolist() == [False, True, False]
    assert found[[0, 2]].tolist() == [0, 1]
    assert unmasked(np.ma.array(values)).dtype == dtype  # nothing is masked: nothing changes


def test_rows_in_a_list_keep_their_masks() -> None:
    rows = [np.ma.array([1.0, 2.0], mask=[False, True]), np.ma.array([3.0, 4.0])]
    np.testing.assert_array_equal(unmasked(rows), [[1.0, np.nan], [3.0, 4.0]])


def test_objects_are_none_and_others_are_left_alone() -> None:
    assert unmasked(np.ma.array(np.array(["a", 2], object), mask=[True, False])).tolist() == [None, 2]
    for other in ([1, 2], "abc", None, np.arange(3)):
        assert unmasked(other) is other


@pytest.mark.parametrize("values", [np.array(["a", "b"]), np.array(["2020", "2021"], "datetime64[Y]")])
def test_what_has_no_nan_is_refused(values: np.ndarray) -> None:
    with pytest.raises(InputError, match=naming(1, "mask", values.dtype)):
        unmasked(np.ma.array(values, mask=[False, True]))


MASKED = np.ma.masked_equal([0, 1, 9, 1], 9)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (Labels(MASKED), ["labels"]),
        (Labels(MASKED)[:3], ["labels"]),
        (Targets(MASKED), ["targets", "row 2"]),
        (Embedding(np.ma.masked_equal([[0, 1], [9, 1]], 9)), ["embedding", "row 1"]),
        (MASKED / 3, [" y ", "row 2"]),
        (MASKED, [" y ", "row 2"]),
        (np.ma.masked_equal(np.eye(3), 0.0), ["all 3"]),
    ],
)
def test_a_masked_truth_is_refused(given: Any, named: list[str]) -> None:
    with pytest.raises(InputError, match=naming("NaN", *named)):
        Truth.from_given(given)


def test_masked_links_are_refused() -> None:
    with pytest.raises(InputError, match=naming("similar: ", "pair 2")):
        codes_of_links(MASKED)
