"""Outputs, which distforest writes as a whole: their recognition, and what they may replace.

An output is a forest, the answers of a scoring job, or arrays: one folder. It replaces an output of distforest of the
same kind, if that is allowed, and never anything else.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from distforest.errors import InputError
from distforest.stores.addresses import is_within, names_in, reaching, read_file, real_address, store_of

if TYPE_CHECKING:
    from collections.abc import Mapping

FOREST_KIND, ANSWERS_KIND, ARRAYS_KIND, ARRAY = "a forest", "answers", "arrays", "an array"
"""The kinds of outputs; and a single array, which is not an output."""

MANIFEST, UNFINISHED, GROUP = "manifest.json", "unfinished.json", "zarr.json"
"""Files of an output: the seal of a forest; the mark of a forest that is built in place; the metadata of a group."""

OF_ZARR = ("zarr.json", ".zgroup", ".zarray")
"""Files of a folder that is a Zarr array or group."""

MANIFEST_KEYS = {"format", "digest", "meaning", "arrays", "provenance"}
"""Keys of a manifest, in every format."""

ARRAYS_OF_ANSWERS = {"distance", "proximity", "indices", "nodes", "prediction", "proba", "ids", "indptr", "data"}
"""Arrays that a scoring job writes, beside the array with the answer's name; ``ids`` names the rows."""

OF_SIDES = {"sides", "truth"}
"""Further entries in the mark of answers that use a ground truth."""

BEGUN = "unfinished"
"""Type of a group of arrays that is being written in place."""

MAX_METADATA = 64 << 20
"""Size of the largest file that is read to recognise an output."""

MOST_NAMES_SHOWN = 3
"""Largest number of names of other files that a message lists."""


@dataclass(frozen=True)
class Found:
    """The content at an address.

    Attributes
    ----------
    words
        A description of the content, for messages.
    kind
        The kind of output; None if it is not an output.
    parts
        Names of files and folders that belong to it.
    beside
        Names of other files and folders there.
    """

    words: str
    kind: str | None = None
    parts: frozenset[str] = frozenset()
    beside: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.beside:
            return self.words
        more = f" and {len(self.beside) - MOST_NAMES_SHOWN:,} more" if len(self.beside) > MOST_NAMES_SHOWN else ""
        return f"{self.words} with {', '.join(self.beside[:MOST_NAMES_SHOWN])}{more}{' beside it' if self.kind else ''}"


def job_folder(output: str) -> str:
    """Return the folder beside an output in which its job works.

    Examples
    --------
    >>> job_folder("/data/wine.forest.zarr/")
    '/data/wine.forest.zarr.job'
    """
    return f"{real_address(output)}.job"


def look(address: str) -> Found | None:
    """Recognise the content at an address; return None if there is nothing, or an empty folder."""
    place = real_address(address)
    fs, path = store_of(place)
    with reaching(place):
        if not fs.exists(path):
            return Found("a link to itself") if "://" not in place and os.path.islink(place) else None
        if not fs.isdir(path):
            return Found("a file")
    names = set(names_in(place))
    if not names:
        return None
    found = _recognised(place, names)
    strange = sorted(name for name in names - found.parts - {GROUP} if not name.endswith(".partial"))
    return replace(found, beside=tuple(strange))


def check_kind(output: str, kind: str) -> Found | None:
    """Refuse an address with any content other than an output of this kind; raise InputError."""
    found = look(output)
    if found and found.kind != kind:
        raise _irreplaceable(output, kind, found)
    return found


def check_new(output: str, kind: str, overwrite: bool, allowing: str = "`run.overwrite`") -> None:
    """Refuse an address with content that may not be replaced; raise InputError."""
    found = check_kind(output, kind)
    if found and found.beside:
        raise _irreplaceable(output, kind, found)
    if found and not overwrite:
        raise InputError(
            f"{output}: a new name was expected, found {found}; choose another, or allow overwriting ({allowing})"
        )


def check_new_file(output: str, overwrite: bool) -> None:
    """Refuse the path of a file with content that may not be replaced; raise InputError."""
    if "://" in output:
        raise InputError(f"{output}: the path of a local file was expected, found a URL; name a file, and copy it")
    check_place(output)
    for folder in Path(real_address(output)).parents:
        if any((folder / name).exists() for name in OF_ZARR):
            expected = "a path outside groups and arrays of Zarr was expected"
            raise InputError(
                f"{output}: {expected}, found {folder}, in which a file would be in the way; name a file beside it"
            )
    path = Path(output)
    if path.exists() and not path.is_file():
        raise InputError(f"{output}: a new name was expected, found {look(output) or 'a folder'}; choose another")
    if path.exists() and not overwrite:
        raise InputError(f"{output}: a new name was expected, found a file; choose another, or allow `overwrite`")


def _irreplaceable(output: str, kind: str, found: Found) -> InputError:
    return InputError(
        f"{output}: a new name, or {kind} to replace, was expected, found {found}, which is never replaced; choose "
        "another name, or move it away"
    )


def check_place(output: str) -> None:
    """Refuse an output whose folder does not exist, as a typo must not create one; raise InputError."""
    place = real_address(output)
    if "://" not in place and not Path(place).parent.is_dir():
        raise InputError(
            f"{output}: a folder to write into was expected, found none; make {Path(place).parent}, or choose "
            "another name"
        )


def warnings_about_output(output: str, kind: str) -> tuple[str, ...]:
    """Return warnings about a local output that its job will refuse: no folder, or content that is never replaced."""
    if "://" in real_address(output):
        return ()
    try:
        check_place(output)
        check_kind(output, kind)
    except InputError as error:
        return (str(error),)
    return ()


def overlapping_addresses(output: str, addresses: Mapping[str, str]) -> dict[str, str]:
    """Return the addresses, by name, that an output equals, contains or is within, after following links.

    Examples
    --------
    >>> overlapping_addresses("/data/X.zarr", {"features": "/data/./X.zarr/X", "labels": "/data/y.zarr/y"})
    {'features': '/data/./X.zarr/X'}
    >>> overlapping_addresses("/data/X.zarr/forest.zarr", {"similarity": "/data/X.zarr"})
    {'similarity': '/data/X.zarr'}
    """
    return {name: place for name, place in addresses.items() if is_within(place, output) or is_within(output, place)}


def check_apart(output: str, addresses: Mapping[str, str]) -> None:
    """Refuse an output that equals, contains or is within an input of its job; raise InputError."""
    for name, address in overlapping_addresses(output, addresses).items():
        raise InputError(
            f"output: must not be, contain or lie in an input, found {output!r}, and {name} is {address!r}; choose "
            "another output"
        )


def _recognised(place: str, names: set[str]) -> Found:
    """Recognise the content of a folder with these names."""
    manifest = object_at(f"{place}/{MANIFEST}") if MANIFEST in names else {}
    if set(manifest) == MANIFEST_KEYS and isinstance(manifest["arrays"], dict):
        return Found("a sealed forest", FOREST_KIND, frozenset({MANIFEST, UNFINISHED, *manifest["arrays"]}))
    begun = UNFINISHED in names and MANIFEST not in names
    if begun and set(object_at(f"{place}/{UNFINISHED}")) == {"fingerprint"}:
        return Found("an unfinished forest", FOREST_KIND, frozenset(names))
    if GROUP not in names:
        return Found("a folder")
    metadata = object_at(f"{place}/{GROUP}")
    mark = distforest_attribute(metadata)
    if metadata.get("node_type") == "array":
        return Found("a Zarr array", ARRAY, frozenset(names))
    if not isinstance(mark, dict):
        return Found("a Zarr group")
    if set(mark) - OF_SIDES == {"forest", "answer", "complete"}:
        unfinished = "" if mark["complete"] else "unfinished "
        arrays = frozenset({*ARRAYS_OF_ANSWERS, str(mark["answer"])})
        return Found(f"{unfinished}answers about a forest", ANSWERS_KIND, arrays)
    if mark.get("type") == BEGUN:
        return Found("unfinished arrays", ARRAYS_KIND, frozenset(names))
    if mark.get("type") == "arrays" and isinstance(mark.get("arrays"), list):
        return Found("arrays of `distforest`", ARRAYS_KIND, frozenset(map(str, mark["arrays"])))
    return Found("a Zarr group")


def distforest_attribute(metadata: Mapping[str, object]) -> object:
    """Return the attribute ``distforest`` in the metadata of a group; None if there is none.

    Examples
    --------
    >>> distforest_attribute({"node_type": "group", "attributes": {"distforest": {"type": "arrays"}}})
    {'type': 'arrays'}
    """
    attributes = metadata.get("attributes")
    return attributes.get("distforest") if isinstance(attributes, dict) else None


def object_at(address: str) -> dict[str, object]:
    """Return the JSON object in the file at an address; an empty one if there is none."""
    try:
        return object_in(read_file(address, MAX_METADATA))
    except (ValueError, FileNotFoundError, NotADirectoryError):
        return {}


def object_in(content: bytes) -> dict[str, object]:
    """Return the JSON object in the content of a file; an empty one if there is none, or only a part of one.

    Examples
    --------
    >>> object_in(b'{"from": "forest.zarr"}'), object_in(b'{"from": "for')
    ({'from': 'forest.zarr'}, {})
    """
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
