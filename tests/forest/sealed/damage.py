"""Forests that are damaged on purpose, and what is asked of whatever opens them."""

from __future__ import annotations

import copy
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distforest.errors import ArtifactError, InputError
from distforest.forest import scoring
from distforest.forest.forest import FOREST_FORMAT, NOT_ROUTED, Forest, array_entry
from distforest.forest.pairs import pair_neighbors, pair_scores
from distforest.forest.pairs.pair_scores import is_over_pairs
from distforest.forest.sealed.artifact import open_forest, prepare, write_rows
from tests import samples

ForestOf = Callable[[str], Forest]
SealedOf = Callable[[str], Path]
Place = tuple[str | int, ...]


def contents(forest: Forest) -> dict[str, Any]:
    return {"meaning": forest.meaning, **samples.bits(forest.arrays())}


def manifest_of(path: Path) -> Any:
    return json.loads((path / "manifest.json").read_bytes())


def reseal(path: Path, manifest: Any) -> None:
    """Write a manifest with the digest of what it says, so that only deeper checks can refuse it."""
    if isinstance(manifest, dict):
        sealed = {"format": FOREST_FORMAT, "meaning": manifest.get("meaning"), "arrays": manifest.get("arrays")}
        text = json.dumps(sealed, sort_keys=True, separators=(",", ":"))
        manifest = {**manifest, "digest": hashlib.sha256(text.encode()).hexdigest()}
    (path / "manifest.json").write_text(json.dumps(manifest))


def changed(array: np.ndarray, place: Any, value: Any) -> np.ndarray:
    """A copy of an array with another value in one place."""
    array = array.copy()
    array[place] = value
    return array


def rewrite(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Put other arrays in place of a forest's own, with true digests, and seal again."""
    manifest = manifest_of(path)
    for name, array in arrays.items():
        shutil.rmtree(path / name, ignore_errors=True)
        digests = write_rows(prepare(str(path), name, array.shape, array.dtype), 0, array)
        manifest["arrays"][name] = array_entry(array.shape, array.dtype, digests)
    reseal(path, manifest)


def refusal(path: Path) -> str:
    """The message by which a forest is refused."""
    with pytest.raises(ArtifactError) as caught:
        open_forest(str(path))
    return str(caught.value)


def score(forest: Forest, case: str) -> None:
    """Ask an opened forest everything: whatever it holds, no kernel may fail."""
    if is_over_pairs(forest):
        ask_about_pairs(forest)
        return
    queries = samples.queries(case, 4)
    try:
        nodes = scoring.apply(forest, forest.source(queries))
    except InputError:  # it reads other rows now
        return
    assert forest.leaves is not None
    if (forest.leaves == NOT_ROUTED).any():  # an answer about training rows is refused
        with pytest.raises(InputError, match="training row"):
            scoring.out_of_bag_distance(forest, np.array([0]), np.array([1]))
        return
    some = forest.leaves[:, :5]
    assert scoring.distance(forest, nodes, some).shape == (4, some.shape[1])
    scoring.pair_distance(forest, nodes, nodes)
    scoring.kneighbors(forest, nodes, some, 1, False)
    scoring.out_of_bag_distance(forest, np.array([0]), np.array([1]))
    scoring.feature_importances(forest)
    try:
        scoring.predict_rows(forest, forest.source(queries))
        scoring.out_of_bag(forest)
    except InputError as error:
        assert re.search("predicts|no vote", str(error))


def ask_about_pairs(forest: Forest) -> None:
    """The same of a forest over pairs."""
    points = forest.points[:4]
    assert pair_scores.distance(forest, points, forest.points).shape == (4, forest.n_training)
    pair_neighbors.kneighbors(forest, points, 1, np.arange(len(points)))
    pair_scores.out_of_bag(forest, pair_scores.training_pairs(forest, np.array([[0, 1], [2, 0]], np.int32)))
    scoring.feature_importances(forest)


def places(node: Any, at: Place = ()) -> Iterator[Place]:
    """Every place in JSON."""
    yield at
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from places(value, (*at, key))


def with_value(node: Any, place: Place, value: Any) -> Any:
    """JSON with another value at a place; without the place if the value is Ellipsis."""
    if not place:
        return value
    node = copy.deepcopy(node)
    inside = node
    for key in place[:-1]:
        inside = inside[key]
    if value is ...:
        del inside[place[-1]]
    elif isinstance(inside, list):
        inside[int(place[-1])] = value
    else:
        inside[place[-1]] = value
    return node
