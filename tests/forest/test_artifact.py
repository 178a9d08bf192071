"""A sealed forest comes back as it was, or is refused by name: no damage crashes, hangs, or is scored."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import pickle
import re
import shutil
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
import zarr
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numcodecs.zstd import Zstd

from distforest.errors import ArtifactError, InputError
from distforest.forest import artifact, scoring
from distforest.forest.artifact import open_forest, prepare, read_manifest, save, seal, write_rows
from distforest.forest.forest import FORMAT, NODE_ARRAYS, Forest, array_entry, canonical
from tests import samples

CASES = sorted(samples.CASES)
FUZZED = ["labels", "targets", "members", "distances", "rbf", "missing"]
ForestOf = Callable[[str], Forest]
SealedOf = Callable[[str], Path]
NAMED = rf"^({'|'.join(artifact._DTYPES)}|manifest\.json|leaf\.kind)\b"


@pytest.fixture(scope="session")
def copies(sealed_of: SealedOf, tmp_path_factory: pytest.TempPathFactory) -> SealedOf:
    """A function that gives a copy of a sealed forest; whoever damages it puts it right again (`damaged`)."""
    found: dict[str, Path] = {}

    def copy_of(case: str) -> Path:
        if case not in found:
            found[case] = tmp_path_factory.mktemp("copies") / f"{case}.forest.zarr"
            shutil.copytree(sealed_of(case), found[case])
        return found[case]

    return copy_of


@pytest.fixture
def damaged(sealed_of: SealedOf, tmp_path: Path) -> SealedOf:
    """A function that gives a copy of a sealed forest for this test alone."""
    return lambda case: Path(shutil.copytree(sealed_of(case), tmp_path / f"{case}.forest.zarr"))


def contents(forest: Forest) -> dict[str, Any]:
    return {"meaning": forest.meaning, **{name: array.tobytes() for name, array in forest.arrays().items()}}


def manifest_of(path: Path) -> Any:
    return json.loads((path / "manifest.json").read_bytes())


def reseal(path: Path, manifest: Any) -> None:
    """Write a manifest with the digest of what it says, so that only deeper checks can refuse it."""
    if isinstance(manifest, dict):
        sealed = {"format": FORMAT, "meaning": manifest.get("meaning"), "arrays": manifest.get("arrays")}
        text = json.dumps(sealed, sort_keys=True, separators=(",", ":"))
        manifest = {**manifest, "digest": hashlib.sha256(text.encode()).hexdigest()}
    (path / "manifest.json").write_text(json.dumps(manifest))


def rewrite(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Put other arrays in place of a forest's own, with true digests, and seal again."""
    manifest = manifest_of(path)
    for name, array in arrays.items():
        shutil.rmtree(path / name, ignore_errors=True)
        prepare(str(path), name, array.shape, array.dtype)
        entry = array_entry(array.shape, array.dtype, [])
        digests = [write_rows(str(path), name, first, array[first:]) for first in range(0, len(array), 1 << 40)]
        manifest["arrays"][name] = {**entry, "sha256": [digest for own in digests for digest in own]}
    reseal(path, manifest)


def refusal(path: Path) -> str:
    """The message by which a forest is refused."""
    with pytest.raises(ArtifactError) as caught:
        open_forest(str(path))
    return str(caught.value)


def score(forest: Forest, case: str) -> None:
    """Ask an opened forest everything: whatever it holds, no kernel may fail."""
    queries = samples.queries(case, 4)
    try:
        nodes = scoring.apply(forest, forest.source(queries))
    except InputError:  # it reads other rows now
        return
    some = forest.leaves[:, :5]
    assert scoring.distance(forest, nodes, some).shape == (4, some.shape[1])
    scoring.pair_distance(forest, nodes, nodes)
    scoring.kneighbors(forest, nodes, some, 1, False)
    scoring.out_of_bag_distance(forest, np.array([0]), np.array([1]))
    scoring.feature_importances(forest)
    try:
        scoring.predict(forest, nodes)
        scoring.out_of_bag(forest)
    except InputError as error:
        assert "predicts distances" in str(error)


# --- round trip -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_a_sealed_forest_comes_back_as_it_was(case: str, forest_of: ForestOf, sealed_of: SealedOf) -> None:
    forest, path = forest_of(case), sealed_of(case)
    found = open_forest(str(path))
    assert contents(found) == contents(forest)
    assert found.digest == forest.digest == read_manifest(str(path))["digest"] == manifest_of(path)["digest"]
    queries = samples.queries(case)
    sides = [scoring.apply(own, own.source(queries)) for own in (forest, found)]
    assert sides[0].tolist() == sides[1].tolist()
    score(found, case)


def test_saving_gives_the_digest_and_never_writes_over_anything(forest_of: ForestOf, tmp_path: Path) -> None:
    forest, address = forest_of("labels"), str(tmp_path / "f.zarr")
    assert save(forest, address) == forest.digest
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ArtifactError, match="exists already"):
        save(forest, address)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_forests_are_opened_by_url(forest_of: ForestOf) -> None:
    save(forest_of("oblique"), "memory://somewhere/f.zarr")
    assert contents(open_forest("memory://somewhere/f.zarr")) == contents(forest_of("oblique"))


def test_provenance_is_kept_and_no_part_of_the_digest(forest_of: ForestOf, damaged: SealedOf) -> None:
    forest, path = forest_of("labels"), damaged("labels")
    seal(str(path), forest.meaning, manifest_of(path)["arrays"], {"who": ["me", 1]})
    found = open_forest(str(path))
    assert found.provenance == {"who": ["me", 1]}
    assert found.digest == forest.digest


def test_chunks_of_several_arrays_come_back(
    forest_of: ForestOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distforest.forest.forest.CHUNK_BYTES", 64)
    forest, path = forest_of("members"), tmp_path / "f.zarr"
    save(Forest.of(forest.meaning, forest.arrays()), str(path))
    assert max(len(entry["sha256"]) for entry in manifest_of(path)["arrays"].values()) > 20
    assert contents(open_forest(str(path))) == contents(forest)
    chunk = path / "distances" / "c" / "7" / "0"
    chunk.unlink()  # Zarr reads it as zeros
    assert refusal(path).startswith("distances: chunk 7 is missing")


def test_doing_a_write_twice_changes_nothing(damaged: SealedOf, forest_of: ForestOf) -> None:
    path, leaves = damaged("labels"), forest_of("labels").leaves
    before = manifest_of(path)["arrays"]["leaves"]["sha256"]
    assert write_rows(str(path), "leaves", 0, leaves) == before
    assert contents(open_forest(str(path))) == contents(forest_of("labels"))


# --- files that are damaged -------------------------------------------------------------------------------


def files_of(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file())


def is_refused_or_whole(path: Path, file: Path, expected: dict[str, Any]) -> bool:
    """Open a forest with a damaged file; tell whether it is refused, and by the name of what was damaged."""
    try:
        assert contents(open_forest(str(path))) == expected
    except ArtifactError as error:
        own = file.relative_to(path).parts[0]
        message = str(error)
        assert (
            message.startswith(f"{own}:")
            if own in expected
            else message.partition(": ")[0] in {*expected, str(path), "manifest.json", "leaf.kind"}
        )
        return True
    return False


@settings(max_examples=120)
@given(st.sampled_from(["labels", "rbf"]), st.data())
def test_a_flipped_bit_is_refused_or_changes_nothing(
    copies: SealedOf, forest_of: ForestOf, case: str, data: st.DataObject
) -> None:
    path = copies(case)
    file = data.draw(st.sampled_from(files_of(path)))
    raw = file.read_bytes()
    place, bit = data.draw(st.integers(0, len(raw) - 1)), data.draw(st.integers(0, 7))
    changed = bytearray(raw)
    changed[place] ^= 1 << bit
    try:
        file.write_bytes(changed)
        refused = is_refused_or_whole(path, file, contents(forest_of(case)))
        assert refused or file.suffix == ".json"  # a chunk has no bit to spare
    finally:
        file.write_bytes(raw)


@settings(max_examples=60)
@given(st.sampled_from(["labels", "rbf"]), st.data())
def test_a_truncated_or_removed_file_is_refused(
    copies: SealedOf, forest_of: ForestOf, case: str, data: st.DataObject
) -> None:
    path = copies(case)
    file = data.draw(st.sampled_from([own for own in files_of(path) if own != path / "zarr.json"]))
    raw = file.read_bytes()
    length = data.draw(st.one_of(st.none(), st.integers(0, len(raw) - 1)))
    try:
        if length is None:
            file.unlink()
        else:
            file.write_bytes(raw[:length])
        assert is_refused_or_whole(path, file, contents(forest_of(case)))
    finally:
        file.write_bytes(raw)


@pytest.mark.parametrize("name", [*NODE_ARRAYS, "leaves", "in_bag", "class_counts"])
def test_an_array_that_is_gone_is_named(name: str, damaged: SealedOf) -> None:
    path = damaged("labels")
    shutil.rmtree(path / name)
    assert refusal(path).startswith(f"{name}: zarr.json is missing or damaged")
    manifest = manifest_of(path)
    del manifest["arrays"][name]
    reseal(path, manifest)
    assert refusal(path).startswith(f"{name}: missing")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"null", b"[]", b"3", b"\xff\xfe", b"[" * 100_000, b"9" * 10_000, pickle.dumps({"format": 1})],
)
def test_a_manifest_that_is_none_is_refused(content: bytes, damaged: SealedOf) -> None:
    path = damaged("labels")
    (path / "manifest.json").write_bytes(content)
    assert "manifest.json" in refusal(path)


def test_what_is_no_forest_is_refused(tmp_path: Path, damaged: SealedOf) -> None:
    assert "no sealed forest here" in refusal(tmp_path / "nowhere")
    assert "no sealed forest here" in refusal(tmp_path)
    zarr.open_group(str(tmp_path / "group.zarr"), mode="w")
    assert "no sealed forest here" in refusal(tmp_path / "group.zarr")
    (tmp_path / "file").write_bytes(b"x")
    assert "no sealed forest here" in refusal(tmp_path / "file")
    path = damaged("labels")
    (path / "manifest.json").unlink()
    (path / "manifest.json").mkdir()
    assert "manifest.json" in refusal(path)
    with pytest.raises(ArtifactError, match="no sealed forest here"):
        open_forest("unknown-protocol://x")


def test_a_manifest_is_not_read_if_it_is_too_large(damaged: SealedOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact, "MAX_MANIFEST_BYTES", 1000)
    assert "more than 1000" in refusal(damaged("labels"))


class Bomb:
    """A pickle that would leave a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return Path(self.trace).write_text, ("executed",)


@pytest.mark.parametrize("place", ["manifest.json", "left/zarr.json", "left/c/0", "leaves/c/0/0"])
def test_a_pickle_is_never_opened(place: str, damaged: SealedOf, tmp_path: Path) -> None:
    path, trace = damaged("labels"), tmp_path / "trace"
    (path / place).write_bytes(pickle.dumps(Bomb(trace)))
    refusal(path)
    assert not trace.exists()


# --- metadata of Zarr -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("data_type",), "int64"),
        (("data_type",), {"name": "numpy.datetime64", "configuration": {}}),
        (("shape",), [10**12]),
        (("shape",), []),
        (("chunk_grid", "configuration", "chunk_shape"), [1]),
        (("chunk_grid", "configuration", "chunk_shape"), [0]),
        (("chunk_grid", "configuration", "chunk_shape"), [2**62]),
        (("chunk_grid", "name"), "rectilinear"),
        (("codecs", 1, "name"), "gzip"),
        (("codecs", 1, "name"), "numcodecs.pickle"),
        (("codecs", 0), {"name": "sharding_indexed", "configuration": {"chunk_shape": [1]}}),
        (("codecs", 0, "configuration", "endian"), "big"),
        (("codecs",), []),
        (("codecs",), ["bytes"]),
        (("codecs",), [{"name": ["bytes"]}]),
        (("storage_transformers",), [{"name": "x"}]),
        (("zarr_format",), 2),
        (("node_type",), "group"),
        (("fill_value",), "x"),
        (("chunk_key_encoding", "name"), "v2"),
        (("chunk_key_encoding", "configuration", "separator"), "."),
        ((), []),
        ((), 7),
    ],
)
def test_zarr_metadata_that_says_anything_else_is_refused(
    place: tuple[str | int, ...], value: Any, damaged: SealedOf
) -> None:
    path = damaged("labels")
    metadata = json.loads((path / "left" / "zarr.json").read_bytes())
    changed = with_value(metadata, place, value)
    (path / "left" / "zarr.json").write_text(json.dumps(changed))
    assert refusal(path).startswith("left: ")


def chunk_of(content: bytes) -> bytes:
    """A chunk as it is stored: zstd, then its checksum."""
    packed = bytes(Zstd(3).encode(content))
    return packed + struct.pack("<I", google_crc32c.value(packed))


def peak_of(path: Path) -> int:
    """Bytes that refusing a forest takes at its peak."""
    tracemalloc.start()
    try:
        assert refusal(path).startswith("left: ")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_chunk_that_decodes_to_a_huge_size_is_refused_before_it_is_decoded(damaged: SealedOf) -> None:
    path = damaged("labels")
    (path / "left" / "c" / "0").write_bytes(chunk_of(bytes(64 << 20)))
    assert peak_of(path) < 16 << 20


def test_a_chunk_is_decoded_by_one_round_of_each_codec(damaged: SealedOf) -> None:
    path = damaged("labels")
    metadata = json.loads((path / "left" / "zarr.json").read_bytes())
    byte, zstd, checksum = metadata["codecs"]
    (path / "left" / "zarr.json").write_text(json.dumps({**metadata, "codecs": [byte, zstd, zstd, checksum]}))
    (path / "left" / "c" / "0").write_bytes(chunk_of(bytes(Zstd(3).encode(bytes(64 << 20)))))
    assert peak_of(path) < 16 << 20


@pytest.mark.parametrize("size", [0, 1, 63, 10_000])
def test_a_chunk_of_another_size_is_refused(size: int, damaged: SealedOf) -> None:
    path = damaged("labels")
    (path / "left" / "c" / "0").write_bytes(chunk_of(bytes(size)))
    assert refusal(path).startswith("left: ")


# --- manifests that lie -----------------------------------------------------------------------------------

Place = tuple[str | int, ...]


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


SCALARS: list[Any] = [None, True, False, 0, 1, -1, 3, 2**31, 2**63, 2**70, 10**400, 1.5, 0.0, -1.0, 1e308, 5e-324]
WORDS = ["", "x", "features", "dense", "rbf", "class_counts", "means", "members", "leaf_distances", "int32", "float64"]
PARTS: list[Any] = [[], {}, [1], ["a", None], [0, 2**70], [0, 10**9], [2**40, 2**40], {"kind": "features"}, [[1]]]
VALUES = st.one_of(
    st.sampled_from([..., *SCALARS, math.nan, math.inf, *WORDS, *PARTS]), st.integers(), st.text(max_size=3)
)
EXTRA = ["extra", "scale", "factor", "gamma", "n_features", "measure", "kind"]


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


@pytest.mark.parametrize(
    ("case", "place", "value", "named"),
    [
        ("labels", ("format",), 2, "manifest.json: format 2 is unknown, this version reads format 1"),
        ("labels", ("format",), 0, "manifest.json: format 0 is unknown"),
        ("labels", ("format",), "1", "manifest.json: an object with a format number"),
        ("labels", ("format",), True, "manifest.json: an object with a format number"),
        ("labels", ("format",), ..., "manifest.json: an object with a format number"),
        ("labels", ("meaning",), ..., "manifest.json: meaning is missing or not a dict"),
        ("labels", ("arrays",), [], "manifest.json: arrays is missing or not a dict"),
        ("labels", ("provenance",), None, "manifest.json: provenance is missing or not a dict"),
        ("labels", ("extra",), 1, r"manifest.json: unknown keys \['extra'\]"),
        ("labels", ("meaning", "extra"), 1, "manifest.json: meaning"),
        ("labels", ("meaning", "seed"), "7", "manifest.json: meaning"),
        ("labels", ("meaning", "method"), ..., "manifest.json: meaning"),
        ("labels", ("meaning", "rows", "n_columns"), 0, "manifest.json: meaning.rows.n_columns"),
        ("labels", ("meaning", "rows", "n_columns"), 2**31, "manifest.json: meaning.rows.n_columns"),
        ("labels", ("meaning", "rows", "n_columns"), True, "manifest.json: meaning.rows.n_columns"),
        ("labels", ("meaning", "rows", "n_columns"), 1, "columns"),
        ("labels", ("meaning", "rows", "n_columns"), ..., "manifest.json: meaning.rows must name"),
        ("labels", ("meaning", "rows", "kind"), "callable", "manifest.json: meaning.rows must name"),
        ("labels", ("meaning", "rows", "kind"), [], "manifest.json: meaning.rows"),
        ("labels", ("meaning", "rows", "kind"), {}, "manifest.json: meaning.rows"),
        ("labels", ("meaning", "rows", "kind"), "rbf", "manifest.json: meaning.rows of kind rbf needs gamma"),
        ("rbf", ("meaning", "rows", "gamma"), ..., "manifest.json: meaning.rows of kind rbf needs gamma"),
        ("rbf", ("meaning", "rows", "gamma"), 0, "manifest.json: gamma must be a positive number"),
        ("rbf", ("meaning", "rows", "gamma"), math.inf, "manifest.json is not JSON .Infinity is no JSON number"),
        ("rbf", ("meaning", "rows", "gamma"), math.nan, "manifest.json is not JSON .NaN is no JSON number"),
        ("rbf", ("meaning", "rows", "gamma"), "1", "manifest.json: gamma must be a positive number"),
        ("rbf", ("meaning", "rows", "gamma"), HUGE, "manifest.json: gamma"),
        ("rbf", ("meaning", "rows", "n_features"), 4, "objects: the training objects are missing or of the wrong"),
        ("rbf", ("meaning", "rows", "n_columns"), 37, "objects: the training objects are missing or of the wrong"),
        ("labels", ("meaning", "classes"), ["a", "b"], "class_counts: 2 classes were expected"),
        ("labels", ("meaning", "classes"), {"a": 1}, "manifest.json: classes must be a list"),
        ("targets", ("meaning", "classes"), ["a"], "manifest.json: classes"),
        ("targets", ("meaning", "leaf", "factor"), -1, "manifest.json: factor must be a positive number"),
        ("targets", ("meaning", "leaf", "factor"), ..., "factor: missing"),
        ("targets", ("meaning", "leaf", "factor"), HUGE, "manifest.json: factor"),
        ("members", ("meaning", "leaf", "scale"), 0.0, "manifest.json: scale must be a positive number"),
        ("members", ("meaning", "leaf", "scale"), HUGE, "manifest.json: scale"),
        ("labels", ("meaning", "leaf", "kind"), "means", "means: missing"),
        ("labels", ("meaning", "leaf", "kind"), "ranks", "leaf.kind: unknown leaf table 'ranks'"),
        ("labels", ("meaning", "leaf", "kind"), ..., "leaf.kind: unknown leaf table None"),
        ("labels", ("meaning", "leaf", "kind"), [], "leaf.kind: unknown leaf table"),
        ("labels", ("meaning", "params", "x"), math.nan, "manifest.json is not JSON"),
        ("labels", ("meaning", "classes", 0), -math.inf, "manifest.json is not JSON"),
        ("labels", ("provenance", "x"), math.nan, "manifest.json is not JSON"),
        ("labels", ("arrays", "left", "dtype"), "int64", "left: dtype int32 was expected, found 'int64'"),
        ("labels", ("arrays", "left", "dtype"), "object", "left: dtype int32 was expected"),
        ("labels", ("arrays", "left", "shape"), [], "left: shape must be one or two sizes"),
        ("labels", ("arrays", "left", "shape"), [1, 1, 1], "left: shape must be one or two sizes"),
        ("labels", ("arrays", "left", "shape"), [-1], "left: shape must be one or two sizes"),
        ("labels", ("arrays", "left", "shape"), [True], "left: shape must be one or two sizes"),
        ("labels", ("arrays", "left", "shape"), [2.0], "left: shape must be one or two sizes"),
        ("labels", ("arrays", "left", "shape"), [2**62], r"left: shape \[4611686018427387904\] is larger than"),
        ("labels", ("arrays", "left", "shape"), [2**33], "left: chunk_rows"),
        ("labels", ("arrays", "left", "shape"), [3], "left: "),
        ("labels", ("arrays", "left", "shape"), [0, 2**70], "left: "),
        ("labels", ("arrays", "left", "chunk_rows"), 1, "left: chunk_rows"),
        ("labels", ("arrays", "left", "chunk_rows"), None, "left: chunk_rows"),
        ("labels", ("arrays", "left", "sha256"), [], "left: chunk_rows"),
        ("labels", ("arrays", "left", "sha256"), [None], "left: digests are strings"),
        ("labels", ("arrays", "left", "sha256"), ["0" * 64], "left: chunk 0 is missing or damaged"),
        ("labels", ("arrays", "left", "more"), 1, "left: dtype, shape, chunk_rows and sha256"),
        ("labels", ("arrays", "left"), [], "left: dtype, shape, chunk_rows and sha256"),
        ("labels", ("arrays", "../../x"), {}, "manifest.json: a forest has no array '../../x'"),
        ("labels", ("arrays", "objects"), {}, "objects: dtype, shape"),
    ],
    ids=lambda value: str(value)[:40] if not isinstance(value, tuple) else ".".join(map(str, value)),
)
def test_a_lie_in_the_manifest_is_refused_by_its_key(
    case: str, place: Place, value: Any, named: str, damaged: SealedOf
) -> None:
    path = damaged(case)
    reseal(path, with_value(manifest_of(path), place, value))
    with pytest.raises(ArtifactError) as caught:
        open_forest(str(path))
    assert re.match(named, str(caught.value).removeprefix(f"{path}: "))


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
    assert refusal(path) == "manifest.json: its digest does not fit its content"


def test_an_array_too_many_is_refused(damaged: SealedOf) -> None:
    path = damaged("labels")
    rewrite(path, {"means": np.zeros((3, 1))})
    assert refusal(path).startswith("manifest.json: a forest of this kind has no ['means']")


# --- arrays that lie --------------------------------------------------------------------------------------


def changed(array: np.ndarray, place: Any, value: Any) -> np.ndarray:
    array = array.copy()
    array[place] = value
    return array


Change = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]


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
        ("labels", "leaves", lambda a: {"leaves": changed(a["leaves"], (1, 3), -1)}),
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
        ("rbf", "objects", lambda a: {"objects": changed(a["objects"], (0, 0), np.nan)}),
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
from distforest.forest.artifact import open_forest
try:
    open_forest(sys.argv[1])
except ArtifactError as error:
    print(error)
"""


def test_a_file_of_a_stranger_does_not_write_past_an_array(damaged: SealedOf) -> None:
    path = damaged("labels")
    n = len(open_forest(str(path)).table.left)
    rewrite(path, {"tree_size": np.array([2**62, 2**62, 2**62, 2**62 + n])})
    done = subprocess.run([sys.executable, "-c", WRAPPED, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("tree_size")
