"""How a sealed forest drew its features, read without its trees."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from distforest.errors import ArtifactError, InputError
from distforest.forest.feature_shares import FeatureShares, read_feature_shares
from distforest.forest.forest import Meaning, array_entry, check_columns
from distforest.forest.sealed.artifact import open_forest, prepare, read_manifest, save, seal, write_rows
from distforest.sources.arrays import write_array
from tests import samples
from tests.messages import naming

if TYPE_CHECKING:
    from collections.abc import Callable

    from distforest.forest.forest import Forest


def read(place: Path, features: str | None = None) -> FeatureShares | None:
    return read_feature_shares(str(place), read_manifest(str(place)), features)


def test_given_weights_are_read_as_shares(sealed_of: Callable[[str], Path]) -> None:
    found = read(sealed_of("urerf"))
    assert found is not None
    assert found.shares.tolist() == [0.4, 0.3, 0.2, 0.1, 0.0]
    assert (found.dependence, found.n_dependent, found.names) == (None, None, ())
    assert found.name(3) == "feature 3"


@pytest.mark.parametrize("case", ["urerf_paper", "labels", "dense", "linear"])
def test_features_drawn_alike_or_none(sealed_of: Callable[[str], Path], case: str) -> None:
    assert read(sealed_of(case)) is None


def test_only_the_weights_are_read(sealed_of: Callable[[str], Path], tmp_path: Path) -> None:
    shutil.copytree(sealed_of("urerf"), tmp_path / "a.zarr")
    for name in ("left", "threshold", "leaves"):
        shutil.rmtree(tmp_path / "a.zarr" / name)
    assert read(tmp_path / "a.zarr") is not None
    shutil.rmtree(tmp_path / "a.zarr" / "feature_weights")
    with pytest.raises(ArtifactError, match="feature_weights"):
        read(tmp_path / "a.zarr")


def test_names_come_from_an_array_of_features(sealed_of: Callable[[str], Path], tmp_path: Path) -> None:
    names = ["height", "width", "depth", "mass", "hue"]
    for group, attributes in (("X", {"feature_names": names}), ("few", {"feature_names": names[:2]}), ("none", {})):
        array = samples.features()
        write_array(f"{tmp_path}/a.zarr", group, array.shape, array.dtype, [array], attributes=attributes)
    found = read(sealed_of("urerf"), f"{tmp_path}/a.zarr/X")
    assert found is not None
    assert [found.name(k) for k in found.by_share.tolist()] == names
    for group, told in (("few", "found 2"), ("none", "found none")):
        with pytest.raises(
            InputError, match=naming(f"{tmp_path}/a.zarr/{group}:", "5 features", "feature_names", told)
        ):
            read(sealed_of("urerf"), f"{tmp_path}/a.zarr/{group}")


def test_the_largest_come_first_and_of_equal_ones_the_first() -> None:
    found = FeatureShares(np.array([0.1, 0.4, 0.1, 0.4]), np.array([0.0, 0.5, 0.0, 0.5]))
    assert found.by_share.tolist() == [1, 3, 0, 2]
    assert found.n_dependent == 2


@pytest.mark.parametrize(
    ("name", "values", "found"),
    [
        ("feature_weights", [1.0, 2.0], "3 columns"),
        ("feature_weights", [1.0, -2.0, 1.0], "3 columns"),
        ("dependence", [1.0, np.nan, 1.0], "3 columns"),
        ("dependence", [1.0, np.inf, 1.0], "3 columns"),
        ("feature_weights", [[1.0, 2.0, 3.0]], "3 columns"),
        ("feature_weights", [0.0, 0.0, 0.0], " positive"),
        ("feature_weights", [0.0, -0.0, 0.0], " positive"),
    ],
)
def test_what_cannot_be_weights_is_refused(name: str, values: list[float], found: str) -> None:
    with pytest.raises(ArtifactError, match=naming(f"{name}:", found)):
        check_columns(name, np.array(values), 3)


def test_a_dependence_above_one_is_refused() -> None:
    with pytest.raises(ArtifactError, match=naming("dependence:", 0, 1)):
        check_columns("dependence", np.array([0.0, 1.5]), 2)


def test_no_dependence_at_all_is_a_result(forest_of: Callable[[str], Forest], tmp_path: Path) -> None:
    none = replace(forest_of("urerf"), dependence=np.zeros(samples.N_COLUMNS))
    save(none, str(tmp_path / "none.zarr"))
    opened, found = open_forest(str(tmp_path / "none.zarr")).dependence, read(tmp_path / "none.zarr")
    assert opened is not None
    assert opened.tolist() == [0.0] * samples.N_COLUMNS
    assert found is not None
    assert found.n_dependent == 0
    save(forest_of("urerf_paper"), str(tmp_path / "alike.zarr"))
    assert open_forest(str(tmp_path / "alike.zarr")).feature_weights is None


def test_a_sealed_forest_of_zero_weights_is_not_opened(sealed_of: Callable[[str], Path], tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"
    shutil.copytree(sealed_of("urerf"), place)
    shutil.rmtree(place / "feature_weights")
    manifest, zeros = json.loads((place / "manifest.json").read_text()), np.zeros(5)
    digests = write_rows(prepare(str(place), "feature_weights", zeros.shape, zeros.dtype), 0, zeros)
    entries = {**manifest["arrays"], "feature_weights": array_entry(zeros.shape, zeros.dtype, digests)}
    seal(str(place), Meaning.from_dict(manifest["meaning"]), entries, manifest["provenance"])
    with pytest.raises(ArtifactError, match="feature_weights: "):
        open_forest(str(place))
    with pytest.raises(ArtifactError, match="feature_weights: "):
        read(place)
