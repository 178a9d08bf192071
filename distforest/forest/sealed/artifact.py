"""The forest on disk: a Zarr v3 group of checksummed arrays, and one manifest written last.

::

    lazega.forest.zarr/
        zarr.json                   the group
        manifest.json               meaning, digests, provenance; its presence is the seal
        left/ right/ threshold/ ... one array each, in chunks of whole rows

The same files may be the members of one file, ``lazega.forest.zarr.zip`` (`distforest.forest.sealed.files`).

Readers start from the manifest. It contains the sha256 of every chunk, because Zarr silently reads a missing chunk as
zeros. Nothing in the group is ever unpickled, and no array reaches a kernel before `Forest.check`.
"""

from __future__ import annotations

import json
import math
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias, TypedDict, TypeGuard, cast

import numpy as np
import zarr
from zarr.storage import MemoryStore

from distforest.amounts import counted
from distforest.errors import ArtifactError, InputError
from distforest.forest.estimates import Estimates
from distforest.forest.forest import (
    FOREST_FORMAT,
    NODE_ARRAYS,
    ArrayEntry,
    Forest,
    Meaning,
    MeaningEntry,
    Provenance,
    array_entry,
    canonical,
    chunk_digest,
    chunk_rows,
    chunks,
    digest_of,
)
from distforest.forest.graph_leaves import INDICES, INDPTR, LINK_DISTANCES
from distforest.forest.leaf_kinds import (
    LEAF_KINDS,
    NEAREST,
    VOICES,
    KeepsCounts,
    KeepsGraph,
    KeepsMeans,
    KeepsRanks,
    KeepsVotes,
)
from distforest.forest.leaves import COSTS, MAX_CLASS_WEIGHT
from distforest.forest.pairs.pair_leaves import AGGREGATIONS, VOTINGS
from distforest.forest.path_lengths import PathLengths
from distforest.forest.sealed.files import (
    ONE_FILE,
    PACKINGS,
    Packing,
    SealedFiles,
    in_words,
    is_one_file,
    sealed_files,
    whole_archive,
    without_empty,
)
from distforest.forest.target_leaves import TAUGHT_TARGETS
from distforest.sources.arrays import array_in, create_array
from distforest.sources.factors import COSINE
from distforest.sources.kernels import KERNELS
from distforest.sources.point_pairs import FAMILIES, REDUCTIONS, PairColumns
from distforest.sources.row_kinds import KINDS, MEASURE_KINDS, Dense, Features, Several
from distforest.sources.schema import MAX_CATEGORIES, Schema
from distforest.sources.truth import FACTORS, TruthKind
from distforest.stores.addresses import is_of_this_host, may_pass, put_file, reaching, real_address, store_of
from distforest.stores.building import Building, is_begun, working_folder
from distforest.stores.claims import Claim
from distforest.stores.outputs import FOREST_KIND, GROUP, MANIFEST
from distforest.stores.room import explaining_full_disk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zarr.core.buffer import Buffer
    from zarr.core.metadata import ArrayMetadata

MAX_MANIFEST_BYTES = 16 << 20
"""Largest manifest that is read; the digests of a forest of 4 GiB take 70 KB."""
MAX_ZARR_JSON_BYTES = 64 << 10
"""Largest metadata of an array that are read."""
MORE_BYTES = 1 << 10
"""Bytes by which a stored chunk may exceed its values, beside a 128th, as not every chunk can be compressed."""
OWN_METADATA = canonical({"zarr_format": 3, "node_type": "group", "attributes": {}})
"""Content of a forest's ``zarr.json``, which declares a group, so that Zarr opens it without distforest."""
MAX_ARRAY_BYTES = 1 << 36
"""Largest array in a manifest; a larger one is refused before anything is allocated."""

SAVED = {"fingerprint": "a forest that is saved"}
"""Mark of a forest that `save` has begun in place; jobs have other fingerprints."""

Prepared: TypeAlias = "zarr.Array[ArrayMetadata]"
"""An array of a forest, open for writing."""

LEAF_WORDS = {KeepsVotes.kind: ("voting", VOTINGS), KeepsRanks.kind: ("aggregation", AGGREGATIONS)}
"""Name and allowed values of the attribute of each kind of leaf table over pairs."""
_DTYPES = {
    **dict.fromkeys(("tree_size", "n_rows", "unobserved", "object_starts", INDPTR), "int64"),
    **dict.fromkeys(("left", "right", "width", "columns", "leaves", "class_counts", "codes", "sample_weight"), "int32"),
    **dict.fromkeys(("category_size", "chain_head", "object_columns", INDICES), "int32"),
    "category_codes": "uint16",
    **dict.fromkeys(
        ("threshold", "weights", "gain", "means", "spreads", "leaf_distances", "surrogate", "scores"), "float64"
    ),
    **dict.fromkeys(("feature_weights", "dependence", "targets", TAUGHT_TARGETS), "float64"),
    **dict.fromkeys(("distances", "objects", LINK_DISTANCES, COSTS), "float32"),
    **dict.fromkeys(("calibration_distances", "decision_threshold"), "float64"),
    "calibration_identities": "int32",
    "in_bag": "uint8",
    **dict.fromkeys(("missing_right", "calibration_similar"), "bool"),
}


class Manifest(TypedDict):
    """The manifest of a sealed forest as JSON."""

    format: int
    digest: str
    meaning: MeaningEntry
    arrays: dict[str, ArrayEntry]
    provenance: Provenance


def save(forest: Forest, address: str) -> str:
    """Write a forest from memory, and seal it.

    Parameters
    ----------
    forest
        The forest.
    address
        Path or URL of the new group, or of one file, ``.zip``.

    Returns
    -------
    str
        The forest's digest.

    Raises
    ------
    ArtifactError
        A file or folder exists at the address.
    ConflictError
        Another process, or a job, is writing there.
    InputError
        The address is inside a sealed forest, or nothing can be written there.
    """
    with owned_address(address):
        return _save_in_one_file(forest, address) if is_one_file(address) else _save_in_folder(forest, address)


@contextmanager
def owned_address(address: str) -> Iterator[None]:
    """Own an address at which nothing exists, for a block that writes there; raises as `save`.

    Remains of a `save` that was killed are no obstacle.
    """
    if not is_begun(address, FOREST_KIND, SAVED):
        check_free(address)
    claim, (fs, path) = Claim(address, "the saving of a forest"), store_of(address)
    claim.check_outside()  # before there is a folder
    if is_of_this_host(fs):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    with claim.held():
        if not is_begun(address, FOREST_KIND, SAVED):  # another process may have been faster
            check_free(address)
        yield


def _save_in_folder(forest: Forest, address: str) -> str:
    """Write a forest from memory into a folder, which appears as a whole or not at all; return the digest."""
    building, entries = Building.from_output(address, FOREST_KIND, SAVED), {}
    building.begin()
    try:
        for name, array in forest.sealed_arrays().items():
            digests = write_rows(prepare(building.address, name, array.shape, array.dtype), 0, array)
            entries[name] = array_entry(array.shape, array.dtype, digests)
        digest = seal(building.address, forest.meaning, entries, forest.provenance)
        if not building.is_in_place:
            check_free(address)  # publishing would replace what was put there meanwhile
        building.publish()
    except BaseException:
        building.withdraw()
        raise
    return digest


def check_free(address: str) -> None:
    """Refuse an address at which there is a file, a folder or a link; raise ArtifactError."""
    fs, path = store_of(address)
    with reaching(address):
        is_taken = fs.exists(path)
    if not is_taken and is_of_this_host(fs) and os.path.islink(path):
        cure = "remove it, or make what it leads to"
        raise ArtifactError(
            f"{address}: a new name was expected, found a link to {real_address(path)}, which is not there; {cure}"
        )
    if is_taken:
        cure = "save to another address, or remove it"
        raise ArtifactError(f"{address}: exists already, and nothing is replaced; {cure}")


def _save_in_one_file(forest: Forest, address: str) -> str:
    """Write a forest from memory into one file, which appears as a whole or not at all; return the digest."""
    with working_folder(address) as folder:
        if not folder.is_local:
            return _write_archive(forest, address)
        digest = _write_archive(forest, f"{folder.address}/forest{ONE_FILE}")
        check_free(address)  # a file may have been put there meanwhile
        Path(folder.address, f"forest{ONE_FILE}").replace(real_address(address))
    return digest


def _write_archive(forest: Forest, address: str) -> str:
    """Write the archive of a forest, array by array, the manifest last; returns the digest."""
    entries, arrays = {}, forest.sealed_arrays()
    with whole_archive(address, sum(array.nbytes for array in arrays.values())) as archive:
        archive.add(GROUP, OWN_METADATA)
        for name, array in arrays.items():
            files: dict[str, Buffer] = {}
            stored = array_in(MemoryStore(files), array.shape, array.dtype, chunk_rows(array.shape, array.dtype))
            entries[name] = array_entry(array.shape, array.dtype, write_rows(stored, 0, array))
            archive.add_array(name, files)
        digest, manifest = _manifest(forest.meaning, entries, forest.provenance)
        archive.add(MANIFEST, manifest)
    return digest


def prepare(address: str, name: str, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Prepared:
    """Create the array ``name`` without values; several writers may then fill its chunks."""
    return create_array(address, name, shape, dtype, chunk_rows(shape, dtype))


def write_rows(array: Prepared, first: int, values: np.ndarray) -> list[str]:
    """Write whole chunks from row ``first`` on; return the digest of each. Writing them again changes nothing."""
    step, digests = array.chunks[0], []
    for begin in range(0, len(values), step):  # one by one: Zarr holds two copies of the values that it encodes
        chunk = values[begin : begin + step]
        with explaining_full_disk(str(array.store_path), chunk.nbytes):
            array[first + begin : first + begin + len(chunk)] = chunk
        digests.append(chunk_digest(chunk))
    return digests


def seal(address: str, meaning: Meaning, entries: Mapping[str, object], provenance: Mapping[str, object]) -> str:
    """Write the group's own metadata, and the manifest, which makes it a forest; return the digest."""
    digest, manifest = _manifest(meaning, entries, provenance)
    put_file(f"{address}/{GROUP}", OWN_METADATA)
    put_file(f"{address}/{MANIFEST}", manifest)
    return digest


def seal_decision(address: str, forest: Forest) -> None:
    """Add the calibration and the threshold of a forest to the same forest where it is sealed, which has none yet."""
    manifest = read_manifest(address)
    entries = dict(manifest["arrays"])
    for name, array in forest.sealed_arrays().items():
        if name not in entries:
            digests = write_rows(prepare(address, name, array.shape, array.dtype), 0, array)
            entries[name] = array_entry(array.shape, array.dtype, digests)
    put_file(f"{address}/{MANIFEST}", _manifest(forest.meaning, entries, manifest["provenance"])[1])


def _manifest(meaning: Meaning, entries: Mapping[str, object], provenance: Mapping[str, object]) -> tuple[str, bytes]:
    """Return the digest of a forest, and the content of its manifest."""
    digest = digest_of(meaning, entries)
    manifest = {"format": FOREST_FORMAT, "digest": digest, "meaning": meaning.to_dict(), "arrays": entries}
    return digest, canonical({**manifest, "provenance": provenance})


def read_manifest(address: str) -> Manifest:
    """Read the manifest of a sealed forest; its form is checked, but not the arrays.

    Raises
    ------
    ArtifactError
        There is no sealed forest, or its manifest is damaged or of an unknown format.
    OSError
        A remote store does not answer.
    """
    with sealed_files(address) as files:
        return _read_manifest(address, files)


def _read_manifest(address: str, files: SealedFiles) -> Manifest:
    try:
        raw = files.read(MANIFEST, MAX_MANIFEST_BYTES)
    except (OSError, ValueError) as error:
        if may_pass(error, address):
            raise
        raise ArtifactError(f"{address}: no sealed forest here ({in_words(error, MANIFEST)})") from error
    try:
        manifest: object = json.loads(raw, parse_constant=_refuse_number, parse_float=_finite_number)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{address}: {MANIFEST} is not JSON ({error})") from error
    return _checked_manifest(manifest)


def decoded_bytes(manifest: Manifest) -> int:
    """Return the bytes that the arrays of a forest take in memory, from a manifest that `read_manifest` has checked."""
    return sum(math.prod(entry["shape"]) * np.dtype(entry["dtype"]).itemsize for entry in manifest["arrays"].values())


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _finite_number(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse_number(text)


def _need(holds: object, message: str) -> None:
    """Refuse a manifest if a condition does not hold."""
    if not holds:
        raise ArtifactError(f"{MANIFEST}: {message}")


def _checked_manifest(manifest: object) -> Manifest:
    if not isinstance(manifest, dict) or type(manifest.get("format")) is not int:
        raise ArtifactError(f"{MANIFEST}: an object with a format number was expected")
    found = manifest["format"]
    _need(found == FOREST_FORMAT, f"format {found} is unknown, this version reads format {FOREST_FORMAT}")
    expected = {"format": int, "digest": str, "meaning": dict, "arrays": dict, "provenance": dict}
    for key, kind in expected.items():
        _need(isinstance(manifest.get(key), kind), f"{key} is missing or not a {kind.__name__}")
    _need(set(manifest) == set(expected), f"unknown keys {sorted(set(manifest) - set(expected))}")
    for name, entry in manifest["arrays"].items():
        _check_entry(name, entry)
    provenance = manifest["provenance"]
    Estimates.from_provenance(provenance)
    meaning = _checked_meaning(manifest["meaning"])
    leaves = set() if isinstance(meaning.rows, PairColumns) else {"leaves"}
    missing = {*NODE_ARRAYS, *leaves, "in_bag"} - set(manifest["arrays"])
    if missing:
        raise ArtifactError(f"{min(missing)}: missing from {MANIFEST}")
    if "features" in provenance:
        try:
            schema = Schema.from_entry(provenance["features"], meaning.rows.n_features)
        except InputError as error:
            raise ArtifactError(f"{MANIFEST}: provenance.features: {error}") from error
        longer = "a name, a category, or all of them are longer than a forest keeps"
        _need(schema.is_short(), f"provenance.features: {longer}")
    return cast("Manifest", manifest)


def _check_entry(name: str, entry: object) -> None:
    """Refuse an impossible entry before anything is allocated."""
    if name not in _DTYPES:
        raise ArtifactError(f"{MANIFEST}: a forest has no array {name!r}")
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "chunk_rows", "sha256"}:
        raise ArtifactError(f"{name}: dtype, shape, chunk_rows and sha256 were expected")
    shape, digests = entry["shape"], entry["sha256"]
    if entry["dtype"] != _DTYPES[name]:
        raise ArtifactError(f"{name}: dtype {_DTYPES[name]} was expected, found {entry['dtype']!r}")
    if not isinstance(shape, list) or not 1 <= len(shape) <= 2 or not all(type(s) is int and s >= 0 for s in shape):
        raise ArtifactError(f"{name}: shape must be one or two sizes, found {shape!r}")
    if max(*shape, math.prod(shape)) * np.dtype(_DTYPES[name]).itemsize > MAX_ARRAY_BYTES:
        raise ArtifactError(f"{name}: shape {shape} is larger than {MAX_ARRAY_BYTES} bytes")
    rows = chunk_rows(tuple(shape), np.dtype(_DTYPES[name]))
    if entry["chunk_rows"] != rows or not isinstance(digests, list) or len(digests) != -(-shape[0] // rows):
        raise ArtifactError(f"{name}: chunk_rows {rows} and one digest for each chunk were expected")
    if not all(isinstance(digest, str) for digest in digests):
        raise ArtifactError(f"{name}: digests are strings")


def meaning_of(manifest: Manifest) -> Meaning:
    """Return the meaning of a forest, from a manifest that `read_manifest` has checked."""
    return Meaning.from_dict(manifest["meaning"])


def _checked_meaning(entry: MeaningEntry) -> Meaning:
    """Read the meaning of a manifest; raise ArtifactError if it cannot be scored."""
    values: Mapping[str, object] = entry
    kinds = {"method": str, "params": dict, "seed": int, "rows": dict, "leaf": dict}
    is_whole = set(values) == {*kinds, "classes"} and all(isinstance(values[key], kind) for key, kind in kinds.items())
    _need(is_whole, f"meaning needs {', '.join(kinds)} and classes")
    rows, classes = entry["rows"], values["classes"]
    leaf: Mapping[str, object] = entry["leaf"]
    _need(isinstance(rows.get("kind"), str), f"meaning.rows must name its kind, found {rows!r}")
    kind = leaf.get("kind")
    if not isinstance(kind, str) or kind not in LEAF_KINDS:
        raise ArtifactError(f"leaf.kind: unknown leaf table {kind!r}")
    _check_rows(rows)
    if rows["kind"] == Several.kind:
        _check_several(rows)
    _check_numbers(rows, leaf)
    _need(classes is None or isinstance(classes, list), f"classes must be a list, found {classes!r}")
    _check_leaf(kind, leaf)
    over_pairs = rows["kind"] == PairColumns.kind
    _need(over_pairs == (kind in LEAF_WORDS), f"leaf tables {', '.join(LEAF_WORDS)} go with rows of kind pairs")
    if over_pairs:
        name, words = LEAF_WORDS[kind]
        _need(leaf.get(name) in words, f"leaf.{name} must be one of {', '.join(words)}, found {leaf.get(name)!r}")
        _check_pairs(rows)
    elif "voting" in leaf:
        holds = leaf["voting"] == NEAREST and kind in VOICES and rows["kind"] not in (Features.kind, Several.kind)
        wanted = f"{NEAREST!r} of {' or '.join(VOICES)} over similarities"
        _need(holds, f"leaf.voting must be {wanted}, found {leaf['voting']!r} of {kind} over {rows['kind']}")
    meaning = Meaning.from_dict(entry)
    _check_known("rows", meaning.rows.to_dict(), rows)
    _check_known("leaf", meaning.leaf.to_dict(), leaf)
    return meaning


def _is_count(value: object) -> bool:
    """Return whether a value is a positive integer that fits 32 bits."""
    return type(value) is int and 0 < value < 2**31


def _is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a number that has a finite float."""
    return type(value) in (int, float) and abs(cast("float", value)) <= sys.float_info.max


def _check_known(name: str, known: Mapping[str, object], found: Mapping[str, object]) -> None:
    """Refuse keys that this kind does not have."""
    keys = ", ".join(known)
    _need(known == found, f"meaning.{name} of kind {known['kind']} has only {keys}, found {found!r}")


def _check_numbers(rows: Mapping[str, object], leaf: Mapping[str, object]) -> None:
    """Refuse values that are not numbers, and numbers from which no answer can be computed."""
    numbers = {"gamma": rows.get("gamma", 1.0), "factor": leaf.get("factor", 1.0), "scale": leaf.get("scale", 1.0)}
    for key, value in numbers.items():
        _need(_is_number(value) and value > 0, f"{key} must be a positive number, found {value!r}")
    for key in ("offset", "absent"):
        value = leaf.get(key, 0.0)
        _need(_is_number(value), f"{key} must be a finite number, found {value!r}")


def _check_leaf(kind: str, leaf: Mapping[str, object]) -> None:
    """Refuse attributes that this kind of leaf table does not have, invalid values, and missing attributes."""
    if "class_weights" in leaf:
        weights = leaf["class_weights"]
        _need(kind == KeepsCounts.kind, f"leaf.class_weights go with class_counts, found {kind!r}")
        holds = isinstance(weights, list) and all(type(c) is int and 0 < c <= MAX_CLASS_WEIGHT for c in weights)
        _need(holds, f"leaf.class_weights must be integers from 1 to {MAX_CLASS_WEIGHT}")
    if "unit" in leaf and not (kind == PathLengths.kind and _is_count(leaf["unit"])):
        raise ArtifactError(f"leaf.unit: a whole number of path_lengths was expected, found {leaf['unit']!r}")
    for of, attribute in ((KeepsMeans.kind, "factor"), (KeepsGraph.kind, "absent")):
        if kind == of and attribute not in leaf:
            raise ArtifactError(f"{attribute}: missing")
    is_cosine = leaf.get("metric") == COSINE and leaf.get("factor") == FACTORS[TruthKind.DIRECTIONS]
    expected = f"leaf.metric must be {COSINE!r}, with the factor 0.5"
    _need("metric" not in leaf or is_cosine, f"{expected}, found {leaf!r}")


def _check_pairs(rows: Mapping[str, object]) -> None:
    """Refuse rows of pairs whose columns are not stated."""
    blocks, known = rows.get("blocks"), {"kind", "family", "n_columns", "n_features", "blocks"}
    is_known = set(rows) - {"n_categories", "comparisons"} == known and rows["family"] in FAMILIES
    _need(is_known, "meaning.rows of pairs needs a known family, n_features and blocks")
    is_list = isinstance(blocks, list) and all(
        isinstance(block, list) and len(block) == 2 and block[0] in REDUCTIONS and _is_count(block[1])
        for block in blocks
    )
    _need(is_list, f"meaning.rows.blocks must be pairs of a known word and a size, found {blocks!r}")
    comparisons, places = rows.get("comparisons", []), range(cast("int", rows["n_features"]))
    is_list = isinstance(comparisons, list) and all(
        isinstance(one, list)
        and [*map(type, one)] == [str, list, bool]
        and all(type(c) is int and c in places for c in one[1])
        and one[1]
        for one in comparisons
    )
    _need(is_list, "meaning.rows.comparisons must be words, positions of features, and whether one by one")
    expected = PairColumns.from_dict(rows)
    holds = expected.n_columns == rows["n_columns"] and expected.width < 2**31
    _need(holds, f"meaning.rows.n_columns must be {expected.n_columns}, found {rows['n_columns']}")


def _check_rows(rows: Mapping[str, object]) -> None:
    """Refuse rows of an unknown kind, or with missing parts or parts of a wrong type."""
    kind = rows["kind"]
    for key in ("n_columns", "n_features"):
        if key in rows:
            _need(_is_count(rows[key]), f"meaning.rows.{key} must be a positive integer, found {rows[key]!r}")
    holds = "n_columns" in rows and kind in KINDS
    _need(holds, f"meaning.rows must name a known kind and n_columns, found {rows!r}")
    holds = kind not in KERNELS or {"gamma", "n_features"} <= set(rows)
    _need(holds, f"meaning.rows of kind {kind} needs gamma and n_features")
    holds = kind != Dense.kind or rows.get("measure") in ("similarity", "distance")
    _need(holds, f"meaning.rows.measure must be similarity or distance, found {rows!r}")
    if kind in (Features.kind, PairColumns.kind) and "n_categories" in rows:
        sizes, n_features = rows["n_categories"], rows.get("n_features", rows["n_columns"])
        holds = isinstance(sizes, list) and all(type(size) is int and 0 <= size <= MAX_CATEGORIES for size in sizes)
        holds = holds and len(cast("list[int]", sizes)) == n_features and any(cast("list[int]", sizes))
        expected = f"{n_features} integers, one for each feature, from 0 to {MAX_CATEGORIES:,} and not all 0"
        _need(holds, f"meaning.rows.n_categories: {expected}, were expected, found {str(sizes)[:80]}")


def _check_several(rows: Mapping[str, object]) -> None:
    """Refuse rows of several measures that are not of the same objects, or whose measures have no weights."""
    measures, weights = rows.get("measures"), rows.get("weights")
    if not isinstance(measures, list) or not measures:
        raise ArtifactError(f"{MANIFEST}: meaning.rows.measures must be a list of kinds of rows, found {measures!r}")
    for measure in measures:
        holds = isinstance(measure, dict) and measure.get("kind") in MEASURE_KINDS
        _need(holds, f"meaning.rows.measures must be of the kinds {', '.join(MEASURE_KINDS)}, found {measure!r}")
        _check_rows(measure)
        _check_numbers(measure, {})
        _check_known("rows.measures", MEASURE_KINDS[measure["kind"]].from_dict(measure).to_dict(), measure)
    objects = {(one["kind"] == Dense.kind, one["n_columns"], one.get("n_features")) for one in measures}
    _need(len(objects) == 1, f"meaning.rows.measures must be of the same objects, found {measures!r}")
    holds = rows["n_columns"] == len(measures) * measures[0]["n_columns"]
    _need(holds, f"meaning.rows.n_columns must be that of all measures, found {rows['n_columns']!r}")
    holds = isinstance(weights, list) and all(_is_number(weight) and weight >= 0.0 for weight in weights)
    holds = holds and len(cast("list[float]", weights)) == len(measures) and any(cast("list[float]", weights))
    _need(holds, f"meaning.rows.weights must be a number for each measure, none negative, found {weights!r}")


def open_forest(address: str) -> Forest:
    """Open a sealed forest; check every chunk against its digest, and every array against the rules of a forest.

    Parameters
    ----------
    address
        Path or URL of the group, or of its single file.

    Raises
    ------
    ArtifactError
        The forest is damaged; the message names the array and the place.
    OSError
        A remote store does not answer.
    """
    with sealed_files(address) as files:
        manifest = _read_manifest(address, files)
        meaning = meaning_of(manifest)
        arrays = {name: _read_array(address, files, name, entry) for name, entry in manifest["arrays"].items()}
    if digest_of(meaning, manifest["arrays"]) != manifest["digest"]:
        raise ArtifactError(f"{MANIFEST}: its digest does not match its content")
    forest = Forest.from_arrays(meaning, arrays, manifest["provenance"])
    if set(forest.sealed_arrays()) != set(arrays):
        unknown = sorted(set(arrays) - set(forest.sealed_arrays()))
        raise ArtifactError(f"{MANIFEST}: a forest of this kind has no {unknown}")
    over_pairs = isinstance(meaning.rows, PairColumns)
    if (meaning.classes is not None) != ("class_counts" in arrays) and not over_pairs:
        raise ArtifactError(f"{MANIFEST}: classes go with class_counts, found {meaning.classes!r}")
    if meaning.classes is not None and not over_pairs and arrays["class_counts"].shape[1:] != (len(meaning.classes),):
        raise ArtifactError(f"class_counts: expected {counted(len(meaning.classes), 'class', 'classes')}")
    forest.check()
    opened = forest.with_lean_table()
    opened.__dict__["digest"] = manifest["digest"]  # each chunk and the manifest have confirmed it
    return opened


def read_array(address: str, manifest: Manifest, name: str) -> np.ndarray:
    """Read one array of a forest and check its digests; raise ArtifactError if it is damaged."""
    with sealed_files(address) as files:
        return _read_array(address, files, name, manifest["arrays"][name])


def _read_array(address: str, files: SealedFiles, name: str, entry: ArrayEntry) -> np.ndarray:
    """Read one array, and check the digest of each chunk."""
    _check_sizes(address, files, name, entry, _checked_packing(address, files, name, entry))
    values = np.empty(entry["shape"], entry["dtype"])
    step = entry["chunk_rows"]
    try:
        stored = zarr.open_array(files.array(name), mode="r", zarr_format=3)
        for first in range(0, len(values), step):
            values[first : first + step] = stored[first : first + step]
    except Exception as error:  # codecs raise errors of any type for a damaged chunk
        if may_pass(error, address):
            raise
        raise ArtifactError(f"{name}: cannot be read ({type(error).__name__}: {error})") from error
    for number, (chunk, expected) in enumerate(zip(chunks(values), entry["sha256"], strict=True)):
        if chunk_digest(chunk) != expected:
            raise ArtifactError(f"{name}: chunk {number} is missing or damaged (its sha256 differs)")
    return values


def _check_sizes(address: str, files: SealedFiles, name: str, entry: ArrayEntry, packing: Packing) -> None:
    """Refuse a chunk whose stated decoded size is not that of this array's chunks, before it is decoded."""
    row = math.prod(max(1, size) for size in entry["shape"][1:])
    expected = entry["chunk_rows"] * row * np.dtype(entry["dtype"]).itemsize
    for number in range(len(entry["sha256"])):
        key = "/".join(["c", str(number), *("0" for _ in entry["shape"][1:])])
        try:
            most = expected + expected // 128 + MORE_BYTES
            size = packing.size(*files.head(f"{name}/{key}", packing.head, most))
        except (OSError, ValueError) as error:
            if may_pass(error, address):
                raise
            raise ArtifactError(f"{name}: chunk {number} is missing or cannot be read ({error})") from error
        if size != expected:
            raise ArtifactError(f"{name}: chunk {number} is damaged: it announces {size} bytes, not {expected}")


def _checked_packing(address: str, files: SealedFiles, name: str, entry: ArrayEntry) -> Packing:
    """Return the packing of an array; refuse Zarr metadata that distforest does not write before Zarr reads them."""
    try:
        metadata = canonical(without_empty(json.loads(files.read(f"{name}/zarr.json", MAX_ZARR_JSON_BYTES))))
    except (OSError, ValueError, RecursionError) as error:
        if may_pass(error, address):
            raise
        raise ArtifactError(f"{name}: zarr.json is missing or damaged ({error!r})") from error
    for packing in PACKINGS:
        if metadata == canonical(without_empty(packing.metadata(entry))):
            return packing
    raise ArtifactError(f"{name}: zarr.json does not agree with {MANIFEST}")
