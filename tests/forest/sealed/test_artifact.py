"""A sealed forest comes back as it was; one whose files are damaged is refused by name or reads as before."""

from __future__ import annotations

import json
import pickle
import re
import shutil
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from numcodecs import Blosc, Zstd
from zarr.codecs import Crc32cCodec, ZstdCodec

from distforest.errors import ArtifactError
from distforest.forest import scoring
from distforest.forest.forest import NODE_ARRAYS, Forest, array_entry
from distforest.forest.sealed import artifact
from distforest.forest.sealed.artifact import open_forest, prepare, read_manifest, save, seal, write_rows
from distforest.sources.arrays import writable_array
from tests import samples
from tests.forest.sealed.damage import ForestOf, SealedOf, contents, manifest_of, refusal, reseal, score, with_value
from tests.messages import naming

CASES = sorted({**samples.CASES, **samples.VOTING_CASES})


# --- round trip -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", sorted({*CASES, *samples.PAIR_CASES}))
def test_a_sealed_forest_comes_back_as_it_was(case: str, forest_of: ForestOf, sealed_of: SealedOf) -> None:
    forest, path = forest_of(case), sealed_of(case)
    found = open_forest(str(path))
    assert contents(found) == contents(forest)
    assert found.digest == forest.digest == read_manifest(str(path))["digest"] == manifest_of(path)["digest"]
    if case in CASES:
        queries = samples.queries(case)
        sides = [scoring.apply(own, own.source(queries)) for own in (forest, found)]
        assert sides[0].tolist() == sides[1].tolist()
    score(found, case)


def test_saving_gives_the_digest_and_never_writes_over_anything(forest_of: ForestOf, tmp_path: Path) -> None:
    forest, address = forest_of("labels"), str(tmp_path / "f.zarr")
    assert save(forest, address) == forest.digest
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ArtifactError, match=naming(address, "exists")):
        save(forest, address)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_forest_that_a_job_has_laid_out_is_a_group_for_zarr_too(forest_of: ForestOf, tmp_path: Path) -> None:
    forest, address, entries = forest_of("labels"), str(tmp_path / "f.zarr"), {}
    for name, array in forest.arrays().items():
        digests = write_rows(prepare(address, name, array.shape, array.dtype), 0, array)
        entries[name] = array_entry(array.shape, array.dtype, digests)
    assert seal(address, forest.meaning, entries, {}) == forest.digest
    group = zarr.open_group(address, mode="r")
    assert all(group[name].shape == array.shape for name, array in forest.arrays().items())


def test_forests_are_opened_by_url(forest_of: ForestOf) -> None:
    save(forest_of("oblique"), "memory://somewhere/f.zarr")
    assert contents(open_forest("memory://somewhere/f.zarr")) == contents(forest_of("oblique"))


def test_provenance_is_kept_and_no_part_of_the_digest(forest_of: ForestOf, damaged: SealedOf) -> None:
    forest, path = forest_of("labels"), damaged("labels")
    seal(str(path), forest.meaning, manifest_of(path)["arrays"], {"who": ["me", 1]})
    found = open_forest(str(path))
    assert found.provenance == {"who": ["me", 1]}
    assert found.digest == forest.digest


@pytest.mark.slow
def test_chunks_of_several_arrays_come_back(
    forest_of: ForestOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distforest.forest.forest.SEALED_CHUNK_BYTES", 64)
    forest, path = forest_of("members"), tmp_path / "f.zarr"
    save(Forest.from_arrays(forest.meaning, forest.arrays()), str(path))
    assert max(len(entry["sha256"]) for entry in manifest_of(path)["arrays"].values()) > 20
    assert contents(open_forest(str(path))) == contents(forest)
    chunk = path / "distances" / "c" / "7" / "0"
    chunk.unlink()  # Zarr reads it as zeros
    assert refusal(path).startswith("distances: chunk 7")


def test_doing_a_write_twice_changes_nothing(damaged: SealedOf, forest_of: ForestOf) -> None:
    path, leaves = damaged("labels"), forest_of("labels").leaves
    before = manifest_of(path)["arrays"]["leaves"]["sha256"]
    assert write_rows(writable_array(str(path), "leaves"), 0, leaves) == before
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    assert refusal(path).startswith(f"{name}: zarr.json")
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
    zarr.open_group(str(tmp_path / "group.zarr"), mode="w")
    (tmp_path / "file").write_bytes(b"x")
    for name, found in (("nowhere", "manifest.json"), ("", "manifest.json"), ("no.zip", "no file"), ("file", "a file")):
        assert re.match(naming(f"{tmp_path / name}: ", found, ".zip", "`save`"), refusal(tmp_path / name))
    assert "manifest.json" in refusal(tmp_path / "group.zarr")
    path = damaged("labels")
    (path / "manifest.json").unlink()
    (path / "manifest.json").mkdir()
    assert "manifest.json" in refusal(path)
    with pytest.raises(ArtifactError, match="unknown-protocol://x: "):
        open_forest("unknown-protocol://x")


def test_a_manifest_is_not_read_if_it_is_too_large(damaged: SealedOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact, "MAX_MANIFEST_BYTES", 1000)
    assert "1,000 bytes" in refusal(damaged("labels"))


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
        (("chunk_key_encoding", "configuration", "separator"), ...),
        (("codecs", 1, "configuration", "cname"), "zlib"),
        (("codecs", 1, "configuration", "typesize"), 8),
        (("codecs", 2), {"name": "crc32c", "configuration": {"location": "start"}}),
        (("shape", 0), 172.0),
        (("attributes",), {"distforest": 1}),
        (("dimension_names",), ["node"]),
        (("more",), 1),
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


def checked(frame: bytes) -> bytes:
    """A chunk as it is stored: a frame, then its checksum."""
    return frame + struct.pack("<I", google_crc32c.value(frame))


FRAMES: dict[str, Callable[[bytes], bytes]] = {
    "blosc": lambda content: bytes(Blosc("lz4", 1, Blosc.BITSHUFFLE).encode(content)),
    "zstd": lambda content: bytes(Zstd(3).encode(content)),
}


def rewritten(path: Path, codec: str) -> Path:
    """A forest with its arrays as a codec writes them: Zstandard, as once; or Blosc, as now."""
    for name, entry in manifest_of(path)["arrays"].items() if codec == "zstd" else ():
        values = zarr.open_array(str(path / name), mode="r")[:]
        zarr.create_array(
            str(path / name),
            data=values,
            chunks=(entry["chunk_rows"], *(max(1, size) for size in values.shape[1:])),
            compressors=[ZstdCodec(level=1), Crc32cCodec()],
            overwrite=True,
            config={"write_empty_chunks": True},
        )
    metadata = json.loads((path / "left" / "zarr.json").read_bytes())
    assert [own["name"] for own in metadata["codecs"]] == ["bytes", codec, "crc32c"]
    return path


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_forest_that_was_written_with_zstandard_is_the_same(
    case: str, forest_of: ForestOf, damaged: SealedOf
) -> None:
    found = open_forest(str(rewritten(damaged(case), "zstd")))
    assert contents(found) == contents(forest_of(case))
    assert found.digest == forest_of(case).digest


def peak_of(path: Path) -> int:
    """Bytes that refusing a forest takes at its peak."""
    tracemalloc.start()
    try:
        assert refusal(path).startswith("left: ")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", FRAMES)
def test_a_chunk_that_decodes_to_a_huge_size_is_refused_before_it_is_decoded(codec: str, damaged: SealedOf) -> None:
    path = rewritten(damaged("labels"), codec)
    (path / "left" / "c" / "0").write_bytes(checked(FRAMES[codec](bytes(64 << 20))))
    assert peak_of(path) < 16 << 20


@pytest.mark.parametrize("codec", FRAMES)
def test_a_chunk_is_decoded_by_one_round_of_each_codec(codec: str, damaged: SealedOf) -> None:
    path, frame = rewritten(damaged("labels"), codec), FRAMES[codec]
    metadata = json.loads((path / "left" / "zarr.json").read_bytes())
    byte, packing, checksum = metadata["codecs"]
    (path / "left" / "zarr.json").write_text(json.dumps({**metadata, "codecs": [byte, packing, packing, checksum]}))
    (path / "left" / "c" / "0").write_bytes(checked(frame(frame(bytes(64 << 20)))))
    assert peak_of(path) < 16 << 20


@pytest.mark.parametrize("codec", FRAMES)
@pytest.mark.parametrize("size", [0, 1, 63, 10_000])
def test_a_chunk_of_another_size_is_refused(size: int, codec: str, damaged: SealedOf) -> None:
    path = rewritten(damaged("labels"), codec)
    (path / "left" / "c" / "0").write_bytes(checked(FRAMES[codec](bytes(size))))
    assert refusal(path).startswith("left: ")


@pytest.mark.parametrize("beyond", [-1, 1, 1 << 20])
def test_a_frame_that_is_said_to_end_elsewhere_is_refused_before_it_is_decoded(beyond: int, damaged: SealedOf) -> None:
    path = damaged("labels")
    chunk = path / "left" / "c" / "0"
    frame = bytearray(chunk.read_bytes()[:-4])
    assert struct.unpack_from("<I", frame, 12) == (len(frame),)
    struct.pack_into("<I", frame, 12, len(frame) + beyond)
    chunk.write_bytes(checked(bytes(frame)))
    assert re.match("left: chunk 0 .* None bytes", refusal(path))
