"""A sealed forest whose manifest or arrays lie, under true digests, is refused by name or can be scored."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from distforest.errors import ArtifactError
from distforest.forest.forest import NODE_ARRAYS, canonical
from distforest.forest.members import Members
from distforest.forest.sealed import artifact
from distforest.forest.sealed.artifact import open_forest
from tests import samples
from tests.forest.sealed.damage import (
    ForestOf,
    Place,
    SealedOf,
    changed,
    manifest_of,
    places,
    refusal,
    reseal,
    rewrite,
    score,
    with_value,
)
from tests.messages import naming
from tests.reference import naive

FUZZED = ["labels", "targets", "members", "distances", "rbf", "missing", "surrogate", *samples.VOTING_CASES]
FUZZED += samples.PAIR_CASES
NAMED = rf"^({'|'.join(artifact._DTYPES)}|manifest\.json|leaf\.kind|scale|offset|factor)\b"


def test_a_forest_of_distances_in_fixed_point_answers_as_it_was_sealed(copies: SealedOf) -> None:
    path = copies("members")
    leaf = manifest_of(path)["meaning"]["leaf"]
    assert leaf == {"kind": "members"}
    reseal(path, with_value(manifest_of(path), ("meaning", "leaf", "scale"), 8.0))
    forest = open_forest(str(path))
    assert isinstance(forest.leaf_table, Members)
    z, nodes = forest.leaf_table.distances, forest.training_nodes[0].astype(np.int64)
    weights, leaves = forest.in_bag[0].tolist(), forest.leaves[0].tolist()
    rounded = [[round(8 * float(value)) / 8 for value in row] for row in z]
    expected = [naive.leaf_distance(rounded, weights, leaves, int(nodes[0]), int(other)) for other in nodes[:9]]
    assert forest.leaf_table.between(0, nodes[:1], nodes[:9]).tolist() == [expected]


# --- manifests that lie -----------------------------------------------------------------------------------

SCALARS: list[Any] = [None, True, False, 0, 1, -1, 3, 2**31, 2**63, 2**70, 10**400, 1.5, 0.0, -1.0, 1e308, 5e-324]
WORDS = ["", "x", "features", "dense", "rbf", "class_counts", "means", "members", "leaf_distances", "int32", "float64"]
WORDS += ["pairs", "votes", "ranks", "nearest", "difference", "max_min", "dot", "mean", "median", "evidence"]
PARTS: list[Any] = [[], {}, [1], ["a", None], [0, 2**70], [0, 10**9], [2**40, 2**40], {"kind": "features"}, [[1]]]
PARTS += [[["dot", 1]], [["same", 2**31 - 1]], ["dot", 0]]
PARTS += [{"names": [*"abcde"]}, {"names": [*"abcde"], "dtypes": [1, 2, 3, 4, 5]}, {"names": "abcde"}]
VALUES = st.one_of(
    st.sampled_from([..., *SCALARS, math.nan, math.inf, *WORDS, *PARTS]), st.integers(), st.text(max_size=3)
)
EXTRA = ["extra", "scale", "factor", "gamma", "class_weights", "n_features", "measure", "kind", "voting", "blocks"]
EXTRA += ["features", "names", "dtypes", "offset"]


@pytest.mark.slow
@settings(max_examples=120)
@given(st.sampled_from(FUZZED), st.data())
def test_whatever_a_manifest_says_it_is_refused_by_name_or_can_be_scored(
    copies: SealedOf, case: str, data: st.DataObject
) -> None:
    path = copies(case)
    raw = (path / "manifest.json").read_bytes()
    manifest = json.loads(raw)
    inside = [place for place in places(manifest) if place]
    place = data.draw(st.sampled_from([own for own in inside if own[0] == "meaning"] + inside))
    if isinstance(manifest, dict) and data.draw(st.booleans()):
        holders = [own for own in places(manifest) if isinstance(at(manifest, own), dict)]
        place = (*data.draw(st.sampled_from(holders)), data.draw(st.sampled_from(EXTRA)))
    value = data.draw(VALUES)
    assume(value is not ... or place in inside)
    try:
        reseal(path, with_value(manifest, place, value))
        try:
            forest = open_forest(str(path))
        except ArtifactError as error:
            assert re.match(NAMED, str(error).removeprefix(f"{path}: "))
        else:
            score(forest, case)
    finally:
        (path / "manifest.json").write_bytes(raw)


def at(node: Any, place: Place) -> Any:
    for key in place:
        node = node[key]
    return node


HUGE = 10**400
NAMES = [*"abcde"]
BAD_NAMES: list[tuple[Any, tuple[object, ...]]] = [
    (None, ("names", "dtypes", "encodings", None)),
    ([*"abcde"], ("names", "dtypes", "encodings")),
    ({}, ("names", "dtypes", "encodings")),
    ({"dtypes": NAMES}, ("names", "dtypes", "encodings")),
    ({"names": NAMES, "kinds": NAMES}, ("names", "dtypes", "encodings")),
    ({"names": "abcde"}, ("names: ", "5 columns", "str")),
    ({"names": {"a": 1}}, ("names: ", "5 columns", "dict")),
    ({"names": [*"abcd"]}, ("names: ", "5 columns", 4)),
    ({"names": []}, ("names: ", "5 columns", 0)),
    ({"names": [*"abcd", 5]}, ("names: ", "5 columns", "type")),
    ({"names": [*"abcd", None]}, ("names: ", "5 columns", "type")),
    ({"names": NAMES, "dtypes": [*"abcd"]}, ("dtypes: ", "5 columns", 4)),
    ({"names": NAMES, "dtypes": [*"abcd", {}]}, ("dtypes: ", "5 columns", "type")),
    ({"names": [*"abcd", "e" * 4097]}, ("longer",)),
    ({"names": NAMES, "dtypes": [*"abcd", "e" * 4097]}, ("longer",)),
]
BAD_BLOCKS = (["sum", 1], ["dot", 0], ["dot", True], ["dot", 2**31])


@pytest.mark.parametrize(
    ("case", "place", "value", "named"),
    [
        ("labels", ("format",), 2, ("manifest.json: format 2", "format 1")),
        ("labels", ("format",), 0, ("manifest.json: format 0", "format 1")),
        ("labels", ("format",), "1", ("manifest.json: ", "format")),
        ("labels", ("format",), True, ("manifest.json: ", "format")),
        ("labels", ("format",), ..., ("manifest.json: ", "format")),
        ("labels", ("meaning",), ..., ("manifest.json: meaning ",)),
        ("labels", ("arrays",), [], ("manifest.json: arrays ",)),
        ("labels", ("provenance",), None, ("manifest.json: provenance ",)),
        ("labels", ("extra",), 1, ("manifest.json: ", "['extra']")),
        ("labels", ("meaning", "extra"), 1, ("manifest.json: meaning",)),
        ("labels", ("meaning", "seed"), "7", ("manifest.json: meaning",)),
        ("labels", ("meaning", "method"), ..., ("manifest.json: meaning",)),
        ("labels", ("meaning", "rows", "n_columns"), 0, ("manifest.json: meaning.rows.n_columns",)),
        ("labels", ("meaning", "rows", "n_columns"), 2**31, ("manifest.json: meaning.rows.n_columns",)),
        ("labels", ("meaning", "rows", "n_columns"), True, ("manifest.json: meaning.rows.n_columns",)),
        ("labels", ("meaning", "rows", "n_columns"), 1, ("columns",)),
        ("labels", ("meaning", "rows", "n_columns"), ..., ("manifest.json: meaning.rows ",)),
        ("labels", ("meaning", "rows", "kind"), "callable", ("manifest.json: meaning.rows ",)),
        ("labels", ("meaning", "rows", "kind"), [], ("manifest.json: meaning.rows",)),
        ("labels", ("meaning", "rows", "kind"), {}, ("manifest.json: meaning.rows",)),
        ("labels", ("meaning", "rows", "kind"), "rbf", ("manifest.json: meaning.rows ", "rbf", "gamma")),
        ("rbf", ("meaning", "rows", "gamma"), ..., ("manifest.json: meaning.rows ", "rbf", "gamma")),
        ("rbf", ("meaning", "rows", "gamma"), 0, ("manifest.json: gamma ",)),
        ("rbf", ("meaning", "rows", "gamma"), math.inf, ("manifest.json ", "Infinity")),
        ("rbf", ("meaning", "rows", "gamma"), math.nan, ("manifest.json ", "NaN")),
        ("rbf", ("meaning", "rows", "gamma"), "1", ("manifest.json: gamma ",)),
        ("rbf", ("meaning", "rows", "gamma"), HUGE, ("manifest.json: gamma",)),
        ("rbf", ("meaning", "rows", "n_features"), 4, ("objects: ",)),
        ("rbf", ("meaning", "rows", "n_columns"), 37, ("objects: ",)),
        ("rbf", ("meaning", "rows", "extra"), 1, ("manifest.json: meaning.rows ", "rbf", "n_columns", "n_features")),
        ("labels", ("meaning", "rows", "gamma"), 1, ("manifest.json: meaning.rows ", "features", "n_columns")),
        ("missing", ("meaning", "rows", "measure"), "x", ("manifest.json: meaning.rows.measure ", "similarity")),
        ("missing", ("meaning", "rows", "measure"), ..., ("manifest.json: meaning.rows.measure ", "similarity")),
        ("labels", ("meaning", "classes"), ["a", "b"], ("class_counts: ", "2 classes")),
        ("labels", ("meaning", "classes"), {"a": 1}, ("manifest.json: classes ", "list")),
        ("targets", ("meaning", "classes"), ["a"], ("manifest.json: classes",)),
        ("targets", ("meaning", "leaf", "factor"), -1, ("manifest.json: factor ",)),
        ("targets", ("meaning", "leaf", "factor"), ..., ("factor: ",)),
        ("targets", ("meaning", "leaf", "factor"), HUGE, ("manifest.json: factor",)),
        ("members", ("meaning", "leaf", "scale"), 0.0, ("manifest.json: scale ",)),
        ("members", ("meaning", "leaf", "scale"), HUGE, ("manifest.json: scale",)),
        ("members", ("meaning", "leaf", "offset"), "1", ("manifest.json: offset ",)),
        ("members", ("meaning", "leaf", "offset"), HUGE, ("manifest.json: offset ",)),
        ("labels", ("meaning", "leaf", "kind"), "means", ("factor: ",)),
        ("labels", ("meaning", "leaf"), {"kind": "means", "factor": 1}, ("means: ",)),
        ("labels", ("meaning", "leaf", "factor"), 1.0, ("manifest.json: meaning.leaf ", "class_counts", "kind")),
        ("members", ("meaning", "leaf", "extra"), 1, ("manifest.json: meaning.leaf ", "members", "kind")),
        ("labels", ("meaning", "leaf", "kind"), "votes", ("manifest.json: leaf ", "votes, ranks", "rows")),
        ("labels", ("meaning", "rows", "kind"), "pairs", ("manifest.json: leaf ", "votes, ranks", "rows")),
        ("votes", ("meaning", "rows", "kind"), "features", ("manifest.json: leaf ", "votes, ranks", "rows")),
        ("votes", ("meaning", "leaf", "kind"), "class_counts", ("manifest.json: leaf ", "votes, ranks", "rows")),
        ("votes", ("meaning", "leaf", "kind"), "ranks", ("manifest.json: leaf.aggregation ", "mean, median")),
        ("votes", ("meaning", "leaf", "voting"), "all", ("manifest.json: leaf.voting ", "majority, mean, evidence")),
        ("votes", ("meaning", "leaf", "voting"), ..., ("manifest.json: leaf.voting ", None)),
        ("votes", ("meaning", "leaf", "voting"), [], ("manifest.json: leaf.voting ", "[]")),
        (
            "votes",
            ("meaning", "leaf", "class_weights"),
            [64, 64],
            ("manifest.json: leaf.class_weights ", "class_counts"),
        ),
        ("ranks", ("meaning", "leaf", "aggregation"), "sum", ("manifest.json: leaf.aggregation ", "mean, median")),
        ("votes", ("meaning", "rows", "family"), "sum", ("manifest.json: meaning.rows ", "pairs", "family")),
        ("votes", ("meaning", "rows", "family"), ..., ("manifest.json: meaning.rows ", "pairs", "family")),
        ("votes", ("meaning", "rows", "family"), [], ("manifest.json: meaning.rows ", "pairs", "family")),
        ("votes", ("meaning", "rows", "family"), "difference", ("manifest.json: meaning.rows.n_columns ", 5, 10)),
        ("votes", ("meaning", "rows", "n_features"), 4, ("manifest.json: meaning.rows.n_columns ", 8, 10)),
        ("votes", ("meaning", "rows", "n_features"), ..., ("manifest.json: meaning.rows ", "pairs", "n_features")),
        ("votes", ("meaning", "rows", "gamma"), 1.0, ("manifest.json: meaning.rows ", "pairs", "family")),
        *(
            ("votes", ("meaning", "rows", "blocks"), lie, ("manifest.json: meaning.rows.blocks ",))
            for lie in (None, {}, "dot", ["dot"], [["dot"]], *([own] for own in BAD_BLOCKS))
        ),
        ("votes", ("meaning", "rows", "blocks"), [["dot", 1]], ("manifest.json: meaning.rows.n_columns ", 11, 10)),
        ("labels", ("meaning", "leaf", "kind"), ..., ("leaf.kind: ", None)),
        ("labels", ("meaning", "leaf", "kind"), [], ("leaf.kind: ",)),
        *(
            ("labels", ("meaning", "leaf", "class_weights"), lie, ("manifest.json: leaf.class_weights ", "integers"))
            for lie in ([64, 64, 0], [64, 64, 2**24 + 1], [64, 64, 1.5], [64, 64, True], [64, 64, None], 64, "64", None)
        ),
        ("labels", ("meaning", "leaf", "class_weights"), [64, 64], ("class_counts: ", "2 classes")),
        ("targets", ("meaning", "leaf", "class_weights"), [64], ("manifest.json: leaf.class_weights ", "class_counts")),
        ("labels", ("meaning", "params", "x"), math.nan, ("manifest.json ", "NaN")),
        ("labels", ("meaning", "classes", 0), -math.inf, ("manifest.json ", "Infinity")),
        ("labels", ("provenance", "x"), math.nan, ("manifest.json ", "NaN")),
        *(
            (case, ("provenance", "features"), lie, ("manifest.json: provenance.features: ", *named))
            for case in ("labels", "rbf", "votes")
            for lie, named in BAD_NAMES
        ),
        ("labels", ("arrays", "left", "dtype"), "int64", ("left: ", "int32", "int64")),
        ("labels", ("arrays", "left", "dtype"), "object", ("left: ", "int32", "object")),
        ("labels", ("arrays", "left", "shape"), [], ("left: shape ",)),
        ("labels", ("arrays", "left", "shape"), [1, 1, 1], ("left: shape ",)),
        ("labels", ("arrays", "left", "shape"), [-1], ("left: shape ",)),
        ("labels", ("arrays", "left", "shape"), [True], ("left: shape ",)),
        ("labels", ("arrays", "left", "shape"), [2.0], ("left: shape ",)),
        ("labels", ("arrays", "left", "shape"), [2**62], ("left: shape [4611686018427387904] ",)),
        ("labels", ("arrays", "left", "shape"), [2**34], ("left: chunk_rows",)),  # 2^36 bytes
        ("labels", ("arrays", "left", "shape"), [2**34 + 1], ("left: shape [17179869185] ", "687194")),
        ("labels", ("arrays", "left", "shape"), [3], ("left: ",)),
        ("labels", ("arrays", "left", "shape"), [0, 2**70], ("left: ",)),
        ("labels", ("arrays", "left", "chunk_rows"), 1, ("left: chunk_rows",)),
        ("labels", ("arrays", "left", "chunk_rows"), None, ("left: chunk_rows",)),
        ("labels", ("arrays", "left", "sha256"), [], ("left: chunk_rows",)),
        ("labels", ("arrays", "left", "sha256"), [None], ("left: ", "digests")),
        ("labels", ("arrays", "left", "sha256"), ["0" * 64], ("left: chunk 0 ",)),
        ("labels", ("arrays", "left", "more"), 1, ("left: dtype, shape, chunk_rows and sha256",)),
        ("labels", ("arrays", "left"), [], ("left: dtype, shape, chunk_rows and sha256",)),
        ("labels", ("arrays", "../../x"), {}, ("manifest.json: ", "'../../x'")),
        ("labels", ("arrays", "objects"), {}, ("objects: dtype, shape",)),
    ],
    ids=lambda value: str(value)[:40] if not isinstance(value, tuple) else ".".join(map(str, value)),
)
def test_a_lie_in_the_manifest_is_refused_by_its_key(
    case: str, place: Place, value: Any, named: tuple[object, ...], damaged: SealedOf
) -> None:
    path = damaged(case)
    reseal(path, with_value(manifest_of(path), place, value))
    told = refusal(path).removeprefix(f"{path}: ")
    assert told.startswith(str(named[0]))
    assert re.match(naming(*named), told)


@pytest.mark.parametrize("key", ["gamma", "x"])
def test_a_number_beyond_float64_is_refused(key: str, damaged: SealedOf) -> None:
    path = damaged("rbf")
    reseal(path, with_value(manifest_of(path), ("meaning", "params", key), 1.25))
    text = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(text.replace("1.25", "1e999"))
    assert "manifest.json" in refusal(path)


def test_a_manifest_whose_digest_is_not_its_own_is_refused(damaged: SealedOf) -> None:
    path = damaged("labels")
    manifest = manifest_of(path)
    manifest["meaning"]["seed"] += 1
    (path / "manifest.json").write_bytes(canonical(manifest))
    assert re.match("manifest.json: .*digest", refusal(path))


def test_an_array_too_many_is_refused(damaged: SealedOf) -> None:
    path = damaged("labels")
    rewrite(path, {"means": np.zeros((3, 1))})
    assert re.match(r"manifest.json: .*\['means'\]", refusal(path))


# --- arrays that lie --------------------------------------------------------------------------------------


Change = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "named", "change"),
    [
        ("labels", "left", lambda a: {"left": changed(a["left"], 0, 0)}),
        ("labels", "right", lambda a: {"right": changed(a["right"], 0, 10**6)}),
        ("labels", "columns", lambda a: {"columns": changed(a["columns"], 0, samples.N_COLUMNS)}),
        ("rbf", "columns", lambda a: {"columns": changed(a["columns"], 0, samples.N_ROWS)}),
        ("labels", "threshold", lambda a: {"threshold": changed(a["threshold"], 0, np.nan)}),
        ("labels", "left", lambda a: {"tree_size": changed(a["tree_size"], 0, a["tree_size"][0] + 1)}),
        ("labels", "tree_size", lambda a: {"tree_size": changed(a["tree_size"], 0, 0)}),
        ("labels", "leaves", lambda a: {"leaves": changed(a["leaves"], (0, 0), a["tree_size"][0])}),
        ("labels", "leaves", lambda a: {"leaves": changed(a["leaves"], tuple(np.argwhere(a["in_bag"])[0]), -1)}),
        ("members", "leaves", lambda a: {"leaves": changed(a["leaves"], tuple(np.argwhere(a["in_bag"] == 0)[0]), -1)}),
        ("surrogate", "surrogate", lambda a: {"surrogate": a["surrogate"][:-1]}),
        ("surrogate", "surrogate", lambda a: {"surrogate": a["surrogate"].ravel()}),
        ("labels", "leaves", lambda a: {"leaves": a["leaves"][:-1], "in_bag": a["in_bag"][:-1]}),
        ("labels", "leaves", lambda a: {"in_bag": a["in_bag"][:, :-1].copy()}),
        ("labels", "leaves", lambda a: {"leaves": a["leaves"].ravel()}),
        ("labels", "class_counts", lambda a: {"class_counts": changed(a["class_counts"], 2, 0)}),
        ("labels", "class_counts", lambda a: {"class_counts": changed(a["class_counts"], (2, 0), -5)}),
        ("labels", "class_counts", lambda a: {"class_counts": a["class_counts"][:, :2].copy()}),
        ("targets", "means", lambda a: {"means": changed(a["means"], 0, np.inf)}),
        ("targets", "spreads", lambda a: {"spreads": changed(a["spreads"], 0, -1.0)}),
        ("members", "leaves", lambda a: {"in_bag": np.zeros_like(a["in_bag"])}),
        ("members", "distances", lambda a: {"distances": changed(a["distances"], (0, 1), np.nan)}),
        ("members", "distances", lambda a: {"distances": a["distances"][:4, :4].copy()}),
        ("distances", "leaf_distances", lambda a: {"leaf_distances": a["leaf_distances"][:-1]}),
        ("distances", "leaf_distances", lambda a: {"leaf_distances": changed(a["leaf_distances"], 0, np.inf)}),
        ("rbf", "objects", lambda a: {"objects": a["objects"][:-1]}),
        ("rbf", "objects", lambda a: {"objects": a["objects"].ravel()}),
        ("rbf", "objects", lambda a: {"objects": changed(a["objects"], (0, 0), np.inf)}),
        ("votes", "objects", lambda a: {"objects": a["objects"][:-1]}),
        ("votes", "objects", lambda a: {"objects": a["objects"][:, :-1].copy()}),
        ("votes", "objects", lambda a: {"objects": a["objects"].ravel()}),
        ("votes", "objects", lambda a: {"objects": changed(a["objects"], (0, 0), np.inf)}),
        ("votes", "objects", lambda a: {"in_bag": a["in_bag"][:-1]}),
        ("votes", "columns", lambda a: {"columns": changed(a["columns"], 0, 10)}),
        ("votes", "class_counts", lambda a: {"class_counts": changed(a["class_counts"], (2, 0), -5)}),
        ("votes", "class_counts", lambda a: {"class_counts": changed(a["class_counts"], 2, 0)}),
        ("votes", "class_counts", lambda a: {"class_counts": a["class_counts"][:, :1].copy()}),
        ("votes", "class_counts", lambda a: {"class_counts": a["class_counts"][:-1]}),
        ("ranks", "scores", lambda a: {"scores": a["scores"][:-1]}),
        ("ranks", "scores", lambda a: {"scores": changed(a["scores"], -1, 0.0)}),
        ("ranks", "scores", lambda a: {"scores": changed(a["scores"], 0, np.nan)}),
        ("ranks", "scores", lambda a: {"scores": np.where(a["left"] < 0, 0.5, a["scores"])}),
        *(("labels", name, lambda a, n=name: {n: np.stack([a[n]] * 2, axis=1)}) for name in NODE_ARRAYS),
        *((case, "leaves", lambda a: {"leaves": changed(a["leaves"], (0, 0), 0)}) for case in ("distances", "members")),
    ],
)
def test_a_lie_in_an_array_is_refused_by_its_name(case: str, named: str, change: Change, damaged: SealedOf) -> None:
    path = damaged(case)
    rewrite(path, change(open_forest(str(path)).arrays()))
    with pytest.raises(ArtifactError, match=rf"^{named}\b"):
        open_forest(str(path))


EXTREMES = {
    "i": [0, 1, -1, -2, 5, 100, -(2**31), 2**31 - 1],
    "u": [0, 1, 31, 255],
    "f": [0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 1e30, 1e-40],
}


@pytest.mark.slow
@settings(max_examples=60)
@given(st.sampled_from([*FUZZED, "oblique"]), st.data())
def test_whatever_an_array_holds_it_is_refused_by_name_or_can_be_scored(
    copies: SealedOf, forest_of: ForestOf, case: str, data: st.DataObject
) -> None:
    path, arrays = copies(case), forest_of(case).arrays()
    names = data.draw(st.lists(st.sampled_from(sorted(arrays)), min_size=1, max_size=2, unique=True))
    other = {name: _mutated(arrays[name], data) for name in names}
    raw = (path / "manifest.json").read_bytes()
    try:
        rewrite(path, other)
        try:
            forest = open_forest(str(path))
        except ArtifactError as error:
            assert re.match(NAMED, str(error))
        else:
            score(forest, case)
    finally:
        rewrite(path, {name: arrays[name] for name in names})
        (path / "manifest.json").write_bytes(raw)


def _mutated(array: np.ndarray, data: st.DataObject) -> np.ndarray:
    """An array with another value, fewer or more rows, or another order."""
    how = data.draw(st.sampled_from(["value", "value", "value", "shorter", "longer", "empty", "reversed", "narrow"]))
    if how == "value":
        own = array.copy(order="C")
        place = data.draw(st.integers(0, own.size - 1))
        own.reshape(-1)[place] = data.draw(st.sampled_from(EXTREMES[own.dtype.kind]))
        return own
    if how == "narrow":
        return np.ascontiguousarray(array[:, :-1]) if array.ndim == 2 else array[: len(array) // 2]
    return {
        "shorter": array[:-1],
        "longer": np.concatenate([array, array[-1:]]),
        "empty": array[:0],
        "reversed": array[::-1].copy(),
    }[how]


WRAPPED = """
import sys
from distforest.errors import ArtifactError
from distforest.forest.sealed.artifact import open_forest
try:
    open_forest(sys.argv[1])
except ArtifactError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_file_of_a_stranger_does_not_write_past_an_array(damaged: SealedOf) -> None:
    path = damaged("labels")
    n = len(open_forest(str(path)).table.left)
    rewrite(path, {"tree_size": np.array([2**62, 2**62, 2**62, 2**62 + n])})
    done = subprocess.run([sys.executable, "-c", WRAPPED, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("tree_size")
